"""The pages that the site's build generates: one for each operator, with drawings of its lowerings, and the commands.

The drawn example of a lowering comes from the tests: the subject of its mutants, or else the smallest node of the
operator's table of cases.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx

from opshift.cli.main import COMMANDS, EPILOG, build
from opshift.cli.reports.html import svg
from opshift.opsets.faster import every
from opshift.opsets.registry.equivalences import table
from opshift.opsets.registry.lowering import Lowering, Reason
from opshift.opsets.registry.no_conversion import no_conversions
from opshift.opsets.registry.operator import SPELLING, Node, Operator, known_operators, lift
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at
from opshift.opsets.registry.schema_only import has_body
from opshift.opsets.runtimes.target import Legality
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.fragment import Fragment, operand_sources
from opshift.passes.rewrite.groups import subgraph
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.node_models import alone

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]

import test_mutants  # noqa: E402
from generate import cell, escape, impossible_line, reasons, row_line, version_limits  # noqa: E402
from operators import harness  # noqa: E402


def pages() -> dict[str, str]:
    """Return the text of each page, by its path below `reference`."""
    known = known_operators()
    made = {f"operators/{operator.name}.md": operator_page(operator) for operator in known}
    return {"command-line.md": command_line(), "operators/index.md": overview(known), **made}


# --- operators --------------------------------------------------------------------------------------------------------

OVERVIEW = """\
# Operator pages

Each page describes an operator's versions, meaning, lowerings and unsupported conversions, with a drawing of each
lowering. The operators listed here have a file in `opsets/operators/`. [operators.md](../../operators.md) also covers
the operators that only the reviewed table converts.

| Operator | Versions | Lowerings | Without a conversion |
|---|---|---|---|
"""


LOWERINGS = """\
## Lowerings

If the target does not support the operator, opshift uses the cheapest of these lowerings. If the target does not
support an operator in a drawing, that operator is lowered further. The cost refers to the drawn node and is relative to
one Identity node ([how it is measured](../../design.md#lift-and-lower)).
"""


def overview(known: Iterable[Operator]) -> str:
    """Return the overview page of the operators."""
    lines, names = [], []
    for operator in known:
        versions = ", ".join(str(version.since) for version in operator.versions)
        stops = "; ".join(_where(item.below, item.versions) for item in no_conversions().get(operator.name, ()))
        lines.append(f"| [{operator.name}]({operator.name}.md) | {versions} | {len(operator.lowerings)} | {stops} |\n")
        names.append(f"{operator.name}\n")
    return OVERVIEW + "".join(lines) + "\n```{toctree}\n:hidden:\n\n" + "".join(names) + "```\n"


def _where(below: int | None, versions: tuple[int, int] | None) -> str:
    return f"below {below}" if versions is None else f"between {versions[0]} and {versions[1]}"


def operator_page(operator: Operator) -> str:
    """Return the page of one operator."""
    title = f"{operator.domain}::{operator.name}" if operator.domain else operator.name
    parts = [f"# {title}\n", *meaning(operator), *versions(operator)]
    if operator.lowerings and operator.means is None:
        parts.append(LOWERINGS)
        parts += [part for lowering in every(operator) for part in lowering_section(operator, lowering)]
    else:
        parts.append(f"## Lowerings\n\n{_no_lowering(operator)}\n")
    return "\n".join([*parts, *impossible(operator)])


def _no_lowering(operator: Operator) -> str:
    if operator.means is not None:
        name = operator.means.name
        return f"The lowerings are those of [{name}]({name}.md), which has the same meaning."
    if has_body(operator.name):
        return "The file has no lowerings; opshift uses the function body that ONNX defines."
    return "None: other lowerings use this operator, or no older operators can express it."


def meaning(operator: Operator) -> Iterator[str]:
    """Yield the description of the operator's meaning, and its fields."""
    yield f"{_prose((inspect.getdoc(_home(operator)) or '').split(PARAGRAPH)[0])}\n"
    yield "## Meaning\n"
    if operator.means is not None:
        yield f"The same meaning as {operator.means.name}.\n"
    fields = dataclasses.fields(operator.meaning)
    if not fields:
        yield "The meaning has no fields.\n"
        return
    yield f"{_prose(inspect.getdoc(operator.meaning) or '')}\n"
    said = field_docs(operator.meaning)
    yield "| Field | Type | Default |" + " Description |" * bool(said)
    yield "|---|---|---|" + "---|" * bool(said)
    for field in fields:
        default = "" if field.default is dataclasses.MISSING else f"`{escape(repr(field.default))}`"
        more = f" {escape(said.get(field.name, ''))} |" if said else ""
        yield f"| `{field.name}` | `{escape(str(field.type))}` | {default} |{more}"
    yield ""


PARAGRAPH = "\n\n"


def _home(operator: Operator) -> ModuleType:
    """Return the module of an operator's file."""
    (home,) = (
        module
        for name, module in sys.modules.items()
        if name.startswith("opshift.opsets.operators.") and getattr(module, "OPERATOR", None) is operator
    )
    return home


def _prose(text: str) -> str:
    """Return a docstring as Markdown, with angle brackets and stars escaped."""
    return text.replace("*", "\\*").replace("<", "\\<")


def field_docs(meaning: type) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass, from its source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(meaning))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in itertools.pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def versions(operator: Operator) -> Iterator[str]:
    """Yield the versions, with their opsets and the meanings that they cannot express."""
    yield "## Versions\n"
    yield "| Version | Opsets | Not where |\n|---|---|---|"
    for version in operator.versions:
        limits = list(version_limits(operator, version))
        yield f"| {version.since} | {_opsets(operator, version.since)} | {cell(limits)} |"
    yield ""
    if rows := table().get(operator.name):
        yield "Reviewed versions with the same meaning:\n"
        yield "| Operator | Versions | What changed | Only |\n|---|---|---|---|\n" + "".join(map(row_line, rows))


def _opsets(operator: Operator, since: int) -> str:
    """Return the opsets with this version of the operator."""
    having = [
        opset
        for opset in range(OLDEST, NEWEST + 1)
        if (schema := schema_at(operator.domain, operator.name, opset)) and schema.since_version == since
    ]
    if not having or operator.domain:
        return ""
    return str(having[0]) if len(having) == 1 else f"{having[0]}&nbsp;to&nbsp;{having[-1]}"


def impossible(operator: Operator) -> Iterator[str]:
    """Yield the unsupported conversions, with their reasons."""
    yield "## Unsupported conversions\n"
    if entries := no_conversions().get(operator.name):
        yield "| Operator | Where | Why |\n|---|---|---|\n" + "".join(map(impossible_line, entries))
    else:
        yield "No unsupported conversions are known."
    yield "[limits.md](../../limits.md) explains every refusal, with its fix.\n"


# --- lowerings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A node, its replacement by a lowering at an opset, and the cost."""

    opset: int
    cost: float
    before: onnx.ModelProto
    after: onnx.ModelProto


FEW = 12
"""Drawings of more nodes than this are collapsed."""

ENOUGH = 12
"""The drawing shows the smallest result among this many cases of the table to which the lowering applies."""
ASSUMED = frozenset({"no-nan", "finite-inputs", "whole-indices", "approximate"})


def lowering_section(operator: Operator, lowering: Lowering) -> Iterator[str]:
    """Yield the description of a lowering, the reasons why it does not apply, and a drawing of its result."""
    yield f"### `{lowering.name}`\n"
    yield f"{_prose(lowering.summary)}\n"
    facts = [f"Written at opset {lowering.opset}."]
    if lowering.rounds:
        facts.append("Floats are computed in another order, so the result is equal except for rounding.")
    if lowering.assumes:
        facts.append("If it is valid only under an assumption, it needs `--assume`.")
    if limits := list(reasons(lowering.applies_if)) if lowering.applies_if else []:
        facts.append(f"It does not apply if: {cell(limits)}.")
    yield " ".join(facts) + "\n"
    if example := example_of(operator, lowering):
        yield drawn(operator, lowering, example)


def drawn(operator: Operator, lowering: Lowering, example: Example) -> str:
    """Return the drawings of a node and of its replacement, as HTML."""
    before, after = subgraph(example.before), subgraph(example.after)
    count = len(after.nodes)
    captions = {"Before": before, f"After, at opset {example.opset}": after}
    drawings = {
        caption: svg(part, f"{caption}: {operator.name}, {lowering.name}") for caption, part in captions.items()
    }
    figures = "".join(
        f"<figure><figcaption>{caption}</figcaption>{drawing}</figure>" for caption, drawing in drawings.items()
    )
    summary = f"Drawing: {count} node{'s' * (count != 1)}, cost {example.cost:.1f}"
    details = f"<details{' open' * (count <= FEW)}><summary>{summary}</summary>"
    return f'```{{raw}} html\n{details}\n<div class="drawings">{figures}</div></details>\n```\n'


def example_of(operator: Operator, lowering: Lowering) -> Example | None:
    """Return the example of a lowering, the smallest of a few: subjects of the mutants, or cases of a table."""
    found = [
        example
        for subject in test_mutants.SUBJECTS
        if (subject.operator, subject.lowering) == (operator.name, lowering.name)
        and (example := _example(operator, lowering, _spelled(operator, subject), subject.opset, subject.keep))
    ]
    cases = itertools.islice(_of_cases(operator, lowering), ENOUGH)
    return min(found or cases, key=lambda example: len(example.after.graph.node), default=None)


def _spelled(operator: Operator, subject: test_mutants.Subject) -> Node:
    fields = _fields(operator.meaning(**subject.meaning))
    return Node(SPELLING, operator.name, 1, fields, tuple(map(test_mutants.facts, subject.operands)), subject.used)


def _of_cases(operator: Operator, lowering: Lowering) -> Iterator[Example]:
    if operator.name not in _tables():
        return
    cases = _tables()[operator.name].cases
    for case, kind, opset, keep in itertools.product(cases, harness.KINDS[:3], (18, 13, 9), (False, True)):
        used = (True,) * len(harness.outputs_of(operator, case))
        fields = _fields(harness.meaning_of(operator, case))
        spelled = Node(SPELLING, operator.name, 1, fields, harness.operands(case, kind), used)
        if example := _example(operator, lowering, spelled, opset, keep):
            yield example


def _fields(meaning: Any) -> dict[str, Any]:
    given = {field.name: getattr(meaning, field.name) for field in dataclasses.fields(meaning)}
    return {name: value for name, value in given.items() if value is not None}


@functools.cache
def _tables() -> Mapping[str, type[harness.Table]]:
    return harness.tables()


def _example(operator: Operator, lowering: Lowering, spelled: Node, opset: int, keep: bool) -> Example | None:
    """Return the replacement of a node by this lowering alone at an opset, or None if it does not apply."""
    whole = lift(harness.only(operator, lowering), spelled, "runtime")
    if isinstance(whole, Reason):
        return None
    gone = frozenset[str]() if keep else frozenset({operator.name})
    fragment = Deriver(Legality(opset, gone, runnable=True), assume=ASSUMED).derive(whole)
    if not isinstance(fragment, Fragment):
        return None
    seen, source = test_mutants.native(dataclasses.replace(whole, operator=operator)) or (spelled, opset)
    change = Replace(fragment, operand_sources(whole), seen, whole, "node")
    return Example(opset, fragment.cost, *alone(change, source, opset))


# --- the command line -------------------------------------------------------------------------------------------------

COMMAND_LINE = """\
# The command line

This page is generated from the argument parsers. `opshift COMMAND --help` prints the same text.

"""


def command_line() -> str:
    """Return the page of all commands."""
    (commands,) = (action.choices for action in build()._actions if isinstance(action, argparse._SubParsersAction))
    parts = [COMMAND_LINE, *(part for name in COMMANDS for part in command(name, commands[name]))]
    parts.append("## Exit status\n\n```text\n" + EPILOG.partition("\n")[2] + "```\n")
    return "".join(parts)


def command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the section of a command, with its options."""
    yield f"## opshift {name}\n\n{parser.description}\n\n"
    if parser.epilog:
        _, _, examples = parser.epilog.partition("\n")
        yield f"```sh\n{textwrap.dedent(examples).rstrip()}\n```\n\n"
    yield "| Option | Value | Description |\n|---|---|---|\n"
    for action in parser._actions:
        names = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar}`"
        values = action.metavar if action.option_strings and action.nargs != 0 else ""
        if action.choices is not None and action.option_strings:
            values = " or ".join(map(str, action.choices))
        yield f"| {names} | {f'`{escape(str(values))}`' if values else ''} | {escape(action.help or '')} |\n"
    yield "\n"
