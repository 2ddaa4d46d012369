"""Print the operators that opshift knows, with their versions and decompositions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import terminal
from opshift.cli.reports.document import document
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.opsets.registry.operator import Operator


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift ops`."""
    parser.add_argument("operators", metavar="OPERATOR", nargs="*", help="print the decompositions of these in full")
    shared.add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print all operators, or details of some."""
    from opshift.opsets.registry.operator import known_operators, replaced_operators

    chosen = choose((*known_operators(), *replaced_operators()), options.operators)
    if options.json:
        terminal.print_json(document(options, 0, known_operators=[describe(operator) for operator in chosen]))
    elif options.operators:
        for operator in chosen:
            show_one(operator)
    else:
        show(chosen)
    return 0


def choose(known: Sequence[Operator], asked: Sequence[str]) -> list[Operator]:
    """Return the named operators, or all."""
    by_name = {qualified(operator): operator for operator in sorted(known, key=qualified)}
    for name in asked:
        if name not in by_name:
            raise UsageError(
                f"opshift has no operator {name!r}{shared.did_you_mean(name, by_name)} `opshift ops` lists all."
            )
    return [by_name[name] for name in asked] if asked else list(by_name.values())


def qualified(operator: Operator) -> str:
    """Return the name, with the domain unless it is ONNX's default domain."""
    return f"{operator.domain}::{operator.name}" if operator.domain not in ("", "ai.onnx") else operator.name


def describe(operator: Operator) -> dict[str, Any]:
    """Return an operator as JSON."""
    lowerings = [
        {"name": one.name, "opset": one.opset, "may_assume": one.assumes is not None, "summary": one.summary}
        for one in operator.lowerings
    ]
    return {
        "name": operator.name,
        "domain": operator.domain,
        "versions": [version.since for version in operator.versions],
        "lowerings": lowerings,
    }


def versions(operator: Operator) -> str:
    """Return the reviewed versions, as a cell."""
    return ", ".join(str(version.since) for version in operator.versions)


def show(operators: Sequence[Operator]) -> None:
    """Print a row for each operator."""
    from opshift.cli.wording import joined

    terminal.table(
        ("Operator", "Versions", "Lowerings"),
        [(qualified(one), versions(one), joined(lowering.name for lowering in one.lowerings)) for one in operators],
    )


def show_one(operator: Operator) -> None:
    """Print the details of an operator."""

    terminal.say(f"{qualified(operator)}: versions {versions(operator)}", "bold")
    rows = [(one.name, str(one.opset), "yes" if one.assumes else "no", one.summary) for one in operator.lowerings]
    if rows:
        terminal.table(("Lowering", "Written at opset", "Assumes", "What it does"), rows)
