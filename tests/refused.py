"""Refusals in tests: by code, operator and node. Complete outputs in a few snapshots guard the wording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import opshift


def line(refusal: opshift.Refusal) -> str:
    """Return `type: OneHot-28 at main/hot`, or `ir-version: model` for a refusal without an operator."""
    where = f"{refusal.operator} at {refusal.node}" if refusal.operator else refusal.node
    return f"{refusal.code}: {where}"


@contextlib.contextmanager
def refused(*lines: str) -> Iterator[None]:
    """Expect that a conversion is refused for exactly these reasons, as `line` writes them."""
    with pytest.raises(opshift.UnsupportedError) as caught:
        yield
    assert {line(refusal) for refusal in caught.value.refusals} == set(lines)
