"""Open models in onnxruntime, in a child process (ort_worker.py) with limits on time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from google.protobuf.message import EncodeError

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.runtimes import kernels
from opshift.passes.base.limits import Limits
from opshift.passes.graph import traversal
from opshift.passes.io import external_data, serialization
from opshift.passes.runtime.ort_models import (
    Feeds,
    RejectedError,
    RejectionKind,
    Runnable,
    name,
    nodes,
    runtime,
    time_is_over,
)
from opshift.passes.runtime.ort_process import worker
from opshift.passes.runtime.ort_worker import Part

_UNFIT = ("bound to different types", "of input parameter (")
"""onnxruntime's messages for types that an operator does not accept, in a node or in an inlined body."""


def _fits(model: onnx.ModelProto) -> bool:
    """Return whether onnx accepts the types of a model."""
    try:
        onnx_process.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


_UNFUSED = {"session.disable_quant_qdq": "1"}


def _cuts_where_fused(model: onnx.ModelProto) -> bool:
    """Return whether onnxruntime may saturate sums of bytes of both signs when it fuses a QDQ model."""
    return kernels.cuts_sums_of_bytes() and any(traits_of(node).marks_quantization for node in nodes(model))


class Session:
    """A model opened in onnxruntime on the CPU with one thread, graph optimizations all on or all off."""

    def __init__(self, runnable: Runnable, *, optimised: bool, limits: Limits = Limits()) -> None:  # noqa: B008 (frozen)
        """Load the model, from its file if there is one.

        External data of a protobuf are read from the model's directory, through a session option: nothing is written
        there.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        runtime()
        self._runnable = runnable
        self._optimised = optimised
        self._limits = limits
        self._worker = worker()
        self._key, self._start, self._ran = -1, (0, 0), False
        self.outputs: tuple[str, ...] = ()
        self.opening = 0.0
        """The CPU seconds of the opening."""
        if late := time_is_over(self._limits):
            raise late
        with self._worker.use(limits.memory):
            self._open()

    def _open(self) -> None:
        runnable, folder = self._runnable, None
        model: str | bytes | list[Part]
        if runnable.path is not None:
            model = str(runnable.path.absolute())
        else:
            try:
                model = _handed(runnable.proto)
            except (EncodeError, ValueError) as error:
                raise RejectedError(f"the model is too large to hand over without a file: {error}") from error
            if runnable.directory is not None:
                folder = str(runnable.directory.resolve())
            elif any(map(external_data.is_external, traversal.tensors(traversal.graph_views(runnable.proto)))):
                # onnxruntime would search them in the working directory.
                raise RejectedError("the model has external data, and its folder is unknown")
        try:
            settings = _UNFUSED if self._optimised and _cuts_where_fused(runnable.proto) else {}
            self._key, outputs, self.opening = self._worker.open(model, folder, self._optimised, settings, self._limits)
        except RejectedError as error:
            if any(text in str(error) for text in _UNFIT) and _fits(runnable.proto):
                raise RejectedError(
                    f"the body that onnxruntime inlines has no types that fit: {error}", RejectionKind.MISSING_KERNEL
                ) from error
            raise
        self._start = self._worker.start
        self.outputs = tuple(outputs)

    def run(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the outputs in the model's order: arrays, or lists and dicts of them for sequences and maps.

        Raises:
            RejectedError: onnxruntime does not run the model on these inputs.
        """
        outputs = self.run_all([feeds])[0]
        if isinstance(outputs, RejectedError):
            raise outputs
        return outputs

    def run_all(self, batch: Sequence[Feeds]) -> list[tuple[Any, ...] | RejectedError]:
        """Return, for each input, the result or the error of `run`; faster than single calls.

        The list ends early after an input that crashes the process or exceeds a limit, and after outputs of a large
        total size.
        """
        if late := time_is_over(self._limits):
            return [late]
        self._worker = worker()  # it may have been opened before a fork
        with self._worker.use(self._limits.memory):
            if self._start != self._worker.start:
                self._open()
            done = self._worker.run(self._key, batch, self._limits, ran=self._ran)
        if not self._worker.alive and not (done and isinstance(done[-1], RejectedError)):
            done += self._run_singly(batch[len(done) :])  # one of several inputs ended the process
        self._ran = self._ran or not all(isinstance(one, RejectedError) for one in done)
        return done

    def _run_singly(self, batch: Sequence[Feeds]) -> list[tuple[Any, ...] | RejectedError]:
        if late := time_is_over(self._limits):
            return [late]
        with self._worker.use(self._limits.memory):
            self._open()
            return self._worker.run(self._key, batch, self._limits, ran=True, together=False)

    def close(self) -> None:
        """Release the session; the next run opens it again."""
        self._worker.drop(self._key, self._start)
        self._start = (0, 0)

    def __del__(self) -> None:
        """Release the session."""
        if getattr(self, "_key", -1) >= 0:
            self.close()


def _handed(model: onnx.ModelProto) -> bytes | list[Part]:
    """Return a model in the child's format: the child reads the weights that stayed in a file.

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


class Runner:
    """A model that runs with graph optimizations off or on; each session is opened on first use.

    `lean` keeps only one of the two open, for models whose weights fill the memory.
    """

    modes = (False, True)

    def __init__(self, runnable: Runnable, limits: Limits = Limits(), *, lean: bool = False) -> None:  # noqa: B008 (frozen)
        """Store the model; nothing is opened yet."""
        self.name = name()
        self._runnable = runnable
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
            self._opened[optimised] = Session(self._runnable, optimised=optimised, limits=self._limits)
        return self._opened[optimised]

    def run(self, feeds: Feeds, optimised: bool) -> tuple[Any, ...]:
        """Return the outputs in the model's order.

        Raises:
            RejectedError: onnxruntime does not load the model, or does not run it on these inputs.
        """
        return self.open(optimised).run(feeds)

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[tuple[Any, ...] | RejectedError]:
        """Return, for each input, the result or the error of `run`; see `Session.run_all`.

        Raises:
            RejectedError: onnxruntime does not load the model.
        """
        return self.open(optimised).run_all(batch)

    def close(self) -> None:
        """Release the open sessions; the next use opens them again."""
        for session in self._opened.values():
            session.close()
        self._opened.clear()
