"""Verification stays within limits of time and memory that nobody has to ask for, and what is right is written."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import patterns
import pytest
import sizes
from onnx.parser import parse_model

import opshift
from opshift.cli.main import main
from opshift.opsets.native import onnx_process
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import load_target
from opshift.passes.analysis import data_propagation
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.analysis.model_summary import summary
from opshift.passes.base import limits as bounds
from opshift.passes.base.limits import Clock, Limits
from opshift.passes.base.memory import machine_memory
from opshift.passes.base.report import Check, Verdict
from opshift.passes.conversion.verification import _shown_to_be_equal
from opshift.passes.proof.inputs.data_flow import input_usages
from opshift.passes.proof.inputs.distributions import bounded
from opshift.passes.proof.inputs.generator import Allowed, Draft, specs
from opshift.passes.proof.inputs.shape_inputs import shape_inputs
from opshift.passes.proof.verify import verify
from opshift.passes.rewrite import planner as planning
from opshift.passes.runtime import ort_process
from opshift.passes.runtime.ort_models import RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Session

MODEL = '<ir_version: 8, opset_import: ["": 13]> g (float[n,k] x) => (float[n,k] y) { y = Hardmax(x) }'
SECONDS = 60
MEMORY = 3 * 2**29

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="memory is neither limited nor measured there")


# --- inputs that set sizes ------------------------------------------------------------------------------------------

REFUSED = {"Resize 10", "Upsample", "Pow 13 to 11", "BlackmanWindow"}

BOUNDED = ("equal", "unchecked", "InvalidModelError", "UnsupportedError")
"""What may become of a model that outgrows every machine."""


@pytest.mark.slow
@pytest.mark.parametrize("listed", ["sizes:DIRECT", "sizes:THROUGH", "sizes:BOMBS", "patterns:PATTERNS"])
def test_verification_stays_in_bounds_and_finds_what_is_right_equal(listed: str) -> None:
    """Inputs that set sizes, directly or through others; models beyond every machine; patterns of real models."""
    found, spikes = measured(listed)
    assert found
    long = {name: seconds for name, (seconds, _, _) in found.items() if seconds >= SECONDS}
    assert not long
    expected = {name: BOUNDED if listed == "sizes:BOMBS" else ("equal",) for name in found if name not in REFUSED}
    wrong = {name: found[name] for name, verdicts in expected.items() if found[name][1] not in verdicts}
    assert not wrong
    assert max(spikes) < MEMORY


def measured(listed: str) -> tuple[dict[str, list[Any]], list[int]]:
    """Return what became of each case of a list by its name, and the most memory of the two processes.

    It is seconds, the verdict or the class of the error, and the reason.
    """
    run = subprocess.run(
        [sys.executable, "measured.py", listed],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    *lines, spikes = map(json.loads, run.stdout.splitlines())
    return {name: found for name, *found in lines}, spikes


def test_each_operator_that_an_input_sets_a_size_of_has_a_case() -> None:
    graphs = " ".join(case.graph for case in [*sizes.DIRECT, *patterns.PATTERNS])
    counting = [
        name for name in {schema.name for schema in onnx.defs.get_all_schemas_with_history()} if traits(name).counts
    ]
    assert len(counting) > 20
    assert {name for name in counting if f"{name}(" not in graphs and f"{name}<" not in graphs} == set()


# --- values that set sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 5, 8, 30, 500])
@pytest.mark.parametrize("turn", range(-8, 8))
def test_sizes_that_are_drawn_multiply_up_to_little(length: int, turn: int) -> None:
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (int64[{length}] s) => (float[] y) {{ y = ConstantOfShape(s) }}'
    )
    draft = Draft(specs(model.graph), frozenset({"s"}), Allowed(whole=True), input_usages(model))
    drawn = draft.feeds(np.random.default_rng(turn + 100), {"s": (length,)}, turn)["s"]
    assert math.prod(max(1, abs(int(size))) for size in drawn) <= 4096
    assert turn >= 0 or set(drawn.tolist()) <= {1}


def test_only_what_is_beyond_the_bound_is_made_one() -> None:
    assert bounded(np.array([3, 0, -2, 5, 1, 2]), 8).tolist() == [3, 0, -2, 1, 1, 1]
    assert bounded(np.array([np.inf, 2.0]), 8).tolist() == [1.0, 1.0]
    assert bounded(np.array(9), 8).tolist() == 9


@pytest.mark.parametrize(
    ("nodes", "total"),
    [
        ("y = Reshape(x, t)", 24),
        ("u = Identity(t) y = Reshape(x, u)", 24),
        ("f = Constant<value_ints=[4]>() u = Concat<axis=0>(f, t) y = Reshape(x, u)", 6),
    ],
)
def test_a_shape_that_is_an_input_has_as_many_elements_as_what_is_reshaped(nodes: str, total: int) -> None:
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (float[n,4] x, int64[k] t) => (float[] y) {{ {nodes} }}'
    )
    view = summary(model)
    draft = Draft(
        specs(model.graph), frozenset({"t"}), Allowed(whole=True), input_usages(view), shape_inputs=shape_inputs(view)
    )
    shapes = {"x": (6, 4), "t": (3,)}
    drawn = [draft.feeds(np.random.default_rng(turn), shapes, turn)["t"] for turn in (0, 1, 2, 4, 5, 6)]
    assert {math.prod(one.tolist()) for one in drawn} == {total}
    assert len({tuple(one.tolist()) for one in drawn}) > 1


# --- limits ---------------------------------------------------------------------------------------------------------


def source(graph: str) -> Runnable:
    return Runnable(parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'))


def test_a_small_model_gets_the_least_memory_and_a_large_one_more() -> None:
    small = parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }')
    large = onnx.ModelProto()
    large.CopyFrom(small)
    large.graph.initializer.add(name="w", data_type=1, dims=[2**28])
    assert bounds.limits(None, None, [small]).memory == bounds.LEAST_MEMORY
    grown = bounds.limits(None, None, [small, large])
    assert grown.memory == min(16 * 2**30, machine_memory())
    assert grown.seconds() > bounds.limits(None, None, [small]).seconds()
    assert bounds.limits(7, 2**29, [large]).memory == 2**29
    assert bounds.limits(7, 2**29, [large]).timeout == 7


def test_what_no_machine_holds_gets_no_more_memory() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[9999999999999] x) => (float[n] y) { y = Relu(x) }'
    )
    assert bounds.limits(None, None, [model]).memory == bounds.LEAST_MEMORY


def test_outputs_that_are_too_large_are_rejected_and_the_next_input_runs() -> None:
    session = Session(
        source("g (int64[1] s) => (float[n] y) { y = ConstantOfShape(s) }"),
        optimised=False,
        limits=Limits(results=4000),
    )
    first, second = session.run_all([{"s": np.array([n], np.int64)} for n in (1001, 1000)])
    assert isinstance(first, RejectedError)
    assert first.why is RejectionKind.LARGE
    assert "4004 bytes" in str(first)
    assert not isinstance(second, RejectedError)


def test_outputs_of_a_long_batch_end_it_early_and_all_are_had_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_process, "_HELD", 100_000)
    session = Session(source("g (float[n] x) => (float[n] y) { y = Relu(x) }"), optimised=False)
    batch = [{"x": np.full(10_000, number, np.float32)} for number in range(20)]
    found: list[Any] = []
    while len(found) < len(batch):
        more = session.run_all(batch[len(found) :])
        assert 0 < len(more) < 8
        found += more
    assert [outputs[0][0] for outputs in found] == list(range(20))


def test_a_verification_ends_when_its_time_is_over() -> None:
    clock = Clock(0.0, 20)
    session = Limits(clock=clock)
    with pytest.raises(RejectedError, match="time is over") as found:
        Session(source("g (float[n] x) => (float[n] y) { y = Relu(x) }"), optimised=False, limits=session)
    assert found.value.why is RejectionKind.LIMIT


def test_time_that_is_lost_is_lost_once() -> None:
    clock = Clock(100, 20)
    assert clock.left(0.25) == 5
    clock.lose(18)
    assert clock.left(0.25) == pytest.approx(2)
    clock.lose(5)
    assert clock.left() == 0
    assert "did not finish in time" in clock.reason


def test_a_memory_error_in_a_comparison_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError("no")

    monkeypatch.setattr("opshift.passes.proof.whole_model.generator.specs", fail)
    one, other = (source(f"g (float[n] x) => (float[n] y) {{ y = {name}(x) }}") for name in ("Relu", "Abs"))
    report = verify(one, other)
    assert report.verdict == "unchecked"
    assert "ran out of memory" in report.whole.reason


def test_a_node_that_could_not_be_compared_is_written_unless_proof_is_required() -> None:
    result = opshift.convert(parse_model(MODEL), opset=11)
    assert result.report is not None
    unproven = dataclasses.replace(result.report, nodes=(Check("main/a", "A-1", Verdict.UNCHECKED, "why", "", 0),))
    _shown_to_be_equal(result, unproven, require_proof=False)
    with pytest.raises(opshift.VerificationError, match="A-1 at main/a could not be shown to be equal: why"):
        _shown_to_be_equal(result, unproven, require_proof=True)


# --- data propagation -----------------------------------------------------------------------------------------------


def test_long_vectors_are_kept_out_of_data_propagation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    genuine = onnx_process.infer_shapes

    def infer(model: Any, *arguments: Any, **settings: Any) -> Any:
        if settings.get("data_prop"):
            seen.update(node.domain for node in model.graph.node)
        return genuine(model, *arguments, **settings)

    monkeypatch.setattr(onnx_process, "infer_shapes", infer)
    text = """<ir_version: 8, opset_import: ["": 21]> g (int64[LENGTH] x, float[n,4] z) => (int64[m] y, float[] w) {
        y = Add(x, x) s = Shape(z) t = Concat<axis=0>(s, s) w = Expand(z, t) }"""
    for length, aside in ((data_propagation.LONGEST, 0), (data_propagation.LONGEST + 1, 1)):
        seen.clear()
        inferred = infer_model(parse_model(text.replace("LENGTH", str(length))))
        assert seen["opshift.aside:"] == aside
        assert [node.domain for node in inferred.graph.node] == [""] * 4
        assert len(inferred.graph.output[1].type.tensor_type.shape.dim) == 4
        assert inferred.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT64


# --- what is asked for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("seed", value) for value in (-1, 1.5, "1", True, None)),
        *(("timeout", value) for value in (0, -1, math.nan, math.inf, "5", True)),
        *(("memory", value) for value in (0, -1, 2.5, "1G", True, 2**61, 10**40)),
        *(("opset", value) for value in ("13", 13.0, True, 0, 99)),
        *(("ir_version", value) for value in ("8", 99, 0, -1, True)),
    ],
)
def test_an_argument_that_is_no_such_thing_is_a_usage_error(name: str, value: Any) -> None:
    with pytest.raises(opshift.UsageError, match=r"not|There is no"):
        opshift.convert(parse_model(MODEL), **{"opset": 11, name: value})
    if name in ("seed", "timeout", "memory"):
        with pytest.raises(opshift.UsageError):
            opshift.verify(parse_model(MODEL), parse_model(MODEL), **{name: value})


@pytest.mark.parametrize("option", ["--memory", "--assume-opset"])
@pytest.mark.parametrize("command", ["convert", "verify"])
def test_a_number_that_nothing_holds_is_a_usage_error(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(parse_model(MODEL), path)
    more = ["--opset", "11", "-o", str(tmp_path / "o.onnx")] if command == "convert" else [path]
    assert main([command, path, *more, option, "9" * 40]) == 2
    assert "999" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this file")
def test_a_file_that_cannot_be_read_to_its_end_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "/proc/self/mem", "--opset", "11", "-o", str(tmp_path / "o.onnx")]) == 2
    assert "cannot be read" in capsys.readouterr().err


# --- profiles -------------------------------------------------------------------------------------------------------


def test_a_profile_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(ProfileError, match="not a regular file"):
            load_target(name)


def test_a_profile_is_no_larger_than_profiles_are(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("#" * 2**21)
    with pytest.raises(ProfileError, match="at most 1048576 bytes"):
        load_target(str(tmp_path / "p.toml"))


@pytest.mark.parametrize("text", [".".join(["a"] * 66) + " = 1", "x = {" + ' "a" .' * 66 + "b = 1}", "a.b" * 30_000])
def test_a_key_of_a_profile_has_few_parts(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ProfileError, match="a key has more than 64 parts"):
        load_target(str(tmp_path / "p.toml"))


@pytest.mark.parametrize(
    "text", ["a" * 10**6, " " * 10**6, '"' * 999_999, "." * 10**6, "'\"" * 500_000, "a-" * 500_000]
)
def test_what_is_no_key_takes_no_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    began = time.process_time()
    with pytest.raises(ProfileError):
        load_target(str(tmp_path / "p.toml"))
    assert time.process_time() - began < 10


def test_a_number_that_python_does_not_read_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("opset = [7, " + "9" * 5000 + "]")
    with pytest.raises(ProfileError, match="not valid TOML"):
        load_target(str(tmp_path / "p.toml"))


@pytest.mark.parametrize("nested", ["[" * 65 + "]" * 65, "{a = " * 65 + "1" + "}" * 65, "[" * 100_000])
def test_a_profile_is_no_deeper_than_profiles_are(tmp_path: Path, nested: str) -> None:
    (tmp_path / "p.toml").write_text(f"name = {nested}")
    with pytest.raises(ProfileError, match="deep"):
        load_target(str(tmp_path / "p.toml"))


# --- the command line -----------------------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from opshift.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("memory", ["1", "100K", "10M"])
def test_less_memory_than_anything_takes_is_no_request(tmp_path: Path, memory: str) -> None:
    done = converted(tmp_path, memory)
    assert done.returncode == 2
    assert "64M or more" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
@pytest.mark.parametrize("memory", ["64M", "96M", "128M"])
def test_little_memory_is_said_with_status_2_where_it_is_too_little(tmp_path: Path, memory: str) -> None:
    done = converted(tmp_path, memory)
    assert done.returncode in (0, 2), done.stderr
    assert not done.returncode or "not enough memory" in done.stderr
    assert "Traceback" not in done.stderr


def converted(folder: Path, memory: str) -> subprocess.CompletedProcess[str]:
    """Return how a conversion of `MODEL` ends that has so much memory."""
    (folder / "m.onnxtxt").write_text(MODEL)
    return command(
        "convert", str(folder / "m.onnxtxt"), "-o", str(folder / "o.onnx"), "--opset", "11", "--memory", memory
    )


def test_planning_ends_in_the_time_allowed() -> None:
    model = parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[n,k] x) => (float[n,k] y) { y = Hardmax(x) }')
    with pytest.raises(opshift.UnsupportedError) as caught:
        opshift.convert(model, decompose=["Hardmax"], verify=False, timeout=1e-6)
    assert [refusal.code for refusal in caught.value.refusals] == ["limit"]
    assert caught.value.plan is not None
    assert opshift.convert(model, decompose=["Hardmax"], verify=False, timeout=60).plan.possible


def test_hints_are_looked_for_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names an opset that would do, unless it takes too long to find one."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 20]> g (string[n] x) => (string[n] y) { y = StringConcat(x, x) }'
    )
    hints = []
    for seconds in (bounds.LEAST_TIME, 0.0):
        monkeypatch.setattr(planning, "SECONDS", seconds)
        with pytest.raises(opshift.UnsupportedError) as caught:
            opshift.convert(model, opset=13, verify=False)
        hints += [refusal.hint for refusal in caught.value.refusals]
    assert hints == ["Use opset 20 or newer, if the runtime allows.", ""]
