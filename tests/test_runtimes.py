"""Real runtimes refuse or miscompute a model, take what opshift makes of it, and give the numbers of onnxruntime.

They need the extra `runtimes`, and ncnn and pnnx installed without what they ask for (.ci/checks.py). Without them the
tests are skipped, but not with OPSHIFT_RUNTIMES=1.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.parser import parse_model
from runtimes import RUNTIMES, Runtime, version

import opshift
from opshift.opsets.runtimes.profiles import load_target
from opshift.passes.base.plan import Code
from opshift.passes.measurement.isolated import Array, RefusedError, alike

pytestmark = pytest.mark.slow

OTHERS = ("opencv-4", "mnn", "openvino", "ncnn", "tract")
ASKED = os.environ.get("OPSHIFT_RUNTIMES") == "1"

# Rows with ties near and far, and one of equal values: vectorised kernels take any of them.
ROWS = np.zeros((3, 70), np.float32)
ROWS[0, [5, 40, 69]] = 1
ROWS[1, [0, 33]] = 2
ROWS[2] = -3
IMAGE = np.resize(np.array([3, -1, 3, 0, 2, -2, 3], np.float32), (1, 3, 2, 4))
# Indices that count from the end, and some that are out of range.
INDICES = np.array([[-1, 7, 2], [0, -5, -9]], np.float32)


@functools.cache
def runtime(name: str) -> Runtime:
    """Return a runtime that is installed."""
    if version(name) is None:
        if ASKED:
            pytest.fail(f"not installed: {name}")
        pytest.skip(f"not installed: {name}")
    return Runtime(name)


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Any:
    yield
    for name in RUNTIMES:
        if version(name):
            runtime(name).close()


@dataclass(frozen=True, eq=False)
class Case:
    """A model as text, an input `x`, and what comes of the original: `right`, `wrong` or `refused`, by runtime."""

    name: str
    opset: int
    text: str
    x: Array
    original: Mapping[str, str]
    ir_version: int = 8

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> onnx.ModelProto:
        return parse_model(f'<ir_version: {self.ir_version}, opset_import: ["": {self.opset}]> g {self.text}')


def outcomes(opencv: str, mnn: str, openvino: str, ncnn: str = "refused", tract: str = "right") -> Mapping[str, str]:
    return dict(zip(OTHERS, (opencv, mnn, openvino, ncnn, tract), strict=True))


NO_HARDMAX = outcomes("refused", "refused", "wrong")
HARDMAX = (
    Case("Hardmax-13", 13, "(float[3,70] x) => (float[3,70] y) { y = Hardmax <axis = 1> (x) }", ROWS, NO_HARDMAX),
    Case("Hardmax-11", 11, "(float[3,70] x) => (float[3,70] y) { y = Hardmax <axis = 1> (x) }", ROWS, NO_HARDMAX),
    Case("Hardmax-1", 9, "(float[3,70] x) => (float[3,70] y) { y = Hardmax <axis = 1> (x) }", ROWS, NO_HARDMAX),
    Case(
        "Hardmax-1 of ir_version 3",
        7,
        "(float[3,70] x) => (float[3,70] y) { y = Hardmax <axis = 1> (x) }",
        ROWS,
        NO_HARDMAX,
        ir_version=3,
    ),
    *(
        Case(
            f"Hardmax-{since} of planes",
            opset,
            "(float[1,3,2,4] x) => (float[1,3,2,4] y) { y = Hardmax <axis = 1> (x) }",
            IMAGE,
            outcomes("refused", "refused", "right"),
        )
        for since, opset in ((13, 13), (11, 11), (1, 9))
    ),
)
ARGMAX = tuple(
    Case(
        f"ArgMax-13, {('the first', 'the last')[last]}, {('dropped', 'kept')[kept]}",
        13,
        f"(float[3,70] x) => (int64[{'3,1' if kept else 3}] y) "
        f"{{ y = ArgMax <axis = 1, keepdims = {kept}, select_last_index = {last}> (x) }}",
        ROWS,
        outcomes("right", "wrong" if last else "right", "right"),
    )
    for last in (0, 1)
    for kept in (0, 1)
)
ARGMAX_OF_FLOATS = tuple(
    Case(
        f"Index as float, {('the first', 'the last')[last]}, {('dropped', 'kept')[kept]}",
        13,
        f"(float[3,70] x) => (float[{'3,1' if kept else 3}] y) "
        f"{{ i = ArgMax <axis = 1, keepdims = {kept}, select_last_index = {last}> (x) y = Cast <to = 1> (i) }}",
        ROWS,
        outcomes("right", "wrong" if last else "right", "right"),
    )
    for last in (0, 1)
    for kept in (0, 1)
)
ONEHOT = tuple(
    case
    for opset in (9, 11, 13)
    for case in (
        Case(
            f"OneHot at {opset}, float indices",
            opset,
            "(float[2,3] x) => (float[2,3,5] y) <float d = {5}, float[2] v = {2, 3}> { y = OneHot (x, d, v) }",
            INDICES,
            outcomes("refused", "refused", "wrong" if opset < 11 else "right", tract="refused"),
        ),
        Case(
            f"OneHot at {opset}, along an axis",
            opset,
            "(int64[2,3] x) => (float[2,5,3] y) <int64 d = {5}, float[2] v = {0, 1}> "
            "{ y = OneHot <axis = 1> (x, d, v) }",
            INDICES.astype(np.int64),
            outcomes("refused", "wrong", "wrong" if opset < 11 else "right", tract="refused"),
        ),
    )
)
INTEGERS = ("ArgMax", "OneHot at 9, along", "OneHot at 11, along", "OneHot at 13, along")
"""Cases with integers at run time, which ncnn has not: no model can say them there."""


def ran(name: str, model: onnx.ModelProto, x: Array) -> Array | None:
    """Return what a runtime gives for `y`; None if it refuses."""
    try:
        return runtime(name).run(model, {"x": x})["y"]
    except RefusedError:
        return None


def judged(found: Array | None, wanted: Array) -> str:
    return "refused" if found is None else "right" if alike(found, wanted) else "wrong"


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("case", [*HARDMAX, *ARGMAX, *ARGMAX_OF_FLOATS, *ONEHOT], ids=str)
def test_a_runtime_runs_what_it_did_not(case: Case, name: str) -> None:
    runtime(name)
    wanted = runtime("onnxruntime").run(case.model, {"x": case.x})["y"]
    assert judged(ran(name, case.model, case.x), wanted) == case.original[name]
    if name == "ncnn" and case.name.startswith(INTEGERS):
        (refusal, *_) = opshift.plan(case.model, target=name, assume=["finite-inputs"]).refusals
        assert refusal.code is Code.TYPE
        assert "ncnn" in refusal.reason
        return
    assume = ["finite-inputs"] if name == "ncnn" else []
    result = opshift.convert(case.model, target=name, assume=assume, require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    target = load_target(name)
    assert all(target.has(node.op_type) for node in result.model.graph.node)
    found = ran(name, result.model, case.x)
    assert found is not None, [node.op_type for node in result.model.graph.node]
    assert alike(found, wanted), found


def test_finite_inputs_are_asked_for() -> None:
    """Without comparisons an infinity becomes NaN: the refusals lead there, and the step tells."""
    model, assume = HARDMAX[0].model, list[str]()
    while refusals := opshift.plan(model, target="ncnn", assume=assume).refusals:
        assert refusals[0].code is Code.ASSUMPTION
        assume.append(refusals[0].hint.removeprefix("Accept it with --assume ").removesuffix("."))
    assert assume == ["finite-inputs"]
    (step,) = opshift.plan(model, target="ncnn", assume=assume).steps
    assert step.assumes == ("finite-inputs",)


# --- whole models -----------------------------------------------------------------------------------------------------


@functools.cache
def scores() -> onnx.ModelProto:
    """Convolutions, as torch writes them for one image: the scores of five classes for each pixel."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        if os.environ.get("OPSHIFT_CORPUS") == "1":
            raise
        pytest.skip("not installed: torch")
    nn = torch.nn
    torch.manual_seed(0)
    head = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 1), nn.Sigmoid()
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is deprecated, and writes opset 13
        path = Path(folder, "m.onnx")
        names: dict[str, Any] = {"input_names": ["x"], "output_names": ["scores"]}
        torch.onnx.export(head.eval(), (torch.zeros(1, 3, 16, 12),), path, dynamo=False, opset_version=13, **names)
        model: onnx.ModelProto = onnx.load(path)
    return model


ENDS: Mapping[str, tuple[list[onnx.NodeProto], list[int]]] = {
    "Hardmax": ([helper.make_node("Hardmax", ["scores"], ["y"], axis=1)], [1, 5, 8, 6]),
    "ArgMax": ([helper.make_node("ArgMax", ["scores"], ["y"], axis=1, select_last_index=1)], [1, 1, 8, 6]),
    "index as float": (
        [
            helper.make_node("ArgMax", ["scores"], ["index"], axis=1),
            helper.make_node("Cast", ["index"], ["y"], to=onnx.TensorProto.FLOAT),
        ],
        [1, 1, 8, 6],
    ),
    "OneHot": (
        [
            helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0),
            helper.make_node("OneHot", ["index", "depth", "values"], ["y"], axis=1),
        ],
        [1, 5, 8, 6],
    ),
}


def segmenter(end: str) -> onnx.ModelProto:
    """The scores, and what an application makes of them."""
    model: onnx.ModelProto = onnx.ModelProto.FromString(scores().SerializeToString())
    nodes, shape = ENDS[end]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(helper.make_tensor("depth", onnx.TensorProto.INT64, [], [5]))
    model.graph.initializer.append(helper.make_tensor("values", onnx.TensorProto.FLOAT, [2], [0, 1]))
    kind = onnx.TensorProto.INT64 if end == "ArgMax" else onnx.TensorProto.FLOAT
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", kind, shape))
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize(
    ("name", "end", "original"),
    [
        ("opencv-4", "Hardmax", "refused"),
        ("opencv-4", "OneHot", "refused"),
        ("mnn", "Hardmax", "refused"),
        ("mnn", "OneHot", "right"),
        ("mnn", "ArgMax", "right"),
        ("openvino", "Hardmax", "right"),
        ("openvino", "OneHot", "right"),
        ("ncnn", "Hardmax", "refused"),
        ("ncnn", "index as float", "refused"),
    ],
)
def test_whole_models(name: str, end: str, original: str) -> None:
    runtime(name)
    model = segmenter(end)
    x = np.random.default_rng(0).normal(size=(1, 3, 16, 12)).astype(np.float32)
    wanted = runtime("onnxruntime").run(model, {"x": x})["y"]
    assert judged(ran(name, model, x), wanted) == original
    assume = ["finite-inputs"] if name == "ncnn" else []
    result = opshift.convert(model, target=name, assume=assume)
    assert isinstance(result.model, onnx.ModelProto)
    assert all(load_target(name).has(node.op_type) for node in result.model.graph.node)
    found = ran(name, result.model, x)
    assert found is not None
    assert alike(found, wanted)


# --- onnxruntime, for element types that it has no kernels for --------------------------------------------------------

LACKING = {
    "Hardmax of double": (
        "(double[3,70] x) => (double[3,70] y) { y = Hardmax <axis = 1> (x) }",
        ROWS.astype(np.float64),
        (np.arange(70) == ROWS.argmax(1)[:, None]).astype(np.float64),
    ),
    **{
        f"ArgMax of {dtype}": (
            f"({dtype}[3,70] x) => (int64[3,1] y) {{ y = ArgMax <axis = 1> (x) }}",
            (ROWS + 3).astype(dtype),
            ROWS.argmax(1)[:, None],
        )
        for dtype in ("int16", "uint16", "uint32", "uint64")
    },
    **{
        f"OneHot to {dtype}": (
            f"(int64[2,3] x) => ({dtype}[2,3,5] y) <int64 d = {{5}}, {dtype}[2] v = {{0, 1}}> "
            "{ y = OneHot (x, d, v) }",
            INDICES.astype(np.int64),
            ((np.arange(5) == INDICES[..., None]) | (np.arange(5) == INDICES[..., None] + 5)).astype(dtype),
        )
        for dtype in ("bool", "double", "uint8", "int8")
    },
}


@pytest.mark.parametrize(("text", "x", "wanted"), LACKING.values(), ids=list(LACKING))
def test_onnxruntime_runs_types_that_it_has_no_kernel_for(text: str, x: Array, wanted: Array) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
    with pytest.raises(RefusedError, match="Could not find an implementation"):
        runtime("onnxruntime").run(model, {"x": x})
    result = opshift.convert(model, target="onnxruntime")
    assert isinstance(result.model, onnx.ModelProto)
    found = runtime("onnxruntime").run(result.model, {"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype
