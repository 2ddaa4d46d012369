"""Serialize a model in chunks, so that large weights are not copied into one string.

Weights that stayed in the model's file are ranges of that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import TensorProto

from opshift.passes.base.errors import InvalidModelError, printable
from opshift.passes.io import external_data
from opshift.passes.io.external_data import LARGE, Span
from opshift.passes.io.lazy_weights import varint

_GRAPH, _INITIALIZER, _RAW_DATA = (
    onnx.ModelProto.GRAPH_FIELD_NUMBER,
    onnx.GraphProto.INITIALIZER_FIELD_NUMBER,
    TensorProto.RAW_DATA_FIELD_NUMBER,
)


@dataclass(frozen=True)
class RawData:
    """The raw_data of a tensor, and its number of bytes."""

    tensor: TensorProto
    length: int


Chunk = bytes | RawData | Span


def serialized_chunks(model: onnx.ModelProto) -> list[Chunk]:
    """Return the bytes of `SerializeToString` in chunks, with fields in the same order.

    Raises:
        EncodeError: a part that protobuf serializes is larger than protobuf writes.
    """
    large = [external_data.span_of(tensor) or _raw(tensor) for tensor in model.graph.initializer]
    if not any(large) or any(map(_has_unknown, (model, model.graph, *model.graph.initializer))):
        return [external_data.filled(model).SerializeToString()]
    weights: list[Chunk] = []
    for tensor, data in zip(model.graph.initializer, large, strict=True):
        inside = list(_around(_bare(tensor), _RAW_DATA, [data])) if data else None
        weights += _field(_INITIALIZER, inside or [tensor.SerializeToString()])
    return list(_around(model, _GRAPH, list(_around(model.graph, _INITIALIZER, weights, whole=True))))


def data_of(chunk: bytes | RawData) -> bytes:
    """Return the bytes of a chunk that is in memory.

    Raises:
        InvalidModelError: a tensor has more or fewer bytes than its shape and element type require.
    """
    if isinstance(chunk, bytes):
        return chunk
    data = chunk.tensor.raw_data
    if len(data) != chunk.length:
        raise InvalidModelError(
            f"tensor {printable(chunk.tensor.name)} has {len(data)} bytes of data; its shape and element type need "
            f"{chunk.length}."
        )
    return data


def _raw(tensor: TensorProto) -> RawData | None:
    """Return the data of a tensor with a large declared size: protobuf would copy the data to count them."""
    if not tensor.HasField("raw_data"):
        return None
    try:
        size = external_data.size(tensor)
    except InvalidModelError:  # an invalid type or shape
        return None
    return None if size is None or size < LARGE else RawData(tensor, size)


def length(parts: Iterable[Chunk]) -> int:
    """Return the number of bytes."""
    return sum(len(part) if isinstance(part, bytes) else part.length for part in parts)


def _bare(tensor: TensorProto) -> TensorProto:
    """Return a tensor without the span in place of its elements."""
    if not external_data.is_span(tensor):
        return tensor
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("external_data")
    bare.ClearField("data_location")
    return bare


def _around(message: Message, number: int, parts: list[Chunk], *, whole: bool = False) -> Iterator[Chunk]:
    """Yield a message with these parts as its only field; `whole`: the parts have their own tags."""
    yield _fields(message, lambda one: one < number)
    yield from parts if whole else _field(number, parts)
    yield _fields(message, lambda one: one > number)


def _fields(message: Message, wanted: Callable[[int], bool]) -> bytes:
    """Return some fields of a message in protobuf's encoding."""
    kept = type(message)()
    for field in message.DESCRIPTOR.fields:  # listing the set fields would copy each of them
        if not wanted(field.number):
            continue
        if field.has_presence and not message.HasField(field.name):
            continue
        # without presence a field is repeated, because ONNX uses proto2
        if field.message_type or not field.has_presence:
            getattr(kept, field.name).MergeFrom(getattr(message, field.name))
        else:
            setattr(kept, field.name, getattr(message, field.name))
    data: bytes = kept.SerializeToString()
    return data


def _field(number: int, parts: list[Chunk]) -> list[Chunk]:
    """Return parts as one field, preceded by their length."""
    return [varint(number << 3 | 2) + varint(length(parts)), *parts]


def _has_unknown(message: Message) -> bool:
    return len(UnknownFieldSet(message)) > 0
