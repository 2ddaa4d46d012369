"""A model with the branches that its Ifs take in place of the Ifs, so that what is inside is seen node by node."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import IDENTITY, IF
from opshift.passes.analysis.splicing import Spliced, named_node
from opshift.passes.graph.traversal import graphs, names_read, subgraph

_LARGEST = 2**28
"""Bytes of a model up to which it is copied."""


def taken_branches(model: onnx.ModelProto, values: Mapping[str, Any]) -> tuple[bool, ...]:
    """Return which branch each If of the main graph takes, given its values; nothing where the model is large."""
    conditions = [values.get(node.input[0]) for node in model.graph.node if _is_if(node)]
    if not conditions or model.ByteSize() > _LARGEST or any(not isinstance(one, np.ndarray) for one in conditions):
        return ()
    return tuple(bool(np.asarray(one).all()) for one in conditions)


def with_branches(model: onnx.ModelProto, taken: Sequence[bool]) -> onnx.ModelProto:
    """Return a copy with these branches in place of the Ifs of the main graph."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    known = {name for graph in graphs(model) for node in graph.node for name in (*names_read(node), *node.output)}
    known |= {
        tensor.name for graph in graphs(model) if isinstance(graph, onnx.GraphProto) for tensor in graph.initializer
    }

    def fresh(name: str) -> str:
        made = next(one for number in itertools.count(1) if (one := f"{name}_{number}") not in known)
        known.add(made)
        return made

    del found.graph.node[:]
    branches = iter(taken)
    for node in model.graph.node:
        if not _is_if(node):
            found.graph.node.append(node)
            continue
        spliced = Spliced()
        branch = subgraph(node, "then_branch" if next(branches) else "else_branch")
        made = spliced.add(branch, {}, fresh, lambda name: name)
        found.graph.node.extend(spliced.nodes)
        found.graph.initializer.extend(spliced.initializers)
        for source, name in zip(made, node.output, strict=True):
            if name:
                found.graph.node.append(named_node(name, IDENTITY, [source], name))
    return found


def _is_if(node: onnx.NodeProto) -> bool:
    return node.op_type == IF and not default_domain(node.domain)
