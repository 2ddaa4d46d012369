"""The steps of GRU, LSTM and RNN: functions, states, cells, and cells over many tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from operators.harness import F16, F32, F64, Array, Case, Table, arr
from opshift.opsets.families.recurrent import Cell
from opshift.opsets.operators import (
    firststate,
    gatefunction,
    grucell,
    grutokens,
    keptwhere,
    linearlayer,
    lstmcell,
    lstmtokens,
    rnncell,
    rnntokens,
    stackedrows,
    stateproduct,
)
from opshift.opsets.operators.gatefunction import GateFunction
from opshift.opsets.registry.plain import Plain

BATCH, HIDDEN = 2, 3
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
MASK = np.array([[[True], [False]]])
LINE = arr([[-4, -1, -0.25], [0.25, 1, 4]])


def drawn(*shape: int, dtype: Any = F32, seed: int = 0) -> Array:
    """Return floats that are not large, so that no function is at its limit."""
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(dtype)


class TestLinearLayer(Table):
    operator = linearlayer.OPERATOR
    tolerance = 1e-6
    cases = (
        Case("product", [drawn(3, 2, 4), drawn(4, 5), None]),
        Case("sum", [drawn(3, 2, 4), drawn(4, 5), drawn(1, 5)]),
        Case("of double", [drawn(3, 2, 4, dtype=F64), drawn(4, 5, dtype=F64), drawn(1, 5, dtype=F64)]),
        Case("of nothing", [drawn(0, 2, 4), drawn(4, 5), drawn(1, 5)]),
    )


class TestKeptWhere(Table):
    operator = keptwhere.OPERATOR
    cases = (
        Case("all", [LINE, None, None]),
        Case("or zeros", [LINE, np.array([[True], [False]]), None]),
        Case("or others", [LINE, np.array([[False], [True]]), -LINE]),
        Case("of double", [LINE.astype(F64), np.array([[False], [True]]), None]),
        Case("of float16", [LINE.astype(F16), np.array([[False], [True]]), None]),
    )


def lengths(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


class TestFirstState(Table):
    operator = firststate.OPERATOR
    cases = (
        *(
            Case(
                f"{tokens} tokens, lengths {given}, {'a state' if state else 'zeros'}, {dtype.__name__}",
                [
                    drawn(tokens, BATCH, 4, dtype=dtype),
                    drawn(1, 4 * HIDDEN, HIDDEN, dtype=dtype),
                    None if given is None else lengths(*given),
                    drawn(1, BATCH, HIDDEN, dtype=dtype) if state else None,
                ],
            )
            for tokens, given, state, dtype in (
                *itertools.product((0, 2), (None, (0, 0)), (True, False), (F32,)),
                (2, (2, 0), True, F32),
                (2, (2, 1), False, F32),
                (2, None, False, F64),
                (2, (1, 0), True, F64),
            )
        ),
        Case("no batch", [drawn(2, 0, 4), drawn(1, HIDDEN, HIDDEN), None, None]),
    )


class TestStackedRows(Table):
    operator = stackedrows.OPERATOR
    cases = (
        Case("some", [drawn(2, 1, BATCH, HIDDEN), drawn(1, BATCH, HIDDEN)]),
        Case("none, of unknown size", [drawn(0, 1, 0, 0), drawn(1, BATCH, HIDDEN)]),
        Case("no batch", [drawn(2, 1, 0, HIDDEN), drawn(1, 0, HIDDEN)]),
        Case("neither", [drawn(0, 1, 0, 0), drawn(1, 0, HIDDEN)]),
    )


NAMES = (
    *("relu", "tanh", "sigmoid", "affine", "leakyrelu", "thresholdedrelu"),
    *("scaledtanh", "hardsigmoid", "elu", "softsign", "softplus"),
)


class TestGateFunction(Table):
    operator = gatefunction.OPERATOR
    tolerance = 1e-6
    # At the threshold itself the text of RNN has x, and ThresholdedRelu, as the kernels of onnxruntime 1.32.0, has 0:
    # no case has it.
    cases = (
        *(
            Case(f"{name}, clip {clip}", [LINE], GateFunction(1, ("tanh", name), (0, 0.75), (0, 0.5), (0, clip)))
            for name, clip in itertools.product(NAMES, (0.0, 2.0))
        ),
        Case("of double", [LINE.astype(F64)], GateFunction(0, ("tanh",), (0,), (0,), (1.5,))),
    )


def cell(name: str, variant: int = 0, *, backwards: int = 0, clip: float = 0.0) -> Cell:
    """Return the cell with the functions of the text."""
    count = {"GRU": 2, "LSTM": 3, "RNN": 1}[name]
    functions = ("sigmoid", "tanh", "tanh")[:count] if count > 1 else ("tanh",)
    return Cell(functions, (0.0,) * count, (0.0,) * count, (clip,) * count, variant, backwards)


def weights(name: str, variant: int, dtype: Any, *, bare: bool) -> list[Array | None]:
    """Return what follows the mask; `bare`: without what may be left out."""
    if name == "RNN":
        return [drawn(HIDDEN, HIDDEN, dtype=dtype)]
    if name == "LSTM":
        peepholes = [None if bare else drawn(1, HIDDEN, dtype=dtype, seed=seed) for seed in range(3)]
        return [drawn(HIDDEN, 4 * HIDDEN, dtype=dtype), *peepholes]
    if variant:
        bias = None if bare else drawn(1, 3 * HIDDEN, dtype=dtype)
        return [drawn(HIDDEN, 3 * HIDDEN, dtype=dtype), None, bias]
    return [drawn(HIDDEN, 2 * HIDDEN, dtype=dtype), drawn(HIDDEN, HIDDEN, dtype=dtype, seed=1), None]


def states(name: str, dtype: Any, batch: int = BATCH) -> list[Array]:
    return [drawn(1, batch, HIDDEN, dtype=dtype, seed=seed) for seed in range(2 if name == "LSTM" else 1)]


def of_one(name: str) -> Iterator[Case]:
    """Yield cases of one token."""
    for variant, masked, bare in itertools.product((0, 1), (False, True), (False, True)):
        if (variant and name == "RNN") or (bare and name == "RNN"):
            continue
        for dtype, clip in ((F32, 0.0), (F32, 0.5), (F64, 0.0)):
            gates = drawn(1, BATCH, GATES[name] * HIDDEN, dtype=dtype)
            mask = MASK if masked else None
            yield Case(
                f"{variant}, masked {masked}, bare {bare}, {dtype.__name__}, clip {clip}",
                [*states(name, dtype), gates, mask, *weights(name, variant, dtype, bare=bare)],
                cell(name, variant, clip=clip),
            )
    yield Case(
        "no batch",
        [*states(name, F32, 0), drawn(1, 0, GATES[name] * HIDDEN), None, *weights(name, 0, F32, bare=True)],
        cell(name),
    )


def of_many(name: str) -> Iterator[Case]:
    """Yield cases of none, one, some and many tokens."""
    for tokens, backwards, masked in itertools.product((0, 1, 3, 130), (0, 1), (False, True)):
        for variant in (0, 1) if tokens == 3 and name != "RNN" else (0,):
            mask = (np.arange(tokens)[:, None] < np.array([tokens, 2]))[..., None]
            yield Case(
                f"{tokens} tokens, backwards {backwards}, masked {masked}, {variant}",
                [
                    np.array(tokens),
                    *states(name, F32),
                    drawn(tokens, BATCH, GATES[name] * HIDDEN),
                    mask if masked else None,
                    *weights(name, variant, F32, bare=not masked),
                ],
                cell(name, variant, backwards=backwards),
                # A Loop without iterations has rows of no dimensions: StackedRows shapes them.
                static=tokens == 0,
            )


BYTES = np.random.default_rng(0).integers(0, 256, (HIDDEN, 4 * HIDDEN), np.uint8)
ZERO = np.array(120, np.uint8)
READ = np.array([[[False], [True]]])
SCALES = np.linspace(0.001, 0.01, 4 * HIDDEN, dtype=F32)


class TestStateProduct(Table):
    operator = stateproduct.OPERATOR
    tolerance = 1e-6
    cases = (
        Case("of floats", [drawn(1, BATCH, HIDDEN), drawn(HIDDEN, 4 * HIDDEN, seed=1)], Plain()),
        Case("of bytes", [drawn(1, BATCH, HIDDEN), BYTES, np.array(0.01, F32), ZERO], Plain()),
        Case("of bytes, some read", [drawn(1, BATCH, HIDDEN), BYTES, np.array(0.01, F32), ZERO, READ], Plain()),
        Case(
            "of int8, scales of columns",
            [drawn(1, BATCH, HIDDEN), (BYTES // 4).astype(np.int8), SCALES, np.zeros(4 * HIDDEN, np.int8), READ],
            Plain(),
        ),
    )


def of_bytes(tokens: int, backwards: int = 0) -> Case:
    """Return a case of bytes, of one token that a cell gets or of many."""
    mask = (np.arange(tokens)[:, None] < np.array([tokens, 2]))[..., None]
    read = (np.arange(tokens)[:, None] <= np.array([tokens, 2]))[..., None]
    return Case(
        f"{tokens} tokens of bytes, backwards {backwards}",
        [
            np.array(tokens),
            *states("LSTM", F32),
            *(drawn(tokens, BATCH, 4 * HIDDEN), None if backwards else mask),
            *(BYTES, None, None, None, np.array(0.01, F32), ZERO, None if backwards else read),
        ],
        cell("LSTM", backwards=backwards),
    )


class TestGRUCell(Table):
    operator = grucell.OPERATOR
    tolerance = 1e-6
    cases = tuple(of_one("GRU"))


class TestLSTMCell(Table):
    operator = lstmcell.OPERATOR
    tolerance = 1e-6
    cases = (*of_one("LSTM"), Case("of bytes", of_bytes(1).arrays[1:], cell("LSTM")))


class TestRNNCell(Table):
    operator = rnncell.OPERATOR
    tolerance = 1e-6
    cases = tuple(of_one("RNN"))


class TestGRUTokens(Table):
    operator = grutokens.OPERATOR
    tolerance = 2e-6
    cases = tuple(of_many("GRU"))


class TestLSTMTokens(Table):
    operator = lstmtokens.OPERATOR
    tolerance = 2e-6
    cases = (*of_many("LSTM"), of_bytes(1), of_bytes(3), of_bytes(130), of_bytes(3, 1))


class TestRNNTokens(Table):
    operator = rnntokens.OPERATOR
    tolerance = 2e-6
    cases = tuple(of_many("RNN"))
