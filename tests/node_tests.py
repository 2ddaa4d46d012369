"""ONNX's own backend node tests: which of them count, and whether a model gives the outputs that come with one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.backend.test.case.node
import onnx.numpy_helper
from onnx import TensorProto
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


def cases(pattern: str) -> list[Any]:
    """Return the tests that count, those whose name has the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = onnx.backend.test.case.node.collect_testcases()
    return [case for case in found if re.search(pattern, case.name) and _counts(case.model)]


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
