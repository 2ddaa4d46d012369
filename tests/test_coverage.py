"""What a report says that EQUAL covers: elements, how many bit for bit, the farthest, and the largest sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import ml_dtypes
import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from opshift.cli import wording
from opshift.cli.main import main
from opshift.passes.base.report import Check, Coverage, Departure, Report, Verdict
from opshift.passes.proof.coverage import CoverageCounter, unequal, units_apart
from opshift.passes.runtime.ort_models import RejectedError

ROOT = Path(__file__).parents[1]
EXACT = '<ir_version: 8, opset_import: ["": 13]> g (float[n,k] x) => (float[n,k] y) { y = Hardmax(x) }'
ROUNDED = '<ir_version: 8, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y) { y = Gelu(x) }'


def array(*values: float, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype)


# --- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float32, np.float64, np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2)],
    ids=str,
)
def test_neighbouring_floats_are_one_unit_apart(dtype: Any) -> None:
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    one = np.arange(40, dtype=bits).view(dtype)
    assert units_apart(one, np.roll(one, -1))[:-1].tolist() == [1.0] * 39
    assert units_apart(-one, one).tolist() == [2.0 * place for place in range(40)]
    assert units_apart(one[5:6], -one[7:8]).tolist() == [12.0]


def test_large_floats_are_told_apart_to_the_unit() -> None:
    one = array(1e300, dtype=np.float64)
    assert units_apart(one, np.nextafter(one, np.inf)).tolist() == [1.0]


def test_nan_is_equal_to_nan_and_zeros_differ_in_their_sign() -> None:
    one, other = array(np.nan, 0.0, 1.0, np.inf), array(-np.nan, -0.0, 1.0, np.nan)
    assert unequal(one, other).tolist() == [False, True, False, True]


# --- what is added up -----------------------------------------------------------------------------------------------


def test_elements_are_counted_and_the_farthest_is_named() -> None:
    covered = CoverageCounter()
    first, second = {"x": array(1)}, {"x": array(2)}
    near = np.nextafter(array(2.0), array(3.0))
    expected = (array(1, 2), np.array([3, 4]))
    covered.add(
        [(first, expected), (second, expected)], [expected, (array(1.0, near[0]), np.array([3, 5]))], ["a", "b"]
    )
    assert covered.total() == Coverage(8, 6, 0, {}, Departure(1, "a", (1,), 2.0, float(near[0])))


def test_outputs_that_are_undefined_are_left_out() -> None:
    covered = CoverageCounter()
    first, second = {"x": array(1)}, {"x": array(2)}
    for feeds in (first, second):
        covered.add([(feeds, (array(1, 2), array(3)))], [(array(1, 5), array(4))], ["a", "b"])
    covered.leave_out(first, {"a"})
    covered.leave_out(first, {"a"})
    total = covered.total()
    assert (total.elements, total.identical, total.undefined) == (4, 1, 2)
    assert total.departure is not None


def test_what_does_not_run_or_is_infinite_is_no_departure() -> None:
    covered = CoverageCounter()
    feeds = {"x": array(1)}
    covered.add([(feeds, (array(np.inf, np.nan),))], [RejectedError("no")], ["a"])
    assert covered.total() == Coverage()
    covered.add([(feeds, (array(np.inf, np.nan),))], [(array(1, 2),)], ["a"])
    assert covered.total() == Coverage(2, 0)


def test_sequences_count_by_their_elements() -> None:
    covered = CoverageCounter()
    covered.add([({"x": array(1)}, ([array(1), array(2, 3)],))], [([array(1), array(2, 4)],)], ["s"])
    assert (covered.total().elements, covered.total().identical) == (3, 2)


def test_maps_strings_and_absent_optionals_count_too() -> None:
    covered = CoverageCounter()
    maps = [{1: 0.5, 2: 1.5}, {1: 2.5, 2: 3.5}]
    expected = (maps, None, np.array(["a", "b"]), "c")
    covered.add([({}, expected)], [(maps, None, np.array(["a", "x"], object), "c")], ["m", "o", "s", "t"])
    assert (covered.total().elements, covered.total().identical) == (7, 6)


def test_coverages_add_up() -> None:
    one = Coverage(5, 4, 1, {"n": 3, "k": 1}, Departure(2, "a", (0,), 1.0, 1.5))
    other = Coverage(7, 7, 0, {"n": 2, "m": 9})
    assert one + other == Coverage(12, 11, 1, {"n": 3, "k": 1, "m": 9}, one.departure)
    checks = tuple(Check(name, "", Verdict.EQUAL, "", "", 1, coverage=one) for name in ("a", "b"))
    report = Report(checks, Check("", "", Verdict.EQUAL, "", "", 1, coverage=other), 0, {})
    assert report.coverage == Coverage(17, 15, 2, {"n": 2, "m": 9}, one.departure)


# --- reports --------------------------------------------------------------------------------------------------------


def report(text: str, opset: int) -> Report:
    found = opshift.convert(parse_model(text), opset=opset).report
    assert found is not None
    return found


def test_an_exact_rewrite_is_equal_bit_for_bit_up_to_the_largest_sizes() -> None:
    found = report(EXACT, 11)
    assert found.coverage.elements == found.coverage.identical > 0
    assert found.coverage.departure is None
    assert set(found.whole.coverage.sizes) == {"n", "k"}
    assert min(found.whole.coverage.sizes.values()) > 1
    assert [line.split(":")[0] for line in wording.coverage(found)] == ["Compared", "Largest sizes"]
    assert not list(wording.departure(found))


def test_a_rounded_rewrite_names_the_farthest_element() -> None:
    found = report(ROUNDED, 17).coverage
    assert 0 < found.identical < found.elements
    assert found.departure is not None
    assert found.departure.units >= 1
    apart = units_apart(array(found.departure.expected), array(found.departure.actual))
    assert apart.tolist() == [found.departure.units]


@pytest.mark.parametrize(
    ("far", "words"),
    [
        (Departure(1, "y", (0,), 1.0, 1.0000001), "1 unit in the last place."),
        (Departure(42, "y", (0,), 1.0, 1.000005), "42 units in the last place."),
        (
            Departure(1_543_503_872, "y", (0,), 2.91038305e-11, -2.91038305e-11),
            "-2.91038305e-11 for 2.91038305e-11, 5.8e-11 apart.",
        ),
        (Departure(780_140_544, "y", (0,), 5.8e-11, 0.0), "5.8e-11 apart."),
    ],
)
def test_around_zero_the_distance_is_no_number_of_units(far: Departure, words: str) -> None:
    whole = Check("", "", Verdict.EQUAL, "", "", 1, coverage=Coverage(4, 3, departure=far))
    (line,) = wording.departure(Report((), whole, 0, {}))
    assert line.endswith(words)


def test_classes_that_were_not_tried_are_named() -> None:
    check = Check("", "", Verdict.EQUAL, "", "", 1, None, {"ties": 3, "NaN": 0, "empty": 0})
    assert check.untried == ("NaN", "empty")


@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_every_report_says_what_was_compared(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnxtxt").write_text(ROUNDED)
    arguments = ["convert", str(tmp_path / "m.onnxtxt"), "-o", str(tmp_path / "o.onnx"), "--opset", "17"]
    assert main([*arguments, "--report", str(tmp_path / f"r.{form}")]) == 0
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("Compared: ")]
    assert "% equal bit for bit; farthest: " in line
    assert "in the last place." in line
    text = (tmp_path / f"r.{form}").read_text(encoding="utf-8")
    if form == "json":
        made = json.loads(text)
        jsonschema.validate(made, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
        found = made["report"]["whole"]["coverage"]
        assert 0 < found["identical"] <= found["elements"]
        assert found["sizes"].keys() == {"n"}
        assert math.isfinite(made["report"]["nodes"][0]["coverage"]["departure"]["actual"])
    else:
        assert "% equal bit for bit" in text
        assert "in the last place" in text
        assert "Largest sizes" in text


def test_verbose_output_has_the_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnxtxt").write_text(EXACT)
    arguments = ["convert", str(tmp_path / "m.onnxtxt"), "-o", str(tmp_path / "o.onnx"), "--opset", "11"]
    assert main([*arguments, "-v"]) == 0
    printed = capsys.readouterr().out
    assert "all equal bit for bit." in printed
    assert "Largest sizes: n=" in printed
    assert main(["verify", str(tmp_path / "m.onnxtxt"), str(tmp_path / "o.onnx"), "-v"]) == 0
    assert "Largest sizes: n=" in capsys.readouterr().out


def test_models_of_which_no_element_is_defined_are_not_equal() -> None:
    """What becomes of NaN as an integer is open."""
    text = """<ir_version: 8, opset_import: ["": 13]> g (int8[n] x) => (int32[n] y)
        { f = Cast<to = 1>(x) c = Constant<value = float[1] {NUMBER}>() s = Add(f, c) y = Cast<to = 6>(s) }"""
    one, other = (parse_model(text.replace("NUMBER", number)) for number in ("nan", "1"))
    check = opshift.verify(one, other).whole
    assert check is not None
    assert check.verdict is Verdict.UNCHECKED, check
    assert check.reason.startswith("the original's result is undefined for every input")


def test_nothing_that_counts_is_void_and_nothing_at_all_is_not() -> None:
    assert Coverage(undefined=3).is_void
    assert Coverage(3).is_void
    assert not Coverage(1, 1, undefined=3).is_void
    assert not Coverage(3, departure=Departure(1, "a", (0,), 1.0, 1.5)).is_void
    assert not Coverage().is_void
