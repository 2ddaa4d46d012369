"""ai.onnx.ml::Normalizer: rows divided by their largest element, or by a norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Integers, Trait, Traits


@dataclass(frozen=True)
class Normalizer:
    """The norm: `MAX`, which is the largest element and not the largest magnitude, `L1` or `L2`."""

    norm: str = "MAX"


def oracle(what: Normalizer, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Normalizer-1: "Max: Y = X / max(X)", "L1: Y = X / sum(X)", "L2: Y = sqrt(X^2 / sum(X^2)}".

    That is the sum of magnitudes in onnxruntime, the sign stays, and rows whose norm is zero stay as they are.
    """
    wide = x.astype(np.float64)
    if what.norm == "MAX":
        size = wide.max(axis=-1, keepdims=True, initial=-np.inf)
    elif what.norm == "L1":
        size = np.abs(wide).sum(axis=-1, keepdims=True)
    else:
        size = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    return np.asarray(wide / np.where(size == 0, 1, size)).astype(np.float32)


def fault(what: Normalizer, operands: Operands) -> str | None:
    """Return what is wrong with the norm."""
    return None if what.norm in ("MAX", "L1", "L2") else f"norm {what.norm!r} is none of MAX, L1 and L2"


def _is(norm: str) -> Callable[[Normalizer, Operands], Reason | None]:
    def applies_if(what: Normalizer, operands: Operands) -> Reason | None:
        if what.norm != norm:
            return Reason("")
        if first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return None if first(operands).rank in (1, 2) else Reason("rows have more than one axis")

    return applies_if


@lowering(18, applies_if=_is("MAX"), rounds=True, makes_floats=True)
def by_largest(x):
    """Divide by the largest element, or by 1."""
    rows = op.Cast(x, to=1)
    size = op.ReduceMax(rows, [-1], keepdims=1)
    return rows / op.Where(op.Equal(size, 0.0), 1.0, size)


@lowering(18, applies_if=_is("L1"), rounds=True, makes_floats=True)
def by_sum(x):
    """Divide by the sum of magnitudes, or by 1."""
    rows = op.Cast(x, to=1)
    size = op.ReduceSum(op.Cast(op.Abs(x), to=1), [-1], keepdims=1)
    return rows / op.Where(op.Equal(size, 0.0), 1.0, size)


@lowering(18, applies_if=_is("L2"), rounds=True, makes_floats=True)
def by_squares(x):
    """Compute the roots of the shares of squares, or return the row unchanged; signs are kept."""
    squares = op.Cast(x * x, to=1)
    size = op.ReduceSum(squares, [-1], keepdims=1)
    none = op.Equal(size, 0.0)
    shares = op.Sqrt(squares / op.Where(none, 1.0, size))
    rows = op.Cast(x, to=1)
    return op.Where(none, rows, op.Where(op.Less(rows, 0.0), op.Neg(shares), shares))


def _squares(attributes: Mapping[str, Any]) -> Integers | None:
    """Return that integers are squared, which L2 alone does: onnxruntime 1.32.0 lets the squares leave the type."""
    return Integers.SQUARES if attributes.get("norm") in ("L2", b"L2") else None


OPERATOR = Operator(
    name="Normalizer",
    domain=ML,
    meaning=Normalizer,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(by_largest, by_sum, by_squares),
    shape=lambda what, operands: first(operands).shape,
    nan_defined=lambda what, operands: what.norm != "MAX",
    refused="rows of more than one axis",
    traits=Traits(floats=(Trait.SUMS, Trait.NORMALIZES, Trait.WEIGHS), integers_by=_squares),
)
