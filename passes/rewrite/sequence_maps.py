"""Replace SequenceMap by its body: once for each element if their number is known, otherwise in a Loop."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_sequence_value_info, make_tensor_value_info

from opshift.opsets.registry.structural import (
    IDENTITY,
    LOOP,
    SEQUENCE_AT,
    SEQUENCE_EMPTY,
    SEQUENCE_INSERT,
    SEQUENCE_LENGTH,
)
from opshift.passes.analysis.inference import make_node
from opshift.passes.analysis.scopes import Scope
from opshift.passes.analysis.splicing import Spliced, named_node
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import nested_nodes, subgraphs
from opshift.passes.rewrite.held_values import Held, Items, container, is_sequence, is_tensor
from opshift.passes.rewrite.unrolling import UNROLLED


def each(
    node: onnx.NodeProto, scope: Scope, held: Sequence[Held | None], found: Spliced, names: Names
) -> dict[str, Items]:
    """Emit the body once for each element, and return the values in each resulting sequence.

    Inputs after the first are sequences of the same length, or tensors that all iterations share. Nothing is emitted or
    returned if the elements are unknown or too many.
    """
    if not held or not isinstance(held[0], tuple):
        return {}
    body, length = next(subgraphs(node)), len(held[0])
    lists = [own if isinstance(own, tuple) else None for own in held]
    shared = [name for name, own in zip(node.input, lists, strict=True) if own is None]
    many = length * sum(1 for _ in nested_nodes(body)) > UNROLLED
    if many or not all(is_tensor(scope[name]) for name in shared):
        return {}
    types = [value.type.tensor_type.elem_type for value in body.output]
    if any(own is not None and len(own) != length for own in lists) or not (length or all(types)):
        return {}
    results: list[list[str]] = []
    for place in range(length):
        inputs = {
            inner.name: name if own is None else own[place]
            for inner, name, own in zip(body.input, node.input, lists, strict=True)
        }
        fresh = functools.partial(_numbered, names, place)
        results.append(found.add(body, inputs, fresh, fresh))
    made = {name: tuple(one[at] for one in results) for at, name in enumerate(node.output) if name}
    for name, dtype in zip(node.output, types, strict=True):
        if name:
            found.nodes.append(container(name, made[name], dtype, names))
    found.outputs = list(node.output)
    return made


def as_loop(node: onnx.NodeProto, scope: Scope, found: Spliced, names: Names) -> None:
    """Emit a Loop that collects the body's results for each element, as ONNX defines SequenceMap."""
    body = next(subgraphs(node))
    types = [value.type.tensor_type.elem_type for value in body.output]
    pairs = list(zip(body.input, node.input, strict=True))
    shared = {inner.name: name for inner, name in pairs if is_tensor(scope[name])}
    sequences = [(inner, name) for inner, name in pairs if inner.name not in shared]
    if not all(types) or not all(is_sequence(scope[name]) for _, name in sequences):
        return
    new = functools.partial(names.new, f"{node.output[0]}/map")
    turn, go, on = new(), new(), new()
    inner = Spliced()
    inputs = dict(shared)
    for value, name in sequences:
        inputs[value.name] = new()
        inner.nodes.append(named_node(new(), SEQUENCE_AT, [name, turn], inputs[value.name]))
    made = inner.add(body, inputs, names.new, names.new)
    inner.nodes.append(named_node(on, IDENTITY, [go], on))
    loop = onnx.GraphProto(name=new())
    loop.input.extend(
        (make_tensor_value_info(turn, TensorProto.INT64, []), make_tensor_value_info(go, TensorProto.BOOL, []))
    )
    loop.output.append(make_tensor_value_info(on, TensorProto.BOOL, []))
    starts = []
    for result, dtype in zip(made, types, strict=True):
        before, after = new(), new()
        starts.append(found.node(SEQUENCE_EMPTY, [], new(), dtype=dtype))
        inner.nodes.append(named_node(after, SEQUENCE_INSERT, [before, result], after))
        loop.input.append(make_tensor_sequence_value_info(before, dtype, None))
        loop.output.append(make_tensor_sequence_value_info(after, dtype, None))
    loop.node.extend(inner.nodes)
    loop.initializer.extend(inner.initializers)
    loop.value_info.extend(inner.types)
    length = found.node(SEQUENCE_LENGTH, [node.input[0]], new())
    outputs = [name or new() for name in node.output]
    condition = found.constant(new(), True, TensorProto.BOOL)
    whole = make_node(LOOP, "", [length, condition, *starts], outputs, {"body": loop})
    whole.name = names.new(f"{node.output[0]}/Loop")
    found.nodes.append(whole)
    found.outputs = list(node.output)


def _numbered(names: Names, place: int, name: str) -> str:
    return names.new(f"{name}/{place}")
