"""LSTM: one layer of long short-term memory. `layout` came with 14."""

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
class LSTM:
    """The attributes of LSTM-22; None where they are left out."""

    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    input_forget: int = 0
    layout: int = 0


def oracle(
    what: LSTM,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
) -> tuple[Array, ...]:
    """LSTM-14: "Ct = ft (.) Ct-1 + it (.) ct", "Ht = ot (.) h(Ct)"."""
    check_shapes(what, 4, (x, w, r, b, sequence_lens, initial_h, initial_c, p))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, ("Sigmoid", "Tanh", "Tanh"), directions)
    bias = np.zeros((directions, 8 * hidden), x.dtype) if b is None else b
    peep = np.zeros((directions, 3 * hidden), x.dtype) if p is None else p

    def step(direction: int, token: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        f, g, h = each[3 * direction : 3 * direction + 3]
        before, cell = states
        total = token @ w[direction].T + before @ r[direction].T
        total = total + bias[direction, : 4 * hidden] + bias[direction, 4 * hidden :]
        from_i, from_o, from_f, from_c = np.split(total, 4, axis=1)
        peep_i, peep_o, peep_f = np.split(peep[direction], 3)
        come = f(from_i + peep_i * cell)
        kept = 1 - come if what.input_forget else f(from_f + peep_f * cell)
        cell = kept * cell + come * g(from_c)
        return f(from_o + peep_o * cell) * h(cell), cell

    initial = [states_of(what, one, directions, x, hidden) for one in (initial_h, initial_c)]
    return run(what, step, x, sequence_lens, initial)


@lowering(18, applies_if=batch_first)
def transposed(x, w, r, b, sequence_lens, initial_h, initial_c, p):
    """Transpose the batch to the second axis, and back."""
    y, y_h, y_c = meaning.Same(
        op.Transpose(x, perm=[1, 0, 2]),
        w,
        r,
        b,
        sequence_lens,
        op.Transpose(initial_h, perm=[1, 0, 2]),
        op.Transpose(initial_c, perm=[1, 0, 2]),
        p,
        layout=0,
    )
    return op.Transpose(y, perm=[2, 0, 1, 3]), op.Transpose(y_h, perm=[1, 0, 2]), op.Transpose(y_c, perm=[1, 0, 2])


OPERATOR = Operator(
    name="LSTM",
    meaning=LSTM,
    versions=(Version(7), Version(14), Version(22)),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    oracle=oracle,
    adversarial=adversarial,
    lowerings=(transposed,),
    wider_types=COMPUTED,
    nan_defined=runs,
    infinity_defined=runs,
    traits=Traits(
        floats=(Trait.SUMS, Trait.ADDS_ONE, Trait.WEIGHS),
        equal_dims=equal_dims(gates=4),
        spreads=False,
        aborts=True,
        unwritten=(0,),
    ),
)
