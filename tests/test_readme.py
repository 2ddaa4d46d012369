"""README.md does what it says: its commands run, and print what it shows."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_docs import ROOT, generator

from opshift.cli.main import COMMANDS

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(
    BASH is None or os.name != "posix", reason="the README's commands are for a POSIX shell"
)


def commands(kind: str) -> list[str]:
    """What stands in the blocks of a kind."""
    return [block.body for block in generator().blocks(README) if block.kind == kind]


def test_there_are_two_commands_for_a_fresh_machine() -> None:
    """Each is one line: what a reader copies."""
    install, test = commands("sh")
    assert install.count("\n") == 1
    assert test.count("\n") == 1
    assert " opshift" not in install.split("&&")[1], "it installs from the checkout"


def test_ci_runs_the_second_and_then_the_rest() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lines = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert lines[:3] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "export CI=true"]
    assert lines[3] + "\n" == commands("sh")[1]
    assert [line.split()[1:3] for line in lines[4:]] == [["-m", "pip"], [".ci/checks.py", "--slow"]]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@needs_bash
def test_outputs_are_what_the_commands_print() -> None:
    """Every `console` and `python` block, run in order. `python docs/generate.py` mends this."""
    generate = generator()
    difference = generate.outdated(generate.README, generate.refreshed(README))
    assert not difference, "".join(difference)


def packages_of(requirements: list[str]) -> set[str]:
    """Return the installed distributions that these requirements bring along, themselves included."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        one = waiting.pop()
        if one.name == "opshift" or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        if one.name not in found:
            found.add(one.name)
            waiting += [Requirement(text) for text in importlib.metadata.distribution(one.name).requires or []]
    return found


def test_the_test_command_installs_less_than_400_megabytes() -> None:
    """Without opshift itself and pip, which are 30: a virtual environment made by this command had 373."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = packages_of([*project["dependencies"], *extras["verify"], *extras["report"], *extras["dev"]])
    files = [file for name in found for file in importlib.metadata.files(name) or []]
    assert {"onnxruntime", "pytest"} <= found
    assert not {"torch", "mypy"} & found
    assert sum(Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).exists()) < 360e6


@needs_bash
@pytest.mark.slow
def test_first_command_installs_converts_and_proves(tmp_path: Path) -> None:
    """In a copy of the checkout, with a virtual environment of its own."""
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "*.egg-info", "build", "__pycache__")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    # `python3` is the interpreter of these tests, as far as it has the name.
    path = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        ["bash", "-c", commands("sh")[0]],
        cwd=checkout,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (shown,) = (block.split("\n", 1)[1] for block in commands("console") if "all-three" in block)
    assert generator().normal(done.stdout) == generator().normal(shown)
    assert done.stdout.splitlines()[-1].startswith("verified: ")
    assert (checkout / "plain.onnx").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_listed(command: str) -> None:
    assert f"opshift {command}" in COMMANDS_PAGE


def test_every_exit_status_is_explained() -> None:
    for status in range(4):
        assert f"| {status} | " in COMMANDS_PAGE


def test_text_blocks_belong_to_something() -> None:
    """A block of output follows the Python that prints it, or the command of the benchmark that it was copied from."""
    blocks = generator().blocks(README)
    assert not [i for i, block in enumerate(blocks) if block.kind == "text" and blocks[i - 1].kind != "python"]
    page = (ROOT / "docs" / "converters.md").read_text(encoding="utf-8")
    tables = [block.body for block in generator().blocks(page)]
    scripts = ("python benchmarks/against_converters.py", "python benchmarks/backend_cases.py")
    assert len(tables) == len(scripts)
    assert all("onnx.version_converter" in table for table in tables)
    assert all(script in page for script in scripts)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_prose_counts_operators_rightly() -> None:
    from opshift.opsets.registry.operator import known_operators

    assert "over 145 other operators" in README
    assert 145 < len(known_operators()) - 3 < 170
