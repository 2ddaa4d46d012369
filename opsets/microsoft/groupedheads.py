"""A step: attention of heads of which several share keys and values, masked by numbers, and beside a sink."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GroupedHeads:
    """The numbers of heads of queries and keys, the scale of products (0: the root of the head size), and a cap."""

    num_heads: int = 1
    kv_num_heads: int = 1
    scale: float = 0.0
    softcap: float = 0.0


def oracle(
    what: GroupedHeads, query: Array, key: Array, value: Array, added: Array, sink: Array | None = None
) -> Array:
    """Return the values weighed by Softmax of capped products, with what is added, and a sink for each head.

    Queries have all heads in a row, keys and values an axis of heads. A sink is one more product, without a value.
    """
    batch, tokens, width = query.shape
    shared = what.num_heads // what.kv_num_heads
    rows = query.reshape(batch, tokens, what.num_heads, width // what.num_heads).swapaxes(1, 2).astype(np.float64)
    keys, values = (np.repeat(one.astype(np.float64), shared, axis=1) for one in (key, value))
    products = (what.scale or 1 / math.sqrt(rows.shape[-1])) * (rows @ keys.swapaxes(2, 3))
    capped = what.softcap * np.tanh(products / what.softcap) if what.softcap else products
    scores = capped + added
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink.reshape(1, -1, 1, 1), (*scores.shape[:3], 1))], axis=-1)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (powers / powers.sum(axis=-1, keepdims=True))[..., : keys.shape[2]]
    return np.asarray((weights @ values).swapaxes(1, 2).reshape(batch, tokens, -1).astype(query.dtype))


def _known(what: GroupedHeads, operands: Operands) -> Reason | None:
    if first(operands).dtype is None:
        return Reason("the element type of the queries is unknown", missing=True)
    return None if what.scale or _size(what, operands) else Reason("")


def _unscaled(what: GroupedHeads, operands: Operands) -> Reason | None:
    if first(operands).dtype is None:
        return Reason("the element type of the queries is unknown", missing=True)
    return Reason("") if what.scale or _size(what, operands) else None


def _size(what: GroupedHeads, operands: Operands) -> int | None:
    """Return how long a head is, if that is known."""
    width, size = first(operands).dim(2), (operands[1] or Facts()).dim(3)
    return width // what.num_heads if isinstance(width, int) else size if isinstance(size, int) else None


def _form(capped: bool, sunk: bool) -> Callable[[GroupedHeads, Operands], Reason | None]:
    def applies_if(what: GroupedHeads, operands: Operands) -> Reason | None:
        sink = operands[4] is not None
        # A cap below 24 came after the mask, in what onnx 1.18 defines and in kernels.
        if (bool(what.softcap), sink) != (capped, sunk):
            return Reason("")
        return _known(what, operands)

    return applies_if


def _bind(what: GroupedHeads, operands: Operands) -> Mapping[str, Any]:
    query = first(operands)
    size = _size(what, operands)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(query.dtype or 0)
    return {
        "apart": (0, 0, what.num_heads, -1 if size is None else size),
        "groups": (0, what.kv_num_heads, -1),
        "factor": Tensor(np.asarray(what.scale or 1 / math.sqrt(size or 1), dtype)),
        "cap": Tensor(np.asarray(what.softcap, dtype)),
        "heads": (0, what.num_heads, -1),
    }


def _some(*names: str) -> Callable[[GroupedHeads, Operands], Mapping[str, Any]]:
    def bind(what: GroupedHeads, operands: Operands) -> Mapping[str, Any]:
        every = _bind(what, operands)
        return {name: every[name] for name in names}

    return bind


@lowering(18, applies_if=_unscaled, bind=lambda what, operands: {"heads": what.num_heads}, rounds=True)
def scaled_by_length(query, key, value, added, sink, heads: int):
    """Divide the queries by the root of the length of a head."""
    length = op.CastLike(op.Shape(query, start=2, end=3) / heads, query)
    return meaning.Same(query / op.Sqrt(length), key, value, added, sink, scale=1.0)


def _native(what: GroupedHeads, operands: Operands) -> Reason | None:
    if first(operands).dtype is None:
        return Reason("the element type of the queries is unknown", missing=True)
    return Reason("") if what.softcap or operands[4] is not None else None


@lowering(
    23,
    applies_if=_native,
    bind=lambda what, operands: {**_some("apart")(what, operands), "factor": what.scale or None},
    rounds=True,
)
def by_attention(query, key, value, added, sink, apart: Sequence[int], factor: float):
    """Write it as Attention, whose mask is added."""
    rows = op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3])
    y, _keys, _values, _products = meaning.Attention(rows, key, value, added, scale=factor)
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


_CAPPED = _some("apart", "groups", "factor", "cap", "heads")
_UNCAPPED = _some("apart", "groups", "factor", "heads")


@lowering(18, applies_if=_form(False, False), bind=_UNCAPPED, rounds=True)
def masked(
    query, key, value, added, sink,
    apart: Sequence[int], groups: Sequence[int], factor: Sequence[int], heads: Sequence[int],
):  # fmt: skip
    """Add the mask to the products, and take Softmax."""
    size = op.Shape(key, start=3, end=4)
    rows = op.Reshape(
        op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3]) * factor, op.Concat(groups, size, axis=0)
    )
    products = op.MatMul(rows, op.Transpose(key, perm=[0, 1, 3, 2]))
    queries = op.Shape(query, start=1, end=2)
    by_query = op.Concat([0], op.Slice(heads, [1], [2]), queries, [-1], axis=0)
    weights = op.Softmax(op.Reshape(products, by_query) + added, axis=-1)
    y = op.Reshape(op.MatMul(op.Reshape(weights, op.Shape(products)), value), op.Concat(heads, size, axis=0))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


@lowering(18, applies_if=_form(True, False), bind=_CAPPED, rounds=True)
def capped(
    query, key, value, added, sink,
    apart: Sequence[int], groups: Sequence[int], factor: Sequence[int], cap: Sequence[int], heads: Sequence[int],
):  # fmt: skip
    """Cap the products, and add the mask."""
    size = op.Shape(key, start=3, end=4)
    rows = op.Reshape(
        op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3]) * factor, op.Concat(groups, size, axis=0)
    )
    products = op.MatMul(rows, op.Transpose(key, perm=[0, 1, 3, 2]))
    queries = op.Shape(query, start=1, end=2)
    by_query = op.Concat([0], op.Slice(heads, [1], [2]), queries, [-1], axis=0)
    scores = op.Reshape(op.Tanh(products / cap) * cap, by_query) + added
    weights = op.Reshape(op.Softmax(scores, axis=-1), op.Shape(products))
    y = op.Reshape(op.MatMul(weights, value), op.Concat(heads, size, axis=0))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


@lowering(18, applies_if=_form(False, True), bind=_UNCAPPED, rounds=True)
def beside_a_sink(
    query, key, value, added, sink,
    apart: Sequence[int], groups: Sequence[int], factor: Sequence[int], heads: Sequence[int],
):  # fmt: skip
    """Add the mask to the products, and take Softmax of them and of the sink."""
    size = op.Shape(key, start=3, end=4)
    rows = op.Reshape(
        op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3]) * factor, op.Concat(groups, size, axis=0)
    )
    products = op.MatMul(rows, op.Transpose(key, perm=[0, 1, 3, 2]))
    queries = op.Shape(query, start=1, end=2)
    by_query = op.Concat([0], op.Slice(heads, [1], [2]), queries, [-1], axis=0)
    scores = op.Reshape(products, by_query) + added
    every = op.Concat(
        scores, op.Expand(op.Reshape(sink, [1, -1, 1, 1]), op.Concat(op.Shape(scores, end=3), [1], axis=0)), axis=3
    )
    weights = op.Slice(op.Softmax(every, axis=-1), [0], [-1], [3])
    y = op.Reshape(op.MatMul(op.Reshape(weights, op.Shape(products)), value), op.Concat(heads, size, axis=0))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


@lowering(18, applies_if=_form(True, True), bind=_CAPPED, rounds=True)
def capped_beside_a_sink(
    query, key, value, added, sink,
    apart: Sequence[int], groups: Sequence[int], factor: Sequence[int], cap: Sequence[int], heads: Sequence[int],
):  # fmt: skip
    """Cap the products, add the mask, and take Softmax of them and of the sink."""
    size = op.Shape(key, start=3, end=4)
    rows = op.Reshape(
        op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3]) * factor, op.Concat(groups, size, axis=0)
    )
    products = op.MatMul(rows, op.Transpose(key, perm=[0, 1, 3, 2]))
    queries = op.Shape(query, start=1, end=2)
    by_query = op.Concat([0], op.Slice(heads, [1], [2]), queries, [-1], axis=0)
    scores = op.Reshape(op.Tanh(products / cap) * cap, by_query) + added
    every = op.Concat(
        scores, op.Expand(op.Reshape(sink, [1, -1, 1, 1]), op.Concat(op.Shape(scores, end=3), [1], axis=0)), axis=3
    )
    weights = op.Slice(op.Softmax(every, axis=-1), [0], [-1], [3])
    y = op.Reshape(op.MatMul(op.Reshape(weights, op.Shape(products)), value), op.Concat(heads, size, axis=0))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


def _facts(what: GroupedHeads, operands: Operands) -> tuple[Facts, ...]:
    query = first(operands)
    return (Facts(query.dtype, query.shape),)


OPERATOR = Operator(
    name="GroupedHeads",
    domain="opshift.step",
    meaning=GroupedHeads,
    versions=(),
    operands=("query", "key", "value", "added", "sink"),
    oracle=oracle,
    lowerings=(scaled_by_length, by_attention, masked, capped, beside_a_sink, capped_beside_a_sink),
    facts=_facts,
)
