"""Repair defects that others tolerate, each with a note: two nodes of one name, nodes in the wrong order."""

from __future__ import annotations

from collections import Counter

import onnx

from opshift.passes.base.errors import printable
from opshift.passes.graph.traversal import GraphView, graph_views, names_read


def repair(model: onnx.ModelProto) -> tuple[str, ...]:
    """Repair a model in place, and return what was repaired."""
    notes = []
    for body in graph_views(model):
        if renamed := _rename(body):
            nodes = "1 node" if renamed == 1 else f"{renamed} nodes"
            notes.append(f"Renamed {nodes} of {printable(body.path)} that had the name of another.")
        if _sort(body.graph):
            notes.append(f"Sorted the nodes of {printable(body.path)}, some of which came before their inputs.")
    return tuple(notes)


def _rename(body: GraphView) -> int:
    """Give a name of its own to each node whose name a node before it has; return how many there are."""
    taken = Counter(name for name in body.names if name)
    seen: set[str] = set()
    renamed = 0
    for node in body.graph.node if any(count > 1 for count in taken.values()) else ():
        if node.name and node.name in seen:
            renamed += 1
            number = 1
            while (name := f"{node.name}_{number}") in taken or name in seen:
                number += 1
            node.name = name
        seen.add(node.name)
    return renamed


def _sort(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Put each node behind those that compute its inputs, and keep the order otherwise; return whether any moved."""
    nodes = list(graph.node)
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[one] for one in names_read(node) if one in makers} - {index} for index, node in enumerate(nodes)]
    if all(need < index for index, needed in enumerate(needs) for need in needed):
        return False
    order: dict[int, int] = {}
    for first in range(len(nodes)):
        waiting = [first]
        entered: set[int] = set()
        while waiting:
            index = waiting[-1]
            missing = sorted(need for need in needs[index] if need not in order)
            if index in order or not missing:
                order.setdefault(index, len(order))
                waiting.pop()
            elif index in entered:
                return False  # a cycle, which is reported
            else:
                entered.add(index)
                waiting += reversed(missing)
    places = iter(range(len(nodes)))
    graph.node.sort(key=lambda node: order[next(places)])
    return True
