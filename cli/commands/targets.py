"""Print the runtime profiles that --target accepts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import terminal
from opshift.cli.reports.document import document
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.opsets.runtimes.target import Target


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift targets`."""
    parser.add_argument(
        "target", metavar="NAME|FILE", nargs="?", help="print this profile as TOML, to start your own from"
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="open one-node models in the installed onnxruntime, and list the errors of its profile",
    )
    parser.add_argument(
        "--measure",
        metavar="NAME|FILE.py",
        help="run ONNX's node tests in a runtime that is installed here, and print what runs right as a profile: "
        "mnn, ncnn, onnxruntime, onnxruntime-web, opencv-4, openvino, tract, webgpu, or a Python file that adapts "
        "another runtime",
    )
    parser.add_argument("-o", "--output", metavar="OUT.toml", help="write the measured profile to this file")
    parser.add_argument(
        "--operators",
        metavar="A,B",
        type=shared.names,
        action="extend",
        default=[],
        help="measure only these operators",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")
    shared.add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print all profiles, or the details of one."""
    from opshift.opsets.runtimes.profile_source import ProfileError
    from opshift.opsets.runtimes.profiles import INSTALLED, builtin_targets, load_target

    if options.measure is not None:
        return measured(options)
    for option, name in ((options.output, "-o"), (options.operators, "--operators")):
        if option:
            raise UsageError(f"{name} requires --measure with the name of a runtime.")
    if options.target is not None:
        shared.check_target(options.target)
    if options.probe and options.target != INSTALLED:
        raise UsageError(f"--probe needs the installed onnxruntime: `opshift targets {INSTALLED} --probe`.")
    try:
        chosen = [load_target(name) for name in ([options.target] if options.target is not None else builtin_targets())]
    except ProfileError as error:
        raise UsageError(f"{error}" + "." * (not str(error).endswith("?"))) from error
    if options.probe:
        return probed(options, chosen[0])
    if options.json:
        terminal.print_json(document(options, 0, targets=[describe(target) for target in chosen]))
    elif options.target is not None:
        terminal.write_result(chosen[0].to_toml())
    else:
        show(chosen)
    return 0


def measured(options: argparse.Namespace) -> int:
    """Measure a runtime, and print or write its profile."""
    from opshift.opsets.runtimes.profiles import parse_target
    from opshift.passes.measurement.measure import measure

    if options.target is not None or options.probe:
        raise UsageError(
            "--measure prints the profile of the runtime it names; it cannot be combined with a profile or --probe."
        )
    if options.output is not None:
        shared.check_writable(options.output, "-o")
    with terminal.progress(options.quiet, verbose=False) as progress:
        try:
            found = measure(options.measure, operators=options.operators, progress=progress)
        except ImportError as error:
            raise UsageError(f"{options.measure} is not installed: {error}.") from error
    target = parse_target(found.profile, "the measured profile")
    if options.output is not None:
        save(found.profile, options.output)
    counts = f"{found.right} models ran right, {found.wrong} wrong, {found.refused} did not run"
    if options.json:
        terminal.print_json(document(options, 0, targets=[describe(target)]))
    elif options.output is None:
        terminal.write_result(found.profile)
    else:
        terminal.say(f"{found.name} {found.version}: {counts}. Written to {options.output}.")
    return 0


def save(profile: str, path: str) -> None:
    """Write a profile to a file atomically."""
    from opshift.passes.base.errors import reason
    from opshift.passes.io.atomic_files import Batch, destination_of

    shown = f"-o {terminal.plain(path)}"
    try:
        with Batch() as batch:
            batch.draft(destination_of(path).real, shown).write(profile.encode())
            batch.publish()
    except OSError as error:
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from error


def probed(options: argparse.Namespace, target: Target) -> int:
    """Print the nodes for which onnxruntime and its profile disagree."""
    from opshift.passes.runtime.kernel_probe import probe

    found = probe(target)
    if options.json:
        facts = {"confirmed": found.confirmed, "denied": found.denied, "untold": found.inconclusive}
        terminal.print_json(document(options, 0, probe={"target": target.name, **facts}))
        return 0
    for line in found.denied:
        terminal.say(line)
    terminal.say(
        f"opset {target.opset[1]}: {found.confirmed} nodes open, or lack a kernel, as in the profile; "
        f"{len(found.denied)} do not; {found.inconclusive} were rejected for other reasons."
    )
    return 0


def describe(target: Target) -> dict[str, Any]:
    """Return a profile as JSON."""
    fields: tuple[str, ...] = ("name", "version", "opset", "ir_version", "functions", "static", "measured", "domains")
    fields += ("operators", "without", "limits")
    return {field: getattr(target, field) for field in fields}


def show(targets: list[Target]) -> None:
    """Print a row for each profile."""
    if not targets:
        terminal.say("No profile is built in; --target accepts a TOML file.")
        return
    terminal.table(
        ("Target", "Version", "Opset", "ir_version", "Operators", "Without", "Limits"),
        [
            (
                one.name,
                one.version or "-",
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
