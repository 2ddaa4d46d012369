"""Transpose: permute the axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Transpose:
    """The order of the axes; None reverses them."""

    perm: tuple[int, ...] | None = None


def oracle(meaning: Transpose, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Transpose-13: "when perm=(1, 0, 2), given an input tensor of shape (1, 2, 3)", the output has (2, 1, 3)."""
    return data.transpose(meaning.perm)


OPERATOR = Operator(
    name="Transpose",
    meaning=Transpose,
    versions=tuple(Version(since) for since in (1, 13, 21, 23, 24, 25)),
    operands=("data",),
    oracle=oracle,
    idle=lambda meaning, operands: meaning.perm is not None and list(meaning.perm) == sorted(meaning.perm),
    weight=3.0,
    traits=Traits(floats=(Trait.MOVES,), moved=(0,), all_elements=True),
)
