"""Decide where the weights of a model are written: in its file, in files beside it, or where they are."""

from __future__ import annotations

import filecmp
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import onnx
import onnx.numpy_helper
from onnx import TensorProto

from opshift.passes.base.errors import InvalidModelError, UsageError, reason, shown_path
from opshift.passes.graph import traversal
from opshift.passes.io import external_data as external
from opshift.passes.io.atomic_files import Destination
from opshift.passes.io.copying import MIB, ReportBytes, copy_span
from opshift.passes.io.external_data import Span, stamp
from opshift.passes.io.model_forms import LIMIT
from opshift.passes.io.reader import Source

Weights = Literal["keep", "copy", "embed", "save"]
"""The destination of weights: unchanged, copied with the model, in the model's file, or in one file beside it."""


WEIGHTS: tuple[Weights, ...] = get_args(Weights)


THRESHOLD = 1024
"""The minimum size in bytes of tensors that `save` moves out of the model's file, as in `onnx.save`."""


_PAGE = 1 << 16  # the alignment of large tensors: onnxruntime maps files by pages, which have 64 KiB on Windows


TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass(frozen=True)
class WeightFile:
    """A file of external data to write: ranges of other files, and tensors, each at its offset."""

    destination: Path
    chunks: tuple[tuple[int, Span | TensorProto], ...]
    size: int


@dataclass(frozen=True)
class WeightLayout:
    """The model to write, the files of weights to write with it, and all files that it refers to."""

    model: onnx.ModelProto
    files: tuple[WeightFile, ...]
    paths: tuple[Path, ...]


def write_weights(file: BinaryIO, item: WeightFile, report_bytes: ReportBytes) -> None:
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
            copy_span(chunk, file, report_bytes)
            at = offset + chunk.length


def _raw(tensor: TensorProto) -> bytes:
    """Return the elements of an embedded tensor in the format of external data."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    data: bytes = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
    return data


def layout_of(
    model: onnx.ModelProto,
    output: Destination,
    source: Source | None,
    weights: Weights | None,
    threshold: int,
    beside: Sequence[Path] = (),
    *,
    outside: bool = True,
) -> WeightLayout:
    """Decide the destination of weights, and refuse if any would be lost; nothing is written yet.

    `outside` is whether any tensor may be in another file. The files `beside` are being written.
    """
    references = external.references(traversal.graph_views(model)) if outside else ()
    references = tuple(one for one in references if output.directory / one.location not in beside)
    files = _sources(references, output, source) if references else {}
    if moving(model, weights, threshold):
        place = output.directory / f"{output.path.name}.data"
        select = functools.partial(moving, weights=weights, threshold=threshold)
        return _moved(model, output, files, select, place, threshold if weights == "save" else None)
    if source is None or source.directory is None or not files:
        return WeightLayout(model, (), ())
    paths = tuple(output.directory / location for location in files)
    if external.same_file(source.directory, output.directory):
        _check_beside(references, output, source)
        return WeightLayout(model, (), paths)
    if weights == "keep":
        raise UsageError(
            f"{shown_path(output.path)} cannot be written: the weights are to stay in {shown_path(source.directory)}, "
            "and a model refers to files of its own folder only. Write it there, or have the weights copied (copy) or "
            "put into it (embed)."
        )
    wanted = {output.directory / location: file for location, file in files.items()}
    copies = (
        WeightFile(destination, ((0, _chunk(file)),), file.stat().st_size)
        for destination, file in wanted.items()
        if not _is_there(file, destination, output)
    )
    return WeightLayout(model, tuple(copies), paths)


def moving(model: onnx.ModelProto, weights: Weights | None, threshold: int) -> list[TensorProto]:
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


def layout_of_converted(
    model: onnx.ModelProto, output: Destination, source: Source | None, threshold: int
) -> WeightLayout:
    """Return the model with its converted external data in a separate file."""
    files = {} if source is None else source.files
    select = functools.partial(_converted, files=frozenset(files.values()))
    if not select(model):
        return WeightLayout(model, (), ())
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
) -> WeightLayout:
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
            begin = -(-end // _PAGE) * _PAGE if length >= MIB else end
            chunks.append((begin, chunk))
            _point(new, place.name, begin, length)
            end = begin + length
        elif isinstance(chunk, Span):
            embedded.append((new, chunk))
    if sum(chunk.length for _, chunk in embedded) > LIMIT:
        raise too_large(output.path)
    initializers = {id(tensor): tensor for tensor in moved.graph.initializer}  # kept alive, so that the ids stay unique
    for tensor, chunk in embedded:
        if id(tensor) in initializers and chunk.length >= external.LARGE:
            external.refer(tensor, chunk)
        else:
            external.take(tensor, chunk)
    if not chunks:
        return WeightLayout(moved, (), ())
    check_place(place, output)
    return WeightLayout(moved, (WeightFile(place, tuple(chunks), end),), (place,))


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
    check_place(destination, output)
    try:
        if not os.path.lexists(destination):
            return False
        if destination.is_file() and (file.samefile(destination) or filecmp.cmp(file, destination, shallow=False)):
            return True
    except OSError as error:
        raise UsageError(f"{shown_path(destination)} cannot be written: {reason(error)}.") from None
    raise UsageError(other_weights(destination))


def check_place(destination: Path, output: Destination) -> None:
    """Refuse a place for external data that is outside the output's folder, or that readers refuse."""
    shown = shown_path(destination)
    try:
        if not destination.resolve().is_relative_to(output.directory.resolve()):
            raise UsageError(f"{shown} cannot be written: a link leads out of the folder of {shown_path(output.path)}.")
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from None
    if fault := external.fault(destination.relative_to(output.directory).as_posix()):
        raise UsageError(f"{shown} cannot be written: as the name of external data it {fault}.")


def other_weights(path: Path) -> str:
    """Return the message for an existing file that is not overwritten."""
    return (
        f"{shown_path(path)} exists and is not the file that the model's weights are in; it is not overwritten. "
        "Write to another folder, or remove it."
    )


def too_large(path: Path) -> UsageError:
    """Return the error for a model that protobuf cannot write."""
    return UsageError(
        f"{shown_path(path)} cannot be written: the model has more than 2 GiB, which is more than protobuf writes. "
        'Keep its weights as external data: --save-as-external-data, in Python external_data="save".'
    )
