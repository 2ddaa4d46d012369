"""Add: the sum of two tensors, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import WRAPPED


@lowering(13)
def of_negative(a, b):
    """Subtract the negative of the second."""
    return op.Sub(a, op.Neg(b))


def _of_dims(a: Dim, b: Dim) -> Dim:
    return b if a == 0 else a if b == 0 else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Add",
        (7, 13, 14),
        ("A", "B"),
        np.add,
        (of_negative, *AS_VECTOR),
        wider_types=WRAPPED,
        neutral=neutral_operand(0, floats=-0.0),
        traits=Traits(
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
