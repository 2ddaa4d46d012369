"""Answer questions about single values of a run: their floats, and whether a wide value equals the narrow one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.wider_types import WIDE, is_float, wider
from opshift.passes.runtime.ort_models import Array


def has(value: Any, what: Callable[[Array, float], npt.NDArray[np.bool_]]) -> bool:
    """Return whether a value has floats of a kind; `what` gets them and the largest number of their type."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return False
    return bool(what(value.astype(np.float64), float(ml_dtypes.finfo(value.dtype).max)).any())  # type: ignore[no-untyped-call]


def huge(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers whose square overflows."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest**0.5))


def infinite(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers that are not finite."""
    return np.asarray(~np.isfinite(wide))


def infinity(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the infinities."""
    return np.asarray(np.isinf(wide))


def zero(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the zeros."""
    return np.asarray(wide == 0)


def is_float_array(value: Any) -> bool:
    """Return whether a value is a tensor of floats."""
    return isinstance(value, np.ndarray) and is_float(value.dtype)


def is_widest(value: Any) -> bool:
    """Return whether a value is a tensor of double, which has no wider type."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def is_wide(value: Any) -> bool:
    """Return whether a value is a tensor of a wide type."""
    return isinstance(value, np.ndarray) and value.dtype in WIDE.values()


def is_integer(value: Any) -> bool:
    """Return whether a value is a tensor of integers."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def is_large(value: Array, trait: Trait) -> npt.NDArray[np.bool_]:
    """Return the elements that are not finite, or may overflow when they are multiplied or added."""
    largest = float(ml_dtypes.finfo(value.dtype).max)  # type: ignore[no-untyped-call]
    wide = value.astype(np.float64)
    end = largest**0.5 if trait is Trait.MULTIPLIES else largest / 8
    return np.asarray(~np.isfinite(wide) | (np.abs(wide) > end))


def kernel_type(value: Any) -> type[np.floating[Any]]:
    """Return the type in which kernels compute a function: float for types of 16 bits."""
    return np.float64 if is_widest(value) else np.float32


def as_integers(value: Any, like: Any) -> Any:
    """Return floats as integers of the narrow model's type."""
    if not is_integer(like) or not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        return value.astype(like.dtype)


def adds_exactly(values: Sequence[Any]) -> bool:
    """Return whether all floats are small multiples of one power of two, so that arithmetic on them is exact.

    Thousands of products of two such numbers can be added exactly, in any order. Such numbers include whole numbers,
    halves and quarters.
    """
    arrays = [value for value in values if isinstance(value, np.ndarray) and is_float(value.dtype) and value.size]
    if not arrays:
        return True
    bits = min(-math.log2(float(ml_dtypes.finfo(one.dtype).eps)) for one in arrays)  # type: ignore[no-untyped-call]
    wide = [one.astype(np.float64) for one in arrays]
    if not all(np.isfinite(one).all() for one in wide):
        return False
    largest = max(float(np.abs(one).max()) for one in wide)
    unit = min(1.0, 2.0 ** (math.ceil(math.log2(largest)) - bits // 4)) if largest else 1.0
    return largest <= 2 ** (bits / 4) and unit >= _LEAST_UNIT and all(bool((one % unit == 0).all()) for one in wide)


_LEAST_UNIT = 2.0**-8
"""The least accepted power of two: products of a few such numbers do not underflow, even in float16."""


def shows_rounding(value: Any) -> bool:
    """Return whether a wide run shows that nothing was rounded; double has no wider type, but whole numbers show it."""
    return not (isinstance(value, np.ndarray) and value.dtype == np.float64) or bool((value * 4 % 1 == 0).all())


def same_values(wide: Mapping[str, Any], plain: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return whether the values of these names are the same in a wide run and in the narrow one."""
    return all(_equal(wide[name], plain[name]) for name in names)


def _equal(wide: Any, plain: Any) -> bool:
    """Return whether a wide value equals the narrow one: NaN equals NaN, and the signs of zeros must match."""
    if isinstance(wide, list) and isinstance(plain, list):
        return len(wide) == len(plain) and all(map(_equal, wide, plain))
    if not (isinstance(wide, np.ndarray) and isinstance(plain, np.ndarray)):
        return wide is plain or bool(wide == plain)
    other = wider(plain)
    if wide.shape != other.shape or wide.dtype != other.dtype:
        return False
    if wide.dtype.kind != "f":
        return bool((wide == other).all())
    return bool(
        (((wide == other) & (np.signbit(wide) == np.signbit(other))) | (np.isnan(wide) & np.isnan(other))).all()
    )
