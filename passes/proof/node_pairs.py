"""Compare each lowered node with its original, both as separate models.

Random inputs of a whole model rarely reach the edge cases of its inner nodes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from opshift.passes.analysis.model_summary import summary
from opshift.passes.analysis.scopes import versions
from opshift.passes.base.arguments import Progress
from opshift.passes.base.effort import LEAST_OF_NODE, LEAST_OF_REPEATED, Allowance
from opshift.passes.base.errors import OpshiftError, printable
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Check, Counterexample, Coverage, Verdict
from opshift.passes.proof.canonical import canonical, without_weights
from opshift.passes.proof.comparison import Comparison, Executor, Mismatch, Reference, sentence
from opshift.passes.proof.coverage import CoverageCounter
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.inputs.generator import Draft, Shape, UntestableError
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import hints, repairer
from opshift.passes.proof.inputs.trials import Budget, Trials, Values, find_trials
from opshift.passes.proof.inputs.value_classes import counted, summed
from opshift.passes.proof.kernel_drift import KernelDrift
from opshift.passes.proof.kernel_faults import miscomputed
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.pair_executors import (
    ORACLE,
    OracleExecutor,
    ShapeCheckedRunner,
    executor_of,
    undefined_outputs,
)
from opshift.passes.proof.pair_inputs import draft_of, type_names, typed, values_of
from opshift.passes.proof.randomness import random_outputs
from opshift.passes.proof.signature import interface_difference
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.runtime import ort_models, ort_opsets, ort_process
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Runner

Shown = Callable[[onnx.ModelProto, onnx.ModelProto, Mismatch, bool], str]
"""Receives two small differing models, and whether they must be bit-identical; returns a command that reproduces it."""

_TYPES = 5  # maximum number of element types that are tried for an unknown one

ENOUGH = 5
"""The number of comparisons with a difference after which no further nodes are compared."""


def compare_pairs(
    pairs: Sequence[Pair],
    *,
    seed: int = 0,
    semantics: str = "runtime",
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    allowance: Allowance | None = None,
    progress: Progress | None = None,
    shown: Shown = lambda original, rewritten, mismatch, exact: "",
) -> tuple[Check, ...]:
    """Compare each pair; pairs that differ only in names are compared once and share the verdict.

    The first pair gets a larger share of the effort than others that differ only in their weights. Distinct pairs of
    one operator get decreasing shares: the n-th gets an n-th. `allowance` is the effort and its end; None: normal
    effort. After ENOUGH comparisons with a difference, the other nodes are not compared.

    Raises:
        UsageError: onnxruntime is not installed.
    """
    ort_models.runtime()
    allowance = allowance or Allowance(ort_process.seconds)
    known: dict[tuple[object, ...], tuple[Check, dict[str, str]]] = {}
    kinds = set[tuple[bytes, bytes]]()
    alike = Counter[str]()
    checks, different = [], 0
    for done, pair in enumerate(pairs, 1):
        renamed, names = canonical(pair.original, pair.rewritten)
        asked = pair.exclude_nan, pair.finite, pair.whole, pair.exact, pair.oracle is None, pair.adversarial is None
        key = (*renamed, pair.operator, *asked, pair.approximate)
        if key not in known and different == ENOUGH:
            reason = f"it was not compared, since {ENOUGH} other nodes differ"
            checks.append(Check(pair.node, pair.operator, Verdict.UNCHECKED, reason, "", 0))
            continue
        if key not in known:
            form = without_weights(renamed)
            alike[pair.operator] += form not in kinds
            repeated = form in kinds
            own = allowance.part(LEAST_OF_REPEATED if repeated else LEAST_OF_NODE, 1 / alike[pair.operator])
            kinds.add(form)
            comparison = PairComparison(pair, seed, semantics, limits, own, shown, repeated)
            known[key] = comparison.check(), {new: old for old, new in names.items()}
            different += known[key][0].verdict is Verdict.DIFFERENT
        check, originals = known[key]
        checks.append(_shared(check, pair, {originals[new]: old for old, new in names.items() if new in originals}))
        if progress:
            progress("nodes", done, len(pairs))
    return tuple(checks)


@dataclass(frozen=True)
class PairComparison:
    """The comparison of one pair; a `repeated` one differs from an earlier one only in its weights."""

    pair: Pair
    seed: int
    semantics: str
    limits: Limits
    allowance: Allowance
    shown: Shown
    repeated: bool = False

    def check(self) -> Check:
        """Compare the pair, for a few element types if they are unknown."""
        pair = self.pair
        if random_outputs(pair.original):
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, "it draws random numbers", "", 0)
        equal: list[Check] = []
        unserved: list[str] = []
        failure = "onnxruntime cannot be fed any element type that the operator takes"
        try:
            for types in generator.guesses(pair.original, versions(pair.rewritten)[""]):
                original, rewritten = typed(pair.original, types), typed(pair.rewritten, types)
                check = self._typed(dataclasses.replace(pair, original=original, rewritten=rewritten), bool(equal))
                if types and _MISSING in check.reason:
                    unserved.append(f"{type_names(types)}: {check.reason}")
                elif check.verdict is Verdict.DIFFERENT:
                    return check
                elif check.verdict is Verdict.UNCHECKED:
                    failure = check.reason
                else:
                    equal.append(check)
                if len(equal) == _TYPES:
                    break
        except (UntestableError, RejectedError) as error:
            failure = str(error)
        except MemoryError as error:
            failure = out_of_memory("the node", error)
        except OpshiftError:
            raise
        except Exception as error:
            failure = failed(error)
        if not equal:
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, "; ".join(unserved) or failure, "", 0)
        return Check(
            pair.node,
            pair.operator,
            Verdict.EQUAL,
            "; ".join(dict.fromkeys(filter(None, (*(check.reason for check in equal), *unserved)))),
            " and ".join(dict.fromkeys(check.judge for check in equal)),
            sum(check.inputs for check in equal),
            None,
            summed(check.classes for check in equal),
            sum((check.coverage for check in equal), Coverage()),
        )

    def _typed(self, pair: Pair, again: bool) -> Check:
        """Compare a pair whose element types are all set; `again` uses fewer inputs after success with other types.

        Raises:
            UntestableError: no inputs can be generated.
        """

        def unchecked(reason: str) -> Check:
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, reason, "", 0)

        mismatch = interface_difference(pair.original, pair.rewritten)
        if mismatch:
            return Check(pair.node, pair.operator, Verdict.DIFFERENT, mismatch, "", 0)
        try:
            reference = self._reference(pair)
        except RejectedError as error:
            return unchecked(f"onnxruntime does not run the original: {error}")
        draft = draft_of(pair)
        most = math.inf if pair.longest is None else pair.longest
        long = [
            sizes
            for sizes in generator.long_sizes(draft.specs)
            if all(dim <= most for shape in sizes.values() for dim in shape)
        ]
        complaints: list[str] = []
        values = values_of(draft, pair, np.random.default_rng(self.seed), complaints)
        long, budget = ([] if again or self.repeated else long), self._budget(again=again)
        trials = self._trials(pair, draft, values, reference, long, budget)
        ran = isinstance(reference.executor, ShapeCheckedRunner)
        if (
            not trials.accepted
            and not trials.fatal
            and pair.oracle
            and isinstance(reference.executor, ShapeCheckedRunner)
        ):
            # Mod-28 of floats with fmod 0 loads as Mod-13, but then runs on no input (onnxruntime 1.31.1).
            note = f"onnxruntime runs the original on no input: {trials.rejection}"
            reference = Reference(
                OracleExecutor(pair, pair.oracle, self.limits), reference.outputs, note, reference.bounds
            )
            trials = self._trials(pair, draft, values, reference, long, budget)
        if not trials.accepted:
            return unchecked(f"the original ran on none of {trials.tried} inputs: {trials.rejection}")
        return self._compared(pair, reference, draft.specs, trials, complaints, ran=ran)

    def _compared(
        self,
        pair: Pair,
        reference: Reference,
        specs: Sequence[Spec],
        trials: Trials,
        complaints: Sequence[str],
        *,
        ran: bool,
    ) -> Check:
        """Compare a pair on inputs that the original accepts; `ran`: it loads in onnxruntime."""
        covered, count = CoverageCounter(), len(trials.accepted)

        def check(
            verdict: Verdict,
            reason: str,
            shown: Counterexample | None = None,
            classes: Mapping[str, int] | None = None,
        ) -> Check:
            name, total = reference.executor.name if count else "", covered.total()
            return Check(pair.node, pair.operator, verdict, reason, name, count, shown, dict(classes or {}), total)

        try:
            # If the original ran in onnxruntime, the replacement must run too.
            trusted = isinstance(reference.executor, ShapeCheckedRunner)
            rewritten, relabelled = self._executor(pair.rewritten, trials.accepted[0][0], kernels=trusted)
            undefined = functools.partial(undefined_outputs, pair, self.limits)
            comparison = Comparison(reference, rewritten, undefined, covered=covered, allowance=self.allowance)
            mismatch = comparison.run(trials.accepted)
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.TOO_NEW):
                return check(Verdict.UNCHECKED, f"the replacement: {error}")
            if error.why is RejectionKind.MISSING_KERNEL:
                return check(Verdict.UNCHECKED, f"{_MISSING}: {error}")
            return check(Verdict.DIFFERENT, f"onnxruntime does not load the replacement: {error}")
        relabelled = relabelled and f"the replacement's {relabelled}"
        decided = comparison.decided(trials.accepted)
        count, classes = len(decided), counted(decided, specs)
        notes = sentence(reference.note, relabelled, comparison.note, *complaints[:1])
        if mismatch is None and (not comparison.compared(trials.accepted) or covered.total().is_void):
            return check(Verdict.UNCHECKED, sentence("no input has a meaning", notes))
        if mismatch is None:
            return check(Verdict.EQUAL, notes, None, classes)
        if ran and reference.executor.name == ORACLE and isinstance(mismatch.difference.actual, str):
            # onnxruntime loads the original, but runs neither of the two on the drawn inputs.
            return check(Verdict.UNCHECKED, sentence(mismatch.reason, notes))
        mismatch = comparison.shrunk(mismatch, specs, 400 if trials.largest < 100_000 else 40)
        command = self.shown(pair.original, pair.rewritten, mismatch, pair.exact)
        example = mismatch.counterexample(command=command)
        return check(Verdict.DIFFERENT, sentence(mismatch.reason, notes), example, classes)

    def _executor(self, rewritten: onnx.ModelProto, feeds: Feeds, *, kernels: bool) -> tuple[Executor, str]:
        """Return the executor of the replacement; `feeds` test whether its kernels run: GRU of double only loads.

        If the original did not run in onnxruntime, the replacement need not either.
        """
        way, note = executor_of(Runnable(rewritten), self.limits, kernels=kernels)
        if not kernels and isinstance(way, Runner):
            tried = ort_models.result_or_rejection(way.run, feeds, False)
            if isinstance(tried, RejectedError) and tried.why is RejectionKind.MISSING_KERNEL:
                way.close()
                way, note = Interpreter(Runnable(rewritten), self.limits), f"nodes were run one by one, since {tried}"
        if faults := miscomputed(rewritten):
            way.close()  # it was opened to check that it loads: running node by node does not detect invalid types
            return Interpreter(Runnable(rewritten), self.limits, frozenset(faults), strict=False), ""
        return way, note

    def _budget(self, *, again: bool) -> Budget:
        """Return the budget of a search: the shapes of an earlier pair need not be tried with all other weights."""
        shapes, inputs = (4, 12) if self.repeated else (100, 50 if again else 100)
        return Budget(shapes, inputs, elements=400_000, rejections=2000)

    def _trials(
        self,
        pair: Pair,
        draft: Draft,
        values: Values,
        reference: Reference,
        long: Sequence[Mapping[str, Shape]],
        budget: Budget,
    ) -> Trials:
        """Return inputs that the original accepts; if patterns of sizes find none, sizes are searched."""
        shapes = generator.sizes(draft.specs, whole=False)
        pace = self.allowance.pace(reference.opening)
        trials = find_trials(draft, values, reference.plain_all, shapes, lambda base: long, budget, pace=pace)
        if trials.accepted or trials.fatal:
            return trials
        # Patterns of sizes alone never combine a depth of one element with two values.
        known = hints(summary(pair.original))
        search, repair = Budget(shapes=20, inputs=50, elements=400_000, rejections=500), repairer(draft.specs, known)
        found = find_trials(draft, values, reference.plain_all, (), lambda base: (), search, repair, pace)
        return found if found.accepted else trials

    def _reference(self, pair: Pair) -> Reference:
        """Return the reference of a pair.

        Raises:
            RejectedError: onnxruntime does not load the original, and exceeded a limit or crashed.
        """
        outputs = tuple(value.name for value in pair.original.graph.output)
        original = Runnable(pair.original)
        bounds = (
            KernelDrift(original, Runnable(pair.rewritten), self.limits)
            if pair.exact
            else Bounds(original, self.limits, approximate=pair.approximate)
        )
        if self.semantics == "spec" and pair.oracle is not None:
            return Reference(OracleExecutor(pair, pair.oracle, self.limits), outputs, bounds=bounds)
        if pair.oracle is not None and miscomputed(pair.original):
            bounds = (
                bounds if pair.exact else Bounds(original, self.limits, kernels=False, approximate=pair.approximate)
            )
            return Reference(OracleExecutor(pair, pair.oracle, self.limits), outputs, MISCOMPUTED, bounds)
        try:
            runnable, note = ort_opsets.fit(Runnable(pair.original))
            runner = Runner(runnable, self.limits)
            opening = runner.open(optimised=False).opening
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                raise
            if pair.oracle is None:
                way, note = executor_of(original, self.limits)
                return Reference(way, outputs, note, bounds)
            note = f"onnxruntime does not run the original: {error}"
            if not pair.exact:
                bounds = Bounds(original, self.limits, kernels=False, approximate=pair.approximate)
            return Reference(OracleExecutor(pair, pair.oracle, self.limits), outputs, note, bounds)
        return Reference(
            ShapeCheckedRunner(pair, runner, self.limits),
            outputs,
            note and f"the original's {note}",
            bounds,
            opening=opening,
        )


MISCOMPUTED = "onnxruntime computes the operator wrongly here, or not at all, so its numpy oracle did"

_MISSING = "onnxruntime has no kernel for the replacement"


def out_of_memory(what: str, error: MemoryError) -> str:
    """Return the reason why there is no verdict; a MemoryError of Python itself has no text."""
    return f"opshift ran out of memory while it compared {what}" + (f" ({error})" if str(error) else "")


def failed(error: Exception) -> str:
    """Return the reason for a failed comparison: a model must not end the program."""
    return (
        f"opshift failed while it compared, please report this ({type(error).__name__}: {printable(str(error), 200)})"
    )


def _shared(check: Check, pair: Pair, names: Mapping[str, str]) -> Check:
    """Return the check of an equal pair as a check of this pair; `names` maps its names to this pair's."""
    shown = check.counterexample
    if shown is not None:
        values = {names.get(name, name): value for name, value in shown.inputs.items()}
        shown = dataclasses.replace(shown, inputs=values, output=names.get(shown.output, shown.output))
    return dataclasses.replace(check, node=pair.node, counterexample=shown)
