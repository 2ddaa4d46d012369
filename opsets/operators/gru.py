"""GRU: one layer of gated recurrent units. `layout` came with 14."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opshift.opsets.families.recurrent import (
    Array,
    adversarial,
    batch_first,
    check_shapes,
    equal_dims,
    functions,
    run,
    runs,
    states_of,
)
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class GRU:
    """The attributes of GRU-22; None where they are left out."""

    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
    linear_before_reset: int = 0


def oracle(
    what: GRU,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
) -> tuple[Array, ...]:
    """GRU-14: "Ht = (1 - zt) (.) ht + zt (.) Ht-1"."""
    check_shapes(what, 3, (x, w, r, b, sequence_lens, initial_h))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, ("Sigmoid", "Tanh"), directions)
    bias = np.zeros((directions, 6 * hidden), x.dtype) if b is None else b

    def step(direction: int, token: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        f, g = each[2 * direction : 2 * direction + 2]
        (before,) = states
        w_z, w_r, w_h = np.split(token @ w[direction].T, 3, axis=1)
        r_z, r_r, r_h = np.split(r[direction], 3)
        wb_z, wb_r, wb_h, rb_z, rb_r, rb_h = np.split(bias[direction], 6)
        update = f(w_z + before @ r_z.T + wb_z + rb_z)
        reset = f(w_r + before @ r_r.T + wb_r + rb_r)
        if what.linear_before_reset:
            new = g(w_h + reset * (before @ r_h.T + rb_h) + wb_h)
        else:
            new = g(w_h + (reset * before) @ r_h.T + rb_h + wb_h)
        return ((1 - update) * new + update * before,)

    return run(what, step, x, sequence_lens, [states_of(what, initial_h, directions, x, hidden)])


@lowering(18, applies_if=batch_first)
def transposed(x, w, r, b, sequence_lens, initial_h):
    """Transpose the batch to the second axis, and back."""
    y, y_h = meaning.Same(
        op.Transpose(x, perm=[1, 0, 2]), w, r, b, sequence_lens, op.Transpose(initial_h, perm=[1, 0, 2]), layout=0
    )
    return op.Transpose(y, perm=[2, 0, 1, 3]), op.Transpose(y_h, perm=[1, 0, 2])


OPERATOR = Operator(
    name="GRU",
    meaning=GRU,
    versions=(Version(7), Version(14), Version(22)),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h"),
    oracle=oracle,
    adversarial=adversarial,
    lowerings=(transposed,),
    wider_types=COMPUTED,
    nan_defined=runs,
    infinity_defined=runs,
    traits=Traits(
        floats=(Trait.SUMS, Trait.ADDS_ONE, Trait.WEIGHS), equal_dims=equal_dims(gates=3), spreads=False, aborts=True
    ),
)
