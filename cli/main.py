"""`opshift`: reads the command line, runs a command, and says in one paragraph what went wrong."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import opshift
from opshift.cli import signals, terminal
from opshift.cli.options import Parser, did_you_mean
from opshift.cli.reports.document import Stopwatch, document
from opshift.cli.terminal import UnprintableError, message, one_line, print_json, staged
from opshift.opsets.native.sandbox import TELEMETRY
from opshift.passes.base.errors import InvalidModelError, OpshiftError, UnsupportedError, UsageError, VerificationError
from opshift.passes.base.memory import limited

if TYPE_CHECKING:
    from onnx import ModelProto

    from opshift.cli.reports.operator_counts import Census

COMMANDS = {
    "convert": "Convert a model, verify that its outputs are equal, and write it.",
    "plan": "Print what convert would do, and what blocks it.",
    "verify": "Run two models on the same adversarial inputs and compare their outputs.",
    "inspect": "Print a model's opset, operators and versions, and the opsets it can be converted to.",
    "ops": "Print the operators that opshift knows, with their versions and decompositions.",
    "targets": "Print the runtime profiles that --target accepts.",
    "completion": "Print a completion script for bash, zsh or fish.",
}
"""The commands, each with the first line of its module: a module is imported where its command is named."""

READING = ("convert", "plan", "verify", "inspect")
"""Commands that read models."""

DONE, NOT_POSSIBLE, USAGE, FAULT, INTERRUPTED = 0, 1, 2, 3, 130

EPILOG = """\
exit status:
  0  done, or nothing to do
  1  the model is valid but cannot be converted, or the models are not shown to be equal
  2  invalid request, or a file is missing, unreadable, invalid or unsafe
  3  internal error (please report it)
Unless the status is 0, no output is written, and existing files stay as they are.
With several models, the exit status is the highest one; models without errors are still written.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    try:
        with signals.raised():
            return run(argv)
    except KeyboardInterrupt as interruption:
        message("interrupted")
        return getattr(interruption, "status", INTERRUPTED)


def run(argv: Sequence[str] | None) -> int:
    """Run one command and return the exit status; interruptions get through."""
    os.environ.setdefault(TELEMETRY, "1")  # what onnxruntime would upload tells of the user's models
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = argparse.Namespace(json="--json" in arguments, debug="--debug" in arguments, report=None)
    try:
        options = parse(arguments)
        options.command_line = arguments
        with warnings.catch_warnings():
            if options.debug:
                warnings.showwarning = show_warning
            else:
                warnings.simplefilter("ignore")
            if options.command in READING:
                from opshift.opsets.native import onnx_process

                onnx_process.start()  # while this process imports onnx
            with limited(getattr(options, "memory", None)):
                return int(options.run(options))
    except SystemExit as done:
        return int(done.code or DONE)
    except Exception as error:
        return fail(error, options)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command that is named, or raise a usage error."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    parser = build([named])
    if not arguments:
        parser.error(f"a command is needed: {', '.join(COMMANDS)}")
    if not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        parser.error(f"there is no command {arguments[0]!r}{did_you_mean(arguments[0], COMMANDS)}")
    options, unknown = parser.parse_known_args(arguments)
    if hasattr(options, "models") and not any(word.startswith("-") and word != "-" for word in unknown):
        options.models += unknown  # before Python 3.13, argparse takes no more arguments behind an option
        unknown = []
    if unknown:
        options.parser.refuse(unknown)
    return options


def build(complete: Collection[str] = tuple(COMMANDS)) -> Parser:
    """Assemble the parser of all commands, with the options of those that are to be `complete`."""
    parser = Parser(
        prog="opshift",
        description="Convert ONNX models to any opset, replace unsupported operators, and verify the outputs.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"opshift {opshift.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        added = commands.add_parser(name, help=summary, description=summary)
        if name not in complete:
            continue
        command = importlib.import_module(f"opshift.cli.commands.{name}")
        added.epilog = (command.__doc__ or "").partition("\n")[2].strip() or None
        command.add_options(added)
        added.set_defaults(run=command.run, parser=added, command=name, watch=Stopwatch())
    return parser


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning, which may quote a model."""
    terminal.message(f"{filename}:{lineno}: {category.__name__}: {message}")


def fail(error: Exception, options: argparse.Namespace) -> int:
    """Say what went wrong, in words or as JSON, and return the exit status."""
    if options.debug:
        import traceback

        message(*"".join(traceback.format_exception(error)).splitlines())
    status, kind = classify(error)
    made = error_document(error, status, kind, options)
    answered = isinstance(error, UnprintableError) or getattr(options, "answered", False)
    try:
        if options.json and not answered:
            to_stderr = getattr(options, "output", None) == "-"  # stdout is for the model
            with contextlib.redirect_stdout(sys.stderr if to_stderr else sys.stdout):
                print_json(made, line=getattr(options, "lines", False))
        else:
            message(*lines(error, status, options))
        if status == NOT_POSSIBLE:
            with staged(options.report, made):
                pass
    except UsageError as unwritable:
        message(f"error: {one_line(str(unwritable))}")
        return USAGE if isinstance(unwritable, UnprintableError) else status
    return status


def classify(error: Exception) -> tuple[int, str]:
    """Return the exit status and the word for JSON."""
    from opshift.opsets.native.onnx_process import NoProcessError

    match error:
        case UnsupportedError():
            return NOT_POSSIBLE, "unsupported"
        case VerificationError():
            return NOT_POSSIBLE, "verification"
        case InvalidModelError():
            return USAGE, "invalid-model"
        case OpshiftError() | NoProcessError():
            return USAGE, "usage"
        case MemoryError():
            return USAGE, "memory"
    return FAULT, "fault"


def error_document(error: Exception, status: int, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return an error as JSON has it, with what was known when it came."""
    details: dict[str, Any] = {"kind": kind, "message": text(error, status)}
    known: dict[str, Any] = {}
    if isinstance(error, UnsupportedError):
        details["refusals"] = error.refusals
        read = error.source
        known = {"before": census(read.model, read.size) if read else None, "plan": error.plan}
    if isinstance(error, VerificationError):
        details["report"] = error.report
        known = {"verdict": error.report.verdict}
        if result := error.result:
            before = census(result.source_model, result.source.size)
            known |= {"before": before, "after": census(result.rewritten), "plan": result.plan}
    known = {name: value for name, value in known.items() if value is not None}
    return document(options, status, **known, error=details)


def census(model: ModelProto, size: int | None = None) -> Census:
    """Count the operators of a model; what counts them needs onnx, which `opshift --help` does not wait for."""
    from opshift.cli.reports.operator_counts import census

    return census(model, size)


def text(error: Exception, status: int) -> str:
    """Return what an error says, as one paragraph."""
    said = one_line(str(error))
    if isinstance(error, MemoryError):
        return (
            f"There is not enough memory for this model{': ' if said else ''}{said}. No output was written. "
            "Convert it where there is more, or give it more with --memory."
        )
    if status != FAULT:
        return said
    return (
        f"opshift itself failed ({type(error).__name__}{': ' if said else ''}{said}). No output was written. "
        "Please report this, with what the same command prints under --debug."
    )


def lines(error: Exception, status: int, options: argparse.Namespace) -> list[str]:
    """Return what people read: one paragraph, then the nodes it is about."""
    if isinstance(error, UnsupportedError):
        from opshift.cli.wording import count, refusals

        to = f" to opset {error.plan.target_opset}" if error.plan else ""
        refused = count(len(error.refusals), "refusal")
        return [
            f"error: {options.model} cannot be converted{to} ({refused}); nothing was written.",
            *refusals(error.refusals, verbose=getattr(options, "verbose", False)),
        ]
    if isinstance(error, VerificationError):
        from opshift.cli.wording import differences, unequal

        return [f"error: {unequal(error.report, options.model)}", *differences(error.report)]
    return [f"error: {text(error, status)}"]
