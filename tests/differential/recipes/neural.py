"""Convolutions, pools, recurrent operators and those that sample images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from differential import values
from differential.draw import Argument, Draw
from differential.recipes.registry import recipe
from differential.values import FEEDS, FLOAT, INT64


@dataclass
class Window:
    """The window of a convolution or a pool."""

    dims: int
    kernel: list[int]
    image: list[int]


def window(draw: Draw, ceil: bool = False) -> Window:
    """Draw kernel_shape, strides, pads or auto_pad, and dilations, and an image that holds the window."""
    dims = draw.pick((1, 2, 2, 2, 3))
    kernel = [draw.integer(1, 3) for _ in range(dims)]
    strides = [draw.integer(1, 3) for _ in range(dims)] if draw.chance(0.6) else [1] * dims
    dilations = [draw.integer(1, 2) for _ in range(dims)] if draw.has("dilations") and draw.chance(0.35) else [1] * dims
    if strides != [1] * dims or draw.chance(0.3):
        draw.set(strides=strides)
    if dilations != [1] * dims:
        draw.set(dilations=dilations)
    auto = draw.pick(("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")) if draw.has("auto_pad") else "NOTSET"
    if auto != "NOTSET" or draw.chance(0.2):
        draw.set(auto_pad=auto)
    extent = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    pads = [
        draw.integer(0, extent[i % dims] - 1 if extent[i % dims] == kernel[i % dims] else 0) for i in range(2 * dims)
    ]
    if auto == "NOTSET" and draw.chance(0.6):
        draw.set(pads=pads)
    image = [draw.integer(size, size + 4) for size in extent]
    if ceil and draw.has("ceil_mode"):
        draw.option("ceil_mode", draw.integer(0, 1))
    return Window(dims, kernel, image)


@recipe("Conv")
def conv(draw: Draw) -> None:
    group = draw.option("group", draw.integer(1, 2))
    each_in, each_out = draw.integer(1, 2), draw.integer(1, 2)
    drawn = window(draw)
    if draw.chance(0.7):
        draw.set(kernel_shape=drawn.kernel)
    draw.tensor(0, (draw.dim(), group * each_in, *drawn.image), "tame" if draw.chance(0.15) else "finite")
    draw.tensor(1, (group * each_out, each_in, *drawn.kernel), "finite")
    draw.add(draw.data(draw.input_type(0), (group * each_out,), "finite") if draw.chance(0.5) else None)


@recipe("ConvTranspose")
def conv_transpose(draw: Draw) -> None:
    group = draw.option("group", draw.integer(1, 2))
    each_in, each_out = draw.integer(1, 2), draw.integer(1, 2)
    drawn = window(draw)
    strides = draw.drawn.attributes.get("strides", [1] * drawn.dims)
    if draw.chance(0.7):
        draw.set(kernel_shape=drawn.kernel)
    if draw.chance(0.3):
        draw.set(output_padding=[draw.integer(0, stride - 1) for stride in strides])
    draw.tensor(0, (draw.integer(1, 2), group * each_in, *(draw.integer(2, 4) for _ in range(drawn.dims))), "finite")
    draw.tensor(1, (group * each_in, each_out, *drawn.kernel), "finite")
    draw.add(draw.data(draw.input_type(0), (group * each_out,), "finite") if draw.chance(0.5) else None)


@recipe("ConvInteger", "QLinearConv")
def conv_integer(draw: Draw) -> None:
    group = draw.option("group", draw.integer(1, 2))
    each_in, each_out = draw.integer(1, 2), draw.integer(1, 2)
    drawn = window(draw)
    if draw.chance(0.7):
        draw.set(kernel_shape=drawn.kernel)
    image = (draw.integer(1, 2), group * each_in, *drawn.image)
    weights = (group * each_out, each_in, *drawn.kernel)
    if draw.operator == "ConvInteger":
        draw.tensor(0, image)
        draw.tensor(1, weights)
        for index in (0, 1):
            kind = draw.input_type(index)
            shape = draw.pick(((), (), (weights[0],))) if index else ()
            zero = [values.sample(draw.rng, kind, shape, 0)] * FEEDS
            draw.add(draw.fixed(zero[0], kind) if draw.chance(0.6) else None)
        return
    per_channel = draw.chance(0.4)
    draw.tensor(0, image)
    draw.add(_scale(draw), _zero_point(draw, 2))
    draw.tensor(3, weights)
    draw.add(
        _scale(draw, (weights[0],) if per_channel else ()), _zero_point(draw, 5, (weights[0],) if per_channel else ())
    )
    draw.add(_scale(draw), _zero_point(draw, 7))
    draw.add(draw.data(values.INT32, (weights[0],), "small") if draw.chance(0.5) else None)


def _scale(draw: Draw, shape: tuple[int, ...] = ()) -> Argument:
    return draw.fixed(np.full(shape, draw.pick((0.5, 0.25, 0.125, 0.1)), np.float32), FLOAT)


def _zero_point(draw: Draw, index: int, shape: tuple[int, ...] = ()) -> Argument:
    kind = draw.input_type(index)
    value = draw.integer(0, 3) if index != 5 else 0
    return draw.fixed(np.full(shape, value), kind)


@recipe("DeformConv")
def deform_conv(draw: Draw) -> None:
    group, offset_group = 1, draw.integer(1, 2)
    draw.option("group", group)
    channels, kernel = 2, [draw.integer(1, 2), draw.integer(1, 2)]
    if offset_group != 1:
        draw.set(offset_group=offset_group)
    if draw.chance(0.6):
        draw.set(kernel_shape=kernel)
    strides = [draw.integer(1, 2), draw.integer(1, 2)] if draw.chance(0.5) else [1, 1]
    pads = [draw.integer(0, 1) for _ in range(4)]
    draw.set(strides=strides, pads=pads)
    image = [draw.integer(3, 5), draw.integer(3, 5)]
    out = [(image[i] + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in range(2)]
    batch, maps = draw.integer(1, 2), draw.integer(1, 2)
    count = offset_group * kernel[0] * kernel[1]
    draw.tensor(0, (batch, channels, *image), "finite")
    draw.tensor(1, (maps, channels, *kernel), "finite")
    draw.tensor(2, (batch, 2 * count, *out), "unit")
    draw.add(draw.data(draw.input_type(0), (maps,), "finite") if draw.chance(0.5) else None)
    draw.add(draw.data(draw.input_type(0), (batch, count, *out), "unit") if draw.chance(0.5) else None)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(draw: Draw) -> None:
    drawn = window(draw, ceil=True)
    draw.set(kernel_shape=drawn.kernel)
    shape = (draw.dim(), draw.integer(1, 2), *drawn.image)
    draw.tensor(0, shape, "any" if draw.operator == "MaxPool" else "finite")
    draw.option("count_include_pad", draw.integer(0, 1))
    draw.option("storage_order", draw.integer(0, 1), 0.3)
    draw.option("p", draw.integer(1, 3))
    if draw.operator == "MaxPool":
        draw.outputs(True, draw.version >= 8 and draw.chance(0.4))


@recipe("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(draw: Draw) -> None:
    draw.tensor(0, draw.shape(3, 5, empty=draw.chance(0.3)), "finite")
    draw.option("p", draw.integer(1, 3))


@recipe("MaxUnpool")
def max_unpool(draw: Draw) -> None:
    batch, channels = draw.integer(1, 2), draw.integer(1, 2)
    small, kernel = [draw.integer(1, 3), draw.integer(1, 3)], [2, 2]
    draw.set(kernel_shape=kernel, strides=[2, 2])
    size = 4 * small[0] * small[1]
    draw.tensor(0, (batch, channels, *small))
    places = [
        np.stack(
            [draw.rng.permutation(size)[: small[0] * small[1]] + plane * size for plane in range(batch * channels)]
        )
        for _ in range(FEEDS)
    ]
    draw.add(draw.each(INT64, [place.reshape(batch, channels, *small) for place in places]))
    if draw.chance(0.4):
        draw.add(draw.fixed([batch, channels, 2 * small[0], 2 * small[1]]))


@recipe("MaxRoiPool")
def max_roi_pool(draw: Draw) -> None:
    draw.tensor(0, (1, draw.integer(1, 2), 4, 4), "finite")
    count = draw.integer(1, 3)
    rois = [
        np.concatenate(
            [np.zeros((count, 1)), draw.rng.integers(0, 2, (count, 2)), draw.rng.integers(2, 4, (count, 2))], 1
        )
        for _ in range(3)
    ]
    draw.add(draw.each(draw.input_type(0), rois))
    draw.set(pooled_shape=[draw.integer(1, 2), draw.integer(1, 2)])
    draw.option("spatial_scale", draw.pick((1.0, 0.5)))


@recipe("RoiAlign")
def roi_align(draw: Draw) -> None:
    batch, count = draw.integer(1, 2), draw.dim()
    draw.tensor(0, (batch, draw.integer(1, 2), 4, 5), "finite")
    low, high = draw.rng.uniform(0, 2, (count, 2)), draw.rng.uniform(2, 5, (count, 2))
    draw.add(draw.each(draw.input_type(0), [np.concatenate([low, high], 1)] * FEEDS))
    draw.add(draw.each(INT64, [draw.rng.integers(0, batch, (count,)) for _ in range(FEEDS)]))
    draw.option("mode", draw.pick(("avg", "max")))
    draw.option("output_height", draw.integer(1, 3))
    draw.option("output_width", draw.integer(1, 3))
    draw.option("sampling_ratio", draw.integer(0, 2))
    draw.option("spatial_scale", draw.pick((1.0, 0.5)))
    draw.option("coordinate_transformation_mode", draw.pick(("half_pixel", "output_half_pixel")))


@recipe("GridSample")
def grid_sample(draw: Draw) -> None:
    dims = 2 if draw.version < 20 or draw.chance(0.6) else 3
    batch = draw.dim()
    draw.tensor(0, (batch, draw.integer(1, 2), *(draw.integer(1, 4) for _ in range(dims))), "finite")
    draw.tensor(1, (batch, *(draw.dim() for _ in range(dims)), dims), "unit")
    names = ("bilinear", "nearest", "bicubic") if draw.version < 20 else ("linear", "nearest", "cubic")
    draw.option("mode", draw.pick(names[: 3 if dims == 2 else 2]))
    draw.option("padding_mode", draw.pick(("zeros", "border", "reflection")))
    draw.option("align_corners", draw.integer(0, 1))


@recipe("AffineGrid")
def affine_grid(draw: Draw) -> None:
    dims = draw.integer(2, 3)
    batch = draw.integer(1, 2)
    draw.tensor(0, (batch, dims, dims + 1), "finite")
    draw.add(draw.fixed([batch, draw.integer(1, 2), *(draw.integer(1, 4) for _ in range(dims))]))
    draw.option("align_corners", draw.integer(0, 1))


@recipe("LRN")
def lrn(draw: Draw) -> None:
    draw.tensor(0, draw.shape(4, 4, empty=draw.chance(0.3)), "finite")
    draw.set(size=draw.pick((1, 3, 5)))
    draw.option("alpha", draw.pick((1e-4, 0.1)))
    draw.option("beta", draw.pick((0.75, 0.5)))
    draw.option("bias", draw.pick((1.0, 2.0)))


@recipe("RNN", "GRU", "LSTM")
def recurrent(draw: Draw) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[draw.operator]
    direction = draw.option("direction", draw.pick(("forward", "reverse", "bidirectional")))
    directions = 2 if direction == "bidirectional" else 1
    length, batch, size, hidden = draw.integer(1, 3), draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3)
    if draw.chance(0.04):
        length = 0
    draw.set(hidden_size=hidden)
    layout = draw.option("layout", draw.integer(0, 1), 0.2) if draw.has("layout") else 0
    kind = draw.input_type(0)
    draw.add(draw.data(kind, (batch, length, size) if layout else (length, batch, size), "unit"))
    draw.add(draw.data(kind, (directions, gates * hidden, size), "unit"))
    draw.add(draw.data(kind, (directions, gates * hidden, hidden), "unit"))
    draw.add(draw.data(kind, (directions, 2 * gates * hidden), "unit") if draw.chance(0.6) else None)
    lengths = [draw.rng.integers(min(1, length), length + 1, (batch,)) for _ in range(FEEDS)]
    draw.add(draw.each(values.INT32, lengths) if draw.chance(0.4) else None)
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    draw.add(draw.data(kind, state, "unit") if draw.chance(0.5) else None)
    if draw.operator == "LSTM":
        draw.add(draw.data(kind, state, "unit") if draw.chance(0.5) else None)
        draw.add(draw.data(kind, (directions, 3 * hidden), "unit") if draw.chance(0.3) else None)
        draw.option("input_forget", draw.integer(0, 1), 0.2)
    _activations(draw, directions)
    draw.option("linear_before_reset", draw.integer(0, 1))
    if draw.chance(0.2):
        draw.set(clip=draw.pick((0.5, 3.0)))
    used = [draw.chance(0.7) for _ in draw.schema.outputs]
    if not any(used):
        used[0] = True
    draw.outputs(*used)


def _activations(draw: Draw, directions: int) -> None:
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[draw.operator] * directions
    if draw.chance(0.3):
        draw.set(activations=[draw.pick(("Tanh", "Sigmoid", "Relu", "Softsign", "Softplus")) for _ in range(count)])


@recipe("CausalConvWithState")
def causal_conv(draw: Draw) -> None:
    batch, channels, length, kernel = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 3)
    kind = draw.input_type(0)
    draw.add(draw.data(kind, (batch, channels, length), "finite"))
    draw.add(draw.data(kind, (channels, 1, kernel), "finite"))
    draw.add(draw.data(kind, (channels,), "finite") if draw.chance(0.5) else None)
    draw.add(draw.data(kind, (batch, channels, kernel - 1), "finite") if draw.chance(0.5) else None)
    draw.option("activation", draw.pick(("none", "silu", "swish")))
    draw.outputs(True, True)
