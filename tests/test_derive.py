"""Derivations: the cheapest that is legal, never by way of itself, small constants folded and large ones not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from opshift.opsets import faster
from opshift.opsets.registry.facts import SMALL, Facts, Tensor, constant, partly_known
from opshift.opsets.registry.lowering import Lowering, Reason, lowering, op
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, Operator, lift, operator_for
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.opsets.runtimes import costs
from opshift.opsets.runtimes.costs import cost
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.inference import infer
from opshift.passes.base import cache
from opshift.passes.rewrite import lowering_search, native
from opshift.passes.rewrite.fragment import Constant, Failure, Fragment, Input, Output
from opshift.passes.rewrite.lowering_search import Deriver

ANOTHER = ((("", "Another"), True),)
"""The stack below a node of another operator."""

MATRIX = Facts(TensorProto.FLOAT, ("n", 3))
KNOWN = Facts(TensorProto.FLOAT, (2, 3))


def lifted(name: str, *operands: Facts | None, operator: Operator | None = None, **fields: Any) -> Lifted:
    """A meaning and its operands, in normal form."""
    found = operator or operator_for("", name)
    assert found is not None
    whole = lift(found, Node(SPELLING, name, 1, fields, operands, (True,)), "runtime")
    assert isinstance(whole, Lifted)
    return whole


def derived(
    whole: Lifted, opset: int = 13, *missing: str, assume: tuple[str, ...] = (), **more: Any
) -> Fragment | Failure:
    return Deriver(Legality(opset, frozenset(missing), **more), assume=frozenset(assume)).derive(whole)


def written(found: Fragment | Failure) -> list[str]:
    assert isinstance(found, Fragment), found
    return [leaf.name for leaf in found.nodes]


# --- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opset", "missing", "nodes"),
    [
        (13, (), ["Hardmax"]),
        (11, (), ["Transpose", "Hardmax", "Transpose"]),
        (11, ("Transpose",), ["ArgMax", "Equal", "Cast"]),
        (13, ("Hardmax",), ["ArgMax", "Equal", "Cast"]),
        (13, ("Hardmax", "ArgMax"), ["TopK", "Equal", "Cast"]),
        (13, ("Hardmax", "ArgMax", "TopK"), ["ReduceMax", "Equal", "Where", "ReduceMin", "Equal", "Cast"]),
    ],
)
def test_the_cheapest_is_taken(opset: int, missing: tuple[str, ...], nodes: list[str]) -> None:
    assert written(derived(lifted("Hardmax", KNOWN, axes=(0,)), opset, *missing)) == nodes


@pytest.mark.parametrize("name", ["Hardmax", "ArgMax", "OneHot"])
def test_none_of_the_three_comes_back_through_another(name: str) -> None:
    operands = (Facts(TensorProto.INT64, (2,)), Facts(TensorProto.INT64, ()), Facts(TensorProto.FLOAT, (2,)))
    whole = lifted(name, *(operands if name == "OneHot" else (MATRIX,)))
    for opset in range(OLDEST, NEWEST + 1):
        assert not {"Hardmax", "ArgMax", "OneHot"} & set(written(derived(whole, opset, "Hardmax", "ArgMax", "OneHot")))


def test_every_leaf_is_legal() -> None:
    for opset in (7, 9, 11, 13, 18, 28):
        found = derived(lifted("Hardmax", MATRIX, axes=(1,)), opset, "Hardmax", "ArgMax", "TopK", "Range")
        assert not {"Hardmax", "ArgMax", "TopK", "Range"} & set(written(found))


def test_cost_is_that_of_the_nodes() -> None:
    argmax = derived(lifted("ArgMax", MATRIX, axis=1))
    hardmax = derived(lifted("Hardmax", MATRIX, axes=(1,)), 13, "Hardmax")
    assert isinstance(argmax, Fragment)
    assert isinstance(hardmax, Fragment)
    assert argmax.cost < hardmax.cost


# --- ends -------------------------------------------------------------------------------------------------------------


@lowering(13)
def to_itself(x):  # type: ignore[no-untyped-def]
    """Say it by itself."""
    return op.Erf(op.Neg(x))


def test_what_leads_back_to_itself_is_a_failure() -> None:
    """Its own lowering alone cannot say what Erf is."""
    plain = operator_for("", "Erf")
    assert plain is not None
    looping = dataclasses.replace(plain, lowerings=(to_itself,))
    found = derived(lifted("Erf", KNOWN, operator=looping), 13, "Erf")
    assert isinstance(found, Failure)
    assert "Erf is to be decomposed" in found.reason


def test_a_failure_below_a_busy_ancestor_is_not_remembered() -> None:
    """What failed only because it leaned on what is being derived may hold elsewhere."""
    deriver = Deriver(Legality(13, frozenset({"Hardmax", "ArgMax"})))
    first = deriver.derive(lifted("ArgMax", MATRIX, axis=1))
    second = Deriver(Legality(13, frozenset({"Hardmax", "ArgMax"})))
    second.derive(lifted("Hardmax", MATRIX, axes=(1,)))
    assert second.derive(lifted("ArgMax", MATRIX, axis=1)) == first


def test_a_failure_is_found_once_below_the_same_ancestors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowerings lead back to each other in many ways: without what is remembered, this took 15,000 bodies."""
    count = 0
    specialise = Deriver._specialise

    def counted(self: Deriver, *given: Any) -> Any:
        nonlocal count
        count += 1
        return specialise(self, *given)

    monkeypatch.setattr(Deriver, "_specialise", counted)
    operands = Facts(TensorProto.FLOAT), Facts(TensorProto.FLOAT, ()), Facts(TensorProto.FLOAT, (None,))
    node = Node("", "OneHot", 11, {"axis": 1}, operands, (True,))
    deriver = Deriver(Legality(13, target=load_target("tensorrt-8")))
    meant = deriver.lift(node)
    assert isinstance(meant, Lifted)
    assert isinstance(deriver.derive(meant), Failure)
    assert count < 2000


def test_nothing_nests_deeper_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering_search, "DEPTH", 1)
    found = derived(lifted("OneHot", *ONEHOT), 7)
    assert isinstance(found, Failure)
    assert found.busy


@pytest.mark.slow
def test_the_deepest_that_occurs_is_far_from_the_bound() -> None:
    deepest = 0

    class Watched(Deriver):
        def derive(self, lifted: Lifted, stack: tuple[Any, ...] = (), limit: float = math.inf) -> Fragment | Failure:
            nonlocal deepest
            deepest = max(deepest, len(stack))
            return super().derive(lifted, stack, limit)

    for opset in range(OLDEST, NEWEST + 1):
        deriver = Watched(Legality(opset, frozenset({"Hardmax", "ArgMax", "OneHot", "TopK", "Where", "Range"})))
        deriver.derive(lifted("OneHot", *ONEHOT, axis=1))
        deriver.derive(lifted("Hardmax", Facts(TensorProto.BFLOAT16, None), axes=(0, -2)))
        deriver.derive(lifted("ArgMax", Facts(TensorProto.UINT64, None), axis=1, keepdims=0))
    assert deepest <= lowering_search.DEPTH // 2


# --- facts ------------------------------------------------------------------------------------------------------------

ONEHOT = (Facts(TensorProto.INT32, ("n", 2)), Facts(TensorProto.INT64, ()), Facts(TensorProto.FLOAT, (2,)))


def test_what_is_known_is_folded() -> None:
    """With static shapes no run-time shape is read, and the positions are a constant."""
    static, symbolic = (
        written(derived(lifted("Hardmax", facts, axes=(1,)), 13, "Hardmax", "CumSum")) for facts in (KNOWN, UNSIZED)
    )
    assert not {"Shape", "Range", "Squeeze"} & set(static)
    assert "Shape" in symbolic


UNSIZED = Facts(TensorProto.FLOAT, (2, "m"))


def constants(found: Fragment | Failure) -> list[np.ndarray[Any, Any]]:
    assert isinstance(found, Fragment)
    refs = [ref for leaf in found.nodes for ref in leaf.inputs] + list(found.outputs)
    return [ref.value.array for ref in refs if isinstance(ref, Constant)]


@pytest.mark.parametrize("depth", [5, 1000, 10**9])
def test_nothing_large_is_folded(depth: int) -> None:
    operands = (Facts(TensorProto.INT64, (3,)), constant(np.array(depth)), constant(np.array([0, 1], np.float32)))
    found = derived(lifted("OneHot", *operands), 13, "OneHot", "ScatterElements")
    assert ("Range" in written(found)) == (depth * 8 > SMALL)
    assert all(array.nbytes <= SMALL for array in constants(found))


def test_no_constant_is_an_input_of_the_fragment() -> None:
    """What the node has as an input stays that input, also where its value is known."""
    operands = (Facts(TensorProto.INT64, (3,)), constant(np.array(4)), constant(np.array([2, 3], np.float32)))
    found = derived(lifted("OneHot", *operands), 13)
    assert isinstance(found, Fragment)
    assert found.nodes[0].inputs == (Input(0), Input(1), Input(2))


def test_nodes_that_nobody_reads_are_dropped() -> None:
    for opset in (7, 9, 11, 13, 18):
        for facts in (KNOWN, UNSIZED, MATRIX):
            found = derived(lifted("Hardmax", facts, axes=(1,)), opset, "Hardmax")
            assert isinstance(found, Fragment)
            read = {ref.node for leaf in found.nodes for ref in leaf.inputs if isinstance(ref, Output)}
            read |= {ref.node for ref in found.outputs if isinstance(ref, Output)}
            assert read == set(range(len(found.nodes)))


def test_nodes_stand_after_what_they_read() -> None:
    found = derived(lifted("OneHot", *ONEHOT), 7)
    assert isinstance(found, Fragment)
    for index, leaf in enumerate(found.nodes):
        assert all(ref.node < index for ref in leaf.inputs if isinstance(ref, Output))


def test_a_failure_tells_what_is_missing() -> None:
    found = derived(lifted("ArgMax", Facts(None, ("n", 3)), axis=1), 13, "ArgMax", "TopK")
    assert isinstance(found, Failure)
    assert found.missing
    assert "ArgMax is to be decomposed" in found.reason


# --- assumptions ------------------------------------------------------------------------------------------------------


def test_an_assumption_is_needed_and_named() -> None:
    """Without comparisons a maximum is told from others by a difference, which two infinities do not have."""
    target = Target("mine", operators=frozenset({"ReduceMax", "Sub", "Sign", "Add", "Mul", "Cast"}))
    whole = lifted("ArgMax", MATRIX, axis=1)
    refused = derived(whole, 13, target=target)
    assert isinstance(refused, Failure)
    assert refused.assumption == "finite-inputs"
    free = derived(whole, 13, target=target, assume=("finite-inputs",))
    assert isinstance(free, Fragment)
    assert free.assumes == {"finite-inputs"}


def test_a_limit_applies_to_what_lowerings_write() -> None:
    """A runtime whose ArgMax takes no float16 gets it as float."""
    limit = Limit("ArgMax", dtypes={"data": ("float",)})
    target = Target("mine", limits=(limit,), without=frozenset({"TopK"}))
    found = derived(lifted("ArgMax", Facts(TensorProto.FLOAT16, (2, 3)), axis=1), 13, target=target)
    assert written(found) == ["Cast", "ArgMax"]


def test_a_runnable_derivation_has_kernels() -> None:
    """onnxruntime has no Hardmax of doubles: only where it must run is that lowered."""
    whole = lifted("Hardmax", Facts(TensorProto.DOUBLE, (2, 3)), axes=(1,))
    assert written(derived(whole, 13)) == ["Hardmax"]
    assert "Hardmax" not in written(derived(whole, 13, runnable=True))


def test_equal_nodes_are_derived_once() -> None:
    deriver = Deriver(Legality(7))
    one = deriver.derive(lifted("Hardmax", MATRIX, axes=(0,)))
    assert deriver.derive(lifted("Hardmax", MATRIX, axes=(-2,))) is one


def test_what_is_forgotten_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models have more kinds of nodes than are remembered."""
    wholes = [lifted("Hardmax", Facts(TensorProto.FLOAT, (2, 3, dim)), axes=(1,)) for dim in (4, 5, 4)]
    deriver = Deriver(Legality(9))
    known = [deriver.derive(whole) for whole in wholes]
    for module in (lowering_search, cache):
        monkeypatch.setattr(module, "REMEMBERED", 1)
    assert [Deriver(Legality(9)).derive(whole) for whole in wholes] == known
    forgetful = Deriver(Legality(9))
    assert [forgetful.derive(whole) for whole in wholes] == known


def test_zeros_of_both_signs_are_two_meanings() -> None:
    deriver = Deriver(Legality(13, frozenset({"LeakyRelu"})))
    slopes = []
    for alpha in (-0.0, 0.0):
        whole = deriver.lift(Node("", "LeakyRelu", 6, {"alpha": alpha}, (KNOWN,), (True,)))
        assert isinstance(whole, Lifted)
        found = deriver.derive(whole)
        assert isinstance(found, Fragment)
        (mul,) = (leaf for leaf in found.nodes if leaf.name == "Mul")
        slopes += [ref.value.array for ref in mul.inputs if isinstance(ref, Constant)]
    assert np.signbit(slopes).tolist() == [True, False]


@lowering(13)
def short(x):  # type: ignore[no-untyped-def]
    """Say it in two words."""
    return op.Sqrt(op.Mul(x, x))


@lowering(13)
def long(x):  # type: ignore[no-untyped-def]
    """Say it in four."""
    return op.Neg(op.Neg(op.Sqrt(op.Mul(x, x))))


def nodes_costed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes of which the cost is asked, which is that of one node that does nothing."""
    asked: list[str] = []

    def cost(node: Node, *rest: Any) -> float:
        asked.append(node.name)
        return 1.0

    monkeypatch.setattr(native, "cost", cost)
    monkeypatch.setattr(native, "simplicity", cost)
    monkeypatch.setattr(faster, "LOWERINGS", {})
    return asked


def test_a_way_is_followed_no_further_than_another_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_costed(monkeypatch)
    plain = operator_for("", "Abs")
    assert plain is not None
    whole = lifted("Abs", KNOWN, operator=dataclasses.replace(plain, lowerings=(short, long), wider_types={}))
    legality = Legality(13, frozenset({"Abs"}))
    found = Deriver(legality).derive(whole)
    assert isinstance(found, Fragment)
    assert [(way.name, way.cost, way.why_not) for way in found.ways] == [
        ("short", 2.0, ""),
        ("long", 4.0, "it was followed no further"),
    ]
    assert asked == ["Mul", "Sqrt"]  # each node of the other way costs one at least
    asked.clear()
    assert Deriver(legality).derive(whole, ANOTHER) == found
    assert asked == ["Mul", "Sqrt"]


@lowering(13)
def nested(x):  # type: ignore[no-untyped-def]
    """Say it in one word, which is to be said otherwise."""
    return op.Relu(x)


def test_nodes_within_a_way_are_followed_no_further_than_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_costed(monkeypatch)
    plain = operator_for("", "Abs")
    assert plain is not None
    whole = lifted("Abs", KNOWN, operator=dataclasses.replace(plain, lowerings=(short, nested), wider_types={}))
    deriver = Deriver(Legality(13, frozenset({"Abs", "Relu", "Max"})))
    found = deriver.derive(whole)
    assert written(found) == ["Mul", "Sqrt"]
    assert asked == ["Mul", "Sqrt"]  # all that is left for Relu is one node, and each of its ways has two
    relu = written(deriver.derive(lifted("Relu", KNOWN), ANOTHER))
    assert relu == written(derived(lifted("Relu", KNOWN), 13, "Abs", "Relu", "Max"))  # what was cut is not remembered


def test_a_way_with_more_nodes_is_not_built_again_for_another_length(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_costed(monkeypatch)
    plain = operator_for("", "Abs")
    assert plain is not None
    operator = dataclasses.replace(plain, lowerings=(long, short), wider_types={})
    deriver = Deriver(Legality(13, frozenset({"Abs"})))
    shapes = ((3, 100), (3, 127), (3, 128), (3, "n"), (3, 1), (127, 4))
    costed = []
    for shape in shapes:
        found = deriver.derive(lifted("Abs", Facts(TensorProto.FLOAT, shape), operator=operator))
        assert isinstance(found, Fragment)
        assert found.lowerings == ("short",)
        assert [way.name for way in found.ways] == ["long", "short"]
        costed.append([*asked])
        asked.clear()
    first, again = ["Mul", "Sqrt", "Neg", "Neg", "Mul", "Sqrt"], ["Mul", "Sqrt"]
    assert costed == [first, again, first, first, first, again]


def test_rivals_of_a_kernel_are_followed_no_further_than_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nodes_costed(monkeypatch)
    plain = operator_for("", "Hardmax")
    assert plain is not None
    whole = lifted("Hardmax", KNOWN, operator=dataclasses.replace(plain, lowerings=(short, long)), axes=(1,))
    assert written(Deriver(Legality(13)).derive(whole, ANOTHER)) == ["Hardmax"]
    assert asked == ["Hardmax"]
    asked.clear()
    assert written(Deriver(Legality(13), optimize=True).derive(whole, ANOTHER)) == ["Hardmax"]
    assert asked == ["Hardmax", "Mul", "Mul"]


# --- lowerings --------------------------------------------------------------------------------------------------------


def test_every_lowering_has_a_summary_and_compiles() -> None:
    from opshift.opsets.registry.operator import internal_operators, known_operators

    for operator in (*known_operators(), *internal_operators()):
        for item in faster.every(operator):
            assert isinstance(item, Lowering)
            assert item.summary.endswith((".", ";"))
            # One operand each, in the order of the operator's.
            assert operator.variadic or len(item.function.input) == len(operator.operands)
            assert len({other.name for other in faster.every(operator)}) == len(faster.every(operator))


def test_a_reason_is_text_that_may_miss_a_fact() -> None:
    assert Reason("so") == "so"
    assert not Reason("so").missing
    assert Reason("so", missing=True).missing


def test_the_one_symbol_of_a_shape_is_known_in_part() -> None:
    """The size of a dimension that has a name alone is no string."""
    inferred = infer(Node("", "Gather", 13, {"axis": 0}, (partly_known(["n", 3]), constant(np.array(0))), (True,)))
    assert inferred == (Facts(TensorProto.INT64, (), Tensor(np.array("n", object))),)


# --- what a node costs ------------------------------------------------------------------------------------------------


def test_few_nodes_come_first_then_few_passes_over_the_data() -> None:
    def counted(name: str, *shapes: tuple[int, ...]) -> float:
        *inputs, output = (Facts(TensorProto.FLOAT, shape) for shape in shapes)
        return costs.simplicity(Node("", name, 18, {}, tuple(inputs), (True,)), (output,))

    large, small = counted("Mul", (2**40,), (), (2**40,)), counted("Mul", (1,), (1,), (1,))
    assert 1 < small < large
    assert lowering_search.DEPTH * large < lowering_search.DEPTH + 1
    assert counted("Reshape", (2**40,), (1,), (2**40,)) == 1 < counted("Transpose", (2**40,), (2**40,))


def spent(name: str, output: tuple[int, ...], *inputs: tuple[int, ...], **attributes: Any) -> float:
    operands = tuple(Facts(TensorProto.FLOAT, shape) for shape in inputs)
    return cost(Node("", name, 18, attributes, operands, (True,)), (Facts(TensorProto.FLOAT, output),), 0.0)


def test_runs_of_elements_cost() -> None:
    """Each takes time where inputs are broadcast, and where a slice is made of many pieces."""
    assert spent("Equal", (1000, 8, 8), (1000, 8, 8), (1000, 1, 8)) > 5 * spent(
        "Equal", (8, 8000), (8, 8000), (1, 8000)
    )
    assert (
        spent("Less", (64, 1024, 1), (64, 1024, 1), (1, 1, 1)) < spent("Less", (64, 1024, 1), (64, 1024, 1), (1, 1)) / 5
    )
    assert spent("Slice", (1000, 1, 8), (1000, 8, 8)) > 5 * spent("Slice", (1, 8000), (8, 8000))


def test_a_part_comes_from_as_far_away_as_the_whole_does() -> None:
    assert spent("Slice", (1, 2**16), (128, 2**16)) > spent("Slice", (1, 2**16), (2, 2**16))


def test_an_empty_axis_costs_nothing_that_cannot_be_told() -> None:
    for shape, output in (((0, 3), (1, 3)), ((2, 0, 3), (2, 1, 3))):
        assert spent("ReduceSum", output, shape, axes=(shape.index(0),)) == 0


MADE_UP = {
    "ReduceMax float last 4": [[16, 1], [1024, 1025], [4096, 4097], [65536, 65537], [2**20, 2**20 + 1]],
    "ReduceMax float last 12": [[16, 3], [1024, 3075], [4096, 12291], [65536, 196611], [2**20, 3 * 2**20 + 3]],
    "GatherElements inner": [[16, 0], [1024, 1024], [4096, 4096], [65536, 10 * 65536], [2**20, 10 * 2**20]],
    "OneHot last": [[16, 0], [1024, 1024], [4096, 4096], [65536, 65536], [2**20, 2**20]],
    "OneHot inner": [[16, 0], [1024, 2048], [4096, 8192], [65536, 2 * 65536], [2**20, 2 * 2**20]],
    "others": [[16, 0], [1024, 0], [4096, 0], [65536, 0], [2**20, 0]],
    "Equal runs": [[16, 0], [1024, 0], [4096, 0], [65536, 0], [2**20, 0]],
}
"""An element of a row of 4 takes 1, of 12 takes 3, and there a node takes as much besides."""


@pytest.fixture
def _made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(costs, "table", lambda: MADE_UP)
    costs._of_rows.cache_clear()
    yield
    costs._of_rows.cache_clear()


@pytest.mark.usefixtures("_made_up")
def test_a_node_costs_what_it_takes_besides_its_elements() -> None:
    """In between of the lengths that were measured, by their logarithms; beyond them as the nearest."""
    for length, each in ((1, 1), (4, 1), (7, 1 + 2 * np.log(7 / 4) / np.log(3)), (12, 3)):
        for rows in (1, 100, 2000, 2**18):
            whole = spent("ReduceMax", (rows, 1), (rows, length), axes=(1,))
            assert whole == pytest.approx(each * (1 + rows * length))
    assert spent("OneHot", (100, 10), (100,)) == 1000
    assert spent("OneHot", (100, 10), (100,), axis=1) == 1000
    assert spent("OneHot", (100, 10, 2), (100, 2), axis=1) == 4000


@pytest.mark.usefixtures("_made_up")
def test_what_is_gathered_comes_from_as_far_away_as_the_whole_does() -> None:
    assert spent("GatherElements", (2, 100), (9, 100), (2, 100), axis=0) == pytest.approx(200)
    assert spent("GatherElements", (2, 65536), (16, 65536), (2, 65536), axis=0) == pytest.approx(10 * 2 * 65536)


def test_the_table_has_every_length_and_size() -> None:
    """What lacks one is not interpolated, and a conversion would fail."""
    assert len({tuple(count for count, _ in points) for points in costs.table().values()}) == 1
    lengths: dict[tuple[str, ...], set[int]] = {}
    for *what, length in map(str.split, costs.table()):
        if length.isdigit():
            lengths.setdefault(tuple(what), set()).add(int(length))
    assert {frozenset(measured) for measured in lengths.values()} == {frozenset(costs.LENGTHS)}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_operators_that_need_each_other_are_not_searched_along_every_path(
    opset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less, Greater, Max and Min need each other on a target without comparisons: each path through them failed alone.

    10,000 to 20,000 derivations were begun, in 10 seconds.
    """
    begun = []
    derive = Deriver.derive

    def counted(self: Deriver, one: Lifted, *others: Any) -> Fragment | Failure:
        begun.append(one.operator.name)
        return derive(self, one, *others)

    monkeypatch.setattr(Deriver, "derive", counted)
    legality = Legality(opset, target=load_target("coreml"))
    axes = (-1,) if opset >= 13 else (1,)
    assert isinstance(
        Deriver(legality).derive(lifted("Hardmax", Facts(TensorProto.FLOAT, (2, 2)), axes=axes)), Fragment
    )
    assert len(begun) < 4000
