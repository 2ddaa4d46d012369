"""Write docs/operators.md, docs/dialect.md, docs/ml.md, pictures, opsets/data/bodies.onnxtxt, docstrings' options and
the outputs in pages.

`python docs/generate.py` writes them; `--check` changes nothing and fails where one is out of date. A page that needs
packages which are not installed is left as it is.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import difflib
import functools
import importlib.util
import inspect
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import dialect_page
import docstrings
import onnx.defs
import pictures

from opshift.opsets.faster import LOWERINGS as FASTER
from opshift.opsets.faster import every
from opshift.opsets.registry import compiled
from opshift.opsets.registry.equivalences import Row, table
from opshift.opsets.registry.lowering import Lowering
from opshift.opsets.registry.no_conversion import NoConversion, no_conversions, why_absent
from opshift.opsets.registry.operator import Operator, Version, internal_operators, known_operators, replaced_operators
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at
from opshift.opsets.registry.schema_only import has_body

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "operators.md"
DIALECT = ROOT / "docs" / "dialect.md"
ML = ROOT / "docs" / "ml.md"
PROVEN = ROOT / "docs" / "proven.toml"
BODIES = ROOT / "opsets" / "data" / compiled.FILE
README = ROOT / "README.md"
GUIDES = tuple(
    ROOT / "docs" / name
    for name in (
        *("index.md", "gallery.md", "tutorial.md", "static.md", "types.md", "quantized.md", "examples.md"),
        *("where.md", "commands.md", "reference/python.md", "lift-and-lower.md"),
    )
) + tuple(sorted((ROOT / "docs" / "howto").glob("*.md")))
"""Guides, of which all examples are run."""
SHOWN = (README, ROOT / "docs" / "verification.md", *GUIDES)
"""Pages with examples."""

# --- docs/operators.md ------------------------------------------------------------------------------------------------

HEAD = """\
# Operators

Written by `python docs/generate.py` from the registry; do not edit by hand.

{files} operators have a file in `opsets/operators/`. opshift lifts every listed version to one meaning, and expresses
the meaning at any listed version or with other operators. {rows} more operators are converted between versions by a
row of the reviewed table `opsets/registry/equivalences.toml`. All other operators stay if their version does not
change, and are refused by name otherwise.

The column "Not where" lists the reasons why a version cannot express a meaning, or why a lowering does not apply. It
quotes the tool's messages. A node is refused only if no other version or lowering applies. A lowering marked
*assumption* is valid only under an assumption, and used only with `--assume`. A lowering marked *speed* is used only
with `--optimize`.
"""

REVIEWED = """\
## Operators of the reviewed table

Each row relates two adjacent versions that have the same meaning for all nodes that both accept. The column "Only"
restricts the row. *Up only*: the newer version accepts more than its schema shows, so no node is downgraded. An
attribute with a value: a downgraded node must lack the attribute or have that value (with "always": an upgraded node
too).

| Operator | Versions | What changed | Only |
|---|---|---|---|
"""

REFUSED = """\
## Unreviewed versions

These operators have no file, and no row for these versions has been reviewed. A node that must be converted between
them is refused with the code `unknown-operator`. A conversion may exist, but none has been reviewed.

| Operator | Unreviewed versions |
|---|---|
"""

ABSENT = """\

These operators were added after opset {oldest}, and opshift has no lowering for them. Below the opset in parentheses,
their nodes are refused with the code `absent-operator`.

"""

IMPOSSIBLE = """\
## No exact conversion

This table is reviewed by hand, in `opsets/registry/no_conversion.toml`. "Below" an opset, the operator does not exist.
Either no older operators return exactly the same result, or the lowering is not written. Between two versions, the
meanings differ.

| Operator | Where | Why |
|---|---|---|
"""


def operators_page() -> str:
    """Return the text of docs/operators.md."""
    known = known_operators()
    with_file = {operator.name for operator in known if not operator.domain}
    parts = [HEAD.format(files=len(known), rows=len(table()))]
    parts += [section(operator) for operator in known]
    parts.append(REVIEWED + "".join(row_line(row) for name in sorted(table()) for row in table()[name]))
    apart = {name: gaps for name in sorted(_names() - with_file) if (gaps := unjoined(name))}
    parts.append(REFUSED + "".join(f"| {name} | {', '.join(gaps)} |\n" for name, gaps in apart.items()))
    lowered = {operator.name for operator in known if operator.lowerings}
    lowered |= {name for name in _names() if has_body(name)}
    listed = {name for name in no_conversions() if why_absent(name)}
    late = [(name, first) for name in sorted(_names() - lowered - listed) if (first := _first(name)) > OLDEST]
    text = ABSENT.format(oldest=OLDEST) + ", ".join(f"{name} ({first})" for name, first in late) + ".\n"
    parts[-1] += text if late else ""
    listed_lines = (impossible_line(item) for name in sorted(no_conversions()) for item in no_conversions()[name])
    parts.append(IMPOSSIBLE + "".join(listed_lines))
    return "\n".join(parts)


def impossible_line(item: NoConversion) -> str:
    """Return an unsupported conversion as a row."""
    where = f"below {item.below}" if item.versions is None else f"between {item.versions[0]} and {item.versions[1]}"
    return f"| {item.operator} | {where} | {escape(item.reason)} |\n"


def section(operator: Operator) -> str:
    """Return the section of one operator."""
    name = f"{operator.domain}::{operator.name}" if operator.domain else operator.name
    meaning = (inspect.getdoc(operator.meaning) or "").split("\n\n")[0].replace("\n", " ")
    fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(operator.meaning))
    lines = [f"## {name}", ""]
    if operator.means is not None:
        lines += [f"Means {operator.means.name}, and has its lowerings.", ""]
    lines += [f"{meaning} Meaning: {fields}." if fields else "No attributes.", ""]
    lines += [f"Versions: {', '.join(str(version.since) for version in operator.versions)}.", ""]
    oldest = schema_at(operator.domain, operator.name, OLDEST) if not operator.domain else None
    written = [version for version in operator.versions if oldest is None or version.since >= oldest.since_version]
    limits = [(version.since, list(version_limits(operator, version))) for version in written]
    if any(reasons for _, reasons in limits):
        lines += ["| Version | Not where |", "|---|---|"]
        lines += [f"| {since} | {cell(reasons)} |" for since, reasons in limits if reasons]
        lines.append("")
    if operator.lowerings:
        shown = "" if operator.domain else operator.name
        proof = " Proof |" if shown in proven() else ""
        lines += [f"| Lowering | What it does | Not where |{proof}", "|---|---|---|" + "---|" * bool(proof)]
        lines += [lowering_line(lowering) + proof_cell(shown, lowering) for lowering in every(operator)]
        lines.append("")
    return "\n".join(lines)


def lowering_line(lowering: Lowering) -> str:
    """Return a lowering as a row."""
    marks = ["assumption"] * (lowering.assumes is not None) + ["speed"] * any(
        lowering in some for some in FASTER.values()
    )
    name = f"`{lowering.name}`" + (f" (*{', '.join(marks)}*)" if marks else "")
    limits = list(reasons(lowering.applies_if)) if lowering.applies_if else []
    return f"| {name} | {lowering.summary} | {cell(limits)} |"


@functools.cache
def proven() -> dict[str, dict[str, dict[str, str]]]:
    """Return, by operator and lowering, the inputs that a proof covers, or the reason that there is none."""
    return tomllib.loads(PROVEN.read_text(encoding="utf-8"))


def proof_cell(operator: str, lowering: Lowering) -> str:
    """Return the last cell of a lowering's row; nothing if the operator has no proofs."""
    found = [
        (state, texts[lowering.name]) for state, texts in proven().get(operator, {}).items() if lowering.name in texts
    ]
    return "".join(f" {state}: {escape(text)} |" for state, text in found)


def version_limits(operator: Operator, version: Version) -> Iterator[str]:
    """Yield the reasons why a version cannot express a meaning: those of its schema, then those of its file."""
    schema = schema_at(operator.domain, operator.name, version.since)
    if schema is not None and version.write is None and not operator.variadic:
        for field in dataclasses.fields(operator.meaning):
            if field.name not in schema.attributes:
                yield f"{field.name} is not {field.default!r}"
        for operand in operator.operands:
            if version.renamed.get(operand, operand) in schema.attributes:
                yield f"{operand} is not constant"
    for function in (version.applies_if, version.write):
        if function is not None:
            yield from reasons(function)


def reasons(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the reasons that a function may return, from its source and that of the functions it calls."""
    yield from dict.fromkeys(_reasons(function, set()))


def _reasons(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[str]:
    if function in seen or not isinstance(function, FunctionType):
        return
    seen.add(function)
    with contextlib.suppress(SyntaxError):  # a lambda inside a call returns no reasons
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        for node in _calls(tree):
            if node.func.id == "Reason":  # type: ignore[attr-defined]
                yield _text(node.args[0])
            else:
                yield from _reasons(function.__globals__.get(node.func.id, print), seen)  # type: ignore[attr-defined]


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of named functions; not those whose result is only compared, as in `given(...) is None`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node
    if not isinstance(node, ast.Compare):
        for child in ast.iter_child_nodes(node):
            yield from _calls(child)


def _text(node: ast.expr) -> str:
    """Return the text of a reason in the source, with dots for inserted values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return "..."


def row_line(row: Row) -> str:
    """Return a row of the reviewed table."""
    only = ["up only"] if row.up_only else []
    only += [f"{name} = {_value(value)}" for name, value in row.new_attributes.items()]
    return f"| {row.operator} | {row.versions[0]}, {row.versions[1]} | {escape(row.change)} | {cell(only)} |\n"


def _value(value: object) -> str:
    return str(list(value) if isinstance(value, tuple) else value)


def unjoined(name: str) -> list[str]:
    """Return the pairs of adjacent versions that no row relates, from the oldest to the newest opset."""
    rows = {row.versions for row in table().get(name, ())}
    versions = _versions(name)
    return [f"{one} and {other}" for one, other in itertools.pairwise(versions) if (one, other) not in rows]


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and _versions_of(schema.name)
    )


def _versions_of(name: str) -> list[int]:
    found = (schema_at("", name, opset) for opset in range(OLDEST, NEWEST + 1))
    return sorted({schema.since_version for schema in found if schema is not None})


@functools.cache
def _versions(name: str) -> tuple[int, ...]:
    return tuple(_versions_of(name))


def _first(name: str) -> int:
    """Return the first opset that has the operator."""
    return next(opset for opset in range(OLDEST, NEWEST + 1) if schema_at("", name, opset) is not None)


def cell(texts: Sequence[str]) -> str:
    """Return texts as a cell."""
    return "; ".join(escape(text) for text in texts)


def escape(text: str) -> str:
    """Return a text in which no character ends a cell."""
    return text.replace("|", "\\|").replace("\n", " ")


# --- examples --------------------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (?P<path>[\w./-]+\.(toml|py|yaml|yml))\n")
NEEDS = re.compile(r"^<!-- needs: (?P<names>[\w ]+) -->$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a Markdown text: its language, its contents, and their position."""

    kind: str
    body: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a text."""
    return [Block(found["kind"], found["body"], *found.span("body")) for found in BLOCK.finditer(text)]


def refreshed(text: str) -> str:
    """Return a page with the current outputs of its examples.

    `console` blocks hold commands after `$ ` and what they print; a `python` block's prints stand in the `text` block
    that follows, and one without such a block prints nothing. A block whose first line is a comment with a path is a
    file, and is written there. All run, in order, in one empty folder that holds copies of the
    fixtures and of `gallery`. Blocks of kind `sh`, mostly installations, are left alone.
    """
    pieces: list[str] = []
    at = 0
    found = blocks(text)
    names: dict[str, Any] = {"__name__": "readme"}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "fixtures", Path(folder) / "fixtures")
        shutil.copytree(ROOT / "docs" / "gallery", Path(folder) / "gallery")
        for block, following in itertools.zip_longest(found, found[1:]):
            if named := FILE.match(block.body):
                path = Path(folder) / named["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.body, encoding="utf-8")
            elif block.kind == "console":
                pieces += [text[at : block.start], *session(block.body, Path(folder))]
                at = block.end
            elif block.kind == "python":
                body = printed(block.body, Path(folder), names)
                if following is not None and following.kind == "text":
                    pieces += [text[at : following.start], body]
                    at = following.end
                elif body:
                    raise ValueError(f"this prints {body!r}, and no block of kind text follows it:\n{block.body}")
    return "".join([*pieces, text[at:]])


def missing(text: str) -> list[str]:
    """Return the missing ones of the packages that a page lists in its comment."""
    found = NEEDS.search(text)
    return [name for name in found["names"].split() if importlib.util.find_spec(name) is None] if found else []


def session(body: str, folder: Path) -> Iterator[str]:
    """Run the commands of a console block; yield each with its output."""
    for line in body.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n"
            yield run(line[2:], folder)


def run(command: str, folder: Path) -> str:
    """Run a command in a shell with `opshift` and `python` of this environment; return its output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
    return output + (f"(exit status {done.returncode})\n" if done.returncode else "")


def printed(source: str, folder: Path, names: dict[str, Any]) -> str:
    """Run Python in a folder; return its output. Later blocks see the names of earlier ones."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        exec(compile(source, "example", "exec"), names)
    return out.getvalue()


def normal(text: str) -> str:
    """Return a text without the parts that differ between machines: versions of packages, and numbers of inputs."""
    text = re.sub(r"(onnxruntime|onnx|numpy|pytorch) \d+(\.\d+)+[\w+]*", r"\1 VERSION", text)
    text = re.sub(r"^Not tested: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b\d+ output elements, [\d.]+ %", "MANY output elements, MOST", text)
    return re.sub(r"\b\d+ inputs\b", "SEVERAL inputs", text)


# --- opsets/data/bodies.onnxtxt ---------------------------------------------------------------------------------------


def bodies_file() -> str:
    """Return the bodies of all lowerings, as onnxscript compiles them now."""
    known = (*known_operators(), *internal_operators(), *replaced_operators())
    lowerings = {(one.body, one.opset): one for operator in known for one in every(operator)}
    return compiled.written((body, opset, one.compile()) for (body, opset), one in lowerings.items())


# --- all -------------------------------------------------------------------------------------------------------------


def outdated(path: Path, text: str) -> list[str]:
    """Return the difference between a file and the text that it should hold."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, after = (normal(side).splitlines(keepends=True) for side in (old, text))
    return list(difflib.unified_diff(before, after, path.name, "as generated"))


def main(arguments: Iterable[str] | None = None) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is out of date")
    parser.add_argument("pages", metavar="PAGE", nargs="*", type=Path, help="only these (all)")
    options = parser.parse_args(None if arguments is None else list(arguments))
    written: dict[Path, Callable[[], str]] = {
        DOCUMENT: operators_page,
        DIALECT: dialect_page.page,
        ML: dialect_page.ml_page,
        BODIES: bodies_file,
        **{path: functools.partial(docstrings.with_options, path) for path in docstrings.FUNCTIONS},
        **pictures.PICTURES,
    }
    asked = [page.resolve() for page in options.pages] or [*written, *SHOWN]
    made = {page: write() for page, write in written.items() if page in asked}
    for page in SHOWN:
        if page not in asked:
            continue
        text = page.read_text(encoding="utf-8")
        if lacking := missing(text):
            print(f"{page.relative_to(ROOT)}: left as it is, for want of {', '.join(lacking)}")
        else:
            made[page] = refreshed(text)
    changed = False
    for path, text in made.items():
        difference = outdated(path, text)
        changed = changed or bool(difference)
        if options.check:
            sys.stdout.writelines(difference)
        elif difference or not path.exists():
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: written")
    return int(changed and options.check)


if __name__ == "__main__":
    sys.exit(main())
