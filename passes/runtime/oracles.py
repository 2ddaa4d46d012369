"""Run the numpy oracles of operators in onnxruntime's child process, under its limits.

The node determines an oracle's cost: an attribute of RoiAlign is the number of points per region. An oracle of a few
numbers may run in this process, if onnxruntime has shown that the results are few: the child process would import onnx
and the operators for it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.operator import Operator
from opshift.passes.base.limits import Limits
from opshift.passes.runtime.ort_models import Array, ExcludedError, RejectedError, RejectionKind, time_is_over
from opshift.passes.runtime.ort_process import result_of, worker
from opshift.passes.runtime.ort_worker import computed as compute
from opshift.passes.runtime.ort_worker import outcome_of


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
    feeds_back = operator.traits is not None and operator.traits.feeds_back
    keywords = {"rounding": rounding} if feeds_back and rounding else {}
    pickled = pickle.dumps((meaning, keywords))
    try:
        if limits.inside and are_few(operands):
            copies = pickle.loads(pickle.dumps(list(operands)))
            arguments = operator.domain, operator.name, pickled, copies, limits.results
            return tuple(result_of(*outcome_of(compute, *arguments)))
        process = worker()
        with process.use(limits.memory):
            return process.compute(operator.domain, operator.name, pickled, list(operands), limits)
    except RejectedError as error:
        if error.why is RejectionKind.REJECTED:
            raise ExcludedError(str(error)) from error
        raise


def are_few(values: Iterable[Any]) -> bool:
    """Return whether values are a few numbers in arrays, or absent."""
    return all(
        value is None or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size <= _FEW)
        for value in values
    )


_FEW = 64
"""The maximum number of elements of an array of a few numbers."""
