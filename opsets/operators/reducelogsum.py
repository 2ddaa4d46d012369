"""ReduceLogSum: the logarithm of the sum over some axes."""

from typing import Any

import numpy as np

from opshift.opsets.reduction import reduction

Array = np.ndarray[Any, Any]


def _log_sum(data: Array, **options: Any) -> Array:
    result: Array = np.log(np.sum(data, **options))
    return result


OPERATOR = reduction("ReduceLogSum", (1, 11, 13, 18, 28), _log_sum)
