"""The matrix of conversions, and proof that its judge is one: it agrees with onnxruntime, and finds what is wrong."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import matrix
import numpy as np
import oracles
import pytest
from matrix_cases import least_ir_version, make
from matrix_judge import FAILING
from onnx import ModelProto, version_converter

from opshift.opsets.registry.schema import NEWEST
from opshift.passes.base.errors import UsageError

CASES = int(os.environ.get("OPSHIFT_MATRIX_CASES", "1000"))
SEED = int(os.environ.get("OPSHIFT_MATRIX_SEED", "0"))


def relabelled(model: ModelProto, *, opset: int | None = None, **_: Any) -> Any:
    """A converter that only writes another number."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        for entry in holder.opset_import:
            if not entry.domain:
                entry.version = opset or entry.version
    copy.ir_version = max(copy.ir_version, least_ir_version(opset or 7))
    return SimpleNamespace(model=copy)


def converted_by_onnx(model: ModelProto, *, opset: int | None = None, decompose: Any = (), **_: Any) -> Any:
    """ONNX's own converter."""
    if decompose or opset is None:
        raise UsageError("onnx.version_converter does not decompose")
    try:
        converted = version_converter.convert_version(model, opset)
    except Exception as error:
        raise UsageError(str(error)) from error
    converted.ir_version = max(converted.ir_version, least_ir_version(opset))
    # It also declares output shapes that were open: put them back, to see what else it does.
    for old, new in zip(model.graph.output, converted.graph.output, strict=True):
        new.CopyFrom(old)
    return SimpleNamespace(model=converted)


def ways(operator: str, source: range, target: range, converter: str) -> set[str]:
    """The categories of the cases that go from one of these opsets to one of those, in the main graph."""
    filters = {"op": operator, "place": "main", "goal": "opset", "source": source, "target": target}
    wanted = {k: frozenset(map(str, v if isinstance(v, range) else [v])) for k, v in filters.items()}
    found = matrix.run(0, range(20000), f"test_matrix:{converter}", filters=wanted)
    assert found
    return {finding.outcome.category for finding in found}


@pytest.mark.slow
def test_every_case_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    found = matrix.run(SEED, range(CASES), "opshift:convert", os.cpu_count() or 1)
    with capsys.disabled():
        print("\nmatrix:", matrix.counts(found))
    assert not [f.name for f in found if f.outcome.category in FAILING], "\n".join(
        matrix.report(found, "opshift:convert", limit=20, seconds=1)
    )


@pytest.mark.slow
def test_sources_are_valid_and_onnxruntime_agrees_with_the_oracles() -> None:
    found = matrix.run(1, range(600), "validate")
    assert not matrix.groups(found), "\n".join(matrix.report(found, "validate", limit=20, seconds=1))
    assert matrix.counts(found)["ok"] > 200


def test_a_case_is_a_function_of_its_number() -> None:
    one, other = (make(3, 77) for _ in range(2))
    assert one.model.SerializeToString() == other.model.SerializeToString()
    assert [feed.keys() for feed in one.feeds] == [feed.keys() for feed in other.feeds]


@pytest.mark.parametrize(
    ("operator", "source", "target", "category"),
    [
        ("Hardmax-11", range(11, 13), range(13, NEWEST + 1), "wrong"),
        ("Hardmax-13", range(13, NEWEST + 1), range(7, 13), "wrong"),
        ("OneHot-11", range(11, 28), range(9, 11), "invalid"),
        ("ArgMax-13", range(13, NEWEST + 1), range(7, 11), "invalid"),
    ],
)
def test_a_new_label_is_found_out(operator: str, source: range, target: range, category: str) -> None:
    assert category in ways(operator, source, target, "relabelled")


def test_a_new_label_is_right_where_the_version_is_the_same() -> None:
    assert ways("ArgMax-13", range(13, NEWEST + 1), range(13, NEWEST + 1), "relabelled") <= {"ok", "kept", "as-source"}


@pytest.mark.slow
def test_a_new_label_decomposes_nothing() -> None:
    found = matrix.run(0, range(2000), "test_matrix:relabelled", filters=matrix.parse_filter("goal=decompose"))
    for finding in found:
        operator = finding.operator.split("-")[0]
        if operator == "HardmaxAxes" or operator in finding.facets["decompose"][0]:
            assert finding.outcome.category == "invalid"


@pytest.mark.slow
def test_onnx_itself_is_found_out() -> None:
    """Its converter takes Hardmax 12 to 13 for compatible, and drops model-local functions."""
    assert "wrong" in ways("Hardmax-11", range(11, 13), range(13, NEWEST + 1), "converted_by_onnx")
    assert "ok" in ways("ArgMax-13", range(13, NEWEST + 1), range(13, NEWEST + 1), "converted_by_onnx")
    found = matrix.run(0, range(3000), "test_matrix:converted_by_onnx", filters=matrix.parse_filter("place=fn"))
    assert "ok" not in matrix.counts(found)


def test_oracles_of_directml() -> None:
    """The worked examples of ACTIVATION_HARDMAX1."""
    x = np.array([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]], np.float32)
    assert oracles.hardmax_axes(x, [1]).tolist() == [[[1, 0], [0, 1]], [[1, 1], [0, 0]]]
    assert oracles.hardmax_axes(x, [0]).tolist() == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert oracles.hardmax_axes(x, [0, 2]).tolist() == [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]


def test_any_index_in_range_is_right_for_a_row_with_nan_and_only_for_such_a_row() -> None:
    expected = oracles.argmax_or_any(np.array([[1, np.nan, 0], [3, 1, 2]]), -1)
    for index in range(-2, 6):
        for other in range(4):
            found = np.array([[index], [other]])
            right = np.array_equal(oracles.chosen(expected, found), found)
            assert right == (0 <= index < 3 and other == 0), (index, other)
    numbers = np.array([-(2**63), 2**63 - 1, 0, -1])
    assert oracles.chosen(numbers, np.zeros(4, np.int64)).tolist() == numbers.tolist()


def test_oracles_by_hand() -> None:
    x = np.array([[1, 3, 3], [2, 2, 0]], np.int8)
    assert oracles.argmax(x, 1, 0).tolist() == [1, 0]
    assert oracles.argmax(x, -1, 1, 1).tolist() == [[2], [1]]
    assert oracles.hardmax_1(x.astype(np.float32), 0).tolist() == [[0, 1, 0], [0, 0, 0]]
    indices, values = np.array([0, -1, 3, -4, 2]), np.array([5, 6])
    rows = oracles.one_hot(indices, np.array([3]), values)
    assert rows.tolist() == [[6, 5, 5], [5, 5, 6], [5, 5, 5], [5, 5, 5], [5, 5, 6]]
    assert oracles.one_hot(np.array([2**64 - 1], np.uint64), np.array(2), values, 0).tolist() == [[5], [5]]
