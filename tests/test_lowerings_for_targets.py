"""Hardmax, ArgMax and OneHot on runtimes of which a list of operators is known: what is written, and its numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import oracles
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.plan import Code

SHAPES = {"Constant", "Reshape"}
FLOAT_ONLY = {"ReduceMax", "Equal", "Cast", "Mul", "Sub"}
PLACES = {"ReduceMax", "ReduceMin", "Equal", "Where", "Cast"}
BELOW = {"ReduceMax", "ReduceMin", "Less", "Where", "Cast", "Equal"}
TURNED = {"ReduceMax", "Greater", "Cast", "Sub", "Mul", "Equal"}
ARITHMETIC = {"ReduceMax", "Sub", "Sign", "Add", "Mul", "Relu"}
NO_COMPARISON = {"ArgMax", "Cast", "Sub", "Relu", "Unsqueeze", "Add", "Mul"}
COMMON = {
    "Equal",
    "Where",
    "ReduceMax",
    "ReduceMin",
    "Cast",
    "Sub",
    "Mul",
    "Less",
    "Greater",
    "Not",
    "Gather",
    "Unsqueeze",
}
FINITE, WHOLE = frozenset({"finite-inputs"}), frozenset({"whole-indices"})


def target(operators: set[str], opset: int, *limits: Limit) -> Target:
    return Target("mine", (opset, opset), operators=frozenset(operators | SHAPES), limits=limits)


def converted(
    text: str, operators: set[str], assume: frozenset[str] = frozenset(), *limits: Limit, proven: bool = False
) -> Any:
    """Convert, and return the model; only operators of the list are in it."""
    model = parse_model(text)
    to = target(operators, model.opset_import[0].version, *limits)
    result = opshift.convert(model, target=to, assume=assume, verify="nodes" if proven else False)
    assert not proven or (result.report and all(check.verdict == "equal" for check in result.report.nodes))
    assert isinstance(result.model, type(model))
    assert {node.op_type for node in result.model.graph.node} <= operators | SHAPES
    return result.model


def both(model: Any, feeds: dict[str, Any]) -> list[Any]:
    return [run(model, [feeds], optimised=optimised)[0][0] for optimised in (False, True)]


# --- Hardmax ----------------------------------------------------------------------------------------------------------

HARDMAX = """<ir_version: 8, opset_import: ["": {opset}]>
g (float[{dims}] x) => (float[{dims}] y) {{ y = Hardmax <axis = {axis}> (x) }}"""
X = np.array([[[0, 2, 2], [2, -1, 2]], [[-1, -1, -1], [-0.0, 0.0, -3]]], np.float32)
DEEP = np.array([[[-np.inf] * 3, [np.inf, 1, np.inf]], [[-np.inf, 5, 5], [1, -np.inf, np.inf]]], np.float32)
HARDMAX_TARGETS = {
    "float only": (FLOAT_ONLY, frozenset()),
    "positions": (PLACES, frozenset()),
    "the index of ArgMax": ({"ArgMax", "Equal", "Cast"}, frozenset()),
    "the index of TopK": ({"TopK", "Equal", "Cast"}, frozenset()),
    "scattered": ({"TopK", "ScatterElements"}, frozenset()),
    "no comparison": (NO_COMPARISON, frozenset()),
    "in common": (COMMON, frozenset()),
    "arithmetic": (ARITHMETIC, FINITE),
}


STATIC = [("2,2,3", 13, -1), ("2,2,3", 13, 1), ("2,2,3", 13, 0), ("2,2,3", 11, 1), ("2,2,3", 11, -1)]
SYMBOLIC = [("n,2,3", 13, -1), ("n,2,3", 13, 1), ("n,2,3", 11, 1), ("n,2,3", 11, -1)]
HARDMAX_CASES = {
    f"{name}, {dims}, {opset}, {axis}": (operators, assume, dims, opset, axis)
    for name, (operators, assume) in HARDMAX_TARGETS.items()
    # What is put into zeros needs as many zeros as there are at run time.
    for dims, opset, axis in (*STATIC, *(SYMBOLIC if name != "scattered" else ()))
}


@pytest.mark.parametrize(
    ("operators", "assume", "dims", "opset", "axis"), HARDMAX_CASES.values(), ids=list(HARDMAX_CASES)
)
def test_hardmax(operators: set[str], assume: frozenset[str], dims: str, opset: int, axis: int) -> None:
    static = dims[0] != "n"
    text = HARDMAX.format(opset=opset, dims=dims, axis=axis)
    model = converted(text, operators, assume, proven=static and (opset, axis) == (13, -1))
    axes = tuple(range(axis % 3, 3)) if opset < 13 else (axis,)
    for x in (X, DEEP) if assume != FINITE else (X,):
        for y in both(model, {"x": x}):
            np.testing.assert_array_equal(y, oracles.hardmax_axes(x, axes))


@pytest.mark.parametrize("operators", [BELOW, TURNED], ids=["less", "greater"])
def test_hardmax_1(operators: set[str]) -> None:
    """Equal-7 takes no floats."""
    model = converted(HARDMAX.format(opset=9, dims="2,2,3", axis=1), operators)
    for x, y in ((given, y) for given in (X, DEEP) for y in both(model, {"x": given})):
        np.testing.assert_array_equal(y, oracles.hardmax_axes(x, (1, 2)))


def test_an_assumption_is_needed_and_named() -> None:
    text = HARDMAX.format(opset=13, dims="2,2,3", axis=-1)
    (refusal,) = opshift.plan(parse_model(text), target=target(ARITHMETIC, 13)).refusals
    assert refusal.code is Code.ASSUMPTION
    assert "--assume finite-inputs" in refusal.hint
    (step,) = opshift.plan(parse_model(text), target=target(ARITHMETIC, 13), assume=FINITE).steps
    assert step.assumes == ("finite-inputs",)


@pytest.mark.parametrize(
    ("operators", "assume"),
    [(PLACES, frozenset()), (FLOAT_ONLY, frozenset()), (ARITHMETIC, FINITE)],
    ids=["positions", "float only", "arithmetic"],
)
def test_a_long_axis_needs_no_range(operators: set[str], assume: frozenset[str]) -> None:
    """Positions are constants, as many as the axis is long."""
    model = converted(HARDMAX.format(opset=13, dims="1,20000", axis=-1), operators, assume)
    x = np.zeros((1, 20000), np.float32)
    x[0, 17000:] = 1
    for y in both(model, {"x": x}):
        assert np.flatnonzero(y).tolist() == [17000]
    assert "Constant" not in {node.op_type for node in model.graph.node}


# --- ArgMax -----------------------------------------------------------------------------------------------------------

ARGMAX = """<ir_version: 8, opset_import: ["": 13]> g (float[2,2,3] x) => (int64[{dims}] y) {{
    y = ArgMax <axis = {axis}, keepdims = {keepdims}, select_last_index = {last}> (x) }}"""
ARGMAX_TARGETS = {
    "float only": (FLOAT_ONLY, frozenset()),
    "positions": (PLACES, frozenset()),
    "below": (BELOW - {"Equal"}, frozenset()),
    "in common": (COMMON, frozenset()),
    "arithmetic": ({*ARITHMETIC, "Cast"}, FINITE),
    "greater": (TURNED - {"Equal"}, frozenset()),
}


@pytest.mark.parametrize(("operators", "assume"), ARGMAX_TARGETS.values(), ids=list(ARGMAX_TARGETS))
@pytest.mark.parametrize(("axis", "keepdims", "last"), list(itertools.product((-1, 0), (0, 1), (0, 1))))
def test_argmax(operators: set[str], assume: frozenset[str], axis: int, keepdims: int, last: int) -> None:
    dims = {(-1, 0): "2,2", (-1, 1): "2,2,1", (0, 0): "2,3", (0, 1): "1,2,3"}[axis, keepdims]
    text = ARGMAX.format(dims=dims, axis=axis, keepdims=keepdims, last=last)
    model = converted(text, operators, assume, proven=axis == -1 and not keepdims)
    for x in (X, DEEP) if assume != FINITE else (X,):
        turned = np.flip(x, axis) if last else x
        index = turned.argmax(axis)
        index = x.shape[axis] - 1 - index if last else index
        for y in both(model, {"x": x}):
            np.testing.assert_array_equal(y, np.expand_dims(index, axis) if keepdims else index)


def test_the_last_of_the_first() -> None:
    """A runtime whose ArgMax knows the first maximum only."""
    first = Limit("ArgMax", attributes={"select_last_index": (0,)})
    text = ARGMAX.format(dims="2,2", axis=-1, keepdims=0, last=1)
    model = converted(text, {"ArgMax", "Gather", "Sub"}, frozenset(), first)
    for y in both(model, {"x": X}):
        np.testing.assert_array_equal(y, 2 - X[..., ::-1].argmax(-1))


# --- OneHot -----------------------------------------------------------------------------------------------------------

ONEHOT = """<ir_version: 8, opset_import: ["": {opset}]>
g ({kind}[n,7] i) => ({of}[{dims}] y) <int64 d = {{5}}, {of}[2] v = {{{values}}}> {{
    y = OneHot <axis = {axis}> (i, d, v) }}"""
INDICES = np.array([[0, 2, 4, 5, -1, -5, -6], [1, 1, 7, -9, 3, 0, 2]])
FAR = np.array([[2**32, 2**32 + 2, -(2**32) + 1, 2**53 + 1, -(2**63), 2**24, 4]])
EITHER = {"Unsqueeze", "Equal", "Or", "Where"}
RAISED = {"Less", "Add", "Mul", "Cast", "Where", "Unsqueeze", "Equal"}
SUMS = {"Unsqueeze", "Equal", "Cast", "Add", "Mul"}
SCATTERED = {
    "Unsqueeze",
    "ScatterElements",
    "Expand",
    "Concat",
    "Shape",
    "Slice",
    "Less",
    "Not",
    "And",
    "Cast",
    "Mul",
    "Gather",
}
EVERY = ("int64", "int32", "float")
ONEHOT_TARGETS = {
    "either": (EITHER, ("int64", "int32"), frozenset()),
    "either of floats": (EITHER, ("float",), WHOLE),
    "either of floats, cut": ({*EITHER, "Sign", "Floor", "Abs", "Mul"}, ("float",), frozenset()),
    "raised": (RAISED, EVERY, frozenset()),
    "sums": (SUMS, EVERY, frozenset()),
    "scattered": (SCATTERED, ("int64", "int32"), frozenset()),
    "no comparison": (NO_COMPARISON, ("int64", "int32"), frozenset()),
    "in common": (COMMON, EVERY, frozenset()),
    "arithmetic": ({"Unsqueeze", "Sub", "Sign", "Mul", "Add"}, ("float",), WHOLE),
}


@pytest.mark.parametrize(("operators", "kinds", "assume"), ONEHOT_TARGETS.values(), ids=list(ONEHOT_TARGETS))
@pytest.mark.parametrize("values", ["0,1", "2,5", "1,0"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_onehot(operators: set[str], kinds: tuple[str, ...], assume: frozenset[str], values: str, axis: int) -> None:
    dims = {-1: "n,7,5", 0: "5,n,7", 1: "n,5,7"}[axis]
    off, on = map(float, values.split(","))
    for kind in kinds:
        text = ONEHOT.format(opset=13, kind=kind, of="float", dims=dims, values=values, axis=axis)
        model = converted(text, operators, assume, proven=axis == -1 and values == "2,5")
        for indices in (INDICES, FAR) if kind == "int64" else (INDICES,):
            given = indices.astype({"float": np.float32}.get(kind, kind))
            whole = np.where((indices < 0) & (indices >= -5), indices + 5, indices)
            hot = np.moveaxis(np.where(whole[..., None] == np.arange(5), on, off), -1, axis).astype(np.float32)
            for y in both(model, {"i": given}):
                np.testing.assert_array_equal(y, hot)


@pytest.mark.slow
def test_fractions_are_cut_or_an_assumption_is_needed() -> None:
    text = ONEHOT.format(opset=13, kind="float", of="float", dims="n,7,5", values="0,1", axis=-1)
    (refusal,) = opshift.plan(parse_model(text), target=target(EITHER, 13)).refusals
    assert (refusal.code, refusal.hint) == (Code.ASSUMPTION, "Accept it with --assume whole-indices.")
    result = opshift.convert(parse_model(text), target=target(EITHER, 13), assume=WHOLE)
    assert result.report
    assert result.report.verdict == "equal"
    assert [step.assumes for step in result.plan.steps if step.assumes] == [("whole-indices",)]
    indices = np.array([[0.5, -0.5, 1.75, -1.5, 4.9, 5.1, -5.9]], np.float32)
    cut = converted(text, {*EITHER, "Sign", "Floor", "Abs", "Mul"})
    for y in both(cut, {"i": indices}):
        assert y.argmax(-1).tolist() == [[0, 0, 1, 4, 4, 0, 0]]
        assert y.sum(-1).tolist() == [[1, 1, 1, 1, 1, 0, 1]]


INT32 = ("int32", "float", "bool")
NO_INT64 = tuple(
    Limit(name, dtypes=dict.fromkeys(inputs, INT32))
    for name, inputs in {"Equal": ("A", "B"), "Less": ("A", "B"), "Mul": ("A", "B"), "Add": ("A", "B")}.items()
)


def test_int32_where_there_is_no_int64() -> None:
    text = ONEHOT.format(opset=13, kind="int32", of="float", dims="n,7,5", values="0,1", axis=-1)
    model = converted(text, RAISED, frozenset(), *NO_INT64)
    for y in both(model, {"i": INDICES.astype(np.int32)}):
        assert y.sum() == 10
    model = converted(HARDMAX.format(opset=13, dims="2,2,3", axis=1), PLACES, frozenset(), *NO_INT64)
    for y in both(model, {"x": X}):
        np.testing.assert_array_equal(y, oracles.hardmax_axes(X, (1,)))


def test_a_mask_needs_no_value() -> None:
    text = ONEHOT.format(opset=13, kind="int64", of="bool", dims="n,7,5", values="0,1", axis=-1)
    model = converted(text, {"Unsqueeze", "Equal", "Or"})
    for y in both(model, {"i": INDICES}):
        assert y.sum() == 10


def test_webnn_has_convolutions_of_images_only() -> None:
    volumes = (
        '<ir_version: 7, opset_import: ["": 13]> g (float[1,2,3,4,4] x, float[3,2,2,2,2] w) => (y) { y = Conv (x, w) }'
    )
    model = parse_model(volumes.replace("(y)", "(float[1,3,2,3,3] y)"))
    rng = np.random.default_rng(0)
    weights = rng.integers(-3, 4, (3, 2, 2, 2, 2)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    result = opshift.convert(model, target="webnn")
    assert isinstance(result.model, onnx.ModelProto)
    assert "Conv" not in {node.op_type for node in result.model.graph.node}
    feeds = [{"x": rng.integers(-3, 4, (1, 2, 3, 4, 4)).astype(np.float32)}]
    np.testing.assert_array_equal(run(result.model, feeds)[0][0], run(model, feeds)[0][0])


@pytest.mark.parametrize("slopes", ["0.25, 0.5, -1", "0.25, 0, -0.0"])
def test_ncnn_gets_slopes_of_channels_as_products(slopes: str) -> None:
    text = '<ir_version: 7, opset_import: ["": 12]> g (float[1,3,4,4] x) => (float[1,3,4,4] y) '
    model = parse_model(text + f"<float[3,1,1] s = {{{slopes}}}> {{ y = PRelu (x, s) }}")
    result = opshift.convert(model, target="ncnn")
    assert isinstance(result.model, onnx.ModelProto)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert [node.op_type for node in result.model.graph.node] == ["Max", "Min", "Mul", "Add"]


def test_ncnn_gets_no_slopes_that_may_be_infinite() -> None:
    text = '<ir_version: 7, opset_import: ["": 12]> g (float[1,3,4,4] x, float[3,1,1] s) => (float[1,3,4,4] y) '
    (refusal,) = opshift.plan(parse_model(text + "{ y = PRelu (x, s) }"), target="ncnn").refusals
    assert "PRelu" in refusal.reason
