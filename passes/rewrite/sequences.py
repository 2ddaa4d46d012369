"""Rewire consumers of a sequence or an optional to its tensors, if these are known.

The nodes that create them stay, unused unless a graph returns them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import default_domain, version_read_at
from opshift.opsets.registry.structural import (
    GET_ELEMENT,
    HAS_ELEMENT,
    IDENTITY,
    IF,
    JOIN,
    LOOP,
    OPTIONAL,
    SEQUENCE_AT,
    SEQUENCE_CONSTRUCT,
    SEQUENCE_EMPTY,
    SEQUENCE_ERASE,
    SEQUENCE_INSERT,
    SEQUENCE_LENGTH,
    SEQUENCE_MAP,
    SEQUENCES,
    SPLIT_TO_SEQUENCE,
)
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.analysis.splicing import Spliced, named_node, rename
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import graphs, named_subgraphs, node_name, subgraphs
from opshift.passes.rewrite.held_values import Held, Items, Maybe, names_in, renamed_in
from opshift.passes.rewrite.sequence_branches import return_elements
from opshift.passes.rewrite.sequence_loops import carry_elements
from opshift.passes.rewrite.sequence_maps import as_loop, each


def without_sequences(model: onnx.ModelProto, values: Scope) -> tuple[Step, ...]:
    """Replace the consumers of sequences and optionals in place, and return the steps.

    `values` are the facts about the model.
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
        self._readers: Mapping[str, Callable[..., str | None]] = {
            SEQUENCE_AT: self._at,
            SEQUENCE_LENGTH: self._length,
            JOIN: self._joined,
            GET_ELEMENT: self._got,
            HAS_ELEMENT: self._has,
        }
        self._makers: Mapping[str, Callable[..., Held | None]] = {
            SEQUENCE_CONSTRUCT: lambda node, scope, held, found: tuple(node.input),
            SEQUENCE_EMPTY: lambda node, scope, held, found: (),
            SEQUENCE_INSERT: self._inserted,
            SEQUENCE_ERASE: self._erased,
            SPLIT_TO_SEQUENCE: self._split,
            OPTIONAL: lambda node, scope, held, found: Maybe(*node.input),
            IDENTITY: lambda node, scope, held, found: held[0],
        }

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str, outer: Mapping[str, Held]) -> dict[str, Held]:
        """Replace the consumers of sequences in one graph and its subgraphs; return the values in its sequences.

        `outer` has the values in outer sequences.
        """
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own.update(name for node in graph.node for name in node.output)
        held = {name: one for name, one in outer.items() if own.isdisjoint((name, *names_in(one)))}
        nodes: list[onnx.NodeProto] = []
        renamed: dict[str, str] = {}
        changed = False
        for index, node in enumerate(graph.node):
            where = f"{path}/{node_name(node, index)}"
            found = Spliced()
            step = self._looped(node, scope, where, held, found)
            inside = {
                name: self.graph(inner, scope.enter(node, name), f"{where}.{name}", held)
                for name, inner in (() if step else named_subgraphs(node))
            }
            step = step or self._replaced(node, scope, held, inside, found)
            nodes += found.nodes
            graph.initializer.extend(found.initializers)
            changed = changed or bool(found.nodes)
            if step is None:
                nodes.append(node)
                continue
            changed = True
            self.steps.append(step._replace(node=where))
            for name, value in zip(node.output, found.outputs, strict=True):
                if name and value and value != name:
                    nodes += self._renamed(name, renamed.get(value, value), renamed)
        if changed:
            replace_nodes(graph, nodes)
            for node in graph.node:
                rename(node, renamed)
        return {name: renamed_in(one, renamed) for name, one in held.items()}

    def _renamed(self, name: str, value: str, renamed: dict[str, str]) -> list[onnx.NodeProto]:
        """Rewire the consumers of a value to another one; return the Identity that a graph output needs."""
        if name not in self._given_out:
            renamed[name] = value
            return []
        return [named_node(self._names.new(f"{name}/Identity"), IDENTITY, [value], name)]

    def _replaced(
        self,
        node: onnx.NodeProto,
        scope: Scope,
        held: dict[str, Held],
        inside: Mapping[str, Mapping[str, Held]],
        found: Spliced,
    ) -> Step | None:
        """Emit the replacement of a node, and return the step, or None if it stays.

        The values in its outputs are added to `held`.
        """
        if default_domain(node.domain) or node.op_type not in (*SEQUENCES, IDENTITY, IF):
            return None
        elements = [held.get(name) for name in node.input]
        if node.op_type == IF:
            returned = return_elements(node, inside, found, self._names) if len(inside) == 2 else {}
            held.update(returned)
            why = "the values in what it returns are known"
            return self._step(Action.LOWER, node, why, ("elements",), (IF,)) if returned else None
        if node.op_type == SEQUENCE_MAP:
            return self._mapped(node, scope, held, elements, found)
        if reader := self._readers.get(node.op_type):
            value = None if not elements or elements[0] is None else reader(node, scope, elements, found)
            if value is None:
                return None
            if node.output[0] in self._given_out:
                value = found.call(value, node.output[0])
            if value in held:
                held[node.output[0]] = held[value]
            found.outputs = [value]
            return self._step(Action.INLINE, node, "its tensors are known")
        made = self._makers[node.op_type](node, scope, elements, found)
        if made is not None:
            held[node.output[0]] = made
        return None

    def _looped(
        self, node: onnx.NodeProto, scope: Scope, where: str, held: dict[str, Held], found: Spliced
    ) -> Step | None:
        """Make a Loop carry the elements of sequences, if their number is known; return the step."""
        if node.op_type != LOOP or default_domain(node.domain):
            return None
        before = len(self.steps)

        def inside(body: onnx.GraphProto, elements: Mapping[str, Held]) -> Mapping[str, Held]:
            del self.steps[before:]  # steps of another attempt
            return self.graph(body, scope.enter(node, "body"), f"{where}.body", {**held, **elements})

        returned = carry_elements(node, held, inside, found, self._names)
        held.update(returned)
        if not found.nodes:
            del self.steps[before:]
            return None
        return self._step(Action.LOWER, node, "its sequences have a fixed length", ("elements",), (LOOP,))

    def _step(
        self,
        action: Action,
        node: onnx.NodeProto,
        why: str,
        lowerings: tuple[str, ...] = (),
        becomes: tuple[str, ...] = (),
    ) -> Step:
        since = version_read_at("", node.op_type, self._opset)
        return Step(action, "", node.op_type, since, why, lowerings, becomes)

    # --- consumers ---

    def _at(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held], found: Spliced) -> str | None:
        place, items = _number(scope, node, 1), _list(held)
        return None if items is None or place is None or not -len(items) <= place < len(items) else items[place]

    def _length(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held], found: Spliced) -> str | None:
        items = _list(held)
        return None if items is None else found.constant(self._names.new(f"{node.output[0]}/length"), len(items))

    def _got(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held], found: Spliced) -> str | None:
        """Return the value in an optional; a value that is not an optional is returned unchanged."""
        return (held[0].value or None) if isinstance(held[0], Maybe) else node.input[0]

    def _has(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held], found: Spliced) -> str:
        """Return whether an optional has a value; a sequence always counts, even an empty one."""
        full = not isinstance(held[0], Maybe) or bool(held[0].value)
        return found.constant(self._names.new(f"{node.output[0]}/constant"), full, onnx.TensorProto.BOOL)

    def _joined(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held], found: Spliced) -> str | None:
        attributes, parts = _attributes(node), list(_list(held) or ())
        if not parts:
            return None
        axis, is_new = attributes["axis"], bool(attributes.get("new_axis", 0))
        rank = next((facts.rank for part in parts if (facts := scope[part]) and facts.rank is not None), None)
        if rank is not None and axis < 0:  # Concat below opset 11 has no negative axis
            axis += rank + is_new
        output = self._names.new(f"{node.output[0]}/Concat")
        if is_new:
            new = self._named(node, "row")
            return found.stacked(parts, [new() for _ in parts], output, axis, self._opset)
        return found.joined(parts, output, axis)

    # --- producers ---

    def _inserted(
        self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held | None], found: Spliced
    ) -> Items | None:
        items = _list(held)
        if items is None:
            return None
        place = len(items) if len(node.input) < 3 or not node.input[2] else _number(scope, node, 2)
        if place is None or not -len(items) <= place <= len(items):
            return None
        place += len(items) if place < 0 else 0
        return (*items[:place], node.input[1], *items[place:])

    def _erased(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held | None], found: Spliced) -> Items | None:
        items = _list(held)
        if not items:
            return None
        place = -1 if len(node.input) < 2 or not node.input[1] else _number(scope, node, 1)
        if place is None or not -len(items) <= place < len(items):
            return None
        place %= len(items)
        return (*items[:place], *items[place + 1 :])

    def _split(self, node: onnx.NodeProto, scope: Scope, held: Sequence[Held | None], found: Spliced) -> Items | None:
        """Split the tensor; a part of size one loses the axis, unless `keepdims` or sizes are given."""
        attributes = _attributes(node)
        axis, facts = attributes.get("axis", 0), scope[node.input[0]] or Facts()
        whole = len(node.input) < 2 or not node.input[1]
        sizes = _sizes(facts.dim(axis), None if whole else scope[node.input[1]], whole=whole)
        if sizes is None or not sizes or (axis < 0 and facts.rank is None):
            return () if sizes == [] else None
        new = self._named(node, "part")
        parts = [new() for _ in sizes]
        found.split(node.input[0], sizes, axis, parts, self._opset, self._names.new(f"{node.output[0]}/split"))
        if whole and not attributes.get("keepdims", 1):
            parts = [found.with_axis("Squeeze", part, axis, new(), self._opset) for part in parts]
        return tuple(parts)

    def _mapped(
        self,
        node: onnx.NodeProto,
        scope: Scope,
        held: dict[str, Held],
        elements: Sequence[Held | None],
        found: Spliced,
    ) -> Step | None:
        if any(subgraph.sparse_initializer for subgraph in subgraphs(node)):
            return None
        if made := each(node, scope, elements, found, self._names):
            held.update(made)
            return self._step(Action.UNROLL, node, "the number of elements is known")
        as_loop(node, scope, found, self._names)
        return self._step(Action.LOWER, node, "ONNX defines it so", ("loop",), (LOOP,)) if found.nodes else None

    def _named(self, node: onnx.NodeProto, what: str) -> Callable[[], str]:
        return functools.partial(self._names.new, f"{node.output[0]}/{what}")


def _list(held: Sequence[Held | None]) -> Items | None:
    """Return the values in the sequence that is the first input."""
    return held[0] if held and isinstance(held[0], tuple) else None


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


def _number(scope: Scope, node: onnx.NodeProto, place: int) -> int | None:
    """Return the only element of a constant input."""
    facts = scope[node.input[place]]
    return None if facts is None or facts.known is None or facts.known.size != 1 else int(facts.known.item())


def _sizes(length: Any, split: Facts | None, *, whole: bool) -> list[int] | None:
    """Return the sizes of the parts of an axis of this length; all one without a `split`."""
    if not whole and (split is None or split.known is None):
        return None
    if split is not None and split.known is not None and split.known.ndim:
        return [int(size) for size in split.known]
    if not isinstance(length, int):
        return None
    step = 1 if split is None or split.known is None else int(split.known.item())
    return [min(step, length - start) for start in range(0, length, step)] if step > 0 else None
