"""The fixtures: valid, frozen, complete, and taken to every opset in equal numbers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import oracles
import pytest
from running import OPSETS, Array, differences, operators_of, opset_of, run, version_at

import opshift

FOLDER = Path(__file__).parent.parent / "fixtures"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnxtxt"))
THREE = ("Hardmax", "ArgMax", "OneHot")
LISTED = {("", operator) for operator in THREE} | {("opshift", "HardmaxAxes")}

# What cannot be said at an opset: fixture without its opset -> opsets, and a word that the refusal must have.
REFUSED: dict[str, tuple[range, str]] = {
    "onehot-bfloat16": (range(7, 13), "bfloat16"),
}

# Where onnxruntime has no kernel for the original, the specification's text judges.
ORACLES: dict[str, Callable[[dict[str, Array]], Array]] = {
    "hardmax-double-opset11": lambda feed: oracles.hardmax_1(feed["x"], 1),
    "hardmax-double-opset13": lambda feed: oracles.hardmax_13(feed["x"], 1),
    "argmax-uint32-opset11": lambda feed: oracles.argmax(feed["x"], 1, 0),
    "argmax-uint32-opset13": lambda feed: oracles.argmax(feed["x"], 1, 0),
    "onehot-bool-opset11": lambda feed: oracles.one_hot(feed["indices"], feed["depth"], feed["values"]),
    "onehot-bool-opset28": lambda feed: oracles.one_hot(feed["indices"], feed["depth"], feed["values"]),
    "onehot-bfloat16-opset28": lambda feed: oracles.one_hot(feed["indices"], feed["depth"], feed["values"]),
    "hardmax-axes-0-opset11": lambda feed: oracles.hardmax_axes(feed["x"], [0]),
    "hardmax-axes-0-opset13": lambda feed: oracles.hardmax_axes(feed["x"], [0]),
    "hardmax-axes-1-opset11": lambda feed: oracles.hardmax_axes(feed["x"], [1]),
    "hardmax-axes-1-opset13": lambda feed: oracles.hardmax_axes(feed["x"], [1]),
    "hardmax-axes-0-2-opset11": lambda feed: oracles.hardmax_axes(feed["x"], [0, 2]),
    "hardmax-axes-0-2-opset13": lambda feed: oracles.hardmax_axes(feed["x"], [0, 2]),
}

# onnxruntime's ArgMax gives a wrong shape for an empty input with a negative axis: no judge, so no empty feed.
NEVER_EMPTY = {"argmax-negative"}

# DirectML's worked examples of ACTIVATION_HARDMAX1, as its documentation prints them.
DIRECTML_X = [[[12, 0], [-101, 11]], [[3, 234], [0, -101]]]
DIRECTML = {
    "hardmax-axes-1": [[[1, 0], [0, 1]], [[1, 1], [0, 0]]],
    "hardmax-axes-0": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
    "hardmax-axes-0-2": [[[0, 0], [0, 1]], [[0, 1], [0, 0]]],
}

# Values that tie, and that some way of computing gets wrong.
GRIDS: dict[int, list[Any]] = {
    onnx.TensorProto.FLOAT: [-2, -1, -0.0, 0.0, 1, 1, 2],
    onnx.TensorProto.FLOAT16: [-2, -1, -0.0, 0.0, 1, 1, 65504],
    onnx.TensorProto.DOUBLE: [-2, -0.0, 0.0, 1, 1 + 2**-52, 1e300],
    onnx.TensorProto.INT64: [-(2**63), 0, 2**31, 2**32 - 1, 2**33 + 2**31, 2**53, 2**53 + 1],
    onnx.TensorProto.UINT32: [0, 1, 2**31, 2**32 - 2, 2**32 - 1],
}
INFINITIES = [-np.inf, -np.inf, 0.0, np.inf]
DEPTHS = (5, 1, 3, 2)
SIZES = {
    "n": (2, 3, 1, 0),
    "m": (3, 1, 4, 2),
    "k": (4, 5, 1, 3),
    "h": (5, 2, 1, 3),
    "w": (4, 1, 6, 2),
    "steps": (3, 1, 4, 2),
}
VALUES: dict[int, tuple[list[Any], list[Any]]] = {
    onnx.TensorProto.FLOAT: ([0.5, -2.0], [np.inf, -0.0]),
    onnx.TensorProto.INT64: ([2, 3], [-(2**63), 2**53 + 1]),
    onnx.TensorProto.BOOL: ([False, True], [True, False]),
    onnx.TensorProto.STRING: (["off", "on"], ["", "é"]),
    onnx.TensorProto.BFLOAT16: ([0.5, -2.0], [np.inf, -0.0]),
}


def load(name: str) -> onnx.ModelProto:
    return onnx.parser.parse_model((FOLDER / f"{name}.onnxtxt").read_text(encoding="utf-8"))


def place(name: str) -> str:
    return name.rpartition("-opset")[0]


def feeds_of(name: str, model: onnx.ModelProto) -> list[dict[str, Array]]:
    """Feeds of different sizes: ties in all, infinities in the second where nothing is added, no rows in the last."""
    exact = not {operator for _, operator in operators_of(model)} & {"Add", "Conv", "MatMul"}
    sizes = range(3 if place(name) in NEVER_EMPTY else 4)
    return [_feed(name, model, number, exact and number == 1) for number in sizes]


def _feed(name: str, model: onnx.ModelProto, number: int, infinite: bool) -> dict[str, Array]:
    numbers = np.random.default_rng(zlib.crc32(f"{name} {number}".encode()))
    feed: dict[str, Array] = {}
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        shape = [SIZES[dim.dim_param][number] if dim.dim_param in SIZES else dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if entry.name == "flag":
            drawn: Any = number % 2
        elif entry.name == "depth":
            drawn = np.full(shape, DEPTHS[number])
        elif entry.name == "indices":
            drawn = numbers.integers(-14, 14, shape) / 2 if dtype.kind == "f" else numbers.integers(-7, 7, shape)
        elif entry.name == "values":
            drawn = VALUES[kind.elem_type][number % 2]
        elif entry.name == "shape":
            n, m, k = (feed["x"].shape[axis] for axis in range(3))
            drawn = ([n, m * k], [n * m, k], [n, m, k, 1], [n, 1, m, k])[number]
        else:
            drawn = numbers.choice(INFINITIES if infinite and dtype.kind == "f" else GRIDS[kind.elem_type], shape)
        feed[entry.name] = np.asarray(drawn, object if kind.elem_type == onnx.TensorProto.STRING else dtype)
    return feed


def expected_of(name: str, model: onnx.ModelProto, feeds: list[dict[str, Array]]) -> list[list[Array]]:
    if name in ORACLES:
        return [[ORACLES[name](feed)] for feed in feeds]
    return run(model, feeds)


def assert_equal(expected: list[list[Array]], model: onnx.ModelProto, feeds: list[dict[str, Array]]) -> None:
    onnx.checker.check_model(model)
    assert differences(expected, run(model, feeds)) == []
    assert differences(expected, run(model, feeds, optimised=True)) == []


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_fixtures", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The files themselves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_is_valid(name: str) -> None:
    model = load(name)
    onnx.checker.check_model(model, full_check=True)
    assert opset_of(model) == int(name.rpartition("-opset")[2])
    for function in model.functions:
        assert {entry.version for entry in function.opset_import if not entry.domain} == {opset_of(model)}


@pytest.mark.parametrize("name", NAMES)
def test_survives_printing(name: str) -> None:
    model = load(name)
    printed = onnx.parser.parse_model(onnx.printer.to_text(model))
    for function in model.functions:  # onnx's printer forgets the attributes of a function that have a default
        del function.attribute_proto[:]
    assert printed == model


def test_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(FOLDER / "generate.py"), str(tmp_path)], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.glob("*.onnxtxt")}
    assert generator().texts() == {name: text.decode() for name, text in written.items()}


@pytest.mark.parametrize("operator", THREE)
def test_show_every_version(operator: str) -> None:
    shown = {version_at(operator, opset_of(load(name))) for name in NAMES if place(name) == operator.lower()}
    assert shown == {version_at(operator, opset) for opset in OPSETS} - {None}


@pytest.mark.parametrize("where", ["in-if", "in-loop", "in-scan", "in-function", "all-three"])
def test_show_every_place(where: str) -> None:
    for name in NAMES:
        if place(name) == where:
            assert {operator for domain, operator in operators_of(load(name)) if not domain} >= set(THREE)
    assert sum(place(name) == where for name in NAMES) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_runs_or_has_an_oracle(name: str) -> None:
    model = load(name)
    feeds = feeds_of(name, model)
    if name in ORACLES:
        with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|INVALID_GRAPH|HardmaxAxes|not the one of 26"):
            run(model, feeds)
    else:
        outputs = run(model, feeds)
        assert differences(outputs, run(model, feeds, optimised=True)) == []
        assert any(differences(outputs[:1], [other]) for other in outputs[1:])


# What opshift makes of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", NAMES)
def test_reaches_every_opset(name: str, opset: int) -> None:
    check(name, opset, ())


@pytest.mark.parametrize("opset", [None, 7, 11, 28])
@pytest.mark.parametrize("name", NAMES)
def test_decomposes(name: str, opset: int | None) -> None:
    check(name, opset, THREE)


def check(name: str, opset: int | None, decompose: tuple[str, ...]) -> None:
    """Convert a fixture: it must give the same numbers, with nothing left that was to go, or be refused as listed."""
    model = load(name)
    refused, word = REFUSED.get(place(name), ((), ""))
    if opset in refused:
        with pytest.raises(opshift.UnsupportedError, match=word):
            opshift.convert(model, opset=opset, decompose=decompose, verify=False)
        return
    feeds = feeds_of(name, model)
    converted = opshift.convert(model, opset=opset, decompose=decompose, verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    assert opset_of(converted) == (opset or opset_of(model))
    assert not operators_of(converted).keys() & (LISTED if decompose else {("opshift", "HardmaxAxes")})
    if name in ORACLES and operators_of(converted).keys() & LISTED:
        # It was kept, and onnxruntime has no kernel for it: what comes of it without the operator must be right.
        again = opshift.convert(converted, decompose=THREE, verify=False).model
        assert isinstance(again, onnx.ModelProto)
        converted = again
    assert_equal(expected_of(name, model, feeds), converted, feeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_is_proven(name: str) -> None:
    """Verification is on by default, and shows every node of every fixture to be equal."""
    result = opshift.convert(load(name), decompose=THREE)
    assert result.report is not None
    assert result.report.verdict == "equal" or (name in ORACLES and result.report.whole.verdict == "unchecked")
    assert {check.verdict for check in result.report.nodes} == {"equal"}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", [name for name in NAMES if place(name) in DIRECTML])
def test_directml_examples(name: str, opset: int) -> None:
    feeds = [{"x": np.array(DIRECTML_X, np.float32)}]
    expected = [[np.array(DIRECTML[place(name)], np.float32)]]
    for decompose in ((), THREE):
        converted = opshift.convert(load(name), opset=opset, decompose=decompose, verify=False).model
        assert isinstance(converted, onnx.ModelProto)
        assert not operators_of(converted).keys() & (LISTED if decompose else {("opshift", "HardmaxAxes")})
        assert_equal(expected, converted, feeds)
