"""Cast: another element type. Since 19 it may saturate (to float8), since 28 it may round another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.axes import first
from opshift.opsets.operator import Operator, Version


@dataclass(frozen=True)
class Cast:
    """The element type wanted, a TensorProto.DataType, and how values that it cannot hold are treated."""

    to: int
    saturate: int = 1
    round_mode: str = "up"


def oracle(meaning: Cast, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cast-13: "Casting from floating point to fixed point: undefined if OOR"; numpy's own way there."""
    return data.astype(onnx.helper.tensor_dtype_to_np_dtype(meaning.to))


OPERATOR = Operator(
    name="Cast",
    meaning=Cast,
    versions=tuple(Version(since) for since in (6, 9, 13, 19, 21, 23, 24, 25, 28)),
    operands=("input",),
    oracle=oracle,
    idle=lambda meaning, operands: first(operands).dtype == meaning.to,
)
