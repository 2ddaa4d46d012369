"""Run a model node by node in the next wider type, unperturbed or perturbed."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.families.merged_axes import is_elementwise
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.node_traits import float_traits, is_exact, is_firm, traits_of
from opshift.opsets.registry.traits import Trait
from opshift.passes.analysis.scopes import inlined, versions
from opshift.passes.base.limits import Limits
from opshift.passes.proof.rounding.copies import inputs_apart
from opshift.passes.proof.rounding.inner_sums import makes_constants
from opshift.passes.proof.rounding.perturbation import Perturbation
from opshift.passes.proof.rounding.suspects import is_suspect
from opshift.passes.proof.rounding.training import trained_apart
from opshift.passes.proof.rounding.values import (
    adds_exactly,
    as_integers,
    has,
    infinite,
    is_float_array,
    is_integer,
    is_wide,
    is_widest,
    same_values,
    shows_rounding,
)
from opshift.passes.proof.rounding.wide_nodes import Firm, WideNode, WideRun
from opshift.passes.proof.wider_types import WIDE, narrowed, wider
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import ExcludedError, Feeds, RejectedError, RejectionKind, Runnable


class WideModel:
    """A model and its nodes in wide types."""

    def __init__(self, runnable: Runnable, limits: Limits) -> None:
        """Keep the model; nothing is run yet."""
        runnable = replace(runnable, proto=inputs_apart(trained_apart(inlined(runnable.proto))), path=None)
        self.plain = Interpreter(runnable, limits)
        self._wide = Interpreter(runnable, limits)
        graph = self.plain.model.graph
        opsets = versions(self.plain.model)
        self.nodes = tuple(WideNode.of(node, opsets) for node in graph.node)
        self.outputs = tuple(value.name for value in graph.output)
        self.quantized = _moved_from(self.nodes, Trait.QUANTIZES)
        self.converted = _moved_from(self.nodes, Trait.CONVERTS)
        self.stepped = _moved_from(self.nodes, Trait.STEPS).keys() | self.converted.keys()
        self.fed_back = _behind_feedback(self.nodes)
        self._narrow_only: set[int] = set()

    def run(
        self,
        feeds: Feeds,
        plain: Mapping[str, Any],
        inexact: Collection[str] = (),
        perturbation: Perturbation | None = None,
    ) -> WideRun:
        """Run the model in wide types, given the values of the narrow run.

        `inexact` are values that other kernels round. With a `perturbation`, exact values are taken from the first run,
        and the inputs of every other node are perturbed.
        """
        values = {name: wider(value) for name, value in (*self.plain.constants.items(), *feeds.items())}
        run = WideRun(values, dict.fromkeys(values, True), dict.fromkeys(values, True), frozenset(values))
        for node in self.nodes:
            if perturbation and all(perturbation.first.exact[name] for name in node.made):
                _copy(run, perturbation.first, node.made)
                continue
            unmoved = read = {name: values[name] for name in node.read}
            if perturbation:
                read = perturbation.read(node, unmoved)
            chosen = perturbation is not None and perturbation.narrow and node.rounds_on_the_way
            inside = perturbation.inside(node) if perturbation and _feeds_back(node) else None
            results, narrow = self._node(node, read, plain, narrow=chosen, inside=inside)
            if not perturbation and not narrow and self._is_other(run, node, results, plain):
                self._narrow_only.add(id(node))
                results, narrow = self._node(node, read, plain)
            if perturbation:
                results = perturbation.made(node, read, results, narrow=narrow and not chosen)
                if perturbation.decides_ties(node):
                    other, _ = self._node(node, perturbation.opposite(unmoved, read), plain, narrow=chosen)
                    results = perturbation.with_ties(results, other)
            results = {name: as_integers(value, plain[name]) for name, value in results.items()}
            if not perturbation and node.quantizes(plain):
                run.apart.update(self._apart(node, plain))
            if perturbation:
                results = self._overflown(node, read, results, perturbation)
            _record(run, node, results, plain, inexact, narrow=narrow)
        return run

    def _apart(self, node: WideNode, plain: Mapping[str, Any]) -> dict[str, npt.NDArray[np.int64]]:
        """Return by how much rounded integers of the narrow run are larger than those of wide types."""
        found, _ = self._node(node, {name: wider(plain[name]) for name in node.read}, plain)
        return {
            name: np.asarray(plain[name].astype(np.int64) - as_integers(value, plain[name]).astype(np.int64))
            for name, value in found.items()
            if is_integer(plain[name]) and np.shape(value) == plain[name].shape
        }

    def _is_other(self, run: WideRun, node: WideNode, results: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
        """Return whether the wide type is computed with another meaning than the narrow one."""
        if _has_other_shape(run, node, results, plain):
            return True
        if not self._by_oracle or node.has_subgraphs:
            return False
        try:
            return is_suspect(node, plain, results, functools.partial(self._wide.node, node.wide))
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                raise
            return False  # the oracle does not accept the kernel's inputs

    @property
    def _by_oracle(self) -> bool:
        """Whether an oracle computed the last node of the wide run."""
        return bool(self._wide.oracles)

    def _overflown(
        self, node: WideNode, read: Mapping[str, Any], results: Mapping[str, Any], perturbation: Perturbation
    ) -> Mapping[str, Any]:
        """Return the outputs of a node that turns possibly non-finite inputs into numbers."""
        overflown = perturbation.overflown(read)
        if not overflown:
            return results
        try:
            found, _ = self._node(node, {**read, **overflown}, perturbation.plain)
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                raise
            return results
        return perturbation.after_overflow(overflown, found, results)

    def _node(
        self,
        node: WideNode,
        read: Mapping[str, Any],
        plain: Mapping[str, Any],
        *,
        narrow: bool = False,
        inside: InnerRounding | None = None,
    ) -> tuple[Mapping[str, Any], bool]:
        """Return the outputs of a node in wide types, and whether they were computed in narrow ones."""
        traits = traits_of(node.node)
        if not node.node.input or traits.typed_by_attribute:
            return {name: wider(plain[name]) for name in node.made}, False
        if not narrow and id(node) not in self._narrow_only and not traits.reads_bits:
            self._wide.oracles.clear()
            try:
                return self._wide.node(node.wide, read, inside), False
            except RejectedError as error:
                if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                    raise
                if not isinstance(error, ExcludedError):  # such an error concerns only this input
                    self._narrow_only.add(id(node))
        narrow_read = {name: narrowed(value, plain[name]) for name, value in read.items()}
        results = self.plain.node(node.node, narrow_read, inside)
        floats = any(is_wide(value) for value in read.values()) and any(
            isinstance(value, np.ndarray) and value.dtype in WIDE for value in results.values()
        )
        return {name: wider(value) for name, value in results.items()}, floats


def _moved_from(nodes: Sequence[WideNode], trait: Trait) -> dict[str, str]:
    """Return the outputs of nodes with a trait, and the values moved from there, with the first input of that node."""
    found: dict[str, str] = {}
    for node in nodes:
        if trait in node.traits:
            found.update(dict.fromkeys(node.made, next(iter(node.read), "")))
        elif node.selects and (moved := next(iter(node.node.input), "")) in found:
            found.update(dict.fromkeys(node.made, found[moved]))
    return found


def _feeds_back(node: WideNode) -> bool:
    return any(traits_of(inner).feeds_back for inner in node.computing)


def _behind_feedback(nodes: Sequence[WideNode]) -> frozenset[str]:
    """Return the values that depend on a node in which the rounding of one step reaches later ones."""
    found: set[str] = set()
    for node in nodes:
        if _feeds_back(node) or not found.isdisjoint(node.read):
            found.update(node.made)
    return frozenset(found)


def _has_other_shape(run: WideRun, node: WideNode, results: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
    """Return whether the kernel of the wider type returns another shape for the same parameters.

    For a region in double, Resize truncates its output shape, and for one in float it does not (onnxruntime 1.32.0).
    """
    parameters = [name for name in node.read if name not in node.data and is_wide(run.values[name])]
    if not parameters or not all(run.exact.get(name, False) for name in parameters):
        return False
    arrays = [(results[name], plain[name]) for name in node.made if isinstance(plain[name], np.ndarray)]
    return any(np.shape(one) != other.shape for one, other in arrays)


def _copy(run: WideRun, first: WideRun, names: Iterable[str]) -> None:
    """Add exact values of the first run to a run."""
    for name in names:
        run.values[name], run.exact[name], run.firm[name] = first.values[name], first.exact[name], first.firm[name]


def _record(
    run: WideRun,
    node: WideNode,
    results: Mapping[str, Any],
    plain: Mapping[str, Any],
    inexact: Collection[str],
    *,
    narrow: bool,
) -> None:
    """Add the results of a node to a run, and whether they are exact and firm."""
    firm = _firm(run, node, results, plain, inexact, narrow=narrow)
    run.firm.update(firm)
    run.values.update(results)
    # Sums that read it may be added in another order; what it decides is decided.
    flows = not node.has_subgraphs and node.traits.isdisjoint({Trait.STEPS, Trait.PIECEWISE})
    decided = {name: mask for name, mask in firm.items() if not (flows and is_wide(wider(plain[name])))}
    run.values.update({name: _decided(results[name], plain[name], mask) for name, mask in decided.items()})
    easy = all(is_exact(inner) or Trait.CONVERTS in float_traits(inner) for inner in node.computing) or (
        not narrow and _computes_exactly(node, plain)
    )
    easy = easy and not any(name in inexact for name in node.made)
    easy = easy and all(run.exact.get(name, False) for name in node.read)
    same = (easy or makes_constants(node, plain)) and same_values(results, plain, node.made)
    run.exact.update(dict.fromkeys(node.made, same))


def _decided(result: Any, plain: Any, firm: Firm) -> Any:
    """Return a result as the narrow run has it where it is firm."""
    if np.all(firm):
        return wider(plain)
    return np.where(firm, wider(plain), result) if np.any(firm) else result


def _firm(
    run: WideRun,
    node: WideNode,
    results: Mapping[str, Any],
    plain: Mapping[str, Any],
    inexact: Collection[str],
    *,
    narrow: bool,
) -> dict[str, Firm]:
    """Return which elements of the outputs of a node every kernel computes alike.

    Elements that may overflow leave others firm where each is computed from one element of each input. A Cast to
    integers cuts, and rounds nothing.
    """
    if not all(map(is_firm, node.computing)) or any(name in inexact for name in node.made):
        return dict.fromkeys(node.made, False)
    exact = all(map(is_exact, node.computing)) or not any(is_float_array(plain[name]) for name in node.made)
    read = [run.exact.get(name, False) or (exact and run.firm.get(name, False)) for name in node.read]
    overflown = _overflown(run, node, results, plain, narrow=narrow)
    if is_elementwise(traits_of(node.node)):
        return {name: _spread([*read, ~overflown[name]], plain[name]) for name in node.made}
    firm = bool(np.all([np.all(mask) for mask in read])) and not any(mask.any() for mask in overflown.values())
    return dict.fromkeys(node.made, firm)


def _spread(masks: Sequence[Firm], like: Any) -> Firm:
    """Return the elements of a result that come from marked ones alone: none where its shape does not tell."""
    if not all(map(np.any, masks)):
        return False
    try:
        return functools.reduce(np.logical_and, (np.broadcast_to(mask, np.shape(like)) for mask in masks))
    except (ValueError, RuntimeError):  # another shape, or more axes than numpy spreads
        return bool(np.all([np.all(mask) for mask in masks]))


def _overflown(
    run: WideRun, node: WideNode, results: Mapping[str, Any], plain: Mapping[str, Any], *, narrow: bool
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which elements of the results of a node may be infinite or NaN in one kernel alone.

    They are in every kernel where those of the wide type are: an input that is 0, infinite or NaN makes them so. The
    sign of a zero that a node made may be another one, and with it the sign of a quotient. What only selects or jumps
    has the infinities that it reads.
    """
    nowhere = dict.fromkeys(node.made, np.zeros((), np.bool_))
    made = [name for name in node.made if has(plain[name], infinite)]
    if not made or all(map(is_exact, node.computing)):
        return nowhere
    unknown = narrow or not run.inputs.issuperset(node.read) or any(is_widest(plain[name]) for name in made)
    found = {}
    for name in made:
        infinite_here = ~np.isfinite(wider(plain[name]))
        alike = np.shape(results[name]) == plain[name].shape  # rounding may decide the shape
        found[name] = infinite_here & (unknown | np.isfinite(results[name])) if alike else np.ones_like(infinite_here)
    return nowhere | found


def _computes_exactly(node: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node computes without rounding on these values."""
    return (
        not node.in_float(plain)
        and not node.adds_up_integers(plain)
        and node.traits.isdisjoint({Trait.WEIGHS, Trait.QUANTIZES})
        and adds_exactly([plain[name] for name in node.read])
        and all(shows_rounding(plain[name]) for name in node.made)
        and (node.only_adds_and_multiplies or not any(is_widest(plain[name]) for name in node.made))
    )
