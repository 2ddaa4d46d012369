"""Convert counts that opset 1 has as floats: inputs of Split-1 and Tile-1 have the type of the data."""

from __future__ import annotations

import numpy as np

from opshift.opsets.registry.facts import FLOATS, Facts, constant
from opshift.opsets.registry.lowering import Reason


def in_integers(counts: Facts | None) -> Facts | None:
    """Return constant counts as integers, and other operands unchanged."""
    if counts is None or counts.dtype not in FLOATS or counts.known is None:
        return counts
    return constant(counts.known.astype(np.int64))


def floats(counts: Facts | None) -> Reason | None:
    """Require floats that are computed at run time as counts."""
    return None if counts is not None and counts.dtype in FLOATS else Reason("the counts are integers")
