"""ai.onnx.ml::TreeEnsemble: trees of questions about features, whose leaves have a weight of one target each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families import trees
from opshift.opsets.families.axes import first
from opshift.opsets.ml import forest, treeensembleregressor
from opshift.opsets.ml.linearregressor import rows_count
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Lowering, Reason
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
FUNCTIONS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
RUN = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""The functions that onnxruntime takes the numbers of `post_transform` for (1.32.0)."""
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class TreeEnsemble:
    """Inner nodes and leaves in lists of their own; the members of sets are separated by NaN.

    `post_transform` is the name of the function.
    """

    aggregate_function: int = 1
    leaf_targetids: tuple[int, ...] = ()
    leaf_weights: Tensor | None = None
    membership_values: Tensor | None = None
    n_targets: int = 1
    nodes_falseleafs: tuple[int, ...] = ()
    nodes_falsenodeids: tuple[int, ...] = ()
    nodes_featureids: tuple[int, ...] = ()
    nodes_hitrates: Tensor | None = None
    nodes_missing_value_tracks_true: tuple[int, ...] = ()
    nodes_modes: Tensor | None = None
    nodes_splits: Tensor | None = None
    nodes_trueleafs: tuple[int, ...] = ()
    nodes_truenodeids: tuple[int, ...] = ()
    post_transform: str = "NONE"
    tree_roots: tuple[int, ...] = ()

    @property
    def aggregate(self) -> str:
        """How the trees' weights become one."""
        return AGGREGATES[self.aggregate_function]

    @property
    def base(self) -> tuple[float, ...]:
        """There are no base values."""
        return ()

    @property
    def function(self) -> str:
        """The function of the scores; onnxruntime leaves a single one as it is, but for PROBIT (1.32.0)."""
        return "NONE" if self.n_targets == 1 and self.post_transform != "PROBIT" else self.post_transform

    @property
    def has_sets(self) -> bool:
        """Whether a node asks if a feature is a member of a set."""
        return len(MODES) - 1 in trees.listed((), self.nodes_modes)

    def flat(self, dtype: Any) -> trees.FlatTrees:
        """Return the nodes in the flat form, leaves behind inner nodes.

        Raises:
            ValueError: the lists fit neither each other nor a tree.
        """
        modes, splits = trees.listed((), self.nodes_modes), trees.listed((), self.nodes_splits)
        count, leaves = len(self.nodes_featureids), len(self.leaf_targetids)
        lists = (
            self.nodes_falseleafs, self.nodes_falsenodeids, self.nodes_trueleafs, self.nodes_truenodeids, modes, splits,
        )  # fmt: skip
        if any(len(one) != count for one in lists) or not count:
            raise ValueError("the lists of nodes are not of one length, or empty")
        flat = trees.FlatTrees(count + leaves, dtype)
        tracks = (*self.nodes_missing_value_tracks_true, *(0,) * count)
        for node in range(count):
            ends = []
            for place, leaf in (
                (self.nodes_truenodeids[node], self.nodes_trueleafs[node]),
                (self.nodes_falsenodeids[node], self.nodes_falseleafs[node]),
            ):
                if not 0 <= place < (leaves if leaf else count):
                    raise ValueError("a node leads to one that is not listed")
                ends.append(count + place if leaf else place)
            mode = "BRANCH_EQ" if self.has_sets else MODES[int(modes[node])]  # sets are refused later
            threshold = float(np.asarray(splits[node], dtype))
            flat.add_decision(node, mode, self.nodes_featureids[node], threshold, ends[0], ends[1], tracks[node] == 1)
        return flat

    def forest(self, dtype: Any) -> tuple[forest.Forest, Array]:
        """Return the trees in the type that features have, and which nodes have a weight of which target."""
        flat, weights = self.flat(dtype), trees.listed((), self.leaf_weights)
        known = all(0 <= one < self.n_targets for one in self.leaf_targetids)
        if len(weights) != len(self.leaf_targetids) or not known:
            raise ValueError("a leaf has no weight, or is of no target")
        if not self.tree_roots or not all(0 <= root < len(self.nodes_featureids) for root in self.tree_roots):
            raise ValueError("a tree has no root")
        listed = list(zip(self.leaf_targetids, weights, strict=True))
        scores: list[list[tuple[int, float]]] = [*([] for _ in self.nodes_featureids), *([one] for one in listed)]
        return treeensembleregressor.grown(flat, self.tree_roots, scores, self.n_targets, self.aggregate, dtype)


def fault(what: TreeEnsemble, operands: Operands) -> str | None:
    """Return what is wrong with the lists."""
    for value, known in (
        (what.aggregate_function, AGGREGATES),
        *((int(mode), MODES) for mode in trees.listed((), what.nodes_modes)),
    ):
        if not 0 <= value < len(known):
            return f"{value} is none of {', '.join(known)}"
    if what.post_transform not in FUNCTIONS:
        return f"post_transform is {what.post_transform}"
    if what.n_targets < 1:
        return f"it has {what.n_targets} targets"
    try:
        what.forest(np.float32)
    except ValueError as error:
        return str(error)
    return None


def oracle(what: TreeEnsemble, x: Array) -> Array:
    """TreeEnsemble-5: "Returns the regressed values for each input in a batch", in the type of the input."""
    return treeensembleregressor.computed(what, x).astype(x.dtype)


def shape(what: TreeEnsemble, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows, and that of targets."""
    return rows_count(operands), what.n_targets


def float_traits(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what a node with these attributes does with floats; functions are computed in float."""
    function = attributes.get("post_transform") or 0
    return (*treeensembleregressor.SUMS, Trait.IN_FLOAT) if function else treeensembleregressor.SUMS


def _lift(names: Sequence[str]) -> Callable[[Mapping[str, Any]], TreeEnsemble]:
    def lift(attributes: Mapping[str, Any]) -> TreeEnsemble:
        number = attributes["post_transform"]
        function = names[number] if 0 <= number < len(names) else str(number)
        present = {name: value for name, value in attributes.items() if value is not None}
        return TreeEnsemble(**{**present, "post_transform": function})

    return lift


def _own(lowering: Lowering) -> Lowering:
    """Return a lowering of regressors with the type of the input for that of the output, and none for sets."""

    def applies_if(what: TreeEnsemble, operands: Operands) -> Reason | None:
        if what.has_sets:
            return Reason("nodes ask for members of sets, some of which onnxruntime forgets (1.32.0)")
        return lowering.applies_if(what, operands) if lowering.applies_if else None

    def bind(what: TreeEnsemble, operands: Operands) -> Mapping[str, Any]:
        bound = lowering.bind(what, operands) if lowering.bind else {}
        middle = TensorProto.FLOAT if what.function != "NONE" else bound["to"]  # so onnxruntime does (1.32.0)
        return {**bound, "middle": middle, "out": first(operands).dtype}

    return dataclasses.replace(lowering, applies_if=applies_if, bind=bind)


OPERATOR = Operator(
    name="TreeEnsemble",
    domain=ML,
    meaning=TreeEnsemble,
    versions=(Version(5, lift=_lift(RUN), spec=_lift(FUNCTIONS)),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(_own(treeensembleregressor.by_forest), _own(treeensembleregressor.by_forest_where_given)),
    shape=shape,
    refused="trees of more than 64 levels; nodes that ask for members of sets",
    traits=Traits(floats_by=float_traits, compares=True, bounds=("nodes_splits", "membership_values")),
)
