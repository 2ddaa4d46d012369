"""List invalid nodes that crash onnx's shape inference, and valid ones that it infers wrongly (onnx 1.23.2).

A crash ends only a child process (onnx_process.py), which cannot report a reason; the checks here report it. Generated
nodes of every operator and version found the rows; tests/test_inference.py repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import TensorProto

from opshift.opsets.registry.facts import Dim, Facts


def _gather_nd(attributes: Mapping[str, Any], outputs: int) -> str | None:
    """GatherND-12: batch_dims "must be" less than both ranks; a negative number indexes out of onnx's vectors."""
    batch_dims = attributes.get("batch_dims", 0)
    if isinstance(batch_dims, int) and batch_dims < 0:
        return f"its batch_dims is {batch_dims}, which is negative"
    return None


def _split(attributes: Mapping[str, Any], outputs: int) -> str | None:
    """Split-18: num_outputs is the "number of outputs to split parts of the tensor into"."""
    parts = attributes.get("num_outputs")
    if isinstance(parts, int) and parts != outputs:
        return f"its num_outputs is {parts}, and it has {outputs} outputs"
    return None


def _scan(attributes: Mapping[str, Any], outputs: int) -> str | None:
    """Scan-9: "the number of scan_inputs M"; onnx's inference uses a negative one as a size."""
    count = attributes.get("num_scan_inputs")
    return f"its num_scan_inputs is {count}" if isinstance(count, int) and count < 1 else None


_FATAL: Mapping[str, Callable[[Mapping[str, Any], int], str | None]] = {
    "GatherND": _gather_nd,
    "Scan": _scan,
    "Split": _split,
}

FATAL = frozenset(_FATAL)
"""The operators with attributes that crash the process."""


def exceeds_int32(axis: int) -> bool:
    """Return whether an axis exceeds 32 bits: onnx's inference truncates it after its check (LayerNormalization)."""
    return not -(2**31) <= axis < 2**31


def fatal(name: str, attributes: Mapping[str, Any], outputs: int) -> str | None:
    """Return the reason why a default-domain node is invalid in a way that crashes the process, if it is."""
    axis = attributes.get("axis")
    if isinstance(axis, int) and exceeds_int32(axis):
        return f"its axis is {axis}, which no tensor has"
    check = _FATAL.get(name)
    return check(attributes, outputs) if check else None


SLICE = "Slice"

_NEEDED: Mapping[str, tuple[int, ...]] = {SLICE: (3, 4)}
"""Inputs that onnx treats as omitted unless they are constant: Slice then cuts axis 0, whatever its axes are."""

NEEDS_CONSTANTS = frozenset(_NEEDED)
"""The operators for which onnx infers wrong dimensions if some inputs are not constant."""


def wrong_without_constants(name: str, constant: Sequence[bool | None]) -> bool:
    """Return whether onnx infers wrong dimensions, by which inputs are constant (None: omitted)."""
    return any(index < len(constant) and constant[index] is False for index in _NEEDED.get(name, ()))


INFERRED_AS: Mapping[tuple[str, int], int] = {(SLICE, 10): 11}
"""Versions that onnx infers wrongly, and a newer one with the same outputs that it infers correctly.

For Slice-10, onnx infers that a named dimension keeps its name when it is cut.
"""

ROUNDED = frozenset(("AveragePool", "LpPool", "MaxPool"))
"""The operators whose sizes onnx rounds twice, see below."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {"STFT": {"onesided": 1}}
"""Attributes for which onnx's inference uses another value than the default, if they are omitted."""

WRONG_SIZE = ROUNDED | {"ConvTranspose", *DEFAULTS}
"""The operators for which onnx infers wrong sizes because of some attributes."""


def wrong_size(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a node."""
    left_out = any(attribute not in attributes for attribute in DEFAULTS.get(name, ()))
    return left_out or rounded(name, attributes) or padded_twice(name, attributes)


def padded_twice(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a ConvTranspose, by adding `output_padding` to those of `auto_pad`.

    ConvTranspose-11: SAME_UPPER and SAME_LOWER "mean pad the input so that `output_shape[i] = input_shape[i] *
    strides[i]`"; onnxruntime 1.32.0 follows this if the kernel is large enough.
    """
    automatic = name == "ConvTranspose" and _is_same(attributes) and not attributes.get("output_shape")
    return automatic and any(attributes.get("output_padding") or ())


def _is_same(attributes: Mapping[str, Any]) -> bool:
    automatic = attributes.get("auto_pad", "NOTSET")
    automatic = automatic.decode("utf-8", "replace") if isinstance(automatic, bytes) else automatic
    return str(automatic).startswith("SAME")


def rounded(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a node because of its `ceil_mode`.

    MaxPool-22: with SAME_UPPER or SAME_LOWER a size is ceil(input / stride), whatever `ceil_mode` is. If a stride is
    larger than the kernel, the resulting padding is negative, and onnx's inference counts one window too many.
    """
    return name in ROUNDED and _is_same(attributes) and bool(attributes.get("ceil_mode"))


def without_padded(name: str, attributes: Mapping[str, Any], output: Facts) -> Facts:
    """Return the facts of an output without sizes that are wrong by `padded_twice`."""
    if not padded_twice(name, attributes) or not output.shape:
        return output
    return Facts(output.dtype, (*output.shape[:2], *[None] * (len(output.shape) - 2)))


def without_late(name: str, attributes: Mapping[str, Any], output: Facts, data: Facts | None) -> Facts:
    """Return the facts of a pool's output without sizes that count windows starting in the right padding.

    With `ceil_mode`, onnx's inference counts them. By MaxPool-22 they are "ignored", as they are in onnxruntime 1.32.0
    at every version.
    """
    if name not in ROUNDED or not attributes.get("ceil_mode") or not output.shape or data is None or not data.shape:
        return output
    rank = len(data.shape) - 2
    strides, pads = attributes.get("strides") or (1,) * rank, attributes.get("pads") or (0,) * 2 * rank
    shape = list(output.shape)
    for axis, (stride, before) in enumerate(zip(strides, pads, strict=False), 2):
        count, size = shape[axis], data.shape[axis]
        if isinstance(count, int) and isinstance(size, int) and (count - 1) * stride >= size + before:
            shape[axis] = None
    return output if tuple(shape) == output.shape else Facts(output.dtype, tuple(shape))


FIXED_RANK: Mapping[str, int] = {"DepthToSpace": 4, "Flatten": 2, "MaxRoiPool": 4, "SpaceToDepth": 4, "STFT": 4}
"""The output rank of operators for which onnx infers no shape if an input's rank is unknown."""


def with_fixed_rank(name: str, outputs: Sequence[Facts]) -> tuple[Facts, ...]:
    """Return the facts of a node's outputs with the rank that does not depend on the inputs."""
    rank = FIXED_RANK.get(name)
    if rank is None:
        return tuple(outputs)
    return tuple(Facts(one.dtype, (None,) * rank) if one.shape is None else one for one in outputs)


_RANKED: Mapping[str, tuple[int, ...]] = {"Attention": (0, 1, 2)}
"""Inputs without whose rank onnx infers too few dimensions."""

_STATIC: Mapping[str, tuple[int, ...]] = {"Attention": (4, 5)}
"""Inputs that onnx treats as omitted unless all their dimensions are known: an Attention without a past."""

UNSURE = frozenset((*_RANKED, *_STATIC))
"""The operators for which onnx infers wrong shapes if shapes of inputs are unknown."""


def unranked(name: str, shapes: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Return whether onnx infers a wrong rank of a node, by the shapes of its inputs (() for an omitted one)."""
    return any(index < len(shapes) and shapes[index] is None for index in _RANKED.get(name, ()))


def unsized(name: str, shapes: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Return whether onnx infers wrong dimensions of a node, by the shapes of its inputs (() for an omitted one)."""
    needed = [shapes[index] for index in _STATIC.get(name, ()) if index < len(shapes)]
    return any(shape is None or not all(isinstance(dim, int) for dim in shape) for shape in needed)


_TYPED_AS: Mapping[str, int] = {"RMSNormalization": 1}
"""Inputs with the output's type; onnx uses the first input's type instead, and reports an inconsistency."""


def typed_as_output(name: str, inputs: Sequence[Facts | None]) -> tuple[Facts | None, ...]:
    """Return the inputs of a node in a form for which onnx infers the correct output type."""
    other = inputs[_TYPED_AS[name]] if name in _TYPED_AS and len(inputs) > _TYPED_AS[name] else None
    first = inputs[0] if inputs else None
    if first is None or other is None or None in (first.dtype, other.dtype) or first.dtype == other.dtype:
        return tuple(inputs)
    return (Facts(other.dtype, first.shape), *inputs[1:])


_READ_AS_INT64: Mapping[str, int] = {"Pad": 3}
"""Inputs that may be int32, but whose constant elements onnx reads only as int64: it then rejects every node.

onnxruntime 1.32.0 rejects them too (Pad-18 to 25, whose axes are "tensor(int32)" or "tensor(int64)").
"""

WIDENED = frozenset(_READ_AS_INT64)
"""The operators with such an input."""


def int32_read_as_int64(name: str, inputs: Sequence[Facts | None]) -> int | None:
    """Return the index of an input with int32 constants that onnx reads as int64, if there is one."""
    place = _READ_AS_INT64.get(name)
    facts = inputs[place] if place is not None and place < len(inputs) else None
    narrow = facts is not None and facts.dtype == TensorProto.INT32 and facts.known is not None
    return place if narrow else None


_EMPTY_IS_ABSENT: Mapping[str, tuple[int, ...]] = {"Resize": (1, 2, 3)}
"""Inputs that count as omitted if they have no elements; onnx uses them from Resize-13 on.

Resize-11: "If 'sizes' is specified, then set scales to empty data (zero shape) in this operator's input list".
"""


def is_absent(name: str, index: int, size: int | None) -> bool:
    """Return whether an input of this size counts as omitted."""
    return size == 0 and index in _EMPTY_IS_ABSENT.get(name, ())
