"""Compute ranges of values: the bounds of all elements of a tensor, and how operators change them.

Operators refer to these rules in `Traits.value_range`. Each rule bounds the exact result. The caller must check that
the element type can hold it, because integers wrap and floats round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import INTEGERS, Facts

LARGEST_DIM = 2**31 - 1
"""The largest dim that a range assumes: a tensor with a larger one has at least 2 GiB."""


@dataclass(frozen=True)
class ValueRange:
    """The numbers from `low` to `high`, both included; integers are exact, and an infinity is no bound."""

    low: float
    high: float

    def __contains__(self, other: object) -> bool:
        """Return whether all numbers of another range are in this one."""
        return isinstance(other, ValueRange) and self.low <= other.low and other.high <= self.high

    def __or__(self, other: ValueRange) -> ValueRange:
        """Return the smallest range that contains both."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))

    def __and__(self, other: ValueRange) -> ValueRange:
        """Return the intersection; this range if it is empty."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return ValueRange(low, high) if low <= high else self

    def __str__(self) -> str:
        """Show both ends."""
        return f"[{self.low}, {self.high}]"


SIGNIFICANT_BITS: Mapping[int, int] = {
    TensorProto.DOUBLE: 53,
    TensorProto.FLOAT: 24,
    TensorProto.FLOAT16: 11,
    TensorProto.BFLOAT16: 8,
}
"""The significant bits of floats, the implicit one included: IEEE 754, table 3.5."""

UNBOUNDED = ValueRange(-math.inf, math.inf)
ZERO, BIT, DIM = ValueRange(0, 0), ValueRange(0, 1), ValueRange(0, LARGEST_DIM)


@dataclass(frozen=True)
class RangeNode:
    """A node in the form for rules.

    Attributes:
        attributes: the node's attributes.
        ranges: the range of each input, None for an omitted one.
        facts: the facts about each input, None for an omitted one.
        outputs: the facts about each output.
    """

    attributes: Mapping[str, Any]
    ranges: Sequence[ValueRange | None]
    facts: Sequence[Facts | None]
    outputs: Sequence[Facts]

    def range(self, index: int) -> ValueRange | None:
        """Return the range of an input, None if it is omitted."""
        return self.ranges[index] if index < len(self.ranges) else None

    def fact(self, index: int) -> Facts | None:
        """Return the facts about an input, None if it is omitted."""
        return self.facts[index] if index < len(self.facts) else None

    @property
    def present(self) -> list[ValueRange]:
        """The ranges of the present inputs."""
        return [one for one in self.ranges if one is not None]


Rule = Callable[[RangeNode], Sequence[ValueRange | None]]
"""Returns the range of each output; None or nothing for an unbounded one."""


def of_type(dtype: int | None) -> ValueRange:
    """Return the range of all values of an element type."""
    if dtype == TensorProto.BOOL:
        return BIT
    if dtype in INTEGERS:
        assert dtype is not None
        limits = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(dtype))
        return ValueRange(int(limits.min), int(limits.max))
    return UNBOUNDED


def whole_numbers_of_type(dtype: int) -> ValueRange:
    """Return the range of integers in which a type holds all integers."""
    bits = SIGNIFICANT_BITS.get(dtype)
    return of_type(dtype) if bits is None else ValueRange(-(2**bits), 2**bits)


def of_array(array: np.ndarray[Any, Any]) -> ValueRange | None:
    """Return the range of elements, including an object array's symbols and unknown elements; None if it is empty."""
    if array.dtype == object:
        found = [ValueRange(one, one) if isinstance(one, int) else DIM for one in array.reshape(-1)]
        # An unknown element may be any number; a symbol is a dim.
        if any(one is None or not isinstance(one, int | str) for one in array.reshape(-1)):
            return None
        return None if not found else ValueRange(min(one.low for one in found), max(one.high for one in found))
    if not array.size or array.dtype.kind not in "biuf":
        return None
    low, high = array.min().item(), array.max().item()
    return None if low != low or high != high else ValueRange(low, high)


# --- rules for element-wise operators ---------------------------------------------------------------------------------


def _two(rule: Callable[[ValueRange, ValueRange], ValueRange | None]) -> Rule:
    def of_inputs(node: RangeNode) -> Sequence[ValueRange | None]:
        first, second = node.range(0), node.range(1)
        return () if first is None or second is None else (rule(first, second),)

    return of_inputs


def _one(rule: Callable[[ValueRange], ValueRange]) -> Rule:
    def of_input(node: RangeNode) -> Sequence[ValueRange | None]:
        first = node.range(0)
        return () if first is None else (rule(first),)

    return of_input


def times(one: float, other: float) -> float:
    """Return a product in which 0 times an infinite bound is 0, because the bound is never reached."""
    return 0 if one == 0 or other == 0 else one * other


def _power(base: float, exponent: float) -> float:
    """Return a power of a number of at least 1; infinity if it may overflow a double."""
    return math.inf if exponent * math.log2(base) > 1000 else base**exponent


def _product(one: ValueRange, other: ValueRange) -> ValueRange:
    ends = [times(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
    return ValueRange(min(ends), max(ends))


added = _two(lambda a, b: ValueRange(a.low + b.low, a.high + b.high))
subtracted = _two(lambda a, b: ValueRange(a.low - b.high, a.high - b.low))
multiplied = _two(_product)


def divided(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of a division: integers are truncated towards zero, and their divisors are not 0."""
    first, second, facts = node.range(0), node.range(1), node.fact(0)
    if first is None or second is None:
        return ()
    whole = facts is not None and facts.dtype in INTEGERS
    if second.low <= 0 <= second.high and not whole:
        return ()
    divisors = [
        one
        for low, high in ((second.low, min(second.high, -1 if whole else second.high)),
                          (max(second.low, 1 if whole else second.low), second.high))
        if low <= high
        for one in (low, high)
    ]  # fmt: skip
    ends = [_quotient(a, b, whole=whole) for a in (first.low, first.high) for b in divisors]
    # If the two ends have different signs, the quotient passes through zero.
    ends += [0] * (first.low <= 0 <= first.high)
    return (ValueRange(min(ends), max(ends)),) if ends else ()


def _quotient(dividend: float, divisor: float, *, whole: bool) -> float:
    if math.isinf(divisor):
        return 0
    if math.isinf(dividend) or not whole:
        return dividend / divisor
    size = abs(int(dividend)) // abs(int(divisor))
    return size if (dividend < 0) == (divisor < 0) else -size


def remainder(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Mod: smaller than the divisor, with its sign; with `fmod`, with the sign of the dividend."""
    first, second = node.range(0), node.range(1)
    if first is None or second is None:
        return ()
    most = max(abs(second.low), abs(second.high))
    if node.attributes.get("fmod"):
        most = min(most, max(abs(first.low), abs(first.high)))
        return (ValueRange(-most if first.low < 0 else 0, most if first.high > 0 else 0),)
    return (ValueRange(-most if second.low < 0 else 0, most if second.high > 0 else 0),)


negated = _one(lambda a: ValueRange(-a.high, -a.low))
inverted = _one(lambda a: ValueRange(-a.high - 1, -a.low - 1))
rectified = _one(lambda a: ValueRange(max(a.low, 0), max(a.high, 0)))
signs = _one(lambda a: ValueRange((a.low > 0) - (a.low < 0), (a.high > 0) - (a.high < 0)))
same = _one(lambda a: a)


@_one
def absolute(one: ValueRange) -> ValueRange:
    """Return the range of Abs."""
    low = 0 if one.low <= 0 <= one.high else min(abs(one.low), abs(one.high))
    return ValueRange(low, max(abs(one.low), abs(one.high)))


@_one
def whole(one: ValueRange) -> ValueRange:
    """Return the range of Floor, Ceil and Round: no further from zero than the next integers."""
    return ValueRange(
        one.low if math.isinf(one.low) else math.floor(one.low),
        one.high if math.isinf(one.high) else math.ceil(one.high),
    )


def bits(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of BitwiseAnd, BitwiseOr and BitwiseXor: the result needs no more bits than the inputs."""
    if any(math.isinf(end) for one in node.present for end in (one.low, one.high)):
        return ()
    negative = any(one.low < 0 for one in node.present)
    size = max((int(max(-one.low - 1, one.high, 0)).bit_length() for one in node.present), default=0)
    return (ValueRange(-(2**size) if negative else 0, 2**size - 1),)


def largest(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Max."""
    return (ValueRange(max(one.low for one in node.present), max(one.high for one in node.present)),)


def smallest(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Min."""
    return (ValueRange(min(one.low for one in node.present), min(one.high for one in node.present)),)


def clipped(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Clip.

    Max with the lower bound, then Min with the upper one; below opset 11 both are attributes.
    """
    found, low, high = node.range(0), node.range(1), node.range(2)
    if found is None:
        return ()
    if "min" in node.attributes:
        low = ValueRange(node.attributes["min"], node.attributes["min"])
    if "max" in node.attributes:
        high = ValueRange(node.attributes["max"], node.attributes["max"])
    if low is not None:
        found = ValueRange(max(found.low, low.low), max(found.high, low.high))
    if high is not None:
        found = ValueRange(min(found.low, high.low), min(found.high, high.high))
    return (found,)


def powers(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Pow of nonnegative numbers."""
    base, exponent = node.range(0), node.range(1)
    if base is None or exponent is None or base.low < 0 or exponent.low < 0 or exponent.high > 64:
        return ()
    return (ValueRange(0, _power(max(base.high, 1), exponent.high)),)


def converted(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Cast and CastLike: floats are truncated, true is 1, and nonzero numbers are true."""
    found, before, after = node.range(0), node.fact(0), node.outputs[0].dtype
    if found is None or before is None or before.dtype == TensorProto.STRING:
        return ()
    if after == TensorProto.BOOL and before.dtype not in INTEGERS:
        return (BIT if before.dtype == TensorProto.BOOL else UNBOUNDED,)
    if after in INTEGERS and not (math.isinf(found.low) or math.isinf(found.high)):
        found = ValueRange(math.trunc(found.low), math.trunc(found.high))
    return (found,)


# --- rules for sums and reductions --------------------------------------------------------------------------------


def _count(node: RangeNode) -> float:
    """Return the maximum number of input elements for each output element of a reduction."""
    data, axes = node.fact(0), node.fact(1)
    if data is None or data.shape is None:
        return math.inf
    chosen = node.attributes.get("axes")
    if axes is not None:
        chosen = None if axes.known is None else axes.known.reshape(-1).tolist()
    dims = (
        data.shape
        if not chosen
        else [data.shape[axis] for axis in chosen if -len(data.shape) <= axis < len(data.shape)]
    )
    return math.prod(dim if isinstance(dim, int) else LARGEST_DIM for dim in dims)


def _total(one: ValueRange, count: float) -> ValueRange:
    return ValueRange(min(times(one.low, count), one.low, 0), max(times(one.high, count), one.high, 0))


def summed(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ReduceSum, including its partial sums."""
    first = node.range(0)
    return () if first is None else (_total(first, _count(node)),)


def absolutes_summed(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ReduceL1."""
    first = node.range(0)
    return () if first is None else (_total(ValueRange(0, max(abs(first.low), abs(first.high))), _count(node)),)


def squares_summed(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ReduceSumSquare."""
    first = node.range(0)
    return () if first is None else (_total(_product(first, first) | ZERO, _count(node)),)


def accumulated(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of CumSum: sums along one axis, at most the longest."""
    first, data = node.range(0), node.fact(0)
    if first is None or data is None or data.shape is None:
        return ()
    lengths = [dim if isinstance(dim, int) else LARGEST_DIM for dim in data.shape]
    return (_total(first, max(lengths, default=1)),)


def multiplied_up(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ReduceProd, including its partial products."""
    first, count = node.range(0), _count(node)
    if first is None or count > 64:
        return ()
    size = _power(max(abs(first.low), abs(first.high), 1), count)
    return (ValueRange(-size if first.low < 0 else 0, size),)


def reduced(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ReduceMax and ReduceMin: without elements, the smallest or the largest number of the type."""
    first, data = node.range(0), node.fact(0)
    if (
        first is None
        or data is None
        or data.shape is None
        or not all(isinstance(dim, int) and dim for dim in data.shape)
    ):
        return ()
    return (first,)


def products_summed(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of MatMul, which sums over the last axis of the first factor."""
    first, second, data = node.range(0), node.range(1), node.fact(0)
    length = data.dim(-1) if data is not None and data.shape else None
    if first is None or second is None or not isinstance(length, int):
        return ()
    return (_total(_product(first, second), length),)


# --- rules for positions and counts -----------------------------------------------------------------------------------


def dims(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Shape: the dims of the input."""
    data = node.fact(0)
    if data is None or data.shape is None:
        return (DIM,)
    return (of_array(np.array([*data.shape, 0], dtype=object)) or DIM,)


def elements(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Size: the number of elements of the input."""
    data = node.fact(0)
    size = None if data is None else data.size
    return (DIM if size is None else ValueRange(size, size),)


def _positions(data: Facts | None) -> ValueRange:
    if data is None or data.shape is None or not all(isinstance(dim, int) for dim in data.shape):
        return DIM
    return ValueRange(0, max([dim for dim in data.shape if isinstance(dim, int)], default=1))


def positions(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of ArgMax, ArgMin and NonZero: indices along an axis of the input."""
    return (_positions(node.fact(0)),)


def moved_and_positions(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the ranges of TopK and Unique: elements of the input, then indices and counts of at most all elements."""
    data = node.fact(0)
    size = DIM if data is None or data.size is None else ValueRange(0, data.size)
    return (node.range(0), size, size, size)


def counts(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return a dim for each output: indices and counts of lists without a tensor."""
    return (DIM,) * len(node.outputs)


def places(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the ranges of MaxPool: elements of the input, and their indices in the flattened input."""
    return (node.range(0), *elements(node))


def stepped(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return the range of Range: numbers from the start up to the limit, or down to it."""
    start, limit = node.range(0), node.range(1)
    return () if start is None or limit is None else (start | limit,)


def chosen(*inputs: int) -> Rule:
    """Return the rule for elements of some inputs, or zeros."""

    def of_inputs(node: RangeNode) -> Sequence[ValueRange | None]:
        found = ZERO
        for index in inputs:
            found |= node.range(index) or ZERO
        return (found,) * len(node.outputs)

    return of_inputs


def joined_if(name: str, *inputs: int) -> Rule:
    """Return the same rule for an operator whose attribute of this name may select sums or products instead."""

    def of_inputs(node: RangeNode) -> Sequence[ValueRange | None]:
        return chosen(*inputs)(node) if node.attributes.get(name, "none") == "none" else ()

    return of_inputs


def zero_to_one(node: RangeNode) -> Sequence[ValueRange | None]:
    """Return 0 to 1: probabilities, and matrices of zeros and ones."""
    return (BIT,) * len(node.outputs)
