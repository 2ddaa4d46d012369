"""What runs in a child process can neither hold up nor mislead who asked, and files that are given are not trusted."""

from __future__ import annotations

import ast
import io
import itertools
import os
import pickle
import platform
import re
import shlex
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import resident
from onnx.parser import parse_model

from opshift.opsets.native import sandbox
from opshift.opsets.registry.operator import operator_for
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import Clock, Limits
from opshift.passes.proof import branch_coverage, repro
from opshift.passes.proof.comparison import Difference, Mismatch
from opshift.passes.proof.inputs import user_inputs
from opshift.passes.proof.inputs.generator import specs
from opshift.passes.proof.verify import verify
from opshift.passes.runtime import oracles, ort_models, ort_process
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Session

ENDLESS = """g (float[n] x) => (float[n] y) <int64 turns = {4611686018427387904}> {
    y = Loop(turns, , x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[n] w) {
        d = Identity(c) w = Identity(v) }> }"""
MEMORY = itertools.count(2**40)


def source(graph: str, ir_version: int = 8) -> Runnable:
    return Runnable(parse_model(f'<ir_version: {ir_version}, opset_import: ["": 17]> {graph}'))


def opened(graph: str = "g (float[n] x) => (float[n] y) { y = Relu(x) }", **limits: Any) -> Session:
    return Session(source(graph), optimised=False, limits=Limits(**limits))


def x(*values: float) -> dict[str, Any]:
    return {"x": np.array(values, np.float32)}


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return what a call returns; fail where it hangs."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert done, "it hangs, or raised"
    return done[0]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started in a test."""
    found: list[subprocess.Popen[bytes]] = []
    genuine = subprocess.Popen

    def start(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
        found.append(genuine(*arguments, **settings))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4, 20])
def test_what_hangs_on_a_large_input_is_ended_in_time(batch: int) -> None:
    session = opened(ENDLESS, timeout=0.5)
    feeds = [{"x": np.full(200_000, number, np.float32)} for number in range(batch)]
    (rejected,) = within(10, lambda: session.run_all(feeds))
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LIMIT
    assert "within 0.5 s" in str(rejected)


def test_a_child_that_reads_no_request_is_ended_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ort_process, "_STARTING", 0.5)
    rejected = within(10, lambda: ort_models.result_or_rejection(lambda: opened(memory=next(MEMORY)).run(x(1))))
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LIMIT
    assert [process.poll() is None for process in started] == [False]


@pytest.mark.parametrize(
    "printed",
    [
        "print('hello')",
        "import os; os.write(1, b'no line')",
        "import os; os.write(1, bytes(range(256)) * 300)",
        "import os; os.write(1, b'\\x80\\x05]q\\x00')",
    ],
)
def test_what_python_prints_at_its_start_is_no_answer(
    printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(printed)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (outputs,) = within(20, lambda: opened(memory=next(MEMORY)).run(x(-1, 2)))
    assert outputs.tolist() == [0, 2]


def test_a_child_whose_answers_are_lost_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.dup2(2, 1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ort_process, "_PATIENCE", 0.2)
    rejected = within(10, lambda: ort_models.result_or_rejection(lambda: opened(memory=next(MEMORY)).run(x(1))))
    assert isinstance(rejected, RejectedError)
    assert [process.poll() is None for process in started] == [False]


# --- oracles --------------------------------------------------------------------------------------------------------


def sampled(points: int, mode: str = "avg") -> tuple[Any, ...]:
    """Return RoiAlign, its meaning with so many points a side, and its operands."""
    operator = operator_for("", "RoiAlign")
    assert operator is not None
    image = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    boxes, batches = np.array([[0, 0, 1, 1]], np.float32), np.zeros(1, np.int64)
    return operator, operator.meaning(sampling_ratio=points, mode=mode), (image, boxes, batches)


def test_an_oracle_computes_in_the_child_what_it_computes_here() -> None:
    operator, meaning, operands = sampled(3)
    (found,) = oracles.computed(operator, meaning, operands, Limits())
    assert found.dtype == np.float32
    assert found.tolist() == operator.oracle(meaning, *operands).tolist()


def test_an_oracle_that_takes_long_is_ended_in_time() -> None:
    limits = Limits(timeout=1.0, memory=next(MEMORY))
    rejected = within(30, lambda: ort_models.result_or_rejection(oracles.computed, *sampled(15_000), limits))
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LIMIT


def test_an_oracle_that_takes_much_memory_is_ended() -> None:
    before = resident.peak()
    rejected = ort_models.result_or_rejection(oracles.computed, *sampled(50_000), Limits(memory=2**29))
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LIMIT
    assert "memory" in str(rejected)
    assert resident.peak() < before + 2**28


def test_an_oracle_whose_outputs_are_large_is_rejected() -> None:
    operator = operator_for("", "Expand")
    assert operator is not None
    meaning = operator.meaning()
    rejected = ort_models.result_or_rejection(
        oracles.computed, operator, meaning, (np.ones(1, np.float32), np.array([10_000_000])), Limits(results=2**20)
    )
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LARGE


def test_what_an_oracle_does_not_take_is_rejected() -> None:
    operator, meaning, (image, boxes, batches) = sampled(3)
    for wrong in ((image, boxes, batches + 7), (image, boxes + np.inf, batches), (image, boxes[:0], batches)):
        rejected = ort_models.result_or_rejection(oracles.computed, operator, meaning, wrong, Limits())
        assert isinstance(rejected, RejectedError)
        assert rejected.why is RejectionKind.REJECTED


def test_loops_without_nodes_end_in_time() -> None:
    """Loops that are entered turn by turn, of which the innermost has nothing to run."""
    inner = "b0 (int64 i0, bool c0, complex64[1] v0) => (bool c0, complex64[1] v0) { }"
    for depth in range(1, 6):
        inner = (
            f"b{depth} (int64 i{depth}, bool c{depth}, complex64[1] v{depth}) => "
            f"(bool c{depth}, complex64[1] w{depth}) {{ w{depth} = Loop(m, t, v{depth}) <body = {inner}> }}"
        )
    constants = "<int64 m = {249}, bool t = {1}>"
    looped = source(f"g (complex64[1] x) => (complex64[1] y) {constants} {{ y = Loop(m, t, x) <body = {inner}> }}")
    limits = Limits(clock=Clock(1.0, 1.0))
    rejected = within(
        20, lambda: ort_models.result_or_rejection(Interpreter(looped, limits).run, {"x": np.ones(1, np.complex64)})
    )
    assert isinstance(rejected, RejectedError)
    assert rejected.why is RejectionKind.LIMIT
    assert "time is over" in str(rejected)


# --- whose answer it is ---------------------------------------------------------------------------------------------


class Interrupting(dict[str, Any]):
    """An input during which somebody presses Ctrl-C."""

    def values(self) -> Any:
        raise KeyboardInterrupt


def test_after_an_interrupt_no_older_answer_is_taken() -> None:
    session = opened()
    with pytest.raises(KeyboardInterrupt):
        session.run_all([x(1), x(2), Interrupting()])
    (outputs,) = session.run(x(9))
    assert outputs.tolist() == [9]


def test_an_answer_is_taken_by_its_number() -> None:
    session = opened()
    with session._worker.use(None):
        session._worker._send("run", session._key, [(None, x(1))])
        (outputs,) = session.run(x(9))
    assert outputs.tolist() == [9]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_a_child_of_its_own() -> None:
    session = opened(timeout=3.0)
    session.run(x(1))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, str(session.run(x(5))[0].tolist()).encode())
            session._worker.stop()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == "[5.0]"
    os.waitpid(child, 0)
    assert session.run(x(9))[0].tolist() == [9]


# --- several inputs at once -----------------------------------------------------------------------------------------


CRASHES_ON_MINUS_1 = "g (int32[n] x) => (int32[n] y) <int32 least = {-2147483648}> { y = Div(least, x) }"
"""The quotient is no number of the type, for which x86 raises a signal."""


def integers(*values: int) -> dict[str, Any]:
    return {"x": np.array(values, np.int32)}


def all_outcomes(session: Session, batch: list[dict[str, Any]]) -> list[Any]:
    """Return the first element of each output, or the kind of the rejection, until all inputs have one."""
    found: list[Any] = []
    while len(found) < len(batch):
        more = session.run_all(batch[len(found) :])
        assert more
        found += [one.why if isinstance(one, RejectedError) else int(one[0][0]) for one in more]
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another processor may have a quotient there")
@pytest.mark.parametrize("place", [0, 5, 39])
def test_of_inputs_sent_together_only_the_one_that_crashes_is_rejected(place: int) -> None:
    batch = [integers(-1 if number == place else 2) for number in range(40)]
    expected = [RejectionKind.DEATH if number == place else -(2**30) for number in range(40)]
    assert all_outcomes(opened(CRASHES_ON_MINUS_1), batch) == expected


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 20])
def test_of_inputs_sent_together_only_the_one_that_hangs_is_rejected(place: int) -> None:
    hangs = (
        "g (int64[1] x) => (int64[1] y) <int64 m = {9223372036854775807}> "
        "{ b = Cast <to = 9> (x) c = Squeeze(b) l = Loop(m, c, x) "
        "<body = b (int64 i, bool go, int64[1] v) => (bool go, int64[1] w) { w = Identity(v) }> y = Identity(l) }"
    )
    batch = [{"x": np.array([int(number == place)], np.int64)} for number in range(30)]
    expected = [RejectionKind.LIMIT if number == place else 0 for number in range(30)]
    assert within(30, lambda: all_outcomes(opened(hangs, timeout=1.0), batch)) == expected


def test_outputs_of_inputs_sent_together_end_an_answer_when_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened("g (int64[1] s) => (float[n] y) { y = ConstantOfShape(s) }")
    sent: list[int] = []
    genuine = session._worker._send

    def counted(kind: Any, *rest: Any) -> Any:
        sent.append(len(rest[1]))
        return genuine(kind, *rest)

    monkeypatch.setattr(session._worker, "_send", counted)
    batch = [{"s": np.array([8 if number < 40 else 200_000], np.int64)} for number in range(60)]
    found = session.run_all(batch)
    assert [one[0].size for one in found if not isinstance(one, RejectedError)] == [8] * 40 + [200_000] * 20
    assert max(sent) > 16
    assert 1 in sent[6:]


def test_large_inputs_that_alternate_are_the_ones_that_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_process, "_KEPT", 8)
    session = opened()
    batch = [x(*[number] * 1100) for number in range(12)]
    order = [*range(12), *range(6, 12), *range(12), *range(0, 12, 2)] * 2
    found = session.run_all([batch[number] for number in order])
    assert [int(one[0][0]) for one in found if not isinstance(one, RejectedError)] == order


# --- one child ------------------------------------------------------------------------------------------------------


def test_one_child_serves_every_timeout(started: list[subprocess.Popen[bytes]]) -> None:
    for timeout in range(10, 18):
        opened(timeout=float(timeout)).run(x(1))
    assert len(started) <= 1


def test_another_limit_of_memory_ends_the_child_before(started: list[subprocess.Popen[bytes]]) -> None:
    first, second = (opened(memory=next(MEMORY)) for _ in range(2))
    assert [process.poll() is None for process in started] == [False, True]
    assert [session.run(x(3))[0].tolist() for session in (first, second)] == [[3], [3]]
    assert [process.poll() is None for process in started] == [False, False, False, True]
    assert all(stream is not None and stream.closed for stream in (started[0].stdin, started[0].stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
def test_too_little_memory_to_start_is_said() -> None:
    with pytest.raises(RejectedError, match="does not start with 1000 bytes of memory, which is less than it") as found:
        opened(memory=1000)
    assert found.value.why is RejectionKind.LIMIT


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone is told what to end first")
def test_where_memory_runs_out_the_child_is_ended(started: list[subprocess.Popen[bytes]]) -> None:
    opened(memory=next(MEMORY)).run(x(1))
    assert Path(f"/proc/{started[-1].pid}/oom_score_adj").read_text() == "1000\n"
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"


def test_a_child_ends_when_nobody_can_ask_it_any_more() -> None:
    code = "from opshift.passes.runtime.ort_worker import main; main('mark', None)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        model = source(ENDLESS).proto.SerializeToString()
        assert [process.stdout.readline() for _ in range(2)] == [b"\n", b"mark\n"]
        for request in ((1, "open", 1, model, None, False), (2, "run", 1, [(None, x(1))])):
            process.stdin.write(pickle.dumps(request))
        process.stdin.flush()
        assert [pickle.load(process.stdout)[:3] for _ in range(2)] == [(None, "done", None), (1, "done", ["y"])]
        process.stdin.close()
        assert process.wait(5) == 0


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<U0", "|V0", "|S0"])
def test_an_npz_of_countless_empty_elements_is_refused(dtype: str, tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    found = specs(source("g (string[n] x) => (string[n] y) { y = Identity(x) }").proto.graph)
    with pytest.raises(UsageError, match="claims to have 1000000000000 bytes"):
        user_inputs.read(tmp_path / "x.npz", found)


def write(place: Path, *options: str) -> str:
    before, after = (source(f"g (float[n] x) => (float[n] y) {{ y = {name}(x) }}") for name in ("Relu", "Abs"))
    difference = Difference("y", np.zeros(1, np.float32), np.ones(1, np.float32), "1 instead of 0", (0,))
    return repro.write(place, before, after, Mismatch(x(-1), difference, False), options)


def test_the_command_of_a_repro_has_the_further_options(tmp_path: Path) -> None:
    command = shlex.split(write(tmp_path / "new", "--exact", "--timeout", "5"))
    assert command[-3:] == ["--exact", "--timeout", "5"]
    assert command[:3] == ["opshift", "verify", str(tmp_path / "new" / "original.onnx")]


@pytest.mark.parametrize("name", ["original.onnx", "rewritten.onnx", "test_data_set_0", "notes.txt"])
def test_a_repro_overwrites_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"it holds {name} already.* Name a directory that is new or empty"):
        write(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_repro_is_written_once(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UsageError, match="nothing is overwritten"):
        write(tmp_path)


# --- branches that no input takes -----------------------------------------------------------------------------------


def choice(condition: str, then: str, otherwise: str, output: str = "y") -> str:
    """An If whose branches each apply an operator to x, or are the text of one that gives `output` + "t" or "e"."""
    bodies = [
        text if "=" in text else f"{output}{at} = {text}(x)" for at, text in zip("te", (then, otherwise), strict=True)
    ]
    return (
        f"{output} = If({condition}) <then_branch = a () => (float[n] {output}t) {{ {bodies[0]} }}, "
        f"else_branch = b () => (float[n] {output}e) {{ {bodies[1]} }}>"
    )


def graph(body: str, constants: str = "") -> Runnable:
    """A model whose conditions `rare` and `other` never hold."""
    return source(
        f"""g (float[n] x) => (float[n] y) <float many = {{1e30}}{constants}> {{
            s = ReduceSum<keepdims = 0>(x) rare = Greater(s, many) t = Neg(s) other = Greater(t, many) {body} }}"""
    )


def branches_not_taken(before: Runnable, after: Runnable | None = None) -> list[branch_coverage.Branch]:
    return list(branch_coverage.branches_not_taken(before, after or before, [x(1, -2)], Limits()))


def on(one: Runnable | None, feeds: Feeds) -> list[float]:
    assert one is not None
    (outputs,) = Session(one, optimised=False).run(feeds)
    return [float(value) for value in outputs]


def test_a_branch_in_a_branch_is_reached() -> None:
    nested = [graph(choice("rare", choice("other", name, "Abs", "yt"), "Identity")) for name in ("Neg", "Exp")]
    found = branches_not_taken(*nested)
    assert [one.name for one in found] == [
        "the then branch of If at y",
        "the then branch of If at yt",
        "the else branch of If at yt",
    ]
    assert all(one.sure and one.runs for one in found)
    assert [on(one.original, x(2)) for one in found] == [[2], [-2], [2]]
    assert [on(one.rewritten, x(0)) for one in found] == [[0], [1], [0]]
    report = verify(*(one.proto for one in nested))
    assert "the then branch of If at yt, which no input took" in report.whole.reason


def test_a_branch_in_a_branch_is_seen_where_its_conditions_are() -> None:
    common = "c = Not(rare) d = Not(other)"
    nested = graph(f"{common} {choice('c', choice('d', 'Neg', 'Abs', 'yt'), 'Exp')}")
    assert [one.name for one in branches_not_taken(nested)] == [
        "the else branch of If at y",
        "the else branch of If at yt",
    ]


@pytest.mark.parametrize(
    "looped",
    [
        "n = Loop(one,, x) <body = l (int64 i, bool c, float[n] v) => (bool k, float[n] w) { k = Identity(c) CHOICE }>",
        "n = Scan<num_scan_inputs = 1, body = l (float v) => (float w) { CHOICE }>(x)",
    ],
)
def test_a_branch_in_a_loop_is_said_not_to_be_seen(looped: str) -> None:
    inner = """w = If(rare) <then_branch = a () => (float[n] p) { p = Neg(v) },
                             else_branch = b () => (float[n] q) { q = Exp(v) }>"""
    found = branches_not_taken(graph(f"{looped.replace('CHOICE', inner)} y = Abs(n)", ", int64 one = {1}"))
    kind = "Loop" if "Loop" in looped else "Scan"
    assert [one.name for one in found] == [
        f"the {way} branch of If at w, inside of {kind}, where it was not seen to run" for way in ("then", "else")
    ]
    assert not any(one.runs for one in found)


@pytest.mark.parametrize(
    ("constants", "made"),
    [(", bool c = {0}", ""), ("", "c = Constant<value = bool {0}>()")],
)
def test_dead_branches_are_left_out(constants: str, made: str) -> None:
    one = graph(f"{made} {choice('c', choice('rare', 'Neg', 'Abs', 'yt'), 'Exp')}", constants)
    assert branches_not_taken(one) == []


def test_a_default_that_can_be_overridden_makes_no_branch_dead() -> None:
    one = graph(choice("c", "Neg", "Exp"), ", bool c = {0}")
    one.proto.graph.input.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    assert [branch.name for branch in branches_not_taken(one)] == ["the then branch of If at y"]


def test_branches_beyond_the_most_are_named() -> None:
    many = "".join(f"{choice('rare', 'Neg', 'Exp', f'z{at}')} " for at in range(34))
    found = branches_not_taken(graph(f"{many} y = Sum({', '.join(f'z{at}' for at in range(34))})"))
    assert len(found) == 34
    assert all(one.rewritten is not None for one in found[:32])
    assert [(one.name, one.rewritten) for one in found[32:]] == [
        (f"the then branch of If at z{at}, which was not taken by force, as 32 others were", None) for at in (32, 33)
    ]


@pytest.mark.parametrize(
    ("rewritten", "sure"),
    [
        (choice("rare", "Neg", "Exp"), True),
        (f"usual = Not(rare) {choice('usual', 'Exp', 'Neg')}", False),
        (f"{choice('rare', 'Neg', 'Exp', 'z')} y = Identity(z)", False),
    ],
)
def test_it_is_sure_only_of_the_same_condition_and_outputs(rewritten: str, sure: bool) -> None:
    (found,) = branches_not_taken(graph(choice("rare", "Neg", "Exp")), graph(rewritten))
    assert found.sure is sure


def test_a_name_that_stands_for_another_condition_is_not_sure() -> None:
    before = graph(choice("rare", "Neg", "Exp"))
    turned = source(
        f"""g (float[n] x) => (float[n] y) <float many = {{1e30}}> {{
            s = ReduceSum<keepdims = 0>(x) rare = LessOrEqual(s, many) {choice("rare", "Exp", "Neg")} }}"""
    )
    (found,) = branches_not_taken(before, turned)
    assert not found.sure


# --- what the process does not need ---

linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in sandbox._DENIED, reason="calls are denied on Linux"
)

CONFINED = """
import ctypes, os, socket, subprocess, sys, threading
from opshift.opsets.native import sandbox as confine

reading, writing = os.pipe()
before = threading.Event()
said = {}


def tried(name, call):
    try:
        call()
        said[name] = "done"
    except OSError as error:
        said[name] = error.strerror


def write():
    with open(sys.argv[1], "wb", buffering=0) as file:
        file.write(b"x")


def system(*call):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*call) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def in_a_thread():
    before.wait()
    tried("socket of an earlier thread", socket.socket)


early = threading.Thread(target=in_a_thread)
early.start()
assert confine.calls()
confine.files()
before.set()
early.join()
tried("socket", lambda: socket.socket(socket.AF_INET))
tried("unix socket", lambda: socket.socket(socket.AF_UNIX))
tried("program", lambda: subprocess.run(["true"]))
tried("replaced by a program", lambda: os.execv(sys.executable, ["python"]))
tried("io_uring", lambda: system(425, 1, None))
tried("file", write)
tried("pipe", lambda: os.write(writing, b"x"))
tried("reading", lambda: open(sys.executable, "rb").read(1))
tried("thread", lambda: threading.Thread(target=int).start())
os.write(2, repr(said).encode())
"""

NO = "Operation not permitted"


@linux
def test_what_is_denied_to_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONFINED, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    denied = ("socket of an earlier thread", "socket", "unix socket", "program", "replaced by a program", "io_uring")
    allowed = dict.fromkeys(("pipe", "reading", "thread"), "done")
    assert ast.literal_eval(done.stderr) == {**dict.fromkeys(denied, NO), "file": "File too large", **allowed}


@linux
def test_the_process_of_onnxruntime_is_confined(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # A limit that no other test has: a process that runs already is not started again.
    assert opened(memory=2**31 + 2**20).run(x(-1, 2))[0].tolist() == [0, 2]
    place = Path("/proc") / str(started[-1].pid)
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip()) == ("2", "1")
    assert re.search(r"Max file size +0 +0", (place / "limits").read_text())
    known = (place / "environ").read_bytes()
    assert b"secret" not in known
    assert b"OMP_NUM_THREADS=1" in known
    opened_files = {os.readlink(file) for file in (place / "fd").iterdir()}  # noqa: PTH115 (pipes are no paths)
    assert not [name for name in opened_files if not name.startswith(("pipe:", "/dev/null"))]


def test_the_process_keeps_what_it_needs() -> None:
    given = {"PATH": "/bin", "PYTHONPATH": "a", "LC_ALL": "C", "SystemRoot": "C", "SECRET": "1", "HTTPS_PROXY": "x"}
    assert set(sandbox.environment(given)) == {"PATH", "PYTHONPATH", "LC_ALL", "SystemRoot", sandbox.TELEMETRY}


def test_without_the_calls_of_linux_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not sandbox.calls()
