"""ai.onnx.ml::TreeEnsembleClassifier: trees of questions about features, whose leaves have weights of classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families import trees
from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.ml import forest, scores
from opshift.opsets.ml.linearregressor import matrix, rows_count
from opshift.opsets.ml.treeensembleregressor import always, compared_in, fields
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TreeEnsembleClassifier(trees.Nodes):
    """The nodes, the weights of classes at leaves, and the labels of classes."""

    class_ids: tuple[int, ...] = ()
    class_nodeids: tuple[int, ...] = ()
    class_treeids: tuple[int, ...] = ()
    class_weights: tuple[float, ...] = ()
    class_weights_as_tensor: Tensor | None = None
    classlabels_int64s: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()

    @property
    def labels(self) -> Array:
        """The labels, integers or strings."""
        if self.classlabels_strings:
            return np.array(self.classlabels_strings, object)
        return np.array(self.classlabels_int64s, np.int64)

    @functools.cached_property
    def listed_scores(self) -> list[list[tuple[int, float]]]:
        """The classes and weights of each node; of a single class, only the first that a node lists counts."""
        values, width = trees.listed(self.class_weights, self.class_weights_as_tensor), len(self.labels)
        found = self.scores(self.class_ids, self.class_treeids, self.class_nodeids, values, width)
        return [one[:1] for one in found] if width == 1 else found

    @property
    def positive(self) -> bool:
        """Whether no weight is negative."""
        return all(value >= 0 for value in trees.listed(self.class_weights, self.class_weights_as_tensor))


@dataclass(frozen=True)
class Decided:
    """How onnxruntime (1.32.0) decides and returns scores; the texts have "the top class" alone.

    Attributes:
        forest: the trees, with a column of weights for each score.
        base: what is added to the scores.
        labels: those that are returned.
        place: the score that decides between two labels, where it is above `threshold`; None: the largest decides.
        hidden: what is added to scores where the largest decides: no class without a weight is the top one.
        ending: what becomes of the scores.
    """

    forest: forest.Forest
    base: Array
    labels: Array
    ending: scores.Scores
    place: int | None = None
    threshold: float = 0.0
    hidden: Array | None = None


def decided(what: TreeEnsembleClassifier, dtype: Any) -> Decided | Reason:
    """Return how a classifier decides, of features that are compared in a type.

    Raises:
        ValueError: the lists do not fit.
    """
    flat, width = what.flat(dtype), len(what.labels)
    rows, present = trees.columns(what.listed_scores, width, dtype, np.add, 0.0)
    more = np.zeros((len(flat.decisions) - len(rows), width))
    weights = np.concatenate([rows, more.astype(dtype)])
    roots = Tensor(np.array(what.roots, np.int64))
    depth = flat.depth(what.roots)
    grown = forest.Forest(**flat.arrays(), roots=roots, weights=Tensor(weights), depth=depth, aggregate="SUM")
    listed = np.concatenate([present, more.astype(bool)])
    everywhere, somewhere = always(grown, listed), np.asarray(listed.any(axis=0))
    if not (everywhere == somewhere).all():
        return Reason("a class has weights at some of the leaves alone")
    if width == 1:
        return _single(what, grown, dtype)
    return _pair(what, grown, somewhere, dtype) if width == 2 else _several(what, grown, somewhere, dtype)


def _single(what: TreeEnsembleClassifier, grown: forest.Forest, dtype: Any) -> Decided | Reason:
    """One class: its score tells 1 from 0."""
    if what.classlabels_strings:
        return Reason("it has one label, which is a string: onnxruntime reads beyond the list")
    ending = scores.Scores(what.post_transform if what.post_transform == "PROBIT" else "NONE")
    return Decided(grown, np.array(what.base or (-0.0,), dtype), np.array([0, 1]), ending, 0)


def _several(what: TreeEnsembleClassifier, grown: forest.Forest, has: Array, dtype: Any) -> Decided:
    """Three classes or more: the first with the largest score, of those that have any."""
    base = np.array(what.base or (-0.0,), dtype)
    hidden = np.array([-0.0], dtype) if what.base or has.all() else np.where(has, 0, -np.inf).astype(dtype)
    return Decided(grown, base, what.labels, scores.Scores(what.post_transform), hidden=hidden)


def _pair(what: TreeEnsembleClassifier, grown: forest.Forest, has: Array, dtype: Any) -> Decided | Reason:
    """Two classes: the score of one decides, by a half where no weight is negative, and else by zero."""
    base, weights = what.base, grown.weights.array
    threshold = 0.5 if what.positive and not has.all() else 0.0
    labels = what.labels
    if has.all() and not what.classlabels_strings:
        labels = np.array([0, 1])  # so it returns, whatever the labels are
    if not has.any():
        return Reason("no leaf has a weight")
    if not has[1] and len(base) < 2:
        if what.post_transform == "PROBIT":
            return Reason("the kernel of onnxruntime leaves PROBIT of a second class undefined")
        only = _with(grown, weights[:, :1])
        function = "LOGISTIC" if what.post_transform == "LOGISTIC" else "NONE"
        ending = scores.Scores(function, "rest" if what.positive else "opposite")
        return Decided(only, np.array(base or (-0.0,), dtype), labels, ending, 0, threshold)
    ending = scores.Scores(what.post_transform)
    if not has[1]:
        return Decided(grown, np.array([base[0], 0], dtype), labels, ending, 0, threshold)
    if len(base) == 2:  # the second base value is added to the sum of the first class
        second = weights[:, :1]
        opposite = -second if has[0] else np.zeros_like(second)
        both = np.array([-base[1] if has[0] else 0.0, base[1]], dtype)
        return Decided(_with(grown, np.concatenate([opposite, second], axis=1)), both, labels, ending, 1, threshold)
    added = np.array([base[0] if base and has[0] else 0.0, 0.0], dtype) if base else np.array([-0.0], dtype)
    return Decided(grown, added, labels, ending, 1, threshold)


def _with(grown: forest.Forest, weights: Array) -> forest.Forest:
    return forest.Forest(**{**fields(grown), "weights": Tensor(np.ascontiguousarray(weights))})


def oracle(what: TreeEnsembleClassifier, x: Array) -> tuple[Array, Array]:
    """TreeEnsembleClassifier-3: "the top class for each of N inputs", and "the class score for each class"."""
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    found = decided(what, dtype)
    if isinstance(found, Reason):
        raise NotImplementedError(found)
    y = forest.oracle(found.forest, x.astype(dtype).reshape(-1, x.shape[-1])) + found.base
    if found.place is None:
        best = (y + found.hidden).argmax(axis=1)
    else:
        best = (y[:, found.place] > found.threshold).astype(np.int64)
    return found.labels[best], scores.oracle(found.ending, y.astype(np.float32))


def fault(what: TreeEnsembleClassifier, operands: Operands) -> str | None:
    """Return what is wrong with the lists."""
    if what.post_transform not in scores.FUNCTIONS:
        return f"post_transform is {what.post_transform!r}"
    if bool(what.classlabels_int64s) == bool(what.classlabels_strings):
        return "it has classlabels_int64s and classlabels_strings, or neither"
    count = len(what.labels)
    if len(what.base) not in (0, count) and (count, len(what.base)) != (2, 1):
        return f"it has {len(what.base)} base values for {count} classes"
    try:
        decided(what, np.float32)
    except ValueError as error:
        return str(error)
    return None


def _form(several: bool) -> Callable[[TreeEnsembleClassifier, Operands], Reason | None]:
    def applies_if(what: TreeEnsembleClassifier, operands: Operands) -> Reason | None:
        if reason := dtype_known(what, operands):
            return reason
        if reason := matrix(operands):
            return reason
        found = decided(what, compared_in(first(operands).dtype))
        if isinstance(found, Reason):
            return found
        return None if several == (found.place is None) else Reason("")

    return applies_if


def _bound(what: TreeEnsembleClassifier, operands: Operands) -> Mapping[str, Any]:
    dtype = compared_in(first(operands).dtype)
    found = decided(what, dtype)
    assert isinstance(found, Decided)
    bound = {
        **fields(found.forest),
        "base": Tensor(found.base),
        "labels": Tensor(found.labels),
        "function": found.ending.function,
        "opposite": found.ending.first,
        "to": TensorProto.DOUBLE if dtype is np.float64 else TensorProto.FLOAT,
    }
    if found.place is None:
        return {**bound, "hidden": Tensor(np.asarray(found.hidden))}
    return {**bound, "place": found.place, "threshold": Tensor(np.array(found.threshold, dtype))}


@lowering(18, applies_if=_form(True), bind=_bound, rounds=True, makes_floats=True)
def by_largest(
    x, features: Sequence[int], thresholds: Sequence[int], yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int], roots: Sequence[int], weights: Sequence[int], depth: int, aggregate: str,
    base: Sequence[int], hidden: Sequence[int], labels: Sequence[int], function: str, opposite: str, to: int,
):  # fmt: skip
    """Evaluate all trees at once, add the weights of the leaves, and return the label of the largest score."""
    y = meaning.Forest(
        op.Flatten(op.Cast(x, to=to), axis=-1), features=features, thresholds=thresholds, yes=yes, no=no,
        missing=missing, roots=roots, weights=weights, depth=depth, aggregate=aggregate,
    ) + base  # fmt: skip
    label = op.Gather(labels, op.ArgMax(y + hidden, axis=1, keepdims=0))
    return label, meaning.Scores(op.Cast(y, to=1), function=function, first=opposite)


@lowering(18, applies_if=_form(False), bind=_bound, rounds=True, makes_floats=True)
def by_one_score(
    x, features: Sequence[int], thresholds: Sequence[int], yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int], roots: Sequence[int], weights: Sequence[int], depth: int, aggregate: str,
    base: Sequence[int], labels: Sequence[int], function: str, opposite: str, to: int, place: int,
    threshold: Sequence[int],
):  # fmt: skip
    """Evaluate all trees at once, add the weights of the leaves, and return the second label for a large score."""
    y = meaning.Forest(
        op.Flatten(op.Cast(x, to=to), axis=-1), features=features, thresholds=thresholds, yes=yes, no=no,
        missing=missing, roots=roots, weights=weights, depth=depth, aggregate=aggregate,
    ) + base  # fmt: skip
    above = op.Cast(op.Greater(op.Gather(y, place, axis=1), threshold), to=7)
    return op.Gather(labels, above), meaning.Scores(op.Cast(y, to=1), function=function, first=opposite)


def shape(what: TreeEnsembleClassifier, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows."""
    return (rows_count(operands),)


OPERATOR = Operator(
    name="TreeEnsembleClassifier",
    domain=ML,
    meaning=TreeEnsembleClassifier,
    versions=(Version(1), Version(3)),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(by_largest, by_one_score),
    shape=shape,
    refused=(
        "features that have more than one axis; trees of more than 64 levels; classes that some of the leaves of "
        "their trees have no weight of; PROBIT of a single score for two classes; a single label that is a string"
    ),
    traits=Traits(floats_by=scores.float_traits, compares=True, bounds=("nodes_values", "nodes_values_as_tensor")),
)
