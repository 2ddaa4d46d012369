"""Wrong variants of lowerings: each has one changed node. The solver finds an input for which the result is wrong.

The input then runs in onnxruntime, through the model that the lowering makes and through the one of the wrong variant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lowering_proofs as proofs
import numpy as np
import onnxruntime
import symbolic_terms as terms
from lowering_proofs import OPERATORS, Outcome, Setting
from onnx import TensorProto, helper
from operators.harness import Array, Case, fragment_model, lifted, only, outputs_of, ran
from symbolic import FLOAT, INT64
from symbolic_terms import UninterpretedError, z3

from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.registry.facts import Tensor as Constant
from opshift.opsets.registry.lowering import BodyNode, Function, Lowering, Reason
from opshift.opsets.registry.operator import SPELLING
from opshift.opsets.runtimes.target import Legality
from opshift.passes.rewrite.fragment import Fragment
from opshift.passes.rewrite.lowering_search import Deriver

OPSET = 18
RENAMED = {
    "Equal": "Less",
    "Less": "LessOrEqual",
    "ReduceMax": "ReduceMin",
    "ReduceMin": "ReduceMax",
    "Or": "And",
    "And": "Or",
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Abs": "Floor",
    "Relu": "Sign",
}
"""Operators that stand for others in wrong variants."""
FLIPPED = {"off": "wrap", "wrap": "off", "only": "off", "absent": "off"}


@dataclass(frozen=True, eq=False)
class Confirmed:
    """A wrong variant with an input, the result of the lowering, and that of the variant in onnxruntime."""

    change: str
    inputs: tuple[Array, ...]
    expected: Array
    actual: Array


def variants(function: Function, meaning: Any) -> Iterator[tuple[str, Function]]:
    """Yield functions with one changed node."""
    for place, call in enumerate(function.calls):
        for change, changed in changes(call, meaning):
            calls = (*function.calls[:place], changed, *function.calls[place + 1 :])
            yield f"{call.outputs[0]}: {change}", dataclasses.replace(function, calls=calls)


def changes(call: BodyNode, meaning: Any) -> Iterator[tuple[str, BodyNode]]:
    """Yield changed nodes."""
    if call.domain == SPELLING or call.name == "ArgMax":
        yield from _changed_meanings(call, meaning)
    if call.name == "CumSum":
        exclusive = 1 - call.attributes.get("exclusive", 0)
        yield "exclusive", _with(call, exclusive=exclusive)
    if call.name in RENAMED:
        yield RENAMED[call.name], dataclasses.replace(call, name=RENAMED[call.name])
    if call.name in ("Where", "Sub"):
        turned = (*call.inputs[:-2], call.inputs[-1], call.inputs[-2])
        yield "inputs turned", dataclasses.replace(call, inputs=turned)
    held = call.attributes.get("value")
    if isinstance(held, Constant) and held.array.dtype.kind in "if" and np.isfinite(held.array).all():
        yield "one more", _with(call, value=Constant(held.array + 1))
    if call.name == "TopK":
        yield "largest=0", _with(call, largest=0)
    if call.name == "Squeeze":
        yield "not squeezed", dataclasses.replace(call, name="Identity", inputs=call.inputs[:1])


def _changed_meanings(call: BodyNode, meaning: Any) -> Iterator[tuple[str, BodyNode]]:
    if isinstance(meaning, OneHot):
        yield "negative", _with(call, negative=FLIPPED[call.attributes.get("negative", meaning.negative)])
        return
    if call.name == "Itself":
        for axis in (0, 1):
            yield f"axis {axis}", _with(call, axes=(axis,))
        return
    last = call.attributes.get("select_last_index", getattr(meaning, "select_last_index", 0))
    yield "select_last_index", _with(call, select_last_index=1 - last)


def _with(call: BodyNode, **attributes: Any) -> BodyNode:
    parameters = {name: one for name, one in call.parameters.items() if name not in attributes}
    return dataclasses.replace(call, attributes={**call.attributes, **attributes}, parameters=parameters)


def varied(lowering: Lowering, function: Function) -> Lowering:
    """Return a lowering with another body."""
    result = dataclasses.replace(lowering)
    result.__dict__["read"] = function
    return result


# --- counterexamples --------------------------------------------------------------------------------------------------


def small(operator: str, lowering: Lowering) -> Iterator[Setting]:
    """Yield the nodes of a proof with small sizes instead of any size."""
    for setting in proofs.settings(operator, lowering):
        if lowering.name == "through_float":
            setting = dataclasses.replace(setting, shape=(None, None))
        number = 2 if len(setting.shape) > 1 else 3
        hidden = setting.hidden or all(dim is None for dim in setting.shape)
        some = dataclasses.replace(setting.filled(number), any_values=None, deepest=2**63 - 1, hidden=hidden)
        if operator == "OneHot":
            some = dataclasses.replace(some, shape=(2, 2), depth=3, assume=is_near)
        if not isinstance(proofs.body_of(OPERATORS[operator], lowering, some), Reason):
            yield some


def is_near(index: Any) -> Any:
    """Return whether an index is a small whole number: what it points to is defined, and shown in full."""
    if z3.is_fp(index):
        return z3.And(proofs.is_whole(index), z3.fpLEQ(z3.fpAbs(index), 100))
    return z3.And(index >= -100, index <= 100)


def confirmed(operator: str, lowering: Lowering) -> Confirmed | None:
    """Return a wrong variant that the solver refutes, with an input on which onnxruntime differs."""
    for number, setting in enumerate(small(operator, lowering)):
        if number > 6:
            break
        for change, function in variants(lowering.read, setting.meaning):
            wrong = varied(lowering, function)
            try:
                outcome = proofs.prove(operator, wrong, setting)
            except (UninterpretedError, z3.Z3Exception, ValueError, IndexError, KeyError, OverflowError, RuntimeError):
                continue
            if outcome is None or outcome.model is None:
                continue
            inputs = inputs_of(operator, setting, outcome)
            found = compared(operator, lowering, wrong, setting, inputs)
            if found is not None and not np.array_equal(*found):
                return Confirmed(change, inputs, *found)
    return None


def inputs_of(operator: str, setting: Setting, outcome: Outcome) -> tuple[Array, ...]:
    """Return the input of a counterexample."""
    shape = tuple(dim or 1 for dim in setting.shape)
    name = "indices" if operator == "OneHot" else "x"
    function = next((one for one in outcome.model.decls() if one.name() == name), None)
    places = list(np.ndindex(*shape))
    values = [
        outcome.model.eval(function(*map(z3.IntVal, place)), model_completion=True) if function is not None else None
        for place in places
    ]
    data = numbers(values, setting.dtype).reshape(shape)
    if operator != "OneHot":
        return (data,)
    kind = helper.tensor_dtype_to_np_dtype(setting.values)
    return data, np.array(setting.depth, np.int64), np.array(setting.off_on or (2, 5), kind)


def numbers(values: list[Any], dtype: int) -> Array:
    """Return the values of a model; elements that are only compared become their ranks."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if any(value is None for value in values):
        return np.zeros(len(values), kind)
    if z3.is_fp(values[0]):
        bits = [z3.simplify(z3.fpToIEEEBV(value)).as_long() for value in values]  # none is NaN
        return np.array(bits, f"uint{8 * kind.itemsize}").view(kind)
    if z3.is_bv(values[0]):
        read = "as_long" if dtype in terms.UNSIGNED else "as_signed_long"
        return np.array([getattr(value, read)() for value in values], kind)
    if z3.is_int_value(values[0]):
        return np.array([value.as_long() for value in values], kind)
    exact = [value.as_fraction() for value in values]
    ranks = sorted(set(exact))
    return np.array([ranks.index(value) for value in exact], kind)


def compared(
    operator: str, lowering: Lowering, wrong: Lowering, setting: Setting, inputs: tuple[Array, ...]
) -> tuple[Array, Array] | None:
    """Return what onnxruntime computes by the lowering, which is right, and by the variant; None if it does not run."""
    known = () if operator != "OneHot" else (1, 2) if setting.off_on else (1,)
    case = Case("counterexample", inputs, setting.meaning, known)
    owner = OPERATORS[operator]
    right, changed = (model_of(owner, one, case, setting.kind) for one in (lowering, wrong))
    if right is None or changed is None:
        return None
    feeds = dict(zip(owner.operands, inputs, strict=True))
    try:
        expected, actual = (ran(model, feeds)[0][0] for model in (right, changed))
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return None
        raise
    np.testing.assert_array_equal(expected, outputs_of(owner, case)[0])
    return expected, actual


def model_of(owner: Any, lowering: Lowering, case: Case, kind: str) -> Any:
    """Return the model that a lowering makes of a case, if there is one for this opset."""
    one = only(owner, lowering)
    whole = lifted(one, case, kind)
    assumptions = frozenset({"finite-inputs", "whole-indices", "no-nan", "approximate"})
    for gone in (frozenset({owner.name}), frozenset[str]()):
        fragment = Deriver(Legality(OPSET, gone, runnable=True), assume=assumptions).derive(whole)
        if isinstance(fragment, Fragment):
            return fragment_model(case, whole, fragment, OPSET, kind)
    return None


def same_as_float(left: int, right: int) -> bool:
    """Return whether onnxruntime casts two integers to the same float."""
    parse = helper.make_model(
        helper.make_graph(
            [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)],
            "cast",
            [helper.make_tensor_value_info("x", INT64, [2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(parse.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs: Mapping[str, Array] = {"x": np.array([left, right], np.int64)}
    (found,) = session.run(None, inputs)
    return bool(found[0] == found[1])
