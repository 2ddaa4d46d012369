"""Scatter: what ScatterElements was called in versions 9 and 10; withdrawn with 11, and lowered as ScatterElements."""

import dataclasses

from opshift.opsets.operators import scatterelements
from opshift.opsets.registry.operator import Version

OPERATOR = dataclasses.replace(
    scatterelements.OPERATOR, name="Scatter", means=scatterelements.OPERATOR, versions=(Version(9),)
)
