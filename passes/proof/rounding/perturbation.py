"""Perturb values by units of rounding, as another order of the same arithmetic does.

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

from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.node_traits import float_traits, traits_of
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
"""The number of perturbed runs that differ in more than the seed."""
FIRST = tuple((turn, 0) for turn in range(RUNS))
"""The turns and seeds of the runs that are always needed."""
MORE = tuple(((2, 0, 2, 0, 2, 0, RUNS - 1, 0)[seed % 8], seed) for seed in range(1, 16))
"""The turns and seeds of further runs.

The few elements of one size may have small errors by chance, and cancelling numbers may have moved alike.
"""
UNITS_OF_SCALES = 64.0
"""The units by which scales of quantized values are perturbed.

Kernels multiply and divide scales in various orders. If terms of both signs cancel, the scaled numbers may be 64 times
as large as the result.
"""
UNITS_OF_APPROXIMATION = 4.0
"""The maximum error of an approximated result in units of float, as the lowerings state (2^-21 of itself)."""
_SIGNS = (1, -1, 0, 0)  # of the first input's perturbation, the others' alternate; 0: random for each element


@dataclass(frozen=True)
class Perturbation:
    """A perturbation of a run, which moves the inputs and outputs of each node.

    Attributes:
        first: the unperturbed run.
        plain: the values of the narrow run.
        marks: the elements of these that do not count.
        overflowing: the elements of these that may overflow.
        turn: the index of the perturbation, below RUNS.
        seed: the seed of random numbers.
        approximate: operators with an approximation get its error.
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
        """Initialize the random generator."""
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
        """Return the perturbed inputs of a node."""
        if adds_first := traits_of(node.node).adds_first:
            added = adds_first([values.get(name) for name in node.node.input])
            values = {name: value for name, value in zip(node.node.input, added, strict=True) if name}
        # A difference of squares loses half the digits.
        power = 0.5 if Trait.NORMALIZES in float_traits(node.node) else 1.0
        quantizes = Trait.QUANTIZES in node.traits
        drift = UNITS_OF_SCALES if quantizes else _drift(node, self.plain) if self._sign else 1.0
        names = [name for name in values if name in node.data and is_wide(values[name])]
        signs = self._signs(len(names), apart=quantizes)
        in_float = node.in_float(self.plain)
        moved = {
            name: _perturbed(
                values[name],
                self.plain[name],
                self.rng,
                signs[place],
                power,
                1.0 if place and not quantizes else drift,  # opposite drifts of two factors cancel
                np.dtype(np.float32) if in_float and is_widest(self.plain[name]) else None,
                alike=self.seed % 4 == 0 and self.seed > 0,  # in every second random run
            )
            for place, name in enumerate(names)  # the condition of an If has no place
        }
        if not quantizes and (node.selects or _decides(node, self.plain)):
            moved = {
                name: _but_stuck(value, values[name], self.first.values[name], self.plain[name])
                for name, value in moved.items()
            }
        return {**values, **moved}

    def _signs(self, count: int, *, apart: bool) -> list[int]:
        """Return the sign by which each input is moved; 0: random for each element.

        Of scales, the first and the last, by which results are divided, move `apart`: alike, they cancel each other.
        """
        if apart and self._mixes and count > 1:
            sign = int(self.rng.integers(0, 2)) * 2 - 1
            return [sign, *[0] * (count - 2), -sign]
        return [self._sign * (-1) ** place for place in range(count)]

    @property
    def _mixes(self) -> bool:
        """Whether elements beside a tie are rounded each in a direction of its own, and not all in one."""
        return self.seed > 0 or not self._sign

    def decides_ties(self, node: WideNode) -> bool:
        """Return whether a node rounds to integers, and elements have directions of their own.

        What moves a scale moves all of them alike.
        """
        return self._mixes and node.quantizes(self.plain)

    def opposite(self, inputs: Mapping[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a node, given and as `read` moved them, moved in the other direction."""
        return {
            name: np.asarray(2 * value - moved[name]) if is_wide(value) else value for name, value in inputs.items()
        }

    def with_ties(self, results: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the results of a node, of which each integer is that of one of two runs.

        Half of them are moved by the difference between the narrow and the wide kernel too.
        """
        rounded = {
            name: self._tied(name, value, others[name])
            for name, value in results.items()
            if is_integer(self.plain[name]) and np.shape(value) == np.shape(others[name])
        }
        return {**results, **rounded}

    def _tied(self, name: str, one: Array, other: Array) -> Array:
        chosen = np.where(self.rng.random(one.shape) < 0.5, one, other).astype(np.int64)
        apart = self.first.apart.get(name)
        if apart is not None and apart.shape == one.shape:
            chosen += np.where(self.rng.random(one.shape) < 0.5, apart, 0)
        ends = np.iinfo(one.dtype)
        return np.asarray(np.clip(chosen, ends.min, ends.max), one.dtype)

    def inside(self, node: WideNode) -> InnerRounding:
        """Return the perturbation of results in the steps of a node that feeds them back."""
        return InnerRounding(float(np.finfo(kernel_type(self.plain[node.made[0]])).eps), (self.turn, self.seed))

    def made(
        self, node: WideNode, read: Mapping[str, Any], results: Mapping[str, Any], *, narrow: bool
    ) -> Mapping[str, Any]:
        """Return the results of a node, perturbed by errors that no wider type shows.

        With `narrow`, they were not computed in a wider type, so their own rounding is unknown.
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
            # otherwise the errors of inner sums are invisible
            units = _units(node, self.plain) if node.has_subgraphs else 1.0
            results = self._shake(results, lambda plain: (least, np.float32), each=not node.sums, units=units)
        if node.adds_up_integers(self.plain):  # none of its inputs was a perturbed float
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
                lambda plain: (_cancelled(node, plain, self.plain), kernel_type(plain)),
                units=self._units_of_one(node),
            )
        return self._approximated(node, results) if self.approximate else results

    def _approximated(self, node: WideNode, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the results of a node with the error of an approximation."""
        sizes = [size for inner in node.computing if (size := traits_of(inner).approximated) is not None]
        if not sizes:
            return results
        units = UNITS_OF_APPROXIMATION / FACTOR  # the bound multiplies this by FACTOR
        return self._shake(results, lambda plain: (max(sizes), np.float32), each=True, units=units)

    def _units_of_one(self, node: WideNode) -> float:
        """Return the size of a unit of the node's rounded sum in units of the kernel's computation type."""
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
        by: Callable[[Any], tuple[float, _Float]],
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
        """Return the inputs of a node with elements that may not be finite, with these made non-finite.

        These are elements that may have overflowed, and results of sums of infinities: a Clip, for example, turns them
        into numbers.
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
        """Return the results of a node, combined with those that it `found` for overflown inputs."""
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
    """Return floats with each element moved up or down by units of rounding of the narrow type, to a power.

    The narrow type is that of the narrow run, or the node's computation type (`within`).

    Without a `sign`, the direction is random; with `alike`, equal numbers move in the same direction, so that ties
    between results of the same computation remain.
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
    """Return whether a node's outputs are not floats, or jump at a threshold, as for a tree."""
    jumps = not float_traits(node.node).isdisjoint({Trait.STEPS, Trait.PIECEWISE})
    return jumps or traits_of(node.node).compares or not any(is_float_array(plain[name]) for name in node.made)


def _but_stuck(moved: Array, inputs: Any, first: Any, plain: Any) -> Array:
    """Return perturbed floats, except those that do not move when their inputs move, which stay unchanged.

    A function that saturates, such as Clip or Sigmoid, returns the same there in every kernel.
    """
    if not isinstance(first, np.ndarray) or first.shape != moved.shape:
        return moved
    stuck = (inputs == first) & (first == wider(plain))
    return np.asarray(np.where(stuck, inputs, moved), moved.dtype)


def _units(node: WideNode, plain: Mapping[str, Any]) -> float:
    """Return the error, in units of rounding, of a result that is computed only in its own type.

    The error of a sum of n numbers grows as the square root of n (Higham and Mary, 2019); n is at most the number of
    elements of the largest input.
    """
    if not node.sums:
        return 1.0
    sizes = (value.size for name in node.read if isinstance(value := plain[name], np.ndarray))
    return math.sqrt(max(sizes, default=1) or 1)


def _drift(node: WideNode, plain: Mapping[str, Any]) -> float:
    """Return the units of rounding by which all inputs of a sum are moved in one direction.

    The number of terms of a matrix product is the root of both sizes divided by that of the result, and of a reduction
    the quotient of the sizes.
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
    """Return the maximum product of an integer that a node reads and a factor in its attributes."""
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
    least: float,
    dtype: type[np.floating[Any]],
    *,
    each: bool,
    units: float,
) -> Any:
    """Return floats moved by units of the largest, and at least by those of `least`, in the computation type.

    With `each`, an element is moved by its own units. A value that is converted to an integer is moved by its whole
    accepted error.
    """
    if not isinstance(value, np.ndarray) or not is_float(value.dtype) or not isinstance(like, np.ndarray):
        return value
    sizes = np.where(np.isfinite(value), np.maximum(np.abs(value), least), least)
    unit = units * float(np.finfo(dtype).eps) * (sizes if each else float(sizes.max(initial=least)))
    factor = FACTOR if is_integer(like) else 1
    signs = sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1
    with np.errstate(over="ignore"):
        return np.asarray(value + factor * unit * signs, value.dtype)


def _cancelled(node: WideNode, value: Any, plain: Mapping[str, Any]) -> float:
    """Return the absolute error in units of 1 that rounding of a sum with 1 causes in a node's results.

    The kernels of onnxruntime 1.32.0 have this error in Elu, Celu and Selu, which then multiply by alpha and gamma.
    Softplus and Mish have it only in double: in float, log(1 + e) is exact to 2 units of its own. Mish multiplies half
    a unit by x, which is above -37 if e still counts. Swish multiplies x by the Sigmoid of alpha * x, whose kernel is
    exact to little more than a unit of 1, and which also counts above -37.
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
    parameters = (abs(one.f) for inner in nodes for one in inner.attribute if one.name in ("alpha", "gamma"))
    by = sum(_largest(plain.get(name)) for name in node.node.input) if any(one.multiplied for one in lost) else 1.0
    return by * most * float(np.prod([1 / max(one, 1.0) if divided else one for one in parameters]))


def _largest(value: Any) -> float:
    """Return the largest magnitude of finite floats, or 0 if there are none."""
    finite = np.abs(value[np.isfinite(value)]) if isinstance(value, np.ndarray) and is_float(value.dtype) else ()
    return float(np.max(finite, initial=0.0))


def _added(node: onnx.NodeProto) -> float:
    """Return the term that a node adds to a product before the sum is rounded."""
    return next((abs(one.f) for one in node.attribute if one.name == "beta"), traits_of(node).near_one.factor)
