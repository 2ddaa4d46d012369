"""List operators, versions and opsets.

`inspect` returns a model's operators and the opsets to which it can be converted.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.schema import NEWEST, OLDEST, default_domain, schema_read_at
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import notebook
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.base.version_numbers import check_opset
from opshift.passes.graph.traversal import graphs
from opshift.passes.io import external_data
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import load
from opshift.passes.rewrite.planner import FirstRefusalError, Focus, Goal, Planner


class OperatorCount(NamedTuple):
    """The number of nodes of one operator version; `since_version` is None if onnx does not know the operator."""

    name: str
    domain: str
    since_version: int | None
    times: int


@dataclass(frozen=True)
class Blocker:
    """Nodes of one operator version that block a conversion for the same reason; `node` is the first of them."""

    operator: str
    nodes: int
    node: str
    code: Code
    reason: str
    hint: str
    details: str = ""


@dataclass(frozen=True)
class Stop:
    """The nearest opset that a model cannot be converted to, in one direction, and all blockers."""

    opset: int
    obstacles: tuple[Blocker, ...]


@dataclass(frozen=True, repr=False)
class Inspection:
    """A model's opset, ir_version and operators.

    `reachable` are the opsets to which it can be converted; `blocked` has the refusals of each other opset, node by
    node. `down` and `up` summarize the refusals of the nearest blocked opset in each direction.
    """

    opset: int
    ir_version: int
    producer: str
    domains: dict[str, int]
    operators: tuple[OperatorCount, ...]
    reachable: tuple[int, ...]
    blocked: dict[int, tuple[Refusal, ...]]
    down: Stop | None
    up: Stop | None

    def __repr__(self) -> str:
        """Show the opset, the numbers of nodes and operators, and the reachable opsets."""
        nodes = notebook.count(sum(item.times for item in self.operators), "node")
        reachable = f"{len(self.reachable)} of {NEWEST - OLDEST + 1} opsets can be reached"
        return f"<opshift.Inspection opset {self.opset}, {nodes} of {len(self.operators)} operators, {reachable}>"

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {**dataclasses.asdict(self), "operators": [item._asdict() for item in self.operators]}


def inspect(
    model: Model, *, assume_opset: int | None = None, allow_paths: Collection[str | os.PathLike[str]] = ()
) -> Inspection:
    """Inspect a model, read at `assume_opset` if set, and plan it for every opset.

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: onnx does not know the opset.
    """
    check_opset("assume_opset", assume_opset)
    with onnx_process.limited(None, None):
        source = load(model, allow_paths, assume_opset)
        loaded = external_data.with_small(source.model, source.files)
        own = default_opset(loaded.opset_import) or 1
        blocked = _blocked(loaded, own)
    return Inspection(
        opset=own,
        ir_version=loaded.ir_version,
        producer=" ".join(part for part in (loaded.producer_name, loaded.producer_version) if part),
        domains={item.domain: item.version for item in loaded.opset_import},
        operators=_operators(loaded, own),
        reachable=tuple(opset for opset in range(OLDEST, NEWEST + 1) if opset not in blocked),
        blocked=blocked,
        down=_stop(max((opset for opset in blocked if opset < own), default=None), blocked),
        up=_stop(min((opset for opset in blocked if opset > own), default=None), blocked),
    )


def _blocked(model: onnx.ModelProto, own: int) -> dict[int, tuple[Refusal, ...]]:
    """Plan for every opset; the facts about the values are inferred only once."""
    opsets = range(OLDEST, NEWEST + 1)
    first = Planner(model, Goal(Legality(own)))
    found = {}
    for opset in opsets:
        possible = Planner(model, Goal(Legality(opset), any_form=True), alike=first, hinting=False, focus=Focus())
        try:
            if possible.run().plan.possible:
                continue
        except FirstRefusalError:
            pass
        if refusals := Planner(model, Goal(Legality(opset)), alike=first).run().plan.refusals:
            found[opset] = refusals
    return found


def _stop(opset: int | None, blocked: Mapping[int, Sequence[Refusal]]) -> Stop | None:
    return None if opset is None else Stop(opset, obstacles(blocked[opset]))


def obstacles(refusals: Sequence[Refusal]) -> tuple[Blocker, ...]:
    """Group the refused nodes by reason and count them, the most frequent reason first."""
    alike: dict[tuple[str, Code, str, str], list[Refusal]] = {}
    for refusal in refusals:
        key = refusal.operator, refusal.code, refusal.reason, refusal.hint
        alike.setdefault(key, []).append(refusal)
    found = [
        Blocker(operator, len(same), same[0].node, code, reason, hint, same[0].details)
        for (operator, code, reason, hint), same in alike.items()
    ]
    return tuple(sorted(found, key=lambda blocker: -blocker.nodes))


def _operators(model: onnx.ModelProto, own: int) -> tuple[OperatorCount, ...]:
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for graph in graphs(model):
        for node in graph.node:
            domain = default_domain(node.domain)
            schema = schema_read_at(domain, node.op_type, own) if not domain else None
            counts[node.op_type, domain, schema.since_version if schema else None] += 1
    return tuple(
        OperatorCount(name, domain, since, count)
        for (name, domain, since), count in sorted(counts.items(), key=lambda item: (-item[1], item[0][:2]))
    )
