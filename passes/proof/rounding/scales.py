"""Scales that a node reads twice, each with a name of its own."""

from __future__ import annotations

import onnx

from opshift.opsets.registry.node_traits import float_traits
from opshift.opsets.registry.structural import IDENTITY
from opshift.opsets.registry.traits import Trait


def scales_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which no node that quantizes reads a value twice, but copies of it.

    The scale of what it reads, and that of what it returns, may be one constant. Moved alike, they cancel each other
    out, and what is in the middle of two steps stays where it is.
    """
    repeated = {index for index, node in enumerate(model.graph.node) if _reads_twice(node)}
    if not repeated:
        return model
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    opened.graph.ClearField("node")
    for index, node in enumerate(model.graph.node):
        if index not in repeated:
            opened.graph.node.append(node)
            continue
        apart = onnx.NodeProto.FromString(node.SerializeToString())
        for place, name in enumerate(node.input):
            if name and name in node.input[:place]:
                apart.input[place] = f"{name}/input {place} of {node.output[0]}"
                opened.graph.node.append(onnx.helper.make_node(IDENTITY, [name], [apart.input[place]]))
        opened.graph.node.append(apart)
    return opened


def _reads_twice(node: onnx.NodeProto) -> bool:
    given = [name for name in node.input if name]
    return len(set(given)) < len(given) and Trait.QUANTIZES in float_traits(node)
