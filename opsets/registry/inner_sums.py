"""Describe inner sums of operators whose rounding a perturbation of the inputs does not show."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class SumUse(enum.Enum):
    """The use of a row's sum in an operator."""

    LOGARITHM = "logarithm"
    """It returns the logarithm of a sum of exponentials."""
    LESS_LOGARITHM = "less logarithm"
    """It subtracts that logarithm from the row."""
    QUOTIENT = "quotient"
    """It divides by a sum of exponentials."""
    CENTERED = "centered"
    """It subtracts the mean of the row, and divides by the root of a sum of squares."""
    SCALED = "scaled"
    """It divides by the root of a sum of squares."""
    DETERMINANT = "determinant"
    """It adds products of the elements of a square matrix, by elimination or term by term."""
    TRANSFORM = "transform"
    """It adds the last axes times numbers of magnitude 1."""
    INVERSE = "inverse"
    """It adds the last axes times numbers of magnitude 1, and divides by the size of the result."""
    WEIGHED = "weighed"
    """It adds internal numbers from 0 to 1, each times one of its attribute `coefficients`."""
    ATTENTION = "attention"
    """It adds values times exponentials, and divides by the sum of the exponentials: one of each for each key."""


Axes = Callable[[Mapping[str, Any], int, int], Sequence[int]]
"""Returns the axes of rows, from a node's attributes, the rank of its first input (not a scalar), and its opset."""


def along(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return the single axis of a row, by default the last."""
    return (attributes.get("axis", -1) % rank,)


@dataclass(frozen=True)
class InnerSum:
    """The way in which the rounding of a sum affects the result.

    Attributes:
        use: the use of the sum.
        axes: the axes of a row.
        bare: it divides by the spread without an epsilon: the rounding of the mean decides the result of 0 / 0.
        by_channel: scale and bias have one number for each channel, and no dims of a row.
        by_group: a row is a group of channels, num_groups in all, and its axes are those of the data with an axis of
            groups before the channels; scale and bias have a number for each group, or for each channel of it.
        data: returns the rows from the inputs (None: omitted); by default the first input.
        scale: the input that a row is multiplied by; for attention, the keys.
        bias: the input that is added after that.
        epsilon: what the attribute of this name is by default.
        by_squares: kernels of what replaces it subtract the square of the mean from the mean of the squares, and both
            have the same first digits where the mean is large beside the spread (LayerNormalization, onnxruntime
            1.32.0).
        squares_in_double: its own kernel does so. Of float the wider type shows what that loses, and of double nothing.
        statistics: the outputs that are the mean and the inverse standard deviation of the row, beside the first one.
    """

    use: SumUse
    axes: Axes = along
    bare: bool = False
    by_channel: bool = False
    by_group: bool = False
    data: Callable[[Sequence[Any]], Any] = lambda inputs: inputs[0]
    scale: int = 1
    bias: int = 2
    epsilon: float = 1e-5
    by_squares: bool = False
    squares_in_double: bool = False
    statistics: tuple[int, ...] = ()


def values_of(value: int, past: int) -> Callable[[Sequence[Any]], Any]:
    """Return a function that arranges values as rows by key, past values first, from the inputs at two indices."""

    def rows(inputs: Sequence[Any]) -> Any:
        found = [inputs[place] if place < len(inputs) else None for place in (past, value)]
        every = [np.moveaxis(one, -2, 0).reshape(one.shape[-2], -1) for one in found if one is not None and one.size]
        return np.concatenate(every) if every and len({one.shape[1] for one in every}) == 1 else None

    return rows


def from_axis(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return an axis and all following ones."""
    return range(attributes.get("axis", -1) % rank, rank)


def spatial(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return all axes except those of the batch and the channels."""
    return range(2, rank)


def listed(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return the axes in the attribute; by default those of the batch and of an image."""
    return sorted({one % rank for one in attributes.get("axes", (0, 2, 3)) if -rank <= one < rank})


def of_softmax(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return one axis; before opset 13, all following axes belong to the row, and the default was 1."""
    return along(attributes, rank, opset) if opset >= 13 else from_axis({"axis": 1, **attributes}, rank, opset)
