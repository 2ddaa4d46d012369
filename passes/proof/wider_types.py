"""Convert models to the next wider type: float to double, float16 and bfloat16 to float.

Rounding is measured by the changes in the wider type. A node of bfloat16 without an onnxruntime kernel is computed in
float and rounded once.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.node_traits import traits_of
from opshift.passes.graph.traversal import subgraphs

_WIDER = {
    TensorProto.FLOAT: TensorProto.DOUBLE,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
}
WIDE: Mapping[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
    np.dtype(np.float64): np.dtype(np.float64),  # onnxruntime has no wider type
}


def widened(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy that returns the wide type where the node returns the narrow one, also in its subgraphs."""
    wide = copy.deepcopy(node)
    for attribute in wide.attribute:
        if attribute.name in ("to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision"):
            attribute.i = _wider_type(attribute.i)
    for subgraph in subgraphs(wide):
        for value in (*subgraph.input, *subgraph.output, *subgraph.value_info):
            _widen(value.type)
        for tensor in subgraph.initializer:
            tensor.CopyFrom(_wide_tensor(tensor))
        for inner in subgraph.node:
            inner.CopyFrom(widened(inner))
            for attribute in inner.attribute if traits_of(inner).typed_by_attribute else ():
                attribute.CopyFrom(_wide_constant(attribute))
    return wide


def in_double(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy that returns double if the node computes in float and casts the result to integers.

    The same holds for an If, a Loop or a Scan if, in each subgraph, such a node computes an output without other
    consumers.
    """
    wide = copy.deepcopy(node)
    for attribute in _cast_to_integers(wide):
        attribute.i = TensorProto.DOUBLE
    inside = list(subgraphs(wide))
    for values in zip(*(graph.output for graph in inside), strict=False):
        found = [list(_cast_at(graph, value.name)) for graph, value in zip(inside, values, strict=True)]
        if all(found):
            for attribute in itertools.chain(*found):
                attribute.i = TensorProto.DOUBLE
            for value in values:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def _cast_to_integers(node: onnx.NodeProto) -> Iterator[onnx.AttributeProto]:
    """Yield the attribute with which a node casts its computed floats to integers, if it has one."""
    for attribute in node.attribute:
        if attribute.name == "output_datatype" and attribute.i not in _WIDER:
            yield attribute


def _cast_at(graph: onnx.GraphProto, name: str) -> Iterator[onnx.AttributeProto]:
    """Yield that attribute of a value's node, unless another node reads the value."""
    if not any(name in node.input for node in graph.node):
        for node in graph.node:
            if name in node.output:
                yield from _cast_to_integers(node)


def _wider_type(element: int) -> int:
    return int(_WIDER.get(element, element))  # type: ignore[call-overload]


def _widen(value_type: onnx.TypeProto) -> None:
    """Change a type to the wide one, also for elements of a sequence or an optional."""
    which = value_type.WhichOneof("value")
    if which == "tensor_type":
        value_type.tensor_type.elem_type = _wider_type(value_type.tensor_type.elem_type)
    elif which in ("sequence_type", "optional_type"):
        _widen(getattr(value_type, which).elem_type)


def _wide_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in _WIDER or tensor.data_location == TensorProto.EXTERNAL:
        return tensor
    return onnx.numpy_helper.from_array(wider(onnx.numpy_helper.to_array(tensor)), tensor.name)


def _wide_constant(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    """Return a node's attribute `value` as a wide tensor; those of a Constant are only float."""
    if attribute.name == "value":
        return onnx.helper.make_attribute("value", _wide_tensor(attribute.t))
    if attribute.name in ("value_float", "value_floats"):
        value = np.asarray(onnx.helper.get_attribute_value(attribute), np.float32)
        return onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(wider(value)))
    return attribute


def wider(value: Any) -> Any:
    """Return floats in the next wider type, also in a list, and any other value unchanged."""
    if isinstance(value, np.ndarray):
        wide = WIDE.get(np.dtype(value.dtype))
        return value if wide is None else value.astype(wide)
    return [wider(item) for item in value] if isinstance(value, list) else value


def narrowed(value: Any, like: Any) -> Any:
    """Return a value in the type of the narrow model."""
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray):
        with np.errstate(over="ignore"):
            return value.astype(like.dtype, copy=False)
    if isinstance(value, list) and isinstance(like, list) and like:
        return [narrowed(item, like[0]) for item in value]
    return value


_FLOATS = frozenset(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        "float4_e2m1fn",
    )
)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is a float, including those of ml_dtypes."""
    return dtype.kind == "f" or dtype in _FLOATS
