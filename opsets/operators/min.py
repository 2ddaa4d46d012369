"""Min: the smallest of several tensors, broadcast."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import AS_VECTOR, alone
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.plain import (
    all_bits,
    distinct_upper_halves,
    more_than_two,
    of_two_shapes,
    one_shape,
    own_type,
    plain,
    single_operand,
    two_floats,
    two_integers,
)
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import EVERY, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13, applies_if=two_integers)
def chosen(a, b):
    """Select the smaller of two."""
    return op.Where(op.Less(a, b), a, b)


@lowering(13, applies_if=two_floats)
def chosen_of_floats(a, b):
    """Select the smaller of two; a NaN in either is selected."""
    return op.Where(op.Or(op.Less(b, a), op.IsNaN(b)), b, a)


@lowering(13, applies_if=more_than_two, variadic=True)
def in_pairs(a, between, b):
    """Compute the smallest of all but the last, then the smaller of that and the last."""
    return meaning.Min(meaning.Min(a, between), b)


@lowering(7, applies_if=of_two_shapes, bind=own_type)
def spread(a, b, to: int):
    """Add zeros of the shape that both are broadcast to, which a comparison has: no NaN or infinity is lost."""
    less = op.Less(a, b)
    zeros = op.Cast(op.And(less, op.Not(less)), to=to)
    return op.Min(a + zeros, b + zeros)


@lowering(13, applies_if=two_floats)
def of_negatives(a, b):
    """Negate the larger of the negatives."""
    return op.Neg(op.Max(op.Neg(a), op.Neg(b)))


# Not of negatives: the lowest integer has none.
@lowering(13, applies_if=two_integers, bind=all_bits)
def of_complements(a, b, ones: Sequence[int]):
    """Subtract from the integer with all bits set, which turns the order, take the larger, and subtract again."""
    return op.Sub(ones, op.Max(op.Sub(ones, a), op.Sub(ones, b)))


OPERATOR = plain(
    "Min",
    (1, 6, 8, 12, 13),
    (),
    lambda *x: functools.reduce(np.minimum, x),
    (chosen, chosen_of_floats, in_pairs, spread, alone, of_negatives, of_complements, *AS_VECTOR),
    variadic=True,
    adversarial=distinct_upper_halves,
    applies_if={6: one_shape},
    wider_types=ORDERED,
    neutral=single_operand,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.smallest,
        floats=(Trait.SELECTS,),
        compares=True,
        flow=Flow.POINTWISE,
        clamped=EVERY,
        equal_dims=broadcast,
    ),
)
