"""Serialize pairs of models independently of names, so that equal pairs are compared once."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from opshift.opsets.registry.facts import FLOATS
from opshift.passes.graph.traversal import subgraphs


def canonical(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> tuple[tuple[bytes, bytes], dict[str, str]]:
    """Return both models as name-independent bytes, and the new name of each value."""
    names = _Names()
    return (names.renamed(original), names.renamed(rewritten)), names.values


class _Names:
    """Renames values and symbolic dims in order of first appearance."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._symbols: dict[str, str] = {}

    def renamed(self, model: onnx.ModelProto) -> bytes:
        """Return a model with new names, and without parts that do not affect the results."""
        copy = onnx.ModelProto()
        copy.ir_version = model.ir_version
        copy.opset_import.extend(model.opset_import)
        copy.graph.CopyFrom(model.graph)
        copy.functions.extend(model.functions)
        self._graph(copy.graph)
        for function in copy.functions:
            function.input[:] = self._all(function.input)
            self._nodes(function)
            function.output[:] = self._all(function.output)
            for entry in function.value_info:
                self._info(entry)
        return bytes(copy.SerializeToString(deterministic=True))

    def _value(self, name: str) -> str:
        return self.values.setdefault(name, f"v{len(self.values)}") if name else ""

    def _all(self, names: Iterable[str]) -> list[str]:
        return [self._value(name) for name in names]

    def _info(self, entry: onnx.ValueInfoProto) -> None:
        entry.name = self._value(entry.name)
        entry.doc_string = ""
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = self._symbols.setdefault(dim.dim_param, f"d{len(self._symbols)}")

    def _nodes(self, holder: onnx.GraphProto | onnx.FunctionProto) -> None:
        holder.doc_string = ""
        del holder.metadata_props[:]
        for node in holder.node:
            node.name = node.doc_string = ""
            del node.metadata_props[:]
            node.input[:] = self._all(node.input)
            for attribute in node.attribute:
                attribute.doc_string = ""
            for inner in subgraphs(node):
                self._graph(inner)
            node.output[:] = self._all(node.output)

    def _graph(self, graph: onnx.GraphProto) -> None:
        graph.name = ""
        del graph.quantization_annotation[:]
        for entry in graph.input:
            self._info(entry)
        for tensor in graph.initializer:
            tensor.name = self._value(tensor.name)
            tensor.doc_string = ""
        for sparse in graph.sparse_initializer:
            sparse.values.name = self._value(sparse.values.name)
        self._nodes(graph)
        for entry in (*graph.output, *graph.value_info):
            self._info(entry)


def without_weights(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return the models of a pair without the elements of their float constants."""
    original, rewritten = map(onnx.ModelProto.FromString, pair)
    for tensor in (*original.graph.initializer, *rewritten.graph.initializer):
        if tensor.data_type in FLOATS:
            for content in ("raw_data", "float_data", "double_data", "int32_data"):
                tensor.ClearField(content)
    return original.SerializeToString(deterministic=True), rewritten.SerializeToString(deterministic=True)
