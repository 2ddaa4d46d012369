"""RotaryEmbedding: pairs of numbers of each head, turned by an angle that depends on the position. Since version 23."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.carriers import COMPUTED
from opshift.opsets.operator import Operator, Version


@dataclass(frozen=True)
class RotaryEmbedding:
    """How many heads a matrix per batch entry holds, how many numbers of a head are turned (0: all), and which pair up.

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
    heads = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(batch, tokens, what.num_heads or 1, -1)
    turned, rest = np.split(heads.astype(np.float64), [what.rotary_embedding_dim or heads.shape[-1]], axis=-1)
    cos, sin = (
        (cache if places is None else cache[places]).astype(np.float64)[:, :, None, : turned.shape[-1] // 2]
        for cache in (cosines, sines)
    )
    one, other = (turned[..., ::2], turned[..., 1::2]) if what.interleaved else np.split(turned, 2, axis=-1)
    pairs = np.stack([cos * one - sin * other, sin * one + cos * other], axis=-1 if what.interleaved else -2)
    y = np.concatenate([pairs.reshape(turned.shape), rest], axis=-1).astype(x.dtype)
    return np.asarray(y.swapaxes(1, 2) if x.ndim == 4 else y.reshape(x.shape))


OPERATOR = Operator(
    name="RotaryEmbedding",
    meaning=RotaryEmbedding,
    versions=(Version(23),),
    operands=("X", "cos_cache", "sin_cache", "position_ids"),
    oracle=oracle,
    carriers=COMPUTED,
)
