"""CastLike: the element type of another tensor. Since version 15."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.operators import cast as cast_of
from opshift.opsets.operators.cast import FNUZ, without_unread
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import Reason, lowering, meaning
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class CastLike:
    """The treatment of values that the type cannot hold."""

    saturate: int = 1
    round_mode: str = "up"


def oracle(meaning: CastLike, data: np.ndarray[Any, Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """CastLike-15: "converted to the same data type elements as the second one"."""
    to = TensorProto.STRING if like.dtype == object else helper.np_dtype_to_tensor_dtype(like.dtype)
    return cast_of.oracle(cast_of.Cast(to, meaning.saturate, meaning.round_mode), data)


def normal(meaning: CastLike, operands: Operands) -> tuple[CastLike, Operands]:
    """Leave out what does not count for the type, where that is known."""
    return without_unread(meaning, _type(operands)), operands


def _type(operands: Operands) -> int | None:
    return operands[1].dtype if operands[1] else None


def _not_float8(meaning: CastLike, operands: Operands) -> Reason | None:
    dtype = _type(operands)
    if dtype is None:
        return Reason("the type of the second input is unknown, and versions differ on float8", missing=True)
    return Reason("versions differ on this type") if dtype in FNUZ else None


def _typed(meaning: CastLike, operands: Operands) -> Reason | None:
    return Reason("the type of the second input is unknown", missing=True) if _type(operands) is None else None


def _cast(meaning: CastLike, operands: Operands) -> Mapping[str, Any]:
    return {"to": _type(operands), "saturate": meaning.saturate, "round_mode": meaning.round_mode}


@lowering(13, applies_if=_typed, bind=_cast)
def cast(data, like, to: int, saturate: int, round_mode: str):
    """Cast to the type, which is known."""
    return meaning.Cast(data, to=to, saturate=saturate, round_mode=round_mode)


def _idle(meaning: CastLike, operands: Operands) -> bool:
    dtypes = {None if facts is None else facts.dtype for facts in operands}
    return len(dtypes) == 1 and None not in dtypes


def by_facts(attributes: Mapping[str, Any], operands: Operands) -> Facts | None:
    """Return the elements of the first operand, in the type of the second."""
    data, like = operands[:2]
    unread = (None, TensorProto.STRING, TensorProto.FLOAT8E8M0, *FNUZ)
    if data is None or data.known is None or like is None or like.dtype in unread:
        return None
    return constant(cast_of.oracle(cast_of.Cast(like.dtype, attributes.get("saturate", 1)), data.known), like.dtype)


OPERATOR = Operator(
    name="CastLike",
    meaning=CastLike,
    # Which type it casts to is not in the node, and to two of the float8 types Cast-24 differs from Cast-23.
    versions=tuple(Version(since, applies_if=_not_float8) for since in (15, 19, 21, 23, 24, 25)),
    operands=("input", "target_type"),
    oracle=oracle,
    normal=normal,
    idle=_idle,
    lowerings=(cast,),
    by_facts=by_facts,
    traits=Traits(
        value_range=value_ranges.converted, floats=(Trait.ONCE, Trait.CONVERTS), moved=(0,), all_elements=True
    ),
)
