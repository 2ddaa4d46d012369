"""ai.onnx.ml::TreeEnsembleRegressor: trees of questions about features, whose leaves have weights of targets."""

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
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TreeEnsembleRegressor(trees.Nodes):
    """The nodes, weights of targets at leaves, and how the trees' weights become one: AVERAGE, SUM, MIN or MAX."""

    aggregate_function: str = "SUM"
    n_targets: int = 1
    target_ids: tuple[int, ...] = ()
    target_nodeids: tuple[int, ...] = ()
    target_treeids: tuple[int, ...] = ()
    target_weights: tuple[float, ...] = ()
    target_weights_as_tensor: Tensor | None = None

    @functools.cached_property
    def listed_scores(self) -> list[list[tuple[int, float]]]:
        """The targets and weights of each node; of a single target, only the first that a node lists counts."""
        values = trees.listed(self.target_weights, self.target_weights_as_tensor)
        found = self.scores(self.target_ids, self.target_treeids, self.target_nodeids, values, self.n_targets)
        return [one[:1] for one in found] if self.n_targets == 1 else found

    @property
    def function(self) -> str:
        """The function of the scores; onnxruntime leaves a single one as it is, but for PROBIT (1.32.0)."""
        return "NONE" if self.n_targets == 1 and self.post_transform != "PROBIT" else self.post_transform

    @property
    def aggregate(self) -> str:
        """How the trees' weights become one."""
        return self.aggregate_function

    def forest(self, dtype: Any) -> tuple[forest.Forest, Array]:
        """Return the trees in the type that features have, and which nodes have a weight of which target."""
        return grown(self.flat(dtype), self.roots, self.listed_scores, self.n_targets, self.aggregate, dtype)


def grown(
    flat: trees.FlatTrees,
    roots: Sequence[int],
    listed: Sequence[Sequence[tuple[int, float]]],
    count: int,
    aggregate: str,
    dtype: Any,
) -> tuple[forest.Forest, Array]:
    """Return trees with the weights that are listed for their nodes, and which nodes have a weight of which target."""
    combination = "SUM" if aggregate == "AVERAGE" else aggregate
    combine: Callable[[Any, Any], Any] = {"SUM": np.add, "MIN": np.minimum, "MAX": np.maximum}[combination]
    none = {"SUM": 0.0, "MIN": np.inf, "MAX": -np.inf}[combination] if count > 1 else 0.0
    rows, present = trees.columns(listed, count, dtype, combine, none)
    more = len(flat.decisions) - len(rows)
    weights = np.concatenate([rows, np.zeros((more, count), dtype)])
    places = Tensor(np.array(roots, np.int64))
    made = forest.Forest(
        **flat.arrays(), roots=places, weights=Tensor(weights), depth=flat.depth(roots), aggregate=combination
    )
    return made, np.concatenate([present, np.zeros((more, count), bool)])


SUMS = (Trait.SUMS, Trait.COMPOSED, Trait.ADDS_ONE)
"""What ensembles do with floats."""


def compared_in(dtype: int | None) -> Any:
    """Return the type that features of a type are compared in: double stays, and all else is float."""
    return np.float64 if dtype == TensorProto.DOUBLE else np.float32


def always(what: forest.Forest, present: Array) -> Array:
    """Return of each target whether some tree has a weight of it at each of its leaves."""
    found = np.zeros(present.shape[1], bool)
    for root in what.roots.array.tolist():
        leaves, stack = [], [root]
        while stack:
            node = stack.pop()
            if what.leaves[node]:
                leaves.append(node)
            else:
                stack += {int(what.yes.array[node]), int(what.no.array[node])}
        found |= present[leaves].all(axis=0)
    return found


def oracle(what: TreeEnsembleRegressor, x: Array) -> Array:
    """TreeEnsembleRegressor-3: "Tree Ensemble regressor. Returns the regressed values for each input in N"."""
    return computed(what, x).astype(np.float32)


def computed(what: Any, x: Array) -> Array:
    """Return the scores of targets after the function, in double.

    A target that no leaf on the way has a weight of is 0 in onnxruntime (1.32.0), without its base value.
    """
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    made, present = what.forest(dtype)
    rows = x.astype(dtype).reshape(-1, x.shape[-1])
    y = forest.oracle(made, rows).astype(np.float64)
    if what.aggregate == "AVERAGE":
        y = y / made.roots.size
    y = y + np.asarray(what.base or 0.0)
    if what.n_targets > 1:
        y = np.where(_hits(made, present, rows), y, 0)
    if what.function == "NONE":
        return np.asarray(y)
    return np.asarray(scores.FUNCTIONS[what.function](y.astype(np.float32).astype(np.float64))).astype(np.float32)


def _hits(what: forest.Forest, present: Array, rows: Array) -> Array:
    """Return which targets the leaves that each row reaches have weights of."""
    counted = forest.Forest(
        what.features, what.thresholds, what.yes, what.no, what.missing, what.roots,
        Tensor(present.astype(np.float32)), what.depth, "MAX",
    )  # fmt: skip
    return np.asarray(forest.oracle(counted, rows) > 0)


def fault(what: TreeEnsembleRegressor, operands: Operands) -> str | None:
    """Return what is wrong with the lists."""
    if what.aggregate_function not in ("AVERAGE", "SUM", "MIN", "MAX"):
        return f"aggregate_function is {what.aggregate_function!r}"
    if what.post_transform not in scores.FUNCTIONS:
        return f"post_transform is {what.post_transform!r}"
    if what.n_targets < 1 or len(what.base) not in (0, what.n_targets):
        return f"it has {len(what.base)} base values for {what.n_targets} targets"
    try:
        what.forest(np.float32)
    except ValueError as error:
        return str(error)
    return None


def _form(whole: bool) -> Callable[[Any, Operands], Reason | None]:
    def applies_if(what: Any, operands: Operands) -> Reason | None:
        if reason := dtype_known(what, operands):
            return reason
        if reason := matrix(operands):
            return reason
        made, listed = what.forest(compared_in(first(operands).dtype))
        zero = made.aggregate == "SUM" and not what.base  # what no leaf has is zero anyway
        return None if whole == bool(zero or what.n_targets == 1 or always(made, listed).all()) else Reason("")

    return applies_if


def _bound(what: Any, operands: Operands) -> Mapping[str, Any]:
    dtype = compared_in(first(operands).dtype)
    made, _ = what.forest(dtype)
    count = made.roots.size if what.aggregate == "AVERAGE" else 1
    return {
        **fields(made),
        "count": Tensor(np.array(count, dtype)),
        "base": Tensor(np.array(what.base or -0.0, dtype)),
        "function": what.function,
        "to": TensorProto.DOUBLE if dtype is np.float64 else TensorProto.FLOAT,
        "middle": TensorProto.FLOAT,
        "out": TensorProto.FLOAT,
    }


def fields(what: forest.Forest) -> dict[str, Any]:
    """Return the fields of a forest, as a lowering binds them."""
    names = ("features", "thresholds", "yes", "no", "missing", "roots", "weights", "depth", "aggregate")
    return {name: getattr(what, name) for name in names}


def _hidden(what: Any, operands: Operands) -> Mapping[str, Any]:
    made, present = what.forest(compared_in(first(operands).dtype))
    return {**_bound(what, operands), "given": Tensor(present.astype(made.weights.array.dtype))}


@lowering(18, applies_if=_form(True), bind=_bound, rounds=True, makes_floats=True)
def by_forest(
    x, features: Sequence[int], thresholds: Sequence[int], yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int], roots: Sequence[int], weights: Sequence[int], depth: int, aggregate: str,
    count: Sequence[int], base: Sequence[int], function: str, to: int, middle: int, out: int,
):  # fmt: skip
    """Evaluate all trees at once, and add the weights of the leaves."""
    y = meaning.Forest(
        op.Flatten(op.Cast(x, to=to), axis=-1), features=features, thresholds=thresholds, yes=yes, no=no,
        missing=missing, roots=roots, weights=weights, depth=depth, aggregate=aggregate,
    )  # fmt: skip
    return op.Cast(meaning.Scores(op.Cast(op.Div(y, count) + base, to=middle), function=function), to=out)


@lowering(18, applies_if=_form(False), bind=_hidden, rounds=True, makes_floats=True)
def by_forest_where_given(
    x, features: Sequence[int], thresholds: Sequence[int], yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int], roots: Sequence[int], weights: Sequence[int], depth: int, aggregate: str,
    count: Sequence[int], base: Sequence[int], function: str, to: int, middle: int, out: int, given: Sequence[int],
):  # fmt: skip
    """Evaluate all trees at once, and set targets without a reached leaf to zero."""
    rows = op.Flatten(op.Cast(x, to=to), axis=-1)
    y = meaning.Forest(
        rows, features=features, thresholds=thresholds, yes=yes, no=no,
        missing=missing, roots=roots, weights=weights, depth=depth, aggregate=aggregate,
    )  # fmt: skip
    hits = meaning.Forest(
        rows, features=features, thresholds=thresholds, yes=yes, no=no,
        missing=missing, roots=roots, weights=given, depth=depth, aggregate="MAX",
    )  # fmt: skip
    found = op.Greater(hits, op.CastLike(0.0, hits))
    chosen = op.Where(found, op.Div(y, count) + base, op.CastLike(0.0, y))
    return op.Cast(meaning.Scores(op.Cast(chosen, to=middle), function=function), to=out)


def shape(what: TreeEnsembleRegressor, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows, and that of targets."""
    return rows_count(operands), what.n_targets


OPERATOR = Operator(
    name="TreeEnsembleRegressor",
    domain=ML,
    meaning=TreeEnsembleRegressor,
    versions=(Version(1), Version(3)),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(by_forest, by_forest_where_given),
    shape=shape,
    refused="features that have more than one axis; trees of more than 64 levels",
    traits=Traits(floats_by=scores.float_traits, compares=True, bounds=("nodes_values", "nodes_values_as_tensor")),
)
