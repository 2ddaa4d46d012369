"""Relate adjacent versions of an operator with the same meaning, reviewed by hand.

`equivalences.toml` holds the rows: each relates two adjacent versions of a default-domain operator whose texts define
the same function for all nodes that both accept. A row has the digests of both texts at the time of the review; the
tests compare these with the installed onnx. At run time only the version numbers count, so a spelling correction in a
later onnx release blocks no conversion.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import onnx
import onnx.defs

Default = int | float | str | tuple[int, ...]
"""The value at which an attribute has no effect. The list `[1]` matches any number of ones, `[]` an empty list."""


@dataclass(frozen=True)
class SameMeaning:
    """The conditions under which a node has the same meaning at two versions of its operator.

    The named attributes must be absent or have this value, and are dropped. The target's schema defines the permitted
    types and the number of inputs.
    """

    operator: str
    source_version: int
    target_version: int
    changes: tuple[str, ...] = ()
    new_attributes: Mapping[str, Default] = field(default_factory=dict, hash=False)

    def lost(self, attributes: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the attributes of a node that the target cannot express, in words."""
        return tuple(
            f"attribute {name}"
            for name, default in self.new_attributes.items()
            if name in attributes and not _means_nothing(attributes[name], default)
        )


@dataclass(frozen=True)
class Row:
    """One row of the table: two adjacent versions of an operator, and their differences.

    `new_attributes` restrict downgraded nodes: attributes that are new or have new values in the newer version, with
    the default of the older meaning. `up_only`: the newer version accepts more than its schema shows (negative axes,
    shapes that broadcast), so no node is downgraded. `carried` names the table of wider_types.py for element types that
    the older version does not have.
    """

    operator: str
    versions: tuple[int, int]
    digests: tuple[str, str]
    change: str
    new_attributes: Mapping[str, Default] = field(default_factory=dict, hash=False)
    up_only: bool = False
    carried: str = ""


def same_meaning(operator: str, source_version: int, target_version: int) -> SameMeaning | None:
    """Return the conditions for a change between two versions of a default-domain node; None unless rows link them."""
    oldest, newest = sorted((source_version, target_version))
    down = target_version < source_version
    rows = [row for row in table().get(operator, ()) if oldest <= row.versions[0] and row.versions[1] <= newest]
    # Rows are sorted oldest first; a gap shows as a row's end that is not the next row's start.
    steps = [oldest, *(row.versions[1] for row in rows)]
    if steps[:-1] != [row.versions[0] for row in rows] or steps[-1] != newest:
        return None
    if down and any(row.up_only for row in rows):
        return None
    new_attributes: dict[str, Default] = {}
    for row in rows if down else ():
        new_attributes |= row.new_attributes
    changes = tuple(row.change for row in rows)
    return SameMeaning(
        operator,
        source_version,
        target_version,
        changes[::-1] if down else changes,
        new_attributes,
    )


@cache
def table() -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of every operator, oldest first."""
    text = resources.files("opshift.opsets.registry").joinpath("equivalences.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> dict[str, tuple[Row, ...]]:
    """Parse the table from TOML; raise for an unknown or a missing key."""
    return {
        operator: tuple(sorted((_row(operator, entry) for entry in entries), key=lambda row: row.versions))
        for operator, entries in tomllib.loads(text).items()
    }


def schema_text(schema: onnx.defs.OpSchema) -> str:
    """Return the canonical text of a schema: all parts that a reviewer reads, in a fixed order.

    The function body is left out: it is only one way to compute the operator, and a later onnx release may change it.
    """
    lines = [f"operator {schema.name}", f"since_version {schema.since_version}"]
    if schema.deprecated:
        lines.append("deprecated")
    lines += ["doc", *_paragraph(schema.doc or "")]
    for name, attribute in sorted(schema.attributes.items()):
        default = attribute.default_value
        value = onnx.helper.get_attribute_value(default) if default.type else None
        required = "required" if attribute.required else "optional"
        lines.append(f"attribute {name} {_bare(attribute.type)} {required} default {value!r}")
        lines += _paragraph(attribute.description)
    for role, parameters in (("input", schema.inputs), ("output", schema.outputs)):
        for parameter in parameters:
            lines.append(f"{role} {parameter.name} {_bare(parameter.option)} {parameter.type_str}")
            lines += _paragraph(parameter.description)
    for constraint in sorted(schema.type_constraints, key=lambda constraint: constraint.type_param_str):
        lines.append(f"type {constraint.type_param_str} {', '.join(sorted(constraint.allowed_type_strs))}")
        lines += _paragraph(constraint.description)
    return "\n".join(lines) + "\n"


def digest(schema: onnx.defs.OpSchema) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a schema's canonical text."""
    return hashlib.sha256(schema_text(schema).encode()).hexdigest()[:12]


def _paragraph(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def _bare(member: object) -> str:
    """Return the name of an enum member without the enum's name."""
    return str(member).rpartition(".")[2]


def _row(operator: str, entry: dict[str, Any]) -> Row:
    older, newer = entry.pop("versions")
    old_digest, new_digest = entry.pop("digests")
    entry["new_attributes"] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in entry.get("new_attributes", {}).items()
    }
    return Row(operator, (older, newer), (old_digest, new_digest), **entry)


def _means_nothing(value: Any, default: Default) -> bool:
    if isinstance(default, tuple):
        return all((item,) == default for item in value)
    return bool(value == default)
