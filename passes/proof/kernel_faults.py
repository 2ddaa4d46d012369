"""Nodes that onnxruntime computes wrongly: their operators' numpy oracles are asked instead, in both models.

Sums of products of signed and unsigned bytes are cut to 16 bits on some processors. A Gather of strings fills one
element of each slice (1.32.0).
"""

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


def miscomputed(model: onnx.ModelProto) -> Counter[str]:
    """Return the operators that onnxruntime computes wrongly, and in how many nodes of a model.

    Products of bytes count where one factor is signed and the other not, or a type is not known; a Gather where a model
    has any strings.
    """
    products = [node for node in ort_session.nodes(model) if traits_of(node).byte_factors]
    gathers = [node for node in ort_session.nodes(model) if node.op_type == "Gather" and not node.domain]
    if not products and not gathers:
        return Counter()
    types = _types(model)
    cut = [node for node in products if _mixed(node, types)]
    wrong = (cut if cut and kernels.cuts_sums_of_bytes() else []) + (
        gathers if TensorProto.STRING in types.values() else []
    )
    return Counter(node.op_type for node in wrong)


def unequal(before: onnx.ModelProto, after: onnx.ModelProto) -> frozenset[str]:
    """Return the operators of which onnxruntime computes more nodes of one model wrongly than of the other."""
    one, other = miscomputed(before), miscomputed(after)
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
