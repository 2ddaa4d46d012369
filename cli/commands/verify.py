"""Run two models on the same adversarial inputs and compare their outputs.

The exit status is 0 only if they are shown to be equal.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import streams, terminal
from opshift.cli.commands import each
from opshift.cli.reports.document import document
from opshift.cli.reports.write import staged
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.cli.operator_counts import OperatorCounts
    from opshift.passes.base.report import Report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift verify`."""
    parser.add_argument(
        "model", metavar="A", help="the original (.onnx or .onnxtxt, - for standard input); or a folder of originals"
    )
    parser.add_argument(
        "other", metavar="B", help="the model to compare with it; or a folder with models of the same names"
    )
    comparing = shared.add_verify_options(parser)
    shapes = "the shape of an input with dynamic dimensions; repeatable (default: several sizes are tried)"
    shared.add_options(comparing, "input_shapes", described=shapes)
    comparing.add_argument(
        "--exact",
        action="store_true",
        help="allow no rounding differences: floats must be equal bit for bit with graph optimizations off",
    )
    semantics = (
        "if onnxruntime and the ONNX specification differ, compare with onnxruntime (runtime) or with numpy oracles "
        "(spec) (default: runtime)"
    )
    shared.add_options(comparing, "semantics", described=semantics)
    opset = "read A as one of opset N, whatever it declares (default: the declared opset)"
    shared.add_options(comparing, "assume_opset", described=opset)
    shared.add_options(parser, "allow_paths")
    shared.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Compare two models, or those of two folders, and print."""
    if options.model == options.other == streams.STREAM:
        raise UsageError("- is standard input, which holds one model: name a file for the other.")
    folders = [each.is_folder(path) for path in (options.model, options.other)]
    if not any(folders):
        return one(options)
    if not all(folders):
        raise UsageError("one of the two is a folder: name two models, or two folders with models of the same names.")
    return each.of_each(options, pairs(options.model, options.other), one)


def pairs(folder: str, other: str) -> list[dict[str, str]]:
    """Return the models of a folder paired with the same paths in another folder, which need not exist."""
    found = [os.path.relpath(path, folder) for path in each.models([folder])]
    # The paths stay strings with the user's spelling of the folders.
    return [{"model": os.path.join(folder, path), "other": os.path.join(other, path)} for path in found]  # noqa: PTH118


def one(options: argparse.Namespace) -> int:
    """Compare two models and print."""
    shared.check_report(options.report, {options.model, options.other} - {streams.STREAM})
    from opshift.cli.operator_counts import count_operators
    from opshift.passes.base.report import Verdict
    from opshift.passes.proof.verify import verify
    from opshift.passes.runtime import ort_models

    allowed = tuple(options.allow_paths)
    with terminal.progress(options.quiet, options.verbose) as progress:
        report_progress = options.watch.beside(progress)
        report_progress("load", 0, 0)
        ort_models.runtime()
        paths = ((options.model, options.assume_opset), (options.other, None))
        models = [ort_models.read(streams.read(path), None, allowed, assumed) for path, assumed in paths]
        report = verify(
            models[0],
            models[1],
            **shared.verification(options),
            **shared.arguments(options, "input_shapes", "semantics", "assume_opset", "allow_paths"),
            exact=options.exact,
            progress=report_progress,
        )
    status = 0 if report.verdict is Verdict.EQUAL else 1
    before, after = (count_operators(model.proto) for model in models)
    described = describe(options, report, status, before, after)
    with staged(options.report, described):
        if options.json:
            terminal.print_json(described, line=getattr(options, "lines", False))
        else:
            show(options, report)
    return status


def describe(
    options: argparse.Namespace, report: Report, status: int, before: OperatorCounts, after: OperatorCounts
) -> dict[str, Any]:
    """Return a comparison as JSON."""
    from opshift.cli.wording import verdict

    error = {"kind": "verification", "message": verdict(report), "report": report}
    found = {"verdict": report.verdict, "before": before, "after": after, "report": report}
    return document(options, status, **found, **({"error": error} if status else {}))


def show(options: argparse.Namespace, report: Report) -> None:
    """Print the differences, and the verdict last."""
    from opshift.cli import wording
    from opshift.passes.base.report import Verdict

    if options.verbose:
        for line in wording.classes(report):
            terminal.say(line)
        for line in wording.coverage(report):
            terminal.say(line)
        for check in (*report.nodes, report.whole):
            terminal.say(wording.describe(check))
        terminal.say(
            f"seed {report.seed}, effort {report.effort}; "
            + ", ".join(f"{name} {is_}" for name, is_ in report.versions.items())
        )
    if report.verdict is Verdict.EQUAL and not options.quiet:
        for line in (*(() if options.verbose else wording.departure(report)), *wording.untried(report)):
            terminal.say(line)
    if report.verdict is Verdict.DIFFERENT and not options.quiet:
        for line in wording.differences(report):
            terminal.say(line)
    terminal.say(wording.verdict(report), wording.STYLE[report.verdict])
