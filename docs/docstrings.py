"""The descriptions of options in the docstrings of public functions, from passes/base/option_table.py."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection
from pathlib import Path

from opshift.passes.base.option_table import OPTIONS

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = {
    ROOT / "passes" / "convert.py": ("convert", frozenset(OPTIONS)),
    ROOT / "passes" / "where.py": ("where", frozenset(OPTIONS) - {"progress"}),
}
"""The file of each function, its name, and the options of which its docstring has the table's description."""

_ARGUMENT = re.compile(r"^ {8}(\w+): .*\n(?: {12}.*\n)*", re.MULTILINE)


def with_options(path: Path) -> str:
    """Return the text of a module in which a docstring describes its options as the table does."""
    function, options = FUNCTIONS[path]
    text = path.read_text(encoding="utf-8")
    start = text.index("    Args:\n", text.index(f"\ndef {function}("))
    end = text.index("\n\n", start) + 1
    return text[:start] + described(text[start:end], options) + text[end:]


def described(arguments: str, options: Collection[str]) -> str:
    """Return the part "Args" of a docstring, with the table's descriptions of these options."""
    return _ARGUMENT.sub(lambda found: _line(found[1]) if found[1] in options else found[0], arguments)


def _line(name: str) -> str:
    """Return the lines of an argument in a docstring."""
    lines = textwrap.wrap(
        f"{name}: {OPTIONS[name].meaning}",
        120,
        initial_indent=" " * 8,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"{line}\n" for line in lines)
