"""Split: a tensor in parts along an axis. Sizes are an attribute below 13; since 18 the last part may be smaller."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, axis_not_negative, first, one_axis
from opshift.opsets.families.float_counts import floats, in_integers
from opshift.opsets.families.merged_axes import along_axis
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import parts
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Split:
    """The axis and the number of parts; without sizes the last part is `equal` or may be `smaller`."""

    axis: int = 0
    num_outputs: int = 1
    last: str = "smaller"


def oracle(
    what: Split, data: np.ndarray[Any, Any], split: np.ndarray[Any, Any] | None = None
) -> tuple[np.ndarray[Any, Any], ...]:
    """Split-18: "If the tensor is not evenly splittable into `num_outputs`, the last chunk will be smaller"."""
    sizes = _sizes(data.shape[what.axis], what.num_outputs) if split is None else [int(size) for size in split]
    if sum(sizes) != data.shape[what.axis]:
        raise ValueError(f"{list(sizes)} do not add up to {data.shape[what.axis]}")
    return tuple(np.split(data, np.cumsum(sizes)[:-1], axis=what.axis))


def _sizes(length: int, count: int) -> tuple[int, ...]:
    size = -(-length // count)
    return (*[size] * (count - 1), length - size * (count - 1))


def _length(what: Split, operands: Operands) -> Dim:
    return first(operands).dim(what.axis)


def normal(what: Split, operands: Operands) -> tuple[Split, Operands]:
    """Count the axis from the front where the rank is known; of a known length it is known which part is smaller."""
    what, _ = one_axis(what, operands)
    operands = operands[0], in_integers(operands[1])
    length = _length(what, operands)
    if operands[1] is not None:
        return dataclasses.replace(what, last="smaller"), operands
    if isinstance(length, int) and length % what.num_outputs == 0:
        return dataclasses.replace(what, last="equal"), operands
    return what, operands


def _lift(attributes: Mapping[str, Any]) -> Split:
    return Split(attributes["axis"])


def _lift_first(attributes: Mapping[str, Any]) -> Split:
    # Split-1: "Which axis to split on", without a default; it is that of Split-2.
    return Split(attributes.get("axis") or 0, last="equal")


def _lift_equal(attributes: Mapping[str, Any]) -> Split:
    # Split-2: "Otherwise, the tensor is split to equal sized parts".
    return Split(attributes["axis"], last="equal")


def _write(what: Split, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis, **({} if operands[1] is not None else {"num_outputs": what.num_outputs})}


def _write_equal(what: Split, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis}


def _equal(what: Split, operands: Operands) -> Reason | None:
    if operands[1] is not None and floats(operands[1]) is None:
        return Reason("the sizes of its parts are integers")
    if operands[1] is not None or what.last == "equal":
        return None
    return Reason("its parts are of equal size, and here the last may be smaller")


def _told_or_equal(what: Split, operands: Operands) -> Reason | None:
    sizes = operands[1].known if operands[1] else None
    if sizes is not None and (sizes < 0).any():
        # So it is of 5 elements in 4 parts; as an attribute that stops a model in which the node is never reached.
        return Reason("the sizes of its parts are not negative")
    return _equal(what, operands)


def _from_front(what: Split, operands: Operands) -> Reason | None:
    return _told_or_equal(what, operands) or axis_not_negative(what, operands)


def _not_short(what: Split, operands: Operands) -> Reason | None:
    if operands[1] is not None and floats(operands[1]) is None:
        return Reason("the sizes of its parts are integers")
    length = _length(what, operands)
    if operands[1] is not None or what.last != "equal" or (isinstance(length, int) and length >= what.num_outputs):
        return None
    # An axis of length 0 has any number of equal parts; onnxruntime 1.31.1 takes that below 18 only.
    return Reason("onnxruntime takes no more parts than the axis is long, which may be 0")


@lowering(13, applies_if=lambda what, operands: floats(operands[1]), bind=lambda what, operands: {"axis": what.axis})
def whole_sizes(data, split, axis: int):
    """Cast the sizes, which Split-1 has as floats, to integers."""
    return meaning.Itself(data, op.Cast(split, to=7), axis=axis)


# --- with sizes ---------------------------------------------------------------------------------------------------


def _unsized(what: Split, operands: Operands) -> Reason | None:
    return Reason("the sizes are given") if operands[1] is not None else None


def _length_known(what: Split, operands: Operands) -> Reason | None:
    known = isinstance(_length(what, operands), int)
    return _unsized(what, operands) if known else Reason("the length of the axis is unknown", missing=True)


def _bound_sizes(what: Split, operands: Operands) -> Mapping[str, Any]:
    length = _length(what, operands)
    return {"axis": what.axis, "sizes": _sizes(length, what.num_outputs) if isinstance(length, int) else None}


@lowering(18, applies_if=_length_known, bind=_bound_sizes)
def sized(data, split, axis: int, sizes: Sequence[int]):
    """Add the sizes of the parts, which are known."""
    return meaning.Itself(data, sizes, axis=axis)


def _measured(what: Split, operands: Operands) -> Mapping[str, Any]:
    count = what.num_outputs
    return {
        "axis": what.axis,
        "start": (what.axis,),
        "end": (what.axis + 1 or END,),
        "rounding": (count - 1,),
        "count": (count,),
        "others": (count - 1,),
    }


@lowering(18, applies_if=_unsized, bind=_measured)
def measured(
    data,
    split,
    axis: int,
    start: Sequence[int],
    end: Sequence[int],
    rounding: Sequence[int],
    count: Sequence[int],
    others: Sequence[int],
):
    """Compute the sizes of the parts."""
    length = op.Slice(op.Shape(data), start, end)
    size = op.Div(op.Add(length, rounding), count)
    sizes = op.Concat(op.Expand(size, others), op.Sub(length, op.Mul(size, others)), axis=0)
    return meaning.Itself(data, sizes, axis=axis)


# --- part by part -------------------------------------------------------------------------------------------------


def _one(what: Split, operands: Operands) -> Reason | None:
    return None if what.num_outputs == 1 else Reason("there is more than one part")


@lowering(18, applies_if=_one)
def whole(data, split):
    """Return the tensor unchanged: it is the only part."""
    return op.Identity(data)


def _several(what: Split, operands: Operands) -> Reason | None:
    if operands[1] is None:
        return Reason("the sizes are not given")
    if floats(operands[1]) is None:
        return Reason("the sizes are floats")
    return None if what.num_outputs > 1 else Reason("there is one part")


@lowering(18, applies_if=_several, bind=lambda what, operands: {"axis": what.axis, "axes": (what.axis,)})
def cut(data, split, axis: int, axes: Sequence[int]):
    """Slice off the first part, and split the rest."""
    size = op.Slice(split, [0], [1])
    first = op.Slice(data, [0], size, axes)
    left = op.Slice(data, size, [2147483647], axes)
    others = meaning.Itself(left, op.Slice(split, [1], [2147483647]), axis=axis)
    return first, others


def _counted(what: Split, used: tuple[bool, ...]) -> Split:
    return dataclasses.replace(what, num_outputs=len(used))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return sizes that add up to the length of an axis, some of them 0: others are no sizes at all."""
    if "input" not in feeds or "split" not in feeds or not feeds["input"].ndim or not feeds["split"].size:
        return feeds
    length = feeds["input"].shape[int(rng.integers(feeds["input"].ndim))]
    cuts = np.sort(rng.integers(0, length + 1, feeds["split"].size - 1))
    return {**feeds, "split": np.diff(cuts, prepend=0, append=length).astype(np.int64)}


OPERATOR = Operator(
    name="Split",
    meaning=Split,
    versions=(
        Version(1, lift=_lift_first),
        Version(2, lift=_lift_equal, write=_write_equal, applies_if=_from_front),
        Version(11, lift=_lift_equal, write=_write_equal, applies_if=_told_or_equal),
        Version(13, lift=_lift_equal, write=_write_equal, applies_if=_equal),
        Version(18, lift=_lift, write=_write, applies_if=_not_short),
    ),
    operands=("input", "split"),
    oracle=oracle,
    outputs=_counted,
    normal=normal,
    lowerings=(whole_sizes, sized, measured, whole, cut),
    adversarial=adversarial,
    traits=Traits(merges=along_axis, floats=(Trait.MOVES,), counts=(1,), moved=(0,), likely_sizes=parts),
)
