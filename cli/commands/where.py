"""Print which runtimes run a model: as it is, after conversion, or not.

examples:
  opshift where model.onnx
  opshift where models/ --target opencv-4,openvino --badge runs.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli import options as shared
from opshift.cli import streams, terminal
from opshift.cli.commands import each
from opshift.cli.failure import classify, text, traced
from opshift.cli.reports.document import document
from opshift.cli.reports.runtimes import Entry
from opshift.cli.reports.write import staged
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from opshift.passes.io.atomic_files import Batch
    from opshift.passes.where import Where


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `opshift where`."""
    parser.add_argument(
        "models",
        metavar="IN",
        nargs="+",
        help="models (.onnx or .onnxtxt, - for standard input), folders or patterns",
    )
    group = parser.add_argument_group("request")
    group.add_argument(
        "--target",
        metavar="NAME|FILE",
        type=shared.names,
        action="extend",
        default=[],
        help="runtime profiles, from `opshift targets` or TOML files, between commas; repeatable (default: all "
        "built-in ones, but only the oldest onnxruntime releases that run the model)",
    )
    shared.add_shape_options(group)
    shared.add_options(group, "allow_paths", "assume", "assume_opset")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--badge",
        metavar="FILE",
        help="write a badge (.svg) with the targets that run all models: of those not named, the measured ones",
    )
    output.add_argument(
        "-j", "--jobs", metavar="N", type=shared.whole_number, help="number of models to check in parallel (default: 1)"
    )
    shared.add_run_options(parser, output, verbose="list every blocker of every target")


def run(options: argparse.Namespace) -> int:
    """Check all models, and print one table."""
    models = each.models(options.models)
    if "-" in models and len(models) > 1:
        raise UsageError("standard input (-) is one model: give it alone.")
    if options.jobs == 0:
        raise UsageError("--jobs must be at least 1.")
    targets = list(dict.fromkeys(options.target))
    for target in targets:
        shared.check_target(target)
    files = set(models) - {streams.STREAM}
    shared.check_report(options.report, files)
    check_badge(options.badge, files, options.report)
    if len(models) == 1:
        options.model = models[0]
    request = {
        "targets": targets or None,
        **shared.arguments(options, "assume", "assume_opset", "input_shapes", "dims", "batch", "fold", "allow_paths"),
    }
    with terminal.progress(options.quiet, options.verbose) as progress:
        entries = list(looked_at(models, request, options, progress))
    status = max(entry.status for entry in entries)
    content = document(options, status, where=entries)
    written = status < 2
    with staged(options.report if written else None, content) as batch:
        if options.badge is not None and written:
            stage_badge(batch, options.badge, entries, targets)
        show(options, entries, content)
    return status


def check_badge(path: str | None, models: set[str], report: str | None) -> None:
    """Raise for a badge that is not an .svg file, or that would replace a model or the report."""
    if path is None:
        return
    if not path.casefold().endswith(".svg"):
        raise UsageError(f"--badge {path}: name a file that ends in .svg.")
    if any(shared.same_file(path, other) for other in models) or (report and shared.same_file(path, report)):
        raise UsageError(f"--badge {path} would replace a model or the report; name another file.")
    shared.check_writable(path, "--badge")


def stage_badge(batch: Batch, path: str, entries: Sequence[Entry], targets: Sequence[str]) -> None:
    """Write the badge together with the report."""
    from opshift.cli.reports.badge import badge
    from opshift.passes.base.errors import reason
    from opshift.passes.io.atomic_files import destination_of

    shown = f"--badge {terminal.plain(path)}"
    try:
        named = [fit.target for entry in entries if entry.found for fit in entry.found.fits if targets]
        batch.draft(destination_of(path).real, shown).write(badge(entries, named).encode())
    except OSError as error:
        raise UsageError(f"{shown} cannot be written: {reason(error)}.") from error


def looked_at(
    models: Sequence[str], request: dict[str, Any], options: argparse.Namespace, progress: Any
) -> Iterator[Entry]:
    """Yield an entry for each model, in order."""
    jobs = min(options.jobs or 1, len(models))
    if jobs == 1:
        for model in models:
            callback = progress if len(models) == 1 else counted(progress, model, models)
            yield entry_or_error(model, request, debug=options.debug, progress=callback)
        return
    from opshift.passes.runtime.process_pool import Processes

    pool = Processes(jobs)
    try:
        futures = [pool.submit(entry_or_error, model, request, debug=options.debug) for model in models]
        for count, (model, future) in enumerate(zip(models, futures, strict=True)):
            if progress:
                progress("models", count, len(models))
            try:
                yield future.result()
            except Exception as error:  # its process died
                yield failed(model, error)
    finally:
        pool.stop()


def counted(progress: Any, model: str, models: Sequence[str]) -> Any:
    """Return a progress callback that adds the number of the current model."""
    place = models.index(model)
    return (lambda stage, done, total: progress("models", place, len(models))) if progress else None


def entry_or_error(model: str, request: dict[str, Any], *, debug: bool, progress: Any = None) -> Entry:
    """Check one model without raising an exception. It may run in a separate process."""
    from opshift.passes.where import where

    try:
        found = where(streams.read(model), **request, progress=progress)
    except Exception as error:
        if debug:
            traced(error)
        return failed(model, error)
    return entry_of(model, found, bool(request["targets"]))


def entry_of(model: str, found: Where, named: bool) -> Entry:
    """Return the entry of a model; a refusal counts only if the targets were named."""
    refused = any(fit.refusals for fit in found.fits)
    return Entry(model, int(named and refused), found)


def failed(model: str, error: Exception) -> Entry:
    """Return the entry of a model that failed."""
    status, kind = classify(error)
    return Entry(model, status, error={"kind": kind, "message": text(error, status)})


def show(options: argparse.Namespace, entries: Sequence[Entry], content: dict[str, Any]) -> None:
    """Print JSON or the table; with --quiet only the last line. Errors of single models are messages."""
    from opshift.cli.reports import runtimes

    many = len(entries) > 1
    if options.json:
        terminal.print_json(content)
        return
    if not many and entries[0].error:
        terminal.message(f"error: {entries[0].error['message']}")
        return
    if not options.quiet:
        for line in runtimes.headings(entries):
            terminal.say(line)
        heads = ("Model", *runtimes.COLUMNS) if many else runtimes.COLUMNS
        rows = [(row.model, *row.cells) if many else row.cells for row in runtimes.rows(entries)]
        terminal.table(heads, rows)
        if options.verbose:
            show_refusals(entries)
    bad = any(entry.status for entry in entries)
    terminal.say(f"{runtimes.summary(entries)}.", "bold red" if bad else "green")


def show_refusals(entries: Sequence[Entry]) -> None:
    """Print all blockers, by model and target."""
    from opshift.cli.wording import refusals

    for entry in entries:
        for fit in entry.found.fits if entry.found else ():
            if fit.refusals:
                terminal.say(f"Blockers of {entry.model} for {fit.target}:")
            for line in refusals(fit.refusals, verbose=True):
                terminal.say(line)
