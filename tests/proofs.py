"""Proofs that lowerings of Hardmax, ArgMax and OneHot compute what the operators' specifications define.

A `Setting` is a node: its meaning, and the known facts about its operands. `prove_rows` and `prove_one_hot` interpret the
body that the lowering has for this node, on symbolic tensors, and compare each element, the shape and the element type
with the specification. Operators that a body names by their meaning are interpreted by their specification, so each
lowering is proven on its own.
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
from symbolic_terms import BOTTOM, Proof, Scalar, UninterpretedError, z3

from opshift.opsets.operators import argmax, hardmax, onehot
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.families.rows import Rows
from opshift.opsets.registry.facts import Facts, Tensor as Constant
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

    `kind` is `static`, `symbolic` or `unranked`: the facts about the first operand. `shape` has its dimensions, None for
    a dimension of any size. Of OneHot, `depth` is the depth if it is a constant, and `off_on` the values if they are.
    """

    meaning: Any
    dtype: int
    shape: tuple[int | None, ...]
    kind: str = "static"
    depth: int | None = None
    off_on: tuple[Any, Any] | None = None
    values: int = FLOAT

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
    symbols = tuple(f"d{axis}" if dim is None else dim for axis, dim in enumerate(setting.shape))
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
        return lowering.body_for(whole.meaning, whole.operands)
    bodies = []
    for number in SIZES:
        whole = lifted(operator, setting.filled(number))
        bodies.append(lowering.body_for(whole.meaning, whole.operands))
        if isinstance(bodies[-1], Reason):
            return bodies[-1]
    first = bodies[0]
    return first if all(body == first for body in bodies) else Reason("the body depends on the sizes")


# --- rows: Hardmax and ArgMax -----------------------------------------------------------------------------------------


def row_specification(proof: Proof, operator: str, meaning: Any, data: Tensor) -> Tensor:
    """Return the result by the specification.

    Hardmax-13: "1 if the element is the first maximum value along the specified axis, 0 otherwise". Hardmax-11: "input
    will be coerced into a 2-dimensional tensor", whose rows are all axes from `axis` on. ArgMax-12: "If select_last_index
    is True (default False), the index of the last occurrence of the max is selected"; "otherwise" the first.
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
    data = row_data(proof, setting, sort_of(setting.dtype) if typed else z3.RealSort(), longest)
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
    sizes = terms.both(*(terms.equal(one, other) for one, other in unlike))
    goal = terms.both(sizes, terms.equal(result.at(place), expected.at(place)))
    proof.use_facts()
    solver = proof.solver(MILLISECONDS)
    solver.add(terms.literal(terms.negated(terms.both(goal, *proof.requirements.values()))))
    answer = solver.check()
    if answer == z3.unsat:
        return Outcome("proven")
    return Outcome("refuted", solver.model()) if answer == z3.sat else Outcome("unknown", reason=solver.reason_unknown())


def same_size(left: Scalar, right: Scalar) -> bool:
    """Return whether two dimensions are written in the same way."""
    return same(left, right)
