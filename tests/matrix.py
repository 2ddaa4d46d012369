"""Run the matrix: `python tests/matrix.py --cases 20000 --seed 0 --jobs 2 --filter place=if,op=OneHot|ArgMax`.

`--case 0:123` judges one case and prints both models; `--validate` judges the sources instead of conversions.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import importlib
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeAlias

import onnx.printer
from matrix_cases import Case, Stratum, make, stratum_of
from matrix_draw import elem_name
from matrix_judge import FAILING, Convert, Outcome, ask, judge, validate

PATIENCE = 60
"""Seconds after which a case counts as crashed."""
BATCH = 50

Filter: TypeAlias = dict[str, frozenset[str]]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A judged case, small enough to send between processes."""

    name: str
    facets: dict[str, tuple[str, ...]]
    text: str
    goal: str
    outcome: Outcome

    @property
    def operator(self) -> str:
        return self.facets["op"][0]

    @property
    def place(self) -> str:
        return self.facets["place"][0]


@dataclasses.dataclass(frozen=True)
class Task:
    """What a worker process is to do; `converter` reads `module:function`, or `validate`."""

    seed: int
    indices: Sequence[int]
    converter: str
    filters: Filter


def known_before(stratum: Stratum) -> dict[str, tuple[str, ...]]:
    """What a case can be filtered by without making it."""
    return {"op": (f"{stratum.op}-{stratum.since}", stratum.op), "place": (stratum.place,)}


def facets(case: Case) -> dict[str, tuple[str, ...]]:
    """What cases can be filtered and counted by."""
    return {
        **known_before(case.stratum),
        "kind": tuple(sorted(case.kinds)),
        "feature": tuple(sorted(case.features)),
        "elem": tuple(sorted(elem_name(elem) for elem in case.elems)),
        "source": (str(case.source_opset),),
        "target": (str(case.target),),
        "decompose": ("+".join(case.goal.decompose),),
        "goal": ("decompose" if case.goal.decompose else "opset",),
    }


def parse_filter(text: str) -> Filter:
    """`place=if,op=OneHot|ArgMax`: every key has to match one of its values."""
    pairs = [part.split("=", 1) for part in text.split(",") if part]
    return {key: frozenset(values.split("|")) for key, values in pairs}


def wanted(known: dict[str, tuple[str, ...]], filters: Filter) -> bool:
    return all(values & set(known[key]) for key, values in filters.items() if key in known)


def resolve(converter: str) -> Convert | None:
    if converter == "validate":
        return None
    module, name = converter.split(":")
    found: Convert = getattr(importlib.import_module(module), name)
    return found


def examine(case: Case, convert: Convert | None) -> Outcome:
    optimise = int(case.name.split(":")[1]) % 2 == 1
    return validate(case, optimise) if convert is None else judge(case, convert, optimise)


def work(task: Task) -> list[Finding]:
    """Judge the cases of a task that the filter lets through."""
    convert = resolve(task.converter)
    found = []
    for index in task.indices:
        if not wanted(known_before(stratum_of(index)), task.filters):
            continue
        case = make(task.seed, index)
        known = facets(case)
        if wanted(known, task.filters):
            try:
                with patience():
                    outcome = examine(case, convert)
            except TimeoutError:
                outcome = Outcome("crash", f"took more than {PATIENCE} s")
            found.append(Finding(case.name, known, case.text, f"from {case.source_opset} {case.goal}", outcome))
    return found


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Raise TimeoutError where a case takes too long (nothing is done where there is no SIGALRM)."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def give_up(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)


def run(
    seed: int, indices: Sequence[int], converter: str, jobs: int = 1, filters: Filter | None = None
) -> list[Finding]:
    """Judge these cases, in `jobs` processes; a process that dies costs only its own case."""
    tasks = [Task(seed, indices[i : i + BATCH], converter, filters or {}) for i in range(0, len(indices), BATCH)]
    if jobs == 1:
        return [finding for task in tasks for finding in work(task)]
    found: list[Finding] = []
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        futures = [(pool.submit(work, task), task) for task in tasks]
        for future, task in futures:
            try:
                found += future.result()
            except BrokenProcessPool:
                found += one_by_one(task)
    return found


def one_by_one(task: Task) -> list[Finding]:
    """Each case in a process of its own, to find the one that kills it."""
    found = []
    for index in task.indices:
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            try:
                found += pool.submit(work, dataclasses.replace(task, indices=[index])).result()
            except BrokenProcessPool:
                case = make(task.seed, index)
                outcome = Outcome("crash", "the process died")
                found.append(
                    Finding(case.name, facets(case), case.text, f"from {case.source_opset} {case.goal}", outcome)
                )
    return found


# -- What is printed


def counts(found: Sequence[Finding]) -> dict[str, int]:
    return dict(collections.Counter(finding.outcome.category for finding in found).most_common())


def table(found: Sequence[Finding]) -> list[str]:
    """One line an operator version, one column a place: failing of all."""
    places = sorted({finding.place for finding in found})
    lines = [f"{'failing/all':14}" + "".join(f"{place:>10}" for place in places)]
    for operator in sorted({finding.operator for finding in found}):
        cells = []
        for place in places:
            here = [f for f in found if f.operator == operator and f.place == place]
            bad = sum(f.outcome.category in FAILING for f in here)
            cells.append(f"{f'{bad}/{len(here)}' if here else '-':>10}")
        lines.append(f"{operator:14}" + "".join(cells))
    return lines


def group_of(finding: Finding) -> str:
    """The category and what is the same in all such failures: numbers and names taken out."""
    outcome = finding.outcome
    if outcome.category == "wrong":
        where = "reference" if "reference" in outcome.detail else "onnxruntime"
        return f"wrong in {where}: {finding.operator}, {finding.facets['goal'][0]}"
    detail = re.sub(r"\S*/\S*|'[^']*'|\"[^\"]*\"|0x\w+", "_", outcome.detail.replace(" or ", " "))
    return f"{outcome.category}: " + re.sub(r"\d+", "N", " ".join(detail.split()))[:220]


def groups(found: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    by_group: dict[str, list[Finding]] = collections.defaultdict(list)
    for finding in found:
        if finding.outcome.category in FAILING:
            by_group[group_of(finding)].append(finding)
    return sorted(by_group.items(), key=lambda item: -len(item[1]))


def describe(group: str, members: Sequence[Finding], converter: str) -> list[str]:
    """The group, what its members have in common, and the shortest of them with the command that repeats it."""
    lines = [f"{len(members)} x {group}"]
    for key in ("op", "place", "kind", "feature", "elem", "target", "goal"):
        seen = collections.Counter(
            value for f in members for value in (f.facets[key][:1] if key == "op" else f.facets[key])
        )
        lines.append(f"    {key}: " + ", ".join(f"{value or '-'} {count}" for value, count in seen.most_common(8)))
    shortest = min(members, key=lambda finding: (len(finding.text), finding.name))
    lines.append(f"    e.g. {shortest.text}, {shortest.goal}, in {shortest.place}")
    lines.append(f"    {' '.join(shortest.outcome.detail.split())[:600]}")
    option = "" if converter == "opshift:convert" else f" --convert {converter}"
    return [*lines, f"    python tests/matrix.py --case {shortest.name}{option}", ""]


def report(found: Sequence[Finding], converter: str, limit: int, seconds: float) -> list[str]:
    lines = [f"{len(found)} cases in {seconds:.0f} s ({len(found) / max(seconds, 0.001):.0f}/s): {counts(found)}", ""]
    lines += [*table(found), ""]
    for group, members in groups(found)[:limit]:
        lines += describe(group, members, converter)
    return lines


def show_one(name: str, converter: str) -> None:
    """Everything about one case."""
    seed, index = (int(part) for part in name.split(":"))
    case = make(seed, index)
    convert = resolve(converter)
    print(case.text, f"\nfrom {case.source_opset} to {case.goal}, in {case.stratum.place}\n")
    print(onnx.printer.to_text(case.model))
    if convert is not None:
        with contextlib.suppress(Exception):
            print("\nconverted:\n", onnx.printer.to_text(ask(case, convert).model), sep="")
    outcome = examine(case, convert)
    print(f"\n{outcome.category}\n{outcome.detail}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--filter", default="", help="such as place=if,op=OneHot|ArgMax-11,target=7")
    parser.add_argument("--limit-failures", type=int, default=20, help="how many groups of failures are printed")
    parser.add_argument("--convert", default="opshift:convert", help="module:function to judge")
    parser.add_argument("--validate", action="store_true", help="judge the sources instead")
    parser.add_argument("--case", default="", help="seed:number, prints one case")
    parser.add_argument("--report", type=Path, help="also write what is printed to this file")
    options = parser.parse_args(arguments)
    converter = "validate" if options.validate else options.convert
    if options.case:
        show_one(options.case, converter)
        return 0
    begun = time.monotonic()
    indices = range(options.first, options.first + options.cases)
    found = run(options.seed, indices, converter, options.jobs, parse_filter(options.filter))
    lines = report(found, converter, options.limit_failures, time.monotonic() - begun)
    print("\n".join(lines))
    if options.report:
        options.report.write_text("\n".join(lines) + "\n")
    return int(any(finding.outcome.category in FAILING for finding in found))


if __name__ == "__main__":
    sys.exit(main())
