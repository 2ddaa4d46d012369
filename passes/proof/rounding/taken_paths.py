"""Replace Ifs, Loops and Scans by the nodes that they run, so that inner values are visible node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import IDENTITY, IF, LOOP, SCAN, UNBATCHED_SCAN
from opshift.passes.analysis.iterations import Iterations, loop_iterations, scan_iterations, written
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.analysis.splicing import Spliced, named_node
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import nested_nodes, subgraph, subgraphs
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import RejectedError

_LARGEST = 2**28
"""The maximum size in bytes of a model that is copied."""
_MOST = 128
"""The maximum number of nodes in the unrolled iterations of a Loop or a Scan."""
_STAYS = -1
_COUNTED = "opshift/iterations"

Path = tuple[int, ...]
"""The path through each If, Loop and Scan of the main graph: whether an If takes its first branch, or the iterations.

A node that is not replaced has -1.
"""


class Paths:
    """The paths through a model."""

    def __init__(self, model: Interpreter) -> None:
        """Store a model without functions; nothing is run yet."""
        self._interpreter, self._model = model, model.model
        self._opset = default_opset(self._model.opset_import) or 1
        found = [node for node in self._model.graph.node if _runs_graphs(node)]
        found = found if found and self._model.ByteSize() <= _LARGEST else []
        self._nodes = [node for node in found if not any(inner.sparse_initializer for inner in subgraphs(node))]
        self._counting: dict[int, onnx.NodeProto] = {}
        """The copies of Loops that count their iterations, by the id of the Loop."""

    def branches(self, values: Mapping[str, Any]) -> Path:
        """Return the taken branches, given the values of the main graph; empty if there is no If."""
        return self._path(values, (IF,))

    def iterations(self, values: Mapping[str, Any]) -> Path:
        """Return the taken branches and the iterations of each Loop and Scan; empty if every node stays."""
        return self._path(values, (IF, LOOP, SCAN))

    def _path(self, values: Mapping[str, Any], operators: Collection[str]) -> Path:
        found = tuple(self._taken(node, values) if node.op_type in operators else _STAYS for node in self._nodes)
        return found if any(one != _STAYS for one in found) else ()

    def _taken(self, node: onnx.NodeProto, values: Mapping[str, Any]) -> int:
        if node.op_type == IF:
            condition = values.get(node.input[0])
            return int(condition.all()) if isinstance(condition, np.ndarray) else _STAYS
        if node.op_type == LOOP:
            length = self._count(node, values)
        else:
            scan = self._scan(node, values)
            length = scan.length if scan else _STAYS
        nodes = sum(1 for inner_graph in subgraphs(node) for _ in nested_nodes(inner_graph))
        return length if 0 < length * nodes <= _MOST else _STAYS

    def _count(self, node: onnx.NodeProto, values: Mapping[str, Any]) -> int:
        """Return the number of iterations, by running a Loop that counts."""
        if id(node) not in self._counting:
            self._counting[id(node)] = _counting(node)
        try:
            return len(self._interpreter.node(self._counting[id(node)], values)[_COUNTED])
        except RejectedError:
            return _STAYS

    def _scan(self, node: onnx.NodeProto, values: Mapping[str, Any]) -> Iterations | None:
        if self._opset < UNBATCHED_SCAN:
            return None
        count = next(one.i for one in node.attribute if one.name == "num_scan_inputs")
        states = len(node.input) - count
        unused = len(next(subgraphs(node)).output) - len(node.output)
        inputs = [_facts(values.get(name), 0) for name in node.input]
        made = [_facts(values.get(name), int(place >= states)) for place, name in enumerate(node.output)]
        return scan_iterations(node, inputs, [*made, *[None] * unused])

    def model(self, taken: Path, values: Mapping[str, Any]) -> onnx.ModelProto:
        """Return a copy with the executed nodes in place of the control flow; `values` are those of the main graph."""
        found = onnx.ModelProto()
        found.CopyFrom(self._model)
        names = Names(found)
        del found.graph.node[:]
        chosen = {id(node): one for node, one in zip(self._nodes, taken, strict=True)}
        for node in self._model.graph.node:
            if (one := chosen.get(id(node), _STAYS)) == _STAYS:
                found.graph.node.append(node)
                continue
            spliced = self._spliced(node, one, values, names)
            found.graph.node.extend(spliced.nodes)
            found.graph.initializer.extend(spliced.initializers)
            for value, name in zip(spliced.outputs, node.output, strict=False):
                if name:
                    found.graph.node.append(named_node(name, IDENTITY, [value], name))
        return found

    def _spliced(self, node: onnx.NodeProto, taken: int, values: Mapping[str, Any], names: Names) -> Spliced:
        if node.op_type == IF:
            spliced = Spliced()
            branch = subgraph(node, "then_branch" if taken else "else_branch")
            spliced.outputs = spliced.add(branch, {}, names.new, lambda name: name)
            return spliced
        body = next(subgraphs(node))
        iterations = loop_iterations(node, taken) if node.op_type == LOOP else self._scan(node, values)
        if iterations is None:
            raise ValueError(f"the iterations of {node.name} were counted, and are not now")
        return written(node, body, iterations, [Facts()] * len(iterations.axes), names, self._opset)


def _runs_graphs(node: onnx.NodeProto) -> bool:
    return node.op_type in (IF, LOOP, SCAN) and not default_domain(node.domain)


def _facts(value: Any, axes: int) -> Facts | None:
    """Return the shape of a value without this number of leading axes."""
    return Facts(shape=value.shape[axes:]) if isinstance(value, np.ndarray) else None


def _counting(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a Loop that also returns its iteration numbers."""
    found: onnx.NodeProto = onnx.NodeProto.FromString(node.SerializeToString())
    body = next(subgraphs(found))
    body.node.append(named_node("", IDENTITY, [body.input[0].name], _COUNTED))
    body.output.append(onnx.helper.make_tensor_value_info(_COUNTED, onnx.TensorProto.INT64, []))
    found.output.append(_COUNTED)
    return found
