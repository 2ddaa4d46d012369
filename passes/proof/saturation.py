"""Products of signed and unsigned bytes, whose sums onnxruntime cuts to 16 bits on some processors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx
from onnx import TensorProto

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.runtimes import kernels
from opshift.passes.graph.traversal import graph_views
from opshift.passes.runtime import ort_session

_UNSIGNED = frozenset({TensorProto.UINT8, TensorProto.FLOAT})
"""The element types of bytes that are not signed: floats are quantized to such (DynamicQuantizeMatMul)."""


def saturating(model: onnx.ModelProto) -> Counter[str]:
    """Return the operators whose sums onnxruntime cuts on this processor, and how many nodes of each a model has.

    Nodes count where one factor is signed and the other one not, or a type is not known.
    """
    found = [node for node in ort_session.nodes(model) if traits_of(node).byte_factors]
    if not found or not kernels.cuts_sums_of_bytes():
        return Counter()
    types = _types(model)
    return Counter(node.op_type for node in found if _mixed(node, types))


def unequal(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str]:
    """Return the operators whose sums are cut in other nodes of one model than of the other."""
    one, other = saturating(before), saturating(after)
    return frozenset(name for name in one.keys() | other.keys() if one[name] != other[name])


def _mixed(node: onnx.NodeProto, types: Mapping[str, int]) -> bool:
    factors = [types.get(name, 0) for name in (node.input[place] for place in traits_of(node).byte_factors)]
    return 0 in factors or len({dtype in _UNSIGNED for dtype in factors}) == 2


def _types(model: onnx.ModelProto) -> Mapping[str, int]:
    """Return the element types that a model declares, by name."""
    found: dict[str, int] = {}
    for graph in (view.graph for view in graph_views(model)):
        inputs = graph.input if isinstance(graph, onnx.GraphProto) else ()
        found |= {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *inputs)}
        if isinstance(graph, onnx.GraphProto):
            found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return found
