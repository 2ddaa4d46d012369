"""`Target`: what a runtime takes; `Legality`: whether one node may stand in the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from onnx import TensorProto, helper

from opshift.opsets.registry.facts import Facts, Tensor, type_name
from opshift.opsets.registry.inference_gaps import misread
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import SPELLING, Node, Outputs
from opshift.opsets.registry.schema import NEWEST, OLDEST, Schema, schema_at
from opshift.opsets.runtimes.kernels import has_kernel
from opshift.opsets.runtimes.releases import Release, first_that_runs, release_of, why_foreign


@dataclass(frozen=True)
class Limit:
    """A runtime has the operator, but only so. `dtypes` is by the schema's input names, as are `constant_inputs`.
    An attribute with no values at all must be left out. `@to` in `dtypes` or `combinations` is the element type that
    the attribute `to` names.

    With `never` it is as if the runtime did not have it: it loads the operator and computes it wrongly, say. `opset`
    says at which opsets the limit holds.
    """

    operator: str
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    combinations: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    attributes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    constant_inputs: tuple[str, ...] = ()
    static: bool = False
    max_rank: int | None = None
    never: bool = False
    opset: tuple[int, int] | None = None
    reason: str = ""

    @property
    def only_types(self) -> bool:
        """Whether it depends on the element types of the inputs alone whether a node is within it."""
        named = any(name.startswith("@") for one in (self.dtypes, *self.combinations) for name in one)
        others = self.attributes or self.constant_inputs or self.static or self.max_rank is not None or self.never
        return not named and not others

    def holds(self, opset: int) -> bool:
        """Whether the limit is one at this opset."""
        return self.opset is None or self.opset[0] <= opset <= self.opset[1]

    def why_not(self, node: Node, schema: Schema, possible: Set[int] | None = None) -> Reason | None:
        """Say why the runtime does not take this node, or that a fact is missing to tell.

        `possible` are the element types that a value of unknown type can have.
        """
        if self.never:
            return Reason(self.reason or "not in a usable way")
        inputs = [
            (parameter.name, facts)
            for index, facts in enumerate(node.inputs)
            if (parameter := schema.input(index)) is not None and facts is not None
        ]
        note = f" ({self.reason})" if self.reason else ""
        if (types := types_of(node, schema)) and (reason := self._of_types(types, schema, possible)):
            return Reason(f"{reason}{note}", reason.missing)
        for name, values in self.attributes.items():
            if not values and name not in node.attributes:
                continue
            if not values:
                return Reason(f"it takes no {name}{note}")
            value = node.attributes.get(name, schema.attributes.get(name, (False, None))[1])
            if value not in values:
                return Reason(f"it takes {name} {', '.join(map(str, values))}, not {value}{note}")
        for name, facts in inputs:
            if name in self.constant_inputs and not facts.is_constant:
                return Reason(f"it needs a constant {name}, which is fed or computed at run time{note}", missing=True)
            if self.static and (facts.shape is None or not all(isinstance(dim, int) for dim in facts.shape)):
                return Reason(f"it needs static shapes, and that of {name} is not{note}", missing=True)
            if self.max_rank is not None and (facts.rank is None or facts.rank > self.max_rank):
                return Reason(f"it takes rank {self.max_rank} at most{note}", facts.rank is None)
        return None

    def _of_types(self, types: Mapping[str, str | None], schema: Schema, possible: Set[int] | None) -> Reason | None:
        """Say why the runtime does not take the element types of a node."""
        if None in types.values() and possible is not None:
            every = (self._of_types(one, schema, None) for one in _bound(types, schema, possible))
            refused = next((reason for reason in every if reason is not None), None)
            return None if refused is None else Reason(refused, missing=True)
        for name, allowed in self.dtypes.items():
            if name in types and types[name] not in allowed:
                what = f"it takes {name} as {', '.join(allowed)}, not {types[name] or 'unknown'}"
                return Reason(what, types[name] is None)
        if self.combinations and not any(_fits(types, one) for one in self.combinations):
            given = ", ".join(f"{name} as {dtype or 'unknown'}" for name, dtype in types.items())
            return Reason(f"it does not take {given}", None in types.values())
        return None


def _bound(types: Mapping[str, str | None], schema: Schema, possible: Set[int]) -> Iterator[dict[str, str | None]]:
    """Yield the element types of a node with each that is possible in the place of those that are unknown."""
    allowed = {parameter.name: parameter.types for parameter in schema.inputs}
    names = [name for name, dtype in types.items() if dtype is None]
    known = [type_name(dtype) for dtype in sorted(possible)]
    choices = [[dtype for dtype in known if f"tensor({dtype})" in allowed.get(name, ())] for name in names]
    for chosen in itertools.product(*choices):
        yield {**types, **dict(zip(names, chosen, strict=True))}


def _fits(types: Mapping[str, str | None], combination: Mapping[str, str | tuple[str, ...]]) -> bool:
    """Whether a node has the element types of a combination, as far as it has these inputs."""
    return all(
        name not in types or types[name] in ((wanted,) if isinstance(wanted, str) else wanted)
        for name, wanted in combination.items()
    )


def types_of(node: Node, schema: Schema) -> dict[str, str | None]:
    """Return the element types of a node by the names of its inputs, None where they are unknown.

    By `@to` it has the one that the attribute `to` names, where the node has an attribute that names one.
    """
    inputs = [
        (parameter, facts.dtype)
        for index, facts in enumerate(node.inputs)
        if (parameter := schema.input(index)) is not None and facts is not None
    ]
    bound = {parameter.type_variable: dtype for parameter, dtype in inputs if dtype and parameter.homogeneous}
    found: dict[str, str | None] = {}
    for parameter, own in inputs:
        dtype = own or bound.get(parameter.type_variable)
        if found.get(parameter.name) is None:
            found[parameter.name] = type_name(dtype) if dtype else None
    for name in NAMING & schema.attributes.keys():
        value = node.attributes.get(name, schema.attributes[name][1])
        if isinstance(value, Tensor):
            value = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        if type(value) is int and value:
            found[f"@{name}"] = type_name(value)
    return found


NAMING = frozenset({"dtype", "output_datatype", "output_dtype", "stash_type", "to", "value"})
"""Attributes that name the element type of an output, or of what the operator computes in."""


@dataclass(frozen=True)
class Target:
    """A runtime's profile: opsets and ir_versions that it loads, operators that it has, limits on them."""

    name: str
    opset: tuple[int, int] = (OLDEST, NEWEST)
    ir_version: tuple[int, int] | None = None
    operators: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    source: str = ""
    """The TOML text that it was read from."""
    version: str = ""
    """The version of the runtime that was measured, or of the vendor's list."""
    functions: bool = True
    """Whether it loads models with functions, whatever is in them."""
    static: bool = False
    """Whether it needs the shapes of all values to be known."""

    domains: Mapping[str, int | frozenset[str]] = field(default_factory=dict)
    """Other domains that it supports, such as ai.onnx.ml: all operators up to an opset, or those listed."""
    measured: bool = False
    """Whether models were run in the runtime to make the profile, not only a list read."""

    @property
    def release(self) -> Release | None:
        """The release of onnxruntime that this is, if any."""
        return release_of(self.name)

    def has(self, operator: str) -> bool:
        """Whether the runtime has an operator of the default domain, be it with limits."""
        return operator not in self.without and (self.operators is None or operator in self.operators)

    @property
    def needs_constants(self) -> bool:
        """Whether it takes a model only, or more of it, if what follows from shapes and constants is computed."""
        limited = any(limit.constant_inputs or limit.static for limit in self.limits)
        return self.static or limited or not self.has("Shape")

    @property
    def newest_opsets(self) -> Mapping[str, int]:
        """The newest opsets that it loads of other domains, of those that it has all operators of."""
        return {domain: newest for domain, newest in self.domains.items() if isinstance(newest, int)}

    def why_not_foreign(self, domain: str, name: str, version: int) -> Reason | None:
        """Say why it does not support an operator of another domain, which a model imports in this version."""
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
        """Return the profile as it was written."""
        return self.source


_UNCOMMON = frozenset(
    {TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
)


@dataclass(frozen=True)
class Legality:
    """Which nodes may stand in the result: those of one opset, less some operators, as a runtime takes them.

    `decompose` holds operators that are to go: `Hardmax`, `com.microsoft::Gelu`, or `com.microsoft` for all of that
    domain. With `runnable`, a node must have a kernel in the installed onnxruntime too.
    """

    opset: int
    decompose: frozenset[str] = frozenset()
    target: Target | None = None
    runnable: bool = False
    types: Set[int] | None = None
    """The element types that values of the model can have; None where nobody can tell."""

    def decomposes(self, domain: str, name: str) -> bool:
        """Whether an operator is to go because `decompose` names it, or its domain if that is not the default one."""
        return not self.decompose.isdisjoint((domain, f"{domain}::{name}") if domain else (name,))

    def why_not_foreign(self, domain: str, name: str, version: int = 1) -> Reason | None:
        """Say why an operator of another domain, as the model imports it, does not stand on the target."""
        if self.decomposes(domain, name):
            return Reason(f"{domain}::{name} is to be decomposed")
        return self.target.why_not_foreign(domain, name, version) if self.target else None

    def drops(self, domain: str) -> bool:
        """Whether the import of another domain is to go once no node uses it."""
        named = any(one == domain or one.startswith(f"{domain}::") for one in self.decompose)
        return named or (self.target is not None and domain not in self.target.domains)

    def doubtful(self, node: Node) -> bool:
        """Whether a runtime may well lack the node, though its profile does not say so: of element types that few have.

        OpenCV 4.14 and MNN 3.6.1 load Equal of uint8, and compute it wrongly. onnxruntime's profile knows its kernels.
        """
        elsewhere = self.target is not None and self.target.name != "onnxruntime" and self.target.release is None
        return elsewhere and any(facts is not None and facts.dtype in _UNCOMMON for facts in node.inputs)

    def computed(self, node: Node) -> tuple[int, ...]:
        """Return the inputs that the target needs constant, and that the model computes although they are known.

        The node is legal once constants replace these inputs.
        """
        schema = schema_at("", node.name, self.opset)
        if schema is None or node.domain or self.target is None:
            return ()
        needed = {
            name
            for limit in self.target.limits
            if limit.operator == node.name and limit.holds(self.opset)
            for name in limit.constant_inputs
        }
        return tuple(
            index
            for index, facts in enumerate(node.inputs)
            if facts is not None
            and facts.computed
            and (parameter := schema.input(index)) is not None
            and parameter.name in needed
        )

    def why_not(self, node: Node) -> Reason | None:
        """Say why this node is not legal; a reason with `missing` means that a fact is missing to tell. None: legal."""
        if node.domain == SPELLING:
            return Reason("no runtime has the domain opshift")
        if node.domain:
            return self.why_not_foreign(node.domain, node.name)
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
        if (place := misread(node.name, node.inputs)) is not None:
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
        # The profile of onnxruntime does not tell the types for which it has kernels for all nodes of a function body.
        asked = self.runnable or (self.target is not None and self.target.name == "onnxruntime")
        if asked and not has_kernel(node, schema, self.opset):
            types = [type_name(facts.dtype) for facts in node.inputs if facts is not None and facts.dtype]
            return Reason(f"onnxruntime has no kernel for {node.name}-{schema.since_version} of {', '.join(types)}")
        return None


def _written(facts: Facts) -> str:
    return type_name(facts.dtype) if facts.dtype else facts.container


def _returned(node: Node, schema: Schema) -> Reason | None:
    """Say which type the graphs of a node return that its outputs cannot have: bfloat16 below If-16, say.

    The outputs of If, Loop and Scan are one variadic parameter, and so is what a Loop's body returns after its
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
    for limit in target.limits:
        if limit.operator != node.name or not limit.holds(opset):
            continue
        if reason := limit.why_not(node, schema, possible):
            what = f"{target.name} has {node.name}, but {reason}{_since(target, node, schema, opset)}"
            return Reason(what, reason.missing)
    return None


def _since(target: Target, node: Node, schema: Schema, opset: int) -> str:
    """Name the first newer release of onnxruntime that takes a node which this one does not take."""
    release, types = target.release, types_of(node, schema)
    if release is None or None in types.values():
        return ""
    newer = first_that_runs(node.name, types, node.attributes, opset, release)
    return f"; {newer.name} is the first that supports it" if newer else ""
