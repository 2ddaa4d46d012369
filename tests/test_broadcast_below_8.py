"""Max, Min, Sum and Mean broadcast since 8; below, at 7, the shapes that they broadcast need not be known."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import Array, run

import opshift

X = np.array([[np.nan, -np.inf, 3.0, -0.5]], np.float32)
Y = np.array([[np.inf], [2.0], [-np.inf]], np.float32)
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Max": lambda *given: functools.reduce(np.maximum, given),
    "Min": lambda *given: functools.reduce(np.minimum, given),
    "Sum": lambda *given: functools.reduce(np.add, given),
    "Mean": lambda *given: functools.reduce(np.add, given) / len(given),
}


@pytest.mark.parametrize(
    "dims", [("[a,b]", "[c,d]", "[]"), ("[1,4]", "[c,1]", "[e]"), ("[?,?]", "[3,?]", "[?]")], ids=str
)
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_unknown_shapes_are_broadcast(operator: str, count: int, dims: tuple[str, ...]) -> None:
    third = np.full((1,) * (dims[2] != "[]"), 0.25, np.float32)
    given = dict(zip("xyz"[:count], (X, Y, third), strict=False))
    inputs = ", ".join(f"float{shape} {name}" for name, shape in zip(given, dims, strict=False))
    call = f"{operator} ({', '.join(given)})"
    text = f'<ir_version: 8, opset_import: ["": 13]> g ({inputs}) => (float[p,q] r) {{ r = {call} }}'
    result = opshift.convert(parse_model(text), opset=7, require_proof=True).model
    assert isinstance(result, onnx.ModelProto)
    with np.errstate(invalid="ignore"):
        expected = FUNCTIONS[operator](*given.values())
    (found,) = run(result, [given])[0]
    np.testing.assert_array_equal(found, expected)
