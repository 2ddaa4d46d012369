"""How far rounding alone takes the outputs of a model, as a bound for another order of the same arithmetic.

The model runs node by node in the next wider type (float as double, float16 and bfloat16 as float). What only moves,
selects and compares gets no bound at all, nor does arithmetic on small whole numbers, which is exact in any order. For
the rest the wide run is repeated with every value that is read perturbed by one unit of rounding, up or down (Monte
Carlo arithmetic, Parker 1997): another order of summation is such a perturbation, in long sums of more than one unit.
The bound is 8 times the largest distance from the wide run, of the narrow run and of the perturbed ones, and at least 8
times half a unit of the largest result: where there are few results, the narrow run may happen to be right. The steps
are in `rounding/`.
"""

from __future__ import annotations

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
from opshift.passes.proof.rounding.perturbation import RUNS, Perturbation
from opshift.passes.proof.rounding.taken_paths import Path, Paths
from opshift.passes.proof.rounding.values import is_integer
from opshift.passes.proof.rounding.wide_run import WideModel
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable

_MORE_RUNS = 16
_KEPT = 8  # ways through a model


class Rounding:
    """The bounds of a model's outputs, input by input."""

    def __init__(self, source: Runnable, limits: Limits, *, approximate: bool = False) -> None:
        """Keep the model; nothing is run yet. With `approximate`, operators that have an approximation may be off."""
        self._source, self._limits = source, limits
        self._model = WideModel(source, limits)
        self._approximate = approximate
        self._paths = Paths(self._model.plain)
        self._by_path: dict[Path, Rounding] = {}

    def bounds(
        self, feeds: Feeds, outputs: Sequence[Any], inexact: Collection[str] = (), enough: Enough = lambda found: False
    ) -> tuple[Bound, ...]:
        """Return the bound of each output, given the outputs that the narrow model has on this input.

        `inexact` names values that other kernels round, even where this model's kernels are exact. Bounds without the
        perturbed runs, which only widen them, are returned where they are `enough`.

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
            return self._of(outputs, runs, first.exact, marked)

        runs: list[Mapping[str, Any]] = [first.values]
        unperturbed = found(runs)
        if all(first.exact[name] for name in model.outputs) or enough(unperturbed):
            return unperturbed
        overflows = overflowing(model.nodes, plain, marked, first.firm)
        ordinary = Perturbation(first, plain, marked, overflows, approximate=self._approximate)

        def perturbed(turn: int, seed: int) -> Mapping[str, Any]:
            """Return the outputs of a perturbed run alone, since the values on the way take much room."""
            values = model.run(feeds, plain, inexact, replace(ordinary, turn=turn, seed=seed)).values
            return {name: values[name] for name in model.outputs}

        runs += [perturbed(turn, 0) for turn in range(RUNS)]
        bounds = found(runs)
        if not enough(bounds):
            # What rounds the few elements of one size may have been small by chance, and numbers that cancel each
            # other may have been moved alike.
            turns = (2, 0, 2, 0, 2, 0, RUNS - 1, 0)
            runs += [perturbed(turns[seed % 8], seed) for seed in range(1, _MORE_RUNS)]
            bounds = found(runs)
        if enough(bounds):
            return bounds
        return self._inside(feeds, plain, outputs, inexact, enough) or bounds

    def _inside(
        self, feeds: Feeds, plain: Mapping[str, Any], outputs: Sequence[Any], inexact: Collection[str], enough: Enough
    ) -> tuple[Bound, ...]:
        """Return the bounds with all iterations in place of Loops and Scans, nothing where there are none.

        What inner nodes compute is perturbed as well, which takes as much longer as there are iterations.
        """
        if not (taken := self._paths.iterations(plain)):
            return ()
        try:
            return self._along(taken, plain).bounds(feeds, outputs, inexact, enough)
        except RejectedError:  # no kernel puts results of an element type together, say
            return ()

    def _along(self, taken: Path, values: Mapping[str, Any]) -> Rounding:
        """Return the same model with what its Ifs, Loops and Scans run in place of these."""
        if taken not in self._by_path:
            if len(self._by_path) == _KEPT:
                self._by_path.clear()
            source = replace(self._source, proto=self._paths.model(taken, values), path=None)
            self._by_path[taken] = Rounding(source, self._limits, approximate=self._approximate)
        return self._by_path[taken]

    def _of(
        self,
        outputs: Sequence[Any],
        runs: Sequence[Mapping[str, Any]],
        exact: Mapping[str, bool],
        marked: Mapping[str, Bound],
    ) -> tuple[Bound, ...]:
        """Return the bound of each output, by the unperturbed run and what others there are."""
        normalizes = any(Trait.NORMALIZES in float_traits(node.node) for node in self._model.nodes)
        found = []
        for name, value in zip(self._model.outputs, outputs, strict=True):
            mark = marked[name]
            made = [run[name] for run in runs]
            if name in self._model.quantized:
                bound = bound_of_steps(value, made)
            elif name in self._model.converted and is_integer(value):
                bound = bound_of_steps(value, made, FACTOR)
            else:
                bound = bound_of_runs(value, made)
            if name not in self._model.stepped:  # a difference of two steps goes both ways
                bound = replace(bound, ends=None)
            bound = replace(bound, slack=max(bound.slack, rounded(value).slack / 2))
            bound = bound.spread() if normalizes else bound
            if mark.lost:
                found.append(mark.within(nothing_counts(value)))
            else:
                found.append(mark if exact[name] else mark.within(bound))
        return tuple(found)

    def coarse(self, feeds: Feeds, outputs: Sequence[Any]) -> list[Bound]:
        """Return 8 units of the largest value of each output, where the values between are not known.

        What rounded angles cost is added (`Traits.rounds_angles`).
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
            like = value.astype(np.float32) if name in model.converted and is_integer(value) else value
            bound = marked[name].within(rounded(like, in_float=in_float).plus(lost))
            found.append(replace(bound, estimated=half_the_digits(like)))
        return found


def _length_times_sum(rows: Any) -> float:
    """Return the length of the rows behind the first axis, times the largest sum of one; 0 where they are not known."""
    if not isinstance(rows, np.ndarray) or not rows.size:
        return 0.0
    sizes = np.abs(rows.astype(np.float64)).reshape(len(rows), -1)
    return float(sizes.shape[1] * np.where(np.isfinite(sizes), sizes, 0.0).sum(1).max())


class Bounds:
    """The bounds of a model's outputs; 8 units of the largest value where it cannot be run node by node."""

    def __init__(
        self,
        source: Runnable,
        limits: Limits,
        *,
        kernels: bool = True,
        unsigned: bool = False,
        approximate: bool = False,
    ) -> None:
        """Keep the model; without `kernels`, its outputs are an oracle's, and 8 units of the largest are added.

        An oracle rounds once, and a kernel's Tanh or Exp is a few units off on whole numbers too. With `unsigned`, the
        sign of a zero does not count: a kernel of the rewritten model drops it. With `approximate`, operators that have
        an approximation may be off by as much as that.
        """
        self._unsigned = unsigned
        self._rounding = Rounding(source, limits, approximate=approximate)
        self._kernels = kernels
        self.coarse = 0
        """On how many inputs nothing better was known."""

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
