"""The types of models that the Python interface accepts."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from opshift.passes.base.arguments import shown_type
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    import onnx
    import onnx_ir

FORMS = (
    "a path, bytes, a file opened in binary mode, an onnx.ModelProto, an onnx_ir.Model or an object with .model_proto"
)
"""The accepted types of a model, for messages."""


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
        from opshift.passes.io.reader import from_bytes

        return from_bytes(bytes(model))
    if callable(getattr(model, "read", None)):
        return as_model(_contents(model))
    held = getattr(model, "model_proto", None)
    if isinstance(held, onnx.ModelProto):
        return held
    raise UsageError(f"A model is {FORMS}, not {shown_type(model)}.")


def _contents(file: Any) -> bytes:
    from opshift.passes.io.reader import read_stream

    try:
        data = read_stream(file, "the file of the model")
    except (OSError, ValueError) as error:  # ValueError: it is closed, or not open for reading
        raise UsageError(f"The file of the model cannot be read: {error}.") from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(
            f"The file of the model returns {type(data).__name__}, not bytes. Open it in binary mode ('rb')."
        )
    return bytes(data)
