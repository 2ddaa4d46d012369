"""Lowerings and function bodies of inputs without elements, and of rank 0: wherever onnxruntime runs the original.

What an operator becomes is asked once of its own shapes; of the others, only requests that differ there are converted.
A model whose dimensions are not known is loaded once for all shapes of its ranks.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pytest
from running import Array, same, session_of
from single_nodes import Request, Single, converted, distinct, feeds, is_setting, shaped, singles

import opshift

UNDEFINED = {
    "BatchNormalization": "of no batch there is no mean, and the kernel's NaN is not in the text",
    "Compress": "of a condition that selects behind the end of the data, what onnxruntime ignores is not in the text",
    "ConvTranspose": "onnxruntime 1.32.0 dies of a segmentation fault",
    "NonMaxSuppression": "onnxruntime 1.32.0 reads a threshold where there is none; test_boxes.py has no boxes",
    **dict.fromkeys(("GRU", "LSTM", "RNN", "STFT"), "onnxruntime 1.32.0 ends the process"),
    **dict.fromkeys(
        ("CausalConvWithState", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
        "onnxruntime 1.32.0 leaves the products of nothing as the memory was",
    ),
}
"""Operators whose text says nothing of what onnxruntime computes of no elements."""
RATIO = 2e-3
"""The cases have some elements left: it tells wrong places and shapes, test_accuracy.py the rounding."""
CASES = 2
"""How many of an operator's node tests, smallest first and with attributes of their own, lend their shapes."""

Shape = tuple[int, ...]


def chosen(operator: str) -> Sequence[Single]:
    """Return the first node tests of an operator, with different attributes."""
    first = {str(single.model.graph.node[0].attribute): single for single in reversed(singles()[operator])}
    return list(reversed(first.values()))[:CASES]


def variations(single: Single) -> Mapping[tuple[int, ...], Sequence[Sequence[Array]]]:
    """Return, by ranks, the inputs with an axis or two of one or all of them empty, and as scalars."""
    free = [index for index, array in enumerate(single.arrays) if not is_setting(index, array)]
    own = tuple(array.shape for array in single.arrays)
    found: dict[tuple[int, ...], list[Sequence[Array]]] = {}
    for shapes in dict.fromkeys(
        tuple(changed.get(index, own[index]) for index in range(len(own)))
        for changed in changes({index: own[index] for index in free})
    ):
        arrays = [
            np.resize(array, shape).astype(array.dtype) for array, shape in zip(single.arrays, shapes, strict=True)
        ]
        found.setdefault(tuple(map(len, shapes)), []).append(arrays)
    return found


def changes(own: Mapping[int, Shape]) -> Iterator[Mapping[int, Shape]]:
    """Yield other shapes of some inputs."""
    yield from ({index: ()} for index in own)
    yield dict.fromkeys(own, ())
    yield from ({index: emptied(shape, {axis})} for index, shape in own.items() for axis in range(len(shape)))
    ranks = range(max(map(len, own.values()), default=0))
    for axes in (*itertools.combinations(ranks, 1), *itertools.combinations(ranks, 2)):
        yield {index: emptied(shape, set(axes)) for index, shape in own.items()}
    lengths = sorted({dim for shape in own.values() for dim in shape})
    for some in (*itertools.combinations(lengths, 1), *itertools.combinations(lengths, 2)):
        yield {index: tuple(0 if dim in some else dim for dim in shape) for index, shape in own.items()}


def emptied(shape: Shape, axes: set[int]) -> Shape:
    return tuple(0 if place in axes else dim for place, dim in enumerate(shape))


def faults(single: Single, operator: str, *, constants: bool) -> Iterator[str]:
    """Describe what runs otherwise than the original."""
    requests = distinct(
        [shaped(single, single.arrays, known=known, constants=constants) for known in (False, True)], operator
    )
    for inputs in variations(single).values():
        runs = expected(single, inputs, constants=constants)
        if not runs:
            continue
        for number, request in enumerate(requests):
            # Of each shape known, its decomposition and one conversion are enough: others differ in what is older.
            mine = {place for place in range(len(runs)) if not number or place % len(requests) == number}
            yield from compared(single, runs, mine, operator, request, constants=constants)


def expected(
    single: Single, inputs: Sequence[Sequence[Array]], *, constants: bool
) -> Sequence[tuple[Sequence[Array], Sequence[Array]]]:
    """Return the inputs that onnxruntime takes, and what it computes of them."""
    try:
        run = session_of(shaped(single, inputs[0], known=False, constants=constants))
    except Exception:  # onnxruntime does not take these ranks
        return []
    runs = []
    for arrays in inputs:
        try:
            runs.append((arrays, run(feeds(single, arrays))))
        except Exception:  # onnxruntime does not take these shapes
            continue
    return runs


def compared(
    single: Single,
    runs: Sequence[tuple[Sequence[Array], Sequence[Array]]],
    known_ones: Collection[int],
    operator: str,
    request: Request,
    *,
    constants: bool,
) -> Iterator[str]:
    """Describe what differs after the request, dimensions unknown, and known for some of the runs."""
    unknown = converted(shaped(single, runs[0][0], known=False, constants=constants), operator, request)
    whole = unknown and session_of(unknown.model)
    for place, (arrays, wanted) in enumerate(runs):
        known = None
        with contextlib.suppress(opshift.InvalidModelError):  # onnx takes no kernel without elements, for one
            if place in known_ones:
                known = converted(shaped(single, arrays, known=True, constants=constants), operator, request)
        for one, run in ((unknown, whole), (known, known and session_of(known.model))):
            if one is None or run is None:
                continue
            told = f"{single.name} {[array.shape for array in arrays]} {one.how}:"
            try:
                found = run(feeds(single, arrays))
            except Exception as error:
                yield f"{told} {str(error)[:200]}"
                continue
            if not all(same(left, right, RATIO) for left, right in zip(wanted, found, strict=True)):
                yield f"{told} {wanted} {found}"


@pytest.mark.parametrize("operator", sorted(singles().keys() - UNDEFINED.keys()))
def test_lowerings_run_as_the_original(operator: str) -> None:
    wrong: list[str] = []
    for single in chosen(operator):
        settings = any(is_setting(index, array) for index, array in enumerate(single.arrays))
        for constants in (False, True) if settings else (False,):
            wrong += faults(single, operator, constants=constants)
    assert not wrong, "\n".join(wrong[:5])
