"""Draws models that compute shapes, and reshape, pad and resize by them: what folding must get right.

Each node is computed with numpy as it is drawn, for one size of each dim, so that the model runs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

SIZES = {"n": 2, "c": 3, "h": 4, "w": 6}
"""The dims of the input, and the sizes for which nodes are computed as they are drawn."""

LONGEST = 4096
"""Elements of a value: more are not drawn."""


@dataclass
class Drawing:
    """A graph that grows; `values` are those of the sizes above."""

    rng: np.random.Generator
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    data: set[str] = field(default_factory=set)
    """Values that depend on what is fed, and not on shapes alone."""

    def constant(self, array: Any, dtype: Any = np.int64) -> str:
        """Add a Constant, and return its name."""
        held = np.asarray(array, dtype)
        name = f"k{len(self.values)}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(held)))
        self.values[name] = held
        return name

    def node(self, operator: str, inputs: list[str], made: Any, **attributes: Any) -> str:
        """Add a node that returns this value, and return the name of its output."""
        array = np.asarray(made)
        if array.size > LONGEST or array.ndim > 5:
            return ""
        name = f"v{len(self.values)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], name=f"{operator}_{len(self.nodes)}", **attributes)
        )
        self.values[name] = array
        if any(one in self.data for one in inputs) and operator not in ("Shape", "Size"):
            self.data.add(name)
        return name

    def any(self, fits: Callable[[str, Array], bool]) -> str:
        """Return one of the values that fit, the later ones more likely; empty if there is none."""
        names = [name for name, value in self.values.items() if fits(name, value)]
        if not names:
            return ""
        return names[int(len(names) * (1 - self.rng.random() ** 2))] if self.rng.random() < 0.8 else names[0]

    def integers(self, rank: int | None = None) -> str:
        """Return a value of int64 that follows from shapes."""
        return self.any(
            lambda name, value: (
                value.dtype == np.int64
                and name not in self.data
                and (value.ndim <= 1 if rank is None else value.ndim == rank)
            )
        )

    def floats(self) -> str:
        """Return a value that depends on what is fed."""
        return self.any(lambda name, value: name in self.data and value.dtype == np.float32)

    def pick(self, *choices: Any) -> Any:
        """Return one of some things."""
        return choices[int(self.rng.integers(len(choices)))]


# --- shapes -----------------------------------------------------------------------------------------------------------


def shape(one: Drawing) -> None:
    """Draw Shape or Size of any value."""
    name = one.any(lambda _, value: True)
    value = one.values[name]
    if one.pick(True, False, False):
        one.node("Size", [name], np.int64(value.size))
    elif one.opset >= 15 and one.pick(True, False):
        start, end = one.pick(0, 1, -1), one.pick(None, -1, 2)
        more = {"start": start} | ({} if end is None else {"end": end})
        one.node("Shape", [name], np.array(value.shape[start:end], np.int64), **more)
    else:
        one.node("Shape", [name], np.array(value.shape, np.int64))


def gather(one: Drawing) -> None:
    """Draw Gather of a vector, by a scalar or a vector."""
    name = one.integers(1)
    length = len(one.values[name]) if name else 0
    if length:
        index = one.rng.integers(-length, length, size=one.pick((), (1,), (2,)))
        at = one.constant(index)
        one.node("Gather", [name, at], one.values[name][index], axis=0)


def sliced(one: Drawing) -> None:
    """Draw Slice of a vector."""
    name = one.integers(1)
    if not name:
        return
    start, end, step = one.pick(0, 1, -2, -1), one.pick(1, 2, -1, 2**62), one.pick(1, 1, 2, -1)
    if step < 0:
        start, end = one.pick(-1, 2**62), one.pick(-(2**62), 0)
    value = one.values[name][slice(start, None if end < -(2**40) else end, step)]
    if one.opset < 10:
        if step == 1:
            one.node("Slice", [name], value, starts=[start], ends=[end], axes=[0])
        return
    one.node("Slice", [name, *(one.constant([part]) for part in (start, end, 0, step))], value)


def concat(one: Drawing) -> None:
    """Draw Concat of vectors, of a vector and a constant, or of scalars made vectors."""
    names = [one.integers(1) for _ in range(one.pick(1, 2, 3))]
    names = [name for name in names if name]
    if one.pick(True, False):
        names.insert(one.pick(0, len(names)), one.constant(one.rng.integers(1, 4, size=one.pick(1, 2))))
    if names:
        one.node("Concat", names, np.concatenate([one.values[name] for name in names]), axis=0)


def unsqueeze(one: Drawing) -> None:
    """Draw Unsqueeze of a scalar, or Squeeze of a vector of one."""
    name = one.integers()
    value = one.values[name] if name else np.zeros(2)
    operator = "Squeeze" if value.shape == (1,) else "Unsqueeze" if value.ndim == 0 else ""
    if not operator:
        return
    result = value.reshape(()) if operator == "Squeeze" else value.reshape(1)
    if one.opset >= 13:
        one.node(operator, [name, one.constant([0])], result)
    else:
        one.node(operator, [name], result, axes=[0])


def cast(one: Drawing) -> None:
    """Draw a Cast there and back through another type."""
    name = one.integers()
    if not name or (np.abs(one.values[name]) > 2**20).any():
        return
    to, kind = one.pick(
        (TensorProto.FLOAT, np.float32), (TensorProto.INT32, np.int32), (TensorProto.DOUBLE, np.float64)
    )
    there = one.node("Cast", [name], one.values[name].astype(kind), to=to)
    if to != TensorProto.INT32 and one.pick(True, False):
        factor = one.constant(one.pick(0.5, 2.0, 0.3, 1.7), kind)
        operator, function = one.pick(("Mul", np.multiply), ("Div", np.divide), ("Add", np.add))
        there = one.node(operator, [there, factor], function(one.values[there], one.values[factor]))
        operator, function = one.pick(("Floor", np.floor), ("Ceil", np.ceil), ("Floor", np.floor))
        there = one.node(operator, [there], function(one.values[there]))
    one.node("Cast", [there], one.values[there].astype(np.int64), to=TensorProto.INT64)


def arithmetic(one: Drawing) -> None:
    """Draw arithmetic of two integers, or of vectors."""
    first, second = one.integers(), one.integers()
    if not first:
        return
    if not second or one.pick(True, False):
        second = one.constant(one.rng.integers(1, 5))
    if one.pick(True, False, False):
        first, second = second, first
    a, b = one.values[first], one.values[second]
    if a.ndim == b.ndim == 1 and len(a) != len(b) and 1 not in (len(a), len(b)):
        return
    operator, function = one.pick(
        ("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", None), ("Mod", np.mod)
    )
    if operator in ("Div", "Mod"):
        if (b <= 0).any():
            return
        function = function or (lambda x, y: (np.abs(x) // y) * np.sign(x))
    if operator == "Mod" and one.opset < 10:
        return
    value = function(a, b)
    if (np.abs(value) < 2**31).all():
        one.node(operator, [first, second], value)


def extremum(one: Drawing) -> None:
    """Draw Min, Max, Neg, Abs, or a reduction."""
    name = one.integers()
    if not name:
        return
    value = one.values[name]
    if value.ndim == 1 and len(value) and one.pick(True, False):
        operator, function = one.pick(
            ("ReduceProd", np.prod), ("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)
        )
        result = np.asarray(function(value), np.int64).reshape(1)
        if abs(int(result[0])) < 2**31:
            one.node(operator, [name], result, keepdims=1)
    elif one.opset >= 12 and one.pick(True, False):
        other = one.constant(one.rng.integers(1, 5))
        operator, function = one.pick(("Min", np.minimum), ("Max", np.maximum))
        one.node(operator, [name, other], function(value, one.values[other]))
    else:
        operator, function = one.pick(("Neg", np.negative), ("Abs", np.abs))
        one.node(operator, [name], function(value))


def where(one: Drawing) -> None:
    """Draw a comparison, and Where by it."""
    name = one.integers(1)
    if not name:
        return
    value = one.values[name]
    limit = one.constant(one.pick(-1, 1, 2, 3, 4))
    operator, function = one.pick(("Equal", np.equal), ("Less", np.less), ("Greater", np.greater))
    flag = one.node(operator, [name, limit], function(value, one.values[limit]))
    if one.pick(True, False):
        flag = one.node("Not", [flag], ~one.values[flag])
    other = one.constant(one.pick(1, 2, 7))
    one.node("Where", [flag, name, other], np.where(one.values[flag], value, one.values[other]))


def count(one: Drawing) -> None:
    """Draw Range, ConstantOfShape, NonZero or CumSum."""
    name = one.integers(0)
    if name and one.opset >= 11 and 0 <= one.values[name] <= 64 and one.pick(True, False):
        zero, step = one.constant(0), one.constant(one.pick(1, 2))
        one.node(
            "Range", [zero, name, step], np.arange(0, int(one.values[name]), int(one.values[step]), dtype=np.int64)
        )
        return
    name = one.integers(1)
    value = one.values[name] if name else np.array([-1])
    if one.pick(True, False) and one.opset >= 9:
        one.node("NonZero", [name], np.array(np.nonzero(value), np.int64)) if name else None
    elif (value >= 0).all() and np.prod(value) <= LONGEST and len(value) <= 5:
        held = numpy_helper.from_array(np.array([one.pick(1, 3)], np.int64))
        one.node("ConstantOfShape", [name], np.full(value, numpy_helper.to_array(held)[0]), value=held)


# --- what shapes are for ----------------------------------------------------------------------------------------------


def reshape(one: Drawing) -> None:
    """Draw Reshape of data, to a shape that is computed."""
    data, name = one.floats(), one.integers(1)
    dims = one.values[name] if name else np.array([])
    if not name or len(dims) > 5:
        return
    value = one.values[data]
    wanted = [value.shape[at] if dim == 0 and at < value.ndim else int(dim) for at, dim in enumerate(dims)]
    if any(dim < -1 for dim in wanted) or wanted.count(-1) > 1 or (0 in dims.tolist() and len(dims) > value.ndim):
        return
    known = int(np.prod([dim for dim in wanted if dim >= 0]))
    if known and value.size % known == 0 and (-1 in wanted or known == value.size):
        one.node("Reshape", [data, name], value.reshape(wanted))
    elif known and value.size % known == 0 and len(dims) < 5:
        shape = one.node("Concat", [name, one.constant([-1])], np.append(dims, -1), axis=0)
        one.node("Reshape", [data, shape], value.reshape([*wanted, -1]))


def spread(one: Drawing) -> None:
    """Draw Expand or Tile by a shape that is computed."""
    data, name = one.floats(), one.integers(1)
    dims = one.values[name] if name else np.array([])
    value = one.values[data]
    if not name or (dims < 0).any() or not len(dims) or len(dims) > 5:
        return
    if one.pick(True, False) and len(dims) == value.ndim and int(np.prod(dims)) * value.size <= LONGEST:
        one.node("Tile", [data, name], np.tile(value, dims))
        return
    try:
        shape = np.broadcast_shapes(value.shape, tuple(dims.tolist()))
    except ValueError:
        return
    if np.prod(shape) <= LONGEST:
        one.node("Expand", [data, name], np.broadcast_to(value, shape))


def padded(one: Drawing) -> None:
    """Draw Pad of data by pads that are computed, or Slice by ends."""
    data = one.floats()
    value = one.values[data]
    pads = one.any(
        lambda name, found: (
            found.dtype == np.int64
            and name not in one.data
            and found.shape == (2 * value.ndim,)
            and bool((found >= 0).all() and (found < 8).all())
        )
    )
    if pads and one.opset >= 11 and value.ndim:
        widths = one.values[pads].reshape(2, -1).T
        one.node("Pad", [data, pads], np.pad(value, widths))
        return
    end = one.integers(1)
    if value.ndim and one.opset >= 10 and end and one.values[end].shape == (1,) and one.values[end][0] > 0:
        zero = one.constant([0])
        one.node("Slice", [data, zero, end, zero], value[: one.values[end][0]])


def resized(one: Drawing) -> None:
    """Draw Resize of data to twice the size of its last axes, as exporters write it."""
    data = one.any(
        lambda name, value: name in one.data and value.ndim == 4 and value.dtype == np.float32 and value.size > 0
    )
    if not data or one.opset < 11:
        return
    value = one.values[data]
    whole = one.node("Shape", [data], np.array(value.shape, np.int64))
    first = one.node("Slice", [whole, one.constant([0]), one.constant([2]), one.constant([0])], one.values[whole][:2])
    last = one.node("Slice", [whole, one.constant([2]), one.constant([4]), one.constant([0])], one.values[whole][2:])
    twice = one.node("Mul", [last, one.constant(2)], one.values[last] * 2)
    sizes = one.node("Concat", [first, twice], np.concatenate([one.values[first], one.values[twice]]), axis=0)
    empty = one.constant([], np.float32)
    result = value.repeat(2, 2).repeat(2, 3)
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    one.node("Resize", [data, empty if one.opset < 13 else "", empty if one.opset < 13 else "", sizes], result, **how)


def mixed(one: Drawing) -> None:
    """Draw data times a number that follows from shapes."""
    data, name = one.floats(), one.integers(0)
    if name and abs(int(one.values[name])) < 1000:
        number = one.node("Cast", [name], one.values[name].astype(np.float32), to=TensorProto.FLOAT)
        one.node("Mul", [data, number], one.values[data] * one.values[number])


def branched(one: Drawing) -> None:
    """Draw an If that asks how long an axis is."""
    data, name = one.floats(), one.integers(0)
    if not name or one.opset < 11:
        return
    limit = one.constant(one.pick(1, 3, 4))
    flag = one.node("Greater", [name, limit], np.greater(one.values[name], one.values[limit]))
    kind = helper.make_tensor_value_info
    out = f"b{len(one.nodes)}"
    graphs = [
        helper.make_graph([helper.make_node(operator, [data], [out])], out, [], [kind(out, TensorProto.FLOAT, None)])
        for operator in ("Neg", "Abs")
    ]
    value = -one.values[data] if one.values[flag] else np.abs(one.values[data])
    one.data.add(one.node("If", [flag], value, then_branch=graphs[0], else_branch=graphs[1]))


def looped(one: Drawing) -> None:
    """Draw a Loop that adds the number of the iteration, as often as an axis is long, and lists its sums."""
    data, name = one.floats(), one.integers(0)
    if not name or one.opset < 11 or not 0 < one.values[name] <= 6:
        return
    kind = helper.make_tensor_value_info
    here = f"l{len(one.nodes)}"
    names = [f"{here}{part}" for part in ("i", "go", "sum", "again", "number", "next", "row")]
    number, go, total, again, step, after, row = names
    body = helper.make_graph(
        [
            helper.make_node("Identity", [go], [again]),
            helper.make_node("Cast", [number], [step], to=TensorProto.FLOAT),
            helper.make_node("Add", [total, step], [after]),
            helper.make_node("Mul", [after, step], [row]),
        ],
        here,
        [kind(number, TensorProto.INT64, []), kind(go, TensorProto.BOOL, []), kind(total, TensorProto.FLOAT, None)],
        [kind(again, TensorProto.BOOL, []), kind(after, TensorProto.FLOAT, None), kind(row, TensorProto.FLOAT, None)],
    )
    value, rows = one.values[data], []
    for turn in range(int(one.values[name])):
        value = value + np.float32(turn)
        rows.append(value * np.float32(turn))
    if np.stack(rows).size > LONGEST or value.ndim > 4:
        return
    outputs = [f"v{len(one.values)}", f"v{len(one.values) + 1}"]
    one.nodes.append(helper.make_node("Loop", [name, "", data], outputs, name=here, body=body))
    one.values |= {outputs[0]: value, outputs[1]: np.stack(rows)}
    one.data |= set(outputs)


SHAPES = (shape, gather, sliced, concat, unsqueeze, cast, arithmetic, extremum, where, count)
USES = (reshape, spread, padded, resized, mixed, branched, looped)


def draw(seed: int) -> onnx.ModelProto:
    """Return a model of one input, `x` of the dims n, c, h, w, and up to eight outputs."""
    rng = np.random.default_rng(seed)
    opset = int(rng.choice([9, 11, 12, 13, 17, 18, 21]))
    one = Drawing(rng, opset)
    dims = ["n", "c", "h", "w"][: int(rng.integers(2, 5))]
    one.values["x"] = rng.standard_normal([SIZES[dim] for dim in dims]).astype(np.float32)
    one.data.add("x")
    shape(one)
    for _ in range(int(rng.integers(8, 30))):
        one.pick(*SHAPES, *SHAPES, *USES)(one)
    return _model(one, dims)


def _model(one: Drawing, dims: list[str]) -> onnx.ModelProto:
    made = [name for node in one.nodes for name in node.output if node.op_type != "Constant"]
    read = {name for node in one.nodes for name in node.input}
    ends = [name for name in made if name not in read] or made[-1:]
    shown = ends[-6:] + [name for name in made if name in one.data and name not in ends][-2:]
    outputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.values[name].dtype), None)
        for name in shown
    ]
    graph = helper.make_graph(
        one.nodes, "drawn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)], outputs
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", one.opset)], ir_version=8)
