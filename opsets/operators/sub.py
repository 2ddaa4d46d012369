"""Sub: the difference of two tensors, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
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
    """Add the negative of the second."""
    return op.Add(a, op.Neg(b))


def _of_dims(a: Dim, b: Dim) -> Dim:
    return a if b == 0 else 0 if a == b and a is not None else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Sub",
        (7, 13, 14),
        ("A", "B"),
        np.subtract,
        (of_negative, *AS_VECTOR),
        wider_types=WRAPPED,
        neutral=neutral_operand(0, right_only=True),
        traits=Traits(
            merges=elementwise,
            value_range=value_ranges.subtracted,
            floats=(Trait.ADDS, Trait.ONCE),
            flow=Flow.POINTWISE,
            arithmetic=Arithmetic.SUBTRACT,
            equal_dims=broadcast,
        ),
        of_dims=_of_dims,
    ),
    1,
    6,
)
