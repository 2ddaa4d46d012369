"""Define `Target`, a runtime's capabilities, and `Legality`, the predicate for nodes of the result."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.inference_gaps import int32_read_as_int64
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import SPELLING, Node, Outputs, lift, operator_for
from opshift.opsets.registry.schema import NEWEST, OLDEST, Schema, schema_at
from opshift.opsets.registry.structural import CAST, CONSTANT
from opshift.opsets.runtimes.kernels import has_kernel
from opshift.opsets.runtimes.limits import Limit, types_of
from opshift.opsets.runtimes.releases import Release, first_that_runs, release_of, why_foreign


@dataclass(frozen=True)
class Target:
    """A runtime's profile: the opsets and ir_versions that it loads, and its operators with their limits."""

    name: str
    opset: tuple[int, int] = (OLDEST, NEWEST)
    ir_version: tuple[int, int] | None = None
    operators: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    source: str = ""
    """The original TOML text."""
    version: str = ""
    """The version of the measured runtime, or of the vendor's list."""
    functions: bool = True
    """Whether it loads all models with functions."""
    static: bool = False
    """Whether it requires static shapes of all values."""

    types: tuple[str, ...] = ()
    """The element types that it supports; empty: all, within the limits."""
    input_types: tuple[str, ...] = ()
    """The element types that inputs of a model may have; empty: all that it has."""
    output_types: tuple[str, ...] = ()
    """The element types that outputs of a model may have; empty: all that it has."""
    constant_types: tuple[str, ...] = ()
    """The element types that it reads constants in; empty: all."""
    narrows: Mapping[str, str] = field(default_factory=dict)
    """The element types that it loads, and computes in narrower ones, which lose digits."""
    constant_outputs: bool = True
    """Whether it supports constant outputs."""
    unused_inputs: bool = True
    """Whether it runs models with unused inputs."""
    declared_shapes: bool = False
    """Whether it requires a declared rank of each model input and output."""
    domains: Mapping[str, int | frozenset[str]] = field(default_factory=dict)
    """The other supported domains, such as ai.onnx.ml: all operators up to an opset, or the listed ones."""
    measured: bool = False
    """Whether models were run in the runtime to make the profile, not only a list read."""
    base: str = ""
    """The built-in profile that this one starts from."""

    @functools.cached_property
    def _limits_on(self) -> dict[tuple[str, int], Sequence[Limit]]:
        return {}

    def limits_on(self, operator: str, opset: int) -> Sequence[Limit]:
        """Return the limits on an operator that apply at an opset, in order."""
        found = self._limits_on.get((operator, opset))
        if found is None:
            found = tuple(limit for limit in self.limits if limit.operator == operator and limit.holds(opset))
            self._limits_on[operator, opset] = found
        return found

    @functools.cached_property
    def release(self) -> Release | None:
        """The release of onnxruntime that this is, or whose kernels it has, if any."""
        return release_of(self.base or self.name)

    @functools.cached_property
    def dtypes(self) -> frozenset[int]:
        """The supported element types, as TensorProto.DataType; empty: all."""
        return frozenset(TensorProto.DataType.Value(name.upper()) for name in self.types)

    @functools.cached_property
    def type_texts(self) -> frozenset[str]:
        """The supported element types, in the spelling of schemas; empty: all."""
        return frozenset(f"tensor({name})" for name in self.types)

    @functools.cached_property
    def constant_dtypes(self) -> frozenset[int]:
        """The element types in which it reads constants, as TensorProto.DataType; empty: all."""
        return frozenset(TensorProto.DataType.Value(name.upper()) for name in self.constant_types)

    def reads(self, facts: Facts | None) -> bool:
        """Return whether it reads a value as a constant, if it is one: others become Casts of constants."""
        return facts is None or not self.constant_types or type_name(facts.dtype or 0) in self.constant_types

    @property
    def keeps_functions(self) -> bool:
        """Whether it loads functions, and has Constant, by which alone a function holds constants."""
        return self.functions and self.has("Constant")

    def has(self, operator: str) -> bool:
        """Return whether it supports a default-domain operator, possibly with limits."""
        return operator not in self.without and (self.operators is None or operator in self.operators)

    def has_computed(self, operator: str) -> bool:
        """Return whether it supports an operator whose inputs are computed at run time."""
        fixed = (limit.constant_inputs for limit in self.limits if limit.operator == operator)
        return self.has(operator) and not any(fixed)

    @functools.cached_property
    def needs_constants(self) -> bool:
        """Whether it accepts a model, or more of its nodes, only after constant folding."""
        by_shapes = any(one.static or one.same_ranks or one.same_shapes for one in self.limits)
        limited = by_shapes or any(limit.constant_inputs or limit.max_rank for limit in self.limits)
        return self.static or limited or not self.has("Shape")

    def max_ranks(self, opset: int) -> Mapping[str, int]:
        """Return the maximum input ranks of operators at an opset, for those with a limit."""
        found: dict[str, int] = {}
        for limit in self.limits:
            if limit.max_rank is not None and limit.holds(opset) and not limit.is_conditional:
                found[limit.operator] = min(limit.max_rank, found.get(limit.operator, limit.max_rank))
        return found

    @property
    def newest_opsets(self) -> Mapping[str, int]:
        """The newest opsets of other domains of which it supports all operators."""
        return {domain: newest for domain, newest in self.domains.items() if isinstance(newest, int)}

    def why_not_foreign(self, domain: str, name: str, version: int) -> Reason | None:
        """Return the reason why it does not support an operator of another domain at the imported version."""
        supported = self.domains.get(domain)
        if supported is None:
            return Reason(f"{self.name} does not support the domain {domain}")
        if not isinstance(supported, int):
            if name in supported:
                return None
            since = why_foreign(domain, name, self.release) if self.release else None
            return Reason(f"{self.name} does not support {domain}::{name}" + (f"; {since}" if since else ""))
        before, after = schema_at(domain, name, version), schema_at(domain, name, min(version, supported))
        if before == after or (before and after and before.since_version == after.since_version):
            return None
        return Reason(f"{self.name} has {domain} up to opset {supported}, which has another {name}")

    def to_toml(self) -> str:
        """Return the original text of the profile."""
        return self.source


def _is_older(node: Node, opset: int) -> bool:
    """Return whether an older version accepts a node of another domain unchanged, with the same meaning."""
    operator, older = operator_for(node.domain, node.name), schema_at(node.domain, node.name, opset)
    if operator is None or older is None or not node.attributes.keys() <= older.attributes.keys():
        return False
    fits = all(
        facts is None or facts.type in parameter.types
        for facts, parameter in zip(node.inputs, older.inputs, strict=False)
    )
    versions = (node, dataclasses.replace(node, since_version=older.since_version))
    now, before = (lift(operator, one, "runtime") for one in versions)
    return fits and not isinstance(now, Reason) and not isinstance(before, Reason) and now.key == before.key


_UNCOMMON = frozenset(
    {TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
)


@dataclass(frozen=True)
class Legality:
    """The legal nodes of the result: those of one opset, without some operators, as a runtime supports them.

    `decompose` are the operators to decompose: `Hardmax`, `com.microsoft::Gelu`, or `com.microsoft` for all of that
    domain. With `runnable`, a node must also have a kernel in the installed onnxruntime. With `dequantized`, decomposed
    operators on quantized values become float operators between DequantizeLinear and QuantizeLinear.
    """

    opset: int
    decompose: frozenset[str] = frozenset()
    target: Target | None = None
    runnable: bool = False
    dequantized: bool = False
    types: Set[int] | None = None
    """The element types that values of the model can have; None if unknown."""

    def has(self, domain: str, name: str) -> bool:
        """Return whether the target has an operator of ONNX, in whatever form."""
        absent = self.decomposes(domain, name) or (self.target is not None and not self.target.has(name))
        return not domain and not absent and schema_at("", name, self.opset) is not None

    def decomposes(self, domain: str, name: str) -> bool:
        """Return whether `decompose` names an operator, or its domain if that is not the default one."""
        return not self.decompose.isdisjoint((domain, f"{domain}::{name}") if domain else (name,))

    def why_not_foreign(self, domain: str, name: str, version: int = 1) -> Reason | None:
        """Return the reason why the target does not support an operator of another domain at the imported version."""
        if self.decomposes(domain, name):
            return Reason(f"{domain}::{name} is to be decomposed")
        return self.target.why_not_foreign(domain, name, version) if self.target else None

    def drops(self, domain: str) -> bool:
        """Return whether to remove the import of another domain when no node uses it."""
        named = any(one == domain or one.startswith(f"{domain}::") for one in self.decompose)
        return named or (self.target is not None and domain not in self.target.domains)

    def unwritten(self, name: str, attributes: Mapping[str, Any]) -> frozenset[str]:
        """Return the attributes that the target requires and a node omits, because they have default values."""
        limits = () if self.target is None else self.target.limits_on(name, self.opset)
        needed = [limit.explicit for limit in limits if limit.explicit]
        if not needed:
            return frozenset()
        schema = schema_at("", name, self.opset)
        known = schema.attributes if schema else {}
        return frozenset(one for names in needed for one in names if one not in attributes and one in known)

    def spelled_out(self, name: str, attributes: Mapping[str, Any], meaning: object) -> Mapping[str, Any]:
        """Return the attributes of a node of this meaning, including those that the target requires."""
        found = {one: getattr(meaning, one, None) for one in sorted(self.unwritten(name, attributes))}
        return {**attributes, **{one: value for one, value in found.items() if value is not None}}

    def doubtful(self, node: Node) -> bool:
        """Return whether a runtime probably does not support a node despite its profile, because of rare element types.

        OpenCV 4.14 and MNN 3.6.1 load Equal of uint8, and compute it incorrectly. onnxruntime's profile lists its
        kernels.
        """
        elsewhere = self.target is not None and self.target.name != "onnxruntime" and self.target.release is None
        return elsewhere and any(facts is not None and facts.dtype in _UNCOMMON for facts in node.inputs)

    def computed(self, node: Node) -> tuple[int, ...]:
        """Return the inputs that must be constant on the target, and that the model computes although they are known.

        The node is legal once constants replace these inputs.
        """
        schema = schema_at("", node.name, self.opset)
        if schema is None or node.domain or self.target is None:
            return ()
        needed = {name for limit in self.target.limits_on(node.name, self.opset) for name in limit.constant_inputs}
        return tuple(
            index
            for index, facts in enumerate(node.inputs)
            if facts is not None
            and facts.computed
            and self.target.reads(facts)
            and (parameter := schema.input(index)) is not None
            and parameter.name in needed
        )

    def absent_type(self, node: Node) -> Reason | None:
        """Return a node's element type that no operator of the target supports, if the schema permits others."""
        schema = schema_at("", node.name, self.opset)
        return None if self.target is None or node.domain or schema is None else _absent_type(self.target, node, schema)

    def type_fault(self, node: Node) -> Reason | None:
        """Return the reason why the target does not accept the element types of a node, whatever its other facts."""
        schema = schema_at("", node.name, self.opset)
        if self.target is None or node.domain or schema is None or not self.target.has(node.name):
            return None
        if reason := _absent_type(self.target, node, schema):
            return reason
        for limit in self.target.limits_on(node.name, self.opset):
            if reason := limit.why_not_types(node, schema):
                return Reason(f"{self.target.name} has {node.name}, but {reason}", reason.missing)
        return None

    def why_not(self, node: Node) -> Reason | None:
        """Return the reason why this node is not legal, with `missing` if a fact is missing; None: legal."""
        if node.domain == SPELLING:
            return Reason("no runtime has the domain opshift")
        if node.domain:
            why = self.why_not_foreign(node.domain, node.name, node.since_version)
            newest = self.target.newest_opsets.get(node.domain) if self.target else None
            alike = newest is not None and not self.decomposes(node.domain, node.name) and _is_older(node, newest)
            return None if alike else why
        schema = schema_at("", node.name, self.opset)
        if schema is None:
            return Reason(f"opset {self.opset} has no {node.name}")
        if schema.since_version != node.since_version:
            return Reason(f"opset {self.opset} has {node.name}-{schema.since_version}")
        if node.name in self.decompose:
            return Reason(f"{node.name} is to be decomposed")
        for index, facts in enumerate(node.inputs):
            parameter = schema.input(index)
            if facts is None or not facts.type:
                continue
            if parameter is None:
                return Reason(f"{node.name}-{schema.since_version} has no input {index}")
            if facts.type not in parameter.types:
                return Reason(f"{node.name}-{schema.since_version} takes no {_written(facts)} as {parameter.name}")
        if reason := _returned(node, schema):
            return reason
        if (place := int32_read_as_int64(node.name, node.inputs)) is not None:
            name = parameter.name if (parameter := schema.input(place)) else ""
            return Reason(f"onnx reads constant {name} as int64 alone")
        if not schema.raw.min_input <= len(node.inputs) <= schema.raw.max_input:
            return Reason(f"{node.name}-{schema.since_version} takes no {len(node.inputs)} inputs")
        if any(node.used[schema.raw.max_output :]):
            return Reason(f"{node.name}-{schema.since_version} has no output {schema.raw.max_output}")
        unknown = next((name for name in node.attributes if name not in schema.attributes), None)
        if unknown:
            return Reason(f"{node.name}-{schema.since_version} has no attribute {unknown}")
        if self.target and (reason := _outside(self.target, node, schema, self.opset, self.types)):
            return reason
        # onnxruntime's profile does not list the types with kernels for all nodes of a function body.
        asked = self.runnable or (self.target is not None and self.target.name == "onnxruntime")
        if asked and not has_kernel(node, schema, self.opset):
            types = [type_name(facts.dtype) for facts in node.inputs if facts is not None and facts.dtype]
            return Reason(f"onnxruntime has no kernel for {node.name}-{schema.since_version} of {', '.join(types)}")
        return None


def _written(facts: Facts) -> str:
    return type_name(facts.dtype) if facts.dtype else facts.container


def _returned(node: Node, schema: Schema) -> Reason | None:
    """Return a type of a node's subgraph outputs that its outputs cannot have: bfloat16 below If-16, for example.

    The outputs of If, Loop and Scan are one variadic parameter, as are the outputs of a Loop's body after its
    condition.
    """
    if not schema.outputs:
        return None
    allowed = schema.outputs[-1].types
    for returned in node.attributes.values():
        for facts in returned if isinstance(returned, Outputs) else ():
            if facts.type and facts.type not in allowed:
                return Reason(f"{node.name}-{schema.since_version} returns no {_written(facts)}")
    return None


def _outside(target: Target, node: Node, schema: Schema, opset: int, possible: Set[int] | None) -> Reason | None:
    if not target.has(node.name):
        return Reason(f"{target.name} does not support {node.name}{_since(target, node, schema, opset)}")
    if reason := _absent_type(target, node, schema):
        return reason
    for limit in target.limits_on(node.name, opset):
        if reason := limit.why_not(node, schema, possible):
            what = f"{target.name} has {node.name}, but {reason}{_since(target, node, schema, opset)}"
            return Reason(what, reason.missing)
    return None


def _absent_type(target: Target, node: Node, schema: Schema) -> Reason | None:
    """Return a node's element type that the target does not support, if the schema permits others.

    A Cast may have any type: without it, no value with a fixed type could be used. So may a Constant, which equals an
    initializer: its consumers must have its type.
    """
    if not target.types or node.name in (CAST, CONSTANT):
        return None
    allowed = target.type_texts
    for index, facts in enumerate(node.inputs):
        parameter = schema.input(index)
        if facts is None or parameter is None or not facts.dtype or type_name(facts.dtype) in target.types:
            continue
        if not allowed.isdisjoint(parameter.types):
            return Reason(f"{target.name} has no {type_name(facts.dtype)}, which {parameter.name} of {node.name} is")
    types = types_of(node, schema)
    named = types.get("@dtype") or types.get("@value")
    if named and named not in target.types and not allowed.isdisjoint(schema.outputs[0].types):
        return Reason(f"{target.name} has no {named}, which {node.name} returns")
    return None


def _since(target: Target, node: Node, schema: Schema, opset: int) -> str:
    """Return the first newer release of onnxruntime that accepts a node, in words; or ""."""
    release, types = target.release, types_of(node, schema)
    if release is None or None in types.values():
        return ""
    newer = first_that_runs(node.name, types, node.attributes, opset, release)
    return f"; {newer.name} is the first that supports it" if newer else ""
