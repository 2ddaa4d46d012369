"""The document of a run: what --json prints and --report writes, whatever the command and however it ended."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from opshift.cli.output import ShowProgress

SCHEMA = 1
"""The version of docs/report.schema.json. It is raised where a key changes its meaning, or goes (docs/stability.md)."""

PACKAGES = ("opshift", "onnx", "onnxscript", "onnxruntime", "numpy")


class Stopwatch:
    """Measures the stages of a run by what is told of its progress."""

    def __init__(self) -> None:
        """Begin with no stage."""
        self._seconds: dict[str, float] = {}
        self._stage = ""
        self._since = 0.0

    def beside(self, show: ShowProgress | None) -> ShowProgress:
        """Return what is to be told of the progress, and passes it on."""

        def told(stage: str, done: int, total: int) -> None:
            if stage != self._stage:
                self._turn(stage)
            if show:
                show(stage, done, total)

        return told

    def _turn(self, stage: str) -> None:
        now = time.monotonic()
        if self._stage:
            self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages so far in order, with the seconds that each took."""
        self._turn(self._stage)
        return [{"stage": stage, "seconds": round(seconds, 3)} for stage, seconds in self._seconds.items()]


def document(options: argparse.Namespace, status: int, **found: Any) -> dict[str, Any]:
    """Return a document: what every one has, and what was found."""
    own = {
        name: vars(options)[name]
        for name in ("command", "model", "other", "output")
        if isinstance(vars(options).get(name), str)
    }
    watch: Stopwatch | None = vars(options).get("watch")
    return {
        "schema": SCHEMA,
        "status": status,
        **own,
        **found,
        "timings": watch.stages() if watch else [],
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of all that takes part, and the platform; packages that are not installed are left out."""
    import importlib.metadata
    import platform

    found: dict[str, str] = {}
    for name in PACKAGES:
        # onnxruntime comes from several distributions, of which the module alone tells.
        module = sys.modules.get(name)
        try:
            found[name] = str(getattr(module, "__version__", "")) or importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version(), "platform": platform.platform()}
