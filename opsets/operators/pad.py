"""Pad: grow a tensor at its borders; pads and value are attributes below 11."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.facts import constant
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version

MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True)
class Pad:
    """What the border is filled with: `constant`, `reflect`, `edge` or `wrap`."""

    mode: str = "constant"


def oracle(
    meaning: Pad,
    data: np.ndarray[Any, Any],
    pads: np.ndarray[Any, Any],
    value: np.ndarray[Any, Any] | None = None,
    axes: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Pad-18: "pads should be a 1D tensor of shape [2 * num_axes]", all begins, then all ends."""
    places = range(data.ndim) if axes is None else [int(axis) % data.ndim for axis in axes]
    width = [(0, 0)] * data.ndim
    for index, axis in enumerate(places):
        width[axis] = int(pads[index]), int(pads[index + len(places)])
    inside = tuple(slice(max(-low, 0), data.shape[axis] - max(-high, 0)) for axis, (low, high) in enumerate(width))
    grown = [(max(low, 0), max(high, 0)) for low, high in width]
    if meaning.mode == "constant":
        return np.pad(data[inside], grown, constant_values=0 if value is None else value.item())
    return np.pad(data[inside], grown, mode=meaning.mode)  # type: ignore[call-overload, no-any-return]


def _typed(meaning: Pad, operands: Operands) -> tuple[Pad, Operands]:
    """Give the value, which Pad-2 has as a float attribute, the type of the data."""
    data, pads, value, axes = operands
    known = value.known if value else None
    if known is not None and known.dtype.kind == "f" and known.item() == 0 and not np.signbit(known):
        return meaning, (data, pads, None, axes)  # the default, whatever the type
    if data is None or data.dtype is None or value is None or known is None or value.dtype == data.dtype:
        return meaning, operands
    same = known.astype(onnx.helper.tensor_dtype_to_np_dtype(data.dtype))
    return meaning, (data, pads, constant(same, data.dtype), axes)


def _as_float(meaning: Pad, operands: Operands) -> Reason | None:
    value = operands[2].known if operands[2] else None
    if value is not None and not np.isnan(value).any() and float(np.float32(value.item())) != value.item():
        return Reason(f"its value is a float, which does not hold {value.item()}")
    return _since(2, MODES[:3])(meaning, operands)


def _since(first: int, modes: tuple[str, ...]) -> Callable[[Pad, Operands], Reason | None]:
    def given(meaning: Pad, operands: Operands) -> Reason | None:
        if first > 2 and operands[2] is not None and (operands[0] is None or operands[0].dtype is None):
            return Reason("the type of the data is unknown, which the value must have", missing=True)
        return None if meaning.mode in modes else Reason(f"mode {meaning.mode} came later than {first}")

    return given


OPERATOR = Operator(
    name="Pad",
    meaning=Pad,
    versions=(
        Version(2, given=_as_float, renamed={"constant_value": "value"}),
        *(Version(since, given=_since(since, MODES[:3])) for since in (11, 13, 18)),
        *(Version(since, given=_since(since, MODES)) for since in (19, 21, 23, 24, 25)),
    ),
    operands=("data", "pads", "constant_value", "axes"),
    oracle=oracle,
    normal=_typed,
)
