"""ai.onnx.ml::SVMClassifier: scores of pairs of classes by a kernel function, and the label that wins most of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.ml import scores, supportkernel
from opshift.opsets.ml.linearregressor import matrix, rows_count, rows_of
from opshift.opsets.ml.svmregressor import KERNELS, kernel_of
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SVMClassifier:
    """Labels, and support vectors with coefficients; without vectors, each class has coefficients of features."""

    classlabels_ints: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    coefficients: tuple[float, ...] = ()
    kernel_params: tuple[float, ...] = ()
    kernel_type: str = "LINEAR"
    post_transform: str = "NONE"
    prob_a: tuple[float, ...] = ()
    prob_b: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()
    support_vectors: tuple[float, ...] = ()
    vectors_per_class: tuple[int, ...] = ()

    @property
    def labels(self) -> Array:
        """The labels, integers or strings."""
        if self.classlabels_strings:
            return np.array(self.classlabels_strings, object)
        return np.array(self.classlabels_ints, np.int64)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The classes of each score of a pair."""
        return list(itertools.combinations(range(len(self.labels)), 2))

    @property
    def in_pairs(self) -> bool:
        """Whether there are support vectors."""
        return sum(self.vectors_per_class) > 0

    @property
    def vectors(self) -> Array:
        """The support vectors, or the coefficients of each class, as columns."""
        count = sum(self.vectors_per_class) or len(self.labels)
        return np.asarray(self.support_vectors if self.in_pairs else self.coefficients, np.float32).reshape(count, -1).T

    @property
    def weights(self) -> Array:
        """What the values of the kernel function are multiplied by, a column for each pair of classes.

        A row of coefficients has those of each vector against one other class, without its own.
        """
        count, ends = sum(self.vectors_per_class), np.cumsum(self.vectors_per_class)
        rows = np.asarray(self.coefficients, np.float32)[: (len(self.labels) - 1) * count].reshape(-1, count)
        found = np.zeros((count, len(self.pairs)), np.float32)
        for place, (one, other) in enumerate(self.pairs):
            own, others = (slice(ends[it] - self.vectors_per_class[it], ends[it]) for it in (one, other))
            found[own, place] = rows[other - 1, own]
            found[others, place] = rows[one, others]
        return found

    @property
    def offsets(self) -> Array:
        """What is added to the scores."""
        return np.asarray(self.rho[: len(self.pairs)] if self.in_pairs else self.rho[:1], np.float32)

    @property
    def votes(self) -> Array:
        """Which class a score of each pair votes for where it is above zero, a row each."""
        return np.eye(len(self.labels), dtype=np.float32)[[one for one, _ in self.pairs]]

    @property
    def others(self) -> Array:
        """Which class it votes for elsewhere."""
        return np.eye(len(self.labels), dtype=np.float32)[[other for _, other in self.pairs]]

    @property
    def ending(self) -> scores.Scores:
        """What becomes of the scores; that of two classes stands for both (onnxruntime 1.32.0)."""
        if self.in_pairs and len(self.labels) == 2:
            function = "LOGISTIC" if self.post_transform == "LOGISTIC" else "NONE"
            return scores.Scores(function, "opposite" if self.post_transform == "NONE" else "rest")
        single = len(self.pairs if self.in_pairs else self.labels) == 1
        return scores.Scores("NONE" if single and self.post_transform != "PROBIT" else self.post_transform)

    @property
    def positive(self) -> bool:
        """Whether no coefficient is negative: a score of a half decides then between two classes, else zero."""
        return all(value >= 0 for value in self.coefficients)


def oracle(what: SVMClassifier, x: Array) -> tuple[Array, Array]:
    """SVMClassifier-1: "the top class only", and "Class scores (one per class per example)", or one for each pair."""
    if what.prob_a:
        raise NotImplementedError("probabilities are found by iteration")
    kernel = kernel_of(what.kernel_type if what.in_pairs else "LINEAR", what.kernel_params)
    values = supportkernel.oracle(kernel, rows_of(x), what.vectors)
    if what.in_pairs:
        y = values @ what.weights.astype(np.float64) + what.offsets
        best = np.where(y > 0, 1, 0) @ what.votes + np.where(y > 0, 0, 1) @ what.others
        place = best.argmax(axis=1)
    else:
        y = values + what.offsets
        place = y.argmax(axis=1)
        if len(what.labels) == 2:
            most = y.max(axis=1, initial=-np.inf)
            place = np.where(most >= 0.5 if what.positive else most > 0, 1, place)
    return what.labels[place], scores.oracle(what.ending, y).astype(np.float32)


def fault(what: SVMClassifier, operands: Operands) -> str | None:
    """Return what is wrong with the lists."""
    count, vectors = len(what.labels), sum(what.vectors_per_class)
    if what.kernel_type not in KERNELS or len(what.kernel_params) not in (0, 3):
        return f"kernel_type is {what.kernel_type!r}, with {len(what.kernel_params)} parameters"
    if what.post_transform not in scores.FUNCTIONS:
        return f"post_transform is {what.post_transform!r}"
    if not count or not what.rho or not what.coefficients:
        return "it has no labels, no coefficients, or no rho"
    if not vectors:
        return None if len(what.coefficients) % count == 0 else "the coefficients are not as many for each class"
    if len(what.vectors_per_class) != count or len(what.coefficients) < (count - 1) * vectors:
        return f"it has {len(what.coefficients)} coefficients for {vectors} vectors of {count} classes"
    if len(what.rho) < len(what.pairs) or not what.support_vectors or len(what.support_vectors) % vectors:
        return f"{len(what.support_vectors)} numbers are no {vectors} support vectors, or rho is too short"
    return None


def _known(what: SVMClassifier, operands: Operands) -> Reason | None:
    if what.prob_a or what.prob_b:
        return Reason("probabilities (prob_a, prob_b) are found by iteration")
    if what.in_pairs and len(what.labels) == 1:
        return Reason("there is no pair of classes")
    if what.in_pairs and len(what.labels) == 2 and what.post_transform == "PROBIT":
        return Reason("the kernel of onnxruntime leaves PROBIT of a second class undefined")
    return matrix(operands)


def _form(form: str) -> Callable[[SVMClassifier, Operands], Reason | None]:
    def applies_if(what: SVMClassifier, operands: Operands) -> Reason | None:
        own = "pairs" if what.in_pairs else "two" if len(what.labels) == 2 else "classes"
        return _known(what, operands) if own == form else Reason("")

    return applies_if


def _bound(what: SVMClassifier, operands: Operands) -> dict[str, Any]:
    return {
        "vectors": Tensor(what.vectors),
        "offsets": Tensor(what.offsets),
        "labels": Tensor(what.labels),
        "function": what.ending.function,
        "opposite": what.ending.first,
    }


def _pairs(what: SVMClassifier, operands: Operands) -> Mapping[str, Any]:
    kernel = kernel_of(what.kernel_type, what.kernel_params)
    return {
        **_bound(what, operands),
        "weights": Tensor(what.weights),
        "votes": Tensor(what.votes - what.others),
        "kind": kernel.kind,
        "gamma": kernel.gamma,
        "coef0": kernel.coef0,
        "degree": kernel.degree,
        "others": Tensor(what.others.sum(axis=0)),
    }


def _two(what: SVMClassifier, operands: Operands) -> Mapping[str, Any]:
    threshold = np.nextafter(np.float32(0.5), np.float32(0)) if what.positive else np.float32(0)
    return {**_bound(what, operands), "threshold": Tensor(np.asarray(threshold))}


@lowering(18, applies_if=_form("pairs"), bind=_pairs, rounds=True, makes_floats=True)
def by_votes(
    x, vectors: Sequence[int], weights: Sequence[int], offsets: Sequence[int], votes: Sequence[int],
    others: Sequence[int], labels: Sequence[int], kind: str, gamma: float, coef0: float, degree: float,
    function: str, opposite: str,
):  # fmt: skip
    """Compute the kernel function and the scores of pairs, and count their votes."""
    rows = op.Flatten(op.Cast(x, to=1), axis=-1)
    values = meaning.SupportKernel(rows, vectors, kind=kind, gamma=gamma, coef0=coef0, degree=degree)
    y = op.Gemm(values, weights, offsets)
    counts = op.MatMul(op.Cast(op.Greater(y, 0.0), to=1), votes) + others
    label = op.Gather(labels, op.ArgMax(counts, axis=1, keepdims=0))
    return label, meaning.Scores(y, function=function, first=opposite)


@lowering(18, applies_if=_form("classes"), bind=_bound, rounds=True, makes_floats=True)
def by_largest(
    x, vectors: Sequence[int], offsets: Sequence[int], labels: Sequence[int], function: str, opposite: str
):  # fmt: skip
    """Multiply by the coefficients of each class, and return the label of the largest score."""
    y = op.MatMul(op.Flatten(op.Cast(x, to=1), axis=-1), vectors) + offsets
    label = op.Gather(labels, op.ArgMax(y, axis=1, keepdims=0))
    return label, meaning.Scores(y, function=function, first=opposite)


@lowering(18, applies_if=_form("two"), bind=_two, rounds=True, makes_floats=True)
def by_larger(
    x, vectors: Sequence[int], offsets: Sequence[int], labels: Sequence[int], threshold: Sequence[int],
    function: str, opposite: str,
):  # fmt: skip
    """Multiply by the coefficients of each class; the second label is that of any large score, as in onnxruntime."""
    y = op.MatMul(op.Flatten(op.Cast(x, to=1), axis=-1), vectors) + offsets
    large = op.Cast(op.Greater(op.ReduceMax(y, [1], keepdims=0), threshold), to=7)
    place = op.Max(large, op.ArgMax(y, axis=1, keepdims=0))
    return op.Gather(labels, place), meaning.Scores(y, function=function, first=opposite)


def shape(what: SVMClassifier, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows."""
    return (rows_count(operands),)


OPERATOR = Operator(
    name="SVMClassifier",
    domain=ML,
    meaning=SVMClassifier,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(by_votes, by_largest, by_larger),
    shape=shape,
    nan_defined=lambda what, operands: False,
    refused="probabilities (`prob_a`, `prob_b`); PROBIT of two classes; features that have more than one axis",
    traits=Traits(floats_by=scores.float_traits, factors=2),
)
