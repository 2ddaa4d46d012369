"""Operators that compute each element by itself, and those that broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto

from differential import values
from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import BOOL, FEEDS, Domain

_DOMAINS: dict[str, Domain] = {"Acos": "unit", "Asin": "unit", "Atanh": "unit"}
_ATTRIBUTES: dict[str, tuple[object, ...]] = {
    "alpha": (0.5, 1.0, 2.0, 0.01, 0.25),
    "beta": (0.0, 0.5, 1.0),
    "gamma": (1.0, 1.05, 2.0, 0.5),
    "bias": (0.0, 0.5, -1.0),
    "lambd": (0.5, 0.0, 1.0),
    "detect_negative": (0, 1),
    "detect_positive": (0, 1),
    "approximate": ("none", "tanh"),
}


def by_schema(draw: Draw) -> None:
    """Draw an elementwise operator: all inputs have the first one's shape."""
    shape = draw.shape()
    for index, _ in enumerate(draw.schema.inputs):
        domain = _DOMAINS.get(draw.operator, "any")
        if draw.operator == "Shrink" and values.is_integer(draw.input_type(0)):
            domain = "finite"  # onnxruntime adds a float, which no end of the range survives
        draw.tensor(index, shape, domain)
    for name in draw.schema.attributes:
        if name in _ATTRIBUTES:
            draw.option(name, draw.pick(_ATTRIBUTES[name]))


@recipe("Shape")
def shape(draw: Draw) -> None:
    by_schema(draw)
    draw.option("start", draw.integer(-6, 6), 0.5)
    draw.option("end", draw.integer(-6, 6), 0.5)


@recipe("And", "Or", "Xor", "Add", "Sub", "Mul", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor", "StringConcat")
def binary(draw: Draw) -> None:
    whole = draw.shape()
    shapes = [whole, draw.broadcast(whole)]
    if draw.chance(0.3):
        shapes = [draw.broadcast(whole), whole]
    for index in range(2):
        draw.tensor(index, shapes[index])


@recipe("Div", "Mod")
def division(draw: Draw) -> None:
    whole = draw.shape()
    elem_type = draw.input_type(0)
    if draw.operator == "Mod" and values.numpy_type(elem_type).kind not in "iu":
        draw.set(fmod=1)
    elif draw.operator == "Mod":
        draw.option("fmod", draw.integer(0, 1))
    integers = values.numpy_type(elem_type).kind in "iu"
    draw.tensor(0, whole if draw.chance(0.7) else draw.broadcast(whole))
    draw.tensor(1, draw.broadcast(whole), "nonzero" if integers else "any")


@recipe("Pow")
def power(draw: Draw) -> None:
    whole = draw.shape()
    base, exponent = draw.input_type(0), draw.input_type(1)
    integers = values.numpy_type(base).kind in "iu" or values.numpy_type(exponent).kind in "iu"
    draw.add(draw.data(base, whole, "small" if integers else draw.pick(("positive", "tame"))))
    argument = draw.data(exponent, draw.broadcast(whole), "small")
    if values.numpy_type(base).kind in "iu":
        argument = draw.each(exponent, [np.abs(np.asarray(value).astype(np.float64)) for value in argument.values])
    draw.add(argument)


@recipe("BitShift")
def bit_shift(draw: Draw) -> None:
    draw.set(direction=draw.pick(("LEFT", "RIGHT")))
    whole = draw.shape()
    elem_type = draw.input_type(0)
    bits = values.numpy_type(elem_type).itemsize * 8
    draw.tensor(0, whole)
    shifted = draw.broadcast(whole)
    draw.add(draw.each(elem_type, [draw.rng.integers(0, bits, shifted) for _ in range(FEEDS)]))


@recipe("PRelu")
def prelu(draw: Draw) -> None:
    whole = draw.shape(1)
    draw.tensor(0, whole)
    draw.tensor(1, draw.broadcast(whole))


@recipe("Max", "Min", "Sum", "Mean")
def variadic(draw: Draw) -> None:
    whole = draw.shape()
    for _ in range(draw.integer(1, 4)):
        draw.tensor(0, whole if draw.version < 8 or draw.chance(0.4) else draw.broadcast(whole))


@recipe("Where")
def where(draw: Draw) -> None:
    whole = draw.shape()
    for index in range(3):
        draw.tensor(index, whole if draw.chance(0.4) else draw.broadcast(whole))


@recipe("Clip")
def clip(draw: Draw) -> None:
    draw.tensor(0, draw.shape())
    low = draw.pick((-2.0, 0.0, 0.5, -1.0))
    high = low + draw.pick((0.0, 1.0, 6.0))
    if draw.version < 11:
        draw.option("min", low)
        draw.option("max", high)
        return
    elem_type = draw.input_type(0)
    unsigned = values.numpy_type(elem_type).kind == "u"
    for bound in (low, high):
        draw.add(draw.fixed(abs(bound) if unsigned else bound, elem_type) if draw.chance(0.7) else None)


@recipe("Cast")
def cast(draw: Draw) -> None:
    source = draw.input_type(0)
    target = draw.type(draw.schema.outputs[0].type_str)
    draw.set(to=target)
    _cast(draw, source, target)


@recipe("CastLike")
def cast_like(draw: Draw) -> None:
    source, target = draw.input_type(0), draw.input_type(1)
    _cast(draw, source, target)
    draw.add(draw.data(target, draw.shape()))


def _cast(draw: Draw, source: int, target: int) -> None:
    whole_floats = values.is_float(target) or target in (values.BOOL, values.STRING)
    domain: Domain = "any" if whole_floats else "small"
    draw.add(draw.data(source, draw.shape(), "numeric" if source == values.STRING else domain))
    if draw.has("saturate"):
        draw.option("saturate", draw.integer(0, 1), 0.4)
    if draw.has("round_mode") and target == TensorProto.FLOAT8E8M0:  # onnxruntime 1.32.0 opens no other Cast with it
        draw.option("round_mode", draw.pick(("up", "down", "nearest")), 0.3)


@recipe("BitCast")
def bit_cast(draw: Draw) -> None:
    source = draw.input_type(0)
    choices = [
        target
        for constraint in draw.schema.type_constraints
        if constraint.type_param_str == draw.schema.outputs[0].type_str
        for target in values.elem_types(list(constraint.allowed_type_strs))
        if target not in values.NARROW_INTEGERS
        and values.numpy_type(target).itemsize == values.numpy_type(source).itemsize
        and target not in (values.STRING, BOOL)
    ]
    narrow = [target for target in values.NARROW_INTEGERS if target == source]
    target = draw.pick(narrow or choices or [source])
    draw.set(to=target)
    draw.types[draw.schema.outputs[0].type_str] = target
    draw.add(draw.data(source, draw.shape(), "finite"))


@recipe("Dropout")
def dropout(draw: Draw) -> None:
    draw.tensor(0, draw.shape())
    ratio = draw.pick((0.0, 0.25, 0.5))
    draw.option("ratio", ratio)
    draw.option("seed", 7, 0.3)
    if draw.version >= 12:
        draw.add(draw.fixed(ratio, draw.input_type(1)) if draw.chance(0.6) else None)
        training = draw.chance(0.2)
        draw.add(draw.fixed(training, BOOL) if draw.chance(0.5) else None)
        draw.drawn.random = training and draw.drawn.inputs[-1] is not None
    if draw.version < 10:
        draw.outputs(True, False)


@recipe("RandomUniformLike", "RandomNormalLike", "Bernoulli")
def random_like(draw: Draw) -> None:
    draw.drawn.random = True
    elem_type = draw.input_type(0, lambda each: values.is_float(each) or each == values.INT64)
    shape = draw.shape()
    if draw.operator == "Bernoulli":
        draw.add(draw.each(elem_type, [np.asarray(draw.rng.random(shape)) for _ in range(FEEDS)]))
    else:
        draw.add(draw.data(elem_type, shape, "unit"))
    _random(draw, draw.input_type(0))


@recipe("RandomUniform", "RandomNormal")
def random_of(draw: Draw) -> None:
    draw.drawn.random = True
    draw.set(shape=list(draw.shape(1)))
    _random(draw, values.FLOAT)


def _random(draw: Draw, otherwise: int) -> None:
    draw.option("seed", 3.0)
    for name in ("low", "mean"):
        draw.option(name, 0.5, 0.4)
    for name in ("high", "scale"):
        draw.option(name, 2.0, 0.4)
    chosen = draw.chance(0.6)
    target = draw.type(draw.schema.outputs[0].type_str) if chosen else otherwise
    if not chosen and not _allowed(draw, target):
        chosen, target = True, values.FLOAT
    if chosen:
        draw.set(dtype=target)
    draw.output_type(target)


def _allowed(draw: Draw, elem_type: int) -> bool:
    return any(
        elem_type in values.elem_types(list(constraint.allowed_type_strs))
        for constraint in draw.schema.type_constraints
        if constraint.type_param_str == draw.schema.outputs[0].type_str
    )


@recipe("Multinomial")
def multinomial(draw: Draw) -> None:
    draw.drawn.random = True
    draw.tensor(0, (draw.integer(1, 3), draw.integer(1, 4)), "finite")
    draw.option("sample_size", draw.integer(1, 4))
    draw.option("seed", 3.0)
    target = draw.option("dtype", draw.pick((values.INT32, values.INT64)))
    draw.output_type(target)


@recipe("SwiGLU")
def swiglu(draw: Draw) -> None:
    whole = draw.shape(1)
    draw.tensor(0, whole, "tame")
    draw.tensor(1, whole, "finite")  # onnxruntime 1.32.0 cuts Sigmoid to 0 below -18, which makes NaN of an infinity
    draw.option("alpha", draw.pick((0.5, 1.0, 1.702)))


@recipe("Constant")
def constant(draw: Draw) -> None:
    forms = [name for name in draw.schema.attributes if name != "sparse_value"]
    form = draw.pick(forms)
    numbers = [draw.integer(-3, 3) for _ in range(draw.integer(0, 4))]
    if form == "value":
        elem_type = draw.type(draw.schema.outputs[0].type_str)
        array = values.sample(draw.rng, elem_type, draw.shape(), draw.integer(0, 2))
        draw.set(value=values.tensor(array, elem_type))
        draw.output_type(elem_type)
        return
    forms_of = {
        "value_float": (1.5, values.FLOAT),
        "value_floats": ([float(number) for number in numbers], values.FLOAT),
        "value_int": (draw.integer(-3, 3), values.INT64),
        "value_ints": (numbers, values.INT64),
        "value_string": ("text", values.STRING),
        "value_strings": ([str(number) for number in numbers], values.STRING),
    }
    value, elem_type = forms_of[form]
    if isinstance(value, list) and not value:
        kind: Any = {
            values.FLOAT: AttributeProto.FLOATS,
            values.INT64: AttributeProto.INTS,
            values.STRING: AttributeProto.STRINGS,
        }
        draw.drawn.attributes[form] = AttributeProto(name=form, type=kind[elem_type])
    else:
        draw.drawn.attributes[form] = value
    draw.output_type(elem_type)
