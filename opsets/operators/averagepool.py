"""AveragePool: averages of windows. ceil_mode came with 10, dilations with 19; 22 ignores windows that start late."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.axes import first
from opshift.opsets.facts import Tensor
from opshift.opsets.lowering import Reason, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator, Version

ALL = 2
"""A ceil_mode that also has the windows that start in the padding on the right, as versions below 22 do."""


@dataclass(frozen=True)
class AveragePool:
    """The windows along each axis behind the first two, and whether padding counts as elements."""

    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    count_include_pad: int = 0


@dataclass(frozen=True)
class Windows:
    """The windows along one axis: where each starts, how far apart its elements are, and what is there."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def reach(self) -> int:
        """What the last window needs behind the last element; negative where it ends before."""
        return (self.count - 1) * self.stride + self.span - self.before - self.size

    @property
    def span(self) -> int:
        """From the first element of a window to the last, both included."""
        return self.dilation * (self.kernel - 1) + 1

    def places(self) -> np.ndarray[Any, Any]:
        """Return the places of each window's elements, negative in the padding in front."""
        starts = np.arange(self.count)[:, None] * self.stride - self.before
        return starts + np.arange(self.kernel) * self.dilation

    def elements(self, padding: int) -> np.ndarray[Any, Any]:
        """Count the elements of each window, with those of the padding or without."""
        places = self.places()
        low, high = (-self.before, self.size + self.after) if padding else (0, self.size)
        return ((low <= places) & (places < high)).sum(axis=1)


def windows(what: AveragePool, sizes: Sequence[int]) -> tuple[Windows, ...]:
    """AveragePool-22: "Sliding windows that would start in the right padded region are ignored"."""
    found = []
    for axis, size in enumerate(sizes):
        span = what.dilations[axis] * (what.kernel_shape[axis] - 1) + 1
        stride = what.strides[axis]
        before, after = what.pads[axis], what.pads[axis + len(sizes)]
        steps = (size + before + after - span) / stride
        count = (math.ceil(steps) if what.ceil_mode else math.floor(steps)) + 1
        if what.ceil_mode == 1 and (count - 1) * stride >= size + before:
            count -= 1
        found.append(
            Windows(size, what.kernel_shape[axis], stride, what.dilations[axis], before, after, max(count, 0))
        )
    return tuple(found)


def _same(what: AveragePool, sizes: Sequence[int]) -> tuple[int, ...]:
    """AveragePool-22: pads so that "`output_shape[i] = ceil(input_shape[i] / strides[i])`", an odd one at the end."""
    before, after = [], []
    for size, kernel, stride, dilation in zip(sizes, what.kernel_shape, what.strides, what.dilations, strict=True):
        missing = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
        less, more = missing // 2, missing - missing // 2
        before.append(less if what.auto_pad == "SAME_UPPER" else more)
        after.append(more if what.auto_pad == "SAME_UPPER" else less)
    return (*before, *after)


def _sizes(operands: Operands) -> tuple[int, ...] | None:
    sizes = (first(operands).shape or ())[2:]
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if known and len(known) == len(sizes) and 0 not in known else None


def normal(what: AveragePool, operands: Operands) -> tuple[AveragePool, Operands]:
    """Spell out strides, dilations and pads; where the size is known also automatic ones."""
    rank = len(what.kernel_shape)
    ones = (1,) * rank
    what = dataclasses.replace(what, strides=what.strides or ones, dilations=what.dilations or ones)
    sizes = _sizes(operands)
    if sizes is not None and len(sizes) != rank:
        return what, operands
    # With ceil_mode or dilations onnxruntime 1.31 does not compute the sizes that the formulas for auto_pad give.
    if what.auto_pad == "VALID" and not what.ceil_mode:
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=(0,) * 2 * rank)
    elif what.auto_pad.startswith("SAME") and sizes is not None and not what.ceil_mode and set(what.dilations) == {1}:
        # AveragePool-11 has floor(in / stride) in its formulas, ceil in the attribute's text, as all others have.
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=_same(what, sizes))
    elif what.auto_pad == "NOTSET":
        what = dataclasses.replace(what, pads=what.pads or (0,) * 2 * rank)
    if what.ceil_mode == ALL and sizes is not None and what.auto_pad == "NOTSET":
        ignoring = dataclasses.replace(what, ceil_mode=1)
        what = ignoring if windows(what, sizes) == windows(ignoring, sizes) else what
    return what, operands


def oracle(what: AveragePool, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """AveragePool-22: a window is "divided by the number of elements (exclude pad when ... is zero)"."""
    what, _ = normal(what, (None,))
    sizes = x.shape[2:]
    if what.auto_pad != "NOTSET":
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=_same(what, sizes))
    y = x.astype(np.float64)
    for axis, along in enumerate(windows(what, sizes), 2):
        places = along.places()
        inside = ((places >= 0) & (places < along.size)).reshape(*places.shape, *[1] * (x.ndim - axis - 1))
        taken = np.take(y, places.clip(0, along.size - 1), axis=axis)
        number = along.elements(what.count_include_pad).reshape(-1, *[1] * (x.ndim - axis - 1))
        y = np.where(inside, taken, 0).sum(axis=axis + 1) / number
    return y.astype(x.dtype)


# --- what a version says ------------------------------------------------------------------------------------------


def _lift_all(attributes: Mapping[str, Any]) -> AveragePool:
    fields = {field.name for field in dataclasses.fields(AveragePool)}
    what = AveragePool(**{name: value for name, value in attributes.items() if name in fields and value is not None})
    return dataclasses.replace(what, ceil_mode=ALL if what.ceil_mode else 0)


def _write(since: int, what: AveragePool, operands: Operands) -> Mapping[str, Any] | Reason:
    if since < 19 and set(what.dilations) - {1}:
        return Reason("it has no dilations")
    if since < 10 and what.ceil_mode:
        return Reason("it has no ceil_mode")
    if since < 22 and what.ceil_mode == 1 and not _none_late(what, operands):
        return Reason("windows may start in the padding on the right, which it does not ignore")
    if since >= 22 and what.ceil_mode == ALL:
        return Reason("windows may start in the padding on the right, which it ignores")
    said = dataclasses.asdict(dataclasses.replace(what, ceil_mode=int(bool(what.ceil_mode))))
    ones = {name for name in ("strides", "dilations") if set(said[name]) == {1}}
    idle = {name for name in ("auto_pad", "ceil_mode", "count_include_pad") if said[name] in (0, "NOTSET")}
    none = {"pads"} if what.auto_pad != "NOTSET" or not any(what.pads) else set()
    return {name: value for name, value in said.items() if name not in ones | idle | none}


def _none_late(what: AveragePool, operands: Operands) -> bool:
    sizes = _sizes(operands)
    if sizes is None or what.auto_pad != "NOTSET":
        return False
    return windows(what, sizes) == windows(dataclasses.replace(what, ceil_mode=ALL), sizes)


# --- lowerings ----------------------------------------------------------------------------------------------------


def _explicit(what: AveragePool, operands: Operands) -> Reason | None:
    sizes = _sizes(operands)
    if what.auto_pad != "NOTSET":
        return Reason("it has auto_pad")
    if sizes is None:
        return Reason("the size of the input is unknown", missing=True)
    if any(along.count < 1 for along in windows(what, sizes)):
        return Reason("it has no windows")
    return None


def _pads(what: AveragePool, operands: Operands) -> tuple[int, ...]:
    """Return the pads that give as many windows without ceil_mode."""
    found = windows(what, _sizes(operands) or ())
    return (*(along.before for along in found), *(max(along.reach, along.after) for along in found))


def _overhangs(what: AveragePool, operands: Operands) -> Reason | None:
    if not what.ceil_mode:
        return Reason("it has no ceil_mode")
    if reason := _explicit(what, operands):
        return reason
    if what.count_include_pad and any(what.pads):
        return Reason("padding counts, and what is behind it does not")
    found = windows(what, _sizes(operands) or ())
    late = any((along.count - 1) * along.stride >= along.size + along.before for along in found)
    return Reason("a window is in the padding only") if late else None


def _as_pads(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    return {"pads": _pads(what, operands)}


@lowering(18, given=_overhangs, bind=_as_pads)
def by_pads(x, pads: Sequence[int]):
    """Pad for the windows that end behind the input; that padding does not count."""
    return meaning.Same(x, pads=pads, ceil_mode=0, count_include_pad=0)


def _counts_pads(what: AveragePool, operands: Operands) -> Reason | None:
    if not (what.ceil_mode and what.count_include_pad and any(what.pads)):
        return Reason("it has no ceil_mode, or padding does not count")
    return _explicit(what, operands)


def _in_front(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    rank = len(what.kernel_shape)
    found = windows(what, _sizes(operands) or ())
    behind = tuple(max(along.reach - along.after, 0) for along in found)
    return {"around": (0, 0, *what.pads[:rank], 0, 0, *what.pads[rank:]), "pads": (*[0] * rank, *behind)}


@lowering(18, given=_counts_pads, bind=_in_front)
def padded(x, around: Sequence[int], pads: Sequence[int]):
    """Pad with zeros first, which count, then for the windows that end behind them, which does not."""
    return meaning.Same(op.Pad(x, around), pads=pads, ceil_mode=0, count_include_pad=0)


def _dilated(what: AveragePool, operands: Operands) -> Reason | None:
    if set(what.dilations) <= {1}:
        return Reason("it has no dilations")
    dtype = first(operands).dtype
    if dtype != TensorProto.FLOAT:
        return Reason("it is not of float", missing=dtype is None)
    return _explicit(what, operands)


def _sums(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    sizes = _sizes(operands) or ()
    found = windows(what, sizes)
    numbers = functools.reduce(np.multiply.outer, [along.elements(what.count_include_pad) for along in found])
    pads = _pads(what, operands)
    return {
        "one": (-1, 1, *sizes),
        "ones": Tensor(np.ones((1, 1, *what.kernel_shape), np.float32)),
        "numbers": Tensor(np.asarray(numbers, np.float32)),
        "counts": tuple(along.count for along in found),
        "pads": pads,
        "strides": what.strides,
        "dilations": what.dilations,
    }


@lowering(18, given=_dilated, bind=_sums, rounds=True)
def by_convolution(
    x,
    one: Sequence[int],
    ones: Sequence[int],
    numbers: Sequence[int],
    counts: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
):
    """Add up each window, channel by channel, with a kernel of ones; divide by the number of its elements."""
    sums = op.Conv(op.Reshape(x, one), ones, pads=pads, strides=strides, dilations=dilations)
    return op.Reshape(op.Div(sums, numbers), op.Concat(op.Slice(op.Shape(x), [0], [2]), counts, axis=0))


OPERATOR = Operator(
    name="AveragePool",
    meaning=AveragePool,
    versions=(
        *(Version(since, lift=_lift_all, write=functools.partial(_write, since)) for since in (7, 10, 11, 19)),
        Version(22, write=functools.partial(_write, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    lowerings=(by_pads, padded, by_convolution),
)
