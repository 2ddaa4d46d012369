"""HardmaxAxes: a hardmax over any set of axes, DirectML's ACTIVATION_HARDMAX1, in the domain `opshift`."""

from __future__ import annotations

import dataclasses

from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import hardmax
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(
    hardmax.OPERATOR,
    name="HardmaxAxes",
    domain="opshift",
    means=hardmax.OPERATOR,
    versions=(Version(1, lift=lambda attributes: Rows(tuple(attributes["axes"] or ()))),),
)
