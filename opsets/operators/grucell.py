"""GRUCell: what a GRU does with one token. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opshift.opsets.families.recurrent import Array, Cell, bound_cell, compute_cell, facts_of_cell
from opshift.opsets.operators import keptwhere
from opshift.opsets.operators.keptwhere import KeptWhere
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator


def oracle(
    what: Cell,
    h: Array,
    gates: Array,
    mask: Array | None,
    r: Array,
    r_h: Array | None = None,
    b_r: Array | None = None,
) -> tuple[Array, ...]:
    """GRU-14: "Ht = (1 - zt) (.) ht + zt (.) Ht-1"; masked rows keep their state.

    `r` has the weights of all gates where the state is multiplied before it is reset, and those of two gates otherwise.
    """
    apply = compute_cell(what)
    from_z, from_r, from_h = np.split(gates, 3, axis=2)
    if r_h is None:
        product = h @ r if b_r is None else h @ r + b_r
        of_z, of_r, of_h = np.split(product, 3, axis=2)
        update, reset = apply(0, from_z + of_z), apply(0, from_r + of_r)
        new = apply(1, from_h + reset * of_h)
    else:
        of_z, of_r = np.split(h @ r, 2, axis=2)
        update, reset = apply(0, from_z + of_z), apply(0, from_r + of_r)
        new = apply(1, from_h + (reset * h) @ r_h)
    return (keptwhere.oracle(KeptWhere(), (1 - update) * new + update * h, mask, h),)


def _before(what: Cell, operands: Operands) -> Reason | None:
    return None if not what.variant else Reason("")


def _after(what: Cell, operands: Operands) -> Reason | None:
    return None if what.variant else Reason("")


@lowering(18, applies_if=_before, bind=bound_cell, rounds=True)
def reset_before(
    h,
    gates,
    mask,
    r,
    r_h,
    b_r,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
):
    """Reset the state, then multiply it."""
    from_z, from_r, from_h = op.Split(gates, axis=2, num_outputs=3)
    of_z, of_r = op.Split(op.MatMul(h, r), axis=2, num_outputs=2)
    with_z = op.Add(from_z, of_z)
    with_r = op.Add(from_r, of_r)
    update = meaning.GateFunction(with_z, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    reset = meaning.GateFunction(with_r, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    with_h = op.Add(from_h, op.MatMul(op.Mul(reset, h), r_h))
    new = meaning.GateFunction(with_h, place=1, functions=functions, alphas=alphas, betas=betas, clips=clips)
    mixed = op.Add(op.Mul(op.Sub(op.CastLike(1.0, update), update), new), op.Mul(update, h))
    return meaning.KeptWhere(mixed, mask, h)


@lowering(18, applies_if=_after, bind=bound_cell, rounds=True)
def reset_after(
    h,
    gates,
    mask,
    r,
    r_h,
    b_r,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
):
    """Multiply the state, then reset the product."""
    from_z, from_r, from_h = op.Split(gates, axis=2, num_outputs=3)
    of_z, of_r, of_h = op.Split(meaning.LinearLayer(h, r, b_r), axis=2, num_outputs=3)
    with_z = op.Add(from_z, of_z)
    with_r = op.Add(from_r, of_r)
    update = meaning.GateFunction(with_z, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    reset = meaning.GateFunction(with_r, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    with_h = op.Add(from_h, op.Mul(reset, of_h))
    new = meaning.GateFunction(with_h, place=1, functions=functions, alphas=alphas, betas=betas, clips=clips)
    mixed = op.Add(op.Mul(op.Sub(op.CastLike(1.0, update), update), new), op.Mul(update, h))
    return meaning.KeptWhere(mixed, mask, h)


OPERATOR = Operator(
    name="GRUCell",
    domain="opshift.step",
    meaning=Cell,
    versions=(),
    operands=("h", "gates", "mask", "r", "r_h", "b_r"),
    oracle=oracle,
    lowerings=(reset_before, reset_after),
    facts=facts_of_cell(states=1),
)
