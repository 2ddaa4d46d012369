"""Dropout: what training leaves out at random, and inference does not. The mode is an input since 12."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Dropout:
    """The seed of training, and the mask's value for elements that are not dropped.

    `ones`, `zeros`, or `zeros of data`, which are of the type that the data have; `unused` where nobody asks for it.
    """

    seed: int | None = None
    mask: str = "ones"


def oracle(
    what: Dropout,
    data: np.ndarray[Any, Any],
    ratio: np.ndarray[Any, Any] | None = None,
    training_mode: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """Dropout-12: "nothing will be dropped", and "if mask is requested as output it will contain all ones"."""
    if training_mode is not None and training_mode.item():
        raise ValueError("what training leaves out is random")
    if what.mask == "unused":
        return (data,)
    return data, np.full(data.shape, what.mask == "ones", data.dtype if what.mask == "zeros of data" else bool)


def _lift_first(attributes: Mapping[str, Any]) -> Dropout:
    # Dropout-7 does not say what the mask holds: zeros, in onnxruntime 1.31.1, of the type T that the data have.
    return Dropout(mask="zeros of data")


def _training_by_flag(attributes: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    # Dropout-1, Dropout-6: "(int, default 0) if nonzero, run dropout in test mode where the output is simply Y = X."
    return None if attributes["is_test"] else np.array(True)


def _lift_bool(attributes: Mapping[str, Any]) -> Dropout:
    return Dropout(mask="zeros")


def _masked(what: Dropout, used: tuple[bool, ...]) -> Dropout:
    return what if any(used[1:]) else dataclasses.replace(what, mask="unused")


def _training(operands: Operands) -> bool | None:
    """Whether the node trains; None where that is decided at run time."""
    mode = operands[2]
    if mode is None:
        return False
    return None if mode.known is None else bool(mode.known.item())


def _trains(operands: Operands, reason: str) -> Reason | None:
    """Return a reason for what trains, or may do so."""
    trains = _training(operands)
    if trains is None:
        return Reason("training_mode, which must be false, is computed at run time", missing=True)
    return Reason(reason) if trains else None


def normal(what: Dropout, operands: Operands) -> tuple[Dropout, Operands]:
    """Drop the mode and the seed of what does not train."""
    if _training(operands) is not False:
        return what, operands
    return Dropout(mask=what.mask), (*operands[:2], None)


def _masks(mask: str) -> Callable[[Dropout, Operands], Reason | None]:
    def applies_if(what: Dropout, operands: Operands) -> Reason | None:
        if trains := _trains(operands, "it has no mode of training"):
            return trains
        return None if what.mask in (mask, "unused") else Reason(f"its mask is not of {what.mask}")

    return applies_if


def _ones(what: Dropout, operands: Operands) -> Reason | None:
    return None if what.mask in ("ones", "unused") else Reason(f"its mask is not of {what.mask}")


def _write(what: Dropout, operands: Operands) -> Mapping[str, Any]:
    return {} if what.seed is None else {"seed": what.seed}


def _write_nothing(what: Dropout, operands: Operands) -> Mapping[str, Any]:
    return {}


def _inference(what: Dropout, operands: Operands) -> Reason | None:
    if trains := _trains(operands, "what training leaves out is random"):
        return trains
    if what.mask == "zeros of data" and first(operands).dtype is None:
        return Reason("the element type is unknown, which the mask has", missing=True)
    return None


def _mask(what: Dropout, operands: Operands) -> Mapping[str, Any]:
    own = what.mask == "zeros of data"
    return {
        "value": Tensor(np.array(what.mask == "ones", np.int64)),
        "to": first(operands).dtype if own else TensorProto.BOOL,
    }


@lowering(18, applies_if=_inference, bind=_mask)
def copied(data, ratio, training_mode, value: Sequence[int], to: int):
    """Copy the data, and make a mask of one value."""
    return op.Identity(data), op.Cast(op.Expand(value, op.Shape(data)), to=to)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have a ratio "in [0, 1)", and no training, whose results are random."""
    tame = {"ratio": 0.5, "training_mode": False}
    return {
        name: np.full_like(array, tame[name]) if name in tame and array.flags.writeable else array
        for name, array in feeds.items()
    }


OPERATOR = Operator(
    name="Dropout",
    meaning=Dropout,
    versions=(
        *(Version(since, lift=_lift_first, made={"training_mode": _training_by_flag}) for since in (1, 6)),
        Version(7, lift=_lift_first, write=_write_nothing, applies_if=_masks("zeros of data")),
        Version(10, lift=_lift_bool, write=_write_nothing, applies_if=_masks("zeros")),
        *(Version(since, write=_write, applies_if=_ones) for since in (12, 13, 22)),
    ),
    operands=("data", "ratio", "training_mode"),
    oracle=oracle,
    outputs=_masked,
    normal=normal,
    adversarial=adversarial,
    lowerings=(copied,),
    traits=Traits(floats=(Trait.MOVES, Trait.RANDOM)),
)
