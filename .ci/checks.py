"""Run all checks: ruff, mypy --strict, the contracts of imports, the tests and the site; end with what was counted.

With `--slow`, the fast tier of the tests is left out, which `.ci/run` has run, and an eighth of the slow tests is run,
the commit says which: all of them take longer than a change should wait.

It needs a plain (not editable) installation of opshift with the extras `browser`, `ci`, `corpus`, `docs` and
`runtimes`, and installs three packages more, and Chromium, fish, npm and zsh where there are none (as root, on Debian
and its like). A skipped test is not a success: what the extras install may not be skipped, nor browser and shells, and
fewer tests than `LEAST`, a skip in a file of `NEVER_SKIPPED`, or more skips than `SKIPS`, are a failure.
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
"""Of so many slow tests one is run with `--slow`."""
LEAST, LEAST_SLOW = 34000, 3800
"""Tests that must have passed: of all, and of a part of the slow ones. They are here to notice files that are no longer
collected; raise them as tests are added."""
NEVER_SKIPPED = {"test_runtimes": 124, "test_runtime_faults": 120, "test_report_browser": 60}
"""Files that need more than Python, and how many tests of them must have passed: of a part of the slow ones, some. None
may be skipped."""
BARE = ("ncnn==1.0.20261020", "pnnx==20261020")
"""Packages installed without what they ask for: opencv-python, which gets in the way of the headless one, and torch."""
NODE = ("onnxruntime-web@1.30.0",)
"""Packages of npm, installed into this environment: of the version that the profiles were measured in."""
NODE_PATH = Path(sys.prefix) / "lib" / "node_modules"
PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "fish": ("fish",),
    "npm": ("npm",),
    "zsh": ("zsh",),
}
"""Packages of Debian, and the names that their programs are looked for under."""
FONTS = ("fonts-dejavu-core",)
"""Comes along with Chromium: without a font nothing is written in a browser."""
SKIPS = 12
"""Tests that may be skipped: what a platform or a newer onnxruntime does not offer. Each is printed with its reason."""
ASKED = ("OPSHIFT_BROWSER", "OPSHIFT_CI", "OPSHIFT_CORPUS", "OPSHIFT_DOCS", "OPSHIFT_RUNTIMES", "OPSHIFT_SHELLS")
"""Variables by which what is missing is a failure."""
TOOLS = ("hypothesis", "jsonschema", "pytest", "pytest-xdist")
ELSEWHERE = tuple(
    f"tests/{name}.py"
    for name in (
        "operators/test_hardmax",
        *("test_cli", "test_load", "test_lower", "test_plan", "test_verify"),
    )
)
"""What is run with the lowest versions of all dependencies, and in the newest other Python that is installed."""
SCRIPTS = (("tests", "fixtures", "benchmarks", ".ci"), ("docs",))
"""Folders of scripts, checked for types apart from the package; two scripts of one name are not checked together."""


def main() -> int:
    """Run every check, also after a failure, and return 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", action="store_true", help="of the tests, run those marked slow only")
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
    """Run a module of this environment in the project's folder; return whether it passed, and a line about it."""
    return run_script(name, "-m", module, *arguments)


def run_script(name: str, *arguments: str) -> tuple[bool, str]:
    """Run this Python in the project's folder, in the same way."""
    print(f"\n== {name}", flush=True)
    begun = time.monotonic()
    environment = {**os.environ, "NODE_PATH": str(NODE_PATH), **dict.fromkeys(ASKED, "1")}
    status = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=False)
    return status.returncode == 0, f"{name}, {time.monotonic() - begun:.0f} s"


def site() -> tuple[bool, str]:
    """Build the documents as a site; what sphinx warns of is a failure, and so is a link that leads nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        return run_script("site", "docs/build_site.py", folder)


def programs() -> tuple[bool, str]:
    """Install what is missing of Chromium and the shells; the tests look for them under the same names."""
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
    """Run the tests in as many processes as there are cores, and count what really ran."""
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
    """Return which of the parts is run of this commit; the first where there is no repository."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return 1 + (int(found.stdout, 16) % PARTS if found.returncode == 0 else 0)


def lowest() -> list[str]:
    """Return what pip is to install so that each dependency has the lowest version that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = [*project["dependencies"], *extras["verify"], *extras["report"]]
    return [f"{match[1]}=={match[2]}" for one in found if (match := re.match(r"([\w-]+)>=([\w.]+)", one))]


def others() -> list[tuple[str, str]]:
    """Return the other Pythons of this machine that opshift is for, those of pyenv included; the newest is the last."""
    found = []
    for minor in (11, 12, 13, 14):
        places = [f"python3.{minor}", *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))]
        paths = [path for place in places if (path := shutil.which(place))]
        # A shim of pyenv is there for versions that are not in use.
        works = [path for path in paths if subprocess.run([path, "-c", ""], check=False).returncode == 0]
        if works and sys.version_info[:2] != (3, minor):
            found.append((f"Python 3.{minor}", works[0]))
    return found


def elsewhere(name: str, python: str, *pins: str) -> tuple[bool, str]:
    """Install opshift from scratch for a Python, with these versions, and run the tests of `ELSEWHERE`."""
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


def _by_file(cases: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    """Yield a line a file of tests, with its seconds, how many passed and what else became of them."""
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
