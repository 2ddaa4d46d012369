"""Size: the number of elements."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits

VERSIONS = (1, 13, 19, 21, 23, 24, 25)
OPERATOR = plain(
    "Size",
    VERSIONS,
    ("data",),
    lambda data: np.array(data.size, dtype=np.int64),
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.DROPPED),
)
