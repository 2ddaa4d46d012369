"""MaxUnpool: elements put back where a MaxPool took them from, among zeros. Version 11 rewords; 22 adds bfloat16."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import one_shape
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MaxUnpool:
    """The windows of the pool along each axis behind the first two."""

    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None


def _grown(what: MaxUnpool, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the output's dimensions: "the partial inverse of the MaxPool op"."""
    strides, moved = _steps(what)
    return tuple((dim - 1) * by + more for dim, by, more in zip(shape, strides, moved, strict=True))


def _steps(what: MaxUnpool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return, for each dimension of the input, the factor of what it has more than 1, and the size that 1 gives."""
    rank = len(what.kernel_shape)
    strides, pads = what.strides or (1,) * rank, what.pads or (0,) * 2 * rank
    return (1, 1, *strides), (1, 1, *(what.kernel_shape[i] - pads[i] - pads[rank + i] for i in range(rank)))


def oracle(what: MaxUnpool, x: Array, places: Array, shape: Array | None = None) -> Array:
    """MaxUnpool-11: "The indices are linear, i.e. computed considering the tensor as flattened 1-D tensor".

    With an output_shape, that tensor is the output, as in onnxruntime 1.32.0; ONNX's own test has it otherwise.
    """
    sizes = _grown(what, x.shape)
    wanted = sizes if shape is None else tuple(shape.tolist())
    total = math.prod(wanted)
    if len(wanted) != x.ndim or any(one < other for one, other in zip(wanted, sizes, strict=True)):
        raise ValueError(f"an output of {list(wanted)} has no room for one of {list(sizes)}")
    if x.shape != places.shape or ((places < 0) | (places >= total)).any():
        raise ValueError("an index is none of an element of the output")
    y = np.zeros(total, x.dtype)
    y[places.reshape(-1)] = x.reshape(-1)
    return y.reshape(wanted)


def _told(what: MaxUnpool, operands: Operands) -> Reason | None:
    return Reason("") if operands[2] is None else None


def _untold(what: MaxUnpool, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("")
    rank = first(operands).rank
    return Reason("the kernel is of another rank") if rank not in (None, len(what.kernel_shape) + 2) else None


@lowering(18, applies_if=_told)
def scattered(x, places, shape):
    """Scatter the elements into a row of zeros."""
    zeros = op.CastLike(op.ConstantOfShape(op.ReduceProd(shape, keepdims=1)), x)
    row = op.ScatterElements(zeros, op.Reshape(places, [-1]), op.Reshape(x, [-1]), axis=0)
    return meaning.Reshape(row, shape, allowzero=1)


def _sizes(what: MaxUnpool, operands: Operands) -> Mapping[str, Any]:
    strides, moved = _steps(what)
    return {"strides": strides, "moved": moved}


@lowering(18, applies_if=_untold, bind=_sizes)
def with_shape(x, places, shape, strides: Sequence[int], moved: Sequence[int]):
    """Compute the shape of the output."""
    return meaning.Same(x, places, (op.Shape(x) - 1) * strides + moved)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have a place of its own for each element, in the smallest output there may be: there is one place for each."""
    places = feeds["I"]
    if not places.flags.writeable:
        return feeds
    drawn = {**feeds, "I": rng.permutation(places.size).reshape(places.shape).astype(np.int64)}
    shape = feeds.get("output_shape")
    if shape is not None and shape.flags.writeable and shape.shape == (places.ndim,):
        drawn["output_shape"] = np.array([*places.shape[:2], *(8 * dim + 8 for dim in places.shape[2:])], np.int64)
    return drawn


OPERATOR = Operator(
    name="MaxUnpool",
    meaning=MaxUnpool,
    versions=(Version(9), Version(11), Version(22)),
    operands=("X", "I", "output_shape"),
    oracle=oracle,
    lowerings=(scattered, with_shape),
    wider_types=MOVED,
    adversarial=adversarial,
    traits=Traits(floats=(Trait.MOVES,), counts=(2,), moved=(0,), equal_dims=one_shape, spreads=False),
)
