"""Det: the determinant of square matrices. Version 22 adds bfloat16."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED

MOST = 4
"""The largest matrices whose terms are added up: 24 of them, and 120 of five rows."""


def oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Det-22: "calculates determinant of a square matrix or batches of square matrices".

    By elimination with the largest pivot of each column; numpy.linalg.det takes the exponential of a logarithm.
    """
    rows = x.astype(np.longdouble).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    made = np.ones(len(rows), np.longdouble)
    every = np.arange(len(rows))
    with np.errstate(all="ignore"):
        for column in range(x.shape[-1]):
            pivot = column + np.abs(rows[:, column:, column]).argmax(axis=1)
            made *= np.where(pivot == column, 1, -1) * rows[every, pivot, column]
            rows[every, pivot], rows[:, column] = rows[:, column].copy(), rows[every, pivot]
            head = rows[:, column, None]
            largest = head[:, :, column, None]
            rows[:, column + 1 :] -= np.where(largest == 0, 0, rows[:, column + 1 :, column, None] / largest) * head
        return np.asarray(made.reshape(x.shape[:-2]).astype(x.dtype))


def _size(operands: Operands) -> int | None:
    x = first(operands)
    sizes = [size for size in (x.dim(-1), x.dim(-2)) if isinstance(size, int)]
    return sizes[0] if x.rank is not None and sizes else None


def _small(what: Plain, operands: Operands) -> Reason | None:
    size, dtype = _size(operands), first(operands).dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("it is not of float or double", missing=dtype is None)
    if size is None:
        return Reason("the size of the matrices is unknown", missing=True)
    return None if 1 <= size <= MOST else Reason(f"its number of terms grows as the factorial, from {MOST} rows on")


def _terms(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """Bind the elements of each term, one of each row and column, and its sign: that of the number of exchanges."""
    size = _size(operands) or 1
    orders = list(itertools.permutations(range(size)))
    exchanged = [sum(one > other for one, other in itertools.combinations(order, 2)) for order in orders]
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or TensorProto.FLOAT)
    stack = (0,) * ((first(operands).rank or 2) - 2)
    return {
        "row": (*stack, size * size),
        "places": Tensor(np.array(orders, np.int64) + np.arange(size) * size),
        "signs": Tensor((1 - 2 * (np.array(exchanged) % 2)).astype(numpy_type)),
    }


@lowering(18, applies_if=_small, bind=_terms, rounds=True)
def by_terms(x, row: Sequence[int], places: Sequence[int], signs: Sequence[int]):
    """Multiply elements of all rows and columns, and add up the products with their signs."""
    products = op.ReduceProd(op.Gather(op.Reshape(x, row), places, axis=-1), [-1], keepdims=0)
    return op.ReduceSum(products * signs, [-1], keepdims=0)


OPERATOR = plain(
    "Det",
    (11, 22),
    ("X",),
    oracle,
    (by_terms,),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), inner_sum=InnerSum(SumUse.DETERMINANT)),
)
