"""GramCounts: how often each of some n-grams is found in a row. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GramCounts:
    """The n-grams, one a row, and the distances of their elements; each n-gram is looked for at all distances."""

    grams: Tensor = Tensor(np.zeros((0, 1), np.int64))  # noqa: RUF009
    distances: int = 1

    @property
    def length(self) -> int:
        """The number of elements of an n-gram."""
        return int(self.grams.array.shape[1])


def _places(what: GramCounts, count: int) -> Array:
    """Return the places of the elements of all windows, one a row."""
    rows = [
        start + distance * np.arange(what.length)
        for distance in range(1, what.distances + 1)
        for start in range(count - distance * (what.length - 1))
    ]
    return np.array(rows, np.int64).reshape(-1, what.length)


def oracle(what: GramCounts, x: Array) -> Array:
    """Count the windows that equal an n-gram, along the last axis."""
    windows = x[..., _places(what, x.shape[-1])]
    met = (windows[..., None, :] == what.grams.array).all(axis=-1)
    return np.asarray(met.sum(axis=-2).astype(np.float32))


def _facts(what: GramCounts, operands: Operands) -> tuple[Facts, ...]:
    shape = first(operands).shape
    return (Facts(TensorProto.FLOAT, None if shape is None else (*shape[:-1], len(what.grams.array))),)


def _length(operands: Operands) -> int | None:
    dim = first(operands).dim(-1) if first(operands).rank else None
    return dim if isinstance(dim, int) else None


def _of_strings(operands: Operands) -> bool:
    return first(operands).type == "tensor(string)"


def _comparable(what: GramCounts, operands: Operands) -> Reason | None:
    return None if first(operands).type else Reason("the element type is unknown", missing=True)


def _single(what: GramCounts, operands: Operands) -> Reason | None:
    return _comparable(what, operands) if what.length == 1 else Reason("it is not of single elements")


def _known(what: GramCounts, operands: Operands) -> Reason | None:
    if what.length == 1:
        return Reason("it is of single elements")
    if not _length(operands):
        return Reason("the length of a row is unknown, or zero", missing=True)
    return _comparable(what, operands)


def _open(what: GramCounts, operands: Operands) -> Reason | None:
    if what.length == 1 or _length(operands):
        return Reason("")
    if _of_strings(operands):
        return Reason("the length of a row of strings is unknown", missing=True)
    if first(operands).rank is None:
        return Reason("the rank is unknown", missing=True)
    return _comparable(what, operands)


def _bind(what: GramCounts, operands: Operands) -> Mapping[str, Any]:
    grams = what.grams.array
    dtype = TensorProto.STRING if _of_strings(operands) else first(operands).dtype or TensorProto.INT64
    if dtype == TensorProto.INT32:
        ends = np.iinfo(np.int32)
        fits = bool(((grams >= ends.min) & (grams <= ends.max)).all())
        dtype, grams = (dtype, grams.astype(np.int32)) if fits else (TensorProto.INT64, grams)
    places = _places(what, _length(operands) or 0)
    bounded(max(places.size, 1) * len(grams))
    bound = {"grams": Tensor(grams), "singles": Tensor(grams.reshape(-1)), "to": dtype, "places": Tensor(places)}
    if dtype == TensorProto.STRING:
        return bound
    # Behind the row stands a number that no n-gram has.
    other = next(number for number in range(len(set(grams.ravel().tolist())) + 1) if number not in grams)
    offsets = np.arange(1, what.distances + 1)[:, None] * np.arange(what.length)
    rank = first(operands).rank or 1
    return {
        **bound,
        "other": Tensor(np.array(other, grams.dtype)),
        "pads": (*(0,) * (2 * rank - 1), int(offsets.max(initial=0))),
        "offsets": Tensor(offsets),
    }


# Equal takes strings since 19.
@lowering(19, applies_if=_single, bind=_bind)
def of_singles(x, singles: Sequence[int], to: int):
    """Compare each element with each n-gram, and count."""
    met = op.Equal(op.Unsqueeze(op.Cast(x, to=to), [-1]), singles)
    return op.ReduceSum(op.Cast(met, to=1), [-2], keepdims=0)


@lowering(19, applies_if=_known, bind=_bind)
def of_windows(x, grams: Sequence[int], places: Sequence[int], to: int):
    """Gather the elements of all windows, compare each with each n-gram, and count where all are equal."""
    windows = op.Unsqueeze(op.Gather(op.Cast(x, to=to), places, axis=-1), [-2])
    met = op.Cast(op.Equal(windows, grams), to=1)
    return op.ReduceSum(op.ReduceMin(met, [-1], keepdims=0), [-2], keepdims=0)


@lowering(18, applies_if=_open, bind=_bind)
def at_run_time(x, grams: Sequence[int], other: Sequence[int], pads: Sequence[int], offsets: Sequence[int], to: int):
    """Put numbers that no n-gram has behind each row, and compare a window at each place."""
    row = op.Cast(x, to=to)
    starts = op.Range(0, op.Squeeze(op.Shape(x, start=-1)), 1)
    places = op.Unsqueeze(starts, [1, 2]) + offsets
    windows = op.Unsqueeze(op.Gather(op.Pad(row, pads, other), places, axis=-1), [-2])
    met = op.Cast(op.Equal(windows, grams), to=1)
    return op.ReduceSum(op.ReduceMin(met, [-1], keepdims=0), [-3, -2], keepdims=0)


OPERATOR = Operator(
    name="GramCounts",
    domain="opshift.step",
    meaning=GramCounts,
    versions=(),
    operands=("X",),
    oracle=oracle,
    lowerings=(of_singles, of_windows, at_run_time),
    facts=_facts,
)
