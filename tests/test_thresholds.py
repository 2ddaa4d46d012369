"""Inputs near the thresholds of computed values: wrong thresholds are found, and right rewrites stay equal."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Verdict
from opshift.passes.proof.thresholds import at_thresholds
from opshift.passes.runtime.ort_models import Feeds, Runnable, read


def source(graph: str, functions: str = "") -> Runnable:
    text = f'<ir_version: 8, opset_import: ["": 17, "f": 1]> {graph} {functions}'
    return read(parse_model(text), None, ())


def near(graph: str, *values: dict[str, list[float]], functions: str = "") -> list[Feeds]:
    feeds = [{name: np.array(value, np.float32) for name, value in one.items()} for one in values]
    return at_thresholds(source(graph, functions), feeds, Limits(), lambda size: True)


PRODUCT = "g (float[2] a, float[2] b) => (bool[2] y) <float t = {6}> {p = Mul (a, b) y = Greater (p, t)}"
FAR = {"a": [1.0, 1.0], "b": [1.0, 1.0]}, {"a": [1.0, 5.0], "b": [1.0, 5.0]}


def test_inputs_on_both_sides_come_close_to_the_threshold() -> None:
    products = np.array([one["a"][1] * one["b"][1] for one in near(PRODUCT, *FAR)])
    below, above = products[products < 6], products[products > 6]
    assert 6e-6 < (6 - below.max()) / 6 < 1e-3
    assert 6e-6 < (above.min() - 6) / 6 < 1e-3
    assert len(np.unique(np.abs(products - 6).round(2))) > 3  # several distances


def test_a_comparison_in_a_function_is_reached() -> None:
    graph = "g (float[2] a, float[2] b) => (bool[2] y) {y = f.Above (a, b)}"
    body = "t = Constant <value = float {6}> () p = Mul (a, b) y = Greater (p, t)"
    function = f'<domain: "f", opset_import: ["": 17]> Above (a, b) => (y) {{{body}}}'
    assert near(graph, *FAR, functions=function)


INSIDE = {
    "If": "c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (bool[2] u) {%s u = Identity (z)}, "
    "else_branch = e () => (bool[2] v) {v = Less (a, b)}>",
    "Loop": "n = Constant <value = int64 {2}> () c = Constant <value = bool {1}> () s = Less (a, b) y = Loop (n, c, s) "
    "<body = l (int64 i, bool d, bool[2] h) => (bool e, bool[2] u) {e = Identity (d) %s u = Xor (z, h)}>",
}


@pytest.mark.parametrize("place", INSIDE)
def test_a_comparison_in_a_branch_or_a_body_is_reached(place: str) -> None:
    body = "k = Constant <value = float {6}> () p = Mul (a, b) z = Greater (p, k)"
    found = near(f"g (float[2] a, float[2] b) => (bool[2] y) {{{INSIDE[place] % body}}}", *FAR)
    products = np.array([one["a"][1] * one["b"][1] for one in found])
    assert np.abs(products - 6).min() < 1e-3


def test_equal_tensors_are_tried_where_no_others_reach_the_threshold() -> None:
    body = "d = Sub (a, b) s = ReduceL2 (d) y = Less (s, t)"
    graph = f"g (float[2] a, float[2] b) => (bool[1] y) <float t = {{0.5}}> {{{body}}}"
    assert near(graph, {"a": [1, 2], "b": [30, 40]}, {"a": [5, 6], "b": [70, 80]})


@pytest.mark.parametrize(
    "values",
    [
        (FAR[0],),  # nothing to go to
        ({"a": [np.nan, np.nan], "b": [1, 1]}, {"a": [np.inf, np.inf], "b": [1, 1]}),
        ({"a": [], "b": []}, {"a": [], "b": []}),
    ],
)
def test_nothing_is_found_on_one_side(values: tuple[dict[str, list[float]], ...]) -> None:
    assert near(PRODUCT.replace("[2]", "[n]"), *values) == []


def test_what_costs_too_much_is_not_run() -> None:
    feeds = [{name: np.array(value, np.float32) for name, value in one.items()} for one in FAR]
    assert at_thresholds(source(PRODUCT), feeds, Limits(), lambda size: False) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p = Mul (a, b) q = Mul (p, c)", "p = Mul (b, c) q = Mul (a, p)"),
        ("p = Sub (a, b) q = Div (p, c)", "r = Reciprocal (c) p = Sub (a, b) q = Mul (p, r)"),
        ("p = Mul (a, b) r = Mul (p, c) q = Sqrt (r)", "p = Mul (c, b) r = Mul (p, a) q = Sqrt (r)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("element", "number"), [("float", 1), ("float16", 10)])
def test_arithmetic_in_another_order_is_equal_near_its_threshold(
    before: str, after: str, element: str, number: int
) -> None:
    names = ", ".join(f"{element}[n] {name}" for name in "abc")
    graph = f"g ({names}) => (bool[n] y) <float f = {{2.3}}> {{t = Cast <to = {number}> (f) %s y = Greater (q, t)}}"
    models = [parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph % body}') for body in (before, after)]
    assert opshift.verify(*models).verdict is Verdict.EQUAL
