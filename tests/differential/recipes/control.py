"""Control flow, sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, TypeProto, helper

from differential import values
from differential.draw import Argument, Draw
from differential.recipes.registry import recipe
from differential.values import BOOL, FEEDS, FLOAT, INT32, INT64


def _value(name: str, elem_type: int, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, elem_type, shape)


def _type(elem_type: int) -> TypeProto:
    return helper.make_tensor_type_proto(elem_type, None)


@recipe("If")
def if_(draw: Draw) -> None:
    draw.add(draw.each(BOOL, [np.array(draw.chance(0.5)) for _ in range(FEEDS)]))
    shape = draw.shape()
    kind = draw.pick((FLOAT, FLOAT, INT64))
    name = draw.capture(draw.data(kind, shape, "tame"))
    draw.set(
        then_branch=_branch(draw, kind, shape, name, draw.pick(("Neg", "Abs", "Identity"))),
        else_branch=_branch(draw, kind, shape, name, draw.pick(("Neg", "Abs", "Identity"))),
    )
    draw.outputs(True)
    draw.output_type(kind)


def _branch(draw: Draw, kind: int, shape: tuple[int, ...], name: str, operator: str) -> GraphProto:
    out = draw.name("out")
    if draw.chance(0.3):
        array = values.sample(draw.rng, kind, shape, 0)
        nodes = [helper.make_node("Constant", [], [out], value=values.tensor(array, kind))]
    else:
        nodes = [helper.make_node(operator, [name], [out])]
    return helper.make_graph(nodes, draw.name("branch"), [], [_value(out, kind, shape)])


@recipe("Loop")
def loop(draw: Draw) -> None:
    shape = draw.shape(0, 3)
    kind = draw.pick((FLOAT, FLOAT, INT64))
    trips = draw.integer(0 if draw.chance(0.15) else 1, 3)
    form = draw.integer(0, 2)
    draw.add(draw.fixed(trips if draw.chance(0.7) else [trips]) if form < 2 else None)
    draw.add(draw.fixed(True, BOOL) if form else None)
    draw.add(draw.data(kind, shape, "small"))
    step, more, carried, next_, again, scanned = (draw.name(each) for each in ("i", "c", "v", "w", "d", "s"))
    nodes = [helper.make_node("Add", [carried, carried], [next_]), helper.make_node("Identity", [carried], [scanned])]
    if form == 2:
        limit = draw.name("limit")
        nodes.append(helper.make_node("Constant", [], [limit], value=helper.make_tensor("", INT64, [], [2])))
        nodes.append(helper.make_node("Less", [step, limit], [again]))
        if draw.opset < 9:
            floats = [draw.name("step_float"), draw.name("limit_float")]
            nodes[-1:] = [
                helper.make_node("Cast", [step], floats[:1], to=FLOAT),
                helper.make_node("Cast", [limit], floats[1:], to=FLOAT),
                helper.make_node("Less", floats, [again]),
            ]
    else:
        nodes.append(helper.make_node("Identity", [more], [again]))
    scans = draw.chance(0.7)
    if not scans:
        del nodes[1]
    body_outputs = [_value(again, BOOL, []), _value(next_, kind, shape)] + [_value(scanned, kind, shape)] * scans
    body_inputs = [_value(step, INT64, []), _value(more, BOOL, []), _value(carried, kind, shape)]
    draw.set(body=helper.make_graph(nodes, draw.name("body"), body_inputs, body_outputs))
    if kind == INT64 and draw.opset < 7:
        raise LookupError("Add of integers")
    draw.outputs(*[True] * (1 + scans))
    for _ in range(1 + scans):
        draw.output_type(kind)


@recipe("Scan")
def scan(draw: Draw) -> None:
    shape = draw.shape(0, 2)
    length = draw.integer(1, 3)
    old = draw.version == 8
    state = draw.data(FLOAT, ((1,) if old else ()) + shape, "finite")
    axis = draw.integer(0, len(shape)) if not old and draw.chance(0.3) else 0
    dims = [*shape]
    dims.insert(axis, length)
    elements = draw.data(FLOAT, ((1, length) if old else ()) + (shape if old else tuple(dims)), "finite")
    if old:
        draw.add(None)
    draw.add(state, elements)
    draw.set(num_scan_inputs=1)
    if axis:
        draw.set(scan_input_axes=[axis])
    if draw.chance(0.3):
        draw.set(scan_input_directions=[1], directions=[1])
    if draw.chance(0.3):
        draw.set(scan_output_directions=[1])
    held, item, next_, out = (draw.name(each) for each in ("h", "x", "g", "y"))
    nodes = [helper.make_node("Add", [held, item], [next_]), helper.make_node("Identity", [next_], [out])]
    inputs = [_value(held, FLOAT, shape), _value(item, FLOAT, shape)]
    outputs = [_value(next_, FLOAT, shape), _value(out, FLOAT, shape)]
    draw.set(body=helper.make_graph(nodes, draw.name("body"), inputs, outputs))
    draw.outputs(True, True)
    for _ in range(2):
        draw.output_type(FLOAT)


def sequence(draw: Draw, kind: int, items: list[list[values.Array]]) -> Argument:
    """Return an input that is a sequence of tensors."""
    return Argument(helper.make_sequence_type_proto(_type(kind)), list(items))


def _items(draw: Draw, kind: int, shapes: list[tuple[int, ...]]) -> Argument:
    drawn = [[values.sample(draw.rng, kind, shape, feed) for shape in shapes] for feed in range(FEEDS)]
    return sequence(draw, kind, drawn)


def _kind(draw: Draw) -> int:
    return draw.pick((FLOAT, FLOAT, INT64, values.DOUBLE, BOOL, values.FLOAT16, INT32))


@recipe("SequenceConstruct")
def sequence_construct(draw: Draw) -> None:
    kind = _kind(draw)
    for _ in range(draw.integer(1, 3)):
        draw.add(draw.data(kind, draw.shape(0, 3)))
    draw.drawn.output_types.append(helper.make_sequence_type_proto(_type(kind)))


@recipe("SequenceEmpty")
def sequence_empty(draw: Draw) -> None:
    kind = draw.option("dtype", _kind(draw)) if draw.chance(0.7) else FLOAT
    draw.drawn.output_types.append(helper.make_sequence_type_proto(_type(draw.drawn.attributes.get("dtype", FLOAT))))
    del kind


@recipe("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength")
def on_sequence(draw: Draw) -> None:
    kind = _kind(draw)
    count = draw.integer(1, 3)
    shape = draw.shape(0, 3)
    draw.add(_items(draw, kind, [shape if draw.chance(0.6) else draw.shape(0, 3) for _ in range(count)]))
    position = draw.fixed(draw.integer(-count, count - 1), draw.pick((INT64, INT32)))
    if draw.operator == "SequenceInsert":
        draw.add(draw.data(kind, shape), position if draw.chance(0.6) else None)
    elif draw.operator == "SequenceAt" or (draw.operator == "SequenceErase" and draw.chance(0.6)):
        draw.add(position)
    if draw.operator == "SequenceAt":
        draw.output_type(kind)
    elif draw.operator == "SequenceLength":
        draw.output_type(INT64)
    else:
        draw.drawn.output_types.append(helper.make_sequence_type_proto(_type(kind)))


@recipe("ConcatFromSequence")
def concat_from_sequence(draw: Draw) -> None:
    kind = _kind(draw)
    stacked = draw.option("new_axis", draw.integer(0, 1))
    shape = list(draw.shape(1, 3))
    axis = draw.axis(len(shape) + stacked)
    draw.set(axis=axis)
    shapes = []
    for _ in range(draw.integer(1, 3)):
        if not stacked:
            shape[axis] = draw.dim()
        shapes.append(tuple(shape))
    draw.add(_items(draw, kind, shapes))
    draw.output_type(kind)


@recipe("SplitToSequence")
def split_to_sequence(draw: Draw) -> None:
    kind = _kind(draw)
    shape = [max(dim, 1) for dim in draw.shape(1, 3)]
    axis = draw.option("axis", draw.axis(len(shape)))
    sizes = [draw.integer(1, 2) for _ in range(draw.integer(1, 3))]
    shape[axis] = sum(sizes)
    draw.add(draw.data(kind, tuple(shape)))
    form = draw.integer(0, 2)
    if form == 1:
        draw.add(draw.fixed(sizes))
    elif form == 2:
        draw.add(draw.fixed(draw.integer(1, sum(sizes))))
    draw.option("keepdims", draw.integer(0, 1))
    draw.drawn.output_types.append(helper.make_sequence_type_proto(_type(kind)))


@recipe("SequenceMap")
def sequence_map(draw: Draw) -> None:
    shape = draw.shape(0, 2)
    draw.add(_items(draw, FLOAT, [shape] * draw.integer(1, 3)))
    item, out = draw.name("x"), draw.name("y")
    inputs = [_value(item, FLOAT, shape)]
    nodes = [helper.make_node("Neg", [item], [out])]
    if draw.chance(0.5):
        other = draw.name("other")
        draw.add(draw.data(FLOAT, shape, "finite"))
        inputs.append(_value(other, FLOAT, shape))
        nodes = [helper.make_node("Add", [item, other], [out])]
    draw.set(body=helper.make_graph(nodes, draw.name("body"), inputs, [_value(out, FLOAT, shape)]))
    draw.outputs(True)
    draw.drawn.output_types.append(helper.make_sequence_type_proto(_type(FLOAT)))


@recipe("Optional")
def optional(draw: Draw) -> None:
    kind = draw.pick((FLOAT, INT64, BOOL))
    held = _type(kind)
    if draw.chance(0.25):
        draw.set(type=held)
    else:
        draw.add(draw.data(kind, draw.shape(0, 3)))
    draw.drawn.output_types.append(helper.make_optional_type_proto(held))


@recipe("OptionalHasElement", "OptionalGetElement")
def on_optional(draw: Draw) -> None:
    kind = draw.pick((FLOAT, INT64, BOOL))
    argument = draw.data(kind, draw.shape(0, 3))
    get = draw.operator == "OptionalGetElement"
    form = draw.integer(0, 3)
    if form == 0 and draw.version >= 18 and not get:
        draw.add(None)
    elif form == 1 and draw.version >= 18:
        draw.add(argument)
    else:
        argument.type = helper.make_optional_type_proto(_type(kind))
        if form == 2 and not get:
            argument.values = [None] * FEEDS
        draw.add(argument)
    draw.output_type(kind if get else BOOL)
