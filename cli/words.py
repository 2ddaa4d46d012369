"""How plans, refusals and verdicts read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from opshift.cli.output import COMMAND, one_line, plain
from opshift.passes.outcome import Action, Check, Coverage, Plan, Refusal, Report, Step, Verdict

if TYPE_CHECKING:
    from opshift.passes.inspect import Obstacle

SHOWN = 5
"""How many differing nodes are printed; --json and --report have them all."""

STYLE = {Verdict.EQUAL: "green", Verdict.DIFFERENT: "bold red", Verdict.UNCHECKED: "yellow"}


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def refusal(what: Refusal) -> str:
    """Return one refusal as a line."""
    return f"  {one_line(str(what))} [{what.code}]"


def obstacle(what: Obstacle) -> str:
    """Return what stands in the way of some nodes as a line, with the first of them."""
    where = what.node if what.nodes == 1 else f"{what.node}, ..."
    name = f"{what.nodes} x {what.operator} ({where})" if what.operator else what.node
    return f"  {one_line(f'{name}: {what.reason} {what.hint}'.rstrip())} [{what.code}]"


def warnings(plan: Plan) -> Iterator[str]:
    """Yield a line for each operator of the result that onnxruntime does not run, with its first node."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for one in plan.warnings:
        nodes.setdefault((one.operator, one.reason, one.hint), []).append(one.node)
    for (_, reason, hint), places in nodes.items():
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield one_line(f"warning: {reason} It is at {places[0]}{more}. {hint}")


def step(what: Step) -> str:
    """Return what happens to a node: `Hardmax-13 lowered to ArgMax, Equal by hardmax_by_argmax (why)`."""
    done = "lowered" if what.action is Action.LOWER else "restamped"
    to = f" to {', '.join(what.becomes)}" if what.becomes else ""
    by = f" by {', '.join(what.lowerings)}" if what.lowerings else ""
    why = f" ({what.why})" if what.why else ""
    return one_line(f"{what.operator}-{what.since_version} {done}{to}{by}{why}")


def narrowings(plan: Plan) -> Iterator[str]:
    """Yield for which inputs the plan does not hold, one line a narrowing."""
    for narrowing in sorted({narrowing for step in plan.lowered for narrowing in step.narrows}):
        nodes = [step.node for step in plan.lowered if narrowing in step.narrows]
        more = f" and {count(len(nodes) - SHOWN, 'more node')}" if len(nodes) > SHOWN else ""
        yield f"Narrowed, as --allow {narrowing} accepts: {', '.join(nodes[:SHOWN])}{more}"


def verdict(report: Report) -> str:
    """Return the line that says what was shown."""
    checks = [*report.nodes, report.whole]
    if report.verdict is Verdict.EQUAL:
        judges = ", ".join(dict.fromkeys(check.judge for check in checks if check.judge))
        if not judges:
            return f"EQUAL: {report.whole.reason}; nothing had to be run."
        what = (
            f"{count(len(report.nodes), 'rewritten node')} and the whole model" if report.nodes else "the whole model"
        )
        return f"EQUAL: {what}, on {count(sum(check.inputs for check in checks), 'input')}, judged by {judges}."
    reasons = dict.fromkeys(describe(check) for check in checks if check.verdict is report.verdict)
    shown = "; ".join(list(reasons)[:SHOWN])
    return f"{'DIFFERENT' if report.verdict is Verdict.DIFFERENT else 'NOT PROVEN'}: {shown}"


def unequal(report: Report, model: str) -> str:
    """Return why a conversion was not written."""
    made = f"what was made of {model}"
    if report.verdict is Verdict.DIFFERENT:
        return f"DIFFERENT: {made} computes something else, so nothing was written. Please report this:"
    return f"NOT PROVEN: {made} was not shown to be equal, so nothing was written, as --require-proof asks:"


def shown(check: Check) -> str:
    """Return the verdict on a node: `equal on 20 inputs`, with what is to be said about it."""
    reason = f" ({check.reason})" if check.reason else ""
    return one_line(f"{check.verdict} on {count(check.inputs, 'input')}{reason}")


def describe(check: Check) -> str:
    """Return what one comparison showed."""
    where = f"{check.operator} at {check.node}" if check.node else "the whole model"
    return one_line(f"{where}: {check.reason or check.verdict}")


def nodes_line(report: Report) -> str:
    """Return how many rewritten nodes were equal."""
    equal = sum(check.verdict is Verdict.EQUAL for check in report.nodes)
    tried = count(sum(check.inputs for check in report.nodes), "input")
    return f"{equal} of {count(len(report.nodes), 'rewritten node')} equal, on {tried}."


def differences(report: Report) -> Iterator[str]:
    """Yield the nodes that were not shown to be equal, with the input that tells them apart."""
    checks = [check for check in (*report.nodes, report.whole) if check.verdict is report.verdict]
    for check in checks[:SHOWN]:
        yield f"  {describe(check)}" + (f" (judged by {one_line(check.judge)})" if check.judge else "")
        yield from counterexample(check)
    if len(checks) > SHOWN:
        yield f"  and {len(checks) - SHOWN} more, which --json and --report list."


def counterexample(check: Check) -> Iterator[str]:
    """Yield an input, what was expected of it and what came out."""
    example = check.counterexample
    if example is None:
        return
    if example.node:
        yield f"    node {one_line(example.node)}"
    for name, value in example.inputs.items():
        yield f"    input {one_line(name)} = {literal(value)}"
    yield f"    output {one_line(example.output)}: expected {literal(example.expected)}"
    yield f"    output {one_line(example.output)}: actual   {literal(example.actual)}"
    if example.command:
        yield f"    {COMMAND}{one_line(example.command)}"


def classes_of(report: Report) -> dict[str, int]:
    """Return how many inputs were of which class."""
    counts: dict[str, int] = {}
    for check in (*report.nodes, report.whole):
        for name, number in check.classes.items():
            counts[name] = counts.get(name, 0) + number
    return counts


def classes(report: Report) -> Iterator[str]:
    """Yield how many inputs were of which class, on one line."""
    if counts := classes_of(report):
        yield "Inputs: " + ", ".join(f"{number} with {name}" for name, number in counts.items())


def coverage(report: Report) -> Iterator[str]:
    """Yield what was compared: elements, how many bit for bit, the farthest, and the largest sizes."""
    found = report.coverage
    if not found.elements:
        return
    if found.identical == found.elements:
        yield f"Compared: {_elements(found)}, all equal bit for bit."
    yield from departure(report)
    if found.sizes:
        yield "Largest sizes: " + ", ".join(f"{plain(name)}={size}" for name, size in found.sizes.items()) + "."


def departure(report: Report) -> Iterator[str]:
    """Yield how many output elements are equal only within rounding, and the farthest; nothing if there are none."""
    found = report.coverage
    if found.identical == found.elements:
        return
    share = math.floor(10_000 * found.identical / found.elements) / 100
    line = f"Compared: {_elements(found)}, {share:g} % equal bit for bit"
    if (far := found.departure) is not None:
        place = f"{plain(far.output)}{list(far.index)}"
        units = count(far.units, "unit")
        line += f"; farthest: {place} is {far.actual:.9g} for {far.expected:.9g}, {units} in the last place"
    yield f"{line}."


def _elements(found: Coverage) -> str:
    undefined = f" ({found.undefined} more have no defined value)" if found.undefined else ""
    return count(found.elements, "output element") + undefined


def untried(report: Report) -> Iterator[str]:
    """Yield of which classes no input was tried, that could have been."""
    found = report.whole.classes or (report.nodes[0].classes if report.nodes else {})
    if none := [name for name, number in found.items() if not number]:
        whole = "whole model" if report.whole.classes else "node"
        yield f"No input of the {whole} was tried with {', '.join(none)}."


def literal(value: Any) -> str:
    """Return a nested list on one line."""
    return plain(repr(value))


def joined(words: Iterable[str]) -> str:
    """Return words with commas between, or a dash."""
    return ", ".join(words) or "-"
