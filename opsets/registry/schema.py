"""Read the operators' schemas in onnx.defs once into plain frozen data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.defs

from opshift.opsets.registry import dialect, own_schemas
from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.own_schemas import DEPRECATED as DEPRECATED
from opshift.opsets.registry.own_schemas import READ as READ


@dataclass(frozen=True)
class Parameter:
    """One formal input or output; `types` are strings such as `tensor(float)`."""

    name: str
    type_variable: str
    types: frozenset[str]
    optional: bool
    variadic: bool
    homogeneous: bool = True
    """Whether all inputs of a variadic parameter have the same type."""


@dataclass(frozen=True)
class Schema:
    """One version of an operator."""

    domain: str
    name: str
    since_version: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: Mapping[str, tuple[bool, Any]]
    """The attributes by name: whether each is required, and its default."""
    has_body: bool
    """Whether ONNX defines it by a function body, which onnxruntime inlines."""
    raw: onnx.defs.OpSchema

    def input(self, index: int) -> Parameter | None:
        """Return the formal parameter of an actual input; a variadic parameter covers all following inputs."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.inputs and self.inputs[-1].variadic else None

    def unlike(self, dtypes: Sequence[int | None]) -> str | None:
        """Return which inputs must have one element type and have two, as far as the types are known."""
        first: dict[str, tuple[str, int]] = {}
        for index, dtype in enumerate(dtypes):
            parameter = self.input(index)
            if not dtype or parameter is None or not parameter.homogeneous:
                continue
            name, other = first.setdefault(parameter.type_variable, (parameter.name, dtype))
            if other != dtype:
                kinds = f"tensor({type_name(other)}) and tensor({type_name(dtype)})"
                names = repr(name) if name == parameter.name else f"{name!r} and {parameter.name!r}"
                return f"its inputs {names} are of one type, and here {kinds}"
        return None


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return an attribute as a Python value: int, float, str, tuple, or its protobuf message."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple) or hasattr(value, "append"):
        return tuple(item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else item for item in value)
    return value


def _parameters(formal: Any) -> tuple[Parameter, ...]:
    option = onnx.defs.OpSchema.FormalParameterOption
    return tuple(
        Parameter(
            item.name,
            item.type_str,
            frozenset(item.types),
            item.option == option.Optional,
            item.option == option.Variadic,
            item.is_homogeneous,
        )
        for item in formal
    )


def _view(raw: onnx.defs.OpSchema) -> Schema:
    attributes = {
        name: (item.required, attribute_value(item.default_value) if item.default_value.type else None)
        for name, item in raw.attributes.items()
    }
    described: Any = raw
    return Schema(
        raw.domain,
        raw.name,
        raw.since_version,
        _parameters(raw.inputs),
        _parameters(raw.outputs),
        attributes,
        bool(described.has_function or described.has_context_dependent_function),
        raw,
    )


@functools.cache
def schema_at(domain: str, name: str, opset: int) -> Schema | None:
    """Return an operator's version at an opset; None if there is none, or only a deprecated one."""
    raw = _raw(domain, name, opset)
    return None if raw is None or raw.deprecated else _view(raw)


@functools.cache
def schema_read_at(domain: str, name: str, opset: int) -> Schema | None:
    """Return the schema of an operator's node at an opset, for reading models.

    It may be one of `READ`, or onnxruntime's own if ONNX has none.
    """
    raw = _raw(domain, name, opset)
    if raw is None:
        own = dialect.raw_schema(domain, name)
        return None if own is None else _view(own)
    if (name, raw.since_version) not in READ:
        return schema_at(domain, name, opset)
    return _revived(name, raw.since_version)


def version_read_at(domain: str, name: str, opset: int) -> int:
    """Return the version of an operator's node at an opset, for reading models; 1 if there is none."""
    schema = schema_read_at(domain, name, opset)
    return schema.since_version if schema else 1


def is_dialect(schema: Schema) -> bool:
    """Return whether a schema is onnxruntime's own: onnx neither checks nor infers its nodes."""
    return schema.raw is dialect.raw_schema(schema.domain, schema.name)


def _raw(domain: str, name: str, opset: int) -> onnx.defs.OpSchema | None:
    if domain == "opshift":
        return _own().get((domain, name))
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


@functools.cache
def _own() -> Mapping[tuple[str, str], onnx.defs.OpSchema]:
    """Return the schemas that opshift adds to onnx's, by domain and name."""
    return {(schema.domain, schema.name): schema for schema in own_schemas.schemas(onnx.defs)}


def _revived(name: str, since_version: int) -> Schema:
    """Return a version of `READ` that is not deprecated."""
    return dataclasses.replace(_view(_own()[DEPRECATED, f"{name}-{since_version}"]), name=name)


_ATTRIBUTE = onnx.defs.OpSchema.AttrType
_NUMBERS: Mapping[Any, type | tuple[type, ...]] = {
    _ATTRIBUTE.INT: int,
    _ATTRIBUTE.FLOAT: (int, float),
    _ATTRIBUTE.STRING: str,
}
_FLAGS = frozenset(
    {
        *("allowzero", "ceil_mode", "count_include_pad", "exclusive", "fmod", "keepdims", "largest"),
        *("noop_with_empty_axes", "reverse", "select_last_index", "sorted", "storage_order", "transA", "transB"),
    }
)
"""The attributes that are 0 or 1 in every version that has them."""
_LISTS: Mapping[Any, type | tuple[type, ...]] = {
    _ATTRIBUTE.INTS: int,
    _ATTRIBUTE.FLOATS: (int, float),
    _ATTRIBUTE.STRINGS: str,
}


def misfit(schema: Schema, attributes: Mapping[str, Any]) -> str | None:
    """Return an attribute whose value the schema does not permit.

    A function call may pass a value of any type, and runtimes differ in the meaning of a flag of 2 (onnxruntime 1.31.1:
    off).
    """
    for name, value in attributes.items():
        wanted = schema.raw.attributes[name].type if name in schema.attributes else None
        if wanted in _NUMBERS and not isinstance(value, _NUMBERS[wanted]):
            return name
        if name in _FLAGS and value not in (0, 1):
            return name
        if wanted in _LISTS and not (
            isinstance(value, tuple) and all(isinstance(item, _LISTS[wanted]) for item in value)
        ):
            return name
    return None


@functools.cache
def foreign_operators(domain: str) -> frozenset[str]:
    """Return the operators of a domain other than the default one that onnx or onnxruntime define."""
    own = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain}
    return frozenset({*own, *dialect.operators(domain)})


def default_domain(domain: str) -> str:
    """Return '' for both spellings of the default domain."""
    return "" if domain == "ai.onnx" else domain


NEWEST = onnx.defs.onnx_opset_version()
OLDEST = 7
"""The oldest opset of a target."""

OLDEST_SOURCE = 1
"""The oldest opset of a source model."""
