"""ai.onnx.ml::LabelEncoder: the value beside the key that an element is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts, Tensor, constant
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Strings, Trait, Traits

Array = np.ndarray[Any, Any]

_TYPES: Mapping[str, Any] = {"int64": np.int64, "float": np.float32, "string": object}


def _vector(values: Sequence[Any], dtype: Any) -> Tensor:
    return Tensor(np.array(values, dtype))


_NONE = Tensor(np.zeros(0, np.int64))


@dataclass(frozen=True)
class LabelEncoder:
    """Keys, their values, and the default value; if a key is listed twice, the first entry counts.

    Of LabelEncoder-1, `keys` and `values` are strings and their places, in the order that the input's type decides.
    """

    keys: Tensor = _NONE
    values: Tensor = _NONE
    default: Tensor = _NONE
    classes: tuple[str, ...] | None = None
    default_int64: int = -1
    default_string: str = "_Unused"


def _lift_classes(attributes: Mapping[str, Any]) -> LabelEncoder:
    return LabelEncoder(
        classes=attributes["classes_strings"] or (),
        default_int64=attributes["default_int64"],
        default_string=attributes["default_string"],
    )


def _listed(attributes: Mapping[str, Any], what: str) -> tuple[Tensor, str]:
    """Return the keys or the values, and their type; a tensor is of the type that it has."""
    tensor = attributes.get(f"{what}_tensor")
    if tensor is not None:
        return Tensor(tensor.array.reshape(-1)), "tensor"
    for suffix, dtype in _TYPES.items():
        values = attributes.get(f"{what}_{suffix}s")
        if values is not None:
            return _vector(values, dtype), suffix
    return _NONE, "int64"


def _lift(attributes: Mapping[str, Any]) -> LabelEncoder:
    keys, _ = _listed(attributes, "keys")
    values, _ = _listed(attributes, "values")
    dtype = values.array.dtype
    tensor = attributes.get("default_tensor")
    if tensor is not None:
        default: Any = tensor.array.reshape(())
    elif dtype.kind == "O":
        default = np.array(attributes["default_string"], object)
    else:
        default = np.array(attributes["default_float" if dtype.kind == "f" else "default_int64"], dtype)
    return LabelEncoder(keys, values, Tensor(default))


def _lift_numbers(attributes: Mapping[str, Any]) -> LabelEncoder:
    """Leave out keys that are NaN, which equal no element; version 4 finds them, in onnxruntime 1.32.0 too."""
    what = _lift(attributes)
    if not _has_nan(what) or what.keys.size != what.values.size:
        return what
    kept = ~np.isnan(what.keys.array)
    return LabelEncoder(Tensor(what.keys.array[kept]), Tensor(what.values.array[kept]), what.default)


def normal(what: LabelEncoder, operands: Operands) -> tuple[LabelEncoder, Operands]:
    """Take the places of classes for the values of strings, and for the keys of integers."""
    dtype = first(operands).type
    if what.classes is None or not dtype:
        return what, operands
    names, places = _vector(what.classes, object), Tensor(np.arange(len(what.classes)))
    if dtype == "tensor(string)":
        return LabelEncoder(names, places, Tensor(np.array(what.default_int64))), operands
    return LabelEncoder(places, names, Tensor(np.array(what.default_string, object))), operands


def oracle(what: LabelEncoder, x: Array) -> Array:
    """LabelEncoder-2: "Maps each element in the input tensor to another value"; NaN is a key like others, from 4 on."""
    keys = what.keys.array
    hits = x[..., None] == keys
    if keys.dtype.kind == "f":
        hits = hits | (np.isnan(x)[..., None] & np.isnan(keys))
    every = np.concatenate([hits, np.ones((*x.shape, 1), bool)], axis=-1)
    return np.asarray(_with_default(what)[every.argmax(axis=-1)])


def _with_default(what: LabelEncoder) -> Array:
    return np.concatenate([what.values.array, what.default.array.reshape(1)])


def fault(what: LabelEncoder, operands: Operands) -> str | None:
    """Return what is wrong with the number of values."""
    keys, values = what.keys.size, what.values.size
    return None if keys == values else f"it has {keys} keys and {values} values"


def _form(nan: bool) -> Callable[[LabelEncoder, Operands], Reason | None]:
    def applies_if(what: LabelEncoder, operands: Operands) -> Reason | None:
        dtype = first(operands).type
        if not dtype:
            return Reason("the element type is unknown", missing=True)
        if dtype != constant(what.keys.array).type:
            return Reason("the keys are of another type than the elements")
        return None if _has_nan(what) == nan else Reason("")

    return applies_if


def _has_nan(what: LabelEncoder) -> bool:
    keys = what.keys.array
    return bool(keys.dtype.kind == "f" and np.isnan(keys).any())


def _bound(what: LabelEncoder, operands: Operands) -> Mapping[str, Any]:
    """Bind the keys with one more, that every element is: the first hit is the key, or that one."""
    keys = what.keys.array
    more = np.concatenate([keys, np.array(["" if keys.dtype == object else 0], keys.dtype)])
    last = np.arange(len(more)) == len(keys)
    return {"keys": Tensor(more), "last": Tensor(last), "values": Tensor(_with_default(what))}


def _nan_bound(what: LabelEncoder, operands: Operands) -> Mapping[str, Any]:
    bound = _bound(what, operands)
    return {**bound, "nans": Tensor(np.isnan(bound["keys"].array))}


@lowering(19, applies_if=_form(False), bind=_bound)
def by_first_hit(x, keys: Sequence[int], last: Sequence[int], values: Sequence[int]):
    """Compare with all keys, and return the value of the first equal key."""
    hits = op.Or(op.Equal(op.Unsqueeze(x, [-1]), keys), last)
    return op.Gather(values, op.ArgMax(op.Cast(hits, to=6), axis=-1, keepdims=0))


@lowering(19, applies_if=_form(True), bind=_nan_bound)
def by_first_hit_or_nan(x, keys: Sequence[int], last: Sequence[int], nans: Sequence[int], values: Sequence[int]):
    """Compare with all keys, including NaN, and return the value of the first equal key."""
    each = op.Unsqueeze(x, [-1])
    hits = op.Or(op.Or(op.Equal(each, keys), op.And(op.IsNaN(each), nans)), last)
    return op.Gather(values, op.ArgMax(op.Cast(hits, to=6), axis=-1, keepdims=0))


def value_facts(what: LabelEncoder, operands: Operands) -> tuple[Facts, ...]:
    """Return the type of the values and the shape of the elements."""
    return (Facts(constant(what.values.array).dtype, first(operands).shape),)


TRAITS = Traits(floats=(Trait.MOVES,), compares=True, bounds=("keys_floats", "keys_tensor"), strings=Strings.LISTED)
"""Those of operators that look elements up."""

OPERATOR = Operator(
    name="LabelEncoder",
    domain=ML,
    meaning=LabelEncoder,
    versions=(Version(1, lift=_lift_classes), Version(2, lift=_lift_numbers), Version(4, lift=_lift)),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=(by_first_hit, by_first_hit_or_nan),
    facts=value_facts,
    traits=TRAITS,
)
