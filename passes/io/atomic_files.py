"""Write files atomically: after any failure, each file is either the old one or the complete new one.

A file is written as a *draft*: beside its destination, under an unpredictable name, created with O_EXCL, which follows
no link. Drafts that belong together form a `Batch`: all of them are flushed to the disk first, then each is renamed to
its destination. A failure before the last rename undoes the earlier ones.

A name that starts with `.opshift-` is a draft. Its writer holds a lock on it, so a draft without a lock was left behind
by a killed process; the next process that writes to the same destination removes it.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from opshift.passes.base.errors import UsageError, reason, shown_path

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed; this serves as a lock
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".opshift-", ".tmp"
"""The prefix and the suffix of the names of drafts."""

_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_drafts: set[tuple[int, Path]] = set()
"""The drafts that exist or are about to be created: the process id and the path."""


@dataclass(frozen=True)
class Destination:
    """The destination of a file.

    `path` as the user wrote it, `real` with links followed, which is the file to replace.
    """

    path: Path
    real: Path

    @property
    def directory(self) -> Path:
        """The folder that relative external data refer to: the folder of the link, not of its target."""
        return self.path.parent


def destination_of(path: str | os.PathLike[str], *, overwrite: bool = True) -> Destination:
    """Check a destination, without opening or writing anything. A link is written through.

    Raises:
        UsageError: no file can be written there, or one exists that must not be replaced.
    """
    shown = shown_path(path)
    if os.fspath(path).endswith(("/", os.sep)):
        raise UsageError(f"{shown} cannot be written: the name of a file is missing.")
    try:
        found = Destination(Path(path).absolute(), Path(path).resolve())
        if not found.path.parent.is_dir() or not found.real.parent.is_dir():
            raise UsageError(f"{shown} cannot be written: there is no folder {shown_path(found.real.parent)}.")
        if found.real.is_symlink():  # Python 3.13 resolves a circle of links to one of them
            raise UsageError(f"{shown} cannot be written: {reason(OSError(errno.ELOOP, os.strerror(errno.ELOOP)))}.")
        if found.real.exists():
            _check_replaceable(found.real, shown, overwrite)
    except (OSError, RuntimeError, ValueError) as error:
        raise unwritable(shown, error) from None
    return found


def _check_replaceable(path: Path, shown: str, overwrite: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{shown} cannot be written: it is a folder.")
    if not path.is_file():  # a rename would replace a device by a file
        raise UsageError(f"{shown} cannot be written: it is not a regular file.")
    if not overwrite:
        raise UsageError(f"{shown} exists already.")
    if not os.access(path, os.W_OK):  # a rename would ignore the file's permissions
        raise UsageError(f"{shown} cannot be written: it is write-protected.")


def unwritable(shown: str, error: BaseException) -> UsageError:
    """Return the error for a file that cannot be written; `shown` names it."""
    return UsageError(f"{shown} cannot be written: {reason(error)}.")


@dataclass
class _Draft:
    """A file under its temporary name; `status` identifies it once it is completely written to the disk."""

    file: BinaryIO
    place: Path
    destination: Path
    shown: str
    conflict: str | None
    status: os.stat_result | None = None

    def settle(self) -> None:
        """Flush the file to the disk, with the mode and the owner of the file that it replaces."""
        self.file.flush()
        if self.conflict is None:
            _keep_mode_and_owner(self.file, self.destination)
        os.fsync(self.file.fileno())
        self.status = os.fstat(self.file.fileno())
        if fcntl is None:
            self.file.close()  # Windows cannot rename an open file

    @property
    def arrived(self) -> bool:
        """Whether the file is at its destination: a signal may arrive between the rename and any record of it."""
        try:
            return self.status is not None and os.path.samestat(self.status, self.destination.lstat())
        except OSError:
            return False


class Batch:
    """Files that are written together: either all of them arrive at their destinations, or none does.

    Use it as a context manager: files that are not published when the block ends are removed.
    """

    def __init__(self) -> None:
        """Start with no files."""
        self.ready: list[Callable[[], None]] = []
        """Called once, when all files are on the disk and none has been renamed; an exception aborts the batch."""
        self.published = False
        self._files: list[_Draft] = []
        self._undo = ExitStack()
        self._backups: list[tuple[Path, BinaryIO | None]] = []

    def __enter__(self) -> Batch:
        """Return the batch."""
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Undo all changes, unless the last file has arrived; remove all drafts."""
        done = bool(self._files) and self._files[-1].arrived
        try:
            for draft in self._files:  # files before the folders that contain them
                _remove(draft.place, draft.file)
            if not done:
                self._undo.close()
        finally:
            for place, file in self._backups:
                _remove(place, file)

    def draft(self, destination: Path, shown: str = "", *, conflict: str | None = None) -> BinaryIO:
        """Create a file that will be renamed to `destination`, and return it, to be written.

        `shown` names it in messages. With `conflict`, no other file is replaced: an existing file with the same
        contents is kept; otherwise a UsageError with the message `conflict` is raised.
        """
        private = conflict is None and destination.exists()
        place, file = _created(destination, 0o600 if private else 0o666)
        self._files.append(_Draft(file, place, destination, shown or shown_path(destination), conflict))
        return file

    def make_folders(self, folder: Path) -> None:
        """Create a folder and its parents, which are removed again if the batch fails."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self._undo.callback(_quietly, path.rmdir)

    def publish(self) -> None:
        """Flush all files to the disk, call `ready`, and rename the files in the order in which they were created.

        Raises:
            UsageError: a file cannot be written, or its destination is another file.
        """
        self._each(_Draft.settle)
        for call in self.ready:
            call()
        self._each(self._rename)
        self.published = True

    def _each(self, action: Callable[[_Draft], None]) -> None:
        for draft in self._files:
            try:
                action(draft)
            except OSError as error:
                raise unwritable(draft.shown, error) from None

    def _rename(self, draft: _Draft) -> None:
        if draft.conflict is not None and os.path.lexists(draft.destination):
            if not filecmp.cmp(draft.place, draft.destination, shallow=False):
                raise UsageError(draft.conflict)
            draft.status = draft.destination.lstat()
            return
        if draft is not self._files[-1]:
            self._remember(draft)
        draft.place.replace(draft.destination)
        _flush_folder(draft.destination.parent)

    def _remember(self, draft: _Draft) -> None:
        """On failure, restore the file that a draft replaces, or remove the draft if there was no such file."""
        destination = draft.destination
        if not destination.exists():
            self._undo.callback(_quietly, lambda: destination.unlink() if draft.arrived else None)
            return
        backup = _name(destination)
        _drafts.add((os.getpid(), backup))
        self._backups.append((backup, None))
        try:
            os.link(destination, backup)
        except (OSError, AttributeError, NotImplementedError):  # a file system, or a system, without hard links
            place, file = _created(destination, 0o600)
            self._backups[-1] = backup, file
            self._backups.append((place, None))
            shutil.copy2(destination, place)
            backup = place
        else:
            self._backups[-1] = backup, _locked(backup)
        self._undo.callback(_quietly, lambda: backup.replace(destination) if draft.arrived else None)


class Lines:
    """A file to which whole lines are appended, each by one system call, so that no interruption splits a line.

    The file must be a regular one: its name is opshift's choice, so a link of that name is not followed.
    """

    def __init__(self, path: Path) -> None:
        """Open the file or create it; end a line that a killed process or a full disk has cut off.

        Raises:
            UsageError: it cannot be written, or is no regular file.
        """
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _OPEN_FLAGS
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise UsageError(f"{shown_path(path)} is not a regular file; remove it, or name another folder.")
            self._file = os.fdopen(os.open(path, flags, 0o666), "ab+", buffering=0)
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):  # replaced a moment ago
                self._file.close()
                raise UsageError(f"{shown_path(path)} is not a regular file; remove it, or name another folder.")
            if self._file.seek(0, os.SEEK_END):
                self._file.seek(-1, os.SEEK_END)
                if self._file.read(1) != b"\n":
                    self._file.write(b"\n")
        except OSError as error:
            raise unwritable(shown_path(path), error) from None

    def add(self, line: bytes) -> None:
        """Append a line, which has no line break in it.

        Raises:
            UsageError: it cannot be written, or only in part.
        """
        data = line + b"\n"
        try:
            whole = self._file.write(data) == len(data)
        except OSError as error:
            raise unwritable(shown_path(self.path), error) from None
        if not whole:
            raise UsageError(f"{shown_path(self.path)} cannot be written: no space left on device.")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def discard() -> None:
    """Remove all drafts of this process before it exits.

    A signal may raise an exception at any point, also between the steps of a cleanup; this cleanup is the last one.
    """
    for process, place in list(_drafts):
        if process == os.getpid():
            _quietly(place.unlink)


def sweep(folder: Path, prefix: str = PREFIX) -> None:
    """Remove the drafts with this prefix that killed processes left in a folder: those without a lock."""
    with contextlib.suppress(OSError):
        for path in [Path(entry.path) for entry in os.scandir(folder) if entry.name.startswith(prefix)]:
            if path.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    _remove_unlocked(path)


# --- steps ------------------------------------------------------------------------------------------------------------


def _prefix(destination: Path) -> str:
    return f"{PREFIX}{hashlib.sha256(os.fsencode(destination.name)).hexdigest()[:16]}-"


def _name(destination: Path) -> Path:
    """Return an unpredictable path beside a destination."""
    return destination.with_name(f"{_prefix(destination)}{secrets.token_hex(8)}{SUFFIX}")


def _created(destination: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Create a draft beside the destination, and lock it."""
    sweep(destination.parent, _prefix(destination))
    while True:
        place = _name(destination)
        _drafts.add((os.getpid(), place))  # before it exists, so that no signal comes in between
        try:
            file = _exclusive(place, mode)
        except OSError:
            _drafts.discard((os.getpid(), place))
            raise
        except BaseException:
            _remove(place, None)
            raise
        if fcntl is None:
            return place, file
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # no locks on this file system: then drafts are not swept there either
            return place, file
        if os.fstat(file.fileno()).st_nlink:
            return place, file
        file.close()  # another process swept it before it was locked
        _drafts.discard((os.getpid(), place))


def _exclusive(place: Path, mode: int) -> BinaryIO:
    """Create a file if the path does not exist, not even as a link."""
    return open(place, "xb", opener=lambda path, flags: os.open(path, flags | _OPEN_FLAGS, mode))


def _locked(place: Path) -> BinaryIO | None:
    """Open and lock an existing draft, so that no other process sweeps it."""
    if fcntl is None:
        return None
    with contextlib.suppress(OSError):
        file = os.fdopen(os.open(place, os.O_RDONLY | _OPEN_FLAGS), "rb")
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    return None


def _remove(place: Path, file: BinaryIO | None) -> None:
    """Close and remove a draft; a renamed draft no longer exists."""
    if file is not None:
        _quietly(file.close)
    _quietly(place.unlink)
    _drafts.discard((os.getpid(), place))


def _remove_unlocked(path: Path) -> None:
    if fcntl is None:
        path.unlink()  # fails if the file is open
        return
    with os.fdopen(os.open(path, os.O_RDONLY | _OPEN_FLAGS), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if it is locked
        path.unlink()


def _keep_mode_and_owner(file: BinaryIO, destination: Path) -> None:
    """Give a draft the mode and the owner of the file that it replaces; without one, the umask applies."""
    if not destination.exists():
        return
    status = destination.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not hasattr(os, "fchown"):
        Path(file.name).chmod(mode)
        return
    try:
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
    except OSError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # these would apply to another owner
        _quietly(lambda: os.fchown(file.fileno(), -1, status.st_gid))
    os.fchmod(file.fileno(), mode)


def _flush_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):  # some file systems cannot flush a folder
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        action()
