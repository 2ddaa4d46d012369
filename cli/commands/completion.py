"""Print a completion script for bash, zsh or fish.

examples:
  opshift completion bash > ~/.local/share/bash-completion/completions/opshift
  opshift completion zsh > ~/.zfunc/_opshift     (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  opshift completion fish > ~/.config/fish/completions/opshift.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from opshift.cli import terminal

SHELLS = ("bash", "zsh", "fish")

FILES = frozenset({"IN", "OUT", "A", "B", "FILE", "FILE|DIR"})
"""The metavars of options and arguments that are paths."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift completion`."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")
    parser.set_defaults(json=False, debug=False)


def run(options: argparse.Namespace) -> int:
    """Print the script. It is self-contained: completion does not run opshift."""
    terminal.write_result(script(options.build(), options.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell, with all commands of the parser and their options."""
    import shtab

    from opshift.opsets.registry.operator import known_operators, replaced_operators
    from opshift.opsets.runtimes.profiles import builtin_targets

    operators = sorted({operator.name for operator in known_operators() if not operator.domain})
    replaced = [one for one in replaced_operators() if one.domain]
    foreign = sorted({*(one.domain for one in replaced), *(f"{one.domain}::{one.name}" for one in replaced)})
    if shell == "zsh":  # a colon ends a field of zsh's `_arguments`
        foreign = [name.replace(":", r"\:") for name in foreign]
    # shtab reads the attribute `complete`, which argparse and its types do not define.
    for action in _actions(parser):
        if action.metavar in ("A,B", "OPERATOR"):
            action.choices = operators + foreign if action.metavar == "A,B" else operators
        elif action.metavar == "NAME|FILE":
            action.complete = _names_or_files(builtin_targets())  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    made: str = shtab.complete(parser, shell)
    return made.rstrip("\n") + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser, and of the parsers of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)


def _names_or_files(names: Iterable[str]) -> dict[str, str | dict[str, str]]:
    """Return each shell's completion of a profile's name or a file."""
    words = " ".join(names)
    return {
        "bash": "_opshift_targets",
        "zsh": "_opshift_targets",
        "fish": f"{words} (__fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'_opshift_targets() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f'_opshift_targets() {{ _alternative "profiles:profile:({words})" "files:file:_files"; }}',
        },
    }
