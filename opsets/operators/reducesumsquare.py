"""ReduceSumSquare: the sum of squares over some axes."""

from typing import Any

import numpy as np

from opshift.opsets.reduction import reduction

Array = np.ndarray[Any, Any]


def _sum_square(data: Array, **options: Any) -> Array:
    result: Array = np.sum(np.square(data), **options)
    return result


OPERATOR = reduction("ReduceSumSquare", (1, 11, 13, 18), _sum_square)
