"""Operators that reduce, accumulate or normalize along axes."""

from __future__ import annotations

import numpy as np

from differential import values
from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import Domain

_SUMS = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceProd")


@recipe("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
@recipe("ReduceProd", "ReduceMax", "ReduceMin")
def reduction(draw: Draw) -> None:
    shape = draw.shape()
    domain: Domain = "tame" if draw.operator in _SUMS or draw.operator == "ReduceLogSumExp" else "any"
    if draw.operator == "ReduceLogSum":
        domain = "positive"
    elem_type = draw.input_type(0)
    if values.numpy_type(elem_type).kind in "iu" and draw.operator not in ("ReduceMax", "ReduceMin", "ReduceSum"):
        domain = "small"
    draw.tensor(0, shape, domain)
    draw.option("keepdims", draw.integer(0, 1))
    axes = draw.subset(range(len(shape)), 1) if shape else []
    axes = [axis - len(shape) if draw.opset >= 11 and draw.chance(0.3) else axis for axis in axes]
    as_input = "noop_with_empty_axes" in draw.schema.attributes
    if as_input:
        draw.option("noop_with_empty_axes", draw.integer(0, 1), 0.5)
        if draw.chance(0.15):
            axes = []
        draw.add(draw.fixed(np.array(axes, np.int64)) if draw.chance(0.75) else None)
    elif axes and draw.chance(0.75):
        draw.set(axes=axes)


@recipe("ArgMax", "ArgMin")
def index_of_extreme(draw: Draw) -> None:
    shape = draw.shape(1, empty=draw.chance(0.5))
    draw.tensor(0, shape)
    axis = draw.option("axis", draw.axis(len(shape)))
    if shape[axis] == 0:
        draw.drawn.inputs[0] = draw.data(draw.input_type(0), tuple(max(dim, 1) for dim in shape))
    draw.option("keepdims", draw.integer(0, 1))
    draw.option("select_last_index", draw.integer(0, 1))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def along_axis(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape, "any" if draw.operator == "Hardmax" else "finite" if draw.chance(0.6) else "tame")
    if len(shape) > 1 or draw.version >= 13:
        draw.option("axis", draw.axis(len(shape)))
    else:
        draw.set(axis=0)


@recipe("LpNormalization")
def lp_normalization(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape, "tame")
    draw.option("axis", draw.axis(len(shape)))
    draw.option("p", draw.integer(1, 2))


@recipe("CumSum", "CumProd")
def cumulative(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape, "tame" if draw.operator == "CumSum" else "small")
    draw.add(draw.fixed(draw.axis(len(shape)), draw.input_type(1)))
    draw.option("exclusive", draw.integer(0, 1))
    draw.option("reverse", draw.integer(0, 1))


@recipe("TopK")
def top_k(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape)
    axis = draw.option("axis", draw.axis(len(shape)))
    most = shape[axis]
    count = draw.integer(0 if draw.chance(0.1) else min(1, most), most)
    if draw.version < 10:
        draw.set(k=max(count, 1))
        if not most:
            draw.drawn.inputs[0] = draw.data(draw.input_type(0), tuple(max(dim, 1) for dim in shape))
    else:
        draw.add(draw.fixed([count]))
    draw.option("largest", draw.integer(0, 1))
    draw.option("sorted", 1)
    draw.outputs(*draw.pick(((True, True), (True, False), (False, True))))


@recipe("LayerNormalization", "RMSNormalization")
def layer_normalization(draw: Draw) -> None:
    shape = draw.shape(1)
    draw.tensor(0, shape, "tame" if draw.chance(0.4) else "finite")
    axis = draw.option("axis", draw.axis(len(shape)))
    scaled = shape[axis % len(shape) :]
    if draw.operator == "RMSNormalization" and draw.chance(0.85):
        draw.types[draw.schema.inputs[1].type_str] = draw.input_type(0)  # onnxruntime has no other kernels
    draw.tensor(1, scaled if draw.chance(0.7) else draw.broadcast(scaled), "finite")
    if draw.operator == "LayerNormalization":
        draw.add(draw.data(draw.input_type(0), scaled, "finite") if draw.chance(0.6) else None)
    draw.option("epsilon", draw.pick((1e-5, 1e-3, 0.0)))
    draw.types["U"] = draw.option("stash_type", draw.pick((1, 1, 16)), 0.4)


@recipe("InstanceNormalization")
def instance_normalization(draw: Draw) -> None:
    shape = draw.shape(3, 5)
    draw.tensor(0, shape, "finite")
    for index in (1, 2):
        draw.tensor(index, shape[1:2], "finite")
    draw.option("epsilon", draw.pick((1e-5, 1e-3)))


@recipe("GroupNormalization")
def group_normalization(draw: Draw) -> None:
    groups, each = draw.integer(1, 3), draw.integer(1, 2)
    draw.tensor(0, (draw.integer(1, 2), groups * each, *draw.shape(1, 2)), "finite")
    draw.set(num_groups=groups)
    for index in (1, 2):
        draw.tensor(index, (groups if draw.version < 21 else groups * each,), "finite")
    draw.option("epsilon", draw.pick((1e-5, 1e-3)))
    draw.option("stash_type", 1)


@recipe("BatchNormalization")
def batch_normalization(draw: Draw) -> None:
    shape = draw.shape(2, 5)
    draw.tensor(0, shape, "finite")
    for index in range(1, 5):
        draw.tensor(index, shape[1:2], "positive" if index == 4 else "finite")
    draw.option("epsilon", draw.pick((1e-5, 1e-3)))
    draw.option("momentum", 0.9)
    training = draw.has("training_mode") and draw.chance(0.15)
    if training:
        draw.set(training_mode=1)
    draw.outputs(*([True] * 3 if training else [True]))


@recipe("MeanVarianceNormalization")
def mean_variance(draw: Draw) -> None:
    shape = draw.shape(4, 4)
    draw.tensor(0, shape, "finite")
    draw.option("axes", draw.pick(([0, 2, 3], [2, 3], [1], [0, 1, 2, 3])))


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(draw: Draw) -> None:
    classes = draw.integer(1, 4)
    batch, rest = draw.integer(1, 3), draw.shape(0, 2, empty=False)
    draw.tensor(0, (batch, classes, *rest), "finite")
    ignored = draw.integer(0, classes - 1)
    targets = [draw.rng.integers(0, classes, (batch, *rest)) for _ in range(values.FEEDS)]
    draw.add(draw.each(draw.input_type(1), targets))
    draw.add(draw.data(draw.input_type(0), (classes,), "positive") if draw.chance(0.5) else None)
    draw.option("reduction", draw.pick(("none", "mean", "sum")))
    if draw.chance(0.4):
        draw.set(ignore_index=draw.pick((ignored, -1)))
    if draw.operator == "SoftmaxCrossEntropyLoss":
        draw.outputs(True, draw.chance(0.5))


@recipe("Unique")
def unique(draw: Draw) -> None:
    shape = draw.shape(1, empty=False)
    draw.tensor(0, shape, "small")
    if draw.chance(0.6):
        draw.set(axis=draw.axis(len(shape)))
    draw.option("sorted", draw.integer(0, 1))
    draw.outputs(True, *(draw.chance(0.5) for _ in range(3)))


@recipe("Det")
def determinant(draw: Draw) -> None:
    size = draw.integer(1, 4)
    draw.tensor(0, (*draw.shape(0, 2), size, size), "finite")


_EQUATIONS = (
    *("ij,jk->ik", "ij->ji", "i,i->", "bij,bjk->bik", "ii->i", "ii", "ij,ij", "...ij,...jk->...ik", "i,j->ij"),
    *("ijk->k", "ij,jk,kl->il", "Ab, bC -> AC", "ij", "i...->...", "ba", "bhqd,bhkd->bhqk", "...,...->..."),
    "...ii->...i",
)


@recipe("Einsum")
def einsum(draw: Draw) -> None:
    equation = draw.pick(_EQUATIONS)
    draw.set(equation=equation)
    dims = {letter: draw.dim() for letter in equation if letter.isalpha()}
    around = draw.shape(0, 2)
    for term in equation.split("->")[0].split(","):
        term = term.strip()
        shape: list[int] = []
        position = 0
        while position < len(term):
            if term[position] == ".":
                shape.extend(around)
                position += 3
            else:
                shape.append(dims[term[position]])
                position += 1
        draw.tensor(0, tuple(shape), "small" if draw.chance(0.3) else "finite")


@recipe("MatMul")
def matmul(draw: Draw) -> None:
    left, right = matrices(draw)
    draw.tensor(0, left, "tame" if draw.chance(0.2) else "finite")
    draw.tensor(1, right, "finite")


def matrices(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two shapes that numpy.matmul accepts."""
    # onnxruntime 1.32.0 returns uninitialized memory for a product of integers over an empty dimension.
    rows, inner, columns = draw.dim(), draw.dim(empty=draw.operator == "MatMul"), draw.dim()
    around = draw.shape(0, 2)
    left, right = (*around, rows, inner), (*draw.broadcast(around), inner, columns)
    form = draw.integer(0, 5)
    if form == 0:
        left = (inner,)
    elif form == 1:
        right = (inner,)
    elif form == 2:
        left, right = (*right[:-2], rows, inner), (*left[:-2], inner, columns)
    return left, right


@recipe("Gemm")
def gemm(draw: Draw) -> None:
    rows, inner, columns = draw.dim(), draw.dim(), draw.dim()
    a = draw.option("transA", draw.integer(0, 1))
    b = draw.option("transB", draw.integer(0, 1))
    draw.tensor(0, (inner, rows) if a else (rows, inner), "finite")
    draw.tensor(1, (columns, inner) if b else (inner, columns), "finite")
    optional = draw.version >= 11
    if not optional or draw.chance(0.7):
        draw.tensor(2, draw.broadcast((rows, columns)), "finite")
    draw.option("alpha", draw.pick((1.0, 0.5, 0.0, -2.0)))
    draw.option("beta", draw.pick((1.0, 0.5, 0.0, -2.0)))


@recipe("NonZero")
def non_zero(draw: Draw) -> None:
    draw.tensor(0, draw.shape(1 if draw.version < 13 else 0), "small")
