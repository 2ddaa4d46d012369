"""What a model computes where those of its nodes that jump read a little more, or a little less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import ModelProto

from differential.values import Array

Outputs = Sequence[Sequence[Any]]
Runner = Callable[[ModelProto, Sequence[dict[str, Any]]], Outputs]

JUMPS = frozenset(("Ceil", "Floor", "Round", "Sign"))
"""Operators of a float whose result jumps: how what they read is rounded decides where it is near to a jump."""


def outputs_beside(
    original: ModelProto,
    feeds: Sequence[dict[str, Any]],
    runner: Runner,
    least: Callable[[Any], Array | None],
    sign: int,
) -> Outputs:
    """Return the outputs where what jumps reads all that `least` allows for more, or less: near a jump both are right.

    Inputs and constants that are moved do not show it where a value is computed of integers alone.
    """
    fixed = {value.name for value in original.graph.input} | {one.name for one in original.graph.initializer}
    names = [node.input[0] for node in original.graph.node if node.op_type in JUMPS and not {*node.input[:1]} <= fixed]
    if not names:
        return runner(original, feeds)
    shown = ModelProto()
    shown.CopyFrom(original)
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names))
    found: list[Sequence[Any]] = []
    for feed, shown_values in zip(feeds, runner(shown, feeds), strict=True):
        read = dict(zip(dict.fromkeys(names), shown_values[len(original.graph.output) :], strict=True))
        moves = {
            name: (bound * sign).astype(read[name].dtype) for name in read if (bound := least(read[name])) is not None
        }
        found += runner(_moved_before_jumps(original, moves), [feed])
    return found


def _moved_before_jumps(original: ModelProto, moves: dict[str, Array]) -> ModelProto:
    """Return the model with something added to what jumping nodes read."""
    copied = ModelProto()
    copied.CopyFrom(original)
    del copied.graph.node[:]
    for number, node in enumerate(original.graph.node):
        jumps = node.op_type in JUMPS and node.input[0] in moves
        if jumps:
            move, moved = f"move_{number}", f"moved_{number}"
            tensor = onnx.numpy_helper.from_array(moves[node.input[0]], move)
            copied.graph.node.append(onnx.helper.make_node("Constant", [], [move], value=tensor))
            copied.graph.node.append(onnx.helper.make_node("Add", [node.input[0], move], [moved]))
        copied.graph.node.append(node)
        if jumps:
            copied.graph.node[-1].input[0] = moved
    return copied
