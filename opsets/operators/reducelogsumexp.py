"""ReduceLogSumExp: the logarithm of the sum of exponentials over some axes."""

from typing import Any

import numpy as np

from opshift.opsets.reduction import reduction

Array = np.ndarray[Any, Any]


def _log_sum_exp(data: Array, **options: Any) -> Array:
    result: Array = np.log(np.sum(np.exp(data), **options))
    return result


OPERATOR = reduction("ReduceLogSumExp", (1, 11, 13, 18, 28), _log_sum_exp)
