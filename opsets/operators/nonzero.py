"""NonZero: the indices of the elements that are not zero, in row-major order."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = plain(
    "NonZero",
    (9, 13),
    ("X",),
    lambda x: np.array(np.nonzero(x), dtype=np.int64),
    weight=3.0,
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED),
)
