"""How much CPU time a comparison takes, and what is tried with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import opshift
from opshift.passes.base import effort
from opshift.passes.base.arguments import EFFORTS
from opshift.passes.base.effort import Allowance
from opshift.passes.base.errors import UsageError
from opshift.passes.base.report import Verdict
from opshift.passes.proof.comparison import Comparison, Excluded, Reference
from opshift.passes.proof.node_pairs import ENOUGH, compare_pairs
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.rounding.bound import Bound
from opshift.passes.proof.verify import verify
from opshift.passes.runtime import ort_process


def model(graph: str, opset: int = 13) -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {graph}')


ROOT = Path(__file__).parents[1]
SMALL = "g (float[n,4] x) => (float[n,4] y) { a = Relu(x) y = Hardmax<axis = 1>(a) }"


def convolutions(scale: float = 1.0) -> onnx.ModelProto:
    """Return a model that takes some milliseconds for each element of its batch."""
    random, nodes, weights, value = np.random.default_rng(0), [], [], "x"
    for place in range(6):
        weight = random.standard_normal((16, 16 if place else 1, 9)).astype(np.float32) * np.float32(0.1)
        weights.append(numpy_helper.from_array(weight * np.float32(scale if place == 5 else 1.0), f"w{place}"))
        nodes.append(helper.make_node("Conv", [value, f"w{place}"], [f"c{place}"], pads=[4, 4]))
        nodes.append(helper.make_node("Relu", [f"c{place}"], [value := f"v{place}"]))
    given, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", channels, 12_000])
        for name, channels in (("x", 1), (value, 16))
    )
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def other(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same model with a node more, which does nothing."""
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    found.graph.node[0].input[0] = "same"
    found.graph.node.insert(0, helper.make_node("Identity", ["x"], ["same"]))
    return found


def test_a_pause_during_the_first_input_leaves_the_others() -> None:
    """The garbage collector of a large process takes tenths of a second, and inputs of a node thousandths."""
    used = [0.0]
    pace = Allowance(lambda: used[0], least=effort.LEAST_OF_NODE).pace(0.01)
    pace.start()
    used[0] += 0.3
    assert pace.doubts(4)
    pace.again()
    used[0] += 0.002
    assert not pace.doubts(4)
    pace.ran(4)
    assert all(pace.take(4) for _ in range(100))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"effort": "hard"}, "effort is one of quick, normal, thorough, not 'hard'"),
        ({"effort": None}, "effort is one of quick, normal, thorough, not None"),
        ({"max_time": 0}, "max_time is a number of seconds, more than 0, not 0"),
        ({"max_time": float("nan")}, "max_time is a number of seconds"),
        ({"max_time": True}, "max_time is a number of seconds"),
        ({"max_time": "5"}, "max_time is a number of seconds"),
    ],
)
def test_an_effort_or_a_time_that_is_none_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        verify(model(SMALL), model(SMALL), **asked)
    with pytest.raises(UsageError, match=words):
        opshift.convert(model(SMALL), opset=12, **asked)


def test_the_report_has_the_effort() -> None:
    report = opshift.convert(model(SMALL), opset=12, effort="quick", max_time=500.0).report
    assert report is not None
    assert (report.effort, report.max_time, report.verdict) == ("quick", 500.0, Verdict.EQUAL)
    assert {"effort": "quick", "max_time": 500.0}.items() <= report.to_json().items()


def test_a_small_model_gets_all_inputs_and_always_the_same() -> None:
    before, after = model(SMALL), other(model(SMALL))
    (count,) = {verify(before, after).whole.inputs for _ in range(3)}
    assert count >= 160


ORACLES = """onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 13]> g (double[2,3,2,2] x) => (double[2,3,2,2] y) '
    '{ y = MeanVarianceNormalization(x) }'
)"""
"""A model whose reference is a numpy oracle."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "operator"),
    [('"fixtures/argmax-int64-opset13.onnxtxt"', "ArgMax"), (ORACLES, "MeanVarianceNormalization")],
)
def test_the_first_comparison_of_a_process_gets_as_many_inputs_as_others(source: str, operator: str) -> None:
    code = f"""
import onnx.parser, opshift
for _ in range(2):
    report = opshift.convert({source}, decompose=["{operator}"]).report
    print(report.whole.inputs, *(check.inputs for check in report.nodes))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    (counts,) = set(done.stdout.splitlines())
    assert counts == "160 100"


def test_a_costly_model_gets_fewer_inputs() -> None:
    before = convolutions()
    start = ort_process.seconds()
    report = verify(before, other(before))
    used = ort_process.seconds() - start
    assert report.verdict is Verdict.EQUAL
    assert 3 <= report.whole.inputs < 160  # most of them without elements, which cost nothing
    assert used < 3 * effort.LEAST


@pytest.mark.slow
def test_more_effort_tries_more_inputs() -> None:
    before, after = model(SMALL), other(model(SMALL))
    quick, thorough = (verify(before, after, effort=name).whole.inputs for name in ("quick", "thorough"))
    assert 54 <= quick < 160 < 300 < thorough
    assert [Allowance(lambda: 0.0, name).total / effort.LEAST for name in EFFORTS] == [1 / 3, 1, 10]


@pytest.mark.slow
def test_a_difference_is_found_whatever_the_effort() -> None:
    for name in ("quick", "normal"):
        whole = verify(convolutions(), convolutions(1.5), effort=name).whole
        assert whole.verdict is Verdict.DIFFERENT


def test_the_time_that_is_given_ends_the_search_for_inputs() -> None:
    report = verify(model(SMALL), other(model(SMALL)), max_time=1e-9)
    assert (report.verdict, report.whole.inputs) == (Verdict.EQUAL, 3)


def test_inputs_that_cost_more_than_is_left_are_not_taken() -> None:
    clock = [0.0]
    allowance = Allowance(lambda: clock[0])
    pace = allowance.pace(opening=0.125)

    def run(elements: int, seconds: float) -> None:
        pace.start()
        clock[0] += seconds
        pace.ran(elements)

    assert pace.take(10)
    run(10, 0.25)
    bare = 2 * (0.125 + 0.25)
    assert allowance.total == max(effort.LEAST, effort.TIMES * bare)
    taken = 0
    while pace.take(10):
        taken += 1
    assert 0 < taken * 0.25 * 3 < allowance.total
    assert not pace.take(1000)


def test_measured_times_are_powers_of_two() -> None:
    assert [effort.rounded(one) for one in (0.0, 0.13, 0.24, 0.25, 0.26)] == [1 / 4096, 0.25, 0.25, 0.25, 0.5]


def failing(count: int) -> tuple[Pair, ...]:
    """Return pairs of nodes of as many kinds that all differ."""
    texts = (
        f"g (float[n,{place + 1},32,32] x) => (float[n,{place + 1},a,b] y) {{ "
        f"s = Constant<value = float[4] {{1,1,2,2}}>() "
        f'y = Resize<mode = "MODE", coordinate_transformation_mode = "asymmetric">(x, , s) }}'
        for place in range(count)
    )
    pairs = ((model(text.replace("MODE", "cubic")), model(text.replace("MODE", "linear"))) for text in texts)
    return tuple(
        Pair(f"main/{place}", "Resize-13", original, rewritten) for place, (original, rewritten) in enumerate(pairs)
    )


@pytest.mark.slow
def test_nodes_that_fail_end_the_comparison_early() -> None:
    pairs = failing(40)
    began = ort_process.seconds()
    checks = compare_pairs(pairs)
    several = ort_process.seconds() - began
    verdicts = [check.verdict for check in checks]
    assert verdicts == [Verdict.DIFFERENT] * ENOUGH + [Verdict.UNCHECKED] * (40 - ENOUGH)
    assert {check.reason for check in checks[ENOUGH:]} == {"it was not compared, since 5 other nodes differ"}
    assert several < ENOUGH * 3 * effort.LEAST_OF_NODE
    proto, other_proto = model(SMALL), other(model(SMALL))
    report = verify(proto, other_proto, pairs=pairs)
    assert (report.verdict, report.whole.reason) == (Verdict.DIFFERENT, "it was not compared, since nodes differ")
    assert compare_pairs((*pairs[: ENOUGH - 1], pairs[0], *pairs[:1]))[-1].verdict is Verdict.DIFFERENT, "it is known"


def test_further_kinds_of_an_operator_get_a_smaller_part() -> None:
    clock = [0.0]
    whole = Allowance(lambda: clock[0])
    first, fourth, last = (whole.part(effort.LEAST_OF_NODE, 1 / place) for place in (1, 4, 400))
    for part in (first, fourth, last):
        part.measure(1.0)
    assert (first.total, fourth.total, last.total) == (effort.TIMES, effort.TIMES / 4, 1.0)


def test_a_leap_in_size_is_expected_to_take_as_much_as_the_square() -> None:
    clock = [0.0]
    pace = Allowance(lambda: clock[0], least=1.0).pace(opening=0.0)
    assert pace.take(10)
    pace.start()
    clock[0] += 1 / 512
    pace.ran(10)
    assert pace.take(300), "it costs nothing yet"
    assert not pace.take(300_000), "it may take minutes"


@pytest.mark.slow
def test_many_nodes_of_an_operator_with_other_attributes_take_little_each() -> None:
    def resizes(count: int) -> onnx.ModelProto:
        calls = " ".join(
            f'r{place} = Resize<mode = "linear", antialias = 1, cubic_coeff_a = {-0.6 - place / 1000}>(x, , s)'
            for place in range(count)
        )
        names = ", ".join(f"r{place}" for place in range(count))
        graph = "g (float[n,3,16,16] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 1.5, 1.5}>"
        return model(f"{graph} {{ {calls} y = Sum({names}) }}", 18)

    took = []
    for proto in (resizes(1), resizes(1), resizes(120)):
        began = ort_process.seconds()
        report = opshift.convert(proto, opset=19, verify="nodes").report
        took.append(ort_process.seconds() - began)
        assert report is not None
        assert {check.verdict for check in report.nodes} == {Verdict.EQUAL}
    assert took[2] < 40 * took[1]


class Answers:
    """An executor that returns `answer` for every input, and 5 for the inputs below `others`."""

    name, modes = "answers", (False,)

    def __init__(self, answer: Any, others: int = 0) -> None:
        self.answer, self.others = answer, others

    def run(self, feeds: Mapping[str, Any], optimised: bool) -> tuple[Any, ...]:
        return (np.array([5 if feeds["x"][0] < self.others else self.answer], np.float32),)

    def run_all(self, batch: Sequence[Mapping[str, Any]], optimised: bool) -> list[Any]:
        return [self.run(feeds, optimised) for feeds in batch]

    def close(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize(("undefined", "counted"), [(0, True), (1, True), (7, True), (9, True), (10, False)])
def test_an_input_whose_result_is_undefined_is_not_the_one_that_is_measured(undefined: int, counted: bool) -> None:
    """Rounding is measured on one input however late it is: the first of eight on which the result
    is defined, and the two of the others where the results are furthest apart."""
    trials = [({"x": np.full(1, place)}, (np.full(1, 2, np.float32),)) for place in range(14)]
    used, last = [0.0], trials[-1][0]
    near = np.nextafter(np.float32(2), np.float32(3))

    class Late(Answers):
        def run_all(self, batch: Sequence[Mapping[str, Any]], optimised: bool) -> list[Any]:
            used[0] = 1e6 if any(feeds is last for feeds in batch) else 0.0
            return super().run_all(batch, optimised)

    comparison = Comparison(
        Reference(Answers(2), ("y",), bounds=lambda feeds, plain, enough: [Bound(float(near) - 2)]),
        Late(near, undefined),
        lambda feeds, optimised: Excluded(frozenset("y" if feeds["x"][0] < undefined else "")),
        allowance=Allowance(lambda: used[0]),
    )
    assert comparison.run(trials) is None
    assert comparison.unmeasured
    assert comparison.compared(trials) is counted


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(0.0, -0.0), (0.0, 1e-30), (np.inf, np.nan), (2.0, np.nextafter(np.float32(2), np.float32(3)))],
    ids=["sign of zero", "of zero", "not finite", "value"],
)
@pytest.mark.parametrize("wrong", [1, 5, 13])
def test_what_is_right_hides_no_wrong_value(expected: float, actual: float, wrong: int) -> None:
    """When time is up, an input on which the results are far apart is measured, whatever others differ by."""
    answers = {place: np.array([expected], np.float32) for place in range(14)} | {wrong: np.full(1, 3, np.float32)}
    results = {place: np.array([actual], np.float32) for place in answers} | {wrong: np.full(1, 4, np.float32)}
    used = [0.0]

    class Answering(Answers):
        def run(self, feeds: Mapping[str, Any], optimised: bool) -> tuple[Any, ...]:
            used[0] = 1e6 * (feeds["x"][0] == 13)
            return (self.answer[int(feeds["x"][0])],)

    comparison = Comparison(
        Reference(
            Answers(None),
            ("y",),
            bounds=lambda feeds, plain, enough: [Bound(1e-6, huge=True, wild=True, unsigned=True)],
        ),
        Answering(results),
        allowance=Allowance(lambda: used[0]),
    )
    found = comparison.run([({"x": np.full(1, place)}, (answer,)) for place, answer in answers.items()])
    assert found is not None
    assert found.feeds["x"] == wrong
