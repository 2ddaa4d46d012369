"""Requests and models that are wrong on purpose: each ends in a result, or in an error with a sentence."""

from __future__ import annotations

import io
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

import opshift
from opshift.passes import batch
from opshift.passes.base.report import Verdict
from opshift.passes.io import model_forms

HEAD = '<ir_version: 8, opset_import: ["": 13]> '
MODEL = HEAD + "g (float[n,4] x) => (float[n,4] y) { y = Hardmax(x) }"
WEIGHTED = HEAD + "g (float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}> { z = Add(x, w) y = Hardmax(z) }"

# --- arguments ------------------------------------------------------------------------------------------------------

NOTHING: tuple[Any, ...] = (
    *(-1, 1.5, True, "x", b"x", 10**30, math.nan, [1], [None], {1: 2}, object(), np.array([1, 2]), np.array(3)),
    *({"x": (-1, 4)}, {"x": (1.5, 4)}, {"x": None}, {"x": [[1, 2], [1]]}, "\0", "\ud800", ("Hardmax", None)),
)
"""Values of which hardly any argument may have one."""

CONVERT = (
    *("opset", "decompose", "target", "semantics", "allow", "ir_version", "optimize", "keep_initializers_as_inputs"),
    *(
        "dims",
        "batch",
        "fold",
        "quantized",
        "allow_paths",
        "require_proof",
        "input_shapes",
        "inputs",
        "seed",
        "timeout",
        "memory",
        "save_repro",
        "progress",
    ),
)
VERIFY = ("semantics", "allow_paths", "input_shapes", "inputs", "seed", "timeout", "memory", "save_repro", "progress")
TAKEN: dict[str, set[Any]] = {
    "save_repro": {"x", "\0", "\ud800"},
    "inputs": {"x"},
    "seed": {10**30},
    "memory": {10**30},
}
"""Values that these may have, or that are refused where the file is opened."""


def tried(name: str) -> Iterator[Any]:
    return (value for value in NOTHING if not (isinstance(value, str | int) and value in TAKEN.get(name, set())))


def refused(call: Callable[..., Any], value: Any, *arguments: Any, **named: Any) -> None:
    """Have a call end well, or in an error of opshift's own that says something."""
    said = "it ended well"
    try:
        call(*arguments, **named)
    except opshift.OpshiftError as error:
        said = str(error).strip()
    assert said, repr(value)


@pytest.mark.parametrize("name", CONVERT)
def test_a_wrong_argument_of_convert_is_a_usage_error(name: str) -> None:
    model = parse_model(MODEL)
    for value in tried(name):
        refused(opshift.convert, value, model, **{"opset": 11, "verify": False, name: value})


@pytest.mark.parametrize("name", VERIFY)
def test_a_wrong_argument_of_verify_is_a_usage_error(name: str) -> None:
    model = parse_model(MODEL)
    for value in tried(name):
        refused(opshift.verify, value, model, model, **{name: value})


@pytest.mark.parametrize("name", ["external_data", "size_threshold", "progress"])
def test_a_wrong_argument_of_save_is_a_usage_error(name: str, tmp_path: Path) -> None:
    result = opshift.convert(parse_model(MODEL), opset=11, verify=False)
    for value in tried(name):
        refused(result.save, value, tmp_path / "o.onnx", **{name: value})


@pytest.mark.parametrize(
    "value", [None, 1, [], b"", b"\0" * 9, "", "none", "/dev/null", "a\0b", onnx.GraphProto()], ids=repr
)
def test_what_is_no_model_is_said_not_to_be_one(value: Any) -> None:
    good = parse_model(MODEL)
    for call in (
        lambda: opshift.plan(value, opset=11),
        lambda: opshift.verify(value, good),
        lambda: opshift.verify(good, value),
    ):
        with pytest.raises(opshift.OpshiftError):
            call()


# --- streams --------------------------------------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """A stream that repeats some bytes for ever."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self._first, self._then, self.given = first, then, 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "all of it is asked for"
        data, self._first = self._first or self._then * (size // len(self._then)), b""
        self.given += len(data)
        return data


@pytest.mark.parametrize(("first", "then"), [(b"", b"\0"), (b"\x0a\xff\xff\xff\x7f", b"a")])
def test_a_stream_without_end_is_left_early(monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes) -> None:
    monkeypatch.setattr(model_forms, "LIMIT", 2**26)
    stream = Endless(first, then)
    with pytest.raises(opshift.InvalidModelError, match="zero byte" if not first else "more than 2 GiB"):
        opshift.plan(stream, opset=11)  # type: ignore[arg-type]
    assert stream.given <= 2**27


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_standard_input_without_end_is_left_early() -> None:
    command = [sys.executable, "-m", "opshift", "inspect", "-"]
    with Path("/dev/zero").open("rb") as stream:
        ended = subprocess.run(command, stdin=stream, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "begins with a zero byte" in ended.stderr


# --- tensors that lie -----------------------------------------------------------------------------------------------

DIMS: tuple[list[int], ...] = (
    *([-4], [2**32, 2**32], [2**62, 2**62, 4], [2**63 - 1], [-(2**63)], [0, 2**62], [1] * 5000, [2] * 5000, [5]),
)


@pytest.mark.parametrize("dims", DIMS, ids=lambda dims: str(dims)[:30])
@pytest.mark.parametrize("raw", [False, True])
def test_a_weight_whose_dims_lie_is_refused(dims: list[int], raw: bool) -> None:
    model = parse_model(WEIGHTED)
    weight = model.graph.initializer[0]
    weight.dims[:] = dims
    if raw:
        weight.ClearField("float_data")
        weight.raw_data = b"1" * 16
    with pytest.raises(opshift.InvalidModelError):
        opshift.plan(model, opset=11)


@pytest.mark.parametrize("dims", [[0, 2**40, 2**40], [2**62, 0]], ids=str)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.STRING, TensorProto.UINT4])
def test_an_empty_weight_beyond_memory_is_refused(dims: list[int], kind: int) -> None:
    model = parse_model(WEIGHTED.replace("y = ", "z = Relu(x) y = ", 1))
    model.graph.initializer[0].CopyFrom(TensorProto(name=model.graph.initializer[0].name, data_type=kind, dims=dims))
    with pytest.raises(opshift.InvalidModelError, match="beyond memory"):
        opshift.plan(model, opset=11)


@pytest.mark.parametrize("field", ["int32_data", "double_data", "string_data", "int64_data", "uint64_data"])
@pytest.mark.parametrize("beside", [False, True])
def test_elements_in_a_field_of_another_type_are_refused(field: str, beside: bool) -> None:
    for count in (4, 8192):  # large tensors are checked apart
        model = parse_model(WEIGHTED)
        weight = model.graph.initializer[0]
        weight.dims[:] = [count // 4, 4]
        if beside:
            weight.float_data.extend([1] * (count - 4))
        else:
            weight.ClearField("float_data")
        getattr(weight, field).extend([b"1" if field == "string_data" else 1] * count)
        with pytest.raises(opshift.InvalidModelError):
            opshift.plan(model, opset=11)


@pytest.mark.parametrize("indices", [[2**60], [-5], [10**12]])
def test_a_sparse_weight_whose_indices_lie_is_refused(indices: list[int]) -> None:
    model = parse_model(WEIGHTED)
    model.graph.ClearField("initializer")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]),
            helper.make_tensor("i", TensorProto.INT64, [1], indices),
            [4],
        )
    )
    with pytest.raises(opshift.OpshiftError):
        opshift.convert(model, opset=11)


# --- attributes and constants beyond what an operator accepts -------------------------------------------------------

ODD: dict[str, str] = {
    "an element type that does not exist": "g (float[n] x) => (float[n] y) { y = Cast<to = 9999>(x) }",
    "a value of two elements": "g (int64[n] x) => (float[] y) { y = ConstantOfShape<value = float[2] {1, 2}>(x) }",
    "a value of no element": "g (int64[n] x) => (float[] y) { y = ConstantOfShape<value = float[0] {}>(x) }",
    "the least step": "g (float[n] x) => (float[m] y) <int64[1] a = {-9223372036854775808}, "
    "int64[1] b = {9223372036854775807}, int64[1] c = {0}> { y = Slice(x, a, b, c, a) }",
    "two axes where there is one": "g (float[n,4] x) => (float[n,4] y) <int64[2] a = {0, 1}> { y = CumSum(x, a) }",
    "a scalar that is squeezed": "g (float x) => (float y) <int64[1] a = {0}> { y = Squeeze(x, a) }",
    "scales that are no numbers": "g (float[1,1,4,4] x) => (float[] y) <float[4] s = {nan, inf, -1e30, 1e30}> "
    "{ y = Resize(x, , s) }",
    "shapes divided by zero": "g (float[2,3] x) => (float[] y) <int64[2] z = {0, 0}> { s = Shape(x) q = Div(s, z) "
    "r = Mod(s, z) t = Concat<axis = 0>(q, r) y = ConstantOfShape(t) }",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_constants_end_in_a_result_or_in_words(name: str) -> None:
    model = parse_model(HEAD + ODD[name])
    for opset, target in itertools.product((9, 11, 18, 28), (None, "tensorrt-8")):
        refused(opshift.convert, opset, model, opset=opset, target=target, verify=False)
    refused(opshift.convert, name, model, opset=11)
    assert opshift.verify(model, model).verdict in (Verdict.EQUAL, Verdict.UNCHECKED)


# --- a comparison never raises for models ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["node_pairs.counted", "whole_model.counted"])
def test_a_fault_in_a_comparison_is_a_verdict(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("a fault\nof two lines")

    monkeypatch.setattr(f"opshift.passes.proof.{place}", fail)
    result = opshift.convert(
        parse_model(MODEL.replace("x)", "x) ").replace("Hardmax(", "Hardmax<axis = 0>(")), opset=11
    )
    assert result.report is not None
    assert result.report.verdict is Verdict.UNCHECKED
    check = result.report.whole if "whole" in place else result.report.nodes[0]
    assert "opshift failed while it compared, please report this (AssertionError" in check.reason
    assert "\n" not in check.reason


def test_a_loop_with_a_vector_for_a_condition_is_unchecked() -> None:
    """onnxruntime refuses it, and so does what runs node by node."""
    model = parse_model(
        HEAD.replace("13", "16")
        + "g (bfloat16[n] x, bool[2] c) => (bfloat16[n] y) { y = Loop(, c, x) <body = b (int64 i, bool d, "
        "bfloat16[n] v) => (bool e, bfloat16[n] w) { e = Identity(d) w = Add(v, v) }> }"
    )
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node.append(helper.make_node("Identity", ["x"], ["unused"]))
    report = opshift.verify(model, other)
    assert report.verdict is Verdict.UNCHECKED
    assert report.whole.reason


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 100_000, "null", '{"model": 3}', "\xff"], ids=lambda line: line[:8]
)
def test_a_journal_of_nonsense_is_as_good_as_none(tmp_path: Path, line: str) -> None:
    (tmp_path / batch.JOURNAL).write_text(line + '\n{"model": "m"}\n', encoding="utf-8")
    assert list(batch._records(tmp_path)) == ["m"]
