"""What the rounding of its own sums makes of the result of a normalization, or of a logarithm of a sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.inner_sums import InnerSum, Use
from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.passes.proof.rounding.bound import FACTOR
from opshift.passes.proof.rounding.wide_nodes import WideNode


def moved_by_inner_sum(
    wide: WideNode, inner: InnerSum, given: Mapping[str, Any], result: Any, dtype: type[np.floating[Any]], sign: int
) -> Any:
    """Return the result of a node with an inner sum, moved by what the rounding of its own sums makes of it.

    Of a sum of exponentials that is off by a part of itself the logarithm is off by that part, and what is divided by
    it too; what is divided by the root of a sum of squares by half of it. A mean that is off moves a centered row by as
    much, divided by its spread: of a row of two numbers no disturbance shows that, since normalized they are 1 and -1
    whatever the two are. Where a row has no more spread than the rounding of its mean, that decides everything.
    """
    node = wide.node
    x = inner.data([given[name] if name else None for name in node.input])
    if not isinstance(x, np.ndarray) or not isinstance(result, np.ndarray) or not x.size or not result.size:
        return result
    unit = float(np.finfo(dtype).eps)
    if inner.use is Use.LOGARITHM:
        terms = x.size / result.size
        whole = unit * float(units_of_sum(terms, np.minimum(terms, longest_run(x.reshape(1, -1)).max())))
        return np.asarray(result + sign * whole, result.dtype)
    axes = tuple(inner.axes(attributes_of(node), x.ndim, wide.opsets[""])) if x.ndim else ()
    if not axes or result.shape != x.shape:
        return result
    lengths = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    terms = x.size // math.prod(lengths)
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(-1, terms)
    part = unit * units_of_sum(terms, longest_run(rows)).reshape(lengths)
    with np.errstate(all="ignore"):
        if inner.use is Use.LESS_LOGARITHM:
            moved = result + sign * part
        elif inner.use is Use.QUOTIENT:
            moved = result * (1 + sign * part)
        else:
            centered = inner.use is Use.CENTERED
            shift = _off_center(node, inner, given, x, axes, part) if centered else np.zeros(())
            bias = _parameter(node, inner, given, inner.bias, len(axes)) if centered else np.zeros(())
            part = part + _cancelling(node, inner, x, axes, part) if inner.by_squares else part
            moved = result + sign * shift + sign * (result - bias) * part / 2
        undecided = inner.bare or inner.by_squares
        return np.asarray(np.where(np.isfinite(moved), moved, np.nan if undecided else result), result.dtype)


def makes_constants(wide: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node is a softmax of finite rows of one number, which are 1, or 0 as logarithms, anyhow."""
    inner = traits_of(wide.node).inner_sum
    if inner is None or inner.use not in (Use.LESS_LOGARITHM, Use.QUOTIENT):
        return False
    x = inner.data([plain[name] if name else None for name in wide.node.input])
    if not isinstance(x, np.ndarray) or not np.isfinite(x).all():
        return False
    axes = inner.axes(attributes_of(wide.node), x.ndim, wide.opsets[""]) if x.ndim else ()
    return all(x.shape[axis] == 1 for axis in axes)


def _off_center(
    node: onnx.NodeProto,
    inner: InnerSum,
    given: Mapping[str, Any],
    x: npt.NDArray[Any],
    axes: tuple[int, ...],
    part: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Return by how much the rounding of their mean moves normalized rows."""
    epsilon = next((one.f for one in node.attribute if one.name == "epsilon"), 0.0 if inner.bare else inner.epsilon)
    spread = np.sqrt(x.var(axes, keepdims=True) + epsilon)
    shift = part / 2 * np.abs(x).mean(axes, keepdims=True) / spread
    if inner.bare:
        shift = np.where(shift < 0.5, shift, np.nan)
    return np.asarray(shift * _parameter(node, inner, given, inner.scale, len(axes), default=1.0))


def _cancelling(
    node: onnx.NodeProto, inner: InnerSum, x: npt.NDArray[Any], axes: tuple[int, ...], part: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return by which part of itself a variance is off that is a difference of squares; NaN where no digit is right."""
    epsilon = next((one.f for one in node.attribute if one.name == "epsilon"), inner.epsilon)
    lost = 2 * part * (x.astype(np.float64) ** 2).mean(axes, keepdims=True) / (x.var(axes, keepdims=True) + epsilon)
    return np.where(lost * FACTOR < 1, lost, np.nan)


def _parameter(
    node: onnx.NodeProto, inner: InnerSum, given: Mapping[str, Any], place: int, axes: int, default: float = 0.0
) -> npt.NDArray[Any]:
    """Return the scale or the bias of a normalization, so that it broadcasts."""
    if len(node.input) <= place or not node.input[place]:
        return np.asarray(default)
    value = np.asarray(given[node.input[place]])
    return value.reshape(-1, *(1,) * axes) if inner.by_channel else value


def units_of_sum(terms: float, equal: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the units of rounding that a sum of n numbers may be off by, of which `FACTOR` covers a part.

    Roundings that are independent add up as the square root of n. They are not where numbers are equal: each of 1,000
    times 0.001, added one after the other, is rounded in the same direction as long as the sum has one exponent. The
    errors of m equal numbers add up to m, those of n / m such groups as the root of n / m: the root of n * m in all.
    No sum is off by more than n - 1 roundings of half a unit (Higham, Accuracy and Stability of Numerical Algorithms,
    2002, 4.2).
    """
    return np.maximum(1.0, np.minimum(np.sqrt(max(terms, 0.0) * equal), terms / 2) / FACTOR)


def longest_run(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how many numbers of each row are the same."""
    if not rows.size:
        return np.ones(len(rows))
    ordered = np.sort(rows.astype(np.float64), axis=1)
    places = np.arange(rows.shape[1])
    other = np.ones(ordered.shape, np.bool_)
    other[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begins = np.maximum.accumulate(np.where(other, places, 0), axis=1)
    return np.asarray((places - begins).max(axis=1) + 1.0)
