"""Run the numpy oracles of operators in onnxruntime's child process, under its limits.

The node determines an oracle's cost: an attribute of RoiAlign is the number of points per region.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.operator import Operator
from opshift.passes.base.limits import Limits
from opshift.passes.runtime.ort_models import Array, ExcludedError, RejectedError, RejectionKind, time_is_over
from opshift.passes.runtime.ort_process import worker


def computed(
    operator: Operator,
    meaning: object,
    operands: Sequence[Any],
    limits: Limits,
    rounding: InnerRounding | None = None,
) -> tuple[Array, ...]:
    """Return all outputs of an operator's oracle for these operands; None for an absent one.

    `rounding` perturbs the results in each step of an operator that feeds them back.

    Raises:
        ExcludedError: the oracle does not accept them.
        RejectedError: it does not compute this meaning, or not within the limits.
    """
    if late := time_is_over(limits):
        raise late
    process = worker()
    feeds_back = operator.traits is not None and operator.traits.feeds_back
    keywords = {"rounding": rounding} if feeds_back and rounding else {}
    pickled = pickle.dumps((meaning, keywords))
    with process.use(limits.memory):
        try:
            return process.compute(operator.domain, operator.name, pickled, list(operands), limits)
        except RejectedError as error:
            if error.why is RejectionKind.REJECTED:
                raise ExcludedError(str(error)) from error
            raise
