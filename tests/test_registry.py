"""The registry against onnx.defs: every version read by somebody, every operator once, planning always ends."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import itertools
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx.defs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import argmax, hardmax, onehot
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.registry import operator as registry
from opshift.opsets.registry.equivalences import table
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import declared_traits, traits
from opshift.opsets.registry.operator import (
    SPELLING,
    Lifted,
    Node,
    Operator,
    Version,
    known_operators,
    lift,
    operator_for,
    write_native,
)
from opshift.opsets.registry.schema import NEWEST, OLDEST, OLDEST_SOURCE, READ, schema_at, schema_read_at
from opshift.opsets.registry.schema_only_traits import SCHEMA_ONLY
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.runtimes.target import Legality
from opshift.passes.rewrite.fragment import Failure, Fragment
from opshift.passes.rewrite.lowering_search import Deriver

OPERATORS = {operator.name: operator for operator in known_operators()}
OPSETS = range(OLDEST, NEWEST + 1)


def effective(operator: Operator) -> set[int]:
    """Return the versions that some opset from 7 on has."""
    found = (schema_read_at(operator.domain, operator.name, opset) for opset in range(OLDEST_SOURCE, NEWEST + 1))
    return {schema.since_version for schema in found if schema is not None}


# --- against onnx.defs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_every_version_is_read_and_none_is_invented(operator: Operator) -> None:
    """A release of onnx that brings a version fails here until somebody has read it."""
    listed = [version.since for version in (operator.before, *operator.versions) if version is not None]
    assert listed == sorted(set(listed))
    assert set(listed) == effective(operator) - UNREAD.get(operator.name, set())


UNREAD = {"Scan": {8}, "MeanVarianceNormalization": {1}}
"""Versions that are other operators under the same name, and refused: Scan-8 has batches, and onnxruntime's own
MeanVarianceNormalization-1 may leave the variance as it is."""


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_fields_and_operands_have_the_names_of_the_newest_version(operator: Operator) -> None:
    withdrawn = operator.versions[-1].since
    schema = schema_at(operator.domain, operator.name, NEWEST) or schema_at(operator.domain, operator.name, withdrawn)
    assert schema is not None
    if operator.variadic:
        assert schema.inputs[-1].variadic
        assert operator.operands == ()
    else:
        newest = tuple(parameter.name for parameter in schema.inputs)
        assert operator.operands[: len(newest)] == newest
        assert set(operator.operands[len(newest) :]) <= operator.versions[-1].without  # of an older version alone
    for version in operator.versions:
        if version.lift is None:
            fields = {field.name for field in dataclasses.fields(operator.meaning)}
            of_version = schema_at(operator.domain, operator.name, version.since)
            assert of_version is not None
            unread = set(of_version.attributes) - fields - set(operator.operands) - set(version.renamed.values())
            assert unread <= IGNORED, f"{operator.name}-{version.since} has {unread}"


IGNORED = {"consumed_inputs", "broadcast", "output_sequence"}
"""Attributes that mean nothing, or no more than inputs and outputs tell: Gemm-6 broadcasts C if its shape is another
one, and RNN-1 has the output Y if it is named."""


def test_deprecated_versions_that_are_read_are_those_that_onnx_says_in_other_operators() -> None:
    every: Sequence[Any] = onnx.defs.get_all_schemas_with_history()
    deprecated = {schema for schema in every if schema.deprecated}
    said = {schema for schema in deprecated if schema.has_context_dependent_function or schema.has_function}
    assert {(schema.name, schema.since_version) for schema in said if not schema.domain} == READ
    for name, since in READ:
        assert schema_at("", name, since) is None
        assert OPERATORS[name].version(since) is not None


def test_an_operator_with_a_file_is_never_in_the_reviewed_table() -> None:
    assert not OPERATORS.keys() & table().keys()


def test_a_meaning_is_frozen_and_has_defaults_for_all_that_came_later() -> None:
    for operator in OPERATORS.values():
        assert operator.meaning.__dataclass_params__.frozen
        assert hash(operator.meaning) is not None


def test_an_unread_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if onnx had brought Hardmax-14 since."""
    older = dataclasses.replace(hardmax.OPERATOR, versions=hardmax.OPERATOR.versions[:-1])
    node = Node("", "Hardmax", 13, {}, (Facts(TensorProto.FLOAT, (2, 3)),), (True,))
    found = lift(older, node, "runtime")
    assert isinstance(found, Reason)
    assert "version 13 of Hardmax has not been reviewed" in found


# --- other packages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An entry point as importlib.metadata gives it."""

    name: str
    loaded: Any
    value: str = "plugin:OPERATOR"

    def load(self) -> Any:
        return self.loaded


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    """Entry points of the group opshift.operators; the registry looks again before and after."""
    entries: list[Entry] = []
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: entries if group == "opshift.operators" else []
    )

    def forget() -> None:
        registry._third_party.cache_clear()
        registry.operator_for.cache_clear()
        traits.cache_clear()

    forget()
    yield entries
    monkeypatch.undo()
    forget()


UNPOOL = Operator("MaxRoiPool", Rows, (Version(12),), ("X",), oracle=lambda meaning, x: x)


def test_an_entry_point_registers_an_operator(plugins: list[Entry]) -> None:
    plugins.append(Entry("MaxRoiPool", UNPOOL))
    assert operator_for("", "MaxRoiPool") is UNPOOL
    assert UNPOOL in known_operators()
    assert operator_for("com.example", "MaxRoiPool") is None


def test_an_entry_point_may_name_a_domain(plugins: list[Entry]) -> None:
    other = dataclasses.replace(UNPOOL, domain="com.example")
    plugins += [
        Entry("com.example:MaxRoiPool", other),
        Entry("ai.onnx:ThresholdedRelu", dataclasses.replace(UNPOOL, name="ThresholdedRelu")),
    ]
    assert operator_for("com.example", "MaxRoiPool") is other
    assert operator_for("", "MaxRoiPool") is None
    assert operator_for("", "ThresholdedRelu") is not None


def test_a_package_gives_traits_in_place_of_those_of_the_name(plugins: list[Entry]) -> None:
    own = Traits(floats=(Trait.MOVES,))
    plugins += [
        Entry("MaxRoiPool", UNPOOL),
        Entry("ThresholdedRelu", dataclasses.replace(UNPOOL, name="ThresholdedRelu", traits=own)),
        Entry("com.example:Softsign", dataclasses.replace(UNPOOL, name="Softsign", domain="com.example", traits=own)),
    ]
    assert declared_traits("MaxRoiPool") is SCHEMA_ONLY["MaxRoiPool"]
    assert declared_traits("ThresholdedRelu") is own
    assert traits("Softsign", "com.example") is own
    assert traits("Sqrt", "org.example") is traits("Sqrt")


@pytest.mark.parametrize(
    "names", [("MaxRoiPool", "MaxRoiPool"), ("MaxRoiPool", "ai.onnx:MaxRoiPool"), ("Hardmax",), ("If",)], ids=str
)
def test_registering_twice_is_an_error(plugins: list[Entry], names: tuple[str, ...]) -> None:
    plugins += [Entry(name, UNPOOL) for name in names]
    with pytest.raises(ValueError, match=f"{names[-1]} is registered twice"):
        operator_for("", "Absent")


def test_without_entry_points_there_is_no_other(plugins: list[Entry]) -> None:
    assert operator_for("", "MaxRoiPool") is None


# --- meanings ---------------------------------------------------------------------------------------------------------

DIMS = st.none() | st.integers(1, 4).flatmap(
    lambda rank: st.tuples(*[st.sampled_from([0, 1, 2, 5, "n", None]) for _ in range(rank)])
)


def lifted(operator: Operator, meaning: Any, *operands: Facts) -> Lifted:
    fields = {field.name: getattr(meaning, field.name) for field in dataclasses.fields(meaning)}
    found = lift(operator, Node(SPELLING, operator.name, 1, fields, operands, (True,)), "runtime")
    assert isinstance(found, Lifted)
    return found


def check_round_trip(operator: Operator, meaning: Any, *operands: Facts) -> None:
    """At every version that can say it, lifting what is written gives the meaning back."""
    whole = lifted(operator, meaning, *operands)
    for opset in OPSETS:
        native = write_native(whole, opset)
        if isinstance(native, Reason):
            continue
        inputs = tuple(None if index is None else whole.operands[index] for index in native.inputs)
        back = lift(
            operator, Node("", operator.name, native.since_version, native.attributes, inputs, (True,)), "runtime"
        )
        assert back == whole, opset


@st.composite
def rows(draw: st.DrawFn) -> tuple[Rows, Facts]:
    """Rows of an input that has them."""
    dims = draw(DIMS)
    axis = axis_of(dims)
    if draw(st.booleans()):
        return Rows((draw(axis),), to_end=1), Facts(TensorProto.FLOAT, dims)
    return Rows(tuple(draw(st.sets(axis, min_size=1, max_size=3)))), Facts(TensorProto.FLOAT, dims)


def axis_of(dims: Any, more: int = 0) -> st.SearchStrategy[int]:
    """An axis of an input, or of what has so many axes more."""
    rank = (4 if dims is None else len(dims)) + more
    return st.integers(-rank, rank - 1)


CHECKED = settings(deadline=None, derandomize=True, max_examples=200)


@given(rows())
@CHECKED
def test_hardmax_lifted_from_what_is_written(drawn: tuple[Rows, Facts]) -> None:
    check_round_trip(hardmax.OPERATOR, *drawn)


@given(st.data(), st.integers(0, 1), st.integers(0, 1), DIMS)
@CHECKED
def test_argmax_lifted_from_what_is_written(data: st.DataObject, keepdims: int, last: int, dims: Any) -> None:
    meaning = ArgMax(data.draw(axis_of(dims)), keepdims, last)
    check_round_trip(argmax.OPERATOR, meaning, Facts(TensorProto.FLOAT, dims))


INDICES = (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.UINT8)


@given(st.data(), st.sampled_from(INDICES), DIMS)
@CHECKED
def test_onehot_lifted_from_what_is_written(data: st.DataObject, dtype: int, dims: Any) -> None:
    others = Facts(TensorProto.INT64, ()), Facts(TensorProto.FLOAT, (2,))
    meaning = OneHot(data.draw(axis_of(dims, 1)), "wrap")
    check_round_trip(onehot.OPERATOR, meaning, Facts(dtype, dims), *others)


@pytest.mark.parametrize(
    ("operator", "since", "attributes", "meaning"),
    [
        ("ArgMax", 1, {}, ArgMax(0, 1, 0)),
        ("ArgMax", 11, {"axis": 1, "keepdims": 0}, ArgMax(1, 0, 0)),
        ("ArgMax", 12, {"select_last_index": 1}, ArgMax(0, 1, 1)),
        ("Hardmax", 1, {}, Rows((1, 2))),
        ("Hardmax", 11, {"axis": 2}, Rows((2,))),
        ("Hardmax", 11, {"axis": -3}, Rows((0, 1, 2))),
        ("Hardmax", 13, {}, Rows((2,))),
        ("Hardmax", 13, {"axis": 0}, Rows((0,))),
    ],
)
def test_what_versions_mean(operator: str, since: int, attributes: dict[str, Any], meaning: Any) -> None:
    """A field that came with a version has the default that older versions mean."""
    facts = Facts(TensorProto.FLOAT, (2, 3, 4))
    found = lift(OPERATORS[operator], Node("", operator, since, attributes, (facts,), (True,)), "runtime")
    assert isinstance(found, Lifted)
    assert found.meaning == meaning


# --- planning ends ----------------------------------------------------------------------------------------------------

MISSING = (
    (),
    ("ArgMax", "Hardmax", "OneHot"),
    ("ArgMax", "Hardmax", "OneHot", "TopK", "Where", "Range"),
    ("Cast", "Equal", "Less", "Reshape", "Gather", "ReduceMax"),
    tuple(OPERATORS),
)
UNKNOWN = Facts()
FLOATS = Facts(TensorProto.FLOAT, ("n", 3))
INTS = Facts(TensorProto.INT64, (2,))


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_planning_ends(operator: Operator) -> None:
    """Whatever is missing at whatever opset, a third of them for each operator; a failure says why."""
    fields = {field.name: field.default for field in dataclasses.fields(operator.meaning)}
    fields |= {name: 1 for name, value in fields.items() if value is dataclasses.MISSING}
    count = 2 if operator.variadic else len(operator.operands)
    if operator.name == "Constant":
        fields = {"value": None}
    for first in (FLOATS, INTS, UNKNOWN):
        operands = (first, *[INTS] * (count - 1))[:count]
        node = Node(SPELLING, operator.name, 1, fields, operands, (True,))
        whole = lift(dataclasses.replace(operator, domain=""), node, "runtime")
        assert isinstance(whole, Lifted)
        whole = dataclasses.replace(whole, operator=operator.means or operator)
        # Opsets that are the same for an operator each time,.
        for opset in itertools.islice(OPSETS, zlib.crc32(operator.name.encode()) % 3, None, 3):
            for missing in MISSING:
                started = time.process_time()
                found = Deriver(Legality(opset, frozenset(missing))).derive(whole)
                assert time.process_time() - started < 5, f"opset {opset} without {missing}"
                assert isinstance(found, Fragment) or (isinstance(found, Failure) and found.reason)


def test_every_operator_of_the_newest_opset_has_traits() -> None:
    """Give them in its file, or in a row of opsets/registry/schema_only_traits.py."""
    newest = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain and not schema.deprecated}
    assert len(newest) > 150
    assert not sorted(name for name in newest if declared_traits(name) is None)


def test_every_operator_with_a_file_has_traits_there_alone() -> None:
    operators = known_operators()
    assert not [operator.name for operator in operators if operator.traits is None]
    assert not [operator.name for operator in operators if not operator.domain and operator.name in SCHEMA_ONLY]


def test_rows_of_traits_are_sorted() -> None:
    assert list(SCHEMA_ONLY) == sorted(SCHEMA_ONLY)
