"""Two tiers of tests.

`pytest -m "not slow"` takes minutes: every operator, refusal code and command, and a part of the cases of each large
table. Without the option all tests run.
"""

from __future__ import annotations

import pytest

CASES = 4
"""How many cases of one test function are in the fast tier."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but some cases of each test function: the first, and others at even distances."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        if cases[0].get_closest_marker("every_case"):
            continue
        distance = -(-len(cases) // CASES)
        for place, case in enumerate(cases):
            if place % distance:
                case.add_marker(pytest.mark.slow)
