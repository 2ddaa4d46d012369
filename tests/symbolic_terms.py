"""Arithmetic on single elements for proofs about lowerings: each element is a Python number or a term of z3.

The sort of a term decides what may be done with it:

- Real: an element of the data. It may be moved and compared, and nothing else: a proof over it covers each element type
  whose values are totally ordered, such as floats without NaN. -inf is the constant `BOTTOM`, below all elements.
  A difference of two such elements has a sign only (`Difference`).
- Int: a whole number, of an integer or a float type. Arithmetic is that of unbounded integers; `Proof.require` collects
  the condition under which the type represents the result exactly.
- BitVec and FP: values of an integer or a float type with their own arithmetic: wrapping, rounding, NaN.
- Bool, and uninterpreted sorts for values that are only selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from extras import need
from onnx import TensorProto, helper

z3 = need("z3")

Scalar: TypeAlias = Any
"""A bool, an int, a float, a term of z3, or a `Difference`."""

BOTTOM = z3.Const("bottom", z3.RealSort())
"""-inf, as an element of the data."""

EXACT: Mapping[int, int] = {
    TensorProto.FLOAT: 2**24,
    TensorProto.DOUBLE: 2**53,
    TensorProto.FLOAT16: 2**11,
    TensorProto.BFLOAT16: 2**8,
}
"""Up to this absolute value, a float type represents all whole numbers."""
UNSIGNED: frozenset[int] | set[int] = {TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
FLOAT_SORTS: Mapping[int, Any] = {
    TensorProto.FLOAT16: z3.FPSort(5, 11),
    TensorProto.BFLOAT16: z3.FPSort(8, 8),
    TensorProto.FLOAT: z3.FPSort(8, 24),
    TensorProto.DOUBLE: z3.FPSort(11, 53),
}
NEAREST = z3.RNE()


class UninterpretedError(Exception):
    """The interpreter has no meaning for an operation on such operands."""


@dataclass(frozen=True)
class Difference:
    """The difference of two finite floats, of which only the sign is used: it is the order of the two.

    `test_the_sign_of_a_difference_is_the_order` proves this for all pairs of finite floats.
    """

    left: Scalar
    right: Scalar


def is_term(value: Scalar) -> bool:
    """Return whether a value is a term of z3."""
    return isinstance(value, z3.ExprRef)


def limits(dtype: int) -> tuple[int, int]:
    """Return the smallest and the largest whole number such that a type represents all from one to the other."""
    if dtype in EXACT:
        return -EXACT[dtype], EXACT[dtype]
    info = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return int(info.min), int(info.max)


def width(dtype: int) -> int:
    """Return the number of bits of an integer type."""
    return int(np.iinfo(helper.tensor_dtype_to_np_dtype(dtype)).bits)


# --- conditions -------------------------------------------------------------------------------------------------------


def both(*conditions: Scalar) -> Scalar:
    """Return whether all conditions hold."""
    if any(condition is False for condition in conditions):
        return False
    left = [condition for condition in conditions if condition is not True]
    return z3.And(*left) if len(left) > 1 else left[0] if left else True


def either(*conditions: Scalar) -> Scalar:
    """Return whether any condition holds."""
    return negated(both(*map(negated, conditions)))


def negated(condition: Scalar) -> Scalar:
    """Return whether a condition does not hold."""
    return z3.Not(condition) if is_term(condition) else not condition


def implies(condition: Scalar, result: Scalar) -> Scalar:
    """Return whether a result holds if a condition does."""
    return either(negated(condition), result)


def choice(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    """Return one value if a condition holds, else another."""
    if not is_term(condition):
        return yes if condition else no
    if not is_term(yes) and not is_term(no) and yes == no and type(yes) is type(no):
        return yes
    return z3.If(condition, *(literal(one) for one in together(yes, no)))


def literal(value: Scalar) -> Any:
    """Return a value as a term."""
    if is_term(value):
        return value
    if isinstance(value, (bool, np.bool_)):
        return z3.BoolVal(bool(value))
    return in_sort(value, z3.IntSort())


def in_sort(value: Scalar, sort: Any) -> Any:
    """Return a Python number, or a choice of such, as a term of a sort."""
    if is_term(value):
        if value.sort() == sort:
            return value
        if z3.is_app_of(value, z3.Z3_OP_ITE):
            return z3.If(value.arg(0), in_sort(value.arg(1), sort), in_sort(value.arg(2), sort))
        if z3.is_int_value(value):
            return in_sort(value.as_long(), sort)
        raise UninterpretedError(f"{value.sort()} as {sort}")
    kind = sort.kind()
    if kind == z3.Z3_BOOL_SORT:
        return z3.BoolVal(bool(value))
    if kind == z3.Z3_FLOATING_POINT_SORT:
        return z3.fpInfinity(sort, value < 0) if math.isinf(value) else z3.FPVal(float(value), sort)
    if kind == z3.Z3_REAL_SORT and value == -math.inf:
        return BOTTOM
    if kind == z3.Z3_BV_SORT:
        return z3.BitVecVal(int(value), sort)
    if kind == z3.Z3_INT_SORT and value == int(value):
        return z3.IntVal(int(value))
    raise UninterpretedError(f"{value} as {sort}")


def together(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    """Return two values in one sort; two Python numbers as they are."""
    if not is_term(left) and not is_term(right):
        return left, right
    if is_term(left) and (not is_term(right) or _is_numbers(right)):
        return left, in_sort(right, left.sort())
    return in_sort(left, right.sort()), right


def _is_numbers(term: Any) -> bool:
    """Return whether a term of sort Int is a number or a choice of numbers."""
    if z3.is_app_of(term, z3.Z3_OP_ITE):
        return _is_numbers(term.arg(1)) and _is_numbers(term.arg(2))
    return bool(z3.is_int_value(term))


# --- comparisons ------------------------------------------------------------------------------------------------------


def equal(left: Scalar, right: Scalar) -> Scalar:
    """Return whether two values are equal; as floats, NaN equals nothing, and 0.0 equals -0.0."""
    a, b = together(left, right)
    if not is_term(a):
        return bool(a == b)
    if z3.is_fp(a):
        return z3.fpEQ(a, b)
    return True if a.eq(b) else a == b


def less(left: Scalar, right: Scalar, dtype: int) -> Scalar:
    """Return whether a value is less than another, of the same type."""
    a, b = together(left, right)
    if is_term(a) and z3.is_fp(a):
        return z3.fpLT(a, b)
    if is_term(a) and z3.is_bv(a) and dtype in UNSIGNED:
        return z3.ULT(a, b)
    return a < b if is_term(a) else bool(a < b)


def largest(left: Scalar, right: Scalar, dtype: int) -> Scalar:
    """Return the larger of two values."""
    return choice(less(left, right, dtype), right, left)


def smallest(left: Scalar, right: Scalar, dtype: int) -> Scalar:
    """Return the smaller of two values."""
    return choice(less(right, left, dtype), right, left)


# --- proofs -----------------------------------------------------------------------------------------------------------


class Proof:
    """The assumptions of a proof, the conditions it needs, and facts about all elements of a row.

    A fact about all positions of a row is used at finitely many positions: all of them if the length is a number, else
    those in `points`. A refutation with fewer facts is also one with all of them, so the proof is sound.

    Arithmetic of type Int is that of unbounded integers. It is what a machine computes if all conditions of `require`
    hold. Each of them is proven from assumptions that the definitions of values make: a definition always has a value,
    so it restricts no value that is computed before. The first inexact step of a machine would contradict one of them.

    With `rounds`, floats are rounded, and are not required to be exact.
    """

    def __init__(self, *, rounds: bool = False) -> None:
        self.rounds = rounds
        self.assumptions: list[Any] = []
        self.requirements: dict[str, Any] = {}
        self.traces: list[list[Any]] = [[]]
        self.guards: list[Any] = []
        self.points: list[tuple[Scalar, ...]] = []
        self.rows: dict[Any, Any] = {}
        self._facts: list[tuple[tuple[Scalar, ...], Callable[[tuple[Scalar, ...]], Scalar]]] = []
        self._count = 0

    def fresh(self, name: str, sort: Any = None) -> Any:
        """Return a new constant; an integer unless a sort is given."""
        self._count += 1
        return z3.Const(f"{name}!{self._count}", z3.IntSort() if sort is None else sort)

    def assume(self, condition: Scalar) -> None:
        """Add an assumption."""
        if condition is not True:
            self.assumptions.append(literal(condition))

    def require(self, condition: Scalar) -> None:
        """Add a condition that is to be proven wherever the guards hold."""
        if condition is True:
            return
        self.traces[-1].append(condition)
        guarded = literal(implies(both(*self.guards), condition))
        self.requirements.setdefault(guarded.sexpr(), guarded)

    def traced(self, compute: Callable[[], Scalar]) -> tuple[Scalar, list[Any]]:
        """Return a value, and the conditions that it requires."""
        self.traces.append([])
        result = compute()
        trace = self.traces.pop()
        self.traces[-1].extend(trace)
        return result, trace

    def position(self, name: str, dims: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return some position in a row, at which all facts are used."""
        place = tuple(self.fresh(name, dim.sort() if is_term(dim) else None) for dim in dims)
        self.assume(inside(place, dims))
        self.points.append(place)
        return place

    def always(self, dims: Sequence[Scalar], fact: Callable[[tuple[Scalar, ...]], Scalar]) -> None:
        """Add a fact about all positions."""
        self._facts.append((tuple(dims), fact))

    def use_facts(self) -> None:
        """Use each fact at each position, including positions and facts that appear meanwhile."""
        done: set[tuple[int, int]] = set()
        while todo := [
            (fact, point)
            for fact in range(len(self._facts))
            for point in range(len(self._places(fact)))
            if (fact, point) not in done
        ]:
            for fact, point in todo:
                self._use(fact, point)
            done.update(todo)
            if len(done) > 4000:
                raise UninterpretedError("the facts about rows do not end")

    def _places(self, fact: int) -> list[tuple[Scalar, ...]]:
        dims, _ = self._facts[fact]
        if all(isinstance(dim, int) for dim in dims):
            return [tuple(map(int, place)) for place in np.ndindex(*dims)]
        if len(dims) == 1:
            digits = {str(digit): (digit,) for point in self.points for digit in point}
            return list(digits.values())
        return [point for point in self.points if len(point) == len(dims)]

    def _use(self, fact: int, point: int) -> None:
        dims, statement = self._facts[fact]
        place = self._places(fact)[point]
        here = inside(place, dims)
        self.guards.append(here)
        self.assume(implies(here, statement(place)))
        self.guards.pop()

    def settled(self, number: Scalar) -> Scalar:
        """Return a choice of which the assumptions leave one side as that side; else the number as it is."""
        if not is_term(number) or not z3.is_app_of(number, z3.Z3_OP_ITE):
            return number
        for chosen in number.children()[:0:-1]:
            solver = self.solver(2000)
            solver.add(number != chosen)
            if solver.check() == z3.unsat:
                return self.settled(chosen)
        return number

    def solver(self, milliseconds: int) -> Any:
        """Return a solver that knows the assumptions."""
        solver = z3.Solver()
        solver.set("timeout", milliseconds)
        solver.add(*self.assumptions)
        return solver


def inside(place: Sequence[Scalar], dims: Sequence[Scalar]) -> Scalar:
    """Return whether a position is in a row with these dimensions."""
    # Dimensions are signed; a bit vector is one of int64.
    return both(
        *(
            both(negated(less(digit, 0, TensorProto.INT64)), less(digit, dim, TensorProto.INT64))
            for digit, dim in zip(place, dims, strict=True)
        )
    )


def before(left: Sequence[Scalar], right: Sequence[Scalar]) -> Scalar:
    """Return whether a position is before another: in row-major order."""
    result: Scalar = False
    for a, b in reversed(list(zip(left, right, strict=True))):
        result = either(less(a, b, TensorProto.INT64), both(equal(a, b), result))
    return result


# --- arithmetic -------------------------------------------------------------------------------------------------------


def calculated(proof: Proof, name: str, left: Scalar, right: Scalar, dtype: int) -> Scalar:
    """Return the result of Add, Sub, Mul or Div."""
    if isinstance(left, Difference) or isinstance(right, Difference):
        raise UninterpretedError("a difference of floats has a sign only")
    if not is_term(left) and not is_term(right):
        return _numbers(name, left, right, dtype)
    a, b = together(left, right)
    if name == "Div":
        return _whole_quotient(proof, a, b)
    if z3.is_fp(a):
        return {"Add": z3.fpAdd, "Sub": z3.fpSub, "Mul": _fp_product}[name](NEAREST, a, b)
    if z3.is_bv(a):
        return {"Add": a + b, "Sub": a - b}[name] if name != "Mul" else product(a, b)
    if name != "Mul" and _is_numbers(a) and _is_numbers(b):
        return _chosen_numbers(name, a, b, dtype)
    if z3.is_int(a) and z3.is_int(b):
        result = {"Add": a + b, "Sub": a - b}[name] if name != "Mul" else product(a, b)
        return fitting(proof, result, dtype)
    if name == "Sub":
        return Difference(a, b)
    raise UninterpretedError(f"{name} of {a.sort()}")


def _chosen_numbers(name: str, left: Any, right: Any, dtype: int) -> Any:
    """Return the result for choices of numbers as a choice of numbers."""
    if z3.is_app_of(left, z3.Z3_OP_ITE):
        sides = (_chosen_numbers(name, one, right, dtype) for one in left.children()[1:])
        return choice(left.arg(0), *sides)
    if z3.is_app_of(right, z3.Z3_OP_ITE):
        sides = (_chosen_numbers(name, left, one, dtype) for one in right.children()[1:])
        return choice(right.arg(0), *sides)
    return literal(_numbers(name, left.as_long(), right.as_long(), dtype))


def _whole_quotient(proof: Proof, left: Any, right: Any) -> Any:
    if not z3.is_int(left) or not z3.is_int(right):
        raise UninterpretedError("Div of other than whole numbers")
    # Division of onnx truncates, that of z3 rounds down if the divisor is positive.
    proof.require(both(left >= 0, right > 0))
    return left / right


def _numbers(name: str, left: Scalar, right: Scalar, dtype: int) -> Scalar:
    kind = helper.tensor_dtype_to_np_dtype(dtype).type
    if name == "Div" and (dtype in EXACT or left < 0 or right <= 0):
        raise UninterpretedError("Div of other than whole numbers")
    operation = {"Div": np.floor_divide, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[name]
    with np.errstate(all="ignore"):
        return operation(kind(left), kind(right)).item()


def product(left: Any, right: Any) -> Any:
    """Return the product of two terms; of a choice of numbers, the choice of products."""
    for one, other in ((left, right), (right, left)):
        if z3.is_app_of(one, z3.Z3_OP_ITE):
            return z3.If(one.arg(0), product(one.arg(1), other), product(one.arg(2), other))
    return z3.simplify(left * right)


def _fp_product(rounding: Any, left: Any, right: Any) -> Any:
    for one, other in ((left, right), (right, left)):
        if z3.is_app_of(one, z3.Z3_OP_ITE):
            return z3.If(one.arg(0), _fp_product(rounding, one.arg(1), other), _fp_product(rounding, one.arg(2), other))
    for one, other in ((left, right), (right, left)):
        if one.eq(z3.FPVal(1.0, one.sort())):
            return other
    return z3.fpMul(rounding, left, right)


def fitting(proof: Proof, number: Any, dtype: int) -> Any:
    """Return a whole number, and require that the type represents it exactly; or return it rounded."""
    lowest, highest = limits(dtype)
    if proof.rounds and dtype in EXACT:
        return _rounded(proof, number, highest)
    proof.require(both(number >= lowest, number <= highest))
    return number


def _rounded(proof: Proof, number: Any, limit: int) -> Any:
    """Return a number rounded to a float: it is exact up to a limit, and what is beyond the limit does not come nearer.

    `test_rounding_keeps_the_limit` proves this of float.
    """
    key = ("rounded", number.get_id())
    if key not in proof.rows:
        result = proof.fresh("rounded")
        proof.assume(implies(both(number >= -limit, number <= limit), result == number))
        proof.assume(implies(number > limit, result >= limit))
        proof.assume(implies(number < -limit, result <= -limit))
        proof.rows[key] = result, number
    return proof.rows[key][0]


def cast(proof: Proof, value: Scalar, source: int, target: int) -> Scalar:
    """Return a value as another element type."""
    if source == target or isinstance(value, Difference):
        return value
    if not is_term(value):
        return helper.tensor_dtype_to_np_dtype(target).type(value).item() if target != 9 else bool(value)
    if target == TensorProto.BOOL:
        return negated(equal(value, 0))
    if z3.is_bool(value):
        return z3.If(value, z3.IntVal(1), z3.IntVal(0))
    if z3.is_int(value):
        return fitting(proof, value, target)
    if z3.is_fp(value):
        return _cast_float(value, target)
    if z3.is_bv(value):
        return _cast_bits(value, source, target)
    raise UninterpretedError(f"Cast of {value.sort()}")


def _cast_float(value: Any, target: int) -> Any:
    if target in FLOAT_SORTS:
        return z3.fpFPToFP(NEAREST, value, FLOAT_SORTS[target])
    if target in UNSIGNED:
        raise UninterpretedError("Cast of a float to an unsigned type")
    return z3.fpToSBV(z3.RTZ(), value, z3.BitVecSort(width(target)))


def _cast_bits(value: Any, source: int, target: int) -> Any:
    if target in FLOAT_SORTS:
        convert = z3.fpUnsignedToFP if source in UNSIGNED else z3.fpSignedToFP
        return convert(NEAREST, value, FLOAT_SORTS[target])
    more = width(target) - value.size()
    if more <= 0:
        return z3.Extract(width(target) - 1, 0, value)
    return z3.ZeroExt(more, value) if source in UNSIGNED else z3.SignExt(more, value)


def sign(value: Scalar, dtype: int) -> Scalar:
    """Return 1, 0 or -1; of a float NaN, NaN."""
    if isinstance(value, Difference):
        return choice(less(value.right, value.left, dtype), 1, choice(less(value.left, value.right, dtype), -1, 0))
    rest = value if is_term(value) and z3.is_fp(value) else 0
    return choice(less(0, value, dtype), 1, choice(less(value, 0, dtype), -1, rest))


def relu(value: Scalar, dtype: int) -> Scalar:
    """Return the larger of a value and zero."""
    return choice(less(value, 0, dtype), 0, value)


def absolute(value: Scalar, dtype: int) -> Scalar:
    """Return the absolute value of a float."""
    if is_term(value) and z3.is_fp(value):
        return z3.fpAbs(value)
    raise UninterpretedError("Abs")


def floor(value: Scalar, dtype: int) -> Scalar:
    """Return the largest whole number that is not above a float."""
    if is_term(value) and z3.is_fp(value):
        return z3.fpRoundToIntegral(z3.RTN(), value)
    raise UninterpretedError("Floor")


def exclusive_or(left: Scalar, right: Scalar) -> Scalar:
    """Return the bits that differ."""
    a, b = together(left, right)
    if is_term(a) and z3.is_bv(a):
        return a ^ b
    raise UninterpretedError("BitwiseXor")
