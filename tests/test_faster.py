"""Lowerings that are only faster: `--optimize` alone selects them, and they are exact for every length of a row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import session_of

import opshift
from opshift.opsets import faster

SELECTED: dict[str, tuple[str, ...]] = {
    "blocked_at_run_time": ("ArgMax <axis = 1> (x)", "float[n,m]", "int64[n,1]"),
    "blocked": ("ArgMax <axis = 1> (x)", "float[64,1000]", "int64[64,1]"),
    "first_blocked_in_bytes": ("ArgMax <axis = 1> (x)", "float[8,21,256,256]", "int64[8,1,256,256]"),
    "last_blocked_in_bytes": (
        "ArgMax <axis = 1, select_last_index = 1> (x)",
        "float[8,21,256,256]",
        "int64[8,1,256,256]",
    ),
    "scattered_at_run_time": ("Hardmax <axis = 1> (x)", "float[n,m]", "float[n,m]"),
    "index_equal_int16": ("Hardmax <axis = 1> (x)", "float[32,768,100]", "float[32,768,100]"),
    "index_equal_uint8": ("Hardmax <axis = 1> (x)", "float[8,21,256,256]", "float[8,21,256,256]"),
    "reshaped_index_equal": ("Hardmax <axis = 1> (x)", "float[n,m,k]", "float[n,m,k]"),
    "index_padded": ("Hardmax <axis = 1> (x)", "float[1,151936]", "float[1,151936]"),
}
"""For each lowering a node, its input and its output, for which it is selected."""


def model(node: str, given: str, made: str, opset: int = 18) -> onnx.ModelProto:
    """Return a node as a model."""
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g ({given} x) => ({made} y) {{ y = {node} }}')


@pytest.mark.parametrize("name", SELECTED)
def test_only_optimize_selects_what_is_only_faster(name: str) -> None:
    node, given, result = SELECTED[name]
    one = model(node, given, result)
    operator = one.graph.node[0].op_type
    names = {lowering.name for lowering in faster.LOWERINGS[operator]}
    assert opshift.plan(one, opset=18).nothing_to_do
    default = opshift.plan(one, decompose=[operator]).steps[0]
    assert not names & {*default.lowerings}
    optimized = opshift.plan(one, decompose=[operator], optimize=True).steps[0]
    assert name in optimized.lowerings


LENGTHS = (1, 2, 3, 7, 63, 64, 65, 66, 67, 128, 1000, 1009, 4096, 50257)
"""Lengths of rows with and without divisors."""


def rows(rng: np.random.Generator, length: int, dtype: Any) -> Any:
    """Return rows of many ties, of infinities and of both zeros, and one whose maximum is last."""
    if np.issubdtype(dtype, np.integer):
        drawn = rng.integers(-3, 3, (6, length))
    else:
        drawn = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], (6, length))
        drawn[0], drawn[1] = -np.inf, rng.choice([-0.0, 0.0], length)
        drawn[2], drawn[3] = np.inf, np.finfo(dtype).min
    drawn[4] = np.arange(length) % 1000
    drawn[5, :-1], drawn[5, -1] = -5, -4
    return drawn.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("last", "keep"), list(itertools.product((0, 1), (0, 1))))
def test_blocks_of_argmax_found_at_run_time_are_exact(dtype: Any, last: int, keep: int) -> None:
    name = {np.float32: "float", np.float64: "double", np.int32: "int32"}[dtype]
    node = f"ArgMax <axis = -1, keepdims = {keep}, select_last_index = {last}> (x)"
    one = model(node, f"{name}[a,b,m]", f"int64[a,b{',1' * keep}]")
    made = opshift.convert(one, optimize=True, verify=False)
    assert "blocked_at_run_time" in made.plan.steps[0].lowerings
    assert isinstance(made.model, onnx.ModelProto)
    rng, run = np.random.default_rng(0), session_of(made.model)
    for length in LENGTHS:
        x = rows(rng, length, dtype).reshape(2, 3, length)
        index = x.argmax(-1) if not last else length - 1 - x[..., ::-1].argmax(-1)
        expected = index[..., None] if keep else index
        np.testing.assert_array_equal(run({"x": x})[0], expected)
    for shape in ((0, 3, 5), (2, 0, 5), (0, 3, 0), (0, 0, 0)):
        x = np.zeros(shape, dtype)
        assert run({"x": x})[0].shape == (*shape[:-1], *[1] * keep)
    assert opshift.verify(one, made.model, effort="quick").verdict == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_blocks_of_hardmax_found_at_run_time_are_exact(dtype: Any) -> None:
    name = {np.float32: "float", np.float16: "float16"}[dtype]
    one = model("Hardmax (x)", f"{name}[a,b,m]", f"{name}[a,b,m]")
    made = opshift.convert(one, optimize=True, decompose=["Hardmax"], verify=False)
    assert "scattered_at_run_time" in made.plan.steps[0].lowerings
    assert isinstance(made.model, onnx.ModelProto)
    rng, run = np.random.default_rng(0), session_of(made.model)
    for length in LENGTHS:
        x = rows(rng, length, dtype).reshape(2, 3, length)
        expected = np.arange(length) == x.argmax(-1)[..., None]
        np.testing.assert_array_equal(run({"x": x})[0], expected.astype(dtype))
    for shape in ((0, 3, 5), (2, 3, 0), (0, 3, 0), (0, 0, 0)):
        assert run({"x": np.zeros(shape, dtype)})[0].shape == shape
    assert opshift.verify(one, made.model, effort="quick").verdict == "equal"


@pytest.mark.parametrize("shape", ["n,m", "a,b,c", "2,m", "n,1000"])
@pytest.mark.parametrize("dtype", ["float", "double", "int32", "float16"])
def test_the_index_of_the_last_maximum_is_not_searched_backwards(shape: str, dtype: str) -> None:
    """A reversed Slice takes longer than onnxruntime's search, also where the length of the axis is unknown."""
    node = "ArgMax <axis = -1, keepdims = 0, select_last_index = 1> (x)"
    one = model(node, f"{dtype}[{shape}]", f"int64[{shape.rpartition(',')[0]}]")
    steps = opshift.plan(one, optimize=True).steps
    assert all("Slice" not in step.becomes for step in steps)
