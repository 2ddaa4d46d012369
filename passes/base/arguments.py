"""Check the arguments of the Python interface, and raise UsageError with one clear sentence."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from opshift.passes.base.errors import UsageError, printable

Progress = Callable[[str, int, int], None]
"""Called with a stage, the steps done and all steps."""

EFFORTS = {"quick": 1 / 3, "normal": 1.0, "thorough": 10.0}
"""The factors by which each effort multiplies the CPU time of a verification."""


QUANTIZED = ("qoperator", "qdq")
"""The forms of quantized operators: integer operators, or float operators between DequantizeLinear and QuantizeLinear.
"""


def check_types(asked: Mapping[str, Any]) -> None:
    """Raise UsageError, with a sentence, for an argument of `convert` with an unsupported type."""
    for name in ("decompose", "assume", "allow", "allow_paths"):
        if name in asked:
            _names(name, asked[name])
    for name in ("optimize", "keep_initializers_as_inputs", "fold", "io_types", "require_proof"):
        if not isinstance(asked.get(name, False), bool):
            raise UsageError(f"{name} is True or False, not {_shown(asked[name])}.")
    if not isinstance(asked.get("verify", True), bool) and not _is_one_of(asked["verify"], ("nodes",)):
        raise UsageError(f"verify is True, False or 'nodes', not {_shown(asked['verify'])}.")
    if asked.get("save_repro") is not None and not _is_path(asked["save_repro"]):
        raise UsageError(f"save_repro is the path of a folder, not {_shown(asked['save_repro'])}.")
    semantics = asked.get("semantics", "runtime")
    if not _is_one_of(semantics, ("runtime", "spec")):
        raise UsageError(f"semantics is 'runtime' or 'spec', not {_shown(semantics)}.")
    quantized = asked.get("quantized")
    if quantized is not None and not _is_one_of(quantized, QUANTIZED):
        raise UsageError(f"quantized is 'qoperator' or 'qdq', not {_shown(quantized)}.")
    check_progress(asked.get("progress"))
    # Where dims are fixed too, one may be kept; a comparison needs all sizes.
    check_inputs(asked.get("input_shapes"), asked.get("inputs"), kept="dims" in asked)
    _check_sizes(asked.get("dims"), asked.get("batch"))
    _check_changes(asked.get("types"))


def check_effort(effort: object, max_time: object) -> None:
    """Raise UsageError for an invalid effort or time."""
    if not _is_one_of(effort, EFFORTS):
        raise UsageError(f"effort is one of {', '.join(EFFORTS)}, not {effort!r}.")
    if max_time is None:
        return
    number = isinstance(max_time, int | float) and not isinstance(max_time, bool)
    if not number or not 0 < max_time < math.inf:  # type: ignore[operator]
        raise UsageError(f"max_time is a number of seconds, more than 0, not {max_time!r}.")


def check_progress(progress: Any) -> None:
    """Raise UsageError for a callback that cannot be called with a stage, the steps done and all steps."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is a function of a stage, the steps done and all steps, not {_shown(progress)}.")


def _is_one_of(value: Any, words: Collection[str]) -> bool:
    """Return whether a value, which may be an array, is one of the given words."""
    return isinstance(value, str) and value in words


KEPT = -1
"""A size in an input's new shape: keep the declared dim."""


def check_inputs(shapes: Any, inputs: Any, *, kept: bool = False) -> None:
    """Raise UsageError for input shapes or values that are neither a mapping nor a path; with `kept`, -1 is a size."""
    if shapes is not None and not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is a mapping from names to shapes, not {_shown(shapes)}.")
    for name, shape in (shapes or {}).items():
        if (
            isinstance(shape, str | bytes)
            or not _is_sequence(shape)
            or not all(_is_size(size) or (kept and size == KEPT) for size in shape)
        ):
            raise UsageError(
                f"input_shapes gives {printable(str(name))} the shape {_shown(shape)}; give a tuple of sizes."
            )
    several = isinstance(inputs, list | tuple) and bool(inputs) and all(isinstance(one, Mapping) for one in inputs)
    if inputs is not None and not several and not isinstance(inputs, str | os.PathLike | Mapping):
        raise UsageError(f"inputs is a path, a mapping from names to arrays or a list of such, not {_shown(inputs)}.")


def _check_sizes(dims: Any, batch: Any) -> None:
    """Raise UsageError for sizes of dims that are not a mapping of valid sizes."""
    if dims is not None and not isinstance(dims, Mapping):
        raise UsageError(f"dims is a mapping from names of symbolic dims to sizes, not {_shown(dims)}.")
    for name, size in (dims or {}).items():
        if not isinstance(name, str) or not _is_size(size):
            raise UsageError(f"dims gives {printable(str(name))} the size {_shown(size)}; give a whole number.")
    if batch is not None and not _is_size(batch):
        raise UsageError(f"batch is a size, not {_shown(batch)}.")


def _check_changes(types: Any) -> None:
    """Raise UsageError for changes of element types that are not a mapping from names to names."""
    if types is not None and not isinstance(types, Mapping):
        raise UsageError(f"types is a mapping from old to new element types, not {_shown(types)}.")
    for old, new in (types or {}).items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise UsageError(f"types maps {_shown(old)} to {_shown(new)}; give names such as 'int64' and 'int32'.")


def check_path(path: Any, name: str, forms: str) -> None:
    """Raise UsageError for an argument that is not a path."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"{name} is {forms}, not {_shown(path)}.")


def _names(name: str, value: Any) -> None:
    what = "directories" if name == "allow_paths" else "operators" if name == "decompose" else "names"
    if isinstance(value, str | bytes | os.PathLike):
        raise UsageError(f"{name} must be a list of {what}, not {_shown(value)} alone.")
    if not isinstance(value, Collection) or getattr(value, "ndim", 1) != 1:
        raise UsageError(f"{name} must be a list of {what}, not {_shown(value)}.")
    for item in value:
        if not (_is_path(item) if name == "allow_paths" else isinstance(item, str)):
            raise UsageError(f"{name} must be a list of {what}; {_shown(item)} is not valid.")


def _is_path(value: Any) -> bool:
    """Return whether a value can be a path; an empty one, as of an unset variable, would be the working directory."""
    if not isinstance(value, str | os.PathLike):
        return False
    text = os.fspath(value)
    return isinstance(text, str) and bool(text) and "\0" not in text


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and getattr(value, "ndim", 1) == 1


def _is_size(value: Any) -> bool:
    """Return whether a value is a nonnegative integer that fits in 64 bits."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= int(value) < 2**63


def shown_type(value: Any) -> str:
    """Return the name of a value's type, for a message."""
    return "None" if value is None else f"an object of type {printable(type(value).__name__)}"


def _shown(value: Any) -> str:
    return printable(value) if isinstance(value, str | bytes) else printable(repr(value)).strip("'\"")
