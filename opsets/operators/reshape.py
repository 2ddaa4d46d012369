"""Reshape: the same elements in another shape. Since 14 a zero in the shape can be meant as zero."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.facts import Dim, Tensor, constant
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Trait, Traits, Undefined


@dataclass(frozen=True)
class Reshape:
    """Whether a zero in the shape means zero, rather than the input's dimension at that place."""

    allowzero: int = 0


def oracle(meaning: Reshape, data: np.ndarray[Any, Any], shape: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reshape-14: "If 'allowzero' is set ... the zero value is honored"; else it copies; one -1 is inferred."""
    dims = [int(dim) for dim in shape]
    if min(dims, default=0) < -1:
        raise ValueError("Reshape-14: no dimension is below -1")
    if meaning.allowzero and 0 in dims and -1 in dims:
        raise ValueError("Reshape-14: with allowzero, a shape cannot have both 0 and -1")
    if not meaning.allowzero:
        dims = [data.shape[index] if dim == 0 else dim for index, dim in enumerate(dims)]
    if -1 in dims:
        rest = int(np.prod([dim for dim in dims if dim != -1], dtype=np.int64))
        dims[dims.index(-1)] = data.size // rest if rest else 0
    return data.reshape(dims)


def _wanted(operands: Operands) -> list[Dim] | None:
    facts = operands[1]
    if facts is None or facts.value is None or facts.value.array.ndim != 1:
        return None
    return list(facts.value.array.tolist())


def normal(meaning: Reshape, operands: Operands) -> tuple[Reshape, Operands]:
    """Write -1 for the one unknown dimension, or 0 for those of the input; drop allowzero where no zero matters."""
    wanted = _wanted(operands)
    if wanted is None:
        return meaning, operands
    unknown = [index for index, dim in enumerate(wanted) if not isinstance(dim, int)]
    rest = [dim for dim in wanted if isinstance(dim, int)]
    if len(unknown) == 1 and all(dim > 0 for dim in rest):
        shape = [dim if isinstance(dim, int) else -1 for dim in wanted]
        return Reshape(), (operands[0], constant(np.array(shape, dtype=np.int64)))
    dims = first(operands).shape or ()
    same = [index < len(dims) and dims[index] == dim for index, dim in enumerate(wanted)]
    if unknown and all(isinstance(wanted[index], str) and same[index] for index in unknown) and 0 not in rest:
        # A zero copies the dimension. What is -1 was so before: with a new one, empty tensors could not be reshaped.
        shape = [dim if isinstance(dim, int) else 0 for dim in wanted]
        return Reshape(), (operands[0], constant(np.array(shape, dtype=np.int64)))
    if all(
        (isinstance(dim, int) and dim != 0) or (dim is not None and same[index]) for index, dim in enumerate(wanted)
    ):
        return dataclasses.replace(meaning, allowzero=0), operands
    return meaning, operands


def shape(meaning: Reshape, operands: Operands) -> tuple[Dim, ...] | None:
    """The wanted dimensions; at least their number, which is the length of the shape."""
    wanted = _wanted(operands)
    if wanted is None:
        length = None if operands[1] is None or not operands[1].shape else operands[1].shape[0]
        return (None,) * length if isinstance(length, int) else None
    dims = first(operands).shape
    copied = [
        dims[index] if dim == 0 and not meaning.allowzero and dims is not None and index < len(dims) else dim
        for index, dim in enumerate(wanted)
    ]
    return tuple(None if dim == -1 or (dim == 0 and not meaning.allowzero) else dim for dim in copied)


def _zero_may_come(meaning: Reshape, operands: Operands) -> Reason | None:
    if not meaning.allowzero:
        return Reason("")
    if first(operands).dtype == TensorProto.STRING:
        return Reason("onnxruntime 1.31.1 gathers slices of strings wrongly")
    return dtype_known(meaning, operands)


def _like(meaning: Reshape, operands: Operands) -> Mapping[str, Any]:
    return {"like": first(operands).dtype}


def _no_dim_inferred(meaning: Reshape, operands: Operands) -> Reason | None:
    if reason := _zero_may_come(meaning, operands):
        return reason
    wanted = _wanted(operands)
    if not wanted or any(dim is None or (isinstance(dim, int) and dim < 0) for dim in wanted):
        return Reason("a dimension may be inferred, or the rank be 0")
    return None


def _one(meaning: Reshape, operands: Operands) -> Mapping[str, Any]:
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or TensorProto.FLOAT)
    return {"one": Tensor(np.ones(1, numpy_type))}


@lowering(13, applies_if=_no_dim_inferred, bind=_one, cost=5)
def scattered(data, shape, one: Sequence[int]):
    """Put the elements into a tensor of the new shape, one after the other: the places of ones are in this order."""
    ones = op.Expand(one, shape)
    return op.ScatterND(ones, op.Transpose(op.NonZero(ones), perm=[1, 0]), op.Reshape(data, [-1]))


@lowering(13, applies_if=_zero_may_come, bind=_one, cost=8)
def scattered_after_inference(data, shape, one: Sequence[int]):
    """Do the same where a dimension is inferred, or the rank may be 0, with an axis more.

    Reshape-14: with allowzero a zero and -1 cannot both be there, so what is inferred can be divided out.
    """
    inferred = op.Div(op.Size(data), op.Max(op.Abs(op.ReduceProd(shape, keepdims=0)), 1))
    wanted = op.Where(op.Equal(shape, -1), inferred, shape)
    ones = op.Expand(one, op.Concat(wanted, [1], axis=0))
    return op.Squeeze(op.ScatterND(ones, op.Transpose(op.NonZero(ones), perm=[1, 0]), op.Reshape(data, [-1])), [-1])


@lowering(13, applies_if=_zero_may_come, bind=_like, cost=10)
def padded(data, shape, like: int):
    """Fill an empty tensor up so that no dimension is zero, reshape, and cut the zeros again by Tile."""
    free = op.Cast(op.Equal(shape, -1), to=7)
    # Reshape-14: with allowzero a zero and -1 cannot both be there, so what is free can be divided out.
    zero = op.Cast(op.Equal(shape, 0), to=7)
    share = op.Div(op.Size(data), op.ReduceProd(shape + zero + 2 * free, keepdims=1))
    wanted = shape * (1 - free) + share * free
    empty = op.Cast(op.Equal(wanted, 0), to=7)
    positive = wanted + empty
    count = op.ReduceProd(positive, keepdims=1)
    filler = op.Tile(op.Cast([0.0], to=like), count)
    # As rows of the wanted count there are two where data has any elements, and one, the filler, where it has none.
    rows = op.Reshape(op.Concat(op.Reshape(data, [-1]), filler, axis=0), op.Concat([-1], count, axis=0))
    filled = op.Gather(rows, 0, axis=0)
    return op.Tile(op.Reshape(filled, positive), 1 - empty)


def _idle(meaning: Reshape, operands: Operands) -> bool:
    """Whether the shape is the one there is: of a vector -1 says so, of others all dimensions."""
    wanted = _wanted(operands)
    if wanted == [-1]:
        return first(operands).rank == 1
    dims = list(first(operands).shape or ())
    return bool(dims) and wanted == dims and all(isinstance(dim, int) and dim > 0 for dim in dims)


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield how many sizes the new shape has, and the rank: where that is not known, it may be as it was."""
    first, second = (*node.inputs, None)[:2]
    likely = first if node.output is None else node.output
    if second and len(second) == 1 and likely is not None:
        yield second[0], len(likely)


def likely_sizes(node: NodeShapes) -> Iterable[int]:
    """Return the sizes that are given, and what they multiply up to."""
    target = node.constant(1)
    known = [size for size in ([] if target is None else target.reshape(-1).tolist()) if size > 0]
    return *known, math.prod(known)


OPERATOR = Operator(
    name="Reshape",
    meaning=Reshape,
    versions=tuple(Version(since) for since in (1, 5, 13, 14, 19, 21, 23, 24, 25)),
    operands=("data", "shape"),
    oracle=oracle,
    normal=normal,
    shape=shape,
    moves_data=True,
    idle=_idle,
    neutral=lambda what, operands: 0,
    lowerings=(scattered, scattered_after_inference, padded),
    traits=Traits(
        quantized="Reshape",
        form=moved("data"),
        floats=(Trait.MOVES,),
        counts=(1,),
        moved=(0,),
        reshapes=True,
        equal_dims=equal_dims,
        spreads=False,
        likely_sizes=likely_sizes,
        all_elements=True,
        keeps_order=True,
        undefined=Undefined.ZERO_AND_INFERRED,
    ),
)
