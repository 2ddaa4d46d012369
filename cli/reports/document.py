"""Create the document of a run for --json and --report, with the same structure for every command and outcome."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from opshift.cli.terminal import ShowProgress, plain

SCHEMA = 1
"""The version of docs/report.schema.json. It changes if a key is removed or changes its meaning (docs/stability.md)."""

PACKAGES = ("opshift", "onnx", "onnxscript", "onnxruntime", "numpy")


class Stopwatch:
    """Measures the stages of a run from its progress messages."""

    def __init__(self) -> None:
        """Start without a stage."""
        self._seconds: dict[str, float] = {}
        self._stage = ""
        self._since = 0.0

    def beside(self, show: ShowProgress | None) -> ShowProgress:
        """Return a progress callback that also calls `show`."""

        def report_progress(stage: str, done: int, total: int) -> None:
            if stage != self._stage:
                self._turn(stage)
            if show:
                show(stage, done, total)

        return report_progress

    def _turn(self, stage: str) -> None:
        now = time.monotonic()
        if self._stage:
            self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages so far in order, with the seconds of each."""
        self._turn(self._stage)
        return [{"stage": stage, "seconds": round(seconds, 3)} for stage, seconds in self._seconds.items()]


def document(options: argparse.Namespace, status: int, **found: Any) -> dict[str, Any]:
    """Return a document with the common keys, and with the results in `found`; empty if no option asks for it."""
    asked_for = vars(options)
    if not asked_for.get("json", True) and not asked_for.get("report", True):
        return {}  # it would take the digest of the model, and the versions of all packages
    import shlex

    own = {
        name: vars(options)[name]
        for name in ("command", "model", "other", "output")
        if isinstance(vars(options).get(name), str)
    }
    asked: list[str] = vars(options).get("command_line") or []
    about: dict[str, Any] = {"command_line": plain(shlex.join(["opshift", *asked]))} if asked else {}
    about["date"] = date()
    for name in ("model", "other"):
        if digest := sha256(own.get(name)):
            about[f"{name}_sha256"] = digest
    watch: Stopwatch | None = vars(options).get("watch")
    return {
        "schema": SCHEMA,
        "status": status,
        **own,
        **about,
        **found,
        "timings": watch.stages() if watch else [],
        "versions": versions(),
    }


def date() -> str:
    """Return the time in UTC as `2025-01-31T23:59:59Z`: now, or SOURCE_DATE_EPOCH for reproducible output."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isascii() and epoch.isdigit() else time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def sha256(path: str | None) -> str:
    """Return the digest of a model's file, without external weights; empty for an unreadable file."""
    if path is None or not os.path.isfile(path):  # noqa: PTH113 (Path.is_file raises for some names)
        return ""
    import hashlib

    try:
        with open(path, "rb") as file:  # noqa: PTH123 (the same)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # the reported error may be the same one
        return ""


def versions() -> dict[str, str]:
    """Return the versions of all involved packages, and the platform; missing packages are left out."""
    import importlib.metadata
    import platform

    found: dict[str, str] = {}
    for name in PACKAGES:
        # onnxruntime comes from several distributions, so only the module has its version.
        module = sys.modules.get(name)
        try:
            found[name] = str(getattr(module, "__version__", "")) or importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version(), "platform": platform.platform()}
