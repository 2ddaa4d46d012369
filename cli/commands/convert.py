"""Convert a model, verify that its outputs are equal, and write it.

examples:
  opshift convert model.onnx old.onnx --opset 11
  opshift convert model.onnx -o plain.onnx --decompose Hardmax,ArgMax,OneHot
  opshift convert model.onnx -o phone.onnx --target my-runtime.toml
  opshift convert zoo -o converted --opset 17 --jobs 4 --resume
  opshift convert *.onnx -o converted --opset latest
"""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import streams, terminal
from opshift.cli.commands import batch as many
from opshift.cli.reports.document import document
from opshift.cli.reports.write import staged
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.cli.operator_counts import OperatorCounts
    from opshift.passes.conversion.result import Result


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift convert`."""
    parser.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        help="the model to convert (.onnx or .onnxtxt, - for standard input), followed by OUT unless -o names it; "
        "with -o FOLDER also several models, folders and patterns",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="where to write the result (- for standard output); a folder for several models",
    )
    parser.add_argument("--in-place", action="store_true", help="write the result over IN")
    shared.add_request_options(parser)
    proving = shared.add_verify_options(parser)
    proof = proving.add_mutually_exclusive_group()
    proof.add_argument("--no-verify", action="store_true", help="write the result without verification")
    proof.add_argument(
        "--verify",
        choices=("all", "nodes"),
        default="all",
        help="verify the whole models too, or only the rewritten nodes without reading weights (default: all)",
    )
    shared.add_options(proving, "require_proof")
    shared.add_weights_options(parser)
    several = parser.add_argument_group("several models")
    several.add_argument(
        "-j",
        "--jobs",
        metavar="N",
        type=shared.whole_number,
        help="the number of models to convert in parallel (default: 1)",
    )
    several.add_argument(
        "--resume", action="store_true", help="skip models that an earlier run converted and that did not change"
    )
    shared.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Convert, save and report."""
    options.model, options.output = named(options)
    if many.asked_for(options):
        check_proof_options(options)
        return many.run(options, proof(options))
    if options.output == streams.STREAM:
        with streams.results_on_stderr() as stream:
            return one(options, stream)
    return one(options)


def one(options: argparse.Namespace, stream: Any = None) -> int:
    """Convert one model, into a file or a binary stream."""
    destination = where(options)
    check_proof_options(options)
    shared.check_report(options.report, {options.model, destination} - {streams.STREAM})
    request, weights = shared.request(options), shared.weights(options)
    from opshift.cli import wording
    from opshift.cli.operator_counts import count_operators
    from opshift.passes.convert import convert
    from opshift.passes.io.reader import check_unchanged

    with terminal.progress(options.quiet, options.verbose) as progress:
        result = convert(
            streams.read(options.model),
            **request,
            **proof(options),
            progress=options.watch.beside(progress),
        )
    before, after = count_operators(result.source_model, result.source.size), count_operators(result.rewritten)
    made = describe(options, destination, result, before, after)
    with staged(options.report, made) as batch, contextlib.ExitStack() as watched:
        progress = watched.enter_context(terminal.progress(options.quiet, verbose=False))

        def print_result() -> None:
            """Print the result before the files are moved into place: if printing fails, nothing is written."""
            watched.close()
            check_unchanged(result.source)
            for warning in wording.warnings(result.plan):
                terminal.message(warning)
            if options.json:
                terminal.print_json(made)
                options.answered = True
            else:
                show(options, destination, result, before, after)

        batch.ready.append(print_result)
        if stream is not None:
            batch.publish()
            streams.send(result, stream, progress=progress)
        else:
            result.save(destination, **weights, progress=progress, batch=batch)
    return 0


def named(options: argparse.Namespace) -> tuple[str | list[str], str | None]:
    """Return the models to convert, and the destination: `IN OUT`, or `-o OUT` and any number of IN."""
    models = options.models
    if len(models) == 1:
        return models[0], options.output
    if options.output is not None:
        return models, options.output
    if options.in_place:
        raise UsageError(f"--in-place is for one model, and {len(models)} paths are given.")
    if len(models) > 2:
        raise UsageError(f"no output given for {len(models)} models: add -o FOLDER.")
    return models[0], models[1]


def where(options: argparse.Namespace) -> str:
    """Return the path to write, or raise if the result would be unexpected."""
    input_name, destination = str(options.model), options.output
    if destination is None:
        if not options.in_place or input_name == streams.STREAM:
            raise UsageError("no output given: add OUT after IN, or use --in-place to overwrite IN.")
        return input_name
    if destination == streams.STREAM:
        if options.in_place or options.save_as_external_data or options.external_data in ("keep", "copy"):
            raise UsageError("- is standard output, where the model is written with its weights: name a file for more.")
        streams.check_stdout()
        return streams.STREAM
    if input_name == streams.STREAM and options.in_place:
        raise UsageError("--in-place is for a file, and - is standard input: name OUT, or - for standard output.")
    onto_itself = shared.same_file(input_name, destination)
    if onto_itself and not options.in_place:
        raise UsageError(f"{destination} is the model itself: name another file, or use --in-place to replace it.")
    if options.in_place and not onto_itself:
        raise UsageError(
            f"--in-place writes over {input_name}, and {destination} is named as well: give one of the two."
        )
    shared.check_writable(destination)
    return str(destination)


def proof(options: argparse.Namespace) -> dict[str, Any]:
    """Return the verification options as arguments of `convert`."""
    return {
        "verify": False if options.no_verify else "nodes" if options.verify == "nodes" else True,
        "require_proof": options.require_proof,
        **shared.verification(options),
    }


def check_proof_options(options: argparse.Namespace) -> None:
    """Raise for options of a verification that another option disables."""
    if options.no_verify and (used := ["--require-proof"] * options.require_proof + shared.used_verification(options)):
        raise UsageError(f"{used[0]} has no effect with --no-verify: give one of the two.")
    if options.verify == "nodes" and options.inputs is not None:
        raise UsageError("--inputs is for whole models, which --verify nodes skips: give one of the two.")
    if options.verify == "nodes" and options.require_proof:
        raise UsageError("--require-proof needs the whole model, which --verify nodes skips: give one of the two.")


def describe(
    options: argparse.Namespace, destination: str, result: Result, before: OperatorCounts, after: OperatorCounts
) -> dict[str, Any]:
    """Return a conversion as JSON."""
    from opshift.cli.operator_counts import nothing_to_do

    return document(
        options,
        0,
        output=destination,
        nothing_to_do=nothing_to_do(result.plan, before, after),
        verdict=result.report.verdict if result.report else "unchecked",
        before=before,
        after=after,
        left_out=result.left_out,
        notes=result.notes,
        repairs=result.repairs,
        plan=result.plan,
        report=result.report,
    )


def show(
    options: argparse.Namespace, destination: str, result: Result, before: OperatorCounts, after: OperatorCounts
) -> None:
    """Print the tables, and the verdict last."""
    if not options.quiet:
        from opshift.cli.commands.plan import show as show_plan
        from opshift.cli.operator_counts import nothing_to_do

        nothing = nothing_to_do(result.plan, before, after) and not result.repairs
        show_plan(options, result, before, after, nothing=nothing)
        if nothing:
            terminal.say(f"Nothing to do: the model already meets the request. {destination} is a copy.")
        else:
            terminal.say(f"{destination}: written")
    show_verdict(result, quiet=options.quiet, verbose=options.verbose)


def show_verdict(result: Result, *, quiet: bool, verbose: bool) -> None:
    """Print the untested input classes, and the verdict as the last line."""
    from opshift.cli import wording
    from opshift.passes.base.report import Verdict

    report = result.report
    if report is None:
        terminal.say(wording.SWITCHED_OFF, wording.STYLE[Verdict.UNCHECKED])
        return
    if report.verdict is Verdict.EQUAL and not quiet:
        compared = wording.coverage(report) if verbose else wording.departure(report)
        for line in (*compared, *wording.untried(report)):
            terminal.say(line)
    if report.verdict is Verdict.UNCHECKED and report.nodes and not quiet:
        terminal.say(wording.nodes_line(report))
    terminal.say(wording.verdict(report), wording.STYLE[report.verdict])
