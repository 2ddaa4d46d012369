"""Tile: repeat a tensor along each axis."""

import numpy as np

from opshift.opsets.carriers import MOVED
from opshift.opsets.plain import all_are, plain

OPERATOR = plain(
    "Tile",
    (6, 13),
    ("input", "repeats"),
    np.tile,
    carriers=MOVED,
    neutral=lambda what, operands: 0 if all_are(operands[1], 1) else None,
)
