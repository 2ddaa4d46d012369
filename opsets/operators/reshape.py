"""Reshape: the same elements in another shape. Since 14 a zero in the shape can be meant as zero."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, constant
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


def _of_known_rank(meaning: Reshape, operands: Operands) -> Reason | None:
    if not meaning.allowzero:
        return Reason("")
    rank = None if operands[1] is None else operands[1].size
    if rank is None:
        return Reason("the rank of the result is unknown", missing=True)
    return None if rank else Reason("the result is a scalar")


def _of_unknown_rank(meaning: Reshape, operands: Operands) -> Reason | None:
    if not meaning.allowzero:
        return Reason("")
    return None if _of_known_rank(meaning, operands) is not None else Reason("the rank of the result is known")


def _column(meaning: Reshape, operands: Operands) -> Mapping[str, Any]:
    rank = operands[1].size if operands[1] is not None else None
    return {"column": (-1,) + (1,) * ((rank or 1) - 1)}


@lowering(13, applies_if=_of_known_rank, bind=_column)
def tiled(data, shape, column: Sequence[int]):
    """Give a tensor without elements zeros where the shape has some, which Reshape then copies."""
    ones = op.Cast(op.Cast(shape, to=9), to=7)
    return op.Reshape(op.Tile(op.Reshape(data, column), ones), shape)


@lowering(13, applies_if=_of_unknown_rank)
def tiled_behind(data, shape):
    """Do the same where the length of the shape is unknown, with all elements along an axis behind the zeros."""
    ones = op.Cast(op.Cast(shape, to=9), to=7)
    column = op.Concat(shape * 0 + 1, [-1], axis=0)
    return op.Reshape(op.Tile(op.Reshape(data, column), op.Concat(ones, [1], axis=0)), shape)


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
    lowerings=(tiled, tiled_behind),
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
