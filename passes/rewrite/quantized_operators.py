"""Replace float operators between DequantizeLinear and QuantizeLinear by operators on quantized values.

A node stays, with a reason, if the result would change by more than one step of the quantized output, if the target
does not support the operator, or if other nodes read its floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from opshift.opsets.registry.facts import Facts, constant, tensor_of
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import Lifted, Node, Operator, lift, operator_for
from opshift.opsets.registry.quantized_form import BYTES, Quantized, Read
from opshift.opsets.registry.schema import default_domain, schema_at, version_read_at
from opshift.opsets.registry.structural import CONSTANT, DEQUANTIZE, QUANTIZE
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import graphs, named_subgraphs, names_read, node_name
from opshift.passes.rewrite.folding import UNREAD


@dataclass(frozen=True)
class Joined:
    """The steps of fused nodes, and by path the reasons why others stay between DequantizeLinear and QuantizeLinear."""

    steps: tuple[Step, ...]
    kept: Mapping[str, str]


def join(model: onnx.ModelProto, values: Scope, legality: Legality) -> Joined:
    """Emit operators on quantized values, in place, if the target supports them; `values` are the facts."""
    work = _Joining(model, legality)
    work.graph(model.graph, values, "main", {})
    work.kept.update(
        (f"function {one.name}", "the functions of the model are too large to be inlined")
        for one in model.functions
        if any(_is(node, DEQUANTIZE) for node in one.node)
    )
    if work.steps:
        work.steps += _without_unread(model, work.freed)
        model.graph.initializer.extend(work.initializers)
        # Below ir_version 4, an initializer is an input with a default.
        model.ir_version = max(model.ir_version, 4 if work.initializers else 1)
    return Joined(tuple(work.steps), work.kept)


@dataclass(frozen=True)
class _Place:
    """A node with its path and the scope of its graph."""

    node: onnx.NodeProto
    where: str
    scope: Scope


@dataclass(frozen=True)
class _Site:
    """The quantized surroundings of a float node.

    Attributes:
        behind: the following nodes up to QuantizeLinear.
        lifted: its meaning.
        read: the quantized values or floats that it reads.
        made: the output of QuantizeLinear.
        operator: the operator on quantized values that replaces them.
    """

    behind: tuple[onnx.NodeProto, ...]
    lifted: Lifted
    read: tuple[Read, ...]
    made: Quantized
    operator: Operator


@dataclass
class _Joining:
    """The walk over the graphs of a model, with its results."""

    model: onnx.ModelProto
    legality: Legality
    steps: list[Step] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    freed: dict[str, str] = field(default_factory=dict)
    """The values that have lost a consumer, with the path of their node, if any."""
    initializers: list[TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opset = default_opset(self.model.opset_import) or 1
        self._names = Names(self.model)

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str, outer: Mapping[str, _Place]) -> None:
        """Process a graph and its subgraphs; `outer` are the nodes that compute the outer values."""
        places = [_Place(node, f"{path}/{node_name(node, at)}", scope) for at, node in enumerate(graph.node)]
        makers = {**outer, **{name: place for place in places for name in place.node.output if name}}
        read = Counter(name for node in graph.node for name in names_read(node))
        read.update(value.name for value in graph.output)
        readers = {name: node for node in graph.node for name in node.input}
        written: dict[str, onnx.NodeProto] = {}
        gone: set[str] = set()
        for place in places:
            node, where = place.node, place.where
            for name, inner in named_subgraphs(node):
                self.graph(inner, scope.enter(node, name), f"{where}.{name}", makers)
            if default_domain(node.domain) or _is(node, QUANTIZE):
                continue
            sources = [makers.get(name) for name in node.input]
            if not any(one is not None and _is(one.node, DEQUANTIZE) for one in sources):
                continue
            behind = tuple(self._behind(node, read, readers))
            if traits_of(node).quantized in ("", node.op_type) and not (behind and _is(behind[-1], QUANTIZE)):
                continue  # it computes with floats
            site = self._site(node, scope, makers, behind)
            found = site if isinstance(site, Reason) else self._written(node, scope, site, makers)
            if isinstance(found, Reason) or isinstance(site, Reason):
                self.kept[where] = f"{found}"
                continue
            written[found.output[0]] = found
            for one in (node, *site.behind):
                gone.update(one.output)
                self._free(one, makers)
                becomes = (found.op_type,) if one is node else ()
                why = f"{found.op_type} computes it" if one is node else f"{found.op_type} includes it"
                since = version_read_at("", one.op_type, self.opset)
                step = Step(Action.QUANTIZE, makers[one.output[0]].where, one.op_type, since, why, (), becomes)
                self.steps.append(step)
        if written:
            _replace(graph, written, gone)

    def _free(self, node: onnx.NodeProto, makers: Mapping[str, _Place]) -> None:
        """Record that a removed node no longer reads its inputs, including those of the preceding DequantizeLinear."""
        for name in filter(None, node.input):
            place = makers.get(name)
            self.freed[name] = place.where if place else ""
            if place is not None and _is(place.node, DEQUANTIZE):
                self._free(place.node, makers)

    # --- the surroundings of a node ---

    def _site(
        self,
        node: onnx.NodeProto,
        scope: Scope,
        makers: Mapping[str, _Place],
        behind: tuple[onnx.NodeProto, ...],
    ) -> _Site | Reason:
        """Return the surroundings of a node that reads a dequantized value, or the reason why it stays."""
        operator = operator_for("", traits_of(node).quantized)
        lifted = self._lifted(node, scope)
        if operator is None or operator.traits is None or operator.traits.form is None:
            return Reason(f"ai.onnx has no operator on quantized values for {node.op_type}")
        if isinstance(lifted, Reason):
            return lifted
        if not behind or not _is(behind[-1], QUANTIZE):
            return Reason("its result is an output, or is read by other nodes than one QuantizeLinear")
        made = self._result(behind[-1], scope)
        if isinstance(made, Reason):
            return made
        if reason := self._absorbed(behind[:-1], scope, made):
            return reason
        inputs: list[Read] = []
        for name in node.input:
            one = self._read(name, scope, makers)
            if isinstance(one, Reason):
                return one
            inputs.append(one)
        if reason := operator.traits.form.why_not(lifted.meaning, inputs, made):
            return reason
        return _Site(behind, lifted, tuple(inputs), made, operator)

    def _behind(
        self, node: onnx.NodeProto, read: Mapping[str, int], readers: Mapping[str, onnx.NodeProto]
    ) -> Iterator[onnx.NodeProto]:
        """Yield the nodes after a node, each the only consumer of the previous one, up to the first non-clamp."""
        while len(node.output) == 1 and read.get(node.output[0]) == 1 and node.output[0] in readers:
            node, value = readers[node.output[0]], node.output[0]
            if node.input[0] != value:
                return
            yield node
            if traits_of(node).clamp is None:
                return

    def _absorbed(self, clamps: Sequence[onnx.NodeProto], scope: Scope, made: Quantized) -> Reason | None:
        """Return the reason why a clamp changes the output of QuantizeLinear: it cuts within the range of the type."""
        for node in clamps:
            lifted, clamp = self._lifted(node, scope), traits_of(node).clamp
            ends = None if isinstance(lifted, Reason) or clamp is None else clamp(lifted.meaning, lifted.operands)
            if ends is None or np.isnan(ends).any() or made.scale.size != 1:
                return Reason(f"the bounds of {node.op_type} behind it are unknown", missing=True)
            scale, zero = made.scale.item(), made.zero.item()
            limits = np.iinfo(made.zero.dtype)
            low, high = (
                np.clip(np.rint(np.float32(end) / np.float32(scale)) + zero, limits.min, limits.max) for end in ends
            )
            if scale <= 0 or (low, high) != (limits.min, limits.max):
                return Reason(f"{node.op_type} behind it cuts within the range of the quantized result")
        return None

    def _read(self, name: str, scope: Scope, makers: Mapping[str, _Place]) -> Read | Reason:
        """Return the source of an input: the value that a DequantizeLinear reads, or a float."""
        place = makers.get(name)
        if not name or place is None or not _is(place.node, DEQUANTIZE):
            return scope[name] if name else None
        lifted = self._lifted(place.node, place.scope)
        if isinstance(lifted, Reason):
            return lifted
        if lifted.meaning.output_dtype not in (0, TensorProto.FLOAT):
            return Reason("an input is dequantized to another type than float")
        data = lifted.operands[0] or Facts()
        return _quantized(lifted, data, data.dtype)

    def _result(self, node: onnx.NodeProto, scope: Scope) -> Quantized | Reason:
        """Return the output of a QuantizeLinear."""
        lifted = self._lifted(node, scope)
        if isinstance(lifted, Reason):
            return lifted
        if lifted.meaning.precision not in (0, TensorProto.FLOAT):
            return Reason("its result is divided in another type than float")
        zero = lifted.operands[2]
        dtype = zero.dtype if zero is not None else lifted.meaning.output_dtype or TensorProto.UINT8
        if dtype not in BYTES:
            return Reason("its result has not 8 bits", missing=dtype is None)
        return _quantized(lifted, Facts(dtype), dtype)

    def _lifted(self, node: onnx.NodeProto, scope: Scope) -> Lifted | Reason:
        operator = operator_for("", node.op_type)
        if operator is None:
            return Reason(f"no meaning of {node.op_type} is known")
        return lift(operator, view(node, scope, self.opset), "runtime")

    # --- emitting ---

    def _written(
        self, node: onnx.NodeProto, scope: Scope, site: _Site, makers: Mapping[str, _Place]
    ) -> onnx.NodeProto | Reason:
        """Return the operator on quantized values, or the reason why the target does not support it."""
        name = site.operator.name
        schema = schema_at("", name, self.legality.opset)
        if schema is None or (
            name == node.op_type and schema.since_version != version_read_at("", node.op_type, self.opset)
        ):
            return Reason(f"opset {self.legality.opset} has {'no' if schema is None else 'another'} {name}")
        found = onnx.NodeProto(op_type=name, name=node.name, doc_string=node.doc_string)
        known = view(node, scope, self.opset).attributes
        defaults = {one: default for one, (_, default) in schema.attributes.items()}
        attributes = {one: value for one, value in known.items() if one in defaults and value != defaults[one]}
        found.attribute.extend(one for one in node.attribute if one.name in attributes)
        found.metadata_props.extend(node.metadata_props)
        parts = [_part(one, node, site, makers) for one in site.operator.operands]
        while parts and parts[-1] is None:
            parts.pop()
        facts = tuple(None if part is None else part.facts for part in parts)
        if reason := self.legality.why_not(Node("", name, schema.since_version, attributes, facts, (True,))):
            return reason
        found.input.extend("" if part is None else self._named(part, site.behind[-1].output[0]) for part in parts)
        found.output.append(site.behind[-1].output[0])
        return found

    def _named(self, part: _Part, base: str) -> str:
        """Return the name of an input, or of a new initializer."""
        if part.name:
            return part.name
        assert part.facts.known is not None
        name = self._names.new(f"{base}/{part.what}")
        self.initializers.append(tensor_of(part.facts.known, part.facts.dtype or 0, name))
        return name


@dataclass(frozen=True)
class _Part:
    """An input of an operator on quantized values: its name, or empty for a new constant."""

    what: str
    name: str
    facts: Facts


def _part(operand: str, node: onnx.NodeProto, site: _Site, makers: Mapping[str, _Place]) -> _Part | None:
    """Return an input by its operand's name: data, or the scale or zero point of data or of the result."""
    form = site.operator.traits.form if site.operator.traits else None
    assert form is not None
    stem = operand.removesuffix("_zero_point").removesuffix("_scale").lower()
    if stem == form.made.lower():
        read, maker = site.made, site.behind[-1]
    elif operand not in form.reads and stem == operand.lower():
        index = site.operator.operands.index(operand)
        source_index, facts = site.lifted.sources[index], site.lifted.operands[index]
        return None if source_index is None else _Part(operand, node.input[source_index], facts or Facts())
    else:
        place = [name.lower() for name in form.reads].index(stem)
        if place >= len(node.input) or not node.input[place]:
            return None
        one = site.read[place]
        assert isinstance(one, Quantized)
        read, maker = one, makers[node.input[place]].node
    if operand.endswith("_scale"):
        return _parameter(operand, maker, 1, read.scale, TensorProto.FLOAT)
    if operand.endswith("_zero_point"):
        return _parameter(operand, maker, 2, read.zero, read.dtype)
    return _Part(operand, maker.input[0], read.data)


def _parameter(operand: str, maker: onnx.NodeProto, place: int, array: npt.NDArray[Any], dtype: int) -> _Part:
    """Return a scale or a zero point; a single one becomes a scalar."""
    wanted = array.reshape(()) if array.size == 1 else array
    name = maker.input[place] if place < len(maker.input) else ""
    return _Part(operand, name if wanted.shape == array.shape else "", constant(wanted, dtype))


def _quantized(lifted: Lifted, data: Facts, dtype: int | None) -> Quantized | Reason:
    """Return a value with the scales and zero points of a DequantizeLinear or QuantizeLinear."""
    what, (_, scale, zero) = lifted.meaning, lifted.operands
    known = scale.known if scale else None
    if dtype is None:
        return Reason("the type of a quantized value is unknown", missing=True)
    if known is None or scale is None or scale.dtype != TensorProto.FLOAT or (zero is not None and zero.known is None):
        return Reason("a scale or zero point is no constant, or a scale is not of float", missing=True)
    start = zero.known if zero is not None and zero.known is not None else None
    if start is None:
        start = np.zeros(known.shape, helper.tensor_dtype_to_np_dtype(dtype))
    if what.block_size or known.ndim > 1:
        return Reason("a scale is for a block")
    if start.size != known.size:
        return Reason("there are not as many zero points as scales")
    return Quantized(data, known, start.reshape(known.shape), what.axis)


def _is(node: onnx.NodeProto, name: str) -> bool:
    return node.op_type == name and not default_domain(node.domain)


def _replace(graph: onnx.GraphProto, written: Mapping[str, onnx.NodeProto], gone: Set[str]) -> None:
    """Insert nodes in place of the QuantizeLinear nodes of their outputs, and remove the nodes of dropped values."""
    kept = []
    for node in graph.node:
        made = [written[name] for name in node.output if name in written]
        if made or gone.isdisjoint(node.output):
            kept.append(made[0] if made else node)
    replace_nodes(graph, kept)
    _forget(graph, gone - written.keys())


def _forget(graph: onnx.GraphProto, names: Collection[str]) -> None:
    """Remove the declarations of dropped values."""
    drop_named(graph.value_info, names)
    for index in range(len(graph.quantization_annotation) - 1, -1, -1):
        if graph.quantization_annotation[index].tensor_name in names:
            del graph.quantization_annotation[index]


def _without_unread(model: onnx.ModelProto, freed: Mapping[str, str]) -> Iterator[Step]:
    """Drop unused DequantizeLinear nodes and constants, in place; yield the steps of the former.

    `freed` are values that have lost a consumer, with the path of their node.
    """
    opset = default_opset(model.opset_import) or 1
    for operator in (DEQUANTIZE, CONSTANT):
        held = _graphs(model)
        unread = {*freed} - _all_read(held)
        for graph in reversed(held):  # a node with a subgraph is copied after the subgraph has changed
            nodes = [node for node in graph.node if _is(node, operator) and unread.issuperset(node.output)]
            if operator == DEQUANTIZE:
                yield from (
                    Step(Action.DROP, freed[node.output[0]], operator, version_read_at("", node.op_type, opset), UNREAD)
                    for node in nodes
                )
            idle = {name for node in nodes for name in node.output}
            if idle:
                replace_nodes(graph, [node for node in graph.node if idle.isdisjoint(node.output)])
                _forget(graph, idle)
    held = _graphs(model)
    unread = {*freed} - _all_read(held)
    for graph in held:
        unread -= {value.name for value in graph.input}
        drop_named(graph.initializer, unread)


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """Return all graphs, an outer graph before its subgraphs."""
    return [graph for graph in graphs(model) if isinstance(graph, onnx.GraphProto)]


def _all_read(held: Iterable[onnx.GraphProto]) -> set[str]:
    """Return the names that nodes, outputs and annotations of graphs refer to."""
    names: set[str] = set()
    for graph in held:
        names.update(name for node in graph.node for name in node.input)
        names.update(value.name for value in graph.output)
        for annotation in graph.quantization_annotation:
            names.update(entry.value for entry in annotation.quant_parameter_tensor_names)
    return names
