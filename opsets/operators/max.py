"""Max: the largest of several tensors, broadcast."""

from __future__ import annotations

import functools

import numpy as np

from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import alone, apart, one_shape, plain, two_integers
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import EVERY, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13, given=two_integers)
def chosen(a, b):
    """Choose the larger of two."""
    return op.Where(op.Less(a, b), b, a)


OPERATOR = plain(
    "Max",
    (6, 8, 12, 13),
    (),
    lambda *x: functools.reduce(np.maximum, x),
    (chosen,),
    variadic=True,
    hostile=apart,
    given={6: one_shape},
    carriers=ORDERED,
    neutral=alone,
    traits=Traits(floats=(Trait.SELECTS,), compares=True, flow=Flow.POINTWISE, clamped=EVERY, equal_dims=broadcast),
)
