"""StateProduct: what a state is multiplied with in a recurrent cell, of floats or of bytes. Lowerings use it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import dynamicquantizelinear, matmulinteger
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.plain import Plain

Array = np.ndarray[Any, Any]


def oracle(
    what: Plain, h: Array, r: Array, scale: Array | None = None, zero: Array | None = None, read: Array | None = None
) -> Array:
    """Multiply floats; with a scale quantize the state first, of which rows that are not read are zeros."""
    if scale is None:
        return np.asarray(h @ r)
    kept = h if read is None else np.where(read, h, np.zeros((), h.dtype))
    states, factor, point = dynamicquantizelinear.oracle(what, kept)
    total = matmulinteger.oracle(what, states, r, point, zero)
    return np.asarray(total.astype(np.float64) * (factor.astype(np.float64) * scale)).astype(h.dtype)


def _form(quantized: bool) -> Any:
    def applies_if(what: Plain, operands: Operands) -> Reason | None:
        return None if quantized == (operands[2] is not None) else Reason("")

    return applies_if


@lowering(13, applies_if=_form(False), rounds=True)
def of_floats(h, r, scale, zero, read):
    """Multiply."""
    return op.MatMul(h, r)


@lowering(13, applies_if=_form(True), rounds=True)
def of_bytes(h, r, scale, zero, read):
    """Quantize the state by its range, and multiply integers."""
    return meaning.DynamicQuantizeMatMul(meaning.KeptWhere(h, read), r, scale, zero)


def _facts(what: Plain, operands: Operands) -> tuple[Facts, ...]:
    h, r = operands[0] or Facts(), operands[1] or Facts()
    return (Facts(h.dtype, None if h.shape is None else (*h.shape[:-1], r.dim(-1))),)


OPERATOR = Operator(
    name="StateProduct",
    domain="opshift.step",
    meaning=Plain,
    versions=(),
    operands=("h", "r", "scale", "zero", "read"),
    oracle=oracle,
    lowerings=(of_floats, of_bytes),
    facts=_facts,
)
