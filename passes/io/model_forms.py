"""The types of models that the Python interface accepts."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from opshift.passes.base.arguments import shown_type
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.io.formats import parse_binary

if TYPE_CHECKING:
    import onnx
    import onnx_ir

FORMS = (
    "a path, bytes, a file opened in binary mode, an onnx.ModelProto, an onnx_ir.Model or an object with .model_proto"
)
"""The accepted types of a model, for messages."""


LIMIT = 2**31 - 1
"""The maximum size in bytes of messages that protobuf reads and writes."""


class HasModelProto(Protocol):
    """An object that holds a model, such as torch.onnx.ONNXProgram."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model."""


Model: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | onnx.ModelProto | onnx_ir.Model | HasModelProto"


def as_model(model: Any) -> str | os.PathLike[str] | onnx.ModelProto | onnx_ir.Model:
    """Return a model as a path, a protobuf or an onnx_ir.Model. A file is read from its current position.

    Raises:
        InvalidModelError: bytes, or a file, are not an ONNX model.
        UsageError: it is none of these.
    """
    import onnx

    # An `onnx_ir.Model` implies that onnx_ir is already imported, so other callers need not wait for the import.
    ir_model = getattr(sys.modules.get("onnx_ir"), "Model", None)
    if isinstance(model, str | os.PathLike | onnx.ModelProto) or (ir_model and isinstance(model, ir_model)):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return from_bytes(bytes(model))
    if callable(getattr(model, "read", None)):
        return as_model(_contents(model))
    held = getattr(model, "model_proto", None)
    if isinstance(held, onnx.ModelProto):
        return held
    raise UsageError(f"A model is {FORMS}, not {shown_type(model)}.")


def _contents(file: Any) -> bytes:
    try:
        data = read_stream(file, "the file of the model")
    except (OSError, ValueError) as error:  # ValueError: it is closed, or not open for reading
        raise UsageError(f"The file of the model cannot be read: {error}.") from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(
            f"The file of the model returns {type(data).__name__}, not bytes. Open it in binary mode ('rb')."
        )
    return bytes(data)


def from_bytes(data: bytes, named: str = "the bytes of the model") -> onnx.ModelProto:
    """Return the model from its binary format; `named` describes the source of the bytes in errors.

    Raises:
        InvalidModelError: the bytes are not an ONNX model.
    """
    try:
        if not data:
            raise InvalidModelError("it is empty.")
        if len(data) > LIMIT:
            raise InvalidModelError(f"there are {len(data)}, and protobuf reads no more than 2 GiB.")
        return parse_binary(data)
    except InvalidModelError as error:
        raise InvalidModelError(f"{named}: {error}") from None


def read_stream(file: Any, named: str) -> Any:
    """Return the contents of a stream; an endless stream is read only up to the maximum size of a model.

    `named` describes the stream in errors.

    Raises:
        InvalidModelError: it is larger than protobuf reads, or begins unlike any model.
    """
    whole = io.BytesIO()
    while True:
        data = file.read(_CHUNK)
        if not isinstance(data, bytes | bytearray | memoryview):
            return data
        if not data:
            return whole.getvalue()
        if not whole.tell() and not bytes(data[:1]).strip(b"\0"):
            raise InvalidModelError(f"{named}: this is not an ONNX model: it begins with a zero byte.")
        whole.write(data)
        if whole.tell() > LIMIT:
            raise InvalidModelError(f"{named}: there is more than 2 GiB in it, and protobuf reads no more.")


_CHUNK = 2**24
