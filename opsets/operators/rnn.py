"""RNN: one recurrent layer. `layout` came with 14."""

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
class RNN:
    """The attributes of RNN-22; None where they are left out."""

    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = ("Tanh", "Tanh")
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0


def oracle(
    what: RNN,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
) -> tuple[Array, ...]:
    """RNN-14: "Ht = f(Xt*(Wi^T) + Ht-1*(Ri^T) + Wbi + Rbi)"."""
    check_shapes(what, 1, (x, w, r, b, sequence_lens, initial_h))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, ("Tanh",), directions)
    bias = np.zeros((directions, 2 * hidden), x.dtype) if b is None else b

    def step(direction: int, token: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        total = token @ w[direction].T + states[0] @ r[direction].T
        return (each[direction](total + bias[direction, :hidden] + bias[direction, hidden:]),)

    return run(what, step, x, sequence_lens, [states_of(what, initial_h, directions, x, hidden)])


@lowering(18, applies_if=batch_first)
def transposed(x, w, r, b, sequence_lens, initial_h):
    """Transpose the batch to the second axis, and back."""
    y, y_h = meaning.Same(
        op.Transpose(x, perm=[1, 0, 2]), w, r, b, sequence_lens, op.Transpose(initial_h, perm=[1, 0, 2]), layout=0
    )
    return op.Transpose(y, perm=[2, 0, 1, 3]), op.Transpose(y_h, perm=[1, 0, 2])


OPERATOR = Operator(
    name="RNN",
    meaning=RNN,
    versions=(Version(7), Version(14), Version(22)),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h"),
    oracle=oracle,
    adversarial=adversarial,
    lowerings=(transposed,),
    wider_types=COMPUTED,
    nan_defined=runs,
    infinity_defined=runs,
    traits=Traits(
        floats=(Trait.SUMS, Trait.ADDS_ONE, Trait.WEIGHS), equal_dims=equal_dims(gates=1), spreads=False, aborts=True
    ),
)
