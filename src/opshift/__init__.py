"""Take an ONNX model to the opset and the operators that a runtime has, up or down, and prove that nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opshift.passes.convert import Result, convert, plan
    from opshift.passes.errors import InvalidModelError, OpshiftError, UnsupportedError, UsageError, VerificationError
    from opshift.passes.many import Outcome, Status, Summary, convert_many
    from opshift.passes.outcome import Plan, Refusal, Report, Step, Verdict
    from opshift.passes.verify import verify

__version__ = "0.1.0"

_HOME = {
    "convert": ("Result", "convert", "plan"),
    "errors": ("InvalidModelError", "OpshiftError", "UnsupportedError", "UsageError", "VerificationError"),
    "many": ("Outcome", "Status", "Summary", "convert_many"),
    "outcome": ("Plan", "Refusal", "Report", "Step", "Verdict"),
    "verify": ("verify",),
}

__all__ = [
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
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "VerificationError",
    "convert",
    "convert_many",
    "plan",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import the public names on first use: `opshift --help` must not wait for onnx."""
    from importlib import import_module

    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"opshift.passes.{module}"), name)
    raise AttributeError(f"module 'opshift' has no attribute {name!r}")
