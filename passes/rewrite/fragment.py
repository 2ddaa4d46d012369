"""Define fragments, the nodes that express the meaning of a node on a target, and failures."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.operator import Lifted
from opshift.passes.analysis.inference import form
from opshift.passes.base.plan import Candidate


class Input(NamedTuple):
    """An operand of the replaced node."""

    operand: int


class Constant(NamedTuple):
    """A constant and its element type."""

    value: Tensor
    dtype: int


class Output(NamedTuple):
    """An output of a node of the fragment."""

    node: int
    place: int


ValueRef = Input | Constant | Output | None
"""The source of a value; None is an omitted input."""


@dataclass(frozen=True)
class LoopBody:
    """The body of a Loop: input 0 is the iteration number, loop-carried values follow; others are outer values."""

    fragment: Fragment
    carries: tuple[Facts, ...]
    rows: tuple[Facts, ...]
    """The facts about scan outputs: without iterations, onnxruntime 1.32.0 reads the rank from the declared type."""


@dataclass(frozen=True)
class FragmentNode:
    """A node of a fragment.

    A Loop has a `body`, and its inputs are followed by the outer values that its body reads.
    """

    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[ValueRef, ...]
    outputs: int
    body: LoopBody | None = None

    @functools.cached_property
    def form(self) -> tuple[onnx.NodeProto, Any, Any]:
        """The node without names, and its lists of inputs and outputs."""
        return form(self.name, self.attributes)


@dataclass(frozen=True)
class Fragment:
    """The nodes that express a meaning on the target, in order, and the source of each output."""

    nodes: tuple[FragmentNode, ...]
    outputs: tuple[ValueRef, ...]
    lowerings: tuple[str, ...]
    cost: float
    assumes: frozenset[str] = frozenset()
    rounds: bool = False
    """Whether its results are equal only up to rounding."""
    ways: tuple[Candidate, ...] = field(default=(), compare=False)
    """The candidates, including the chosen one."""

    @functools.cached_property
    def made(self) -> tuple[tuple[tuple[Output, str], ...], ...]:
        """The outputs of each node, with the suffixes for the names of new values."""
        return tuple(
            tuple(
                (Output(place, position), f"/{leaf.name}:{position}" if leaf.outputs > 1 else f"/{leaf.name}.out")
                for position in range(leaf.outputs)
            )
            for place, leaf in enumerate(self.nodes)
        )


@dataclass(frozen=True)
class Failure:
    """The reason why there is no derivation: why the target does not accept the node, or why a lowering fails."""

    reason: str
    missing: bool = False
    assumption: str = ""
    busy: frozenset[Hashable] = frozenset()
    """The meanings in progress that the search depended on: without them, this failure is not conclusive."""
    beside: bool = False
    """It applies on no target."""
    absent: bool = False
    """The target's opset does not have the operator."""
    least: float = 0.0
    """The lower bound of its cost, which is at least that of another candidate."""
    name: str = ""
    """The lowering that fails; empty for a node."""
    nearest: Failure | None = None
    """The failure of the lowering that a user can most likely avoid, by a fact, an assumption or another target."""

    @property
    def explanation(self) -> str:
        """Why the node is not accepted, and the first obstacle of its nearest decomposition."""
        own, *more = self._reasons() or [""]
        one = self.nearest
        if one is None or not self.reason or not more:
            return own
        if one.missing or one.assumption:
            return f"{own}; {more[-1]}"
        if one.beside:
            return f"{own}, and no decomposition applies: {more[0]}"
        return f"{own}. Its decomposition fails, because {more[0]}"

    @property
    def details(self) -> str:
        """Why the node is not accepted, and all obstacles of its nearest decomposition, with the names of lowerings."""
        return "; ".join(self._reasons(named=True))

    def _reasons(self, *, named: bool = False) -> list[str]:
        """Return the reasons from the node to the last lowering, each once, with the names of lowerings if `named`."""
        found: dict[str, str] = {}
        one: Failure | None = self
        label = ""
        while one is not None:
            label += f"{one.name}: " if one.name else ""
            if one.reason:
                found.setdefault(one.reason, f"{label}{one.reason}")
                label = ""
            one = one.nearest
        return list(found.values() if named else found)


def pruned(fragment: Fragment) -> Fragment:
    """Drop unused nodes: a lowering may not need a run-time shape after all."""
    read = {ref.node for ref in fragment.outputs if isinstance(ref, Output)}
    for index in range(len(fragment.nodes) - 1, -1, -1):
        if index in read:
            read.update(ref.node for ref in fragment.nodes[index].inputs if isinstance(ref, Output))
    if len(read) == len(fragment.nodes):
        return fragment
    place = {old: new for new, old in enumerate(sorted(read))}

    def renumbered(ref: ValueRef) -> ValueRef:
        return Output(place[ref.node], ref.place) if isinstance(ref, Output) else ref

    nodes = tuple(
        dataclasses.replace(fragment.nodes[old], inputs=tuple(renumbered(ref) for ref in fragment.nodes[old].inputs))
        for old in sorted(read)
    )
    return dataclasses.replace(fragment, nodes=nodes, outputs=tuple(renumbered(ref) for ref in fragment.outputs))


def moved(ref: ValueRef, base: int, operands: Sequence[ValueRef]) -> ValueRef:
    """Return the source of a value after its fragment is inserted behind `base` nodes of another one."""
    if isinstance(ref, Output):
        return Output(ref.node + base, ref.place)
    return operands[ref.operand] if isinstance(ref, Input) else ref


def operand_sources(lifted: Lifted) -> tuple[int | Constant | None, ...]:
    """Return, for each operand, the index of the node's input, or its constant."""
    return tuple(
        index if index is not None or facts is None else Constant(facts.value or Tensor(np.zeros(0)), facts.dtype or 0)
        for index, facts in zip(lifted.sources, lifted.operands, strict=True)
    )
