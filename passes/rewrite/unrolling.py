"""Unroll a Loop or a Scan whose number of iterations can be computed."""

from __future__ import annotations

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.structural import LOOP, UNBATCHED_SCAN
from opshift.passes.analysis.iterations import Iterations, loop_iterations, scan_iterations, written
from opshift.passes.analysis.known_values import Propagation, is_static
from opshift.passes.analysis.scopes import Scope
from opshift.passes.analysis.splicing import Spliced, accepts, selects
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import nested_nodes, subgraphs

UNROLLED = 4096
"""The maximum number of nodes after unrolling a Loop or a Scan."""


def unrolled(
    node: onnx.NodeProto, scope: Scope, propagation: Propagation, names: Names, opset: int
) -> Spliced | Reason:
    """Return the unrolled iterations of a Loop or a Scan, or the reason why it cannot be unrolled."""
    body = next(subgraphs(node))
    inside = scope.enter(node, "body")
    if node.op_type == LOOP:
        counted = _loop(node, body, scope, propagation)
    elif opset < UNBATCHED_SCAN:
        return Reason("Scan-8 has a batch, and is not unrolled")
    else:
        found = [inside[value.name] for value in body.output]
        scanned = scan_iterations(node, [scope[name] for name in node.input], found)
        counted = scanned or Reason("the length of what it scans is unknown")
    if isinstance(counted, Reason):
        return counted
    if (count := counted.length * _nodes(body)) > UNROLLED:
        return Reason(f"its {counted.length} iterations would be {count} nodes, more than the limit of {UNROLLED}")
    results = [inside[value.name] or Facts() for value in body.output[counted.conditions + len(counted.carried) :]]
    if not counted.length and not all(is_static(facts) and facts.dtype for facts in results):
        return Reason("it has no iteration, and what it returns has no known shape")
    if not all(accepts(operator, facts, opset) for facts in results for operator in ("Unsqueeze", "Concat")):
        return Reason(f"Unsqueeze or Concat of opset {opset} does not accept the element type of what it returns")
    if not all(selects(scope[name], opset) for name, _, _ in counted.scanned):
        return Reason(f"Gather of opset {opset} does not select slices of the element type of a scanned input")
    return written(node, body, counted, results, names, opset)


def _loop(node: onnx.NodeProto, body: onnx.GraphProto, scope: Scope, propagation: Propagation) -> Iterations | Reason:
    """Count the iterations of a Loop by evaluating its body until the condition is false."""
    inputs = [scope[name] if name else None for name in node.input]
    most = None if inputs[0] is None else _number(inputs[0])
    again = True if len(inputs) < 2 or inputs[1] is None else _number(inputs[1])
    if most is None and inputs[0] is not None:
        return Reason("the number of its iterations is computed at run time", missing=True)
    if again is None:
        return Reason("whether it begins is computed at run time", missing=True)
    carried, length = inputs[2:], 0
    names = [value.name for value in body.input]
    while again and (most is None or length < most):
        if (length + 1) * _nodes(body) > UNROLLED:
            return Reason(f"its iterations would be more than the limit of {UNROLLED} nodes")
        turn = [constant(np.array(length, np.int64)), constant(np.array(True))]
        inside = propagation.graph(body, scope, dict(zip(names, [*turn, *carried], strict=False)))
        found = [inside[value.name] or Facts() for value in body.output]
        again, length = _number(found[0]), length + 1
        if again is None and length != most:
            return Reason("the condition that ends it is computed at run time", missing=True)
        carried = list(found[1 : len(inputs) - 1])
    return loop_iterations(node, length)


def _number(facts: Facts) -> int | None:
    """Return the only element of a constant."""
    return None if facts.known is None or facts.known.size != 1 else int(facts.known.item())


def _nodes(graph: onnx.GraphProto) -> int:
    """Count the nodes of a graph and its subgraphs."""
    return sum(1 for _ in nested_nodes(graph))
