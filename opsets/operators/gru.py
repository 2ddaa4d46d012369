"""GRU: one layer of gated recurrent units. `layout` came with 14."""

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
    both_ways,
    cell,
    check_shapes,
    equal_dims,
    functions,
    one_direction,
    parameters_by_text,
    propagates,
    run,
    states_of,
    transposed,
    without_full_lengths,
)
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import SUMMED

FUNCTIONS = ("Sigmoid", "Tanh")
"""The default activations of a direction."""


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
    *,
    rounding: InnerRounding | None = None,
) -> tuple[Array, ...]:
    """GRU-14: "Ht = (1 - zt) (.) ht + zt (.) Ht-1"."""
    check_shapes(what, 3, (x, w, r, b, sequence_lens, initial_h))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, FUNCTIONS, directions, rounding)
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


def _lift_first(attributes: Mapping[str, Any]) -> GRU:
    # GRU-1: direction "must be one of forward (default), reverse, or bidirectional"; the schema's default is misspelt.
    names = {field.name for field in dataclasses.fields(GRU)}
    told = {name: value for name, value in attributes.items() if name in names and value is not None}
    return GRU(**{**told, "direction": "forward" if told["direction"] == "foward" else told["direction"]})


def _spec(attributes: Mapping[str, Any]) -> GRU:
    return _lift_first(parameters_by_text(attributes))


def _cell(what: GRU, operands: Operands) -> Mapping[str, Any]:
    r = operands[2]
    hidden = what.hidden_size if r is None or not isinstance(r.dim(2), int) else r.dim(2)
    bound = dataclasses.asdict(cell(what, FUNCTIONS, what.linear_before_reset))
    size = hidden if isinstance(hidden, int) else 0
    return {**bound, "start": (0,), "middle": (2 * size,), "end": (3 * size,), "rows": (3 * size, size)}


def _sized(what: GRU, operands: Operands) -> Reason | None:
    r = operands[2]
    known = what.hidden_size is not None or (r is not None and isinstance(r.dim(2), int))
    return None if known else Reason("the hidden size is unknown", missing=True)


def _reset_before(what: GRU, operands: Operands) -> Reason | None:
    if what.linear_before_reset or one_direction(what, operands) is not None:
        return Reason("")
    return _sized(what, operands)


def _reset_after(what: GRU, operands: Operands) -> Reason | None:
    return one_direction(what, operands) if what.linear_before_reset else Reason("")


@lowering(18, applies_if=_reset_before, bind=_cell, rounds=True)
def reset_before(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
    backwards: int,
    start: Sequence[int],
    middle: Sequence[int],
    end: Sequence[int],
    rows: Sequence[int],
):
    """Multiply all tokens with the weights, then process them one by one; a state is reset, then multiplied."""
    biases = op.Reshape(b, [2, -1])
    bias = op.Add(op.Slice(biases, [0], [1], [0]), op.Slice(biases, [1], [2], [0]))
    gates = meaning.LinearLayer(x, op.Transpose(op.Squeeze(w, [0]), perm=[1, 0]), bias)
    # Of unknown lengths onnxruntime 1.32.0 takes both parts that Slice-10 cuts for as long as the whole.
    recurrence = op.Transpose(op.Reshape(r, rows), perm=[1, 0])
    count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    places = op.Unsqueeze(op.Cast(op.Range(0, count, 1), to=6), [1])
    mask = op.Unsqueeze(op.Greater(sequence_lens, places), [2])
    y_h, rows = meaning.GRUTokens(
        count,
        meaning.FirstState(x, r, sequence_lens, initial_h),
        gates,
        mask,
        op.Slice(recurrence, start, middle, [1]),
        op.Slice(recurrence, middle, end, [1]),
        None,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
        backwards=backwards,
    )
    y = meaning.StackedRows(rows, y_h)
    return meaning.KeptWhere(y, op.Unsqueeze(mask, [1])), y_h


@lowering(18, applies_if=_reset_after, bind=_cell, rounds=True)
def reset_after(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
    backwards: int,
):
    """Multiply all tokens with the weights, then process them one by one; a state is multiplied, then reset."""
    biases = op.Reshape(b, [2, -1])
    bias = op.Slice(biases, [0], [1], [0])
    gates = meaning.LinearLayer(x, op.Transpose(op.Squeeze(w, [0]), perm=[1, 0]), bias)
    recurrence = op.Transpose(op.Squeeze(r, [0]), perm=[1, 0])
    count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    places = op.Unsqueeze(op.Cast(op.Range(0, count, 1), to=6), [1])
    mask = op.Unsqueeze(op.Greater(sequence_lens, places), [2])
    y_h, rows = meaning.GRUTokens(
        count,
        meaning.FirstState(x, r, sequence_lens, initial_h),
        gates,
        mask,
        recurrence,
        None,
        op.Slice(biases, [1], [2], [0]),
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
        backwards=backwards,
    )
    y = meaning.StackedRows(rows, y_h)
    return meaning.KeptWhere(y, op.Unsqueeze(mask, [1])), y_h


OPERATOR = Operator(
    name="GRU",
    meaning=GRU,
    versions=(
        Version(1, lift=_lift_first, spec=_spec),
        *(Version(since, spec=_spec) for since in (3, 7, 14, 22)),
    ),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h"),
    normal=without_full_lengths,
    oracle=oracle,
    adversarial=adversarial,
    longest=LONGEST,
    lowerings=(transposed, both_ways, reset_before, reset_after),
    wider_types=SUMMED,
    nan_defined=propagates,
    infinity_defined=propagates,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        equal_dims=equal_dims(gates=3),
        spreads=False,
        aborts=True,
        nan_undefined=True,
        feeds_back=True,
        overflows_inside=True,
    ),
)
