"""The edits of a model: `plan` decides them, `lower` applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.operator import Lifted, Node
from opshift.passes.base.plan import KernelWarning, Plan, Step
from opshift.passes.rewrite.fragment import Constant, Fragment

FunctionKey = tuple[str, str, str]


class Replace(NamedTuple):
    """Replace a node by a fragment; `sources` has the source of each operand of the fragment.

    No node computes the `renamed` outputs: consumers are rewired to the source value. `cast` is the following Cast that
    is replaced together with the node; the fragment takes its place, and `inputs` are the node's.
    """

    fragment: Fragment
    sources: tuple[int | Constant | None, ...]
    typed_node: Node
    lifted: Lifted
    where: str
    renamed: tuple[int, ...] = ()
    cast: int | None = None
    inputs: tuple[str, ...] = ()

    def at(self, where: str) -> Replace:
        """Return the same for another node."""
        return Replace(*self[:4], where, *self[5:])


@dataclass(frozen=True)
class DropAttributes:
    """Keep a node without attributes that the target's version ignores or does not have."""

    drop: tuple[str, ...]


@dataclass(frozen=True)
class CarryValue:
    """Add a loop-carried value to a Loop without any, because Loop-1 requires one."""


@dataclass(frozen=True)
class NestScan:
    """Nest a Scan-8 in a Scan over the batch, because later versions have no batch axis."""


@dataclass(frozen=True)
class CallFunction:
    """Call a copy of a function that is specialized for these inputs."""

    name: str


@dataclass(frozen=True)
class Drop:
    """Remove a node that is replaced together with the Cast that reads it."""


Change = Replace | DropAttributes | CarryValue | NestScan | CallFunction | Drop


@dataclass(frozen=True)
class Decision:
    """The decision for a node, and for every node that differs only in its index and names."""

    change: Change | None
    steps: tuple[Step, ...]
    kept: int
    kernel_warnings: tuple[KernelWarning, ...] = ()


class KnownDecision(NamedTuple):
    """A decision, and the facts about the node's inputs that it depends on."""

    decision: Decision
    inputs: tuple[Facts | None, ...]


@dataclass
class GraphPlan:
    """The edits of one graph, by node index; `inner` by node and attribute."""

    path: str
    changes: dict[int, Change] = field(default_factory=dict)
    notes: dict[str, Facts] = field(default_factory=dict)
    """The outputs of the graph whose shapes must be declared, because they may no longer be inferred."""
    inner: dict[tuple[int, str], GraphPlan] = field(default_factory=dict)

    def all(self) -> Iterator[GraphPlan]:
        """Yield this plan and the plans of all subgraphs."""
        yield self
        for plan in self.inner.values():
            yield from plan.all()


@dataclass(frozen=True)
class FunctionPlan:
    """A function of the result: its source function, its name, the bound attributes, and its plan."""

    key: FunctionKey
    name: str
    bound: Mapping[str, Any]
    graph: GraphPlan


@dataclass(frozen=True)
class Planned:
    """A plan with all data that is needed to apply it."""

    plan: Plan
    graphs: tuple[GraphPlan, ...]
    """The plan of the main graph, followed by those of training_info in order."""
    functions: tuple[FunctionPlan, ...]
    constants: bool = False
    """Whether the target supports Constant for all types."""
    initializers: bool = True
    """Whether constants must be initializers, whatever the ir_version."""
