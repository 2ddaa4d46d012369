"""Provide an executor that survives crashes of its child processes: a crash fails only one call.

`concurrent.futures.ProcessPoolExecutor` fails all waiting calls when a process dies, and imports the program's main
module again in each process, which then needs a guard.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from opshift.opsets.native import sandbox
from opshift.opsets.native.channel import Channel, LostError
from opshift.opsets.native.child import Child, how_it_ended, main_of

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
        self._child = Child(*main_of(__name__), environment=os.environ)

    def ask(self, request: tuple[Any, ...]) -> Any:
        try:
            self._child.send_whole(request)
            done, value = self._child.receive()
        except (OSError, LostError):
            raise ProcessDiedError(f"its process {how_it_ended(self.wait())}") from None
        if done:
            return value
        raise value

    def terminate(self) -> None:
        self._child.process.terminate()

    def wait(self) -> int:
        self.ended = True
        return self._child.wait(PATIENCE)

    def close(self) -> None:
        self._child.close()


def main(mark: str) -> None:
    """Answer calls until the input is closed."""
    channel = Channel(*sandbox.streams(mark))
    for name in ("SIGTERM", "SIGHUP"):  # where the terminal goes away, all processes get the latter
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _leave)
    requests: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(channel, requests), daemon=True).start()
    while (request := requests.get()) is not None:
        call, arguments, named = request
        try:
            channel.send_whole((True, call(*arguments, **named)))
        except Exception as error:
            channel.send_whole((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _leave(*_: object) -> None:
    """Exit as an exception does, so that temporary files are removed."""
    raise SystemExit(1)


def _take(channel: Channel, requests: queue.SimpleQueue[tuple[Any, ...] | None]) -> None:
    """Read calls into a queue; exit the process, even during a computation, when the parent closes the pipe."""
    while True:
        try:
            requests.put(channel.receive())
        except (LostError, MemoryError):
            requests.put(None)
            os.kill(os.getpid(), signal.SIGTERM)
            return
