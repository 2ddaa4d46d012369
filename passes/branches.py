"""The branches of an If that no input took, taken by force: a rewrite may be wrong where inputs hardly ever lead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from opshift.passes.interpret import bodies
from opshift.passes.sessions import Feeds, Limits, RejectedError, Session, Source

NAMES = ("then_branch", "else_branch")
_MOST = 32  # branches that are forced


@dataclass(frozen=True)
class Branch:
    """A branch that no input was seen to take: its name for people, and both models with the other one replaced by it.

    `rewritten` is None where the rewritten model has no such If.
    """

    name: str
    original: Source
    rewritten: Source | None


def untaken(before: Source, after: Source, feeds: Sequence[Feeds], limits: Limits) -> list[Branch]:
    """Return the branches of the original that none of these inputs was seen to take.

    Those of an If inside another graph or a function are not seen.
    """
    conditionals = list(_conditionals(before.proto))
    if not conditionals:
        return []
    others = list(_conditionals(after.proto))
    seen = _seen(before, feeds, limits)
    found = []
    for place, node in enumerate(conditionals):
        named = [index for index, other in enumerate(others) if list(other.output) == list(node.output)]
        same = named[0] if len(named) == 1 else place if len(others) == len(conditionals) else None
        for name in NAMES:
            if (place, name) not in seen:
                label = f"the {name.replace('_', ' ')} of If at {node.name or node.output[0]}"
                rewritten = None if same is None else _forced(after, same, name)
                found.append(Branch(label, _forced(before, place, name), rewritten))
    return found[:_MOST]


def _conditionals(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every If of a model, always in the same order."""
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while waiting:
        for node in waiting.pop(0).node:
            if node.op_type == "If" and node.domain in ("", "ai.onnx"):
                yield node
            waiting.extend(bodies(node))


def _seen(source: Source, feeds: Sequence[Feeds], limits: Limits) -> set[tuple[int, str]]:
    """Return which branches of the Ifs of the main graph are taken, by the place of the If."""
    held = list(_conditionals(source.proto))  # a protobuf has one id only as long as somebody holds it
    places = {id(node): place for place, node in enumerate(held)}
    conditions = {places[id(node)]: node.input[0] for node in source.proto.graph.node if id(node) in places}
    if not conditions:
        return set()
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    del proto.graph.output[:]
    constant = {tensor.name: tensor for tensor in proto.graph.initializer}
    fed = {value.name for value in proto.graph.input}
    shown = [name for name in dict.fromkeys(conditions.values()) if name not in fed and name not in constant]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown)
    seen: dict[str, set[bool]] = {name: set() for name in conditions.values()}
    if shown:
        try:
            session = Session(replace(source, proto=proto, path=None), optimised=False, limits=limits)
            for outputs in session.run_all(feeds):
                for name, value in zip(
                    session.outputs, () if isinstance(outputs, RejectedError) else outputs, strict=False
                ):
                    seen[name].add(bool(np.all(value)))
        except RejectedError:
            return set()
    for name in seen:
        if name in constant:
            seen[name].add(bool(onnx.numpy_helper.to_array(constant[name]).all()))
        elif name in fed:
            seen[name].update(bool(np.all(one[name])) for one in feeds)
    return {(place, NAMES[not taken]) for place, name in conditions.items() for taken in seen[name]}


def _forced(source: Source, place: int, name: str) -> Source:
    """Return the model with a branch of one If in the place of its other branch."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    node = next(node for index, node in enumerate(_conditionals(proto)) if index == place)
    (kept,) = (attribute.g for attribute in node.attribute if attribute.name == name)
    for attribute in node.attribute:
        if attribute.name in NAMES and attribute.name != name:
            attribute.g.CopyFrom(kept)
    return replace(source, proto=proto, path=None)
