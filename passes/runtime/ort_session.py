"""onnxruntime behind a few names: which models it loads, how one is opened, how it runs.

Sessions open and run in a child process (child.py), under limits of time and memory: a model that crashes, hangs or
eats memory there is a rejection here.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import enum
import functools
import itertools
import os
import pickle
import queue
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from google.protobuf.message import EncodeError

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.equivalences import same_meaning
from opshift.opsets.registry.facts import Facts, freeze
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import Lifted, Node, lift, operator_for
from opshift.opsets.registry.schema import OLDEST
from opshift.opsets.runtimes import kernels
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import Limits as Limits
from opshift.passes.graph import traversal
from opshift.passes.io import external_data, reader, serialization
from opshift.passes.io.model_forms import Model, as_model
from opshift.passes.io.repairs import read_as
from opshift.passes.runtime import process_pool
from opshift.passes.runtime.ort_worker import Part

Array = npt.NDArray[Any]
Feeds = Mapping[str, Any]


class RejectionKind(enum.StrEnum):
    """Why onnxruntime rejects a model."""

    REJECTED = "rejected"
    MISSING_KERNEL = "missing kernel"
    """No kernel exists for an operator with these element types."""
    TOO_NEW = "too new"
    """It does not load the opset, at which an operator changed."""
    LIMIT = "limit"
    """It took too long, or too much memory."""
    DEATH = "death"
    """Its process ended."""
    LARGE = "large"
    """Its outputs are larger than may be compared."""


class RejectedError(Exception):
    """onnxruntime does not load a model, or does not run it on an input; the text says why, in one line."""

    def __init__(self, reason: str, why: RejectionKind = RejectionKind.REJECTED) -> None:
        """Keep the reason and its kind."""
        self.why = why
        super().__init__(reason)


class ExcludedError(RejectedError):
    """An operator's text excludes inputs, by its oracle or by onnx's inference, whatever onnxruntime makes of them."""


@dataclass(frozen=True)
class Runnable:
    """A model to open: the protobuf, whose weights may be external, and where those weights are.

    `path` is set where onnxruntime can read the file itself, `directory` where external data are relative to one.
    `named` is the file as the user calls it; empty for a protobuf.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    directory: Path | None = None
    named: str = ""
    origin: reader.Source | None = None
    """What was read from a file, which must not change while it is compared."""


def read(
    model: Model | Runnable,
    directory: str | os.PathLike[str] | None = None,
    allow_paths: Iterable[str | os.PathLike[str]] = (),
    assume_opset: int | None = None,
) -> Runnable:
    """Return the source for a path (.onnx or ONNX text) or a protobuf, and one as it is; weights of files stay there.

    With `assume_opset` the model is read as one of that opset, whatever it declares.

    Weights that are reached by links are named by their real paths.

    Raises:
        InvalidModelError: the file is missing, unreadable, not ONNX, or its external data are unsafe to open.
    """
    folder = None if directory is None else Path(directory)
    if isinstance(model, Runnable):
        return model
    given = as_model(model)
    if isinstance(given, onnx.ModelProto):
        return Runnable(given if assume_opset is None else read_as(given, assume_opset)[0], directory=folder)
    loaded = reader.load(given, allow_paths, assume_opset)
    named = os.fspath(given) if isinstance(given, str | os.PathLike) else ""
    if loaded.directory is not None:
        # onnxruntime 1.32.0 does not load a model whose inference needs elements that are in another file (Slice).
        proto = external_data.with_small(loaded.model, loaded.files)
        proto, folder = external_data.relocated(proto, loaded.files, loaded.directory)
        if proto is not loaded.model:
            return Runnable(proto, directory=folder, named=named, origin=loaded)
    binary = loaded.path is not None and not reader.is_text(loaded.path) and not loaded.repairs
    return Runnable(loaded.model, loaded.path if binary else None, loaded.directory, named, loaded)


@functools.cache
def runtime() -> Any:
    """Return the module onnxruntime.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError(
            "Verification runs the models in onnxruntime, which is not installed. Install it with "
            "`pip install 'onnxruntime>=1.32'`, or switch verification off (--no-verify, verify=False)."
        ) from error
    return onnxruntime


def name() -> str:
    """Return onnxruntime's name with its version, as a reference is named in a report."""
    return f"onnxruntime {runtime().__version__}"


def newest_opset() -> int:
    """Return the newest opset of the default domain that the installed onnxruntime loads."""
    return kernels.newest_opset() or 7


def newest_ir_version() -> int:
    """Return the newest ir_version that the installed onnxruntime loads."""
    return kernels.newest_ir_version()


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a model that onnxruntime runs: of its graph and its functions, but not of its training."""
    for graph in (model.graph, *model.functions):
        yield from traversal.nested_nodes(graph)


def opset(model: onnx.ModelProto) -> int:
    """Return the opset of the default domain that a model imports; 0 where it imports none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _relabelled(node: onnx.NodeProto, old: int, new: int) -> bool:
    """Make a node of the default domain mean at opset `new` what it means at `old`; return whether that can be.

    It can where the operator has the same version at both, where the two texts differ in nothing but the types, where
    the reviewed table joins the versions for what the node has, and where the operator's own file gives the node one
    meaning at both. Attributes that only the old opset knows, and that add nothing, are dropped.
    """
    try:
        before, after = (onnx.defs.get_schema(node.op_type, version, "") for version in (old, new))
    except onnx.defs.SchemaError:
        return False
    if before.since_version == after.since_version or _text(before) == _text(after):
        return True
    attributes = {attribute.name: _value(attribute) for attribute in node.attribute}
    only_before = {name: value for name, value in attributes.items() if name not in after.attributes}
    reviewed = same_meaning(node.op_type, before.since_version, after.since_version)
    if reviewed is not None:
        same = not reviewed.lost(attributes)
    elif new == OLDEST:
        same = _one_meaning(node, attributes, before.since_version, after.since_version)
    else:
        defaults = {name: before.attributes[name].default_value for name in only_before}
        same = _one_meaning(node, attributes, before.since_version, after.since_version) and all(
            value == _value(defaults[name]) for name, value in only_before.items()
        )
    if same:
        kept = [attribute for attribute in node.attribute if attribute.name not in only_before]
        del node.attribute[:]
        node.attribute.extend(kept)
    return same


def _value(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    return tuple(value) if attribute.type in _LISTS else value


_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)


def _one_meaning(node: onnx.NodeProto, attributes: Mapping[str, Any], *versions: int) -> bool:
    """Return whether the operator has a file in which these versions of the node have the same meaning."""
    operator = operator_for("", node.op_type)
    if operator is None:
        return False
    given = {key: freeze(value.decode() if isinstance(value, bytes) else value) for key, value in attributes.items()}
    facts = tuple(Facts() if name else None for name in node.input)
    used = tuple(bool(name) for name in node.output)
    lifted = []
    for version in versions:
        known = onnx.defs.get_schema(node.op_type, version, "").attributes
        own = {name: value for name, value in given.items() if name in known}
        lifted.append(lift(operator, Node("", node.op_type, version, own, facts, used), "runtime"))
    meanings = {(one.meaning, one.operands) for one in lifted if isinstance(one, Lifted)}
    return len(meanings) == 1 and all(isinstance(one, Lifted) for one in lifted)


def _text(schema: Any) -> tuple[Any, ...]:
    """Return what a schema says, but for the types that it allows."""
    attributes = {
        name: (one.type, one.required, one.description, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    parameters = [(one.name, one.type_str, one.option, one.description) for one in (*schema.inputs, *schema.outputs)]
    return schema.doc, attributes, parameters


def fit(source: Runnable) -> tuple[Runnable, str]:
    """Return a source that onnxruntime loads, and what was relabelled for that (empty if nothing).

    A model newer than onnxruntime is read at the newest opset and ir_version that it loads, which changes nothing
    where every operator means the same at both. So is one of opset 1 to 6 at opset 7, the first that onnxruntime has
    all kernels of; where an operator differs, it stays as it is.

    Raises:
        RejectedError: some operator differs between the model's opset and the newest one that onnxruntime loads, or
            onnxruntime would inline a body that does not compute what the operator says.
    """
    old, newest = opset(source.proto), newest_opset()
    _refuse_wrong_bodies(source.proto, min(old, newest))
    oldest_ir = min(source.proto.ir_version, newest_ir_version())
    lacking = any(_missing_outputs(node) for node in nodes(source.proto))
    if old < OLDEST and (read := _read_at_oldest(source.proto, old)) is not None:
        found, note = fit(replace(source, proto=read, path=None))
        relabelled = f"opset {old} was read as {OLDEST}, where every operator means the same"
        return found, ", ".join(filter(None, (relabelled, note)))
    if old <= newest and oldest_ir == source.proto.ir_version and not lacking:
        return source, ""
    notes = []
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    if lacking:
        notes.append(_with_outputs(proto))
    if old > newest:
        for node in nodes(proto):
            if node.domain in ("", "ai.onnx") and not _relabelled(node, old, newest):
                version = onnx.defs.get_schema(node.op_type, old, "").since_version
                raise RejectedError(
                    f"{name()} loads opsets up to {newest} and has no {node.op_type}-{version}", RejectionKind.TOO_NEW
                )
        for entry in (entry for holder in (proto, *proto.functions) for entry in holder.opset_import):
            if entry.domain in ("", "ai.onnx"):
                entry.version = newest
        notes.append(f"opset {old} was read as {newest}, where every operator means the same")
    if oldest_ir != proto.ir_version:
        notes.append(f"ir_version {proto.ir_version} was read as {oldest_ir}")
        proto.ir_version = oldest_ir
    return replace(source, proto=proto, path=None), ", ".join(notes)


def _read_at_oldest(model: onnx.ModelProto, old: int) -> onnx.ModelProto | None:
    """Return a model of opset 1 to 6 as one of opset 7; None where an operator does not mean the same there."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    if not all(_relabelled(node, old, OLDEST) for node in nodes(proto) if node.domain in ("", "ai.onnx")):
        return None
    for entry in (entry for holder in (proto, *proto.functions) for entry in holder.opset_import):
        if entry.domain in ("", "ai.onnx"):
            entry.version = OLDEST
    return proto


def _refuse_wrong_bodies(model: onnx.ModelProto, opset: int) -> None:
    names = {node.op_type for node in nodes(model) if node.domain in ("", "ai.onnx")}
    wrong_bodies = {one: why for one in sorted(names) if (why := kernels.wrong_body(one, opset))}
    if not wrong_bodies:
        return
    found = [node for node in nodes(model) if node.domain in ("", "ai.onnx") and node.op_type in wrong_bodies]
    types = traversal.declared_types(model)
    for node in found:
        inlined = wrong_bodies[node.op_type]
        if inlined.of(types.get(node.input[0] if node.input else "") or None):
            reason = f"{name()} inlines the body of {node.op_type}, where {inlined.reason}"
            raise RejectedError(reason, RejectionKind.MISSING_KERNEL)


def _missing_outputs(node: onnx.NodeProto) -> int:
    """Return how many outputs a node lacks for onnxruntime to compute those that it has."""
    wanted = traits_of(node).outputs_for
    most = max((count for place, count in wanted.items() if any(node.input[place : place + 1])), default=0)
    return max(0, most - sum(map(bool, node.output)))


def _with_outputs(model: onnx.ModelProto) -> str:
    """Give nodes the outputs that they lack, and return what is to be said of it."""
    completed = dict[str, None]()
    for place, node in enumerate(nodes(model)):
        if lacking := _missing_outputs(node):
            most = sum(map(bool, node.output)) + lacking
            names = [*node.output, *[""] * most][:most]
            node.output[:] = [name or f"{names[0]}/{place}/{index}" for index, name in enumerate(names)]
            completed[node.op_type] = None
    return f"{', '.join(completed)} has all its outputs, without which {name()} does not compute the first"


_UNFIT = ("bound to different types", "of input parameter (")
"""What onnxruntime says of types that an operator does not take: of a node, or of a body that it inlines."""


def _fits(model: onnx.ModelProto) -> bool:
    """Return whether onnx finds nothing wrong with the types of a model."""
    try:
        onnx_process.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


class Worker:
    """A child process in which onnxruntime runs. It is started when first asked, and again after it has ended."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self.start = (os.getpid(), 0)
        """Which start of which process this is: what was opened in one is gone in the next."""
        self._memory: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: tuple[threading.Thread, ...] = ()
        self._requests: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._replies: _Replies = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._dropped: queue.SimpleQueue[tuple[int, tuple[int, int]]] = queue.SimpleQueue()
        self._fed: dict[int, tuple[int, Feeds]] = {}
        self.seconds = 0.0
        """CPU time of all processes that were started, as far as they have answered."""
        self._before = 0.0

    @contextlib.contextmanager
    def use(self, memory: int | None) -> Iterator[None]:
        """Have the process to oneself, with this limit of memory; where the use is broken off, it is ended.

        What it would still have answered, the next one to use it would take for its own.

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
        self, model: str | bytes | list[Part], folder: str | None, optimised: bool, limits: Limits
    ) -> tuple[int, list[str], float]:
        """Open a model, and return its key, the names of its outputs, and the CPU seconds that it took.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        key, before = next(self._numbers), self.seconds
        outputs = self._answer(self._send("open", key, model, folder, optimised, limits.results), limits)
        return key, outputs, self.seconds - before

    def run(
        self, key: int, batch: Sequence[Feeds], limits: Limits, *, ran: bool = False
    ) -> list[tuple[Any, ...] | RejectedError]:
        """Return the outputs of an open model on each input, or why onnxruntime does not run it; one follows the other.

        After an input that ends the process comes none: the list is shorter then. So it is after many large outputs.
        Where the model `ran` before, it has less time.
        """
        done: list[tuple[Any, ...] | RejectedError] = []
        sent: collections.deque[tuple[int, int]] = collections.deque()
        waiting = collections.deque(batch)
        ahead, held = 1, 0
        while sent or waiting:
            while waiting and len(sent) < ahead and sum(size for _, size in sent) < _IN_FLIGHT:
                number, feeds = self._numbered(waiting.popleft())
                sent.append((self._send("run", key, number, feeds), _size(feeds or {})))
            try:
                outputs = tuple(self._answer(sent.popleft()[0], limits, ran=ran))
                done.append(outputs)
                ran = True
            except RejectedError as error:
                done.append(error)
                if self._process is None:
                    break
            else:
                held += (size := sum(map(_bytes, outputs)))
                ahead = 1 if size > _IN_FLIGHT else min(2 * ahead, _AHEAD)
                if held > _HELD:
                    waiting.clear()
        return done

    def compute(
        self, domain: str, name: str, meaning: bytes, operands: Sequence[Any], limits: Limits
    ) -> tuple[Array, ...]:
        """Return what the oracle of an operator makes of these operands.

        Raises:
            RejectedError: it does not accept them, or not within the limits.
        """
        request = self._send("oracle", 0, domain, name, meaning, operands, limits.results)
        return tuple(self._answer(request, limits, ran=True))

    def _numbered(self, feeds: Feeds) -> tuple[int | None, Feeds | None]:
        """Return a number for large inputs, and the inputs where the child does not have them yet.

        The same inputs go to both models, with graph optimisations off and on.
        """
        if known := self._fed.get(id(feeds)):
            return known[0], None
        if _size(feeds) < _LARGE:
            return None, feeds
        size = _size(feeds)
        while self._fed and (
            len(self._fed) >= _KEPT or size + sum(_size(one) for _, one in self._fed.values()) > _KEEP
        ):
            oldest = next(iter(self._fed))
            self._send("forget", self._fed.pop(oldest)[0])
        number = next(self._numbers)
        self._fed[id(feeds)] = number, feeds  # held, so that nothing else gets its id
        return number, feeds

    def drop(self, key: int, start: tuple[int, int]) -> None:
        """Release an open model before the next request: a collected session may call this at any time."""
        self._dropped.put((key, start))

    def stop(self) -> None:
        """End the process. One that was forked off has none of its own, and leaves its parent's alone."""
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
        mark = f"opshift {uuid.uuid4()}"
        try:
            process = process_pool.started("runtime.ort_worker", memory, mark)
        except OSError as error:
            raise UsageError(f"No child process can be started to run models in: {error}.") from error
        self._process, self._memory = process, memory
        self._requests, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self.start = (self.start[0], self.start[1] + 1)
        self._fed.clear()
        self._before = self.seconds
        self._threads = (
            threading.Thread(target=_collect, args=(process, mark.encode(), self._replies), daemon=True),
            threading.Thread(target=_deliver, args=(process, self._requests, self._replies), daemon=True),
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
        start = self.seconds - self._before  # which counts for no model
        self.seconds, self._before = self._before, self._before - start

    def _send(self, kind: str, *request: Any) -> int:
        """Hand a request over to be sent, and return its number, which the answer has too."""
        while not self._dropped.empty():
            key, start = self._dropped.get()
            if start == self.start:
                self._requests.put((None, "close", key))
        number = next(self._numbers)
        self._requests.put((number, kind, *request))
        return number

    def _answer(self, number: int | None, limits: Limits, *, ran: bool = False) -> Any:
        """Wait for the answer to a request; raise for what is none."""
        timeout = limits.seconds(ran=ran)
        try:
            reply = self._replies.get(timeout=timeout)
            while isinstance(reply, tuple) and reply[0] not in (number, None):  # it is for one that was broken off
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
                if number is not None and status in (1, -_SIGKILL):  # Python had no memory left, or the system
                    why = RejectionKind.LIMIT
            except subprocess.TimeoutExpired:
                died = "the process that runs onnxruntime returned an unreadable answer"
            self.stop()
            raise RejectedError(died, why)
        if isinstance(reply, Exception):
            raise reply
        _, outcome, value, used = reply
        self.seconds = self._before + used
        if outcome == "memory":
            self.stop()  # onnxruntime keeps what it once had
            limit = "" if self._memory is None else f", of which it may take {self._memory} bytes"
            raise RejectedError(f"onnxruntime ran out of memory{limit}: {value}", RejectionKind.LIMIT)
        if outcome == "failed":
            raise RuntimeError(value)
        if outcome != "done":
            raise RejectedError(
                value,
                {"missing kernel": RejectionKind.MISSING_KERNEL, "large": RejectionKind.LARGE}.get(
                    outcome, RejectionKind.REJECTED
                ),
            )
        return value


_Replies = queue.SimpleQueue[tuple[int | None, str, Any, float] | Exception | None]


def _collect(process: subprocess.Popen[bytes], mark: bytes, replies: _Replies) -> None:
    """Hand on what a child answers, and None when it has ended.

    The answers come after a line that nobody else writes: what Python prints before, in a sitecustomize.py, is none.
    """
    assert process.stdout is not None
    with process.stdout as stream, contextlib.suppress(Exception):  # bytes that are no pickle raise anything
        for line in stream:
            while line.rstrip() == mark:
                replies.put(pickle.load(stream))
    replies.put(None)


def _deliver(
    process: subprocess.Popen[bytes], requests: queue.SimpleQueue[tuple[Any, ...] | None], replies: _Replies
) -> None:
    """Send requests to a child: one that hangs, and reads no more, holds up nothing but this thread."""
    assert process.stdin is not None
    try:
        while (request := requests.get()) is not None:
            pickle.dump(request, process.stdin, protocol=5)
            process.stdin.flush()
    except OSError:
        pass  # it has ended, which the answer tells
    except Exception as error:  # what cannot be pickled may raise anything
        replies.put(error)
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _size(feeds: Feeds) -> int:
    """Return about how many bytes inputs have."""
    return sum(map(_bytes, feeds.values()))


def _bytes(value: Any) -> int:
    """Return about how many bytes a value has: an array, or a list or dict of them."""
    if isinstance(value, list | dict):
        return sum(map(_bytes, value.values() if isinstance(value, dict) else value))
    return int(getattr(value, "nbytes", 0))


def _death(status: int) -> str:
    return f"onnxruntime {process_pool.killed(status) if status < 0 else f'ended its process with status {status}'}"


_SIGKILL = 9
_AHEAD = 16  # requests sent before their turn
_IN_FLIGHT = 32 * 1024  # bytes of inputs from which on none is sent before its turn
_HELD = 2**25  # bytes of outputs after which a batch ends early
_LARGE = 4096  # bytes of inputs that are sent once only
_KEPT = 64  # of which the child keeps so many
_KEEP = 2**25  # bytes that these may have
_STARTING = 60.0  # seconds to start in: importing does not count for any model
_PATIENCE = 5.0  # seconds in which a process that has ended, or was killed, is gone


def worker() -> Worker:
    """Return the child of this process: one, used again by all that comes after. A forked process has its own."""
    return _worker(os.getpid())


@functools.cache
def _worker(process: int) -> Worker:
    worker = Worker()
    atexit.register(worker.stop)
    return worker


def time_is_over(limits: Limits) -> RejectedError | None:
    """Return the rejection of whatever is asked once the time is over."""
    clock = limits.clock
    return RejectedError(clock.reason, RejectionKind.LIMIT) if clock is not None and clock.left() <= 0 else None


def seconds() -> float:
    """Return the CPU time of this process and of its child in which onnxruntime runs."""
    return time.process_time() + worker().seconds


class Session:
    """A model opened in onnxruntime on the CPU with one thread, graph optimisations all on or all off."""

    def __init__(self, source: Runnable, *, optimised: bool, limits: Limits = Limits()) -> None:  # noqa: B008 (frozen)
        """Load the model, from its file where there is one.

        External data of a protobuf are read from the source's directory, through the session option that names it:
        nothing is written there.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        runtime()
        self._source = source
        self._optimised = optimised
        self._limits = limits
        self._worker = worker()
        self._key, self._start, self._ran = -1, (0, 0), False
        self.outputs: tuple[str, ...] = ()
        self.opening = 0.0
        """The CPU seconds that opening it took."""
        if late := time_is_over(self._limits):
            raise late
        with self._worker.use(limits.memory):
            self._open()

    def _open(self) -> None:
        source, folder = self._source, None
        model: str | bytes | list[Part]
        if source.path is not None:
            model = str(source.path.absolute())
        else:
            try:
                model = _handed(source.proto)
            except (EncodeError, ValueError) as error:
                raise RejectedError(f"the model is too large to hand over without a file: {error}") from error
            if source.directory is not None:
                folder = str(source.directory.resolve())
            elif any(map(external_data.is_external, traversal.tensors(traversal.graph_views(source.proto)))):
                # onnxruntime would look for them in the working directory.
                raise RejectedError("the model has external data, and its folder is unknown")
        try:
            self._key, outputs, self.opening = self._worker.open(model, folder, self._optimised, self._limits)
        except RejectedError as error:
            if any(text in str(error) for text in _UNFIT) and _fits(source.proto):
                raise RejectedError(
                    f"the body that onnxruntime inlines has no types that fit: {error}", RejectionKind.MISSING_KERNEL
                ) from error
            raise
        self._start = self._worker.start
        self.outputs = tuple(outputs)

    def run(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the outputs in the model's order: arrays, or for sequences and maps lists and dicts of them.

        Raises:
            RejectedError: onnxruntime does not run the model on these inputs.
        """
        outputs = self.run_all([feeds])[0]
        if isinstance(outputs, RejectedError):
            raise outputs
        return outputs

    def run_all(self, batch: Sequence[Feeds]) -> list[tuple[Any, ...] | RejectedError]:
        """Return for each input what `run` would, or the error that it would raise, in less time.

        After an input that ends the process, or has it ended, come no others: the list is shorter then. It ends too
        after outputs that are large all together.
        """
        if late := time_is_over(self._limits):
            return [late]
        self._worker = worker()  # it may have been opened before a fork
        with self._worker.use(self._limits.memory):
            if self._start != self._worker.start:
                self._open()
            done = self._worker.run(self._key, batch, self._limits, ran=self._ran)
        self._ran = self._ran or not all(isinstance(one, RejectedError) for one in done)
        return done

    def close(self) -> None:
        """Release it; it is opened again where it runs again."""
        self._worker.drop(self._key, self._start)
        self._start = (0, 0)

    def __del__(self) -> None:
        """Release it."""
        if getattr(self, "_key", -1) >= 0:
            self.close()


def _handed(model: onnx.ModelProto) -> bytes | list[Part]:
    """Return a model as the child takes it: weights that stayed in a file are read there, and not here.

    Raises:
        InvalidModelError: that file was changed since it was read.
    """
    if not any(map(external_data.is_span, model.graph.initializer)):
        data: bytes = model.SerializeToString()
        return data
    parts: list[Part] = []
    for piece in serialization.serialized_chunks(model):
        if isinstance(piece, external_data.Span):
            with external_data.opened(piece.file, piece.stamp):
                parts.append((str(piece.file), piece.offset, piece.length))
        else:
            parts.append(serialization.data_of(piece))
    return parts


def result_or_rejection(run: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...] | RejectedError:
    """Return what a call returns, or the rejection that it raises."""
    try:
        return run(*arguments)
    except RejectedError as error:
        return error
    except MemoryError as error:
        return RejectedError(f"opshift ran out of memory: {error}", RejectionKind.LIMIT)


class Runner:
    """A model that runs with graph optimisations off or on; each way is opened when it is first asked for.

    `lean` keeps one of the two open at a time, for models whose weights fill the memory.
    """

    modes = (False, True)

    def __init__(self, source: Runnable, limits: Limits = Limits(), *, lean: bool = False) -> None:  # noqa: B008 (frozen)
        """Keep the source; nothing is opened yet."""
        self.name = name()
        self._source = source
        self._limits = limits
        self._lean = lean
        self._opened: dict[bool, Session] = {}

    def open(self, optimised: bool) -> Session:
        """Return the session.

        Raises:
            RejectedError: onnxruntime does not load the model.
        """
        if optimised not in self._opened:
            if self._lean:
                self.close()
            self._opened[optimised] = Session(self._source, optimised=optimised, limits=self._limits)
        return self._opened[optimised]

    def run(self, feeds: Feeds, optimised: bool) -> tuple[Any, ...]:
        """Return the outputs in the model's order.

        Raises:
            RejectedError: onnxruntime does not load the model, or does not run it on these inputs.
        """
        return self.open(optimised).run(feeds)

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[tuple[Any, ...] | RejectedError]:
        """Return for each input what `run` would, or the error that it would raise; see `Session.run_all`.

        Raises:
            RejectedError: onnxruntime does not load the model.
        """
        return self.open(optimised).run_all(batch)

    def close(self) -> None:
        """Release what is open; it is opened again when it is asked for."""
        for session in self._opened.values():
            session.close()
        self._opened.clear()
