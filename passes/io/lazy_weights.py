"""Read a model's file without its large weights; its tensors refer to the weights in the file.

The reader follows two fields of protobuf's wire format, the graph of a model and its initializers, and skips the
raw_data of large ones. If the encoding is unusual, the whole file is read and left to protobuf.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto

from opshift.passes.base.errors import InvalidModelError
from opshift.passes.io import external_data
from opshift.passes.io.external_data import LARGE, Span

_GRAPH, _INITIALIZER, _RAW_DATA = (
    onnx.ModelProto.GRAPH_FIELD_NUMBER,
    onnx.GraphProto.INITIALIZER_FIELD_NUMBER,
    TensorProto.RAW_DATA_FIELD_NUMBER,
)
_ELEMENT_FIELDS = {
    TensorProto.DESCRIPTOR.fields_by_name[name].number for name in ("dims", "data_type", "name", "doc_string")
}
_ELEMENT_FIELDS.add(TensorProto.METADATA_PROPS_FIELD_NUMBER)
"""The fields that a tensor with a span may have besides raw_data.

Other fields also define the elements, or a segment.
"""

_FEW = 64
"""The maximum number of fields of a tensor: a tensor with more is not changed."""
_MANY = 2**22
"""The maximum number of fields of a message: walking more would take longer than reading the weights."""
_CHUNK = 2**16
_HEAD = 20
"""Bytes that are enough for a field's tag and length, which have at most five and ten."""

_VARINT, _EIGHT, _DELIMITED, _FOUR = 0, 1, 2, 5

_Field = tuple[int, int, int, int]
"""A field's number, the start of the field, the start of its contents, and its end."""
_Part = bytes | tuple[int, int]
"""Bytes, or a range of the file."""


class _UnusualEncodingError(Exception):
    """The encoding is not what protobuf writes, or the message is too large."""


def read(file: BinaryIO, path: Path, status: os.stat_result) -> bytes:
    """Return the contents of an open file, with spans in place of the raw_data of large initializers."""
    parts: Sequence[_Part]
    try:
        parts = _model(file, Span(external_data.real(path), external_data.stamp(status), 0, status.st_size))
    except (_UnusualEncodingError, IndexError):  # IndexError: the file ends in the middle of a field
        parts = [(0, status.st_size)]
    return b"".join([_bytes(file, part) for part in parts])


def _bytes(file: BinaryIO, part: _Part) -> bytes:
    if isinstance(part, bytes):
        return part
    file.seek(part[0])
    return file.read(part[1] - part[0])


def is_sound(model: onnx.ModelProto) -> bool:
    """Return whether all spans of a model have the bytes that their tensors' shapes and element types require."""
    spans = ((tensor, span) for tensor in model.graph.initializer if (span := external_data.span_of(tensor)))
    try:
        return all(external_data.size(tensor) == span.length for tensor, span in spans)
    except InvalidModelError:
        return False


# --- messages with replaced fields ---


def _model(file: BinaryIO, whole: Span) -> list[_Part]:
    graphs = [field for field in _fields(file, 0, whole.length, _MANY, LARGE) if field[0] == _GRAPH]
    return _with(0, whole.length, [(field, _graph(file, field, whole)) for field in graphs])


def _graph(file: BinaryIO, field: _Field, whole: Span) -> list[_Part]:
    _, _, begin, end = field
    tensors = [one for one in _fields(file, begin, end, _MANY, LARGE) if one[0] == _INITIALIZER]
    changed = ((one, _tensor(file, one, whole)) for one in tensors)
    return _with(begin, end, [(one, parts) for one, parts in changed if parts])


def _tensor(file: BinaryIO, field: _Field, whole: Span) -> list[_Part]:
    """Return a tensor with a span in place of its raw_data; an empty list if the tensor is not changed."""
    _, _, begin, end = field
    try:
        fields = list(_fields(file, begin, end, _FEW))
    except (_UnusualEncodingError, IndexError):
        return []
    raw = [one for one in fields if one[0] == _RAW_DATA]
    if (
        len(raw) != 1
        or raw[0][3] - raw[0][2] < LARGE
        or not {one[0] for one in fields} <= {*_ELEMENT_FIELDS, _RAW_DATA}
    ):
        return []
    _, start, first, last = raw[0]
    stub = TensorProto()
    external_data.refer(stub, Span(whole.file, whole.stamp, first, last - first))
    return [(begin, start), stub.SerializeToString(), (last, end)]


def _with(begin: int, end: int, changed: Sequence[tuple[_Field, list[_Part]]]) -> list[_Part]:
    """Return the parts between two places, with new contents for some fields."""
    found: list[_Part] = []
    for (number, start, _, stop), parts in changed:
        length = sum(len(part) if isinstance(part, bytes) else part[1] - part[0] for part in parts)
        found += [(begin, start), varint(number << 3 | _DELIMITED) + varint(length), *parts]
        begin = stop
    return [*found, (begin, end)]


# --- the wire format ---


def varint(number: int) -> bytes:
    """Return a number in protobuf's encoding."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _fields(file: BinaryIO, begin: int, end: int, most: int, least: int = 0) -> Iterator[_Field]:
    """Yield the fields of a message between two places of a file, if they have at least `least` bytes.

    An error about the end of the last field is raised only after all fields.
    """
    at = begin
    while at < end:
        file.seek(at)
        chunk = file.read(min(_CHUNK, end - at))
        stop = len(chunk) if at + len(chunk) == end else len(chunk) - _HEAD
        if stop <= 0:
            raise _UnusualEncodingError
        place = 0
        while place < stop:
            if not (most := most - 1):
                raise _UnusualEncodingError
            start = place
            tag, place = _varint(chunk, place)
            wire_type = tag & 7
            if wire_type == _DELIMITED:
                length, place = _varint(chunk, place)
            elif wire_type == _VARINT:
                length = _varint(chunk, place)[1] - place
            elif wire_type in (_EIGHT, _FOUR):
                length = 8 if wire_type == _EIGHT else 4
            else:
                raise _UnusualEncodingError
            first = place
            place += length
            if length < least:
                continue
            if wire_type == _DELIMITED and first - start != len(varint(tag) + varint(length)):
                raise _UnusualEncodingError
            yield tag >> 3, at + start, at + first, at + place
        at += place
    if at != end:
        raise _UnusualEncodingError


def _varint(chunk: bytes, place: int) -> tuple[int, int]:
    """Return a number and its end."""
    number = chunk[place]
    if number < 0x80:
        return number, place + 1
    number &= 0x7F
    for count in range(1, 10):
        byte = chunk[place + count]
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, place + count + 1
    raise _UnusualEncodingError
