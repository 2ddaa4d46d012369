"""ai.onnx.ml::CategoryMapper: the integer of a string, or the string of an integer, which is LabelEncoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.ml import labelencoder
from opshift.opsets.ml.labelencoder import LabelEncoder
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.operator import ML, Operands, Operator, Version


@dataclass(frozen=True)
class CategoryMapper(LabelEncoder):
    """Strings and their integers, and the default values; the input's type decides which of them are keys."""

    strings: tuple[str, ...] = ()
    integers: tuple[int, ...] = ()


def _lift(attributes: Mapping[str, Any]) -> CategoryMapper:
    return CategoryMapper(
        strings=tuple(attributes["cats_strings"] or ()),
        integers=tuple(attributes["cats_int64s"] or ()),
        default_int64=attributes["default_int64"],
        default_string=attributes["default_string"],
    )


def normal(what: CategoryMapper, operands: Operands) -> tuple[CategoryMapper, Operands]:
    """Take strings or integers for keys. Of a key that is listed twice, onnxruntime 1.32.0 keeps the last value."""
    dtype = first(operands).type
    if what.keys.size or not dtype:
        return what, operands
    strings, integers = np.array(what.strings, object)[::-1], np.array(what.integers, np.int64)[::-1]
    if dtype == "tensor(string)":
        keys, values, default = strings, integers, np.array(what.default_int64)
    else:
        keys, values, default = integers, strings, np.array(what.default_string, object)
    return CategoryMapper(Tensor(keys), Tensor(values), Tensor(default)), operands


def oracle(what: CategoryMapper, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """CategoryMapper-1: "Converts strings to integers and vice versa"; "the default" is for what is "not mapped"."""
    return labelencoder.oracle(what, x)


OPERATOR = Operator(
    name="CategoryMapper",
    domain=ML,
    meaning=CategoryMapper,
    versions=(Version(1, lift=_lift),),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    fault=labelencoder.fault,
    lowerings=(labelencoder.by_first_hit,),
    facts=labelencoder.value_facts,
    traits=labelencoder.TRAITS,
)
