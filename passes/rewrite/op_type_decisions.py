"""Decide for all nodes of an operator at once, if the operator and the model's element types suffice.

This decides most nodes of a model without any facts about their values.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Set

import onnx
import onnx.defs
from onnx import TensorProto

from opshift.opsets.registry.equivalences import same_meaning
from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.inference_gaps import WIDENED
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Node, operator_for
from opshift.opsets.registry.schema import Schema, default_domain, schema_at
from opshift.opsets.registry.schema_only import has_body, schemas
from opshift.opsets.runtimes.kernels import loses, lost_types
from opshift.opsets.runtimes.target import Target
from opshift.passes.analysis.scopes import dtypes
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.traversal import GraphView, GraphWalk
from opshift.passes.rewrite.fragment import Failure, Input, Output
from opshift.passes.rewrite.lowering_search import Deriver

TYPES = 6
"""The maximum number of element types for which an operator is tried; a model with more is planned node by node."""


class OpTypeDecisions:
    """Decisions for all nodes of an operator of the default domain."""

    def __init__(self, plain: Deriver, strict: Deriver, types: Callable[[], Set[int] | None]) -> None:
        """Store two derivers of one target; `strict` prefers nodes that onnxruntime runs.

        `types` returns the result of `occurring_types`; it is called only if needed.
        """
        self._plain = plain
        self._strict = strict
        self._types = types
        self._still: dict[tuple[str, int], bool] = {}
        self._renewals: dict[tuple[str, int], Step | None] = {}

    def has(self, name: str) -> bool:
        """Return whether the target supports an operator, possibly with limits."""
        legality = self._plain.legality
        return name not in legality.decompose and (legality.target is None or legality.target.has(name))

    def loses(self, name: str, opset: int) -> bool:
        """Return whether onnxruntime runs an operator at the model's opset, but only its body at the target's."""
        return self._strict is not self._plain and loses(name, opset, self._plain.legality.opset)

    def loses_types(self, name: str, opset: int) -> bool:
        """Return whether onnxruntime's kernels support fewer of the model's types at the target's opset than before."""
        lost = self._strict is not self._plain and lost_types(name, opset, self._plain.legality.opset)
        if not lost:
            return False
        types = self._types()
        return types is None or any(f"tensor({type_name(one)})" in lost for one in types)

    def stays(self, name: str, opset: int) -> bool:
        """Return whether every node of an operator is legal: the version is the same, and the target has no limits."""
        key = name, opset
        if key not in self._still:
            target = self._plain.legality.opset
            before, after = schema_at("", name, opset), schema_at("", name, target)
            preferred = self._strict is not self._plain and opset != target and _has_lowerings(name)
            self._still[key] = (
                before is not None
                and after is not None
                and before.since_version == after.since_version
                and self._without_limits(name)
                and not (self._plain.optimize and traits(name).rivals)
                and not preferred
                and not self.loses(name, opset)
                and not self.loses_types(name, opset)
            )
        return self._still[key]

    def version_bump_step(self, name: str, opset: int) -> Step | None:
        """Return the version-bump step if the target's version accepts every such node unchanged; otherwise None."""
        key = name, opset
        if key not in self._renewals:
            before, after = schema_at("", name, opset), schema_at("", name, self._plain.legality.opset)
            self._renewals[key] = (
                Step(Action.VERSION_BUMP, "", name, before.since_version, f"opset {self._plain.legality.opset}")
                if before is not None
                and after is not None
                and before.since_version != after.since_version
                and self._without_limits(name)
                and not self.loses(name, opset)
                and not self.loses_types(name, opset)
                and _accepts_all(before, after)
                and (self._reviewed(before, after) if operator_for("", name) is None else self._native(before, after))
                else None
            )
        return self._renewals[key]

    def _without_limits(self, name: str) -> bool:
        """Return whether the target supports an operator without limits."""
        target = self._plain.legality.target
        if target and target.name == "onnxruntime" and has_body(name):
            return False  # the types decide whether the body has kernels
        if name in WIDENED and ((types := self._types()) is None or TensorProto.INT32 in types):
            return False  # the decision depends on the int32 constants
        return self.has(name) and (target is None or self._within_limits(name, target))

    def _within_limits(self, name: str, target: Target) -> bool:
        """Return whether all nodes of an operator fit the target's limits for all of the model's types.

        So values whose type onnx does not infer are accepted too.
        """
        if target.types and ((found := self._types()) is None or not found <= target.dtypes):
            return False
        opset = self._plain.legality.opset
        limits = target.limits_on(name, opset)
        schema = schema_at("", name, opset)
        if not limits or schema is None:
            return not limits
        if any(not limit.only_types for limit in limits):
            return False
        types = self._types()
        if types is None or len(types) > TYPES:
            return False
        node = Node("", name, schema.since_version, {}, (Facts(),) * len(schema.inputs), (True,))
        return not any(limit.why_not(node, schema, types) for limit in limits)

    def _reviewed(self, before: Schema, after: Schema) -> bool:
        """Return whether the reviewed table accepts every node."""
        row = same_meaning(before.name, before.since_version, after.since_version)
        old = self._plain.legality.opset < 13 and any("tensor(bfloat16)" in one.types for one in before.inputs)
        return row is not None and not row.new_attributes and not old

    def _native(self, before: Schema, after: Schema) -> bool:
        """Return whether nodes of all type combinations, without other facts, stay the same node on the target.

        Such a node stays legal with more facts, and is chosen: see `Deriver.derive`.
        """
        if before.attributes or after.attributes or traits(before.name).rivals:
            return False
        if any(parameter.optional or parameter.variadic for parameter in (*before.inputs, *before.outputs)):
            return False
        types = self._types()
        if types is None or len(types) > TYPES:
            return False
        variables = list(dict.fromkeys(parameter.type_variable for parameter in before.inputs))
        allowed = {parameter.type_variable: parameter.types for parameter in before.inputs}
        choices = [[one for one in sorted(types) if f"tensor({type_name(one)})" in allowed[name]] for name in variables]
        for chosen in itertools.product(*choices):
            bound = dict(zip(variables, chosen, strict=True))
            inputs = tuple(Facts(bound[parameter.type_variable]) for parameter in before.inputs)
            typed_node = Node("", before.name, before.since_version, {}, inputs, (True,) * len(before.outputs))
            if not self._is_native(typed_node):
                return False
        return True

    def _is_native(self, typed_node: Node) -> bool:
        if self._plain.legality.opset < 13 and any(
            one and one.dtype == TensorProto.BFLOAT16 for one in typed_node.inputs
        ):
            return False
        lifted = self._strict.lift(typed_node)
        if isinstance(lifted, Reason):
            return False
        found = self._strict.derive(lifted)
        if isinstance(found, Failure) or found.lowerings or len(found.nodes) != 1:
            return False
        (leaf,) = found.nodes
        straight = tuple(Input(index) for index in range(len(typed_node.inputs)))
        outputs = tuple(Output(0, index) for index in range(len(typed_node.used)))
        return (leaf.name, leaf.attributes, leaf.inputs, found.outputs) == (typed_node.name, {}, straight, outputs)


def occurring_types(model: onnx.ModelProto, walked: Iterable[GraphView | GraphWalk], opset: int) -> Set[int] | None:
    """Return the element types that values of a model can have; None if unknown.

    Types of values are declared, named by an attribute, or fixed by the operator.
    """
    if model.functions:
        return None  # their parameters may name types
    types: set[int] = set()
    for one in walked:
        types.update(one.dtypes)
        types.update(dtypes(one.graph))
        for domain, name, _ in one.by_op_key:
            made = None if default_domain(domain) else _made(name, opset)
            if made is None:
                return None
            types |= made
    return types - {TensorProto.UNDEFINED}


def named_types(walked: Iterable[GraphView | GraphWalk], opset: int) -> Set[int]:
    """Return the element types that a model declares, that attributes name, or that operators always return."""
    types: set[int] = set()
    for one in walked:
        types.update(one.dtypes, dtypes(one.graph))
        for domain, name, _ in one.by_op_key:
            types |= (not default_domain(domain) and _made(name, opset)) or frozenset()
    return types - {TensorProto.UNDEFINED}


@functools.cache
def _made(name: str, opset: int) -> frozenset[int] | None:
    """Return the output types that do not depend on an operator's inputs; None if unknown."""
    if (made := traits(name).makes_types) is not None:
        return frozenset(made)
    schema = schema_at("", name, opset)
    if schema is None:
        return None
    read = {parameter.type_variable for parameter in schema.inputs if not parameter.optional}
    types = [parameter.types for parameter in schema.outputs if parameter.type_variable not in read]
    if any(len(one) != 1 for one in types):
        return None
    names = {f"tensor({type_name(number)})": number for number in TensorProto.DataType.values()}
    found = [names.get(type_text) for one in types for type_text in one]
    return None if None in found else frozenset(number for number in found if number is not None)


@functools.cache
def holds_graphs(name: str) -> bool:
    """Return whether any version of a default-domain operator has subgraphs."""
    attribute_types = onnx.defs.OpSchema.AttrType
    return any(
        attribute.type in (attribute_types.GRAPH, attribute_types.GRAPHS)
        for schema in schemas(name)
        for attribute in schema.raw.attributes.values()
    )


def _accepts_all(before: Schema, after: Schema) -> bool:
    """Return whether a version accepts, with the same types, every node that another version accepts."""
    bound = {parameter.type_variable for parameter in after.inputs}
    pairs = [(before.input(index), after.input(index)) for index in range(max(len(before.inputs), len(after.inputs)))]
    return (
        after.raw.min_input <= before.raw.min_input
        and before.raw.max_input <= after.raw.max_input
        and before.raw.max_output <= after.raw.max_output
        and before.attributes.keys() <= after.attributes.keys()
        and all(parameter.type_variable in bound for parameter in after.outputs)
        and all(old is None or (new is not None and old.types <= new.types) for old, new in pairs)
    )


def _has_lowerings(name: str) -> bool:
    operator = operator_for("", name)
    return operator is not None and operator.has_lowerings
