"""A step: the numbers of a few bits that bytes hold, along the last axis, those of the low bits first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class Unpacked:
    """The bits of a number, and the type of the result: a float type, or uint8."""

    bits: int = 4
    dtype: int = TensorProto.FLOAT

    @property
    def places(self) -> np.ndarray[Any, Any]:
        """The lowest bit of each number of a byte."""
        return np.arange(0, 8, self.bits)


def oracle(what: Unpacked, packed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Shift each number to the lowest bits, and mask the others; the last axis of `packed` is 1."""
    numbers = (packed.astype(np.int64) >> what.places) & (2**what.bits - 1)
    return np.asarray(numbers).astype(onnx.helper.tensor_dtype_to_np_dtype(what.dtype))


def _shifts(what: Unpacked, operands: Operands) -> Mapping[str, Any]:
    left = (8 - what.bits - what.places).astype(np.uint8)
    return {"left": Tensor(left), "right": Tensor(np.asarray(8 - what.bits, np.uint8)), "to": what.dtype}


def _whole_bytes(what: Unpacked, operands: Operands) -> Reason | None:
    return None if what.bits == 8 else Reason("")


@lowering(13, applies_if=_whole_bytes, bind=lambda what, operands: {"to": what.dtype})
def of_bytes(packed, to: int):
    """Cast the bytes: each is a number."""
    return op.Cast(packed, to=to)


@lowering(13, bind=_shifts)
def by_shifts(packed, left: Sequence[int], right: Sequence[int], to: int):
    """Shift the bits above a number out of the byte, and those below it."""
    high = op.BitShift(packed, left, direction="LEFT")
    return op.Cast(op.BitShift(high, right, direction="RIGHT"), to=to)


def _powers(what: Unpacked, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(what.dtype)
    own, above = 2.0**-what.places, 2.0 ** -(what.places + what.bits)
    values = {"own": own, "above": above, "size": np.asarray(2.0**what.bits)}
    return {"to": what.dtype, **{name: Tensor(value.astype(dtype)) for name, value in values.items()}}


def _floats(what: Unpacked, operands: Operands) -> Reason | None:
    return None if what.dtype in FLOATS else Reason("it divides, and the result is one of integers")


@lowering(13, applies_if=_floats, bind=_powers)
def by_floors(packed, to: int, own: Sequence[int], above: Sequence[int], size: Sequence[int]):
    """Divide by powers of two, and take what is above a number away: floats hold a byte."""
    wide = op.Cast(packed, to=to)
    return op.Floor(wide * own) - op.Floor(wide * above) * size


def _facts(what: Unpacked, operands: Operands) -> tuple[Facts, ...]:
    shape = (operands[0] or Facts()).shape
    return (Facts(what.dtype, None if shape is None else (*shape[:-1], len(what.places))),)


OPERATOR = Operator(
    name="Unpacked",
    domain="opshift.step",
    meaning=Unpacked,
    versions=(),
    operands=("packed",),
    oracle=oracle,
    lowerings=(of_bytes, by_shifts, by_floors),
    facts=_facts,
)
