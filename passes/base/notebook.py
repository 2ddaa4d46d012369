"""The parts of short representations for prompts and notebooks: names, numbers, and small tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 80
"""The longest printed name in characters; names in a model can have any length."""


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


ROWS = 10
"""The maximum number of rewrites or nodes in a table."""


def first_rows(rows: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the first rows, and a row with the number of the others."""
    return [*rows[:ROWS], *[("", f"and {len(rows) - ROWS} more")] * (len(rows) > ROWS)]


def table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return rows as HTML in which names from a model are escaped."""
    lines = "".join(
        f'<tr><th style="text-align:left">{_escaped(name)}</th><td style="text-align:left">{_escaped(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{_escaped(title)}</caption><tbody>{lines}</tbody></table>"


def _escaped(value: Any) -> str:
    import html  # Its table of 2,000 entities is needed only in notebooks.

    return html.escape(short(value, 4 * LONGEST))


def short(text: Any, longest: int = LONGEST) -> str:
    """Return a text in printable form: control characters escaped, long text cut off."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."
