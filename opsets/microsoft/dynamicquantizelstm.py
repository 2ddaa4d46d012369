"""com.microsoft::DynamicQuantizeLSTM: LSTM with weights of bytes, which multiplies inputs and states as bytes too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families import recurrent
from opshift.opsets.families.recurrent import Array, cell, functions, of_each_direction, propagates, states_of
from opshift.opsets.microsoft import dynamicquantizematmul
from opshift.opsets.operators.lstm import FUNCTIONS, LSTM
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Trait, Traits


def oracle(
    what: LSTM,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    w_scale: Array,
    w_zero: Array,
    r_scale: Array,
    r_zero: Array,
) -> tuple[Array, ...]:
    """DynamicQuantizeLSTM-1: W has `[num_directions, input_size, 4*hidden_size]`, and a scale for all or each column.

    The kernel of onnxruntime 1.32.0 quantizes X as a whole, up to the end of the longest sequence, and before each
    token the states of the batch: those of sequences that ended before the token before are zeros.
    """
    directions, hidden, count = w.shape[0], r.shape[1], len(x)
    ends = np.full(x.shape[1], count) if sequence_lens is None else sequence_lens
    x = x * (np.arange(count) < ends.max(initial=0))[:, None, None].astype(x.dtype)
    each = functions(what, FUNCTIONS, directions)
    bias = np.zeros((directions, 2, 4 * hidden), x.dtype) if b is None else b.reshape(directions, 2, -1)
    peep = np.zeros((directions, 3, hidden), x.dtype) if p is None else p.reshape(directions, 3, -1)
    last_h, last_c = (states_of(what, one, directions, x, hidden).copy() for one in (initial_h, initial_c))
    y = np.zeros((count, directions, x.shape[1], hidden), x.dtype)
    for d in range(directions):
        f, g, h = each[3 * d : 3 * d + 3]
        gates = dynamicquantizematmul.oracle(Plain(), x, w[d], w_scale[d], w_zero[d]) + bias[d].sum(0)
        for turn in range(int(ends.max(initial=0))):
            running, read = np.nonzero(turn < ends)[0], (turn <= ends)[:, None]
            place = ends[running] - 1 - turn if what.direction == "reverse" or d else np.full(running.shape, turn)
            states = np.where(read, last_h[d], np.zeros((), x.dtype))
            product = dynamicquantizematmul.oracle(Plain(), states, r[d], r_scale[d], r_zero[d])[running]
            from_i, from_o, from_f, from_c = np.split(gates[place, running] + product, 4, axis=1)
            before = last_c[d, running]
            come = f(from_i + peep[d, 0] * before)
            kept = 1 - come if what.input_forget else f(from_f + peep[d, 2] * before)
            last_c[d, running] = state = kept * before + come * g(from_c)
            last_h[d, running] = y[place, d, running] = f(from_o + peep[d, 1] * state) * h(state)
    return y, last_h * (ends > 0)[:, None], last_c * (ends > 0)[:, None]


def _both(what: LSTM, operands: Operands) -> Reason | None:
    return None if what.direction == "bidirectional" else Reason("")


@lowering(18, applies_if=_both, bind=of_each_direction)
def both_ways(
    x, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero,
    forward: Sequence[str], forward_alpha: Sequence[float], forward_beta: Sequence[float],
    reverse: Sequence[str], reverse_alpha: Sequence[float], reverse_beta: Sequence[float],
):  # fmt: skip
    """Process the tokens in each direction on its own."""
    y_0, y_h_0, y_c_0 = meaning.Same(
        x,
        op.Slice(w, [0], [1], [0]),
        op.Slice(r, [0], [1], [0]),
        op.Slice(b, [0], [1], [0]),
        sequence_lens,
        op.Slice(initial_h, [0], [1], [0]),
        op.Slice(initial_c, [0], [1], [0]),
        op.Slice(p, [0], [1], [0]),
        op.Slice(w_scale, [0], [1], [0]),
        op.Slice(w_zero, [0], [1], [0]),
        op.Slice(r_scale, [0], [1], [0]),
        op.Slice(r_zero, [0], [1], [0]),
        direction="forward",
        activations=forward,
        activation_alpha=forward_alpha,
        activation_beta=forward_beta,
    )
    y_1, y_h_1, y_c_1 = meaning.Same(
        x,
        op.Slice(w, [1], [2], [0]),
        op.Slice(r, [1], [2], [0]),
        op.Slice(b, [1], [2], [0]),
        sequence_lens,
        op.Slice(initial_h, [1], [2], [0]),
        op.Slice(initial_c, [1], [2], [0]),
        op.Slice(p, [1], [2], [0]),
        op.Slice(w_scale, [1], [2], [0]),
        op.Slice(w_zero, [1], [2], [0]),
        op.Slice(r_scale, [1], [2], [0]),
        op.Slice(r_zero, [1], [2], [0]),
        direction="reverse",
        activations=reverse,
        activation_alpha=reverse_alpha,
        activation_beta=reverse_beta,
    )
    return op.Concat(y_0, y_1, axis=1), op.Concat(y_h_0, y_h_1, axis=0), op.Concat(y_c_0, y_c_1, axis=0)


def _reversed_lengths(what: LSTM, operands: Operands) -> Reason | None:
    return None if what.direction == "reverse" and operands[4] is not None else Reason("")


@lowering(18, applies_if=_reversed_lengths)
def reversed_lengths(x, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero):
    """Reverse each sequence as far as it is long, and its outputs: states of sequences are quantized together."""
    lengths = op.Cast(sequence_lens, to=7)
    y, y_h, y_c = meaning.Same(
        op.ReverseSequence(x, lengths, batch_axis=1, time_axis=0),
        w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero,
        direction="forward",
    )  # fmt: skip
    rows = op.ReverseSequence(op.Squeeze(y, [1]), lengths, batch_axis=1, time_axis=0)
    return op.Unsqueeze(rows, [1]), y_h, y_c


def _one_way(what: LSTM, operands: Operands) -> Reason | None:
    fits = what.direction == "forward" or (what.direction == "reverse" and operands[4] is None)
    return None if fits else Reason("")


def _cell(what: LSTM, operands: Operands) -> Mapping[str, Any]:
    return dataclasses.asdict(cell(what, FUNCTIONS, what.input_forget, (2,)))


@lowering(18, applies_if=_one_way, bind=_cell, rounds=True)
def token_by_token(
    x, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero,
    functions: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clips: Sequence[float],
    variant: int, backwards: int,
):  # fmt: skip
    """Multiply all tokens with the weights, as integers, then process them one by one."""
    biases = op.Reshape(b, [2, -1])
    bias = op.Squeeze(op.Slice(biases, [0], [1], [0]) + op.Slice(biases, [1], [2], [0]), [0])
    count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    places = op.Unsqueeze(op.Cast(op.Range(0, count, 1), to=6), [1])
    mask = op.Unsqueeze(op.Greater(sequence_lens, places), [2])
    read = op.Unsqueeze(op.Greater(sequence_lens, places - 1), [2])
    longest = op.Unsqueeze(op.Greater(op.ReduceMax(sequence_lens, [0], keepdims=1), places), [2])
    tokens = meaning.KeptWhere(x, longest)
    gates = meaning.DynamicQuantizeMatMul(
        tokens, op.Squeeze(w, [0]), op.Squeeze(w_scale, [0]), op.Squeeze(w_zero, [0]), bias
    )
    state = op.Transpose(r, perm=[0, 2, 1])
    peepholes = op.Reshape(p, [3, -1])
    y_h, y_c, rows = meaning.LSTMTokens(
        count,
        meaning.FirstState(x, state, sequence_lens, initial_h),
        meaning.FirstState(x, state, sequence_lens, initial_c),
        gates,
        mask,
        op.Squeeze(r, [0]),
        op.Slice(peepholes, [0], [1], [0]),
        op.Slice(peepholes, [1], [2], [0]),
        op.Slice(peepholes, [2], [3], [0]),
        op.Squeeze(r_scale, [0]),
        op.Squeeze(r_zero, [0]),
        read,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
        backwards=backwards,
    )
    y = meaning.StackedRows(rows, y_h)
    return meaning.KeptWhere(y, op.Unsqueeze(mask, [1])), y_h, y_c


def _equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims of an LSTM, whose weights are the other way round."""
    turned = [one and (one[0], *one[:0:-1]) if place in (1, 2) else one for place, one in enumerate(node.inputs)]
    yield from recurrent.equal_dims(gates=4)(dataclasses.replace(node, inputs=tuple(turned)))


def _undefined_lengths(inputs: Sequence[Any]) -> bool:
    """Return whether a sequence has no token, or more than there are: the text is silent on these."""
    x, lengths = inputs[0], inputs[4] if len(inputs) > 4 else None
    return lengths is not None and bool(((lengths < 1) | (lengths > len(x))).any())


OPERATOR = Operator(
    name="DynamicQuantizeLSTM",
    domain=MICROSOFT,
    meaning=LSTM,
    versions=(Version(1),),
    operands=(
        *("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
        *("W_scale", "W_zero_point", "R_scale", "R_zero_point"),
    ),
    oracle=oracle,
    lowerings=(both_ways, reversed_lengths, token_by_token),
    adversarial=recurrent.adversarial,
    nan_defined=propagates,
    infinity_defined=propagates,
    traits=Traits(
        floats=(Trait.SUMS, Trait.ADDS_ONE, Trait.WEIGHS, Trait.QUANTIZES),
        equal_dims=_equal_dims,
        byte_factors=(0, 1),
        spreads=False,
        aborts=True,
        unwritten=(0,),
        nan_undefined=True,
        overflows_inside=True,
        meaningless=_undefined_lengths,
    ),
)
