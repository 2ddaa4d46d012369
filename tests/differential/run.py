"""The command line: workers with limits, findings that are saved, and a summary."""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import multiprocessing.connection
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from differential import draw
from differential.examine import CLASSES, FINDINGS, WEAK, Examiner, Outcome
from differential.generate import draw_case
from differential.saving import load, save

SECONDS_PER_STAGE = 60.0
MEMORY = 5 << 29
"""Bytes of data that a worker may have: what it has at the start, and 2 GiB."""

_CASES_PER_WORKER = 3000

_DIES_OF_NOTHING = frozenset(("ConvTranspose", "InstanceNormalization"))
"""Operators whose kernel in onnxruntime 1.32.0 ends the process where an axis has no elements. One for float
alone does so in a result too that computes a narrower type in float, of which the original runs nowhere."""


@dataclass(frozen=True)
class Settings:
    """What a run draws."""

    seed: int = 0
    operators: tuple[str, ...] = ()
    verify_share: float = 0.0
    findings: Path | None = None
    convert: Callable[..., Any] | None = None
    """In place of opshift.convert, for tests of the fuzzer itself."""


def examine_one(settings: Settings, index: int, examiner: Examiner) -> Outcome:
    """Draw and examine a case; save it if it is a finding."""
    outcome = Outcome(settings.seed, index)
    try:
        case = draw_case(settings.seed, index, settings.operators, settings.verify_share)
    except Exception as error:
        outcome.kind = "generator failed"
        outcome.message = f"{error!r} {traceback.extract_tb(error.__traceback__)[-1]}"
        return outcome
    examiner.examine(case, outcome)
    if outcome.kind in FINDINGS + WEAK and settings.findings is not None:
        save(settings.findings, case, outcome)
    return outcome


def _work(settings: Settings, connection: Connection) -> None:
    """Examine the cases whose indices arrive, and tell each stage, so that a crash can be attributed."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stderr = Path("/dev/null").open("w")  # noqa: SIM115
    examiner = Examiner(connection.send, settings.convert)
    try:
        while (index := connection.recv()) is not None:
            connection.send(examine_one(settings, index, examiner))
    finally:
        examiner.close()


def _waited(process: int) -> float:
    """Return the seconds that a process and its children were ready to run and did not; 0 where Linux does not tell."""
    try:
        held = Path(f"/proc/{process}/schedstat").read_text().split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0
    return int(held[1]) / 1e9 + sum(map(_waited, map(int, children)))


class Worker:
    """A process that examines cases, with the index and the stage that it is at."""

    def __init__(self, settings: Settings) -> None:
        """Start the process."""
        self.settings = settings
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(settings, other), daemon=True)
        self.process.start()
        other.close()
        self.index = -1
        self.stage = "draw"
        self.since = self._clock()
        self.examined = 0

    def give(self, index: int) -> None:
        """Give it a case."""
        self.index, self.stage, self.since = index, "draw", self._clock()
        self.connection.send(index)
        self.examined += 1

    def poll(self) -> Outcome | None:
        """Return the outcome if there is one; a dead or a slow worker has one as well."""
        try:
            while self.connection.poll():
                told = self.connection.recv()
                if isinstance(told, Outcome):
                    return told
                self.stage, self.since = told, self._clock()
        except (EOFError, ConnectionResetError):
            self.process.join(5)
            return self._failed("crashing", f"the process ended with {self.process.exitcode} at stage {self.stage}")
        if self._clock() - self.since > SECONDS_PER_STAGE:
            return self._failed("hanging", f"more than {SECONDS_PER_STAGE:.0f} s at stage {self.stage}")
        return None

    def _clock(self) -> float:
        """Return seconds, without those that the process waited for a processor: beside others it is no slower."""
        return time.monotonic() - _waited(self.process.pid or 0)

    def _failed(self, kind: str, message: str) -> Outcome:
        self.stop()
        outcome = Outcome(self.settings.seed, self.index, kind=kind, message=message)
        try:
            case = draw_case(self.settings.seed, self.index, self.settings.operators, self.settings.verify_share)
        except Exception as error:
            outcome.kind, outcome.message = "generator failed", f"{message}; {error!r}"
            return outcome
        outcome.operator, outcome.opset, outcome.place = case.operator, case.opset, case.embedded.place
        outcome.request = case.request
        if self.stage in ("draw", "original", "check"):
            outcome.kind = "invalid original"
        elif self.stage == "result":
            empty = any(getattr(value, "size", 1) == 0 for feed in case.embedded.feeds for value in feed.values())
            outcome.kind = "unjudged" if empty and case.operator in _DIES_OF_NOTHING else "broken"
        if outcome.kind in FINDINGS and self.settings.findings is not None:
            save(self.settings.findings, case, outcome)
        return outcome

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def outcomes(settings: Settings, indices: Iterator[int], jobs: int, until: float) -> Iterator[Outcome]:
    """Yield the outcomes of cases as they come, from this many processes, until a time of the monotonic clock."""
    workers = [Worker(settings) for _ in range(jobs)]
    busy: set[int] = set()
    try:
        for slot, worker in enumerate(workers):
            if (index := next(indices, None)) is not None:
                worker.give(index)
                busy.add(slot)
        while busy:
            multiprocessing.connection.wait([workers[slot].connection for slot in busy], timeout=1)
            for slot in sorted(busy):
                outcome = workers[slot].poll()
                if outcome is None:
                    continue
                yield outcome
                ended = not workers[slot].process.is_alive()
                if ended or workers[slot].examined >= _CASES_PER_WORKER:
                    if not ended:
                        workers[slot].stop()
                    workers[slot] = Worker(settings)
                index = next(indices, None) if time.monotonic() < until else None
                if index is None:
                    busy.discard(slot)
                else:
                    workers[slot].give(index)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.stop()


@dataclass
class Summary:
    """Outcomes, counted and grouped."""

    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    groups: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    refusals: collections.Counter[str] = field(default_factory=collections.Counter)
    oracles: dict[str, collections.Counter[str]] = field(default_factory=dict)
    unproven: dict[str, list[str]] = field(default_factory=dict)
    verified: int = 0
    unchanged: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.kinds[outcome.kind] += 1
        self.verified += outcome.verified
        self.unchanged += outcome.unchanged
        if outcome.unproven:
            self.unproven.setdefault(_gist(outcome.unproven), []).append(outcome.name)
        if outcome.kind == "refused":
            self.refusals[outcome.message.split(":")[0]] += 1
        elif outcome.kind != "right":
            key = (outcome.kind, outcome.operator, _gist(outcome.message))
            self.groups.setdefault(key, []).append(outcome.name)
        ran = "none" if outcome.kind in ("invalid original", "generator failed") else outcome.oracle
        self.oracles.setdefault(outcome.operator, collections.Counter())[ran] += 1

    @property
    def findings(self) -> int:
        """Return the number of findings."""
        return sum(self.kinds[kind] for kind in FINDINGS)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return {
            "cases": sum(self.kinds.values()),
            "classes": {kind: self.kinds[kind] for kind in CLASSES if self.kinds[kind]},
            "verified": self.verified,
            "unproven": self.unproven,
            "unchanged": self.unchanged,
            "refusals": dict(self.refusals),
            "never run": self.never_run(),
            "groups": [
                {"class": kind, "operator": operator, "message": message, "cases": names}
                for (kind, operator, message), names in sorted(self.groups.items())
            ],
        }

    def never_run(self) -> list[str]:
        """Return operators of which no original ran in onnxruntime."""
        return [name for name in draw.operators() if not self.oracles.get(name, collections.Counter())["onnxruntime"]]

    def text(self, verbose: bool) -> str:
        """Return the summary for people."""
        total = sum(self.kinds.values())
        unproven = sum(map(len, self.unproven.values()))
        lines = [f"{total} cases, {self.unchanged} unchanged, {self.verified} verified, {unproven} not proven"]
        lines += [f"{self.kinds[kind]:8} {kind}" for kind in CLASSES if self.kinds[kind]]
        lines += [f"{count:8} refused: {code}" for code, count in self.refusals.most_common()]
        for (kind, operator, message), names in sorted(
            self.groups.items(), key=lambda item: (item[0][0], -len(item[1]))
        ):
            if verbose or kind in FINDINGS + WEAK:
                lines.append(f"{len(names):6} {kind}: {operator}: {message} [{' '.join(names[:4])}]")
        if verbose:
            for reason, names in sorted(self.unproven.items(), key=lambda item: -len(item[1])):
                lines.append(f"{len(names):6} not proven: {reason} [{' '.join(names[:4])}]")
        ran = {name: counter["onnxruntime"] / counter.total() for name, counter in self.oracles.items() if name}
        low = sorted((share, name) for name, share in ran.items() if share < 0.5)
        lines.append("originals run in onnxruntime seldom: " + ", ".join(f"{name} {share:.0%}" for share, name in low))
        lines.append("originals never run in onnxruntime: " + ", ".join(self.never_run()))
        return "\n".join(lines)


def _gist(message: str) -> str:
    """Return a message without the numbers and names that differ from case to case."""
    first = message.strip().split("\n")[0]
    first = re.sub(r"array\(|np\.\w+\(|\b[-+]?\d+(\.\d*)?(e[-+]?\d+)?\b|_\d+", "#", first)
    return first[:170]


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="differential", description=__doc__)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--cases", type=int, help="how many; until --seconds have passed if not given")
    made.add_argument("--first", type=int, default=0, help="the index of the first case")
    made.add_argument("--seconds", type=float, default=None)
    made.add_argument("--jobs", type=int, default=1)
    made.add_argument("--operators", default="", help="names, separated by commas; all if not given")
    made.add_argument("--verify-share", type=float, default=0.0, help="the share of cases also verified by opshift")
    made.add_argument("--findings", type=Path, help="a folder to save findings to")
    made.add_argument("--case", help="examine SEED:INDEX and print the model and the outcome")
    made.add_argument("--replay", type=Path, help="examine a saved finding again")
    made.add_argument("--json", action="store_true", help="print the summary as JSON")
    made.add_argument("-v", "--verbose", action="store_true", help="also print groups that are no findings")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; return 1 if there are findings."""
    options = parser().parse_args(arguments)
    names = tuple(name for name in options.operators.split(",") if name)
    unknown = set(names) - set(draw.operators())
    if unknown:
        print(f"error: no operator {', '.join(sorted(unknown))} in ai.onnx 7 to 28", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = Settings(options.seed, names, options.verify_share, options.findings)
    if options.replay or options.case:
        return _single(options, settings)
    if options.cases is None and options.seconds is None:
        options.cases = 1000
    last = options.first + (options.cases if options.cases is not None else 1 << 60)
    until = time.monotonic() + (options.seconds if options.seconds is not None else 1e9)
    summary = Summary()
    try:
        for outcome in outcomes(settings, iter(range(options.first, last)), options.jobs, until):
            summary.add(outcome)
    except KeyboardInterrupt:  # the summary of what was done is wanted all the same
        print("interrupted", file=sys.stderr)
    print(json.dumps(summary.as_dict(), indent=1) if options.json else summary.text(options.verbose))
    return 1 if summary.findings else 0


def _single(options: argparse.Namespace, settings: Settings) -> int:
    """Examine one case in this process, and print it."""
    import onnx

    if options.replay:
        case = load(options.replay)
    else:
        seed, index = map(int, options.case.split(":"))
        case = draw_case(seed, index, settings.operators, settings.verify_share)
    case.verify = case.verify or options.verify_share == 1
    examiner = Examiner(lambda name: print(f"# {name}", flush=True))
    outcome = Outcome(case.seed, case.index)
    try:
        examiner.examine(case, outcome)
    finally:
        examiner.close()
    print(onnx.printer.to_text(case.embedded.model))
    print(json.dumps(outcome.as_dict(), indent=1, default=str))
    return 1 if outcome.kind in FINDINGS else 0
