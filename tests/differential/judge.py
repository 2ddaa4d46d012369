"""Compare the outputs of two models, with a bound that is derived from the original alone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto

from differential import runtimes, values
from differential.embed import messages, tensors
from differential.jumps import outputs_beside
from differential.values import FLOATS, Array, numpy_type

Outputs = Sequence[Sequence[Any]]
Runner = Callable[[ModelProto, Sequence[dict[str, Any]]], Outputs]

MOVES = frozenset(
    [
        "BitCast",
        "Cast",
        "CastLike",
        "CenterCropPad",
        "Compress",
        "Concat",
        "ConcatFromSequence",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "Expand",
        "EyeLike",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "If",
        "MaxUnpool",
        "OneHot",
        "Optional",
        "OptionalGetElement",
        "Pad",
        "Range",
        "Reshape",
        "ReverseSequence",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceErase",
        "SequenceInsert",
        "Slice",
        "SpaceToDepth",
        "Split",
        "SplitToSequence",
        "Squeeze",
        "TensorScatter",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
    ]
)
"""Operators whose outputs are compared bit for bit; for others, zeros of both signs are equal.

Where is none of them: onnxruntime 1.32.0 adds zeros to what it chooses, so that -0.0 becomes 0.0.
"""

ROUNDS = frozenset(
    [
        "Acos",
        "Acosh",
        "AffineGrid",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Attention",
        "AveragePool",
        "BatchNormalization",
        "BlackmanWindow",
        "CausalConvWithState",
        "Celu",
        "Col2Im",
        "Conv",
        "ConvTranspose",
        "Cos",
        "Cosh",
        "CumProd",
        "CumSum",
        "DFT",
        "DeformConv",
        "DequantizeLinear",
        "Det",
        "Einsum",
        "Elu",
        "Erf",
        "Exp",
        "GRU",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "GlobalLpPool",
        "GridSample",
        "GroupNormalization",
        "HammingWindow",
        "HannWindow",
        "HardSigmoid",
        "HardSwish",
        "InstanceNormalization",
        "LRN",
        "LSTM",
        "LayerNormalization",
        "LinearAttention",
        "Log",
        "LogSoftmax",
        "Loop",
        "LpNormalization",
        "LpPool",
        "MatMul",
        "Mean",
        "MeanVarianceNormalization",
        "MelWeightMatrix",
        "Mish",
        "NegativeLogLikelihoodLoss",
        "Pow",
        "RMSNormalization",
        "RNN",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Resize",
        "RoiAlign",
        "RotaryEmbedding",
        "STFT",
        "Scan",
        "Selu",
        "Sigmoid",
        "Sin",
        "Sinh",
        "Softmax",
        "SoftmaxCrossEntropyLoss",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sum",
        "SwiGLU",
        "Swish",
        "Tan",
        "Tanh",
        "TfIdfVectorizer",
        "Upsample",
        "Div",
        "Mul",
        "Add",
        "Sub",
        "LeakyRelu",
        "PRelu",
        "ScatterElements",
        "ScatterND",
        "Range",
        "Mod",
        "Shrink",
    ]
)
"""Operators that round: their float outputs may differ by what one unit in the inputs changes."""

ADDS_ONE = frozenset(
    [
        "Celu",
        "Elu",
        "Selu",
        "Softplus",
        "Mish",
        "Gelu",
        "Swish",
        "SwiGLU",
        "HardSwish",
        "HardSigmoid",
        "Sigmoid",
        "Softsign",
        "Erf",
        "Tanh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Cosh",
        "Sinh",
        "Acos",
        "Asin",
        "Atan",
        "Attention",
        "CausalConvWithState",
        "GRU",
        "LSTM",
        "RNN",
        "LinearAttention",
        "RotaryEmbedding",
        "ReduceLogSumExp",
        "LogSoftmax",
        "SoftmaxCrossEntropyLoss",
        "HannWindow",
        "HammingWindow",
        "BlackmanWindow",
        "DFT",
        "STFT",
        "MelWeightMatrix",
        "GridSample",
        "AffineGrid",
        "Resize",
        "Upsample",
        "RoiAlign",
        "DeformConv",
        "Sin",
        "Cos",
        "Tan",
        "ReduceLogSum",
        "Log",
        "TfIdfVectorizer",
    ]
)
"""Operators whose formula (the text's, or ONNX's function body) has terms of the order of 1: their rounding stays."""

IGNORES_NAN = frozenset(("ArgMax", "ArgMin", "Hardmax", "MaxPool", "QuantizeLinear", "ReduceLogSumExp", "TopK"))
"""The text is silent about NaN; runtimes differ. Of NaN and infinity, ReduceLogSumExp makes infinity or NaN in the
kernels of onnxruntime 1.32.0 for different opsets."""

REDUCES_IN_ORDER = frozenset(("ScatterElements", "ScatterND"))
"""Operators whose `reduction` may be max or min. ScatterElements-18: output = f(output, update) for each update, in an
order that no text names, "where the `f` is `+`, `*`, `max` or `min`": none says which of NaN and a number is larger.
onnxruntime 1.32.0 forgets a NaN when the next update is a number, and keeps one that comes last."""

COMPUTES_IN_FLOAT = frozenset(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"))
"""Operators whose formula the text, or the function body, computes in float before the cast to another type."""

SUMS_WHOLE_EXPONENTIALS = frozenset(("ReduceLogSumExp",))
"""Operators of which onnxruntime 1.32.0 makes integers by adding up exponentials that are cut to integers."""

IN_STAGES = frozenset(("Erf", "Gelu", "GroupNormalization", "LayerNormalization", "RMSNormalization"))
"""Operators whose `stash_type` has their statistics, and what they normalize, in float also where inputs are double;
and Erf, which the kernel of onnxruntime 1.32.0 for double computes no better."""

LEAVES_UNWRITTEN = frozenset(("GRU", "LSTM"))
"""Operators of which onnxruntime 1.32.0 leaves the last state of an empty sequence as memory is, or which it ends on;
the text is silent on it."""

MEAN_OF_NONE = frozenset(("BatchNormalization",))
"""In training it averages; ReduceMean-18: "Reduction over an empty set of values yields undefined". onnxruntime 1.32.0
makes NaN in this kernel, and 0 in that of ReduceMean."""

ZERO_BY_ZERO = frozenset(("AffineGrid", "GroupNormalization", "LayerNormalization", "MeanVarianceNormalization"))
"""The text's own body computes a variance as a difference, which rounding may make negative, or divides by a size less
one, which may be 0; the mean of a row with infinity is NaN in onnxruntime 1.32.0. NaN is not compared."""

INTERPOLATES = frozenset(("DeformConv", "GridSample", "Resize", "RoiAlign", "Upsample"))
"""Operators whose weights follow from places that are rounded: a unit of the largest element is added."""

WEIGHED = frozenset(("SwiGLU", "Swish"))
"""Products with a sigmoid, of which onnxruntime 1.32.0 computes none nearer than a unit of 1, near to 0 also."""

QUANTIZED_PRODUCTS = frozenset(("QLinearConv", "QLinearMatMul"))
"""Operators whose product of scales is rounded in float before what is near to half a unit is rounded."""

DIVIDES_NARROW = frozenset(("QuantizeLinear",))
"""Operators of which onnxruntime 1.32.0 divides numbers of 16 bits otherwise at opset 21 than at 23: what is nearly
half way between two numbers of 8 bits may become either."""

LOGARITHMS = frozenset(("LogSoftmax", "ReduceLogSumExp"))
"""Of a row with infinity, kernels make NaN or minus infinity; exponentials overflow on the way in some.
Of a row with NaN, LogSoftmax of double in onnxruntime 1.32.0 makes numbers."""

MULTIPLIES = frozenset(
    ("Det", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization")
)
"""Products overflow on the way: those of a determinant in one order or in another, and the squares of a variance in
the type that the text names, where kernels of onnxruntime 1.32.0 have a wider one."""

SQUARES = frozenset(("GlobalLpPool", "LpNormalization", "LpPool", "ReduceL2"))
"""Roots of sums of squares, which may be less than any number of the type."""

TRANSFORMS = frozenset(("DFT", "STFT"))
"""Transforms, which numpy computes within a few units: onnxruntime 1.32.0 loses more than that, in double too.
An element is a sum of all that is transformed: units of the largest element are added."""

_FACTOR = 16.0
"""How many times the effect of one unit in the inputs two ways to compute may lie apart."""

_PERTURBATIONS = 6


def difference(expected: Any, found: Any, exact_zeros: bool, bound: Array | None = None) -> str | None:
    """Return what differs between two values, or None."""
    if isinstance(expected, list) or isinstance(found, list):
        if not isinstance(expected, list) or not isinstance(found, list) or len(expected) != len(found):
            return "sequences of different lengths"
        return next(filter(None, (difference(a, b, exact_zeros) for a, b in zip(expected, found, strict=True))), None)
    if expected is None or found is None:
        return None if expected is found else "an optional without element on one side"
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.dtype != found.dtype:
        return f"element type {found.dtype} for {expected.dtype}"
    if expected.shape != found.shape:
        return f"shape {found.shape} for {expected.shape}"
    wrong = _wrong(expected, found, exact_zeros, bound)
    if not wrong.any():
        return None
    place = tuple(int(each[0]) for each in np.nonzero(wrong)) if wrong.ndim else ()
    extra = "" if bound is None else f", bound {bound[place]:.3g}"
    count = f"{int(wrong.sum())} of {wrong.size} {found.dtype}"
    return f"{found[place]!r} for {expected[place]!r} at {list(place)}, {count}{extra}"


def _wrong(expected: Array, found: Array, exact_zeros: bool, bound: Array | None) -> Array:
    if expected.dtype.kind == "c":
        return _wrong(expected.real, found.real, exact_zeros, bound) | _wrong(
            expected.imag, found.imag, exact_zeros, bound
        )
    if not _is_float(expected):
        return np.asarray(expected != found)
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), found.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if exact_zeros:
            same &= (np.signbit(a) == np.signbit(b)) | (a != 0)
        if bound is not None:
            same |= (np.abs(a - b) <= bound) | np.isinf(bound)
        return np.asarray(~same)


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and "float" in array.dtype.name)


def compare(
    operators: set[str],
    original: ModelProto,
    feeds: Sequence[dict[str, Any]],
    expected: Outputs,
    found: Outputs,
    runner: Runner,
    *,
    chooses: bool = False,
) -> str | None:
    """Return the first difference beyond rounding, or None.

    Args:
        operators: of the original; they decide how strict to be.
        original: the original model, to derive bounds from.
        feeds: the inputs of both.
        expected: the outputs of the original.
        found: the outputs of the result.
        runner: runs the original.
        chooses: a Where of the result chooses between what the original had in branches, and keeps no sign of a zero.
    """
    exact_zeros = operators <= MOVES and not chooses
    bounds: list[list[Array | None]] | None = None
    ignores_nan = bool(operators & IGNORES_NAN) or _reduces_in_order(original)
    for feed, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if ignores_nan and any(_has_nan(value) for value in feeds[feed].values()):
            continue
        if operators & MULTIPLIES and any(map(_is_large, feeds[feed].values())):
            continue
        if operators & LEAVES_UNWRITTEN and _has_empty((*wanted, *feeds[feed].values())):
            continue
        for index, (a, b) in enumerate(zip(wanted, got, strict=True)):
            message = difference(a, b, exact_zeros)
            if message is None:
                continue
            if operators & ZERO_BY_ZERO and "IsNaN" in operators and _same_form(a, b) and a.dtype == np.bool_:
                continue
            if operators & SUMS_WHOLE_EXPONENTIALS and _same_form(a, b) and a.dtype.kind in "iu":
                continue
            if operators & (COMPUTES_IN_FLOAT | QUANTIZED_PRODUCTS) and _same_form(a, b) and a.dtype.kind in "iu":
                message = difference(a.astype(np.float64), np.asarray(b).astype(np.float64), False, np.ones(a.shape))
            if operators & DIVIDES_NARROW and _same_form(a, b) and _halves(original, feeds[feed]):
                wide, other = (np.asarray(one).astype(np.float64) for one in (a, b))
                message = difference(wide, other, exact_zeros, _step(a))
            if operators & ROUNDS and _same_form(a, b) and _is_float(a):
                bounds = bounds or _bounds(operators, original, feeds, expected, runner)
                message = difference(a, b, exact_zeros, bounds[feed][index])
            if operators & MEAN_OF_NONE and _same_form(a, b) and _is_float(a) and _has_empty([*feeds[feed].values()]):
                defined, bound = ~np.isnan(a.astype(np.float64)), bounds[feed][index] if bounds else None
                message = difference(a[defined], b[defined], exact_zeros, None if bound is None else bound[defined])
            if operators & INTERPOLATES and _same_form(a, b) and _is_float(a) and _interpolates_large(feeds[feed]):
                kept, bound = np.isfinite(b.astype(np.float64)), bounds[feed][index] if bounds else None
                message = difference(a[kept], b[kept], exact_zeros, None if bound is None else bound[kept])
            if message is not None:
                return f"output {index}, feed {feed}: {message}"
    return None


def _reduces_in_order(model: ModelProto) -> bool:
    """Return whether an operator takes the larger or smaller of numbers one after another."""
    return any(
        attribute.name == "reduction" and attribute.s in (b"max", b"min")
        for node in messages(model, NodeProto)
        if node.op_type in REDUCES_IN_ORDER
        for attribute in _attributes(model, node)
    )


def _attributes(model: ModelProto, node: NodeProto) -> list[AttributeProto]:
    """Return what a node's attributes may be, under their names on the node, parameters of functions included."""
    found = []
    for one in node.attribute:
        held = [each for each in messages(model, AttributeProto) if each.name == one.ref_attr_name]
        for each in held if one.ref_attr_name else [one]:
            found.append(AttributeProto())
            found[-1].CopyFrom(each)
            found[-1].name = one.name
    return found


def _same_form(a: Any, b: Any) -> bool:
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    return arrays and a.dtype == b.dtype and a.shape == b.shape


def _has_empty(held: Sequence[Any]) -> bool:
    return any(getattr(value, "size", 1) == 0 for value in held)


def _has_nan(value: Any) -> bool:
    return isinstance(value, np.ndarray) and _is_float(value) and bool(np.isnan(value.astype(np.float64)).any())


def _step(value: Array) -> Array:
    """Return how far the neighbours of numbers are."""
    ones = np.ones(value.shape)
    return np.abs(value.astype(np.float64)) * float(values.finfo(value.dtype).eps) if _is_float(value) else ones


def _halves(model: ModelProto, feed: dict[str, Any]) -> bool:
    """Return whether a model reads floats of 16 bits."""
    constants = {numpy_type(one.data_type) for one in tensors(model)}
    types = {value.dtype for value in feed.values() if isinstance(value, np.ndarray)} | constants
    return not types.isdisjoint(map(numpy_type, (TensorProto.FLOAT16, TensorProto.BFLOAT16)))


def _bounds(
    operators: set[str], original: ModelProto, feeds: Sequence[dict[str, Any]], expected: Outputs, runner: Runner
) -> list[list[Array | None]]:
    """Return for each output element how far apart two ways to compute it may be.

    Each float input and constant is moved by one unit in its last place, or in that of the type of statistics where
    that is coarser: what that changes is what a rounding of an intermediate value of that size changes. Terms of the
    order of 1 in the formula add one unit of 1.
    """
    rng = np.random.default_rng(0)
    stashes = _stash_types(original)
    spread: list[list[Array | None]] = [
        [_least(operators, value, _weight(operators, original, feed), stashes) for value in outputs]
        for feed, outputs in zip(feeds, expected, strict=True)
    ]
    for held, feed in zip(spread, feeds, strict=True):
        if operators & LOGARITHMS and any(map(_has_nan, feed.values())):
            held[:] = [None if bound is None else np.full_like(bound, np.inf) for bound in held]
    for _ in range(_PERTURBATIONS):
        moved = [{name: _moved(rng, value, stashes) for name, value in feed.items()} for feed in feeds]
        try:
            outputs = runner(_moved_constants(rng, original, stashes), moved)
        except Exception:
            continue
        _widen(spread, expected, outputs)
    for sign in (-1, 1):
        with contextlib.suppress(Exception):
            least = functools.partial(_least, operators, weight=0.0, stashes=stashes)
            _widen(spread, expected, outputs_beside(original, feeds, runner, least, sign))
    if any(_scales_in_float(node) for node in messages(original, NodeProto)):
        eps = float(np.finfo(np.float32).eps)
        spread = [
            [None if a is None else a + eps * np.abs(b) for a, b in zip(held, wanted, strict=True)]
            for held, wanted in zip(spread, expected, strict=True)
        ]
    if operators & TRANSFORMS:
        runners = (runtimes.reference, runner)
        _add_own_error(spread, expected, original, feeds, runners, (np.float32, np.float64))
    else:
        _add_own_error(spread, expected, original, feeds, (runner, runtimes.reference), (np.float32,))
    return spread


def _widen(spread: list[list[Array | None]], expected: Outputs, outputs: Outputs) -> None:
    """Widen bounds to what other outputs depart by, which are as right."""
    for held, wanted, got in zip(spread, expected, outputs, strict=True):
        for index, (bound, a, b) in enumerate(zip(held, wanted, got, strict=True)):
            if bound is not None and np.shape(a) == np.shape(b):
                with np.errstate(all="ignore"):
                    apart = np.abs(np.asarray(a).astype(np.float64) - np.asarray(b).astype(np.float64))
                nan_once = np.isnan(a.astype(np.float64)) != np.isnan(np.asarray(b).astype(np.float64))
                apart = np.where(nan_once, np.inf, apart)
                held[index] = np.fmax(bound, _FACTOR * apart)


def _scales_in_float(node: NodeProto) -> bool:
    """Return whether onnxruntime 1.32.0 divides by a length in float, also where the rest is double."""
    return node.op_type == "DFT" and any(
        one.name == "inverse" and (one.i or one.ref_attr_name) for one in node.attribute
    )


def _add_own_error(
    spread: list[list[Array | None]],
    expected: Outputs,
    original: ModelProto,
    feeds: Sequence[dict[str, Any]],
    runners: Sequence[Runner],
    types: Sequence[type],
) -> None:
    """Add how far the original's float outputs are from those of the same model in double: no result need be nearer.

    Kernels differ in how much they lose: DFT of lengths that are no powers of two, for example.
    The error of the worst element of a tensor of the same magnitude counts for all.
    """
    wide = [{name: _doubled(value) for name, value in feed.items()} for feed in feeds]
    model = widened(original)
    cones = [_cone(model, index) for index in range(len(model.graph.output))]
    for held, wanted, feed in zip(spread, expected, wide, strict=True):
        # A Loop of no turns ends the reference evaluator, and a ConvTranspose of groups: other outputs are computed.
        apart = [_first(runners, cone, [feed]) for cone in cones]
        got = [found[0][0] if found else value for found, value in zip(apart, wanted, strict=True)]
        for index, (bound, a, b) in enumerate(zip(held, wanted, got, strict=True)):
            if bound is None or a.dtype not in types or np.shape(a) != np.shape(b):
                continue
            with np.errstate(all="ignore"):
                error = np.abs(a.astype(np.float64) - b)
                relative = np.where(np.isfinite(error), error, 0.0) / (np.abs(b) + _typical(b))
                relative = relative[~np.isnan(relative)]
                worst = float(relative.max(initial=0.0))
                own = np.nan_to_num(worst * (np.abs(b) + _typical(b)) + error, nan=0.0, posinf=0.0)
                lost = ~np.isfinite(a) & np.isfinite(b)  # what overflows on the way in float need not in a result
                held[index] = np.where(lost, np.inf, bound + _OWN_ERROR * own)


_OWN_ERROR = 3.0
"""How many times farther from the exact value than the original a result may be."""


def _first(runners: Sequence[Runner], model: ModelProto, feeds: Sequence[dict[str, Any]]) -> Outputs | None:
    for each in runners:
        with contextlib.suppress(Exception):
            return each(model, feeds)
    return None


def _cone(model: ModelProto, index: int) -> ModelProto:
    """Return the model with one output, and the nodes of the main graph that it needs."""
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    kept = model.graph.output[index]
    del graph.output[:]
    graph.output.append(kept)
    needed = {kept.name}
    for place in range(len(graph.node) - 1, -1, -1):
        node = graph.node[place]
        if needed.isdisjoint(node.output):
            del graph.node[place]
        else:
            inner = [one.input for one in messages(node, NodeProto)]
            given = [[value.name for value in one.output] for one in messages(node, onnx.GraphProto)]
            needed.update(name for names in (*inner, *given, node.input) for name in names)
    return copied


def _is_large(value: Any) -> bool:
    """Return whether the product of four such numbers may leave the type."""
    if not isinstance(value, np.ndarray) or not _is_float(value):
        return False
    return bool((np.abs(value.astype(np.float64)) > float(values.finfo(value.dtype).max) ** 0.25).any())


def _interpolates_large(feed: dict[str, Any]) -> bool:
    """Return whether sums of such numbers with weights above 1, along one axis after another, may leave the type."""
    floats = [value for value in feed.values() if isinstance(value, np.ndarray) and _is_float(value)]
    return any(bool((np.abs(one.astype(np.float64)) > float(values.finfo(one.dtype).max) / 8).any()) for one in floats)


def _typical(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.mean()) if finite.size else 0.0


def _doubled(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def widened(model: ModelProto) -> ModelProto:
    """Return the model with double in place of float, wherever a type or a tensor is."""
    copied = ModelProto()
    copied.CopyFrom(model)
    for tensor in tensors(copied):
        if tensor.data_type == TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for kind in messages(copied, TypeProto.Tensor):
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.DOUBLE
    for node in messages(copied, NodeProto):
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return copied


def _weight(operators: set[str], original: ModelProto, feed: dict[str, Any]) -> float:
    """Return how large what a sigmoid weighs can be."""
    if not operators & WEIGHED:
        return 0.0
    arrays = [*feed.values(), *(onnx.numpy_helper.to_array(each) for each in tensors(original))]
    floats = [each.astype(np.float64) for each in arrays if isinstance(each, np.ndarray) and _is_float(each)]
    return float(np.prod([max(np.abs(each[np.isfinite(each)]).max(initial=1.0), 1.0) for each in floats]))


def _stash_types(model: ModelProto) -> list[np.dtype[Any]]:
    """Return the types in which nodes keep their statistics, float where none is named."""
    found = set[int]()
    for node in messages(model, NodeProto):
        if node.op_type not in IN_STAGES:
            continue
        given = [one.i for one in _attributes(model, node) if one.name == "stash_type"]
        found.update(given or [TensorProto.FLOAT])
    return [numpy_type(one) for one in sorted(found.intersection(FLOATS))]


def _least(operators: set[str], value: Any, weight: float, stashes: Sequence[np.dtype[Any]]) -> Array | None:
    if not isinstance(value, np.ndarray) or not _is_float(value):
        return None
    coarser = [np.dtype(np.float32)] if operators & COMPUTES_IN_FLOAT else stashes
    info = max((values.finfo(one) for one in (value.dtype, *coarser)), key=lambda one: float(one.eps))
    in_float = info.eps > values.finfo(value.dtype).eps
    with np.errstate(all="ignore"):
        size = np.abs(value.astype(np.float64))
        size = np.where(np.isfinite(size), size, 0.0)
        one: Any = max(weight, 1.0) if operators & ADDS_ONE else weight
        if operators & (INTERPOLATES | TRANSFORMS) or (operators & IN_STAGES and in_float):
            one = max(one, float(size.max(initial=0.0)))
        if operators & LOGARITHMS:
            one = np.where(np.isfinite(value.astype(np.float64)), one, np.inf)
        if "ReduceMean" in operators:  # of one axis after the other no sum leaves the type
            one = np.where(np.isinf(value.astype(np.float64)), np.inf, one)
        if operators & INTERPOLATES:  # the sum of some, with weights above 1, may leave the type and come back
            one = np.where(np.abs(value.astype(np.float64)) > float(info.max) / 8, np.inf, one)
        if operators & ZERO_BY_ZERO:
            one = np.where(np.isnan(value.astype(np.float64)), np.inf, one)
        least = float(info.tiny) ** 0.5 if operators & SQUARES else 4 * float(info.tiny)
        return np.asarray(_FACTOR * float(info.eps) * (size + one) + least)


def _moved(rng: np.random.Generator, value: Any, stashes: Sequence[np.dtype[Any]]) -> Any:
    if not isinstance(value, np.ndarray) or not _is_float(value):
        return value
    with np.errstate(all="ignore"):
        eps = max(float(values.finfo(one).eps) for one in (value.dtype, *stashes))
        factor = 1 + eps * rng.choice((-1.0, 1.0), value.shape)
        wide = value.astype(np.float64)
        return np.where(np.isfinite(wide), wide * factor, wide).astype(value.dtype).reshape(value.shape)


def _moved_constants(rng: np.random.Generator, model: ModelProto, stashes: Sequence[np.dtype[Any]]) -> ModelProto:
    copied = ModelProto()
    copied.CopyFrom(model)
    decisive = {
        name for node in model.graph.node if node.op_type in ("Resize", "Upsample", "Range") for name in node.input
    }
    for tensor in tensors(copied):
        if tensor.data_type in FLOATS and tensor.name not in decisive and tensor.raw_data:
            array = _moved(rng, onnx.numpy_helper.to_array(tensor), stashes)
            tensor.raw_data = array.astype(numpy_type(tensor.data_type)).tobytes()
    return copied
