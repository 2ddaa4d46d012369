"""GroupNormalization: mean 0 and variance 1 in each group of channels. Scaled by group at 18, by channel since 21.

ONNX deprecates version 18 in its own opset, and its checker takes no model that has it; onnxruntime 1.31.1 runs it. So
it is read, and not written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import images
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, spatial
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class GroupNormalization:
    """The number of groups, the epsilon, and whether scale and bias apply to groups or channels.

    Statistics are computed in `stash_type`, and what they give is rounded to the input's type before it is scaled; None
    stands for that type. `scaled` is by `channel` or by `group`.
    """

    num_groups: int = 1
    epsilon: float = float(np.float32(1e-5))
    stash_type: int | None = 1
    scaled: str = "channel"


def oracle(
    what: GroupNormalization, x: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """GroupNormalization-21: "y = scale * (x - mean) / sqrt(variance + epsilon) + bias".

    "the mean and variance are computed per instance per group of channels, and `scale` and `bias` should be specified
    for each channel"; GroupNormalization-18: "for each group of channels". num_groups "should be a divisor of the
    number of channels".
    """
    count = what.num_groups if what.scaled == "group" else x.shape[1]
    if not x.shape[1] or x.shape[1] % what.num_groups or scale.shape != (count,) or bias.shape != (count,):
        raise ValueError(f"{x.shape[1]} channels do not fit {what.num_groups} groups, scale and bias")
    if not x.size:
        return x
    stash = x.dtype if what.stash_type is None else onnx.helper.tensor_dtype_to_np_dtype(what.stash_type)
    wide = x.astype(stash).astype(np.float64).reshape(x.shape[0], what.num_groups, -1)
    spread = np.sqrt(wide.var(axis=2, keepdims=True) + what.epsilon)
    normal = ((wide - wide.mean(axis=2, keepdims=True)) / spread).astype(stash).astype(x.dtype).astype(np.float64)
    rows = normal.reshape(x.shape[0], count, -1)
    y = rows * scale.astype(np.float64)[:, None] + bias.astype(np.float64)[:, None]
    return np.asarray(y.reshape(x.shape).astype(x.dtype))


def normal(what: GroupNormalization, operands: Operands) -> tuple[GroupNormalization, Operands]:
    """Name the type of statistics where the input's is known; a group of one channel is scaled by channel."""
    if what.stash_type is None and first(operands).dtype is not None:
        what = dataclasses.replace(what, stash_type=first(operands).dtype)
    shape = first(operands).shape
    if shape is not None and len(shape) > 1 and shape[1] == what.num_groups:
        what = dataclasses.replace(what, scaled="channel")
    return what, operands


def _typed(what: GroupNormalization, operands: Operands) -> Reason | None:
    known = what.stash_type is not None and first(operands).dtype is not None
    return None if known else Reason("the element type of X is unknown", missing=True)


def _by_group(what: GroupNormalization, operands: Operands) -> Reason | None:
    return None if what.scaled == "group" else Reason("scale and bias are those of a channel")


def _by_group_and_typed(what: GroupNormalization, operands: Operands) -> Reason | None:
    return _by_group(what, operands) or _typed(what, operands)


@lowering(18, applies_if=_by_group_and_typed, bind=lambda what, operands: {"groups": (what.num_groups,)})
def by_channel(x, scale, bias, groups: Sequence[int]):
    """Repeat scale and bias of a group for each of its channels."""
    each = op.Concat(groups, op.Shape(x, start=1, end=2) / groups, axis=0)
    scales = op.Reshape(op.Expand(op.Unsqueeze(scale, [1]), each), [-1])
    biases = op.Reshape(op.Expand(op.Unsqueeze(bias, [1]), each), [-1])
    return meaning.Same(x, scales, biases, scaled="channel")


def _by_channel(what: GroupNormalization, operands: Operands) -> Reason | None:
    return Reason("scale and bias are those of a group") if what.scaled == "group" else _typed(what, operands)


def _statistics(what: GroupNormalization, operands: Operands) -> Mapping[str, Any]:
    types = {"within": what.stash_type, "to": first(operands).dtype}
    return {"groups": (what.num_groups,), "epsilon": what.epsilon, **types}


def _of_known_rank(what: GroupNormalization, operands: Operands) -> Reason | None:
    if first(operands).rank is None:
        return Reason("the rank is unknown", missing=True)
    return _by_channel(what, operands)


def _ranked(what: GroupNormalization, operands: Operands) -> Mapping[str, Any]:
    return {**_statistics(what, operands), "column": _column(operands)}


def _column(operands: Operands) -> tuple[int, ...]:
    """Return the shape in which scale and bias are spread over the channels."""
    return (-1, *(1,) * ((first(operands).rank or 2) - 2))


@lowering(18, applies_if=_of_known_rank, bind=_ranked, rounds=True)
def as_rows(x, scale, bias, groups: Sequence[int], epsilon: float, within: int, to: int, column: Sequence[int]):
    """Compute it by the equation of the text, each group as a row; with allowzero an empty axis is not another's."""
    shape = op.Shape(x)
    count = op.ReduceProd(op.Slice(shape, [1], [2147483647]), keepdims=1)
    rows = op.Reshape(
        op.Cast(x, to=within), op.Concat(op.Slice(shape, [0], [1]), groups, count / groups, axis=0), allowzero=1
    )
    away = rows - op.ReduceMean(rows, [2], keepdims=1)
    spread = op.Sqrt(op.ReduceMean(away * away, [2], keepdims=1) + op.Cast(epsilon, to=within))
    even = op.Cast(op.Reshape(away / spread, shape, allowzero=1), to=to)
    return even * op.Reshape(scale, column) + op.Reshape(bias, column)


def _channels(operands: Operands) -> Dim:
    """Return the number of channels, each of which has a scale."""
    scales = (operands[1] or Facts()).dim(0)
    return scales if isinstance(scales, int) else first(operands).dim(1)


def _of_known_channels(what: GroupNormalization, operands: Operands) -> Reason | None:
    if what.scaled == "group":
        return _by_channel(what, operands)
    rank, channels = first(operands).rank, _channels(operands)
    if rank is None or not isinstance(channels, int):
        return Reason("the channels are not known", missing=True)
    if rank < 3:
        return Reason("there is no axis behind the channels")
    return Reason("the channels are no groups") if channels % what.num_groups else _by_channel(what, operands)


def _groups(what: GroupNormalization, operands: Operands) -> Mapping[str, Any]:
    rank, channels = first(operands).rank or 0, _channels(operands)
    count = channels // what.num_groups if isinstance(channels, int) else 1
    axes = {"spatial": tuple(range(2, rank)), "column": _column(operands)}
    apart = (0, what.num_groups, count)
    group = tuple(group for group in range(what.num_groups) for _ in range(count))
    bound = {name: value for name, value in _statistics(what, operands).items() if name != "groups"}
    return {**bound, **axes, "apart": apart, "group": group}


@lowering(18, applies_if=_of_known_channels, bind=_groups, rounds=True)
def by_means(
    x, scale, bias, apart: Sequence[int], group: Sequence[int], spatial: Sequence[int], column: Sequence[int],
    epsilon: float, within: int, to: int,
):  # fmt: skip
    """Compute the mean of each channel, then of a group's channels; no dimension that may be zero is reshaped."""
    wide = op.Cast(x, to=within)
    mean = op.ReduceMean(op.Reshape(op.ReduceMean(wide, spatial, keepdims=1), apart), [2], keepdims=0)
    away = wide - op.Unsqueeze(op.Gather(mean, group, axis=1), spatial)
    square = op.ReduceMean(op.Reshape(op.ReduceMean(away * away, spatial, keepdims=1), apart), [2], keepdims=0)
    spread = op.Gather(op.Sqrt(square + op.Cast(epsilon, to=within)), group, axis=1)
    even = op.Cast(away / op.Unsqueeze(spread, spatial), to=to)
    return even * op.Reshape(scale, column) + op.Reshape(bias, column)


def _grouped(attributes: Mapping[str, Any]) -> GroupNormalization:
    return GroupNormalization(attributes["num_groups"], attributes["epsilon"], None, "group")


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return how floats are rounded: in float also those of double, unless `stash_type` is another."""
    stashed = (Trait.IN_FLOAT,) if attributes.get("stash_type", 1) in (None, TensorProto.FLOAT) else ()
    return (Trait.SUMS, Trait.SQUARES, Trait.WEIGHS, *stashed)


@of_two
def equal_dims(node: NodeShapes, data: Shape, scale: Shape) -> Pairs:
    """Yield the channels and the scales; before 21 there is a scale for each group, and not for each channel."""
    if node.opset < 21:
        yield scale[0], node.attributes.get("num_groups", 1)
    elif len(data) > 1:
        yield data[1], scale[0]


def likely_sizes(node: NodeShapes) -> Iterable[int]:
    """Return numbers of channels of which each group has as many."""
    groups = node.attributes.get("num_groups", 1)
    return 2 * groups, groups


OPERATOR = Operator(
    name="GroupNormalization",
    meaning=GroupNormalization,
    versions=(Version(18, lift=_grouped), Version(21, applies_if=_typed)),
    operands=("X", "scale", "bias"),
    oracle=oracle,
    normal=normal,
    lowerings=(by_channel, as_rows, by_means),
    traits=Traits(
        merges=images,
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        floats_by=floats_by,
        inner_sum=InnerSum(SumUse.CENTERED, spatial, by_group=True),
        equal_dims=equal_dims,
        likely_sizes=likely_sizes,
    ),
)
