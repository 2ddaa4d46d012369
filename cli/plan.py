"""Print what convert would do, and what stands in the way.

examples:
  opshift plan model.onnx --opset 11
  opshift plan model.onnx --decompose OneHot --json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import output
from opshift.cli.document import document

if TYPE_CHECKING:
    from opshift.passes.outcome import Check, Plan, Step


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift plan`."""
    parser.add_argument("model", metavar="IN", help="the model to plan for (.onnx or .onnxtxt)")
    shared.add_request_options(parser)
    shared.add_run_options(parser)
    shared.add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Plan and print."""
    shared.check_report(options.report, (options.model,))
    request = shared.request(options)
    from opshift.passes.convert import plan

    with output.progress(options.quiet, options.verbose) as progress:
        made = plan(options.model, **request, progress=options.watch.beside(progress))
    described = describe(options, made)
    output.write_report(options.report, described)
    if options.json:
        output.print_json(described)
    else:
        show(options, made)
    return 0 if made.possible else 1


def describe(options: argparse.Namespace, made: Plan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    if made.possible:
        return document(options, 0, plan=made)
    error = {"kind": "unsupported", "message": summary(made), "refusals": made.refusals}
    return document(options, 1, plan=made, error=error)


def show(options: argparse.Namespace, made: Plan) -> None:
    """Print the steps, the refusals, and the sum of it last."""
    from opshift.cli import words

    if not options.quiet:
        if options.verbose:
            each_step(made.steps, {})
        else:
            grouped_steps(made.steps)
        for line in words.narrowings(made):
            output.say(line, "yellow")
        for refusal in made.refusals:
            output.say(words.refusal(refusal))
    output.say(summary(made), "green" if made.possible else "bold red")


def summary(made: Plan) -> str:
    """Return what a plan comes to, on one line."""
    from opshift.cli.words import count

    if made.refusals:
        return (
            f"Not possible: {count(len(made.refusals), 'refusal')}, opset {made.source_opset} -> {made.target_opset}."
        )
    if made.nothing_to_do:
        return f"Nothing to do: the model is on the target already (opset {made.source_opset})."
    lowered = len(made.lowered)
    restamped = len(made.steps) - lowered
    return (
        f"Possible: opset {made.source_opset} -> {made.target_opset}, {count(lowered, 'node')} lowered, "
        f"{restamped} restamped, {made.kept} kept."
    )


def grouped_steps(steps: Sequence[Step]) -> None:
    """Print how many nodes of an operator go the same way."""
    from collections import Counter

    from opshift.cli import words

    for line, nodes in Counter(words.step(step) for step in steps).items():
        output.say(f"  {nodes} x {line}")


def each_step(steps: Sequence[Step], checks: Mapping[str, Check]) -> None:
    """Print each node that changes, and what was shown of it."""
    from opshift.cli import words

    for step in steps:
        check = checks.get(step.node)
        shown = f"; {words.shown(check)}" if check else ""
        output.say(f"  {step.node}: {words.step(step)}{shown}")
