"""RNNCell: what an RNN does with one token. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.opsets.families.recurrent import Array, Cell, bound_cell, compute_cell, facts_of_cell
from opshift.opsets.operators import keptwhere
from opshift.opsets.operators.keptwhere import KeptWhere
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operator


def oracle(what: Cell, h: Array, gates: Array, mask: Array | None, r: Array) -> tuple[Array, ...]:
    """RNN-14: "Ht = f(Xt*(Wi^T) + Ht-1*(Ri^T) + Wbi + Rbi)"; masked rows keep their state."""
    return (keptwhere.oracle(KeptWhere(), compute_cell(what)(0, gates + h @ r), mask, h),)


@lowering(18, bind=bound_cell, rounds=True)
def activated_sum(
    h,
    gates,
    mask,
    r,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
):
    """Apply the function to the sum of both products."""
    total = op.Add(gates, op.MatMul(h, r))
    new = meaning.GateFunction(total, place=0, functions=functions, alphas=alphas, betas=betas, clips=clips)
    return meaning.KeptWhere(new, mask, h)


OPERATOR = Operator(
    name="RNNCell",
    domain="opshift.step",
    meaning=Cell,
    versions=(),
    operands=("h", "gates", "mask", "r"),
    oracle=oracle,
    lowerings=(activated_sum,),
    facts=facts_of_cell(states=1),
)
