"""Write sentences about plans, refusals and verdicts."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli.terminal import COMMAND, one_line, plain
from opshift.passes.base.plan import Action, Plan, Refusal, Step
from opshift.passes.base.report import Check, Coverage, Departure, Report, Verdict

if TYPE_CHECKING:
    from opshift.cli.operator_counts import OperatorCounts
    from opshift.passes.inspection import Blocker

SHOWN = 5
"""The number of printed differing nodes; --json and --report have them all."""

STYLE = {
    Verdict.EQUAL: "green",
    Verdict.WITHIN_BOUND: "green",
    Verdict.DIFFERENT: "bold red",
    Verdict.UNCHECKED: "yellow",
}


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


PAGE = "docs/limits.md"
"""The page that explains each code of a refusal, under a separate heading."""


def page(code: str) -> str:
    """Return the location of a code's explanation, from the root of the repository."""
    return f"{PAGE}#{code}"


def refusals(found: Sequence[Refusal], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each cause, the most frequent first, then common fixes, and the page that explains the codes."""
    groups = grouped(found)
    common = [hint for hint, times in Counter(one.hint for one in groups).items() if hint and times > 1]
    for one in groups:
        yield refusal(dataclasses.replace(one, hint="") if one.hint in common else one, verbose=verbose)
    for hint in common:
        nodes = sum(len(one.nodes) for one in groups if one.hint == hint)
        yield f"  {'All' if nodes == len(found) else nodes} of these: {one_line(hint)}"
    if found:
        yield f"  See {', '.join(page(code) for code in dict.fromkeys(one.code for one in found))}."


@dataclasses.dataclass(frozen=True)
class Group:
    """Nodes of one operator version that are refused for the same cause."""

    code: str
    operator: str
    nodes: tuple[str, ...]
    reason: str
    hint: str
    details: str = ""


def grouped(found: Iterable[Refusal]) -> list[Group]:
    """Return refusals by cause, those with the most nodes first."""
    alike: dict[tuple[str, str, str, str], list[Refusal]] = {}
    for one in found:
        alike.setdefault((one.code, one.operator, one.reason, one.hint), []).append(one)
    groups = [
        Group(code, operator, tuple(one.node for one in same), reason, hint, same[0].details)
        for (code, operator, reason, hint), same in alike.items()
    ]
    return sorted(groups, key=lambda group: -len(group.nodes))


def refusal(what: Group, *, verbose: bool) -> str:
    """Return one cause as a line: `2 x OneHot-28 (main/a, main/b): problem. fix. [type]`."""
    shown = what.nodes if verbose else what.nodes[:NAMED]
    more = "" if len(shown) == len(what.nodes) else ", ..."
    names = f"{', '.join(shown)}{more}"
    where = f"{len(what.nodes)} x {what.operator} ({names})" if what.operator else names
    reason = (verbose and what.details) or what.reason
    return f"  {one_line(f'{where}: {reason} {what.hint}'.rstrip())} [{what.code}]"


NAMED = 3
"""The number of named nodes of a cause without --verbose."""


def blocker(what: Blocker, *, verbose: bool) -> str:
    """Return a blocker as a line, with the first of its nodes."""
    where = what.node if what.nodes == 1 else f"{what.node}, ..."
    name = f"{what.nodes} x {what.operator} ({where})" if what.operator else what.node
    reason = (verbose and what.details) or what.reason
    return f"  {one_line(f'{name}: {reason} {what.hint}'.rstrip())} [{what.code}]"


def warnings(plan: Plan) -> Iterator[str]:
    """Yield a line for each operator of the result without an onnxruntime kernel, with its first node."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for one in plan.warnings:
        nodes.setdefault((one.operator, one.reason, one.hint), []).append(one.node)
    for (_, reason, hint), places in nodes.items():
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield one_line(f"warning: {reason} It is at {places[0]}{more}. {hint}")


def change(what: Step) -> str:
    """Return the replacement of a node: `Hardmax-13 -> ArgMax, Equal`."""
    return one_line(f"{what.operator}-{what.since_version} -> {', '.join(what.becomes) or HELD}")


HELD = "a constant"
"""The replacement of a node that becomes a constant."""


def step(what: Step) -> str:
    """Return the change of a node, and its lowering: `Hardmax-13 -> ArgMax, Equal by hardmax_by_argmax (why)`."""
    if what.action is not Action.LOWER:
        return one_line(f"{what.operator}-{what.since_version} unchanged, version updated ({what.why})")
    by = f" by {', '.join(what.lowerings)}" if what.lowerings else ""
    why = f" ({what.why})" if what.why else ""
    return one_line(f"{change(what)}{by}{why}")


def request(plan: Plan, before: OperatorCounts, after: OperatorCounts) -> str:
    """Return the requested change: `opset 18 -> 11, ir_version 8 -> 6, target opencv-4`."""
    parts = [moved("opset", before.opset, after.opset), moved("ir_version", before.ir_version, after.ir_version)]
    parts += [f"target {one_line(plan.target)}"] if plan.target else []
    parts += [f"decompose {', '.join(plan.decompose)}"] if plan.decompose else []
    parts += [f"input {shaped(name, shape)}" for name, shape in plan.shapes.items()]
    parts += [f"types {','.join(f'{old}={new}' for old, new in plan.types.items())}"] if plan.types else []
    parts += [f"quantized {plan.quantized}"] if plan.quantized else []
    return ", ".join(parts)


def shaped(name: str, shape: Iterable[int | str | None]) -> str:
    """Return the shape of an input in the option's format: `images:1,3,640,640`, with `?` for an unknown dim."""
    return one_line(f"{name}:{','.join('?' if dim is None else str(dim) for dim in shape)}")


def moved(name: str, before: int | None, after: int | None) -> str:
    """Return `opset 18 -> 11`, or `opset 18` if it is unchanged."""
    return f"{name} {before}" if before == after else f"{name} {before} -> {after}"


def goal(plan: Plan | None) -> str:
    """Return ` to opset 13 for opencv-4`: the opset only if it changes, the target only if there is one."""
    if plan is None:
        return ""
    opset = "" if plan.source_opset == plan.target_opset else f" to opset {plan.target_opset}"
    return opset + (f" for {one_line(plan.target)}" if plan.target else "")


def changes(plan: Plan) -> Iterator[str]:
    """Yield the preparations, the rewrites by group, and the number of other nodes."""
    done = Counter(step.action for step in plan.prepared)
    yield from (f"  {count(done[action], 'node')} {what}" for action, what in PREPARED.items() if done[action])
    kinds = Counter(change(step) for step in plan.lowered)
    for line, nodes in kinds.most_common(KINDS):
        yield f"  {nodes} x {line}"
    if len(kinds) > KINDS:
        rest = sum(nodes for _, nodes in kinds.most_common()[KINDS:])
        yield f"  and {count(rest, 'node')} of {len(kinds) - KINDS} more kinds, which --verbose lists"
    if bumped := len(plan.steps) - len(plan.lowered):
        yield f"  {count(bumped, 'node')} unchanged, version updated"
    joined = sum(step.action is Action.QUANTIZE and bool(step.becomes) for step in plan.prepared)
    if kept := max(plan.kept - done[Action.RETYPE] - joined, 0):
        yield f"  {count(kept, 'node')} unchanged"


def wide(plan: Plan, *, verbose: bool) -> Iterator[str]:
    """Yield the nodes that keep a wider float type, with the reasons."""
    yield from _left(plan.wide, "in a wider type of floats", verbose=verbose)


def dequantized(plan: Plan, *, verbose: bool) -> Iterator[str]:
    """Yield the nodes that stay between DequantizeLinear and QuantizeLinear, with the reasons."""
    yield from _left(plan.dequantized, "between DequantizeLinear and QuantizeLinear as before", verbose=verbose)


def _left(reasons: Mapping[str, str], how: str, *, verbose: bool) -> Iterator[str]:
    """Yield how nodes were left, with the reasons, by path."""
    if not reasons:
        return
    yield f"  {count(len(reasons), 'node')} {how}:"
    shown = list(reasons.items())[: None if verbose else SHOWN]
    yield from (f"    {one_line(f'{node}: {why}')}" for node, why in shown)
    if len(shown) < len(reasons):
        yield f"    and {len(reasons) - len(shown)} more, which --verbose lists"


PREPARED = {
    Action.FOLD: "folded: the outputs follow from shapes and constants",
    Action.INLINE: "replaced by the nodes of a branch",
    Action.UNROLL: "unrolled",
    Action.LOWER: "replaced first, such as with fewer axes",
    Action.RETYPE: "computed in another element type",
    Action.QUANTIZE: "joined to operators on quantized values",
    Action.DROP: "dropped: unused",
}
"""The steps before planning."""

KINDS = 20
"""The maximum number of printed rewrite groups without --verbose."""


ASSUMED = {
    "no-nan": "no input holds NaN",
    "finite-inputs": "all inputs are finite",
    "whole-indices": "all indices of OneHot are finite whole numbers",
    "approximate": "Erf, also within Gelu, may be off by 2^-21 of each result",
    "fits-int32": "all integers fit the element types that --types gives them",
}
"""The condition under which a result with an assumption is valid."""


def assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumptions of the plan, one line each."""
    steps = [step for step in (*plan.prepared, *plan.lowered) if step.assumes]
    for assumption in sorted({assumption for step in steps for assumption in step.assumes}):
        nodes = [step.node for step in steps if assumption in step.assumes]
        more = f" and {count(len(nodes) - SHOWN, 'more node')}" if len(nodes) > SHOWN else ""
        yield f"Valid only if {ASSUMED[assumption]} (--assume {assumption}): {', '.join(nodes[:SHOWN])}{more}"


def verdict(report: Report) -> str:
    """Return the line with the verdict."""
    checks = [*report.nodes, report.whole]
    if report.verdict is Verdict.EQUAL:
        executors = ", ".join(dict.fromkeys(check.judge for check in checks if check.judge))
        if not executors:
            return f"verified: {report.whole.reason}"
        shapes = "".join(f", {shaped(name, shape)}" for name, shape in report.whole.shapes.items())
        return (
            f"verified: outputs equal on {count(sum(check.inputs for check in checks), 'input')}{shapes} ({executors})"
        )
    if report.verdict is Verdict.WITHIN_BOUND:
        return one_line(f"within bound: {report.whole.reason} ({report.whole.judge})")
    reasons = dict.fromkeys(describe(check) for check in checks if check.verdict is report.verdict)
    shown = "; ".join(list(reasons)[:SHOWN])
    return f"{'different' if report.verdict is Verdict.DIFFERENT else 'not verified'}: {shown}"


SWITCHED_OFF = "not verified: verification was switched off with --no-verify"


def unequal(report: Report, model: str) -> str:
    """Return the reason why a conversion was not written."""
    if report.verdict is Verdict.DIFFERENT:
        return f"the converted {model} computes different outputs, so nothing was written. Please report this:"
    return f"the converted {model} could not be verified, so nothing was written, as --require-proof requires:"


def shown(check: Check) -> str:
    """Return the verdict on a node: `equal on 20 inputs`, with notes."""
    reason = f" ({check.reason})" if check.reason else ""
    return one_line(f"{check.verdict} on {count(check.inputs, 'input')}{reason}")


def describe(check: Check) -> str:
    """Return the result of one comparison."""
    where = f"{check.operator} at {check.node}" if check.node else "the whole model"
    return one_line(f"{where}: {check.reason or check.verdict}")


def nodes_line(report: Report) -> str:
    """Return the number of rewritten nodes that were equal."""
    equal = sum(check.verdict in (Verdict.EQUAL, Verdict.WITHIN_BOUND) for check in report.nodes)
    tried = count(sum(check.inputs for check in report.nodes), "input")
    return f"{equal} of {count(len(report.nodes), 'rewritten node')} verified: outputs equal on {tried}"


def differences(report: Report) -> Iterator[str]:
    """Yield the nodes that were not verified as equal, with the input that shows the difference."""
    checks = [check for check in (*report.nodes, report.whole) if check.verdict is report.verdict]
    for check in checks[:SHOWN]:
        yield f"  {describe(check)}" + (f" ({one_line(check.judge)})" if check.judge else "")
        yield from counterexample(check)
    if len(checks) > SHOWN:
        yield f"  and {len(checks) - SHOWN} more, which --json and --report list."


def counterexample(check: Check) -> Iterator[str]:
    """Yield an input, its expected output and its actual output."""
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
    """Return the number of inputs of each class."""
    counts: dict[str, int] = {}
    for check in (*report.nodes, report.whole):
        for name, number in check.classes.items():
            counts[name] = counts.get(name, 0) + number
    return counts


def classes(report: Report) -> Iterator[str]:
    """Yield the number of inputs of each class, on one line."""
    if counts := classes_of(report):
        yield "Inputs: " + ", ".join(f"{number} with {name}" for name, number in counts.items())


def coverage(report: Report) -> Iterator[str]:
    """Yield the coverage: elements, bit-identical ones, the largest difference, and the largest sizes."""
    found = report.coverage
    if not found.elements:
        return
    if found.identical == found.elements:
        yield f"Compared: {_elements(found)}, all equal bit for bit."
    yield from departure(report)
    if found.sizes:
        yield "Largest sizes: " + ", ".join(f"{plain(name)}={size}" for name, size in found.sizes.items()) + "."


def departure(report: Report) -> Iterator[str]:
    """Yield the number of elements that are equal only within rounding, and the largest difference, if any."""
    found = report.coverage
    if found.identical == found.elements:
        return
    share = math.floor(10_000 * found.identical / found.elements) / 100
    line = f"Compared: {_elements(found)}, {share:g} % equal bit for bit"
    if (far := found.departure) is not None:
        place = f"{plain(far.output)}{list(far.index)}"
        line += f"; farthest: {place} is {far.actual:.9g} for {far.expected:.9g}, {_distance(far)}"
    yield f"{line}."


def _distance(far: Departure) -> str:
    """Return the distance of a float from the expected one; near zero, units in the last place are meaningless."""
    if far.units < MANY or not math.isfinite(apart := abs(far.actual - far.expected)):
        return f"{count(far.units, 'unit')} in the last place"
    return f"{apart:.1e} apart"


MANY = 2**16
"""The number of units in the last place that indicates cancellation: numbers around zero from large ones."""


def _elements(found: Coverage) -> str:
    undefined = f" ({found.undefined} more have no defined value)" if found.undefined else ""
    return count(found.elements, "output element") + undefined


NO_INPUTS = ("training", "random outputs")
"""The parts besides input classes that a comparison may leave out."""


def untried(report: Report) -> Iterator[str]:
    """Yield the possible input classes without a tried input."""
    found = report.whole.classes or (report.nodes[0].classes if report.nodes else {})
    none = [name for name, number in found.items() if not number]
    inputs = ", ".join(name for name in none if name not in NO_INPUTS)
    if none:
        parts = [f"{inputs} inputs"] * bool(inputs) + [name for name in none if name in NO_INPUTS]
        yield f"Not tested: {', '.join(parts)}."


def literal(value: Any) -> str:
    """Return a nested list on one line."""
    return plain(repr(value))


def joined(words: Iterable[str]) -> str:
    """Join words with commas, or return a dash."""
    return ", ".join(words) or "-"
