"""Values between nodes: what makes an input of other values, and what computes more of an output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, TypeProto, defs, helper

from differential import values
from differential.draw import Argument
from differential.schemas import allows, type_string
from differential.values import BOOL, FEEDS, FLOAT, INT32, INT64, Array

if TYPE_CHECKING:
    from differential.embed import Embedder

_CONSUMERS = (
    *("Abs", "Celu", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg"),
    *("Not", "Relu", "Round", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Size", "Softplus", "Softsign", "Swish"),
    *("Tanh", "ThresholdedRelu", "IsNaN", "IsInf", "BitwiseNot", "Ceil", "Floor", "Identity", "Dropout"),
)
"""Operators that take a value of any shape."""


def consume(to: Embedder, name: str, kind: TypeProto) -> tuple[str, TypeProto] | None:
    """Add a node that computes something of an output; return its own output, None if no operator fits."""
    if not kind.HasField("tensor_type"):
        return None
    fitting = [each for each in _CONSUMERS if allows(each, to.opset, type_string(kind))]
    if not fitting:
        return None
    operator = str(to.rng.choice(fitting))
    node = helper.make_node(operator, [name], [to.name("after")], name=to.name("node"))
    found = _result(operator, to.opset, kind)
    if operator in ("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Swish", "ThresholdedRelu") and to.chance(0.5):
        node.attribute.append(helper.make_attribute("alpha", 0.25))
    to.nodes.append(node)
    return node.output[0], found


def _result(operator: str, opset: int, kind: TypeProto) -> TypeProto:
    variable = defs.get_schema(operator, opset, "").outputs[0].type_str
    elem_type = {"tensor(int64)": INT64, "tensor(bool)": BOOL}.get(variable, kind.tensor_type.elem_type)
    if operator in ("Shape", "Size"):
        elem_type = INT64
    if operator in ("IsNaN", "IsInf"):
        elem_type = BOOL
    return helper.make_tensor_type_proto(elem_type, None)


# Inputs


def produce(to: Embedder, argument: Argument) -> str | None:
    """Make a value that equals the argument of other inputs or constants; None if that cannot be done."""
    if not argument.is_tensor or argument.elem_type in values.NARROW_INTEGERS:
        return None
    maker = _MAKERS[int(to.rng.integers(0, len(_MAKERS)))]
    return maker(to, argument)


def _other(argument: Argument, kept: list[Any], elem_type: int | None = None) -> Argument:
    elem_type, kept = elem_type or argument.elem_type, [np.asarray(value) for value in kept]
    made = helper.make_tensor_type_proto(elem_type, np.shape(kept[0]))
    return Argument(made, kept, argument.fixed, argument.constant)


def _node(embedder: Embedder, operator: str, inputs: list[str], **attributes: Any) -> str:
    made = helper.make_node(operator, inputs, [embedder.name("made")], name=embedder.name("node"), **attributes)
    embedder.nodes.append(made)
    return str(made.output[0])


def _transposed(to: Embedder, argument: Argument) -> str | None:
    rank = np.ndim(argument.values[0])
    if rank < 2 or not allows("Transpose", to.opset, type_string(argument.type)):
        return None
    order = [int(axis) for axis in to.rng.permutation(rank)]
    source = to.outer(_other(argument, [np.transpose(value, np.argsort(order)) for value in argument.values]))
    return _node(to, "Transpose", [source], perm=order)


def _joined(to: Embedder, argument: Argument) -> str | None:
    """Put a value together of two parts, of which one is often a constant."""
    shape = np.shape(argument.values[0])
    if not shape or shape[0] < 2 or not allows("Concat", to.opset, type_string(argument.type)):
        return None
    if any(np.shape(value) != shape for value in argument.values):
        return None
    cut = int(to.rng.integers(1, shape[0]))
    parts = [to.outer(_other(argument, [value[part] for value in argument.values])) for part in _halves(cut)]
    return _node(to, "Concat", parts, axis=0)


def _halves(cut: int) -> tuple[slice, slice]:
    return slice(0, cut), slice(cut, None)


def _cut(to: Embedder, argument: Argument) -> str | None:
    """Cut a value out of a longer one: by Slice, or by a Split whose other output nothing uses."""
    shape = np.shape(argument.values[0])
    if not shape or shape[0] < 1 or any(np.shape(value) != shape for value in argument.values):
        return None
    longer = _other(argument, [np.concatenate([value, value]) for value in argument.values])
    kind = type_string(argument.type)
    if to.chance(0.5) and allows("Split", to.opset, kind):
        outputs = [to.name("made"), to.name("unused")]
        count: dict[str, Any] = {"num_outputs": 2} if to.opset >= 18 else {}
        source = to.outer(longer)
        to.nodes.append(helper.make_node("Split", [source], outputs, name=to.name("node"), axis=0, **count))
        return outputs[0]
    if not allows("Slice", to.opset, kind):
        return None
    source = to.outer(longer)
    if to.opset < 10:
        return _node(to, "Slice", [source], starts=[0], ends=[shape[0]], axes=[0])
    whole = [_whole(to, [value]) for value in (0, shape[0], 0)]
    return _node(to, "Slice", [source, *whole])


def _whole(to: Embedder, value: Any) -> str:
    array = np.array(value, np.int64)
    kind = helper.make_tensor_type_proto(INT64, array.shape)
    return to.outer(Argument(kind, [array] * FEEDS, True, True if to.chance(0.9) else None))


def _squeezed(to: Embedder, argument: Argument) -> str | None:
    operator, put = ("Unsqueeze", False) if to.chance(0.5) and np.ndim(argument.values[0]) else ("Squeeze", True)
    if operator == "Unsqueeze" and np.shape(argument.values[0])[0] != 1:
        return None
    if not allows(operator, to.opset, type_string(argument.type)):
        return None
    if any(np.shape(value)[:1] != (1,) for value in argument.values) and not put:
        return None
    source = to.outer(_other(argument, [value[None] if put else value[0] for value in argument.values]))
    if to.opset < 13:
        return _node(to, operator, [source], axes=[0])
    return _node(to, operator, [source, _whole(to, [0])])


_CASTS: dict[int, tuple[int, ...]] = {
    INT64: (INT32,),
    INT32: (INT64,),
    FLOAT: (values.DOUBLE,),
    values.DOUBLE: (FLOAT,),
    values.FLOAT16: (FLOAT, values.DOUBLE),
    BOOL: (INT32, FLOAT),
}


def _converted(to: Embedder, argument: Argument) -> str | None:
    """Cast a value that another type holds too."""
    others = _CASTS.get(argument.elem_type, ())
    if not others:
        return None
    other = others[int(to.rng.integers(0, len(others)))]
    with np.errstate(all="ignore"):
        kept: list[Array] = [np.asarray(value).astype(values.numpy_type(other)) for value in argument.values]
        back = [value.astype(values.numpy_type(argument.elem_type)) for value in kept]
    if not all(np.array_equal(a, b) for a, b in zip(back, argument.values, strict=True)):
        return None
    return _node(to, "Cast", [to.outer(_other(argument, kept, other))], to=argument.elem_type)


def _of_shapes(to: Embedder, argument: Argument) -> str | None:
    """Make dims of a Shape, as exporters do: Gather each, Unsqueeze, and Concat them."""
    value = np.asarray(argument.values[0])
    if not argument.fixed or argument.elem_type != INT64 or value.ndim != 1 or not value.size:
        return None
    if not ((value >= 0).all() and np.prod(value) <= values.MOST_SHAPED):
        return None
    source = to.name("shaped")
    to.values[source] = [np.zeros(tuple(int(dim) for dim in value), np.float32) for _ in range(FEEDS)]
    named = [to.name("dim") if to.chance(0.5) else int(dim) for dim in value]
    to.inputs.append(helper.make_tensor_value_info(source, TensorProto.FLOAT, named))
    dims = _node(to, "Shape", [source])
    parts = []
    for index in range(value.size):
        if to.chance(0.3):
            parts.append(_whole(to, [int(value[index])]))
            continue
        scalar = _node(to, "Gather", [dims, _whole(to, index)])
        if to.opset < 13:
            parts.append(_node(to, "Unsqueeze", [scalar], axes=[0]))
        else:
            parts.append(_node(to, "Unsqueeze", [scalar, _whole(to, [0])]))
    return _node(to, "Concat", parts, axis=0)


_MAKERS: tuple[Callable[[Embedder, Argument], str | None], ...] = (
    _transposed,
    _joined,
    _cut,
    _squeezed,
    _converted,
    _of_shapes,
)
