"""Size: the number of elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits


def by_facts(attributes: Mapping[str, Any], operands: Operands) -> Facts | None:
    """Return how many elements there are, if int64 holds that."""
    size = None if operands[0] is None else operands[0].size
    return None if size is None or size >= 2**63 else constant(np.array(size, dtype=np.int64))


@lowering(13)
def of_shape(data):
    """Multiply the dimensions."""
    return op.ReduceProd(op.Shape(data), keepdims=0)


VERSIONS = (1, 13, 19, 21, 23, 24, 25)
OPERATOR = plain(
    "Size",
    VERSIONS,
    ("data",),
    lambda data: np.array(data.size, dtype=np.int64),
    (of_shape,),
    by_facts=by_facts,
    traits=Traits(value_range=value_ranges.elements, floats=(Trait.MOVES,), flow=Flow.DROPPED),
)
