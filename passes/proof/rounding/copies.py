"""Inputs that a node reads twice, each with a name of its own."""

from __future__ import annotations

import onnx

from opshift.opsets.registry.node_traits import float_traits, traits_of
from opshift.opsets.registry.structural import IDENTITY
from opshift.opsets.registry.traits import Trait


def inputs_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which nodes that need it read no value twice, but copies of it.

    The scale of what a node reads, and that of what it returns, may be one constant. Moved alike, they cancel each
    other out, and what is in the middle of two steps stays where it is. Queries and keys may be one tensor, to which
    attention adds two biases.
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
    read = [name for name in node.input if name]
    needs = Trait.QUANTIZES in float_traits(node) or traits_of(node).adds_first is not None
    return needs and len(set(read)) < len(read)
