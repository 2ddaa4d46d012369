"""Write the nodes of a fragment in place of a node."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import NodeProto, TensorProto

from opshift.opsets.registry.facts import Facts, type_of_facts
from opshift.opsets.registry.structural import IDENTITY
from opshift.passes.analysis.inference import make_node
from opshift.passes.graph.names import Names
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.fragment import Constant, Fragment, FragmentNode, Input, LoopBody, Output, ValueRef
from opshift.passes.rewrite.new_constants import Constants


def splice(
    nodes: Any,
    node: NodeProto,
    index: int,
    change: Replace,
    names: Names,
    constants: Constants,
    marked: bool,
    renamed: dict[str, str],
) -> None:
    """Add the nodes of a fragment to `nodes`, with the inputs and outputs of the replaced node.

    Outputs that no node computes are added to `renamed`, with the names of their source values.
    """
    base = node.name or next(filter(None, node.output), f"{node.op_type}_{index}")
    fragment, before = change.fragment, list[NodeProto]()
    outputs, operands = node.output[:], change.inputs or node.input[:]
    values = _output_names(outputs, fragment, names, base)

    hold = functools.partial(constants.name, before=before)

    def name_of(ref: ValueRef) -> str:
        if ref is None:
            return ""
        if isinstance(ref, Output):
            return values[ref]
        if isinstance(ref, Input):
            origin = change.sources[ref.operand]
            ref = origin if isinstance(origin, Constant) else None
            if isinstance(origin, int):
                return operands[origin]
        return "" if ref is None else hold(ref)

    inputs = [[name_of(ref) for ref in leaf.inputs] for leaf in fragment.nodes]
    labels = [node.name if len(inputs) == 1 else names.new(f"{base}/{leaf.name}") for leaf in fragment.nodes]
    naming: list[NodeProto] = []  # an Identity or a Constant for each output that has another name
    for place, (name, ref) in enumerate(zip(outputs, fragment.outputs, strict=True)):
        if place in change.renamed:
            renamed[name] = name_of(ref)
        elif name and isinstance(ref, Constant):
            naming += filter(None, (constants.output(ref, name, before),))
        elif name and (value := name_of(ref)) != name:
            naming.append(make_node(IDENTITY, "", [value], [name], {}))
    nodes.extend(before)
    first = len(nodes)
    wanted = {ref for leaf in fragment.nodes for ref in leaf.inputs}
    wanted.update(ref for name, ref in zip(outputs, fragment.outputs, strict=True) if name)
    for leaf, read, made, label in zip(fragment.nodes, inputs, fragment.made, labels, strict=True):
        before.clear()
        left_out = _optional_outputs(leaf.name) - {ref.place for ref, _ in made if ref in wanted}
        written = ["" if ref.place in left_out else values[ref] for ref, _ in made]
        new = _filled(leaf, read, written, label, names, hold)
        nodes.extend(before)  # constants of a Loop's body
        nodes.append(new)
    for new in naming:
        new.name = names.new(f"{base}/{new.op_type}")
    nodes.extend(naming)
    if marked or node.doc_string:
        for new in nodes[first:]:
            _mark(new, node, fragment, marked)


def _mark(new: NodeProto, node: NodeProto, fragment: Fragment, marked: bool) -> None:
    """Copy the doc_string of the replaced node to a new node, and add metadata if nodes can have it."""
    new.doc_string = node.doc_string
    if marked:
        new.metadata_props.extend(node.metadata_props)
        if fragment.lowerings:
            origin = f"{node.op_type}: {', '.join(fragment.lowerings)}"
            new.metadata_props.add(key="opshift.lowering", value=origin)


@functools.cache
def _optional_outputs(name: str) -> frozenset[int]:
    """Return the outputs that a node may omit: an Attention may have to, and an LSTM need not compute them."""
    if not onnx.defs.has(name):
        return frozenset()
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    outputs = onnx.defs.get_schema(name).outputs
    return frozenset(index for index, output in enumerate(outputs) if output.option == optional)


def _filled(
    leaf: FragmentNode,
    read: Sequence[str],
    made: Sequence[str],
    label: str,
    names: Names,
    hold: Callable[[Constant], str],
) -> NodeProto:
    """Return a fragment's node with its value names; `hold` returns the names of constants."""
    node, inputs, outputs = leaf.form
    if leaf.body is None:
        node.name, inputs[:], outputs[:] = label, read, made
        return node  # callers copy the node when they append it
    loop = make_node(leaf.name, "", read[: 2 + len(leaf.body.carries)], made, leaf.attributes)
    loop.name = label
    body = _iteration(leaf.body, read, label, names, hold)
    loop.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(body)
    return loop


def _iteration(
    iteration: LoopBody, read: Sequence[str], base: str, names: Names, hold: Callable[[Constant], str]
) -> onnx.GraphProto:
    """Return the body of a Loop; `read` are the values that the Loop reads, starting with its own inputs."""
    fragment, carried = iteration.fragment, iteration.carries
    graph = onnx.GraphProto(name=f"{base}/body")
    parameters = [
        names.new(f"{base}/{name}") for name in ("iteration", "going", *(f"carried:{i}" for i in range(len(carried))))
    ]
    for name, facts in zip(
        parameters, (Facts(TensorProto.INT64, ()), Facts(TensorProto.BOOL, ()), *carried), strict=True
    ):
        graph.input.add(name=name).type.CopyFrom(type_of_facts(facts))
    operands = [parameters[0], *parameters[2:], *read[len(parameters) :]]
    values = _output_names((), dataclasses.replace(fragment, outputs=()), names, base)

    def name_of(ref: ValueRef) -> str:
        if isinstance(ref, Input):
            return operands[ref.operand]
        return "" if ref is None else values[ref] if isinstance(ref, Output) else hold(ref)

    for leaf, made in zip(fragment.nodes, fragment.made, strict=True):
        label, inputs = names.new(f"{base}/{leaf.name}"), [name_of(ref) for ref in leaf.inputs]
        graph.node.append(_filled(leaf, inputs, [values[ref] for ref, _ in made], label, names, hold))
    outputs: list[str] = []
    for ref in (None, *fragment.outputs):
        value = parameters[1] if ref is None else name_of(ref)
        if not isinstance(ref, Output) or value in outputs:
            # A body's output must be computed in the body, and only once.
            outputs.append(names.new(f"{base}/Identity.out"))
            graph.node.append(make_node(IDENTITY, "", [value], outputs[-1:], {}))
            graph.node[-1].name = names.new(f"{base}/Identity")
        else:
            outputs.append(value)
    for name, facts in zip(outputs, (Facts(TensorProto.BOOL, ()), *carried, *iteration.rows), strict=True):
        graph.output.add(name=name).type.CopyFrom(type_of_facts(facts))
    return graph


def _output_names(outputs: Sequence[str], fragment: Fragment, names: Names, base: str) -> dict[Output, str]:
    """Name all outputs of a fragment: the node's own outputs keep their names."""
    values: dict[Output, str] = {}
    for name, ref in zip(outputs, fragment.outputs, strict=True):
        if name and isinstance(ref, Output) and ref not in values:
            values[ref] = name
    for made in fragment.made:
        for ref, ending in made:
            if ref not in values:
                values[ref] = names.new(base + ending)
    return values
