"""Models of opsets 1 to 6, against numpy.

Each version of an operator that no opset from 7 on has is converted, run in onnxruntime, and compared with what its
text defines. The functions here are written from the texts in onnx.defs, independently of the oracles of the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper, numpy_helper
from onnx.parser import parse_model
from running import Array, run

import opshift
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.passes.base.errors import InvalidModelError, UnsupportedError
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict

TARGETS = (7, 13, 26)
ULP = 4
"""Of a float result: numpy and onnxruntime each round a function to within 2 units in the last place."""


@dataclass(frozen=True)
class Old:
    """A node: its attributes, inputs, and a numpy function of the inputs that follows the text.

    `known` are the inputs that are initializers. `exact` results are equal, others but for rounding.
    """

    operator: str
    versions: tuple[int, ...]
    inputs: Sequence[Array]
    function: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    exact: bool = True
    outputs: int = 1
    note: str = ""

    def __str__(self) -> str:
        return f"{self.operator}{'-' if self.note else ''}{self.note}".replace(" ", "-")


def floats(*shape: int) -> Array:
    """Return whole and half numbers, negative ones and zero included, whose sums and products are exact."""
    count = math.prod(shape)
    return (((np.arange(count) * 7) % 13 - 6) / 2).astype(np.float32).reshape(shape)


def positive(*shape: int) -> Array:
    """Return numbers above zero."""
    return np.abs(floats(*shape)) + np.float32(0.5)


def truth(*shape: int) -> Array:
    """Return booleans."""
    return floats(*shape) > 0


X = floats(2, 3, 4, 5)
CONSUMED = {"consumed_inputs": [0]}


def unary(name: str, function: Callable[..., Any], x: Array = X, *, exact: bool = False) -> Old:
    """Return the case of an operator whose version 1 differs by `consumed_inputs` alone."""
    return Old(name, (1,), [x], function, CONSUMED, exact=exact)


def aligned(a: Array, b: Array, axis: int) -> Array:
    """Add-6: "The starting of the mutually equal shape is specified by the argument "axis"": repeat over the others."""
    wide = np.empty(a.shape, b.dtype)
    for place in np.ndindex(a.shape):
        wide[place] = b[place[axis : axis + b.ndim]]
    return wide


def binary(name: str, function: Callable[..., Any], make: Callable[..., Array], versions: tuple[int, ...]) -> list[Old]:
    """Return the ways in which the second input meets the first, by the text of Add-6."""
    a = make(2, 3, 4, 5)

    def case(b: Array, spread: Callable[[Array], Array], note: str, **attributes: Any) -> Old:
        return Old(name, versions, [a, b], lambda a, b: function(a, spread(b)), attributes, note=note)

    def at(axis: int) -> Callable[[Array], Array]:
        return lambda b: aligned(a, b, axis)

    return [
        case(make(2, 3, 4, 5)[::-1].copy(), lambda b: b, "one shape"),
        case(make(2, 3, 4, 5)[:, ::-1].copy(), lambda b: b, "axis without broadcast", axis=1),
        case(make(1).reshape(()), lambda b: np.full(a.shape, b), "a scalar", broadcast=1),
        case(make(1).reshape(1, 1), lambda b: np.full(a.shape, b.item(), b.dtype), "one element", broadcast=1),
        case(make(5), at(3), "the last axis", broadcast=1),
        case(make(4, 5), at(2), "the last axes", broadcast=1),
        case(make(3, 4), at(1), "middle axes", broadcast=1, axis=1),
        case(make(2), at(0), "the first axis", broadcast=1, axis=0),
        case(make(3), at(1), "a channel", broadcast=1, axis=1),
        case(make(5), at(3), "the last axis by -1", broadcast=1, axis=-1),
        case(make(4, 5), at(2), "the last axes by a number", broadcast=1, axis=2),
    ]


def divisors(*shape: int) -> Array:
    """Return powers of two, so that quotients are exact."""
    return (2.0 ** (np.arange(math.prod(shape)) % 5 - 2)).astype(np.float32).reshape(shape)


def exponents(*shape: int) -> Array:
    """Return small positive numbers, as bases and as exponents; all powers are exact."""
    return (1 + np.arange(math.prod(shape)) % 3).astype(np.float32).reshape(shape)


def averaged(x: Array) -> Array:
    """AveragePool-1: "divided by the number of elements exclude pad"; kernel 2x2, stride 1, one row of pads on top."""
    y = np.empty((*x.shape[:2], x.shape[2], x.shape[3] - 1), x.dtype)
    for row, column in np.ndindex(y.shape[2:]):
        y[:, :, row, column] = x[:, :, max(row - 1, 0) : row + 1, column : column + 2].mean((2, 3))
    return y


def normed(x: Array, p: float) -> Array:
    """LpPool-1: the Lp norm of all values of a window; kernel 2x2, stride 2."""
    y = np.empty((*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2), x.dtype)
    for row, column in np.ndindex(y.shape[2:]):
        window = np.abs(x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].astype(np.float64))
        y[:, :, row, column] = (window**p).sum((2, 3)) ** (1 / p)
    return y


def by_channel(one: Array) -> Array:
    """Return numbers of channels in the place of the second of four axes."""
    return one.reshape(1, -1, 1, 1)


def batch_normalized(x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
    """BatchNormalization-6, "test mode", with the default epsilon 1e-5."""
    wide = (x - by_channel(mean).astype(np.float64)) / np.sqrt(by_channel(var).astype(np.float64) + np.float32(1e-5))
    return np.asarray((wide * by_channel(scale) + by_channel(bias)).astype(np.float32))


def instance_normalized(x: Array, scale: Array, bias: Array) -> Array:
    """InstanceNormalization-1: "mean and variance are computed per instance per channel"."""
    wide = x.astype(np.float64)
    away = wide - wide.mean((2, 3), keepdims=True)
    wide = away / np.sqrt(wide.var((2, 3), keepdims=True) + np.float32(1e-5))
    return np.asarray((wide * by_channel(scale) + by_channel(bias)).astype(np.float32))


def sigmoid(x: Array) -> Array:
    """Return the logistic function."""
    return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))))


def rnn(x: Array, w: Array, r: Array, *, gates: int) -> list[Array]:
    """RNN-1 (1 gate), LSTM-1 (4: i, o, f, c) and GRU-1 (3: z, r, h), forward, without biases: Y and the last states."""
    steps, batch, _ = x.shape
    size = r.shape[-1]
    hidden, cell = np.zeros((batch, size)), np.zeros((batch, size))
    y = []
    ws, rs = np.split(w[0].astype(np.float64), gates), np.split(r[0].astype(np.float64), gates)
    for step in range(steps):
        inner = [x[step] @ one.T for one in ws]
        if gates == 1:
            hidden = np.tanh(inner[0] + hidden @ rs[0].T)
        elif gates == 4:
            i, o, f = (sigmoid(inner[gate] + hidden @ rs[gate].T) for gate in range(3))
            cell = f * cell + i * np.tanh(inner[3] + hidden @ rs[3].T)
            hidden = o * np.tanh(cell)
        else:
            z, reset = (sigmoid(inner[gate] + hidden @ rs[gate].T) for gate in range(2))
            hidden = (1 - z) * np.tanh(inner[2] + (reset * hidden) @ rs[2].T) + z * hidden
        y.append(hidden)
    last = [hidden[None], cell[None]] if gates == 4 else [hidden[None]]
    return [one.astype(np.float32) for one in (np.stack(y)[:, None], *last)]


def recurrent(name: str, versions: tuple[int, ...], gates: int, **attributes: Any) -> Old:
    """Return a layer of 4 neurons."""
    inputs = [floats(3, 2, 5) / 8, floats(1, gates * 4, 5) / 8, floats(1, gates * 4, 4) / 8]

    def function(x: Array, w: Array, r: Array) -> list[Array]:
        return rnn(x, w, r, gates=gates)

    outputs = 3 if gates == 4 else 2
    return Old(name, versions, inputs, function, {"hidden_size": 4, **attributes}, exact=False, outputs=outputs)


def prelu(x: Array, slope: Array) -> Array:
    """PRelu-6: "If `Slope` is of size 1, the value is sharedacross different channels"."""
    return np.where(x < 0, x * (by_channel(slope) if slope.ndim == 1 else slope), x)


NAMES = {"FLOAT": np.float32, "INT64": np.int64, "BOOL": np.bool_, "DOUBLE": np.float64, "UINT8": np.uint8}
LIMIT = float(np.finfo(np.float32).max)
INFINITE = np.array([-np.inf, -1, 2, np.inf], np.float32)
THREE = [floats(2, 3), floats(3, 2).reshape(2, 3), floats(2, 3)[::-1].copy()]
BN = [X, positive(3), floats(3), floats(3)[::-1].copy(), positive(3)]
TEST = {"is_test": 1}

CASES: list[Old] = [
    unary("Abs", np.abs, exact=True),
    unary("Ceil", np.ceil, exact=True),
    unary("Exp", np.exp),
    unary("Floor", np.floor, exact=True),
    unary("Log", np.log, positive(2, 3)),
    unary("Neg", np.negative, exact=True),
    unary("Reciprocal", lambda x: np.float32(1) / x, positive(2, 3), exact=True),
    unary("Relu", lambda x: np.where(x > 0, x, np.float32(0)), exact=True),
    unary("Sigmoid", lambda x: sigmoid(x).astype(np.float32)),
    unary("Sqrt", np.sqrt, positive(2, 3), exact=True),
    unary("Tanh", np.tanh),
    Old("LeakyRelu", (1,), [X], lambda x: np.where(x < 0, x / 4, x), {**CONSUMED, "alpha": 0.25}),
    Old("LeakyRelu", (1,), [X], lambda x: np.where(x < 0, x * np.float32(0.01), x), CONSUMED, note="default"),
    Old("HardSigmoid", (1,), [X], lambda x: np.clip(x / 4 + np.float32(0.75), 0, 1), {"alpha": 0.25, "beta": 0.75}),
    Old("HardSigmoid", (1,), [X], lambda x: np.clip(x / 5 + 0.5, 0, 1).astype(np.float32), exact=False, note="default"),
    Old("Elu", (1,), [X], lambda x: np.where(x < 0, 2 * np.expm1(x), x), {**CONSUMED, "alpha": 2.0}, exact=False),
    # Selu-1 has other defaults than Selu-6: "alpha (default is 1.6732)", "gamma (default is 1.0507)".
    Old(
        "Selu",
        (1,),
        [X],
        lambda x: (1.0507 * np.where(x <= 0, 1.6732 * np.expm1(x.astype(np.float64)), x)).astype(np.float32),
        CONSUMED,
        exact=False,
    ),
    *binary("Add", np.add, floats, (1, 6)),
    *binary("Sub", np.subtract, floats, (1, 6)),
    *binary("Mul", np.multiply, floats, (1, 6)),
    *binary("Div", np.divide, divisors, (1, 6)),
    *binary("Pow", np.power, exponents, (1,)),
    *binary("And", np.logical_and, truth, (1,)),
    *binary("Or", np.logical_or, truth, (1,)),
    *binary("Xor", np.logical_xor, truth, (1,)),
    *binary("Equal", np.equal, lambda *shape: floats(*shape).astype(np.int32), (1,)),
    *binary("Greater", np.greater, floats, (1,)),
    *binary("Less", np.less, floats, (1,)),
    *(Old(name, (1,), THREE, function, CONSUMED) for name, function in (
        ("Max", lambda *x: np.maximum.reduce(x)), ("Min", lambda *x: np.minimum.reduce(x)), ("Sum", lambda *x: sum(x))
    )),
    Old("Mean", (1,), THREE[:2], lambda a, b: (a + b) / 2, CONSUMED),
    Old("PRelu", (1, 6), [X, floats(3)], prelu, note="channels"),
    Old("PRelu", (1, 6), [X, floats(1)], prelu, note="shared"),
    Old("PRelu", (1, 6), [X, floats(3, 1, 1)], prelu, note="with axes of 1"),
    Old("PRelu", (1, 6), [floats(2, 3), floats(3)], lambda x, slope: np.where(x < 0, x * slope, x), note="matrix"),
    Old("AveragePool", (1,), [X], averaged, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 0]}, exact=False),
    Old("LpPool", (1,), [X], lambda x: normed(x, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}, exact=False),
    Old("LpPool", (1,), [X], lambda x: normed(x, 3), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3.0}, exact=False,
        note="p 3"),
    Old("LpPool", (1,), [X], lambda x: normed(x, 1.5), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 1.5},
        exact=False, note="p 1.5"),
    Old("GlobalLpPool", (1,), [X], lambda x: np.sqrt((x * x).sum((2, 3), keepdims=True)), exact=False),
    Old(
        "GlobalLpPool",
        (1,),
        [X],
        lambda x: ((np.abs(x.astype(np.float64)) ** 2.5).sum((2, 3), keepdims=True) ** 0.4).astype(np.float32),
        {"p": 2.5},
        exact=False,
        note="p 2.5",
    ),
    Old("BatchNormalization", (1,), BN, batch_normalized, {"consumed_inputs": [0, 0, 0, 1, 1], **TEST}, exact=False),
    Old("BatchNormalization", (6,), BN, batch_normalized, TEST, exact=False),
    Old("BatchNormalization", (6,), BN, batch_normalized, exact=False, note="of one output without is_test"),
    Old("InstanceNormalization", (1,), [X, floats(3), floats(3)], instance_normalized, CONSUMED, exact=False),
    *(
        Old("Cast", (1,), [positive(2, 3)], lambda x, name=name: x.astype(NAMES[name]), {"to": name}, note=name)
        for name in NAMES
    ),
    Old("Clip", (1,), [X], lambda x: np.clip(x, -1, 2), {**CONSUMED, "min": -1.0, "max": 2.0}),
    Old("Clip", (1,), [X], lambda x: np.maximum(x, -1), {"min": -1.0}, note="min"),
    Old("Clip", (1,), [INFINITE], lambda x: np.clip(x, -LIMIT, LIMIT), note="limits"),
    Old("Concat", (1,), [floats(2, 3), floats(2, 4)], lambda *x: np.concatenate(x, 1), note="default axis"),
    Old("Concat", (1,), [floats(2, 3), floats(4, 3)], lambda *x: np.concatenate(x, 0), {"axis": 0}),
    Old("Dropout", (1,), [X], lambda x: x, {**CONSUMED, **TEST}),
    Old("Dropout", (6,), [X], lambda x: x, {**TEST, "ratio": 0.25}),
    Old("Gemm", (1, 6), [floats(4, 3), floats(4, 5), floats(3, 5)], lambda a, b, c: 2 * a.T @ b + c / 2,
        {"alpha": 2.0, "beta": 0.5, "transA": 1}),
    Old("Gemm", (1, 6), [floats(3, 4), floats(5, 4), floats(5)], lambda a, b, c: a @ b.T + c,
        {"broadcast": 1, "transB": 1}, note="broadcast"),
    Old("Pad", (1,), [floats(2, 3)], lambda x: np.pad(x, [(0, 1), (2, 0)], constant_values=1.5),
        {"paddings": [0, 2, 1, 0], "value": 1.5}),
    Old("Pad", (1,), [floats(3, 3)], lambda x: np.pad(x, [(1, 1), (2, 0)], "reflect"),
        {"paddings": [1, 2, 1, 0], "mode": "reflect"}, note="reflect"),
    Old("Reshape", (1,), [floats(2, 3, 4)], lambda x: x.reshape(2, 12), {**CONSUMED, "shape": [0, -1]}),
    Old("Reshape", (1,), [floats(1)], lambda x: x.reshape(()), {"shape": []}, note="scalar"),
    Old("Split", (1,), [floats(6, 2)], lambda x: np.split(x, 3), outputs=3, note="equal"),
    Old("Split", (1,), [floats(2, 5)], lambda x: np.split(x, [2], 1), {"axis": 1, "split": [2, 3]}, outputs=2),
    Old("Split", (1,), [floats(5, 2), np.array([2, 3], np.float32)], lambda x, sizes: np.split(x, [2]), known=(1,),
        outputs=2, note="constant input"),
    Old("Split", (1,), [floats(5, 2), np.array([2, 3], np.float32)], lambda x, sizes: np.split(x, [2]), outputs=2,
        note="input"),
    *(
        Old("Tile", (1,), [X, np.array(3, np.float32), np.array(axis, np.float32)],
            lambda x, tiles, axis: np.concatenate([x] * int(tiles), int(axis)), known=(*known, 2),
            note=f"axis {axis} {'constant' if known else 'computed'}")
        for axis in (0, 1, 3) for known in ((1,), ())
    ),
    Old("Upsample", (1,), [floats(1, 2, 3, 4)], lambda x: x.repeat(2, 2).repeat(3, 3),
        {"height_scale": 2.0, "width_scale": 3.0}),
    recurrent("RNN", (1,), 1, output_sequence=1),
    recurrent("LSTM", (1,), 4, output_sequence=1),
    recurrent("GRU", (1, 3), 3, output_sequence=1),
    recurrent("GRU", (1,), 3, direction="forward"),
]  # fmt: skip

PAIRS = [(case, version) for case in CASES for version in case.versions]
IDS = [f"{case}-{version}" for case, version in PAIRS]


def model_of(case: Old, opset: int) -> onnx.ModelProto:
    """Return the model of one node."""
    values = [helper.make_tensor_value_info(f"i{index}", helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
              for index, one in enumerate(case.inputs)]  # fmt: skip
    names = [f"o{index}" for index in range(case.outputs)]
    node = helper.make_node(case.operator, [value.name for value in values], names)
    node.attribute.extend(
        helper.make_attribute(name, value, attr_type=AttributeProto.INTS if value == [] else None)
        for name, value in case.attributes.items()
    )
    results = results_of(case)
    outputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
               for name, one in zip(names, results, strict=True)]  # fmt: skip
    held = [numpy_helper.from_array(case.inputs[index], f"i{index}") for index in case.known]
    graph = helper.make_graph([node], "g", values, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def results_of(case: Old) -> list[Array]:
    """Return what the text defines."""
    with np.errstate(all="ignore"):
        found = case.function(*case.inputs)
    return [np.asarray(one) for one in (found if isinstance(found, list) else [found])]


def compare(case: Old, model: onnx.ModelProto) -> None:
    """Run a model, and compare."""
    feeds = {f"i{index}": one for index, one in enumerate(case.inputs) if index not in case.known}
    for got, wanted in zip(run(model, [feeds])[0], results_of(case), strict=True):
        assert got.dtype == wanted.dtype
        if case.exact:
            np.testing.assert_array_equal(got, wanted)
        else:
            # A value near zero may be the difference of numbers of the size of the largest.
            size = np.abs(wanted).max()
            np.testing.assert_allclose(got, wanted, rtol=ULP * 2**-23, atol=ULP * 2**-23 * size)


def test_each_version_below_7_is_tested_or_is_that_of_opset_7() -> None:
    tested = {(case.operator, version) for case in CASES for version in case.versions}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version < OLDEST:
            known = onnx.defs.get_schema(schema.name, OLDEST, "")
            same = known.since_version == schema.since_version
            assert same or (schema.name, schema.since_version) in tested, f"{schema.name}-{schema.since_version}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("case", "version"), PAIRS, ids=IDS)
def test_a_node_computes_what_its_text_defines(case: Old, version: int, target: int) -> None:
    result = opshift.convert(model_of(case, version), opset=target, verify=False).rewritten
    assert next(entry.version for entry in result.opset_import) == target
    compare(case, result)


@pytest.mark.parametrize(("case", "version"), PAIRS, ids=IDS)
def test_verification_finds_the_conversion_right(case: Old, version: int) -> None:
    report = opshift.convert(model_of(case, version), opset=13, effort="quick").report
    assert report is not None
    assert report.whole is not None
    assert report.whole.verdict is Verdict.EQUAL, report.whole.reason


# --- what is refused --------------------------------------------------------------------------------------------------


def text(opset: int, body: str, ir_version: int = 3) -> onnx.ModelProto:
    """Return a model of an opset."""
    return parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> g {body}')


@pytest.mark.parametrize("target", [1, 6])
@pytest.mark.parametrize("source", [1, 6, 13])
def test_an_opset_below_7_is_no_target(source: int, target: int) -> None:
    model = text(source, "(float[2] x) => (float[2] y) { y = Add (x, x) }")
    (refusal,) = opshift.plan(model, opset=target).refusals
    assert refusal.code is Code.OPSET_TOO_OLD
    assert "below 7" in refusal.reason


def test_a_second_input_of_unknown_rank_is_refused_where_an_axis_counts() -> None:
    model = text(6, "(float[2,3,4] x, float[a] b) => (float[2,3,4] y) { y = Add <axis = 1, broadcast = 1> (x, b) }")
    assert opshift.plan(model, opset=13).possible
    model.graph.input[1].type.tensor_type.ClearField("shape")
    (refusal,) = opshift.plan(model, opset=13).refusals
    assert refusal.code is Code.MISSING_FACT
    assert "axis 1" in refusal.reason
    del model.graph.node[0].attribute[0]
    assert opshift.plan(model, opset=13).possible


def test_an_axis_behind_which_too_few_axes_are_is_invalid() -> None:
    model = text(6, "(float[2,3] x, float[2,3] b) => (float[2,3] y) { y = Add <axis = 1, broadcast = 1> (x, b) }")
    with pytest.raises(InvalidModelError, match="axis 1 leaves fewer axes"):
        opshift.plan(model, opset=13)


def test_outputs_of_training_contradict_is_test() -> None:
    outputs = "(float[2,3,4,4] y, float[3] n, float[3] v, float[3] s, float[3] t)"
    inputs = "(float[2,3,4,4] x, float[3] a, float[3] b, float[3] m, float[3] w)"
    body = f"{inputs} => {outputs} {{ y, n, v, s, t = BatchNormalization <is_test = 1> (x, a, b, m, w) }}"
    with pytest.raises(InvalidModelError, match="outputs of training"):
        opshift.plan(text(6, body), opset=13)


def test_a_cast_to_a_name_that_is_no_type_is_invalid() -> None:
    model = text(1, '(float[2] x) => (float[2] y) { y = Cast <to = "NUMBER"> (x) }')
    with pytest.raises(InvalidModelError, match="not the name of an element type"):
        opshift.plan(model, opset=13)


@pytest.mark.parametrize("version", [1, 6])
def test_a_dropout_that_trains_stays_one(version: int) -> None:
    model = text(version, "(float[2] x) => (float[2] y) { y = Dropout <ratio = 0.25> (x) }")
    (refusal,) = opshift.plan(model, opset=7).refusals
    assert refusal.code is Code.NO_LOWERING
    (node,) = opshift.convert(model, opset=13, verify=False).rewritten.graph.node
    assert node.op_type == "Dropout"
    assert len(node.input) == 3


@pytest.mark.parametrize("name", ["ATen", "ConstantFill", "GRUUnit"])
def test_experimental_operators_are_refused_by_name(name: str) -> None:
    model = text(1, f"(float[2] x) => (float[2] y) {{ y = {name} (x) }}")
    with pytest.raises((UnsupportedError, InvalidModelError), match=name):
        opshift.convert(model, opset=13, verify=False)


# --- ir_version 1 and 2 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ir_version", [1, 2])
def test_an_ir_version_without_opset_imports_is_opset_1(ir_version: int, tmp_path: Path) -> None:
    model = text(1, "(float[2,3] x) => (float[2,3] y) { y = LeakyRelu <alpha = 0.25, consumed_inputs = [0]> (x) }")
    model.ir_version = ir_version
    del model.opset_import[:]
    if ir_version == 1:
        for attribute in model.graph.node[0].attribute:
            attribute.ClearField("type")
    before = model.SerializeToString()
    path = tmp_path / "old.onnx"
    path.write_bytes(before)
    for source in (model, path):
        result = opshift.convert(source, opset=13)
        assert result.rewritten.ir_version >= 3
        assert [entry.version for entry in result.rewritten.opset_import] == [13]
        assert result.report is not None
        assert result.report.whole is not None
        assert result.report.whole.verdict is Verdict.EQUAL, result.report.whole.reason
        assert any(f"ir_version {ir_version}" in note for note in result.repairs)
        x = floats(2, 3)
        (y,) = run(result.rewritten, [{"x": x}])[0]
        np.testing.assert_array_equal(y, np.where(x < 0, x / 4, x))
    assert model.SerializeToString() == before


# --- models that declare another opset than that of their nodes -------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "node", "fitting"),
    [
        (13, "Add <axis = 1, broadcast = 1> (x, x)", "opset 1 to 6"),
        (6, "LeakyRelu <consumed_inputs = [0]> (x)", "opset 1 to 5"),
        (7, "Mish (x)", f"opset 18 to {NEWEST}"),
        (13, "Pad <pads = [0, 1]> (x)", "opset 2 to 10"),
    ],
)
def test_the_opset_that_fits_is_named(declared: int, node: str, fitting: str) -> None:
    with pytest.raises(InvalidModelError, match=f"declares opset {declared}, and its nodes are those of {fitting}"):
        opshift.plan(text(declared, f"(float[2] x) => (float[n] y) {{ y = {node} }}"), opset=13)


STAMPED = "(float[2,3] x, float[3] b) => (float[2,3] y) { y = Add <axis = 1, broadcast = 1> (x, b) }"


@pytest.mark.parametrize("form", ["model", "bytes", "file", "text"])
def test_a_wrongly_stamped_model_is_read_as_the_opset_requested(form: str, tmp_path: Path) -> None:
    model = text(13, STAMPED)
    before = model.SerializeToString()
    path = tmp_path / ("stamped.onnxtxt" if form == "text" else "stamped.onnx")
    path.write_bytes(onnx.printer.to_text(model).encode() if form == "text" else before)
    source: Any = {"model": model, "bytes": before}.get(form, path)
    with pytest.raises(InvalidModelError, match="such as --assume-opset 6"):
        opshift.convert(source, opset=13)
    result = opshift.convert(source, opset=13, assume_opset=6)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert result.repairs == ("Read as opset 6, as requested; it declares opset 13.",)
    assert model.SerializeToString() == before
    x, b = floats(2, 3), floats(3)
    (y,) = run(result.rewritten, [{"x": x, "b": b}])[0]
    np.testing.assert_array_equal(y, x + b)
    assert opshift.plan(source, opset=13, assume_opset=6).source_opset == 6
    assert opshift.inspect(source, assume_opset=6).opset == 6
    assert opshift.verify(source, result.rewritten, assume_opset=6).verdict is Verdict.EQUAL


def test_an_opset_that_fits_is_written_by_itself() -> None:
    """A node may fit both opsets, and mean something else at each."""
    model = text(12, "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }")
    result = opshift.convert(model, assume_opset=13, verify=False)
    assert [entry.version for entry in result.rewritten.opset_import] == [13]
    assert [node.op_type for node in result.rewritten.graph.node] == ["Softmax"]


def test_functions_that_declare_the_wrong_opset_are_read_as_the_other() -> None:
    """Softmax-11 with axis 1 is of two axes; read as one of opset 13, it would be rewritten."""
    model = text(13, "(float[2,3,4] x) => (float[2,3,4] y) { y = own.F (x) }", 8)
    inner = [helper.make_node("Softmax", ["a"], ["b"], axis=1)]
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], inner, [helper.make_opsetid("", 13)]))
    model.opset_import.add(domain="own", version=1)
    result = opshift.convert(model, opset=12, assume_opset=12, verify=False).rewritten
    assert [entry.version for entry in result.functions[0].opset_import] == [12]
    assert [node.op_type for node in result.functions[0].node] == ["Softmax"]


@pytest.mark.parametrize("ir_version", [1, 2])
def test_a_model_without_opset_imports_is_read_as_another(ir_version: int) -> None:
    model = text(1, "(float[2,3] x) => (float[2,3] y) { y = LeakyRelu <alpha = 0.25> (x) }")
    model.ir_version = ir_version
    del model.opset_import[:]
    result = opshift.convert(model, opset=13, assume_opset=6)
    assert any("Read as opset 6" in note for note in result.repairs)
    assert [entry.version for entry in result.rewritten.opset_import] == [13]


def test_no_opset_is_named_where_none_fits() -> None:
    body = "(float[2] x) => (float[2] y) { h = Mish (x) y = Add <broadcast = 1> (h, x) }"
    with pytest.raises(InvalidModelError) as caught:
        opshift.plan(text(13, body), opset=13)
    assert "declares opset" not in str(caught.value)
