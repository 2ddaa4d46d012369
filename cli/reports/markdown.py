"""Render a report as short Markdown, for a comment on a pull request (GitHub's flavour)."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opshift.cli import wording
from opshift.cli.reports import runtimes
from opshift.cli.reports.report_model import ReportModel, ReportRow, Rewrite, report_model
from opshift.cli.terminal import jsonable, plain
from opshift.passes.base.report import Check

MOST = 20
"""The number of listed refusals, differences or models; the other report formats list all."""

LONG = 2000
"""The maximum number of characters of a value; longer ones are cut off."""


def markdown(document: Mapping[str, Any]) -> str:
    """Return a document as Markdown, with names from the model escaped."""
    it = report_model(document)
    parts = [
        f"### opshift {it.command}: {text(it.headline.title)}",
        " ".join((text(it.headline.sentence), *map(text, it.notes))),
        " ".join(map(text, it.coverage)),
        text(it.request),
        f"{code(it.model)}" + "".join(f" \u2192 {code(path)}" for path in (it.other, it.output) if path),
        *_listed("Blockers", it.grouped, _refusal),
        *_listed("What differs", it.differences, _difference),
        *_listed("Models", [model for model in it.models if model["status"]], _model),
        *_table(("Model", *runtimes.COLUMNS), map(_runtime, it.runtimes)),
        *_table(("", *it.sides), (_row(row) for row in (*it.facts, *it.changed))),
        *_table(("Nodes", "From", "To", "Lowering", "Why this one", "Verdict"), _rewrites(it)),
        " \u00b7 ".join(text(f"{name} {version}") for name, version in it.versions.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# --- lists ------------------------------------------------------------------------------------------------------------


def _listed(title: str, items: Sequence[Any], line: Any) -> Iterator[str]:
    if items:
        more = [f"- and {len(items) - MOST} more"] if len(items) > MOST else []
        yield "\n".join((f"**{title}**", "", *map(line, items[:MOST]), *more))


def _refusal(group: wording.Group) -> str:
    names = ", ".join(map(code, group.nodes[: wording.NAMED]))
    names += ", ..." if len(group.nodes) > wording.NAMED else ""
    where = f"{len(group.nodes)} \u00d7 {code(group.operator)} ({names})" if group.operator else names
    problem = text(f"{group.reason} {group.hint}".rstrip())
    return f"- {where}: {problem} {code(group.code)} ({wording.page(group.code)})"


def _difference(check: Check) -> str:
    where = f"{code(check.node)} ({code(check.operator)})" if check.node else "the whole model"
    lines = [f"- {where}: {text(check.reason or check.verdict)}"]
    if example := check.counterexample:
        lines += [f"  - input {code(name)} = {_value(value)}" for name, value in example.inputs.items()]
        lines.append(f"  - output {code(example.output)}: expected {_value(example.expected)}")
        lines.append(f"  - output {code(example.output)}: actual {_value(example.actual)}")
        lines += [f"  - shown by {code(example.command)}"] if example.command else []
    return "\n".join(lines)


def _model(model: Mapping[str, Any]) -> str:
    return f"- {code(model['model'])}: {text(model['outcome'])}. {text(model['reason'])}".rstrip()


def _value(value: Any) -> str:
    written = wording.literal(jsonable(value))
    return code(written if len(written) <= LONG else f"{written[:LONG]}...")


# --- tables -----------------------------------------------------------------------------------------------------------


def _row(row: ReportRow) -> tuple[str, ...]:
    after = () if row.after is None else (row.after,)
    name = row.name if row.name in ("opset", "ir_version", "size") else code(row.name)
    return tuple(f"**{cell}**" if row.changed and cell == row.after else cell for cell in (name, row.before, *after))


def _runtime(row: runtimes.TargetRow) -> tuple[str, ...]:
    return code(row.model), *map(text, row.cells)


def _rewrites(it: ReportModel) -> Iterator[tuple[str, ...]]:
    """Yield a row for rewrites with the same text, although the facts about their nodes differ."""
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for line in it.lines:
        found[_read(line.rewrite)][line.verdict] += 1
    for cells, verdicts in found.items():
        problem = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
        yield str(verdicts.total()), *cells, problem


def _read(rewrite: Rewrite) -> tuple[str, ...]:
    by = code(rewrite.by) if rewrite.by else str(rewrite.kind.action)
    return code(rewrite.origin), code(rewrite.to), by, text(rewrite.choice)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    lines = list(rows)
    if lines:
        heads = heads[: len(lines[0])]
        cells = (heads, ("---",) * len(heads), *lines)
        yield "\n".join(f"| {' | '.join(row)} |" for row in cells)


# --- escaping ---------------------------------------------------------------------------------------------------------


def code(name: str) -> str:
    """Return a name as code that also works in a table."""
    shown = plain(str(name)) or " "
    if not set(shown) & {"`", "|", "\\"} and "##" not in shown:
        return f"`{shown}`"
    # GitHub parses the bars of a table before code, and backslashes before bars, so none of them may occur.
    return f"<code>{''.join(c if c.isalnum() or not c.isascii() else f'&#{ord(c)};' for c in shown)}</code>"


def text(sentence: str) -> str:
    """Return a sentence with escaped Markdown, without mentions of users."""
    escaped = "".join(f"\\{c}" if c in _MEANING else c for c in plain(str(sentence)))
    # GitHub looks for @people, #issues and www. in the rendered text: a comment separates them.
    return re.sub(r"([@#]|[wW](?=[wW]{2}))", r"\1<!-- -->", escaped)


_MEANING = frozenset(string.punctuation) - frozenset(",.;'\"/()=%+?-")
"""The characters with a meaning in Markdown in the middle of a line; a backslash escapes each."""
