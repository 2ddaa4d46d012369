"""Model the contents of a report for every format: the verdict in words, the tables, the rewrites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.cli import wording
from opshift.cli.operator_counts import OperatorCounts, cell, remarks, since
from opshift.cli.reports import runtimes
from opshift.cli.terminal import one_line
from opshift.opsets.registry.operator import operator_for
from opshift.passes.base.plan import Action, Candidate, Plan, Refusal, RewriteGroup
from opshift.passes.base.report import Check, Report, Verdict

GOOD, DOUBTFUL, BAD = "good", "doubtful", "bad"

STAGES = {
    "load": "load and check",
    "plan": "plan",
    "lower": "rewrite",
    "verify": "prepare the verification",
    "nodes": "verify the rewritten nodes",
    "whole": "verify the whole model",
}


@dataclass(frozen=True)
class Headline:
    """The verdict: its level, in a word or two, and in a sentence."""

    level: str
    title: str
    sentence: str


@dataclass(frozen=True)
class ReportRow:
    """A line of the table of changes."""

    name: str
    before: str
    after: str | None
    """None if there is no result."""

    @property
    def changed(self) -> bool:
        """Whether the two values differ."""
        return self.after not in (None, self.before)


@dataclass(frozen=True)
class Rewrite:
    """A rewrite group in words; `choice` is a short reason for the chosen candidate."""

    kind: RewriteGroup
    number: int
    origin: str
    to: str
    by: str
    choice: str
    summary: str
    ways: tuple[Candidate, ...]
    barred: tuple[Candidate, ...]


@dataclass(frozen=True)
class Line:
    """A rewritten node, with the verdict on it.

    `verdict` is that of its comparison, otherwise "reviewed" (the table of reviewed versions applies), or "not run".
    """

    node: str
    rewrite: Rewrite
    verdict: str
    inputs: int | None
    reason: str


@dataclass(frozen=True)
class ReportModel:
    """The contents of a report, in reading order."""

    command: str
    model: str
    other: str
    output: str
    written: bool
    headline: Headline
    sides: tuple[str, str]
    """The headings of the two columns in the tables."""
    rows: tuple[ReportRow, ...]
    facts: tuple[ReportRow, ...]
    notes: tuple[str, ...]
    request: str
    """The requested change: `opset 18 -> 11`."""
    about: tuple[tuple[str, str], ...]
    """The command, the date and the models' hashes."""
    refusals: tuple[Refusal, ...]
    differences: tuple[Check, ...]
    rewrites: tuple[Rewrite, ...]
    lines: tuple[Line, ...]
    report: Report | None
    classes: Mapping[str, int]
    coverage: tuple[str, ...]
    """The coverage, in sentences."""
    models: tuple[Mapping[str, Any], ...]
    runtimes: tuple[runtimes.TargetRow, ...]
    """The rows of `where`."""
    timings: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, str]

    @property
    def grouped(self) -> list[wording.Group]:
        """The refusals by cause."""
        return wording.grouped(self.refusals)

    @property
    def changed(self) -> tuple[ReportRow, ...]:
        """The operators whose number or version changes."""
        return tuple(row for row in self.rows if row.changed)


def report_model(document: Mapping[str, Any]) -> ReportModel:
    """Return the report model of a document."""
    error: Mapping[str, Any] = document.get("error", {})
    plan: Plan | None = document.get("plan")
    report: Report | None = document.get("report") or error.get("report")
    before: OperatorCounts | None = document.get("before")
    after: OperatorCounts | None = document.get("after")
    rewrites = tuple(_rewrite(kind, number, plan) for number, kind in enumerate(plan.kinds, 1)) if plan else ()
    return ReportModel(
        command=document.get("command", ""),
        model=document.get("model") or ", ".join(entry.model for entry in document.get("where", ())),
        other=document.get("other", ""),
        output=document.get("output", ""),
        written=not error,
        headline=_headline(document, plan, report),
        sides=("Original", "Compared") if document.get("command") == "verify" else ("Before", "After"),
        rows=tuple(_operators(before, after)) if before else (),
        facts=tuple(_facts(before, after)) if before else (),
        notes=(
            *document.get("repairs", ()),
            *(remarks(after.ir_version, document.get("left_out", ()), document.get("notes", ())) if after else ()),
            *_notes(plan, report),
            *(f"{line}." for line in runtimes.headings(document.get("where", ()))),
        ),
        request=_request(document, plan, before, after),
        about=tuple(_about(document)),
        refusals=tuple(error.get("refusals", ())),
        differences=_differences(report),
        rewrites=rewrites,
        lines=tuple(_lines(rewrites, plan, report)) if plan else (),
        report=report,
        classes=wording.classes_of(report) if report else {},
        coverage=tuple(wording.coverage(report)) if report else (),
        models=tuple(document.get("models", ())),
        runtimes=tuple(runtimes.rows(document.get("where", ()))),
        timings=tuple(
            {**timing, "does": STAGES.get(timing["stage"], timing["stage"])} for timing in document["timings"]
        ),
        versions=document["versions"],
    )


def _request(
    document: Mapping[str, Any], plan: Plan | None, before: OperatorCounts | None, after: OperatorCounts | None
) -> str:
    if plan is None or before is None:
        return ""
    if after is not None:
        return wording.request(plan, before, after)
    to = wording.moved("opset", plan.source_opset, plan.target_opset)
    rest = [f"target {one_line(plan.target)}"] if plan.target else []
    return ", ".join([to, *rest, *([f"decompose {', '.join(plan.decompose)}"] if plan.decompose else [])])


def _about(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the known circumstances of a report."""
    if line := document.get("command_line"):
        yield "Command", line
    if date := document.get("date"):
        yield "Date", date
    for name, key in (("SHA-256 of the model", "model_sha256"), ("SHA-256 of the other model", "other_sha256")):
        if digest := document.get(key):
            yield name, digest


# --- the verdict ------------------------------------------------------------------------------------------------------


def _headline(document: Mapping[str, Any], plan: Plan | None, report: Report | None) -> Headline:
    error: Mapping[str, Any] = document.get("error", {})
    if "where" in document:
        return _served(document["where"], document["status"])
    if "models" in document:
        return _many(document["models"])
    if error.get("kind") == "unsupported":
        return _refused(error["refusals"], plan, document["command"])
    if report:
        return _proven(document, report, written=document["command"] == "convert" and not error)
    if document["command"] == "plan" and plan:
        return _planned(plan, nothing=document["nothing_to_do"])
    if document.get("nothing_to_do"):
        return Headline(GOOD, "Nothing to do", "The model already meets the request, and the result is a copy of it.")
    return Headline(DOUBTFUL, "Not verified", "Verification was switched off with --no-verify. The result was written.")


def _many(models: Sequence[Mapping[str, Any]]) -> Headline:
    counts = Counter(str(model["outcome"]) for model in models)
    well = counts["converted"] + counts["unchanged"]
    counts_text = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    title = f"{well} of {wording.count(len(models), 'model')} written"
    return Headline(GOOD if well == len(models) else BAD, title, f"{counts_text}.")


def _served(entries: Sequence[runtimes.Entry], status: int) -> Headline:
    fits = [fit for entry in entries if entry.found for fit in entry.found.fits]
    well = sum(not fit.refusals for fit in fits)
    title = f"Served: {well} of {len(fits)}"
    level = BAD if status else GOOD if well == len(fits) else DOUBTFUL
    return Headline(level, title, f"Models and targets: {runtimes.summary(entries)}.")


def _refused(refusals: Sequence[Refusal], plan: Plan | None, command: str) -> Headline:
    nothing = " Nothing was written." if command == "convert" else ""
    sentence = f"The model cannot be converted{wording.goal(plan)}: {wording.count(len(refusals), 'refusal')}.{nothing}"
    return Headline(BAD, "Cannot be converted", sentence)


def _proven(document: Mapping[str, Any], report: Report, *, written: bool) -> Headline:
    sentence = _differing(report) if report.verdict is Verdict.DIFFERENT else wording.verdict(report).partition(": ")[2]
    sentence = sentence[:1].upper() + sentence[1:]
    sentence += "" if sentence.endswith(".") else "."
    if document["command"] == "convert" and not written:
        sentence += " Nothing was written."
    match report.verdict:
        case Verdict.EQUAL if document.get("nothing_to_do"):
            return Headline(GOOD, "Nothing to do", f"The model already meets the request. {sentence}")
        case Verdict.EQUAL:
            return Headline(GOOD, "Verified", sentence)
        case Verdict.WITHIN_BOUND:
            return Headline(GOOD, "Within bound", sentence)
        case Verdict.DIFFERENT:
            return Headline(BAD, "Different", sentence)
    return Headline(DOUBTFUL, "Not verified", sentence)


def _differing(report: Report) -> str:
    """Return the differing parts; details follow below."""
    nodes = sum(check.verdict is Verdict.DIFFERENT for check in report.nodes)
    whole = ["the whole model"] if report.whole.verdict is Verdict.DIFFERENT else []
    parts = ([wording.count(nodes, "rewritten node")] if nodes else []) + whole
    verb = "computes" if len(parts) == 1 and nodes < 2 else "compute"
    return f"{' and '.join(parts)} {verb} different outputs on one of the inputs"


def _planned(plan: Plan, *, nothing: bool) -> Headline:
    if nothing:
        return Headline(GOOD, "Nothing to do", f"The model already meets the request (opset {plan.source_opset}).")
    lowered = sum(step.action is Action.LOWER for step in plan.steps)
    bumped = wording.count(len(plan.steps) - lowered, "version bump")
    counts_text = f"{wording.count(lowered, 'node')} rewritten, {bumped}, {plan.kept} unchanged"
    return Headline(GOOD, "Possible", f"From opset {plan.source_opset} to {plan.target_opset}: {counts_text}.")


# --- tables -----------------------------------------------------------------------------------------------------------


def _operators(before: OperatorCounts, after: OperatorCounts | None) -> Iterator[ReportRow]:
    names = sorted({*before.operators, *(after.operators if after else ())})
    for name in names:
        yield ReportRow(name, cell(before.operators.get(name)), cell(after.operators.get(name)) if after else None)


def _facts(before: OperatorCounts, after: OperatorCounts | None) -> Iterator[ReportRow]:
    yield ReportRow("opset", str(before.opset), str(after.opset) if after else None)
    yield ReportRow("ir_version", str(before.ir_version), str(after.ir_version) if after else None)
    yield ReportRow("size", amount(before.size), amount(after.size) if after else None)


def amount(size: int) -> str:
    """Return a number of bytes in words: `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    power = next(power for power in (1, 2, 3) if size < 999.5 * 1000**power or power == 3)
    return f"{size / 1000**power:.3g} {('kB', 'MB', 'GB')[power - 1]}"


def _notes(plan: Plan | None, report: Report | None) -> Iterator[str]:
    if plan:
        yield from wording.assumptions(plan)
        yield from wording.wide(plan, verbose=True)
        yield from wording.dequantized(plan, verbose=True)
        yield from wording.warnings(plan)
    if report and (none := [name for name, number in report.whole.classes.items() if not number]):
        yield f"Not tested: {', '.join(none)} inputs."


def _differences(report: Report | None) -> tuple[Check, ...]:
    """Return the comparisons with more details than the headline."""
    if report is None or report.verdict in (Verdict.EQUAL, Verdict.WITHIN_BOUND):
        return ()
    checks = (report.whole, *report.nodes) if report.verdict is Verdict.DIFFERENT else report.nodes
    return tuple(check for check in checks if check.verdict is report.verdict)


# --- rewritten nodes --------------------------------------------------------------------------------------------------


def _rewrite(kind: RewriteGroup, number: int, plan: Plan) -> Rewrite:
    applicable = sorted((way for way in kind.ways if way.cost is not None), key=lambda way: way.cost or 0.0)
    if kind.action is Action.VERSION_BUMP:
        version = since("", kind.operator, plan.target_opset)
        to = f"{kind.operator}-{version}" if version else f"opset {plan.target_opset}"
    else:
        to = ", ".join(kind.becomes) or _HELD.get(kind.lowerings[0], "nothing")
    return Rewrite(
        kind=kind,
        number=number,
        origin=f"{kind.operator}-{kind.since_version}",
        to=to,
        by=kind.lowerings[0] if kind.lowerings else "",
        choice=_choice(kind, applicable),
        summary=_summary(kind),
        ways=tuple(applicable),
        barred=tuple(way for way in kind.ways if way.cost is None),
    )


_HELD = {"folded": "a constant", "initializer": "an initializer"}
"""The replacement of a node that becomes a constant."""

_UNCHOSEN = {
    "folded": "its value is known",
    "initializer": "its value is known",
    "left_out": "it does nothing here",
    "batch": "the only one that applies",
    "constant_inputs": "the operator itself, with constants where the target needs them",
}
"""The reasons for rewrites that are not lowerings."""


def _choice(kind: RewriteGroup, applicable: Sequence[Candidate]) -> str:
    if kind.action is Action.VERSION_BUMP:
        return "same meaning"
    if not kind.lowerings:
        return "the operator itself, as the target defines it"
    if not applicable:
        return _UNCHOSEN.get(kind.lowerings[0], "the only one that applies")
    if len(applicable) == 1:
        return "the only one that applies"
    if any(way.name == kind.lowerings[0] and way.cost == applicable[0].cost for way in applicable):
        return f"cheapest of {len(applicable)}"
    return f"cheapest of {len(applicable)} that rounds least"


def _summary(kind: RewriteGroup) -> str:
    """Return the first line of a lowering's docstring."""
    operator = operator_for("", kind.operator) if kind.lowerings else None
    lowerings = operator.lowerings if operator else ()
    return next((one.summary.rstrip(".") for one in lowerings if one.name == kind.lowerings[0]), "")


def _lines(rewrites: Sequence[Rewrite], plan: Plan, report: Report | None) -> Iterator[Line]:
    """Yield the rewritten nodes in the order of the model."""
    checks = {check.node: check for check in report.nodes} if report else {}
    places = {(step.node, step.operator): place for place, step in enumerate(plan.steps)}
    nodes = [(node, rewrite) for rewrite in rewrites for node in rewrite.kind.nodes]
    for node, rewrite in sorted(nodes, key=lambda pair: places[pair[0], pair[1].kind.operator]):
        lowered = rewrite.kind.action is Action.LOWER
        check = checks.get(node) if lowered else None
        if check:
            yield Line(node, rewrite, str(check.verdict), check.inputs, one_line(check.reason))
        else:
            yield Line(node, rewrite, "not run" if lowered else "reviewed", None, "")
