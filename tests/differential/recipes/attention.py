"""Attention and its relatives."""

from __future__ import annotations

import numpy as np

from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import BOOL, FEEDS, INT64


@recipe("Attention")
def attention(draw: Draw) -> None:
    batch, heads, group = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 2)
    queries, keys, width, value_width = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 3), draw.integer(1, 3)
    q_heads = heads * group
    four = draw.chance(0.5)

    def shape(count: int, length: int, size: int) -> tuple[int, ...]:
        return (batch, count, length, size) if four else (batch, length, count * size)

    if not four:
        draw.set(q_num_heads=q_heads, kv_num_heads=heads)
    draw.tensor(0, shape(q_heads, queries, width), "unit")
    draw.tensor(1, shape(heads, keys, width), "unit")
    draw.tensor(2, shape(heads, keys, value_width), "unit")
    past = draw.integer(1, 2) if draw.chance(0.3) else 0
    total = past + keys
    if draw.chance(0.4):
        kind = draw.input_type(3)
        mask = draw.pick(((queries, total), (batch, 1, queries, total), (batch, q_heads, queries, total)))
        argument = draw.data(kind, mask, "unit")
        if kind == BOOL:
            argument = draw.each(BOOL, [np.ones(mask, bool) | (value > 2) for value in np.zeros((FEEDS, *mask))])
        draw.add(argument)
    else:
        draw.add(None)
    if past:
        kind = draw.input_type(1)
        draw.add(draw.data(kind, (batch, heads, past, width), "unit"))
        draw.add(draw.data(draw.input_type(2), (batch, heads, past, value_width), "unit"))
    elif draw.version >= 24 and draw.chance(0.2):
        draw.add(None, None, draw.each(INT64, [draw.rng.integers(1, total + 1, (batch,)) for _ in range(FEEDS)]))
    draw.option("is_causal", draw.integer(0, 1))
    if draw.chance(0.3):
        draw.set(scale=draw.pick((0.5, 1.0)))
    draw.option("softcap", draw.pick((0.0, 2.0)), 0.3)
    draw.option("qk_matmul_output_mode", draw.integer(0, 3), 0.2)
    qk = draw.chance(0.3)
    draw.outputs(True, bool(past), bool(past), qk)


@recipe("LinearAttention")
def linear_attention(draw: Draw) -> None:
    batch, heads, group, length, width, value_width = (draw.integer(1, 2) for _ in range(6))
    length = draw.integer(1, 4)
    draw.set(q_num_heads=heads * group, kv_num_heads=heads)
    rule = draw.option("update_rule", draw.pick(("linear", "gated", "delta", "gated_delta")))
    for index, size in ((0, heads * group * width), (1, heads * width), (2, heads * value_width)):
        draw.tensor(index, (batch, length, size), "unit")
    kind = draw.input_type(0)
    state = draw.type(draw.schema.inputs[3].type_str)
    with_state = draw.chance(0.5)
    if not with_state:
        draw.types[draw.schema.inputs[3].type_str] = kind
    draw.add(draw.data(state, (batch, heads, width, value_width), "unit") if with_state else None)
    decay = heads * draw.pick((1, width))
    draw.add(draw.data(kind, (batch, length, decay), "unit") if rule.startswith("gated") else None)
    draw.add(draw.data(kind, (batch, length, draw.pick((heads, 1))), "unit") if rule.endswith("delta") else None)
    draw.option("scale", draw.pick((0.0, 0.5)), 0.4)
    draw.option("chunk_size", draw.pick((64, 2)), 0.2)
    draw.outputs(True, True)


@recipe("RotaryEmbedding")
def rotary_embedding(draw: Draw) -> None:
    batch, heads, length, half = draw.dim(), draw.pick((1, 2, 4)), draw.dim(), draw.integer(1, 2)
    width = 2 * half
    four = draw.chance(0.5)
    rotated = half
    if not four or draw.chance(0.3):
        draw.set(num_heads=heads)
    if half > 1 and draw.chance(0.3):
        draw.set(rotary_embedding_dim=2)
        rotated = 1
    draw.tensor(0, (batch, heads, length, width) if four else (batch, length, heads * width), "finite")
    kind = draw.input_type(0)
    if draw.chance(0.6):
        for _ in range(2):
            draw.add(draw.data(kind, (8, rotated), "unit"))
        draw.add(draw.each(INT64, [draw.rng.integers(0, 8, (batch, length)) for _ in range(FEEDS)]))
    else:
        for _ in range(2):
            draw.add(draw.data(kind, (batch, length, rotated), "unit"))
    draw.option("interleaved", draw.integer(0, 1))
