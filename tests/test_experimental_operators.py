"""The experimental operators of ONNX 1.0 to 1.4, which have no schema in onnx any more, against numpy.

The functions here are written from the texts of onnx 1.2 (docs/Operators.md, "Experimental ONNX Operators"). Where
onnxruntime has a kernel, verification compares with it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import Array, run

import opshift
from opshift.opsets.registry.dialect import operators
from opshift.passes.base.errors import InvalidModelError, UnsupportedError
from opshift.passes.base.report import Verdict

ULP = 4
X = (((np.arange(2 * 3 * 4 * 5) * 7) % 13 - 6) / 2).astype(np.float32).reshape(2, 3, 4, 5)
IMAGE, WIDE = "float[2,3,4,5] x", np.float64


@dataclass(frozen=True)
class Case:
    """A node as text, its inputs (as text, and arrays), the function that the text defines, and what is written."""

    node: str
    inputs: str
    arrays: Sequence[Array]
    function: Callable[..., Any]
    becomes: tuple[str, ...]
    least: int = 7

    def __str__(self) -> str:
        return self.node


def softplus(x: Array) -> Array:
    """Return ln(exp(x) + 1), which 1 does not change from 40 on."""
    return np.where(x > 40, x, np.log1p(np.exp(np.minimum(x, 40))))


def ints(*numbers: int, dtype: Any = np.int64) -> Array:
    return np.array(numbers, dtype)


CASES = [
    Case("Affine <alpha = 2.5, beta = -0.5> (x)", IMAGE, [X], lambda x: 2.5 * x - 0.5, ("Mul", "Add")),
    Case("Affine <alpha = 2.5> (x)", "float[n] x", [X[0, 0, 0]], lambda x: 2.5 * x, ("Mul",)),
    Case("Affine (x)", "double[4] x", [X[0, 0, :, 0].astype(WIDE)], lambda x: x, ("Identity",)),
    Case("Scale <scale = 0.25> (x)", IMAGE, [X], lambda x: x / 4, ("Mul",)),
    Case("Scale <scale = 0.1> (x)", "float16[4] x", [X[0, 0, :, 0].astype(np.float16)],
         lambda x: x * np.float32(0.1), ("Cast", "Mul", "Cast")),
    Case("ScaledTanh <alpha = 0.5, beta = 3.0> (x)", IMAGE, [X], lambda x: np.tanh(3 * x.astype(WIDE)) / 2,
         ("Mul", "Tanh", "Mul")),
    Case("ParametricSoftplus <alpha = 0.5, beta = 30.0> (x)", IMAGE, [X], lambda x: softplus(30 * x.astype(WIDE)) / 2,
         ("Mul", "Softplus", "Mul")),
    Case("ImageScaler <bias = [1.0, -2.0, 0.5], scale = 0.5> (x)", IMAGE, [X],
         lambda x: x / 2 + np.array([1, -2, 0.5]).reshape(3, 1, 1), ("Mul", "Add")),
    Case("ImageScaler <bias = [1.0, -2.0, 0.5]> (x)", "float[n,3,h,w] x", [X],
         lambda x: x + np.array([1, -2, 0.5]).reshape(3, 1, 1), ("Add",)),
    Case("Crop <border = [1, 0, 2, 1]> (x)", IMAGE, [X], lambda x: x[:, :, 0:3, 1:3], ("Slice",)),
    Case("Crop <border = [2, 1, 0, 0]> (x)", "float[n,c,h,w] x", [X], lambda x: x[:, :, 1:, 2:], ("Slice",)),
    Case("Crop <border = [2, 1, 0, 0], scale = [2, 1]> (x)", IMAGE, [X], lambda x: x[:, :, 1:3, 2:3], ("Slice",)),
    Case("DynamicSlice (x, s, e, a)", "float[2,3,4,5] x, int64[2] s, int64[2] e, int64[2] a",
         [X, ints(1, -3), ints(100, -1), ints(1, 3)], lambda x, s, e, a: x[:, 1:, :, -3:-1], ("Slice",), 11),
    Case("DynamicSlice (x, s, e)", "float[2,3,4,5] x, int32[2] s, int32[2] e",
         [X, ints(0, 1, dtype=np.int32), ints(1, -1, dtype=np.int32)], lambda x, s, e: x[0:1, 1:-1], ("Slice",)),
    Case("GivenTensorFill <values = [1.0, 2.0, 3.0, 4.0], shape = [2, 2]> ()", "", [],
         lambda: np.array([[1, 2], [3, 4]]), ("Constant",)),
    Case("GivenTensorFill <values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], extra_shape = [2]> (x)", "float[3] x",
         [X[0, :, 0, 0]], lambda x: np.arange(1, 7).reshape(3, 2), ()),
    Case("GivenTensorFill <values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], input_as_shape = 1> (x)", "float[2] x",
         [np.array([3, 2], np.float32)], lambda x: np.arange(1, 7).reshape(3, 2), ()),
]  # fmt: skip


def model_of(case: Case, opset: int) -> onnx.ModelProto:
    """Return the model of a node, whose output has dims of unknown size."""
    kind = case.inputs.partition("[")[0] or "float"
    dims = ",".join(f"y{axis}" for axis in range(np.ndim(case.function(*case.arrays))))
    head = f'<ir_version: 3, opset_import: ["": {opset}]> g ({case.inputs}) => ({kind}[{dims}] y)'
    return parse_model(f"{head} {{ y = {case.node} }}")


def feeds_of(case: Case) -> dict[str, Array]:
    return dict(zip("xsea", case.arrays, strict=False))


@pytest.mark.parametrize("target", [7, 10, 13, 26])
@pytest.mark.parametrize("source", [1, 6, 9])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_node_computes_what_its_text_defines(case: Case, source: int, target: int) -> None:
    if target < case.least:
        assert opshift.plan(model_of(case, source), opset=target).refusals
        return
    result = opshift.convert(model_of(case, source), opset=target, verify=False).rewritten
    onnx.checker.check_model(result, full_check=True)
    nodes = tuple(node.op_type for node in result.graph.node)
    assert target < 10 or not case.becomes or nodes == case.becomes
    (got,) = run(result, [feeds_of(case)])[0]
    kind = case.arrays[0].dtype if case.arrays else np.float32
    wanted = np.asarray(case.function(*case.arrays)).astype(kind)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=ULP * np.finfo(got.dtype).eps, atol=ULP * np.finfo(got.dtype).eps)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verification_finds_the_conversion_right(case: Case) -> None:
    report = opshift.convert(model_of(case, 9), opset=13, effort="quick").report
    assert report is not None
    # No number that is drawn is a shape of as many elements as there are.
    verdict = Verdict.UNCHECKED if "input_as_shape" in case.node else Verdict.EQUAL
    assert [check.verdict for check in report.nodes] == [verdict]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("ScaledTanh <alpha = 1.0> (x)", "has no beta"),
        ("ParametricSoftplus <beta = 1.0> (x)", "has no alpha"),
        ("Crop <border = [1, 1]> (x)", "border is not four numbers"),
        ("Crop (x)", "border is not four numbers"),
        ("Crop <border = [1, 1, 1, 1], scale = [9, 1]> (x)", "of 4 elements where 10 are needed"),
        ("ImageScaler <bias = [1.0]> (x)", "bias has 1 numbers"),
        ("ImageScaler (x)", "no bias"),
        ("GivenTensorFill <values = [1.0], shape = [2]> ()", "1 values"),
        ("GivenTensorFill <values = [1.0], extra_shape = [1]> ()", "extra_shape, and no input"),
        ("GivenTensorFill <values = [1.0], shape = [1]> (x)", "as an attribute and an input"),
    ],
)
def test_what_the_operator_does_not_take_is_invalid(node: str, words: str) -> None:
    with pytest.raises((InvalidModelError, UnsupportedError), match=words):
        opshift.convert(model_of(Case(node, IMAGE, [], lambda: 0, ()), 6), opset=13, verify=False)


@pytest.mark.parametrize("name", ["ATen", "ConstantFill", "GRUUnit"])
def test_others_are_refused_by_name(name: str) -> None:
    """ATen calls a function of PyTorch, ConstantFill fills at random too, and GRUUnit has no text."""
    with pytest.raises((UnsupportedError, InvalidModelError), match=name):
        opshift.convert(model_of(Case(f"{name} (x)", IMAGE, [], lambda: 0, ()), 1), opset=13, verify=False)


def test_the_operators_are_those_of_onnxruntime() -> None:
    named = {case.node.split()[0].split("(")[0] for case in CASES}
    assert named <= set(operators(""))
