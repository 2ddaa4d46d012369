"""Mul: the product of two tensors, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import neutral_operand, plain, two_floats, two_integers
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import WRAPPED


@lowering(18, applies_if=two_floats)
def of_rows(a, b):
    """Spread both to one shape, and multiply over an axis that has one after the other."""
    first = op.Unsqueeze(op.Expand(a, op.Shape(b)), [0])
    second = op.Unsqueeze(op.Expand(b, op.Shape(a)), [0])
    return op.ReduceProd(op.Concat(first, second, axis=0), [0], keepdims=0)


# Not of floats: added to the 0.0 that the sum of a product begins with, -0.0 is 0.0.
@lowering(13, applies_if=two_integers)
def of_matrices(a, b):
    """Multiply integers as matrices of one element."""
    return op.Squeeze(op.MatMul(op.Unsqueeze(a, [-1, -2]), op.Unsqueeze(b, [-1, -2])), [-1, -2])


def _of_dims(a: Dim, b: Dim) -> Dim:
    if 0 in (a, b):
        return 0
    return b if a == 1 else a if b == 1 else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Mul",
        (7, 13, 14),
        ("A", "B"),
        np.multiply,
        (of_rows, of_matrices, *AS_VECTOR),
        wider_types=WRAPPED,
        neutral=neutral_operand(1),
        traits=Traits(
            merges=elementwise,
            value_range=value_ranges.multiplied,
            floats=(Trait.MULTIPLIES, Trait.ONCE),
            flow=Flow.POINTWISE,
            arithmetic=Arithmetic.MULTIPLY,
            equal_dims=broadcast,
        ),
        of_dims=_of_dims,
    ),
    1,
    6,
)
