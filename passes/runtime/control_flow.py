"""Run If, Loop and Scan in Python, subgraph by subgraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.structural import IF, LOOP, SCAN, UNBATCHED_SCAN
from opshift.passes.graph.traversal import subgraph
from opshift.passes.runtime.ort_models import RejectedError, RejectionKind

Values = Sequence[Any]
RunGraph = Callable[[onnx.GraphProto, Mapping[str, Any], Mapping[str, Any]], Values]
"""Returns the outputs of a graph, given its inputs and the outer values, by name."""
Control = Callable[[RunGraph, onnx.NodeProto, Values, Mapping[str, Any]], Values]

_MOST_ITERATIONS = 250  # of a Loop, because Python runs these iterations


def control_flow(op_type: str, opset: int) -> Control:
    """Return the function that runs an operator with subgraphs.

    Raises:
        RejectedError: it is not an If, a Loop or a Scan, or it is a Scan with batches.
    """
    found = {IF: _if, LOOP: _loop, SCAN: _scan}.get(op_type)
    if found is None or (op_type == SCAN and opset < UNBATCHED_SCAN):
        raise RejectedError(f"{op_type} is not run node by node", RejectionKind.MISSING_KERNEL)
    return found


def _if(run: RunGraph, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Values:
    """Run an If. If-1: "then_branch: graph to run if condition is true"."""
    taken = bool(np.asarray(inputs[0]).item())
    wanted = "then_branch" if taken else "else_branch"
    return run(subgraph(node, wanted), {}, outer)


def _loop(run: RunGraph, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Values:
    """Run a Loop. Loop-1: "the loop body runs while the trip count is not reached and the condition holds"."""
    body = subgraph(node, "body")
    trips = _MOST_ITERATIONS if inputs[0] is None else int(np.asarray(inputs[0]).item())
    going = inputs[1] is None or bool(np.asarray(inputs[1]).item())
    carried, collected = list(inputs[2:]), []
    turn = 0
    while going and turn < trips:
        if turn == _MOST_ITERATIONS:
            raise RejectedError(f"a Loop runs more than {_MOST_ITERATIONS} times", RejectionKind.LIMIT)
        passed = (np.asarray(turn, np.int64), np.asarray(going), *carried)
        names = [value.name for value in body.input]
        results = run(body, dict(zip(names, passed, strict=True)), outer)
        going = bool(np.asarray(results[0]).item())
        carried = list(results[1 : 1 + len(carried)])
        collected.append(results[1 + len(carried) :])
        turn += 1
    scanned = len(body.output) - 1 - len(carried)
    if scanned and not collected:
        raise RejectedError("a Loop that does not run leaves the shape of its scan outputs open")
    stacked = [np.stack([each[index] for each in collected]) for index in range(scanned)]
    outputs = [*carried, *stacked]
    return tuple(value for value, output in zip(outputs, node.output, strict=False) if output)


def _scan(run: RunGraph, node: onnx.NodeProto, inputs: Values, outer: Mapping[str, Any]) -> Values:
    """Run a Scan-9: in each iteration, the body reads the states and a slice of each scanned input along its axis."""
    body = subgraph(node, "body")
    attributes = {attribute.name: attribute for attribute in node.attribute}
    count = attributes["num_scan_inputs"].i
    states, scanned = list(inputs[:-count]), [np.asarray(value) for value in inputs[-count:]]

    def listed(name: str, length: int) -> list[int]:
        return list(attributes[name].ints) if name in attributes else [0] * length

    axes = listed("scan_input_axes", count)
    turned = [
        np.flip(np.moveaxis(value, axis, 0), 0) if back else np.moveaxis(value, axis, 0)
        for value, axis, back in zip(scanned, axes, listed("scan_input_directions", count), strict=True)
    ]
    if len({len(value) for value in turned}) > 1:
        raise RejectedError("the inputs of a Scan have different lengths")
    collected = []
    names = [value.name for value in body.input]
    for elements in zip(*turned, strict=True):
        read = (*states, *map(np.asarray, elements))  # slices of a vector are numbers
        results = run(body, dict(zip(names, read, strict=True)), outer)
        states = list(results[: len(states)])
        collected.append(results[len(states) :])
    made = len(body.output) - len(states)
    if made and not collected:
        raise RejectedError("a Scan that does not run leaves the shape of its scan outputs open")
    stacked = [
        np.stack([each[index] for each in (reversed(collected) if back else collected)], axis)
        for index, (axis, back) in enumerate(
            zip(listed("scan_output_axes", made), listed("scan_output_directions", made), strict=True)
        )
    ]
    return tuple(value for value, output in zip((*states, *stacked), node.output, strict=False) if output)
