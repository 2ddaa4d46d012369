"""Two tiers of tests.

`pytest -m "not slow"` takes minutes: every operator, refusal code and command, and a part of the cases of each large
table. Without the option all tests run.
"""

from __future__ import annotations

import pytest

CASES = 4
"""How many cases of a test function are in the fast tier, unless it has the marker `fast`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but some cases of each test function: the first, and others at even distances."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        own = cases[0].get_closest_marker("fast")
        distance = -(-len(cases) // (own.args[0] if own else CASES))
        for place, case in enumerate(cases):
            if place % distance:
                case.add_marker(pytest.mark.slow)
