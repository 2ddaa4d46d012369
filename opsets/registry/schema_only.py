"""Represent operators without a file: the meaning of a node is its attributes, as its version names them.

The reviewed rows of `equivalences.toml` define the relation to other versions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import onnx.defs

from opshift.opsets.registry.equivalences import same_meaning, table
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version, operator_for
from opshift.opsets.registry.schema import NEWEST, OLDEST_SOURCE, Schema, schema_at
from opshift.opsets.registry.wider_types import KINDS

_OPAQUE = frozenset(
    getattr(onnx.defs.OpSchema.AttrType, name)
    for name in ("GRAPH", "GRAPHS", "TYPE_PROTO", "TYPE_PROTOS", "SPARSE_TENSOR", "SPARSE_TENSORS")
)
"""The types of attributes that a fragment cannot hold."""


@dataclass(frozen=True)
class VersionedAttributes:
    """The attributes without defaults, in the form of this version number."""

    since: int
    attributes: tuple[tuple[str, Any], ...] = ()


def operator_of(domain: str, name: str) -> Operator | None:
    """Return the operator of a node: from its file or its package, or in the default domain from its schemas."""
    return operator_for(domain, name) or (None if domain else _schema_only_operator(name))


@functools.cache
def schemas(name: str) -> tuple[Schema, ...]:
    """Return the versions of a default-domain operator in all opsets, oldest first."""
    found = (schema_at("", name, opset) for opset in range(OLDEST_SOURCE, NEWEST + 1))
    return tuple({schema.since_version: schema for schema in found if schema is not None}.values())


def has_body(name: str) -> bool:
    """Return whether ONNX defines a function body for any version of an operator."""
    return any(schema.has_body for schema in schemas(name))


@functools.cache
def _schema_only_operator(name: str) -> Operator | None:
    versions = schemas(name)
    if not versions or any(item.type in _OPAQUE for one in versions for item in one.raw.attributes.values()):
        return None
    newest = versions[-1].inputs
    carried = next((row.carried for row in table().get(name, ()) if row.carried), "")
    return Operator(
        name=name,
        meaning=VersionedAttributes,
        versions=tuple(
            Version(schema.since_version, lift=_lift(schema), write=functools.partial(_write, schema))
            for schema in versions
        ),
        operands=tuple(parameter.name for parameter in newest),
        oracle=_no_oracle,
        variadic=bool(newest) and newest[-1].variadic,
        wider_types=KINDS.get(carried, {}),
    )


def _no_oracle(meaning: VersionedAttributes, *arrays: Any) -> NoReturn:
    raise NotImplementedError("an operator without a file has no oracle")


def _lift(schema: Schema) -> Callable[[Mapping[str, Any]], VersionedAttributes]:
    def lift(attributes: Mapping[str, Any]) -> VersionedAttributes:
        nondefault = {
            name: value
            for name, value in attributes.items()
            if value is not None and (schema.attributes[name][0] or value != schema.attributes[name][1])
        }
        return VersionedAttributes(schema.since_version, tuple(sorted(nondefault.items())))

    return lift


def _write(schema: Schema, meaning: VersionedAttributes, operands: Operands) -> Mapping[str, Any] | Reason:
    row = same_meaning(schema.name, meaning.since, schema.since_version)
    if row is None:
        return Reason(f"it differs from {schema.name}-{meaning.since}, and no conversion between them is known")
    attributes = dict(meaning.attributes)
    if lost := row.lost(attributes):
        return Reason(f"it has no {', '.join(lost)}")
    return {name: value for name, value in attributes.items() if name not in row.new_attributes}
