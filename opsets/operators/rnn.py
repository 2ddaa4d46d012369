"""RNN: one recurrent layer. `layout` came with 14."""

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
    run,
    runs,
    states_of,
    transposed,
    without_full_lengths,
)
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import SUMMED

FUNCTIONS = ("Tanh",)
"""The default activations of a direction."""


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
    *,
    rounding: InnerRounding | None = None,
) -> tuple[Array, ...]:
    """RNN-14: "Ht = f(Xt*(Wi^T) + Ht-1*(Ri^T) + Wbi + Rbi)"."""
    check_shapes(what, 1, (x, w, r, b, sequence_lens, initial_h))
    x = x.swapaxes(0, 1) if what.layout else x
    directions, hidden = w.shape[0], r.shape[2]
    each = functions(what, FUNCTIONS, directions, rounding)
    bias = np.zeros((directions, 2 * hidden), x.dtype) if b is None else b

    def step(direction: int, token: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        total = token @ w[direction].T + states[0] @ r[direction].T
        return (each[direction](total + bias[direction, :hidden] + bias[direction, hidden:]),)

    return run(what, step, x, sequence_lens, [states_of(what, initial_h, directions, x, hidden)])


def _cell(what: RNN, operands: Operands) -> Mapping[str, Any]:
    return dataclasses.asdict(cell(what, FUNCTIONS))


@lowering(18, applies_if=one_direction, bind=_cell, rounds=True)
def token_by_token(
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
    """Multiply all tokens with the weights, then process them one by one."""
    biases = op.Reshape(b, [2, -1])
    bias = op.Add(op.Slice(biases, [0], [1], [0]), op.Slice(biases, [1], [2], [0]))
    gates = meaning.LinearLayer(x, op.Transpose(op.Squeeze(w, [0]), perm=[1, 0]), bias)
    recurrence = op.Transpose(op.Squeeze(r, [0]), perm=[1, 0])
    count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    places = op.Unsqueeze(op.Cast(op.Range(0, count, 1), to=6), [1])
    mask = op.Unsqueeze(op.Greater(sequence_lens, places), [2])
    y_h, rows = meaning.RNNTokens(
        count,
        meaning.FirstState(x, r, sequence_lens, initial_h),
        gates,
        mask,
        recurrence,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
        backwards=backwards,
    )
    y = meaning.StackedRows(rows, y_h)
    return meaning.KeptWhere(y, op.Unsqueeze(mask, [1])), y_h


def _spec(attributes: Mapping[str, Any]) -> RNN:
    names = {field.name for field in dataclasses.fields(RNN)}
    return RNN(**{name: value for name, value in parameters_by_text(attributes).items() if name in names})


def _starts(what: RNN, operands: Operands) -> bool:
    """Whether infinity has a result that can be kept.

    "If not specified - assumed to be 0": 0 * NaN and 0 * infinity are NaN. onnxruntime 1.32.0 leaves the product of R
    and the initial state out where there is no such input, and returns finite numbers of the first token. That is the
    same for an R of finite numbers.
    """
    r = operands[2]
    finite = r is not None and r.known is not None and bool(np.isfinite(r.known.astype(np.float32)).all())
    return runs(what, operands) and (finite or (len(operands) > 5 and operands[5] is not None))


_BOUNDED = {"relu", "thresholdedrelu", "hardsigmoid"}


def _propagates(what: RNN, operands: Operands) -> bool:
    """Whether NaN has a result that can be kept: these functions are 0 for it in onnxruntime 1.32.0's kernel."""
    return _starts(what, operands) and _BOUNDED.isdisjoint(name.lower() for name in what.activations or ())


OPERATOR = Operator(
    name="RNN",
    meaning=RNN,
    versions=tuple(Version(since, spec=_spec) for since in (1, 7, 14, 22)),
    operands=("X", "W", "R", "B", "sequence_lens", "initial_h"),
    normal=without_full_lengths,
    oracle=oracle,
    adversarial=adversarial,
    longest=LONGEST,
    lowerings=(transposed, both_ways, token_by_token),
    wider_types=SUMMED,
    nan_defined=_propagates,
    infinity_defined=_starts,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        equal_dims=equal_dims(gates=1),
        spreads=False,
        aborts=True,
        nan_undefined=True,
        feeds_back=True,
        overflows_inside=True,
    ),
)
