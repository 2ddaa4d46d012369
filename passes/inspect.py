"""`inspect`: what a model is made of, and the opsets that it can go to."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import onnx

from opshift.opsets.operators import hardmaxaxes
from opshift.opsets.schema import NEWEST, OLDEST, default_domain, schema_at
from opshift.opsets.target import Legality
from opshift.passes.convert import Model
from opshift.passes.describe import default_opset, graphs
from opshift.passes.load import load
from opshift.passes.outcome import Refusal
from opshift.passes.plan import Planner, too_old


class Use(NamedTuple):
    """How often one version of an operator occurs; `since_version` is None for one that onnx does not know."""

    name: str
    domain: str
    since_version: int | None
    times: int


@dataclass(frozen=True)
class Inspection:
    """A model's opset, ir_version and operators.

    `reachable` are the opsets that it can go to; `blocked` says of each other one what is in the way.
    """

    opset: int
    ir_version: int
    producer: str
    domains: dict[str, int]
    operators: tuple[Use, ...]
    reachable: tuple[int, ...]
    blocked: dict[int, tuple[Refusal, ...]]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {**dataclasses.asdict(self), "operators": [item._asdict() for item in self.operators]}


def inspect(model: Model) -> Inspection:
    """Look at a model and plan it for every opset.

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
    """
    hardmaxaxes.register()
    loaded = load(model).model
    own = default_opset(loaded.opset_import) or 1
    blocked = {opset: refusals for opset in range(OLDEST, NEWEST + 1) if (refusals := _in_the_way(loaded, own, opset))}
    return Inspection(
        opset=own,
        ir_version=loaded.ir_version,
        producer=" ".join(part for part in (loaded.producer_name, loaded.producer_version) if part),
        domains={item.domain: item.version for item in loaded.opset_import},
        operators=_operators(loaded, own),
        reachable=tuple(opset for opset in range(OLDEST, NEWEST + 1) if opset not in blocked),
        blocked=blocked,
    )


def _in_the_way(model: onnx.ModelProto, own: int, opset: int) -> tuple[Refusal, ...]:
    if own < OLDEST:
        return (too_old(own, "it is written in"),)
    planner = Planner(model, Legality(opset), "runtime", frozenset(), runnable=False)
    return planner.run().plan.refusals


def _operators(model: onnx.ModelProto, own: int) -> tuple[Use, ...]:
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for graph in graphs(model):
        for node in graph.node:
            domain = default_domain(node.domain)
            schema = schema_at(domain, node.op_type, own) if not domain else None
            counts[node.op_type, domain, schema.since_version if schema else None] += 1
    return tuple(
        Use(name, domain, since, count)
        for (name, domain, since), count in sorted(counts.items(), key=lambda item: (-item[1], item[0][:2]))
    )
