"""Run all checks (ruff, mypy --strict, import contracts, tests, site), and print a summary with the numbers of tests.

`--slow` omits the fast tier, which `.ci/run` has already run, and runs an eighth of the slow tests, selected by the
commit: all slow tests take too long for each change.

The checks need a plain (not editable) installation of opshift with the extras `browser`, `ci`, `corpus`, `docs` and
`runtimes`. They install three more packages, and Chromium, fish, npm and zsh if they are missing (as root, on Debian or
a derivative). A skipped test is not a success: tests of the extras, the browser and the shells may not be skipped. The
checks fail if fewer than `LEAST` tests pass, a test in a file of `NEVER_SKIPPED` is skipped, or more than `SKIPS` are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PARTS = 8
"""`--slow` runs one of this many parts of the slow tests."""
LEAST, LEAST_SLOW = 34000, 3800
"""The minimum numbers of passed tests: of all tests, and of a part of the slow tests.

They detect files that are no longer collected. Raise them when tests are added.
"""
NEVER_SKIPPED = {"test_runtimes": 124, "test_runtime_faults": 120, "test_report_browser": 60}
"""Test files that need other programs, with the minimum number of passed tests (at least one in a part of the slow
tests). None may be skipped."""
BARE = ("ncnn==1.0.20261020", "pnnx==20261020")
"""Packages installed without their requirements: opencv-python, which conflicts with the headless build, and torch."""
NODE = ("onnxruntime-web@1.30.0",)
"""Packages of npm, installed into this environment, in the version that the profiles were measured with."""
NODE_PATH = Path(sys.prefix) / "lib" / "node_modules"
PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "fish": ("fish",),
    "npm": ("npm",),
    "zsh": ("zsh",),
}
"""Debian packages, with the possible names of their programs."""
FONTS = ("fonts-dejavu-core",)
"""Installed with Chromium: a browser without fonts displays no text."""
SKIPS = 12
"""The maximum number of skipped tests: features that a platform or a newer onnxruntime lacks. Reasons are printed."""
ASKED = ("OPSHIFT_BROWSER", "OPSHIFT_CI", "OPSHIFT_CORPUS", "OPSHIFT_DOCS", "OPSHIFT_RUNTIMES", "OPSHIFT_SHELLS")
"""Environment variables that make a missing package or program a failure."""
TOOLS = ("hypothesis", "jsonschema", "pytest", "pytest-xdist")
ELSEWHERE = tuple(
    f"tests/{name}.py"
    for name in (
        "operators/test_hardmax",
        *("test_cli", "test_load", "test_lower", "test_plan", "test_verify"),
    )
)
"""The tests that also run with the lowest versions of all dependencies, and in the newest other installed Python."""
SCRIPTS = (("tests", "fixtures", "benchmarks", ".ci"), ("docs",))
"""Folders of scripts that mypy checks apart from the package: it cannot check two scripts of the same name together."""


def main() -> int:
    """Run every check, also after a failure, and return 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", action="store_true", help="run only a part of the slow tests")
    slow = parser.parse_args().slow
    results = [
        run("ncnn and pnnx", "pip", "install", "--quiet", "--no-deps", *BARE),
        programs(),
        node_packages(),
        run("ruff check", "ruff", "check", "."),
        run("ruff format", "ruff", "format", "--check", "."),
        run("mypy, the package", "mypy", "--strict", "-p", "opshift"),
        *(run(f"mypy, {', '.join(folders)}", "mypy", "--strict", *folders) for folders in SCRIPTS),
        run_script(
            "import contracts", "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"
        ),
        tests(slow=slow),
        run("CPU times", "pytest", "-q", "-m", "alone"),
        site(),
        elsewhere("the lowest versions", sys.executable, *lowest()),
        *(elsewhere(name, path) for name, path in others()[-1:]),
    ]
    print("\n" + "\n".join(f"{'passed' if passed else 'FAILED':8}{line}" for passed, line in results))
    return 0 if all(passed for passed, _ in results) else 1


def run(name: str, module: str, *arguments: str) -> tuple[bool, str]:
    """Run a Python module in the project's folder; return whether it succeeded, and a line for the summary."""
    return run_script(name, "-m", module, *arguments)


def run_script(name: str, *arguments: str) -> tuple[bool, str]:
    """Run this Python with arguments in the project's folder, in the same way."""
    print(f"\n== {name}", flush=True)
    begun = time.monotonic()
    environment = {**os.environ, "NODE_PATH": str(NODE_PATH), **dict.fromkeys(ASKED, "1")}
    status = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=False)
    return status.returncode == 0, f"{name}, {time.monotonic() - begun:.0f} s"


def site() -> tuple[bool, str]:
    """Build the documentation site; warnings of sphinx and broken links are failures."""
    with tempfile.TemporaryDirectory() as folder:
        return run_script("site", "docs/build_site.py", folder)


def programs() -> tuple[bool, str]:
    """Install Chromium and the shells if they are missing; the tests search the same program names."""
    missing = [package for package, names in PROGRAMS.items() if not any(map(shutil.which, names))]
    if not missing:
        return True, f"{', '.join(PROGRAMS)}, which were there"
    print(f"\n== {', '.join(missing)}", flush=True)
    if not shutil.which("apt-get"):
        return False, f"{', '.join(missing)}: missing, and there is no apt-get; install them"
    missing += FONTS if "chromium" in missing else ()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *missing)):
        done = subprocess.run(["apt-get", "--quiet", "--quiet", *command], env=environment, check=False)
    return done.returncode == 0, f"apt-get install {' '.join(missing)}"


def node_packages() -> tuple[bool, str]:
    """Install the npm packages of the tests, without running their install scripts."""
    print(f"\n== {', '.join(NODE)}", flush=True)
    command = [
        "npm",
        "install",
        "--global",
        "--prefix",
        sys.prefix,
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        *NODE,
    ]
    return subprocess.run(command, check=False).returncode == 0, f"npm install {' '.join(NODE)}"


def tests(*, slow: bool) -> tuple[bool, str]:
    """Run the tests in one process per core, and count the outcomes."""
    tier = ("-m", "slow and not alone", f"--part={part()}/{PARTS}") if slow else ("-m", "not alone")
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        passed, line = run("tests", "pytest", "-q", "-n", "auto", *tier, "--durations=10", f"--junitxml={results}")
        if not results.exists():
            return False, f"{line}: pytest wrote no results"
        cases = [
            (_file(case), _outcome(case), float(case.get("time", 0)))
            for case in ElementTree.parse(results).iter("testcase")
        ]
    outcomes = Counter(outcome for _, outcome, _ in cases)
    print("\n" + "\n".join(_by_file(cases)))
    by_file = {file: Counter(outcome for name, outcome, _ in cases if name == file) for file in NEVER_SKIPPED}
    faults = list(_too_few(outcomes, by_file, slow=slow))
    counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    return passed and not faults, "; ".join([f"{line}: {counted}", *faults])


def part() -> int:
    """Return the part of the slow tests for this commit; the first part outside of a Git repository."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return 1 + (int(found.stdout, 16) % PARTS if found.returncode == 0 else 0)


def lowest() -> list[str]:
    """Return pip requirements with the lowest version of each dependency that pyproject.toml permits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = [*project["dependencies"], *extras["verify"], *extras["report"]]
    return [f"{match[1]}=={match[2]}" for one in found if (match := re.match(r"([\w-]+)>=([\w.]+)", one))]


def others() -> list[tuple[str, str]]:
    """Return the other supported Pythons of this machine, including those of pyenv; the newest is the last."""
    found = []
    for minor in (11, 12, 13, 14):
        places = [f"python3.{minor}", *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))]
        paths = [path for place in places if (path := shutil.which(place))]
        # pyenv has shims for inactive versions too, which fail.
        works = [path for path in paths if subprocess.run([path, "-c", ""], check=False).returncode == 0]
        if works and sys.version_info[:2] != (3, minor):
            found.append((f"Python 3.{minor}", works[0]))
    return found


def elsewhere(name: str, python: str, *pins: str) -> tuple[bool, str]:
    """Install opshift and these requirements in a new environment of a Python, and run the tests of `ELSEWHERE`."""
    print(f"\n== {name}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        commands: Sequence[Sequence[str | Path]] = (
            [python, "-m", "venv", folder],
            [there, "-m", "pip", "install", "--quiet", f"{ROOT}[report,verify]", *pins, *TOOLS],
            [there, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", *ELSEWHERE],
        )
        passed = all(subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands)
    return passed, f"{name}, {time.monotonic() - begun:.0f} s"


def _file(case: ElementTree.Element) -> str:
    """Return the module of a test without the folder `tests` and classes: `test_cli` or `operators.test_hardmax`."""
    parts = case.get("classname", "").split(".")
    return ".".join(part for part in parts if part != "tests" and not part.startswith("Test"))


def _outcome(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    if skipped is not None:
        # For example, a table without refusals.
        empty = skipped.get("message", "").startswith("got empty parameter set")
        return "empty" if empty else "skipped"
    for element, outcome in {"failure": "failed", "error": "error"}.items():
        if case.find(element) is not None:
            return outcome
    return "passed"


def _by_file(cases: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    """Yield a line for each test file, with its seconds and the numbers of its outcomes."""
    for file in sorted({name for name, _, _ in cases}):
        here = Counter(outcome for name, outcome, _ in cases if name == file)
        others = ", ".join(f"{number} {outcome}" for outcome, number in sorted(here.items()) if outcome != "passed")
        seconds = sum(spent for name, _, spent in cases if name == file)
        yield f"{file:32}{seconds:6.0f} s{here['passed']:6} passed{', ' if others else ''}{others}"


def _too_few(outcomes: Counter[str], by_file: Mapping[str, Counter[str]], *, slow: bool) -> Iterator[str]:
    least = LEAST_SLOW if slow else LEAST
    if outcomes["passed"] < least:
        yield f"at least {least} must pass"
    for file, here in by_file.items():
        if here["skipped"] or here["passed"] < (1 if slow else NEVER_SKIPPED[file]):
            yield f"of {file}, {here['passed']} passed and {here['skipped']} were skipped"
    if outcomes["skipped"] > SKIPS:
        yield f"at most {SKIPS} may be skipped"


if __name__ == "__main__":
    sys.exit(main())
