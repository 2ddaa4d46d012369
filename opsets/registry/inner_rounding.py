"""Perturb results inside an oracle, if rounding there reaches later steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class InnerRounding:
    """A perturbation of inner results: each element moves up or down at random.

    Attributes:
        unit: the relative error of an inner result.
        seed: the seed of the directions.
    """

    unit: float
    seed: Sequence[int]

    @functools.cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def moved(self, value: Any, least: float = 0.0) -> Any:
        """Return a perturbed inner result; elements below `least` have the absolute error of that magnitude."""
        units = self.unit * (self._rng.integers(0, 2, size=value.shape) * 2 - 1)
        return (value * (1 + units) + units * np.maximum(least - np.abs(value), 0)).astype(value.dtype)
