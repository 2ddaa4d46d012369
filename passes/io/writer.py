"""Save a model with its weights; after any failure, the output is either the old file or the complete new one.

External data are renamed to their destinations first, the model last.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import onnx
import onnx.numpy_helper
from google.protobuf.message import EncodeError, Message
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import InvalidModelError, UsageError, reason, shown_path
from opshift.passes.graph import traversal
from opshift.passes.io import external_data as external
from opshift.passes.io.atomic_files import Batch, Destination, destination_of, unwritable
from opshift.passes.io.external_data import Span, opened, stamp
from opshift.passes.io.model_forms import LIMIT
from opshift.passes.io.reader import Source, is_text
from opshift.passes.io.serialization import Chunk, data_of, length, serialized_chunks

Weights = Literal["keep", "copy", "embed", "save"]
"""The destination of weights: unchanged, copied with the model, in the model's file, or in one file beside it."""

WEIGHTS: tuple[Weights, ...] = get_args(Weights)

THRESHOLD = 1024
"""The minimum size in bytes of tensors that `save` moves out of the model's file, as in `onnx.save`."""

ReportBytes = Callable[[int], None]
"""Called with the number of additional bytes that are written."""

_CHUNK = 1 << 26
_MIB = 1 << 20
_PAGE = 1 << 16  # the alignment of large tensors: onnxruntime maps files by pages, which have 64 KiB on Windows

_TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass(frozen=True)
class _File:
    """A file of external data to write: ranges of other files, and tensors, each at its offset."""

    destination: Path
    chunks: tuple[tuple[int, Span | TensorProto], ...]
    size: int


@dataclass(frozen=True)
class _Layout:
    """The model to write, the files of weights to write with it, and all files that it refers to."""

    model: onnx.ModelProto
    files: tuple[_File, ...]
    paths: tuple[Path, ...]


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
    beside = _Layout(model, (), ())
    if external_data in (None, "keep", "copy") and not is_text(output.path):
        beside = _beside(model, output, source, size_threshold)
        parts = _as_binary(beside.model, output.path)
        outside = any(isinstance(part, bytes) and b"location" in part for part in parts)
        layout = _layout(beside.model, output, source, external_data, size_threshold, beside.paths, outside=outside)
    else:
        layout = _layout(model, output, source, external_data, size_threshold)
        whole = external.filled(layout.model) if is_text(output.path) else layout.model
        parts = [_as_text(whole, output.path)] if is_text(output.path) else _as_binary(whole, output.path)
    kept = sum(part.length for part in parts if isinstance(part, Span))
    files = (*beside.files, *layout.files)
    _write(output, lambda file, report_bytes: _write_parts(file, parts, report_bytes), files, progress, batch, kept)
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
    moved = _moving(source.model, external_data, size_threshold)
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
    layout = _layout(source.model, output, source, external_data, size_threshold, outside=outside)
    if not external.same_file(source.path, output.real):
        origin = external.real(source.path)
        _write(output, lambda file, _: _copy_file(origin, file, source.stamp), layout.files, progress, batch)
    elif batch is not None:
        batch.publish()
    return layout.paths


# --- selecting the method ---


def _as_binary(model: onnx.ModelProto, path: Path) -> list[Chunk]:
    try:
        parts = serialized_chunks(model)
    except EncodeError:
        raise _too_large(path) from None
    if not 0 < length(parts) <= LIMIT:
        raise _too_large(path)
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
            for field in _TYPED:
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


def _write_parts(file: BinaryIO, parts: Sequence[Chunk], report_bytes: ReportBytes) -> None:
    for part in parts:
        if isinstance(part, Span):
            _copy_span(part, file, report_bytes)
        else:
            file.write(data_of(part))


def _copy_span(span: Span, file: BinaryIO, report_bytes: ReportBytes) -> None:
    if span.types is None:
        _copy_file(span.file, file, span.stamp, (span.offset, span.length), report_bytes)
        return
    with opened(span.file, span.stamp) as stored:
        stored.seek(span.offset)
        left = span.stored
        while left and (data := stored.read(min(left, _MIB))):
            left -= len(data)
            report_bytes(file.write(span.converted(data)))


def _copy_file(
    origin: Path,
    file: BinaryIO,
    read: tuple[int, ...] | None = None,
    part: tuple[int, int] | None = None,
    report_bytes: ReportBytes = lambda done: None,
) -> None:
    """Copy a file's bytes to another file's position; by reference or inside the kernel, if the system supports it.

    Holes of the source become holes of the target, which ends at that position before the copy.

    `part` is an offset and a length, for less than the whole file.

    Raises:
        InvalidModelError: the file changed while it was copied, or no longer has the stamp `read`.
    """
    with opened(origin, read) as stored:
        at, size = part or (0, os.fstat(stored.fileno()).st_size)
        end, shift = at + size, file.tell() - at
        for begin, stop in _extents(stored, at, end):
            if begin > at:
                report_bytes(begin - at)
            file.seek(shift + begin)
            _copy_extent(stored.fileno(), file, begin, stop, report_bytes)
            at = stop
        if end > at:
            report_bytes(end - at)
        file.seek(shift + end)
        file.truncate()


def _extents(stored: BinaryIO, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that hold data between two places; everything if unknown.

    The other ranges are zeros.
    """
    while at < end:
        begin, stop = at, end
        if hasattr(os, "SEEK_DATA"):
            try:
                begin = os.lseek(stored.fileno(), at, os.SEEK_DATA)
                stop = min(os.lseek(stored.fileno(), begin, os.SEEK_HOLE), end)
            except OSError as error:
                if error.errno == errno.ENXIO:  # no more data
                    return
                begin, stop = at, end  # not supported by this file system
        if begin < stop:
            yield begin, stop
        at = max(begin, stop)


def _copy_extent(descriptor: int, file: BinaryIO, begin: int, stop: int, report_bytes: ReportBytes) -> None:
    os.lseek(descriptor, begin, os.SEEK_SET)
    left = stop - begin
    if hasattr(os, "copy_file_range"):
        file.flush()
        # not supported between these file systems; the code below reports a full disk
        with contextlib.suppress(OSError):
            while left and (done := os.copy_file_range(descriptor, file.fileno(), min(left, _CHUNK))):
                left -= done
                report_bytes(done)
    # Copy the remaining bytes: some file systems end copy_file_range too early.
    while left and (data := os.read(descriptor, min(left, _MIB))):
        file.write(data)
        left -= len(data)
        report_bytes(len(data))


def _write_chunks(file: BinaryIO, item: _File, report_bytes: ReportBytes) -> None:
    """Write external data; the gaps between the chunks are zeros."""
    at = 0
    for offset, chunk in item.chunks:
        file.write(bytes(offset - at))
        if isinstance(chunk, TensorProto):
            data = _raw(chunk)
            file.write(data)
            report_bytes(len(data))
            at = offset + len(data)
        else:
            _copy_span(chunk, file, report_bytes)
            at = offset + chunk.length


def _raw(tensor: TensorProto) -> bytes:
    """Return the elements of an embedded tensor in the format of external data."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    data: bytes = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
    return data


# --- the placement of weights ---


def _layout(
    model: onnx.ModelProto,
    output: Destination,
    source: Source | None,
    weights: Weights | None,
    threshold: int,
    beside: Sequence[Path] = (),
    *,
    outside: bool = True,
) -> _Layout:
    """Decide the destination of weights, and refuse if any would be lost; nothing is written yet.

    `outside` is whether any tensor may be in another file. The files `beside` are being written.
    """
    references = external.references(traversal.graph_views(model)) if outside else ()
    references = tuple(one for one in references if output.directory / one.location not in beside)
    files = _sources(references, output, source) if references else {}
    if _moving(model, weights, threshold):
        place = output.directory / f"{output.path.name}.data"
        select = functools.partial(_moving, weights=weights, threshold=threshold)
        return _moved(model, output, files, select, place, threshold if weights == "save" else None)
    if source is None or source.directory is None or not files:
        return _Layout(model, (), ())
    paths = tuple(output.directory / location for location in files)
    if external.same_file(source.directory, output.directory):
        _check_beside(references, output, source)
        return _Layout(model, (), paths)
    if weights == "keep":
        raise UsageError(
            f"{shown_path(output.path)} cannot be written: the weights are to stay in {shown_path(source.directory)}, "
            "and a model refers to files of its own folder only. Write it there, or have the weights copied (copy) or "
            "put into it (embed)."
        )
    wanted = {output.directory / location: file for location, file in files.items()}
    copies = (
        _File(destination, ((0, _chunk(file)),), file.stat().st_size)
        for destination, file in wanted.items()
        if not _is_there(file, destination, output)
    )
    return _Layout(model, tuple(copies), paths)


def _moving(model: onnx.ModelProto, weights: Weights | None, threshold: int) -> list[TensorProto]:
    """Return the tensors that move."""
    if weights not in ("embed", "save"):
        return []
    found = tuple(traversal.graph_views(model))
    outside = [tensor for tensor in traversal.tensors(found) if external.is_external(tensor)]
    if weights == "embed":
        return outside
    graphs = (view.graph for view in found if isinstance(view.graph, onnx.GraphProto))
    inside = (tensor for graph in graphs for tensor in graph.initializer if not external.is_external(tensor))
    # Strings have no size.
    large = (tensor for tensor in inside if (size := external.size(tensor)) is not None and size >= threshold)
    return [*outside, *large]


def _beside(model: onnx.ModelProto, output: Destination, source: Source | None, threshold: int) -> _Layout:
    """Return the model with its converted external data in a separate file."""
    files = {} if source is None else source.files
    select = functools.partial(_converted, files=frozenset(files.values()))
    if not select(model):
        return _Layout(model, (), ())
    taken = {output.directory / location for location in files}  # one file may have several spellings
    place, number = output.directory / f"{output.path.name}.data", 0
    while place in taken:
        number += 1
        place = output.directory / f"{output.path.name}.{number}.data"
    return _moved(model, output, {}, select, place, threshold)


def _converted(model: onnx.ModelProto, files: Collection[Path]) -> list[TensorProto]:
    """Return the initializers whose element type changes when they are copied from these files."""
    return [
        tensor
        for tensor in model.graph.initializer
        if (span := external.span_of(tensor)) and span.types and span.file in files
    ]


def _moved(
    model: onnx.ModelProto,
    output: Destination,
    files: Mapping[str, Path],
    select: Callable[[onnx.ModelProto], list[TensorProto]],
    place: Path,
    threshold: int | None,
) -> _Layout:
    """Return the model with its weights moved, and the file for the weights outside of it.

    `select` returns the tensors to move: into the file at `place` if they reach the threshold, otherwise into the
    model.
    """
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    known = {location: _chunk(file) for location, file in files.items()}
    chunks: list[tuple[int, Span | TensorProto]] = []
    embedded: list[tuple[TensorProto, Span]] = []
    end = 0
    for old, new in zip(select(model), select(moved), strict=True):
        length, chunk = external.size(old) or 0, _part(old, known)
        if threshold is not None and length >= threshold:
            begin = -(-end // _PAGE) * _PAGE if length >= _MIB else end
            chunks.append((begin, chunk))
            _point(new, place.name, begin, length)
            end = begin + length
        elif isinstance(chunk, Span):
            embedded.append((new, chunk))
    if sum(chunk.length for _, chunk in embedded) > LIMIT:
        raise _too_large(output.path)
    initializers = {id(tensor): tensor for tensor in moved.graph.initializer}  # kept alive, so that the ids stay unique
    for tensor, chunk in embedded:
        if id(tensor) in initializers and chunk.length >= external.LARGE:
            external.refer(tensor, chunk)
        else:
            external.take(tensor, chunk)
    if not chunks:
        return _Layout(moved, (), ())
    _check_place(place, output)
    return _Layout(moved, (_File(place, tuple(chunks), end),), (place,))


def _chunk(file: Path) -> Span:
    status = file.stat()
    return Span(file, stamp(status), 0, status.st_size)


def _part(tensor: TensorProto, files: Mapping[str, Span]) -> Span | TensorProto:
    """Return the source of a tensor's bytes: a range of a file, or the tensor itself."""
    if not external.is_external(tensor):
        return external.span_of(tensor) or tensor
    reference = external.reference(tensor)
    return replace(files[reference.location], offset=reference.offset, length=reference.length or 0)


def _point(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Replace a tensor's elements by a reference to a file."""
    for field in external.ELEMENTS:
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": str(offset), "length": str(length)}.items():
        tensor.external_data.add(key=key, value=value)


def _sources(
    references: tuple[external.FileReference, ...], output: Destination, source: Source | None
) -> Mapping[str, Path]:
    """Return the files that hold the model's weights, none of which may be the output."""
    shown = shown_path(output.path)
    if source is None or source.directory is None:
        raise UsageError(
            f"{shown} cannot be written: the model was given in memory, and its weights are in files whose folder is "
            "not known. Give the path of the model, or load the weights into memory first."
        )
    files = external.resolve(references, source.directory, source.path, source.allowed)
    for location, file in files.items():
        if external.same_file(file, output.real) or output.directory / location == output.path:
            raise UsageError(f"{shown} cannot be written: the model keeps weights in a file of that name.")
    return files


def _check_beside(references: tuple[external.FileReference, ...], output: Destination, source: Source) -> None:
    """Refuse an output beside the input if it cannot refer to the input's weights."""
    try:
        external.resolve(references, output.directory, output.path, source.allowed)
    except InvalidModelError as error:
        raise UsageError(
            f"{shown_path(output.path)} cannot be written beside the input: from there, {error} Write to another "
            "folder, and the weights are copied along."
        ) from None


def _is_there(file: Path, destination: Path, output: Destination) -> bool:
    """Return whether the destination already is the file; refuse if it is another, or outside the output's folder."""
    _check_place(destination, output)
    try:
        if not os.path.lexists(destination):
            return False
        if destination.is_file() and (file.samefile(destination) or filecmp.cmp(file, destination, shallow=False)):
            return True
    except OSError as error:
        raise UsageError(f"{shown_path(destination)} cannot be written: {reason(error)}.") from None
    raise UsageError(_other_weights(destination))


def _check_place(destination: Path, output: Destination) -> None:
    """Refuse a place for external data that is outside the output's folder, or that readers refuse."""
    shown = shown_path(destination)
    try:
        if not destination.resolve().is_relative_to(output.directory.resolve()):
            raise UsageError(f"{shown} cannot be written: a link leads out of the folder of {shown_path(output.path)}.")
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from None
    if fault := external.fault(destination.relative_to(output.directory).as_posix()):
        raise UsageError(f"{shown} cannot be written: as the name of external data it {fault}.")


def _other_weights(path: Path) -> str:
    return (
        f"{shown_path(path)} exists and is not the file that the model's weights are in; it is not overwritten. "
        "Write to another folder, or remove it."
    )


def _too_large(path: Path) -> UsageError:
    return UsageError(
        f"{shown_path(path)} cannot be written: the model has more than 2 GiB, which is more than protobuf writes. "
        'Keep its weights as external data: --save-as-external-data, in Python external_data="save".'
    )


# --- writing the files ---


def _write(
    output: Destination,
    content: Callable[[BinaryIO, ReportBytes], None],
    files: tuple[_File, ...],
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
                conflict = _other_weights(item.destination)
                _write_chunks(together.draft(item.destination, shown, conflict=conflict), item, report_bytes)
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
            progress("writing weights (MiB)", written // _MIB, size // _MIB)

    return report_bytes
