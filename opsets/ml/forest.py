"""A step: the leaves that rows of features reach in trees, and the sum of their weights, the least or the largest.

Tree ensembles are brought into one form: flat arrays of nodes, of which each asks whether a feature is at most a
threshold. A leaf leads to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]

DEEPEST = 64
"""The largest number of levels that are unrolled; a model with more would hardly be loaded."""

MATRIX = 2**18
"""Elements of the matrices from nodes to leaves up to which products are written instead of levels: 1 MB of floats."""

COMBINED: Mapping[str, Callable[[Array], Any]] = {
    "SUM": lambda found: found.sum(axis=1),
    "MIN": lambda found: found.min(axis=1),
    "MAX": lambda found: found.max(axis=1),
}
"""The aggregation of the weights of all trees."""

_NONE = Tensor(np.zeros(0))


@dataclass(frozen=True)
class Forest:
    """Nodes by their number, with the number of each that follows; and a row of weights for each node.

    `missing` says of a node that NaN goes where a feature at most the threshold does. `aggregate` is SUM, MIN or MAX;
    a weight that is infinite stands for none in MIN and MAX.
    """

    features: Tensor = _NONE
    thresholds: Tensor = _NONE
    yes: Tensor = _NONE
    no: Tensor = _NONE
    missing: Tensor = _NONE
    roots: Tensor = _NONE
    weights: Tensor = _NONE
    depth: int = 0
    aggregate: str = "SUM"

    @property
    def leaves(self) -> Array:
        """Return a mask of the leaves."""
        return np.asarray(self.yes.array == np.arange(len(self.yes.array)))


def oracle(what: Forest, x: Array) -> Array:
    """Go down every tree, and add up the weights of the leaves, or take the least or the largest."""
    rows = np.arange(len(x))[:, None]
    at = np.broadcast_to(what.roots.array, (len(x), what.roots.size))
    for _ in range(what.depth):
        value = x[rows, what.features.array[at]]
        below = (value <= what.thresholds.array[at]) | (np.isnan(value) & what.missing.array[at])
        at = np.where(below, what.yes.array[at], what.no.array[at])
    found = what.weights.array.astype(np.float64)[at]
    return np.asarray(COMBINED[what.aggregate](found)).astype(what.weights.array.dtype)


# --- level by level ---------------------------------------------------------------------------------------------------


def _shallow(what: Forest, operands: Operands) -> Reason | None:
    return Reason(f"a tree is {what.depth} levels deep") if what.depth > DEEPEST else None


def _arrays(what: Forest, operands: Operands) -> Mapping[str, Any]:
    one_after_the_other = {
        name: getattr(what, name) for name in ("features", "thresholds", "yes", "no", "missing", "weights")
    }
    tracks = int(bool(what.missing.array.any()))
    return {
        **one_after_the_other,
        "roots": Tensor(what.roots.array[None]),
        "depth": what.depth,
        "tracks": tracks,
        "aggregate": what.aggregate,
    }


@lowering(18, applies_if=_shallow, bind=_arrays, rounds=True)
def by_levels(
    x, features: Sequence[int], thresholds: Sequence[int], yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int], weights: Sequence[int], roots: Sequence[int], depth: int, tracks: int, aggregate: str,
):  # fmt: skip
    """Gather the next node of each tree, level by level, then the weights of the leaves."""
    start = op.Expand(roots, op.Concat(op.Shape(x, start=0, end=1), [1], axis=0))
    at = meaning.Descended(start, x, features, thresholds, yes, no, missing, depth=depth, tracks=tracks)
    return meaning.Aggregated(op.Gather(weights, at), function=aggregate)


# --- by products of matrices ------------------------------------------------------------------------------------------


_Paths = tuple[list[int], list[int], Mapping[int, Mapping[int, bool]]]


def _paths(what: Forest) -> list[_Paths]:
    """Return for each tree its inner nodes, its leaves, and of each leaf which way its path takes at which node."""
    leaves = what.leaves
    found: list[_Paths] = []
    for root in what.roots.array.tolist():
        inner: list[int] = []
        ways: dict[int, Mapping[int, bool]] = {}
        stack: list[tuple[int, dict[int, bool]]] = [(root, {})]
        while stack:
            node, path = stack.pop()
            if leaves[node]:
                ways[node] = path
                continue
            inner.append(node)
            stack.append((int(what.no.array[node]), {**path, node: False}))
            stack.append((int(what.yes.array[node]), {**path, node: True}))
        found.append((inner, list(ways), ways))
    return found


def _small(what: Forest, operands: Operands) -> Reason | None:
    if what.aggregate != "SUM":
        return Reason("no sum is taken")
    if what.depth > DEEPEST or not np.isfinite(what.weights.array).all():
        return Reason("products do not give the weights")
    inner = np.flatnonzero(~what.leaves)
    parents = np.concatenate([what.yes.array[inner], what.no.array[inner], what.roots.array])
    if len(np.unique(parents)) != len(parents):
        return Reason("a node is reached in two ways")
    nodes, leaves = _sizes(what)
    size = what.roots.size * (nodes * leaves + leaves * what.weights.array.shape[1])
    return Reason("the matrices would be large") if size > MATRIX else None


def _sizes(what: Forest) -> tuple[int, int]:
    """Return the largest number of inner nodes, and of leaves, that a tree has; at least one."""
    inner = [_count(what, root) for root in what.roots.array.tolist()]
    return max([1, *inner]), max([1, *(count + 1 for count in inner)])


def _count(what: Forest, root: int) -> int:
    """Count the inner nodes of a tree."""
    leaves, stack, count = what.leaves, [root], 0
    while stack:
        node = stack.pop()
        if not leaves[node]:
            count += 1
            stack += [int(what.yes.array[node]), int(what.no.array[node])]
    return count


def _matrices(what: Forest, operands: Operands) -> Mapping[str, Any]:
    """Bind what leads from answers to leaves: a leaf is reached where as many answers are right as its path has nodes.

    A right answer counts 1 where the path goes on with yes, and a wrong one takes 1 away where it goes on with no. The
    bounds are half of one below what is reached, and infinite for leaves that a smaller tree does not have.
    """
    trees, (nodes, leaves), dtype = _paths(what), _sizes(what), what.weights.array.dtype
    count = len(trees)
    features, thresholds = np.zeros((count, nodes), np.int64), np.zeros((count, nodes), what.thresholds.array.dtype)
    missing = np.zeros((count, nodes), bool)
    paths, bounds = np.zeros((count, nodes, leaves), dtype), np.full((count, 1, leaves), np.inf, dtype)
    weights = np.zeros((count, leaves, what.weights.array.shape[1]), dtype)
    for tree, (inner, ends, ways) in enumerate(trees):
        places = {node: place for place, node in enumerate(inner)}
        features[tree, : len(inner)] = what.features.array[inner]
        thresholds[tree, : len(inner)] = what.thresholds.array[inner]
        missing[tree, : len(inner)] = what.missing.array[inner]
        for leaf, node in enumerate(ends):
            weights[tree, leaf] = what.weights.array[node]
            bounds[tree, 0, leaf] = sum(ways[node].values()) - 0.5
            for before, way in ways[node].items():
                paths[tree, places[before], leaf] = 1 if way else -1
    return {
        "features": Tensor(features.reshape(-1)),
        "thresholds": Tensor(thresholds.reshape(-1)),
        "missing": Tensor(missing.reshape(-1)),
        "paths": Tensor(paths),
        "bounds": Tensor(bounds),
        "weights": Tensor(weights),
        "apart": (-1, count, nodes),
        "to": int(np.dtype(dtype) == np.float64) * 10 + 1,
    }


def _tracked(tracks: bool) -> Callable[[Forest, Operands], Reason | None]:
    def applies_if(what: Forest, operands: Operands) -> Reason | None:
        if bool(what.missing.array.any()) != tracks:
            return Reason("")
        return _small(what, operands)

    return applies_if


def _untracked(what: Forest, operands: Operands) -> Mapping[str, Any]:
    return {name: value for name, value in _matrices(what, operands).items() if name != "missing"}


@lowering(18, applies_if=_tracked(False), bind=_untracked, rounds=True)
def by_products(
    x, features: Sequence[int], thresholds: Sequence[int], paths: Sequence[int], bounds: Sequence[int],
    weights: Sequence[int], apart: Sequence[int], to: int,
):  # fmt: skip
    """Answer all nodes at once; products of matrices lead from answers to leaves, and to their weights."""
    below = op.Cast(op.LessOrEqual(op.Gather(x, features, axis=1), thresholds), to=to)
    answers = op.Transpose(op.Reshape(below, apart), perm=[1, 0, 2])
    reached = op.Cast(op.Greater(op.MatMul(answers, paths), bounds), to=to)
    return op.ReduceSum(op.MatMul(reached, weights), [0], keepdims=0)


@lowering(18, applies_if=_tracked(True), bind=_matrices, rounds=True)
def by_products_with_nan(
    x, features: Sequence[int], thresholds: Sequence[int], missing: Sequence[int], paths: Sequence[int],
    bounds: Sequence[int], weights: Sequence[int], apart: Sequence[int], to: int,
):  # fmt: skip
    """Answer all nodes at once, those that NaN passes by themselves; products lead to leaves and weights."""
    values = op.Gather(x, features, axis=1)
    below = op.Or(op.LessOrEqual(values, thresholds), op.And(op.IsNaN(values), missing))
    answers = op.Transpose(op.Reshape(op.Cast(below, to=to), apart), perm=[1, 0, 2])
    reached = op.Cast(op.Greater(op.MatMul(answers, paths), bounds), to=to)
    return op.ReduceSum(op.MatMul(reached, weights), [0], keepdims=0)


def _facts(what: Forest, operands: Operands) -> tuple[Facts, ...]:
    rows, dtype = first(operands).dim(0), 11 if what.weights.array.dtype == np.float64 else 1
    return (Facts(dtype, (rows, what.weights.array.shape[1])),)


OPERATOR = Operator(
    name="Forest",
    domain="opshift.step",
    meaning=Forest,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(by_products, by_products_with_nan, by_levels),
    facts=_facts,
)
