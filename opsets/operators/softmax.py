"""Softmax: exponentials of a row, divided by their sum. The rows are those of Hardmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import rows
from opshift.opsets.families.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, of_softmax
from opshift.opsets.registry.operator import Operator
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def oracle(rows: Rows, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Softmax-13: "Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)"."""
    flat, order, shape = in_rows(rows, x)
    power = np.exp(flat - flat.max(axis=1, keepdims=True, initial=-np.inf))
    return from_rows((power / power.sum(axis=1, keepdims=True)).astype(x.dtype), order, shape)


OPERATOR = Operator(
    name="Softmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=LOWERINGS,
    wider_types=COMPUTED,
    traits=Traits(
        merges=rows,
        value_range=value_ranges.zero_to_one,
        floats=(Trait.SUMS, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.QUOTIENT, of_softmax),
    ),
)
