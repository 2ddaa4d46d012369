"""com.microsoft::RotaryEmbedding: RotaryEmbedding-23, of positions that an offset may stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators import rotaryembedding
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RotaryEmbedding:
    """The heads in a row (0: as many as fit the size of both caches), and the rotated part of a head."""

    interleaved: int = 0
    is_packed_batching: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0


def _heads(what: RotaryEmbedding, width: int, cached: int) -> int:
    return what.num_heads or width // (2 * cached)


def oracle(what: RotaryEmbedding, x: Array, positions: Array, cosines: Array, sines: Array) -> Array:
    """RotaryEmbedding-1: position_ids has "shape (1) or shape (batch_size, sequence_length)"; one is an offset."""
    batch, tokens = x.shape[0], x.shape[1] if x.ndim == 3 else x.shape[2]
    places = positions + np.arange(tokens) if positions.ndim == 1 else positions
    places = np.broadcast_to(places, (batch, tokens))
    if places.size and not 0 <= places.min() <= places.max() < len(cosines):
        raise ValueError("RotaryEmbedding-1: a position is outside of the caches")
    heads = None if x.ndim == 4 else _heads(what, x.shape[2], cosines.shape[1])
    meant = rotaryembedding.RotaryEmbedding(heads, what.rotary_embedding_dim, what.interleaved)
    return rotaryembedding.oracle(meant, x, cosines, sines, places)


def _known(what: RotaryEmbedding, operands: Operands) -> Reason | None:
    if what.is_packed_batching:
        return Reason("its batch is packed (is_packed_batching)")
    if what.scale != 1:
        return Reason("it has a scale, which kernels of onnxruntime disagree about")
    rank, width, cached = first(operands).rank, first(operands).dim(-1), (operands[2] or first(operands)).dim(-1)
    if rank is None:
        return Reason("the rank of the input is unknown", missing=True)
    if rank == 3 and not what.num_heads and what.rotary_embedding_dim:
        return Reason("heads are turned in part, and num_heads is left out")
    if rank == 3 and not what.num_heads and not (isinstance(width, int) and isinstance(cached, int)):
        return Reason("the number of heads is unknown", missing=True)
    return None


def _positioned(rank: int) -> Callable[[RotaryEmbedding, Operands], Reason | None]:
    def applies_if(what: RotaryEmbedding, operands: Operands) -> Reason | None:
        positions = operands[1]
        if positions is None or positions.rank is None:
            return Reason("the rank of position_ids is unknown", missing=True)
        return _known(what, operands) if positions.rank == rank else Reason("")

    return applies_if


def _bind(what: RotaryEmbedding, operands: Operands) -> Mapping[str, Any]:
    width, cached = first(operands).dim(-1), operands[2].dim(-1) if operands[2] else None
    known = isinstance(width, int) and isinstance(cached, int) and cached > 0
    heads = what.num_heads or (_heads(what, int(width or 0), int(cached or 1)) if known else 0)
    return {
        "heads": heads if first(operands).rank == 3 else None,
        "part": what.rotary_embedding_dim,
        "interleaved": what.interleaved,
    }


@lowering(23, applies_if=_positioned(2), bind=_bind)
def at_positions(x, positions, cosines, sines, heads: int, part: int, interleaved: int):
    """Write it as RotaryEmbedding of the positions."""
    return meaning.RotaryEmbedding(
        x, cosines, sines, positions, num_heads=heads, rotary_embedding_dim=part, interleaved=interleaved
    )


def _after(what: RotaryEmbedding, operands: Operands) -> Mapping[str, Any]:
    tokens = 1 if first(operands).rank == 3 else 2
    return {**_bind(what, operands), "axis": tokens, "after": tokens + 1}


@lowering(23, applies_if=_positioned(1), bind=_after)
def from_offset(x, positions, cosines, sines, heads: int, part: int, interleaved: int, axis: int, after: int):
    """Count the positions from the offset, the same for each of the batch."""
    shape = op.Concat(op.Shape(x, start=0, end=1), op.Shape(x, start=axis, end=after), axis=0)
    count = op.Squeeze(op.Shape(x, start=axis, end=after), [0])
    places = op.Expand(op.Unsqueeze(op.Range(0, count, 1) + positions, [0]), shape)
    return meaning.RotaryEmbedding(
        x, cosines, sines, places, num_heads=heads, rotary_embedding_dim=part, interleaved=interleaved
    )


OPERATOR = Operator(
    name="RotaryEmbedding",
    domain=MICROSOFT,
    meaning=RotaryEmbedding,
    versions=(Version(1),),
    operands=("input", "position_ids", "cos_cache", "sin_cache"),
    oracle=oracle,
    lowerings=(at_positions, from_offset),
    refused=(
        "`is_packed_batching`; a `scale` other than 1, which the CPU kernel ignores; heads turned in part "
        "without `num_heads`"
    ),
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), indices={1: AlongAxis(data=2, axis=0, negative=False)}, factors=2),
)
