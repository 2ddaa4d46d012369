"""com.microsoft::Gelu: Gelu-20 by the error function, before ONNX had it."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operators import gelu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(gelu.OPERATOR, domain=MICROSOFT, means=gelu.OPERATOR, versions=(Version(1),))
