"""Implement `Report.save`, which writes a report of the Python interface as `--report` does."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from opshift.cli.operator_counts import OperatorCounts, count_operators
from opshift.cli.options import check_report
from opshift.cli.reports.document import document
from opshift.cli.reports.write import staged
from opshift.passes.base.arguments import check_path
from opshift.passes.base.report import Verdict

if TYPE_CHECKING:
    from opshift.passes.base.report import Report


def save(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report in the format of the file's suffix: .html, .md or .json.

    Raises:
        UsageError: the suffix is unknown, the file cannot be written, or a page needs jinja2.
    """
    check_path(path, "path", "a string or a path")
    place = os.fspath(path)
    about = report.about() or {"command": "verify"}
    named = [about[key] for key in ("model", "other") if about.get(key)]
    check_report(place, named, named="")
    with staged(place, made(report, about), named=""):
        pass


def made(report: Report, about: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a report, which equals the output of --json for the same run."""
    sides: dict[str, OperatorCounts] = {
        key: count_operators(*about[key]) for key in ("before", "after") if key in about
    }
    named = argparse.Namespace(**{key: about[key] for key in ("command", "model", "other") if about.get(key)})
    rest: dict[str, Any] = {key: about[key] for key in ("plan", "left_out", "notes", "repairs") if key in about}
    different = report.verdict is Verdict.DIFFERENT or (named.command == "verify" and report.verdict != Verdict.EQUAL)
    found: dict[str, Any] = {"verdict": report.verdict, **sides, **rest, "report": report}
    if different:
        from opshift.cli.wording import verdict

        found["error"] = {"kind": "verification", "message": verdict(report), "report": report}
    return document(named, 1 if different else 0, **found)
