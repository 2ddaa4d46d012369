"""The errors that opshift raises on purpose, and quoting of names in messages; any other error is a bug."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.passes.base.model_protocols import ConvertedModel, ReadModel
    from opshift.passes.base.plan import Plan, Refusal
    from opshift.passes.base.report import Report


class OpshiftError(Exception):
    """The base class of all errors that opshift raises on purpose; the text is one paragraph for users."""


class InvalidModelError(OpshiftError):
    """The input is missing, unreadable, not ONNX, invalid, or unsafe to open."""


class UsageError(OpshiftError):
    """The request itself is invalid: an unknown operator, an opset that does not exist."""


class UnsupportedError(OpshiftError):
    """The model is valid but cannot be converted to the target; `refusals` names every blocking node.

    `plan` is the incomplete plan, and `source` the model that was read; both are None if they did not exist yet.
    """

    def __init__(
        self, refusals: tuple[Refusal, ...], plan: Plan | None = None, source: ReadModel | None = None
    ) -> None:
        """Store the refusals; the text has one line for each."""
        self.refusals = refusals
        self.plan = plan
        self.source = source
        super().__init__("\n".join(str(refusal) for refusal in refusals))


class VerificationError(OpshiftError):
    """The rewritten model was not verified as equal; nothing is written. `report` has the counterexample.

    `result` is the rewritten model, for debugging.
    """

    def __init__(self, message: str, report: Report, result: ConvertedModel | None = None) -> None:
        """Store the report with the message."""
        self.report = report
        self.result = result
        super().__init__(message)


def printable(text: str | bytes, limit: int = 120) -> str:
    """Return a text from a model in printable form: quoted, control characters escaped, cut to `limit`."""
    text = text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= limit else text[:limit] + "...")


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path in printable form."""
    return printable(os.fspath(path), 300)


def reason(error: BaseException) -> str:
    """Return the system's description of an error, without number and path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
