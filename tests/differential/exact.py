"""Operators that onnx 1.23.2's reference evaluator lacks or computes wrongly: written from the text, in double.

`EVALUATED` replaces the evaluator's own. What these compute is a judge of its own, where onnxruntime has no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_cast, op_loop

from differential import recurrent, values
from differential.values import Array

UINT8 = values.UINT8


def _wide(array: Array) -> Array:
    return np.asarray(array).astype(np.float64)


def _sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def swish(x: Array, alpha: float = 1.0) -> Array:
    """Swish-24: "y = x * sigmoid(alpha * x)"."""
    wide = _wide(x)
    return np.asarray(wide * _sigmoid(alpha * wide)).astype(x.dtype)


def gelu(x: Array, approximate: str = "none") -> Array:
    """Gelu-20: "0.5 * x * (1 + erf(x / sqrt(2)))", or of tanh."""
    wide = _wide(x)
    if approximate == "tanh":
        inner = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    else:
        inner = np.array([math.erf(each) for each in wide.ravel() / math.sqrt(2)]).reshape(x.shape)
    return np.asarray(0.5 * wide * (1 + inner)).astype(x.dtype)


def swiglu(gate: Array, linear: Array, alpha: float = 1.0) -> Array:
    """SwiGLU-28: "Y = Swish_alpha(A) * B"."""
    wide = _wide(gate)
    return np.asarray(wide * _sigmoid(alpha * wide) * _wide(linear)).astype(gate.dtype)


def one_hot(indices: Array, depth: Array, pair: Array, axis: int = -1) -> Array:
    """OneHot-11: indices outside [-depth, depth-1] "will result in one-hot representation with all off_value"."""
    count = int(np.asarray(depth).reshape(-1)[0])
    whole = np.trunc(_wide(indices)) if np.asarray(indices).dtype.kind not in "iu" else np.asarray(indices)
    places = np.asarray([int(each) for each in whole.ravel()], object).reshape(whole.shape)
    hot = np.stack([(places == i) | (places == i - count) for i in range(count)], -1).astype(bool)
    hot = np.moveaxis(hot.reshape(*whole.shape, count), -1, axis)
    return np.asarray(np.where(hot, pair[1], pair[0]).astype(pair.dtype))


def global_lp_pool(x: Array, p: int = 2) -> Array:
    """GlobalLpPool-22: "applies lp pool pooling across the values in the same channel".

    Powers overflow as in the kernel of onnxruntime 1.32.0 for version 2, which computes in float unless in double.
    """
    axes = tuple(range(2, x.ndim))
    largest = np.finfo(np.float64 if x.dtype == np.float64 else np.float32).max
    with np.errstate(over="ignore"):
        total = (np.abs(_wide(x)) ** p).sum(axis=axes, keepdims=True)
        return np.asarray(np.where(total > largest, np.inf, total) ** (1 / p)).astype(x.dtype)


def affine_grid(theta: Array, size: Array, align_corners: int = 0) -> Array:
    """AffineGrid-20: "-1 and 1 refer to the centers of the corner pixels", or to their outer edges."""
    dims = [int(each) for each in size[2:]]
    with np.errstate(all="ignore"):
        lines = [
            np.float64(2) * np.arange(dim) / (dim - 1) - 1 if align_corners else (2 * np.arange(dim) + 1) / dim - 1
            for dim in dims
        ]
        places = np.stack([*[*np.meshgrid(*lines, indexing="ij")][::-1], np.ones(dims)], -1)
        return np.asarray(np.einsum("nij,...j->n...i", _wide(theta), places)).astype(theta.dtype)


def _along(small: Array, shape: Sequence[int], axis: int, block: int) -> Array:
    """Return scales or zero points in the shape of the data."""
    small = np.asarray(small)
    if small.size == 1 and small.ndim < 2:
        return small.reshape(())
    if block:
        return np.take(np.repeat(small, block, axis), np.arange(shape[axis]), axis)
    return small.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def quantize_linear(
    x: Array,
    scale: Array,
    zero: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    saturate: int = 1,
    precision: int = 0,
) -> Array:
    """QuantizeLinear-21: "y = saturate((x / y_scale) + y_zero_point)", "rounds to nearest ties to even"."""
    kind = np.asarray(zero).dtype if zero is not None else np.dtype(tensor_dtype_to_np_dtype(output_dtype or UINT8))
    limits = _LIMITS.get(kind.name)
    if limits is None or precision or not saturate:
        raise NotImplementedError("only whole numbers, in the scale's own precision")
    scales = _along(scale, np.shape(x), axis, block_size)
    # onnxruntime divides in the type of the scale.
    whole = np.rint(_wide(np.asarray(x).astype(scales.dtype) / scales))
    if zero is not None:
        whole = whole + _wide(_along(zero, np.shape(x), axis, block_size))
    return np.asarray(np.clip(whole, *limits).astype(np.int64).astype(kind))


_LIMITS = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "uint4": (0, 15),
    "int4": (-8, 7),
    "uint2": (0, 3),
    "int2": (-2, 1),
}


def _of_rows(small: Array, rank: int) -> Array:
    """QLinearMatMul-21: an M element vector is "for per row quantization" of a."""
    return small.reshape(-1, 1) if small.ndim == 1 and small.size > 1 and rank > 1 else _one(small)


def _one(small: Array) -> Array:
    return small.reshape(()) if small.ndim < 2 and small.size == 1 else small


def qlinear_matmul(
    a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, scale: Array, zero: Array
) -> Array:
    """QLinearMatMul-21: "y = saturate((x / y_scale) + y_zero_point)" of the product of what a and b stand for."""
    left = (_wide(a) - _of_rows(_wide(a_zero), a.ndim)) * _of_rows(_wide(a_scale), a.ndim)
    right = (_wide(b) - _one(_wide(b_zero))) * _one(_wide(b_scale))
    whole = np.rint(np.matmul(left, right) / _one(_wide(scale))) + _one(_wide(zero))
    return np.asarray(np.clip(whole, *_LIMITS[zero.dtype.name]).astype(np.int64).astype(zero.dtype))


def conv_integer(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, **window: Any) -> Array:
    """ConvInteger-10: a convolution of what is left of data and weights without their zero points, in int32."""
    data, weights = np.asarray(x).astype(np.int64), np.asarray(w).astype(np.int64)
    if x_zero is not None:
        data = data - np.asarray(x_zero).astype(np.int64).reshape(())
    if w_zero is not None:
        weights = weights - _along(np.asarray(w_zero).astype(np.int64), w.shape, 0, 0)
    return _convolved(data, weights, **window).astype(np.int32)


def _convolved(
    x: Array,
    w: Array,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    dims = x.ndim - 2
    dilations, strides = dilations or [1] * dims, strides or [1] * dims
    spans = [step * (size - 1) + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    before, after = (list(pads or [0] * 2 * dims)[part] for part in (slice(dims), slice(dims, None)))
    if auto_pad.startswith("SAME"):
        for i, (size, span, stride) in enumerate(zip(x.shape[2:], spans, strides, strict=True)):
            missing = max((-(-size // stride) - 1) * stride + span - size, 0)
            before[i] = missing // 2 if auto_pad == "SAME_UPPER" else missing - missing // 2
            after[i] = missing - before[i]
    elif auto_pad == "VALID":
        before, after = [0] * dims, [0] * dims
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    out = [(size - span) // stride + 1 for size, span, stride in zip(x.shape[2:], spans, strides, strict=True)]
    maps, each = len(w), w.shape[1]
    y = np.zeros((len(x), maps, *out), x.dtype)
    for place in np.ndindex(*out):
        window = tuple(
            slice(at * stride, at * stride + span, step)
            for at, stride, span, step in zip(place, strides, spans, dilations, strict=True)
        )
        for part in range(group):
            rows = slice(part * maps // group, (part + 1) * maps // group)
            seen = x[(slice(None), slice(part * each, (part + 1) * each), *window)]
            y[(slice(None), rows, *place)] = np.tensordot(seen, w[rows], (range(1, x.ndim), range(1, x.ndim)))
    return y


def qlinear_conv(
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    scale: Array,
    zero: Array,
    bias: Array | None = None,
    **window: Any,
) -> Array:
    """QLinearConv-10: the bias is quantized with "scale = x_scale * w_scale, and zero_point = 0"."""
    whole = conv_integer(x, w, x_zero, w_zero, **window).astype(np.int64)
    channels = (1, -1, *[1] * (x.ndim - 2))
    if bias is not None:
        whole = whole + bias.astype(np.int64).reshape(channels)
    scales = _wide(w_scale).reshape(channels if np.size(w_scale) > 1 else ())
    y = np.rint(whole * scales * _wide(x_scale).reshape(()) / _wide(scale).reshape(())) + _wide(zero).reshape(())
    return np.asarray(np.clip(y, *_LIMITS[zero.dtype.name]).astype(np.int64).astype(zero.dtype))


def _reduction(compute: Callable[[Array, tuple[int, ...]], Array]) -> Callable[..., Array]:
    """Return a reduction whose result has the type of its input."""

    def reduce(x: Array, held: Array | None = None, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0):  # type: ignore[no-untyped-def]
        named = [int(axis) for axis in (np.asarray(held).ravel() if held is not None else axes or ())]
        if not named and noop_with_empty_axes:
            # ReduceSumSquare-18: "applies elementwise operations": reduces over no axes
            return _narrow(compute(x[None], (0,)), x)
        chosen = tuple(sorted(axis % x.ndim for axis in named)) or tuple(range(x.ndim))
        found = compute(x, chosen)
        if keepdims:
            found = found.reshape([1 if axis in chosen else dim for axis, dim in enumerate(x.shape)])
        return _narrow(found, x)

    return reduce


def _narrow(found: Array, x: Array) -> Array:
    return np.asarray(found).astype(x.dtype)


def _integers_or_double(x: Array) -> Array:
    return x if x.dtype.kind in "iu" else _wide(x)


def _log_sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.log(_wide(x).sum(axis=axes)))


def _norm(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.sqrt((_wide(x) ** 2).sum(axis=axes)))


def layer_normalization(
    x: Array, scale: Array, bias: Array | None = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Array, ...]:
    """LayerNormalization-17: the stages of the text, the first in `stash_type`, in which squares overflow."""
    stash = np.dtype(tensor_dtype_to_np_dtype(stash_type))
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype(stash)
    mean = wide.mean(axes, keepdims=True)
    away = wide - mean
    inverse = 1 / np.sqrt((away * away).mean(axes, keepdims=True) + np.asarray(epsilon, stash))
    y = _wide((away * inverse).astype(x.dtype)) * _wide(scale)
    y = y if bias is None else y + _wide(bias)
    return y.astype(x.dtype), mean.astype(stash), inverse.astype(stash)


def rms_normalization(x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Array:
    """RMSNormalization-23: "finally cast `Normalized` back to the original type of `X`"; Y has the scale's type.

    Squares overflow in `stash_type`, as in the kernel.
    """
    stash = tensor_dtype_to_np_dtype(stash_type)
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = _wide(x.astype(stash))
    squares = np.where(np.isinf((wide * wide).astype(stash).astype(np.float64)), np.inf, wide * wide)
    even = (wide / np.sqrt(squares.mean(axes, keepdims=True) + epsilon)).astype(x.dtype)
    return np.asarray(_wide(even) * _wide(scale)).astype(scale.dtype)


def reverse_sequence(x: Array, lengths: Array, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """ReverseSequence-10: "the first `sequence_lens[i]` elements on time axis" are reversed."""
    found = np.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for row, length in enumerate(np.asarray(lengths).ravel()):
        found[row, :length] = found[row, :length][::-1]
    return np.moveaxis(found, (0, 1), (batch_axis, time_axis))


def shape(x: Array, start: int = 0, end: int | None = None) -> Array:
    """Shape-15: axes "will be clamped to the range [0, r]" after r is added to negative ones, as Python slices."""
    return np.array(np.shape(x)[start:end], np.int64)


def random_like(x: Array, dtype: int = 0, **_: Any) -> Array:
    """A tensor of the right shape and type: nothing compares what is random."""
    return np.zeros(x.shape, tensor_dtype_to_np_dtype(dtype) if dtype else x.dtype)


def optional(x: Any = None, type: Any = None) -> Any:  # noqa: A002
    """Optional-15: an optional that has the element, or none."""
    return x


def cast(x: Array, to: TensorProto.DataType, saturate: int = 1, round_mode: str = "up") -> Array:
    """Cast-13: strings have the "plain floating-point representation", of which the text names no number of digits.

    These have 8 digits, as those of onnxruntime 1.32.0: the evaluator's own have as many as Python writes, and "-2.0".
    A string becomes a bool by way of a whole number; to the evaluator itself, each string but "" is True.
    """
    if to == TensorProto.BOOL and x.dtype.kind in "OU":
        return np.array([int(float(each)) != 0 for each in x.ravel()], np.bool_).reshape(x.shape)
    if to != TensorProto.STRING:
        return np.asarray(op_cast.cast_to(x, to, bool(saturate), round_mode))
    return np.array([_text(each) for each in x.ravel()], dtype=object).reshape(x.shape)


def cast_like(x: Array, like: Array, saturate: int = 1, round_mode: str = "up") -> Array:
    """CastLike-15: a Cast to the type of another tensor."""
    return cast(x, np_dtype_to_tensor_dtype(like.dtype), saturate, round_mode)


def _text(element: Any) -> str:
    if isinstance(element, str):
        return element
    if np.asarray(element).dtype.kind in "biu":
        return str(int(element))
    return f"{float(element):.8g}".replace("inf", "INF").replace("nan", "NaN")


def _evaluated(name: str, function: Callable[..., Any]) -> type[OpRun]:
    def _run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        given = {key: value for key, value in attributes.items() if value is not None}
        found = function(*inputs, **given)
        return found if isinstance(found, tuple) else (found,)

    return type(name, (OpRun,), {"op_domain": "", "_run": _run})


def lrn(x: Array, size: int, alpha: float = float(np.float32(1e-4)), beta: float = 0.75, bias: float = 1.0) -> Array:
    """LRN-13: "max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))"; squares overflow."""
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    with np.errstate(all="ignore"):
        squares = _wide(wide * wide)
        total = np.zeros_like(squares)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + size // 2)
            total[:, c] = squares[:, low : high + 1].sum(axis=1)
        return np.asarray(_wide(x) / (float(bias) + float(alpha) / size * total) ** float(beta)).astype(x.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "AffineGrid": affine_grid,
    "Cast": cast,
    "CastLike": cast_like,
    "ConvInteger": conv_integer,
    "GRU": recurrent.gru,
    "Gelu": gelu,
    "GlobalLpPool": global_lp_pool,
    "LRN": lrn,
    "LSTM": recurrent.lstm,
    "LayerNormalization": layer_normalization,
    "OneHot": one_hot,
    "Optional": optional,
    "OptionalGetElement": lambda x: x,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
    "RMSNormalization": rms_normalization,
    "RNN": recurrent.rnn,
    "RandomNormalLike": random_like,
    "RandomUniformLike": random_like,
    "Bernoulli": random_like,
    "ReverseSequence": reverse_sequence,
    "ReduceL1": _reduction(lambda x, axes: np.abs(_integers_or_double(x)).sum(axis=axes)),
    "ReduceL2": _reduction(_norm),
    "ReduceLogSum": _reduction(_log_sum),
    "ReduceProd": _reduction(lambda x, axes: np.prod(_integers_or_double(x), axis=axes)),
    "ReduceSum": _reduction(lambda x, axes: _integers_or_double(x).sum(axis=axes)),
    "ReduceSumSquare": _reduction(lambda x, axes: (_integers_or_double(x) ** 2).sum(axis=axes)),
    "Shape": shape,
    "SwiGLU": swiglu,
    "Swish": swish,
}


class Loop(op_loop.Loop):
    """Loop with scan outputs that are stacked: the evaluator joins them along their first axis."""

    body: Any
    _run_body: Any

    def _run(  # type: ignore[no-untyped-def]
        self, trips, cond, *carried, context=None, body=None, attributes=None, bindings=None
    ):
        held, step, more = list(carried), 0, cond is None or bool(np.all(cond))
        turns: list[list[Any]] = []
        while more and (trips is None or step < int(np.asarray(trips).ravel()[0])):
            given = [np.array(step, np.int64), np.array(more), *held]
            feeds = {**(context or {}), **dict(zip(self.body.input_names, given, strict=True))}
            found = self._run_body(feeds, attributes=attributes)
            more, held = bool(np.all(found[0])), list(found[1 : 1 + len(held)])
            turns.append(list(found[1 + len(held) :]))
            step += 1
        if not turns and len(self.body.output_names) > 1 + len(held):
            raise NotImplementedError("no turn says what the shape of a scan output is")
        return (*held, *(np.stack(column) for column in zip(*turns, strict=True)))


EVALUATED: list[type[OpRun]] = [*(_evaluated(name, function) for name, function in FUNCTIONS.items()), Loop]

TRUSTED = frozenset(FUNCTIONS) | {
    *("Constant", "Flatten", "Identity", "If", "Loop", "Reshape", "Scan", "Shape", "Transpose"),
}
"""Operators of which the evaluator, with these functions, decides alone: what differs from it is wrong."""
