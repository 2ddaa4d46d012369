"""Provide onnxruntime's releases as targets, from `releases.json`, which `benchmarks/releases.py` measures.

The table has rows by operator and opset: the range of releases in which a node with these element types opens.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.opsets.registry.schema import OLDEST, Schema, schema_at
from opshift.opsets.runtimes.kernel_profile import joined

PREFIX = "onnxruntime-"

Types = Mapping[str, frozenset[str]]
"""Element types by input; `@to` has those that the attribute `to` may name."""


@dataclass(frozen=True)
class Release:
    """A minor release: the measured version, and the newest opsets and ir_version that it loads."""

    place: int
    """The index among all releases, oldest first."""
    minor: str
    version: str
    opset: int
    ir_version: int
    ml: int
    """The newest opset of ai.onnx.ml."""
    functions: bool
    """Whether it loads all models with functions; some releases load only functions that call no others."""

    @property
    def name(self) -> str:
        """The name of the target."""
        return PREFIX + self.minor


@dataclass(frozen=True)
class _Row:
    """Element types with which nodes of an operator open, in these releases."""

    releases: range
    types: Types

    def takes(self, types: Mapping[str, str | None]) -> bool:
        """Return whether a node of these types opens; omitted inputs do not matter."""
        return all(name not in types or types[name] in allowed for name, allowed in self.types.items())


@dataclass(frozen=True)
class _Value:
    """An attribute value with which nodes open, in these releases."""

    releases: range
    attribute: str
    value: str | int


@functools.cache
def _table() -> Mapping[str, Any]:
    file = importlib.resources.files("opshift.opsets").joinpath("data", "releases.json")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@functools.cache
def releases() -> tuple[Release, ...]:
    """Return all releases, oldest first."""
    return tuple(Release(place, minor, **one) for place, (minor, one) in enumerate(_table()["releases"].items()))


def measured() -> str:
    """Return the date of the measurement."""
    return str(_table()["measured"])


@functools.cache
def release_of(name: str) -> Release | None:
    """Return the release of a target's name: onnxruntime-1.12, or onnxruntime-1.12.1 with the same minor version."""
    match = re.fullmatch(re.escape(PREFIX) + r"(\d+\.\d+)(\.\d+)?", name)
    return next((one for one in releases() if match and one.minor == match[1]), None)


def _at(part: str, name: str, opset: int) -> Sequence[Sequence[Any]] | None:
    """Return the rows of an operator at an opset in a part of the table; None if there are none."""
    levels: list[Sequence[Sequence[Any]]] = [rows for lowest, rows in _table()[part].get(name, ()) if lowest <= opset]
    return levels[-1] if levels else None


def _span(first: str, last: str) -> range:
    """Return the indices of a range of releases; its ends may be open."""
    places = {one.minor: one.place for one in releases()}
    return range(places[first] if first else 0, (places[last] if last else len(places) - 1) + 1)


@functools.cache
def _rows(name: str, opset: int) -> tuple[_Row, ...] | None:
    """Return the rows of an operator at an opset; None if it was not measured."""
    found = _at("operators", name, opset)
    if found is None:
        return None
    split = ((_span(*ends), product) for *ends, product in found)
    return tuple(_Row(span, {key: frozenset(types.split()) for key, types in one.items()}) for span, one in split)


@functools.cache
def _values(name: str, opset: int) -> tuple[_Value, ...]:
    """Return the attribute values of an operator that some releases refuse."""
    found = _at("attributes", name, opset) or ()
    return tuple(_Value(_span(*ends), attribute, value) for attribute, value, *ends in found)


def _allowed(name: str, opset: int, release: Release) -> dict[str, list[str | int]]:
    """Return, by attribute, the permitted values of attributes that a release restricts."""
    values = _values(name, opset)
    held: dict[str, list[str | int]] = {one.attribute: [] for one in values}
    for one in values:
        if release.place in one.releases:
            held[one.attribute].append(one.value)
    every = {one.attribute: {other.value for other in values if other.attribute == one.attribute} for one in values}
    return {key: found for key, found in held.items() if key == "layout" or len(found) < len(every[key])}


def first_that_runs(
    name: str, types: Mapping[str, str | None], attributes: Mapping[str, Any], opset: int, after: Release
) -> Release | None:
    """Return the first newer release in which a node of these element types and attributes opens at an opset."""
    rows = _rows(name, opset) or ()
    for one in releases()[after.place + 1 :]:
        if one.opset < opset or not any(one.place in row.releases and row.takes(types) for row in rows):
            continue
        allowed = _allowed(name, opset, one)
        if all(attributes.get(key, values[0]) in values for key, values in allowed.items() if values):
            return one
    return None


@functools.cache
def _foreign() -> Mapping[str, Mapping[str, str]]:
    """Return the first release with each operator, by domain; empty if none has it."""
    found: dict[str, dict[str, str]] = {}
    for key, names in _table()["foreign"].items():
        domain, minor = key.split(" ")
        found.setdefault(domain, {}).update(dict.fromkeys(names.split(), minor))
    return found


def _supported(release: Release) -> dict[str, list[str]]:
    """Return the supported operators of other domains of a release, by domain."""
    found = {
        domain: sorted(name for name in names if why_foreign(domain, name, release) is None)
        for domain, names in _foreign().items()
    }
    return {domain: names for domain, names in found.items() if names}


def why_foreign(domain: str, name: str, release: Release) -> str | None:
    """Return the reason why a release lacks an operator of another domain; None if it has it, or if it is unknown."""
    minor = _foreign().get(domain, {}).get(name)
    if minor is None:
        return None
    if not minor:
        return f"no release of onnxruntime up to {releases()[-1].minor} has it"
    first = next(one for one in releases() if one.minor == minor)
    return f"{first.name} is the first that has it" if first.place > release.place else None


def first_that_loads(opset: int, ir_version: int) -> Release | None:
    """Return the first release that loads models of an opset and ir_version."""
    return next((one for one in releases() if one.opset >= opset and one.ir_version >= ir_version), None)


# --- a release as a profile -------------------------------------------------------------------------------------------


@functools.cache
def profile(release: Release) -> str:
    """Return the profile of a release in TOML."""
    spans = {name: _spans(name, release) for name in _table()["operators"]}
    without = [name for name, found in spans.items() if found and not any(rows for *_, rows, _ in found)]
    lines = [
        f"# onnxruntime {release.version}, CPU: what its sessions open, measured {measured()} with models of one node.",
        "# `@to` is the element type that the attribute `to` names.",
        f'name = "{release.name}"',
        f'version = "{release.version}"',
        f"opset = [{OLDEST}, {release.opset}]",
        f"ir_version = [3, {release.ir_version}]",
        f"functions = {str(release.functions).lower()}",
        "measured = true",
        f"without = [{_quoted(without)}]",
        "",
        "[domains]",
        f'"ai.onnx.ml" = {release.ml}',
        *(f'"{domain}" = [{_quoted(names)}]' for domain, names in _supported(release).items()),
    ]
    for name, found in spans.items():
        for low, high, rows, allowed in found if name not in without else ():
            schemas = (schema_at("", name, opset) for opset in range(low, high + 1))
            if not all(_accepts_all(schema, rows) for schema in schemas if schema):
                lines += _limit(name, (low, high), rows)
            if rows:
                lines += _limit_of_attributes(name, (low, high), allowed)
    return "\n".join(lines) + "\n"


def limits_of_attributes(version: str) -> str:
    """Return the limits on attributes of an installed version in TOML; those of the newest release if it is unknown."""
    release = release_of(PREFIX + version) or releases()[-1]
    spans = ((name, span) for name in _table()["attributes"] for span in _spans(name, release))
    limits = (_limit_of_attributes(name, (low, high), allowed) for name, (low, high, _, allowed) in spans)
    return "\n".join(itertools.chain.from_iterable(limits)) + "\n"


def _spans(name: str, release: Release) -> list[tuple[int, int, Sequence[Types], Mapping[str, Sequence[str | int]]]]:
    """Return spans of opsets, with alternatives of element types, and attribute values, that the release accepts."""
    found: list[tuple[int, int, Sequence[Types], Mapping[str, Sequence[str | int]]]] = []
    for opset in range(OLDEST, release.opset + 1):
        rows = _rows(name, opset)
        if rows is None:
            continue
        taken = joined([dict(row.types) for row in rows if release.place in row.releases])
        allowed = _allowed(name, opset, release)
        if found and found[-1][2:] == (taken, allowed):
            found[-1] = (found[-1][0], opset, taken, allowed)
        else:
            found.append((opset, opset, taken, allowed))
    return found


def _accepts_all(schema: Schema, rows: Sequence[Types]) -> bool:
    """Return whether one alternative has every element type that the schema permits."""
    allowed = {one.name: one.types for one in schema.inputs}
    returned = schema.outputs[0].types
    return any(
        all(
            {f"tensor({dtype})" for dtype in types} >= {one for one in allowed.get(name, returned) if "seq(" not in one}
            for name, types in row.items()
        )
        for row in rows
    )


def _limit(name: str, span: tuple[int, int], rows: Sequence[Types]) -> Iterator[str]:
    yield from ("", "[[limits]]", f'operator = "{name}"', f"opset = [{span[0]}, {span[1]}]")
    if not rows:
        yield from ("never = true", 'reason = "there is no kernel"')
        return
    written = [", ".join(f"{_key(key)} = [{_quoted(sorted(types))}]" for key, types in row.items()) for row in rows]
    if len(written) == 1:
        yield f"dtypes = {{ {written[0]} }}"
    else:
        yield "combinations = ["
        yield from (f"    {{ {one} }}," for one in written)
        yield "]"
    yield 'reason = "there are kernels for no other types"'


def _limit_of_attributes(name: str, span: tuple[int, int], allowed: Mapping[str, Sequence[str | int]]) -> Iterator[str]:
    if not allowed:
        return
    yield from ("", "[[limits]]", f'operator = "{name}"', f"opset = [{span[0]}, {span[1]}]")
    yield f"attributes = {{ {', '.join(f'{key} = {json.dumps(values)}' for key, values in allowed.items())} }}"
    yield 'reason = "its kernels take no other values"'


def _key(name: str) -> str:
    return f'"{name}"' if name.startswith("@") else name


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
