"""HardmaxAxes: a hardmax over any set of axes, DirectML's ACTIVATION_HARDMAX1, in the domain `opshift`."""

from __future__ import annotations

import dataclasses

from opshift.opsets.operator import Version
from opshift.opsets.operators import hardmax
from opshift.opsets.rows import Rows

OPERATOR = dataclasses.replace(
    hardmax.OPERATOR,
    name="HardmaxAxes",
    domain="opshift",
    means=hardmax.OPERATOR,
    versions=(Version(1, lift=lambda attributes: Rows(tuple(attributes["axes"] or ()))),),
)
