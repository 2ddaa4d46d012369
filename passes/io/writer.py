"""Save a model with its weights; after any failure, the output is either the old file or the complete new one.

External data are renamed to their destinations first, the model last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx.numpy_helper
from google.protobuf.message import EncodeError, Message
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import UsageError, shown_path
from opshift.passes.graph import traversal
from opshift.passes.io import copying
from opshift.passes.io import external_data as external
from opshift.passes.io.atomic_files import Batch, Destination, destination_of, unwritable
from opshift.passes.io.copying import MIB, ReportBytes, write_parts
from opshift.passes.io.external_data import Span
from opshift.passes.io.model_forms import LIMIT
from opshift.passes.io.reader import Source, is_text
from opshift.passes.io.serialization import Chunk, length, serialized_chunks
from opshift.passes.io.weight_files import (
    THRESHOLD,
    TYPED_FIELDS,
    WeightFile,
    WeightLayout,
    Weights,
    layout_of,
    layout_of_converted,
    moving,
    other_weights,
    too_large,
    write_weights,
)


def save(
    model: onnx.ModelProto,
    path: str | os.PathLike[str],
    *,
    source: Source | None = None,
    overwrite: bool = True,
    external_data: Weights | None = None,
    size_threshold: int = THRESHOLD,
    progress: Progress | None = None,
    batch: Batch | None = None,
) -> tuple[Path, ...]:
    """Write a model to a file, as ONNX text if the name ends in .onnxtxt, .onnx.txt or .txt.

    If the output is in the same folder as `source`, it refers to the same external data; otherwise each file is copied
    whole, under its own name. Weights that are converted to another element type go into a new file beside the output,
    named after the model with `.data` appended. If the output is a link, the link stays and its target is replaced. The
    output may be the input.

    Args:
        model: the model to write; it is not modified.
        path: the file to write.
        source: the original of `model`.
        overwrite: replace an existing file.
        external_data: "keep" refuses to copy, "copy" copies as described above, "embed" puts external data into the
            model's file, "save" puts all weights into one file beside it, named after the model with `.data` appended.
        size_threshold: with "save", the minimum size in bytes of tensors that leave the model's file.
        progress: called with a stage, the MiB of written weights, and all MiB.
        batch: other files to write together with the model: all or none.

    Returns:
        The external data files that the output refers to.

    Raises:
        UsageError: the output cannot be written there, would replace another file's data, is larger than protobuf
            writes, or cannot be expressed as ONNX text; or the location of the external data is unknown.
        InvalidModelError: external data are missing or unsafe to open.
    """
    output = destination_of(path, overwrite=overwrite)
    beside = WeightLayout(model, (), ())
    if external_data in (None, "keep", "copy") and not is_text(output.path):
        beside = layout_of_converted(model, output, source, size_threshold)
        parts = _as_binary(beside.model, output.path)
        outside = any(isinstance(part, bytes) and b"location" in part for part in parts)
        layout = layout_of(beside.model, output, source, external_data, size_threshold, beside.paths, outside=outside)
    else:
        layout = layout_of(model, output, source, external_data, size_threshold)
        whole = external.filled(layout.model) if is_text(output.path) else layout.model
        parts = [_as_text(whole, output.path)] if is_text(output.path) else _as_binary(whole, output.path)
    kept = sum(part.length for part in parts if isinstance(part, Span))
    files = (*beside.files, *layout.files)
    _write(output, lambda file, report_bytes: write_parts(file, parts, report_bytes), files, progress, batch, kept)
    return (*beside.paths, *layout.paths)


def copy(
    source: Source,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    external_data: Weights | None = None,
    size_threshold: int = THRESHOLD,
    progress: Progress | None = None,
    batch: Batch | None = None,
) -> tuple[Path, ...]:
    """Write an unchanged model: the same bytes as in its file, external data as in `save`.

    It calls `save` for a model in memory, for a change between ONNX text and the binary format, and if weights move. If
    the output is the input, nothing is written.

    Raises:
        UsageError: as `save`.
        InvalidModelError: as `save`, or the file has changed since it was read.
    """
    moved = moving(source.model, external_data, size_threshold)
    if source.path is None or is_text(source.path) != is_text(path) or moved:
        return save(
            source.model,
            path,
            source=source,
            overwrite=overwrite,
            external_data=external_data,
            size_threshold=size_threshold,
            progress=progress,
            batch=batch,
        )
    output = destination_of(path, overwrite=overwrite)
    outside = source.directory is None or bool(source.files)
    layout = layout_of(source.model, output, source, external_data, size_threshold, outside=outside)
    if not external.same_file(source.path, output.real):
        origin = external.real(source.path)
        _write(output, lambda file, _: copying.copy_file(origin, file, source.stamp), layout.files, progress, batch)
    elif batch is not None:
        batch.publish()
    return layout.paths


# --- selecting the method ---


def _as_binary(model: onnx.ModelProto, path: Path) -> list[Chunk]:
    try:
        parts = serialized_chunks(model)
    except EncodeError:
        raise too_large(path) from None
    if not 0 < length(parts) <= LIMIT:
        raise too_large(path)
    return parts


def _as_text(model: onnx.ModelProto, path: Path) -> bytes:
    try:
        text: str = onnx_process.to_text(model)
        same = _comparable(onnx_process.parse_model(text)) == _comparable(model)
    except Exception:  # ParseError, or any C++ exception for a model that ONNX text cannot express
        same = False
    if not same:
        raise UsageError(
            f"{shown_path(path)}: ONNX text does not hold all of this model (metadata, some numbers, some names); "
            "give the output a name that ends in .onnx."
        )
    return text.encode()


def _comparable(model: onnx.ModelProto) -> bytes:
    """Return a canonical serialization that is the same for all models with the same meaning, to the last bit.

    The parser writes empty strings for missing ones, and numbers as typed fields instead of raw bytes.
    """
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for tensor in traversal.tensors(traversal.graph_views(plain)):
        if not external.is_external(tensor) and tensor.data_type != TensorProto.STRING:
            raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
            for field in TYPED_FIELDS:
                tensor.ClearField(field)
            tensor.raw_data = raw
    _drop_empty_strings(plain)
    data: bytes = plain.SerializeToString(deterministic=True)
    return data


def _drop_empty_strings(message: Message) -> None:
    for field, value in message.ListFields():
        if isinstance(value, str) and not value:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                _drop_empty_strings(inner)


# --- the placement of weights ---


# --- writing the files ---


def _write(
    output: Destination,
    content: Callable[[BinaryIO, ReportBytes], None],
    files: tuple[WeightFile, ...],
    progress: Progress | None,
    batch: Batch | None,
    size: int = 0,
) -> None:
    """Write all files, including those of the batch; any failure restores the previous state.

    `content` writes the model, and reports `size` bytes of weights.
    """
    report_bytes = _byte_reporter(progress, size + sum(item.size for item in files))
    shown = shown_path(output.path)
    with contextlib.nullcontext(batch) if batch else Batch() as together:
        try:
            for item in files:
                together.make_folders(item.destination.parent)
                conflict = other_weights(item.destination)
                write_weights(together.draft(item.destination, shown, conflict=conflict), item, report_bytes)
            content(together.draft(output.real, shown), report_bytes)
        except OSError as error:
            raise unwritable(shown, error) from None
        together.publish()


def _byte_reporter(progress: Progress | None, size: int) -> ReportBytes:
    """Return a function that counts the written bytes of weights and reports them."""
    written = 0

    def report_bytes(done: int) -> None:
        nonlocal written
        written += done
        if progress:
            progress("writing weights (MiB)", written // MIB, size // MIB)

    return report_bytes
