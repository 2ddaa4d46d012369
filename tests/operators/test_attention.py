"""RotaryEmbedding and Attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, Array, Case, Table
from opshift.opsets.operators import rotaryembedding
from opshift.opsets.operators.rotaryembedding import RotaryEmbedding

RNG = np.random.default_rng(11)


def numbers(*shape: int, dtype: Any = F32) -> Array:
    return np.asarray(RNG.normal(size=shape)).astype(dtype)


def turned(name: str, what: RotaryEmbedding, *shape: int, half: int = 4, placed: bool = True) -> Case:
    """Return a case of two batch entries and five tokens, with caches of nine positions."""
    lead = (9,) if placed else (2, 5)
    places = RNG.integers(0, 9, (2, 5)) if placed else None
    return Case(name, [numbers(2, *shape), numbers(*lead, half), numbers(*lead, half), places], what)


class TestRotaryEmbedding(Table):
    operator = rotaryembedding.OPERATOR
    tolerance = 1e-6
    cases = (
        turned("heads", RotaryEmbedding(), 3, 5, 8),
        turned("no positions", RotaryEmbedding(), 3, 5, 8, placed=False),
        turned("matrix", RotaryEmbedding(3), 5, 24),
        turned("matrix, no positions", RotaryEmbedding(3), 5, 24, placed=False),
        turned("interleaved", RotaryEmbedding(interleaved=1), 3, 5, 8),
        turned("interleaved matrix", RotaryEmbedding(3, interleaved=1), 5, 24, placed=False),
        turned("in part", RotaryEmbedding(3, 4), 3, 5, 8, half=2),
        turned("in part, interleaved matrix", RotaryEmbedding(3, 4, 1), 5, 24, half=2),
    )


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_a_rotary_embedding_is_proven_below_23(dtype: str, interleaved: int) -> None:
    node = f"RotaryEmbedding <interleaved = {interleaved}> (x, c, s, p)"
    inputs = f"{dtype}[b,3,t,8] x, {dtype}[m,4] c, {dtype}[m,4] s, int64[b,t] p"
    text = f"g ({inputs}) => ({dtype}[b,3,t,8] y) {{ y = {node} }}"
    model = parse_model(f'<ir_version: 10, opset_import: ["": 23]> {text}')
    for opset in (22, 13):
        result = opshift.convert(model, opset=opset)
        assert result.report is not None
        assert [check.verdict for check in result.report.nodes] == ["equal"]
