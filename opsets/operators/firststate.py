"""FirstState: the state of a recurrent layer before the first token. Lowerings use it; no model has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FirstState:
    """It has no attributes."""


def oracle(what: FirstState, x: Array, r: Array, lengths: Array | None = None, state: Array | None = None) -> Array:
    """Return the initial state, "If not specified - assumed to be 0"; zeros of a sequence without tokens.

    onnxruntime 1.32.0 returns zeros as the last state of such a sequence, whatever the initial one is.
    """
    if state is None:
        return np.zeros((1, x.shape[1], r.shape[2]), x.dtype)
    some = np.full(x.shape[1], x.shape[0]) if lengths is None else lengths
    return np.where((some > 0)[:, None], state, np.zeros((), x.dtype))


def _facts(what: FirstState, operands: Operands) -> tuple[Facts, ...]:
    x, r = (operands[index] or Facts() for index in (0, 1))
    return (Facts(x.dtype, (1, x.dim(1), r.dim(2))),)


def _none(what: FirstState, operands: Operands) -> Reason | None:
    return None if operands[3] is None else Reason("")


def _tokens(operands: Operands) -> int | None:
    count = None if operands[0] is None else operands[0].dim(0)
    return count if isinstance(count, int) else None


def _given(what: FirstState, operands: Operands) -> Reason | None:
    return None if operands[3] is not None and operands[2] is None and _tokens(operands) else Reason("")


def _of_lengths(what: FirstState, operands: Operands) -> Reason | None:
    return None if operands[3] is not None and operands[2] is not None else Reason("")


def _of_any(what: FirstState, operands: Operands) -> Reason | None:
    return None if operands[3] is not None and operands[2] is None and not _tokens(operands) else Reason("")


@lowering(18, applies_if=_none)
def zeros(x, r, lengths, state):
    """Make zeros."""
    shape = op.Concat([1], op.Shape(x, start=1, end=2), op.Shape(r, start=2, end=3), axis=0)
    return op.Expand(op.CastLike(0.0, x), shape)


@lowering(18, applies_if=_given)
def given(x, r, lengths, state):
    """Return the initial state."""
    return op.Identity(state)


@lowering(18, applies_if=_of_lengths)
def for_lengths(x, r, lengths, state):
    """Return the initial state where a sequence has a token."""
    return op.Where(op.Unsqueeze(op.Greater(lengths, op.CastLike(0, lengths)), [1]), state, op.CastLike(0.0, state))


@lowering(18, applies_if=_of_any)
def for_any_tokens(x, r, lengths, state):
    """Return the initial state where there is a token."""
    return op.Where(op.Greater(op.Shape(x, start=0, end=1), [0]), state, op.CastLike(0.0, state))


OPERATOR = Operator(
    name="FirstState",
    domain="opshift.step",
    meaning=FirstState,
    versions=(),
    operands=("x", "r", "lengths", "state"),
    oracle=oracle,
    lowerings=(zeros, given, for_lengths, for_any_tokens),
    facts=_facts,
)
