"""TfIdfVectorizer: all modes, skips and lengths, numbers and strings, rows of any length."""

from __future__ import annotations

import dataclasses

import numpy as np

from operators.harness import Case, Code, Refused, Table
from opshift.opsets.operators import gramcounts, tfidfvectorizer
from opshift.opsets.operators.gramcounts import GramCounts
from opshift.opsets.operators.tfidfvectorizer import TfIdfVectorizer
from opshift.opsets.registry.facts import Tensor

ROW = np.array([1, 2, 1, 2, 3, 1, 7], np.int64)
ROWS = np.array([[1, 2, 1, 2], [3, 3, 2, 2], [9, 1, 9, 2]], np.int64)
WORDS = np.array([["a", "B", "a", "", "c"], ["B", "a", "B", "a", "a"]], object)
WEIGHTS = (0.5, 2.0, 3.0, 1.25, 0.1)

SINGLES = TfIdfVectorizer("TF", 1, 1, 0, (0,), (1, 0, 2), (1, 2, 3))
PAIRS = TfIdfVectorizer("TF", 2, 2, 1, (0, 0), (0, 2, 1), (1, 2, 2, 2, 3, 1))
BOTH = TfIdfVectorizer("TF", 1, 2, 1, (0, 3), (0, 1, 2, 3, 4), (1, 2, 3, 1, 2, 2, 2))
TRIPLES = TfIdfVectorizer("TF", 1, 3, 2, (0, 1, 3), (4, 3, 1, 0), (1, 1, 2, 2, 1, 1, 1, 1, 1))
STRINGS = TfIdfVectorizer("TF", 1, 2, 1, (0, 3), (0, 1, 2, 3, 4), None, ("a", "B", "", "a", "B", "B", "a"))


def with_weights(what: TfIdfVectorizer, mode: str) -> TfIdfVectorizer:
    return dataclasses.replace(what, mode=mode, weights=WEIGHTS[: len(what.ngram_indexes)])


POOLS = {"singles": SINGLES, "pairs": PAIRS, "both": BOTH, "triples": TRIPLES}


REFUSED = """<ir_version: 8, opset_import: ["": 18]> g (int64[5] x) => (float[n] y) {{
    y = TfIdfVectorizer <mode = "{mode}", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0,
        ngram_counts = [0],
        ngram_indexes = [0, {place}], weights = [1.0, {weight}], pool_int64s = [1, 2]> (x)
}}"""


class TestTfIdfVectorizer(Table):
    operator = tfidfvectorizer.OPERATOR
    tolerance = 1e-6
    cases = (
        *(Case(f"{name}, {x.ndim} axes", [x], what) for name, what in POOLS.items() for x in (ROW, ROWS)),
        *(
            Case(f"{name}, {mode}", [ROWS], with_weights(what, mode))
            for name, what in POOLS.items()
            for mode in ("IDF", "TFIDF")
        ),
        *(
            Case(f"{name}, IDF without weights", [ROW], dataclasses.replace(what, mode="IDF"))
            for name, what in POOLS.items()
        ),
        Case("int32", [ROWS.astype(np.int32)], BOTH),
        Case(
            "int32 beside wide numbers",
            [ROW.astype(np.int32)],
            dataclasses.replace(SINGLES, pool_int64s=(1, 2**32 + 2, 3)),
        ),
        Case(
            "several in one place",
            [ROW],
            dataclasses.replace(with_weights(BOTH, "TFIDF"), ngram_indexes=(0, 0, 1, 5, 5)),
        ),
        Case("weights below zero", [ROW], dataclasses.replace(SINGLES, mode="TFIDF", weights=(-1.0, 2.0, -3.0))),
        Case("no elements", [ROW[:0]], PAIRS),
        Case("a row that is shorter than an n-gram", [ROW[:2]], dataclasses.replace(TRIPLES, min_gram_length=3)),
        *(Case(f"strings, {mode}", [WORDS], with_weights(STRINGS, mode), least=9) for mode in ("TF", "IDF", "TFIDF")),
    )
    refusals = tuple(
        Refused(REFUSED.format(mode=mode, place=place, weight=weight), Code.ABSENT_OPERATOR, why, {"opset": 8})
        for mode, place, weight, why in (
            ("IDF", 0, "2.0", "no text defines which weight counts"),
            ("TFIDF", 1, "inf", "its weights are not finite"),
        )
    )


def grams(*rows: list[int]) -> Tensor:
    return Tensor(np.array(rows, np.int64))


class TestGramCounts(Table):
    operator = gramcounts.OPERATOR
    cases = (
        Case("single", [ROWS], GramCounts(grams([1], [2], [5]))),
        Case("pairs", [ROWS], GramCounts(grams([1, 2], [2, 2]), 2)),
        Case("triples", [ROW], GramCounts(grams([1, 1, 3], [2, 2, 1], [0, 1, 2]), 3)),
        Case("int32", [ROW.astype(np.int32)], GramCounts(grams([1, 2], [2, 2**40]), 2)),
    )
