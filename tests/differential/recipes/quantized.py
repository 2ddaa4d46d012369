"""Quantization and integer products."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from differential import values
from differential.draw import Draw
from differential.recipes.reduction import matrices
from differential.recipes.registry import recipe
from differential.values import FLOAT


@recipe("QuantizeLinear", "DequantizeLinear")
def linear(draw: Draw) -> None:
    quantizes = draw.operator == "QuantizeLinear"
    form = draw.pick(("tensor", "tensor", "axis", "block"))
    shape = draw.shape(2 if form == "block" else 1 if form == "axis" else 0, 4, empty=form != "block")
    if draw.version < 13 and form != "tensor":
        form = "tensor"
    if draw.version < 21 and form == "block":
        form = "axis"
    scale_shape: tuple[int, ...] = ()
    if form == "axis":
        axis = draw.option("axis", draw.axis(len(shape)))
        if not -len(shape) <= axis < len(shape):
            axis = -1
            draw.set(axis=axis)
        scale_shape = (shape[axis],)
    elif form == "block":
        axis, block = draw.integer(0, len(shape) - 1), draw.integer(1, 3)
        draw.set(axis=axis, block_size=block)
        dims = list(shape)
        dims[axis] = block * draw.integer(1, 3)
        shape = tuple(dims)
        scale_shape = tuple(dim // block if i == axis else dim for i, dim in enumerate(shape))
    draw.tensor(0, shape, "tame" if quantizes else "any")
    kind = draw.input_type(1)
    scales = np.asarray([0.5, 0.25, 0.1, 1.0, 2.0])[draw.rng.integers(0, 5, scale_shape)]
    draw.add(draw.fixed(scales, kind))
    if not quantizes:
        zero = values.sample(draw.rng, draw.input_type(2), scale_shape, 0, "small")
        if draw.input_type(2) == values.INT32 or not values.is_integer(draw.input_type(2)):
            zero = np.zeros(scale_shape)
        draw.add(draw.fixed(zero, draw.input_type(2)) if draw.chance(0.6) else None)
        # "If not supplied, the output data type is inferred from `x_scale`": FLOAT8E8M0 is no type that y may have.
        if draw.has("output_dtype") and (draw.chance(0.1) or kind == TensorProto.FLOAT8E8M0):
            draw.set(output_dtype=draw.type(draw.schema.outputs[0].type_str))
        elif draw.schema.outputs[0].type_str not in draw.types:
            draw.output_type(kind if draw.version >= 19 else FLOAT)
        return
    out: int = values.UINT8
    if draw.chance(0.7):
        out = draw.input_type(2)
        zero = values.sample(draw.rng, out, scale_shape, 0, "small")
        draw.add(draw.fixed(zero if values.is_integer(out) else np.zeros(scale_shape), out))
        if draw.has("output_dtype") and draw.chance(0.2):
            draw.set(output_dtype=out)
    elif draw.has("output_dtype") and draw.chance(0.5):
        out = draw.type(draw.schema.outputs[0].type_str)
        draw.set(output_dtype=out)
    draw.option("saturate", draw.integer(0, 1), 0.2)
    draw.output_type(out)


@recipe("DynamicQuantizeLinear")
def dynamic(draw: Draw) -> None:
    draw.tensor(0, draw.shape(empty=False), "finite")
    if draw.chance(0.15):
        draw.drawn.inputs[0] = draw.fixed(np.zeros(draw.shape(empty=False)), FLOAT, constant=False)


@recipe("MatMulInteger")
def matmul_integer(draw: Draw) -> None:
    left, right = matrices(draw)
    draw.tensor(0, left)
    draw.tensor(1, right)
    for index, shape in enumerate((left, right)):
        kind = draw.input_type(index)
        zero_shape = draw.pick(((), (1,))) if not index or len(shape) < 2 else draw.pick(((), (shape[-1],)))
        zero = values.sample(draw.rng, kind, zero_shape, 0)
        draw.add(draw.fixed(zero, kind) if draw.chance(0.6) else None)


@recipe("QLinearMatMul")
def qlinear_matmul(draw: Draw) -> None:
    left, right = matrices(draw)
    for index, shape in ((0, left), (3, right)):
        draw.tensor(index, shape)
        draw.add(draw.fixed(draw.pick((0.5, 0.1)), draw.input_type(index + 1)))
        draw.add(draw.fixed(draw.integer(0, 3), draw.input_type(index + 2)))
    draw.add(draw.fixed(draw.pick((0.5, 2.0)), draw.input_type(6)), draw.fixed(draw.integer(0, 3), draw.input_type(7)))
