"""Define the windows of AveragePool, LpPool and MaxPool. The fields of a meaning have the attributes' names."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Version

ALL = 2
"""A ceil_mode that includes windows starting in the right padding, as specified below opset 22."""

RUN = 3
"""A ceil_mode below opset 22 as onnxruntime 1.31.1 runs it: it ignores such windows, as specified at 22."""


@dataclass(frozen=True)
class Windows:
    """The windows along one axis: the start of each, the distance of its elements, and their contents."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def reach(self) -> int:
        """The extent of the last window after the last element; negative if it ends before."""
        return (self.count - 1) * self.stride + self.span - self.before - self.size

    @property
    def span(self) -> int:
        """The distance from the first element of a window to the last, both included."""
        return self.dilation * (self.kernel - 1) + 1

    def places(self) -> np.ndarray[Any, Any]:
        """Return the indices of each window's elements, negative in the leading padding."""
        starts = np.arange(self.count)[:, None] * self.stride - self.before
        return starts + np.arange(self.kernel) * self.dilation

    def summed(self, values: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
        """Add the elements of each window along an axis; padding counts as zero."""
        places = self.places()
        inside = ((places >= 0) & (places < self.size)).reshape(*places.shape, *[1] * (values.ndim - axis - 1))
        taken = np.take(values, places.clip(0, self.size - 1), axis=axis)
        return np.asarray(np.where(inside, taken, 0).sum(axis=axis + 1))

    def elements(self, padding: int) -> np.ndarray[Any, Any]:
        """Return the number of elements of each window, with or without padding."""
        places = self.places()
        low, high = (-self.before, self.size + self.after) if padding else (0, self.size)
        return np.asarray(((low <= places) & (places < high)).sum(axis=1))


@dataclass(frozen=True)
class Pool:
    """The windows of a pool along each axis after the first two."""

    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0


def spatial(what: Any, data: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the sizes of the window axes. LpPool-22: "(N x C x D1 x D2 ... Dn)", with the kernel's n axes.

    Raises:
        ValueError: the kernel has another number of axes.
    """
    sizes: tuple[int, ...] = data.shape[2:]
    if not sizes or len(sizes) != len(what.kernel_shape):
        raise ValueError(f"a kernel of {len(what.kernel_shape)} axes slides along no data of shape {data.shape}")
    return sizes


def windows(what: Any, sizes: Sequence[int]) -> tuple[Windows, ...]:
    """AveragePool-22: "Sliding windows that would start in the right padded region are ignored"."""
    found = []
    for axis, size in enumerate(sizes):
        span = what.dilations[axis] * (what.kernel_shape[axis] - 1) + 1
        stride = what.strides[axis]
        before, after = what.pads[axis], what.pads[axis + len(sizes)]
        steps = (size + before + after - span) / stride
        count = (math.ceil(steps) if what.ceil_mode else math.floor(steps)) + 1
        if what.ceil_mode in (1, RUN) and (count - 1) * stride >= size + before:
            count -= 1
        found.append(Windows(size, what.kernel_shape[axis], stride, what.dilations[axis], before, after, max(count, 0)))
    return tuple(found)


def same_pads(what: Any, sizes: Sequence[int]) -> tuple[int, ...]:
    """AveragePool-22: pads so that "`output_shape[i] = ceil(input_shape[i] / strides[i])`", an odd one at the end.

    With a stride longer than the window, leading pads can be negative: onnxruntime 1.32.0 halves them towards zero.

    Raises:
        NotImplementedError: with dilations, for which onnxruntime 1.32.0 computes other sizes than the specification.
    """
    if set(what.dilations) != {1}:
        raise NotImplementedError("automatic padding of dilated windows is onnxruntime's to compute")
    before, after = [], []
    for size, kernel, stride, dilation in zip(sizes, what.kernel_shape, what.strides, what.dilations, strict=True):
        missing = (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size
        before.append(int((missing if what.auto_pad == "SAME_UPPER" else missing + 1) / 2))
        after.append(max(missing - before[-1], 0))
    return (*before, *after)


def _same_whatever_size(what: Any) -> bool:
    """Return whether automatic padding is the same for all sizes: with a stride of 1, or of 2 and a single element."""
    spans = zip(what.kernel_shape, what.strides, strict=False)
    return all(stride == 1 or (kernel, stride) == (1, 2) for kernel, stride in spans)


def skips(what: Any) -> bool:
    """Return whether a stride is longer than the window, with automatic padding.

    onnxruntime 1.32.0 then computes a negative padding for some sizes, which AveragePool below 19 and MaxPool refuse.
    """
    spans = zip(what.kernel_shape, what.strides, strict=False)
    return bool(what.auto_pad.startswith("SAME") and any(stride > kernel for kernel, stride in spans))


def global_axes(what: Any, operands: Operands) -> Mapping[str, Any]:
    """Bind the axes that a global pool reduces: those after the first two."""
    return {"axes": tuple(range(2, first(operands).rank or 0))}


def is_global(what: Any, operands: Operands) -> Reason | None:
    """Require that the axes of a global pool are known, and that there are some."""
    rank = first(operands).rank
    if rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if rank > 2 else Reason("there is no axis behind the first two")


def of_unknown_rank(what: Any, operands: Operands) -> Reason | None:
    """Require that the number of axes is unknown."""
    return None if first(operands).rank is None else Reason("the rank is known")


def sizes_of(operands: Operands) -> tuple[int, ...] | None:
    """Return the dimensions after the first two, if all are known and none is zero."""
    sizes = (first(operands).shape or ())[2:]
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if known and len(known) == len(sizes) and 0 not in known else None


def normal(what: Any, operands: Operands) -> tuple[Any, Operands]:
    """Make strides, dilations and pads explicit; for a known size also automatic ones that depend on it."""
    rank = len(what.kernel_shape)
    ones = (1,) * rank
    what = dataclasses.replace(what, strides=what.strides or ones, dilations=what.dilations or ones)
    if not what.auto_pad.startswith("SAME") and len(what.dilations) == rank:
        # A single element has no dilation. With SAME_*, onnxruntime runs other code if there are dilations.
        spread = zip(what.kernel_shape, what.dilations, strict=True)
        what = dataclasses.replace(what, dilations=tuple(1 if kernel == 1 else step for kernel, step in spread))
    sizes = sizes_of(operands)
    if sizes is not None and len(sizes) != rank:
        return what, operands
    if what.auto_pad.startswith("SAME"):
        # MaxPool-22: "output_spatial_shape[i] = ceil(input_spatial_shape[i] / strides_spatial_shape[i])", whatever
        # ceil_mode is. Along an axis with dilated elements onnxruntime 1.32.0 computes other sizes, in which it counts.
        spread = zip(what.kernel_shape, what.dilations, strict=False)
        what = dataclasses.replace(
            what, ceil_mode=int(bool(what.ceil_mode) and any(kernel > 1 and step > 1 for kernel, step in spread))
        )
    # Without padding, onnxruntime and onnx's inference treat ceil_mode as without auto_pad.
    if what.auto_pad == "VALID":
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=(0,) * 2 * rank)
    elif (
        what.auto_pad.startswith("SAME")
        and (sizes is not None or _same_whatever_size(what))
        and set(what.dilations) == {1}
        and min(same_pads(what, sizes or (1,) * rank), default=0) >= 0
    ):
        # AveragePool-11 has floor(in / stride) in its formulas, ceil in the attribute's text, as all others have.
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=same_pads(what, sizes or (1,) * rank))
    elif what.auto_pad == "NOTSET":
        what = dataclasses.replace(what, pads=what.pads or (0,) * 2 * rank)
    if what.ceil_mode in (ALL, RUN) and sizes is not None and what.auto_pad == "NOTSET":
        every, ignoring = (dataclasses.replace(what, ceil_mode=mode) for mode in (ALL, 1))
        what = ignoring if windows(every, sizes) == windows(ignoring, sizes) else what
    return what, operands


def nondefault_attributes(what: Any) -> Mapping[str, Any]:
    """Return the attributes of a meaning that differ from their defaults."""
    attributes = dataclasses.asdict(dataclasses.replace(what, ceil_mode=int(bool(what.ceil_mode))))
    ones = {name for name in ("strides", "dilations") if set(attributes[name]) == {1}}
    idle = {name for name, value in attributes.items() if value in (0, "NOTSET")}
    none = {"pads"} if what.auto_pad != "NOTSET" or not any(what.pads) else set()
    return {name: value for name, value in attributes.items() if name not in ones | idle | none}


def below_22(make: Any, since: int, write: Callable[[int, Any, Operands], Mapping[str, Any] | Reason]) -> Version:
    """Return a version whose specification ignores no windows."""

    def lift(ceil_mode: int, attributes: Mapping[str, Any]) -> Any:
        fields = {field.name for field in dataclasses.fields(make)}
        what = make(**{name: value for name, value in attributes.items() if name in fields and value is not None})
        return dataclasses.replace(what, ceil_mode=ceil_mode if what.ceil_mode else 0)

    return Version(since, functools.partial(lift, RUN), functools.partial(lift, ALL), functools.partial(write, since))


def unsupported_ceil_mode(what: Any, operands: Operands, ignores_late: bool) -> Reason | None:
    """Return the reason why a version cannot express the ceil_mode; since 22, late windows are ignored."""
    if what.auto_pad.startswith("SAME"):
        return None
    if not ignores_late and what.ceil_mode == 1 and not _none_late(what, operands):
        return Reason("windows may start in the padding on the right, which it does not ignore")
    if ignores_late and what.ceil_mode == ALL:
        return Reason("windows may start in the padding on the right, which it ignores")
    return None


def _none_late(what: Any, operands: Operands) -> bool:
    sizes = sizes_of(operands)
    if sizes is None or what.auto_pad != "NOTSET":
        return False
    return windows(what, sizes) == windows(dataclasses.replace(what, ceil_mode=ALL), sizes)


def explicit(what: Any, operands: Operands) -> Reason | None:
    """Require that the windows are known."""
    sizes = sizes_of(operands)
    if what.auto_pad != "NOTSET":
        return Reason("it has auto_pad")
    if sizes is None:
        return Reason("the size of the input is unknown", missing=True)
    if any(along.count < 1 for along in windows(what, sizes)):
        return Reason("it has no windows")
    return None


def pads_of(what: Any, operands: Operands) -> tuple[int, ...]:
    """Return the pads that give the same number of windows without ceil_mode."""
    found = windows(what, sizes_of(operands) or ())
    return (*(along.before for along in found), *(max(along.reach, along.after) for along in found))


def overhangs(what: Any, operands: Operands) -> Reason | None:
    """Require windows that end after the input, and start before its end."""
    if not what.ceil_mode:
        return Reason("it has no ceil_mode")
    if reason := explicit(what, operands):
        return reason
    found = windows(what, sizes_of(operands) or ())
    late = any((along.count - 1) * along.stride >= along.size + along.before for along in found)
    if late:
        return Reason("a window is in the padding only")
    # onnxruntime 1.31: "Pad should be smaller than kernel", whatever the dilation.
    long = any(along.reach >= along.kernel for along in found)
    return Reason("onnxruntime takes no padding as long as the kernel") if long else None


def as_pads(what: Any, operands: Operands) -> Mapping[str, Any]:
    """Bind the pads that replace ceil_mode."""
    return {"pads": pads_of(what, operands)}


def may_be_shorter(what: Any) -> bool:
    """Return whether an input may be shorter than a window by less than a stride.

    The text has no window there, and onnxruntime 1.32.0 one: it rounds a negative number up.
    """
    rank = len(what.kernel_shape)
    pads = what.pads or (0,) * 2 * rank
    spans = (step * (kernel - 1) + 1 for step, kernel in zip(what.dilations, what.kernel_shape, strict=True))
    each = zip(spans, what.strides, pads[:rank], pads[rank:], strict=True)
    return not what.ceil_mode and any(stride > 1 and span > before + after + 1 for span, stride, before, after in each)


def of_any_size(what: Any, operands: Operands) -> Reason | None:
    """Require an unknown size for which onnxruntime 1.32.0 has the windows of the text, none behind the input."""
    data, rank = first(operands), len(what.kernel_shape)
    if data.dtype is None:
        return Reason("the element type is unknown", missing=True)
    if data.rank is not None and data.rank != rank + 2:
        return Reason("the kernel is of another rank")
    if sizes_of(operands) is not None and not explicit(what, operands):
        return Reason("the sizes are known")
    if what.auto_pad != "NOTSET":
        return Reason("it has auto_pad, and the size of the input is unknown", missing=True)
    if may_be_shorter(what):
        return Reason("the input may be shorter than a window, and onnxruntime has one there", missing=True)
    for axis, stride in enumerate(what.strides):
        span = what.dilations[axis] * (what.kernel_shape[axis] - 1) + 1
        if what.ceil_mode and what.pads[rank + axis] + stride > span:
            return Reason("windows may start behind the input, whose size is unknown", missing=True)
    return None
