"""NonZero: the indices of the elements that are not zero, in row-major order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Flow, Trait, Traits


def _ranked(what: Plain, operands: Operands) -> Reason | None:
    """Hold for a known rank, and for elements that are cast to bool."""
    data = first(operands)
    if reason := rank_known(what, operands):
        return reason
    if data.dtype in (None, TensorProto.STRING):
        return Reason("the elements are not known to be numbers", missing=data.dtype is None)
    return None if data.rank else Reason("a scalar has no axis")


def _behind(what: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"behind": Tensor(np.triu(np.ones((first(operands).rank or 0,) * 2, bool), 1))}


@lowering(13, applies_if=_ranked, bind=_behind)
def compressed(x, behind: Sequence[int]):
    """Number the elements, keep the numbers of those that are not zero, and divide these by the steps of the axes."""
    # Mod of onnxruntime 1.32.0 refuses a zero among divisors also where there is nothing to divide.
    shape = op.Max(op.Shape(x), 1)
    steps = op.ReduceProd(op.Where(behind, shape, 1), axes=[1], keepdims=1)
    kept = op.Compress(op.Range(0, op.Size(x), 1), op.Cast(op.Reshape(x, [-1]), to=9), axis=0)
    return op.Mod(op.Div(op.Unsqueeze(kept, [0]), steps), op.Unsqueeze(shape, [1]))


OPERATOR = plain(
    "NonZero",
    (9, 13),
    ("X",),
    lambda x: np.array(np.nonzero(x), dtype=np.int64),
    (compressed,),
    weight=3.0,
    traits=Traits(value_range=value_ranges.positions, floats=(Trait.MOVES,), flow=Flow.BOUNDED),
)
