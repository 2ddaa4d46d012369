"""Mul: the product of two tensors, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.plain import neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import WRAPPED


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
        AS_VECTOR,
        wider_types=WRAPPED,
        neutral=neutral_operand(1),
        traits=Traits(
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
