"""Find the tensors of a model that refer to files, and the references that are safe to follow.

A location is checked by its text, then in the file system. Only a regular file in the model's own directory, without
another name (hard link), is accepted, so that an untrusted model reaches no other file. Only `embedded` opens files.

Large weights in the model's own file also stay there: a tensor has a `Span` in place of its elements. Only this process
recognizes a span; it is not external data. `fill` and the writer put the bytes back.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import SMALL
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.base.errors import printable as printable
from opshift.passes.base.errors import reason as reason
from opshift.passes.base.errors import shown_path as shown_path
from opshift.passes.graph.traversal import GraphView, graph_views, tensors

_WIDTHS = {
    8: "UINT8 INT8 BOOL FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0",
    16: "UINT16 INT16 FLOAT16 BFLOAT16",
    32: "FLOAT INT32 UINT32",
    64: "DOUBLE INT64 UINT64 COMPLEX64",
    128: "COMPLEX128",
    2: "UINT2 INT2",
    4: "UINT4 INT4 FLOAT4E2M1",
    6: "FLOAT6E2M3 FLOAT6E3M2",
}
_BITS = {TensorProto.DataType.Value(name): bits for bits, names in _WIDTHS.items() for name in names.split()}

ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
"""The element types that the installed onnx defines."""


ELEMENTS = (
    *("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data"),
    *("raw_data", "external_data", "data_location"),
)
"""The fields of a tensor that hold its elements, or their location."""


OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a checked path: a link or a FIFO at this path was put there after the check."""

_SPAN = f"opshift {os.urandom(16).hex()}"
"""The key of an entry that is a span. It is random in each process, so no file can contain it."""

# onnxruntime interprets this location as an address in its own memory.
_MEMORY = "*/_ORT_MEM_ADDR_/*"


def is_external(tensor: TensorProto) -> bool:
    """Return whether the tensor's elements are in another file."""
    return tensor.data_location == TensorProto.EXTERNAL and not is_span(tensor)


_ADDRESSED = 2**58
"""The maximum product of an array's nonzero dims: numpy accepts no larger array, not even an empty one."""


def size(tensor: TensorProto) -> int | None:
    """Return the bytes that the tensor's shape and element type require, or None if the size is variable.

    Raises:
        InvalidModelError: an element type that does not exist, a negative dimension, or more than memory addresses.
    """
    if tensor.data_type not in ELEMENT_TYPES:
        raise InvalidModelError(
            f"tensor {printable(tensor.name)} has the element type {tensor.data_type}, "
            f"which onnx {onnx.__version__} does not know."
        )
    if any(dim < 0 for dim in tensor.dims):
        raise InvalidModelError(f"tensor {printable(tensor.name)} has a negative dimension: {list(tensor.dims)[:16]}.")
    if math.prod(filter(None, tensor.dims)) > _ADDRESSED:
        dims = list(tensor.dims)[:16]
        raise InvalidModelError(f"tensor {printable(tensor.name)} has dimensions beyond memory: {dims}.")
    bits = _BITS.get(tensor.data_type)
    return None if bits is None else -(-math.prod(tensor.dims) * bits // 8)


@dataclass(frozen=True)
class FileReference:
    """The place of a tensor's bytes: `length` bytes (None: unknown) from `offset` in the file `location`."""

    tensor: str
    location: str
    offset: int
    length: int | None


def references(found: Iterable[GraphView]) -> tuple[FileReference, ...]:
    """Return the references of all external tensors.

    Raises:
        InvalidModelError: a reference is malformed, or its text leads out of the model's directory.
    """
    return tuple(reference(tensor) for tensor in tensors(found) if is_external(tensor))


def reference(tensor: TensorProto) -> FileReference:
    """Return the location of an external tensor's bytes; raises as `references`."""
    shown = f"the external data of tensor {printable(tensor.name)}"
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if not isinstance(entry.key, str) or not isinstance(entry.value, str):
            raise InvalidModelError(f"{shown} is described by text that is not UTF-8.")
        if entry.key in entries:  # readers differ in which entry they use
            raise InvalidModelError(f"{shown} has the entry {printable(entry.key)} twice.")
        entries[entry.key] = entry.value
    location = entries.get("location", "")
    if wrong := fault(location):
        raise InvalidModelError(
            f"{shown} is in {printable(location)}, which {wrong}. "
            "Only a relative path into the model's own folder is safe to open."
        )
    offset = _number(entries.get("offset", "0"), "offset", shown)
    length = _number(entries["length"], "length", shown) if "length" in entries else None
    needed = size(tensor)
    if tensor.data_type == TensorProto.STRING:
        raise InvalidModelError(f"tensor {printable(tensor.name)} holds strings, which cannot be external data.")
    if length is not None and needed is not None and length != needed:
        raise InvalidModelError(f"{shown} is {length} bytes long, its shape and element type need {needed}.")
    return FileReference(tensor.name, location, offset, needed if length is None else length)


def fault(location: str) -> str | None:
    """Return the reason why a location's text is unsafe; the rules of Windows hold on every system."""
    windows = PureWindowsPath(location)
    if not location:
        return "names no file"
    if location.startswith(_MEMORY):
        return "is an address in memory"
    if "\0" in location:
        return "has a zero byte in it"
    if location.startswith("/") or windows.drive or windows.root:
        return "is an absolute path"
    if "\\" in location:
        return "has a backslash in it"
    if ".." in location.split("/"):
        return "has '..' in it"
    return None


def _number(text: str, what: str, shown: str) -> int:
    # int() accepts more: blanks, signs, underscores, digits of other scripts, and more digits than any file size.
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise InvalidModelError(f"{shown} has the {what} {printable(text)}, which is not a number of bytes.")
    return int(text)


def resolve(
    found: Iterable[FileReference], directory: Path, model: Path | None, allowed: Collection[Path] = ()
) -> dict[str, Path]:
    """Return the real path of each file that a model in `directory` refers to, by location.

    A link is followed as onnxruntime follows it: the real path must be inside the real directory or, where `model` is
    itself a link, inside the directory of the real model. So a cache of the Hugging Face kind (snapshots/ with links
    into blobs/) works. A file with several hard links is refused, as onnx does: one of its names may be outside. Files
    inside the `allowed` directories, real paths, may be reached by links of both kinds.

    Raises:
        InvalidModelError: a file that is missing, cannot be reached, leads out of these directories, is not a regular
            file, has another name, or is too short for a tensor.
    """
    roots = {real(directory), real(model).parent if model else real(directory)}
    files: dict[str, tuple[Path, int]] = {}
    for reference in found:
        path = directory / reference.location
        shown = f"the external data of tensor {printable(reference.tensor)}, {shown_path(path)},"
        if reference.location not in files:
            files[reference.location] = _file(path, roots, allowed, shown)
        length, available = reference.length or 0, files[reference.location][1]
        if reference.offset + length > available:
            raise InvalidModelError(
                f"{shown} is too short: {length} bytes from {reference.offset} on are wanted, "
                f"the file has {available}. Was it cut off while it was copied?"
            )
    return {location: path for location, (path, _) in files.items()}


def real(path: Path) -> Path:
    """Return the path with all links followed; raise InvalidModelError for a circle of links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise InvalidModelError(f"{shown_path(path)} cannot be reached: {reason(error)}.") from None


def _file(path: Path, roots: Collection[Path], allowed: Collection[Path], shown: str) -> tuple[Path, int]:
    """Return a file's real path and size without opening it: a FIFO would block, and a device may react."""
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except FileNotFoundError:
        raise InvalidModelError(f"{shown} is missing. A model and its external data belong in one folder.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidModelError(f"{shown} cannot be reached: {reason(error)}.") from None
    trusted = any(real.is_relative_to(root) for root in allowed)
    if not trusted and not any(real.is_relative_to(root) for root in roots):
        raise InvalidModelError(
            f"{shown} is a link that leads out of the model's folder, to {shown_path(real)}. "
            "Such a link is not followed: copy the file into the folder of the model, or name the folder that it leads "
            "to with --allow-path (in Python allow_paths) if you trust the model with it."
        )
    if not stat.S_ISREG(status.st_mode):
        raise InvalidModelError(f"{shown} is not a regular file.")
    if not trusted and status.st_nlink > 1:
        raise InvalidModelError(
            f"{shown} has {status.st_nlink} hard links, so that it may be a file of another folder. Such a file is not "
            "opened: put a copy in its place, or name its folder with --allow-path (in Python allow_paths) if you "
            "trust the model with it."
        )
    return real, status.st_size


def permitted(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the real paths of directories whose files may be reached by links.

    Raises:
        UsageError: one is not a directory.
    """
    if isinstance(paths, str | bytes | os.PathLike):
        raise UsageError(f"allow_paths is a list of directories, not {paths!r} alone.")
    found = []
    for path in paths:
        if not os.fspath(path):  # as of an unset variable: it would be the working directory
            raise UsageError("--allow-path '': the name of a folder is missing.")
        try:
            found.append(Path(path).resolve(strict=True))
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"--allow-path {shown_path(path)}: {reason(error)}.") from None
        if not found[-1].is_dir():
            raise UsageError(f"--allow-path {shown_path(path)}: this is not a folder.")
    return tuple(found)


def relocated(model: onnx.ModelProto, files: Mapping[str, Path], directory: Path) -> tuple[onnx.ModelProto, Path]:
    """Return a model with the real paths of its files, and the folder that they are relative to.

    `files` are the result of `resolve`. A model with real paths is returned itself. Neither onnx nor, for a model
    without a path, onnxruntime follows links.
    """
    if all(path == real(directory) / location for location, path in files.items()):
        return model, directory
    try:
        root = Path(os.path.commonpath([path.parent for path in files.values()]))
    except ValueError:
        raise InvalidModelError(
            "its external data lie on several drives. Copy them into the folder of the model."
        ) from None
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    for tensor in tensors(graph_views(moved)):
        for entry in tensor.external_data if is_external(tensor) else ():
            if entry.key == "location":
                entry.value = files[entry.value].relative_to(root).as_posix()
    return moved, root


def with_small(model: onnx.ModelProto, files: Mapping[str, Path]) -> onnx.ModelProto:
    """Return a model whose small external tensors hold their elements; the model itself if it has none.

    `files` are the result of `resolve`; the external data of a model in memory are not read. Tensors are small if
    `facts_of_tensor` reads their elements.

    Raises:
        InvalidModelError: a file cannot be read, is too short, or changes meanwhile.
    """
    if not files or not any(map(_is_small, tensors(graph_views(model)))):
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    with contextlib.ExitStack() as stack:
        opened_files = {path: stack.enter_context(opened(path)) for path in set(files.values())}
        for tensor in filter(_is_small, tensors(graph_views(whole))):
            where = reference(tensor)
            path = files[where.location]
            opened_files[path].seek(where.offset)
            needed = size(tensor) or 0
            data = opened_files[path].read(needed)
            if len(data) != needed:
                raise InvalidModelError(f"{shown_path(path)} is too short. Was it changed in the meantime?")
            for field in ELEMENTS:
                tensor.ClearField(field)
            tensor.raw_data = data
    return whole


def _is_small(tensor: TensorProto) -> bool:
    return is_external(tensor) and math.prod(tensor.dims) * 8 <= SMALL and size(tensor) is not None


def embedded(tensor: TensorProto, directory: Path | None) -> TensorProto:
    """Return a tensor with its elements embedded, read from its file in a directory.

    `resolve` has accepted the file. Without a directory, external data stay in their files.

    Raises:
        InvalidModelError: it cannot be read, is too short, or was changed since its span was taken.
    """
    if span := span_of(tensor):
        whole = TensorProto()
        whole.CopyFrom(tensor)
        take(whole, span)
        return whole
    if directory is None or not is_external(tensor):
        return tensor
    where = reference(tensor)
    path = directory / where.location
    try:
        with os.fdopen(
            os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
        ) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidModelError(f"{shown_path(path)} is not a regular file.")
            file.seek(where.offset)
            data = file.read(-1 if where.length is None else where.length)
    except OSError as error:
        raise InvalidModelError(f"{shown_path(path)} cannot be read: {reason(error)}.") from None
    if where.length is not None and len(data) < where.length:
        raise InvalidModelError(f"{shown_path(path)} is too short. Was it changed in the meantime?")
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=data)


# --- weights that stay in the model's file ---

LARGE = 2**18
"""The minimum size of large weights in bytes; smaller weights are read and written with the message around them.

No analysis depends on the elements of tensors of this size; see `facts_of_tensor`.
"""


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return an identifier of a file's state, starting with its size.

    The change time of the inode cannot be set back, unlike that of the contents. On Windows it is the creation time.
    The device is left out because its number differs between machines.
    """
    return (status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


_TICK = 10_000_000  # nanoseconds: file systems may give all changes within this interval the same time


def settled(status: os.stat_result) -> None:
    """Wait until a recently changed file would get another time, so that its stamp reveals the next change."""
    age = time.time_ns() - status.st_mtime_ns
    if 0 <= age < _TICK:
        time.sleep((_TICK - age) / 1e9)


def changed(path: Path) -> InvalidModelError:
    """Return the error for a file that has changed since it was read."""
    return InvalidModelError(f"{shown_path(path)}: the file was changed in the meantime; convert it again.")


def stamps(files: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """Return the stamps of files.

    Raises:
        InvalidModelError: a file no longer exists.
    """
    found = {}
    for path in files:
        try:
            settled(path.stat())
            found[path] = stamp(path.stat())
        except OSError as error:
            raise InvalidModelError(f"{shown_path(path)} cannot be reached: {reason(error)}.") from None
    return found


def check_stamps(stamps: Mapping[Path, tuple[int, ...]]) -> None:
    """Raise if a file's stamp has changed.

    Raises:
        InvalidModelError: it was changed or removed.
    """
    for path, before in stamps.items():
        try:
            now = stamp(path.stat())
        except OSError:
            now = ()
        if now != before:
            raise changed(path)


@dataclass(frozen=True)
class Span:
    """The elements of a tensor in a file: `length` bytes from `offset` on, while the file's stamp is `stamp`.

    With `types`, the elements have the first type in the file, and are converted to the second one when they are read;
    `length` is their size after this conversion.
    """

    file: Path
    stamp: tuple[int, ...]
    offset: int
    length: int
    types: tuple[int, int] | None = None

    @property
    def stored(self) -> int:
        """The number of bytes in the file."""
        return self.length * _BITS[self.types[0]] // _BITS[self.types[1]] if self.types else self.length

    def converted(self, data: bytes) -> bytes:
        """Return the elements converted to their new type: floats are rounded to the nearest, ties to even."""
        if self.types is None:
            return data
        old, new = (onnx.helper.tensor_dtype_to_np_dtype(one) for one in self.types)
        with np.errstate(over="ignore"):
            return np.frombuffer(data, old).astype(new).tobytes()


@contextlib.contextmanager
def opened(path: Path, read: tuple[int, ...] | None = None) -> Iterator[BinaryIO]:
    """Open a file to read it.

    Raises:
        InvalidModelError: it cannot be opened, changes meanwhile, or no longer has the stamp `read`.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | OPEN_FLAGS), "rb")
    except OSError as error:
        raise InvalidModelError(f"{shown_path(path)} cannot be read: {reason(error)}.") from None
    with file:
        before = stamp(os.fstat(file.fileno()))
        if before != (read or before):
            raise changed(path)
        yield file
        if before != stamp(os.fstat(file.fileno())):
            raise changed(path)


def is_span(tensor: TensorProto) -> bool:
    """Return whether a tensor has a span in place of its elements."""
    return len(tensor.external_data) == 1 and tensor.external_data[0].key == _SPAN


def refer(tensor: TensorProto, span: Span) -> None:
    """Replace the elements of a tensor, an initializer of the main graph, by a span.

    The span covers all bytes that the tensor's shape and element type require, in the format of raw_data.
    """
    for field in ELEMENTS:
        tensor.ClearField(field)
    numbers = (span.offset, span.length, *(span.types or (0, 0)), *span.stamp)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key=_SPAN, value=" ".join([os.fsencode(span.file).hex(), *map(str, numbers)]))


def span_of(tensor: TensorProto) -> Span | None:
    """Return the span that a tensor has in place of its elements."""
    if not is_span(tensor):
        return None
    file, *numbers = tensor.external_data[0].value.split()
    offset, length, old, new, *read = map(int, numbers)
    return Span(Path(os.fsdecode(bytes.fromhex(file))), tuple(read), offset, length, (old, new) if old else None)


def fill(model: onnx.ModelProto, file: Path | None = None) -> None:
    """Put the elements back into all tensors that have a span, or into those of one file.

    Raises:
        InvalidModelError: the file cannot be read, or was changed since the span was taken.
    """
    for tensor in model.graph.initializer:
        if (span := span_of(tensor)) and (file is None or same_file(span.file, file)):
            take(tensor, span)


def filled(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose tensors all have their elements; the model itself if it has no spans. Raises as `fill`."""
    if not any(map(is_span, model.graph.initializer)):
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    fill(whole)
    return whole


def take(tensor: TensorProto, span: Span) -> None:
    """Read the bytes of a span into a tensor. Raises as `fill`."""
    with opened(span.file, span.stamp) as file:
        file.seek(span.offset)
        data = file.read(span.stored)
    for field in ELEMENTS:
        tensor.ClearField(field)
    tensor.raw_data = span.converted(data)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether both paths exist and are one file or folder."""
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
