"""Wrong rewrites must be told from right ones, and neither may end the process that judges them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from rewrites import ADVERSARIAL, RIGHT, WRONG, Rewrite, model, reworded

from opshift.passes.base.report import Report, Verdict
from opshift.passes.proof.verify import verify
from opshift.passes.runtime import ort_process

BY_BITS: dict[int, Any] = {
    TensorProto.BFLOAT16: np.uint16,
    TensorProto.FLOAT8E4M3FN: np.uint8,
    TensorProto.FLOAT8E5M2: np.uint8,
}


def value(declared: onnx.ValueInfoProto, given: Any) -> Any:
    """Return what onnxruntime takes for this input."""
    kind = declared.type.WhichOneof("value")
    if kind == "optional_type":
        return None if given is None else np.array(given, np.float32)
    if kind == "sequence_type":
        element = declared.type.sequence_type.elem_type.tensor_type.elem_type
        return [np.array(one, helper.tensor_dtype_to_np_dtype(element)) for one in given]
    element = declared.type.tensor_type.elem_type
    if element == TensorProto.STRING:
        return np.array(given, object)
    array = np.array(given, helper.tensor_dtype_to_np_dtype(element))
    if element in BY_BITS:
        found = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(BY_BITS[element]), element)
        found.held = array  # onnxruntime reads its memory, and does not hold it
        return found
    return array


def outputs(one: onnx.ModelProto, witness: Any, optimised: bool) -> dict[str, Any] | str:
    """Run a model on the witness; an error is its text."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {each.name: value(each, witness[each.name]) for each in one.graph.input}
        names = [each.name for each in one.graph.output]
        if any(isinstance(each, onnxruntime.OrtValue) for each in feeds.values()):
            wrapped = {
                name: each if isinstance(each, onnxruntime.OrtValue) else onnxruntime.OrtValue.ortvalue_from_numpy(each)
                for name, each in feeds.items()
            }
            found = [each.numpy() for each in session.run_with_ort_values(names, wrapped)]
        else:
            found = session.run(names, feeds)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return dict(zip(names, found, strict=True))


def bits(found: dict[str, Any] | str) -> Any:
    """Return what tells results apart: names in order, types, shapes, and each bit but those of a NaN."""
    if isinstance(found, str):
        return "failed"

    def one(each: Any) -> Any:
        if isinstance(each, list):
            return [one(part) for part in each]
        if not isinstance(each, np.ndarray):
            return each
        if each.dtype.kind == "f":
            each = np.where(np.isnan(each), np.array(np.nan, each.dtype), each)
        return str(each.dtype), each.shape, each.tolist() if each.dtype == object else each.tobytes()

    return [(name, one(each)) for name, each in found.items()]


def judged(rewrite: Rewrite, **more: Any) -> Report:
    if rewrite.shapes is not None:
        more["input_shapes"] = rewrite.shapes
    return verify(rewrite.original, rewrite.rewritten, **more)


def witnessed(cases: dict[str, Rewrite]) -> list[str]:
    return [name for name, rewrite in cases.items() if rewrite.witness is not None and rewrite.runs]


@pytest.mark.parametrize("name", witnessed(WRONG))
def test_the_witness_shows_that_the_rewrite_is_wrong(name: str) -> None:
    rewrite = WRONG[name]
    found = {}
    for optimised in (False, True):
        expected = outputs(rewrite.original, rewrite.witness, optimised)
        assert not isinstance(expected, str), expected
        found[optimised] = bits(expected) != bits(outputs(rewrite.rewritten, rewrite.witness, optimised))
    assert any(found.values())
    if name.endswith(("_that_optimisations_drop", "_which_optimisations_join")):
        assert found == {False: False, True: True}


@pytest.mark.parametrize("name", witnessed(RIGHT))
def test_the_witness_agrees_with_the_right_rewrite(name: str) -> None:
    rewrite = RIGHT[name]
    for optimised in (False, True):
        expected = outputs(rewrite.original, rewrite.witness, optimised)
        actual = outputs(rewrite.rewritten, rewrite.witness, optimised)
        assert not isinstance(expected, str), expected
        assert not isinstance(actual, str), actual
        assert list(expected) == list(actual)
        for key, one in expected.items():
            assert type(one) is type(actual[key])
            if isinstance(one, np.ndarray) and one.dtype.kind == "f":
                assert (one.dtype, one.shape) == (actual[key].dtype, actual[key].shape)
                np.testing.assert_allclose(one, actual[key], rtol=4e-3 if one.dtype == np.float16 else 1e-5, atol=1e-6)
            else:
                assert bits({key: one}) == bits({key: actual[key]})


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_rewrite_is_not_called_equal(name: str) -> None:
    report = judged(WRONG[name])
    if WRONG[name].runs:
        assert report.verdict is Verdict.DIFFERENT, report.whole.reason
    else:
        assert report.verdict is not Verdict.EQUAL
    assert report.whole.reason


@pytest.mark.parametrize("name", list(RIGHT))
def test_a_right_rewrite_is_equal(name: str) -> None:
    report = judged(RIGHT[name])
    assert report.verdict is Verdict.EQUAL, (report.whole.reason, report.whole.counterexample)


# Neither may end the process.


LONGEST = 60
"""Seconds that a model may take which only ever harms: not one timeout for each of a hundred inputs."""


def named(report: Report, words: tuple[str, ...]) -> bool:
    return any(word.lower() in report.whole.reason.lower() for word in words)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ADVERSARIAL))
def test_a_model_that_harms_its_process_ends_as_unchecked(name: str) -> None:
    case = ADVERSARIAL[name]
    started = time.monotonic()
    report = verify(case.harmful, reworded(case.harmful), **case.limits)
    assert report.verdict is Verdict.UNCHECKED
    assert time.monotonic() - started < LONGEST
    assert named(report, case.words), report.whole.reason


@pytest.mark.parametrize("name", list(ADVERSARIAL))
def test_a_rewrite_that_alone_harms_its_process_is_different(name: str) -> None:
    case = ADVERSARIAL[name]
    started = time.monotonic()
    report = verify(case.harmless, case.harmful, **case.limits)
    assert time.monotonic() - started < LONGEST
    assert report.verdict in (Verdict.DIFFERENT, Verdict.UNCHECKED)
    assert named(report, case.words), report.whole.reason


@pytest.mark.slow
def test_a_harmful_model_does_not_spoil_what_is_verified_after_it() -> None:
    case = ADVERSARIAL["division_when_the_model_is_opened"]
    for _ in range(2):
        assert verify(case.harmful, reworded(case.harmful)).verdict is Verdict.UNCHECKED
        assert judged(RIGHT["values_renamed"]).verdict is Verdict.EQUAL
        assert judged(WRONG["argmax_last_of_ties"]).verdict is Verdict.DIFFERENT


def test_a_division_that_dies_on_some_inputs_only_is_not_different() -> None:
    one = model("g (int64[n] a, int64[n] b) => (int64[n] y) { y = Div (a, b) }")
    assert verify(one, reworded(one)).verdict is not Verdict.DIFFERENT


def test_a_limit_does_not_trouble_a_small_model() -> None:
    assert judged(RIGHT["values_renamed"], timeout=20, memory=4 * 1024**3).verdict is Verdict.EQUAL


# The same seed gives the same report.


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No input costs time: how many are run depends on that."""
    monkeypatch.setattr(ort_process, "seconds", lambda: 0.0)


@pytest.mark.parametrize(
    "name",
    [
        "argmax_last_of_ties",
        "one_weight_of_2500",
        "branch_taken_by_a_large_sum",
        "string_lowered",
        "sequence_first_for_last",
        "related_past_and_present",
        "nan_becomes_zero",
        "name_of_an_output",
    ],
)
def test_the_same_seed_gives_the_same_report(name: str, timeless: None) -> None:
    first, second = (json.dumps(judged(WRONG[name], seed=5).to_json()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["values_renamed", "softmax_in_parts", "related_attention", "loop_as_product"])
def test_the_same_seed_gives_the_same_report_of_a_right_rewrite(name: str, timeless: None) -> None:
    first, second = (json.dumps(judged(RIGHT[name], seed=5).to_json()) for _ in range(2))
    assert first == second


def test_the_report_does_not_depend_on_what_was_verified_before(timeless: None) -> None:
    first = json.dumps(judged(WRONG["argmax_last_of_ties"]).to_json())
    judged(RIGHT["values_renamed"])
    assert json.dumps(judged(WRONG["argmax_last_of_ties"]).to_json()) == first


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "name", ["one_hot_wrong_at_minus_depth", "int64_through_double", "branch_taken_by_a_large_sum"]
)
def test_no_seed_misses_it(name: str, seed: int) -> None:
    assert judged(WRONG[name], seed=seed).verdict is Verdict.DIFFERENT


# The command line.


def command(tmp_path: Path, original: onnx.ModelProto, rewritten: onnx.ModelProto, *more: str) -> tuple[int, str]:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, one in zip(paths, (original, rewritten), strict=True):
        onnx.save(one, path)
    done = subprocess.run(
        [sys.executable, "-m", "opshift", "verify", *map(str, paths), *more],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["converter_hardmax_12_to_13", "argmax_by_flipping", "name_of_an_output", "batch_baked_into_a_reshape"]
)
def test_the_command_exits_1_for_a_wrong_rewrite(name: str, tmp_path: Path) -> None:
    status, text = command(tmp_path, WRONG[name].original, WRONG[name].rewritten)
    assert status == 1, text
    assert text.splitlines()[-1].startswith("different: "), text


@pytest.mark.parametrize("name", ["values_renamed", "softmax_in_parts", "gemm_as_matmul", "labels_twice"])
def test_the_command_exits_0_for_a_right_rewrite(name: str, tmp_path: Path) -> None:
    status, text = command(tmp_path, RIGHT[name].original, RIGHT[name].rewritten)
    assert status == 0, text
    assert text.splitlines()[-1].startswith("verified: outputs equal on "), text


@pytest.mark.parametrize(("cases", "expected"), [(WRONG, 1), (RIGHT, 0)])
def test_the_command_takes_shapes(cases: dict[str, Rewrite], expected: int, tmp_path: Path) -> None:
    case = cases["shape_given_by_the_user"]
    status, text = command(tmp_path, case.original, case.rewritten, "--input-shape", "x:17,23")
    assert status == expected, text


@pytest.mark.slow
def test_the_command_survives_a_model_that_dies(tmp_path: Path) -> None:
    case = ADVERSARIAL["division_when_the_model_is_opened"]
    status, text = command(tmp_path, case.harmful, reworded(case.harmful))
    assert status == 1, text
    assert any(word in text for word in case.words), text


@pytest.mark.slow
def test_the_command_survives_a_model_that_hangs(tmp_path: Path) -> None:
    case = ADVERSARIAL["loop_of_two_to_the_62_trips"]
    status, text = command(tmp_path, case.harmful, reworded(case.harmful), "--timeout", "2")
    assert status == 1, text
    assert any(word in text for word in case.words), text


def test_the_command_limits_memory(tmp_path: Path) -> None:
    case = ADVERSARIAL["six_gigabytes_of_an_expansion"]
    status, text = command(tmp_path, case.harmful, reworded(case.harmful), "--memory", "2G")
    assert status == 1, text
    assert any(word in text for word in case.words), text
