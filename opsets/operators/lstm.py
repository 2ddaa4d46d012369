"""LSTM: one layer of long short-term memory. `layout` came with 14."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.recurrent import (
    LONGEST,
    Array,
    adversarial,
    batch_first,
    cell,
    check_shapes,
    equal_dims,
    functions,
    of_each_direction,
    one_direction,
    parameters_by_text,
    propagates,
    run,
    states_of,
    two_directions,
    without_full_lengths,
)
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import SUMMED

FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")
"""The default activations of a direction."""


@dataclass(frozen=True)
class LSTM:
    """The attributes of LSTM-22; None where they are left out. `clips_cell` says that the input of h has a bound too.

    LSTM-22: clip "is applied to the input of activations". onnxruntime 1.32.0 does not clip Ct, the input of h.
    """

    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    input_forget: int = 0
    layout: int = 0
    clips_cell: int = 0


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
    *,
    rounding: InnerRounding | None = None,
) -> tuple[Array, ...]:
    """LSTM-14: "Ct = ft (.) Ct-1 + it (.) ct", "Ht = ot (.) h(Ct)"."""
    check_shapes(what, 4, (x, w, r, b, sequence_lens, initial_h, initial_c, p))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, FUNCTIONS, directions, rounding)
    unclipped = dataclasses.replace(what, clip=None)
    shown = each if what.clips_cell else functions(unclipped, FUNCTIONS, directions, rounding)
    bias = np.zeros((directions, 8 * hidden), x.dtype) if b is None else b
    peep = np.zeros((directions, 3 * hidden), x.dtype) if p is None else p

    def step(direction: int, token: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        f, g = each[3 * direction : 3 * direction + 2]
        h = shown[3 * direction + 2]
        before, state = states
        total = token @ w[direction].T + before @ r[direction].T
        total = total + bias[direction, : 4 * hidden] + bias[direction, 4 * hidden :]
        from_i, from_o, from_f, from_c = np.split(total, 4, axis=1)
        peep_i, peep_o, peep_f = np.split(peep[direction], 3)
        come = f(from_i + peep_i * state)
        kept = 1 - come if what.input_forget else f(from_f + peep_f * state)
        state = kept * state + come * g(from_c)
        return f(from_o + peep_o * state) * h(state), state

    initial = [states_of(what, one, directions, x, hidden) for one in (initial_h, initial_c)]
    return run(what, step, x, sequence_lens, initial)


def _spec(attributes: Mapping[str, Any]) -> LSTM:
    attributes = parameters_by_text(attributes)
    return LSTM(**attributes, clips_cell=int("clip" in attributes))


def _write(what: LSTM, operands: Operands) -> Mapping[str, Any]:
    fields = dataclasses.asdict(dataclasses.replace(what, clips_cell=0))
    return {name: value for name, value in fields.items() if value != getattr(LSTM, name)}


def _batch_second(what: LSTM, operands: Operands) -> Reason | None:
    return Reason("it has no layout=1") if what.layout else None


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


@lowering(18, applies_if=two_directions, bind=of_each_direction)
def both_ways(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    initial_c,
    p,
    forward: Sequence[str],
    forward_alpha: Sequence[float],
    forward_beta: Sequence[float],
    reverse: Sequence[str],
    reverse_alpha: Sequence[float],
    reverse_beta: Sequence[float],
):
    """Process the tokens in each direction on its own."""
    w_0 = op.Slice(w, [0], [1], [0])
    w_1 = op.Slice(w, [1], [2], [0])
    r_0 = op.Slice(r, [0], [1], [0])
    r_1 = op.Slice(r, [1], [2], [0])
    b_0 = op.Slice(b, [0], [1], [0])
    b_1 = op.Slice(b, [1], [2], [0])
    h_0 = op.Slice(initial_h, [0], [1], [0])
    h_1 = op.Slice(initial_h, [1], [2], [0])
    c_0 = op.Slice(initial_c, [0], [1], [0])
    c_1 = op.Slice(initial_c, [1], [2], [0])
    p_0 = op.Slice(p, [0], [1], [0])
    p_1 = op.Slice(p, [1], [2], [0])
    y_0, y_h_0, y_c_0 = meaning.Same(
        x,
        w_0,
        r_0,
        b_0,
        sequence_lens,
        h_0,
        c_0,
        p_0,
        direction="forward",
        activations=forward,
        activation_alpha=forward_alpha,
        activation_beta=forward_beta,
    )
    y_1, y_h_1, y_c_1 = meaning.Same(
        x,
        w_1,
        r_1,
        b_1,
        sequence_lens,
        h_1,
        c_1,
        p_1,
        direction="reverse",
        activations=reverse,
        activation_alpha=reverse_alpha,
        activation_beta=reverse_beta,
    )
    return op.Concat(y_0, y_1, axis=1), op.Concat(y_h_0, y_h_1, axis=0), op.Concat(y_c_0, y_c_1, axis=0)


def _cell(what: LSTM, operands: Operands) -> Mapping[str, Any]:
    return dataclasses.asdict(cell(what, FUNCTIONS, what.input_forget, () if what.clips_cell else (2,)))


@lowering(18, applies_if=one_direction, bind=_cell, rounds=True)
def token_by_token(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    initial_c,
    p,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
    backwards: int,
):
    """Multiply all tokens with the weights, then process them one by one."""
    biases = op.Reshape(b, [2, -1])
    bias = op.Add(op.Slice(biases, [0], [1], [0]), op.Slice(biases, [1], [2], [0]))
    gates = meaning.LinearLayer(x, op.Transpose(op.Squeeze(w, [0]), perm=[1, 0]), bias)
    peepholes = op.Reshape(p, [3, -1])
    count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    places = op.Unsqueeze(op.Cast(op.Range(0, count, 1), to=6), [1])
    mask = op.Unsqueeze(op.Greater(sequence_lens, places), [2])
    y_h, y_c, rows = meaning.LSTMTokens(
        count,
        meaning.FirstState(x, r, sequence_lens, initial_h),
        meaning.FirstState(x, r, sequence_lens, initial_c),
        gates,
        mask,
        op.Transpose(op.Squeeze(r, [0]), perm=[1, 0]),
        op.Slice(peepholes, [0], [1], [0]),
        op.Slice(peepholes, [1], [2], [0]),
        op.Slice(peepholes, [2], [3], [0]),
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
        backwards=backwards,
    )
    y = meaning.StackedRows(rows, y_h)
    return meaning.KeptWhere(y, op.Unsqueeze(mask, [1])), y_h, y_c


OPERATOR = Operator(
    name="LSTM",
    meaning=LSTM,
    versions=(
        Version(1, spec=_spec),
        Version(7, spec=_spec, write=_write, applies_if=_batch_second),
        Version(14, spec=_spec, write=_write),
        Version(22, spec=_spec, write=_write),
    ),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    normal=without_full_lengths,
    oracle=oracle,
    adversarial=adversarial,
    longest=LONGEST,
    lowerings=(transposed, both_ways, token_by_token),
    wider_types=SUMMED,
    nan_defined=propagates,
    infinity_defined=propagates,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        equal_dims=equal_dims(gates=4),
        spreads=False,
        aborts=True,
        unwritten=(0,),
        nan_undefined=True,
        feeds_back=True,
        overflows_inside=True,
    ),
)
