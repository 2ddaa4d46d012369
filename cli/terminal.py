"""Print to the terminal.

Results go to stdout, messages and progress to stderr.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


COMMAND = "shown by: "
"""The text before a command for users to copy."""

SHORT = 16
"""The maximum number of characters of a column that is never wrapped."""

ShowProgress = Callable[[str, int, int], None]


def one_line(text: str) -> str:
    """Return the text as one paragraph, with control characters escaped."""
    return plain(" ".join(text.split()))


def plain(text: str) -> str:
    """Escape unprintable characters, because names come from untrusted models."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_COMMAND_LINE = re.compile(r"^((?:\x1b\[[0-9;]*m|\s)*):(?=:)", re.MULTILINE)
COMMAND_MARK = re.compile(r"#(?=#(?:\[|vso\[))")
"""The start of a CI log command in a line."""


def inert(text: str) -> str:
    """Escape the start of CI log commands, because names come from untrusted models.

    GitHub's runner executes lines that start with `::`, also after blanks, and `##[` anywhere in a line; that of Azure
    Pipelines executes `##[` and `##vso[`.
    """
    return COMMAND_MARK.sub(r"\\x23", _COMMAND_LINE.sub(r"\1\\x3a", text))


class UnprintableError(UsageError):
    """The result could not be printed."""


def write(stream: TextIO | None, text: str) -> None:
    """Write and flush text without CI commands; a closed reader, such as `| head`, is not an error."""
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(inert(text).encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        # Buffered text would raise again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise UnprintableError(f"the result cannot be printed: {error.strerror or error}.") from error


def message(*lines: str) -> None:
    """Print messages for users to stderr; line breaks inside a message are escaped."""
    write(sys.stderr, "".join(f"{folded(plain(line), sys.stderr)}\n" for line in lines))


def write_result(text: str) -> None:
    """Print a result without changes: JSON or TOML, whose strings already escape such characters."""
    write(sys.stdout, COMMAND_MARK.sub(r"\\u0023", text.rstrip("\n")) + "\n")


def say(text: str = "", style: str = "") -> None:
    """Print a line of the result, in colour on a terminal."""
    if not is_terminal(sys.stdout):  # the import of rich takes a while
        write(sys.stdout, plain(text).rstrip() + "\n")
        return
    from rich.text import Text

    _print(Text(folded(plain(text), sys.stdout), style), soft_wrap=True)


def folded(line: str, stream: TextIO | None) -> str:
    """Wrap a line at the width of a terminal; a command stays on one line, so that it can be copied."""
    if COMMAND in line or stream is None or not is_terminal(stream):
        return line
    import textwrap

    indent = " " * (len(line) - len(line.lstrip(" ")))
    return "\n".join(
        textwrap.wrap(
            line.rstrip(),
            _columns(stream),
            subsequent_indent=f"{indent}  " if indent else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal, or 80 if it is unknown."""
    with contextlib.suppress(ValueError):
        if asked := int(os.environ.get("COLUMNS", "")):
            return max(asked, 20)
    with contextlib.suppress(OSError, ValueError):
        return max(os.get_terminal_size(stream.fileno()).columns or 80, 20)
    return 80


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], changed: Callable[[Sequence[str]], bool] | None = None
) -> None:
    """Print rows under columns; those that `changed` selects are highlighted on a terminal.

    On a narrow terminal, columns of short words keep their width, and the others wrap.
    """
    if not is_terminal(sys.stdout):
        _plain_table(columns, [[plain(cell) for cell in row] for row in rows])
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        short = max((len(row[index]) for row in rows), default=0) <= SHORT
        grid.add_column(column, overflow="fold", no_wrap=short)
    for row in rows:
        grid.add_row(*(Text(plain(cell)) for cell in row), style="bold" if changed and changed(row) else "")
    _print(grid, soft_wrap=False)


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to a pipe or a file, without wrapping and trailing blanks."""
    widths = [max(map(cells, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        line = "  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        write(sys.stdout, line.rstrip() + "\n")


def cells(text: str) -> int:
    """Return the width of a text in columns; East Asian characters take two, and combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _print(what: RenderableType, *, soft_wrap: bool) -> None:
    """Render for a terminal."""
    rendered = io.StringIO()
    _console(rendered).print(what, soft_wrap=soft_wrap)
    write(sys.stdout, rendered.getvalue())


def _console(stream: TextIO) -> Console:
    """Return a console for a terminal, without colours under NO_COLOR."""
    from rich.console import Console

    return Console(
        file=stream,
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal."""
    return stream is not None and stream.isatty()


def is_live() -> bool:
    """Return whether stderr shows a live line."""
    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def progress(quiet: bool, verbose: bool) -> Iterator[ShowProgress | None]:
    """Show a live line on a terminal; otherwise print a line now and then, and with --verbose one for each stage."""
    if quiet:
        yield None
    else:
        with _live_line() if is_live() else _lines(verbose) as show:
            yield show


@contextlib.contextmanager
def _live_line() -> Iterator[ShowProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_console(sys.stderr), transient=True) as bars:
        task = bars.add_task("start", total=None)

        def show(stage: str, done: int, total: int) -> None:
            bars.update(task, description=plain(stage), completed=done, total=total or None)

        yield show


EVERY = 10.0
"""The seconds between two lines of progress without a live line."""


@contextlib.contextmanager
def _lines(verbose: bool) -> Iterator[ShowProgress]:
    import threading

    began, over, seen = time.monotonic(), threading.Event(), list[str]()
    latest = ("start", 0, 0)

    def show(stage: str, done: int, total: int) -> None:
        nonlocal latest
        latest = stage, done, total
        if verbose and stage not in seen:
            seen.append(stage)
            message(plain(stage))

    def repeat() -> None:
        while not over.wait(EVERY):
            stage, done, total = latest
            count = f" {done} of {total}" if total else ""
            message(f"{plain(stage)}{count}, {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        over.set()
        thread.join()


def jsonable(value: Any) -> Any:
    """Return a value that JSON can hold: non-finite numbers become strings, sets sorted lists, objects dicts."""
    import dataclasses

    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "to_json"):
        return jsonable(value.to_json())
    if hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if dataclasses.is_dataclass(value):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(jsonable(item) for item in value)
    if isinstance(value, list | tuple | range):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float):
        return value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def to_json(document: Any, *, indent: int | None = 2) -> str:
    """Return the document as strict JSON without CI log commands."""
    import json

    return COMMAND_MARK.sub(r"\\u0023", json.dumps(jsonable(document), indent=indent, allow_nan=False)) + "\n"


def print_json(document: Any, *, line: bool = False) -> None:
    """Print the single JSON object of --json; for many models, each is a line."""
    write_result(to_json(document, indent=None if line else 2))
