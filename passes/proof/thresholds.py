"""Find inputs on which computed values are close to what they are compared with.

The data flow solves arithmetic with constants (inputs/data_flow.py). It does not solve a product of two inputs, a
quotient, a norm or the overlap of two boxes. For these, two accepted inputs are searched for which a comparison has
different results. Between them, the input is changed in small steps until the two sides are nearly equal.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.traits import Flow
from opshift.passes.analysis import scopes
from opshift.passes.analysis.model_summary import ModelSummary, summary
from opshift.passes.base.limits import Limits
from opshift.passes.graph.traversal import subgraphs
from opshift.passes.proof.inner_values import InnerValues
from opshift.passes.proof.rounding.taken_paths import Path, Paths
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable

_MOST, _WAYS = 8, 12
"""The maximum number of comparisons of a model, and of elements of all of them."""
_STEPS, _ROUNDS = 8, 6
"""The parts into which the way between two inputs is divided, and how often."""
_NEAREST = 64
"""The distance in units in the last place below which rounding may decide a comparison."""
_FOLLOWED, _PATHS = 32, 3
"""The maximum number of inputs whose path through Ifs, Loops and Scans is followed, and of paths."""
_LARGEST = 2**12
"""The maximum number of elements of an input that is changed."""
_WEIGHTS = 10**7
"""The maximum size of a model in bytes: it is copied, and opened once more."""


@dataclass(frozen=True)
class _Compared:
    """The two sides of a comparison: constants, or the names of values."""

    sides: tuple[str | npt.NDArray[Any], str | npt.NDArray[Any]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sides that are not constant."""
        return tuple(side for side in self.sides if isinstance(side, str))

    def gap(self, values: Mapping[str, Any]) -> npt.NDArray[np.float64] | None:
        """Return by how much the first side is larger, in units of the larger one; None unless both are floats.

        An element that rounding may decide is NaN, as one that is not finite.
        """
        one, other = (values[side] if isinstance(side, str) else side for side in self.sides)
        if not all(isinstance(side, np.ndarray) and is_float(side.dtype) for side in (one, other)):
            return None
        nearest = _NEAREST * float(ml_dtypes.finfo(one.dtype).eps)  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            try:
                first, second = np.broadcast_arrays(one.astype(np.float64), other.astype(np.float64))
            except ValueError:
                return None
            size = np.maximum(np.abs(first), np.abs(second))
            found = np.where(size > 0, (first - second) / size, 0.0)
        return np.asarray(np.where(np.abs(found) >= nearest, found, np.nan))


def _comparisons(view: ModelSummary) -> Iterator[_Compared]:
    """Yield the comparisons of the main graph with a side that is computed from inputs."""
    made = {name for node in view.graph.node for name in node.output}
    for node in filter(_is_threshold, view.graph.node):
        known = [view.constant(name) for name in node.input]
        sides = tuple(name if one is None else one for name, one in zip(node.input, known, strict=True))
        named = [side for side in sides if isinstance(side, str)]
        if any(view.origin(name) in made for name in named):
            yield _Compared((sides[0], sides[1]))


def _is_threshold(node: onnx.NodeProto) -> bool:
    own = traits_of(node)
    return own.compares and own.flow is Flow.BOUNDED and len(node.input) == 2


@dataclass(frozen=True)
class _Way:
    """The way from one input to another, on which an element of a comparison changes its sign."""

    compared: _Compared
    element: int
    start: Feeds
    end: Feeds

    def points(self) -> list[Feeds]:
        """Return the inputs on the way, with both ends."""
        return [_between(self.start, self.end, step / _STEPS) for step in range(_STEPS + 1)]

    def gap(self, values: Mapping[str, Any] | None) -> float:
        """Return the gap of the element; NaN if it is unknown."""
        found = self.compared.gap(values) if values else None
        return float(found.flat[self.element]) if found is not None and self.element < found.size else np.nan

    def narrowed(self, points: Sequence[Feeds], gaps: Sequence[float]) -> _Way | None:
        """Return the part of the way on which the sign changes; None if it does not, or closer than it may."""
        steps = itertools.pairwise(zip(points, gaps, strict=True))
        parts = ((one, other) for (one, gap), (other, far) in steps if gap * far < 0)
        found = next(parts, None)
        return replace(self, start=found[0], end=found[1]) if found else None


def _between(one: Feeds, other: Feeds, share: float) -> Feeds:
    """Return an input between two of the same shapes; what is no number stays as in the first."""
    return {name: _mixed(value, other[name], share) for name, value in one.items()}


def _mixed(one: Any, other: Any, share: float) -> Any:
    if not isinstance(one, np.ndarray) or not (is_float(one.dtype) or one.dtype.kind in "iu"):
        return one
    with np.errstate(all="ignore"):
        if is_float(one.dtype):
            wide = one.astype(np.float64)
            return np.asarray(wide + share * (other.astype(np.float64) - wide), one.dtype)
        steps = np.rint(share * (other.astype(np.float64) - one.astype(np.float64)))
        return np.asarray(one + steps.astype(one.dtype), one.dtype)


def _first(compared: _Compared, groups: Iterable[Sequence[tuple[Feeds, Mapping[str, Any]]]]) -> list[_Way]:
    """Return the ways between inputs of the first group, of the same shapes, that has any."""
    return next(filter(None, (_ways(compared, group) for group in groups)), [])


def _ways(compared: _Compared, group: Sequence[tuple[Feeds, Mapping[str, Any]]]) -> list[_Way]:
    """Return, by element, the way from the input with the smallest gap below 0 to that with the smallest above."""
    gaps = [compared.gap(values) for _, values in group]
    if any(gap is None or gap.shape != gaps[0].shape for gap in gaps):  # type: ignore[union-attr]
        return []
    stacked = np.stack([gap.ravel() for gap in gaps])  # type: ignore[union-attr]
    below, above = (np.where(stacked * sign > 0, np.abs(stacked), np.inf) for sign in (-1, 1))
    elements = np.flatnonzero(np.isfinite(below.min(0)) & np.isfinite(above.min(0)))
    ends = ((int(element), *(int(np.argmin(side[:, element])) for side in (below, above))) for element in elements)
    return [_Way(compared, element, group[one][0], group[other][0]) for element, one, other in ends]


def _is_small(feeds: Feeds) -> bool:
    """Return whether an input is not empty nor large, and has finite tensors only."""
    values = feeds.values()
    if not all(isinstance(value, np.ndarray) for value in values) or not 0 < _size(feeds) <= _LARGEST:
        return False
    return all(np.isfinite(value.astype(np.float64)).all() for value in values if is_float(value.dtype))


def _size(feeds: Feeds) -> int:
    return sum(value.size for value in feeds.values())


def _alike(value: npt.NDArray[Any]) -> tuple[Any, ...]:
    return value.dtype, value.shape


def _equated(feeds: Feeds) -> Feeds | None:
    """Return an input whose tensors of one type and shape are equal, which overlap and correlate; None if none are."""
    first: dict[tuple[Any, ...], npt.NDArray[Any]] = {}
    found = {name: first.setdefault(_alike(value), value) for name, value in feeds.items()}
    return found if len(first) < len(found) else None


def at_thresholds(
    runnable: Runnable, feeds: Sequence[Feeds], limits: Limits, afford: Callable[[int], bool]
) -> list[Feeds]:
    """Return inputs on both sides of comparisons, at several distances, given inputs that a model accepts.

    `afford` returns whether an input with so many elements may be run.
    """
    if runnable.proto.ByteSize() > _WEIGHTS or scopes.expanded(runnable.proto) > scopes.INLINED:
        return []
    flat = replace(runnable, proto=scopes.inlined(runnable.proto), path=None)
    small = [one for one in feeds if _is_small(one)]
    parts = [(flat, small)]
    if any(
        _is_threshold(node) for top in flat.proto.graph.node for subgraph in subgraphs(top) for node in subgraph.node
    ):
        parts = _by_path(flat, [one for one in small[:_FOLLOWED] if afford(_size(one))], limits) or parts
    return [one for part, affordable in parts for one in _near(part, affordable, limits, afford)]


def _by_path(flat: Runnable, feeds: Sequence[Feeds], limits: Limits) -> list[tuple[Runnable, list[Feeds]]]:
    """Return, by path, the nodes that a model with Ifs, Loops and Scans runs, as a model without, and its inputs.

    The inputs of one path are the most of all. A comparison in a branch or a body is then one of the main graph.
    """
    interpreter = Interpreter(flat, limits)
    paths = Paths(interpreter)
    found: dict[Path, tuple[Mapping[str, Any], list[Feeds]]] = {}
    for one in feeds:
        with contextlib.suppress(RejectedError):
            values = interpreter.values(one)
            if taken := paths.iterations(values):
                found.setdefault(taken, (values, []))[1].append(one)
    most = sorted(found.items(), key=lambda item: -len(item[1][1]))[:_PATHS]
    return [(replace(flat, proto=paths.model(taken, values)), affordable) for taken, (values, affordable) in most]


def _near(runnable: Runnable, feeds: Sequence[Feeds], limits: Limits, afford: Callable[[int], bool]) -> list[Feeds]:
    compared = list(itertools.islice(_comparisons(summary(runnable.proto)), _MOST))
    candidates = (*feeds, *filter(None, map(_equated, feeds))) if compared else ()
    affordable = [one for one in candidates if afford(_size(one))]
    if not affordable:
        return []
    made = {name for node in runnable.proto.graph.node for name in node.output}
    names = list(dict.fromkeys(name for one in compared for name in one.names if name in made))
    try:
        return _searched(compared, affordable, InnerValues(runnable, names, limits), afford)
    except RejectedError:
        return []


def _searched(
    compared: Sequence[_Compared], affordable: Sequence[Feeds], inner: InnerValues, afford: Callable[[int], bool]
) -> list[Feeds]:
    alike: dict[Any, list[tuple[Feeds, Mapping[str, Any]]]] = {}
    for feeds, values in zip(affordable, _values(inner, affordable), strict=True):
        if values is not None:
            alike.setdefault(tuple(map(_alike, feeds.values())), []).append((feeds, values))
    groups = sorted(alike.values(), key=len, reverse=True)
    ways = list(itertools.chain(*(_first(one, groups) for one in compared)))
    ways = ways[:: max(1, len(ways) // _WAYS)][:_WAYS]
    found: list[Feeds] = []
    size = max(map(_size, affordable))
    for _ in range(_ROUNDS):
        points = [way.points() for way in ways]
        if not points or not all(afford(size) for _ in itertools.chain(*points)):
            break
        results = iter(_values(inner, list(itertools.chain(*points))))
        gaps_of = [[way.gap(next(results)) for _ in each] for way, each in zip(ways, points, strict=True)]
        narrowed = [way.narrowed(each, gaps) for way, each, gaps in zip(ways, points, gaps_of, strict=True)]
        ways = [way for way in narrowed if way is not None]
        found += [feeds for way in ways for feeds in (way.start, way.end)]
    return found


def _values(inner: InnerValues, feeds: Sequence[Feeds]) -> list[Mapping[str, Any] | None]:
    """Return the fed and the computed values on each input."""
    return [None if found is None else {**one, **found} for one, found in zip(feeds, inner.on(feeds), strict=True)]
