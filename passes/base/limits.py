"""Time and memory limits of a verification: as requested, or derived from the size of the models."""

from __future__ import annotations

import math
import numbers
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from opshift.opsets.registry.facts import facts_of_type
from opshift.passes.base.errors import UsageError
from opshift.passes.base.memory import LEAST_ASKED, MOST_ASKED, machine_memory

GIB = 2**30

LEAST_MEMORY = GIB
"""Bytes that onnxruntime may take for the smallest of models."""

_BARE = GIB // 2
"""Bytes for the process itself, and for values of which nothing is declared."""

_COPIES = 8
"""A weight is in the file's bytes, in the protobuf, in the session and packed for a kernel; two sessions are open."""

_VALUES = 4
"""Buffers of the largest values that are alive at once: inputs, output, and what a kernel needs beside."""

_RESULTS = 32
"""The part of the memory that the outputs of one run may have: some of those are held at the same time."""

LEAST_TIME = 600.0
"""Seconds that the verification of the smallest of models may take."""

PATIENCE = 20.0
"""Seconds in all that runs may take which do not end in them."""

_PER_SECOND = 25e6
"""Bytes of weights and values that one thread of a slow machine at least reads, packs or computes in a second."""

_NODES_PER_SECOND = 500
"""Nodes that onnxruntime at least optimises in a second."""


class DeadlineError(Exception):
    """A computation takes longer than allowed."""


class Deadline:
    """The point in time at which a computation stops, even if unfinished."""

    def __init__(self, seconds: float) -> None:
        """Begin to count."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise DeadlineError once the time is over."""
        if time.monotonic() > self._end:
            raise DeadlineError

    def left(self) -> float:
        """Return the seconds that are left, or 0."""
        return max(0.0, self._end - time.monotonic())


class Clock:
    """The remaining time of a verification, and the part of it that may be lost on runs that do not end."""

    def __init__(self, total: float, patience: float) -> None:
        """Begin to count."""
        self.total = total
        self._end = time.monotonic() + total
        self._patience = min(patience, total)
        self._lost = 0.0

    def left(self, share: float = 1.0) -> float:
        """Return the seconds that the next step may take: a share of the patience, or 0 if the time is over."""
        return max(0.0, min(self._end - time.monotonic(), self._patience - self._lost, self._patience * share))

    def lose(self, seconds: float) -> None:
        """Count a step that did not end in so many seconds."""
        self._lost += seconds

    @property
    def reason(self) -> str:
        """Say why nothing more is run."""
        if self._end > time.monotonic():
            return "onnxruntime did not finish in time before, so nothing more is run; --timeout gives it longer"
        return f"the verification's time is over, which is {self.total:g} s; --timeout gives it longer"


@dataclass(frozen=True)
class Limits:
    """Time and memory limits of one model in onnxruntime.

    Attributes:
        timeout: seconds to open it, or to run it once.
        memory: bytes of the process (None: no limit). It is limited where the system does so (RLIMIT_DATA: Linux).
        results: bytes of the outputs of one run, which both processes hold, and this one several times.
        clock: what all steps of a verification have together.
    """

    timeout: float = 120.0
    memory: int | None = None
    results: int = GIB
    clock: Clock | None = field(default=None, compare=False)

    def seconds(self, *, ran: bool = False) -> float:
        """Return how long the next step may take: less where the model `ran` before."""
        return self.timeout if self.clock is None else min(self.timeout, self.clock.left(0.25 if ran else 0.5))


def check(seed: object, timeout: object, memory: object) -> None:
    """Raise UsageError for a seed, a time or a size of memory that is none."""
    if not _is_whole(seed, 0):
        raise UsageError(f"seed is a whole number, 0 or more, not {seed!r}.")
    if memory is not None and not _is_whole(memory, LEAST_ASKED, MOST_ASKED):
        raise UsageError(f"memory is a number of bytes, {LEAST_ASKED} (64 MiB) to {MOST_ASKED}, not {memory!r}.")
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < float(timeout) < threading.TIMEOUT_MAX):  # type: ignore[arg-type]
        raise UsageError(f"timeout is a number of seconds, more than 0, not {timeout!r}.")


def _is_whole(value: object, least: int, most: float = math.inf) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= int(value) <= most


def limits(timeout: float | None, memory: int | None, models: Iterable[onnx.ModelProto]) -> Limits:
    """Return the limits of a verification of these models: as asked for (None: as their sizes need)."""
    sizes = [_Size.of(model) for model in models]
    weights = max((size.weights for size in sizes), default=0)
    values = max((size.values for size in sizes), default=0)
    nodes = max((size.nodes for size in sizes), default=0)
    slow = (weights + values) / _PER_SECOND + nodes / _NODES_PER_SECOND
    clock = Clock(LEAST_TIME + 10 * slow, PATIENCE + slow) if timeout is None else Clock(timeout, timeout)
    if memory is None:
        memory = min(_rounded(max(LEAST_MEMORY, _BARE + _COPIES * weights + _VALUES * values)), machine_memory())
    results = max(min(memory // _RESULTS, GIB), min(values, memory))
    return Limits(clock.total, memory, results, clock)


def _rounded(size: int) -> int:
    """Return the next power of two: another limit needs another process."""
    return 1 << (size - 1).bit_length()


@dataclass(frozen=True)
class _Size:
    """About how many bytes a model's weights and the values beside them have, and how many nodes it has."""

    weights: int
    values: int
    nodes: int

    @staticmethod
    def of(model: onnx.ModelProto) -> _Size:
        graph = model.graph
        inputs = sum(map(_declared, graph.input))
        values = max([_WITHIN * inputs, sum(map(_declared, graph.output)), *map(_declared, graph.value_info)])
        if values > machine_memory():  # it runs nowhere, however much it may take
            values = 0
        weights = sum(_bytes(tensor.data_type, tensor.dims) for tensor in graph.initializer)
        return _Size(weights, values, len(graph.node))


_WITHIN = 16
"""So many times as large as all inputs may be what is made of them on the way: images have many channels there."""


def _declared(value: onnx.ValueInfoProto) -> int:
    """Return about how many bytes a value of a declared shape has; open dims count as 1."""
    facts = facts_of_type(value.type)
    return 0 if facts.shape is None else _bytes(facts.dtype or 0, (dim for dim in facts.shape if isinstance(dim, int)))


def _bytes(element_type: int, dims: Iterable[int]) -> int:
    return math.prod(dims) * (8 if element_type in _WIDE else 4)


_WIDE = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT64, onnx.TensorProto.STRING})
