"""Convert ONNX's own backend node tests and run them against their outputs: `python benchmarks/backend_cases.py`.

Counted are the tests that have tensors only and no random operator; for targets below 19 those are left out whose
inputs or outputs are float8 or 4-bit, which no operator takes there. A share is of all tests that are newer (or older)
than the target, whether or not there is any way to say them there. Below the table stand the refusals, most frequent
first.

onnxruntime judges. Where it cannot, since it does not give the test's outputs for the original either (it lacks the
kernel, or the domain; it rounds a transform in coarser steps than the test allows), ONNX's reference implementation
does, if it gives them for the original. It is as strict: the outputs must be the test's, within the test's tolerance
(or two units of float16 and bfloat16, which is more than the tolerance of the tests).
But it has some operators in their newest version alone (Hardmax), so it never judges what onnxruntime can. The column
`by reference` tells how many of the right ones it judged.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import multiprocessing
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import onnx.checker
from converters import CONVERTERS, table
from node_tests import Running, asked, cases, differs
from onnx.reference import ReferenceEvaluator
from running import Array, CannotRunError, Feed, opset_of, run

from opshift.passes.base.errors import UnsupportedError, UsageError

TARGETS = (26, 23, 18, 17, 13, 12, 11, 9)
COLUMNS = ("right", "wrong", "broken", "refused", "crash", "unjudged")
"""What comes of a test. `wrong`: other numbers. `broken`: rejected by ONNX's checker, or not loaded by what judges,
which take the original. `unjudged`: nobody gives the test's outputs for the original either."""


NO_KERNEL = "NOT_IMPLEMENTED"
"""What onnxruntime says of a type that its kernels do not take; of an original that is too new it cannot be asked."""

NO_ARRAYS = "can't be converted to MLDataType"
"""What it says of arrays that it cannot be given: float8 and 4-bit ones."""


@dataclass(frozen=True)
class Found:
    """What one converter made of one test for one target, and why."""

    case: str
    source: int
    converter: str
    target: int
    outcome: str
    reasons: tuple[str, ...] = ()
    judge: str = "onnxruntime"


@dataclass(frozen=True)
class Task:
    """One test for one target, by its index among the cases; without a converter it is the original that runs."""

    index: int
    converter: str = ""
    target: int = 0
    judge: str = "onnxruntime"


def by_reference(model: onnx.ModelProto, feeds: Sequence[Feed]) -> list[list[Array]]:
    """Return what ONNX's reference implementation computes for each of the feeds."""
    evaluator: Any = ReferenceEvaluator(model)
    return [evaluator.run(None, dict(feed)) for feed in feeds]


JUDGES: dict[str, Running] = {
    "onnxruntime": run,
    "onnx.reference": by_reference,
}


# Judging --------------------------------------------------------------------------------------------------------------


def judge(case: Any, task: Task) -> tuple[str, tuple[str, ...]]:
    """Return the outcome of a task; for an original `right`, `wrong`, `broken`, or `unloadable` where it is too new."""
    model = case.model
    if task.converter:
        try:
            model = CONVERTERS[task.converter][1](model, task.target)
        except UnsupportedError as error:
            return "refused", tuple(f"{item.operator}: {item.code}: {item.reason}" for item in error.refusals)
        except UsageError as error:
            return "refused", (str(error).strip().splitlines()[0],)
        except Exception as error:
            return "crash", (f"{type(error).__name__}: {error}",)
        if (fault := rejected(model)) and not rejected(case.model):
            return "broken", (f"checker: {fault}",)
    try:
        found = differs(case, model, JUDGES[task.judge])
    except CannotRunError as error:
        return "unloadable", (str(error),)
    except Exception as error:
        if NO_ARRAYS in str(error):
            return "unloadable", (str(error),)
        return "broken", (f"{type(error).__name__}: {error}",)
    return ("wrong", (found,)) if found else ("right", ())


def rejected(model: onnx.ModelProto) -> str:
    """Return why ONNX's checker does not take a model; nothing if it does."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return str(error)
    return ""


def _serve(work: Sequence[Any], connection: Connection) -> None:
    """Judge tasks until there are none; in a process of its own, since some converters and kernels crash."""
    warnings.simplefilter("ignore")
    while task := connection.recv():
        connection.send(judge(work[task.index], task))


def judged(work: Sequence[Any], tasks: Sequence[Task]) -> Iterator[tuple[Task, str, tuple[str, ...]]]:
    """Yield each task with its outcome; a task that kills its process is a crash, and another process goes on."""
    # A fork has the cases already; where there is none each process computes them anew, which takes seconds.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    process = None
    for task in tasks:
        if process is None:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(work, theirs), daemon=True)
            process.start()
            theirs.close()
        try:
            ours.send(task)
            yield task, *ours.recv()
        except (EOFError, ConnectionError):
            process.join()
            yield task, "crash", (f"the process ended with {process.exitcode}",)
            process = None
    if process:
        ours.send(None)
        process.join()


def measured(
    work: Sequence[Any], converters: Sequence[str], targets: Sequence[int], jobs: int
) -> tuple[list[Found], dict[str, str]]:
    """Return what each converter made of each test, and how the originals fare."""
    tasks = [Task(index) for index in range(len(work))]
    tasks += [
        Task(index, converter, target)
        for index, case in enumerate(work)
        for converter in converters
        for target in targets
        if asked(case.model, target)
    ]
    results = _shared(work, tasks, jobs)
    originals = {work[task.index].name: outcome for task, outcome, _ in results if not task.converter}
    unjudged = [
        task for task, outcome, reasons in results if _hopeless(originals[work[task.index].name], outcome, reasons)
    ]
    again = {Task(task.index, judge="onnx.reference") for task in unjudged}
    again |= {dataclasses.replace(task, judge="onnx.reference") for task in unjudged}
    second = {task: (outcome, reasons) for task, outcome, reasons in _shared(work, sorted(again, key=repr), jobs)}
    found = []
    for task, outcome, reasons in results:
        case, judge = work[task.index], task.judge
        if not task.converter:
            continue
        if _hopeless(originals[case.name], outcome, reasons):
            judge = "onnx.reference"
            given, others = second[dataclasses.replace(task, judge=judge)]
            trusted = second[Task(task.index, judge=judge)][0] == "right"
            # Where kernels miss the test's outputs by rounding, rounding otherwise is no fault either.
            told = trusted and (given == "right" or originals[case.name] != "wrong")
            outcome, reasons = (given, others) if told else ("unjudged", reasons)
        found.append(Found(case.name, opset_of(case.model), task.converter, task.target, outcome, reasons, judge))
    return found, originals


def _shared(work: Sequence[Any], tasks: Sequence[Task], jobs: int) -> list[tuple[Task, str, tuple[str, ...]]]:
    """Judge tasks in as many processes as there are jobs."""
    shares = [[task for task in tasks if task.index % jobs == job] for job in range(jobs)]
    with ThreadPoolExecutor(jobs) as threads:
        return [item for share in threads.map(lambda share: list(judged(work, share)), shares) for item in share]


def _hopeless(original: str, outcome: str, reasons: Sequence[str]) -> bool:
    """Whether onnxruntime, as which the original fares in it, cannot tell what came of a test."""
    no_kernel = original == "unloadable" and any(NO_KERNEL in reason for reason in reasons)
    no_baseline = no_kernel or original in ("wrong", "broken", "crash")
    failed = outcome in ("wrong", "broken", "crash") and not _checked(reasons)
    return outcome == "unloadable" or (failed and no_baseline)


def _checked(reasons: Sequence[str]) -> bool:
    """Whether it was the checker that rejected a result, which says nothing about kernels."""
    return any(reason.startswith("checker: ") for reason in reasons)


# Telling --------------------------------------------------------------------------------------------------------------


def summary(found: Sequence[Found], originals: Mapping[str, str]) -> str:
    """Return a table: a line for each target, direction and converter."""
    rows: list[list[Any]] = [["target", "converter", "tests", *COLUMNS, "by reference", "right", "of those that run"]]
    groups: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found:
        groups[f"{'down' if one.source > one.target else 'up'} to {one.target}", one.converter].append(one)
    for (target, converter), group in sorted(groups.items(), key=lambda item: -int(item[0][0].rpartition(" ")[2])):
        counts = Counter(one.outcome for one in group)
        runs = [one for one in group if originals[one.case] in ("right", "unloadable") and one.outcome != "unjudged"]
        reference = sum(one.judge == "onnx.reference" and one.outcome == "right" for one in group)
        share, of_running = (
            f"{100 * sum(one.outcome == 'right' for one in some) / max(len(some), 1):.1f} %" for some in (group, runs)
        )
        rows.append([target, converter, len(group), *(counts[name] for name in COLUMNS), reference, share, of_running])
    return table(rows)


def grouped(found: Sequence[Found], outcome: str, most: int) -> str:
    """Return the reasons for an outcome, alike ones together: how often, at which targets, and one test's name."""
    alike: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found:
        if one.outcome == outcome:
            for reason in dict.fromkeys(one.reasons):
                alike[one.converter, _general(reason)].append(one)
    lines = []
    for (converter, reason), group in sorted(alike.items(), key=lambda item: -len(item[1]))[:most]:
        targets = ",".join(str(target) for target in sorted({one.target for one in group}))
        lines.append(f"{len(group):5}  {converter}  to {targets}: {reason}  ({group[0].case})")
    return "\n".join(lines)


def _general(reason: str) -> str:
    """A reason without what differs from test to test."""
    return re.sub(r"\b(opset|below) \d+", r"\1 N", reason.replace("\n", " "))[:240]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--converters", nargs="+", choices=[*CONVERTERS], default=[*CONVERTERS])
    parser.add_argument("--targets", nargs="+", type=int, default=TARGETS)
    parser.add_argument("--filter", default="", help="a regular expression that the tests' names are to have")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=60, help="lines of refusals")
    parser.add_argument("--json", type=Path, help="a file for what came of each test")
    options = parser.parse_args()
    work = cases(options.filter)
    found, originals = measured(work, options.converters, options.targets, options.jobs)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxscript", "onnxruntime"))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(originals.values()).items()))
    print(f"{len(work)} tests; {versions}. The originals in onnxruntime: {counts}.\n\n{summary(found, originals)}")
    for outcome in ("wrong", "broken", "crash", "refused"):
        if lines := grouped(found, outcome, options.most):
            print(f"\n{outcome}\n{lines}")
    if options.json:
        options.json.write_text(json.dumps([vars(one) for one in found], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
