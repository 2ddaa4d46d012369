"""`opshift completion SHELL`: the scripts, sourced in the real shells, and what these complete then."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opshift.cli.commands.completion import SHELLS, script
from opshift.cli.main import COMMANDS, build, main

PROFILES = ["openvino", "opencv-4"]


def needs(shell: str) -> None:
    """Skip where there is no such shell; in CI they are installed."""
    if shutil.which(shell) is None and os.environ.get("OPSHIFT_SHELLS") != "1":
        pytest.skip(f"there is no {shell}")


def in_bash(line: str, wanted: set[str], folder: Path) -> set[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    (folder / "script").write_text(script(build(), "bash"), encoding="utf-8")
    # What readline does when the key is pressed: it fills these in and calls the function.
    code = f"""
source ./script
COMP_WORDS=({" ".join(word or "''" for word in words)}); COMP_CWORD={len(words) - 1}
$(complete -p opshift | sed 's/.*-F \\([^ ]*\\) .*/\\1/') opshift
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return _lines(["bash", "--norc", "-c", code], folder)


def in_fish(line: str, wanted: set[str], folder: Path) -> set[str]:
    """Return what fish offers for the last word of a line."""
    (folder / "script").write_text(script(build(), "fish"), encoding="utf-8")
    environment = {"HOME": str(folder)}
    code = f"source ./script; complete -C '{line}'"
    return {found.split("\t")[0] for found in _lines(["fish", "--no-config", "-c", code], folder, **environment)}


def _lines(command: list[str], folder: Path, **environment: str) -> set[str]:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return set(done.stdout.split("\n")) - {""}


def in_zsh(line: str, wanted: set[str], folder: Path) -> set[str]:
    """Return what zsh lists, or fills in, for the last word of a line: typed on a terminal, which zsh alone asks for.

    There is no telling when it is done; so this waits for what is wanted, and then for silence.
    """
    import pty

    functions = folder / ".functions"
    functions.mkdir(exist_ok=True)
    (functions / "_opshift").write_text(script(build(), "zsh"), encoding="utf-8")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "", "HOME": str(folder), "COLUMNS": "500"}
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)

    def until(words: set[str]) -> set[str]:
        said, end = "", time.monotonic() + 60.0
        while (not words <= _words(said) and time.monotonic() < end) or select.select([terminal], [], [], 0.5)[0]:
            if select.select([terminal], [], [], 0.1)[0]:
                said += os.read(terminal, 65536).decode()
        return _words(said)

    try:
        # Many columns keep words whole; without an echo, what is typed here is not taken for an answer.
        setup = f"fpath+={functions}; autoload -U compinit; compinit -u -D; stty -echo columns 500"
        os.write(terminal, f"{setup}; print -r REA''DY\n".encode())
        until({"READY"})
        os.write(terminal, f"{line}\t\t".encode())
        return until(wanted)
    finally:
        os.write(terminal, b"\x15exit\n")
        os.close(terminal)
        os.waitpid(pid, 0)


def _words(said: str) -> set[str]:
    """Return the words in what was written on a terminal, without what moves the cursor."""
    return set(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x07\x08]", " ", said).split())


ASK = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}

posix = pytest.mark.skipif(os.name != "posix", reason="shells and terminals of another kind")


@pytest.mark.slow
@posix
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("opshift con", {"convert"}, {"plan"}),
        ("opshift ", set(COMMANDS), {"--opset"}),
        ("opshift convert --o", {"--opset", "--output", "--optimize"}, {"--target"}),
        ("opshift convert --target ope", set(PROFILES), {"mnn"}),
        ("opshift convert --target min", {"mine.toml"}, set(PROFILES)),
        ("opshift plan --semantics ", {"runtime", "spec"}, {"convert"}),
        ("opshift plan --decompose Hard", {"Hardmax", "HardSwish"}, {"ArgMax"}),
        ("opshift plan --decompose com.microsoft", {"com.microsoft", "com.microsoft::FusedGemm"}, {"ai.onnx.ml"}),
        ("opshift ops OneH", {"OneHot"}, {"ArgMax"}),
        ("opshift inspect mod", {"model.onnx"}, {"mine.toml"}),
        ("opshift completion ", set(SHELLS), {"tcsh"}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_shells_complete(shell: str, line: str, offered: set[str], not_offered: set[str], tmp_path: Path) -> None:
    needs(shell)
    for name in ("mine.toml", "model.onnx"):
        (tmp_path / name).touch()
    found = ASK[shell](line, offered, tmp_path)
    assert offered <= found
    assert not not_offered & found


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_option_of_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed == script(build(), shell)
    (commands,) = (action.choices for action in build()._actions if isinstance(action.choices, dict))
    for name, parser in commands.items():
        assert name in printed
        for option in parser._option_string_actions:
            asked = option.replace("--", "-l ") if option.startswith("--") else option.replace("-", "-s ")
            assert (asked if shell == "fish" else option) in printed


def test_nothing_is_loaded_for_it_before_it_is_asked_for() -> None:
    code = "import sys; from opshift.cli.main import main; main(['--help']); sys.exit('shtab' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("arguments", [["completion"], ["completion", "tcsh"], ["completion", "bash", "--opset"]])
def test_what_is_no_shell_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err
