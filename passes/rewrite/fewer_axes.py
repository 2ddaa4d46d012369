"""Reduce the rank of nodes for targets with a rank limit: merge adjacent equivalent axes, with Reshapes around.

A Reshape after another Reshape reads the first one's input, which removes the tensor with many axes between them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from opshift.opsets.families.axes import fixed
from opshift.opsets.families.merged_axes import Stages
from opshift.opsets.registry.facts import Dim, Facts, tensor_of
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Native, Node, lift, operator_for, write_native
from opshift.opsets.registry.schema import default_domain, version_read_at
from opshift.opsets.registry.structural import IDENTITY, RESHAPE
from opshift.passes.analysis.inference import infer, make_node
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.analysis.splicing import named_node, rename
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs, names_read, nested_nodes, node_name

FIRST = 5
"""The first opset whose Reshape has its shape as an input."""

Shape = tuple[Dim, ...]


def may_exceed(model: onnx.ModelProto, ranks: Mapping[str, int]) -> bool:
    """Return whether an operator with a rank limit may exceed it, judging by declarations and constants."""
    nodes = [*nested_nodes(model.graph)]
    least = min((ranks[node.op_type] for node in nodes if node.op_type in ranks), default=None)
    if least is None:
        return False
    tensors = [*model.graph.initializer, *(one.t for node in nodes for one in node.attribute if one.HasField("t"))]
    declared = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    return (
        any(len(tensor.dims) > least or (len(tensor.dims) == 1 and tensor.dims[0] > least) for tensor in tensors)
        or any(len(value.type.tensor_type.shape.dim) > least for value in declared)
        or any(len(one.ints) > least for node in nodes for one in node.attribute)
    )


def merge_axes(model: onnx.ModelProto, values: Scope, ranks: Mapping[str, int]) -> tuple[Step, ...]:
    """Reduce the rank of nodes above their operators' limits, in place, and return the steps.

    `values` are the facts about the model. Nodes without a form of lower rank stay.
    """
    names, opset = Names(model), default_opset(model.opset_import) or 1
    if opset < FIRST:
        return ()
    steps: list[Step] = []
    for graph, scope, path in _graphs(model.graph, values, "main"):
        merging = _Merging(graph, scope, names, opset, ranks)
        steps += merging.steps(path)
    return tuple(steps)


def _graphs(graph: onnx.GraphProto, scope: Scope, path: str) -> Iterator[tuple[onnx.GraphProto, Scope, str]]:
    for index, node in enumerate(graph.node):
        for name, inner in named_subgraphs(node):
            yield from _graphs(inner, scope.enter(node, name), f"{path}/{node_name(node, index)}.{name}")
    yield graph, scope, path


@dataclass
class _Merging:
    """One graph whose nodes get fewer axes."""

    graph: onnx.GraphProto
    scope: Scope
    names: Names
    opset: int
    ranks: Mapping[str, int]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    """The shapes of new values."""

    def steps(self, path: str) -> list[Step]:
        """Rewrite the graph, and return the steps of its nodes."""
        found: list[Step] = []
        for index, node in enumerate(self.graph.node):
            before, constants = len(self.nodes), len(self.graph.initializer)
            if self._merge(node):
                becomes = tuple(one.op_type for one in self.nodes[before:])
                found.append(self._step(node, f"{path}/{node_name(node, index)}", becomes))
            else:
                del self.nodes[before:], self.graph.initializer[constants:]
                self.nodes.append(node)
        if found:
            self._chain()
            replace_nodes(self.graph, self._used())
        return found

    def _step(self, node: onnx.NodeProto, where: str, becomes: tuple[str, ...]) -> Step:
        since = version_read_at("", node.op_type, self.opset)
        why = f"it has more than {self.ranks[node.op_type]} axes"
        return Step(Action.LOWER, where, node.op_type, since, why, ("merged_axes",), becomes)

    def _merge(self, node: onnx.NodeProto) -> bool:
        """Add a node of lower rank and its Reshapes, if the node exceeds the limit and such a form exists."""
        most = None if default_domain(node.domain) else self.ranks.get(node.op_type)
        read = [self.scope[name] for name in node.input if name]
        if most is None or not any((facts.rank or 0) > most for facts in read if facts is not None):
            return False
        operator, rule = operator_for("", node.op_type), traits(node.op_type).merges
        lifted = None if operator is None else lift(operator, view(node, self.scope, self.opset), "runtime")
        made = [fixed((self.scope[name] or Facts()).shape) if name else () for name in node.output]
        if lifted is None or isinstance(lifted, Reason) or rule is None or None in made:
            return False
        stages = rule(lifted.meaning, lifted.operands, most)
        return bool(stages) and self._write(node, lifted, stages or ())

    def _write(self, node: onnx.NodeProto, lifted: Lifted, stages: Stages) -> bool:
        """Add the nodes of all stages; if one of them cannot be added, remove all."""
        result = ""
        for place, (meaning, operands) in enumerate(stages):
            less = dataclasses.replace(lifted, meaning=meaning, operands=tuple(operands))
            native = write_native(less, self.opset)
            if isinstance(native, Reason):
                return False
            inputs = [self._input(node, lifted, less, index, result) for index in native.inputs]
            if None in inputs:
                return False
            last = place == len(stages) - 1
            result = self._node(node, less, native, [name or "" for name in inputs], last=last)
            if not result:
                return False
        return True

    def _input(self, node: onnx.NodeProto, before: Lifted, less: Lifted, index: int | None, result: str) -> str | None:
        """Return the input of a merged node, reshaped if necessary; None if that is impossible."""
        facts = None if index is None else less.operands[index]
        if index is None or facts is None:
            return ""
        position = before.sources[index]
        if facts == before.operands[index] and position is not None and not (result and index == 0):
            return str(node.input[position])
        if facts.known is not None and facts.dtype:
            name = self.names.new(f"{node.output[0]}/constant")
            self.graph.initializer.append(tensor_of(facts.known, facts.dtype, name))
            return name
        target = fixed(facts.shape)
        read = result if result and index == 0 else None if position is None else node.input[position]
        if target is None or read is None or facts.shape is None:
            return None
        return self._reshape(read, target, facts.shape, self.names.new(f"{read}/merged"))

    def _reshape(self, read: str, target: tuple[int, ...], shape: Shape, output: str) -> str:
        """Add a Reshape, and return its output."""
        constant = self.names.new(f"{output}/shape")
        self.graph.initializer.append(tensor_of(np.array(target, np.int64), onnx.TensorProto.INT64, constant))
        self.nodes.append(named_node(self.names.new(output), RESHAPE, [read, constant], output))
        self.shapes[output] = shape
        return output

    def _node(self, node: onnx.NodeProto, less: Lifted, native: Native, inputs: list[str], *, last: bool) -> str:
        """Add a merged node; the last one gets Reshapes of its outputs. Return its first output."""
        facts = tuple(None if index is None else less.operands[index] for index in native.inputs)
        name = less.operator.name
        typed = Node("", name, native.since_version, native.attributes, facts, tuple(map(bool, node.output)))
        inferred = infer(typed)
        if isinstance(inferred, Reason):
            return ""
        outputs = [
            self.names.new(f"{one}/merged") if one and (not last or self._shape(one) != made.shape) else one
            for one, made in zip(node.output, inferred, strict=False)
        ]
        self.nodes.append(make_node(name, "", inputs, outputs, native.attributes))
        self.nodes[-1].name = node.name if last else self.names.new(node.name or outputs[0])
        self.shapes.update({one: made.shape for one, made in zip(outputs, inferred, strict=False) if made.shape})
        for one, other in zip(outputs, node.output, strict=True):
            shape = self._shape(other)
            target = fixed(shape)
            if last and one != other and shape is not None and target is not None:
                self._reshape(one, target, shape, other)
        return outputs[0]

    def _shape(self, name: str) -> Shape | None:
        return self.shapes.get(name) or (self.scope[name] or Facts()).shape

    # --- one Reshape after another ------------------------------------------------------------------------------------

    def _chain(self) -> None:
        """Rewire nodes that keep the order of elements to the first input of their chain."""
        nodes, self.nodes = self.nodes, []
        returned = {value.name for value in self.graph.output}
        made: dict[str, onnx.NodeProto] = {}
        same: dict[str, str] = {}
        for node in nodes:
            rename(node, same)
            maker = made.get(node.input[0]) if node.input and _keeps_order(node) else None
            shape = self._shape(node.output[0]) if maker else None
            target = fixed(shape)
            if maker is None or shape is None or target is None or not self._is_long(node.input[0]):
                self.nodes.append(node)
            elif self._shape(maker.input[0]) != shape or None in shape:
                self._reshape(maker.input[0], target, shape, node.output[0])
            elif node.output[0] in returned:
                self.nodes.append(named_node(node.name, IDENTITY, [maker.input[0]], node.output[0]))
            else:
                same[node.output[0]] = maker.input[0]
                continue
            if _keeps_order(self.nodes[-1]):
                made[node.output[0]] = self.nodes[-1]

    def _is_long(self, name: str) -> bool:
        """Return whether a value has more axes than some operators accept."""
        return len(self._shape(name) or ()) > min(self.ranks.values())

    def _used(self) -> list[onnx.NodeProto]:
        """Return the nodes without unused nodes that keep the order of elements."""
        read = Counter(name for node in self.nodes for name in names_read(node))
        read.update(value.name for value in self.graph.output)
        kept = []
        for node in reversed(self.nodes):
            if _keeps_order(node) and not read[node.output[0]]:
                read.subtract(names_read(node))
            else:
                kept.append(node)
        return kept[::-1]


def _keeps_order(node: onnx.NodeProto) -> bool:
    """Return whether the output has the elements of the first input in their order."""
    plain = not default_domain(node.domain)
    return plain and (node.op_type == IDENTITY or traits(node.op_type).keeps_order)
