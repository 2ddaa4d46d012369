"""ai.onnx.ml::ArrayFeatureExtractor: elements of the last axis by their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, indices: Array) -> Array:
    """ArrayFeatureExtractor-1: "Indices are zero-based"; they select "along the last axis". A vector becomes a row."""
    found = x[..., indices.reshape(-1)]
    return found[None] if x.ndim == 1 else found


def _ranked(vector: bool) -> Callable[[Plain, Operands], Reason | None]:
    def applies_if(what: Plain, operands: Operands) -> Reason | None:
        rank = first(operands).rank
        if rank is None:
            return Reason("the rank is unknown", missing=True)
        return None if (rank == 1) == vector else Reason("")

    return applies_if


@lowering(13, applies_if=_ranked(False))
def gathered(x, indices):
    """Gather along the last axis."""
    return op.Gather(x, op.Reshape(indices, [-1]), axis=-1)


@lowering(13, applies_if=_ranked(True))
def gathered_row(x, indices):
    """Gather from the vector as a row."""
    return op.Gather(op.Unsqueeze(x, [0]), op.Reshape(indices, [-1]), axis=-1)


def shape(what: Plain, operands: Operands) -> tuple[Dim, ...] | None:
    """Return all dimensions but the last, then how many indices there are."""
    dims = first(operands).shape
    count = operands[1].size if len(operands) > 1 and operands[1] is not None else None
    return None if not dims else (*(dims[:-1] or (1,)), count)


OPERATOR = Operator(
    name="ArrayFeatureExtractor",
    domain=ML,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "Y"),
    oracle=oracle,
    lowerings=(gathered, gathered_row),
    shape=shape,
    moves_data=True,
    traits=Traits(floats=(Trait.MOVES,), moved=(0,), indices={1: AlongAxis(axis=-1, negative=False)}),
)
