"""Render a report as an HTML page: one file that needs no network, from cli/reports/templates by jinja2."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from opshift.cli import wording
from opshift.cli.reports.diagram import Drawing, boxes, drawing
from opshift.cli.reports.report_model import Rewrite, report_model
from opshift.cli.terminal import COMMAND_MARK, jsonable, plain
from opshift.passes.base.plan import Action, Subgraph

TEMPLATES = Path(__file__).parent / "templates"

MOST = 10_000
"""The maximum number of boxes in a page, some 4 MB: a browser takes half a minute to open ten times as many."""


def page(document: Mapping[str, Any]) -> str:
    """Return a document as HTML. All values are escaped, above all names from the model."""
    it = report_model(document)
    drawn = dict(_drawn(it.rewrites))
    style, script = _text("drawing.css", "page.css"), _text("page.js")
    made = (
        _environment()
        .get_template("page.html")
        .render(
            it=it,
            drawn=drawn,
            opened=_opened(it.rewrites, drawn),
            verdicts=list(dict.fromkeys(line.verdict for line in it.lines)),
            origins=sorted({rewrite.origin for rewrite in it.rewrites}),
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
        )
    )
    return COMMAND_MARK.sub("&#35;", made)  # a CI log may print the page


def _drawn(rewrites: Sequence[Rewrite]) -> Iterator[tuple[int, tuple[Drawing, Drawing]]]:
    """Yield the rewrite groups to draw, by number: those with the most nodes, within the limit."""
    room = MOST
    for rewrite in sorted(rewrites, key=lambda rewrite: -len(rewrite.kind.nodes)):
        before, after = rewrite.kind.before, rewrite.kind.after
        room -= boxes(before) + boxes(after)
        if room < 0:
            return
        yield rewrite.number, (drawing(before), drawing(after))


def _opened(rewrites: Sequence[Rewrite], drawn: Collection[int]) -> int | None:
    """Return the group that is expanded first: the first with a replacement, or else the first with a diagram."""
    numbers = [rewrite.number for rewrite in rewrites if rewrite.number in drawn]
    replaced = {rewrite.number for rewrite in rewrites if rewrite.kind.action is Action.LOWER}
    return next((number for number in numbers if number in replaced), numbers[0] if numbers else None)


def svg(subgraph: Subgraph, label: str) -> str:
    """Return the diagram of a subgraph as HTML; drawing.css defines its style, in the colours of the page."""
    return str(_environment().get_template("drawing.html").module.svg(drawing(subgraph), label))  # type: ignore[attr-defined]


def _text(*names: str) -> Markup:
    return Markup("".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names))


@functools.cache
def _environment() -> jinja2.Environment:
    """Return the jinja2 environment, which escapes all values for HTML after unprintable characters."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        newline=Markup("\n"), count=wording.count, page=wording.page, literal=_literal, outcome=_outcome
    )
    return environment


def _printable(value: Any) -> Any:
    return value if isinstance(value, Markup) else plain(str(value))


def _literal(value: Any) -> str:
    return wording.literal(jsonable(value))


def _outcome(model: Mapping[str, Any]) -> str:
    """Return the verdict whose colour an outcome gets."""
    return "different" if model["status"] else "equal"


def _hash(text: str) -> str:
    """Return the hash of a text for a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
