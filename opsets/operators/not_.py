"""Not: the negation of a boolean tensor."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = plain("Not", (1,), ("X",), np.logical_not, traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED))
