"""com.microsoft::Trilu: Trilu-14, before ONNX had it."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operators import trilu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(trilu.OPERATOR, domain=MICROSOFT, means=trilu.OPERATOR, versions=(Version(1),))
