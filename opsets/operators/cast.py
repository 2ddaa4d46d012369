"""Cast: another element type. Since 19 it may saturate (float8), since 24 round in other ways (float8e8m0)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import INTEGERS, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Strings, Trait, Traits, Undefined

FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)
"""Types to which what is too large becomes the largest number of the type, unless `saturate` is 0."""

TYPES: Mapping[str, int] = {name: int(number) for name, number in TensorProto.DataType.items()}
"""Element types by their names, which Cast-1 has."""

_NUMBERS = INTEGERS | {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}

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
    if meaning.to == TensorProto.FLOAT8E8M0:
        return _powers_of_two(meaning, data.astype(np.float64))
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


_LEAST, _MOST = 2.0**-127, 2.0**127
"""The range of float8e8m0, which holds powers of two and NaN: neither zero nor a sign."""


def _powers_of_two(meaning: Cast, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cast-24's table of float8e8m0: numbers out of range become its ends, or NaN where `saturate` is 0."""
    if np.any(np.signbit(x) & ~np.isnan(x)):
        raise ValueError("Cast-24 leaves open what becomes of negative numbers in float8e8m0")
    mantissa, exponent = np.frexp(x)  # from 0.5 on, and below 1
    rounded_up = {"up": mantissa > 0.5, "down": mantissa > 1, "nearest": mantissa >= 0.75}[meaning.round_mode]
    codes = np.clip(exponent - 1 + rounded_up, -127, 127) + 127
    codes = np.where(x < _LEAST, 0, np.where(x > _MOST, 254, codes))
    lost = np.isnan(x) if meaning.saturate else ~((x >= _LEAST) & (x <= _MOST))
    return np.where(lost, 255, codes).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


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
    def applies_if(meaning: Cast, operands: Operands) -> Reason | None:
        apart = meaning.saturate and meaning.to in FNUZ and meaning.infinity != wanted
        return Reason(f"it makes {wanted} of infinity") if apart else None

    return applies_if


def _lift_name(attributes: Mapping[str, Any]) -> Cast:
    # Cast-1: "Strictly must be one of the types from DataType enum in TensorProto", as a string.
    return Cast(TYPES.get(attributes["to"].upper(), TensorProto.UNDEFINED))


def _fault(meaning: Cast, operands: Operands) -> str | None:
    if meaning.to == TensorProto.UNDEFINED:
        return "its attribute to is not the name of an element type"
    return None


def _write(meaning: Cast, operands: Operands) -> Mapping[str, Any]:
    chosen = {"to": meaning.to, "saturate": meaning.saturate, "round_mode": meaning.round_mode}
    return {name: value for name, value in chosen.items() if value != getattr(Cast, name, None)}


def _write_first(meaning: Cast, operands: Operands) -> Mapping[str, Any] | Reason:
    if meaning != Cast(meaning.to):
        return Reason("it has neither saturate nor round_mode")
    return {"to": meaning.to}


def _of_booleans(meaning: Cast, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype != TensorProto.BOOL:
        return Reason("the input is not bool", missing=dtype is None)
    return None if meaning.to in _NUMBERS else Reason("the result is no number")


def _to_booleans(meaning: Cast, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if meaning.to != TensorProto.BOOL:
        return Reason("the result is not bool")
    return None if dtype in _NUMBERS else Reason("the input is not of numbers", missing=dtype is None)


def _one_and_zero(meaning: Cast, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(meaning.to)
    return {"one": Tensor(np.array(1, dtype)), "zero": Tensor(np.array(0, dtype))}


@lowering(13, applies_if=_of_booleans, bind=_one_and_zero)
def selected(x, one: Sequence[int], zero: Sequence[int]):
    """Select 1 or 0."""
    return op.Where(x, one, zero)


@lowering(13, applies_if=_to_booleans)
def not_zero(x):
    """Ask whether a number is not zero; NaN is not."""
    return op.Not(op.Equal(x, op.CastLike(0, x)))


_DETOURS: Mapping[int, tuple[float, ...]] = {
    TensorProto.INT16: (1.5 * 2**7, -1.5 * 2**7, 1.5 * 2**8),
    TensorProto.UINT16: (1.5 * 2**7, 1.5 * 2**8, 1.5 * 2**14),
    TensorProto.INT32: (1.5 * 2**15, -1.5 * 2**15, 1.5 * 2**16),
    TensorProto.UINT32: (1.5 * 2**15, 1.5 * 2**16, 1.5 * 2**31),
    TensorProto.INT64: (1.5 * 2**31, -1.5 * 2**31, 1.5 * 2**32),
    TensorProto.UINT64: (1.5 * 2**31, 1.5 * 2**32, 1.5 * 2**63),
}
"""Numbers that an integer type holds and narrower ones do not, nor their signed or unsigned counterparts."""


OPERATOR = Operator(
    name="Cast",
    meaning=Cast,
    versions=(
        Version(1, lift=_lift_name),
        *(Version(since, write=_write_first) for since in (6, 9, 13)),
        *(Version(since, lift=_below_24, write=_write, applies_if=_infinity("nan")) for since in (19, 21, 23)),
        *(Version(since, write=_write, applies_if=_infinity("largest")) for since in (24, 25, 28)),
    ),
    operands=("input",),
    oracle=oracle,
    normal=normal,
    lowerings=(selected, not_zero),
    fault=_fault,
    idle=lambda meaning, operands: first(operands).dtype == meaning.to,
    of_dims=lambda dim: dim,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.converted,
        floats=(Trait.ONCE, Trait.CONVERTS),
        moved=(0,),
        reads_numbers=(0,),
        landmarks=lambda attributes, constants: _DETOURS.get(attributes.get("to", 0), ()),
        strings=Strings.NUMERALS,
        undefined=Undefined.BEYOND_INTEGERS,
        all_elements=True,
        makes_types=(),
    ),
)
