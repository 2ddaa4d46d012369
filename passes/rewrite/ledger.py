"""Record steps, refusals, warnings and the number of unchanged nodes during planning, in node order."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from opshift.passes.base.plan import Code, KernelWarning, Refusal, Step
from opshift.passes.rewrite.edits import Change, Decision, Replace


class Mark(NamedTuple):
    """The size of a ledger at some time."""

    steps: int
    refusals: int
    kernel_warnings: int
    kept: int


class Ledger:
    """The record of one plan."""

    def __init__(self) -> None:
        """Start with an empty record."""
        self.steps: list[Step] = []
        self.refusals: list[Refusal] = []
        self.kernel_warnings: list[KernelWarning] = []
        self.kept = 0

    def refuse(self, code: Code, where: str, operator: str, reason: str, hint: str = "") -> None:
        """Record that a node, or a function, cannot be converted."""
        self.refusals.append(Refusal(code, where, operator, reason, hint))

    def mark(self) -> Mark:
        """Return the current size."""
        return Mark(len(self.steps), len(self.refusals), len(self.kernel_warnings), self.kept)

    def refused_since(self, mark: Mark) -> bool:
        """Return whether anything was refused after a mark."""
        return len(self.refusals) > mark.refusals

    def since(self, mark: Mark, change: Change | None) -> Decision:
        """Return the records of one node after a mark, with its change, so that similar nodes can repeat them."""
        kernel_warnings = tuple(self.kernel_warnings[mark.kernel_warnings :])
        return Decision(change, tuple(self.steps[mark.steps :]), self.kept - mark.kept, kernel_warnings)

    def undo(self, mark: Mark) -> None:
        """Remove the records after a mark."""
        del self.steps[mark.steps :], self.refusals[mark.refusals :], self.kernel_warnings[mark.kernel_warnings :]
        self.kept = mark.kept

    def repeat(self, decision: Decision, where: str) -> Change | None:
        """Repeat the records of a similar node for another node, and return the change."""
        self.steps += [step.at(where) for step in decision.steps]
        self.kept += decision.kept
        self.kernel_warnings += [dataclasses.replace(one, node=where) for one in decision.kernel_warnings]
        change = decision.change
        return change.at(where) if isinstance(change, Replace) else change
