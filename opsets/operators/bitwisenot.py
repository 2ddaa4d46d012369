"""BitwiseNot: the bits that an integer does not have. Since version 18."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.bitwiseand import any_bits, own_type, typed
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Trait, Traits


@lowering(13, applies_if=typed, bind=own_type)
def complement(x, to: int):
    """Subtract the number from -1, in which all bits are set."""
    return op.Cast(-1 - op.Cast(x, to=7), to=to)


OPERATOR = plain(
    "BitwiseNot",
    (18,),
    ("X",),
    np.bitwise_not,
    (complement,),
    adversarial=any_bits,
    traits=Traits(merges=elementwise, value_range=value_ranges.inverted, floats=(Trait.MOVES,)),
)
