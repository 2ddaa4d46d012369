"""MaxPool: the largest of windows. Indices came with 8, ceil_mode and dilations with 10; 22 ignores late windows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.windows import (
    Pool,
    as_pads,
    below_22,
    overhangs,
    same_pads,
    skips,
    spatial,
    told,
    unsaid,
    windows,
)
from opshift.opsets.families.windows import normal as spelled_out
from opshift.opsets.registry.lowering import Reason, lowering, meaning
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MaxPool(Pool):
    """The windows along each axis behind the first two, and whether indices count along the first axis first.

    `crops`: automatic padding may be negative, and onnxruntime's kernel for the element type takes that.
    """

    storage_order: int = 0
    crops: bool = False


_FUSSY = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
"""Types whose kernel in onnxruntime 1.32.0 fails with "padding values must be non-negative", whatever the version."""


def normal(what: MaxPool, operands: Operands) -> tuple[MaxPool, Operands]:
    """Spell out the windows, and note what a wider type's kernel may not run."""
    what, operands = spelled_out(what, operands)
    dtype = first(operands).dtype
    return dataclasses.replace(what, crops=skips(what) and dtype is not None and dtype not in _FUSSY), operands


def oracle(what: MaxPool, x: _Array) -> tuple[_Array, _Array]:
    """MaxPool-22: "The indices are computed as flatten 1-D tensor, and the indices do not consider padding"."""
    what, _ = normal(what, (None,))
    sizes = spatial(what, x)
    if what.auto_pad != "NOTSET":
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=same_pads(what, sizes))
    size = int(np.prod(sizes))
    image = np.arange(size).reshape(sizes, order="F" if what.storage_order else "C")
    places = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(sizes)) * size + image
    inside = np.ones(x.shape, bool)
    values = x
    for axis, along in enumerate(windows(what, sizes)):
        at = along.places()
        index = at.clip(0, along.size - 1)
        # Windows stand where the axis was; their elements go to the end.
        values, places, inside = (
            np.moveaxis(np.take(some, index, axis=2 + axis), 3 + axis, -1) for some in (values, places, inside)
        )
        there = (at >= 0) & (at < along.size)
        inside = inside & there.reshape(len(at), *[1] * (inside.ndim - axis - 4), -1)
    flat = (*values.shape[: x.ndim], -1)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    chosen = np.where(inside, values, x.dtype.type(lowest)).reshape(flat)
    most = chosen.argmax(axis=-1)[..., None]
    y, indices = (np.take_along_axis(some.reshape(flat), most, -1)[..., 0] for some in (values, places))
    return y, indices


def _write(since: int, what: MaxPool, operands: Operands) -> Mapping[str, Any] | Reason:
    if since < 10 and set(what.dilations) - {1}:
        return Reason("it has no dilations")
    if since < 10 and what.ceil_mode:
        return Reason("it has no ceil_mode")
    if since < 8 and what.storage_order:
        return Reason("it has no storage_order")
    if what.crops and first(operands).dtype in _FUSSY:
        return Reason("of floats, onnxruntime takes no stride longer than the window with auto_pad")
    return unsaid(what, operands, since >= 22) or told(dataclasses.replace(what, crops=False))


@lowering(18, applies_if=overhangs, bind=as_pads)
def by_pads(x, pads: Sequence[int]):
    """Pad for the windows that end behind the input; padding is never the largest."""
    y, indices = meaning.Same(x, pads=pads, ceil_mode=0)
    return y, indices


OPERATOR = Operator(
    name="MaxPool",
    meaning=MaxPool,
    versions=(
        *(below_22(MaxPool, since, _write) for since in (1, 8, 10, 11, 12)),
        Version(22, write=functools.partial(_write, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    wider_types=ORDERED,
    lowerings=(by_pads,),
    traits=Traits(miscounts=True, floats=(Trait.SELECTS,), positions_after=True, heavy=True),
)
