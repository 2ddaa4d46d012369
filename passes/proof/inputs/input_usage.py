"""The usages of values that determine what verification feeds: indices, counts, operands of comparisons."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from opshift.opsets.registry.traits import Interval
from opshift.passes.analysis.model_summary import ModelSummary


@dataclass(frozen=True)
class AxisLength:
    """A length that follows from the input shapes: of an axis of a graph input."""

    input: str
    axis: int


@dataclass(frozen=True)
class DrawnLength:
    """A length that follows from the input values: the only element of a graph input."""

    input: str


Length = int | AxisLength | DrawnLength | None


@dataclass(frozen=True)
class Lookup:
    """The usage of values as indices.

    Attributes:
        lengths: the lengths of the indexed axes: one, or one for each element of an index's last axis.
        beyond: whether indices outside are defined too.
        negative: whether negative indices are defined, and count from the end.
        offset: a constant that is added to the values first.
        ignored: defined values outside, such as labels that a loss ignores.
    """

    lengths: tuple[Length, ...]
    beyond: bool = False
    negative: bool = True
    offset: int = 0
    ignored: tuple[int, ...] = ()


@dataclass(frozen=True)
class Number:
    """A constant that is compared with values, or with `summed` with the sum of many of them."""

    value: float | str
    summed: bool = False


@dataclass(frozen=True)
class InputUsage:
    """The usage of a value.

    Attributes:
        counts: it sets a size or how long a node runs.
        places: it is an axis or a position, or an index is computed from it.
        lookups: it is an index as it is.
        intervals: what it should lie in.
        rows: what it lies in where an index is computed from it that is within a table of constant length.
        numbers: what it is compared with.
        boxes: how long an element of an image is, in the units of corners of boxes; 0 where it is none.
        overlaps: what the shares of two boxes are compared with.
    """

    counts: bool = False
    places: bool = False
    lookups: tuple[Lookup, ...] = ()
    intervals: tuple[Interval, ...] = ()
    rows: tuple[Interval, ...] = ()
    numbers: tuple[Number, ...] = ()
    boxes: float = 0.0
    overlaps: tuple[float, ...] = ()

    def __or__(self, other: InputUsage) -> InputUsage:
        """Return the union of two usages of a value; of many numbers the first are kept."""
        if other == NOTHING or self == other:
            return self
        if self == NOTHING:
            return other
        return InputUsage(
            self.counts or other.counts,
            self.places or other.places,
            _joined(self.lookups, other.lookups),
            _joined(self.intervals, other.intervals),
            _joined(self.rows, other.rows),
            _joined(self.numbers, other.numbers),
            max(self.boxes, other.boxes),
            _joined(self.overlaps, other.overlaps),
        )


_MOST = 64  # maximum for all nodes that an input reaches


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    if not other or one == other:
        return one
    if not one:
        return other
    taken = itertools.chain.from_iterable(itertools.zip_longest(one, other))
    return tuple(dict.fromkeys(item for item in taken if item is not None))[:_MOST]


NOTHING = InputUsage()


COUNT = InputUsage(counts=True)


PLACE = InputUsage(places=True)


def length_of(view: ModelSummary, name: str, axis: int) -> Length:
    """Return the length of a value's axis."""
    dims = view.shapes.get(name)
    if dims is not None and -len(dims) <= axis < len(dims):
        dim = dims[axis]
        if isinstance(dim, str):
            return AxisLength(*view.bearers[dim]) if dim in view.bearers else None
        return dim
    return AxisLength(name, axis) if name in view.inputs else None
