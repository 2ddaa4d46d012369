"""Models composed at random: operators of the seeds feed each other, in branches, loops, scans and functions.

`composed(draw)` returns a model that is typed and shaped; whether onnxruntime takes it is for the caller to find out.
A dimension may be a symbol: its name ends in the size that inputs are to have.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import fuzz
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from running import OPSETS, opset_of

DEEPEST = 3
"""Subgraphs and calls inside each other."""
FIRST = ("Hardmax", "ArgMax", "OneHot")
"""Operators that half of the pieces are of: those that opshift exists for."""


class Piece:
    """A graph whose inputs and outputs are tensors of known types, with the functions that it calls."""

    def __init__(self, graph: GraphProto, functions: Sequence[FunctionProto] = ()) -> None:
        """Take a graph and its functions, which are not changed later on."""
        self.graph = graph
        self.functions = tuple(functions)


def composed(draw: random.Random) -> ModelProto:
    """Draw a model of one to four operators, nested at random."""
    opset = draw.choice([opset for opset in OPSETS if opset <= 26])
    fresh = map(str, itertools.count())
    piece = _drawn(opset, fresh, draw)
    for _ in range(draw.randint(0, 3)):
        piece = _joined(piece, _drawn(opset, fresh, draw), draw)
    for _ in range(draw.randint(0, DEEPEST)):
        wrap = draw.choice((_in_a_branch, _in_a_loop, _in_a_scan, _in_a_function, _in_a_function))
        piece = wrap(piece, opset, fresh, draw)
        if draw.random() < 0.3:
            piece = _joined(piece, _drawn(opset, fresh, draw), draw)
    if draw.random() < 0.3:
        _symbols(piece.graph, draw)
    domains = sorted({function.domain for function in piece.functions})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    least = helper.find_min_ir_version_for([imports[0]])
    return helper.make_model(
        piece.graph, functions=piece.functions, opset_imports=imports, ir_version=max(least, 8 if domains else 4)
    )


# --- pieces ---


@functools.cache
def _at(opset: int) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return the seeds that mean the same at this opset: those of the operators opshift exists for, and the others."""
    found: tuple[list[Piece], list[Piece]] = ([], [])
    for data in fuzz.seeds():
        try:
            model = ModelProto.FromString(data)
        except DecodeError:
            continue
        if _usable(model, opset):
            found[not any(node.op_type in FIRST for node in model.graph.node)].append(Piece(model.graph))
    return tuple(found[0]), tuple(found[1])


def _usable(model: ModelProto, opset: int) -> bool:
    graph = model.graph
    if model.functions or graph.sparse_initializer or not graph.node or not graph.output or len(graph.node) > 12:
        return False
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in graph.initializer):
        return False
    own = {tensor.name for tensor in graph.initializer}
    values = [*(value for value in graph.input if value.name not in own), *graph.output]
    if not all(value.type.tensor_type.elem_type and value.type.tensor_type.HasField("shape") for value in values):
        return False
    try:
        before = opset_of(model)
        return all(_since(node, before) == _since(node, opset) for node in graph.node)
    except (StopIteration, onnx.defs.SchemaError):
        return False


def _since(node: NodeProto, opset: int) -> int:
    return int(onnx.defs.get_schema(node.op_type, opset, node.domain).since_version)


def _drawn(opset: int, fresh: Iterator[str], draw: random.Random) -> Piece:
    chosen, others = _at(opset)
    return _renamed(draw.choice(chosen if chosen and draw.random() < 0.5 else others), fresh)


def _renamed(piece: Piece, fresh: Iterator[str]) -> Piece:
    """Return the piece with names that nothing else has: of values in all graphs, and of nodes."""
    suffix = next(fresh)

    def new(name: str) -> str:
        return f"{name}.{suffix}" if name else ""

    def rename(graph: GraphProto) -> None:
        del graph.value_info[:], graph.quantization_annotation[:], graph.metadata_props[:]
        for holder in (*graph.input, *graph.output, *graph.initializer):
            holder.name = new(holder.name)
        for node in graph.node:
            node.input[:] = map(new, node.input)
            node.output[:] = map(new, node.output)
            node.name = new(node.name)
            for attribute in node.attribute:
                for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    rename(inner)

    graph = copy.deepcopy(piece.graph)
    rename(graph)
    _inputs_alone(graph)
    return Piece(graph, piece.functions)


def _inputs_alone(graph: GraphProto) -> None:
    """Take initializers out of the inputs, so that inputs are what a caller gives."""
    own = {tensor.name for tensor in graph.initializer}
    given = [value for value in graph.input if value.name not in own]
    del graph.input[:]
    graph.input.extend(given)


def _type(value: ValueInfoProto) -> bytes:
    return bytes(value.type.SerializeToString(deterministic=True))


def _joined(first: Piece, second: Piece, draw: random.Random) -> Piece:
    """Feed outputs of the first to inputs of the second of the same type; both keep their outputs."""
    graph, added = copy.deepcopy(first.graph), copy.deepcopy(second.graph)
    fed = {}
    for value in added.input:
        fitting = [made for made in (*graph.output, *graph.input) if _type(made) == _type(value)]
        if fitting and draw.random() < 0.9:
            fed[value.name] = draw.choice(fitting).name
    for node in added.node:
        _reads(node, fed)
    graph.node.extend(added.node)
    graph.initializer.extend(added.initializer)
    graph.input.extend(value for value in added.input if value.name not in fed)
    graph.output.extend(value for value in added.output if value.name not in fed)
    return Piece(graph, (*first.functions, *second.functions))


def _reads(node: NodeProto, instead: dict[str, str]) -> None:
    """Let a node, and all in its subgraphs, read other values; names are not given twice in a model."""
    node.input[:] = [instead.get(name, name) for name in node.input]
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for nested in inner.node:
                _reads(nested, instead)
            for value in inner.output:
                value.name = instead.get(value.name, value.name)


# --- where they stand ---


def _in_a_branch(piece: Piece, opset: int, fresh: Iterator[str], draw: random.Random) -> Piece:
    """Put the piece into both branches of an If; the other one negates its inputs where those are floats."""
    then, other = piece.graph, _negating(_renamed(Piece(_captured(piece.graph)), fresh).graph, piece.graph, fresh)
    name = next(fresh)
    condition = helper.make_tensor_value_info(f"condition.{name}", TensorProto.BOOL, [])
    outputs = _outer(piece.graph.output, name)
    node = helper.make_node(
        "If", [condition.name], [value.name for value in outputs], then_branch=_captured(then), else_branch=other
    )
    if draw.random() < 0.3:
        _swap(node)
    return Piece(helper.make_graph([node], "g", [condition, *piece.graph.input], outputs), piece.functions)


def _swap(node: NodeProto) -> None:
    for attribute in node.attribute:
        attribute.name = "else_branch" if attribute.name == "then_branch" else "then_branch"


def _captured(graph: GraphProto) -> GraphProto:
    """Return a subgraph that reads the inputs of a graph from outside."""
    inner = copy.deepcopy(graph)
    del inner.input[:]
    # An output of a subgraph has to be made in it, by one node: an input or an initializer goes through an Identity.
    made = {name for node in inner.node for name in node.output}
    for value in inner.output:
        if value.name not in made:
            inner.node.append(helper.make_node("Identity", [value.name], [f"{value.name}.through"]))
            value.name = f"{value.name}.through"
    return inner


def _negating(inner: GraphProto, outer: GraphProto, fresh: Iterator[str]) -> GraphProto:
    """Let a renamed subgraph read what was given to the one it was renamed from, negated where it is float."""
    suffix = {name.rpartition(".")[2] for name in [*(n for node in inner.node for n in node.output if n)]}
    instead, before = {}, []
    for value in outer.input:
        for one in suffix:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                before.append(helper.make_node("Neg", [value.name], [f"negated.{next(fresh)}"]))
                instead[f"{value.name}.{one}"] = before[-1].output[0]
            else:
                instead[f"{value.name}.{one}"] = value.name
    for node in inner.node:
        _reads(node, instead)
    nodes = [*before, *inner.node]
    del inner.node[:]
    inner.node.extend(nodes)
    return inner


def _outer(values: Sequence[ValueInfoProto], suffix: str, stacked: int | None = None) -> list[ValueInfoProto]:
    """Return outputs of the node around a subgraph, with one dimension more in front where they are stacked."""
    found = []
    for value in values:
        kind = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim]
        shape = dims if stacked is None else [stacked, *dims]
        found.append(helper.make_tensor_value_info(f"{value.name}.{suffix}", kind.elem_type, shape))
    return found


def _in_a_loop(piece: Piece, opset: int, fresh: Iterator[str], draw: random.Random) -> Piece:
    """Run the piece a few times: an output of the type of an input is carried into it, the others are stacked."""
    # Of no trips onnxruntime stacks what it takes the shape to be, which depends on what it infers.
    name, times = next(fresh), draw.randint(1, 3)
    body = _captured(piece.graph)
    carried: list[tuple[ValueInfoProto, ValueInfoProto]] = []
    for made in body.output:
        free = [value for value in piece.graph.input if not any(value is taken for taken, _ in carried)]
        fitting = [value for value in free if _type(value) == _type(made)]
        if fitting and draw.random() < 0.7:
            carried.append((fitting[0], made))
    if opset < 11 and not carried:  # Loop-1 has at least one state
        return _in_a_branch(piece, opset, fresh, draw)
    instead = {value.name: f"{value.name}.{name}" for value, _ in carried}
    for node in body.node:
        _reads(node, instead)
    states = [(value, copy.deepcopy(made)) for value, made in carried]
    scanned = [made for made in body.output if not any(made.name == state.name for _, state in states)]
    condition = helper.make_tensor_value_info(f"go.{name}", TensorProto.BOOL, [])
    given = helper.make_tensor_value_info(f"again.{name}", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info(f"count.{name}", TensorProto.INT64, [])
    inputs = [count, given, *(_outer([value], name)[0] for value, _ in states)]
    nodes = [*body.node, helper.make_node("Identity", [given.name], [condition.name])]
    inner = helper.make_graph(
        nodes, "body", inputs, [condition, *(state for _, state in states), *scanned], body.initializer
    )
    outputs = [*_outer([state for _, state in states], f"{name}.out"), *_outer(scanned, f"{name}.out", times)]
    trips = helper.make_tensor(f"trips.{name}", TensorProto.INT64, [], [times])
    start = [f"trips.{name}", "", *(value.name for value, _ in states)]
    if draw.random() < 0.5:
        start[1] = f"true.{name}"
    node = helper.make_node("Loop", start, [value.name for value in outputs], body=inner)
    constants = [trips, helper.make_tensor(f"true.{name}", TensorProto.BOOL, [], [True])]
    return Piece(helper.make_graph([node], "g", list(piece.graph.input), outputs, constants), piece.functions)


def _in_a_scan(piece: Piece, opset: int, fresh: Iterator[str], draw: random.Random) -> Piece:
    """Run the piece over the rows of its inputs, some of which it reads from outside instead."""
    if opset < 9 or not piece.graph.input:
        return _in_a_loop(piece, opset, fresh, draw)
    name, times = next(fresh), draw.randint(1, 3)
    body = _captured(piece.graph)
    over = [value for value in piece.graph.input if draw.random() < 0.7] or [piece.graph.input[0]]
    stacked = _outer(over, name, times)
    rest = [value for value in piece.graph.input if not any(value is one for one in over)]
    inner = helper.make_graph(body.node, "body", over, body.output, body.initializer)
    outputs = _outer(body.output, f"{name}.out", times)
    attributes: dict[str, Any] = {"num_scan_inputs": len(over)}
    if draw.random() < 0.3:
        attributes["scan_input_directions"] = [draw.randint(0, 1) for _ in over]
    node = helper.make_node("Scan", [v.name for v in stacked], [v.name for v in outputs], body=inner, **attributes)
    return Piece(helper.make_graph([node], "g", [*rest, *stacked], outputs), piece.functions)


def _in_a_function(piece: Piece, opset: int, fresh: Iterator[str], draw: random.Random) -> Piece:
    """Make the piece a function; its initializers are given to it, and an integer of a node may be a parameter."""
    name = next(fresh)
    body = _captured(piece.graph)
    constants = list(body.initializer)
    given = [*(value.name for value in piece.graph.input), *(tensor.name for tensor in constants)]
    attributes = {}
    integers = [a for node in body.node for a in node.attribute if a.type == AttributeProto.INT]
    if integers and draw.random() < 0.6:
        chosen = draw.choice(integers)
        attributes[f"{chosen.name}_"] = chosen.i
        chosen.ClearField("i")
        chosen.ref_attr_name = f"{chosen.name}_"
    domains = sorted({function.domain for function in piece.functions})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = [value.name for value in body.output]
    domain, called = f"local{name}" if draw.random() < 0.2 else "local", f"f{name}"
    imports += [] if domain in domains else [helper.make_opsetid(domain, 1)]
    function = helper.make_function(domain, called, given, made, body.node, imports, list(attributes))
    outputs = _outer(body.output, name)
    nodes = [helper.make_node(called, given, [v.name for v in outputs], domain=domain, **attributes)]
    if draw.random() < 0.3:
        again = _outer(body.output, f"{name}.again")
        nodes.append(helper.make_node(called, given, [v.name for v in again], domain=domain, **attributes))
        outputs += again
    graph = helper.make_graph(nodes, "g", list(piece.graph.input), outputs, constants)
    return Piece(graph, (*piece.functions, function))


def _symbols(graph: GraphProto, draw: random.Random) -> None:
    """Name a size of the inputs, and forget all sizes of the outputs."""
    sizes = sorted({dim.dim_value for value in graph.input for dim in value.type.tensor_type.shape.dim} - {0})
    if not sizes:
        return
    size = draw.choice(sizes)
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == size:
                dim.dim_param = f"n{size}"
    for value in graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
