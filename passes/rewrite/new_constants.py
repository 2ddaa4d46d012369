"""The constants that new nodes read: initializers, or nodes where initializers are impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from opshift.opsets.operators.constant import gives
from opshift.opsets.registry.facts import ExternalTensor, Tensor, facts_of_attribute, tensor_of, type_name
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY
from opshift.passes.analysis.inference import make_node
from opshift.passes.graph.names import Names
from opshift.passes.rewrite.fragment import Constant


class Constants:
    """The constants that new nodes read: one initializer of the main graph for each value."""

    def __init__(self, names: Names, opset: int, *, nodes: bool = False) -> None:
        """Start without constants; `nodes`: the target supports Constant, for all types that its opset permits."""
        self._names = names
        self._opset = opset
        self._nodes = nodes
        self._known: dict[tuple[bytes, int], str] = {}
        self.made: list[TensorProto] = []
        self.outputs: list[TensorProto] = []
        """Constants that replace outputs of nodes: they become initializers of the nodes' graph."""

    def within(self, node: NodeProto) -> Constants:
        """Return the constants for a node's subgraphs: those of another domain's nodes may not read outer values.

        The functions of FlexAttention-1 of ai.onnx.preview become part of its function body.
        """
        return Constants(self._names, self._opset, nodes=self._nodes) if default_domain(node.domain) else self

    def name(self, constant: Constant, before: list[NodeProto]) -> str:
        """Return the name of a value that holds the constant; `before` takes nodes to put before its use."""
        key = constant.value.digest, constant.dtype
        if key not in self._known:
            shape = "x".join(map(str, facts_of_attribute(constant.value).shape or ()))
            self._known[key] = self._names.new(f"opshift/{type_name(constant.dtype)}[{shape}]")
            self.made.append(_tensor(constant, self._known[key]))
        return self._known[key]

    def output(self, constant: Constant, name: str, before: list[NodeProto]) -> NodeProto | None:
        """Return a node that outputs a constant under a name: runtimes infer shapes through Constant, not Identity.

        Return None if neither supports the element type at this opset (int4 below 21): it becomes an initializer.
        """
        if self._nodes and gives(CONSTANT, self._opset, constant.dtype):
            return make_node(CONSTANT, "", [], [name], {"value": constant.value})
        if gives(IDENTITY, self._opset, constant.dtype):
            return make_node(IDENTITY, "", [self.name(constant, before)], [name], {})
        self.outputs.append(_tensor(constant, name))
        return None


def _tensor(constant: Constant, name: str) -> TensorProto:
    """Return a constant as an initializer; elements in a file stay there."""
    if not isinstance(constant.value, ExternalTensor):
        return tensor_of(constant.value.array, constant.dtype, name)
    tensor = TensorProto()
    tensor.CopyFrom(constant.value.proto)
    tensor.name = name
    return tensor


class ConstantsAsNodes(Constants):
    """Constants as nodes, if initializers are impossible: in functions, and below ir_version 4 (all are inputs)."""

    def __init__(self, names: Names, opset: int) -> None:
        """Emit this opset's form of Constant; each use gets its own node, so that it is always in scope."""
        super().__init__(names, opset)

    def within(self, node: NodeProto) -> Constants:
        """Return itself, because the nodes are emitted where they are used."""
        return self

    def name(self, constant: Constant, before: list[NodeProto]) -> str:
        """Emit a Constant before the node; below opset 9, where a Constant holds only floats, a Cast follows it."""
        name = self._names.new(f"opshift/{type_name(constant.dtype)}")
        floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
        if self._opset >= 9 or constant.dtype in floats:
            before.append(make_node(CONSTANT, "", [], [name], {"value": constant.value}))
        elif ((array := constant.value.array).astype(np.float64).astype(array.dtype) == array).all():
            self._cast(array.astype(np.float64), constant.dtype, name, before)
        else:
            # A double holds only half of the bits of a 64-bit integer exactly.
            high, low, scale, scaled = (
                self._names.new(f"{name}/{part}") for part in ("high", "low", "scale", "scaled")
            )
            self._cast((array // 2**32).astype(np.float64), constant.dtype, high, before)
            self._cast((array % 2**32).astype(np.float64), constant.dtype, low, before)
            self._cast(np.float64(2**32), constant.dtype, scale, before)
            before.append(make_node("Mul", "", [high, scale], [scaled], {}))
            before.append(make_node("Add", "", [scaled, low], [name], {}))
        for node in before:
            node.name = node.name or node.output[0]
        return name

    def output(self, constant: Constant, name: str, before: list[NodeProto]) -> NodeProto:
        """Return the node that outputs a constant under this name."""
        self.name(constant, before)
        made = before.pop()
        made.output[0] = name
        made.name = ""
        return made

    def _cast(self, array: Any, dtype: int, name: str, before: list[NodeProto]) -> None:
        whole = self._names.new(f"{name}/double")
        before.append(make_node(CONSTANT, "", [], [whole], {"value": Tensor(np.asarray(array))}))
        before.append(make_node(CAST, "", [whole], [name], {"to": dtype}))
