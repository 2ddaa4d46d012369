"""Element types and adversarial values of tensors."""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Domain = Literal["any", "finite", "tame", "unit", "positive", "small", "nonzero", "numeric"]
"""Which values an input may hold: `tame` has infinities but nothing that overflows when squared and summed."""

MOST_SHAPED = 4096
"""Elements of a tensor whose only use is its shape."""

FEEDS = 3
"""Each case is run with this many inputs: ordinary values, ties and zeros of both signs, extremes."""

FLOAT, DOUBLE, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
INT64, INT32, BOOL, STRING = TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING
UINT8, INT8 = TensorProto.UINT8, TensorProto.INT8

NARROW_INTEGERS: dict[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT2: (-2, 1),
    TensorProto.UINT2: (0, 3),
}
FLOATS = (FLOAT, DOUBLE, FLOAT16, BFLOAT16)
_WEIGHTS: dict[int, float] = {
    FLOAT: 9.0,
    DOUBLE: 3.0,
    FLOAT16: 3.0,
    INT64: 3.0,
    INT32: 3.0,
    UINT8: 1.5,
    INT8: 1.5,
    BOOL: 2.0,
    STRING: 2.0,
}

_TIES = (-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.5)
_TAME = (0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-3, 20.0, -30.0, 0.5)
_EXTREME = (*_TAME, 88.8, -88.8, 1e4, -1e4, 3e-8)
_STRINGS = ("", "a", "B", "a b", "äöü", "日本", "A1", "Zz", " x ", "a,b", "user@mail.org")
_NUMERIC = ("0", "1", "-3", "2.5", "-0.5", "1e2", "17")


def elem_types(type_strings: list[str]) -> list[int]:
    """Return the element types of the tensor types among these."""
    return [ELEM_TYPE[text] for text in type_strings if text in ELEM_TYPE]


ELEM_TYPE: dict[str, int] = {
    f"tensor({helper.tensor_dtype_to_string(value).removeprefix('TensorProto.').lower()})": value
    for value in TensorProto.DataType.values()
    if value != TensorProto.UNDEFINED
}


def weight(elem_type: int) -> float:
    """Return how often this element type is drawn, relative to the others."""
    return _WEIGHTS.get(elem_type, 0.7)


def numpy_type(elem_type: int) -> np.dtype[Any]:
    """Return the numpy (or ml_dtypes) type of an element type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def is_float(elem_type: int) -> bool:
    """Return whether this is a floating-point type of 16 bits or more."""
    return elem_type in FLOATS


def is_integer(elem_type: int) -> bool:
    """Return whether this is an integer type of 8 bits or more."""
    return numpy_type(elem_type).kind in "iu"


def sample(
    rng: np.random.Generator, elem_type: int, shape: tuple[int, ...], feed: int, domain: Domain = "any"
) -> Array:
    """Draw a tensor: ordinary values in feed 0, ties and zeros of both signs in feed 1, extremes in feed 2."""
    dtype = numpy_type(elem_type)
    if elem_type == STRING:
        words = _NUMERIC if domain == "numeric" else _STRINGS
        return np.array([words[i] for i in rng.integers(0, len(words), int(np.prod(shape)))], object).reshape(shape)
    if elem_type == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return _integers(rng, dtype, shape, feed, domain)
    if elem_type in NARROW_INTEGERS:
        low, high = NARROW_INTEGERS[elem_type]
        return rng.integers(low, high + 1, shape).astype(np.int32).astype(dtype)
    if dtype.kind == "c":
        return (_floats(rng, FLOAT, shape, feed, "finite") + 1j * _floats(rng, FLOAT, shape, 0, "finite")).astype(dtype)
    return _floats(rng, elem_type, shape, feed, domain)


def _integers(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], feed: int, domain: Domain
) -> Array:
    info = np.iinfo(dtype)
    low = 0 if info.min == 0 or domain == "positive" else -10
    if domain in ("small", "finite"):
        drawn = rng.integers(max(low, -3), 4, shape)
    elif feed == 0:
        drawn = rng.integers(low, 11, shape)
    elif feed == 1:
        drawn = rng.integers(max(low, -1), 3, shape)
    else:
        ends = np.array([info.max, info.max - 1, 0, 1, 2, info.min + 1, info.min], dtype)
        picked: Array = ends[rng.integers(0, 5 if domain == "positive" else 7, shape)]
        drawn = picked
    result = np.asarray(drawn).astype(dtype)
    if domain in ("nonzero", "positive"):
        result = np.where(np.isin(result, (0, -1)), np.ones((), dtype), result).astype(dtype)
    return np.asarray(result).reshape(shape)


def _floats(rng: np.random.Generator, elem_type: int, shape: tuple[int, ...], feed: int, domain: Domain) -> Array:
    dtype = numpy_type(elem_type)
    if domain == "unit":
        drawn = rng.uniform(-1, 1, shape) if feed != 1 else rng.integers(-2, 3, shape) / 2
    elif domain == "small":
        drawn = rng.integers(-3, 4, shape).astype(np.float64)
    elif feed == 0:
        drawn = rng.normal(size=shape) * 2
    elif feed == 1:
        drawn = np.asarray(_TIES)[rng.integers(0, len(_TIES), shape)]
    else:
        drawn = _extremes(rng, elem_type, shape, domain)
    drawn = np.asarray(drawn)
    if domain == "positive":
        drawn = np.abs(drawn) + 1e-2
    elif domain == "nonzero":
        drawn = np.where(drawn == 0, 1.0, drawn)
    with np.errstate(all="ignore"):
        return np.asarray(drawn.astype(dtype)).reshape(shape)


def finfo(dtype: np.dtype[Any]) -> Any:
    """Return the limits of a floating-point type."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _extremes(rng: np.random.Generator, elem_type: int, shape: tuple[int, ...], domain: Domain) -> Array:
    pool = list(_TAME if domain in ("tame", "finite", "positive") else _EXTREME)
    if domain in ("finite", "tame") and is_float(elem_type) and rng.random() < _HUGE:
        pool += _ENDS[elem_type]
    if domain == "any" and is_float(elem_type):
        info = finfo(numpy_type(elem_type))
        pool += [float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal)]
    drawn: Array = np.asarray(pool)[rng.integers(0, len(pool), shape)]
    if domain in ("any", "tame"):
        drawn = np.where(rng.random(shape) < 0.06, np.inf, drawn)
        drawn = np.where(rng.random(shape) < 0.06, -np.inf, drawn)
        drawn = np.where(rng.random(shape) < 0.04, np.nan, drawn)
    return drawn


_HUGE = 0.15
"""How often extremes that are finite reach values whose squares or exponentials the type does not hold."""

_ENDS: dict[int, tuple[float, ...]] = {
    FLOAT: (1e20, -3e38, 1e-25),
    DOUBLE: (1e160, -1e308, 1e-200),
    FLOAT16: (300.0, -6e4, 6e-8),
    BFLOAT16: (1e20, -3e38, 1e-25),
}


def tensor(array: Array, elem_type: int, name: str = "") -> TensorProto:
    """Return an array as TensorProto of this element type."""
    if elem_type == STRING:
        strings: Any = [str(each).encode() for each in array.ravel()]
        return helper.make_tensor(name, elem_type, array.shape, strings)
    made = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    assert made.data_type == elem_type, (made.data_type, elem_type)
    return made
