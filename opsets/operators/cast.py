"""Cast: another element type. Since 19 it may saturate (float8), since 24 round in other ways (float8e8m0)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Strings, Trait, Traits, Undefined

FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)
"""Types to which what is too large becomes the largest number of the type, unless `saturate` is 0."""

FNUZ = (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ)


@dataclass(frozen=True)
class Cast:
    """The target element type, a TensorProto.DataType, and the treatment of values out of its range.

    `infinity` is what infinity becomes in saturating casts to float8 types that have none: `largest`, or `nan`.
    """

    to: int
    saturate: int = 1
    round_mode: str = "up"
    infinity: str = "largest"


def oracle(meaning: Cast, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cast-13: "Casting from floating point to fixed point: undefined if OOR"; numpy's own way there.

    Of strings, the text says that a "plain floating-point representation" is used, and not how many digits it has;
    these are those of onnxruntime (1.32.0), 8 for every type.
    """
    if meaning.to == TensorProto.STRING:
        return np.array([_text(each) for each in data.ravel()], dtype=object).reshape(data.shape)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(meaning.to)
    if not np.can_cast(data.dtype, dtype, "unsafe"):  # from one narrow type to another
        whole = "int" in data.dtype.name and "int" in dtype.name
        return data.astype(np.int64 if whole else np.float32).astype(dtype)
    found = data.astype(dtype)
    if meaning.to not in FLOAT8 or not meaning.saturate:
        return found
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    wide = data.astype(np.float32)
    found = np.where(np.abs(wide) > largest, (np.sign(wide) * largest).astype(dtype), found)
    return np.where(np.isinf(wide), np.array(np.nan, dtype), found) if meaning.infinity == "nan" else found


def _text(element: Any) -> str:
    if isinstance(element, str):
        return element
    if np.asarray(element).dtype.kind in "biu":
        return str(int(element))
    number = float(element)
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    return "NaN" if math.isnan(number) else f"{number:.8g}"


def without_unread(meaning: Any, to: int | None) -> Any:
    """Leave out what does not count for a type: `saturate` "only applies for float 8 conversion", and `round_mode`
    "only applies to casting to float8e8m0".
    """
    if to is None or to == TensorProto.FLOAT8E8M0:
        return meaning
    kept = meaning.saturate if to in FLOAT8 else 1
    return dataclasses.replace(meaning, saturate=kept, round_mode="up")


def normal(meaning: Cast, operands: Operands) -> tuple[Cast, Operands]:
    """Leave out what does not count for the type."""
    return without_unread(meaning, meaning.to), operands


def _below_24(attributes: Mapping[str, Any]) -> Cast:
    # Cast-19's table has NaN for Inf in the FNUZ columns, Cast-24's has FLT_MAX; no other type differs.
    saturate = attributes.get("saturate", 1)
    return Cast(attributes["to"], saturate, infinity="nan" if saturate and attributes["to"] in FNUZ else "largest")


def _infinity(wanted: str) -> Callable[[Cast, Operands], Reason | None]:
    def given(meaning: Cast, operands: Operands) -> Reason | None:
        apart = meaning.saturate and meaning.to in FNUZ and meaning.infinity != wanted
        return Reason(f"it makes {wanted} of infinity") if apart else None

    return given


def _write(meaning: Cast, operands: Operands) -> Mapping[str, Any]:
    chosen = {"to": meaning.to, "saturate": meaning.saturate, "round_mode": meaning.round_mode}
    return {name: value for name, value in chosen.items() if value != getattr(Cast, name, None)}


def _write_first(meaning: Cast, operands: Operands) -> Mapping[str, Any] | Reason:
    if meaning != Cast(meaning.to):
        return Reason("it has neither saturate nor round_mode")
    return {"to": meaning.to}


OPERATOR = Operator(
    name="Cast",
    meaning=Cast,
    versions=(
        *(Version(since, write=_write_first) for since in (6, 9, 13)),
        *(Version(since, lift=_below_24, write=_write, applies_if=_infinity("nan")) for since in (19, 21, 23)),
        *(Version(since, write=_write, applies_if=_infinity("largest")) for since in (24, 25, 28)),
    ),
    operands=("input",),
    oracle=oracle,
    normal=normal,
    idle=lambda meaning, operands: first(operands).dtype == meaning.to,
    of_dims=lambda dim: dim,
    traits=Traits(
        floats=(Trait.ONCE, Trait.CONVERTS),
        moved=(0,),
        strings=Strings.NUMERALS,
        undefined=Undefined.BEYOND_INTEGERS,
        all_elements=True,
        makes_types=(),
    ),
)
