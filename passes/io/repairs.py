"""Repair defects that other tools tolerate, each with a note: duplicate node names, wrong order, no opset import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx
from onnx import AttributeProto

from opshift.opsets.registry.schema import default_domain
from opshift.passes.base.errors import printable
from opshift.passes.base.version_numbers import released_with
from opshift.passes.graph.traversal import GraphView, graph_views, names_read


def repair(model: onnx.ModelProto) -> tuple[str, ...]:
    """Repair a model in place, and return notes on the repairs."""
    notes = []
    for view in graph_views(model):
        if renamed := _rename(view):
            nodes = "1 node" if renamed == 1 else f"{renamed} nodes"
            notes.append(f"Renamed {nodes} of {printable(view.path)} that had the name of another.")
        if _sort(view.graph):
            notes.append(f"Sorted the nodes of {printable(view.path)}, some of which came before their inputs.")
    return tuple(notes)


def declare_opset(model: onnx.ModelProto) -> str:
    """Change a model of ir_version 1 or 2, which has opset 1, to ir_version 3 in place, and return a note.

    onnx.proto, on opset_import: "For IR_VERSION < 3, this field must be absent", and opset 1 applies. ir_version 2
    introduced the type of an attribute, which follows from the field that is set.
    """
    before, model.ir_version = model.ir_version, 3
    model.opset_import.add(version=1)
    for view in graph_views(model):
        for attribute in (one for node in view.graph.node for one in node.attribute):
            if attribute.type == AttributeProto.UNDEFINED:
                named = (_TYPES[field.name] for field, _ in attribute.ListFields() if field.name in _TYPES)
                attribute.type = next(named, AttributeProto.UNDEFINED)
    return f"Read ir_version {before}, which has no opset import, as ir_version 3 with opset 1."


def needs_no_opset(model: onnx.ModelProto) -> bool:
    """Return whether a model imports only other domains and has no default-domain node, as ai.onnx.ml pipelines do.

    onnxruntime 1.32.0 reads such a model at the newest opset that it knows.
    """
    imported = [default_domain(entry.domain) for entry in model.opset_import]
    nodes = (node for view in graph_views(model) for node in view.graph.node)
    return bool(imported) and all(imported) and all(default_domain(node.domain) for node in nodes)


def declare_newest_opset(model: onnx.ModelProto) -> str:
    """Add an import of the newest opset that fits the model's ir_version, in place, and return a note."""
    known = range(1, onnx.defs.onnx_opset_version() + 1)
    opset = max((one for one in known if released_with(one) <= model.ir_version), default=1)
    model.opset_import.add(version=opset)
    return f"Read as opset {opset}: the model imports no opset of ai.onnx, and has none of its operators."


def read_as(model: onnx.ModelProto, opset: int) -> tuple[onnx.ModelProto, str]:
    """Return a copy of a model that declares another opset of the default domain, and a note.

    Functions that declare the model's opset declare the other one too. A model that already declares it is returned
    unchanged, with an empty note.
    """
    declared = {entry.version for entry in model.opset_import if not default_domain(entry.domain)}
    if declared == {opset} or not model.HasField("graph"):
        return model, ""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not declared:
        copy.opset_import.add(version=opset)
    for importer in (copy, *copy.functions):
        for entry in importer.opset_import:
            if not default_domain(entry.domain) and entry.version in declared:
                entry.version = opset
    before = f"it declares opset {min(declared)}" if declared else "it declares none"
    return copy, f"Read as opset {opset}, as requested; {before}."


_TYPES: Mapping[str, AttributeProto.AttributeType] = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
}
"""The types of attributes by the field that holds the value."""


def _rename(view: GraphView) -> int:
    """Give unique names to nodes with an earlier node's name; return the number of renamed nodes."""
    taken = Counter(name for name in view.names if name)
    seen: set[str] = set()
    renamed = 0
    for node in view.graph.node if any(count > 1 for count in taken.values()) else ():
        if node.name and node.name in seen:
            renamed += 1
            number = 1
            while (name := f"{node.name}_{number}") in taken or name in seen:
                number += 1
            node.name = name
        seen.add(node.name)
    return renamed


def _sort(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Sort the nodes topologically, keeping their order otherwise; return whether any moved."""
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
                return False  # a cycle, which a later check reports
            else:
                entered.add(index)
                waiting += reversed(missing)
    places = iter(range(len(nodes)))
    graph.node.sort(key=lambda node: order[next(places)])
    return True
