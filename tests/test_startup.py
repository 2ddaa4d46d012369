"""What a command costs before it does anything: CPU time beside that of the imports it cannot do without."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from opshift.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
MODEL = str(ROOT / "fixtures" / "classifier-opset18.onnxtxt")
SCRIPT = "import sys; from opshift.cli.main import main; sys.exit(main())"
"""What the console script does."""
PARSER = "import argparse; argparse.ArgumentParser().format_help()"
MOST = 2.0


def cpu_seconds(code: str, *arguments: str) -> float:
    """Return the CPU time of a Python process, of its children not, with compiled modules on disk."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def ratio(code: str, *arguments: str, bare: str) -> float:
    """Return the median CPU time of several runs, divided by that of the `bare` code; both are run in turn.

    What else the processor does adds to both, and to the longer run more: a ratio above MOST is measured again.
    """
    cpu_seconds(code, *arguments)
    runs, bare_runs, found = list[float](), list[float](), math.inf
    for turn in range(40):
        runs.append(cpu_seconds(code, *arguments))
        bare_runs.append(cpu_seconds(bare))
        found = statistics.median(runs) / statistics.median(bare_runs)
        if turn >= 6 and found <= MOST:
            break
    return found


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="CPU times of one child are those of os.wait4")
@pytest.mark.parametrize("arguments", [["--help"], ["convert", "--help"], ["--version"]], ids=" ".join)
def test_help_takes_twice_a_bare_parser_at_most(arguments: list[str]) -> None:
    assert ratio(SCRIPT, *arguments, bare=PARSER) <= MOST


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="CPU times of one child are those of os.wait4")
def test_inspect_takes_twice_the_import_of_onnx_at_most() -> None:
    assert ratio(SCRIPT, "inspect", MODEL, bare="import onnx") <= MOST


@pytest.mark.parametrize("name", COMMANDS)
def test_only_the_command_that_is_named_is_imported(name: str) -> None:
    code = (
        "import sys; from opshift.cli.main import COMMANDS, main; main(sys.argv[1:]); "
        "print(*(name for name in COMMANDS if f'opshift.cli.commands.{name}' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, name, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2].split() == [name]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each_module(name: str) -> None:
    module = __import__(f"opshift.cli.commands.{name}", fromlist=["run"])
    assert str(module.__doc__).partition("\n")[0] == COMMANDS[name]
