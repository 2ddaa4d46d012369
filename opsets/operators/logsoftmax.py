"""LogSoftmax: the logarithm of Softmax. The rows are those of Hardmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import rows
from opshift.opsets.families.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, of_softmax
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def oracle(rows: Rows, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LogSoftmax-13: "LogSoftmax(input, axis) = Log(Softmax(input, axis=axis))"."""
    flat, order, shape = in_rows(rows, x)
    moved = flat - flat.max(axis=1, keepdims=True, initial=-np.inf)
    return from_rows((moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))).astype(x.dtype), order, shape)


def defined(rows: Rows, operands: Operands) -> bool:
    """Whether a row with a NaN has a result that can be kept, and so one with an infinity, whose difference is NaN.

    onnxruntime's kernel of double takes the logarithm of 1e-20 for a sum that is NaN: 46.05 for a finite element of the
    row, which no logarithm of a probability is (1.32.0).
    """
    return first(operands).dtype not in (TensorProto.DOUBLE, None)


def _not_finite(read: Sequence[Any]) -> bool:
    """Whether a double is NaN, or infinite and above all others."""
    x = read[0]
    return isinstance(x, np.ndarray) and x.dtype == np.float64 and bool((np.isnan(x) | (x == np.inf)).any())


OPERATOR = Operator(
    name="LogSoftmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=LOWERINGS,
    wider_types=COMPUTED,
    nan_defined=defined,
    infinity_defined=defined,
    traits=Traits(
        merges=rows,
        floats=(Trait.SUMS, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.LESS_LOGARITHM, of_softmax),
        meaningless=_not_finite,
    ),
)
