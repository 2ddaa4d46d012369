"""GRU, LSTM and RNN: directions, lengths, states, activations, and the batch as first axis."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper
from running import run, same

import opshift
from operators.harness import F32, F64, Array, Case, Table, converted, feeds_of, outputs_of
from opshift.opsets.operators import gru, lstm, rnn
from opshift.opsets.operators.gru import GRU
from opshift.opsets.operators.lstm import LSTM
from opshift.opsets.operators.rnn import RNN
from opshift.opsets.registry.operator import Operator

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
BATCH, TOKENS, SIZE, HIDDEN = 2, 3, 4, 5


def drawn(name: str, given: str = "", directions: int = 1, layout: int = 0, dtype: Any = F32) -> list[Array | None]:
    """Return arrays for the inputs; of the optional ones those whose letters are given: b, l(engths), h, c, p."""
    rng = np.random.default_rng(0)
    rows = GATES[name] * HIDDEN
    state = (BATCH, directions, HIDDEN) if layout else (directions, BATCH, HIDDEN)
    shapes = {"b": (directions, 2 * rows), "h": state, "c": state, "p": (directions, 3 * HIDDEN)}
    arrays: list[Array | None] = [
        rng.standard_normal((BATCH, TOKENS, SIZE) if layout else (TOKENS, BATCH, SIZE)).astype(dtype),
        rng.standard_normal((directions, rows, SIZE)).astype(dtype),
        rng.standard_normal((directions, rows, HIDDEN)).astype(dtype),
    ]
    for letter in "blhcp" if name == "LSTM" else "blh":
        if letter not in given:
            arrays.append(None)
        elif letter == "l":
            arrays.append(np.array([TOKENS, 1], np.int32))
        else:
            arrays.append(rng.standard_normal(shapes[letter]).astype(dtype))
    while arrays[-1] is None:
        arrays.pop()
    return arrays


def no_length(arrays: list[Array | None]) -> list[Array | None]:
    """Return the same of a first sequence that has no token."""
    arrays[4] = np.array([0, TOKENS], np.int32)
    return arrays


def cases(name: str, make: Any, **other: Any) -> tuple[Case, ...]:
    """Return cases in the layout that onnxruntime runs."""
    every = "blhcp" if name == "LSTM" else "blh"
    directions = {"forward": 1, "reverse": 1, "bidirectional": 2}
    return (
        *(
            Case(f"{direction} {given}", drawn(name, given, count), make(direction=direction, hidden_size=HIDDEN))
            for (direction, count), given in itertools.product(directions.items(), ("", "b", "l", "h", every))
        ),
        Case("other", drawn(name, every), make(hidden_size=HIDDEN, **other)),
        Case("clipped", drawn(name, every), make(hidden_size=HIDDEN, clip=0.5)),
        Case("of no length", no_length(drawn(name, every)), make(hidden_size=HIDDEN)),
        Case("known lengths", drawn(name, "l"), make(hidden_size=HIDDEN, direction="reverse"), known=(4,)),
        *(
            Case(
                f"{direction} {given} of double",
                drawn(name, given, count, dtype=F64),
                make(direction=direction, hidden_size=HIDDEN),
                departs="" if name == "RNN" else "onnxruntime 1.32.0 has no kernel of double, and says so as it runs",
            )
            for direction, count, given in (("forward", 1, "b"), ("bidirectional", 2, every))
        ),
        *(
            Case(
                f"batch first, {direction}",
                drawn(name, every, count, layout=1),
                make(direction=direction, hidden_size=HIDDEN, layout=1),
            )
            for direction, count in directions.items()
        ),
    )


class _Table(Table):
    """onnxruntime 1.32.0 runs no layout 1: lowerings of it are compared with the oracle below."""

    tolerance = 2e-6

    def native_runs(self, case: Case, *, but: Collection[int] = ()) -> dict[int, tuple[list[Array], list[Array]]]:
        return {} if case.meaning.layout else super().native_runs(case, but=but)

    def check_conversion(self, case: Case, source: int, kind: str, target: int) -> None:
        if not case.meaning.layout:
            super().check_conversion(case, source, kind, target)

    # A model that leaves inputs out at the end has fewer operands than the meaning.
    def lifts_to(self, back: Any, whole: Any) -> bool:
        return bool(back.meaning == whole.meaning)


BATCH_FIRST = [
    (operator, given, direction, count)
    for operator in (gru.OPERATOR, lstm.OPERATOR, rnn.OPERATOR)
    for given in ("", "b", "l", "h", "blh", "blhcp")
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2))
]


@pytest.mark.parametrize("target", [7, 13])
@pytest.mark.parametrize(("operator", "given", "direction", "count"), BATCH_FIRST)
def test_the_batch_goes_second_below_14(
    operator: Operator, given: str, direction: str, count: int, target: int
) -> None:
    """onnxruntime 1.32.0 runs no layout 1 itself, so that the oracle of the text judges."""
    arrays = drawn(operator.name, given, count, layout=1)
    case = Case("", arrays, operator.meaning(direction=direction, hidden_size=HIDDEN, layout=1))
    expected = outputs_of(operator, case)
    for used in itertools.product((True, False), repeat=len(expected)):
        if not any(used):
            continue
        model = batch_first(operator, arrays, direction, used)
        there = converted(model, opset=target)
        assert not any(item.name == "layout" for node in there.graph.node for item in node.attribute)
        outputs = run(there, [feeds_of(operator, case)])[0]
        for wanted, got in zip(itertools.compress(expected, used), outputs, strict=True):
            assert same(wanted, got, 2e-6)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("operator", [gru.OPERATOR, lstm.OPERATOR, rnn.OPERATOR], ids=lambda one: one.name)
def test_the_oracle_rejects_each_shape_that_the_text_excludes(operator: Operator, count: int, layout: int) -> None:
    arrays = drawn(operator.name, "blhcp", count, layout)
    assert operator.oracle is not None
    direction = "bidirectional" if count == 2 else "reverse"
    meaning = operator.meaning(direction=direction, hidden_size=HIDDEN, layout=layout)
    operator.oracle(meaning, *arrays)
    for place, array in enumerate(arrays):
        assert array is not None
        for axis in range(array.ndim):
            if place == 0 and axis != 2:
                continue  # the batch and the tokens of X are any
            wrong = [*arrays]
            wrong[place] = np.concatenate((array, array), axis)
            with pytest.raises(ValueError, match="must have"):
                operator.oracle(meaning, *wrong)
        wrong = [*arrays]
        wrong[place] = array[None]
        with pytest.raises(ValueError, match="must have"):
            operator.oracle(meaning, *wrong)


@pytest.mark.parametrize("length", [-1, TOKENS + 1])
@pytest.mark.parametrize("operator", [gru.OPERATOR, lstm.OPERATOR, rnn.OPERATOR], ids=lambda one: one.name)
def test_the_oracle_rejects_lengths_that_sequences_do_not_have(operator: Operator, length: int) -> None:
    arrays = drawn(operator.name, "bl")
    assert operator.oracle is not None
    lengths = arrays[4]
    assert lengths is not None
    lengths[1] = length
    with pytest.raises(ValueError, match="sequence_lens"):
        operator.oracle(operator.meaning(hidden_size=HIDDEN), *arrays)


@pytest.mark.slow
@pytest.mark.parametrize("operator", [gru.OPERATOR, lstm.OPERATOR, rnn.OPERATOR], ids=lambda one: one.name)
def test_inputs_whose_shapes_the_text_excludes_do_not_count(operator: Operator) -> None:
    """No kernel of onnxruntime rejects the original's, and that of the replacement does not run on these."""
    model = batch_first(operator, drawn(operator.name, "h", 2, 1), "bidirectional", (True,))
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    next(one for one in model.graph.node[0].attribute if one.name == "hidden_size").i = 1
    report = opshift.convert(model, opset=13).report
    assert report is not None
    assert [check.verdict for check in report.nodes] == [opshift.Verdict.EQUAL]


def batch_first(operator: Operator, arrays: Sequence[Array | None], direction: str, used: Sequence[bool]) -> Any:
    """Return a model of one node with layout 1 and these outputs."""
    names = ["" if array is None else operator.operands[index] for index, array in enumerate(arrays)]
    outputs = [f"y{index}" if wanted else "" for index, wanted in enumerate(used)]
    node = helper.make_node(
        operator.name, names, outputs, name="node", hidden_size=HIDDEN, layout=1, direction=direction
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), ["n"] * array.ndim)
            for name, array in zip(names, arrays, strict=True)
            if array is not None
        ],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs if name],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


class TestGRU(_Table):
    operator = gru.OPERATOR
    cases = (
        *cases(
            "GRU",
            GRU,
            activations=("HardSigmoid", "ScaledTanh"),
            activation_alpha=(0.3, 0.9),
            activation_beta=(0.4, 1.1),
        ),
        Case("linear before reset", drawn("GRU", "blh"), GRU(hidden_size=HIDDEN, linear_before_reset=1)),
    )


class TestLSTM(_Table):
    operator = lstm.OPERATOR
    cases = (
        *cases("LSTM", LSTM, activations=("Sigmoid", "Softsign", "Relu")),
        Case("input and forget", drawn("LSTM", "blhc"), LSTM(hidden_size=HIDDEN, input_forget=1)),
    )


class TestRNN(_Table):
    operator = rnn.OPERATOR
    cases = cases("RNN", RNN, activations=("Affine",), activation_alpha=(0.5,), activation_beta=(0.1,))
