"""A child process of opshift's: a Python that answers pickled requests with pickled answers, through pipes.

Both ends are opshift; no pickle from anywhere else is read. The child of opsets/native has other messages, so that it
starts without the site-packages.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from typing import Any, BinaryIO

from opshift.opsets.native import sandbox


class Child:
    """A process that runs `main` of a module of opshift.passes, which begins with `channel`."""

    def __init__(self, module: str, *arguments: object, environment: Mapping[str, str], group: bool = False) -> None:
        """Start it with these arguments of `main` behind the mark, and these environment variables.

        With `group` it is the first of a process group, and can be killed with the processes that it starts.

        Raises:
            OSError: no process can be started.
        """
        self._mark = f"opshift {uuid.uuid4()}".encode()
        self._greeted = False
        # -m and -c put the working directory first on the path, where a file next to a model may be called numpy.py.
        code = (
            f"import sys; sys.path[:] = {[entry for entry in sys.path if isinstance(entry, str)]!r}; "
            f"from opshift.passes.{module} import main; main({', '.join(map(repr, (self._mark, *arguments)))})"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=group,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests: Any = self.process.stdin
        self.answers: Any = self.process.stdout

    def receive(self) -> Any:
        """Wait for an answer. Everything before the mark is skipped: a sitecustomize.py may print.

        Raises:
            Exception: the process has ended (EOFError), or the bytes are no pickle, which may raise anything.
        """
        while not self._greeted:
            line = self.answers.readline()
            if not line:
                raise EOFError
            self._greeted = line.rstrip() == self._mark
        return pickle.load(self.answers)

    def close(self) -> None:
        """Close both pipes."""
        for stream in (self.requests, self.answers):
            with contextlib.suppress(OSError):  # unsent requests
                stream.close()


def channel(mark: bytes) -> tuple[BinaryIO, BinaryIO]:
    """Return the streams of requests and of answers, in the child; the line `mark` comes before the first answer."""
    requests, answers = sandbox.streams()
    answers.write(b"\n" + mark + b"\n")
    answers.flush()
    return requests, answers


def how_it_ended(status: int) -> str:
    """Return how a process ended, by its status."""
    if status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"died with signal {-status} ({signal.Signals(-status).name})"
    return f"died with signal {-status}"
