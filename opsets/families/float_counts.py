"""Counts that operators of opset 1 have as floats: Split-1 and Tile-1 give these inputs the type of the data."""

from __future__ import annotations

import numpy as np

from opshift.opsets.registry.facts import FLOATS, Facts, constant
from opshift.opsets.registry.lowering import Reason


def in_integers(counts: Facts | None) -> Facts | None:
    """Return constant counts as integers, and anything else as it is."""
    if counts is None or counts.dtype not in FLOATS or counts.known is None:
        return counts
    return constant(counts.known.astype(np.int64))


def floats(counts: Facts | None) -> Reason | None:
    """Require that counts are floats that are computed at run time."""
    return None if counts is not None and counts.dtype in FLOATS else Reason("the counts are integers")
