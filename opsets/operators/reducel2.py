"""ReduceL2: the root of the sum of squares over some axes."""

from typing import Any

import numpy as np

from opshift.opsets.reduction import reduction

Array = np.ndarray[Any, Any]


def _l2(data: Array, **options: Any) -> Array:
    result: Array = np.sqrt(np.sum(np.square(data), **options))
    return result


OPERATOR = reduction("ReduceL2", (1, 11, 13, 18), _l2)
