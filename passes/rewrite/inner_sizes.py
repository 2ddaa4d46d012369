"""Models that also return how large the values inside of If, Loop and Scan are.

No output of a model can have these values themselves: a branch may not be taken, and an iteration may make other shapes
than the one before. So each graph returns a row of numbers for each of its floats, and a row that shows that it ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry.facts import FLOATS
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import IF
from opshift.passes.analysis.known_values import is_constant
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.analysis.splicing import Spliced
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs, node_name

Key = tuple[str, str]
"""A value, by the path of its graph and its name; without a name, the graph itself."""


@dataclass(frozen=True)
class ValueSizes:
    """The largest finite number of a value, the sums of their sizes and of their squares, and how many there are."""

    most: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    count: float = 0.0

    @staticmethod
    def of(array: npt.NDArray[Any]) -> ValueSizes:
        """Measure an array."""
        if not is_float(array):
            return ValueSizes(count=array.size)
        sizes = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64))
        return ValueSizes(float(sizes.max(initial=0.0)), float(sizes.sum()), float((sizes * sizes).sum()), array.size)


def is_float(array: npt.NDArray[Any]) -> bool:
    """Return whether an array holds floats."""
    return array.dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Located:
    """A node, its path, and the paths of its graph and of those around it."""

    where: str
    node: onnx.NodeProto
    graphs: tuple[str, ...]


def located(graph: onnx.GraphProto, *paths: str) -> Iterator[Located]:
    """Yield the nodes of a graph, each followed by those of its graphs; the graph has the first of these paths."""
    for index, node in enumerate(graph.node):
        yield from located_within(Located(f"{paths[0]}/{node_name(node, index)}", node, paths))


def located_within(one: Located) -> Iterator[Located]:
    """Yield a node, followed by those of its graphs."""
    yield one
    for attribute, inner in named_subgraphs(one.node):
        yield from located(inner, f"{one.where}.{attribute}", *one.graphs)


def holds_measured(node: onnx.NodeProto) -> bool:
    """Return whether a node is one of those in whose graphs values are measured."""
    domain = default_domain(node.domain)
    return not domain and (node.op_type == IF or traits_of(node).iteration is not None) and any(named_subgraphs(node))


@dataclass(frozen=True)
class MeasuredModel:
    """A model that returns sizes as more outputs, and what the rows of each of these are for."""

    model: onnx.ModelProto
    rows: Mapping[str, Sequence[Key]] = field(default_factory=dict)


def with_sizes(model: onnx.ModelProto, values: Scope) -> MeasuredModel:
    """Return a copy of a model that also returns how large the floats in its graphs are; `values` are facts of it."""
    opset = default_opset(model.opset_import) or 1
    if opset < _SELECTS:
        return MeasuredModel(model)
    work = onnx.ModelProto()
    work.CopyFrom(model)
    measuring = _Measuring(Names(work), opset)
    rows: dict[str, Sequence[Key]] = {}
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(work.graph.node):
        nodes.append(node)
        if not holds_measured(node):
            continue
        part = Spliced()
        name, keys = measuring.holder(node, values, f"main/{node_name(node, index)}", part)
        nodes += part.nodes
        rows[name] = keys
        work.graph.output.append(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    replace_nodes(work.graph, nodes)
    return MeasuredModel(work, rows)


_SELECTS = 9
"""The opset from which on a model can select finite numbers."""

_COLUMNS = len(ValueSizes.__dataclass_fields__)

_MEASURE = """measure (float[n] value) => (float[1,4] row) {
    wide = Cast <to = 1> (value)
    size = Abs (wide)
    factor = Constant <value = float {0.5}> ()
    half = Mul (size, factor)
    limit = Constant <value = float {3e38}> ()
    finite = Less (half, limit)
    zero = Constant <value = float {0}> ()
    known = Where (finite, size, zero)
    flat = Constant <value = int64[1] {-1}> ()
    elements = Reshape (known, flat)
    first = Constant <value = float[1] {0}> ()
    all = Concat <axis = 0> (first, elements)
    most = ReduceMax (all)
    total = ReduceSum (all)
    squares = ReduceSumSquare (all)
    number = Size (value)
    counted = Cast <to = 1> (number)
    count = Reshape (counted, flat)
    sizes = Concat <axis = 0> (most, total, squares, count)
    shape = Constant <value = int64[2] {1, 4}> ()
    row = Reshape (sizes, shape)
}"""
_RAN = "ran () => (float[1,4] row) { row = Constant <value = float[1,4] {0, 0, 0, 1}> () }"
_ZEROS = "zeros () => (float[k,4] rows) {{ rows = Constant <value = float[{k},4] {{{zeros}}}> () }}"
_LARGEST = """largest (float[n,k,4] iterations) => (float[k,4] rows) {{
    none = Constant <value = float[1,{k},4] {{{zeros}}}> ()
    all = Concat <axis = 0> (none, iterations)
    {reduced}
}}"""
_REDUCED = "rows = ReduceMax <axes = [0], keepdims = 0> (all)"
_REDUCED_18 = "axes = Constant <value = int64[1] {0}> () rows = ReduceMax <keepdims = 0> (all, axes)"


@dataclass(frozen=True)
class _Measuring:
    names: Names
    opset: int

    def holder(self, node: onnx.NodeProto, scope: Scope, path: str, part: Spliced) -> tuple[str, list[Key]]:
        """Let a node return the rows of its graphs; return the value that has them, which the nodes of `part` make."""
        graphs = [(inner, scope.enter(node, name), f"{path}.{name}") for name, inner in named_subgraphs(node)]
        found = [self.graph(*one) for one in graphs]
        keys = [key for _, own in found for key in own]
        for index, ((inner, _, _), (rows, _)) in enumerate(zip(graphs, found, strict=True)):
            filled = Spliced()
            parts = [rows if place == index else self._zeros(len(own), filled) for place, (_, own) in enumerate(found)]
            joined = filled.joined(parts, self.names.new("sizes"), 0)
            inner.node.extend(filled.nodes)
            inner.output.append(onnx.helper.make_tensor_value_info(joined, TensorProto.FLOAT, (len(keys), _COLUMNS)))
        iteration = traits_of(node).iteration
        made = graphs[0][0].output
        while len(node.output) < len(made) - (iteration.outputs if iteration else 0):
            node.output.append(self.names.new("sizes"))
        for attribute in node.attribute:
            if attribute.type == AttributeProto.INTS and attribute.name in _PER_OUTPUT:
                attribute.ints.append(0)
        if iteration is None:
            return node.output[-1], keys
        reduced = _REDUCED if self.opset < _AXES_AS_INPUT else _REDUCED_18
        text = _LARGEST.format(k=len(keys), zeros=_zeros(len(keys)), reduced=reduced)
        return self._add(text, {"iterations": node.output[-1]}, part), keys

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str) -> tuple[str, list[Key]]:
        """Measure the floats that the nodes of a graph make; return the value that has their rows."""
        nodes: list[onnx.NodeProto] = []
        part = Spliced()
        rows, keys = [self._add(_RAN, {}, part)], [(path, "")]
        for index, node in enumerate(graph.node):
            nodes.append(node)
            if holds_measured(node):
                inner, own = self.holder(node, scope, f"{path}/{node_name(node, index)}", part)
                rows.append(inner)
                keys += own
            for name in () if is_constant(node) else node.output:
                facts = scope.own.get(name) if name else None
                if facts is not None and facts.dtype in FLOATS and not facts.container:
                    rows.append(self._add(_MEASURE, {"value": name}, part))
                    keys.append((path, name))
        joined = part.joined(rows, self.names.new("sizes"), 0)
        replace_nodes(graph, (*nodes, *part.nodes))
        return joined, keys

    def _zeros(self, count: int, part: Spliced) -> str:
        return self._add(_ZEROS.format(k=count, zeros=_zeros(count)), {}, part)

    def _add(self, text: str, inputs: Mapping[str, str], part: Spliced) -> str:
        return part.add(onnx.parser.parse_graph(text), inputs, self.names.new, self.names.new)[0]


_AXES_AS_INPUT = 18
"""The opset from which on the axes of a maximum are an input."""
_PER_OUTPUT = frozenset({"scan_output_axes", "scan_output_directions"})
"""Attributes that have a number for each output of all iterations."""


def _zeros(rows: int) -> str:
    return ", ".join(["0"] * (rows * _COLUMNS))


def sizes_in(rows: Mapping[str, Sequence[Key]], outputs: Mapping[str, npt.NDArray[Any]]) -> dict[Key, ValueSizes]:
    """Return the sizes in outputs of a model that returns them."""
    return {
        key: ValueSizes(*map(float, row))
        for name, keys in rows.items()
        for key, row in zip(keys, outputs[name].reshape(-1, _COLUMNS), strict=True)
    }
