"""Run all checks: ruff, mypy --strict and the tests; end with what was counted.

It needs a plain (not editable) installation of opshift with the extras `corpus` and `runtimes`, and installs two
packages more. A skipped test is not a success: neither corpus nor runtimes may be skipped, and fewer tests than
`LEAST`, fewer in real runtimes than `IN_RUNTIMES`, or more skips than `SKIPS`, are a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LEAST = 15500
"""Tests that must have passed. Raise it as tests are added: it is here to notice files that are no longer collected."""
IN_RUNTIMES = 103
"""Tests of test_runtimes.py that must have passed: all of them."""
BARE = ("ncnn==1.0.20261020", "pnnx==20261020")
"""Packages installed without what they ask for: opencv-python, which gets in the way of the headless one, and torch."""
SKIPS = 12
"""Tests that may be skipped: what a platform or a newer onnxruntime does not offer. Each is printed with its reason."""
SCRIPTS = (("tests", "fixtures", "benchmarks", ".ci"), ("docs",))
"""Folders of scripts, checked for types apart from the package; two scripts of one name are not checked together."""


def main() -> int:
    """Run every check, also after a failure, and return 1 if any failed."""
    results = [
        run("ncnn and pnnx", "pip", "install", "--quiet", "--no-deps", *BARE),
        run("ruff check", "ruff", "check", "."),
        run("ruff format", "ruff", "format", "--check", "."),
        run("mypy, the package", "mypy", "--strict", "-p", "opshift"),
        *(run(f"mypy, {', '.join(folders)}", "mypy", "--strict", *folders) for folders in SCRIPTS),
        tests(),
    ]
    print("\n" + "\n".join(f"{'passed' if passed else 'FAILED':8}{line}" for passed, line in results))
    return 0 if all(passed for passed, _ in results) else 1


def run(name: str, module: str, *arguments: str) -> tuple[bool, str]:
    """Run a module of this environment in the project's folder; return whether it passed, and a line about it."""
    print(f"\n== {name}", flush=True)
    begun = time.monotonic()
    environment = {**os.environ, "OPSHIFT_CORPUS": "1", "OPSHIFT_RUNTIMES": "1"}
    status = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, check=False)
    return status.returncode == 0, f"{name}, {time.monotonic() - begun:.0f} s"


def tests() -> tuple[bool, str]:
    """Run the tests in as many processes as there are cores, and count what really ran."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        passed, line = run("tests", "pytest", "-q", "-n", "auto", "--durations=10", f"--junitxml={results}")
        if not results.exists():
            return False, f"{line}: pytest wrote no results"
        cases = [(_file(case), _outcome(case)) for case in ElementTree.parse(results).iter("testcase")]
    outcomes = Counter(outcome for _, outcome in cases)
    print("\n" + "\n".join(_by_file(cases)))
    faults = list(_too_few(outcomes, cases.count(("test_runtimes", "passed"))))
    counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    return passed and not faults, "; ".join([f"{line}: {counted}", *faults])


def _file(case: ElementTree.Element) -> str:
    """Return `test_cli` or `operators.test_hardmax`: the module, without the folder `tests` and without classes."""
    parts = case.get("classname", "").split(".")
    return ".".join(part for part in parts if part != "tests" and not part.startswith("Test"))


def _outcome(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    if skipped is not None:
        # A table without refusals, say: there was nothing to run.
        empty = skipped.get("message", "").startswith("got empty parameter set")
        return "empty" if empty else "skipped"
    for element, outcome in {"failure": "failed", "error": "error"}.items():
        if case.find(element) is not None:
            return outcome
    return "passed"


def _by_file(cases: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a line a file of tests, with how many passed and what else became of them."""
    files = sorted({name for name, _ in cases})
    for file in files:
        here = Counter(outcome for name, outcome in cases if name == file)
        others = ", ".join(f"{number} {outcome}" for outcome, number in sorted(here.items()) if outcome != "passed")
        yield f"{file:32}{here['passed']:6} passed{', ' if others else ''}{others}"


def _too_few(outcomes: Counter[str], in_runtimes: int) -> Iterator[str]:
    if outcomes["passed"] < LEAST:
        yield f"at least {LEAST} must pass"
    if in_runtimes < IN_RUNTIMES:
        yield f"{IN_RUNTIMES} must pass in real runtimes, not {in_runtimes}"
    if outcomes["skipped"] > SKIPS:
        yield f"at most {SKIPS} may be skipped"


if __name__ == "__main__":
    sys.exit(main())
