"""`opshift convert` for many models: convert a folder or a pattern into another folder."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import terminal
from opshift.cli.commands.each import is_folder
from opshift.cli.reports.document import SCHEMA, document
from opshift.cli.reports.write import staged
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.passes.batch import Outcome

EXIT = {
    "converted": 0,
    "unchanged": 0,
    "refused": 1,
    "not equal": 1,
    "unreadable": 2,
    "not written": 2,
    "failed": 3,
}
"""The exit status of each outcome, as in a single conversion. With many models, the highest one counts."""

ALWAYS = ("converted", "unchanged", "refused", "not equal", "unreadable")
"""The outcomes that the table always counts, even at zero."""


def asked_for(options: argparse.Namespace) -> bool:
    """Return whether to convert a folder or a pattern; raise UsageError for options that require one."""
    from pathlib import Path

    from opshift.passes.batch import SUFFIXES, is_pattern

    if isinstance(options.model, list):
        if "-" in options.model:
            raise UsageError("standard input (-) is one model: give it alone.")
        if not is_folder(options.output) and Path(options.output).suffix in SUFFIXES:
            raise UsageError(
                f"{options.output} is one model, and {len(options.model)} are given: name a folder with -o."
            )
        return True
    if options.model == "-":
        return False
    if is_folder(options.model) or is_pattern(options.model) or into_folder(options.output):
        return True
    if options.jobs is not None or options.resume:
        name = "--resume" if options.resume else "--jobs"
        raise UsageError(f"{name} is for many models: paths, a folder, or a pattern in quotes. {options.model} is one.")
    return False


def into_folder(path: str | None) -> bool:
    """Return whether -o names a folder, because the pattern that a shell expanded may have matched one model."""
    return path is not None and (is_folder(path) or path.endswith(("/", os.sep)))


def run(options: argparse.Namespace, proof: dict[str, Any]) -> int:
    """Convert all models, print each result when it is done, and a table at the end."""
    if options.in_place:
        raise UsageError("--in-place is for one model: name a folder with -o for the results of many.")
    if options.output is None:
        raise UsageError("no output given: add -o FOLDER.")
    if os.path.lexists(options.output) and not is_folder(options.output):
        inputs = (
            f"{len(options.model)} models are given"
            if isinstance(options.model, list)
            else f"{options.model} stands for several models"
        )
        raise UsageError(f"{options.output} is not a folder, and {inputs}.")
    if options.jobs == 0:
        raise UsageError("--jobs 0: at least one model has to be converted at a time.")
    shared.check_report(options.report, ())
    request = {**shared.request(options), **proof, **shared.weights(options)}
    from opshift.passes.batch import convert_many

    outcomes: list[Outcome] = []
    with terminal.progress(options.quiet, verbose=False) as progress:
        found = convert_many(
            options.model,
            options.output,
            jobs=options.jobs or 1,
            resume=options.resume,
            progress=progress,
            **request,
        )
        try:
            for outcome in found:
                outcomes.append(outcome)
                if options.json:
                    made = {"schema": SCHEMA, "command": options.command, **describe(outcome)}
                    terminal.print_json(made, line=True)
                elif options.verbose and not terminal.is_live():
                    terminal.message(line(outcome))
        except KeyboardInterrupt:
            found.close()
            terminal.message("finished models are in the journal: repeat the command with --resume to continue")
            raise
    status = max(EXIT[outcome.status] for outcome in outcomes)
    outcomes.sort(key=lambda outcome: outcome.source)
    described = [describe(outcome) for outcome in outcomes]
    with staged(options.report, document(options, status, models=described)):
        if not options.json:
            show(outcomes, options.output, quiet=options.quiet, proven=not options.no_verify)
    return status


def describe(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON."""
    return {
        "status": EXIT[outcome.status],
        "model": outcome.source,
        "output": outcome.output,
        "outcome": outcome.status,
        "reason": outcome.reason,
        "verdict": outcome.verdict,
        "seconds": outcome.seconds,
        "resumed": outcome.resumed,
        "summary": outcome.plan,
    }


def line(outcome: Outcome) -> str:
    """Return an outcome as a line for --verbose."""
    done = "done earlier" if outcome.resumed else f"{outcome.seconds:.1f} s"
    return terminal.one_line(f"{outcome.source}: {outcome.status}, {done}. {outcome.reason}".rstrip())


def show(outcomes: Sequence[Outcome], folder: str, *, quiet: bool, proven: bool) -> None:
    """Print the problems, the number of models by outcome, and a final line."""
    from pathlib import Path

    from opshift.cli.wording import count

    counts = dict.fromkeys(ALWAYS, 0)
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    if not quiet:
        if rows := [
            (outcome.source, str(outcome.status), terminal.one_line(outcome.reason))
            for outcome in outcomes
            if EXIT[outcome.status] or (proven and outcome.reason)
        ]:
            terminal.table(("Model", "Outcome", "Reason"), rows)
            terminal.say()
        terminal.table(("Outcome", "Models"), [(name, str(number)) for name, number in counts.items()])
        if earlier := sum(outcome.resumed for outcome in outcomes):
            terminal.say(f"{count(earlier, 'model')} done by an earlier run.")
        if unproven := sum(not EXIT[outcome.status] and outcome.verdict != "equal" for outcome in outcomes):
            terminal.say(f"{count(unproven, 'result')} not verified.", "yellow")
    well = counts["converted"] + counts["unchanged"]
    style = "green" if well == len(outcomes) else "bold red"
    terminal.say(f"{well} of {count(len(outcomes), 'model')} written to {Path(folder)}.", style)
