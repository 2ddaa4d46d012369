"""Save a model: the output is the old file or the whole new one, whatever happens, and its weights come along.

Every file is written under a temporary name beside its destination, flushed to the disk, and renamed; external data
first, the model last. A name starting with `.opshift-` is such a file. Whoever writes it holds a lock on it, so what
a killed run left behind is known by its free lock, and removed by the next run that writes to the same destination.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx.numpy_helper
from google.protobuf.message import EncodeError, Message
from onnx import TensorProto

from opshift.passes import external
from opshift.passes.errors import InvalidModelError, UsageError
from opshift.passes.external import reason, shown_path
from opshift.passes.load import LIMIT, Source, is_text, stamp

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed, which serves as well as a lock
    fcntl = None  # type: ignore[assignment]

Content = Callable[[BinaryIO], None]
"""What writes a file's bytes."""

_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what was looked at before: a link or a FIFO that stands there now was put there since."""


@dataclass(frozen=True)
class _Output:
    """Where a model goes: `path` as asked for, `real` with links followed: that is the file which is replaced."""

    path: Path
    real: Path

    @property
    def directory(self) -> Path:
        """The folder that relative external data are looked for in: that of the link, not of what it points to."""
        return self.path.parent


@dataclass(frozen=True)
class _Copy:
    """A file of external data that must come along."""

    origin: Path
    destination: Path


def save(
    model: onnx.ModelProto, path: str | os.PathLike[str], *, source: Source | None = None, overwrite: bool = True
) -> None:
    """Write a model to a file, as ONNX text where the name ends in .onnxtxt, .onnx.txt or .txt.

    External data that `model` shares with `source` are referred to where the output lies in the same folder, and
    copied, each file whole and under its own name, where it does not. An output that is a link is written through: the
    link stays, and what it points to is replaced. The output may be the input.

    Raises:
        UsageError: the output cannot be written there, would replace another file's data, is larger than protobuf
            writes, or would lose something as ONNX text; or nobody knows where the external data are.
        InvalidModelError: external data are missing or unsafe to open.
    """
    output = _output(path, overwrite)
    data = _as_text(model, output.path) if is_text(output.path) else _as_binary(model, output.path)
    _write(output, lambda file: _write_bytes(file, data), _copies(model, output, source))


def copy(source: Source, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write a model that needed no change: the same bytes as in its file, external data as in `save`.

    A model in memory has no file, and ONNX text does not fit a binary file or the other way: then it is `save`. Onto
    itself nothing is written.

    Raises:
        UsageError: as `save`.
        InvalidModelError: as `save`, or the file is not the one any more that was read.
    """
    if source.path is None or is_text(source.path) != is_text(path):
        save(source.model, path, source=source, overwrite=overwrite)
        return
    output = _output(path, overwrite)
    if not external.same_file(source.path, output.real):
        origin = external.real(source.path)
        _write(output, lambda file: _copy_file(origin, file, source.stamp), _copies(source.model, output, source))


# --- what is written ---


def _as_binary(model: onnx.ModelProto, path: Path) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except EncodeError:
        data = b""
    if not 0 < len(data) <= LIMIT:
        raise UsageError(
            f"{shown_path(path)} cannot be written: the model has more than 2 GiB, which is more than protobuf writes. "
            "Keep its weights as external data: onnx.save(..., save_as_external_data=True) on the input."
        )
    return data


def _as_text(model: onnx.ModelProto, path: Path) -> bytes:
    import onnx.parser
    import onnx.printer

    try:
        text: str = onnx.printer.to_text(model)
        same = _comparable(onnx.parser.parse_model(text)) == _comparable(model)
    except Exception:  # ParseError, or whatever C++ throws at a model that its text cannot say
        same = False
    if not same:
        raise UsageError(
            f"{shown_path(path)}: ONNX text does not hold all of this model (metadata, some numbers, some names); "
            "give the output a name that ends in .onnx."
        )
    return text.encode()


def _comparable(model: onnx.ModelProto) -> bytes:
    """Return what two models have in common that mean the same to the last bit.

    The parser writes empty strings where a model has none, and numbers as numbers where a model has raw bytes.
    """
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for tensor in external.tensors(external.bodies(plain)):
        if not external.is_external(tensor) and tensor.data_type != TensorProto.STRING:
            raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
            for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
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


def _write_bytes(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _copy_file(origin: Path, file: BinaryIO, read: tuple[int, ...] | None = None) -> None:
    """Copy a file's bytes; inside the kernel, and by reference, where system and file system can do that.

    Raises:
        InvalidModelError: the file changed while it was copied, or is not the one any more that `read` was taken of.
    """
    with os.fdopen(os.open(origin, os.O_RDONLY | _AS_IT_IS), "rb") as source:
        before = stamp(os.fstat(source.fileno()))
        if hasattr(os, "copy_file_range"):
            with contextlib.suppress(OSError):  # not between these file systems; a full disk is met again below
                while os.copy_file_range(source.fileno(), file.fileno(), 1 << 30):
                    pass
        shutil.copyfileobj(source, file, 1 << 20)  # what is left: some file systems end copy_file_range too early
        if before != stamp(os.fstat(source.fileno())) or before != (read or before):
            raise InvalidModelError(f"{shown_path(origin)}: the file was changed in the meantime; convert it again.")


# --- where it is written ---


def _output(path: str | os.PathLike[str], overwrite: bool) -> _Output:
    """Look at the destination; nothing is opened or written yet."""
    shown = shown_path(path)
    if os.fspath(path).endswith(("/", os.sep)):
        raise UsageError(f"{shown} cannot be written: the name of a file is missing.")
    try:
        output = _Output(Path(path).absolute(), Path(path).resolve())
        if not output.path.parent.is_dir() or not output.real.parent.is_dir():
            raise UsageError(f"{shown} cannot be written: there is no folder {shown_path(output.real.parent)}.")
        if output.real.exists():
            _check_replaceable(output.real, shown, overwrite)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from None
    return output


def _check_replaceable(path: Path, shown: str, overwrite: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{shown} cannot be written: it is a folder.")
    if not path.is_file():  # renaming would put a file in place of a device
        raise UsageError(f"{shown} cannot be written: it is not a regular file.")
    if not overwrite:
        raise UsageError(f"{shown} exists already.")
    if not os.access(path, os.W_OK):  # renaming would not ask
        raise UsageError(f"{shown} cannot be written: it is write-protected.")


def _copies(model: onnx.ModelProto, output: _Output, source: Source | None) -> tuple[_Copy, ...]:
    """Return the external data that must be copied along; refuse what would lose or leave anything."""
    references = external.references(external.bodies(model))
    if not references:
        return ()
    shown = shown_path(output.path)
    if source is None or source.directory is None:
        raise UsageError(
            f"{shown} cannot be written: the model was given in memory, and its weights are in files whose folder is "
            "not known. Give the path of the model, or load the weights into memory first."
        )
    files = external.resolve(references, source.directory, source.path)
    for location, file in files.items():
        if external.same_file(file, output.real) or output.directory / location == output.path:
            raise UsageError(f"{shown} cannot be written: the model keeps weights in a file of that name.")
    if external.same_file(source.directory, output.directory):
        try:
            external.resolve(references, output.directory, output.path)
        except InvalidModelError as error:
            raise UsageError(
                f"{shown} cannot be written beside the input: from there, {error} Write to another folder, and the "
                "weights are copied along."
            ) from None
        return ()
    wanted = {output.directory / location: file for location, file in files.items()}
    return tuple(
        _Copy(file, destination) for destination, file in wanted.items() if not _is_there(file, destination, output)
    )


def _is_there(file: Path, destination: Path, output: _Output) -> bool:
    """Tell whether the destination is the file already; refuse if it is another, or outside the output's folder."""
    shown = shown_path(destination)
    try:
        if not destination.resolve().is_relative_to(output.directory.resolve()):
            raise UsageError(f"{shown} cannot be written: a link leads out of the folder of {shown_path(output.path)}.")
        if not os.path.lexists(destination):
            return False
        if destination.is_file() and (file.samefile(destination) or filecmp.cmp(file, destination, shallow=False)):
            return True
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from None
    raise UsageError(
        f"{shown} exists and is not the file that the model's weights are in; it is not overwritten. "
        "Write to another folder, or remove it."
    )


# --- how it is written ---


def _write(output: _Output, content: Content, copies: tuple[_Copy, ...]) -> None:
    """Write all files under temporary names, then rename them; on any failure leave everything as it was."""
    try:
        with ExitStack() as undo, ExitStack() as temporary:
            staged: list[tuple[BinaryIO, Path]] = []
            for item in copies:
                _make_folders(item.destination.parent, undo)
                file = temporary.enter_context(_temporary(item.destination))
                _copy_file(item.origin, file)
                staged.append((file, item.destination))
            model = temporary.enter_context(_temporary(output.real))
            content(model)
            _keep_permissions(model, output.real)
            for file, destination in staged:
                _publish_data(file, destination, undo)
            _publish(model, output.real)
            undo.pop_all()
    except OSError as error:
        raise UsageError(f"{shown_path(output.path)} cannot be written: {reason(error)}.") from None


def _make_folders(folder: Path, undo: ExitStack) -> None:
    """Make a folder of external data and those around it; undone, they are gone."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        undo.callback(_quietly, path.rmdir)


def _publish_data(file: BinaryIO, destination: Path, undo: ExitStack) -> None:
    """Rename a copy of external data; another run may have put the same there since this one looked."""
    file.flush()
    if not os.path.lexists(destination):
        undo.callback(_quietly, destination.unlink)
    elif not filecmp.cmp(file.name, destination, shallow=False):
        raise UsageError(f"{shown_path(destination)} was written by somebody else just now; it is not overwritten.")
    _publish(file, destination)


def _publish(file: BinaryIO, destination: Path) -> None:
    """Rename a file to its destination, once all of it is on the disk."""
    file.flush()
    os.fsync(file.fileno())
    if fcntl is None:
        file.close()  # Windows renames no open file
    Path(file.name).replace(destination)
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):  # not every file system can flush a folder
            folder = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _keep_permissions(file: BinaryIO, destination: Path) -> None:
    """Give a new file the permissions of the one that it replaces, if there is one; else the umask has decided."""
    if destination.exists():
        status = destination.stat()
        if hasattr(os, "chown"):
            _quietly(lambda: os.chown(file.name, status.st_uid, status.st_gid))
        Path(file.name).chmod(stat.S_IMODE(status.st_mode))


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        action()


@contextlib.contextmanager
def _temporary(destination: Path) -> Iterator[BinaryIO]:
    """Open a new file beside the destination, locked; it is gone in the end, unless it was renamed."""
    prefix = f".opshift-{hashlib.sha256(os.fsencode(destination.name)).hexdigest()[:16]}-"
    _sweep(destination.parent, prefix)
    file = _create(destination.parent, prefix)
    try:
        yield file
    finally:
        _quietly(file.close)
        _quietly(Path(file.name).unlink)


def _create(folder: Path, prefix: str) -> BinaryIO:
    while True:
        file = (folder / f"{prefix}{secrets.token_hex(8)}.tmp").open("xb")
        if fcntl is None:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # no locks on this file system: then nothing is swept there either
            return file
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # swept by another run before it was locked


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what killed runs left behind: files of this prefix that nobody has locked."""
    with contextlib.suppress(OSError):
        for path in [Path(entry.path) for entry in os.scandir(folder) if entry.name.startswith(prefix)]:
            with contextlib.suppress(OSError):
                _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    if fcntl is None:
        path.unlink()  # fails where the file is open
        return
    with os.fdopen(os.open(path, os.O_RDWR | _AS_IT_IS), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where it is locked
        path.unlink()
