"""Model the effect of rounded inner sums on the result of a normalization, or of a logarithm of a sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.passes.proof.rounding.bound import FACTOR
from opshift.passes.proof.rounding.wide_nodes import WideNode


def moved_by_inner_sum(
    wide: WideNode, inner: InnerSum, inputs: Mapping[str, Any], result: Any, dtype: type[np.floating[Any]], sign: int
) -> Any:
    """Return the result of a node with an inner sum, moved by the effect of rounding in its sums.

    A relative error of a sum of exponentials becomes an absolute error of its logarithm, and a relative error of
    quotients by the sum; division by the root of a sum of squares has half of it. An error of the mean moves a centered
    row by as much, divided by its spread. No perturbation of two numbers shows that, since normalized they are always 1
    and -1. If a row's spread is not larger than the rounding of its mean, rounding decides everything. Moving a row of
    a matrix by a unit of its length moves the determinant by at most a unit of the product of all lengths (Hadamard).
    If the rows are nearly the same, elimination may lose less than adding all terms. A transform, which adds a signal
    times roots of unity, moves by the rounding of these roots.
    """
    node = wide.node
    x = inner.data([inputs[name] if name else None for name in node.input])
    if not isinstance(x, np.ndarray) or not isinstance(result, np.ndarray) or not x.size or not result.size:
        return result
    unit = float(np.finfo(dtype).eps)
    if inner.use is SumUse.WEIGHED:
        weights = np.abs(np.asarray(attributes_of(node).get("coefficients", ()), np.float64))
        return np.asarray(result + sign * unit * math.sqrt(max(weights.size, 1)) * weights.sum(), result.dtype)
    if inner.use is SumUse.LOGARITHM:
        terms = x.size / result.size
        whole = unit * float(units_of_sum(terms, np.minimum(terms, longest_run(x.reshape(1, -1)).max())))
        with np.errstate(invalid="ignore"):  # infinite numbers are not integers
            return np.asarray(result + sign * whole, result.dtype)
    if inner.use is SumUse.DETERMINANT:
        with np.errstate(all="ignore"):
            moved = result + sign * unit * x.shape[-1] * np.linalg.norm(x, axis=-1).prod(axis=-1)
        return np.asarray(np.where(np.isfinite(moved), moved, result), result.dtype)
    if inner.use in (SumUse.TRANSFORM, SumUse.INVERSE):
        return _transformed(wide, inner, x, result, sign * unit)
    if inner.use is SumUse.ATTENTION:
        keys = inputs.get(node.input[inner.scale])
        return np.asarray(result + sign * _moved_attention(x, x if keys is None else keys, result, unit), result.dtype)
    given_shape = result.shape
    if inner.by_group and x.ndim > 1 and result.shape == x.shape:
        x = x.reshape(x.shape[0], attributes_of(node).get("num_groups", 1), -1, *x.shape[2:])
        result = result.reshape(x.shape)
    axes = tuple(inner.axes(attributes_of(node), x.ndim, wide.opsets[""])) if x.ndim else ()
    if not axes or result.shape != x.shape:
        return result
    part, squares = _part_of_sums(x, axes, unit), _subtracts_squares(inner, dtype)
    with np.errstate(all="ignore"):
        if inner.use is SumUse.LESS_LOGARITHM:
            moved = result + sign * part
        elif inner.use is SumUse.QUOTIENT:
            moved = result * (1 + sign * part)
        else:
            centered = inner.use is SumUse.CENTERED
            shift = _off_center(node, inner, inputs, x, axes, part) if centered else np.zeros(())
            bias = _parameter(node, inner, inputs, inner.bias, len(axes)) if centered else np.zeros(())
            part = part + _cancelling(node, inner, x, axes, part) if squares else part
            moved = result + sign * shift + sign * (result - bias) * part / 2
        other = _other_root(result, x, axes) if squares else np.nan if inner.bare else result
        moved = np.where(np.isfinite(moved), moved, other)
        return np.asarray(moved, result.dtype).reshape(given_shape)


def moved_statistics(
    wide: WideNode,
    inner: InnerSum,
    inputs: Mapping[str, Any],
    results: Mapping[str, Any],
    dtype: type[np.floating[Any]],
    sign: int,
) -> Mapping[str, Any]:
    """Return the results of a node, with mean and inverse deviation moved by the rounding of its sums.

    The error of a mean is squared in the variance of its row: that of equal numbers is 0, or this square.
    """
    node = wide.node
    places = [place for place in inner.statistics if place < len(node.output) and node.output[place]]
    x = inner.data([inputs[name] if name else None for name in node.input])
    if not places or not isinstance(x, np.ndarray) or not x.size or not x.ndim:
        return results
    axes = tuple(inner.axes(attributes_of(node), x.ndim, wide.opsets[""]))
    part = _part_of_sums(x, axes, float(np.finfo(dtype).eps))
    moved = dict(results)
    with np.errstate(all="ignore"):
        shift = part / 2 * np.abs(x).mean(axes, keepdims=True)
        for place in places:
            name = node.output[place]
            value = results[name]
            if value.shape != part.shape:
                continue
            if place == inner.statistics[0]:
                moved[name] = np.asarray(value + sign * shift, value.dtype)
                continue
            squares = _subtracts_squares(inner, dtype)
            lost = _cancelling(node, inner, x, axes, part) if squares else np.zeros(())
            away = value / np.sqrt(1 + (shift * value) ** 2)
            away = np.asarray(away * (1 + sign * (part + lost) / 2), value.dtype)
            moved[name] = np.where(np.isnan(lost), _other_root(value, x, axes), away)
    return moved


def _part_of_sums(x: npt.NDArray[Any], axes: tuple[int, ...], unit: float) -> npt.NDArray[Any]:
    """Return the relative error of the sum of each row, with dims of 1 for the axes of rows."""
    lengths = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    terms = x.size // math.prod(lengths)
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(-1, terms)
    return np.asarray(unit * units_of_sum(terms, longest_run(rows)).reshape(lengths))


def _transformed(wide: WideNode, inner: InnerSum, x: npt.NDArray[Any], result: npt.NDArray[Any], unit: float) -> Any:
    """Return a transform moved by the errors of roots with rounded angles, up to a whole turn for each element.

    The error of the last root is then as many units as the axis length, and parts of the transform may cancel
    completely: in float, onnxruntime 1.32.0 returns 1e-6 for the zero of six ones.
    """
    axes = tuple(inner.axes(attributes_of(wide.node), x.ndim, wide.opsets[""]))
    batch = x.shape[: x.ndim - len(axes)]
    with np.errstate(all="ignore"):
        size = np.abs(x.astype(np.float64)).sum(axes).reshape(*batch, *(1,) * (result.ndim - len(batch)))
        if inner.use is SumUse.INVERSE:
            size = size / math.prod(result.shape[len(batch) :])
        moved = result + unit * size * sum(x.shape[len(batch) :])
    return np.asarray(np.where(np.isfinite(moved), moved, result), result.dtype)


def makes_constants(wide: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node is a softmax of finite rows of one number, which are always 1, or 0 as logarithms."""
    inner = traits_of(wide.node).inner_sum
    if inner is None or inner.use not in (SumUse.LESS_LOGARITHM, SumUse.QUOTIENT):
        return False
    x = inner.data([plain[name] if name else None for name in wide.node.input])
    if not isinstance(x, np.ndarray) or not np.isfinite(x).all():
        return False
    axes = inner.axes(attributes_of(wide.node), x.ndim, wide.opsets[""]) if x.ndim else ()
    return all(x.shape[axis] == 1 for axis in axes)


def epsilon_of(node: onnx.NodeProto) -> float:
    """Return the epsilon that a node with an inner sum adds to a variance."""
    inner = traits_of(node).inner_sum
    default = 0.0 if inner is None or inner.bare else inner.epsilon
    return next((one.f for one in node.attribute if one.name == "epsilon"), default)


def _off_center(
    node: onnx.NodeProto,
    inner: InnerSum,
    inputs: Mapping[str, Any],
    x: npt.NDArray[Any],
    axes: tuple[int, ...],
    part: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Return the error of normalized rows from the rounding of their mean."""
    epsilon = epsilon_of(node)
    spread = np.sqrt(x.var(axes, keepdims=True) + epsilon)
    shift = part / 2 * np.abs(x).mean(axes, keepdims=True) / spread
    if inner.bare:
        shift = np.where(shift < 0.5, shift, np.nan)
    return np.asarray(shift * _parameter(node, inner, inputs, inner.scale, len(axes), default=1.0))


def _subtracts_squares(inner: InnerSum, dtype: type[np.floating[Any]]) -> bool:
    """Return whether a variance may be the difference of two means of squares, unless a wider type shows that."""
    return inner.by_squares or (inner.squares_in_double and dtype is np.float64)


def _other_root(value: npt.NDArray[Any], x: npt.NDArray[Any], axes: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return NaN for numbers, and 0 for NaN: the root of a variance is either where no digit of it is right."""
    rooted = np.isnan(value) & np.isfinite(x).all(axes, keepdims=True)
    return np.where(rooted, 0.0, np.nan).astype(value.dtype)


def _cancelling(
    node: onnx.NodeProto, inner: InnerSum, x: npt.NDArray[Any], axes: tuple[int, ...], part: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return the relative error of a variance that is a difference of squares; NaN if no digit is right."""
    epsilon = epsilon_of(node)
    lost = 2 * part * (x.astype(np.float64) ** 2).mean(axes, keepdims=True) / (x.var(axes, keepdims=True) + epsilon)
    return np.where(lost * FACTOR < 1, lost, np.nan)


def _parameter(
    node: onnx.NodeProto, inner: InnerSum, inputs: Mapping[str, Any], place: int, axes: int, default: float = 0.0
) -> npt.NDArray[Any]:
    """Return the scale or the bias of a normalization in a shape that broadcasts."""
    if len(node.input) <= place or not node.input[place]:
        return np.asarray(default)
    value = np.asarray(inputs[node.input[place]])
    if inner.by_group:
        return value.reshape(attributes_of(node).get("num_groups", 1), -1, *(1,) * (axes - 1))
    return value.reshape(-1, *(1,) * axes) if inner.by_channel else value


def _moved_attention(values: Any, keys: Any, result: npt.NDArray[Any], unit: float) -> npt.NDArray[Any]:
    """Return the rounding error of weighted values: from the sum of the weights, and from that of the values.

    It uses the largest value of each batch and channel; for heads that share values, the largest of all. Equal keys
    have the same weight. A kernel that adds blocks of keys has a smaller error than one that adds keys one by one.
    """
    runs = [longest_run(rows.reshape(len(rows), -1).T).max(initial=1) for rows in (values, np.moveaxis(keys, -2, 0))]
    units = units_of_sum(len(values), np.minimum(np.max(runs), len(values)))
    most = np.abs(values).max(0)
    if result.ndim == 3 and most.size == result.shape[0] * result.shape[2]:
        most = most.reshape(result.shape[0], 1, result.shape[2])
    else:
        most = most.max()
    return np.asarray(2 * unit * units * most)


def units_of_sum(terms: float, equal: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the error of a sum of n numbers in units of rounding, beyond the part that `FACTOR` covers.

    Roundings that are independent add up as the square root of n. Those of equal numbers are not: when 0.001 is added
    1,000 times, each sum is rounded in the same direction while its exponent stays the same. The errors of m equal
    numbers add up to m, those of n / m such groups as the root of n / m: the root of n * m in all. The error of a sum
    is at most n - 1 roundings of half a unit (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 4.2).
    """
    return np.maximum(1.0, np.minimum(np.sqrt(max(terms, 0.0) * equal), terms / 2) / FACTOR)


def longest_run(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the number of equal numbers in each row."""
    if not rows.size:
        return np.ones(len(rows))
    ordered = np.sort(rows.astype(np.float64), axis=1)
    places = np.arange(rows.shape[1])
    other = np.ones(ordered.shape, np.bool_)
    other[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begins = np.maximum.accumulate(np.where(other, places, 0), axis=1)
    return np.asarray((places - begins).max(axis=1) + 1.0)
