"""Parse nodes of tree ensembles from attribute lists, and convert them to the flat form of `forest`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Tensor

Array = np.ndarray[Any, Any]

LEAF = "LEAF"


@dataclass(frozen=True)
class DecisionNode:
    """A node that tests whether a feature is at most a threshold; `missing`: NaN continues with yes."""

    feature: int
    threshold: float
    yes: int
    no: int
    missing: bool


class FlatTrees:
    """Tests by their number; a node with several tests has the additional ones at the end."""

    def __init__(self, count: int, dtype: Any) -> None:
        """Start with leaves, which lead to themselves."""
        self.dtype = np.dtype(dtype)
        self.decisions = [DecisionNode(0, 0.0, node, node, False) for node in range(count)]

    def add_decision(
        self, node: int, mode: str, feature: int, threshold: float, yes: int, no: int, missing: bool
    ) -> None:
        """Set the test of a node, expressed for every mode by tests of one kind."""
        least = self._before(threshold)
        if mode == "BRANCH_LEQ":
            self.decisions[node] = DecisionNode(feature, threshold, yes, no, missing)
        elif mode == "BRANCH_LT":
            self.decisions[node] = DecisionNode(feature, least, yes, no, missing)
        elif mode == "BRANCH_GT":
            self.decisions[node] = DecisionNode(feature, threshold, no, yes, not missing)
        elif mode == "BRANCH_GTE":
            self.decisions[node] = DecisionNode(feature, least, no, yes, not missing)
        elif mode == "BRANCH_EQ":
            more = self._more(DecisionNode(feature, least, no, yes, False))
            self.decisions[node] = DecisionNode(feature, threshold, more, no, missing)
        elif mode == "BRANCH_NEQ":
            more = self._more(DecisionNode(feature, least, yes, no, False))
            self.decisions[node] = DecisionNode(feature, threshold, more, yes, False)
        else:
            raise ValueError(f"nodes have the mode {mode!r}")

    def _before(self, threshold: float) -> float:
        """Return the largest number below a threshold; NaN, which no number is at most, if there is none."""
        below = np.nextafter(self.dtype.type(threshold), self.dtype.type(-np.inf))
        return float("nan") if below == threshold else float(below)

    def _more(self, decision: DecisionNode) -> int:
        self.decisions.append(decision)
        return len(self.decisions) - 1

    def arrays(self) -> dict[str, Tensor]:
        """Return the tests as arrays."""
        kinds = {"features": np.int64, "thresholds": self.dtype, "yes": np.int64, "no": np.int64, "missing": np.bool_}
        fields = {"features": "feature", "thresholds": "threshold", "yes": "yes", "no": "no", "missing": "missing"}
        return {
            name: Tensor(np.array([getattr(one, fields[name]) for one in self.decisions], dtype))
            for name, dtype in kinds.items()
        }

    def depth(self, roots: Sequence[int]) -> int:
        """Return the number of tests on the path to the deepest leaf.

        Raises:
            ValueError: a node leads back to itself.
        """
        depths: dict[int, int] = {}
        open_nodes: set[int] = set()
        for root in roots:
            stack = [root]
            while stack:
                node = stack[-1]
                one = self.decisions[node]
                further = [other for other in (one.yes, one.no) if other != node]
                left = [other for other in further if other not in depths]
                if left and node in open_nodes and any(other in open_nodes for other in left):
                    raise ValueError("a node of a tree leads back to itself")
                if left:
                    open_nodes.add(node)
                    stack += left[:1]
                    continue
                depths[node] = 1 + max(depths[other] for other in further) if further else 0
                open_nodes.discard(node)
                stack.pop()
        return max((depths[root] for root in roots), default=0)


@dataclass(frozen=True)
class Nodes:
    """The attributes that tree ensembles of the versions 1 and 3 share."""

    nodes_treeids: tuple[int, ...] = ()
    nodes_nodeids: tuple[int, ...] = ()
    nodes_featureids: tuple[int, ...] = ()
    nodes_values: tuple[float, ...] = ()
    nodes_values_as_tensor: Tensor | None = None
    nodes_hitrates: tuple[float, ...] = ()
    nodes_hitrates_as_tensor: Tensor | None = None
    nodes_modes: tuple[str, ...] = ()
    nodes_truenodeids: tuple[int, ...] = ()
    nodes_falsenodeids: tuple[int, ...] = ()
    nodes_missing_value_tracks_true: tuple[int, ...] = ()
    base_values: tuple[float, ...] = ()
    base_values_as_tensor: Tensor | None = None
    post_transform: str = "NONE"

    @functools.cached_property
    def places(self) -> Mapping[tuple[int, int], int]:
        """The index of each node in the lists, by tree and number."""
        return {key: place for place, key in enumerate(zip(self.nodes_treeids, self.nodes_nodeids, strict=True))}

    @functools.cached_property
    def roots(self) -> tuple[int, ...]:
        """The first node of each tree."""
        before = (None, *self.nodes_treeids)
        return tuple(
            place for place, (tree, last) in enumerate(zip(self.nodes_treeids, before, strict=False)) if tree != last
        )

    @property
    def base(self) -> tuple[float, ...]:
        """The base values of the scores; empty if the list is empty."""
        return listed(self.base_values, self.base_values_as_tensor)

    def flat(self, dtype: Any) -> FlatTrees:
        """Return the nodes in the flat form, with thresholds in the type of the comparisons.

        Raises:
            ValueError: the lists do not match, or do not form trees.
        """
        values = listed(self.nodes_values, self.nodes_values_as_tensor)
        lists = (self.nodes_treeids, self.nodes_featureids, self.nodes_modes, self.nodes_truenodeids)
        if any(len(one) != len(self.nodes_nodeids) for one in (*lists, self.nodes_falsenodeids, values)):
            raise ValueError("the lists of nodes are not of one length")
        if len(self.places) != len(self.nodes_nodeids) or not self.nodes_nodeids:
            raise ValueError("a node is listed twice, or there is none")
        tracks = (*self.nodes_missing_value_tracks_true, *(0,) * len(self.nodes_nodeids))
        flat = FlatTrees(len(self.nodes_nodeids), dtype)
        for place, (tree, mode) in enumerate(zip(self.nodes_treeids, self.nodes_modes, strict=True)):
            if mode == LEAF:
                continue
            ends = [self.places.get((tree, one[place])) for one in (self.nodes_truenodeids, self.nodes_falsenodeids)]
            if ends[0] is None or ends[1] is None:
                raise ValueError("a node leads to one that is not listed")
            threshold = float(np.asarray(values[place], dtype))
            feature, missing = self.nodes_featureids[place], tracks[place] == 1
            flat.add_decision(place, mode, feature, threshold, ends[0], ends[1], missing)
        return flat

    def scores(
        self, ids: Sequence[int], trees: Sequence[int], nodes: Sequence[int], values: Sequence[float], width: int
    ) -> list[list[tuple[int, float]]]:
        """Return the targets, or classes, and the weights of each node.

        Raises:
            ValueError: the lists do not match.
        """
        if not len(ids) == len(trees) == len(nodes) == len(values):
            raise ValueError("the lists of weights are not of one length")
        found: list[list[tuple[int, float]]] = [[] for _ in self.nodes_nodeids]
        for one, tree, node, value in zip(ids, trees, nodes, values, strict=True):
            place = self.places.get((tree, node))
            if place is None or not 0 <= one < width:
                raise ValueError("a weight is of a node that is not listed, or of no target")
            found[place].append((one, value))
        return found


def listed(values: Sequence[float], tensor: Tensor | None) -> tuple[float, ...]:
    """Return numbers that one attribute has as a list, and another one as a tensor."""
    return tuple(values) if tensor is None else tuple(tensor.array.reshape(-1).tolist())


def columns(
    scores: Sequence[Sequence[tuple[int, float]]],
    width: int,
    dtype: Any,
    combine: Callable[[Any, Any], Any],
    none: float,
) -> tuple[Array, Array]:
    """Return the weights of each node as a row, and a mask of present ones; `none` is the value for absent ones."""
    rows, present = np.full((len(scores), width), none, dtype), np.zeros((len(scores), width), bool)
    for place, listed_here in enumerate(scores):
        for one, value in listed_here:
            own = np.asarray(value, dtype)
            rows[place, one] = combine(rows[place, one], own) if present[place, one] else own
            present[place, one] = True
    return rows, present
