"""com.microsoft::FusedMatMul: a product of matrices, of which either is transposed first, times a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class FusedMatMul:
    """The factor of the product, and the transpositions of the operands.

    `transBatchA` moves the first axis of A in front of the last one; `transA` swaps the last two then.
    """

    alpha: float = 1.0
    transA: int = 0  # noqa: N815 (the name of the attribute)
    transB: int = 0  # noqa: N815
    transBatchA: int = 0  # noqa: N815
    transBatchB: int = 0  # noqa: N815


def order(rank: int, swapped: int, batched: int) -> tuple[int, ...]:
    """Return the order in which an operand's axes are taken; a vector has one order."""
    axes = list(range(rank))
    if rank < 2:
        return tuple(axes)
    if batched:
        axes = [*axes[1:-1], 0, axes[-1]]
    return (*axes[:-2], axes[-1], axes[-2]) if swapped else tuple(axes)


def oracle(what: FusedMatMul, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """FusedMatMul-1: "Matrix product that behaves like numpy.matmul", "Scalar multiplier for the product"."""
    left = a.transpose(order(a.ndim, what.transA, what.transBatchA)).astype(np.float64)
    right = b.transpose(order(b.ndim, what.transB, what.transBatchB)).astype(np.float64)
    return np.asarray((what.alpha * np.matmul(left, right)).astype(a.dtype))


def _scaled(what: FusedMatMul, operands: Operands) -> Reason | None:
    return Reason("the product is as it is") if what.alpha == 1 else None


@lowering(13, applies_if=_scaled, bind=lambda what, operands: {"factor": what.alpha}, rounds=True)
def scaled(a, b, factor: float):
    """Multiply the product by a number."""
    y = meaning.Same(a, b, alpha=1.0)
    return y * op.CastLike(factor, y)


def _moved(place: int) -> Callable[[FusedMatMul, Operands], Reason | None]:
    def applies_if(what: FusedMatMul, operands: Operands) -> Reason | None:
        facts, moved = operands[place], _turns(what)
        if what.alpha != 1:
            return Reason("the product is multiplied by a number")
        if not any(moved[place]) or any(map(any, moved[:place])):
            return Reason("another operand is transposed, or none")
        unknown = facts is None or facts.rank is None
        return Reason(f"the rank of {'AB'[place]} is unknown", missing=True) if unknown else None

    return applies_if


def _turns(what: FusedMatMul) -> tuple[tuple[int, int], ...]:
    return (what.transA, what.transBatchA), (what.transB, what.transBatchB)


def _order(place: int) -> Callable[[FusedMatMul, Operands], Mapping[str, Any]]:
    def bind(what: FusedMatMul, operands: Operands) -> Mapping[str, Any]:
        facts = operands[place]
        return {"axes": order(facts.rank or 0 if facts else 0, *_turns(what)[place])}

    return bind


@lowering(13, applies_if=_moved(0), bind=_order(0))
def left(a, b, axes: Sequence[int]):
    """Transpose the first operand."""
    return meaning.Same(op.Transpose(a, perm=axes), b, transA=0, transBatchA=0)


@lowering(13, applies_if=_moved(1), bind=_order(1))
def right(a, b, axes: Sequence[int]):
    """Transpose the second operand."""
    return meaning.Same(a, op.Transpose(b, perm=axes), transB=0, transBatchB=0)


def _plain(what: FusedMatMul, operands: Operands) -> Reason | None:
    plain = what == FusedMatMul()
    return None if plain else Reason("an operand is transposed, or the product is multiplied by a number")


@lowering(13, applies_if=_plain, rounds=True)
def product(a, b):
    """Multiply as MatMul does."""
    return op.MatMul(a, b)


OPERATOR = Operator(
    name="FusedMatMul",
    domain=MICROSOFT,
    meaning=FusedMatMul,
    versions=(Version(1),),
    operands=("A", "B"),
    oracle=oracle,
    lowerings=(scaled, left, right, product),
    refused="an operand that is transposed, and whose rank is unknown",
    traits=Traits(floats=(Trait.SUMS,), factors=2),
)
