"""Convert many models.

Each model is converted independently, on any `concurrent.futures.Executor`.

A journal in the output folder has a JSON line for each tried model. With `resume`, finished and unchanged models are
not converted again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import glob
import hashlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from opshift.passes.base.errors import InvalidModelError, UnsupportedError, UsageError, VerificationError, shown_path
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Plan
from opshift.passes.base.report import Report, Verdict
from opshift.passes.graph import traversal
from opshift.passes.io.atomic_files import Batch, Lines, unwritable
from opshift.passes.runtime.process_pool import ProcessDiedError, Processes

SUFFIXES = (".onnx", ".onnxtxt")
"""The suffixes of model files."""

JOURNAL = "opshift-journal.jsonl"
"""The name of the journal in the output's folder."""
_LARGEST, _LONGEST = 2**30, 2**24
"""The maximum size of a journal, in bytes, and of a line, in characters: a longer one is read in parts."""

_PACKAGES = ("opshift", "onnx", "onnxscript", "onnx-ir", "numpy", "ml_dtypes")
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-openvino")


class Status(enum.StrEnum):
    """The outcome for a model."""

    CONVERTED = "converted"
    UNCHANGED = "unchanged"
    """The model already satisfied the target; the output is a copy."""
    REFUSED = "refused"
    """The model is valid but cannot be converted."""
    NOT_EQUAL = "not equal"
    """The result was not verified as equal, and was not written."""
    UNREADABLE = "unreadable"
    """The model is missing, damaged, invalid, or unsafe to open."""
    NOT_WRITTEN = "not written"
    """The output cannot be written, or the request does not fit the model."""
    FAILED = "failed"
    """opshift itself failed, or its process crashed."""


_FINAL = frozenset({Status.CONVERTED, Status.UNCHANGED, Status.REFUSED})
"""The statuses that do not change if nothing else changes; `resume` retries models with any other status."""


@dataclass(frozen=True)
class Summary:
    """The numbers of nodes in a plan."""

    source_opset: int
    target_opset: int
    kept: int
    restamped: int
    lowered: int


@dataclass(frozen=True)
class Outcome:
    """The result for one model.

    `reason` explains why the model was not converted or not verified. `verdict` is None if nothing was compared.
    `resumed` is true if an earlier run converted the model.
    """

    source: str
    output: str
    status: Status
    reason: str
    seconds: float
    plan: Summary | None = None
    verdict: Verdict | None = None
    resumed: bool = False


@dataclass(frozen=True)
class Job:
    """One model to convert; everything in it can be pickled."""

    model_path: Path
    output: Path
    asked: Mapping[str, Any]
    saved: Mapping[str, Any]
    record: Mapping[str, Any] | None
    request: str
    """A digest of the request and of the versions of the packages that carry it out."""


@dataclass(frozen=True)
class JobResult:
    """An outcome, and the data that the journal stores about it."""

    outcome: Outcome
    record: Mapping[str, Any]


def convert_many(
    models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    executor: Executor | None = None,
    jobs: int = 1,
    resume: bool = False,
    external_data: Any = None,
    size_threshold: int = 1024,
    progress: Any = None,
    **asked: Any,
) -> Generator[Outcome, None, None]:
    """Convert models into a folder, and yield an Outcome for each finished model.

    Args:
        models: a folder with models (.onnx, .onnxtxt) at any depth; a glob pattern; a path; or a list of these. The
            output keeps paths relative to the folder, to the pattern's fixed part, or to the paths' common folder.
        output: the folder to write to; it is created if necessary. It gets a journal.
        executor: runs the conversions. Processes on other machines must see the same files. It is not shut down. None
            starts `jobs` child processes, and replaces a process that crashes.
        jobs: the number of models in parallel, without an executor.
        resume: skip finished models of the journal if model, request, versions and output have not changed.
        external_data: as in `Result.save`.
        size_threshold: as in `Result.save`.
        progress: called with a stage, the models done and all models.
        asked: the arguments of `convert`. `save_repro` is a folder that gets a subfolder for each model.

    Yields:
        An Outcome for each model; a failed model raises no exception.

    Raises:
        UsageError: there are no models, the request is invalid for every model, or `output` cannot be written.
        TypeError: `convert` has no such argument.
    """
    if "allow" in asked:
        from opshift.passes.conversion.request import assumed

        asked["assume"] = assumed(asked.get("assume", ()), asked.pop("allow"))
    _check(asked, jobs)
    folder = Path(output)
    sources = found(models, folder)
    journal = _Journal(folder)
    records = _records(folder) if resume else {}
    saved = {"external_data": external_data, "size_threshold": size_threshold}
    request = digest_of([asked, saved])
    asked = _absolute(asked)
    todo: dict[str, Job] = {}
    for name, path in sources.items():
        own = dict(asked)
        if asked.get("save_repro") is not None:
            own["save_repro"] = Path(asked["save_repro"]).absolute() / name
        todo[name] = Job(path.absolute(), (folder / name).absolute(), own, saved, records.get(name), request)
    shown = {name: (str(path), str(folder / name)) for name, path in sources.items()}
    return _run(todo, shown, journal, executor, jobs, progress)


def _check(asked: Mapping[str, Any], jobs: int) -> None:
    """Raise UsageError at once for a request that would be refused for every model."""
    known = {field.name for field in dataclasses.fields(Options)} - {"progress"}
    if unknown := sorted(set(asked) - known):
        raise TypeError(f"convert_many() got an unexpected argument {unknown[0]!r}")
    if jobs < 1:
        raise UsageError(f"At least one job is needed, not {jobs}.")
    Options(**asked).check()
    if asked.get("verify", True) and importlib.util.find_spec("onnxruntime") is None:
        from opshift.passes.runtime.ort_models import runtime

        runtime()


def _absolute(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request whose paths are valid in any working directory."""
    from opshift.opsets.runtimes.profiles import is_builtin

    found = dict(asked)
    for name in ("target", "inputs"):
        value = asked.get(name)
        if isinstance(value, str | os.PathLike) and not is_builtin(os.fspath(value)):
            found[name] = Path(value).absolute()
    permitted = asked.get("allow_paths", ())
    if permitted and not isinstance(permitted, str | os.PathLike):
        found["allow_paths"] = [Path(path).absolute() for path in permitted]
    return found


# --- selecting models ---


def is_pattern(text: str | os.PathLike[str]) -> bool:
    """Return whether a path is a glob pattern and not the name of an existing file."""
    path = os.fspath(text)
    return glob.has_magic(path) and not os.path.lexists(path)


def found(models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], output: Path) -> dict[str, Path]:
    """Return the models by their output path below the output folder; files inside that folder are skipped.

    Raises:
        UsageError: there are none, or an output would replace one of them.
    """
    base, paths = listed(models)
    top = os.path.realpath(base)
    results = os.path.realpath(output)
    if results != top and Path(results).is_relative_to(top):
        paths = [path for path in paths if not Path(os.path.realpath(path.parent)).is_relative_to(results)]
    if not paths:
        raise UsageError(f"there are no models ({', '.join(SUFFIXES)}) in {_shown(models)}.")
    named = {os.path.relpath(path, base): path for path in paths}
    real = {os.path.realpath(path) for path in paths}
    for name, path in named.items():
        if os.pardir in Path(name).parts:
            raise UsageError(
                f"{_shown(path)} is outside {_shown(base)}, so its path in {_shown(output)} is undefined. "
                "Give models of one folder."
            )
        if os.path.realpath(output / name) in real:
            raise UsageError(f"{_shown(output / name)} is one of the models: name another folder for the results.")
    return {Path(name).as_posix(): named[name] for name in sorted(named)}


def listed(models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[Path, list[Path]]:
    """Return the models, and the folder that their paths are relative to."""
    if not isinstance(models, str | os.PathLike):
        parts = [listed(model) for model in models]
        bases = [os.path.abspath(base) for base, _ in parts]  # noqa: PTH100 (links stay)
        several = dict.fromkeys(path for _, found in parts for path in found)
        return Path(os.path.commonpath(bases) if bases else "."), list(several)
    if is_pattern(models):
        paths = [Path(path) for path in glob.glob(os.fspath(models), recursive=True)]  # noqa: PTH207 (absolute ones too)
        fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), Path(models).parts))
        return Path(*fixed), [path for path in paths if _is_model(path)]
    base = Path(models)
    if base.is_dir():
        paths = [Path(place) / name for place, _, names in os.walk(base) for name in names]
        return base, [path for path in paths if _is_model(path)]
    return base.parent, [base]


def _is_model(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) and not path.is_dir()


def _shown(path: Any) -> str:
    return repr(os.fspath(path)) if isinstance(path, str | os.PathLike) else "what was given"


# --- one model ---


def run_job(job: Job) -> JobResult:
    """Convert one model, or return its earlier outcome; no exception is raised for a faulty model."""
    begun, since = time.monotonic(), time.time_ns()
    if job.record is not None and (outcome := _earlier(job)):
        return JobResult(outcome, job.record)
    plan: Summary | None = None
    verdict: Verdict | None = None
    source_state: Mapping[str, Any] | None = None
    output_state: Mapping[str, Any] | None = None
    reason = ""
    from opshift.passes.convert import convert
    from opshift.passes.io import external_data as external

    try:
        with contextlib.suppress(OSError):  # the code below reports this error better
            source_state = _state(job.model_path, ())
        result = convert(job.model_path, **job.asked)
        plan = _summary(result.plan)
        verdict = result.report.verdict if result.report else Verdict.UNCHECKED
        reason = _unproven(result.report)
        unchanged = result.rewritten is result.source.model
        with Batch() as batch:
            batch.make_folders(job.output.parent)
            written = result.save(job.output, **job.saved, batch=batch)
        status = Status.UNCHANGED if unchanged else Status.CONVERTED
        read = external.references(traversal.graph_views(result.source.model))
        weights = _weights(job.model_path, {job.model_path.parent / reference.location for reference in read})
        # The files may have been replaced since they were written.
        known = all(written_at < since for _, written_at in weights.values())
        source_state = {**source_state, "files": weights} if known and source_state else None
        output_state = _state(job.output, written)
    except UnsupportedError as error:
        more = f" And {len(error.refusals) - 1} more." if len(error.refusals) > 1 else ""
        status, reason = Status.REFUSED, f"{error.refusals[0]}{more}"
    except VerificationError as error:
        status, reason, verdict = Status.NOT_EQUAL, str(error), error.report.verdict
    except InvalidModelError as error:
        status, reason = Status.UNREADABLE, str(error).removeprefix(f"{shown_path(job.model_path)}: ")
    except UsageError as error:
        status, reason = Status.NOT_WRITTEN, str(error)
    except OSError as error:
        status, reason = Status.NOT_WRITTEN, f"{job.output}: {error.strerror or error}."
    except Exception as error:
        status, reason = Status.FAILED, f"opshift itself failed ({type(error).__name__}: {error})."
    seconds = round(time.monotonic() - begun, 3)
    outcome = Outcome(str(job.model_path), str(job.output), status, reason, seconds, plan, verdict)
    return JobResult(outcome, _record(job, outcome, source_state, output_state))


def _summary(plan: Plan) -> Summary:
    lowered = len(plan.lowered)
    return Summary(plan.source_opset, plan.target_opset, plan.kept, len(plan.steps) - lowered, lowered)


def _unproven(report: Report | None) -> str:
    """Return the reason why a written result is not verified; empty if no verification was requested."""
    if report is None or report.verdict in (Verdict.EQUAL, Verdict.WITHIN_BOUND):
        return ""
    check = next(check for check in (report.whole, *report.nodes) if check.verdict is report.verdict)
    return f"not verified: {check.reason}"


# --- journal entries ---


def _earlier(job: Job) -> Outcome | None:
    """Return the journal's outcome if nothing has changed since."""
    record = job.record or {}
    try:
        outcome = _outcome(record["outcome"])
        same = record["request"] == job.request and outcome.status in _FINAL and _is(job.model_path, record["source"])
        written = outcome.status is not Status.REFUSED
        same = same and (not written or _is(job.output, record["output"]))
    except (OSError, LookupError, TypeError, ValueError, AttributeError):  # the file is gone, or the journal is damaged
        return None
    return replace(outcome, source=str(job.model_path), output=str(job.output), resumed=True) if same else None


def _is(path: Path, state: Mapping[str, Any]) -> bool:
    """Return whether a model file still has the recorded state."""
    return state == _state(path, [path.parent / name for name in state["files"]])


def _outcome(data: Mapping[str, Any]) -> Outcome:
    """Return the outcome from a journal entry."""
    plan = data["plan"]
    verdict = data["verdict"]
    return Outcome(
        source=data["source"],
        output=data["output"],
        status=Status(data["status"]),
        reason=str(data["reason"]),
        seconds=float(data["seconds"]),
        plan=None if plan is None else Summary(**plan),
        verdict=None if verdict is None else Verdict(verdict),
    )


def _record(
    job: Job, outcome: Outcome, state: Mapping[str, Any] | None, output: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    return {"request": job.request, "source": state, "output": output, "outcome": asdict(outcome)}


def _state(path: Path, files: Iterable[Path]) -> Mapping[str, Any]:
    """Return the state of a model file: its digest, and the size and time of the files with its weights."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO waits
        raise OSError("this is not a regular file")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "files": _weights(path, files)}


def _weights(path: Path, files: Iterable[Path]) -> dict[str, list[int]]:
    """Return the sizes and times of files, by their paths relative to a model's folder."""
    status = {Path(os.path.relpath(file, path.parent)).as_posix(): file.stat() for file in sorted(files)}
    return {name: [one.st_size, one.st_mtime_ns] for name, one in status.items()}


def digest_of(asked: Any) -> str:
    """Return a digest of a request and of the versions of opshift and its dependencies."""
    versions: dict[str, str] = {}
    for name in (*_PACKAGES, *_RUNTIMES):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return hashlib.sha256(json.dumps([_stable(asked), versions], sort_keys=True).encode()).hexdigest()


def _stable(value: Any) -> Any:
    """Return an argument in a form that JSON can hold; a path to a file becomes the file's digest."""
    if isinstance(value, Mapping):
        return {str(key): _stable(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_stable(item) for item in value]
    if hasattr(value, "tobytes"):
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, os.PathLike) or (isinstance(value, str) and os.path.exists(value)):  # noqa: PTH110 (long names)
        path = Path(value)
        if path.is_file():
            with path.open("rb") as file:
                return [str(path), hashlib.file_digest(file, "sha256").hexdigest()]
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        return [str(path), [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in inside]]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


class _Journal:
    """Appends lines to the journal; a reader skips a line that a killed process has cut off."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(shown_path(folder), error) from None
        self._lines = Lines(folder / JOURNAL)

    def add(self, name: str, record: Mapping[str, Any]) -> None:
        self._lines.add(json.dumps({"model": name, **record}).encode())

    def close(self) -> None:
        self._lines.close()


def _records(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the last record of each model; malformed lines are skipped.

    Raises:
        UsageError: the file is larger than any journal.
    """
    records: dict[str, Mapping[str, Any]] = {}
    with (folder / JOURNAL).open(encoding="utf-8", errors="replace") as file:
        if os.fstat(file.fileno()).st_size > _LARGEST:
            raise UsageError(
                f"{shown_path(folder / JOURNAL)} has more than {_LARGEST} bytes: it is no journal; remove it."
            )
        while line := file.readline(_LONGEST):
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("model"), str):
                    records[record["model"]] = record
    return records


# --- running the jobs ---


def _run(
    todo: Mapping[str, Job],
    shown: Mapping[str, tuple[str, str]],
    journal: _Journal,
    executor: Executor | None,
    jobs: int,
    progress: Any,
) -> Generator[Outcome, None, None]:
    """Yield outcomes as they arrive; after an interruption, the journal still holds the finished ones."""
    number = 0
    rest = todo
    if progress:
        progress("models", 0, len(todo))
    with contextlib.closing(journal):
        while rest:
            # The model that broke a pool is unknown, so the unfinished models are tried again, one by one.
            own = Processes(jobs if rest is todo else 1) if executor is None or rest is not todo else None
            broken: dict[str, Job] = {}
            for name, done in _each(rest, own or executor, journal, broken, own):
                number += 1
                if progress:
                    progress("models", number, len(todo))
                model, output = shown[name]
                yield replace(done.outcome, source=model, output=output)
            rest = broken


def _each(
    todo: Mapping[str, Job], pool: Any, journal: _Journal, broken: dict[str, Job], own: Processes | None
) -> Iterator[tuple[str, JobResult]]:
    """Yield an executor's result for each model; models lost with a broken pool are added to `broken`."""
    waiting: dict[Future[JobResult], str] = {}
    try:
        for name, job in todo.items():
            try:
                waiting[pool.submit(run_job, job)] = name
            except BrokenExecutor:
                broken[name] = job
        for future in as_completed(list(waiting)):
            name = waiting[future]
            try:
                done = future.result()
            except BrokenExecutor:
                broken[name] = todo[name]
                del waiting[future]
                continue
            except Exception as error:
                done = _failed(todo[name], error)
            journal.add(name, done.record)
            del waiting[future]
            yield name, done
    finally:
        for future in waiting:
            future.cancel()
        if own is not None:
            own.stop()
        for future, name in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                journal.add(name, future.result().record)


def _failed(job: Job, error: Exception) -> JobResult:
    """Return the outcome of a failed call: its process died, or its machine was lost."""
    what = str(error) if isinstance(error, ProcessDiedError) else f"{type(error).__name__}: {error}"
    outcome = Outcome(str(job.model_path), str(job.output), Status.FAILED, f"opshift itself failed: {what}.", 0.0)
    return JobResult(outcome, _record(job, outcome, None, None))
