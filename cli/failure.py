"""Report an error of a run: the message and the exit status."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from opshift.cli.reports.document import document
from opshift.cli.reports.write import staged
from opshift.cli.terminal import UnprintableError, message, one_line, print_json
from opshift.passes.base.errors import InvalidModelError, OpshiftError, UnsupportedError, UsageError, VerificationError

NOT_POSSIBLE, USAGE, FAULT = 1, 2, 3


def fail(error: Exception, options: argparse.Namespace) -> int:
    """Print an error as text or JSON, and return the exit status."""
    if options.debug:
        traced(error)
    status, kind = classify(error)
    made = error_document(error, status, kind, options)
    answered = isinstance(error, UnprintableError) or getattr(options, "answered", False)
    try:
        if options.json and not answered:
            to_stderr = getattr(options, "output", None) == "-"  # stdout is reserved for the model
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


def traced(error: Exception) -> None:
    """Print the traceback of an error."""
    import traceback

    message(*"".join(traceback.format_exception(error)).splitlines())


def classify(error: Exception) -> tuple[int, str]:
    """Return the exit status and the kind of an error for JSON."""
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
    """Return an error as a JSON document, with the data that was known before it."""
    details: dict[str, Any] = {"kind": kind, "message": text(error, status)}
    known: dict[str, Any] = {}
    if isinstance(error, UnsupportedError | VerificationError):
        from opshift.cli.operator_counts import count_operators  # this needs onnx
    if isinstance(error, UnsupportedError):
        details["refusals"] = error.refusals
        read = error.source
        known = {"before": count_operators(read.model, read.size) if read else None, "plan": error.plan}
    if isinstance(error, VerificationError):
        details["report"] = error.report
        known = {"verdict": error.report.verdict}
        if result := error.result:
            before = count_operators(result.source_model, result.source.size)
            known |= {"before": before, "after": count_operators(result.rewritten), "plan": result.plan}
    known = {name: value for name, value in known.items() if value is not None}
    return document(options, status, **known, error=details)


def text(error: Exception, status: int) -> str:
    """Return an error as one paragraph."""
    detail = one_line(str(error))
    if isinstance(error, MemoryError):
        return (
            f"There is not enough memory for this model{': ' if detail else ''}{detail}. No output was written. "
            "Use a machine with more memory, or raise --memory."
        )
    if status != FAULT:
        return detail
    return (
        f"opshift itself failed ({type(error).__name__}{': ' if detail else ''}{detail}). No output was written. "
        "Please report this, with what the same command prints under --debug."
    )


def lines(error: Exception, status: int, options: argparse.Namespace) -> list[str]:
    """Return the lines for users: one paragraph, then the affected nodes."""
    if isinstance(error, UnsupportedError):
        from opshift.cli.wording import count, goal, refusals

        refused = count(len(error.refusals), "refusal")
        return [
            f"error: {options.model} cannot be converted{goal(error.plan)} ({refused}); nothing was written.",
            *refusals(error.refusals, verbose=getattr(options, "verbose", False)),
        ]
    if isinstance(error, VerificationError):
        from opshift.cli.wording import differences, unequal

        return [f"error: {unequal(error.report, options.model)}", *differences(error.report)]
    return [f"error: {text(error, status)}"]
