"""Plan model-local functions: generically if no facts are needed, otherwise once for each kind of call."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry.facts import Facts, freeze, type_name, type_of_facts
from opshift.opsets.registry.operator import Outputs
from opshift.opsets.registry.schema import attribute_value, default_domain
from opshift.passes.analysis.inference import make_attribute
from opshift.passes.analysis.lazy_inference import OnDemandScope
from opshift.passes.analysis.scopes import Scope, Values, default_opset, describe
from opshift.passes.base.plan import Code
from opshift.passes.graph.traversal import graphs, named_subgraphs, nodes_by_op_key, subgraphs
from opshift.passes.rewrite.edits import CallFunction, Change, FunctionKey, FunctionPlan, GraphPlan, Replace
from opshift.passes.rewrite.fragment import Input
from opshift.passes.rewrite.ledger import Ledger
from opshift.passes.rewrite.node_context import NodeContext
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions
from opshift.passes.rewrite.unknown_types import UnknownTypes

PlanGraph = Callable[[onnx.FunctionProto, str, int, Values, Mapping[str, Any] | None], GraphPlan]
"""Plans a function's nodes: the function, its path, opset and scope, and the bound parameters, if any."""

COPIES = 64
"""The maximum number of copies of one function for different kinds of calls; a model with more is refused."""


class Functions:
    """The functions of one model, planned for one target; `known` holds them by key."""

    def __init__(
        self,
        model: onnx.ModelProto,
        ledger: Ledger,
        decisions: OpTypeDecisions,
        unknown: UnknownTypes,
        plan_graph: PlanGraph,
        alike: Functions | None,
    ) -> None:
        """Store the model and its planners; `alike` provides the inferred facts of the same functions."""
        self._model = model
        self._source = default_opset(model.opset_import) or 1
        self._ledger = ledger
        self._decisions = decisions
        self._unknown = unknown
        self._plan_graph = plan_graph
        self.known = {(item.domain, item.name, item.overload): item for item in model.functions}
        self.copies: dict[FunctionKey, list[tuple[Any, FunctionPlan]]] = {}
        self._generic: dict[FunctionKey, FunctionPlan | None] = {}
        self._calls: dict[FunctionKey, Sequence[FunctionKey]] = {}
        self._scopes: dict[Hashable, Values] = alike._scopes if alike else {}

    def plan_the_rest(self) -> None:
        """Plan the uncalled functions."""
        for key in self.known:
            if self.as_it_is(key) is None and key not in self.copies:
                # Its element types are unknown; it stays valid for the types that the target accepts.
                self._unknown.ignored = True
                self.planned(key, (), {}, called=False)
                self._unknown.ignored = False

    def result(self) -> tuple[FunctionPlan, ...]:
        """Return the functions of the result."""
        copies = [plan for made in self.copies.values() for _, plan in made]
        as_they_are = [plan for plan in self._generic.values() if plan is not None]
        return tuple({(made.key, made.name): made for made in (*as_they_are, *copies)}.values())

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield the functions whose opset differs from the model's, with that opset."""
        for function in self._model.functions:
            version = default_opset(function.opset_import)
            if version not in (None, self._source):
                yield function.name, version or 0

    def _scope_of(
        self, key: FunctionKey, inputs: Sequence[Facts | None], bound: Mapping[str, Any], *, known: bool
    ) -> Values:
        """Return the facts about the values in a function for a kind of call; inferred once for all targets."""
        call = key, tuple(inputs), _hashable(bound), known
        if call not in self._scopes:
            called = [self.known[one] for one in self._called(key)]
            function = self.known[key]
            described = functools.partial(describe_function, self._model, function, called, inputs, bound, known=known)
            self._scopes[call] = OnDemandScope(None, described)
        return self._scopes[call]

    def _called(self, key: FunctionKey) -> Sequence[FunctionKey]:
        """Return the functions that a function calls, directly or indirectly."""
        found: dict[FunctionKey, None] = {}
        waiting = [key]
        while waiting:
            one = waiting.pop()
            if one not in self._calls:
                inside = (op_key for graph in graphs(self.known[one]) for op_key in nodes_by_op_key(graph))
                self._calls[one] = [op_key for op_key in inside if op_key in self.known]
            waiting += [called for called in self._calls[one] if called not in found and called != key]
            found.update(dict.fromkeys(self._calls[one]))
        return list(found)

    def call(self, key: FunctionKey, context: NodeContext) -> CallFunction | None:
        """Plan a call; return None if the function keeps its name and one body for all calls."""
        function = self.known[key]
        if context.bound is None:
            if self.as_it_is(key) is None:
                self._ledger.refuse(Code.FUNCTION, function.name, "", "it cannot be planned without facts.", "")
            return None
        defaults = {item.name: freeze(attribute_value(item)) for item in function.attribute_proto}
        typed_node = context.typed_node
        wanted = [*function.attribute, *defaults]
        attributes = {name: typed_node.attributes.get(name, defaults.get(name)) for name in wanted}
        return self.planned(key, typed_node.inputs, attributes, called=True)

    def planned(
        self, key: FunctionKey, inputs: Sequence[Facts | None], attributes: Mapping[str, Any], *, called: bool
    ) -> CallFunction | None:
        """Plan a function for one kind of call: generically if no facts are needed, otherwise a copy."""
        function = self.known[key]
        if self.as_it_is(key) is not None:
            return None
        made = self.copies.setdefault(key, [])
        call = tuple(inputs), _hashable(attributes)
        for known, plan in made:
            if known == call:
                return None if plan.name == function.name else CallFunction(plan.name)
        # The first copy keeps the name, so that a function with one kind of call keeps it too.
        name = function.name if not made else self._free_name(function)
        bound = {name: value for name, value in attributes.items() if value is not None}
        if not called:
            bound = {item.name: freeze(attribute_value(item)) for item in function.attribute_proto}
        place = len(made)
        plan = FunctionPlan(key, name, bound, GraphPlan(f"function {function.name}"))
        made.append((call, plan))
        if place >= COPIES:
            self._ledger.refuse(
                Code.FUNCTION,
                f"function {function.name}",
                "",
                f"it is called in more than {COPIES} different ways.",
                "Inline it.",
            )
            return None
        scope = self._scope_of(key, inputs, bound, known=called)
        opset = default_opset(function.opset_import) or self._source
        graph = self._plan_graph(function, f"function {name}", opset, scope, bound)
        if called:
            self._refuse_unread(function, inputs, graph)
        done = dataclasses.replace(plan, graph=graph)
        if not any(part.changes or part.notes for part in graph.all()):
            done = FunctionPlan(key, function.name, {}, graph)
        # Calls of two kinds often lead to the same function.
        alike = next((one for _, one in made[:place] if one.bound == done.bound and same_work(one.graph, graph)), None)
        if alike is None and done.name != name and any(one.name == done.name for _, one in made[:place]):
            done = dataclasses.replace(plan, graph=graph)
        made[place] = (call, alike or done)
        return None if made[place][1].name == function.name else CallFunction(made[place][1].name)

    def _refuse_unread(self, function: onnx.FunctionProto, inputs: Sequence[Facts | None], graph: GraphPlan) -> None:
        """Refuse an input that becomes unused, if onnxruntime does not accept its type then.

        An unused input must have a type that onnx 1.10 had: onnxruntime 1.32.0, "Type 'tensor(float8e5m2)' of input
        parameter (x) of operator (F) in node () is invalid".
        """
        unread = read_names(function, GraphPlan("")) - read_names(function, graph)
        for name, facts in zip(function.input, inputs, strict=False):
            dtype = facts.dtype if facts else None
            if name in unread and dtype is not None and dtype > TensorProto.BFLOAT16:
                reason = f"no node reads its input {name} any more, and onnxruntime then takes no {type_name(dtype)}."
                self._ledger.refuse(Code.TYPE, f"function {function.name}", "", reason, "Inline it.")

    def _free_name(self, function: onnx.FunctionProto) -> str:
        taken = {key[1] for key in self.known} | {plan.name for made in self.copies.values() for _, plan in made}
        return next(name for number in itertools.count(1) if (name := f"{function.name}__{number}") not in taken)

    def as_it_is(self, key: FunctionKey) -> FunctionPlan | None:
        """Plan a function once without facts; return None, without recording anything, if a node is refused.

        Return None, too, if a node of unknown type is lowered, because the lowering may support fewer types, or if the
        existence of an onnxruntime kernel depends on the type.
        """
        if key not in self._generic:
            self._generic[key] = None  # a recursive function cannot be planned
            function = self.known[key]
            mark = self._ledger.mark()
            scope = self._scope_of(key, (), {}, known=False)
            opset = default_opset(function.opset_import) or self._source
            plan = self._plan_graph(function, f"function {function.name}", opset, scope, None)
            changes = (change for part in plan.all() for change in part.changes.values())
            typed = any(map(_lowers_untyped, changes)) or self._depends_on_kernels(function, opset)
            if not self._ledger.refused_since(mark) and not typed:
                self._generic[key] = FunctionPlan(key, function.name, {}, plan)
            else:
                self._ledger.undo(mark)
        return self._generic[key]

    def _depends_on_kernels(self, function: onnx.FunctionProto, opset: int) -> bool:
        """Return whether onnxruntime may have no kernel on the target for a node whose type only a call determines."""
        names = {node.op_type for graph in graphs(function) for node in graph.node if not default_domain(node.domain)}
        return any(self._decisions.loses_types(name, opset) for name in names)


def _lowers_untyped(change: Change) -> bool:
    """Return whether a node is lowered although the types of its inputs are unknown."""
    if not isinstance(change, Replace) or not change.fragment.lowerings:
        return False
    return any(facts is not None and facts.dtype is None for facts in change.lifted.operands)


def _hashable(attributes: Mapping[str, Any]) -> Hashable:
    """Return the attributes with a value as a key; types, graphs and sparse tensors are replaced by their bytes."""

    def frozen(value: Any) -> Hashable:
        if isinstance(value, tuple):
            return tuple(map(frozen, value))
        if isinstance(value, Message):
            return type(value).__name__, value.SerializeToString(deterministic=True)
        return value  # type: ignore[no-any-return]

    return tuple((name, frozen(value)) for name, value in sorted(attributes.items()) if value is not None)


def same_work(one: GraphPlan, other: GraphPlan) -> bool:
    """Return whether two plans have the same effect on the same graph."""

    def work(change: Change) -> object:
        return (change.fragment, change.sources) if isinstance(change, Replace) else change

    return (
        {index: work(change) for index, change in one.changes.items()}
        == {index: work(change) for index, change in other.changes.items()}
        and one.notes == other.notes
        and one.inner.keys() == other.inner.keys()
        and all(same_work(one.inner[key], other.inner[key]) for key in one.inner)
    )


def read_names(graph: onnx.GraphProto | onnx.FunctionProto, plan: GraphPlan) -> set[str]:
    """Return the names of the values that a graph and its subgraphs read after a plan is applied."""
    names = {value.name for value in graph.output} if isinstance(graph, onnx.GraphProto) else set(graph.output)
    for index, node in enumerate(graph.node):
        change = plan.changes.get(index)
        if not isinstance(change, Replace):
            names.update(node.input)
        else:
            refs = [*change.fragment.outputs, *(ref for leaf in change.fragment.nodes for ref in leaf.inputs)]
            sources = [change.sources[ref.operand] for ref in refs if isinstance(ref, Input)]
            inputs = change.inputs or node.input
            names.update(inputs[index] for index in sources if isinstance(index, int))
        for attribute, inner in named_subgraphs(node):
            names |= read_names(inner, plan.inner.get((index, attribute), GraphPlan("")))
    return names


def describe_function(
    model: onnx.ModelProto,
    function: onnx.FunctionProto,
    called: Sequence[onnx.FunctionProto],
    inputs: Sequence[Facts | None],
    bound: Mapping[str, Any],
    *,
    known: bool,
) -> Scope:
    """Describe a function as a graph with these inputs and parameters; `known`: omitted ones have no value."""
    as_model = onnx.ModelProto(ir_version=max(model.ir_version, 8))
    as_model.opset_import.extend(function.opset_import or model.opset_import)
    as_model.functions.extend(one for one in called if one is not function)
    graph = as_model.graph
    graph.name = function.name
    graph.value_info.extend(function.value_info)
    for index, name in enumerate(function.input):
        facts = inputs[index] if index < len(inputs) else None
        value = graph.input.add(name=name)
        if facts is not None and facts.type:
            value.type.CopyFrom(type_of_facts(facts))
    graph.node.extend(function.node)
    for name in function.output:
        graph.output.add(name=name)
    bind_attributes(graph, bound, known=known)
    count = len(inputs)
    absent = [name for index, name in enumerate(function.input) if known and (index >= count or inputs[index] is None)]
    return describe(as_model, absent)


def bind_attributes(
    graph: onnx.GraphProto | onnx.FunctionProto, bound: Mapping[str, Any], *, known: bool = True
) -> None:
    """Replace, in place, attributes that refer to parameters by their values.

    References without a value are removed; unless the call is `known`, they stay.
    """
    for node in graph.node:
        kept: list[AttributeProto] = []
        for attribute in node.attribute:
            if not attribute.ref_attr_name or (not known and attribute.ref_attr_name not in bound):
                kept.append(attribute)
            elif isinstance(bound.get(attribute.ref_attr_name), Outputs):
                kept.append(attribute)  # only the outputs of a graph are known
            elif attribute.ref_attr_name in bound:
                kept.append(make_attribute(attribute.name, bound[attribute.ref_attr_name], attribute.type))
        if len(kept) != len(node.attribute) or any(item.ref_attr_name for item in node.attribute):
            copies = [AttributeProto.FromString(item.SerializeToString()) for item in kept]
            del node.attribute[:]
            node.attribute.extend(copies)
        for inner in subgraphs(node):
            bind_attributes(inner, bound, known=known)
