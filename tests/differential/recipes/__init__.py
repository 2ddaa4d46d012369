"""What is legal for each operator: a recipe draws the attributes and inputs of one node."""

from __future__ import annotations

from differential.draw import Draw, Drawn
from differential.recipes import attention, control, elementwise, moving, neural, quantized, reduction, signal, text
from differential.recipes.registry import RECIPES

__all__ = ["RECIPES", "draw_node"]

_FAMILIES = (attention, control, elementwise, moving, neural, quantized, reduction, signal, text)


def draw_node(draw: Draw) -> Drawn:
    """Draw the node of an operator by its recipe, or as an elementwise operator if it has none."""
    RECIPES.get(draw.operator, elementwise.by_schema)(draw)
    return draw.finish()
