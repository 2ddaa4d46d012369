"""Interprets the body of a lowering on tensors whose elements and dimensions may be terms of z3.

A tensor is a function from positions to elements, as in the specifications of the operators. Operators that move
elements compute positions only; a reduction over a dimension that is a term defines a new constant by its properties.
Reshape merges and splits positions as digits: `Digits` is the position in a merged dimension, in row-major order.
`test_digits_*` prove that this is the arithmetic of row-major order over unbounded integers.

The operators are those of opset 18, written from their specifications, as far as the lowerings of Hardmax, ArgMax and
OneHot use them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import symbolic_terms as terms
from onnx import TensorProto, helper
from symbolic_terms import BOTTOM, Proof, Scalar, UninterpretedError, z3

from opshift.opsets.registry.facts import Tensor as Constant
from opshift.opsets.registry.lowering import Body
from opshift.opsets.registry.operator import SPELLING, Lifted, bound

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


@dataclass(frozen=True)
class Digits:
    """A position in a merged dimension: positions in the dimensions that were merged, with those dimensions."""

    parts: tuple[tuple[Scalar, Scalar], ...]


Index: TypeAlias = tuple[Any, ...]
At: TypeAlias = Callable[[Index], Scalar]


@dataclass(frozen=True)
class Tensor:
    """An element type, dimensions, and the element at each position.

    `merged` lists, for each dimension, the dimensions that were merged into it.
    """

    dtype: int
    shape: tuple[Scalar, ...]
    at: At
    merged: tuple[tuple[Scalar, ...], ...] | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def digits(self, axis: int) -> tuple[Scalar, ...]:
        """Return the dimensions that make up a dimension, without those of length 1."""
        dims = self.merged[axis] if self.merged else (self.shape[axis],)
        return tuple(dim for dim in dims if not _is(dim, 1))


# --- dimensions -------------------------------------------------------------------------------------------------------


def factors(dim: Scalar) -> tuple[int, tuple[str, ...], dict[str, Any]]:
    """Return a dimension as a product: a number, the sorted names of its other factors, and these factors."""
    if not terms.is_term(dim):
        return int(dim), (), {}
    if z3.is_int_value(dim):
        return dim.as_long(), (), {}
    if not z3.is_app_of(dim, z3.Z3_OP_MUL):
        return 1, (str(dim),), {str(dim): dim}
    number = 1
    names: list[str] = []
    named: dict[str, Any] = {}
    for part in dim.children():
        one, more, found = factors(part)
        number *= one
        names += more
        named.update(found)
    return number, tuple(sorted(names)), named


def times(dims: Sequence[Scalar]) -> Scalar:
    """Return the product of dimensions."""
    number = 1
    names: list[str] = []
    named: dict[str, Any] = {}
    for dim in dims:
        one, more, found = factors(dim)
        number *= one
        names += more
        named.update(found)
    result: Scalar = number
    for name in sorted(names):
        result = named[name] if _is(result, 1) else result * named[name]
    return 0 if number == 0 else result


def divided(whole: Scalar, part: Scalar) -> Scalar:
    """Return the quotient of two dimensions where the second divides the first."""
    number, names, named = factors(whole)
    by, others, _ = factors(part)
    left = list(names)
    for name in others:
        if name not in left:
            raise UninterpretedError(f"{whole} divided by {part}")
        left.remove(name)
    if number % by:
        raise UninterpretedError(f"{whole} divided by {part}")
    return times([number // by, *(named[name] for name in left)])


def same(left: Scalar, right: Scalar) -> bool:
    """Return whether two dimensions are the same product."""
    return factors(left)[:2] == factors(right)[:2]


def same_product(left: Sequence[Scalar], right: Sequence[Scalar]) -> bool:
    """Return whether two lists of dimensions have the same product."""
    products = []
    for dims in (left, right):
        found = [factors(dim) for dim in dims]
        names = sorted(name for _, names, _ in found for name in names)
        products.append((math.prod(number for number, _, _ in found), names))
    return products[0] == products[1]


def size(number: Scalar) -> Scalar:
    """Return an element of a shape as a dimension."""
    if not terms.is_term(number):
        return int(number)
    simple = z3.simplify(number)
    if z3.is_bv_value(simple):
        return simple.as_signed_long()
    return simple.as_long() if z3.is_int_value(simple) else simple


def _is(dim: Scalar, number: int) -> bool:
    return not terms.is_term(dim) and int(dim) == number


# --- positions --------------------------------------------------------------------------------------------------------


def digits_of(position: Any, dims: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return the digits of a position in a dimension that was merged from these, none of which is 1."""
    parts = [(digit, dim) for digit, dim in _parts(position, times(dims)) if not _is(dim, 1)]
    if len(parts) == len(dims) and all(same(dim, other) for (_, dim), other in zip(parts, dims, strict=True)):
        return tuple(digit for digit, _ in parts)
    if len(dims) == 1:
        return (value(position),)
    return _split(value(position), dims)


def _parts(position: Any, dim: Scalar) -> list[tuple[Scalar, Scalar]]:
    if not isinstance(position, Digits):
        return [(position, dim)]
    return [part for digit, one in position.parts for part in _parts(digit, one)]


def _split(number: Scalar, dims: Sequence[Scalar]) -> tuple[Scalar, ...]:
    strides = [times(dims[place + 1 :]) for place in range(len(dims))]
    quotients = [number if _is(stride, 1) else _quotient(number, stride) for stride in strides]
    rest = (_remainder(one, dim) for one, dim in zip(quotients[1:], dims[1:], strict=True))
    return (quotients[0], *rest)


def _quotient(number: Scalar, by: Scalar) -> Scalar:
    """Return the quotient of numbers that are not negative."""
    return number / by if terms.is_term(number) or terms.is_term(by) else number // by


def _remainder(number: Scalar, by: Scalar) -> Scalar:
    return number % by


def _remainder_of_numbers(number: Scalar, by: Scalar) -> Scalar:
    if terms.is_term(number) or terms.is_term(by):
        raise UninterpretedError("Mod of unknown numbers")
    return number % by


def joined(parts: Sequence[tuple[Any, Scalar]]) -> Any:
    """Return the position in a dimension merged from these."""
    kept = tuple((digit, dim) for digit, dim in parts if not _is(dim, 1))
    if not kept:
        return 0
    return kept[0][0] if len(kept) == 1 else Digits(kept)


def value(position: Any) -> Scalar:
    """Return a position as a number."""
    if not isinstance(position, Digits):
        return position
    number: Scalar = 0
    for digit, dim in position.parts:
        number = value(digit) if _is(number, 0) else number * dim + value(digit)
    return number


def key_of(index: Index) -> tuple[Any, ...]:
    """Return a key of a position, which holds its terms, so that their numbers are not given to others."""
    return tuple(
        (one.get_id(), _Held(one))
        if terms.is_term(one)
        else key_of(tuple(part for pair in one.parts for part in pair))
        if isinstance(one, Digits)
        else one
        for one in index
    )


@dataclass(frozen=True)
class _Held:
    term: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and bool(self.term.eq(other.term))

    def __hash__(self) -> int:
        return int(self.term.get_id())


def remembered(proof: Proof, at: At) -> At:
    """Return a function that computes each element once, and requires the same conditions each time."""
    known: dict[Any, tuple[Scalar, list[Any]]] = {}

    def once(index: Index) -> Scalar:
        key = key_of(index)
        if key not in known:
            known[key] = proof.traced(lambda: at(index))
            return known[key][0]
        result, conditions = known[key]
        for condition in conditions:
            proof.require(condition)
        return result

    return once


# --- tensors ----------------------------------------------------------------------------------------------------------


def from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a constant; at a position that is a term, the choice among its elements."""
    items = array.tolist()

    def at(index: Index) -> Scalar:
        return _chosen(items, array.shape, tuple(value(one) for one in index))

    return Tensor(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, at)


def _chosen(items: Any, dims: Sequence[int], index: Index) -> Scalar:
    if not dims:
        return items
    if not terms.is_term(index[0]):
        return _chosen(items[int(index[0])], dims[1:], index[1:])
    found = [_chosen(one, dims[1:], index[1:]) for one in items]
    result = found[-1]
    for place in range(len(found) - 2, -1, -1):
        result = terms.choice(terms.equal(index[0], place), found[place], result)
    return result


def vector(dtype: int, items: Sequence[Scalar]) -> Tensor:
    """Return a vector of elements."""
    held = list(items)
    return Tensor(dtype, (len(held),), lambda index: _chosen(held, (len(held),), (value(index[0]),)))


def elements(tensor: Tensor) -> list[Scalar]:
    """Return the elements of a scalar or of a vector of known length."""
    if tensor.rank == 0:
        return [tensor.at(())]
    if tensor.rank != 1 or terms.is_term(tensor.shape[0]):
        raise UninterpretedError(f"elements of {tensor.shape}")
    return [tensor.at((place,)) for place in range(tensor.shape[0])]


def integers(tensor: Tensor) -> list[int]:
    """Return the elements, all of which are numbers."""
    found = [size(one) for one in elements(tensor)]
    if any(terms.is_term(one) for one in found):
        raise UninterpretedError(f"{found} are not constant")
    return [int(one) for one in found]


def broadcast(shapes: Sequence[Sequence[Scalar]]) -> tuple[Scalar, ...]:
    """Return the shape that all shapes are broadcast to."""
    rank = max(map(len, shapes))
    result: list[Scalar] = []
    for place in range(-rank, 0):
        dims = [shape[place] for shape in shapes if len(shape) >= -place]
        longer = [dim for dim in dims if not _is(dim, 1)]
        if any(not same(dim, longer[0]) for dim in longer):
            raise UninterpretedError(f"{dims} in one place")
        result.append(longer[0] if longer else 1)
    return tuple(result)


def within(tensor: Tensor, index: Index) -> Index:
    """Return the position in a tensor that is broadcast."""
    last = index[len(index) - tensor.rank :]
    return tuple(0 if _is(dim, 1) else one for dim, one in zip(tensor.shape, last, strict=True))


def each(proof: Proof, dtype: int, function: Callable[..., Scalar], *inputs: Tensor) -> Tensor:
    """Return the tensor of a function of the elements of broadcast tensors."""
    shape = broadcast([one.shape for one in inputs])
    return Tensor(
        dtype,
        shape,
        remembered(proof, lambda index: function(*(one.at(within(one, index)) for one in inputs))),
        next((one.merged for one in inputs if one.merged and one.rank == len(shape)), None),
    )


def from_front(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis


def replaced(index: Index, axis: int, position: Any) -> Index:
    """Return a position with another digit on an axis."""
    return (*index[:axis], position, *index[axis + 1 :])


# --- rows -------------------------------------------------------------------------------------------------------------


def best(
    proof: Proof, data: Tensor, index: Index, axes: Sequence[int], *, last: bool = False, least: bool = False
) -> tuple[Scalar, ...]:
    """Return the digits of the first (or last) maximum of the row through a position; with `least`, of the minimum.

    It is defined by its properties: no element is larger, and none before it (after it) is as large. A row that is not
    empty has one such position. Rows of the same elements in the same order share it.
    """
    dims = tuple(digit for axis in axes for digit in data.digits(axis))

    def element(place: tuple[Scalar, ...]) -> Scalar:
        return data.at(_placed(data, index, axes, place))

    places = places_of(dims) or []
    numbers = [element(place) for place in places] if data.dtype == INT64 else []
    if numbers and not any(map(terms.is_term, numbers)):
        order = reversed(range(len(places))) if last else range(len(places))
        return places[(min if least else max)(order, key=numbers.__getitem__)]
    generic = tuple(z3.Int(f"digit{number}") for number in range(len(dims)))
    proof.guards.append(terms.inside(generic, dims))
    row = element(generic)
    proof.guards.pop()
    key = (key_of((row, *dims, *generic)), last, least, data.dtype in terms.UNSIGNED)
    if key not in proof.rows:
        found = proof.position("best", dims)
        proof.rows[key] = found
        top = element(found)

        def fact(place: tuple[Scalar, ...]) -> Scalar:
            here = element(place)
            earlier = terms.before(found, place) if last else terms.before(place, found)
            worse, better = terms.less(here, top, data.dtype), terms.less(top, here, data.dtype)
            if least:
                worse, better = better, worse
            return terms.both(terms.negated(better), terms.implies(earlier, worse))

        proof.always(dims, fact)
    found = proof.rows[key]
    return tuple(found)


def _placed(data: Tensor, index: Index, axes: Sequence[int], place: Sequence[Scalar]) -> Index:
    """Return a position with the digits of a row put into its axes."""
    left = list(place)
    for axis in axes:
        dims = data.digits(axis)
        mine, left = left[: len(dims)], left[len(dims) :]
        index = replaced(index, axis, joined(list(zip(mine, dims, strict=True))))
    return index


def arg_max(
    proof: Proof, data: Tensor, axis: int, *, keep: bool, last: bool, dtype: int = INT64, least: bool = False
) -> Tensor:
    """Return the index of the maximum (or minimum), as `best` defines it."""
    axis = from_front(axis, data.rank)

    def at(index: Index) -> Scalar:
        full = index if keep else (*index[:axis], 0, *index[axis:])
        found = best(proof, data, full, [axis], last=last, least=least)
        return terms.cast(proof, value(joined(list(zip(found, data.digits(axis), strict=True)))), INT64, dtype)

    shape = replaced(data.shape, axis, 1) if keep else (*data.shape[:axis], *data.shape[axis + 1 :])
    return Tensor(dtype, shape, remembered(proof, at))


def hard_max(proof: Proof, data: Tensor, axes: Sequence[int]) -> Tensor:
    """Return one in the first maximum of each row, as `best` defines it, and zero elsewhere."""
    rows = sorted({from_front(axis, data.rank) for axis in axes})

    def at(index: Index) -> Scalar:
        found = best(proof, data, index, rows)
        mine = [digit for axis in rows for digit in digits_of(index[axis], data.digits(axis)) if data.digits(axis)]
        here = terms.both(*(terms.equal(one, other) for one, other in zip(mine, found, strict=True)))
        return terms.choice(here, 1, 0)

    return dataclasses.replace(data, at=remembered(proof, at))


def reduced(proof: Proof, data: Tensor, axes: Sequence[int], keep: bool, fold: Callable[..., Scalar]) -> Tensor:
    """Return a reduction along axes; `fold` computes it from the dimensions and the elements of a row."""
    rows = sorted({from_front(axis, data.rank) for axis in axes})
    left = [axis for axis in range(data.rank) if axis not in rows]

    def at(index: Index) -> Scalar:
        full: Index = (0,) * data.rank
        for axis, position in zip(range(data.rank) if keep else left, index, strict=True):
            full = replaced(full, axis, position)
        dims = tuple(digit for axis in rows for digit in data.digits(axis))
        return fold(dims, lambda place: data.at(_placed(data, full, rows, place)))

    shape = tuple(1 if axis in rows else data.shape[axis] for axis in range(data.rank) if keep or axis in left)
    return Tensor(data.dtype, shape, remembered(proof, at))


def places_of(dims: Sequence[Scalar]) -> list[tuple[int, ...]] | None:
    """Return all positions of a row; None if a dimension is a term."""
    return None if any(terms.is_term(dim) for dim in dims) else [tuple(map(int, one)) for one in np.ndindex(*dims)]


def extreme(proof: Proof, dtype: int, largest: bool) -> Callable[..., Scalar]:
    """Return how ReduceMax or ReduceMin reduces a row: the result is an element, and no other is beyond it."""
    pick = terms.largest if largest else terms.smallest

    def fold(dims: tuple[Scalar, ...], element: At) -> Scalar:
        places = places_of(dims)
        if places is not None:
            return functools.reduce(lambda one, other: pick(one, other, dtype), map(element, places))
        result = element(proof.position("extreme", dims))

        def fact(place: tuple[Scalar, ...]) -> Scalar:
            here = element(place)
            beyond = terms.less(result, here, dtype) if largest else terms.less(here, result, dtype)
            return terms.negated(beyond)

        proof.always(dims, fact)
        return result

    return fold


def total(proof: Proof, dtype: int, thresholds: Sequence[Scalar]) -> Callable[..., Scalar]:
    """Return how ReduceSum reduces a row.

    Of a row of unknown length, each element must be 1 up to some position, and 0 from there on: the sum is that
    position. Either it is one of `thresholds`, or a witness shows that the row changes elsewhere.
    `test_the_sum_of_a_step_is_its_position` proves this by induction.
    """

    def fold(dims: tuple[Scalar, ...], element: At) -> Scalar:
        places = places_of(dims)
        if places is not None:
            values = map(element, places)
            return functools.reduce(lambda one, other: terms.calculated(proof, "Add", one, other, dtype), values, 0)
        (length,) = dims
        result = proof.fresh("sum")
        for threshold in thresholds:
            witness = proof.position("step", dims)
            step = terms.choice(terms.less(witness[0], threshold, INT64), 1, 0)
            other = terms.negated(terms.equal(element(witness), step))
            proof.assume(terms.implies(terms.inside((threshold,), (length + 1,)), z3.Or(result == threshold, other)))
        return terms.fitting(proof, result, dtype)

    return fold


def running_sum(proof: Proof, data: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Return the sums of the elements up to each position.

    Along an axis of unknown length, the elements must be 0 or 1, or one number. A sum of zeros and ones is positive if
    and only if an element is; `test_a_running_sum_of_hits_is_positive_from_the_first_on` proves this by induction.
    """

    def counted(place: Scalar, here: Scalar) -> Scalar:
        first, second = (here, place) if reverse else (place, here)
        strict = terms.less(first, second, INT64)
        return strict if exclusive else terms.either(strict, terms.equal(first, second))

    def at(index: Index) -> Scalar:
        here = value(index[axis])
        dims = (data.shape[axis],)
        places = places_of(dims)
        if places is not None:
            values = [terms.choice(counted(k, here), data.at(replaced(index, axis, k)), 0) for (k,) in places]
            return functools.reduce(lambda one, other: terms.calculated(proof, "Add", one, other, data.dtype), values)
        before = z3.Const("anywhere", here.sort()) if terms.is_term(here) else 0
        if (
            exclusive
            and not reverse
            and not terms.is_term(ones := data.at(replaced(index, axis, before)))
            and ones == 1
        ):
            return here  # the sum of as many ones as there are positions before
        return _positive_sum(proof, data.dtype, dims, here, counted, lambda k: data.at(replaced(index, axis, k[0])))

    return dataclasses.replace(data, at=remembered(proof, at))


def _positive_sum(
    proof: Proof, dtype: int, dims: tuple[Scalar], here: Scalar, counted: Callable[..., Scalar], element: At
) -> Scalar:
    some = proof.position("any", dims)
    one = element(some)
    if not terms.is_term(one):
        raise UninterpretedError("the sum of equal numbers")
    proof.require(terms.both(one >= 0, one <= 1))
    result = terms.fitting(proof, proof.fresh("running"), dtype)
    proof.assume(terms.both(result >= 0, result <= dims[0]))
    witness = proof.position("hit", dims)
    proof.assume(terms.either(result == 0, terms.both(counted(witness[0], here), element(witness) == 1)))
    proof.always(dims, lambda place: terms.implies(counted(place[0], here), result >= element(place)))
    return result


# --- operators that move elements -------------------------------------------------------------------------------------


def reshaped(proof: Proof, data: Tensor, shape: Sequence[Scalar], allow_zero: bool) -> Tensor:
    """Return a tensor with another shape; Reshape-14: -1 is inferred, 0 copies a dimension unless `allowzero`."""
    given = [size(proof.settled(dim)) for dim in shape]
    dims = [data.shape[place] if _is(dim, 0) and not allow_zero else dim for place, dim in enumerate(given)]
    if any(_is(dim, -1) for dim in dims):
        rest = times([dim for dim in dims if not _is(dim, -1)])
        dims = [divided(times(data.shape), rest) if _is(dim, -1) else dim for dim in dims]
    groups = _groups(data.shape, dims)

    def at(index: Index) -> Scalar:
        source: list[Any] = []
        for (start, stop), (first, end) in groups:
            position = joined([(index[axis], dims[axis]) for axis in range(first, end)])
            mine = [axis for axis in range(start, stop) if not _is(data.shape[axis], 1)]
            digits = iter(digits_of(position, [data.shape[axis] for axis in mine]) if len(mine) != 1 else [position])
            source += [next(digits) if axis in mine else 0 for axis in range(start, stop)]
        return data.at(tuple(source))

    merged: list[tuple[Scalar, ...]] = []
    for (start, stop), (first, end) in groups:
        together = tuple(digit for axis in range(start, stop) for digit in data.digits(axis))
        merged += [together if end - first == 1 else (dims[axis],) for axis in range(first, end)]
    return Tensor(data.dtype, tuple(dims), remembered(proof, at), tuple(merged))


def _groups(source: Sequence[Scalar], target: Sequence[Scalar]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the shortest ranges of axes of both shapes whose products are the same."""
    groups = []
    i = j = 0
    while i < len(source) or j < len(target):
        sizes = itertools.product(range(len(source) - i + 1), range(len(target) - j + 1))
        found = next(
            (
                (p, q)
                for p, q in sorted(sizes, key=lambda pair: (sum(pair), pair[0] != pair[1]))
                if p + q and same_product(source[i : i + p], target[j : j + q])
            ),
            None,
        )
        if found is None:
            raise UninterpretedError(f"Reshape of {source} to {target}")
        groups.append(((i, i + found[0]), (j, j + found[1])))
        i, j = i + found[0], j + found[1]
    return groups


def transposed(proof: Proof, data: Tensor, order: Sequence[int]) -> Tensor:
    """Return a tensor with its axes in another order."""

    def at(index: Index) -> Scalar:
        return data.at(tuple(index[list(order).index(axis)] for axis in range(data.rank)))

    return Tensor(data.dtype, tuple(data.shape[axis] for axis in order), at)


def unsqueezed(data: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor with more dimensions of length 1."""
    rank = data.rank + len(axes)
    new = {from_front(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise UninterpretedError(f"Unsqueeze of {axes}")
    shape = iter(data.shape)
    dims = tuple(1 if axis in new else next(shape) for axis in range(rank))
    return Tensor(
        data.dtype, dims, lambda index: data.at(tuple(one for axis, one in enumerate(index) if axis not in new))
    )


def squeezed(data: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor without dimensions of length 1."""
    gone = {from_front(axis, data.rank) for axis in axes}
    if any(not _is(data.shape[axis], 1) for axis in gone):
        raise UninterpretedError(f"Squeeze of {data.shape}")

    def at(index: Index) -> Scalar:
        left = iter(index)
        return data.at(tuple(0 if axis in gone else next(left) for axis in range(data.rank)))

    return Tensor(data.dtype, tuple(dim for axis, dim in enumerate(data.shape) if axis not in gone), at)


def concatenated(inputs: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other; along the axis, all lengths are known."""
    axis = from_front(axis, inputs[0].rank)
    lengths = [one.shape[axis] for one in inputs]
    if any(terms.is_term(length) for length in lengths):
        raise UninterpretedError("Concat of unknown lengths")
    sources = [(tensor, place) for tensor in inputs for place in range(tensor.shape[axis])]

    def at(index: Index) -> Scalar:
        items = [tensor.at(replaced(index, axis, place)) for tensor, place in sources]
        return _chosen(items, (len(items),), (value(index[axis]),))

    return Tensor(inputs[0].dtype, replaced(inputs[0].shape, axis, sum(lengths)), at)


def sliced(
    proof: Proof, data: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """Return a part of a tensor; of an axis of unknown length, the whole in either direction."""
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = from_front(given, data.rank)
        data = _sliced(proof, data, start, end, axis, step)
    return data


def _sliced(proof: Proof, data: Tensor, start: int, end: int, axis: int, step: int) -> Tensor:
    length = data.shape[axis]
    if terms.is_term(length):
        if (start, step) != (-1, -1) or end > -(2**62):
            raise UninterpretedError("Slice of an unknown length")

        def reversed_at(index: Index) -> Scalar:
            place = z3.simplify(length - 1 - value(index[axis]))
            proof.points.append((place,))
            return data.at(replaced(index, axis, place))

        return dataclasses.replace(data, at=reversed_at)
    places = range(length)[start if start >= -length else None : end if end >= -length else None : step]
    return Tensor(
        data.dtype,
        replaced(data.shape, axis, len(places)),
        lambda index: data.at(replaced(index, axis, _chosen(list(places), (len(places),), (value(index[axis]),)))),
    )


def gathered(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the slices at indices; -1 is the last."""
    axis = from_front(axis, data.rank)
    length = data.shape[axis]

    def at(index: Index) -> Scalar:
        place = wrapped(indices, index[axis : axis + indices.rank], length)
        return data.at((*index[:axis], place, *index[axis + indices.rank :]))

    return Tensor(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), at)


def gathered_elements(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the elements at indices along an axis."""
    axis = from_front(axis, data.rank)
    return Tensor(
        data.dtype,
        indices.shape,
        lambda index: data.at(replaced(index, axis, wrapped(indices, index, data.shape[axis]))),
    )


def gathered_nd(data: Tensor, indices: Tensor, batch: int) -> Tensor:
    """Return the slices at indices that are vectors, one in each of the batch."""
    if indices.rank != batch + 1 or terms.is_term(indices.shape[-1]):
        raise UninterpretedError("GatherND of several slices")
    count = int(indices.shape[-1])

    def at(index: Index) -> Scalar:
        place = [wrapped(indices, (*index[:batch], one), data.shape[batch + one]) for one in range(count)]
        return data.at((*index[:batch], *place, *index[batch:]))

    return Tensor(data.dtype, (*data.shape[:batch], *data.shape[batch + count :]), at)


def wrapped(indices: Tensor, index: Index, length: Scalar) -> Scalar:
    """Return an index of an operator that counts negative ones from the back."""
    place = indices.at(index)
    return terms.choice(terms.less(place, 0, indices.dtype), _sum(place, length), place)


def _sum(left: Scalar, right: Scalar) -> Scalar:
    a, b = terms.together(left, right)
    return a + b


def expanded(data: Tensor, shape: Sequence[Scalar]) -> Tensor:
    """Return a tensor that is broadcast together with a shape."""
    dims = broadcast([data.shape, [size(dim) for dim in shape]])
    return Tensor(data.dtype, dims, lambda index: data.at(within(data, index)))


def padded(proof: Proof, data: Tensor, pads: Sequence[Scalar], filler: Scalar) -> Tensor:
    """Return a tensor with more elements around it."""
    front, behind = pads[: data.rank], pads[data.rank :]
    dims = tuple(
        size(_sum(_sum(dim, before), after)) for dim, before, after in zip(data.shape, front, behind, strict=True)
    )

    def at(index: Index) -> Scalar:
        moved = tuple(one if _is(before, 0) else value(one) - before for one, before in zip(index, front, strict=True))
        real = [
            (one, dim)
            for one, dim, *around in zip(map(value, moved), data.shape, front, behind, strict=True)
            if any(not _is(pad, 0) for pad in around)
        ]
        held = terms.inside([one for one, _ in real], [dim for _, dim in real])
        return terms.choice(
            held, data.at(tuple(0 if _is(d, 1) else m for m, d in zip(moved, data.shape, strict=True))), filler
        )

    return Tensor(data.dtype, dims, remembered(proof, at))


def scattered(proof: Proof, data: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Return a tensor with one update in each row along an axis."""
    axis = from_front(axis, data.rank)
    if not _is(indices.shape[axis], 1):
        raise UninterpretedError("ScatterElements of several updates in a row")

    def at(index: Index) -> Scalar:
        source = replaced(index, axis, 0)
        place = wrapped(indices, source, data.shape[axis])
        return terms.choice(terms.equal(place, value(index[axis])), updates.at(source), data.at(index))

    return Tensor(data.dtype, data.shape, remembered(proof, at))


def counted(proof: Proof, limit: Tensor) -> Tensor:
    """Return the numbers from 0 to below a limit."""
    length = size(limit.at(()))
    return Tensor(
        limit.dtype,
        (length,),
        lambda index: terms.cast(proof, value(index[0]), INT64, limit.dtype),
    )


# --- the interpreter --------------------------------------------------------------------------------------------------


def number(tensor: Tensor) -> Scalar:
    """Return the one element of a tensor."""
    (found,) = elements(tensor) if tensor.rank < 2 else [tensor.at((0,) * tensor.rank)]
    return found


@dataclass(frozen=True)
class Interpreter:
    """Computes the nodes of bodies. `spelled` computes operators that a body names by their meaning."""

    proof: Proof
    spelled: Callable[[str, Mapping[str, Any], Sequence[Tensor]], Tensor]
    thresholds: Sequence[Scalar] = ()

    def output(self, body: Body, lifted: Lifted, inputs: Sequence[Tensor | None]) -> Tensor:
        """Return the output of a lowering's body with its parameters bound for a node."""
        values: dict[str, Any] = {"": None, **dict(zip(body.function.inputs, inputs, strict=True))}
        for call in body.function.calls:
            name, attributes = bound(call, body, lifted)
            operands = [values[one] for one in call.inputs]
            if call.domain == SPELLING:
                results: Any = self.spelled(name, attributes, operands)
            else:
                results = self.operator(name, attributes, operands)
            pairs = zip(call.outputs, results if isinstance(results, tuple) else (results,), strict=True)
            values.update(pairs)
        result: Tensor = values[body.function.outputs[0]]
        return result

    def operator(self, name: str, attributes: Mapping[str, Any], x: Sequence[Any]) -> Any:
        """Return the outputs of an operator of ONNX."""
        for group in (self._elementwise, self._constant, self._layout, self._row):
            found = group(name, attributes, x)
            if found is not None:
                return found
        raise UninterpretedError(name)

    def _elementwise(self, name: str, attributes: Mapping[str, Any], x: Sequence[Any]) -> Any:
        proof = self.proof
        if name in ("Add", "Sub", "Mul", "Div"):
            dtype = x[0].dtype
            return each(proof, dtype, lambda a, b: terms.calculated(proof, name, a, b, dtype), *x)
        if name == "Mod":
            return each(proof, x[0].dtype, _remainder_of_numbers, *x)
        if name in ("Min", "Max"):
            pick = terms.smallest if name == "Min" else terms.largest
            dtype = x[0].dtype
            return each(proof, dtype, lambda a, b: pick(a, b, dtype), *x)
        if name in ("Cast", "CastLike"):
            target = x[1].dtype if name == "CastLike" else attributes["to"]
            source = x[0].dtype
            result = each(proof, target, lambda a: terms.cast(proof, a, source, target), x[0])
            return dataclasses.replace(result, merged=x[0].merged)
        logical: Mapping[str, Callable[..., Scalar]] = {
            "Less": lambda a, b: terms.less(a, b, x[0].dtype),
            "Greater": lambda a, b: terms.less(b, a, x[0].dtype),
            "LessOrEqual": lambda a, b: terms.either(terms.less(a, b, x[0].dtype), terms.equal(a, b)),
            "Equal": terms.equal,
            "Not": terms.negated,
            "And": terms.both,
            "Or": terms.either,
        }
        if name in logical:
            return each(proof, BOOL, logical[name], *x)
        if name == "Where":
            return each(proof, x[1].dtype, terms.choice, *x)
        if name == "Clip":
            dtype = x[0].dtype
            return each(proof, dtype, lambda a, b, c: terms.smallest(terms.largest(a, b, dtype), c, dtype), *x)
        if name == "BitwiseXor":
            return each(proof, x[0].dtype, terms.exclusive_or, *x)
        unary: Mapping[str, Callable[..., Scalar]] = {
            "Relu": terms.relu,
            "Sign": terms.sign,
            "Abs": terms.absolute,
            "Floor": terms.floor,
        }
        return each(proof, x[0].dtype, lambda a: unary[name](a, x[0].dtype), x[0]) if name in unary else None

    def _constant(self, name: str, attributes: Mapping[str, Any], x: Sequence[Any]) -> Any:
        if name == "Range":
            if (number(x[0]), number(x[2])) != (0, 1):
                raise UninterpretedError("Range")
            return counted(self.proof, x[1])
        if name == "Shape":
            dims = x[0].shape[attributes.get("start", 0) : attributes.get("end")]
            return vector(INT64, dims)
        if name == "ConstantOfShape":
            return Tensor(FLOAT, tuple(map(size, elements(x[0]))), lambda index: 0)
        if name != "Constant":
            return None
        ((kind, held),) = attributes.items()
        if isinstance(held, Constant):
            return from_array(held.array)
        whole = kind.startswith("value_int")
        return from_array(np.array(held, np.int64 if whole else np.float32))

    def _layout(self, name: str, attributes: Mapping[str, Any], x: Sequence[Any]) -> Any:
        proof = self.proof
        if name == "Reshape":
            return reshaped(proof, x[0], elements(x[1]), bool(attributes.get("allowzero", 0)))
        if name == "Flatten":
            axis = from_front(attributes.get("axis", 1), x[0].rank)
            return reshaped(proof, x[0], [times(x[0].shape[:axis]), times(x[0].shape[axis:])], True)
        if name == "Transpose":
            return transposed(proof, x[0], attributes.get("perm", range(x[0].rank)[::-1]))
        if name == "Unsqueeze":
            return unsqueezed(x[0], integers(x[1]))
        if name == "Squeeze":
            return squeezed(x[0], integers(x[1]))
        if name == "Concat":
            return concatenated(x, attributes["axis"])
        if name == "Slice":
            starts, ends = integers(x[1]), integers(x[2])
            axes = integers(x[3]) if len(x) > 3 else range(len(starts))
            return sliced(proof, x[0], starts, ends, axes, integers(x[4]) if len(x) > 4 else [1] * len(starts))
        if name == "Gather":
            return gathered(x[0], x[1], attributes.get("axis", 0))
        if name == "GatherElements":
            return gathered_elements(x[0], x[1], attributes.get("axis", 0))
        if name == "GatherND":
            return gathered_nd(x[0], x[1], attributes.get("batch_dims", 0))
        if name == "Expand":
            return expanded(x[0], elements(x[1]))
        if name == "Pad":
            filler = number(x[2]) if len(x) > 2 else 0
            return padded(proof, x[0], elements(x[1]), BOTTOM if filler == -math.inf else filler)
        if name == "ScatterElements":
            return scattered(proof, x[0], x[1], x[2], attributes.get("axis", 0))
        return None

    def _row(self, name: str, attributes: Mapping[str, Any], x: Sequence[Any]) -> Any:
        proof = self.proof
        folds: Mapping[str, Callable[[int], Callable[..., Scalar]]] = {
            "ReduceMax": lambda dtype: extreme(proof, dtype, True),
            "ReduceMin": lambda dtype: extreme(proof, dtype, False),
            "ReduceSum": lambda dtype: total(proof, dtype, self.thresholds),
            "ReduceProd": lambda dtype: lambda dims, element: times([element(one) for one in places_of(dims) or ()]),
        }
        if name in folds:
            axes = integers(x[1]) if len(x) > 1 else range(x[0].rank)
            return reduced(proof, x[0], axes, bool(attributes.get("keepdims", 1)), folds[name](x[0].dtype))
        if name == "CumSum":
            axis = from_front(int(number(x[1])), x[0].rank)
            exclusive, reverse = bool(attributes.get("exclusive", 0)), bool(attributes.get("reverse", 0))
            return running_sum(proof, x[0], axis, exclusive, reverse)
        if name == "TopK":
            return self._top(attributes, x)
        if name in ("ArgMax", "ArgMin"):
            last = bool(attributes.get("select_last_index", 0))
            keep = bool(attributes.get("keepdims", 1))
            least = name == "ArgMin"
            return arg_max(proof, x[0], attributes.get("axis", 0), keep=keep, last=last, least=least)
        return None

    def _top(self, attributes: Mapping[str, Any], x: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Return the largest element; TopK-11: of equal elements, "the element with the lower index" comes first."""
        axis = attributes.get("axis", -1)
        count = size(self.proof.settled(size(number(x[1]))))
        if not _is(count, 1):
            raise UninterpretedError("TopK of other than one element")
        least = not attributes.get("largest", 1)
        index = arg_max(self.proof, x[0], axis, keep=True, last=False, least=least)
        return dataclasses.replace(index, at=_never), index


def _never(index: Index) -> Scalar:
    raise UninterpretedError("the values of TopK")
