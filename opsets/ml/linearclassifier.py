"""ai.onnx.ml::LinearClassifier: scores of classes by products with coefficients, and the label of the largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.ml import scores
from opshift.opsets.ml.linearregressor import matrix, rows_count, rows_of
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LinearClassifier:
    """The labels, the coefficients of each class, and what is added to its score; `multi_class` has no effect.

    One row of coefficients decides between two classes by the sign of the score.
    """

    classlabels_ints: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    coefficients: tuple[float, ...] = ()
    intercepts: tuple[float, ...] = ()
    multi_class: int = 0
    post_transform: str = "NONE"

    @property
    def count(self) -> int:
        """The number of scores: that of intercepts."""
        return len(self.intercepts)

    @property
    def weights(self) -> Array:
        """The coefficients, a column for each score."""
        return np.asarray(self.coefficients, np.float32).reshape(self.count, -1).T

    @property
    def labels(self) -> Array:
        """The labels; of a single score, that of a score up to 0 and that of one above, by default 0 and 1."""
        named = np.array(self.classlabels_strings, object) if self.classlabels_strings else None
        listed = np.array(self.classlabels_ints, np.int64) if named is None else named
        if self.count == 1 and len(listed) != 2:
            return np.array(["0", "1"], object) if named is not None else np.array([0, 1])
        return listed

    @property
    def paired(self) -> bool:
        """Whether the score of the second class determines both."""
        return self.count == 1 and max(len(self.classlabels_strings), len(self.classlabels_ints)) == 2

    @property
    def ending(self) -> scores.Scores:
        """The function of the scores: onnxruntime applies only LOGISTIC to a pair, and PROBIT to one (1.32.0)."""
        if self.paired:
            return scores.Scores("LOGISTIC" if self.post_transform == "LOGISTIC" else "NONE", first="rest")
        return scores.Scores("NONE" if self.count == 1 and self.post_transform != "PROBIT" else self.post_transform)


def oracle(what: LinearClassifier, x: Array) -> tuple[Array, Array]:
    """LinearClassifier-1: "the top class for each element in X", and "classification scores"."""
    y = rows_of(x) @ what.weights.astype(np.float64) + np.asarray(what.intercepts)
    best = (y[:, 0] > 0).astype(np.int64) if what.count == 1 else y.argmax(axis=1)
    return what.labels[best], scores.oracle(what.ending, y).astype(np.float32)


def fault(what: LinearClassifier, operands: Operands) -> str | None:
    """Return what is wrong with the numbers of labels and coefficients."""
    if what.post_transform not in scores.FUNCTIONS:
        return f"post_transform is {what.post_transform!r}"
    if what.count and (not what.coefficients or len(what.coefficients) % what.count):
        return f"it has {len(what.coefficients)} coefficients for {what.count} scores"
    if what.count > 1 and len(what.labels) < what.count:
        return f"it has {len(what.labels)} labels for {what.count} scores"
    return None


def _form(single: bool) -> Callable[[LinearClassifier, Operands], Reason | None]:
    def applies_if(what: LinearClassifier, operands: Operands) -> Reason | None:
        if not what.count:
            return Reason("it has no intercepts, of which onnxruntime counts the classes")
        if what.paired and what.post_transform == "PROBIT":
            return Reason("the kernel of onnxruntime leaves PROBIT of a second class undefined")
        return matrix(operands) if (what.count == 1) == single else Reason("")

    return applies_if


def _bound(what: LinearClassifier, operands: Operands) -> Mapping[str, Any]:
    return {
        "weights": Tensor(what.weights),
        "intercepts": Tensor(np.asarray(what.intercepts, np.float32)),
        "labels": Tensor(what.labels),
        "function": what.ending.function,
        "opposite": what.ending.first,
    }


@lowering(18, applies_if=_form(False), bind=_bound, rounds=True, makes_floats=True)
def by_largest(
    x, weights: Sequence[int], intercepts: Sequence[int], labels: Sequence[int], function: str, opposite: str
):  # fmt: skip
    """Multiply, add the intercepts, and return the label of the largest score."""
    y = op.Gemm(op.Flatten(op.Cast(x, to=1), axis=-1), weights, intercepts)
    return op.Gather(labels, op.ArgMax(y, axis=1, keepdims=0)), meaning.Scores(y, function=function, first=opposite)


@lowering(18, applies_if=_form(True), bind=_bound, rounds=True, makes_floats=True)
def by_sign(
    x, weights: Sequence[int], intercepts: Sequence[int], labels: Sequence[int], function: str, opposite: str
):  # fmt: skip
    """Multiply, add the intercept, and return the second label for a score above 0."""
    y = op.Gemm(op.Flatten(op.Cast(x, to=1), axis=-1), weights, intercepts)
    above = op.Cast(op.Greater(op.Reshape(y, [-1]), 0.0), to=7)
    return op.Gather(labels, above), meaning.Scores(y, function=function, first=opposite)


def shape(what: LinearClassifier, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows."""
    return (rows_count(operands),)


OPERATOR = Operator(
    name="LinearClassifier",
    domain=ML,
    meaning=LinearClassifier,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(by_largest, by_sign),
    shape=shape,
    nan_defined=lambda what, operands: False,
    refused="no intercepts; PROBIT of a single score for two classes; features that have more than one axis",
    traits=Traits(floats_by=scores.float_traits, factors=2),
)
