"""Proofs that lowerings of Hardmax, ArgMax and OneHot are correct for all inputs, and refutations of wrong variants.

docs/proven.toml lists what is proven and what is only tested; docs/operators.md shows it. These tests compare the
list with what the solver proves now. Each wrong variant is refuted by an input on which onnxruntime returns something
else too.
"""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import need

z3 = need("z3")

import lowering_proofs as proofs  # noqa: E402
import wrong_variants  # noqa: E402
from lowering_proofs import OPERATORS, Setting  # noqa: E402
from operators.harness import Case, outputs_of, ran  # noqa: E402
from symbolic import FLOAT, INT64  # noqa: E402
from symbolic_terms import NEAREST, Proof, UninterpretedError  # noqa: E402

from opshift.opsets.families.rows import Rows  # noqa: E402
from opshift.opsets.faster import every  # noqa: E402
from opshift.opsets.operators.argmax import ArgMax  # noqa: E402
from opshift.opsets.registry.lowering import Body, Lowering  # noqa: E402

LIST = tomllib.loads((Path(__file__).parent.parent / "docs" / "proven.toml").read_text(encoding="utf-8"))
LOWERINGS = [(name, lowering) for name, operator in OPERATORS.items() for lowering in every(operator)]
PROVEN = [(name, lowering) for name, lowering in LOWERINGS if lowering.name in LIST[name]["proven"]]
TESTED = [(name, lowering) for name, lowering in LOWERINGS if lowering.name in LIST[name]["tested"]]


def label(value: object) -> str:
    return value.name if isinstance(value, Lowering) else str(value)


def test_each_lowering_is_listed_once() -> None:
    for name, operator in OPERATORS.items():
        listed = [*LIST[name]["proven"], *LIST[name]["tested"]]
        assert sorted(listed) == sorted(lowering.name for lowering in every(operator))


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "lowering"), PROVEN, ids=label)
def test_lowering_is_proven(operator: str, lowering: Lowering) -> None:
    outcomes = [(setting, proofs.prove(operator, lowering, setting)) for setting in proofs.settings(operator, lowering)]
    unproven = [(setting, one) for setting, one in outcomes if one is not None and one.state != "proven"]
    assert not unproven, unproven[0]
    assert any(one is not None for _, one in outcomes)


@pytest.mark.parametrize(("operator", "lowering"), TESTED, ids=label)
def test_what_is_listed_as_tested_is_not_proven(operator: str, lowering: Lowering) -> None:
    for setting in proofs.settings(operator, lowering):
        try:
            outcome = proofs.prove(operator, lowering, setting)
        except UninterpretedError:
            continue
        assert outcome is None or outcome.state != "proven"


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "lowering"), PROVEN, ids=label)
def test_wrong_variant_is_refuted_and_onnxruntime_confirms_it(operator: str, lowering: Lowering) -> None:
    found = wrong_variants.confirmed(operator, lowering)
    assert found is not None, f"no wrong variant of {lowering.name} is refuted by an input"
    assert not np.array_equal(found.expected, found.actual), found


# --- all orders of short rows -----------------------------------------------------------------------------------------


def weak_orders(length: int) -> np.ndarray[Any, Any]:
    """Return a row for each order of elements, some of which may be equal: their ranks."""
    rows = np.indices((length,) * length).reshape(length, -1).T
    ranks = np.sort(rows, axis=1)
    kept: np.ndarray[Any, Any] = rows[(ranks[:, 0] == 0) & (np.diff(ranks, axis=1) <= 1).all(axis=1)]
    return kept.astype(np.float32)


def test_weak_orders_are_counted_by_fubini_numbers() -> None:
    assert [len(weak_orders(length)) for length in range(1, 8)] == [1, 3, 13, 75, 541, 4683, 47293]


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "lowering"), [one for one in LOWERINGS if one[0] != "OneHot"], ids=label)
def test_lowering_is_right_for_all_orders_of_short_rows(operator: str, lowering: Lowering) -> None:
    """Check each order in onnxruntime, without the interpreter.

    A lowering that only compares and moves elements does the same with any other row of the same order: each comparison
    has the same result. So these rows stand for all rows of their length.
    """
    owner = OPERATORS[operator]
    meanings = [Rows((1,))] if operator == "Hardmax" else [ArgMax(1, 1, last) for last in (0, 1)]
    for length, meaning in itertools.product(range(1, 8), meanings):
        rows = weak_orders(length)
        case = Case("orders", [rows], meaning)
        models = [wrong_variants.model_of(owner, lowering, case, kind) for kind in ("static", "symbolic")]
        for model in models:
            if model is not None:
                found = ran(model, {owner.operands[0]: rows})[0][0]
                np.testing.assert_array_equal(found, outputs_of(owner, case)[0])


# --- the facts that the proofs rest on --------------------------------------------------------------------------------


def is_valid(statement: object, *assumptions: object) -> bool:
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*assumptions, z3.Not(statement))
    return bool(solver.check() == z3.unsat)


def test_digits_in_row_major_order_are_quotient_and_remainder() -> None:
    """Any rank follows: the position in the dimensions behind is one digit, below their product."""
    row, column, rows, columns, place = z3.Ints("row column rows columns place")
    inside = (columns > 0, column >= 0, column < columns, row >= 0, row < rows)
    flat = row * columns + column
    assert is_valid(z3.And(flat >= 0, flat < rows * columns), *inside)
    assert is_valid(flat / columns == row, *inside)
    assert is_valid(flat % columns == column, *inside)
    whole = (columns > 0, place >= 0, place < rows * columns)
    back = z3.And(place / columns >= 0, place / columns < rows, (place / columns) * columns + place % columns == place)
    assert is_valid(back, *whole)
    assert not is_valid(flat / rows == row, *inside)


def test_digits_keep_the_order_of_positions() -> None:
    row, column, other_row, other_column, columns = z3.Ints("row column other_row other_column columns")
    inside = (columns > 0, column >= 0, column < columns, other_column >= 0, other_column < columns)
    first, second = row * columns + column, other_row * columns + other_column
    before = z3.Or(row < other_row, z3.And(row == other_row, column < other_column))
    assert is_valid((first < second) == before, *inside)


@pytest.mark.parametrize("sort", [z3.Float16(), z3.Float32(), z3.Float64()], ids=str)
def test_the_sign_of_a_difference_is_the_order(sort: object) -> None:
    left, right = z3.Consts("left right", sort)
    distance = z3.fpSub(NEAREST, left, right)
    same_order = z3.And(z3.fpGT(distance, 0) == z3.fpGT(left, right), z3.fpLT(distance, 0) == z3.fpLT(left, right))
    assert is_valid(same_order, proofs.finite(left), proofs.finite(right))
    assert not is_valid(z3.Not(z3.fpIsNaN(distance)), z3.Not(z3.fpIsNaN(left)), z3.Not(z3.fpIsNaN(right)))


def test_rounding_keeps_the_limit() -> None:
    number = z3.BitVec("number", 32)
    rounded = z3.fpSignedToFP(NEAREST, number, z3.Float32())
    limit = z3.FPVal(2.0**24, z3.Float32())
    assert is_valid(z3.fpGEQ(rounded, limit), number > 2**24)
    assert is_valid(z3.fpToSBV(z3.RTZ(), rounded, z3.BitVecSort(32)) == number, number <= 2**24, number >= -(2**24))
    assert not is_valid(z3.fpGT(rounded, limit), number > 2**24)


def test_a_running_sum_of_hits_is_positive_from_the_first_on() -> None:
    """By induction: of n elements and the next one, which is 0 or 1."""
    total, hit, count = z3.Ints("total hit count")
    some = z3.Bool("some")
    before = (total >= 0, total <= count, (total > 0) == some, hit >= 0, hit <= 1)
    after = z3.And(total + hit >= 0, total + hit <= count + 1, (total + hit > 0) == z3.Or(some, hit == 1))
    assert is_valid(after, *before)
    assert is_valid(z3.And(0 >= 0, 0 <= 0))


def test_the_sum_of_a_step_is_its_position() -> None:
    """By induction: the sum of the first n of such elements is n, or the position of the step if that is less."""
    step, count = z3.Ints("step count")
    smaller = z3.If(count < step, count, step)
    element = z3.If(count < step, 1, 0)
    assert is_valid(smaller + element == z3.If(count + 1 < step, count + 1, step), step >= 0, count >= 0)


# --- the proofs can fail ----------------------------------------------------------------------------------------------


def lowering_of(operator: str, name: str) -> Lowering:
    return next(lowering for lowering in every(OPERATORS[operator]) if lowering.name == name)


@pytest.mark.parametrize(
    ("operator", "name", "dtype", "limit"),
    [
        ("Hardmax", "index_equal_float", FLOAT, 2**24),
        ("Hardmax", "index_equal_int16", FLOAT, 2**15),
        ("Hardmax", "index_equal_uint8", FLOAT, 2**8),
    ],
)
def test_longer_rows_than_a_type_counts_are_refuted(operator: str, name: str, dtype: int, limit: int) -> None:
    lowering = lowering_of(operator, name)
    setting = Setting(Rows((0,)), dtype, (None,))
    body = proofs.body_of(OPERATORS[operator], lowering, setting)
    assert isinstance(body, Body)
    assert proofs.prove_rows(OPERATORS[operator], body, setting, typed=False, longest=limit).state == "proven"
    assert proofs.prove_rows(OPERATORS[operator], body, setting, typed=False, longest=limit + 2).state == "refuted"


def test_float_does_not_count_beyond_its_depth() -> None:
    """The proof fails just beyond 2^24, where two indices are one float, and onnxruntime sees one float too."""
    lowering = lowering_of("OneHot", "counted_in_float")
    (setting, *_) = proofs.settings("OneHot", lowering)
    within = dataclasses.replace(setting, dtype=INT64)
    assert proofs.prove_one_hot(OPERATORS["OneHot"], lowering, within).state == "proven"
    beyond = dataclasses.replace(within, deepest=2**24 + 2)
    assert proofs.prove_one_hot(OPERATORS["OneHot"], lowering, beyond).state == "refuted"
    assert wrong_variants.same_as_float(2**24, 2**24 + 1)
    assert not wrong_variants.same_as_float(2**24 - 1, 2**24)


def test_one_hot_is_proven_up_to_the_depth_of_the_predicate() -> None:
    for name, limits in {"counted_in_float": {2**24 - 1}, "equal_iota": {2**7, 2**15}}.items():
        lowering = lowering_of("OneHot", name)
        found = set()
        for setting in proofs.settings("OneHot", lowering):
            deeper = dataclasses.replace(setting, depth=setting.deepest + 1)
            if setting.deepest < 2**63 - 1 and setting.meaning.fraction == "truncate":
                if not isinstance(proofs.body_of(OPERATORS["OneHot"], lowering, setting), Body):
                    continue
                assert not isinstance(proofs.body_of(OPERATORS["OneHot"], lowering, deeper), Body)
                found.add(setting.deepest)
        assert found == limits


@pytest.mark.parametrize("operator", ["Hardmax", "ArgMax"])
def test_the_assumptions_of_a_proof_have_a_model(operator: str) -> None:
    """Assumptions that contradict each other would prove anything."""
    meaning = Rows((0,)) if operator == "Hardmax" else ArgMax(0)
    for shape in ((3,), (None,)):
        proof = Proof()
        setting = Setting(meaning, FLOAT, shape)
        data = proofs.row_data(proof, setting, z3.RealSort(), 2**53)
        expected = proofs.row_specification(proof, operator, meaning, data)
        expected.at(tuple(proof.position("place", [dim])[0] for dim in expected.shape))
        proof.use_facts()
        assert proof.solver(5000).check() == z3.sat
