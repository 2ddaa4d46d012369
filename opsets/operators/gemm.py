"""Gemm: a scaled product of two matrices, plus a scaled third. The third may be left out since 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.facts import FLOATS, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Gemm:
    """Two factors, and whether each matrix is transposed."""

    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0  # noqa: N815
    transB: int = 0  # noqa: N815


_Array = np.ndarray[Any, Any]


def oracle(what: Gemm, a: _Array, b: _Array, c: _Array | None = None) -> _Array:
    """Gemm-11: "Y = alpha * A' * B' + beta * C"."""
    one, other = (
        (matrix.T if turned else matrix).astype(np.float64 if a.dtype.kind in "fV" else a.dtype)
        for matrix, turned in ((a, what.transA), (b, what.transB))
    )
    product = one @ other if what.alpha == 1 else (one @ other) * what.alpha
    if c is not None and what.beta:
        product = product + (c if what.beta == 1 else c.astype(one.dtype) * what.beta)
    return np.asarray(product).astype(a.dtype)


def _three(what: Gemm, operands: Operands) -> Reason | None:
    return Reason("it has no form without C") if operands[2] is None else None


def _two(what: Gemm, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("there is a C")
    return dtype_known(what, operands)


def _zero(what: Gemm, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {"zero": Tensor(np.zeros(1, dtype)), "alpha": what.alpha, "turn_a": what.transA, "turn_b": what.transB}


@lowering(18, applies_if=_two, bind=_zero)
def with_zero(a, b, c, zero: Sequence[int], alpha: float, turn_a: int, turn_b: int):
    """Add a zero C with the factor 0."""
    return meaning.Itself(a, b, zero, alpha=alpha, beta=0.0, transA=turn_a, transB=turn_b)


def _scaled(what: Gemm, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if dtype not in FLOATS and (what.alpha, what.beta) != (1.0, 1.0):
        return Reason("integers are multiplied by floats")
    return None


def _without_c(what: Gemm, operands: Operands) -> Reason | None:
    return Reason("there is a C") if operands[2] is not None and what.beta else _scaled(what, operands)


def _with_c(what: Gemm, operands: Operands) -> Reason | None:
    return _scaled(what, operands) if operands[2] is not None and what.beta else Reason("C does not count")


def _factors(what: Gemm, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {
        "alpha": Tensor(np.array(what.alpha, dtype)),
        "beta": Tensor(np.array(what.beta, dtype)),
        "turn_a": (1, 0) if what.transA else (0, 1),
        "turn_b": (1, 0) if what.transB else (0, 1),
    }


@lowering(18, applies_if=_without_c, bind=_factors, rounds=True)
def product(a, b, c, alpha: float, beta: float, turn_a: Sequence[int], turn_b: Sequence[int]):
    """Multiply the matrices, then scale the product."""
    return op.Mul(op.MatMul(op.Transpose(a, perm=turn_a), op.Transpose(b, perm=turn_b)), alpha)


@lowering(18, applies_if=_with_c, bind=_factors, rounds=True)
def product_and_sum(a, b, c, alpha: float, beta: float, turn_a: Sequence[int], turn_b: Sequence[int]):
    """Multiply the matrices, scale the product, and add C, scaled too."""
    scaled = op.Mul(op.MatMul(op.Transpose(a, perm=turn_a), op.Transpose(b, perm=turn_b)), alpha)
    return op.Add(scaled, op.Mul(c, beta))


@of_two
def equal_dims(node: NodeShapes, first: Shape, second: Shape) -> Pairs:
    """Yield the dims over which the matrices are multiplied."""
    if len(first) == len(second) == 2:
        attributes = node.attributes
        yield first[0 if attributes.get("transA") else 1], second[1 if attributes.get("transB") else 0]


OPERATOR = Operator(
    name="Gemm",
    meaning=Gemm,
    versions=(
        *(Version(since, applies_if=_three) for since in (1, 6, 7, 9)),
        Version(11),
        Version(13),
    ),
    operands=("A", "B", "C"),
    oracle=oracle,
    lowerings=(with_zero, product, product_and_sum),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS,), equal_dims=equal_dims, factors=2, quantized="QLinearMatMul"),
)
