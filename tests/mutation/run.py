"""The command line: draw mutants, ask verification, and list those that it calls equal."""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from differential.runtimes import LoadError, NoKernelError, RunError, run

from mutation import shown
from mutation.faults import Fault, faults
from mutation.subjects import Subject, draw_subject

_ATTEMPTS = 12
"""Faults that are tried on a subject until one is shown to differ."""


@dataclass(frozen=True)
class Mutant:
    """What verification says of a mutant that is shown to differ, or of a right rewrite.

    Attributes:
        seed, index: draw it again.
        operator: that the model was drawn for.
        place: where its node is.
        kind: the class of the fault; "right" for a right rewrite.
        what: the fault.
        verdict: of verification.
        reason: of the verdict.
        seconds: that verification took.
    """

    seed: int
    index: int
    operator: str
    place: str
    kind: str
    what: str
    verdict: str
    reason: str
    seconds: float


def draw_mutant(seed: int, index: int, operators: Sequence[str] = ()) -> tuple[Subject, Fault, object] | None:
    """Return a subject, a fault and the mutant; None if no fault that is tried is shown to differ."""
    subject = draw_subject(seed, index, operators)
    if subject is None:
        return None
    rng = np.random.default_rng([seed, index, 11])
    trials = shown.accepted(subject.original, shown.feeds_of(subject.feeds, rng))
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
        kind, what, model = fault.kind, f"{fault.operator}: {fault.what}", made  # type: ignore[assignment]
    begun = time.process_time()
    try:
        check = opshift.verify(subject.original, model).whole
        verdict, reason = check.verdict.value, check.reason
    except Exception as error:
        verdict, reason = "raised", repr(error)
    seconds = time.process_time() - begun
    return Mutant(seed, index, subject.operator, subject.place, kind, what, verdict, reason, round(seconds, 2))


def _worker(task: tuple[int, int, tuple[str, ...], bool]) -> Mutant | None:
    seed, index, operators, right = task
    try:
        return judge(seed, index, operators, right=right)
    except Exception as error:
        return Mutant(seed, index, "", "", "generator failed", "", "", repr(error), 0.0)


def judged(
    seed: int, count: int, operators: tuple[str, ...] = (), *, right: bool = False, jobs: int = 1, until: float = 1e18
) -> Iterator[Mutant]:
    """Yield so many mutants with their verdicts, or fewer if a time of the monotonic clock comes first."""
    indices = ((seed, index, operators, right) for index in range(20 * count))
    if jobs == 1:
        results: Iterator[Mutant | None] = map(_worker, indices)
        yield from _limited(results, count, until)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=200) as pool:
        yield from _limited(pool.imap_unordered(_worker, indices), count, until)
        pool.terminate()


def _limited(results: Iterator[Mutant | None], count: int, until: float) -> Iterator[Mutant]:
    done = 0
    for one in results:
        if one is not None:
            yield one
            done += one.kind != "generator failed"
        if done >= count or time.monotonic() > until:
            return


def summary(found: Sequence[Mutant]) -> str:
    """Return the score, by class and by operator, and the survivors."""
    verdicts = collections.Counter(one.verdict for one in found)
    lines = [f"{len(found)} of {len({one.operator for one in found})} operators: {dict(verdicts)}"]
    for kind in sorted({one.kind for one in found}):
        own = [one for one in found if one.kind == kind]
        lines.append(f"  {kind}: {sum(one.verdict == 'different' for one in own)} of {len(own)} different")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the mutation score, or with --right the share of right rewrites that are refused."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many seconds")
    parser.add_argument("--operators", default="", help="names, separated by commas; all if not given")
    parser.add_argument("--right", action="store_true", help="verify right rewrites")
    parser.add_argument("--case", help="judge SEED:INDEX alone and print both models")
    parser.add_argument("--results", type=Path, help="append each result to this file, as a line of JSON")
    options = parser.parse_args(arguments)
    names = tuple(filter(None, options.operators.split(",")))
    if options.case:
        return _single(options.case, names, options.right)
    wanted = "different"
    found = []
    until = time.monotonic() + options.seconds
    for one in judged(options.seed, options.count, names, right=options.right, jobs=options.jobs, until=until):
        found.append(one)
        if options.results:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(one)) + "\n")
        if (one.verdict != wanted) != options.right:
            print(
                f"{one.verdict} {one.seed}:{one.index} {one.operator} ({one.place}) {one.what}: {one.reason[:300]}",
                flush=True,
            )
    print(summary(found))
    return 0


def _single(case: str, operators: tuple[str, ...], right: bool) -> int:
    import onnx

    seed, index = map(int, case.split(":"))
    if right:
        subject = draw_subject(seed, index, operators)
        mutant: object = subject.rewritten if subject else None
    else:
        drawn = draw_mutant(seed, index, operators)
        subject, mutant = (drawn[0], drawn[2]) if drawn else (None, None)
    if subject is None:
        print("onnxruntime does not run it, or no fault is shown to differ")
        return 1
    print(onnx.printer.to_text(subject.original))
    print(onnx.printer.to_text(mutant))
    if not right:
        rng = np.random.default_rng([seed, index, 11])
        trials = shown.accepted(subject.original, shown.feeds_of(subject.feeds, rng))
        number = shown.difference(subject.original, mutant, trials, rng)  # type: ignore[arg-type]
        if number is not None:
            print("\n".join(shown.readable(trials[number][0])))
            print(trials[number][1])
            with contextlib.suppress(RunError):
                print(run(mutant, [trials[number][0]])[0])  # type: ignore[arg-type]
    print(judge(seed, index, operators, right=right))
    return 0


if __name__ == "__main__":
    sys.exit(main())
