"""What models are fed: by what becomes of an input, at shapes that a model accepts, and what somebody gives."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from opshift.opsets.registry.traits import Interval
from opshift.passes.analysis.model_summary import summary
from opshift.passes.base.errors import UsageError
from opshift.passes.proof import signature
from opshift.passes.proof.inputs import distributions, generator, shape_search, user_inputs, value_classes
from opshift.passes.proof.inputs.data_flow import input_usages
from opshift.passes.proof.inputs.generator import LONG, Allowed, Draft, Spec, UntestableError
from opshift.passes.proof.inputs.input_usage import AxisLength, DrawnLength, InputUsage, Lookup, Number
from opshift.passes.proof.inputs.trials import Budget, find_trials, overridden
from opshift.passes.runtime.ort_models import RejectedError


def model(graph: str, opset: int = 13, functions: str = "", imports: str = "") -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}{imports}]> {graph} {functions}')


def use(text: str, name: str = "x", **more: Any) -> InputUsage:
    return input_usages(model(text, **more)).get(name, InputUsage())


def drawn(text: str, shape: Mapping[str, tuple[int, ...]], turns: int = 48, **more: Any) -> list[dict[str, Any]]:
    """Return what a whole model is fed at one shape."""
    found = model(text, **more)
    draft = Draft(
        generator.specs(found.graph),
        generator.position_inputs(found),
        Allowed(nan=False, infinite=False, whole=True),
        input_usages(found),
    )
    rng = np.random.default_rng(0)
    return [draft.feeds(rng, shape, turn) for turn in range(turns)]


# --- what becomes of an input ---------------------------------------------------------------------------------------

TABLE = "float[5, 2] t = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}"


@pytest.mark.parametrize(
    "text",
    [
        f"g (int64[N] x) => (y) <{TABLE}> {{ y = Gather(t, x) }}",
        f"g (int32[N] x) => (y) <{TABLE}, int64[1] a = {{0}}> {{ u = Unsqueeze(x, a) c = Cast<to = 7>(u)"
        " y = Gather(t, c) }",
        f"g (int64[N] x, int64[N] z) => (y) <{TABLE}> {{ c = Concat<axis = 0>(z, x) y = Gather(t, c) }}",
        f"g (int64[N] x) => (y) <{TABLE}, int64[1] s = {{0}}, int64[1] e = {{2}}> {{ c = Slice(x, s, e)"
        " y = Gather(t, c) }",
        f"g (int64[4] x) => (y) <{TABLE}> {{ a, b = Split(x) y = Gather(t, b) }}",
        f"g (int64[N] x, bool c) => (y) <{TABLE}> {{ y = If(c) <then_branch = a () => (float[N, 2] p)"
        " { p = Gather(t, x) }, else_branch = b () => (float[N, 2] q) { i = Abs(x) q = Gather(t, x) }> }",
        f"g (int64[N] x, int64 n, bool c) => (y) <{TABLE}> {{ z, y = Loop(n, c, x) <body = b"
        " (int64 i, bool k, int64[N] s) => (bool go, int64[N] r, float[N, 2] o)"
        " { go = Identity(k) r = Identity(s) o = Gather(t, s) }> }",
    ],
)
def test_an_index_is_followed_through_what_moves_it(text: str) -> None:
    assert use(text).lookups == (Lookup((5,)),)


def test_an_index_is_followed_into_functions() -> None:
    text = f"g (int64[N] x) => (y) <{TABLE}> {{ y = own.embed(t, x) }}"
    body = '<opset_import: ["": 13], domain: "own"> embed (w, i) => (o) { o = Gather(w, i) }'
    assert use(text, functions=body, imports=', "own": 1').lookups == (Lookup((5,)),)


@pytest.mark.parametrize(
    ("text", "lookup"),
    [
        ("g (float[A, B] t, int64[N] x) => (y) { y = Gather<axis = -1>(t, x) }", Lookup((AxisLength("t", 1),))),
        (
            "g (float[A, B] t, int64[N, B] x) => (y) { y = GatherElements<axis = 0>(t, x) }",
            Lookup((AxisLength("t", 0),)),
        ),
        (
            "g (float[A, B] t, int64[N, 2] x) => (y) { y = GatherND(t, x) }",
            Lookup((AxisLength("t", 0), AxisLength("t", 1))),
        ),
        (
            "g (float[A, B] t, int64[A, 1] x) => (y) { y = GatherND<batch_dims = 1>(t, x) }",
            Lookup((AxisLength("t", 1),)),
        ),
        ("g (float[7] t, int64[N, 1] x, float[N] u) => (y) { y = ScatterND(t, x, u) }", Lookup((7,))),
        ("g (float[7] t, int64[N] x, float[N] u) => (y) { y = ScatterElements(t, x, u) }", Lookup((7,))),
        ("g (float t, int64[N] x) => (y) { y = Gather(t, x) }", Lookup((None,))),
        ("g (int64[N] x, float[2] v) => (y) <int64 d = {4}> { y = OneHot(x, d, v) }", Lookup((4,), beyond=True)),
        (
            "g (int64[N] x, int64 d, float[2] v) => (y) { y = OneHot(x, d, v) }",
            Lookup((DrawnLength("d"),), beyond=True),
        ),
    ],
)
def test_what_an_index_is_looked_up_in(text: str, lookup: Lookup) -> None:
    if "(float t" in text:
        found = model(text)
        found.graph.input[0].type.tensor_type.ClearField("shape")  # of unknown rank
        assert input_usages(found)["x"].lookups == (Lookup((AxisLength("t", 0),)),)
    else:
        assert use(text).lookups == (lookup,)


def test_indices_are_inside_and_at_both_ends() -> None:
    values = [feeds["x"] for feeds in drawn(f"g (int64[N] x) => (y) <{TABLE}> {{ y = Gather(t, x) }}", {"x": (6,)})]
    flat = np.concatenate(values)
    assert set(flat.tolist()) == set(range(-5, 5))
    assert np.isin(flat, (0, 4, -1, -5)).mean() > 0.5
    assert sum((array >= 0).all() for array in values) > 10
    for end in (0, 4, -1, -5):
        assert (flat == end).mean() > 0.12, end


def test_a_dim_without_a_name_has_a_length() -> None:
    found = model("g (float[A, B] t, int64[N] x) => (y) { y = Gather<axis = 1>(t, x) }")
    for dim in found.graph.input[0].type.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    assert input_usages(found)["x"].lookups == (Lookup((AxisLength("t", 1),)),)
    assert generator.specs(found.graph)[0].dims == ("t:0", "t:1")


def test_indices_of_symbolic_and_drawn_lengths() -> None:
    text = "g (float[A, B] t, int64[N] x) => (y) { y = Gather<axis = 1>(t, x) }"
    flat = np.concatenate([feeds["x"] for feeds in drawn(text, {"t": (3, 11), "x": (6,)})])
    assert (flat.min(), flat.max()) == (-11, 10)
    wrapped = set()
    for feeds in drawn("g (int64[N] x, int64 d, float[2] v) => (y) { y = OneHot(x, d, v) }",
                       {"x": (40,), "d": (), "v": (2,)}):  # fmt: skip
        far = np.abs(feeds["x"]) > feeds["d"] + 2
        assert far.mean() < 0.8
        wrapped |= set(feeds["x"][far].tolist())
    assert {256, 2**16, 2**31, 2**32, 2**53 + 1} <= wrapped


def test_indices_know_lengths_that_are_given() -> None:
    found = model("g (float[A, 2] t, int64[N] x) => (y) { y = Gather(t, x) }")
    given_shape = {"t": (40, 2), "x": (6,)}
    specs = generator.with_shapes(generator.specs(found.graph), given_shape)
    draft = Draft(specs, frozenset(), Allowed(whole=True), input_usages(found))
    rng = np.random.default_rng(0)
    flat = np.concatenate([draft.feeds(rng, given_shape, turn)["x"] for turn in range(24)])
    assert (flat.min(), flat.max()) == (-40, 39)


def test_sizes_that_are_given_pin_what_is_equal() -> None:
    found = model("g (float[N] x, float[M] z) => (y) { y = Add(x, z) }")
    specs = generator.specs(found.graph)
    fixed = shape_search.sizes_of(specs, {"x": (5,)})
    known = shape_search.hints(summary(found), fixed)
    assert next(iter(generator.sizes(generator.with_shapes(specs, {"x": (5,)}), whole=True, hints=known)))["z"] == (5,)


def test_indices_of_one_hot_go_beyond() -> None:
    text = "g (int64[N] x, float[2] v) => (y) <int64 d = {4}> { y = OneHot(x, d, v) }"
    flat = np.concatenate([feeds["x"] for feeds in drawn(text, {"x": (6,), "v": (2,)}, turns=144)])
    assert set(flat.tolist()) >= {-5, -4, -1, 0, 3, 4, 5}


def test_operators_have_their_say() -> None:
    text = "g (int64[N] x, float[2] v, float[N] z) => (y) <int64 d = {4}> { y = OneHot(x, d, v) w = OneHot(q, d, v) }"
    view = summary(model(text.replace("{ y", "{ q = Abs(x) y")))
    (say,) = generator.adversarial_nodes(view)
    assert (say.inputs, say.constants["depth"].item()) == ({"indices": "x", "values": "v"}, 4)
    feeds = {"x": np.zeros(50, np.int64), "v": single([7, 7]), "z": single([5] * 50)}
    changed = say.changed(np.random.default_rng(0), feeds)
    assert set(changed["x"].tolist()) == set(range(-6, 7))
    assert changed["v"].tolist() != [7, 7]
    assert changed["z"] is feeds["z"]
    specs = generator.specs(model(text).graph)
    draft = Draft(specs, frozenset(), Allowed(), input_usages(view), (say,))
    rng = np.random.default_rng(0)
    values = [draft.feeds(rng, {"x": (50,), "v": (2,), "z": (50,)}, turn)["x"] for turn in range(8)]
    assert [bool(np.isin(array, (-6, 6)).any()) for array in values] == [
        turn % 4 == 3 or turn == 5 for turn in range(8)
    ]


def test_each_column_of_nd_indices_has_its_own_length() -> None:
    text = "g (float[3, 50] t, int64[N, 2] x) => (y) { y = GatherND(t, x) }"
    rows = np.concatenate([feeds["x"] for feeds in drawn(text, {"t": (3, 50), "x": (9, 2)})])
    assert (rows.min(0).tolist(), rows.max(0).tolist()) == ([-3, -50], [2, 49])


def test_a_rejected_negative_index_is_followed_by_one_that_is_not() -> None:
    found = model(f"g (int64[4] x) => (y) <{TABLE}> {{ y = Gather(t, x) }}")
    draft = Draft(
        generator.specs(found.graph), generator.position_inputs(found), Allowed(whole=True), input_usages(found)
    )
    rng = np.random.default_rng(0)

    def plain(batch: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...] | RejectedError]:
        return [RejectedError("negative") if (feeds["x"] < 0).any() else () for feeds in batch]

    def values(shape: shape_search.Shapes, turn: int | str) -> Mapping[str, Any]:
        return draft.along(rng, shape, turn) if isinstance(turn, str) else draft.feeds(rng, shape, turn)

    tried = find_trials(
        draft, values, plain, generator.sizes(draft.specs, whole=True), lambda base: (), Budget(6, 24, 10**6, 200)
    )
    assert len(tried.accepted) >= draft.turns() * 3


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("g (float[N] x) => (y) { y = Log(x) }", Interval(0, zero=False)),
        ("g (float[N] x) => (y) { a = Identity(x) y = Sqrt(a) }", Interval(0)),
        ("g (float[N] x) => (y) <float e = {2}> { a = Add(x, e) y = Sqrt(a) }", Interval(-2)),
        ("g (float[N] x) => (y) <float e = {2}> { a = Mul(x, e) y = Acos(a) }", Interval(-0.5, 0.5)),
        ("g (float[N] x) => (y) <float e = {2}> { a = Sub(e, x) y = Acosh(a) }", Interval(high=1)),
        ("g (float[N] x, float[N] z) => (y) { y = Div(z, x) }", Interval(zero=False)),
        ("g (float[N] z, float[N] x) => (y) { y = Pow(x, z) }", Interval(0)),
        ("g (float[N, 2] z, float[2] s, float[2] x) => (y) { y = BatchNormalization(z, s, s, s, x) }", Interval(0)),
    ],
)
def test_what_an_operator_permits(text: str, interval: Interval) -> None:
    assert use(text).intervals == (interval,)


def test_some_inputs_are_inside_what_is_permitted_and_some_are_not() -> None:
    values = [feeds["x"] for feeds in drawn("g (float[N] x) => (y) { y = Acos(x) }", {"x": (8,)})]
    inside = [bool((np.abs(array) <= 1).all()) for array in values]
    assert 5 < sum(inside) < len(inside) - 5
    assert any(1.0 in array and -1.0 in array for array in values)
    assert any((np.abs(array) <= 1).all() and len(set(array.tolist())) > 5 for array in values)


def test_moods_inside_have_the_ends_and_nothing_outside() -> None:
    common = {
        distribution.palette.tobytes()
        for distribution in distributions.value_distributions(np.dtype(np.float32), False, Allowed())
    }
    inside = distributions.value_distributions(np.dtype(np.float32), False, Allowed(), (Interval(-1, 1, zero=False),))
    own = [distribution.palette for distribution in inside if distribution.palette.tobytes() not in common]
    assert len(own) == 2
    for palette in own:
        assert (palette.min(), palette.max()) == (-1, 1)
        assert 0 not in palette


def test_a_type_without_a_value_gets_none_for_it() -> None:
    exponent = distributions.palette(np.dtype(ml_dtypes.float8_e8m0fnu), (-1, 0, 1, np.nan), Allowed())
    assert repr(exponent.astype(float).tolist()) == "[1.0, nan]"


def test_sums_come_to_what_they_are_compared_with() -> None:
    text = "g (int32[N] x) => (y) <int32 c = {100}> { s = ReduceSum<keepdims = 0>(x) y = Greater(s, c) }"
    assert use(text).numbers == (Number(100, summed=True),)
    assert {int(feeds["x"].sum()) for feeds in drawn(text, {"x": (7,)})} >= {99, 100, 101}


COMPARED = {
    "g (float[N] x) => (y) <float c = {100}> { s = ReduceSum<keepdims = 0>(x) y = Greater(s, c) }": lambda x: (
        x.sum() > 100
    ),
    "g (float[N] x) => (y) <float c = {12345}, int64 i = {0}> { s = Gather(x, i) y = Equal(s, c) }": lambda x: (
        x[0] == 12345
    ),
    "g (float[N] x) => (y) <float c = {1000}> { b = Greater(x, c) y = Where(b, x, c) }": lambda x: (x > 1000).any(),
    "g (float[N] x) => (y) <float c = {1000}, float k = {-4}> { a = Mul(x, k) y = Less(a, c) }": lambda x: (
        -4 * x >= 1000
    ).any(),
    "g (int64[N] x) => (y) <int64 c = {9007199254740993}> { y = Equal(x, c) }": lambda x: (x == 2**53 + 1).any(),
    "g (int32[N] x) => (y) <float c = {77.5}> { f = Cast<to = 1>(x) y = Less(f, c) }": lambda x: 77 in x and 78 in x,
    "g (float[N] x) => (y) { c = Constant<value_float = 321.0>() y = Equal(x, c) }": lambda x: (x == 321).any(),
    "g (float[N] x) => (y) { y = ThresholdedRelu<alpha = 55.0>(x) }": lambda x: (x == 55).any(),
    "g (float[N] x, bool b) => (y) { y = If(b) <then_branch = t () => (float[N] p) { c = Constant<value_float = 64.5>()"
    " p = Max(x, c) }, else_branch = e () => (float[N] q) { q = Neg(x) }> }": lambda x: (x == 64.5).any(),
}


@pytest.mark.parametrize("text", COMPARED)
def test_what_is_compared_with_a_constant_meets_it(text: str) -> None:
    test: Callable[[Any], Any] = COMPARED[text]
    found = [generator.specs(model(text).graph)]
    shape = {spec.name: tuple(5 for _ in spec.dims or ()) for spec in found[0]}
    met = [bool(test(feeds["x"])) for feeds in drawn(text, shape)]
    assert 0 < sum(met) < len(met)


def test_constants_that_are_shapes_are_no_numbers() -> None:
    text = "g (float[N, 12] x) => (y) <int64[2] s = {-1, 4}, float c = {9}> { r = Reshape(x, s) y = Less(r, c) }"
    assert use(text).numbers == (Number(9.0),)


def test_strings_that_are_compared_with() -> None:
    text = 'g (string[N] x) => (y) <string[1] c = {"cat"}> { y = Equal(x, c) }'
    assert any("cat" in feeds["x"] for feeds in drawn(text, {"x": (3,)}, opset=19))


@pytest.mark.parametrize(
    ("text", "steered"),
    [
        ("g (int64[1] x) => (y) { y = ConstantOfShape(x) }", {"x"}),
        ("g (float[N] x) => (y) { s = Shape(x) y = ConstantOfShape(s) }", set()),
        (f"g (int64[N] x) => (y) <{TABLE}, int64 c = {{1}}> {{ a = Add(x, c) y = Gather(t, a) }}", {"x"}),
        ("g (float[N] x, int64[1] a) => (y) { y = ReduceSum(x, a) }", {"a"}),
        (
            """g (int64 n, bool c, float x, float limit, float z) => (y) { y, w = Loop(n, c, x, z) <body = b
            (int64 i, bool k, float s, float u) => (bool go, float t, float v)
            { t = Add(s, u) v = Neg(u) go = Less(t, limit) }> }""",
            {"n", "c", "x", "limit", "z"},
        ),
        (f"g (float[N] x) => (y) <{TABLE}> {{ a = ArgMax(x) y = Gather(t, a) }}", set()),
        (f"g (float[9] x) => (y) <{TABLE}, int64[1] k = {{2}}> {{ v, a = TopK(x, k) y = Gather(t, a) }}", set()),
    ],
)
def test_sizes_and_positions_stay_small(text: str, steered: set[str]) -> None:
    assert generator.position_inputs(model(text)) == steered


def test_a_trip_count_is_0_to_3_and_a_condition_both() -> None:
    text = """g (int64 n, bool c, float[N] x) => (y) { y = Loop(n, c, x) <body = b (int64 i, bool k, float[N] s)
        => (bool go, float[N] t) { go = Identity(k) t = Neg(s) }> }"""
    fed = drawn(text, {"n": (), "c": (), "x": (3,)})
    assert {int(feeds["n"]) for feeds in fed} >= {0, 1, 2, 3}
    assert {bool(feeds["c"]) for feeds in fed} == {True, False}
    assert max(np.abs(feeds["x"]).max() for feeds in fed) > 2  # what is carried steers nothing here


@pytest.mark.slow
def test_a_large_model_is_analysed_in_no_time() -> None:
    count = 10_000
    nodes = [
        helper.make_node(*(("Relu", [f"v{at}"]) if at % 3 else ("Add", [f"v{at}", f"w{at % 50}"])), [f"v{at + 1}"])
        for at in range(count)
    ]
    weights = [numpy_helper.from_array(np.ones(3, np.float32), f"w{at}") for at in range(50)]
    x = helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, None)
    found = helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights))
    start = time.process_time()
    view = summary(found)
    input_usages(view)
    shape_search.hints(view)
    assert time.process_time() - start < 2


# --- shapes ---------------------------------------------------------------------------------------------------------


def sought(text: str, accepts: Callable[[Mapping[str, int]], bool], rejections: int = 150) -> list[dict[str, int]]:
    """Return the sizes of the symbols in the shapes that are found for a model that accepts these sizes."""
    found = model(text)
    specs = generator.specs(found.graph)
    asked = []

    def told(shape: shape_search.Shapes) -> bool:
        asked.append(accepts(shape_search.sizes_of(specs, shape)))
        return asked[-1]

    known = shape_search.hints(summary(found))
    yielded = itertools.islice(shape_search.repaired(specs, known, told, rejections=rejections), 40)
    result = [shape_search.sizes_of(specs, shape) for shape in yielded]
    assert asked.count(False) <= rejections
    assert all(accepts(sizes) for sizes in result)
    return result


SIX = "g (float[A, B] a, float[C, D] b, float[E, F] c) => (y) { x = Abs(a) z = Abs(b) y = Abs(c) }"
PAST = (
    "g (float[B, P] past, float[B, S] now, float[B, T] mask) => (y) { x = Concat<axis = 1>(past, now) y = Not(mask) }"
)


@pytest.mark.parametrize(
    ("text", "accepts"),
    [
        ("g (float[N] x, float[M] z) => (y) { y = Add(x, z) }", lambda s: s["N"] == s["M"]),
        ("g (float[N, K] x, float[M, P] z) => (y) { y = MatMul(x, z) }", lambda s: s["K"] == s["M"]),
        ("g (float[N, K] x) => (y) <float[7] w = {1, 1, 1, 1, 1, 1, 1}> { y = Add(x, w) }", lambda s: s["K"] == 7),
        ("g (float[N, K] x) => (y) <int64[2] s = {-1, 12}> { y = Reshape(x, s) }", lambda s: s["N"] * s["K"] % 12 == 0),
        (
            "g (float[N, K] x) => (y) <int64[2] s = {7, 11}> { y = Reshape(x, s) }",
            lambda s: (s["N"], s["K"]) == (7, 11),
        ),
        (PAST, lambda s: s["P"] + s["S"] == s["T"]),
        (SIX, lambda s: s["A"] == s["C"] == s["E"] and s["B"] == s["D"]),
        (SIX, lambda s: s["A"] == s["F"] and s["B"] == s["C"] != s["A"]),
        (SIX, lambda s: s["F"] == s["A"] + s["C"]),
        ("g (float[N, C, H, W] x) => (y) { y = Abs(x) }", lambda s: s["C"] == 3 and s["H"] == s["W"] >= 32),
    ],
)
def test_shapes_are_repaired(text: str, accepts: Callable[[Mapping[str, int]], bool]) -> None:
    if "[N, C, H, W]" in text:
        found = model(text)
        found.graph.initializer.append(numpy_helper.from_array(np.zeros((3, 32), np.float32), "w"))
        specs, known = generator.specs(found.graph), shape_search.hints(summary(found))
        first = next(shape_search.repaired(specs, known, lambda s: accepts(shape_search.sizes_of(specs, s))), None)
        assert first is not None
        return
    assert sought(text, accepts)


@pytest.mark.parametrize(("opset", "scale"), [(18, "G"), (18, "16"), (21, "C")])
def test_channels_are_multiples_of_the_groups(opset: int, scale: str) -> None:
    node = "GroupNormalization <num_groups = 16> (x, s, b)"
    found = model(f"g (float[N,C,W] x, float[{scale}] s, float[{scale}] b) => (float[N,C,W] y) {{ y = {node} }}", opset)
    specs, known = generator.specs(found.graph), shape_search.hints(summary(found))

    def accepts(shape: shape_search.Shapes) -> bool:
        sizes = shape_search.sizes_of(specs, shape)
        length = sizes.get(scale, 16)
        return sizes["C"] % 16 == 0 < sizes["C"] and length == (16 if opset == 18 else sizes["C"])

    yielded = itertools.islice(shape_search.repaired(specs, known, accepts), 40)
    assert {16, 32} <= {shape_search.sizes_of(specs, shape)["C"] for shape in yielded}


@pytest.mark.parametrize(
    ("text", "accepts", "free"),
    [
        ("g (float[N] x, float[M] z) => (y) { y = Add(x, z) }", lambda s: s["N"] == s["M"], "NM"),
        ("g (float[N, K] x, float[M, P] z) => (y) { y = MatMul(x, z) }", lambda s: s["K"] == s["M"], "NKMP"),
        (PAST, lambda s: s["P"] + s["S"] == s["T"], "BPST"),
        (SIX, lambda s: s["A"] == s["C"] == s["E"] and s["B"] == s["D"], "ABCDEF"),
    ],
)
def test_each_symbol_gets_several_sizes(text: str, accepts: Callable[[Mapping[str, int]], bool], free: str) -> None:
    found = sought(text, accepts)
    for symbol in free:
        assert len({sizes[symbol] for sizes in found}) >= 3, symbol
        assert {0, 1} <= {sizes[symbol] for sizes in found} or symbol == "T"
    if text == SIX:
        assert any(sizes["A"] != sizes["B"] == found[0]["B"] for sizes in found)


def test_what_meets_in_a_dim_is_equal_and_spread_too() -> None:
    found = model("g (float[N] x, float[M] z) => (y) { y = Add(x, z) }")
    specs = generator.specs(found.graph)
    some = list(itertools.islice(generator.sizes(specs, whole=True, hints=shape_search.hints(summary(found))), 20))
    assert sum(shape["x"] == shape["z"] for shape in some) > 6
    assert any(shape["x"] == (1,) != shape["z"] for shape in some)


def test_inner_dims_are_equal_at_once() -> None:
    found = model("g (float[N, K] x, float[M, P] z) => (y) { y = MatMul(x, z) }")
    some = generator.sizes(generator.specs(found.graph), whole=True, hints=shape_search.hints(summary(found)))
    first = list(itertools.islice(some, 5))
    assert any(shape["x"][1] == shape["z"][0] != shape["x"][0] for shape in first)


LOOP = """y = Loop (t, c, {name}) <body = b (int64 i, bool d, float[2, 3] p) => (bool e, float[2, 3] q)
    {{ e = Identity(d) q = Add(p, p) }}>"""
SCAN = """y, z = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], body = b (float[2] p, float[2] r)
    => (float[2] q, float[2] v) {{ q = Add(p, r) v = Identity(q) }}> (k, {name})"""


@pytest.mark.parametrize(
    "text",
    [
        f"g (float[N] x, int64[K] s, int64 t, bool c) => (y) {{ m = Reshape(x, s) {LOOP.format(name='m')} }}",
        f"g (float x, int64[K] s, int64 t, bool c) => (y) {{ m = Reshape(x, s) {LOOP.format(name='m')} }}",
        f"g (float[N] x, int64[K] s, float[2] k) => (y) {{ m = Reshape(x, s) {SCAN.format(name='m', axis=0)} }}",
    ],
)
def test_a_body_declares_the_rank_of_what_is_reshaped_for_it(text: str) -> None:
    assert ("K", 2) in shape_search.hints(summary(model(text))).pinned


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_the_other_dims_of_what_is_scanned_are_the_bodys(axis: int) -> None:
    text = f"g (float[N, M] x, float[2] k) => (y) {{ {SCAN.format(name='x', axis=axis)} }}"
    assert shape_search.hints(summary(model(text))).pinned == (("N" if axis in (1, -1) else "M", 2),)


@pytest.mark.parametrize(("shape", "fits"), [((2, 3), True), ((2, 4), False), ((6,), False), ((2, 3, 1), False)])
def test_what_a_body_declares_otherwise_is_a_contradiction(shape: tuple[int, ...], fits: bool) -> None:
    original = model(f"g (float x, int64 t, bool c) => (y) {{ {LOOP.format(name='x')} }}")
    feeds = {"x": np.zeros(shape, np.float32)}
    assert (signature.contradiction(original, feeds, feeds) == "") == fits


def test_relations_are_found_at_once() -> None:
    weights = "<float[7] w = {1, 1, 1, 1, 1, 1, 1}>"
    text = f"g (float[N, K] x, float[M, P] z) => (y) {weights} {{ m = MatMul(x, z) y = Add(m, w) }}"
    assert sought(text, lambda s: s["K"] == s["M"] and s["P"] == 7, rejections=2)


def test_a_search_that_finds_nothing_ends() -> None:
    assert sought(SIX, lambda s: False) == []
    many = ", ".join(f"float[A{at}, B{at}] x{at}" for at in range(30))
    assert sought(f"g ({many}) => (y) {{ y = Abs(x0) }}", lambda s: False) == []


def test_unknown_ranks_are_searched_too() -> None:
    specs = (Spec("x", 1, None), Spec("z", 1, ("N",)))
    found = list(
        shape_search.repaired(
            specs, shape_search.SymbolHints(), lambda s: len(s["x"]) == 3 and s["x"][0] == s["z"][0] != 0
        )
    )
    assert len({shape["z"] for shape in found}) > 2


def test_trials_go_on_to_what_repair_finds() -> None:
    found = model("g (float[N, M] x) => (y) <int64[3] s = {5, -1, 4}> { y = Reshape(x, s) }")
    specs = generator.specs(found.graph)
    draft = Draft(specs, frozenset(), Allowed(whole=True), input_usages(found))
    rng = np.random.default_rng(0)

    def plain(batch: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...] | RejectedError]:
        return [RejectedError("no") if feeds["x"].size % 20 or not feeds["x"].size else () for feeds in batch]

    known = shape_search.hints(summary(found))
    trials = find_trials(
        draft,
        lambda shape, turn: draft.feeds(rng, shape, int(turn)),
        plain,
        generator.sizes(specs, whole=True),
        lambda base: (),
        Budget(6, 48, 2**24, 200),
        shape_search.repairer(specs, known),
    )
    assert len({feeds["x"].shape for feeds, _ in trials.accepted}) >= 4


# --- all kinds ------------------------------------------------------------------------------------------------------


def typed(kind: str, element: int, dims: Any) -> onnx.ValueInfoProto:
    proto = helper.make_tensor_type_proto(element, dims)
    if "sequence" in kind:
        proto = helper.make_sequence_type_proto(proto)
    if "optional" in kind:
        proto = helper.make_optional_type_proto(proto)
    return helper.make_value_info("x", proto)


def draft_of(value: onnx.ValueInfoProto, whole: bool = False) -> Draft:
    return Draft(generator.specs(helper.make_graph([], "g", [value], [])), frozenset(), Allowed(whole=whole))


ELEMENTS = [value for name, value in TensorProto.DataType.items() if value]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("element", ELEMENTS, ids=TensorProto.DataType.Name)
def test_every_element_type_is_drawn(element: int, whole: bool) -> None:
    draft = draft_of(typed("tensor", element, ["N", 3]), whole)
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    for turn in range(3 * draft.turns()):
        array = draft.feeds(rng, {"x": (4, 3)}, turn)["x"]
        assert (array.dtype, array.shape) == (helper.tensor_dtype_to_np_dtype(element), (4, 3))
        seen.update(map(repr, array.ravel().tolist()))
    for mode in LONG:
        assert draft.along(rng, {"x": (4, 3)}, mode)["x"].shape == (4, 3)
    assert draft.feeds(rng, {"x": (0, 3)}, 0)["x"].shape == (0, 3)
    assert len(seen) >= (2 if element == TensorProto.BOOL else 4)


def test_narrow_integers_are_drawn_to_their_ends() -> None:
    draft = draft_of(typed("tensor", TensorProto.INT4, [8, 8]))
    rng = np.random.default_rng(0)
    found = {int(v) for turn in range(20) for v in draft.feeds(rng, {"x": (8, 8)}, turn)["x"].ravel()}
    assert (min(found), max(found)) == (-8, 7)


@pytest.mark.parametrize("kind", ["sequence", "optional", "optional sequence"])
def test_sequences_and_optionals(kind: str) -> None:
    draft = draft_of(typed(kind, TensorProto.FLOAT, ["N", 2]))
    assert draft.specs[0] == Spec("x", TensorProto.FLOAT, ("N", 2), kind)
    rng = np.random.default_rng(0)
    values = [draft.feeds(rng, {"x": (3, 2)}, turn)["x"] for turn in range(80)]
    assert any(value is None for value in values) == ("optional" in kind)
    lists = [value for value in values if isinstance(value, list)]
    assert bool(lists) == ("sequence" in kind)
    if lists:
        assert {len(value) for value in lists} == {0, 1, 2, 3, 4}
        assert any(len({array.shape for array in value}) > 1 for value in lists)
        assert any(len(value) > 1 and len({array.shape for array in value}) == 1 for value in lists)
        assert all(array.shape[1] == 2 for value in lists for array in value)


def test_what_cannot_be_made_is_named() -> None:
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    of_maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, number))
    for proto, words in (
        (helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]), "input z is a sparse_tensor"),
        (helper.make_map_type_proto(TensorProto.INT64, number), "input z is a map"),
        (of_maps, "input z is a sequence of a map"),
    ):
        with pytest.raises(UntestableError, match=words):
            generator.specs(helper.make_graph([], "g", [helper.make_value_info("z", proto)], []))


def test_inputs_depend_on_the_seed_alone() -> None:
    script = """
import numpy as np
from opshift.passes.analysis import model_summary as summary
from opshift.passes.proof.inputs import generator as inputs, shape_search as shapes
from onnx.parser import parse_model
m = parse_model('''<ir_version: 8, opset_import: ["": 13]> g (int64[N] i, float[A, B] t, float[C] z, string[N] s) => (y)
  <float c = {3}, float d = {4}> { a = Gather(t, i) y = Max(a, z, c) w = Clip(z, c, d) }''')
specs = inputs.specs(m.graph)
draft = inputs.Draft(specs, inputs.position_inputs(m), inputs.Allowed(), inputs.input_usages(m))
rng = np.random.default_rng(3)
known = shapes.hints(summary.summary(m))
for shape in list(inputs.sizes(specs, whole=True, hints=known))[:9]:
    for turn in range(9):
        print({k: v.tolist() for k, v in draft.feeds(rng, shape, turn).items()})
print(list(shapes.repaired(specs, known, lambda s: s["z"] == s["i"])))
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    assert outputs.pop()


# --- classes --------------------------------------------------------------------------------------------------------


def single(values: Any) -> Any:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (single([1, 2, 3]), set()),
        (single([[3, 3, 1]]), {"ties", "size 1"}),
        (single([1, 1, 3]), {"ties"}),
        (single([2, 2]), {"rows of one value"}),
        (single([[1, 2, 3], [1, 5, 6]]), {"rows of one value"}),
        (single([[-np.inf, -np.inf], [1, 2]]), {"rows of one value", "all -inf rows", "-inf"}),
        (single([np.inf, 0, -0.0, 1]), {"+inf", "-0.0", "ties"}),
        (single([np.nan, 0]), {"NaN"}),
        (single([1e-40, 0]), {"subnormal"}),
        (single([3.4028235e38, 0]), {"extremes"}),
        (np.zeros((0, 2)), {"empty"}),
        (np.array(1.0), set()),
        (np.array([2**31, 0]), {"beyond 2^31"}),
        (np.array([-(2**31) - 5, 0]), {"beyond 2^31", "negative integers"}),
        (np.array([2**53, 7]), {"beyond 2^31", "beyond 2^53"}),
        (np.array([-(2**63), 7]), {"extremes", "beyond 2^31", "beyond 2^53", "negative integers"}),
        (np.array([2**31, 1], np.uint32), {"beyond 2^31"}),
        (np.array([255, 1], np.uint8), {"extremes"}),
        (np.array([-8, 1]).astype(ml_dtypes.int4), {"extremes", "negative integers"}),
        (np.array([np.nan, 1]).astype(ml_dtypes.bfloat16), {"NaN"}),
        (np.array([448, 1]).astype(ml_dtypes.float8_e4m3fn), {"extremes"}),
        (np.array(["", "é"], object), {"empty string", "non-ASCII"}),
        (np.array([True, True]), {"rows of one value"}),
        (None, {"absent"}),
        ([], {"empty sequence"}),
        ([single([1, 2]), single([np.inf, 1])], {"+inf"}),
    ],
)
def test_classes_of_an_input(value: Any, found: set[str]) -> None:
    assert value_classes.classes([{"x": value}]) == [found]


def test_classes_that_can_occur() -> None:
    assert value_classes.applicable([Spec("x", TensorProto.UINT8, ("N",))]) == (
        "ties", "size 1", "empty", "rows of one value", "extremes",
    )  # fmt: skip
    assert "empty" not in value_classes.applicable([Spec("x", TensorProto.FLOAT, (2, 3))])
    assert "ties" not in value_classes.applicable([Spec("x", TensorProto.FLOAT, ())])
    assert {"absent", "empty sequence"} <= set(
        value_classes.applicable([Spec("x", TensorProto.FLOAT, None, "optional sequence")])
    )
    assert not {"+inf", "-inf", "-0.0"} & set(value_classes.applicable([Spec("x", TensorProto.FLOAT8E4M3FNUZ, (2,))]))


@pytest.mark.parametrize("element", ELEMENTS, ids=TensorProto.DataType.Name)
def test_what_is_drawn_belongs_to_every_class_that_can_occur(element: int) -> None:
    specs = [Spec("x", element, ("N", "M"))]
    draft = Draft(tuple(specs), frozenset(), Allowed())
    rng = np.random.default_rng(0)
    shape = itertools.cycle(generator.sizes(specs, whole=False))
    trials = [draft.feeds(rng, next(shape), turn) for turn in range(160)]
    counts = value_classes.counted(trials, specs)
    assert set(counts) == set(value_classes.applicable(specs))
    assert all(counts.values()), counts


def test_counts_have_zeros_and_are_summed() -> None:
    specs = [Spec("x", TensorProto.FLOAT, ("N",))]
    counts = value_classes.counted([{"x": single([1, 1, 3])}, {"x": single([1, 1, np.nan])}], specs)
    assert (counts["ties"], counts["NaN"], counts["+inf"]) == (1, 1, 0)
    assert value_classes.summed([counts, {"ties": 2, "absent": 1}])["ties"] == 3
    assert value_classes.seen(specs, [{"x": single([1, 1])}, {"x": single([])}]) == {"N": (0, 2)}


# --- given inputs ---------------------------------------------------------------------------------------------------

SPECS = (
    Spec("x", TensorProto.FLOAT, ("N", 2)),
    Spec("s", TensorProto.STRING, ("N",)),
    Spec("b", TensorProto.BFLOAT16, None),
    Spec("q", TensorProto.INT64, ("K",), "sequence"),
    Spec("o", TensorProto.INT64, ("K",), "optional"),
)


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def test_an_npz_is_read(tmp_path: Path) -> None:
    brain = np.array([1.5, 2], ml_dtypes.bfloat16)
    path = npz(tmp_path, x=np.asfortranarray(single([[1, 2], [3, 4]])), s=np.array(["é", ""]), b=brain)
    feeds: dict[str, Any] = dict(*user_inputs.read(path, SPECS))
    assert set(feeds) == {"x", "s", "b"}
    assert np.array_equal(feeds["x"], single([[1, 2], [3, 4]]))
    assert (feeds["s"].dtype, feeds["s"].tolist()) == (object, ["é", ""])
    assert (feeds["b"].dtype, feeds["b"].tolist()) == (brain.dtype, [1.5, 2])
    assert generator.with_shapes(SPECS, user_inputs.shapes(feeds))[0].dims == (2, 2)
    swapped = npz(tmp_path, x=np.array([[1, 2]], ">f4"))
    feeds = dict(*user_inputs.read(swapped, SPECS))
    assert np.array_equal(feeds["x"], single([[1, 2]]))


def test_given_values_override_what_is_drawn() -> None:
    specs = SPECS[:2]
    fixed = {"s": np.array(["a", "b", "c"], object)}
    draft = Draft(generator.with_shapes(specs, user_inputs.shapes(fixed)), frozenset(), Allowed())
    rng = np.random.default_rng(0)
    values = overridden(lambda shape, turn: draft.feeds(rng, shape, int(turn)), fixed)
    (shape,) = dict.fromkeys(tuple(item.items()) for item in generator.sizes(draft.specs, whole=True))
    feeds = values(dict(shape), 0)
    assert (feeds["s"] is fixed["s"], feeds["x"].shape) == (True, (3, 2))


def raw_npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def zipped(folder: Path, data: bytes, name: str = "x.npy") -> Path:
    with zipfile.ZipFile(folder / "data.npz", "w") as archive:
        archive.writestr(name, data)
    return folder / "data.npz"


class Bomb:
    def __reduce__(self) -> Any:
        return os.abort, ()


def object_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Bomb()], object), allow_pickle=True)
    return file.getvalue()


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a pickle inside": (lambda folder: zipped(folder, object_array()), "Python objects"),
    "a bare pickle": (lambda folder: written(folder / "data.npz", pickle.dumps([Bomb()])), r"\.npz"),
    "a member that is a pickle": (lambda folder: zipped(folder, pickle.dumps([Bomb()])), "numpy's format"),
    "truncated": (lambda folder: written(npz(folder, x=single([[1, 2]])), cut=40), r"\.npz"),
    "huge": (
        lambda folder: zipped(folder, raw_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }")),
        "bytes",
    ),
    "a header that is code": (
        lambda folder: zipped(folder, raw_npy("{'descr': __import__('os').abort(), 'shape': (), }")), "numpy's format",
    ),
    "an empty file": (lambda folder: written(folder / "data.npz", b""), r"\.npz"),
    "an unknown name": (lambda folder: npz(folder, z=single([1])), "no such input: it has x, s, b, q, o"),
    "another dtype": (lambda folder: npz(folder, x=np.zeros((1, 2))), "float64, and the input is float32"),
    "another rank": (lambda folder: npz(folder, x=single([1])), "do not fit the model"),
    "a static dim": (lambda folder: npz(folder, x=single([[1, 2, 3]])), "do not fit the model"),
    "a sequence": (lambda folder: npz(folder, q=np.array([1])), "an .npz cannot hold"),
    "no file": (lambda folder: folder / "none.npz", "no file or directory"),
    "an empty directory": (lambda folder: folder, "input_0.pb"),
}  # fmt: skip


def written(path: Path, data: bytes | None = None, cut: int = 0) -> Path:
    path.write_bytes(path.read_bytes()[:-cut] if data is None else data)
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_npz_is_a_usage_error(tmp_path: Path, name: str) -> None:
    make, words = HOSTILE[name]
    with pytest.raises(UsageError, match=words) as caught:
        user_inputs.read(make(tmp_path), SPECS)
    assert "\n" not in str(caught.value)


PROTOS: dict[str, tuple[str, bytes, str]] = {
    "text": ("input_0.pb", b"dims: 2\ndata_type: 1\nfloat_data: 1\n", "input_0.pb"),
    "empty": ("input_0.pb", b"", "holds no tensor"),
    "another type": ("input_0.pb", numpy_helper.from_array(np.zeros((1, 2))).SerializeToString(), "double"),
    "too short": (
        "input_0.pb", TensorProto(data_type=1, dims=[10**12], raw_data=b"1234").SerializeToString(), "fewer elements",
    ),
    "half an element": (
        "input_0.pb", TensorProto(data_type=1, dims=[1, 2], raw_data=b"12345").SerializeToString(), "no tensor",
    ),
    "external": (
        "input_0.pb",
        TensorProto(data_type=1, dims=[1, 2], data_location=TensorProto.EXTERNAL,
                    external_data=[onnx.StringStringEntryProto(key="location", value="/etc/passwd")]
                    ).SerializeToString(),
        "another file",
    ),
    "a static dim": ("input_0.pb", numpy_helper.from_array(single([[1]])).SerializeToString(), "do not fit"),
    "one too many": ("input_5.pb", numpy_helper.from_array(single([[1]])).SerializeToString(), "input_0.pb is x"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOS)
def test_a_hostile_pb_is_a_usage_error(tmp_path: Path, name: str) -> None:
    file, data, words = PROTOS[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(UsageError, match=words) as caught:
        user_inputs.read(tmp_path, SPECS)
    assert "\n" not in str(caught.value)


def test_a_pb_larger_than_any_protobuf_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "input_0.pb").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match="no protobuf has more"):
        user_inputs.read(tmp_path, SPECS)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kinds = {
        "x": typed("tensor", TensorProto.FLOAT, ["N", 2]),
        "s": typed("tensor", TensorProto.STRING, ["N"]),
        "b": typed("tensor", TensorProto.BFLOAT16, None),
        "q": typed("sequence", TensorProto.INT64, ["K"]),
        "o": typed("optional", TensorProto.INT64, ["K"]),
        "p": typed("optional sequence", TensorProto.INT4, ["K"]),
        "e": typed("sequence", TensorProto.FLOAT, ["K"]),
        "n": typed("optional", TensorProto.FLOAT, ["K"]),
    }
    for name, value in kinds.items():
        value.name = name
    narrow = [np.array([1, -8, 3]).astype(ml_dtypes.int4), np.array([]).astype(ml_dtypes.int4)]
    feeds = {
        "x": single([[1, 2]]),
        "s": np.array(["é"], object),
        "b": np.array(3, ml_dtypes.bfloat16),
        "q": [np.array([1]), np.array([2, 3])],
        "o": np.array([4]),
        "p": narrow,
        "e": [],
        "n": None,
    }
    table = numpy_helper.from_array(single([1]), "w")
    default = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in ("y", "z", "m")]
    graph = helper.make_graph([], "g", [default, *kinds.values()], outputs, [table])
    place = user_inputs.write(tmp_path, feeds, [single([5]), [{"a": 1.0}], {3: np.float32(2)}], graph)
    assert place == tmp_path / "test_data_set_0"
    for path in (place, tmp_path):
        (back,) = user_inputs.read(path, generator.specs(graph))
        assert list(back) == list(feeds)
        for name, value in feeds.items():
            other: Any = back[name]
            one: Any = [value] if not isinstance(value, list) else value
            other = [other] if not isinstance(other, list) else other
            assert len(one) == len(other)
            for wanted, found in zip(one, other, strict=True):
                assert (wanted is None) == (found is None)
                if wanted is not None:
                    assert (wanted.dtype, wanted.shape, wanted.tolist()) == (found.dtype, found.shape, found.tolist())
    output = onnx.load_tensor(place / "output_0.pb")
    assert numpy_helper.to_array(output).tolist() == [5]
    listed = onnx.SequenceProto.FromString((place / "output_1.pb").read_bytes())
    assert listed.map_values[0].string_keys == [b"a"]
    assert onnx.MapProto.FromString((place / "output_2.pb").read_bytes()).keys == [3]


def test_several_sets_come_in_order(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        tensor = numpy_helper.from_array(single([[number, 0]]))
        (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
    sets: list[Mapping[str, Any]] = list(user_inputs.read(tmp_path, SPECS))
    assert [int(feeds["x"][0, 0]) for feeds in sets] == [0, 2, 10]
