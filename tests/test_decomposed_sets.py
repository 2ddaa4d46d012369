"""Operators are decomposed one by one, and in growing sets: planning ends, and no operator of the set is left.

The models are ONNX's own node tests, the smallest of each operator, with integer inputs as constants: axes, shapes and
counts are known, as in most models.
"""

from __future__ import annotations

import functools
import random
import zlib

import onnx
import onnx.numpy_helper
import pytest
from running import nodes_of, opset_of
from test_each_operator import WITHOUT_CASE, smallest

import opshift
from opshift.opsets.registry.schema import OLDEST
from opshift.passes.rewrite.lowering_search import Deriver

STEPS = 6
"""How often a set grows by one of the operators that took the place of the others."""
MOST = 60_000
"""Nodes to derive: the largest number seen is a third of it."""

IRREDUCIBLE = {
    "Concat": "Pad and a sum would lose the signs of zeros, and strings",
    "DequantizeLinear": "of types that no other operator computes with",
    "Erf": "no other operator computes it, and a polynomial is not the same (it needs --assume approximate)",
    "ImageDecoder": "no other operator reads the formats of images",
    "Loop": "of a number of iterations that is known at run time only",
    "MelWeightMatrix": "its edges are computed, and only constant weights are written",
    "RegexFullMatch": "no other operator looks into strings",
    "Reshape": "only it changes the number of axes and their lengths at once",
    "StringConcat": "no other operator makes strings",
    "StringNormalizer": "no other operator makes strings",
    "StringSplit": "no other operator looks into strings",
}
"""Operators that the smallest test is not decomposed of, and why."""


@functools.cache
def example(operator: str) -> onnx.ModelProto:
    """Return the smallest test of an operator, with integers as constants."""
    case = smallest()[operator]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    given, _ = case.data_sets[0]
    for value, array in zip(list(model.graph.input), given, strict=False):
        made = array if isinstance(array, onnx.TensorProto) else None
        if made is None and getattr(array, "dtype", None) is not None and array.dtype.kind == "i" and array.ndim < 2:
            made = onnx.numpy_helper.from_array(array, value.name)
        if made is not None:
            made.name = value.name
            model.graph.initializer.append(made)
            model.graph.input.remove(value)
    return model


def planned(operator: str, gone: set[str], monkeypatch: pytest.MonkeyPatch) -> opshift.Plan:
    """Plan, and fail where too many nodes are derived."""
    counted = 0
    derive = Deriver.derive

    def counting(self: Deriver, *arguments: object) -> object:
        nonlocal counted
        counted += 1
        assert counted < MOST, f"{operator} without {sorted(gone)}: planning does not end"
        return derive(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Deriver, "derive", counting)
    model = example(operator)
    try:
        return opshift.plan(model, decompose=sorted(gone), opset=max(OLDEST, opset_of(model)))
    finally:
        monkeypatch.setattr(Deriver, "derive", derive)


def kinds(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in nodes_of(model) if node.domain in ("", "ai.onnx")}


@pytest.mark.parametrize("operator", sorted(set(smallest()) - WITHOUT_CASE))
def test_an_operator_is_decomposed_or_listed(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(operator, {operator}, monkeypatch)
    assert bool(plan.refusals) == (operator in IRREDUCIBLE), [refusal.reason for refusal in plan.refusals]


@pytest.mark.fast(8)
@pytest.mark.parametrize("operator", sorted(set(smallest()) - WITHOUT_CASE - IRREDUCIBLE.keys()))
def test_growing_sets_end(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(zlib.crc32(operator.encode()))
    gone = {operator}
    model = example(operator)
    for _ in range(STEPS):
        if planned(operator, gone, monkeypatch).refusals:
            return
        result = opshift.convert(model, decompose=gone, opset=max(OLDEST, opset_of(model)), verify=False).rewritten
        left = kinds(result)
        assert not left & gone
        if not left:
            return
        gone.add(rng.choice(sorted(left)))
