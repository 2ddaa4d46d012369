"""Change the nodes, the initializers and the declared types of a graph, in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import onnx


def replace_nodes(graph: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Replace a graph's nodes by copies of these nodes, some of which may be the graph's own."""
    # A node must be copied before its graph drops it.
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def drop_named(items: Any, names: Collection[str]) -> None:
    """Remove the initializers, or the declared types, with these names; `items` is the field that holds them."""
    for place in range(len(items) - 1, -1, -1):
        if items[place].name in names:
            del items[place]
