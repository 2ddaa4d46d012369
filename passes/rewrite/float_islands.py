"""Find the nodes that must keep a wider float type ("islands"), by running the model.

A node stays if a value overflows or underflows to zero in the narrower type, or if its error is larger than rounding
explains. Each round runs the model with the islands found so far. The first differing nodes become islands or, if they
already are, the nodes before them; in the end the whole model may be one island.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.node_traits import float_traits, integers_of, traits_of
from opshift.opsets.registry.traits import Integers, Trait
from opshift.passes.analysis.departures import bound_of, distance
from opshift.passes.base.errors import printable
from opshift.passes.graph.traversal import names_read, node_name
from opshift.passes.rewrite.type_choice import Types, is_narrower


class UnmeasuredError(Exception):
    """A model could not be run; the text has the reason, and `operator` the operator without a kernel, if any."""

    def __init__(self, reason: str, operator: str = "", *, opens: bool = False) -> None:
        """Store the reason; `opens` is whether onnxruntime opens the model although it cannot run it."""
        super().__init__(reason)
        self.operator, self.opens = operator, opens


Values = Mapping[str, npt.NDArray[Any]]
Run = Callable[[onnx.ModelProto, Sequence[str], Collection[str], int], Sequence[Values]]
"""Returns the available values of these names of a model, for each tried input, in this number of runs.

Values of other names are rounded, because they are narrower floats.
"""
Islands = Callable[[onnx.ModelProto, Types, "Change"], Mapping[str, str]]
"""Finds the islands of a model; raises UnmeasuredError."""
Change = Callable[[Mapping[str, str]], tuple[onnx.ModelProto, frozenset[str], frozenset[str]]]
"""Returns the model with narrower floats, except in the nodes of these paths.

It also returns the paths of the changed nodes, and the values that are narrower floats.
"""

_ROUNDS = 16
"""The number of rounds that find the first differing nodes; then all differing nodes become islands at once."""
_HEADROOM = 4
"""The headroom factor for values on other inputs."""
_PARTS = 8
"""The number of parts of the islands that are tried again in narrower floats, one after the other."""
_MOST_ROUNDS = 32
"""The number of rounds after which the whole model keeps its types."""


@dataclass
class IslandSearch:
    """The search in one model.

    Attributes:
        graph: its main graph.
        asked: the requested type changes.
        change: returns the model with islands.
        run: runs the model.
        wide: the reasons why nodes are islands, by node path.
    """

    graph: onnx.GraphProto
    asked: Types
    change: Change
    run: Run
    wide: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    """The number of preceding nodes that became islands at once for a node, by its path."""

    def search(self, model: onnx.ModelProto) -> Mapping[str, str]:
        """Return the islands of a model, each with the reason."""
        names = [name for node in self.graph.node for name in node.output if name]
        found = self.run(model, names, (), 2)
        reference, again = found[: len(found) // 2], found[len(found) // 2 :]
        random = _differing(reference, again)
        self._beyond(reference, random)
        fixed = frozenset(self.wide)
        for turn in range(_MOST_ROUNDS):
            changed_model, changed, narrow = self.change(self.wide)
            if not changed:
                break
            try:
                found = self.run(changed_model, names, narrow, 1)
            except UnmeasuredError as error:
                more = self._without_kernel(error, changed)
                if not more:
                    raise
            else:
                more = self._departing(reference, found, changed, random, every=turn >= _ROUNDS)
            if not more:
                break
            self.wide |= more
        else:
            self.wide |= dict.fromkeys(changed, "what is computed from it departs too far")
        self._release(fixed, lambda found, changed: self._departing(reference, found, changed, random, every=True))
        return self.wide

    def _release(
        self, fixed: frozenset[str], departing: Callable[[Sequence[Values], frozenset[str]], Mapping[str, str]]
    ) -> None:
        """Narrow parts of the islands again, in order, if nothing differs too much then: islands are guesses."""
        names = [name for node in self.graph.node for name in node.output if name]
        found = [where for where, _ in self._nodes() if where in self.wide and where not in fixed]
        size = -(-len(found) // _PARTS)
        for start in range(0, len(found), size) if len(found) >= _PARTS else ():
            part = frozenset(found[start : start + size])
            less = {where: why for where, why in self.wide.items() if where not in part}
            model, changed, narrow = self.change(less)
            try:
                if not departing(self.run(model, names, narrow, 1), changed):
                    self.wide = less
            except UnmeasuredError:
                continue

    @property
    def _narrow(self) -> int:
        """The narrowest new type of values."""
        narrower = [new for old, new in self.asked.changes.items() if is_narrower(old, new)]
        return max(narrower, key=bound_of)

    def _nodes(self) -> Iterator[tuple[str, onnx.NodeProto]]:
        for index, node in enumerate(self.graph.node):
            yield f"main/{node_name(node, index)}", node

    def _without_kernel(self, error: UnmeasuredError, changed: frozenset[str]) -> dict[str, str]:
        """Return the nodes of an operator without a kernel in onnxruntime for the narrower type."""
        why = f"onnxruntime has no kernel for {type_name(self._narrow)}"
        return {where: why for where, node in self._nodes() if where in changed and node.op_type == error.operator}

    # --- evidence from the values alone ---

    def _beyond(self, reference: Sequence[Values], random: set[str]) -> None:
        """Add islands for nodes with a value or a sum that overflows the narrower type."""
        info = ml_dtypes.finfo(onnx.helper.tensor_dtype_to_np_dtype(self._narrow))  # type: ignore[no-untyped-call]
        largest, least = float(info.max), float(info.smallest_normal)
        for where, node in self._nodes():
            for name in (*node.input, *node.output):
                values = [one[name] for one in reference if name in one and _is_float(one[name])]
                sizes = [np.abs(one[np.isfinite(one)].astype(np.float64)) for one in values]
                most = max((float(one.max(initial=0.0)) for one in sizes), default=0.0)
                kind = "input" if name in node.input else "output"
                if most > largest:
                    why = f"its {kind} {printable(name)} reaches {most:.6g}, which overflows"
                elif most > largest / _HEADROOM:
                    why = f"its {kind} {printable(name)} reaches {most:.6g}, and {_HEADROOM} times that overflows"
                elif 0 < most < least:
                    why = f"its {kind} {printable(name)} is {most:.6g} at most, which loses digits or becomes 0"
                else:
                    continue
                self.wide.setdefault(where, f"{why} in {type_name(self._narrow)}")
            if random.intersection(node.output):
                self.wide.setdefault(where, "its output is random, and cannot be compared")
            elif (total := _total(node, reference)) > largest:
                why = f"it adds up to {total:.6g} on the way, which overflows in {type_name(self._narrow)}"
                self.wide.setdefault(where, why)

    # --- evidence from a run with the islands ---

    def _departing(
        self,
        reference: Sequence[Values],
        found: Sequence[Values],
        changed: frozenset[str],
        random: set[str],
        *,
        every: bool,
    ) -> dict[str, str]:
        """Return the nodes that become islands: the first differing ones, or with `every` all of them."""
        more: dict[str, str] = {}
        tainted = set(random)
        makers = {name: (where, node) for where, node in self._nodes() for name in node.output if name}
        outputs = {value.name for value in self.graph.output}
        for where, node in self._nodes():
            after = not tainted.isdisjoint(names_read(node))
            if after:
                tainted.update(node.output)
            if after and not every:
                continue
            for name in filter(None, node.output):
                if name in random or (why := self._why(name, reference, found, decides=name in outputs)) is None:
                    continue
                tainted.update(node.output)
                if where in changed:
                    more.setdefault(where, f"its output {why}")
                    continue
                # If the nodes just before do not help, try twice as many.
                self.depths[where] = depth = 2 * self.depths.get(where, 0) or 1
                for earlier in _nearest(node, makers, changed, depth):
                    more.setdefault(earlier, f"at {where}, which depends on it, {why}")
        return more

    def _why(self, name: str, reference: Sequence[Values], found: Sequence[Values], *, decides: bool) -> str | None:
        """Return the reason why a value differs too much, or None.

        The limit for outputs is three quarters of the bound, as a reserve for other inputs. The limit for inner values,
        which matter only through outputs, is four times the bound.
        """
        bound = bound_of(self._narrow) * (0.75 if decides else 4)
        for before, after in zip(reference, found, strict=True):
            if name not in before or name not in after:
                continue
            if before[name].shape != after[name].shape:
                return f"{printable(name)} has another shape"
            if not _is_float(before[name]):
                if decides and not np.array_equal(before[name], after[name]):
                    return f"{printable(name)} differs, which holds no floats"
                continue
            worst = distance(before[name], after[name], rows=decides)
            if worst.size > bound:
                what = f"{worst.actual:.6g} instead of {worst.expected:.6g}"
                return f"{printable(name)} departs by {worst.size:.2g} of its size, more than {bound:.2g}: {what}"
        return None


def _is_float(array: npt.NDArray[Any]) -> bool:
    return array.dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)


def _differing(one: Sequence[Values], other: Sequence[Values]) -> set[str]:
    """Return the values that differ between two runs of one model."""
    return {
        name
        for before, after in zip(one, other, strict=True)
        for name in before
        if name not in after or before[name].tobytes() != after[name].tobytes()
    }


def _nearest(
    node: onnx.NodeProto, makers: Mapping[str, tuple[str, onnx.NodeProto]], changed: frozenset[str], depth: int
) -> Iterator[str]:
    """Yield the nearest preceding nodes that changed, and their predecessors, up to this depth."""
    left = dict.fromkeys(names_read(node), depth)
    pending = [*left]
    while pending:
        name = pending.pop(0)
        if name not in makers:
            continue
        where, earlier = makers[name]
        more = left[name] - (where in changed)
        if where in changed:
            yield where
        for one in names_read(earlier) if more else ():
            if left.get(one, 0) < more:
                left[one] = more
                pending.append(one)


def _total(node: onnx.NodeProto, reference: Sequence[Values]) -> float:
    """Return the magnitude of the numbers that a node sums internally, for one input.

    Sums of products are added up in float by the kernels that matter; a mean divides afterwards, and a variance squares
    before.
    """
    traits = float_traits(node)
    if Trait.SUMS not in traits or traits_of(node).factors > 1 or not node.input:
        return 0.0
    most = 0.0
    for values in reference:
        data, made = values.get(node.input[0]), values.get(node.output[0])
        if data is None or made is None or not data.size or not made.size or not _is_float(data):
            continue
        sizes = np.abs(np.where(np.isfinite(data), data, 0).astype(np.float64))
        if Trait.SQUARES in traits:
            most = max(most, float(sizes.max()) ** 2)
        elif integers_of(node) is Integers.SQUARES:
            most = max(most, float((sizes * sizes).mean()) * data.size / made.size)
        else:
            most = max(most, float(sizes.mean()) * data.size / made.size)
    return most
