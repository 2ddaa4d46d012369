"""Run `plan`, `inspect` and `verify` for many models, one by one, and return the highest exit status."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence

from opshift.cli import terminal
from opshift.cli.reports.document import Stopwatch
from opshift.passes.base.errors import UsageError


def is_folder(path: str) -> bool:
    """Return whether there is a folder of this name."""
    return os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for some names)


def models(asked: Sequence[str]) -> list[str]:
    """Return the models of paths, folders and patterns, in their order, each once.

    Raises:
        UsageError: a folder or a pattern contains none.
    """
    if all(path == "-" or os.path.isfile(path) for path in asked):  # noqa: PTH113 (Path.is_file raises for some names)
        return list(dict.fromkeys(asked))
    from opshift.passes.batch import SUFFIXES, is_pattern, listed

    found: dict[str, None] = {}
    for path in asked:
        if path != "-" and (is_pattern(path) or is_folder(path)):
            within = sorted(map(str, listed(path)[1]))
            if not within:
                raise UsageError(f"there are no models ({', '.join(SUFFIXES)}) in {path}.")
            found.update(dict.fromkeys(within))
        else:
            found[path] = None
    return list(found)


def run(options: argparse.Namespace, one: Callable[[argparse.Namespace], int]) -> int:
    """Run a command for each model in `options.models`; return the highest status.

    A single path is run directly. For many, each result follows the model's name, or is one line of JSON.
    """
    asked = options.models
    found = models(asked)
    if found == asked and len(found) == 1:
        options.model = found[0]
        return one(options)
    return of_each(options, [{"model": model} for model in found], one)


def of_each(
    options: argparse.Namespace, cases: Sequence[dict[str, str]], one: Callable[[argparse.Namespace], int]
) -> int:
    """Run a command with the options of each case; return the highest status."""
    from opshift.cli.failure import fail

    if getattr(options, "report", None) is not None:
        raise UsageError("--report is for one model: give the models one by one, or use --json, one line each.")
    from opshift.cli.wording import count

    statuses = []
    for case in cases:
        own = argparse.Namespace(**{**vars(options), **case, "watch": Stopwatch(), "lines": True})
        if not options.json and options.command != "inspect":  # inspect's output begins with the name
            terminal.say(f"{' '.join(case.values())}:", "bold")
        try:
            statuses.append(one(own))
        except Exception as error:
            statuses.append(fail(error, own))
    if not options.json:
        well = statuses.count(0)
        terminal.say(
            f"{well} of {count(len(statuses), 'model')} without refusals, differences or errors.",
            "green" if well == len(statuses) else "bold red",
        )
    return max(statuses)
