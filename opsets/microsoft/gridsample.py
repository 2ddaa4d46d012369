"""com.microsoft::GridSample: GridSample-16, before ONNX had it."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operators import gridsample
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.operator import Version

_SIXTEEN = next(version for version in gridsample.OPERATOR.versions if version.since == 16)

OPERATOR = dataclasses.replace(
    gridsample.OPERATOR,
    domain=MICROSOFT,
    means=gridsample.OPERATOR,
    versions=(Version(1, lift=_SIXTEEN.lift, spec=_SIXTEEN.spec),),
)
