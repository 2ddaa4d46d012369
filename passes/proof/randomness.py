"""Find the random outputs of a model, which are not compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx

from opshift.opsets.registry.node_traits import float_traits, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT
from opshift.opsets.registry.traits import Flow, Trait
from opshift.passes.graph.traversal import graphs, names_read, subgraphs


def training_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the inputs of a model, without defaults, that switch main-graph nodes to training."""
    inputs = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    modes = (node.input[2] for node in model.graph.node if node.op_type == "Dropout" and len(node.input) > 2)
    return tuple(dict.fromkeys(name for name in modes if name in inputs))


def random_outputs(model: onnx.ModelProto, off: Collection[str] = ()) -> tuple[str, ...]:
    """Return the outputs that depend on random numbers, if the inputs `off` are false."""
    if not any(_may_draw(node) for graph in graphs(model) for node in graph.node):
        return ()
    drawing = _RandomSources(frozenset((*_zeros(model), *off)), set())
    before = -1
    while len(drawing.functions) > before:  # a function may call another one that comes later
        before = len(drawing.functions)
        for one in model.functions:
            if any(map(drawing.draws, one.node)):
                drawing.functions.add((one.domain, one.name, one.overload))
    reached: set[str] = set()
    for node in model.graph.node:
        # The shape or the size of a random value is not random.
        reads = traits_of(node).flow is not Flow.DROPPED and not reached.isdisjoint(names_read(node))
        if reads or drawing.draws(node):
            reached.update(name for name in node.output if name)
    return tuple(value.name for value in model.graph.output if value.name in reached)


@dataclass(frozen=True)
class _RandomSources:
    """The sources of random numbers in a model, besides operators that always draw them."""

    zeros: frozenset[str]
    """The constants that hold only zeros, or false."""
    functions: set[tuple[str, str, str]]

    def draws(self, node: onnx.NodeProto) -> bool:
        """Return whether a node draws random numbers, directly, in its subgraphs or in a called function.

        Dropout does, unless its training_mode is known to be false, or its ratio to be 0.
        """
        if (node.domain, node.op_type, node.overload) in self.functions:
            return True
        if _may_draw(node) and not (node.op_type == "Dropout" and self._infers(node)):
            return True
        return any(map(self.draws, (one for graph in subgraphs(node) for one in graph.node)))

    def _infers(self, node: onnx.NodeProto) -> bool:
        return len(node.input) < 3 or not node.input[2] or not self.zeros.isdisjoint(node.input[1:3])


def _may_draw(node: onnx.NodeProto) -> bool:
    return not default_domain(node.domain) and Trait.RANDOM in float_traits(node)


def _zeros(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the names of all constants that hold only zeros, or false; names are unique in a model."""
    for graph in graphs(model):
        if isinstance(graph, onnx.GraphProto):
            yield from (tensor.name for tensor in graph.initializer if _is_zero(tensor))
        for node in graph.node:
            if node.op_type == CONSTANT and any(one.name == "value" and _is_zero(one.t) for one in node.attribute):
                yield from node.output


def _is_zero(tensor: onnx.TensorProto) -> bool:
    """Return whether an embedded tensor holds only zeros, or false."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return not any(map(any, (tensor.raw_data, tensor.int32_data, tensor.float_data, tensor.double_data)))
