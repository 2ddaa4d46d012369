"""Replace consumers of a sequence or an optional by its tensors, if these are known.

What makes them stays, and is unused then, unless a graph returns it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_sequence_value_info, make_tensor_value_info

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import default_domain, schema_read_at
from opshift.opsets.registry.structural import IDENTITY, LOOP, SEQUENCES
from opshift.passes.analysis.inference import make_node
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.analysis.splicing import Spliced, named_node, rename
from opshift.passes.base.results import Action, Step
from opshift.passes.graph.traversal import graphs, named_subgraphs, nested_nodes, node_name, subgraphs
from opshift.passes.rewrite.apply import Names
from opshift.passes.rewrite.unrolling import UNROLLED

_JOIN, _OPTIONAL, _GET, _HAS, _AT, _CONSTRUCT, _EMPTY, _ERASE, _INSERT, _LENGTH, _MAP, _SPLIT = SEQUENCES

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL

Items = tuple[str, ...]
"""The values in a sequence, or the one in an optional, by their names."""


def without_sequences(model: onnx.ModelProto, values: Scope) -> tuple[Step, ...]:
    """Replace in place what reads sequences and optionals, and return what became of it.

    `values` are the known facts about the model.
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
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own.update(name for node in graph.node for name in node.output)
        items = {name: held for name, held in outer.items() if name not in own}
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
            is_written = not {name for one in found.nodes for name in one.output}.isdisjoint(node.output)
            if sources is None and not is_written:
                nodes.append(node)
                continue
            changed = True
            if sources is None:
                self.steps.append(
                    Step(Action.UNROLL, where, node.op_type, 17, "the number of elements is known")
                    if any(name in items for name in node.output)
                    else Step(Action.LOWER, where, node.op_type, 17, "ONNX defines it so", ("loop",), (LOOP,))
                )
                continue
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
        if default_domain(node.domain) or node.op_type not in (*SEQUENCES, IDENTITY):
            return None
        given = [items.get(name) for name in node.input]
        if node.op_type == _MAP:
            if any(body.sparse_initializer for body in subgraphs(node)):
                return None
            mapped = self._mapped(node, scope, given, found) if given and given[0] else {}
            items.update(mapped)
            if not mapped:
                self._as_loop(node, scope, found)
            return None
        if reader := self._readers.get(node.op_type):
            return None if not given or given[0] is None else reader(node, scope, given, found)
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

    def _mapped(
        self, node: onnx.NodeProto, scope: Scope, items: Sequence[Items | None], found: Spliced
    ) -> dict[str, Items]:
        """Write the body once for each element, and return what each sequence holds that is made of the results.

        Inputs after the first are sequences as long as that, or tensors that all share.
        """
        body, length = next(subgraphs(node)), len(items[0] or ())
        shared = [name for name, own in zip(node.input, items, strict=True) if own is None]
        many = length * sum(1 for _ in nested_nodes(body)) > UNROLLED
        if many or not all(_is_tensor(scope[name]) for name in shared):
            return {}
        if any(own is not None and len(own) != length for own in items):
            return {}
        results: list[list[str]] = []
        for place in range(length):
            given = {
                inner.name: name if own is None else own[place]
                for inner, name, own in zip(body.input, node.input, items, strict=True)
            }
            fresh = functools.partial(self._numbered, place)
            results.append(found.add(body, given, fresh, fresh))
        made = {name: tuple(one[at] for one in results) for at, name in enumerate(node.output) if name}
        for name, parts in made.items():
            found.nodes.append(named_node(self._names.new(f"{name}/{_CONSTRUCT}"), _CONSTRUCT, list(parts), name))
        return made

    def _as_loop(self, node: onnx.NodeProto, scope: Scope, found: Spliced) -> None:
        """Write a Loop that collects what the body makes of each element, as ONNX defines SequenceMap."""
        body = next(subgraphs(node))
        types = [value.type.tensor_type.elem_type for value in body.output]
        pairs = list(zip(body.input, node.input, strict=True))
        shared = {inner.name: name for inner, name in pairs if _is_tensor(scope[name])}
        sequences = [(inner, name) for inner, name in pairs if inner.name not in shared]
        if not all(types) or not all(_is_sequence(scope[name]) for _, name in sequences):
            return
        new = self._named(node, "map")
        turn, go, on = new(), new(), new()
        inner = Spliced()
        given = dict(shared)
        for value, name in sequences:
            given[value.name] = new()
            inner.nodes.append(named_node(new(), _AT, [name, turn], given[value.name]))
        made = inner.add(body, given, self._names.new, self._names.new)
        inner.nodes.append(named_node(on, IDENTITY, [go], on))
        loop = onnx.GraphProto(name=new())
        loop.input.extend((make_tensor_value_info(turn, INT64, []), make_tensor_value_info(go, BOOL, [])))
        loop.output.append(make_tensor_value_info(on, BOOL, []))
        starts = []
        for result, dtype in zip(made, types, strict=True):
            before, after = new(), new()
            starts.append(found.node(_EMPTY, [], new(), dtype=dtype))
            inner.nodes.append(named_node(after, _INSERT, [before, result], after))
            loop.input.append(make_tensor_sequence_value_info(before, dtype, None))
            loop.output.append(make_tensor_sequence_value_info(after, dtype, None))
        loop.node.extend(inner.nodes)
        loop.initializer.extend(inner.initializers)
        loop.value_info.extend(inner.types)
        length = found.node(_LENGTH, [node.input[0]], new())
        outputs = [name or new() for name in node.output]
        whole = make_node(LOOP, "", [length, found.constant(new(), True, BOOL), *starts], outputs, {"body": loop})
        whole.name = self._names.new(f"{node.output[0]}/Loop")
        found.nodes.append(whole)

    def _numbered(self, place: int, name: str) -> str:
        return self._names.new(f"{name}/{place}")

    def _named(self, node: onnx.NodeProto, what: str) -> Callable[[], str]:
        return functools.partial(self._names.new, f"{node.output[0]}/{what}")


def _is_tensor(facts: Facts | None) -> bool:
    return facts is not None and bool(facts.dtype) and not facts.container


def _is_sequence(facts: Facts | None) -> bool:
    return facts is not None and bool(facts.container)


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
