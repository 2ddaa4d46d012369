"""Change the nodes, the initializers and the declared types of a graph, in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import onnx


def replace_nodes(graph: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Let a graph have copies of these nodes, some of which may be its own, and no others."""
    # A node of the graph lasts no longer than its place there.
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def drop_named(items: Any, names: Collection[str]) -> None:
    """Remove the initializers, or the declared types, of these names; `items` is the field that holds them."""
    for place in range(len(items) - 1, -1, -1):
        if items[place].name in names:
            del items[place]
