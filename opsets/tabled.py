"""Operators without a file, as the reviewed table knows them: their versions mean the same as far as its rows say."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opshift.opsets.carriers import KINDS
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version
from opshift.opsets.same_meaning import same_meaning, table


@dataclass(frozen=True)
class Tabled:
    """A node's attributes as they are, and the version whose text says what they mean."""

    since: int
    attributes: tuple[tuple[str, Any], ...] = ()


def oracle(meaning: Tabled, *inputs: Any) -> Any:
    """There is none: nobody has written down what the operator computes, only that its versions agree."""
    raise ValueError("an operator without a file has no oracle")


def _lift(since: int) -> Callable[[Mapping[str, Any]], Tabled]:
    def lift(attributes: Mapping[str, Any]) -> Tabled:
        return Tabled(since, tuple(sorted((name, value) for name, value in attributes.items() if value is not None)))

    return lift


def _write(name: str, since: int) -> Callable[[Tabled, Operands], Mapping[str, Any] | Reason]:
    def write(meaning: Tabled, operands: Operands) -> Mapping[str, Any] | Reason:
        row = same_meaning(name, meaning.since, since)
        if row is None:
            return Reason(f"it differs from version {meaning.since}, and no conversion between them is known")
        attributes = dict(meaning.attributes)
        if lost := row.lost(attributes, len(operands), 0):
            return Reason(f"it has no {', '.join(lost)}")
        return {key: value for key, value in attributes.items() if key not in row.new_attributes}

    return write


@functools.cache
def tabled(name: str) -> Operator | None:
    """Return the operator that the rows of this name tell of, None if there are none."""
    rows = table().get(name, ())
    if not rows:
        return None
    kinds = {row.carried for row in rows if row.carried}
    versions = sorted({since for row in rows for since in row.versions})
    return Operator(
        name=name,
        meaning=Tabled,
        versions=tuple(Version(since, lift=_lift(since), write=_write(name, since)) for since in versions),
        operands=(),
        oracle=oracle,
        variadic=True,
        carriers=KINDS[kinds.pop()] if kinds else {},
    )
