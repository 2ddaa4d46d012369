"""Read the command line of `opshift`, and run a command."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import TextIO

import opshift
from opshift.cli import signals, terminal
from opshift.cli.options import Parser, did_you_mean
from opshift.cli.reports.document import Stopwatch
from opshift.cli.terminal import message
from opshift.opsets.native.sandbox import TELEMETRY
from opshift.passes.base.memory import limited

COMMANDS = {
    "convert": "Convert a model, verify that its outputs are equal, and write it.",
    "plan": "Print what convert would do, and what blocks it.",
    "verify": "Run two models on the same adversarial inputs and compare their outputs.",
    "inspect": "Print a model's opset, operators and versions, and the opsets it can be converted to.",
    "where": "Print which runtimes run a model: as it is, after conversion, or not.",
    "ops": "Print the operators that opshift knows, with their versions and decompositions.",
    "targets": "Print the runtime profiles that --target accepts.",
    "completion": "Print a completion script for bash, zsh or fish.",
}
"""The commands, each with the first line of its module, which is imported only if the command is used."""

READING = ("convert", "plan", "verify", "inspect", "where")
"""Commands that read models."""

DONE, INTERRUPTED = 0, 130

EPILOG = """\
exit status:
  0  done, or nothing to do
  1  the model is valid but cannot be converted (where: for a named target), or the models are not shown to be
     equal
  2  invalid request, or a file is missing, unreadable, invalid or unsafe
  3  internal error (please report it)
Unless the status is 0, no output is written, and existing files stay as they are.
With several models, the exit status is the highest one; models without errors are still written.
"""


FEW_OBJECTS = 20_000
"""The number of new objects after which Python's garbage collector runs: its default of 700 is far too frequent."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    if gc.isenabled() and 0 < gc.get_threshold()[0] < FEW_OBJECTS:
        gc.set_threshold(FEW_OBJECTS)
    atexit.register(gc.freeze)  # at its end, Python would search all objects for cycles
    try:
        with signals.raised():
            return run(argv)
    except KeyboardInterrupt as interruption:
        message("interrupted")
        return getattr(interruption, "status", INTERRUPTED)


def run(argv: Sequence[str] | None) -> int:
    """Run one command and return the exit status; interruptions are passed on."""
    os.environ.setdefault(TELEMETRY, "1")  # onnxruntime's telemetry would upload data about the user's models
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

                onnx_process.start()  # in parallel with this process's import of onnx
            with limited(getattr(options, "memory", None)):
                return int(options.run(options))
    except SystemExit as done:
        return int(done.code or DONE)
    except Exception as error:
        from opshift.cli.failure import fail

        return fail(error, options)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the named command, or raise a usage error."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    parser = build([named])
    if not arguments:
        parser.error(f"a command is needed: {', '.join(COMMANDS)}")
    if not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        parser.error(f"there is no command {arguments[0]!r}{did_you_mean(arguments[0], COMMANDS)}")
    options, unknown = parser.parse_known_args(arguments)
    if hasattr(options, "models") and not any(word.startswith("-") and word != "-" for word in unknown):
        options.models += unknown  # before Python 3.13, argparse accepts no positional arguments after an option
        unknown = []
    if unknown:
        options.parser.refuse(unknown)
    return options


def build(complete: Collection[str] = tuple(COMMANDS)) -> Parser:
    """Create the parser of all commands, with the options only of the `complete` ones."""
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
        added.set_defaults(run=command.run, parser=added, command=name, watch=Stopwatch(), build=build)
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
