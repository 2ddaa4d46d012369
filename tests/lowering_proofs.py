"""Proofs that lowerings of Hardmax, ArgMax and OneHot compute what the operators' specifications define.

A `Setting` is a node: its meaning, and the known facts about its operands. `prove_rows` and `prove_one_hot` interpret
the body that the lowering has for this node, on symbolic tensors, and compare each element, the shape and the element
type with the specification. Operators that a body names by their meaning are interpreted by their specification, so
each lowering is proven on its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symbolic_terms as terms
from onnx import TensorProto, helper
from symbolic import (
    BOOL,
    FLOAT,
    INT64,
    Index,
    Interpreter,
    Tensor,
    arg_max,
    elements,
    from_array,
    from_front,
    hard_max,
    same,
    value,
    vector,
)
from symbolic_terms import BOTTOM, Proof, Scalar, z3

from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import argmax, hardmax, onehot
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.facts import Tensor as Constant
from opshift.opsets.registry.lowering import Body, Lowering, Reason
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, Operator, lift

OPERATORS: Mapping[str, Operator] = {"Hardmax": hardmax.OPERATOR, "ArgMax": argmax.OPERATOR, "OneHot": onehot.OPERATOR}
MILLISECONDS = 20_000
"""The time limit of one question to the solver."""
LONGEST = 2**53
"""The longest row in proofs for all sizes, unless a type of the body counts less far."""


@dataclass(frozen=True)
class Setting:
    """A node that a lowering replaces.

    `kind` is `static`, `symbolic` or `unranked`: the facts about the first operand. `shape` has its dimensions, None
    for a dimension of any size. Of OneHot, `depth` is the depth if it is a constant; with `deepest`, the proof is for
    all depths up to that, if the body is the same for them. `off_on` are the values if they are constants; with
    `any_values`, the proof is for all constants of which the function holds. `assume` is assumed of each index. With
    `unbounded`, indices are whole numbers of sort Int, also those of a float type. With `hidden`, the facts of kind
    `symbolic` do not include the dimensions of `shape`.
    """

    meaning: Any
    dtype: int
    shape: tuple[int | None, ...]
    kind: str = "static"
    depth: int | None = None
    deepest: int = 2**63 - 1
    off_on: tuple[Any, Any] | None = None
    values: int = FLOAT
    any_values: Callable[[Any, Any], Any] | None = None
    assume: Callable[[Any], Any] | None = None
    unbounded: bool = False
    hidden: bool = False

    def filled(self, number: int) -> Setting:
        """Return the setting with a size for the dimensions of any size."""
        return dataclasses.replace(self, shape=tuple(number if dim is None else dim for dim in self.shape))


@dataclass(frozen=True)
class Outcome:
    """What the solver found: `proven`, `refuted` with a model, or `unknown`."""

    state: str
    model: Any = None
    reason: str = ""


def lifted(operator: Operator, setting: Setting) -> Lifted:
    """Return the node in normal form."""
    fields = {item.name: getattr(setting.meaning, item.name) for item in dataclasses.fields(setting.meaning)}
    found = lift(operator, Node(SPELLING, operator.name, 1, fields, operands(operator, setting), (True,)), "runtime")
    assert not isinstance(found, Reason), found
    return found


def operands(operator: Operator, setting: Setting) -> tuple[Facts, ...]:
    """Return the facts about the operands."""
    symbols = tuple(f"d{axis}" if dim is None or setting.hidden else dim for axis, dim in enumerate(setting.shape))
    shape = {"static": setting.shape, "symbolic": symbols, "unranked": None}[setting.kind]
    data = Facts(setting.dtype, shape)
    if operator.name != "OneHot":
        return (data,)
    depth = Facts(INT64, ()) if setting.depth is None else constant(np.array(setting.depth, np.int64))
    off_on = Facts(setting.values, (2,))
    if setting.off_on is not None:
        off_on = constant(np.array(setting.off_on, helper.tensor_dtype_to_np_dtype(setting.values)))
    return data, depth, off_on


def constant(array: np.ndarray[Any, Any]) -> Facts:
    """Return the facts about a constant."""
    return Facts(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, Constant(array))


SIZES = (2, 3, 5, 7)


def body_of(operator: Operator, lowering: Lowering, setting: Setting) -> Body | Reason:
    """Return the body for a node; with dimensions of any size, one that does not depend on them."""
    if setting.kind != "static" or None not in setting.shape:
        whole = lifted(operator, setting)
        body = lowering.body_for(whole.meaning, whole.operands)
        return body if isinstance(body, Reason) or lowering.name not in AT_RUN_TIME else with_few_divisors(body)
    bodies = []
    for number in SIZES:
        whole = lifted(operator, setting.filled(number))
        bodies.append(lowering.body_for(whole.meaning, whole.operands))
        if isinstance(bodies[-1], Reason):
            return bodies[-1]
    first = bodies[0]
    return first if all(body == first for body in bodies) else Reason("the body depends on the sizes")


def with_few_divisors(body: Body) -> Body:
    """Return a body that looks for the length of blocks among numbers up to 3: short rows have several blocks then."""
    sizes = body.bound["sizes"]
    return dataclasses.replace(body, bound={**body.bound, "sizes": Constant(sizes.array[:4])})


# --- rows: Hardmax and ArgMax -----------------------------------------------------------------------------------------


def row_specification(proof: Proof, operator: str, meaning: Any, data: Tensor) -> Tensor:
    """Return the result by the specification.

    Hardmax-13: "1 if the element is the first maximum value along the specified axis, 0 otherwise". Hardmax-11:
    "input will be coerced into a 2-dimensional tensor", whose rows are all axes from `axis` on. ArgMax-12: "If
    select_last_index is True (default False), the index of the last occurrence of the max is selected"; "otherwise"
    the first.
    """
    if operator == "Hardmax":
        axes = range(from_front(meaning.axes[0], data.rank), data.rank) if meaning.to_end else meaning.axes
        return hard_max(proof, data, tuple(axes))
    return arg_max(
        proof,
        data,
        meaning.axis,
        keep=bool(meaning.keepdims),
        last=bool(meaning.select_last_index),
        dtype=meaning.dtype,
    )


def row_data(proof: Proof, setting: Setting, sort: Any, longest: int) -> Tensor:
    """Return the input: any elements, of any number."""
    dims: list[Scalar] = []
    for axis, dim in enumerate(setting.shape):
        dims.append(z3.Int(f"d{axis}") if dim is None else dim)
        if dim is None:
            proof.assume(z3.And(dims[-1] >= 1, dims[-1] <= longest))
    function = z3.Function("x", *[z3.IntSort()] * max(1, len(dims)), sort)

    def at(index: Index) -> Scalar:
        element = function(*(terms.literal(value(one)) for one in index))
        if sort == z3.RealSort():
            proof.assume(element >= BOTTOM)
        elif z3.is_int(element):
            lowest, highest = terms.limits(setting.dtype)
            proof.assume(z3.And(element >= lowest, element <= highest))
        elif z3.is_fp(element):
            proof.assume(z3.Not(z3.fpIsNaN(element)))
        return element

    return Tensor(setting.dtype, tuple(dims), at)


def sort_of(dtype: int) -> Any:
    """Return the sort of a type's values."""
    return terms.FLOAT_SORTS[dtype] if dtype in terms.FLOAT_SORTS else z3.BitVecSort(terms.width(dtype))


def spelled_rows(proof: Proof, lowered: str) -> Callable[[str, Mapping[str, Any], Sequence[Tensor]], Tensor]:
    """Return how the operators are computed that bodies name by their meaning."""
    kinds: Mapping[str, Any] = {"Hardmax": Rows, "ArgMax": ArgMax}

    def spelled(name: str, attributes: Mapping[str, Any], inputs: Sequence[Tensor]) -> Tensor:
        return row_specification(proof, name, kinds[name](**attributes), inputs[0])

    return spelled


def prove_rows(operator: Operator, body: Body, setting: Setting, *, typed: bool, longest: int) -> Outcome:
    """Compare a lowering of Hardmax or ArgMax with the specification, at any position of any input."""
    proof = Proof()
    # The solver casts bounded integers to double in no time, and bit vectors in 10 seconds.
    exact = z3.IntSort() if setting.dtype == TensorProto.UINT32 else sort_of(setting.dtype)
    data = row_data(proof, setting, exact if typed else z3.RealSort(), longest)
    whole = lifted(operator, setting.filled(SIZES[0]))
    expected = row_specification(proof, operator.name, setting.meaning, data)
    place = tuple(proof.position("place", [dim])[0] for dim in expected.shape)
    wanted = expected.at(place)
    thresholds = [wanted, wanted + 1] if operator.name == "ArgMax" and terms.is_term(wanted) else []
    interpreter = Interpreter(proof, spelled_rows(proof, operator.name), thresholds)
    return compared(proof, interpreter.output(body, whole, [data]), expected, place)


def compared(proof: Proof, result: Tensor, expected: Tensor, place: Index) -> Outcome:
    """Compare a result with the expected one at a position."""
    if result.dtype != expected.dtype or result.rank != expected.rank:
        return Outcome("refuted", reason=f"type {result.dtype} and rank {result.rank}")
    unlike = [
        (one, other) for one, other in zip(result.shape, expected.shape, strict=True) if not same_size(one, other)
    ]
    if any(z3.is_bv(one) != z3.is_bv(other) for one, other in unlike if terms.is_term(one) and terms.is_term(other)):
        return Outcome("refuted", reason=f"shape {result.shape}")
    sizes = terms.both(*(terms.equal(one, other) for one, other in unlike))
    goal = terms.both(sizes, identical(result.at(place), expected.at(place)))
    proof.use_facts()
    solver = proof.solver(MILLISECONDS)
    solver.add(terms.literal(terms.negated(terms.both(goal, *proof.requirements.values()))))
    answer = solver.check()
    if answer == z3.unsat:
        return Outcome("proven")
    return (
        Outcome("refuted", solver.model()) if answer == z3.sat else Outcome("unknown", reason=solver.reason_unknown())
    )


def identical(left: Scalar, right: Scalar) -> Scalar:
    """Return whether two values are equal bit for bit; one NaN is as good as another."""
    a, b = terms.together(left, right)
    return a == b if terms.is_term(a) and z3.is_fp(a) else terms.equal(a, b)


def same_size(left: Scalar, right: Scalar) -> bool:
    """Return whether two dimensions are written in the same way."""
    return same(left, right)


# --- OneHot -----------------------------------------------------------------------------------------------------------

WIDE = 66
"""Bits of sums of an index of 64 bits and a depth, which do not wrap."""


def one_hot_specification(proof: Proof, meaning: OneHot, inputs: Sequence[Tensor], *, given: bool = False) -> Tensor:
    """Return the result by the specification, for indices of which the meaning holds: it is required, or given.

    OneHot-11: "The rank of the output tensor will be one greater"; "any entries in the 'indices' input tensor with
    values outside the range [-depth, depth-1] will result in one-hot representation with all 'off_value' values"; "In
    case 'indices' is of non-integer type, the values will be casted to int64 before use".
    """
    indices, depth, values = inputs
    axis = from_front(meaning.axis, indices.rank + 1)
    (count,) = elements(depth)
    note = proof.assume if given else proof.require

    def at(index: Index) -> Scalar:
        one = indices.at((*index[:axis], *index[axis + 1 :]))
        note(is_allowed(meaning, one, indices.dtype))
        if terms.is_term(one) and z3.is_fp(one) and not terms.is_term(count):
            hit = is_hit_by_float(meaning, one, int(value(index[axis])), int(count))
        else:
            number = whole(one, indices.dtype)
            place, length = (wide(each, number) for each in (value(index[axis]), count))
            hit = is_hit(meaning, number, place, length)
        return terms.choice(hit, values.at((1,)), values.at((0,)))

    length = terms.cast(proof, count, depth.dtype, INT64)
    return Tensor(values.dtype, (*indices.shape[:axis], length, *indices.shape[axis:]), at)


def is_hit(meaning: OneHot, index: Any, place: Any, depth: Any) -> Any:
    """Return whether an index points to a place, which is in [0, depth)."""
    front, back = index == place, index + depth == place
    return {"wrap": z3.Or(front, back), "off": front, "only": back, "absent": front}[meaning.negative]


def is_hit_by_float(meaning: OneHot, index: Any, place: int, depth: int) -> Any:
    """Return the same for a float, cut off at its fraction, and small numbers, which are floats too."""
    cut = z3.fpRoundToIntegral(z3.RTZ(), index)
    front, back = (z3.fpEQ(cut, z3.FPVal(float(one), index.sort())) for one in (place, place - depth))
    return {"wrap": z3.Or(front, back), "off": front, "only": back, "absent": front}[meaning.negative]


def is_allowed(meaning: OneHot, index: Any, dtype: int) -> Scalar:
    """Return whether an index is one for which the meaning is defined."""
    conditions: list[Any] = []
    if meaning.negative == "absent" and dtype not in terms.UNSIGNED:
        negative = z3.fpLT(index, 0) if terms.is_term(index) and z3.is_fp(index) else whole(index, dtype) < 0
        conditions.append(z3.Not(negative))
    if terms.is_term(index) and z3.is_fp(index) and meaning.fraction != "truncate":
        fraction = z3.Not(z3.fpEQ(z3.fpRoundToIntegral(z3.RTZ(), index), index))
        endless = z3.Or(z3.fpIsNaN(index), z3.fpIsInf(index))
        conditions.append(z3.Not(z3.And(fraction, z3.Not(z3.fpIsNaN(index)))))
        if meaning.fraction == "absent":
            conditions.append(z3.Not(endless))
    return terms.both(*conditions)


def not_held(index: Any) -> Any:
    """Return whether int64 does not hold an index cut off at its fraction."""
    if not terms.is_term(index) or not z3.is_fp(index):
        return z3.BoolVal(False)
    limit = z3.FPVal(2.0**63, index.sort()) if index.sort().ebits() > 5 else z3.fpPlusInfinity(index.sort())
    return z3.Or(z3.fpIsNaN(index), z3.fpGEQ(index, limit), z3.fpLEQ(index, z3.fpNeg(limit)))


def whole(index: Any, dtype: int) -> Any:
    """Return an index as a wide integer; 2^65 - 1, which is out of range, if int64 does not hold it."""
    if terms.is_term(index) and z3.is_int(index):
        return index
    if terms.is_term(index) and z3.is_fp(index):
        held = z3.SignExt(WIDE - 64, z3.fpToSBV(z3.RTZ(), index, z3.BitVecSort(64)))
        return z3.If(not_held(index), z3.BitVecVal(2**65 - 1, WIDE), held)
    if terms.is_term(index) and z3.is_bv(index):
        extend = z3.ZeroExt if dtype in terms.UNSIGNED else z3.SignExt
        return extend(WIDE - index.size(), index)
    return z3.BitVecVal(int(index), WIDE)


def wide(number: Scalar, like: Any) -> Any:
    """Return an int64 as a wide integer, or as an unbounded one."""
    if z3.is_int(like):
        return terms.in_sort(number, z3.IntSort())
    return z3.SignExt(WIDE - 64, number) if terms.is_term(number) else z3.BitVecVal(int(number), WIDE)


def one_hot_inputs(proof: Proof, setting: Setting, depth: int | None) -> list[Tensor]:
    """Return indices, depth and values: any of them that are no constants."""
    dims: list[Any] = []
    for axis, dim in enumerate(setting.shape):
        dims.append(z3.Int(f"d{axis}") if dim is None else dim)
        proof.assume(dims[-1] >= 1)
    function = z3.Function(
        "indices", *[z3.IntSort()] * len(dims), z3.IntSort() if setting.unbounded else sort_of(setting.dtype)
    )

    def at(index: Index) -> Scalar:
        element = function(*(terms.literal(value(one)) for one in index))
        if setting.unbounded and setting.dtype not in terms.EXACT:
            lowest, highest = terms.limits(setting.dtype)
            proof.assume(z3.And(element >= lowest, element <= highest))
        if setting.assume is not None:
            proof.assume(setting.assume(element))
        return element

    count: Scalar = depth
    if depth is None:
        count = z3.Int("depth") if setting.unbounded else z3.BitVec("depth", 64)
        proof.assume(z3.And(count >= 1, count <= setting.deepest))
    return [
        Tensor(setting.dtype, tuple(dims), at),
        Tensor(INT64, (), lambda index: count),
        off_and_on(proof, setting),
    ]


def off_and_on(proof: Proof, setting: Setting) -> Tensor:
    """Return off and on: as constants, as numbers of which a function holds, or as values that are only selected."""
    if setting.off_on is not None and setting.any_values is None:
        return from_array(np.array(setting.off_on, helper.tensor_dtype_to_np_dtype(setting.values)))
    sort = z3.DeclareSort("Value") if setting.any_values is None else sort_of(setting.values)
    off, on = z3.Const("off", sort), z3.Const("on", sort)
    if setting.any_values is not None:
        proof.assume(setting.any_values(off, on))
    return vector(setting.values, [off, on])


def prove_one_hot(operator: Operator, lowering: Lowering, setting: Setting) -> Outcome:
    """Compare a lowering of OneHot with the specification, at any position for any index."""
    body = body_of(operator, lowering, setting)
    assert not isinstance(body, Reason), body
    proof = Proof(rounds=setting.unbounded)
    depth = setting.depth if setting.deepest == 2**63 - 1 else None
    inputs = one_hot_inputs(proof, setting, depth)
    expected = one_hot_specification(proof, setting.meaning, inputs, given=True)
    whole_node = lifted(operator, setting.filled(SIZES[0]))

    def spelled(name: str, attributes: Mapping[str, Any], given: Sequence[Tensor]) -> Tensor:
        return one_hot_specification(proof, OneHot(**attributes), given)

    result = Interpreter(proof, spelled).output(body, whole_node, inputs)
    axis = from_front(setting.meaning.axis, len(setting.shape) + 1)
    others = [proof.position("place", [dim])[0] for number, dim in enumerate(expected.shape) if number != axis]
    places = [proof.position("hot", [expected.shape[axis]])[0]] if depth is None else range(depth)
    outcome = Outcome("proven")
    for place in places:
        outcome = compared(proof, result, expected, (*others[:axis], place, *others[axis:]))
        if outcome.state != "proven":
            break
    return outcome


# --- the claims -------------------------------------------------------------------------------------------------------

INT32, INT16, INT8, DOUBLE = TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.DOUBLE
F16, BF16, UINT64 = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UINT64
COUNTED = {FLOAT: 2**24, INT32: 2**31 - 2, INT16: 2**15, TensorProto.UINT8: 2**8}
"""The longest row whose positions a type counts."""
ROWS = [(number,) for number in range(1, 8)] + [(3, 4), (2, 3, 2)]
TYPED: Mapping[str, Sequence[int]] = {
    "through_float": (F16, BF16),
    "widened": (F16, BF16, INT8, INT16, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32),
    "signed": (UINT64,),
    "shifted": (UINT64,),
}
"""Lowerings of Hardmax and ArgMax for some element types: the proof is over the values of these types."""
BLOCKS = {"blocked", "first_blocked_in_bytes", "last_blocked_in_bytes", "product", "merged"}
"""Lowerings whose shapes are constants: the proof is for small ones, and some dimensions of any size."""
AT_RUN_TIME = {"blocked_at_run_time", "scattered_at_run_time"}
"""Lowerings that compute the length of blocks at run time: the proof is for small shapes, which are hidden."""
FIXED = {"sign_relu", "first_sign", "last_sign", "index_padded"}
"""Lowerings with a constant for each element of a row: the proof is for rows up to 7."""


def small_shapes() -> list[tuple[int | None, ...]]:
    """Return small shapes, with a dimension of any size in some."""
    return [(2, 2), (4,), (6,), (2, 6), (4, 2), (6, 1), (2, 2, 3), (3, 2, 2), (None, 3, 4), (2, None, 4), (2, 3, None)]


def row_meanings(operator: str) -> Iterator[tuple[Any, tuple[int | None, ...]]]:
    """Yield meanings of Hardmax or ArgMax with shapes of any size."""
    shapes = [(None,), (None,) * 3]
    if operator == "ArgMax":
        for shape in shapes:
            for axis, keep, last in np.ndindex(2, 2, 2):
                for dtype in (INT64, FLOAT):
                    yield ArgMax((-1, len(shape) // 2)[axis], int(keep), int(last), dtype), shape
        return
    for rank in (1, 2, 3, 4, 5):
        for axis in {0, rank // 2, -1}:
            yield Rows((axis,)), (None,) * rank
        for axis in range(rank - 1):
            yield Rows((axis,), 1), (None,) * rank
            yield Rows((axis - rank,), 1), (None,) * rank
    for axes in ((0, 2), (0, 1), (-1, -2), (0, -1), (1, -2), (0, 2, -2)):
        yield Rows(axes), (None,) * 3


def row_settings(operator: str, lowering: Lowering) -> Iterator[Setting]:
    """Yield the nodes that a proof about a lowering of Hardmax or ArgMax covers, if it applies to them."""
    if lowering.name in AT_RUN_TIME:
        yield from hidden_settings(operator)
        return
    dtypes = TYPED.get(lowering.name, (FLOAT,))
    pairs = list(row_meanings(operator))
    if lowering.name in BLOCKS | FIXED:
        shapes = small_shapes() if lowering.name in BLOCKS else ROWS
        meanings = {repr(meaning): meaning for meaning, _ in pairs}.values()
        pairs = [(meaning, shape) for meaning in meanings for shape in shapes if in_range(meaning, len(shape))]
    if lowering.name in TYPED:
        pairs = [(Rows((0,)), (None,))] if operator == "Hardmax" else [(ArgMax(0, 1, last), (None,)) for last in (0, 1)]
    for meaning, shape in pairs:
        for dtype in dtypes:
            for kind in ("static",) if lowering.name in TYPED else ("static", "symbolic", "unranked"):
                yield Setting(meaning, dtype, shape, kind)


def hidden_settings(operator: str) -> Iterator[Setting]:
    """Yield the nodes for a lowering that finds out how long a row is: of one block, of several, or of blocks of 1."""
    for shape in [(1,), (3,), (4,), (5,), (9,), (2, 6), (2, 1), (4, 5), (2, 2, 4), (3, 1, 7), (2, 2, 9)]:
        axis = len(shape) - 1
        meanings: list[Any] = [Rows((axis,))] if operator == "Hardmax" else [ArgMax(axis, 1, last) for last in (0, 1)]
        yield from (Setting(meaning, FLOAT, shape, "symbolic", hidden=True) for meaning in meanings)


def in_range(meaning: Any, rank: int) -> bool:
    """Return whether the axes of a meaning are in range."""
    axes = meaning.axes if isinstance(meaning, Rows) else (meaning.axis,)
    return all(-rank <= axis < rank for axis in axes)


def longest(operator: Operator, lowering: Lowering, body: Body, setting: Setting) -> int:
    """Return the longest row of a proof: the longest that has this body, as far as an index can count.

    The limits of predicates count, not the types of positions: a proof fails if a predicate permits longer rows than a
    type counts. Only int32 is taken to count the rows that there are, and the element type of the result its index.
    """
    counted = [COUNTED[dtype] for dtype in (getattr(setting.meaning, "dtype", None),) if dtype in COUNTED]
    if body.bound.get("like") == INT32:
        counted.append(COUNTED[INT32])
    if setting.kind != "static" or None not in setting.shape:
        return min([LONGEST, *counted])
    same = (
        number for number in (LONGEST, *sorted(COUNTED.values(), reverse=True)) if number <= min([LONGEST, *counted])
    )
    for number in same:
        whole = lifted(operator, setting.filled(number))
        if lowering.body_for(whole.meaning, whole.operands) == body:
            return number
    return SIZES[-1]


def prove(operator: str, lowering: Lowering, setting: Setting) -> Outcome | None:
    """Prove a lowering for a node; return None if it does not apply."""
    owner = OPERATORS[operator]
    body = body_of(owner, lowering, setting)
    if isinstance(body, Reason):
        return None
    if operator == "OneHot":
        if setting.deepest < 2**63 - 1:
            depths = (dataclasses.replace(setting, depth=depth) for depth in (1, setting.deepest))
            assert all(body_of(owner, lowering, one) == body for one in depths), "the body depends on the depth"
        return prove_one_hot(owner, lowering, setting)
    typed = lowering.name in TYPED
    return prove_rows(owner, body, setting, typed=typed, longest=longest(owner, lowering, body, setting))


# --- the claims about OneHot ------------------------------------------------------------------------------------------


def positive_zero(value_: Any) -> Any:
    """Return whether a float is not -0.0."""
    return z3.Not(z3.And(z3.fpIsZero(value_), z3.fpIsNegative(value_)))


def finite(value_: Any) -> Any:
    """Return whether a float is finite."""
    return z3.Not(z3.Or(z3.fpIsNaN(value_), z3.fpIsInf(value_)))


def blendable(off: Any, on: Any) -> Any:
    """Return whether `blended` applies to two floats."""
    return z3.And(finite(off), finite(on), positive_zero(off), positive_zero(on))


def on_a_line(off: Any, on: Any) -> Any:
    """Return whether `scaled` applies to two floats."""
    distance = z3.fpSub(z3.RNE(), on, off)
    reached = z3.fpEQ(z3.fpAdd(z3.RNE(), off, distance), on)
    return z3.And(finite(distance), reached, finite(on), positive_zero(off), positive_zero(on))


def is_whole(index: Any) -> Any:
    """Return whether a float is a finite whole number."""
    return z3.And(finite(index), z3.fpEQ(z3.fpRoundToIntegral(z3.RTZ(), index), index))


MASK: Mapping[str, Any] = {"off_on": (False, True), "values": BOOL}
ZERO_ONE: Mapping[str, Any] = {"off_on": (0.0, 1.0)}
WHOLE: Mapping[str, Any] = {"unbounded": True, "depth": 5, "deepest": 2**24 - 1}
"""Whole numbers, with any depth that float counts to."""
INTEGER_TYPES = (INT8, INT16, INT32, INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, UINT64)


def one_hot_nodes(
    negatives: Sequence[str], dtypes: Sequence[int], fractions: Sequence[str] = ("truncate",), **more: Any
) -> list[Setting]:
    """Return nodes with indices of two dimensions, along each axis."""
    return [
        Setting(OneHot(axis, negative, fraction), dtype, (None, None), kind, **more)
        for axis in (0, 1, -1)
        for negative in negatives
        for fraction in fractions
        for dtype in dtypes
        for kind in ("static", "unranked")
    ]


def _short(depth: int) -> Mapping[str, Any]:
    return {**MASK, "depth": 5, "deepest": depth}


def one_hot_settings() -> Mapping[str, list[Setting]]:
    """Return the nodes that each proof about a lowering of OneHot covers."""
    any_sign, long, floats = ("wrap", "off", "only", "absent"), (INT64,), (FLOAT, DOUBLE)
    integers: Mapping[str, Any] = {"depth": 5, "deepest": 2**31 - 1}
    held: Mapping[str, Any] = {"assume": lambda index: z3.Not(not_held(index))}
    depths: list[Mapping[str, Any]] = [{"depth": depth} for depth in range(1, 8)]
    signs = {"wrapped": "wrap", "wrapped_by_product": "wrap", "raised": "off", "shifted": "only"}
    found = {
        name: one_hot_nodes((sign,), long)
        + one_hot_nodes((sign,), (INT32,), **integers)
        + one_hot_nodes((sign,), floats, ("whole", "absent"), **WHOLE)
        for name, sign in signs.items()
    }
    found |= {name: one_hot_nodes(any_sign, long) for name in ("gather_mask", "ranked", "reversed_axes")}
    found["where_mask"] = one_hot_nodes(any_sign, long, off_on=(2, 5), values=INT64)
    found["scattered"] = one_hot_nodes(("wrap", "off", "absent"), long)
    found["cast_mask"] = one_hot_nodes(any_sign, long, **ZERO_ONE)
    found["added"] = one_hot_nodes(("wrap",), long, **ZERO_ONE)
    found["as_int64"] = one_hot_nodes(("wrap", "off"), INTEGER_TYPES[:3]) + one_hot_nodes(("wrap",), INTEGER_TYPES[4:])
    found["as_int64"] += one_hot_nodes(("wrap", "off"), floats, **held)
    found["counted_in_float"] = one_hot_nodes(("wrap", "off"), INTEGER_TYPES, **WHOLE)
    found["taken_as_whole"] = one_hot_nodes(("wrap",), floats, depth=5, deepest=2**24 - 1, assume=is_whole)
    found["as_float"] = one_hot_nodes(("wrap",), (F16,))[:1]
    found["values_as_float"] = one_hot_nodes(
        ("wrap",), long, off_on=(2, 5), values=BF16, any_values=lambda off, on: True
    )[:1]
    found["blended"] = one_hot_nodes(("wrap",), long, off_on=(2, 5), any_values=blendable)[:1]
    found["scaled"] = one_hot_nodes(("wrap",), long, off_on=(2, 5), values=INT32, any_values=lambda off, on: True)[:1]
    found["equal_iota"] = one_hot_nodes(("off", "absent"), long, **MASK)
    found["equal_iota"] += one_hot_nodes(("off",), (INT8,), **_short(2**7)) + one_hot_nodes(
        ("off",), (INT16,), **_short(2**15)
    )
    found["equal_iota"] += one_hot_nodes(("off",), floats, ("whole", "absent"), **WHOLE, **MASK)
    found["equal_sums"] = one_hot_nodes(("off", "absent"), long, **MASK)
    found["either"] = [one for more in depths for one in one_hot_nodes(("wrap",), (INT32, INT64), **more, **MASK)]
    found["equal_below"] = [one for more in depths for one in one_hot_nodes(("only",), (INT32, INT64), **more, **MASK)]
    positions: list[Mapping[str, Any]] = [{"depth": depth, "unbounded": True} for depth in range(1, 8)]
    for name, fraction in (("relu_iota", ("absent",)), ("sign_iota", ("whole", "absent"))):
        found[name] = [
            one for more in positions for one in one_hot_nodes(("off",), floats, fraction, **more, **ZERO_ONE)
        ]
    for name in ("counted_in_int16", "counted_in_int8"):
        nodes = [one_hot_nodes(("off",), (FLOAT,), ("absent",), **more, **MASK) for more in positions]
        found[name] = [one for some in nodes for one in some]
    return found


def settings(operator: str, lowering: Lowering) -> list[Setting]:
    """Return the nodes that the proof about a lowering covers; none if it is tested only."""
    if operator == "OneHot":
        return one_hot_settings().get(lowering.name, [])
    return list(row_settings(operator, lowering))
