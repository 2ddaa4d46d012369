"""com.microsoft::Inverse: inverses of small square matrices, by their cofactors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

LARGEST = 4
"""The largest size with a lowering: cofactors have (n - 1)! terms."""

CONDITION = 64.0
"""The largest condition number of matrices that are compared: rounding takes more digits of the others away."""


def oracle(what: Plain, x: Array) -> Array:
    """Inverse-1: the matrices of the last two axes, each inverted."""
    return np.asarray(np.linalg.inv(x.astype(np.float64)).astype(x.dtype))


def _of(size: int) -> Callable[[Plain, Operands], Reason | None]:
    def applies_if(what: Plain, operands: Operands) -> Reason | None:
        data = first(operands)
        dims = (data.dim(-1), data.dim(-2)) if data.rank and data.rank > 1 else (None, None)
        known = next((dim for dim in dims if isinstance(dim, int)), None)
        if known is None or data.dtype is None:
            return Reason("the size of the matrices or the element type is unknown", missing=True)
        if not 1 <= known <= LARGEST:
            return Reason(f"matrices of {known} rows are larger than {LARGEST}")
        return None if known == size else Reason("")

    return applies_if


def _sign(order: Sequence[int]) -> int:
    return math.prod(-1 if one > other else 1 for one, other in itertools.combinations(order, 2))


def _terms(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """Return which elements each term of each cofactor multiplies, transposed, and the signs of the terms."""
    data = first(operands)
    size = int(next(dim for dim in (data.dim(-1), data.dim(-2)) if isinstance(dim, int)))
    orders = list(itertools.permutations(range(size - 1)))
    factors = np.zeros((size - 1, len(orders), size * size), np.int64)
    signs = np.zeros((len(orders), size * size))
    for place, (column, row) in enumerate(itertools.product(range(size), repeat=2)):
        rows = [one for one in range(size) if one != row]
        columns = [one for one in range(size) if one != column]
        for term, order in enumerate(orders):
            signs[term, place] = (-1) ** (row + column) * _sign(order)
            for factor in range(size - 1):
                factors[factor, term, place] = rows[factor] * size + columns[order[factor]]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 0)
    names = ("one", "two", "three")[: size - 1]
    return {
        "signs": Tensor(signs.astype(dtype)),
        "count": (size * size,),
        "first_row": Tensor(np.arange(size)),
        "first_column": Tensor(np.arange(size) * size),
        **{name: Tensor(factors[at]) for at, name in enumerate(names)},
    }


@lowering(18, applies_if=_of(1), rounds=True)
def of_one(x):
    """Take the reciprocal."""
    return op.Reciprocal(x)


@lowering(18, applies_if=_of(2), bind=_terms, rounds=True)
def of_two(
    x, signs: Sequence[int], count: Sequence[int], first_row: Sequence[int], first_column: Sequence[int],
    one: Sequence[int],
):  # fmt: skip
    """Divide the cofactors of matrices of two rows by the determinant."""
    elements = op.Reshape(x, op.Concat(op.Shape(x, end=-2), count, axis=0))
    cofactors = op.ReduceSum(op.Gather(elements, one, axis=-1) * signs, [-2], keepdims=0)
    products = op.Gather(elements, first_row, axis=-1) * op.Gather(cofactors, first_column, axis=-1)
    return op.Reshape(cofactors / op.ReduceSum(products, [-1], keepdims=1), op.Shape(x))


@lowering(18, applies_if=_of(3), bind=_terms, rounds=True)
def of_three(
    x, signs: Sequence[int], count: Sequence[int], first_row: Sequence[int], first_column: Sequence[int],
    one: Sequence[int], two: Sequence[int],
):  # fmt: skip
    """Divide the cofactors of matrices of three rows by the determinant."""
    elements = op.Reshape(x, op.Concat(op.Shape(x, end=-2), count, axis=0))
    terms = op.Gather(elements, one, axis=-1) * op.Gather(elements, two, axis=-1) * signs
    cofactors = op.ReduceSum(terms, [-2], keepdims=0)
    products = op.Gather(elements, first_row, axis=-1) * op.Gather(cofactors, first_column, axis=-1)
    return op.Reshape(cofactors / op.ReduceSum(products, [-1], keepdims=1), op.Shape(x))


@lowering(18, applies_if=_of(4), bind=_terms, rounds=True)
def of_four(
    x, signs: Sequence[int], count: Sequence[int], first_row: Sequence[int], first_column: Sequence[int],
    one: Sequence[int], two: Sequence[int], three: Sequence[int],
):  # fmt: skip
    """Divide the cofactors of matrices of four rows by the determinant."""
    elements = op.Reshape(x, op.Concat(op.Shape(x, end=-2), count, axis=0))
    pairs = op.Gather(elements, one, axis=-1) * op.Gather(elements, two, axis=-1)
    cofactors = op.ReduceSum(pairs * op.Gather(elements, three, axis=-1) * signs, [-2], keepdims=0)
    products = op.Gather(elements, first_row, axis=-1) * op.Gather(cofactors, first_column, axis=-1)
    return op.Reshape(cofactors / op.ReduceSum(products, [-1], keepdims=1), op.Shape(x))


def singular(inputs: Sequence[Any]) -> bool:
    """Return whether a matrix has no inverse, or one whose digits rounding takes away."""
    (x,) = inputs[:1]
    if not isinstance(x, np.ndarray) or x.ndim < 2 or not x.size:
        return False
    wide = x.astype(np.float64)
    large = np.abs(wide).max()
    if not np.isfinite(wide).all() or not 2.0**-8 < large < 2.0**8:
        return True
    return not bool((np.linalg.cond(wide) < CONDITION).all())


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw matrices with a large diagonal, so that they have an inverse, and exchange rows."""
    made = {}
    for name, array in feeds.items():
        if array.ndim > 1 and array.flags.writeable:
            size = array.shape[-1]
            drawn = rng.uniform(-1, 1, array.shape) + 2 * np.eye(array.shape[-2], size)
            made[name] = drawn[..., rng.permutation(array.shape[-2]), :].astype(array.dtype)
    return made


OPERATOR = Operator(
    name="Inverse",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    lowerings=(of_one, of_two, of_three, of_four),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused="matrices of more than four rows, or of an unknown number",
    traits=Traits(floats=(Trait.SUMS, Trait.COMPOSED), meaningless=singular),
)
