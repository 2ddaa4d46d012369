"""Unroll a Loop or a Scan with a known number of iterations."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts
from opshift.passes.analysis.splicing import Spliced
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import names_read, subgraphs


@dataclass(frozen=True)
class Iterations:
    """The iterations of a node.

    Attributes:
        length: their number.
        carried: the initial loop-carried values.
        turns: the body's names of the iteration number and the condition, if it has them.
        conditions: the number of conditions among the body's outputs.
        axes: the axis along which each scan output is stacked.
        backwards: whether a scan output is in reverse order.
        scanned: the scanned inputs, each with its axis and whether it is scanned backwards.
    """

    length: int
    carried: tuple[str, ...]
    turns: tuple[str, ...]
    conditions: int
    axes: tuple[int, ...]
    backwards: tuple[bool, ...]
    scanned: tuple[tuple[str, int, bool], ...] = ()


def loop_iterations(node: onnx.NodeProto, length: int) -> Iterations:
    """Return a Loop with this number of iterations."""
    body, carried = next(subgraphs(node)), tuple(node.input[2:])
    lists = len(body.output) - 1 - len(carried)
    return Iterations(length, carried, (body.input[0].name, body.input[1].name), 1, (0,) * lists, (False,) * lists)


def scan_iterations(
    node: onnx.NodeProto, inputs: Sequence[Facts | None], made: Sequence[Facts | None]
) -> Iterations | None:
    """Return the iterations of a Scan-9 or later; None if the length of its scanned inputs is unknown.

    `inputs` are the facts about its inputs, `made` the facts about the outputs of its body.
    """
    attributes: Mapping[str, Any] = {
        one.name: onnx.helper.get_attribute_value(one) for one in node.attribute if one.name != "body"
    }
    count = attributes["num_scan_inputs"]
    states = len(node.input) - count
    axes = _from_front(attributes.get("scan_input_axes") or [0] * count, inputs[states:], 0)
    results = made[states:]
    places = _from_front(attributes.get("scan_output_axes") or [0] * len(results), results, 1)
    first = inputs[states]
    if axes is None or places is None or first is None or not isinstance(length := first.dim(axes[0]), int):
        return None
    backwards = map(bool, attributes.get("scan_input_directions") or [0] * count)
    reverse = tuple(map(bool, attributes.get("scan_output_directions") or [0] * len(results)))
    scanned = tuple(zip(node.input[states:], axes, backwards, strict=True))
    return Iterations(length, tuple(node.input[:states]), (), 0, places, reverse, scanned)


def _from_front(axes: Sequence[int], values: Sequence[Facts | None], more: int) -> tuple[int, ...] | None:
    """Return axes counted from the front; the values get `more` additional axes."""
    found = []
    for axis, facts in zip(axes, values, strict=True):
        if axis < 0 and (facts is None or facts.rank is None):
            return None
        found.append(axis if axis >= 0 else axis + (facts.rank or 0 if facts else 0) + more)
    return tuple(found)


def written(
    node: onnx.NodeProto,
    body: onnx.GraphProto,
    counted: Iterations,
    results: Sequence[Facts],
    names: Names,
    opset: int,
) -> Spliced:
    """Return the nodes of all iterations of a node with this `body`.

    `results` are the facts about each scan output in one iteration, used if there are no iterations.
    """
    base = node.name or node.output[0]
    found = Spliced()
    carried, states = list(counted.carried), [value.name for value in body.input]
    lists: list[list[str]] = [[] for _ in counted.axes]
    read = {name for one in body.node for name in names_read(one)} | {value.name for value in body.output}
    shared = {tensor.name: names.new(f"{base}/{tensor.name}") for tensor in body.initializer}
    for tensor in body.initializer:
        found.initializers.append(onnx.TensorProto.FromString(tensor.SerializeToString()))
        found.initializers[-1].name = shared[tensor.name]
    for turn in range(counted.length):
        inputs: list[str] = []
        for place, name in enumerate(counted.turns):
            value, dtype = (np.int64(turn), 7) if place == 0 else (np.bool_(True), 9)
            label = names.new(f"{base}/{('iteration', 'condition')[place]}/{turn}") if name in read else ""
            inputs.append(found.constant(label, value, dtype) if label else "")
        inputs += carried
        for name, axis, backwards in counted.scanned:
            at = counted.length - 1 - turn if backwards else turn
            index = found.constant(names.new(f"{base}/index/{turn}"), np.int64(at))
            inputs.append(found.element(name, index, names.new(f"{base}/{name}/{turn}"), axis))
        renamed = {**shared, **dict(zip(states, inputs, strict=False))}
        numbered = functools.partial(_numbered, names, turn)
        made = found.add(body, renamed, numbered, numbered)[counted.conditions :]
        carried = made[: len(carried)]
        for one, name in zip(lists, made[len(carried) :], strict=True):
            one.append(name)
    found.outputs = list(carried)
    for place, parts in enumerate(lists):
        whole = names.new(f"{base}/{body.output[counted.conditions + len(carried) + place].name}")
        axis = counted.axes[place]
        found.outputs.append(_list(found, parts, whole, axis, counted.backwards[place], results[place], names, opset))
    return found


def _numbered(names: Names, turn: int, name: str) -> str:
    """Return the name of a value of one iteration."""
    return names.new(f"{name}/{turn}")


def _list(
    found: Spliced,
    parts: Sequence[str],
    whole: str,
    axis: int,
    backwards: bool,
    facts: Facts,
    names: Names,
    opset: int,
) -> str:
    """Stack the results of all iterations along a new axis."""
    if not parts:
        shape = [dim for dim in facts.shape or () if isinstance(dim, int)]
        array = np.zeros([*shape[:axis], 0, *shape[axis:]], onnx.helper.tensor_dtype_to_np_dtype(facts.dtype or 1))
        return found.constant(whole, array, facts.dtype or 1)
    rows = [names.new(f"{whole}/row/{iteration}") for iteration in range(len(parts))]
    order = slice(None, None, -1 if backwards else 1)
    return found.stacked(parts[order], rows[order], whole, axis, opset)
