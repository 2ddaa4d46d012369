"""Invalid nodes on which onnx's shape inference crashes, and valid ones that it infers wrongly (onnx 1.23.2).

A crash ends no more than a child process (onnx_process.py), which knows no reason; the checks here name it. The rows
were found by generated nodes of every operator and version, which tests/test_inference.py repeats.
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
    """Scan-9: "the number of scan_inputs M"; onnx's inference takes a negative one for a size."""
    count = attributes.get("num_scan_inputs")
    return f"its num_scan_inputs is {count}" if isinstance(count, int) and count < 1 else None


_FATAL: Mapping[str, Callable[[Mapping[str, Any], int], str | None]] = {
    "GatherND": _gather_nd,
    "Scan": _scan,
    "Split": _split,
}

FATAL = frozenset(_FATAL)
"""Operators with attributes that end the process."""


def exceeds_int32(axis: int) -> bool:
    """Whether an axis is beyond 32 bits, to which onnx's inference cuts it after the check (LayerNormalization)."""
    return not -(2**31) <= axis < 2**31


def fatal(name: str, attributes: Mapping[str, Any], outputs: int) -> str | None:
    """Return why a node of the default domain is invalid in a way that ends the process, if it is."""
    axis = attributes.get("axis")
    if isinstance(axis, int) and exceeds_int32(axis):
        return f"its axis is {axis}, which no tensor has"
    check = _FATAL.get(name)
    return check(attributes, outputs) if check else None


SLICE = "Slice"

_NEEDED: Mapping[str, tuple[int, ...]] = {SLICE: (3, 4)}
"""Inputs without whose elements onnx infers as if they were left out: Slice along axis 0, whatever its axes are."""

NEEDS_CONSTANTS = frozenset(_NEEDED)
"""Operators of which onnx infers wrong dimensions where some inputs are not constant."""


def wrong_without_constants(name: str, constant: Sequence[bool | None]) -> bool:
    """Return whether onnx infers wrong dimensions of a node, by which inputs are constant (None: left out)."""
    return any(index < len(constant) and constant[index] is False for index in _NEEDED.get(name, ()))


INFERRED_AS: Mapping[tuple[str, int], int] = {(SLICE, 10): 11}
"""Versions that onnx infers wrongly, and a newer one with the same outputs that it infers right.

Of a dimension that has a name and is cut, Slice-10 infers that the name stays.
"""

ROUNDED = frozenset(("AveragePool", "LpPool", "MaxPool"))
"""Operators whose sizes onnx rounds twice, see below."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {"STFT": {"onesided": 1}}
"""Attributes that onnx's inference takes for another number than the default, where they are left out."""

WRONG_SIZE = ROUNDED | {"ConvTranspose", *DEFAULTS}
"""Operators of which onnx infers wrong sizes because of some attributes."""


def wrong_size(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a node."""
    left_out = any(attribute not in attributes for attribute in DEFAULTS.get(name, ()))
    return left_out or rounded(name, attributes) or padded_twice(name, attributes)


def padded_twice(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a ConvTranspose, since it adds `output_padding` to those of `auto_pad`.

    ConvTranspose-11: SAME_UPPER and SAME_LOWER "mean pad the input so that `output_shape[i] = input_shape[i] *
    strides[i]`"; so onnxruntime 1.32.0 has it, where the kernel reaches as far.
    """
    automatic = name == "ConvTranspose" and _is_same(attributes) and not attributes.get("output_shape")
    return automatic and any(attributes.get("output_padding") or ())


def _is_same(attributes: Mapping[str, Any]) -> bool:
    automatic = attributes.get("auto_pad", "NOTSET")
    automatic = automatic.decode("utf-8", "replace") if isinstance(automatic, bytes) else automatic
    return str(automatic).startswith("SAME")


def rounded(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether onnx infers wrong sizes of a node because of its `ceil_mode`.

    MaxPool-22: with SAME_UPPER or SAME_LOWER a size is ceil(input / stride), whatever `ceil_mode` is. Where a stride is
    larger than the kernel, the padding that follows is negative, and onnx's inference counts one window too many.
    """
    return name in ROUNDED and _is_same(attributes) and bool(attributes.get("ceil_mode"))


def without_padded(name: str, attributes: Mapping[str, Any], output: Facts) -> Facts:
    """Return the facts of an output without sizes that onnx infers as `padded_twice` tells."""
    if not padded_twice(name, attributes) or not output.shape:
        return output
    return Facts(output.dtype, (*output.shape[:2], *[None] * (len(output.shape) - 2)))


def without_late(name: str, attributes: Mapping[str, Any], output: Facts, data: Facts | None) -> Facts:
    """Return the facts of a pool's output without sizes that count windows which start in the padding on the right.

    With `ceil_mode` onnx's inference counts them; MaxPool-22 says that they are "ignored", and so they are in
    onnxruntime 1.32.0 whatever the version is.
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
"""The rank of what operators return whose output onnx gives no shape where the rank of an input is not known."""


def with_fixed_rank(name: str, outputs: Sequence[Facts]) -> tuple[Facts, ...]:
    """Return the facts of a node's outputs with the rank that they have whatever the inputs are."""
    rank = FIXED_RANK.get(name)
    if rank is None:
        return tuple(outputs)
    return tuple(Facts(one.dtype, (None,) * rank) if one.shape is None else one for one in outputs)


_RANKED: Mapping[str, tuple[int, ...]] = {"Attention": (0, 1, 2)}
"""Inputs without whose rank onnx infers too few dimensions."""

_STATIC: Mapping[str, tuple[int, ...]] = {"Attention": (4, 5)}
"""Inputs without all of whose dimensions onnx infers as if they were left out: an Attention without a past."""

UNSURE = frozenset((*_RANKED, *_STATIC))
"""Operators of which onnx infers wrong shapes where shapes of inputs are not known."""


def unranked(name: str, shapes: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Return whether onnx infers a wrong rank of a node, by the shapes of its inputs (() for one that is left out)."""
    return any(index < len(shapes) and shapes[index] is None for index in _RANKED.get(name, ()))


def unsized(name: str, shapes: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Whether onnx infers wrong dimensions of a node, by the shapes of its inputs (() for one that is left out)."""
    needed = [shapes[index] for index in _STATIC.get(name, ()) if index < len(shapes)]
    return any(shape is None or not all(isinstance(dim, int) for dim in shape) for shape in needed)


_TYPED_AS: Mapping[str, int] = {"RMSNormalization": 1}
"""Inputs that have the type of the output, where onnx infers that of the first one and calls another inconsistent."""


def typed_as_output(name: str, inputs: Sequence[Facts | None]) -> tuple[Facts | None, ...]:
    """Return the inputs of a node as onnx infers a right type of the output from them."""
    other = inputs[_TYPED_AS[name]] if name in _TYPED_AS and len(inputs) > _TYPED_AS[name] else None
    first = inputs[0] if inputs else None
    if first is None or other is None or None in (first.dtype, other.dtype) or first.dtype == other.dtype:
        return tuple(inputs)
    return (Facts(other.dtype, first.shape), *inputs[1:])


_READ_AS_INT64: Mapping[str, int] = {"Pad": 3}
"""Inputs that may be int32, and of which onnx reads constant elements as int64 alone: it then takes no node at all.

So does onnxruntime 1.32.0, which loads none (Pad-18 to 25, whose axes are "tensor(int32)" or "tensor(int64)").
"""

WIDENED = frozenset(_READ_AS_INT64)
"""Operators with such an input."""


def int32_read_as_int64(name: str, inputs: Sequence[Facts | None]) -> int | None:
    """Return which input of a node holds constants of int32 that onnx reads as int64, if one does."""
    place = _READ_AS_INT64.get(name)
    facts = inputs[place] if place is not None and place < len(inputs) else None
    narrow = facts is not None and facts.dtype == TensorProto.INT32 and facts.known is not None
    return place if narrow else None


_EMPTY_IS_ABSENT: Mapping[str, tuple[int, ...]] = {"Resize": (1, 2, 3)}
"""Inputs that are as good as left out where they have no elements; onnx takes them for given from Resize-13 on.

Resize-11: "If 'sizes' is specified, then set scales to empty data (zero shape) in this operator's input list".
"""


def is_absent(name: str, index: int, size: int | None) -> bool:
    """Return whether an input of so many elements is none."""
    return size == 0 and index in _EMPTY_IS_ABSENT.get(name, ())
