"""What planning finds, in the order of the nodes: steps, refusals, warnings, and how many nodes stay."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from opshift.passes.base.results import Caution, Code, Refusal, Step
from opshift.passes.rewrite.edits import Change, Decision, Replace


class Mark(NamedTuple):
    """How much a ledger held at some time."""

    steps: int
    refusals: int
    cautions: int
    kept: int


class Ledger:
    """The record of one plan."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.steps: list[Step] = []
        self.refusals: list[Refusal] = []
        self.cautions: list[Caution] = []
        self.kept = 0

    def refuse(self, code: Code, where: str, operator: str, reason: str, hint: str = "") -> None:
        """Note that a node, or a function, cannot be converted."""
        self.refusals.append(Refusal(code, where, operator, reason, hint))

    def mark(self) -> Mark:
        """Return how much there is now."""
        return Mark(len(self.steps), len(self.refusals), len(self.cautions), self.kept)

    def refused_since(self, mark: Mark) -> bool:
        """Whether anything was refused since."""
        return len(self.refusals) > mark.refusals

    def since(self, mark: Mark, change: Change | None) -> Decision:
        """Return what was noted of one node, whose change this is, to be repeated for nodes like it."""
        cautions = tuple(self.cautions[mark.cautions :])
        return Decision(change, tuple(self.steps[mark.steps :]), self.kept - mark.kept, cautions)

    def undo(self, mark: Mark) -> None:
        """Forget what was noted since."""
        del self.steps[mark.steps :], self.refusals[mark.refusals :], self.cautions[mark.cautions :]
        self.kept = mark.kept

    def repeat(self, decision: Decision, where: str) -> Change | None:
        """Note of another node what was decided of one like it, and return its change."""
        self.steps += [step.at(where) for step in decision.steps]
        self.kept += decision.kept
        self.cautions += [dataclasses.replace(one, node=where) for one in decision.cautions]
        change = decision.change
        return change.at(where) if isinstance(change, Replace) else change
