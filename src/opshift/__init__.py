"""Take an ONNX model to the opset and the operators that a runtime has, up or down, and prove that nothing changed."""

from __future__ import annotations

from opshift.passes.convert import Result, convert, plan
from opshift.passes.errors import InvalidModelError, OpshiftError, UnsupportedError, UsageError, VerificationError
from opshift.passes.outcome import Plan, Refusal, Report, Step, Verdict
from opshift.passes.verify import verify

__all__ = [
    "InvalidModelError",
    "OpshiftError",
    "Plan",
    "Refusal",
    "Report",
    "Result",
    "Step",
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "VerificationError",
    "convert",
    "plan",
    "verify",
]
