"""Run onnxruntime in a child process: crashes, hangs and excessive memory become rejections."""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opshift.opsets.native import sandbox
from opshift.opsets.native.channel import LostError
from opshift.opsets.native.child import Child, how_it_ended, main_of
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import Limits
from opshift.passes.runtime import ort_worker
from opshift.passes.runtime.ort_models import Array, Feeds, RejectedError, RejectionKind
from opshift.passes.runtime.ort_worker import PACKED_TYPES, Part


class Worker:
    """A child process in which onnxruntime runs. It starts with the first request, and restarts after it ends."""

    def __init__(self) -> None:
        """Store the state; the process starts later."""
        self.start = (os.getpid(), 0)
        """The process id and its number of starts: models opened in an earlier start are lost."""
        self._memory: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: tuple[threading.Thread, ...] = ()
        self._requests: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._replies: _Replies = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._dropped: queue.SimpleQueue[tuple[int, tuple[int, int]]] = queue.SimpleQueue()
        self._fed: dict[int, tuple[int, Feeds, int]] = {}
        """The inputs that the child keeps, by id: their number, the inputs, and their size in bytes."""
        self.seconds = 0.0
        """The CPU time of all started processes, up to their last answers."""
        self._before = 0.0

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as its answers show."""
        return self._process is not None

    @contextlib.contextmanager
    def use(self, memory: int | None) -> Iterator[None]:
        """Reserve the process, with this memory limit; if the use is interrupted, end the process.

        Otherwise the next user would receive its late answers.

        Raises:
            RejectedError: onnxruntime does not start.
        """
        with self._lock:
            try:
                if self._process is not None and memory != self._memory:
                    self.stop()
                if self._process is None:
                    self._begin(memory)
                yield
            except RejectedError:
                raise
            except BaseException:
                self.stop()
                raise

    def open(
        self,
        model: str | bytes | list[Part],
        folder: str | None,
        optimised: bool,
        settings: Mapping[str, str],
        limits: Limits,
    ) -> tuple[int, list[str], float]:
        """Open a model, and return its key, the names of its outputs, and the CPU seconds.

        `settings` are session options other than the optimization level.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        key, before = next(self._numbers), self.seconds
        outputs = self._answer(self._send("open", key, model, folder, optimised, limits.results, settings), limits)
        return key, outputs, self.seconds - before

    def run(
        self, key: int, batch: Sequence[Feeds], limits: Limits, *, ran: bool = False, together: bool = True
    ) -> list[tuple[Any, ...] | RejectedError]:
        """Return the outputs of an open model on each input in turn, or the rejections.

        The list ends early after an input that crashes the process, and after many large outputs. If several small
        inputs were sent `together` and the process did not answer, the list ends before them. If the model `ran`
        before, its time limit is shorter.
        """
        done: list[tuple[Any, ...] | RejectedError] = []
        waiting = collections.deque(batch)
        ahead, held = 1, 0
        while waiting and held <= _HELD:
            group = [waiting.popleft()]
            while waiting and len(group) < ahead and sum(map(_size, group)) < _IN_FLIGHT:
                group.append(waiting.popleft())
            began = time.monotonic()
            try:
                answers = self._answer(self._send("run", key, list(map(self._numbered, group))), limits, ran=ran)
            except RejectedError as error:
                return done if len(group) > 1 else [*done, error]
            size = 0
            for outcome, value in answers:
                try:
                    done.append(tuple(self._result(outcome, value)))
                    ran, size = True, size + sum(map(_bytes, value))
                except RejectedError as error:
                    done.append(error)
            if self._process is None:
                break
            waiting.extendleft(reversed(group[len(answers) :]))
            held += size
            slow = not together or size > _IN_FLIGHT * len(group) or time.monotonic() - began > _SLOW
            ahead = 1 if slow else min(2 * ahead, _AHEAD)
        return done

    def compute(
        self, domain: str, name: str, meaning: bytes, operands: Sequence[Any], limits: Limits
    ) -> tuple[Array, ...]:
        """Return the outputs of an operator's oracle for these operands.

        `meaning` is a pickle of the meaning and the keyword arguments.

        Raises:
            RejectedError: it does not accept them, or not within the limits.
        """
        request = self._send("oracle", 0, domain, name, meaning, operands, limits.results)
        return tuple(self._answer(request, limits, ran=True))

    def _numbered(self, feeds: Feeds) -> tuple[int | None, Feeds | None]:
        """Return a number for large inputs, and the inputs if the child does not have them yet.

        Both models get the same inputs, with graph optimizations off and on.
        """
        if known := self._fed.pop(id(feeds), None):
            self._fed[id(feeds)] = known  # so that none of the inputs sent together is the oldest
            return known[0], None
        if (size := _size(feeds)) < _LARGE:
            return None, feeds
        held = sum(kept for _, _, kept in self._fed.values())
        while self._fed and (len(self._fed) >= _KEPT or size + held > _KEEP):
            oldest, _, kept = self._fed.pop(next(iter(self._fed)))
            held -= kept
            self._send("forget", oldest)
        number = next(self._numbers)
        self._fed[id(feeds)] = number, feeds, size  # kept alive, so that its id stays unique
        return number, feeds

    def drop(self, key: int, start: tuple[int, int]) -> None:
        """Release an open model before the next request: the garbage collector may call this at any time."""
        self._dropped.put((key, start))

    def stop(self) -> None:
        """End the process. A forked process has no child of its own, and leaves its parent's alone."""
        process, self._process = self._process, None
        if process is None or self.start[0] != os.getpid():
            return
        process.kill()
        self._requests.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        for thread in self._threads:  # each closes its end
            thread.join(_PATIENCE)

    def _begin(self, memory: int | None) -> None:
        try:
            program, environment = main_of(ort_worker.__name__, memory), sandbox.environment(os.environ)
            child = Child(*program, environment=environment, classes=_CLASSES)
        except OSError as error:
            raise UsageError(f"No child process can be started to run models in: {error}.") from error
        self._process, self._memory = child.process, memory
        self._requests, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self.start = (self.start[0], self.start[1] + 1)
        self._fed.clear()
        self._before = self.seconds
        self._threads = (
            threading.Thread(target=_collect, args=(child, self._replies), daemon=True),
            threading.Thread(target=_deliver, args=(child, self._requests, self._replies), daemon=True),
        )
        for thread in self._threads:
            thread.start()
        try:
            self._answer(None, Limits(_STARTING))
        except RejectedError as error:
            self.stop()
            if memory is None or error.why is not RejectionKind.DEATH:
                raise
            text = f"onnxruntime does not start with {memory} bytes of memory, which is less than it needs: {error}"
            raise RejectedError(text, RejectionKind.LIMIT) from error
        start = self.seconds - self._before  # this time counts for no model
        self.seconds, self._before = self._before, self._before - start

    def _send(self, command: str, *request: Any) -> int:
        """Queue a request, and return its number, which the answer repeats."""
        while not self._dropped.empty():
            key, start = self._dropped.get()
            if start == self.start:
                self._requests.put((None, "close", key))
        number = next(self._numbers)
        self._requests.put((number, command, *request))
        return number

    def _answer(self, number: int | None, limits: Limits, *, ran: bool = False) -> Any:
        """Wait for the answer to a request; raise if there is none."""
        timeout = limits.seconds(ran=ran)
        try:
            reply = self._replies.get(timeout=timeout)
            while isinstance(reply, tuple) and reply[0] not in (number, None):  # it answers an interrupted request
                reply = self._replies.get(timeout=timeout)
        except queue.Empty:
            self.stop()
            if limits.clock is not None:
                limits.clock.lose(timeout)
            raise RejectedError(f"onnxruntime did not finish within {timeout:.3g} s", RejectionKind.LIMIT) from None
        if reply is None:
            assert self._process is not None
            why = RejectionKind.DEATH
            try:
                status = self._process.wait(_PATIENCE)
                died = _death(status)
                if number is not None and status in (1, -_SIGKILL):  # Python, or the system, was out of memory
                    why = RejectionKind.LIMIT
            except subprocess.TimeoutExpired:
                died = "the process that runs onnxruntime returned an unreadable answer"
            self.stop()
            raise RejectedError(died, why)
        if isinstance(reply, Exception):
            raise reply
        _, outcome, value, used = reply
        self.seconds = self._before + used
        return self._result(outcome, value)

    def _result(self, outcome: str, value: Any) -> Any:
        """Return the value of an answer, or raise the error that it reports."""
        if outcome == "memory":
            self.stop()  # onnxruntime never returns memory to the system
            limit = "" if self._memory is None else f", of which it may take {self._memory} bytes"
            raise RejectedError(f"onnxruntime ran out of memory{limit}: {value}", RejectionKind.LIMIT)
        return result_of(outcome, value)


def result_of(outcome: str, value: Any) -> Any:
    """Return the value of an outcome of `ort_worker.outcome_of`, or raise the error that it reports."""
    if outcome == "failed":
        raise RuntimeError(value)
    if outcome != "done":
        raise RejectedError(value, _KINDS.get(outcome, RejectionKind.REJECTED))
    return value


_KINDS = {
    "missing kernel": RejectionKind.MISSING_KERNEL,
    "large": RejectionKind.LARGE,
    "memory": RejectionKind.LIMIT,
}


_Replies = queue.SimpleQueue[tuple[int | None, str, Any, float] | Exception | None]


_CLASSES = frozenset(
    (
        *(("numpy", name) for name in ("dtype", "ndarray")),
        *(
            (f"numpy.{core}.{module}", name)  # until numpy 2, the package is called core
            for core in ("_core", "core")
            for module, name in (("numeric", "_frombuffer"), ("multiarray", "_reconstruct"), ("multiarray", "scalar"))
        ),
        *(("ml_dtypes", dtype.type.__name__) for dtype, _ in PACKED_TYPES.values()),
    )
)
"""The classes and functions that pickles of arrays contain."""


def _collect(child: Child, replies: _Replies) -> None:
    """Hand on what a child answers, and None when it has ended."""
    with child.incoming, contextlib.suppress(LostError, MemoryError):
        while True:
            replies.put(child.receive())
    replies.put(None)


def _deliver(child: Child, requests: queue.SimpleQueue[tuple[Any, ...] | None], replies: _Replies) -> None:
    """Send requests to a child: one that hangs, and reads no more, holds up nothing but this thread."""
    try:
        while (request := requests.get()) is not None:
            child.send(request)
    except OSError:
        pass  # it has ended, which the answer reports
    except Exception as error:  # unpicklable objects may raise any exception
        replies.put(error)
    finally:
        with contextlib.suppress(OSError):
            child.outgoing.close()


def _size(feeds: Feeds) -> int:
    """Return the approximate size of inputs in bytes."""
    return sum(map(_bytes, feeds.values()))


def _bytes(value: Any) -> int:
    """Return the approximate size in bytes of an array, or of a list or dict of arrays."""
    if isinstance(value, list | dict):
        return sum(map(_bytes, value.values() if isinstance(value, dict) else value))
    return int(getattr(value, "nbytes", 0))


def _death(status: int) -> str:
    return f"onnxruntime {how_it_ended(status)}"


_SIGKILL = 9
_AHEAD = 64  # maximum number of inputs that are sent together
_IN_FLIGHT = 32 * 1024  # bytes of inputs, or of one output, above which inputs are sent one by one
_SLOW = 0.1  # seconds of an answer after which inputs are sent one by one
_HELD = 2**25  # bytes of outputs after which a batch ends early
_LARGE = 4096  # minimum bytes of inputs that are sent only once
_KEPT = 64  # number of such inputs that the child keeps
_KEEP = 2**25  # maximum bytes of these
_STARTING = 60.0  # seconds to start: importing does not count for any model
_PATIENCE = 5.0  # seconds to wait for a process that has ended or was killed


def worker() -> Worker:
    """Return the child of this process, which all callers share. A forked process has its own."""
    return _worker(os.getpid())


@functools.cache
def _worker(process: int) -> Worker:
    worker = Worker()
    atexit.register(worker.stop)
    return worker


def seconds() -> float:
    """Return the CPU time of this process and of its onnxruntime child."""
    return time.process_time() + worker().seconds
