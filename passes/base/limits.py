"""Time and memory limits of a verification: as requested, or derived from the size of the models."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from opshift.opsets.registry.facts import facts_of_type
from opshift.passes.base.memory import machine_memory

GIB = 2**30

LEAST_MEMORY = GIB
"""The minimum memory limit of onnxruntime, in bytes, used for the smallest models."""

_BARE = GIB // 2
"""Bytes for the process itself, and for values without a declared shape."""

_COPIES = 8
"""The copies of a weight: file's bytes, protobuf, session, packed for a kernel; two sessions are open."""

_VALUES = 4
"""The buffers of the largest values that are alive at once: inputs, output, and a kernel's workspace."""

_RESULTS = 32
"""The fraction (1/n) of the memory that the outputs of one run may use: some outputs exist at the same time."""

LEAST_TIME = 600.0
"""The minimum time limit of a verification in seconds, used for the smallest models."""

PATIENCE = 20.0
"""The total seconds that may be lost on runs that do not finish."""

_PER_SECOND = 25e6
"""Bytes of weights and values that one thread of a slow machine reads, packs or computes in a second."""

_NODES_PER_SECOND = 500
"""Nodes that onnxruntime optimizes in a second on a slow machine."""


class DeadlineError(Exception):
    """A computation takes longer than allowed."""


class Deadline:
    """The point in time at which a computation stops, even if unfinished."""

    def __init__(self, seconds: float) -> None:
        """Start the clock."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise DeadlineError once the time is over."""
        if time.monotonic() > self._end:
            raise DeadlineError

    def left(self) -> float:
        """Return the remaining seconds, or 0."""
        return max(0.0, self._end - time.monotonic())


class Clock:
    """The remaining time of a verification, and the part of it that may be lost on runs that do not finish."""

    def __init__(self, total: float, patience: float) -> None:
        """Start the clock."""
        self.total = total
        self._end = time.monotonic() + total
        self._patience = min(patience, total)
        self._lost = 0.0

    def left(self, share: float = 1.0) -> float:
        """Return the seconds that the next step may take: a share of the time for lost runs, or 0 after the end."""
        return max(0.0, min(self._end - time.monotonic(), self._patience - self._lost, self._patience * share))

    def lose(self, seconds: float) -> None:
        """Count a step that did not finish within this many seconds."""
        self._lost += seconds

    @property
    def reason(self) -> str:
        """Return the reason why no further run is started."""
        if self._end > time.monotonic():
            return "onnxruntime did not finish in time before, so nothing more is run; --timeout gives it longer"
        return f"the verification's time is over, which is {self.total:g} s; --timeout gives it longer"


@dataclass(frozen=True)
class Limits:
    """Time and memory limits of one model in onnxruntime.

    Attributes:
        timeout: seconds to open it, or to run it once.
        memory: bytes of the process (None: no limit). It is enforced only if the system supports it (RLIMIT_DATA:
            Linux).
        results: bytes of the outputs of one run; both processes hold them, and this process several times.
        clock: the time that all steps of a verification share.
        inside: whether oracles run in this process, for a few numbers whose results are known to be few.
    """

    timeout: float = 120.0
    memory: int | None = None
    results: int = GIB
    clock: Clock | None = field(default=None, compare=False)
    inside: bool = False

    def seconds(self, *, ran: bool = False) -> float:
        """Return the seconds that the next step may take: fewer if the model `ran` before."""
        return self.timeout if self.clock is None else min(self.timeout, self.clock.left(0.25 if ran else 0.5))


def limits(timeout: float | None, memory: int | None, models: Iterable[onnx.ModelProto]) -> Limits:
    """Return the limits of a verification of these models: as requested, or derived from their sizes (None)."""
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
    """Return the next power of two, because a different limit needs a new process."""
    return 1 << (size - 1).bit_length()


@dataclass(frozen=True)
class _Size:
    """The approximate size of a model: bytes of weights, bytes of other values, number of nodes."""

    weights: int
    values: int
    nodes: int

    @staticmethod
    def of(model: onnx.ModelProto) -> _Size:
        graph = model.graph
        inputs = sum(map(_declared, graph.input))
        values = max([_WITHIN * inputs, sum(map(_declared, graph.output)), *map(_declared, graph.value_info)])
        if values > machine_memory():  # no machine can run it, whatever the limit
            values = 0
        weights = sum(_bytes(tensor.data_type, tensor.dims) for tensor in graph.initializer)
        return _Size(weights, values, len(graph.node))


_WITHIN = 16
"""The assumed ratio of intermediate values to all inputs: images have many channels there."""


def _declared(value: onnx.ValueInfoProto) -> int:
    """Return the approximate size in bytes of a value with a declared shape; dynamic dims count as 1."""
    facts = facts_of_type(value.type)
    return 0 if facts.shape is None else _bytes(facts.dtype or 0, (dim for dim in facts.shape if isinstance(dim, int)))


def _bytes(element_type: int, dims: Iterable[int]) -> int:
    return math.prod(dims) * (8 if element_type in _WIDE else 4)


_WIDE = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT64, onnx.TensorProto.STRING})
