"""Operators that move, select or count data."""

from __future__ import annotations

import numpy as np

from differential import values
from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import BOOL, FEEDS, FLOAT, INT32, INT64


def indices(draw: Draw, elem_type: int, shape: tuple[int, ...], size: int, negative: bool) -> list[values.Array]:
    """Return one array of valid indices into `size` elements for each feed."""
    low = -size if negative else 0
    return [draw.rng.integers(low, max(size, low + 1), shape) for _ in range(FEEDS)]


@recipe("Transpose")
def transpose(draw: Draw) -> None:
    shape = draw.shape()
    draw.tensor(0, shape)
    if draw.chance(0.7):
        draw.set(perm=[int(axis) for axis in draw.rng.permutation(len(shape))]) if shape else None


@recipe("Reshape")
def reshape(draw: Draw) -> None:
    shape = draw.shape()
    draw.tensor(0, shape)
    size = int(np.prod(shape, dtype=np.int64))
    allowzero = draw.option("allowzero", draw.integer(0, 1), 0.4)
    target = list(shape)
    form = draw.integer(0, 4)
    if form == 1:
        target = [size]
    elif form == 2:
        target = [1, *shape, 1]
    elif form == 3 and shape:
        target = [shape[0], -1] if shape[0] else list(shape)
        if size == 0 and shape[0]:
            target = [shape[0], 0] if allowzero else list(shape)
    elif form == 4 and size:
        target = [-1, size] if size else target
    if size == 0 and not draw.has("allowzero"):
        target = [0 if dim == 0 else dim for dim in shape]
    if size and not allowzero and target == list(shape) and shape and draw.chance(0.3):
        target[draw.integer(0, len(shape) - 1)] = 0
    if 0 in target and not allowzero and any(i >= len(shape) for i, dim in enumerate(target) if dim == 0):
        target = list(shape)
    draw.add(draw.fixed(np.array(target, np.int64)))


@recipe("Flatten")
def flatten(draw: Draw) -> None:
    shape = draw.shape(1 if draw.version < 9 else 0)
    draw.tensor(0, shape)
    if shape:
        draw.option("axis", draw.integer(-len(shape) if draw.version >= 11 else 0, len(shape)))
    else:
        draw.set(axis=0)


@recipe("Squeeze")
def squeeze(draw: Draw) -> None:
    shape = tuple(1 if draw.chance(0.4) else dim for dim in draw.shape())
    draw.tensor(0, shape)
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    axes = sorted(draw.subset(ones))
    _axes(draw, axes, len(shape), optional=True)


@recipe("Unsqueeze")
def unsqueeze(draw: Draw) -> None:
    shape = draw.shape(0, 4)
    draw.tensor(0, shape)
    rank = len(shape) + draw.integer(1, 2)
    axes = [int(axis) for axis in draw.rng.permutation(rank)[: rank - len(shape)]]
    _axes(draw, axes, rank, optional=False)


def _axes(draw: Draw, axes: list[int], rank: int, optional: bool) -> None:
    if draw.opset >= 11:
        axes = [axis - rank if draw.chance(0.3) else axis for axis in axes]
    if draw.version >= 13:
        draw.add(draw.fixed(np.array(axes, np.int64)) if not optional or (axes and draw.chance(0.7)) else None)
    elif axes and (not optional or draw.chance(0.7)):
        draw.set(axes=axes)


@recipe("Concat")
def concat(draw: Draw) -> None:
    shape = list(draw.shape(1))
    axis = draw.axis(len(shape))
    draw.set(axis=axis)
    for _ in range(draw.integer(1, 3)):
        shape[axis] = draw.dim()
        draw.tensor(0, tuple(shape))


@recipe("Split")
def split(draw: Draw) -> None:
    count = draw.integer(1, 3)
    shape = list(draw.shape(1))
    axis = draw.option("axis", draw.axis(len(shape)))
    sizes = [draw.dim() for _ in range(count)]
    equal = draw.chance(0.4)
    if equal:
        sizes = [sizes[0]] * count
    if equal and draw.version >= 18 and draw.chance(0.5) and sizes[0] > 0:
        shape[axis] = max(sizes[0] * count - (1 if draw.chance(0.3) and sizes[0] > count else 0), 1)
        draw.tensor(0, tuple(shape))
        draw.set(num_outputs=count)
    else:
        shape[axis] = sum(sizes)
        draw.tensor(0, tuple(shape))
        if not equal or draw.version >= 18 or draw.chance(0.5):
            if draw.version >= 13:
                draw.add(draw.fixed(sizes))
            else:
                draw.set(split=sizes)
    draw.outputs(*[True] * count)


@recipe("Slice")
def slice_(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape)
    axes = sorted(draw.subset(range(len(shape)), 1))
    huge = np.iinfo(np.int32).max
    starts = [draw.integer(-shape[axis] - 1, shape[axis]) for axis in axes]
    ends = [draw.pick((draw.integer(-shape[axis] - 1, shape[axis] + 1), huge)) for axis in axes]
    if draw.version < 10:
        draw.set(starts=starts, ends=ends)
        if axes != list(range(len(axes))) or draw.chance(0.5):
            draw.set(axes=axes)
        return
    steps = [draw.pick((1, 2, -1, -2, 1)) for _ in axes]
    ends = [-huge if step < 0 and end == huge else end for end, step in zip(ends, steps, strict=True)]
    kind = draw.input_type(1)
    draw.add(draw.fixed(starts, kind), draw.fixed(ends, kind))
    given = axes != list(range(len(axes))) or draw.chance(0.5)
    named = [axis - len(shape) if draw.opset >= 11 and draw.chance(0.3) else axis for axis in axes]
    draw.add(draw.fixed(named, kind) if given else None)
    if draw.chance(0.6):
        draw.add(draw.fixed(steps, kind))
    else:
        forward = [abs(end) if end == -huge else end for end in ends]
        draw.drawn.inputs[2] = draw.fixed(forward, kind)


@recipe("Gather")
def gather(draw: Draw) -> None:
    # onnxruntime 1.32.0 gathers only the first element of each slice of strings, and leaves the others empty.
    most = 1 if draw.input_type(0) == values.STRING else 4
    shape = tuple(max(dim, 1) for dim in draw.shape(1, most))
    draw.tensor(0, shape)
    axis = draw.option("axis", draw.axis(len(shape)))
    kind = draw.input_type(1)
    draw.add(draw.each(kind, indices(draw, kind, draw.shape(0, 2), shape[axis], draw.version >= 11)))


@recipe("GatherElements")
def gather_elements(draw: Draw) -> None:
    shape = draw.shape(1, 4, empty=False)
    draw.tensor(0, shape)
    axis = draw.option("axis", draw.axis(len(shape)))
    kind = draw.input_type(1)
    drawn = [draw.integer(1, dim) for dim in shape]
    drawn[axis] = draw.dim()
    draw.add(draw.each(kind, indices(draw, kind, tuple(drawn), shape[axis], True)))


@recipe("GatherND")
def gather_nd(draw: Draw) -> None:
    shape = draw.shape(1, 4, empty=False)
    draw.tensor(0, shape)
    batch = draw.option("batch_dims", draw.integer(0, min(len(shape) - 1, 2)))
    depth = draw.integer(1, len(shape) - batch)
    around = draw.shape(0 if batch else 1, 2)
    if batch == 0 and not around:
        around = (1,)
    columns = [
        indices(draw, INT64, (*shape[:batch], *around), shape[batch + i], draw.version >= 11) for i in range(depth)
    ]
    draw.add(draw.each(INT64, [np.stack([column[feed] for column in columns], -1) for feed in range(FEEDS)]))


@recipe("Scatter", "ScatterElements")
def scatter_elements(draw: Draw) -> None:
    shape = draw.shape(1, 4, empty=False)
    mode = _reduction(draw)
    draw.tensor(0, shape, "tame" if mode != "none" else "any")
    axis = draw.option("axis", draw.axis(len(shape)))
    kind = draw.input_type(1)
    drawn = [draw.integer(1, dim) for dim in shape]
    drawn[axis] = draw.integer(0, shape[axis])
    if mode == "none":  # Duplicate indices have no defined result.
        orders = [
            np.argsort(
                draw.rng.random((*drawn[: axis % len(shape)], shape[axis], *drawn[axis % len(shape) + 1 :])), axis
            )
            for _ in range(FEEDS)
        ]
        arrays = [np.take(order, range(drawn[axis]), axis) for order in orders]
        if draw.version >= 11 and draw.chance(0.3):
            arrays = [array - shape[axis] for array in arrays]
    else:
        arrays = indices(draw, kind, tuple(drawn), shape[axis], draw.version >= 11)
    draw.add(draw.each(kind, arrays))
    draw.add(draw.data(draw.input_type(0), tuple(drawn), "tame" if mode != "none" else "any"))


def _reduction(draw: Draw) -> str:
    if not draw.has("reduction"):
        return "none"
    choices = ("none", "add", "mul") if draw.version < 18 else ("none", "add", "mul", "max", "min")
    chosen = draw.pick(choices)
    if chosen != "none" or draw.chance(0.5):
        draw.set(reduction=chosen)
    if chosen != "none":
        draw.type("T", lambda each: values.is_float(each) or (values.is_integer(each)))
    return chosen


@recipe("ScatterND")
def scatter_nd(draw: Draw) -> None:
    shape = draw.shape(1, 4, empty=False)
    mode = _reduction(draw)
    draw.tensor(0, shape, "tame" if mode != "none" else "any")
    depth = draw.integer(1, len(shape))
    places = int(np.prod(shape[:depth]))
    count = draw.integer(0, min(places, 4))
    flat = [draw.rng.permutation(places)[:count] for _ in range(FEEDS)]
    draw.add(draw.each(INT64, [np.stack(np.unravel_index(each, shape[:depth]), -1) for each in flat]))
    draw.add(draw.data(draw.input_type(0), (count, *shape[depth:]), "tame" if mode != "none" else "any"))


@recipe("TensorScatter")
def tensor_scatter(draw: Draw) -> None:
    batch, length, width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 3)
    four = draw.chance(0.5)
    middle = (draw.integer(1, 2),) if four else ()
    updates = draw.integer(1, length)
    draw.tensor(0, (batch, *middle, length, width))
    draw.tensor(1, (batch, *middle, updates, width))
    circular = draw.option("mode", draw.pick(("linear", "circular"))) == "circular"
    last = length - 1 if circular else length - updates
    if draw.chance(0.7):
        draw.add(draw.each(INT64, [draw.rng.integers(0, last + 1, (batch,)) for _ in range(FEEDS)]))
    draw.option("axis", -2)


@recipe("Expand")
def expand(draw: Draw) -> None:
    whole = draw.shape()
    draw.tensor(0, draw.broadcast(whole))
    target = draw.broadcast(whole) if draw.chance(0.3) else whole
    draw.add(draw.fixed(np.array(target, np.int64)))


@recipe("Tile")
def tile(draw: Draw) -> None:
    shape = draw.shape(0 if draw.opset >= 13 else 1, 4)
    draw.tensor(0, shape)
    draw.add(draw.fixed(np.array([draw.integer(0 if draw.chance(0.1) else 1, 2) for _ in shape], np.int64)))


@recipe("ConstantOfShape")
def constant_of_shape(draw: Draw) -> None:
    draw.add(draw.fixed(np.array(draw.shape(), np.int64)))
    if draw.chance(0.7):
        elem_type = draw.type(draw.schema.outputs[0].type_str)
        draw.set(value=values.tensor(values.sample(draw.rng, elem_type, (1,), 0), elem_type))
        draw.output_type(elem_type)
    else:
        draw.output_type(FLOAT)


@recipe("EyeLike")
def eye_like(draw: Draw) -> None:
    elem_type = draw.input_type(0)
    draw.tensor(0, draw.shape(2, 2))
    draw.option("k", draw.integer(-3, 3))
    if draw.chance(0.6):
        elem_type = draw.type(draw.schema.outputs[0].type_str)
        draw.set(dtype=elem_type)
    draw.output_type(elem_type)


@recipe("OneHot")
def one_hot(draw: Draw) -> None:
    shape = draw.shape(1, 4)  # the inference of onnx and the kernel of onnxruntime take no scalar
    depth = draw.integer(1, 5)
    kind = draw.input_type(0, lambda each: each not in (values.BOOL, values.STRING))
    low = 0 if values.numpy_type(kind).kind == "u" or draw.version < 11 else -depth - 1
    draw.add(draw.each(kind, [draw.rng.integers(low, depth + 1, shape) for _ in range(FEEDS)]))
    draw.add(draw.fixed(depth if draw.chance(0.5) else [depth], draw.input_type(1, lambda each: each != values.BOOL)))
    draw.tensor(2, (2,))
    rank = len(shape) + 1
    draw.option("axis", draw.integer(-rank if draw.version >= 11 else -1, rank - 1))


@recipe("Compress")
def compress(draw: Draw) -> None:
    shape = draw.shape(1, 4)
    draw.tensor(0, shape)
    axis = None
    if draw.chance(0.7):
        axis = draw.axis(len(shape))
        draw.set(axis=axis)
    most = int(np.prod(shape)) if axis is None else shape[axis]
    draw.add(draw.data(BOOL, (draw.integer(min(1, most), most),)))


@recipe("Trilu")
def trilu(draw: Draw) -> None:
    draw.tensor(0, draw.shape(2, 4))
    draw.add(draw.fixed(draw.integer(-4, 4)) if draw.chance(0.6) else None)
    draw.option("upper", draw.integer(0, 1))


@recipe("Range")
def range_(draw: Draw) -> None:
    kind = draw.input_type(0)
    step = draw.pick((1, 2, 3)) if draw.chance(0.6) else -2
    start, end = draw.integer(-3, 5), draw.integer(-3, 9)
    for value in (start, end, step):
        draw.add(draw.fixed(value, kind))


@recipe("DepthToSpace", "SpaceToDepth")
def depth_and_space(draw: Draw) -> None:
    block = draw.integer(1, 3)
    draw.set(blocksize=block)
    batch, channels, height, width = (draw.dim(), draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3))
    if draw.operator == "DepthToSpace":
        draw.tensor(0, (batch, channels * block * block, height, width))
        draw.option("mode", draw.pick(("DCR", "CRD")))
    else:
        draw.tensor(0, (batch, channels, height * block, width * block))


@recipe("Pad")
def pad(draw: Draw) -> None:
    shape = draw.shape(1, 4)
    mode = draw.option("mode", draw.pick(("constant", "reflect", "edge", "wrap")[: 4 if draw.version >= 19 else 3]))
    if mode != "constant":
        shape = tuple(max(dim, 2) for dim in shape)
    axes = list(range(len(shape)))
    chosen = draw.version >= 18 and draw.chance(0.4)
    if chosen:
        axes = draw.subset(axes, 1)
    limit = {"constant": 3, "edge": 3, "reflect": 1, "wrap": 1}[mode]
    low = -1 if mode == "constant" and draw.chance(0.3) else 0
    pads = [draw.integer(max(low, -(shape[axis] // 2)), limit) for axis in axes * 2]
    draw.tensor(0, shape)
    if draw.version < 11:
        draw.set(pads=pads)
        draw.option("value", draw.pick((0.0, 1.5)))
        return
    draw.add(draw.fixed(np.array(pads, np.int64)))
    elem_type = draw.input_type(0)
    value = values.sample(draw.rng, elem_type, (), 0)
    draw.add(draw.fixed(value, elem_type) if draw.chance(0.5) else None)
    if chosen:
        named = [axis - len(shape) if draw.chance(0.3) else axis for axis in axes]
        draw.add(draw.fixed(named, draw.pick((INT64, INT32))))


@recipe("ReverseSequence")
def reverse_sequence(draw: Draw) -> None:
    shape = draw.shape(2, 4, empty=False)
    batch = draw.option("batch_axis", draw.integer(0, 1))
    time = draw.option("time_axis", 1 - batch)
    if time == batch:
        draw.set(time_axis=1 - batch, batch_axis=batch)
        time = 1 - batch
    draw.tensor(0, shape)
    draw.add(draw.each(INT64, [draw.rng.integers(1, shape[time] + 1, (shape[batch],)) for _ in range(FEEDS)]))


@recipe("CenterCropPad")
def center_crop_pad(draw: Draw) -> None:
    shape = draw.shape(1, 4)
    draw.tensor(0, shape)
    count = len(shape)
    if draw.chance(0.6):
        axes = draw.subset(range(len(shape)), 1)
        count = len(axes)
        draw.set(axes=[axis - len(shape) if draw.chance(0.3) else axis for axis in axes])
    draw.add(draw.fixed([draw.integer(1, 5) for _ in range(count)], draw.input_type(1)))


@recipe("Col2Im")
def col2im(draw: Draw) -> None:
    dims = draw.integer(1, 2)
    image = [draw.integer(3, 5) for _ in range(dims)]
    block = [draw.integer(1, 2) for _ in range(dims)]
    dilations = draw.option("dilations", [draw.integer(1, 2) for _ in range(dims)]) if draw.chance(0.5) else [1] * dims
    pads = draw.option("pads", [draw.integer(0, 1) for _ in range(2 * dims)]) if draw.chance(0.5) else [0] * 2 * dims
    strides = draw.option("strides", [draw.integer(1, 2) for _ in range(dims)]) if draw.chance(0.5) else [1] * dims
    dilations, pads, strides = (
        draw.drawn.attributes.get("dilations", [1] * dims),
        draw.drawn.attributes.get("pads", [0] * 2 * dims),
        draw.drawn.attributes.get("strides", [1] * dims),
    )
    length = 1
    for i in range(dims):
        length *= (image[i] + pads[i] + pads[dims + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
    draw.tensor(0, (draw.integer(1, 2), draw.integer(1, 2) * int(np.prod(block)), length), "finite")
    draw.add(draw.fixed(image), draw.fixed(block))


@recipe("NonMaxSuppression")
def non_max_suppression(draw: Draw) -> None:
    batch, boxes, classes = draw.integer(1, 2), draw.dim(), draw.integer(1, 2)
    corners = [
        np.sort(draw.rng.integers(0, 9, (batch, boxes, 2, 2)) / 8, axis=2).reshape(batch, boxes, 4) for _ in range(3)
    ]
    draw.add(draw.each(FLOAT, corners))
    draw.add(
        draw.each(
            FLOAT, [draw.rng.permutation(batch * classes * boxes).reshape(batch, classes, boxes) / 64 for _ in range(3)]
        )
    )
    if draw.chance(0.8):
        draw.add(draw.fixed(draw.pick(([draw.integer(0, 3)], draw.integer(1, 3)))))
        if draw.chance(0.7):
            draw.add(draw.fixed([0.5], FLOAT))
            if draw.chance(0.5):
                draw.add(draw.fixed([0.1], FLOAT))
    draw.option("center_point_box", draw.integer(0, 1))


@recipe("Upsample")
def upsample(draw: Draw) -> None:
    mode = draw.option("mode", draw.pick(("nearest", "linear")))
    shape = draw.shape(4, 4, empty=False)
    factors = (1.0, 1.0, draw.pick((1.0, 2.0, 1.5)), draw.pick((1.0, 2.0, 3.0)))
    draw.tensor(0, shape, "any" if mode == "nearest" else "finite")
    if draw.version < 9:
        draw.set(scales=list(factors))
    else:
        draw.add(draw.fixed(factors, FLOAT))


@recipe("Resize")
def resize(draw: Draw) -> None:
    mode = draw.pick(("nearest", "linear", "cubic")[: 3 if draw.version >= 11 else 2])
    if mode != "nearest" or draw.chance(0.6):
        draw.set(mode=mode)
    rank = 4 if mode != "nearest" or draw.chance(0.6) else draw.integer(1, 5)
    around = 2 if rank == 4 else 0
    shape = (*(draw.integer(1, 2) for _ in range(around)), *(draw.integer(1, 4) for _ in range(rank - around)))
    draw.tensor(0, shape, "any" if mode == "nearest" else "finite")
    ratios = [draw.pick((0.5, 1.0, 2.0, 1.5, 3.0, 0.6)) for _ in range(rank - around)]
    sizes = [draw.integer(1, 6) for _ in range(rank - around)]
    if draw.version < 11:
        draw.add(draw.fixed([1.0] * around + ratios, FLOAT))
        return
    _resize_attributes(draw, mode)
    crop = draw.drawn.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    region = draw.fixed([0.0] * rank + [1.0] * around + [0.75] * (rank - around), draw.input_type(1)) if crop else None
    draw.add(region if region or draw.version >= 13 else draw.fixed(np.zeros(0), draw.input_type(1)))
    subset = draw.version >= 18 and draw.chance(0.3)
    if subset:
        draw.set(axes=list(range(around, rank)))
        if crop:
            count = rank - around
            draw.drawn.inputs[1] = draw.fixed([0.0] * count + [0.75] * count, draw.input_type(1))
    lead, start = ([], []) if subset else ([1.0] * around, list(shape[:around]))
    if draw.chance(0.55):
        draw.add(draw.fixed(lead + ratios, FLOAT))
    else:
        draw.add(None if draw.version >= 13 else draw.fixed(np.zeros(0), FLOAT))
        draw.add(draw.fixed(start + sizes))
        if draw.version >= 18 and draw.chance(0.2):
            draw.set(keep_aspect_ratio_policy=draw.pick(("not_larger", "not_smaller")))


def _resize_attributes(draw: Draw, mode: str) -> None:
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    if draw.version < 13:
        modes.append("tf_half_pixel_for_nn")
    if draw.version >= 19:
        modes.append("half_pixel_symmetric")
    draw.option("coordinate_transformation_mode", draw.pick(modes))
    if mode == "nearest":
        draw.option("nearest_mode", draw.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    if mode == "cubic":
        draw.option("cubic_coeff_a", draw.pick((-0.5, -0.75)))
        draw.option("exclude_outside", draw.integer(0, 1))
    draw.option("extrapolation_value", 2.0, 0.3)
    if mode != "nearest" and draw.has("antialias"):
        draw.option("antialias", draw.integer(0, 1), 0.3)
