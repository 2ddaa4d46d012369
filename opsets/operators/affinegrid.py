"""AffineGrid: places of pixels under an affine map, for GridSample. Since version 20."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits, Undefined


@dataclass(frozen=True)
class AffineGrid:
    """Whether -1 and 1 are "the centers of the corner pixels", or their outer edges."""

    align_corners: int = 0


def oracle(what: AffineGrid, theta: np.ndarray[Any, Any], size: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """AffineGrid-20: theta times (x, y, z, 1), "with dimensions ranging from `-1` to `1`"."""
    if theta.shape[0] != size[0]:
        raise ValueError("AffineGrid-20: theta has one matrix for each of the N images of size")
    sizes = [int(item) for item in size[2:]]
    if theta.shape[1:] != (len(sizes), len(sizes) + 1):
        raise ValueError("AffineGrid-20: theta has a row for each spatial axis, and one column more")
    if min(sizes, default=0) < 0:
        raise ValueError("AffineGrid-20: an image has no negative size")
    axes = []
    for count in sizes:
        left = np.arange(count)[::-1]
        # The text does not say where one pixel alone is if its center is both -1 and 1; to onnxruntime 1.31 it is at 1.
        axes.append(1 - 2 * left / max(count - 1, 1) if what.align_corners else 1 - (2 * left + 1) / count)
    places = np.meshgrid(*axes, indexing="ij")[::-1]
    columns = np.stack([*places, np.ones(sizes)], axis=-1)
    grid = np.einsum("nij,...j->n...i", theta.astype(np.float64), columns)
    return np.asarray(grid).astype(theta.dtype)


def _known(what: AffineGrid, operands: Operands) -> Reason | None:
    theta, size = first(operands), operands[1]
    if theta.dtype is None:
        return Reason("the element type is unknown", missing=True)
    rows = theta.dim(-2)
    length = size.dim(0) if size is not None else None
    rank = rows if isinstance(rows, int) else length - 2 if isinstance(length, int) else None
    return Reason("whether it is of two or of three dimensions is unknown", missing=True) if rank is None else None


def _images(what: AffineGrid, operands: Operands) -> Reason | None:
    return _known(what, operands) or (None if _rank(operands) == 2 else Reason("it is not of two dimensions"))


def _volumes(what: AffineGrid, operands: Operands) -> Reason | None:
    return _known(what, operands) or (None if _rank(operands) == 3 else Reason("it is not of three dimensions"))


def _rank(operands: Operands) -> int:
    rows = first(operands).dim(-2)
    length = operands[1].dim(0) if operands[1] is not None else None
    return rows if isinstance(rows, int) else length - 2 if isinstance(length, int) else 0


def _scale(what: AffineGrid, operands: Operands) -> Mapping[str, Any]:
    """The place i from the last of n is 1 - (2i + 1 - corners) / (n - corners); one that is alone is a last one."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {
        "corners": what.align_corners,
        "one": Tensor(np.array(1, dtype)),
        "two": Tensor(np.array(2, dtype)),
        "shift": Tensor(np.array(1 - what.align_corners, dtype)),
    }


@lowering(18, applies_if=_images, bind=_scale, rounds=True)
def of_images(theta, size, corners: int, one: Sequence[int], two: Sequence[int], shift: Sequence[int]):
    """Multiply each of the places of all pixels by the map."""
    height = op.Gather(size, 2, axis=0)
    width = op.Gather(size, 3, axis=0)
    down = op.CastLike(op.Sub(op.Sub(height, 1), op.Range(0, height, 1)), theta)
    right = op.CastLike(op.Sub(op.Sub(width, 1), op.Range(0, width, 1)), theta)
    low = op.CastLike(op.Max(op.Sub(height, corners), 1), theta)
    wide = op.CastLike(op.Max(op.Sub(width, corners), 1), theta)
    y = op.Sub(one, op.Div(op.Add(op.Mul(down, two), shift), low))
    x = op.Sub(one, op.Div(op.Add(op.Mul(right, two), shift), wide))
    shape = op.Concat(op.Slice(size, [2], [4]), [1], axis=0)
    xs = op.Expand(op.Reshape(x, [1, -1, 1]), shape)
    ys = op.Expand(op.Reshape(y, [-1, 1, 1]), shape)
    columns = op.Concat(xs, ys, op.Expand(one, shape), axis=2)
    # onnxruntime 1.31.1 multiplies no batch of matrices by none.
    places = op.MatMul(op.Reshape(theta, [-1, 3]), op.Transpose(op.Reshape(columns, [-1, 3]), perm=[1, 0]))
    batch = op.Slice(op.Shape(theta), [0], [1])
    return op.Transpose(op.Reshape(places, op.Concat(batch, [2], op.Slice(size, [2], [4]), axis=0)), perm=[0, 2, 3, 1])


@lowering(18, applies_if=_volumes, bind=_scale, rounds=True)
def of_volumes(theta, size, corners: int, one: Sequence[int], two: Sequence[int], shift: Sequence[int]):
    """Multiply each of the places of all pixels by the map, in three dimensions."""
    depth = op.Gather(size, 2, axis=0)
    height = op.Gather(size, 3, axis=0)
    width = op.Gather(size, 4, axis=0)
    away = op.CastLike(op.Sub(op.Sub(depth, 1), op.Range(0, depth, 1)), theta)
    down = op.CastLike(op.Sub(op.Sub(height, 1), op.Range(0, height, 1)), theta)
    right = op.CastLike(op.Sub(op.Sub(width, 1), op.Range(0, width, 1)), theta)
    deep = op.CastLike(op.Max(op.Sub(depth, corners), 1), theta)
    low = op.CastLike(op.Max(op.Sub(height, corners), 1), theta)
    wide = op.CastLike(op.Max(op.Sub(width, corners), 1), theta)
    z = op.Sub(one, op.Div(op.Add(op.Mul(away, two), shift), deep))
    y = op.Sub(one, op.Div(op.Add(op.Mul(down, two), shift), low))
    x = op.Sub(one, op.Div(op.Add(op.Mul(right, two), shift), wide))
    shape = op.Concat(op.Slice(size, [2], [5]), [1], axis=0)
    xs = op.Expand(op.Reshape(x, [1, 1, -1, 1]), shape)
    ys = op.Expand(op.Reshape(y, [1, -1, 1, 1]), shape)
    zs = op.Expand(op.Reshape(z, [-1, 1, 1, 1]), shape)
    columns = op.Concat(xs, ys, zs, op.Expand(one, shape), axis=3)
    # onnxruntime 1.31.1 multiplies no batch of matrices by none.
    places = op.MatMul(op.Reshape(theta, [-1, 4]), op.Transpose(op.Reshape(columns, [-1, 4]), perm=[1, 0]))
    batch = op.Slice(op.Shape(theta), [0], [1])
    return op.Transpose(
        op.Reshape(places, op.Concat(batch, [3], op.Slice(size, [2], [5]), axis=0)), perm=[0, 2, 3, 4, 1]
    )


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the sizes those of a few images or volumes that are no squares or cubes, as many as there are maps."""
    theta, size = feeds["theta"], feeds["size"]
    sides = rng.integers(1, 6, len(size) - 2)
    return {**feeds, "size": np.array([len(theta), rng.integers(1, 3), *sides], size.dtype)}


OPERATOR = Operator(
    name="AffineGrid",
    meaning=AffineGrid,
    versions=(Version(20),),
    operands=("theta", "size"),
    oracle=oracle,
    lowerings=(of_images, of_volumes),
    adversarial=adversarial,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), counts=(1,), undefined=Undefined.ONE_PIXEL),
)
