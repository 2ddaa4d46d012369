"""What callers of the Python interface give: models in many forms, and arguments of types that make sense."""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from opshift.passes.base.errors import UsageError, printable

if TYPE_CHECKING:
    import onnx
    import onnx_ir

FORMS = (
    "a path, bytes, a file opened in binary mode, an onnx.ModelProto, an onnx_ir.Model or an object with .model_proto"
)
"""What a model is given as."""


class HasModelProto(Protocol):
    """An object that holds a model, such as torch.onnx.ONNXProgram."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model."""


Model: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | onnx.ModelProto | onnx_ir.Model | HasModelProto"


def as_model(model: Any) -> str | os.PathLike[str] | onnx.ModelProto | onnx_ir.Model:
    """Return a model as a path, a protobuf or an onnx_ir.Model. A file is read from where it stands.

    Raises:
        InvalidModelError: bytes, or a file, hold no ONNX model.
        UsageError: it is none of these.
    """
    import onnx

    # An `onnx_ir.Model` implies that onnx_ir is already imported: nobody else waits for the import.
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
    raise UsageError(f"A model is {FORMS}, not {_shown_type(model)}.")


def _contents(file: Any) -> bytes:
    from opshift.passes.io.reader import read_stream

    try:
        data = read_stream(file, "the file of the model")
    except (OSError, ValueError) as error:  # ValueError: it is closed, or not open for reading
        raise UsageError(f"The file of the model cannot be read: {error}.") from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(
            f"The file of the model gives {type(data).__name__}, not bytes. Open it in binary mode ('rb')."
        )
    return bytes(data)


def check_types(asked: Mapping[str, Any]) -> None:
    """Raise UsageError, with a sentence, for an argument of `convert` that is of another type than it can be."""
    for name in ("decompose", "assume", "allow", "allow_paths"):
        if name in asked:
            _names(name, asked[name])
    for name in ("optimize", "keep_initializers_as_inputs", "require_proof"):
        if not isinstance(asked.get(name, False), bool):
            raise UsageError(f"{name} is True or False, not {_shown(asked[name])}.")
    if not isinstance(asked.get("verify", True), bool) and not _is_one_of(asked["verify"], ("nodes",)):
        raise UsageError(f"verify is True, False or 'nodes', not {_shown(asked['verify'])}.")
    if asked.get("save_repro") is not None and not isinstance(asked["save_repro"], str | os.PathLike):
        raise UsageError(f"save_repro is the path of a folder, not {_shown(asked['save_repro'])}.")
    semantics = asked.get("semantics", "runtime")
    if not _is_one_of(semantics, ("runtime", "spec")):
        raise UsageError(f"There are the semantics runtime and spec, not {_shown(semantics)}.")
    check_progress(asked.get("progress"))
    check_inputs(asked.get("input_shapes"), asked.get("inputs"))


def check_progress(progress: Any) -> None:
    """Raise UsageError for what cannot be called with a stage, the steps done and all steps."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is a function of a stage, the steps done and all steps, not {_shown(progress)}.")


def _is_one_of(value: Any, words: Collection[str]) -> bool:
    """Whether a value, which may be an array, is one of some words."""
    return isinstance(value, str) and value in words


def check_inputs(shapes: Any, inputs: Any) -> None:
    """Raise UsageError for shapes or values of inputs that are no mapping, or no path."""
    if shapes is not None and not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is a mapping from names to shapes, not {_shown(shapes)}.")
    for name, shape in (shapes or {}).items():
        if isinstance(shape, str | bytes) or not _is_sequence(shape) or not all(map(_is_size, shape)):
            raise UsageError(
                f"input_shapes gives {printable(str(name))} the shape {_shown(shape)}; give a tuple of sizes."
            )
    if inputs is not None and not isinstance(inputs, str | os.PathLike | Mapping):
        raise UsageError(f"inputs is a path, or a mapping from names to arrays, not {_shown(inputs)}.")


def check_path(path: Any, name: str, forms: str) -> None:
    """Raise UsageError for a path that is none."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"{name} is {forms}, not {_shown(path)}.")


def _names(name: str, value: Any) -> None:
    what = "directories" if name == "allow_paths" else "operators" if name == "decompose" else "names"
    if isinstance(value, str | bytes | os.PathLike):
        raise UsageError(f"{name} is a list of {what}, not {_shown(value)} alone.")
    if not isinstance(value, Collection) or getattr(value, "ndim", 1) != 1:
        raise UsageError(f"{name} is a list of {what}, not {_shown(value)}.")
    for item in value:
        if not isinstance(item, str | os.PathLike if name == "allow_paths" else str):
            raise UsageError(f"{name} is a list of {what}; {_shown(item)} is none.")


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and getattr(value, "ndim", 1) == 1


def _is_size(value: Any) -> bool:
    """Whether a value is a whole number, which is not negative and fits in 64 bits."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= int(value) < 2**63


def _shown_type(value: Any) -> str:
    return "None" if value is None else f"an object of type {printable(type(value).__name__)}"


def _shown(value: Any) -> str:
    return printable(value) if isinstance(value, str | bytes) else printable(repr(value)).strip("'\"")
