"""BitwiseXor: the bits that one of two integers has. Since version 18."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.bitwiseand import any_bits
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Trait, Traits


@lowering(18)
def by_sum(a, b):
    """Subtract the common bits twice from the sum."""
    both = op.BitwiseAnd(a, b)
    return op.Sub(op.Sub(op.Add(a, b), both), both)


OPERATOR = plain(
    "BitwiseXor",
    (18,),
    ("A", "B"),
    np.bitwise_xor,
    (by_sum,),
    adversarial=any_bits,
    neutral=neutral_operand(0),
    traits=Traits(merges=elementwise, value_range=value_ranges.bits, floats=(Trait.MOVES,), equal_dims=broadcast),
)
