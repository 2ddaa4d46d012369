"""LSTMCell: what an LSTM does with one token. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opshift.opsets.families.recurrent import Array, Cell, bound_cell, compute_cell, facts_of_cell
from opshift.opsets.operators import keptwhere, stateproduct
from opshift.opsets.operators.keptwhere import KeptWhere
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.plain import Plain


def oracle(
    what: Cell,
    h: Array,
    c: Array,
    gates: Array,
    mask: Array | None,
    r: Array,
    p_i: Array | None = None,
    p_o: Array | None = None,
    p_f: Array | None = None,
    *quantized: Array | None,
) -> tuple[Array, ...]:
    """LSTM-14: "Ct = ft (.) Ct-1 + it (.) ct", "Ht = ot (.) h(Ct)"; masked rows keep their states.

    With a scale R has bytes, a zero point, and the rows of the state that are multiplied with it.
    """
    apply = compute_cell(what)
    zero = np.zeros((), h.dtype)
    from_i, from_o, from_f, from_c = np.split(gates + stateproduct.oracle(Plain(), h, r, *quantized), 4, axis=2)
    come = apply(0, from_i + (zero if p_i is None else p_i * c))
    kept = 1 - come if what.variant else apply(0, from_f + (zero if p_f is None else p_f * c))
    cell = kept * c + come * apply(1, from_c)
    hidden = apply(0, from_o + (zero if p_o is None else p_o * cell)) * apply(2, cell)
    keep = KeptWhere()
    return keptwhere.oracle(keep, hidden, mask, h), keptwhere.oracle(keep, cell, mask, c)


def _separate(what: Cell, operands: Operands) -> Reason | None:
    return None if not what.variant else Reason("")


def _coupled(what: Cell, operands: Operands) -> Reason | None:
    return None if what.variant else Reason("")


@lowering(18, applies_if=_separate, bind=bound_cell, rounds=True)
def separate(
    h,
    c,
    gates,
    mask,
    r,
    p_i,
    p_o,
    p_f,
    r_scale,
    r_zero,
    read,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
):
    """Compute all four gates."""
    total = op.Add(gates, meaning.StateProduct(h, r, r_scale, r_zero, read))
    from_i, from_o, from_f, from_c = op.Split(total, axis=2, num_outputs=4)
    # A peephole that is left out adds nothing: its product is left out too.
    with_i = op.Sum(from_i, op.Mul(p_i, c))
    with_f = op.Sum(from_f, op.Mul(p_f, c))
    come = meaning.GateFunction(with_i, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    kept = meaning.GateFunction(with_f, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    new = meaning.GateFunction(from_c, place=1, functions=functions, alphas=alphas, betas=betas, clips=clips)
    cell = op.Add(op.Mul(kept, c), op.Mul(come, new))
    with_o = op.Sum(from_o, op.Mul(p_o, cell))
    out = meaning.GateFunction(with_o, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    shown = meaning.GateFunction(cell, place=2, functions=functions, alphas=alphas, betas=betas, clips=clips)
    return meaning.KeptWhere(op.Mul(out, shown), mask, h), meaning.KeptWhere(cell, mask, c)


@lowering(18, applies_if=_coupled, bind=bound_cell, rounds=True)
def coupled(
    h,
    c,
    gates,
    mask,
    r,
    p_i,
    p_o,
    p_f,
    r_scale,
    r_zero,
    read,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
):
    """Forget as much as comes in."""
    total = op.Add(gates, meaning.StateProduct(h, r, r_scale, r_zero, read))
    from_i, from_o, _, from_c = op.Split(total, axis=2, num_outputs=4)
    with_i = op.Sum(from_i, op.Mul(p_i, c))
    come = meaning.GateFunction(with_i, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    new = meaning.GateFunction(from_c, place=1, functions=functions, alphas=alphas, betas=betas, clips=clips)
    cell = op.Add(op.Mul(op.Sub(op.CastLike(1.0, come), come), c), op.Mul(come, new))
    with_o = op.Sum(from_o, op.Mul(p_o, cell))
    out = meaning.GateFunction(with_o, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    shown = meaning.GateFunction(cell, place=2, functions=functions, alphas=alphas, betas=betas, clips=clips)
    return meaning.KeptWhere(op.Mul(out, shown), mask, h), meaning.KeptWhere(cell, mask, c)


OPERATOR = Operator(
    name="LSTMCell",
    domain="opshift.step",
    meaning=Cell,
    versions=(),
    operands=("h", "c", "gates", "mask", "r", "p_i", "p_o", "p_f", "r_scale", "r_zero", "read"),
    oracle=oracle,
    lowerings=(separate, coupled),
    facts=facts_of_cell(states=2),
)
