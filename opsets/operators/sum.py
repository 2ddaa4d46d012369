"""Sum: the sum of several tensors; broadcast since 8, of one shape before."""

from __future__ import annotations

import functools

import numpy as np

from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version
from opshift.opsets.plain import Plain


def _one_shape(meaning: Plain, operands: Operands) -> Reason | None:
    """Sum-6: "All inputs and outputs must have the same shape and data type"; the tensors are not broadcast."""
    shapes = {facts.shape for facts in operands if facts is not None}
    one = next(iter(shapes))
    known = len(operands) == 1 or (len(shapes) == 1 and one is not None and None not in one)
    return None if known else Reason("the inputs are not known to have one shape, and it does not broadcast", True)


OPERATOR = Operator(
    name="Sum",
    meaning=Plain,
    versions=(Version(6, given=_one_shape), Version(8), Version(13)),
    operands=(),
    oracle=lambda meaning, *arrays: functools.reduce(np.add, arrays),
    variadic=True,
)
