"""Values moved by units of rounding, as another order of the same arithmetic moves them.

This is Monte Carlo arithmetic (Parker 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from opshift.opsets.registry.node_traits import attributes_of, float_traits, traits_of
from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.rounding.bound import FACTOR, Bound
from opshift.passes.proof.rounding.inner_sums import (
    longest_run,
    moved_by_inner_sum,
    moved_statistics,
    units_of_sum,
)
from opshift.passes.proof.rounding.overflow import Overflow, not_finite, where_finite
from opshift.passes.proof.rounding.values import is_float_array, is_integer, is_wide, is_widest, kernel_type
from opshift.passes.proof.rounding.wide_nodes import WideNode, WideRun
from opshift.passes.proof.wider_types import WIDE, is_float, wider
from opshift.passes.runtime.ort_models import Array

RUNS = 4
"""Disturbed runs that differ in more than the seed."""
UNITS_OF_SCALES = 64.0
"""Units by which scales of quantized values are moved, which kernels multiply and divide in an order of their own. What
they scale may be 64 times as large as what is left of it, where terms of both signs cancel each other out."""
UNITS_OF_APPROXIMATION = 4.0
"""Units of float that an approximated result is off at most, as the registry's lowerings state (2^-21 of itself)."""
_SIGNS = (1, -1, 0, 0)  # of the first input's perturbation, the others' alternate; 0: at random, element by element


@dataclass(frozen=True)
class Perturbation:
    """One way to perturb a run, which moves what each node reads and returns.

    Attributes:
        first: the unperturbed run.
        plain: the values of the narrow run.
        marks: which elements of those do not count.
        overflowing: which of them may overflow.
        turn: which of the disturbances, below RUNS.
        seed: of what is drawn.
        approximate: operators that have an approximation are off by as much as that.
    """

    first: WideRun
    plain: Mapping[str, Any]
    marks: Mapping[str, Bound]
    overflowing: Mapping[str, Overflow]
    turn: int = 0
    seed: int = 0
    approximate: bool = False
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """Begin to draw."""
        drawn = np.random.default_rng([self.turn, self.seed] if self.seed else self.turn)
        object.__setattr__(self, "rng", drawn)

    @property
    def _sign(self) -> int:
        return _SIGNS[self.turn]

    @property
    def narrow(self) -> bool:
        """Whether nodes with rounded intermediate values compute in the narrow types."""
        return self.turn == RUNS - 1

    def read(self, node: WideNode, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a node reads, perturbed."""
        # A difference of squares loses half the digits.
        power = 0.5 if Trait.NORMALIZES in float_traits(node.node) else 1.0
        quantizes = Trait.QUANTIZES in node.traits
        drift = UNITS_OF_SCALES if quantizes else _drift(node, self.plain) if self._sign else 1.0
        names = [name for name in values if name in node.data and is_wide(values[name])]
        in_float = node.in_float(self.plain)
        moved = {
            name: _perturbed(
                values[name],
                self.plain[name],
                self.rng,
                self._sign * (-1) ** place,
                power,
                1.0 if place and not quantizes else drift,  # opposite drifts of two factors cancel each other out
                np.dtype(np.float32) if in_float and is_widest(self.plain[name]) else None,
                alike=self.seed % 4 == 0 and self.seed > 0,  # every second of those that are drawn at random
            )
            for place, name in enumerate(names)  # the condition of an If has no place
        }
        if not quantizes and (node.selects or _decides(node, self.plain)):
            moved = {
                name: _but_stuck(value, values[name], self.first.values[name], self.plain[name])
                for name, value in moved.items()
            }
        return {**values, **moved}

    def made(
        self, node: WideNode, read: Mapping[str, Any], results: Mapping[str, Any], *, narrow: bool
    ) -> Mapping[str, Any]:
        """Return the results of a node, perturbed by what no wider type shows.

        With `narrow` they were not computed in a wider type, and do not show how they are rounded themselves.
        """
        rounds = not node.selects and Trait.STEPS not in float_traits(node.node)
        own = {name for name in results if narrow or (rounds and is_widest(self.plain[name]))}
        results = {
            name: _perturbed(value, self.plain[name], self.rng, 0, units=_units(node, self.plain))
            if name in own
            else value
            for name, value in results.items()
        }
        if node.in_float(self.plain):
            least = 0.0 if node.sums else 1.0  # the height of a window, and of the step of Gelu
            units = _units(node, self.plain) if node.has_subgraphs else 1.0  # whose inner sums nothing else shows
            results = self._shake(results, lambda plain: (least, np.float32), each=not node.sums, units=units)
        if node.adds_up_integers(self.plain):  # no float that it reads was perturbed
            term = _largest_term(node, self.plain)
            results = self._shake(results, lambda plain: (term, kernel_type(plain)))
        inner_sum, first = traits_of(node.node).inner_sum, node.made[0]
        if inner_sum and first == node.node.output[0]:
            dtype, sign = kernel_type(self.plain[first]), self._sign or 1
            moved = moved_by_inner_sum(node, inner_sum, read, results[first], dtype, sign)
            results = {**moved_statistics(node, inner_sum, read, results, dtype, sign), first: moved}
        if Trait.ADDS_ONE in node.traits:
            results = self._shake(
                results,
                lambda plain: (_cancelled(node, plain, read), kernel_type(plain)),
                units=self._units_of_one(node),
            )
        return self._approximated(node, results) if self.approximate else results

    def _approximated(self, node: WideNode, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the results of a node, off by as much as an approximation of it may be."""
        sizes = [size for inner in node.computing if (size := traits_of(inner).approximated) is not None]
        if not sizes:
            return results
        units = UNITS_OF_APPROXIMATION / FACTOR  # the bound is so many times what moves the results
        return self._shake(results, lambda plain: (max(sizes), np.float32), each=True, units=units)

    def _units_of_one(self, node: WideNode) -> float:
        """Return how many units of what kernels compute in are one of the type that a node's sum is rounded to."""
        value = self.plain[node.made[0]]
        if not isinstance(value, np.ndarray) or value.dtype not in WIDE:
            return 1.0
        if not any(traits_of(inner).near_one.rounded for inner in node.computing):
            return 1.0
        own = float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
        return max(1.0, own / float(np.finfo(kernel_type(value)).eps))

    def _shake(
        self,
        results: Mapping[str, Any],
        by: Callable[[Any], tuple[Any, _Float]],
        *,
        each: bool = False,
        units: float = 1.0,
    ) -> Mapping[str, Any]:
        plain = self.plain
        return {
            name: _shaken(value, plain[name], self.rng, self._sign, *by(plain[name]), each=each, units=units)
            for name, value in results.items()
        }

    def overflown(self, read: Mapping[str, Any]) -> dict[str, Any]:
        """Return which of the values that a node reads have elements that may not be finite, with those not finite.

        Those are the elements that may have overflowed, and where a sum of infinities was: Clip, say, makes numbers of
        them.
        """
        rng = np.random.default_rng((self.turn, self.seed))
        share = 1.0 if self.turn < RUNS - 1 and not self.seed else 0.5
        nowhere = Overflow(np.zeros((), np.bool_), np.zeros((), np.bool_))
        found = {}
        for name, value in read.items():
            plain, mark, overflow = self.plain[name], self.marks[name], self.overflowing.get(name, nowhere)
            if (mark.huge or mark.undecided) and is_wide(value) and value.shape == plain.shape:
                places = (rng.random(value.shape) < share) & (overflow.places | ~np.isfinite(wider(plain)))
                found[name] = np.where(places, not_finite(value, plain, self.turn, overflow.either), value)
        return found

    def after_overflow(
        self, overflown: Mapping[str, Any], found: Mapping[str, Any], results: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the results of a node, by those that it `found` where some of what it read had overflown."""
        if not any(self.marks[name].huge for name in overflown):
            return found
        return {name: where_finite(found[name], value, self.plain[name]) for name, value in results.items()}


_Float = type[np.floating[Any]]


def _perturbed(
    value: Any,
    like: Any,
    rng: np.random.Generator,
    sign: int,
    power: float = 1.0,
    units: float = 1.0,
    within: np.dtype[Any] | None = None,
    *,
    alike: bool = False,
) -> Any:
    """Return floats with each element moved by units of rounding of the narrow type, to a power, up or down.

    The narrow type is that of the narrow run, or the one that a node computes `within`.

    Without a `sign` the direction is random; with `alike`, equal numbers are moved in the same one, so that what is
    tied since it was computed from the same numbers stays so.
    """
    if not (isinstance(value, np.ndarray) and isinstance(like, np.ndarray) and like.dtype in WIDE):
        return value
    info = ml_dtypes.finfo(within or like.dtype)  # type: ignore[no-untyped-call]
    signs = np.asarray(sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1)
    if alike and not sign:
        distinct, places = np.unique(value, return_inverse=True)
        signs = (rng.integers(0, 2, size=distinct.shape) * 2 - 1)[places].reshape(value.shape)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        unit = (
            units
            * np.maximum(np.abs(value) * float(info.eps) ** power, float(info.smallest_subnormal))
            * np.sign(value)
        )
        return np.asarray(np.where(np.isfinite(value), value + signs * unit, value), value.dtype)


def _decides(node: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node makes no floats of what it reads, or jumps at a threshold, as a tree does."""
    jumps = not float_traits(node.node).isdisjoint({Trait.STEPS, Trait.PIECEWISE})
    return jumps or traits_of(node.node).compares or not any(is_float_array(plain[name]) for name in node.made)


def _but_stuck(moved: Array, given: Any, first: Any, plain: Any) -> Array:
    """Return perturbed floats, with those as they were that do not move when what they are made of does.

    A function that saturates, such as Clip or Sigmoid, returns the same there in every kernel.
    """
    if not isinstance(first, np.ndarray) or first.shape != moved.shape:
        return moved
    stuck = (given == first) & (first == wider(plain))
    return np.asarray(np.where(stuck, given, moved), moved.dtype)


def _units(node: WideNode, plain: Mapping[str, Any]) -> float:
    """Return how many units of rounding a result may be off by that is computed in its own type alone.

    The error of a sum of n numbers grows as the square root of n (Higham and Mary, 2019); n is at most the number of
    elements of the largest input.
    """
    if not node.sums:
        return 1.0
    sizes = (value.size for name in node.read if isinstance(value := plain[name], np.ndarray))
    return math.sqrt(max(sizes, default=1) or 1)


def _drift(node: WideNode, plain: Mapping[str, Any]) -> float:
    """Return how many units of rounding all that a sum reads is moved by, in one direction.

    A product of matrices adds up as many numbers as the root of both sizes by that of the result, a reduction the
    quotient of the sizes.
    """
    if not node.sums:
        return 1.0
    values = [value for name in node.read if isinstance(value := plain[name], np.ndarray) and is_float(value.dtype)]
    sizes = sorted(value.size for value in values)
    made = [value.size for name in node.made if isinstance(value := plain[name], np.ndarray) and value.size]
    if not sizes or not made:
        return 1.0
    terms = max(sizes[-1] / min(made), math.sqrt(math.prod(sizes[-2:]) / min(made)) if len(sizes) > 1 else 0.0)
    factors = sorted(values, key=lambda value: -value.size)[: traits_of(node.node).factors]
    equal = min(float(longest_run(value[value != 0].reshape(1, -1)).max(initial=1)) for value in factors)
    return float(units_of_sum(terms, np.asarray(min(equal, terms))))


def _largest_term(node: WideNode, plain: Mapping[str, Any]) -> float:
    """Return how large the product of an integer that a node reads and of a factor among its attributes may be."""
    if Trait.NORMALIZES in node.traits:
        return 0.0
    integers = [plain[name] for name in node.read if is_integer(plain[name])]
    largest = max((float(np.abs(one.astype(np.float64)).max(initial=0)) for one in integers), default=0.0)
    return largest * max((abs(factor) for one in node.node.attribute for factor in one.floats), default=1.0)


def _shaken(
    value: Any,
    like: Any,
    rng: np.random.Generator,
    sign: int,
    least: Any,
    dtype: type[np.floating[Any]],
    *,
    each: bool,
    units: float,
) -> Any:
    """Return floats moved by units of the largest, and at least by those of `least`, of the type computed in.

    With `each`, or a `least` for each element of the last axis, an element is moved by units of its own. What becomes
    an integer is moved by all that it may depart by.
    """
    if not isinstance(value, np.ndarray) or not is_float(value.dtype) or not isinstance(like, np.ndarray):
        return value
    sizes = np.where(np.isfinite(value), np.maximum(np.abs(value), least), least)
    unit = units * float(np.finfo(dtype).eps) * (sizes if each or np.ndim(least) else float(sizes.max(initial=least)))
    factor = FACTOR if is_integer(like) else 1
    signs = sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1
    with np.errstate(over="ignore"):
        return np.asarray(value + factor * unit * signs, value.dtype)


def _cancelled(node: WideNode, value: Any, read: Mapping[str, Any]) -> Any:
    """Return how many units of 1 the rounding of a sum with 1 costs the results of a node, however small they are.

    The kernels of onnxruntime 1.32.0 lose them in Elu, Celu and Selu, which then multiply by alpha and gamma. Softplus
    and Mish lose them in double only: in float log(1 + e) is exact to 2 units of its own. Mish multiplies half a unit
    by x, which is above -37 where e still counts. Swish multiplies by x what Sigmoid, whose kernel is exact to little
    more than a unit of 1, makes of alpha * x, which counts above -37 as well. Tanh and Sigmoid in RNN, GRU and LSTM are
    exact to a unit of 1, and so are gates by which numbers are multiplied that may be large.
    """
    nodes = node.computing
    added = [_added(inner) for inner in nodes if traits_of(inner).near_one.rounded]
    if added:
        return max(added)
    if not is_widest(value) and all(
        traits_of(inner).near_one.in_double_only or Trait.ADDS_ONE not in float_traits(inner) for inner in nodes
    ):
        return 0.0
    lost = [traits_of(inner).near_one for inner in nodes]
    most, divided = max((one.factor for one in lost), default=1.0), any(one.divided for one in lost)
    given = (abs(one.f) for inner in nodes for one in inner.attribute if one.name in ("alpha", "gamma"))
    factor = most * float(np.prod([1 / max(one, 1.0) if divided else one for one in given]))
    gains = [
        np.asarray(gain(attributes_of(inner), [read.get(name) for name in inner.input]))
        for inner in nodes
        if (gain := traits_of(inner).near_one.gain) is not None
    ]
    # One for each element of the last axis, or the largest where there are other results beside.
    if len(gains) == 1 and np.shape(value)[-1:] == gains[0].shape:
        return factor * gains[0]
    return factor * max((float(one.max()) for one in gains), default=1.0)


def _added(node: onnx.NodeProto) -> float:
    """Return what a node adds to a product before the sum is rounded."""
    return next((abs(one.f) for one in node.attribute if one.name == "beta"), traits_of(node).near_one.factor)
