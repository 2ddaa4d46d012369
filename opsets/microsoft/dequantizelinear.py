"""com.microsoft::DequantizeLinear: DequantizeLinear-25 of a scale for all, or one for each index along an axis."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operators import dequantizelinear
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(
    dequantizelinear.OPERATOR, domain=MICROSOFT, means=dequantizelinear.OPERATOR, versions=(Version(1),)
)
