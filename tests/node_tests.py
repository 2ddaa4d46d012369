"""ONNX's own backend node tests: which of them count, and whether a model gives the outputs that come with one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import onnx
import onnx.backend.test.case.node
import onnx.numpy_helper
from onnx import TensorProto
from onnx.reference.ops import op_pool_common
from running import BFLOAT16, Array, Feed, nodes_of, opset_of, run

RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
NARROW = {value for name, value in TensorProto.DataType.items() if re.match("FLOAT8|U?INT[24]$|FLOAT4", name)}
"""Element types of which the first operators came with opset 19."""


def collected() -> list[Any]:
    """Return all of ONNX's tests; onnx computes their outputs for that."""
    with warnings.catch_warnings(), mock.patch.object(op_pool_common, "pool", pool):
        warnings.simplefilter("ignore")
        return list(onnx.backend.test.case.node.collect_testcases())


def cases(pattern: str) -> list[Any]:
    """Return the tests that count, those whose name has the pattern."""
    return [case for case in collected() if re.search(pattern, case.name) and _counts(case.model)]


_REDUCE: Mapping[str, Callable[[Array, int], Array]] = {
    "AVG": lambda windows, p: windows.mean(-1),
    "MAX": lambda windows, p: windows.max(-1),
    "LPPOOL": lambda windows, p: (np.abs(windows) ** p).sum(-1) ** (1.0 / p),
}
_pool = op_pool_common.pool


def pool(
    padded: Array, x_shape: Any, kernel: Any, strides: Any, out_shape: Any, how: str, *more: Any, **rest: Any
) -> Array:
    """Return what onnx's own function of this name does, where no window is padded or dilated, at once.

    onnx visits each window in Python, which takes seconds for its three largest tests.
    """
    if any(value is not None for value in more) or rest.keys() - {"p"} or tuple(padded.shape) != tuple(x_shape):
        return np.asarray(_pool(padded, x_shape, kernel, strides, out_shape, how, *more, **rest))
    axes = tuple(range(2, padded.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axes)
    steps = (slice(None), slice(None), *(slice(None, None, step) for step in strides or [1] * len(axes)))
    rows = windows[steps].reshape(*padded.shape[:2], *out_shape, -1)
    return _REDUCE[how](rows, rest.get("p", 1)).astype(padded.dtype)


def _counts(model: onnx.ModelProto | None) -> bool:
    if model is None:
        return False
    values = (*model.graph.input, *model.graph.output)
    return (
        any(entry.domain in ("", "ai.onnx") for entry in model.opset_import)
        and all(value.type.HasField("tensor_type") for value in values)
        and not any(node.op_type in RANDOM for node in nodes_of(model))
    )


def asked(model: onnx.ModelProto, target: int) -> bool:
    """Whether a test counts for a target: it is of another opset, and has no element type that nothing takes there."""
    values = (*model.graph.input, *model.graph.output)
    narrow = any(value.type.tensor_type.elem_type in NARROW for value in values)
    return opset_of(model) != target and not (target < 19 and narrow)


Running: TypeAlias = Callable[[onnx.ModelProto, Sequence[Feed]], list[list[Array]]]
"""Gives the outputs of a model for each of the feeds."""


def differs(case: Any, model: onnx.ModelProto, running: Running = run) -> str:
    """Run a model on the inputs of a test; describe the first output that is not the test's, as onnx's runner would."""
    names = [value.name for value in case.model.graph.input]
    for given, wanted in case.data_sets:
        feed = {name: _array(value) for name, value in zip(names, given, strict=False)}
        for expected, actual in zip(map(_array, wanted), running(model, [feed])[0], strict=True):
            if not _close(expected, actual, case.rtol, case.atol):
                return f"{_brief(actual)} is not {_brief(expected)}"
    return ""


def _array(value: Any) -> Array:
    """A test's input or output; where numpy has no such type it is a TensorProto."""
    array: Array = onnx.numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    return array


def _close(expected: Array, actual: Array, rtol: float, atol: float) -> bool:
    if expected.dtype.kind in "OUS":
        return bool(expected.shape == actual.shape and expected.tolist() == actual.tolist())
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.dtype in (np.float16, BFLOAT16):
        # The tests' 0.001 is about a unit of float16 and a quarter of one of bfloat16: what rounds once more or less on
        # the way departs by a unit from what was itself rounded.
        rtol = max(rtol, 2.0**-6 if expected.dtype == BFLOAT16 else 2.0**-9)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    return bool(np.allclose(actual.astype(wide), expected.astype(wide), rtol, atol, equal_nan=True))


def _brief(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)} " + np.array2string(array, threshold=8).replace("\n", "")[:80]
