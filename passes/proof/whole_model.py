"""Compare two models as wholes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.passes.analysis.scopes import Shape
from opshift.passes.base.arguments import Progress
from opshift.passes.base.effort import Allowance
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Check, Counterexample, Coverage, Verdict
from opshift.passes.proof.comparison import Comparison, Reference, sentence
from opshift.passes.proof.coverage import CoverageCounter
from opshift.passes.proof.differences import Diagnosis, DifferenceFinder
from opshift.passes.proof.equality import differs
from opshift.passes.proof.executors import Executors
from opshift.passes.proof.inputs import generator, user_inputs
from opshift.passes.proof.inputs.generator import UntestableError
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import as_fixed
from opshift.passes.proof.inputs.trials import Trials
from opshift.passes.proof.inputs.value_classes import counted
from opshift.passes.proof.kernel_drift import KernelDrift
from opshift.passes.proof.model_variants import optional_inputs, same, weights, without_initializers, without_outputs
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.randomness import random_outputs, training_inputs
from opshift.passes.proof.repro import Reproduction
from opshift.passes.proof.signature import interface_difference
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.proof.undefined_behavior import UndefinedFilter
from opshift.passes.proof.whole_inputs import WholeInputs
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind, Runnable

SAME = "the two models are the same, byte for byte"
"""The reason of a comparison that runs no model."""

_LEAN = 2**30  # bytes of weights from which on one session is open at a time


@dataclass(frozen=True)
class WholeModels:
    """Two models that are compared as wholes.

    Attributes:
        shapes: shapes of inputs that the user fixed, by name.
        inputs: input values of the user.
        pairs: the rewritten nodes.
        exact: outputs must be equal bit for bit.
        drift: with `exact`, ignore differences between onnxruntime's own kernels at two opsets.
        by_oracle: operators whose numpy oracle is the reference.
        shown: writes a difference to files.
        defaults: inputs with an initializer, which are drawn too in a second round.
        off: inputs that are set to false, to switch off training.
    """

    before: Runnable
    after: Runnable
    shapes: Mapping[str, Shape]
    inputs: Any
    seed: int
    pairs: Sequence[Pair]
    exact: bool
    drift: bool
    by_oracle: frozenset[str]
    limits: Limits
    allowance: Allowance
    shown: Reproduction
    progress: Progress
    defaults: bool = True
    off: tuple[str, ...] = ()

    def check(self) -> Check:
        """Compare the models.

        Raises:
            UsageError: the shapes or inputs of the user do not fit.
            RejectedError: onnxruntime exceeded the limits.
        """
        if same(self.before, self.after):
            self._fit()
            return _check(Verdict.EQUAL, SAME)
        mismatch = interface_difference(self.before.proto, self.after.proto)
        if mismatch:
            return _check(Verdict.DIFFERENT, mismatch)
        if self._random:
            return self._in_inference() or self._but_for_random()
        try:
            found = generator.specs(self.before.proto.graph)
        except UntestableError as error:
            return _check(Verdict.UNCHECKED, str(error))
        specs = self._shaped(found)
        if not all(spec.element_type for spec in specs):
            return _check(Verdict.UNCHECKED, "the model does not declare the type of each input")
        try:
            specs, fixed = as_fixed(specs, generator.specs(self.after.proto.graph))
        except ValueError as error:
            return _check(Verdict.DIFFERENT, f"the rewritten model does not fit: {error}")
        return dataclasses.replace(self._checked(specs), shapes=fixed)

    def _fit(self) -> None:
        """Raise UsageError if the user's shapes or inputs do not fit the model, in case none are drawn."""
        if not self.shapes and self.inputs is None:
            return
        with contextlib.suppress(UntestableError):
            specs = self._shaped(generator.specs(self.before.proto.graph))
            if self.inputs is not None:
                user_inputs.of(self.inputs, specs)

    def _shaped(self, found: Sequence[Spec]) -> Sequence[Spec]:
        try:
            return generator.with_shapes(found, self.shapes)
        except ValueError as error:
            raise UsageError(f"The input shapes do not fit the model: {error}.") from error

    def _checked(self, specs: Sequence[Spec]) -> Check:
        """Compare the models on inputs with these specs."""
        try:
            reference = self._executors.reference(self.before, self.after)
        except RejectedError as error:
            return _check(Verdict.UNCHECKED, f"onnxruntime does not load the original: {error}")
        return self._compared(specs, reference)

    def _in_inference(self) -> Check | None:
        """Compare the models with training switched off, if inputs can do that; None otherwise."""
        user_inputs = {} if self.inputs is None else self.inputs
        if self.off or not isinstance(user_inputs, Mapping):
            return None
        modes = tuple(name for name in training_inputs(self.before.proto) if name not in user_inputs)
        if not modes:
            return None
        shapes = {value.name: value.type.tensor_type.shape.dim for value in self.before.proto.graph.input}
        off = {name: np.zeros([max(1, dim.dim_value) for dim in shapes[name]], np.bool_) for name in modes}
        check = dataclasses.replace(self, off=modes, inputs={**user_inputs, **off}).check()
        note = f"compared where {', '.join(modes)} is false, because training mode is random"
        return dataclasses.replace(check, reason=sentence(check.reason, note), classes={**check.classes, "training": 0})

    def _but_for_random(self) -> Check:
        """Compare all outputs except random ones."""
        names = ", ".join(self._random)
        if len(self._random) == len(self.before.proto.graph.output):
            return _check(Verdict.UNCHECKED, f"all outputs are random ({names})")
        before, after = (without_outputs(one, self._random) for one in (self.before, self.after))
        check = dataclasses.replace(self, before=before, after=after).check()
        return dataclasses.replace(
            check,
            reason=sentence(check.reason, f"not compared, since they are random: {names}"),
            classes={**check.classes, "random outputs": 0},
        )

    @functools.cached_property
    def _random(self) -> tuple[str, ...]:
        return random_outputs(self.before.proto, self.off)

    @functools.cached_property
    def _executors(self) -> Executors:
        lean = weights(self.before) >= _LEAN
        return Executors(self.pairs, self.limits, self.allowance, self.exact, self.drift, self.by_oracle, lean)

    @functools.cached_property
    def _finder(self) -> DifferenceFinder:
        return DifferenceFinder(self.before, self.after, self._executors, self.shown)

    def _compared(self, specs: Sequence[Spec], reference: Reference) -> Check:
        drawn = WholeInputs(
            self.before, self.after, self.pairs, self.shapes, self.inputs, self.seed, self.allowance, self.limits
        )
        trials = drawn.trials(specs, reference)
        count = len(trials.accepted)
        self.progress("whole", 0, 2 * count)
        if not count:
            reason = f"the original ran on none of {trials.tried} inputs: {trials.rejection}"
            return _check(Verdict.UNCHECKED, reason)
        comparison: Comparison | None = None
        covered = CoverageCounter(specs)

        def check(verdict: Verdict, reason: str, shown: Counterexample | None = None) -> Check:
            tried = comparison.decided(trials.accepted) if comparison else [feeds for feeds, _ in trials.accepted]
            classes = dict(counted(tried, specs))
            return Check("", "", verdict, reason, reference.executor.name, len(tried), shown, classes, covered.total())

        if not _repeats(reference, trials.accepted[0]):
            return check(Verdict.UNCHECKED, "the original returns different outputs in each run")
        done = iter(range(1, 2 * count + 1))
        excluded = UndefinedFilter(self.before, self.pairs, self.limits, reference.executor)
        try:
            if self.by_oracle:
                self._executors.load(self.before, self.after)
            rewritten, note = self._executors.rewritten(self.after, reference)
            comparison = Comparison(reference, rewritten, excluded, covered=covered, allowance=self.allowance)
            mismatch = comparison.run(trials.accepted, lambda: self.progress("whole", next(done), 2 * count))
        except RejectedError as error:
            if error.why in (RejectionKind.MISSING_KERNEL, RejectionKind.TOO_NEW, RejectionKind.LIMIT):
                return check(Verdict.UNCHECKED, f"the rewritten model: {error}")
            return check(Verdict.DIFFERENT, f"onnxruntime does not load the rewritten model: {error}")
        self.progress("whole", 2 * count, 2 * count)
        notes = self._notes(comparison, note, excluded)
        if mismatch is not None:
            reason, shown = self._finder.diagnose(comparison, mismatch, specs)
            return check(Verdict.DIFFERENT, sentence(reason, *notes), shown)
        if not comparison.compared(trials.accepted) or covered.total().is_void:
            return check(Verdict.UNCHECKED, sentence("the original's result is undefined for every input", *notes))
        return check(*self._looked_further(comparison, trials, notes))

    def _notes(self, comparison: Comparison, note: str, excluded: UndefinedFilter) -> tuple[str, ...]:
        """Return the notes on the verdict."""
        bounds = comparison.reference.bounds
        departs = f"on {len(comparison.near)} inputs or more floats differ by rounding" if comparison.near else ""
        coarse = bounds.coarse if isinstance(bounds, Bounds | KernelDrift) else 0
        estimated = f"on {coarse} of them rounding was estimated by 8 units of the largest value" if coarse else ""
        lost = sorted(optional_inputs(self.before.proto) - optional_inputs(self.after.proto))
        kept = f"{', '.join(lost)} had a default, and is no longer an input" if lost else ""
        rewritten = note and f"the rewritten model's {note}"
        return comparison.reference.note, rewritten, excluded.note(), comparison.note, departs, estimated, kept

    def _looked_further(
        self, comparison: Comparison, trials: Trials, notes: tuple[str, ...]
    ) -> tuple[Verdict, str, Counterexample | None]:
        """Return the verdict on two models with equal outputs, after further checks inside them."""
        fatal = [*trials.fatal, *(f"the rewritten model: {error}" for _, error in comparison.beyond)]
        left_out = f"an input was skipped: {fatal[-1]}" if fatal else ""
        decided = len(comparison.decided(trials.accepted))
        inputs = [feeds for feeds, _ in trials.accepted[: max(1, decided)]]
        further: tuple[Callable[[], Diagnosis], ...] = (
            lambda: self._finder.masked_difference(comparison.near),
            lambda: self._finder.compare_branches(inputs),
            self._overridden,
        )
        for find in () if self._executors.lean or self.by_oracle else further:
            look = find()
            if look.shown is not None:
                return Verdict.DIFFERENT, sentence(look.note, *notes), look.shown
            if look.undecided:
                return Verdict.UNCHECKED, sentence(look.note, *notes), None
            notes = (*notes, look.note)
        return Verdict.EQUAL, sentence(*notes, left_out), None

    def _overridden(self) -> Diagnosis:
        """Compare again without the initializers of inputs, which a caller may override.

        Below ir_version 4, every initializer is an input, and callers are not expected to override them.
        """
        names = optional_inputs(self.before.proto) & optional_inputs(self.after.proto)
        if not names or not self.defaults:
            return Diagnosis("")
        check = dataclasses.replace(
            self,
            before=without_initializers(self.before, names),
            after=without_initializers(self.after, names),
            inputs=None,
            defaults=False,
            progress=lambda stage, done, total: None,
        ).check()
        if check.verdict is Verdict.EQUAL:
            return Diagnosis("")
        note = f"where inputs that have defaults are given: {check.reason}"
        different = check.verdict is Verdict.DIFFERENT
        return Diagnosis(note, check.counterexample or Counterexample({}, "", None, None) if different else None)


def _check(verdict: Verdict, reason: str) -> Check:
    """Return a verdict on models that were not run."""
    return Check("", "", verdict, reason, "", 0, None, {}, Coverage())


def _repeats(reference: Reference, trial: tuple[Feeds, Any]) -> bool:
    """Return whether the original returns the same outputs again on this input."""
    feeds, outputs = trial
    try:
        return differs(list(outputs), list(reference.plain(feeds))) is None
    except RejectedError as error:
        if error.why is RejectionKind.LIMIT:
            raise
        return False
