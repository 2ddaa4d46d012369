"""Models on standard input and output.

On the command line, `-` is a model from standard input, or a result to standard output.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opshift.cli import terminal
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    import onnx

    from opshift.passes.conversion.result import Result

STREAM = "-"
"""The path that represents standard input and output."""

STDIN = "standard input"


def read(model: str) -> str | onnx.ModelProto:
    """Return a path unchanged, or for `-` the model from standard input.

    Raises:
        InvalidModelError: standard input is not an ONNX model.
    """
    if model != STREAM:
        return model
    if sys.stdin is None:
        raise UsageError(f"{STDIN} is closed: name a file, or pipe a model in.")
    from opshift.passes.io.model_forms import from_bytes, read_stream

    return from_bytes(read_stream(sys.stdin.buffer, STDIN), STDIN)


def check_stdout() -> None:
    """Raise if a model would be written to a terminal."""
    if sys.stdout is None:
        raise UsageError("standard output is closed: name a file with -o.")
    if terminal.is_terminal(sys.stdout):
        raise UsageError("a model is binary and is not written to a terminal: redirect stdout, or name a file with -o.")


@contextlib.contextmanager
def results_on_stderr() -> Iterator[Any]:
    """Redirect stdout to stderr, and yield the binary stream of stdout for the model."""
    stdout = sys.stdout
    stdout.flush()
    with contextlib.redirect_stdout(sys.stderr):
        yield stdout.buffer


def send(result: Result, stream: Any, **how: Any) -> None:
    """Write a converted model with its weights to a binary stream, or nothing if that fails.

    Raises:
        UsageError: the stream cannot be written, or the model is too large for one protobuf.
    """
    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        path = os.path.join(folder, "model.onnx")  # noqa: PTH118 (a string is needed)
        result.save(path, **{**how, "external_data": "embed" if result.source.files else None})
        with open(path, "rb") as file:  # noqa: PTH123 (the same)
            try:
                shutil.copyfileobj(file, stream, 2**20)
                stream.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            except OSError as error:
                raise UsageError(f"standard output cannot be written: {error.strerror or error}.") from error
