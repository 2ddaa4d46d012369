"""No operator without a table, no lowering without a case that reaches it."""

from __future__ import annotations

from operators.harness import tables
from opshift.opsets.registry.operator import internal_operators, known_operators

GRAPHS = {"If", "Scan"}
"""Their oracles are graphs: test_graphs compares whole models."""
ALIASES = {"HardmaxAxes", "Scatter"}
"""Operators that mean another, which has the table."""
PARTS = {"CachedRows", "GroupedHeads", "VisibleKeys"}
"""Steps of GroupQueryAttention alone, whose cases test_dialect_operators compares with onnxruntime's kernel."""


def test_every_operator_has_a_table() -> None:
    known = {operator.name for operator in (*known_operators(), *internal_operators())}
    assert known - tables().keys() == GRAPHS | ALIASES | PARTS
    assert tables().keys() <= known


def test_every_table_is_of_the_registered_operator() -> None:
    known = {operator.name: operator for operator in (*known_operators(), *internal_operators())}
    for name, table in tables().items():
        assert table.operator is known[name]
        names = [case.name for case in table.cases]
        assert len(set(names)) == len(names), f"{name}: two cases are called the same"
