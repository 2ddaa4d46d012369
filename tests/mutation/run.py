"""The command line: draw mutants, ask verification, and list those that it calls equal."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import onnx
from differential.runtimes import LoadError, NoKernelError, RunError
from onnx import ModelProto

from mutation import report, shown
from mutation.faults import Fault, faults
from mutation.report import Mutant
from mutation.subjects import Subject, draw_subject

_ATTEMPTS = 12
"""Faults that are tried on a subject until one is shown to differ."""


def draw_mutant(seed: int, index: int, operators: Sequence[str] = ()) -> tuple[Subject, Fault, ModelProto] | None:
    """Return a subject, a fault and the mutant; None if no fault that is tried is shown to differ."""
    subject = draw_subject(seed, index, operators)
    if subject is None:
        return None
    rng = np.random.default_rng([seed, index, 11])
    trials = _telling(subject, shown.accepted(subject.original, shown.feeds_of(subject.feeds, rng)))
    if not trials:
        return None
    found = faults(subject.rewritten, rng)
    for fault in _ordered(found, subject.operator, rng)[:_ATTEMPTS]:
        mutant = fault.applied(subject.rewritten)
        try:
            if shown.difference(subject.original, mutant, trials, rng) is not None:
                return subject, fault, mutant
        except (LoadError, NoKernelError):
            continue
        except Exception:  # the edit made something that no message can be made of
            continue
    return None


def _telling(
    subject: Subject, trials: Sequence[tuple[shown.Feed, shown.Outputs]]
) -> list[tuple[shown.Feed, shown.Outputs]]:
    """Return the inputs that have a defined result, from which the right rewrite does not depart either."""
    rng = np.random.default_rng([subject.original.ByteSize(), 13])
    defined = shown.defined(subject.original, trials)
    if subject.rewritten is subject.original:
        return defined
    try:
        return [one for one in defined if shown.difference(subject.original, subject.rewritten, [one], rng) is None]
    except (LoadError, NoKernelError):
        return []


def _ordered(found: Sequence[Fault], operator: str, rng: np.random.Generator) -> list[Fault]:
    """Return faults in random order: each class as likely as another, those of the operator before others."""
    kinds: dict[tuple[str, bool], list[Fault]] = {}
    for place in rng.permutation(len(found)):
        fault = found[place]
        kinds.setdefault((fault.kind, fault.operator == operator), []).append(fault)
    groups = [kinds[key] for key in sorted(kinds)]
    order = sorted(range(len(groups)), key=lambda at: rng.random() + (not _own(groups[at], operator)) * 0.5)
    rows = [groups[at] for at in order]
    return [row[turn] for turn in range(max(map(len, rows), default=0)) for row in rows if turn < len(row)]


def _own(group: Sequence[Fault], operator: str) -> bool:
    return group[0].operator == operator


def judge(seed: int, index: int, operators: Sequence[str] = (), *, right: bool = False) -> Mutant | None:
    """Draw a mutant, or with `right` a right rewrite, and verify it at default effort."""
    import opshift

    subject: Subject | None
    if right:
        subject = draw_subject(seed, index, operators)
        if subject is None or subject.original is subject.rewritten:
            return None
        kind, what, model = "right", "", subject.rewritten
    else:
        drawn = draw_mutant(seed, index, operators)
        if drawn is None:
            return None
        subject, fault, made = drawn
        kind, what, model = fault.kind, f"{fault.operator}: {fault.what}", made
    begun = time.process_time()
    try:
        check = opshift.verify(subject.original, model).whole
        verdict, reason = check.verdict.value, check.reason
    except Exception as error:
        verdict, reason = "raised", repr(error)
    seconds = time.process_time() - begun
    return Mutant(seed, index, subject.operator, subject.place, kind, what, verdict, reason, round(seconds, 2))


def _limit() -> None:
    """Limit the memory of this process: a mutant may ask for any size."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    warnings.simplefilter("ignore")


_MEMORY = 5 << 29


def _worker(task: _Task) -> Mutant | None:
    seed, index, operators, right = task
    try:
        return judge(seed, index, operators, right=right)
    except Exception as error:
        return Mutant(seed, index, "", "", "generator failed", "", "", repr(error), 0.0)


def judged(
    seed: int, count: int, operators: tuple[str, ...] = (), *, right: bool = False, jobs: int = 1, until: float = 1e18
) -> Iterator[Mutant]:
    """Yield so many mutants with their verdicts, or fewer if a time of the monotonic clock comes first."""
    tasks = [(seed, index, operators, right) for index in range(20 * count)]
    parts = [tasks[begin : begin + _AT_ONCE] for begin in range(0, len(tasks), _AT_ONCE)]
    if jobs == 1:
        yield from _limited(itertools.chain.from_iterable(map(_apart, parts)), count, until)
        return
    with ThreadPool(jobs) as pool:
        results = itertools.chain.from_iterable(pool.imap_unordered(_apart, parts))
        yield from _limited(results, count, until)


_Task = tuple[int, int, tuple[str, ...], bool]
_AT_ONCE = 40
"""Mutants that one process draws and verifies."""


def _apart(tasks: Sequence[_Task]) -> list[Mutant | None]:
    """Return the mutants of some tasks, drawn in another process: models with faults end onnxruntime, and so it."""
    found: list[Mutant | None] = []
    while len(found) < len(tasks):
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_serve, args=(theirs, tasks[len(found) :]), daemon=True)
        child.start()
        theirs.close()
        try:
            while len(found) < len(tasks):
                found.append(ours.recv())
        except EOFError:
            seed, index, _, _ = tasks[len(found)]
            found.append(Mutant(seed, index, "", "", "generator failed", "", "", "onnxruntime ended the process", 0.0))
        child.join()
        ours.close()
    return found


def _serve(connection: Connection, tasks: Sequence[_Task]) -> None:
    """Send the mutant of each task."""
    _limit()
    for task in tasks:
        connection.send(_worker(task))


def _limited(results: Iterator[Mutant | None], count: int, until: float) -> Iterator[Mutant]:
    done = 0
    for one in results:
        if one is not None:
            yield one
            done += one.kind != "generator failed"
        if done >= count or time.monotonic() > until:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the mutation score, and the share of right rewrites that are refused."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutants (%(default)s)")
    parser.add_argument("--rights", type=int, default=0, help="right rewrites (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many seconds")
    parser.add_argument("--operators", default="", help="names, separated by commas; all if not given")
    parser.add_argument("--case", help="judge SEED:INDEX alone and print both models")
    parser.add_argument("--right", action="store_true", help="with --case: the right rewrite")
    parser.add_argument("--results", type=Path, help="add each result to this file, as a line of JSON, and sum up all")
    parser.add_argument("--write", action="store_true", help="write the summary into docs/verification.md")
    options = parser.parse_args(arguments)
    names = tuple(filter(None, options.operators.split(",")))
    if options.case:
        return _single(options.case, names, options.right)
    before = options.results.read_text(encoding="utf-8") if options.results and options.results.exists() else ""
    found = [Mutant(**json.loads(line)) for line in before.splitlines()]
    until = time.monotonic() + options.seconds
    asked = ((options.count, False), (options.rights, True))
    runs = (
        judged(options.seed, count, names, right=right, jobs=options.jobs, until=until)
        for count, right in asked
        if count
    )
    for one in itertools.chain.from_iterable(runs):
        found.append(one)
        if options.results:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(one)) + "\n")
        if not one.passes:
            print(f"{one.verdict} {one.name} {one.operator} ({one.place}) {one.what}: {one.reason[:300]}", flush=True)
    print(report.summary(found))
    if options.write:
        report.write(found)
    return 0


def _single(case: str, operators: tuple[str, ...], right: bool) -> int:
    seed, index = map(int, case.split(":"))
    if right:
        subject = draw_subject(seed, index, operators)
        mutant = subject.rewritten if subject else None
    else:
        drawn = draw_mutant(seed, index, operators)
        subject, mutant = (drawn[0], drawn[2]) if drawn else (None, None)
    if subject is None or mutant is None:
        print("onnxruntime does not run it, or no fault is shown to differ")
        return 1
    print(onnx.printer.to_text(subject.original))
    print(onnx.printer.to_text(mutant))
    if not right:
        rng = np.random.default_rng([seed, index, 11])
        trials = _telling(subject, shown.accepted(subject.original, shown.feeds_of(subject.feeds, rng)))
        number = shown.difference(subject.original, mutant, trials, rng)
        if number is not None:
            print("\n".join(shown.readable(trials[number][0])))
            print(trials[number][1])
            with contextlib.suppress(RunError):
                print(shown.run(mutant, [trials[number][0]])[0])
    print(judge(seed, index, operators, right=right))
    return 0


if __name__ == "__main__":
    sys.exit(main())
