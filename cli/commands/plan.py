"""Print what convert would do, and what blocks it.

examples:
  opshift plan model.onnx --opset 11
  opshift plan model.onnx --decompose OneHot --json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from opshift.cli import options as shared
from opshift.cli import streams, terminal
from opshift.cli.commands import each
from opshift.cli.reports.document import document
from opshift.cli.reports.write import staged
from opshift.passes.base.errors import UnsupportedError

if TYPE_CHECKING:
    from opshift.cli.operator_counts import OperatorCounts
    from opshift.passes.base.plan import Plan, Step
    from opshift.passes.base.report import Check
    from opshift.passes.conversion.result import Result


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift plan`."""
    parser.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        help="models (.onnx or .onnxtxt, - for standard input), folders or patterns",
    )
    shared.add_request_options(parser)
    shared.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Plan for each model and print."""
    return each.run(options, one)


def one(options: argparse.Namespace) -> int:
    """Plan for one model and print."""
    shared.check_report(options.report, {options.model} - {streams.STREAM})
    request = shared.request(options)
    from opshift.cli import wording
    from opshift.cli.operator_counts import count_operators, nothing_to_do
    from opshift.passes.convert import convert

    with terminal.progress(options.quiet, options.verbose) as progress:
        try:
            result = convert(
                streams.read(options.model), **request, verify=False, progress=options.watch.beside(progress)
            )
        except UnsupportedError as error:
            if error.plan is None or error.source is None:
                raise
            return refused(options, error.plan, count_operators(error.source.model, error.source.size))
    before, after = count_operators(result.source_model, result.source.size), count_operators(result.rewritten)
    nothing = nothing_to_do(result.plan, before, after)
    described = document(
        options,
        0,
        nothing_to_do=nothing,
        before=before,
        after=after,
        left_out=result.left_out,
        notes=result.notes,
        repairs=result.repairs,
        plan=result.plan,
    )
    with staged(options.report, described):
        for warning in wording.warnings(result.plan):
            terminal.message(warning)
        if options.json:
            terminal.print_json(described, line=getattr(options, "lines", False))
            return 0
        if not options.quiet:
            show(options, result, before, after, nothing=nothing)
        terminal.say(possible(result.plan, nothing=nothing), "green")
    return 0


def refused(options: argparse.Namespace, made: Plan, before: OperatorCounts) -> int:
    """Report the blockers."""
    error = {"kind": "unsupported", "message": not_possible(made), "refusals": made.refusals}
    described = document(options, 1, before=before, plan=made, error=error)
    with staged(options.report, described):
        if options.json:
            terminal.print_json(described, line=getattr(options, "lines", False))
            return 1
        if not options.quiet:
            from opshift.cli.wording import changes, refusals

            if options.verbose:
                show_steps(made)
            else:
                for line in changes(made):
                    terminal.say(line)
            for line in refusals(made.refusals, verbose=options.verbose):
                terminal.say(line)
        terminal.say(not_possible(made), "bold red")
    return 1


def not_possible(made: Plan) -> str:
    """Return a summary of a refused plan, on one line."""
    from opshift.cli.wording import count

    return f"Not possible: {count(len(made.refusals), 'refusal')}, opset {made.source_opset} -> {made.target_opset}."


def possible(made: Plan, *, nothing: bool) -> str:
    """Return a summary of a plan, on one line."""
    from opshift.cli.wording import count

    if nothing:
        return f"Nothing to do: the model already meets the request (opset {made.source_opset})."
    lowered = len(made.lowered)
    bumped = count(len(made.steps) - lowered, "version bump")
    return (
        f"Possible: opset {made.source_opset} -> {made.target_opset}, "
        f"{count(lowered, 'node')} rewritten, {bumped}, {made.kept} unchanged."
    )


def show(
    options: argparse.Namespace, result: Result, before: OperatorCounts, after: OperatorCounts, *, nothing: bool
) -> None:
    """Print the request, the rewritten nodes, and all notes; with --verbose each node and the operators."""
    from opshift.cli.operator_counts import remarks, show_operators
    from opshift.cli.wording import assumptions, changes, dequantized, request, wide

    for note in result.repairs:
        terminal.say(note)
    if not nothing:
        terminal.say(request(result.plan, before, after))
    if options.verbose:
        checks = {check.node: check for check in result.report.nodes} if result.report else {}
        show_steps(result.plan, checks)
        show_operators(before, after)
    elif not nothing:
        for line in changes(result.plan):
            terminal.say(line)
    for line in (*wide(result.plan, verbose=options.verbose), *dequantized(result.plan, verbose=options.verbose)):
        terminal.say(line)
    for line in remarks(after.ir_version, result.left_out, result.notes):
        terminal.say(line)
    for line in assumptions(result.plan):
        terminal.say(line, "yellow")


def show_steps(made: Plan, checks: Mapping[str, Check] = MappingProxyType({})) -> None:
    """Print the change of each changed node, and its verdict."""
    for step in made.prepared:
        terminal.say(f"  {step.node}: {prepared(step)}")
    each_step(made.steps, checks)
    if made.kept:
        from opshift.cli.wording import count

        terminal.say(f"  {count(made.kept, 'node')} unchanged")


def prepared(step: Step) -> str:
    """Return the preparation of a node: `Shape-13 fold (its elements follow from shapes and constants)`."""
    from opshift.cli.terminal import one_line

    return one_line(f"{step.operator}-{step.since_version} {step.action} ({step.why})")


def each_step(steps: Sequence[Step], checks: Mapping[str, Check]) -> None:
    """Print each changed node, and its verdict."""
    from opshift.cli import wording

    for step in steps:
        check = checks.get(step.node)
        shown = f"; {wording.shown(check)}" if check else ""
        terminal.say(f"  {step.node}: {wording.step(step)}{shown}")
