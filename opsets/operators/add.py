"""Add: the sum of two tensors, broadcast."""

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


@lowering(13)
def of_negative(a, b):
    """Subtract the negative of the second."""
    return op.Sub(a, op.Neg(b))


@lowering(13, applies_if=two_floats)
def summed(a, b):
    """Take the sum of two tensors of floats."""
    return op.Sum(a, b)


@lowering(13, applies_if=two_integers)
def of_matrices(a, b):
    """Spread two tensors of integers to one shape, and multiply the pairs by a column of ones."""
    first = op.Unsqueeze(op.Expand(a, op.Shape(b)), [-1])
    second = op.Unsqueeze(op.Expand(b, op.Shape(a)), [-1])
    return op.MatMul(op.Concat(first, second, axis=-1), op.CastLike([1, 1], a))


def _of_dims(a: Dim, b: Dim) -> Dim:
    return b if a == 0 else a if b == 0 else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Add",
        (7, 13, 14),
        ("A", "B"),
        np.add,
        (of_negative, summed, of_matrices, *AS_VECTOR),
        wider_types=WRAPPED,
        neutral=neutral_operand(0, floats=-0.0),
        traits=Traits(
            merges=elementwise,
            value_range=value_ranges.added,
            floats=(Trait.ADDS, Trait.ONCE),
            flow=Flow.POINTWISE,
            arithmetic=Arithmetic.ADD,
            equal_dims=broadcast,
        ),
        of_dims=_of_dims,
    ),
    1,
    6,
)
