"""Find the nodes that must keep a wider float type ("islands"), by running the model.

A node stays where a value overflows or vanishes in the narrower type, or where it departs further from what the model
computes than rounding explains. Each round runs the model with the islands found so far. The first nodes that depart
become islands, or if they are, the nodes in their graphs, the last first, and then the nodes before them; in the end
the whole model is one island.
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
from opshift.opsets.registry.structural import CONSTANT, LOOP
from opshift.opsets.registry.traits import Integers, Trait
from opshift.passes.analysis.departures import bound_of, distance
from opshift.passes.base.errors import printable
from opshift.passes.graph.traversal import named_subgraphs, names_read
from opshift.passes.rewrite.inner_sizes import (
    Key,
    Located,
    ValueSizes,
    holds_measured,
    is_float,
    located,
    located_within,
)
from opshift.passes.rewrite.type_choice import Types, is_narrower


class UnmeasuredError(Exception):
    """A model could not be run; the text has the reason, and `operator` the operator without a kernel, if any."""

    def __init__(self, reason: str, operator: str = "", *, opens: bool = False) -> None:
        """Store the reason; `opens` is whether onnxruntime opens the model although it cannot run it."""
        super().__init__(reason)
        self.operator, self.opens = operator, opens


class UnheldError(Exception):
    """An output of a model has numbers that its new type does not hold; the text has the reason."""

    def __init__(self, name: str, reason: str) -> None:
        """Take the name of the output and the reason."""
        super().__init__(reason)
        self.name = name


Values = Mapping[str, npt.NDArray[Any]]
Measure = Callable[[], Sequence[Mapping[Key, ValueSizes]]]
"""Returns how large the values in graphs of nodes of a model are, for each input that is tried."""
Run = Callable[[onnx.ModelProto, Sequence[str], Collection[str], int], Sequence[Values]]
"""Returns the available values of these names of a model, for each tried input, in this number of runs.

Values of other names are rounded, because they are narrower floats.
"""
Islands = Callable[[onnx.ModelProto, Types, "Change"], Mapping[str, str]]
"""Searches the islands of a model; raises UnmeasuredError and UnheldError."""
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
        asked: the types that are to change.
        change: makes the model with islands.
        run: runs it.
        measure: measures the values in the graphs of its nodes.
        wide: why nodes are islands, by their paths.
    """

    graph: onnx.GraphProto
    asked: Types
    change: Change
    run: Run
    measure: Measure = lambda: ()
    wide: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    """The number of preceding nodes that became islands at once for a node, by its path."""

    def search(self, model: onnx.ModelProto) -> Mapping[str, str]:
        """Return the islands of a model, each with the reason.

        Raises:
            UnmeasuredError: the model does not run.
            UnheldError: an output is to have a type that does not hold its numbers.
        """
        names = [name for node in self.graph.node for name in node.output if name]
        found = self.run(model, names, (), 2)
        reference, again = found[: len(found) // 2], found[len(found) // 2 :]
        random = _differing(reference, again)
        sizes = self._sizes(reference)
        self._check_outputs(sizes)
        self._beyond(sizes, random)
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
        found = [one.where for one in self._nodes() if one.where in self.wide and one.where not in fixed]
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

    def _nodes(self) -> Iterator[Located]:
        return located(self.graph, "main")

    def _main(self) -> Iterator[Located]:
        """Yield the nodes of the main graph alone."""
        return (one for one in self._nodes() if one.graphs == ("main",))

    def _without_kernel(self, error: UnmeasuredError, changed: frozenset[str]) -> dict[str, str]:
        """Return the nodes of an operator without a kernel in onnxruntime for the narrower type."""
        why = f"onnxruntime has no kernel for {type_name(self._narrow)}"
        return {one.where: why for one in self._nodes() if one.where in changed and one.node.op_type == error.operator}

    # --- evidence from the values alone ---

    def _sizes(self, reference: Sequence[Values]) -> Sequence[Mapping[Key, ValueSizes]]:
        """Return how large the values of all graphs are, for each input."""
        main = [{("main", name): ValueSizes.of(array) for name, array in values.items()} for values in reference]
        inner = self.measure() if any(holds_measured(one.node) for one in self._main()) else ()
        return [{**one, **more} for one, more in zip(main, inner, strict=True)] if inner else main

    def _beyond(self, sizes: Sequence[Mapping[Key, ValueSizes]], random: set[str]) -> None:
        """Make islands of nodes with a value that the narrower type does not hold, or whose sums it does not."""
        ran = {path for one in sizes for (path, name), size in one.items() if not name and size.count}
        constant = {tensor.name for tensor in self.graph.initializer}
        constant |= {name for one in self._nodes() if one.node.op_type == CONSTANT for name in one.node.output}
        for one in self._nodes():
            if one.graphs[0] != "main" and one.graphs[0] not in ran:
                self.wide[one.where] = "it is in the graph of another node, where no value was measured"
            elif one.graphs[0] == "main" and random.intersection(one.node.output):
                self.wide[one.where] = "its output is random, and cannot be compared"
            elif any(f"{one.where}.{name}" not in ran for name, _ in named_subgraphs(one.node)):
                self.wide[one.where] = "a graph of it did not run, so that no value of its outputs there was measured"
            elif one.node.op_type == LOOP and one.node.input[0] not in constant:
                self.wide[one.where] = "its iterations are counted at run time, and values may grow in further ones"
            elif why := self._too_large(one, sizes):
                self.wide[one.where] = why

    def _check_outputs(self, sizes: Sequence[Mapping[Key, ValueSizes]]) -> None:
        """Raise UnheldError if an output that gets a narrower type has numbers which that does not hold."""
        for value in self.graph.output if self.asked.outer else ():
            old = value.type.tensor_type.elem_type
            wanted = self.asked.changes.get(old, old)
            most = max((one["main", value.name].most for one in sizes if ("main", value.name) in one), default=0.0)
            if is_narrower(old, wanted) and (why := _unheld(most, wanted, headroom=1)):
                raise UnheldError(value.name, f"it {why}")

    def _too_large(self, one: Located, sizes: Sequence[Mapping[Key, ValueSizes]]) -> str | None:
        """Return which value of a node the narrower type does not hold, if there is one."""
        for name in filter(None, (*one.node.input, *one.node.output)):
            most = max((_size(one, name, each).most for each in sizes), default=0.0)
            if why := _unheld(most, self._narrow, _HEADROOM):
                return f"its {'input' if name in one.node.input else 'output'} {printable(name)} {why}"
        total = max((_total(one, each) for each in sizes), default=0.0)
        if total > _range(self._narrow)[1]:
            return f"it adds up to {total:.6g} on the way, which overflows in {type_name(self._narrow)}"
        return None

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
        makers = {name: one for one in self._main() for name in one.node.output if name}
        outputs = {value.name for value in self.graph.output}
        for one in self._main():
            where, node = one.where, one.node
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
                for earlier in _last(one, changed)[:depth] or _nearest(node, makers, changed, depth):
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
            if not is_float(before[name]):
                if decides and not np.array_equal(before[name], after[name]):
                    return f"{printable(name)} differs, which holds no floats"
                continue
            worst = distance(before[name], after[name], rows=decides)
            if worst.size > bound:
                what = f"{worst.actual:.6g} instead of {worst.expected:.6g}"
                return f"{printable(name)} departs by {worst.size:.2g} of its size, more than {bound:.2g}: {what}"
        return None


def _range(dtype: int) -> tuple[float, float]:
    """Return the least number with all digits, and the largest one, of a type of floats."""
    info = ml_dtypes.finfo(onnx.helper.tensor_dtype_to_np_dtype(dtype))  # type: ignore[no-untyped-call]
    return float(info.smallest_normal), float(info.max)


def _unheld(most: float, dtype: int, headroom: int) -> str | None:
    """Return what a type of floats does to a value whose largest number this is, or would where it is larger."""
    least, largest = _range(dtype)
    if most > largest:
        return f"reaches {most:.6g}, which overflows in {type_name(dtype)}"
    if most > largest / headroom:
        return f"reaches {most:.6g}, and {headroom} times that overflows in {type_name(dtype)}"
    if 0 < most < least:
        return f"is {most:.6g} at most, which loses digits or becomes 0 in {type_name(dtype)}"
    return None


def _differing(one: Sequence[Values], other: Sequence[Values]) -> set[str]:
    """Return the values that differ between two runs of one model."""
    return {
        name
        for before, after in zip(one, other, strict=True)
        for name in before
        if name not in after or before[name].tobytes() != after[name].tobytes()
    }


def _last(one: Located, changed: Collection[str]) -> list[str]:
    """Return the paths of a node and of those in its graphs, the last first, as far as they changed."""
    outer, *inner = (node.where for node in located_within(one))
    return [where for where in (outer, *reversed(inner)) if where in changed]


def _nearest(
    node: onnx.NodeProto, makers: Mapping[str, Located], changed: Collection[str], depth: int
) -> Iterator[str]:
    """Yield the nearest preceding nodes that changed, and their predecessors, up to this depth."""
    left = dict.fromkeys(names_read(node), depth)
    pending = [*left]
    while pending:
        name = pending.pop(0)
        if name not in makers:
            continue
        earlier = makers[name]
        own = _last(earlier, changed)[: left[name]]
        yield from own
        more = left[name] - len(own)
        for one in names_read(earlier.node) if more else ():
            if left.get(one, 0) < more:
                left[one] = more
                pending.append(one)


def _size(one: Located, name: str, sizes: Mapping[Key, ValueSizes]) -> ValueSizes:
    """Return how large a value is that a node reads or makes; nothing if it was not measured."""
    return next((sizes[graph, name] for graph in one.graphs if (graph, name) in sizes), ValueSizes())


def _total(one: Located, sizes: Mapping[Key, ValueSizes]) -> float:
    """Return how large the numbers are that a node adds up on the way to its result, of one input.

    Sums of products are added up in float by the kernels that matter; a mean divides afterwards, and a variance squares
    before.
    """
    node = one.node
    traits = float_traits(node)
    if Trait.SUMS not in traits or traits_of(node).factors > 1 or not node.input:
        return 0.0
    data, made = _size(one, node.input[0], sizes), _size(one, node.output[0], sizes)
    if not made.count:
        return 0.0
    if Trait.SQUARES in traits:
        return data.most**2
    return (data.squares if integers_of(node) is Integers.SQUARES else data.total) / made.count
