"""HardSwish: each element times a share that goes up in a straight line from -3 to 3. Since version 14."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import of_double, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """HardSwish-14: "y = x * max(0, min(1, alpha * x + beta))", "where alpha = 1/6 and beta = 0.5".

    Its function body has alpha as a float, whatever the type.
    """
    wide = x.astype(np.float64)
    return np.asarray((wide * np.clip(wide * float(np.float32(1 / 6)) + 0.5, 0, 1)).astype(x.dtype))


@lowering(18, applies_if=of_double, rounds=True)
def clipped(x):
    """Multiply by a clipped linear function."""
    zero = op.CastLike(0.0, x)
    one = op.CastLike(1.0, x)
    return x * op.Clip(x * op.CastLike(0.16666667163372040, x) + op.CastLike(0.5, x), zero, one)


OPERATOR = plain(
    "HardSwish",
    (14, 22),
    ("X",),
    _oracle,
    (clipped,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, floats=(Trait.COMPOSED,)),
)
