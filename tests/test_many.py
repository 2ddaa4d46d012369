"""Many models: each has its outcome whatever the others do, on any executor, and what is done is not done again."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from extras import need
from running import opset_of, run

import opshift
from opshift import Outcome, Status, convert_many
from opshift.cli.main import main
from opshift.passes import batch as many
from opshift.passes.base.errors import UsageError
from opshift.passes.io.atomic_files import Batch
from opshift.passes.runtime.process_pool import ProcessDiedError, Processes

HARDMAX = """<ir_version: 8, opset_import: ["": {opset}]>
g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Hardmax <axis = 1> (x) }}"""
REFUSED = """<ir_version: 9, opset_import: ["": 13]>
g (bfloat16[2] x) => (bfloat16[2] y) { y = Add (x, x) }"""
FEEDS = {"x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)}
WEIGHTS = np.arange(24, dtype=np.float32)

posix = pytest.mark.skipif(os.name != "posix", reason="signals of another kind")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    model = onnx.parser.parse_model(text)
    if path.suffix == ".onnxtxt":
        path.write_text(text)
    else:
        path.write_bytes(model.SerializeToString())
    return path


def with_weights(path: Path, location: str = "w.bin") -> Path:
    model = onnx.parser.parse_model(HARDMAX.format(opset=13))
    model.graph.node[0].output[0] = "hot"
    model.graph.node.append(onnx.helper.make_node("Add", ["hot", "w"], ["y"]))
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[2, 3, 4], data_location=1)
    tensor.external_data.add(key="location", value=location)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / location).write_bytes(WEIGHTS.tobytes())
    path.write_bytes(model.SerializeToString())
    long_ago = time.time() - 1000
    os.utime(path.parent / location, (long_ago, long_ago))
    return path


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models, one for each outcome that a file alone can have; it is below the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = Path("zoo")
    write(folder / "a.onnx", HARDMAX.format(opset=13))
    write(folder / "deep" / "b.onnxtxt", HARDMAX.format(opset=11))
    write(folder / "deep" / "c.ONNX", HARDMAX.format(opset=12))
    with_weights(folder / "large" / "d.onnx")
    write(folder / "refused.onnx", REFUSED)
    (folder / "broken.onnx").write_bytes(b"\x08\x08\x12")
    (folder / "readme.txt").write_text("no model")
    return folder


WANTED = {
    "a.onnx": Status.CONVERTED,
    "broken.onnx": Status.UNREADABLE,
    "deep/b.onnxtxt": Status.CONVERTED,
    "deep/c.ONNX": Status.UNCHANGED,
    "large/d.onnx": Status.CONVERTED,
    "refused.onnx": Status.REFUSED,
}


def by_name(outcomes: Iterator[Outcome], folder: str | Path = "zoo") -> dict[str, Outcome]:
    found = {Path(outcome.source).relative_to(folder).as_posix(): outcome for outcome in outcomes}
    return dict(sorted(found.items()))


def statuses(found: Mapping[str, Outcome]) -> dict[str, Status]:
    return {name: outcome.status for name, outcome in found.items()}


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def inline() -> ThreadPoolExecutor:
    """The fastest: nothing is imported again."""
    return ThreadPoolExecutor(1)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / many.JOURNAL).read_text().splitlines()]


# --- outcomes ---


def check_results(folder: Path, found: Mapping[str, Outcome]) -> None:
    assert statuses(found) == WANTED
    written = {name for name, status in WANTED.items() if status in ("converted", "unchanged")}
    assert files(folder) == {*written, "large/w.bin", many.JOURNAL}
    for name in written - {"deep/b.onnxtxt"}:
        before = run(onnx.load(Path("zoo") / name), [FEEDS])[0]
        after = onnx.load(folder / name)
        assert opset_of(after) == 12
        assert np.array_equal(before[0], run(after, [FEEDS])[0][0])


def test_each_model_has_its_outcome(zoo: Path) -> None:
    found = by_name(convert_many("zoo", "out", opset=12))
    check_results(Path("out"), found)
    assert found["a.onnx"].plan == opshift.Summary(13, 12, 0, 0, 1)
    assert found["a.onnx"].verdict == found["deep/c.ONNX"].verdict == "equal"
    assert found["a.onnx"].output == "out/a.onnx"
    assert found["broken.onnx"].reason.startswith("this is not an ONNX model")
    assert "bfloat16" in found["refused.onnx"].reason
    assert found["refused.onnx"].plan is None
    assert not any(outcome.resumed for outcome in found.values())
    assert (zoo / "deep" / "c.ONNX").read_bytes() == Path("out/deep/c.ONNX").read_bytes()


def test_an_outcome_is_frozen_and_can_be_pickled() -> None:
    outcome = Outcome("a", "b", Status.REFUSED, "why", 1.5, opshift.Summary(1, 2, 3, 4, 5), opshift.Verdict.EQUAL)
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.reason = ""  # type: ignore[misc]


def raising(error: Exception) -> Callable[..., Any]:
    def convert(*_: object, **__: object) -> None:
        raise error

    return convert


REPORT = opshift.Report((), opshift.passes.base.report.Check("", "", opshift.Verdict.DIFFERENT, "ties", "x", 3), 0, {})
ERRORS = [
    (opshift.VerificationError("It computes something else.", REPORT), Status.NOT_EQUAL, "something else"),
    (UsageError("There is no input 'x'."), Status.NOT_WRITTEN, "no input"),
    (OSError(28, "No space left on device"), Status.NOT_WRITTEN, "No space left"),
    (ZeroDivisionError("by zero"), Status.FAILED, "opshift itself failed (ZeroDivisionError: by zero)"),
    (MemoryError(), Status.FAILED, "MemoryError"),
]


@pytest.mark.parametrize(("error", "status", "words"), ERRORS, ids=lambda value: type(value).__name__)
def test_every_error_is_an_outcome(
    zoo: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: Status, words: str
) -> None:
    monkeypatch.setattr("opshift.passes.convert.convert", raising(error))
    monkeypatch.setattr(many, "_check", lambda *_: None)
    with inline() as pool:
        found = list(convert_many("zoo", "out", executor=pool, opset=12))
    assert {outcome.status for outcome in found} == {status}
    assert all(words in outcome.reason for outcome in found)
    assert files(Path("out")) == {many.JOURNAL}


def test_what_is_no_model_is_unreadable(zoo: Path) -> None:
    os.mkfifo(zoo / "fifo.onnx")
    (zoo / "loose.onnx").symlink_to("nowhere")
    with inline() as pool:
        found = by_name(convert_many("zoo", "out", executor=pool, opset=12, verify=False))
        assert found["fifo.onnx"].reason == "this is not a regular file."
        assert found["loose.onnx"].reason == "there is no such file."
        assert statuses(found) == {**WANTED, **dict.fromkeys(("fifo.onnx", "loose.onnx"), Status.UNREADABLE)}
        (one,) = convert_many(["zoo/missing.onnx"], "out", executor=pool, opset=12)
    assert (one.status, one.reason) == (Status.UNREADABLE, "there is no such file.")


def test_a_model_that_changes_while_it_is_converted_is_converted_again(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has the digest of what was read, or an older one; never that of what is there now."""
    from opshift.passes import convert as module

    real = module.convert

    @functools.wraps(real)
    def late(model: Path, **asked: Any) -> Any:
        result = real(model, **asked)
        if model.name == "a.onnx":
            write_again(model)
        return result

    monkeypatch.setattr(module, "convert", late)
    resumed(zoo)
    monkeypatch.setattr(module, "convert", real)
    (zoo / "deep" / "c.ONNX").touch()
    assert resumed(zoo) == KEPT - {"a.onnx"}
    assert resumed(zoo) == KEPT


def test_files_of_a_request_are_found_from_any_folder(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.toml").write_text('name = "mine"\nopset = [12, 12]\n')
    asked = many._absolute({"target": "mine.toml", "inputs": "a.npz", "opset": 3})
    assert asked == {"target": Path("mine.toml").absolute(), "inputs": Path("a.npz").absolute(), "opset": 3}
    assert many._absolute({"target": "opencv-4", "inputs": None}) == {"target": "opencv-4", "inputs": None}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_journal_that_cannot_be_written_ends_the_run(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = convert_many("zoo", "out", opset=12, verify=False, executor=inline())
    journal = many._Journal(Path("out"))
    journal._lines._file = open("/dev/full", "ab", buffering=0)  # noqa: PTH123, SIM115
    with pytest.raises(UsageError, match=r"(?i)no space left on device"):
        journal.add("a", {})
    journal.close()
    going.close()


def test_what_stands_in_the_way_in_the_folder(zoo: Path) -> None:
    """As a single conversion: a file is replaced; other weights, a FIFO and a folder are not."""
    out = Path("out")
    (out / "large").mkdir(parents=True)
    (out / "large" / "w.bin").write_bytes(b"precious")
    (out / "a.onnx").write_text("old")
    (out / "deep" / "b.onnxtxt").mkdir(parents=True)
    os.mkfifo(out / "deep" / "c.ONNX")
    with inline() as pool:
        found = by_name(convert_many("zoo", "out", executor=pool, opset=12, verify=False))
    assert found["a.onnx"].status is Status.CONVERTED
    assert opset_of(onnx.load(out / "a.onnx")) == 12
    for name, words in {
        "large/d.onnx": "not overwritten",
        "deep/b.onnxtxt": "folder",
        "deep/c.ONNX": "regular",
    }.items():
        assert found[name].status is Status.NOT_WRITTEN
        assert words in found[name].reason
    assert (out / "large" / "w.bin").read_bytes() == b"precious"


def hot(path: Path) -> np.ndarray[Any, Any]:
    return run(onnx.load(path), [FEEDS])[0][0]


def test_weights_go_where_they_are_wanted(zoo: Path) -> None:
    with inline() as pool:
        for how, wanted in {"embed": set(), "save": {"d.onnx.data"}, "copy": {"w.bin"}}.items():
            more: dict[str, Any] = {"external_data": how, "size_threshold": 50}
            found = by_name(convert_many("zoo", how, executor=pool, opset=12, verify=False, **more))
            assert found["large/d.onnx"].status is Status.CONVERTED
            assert files(Path(how) / "large") - {"d.onnx"} == wanted
            assert np.array_equal(hot(Path(how) / "large/d.onnx"), hot(Path("zoo/large/d.onnx")))
        found = by_name(convert_many("zoo", "keep", executor=pool, opset=12, verify=False, external_data="keep"))
        assert found["large/d.onnx"].status is Status.NOT_WRITTEN
        assert "are to stay" in found["large/d.onnx"].reason


MEASURED = """
import resource, sys
from opshift.cli.main import main
from resident import peak
assert main(["convert", sys.argv[1], "-o", sys.argv[2], "--opset", "12", "--no-verify", "-q"]) == 0
used = resource.getrusage(resource.RUSAGE_SELF)
print(peak(), used.ru_utime + used.ru_stime)
"""


@pytest.mark.slow
@posix
def test_weights_beside_the_model_cost_nothing(zoo: Path) -> None:
    """12 GB, in a sparse file, take no more memory and time than 96 bytes do."""
    used = []
    for elements in (24, 3_000_000_000):
        model = onnx.load(zoo / "large" / "d.onnx", load_external_data=False)
        model.graph.initializer[0].dims[:] = [elements]
        model.graph.node[-1].op_type, model.graph.node[-1].input[1] = "Abs", ""
        del model.graph.node[-1].input[1:]
        os.truncate(zoo / "large" / "w.bin", 4 * elements)
        (zoo / "large" / "in.onnx").write_bytes(model.SerializeToString())
        paths = [str((zoo / "large" / name).resolve()) for name in ("in.onnx", "out.onnx")]
        command = [sys.executable, "-c", MEASURED, *paths]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        used.append([float(number) for number in done.stdout.split()[-2:]])
    assert used[1][0] - used[0][0] < 20_000_000
    assert used[1][1] - used[0][1] < 1


# --- executors ---


def executors() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "threads", lambda: ThreadPoolExecutor(2)
    yield "processes", lambda: ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    yield "own processes", lambda: Processes(2)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in executors()])
def test_any_executor_serves(zoo: Path, make: Callable[[], Executor]) -> None:
    with make() as pool:
        check_results(Path("out"), by_name(convert_many("zoo", "out", executor=pool, opset=12)))
        found = by_name(convert_many("zoo", "out", executor=pool, opset=12, resume=True))
        assert {name for name, outcome in found.items() if outcome.resumed} == set(WANTED) - {"broken.onnx"}


THREADS = """
from concurrent.futures import ThreadPoolExecutor
import opshift
with ThreadPoolExecutor(4) as pool:
    print(*sorted(outcome.status for outcome in opshift.convert_many("zoo", "out", executor=pool, opset=12)))
"""


@pytest.mark.slow
def test_threads_that_import_at_the_same_time(zoo: Path) -> None:
    (zoo / "broken.onnx").unlink()
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout == "converted converted converted refused unchanged\n"


@pytest.mark.slow
def test_a_cluster_of_dask_serves(zoo: Path) -> None:
    distributed = need("distributed")
    settings: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        executor = client.get_executor()
        check_results(Path("out"), by_name(convert_many("zoo", "out", executor=executor, opset=12)))


def deadly(job: many.Job) -> many.JobResult:
    """Ends its process for one model."""
    if job.model_path.name == "a.onnx":
        os.kill(os.getpid(), signal.SIGKILL)
    return real_attempt(job)


real_attempt = many.run_job


@posix
@pytest.mark.parametrize("make", [lambda: None, lambda: ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))])
def test_a_model_that_kills_its_process_ends_nothing_else(
    zoo: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    monkeypatch.setattr(many, "run_job", deadly)
    pool = make()
    found = by_name(convert_many("zoo", "out", executor=pool, opset=12, verify=False))
    if pool:
        pool.shutdown()
    assert statuses(found) == {**WANTED, "a.onnx": Status.FAILED}
    assert "died with signal 9 (SIGKILL)" in found["a.onnx"].reason
    assert "a.onnx" not in files(Path("out"))


class Lost(Executor):
    """A cluster that loses every machine."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(ConnectionError("the machine is gone"))
        return future


def test_a_machine_that_is_lost_is_an_outcome(zoo: Path) -> None:
    found = list(convert_many("zoo", "out", executor=Lost(), opset=12))
    assert {outcome.status for outcome in found} == {Status.FAILED}
    assert "ConnectionError: the machine is gone" in found[0].reason


def test_processes_outlive_their_calls() -> None:
    with Processes(1) as pool:
        first = pool.submit(os.getpid)
        assert pool.submit(os.getpid).result() == first.result() != os.getpid()
        with pytest.raises(ProcessDiedError, match="ended with status 7"):
            pool.submit(os._exit, 7).result()
        with pytest.raises(RuntimeError, match="ValueError: invalid literal"):
            pool.submit(int, "x").result()
        with pytest.raises((AttributeError, pickle.PicklingError)):
            pool.submit(lambda: 1).result()
        last = pool.submit(os.getpid).result()
        assert last != first.result()
        slow = pool.submit(time.sleep, 60)
        time.sleep(0.2)
        begun = time.monotonic()
        pool.stop()
        assert time.monotonic() - begun < 10
        assert isinstance(slow.exception(), ProcessDiedError)
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


# --- what is done is not done again ---


def resumed(zoo: Path, **more: Any) -> set[str]:
    """Convert with resume; return what was not done again."""
    with inline() as pool:
        found = by_name(
            convert_many(zoo, "out", executor=pool, resume=True, **{"opset": 12, "verify": False, **more}), zoo
        )
    assert statuses(found) == WANTED
    return {name for name, outcome in found.items() if outcome.resumed}


KEPT = set(WANTED) - {"broken.onnx"}


def test_nothing_is_done_twice(zoo: Path) -> None:
    assert resumed(zoo) == set()
    before = {name: (Path("out") / name).stat().st_mtime_ns for name in files(Path("out"))}
    assert resumed(zoo) == KEPT
    after = {name: (Path("out") / name).stat().st_mtime_ns for name in files(Path("out"))}
    assert {name for name in before if before[name] != after[name]} == {many.JOURNAL}
    assert resumed(zoo.absolute()) == KEPT, "the same folder by another name"
    with inline() as pool:
        again = list(convert_many("zoo", "out", executor=pool, opset=12, verify=False))
    assert not any(outcome.resumed for outcome in again), "nobody asked to resume"


def write_again(path: Path) -> None:
    write(path, HARDMAX.format(opset=13).replace("y", "z"))


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "the model": (lambda: write_again(Path("zoo/a.onnx")), "a.onnx"),
    "its weights": (lambda: os.utime("zoo/large/w.bin", (1, 1)), "large/d.onnx"),
    "the output": (lambda: Path("out/a.onnx").write_bytes(b"x"), "a.onnx"),
    "the output's weights": (lambda: os.utime("out/large/w.bin", (1, 1)), "large/d.onnx"),
    "the output is gone": (lambda: Path("out/deep/c.ONNX").unlink(), "deep/c.ONNX"),
    "the output's weights are gone": (lambda: Path("out/large/w.bin").unlink(), "large/d.onnx"),
    "another refusal": (lambda: write(Path("zoo/refused.onnx"), REFUSED.replace("[2]", "[3]")), "refused.onnx"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_done_again(zoo: Path, change: str) -> None:
    resumed(zoo)
    act, name = CHANGES[change]
    act()
    assert resumed(zoo) == KEPT - {name}
    assert resumed(zoo) == KEPT


def test_another_request_or_version_does_all_again(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed(zoo)
    assert resumed(zoo, semantics="spec") == set()
    assert resumed(zoo, semantics="spec") == KEPT
    profile = Path("mine.toml")
    profile.write_text('name = "mine"\nopset = [12, 12]\n')
    assert resumed(zoo, target=profile) == set()
    assert resumed(zoo, target=profile) == KEPT
    profile.write_text('name = "mine"\nopset = [11, 12]\n')
    assert resumed(zoo, target=profile) == set()
    assert resumed(zoo, external_data="copy") == set()
    assert resumed(zoo) == set()
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9" if name == "onnx" else real(name))
    assert resumed(zoo) == set()
    monkeypatch.undo()
    monkeypatch.chdir(zoo.parent.absolute())


def test_digests_tell_requests_apart(tmp_path: Path) -> None:
    values = tmp_path / "values"
    values.mkdir()
    (values / "input_0.pb").write_bytes(b"1")
    requests: list[Any] = [
        {"opset": 12},
        {"opset": 13},
        {"opset": None},
        {"inputs": {"x": np.zeros(2)}},
        {"inputs": {"x": np.ones(2)}},
        {"inputs": {"x": np.zeros((2, 1))}},
        {"inputs": values},
        {"decompose": ["ArgMax"]},
        {"decompose": ["OneHot"]},
    ]
    digests = [many.digest_of(request) for request in requests]
    assert len(set(digests)) == len(requests)
    assert digests == [many.digest_of(request) for request in requests]
    (values / "input_0.pb").write_bytes(b"22")
    assert many.digest_of({"inputs": values}) not in digests
    assert many.digest_of({"assume": {"no-nan", "finite-inputs"}}) == many.digest_of(
        {"assume": {"finite-inputs", "no-nan"}}
    )


def test_weights_that_were_written_meanwhile_are_not_known(zoo: Path) -> None:
    os.utime("zoo/large/w.bin", (time.time() + 1000,) * 2)
    resumed(zoo)
    assert resumed(zoo) == KEPT - {"large/d.onnx"}


DAMAGE = {
    "cut off": lambda text: text[:-30],
    "no JSON": lambda text: text + "{ garbage\n",
    "no record": lambda text: text + '[1]\n{"model": 3}\nnull\n"a"\n',
    "bytes": lambda text: text + "\udcff\udcfe\n",
    "a line without end": lambda text: text + "[" * (many._LONGEST + 9) + "\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_journal_loses_what_is_damaged(zoo: Path, damage: str) -> None:
    resumed(zoo)
    journal = Path("out") / many.JOURNAL
    before = journal.read_text()
    last = json.loads(before.splitlines()[-1])["model"]
    journal.write_text(DAMAGE[damage](before), errors="surrogateescape")
    assert resumed(zoo) == (KEPT - {last} if damage == "cut off" else KEPT)
    assert resumed(zoo) == KEPT


def test_a_journal_larger_than_any_is_not_read(zoo: Path) -> None:
    resumed(zoo)
    os.truncate(Path("out") / many.JOURNAL, 2**40)
    with pytest.raises(opshift.UsageError, match="it is no journal"):
        resumed(zoo)


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / many.JOURNAL).write_text('{"model": "a", "outc')
    for name in ("b", "c"):
        journal = many._Journal(tmp_path)
        journal.add(name, {"request": name})
        journal.close()
    assert set(many._records(tmp_path)) == {"b", "c"}


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(outcome=None),
        lambda record: record.update(source=None),
        lambda record: record.update(output={"files": 3}),
        lambda record: record["outcome"].update(status="excellent"),
        lambda record: record["outcome"].update(plan={"nodes": 3}),
        lambda record: record.pop("request"),
        lambda record: record["outcome"].update(seconds="long"),
    ],
)
def test_a_record_that_makes_no_sense_is_passed_over(zoo: Path, change: Callable[[dict[str, Any]], None]) -> None:
    resumed(zoo)
    records = lines(Path("out"))
    for record in records:
        change(record)
    (Path("out") / many.JOURNAL).write_text("".join(json.dumps(record) + "\n" for record in records))
    assert resumed(zoo) <= {"refused.onnx"}


def test_a_run_that_is_broken_off_remembers_what_is_done(zoo: Path) -> None:
    with inline() as pool:
        going = convert_many("zoo", "out", executor=pool, opset=12, verify=False)
        first = next(going)
        pool.submit(int).result()  # after all the others
        assert len(lines(Path("out"))) == 1
        going.close()
    assert first.source == "zoo/a.onnx"
    assert {line["model"] for line in lines(Path("out"))} == set(WANTED)
    assert resumed(zoo) == KEPT


# --- interruptions ---

# Whatever a shell starts in the background ignores Ctrl-C, and hands that on.
INTERRUPTED = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from opshift.cli.main import main
from opshift.passes import batch as many
import test_many
many.run_job = test_many.slow
sys.exit(main(["convert", "zoo", "-o", "out", "--opset", "12", "--no-verify", *sys.argv[1:]]))
"""


def slow(job: many.Job) -> many.JobResult:
    """Converts `a.onnx`, and hangs in the middle of writing the others."""
    if job.model_path.name == "a.onnx":
        return real_attempt(job)
    with Batch() as batch:
        file = batch.draft(job.output)
        file.write(b"half")
        file.flush()
        time.sleep(60)
    raise AssertionError


def is_half(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.read_bytes() == b"half"
    return False


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_loses_nothing_and_leaves_nothing(zoo: Path, number: signal.Signals) -> None:
    for name in ("broken.onnx", "deep/b.onnxtxt", "deep/c.ONNX", "large/d.onnx"):
        (zoo / name).unlink()
    out = Path("out")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], env=environment, process_group=0, **streams)
    deadline = time.monotonic() + 60
    while not (halves := [path for path in out.glob(".opshift-*") if is_half(path)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert halves, "it is in the middle of writing"
    if number is signal.SIGINT:  # which a terminal sends to all processes of the group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    try:
        stdout, stderr = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:  # seen once in fifty: Python swallows what it raises within a destructor
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number, stderr
    assert stdout == ""
    messages = [line for line in stderr.splitlines() if not line.startswith("models ")]  # one every ten seconds
    assert messages == [
        "finished models are in the journal: repeat the command with --resume to continue",
        "interrupted",
    ]
    assert files(out) == {"a.onnx", many.JOURNAL}
    assert [line["model"] for line in lines(out)] == ["a.onnx"]
    with inline() as pool:
        going = convert_many("zoo", "out", executor=pool, opset=12, verify=False, resume=True)
        found = {outcome.source: outcome.status for outcome in going}
    assert found == {"zoo/a.onnx": Status.CONVERTED, "zoo/refused.onnx": Status.REFUSED}


@posix
def test_processes_end_when_they_are_orphaned(tmp_path: Path) -> None:
    """And remove what they have written in part, although opshift itself was killed."""
    code = f"""
import sys, pathlib
import test_many
from opshift.passes.runtime.process_pool import Processes
pool = Processes(1)
pool.submit(test_many.half, {str(tmp_path / "out.onnx")!r}).result()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline = time.monotonic() + 60
    while not (left := list(tmp_path.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left
    process.kill()
    process.wait()
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())


def half(path: str) -> None:
    with Batch() as batch:
        batch.draft(Path(path))
        time.sleep(60)


# --- which models ---


def names(models: Any, output: str = "out") -> list[str]:
    return list(many.found(models, Path(output)))


def test_which_models_are_found(zoo: Path) -> None:
    everything = sorted(WANTED)
    assert names("zoo") == names(zoo.absolute()) == names("zoo/") == names("./zoo") == everything
    assert names("zoo/**/*") == everything
    assert names("zoo/*") == ["a.onnx", "broken.onnx", "refused.onnx"]
    assert names("zoo/d*/*") == ["deep/b.onnxtxt", "deep/c.ONNX"]
    assert names("zoo/deep/[bx].onnx*") == ["b.onnxtxt"]
    assert names(str(zoo.absolute()) + "/d*/*") == ["deep/b.onnxtxt", "deep/c.ONNX"]
    assert names("*/a.onnx") == ["zoo/a.onnx"]
    assert names("zoo/a.onnx") == ["a.onnx"]
    assert names(["zoo/a.onnx", Path("zoo/deep/b.onnxtxt")]) == ["a.onnx", "deep/b.onnxtxt"]
    assert names(["zoo/deep/c.ONNX"]) == ["c.ONNX"]
    assert names(path for path in ("zoo/deep/c.ONNX", "nowhere/x.onnx")) == ["nowhere/x.onnx", "zoo/deep/c.ONNX"]


def test_results_inside_of_the_folder_are_no_models(zoo: Path) -> None:
    write(zoo / "out" / "old.onnx", HARDMAX.format(opset=12))
    assert names("zoo", "zoo/out") == sorted(WANTED)
    assert names("zoo/**/*", "zoo/out") == sorted(WANTED)
    assert "out/old.onnx" in names("zoo", "elsewhere")
    (zoo / "link.onnx").symlink_to("out/old.onnx")
    (zoo / "folder.onnx").mkdir()
    assert names("zoo", "zoo/out") == sorted([*WANTED, "link.onnx"])


NOT_FOUND = [
    ("zoo/large/*.txt", "out", "there are no models"),
    ("nowhere/*.onnx", "out", "there are no models"),
    ([], "out", "there are no models"),
    ("zoo", "zoo", "is one of the models"),
    ("zoo", "alias", "is one of the models"),
    ("zoo/*/../a.onnx", "zoo", "is one of the models"),
    ("zoo/d*/../../other/*", "out", "is outside"),
]


@pytest.mark.parametrize(("models", "output", "words"), NOT_FOUND, ids=str)
def test_what_cannot_be_meant(zoo: Path, models: Any, output: str, words: str) -> None:
    Path("alias").symlink_to("zoo")
    write(Path("other/x.onnx"), HARDMAX.format(opset=13))
    with pytest.raises(UsageError, match=words):
        convert_many(models, output, opset=12)
    assert not Path("zoo", many.JOURNAL).exists()


REQUESTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, UsageError, "Nothing was requested"),
    ({"opset": 99}, UsageError, "no opset 99"),
    ({"target": "nowhere"}, UsageError, "nowhere"),
    ({"opset": 12, "jobs": 0}, UsageError, "At least one job"),
    ({"opset": 12, "seeed": 1}, TypeError, "'seeed'"),
    ({"opset": 12, "model": "x"}, TypeError, "'model'"),
]


@pytest.mark.parametrize(("asked", "error", "words"), REQUESTS, ids=str)
def test_a_request_that_makes_no_sense_is_refused_at_once(
    zoo: Path, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        convert_many("zoo", "out", **asked)
    assert not Path("out").exists()


def test_a_folder_that_cannot_be_written(zoo: Path) -> None:
    Path("file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        convert_many("zoo", "file", opset=12)
    (Path("out") / many.JOURNAL).mkdir(parents=True)
    with pytest.raises(UsageError, match="not a regular file"):
        convert_many("zoo", "out", opset=12)


# --- the command line ---

CONVERT = ("convert", "zoo", "-o", "out", "--opset", "12", "--no-verify")


def test_the_table(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(CONVERT) == 2
    out, err = capsys.readouterr()
    assert err == ""
    printed = out.splitlines()
    assert printed[0].split() == ["Model", "Outcome", "Reason"]
    assert printed[1].split()[:2] == ["zoo/broken.onnx", "unreadable"]
    assert printed[2].split()[:2] == ["zoo/refused.onnx", "refused"]
    assert printed[3:] == [
        "",
        "Outcome     Models",
        "converted   3",
        "unchanged   1",
        "refused     1",
        "not equal   0",
        "unreadable  1",
        "4 results not verified.",
        "4 of 6 models written to out.",
    ]
    assert main([*CONVERT, "--resume", "-q"]) == 2
    assert capsys.readouterr() == ("4 of 6 models written to out.\n", "")
    assert main([*CONVERT, "--resume", "-v", "--jobs", "2"]) == 2
    out, err = capsys.readouterr()
    assert "5 models done by an earlier run.\n" in out
    assert "zoo/a.onnx: converted, done earlier.\n" in err
    assert err.count("\n") == 6
    assert "zoo/broken.onnx: unreadable, " in err


@pytest.mark.parametrize(("left", "status"), [(("a.onnx",), 0), (("a.onnx", "refused.onnx"), 1)])
def test_the_exit_status_is_the_highest(zoo: Path, left: tuple[str, ...], status: int) -> None:
    for name in set(WANTED) - set(left):
        (zoo / name).unlink()
    assert main(CONVERT) == status


def test_every_outcome_has_an_exit_status() -> None:
    from opshift.cli.commands.batch import EXIT

    assert set(EXIT) == set(Status)
    assert {status for name, status in EXIT.items() if name not in many._FINAL} == {1, 2, 3}


def test_a_json_line_a_model_and_a_report(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERT, "--json", "--report", "report.json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    printed = {line["model"]: line for line in map(json.loads, out.splitlines())}
    assert {name: line["outcome"] for name, line in printed.items()} == {
        f"zoo/{name}": str(status) for name, status in WANTED.items()
    }
    assert printed["zoo/a.onnx"]["summary"]["lowered"] == 1
    assert printed["zoo/a.onnx"]["verdict"] == "unchecked"
    assert printed["zoo/a.onnx"]["status"] == 0
    assert printed["zoo/broken.onnx"]["status"] == 2
    report = json.loads(Path("report.json").read_text())
    assert report["status"] == 2
    lines = [{**model, "schema": 1, "command": "convert"} for model in report["models"]]
    assert lines == [printed[name] for name in sorted(printed)]


def test_what_is_not_proven_is_listed(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in WANTED:
        (zoo / name).unlink()
    write(
        zoo / "own.onnx",
        """<ir_version: 8, opset_import: ["": 13, "acme": 1]> g (float[2] x) => (float[2] y) { y = acme.Own (x) }""",
    )
    assert main(["convert", "zoo", "-o", "out", "--opset", "12"]) == 0
    out = capsys.readouterr().out
    assert "zoo/own.onnx  converted  not verified: " in out
    assert "1 result not verified.\n1 of 1 model written to out.\n" in out


@pytest.mark.slow
@posix
def test_a_bar_on_a_terminal(zoo: Path) -> None:
    for name in ("broken.onnx", "refused.onnx"):
        (zoo / name).unlink()
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "opshift", *CONVERT]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal, on Linux
            while data := os.read(ours, 10_000):
                shown += data
    os.close(ours)
    assert process.returncode == 0
    assert b"models" in shown
    assert b"4/4" in shown


USAGE = [
    (["convert", "zoo", "--in-place", "--opset", "12"], "--in-place is for one model"),
    (["convert", "zoo", "--opset", "12"], "add -o FOLDER"),
    (["convert", "zoo", "-o", "zoo/a.onnx", "--opset", "12"], "is not a folder"),
    (["convert", "zoo", "-o", "out", "--opset", "12", "--jobs", "0"], "at least one model"),
    (["convert", "zoo", "-o", "out", "--opset", "12", "--jobs", "-1"], "a whole number"),
    (["convert", "zoo", "-o", "out"], "nothing was requested"),
    (["convert", "zoo", "-o", "out", "--opset", "99"], "99"),
    (["convert", "zoo", "-o", "zoo", "--opset", "12"], "is one of the models"),
    (["convert", "zoo", "-o", "out", "--opset", "12", "--report", "x.txt"], "ends in .html, .json or .md"),
    (["convert", "zoo", "-o", "out", "--opset", "12", "--no-verify", "--seed", "1"], "--seed has no effect"),
    (["convert", "zoo/*.x", "-o", "out", "--opset", "12"], "there are no models"),
    (["convert", "zoo/a.onnx", "-o", "b.onnx", "--opset", "12", "--jobs", "2"], "--jobs is for many models"),
    (["convert", "zoo/a.onnx", "-o", "b.onnx", "--opset", "12", "--resume"], "--resume is for many models"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE, ids=lambda value: " ".join(value)[:60])
def test_usage_error(zoo: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert not Path("out").exists()
    assert not Path("b.onnx").exists()


@pytest.mark.slow
def test_models_that_are_named_one_by_one(zoo: Path) -> None:
    write(Path("zoo/d/x.onnx"), HARDMAX.format(opset=13))
    report = ["--report", "report.json"]
    command = ["convert", "zoo/a.onnx", "--opset", "12", "-o", "out", "-j", "2", *report, "--no-verify", "zoo/d/x.onnx"]
    assert main(command) == 0
    for name in ("a.onnx", "d/x.onnx"):
        assert opset_of(onnx.load(Path("out", name))) == 12
    found = json.loads(Path("report.json").read_text())
    assert [one["model"] for one in found["models"]] == [str(Path("zoo/a.onnx")), str(Path("zoo/d/x.onnx"))]
    assert "model" not in found


def test_a_file_whose_name_looks_like_a_pattern_is_one_model(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("a[1].onnx"), HARDMAX.format(opset=13))
    assert main(["convert", "a[1].onnx", "-o", "b.onnx", "--opset", "12", "--no-verify"]) == 0
    assert Path("b.onnx").is_file()


def test_names_of_models_move_no_cursor(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (zoo / "\x1b[2J.onnx").write_bytes(b"")
    main([*CONVERT, "-v"])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "zoo/\\x1b[2J.onnx" in out


def test_a_counterexample_of_each_model_has_a_folder(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def convert(model: Path, **request: Any) -> None:
        asked.append(request["save_repro"])
        raise UsageError("enough")

    monkeypatch.setattr("opshift.passes.convert.convert", convert)
    monkeypatch.setattr(many, "_check", lambda *_: None)
    with inline() as pool:
        list(convert_many("zoo", "out", executor=pool, save_repro="repro"))
    assert asked == [Path("repro").absolute() / name for name in sorted(WANTED)]
