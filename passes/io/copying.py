"""Copy ranges of files, with holes and by reference where the system supports it, and write the parts of a model."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from opshift.passes.io.external_data import Span, opened
from opshift.passes.io.serialization import Chunk, data_of

ReportBytes = Callable[[int], None]
"""Called with the number of additional bytes that are written."""


_CHUNK = 1 << 26


MIB = 1 << 20


def write_parts(file: BinaryIO, parts: Sequence[Chunk], report_bytes: ReportBytes) -> None:
    """Write the parts of a model to a file."""
    for part in parts:
        if isinstance(part, Span):
            copy_span(part, file, report_bytes)
        else:
            file.write(data_of(part))


def copy_span(span: Span, file: BinaryIO, report_bytes: ReportBytes) -> None:
    """Copy a range of a file, converted to another element type if the span has one."""
    if span.types is None:
        copy_file(span.file, file, span.stamp, (span.offset, span.length), report_bytes)
        return
    with opened(span.file, span.stamp) as stored:
        stored.seek(span.offset)
        left = span.stored
        while left and (data := stored.read(min(left, MIB))):
            left -= len(data)
            report_bytes(file.write(span.converted(data)))


def copy_file(
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
    while left and (data := os.read(descriptor, min(left, MIB))):
        file.write(data)
        left -= len(data)
        report_bytes(len(data))
