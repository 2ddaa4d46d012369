"""Runs models in onnxruntime and compares what they give, for the tests of whole models.

A model of opset 27 or 28 runs as one of 26, at which onnxruntime 1.31 stops, where that means the same.
"""

from __future__ import annotations

import collections
import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from opshift.opsets.registry.schema import NEWEST, OLDEST

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Feed: TypeAlias = Mapping[str, Array]

OPSETS = range(OLDEST, NEWEST + 1)
RUNS_TO = 26
# Operators with a version of 27 or 28 that only adds element types, or an attribute whose default changes nothing for
# the types there were before.
SAME_AS_26 = {"Cast", "Compress", "Einsum", "OneHot", "Range", "ReduceLogSum", "ReduceLogSumExp", "ReverseSequence"}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class CannotRunError(Exception):
    """onnxruntime cannot run a model of this opset, and no older opset means the same."""


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Go through all nodes, also those of subgraphs and of model-local functions."""

    def walk(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            yield node
            for attribute in node.attribute:
                for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    yield from walk(graph.node)

    yield from walk(model.graph.node)
    for function in model.functions:
        yield from walk(function.node)


def operators_of(model: onnx.ModelProto) -> collections.Counter[tuple[str, str]]:
    """Count (domain, operator) over all nodes; the default domain is the empty text."""
    return collections.Counter((_domain(node.domain), node.op_type) for node in nodes_of(model))


def opset_of(model: onnx.ModelProto) -> int:
    """Return the opset of the default domain."""
    return next(int(entry.version) for entry in model.opset_import if not _domain(entry.domain))


def version_at(operator: str, opset: int) -> int | None:
    """Return the since_version that an operator of the default domain has at an opset, if it is there."""
    if not onnx.defs.has(operator, opset, ""):
        return None
    schema = onnx.defs.get_schema(operator, opset, "")
    return None if schema.deprecated else schema.since_version


def runnable(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model, or where onnxruntime does not load its opset the same one stamped with the newest it does."""
    opset = opset_of(model)
    if opset <= RUNS_TO:
        return model
    for domain, operator in operators_of(model):
        same = domain or operator in SAME_AS_26 or version_at(operator, opset) == version_at(operator, RUNS_TO)
        if not same:
            raise CannotRunError(f"{operator} of opset {opset} is not the one of {RUNS_TO}")
    stamped = onnx.ModelProto()
    stamped.CopyFrom(model)
    for holder in (stamped, *stamped.functions):
        for entry in holder.opset_import:
            if not _domain(entry.domain):
                entry.version = RUNS_TO
    stamped.ir_version = min(stamped.ir_version, 13)
    return stamped


def run(model: onnx.ModelProto, feeds: Sequence[Feed], *, optimised: bool = False) -> list[list[Array]]:
    """Return the outputs of the model for each of the feeds."""
    once = session_of(model, optimised=optimised)
    return [once(feed) for feed in feeds]


def session_of(model: onnx.ModelProto, *, optimised: bool = False) -> Callable[[Feed], list[Array]]:
    """Load the model, and return what runs it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        runnable(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {entry.name for entry in session.get_inputs()}
    bits = any("bfloat16" in entry.type for entry in (*session.get_inputs(), *session.get_outputs()))

    def once(feed: Feed) -> list[Array]:
        chosen = {name: array for name, array in feed.items() if name in given}
        if not bits:
            return list(session.run(None, chosen))
        values = session.run_with_ort_values(None, {name: _value(array) for name, array in chosen.items()})
        return [_array(value) for value in values]

    return once


def same(expected: Array, actual: Array, tolerance: float = 0) -> bool:
    """Tell whether two arrays agree in dtype, shape and every bit (one NaN is as good as another).

    With a tolerance, floating-point values may differ by that, relative to the largest finite value expected.
    """
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype and not (_textual(expected) and _textual(actual)):
        return False
    if expected.shape != actual.shape:
        return False
    if not _floating(expected):
        return bool(np.array_equal(expected, actual))
    wide, other = expected.astype(np.float64), actual.astype(np.float64)
    if not tolerance:
        alike = (wide == other) & (np.signbit(wide) == np.signbit(other))
        return bool(np.all(alike | (np.isnan(wide) & np.isnan(other))))
    finite = np.abs(wide[np.isfinite(wide)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(wide, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def differences(
    expected: Sequence[Sequence[Array]], actual: Sequence[Sequence[Array]], tolerance: float = 0
) -> list[str]:
    """Describe each output, of each feed, that is not the same."""
    found = []
    for number, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        if len(wanted) != len(got):
            found.append(f"feed {number}: {len(wanted)} outputs expected, {len(got)} given")
            continue
        for position, (one, other) in enumerate(zip(wanted, got, strict=True)):
            if not same(one, other, tolerance):
                found.append(f"feed {number}, output {position}: expected {_brief(one)}, got {_brief(other)}")
    return found


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _floating(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype == BFLOAT16


def _textual(array: Array) -> bool:
    return array.dtype.kind in "OUS"


def _brief(array: Array) -> str:
    text = np.array2string(array, threshold=40, separator=",").replace("\n", "")
    return f"{array.dtype}{list(array.shape)} {text[:200]}"


def _value(array: Array) -> Any:
    """Turn an array into onnxruntime's own value: it takes no arrays of bfloat16, only their bits."""
    if array.dtype == BFLOAT16:
        bits = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16)
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)
        value.held = bits  # onnxruntime reads their memory, and does not hold it
        return value
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Array:
    """Turn onnxruntime's own value into an array that owns its memory."""
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(memory, np.uint16).reshape(shape).view(BFLOAT16)
