"""Measure what each release of onnxruntime loads, from 1.6 on: `python benchmarks/releases.py --write`.

Each wheel is installed into a virtual environment of a Python that it is for (pyenv's, or the system's), below
$OPSHIFT_RELEASES or ~/.cache/opshift-releases. In each, sessions open models of one node on the CPU provider: every
operator and version in every combination of element types, at the opsets that the release loads, and with values of
attributes. With `--write` the table goes to opsets/data/releases.json.

    python benchmarks/releases.py --raw DIR --write   # keeps what was measured of each release, and goes on from there
    python benchmarks/releases.py 1.12 1.13           # measures these, and prints what they load
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import onnx
from onnxruntimes import VERSIONS, Release, install
from release_probes import OUTPUT_TYPES, Choice, Probe, choices, foreign, functions, of_graphs, plain, probes

from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at

TABLE = Path(__file__).resolve().parent.parent / "opsets" / "data" / "releases.json"
NEWEST_IR_VERSION = int(onnx.IR_VERSION)

Key = tuple[str, int]
"""An operator and an opset."""

Types = tuple[str, ...]
"""The element types of a node by its type variables."""


# --- one release ------------------------------------------------------------------------------------------------------


def measure(minor: str) -> dict[str, Any]:
    """Return what a release loads, as plain data."""
    install(minor)
    release = Release(minor)
    opset = max(one for one in range(OLDEST, NEWEST + 1) if not release.load(plain(one)))
    found = {
        "version": VERSIONS[minor][0],
        "opset": opset,
        "ir_version": max(one for one in range(3, NEWEST_IR_VERSION + 1) if not release.load(plain(11, one))),
        "ml": max(one for one in range(1, 9) if not release.load(plain(**{"ai.onnx.ml": one}))),
        "functions": not any(map(release.load, functions())),
        "foreign": foreign_operators(release),
        "opens": [
            [probe.name, probe.opset, *(dtype for _, dtype in probe.types)]
            for probe in (*probes(opset), *of_graphs(opset))
            if not release.load(probe.model)
        ],
        "refuses": [[*choice[:4]] for choice in choices(opset) if not _opens(release, choice)],
    }
    release.close()
    return found


def _opens(release: Release, choice: Choice) -> bool:
    """Whether a node opens with the value of an attribute, or does not open without it either."""
    return not release.load(choice.model) or bool(release.load(choice.without))


def foreign_operators(release: Release) -> list[str]:
    """Return the operators of com.microsoft, and of ONNX's other domains, that a release knows."""
    found = []
    for domain, name, version in _foreign():
        error = release.load(foreign(domain, name, version))
        if "not a registered" not in error and "under development" not in error:
            found.append(f"{domain}::{name}")
    return found


def _foreign() -> list[tuple[str, str, int]]:
    """Return what the installed onnxruntime has of com.microsoft for the CPU, and what onnx has of new domains."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    own, cpu = "com.microsoft", "CPUExecutionProvider"
    contributed = {one.op_name for one in native.get_all_opkernel_def() if one.domain == own and one.provider == cpu}
    schemas = {(one.domain, one.name, one.since_version) for one in onnx.defs.get_all_schemas()}
    return sorted(
        {(own, name, 1) for name in contributed} | {one for one in schemas if one[0] not in ("", "ai.onnx.ml")}
    )


# --- all of them ------------------------------------------------------------------------------------------------------


def table(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table that opshift ships: releases, and rows of what opens from one release to another."""
    minors = list(measured)
    fields = ("version", "opset", "ir_version", "ml", "functions")
    opens = _opened(measured)
    operators: dict[str, list[Any]] = {}
    levels: dict[Key, list[Probe]] = {}
    for probe in (*probes(), *of_graphs()):
        levels.setdefault((probe.name, probe.opset), []).append(probe)
    newest = {minor: one["opset"] for minor, one in measured.items()}
    for (name, opset), tried in levels.items():
        able = [minor for minor in minors if newest[minor] >= opset]
        spans: dict[tuple[str, ...], list[Types]] = {}
        for probe in tried:
            types = tuple(dtype for _, dtype in probe.types)
            held = tuple(minor for minor in able if (name, opset, *types) in opens[minor])
            spans.setdefault(held, []).append(types)
        rows = [
            ["" if first == able[0] else first, "" if last == minors[-1] else last, product]
            for held, combinations in spans.items()
            for first, last in _runs(held, minors)
            for product in _named(_products(combinations), tried[0])
        ]
        operators.setdefault(name, []).append([opset, sorted(rows, key=str)] if able else [opset, None])
    return {
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "releases": {minor: {field: one[field] for field in fields} for minor, one in measured.items()},
        "foreign": _since(measured),
        "operators": {name: _merged(one) for name, one in operators.items()},
        "attributes": _values(measured),
    }


def _opened(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, set[tuple[Any, ...]]]:
    """Return by release the operators, opsets and element types that open."""
    return {minor: {tuple(row) for row in one["opens"]} for minor, one in measured.items()}


def _values(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return values of attributes that some releases refuse: `[lowest opset, rows]`, each `[attribute, value, span]`.

    What no release opens is no value of that operator, or needs what the model does not have; but for `layout`, which
    no release knew for long.
    """
    minors = list(measured)
    opens = _opened(measured)
    refused = {minor: {tuple(one) for one in found["refuses"]} for minor, found in measured.items()}
    levels: dict[Key, list[Any]] = {}
    for choice in choices():
        able = [minor for minor in minors if (*choice[:2], *choice.types) in opens[minor]]
        held = [minor for minor in able if choice[:4] not in refused[minor]]
        spans = [
            ["" if first == able[0] else first, "" if last == minors[-1] else last]
            for first, last in _runs(held, minors)
        ]
        if able and (held or choice.attribute == "layout"):
            rows = [[choice.attribute, choice.value, *span] for span in spans]
            levels.setdefault(choice[:2], []).extend(rows)
    found: dict[str, list[Any]] = {}
    for (name, opset), rows in levels.items():
        differing = {row[0] for row in rows if row[2] or row[3]} | ({"layout"} & {row[0] for row in rows})
        found.setdefault(name, []).append([opset, [row for row in rows if row[0] in differing]])
    merged = {name: _merged(one) for name, one in found.items()}
    return {name: one for name, one in merged.items() if any(rows for _, rows in one)}


def _runs(held: Sequence[str], minors: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield first and last of the releases that follow each other."""
    places = [minors.index(minor) for minor in held]
    for _, run in itertools.groupby(enumerate(places), lambda item: item[1] - item[0]):
        items = list(run)
        yield minors[items[0][1]], minors[items[-1][1]]


def _products(combinations: Iterable[Types]) -> list[tuple[frozenset[str], ...]]:
    """Return combinations as few products of sets: those that differ in one place only are joined, place by place."""
    found = [tuple(frozenset({dtype}) for dtype in one) for one in combinations]
    for place in range(len(found[0]) if found else 0):
        joined: dict[Any, set[str]] = {}
        for one in found:
            joined.setdefault((one[:place], one[place + 1 :]), set()).update(one[place])
        found = [(*before, frozenset(types), *after) for (before, after), types in joined.items()]
    return found


def _named(products: Iterable[tuple[frozenset[str], ...]], probe: Probe) -> Iterator[dict[str, str]]:
    """Yield products by the names of inputs; `@to` is the element type that the attribute `to` names."""
    schema = schema_at("", probe.name, probe.opset)
    assert schema is not None
    names = {one.type_variable: one.name for one in reversed(schema.inputs)}
    places = [names.get(variable, f"@{OUTPUT_TYPES.get(probe.name)}") for variable, _ in probe.types]
    for product in products:
        yield {name: " ".join(sorted(types)) for name, types in zip(places, product, strict=True)}


def _merged(levels: Sequence[Sequence[Any]]) -> list[Any]:
    """Join opsets that follow each other and have the same rows: `[lowest, rows]`."""
    found: list[Any] = []
    for opset, rows in levels:
        if rows is not None and (not found or found[-1][1] != rows):
            found.append([opset, rows])
    return found


def _since(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the operators of other domains, each domain's that a release has first: `com.microsoft 1.12`."""
    known: set[str] = set()
    found: dict[str, str] = {}
    for minor, one in measured.items():
        for name in sorted(set(one["foreign"]) - known):
            domain, _, operator = name.partition("::")
            key = f"{domain} {minor}"
            found[key] = f"{found[key]} {operator}" if key in found else operator
        known |= set(one["foreign"])
    for domain, operator, _ in _foreign():
        found.setdefault(f"{domain} ", "")
        if f"{domain}::{operator}" not in known:
            found[f"{domain} "] = f"{found[f'{domain} ']} {operator}".strip()
    return found


_LONG = ("releases", "foreign", "operators", "attributes")
"""Parts of the table of which each line has one item."""


def written(found: Mapping[str, Any]) -> str:
    """Return the table as JSON, one operator a line."""
    head = {key: value for key, value in found.items() if key not in _LONG}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    for key in _LONG:
        rows = [f"  {json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in found[key].items()]
        lines.append(f' "{key}": {{\n' + ",\n".join(rows) + "\n }" + "," * (key != _LONG[-1]))
    return "{\n" + "\n".join(lines) + "\n}\n"


def main() -> int:
    """Measure, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(VERSIONS), help="minor releases, such as 1.12")
    parser.add_argument("--raw", type=Path, help="a folder for what was measured of each release")
    parser.add_argument("--write", action="store_true", help="write opsets/data/releases.json")
    options = parser.parse_args()
    measured = {}
    for minor in options.releases:
        kept = options.raw / f"{minor}.json" if options.raw else None
        if kept and kept.exists():
            measured[minor] = json.loads(kept.read_text())
            continue
        measured[minor] = measure(minor)
        print(
            {key: value for key, value in measured[minor].items() if key not in ("opens", "foreign", "refuses")},
            flush=True,
        )
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(measured[minor]))
    if options.write:
        TABLE.write_text(written(table(measured)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
