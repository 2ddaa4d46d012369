"""Neighbouring versions of an operator that mean the same, reviewed by hand.

`equivalences.toml` holds the rows: each joins two neighbouring versions of one operator of the default domain whose
texts define the same function wherever both accept the node as it is written. A row carries the digests of both texts
as they were when somebody read them; the tests compare these with the installed onnx. At run time only the version
numbers count, so that a spelling mended in a later onnx release stops nobody.
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
"""The value at which an attribute means nothing new. The list `[1]` stands for any number of ones, `[]` for no item."""


@dataclass(frozen=True)
class SameMeaning:
    """The conditions under which a node has the same meaning at two versions of its operator.

    The attributes named here must be absent or hold the value given, and are to be dropped. Whether the target takes
    the node's types and the number of its inputs, its schema says.
    """

    operator: str
    source: int
    target: int
    changes: tuple[str, ...] = ()
    new_attributes: Mapping[str, Default] = field(default_factory=dict, hash=False)

    def lost(self, attributes: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what of a node the target cannot express, in words."""
        return tuple(
            f"attribute {name}"
            for name, default in self.new_attributes.items()
            if name in attributes and not _means_nothing(attributes[name], default)
        )


@dataclass(frozen=True)
class Row:
    """One row of the table: two neighbouring versions of an operator, and where they part.

    `new_attributes` are what the newer version adds, so they bind a node that goes down: attributes new there or taking
    new values there, with the default that keeps the older meaning. `up_only`: the newer version takes more than a
    schema can tell (negative axes, shapes that broadcast), so no node goes down. `carried` names the table of
    wider_types.py through which an element type goes that the older version lacks.
    """

    operator: str
    versions: tuple[int, int]
    digests: tuple[str, str]
    change: str
    new_attributes: Mapping[str, Default] = field(default_factory=dict, hash=False)
    up_only: bool = False
    carried: str = ""


def same_meaning(operator: str, source: int, target: int) -> SameMeaning | None:
    """Return how a node of the default domain may move between two versions; None unless rows join them all the way."""
    oldest, newest = sorted((source, target))
    down = target < source
    rows = [row for row in table().get(operator, ()) if oldest <= row.versions[0] and row.versions[1] <= newest]
    # Rows stand oldest first, so a missing link shows where one row's end is not the next one's start.
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
        source,
        target,
        changes[::-1] if down else changes,
        new_attributes,
    )


@cache
def table() -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of every operator, oldest first."""
    text = resources.files("opshift.opsets.registry").joinpath("equivalences.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> dict[str, tuple[Row, ...]]:
    """Read the table from TOML; a key that no row has, or that a row needs and lacks, is an error."""
    return {
        operator: tuple(sorted((_row(operator, entry) for entry in entries), key=lambda row: row.versions))
        for operator, entries in tomllib.loads(text).items()
    }


def schema_text(schema: onnx.defs.OpSchema) -> str:
    """Return the canonical text of a schema: all that a reviewer reads of it, in a fixed order.

    The function body is left out: it is one way to compute the operator, and a release of onnx may rewrite it.
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
    for kind, parameters in (("input", schema.inputs), ("output", schema.outputs)):
        for parameter in parameters:
            lines.append(f"{kind} {parameter.name} {_bare(parameter.option)} {parameter.type_str}")
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
    """Return the name of an enum's member without the enum's."""
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
