"""Short representations of results for prompts and notebooks: one line, or a small table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opshift.passes.base.results import Check, ConvertedModel, Plan, Refusal, Report

LONGEST = 80
"""Characters of a name, which may be of any length in a model."""


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plan_line(plan: Plan) -> str:
    """Return `opset 18 -> 11, 2 nodes rewritten, 3 version bumps, 4 unchanged`."""
    where = f"opset {plan.source_opset} -> {plan.target_opset}"
    where += f" for {short(plan.target)}" if plan.target else ""
    if plan.refusals:
        return f"{where}, not possible: {count(len(plan.refusals), 'refusal')}"
    lowered = len(plan.lowered)
    bumped = count(len(plan.steps) - lowered, "version bump")
    return f"{where}, {count(lowered, 'node')} rewritten, {bumped}, {plan.kept} unchanged"


def report_line(report: Report) -> str:
    """Return `equal on 484 inputs, 3 rewritten nodes and the whole model`."""
    tried = sum(check.inputs for check in (*report.nodes, report.whole))
    parts = [count(len(report.nodes), "rewritten node")] * bool(report.nodes) + ["the whole model"]
    on = f" on {count(tried, 'input')}" if tried else ""
    return f"{report.verdict}{on}, {' and '.join(parts)}"


def check_line(check: Check) -> str:
    """Return `Hardmax-13 at main/hot: equal on 20 inputs`."""
    where = f"{short(check.operator)} at {short(check.node)}" if check.node else "the whole model"
    return f"{where}: {check.verdict} on {count(check.inputs, 'input')}"


def refusal_line(refusal: Refusal) -> str:
    """Return `type: OneHot-28 at main/hot`."""
    where = f"{short(refusal.operator)} at {short(refusal.node)}" if refusal.operator else short(refusal.node)
    return f"{refusal.code}: {where}"


def result_line(result: ConvertedModel) -> str:
    """Return what became of a model, and what was shown of it."""
    shown = report_line(result.report) if result.report else "not verified"
    return f"{plan_line(result.plan)}; {shown}"


def result_html(result: ConvertedModel) -> str:
    """Return a result as a table."""
    rows = _changes(result.plan)
    rows += [("note", note) for note in (*result.repairs, *result.notes)]
    rows.append(("verification", report_line(result.report) if result.report else "not run"))
    return table("opshift.Result", rows)


def plan_html(plan: Plan) -> str:
    """Return a plan as a table: the rewrites, or the refusals."""
    rows = [(refusal_line(refusal), refusal.reason) for refusal in plan.refusals[:ROWS]] or _changes(plan)
    rows += [("", f"and {len(plan.refusals) - ROWS} more")] * (len(plan.refusals) > ROWS)
    return table("opshift.Plan", rows)


def _changes(plan: Plan) -> list[tuple[str, Any]]:
    """Return what a plan does with the nodes, as rows of a table."""
    becomes: dict[str, int] = {}
    for step in plan.lowered:
        line = f"{step.operator}-{step.since_version} \u2192 {', '.join(step.becomes) or 'nothing'}"
        becomes[line] = becomes.get(line, 0) + 1
    rows: list[tuple[str, Any]] = [
        ("opset", f"{plan.source_opset} \u2192 {plan.target_opset}"),
        *(("rewritten", f"{times} \u00d7 {line}") for line, times in list(becomes.items())[:ROWS]),
    ]
    if len(becomes) > ROWS:
        rows.append(("rewritten", f"and {len(becomes) - ROWS} more kinds"))
    return [*rows, ("version bumps", len(plan.steps) - len(plan.lowered)), ("unchanged", plan.kept)]


def report_html(report: Report) -> str:
    """Return a report as a table: the verdict, and what is not equal."""
    rows: list[tuple[str, Any]] = [("verdict", report_line(report))]
    doubtful = [check for check in (report.whole, *report.nodes) if check.verdict != "equal"]
    rows += [("the whole model" if not check.node else check.node, check.reason) for check in doubtful[:ROWS]]
    rows += [("", f"and {len(doubtful) - ROWS} more")] * (len(doubtful) > ROWS)
    untried = [name for name, number in report.whole.classes.items() if not number]
    rows += [("not tested", ", ".join(untried))] * bool(untried)
    rows += [(name, version) for name, version in report.versions.items()]
    return table("opshift.Report", rows)


ROWS = 10
"""Kinds of rewrites, or nodes, that a table lists."""


def table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return rows as HTML in which names from a model are text."""
    lines = "".join(
        f'<tr><th style="text-align:left">{_escaped(name)}</th><td style="text-align:left">{_escaped(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{_escaped(title)}</caption><tbody>{lines}</tbody></table>"


def _escaped(value: Any) -> str:
    import html  # Its table of 2,000 entities is for notebooks alone.

    return html.escape(short(value, 4 * LONGEST))


def short(text: Any, longest: int = LONGEST) -> str:
    """Return a text as it may be printed: control characters written out, cut off where it is long."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."
