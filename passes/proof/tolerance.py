"""Bound the rounding error of a model's outputs, for comparisons with another order of the same arithmetic.

The model runs node by node in the next wider type (float as double, float16 and bfloat16 as float). Values that are
only moved, selected or compared must be equal, as must results of arithmetic on small whole numbers, which is exact in
any order. For other values, the wide run is repeated with every read value perturbed by one unit of rounding, up or
down (Monte Carlo arithmetic, Parker 1997): another order of summation is such a perturbation, in long sums of more than
one unit. The bound is 8 times the largest distance of the narrow run and the perturbed runs from the wide run, and at
least 8 times half a unit of the largest result: with few results, the narrow run may be right by chance. The steps are
in `rounding/`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from opshift.opsets.registry.node_traits import float_traits, traits_of
from opshift.opsets.registry.traits import Trait
from opshift.passes.base.limits import Limits
from opshift.passes.proof.rounding.bound import (
    FACTOR,
    Bound,
    Enough,
    bound_of_runs,
    bound_of_steps,
    half_the_digits,
    nothing_counts,
    rounded,
    with_kernels,
)
from opshift.passes.proof.rounding.overflow import marks, overflowing
from opshift.passes.proof.rounding.perturbation import FIRST, MORE, Perturbation
from opshift.passes.proof.rounding.taken_paths import Path, Paths
from opshift.passes.proof.rounding.values import is_integer
from opshift.passes.proof.rounding.wide_run import WideModel
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable

_BLOCK = 16  # runs that are added while they find more choices
_MOST_RUNS = 64
_KEPT = 8  # maximum number of cached paths through a model


class Rounding:
    """The bounds of a model's outputs, input by input."""

    def __init__(self, runnable: Runnable, limits: Limits, *, approximate: bool = False) -> None:
        """Store the model; nothing is run yet. With `approximate`, the error of approximations is accepted."""
        self._runnable, self._limits = runnable, limits
        self._model = WideModel(runnable, limits)
        self._approximate = approximate
        self._paths = Paths(self._model.plain)
        self._by_path: dict[Path, Rounding] = {}

    def bounds(
        self, feeds: Feeds, outputs: Sequence[Any], inexact: Collection[str] = (), enough: Enough = lambda found: False
    ) -> tuple[Bound, ...]:
        """Return the bound of each output, given the narrow model's outputs on this input.

        `inexact` are values that other kernels round, even if this model's kernels are exact. Bounds without the
        perturbed runs, which only widen them, are returned if they are `enough`.

        Raises:
            RejectedError: the model cannot be run node by node.
        """
        model = self._model
        plain = model.plain.values(feeds)
        if taken := self._paths.branches(plain):
            return self._along(taken, plain).bounds(feeds, outputs, inexact, enough)
        first = model.run(feeds, plain, inexact)
        marked = marks(model.nodes, plain)

        def found(runs: Sequence[Mapping[str, Any]]) -> tuple[Bound, ...]:
            return self._of(outputs, runs, first.exact, marked, plain)

        runs: list[Mapping[str, Any]] = [first.values]
        unperturbed = found(runs)
        if all(first.exact[name] for name in model.outputs) or enough(unperturbed):
            return unperturbed
        overflows = overflowing(model.nodes, plain, marked, first.firm)
        ordinary = Perturbation(first, plain, marked, overflows, approximate=self._approximate)

        def perturbed(turn: int, seed: int) -> Mapping[str, Any]:
            """Return only the outputs of a perturbed run, because its inner values need much memory."""
            values = model.run(feeds, plain, inexact, replace(ordinary, turn=turn, seed=seed)).values
            return {name: values[name] for name in model.outputs}

        runs += [perturbed(turn, seed) for turn, seed in FIRST]
        bounds = found(runs)
        if not enough(bounds):
            runs += [perturbed(turn, seed) for turn, seed in MORE]
            bounds = found(runs)
        # Each close choice is another one in a part of the random runs only, so they go on while they find more.
        known, seed = 0, len(MORE) + 1
        while not enough(bounds) and seed < _MOST_RUNS and (choices := _unstable(bounds)) > known:
            runs += [perturbed(2, seed + more) for more in range(_BLOCK)]
            bounds, known, seed = found(runs), choices, seed + _BLOCK
        if enough(bounds):
            return bounds
        return self._inside(feeds, plain, outputs, inexact, enough) or bounds

    def _inside(
        self, feeds: Feeds, plain: Mapping[str, Any], outputs: Sequence[Any], inexact: Collection[str], enough: Enough
    ) -> tuple[Bound, ...]:
        """Return the bounds with unrolled Loops and Scans; empty if there are none.

        Results of inner nodes are perturbed as well, which multiplies the time by the number of iterations.
        """
        if not (taken := self._paths.iterations(plain)):
            return ()
        try:
            return self._along(taken, plain).bounds(feeds, outputs, inexact, enough)
        except RejectedError:  # for example, no kernel concatenates results of an element type
            return ()

    def _along(self, taken: Path, values: Mapping[str, Any]) -> Rounding:
        """Return the same model with the executed nodes in place of its Ifs, Loops and Scans."""
        if taken not in self._by_path:
            if len(self._by_path) == _KEPT:
                self._by_path.clear()
            runnable = replace(self._runnable, proto=self._paths.model(taken, values), path=None)
            self._by_path[taken] = Rounding(runnable, self._limits, approximate=self._approximate)
        return self._by_path[taken]

    def _of(
        self,
        outputs: Sequence[Any],
        runs: Sequence[Mapping[str, Any]],
        exact: Mapping[str, bool],
        marked: Mapping[str, Bound],
        plain: Mapping[str, Any],
    ) -> tuple[Bound, ...]:
        """Return the bound of each output from the unperturbed run and the other runs."""
        normalizes = any(Trait.NORMALIZES in float_traits(node.node) for node in self._model.nodes)
        found = []
        for name, value in zip(self._model.outputs, outputs, strict=True):
            mark = marked[name]
            bound = self._of_value(name, value, [run[name] for run in runs], plain, normalizes=normalizes)
            if mark.lost:
                found.append(mark.within(nothing_counts(value)))
            else:
                found.append(mark if exact[name] else mark.within(bound))
        return tuple(found)

    def _of_value(
        self, name: str, value: Any, runs: Sequence[Any], plain: Mapping[str, Any], *, normalizes: bool
    ) -> Bound:
        """Return the bound of an output, or of an element of a sequence that is one."""
        if isinstance(value, list):
            if any(len(run) != len(value) for run in runs):
                return Bound(reshaped=True)
            places = range(len(value))
            of_items = (
                self._of_value(name, value[at], [run[at] for run in runs], plain, normalizes=normalizes)
                for at in places
            )
            return Bound(items=tuple(of_items))
        if name in self._model.quantized and isinstance(value, np.ndarray):
            bound = bound_of_steps(value, runs)
        elif name in self._model.converted and is_integer(value):
            bound = bound_of_steps(value, runs, FACTOR, plain.get(self._model.converted[name]))
        else:
            bound = bound_of_runs(value, runs, feeds_back=name in self._model.fed_back)
        if name not in self._model.stepped:  # a difference of two steps goes both ways
            bound = replace(bound, ends=None)
        bound = replace(bound, slack=max(bound.slack, rounded(value).slack / 2))
        return bound.spread() if normalizes else bound

    def coarse(self, feeds: Feeds, outputs: Sequence[Any]) -> list[Bound]:
        """Return 8 units of the largest value of each output, if the inner values are unknown.

        The error of rounded angles is added (`Traits.rounds_angles`). If rounding in one step reaches later steps, the
        number of right digits is unknown.
        """
        model = self._model
        between = dict.fromkeys(name for node in model.nodes for name in node.node.output)
        known = dict(zip(model.outputs, outputs, strict=True))
        values = {**model.plain.constants, **between, **feeds, **known}
        marked = marks(model.nodes, values)
        in_float = any(Trait.IN_FLOAT in node.traits for node in model.nodes)
        turned = [values[node.node.input[0]] for node in model.nodes if traits_of(node.node).rounds_angles]
        lost = FACTOR * float(np.finfo(np.float32).eps) * sum(map(_length_times_sum, turned))
        found = []
        for name, value in zip(model.outputs, outputs, strict=True):
            # Integers that floats were cast to have the digits of those.
            like = _as_floats(value) if name in model.converted and is_integer(value) else value
            bound = marked[name].within(rounded(value, in_float=in_float).plus(lost))
            found.append(replace(bound, estimated=math.inf if name in model.fed_back else half_the_digits(like)))
        return found


def _unstable(bounds: Sequence[Bound]) -> int:
    """Return the number of elements that rounding decides."""
    return sum(int(np.count_nonzero(bound.unstable)) for bound in bounds if bound.unstable is not None)


def _as_floats(value: Any) -> Any:
    """Return integers as floats, and 0 for the ends of their type, to which NaN and infinities are cast."""
    info = np.iinfo(value.dtype)
    return np.where((value == info.min) | (value == info.max), 0, value).astype(np.float32)


def _length_times_sum(rows: Any) -> float:
    """Return the length of the rows after the first axis, times the largest sum of one; 0 if unknown."""
    if not isinstance(rows, np.ndarray) or not rows.size:
        return 0.0
    sizes = np.abs(rows.astype(np.float64)).reshape(len(rows), -1)
    return float(sizes.shape[1] * np.where(np.isfinite(sizes), sizes, 0.0).sum(1).max())


class Bounds:
    """The bounds of a model's outputs; 8 units of the largest value if it cannot be run node by node."""

    def __init__(
        self,
        runnable: Runnable,
        limits: Limits,
        *,
        kernels: bool = True,
        unsigned: bool = False,
        approximate: bool = False,
    ) -> None:
        """Store the model; without `kernels`, an oracle computes its outputs, and 8 units of the largest are added.

        An oracle rounds once, and a kernel's Tanh or Exp has an error of a few units even on whole numbers. With
        `unsigned`, the sign of a zero does not count: a kernel of the rewritten model drops it. With `approximate`, the
        error of approximations is accepted.
        """
        self._runnable, self._limits = runnable, limits
        self._kernels, self._unsigned, self._approximate = kernels, unsigned, approximate
        self.coarse = 0
        """The number of inputs without a better bound."""

    @functools.cached_property
    def _rounding(self) -> Rounding:
        """The model that runs node by node, which is prepared only if outputs differ: most do not."""
        return Rounding(self._runnable, self._limits, approximate=self._approximate)

    def __call__(
        self, feeds: Feeds, outputs: Sequence[Any], enough: Enough, inexact: Collection[str] = ()
    ) -> Sequence[Bound]:
        """Return the bound of each output; `enough` and `inexact` as for `Rounding.bounds`."""

        def added(bounds: Sequence[Bound]) -> Sequence[Bound]:
            if self._unsigned:
                bounds = [replace(bound, unsigned=True) for bound in bounds]
            if self._kernels:
                return bounds
            return [with_kernels(bound, value) for bound, value in zip(bounds, outputs, strict=True)]

        try:
            return added(self._rounding.bounds(feeds, outputs, inexact, lambda found: enough(added(found))))
        except RejectedError:
            self.coarse += 1
            return self._rounding.coarse(feeds, outputs)
