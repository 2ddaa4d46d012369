"""MatMul: the product of matrices, or of stacks of them. Version 9 adds integers, 13 bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.merged_axes import Stages, elementwise, in_shape, merged, shape_of
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.shape_hints import matrices
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def oracle(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """MatMul-13: "Matrix product that behaves like numpy.matmul"."""
    if a.dtype.kind in "iu":
        return np.asarray(np.matmul(a, b))
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype))


def _ranks(operands: Operands) -> tuple[int | None, int | None]:
    a, b = (facts or Facts() for facts in operands)
    return a.rank, b.rank


def _two(what: Plain, operands: Operands) -> Reason | None:
    if None in _ranks(operands):
        return Reason("a rank is unknown", missing=True)
    dtype = (operands[0] or Facts()).dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("it is not of float or double", missing=dtype is None)
    return None if _ranks(operands) == (2, 2) else Reason("it is not of two matrices")


@lowering(13, applies_if=_two, rounds=True)
def by_gemm(a, b):
    """Multiply two matrices by Gemm."""
    return op.Gemm(a, b)


def _apart(what: Plain, operands: Operands) -> Reason | None:
    # onnxruntime 1.32.0 adds integers up in double, and they saturate; its MatMul wraps, as integers do.
    dtype = (operands[0] or Facts()).dtype
    if dtype not in FLOATS:
        return Reason("sums of integers may overflow", missing=dtype is None)
    return Reason("a rank is unknown", missing=True) if None in _ranks(operands) else None


def _axes(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """Bind where each operand gets axes of length 1, so that rows, what is summed, and columns each have their own."""
    a, b = _ranks(operands)
    return {
        "behind": (-1,) if b != 1 else (),
        "before": (-3,) if 1 not in (a, b) else (),
        "along": (-2 if b != 1 else -1,),
    }


@lowering(13, applies_if=_apart, bind=_axes, cost=1, rounds=True)
def by_products(a, b, behind: Sequence[int], before: Sequence[int], along: Sequence[int]):
    """Multiply each element of a row by each of a column, and sum."""
    return op.ReduceSum(op.Unsqueeze(a, behind) * op.Unsqueeze(b, before), along, keepdims=0)


def _with_fewer_axes(what: Plain, operands: Operands, most: int) -> Stages | None:
    """Merge axes of the batch, or with a single matrix on the right all but the last axis on the left."""
    a, b = (facts or Facts() for facts in operands)
    if a.shape is None or b.shape is None or min(len(a.shape), len(b.shape)) < 2:
        return None
    if len(b.shape) == 2:
        rows = merged(["row"] * (len(a.shape) - 1) + ["summed"], most)
        return None if rows is None else ((what, (in_shape(a, shape_of(a.shape, rows)), b)),)
    batches = Facts(shape=a.shape[:-2]), Facts(shape=b.shape[:-2])
    found = elementwise(what, batches, most - 2) if most > 2 else None
    if found is None:
        return None
    first, second = (facts.shape or () for facts in found[0][1] if facts is not None)
    return ((what, (in_shape(a, first + a.shape[-2:]), in_shape(b, second + b.shape[-2:]))),)


OPERATOR = plain(
    "MatMul",
    (1, 9, 13),
    ("A", "B"),
    oracle,
    (by_gemm, by_products),
    wider_types=COMPUTED,
    traits=Traits(
        merges=_with_fewer_axes,
        value_range=value_ranges.products_summed,
        floats=(Trait.SUMS,),
        equal_dims=matrices,
        factors=2,
        quantized="QLinearMatMul",
    ),
)
