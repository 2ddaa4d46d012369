"""Every operator of the default domain, every version of it: converted, or listed with the reason why not."""

from __future__ import annotations

import pytest
from review_versions import OLDEST_OPSET, neighbours, versions

from opshift.opsets.registry.equivalences import table
from opshift.opsets.registry.no_conversion import NoConversion, no_conversions, parse
from opshift.opsets.registry.operator import operator_for
from opshift.opsets.registry.schema_only import has_body


def _known_pair(operator: str, older: int, newer: int) -> bool:
    filed = operator_for("", operator)
    if filed is not None:
        return filed.version(older) is not None and filed.version(newer) is not None
    return any(row.versions == (older, newer) for row in table().get(operator, ()))


def _known_below(operator: str) -> bool:
    filed = operator_for("", operator)
    return has_body(operator) or (filed is not None and bool(filed.lowerings))


def _pairs() -> set[tuple[str, int, int]]:
    return {(operator, older, newer) for operator in versions() for older, newer in neighbours(operator)}


def _newcomers() -> dict[str, int]:
    firsts = {operator: min(known) for operator, known in versions().items()}
    return {operator: first for operator, first in firsts.items() if first > OLDEST_OPSET}


def test_every_version_is_known_or_listed() -> None:
    listed = {(item.operator, *item.versions) for some in no_conversions().values() for item in some if item.versions}
    missing = {
        f"{name} {older} {newer}" for name, older, newer in _pairs() - listed if not _known_pair(name, older, newer)
    }
    below = {item.operator for some in no_conversions().values() for item in some if item.below}
    missing |= {
        f"{name} below {first}" for name, first in _newcomers().items() if name not in below and not _known_below(name)
    }
    assert not missing


@pytest.mark.parametrize("entry", [entry for some in no_conversions().values() for entry in some], ids=str)
def test_no_entry_is_listed_in_vain(entry: NoConversion) -> None:
    assert entry.reason
    if entry.versions:
        assert (entry.operator, *entry.versions) in _pairs()
        assert not _known_pair(entry.operator, *entry.versions)
    else:
        assert _newcomers()[entry.operator] == entry.below
        assert not _known_below(entry.operator)


def test_the_list_is_sorted() -> None:
    assert list(no_conversions()) == sorted(no_conversions())


@pytest.mark.parametrize(
    "text",
    [
        '[[Abs]]\nbelow = 9\nversions = [1, 2]\nreason = "x"',
        '[[Abs]]\nreason = "x"',
        "[[Abs]]\nbelow = 9",
        '[[Abs]]\nbelow = 9\nreason = "x"\nmore = 1',
        '[[Abs]]\nversions = [1]\nreason = "x"',
    ],
)
def test_an_entry_that_is_not_one_is_an_error(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        parse(text)
