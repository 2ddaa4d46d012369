"""Makes one test of each case, lowering and refusal of a table."""

from __future__ import annotations

import pytest

from operators.harness import Table
from opshift.opsets.faster import every


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    table = metafunc.cls
    if table is None or not issubclass(table, Table):
        return
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", table.cases, ids=str)
    if "lowering" in metafunc.fixturenames:
        metafunc.parametrize("lowering", every(table.operator), ids=lambda lowering: lowering.name)
    if "refused" in metafunc.fixturenames:
        metafunc.parametrize("refused", table.refusals, ids=str)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a table has none of: operators without lowerings, tables without refusals."""
    items[:] = [item for item in items if not item.name.endswith("[NOTSET]")]
