"""Scan: a graph over slices of tensors. Scan-9 has no negative axes; Scan-8, with batches, is another operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import IterationLayout, Traits


@dataclass(frozen=True)
class Scan:
    """The graph's outputs, how many inputs are scanned, along which axes and in which direction."""

    body: tuple[Facts, ...] = ()
    num_scan_inputs: int = 0
    scan_input_axes: tuple[int, ...] | None = None
    scan_input_directions: tuple[int, ...] | None = None
    scan_output_axes: tuple[int, ...] | None = None
    scan_output_directions: tuple[int, ...] | None = None


def oracle(meaning: Scan, *inputs: Any) -> Any:
    """Scan-9: "iterate over one or more scan_input tensors"; there is no numpy for graphs."""
    raise ValueError("the body of Scan is a graph")


def _axes_from_front(meaning: Scan, operands: Operands) -> Reason | None:
    axes = (*(meaning.scan_input_axes or ()), *(meaning.scan_output_axes or ()))
    return Reason("no negative axis is defined") if min(axes, default=0) < 0 else None


OPERATOR = Operator(
    name="Scan",
    meaning=Scan,
    versions=(
        Version(9, applies_if=_axes_from_front),
        *(Version(since) for since in (11, 16, 19, 21, 23, 24, 25)),
    ),
    operands=(),
    oracle=oracle,
    variadic=True,
    traits=Traits(
        iteration=IterationLayout(scanned="num_scan_inputs"),
        grows=True,
        makes_types=(),
    ),
)
