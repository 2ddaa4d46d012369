"""Put a node into the body of an If, a Loop or a Scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, helper

from differential.draw import Argument
from differential.schemas import carries
from differential.values import BOOL, FEEDS, INT64

if TYPE_CHECKING:
    from differential.embed import Embedder


def in_if(to: Embedder, node: NodeProto, types: list[TypeProto]) -> None:
    condition = to.outer(
        Argument(helper.make_tensor_type_proto(BOOL, []), [np.array(to.chance(0.5)) for _ in range(FEEDS)])
    )
    branches = []
    for _ in range(2):
        copied = NodeProto()
        copied.CopyFrom(node)
        outputs = [name for name in node.output if name]
        renamed = {name: to.name("b") for name in outputs}
        copied.output[:] = [renamed.get(name, "") for name in node.output]
        if copied.name and to.chance(0.7):
            copied.name = to.name("node")
        declared = [helper.make_value_info(renamed[name], kind) for name, kind in zip(outputs, types, strict=True)]
        branch = helper.make_graph([copied], to.name("branch"), [], declared)
        _move_constants(to, branch)
        branches.append(branch)
    made = helper.make_node(
        "If",
        [condition],
        [name for name in node.output if name],
        name=to.name("node"),
        then_branch=branches[0],
        else_branch=branches[1],
    )
    to.nodes.append(made)


def in_loop(to: Embedder, node: NodeProto, types: list[TypeProto]) -> None:
    trips = to.outer(Argument(helper.make_tensor_type_proto(INT64, []), [np.array(2)] * FEEDS, True))
    step, more, again = to.name("i"), to.name("more"), to.name("again")
    outputs = [name for name in node.output if name]
    renamed = {name: to.name("b") for name in outputs}
    copied = NodeProto()
    copied.CopyFrom(node)
    copied.output[:] = [renamed.get(name, "") for name in node.output]
    declared = [helper.make_value_info(renamed[name], kind) for name, kind in zip(outputs, types, strict=True)]
    body = helper.make_graph(
        [helper.make_node("Identity", [more], [again], name=to.name("node")), copied],
        to.name("body"),
        [helper.make_tensor_value_info(step, INT64, []), helper.make_tensor_value_info(more, BOOL, [])],
        [helper.make_tensor_value_info(again, BOOL, []), *declared],
    )
    _move_constants(to, body)
    carried: list[str] = []
    if to.opset < 11 or to.chance(0.2):  # Loop-1 requires a value that is carried
        before, after, last = to.name("v"), to.name("w"), to.name("last")
        body.input.append(helper.make_tensor_value_info(before, INT64, []))
        body.output.insert(1, helper.make_tensor_value_info(after, INT64, []))
        body.node.append(helper.make_node("Identity", [before], [after], name=to.name("node")))
        start = Argument(helper.make_tensor_type_proto(INT64, []), [np.array(1)] * FEEDS, True)
        carried = [to.outer(start)]
        outputs = [last, *outputs]
    to.nodes.append(helper.make_node("Loop", [trips, "", *carried], outputs, name=to.name("node"), body=body))


def in_scan(to: Embedder, node: NodeProto, types: list[TypeProto], scanned: str, argument: Argument | None) -> None:
    assert argument is not None
    item = to.name("item")
    copied = NodeProto()
    copied.CopyFrom(node)
    copied.input[:] = [item if name == scanned else name for name in node.input]
    outputs = [name for name in node.output if name]
    renamed = {name: to.name("b") for name in outputs}
    copied.output[:] = [renamed.get(name, "") for name in node.output]
    declared = [helper.make_value_info(renamed[name], kind) for name, kind in zip(outputs, types, strict=True)]
    inside = helper.make_tensor_value_info(item, argument.elem_type, to._declared(argument.values[0].shape, False))
    body = helper.make_graph([copied], to.name("body"), [inside], declared)
    _move_constants(to, body)
    to.nodes.append(helper.make_node("Scan", [scanned], outputs, name=to.name("node"), body=body, num_scan_inputs=1))


def _move_constants(to: Embedder, body: GraphProto) -> None:
    """Give a body constants of its own, as initializers or as Constant nodes, of the values that it reads."""
    node = body.node[-1]
    for index, name in enumerate(node.input):
        tensor = next((each for each in to.initializers if name and each.name == name), None)
        if tensor is None or not to.chance(_OWN_CONSTANTS):
            continue
        own = TensorProto()
        own.CopyFrom(tensor)
        own.name = to.name("own")
        if to.chance(0.5) and _is_carried(to, own):
            nodes = [*body.node]
            del body.node[:]
            body.node.extend([*nodes[:-1], to.constant_node(own, own.name), nodes[-1]])
            node = body.node[-1]
        else:
            body.initializer.append(own)
            to.ir_version = max(to.ir_version, 4)  # below, initializers are inputs, which a branch does not have
        node.input[index] = own.name


def _is_carried(to: Embedder, tensor: TensorProto) -> bool:
    return carries("Constant", to.opset, [helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))])


_OWN_CONSTANTS = 0.3
"""How often a constant that a body reads is its own."""
