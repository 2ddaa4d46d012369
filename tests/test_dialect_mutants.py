"""Mutants of what onnxruntime's own operators become are found: another axis, an input less, a constant off by one."""

from __future__ import annotations

import re
import zlib

import onnx
import pytest
from dialect_cases import CASES, DECOMPOSE, Case
from test_mutants import SHARE, mutants

import opshift
from opshift.passes.base.results import Verdict

OPERATORS = ("BiasAdd", "BiasSplitGelu", "GemmFastGelu", "MatMulBnb4", "NhwcConv", "SkipGroupNorm")
PACKED = ("MultiHeadAttention<num_heads=2>(pq)", "MultiHeadAttention<num_heads=2,scale=0.5>(q,kv,,,m,a)")
MUTATED = [case for case in CASES if case.name in OPERATORS or str(case) in PACKED]

SURVIVORS = (
    ("MatMulBnb4", "y/Gather: axis=-1", "the table is a vector, whose axis -1 is axis 0"),
    ("MatMulBnb4", "y/Add: is Sub", "it is zero that is added: no index is below zero"),
    ("", r"constant of y/Reshape.*: element 0 is 0, not -1", "0 copies what -1 infers, or infers a vector"),
)
"""Operator, mutant and why it computes the same; each is a regular expression."""


def is_found(original: onnx.ModelProto, mutant: onnx.ModelProto) -> bool:
    """Whether verification finds a mutant; one that does not load is found, too."""
    try:
        return opshift.verify(original, mutant).whole.verdict is Verdict.DIFFERENT
    except opshift.OpshiftError:
        return True


def is_listed(case: Case, what: str) -> bool:
    return any(re.match(who, str(case)) and re.fullmatch(mutant, what) for who, mutant, _ in SURVIVORS)


@pytest.mark.slow
@pytest.mark.parametrize("case", MUTATED, ids=str)
def test_mutants_of_what_an_operator_becomes_are_found(case: Case) -> None:
    changed = opshift.convert(case.model, opset=case.opsets[0], decompose=DECOMPOSE, verify=False).rewritten
    tried = [(what, one) for what, one in mutants(changed) if zlib.crc32(f"{case}{what}".encode()) % SHARE == 0]
    assert not [what for what, one in tried if not is_listed(case, what) and not is_found(case.model, one)]


MAPPED = """<ir_version: 8, opset_import: ["": 19, "ai.onnx.ml": 1]> g ({x}[n] x) => ({y}[n] y) {{
    y = ai.onnx.ml.CategoryMapper <cats_strings = ["a", "B", ""], cats_int64s = [3, 5, 7]> (x)
}}"""


@pytest.mark.slow
@pytest.mark.parametrize(("x", "y"), [("string", "int64"), ("int64", "string")])
def test_mutants_of_a_category_mapper_are_found(x: str, y: str) -> None:
    model = onnx.parser.parse_model(MAPPED.format(x=x, y=y))
    changed = opshift.convert(model, decompose=["ai.onnx.ml"], verify=False).rewritten
    every = list(mutants(changed))
    assert every
    # The key behind the others stands for all that is not listed, whatever it is.
    listed = [one for what, one in every if not what.startswith("constant of y/Equal: element 3")]
    assert all(is_found(model, one) for one in listed)
