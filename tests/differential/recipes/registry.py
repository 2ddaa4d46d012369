"""The table of recipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from differential.draw import Draw

Recipe: TypeAlias = Callable[[Draw], None]

RECIPES: dict[str, Recipe] = {}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """Register a recipe for these operators."""

    def register(function: Recipe) -> Recipe:
        for operator in operators:
            RECIPES[operator] = function
        return function

    return register
