"""Force untaken branches of Ifs, and enter Loops that no input entered.

A rewrite may be wrong in parts that inputs rarely reach. For a branch inside another If's branch, the outer branch is
forced too. A Loop is entered with a trip count of 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.structural import CONSTANT, IF, LOOP
from opshift.passes.base.limits import Limits
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs, subgraphs
from opshift.passes.proof.inner_values import InnerValues
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable

NAMES = ("then_branch", "else_branch")
_MOST = 32  # maximum number of forced branches
DEFAULTS = 4
"""The first ir_version in which an initializer of an input is a default, and other initializers need not be inputs."""
_DEEPEST = 6  # maximum depth of nested Ifs: each level doubles the model with forced branches

_GATES = (onnx.TensorProto.BOOL, onnx.TensorProto.INT64)  # types of conditions and trip counts

_Graph = onnx.GraphProto | onnx.FunctionProto
_Taken = Mapping[str, Sequence[bool | None]]
"""The values of conditions on each input, by name; None if unknown."""


@dataclass(frozen=True)
class Branch:
    """A branch that no input took: its display name, and both models with the branch forced."""

    name: str
    original: Runnable
    rewritten: Runnable | None
    """None if the rewritten model has no such If or never takes the branch, and if it is not forced."""
    sure: bool = False
    """Whether both models take it under the same condition; otherwise the branches may have been swapped correctly."""
    runs: bool = True
    """Whether a forced branch runs: inside a Loop, a Scan or a function this is unknown."""
    took: str = "took"
    taken: str = "taken"
    """The verb for an input that reaches it: a Loop is entered."""


@dataclass(frozen=True)
class _If:
    """An If: the branches that contain it, by the indices of their Ifs, and other enclosing nodes."""

    node: onnx.NodeProto
    within: tuple[tuple[int, str], ...]
    inside: str
    constant: bool | None
    """The condition, if it is constant."""


def branches_not_taken(before: Runnable, after: Runnable, feeds: Sequence[Feeds], limits: Limits) -> Iterator[Branch]:
    """Yield the reachable branches of the original that none of these inputs is known to take.

    The condition of an If inside a Loop, a Scan or a function, or computed in another If's branch, is unknown.
    """
    conditionals, others = _conditionals(before.proto), _conditionals(after.proto)
    if not conditionals:
        return
    taken, theirs = _taken(before, conditionals, feeds, limits), _taken(after, others, feeds, limits)
    ifs, their_ifs = ([one.node for one in found] for found in (conditionals, others))
    forced = 0
    for place, one in enumerate(conditionals):
        same = _match(ifs, place, their_ifs)
        for name in NAMES:
            branch_path = (*one.within, (place, name))
            if _dead(conditionals, branch_path) or _seen(conditionals, branch_path, one.inside, taken):
                continue
            label = f"the {name.replace('_', ' ')} of If at {one.node.name or one.node.output[0]}"
            if one.inside:
                label += f", inside of {one.inside}, where it was not seen to run"
            if same is None:
                yield Branch(label, before, None)
                continue
            other_way = (*others[same].within, (same, name))
            if _dead(others, other_way):
                yield Branch(f"{label}, which the rewritten model never takes", before, None)
                continue
            if len(branch_path) > _DEEPEST:
                yield Branch(
                    f"{label}, which was not taken by force, being inside of {len(branch_path) - 1} Ifs", before, None
                )
                continue
            forced += 1
            if forced > _MOST:
                yield Branch(f"{label}, which was not taken by force, as {_MOST} others were", before, None)
                continue
            mine, found = _named(conditionals, branch_path), _named(others, other_way)
            sure = mine == found and one.inside == others[same].inside
            sure = sure and all(taken.get(condition) == theirs.get(condition) for condition, _, _ in mine)
            yield Branch(label, _forced(before, branch_path), _forced(after, other_way), sure, not one.inside)


def _conditionals(model: onnx.ModelProto) -> list[_If]:
    """Return every If of a model, always in the same order; an inner If follows its outer one."""
    found: list[_If] = []
    # From ir_version 4 on, an initializer that is also an input is a default, which a caller may override.
    defaults = {value.name for value in model.graph.input} if model.ir_version >= DEFAULTS else set()

    def visit(graph: _Graph, within: tuple[tuple[int, str], ...], inside: str, known: Mapping[str, bool]) -> None:
        known = {**known, **_constants(graph, defaults)}
        for node in graph.node:
            if node.op_type != IF or node.domain not in ("", "ai.onnx"):
                for branch in subgraphs(node):
                    visit(branch, within, node.op_type, known)
                continue
            place = len(found)
            found.append(_If(node, within, inside, known.get(node.input[0])))
            for name, branch in named_subgraphs(node):
                if name in NAMES:
                    visit(branch, (*within, (place, name)), inside, known)

    visit(model.graph, (), "", {})
    for function in model.functions:
        visit(function, (), f"the function {function.name}", {})
    return found


def _constants(graph: _Graph, overridden: Collection[str] = ()) -> dict[str, bool]:
    """Return the boolean scalar constants of a graph, without initializers of these names."""
    return {
        name: bool(onnx.numpy_helper.to_array(tensor).all())
        for name, tensor in _tensors(graph, overridden).items()
        if tensor.data_type == onnx.TensorProto.BOOL and tensor.data_location != onnx.TensorProto.EXTERNAL
    }


def _tensors(graph: _Graph, overridden: Collection[str]) -> dict[str, onnx.TensorProto]:
    tensors = {node.output[0]: a.t for node in graph.node if node.op_type == CONSTANT for a in node.attribute}
    if isinstance(graph, onnx.GraphProto):
        tensors |= {tensor.name: tensor for tensor in graph.initializer if tensor.name not in overridden}
    return tensors


def _match(found: Sequence[onnx.NodeProto], place: int, others: Sequence[onnx.NodeProto]) -> int | None:
    """Return the index of the same node in the other model: by outputs, or by position among equally many."""
    outputs = list(found[place].output)
    named = [index for index, other in enumerate(others) if list(other.output) == outputs]
    if len(named) == 1:
        return named[0]
    return place if len(others) == len(found) else None


def _named(conditionals: Sequence[_If], branch_path: Sequence[tuple[int, str]]) -> list[tuple[str, list[str], str]]:
    """Return a path to a branch as the names of the conditions and outputs of its Ifs."""
    nodes = ((conditionals[place].node, name) for place, name in branch_path)
    return [(node.input[0], list(node.output), name) for node, name in nodes]


def _dead(conditionals: Sequence[_If], branch_path: Sequence[tuple[int, str]]) -> bool:
    """Return whether a constant condition makes this path unreachable."""
    return any(conditionals[place].constant is (name != NAMES[0]) for place, name in branch_path)


def _seen(conditionals: Sequence[_If], branch_path: Sequence[tuple[int, str]], inside: str, taken: _Taken) -> bool:
    """Return whether some input is known to reach the end of this path."""
    turns = [(taken.get(conditionals[place].node.input[0]), name == NAMES[0]) for place, name in branch_path]
    known = [[value is wanted for value in values] for values, wanted in turns if values is not None]
    return not inside and len(known) == len(branch_path) and any(map(all, zip(*known, strict=True)))


def _taken(runnable: Runnable, conditionals: Sequence[_If], feeds: Sequence[Feeds], limits: Limits) -> _Taken:
    """Return the conditions that are main-graph values, on each input."""
    names = dict.fromkeys(one.node.input[0] for one in conditionals if not one.inside)
    values = _values(runnable, names, feeds, limits)
    return {name: [None if one is None else bool(np.all(one)) for one in values[name]] for name in values}


def _values(
    runnable: Runnable, names: Iterable[str], feeds: Sequence[Feeds], limits: Limits
) -> Mapping[str, Sequence[Any]]:
    """Return the main-graph values with these names, on each input; None if unknown."""
    graph = runnable.proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    fed, made = {value.name for value in graph.input}, {name for node in graph.node for name in node.output}
    found: dict[str, Sequence[Any]] = {}
    for name in names:
        if name in fed or name in constants:
            default = onnx.numpy_helper.to_array(constants[name]) if _small(constants.get(name)) else None
            found[name] = [one.get(name, default) for one in feeds]
    shown = [name for name in names if name in made]
    if not shown:
        return found
    try:
        rows = InnerValues(runnable, shown, limits).on(feeds)
    except RejectedError:
        return found
    return found | {name: [None if row is None else row[name] for row in rows] for name in shown}


def _small(tensor: onnx.TensorProto | None) -> bool:
    """Return whether a tensor exists, is embedded, and has one element."""
    return tensor is not None and tensor.data_location != onnx.TensorProto.EXTERNAL and np.prod(tensor.dims) == 1


def loops_not_entered(before: Runnable, after: Runnable, feeds: Sequence[Feeds], limits: Limits) -> Iterator[Branch]:
    """Yield the Loops of the main graph that no input is known to enter, with both models entering them.

    Loop-13: "the loop body is executed" for as long as `M`, the trip count, and `cond` allow; either may be left out.
    """
    loops, others = _loops(before.proto), _loops(after.proto)
    if not loops:
        return
    gates, theirs = _gates(before, loops, feeds, limits), _gates(after, others, feeds, limits)
    for place, node in enumerate(loops):
        own = [gates.get(name, [None] * len(feeds)) for name in node.input[:2] if name]
        each = zip(*own, strict=True)
        if not own or any(all(gate is not None and np.all(np.asarray(gate) > 0) for gate in one) for one in each):
            continue
        label = f"the body of the Loop at {node.name or node.output[0]}"
        same = _match(loops, place, others)
        if same is None:
            yield Branch(label, before, None, took="entered")
            continue
        names = [list(one.input[:2]) for one in (node, others[same])]
        sure = names[0] == names[1] and all(_alike(gates.get(name), theirs.get(name)) for name in names[0] if name)
        yield Branch(label, _entered(before, place), _entered(after, same), sure=sure, took="entered", taken="entered")


def _loops(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the Loops of the main graph, except those that a constant makes unreachable."""
    defaults = {value.name for value in model.graph.input} if model.ir_version >= DEFAULTS else set()
    closed = {
        name
        for name, tensor in _tensors(model.graph, defaults).items()
        if tensor.data_type in _GATES and _small(tensor) and onnx.numpy_helper.to_array(tensor).item() <= 0
    }
    return [
        node
        for node in model.graph.node
        if node.op_type == LOOP and node.domain in ("", "ai.onnx") and closed.isdisjoint(node.input[:2])
    ]


def _gates(
    runnable: Runnable, loops: Sequence[onnx.NodeProto], feeds: Sequence[Feeds], limits: Limits
) -> Mapping[str, Sequence[Any]]:
    """Return the trip counts and conditions of Loops by name, on each input."""
    names = dict.fromkeys(name for node in loops for name in node.input[:2] if name)
    return _values(runnable, names, feeds, limits) if loops else {}


def _alike(one: Sequence[Any] | None, other: Sequence[Any] | None) -> bool:
    """Return whether a trip count or a condition was the same in both models on each input."""
    if one is None or other is None:
        return one is other
    pairs = zip(one, other, strict=True)
    return all(mine is theirs or np.array_equal(mine, theirs) for mine, theirs in pairs)


def _entered(runnable: Runnable, place: int) -> Runnable:
    """Return the model with two iterations of a Loop, unless its body ends it after one."""
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    node = _loops(proto)[place]
    name = Names(proto).new("opshift/twice")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(2, np.int64), name))
    if proto.ir_version < DEFAULTS:
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, []))
    names = [name, "", *node.input[2:]]
    del node.input[:]
    node.input.extend(names)
    return replace(runnable, proto=proto, path=None)


def _forced(runnable: Runnable, branch_path: Sequence[tuple[int, str]]) -> Runnable:
    """Return the model in which every If on a path has the path's branch in place of its other branch too."""
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    conditionals = _conditionals(proto)
    for place, name in reversed(branch_path):  # a branch is copied with the changes inside it
        attributes = {attribute.name: attribute for attribute in conditionals[place].node.attribute}
        for other in NAMES:
            if other != name:
                attributes[other].g.CopyFrom(attributes[name].g)
    return replace(runnable, proto=proto, path=None)
