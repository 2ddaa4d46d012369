"""Locate a difference of two models: the first node, an untaken branch, a small input."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from opshift.opsets.registry.node_traits import traits_of
from opshift.passes.base.report import Counterexample
from opshift.passes.proof import branch_coverage
from opshift.passes.proof.bisect import Cut, Trace, first_differences, unoptimised_agree
from opshift.passes.proof.comparison import Comparison, Mismatch, sentence
from opshift.passes.proof.executors import Executors
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.repro import Reproduction
from opshift.passes.runtime import ort_opsets
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable

_STEPS = 400  # maximum number of attempts at a smaller input


@dataclass(frozen=True)
class Diagnosis:
    """The result of a further comparison of two models, with the input on which they differ, if any."""

    note: str
    shown: Counterexample | None = None
    undecided: bool = False


@dataclass(frozen=True)
class DifferenceFinder:
    """Searches for differences of two models, and for the node of a known one."""

    before: Runnable
    after: Runnable
    executors: Executors
    shown: Reproduction

    def masked_difference(self, near: Sequence[Feeds]) -> Diagnosis:
        """Search for a node whose difference exceeds rounding although the outputs' difference does not."""
        if not any(traits_of(node).decides for node in self.before.proto.graph.node):
            return Diagnosis("")
        for place, feeds in enumerate(near):
            if place and self.executors.allowance.left() < 0:
                break
            found = self._cut(feeds, optimised=False, decisions=True)
            if found is not None:
                return self._at(found, "the outputs differ by no more than rounding")
        return Diagnosis("")

    def diagnose(self, comparison: Comparison, mismatch: Mismatch, specs: Sequence[Spec]) -> tuple[str, Counterexample]:
        """Return the reason for a difference: the node, and a small input."""
        if self.executors.lean:
            return mismatch.reason, mismatch.counterexample(command=self.shown.command)
        if not self.executors.by_oracle:
            cut = self._cut(mismatch.feeds, optimised=mismatch.optimised)
            if cut is not None:
                look = self._at(cut, mismatch.reason)
                assert look.shown is not None
                return look.note, look.shown
        found = comparison.shrunk(mismatch, specs, _STEPS)
        return found.reason, found.counterexample(command=self.shown(self.before, self.after, found))

    def compare_branches(self, inputs: Sequence[Feeds]) -> Diagnosis:
        """Force every untaken branch of an If, enter Loops that no input entered, and compare."""
        notes = []
        asked = self.before, self.after, inputs, self.executors.limits
        unseen = branch_coverage.branches_not_taken(*asked), branch_coverage.loops_not_entered(*asked)
        for branch in itertools.chain(*unseen):  # each is a copy of both models, created on demand
            look = self._forced(branch, inputs)
            if look.shown is not None or look.undecided:
                return look
            notes.append(look.note)
        return Diagnosis(sentence(*notes))

    def _forced(self, branch: branch_coverage.Branch, inputs: Sequence[Feeds]) -> Diagnosis:
        """Compare a forced branch."""
        unseen = f"no input {branch.took} {branch.name}"
        if branch.rewritten is None:
            return Diagnosis(unseen)
        try:
            comparison = self.executors.compare(branch.original, branch.rewritten)
            results = zip(inputs, comparison.reference.executor.run_all(inputs, False), strict=False)
            accepted = [(one, found) for one, found in results if not isinstance(found, RejectedError)]
            mismatch = comparison.run(accepted)
        except RejectedError as error:
            return Diagnosis(f"{unseen}, and by force: {error}")
        if mismatch is None:
            equal = f"{branch.taken} by force it is equal" if branch.runs else "no difference was seen by force"
            return Diagnosis(f"{unseen}; {equal if accepted else 'none can by force'}")
        if not branch.sure:
            # The branches may have been swapped together with an inverted condition.
            why = f"{unseen}, and {branch.taken} by force the two differ: {mismatch.reason}"
            return Diagnosis(why, undecided=True)
        mismatch = comparison.shrunk(mismatch, generator.specs(self.before.proto.graph), _STEPS)
        example = mismatch.counterexample(branch.name, self.shown(branch.original, branch.rewritten, mismatch))
        forced = f"which no input {branch.took} and was {branch.taken} by force"
        return Diagnosis(f"{branch.name}, {forced}: {mismatch.reason}", example)

    def _cut(self, feeds: Feeds, *, optimised: bool, decisions: bool = False) -> tuple[Cut, Mismatch] | None:
        """Return the first differing part on an input, and the difference there; see `first_differences`."""
        found: list[tuple[Cut, Mismatch]] = []

        def differs(cut: Cut) -> bool:
            difference = self.executors.compare(cut.original, cut.rewritten).on(cut.feeds, optimised)
            if difference is not None:
                found.append((cut, Mismatch(cut.feeds, difference, optimised)))
            return difference is not None

        try:
            if optimised:
                best = unoptimised_agree(*self._traces, feeds, differs)
                return next((each for each in found if each[0] is best), None)
            next(first_differences(*self._traces, feeds, differs, decisions=decisions), None)
        except RejectedError:
            return None
        return found[0] if found else None

    @functools.cached_property
    def _traces(self) -> tuple[Trace, Trace]:
        sources = (ort_opsets.fit(self.before)[0], ort_opsets.fit(self.after)[0])
        return Trace(sources[0], self.executors.limits), Trace(sources[1], self.executors.limits)

    def _at(self, cut: tuple[Cut, Mismatch], reason: str) -> Diagnosis:
        """Return the diagnosis of a differing part, on a shrunk input."""
        place, found = cut
        where = f"{place.operator} at {place.node}"
        specs = generator.specs(place.original.proto.graph)
        found = self.executors.compare(place.original, place.rewritten).shrunk(found, specs, _STEPS)
        example = found.counterexample(where, self.shown(place.original, place.rewritten, found))
        return Diagnosis(f"{reason}; the first value that differs is made by {where}: {found.reason}", example)
