"""Infer types and shapes of single values on demand, node by node from the declared ones.

This suffices if dimensions are known or named, and nothing is computed from shapes; otherwise onnx infers all values at
once. The results are those of onnx, but faster: equal nodes are inferred once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, islice

import onnx

from opshift.opsets.registry.facts import FLOATS, Facts, facts_of_type
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.opsets.registry.structural import CONSTANT
from opshift.opsets.registry.traits import Flow
from opshift.passes.analysis.inference import typed
from opshift.passes.analysis.scopes import Scope, default_opset, initializers, view
from opshift.passes.graph.columnar import OpKey
from opshift.passes.graph.limits import LONGEST
from opshift.passes.graph.traversal import GraphView, GraphWalk, attribute_key

MOST = 256
"""The maximum number of nodes to infer one by one: if more nodes differ, onnx's inference of the model is faster."""


class StaticFacts:
    """The facts about values of a main graph that follow from the declared types."""

    def __init__(self, model: onnx.ModelProto, main: GraphView | GraphWalk) -> None:
        """Store a checked model, which must not be modified, and its main graph."""
        nodes = model.graph.node
        self._model = model
        self._opset = default_opset(model.opset_import) or 1
        self._functions = {(item.domain, item.name) for item in model.functions}
        self._known: dict[str, Facts | None] = {}
        self._declared: dict[str, Facts] = {}
        self._unknown: set[str] = set()
        self._one: dict[Facts, Facts] = {}
        if isinstance(main, GraphView):
            self._inputs, self._outputs = iter(main.inputs), iter(main.outputs)
        else:
            self._inputs = chain.from_iterable(node.input[:] for node in nodes)
            self._outputs = chain.from_iterable(node.output[:] for node in nodes)
        self._rest = enumerate(self._plain(main.by_op_key))
        self._at = -1
        self._alike: dict[int, int] = {}
        self._inferred: dict[Hashable, tuple[Sequence[Facts | None], tuple[Facts, ...] | None]] = {}

    def _plain(self, places: Mapping[OpKey, Sequence[int]]) -> list[dict[int, Facts] | None]:
        """Return each node's cache of outputs by input, shared per operator; None for operators that are not simple.

        Nodes of simple operators have no attributes, one input and one output; the model's checks guarantee it.
        """
        found: list[dict[int, Facts] | None] = [None] * sum(map(len, places.values()))
        for (domain, name, overload), indices in places.items():
            schema = None if default_domain(domain) else schema_at("", name, self._opset)
            if overload or schema is None or schema.attributes or (domain, name) in self._functions:
                continue
            raw = schema.raw
            if raw.min_input == raw.max_input == raw.min_output == raw.max_output == 1:
                plain: dict[int, Facts] = {}
                for index in indices:
                    found[index] = plain
        return found

    def find(self, name: str) -> Facts | None:
        """Return the facts about a value; None if they do not follow. Nodes up to the value's own are inferred."""
        if not self._known:
            self._start()
        if name not in self._known and name not in self._unknown:
            self._go_to(name, -1)
        return self._known.get(name)

    def alike(self, index: int) -> int | None:
        """Return a key that nodes with the same operator, attributes, inputs (except names) and outputs share.

        Return None if the facts do not follow, and for nodes without attributes.
        """
        if not self._known:
            self._start()
        if index > self._at:
            self._go_to(None, index)
        return self._alike.get(index)

    def _go_to(self, wanted: str | None, place: int) -> None:
        """Infer the nodes up to the producer of a value, or up to an index."""
        known, unknown, declared, nodes = self._known, self._unknown, self._declared, self._model.graph.node
        for index, plain in self._rest:
            if plain is None:
                node = nodes[index]
                read = list(islice(self._inputs, len(node.input)))
                made = list(islice(self._outputs, len(node.output)))
                self._infer(index, node, read, made, plain)
                if wanted in known or wanted in unknown or index == place:
                    break
                continue
            name, output = next(self._inputs), next(self._outputs)
            facts = plain.get(id(known.get(name)))
            if facts and output not in unknown:
                known.setdefault(output, declared.get(output, facts))
            else:
                self._infer(index, nodes[index], [name], [output], plain)
            if wanted == output or index == place:
                break
        else:
            index = len(nodes)
        self._at = index

    def _start(self) -> None:
        """Record the declared facts."""
        graph, known = self._model.graph, self._known
        known[""] = None
        types: dict[bytes, Facts] = {}  # a large model has few types
        for values in (graph.value_info, graph.output, graph.input):
            for value in values:
                serialized = value.type.SerializeToString()
                if serialized not in types:
                    types[serialized] = self._the_one(facts_of_type(value.type))
                facts = types[serialized]
                fixed = _is_static(facts) and all(isinstance(dim, int) for dim in facts.shape or ())
                if not (_is_static(facts) if values is graph.input else fixed):
                    self._unknown.add(value.name)  # declared and inferred facts would have to be merged
                elif values is graph.input:
                    known[value.name] = facts
                elif facts.dtype in FLOATS:
                    self._declared[value.name] = facts
        for name, facts in initializers(self._model).items():
            if _is_static(facts):
                known[name] = facts
            else:
                known.pop(name, None)
                self._unknown.add(name)

    def _infer(
        self,
        index: int,
        node: onnx.NodeProto,
        names: Sequence[str],
        outputs: Sequence[str],
        plain: dict[int, Facts] | None,
    ) -> None:
        """Record the facts about the outputs of a node in the cache of its operator."""
        known = self._known
        found: tuple[Facts, ...] | None = None
        try:
            inputs = [known[name] for name in names]
        except KeyError:
            pass
        else:
            attributes = attribute_key(node) if node.attribute else ()
            used = len(outputs) if all(outputs) else tuple(map(bool, outputs))
            key = node.op_type, node.domain, attributes, tuple(map(id, inputs)), used
            same = self._inferred.get(key)
            if same:
                found = same[1]
            elif len(self._inferred) < MOST:
                found = self._new(node, inputs)
                if attributes is not None:
                    # The inputs are kept alive, so that their ids stay unique.
                    same = self._inferred[key] = inputs, found
                if found and plain is not None and used == 1 and inputs[0] is not None:
                    plain[id(inputs[0])] = found[0]
            if same:
                self._alike[index] = id(same)
        # Outputs computed from constants may have constant elements, which a declaration does not contain.
        computed = traits(node.op_type).flow is not Flow.DROPPED and any(map(_is_computed, map(known.get, names)))
        for name, facts in zip(outputs, found or [None] * len(outputs), strict=True):
            if name in known or name in self._unknown:
                continue
            if (facts is None and computed) or (facts is not None and facts.value is None and not facts.unread):
                facts = self._declared.get(name, facts)
            if facts is None:
                self._unknown.add(name)
            else:
                known[name] = facts

    def _new(self, node: onnx.NodeProto, inputs: Sequence[Facts | None]) -> tuple[Facts, ...] | None:
        constant = node.op_type == CONSTANT
        if default_domain(node.domain) or (node.domain, node.op_type) in self._functions:
            return None
        if not constant and (
            traits(node.op_type).flow is Flow.DROPPED or all(one is None or one.value for one in inputs)
        ):
            return None  # the elements are constant
        if not constant and attribute_key(node) is None:
            return None
        typed_node = view(node, Scope(self._known), self._opset)
        found = typed(typed_node)
        if isinstance(found, Reason) or len(found) != len(typed_node.used):
            return None
        if not all(_is_static(facts) for facts, used in zip(found, typed_node.used, strict=True) if used):
            return None
        return tuple([self._the_one(facts) for facts in found])

    def _the_one(self, facts: Facts) -> Facts:
        """Return the shared object for equal facts, so that its id can be used as a key."""
        return self._one.setdefault(facts, facts)


class OnDemandScope:
    """A scope that infers facts only when a value is requested.

    For a main graph, it uses the facts that follow from declared types, until these are not enough; then it infers all.
    """

    def __init__(self, static: StaticFacts | None, whole: Callable[[], Scope]) -> None:
        """Store both sources; `whole` returns the full scope, and is called only if `static` is not enough."""
        self._static = static
        self._infer = whole
        self._whole: Scope | None = None
        self._noted: dict[str, Facts] = {}

    def __getitem__(self, name: str) -> Facts | None:
        """Return the known facts about a value."""
        if self._whole is None:
            if name in self._noted:
                return self._noted[name]
            if self._static and (facts := self._static.find(name)) is not None:
                return facts
        return self._all()[name]

    def alike(self, index: int) -> int | None:
        """Return a key that nodes equal for a planner share, see `StaticFacts.alike`."""
        return self._static.alike(index) if self._static and not self._noted else None

    def note(self, name: str, facts: Facts) -> None:
        """Record facts about a value."""
        self._noted[name] = facts
        if self._whole is not None:
            self._whole.note(name, facts)

    def enter(self, node: onnx.NodeProto, attribute: str) -> Scope:
        """Return the scope of a subgraph."""
        return self._all().enter(node, attribute)

    def _all(self) -> Scope:
        if self._whole is None:
            self._whole = self._infer()
            self._static = None
            for name, facts in self._noted.items():
                self._whole.note(name, facts)
        return self._whole


def _is_computed(facts: Facts | None) -> bool:
    """Return whether a value has no known elements."""
    return facts is not None and facts.value is None and not facts.unread


def _is_static(facts: Facts) -> bool:
    """Return whether type and rank are known, and each dimension is known or named."""
    if not facts.dtype or facts.shape is None or None in facts.shape:
        return False
    return len(facts.shape) != 1 or not isinstance(facts.shape[0], int) or facts.shape[0] <= LONGEST
