"""Convert outputs that are maps from labels to scores to tensors: drop ZipMap at the end of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from opshift.opsets.registry.operator import ML
from opshift.opsets.registry.structural import IDENTITY
from opshift.passes.analysis.splicing import rename_values
from opshift.passes.base.errors import printable
from opshift.passes.graph.traversal import names_read

ZIP_MAP = "ZipMap"
_SHOWN = 8
"""The number of labels in a note."""


def with_tensors(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a copy with tensors of scores in place of map outputs, and a note on each of them."""
    found = list(_zipped(model.graph))
    if not found:
        return model, ()
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    return changed, tuple(reversed([_dropped(changed.graph, index) for index in reversed(found)]))


def _zipped(graph: onnx.GraphProto) -> Iterator[int]:
    """Yield the indices of nodes whose maps are model outputs without other consumers."""
    outputs = {value.name for value in graph.output}
    read = {name for node in graph.node for name in names_read(node)}
    for index, node in enumerate(graph.node):
        if node.op_type == ZIP_MAP and node.domain == ML and node.output[0] in outputs - read:
            yield index


def _dropped(graph: onnx.GraphProto, index: int) -> str:
    """Drop a node, give its input the name of its output, and return a note."""
    node = graph.node[index]
    scores, name = node.input[0], node.output[0]
    kept = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    known = next((value for value in graph.value_info if value.name == scores), None)
    labels = [item for attribute in node.attribute for item in (*attribute.ints, *attribute.strings)]
    if scores in kept:
        graph.node[index].CopyFrom(onnx.helper.make_node(IDENTITY, [scores], [name], name=node.name))
    else:
        del graph.node[index]
        rename_values(graph.node, {scores: name})
    output = next(value for value in graph.output if value.name == name)
    output.type.Clear()
    if known is not None:
        output.type.CopyFrom(known.type)
        graph.value_info.remove(known)
    else:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return f"The output {printable(name)} is a tensor of scores, a column for each label: {_listed(labels)}."


def _listed(labels: Sequence[int | bytes]) -> str:
    shown = [printable(one.decode("utf-8", "replace")) if isinstance(one, bytes) else str(one) for one in labels]
    return ", ".join(shown[:_SHOWN]) + (", ..." if len(labels) > _SHOWN else "")
