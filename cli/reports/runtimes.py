"""Describe the results of `where`: a row for each model and runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opshift.cli import wording
from opshift.cli.terminal import one_line
from opshift.passes.base.plan import Action

if TYPE_CHECKING:
    from opshift.passes.where import Fit, Where


@dataclass(frozen=True)
class Entry:
    """The result for one model: `found`, or an `error` (kind and message) with its exit status."""

    model: str
    status: int
    found: Where | None = None
    error: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON."""
        about = {"model": self.model, "status": self.status}
        return {**about, **self.found.to_json()} if self.found else {**about, "error": self.error}


KINDS = 3
"""The maximum number of rewrite groups in a row."""

NAMES = 8
"""The maximum number of operators in a row's replacement."""

COLUMNS = ("Target", "Outcome", "Opset", "Changes, or the first blocker")


@dataclass(frozen=True)
class TargetRow:
    """A row of the table: one model and one runtime; `level` is 0 for good, 1 for converted, 2 for bad."""

    model: str
    target: str
    outcome: str
    opset: str
    details: str
    level: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts under `COLUMNS`."""
        return self.target, self.outcome, self.opset, self.details


LEVELS = {"runs": 0, "converts": 1, "refused": 2}


def rows(entries: Iterable[Entry]) -> Iterator[TargetRow]:
    """Yield the rows of all models; one that cannot be read has a single row."""
    for entry in entries:
        found = entry.found
        if found is None:
            outcome = "unreadable" if entry.error["kind"] == "invalid-model" else "error"
            yield TargetRow(entry.model, "-", outcome, "-", entry.error["message"], 2)
            continue
        for fit in found.fits:
            opset = "-" if fit.refusals else wording.moved("", found.opset, fit.opset).strip()
            yield TargetRow(entry.model, named(fit), str(fit.outcome), opset, details(fit, found), LEVELS[fit.outcome])


def named(fit: Fit) -> str:
    """Return a target with the origin of its profile: `opencv-4 (4.14)`, `webnn (listed)`."""
    about = [] if fit.version in fit.target or fit.oldest else [fit.version]
    about += ["oldest"] if fit.oldest else []
    about += [] if fit.measured else ["listed"]
    return one_line(fit.target + (f" ({', '.join(about)})" if about else ""))


def details(fit: Fit, found: Where) -> str:
    """Return the changes to a model, or its first blocker, on one line."""
    if fit.refusals:
        groups = wording.grouped(fit.refusals)
        shown = _blocker(groups[0])
        rest = len(fit.refusals) - len(groups[0].nodes)
        return f"{shown} And {wording.count(rest, 'more refusal')}." if rest else shown
    return one_line("; ".join(_changes(fit, found)))


def _blocker(group: wording.Group) -> str:
    """Return a cause with the first of its nodes."""
    where = f"{group.nodes[0]}, ..." if len(group.nodes) > 1 else group.nodes[0]
    what = f"{len(group.nodes)} x {group.operator} ({where})" if group.operator else where
    return one_line(f"{what}: {group.reason} {group.hint}".rstrip()) + f" [{group.code}]"


def _changes(fit: Fit, found: Where) -> Iterator[str]:
    if fit.ir_version != found.ir_version:
        yield wording.moved("ir_version", found.ir_version, fit.ir_version)
    for action, nodes in fit.prepared.items():
        yield f"{wording.count(nodes, 'node')} {PREPARED[Action(action)]}"
    for one in fit.replaced[:KINDS]:
        names = [*one.becomes[:NAMES], *[f"{len(one.becomes) - NAMES} more"] * (len(one.becomes) > NAMES)]
        yield f"{one.nodes} x {one.operator} -> {', '.join(names) or wording.HELD}"
    if rest := sum(one.nodes for one in fit.replaced[KINDS:]):
        yield f"{wording.count(rest, 'node')} of {wording.count(len(fit.replaced) - KINDS, 'more kind')} replaced"
    if fit.bumped:
        yield wording.count(fit.bumped, "version bump")
    yield from (note.rstrip(".") for note in fit.notes)


PREPARED = {
    Action.FOLD: "folded",
    Action.INLINE: "inlined",
    Action.UNROLL: "unrolled",
    Action.LOWER: "replaced first",
    Action.RETYPE: "retyped",
    Action.QUANTIZE: "joined",
    Action.DROP: "dropped",
}


def summary(entries: Iterable[Entry]) -> str:
    """Return the number of rows by outcome: `3 runs, 5 converts, 5 refused`."""
    counts = Counter(row.outcome for row in rows(entries))
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def possible_opsets(found: Where) -> str:
    """Return `convertible to opset 7 to 28`."""
    if found.lowest is None:
        return "not convertible to any opset"
    ends = str(found.lowest) if found.lowest == found.highest else f"{found.lowest} to {found.highest}"
    return f"convertible to opset {ends}"


def headings(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a heading for each model: `m.onnx: opset 16, ir_version 8, convertible to opset 13 to 28`."""
    for entry in entries:
        if found := entry.found:
            yield f"{entry.model}: opset {found.opset}, ir_version {found.ir_version}, {possible_opsets(found)}"
