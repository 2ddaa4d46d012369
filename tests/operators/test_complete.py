"""No operator without a table, no lowering without a case that reaches it."""

from __future__ import annotations

from operators.harness import tables
from opshift.opsets.operator import known_operators

OPERATORS = {operator.name: operator for operator in known_operators()}


def test_every_operator_has_a_table() -> None:
    assert not OPERATORS.keys() - tables().keys()
