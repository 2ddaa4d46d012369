"""Nodes whose oracle does not compute what their kernel does.

Where onnxruntime has no kernel for the wider type, the numpy oracle of the operator computes the wide run. An oracle
with another meaning than the kernel is far from the narrow run, and that distance is none of rounding: it would widen
the bound until a wrong rewrite is within it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.rounding.bound import EXACT, FACTOR, rounded
from opshift.passes.proof.rounding.perturbation import RUNS, Perturbation
from opshift.passes.proof.rounding.values import as_integers, is_float_array
from opshift.passes.proof.rounding.wide_nodes import WideNode, WideRun
from opshift.passes.proof.wider_types import wider

Compute = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def is_suspect(node: WideNode, plain: Mapping[str, Any], results: Mapping[str, Any], compute: Compute) -> bool:
    """Return whether an oracle is farther from the kernel of a node than rounding takes it.

    `results` are those of the wide run, `plain` holds the values of the narrow one, and `compute` is the oracle. On
    what the kernel read, the two differ by the rounding inside this node alone. That is derived as the bound is: 8
    times the distance between the oracle on what the kernel read and on the same perturbed, and 8 units of the largest
    number read or returned for the root of as many terms as a sum has at most (Higham and Mary, 2019). What is not
    finite in one of the two is left to the marks of overflow. Kernels that quantize are passed over: what is far out of
    range becomes the other end of the range in some (QLinearAdd, QLinearMul, QLinearAveragePool; onnxruntime 1.32.0).
    """
    if Trait.QUANTIZES in node.traits:
        return False
    allowed = {name: _units(node, plain, name) for name in node.made}
    if not _is_farther(node, plain, results, allowed):
        return False
    read = {name: wider(plain[name]) for name in node.read}
    first = compute(read)
    if not _is_farther(node, plain, first, allowed):
        return False
    for moved in _perturbed(node, plain, read, first, compute):
        for name in node.made:
            allowed[name] = np.maximum(allowed[name], FACTOR * _distance(moved[name], first[name]))
    return _is_farther(node, plain, first, allowed)


def _perturbed(
    node: WideNode, plain: Mapping[str, Any], read: Mapping[str, Any], first: Mapping[str, Any], compute: Compute
) -> Iterator[Mapping[str, Any]]:
    """Yield the results of the oracle on what the kernel read, perturbed."""
    names = (*node.read, *node.made)
    run = WideRun({**read, **first}, dict.fromkeys(names, False), dict.fromkeys(names, False), frozenset(node.read))
    for turn in range(RUNS):
        perturbation = Perturbation(run, plain, dict.fromkeys(names, EXACT), {}, turn)
        moved = perturbation.read(node, read)
        yield perturbation.made(node, moved, compute(moved), narrow=True)


def _units(node: WideNode, plain: Mapping[str, Any], name: str) -> npt.NDArray[np.float64]:
    """Return how far a result may be off by the rounding inside a node, of which no perturbation of it is needed."""
    value = plain[name]
    if not is_float_array(value):
        return np.asarray(0.0)
    sizes = [one.size for one in (plain[read] for read in node.read) if isinstance(one, np.ndarray)]
    terms = max(sizes, default=1) if node.sums or not node.traits.isdisjoint(_INNER) else 1
    return np.asarray(rounded(value, in_float=True).slack * math.sqrt(max(terms, 1)))


_INNER = frozenset({Trait.NORMALIZES, Trait.WEIGHS})


def _is_farther(
    node: WideNode, plain: Mapping[str, Any], wide: Mapping[str, Any], allowed: Mapping[str, npt.NDArray[np.float64]]
) -> bool:
    """Return whether a result of the kernel is farther from one in the wide type than it may be."""
    pairs = ((as_integers(wide[name], plain[name]), wider(plain[name]), allowed[name]) for name in node.made)
    return any(bool((_distance(one, other) > most).any()) for one, other, most in pairs)


def _distance(one: Any, other: Any) -> npt.NDArray[np.float64]:
    """Return how far numbers are apart, element by element; 0 where one is not finite, and of what has no numbers."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
        return np.zeros(())
    if one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return np.zeros(())
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.asarray(np.where(np.isfinite(apart), apart, 0.0))
