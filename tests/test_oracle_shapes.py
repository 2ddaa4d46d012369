"""Oracles reject inputs whose dimensions do not fit each other: on those, results have no meaning.

onnxruntime runs many of them, and what it returns there is no reason to call a conversion wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operators.harness import Array, Case, tables

from opshift.opsets.registry.operator import Operator
from opshift.opsets.registry.shape_hints import NodeShapes, hints_of

HEADS = "Attention", "0:1", "1:1"
"""Queries may have more heads than keys, so that one head of both fits."""


def dims(arrays: tuple[Array | None, ...]) -> tuple[tuple[str, ...] | None, ...]:
    """Name each dimension of each input after both."""
    return tuple(
        None if one is None else tuple(f"{place}:{axis}" for axis in range(one.ndim))
        for place, one in enumerate(arrays)
    )


def equal(operator: Operator, case: Case) -> Iterator[tuple[str, str]]:
    """Yield the dimensions of a case that are to be equal."""
    arrays = tuple(case.arrays)
    known = [None if one is None or one.size > 20 else one.reshape(-1) for one in arrays]
    attributes: dict[str, Any] = dict(vars(meaning(operator, case)))
    node = NodeShapes(dims(arrays), None, attributes, operator.versions[-1].since, lambda place: known[place])
    assert operator.traits is not None
    assert operator.traits.equal_dims is not None
    for one, other in hints_of(operator.traits.equal_dims, node):
        if isinstance(one, str) and isinstance(other, str) and one != other and (operator.name, one, other) != HEADS:
            yield one, other


def meaning(operator: Operator, case: Case) -> Any:
    return operator.meaning() if case.meaning is None else case.meaning


def changed(array: Array, axis: int) -> Array | None:
    """Return an array of one element along an axis, or of two where it had one; None where it has none."""
    length = array.shape[axis]
    if not length:
        return None
    return np.concatenate([array, array], axis=axis) if length == 1 else array.take([0], axis=axis)


def is_related(operator: Operator) -> bool:
    """Return whether it is said of an operator which dimensions of its inputs are equal, and not only spread."""
    own = operator.traits
    return not operator.domain and own is not None and own.equal_dims is not None and not own.spreads


RELATED = {
    name: table
    for name, table in tables().items()
    if is_related(table.operator) and any(any(equal(table.operator, case)) for case in table.cases)
}


@pytest.mark.parametrize("name", RELATED)
def test_an_oracle_rejects_dimensions_that_do_not_fit(name: str) -> None:
    table, tried = RELATED[name], 0
    for case in table.cases:
        for pair in equal(table.operator, case):
            for place, axis in (map(int, dim.split(":")) for dim in pair):
                arrays = list(case.arrays)
                array = arrays[place]
                assert array is not None
                arrays[place] = changed(array, axis)
                if arrays[place] is None:
                    continue
                tried += 1
                with np.errstate(all="ignore"), pytest.raises((ValueError, IndexError)):
                    table.operator.oracle(meaning(table.operator, case), *arrays)
    assert tried


@pytest.mark.parametrize("name", ["Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"])
def test_an_oracle_rejects_kernels_that_kernel_shape_does_not_tell(name: str) -> None:
    """onnxruntime runs the body of what it has no kernel for, which infers the shape from the weights."""
    table = tables()[name]
    weights = table.operator.operands.index("w" if name in ("ConvInteger", "QLinearConv") else "W")
    for case in table.cases:
        what, kernel = meaning(table.operator, case), case.arrays[weights]
        assert kernel is not None
        given = dataclasses.replace(what, kernel_shape=(*kernel.shape[2:-1], kernel.shape[-1] + 1))
        with pytest.raises(ValueError, match=r"kernel|weights"):
            table.operator.oracle(given, *case.arrays)


def test_the_mean_of_nothing_is_not_defined() -> None:
    with pytest.raises(ValueError, match="nothing"):
        tables()["GlobalAveragePool"].operator.oracle(None, np.zeros((1, 2, 0)))
