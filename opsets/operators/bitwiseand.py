"""BitwiseAnd: the bits that two integers have in common. Since version 18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.bitshift import BITS
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import SIGNED, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Trait, Traits


def typed(meaning: Plain, operands: Operands) -> Reason | None:
    """Ask for the element type, to which the result is cast back."""
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in BITS else Reason("it is for integers")


def own_type(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    """Bind the element type."""
    return {"to": first(operands).dtype}


def _weights(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype or 0
    # As int64, also uint64 has a sign: its highest bit.
    count = min(63, BITS[dtype] - (dtype in SIGNED))
    return {
        "weights": tuple(2**bit for bit in range(count)),
        "low": Tensor(np.array([[2.0**bit if bit < 32 else 0.0] for bit in range(count)])),
        "high": Tensor(np.array([[2.0 ** (bit - 32) if bit >= 32 else 0.0] for bit in range(count)])),
        "to": dtype,
    }


@lowering(13, applies_if=typed, bind=_weights)
def by_bits(a, b, weights: Sequence[int], low: Sequence[int], high: Sequence[int], to: int):
    """Split both into bits and a sign, and combine the products."""
    number_a = op.Cast(a, to=7)
    number_b = op.Cast(b, to=7)
    sign_a = op.Cast(op.Less(number_a, 0), to=7)
    sign_b = op.Cast(op.Less(number_b, 0), to=7)
    # The ones' complement of a negative number has all its other bits turned.
    rest_a = op.Unsqueeze(number_a * (1 - 2 * sign_a) - sign_a, [-1]) / weights
    rest_b = op.Unsqueeze(number_b * (1 - 2 * sign_b) - sign_b, [-1]) / weights
    turned_a = op.Unsqueeze(sign_a, [-1])
    turned_b = op.Unsqueeze(sign_b, [-1])
    bits_a = op.Cast(op.Not(op.Equal(rest_a - rest_a / 2 * 2, turned_a)), to=7)
    bits_b = op.Cast(op.Not(op.Equal(rest_b - rest_b / 2 * 2, turned_b)), to=7)
    sign = sign_a * sign_b
    # Summed in double, which holds each half; onnxruntime sums int64 in double too (seen in 1.31.1).
    bits = op.Cast(op.Not(op.Equal(bits_a * bits_b, turned_a * turned_b)), to=11)
    upper = op.Cast(op.Squeeze(op.MatMul(bits, high), [-1]), to=7)
    number = op.Cast(op.Squeeze(op.MatMul(bits, low), [-1]), to=7) + upper * 4294967296
    return op.Cast(number * (1 - 2 * sign) - sign, to=to)


def any_bits(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Integers of the whole range, so that every bit is set in some and not in others; some edges."""
    changed = dict(feeds)
    for name, array in feeds.items():
        if array.flags.writeable:
            info = np.iinfo(array.dtype)
            drawn = rng.integers(info.min, info.max, array.shape, array.dtype, endpoint=True)
            edges = np.array([0, info.max, info.max // 2 + 1], array.dtype)
            changed[name] = np.where(rng.random(array.shape) < 0.5, drawn, rng.choice(edges, array.shape))
    return changed


OPERATOR = plain(
    "BitwiseAnd",
    (18,),
    ("A", "B"),
    np.bitwise_and,
    (by_bits,),
    adversarial=any_bits,
    traits=Traits(merges=elementwise, value_range=value_ranges.bits, floats=(Trait.MOVES,), equal_dims=broadcast),
)
