"""DynamicSlice, an experimental operator of ONNX 1.3 and 1.4: Slice of places that are inputs, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, data: np.ndarray[Any, Any], *places: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """DynamicSlice-1: "slices uses `axes`, `starts` and `ends` inputs to specify the start and end dimension".

    "If a negative value is passed for any of the start or end indices, it represent number of elements before the end".
    """
    starts, ends, axes = (*places, None)[:3]
    assert starts is not None
    assert ends is not None
    cut = [slice(None)] * data.ndim
    for place, axis in enumerate(range(len(starts)) if axes is None else axes):
        cut[axis] = slice(int(starts[place]), int(ends[place]))
    return data[tuple(cut)]


@lowering(13)
def sliced(data, starts, ends, axes):
    """Write it as Slice."""
    return op.Slice(data, starts, ends, axes)


OPERATOR = Operator(
    name="DynamicSlice",
    meaning=Plain,
    versions=(Version(1),),
    operands=("data", "starts", "ends", "axes"),
    oracle=oracle,
    lowerings=(sliced,),
    moves_data=True,
    refused="places that are computed, below opset 10",
    traits=Traits(floats=(Trait.MOVES,), counts=(1, 2, 3)),
)
