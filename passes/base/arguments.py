"""Check the arguments of the Python interface, and raise UsageError with one clear sentence."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from opshift.passes.base.errors import UsageError, printable
from opshift.passes.base.memory import LEAST_ASKED, MOST_ASKED

Progress = Callable[[str, int, int], None]
"""Called with a stage, the steps done and all steps."""

EFFORTS = {"quick": 1 / 3, "normal": 1.0, "thorough": 10.0}
"""The factors by which each effort multiplies the CPU time of a verification."""

QUANTIZED = ("qoperator", "qdq")
"""The forms of quantized operators: integer operators, or float operators between DequantizeLinear and QuantizeLinear.
"""

SEMANTICS = ("runtime", "spec")
"""The reference if onnxruntime and the specification differ."""

KEPT = -1
"""A size in an input's new shape: keep the declared dim."""


def check_flag(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False, not {_shown(value)}.")


def is_one_of(words: tuple[str, ...]) -> Callable[[str, Any], None]:
    """Return a check that raises UsageError unless the argument is one of these words."""

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, str) and value in words):
            shown = " or ".join(map(repr, words)) if len(words) == 2 else f"one of {', '.join(words)}"
            raise UsageError(f"{name} is {shown}, not {_shown(value)}.")

    return check


def check_verify(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is True, False or "nodes"."""
    if not isinstance(value, bool) and not (isinstance(value, str) and value == "nodes"):
        raise UsageError(f"{name} is True, False or 'nodes', not {_shown(value)}.")


def check_folder(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a path."""
    check_path(value, name, "the path of a folder")


def check_seed(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a whole number, 0 or more."""
    if not _is_whole(value, 0):
        raise UsageError(f"{name} is a whole number, 0 or more, not {_shown(value)}.")


def check_memory(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a possible memory limit."""
    if not _is_whole(value, LEAST_ASKED, MOST_ASKED):
        raise UsageError(f"{name} is a number of bytes, {LEAST_ASKED} (64 MiB) to {MOST_ASKED}, not {_shown(value)}.")


def check_seconds(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a positive number of seconds for which a thread can wait."""
    import threading

    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < float(value) < threading.TIMEOUT_MAX:
        raise UsageError(f"{name} is a number of seconds, more than 0, not {_shown(value)}.")


def check_progress(name: str, value: Any) -> None:
    """Raise UsageError for a callback that cannot be called with a stage, the steps done and all steps."""
    if not callable(value):
        raise UsageError(f"{name} is a function of a stage, the steps done and all steps, not {_shown(value)}.")


def check_input_shapes(name: str, value: Any, *, kept: bool = True) -> None:
    """Raise UsageError unless the argument maps names to shapes; with `kept`, -1 is a size."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} is a mapping from names to shapes, not {_shown(value)}.")
    for one, shape in value.items():
        if (
            isinstance(shape, str | bytes)
            or not _is_sequence(shape)
            or not all(_is_size(size) or (kept and size == KEPT) for size in shape)
        ):
            raise UsageError(f"{name} gives {printable(str(one))} the shape {_shown(shape)}; give a tuple of sizes.")


def check_inputs(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a path, a mapping or several mappings."""
    several = isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)
    if not several and not isinstance(value, str | os.PathLike | Mapping):
        raise UsageError(f"{name} is a path, a mapping from names to arrays or a list of such, not {_shown(value)}.")


def check_dims(name: str, value: Any) -> None:
    """Raise UsageError unless the argument maps names to sizes."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} is a mapping from names of symbolic dims to sizes, not {_shown(value)}.")
    for one, size in value.items():
        if not isinstance(one, str) or not _is_size(size):
            raise UsageError(f"{name} gives {printable(str(one))} the size {_shown(size)}; give a whole number.")


def check_batch(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a size."""
    if not _is_size(value):
        raise UsageError(f"{name} is a size, not {_shown(value)}.")


def check_type_names(name: str, value: Any) -> None:
    """Raise UsageError unless the argument maps texts to texts."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} is a mapping from old to new element types, not {_shown(value)}.")
    for old, new in value.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise UsageError(f"{name} maps {_shown(old)} to {_shown(new)}; give names such as 'int64' and 'int32'.")


def check_path(path: Any, name: str, forms: str) -> None:
    """Raise UsageError for an argument that is not a path."""
    if not _is_path(path):
        raise UsageError(f"{name} is {forms}, not {_shown(path)}.")


def check_names(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a list of names, or of directories for `allow_paths`."""
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
    return _is_whole(value, 0, 2**63 - 1)


def _is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    """Return whether a value is an integer in this range."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= int(value) <= most


def shown_type(value: Any) -> str:
    """Return the name of a value's type, for a message."""
    return "None" if value is None else f"an object of type {printable(type(value).__name__)}"


def _shown(value: Any) -> str:
    return printable(value) if isinstance(value, str | bytes) else printable(repr(value)).strip("'\"")
