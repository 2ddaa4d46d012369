"""The edits of a model: `plan` decides them, `lower` applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.operator import Lifted, Node
from opshift.passes.base.results import KernelWarning, Plan, Step
from opshift.passes.rewrite.fragment import Constant, Fragment

FunctionKey = tuple[str, str, str]


class Replace(NamedTuple):
    """Write a fragment in place of a node; `sources` says what each operand of the fragment is.

    Outputs that are `renamed` are written by no node: who reads them reads what they are instead. `cast` is the Cast
    behind the node that is replaced together with it, in whose place the fragment stands; `inputs` are the node's then.
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
    """Keep a node but for attributes that mean nothing at the target's version, or do not exist there."""

    drop: tuple[str, ...]


@dataclass(frozen=True)
class CarryValue:
    """Give a Loop that carries nothing a value to carry: Loop-1 must have one."""


@dataclass(frozen=True)
class NestScan:
    """Put a Scan-8 into a Scan that goes through the batch, of which later versions know nothing."""


@dataclass(frozen=True)
class CallFunction:
    """Call a copy of a function that is made for these inputs."""

    name: str


@dataclass(frozen=True)
class Drop:
    """Write nothing: the Cast that reads the node is replaced together with it."""


Change = Replace | DropAttributes | CarryValue | NestScan | CallFunction | Drop


@dataclass(frozen=True)
class Decision:
    """The decision for a node, and for every node that differs only in place and names."""

    change: Change | None
    steps: tuple[Step, ...]
    kept: int
    kernel_warnings: tuple[KernelWarning, ...] = ()


class KnownDecision(NamedTuple):
    """A decision, and the facts about the node's inputs on which it rests."""

    decision: Decision
    inputs: tuple[Facts | None, ...]


@dataclass
class GraphPlan:
    """The edits of one graph, by node index; `inner` by node and attribute."""

    path: str
    changes: dict[int, Change] = field(default_factory=dict)
    notes: dict[str, Facts] = field(default_factory=dict)
    """Outputs of the graph whose shapes are to be declared, since they may be inferred no more."""
    inner: dict[tuple[int, str], GraphPlan] = field(default_factory=dict)

    def all(self) -> Iterator[GraphPlan]:
        """Yield this plan and those of all graphs inside."""
        yield self
        for plan in self.inner.values():
            yield from plan.all()


@dataclass(frozen=True)
class FunctionPlan:
    """A function of the result: which one it is made of, its name, the attributes that are bound, what to do in it."""

    key: FunctionKey
    name: str
    bound: Mapping[str, Any]
    graph: GraphPlan


@dataclass(frozen=True)
class Planned:
    """A plan with all data that is needed to apply it."""

    plan: Plan
    graphs: tuple[GraphPlan, ...]
    """The main graph's, then those of training_info in order."""
    functions: tuple[FunctionPlan, ...]
    constants: bool = False
    """Whether a Constant of any type may stand on the target."""
    initializers: bool = True
    """Whether constants can be initializers only, whatever the ir_version."""
