"""Make onnxruntime round narrow floats, as a runtime does that computes in them.

onnxruntime 1.32.0 has few kernels for float16 on the CPU: it computes in float between Casts, and drops a Cast to
float16 before a Cast to float, whatever the optimization level. An Identity between the two Casts prevents this.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import TensorProto

from opshift.opsets.registry.structural import IDENTITY
from opshift.passes.analysis.known_values import known_values, scopes_of
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import nested_nodes, subgraphs

_NARROW = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def narrow_values(model: onnx.ModelProto) -> frozenset[str]:
    """Return the values of a model that are float16 or bfloat16.

    Small external constants of the model hold their elements.
    """
    if not any(_NARROW.intersection(_types(node)) for node in nested_nodes(model.graph)) and not _declares(model):
        return frozenset()
    all_types = (default_opset(model.opset_import) or 1) >= _IDENTITY_OF_ALL
    roundable = _NARROW if all_types else _NARROW - {TensorProto.BFLOAT16}
    return frozenset(
        name
        for _, scope in scopes_of(known_values(model), model.graph)
        for name, facts in scope.own.items()
        if facts is not None and facts.dtype in roundable and not facts.container
    )


def with_rounded_values(model: onnx.ModelProto, narrow: Collection[str]) -> onnx.ModelProto:
    """Return a model with an Identity behind each of some values, which keep their names."""
    work = onnx.ModelProto()
    work.CopyFrom(model)
    _round(work.graph, narrow, Names(work))
    return work


def _round(graph: onnx.GraphProto, narrow: Collection[str], names: Names) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        for inner in subgraphs(node):
            _round(inner, narrow, names)
        for index, name in enumerate(node.output):
            if name and name in narrow:
                node.output[index] = unrounded = names.new(f"{name}/unrounded")
                nodes.append(onnx.helper.make_node(IDENTITY, [unrounded], [name]))
    replace_nodes(graph, nodes)


_IDENTITY_OF_ALL = 13
"""The first opset whose Identity accepts bfloat16."""


def _types(node: onnx.NodeProto) -> set[int]:
    return {attribute.i for attribute in node.attribute if attribute.type == onnx.AttributeProto.INT}


def _declares(model: onnx.ModelProto) -> bool:
    values = (*model.graph.input, *model.graph.initializer)
    found = (one.data_type if isinstance(one, TensorProto) else one.type.tensor_type.elem_type for one in values)
    return not _NARROW.isdisjoint(found)
