"""Run two models on the same adversarial inputs and compare their outputs.

The exit status is 0 only if they are shown to be equal.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from opshift.cli import each, output, streams
from opshift.cli import options as shared
from opshift.cli.document import document
from opshift.passes.errors import UsageError

if TYPE_CHECKING:
    from opshift.cli.census import Census
    from opshift.passes.outcome import Report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift verify`."""
    parser.add_argument(
        "model", metavar="A", help="the original (.onnx or .onnxtxt, - for standard input); or a folder of originals"
    )
    parser.add_argument(
        "other", metavar="B", help="the model to compare with it; or a folder with models of the same names"
    )
    comparing = shared.add_verify_options(parser)
    comparing.add_argument(
        "--exact",
        action="store_true",
        help="allow no rounding differences: floats must be equal bit for bit with graph optimizations off",
    )
    comparing.add_argument(
        "--semantics",
        choices=("runtime", "spec"),
        default="runtime",
        help="if onnxruntime departs from the ONNX specification, compare with it (runtime) or with numpy oracles "
        "(spec) (default: runtime)",
    )
    shared.add_allow_path(parser)
    shared.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Compare two models, or those of two folders, and print."""
    if options.model == options.other == streams.STREAM:
        raise UsageError("- is standard input, which holds one model: name a file for the other.")
    folders = [os.path.isdir(path) for path in (options.model, options.other)]  # noqa: PTH112
    if not any(folders):
        return one(options)
    if not all(folders):
        raise UsageError("one of the two is a folder: name two models, or two folders with models of the same names.")
    return each.of_each(options, pairs(options.model, options.other), one)


def pairs(folder: str, other: str) -> list[dict[str, str]]:
    """Return the models of a folder with those of the same path in another, which need not exist."""
    found = [os.path.relpath(path, folder) for path in each.models([folder])]
    return [{"model": os.path.join(folder, path), "other": os.path.join(other, path)} for path in found]  # noqa: PTH118


def one(options: argparse.Namespace) -> int:
    """Compare two models and print."""
    shared.check_report(options.report, {options.model, options.other} - {streams.STREAM})
    from opshift.cli.census import census
    from opshift.passes import sessions
    from opshift.passes.outcome import Verdict
    from opshift.passes.verify import verify

    allowed = tuple(options.allow_path)
    with output.progress(options.quiet, options.verbose) as progress:
        told = options.watch.beside(progress)
        told("load", 0, 0)
        sessions.runtime()
        models = [sessions.read(streams.read(path), None, allowed) for path in (options.model, options.other)]
        report = verify(
            *models,
            **shared.verification(options),
            exact=options.exact,
            semantics=options.semantics,
            allow_paths=allowed,
            progress=told,
        )
    status = 0 if report.verdict is Verdict.EQUAL else 1
    before, after = (census(model.proto) for model in models)
    described = describe(options, report, status, before, after)
    with output.staged(options.report, described):
        if options.json:
            output.print_json(described, line=getattr(options, "lines", False))
        else:
            show(options, report)
    return status


def describe(options: argparse.Namespace, report: Report, status: int, before: Census, after: Census) -> dict[str, Any]:
    """Return a comparison as JSON has it."""
    from opshift.cli.words import verdict

    error = {"kind": "verification", "message": verdict(report), "report": report}
    found = {"verdict": report.verdict, "before": before, "after": after, "report": report}
    return document(options, status, **found, **({"error": error} if status else {}))


def show(options: argparse.Namespace, report: Report) -> None:
    """Print what differs, and the verdict last."""
    from opshift.cli import words
    from opshift.passes.outcome import Verdict

    if options.verbose:
        for line in words.classes(report):
            output.say(line)
        for line in words.coverage(report):
            output.say(line)
        for check in (*report.nodes, report.whole):
            output.say(words.describe(check))
        output.say(
            f"seed {report.seed}, effort {report.effort}; "
            + ", ".join(f"{name} {is_}" for name, is_ in report.versions.items())
        )
    if report.verdict is Verdict.EQUAL and not options.quiet:
        for line in (*(() if options.verbose else words.departure(report)), *words.untried(report)):
            output.say(line)
    if report.verdict is Verdict.DIFFERENT and not options.quiet:
        for line in words.differences(report):
            output.say(line)
    output.say(words.verdict(report), words.STYLE[report.verdict])
