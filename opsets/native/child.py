"""Start and end child processes of opshift: a Python that answers requests (channel.py)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from opshift.opsets.native.channel import Channel, LostError


class Child(Channel):
    """A child process, and this process's end of the pipes to it."""

    def __init__(
        self,
        *program: str,
        environment: Mapping[str, str],
        group: bool = False,
        classes: frozenset[tuple[str, str]] | None = None,
    ) -> None:
        """Start Python with a program: a file, or the result of `main_of`. Its last argument is the mark.

        `classes` are those that answers may contain. With `group`, it is the first of a process group, and is killed
        with the processes that it starts.

        Raises:
            OSError: no process can be started.
        """
        mark = f"opshift {os.urandom(16).hex()}"
        self._mark = mark.encode()
        self._greeted = False
        self._group = group and hasattr(os, "killpg")
        self.process = subprocess.Popen(
            [sys.executable, *program, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=group,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        super().__init__(self.process.stdout, self.process.stdin, classes)  # type: ignore[arg-type]

    def receive(self) -> Any:
        """Wait for an answer. Everything before the mark is skipped: a sitecustomize.py may print."""
        while not self._greeted:
            line = self.incoming.readline()
            if not line:
                raise LostError("it has ended")
            self._greeted = line.rstrip() == self._mark
        return super().receive()

    def kill(self) -> None:
        """Kill the process, and its group."""
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._group:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def wait(self, patience: float = 0) -> int:
        """Return the status with which the process ends; after `patience` seconds it is killed."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()


def main_of(module: str, *arguments: object) -> tuple[str, str]:
    """Return a program that calls `main` of a module of opshift with the mark and these arguments."""
    # -m and -c put the working directory first on the path, where a file next to a model may be called numpy.py.
    path = [entry for entry in sys.path if isinstance(entry, str)]
    passed = "".join(f", {argument!r}" for argument in arguments)
    code = f"import sys; sys.path[:] = {path!r}; from {module} import main; main(sys.argv[-1]{passed})"
    return "-c", code


def how_it_ended(status: int) -> str:
    """Return how a process ended, by its status."""
    if status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"died with signal {-status} ({signal.Signals(-status).name})"
    return f"died with signal {-status}"
