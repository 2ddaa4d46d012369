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

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class GroupNormalization:
    """How many groups there are, what is added to the variance, and what a scale and a bias are for.

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
    for each channel"; GroupNormalization-18: "for each group of channels".
    """
    stash = x.dtype if what.stash_type is None else onnx.helper.tensor_dtype_to_np_dtype(what.stash_type)
    wide = x.astype(stash).astype(np.float64).reshape(x.shape[0], what.num_groups, -1)
    spread = np.sqrt(wide.var(axis=2, keepdims=True) + what.epsilon)
    normal = ((wide - wide.mean(axis=2, keepdims=True)) / spread).astype(stash).astype(x.dtype).astype(np.float64)
    rows = normal.reshape(x.shape[0], what.num_groups if what.scaled == "group" else x.shape[1], -1)
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


@lowering(18, given=_by_group_and_typed, bind=lambda what, operands: {"groups": (what.num_groups,)})
def by_channel(x, scale, bias, groups: Sequence[int]):
    """Repeat scale and bias of a group for each of its channels."""
    each = op.Concat(groups, op.Shape(x, start=1, end=2) / groups, axis=0)
    scales = op.Reshape(op.Expand(op.Unsqueeze(scale, [1]), each), [-1])
    biases = op.Reshape(op.Expand(op.Unsqueeze(bias, [1]), each), [-1])
    return meaning.Same(x, scales, biases, scaled="channel")


def _grouped(attributes: Mapping[str, Any]) -> GroupNormalization:
    return GroupNormalization(attributes["num_groups"], attributes["epsilon"], None, "group")


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
    versions=(Version(18, lift=_grouped), Version(21, given=_typed)),
    operands=("X", "scale", "bias"),
    oracle=oracle,
    normal=normal,
    lowerings=(by_channel,),
    traits=Traits(floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS), equal_dims=equal_dims, likely_sizes=likely_sizes),
)
