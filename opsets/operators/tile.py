"""Tile: repeat a tensor along each axis."""

import numpy as np

from opshift.opsets.carriers import MOVED
from opshift.opsets.plain import plain

OPERATOR = plain("Tile", (6, 13), ("input", "repeats"), np.tile, carriers=MOVED)
