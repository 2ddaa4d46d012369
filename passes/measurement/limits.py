"""Find the limits of an operator that separate correct nodes from all others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Schema
from opshift.opsets.runtimes.limits import Limit, types_of

MOST = 4
"""The maximum number of limits of one operator: if it needs more, it is left out of the profile."""


@dataclass(frozen=True, eq=False)
class Observed:
    """A node that was run in a runtime; `outcome` is `right`, `wrong` or `refused`, `detail` explains it."""

    node: Node
    schema: Schema
    outcome: str
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether the runtime returned the right values."""
        return self.outcome == "right"


def limits_of(observed: Sequence[Observed]) -> tuple[Limit, ...] | None:
    """Return limits such that all nodes within them ran right; None if no nodes would remain.

    Each limit excludes the fewest right nodes and, among equals, the most other nodes.
    """
    found: list[Limit] = []
    left = list(observed)
    while not all(one.right for one in left):
        best: tuple[tuple[int, int, int], Limit, list[Observed]] | None = None
        for place, limit in enumerate(_candidates(left)):
            within = [one for one in left if limit.why_not(one.node, one.schema) is None]
            rights = sum(one.right for one in within)
            if not rights or len(left) - len(within) == sum(one.right for one in left) - rights:
                continue
            rank = (-rights, len(within) - rights, place)
            if best is None or rank < best[0]:
                best = rank, limit, within
        if best is None or len(found) == MOST:
            return None
        _, limit, left = best
        found.append(limit)
    return tuple(found) if left else None


def _candidates(observed: Sequence[Observed]) -> Iterator[Limit]:
    """Yield limits with one key each, the most informative keys first."""
    operator = observed[0].node.name
    rights = [one for one in observed if one.right]
    names = dict.fromkeys(name for one in observed for name, _ in _inputs(one))

    def of(ones: Iterable[Observed], name: str) -> list[Any]:
        return [facts for one in ones for own, facts in _inputs(one) if own == name]

    for name in [*names, *dict.fromkeys(key for one in observed for key in types_of(one.node, one.schema))]:
        types = {types_of(one.node, one.schema).get(name) for one in rights} - {None}
        if types:
            yield Limit(operator, dtypes={name: tuple(sorted(str(one) for one in types))})
    for name in names:
        yield Limit(operator, constant_inputs=(name,))
        if len(of(rights, name)) < len(rights):
            yield Limit(operator, if_inputs=(name,), never=True)
    yield from _of_attributes(operator, observed, rights)
    for name in names:
        ranks = {facts.rank for facts in of(rights, name)}
        computed = {facts.rank for facts in of(rights, name) if not facts.is_constant}
        if computed:
            yield Limit(operator, computed_ranks={name: tuple(sorted(computed))})
        if ranks:
            yield Limit(operator, ranks={name: tuple(sorted(ranks))})
        if any(facts.dtype in (6, 7) for facts in of(observed, name)):
            yield Limit(operator, not_negative=(name,))
    if observed[0].schema.inputs[-1].variadic if observed[0].schema.inputs else False:
        for count in sorted({len(one.node.inputs) for one in rights}):
            yield Limit(operator, input_count=count)


def _of_attributes(operator: str, observed: Sequence[Observed], rights: Sequence[Observed]) -> Iterator[Limit]:
    schema = observed[0].schema
    for name in schema.attributes:
        default = schema.attributes[name][1]
        values = dict.fromkeys(_plain(one.node.attributes.get(name, default)) for one in rights)
        if any(name in one.node.attributes for one in observed):
            yield Limit(operator, attributes={name: ()})
        if values and all(isinstance(value, int | str) for value in values):
            yield Limit(operator, attributes={name: tuple(values)})
        yield Limit(operator, explicit=(name,))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


def _inputs(one: Observed) -> list[tuple[str, Any]]:
    return [
        (parameter.name, facts)
        for place, facts in enumerate(one.node.inputs)
        if facts is not None and (parameter := one.schema.input(place)) is not None
    ]


# --- as TOML ----------------------------------------------------------------------------------------------------------


def limit_as_toml(limit: Limit) -> str:
    """Return a limit as a table of a profile."""
    lines = ["[[limits]]"]
    empty = Limit("")
    for item in dataclasses.fields(limit):
        value = getattr(limit, item.name)
        if value != getattr(empty, item.name):
            lines.append(f"{item.name} = {as_toml(value)}")
    return "\n".join(lines)


def as_toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {as_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def described(one: Observed) -> str:
    """Return a short description of a node: its attributes, and the element types and ranks of its inputs."""
    inputs = [
        f"{type_name(facts.dtype) if facts.dtype else '?'} of rank {facts.rank}{' (constant)' * facts.is_constant}"
        for _, facts in _inputs(one)
    ]
    attributes = [f"{name}={_plain(value)}" for name, value in one.node.attributes.items() if _plain(value) is not None]
    return ", ".join([*attributes, *inputs])
