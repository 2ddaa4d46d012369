"""Print the runtime profiles that --target takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import output
from opshift.passes.errors import UsageError

if TYPE_CHECKING:
    from opshift.opsets.target import Target


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift targets`."""
    parser.add_argument(
        "target", metavar="NAME|FILE", nargs="?", help="print this profile as TOML, to start an own one from"
    )
    shared.add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print all profiles, or one in full."""
    from opshift.opsets.profiles import ProfileError, builtin_targets, load_target

    if options.target is not None:
        shared.check_target(options.target)
    try:
        chosen = [load_target(name) for name in ([options.target] if options.target is not None else builtin_targets())]
    except ProfileError as error:
        raise UsageError(f"{error}.") from error
    if options.json:
        output.print_json({"status": 0, "command": "targets", "targets": [describe(target) for target in chosen]})
    elif options.target is not None:
        output.write_result(chosen[0].to_toml())
    else:
        show(chosen)
    return 0


def describe(target: Target) -> dict[str, Any]:
    """Return a profile as JSON has it."""
    fields = ("name", "opset", "ir_version", "operators", "without", "limits")
    return {field: getattr(target, field) for field in fields}


def show(targets: list[Target]) -> None:
    """Print a row a profile."""
    if not targets:
        output.say("No profile is built in; --target takes a TOML file.")
        return
    output.table(
        ("Target", "Opset", "ir_version", "Operators", "Without", "Limits"),
        [
            (
                one.name,
                span(one.opset),
                span(one.ir_version),
                "all" if one.operators is None else str(len(one.operators)),
                str(len(one.without)),
                str(len(one.limits)),
            )
            for one in targets
        ],
    )


def span(ends: tuple[int, int] | None) -> str:
    """Return `9 to 13`."""
    return "any" if ends is None else f"{ends[0]} to {ends[1]}"
