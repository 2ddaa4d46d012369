"""Replace what reads a sequence or an optional by the tensors in it, where it is known which these are.

What makes them stays, and is unused then, unless a graph returns it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import default_domain, schema_read_at
from opshift.opsets.registry.structural import IDENTITY, SEQUENCES
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.base.results import Action, Step
from opshift.passes.graph.traversal import graphs, named_subgraphs, node_name, subgraphs
from opshift.passes.rewrite.apply import Names
from opshift.passes.rewrite.splicing import Spliced, named_node, rename

_JOIN, _OPTIONAL, _GET, _HAS, _AT, _CONSTRUCT, _EMPTY, _ERASE, _INSERT, _LENGTH, _MAP, _SPLIT = SEQUENCES

Items = tuple[str, ...]
"""The values in a sequence, or the one in an optional, by their names."""


def without_sequences(model: onnx.ModelProto, values: Scope) -> tuple[Step, ...]:
    """Replace in place what reads sequences and optionals, and return what became of it.

    `values` is what is known of the model.
    """
    work = _Sequences(model)
    work.graph(model.graph, values, "main", {})
    if work.steps:
        model.ir_version = max(model.ir_version, 4)
    return tuple(work.steps)


class _Sequences:
    """One pass over one model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._names = Names(model)
        self._opset = default_opset(model.opset_import) or 1
        every = [graph for graph in graphs(model) if isinstance(graph, onnx.GraphProto)]
        self._given_out = {value.name for graph in every for value in graph.output}
        self.steps: list[Step] = []
        self._readers: Mapping[str, Callable[..., Items | None]] = {
            _AT: self._at,
            _LENGTH: self._length,
            _JOIN: self._joined,
            _GET: lambda node, scope, items, found: items[0] or None,
            _HAS: self._has,
        }
        self._makers: Mapping[str, Callable[..., Items | None]] = {
            _CONSTRUCT: lambda node, scope, items, found: tuple(node.input),
            _EMPTY: lambda node, scope, items, found: (),
            _INSERT: self._inserted,
            _ERASE: self._erased,
            _SPLIT: self._split,
            _OPTIONAL: lambda node, scope, items, found: (
                items[0] if items and items[0] is not None else tuple(node.input)
            ),
            IDENTITY: lambda node, scope, items, found: items[0],
        }

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str, outer: Mapping[str, Items]) -> None:
        """Replace what reads sequences in one graph, and in the graphs in it; `outer` are the sequences around it."""
        items = dict(outer)
        nodes: list[onnx.NodeProto] = []
        renamed: dict[str, str] = {}
        changed = False
        for index, node in enumerate(graph.node):
            where = f"{path}/{node_name(node, index)}"
            for name, inner in named_subgraphs(node):
                self.graph(inner, scope.enter(node, name), f"{where}.{name}", items)
            found = Spliced()
            sources = self._replaced(node, scope, items, found)
            if sources and node.output[0] in self._given_out:
                sources = (found.call(sources[0], node.output[0]),)
            nodes += found.nodes
            graph.initializer.extend(found.initializers)
            changed = changed or bool(found.nodes)
            if sources is None:
                nodes.append(node)
                continue
            changed = True
            schema = schema_read_at("", node.op_type, self._opset)
            why = "its tensors are known"
            self.steps.append(Step(Action.INLINE, where, node.op_type, schema.since_version if schema else 1, why))
            source = renamed.get(sources[0], sources[0])
            if source == node.output[0]:
                continue
            if node.output[0] in self._given_out:
                label = self._names.new(f"{node.output[0]}/Identity")
                nodes.append(named_node(label, IDENTITY, [source], node.output[0]))
            else:
                renamed[node.output[0]] = source
        if changed:
            kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            for node in kept:
                rename(node, renamed)
            del graph.node[:]
            graph.node.extend(kept)

    def _replaced(self, node: onnx.NodeProto, scope: Scope, items: dict[str, Items], found: Spliced) -> Items | None:
        """Return the value that a node returns; or note the items of what it makes, and return None."""
        if default_domain(node.domain) or node.op_type not in (*SEQUENCES, IDENTITY) or any(subgraphs(node)):
            return None
        given = [items.get(name) for name in node.input]
        if reader := self._readers.get(node.op_type):
            return None if not given or given[0] is None else reader(node, scope, given, found)
        if node.op_type == _MAP:
            return None
        made = self._makers[node.op_type](node, scope, given, found)
        if made is not None:
            items[node.output[0]] = made
        return None

    # --- what reads them ---

    def _at(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Items], found: Spliced) -> Items | None:
        place = _number(scope, node, 1)
        return None if place is None or not -len(items[0]) <= place < len(items[0]) else (items[0][place],)

    def _length(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Items], found: Spliced) -> Items:
        return (found.constant(self._names.new(f"{node.output[0]}/length"), len(items[0])),)

    def _has(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Items], found: Spliced) -> Items:
        name = self._names.new(f"{node.output[0]}/constant")
        return (found.constant(name, bool(items[0]), onnx.TensorProto.BOOL),)

    def _joined(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Items], found: Spliced) -> Items | None:
        given, parts = _attributes(node), list(items[0])
        if not parts:
            return None
        if given.get("new_axis", 0):
            new = self._named(node, "row")
            parts = [found.with_axis("Unsqueeze", part, given["axis"], new(), self._opset) for part in parts]
        return (found.node("Concat", parts, self._names.new(f"{node.output[0]}/Concat"), axis=given["axis"]),)

    # --- what makes them ---

    def _inserted(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Any], found: Spliced) -> Items | None:
        if items[0] is None:
            return None
        place = len(items[0]) if len(node.input) < 3 or not node.input[2] else _number(scope, node, 2)
        if place is None or not -len(items[0]) <= place <= len(items[0]):
            return None
        place += len(items[0]) if place < 0 else 0
        return (*items[0][:place], node.input[1], *items[0][place:])

    def _erased(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Any], found: Spliced) -> Items | None:
        if not items[0]:
            return None
        place = -1 if len(node.input) < 2 or not node.input[1] else _number(scope, node, 1)
        if place is None or not -len(items[0]) <= place < len(items[0]):
            return None
        place %= len(items[0])
        return (*items[0][:place], *items[0][place + 1 :])

    def _split(self, node: onnx.NodeProto, scope: Scope, items: Sequence[Any], found: Spliced) -> Items | None:
        """Split the tensor; a part of one is an element without that axis, unless `keepdims` or sizes are given."""
        given = _attributes(node)
        axis, facts = given.get("axis", 0), scope[node.input[0]] or Facts()
        whole = len(node.input) < 2 or not node.input[1]
        sizes = _sizes(facts.dim(axis), None if whole else scope[node.input[1]], whole=whole)
        if sizes is None or not sizes or (axis < 0 and facts.rank is None):
            return () if sizes == [] else None
        new = self._named(node, "part")
        parts = [new() for _ in sizes]
        found.split(node.input[0], sizes, axis, parts, self._opset, self._names.new(f"{node.output[0]}/split"))
        if whole and not given.get("keepdims", 1):
            parts = [found.with_axis("Squeeze", part, axis, new(), self._opset) for part in parts]
        return tuple(parts)

    def _named(self, node: onnx.NodeProto, what: str) -> Callable[[], str]:
        return functools.partial(self._names.new, f"{node.output[0]}/{what}")


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


def _number(scope: Scope, node: onnx.NodeProto, place: int) -> int | None:
    """Return the one element of a constant input."""
    facts = scope[node.input[place]]
    return None if facts is None or facts.known is None or facts.known.size != 1 else int(facts.known.item())


def _sizes(length: Any, split: Facts | None, *, whole: bool) -> list[int] | None:
    """Return the sizes of the parts of an axis of this length; one each without a `split`."""
    if not whole and (split is None or split.known is None):
        return None
    if split is not None and split.known is not None and split.known.ndim:
        return [int(size) for size in split.known]
    if not isinstance(length, int):
        return None
    step = 1 if split is None or split.known is None else int(split.known.item())
    return [min(step, length - start) for start in range(0, length, step)] if step > 0 else None
