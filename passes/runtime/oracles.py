"""The numpy oracles of operators, which run where onnxruntime does: in its child process, under its limits.

What an oracle takes, a node decides: RoiAlign reads as many points of a region as its attribute says.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from opshift.opsets.registry.operator import Operator
from opshift.passes.base.limits import Limits
from opshift.passes.runtime.ort_models import Array, ExcludedError, RejectedError, RejectionKind, time_is_over
from opshift.passes.runtime.ort_process import worker


def computed(operator: Operator, meaning: object, operands: Sequence[Any], limits: Limits) -> tuple[Array, ...]:
    """Return all outputs that an operator's oracle has for these operands, None where one is absent.

    Raises:
        ExcludedError: the oracle does not accept them.
        RejectedError: it does not compute this meaning, or not within the limits.
    """
    if late := time_is_over(limits):
        raise late
    process = worker()
    with process.use(limits.memory):
        try:
            return process.compute(operator.domain, operator.name, pickle.dumps(meaning), list(operands), limits)
        except RejectedError as error:
            if error.why is RejectionKind.REJECTED:
                raise ExcludedError(str(error)) from error
            raise
