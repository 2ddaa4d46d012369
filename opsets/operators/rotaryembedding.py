"""RotaryEmbedding: pairs of numbers of each head, turned by an angle that depends on the position. Since version 23."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class RotaryEmbedding:
    """The heads in a matrix of a batch entry, the rotated numbers of a head (0: all), and their pairs.

    With `interleaved` neighbours are a pair, without it the halves are.
    """

    num_heads: int | None = None
    rotary_embedding_dim: int = 0
    interleaved: int = 0


def oracle(
    what: RotaryEmbedding,
    x: np.ndarray[Any, Any],
    cosines: np.ndarray[Any, Any],
    sines: np.ndarray[Any, Any],
    places: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """RotaryEmbedding-23: "(cos_cache * x1) - (sin_cache * x2)", then "(sin_cache * x1) + (cos_cache * x2)"."""
    batch, tokens = x.shape[0], x.shape[-2]
    count = what.num_heads or 1
    heads = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(batch, tokens, count, x.shape[-1] // count)
    if heads.shape[-1] % 2:
        raise ValueError('RotaryEmbedding-23: "head_size has to be even"')
    turned, rest = np.split(heads.astype(np.float64), [what.rotary_embedding_dim or heads.shape[-1]], axis=-1)
    shape = (batch, tokens) if places is None else cosines.shape[:1]
    if cosines.shape != (*shape, turned.shape[-1] // 2) or sines.shape != cosines.shape:
        raise ValueError('RotaryEmbedding-23: the caches have "shape (batch_size, sequence_length, head_size / 2)"')
    if places is not None and places.shape != (batch, tokens):
        raise ValueError('RotaryEmbedding-23: "(batch_size, sequence_length)" is the shape of position_ids')
    if places is not None and np.any(places < 0):
        raise ValueError("RotaryEmbedding-23: a position is negative, and no row of the caches")
    cos, sin = (
        (cache if places is None else cache[places]).astype(np.float64)[:, :, None, : turned.shape[-1] // 2]
        for cache in (cosines, sines)
    )
    one, other = (turned[..., ::2], turned[..., 1::2]) if what.interleaved else np.split(turned, 2, axis=-1)
    pairs = np.stack([cos * one - sin * other, sin * one + cos * other], axis=-1 if what.interleaved else -2)
    y = np.concatenate([pairs.reshape(turned.shape), rest], axis=-1).astype(x.dtype)
    return np.asarray(y.swapaxes(1, 2) if x.ndim == 4 else y.reshape(x.shape))


def _placed(what: RotaryEmbedding, operands: Operands) -> Reason | None:
    return Reason("there are no position_ids") if operands[3] is None else None


@lowering(18, applies_if=_placed)
def gathered(x, cosines, sines, places):
    """Look up the rows of both caches: without `position_ids` they are those of the tokens."""
    return meaning.Same(x, op.Gather(cosines, places, axis=0), op.Gather(sines, places, axis=0))


def _of_rank(rank: int) -> Callable[[RotaryEmbedding, Operands], Reason | None]:
    def applies_if(what: RotaryEmbedding, operands: Operands) -> Reason | None:
        if operands[3] is not None:
            return Reason("there are position_ids")
        if reason := rank_known(what, operands):
            return reason
        return None if first(operands).rank == rank else Reason(f"the rank of X is not {rank}")

    return applies_if


def _matrix(what: RotaryEmbedding, operands: Operands) -> Reason | None:
    return _of_rank(3)(what, operands) or (None if what.num_heads else Reason("there is no num_heads"))


@lowering(18, applies_if=_matrix, bind=lambda what, operands: {"heads": (what.num_heads,)})
def by_heads(x, cosines, sines, places, heads: Sequence[int]):
    """Give the heads an axis of their own, in front of the tokens."""
    shape = op.Shape(x)
    apart = op.Concat(op.Slice(shape, [0], [2]), heads, op.Slice(shape, [2], [3]) / heads, axis=0)
    y = meaning.Same(op.Transpose(op.Reshape(x, apart, allowzero=1), perm=[0, 2, 1, 3]), cosines, sines)
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), shape, allowzero=1)


def _partial(what: RotaryEmbedding, operands: Operands) -> Reason | None:
    whole = not what.rotary_embedding_dim
    return Reason("whole heads are turned") if whole else _of_rank(4)(what, operands)


def _parts(what: RotaryEmbedding, operands: Operands) -> Mapping[str, Any]:
    return {"count": (what.rotary_embedding_dim,), "half": (what.rotary_embedding_dim // 2,)}


@lowering(18, applies_if=_partial, bind=_parts)
def in_part(x, cosines, sines, places, count: Sequence[int], half: Sequence[int]):
    """Turn the first numbers of a head; caches may be as wide as half a head."""
    turned = meaning.Same(
        op.Slice(x, [0], count, [3]),
        op.Slice(cosines, [0], half, [2]),
        op.Slice(sines, [0], half, [2]),
        rotary_embedding_dim=0,
    )
    return op.Concat(turned, op.Slice(x, count, [2147483647], [3]), axis=3)


def _whole(interleaved: int) -> Callable[[RotaryEmbedding, Operands], Reason | None]:
    def applies_if(what: RotaryEmbedding, operands: Operands) -> Reason | None:
        if what.rotary_embedding_dim:
            return Reason("heads are turned in part")
        other = what.interleaved != interleaved
        return Reason("the pairs lie otherwise") if other else _of_rank(4)(what, operands)

    return applies_if


@lowering(18, applies_if=_whole(0), rounds=True)
def of_halves(x, cosines, sines, places):
    """Turn pairs whose first numbers are one half of a head."""
    one, other = op.Split(x, axis=3, num_outputs=2)
    cos = op.Unsqueeze(cosines, [1])
    sin = op.Unsqueeze(sines, [1])
    return op.Concat(cos * one - sin * other, sin * one + cos * other, axis=3)


@lowering(18, applies_if=_whole(1), rounds=True)
def of_neighbours(x, cosines, sines, places):
    """Turn pairs of neighbours."""
    one = op.Slice(x, [0], [2147483647], [3], [2])
    other = op.Slice(x, [1], [2147483647], [3], [2])
    cos = op.Unsqueeze(cosines, [1])
    sin = op.Unsqueeze(sines, [1])
    real = op.Unsqueeze(cos * one - sin * other, [4])
    imaginary = op.Unsqueeze(sin * one + cos * other, [4])
    return op.Reshape(op.Concat(real, imaginary, axis=4), op.Shape(x), allowzero=1)


@of_two
def equal_dims(node: NodeShapes, data: Shape, cosines: Shape) -> Pairs:
    """Yield the dims of the cosines and of the sines, and those of the data, or of the positions.

    Without positions cosines have the shape "(batch_size, sequence_length, head_size / 2)". A head whose size is open
    is one of two pairs.
    """
    sines, positions = (*node.inputs[2:], None, None)[:2]
    yield from zip(cosines, sines or (), strict=False)
    rows = positions or (cosines if len(cosines) == 3 else None)
    if rows and len(data) > 2:
        yield from ((data[0], rows[0]), (data[-2], rows[1]))
    turned = node.attributes.get("rotary_embedding_dim", 0)
    known = (dims[-1] for dims in (cosines, sines) if dims and isinstance(dims[-1], int))
    half = next(known, turned // 2 or 2)
    heads = node.attributes.get("num_heads") or 1 if len(data) == 3 else 1
    yield from ((cosines[-1], half), (data[-1], 2 * half * heads))


OPERATOR = Operator(
    name="RotaryEmbedding",
    meaning=RotaryEmbedding,
    versions=(Version(23),),
    operands=("X", "cos_cache", "sin_cache", "position_ids"),
    oracle=oracle,
    lowerings=(gathered, by_heads, in_part, of_halves, of_neighbours),
    wider_types=COMPUTED,
    body_unused="its Reshape to -1 does not run for an empty batch or sequence",
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        indices={3: AlongAxis(data=1, axis=0, negative=False)},
        equal_dims=equal_dims,
        spreads=False,
        unchecked=True,
    ),
)
