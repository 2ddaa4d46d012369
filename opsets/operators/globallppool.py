"""GlobalLpPool: the Lp norm of each channel. p is an integer since version 2, of which 22 changes types alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import images
from opshift.opsets.families.windows import global_axes, is_global, of_unknown_rank
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class GlobalLpPool:
    """The p of the Lp norm."""

    p: float = 2


def oracle(what: GlobalLpPool, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """GlobalLpPool-2: "This is equivalent to LpPool with kernel size equal to the spatial dimension of input tensor".

    Powers overflow and underflow as in onnxruntime 1.32.0; those of halves are taken in float.
    """
    axes = tuple(range(2, x.ndim))
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    powers = np.abs(wide) ** wide.dtype.type(what.p)
    return np.asarray((powers.sum(axes, keepdims=True) ** (1 / what.p)).astype(x.dtype))


def _distances(what: GlobalLpPool, operands: Operands) -> Reason | None:
    return is_global(what, operands) or (None if what.p == 1 else Reason("p is not 1"))


@lowering(18, applies_if=_distances, bind=global_axes, rounds=True)
def by_l1(x, axes: Sequence[int]):
    """Add up absolute values."""
    return op.ReduceL1(x, axes, keepdims=1)


def _lengths(what: GlobalLpPool, operands: Operands) -> Reason | None:
    return is_global(what, operands) or (None if what.p == 2 else Reason("p is not 2"))


@lowering(18, applies_if=_lengths, bind=global_axes, rounds=True)
def by_l2(x, axes: Sequence[int]):
    """Compute the root of the sum of squares."""
    return op.ReduceL2(x, axes, keepdims=1)


def _powers(what: GlobalLpPool, operands: Operands) -> Reason | None:
    if what.p < 1:
        return Reason("p is less than 1")
    if reason := dtype_known(what, operands):
        return reason
    return is_global(what, operands)


def _exponents(what: GlobalLpPool, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    wide = np.float64 if within == TensorProto.DOUBLE else np.float32
    exponents = {"p": Tensor(np.array(what.p, wide)), "root": Tensor(np.array(1 / what.p, wide))}
    return {**global_axes(what, operands), **exponents, "within": within, "to": dtype}


@lowering(18, applies_if=_powers, bind=_exponents, rounds=True)
def by_powers(x, axes: Sequence[int], p: Sequence[int], root: Sequence[int], within: int, to: int):
    """Compute the root of the sum of powers, in float for 16-bit floats, whose powers overflow."""
    powers = op.Pow(op.Abs(op.Cast(x, to=within)), p)
    return op.Cast(op.Pow(op.ReduceSum(powers, axes, keepdims=1), root), to=to)


def _powers_of_unknown_rank(what: GlobalLpPool, operands: Operands) -> Reason | None:
    if what.p < 1:
        return Reason("p is less than 1")
    if reason := dtype_known(what, operands):
        return reason
    return of_unknown_rank(what, operands)


def _exponents_alone(what: GlobalLpPool, operands: Operands) -> Mapping[str, Any]:
    return {name: value for name, value in _exponents(what, operands).items() if name != "axes"}


@lowering(18, applies_if=_powers_of_unknown_rank, bind=_exponents_alone, rounds=True)
def by_powers_at_run_time(x, p: Sequence[int], root: Sequence[int], within: int, to: int):
    """Do the same over axes that are counted at run time."""
    powers = op.Pow(op.Abs(op.Cast(x, to=within)), p)
    total = op.ReduceSum(powers, op.Range(2, op.Size(op.Shape(x)), 1), keepdims=1, noop_with_empty_axes=1)
    return op.Cast(op.Pow(total, root), to=to)


def _lift_first(attributes: Mapping[str, Any]) -> GlobalLpPool:
    p = attributes["p"]
    return GlobalLpPool(int(p) if float(p).is_integer() else p)


def _whole(what: GlobalLpPool, operands: Operands) -> Reason | None:
    return None if isinstance(what.p, int) else Reason("p is an integer")


OPERATOR = Operator(
    name="GlobalLpPool",
    meaning=GlobalLpPool,
    versions=(
        Version(1, lift=_lift_first),
        *(Version(since, applies_if=_whole) for since in (2, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_l1, by_l2, by_powers, by_powers_at_run_time),
    wider_types=COMPUTED,
    traits=Traits(merges=images, floats=(Trait.SUMS, Trait.WEIGHS)),
)
