"""Copy the nodes of a graph into another graph, under unused names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from opshift.opsets.registry.facts import Facts, tensor_of, type_name
from opshift.opsets.registry.schema import schema_read_at
from opshift.passes.analysis.inference import make_node
from opshift.passes.graph.traversal import subgraphs


def accepts(operator: str, facts: Facts | None, opset: int) -> bool:
    """Return whether an operator of an opset accepts an element type as its first input, if it is known."""
    schema = schema_read_at("", operator, opset)
    if schema is None or facts is None or facts.dtype is None:
        return schema is not None
    return f"tensor({type_name(facts.dtype)})" in schema.inputs[0].types


def selects(facts: Facts | None, opset: int) -> bool:
    """Return whether Gather can select an element of an axis: onnxruntime 1.32.0 copies one string of each slice."""
    strings = facts is not None and facts.dtype == TensorProto.STRING and facts.rank != 1
    return not strings and accepts("Gather", facts, opset)


def named_node(name: str, operator: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node of one output."""
    node = make_node(operator, "", inputs, [output], attributes)
    node.name = name
    return node


@dataclass
class Spliced:
    """Nodes for another graph, in order; `outputs` are that graph's names of the outputs."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    types: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node of one output, named after it, and return the output."""
        self.nodes.append(named_node(output, operator, inputs, output, **attributes))
        return output

    def with_axis(self, operator: str, value: str, axis: int, output: str, opset: int) -> str:
        """Add a Squeeze or an Unsqueeze of one axis."""
        if opset < 13:
            return self.node(operator, [value], output, axes=(axis,))
        return self.node(operator, [value, self.constant(f"{output}/axes", [axis])], output)

    def joined(self, values: Sequence[str], output: str, axis: int) -> str:
        """Add a Concat."""
        return self.node("Concat", list(values), output, axis=axis)

    def stacked(self, values: Sequence[str], rows: Sequence[str], output: str, axis: int, opset: int) -> str:
        """Add a Concat along a new axis; `rows` are the names of the values with that axis."""
        with_axis = [
            self.with_axis("Unsqueeze", value, axis, row, opset) for value, row in zip(values, rows, strict=True)
        ]
        return self.joined(with_axis, output, axis)

    def element(self, value: str, index: str, output: str, axis: int = 0) -> str:
        """Add a Gather of one index of an axis."""
        return self.node("Gather", [value, index], output, axis=axis)

    def length(self, value: str, axis: int, output: str, new: Callable[[str], str]) -> str:
        """Add the length of an axis, a scalar; `new` creates names of the values on the way."""
        shape = self.node("Shape", [value], new("shape"))
        return self.element(shape, self.constant(new("axis"), axis), output)

    def difference(self, value: str, other: str, output: str) -> str:
        """Add a Sub."""
        return self.node("Sub", [value, other], output)

    def split(self, value: str, sizes: list[int], axis: int, outputs: list[str], opset: int, name: str) -> None:
        """Add a Split into parts of these sizes."""
        if opset < 13:
            node = make_node("Split", "", [value], outputs, {"axis": axis, "split": tuple(sizes)})
        else:
            node = make_node("Split", "", [value, self.constant(f"{name}/sizes", sizes)], outputs, {"axis": axis})
        node.name = name
        self.nodes.append(node)

    def constant(self, name: str, array: Any, dtype: int = TensorProto.INT64) -> str:
        """Add an initializer, and return its name."""
        self.initializers.append(tensor_of(np.asarray(array, tensor_dtype_to_np_dtype(dtype)), dtype, name))
        return name

    def call(self, current: str, name: str) -> str:
        """Rename a value if one of the nodes computes it; return its current name."""
        if not any(current in node.output for node in self.nodes) or any(name in node.output for node in self.nodes):
            return current
        names = {current: name}
        rename_values(self.nodes, names)
        self.types = [value for value in self.types if value.name != current]
        self.outputs = [names.get(output, output) for output in self.outputs]
        return name

    def add(
        self, body: onnx.GraphProto, inputs: Mapping[str, str], fresh: Callable[[str], str], label: Callable[[str], str]
    ) -> list[str]:
        """Add the nodes of a graph with these `inputs`; return the names of its outputs.

        `fresh` creates unique names of values, and `label` unique names of nodes.
        """
        names = dict(inputs)
        for tensor in body.initializer:
            if tensor.name not in names:
                names[tensor.name] = fresh(tensor.name)
                self.initializers.append(TensorProto.FromString(tensor.SerializeToString()))
                self.initializers[-1].name = names[tensor.name]
        for node in body.node:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.name = label(copy.name) if copy.name else ""
            rename(copy, names)
            for place, name in enumerate(copy.output):
                if name:
                    names[name] = copy.output[place] = fresh(name)
            self.nodes.append(copy)
        for value in body.value_info:
            if value.name in names and value.name not in inputs:
                self.types.append(onnx.ValueInfoProto.FromString(value.SerializeToString()))
                self.types[-1].name = names[value.name]
        return [names.get(value.name, value.name) for value in body.output]


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename the values that a node and its subgraphs read."""
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for inner in subgraphs(node):
        own = {value.name for value in inner.input} | {tensor.name for tensor in inner.initializer}
        own.update(name for one in inner.node for name in one.output)
        outside = {name: other for name, other in names.items() if name not in own}
        for one in inner.node:
            rename(one, outside)
        for value in inner.output:
            value.name = outside.get(value.name, value.name)


def rename_values(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> None:
    """Rename values of a graph in all nodes and subgraphs that write or read them."""
    for node in nodes:
        rename(node, names)
        for place, output in enumerate(node.output):
            node.output[place] = names.get(output, output)
