"""Tile: repeat a tensor along each axis."""

import numpy as np

from opshift.opsets.registry.plain import all_are, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED

OPERATOR = plain(
    "Tile",
    (6, 13),
    ("input", "repeats"),
    np.tile,
    wider_types=MOVED,
    neutral=lambda what, operands: 0 if all_are(operands[1], 1) else None,
    traits=Traits(floats=(Trait.MOVES,), counts=(1, 2), moved=(0,), grows=True),
)
