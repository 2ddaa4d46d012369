"""Print a model's opset, operators and versions, and the opsets it can be converted to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opshift.cli import options as shared
from opshift.cli import streams, terminal
from opshift.cli.commands import each
from opshift.cli.reports.document import document

if TYPE_CHECKING:
    from opshift.passes.base.plan import Refusal
    from opshift.passes.inspection import Inspection, Stop


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift inspect`."""
    parser.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        help="models (.onnx or .onnxtxt, - for standard input), folders or patterns",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="list every refusal, for every opset")
    shared.add_options(parser, "assume_opset", "allow_paths")
    shared.add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Inspect each model and print."""
    return each.run(options, one)


def one(options: argparse.Namespace) -> int:
    """Inspect one model and print."""
    from opshift.passes.inspection import inspect

    found = inspect(
        streams.read(options.model), assume_opset=options.assume_opset, allow_paths=tuple(options.allow_paths)
    )
    if options.json:
        made = document(options, 0, inspection=found)
        terminal.print_json(made, line=getattr(options, "lines", False))
    else:
        show(options, found)
    return 0


def show(options: argparse.Namespace, found: Inspection) -> None:
    """Print the operators, and then the possible opsets."""
    operators = [
        (f"{domain}::{name}" if domain else name, "-" if since is None else str(since), str(count))
        for name, domain, since, count in found.operators
    ]
    terminal.say(
        f"{options.model}: opset {found.opset}, ir_version {found.ir_version}, by {found.producer or 'unknown'}"
    )
    others = [
        f"{domain} {version}" for domain, version in sorted(found.domains.items()) if domain not in ("", "ai.onnx")
    ]
    if others:
        terminal.say(f"Other domains: {', '.join(others)}")
    terminal.table(("Operator", "Since", "Nodes"), operators)
    terminal.say(f"Convertible to opset {ranges(found.reachable) or '(none)'}.")
    for stop in (found.down, found.up):
        if stop is not None:
            show_stop(stop, verbose=options.verbose)
    show_blocked(found, verbose=options.verbose)


def show_stop(stop: Stop, *, verbose: bool) -> None:
    """Print the blockers of the nearest opset, one line for each operator and cause."""
    from opshift.cli.wording import blocker

    terminal.say(f"Blockers of opset {stop.opset}:")
    for one in stop.obstacles:
        terminal.say(blocker(one, verbose=verbose))


def show_blocked(found: Inspection, *, verbose: bool) -> None:
    """Print the operators that block more distant opsets; or every refusal for every opset."""
    from opshift.cli import wording

    nearest = {stop.opset for stop in (found.down, found.up) if stop is not None}
    alike: dict[tuple[Refusal, ...] | str, list[int]] = {}
    for opset, refusals in sorted(found.blocked.items()):
        if verbose:
            alike.setdefault(refusals, []).append(opset)
        elif opset not in nearest:
            alike.setdefault(operators_of(refusals), []).append(opset)
    for what, opsets in alike.items():
        if isinstance(what, str):
            terminal.say(f"Blockers of opset {ranges(opsets)}: {what}.")
            continue
        terminal.say(f"Not convertible to opset {ranges(opsets)}:")
        for line in wording.refusals(what, verbose=True):
            terminal.say(line)


def operators_of(refusals: Sequence[Refusal]) -> str:
    """Return `3 x Einsum-12, 1 x Range-11`; a refusal without a node is named by its path."""
    from collections import Counter

    counts = Counter(one.operator or one.node for one in refusals)
    return ", ".join(f"{nodes} x {operator}" for operator, nodes in counts.most_common())


def ranges(opsets: Sequence[int]) -> str:
    """Return `9 to 13, 15` for 9, 10, 11, 12, 13, 15."""
    runs: list[list[int]] = []
    for opset in sorted(opsets):
        if runs and opset == runs[-1][-1] + 1:
            runs[-1].append(opset)
        else:
            runs.append([opset])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
