"""Two tiers of tests, and parts of the second.

`pytest -m "not slow"` takes minutes: every operator, refusal code and command, and a part of the cases of each large
table. Without the option all tests run. `--part 2/3` leaves out two of three slow tests: the three parts together leave
out none.
"""

from __future__ import annotations

import gc
import re
import zlib
from collections.abc import Iterator

import pytest

CASES = 1
"""How many cases of a test function are in the fast tier, unless it has the marker `fast`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--part`."""
    parser.addoption("--part", metavar="K/N", default="1/1", help="of N parts of the slow tests, run the Kth")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without searching for garbage: 35,000 tests are none, and stay; no later search looks at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow all but some cases of each test function: the first, and others at even distances."""
    given = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", config.getoption("--part"))
    if given is None or int(given[1]) > int(given[2]):
        raise pytest.UsageError("--part is K/N, K from 1 to N")
    part, parts = int(given[1]) - 1, int(given[2])
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        own = cases[0].get_closest_marker("fast")
        distance = -(-len(cases) // (own.args[0] if own else CASES))
        for place, case in enumerate(cases):
            if place % distance:
                case.add_marker(pytest.mark.slow)
    # The name alone decides, so that a test that is added moves no other to another part.
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {item for item in slow if zlib.crc32(item.nodeid.encode()) % parts != part}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
