"""Failures of the search for lowerings that depend on the nodes in progress, kept for reuse below other nodes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from opshift.passes.rewrite.fragment import Failure, Fragment


class FailureMemo:
    """The failures of derivations that met a node in progress, or the limit of the cost, by the key of the node."""

    def __init__(self, nested: Mapping[Any, Fragment | Failure]) -> None:
        """Keep failures beside the results that hold below all nodes, which another memo has."""
        self._nested = nested
        self._failed: dict[Any, list[Failure]] = {}

    def add(self, key: Any, failure: Failure) -> None:
        """Keep a failure, in place of those that depend on the same nodes and more."""
        others = (one for one in self._failed.get(key, ()) if failure.least or not failure.busy <= one.busy)
        self._failed[key] = [*others, failure]

    def clear(self) -> None:
        """Forget all failures."""
        self._failed.clear()

    def find(self, key: Any, stack: tuple[Any, ...], limit: float) -> Failure | None:
        """Return a failure of this node that holds below the nodes of the stack and for this limit, or None."""
        for failure in self._failed.get(key, ()):
            if not 0 < failure.least < limit and self._holds(failure, stack):
                return failure
        return None

    def _holds(self, failure: Failure, stack: tuple[Any, ...]) -> bool:
        """Return whether a failure below other nodes in progress holds below these ones.

        Each node that it depends on must be one of these, or be known to fail below them. Nodes whose derivations all
        need each other have none: of all nodes that the failure depends on, those go that may have another one.
        """
        needed = failure.busy.difference(stack)
        if failure.least or not needed:
            return not needed
        depends: dict[Any, list[frozenset[Any]]] = {}
        queue = [*needed]
        while queue:
            if (key := queue.pop()) in depends:
                continue
            if isinstance(self._nested.get(key), Failure):
                depends[key] = [frozenset()]
            else:
                depends[key] = [one.busy.difference(stack) for one in self._failed.get(key, ()) if not one.least]
            if not depends[key] and key in needed:
                return False
            queue += itertools.chain.from_iterable(depends[key])
        while needed <= depends.keys():
            left = {key for key, ways in depends.items() if any(way <= depends.keys() for way in ways)}
            if len(left) == len(depends):
                return True
            depends = {key: depends[key] for key in left}
        return False
