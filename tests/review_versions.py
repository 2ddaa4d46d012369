"""Print what changed between two versions of an operator, and the row to add to same_meaning.toml once it is read.

python tests/review_versions.py MaxPool 10 11      one pair
python tests/review_versions.py MaxPool            every pair of neighbours from opset 7 on
python tests/review_versions.py                    the pairs that are neither a row nor an operator's own file
"""

from __future__ import annotations

import argparse
import difflib
import functools
import itertools
import keyword
import re
from collections.abc import Iterator
from importlib import resources

import onnx
import onnx.defs

from opshift.opsets.registry.equivalences import digest, schema_text, table

OLDEST_OPSET = 7


@functools.cache
def versions() -> dict[str, dict[int, onnx.defs.OpSchema]]:
    """Return every operator of the default domain with its versions, oldest first."""
    found: dict[str, dict[int, onnx.defs.OpSchema]] = {}
    schemas = onnx.defs.get_all_schemas_with_history()
    for schema in sorted(schemas, key=lambda schema: (schema.name, schema.since_version)):
        if schema.domain == "":
            found.setdefault(schema.name, {})[schema.since_version] = schema
    return found


def neighbours(operator: str) -> list[tuple[int, int]]:
    """Return the pairs of neighbouring versions of an operator of which the newer is past opset 7."""
    known = list(versions()[operator])
    return [(older, newer) for older, newer in itertools.pairwise(known) if newer > OLDEST_OPSET]


def file_name(operator: str) -> str:
    """Return the name of an operator's file in opsets/operators/."""
    name = operator.lower()
    return f"{name}_.py" if keyword.iskeyword(name) else f"{name}.py"


def operator_files() -> set[str]:
    """Return the names of the files in opsets/operators/."""
    return {entry.name for entry in resources.files("opshift.opsets.operators").iterdir() if entry.name.endswith(".py")}


def unreviewed() -> list[tuple[str, int, int]]:
    """Return the pairs that no row joins, of operators that have no file of their own."""
    files = operator_files()
    return [
        (operator, older, newer)
        for operator in versions()
        if file_name(operator) not in files
        for older, newer in neighbours(operator)
        if (older, newer) not in {row.versions for row in table().get(operator, ())}
    ]


def changed_lines(older: onnx.defs.OpSchema, newer: onnx.defs.OpSchema) -> Iterator[str]:
    """Yield the differences sentence by sentence, so that text which was only wrapped anew does not show."""
    before, after = (re.split(r"\n|(?<=[.:;]) +|(?<=,) (?=\w+\()", schema_text(schema)) for schema in (older, newer))
    for line in difflib.unified_diff(before, after, n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield line


def row(older: onnx.defs.OpSchema, newer: onnx.defs.OpSchema) -> str:
    """Return the row that joins two versions, its change still to be written."""
    return (
        f"[[{older.name}]]\nversions = [{older.since_version}, {newer.since_version}]\n"
        f'digests = ["{digest(older)}", "{digest(newer)}"]\nchange = ""\n'
    )


def main() -> None:
    """Print the pairs asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator", nargs="?")
    parser.add_argument("versions", nargs="*", type=int)
    arguments = parser.parse_args()
    if not arguments.operator:
        for operator, older, newer in unreviewed():
            print(f"{operator} {older} -> {newer}")
        return
    pairs = [tuple(arguments.versions)] if arguments.versions else neighbours(arguments.operator)
    for older, newer in pairs:
        schemas = versions()[arguments.operator]
        print(f"{arguments.operator} {older} -> {newer}", *changed_lines(schemas[older], schemas[newer]), sep="\n  ")
        print(f"\n{row(schemas[older], schemas[newer])}")


if __name__ == "__main__":
    main()
