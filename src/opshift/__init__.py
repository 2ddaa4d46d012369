"""Convert ONNX models to any opset, replace operators a runtime does not support, and verify the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from opshift.passes.base.errors import (
        InvalidModelError,
        OpshiftError,
        UnsupportedError,
        UsageError,
        VerificationError,
    )
    from opshift.passes.base.plan import Plan, Refusal, Step
    from opshift.passes.base.report import Check, Report, Verdict
    from opshift.passes.batch import Outcome, Status, Summary, convert_many
    from opshift.passes.conversion.result import Result
    from opshift.passes.convert import convert, plan
    from opshift.passes.inspection import Inspection, inspect
    from opshift.passes.proof.verify import verify
    from opshift.passes.where import Fit, Support, Where, where

__version__ = "0.1.0"

_HOME = {
    "conversion.result": ("Result",),
    "convert": ("convert", "plan"),
    "base.errors": ("InvalidModelError", "OpshiftError", "UnsupportedError", "UsageError", "VerificationError"),
    "inspection": ("Inspection", "inspect"),
    "batch": ("Outcome", "Status", "Summary", "convert_many"),
    "base.plan": ("Plan", "Refusal", "Step"),
    "base.report": ("Check", "Report", "Verdict"),
    "proof.verify": ("verify",),
    "where": ("Fit", "Support", "Where", "where"),
}

__all__ = [
    "Check",
    "Fit",
    "Inspection",
    "InvalidModelError",
    "OpshiftError",
    "Outcome",
    "Plan",
    "Refusal",
    "Report",
    "Result",
    "Status",
    "Step",
    "Summary",
    "Support",
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "VerificationError",
    "Where",
    "convert",
    "convert_many",
    "inspect",
    "plan",
    "verify",
    "where",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `opshift --help` must not wait for the import of onnx."""
    from importlib import import_module

    for module, names in _HOME.items():
        if name in names:
            found = getattr(import_module(f"opshift.passes.{module}"), name)
            writers = import_module("opshift.passes.base.report").WRITERS
            if _save not in writers:
                writers.append(_save)
            return globals().setdefault(name, found)
    raise AttributeError(f"module 'opshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names for completion, including names that are not imported yet."""
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"])


def _save(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report for `Report.save`, because file formats belong to the command line."""
    from opshift.cli.reports.save import save

    save(report, path)
