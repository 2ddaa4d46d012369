"""ai.onnx.ml::FeatureVectorizer: the features of some tensors side by side, as floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import EVERY, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FeatureVectorizer:
    """The number of features of each tensor: longer ones are cut, and shorter ones padded with zeros."""

    inputdimensions: tuple[int, ...] = ()


def oracle(what: FeatureVectorizer, *inputs: Array) -> Array:
    """FeatureVectorizer-1: "Concatenates input tensors into one continuous output", of floats."""
    columns = []
    for count, x in zip(what.inputdimensions, inputs, strict=True):
        every = x[None] if x.ndim == 1 else x.reshape(len(x), math.prod(x.shape[1:]))
        rows = every[:, :count].astype(np.float32)
        columns.append(np.pad(rows, ((0, 0), (0, count - rows.shape[1]))))
    return np.concatenate(columns, axis=1)


def fault(what: FeatureVectorizer, operands: Operands) -> str | None:
    """Return what is wrong with the number of dimensions."""
    if len(what.inputdimensions) == len(operands):
        return None
    return f"it has {len(operands)} inputs, and inputdimensions of {len(what.inputdimensions)}"


def _whole(what: FeatureVectorizer, operands: Operands) -> Reason | None:
    """Require that each tensor has rows of as many features as it contributes."""
    for facts, count in zip(operands, what.inputdimensions, strict=True):
        if facts is None or facts.shape is None:
            return Reason("a rank is unknown", missing=True)
        if len(facts.shape) != 2:
            return Reason("an input is no matrix")
        if not isinstance(facts.shape[1], int):
            return Reason("the number of features is unknown", missing=True)
        if facts.shape[1] != count:
            return Reason("an input has more features than it contributes, or fewer")
    return None


def _alone(what: FeatureVectorizer, operands: Operands) -> Reason | None:
    return _whole(what, operands) if len(operands) == 1 else Reason("")


def _pair(what: FeatureVectorizer, operands: Operands) -> Reason | None:
    return _whole(what, operands) if len(operands) > 1 else Reason("")


@lowering(13, applies_if=_alone)
def as_floats(x):
    """Cast the only tensor to float."""
    return op.Cast(x, to=1)


@lowering(13, applies_if=_pair, variadic=True)
def joined(first, between, last):
    """Join the tensors, and cast them to float."""
    return op.Cast(op.Concat(first, between, last, axis=1), to=1)


def shape(what: FeatureVectorizer, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows, and that of all features."""
    dims = operands[0].shape if operands and operands[0] else None
    return (None if dims is None else 1 if len(dims) == 1 else dims[0]), sum(what.inputdimensions)


OPERATOR = Operator(
    name="FeatureVectorizer",
    domain=ML,
    meaning=FeatureVectorizer,
    versions=(Version(1),),
    operands=(),
    variadic=True,
    oracle=oracle,
    fault=fault,
    lowerings=(as_floats, joined),
    shape=shape,
    refused="inputs of other dimensions than `inputdimensions`, or that are no matrices",
    traits=Traits(floats=(Trait.CONVERTS,), moved=EVERY, joins=True),
)
