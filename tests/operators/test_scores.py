"""Scores: each function of `post_transform`, and the score of a first class."""

from __future__ import annotations

from operators.harness import F32, F64, Case, Table, arr
from opshift.opsets.ml import scores
from opshift.opsets.ml.scores import Scores

ROWS = arr([[0.25, 0.5, 0.75], [0.125, 0.9, 0.375]])
ZEROS = arr([[0, 1, -2], [0.5, 0, 0]])
ONE = arr([[0.25], [-2], [0]])


class TestScores(Table):
    operator = scores.OPERATOR
    tolerance = 1e-5
    cases = (
        *(Case(name, [ROWS], Scores(name)) for name in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")),
        *(Case(f"{name} with zeros", [ZEROS], Scores(name)) for name in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")),
        *(Case(f"{name} of double", [ROWS.astype(F64)], Scores(name)) for name in ("LOGISTIC", "SOFTMAX")),
        Case("no rows", [ROWS[:0]], Scores("SOFTMAX_ZERO")),
        Case("rest", [ONE], Scores(first="rest")),
        Case("rest of LOGISTIC", [ONE], Scores("LOGISTIC", "rest")),
        Case("opposite", [ONE], Scores(first="opposite")),
        Case("opposite before LOGISTIC", [ONE], Scores("LOGISTIC", "opposite")),
        Case("opposite before SOFTMAX", [ONE], Scores("SOFTMAX", "opposite")),
        Case("opposite, no rows", [arr([[1]], F32)[:0]], Scores(first="opposite")),
    )
