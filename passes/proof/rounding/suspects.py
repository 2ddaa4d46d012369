"""Find nodes whose oracle computes a different function than their kernel.

If onnxruntime has no kernel for the wider type, the numpy oracle of the operator computes the wide run. An oracle with
another meaning than the kernel is far from the narrow run. This distance is not rounding: it would widen the bound
until it accepts a wrong rewrite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.rounding.bound import EXACT, FACTOR, rounded
from opshift.passes.proof.rounding.perturbation import FIRST, MORE, Perturbation
from opshift.passes.proof.rounding.values import as_integers, has, huge, infinite, is_float_array, is_large
from opshift.passes.proof.rounding.wide_nodes import WideNode, WideRun
from opshift.passes.proof.wider_types import narrowed, wider

Compute = Callable[[Mapping[str, Any], InnerRounding | None], Mapping[str, Any]]


def is_suspect(node: WideNode, plain: Mapping[str, Any], results: Mapping[str, Any], compute: Compute) -> bool:
    """Return whether an oracle differs from a node's kernel by more than rounding.

    `results` are those of the wide run, `plain` holds the values of the narrow one, and `compute` is the oracle. On the
    kernel's inputs, the two differ only by the rounding inside this node. Its bound is 8 times the distance between the
    oracle's results on these inputs and on perturbed ones, plus 8 units of the largest number read or returned, times
    the root of the maximum number of terms of a sum (Higham and Mary, 2019). Elements that may overflow in one of the
    two are left to the marks of overflow, as are sums of numbers whose products may overflow. Kernels that quantize are
    skipped: some turn a number far out of range into the other end of the range (QLinearAdd, QLinearMul,
    QLinearAveragePool; onnxruntime 1.32.0).
    """
    overflows = node.sums and any(has(plain[name], huge) or has(plain[name], infinite) for name in node.read)
    if Trait.QUANTIZES in node.traits or overflows:
        return False
    allowed = {name: _units(node, plain, name) for name in node.made}
    if not _is_farther(node, plain, results, allowed):
        return False
    read = {name: wider(plain[name]) for name in node.read}
    first = compute(read, None)
    if not _is_farther(node, plain, first, allowed) or _overflows_inside(node, plain, first):
        return False
    for moved in _perturbed(node, plain, read, first, compute):
        for name in node.made:
            allowed[name] = np.maximum(allowed[name], FACTOR * _distance(moved[name], first[name]))
        if not _is_farther(node, plain, first, allowed):
            return False
    return True


def _overflows_inside(node: WideNode, plain: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """Return whether a kernel feeds back a number that is not finite where the oracle's is: later ones depend on it."""
    if not any(traits_of(one).overflows_inside and traits_of(one).feeds_back for one in node.computing):
        return False
    made = ((plain[name], first[name]) for name in node.made if is_float_array(plain[name]))
    return any(bool((~np.isfinite(kernel) & np.isfinite(oracle)).any()) for kernel, oracle in made)


def _perturbed(
    node: WideNode, plain: Mapping[str, Any], read: Mapping[str, Any], first: Mapping[str, Any], compute: Compute
) -> Iterator[Mapping[str, Any]]:
    """Yield the results of the oracle on perturbed inputs of the kernel."""
    names = (*node.read, *node.made)
    run = WideRun({**read, **first}, dict.fromkeys(names, False), dict.fromkeys(names, False), frozenset(node.read))
    for turn, seed in (*FIRST, *MORE):
        perturbation = Perturbation(run, plain, dict.fromkeys(names, EXACT), {}, turn, seed)
        moved = perturbation.read(node, read)
        yield perturbation.made(node, moved, compute(moved, perturbation.inside(node)), narrow=True)


def _units(node: WideNode, plain: Mapping[str, Any], name: str) -> npt.NDArray[np.float64]:
    """Return the error of a result by the rounding inside a node, for which no perturbation is needed."""
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
    """Return whether a kernel's result differs from the wide one by more than permitted."""
    pairs = ((_within_range(wide[name], plain[name]), wider(plain[name]), allowed[name]) for name in node.made)
    return any(bool((_distance(one, other) > most).any()) for one, other, most in pairs)


def _within_range(wide: Any, plain: Any) -> Any:
    """Return a wide result, with infinities where the kernel's result may overflow."""
    wide = as_integers(wide, plain)
    return np.where(is_large(narrowed(wide, plain), Trait.ADDS), np.inf, wide) if is_float_array(plain) else wide


def _distance(one: Any, other: Any) -> npt.NDArray[np.float64]:
    """Return the distances of numbers, element by element; 0 if one is not finite, and for other values."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
        return np.zeros(())
    if one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return np.zeros(())
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.asarray(np.where(np.isfinite(apart), apart, 0.0))
