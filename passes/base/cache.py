"""Cache computed values within a bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

REMEMBERED = 4096
"""The maximum number of values of a cache: more would be one for each shape of a model."""

_Value = TypeVar("_Value")


class Cache(Generic[_Value]):
    """Values by keys; a full cache starts again."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[Hashable, _Value] = {}

    def get(
        self, key: Hashable, compute: Callable[[], _Value], keeps: Callable[[_Value], bool] | None = None
    ) -> _Value:
        """Return the value of a key; the first call computes it, and keeps it unless `keeps` rejects it."""
        if (found := self._values.get(key)) is None:
            found = compute()
            if len(self._values) >= REMEMBERED:
                self._values.clear()
            if keeps is None or keeps(found):
                self._values[key] = found
        return found
