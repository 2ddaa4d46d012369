"""Provide an executor that survives crashes of its child processes: a crash fails only one call.

`concurrent.futures.ProcessPoolExecutor` fails all waiting calls when a process dies, and imports the program's main
module again in each process, which then needs a guard.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from opshift.passes.runtime.child import Child, channel, how_it_ended

PATIENCE = 10.0
"""The seconds in which a process may remove its temporary files after a request to end; then it is killed."""


class ProcessDiedError(Exception):
    """The process of a call ended before it answered; the text has the reason."""


class Processes(Executor):
    """Runs calls of importable functions in `count` processes, each started when it is first needed.

    A call whose process dies raises ProcessDiedError; the next call gets a new process.
    """

    def __init__(self, count: int) -> None:
        """Store the number of processes; nothing is started yet."""
        self._threads = ThreadPoolExecutor(count, "opshift")
        self._here = threading.local()
        self._lock = threading.Lock()
        self._children: set[_Child] = set()
        self._stopped = False

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run a call in a process."""
        return self._threads.submit(self._ask, (call, arguments, named))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Run the waiting calls, unless they are cancelled, then end the processes."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self.stop()

    def stop(self) -> None:
        """End the processes, even during a call; each may first remove its partial files."""
        with self._lock:
            self._stopped = True
            children = list(self._children)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        for child in children:
            child.wait()
        self._threads.shutdown(wait=True)
        for child in children:
            child.close()

    def _ask(self, request: tuple[Any, ...]) -> Any:
        child: _Child | None = getattr(self._here, "child", None)
        if child is None or child.ended:
            with self._lock:
                if self._stopped:
                    raise ProcessDiedError("it was not begun")
                child = self._here.child = _Child()
                self._children.add(child)
        try:
            return child.ask(request)
        finally:
            if child.ended:
                child.close()
                with self._lock:
                    self._children.discard(child)


class _Child:
    def __init__(self) -> None:
        self.ended = False
        self._child = Child("runtime.process_pool", environment=os.environ)

    def ask(self, request: tuple[Any, ...]) -> Any:
        data = pickle.dumps(request, protocol=5)  # before anything is sent, so that an unpicklable call ends no process
        try:
            self._child.requests.write(data)
            self._child.requests.flush()
            done, value = self._child.receive()
        except (OSError, EOFError, pickle.UnpicklingError):
            self.ended = True
            self.wait()
            raise ProcessDiedError(f"its process {how_it_ended(self._child.process.returncode)}") from None
        if done:
            return value
        raise value

    def terminate(self) -> None:
        self._child.process.terminate()

    def wait(self) -> None:
        self.ended = True
        try:
            self._child.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.process.kill()
            self._child.process.wait()

    def close(self) -> None:
        self._child.close()


def main(mark: bytes) -> None:
    """Answer calls from standard input to standard output, after the line `mark`, until the input is closed."""
    stream, answers = channel(mark)
    for name in ("SIGTERM", "SIGHUP"):  # where the terminal goes away, all processes get the latter
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _leave)
    requests: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(stream, requests), daemon=True).start()
    while (request := requests.get()) is not None:
        call, arguments, named = request
        try:
            answer = pickle.dumps((True, call(*arguments, **named)), protocol=5)
        except Exception as error:
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), protocol=5)
        answers.write(answer)
        answers.flush()


def _leave(*_: object) -> None:
    """Exit as an exception does, so that temporary files are removed."""
    raise SystemExit(1)


def _take(stream: BinaryIO, requests: queue.SimpleQueue[tuple[Any, ...] | None]) -> None:
    """Read calls into a queue; exit the process, even during a computation, when the parent closes the pipe."""
    while True:
        try:
            requests.put(pickle.load(stream))
        except Exception:  # an incomplete call may raise any exception
            requests.put(None)
            os.kill(os.getpid(), signal.SIGTERM)
            return
