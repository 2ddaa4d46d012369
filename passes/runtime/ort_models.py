"""Prepare models for onnxruntime, report its name and newest versions, and classify its rejections."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx

from opshift.opsets.runtimes import kernels
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import Limits
from opshift.passes.graph import traversal
from opshift.passes.io import external_data, reader
from opshift.passes.io.model_forms import Model, as_model
from opshift.passes.io.repairs import read_as

Array = npt.NDArray[Any]
Feeds = Mapping[str, Any]


class RejectionKind(enum.StrEnum):
    """Why onnxruntime rejects a model."""

    REJECTED = "rejected"
    MISSING_KERNEL = "missing kernel"
    """No kernel exists for an operator with these element types."""
    TOO_NEW = "too new"
    """It does not load the opset, in which an operator changed."""
    LIMIT = "limit"
    """It exceeded the time or the memory."""
    DEATH = "death"
    """Its process crashed."""
    LARGE = "large"
    """Its outputs are too large to compare."""


class RejectedError(Exception):
    """onnxruntime does not load a model, or does not run it on an input; the text is the reason in one line."""

    def __init__(self, reason: str, why: RejectionKind = RejectionKind.REJECTED) -> None:
        """Store the reason and its kind."""
        self.why = why
        super().__init__(reason)


class ExcludedError(RejectedError):
    """An operator's specification excludes the inputs, by its oracle or onnx's inference, even if onnxruntime runs."""


@dataclass(frozen=True)
class Runnable:
    """A model to open: the protobuf, whose weights may be external, and where those weights are.

    `path` is set if onnxruntime can read the file itself, `directory` if external data are relative to one. `named` is
    the user's name of the file; empty for a protobuf.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    directory: Path | None = None
    named: str = ""
    origin: reader.Source | None = None
    """The source that was read from a file, which must not change during the comparison."""


def read(
    model: Model | Runnable,
    directory: str | os.PathLike[str] | None = None,
    allow_paths: Iterable[str | os.PathLike[str]] = (),
    assume_opset: int | None = None,
) -> Runnable:
    """Return a path (.onnx or ONNX text) or a protobuf as a Runnable; weights in files stay there.

    A Runnable is returned unchanged. With `assume_opset`, the model is read at that opset, whatever it declares.

    Links to weights are replaced by their real paths.

    Raises:
        InvalidModelError: the file is missing, unreadable, not ONNX, or its external data are unsafe to open.
    """
    folder = None if directory is None else Path(directory)
    if isinstance(model, Runnable):
        return model
    original = as_model(model)
    if isinstance(original, onnx.ModelProto):
        return Runnable(original if assume_opset is None else read_as(original, assume_opset)[0], directory=folder)
    loaded = reader.load(original, allow_paths, assume_opset)
    named = os.fspath(original) if isinstance(original, str | os.PathLike) else ""
    if loaded.directory is not None:
        # onnxruntime 1.32.0 does not load a model whose inference needs elements from another file (Slice).
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
    """Return onnxruntime's name with its version, as the name of the reference in a report."""
    return f"onnxruntime {runtime().__version__}"


def newest_opset() -> int:
    """Return the newest opset of the default domain that the installed onnxruntime loads."""
    return kernels.newest_opset() or 7


def newest_ir_version() -> int:
    """Return the newest ir_version that the installed onnxruntime loads."""
    return kernels.newest_ir_version()


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a model that onnxruntime runs: of its graph and functions, without training graphs."""
    for graph in (model.graph, *model.functions):
        yield from traversal.nested_nodes(graph)


def opset(model: onnx.ModelProto) -> int:
    """Return the model's opset of the default domain; 0 if it imports none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def time_is_over(limits: Limits) -> RejectedError | None:
    """Return a rejection if the time is over."""
    clock = limits.clock
    return RejectedError(clock.reason, RejectionKind.LIMIT) if clock is not None and clock.left() <= 0 else None


def result_or_rejection(run: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...] | RejectedError:
    """Return the result of a call, or the rejection that it raises."""
    try:
        return run(*arguments)
    except RejectedError as error:
        return error
    except MemoryError as error:
        return RejectedError(f"opshift ran out of memory: {error}", RejectionKind.LIMIT)
