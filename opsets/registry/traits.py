"""`Traits`: all that verification and analysis need to know of an operator, beside its meaning.

An operator with a file gives its traits there; those of the others are in `schema_only_traits.py`. The defaults hold
for an operator that computes each element by itself, and rounds it once or more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Trait(enum.Enum):
    """What an operator does with floats."""

    MOVES = "moves"
    """Each float of an output is a float of an input, or a constant, bit for bit: zeros keep their sign."""
    SELECTS = "selects"
    """The same but for the sign of a zero. No specification tells zeros apart, and kernels of onnxruntime disagree: Max
    of 0.0 and -0.0 in float16 has one sign at opset 11 and the other at 12 (1.32.0)."""
    SUMS = "sums"
    """It adds up many numbers, in an order that each kernel chooses."""
    ADDS = "adds"
    """It adds two numbers."""
    MULTIPLIES = "multiplies"
    """It multiplies or divides two numbers, so that other orders overflow elsewhere."""
    COMPOSED = "composed"
    """It is defined by several operations, which overflow before the result does."""
    ADDS_ONE = "adds one"
    """It adds 1 to a number that is small beside it, or subtracts it, where other kernels do not: Elu of -1e-38 in
    onnxruntime 1.32.0 is 0.0."""
    PIECEWISE = "piecewise"
    """It is one function below a bound and another above; at the bound no specification tells zeros apart."""
    DIVIDES = "divides"
    """The sign of a zero that it reads is the sign of an infinity that it returns."""
    NORMALIZES = "normalizes"
    """It divides by the spread of its input, which is 0 / 0 where that has none: kernels return NaN or 0."""
    SQUARES = "squares"
    """It divides by the root of a sum of squares: where that overflows, finite numbers become 0. RMSNormalization of
    float does so by its function body, and not in onnxruntime 1.32.0."""
    WEIGHS = "weighs"
    """It takes quotients, roots or powers on the way, so that whole numbers that it returns for whole numbers do not
    show that nothing was rounded: three weights of a third, which add up to 1, make 2.0 or 1.9999999 of three 2."""
    SAMPLES = "samples"
    """It samples between elements: one whose weight is 0 is multiplied by it in one kernel and left out in another,
    which tells only where it is infinite."""
    STEPS = "steps"
    """It returns what it reads, or a number that is the same between two places where it jumps: nothing is rounded."""
    ONCE = "once"
    """It rounds each element once, as IEEE 754 has it, whatever type a kernel computes in: twice the digits and two
    more leave no double rounding of a sum, a product or a quotient (Figueroa, 1995)."""
    CONVERTS = "converts"
    """It rounds each element to another type, and not at all where that holds it."""
    IN_FLOAT = "in float"
    """It computes in float also where the output is double, by the function body that ONNX defines, or in
    onnxruntime (the scale of an inverse DFT, 1.32.0)."""


@dataclass(frozen=True)
class Traits:
    """What an operator does with floats."""

    floats: tuple[Trait, ...] = ()
    floats_by: Callable[[Mapping[str, Any]], tuple[Trait, ...]] | None = None
    """The same, where a node's attributes decide it; an attribute that refers to a function's parameter is None."""
