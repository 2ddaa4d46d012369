"""Hints of refusals: with the options that they name, the refused nodes are converted; reasons name one obstacle."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from differential import draw, generate
from onnx.parser import parse_model

import opshift
from opshift.cli.main import parse
from opshift.cli.options import request
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import known_operators
from opshift.opsets.registry.schema import OLDEST
from opshift.passes.rewrite.fragment import Failure
from opshift.passes.rewrite.lowering_search import Deriver

CODED = """g (int64[3,4] x) => (float[3,4,9] y, bool[3,4] z, int64[3,4] r) <int64 depth = {9}, float[2] values = {0, 1},
    int64 two = {2}> { y = OneHot(x, depth, values) z = Equal(x, two) r = Mod(x, two) }"""
MASKED = """g (float[2,5] x, int64[2] l) => (float[2,5] y) <int64[1,5] places = {0, 1, 2, 3, 4}, int64[1] one = {1}>
    { u = Unsqueeze(l, one) m = Less(places, u) c = Cast<to = 1>(m) y = Mul(x, c) }"""
RESHAPED = """g (float[n,6] x) => (float[a,b] y) <int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}>
    { s = Shape(x) n = Gather(s, zero) d = Mul(n, n) u = Unsqueeze(d, first) t = Concat<axis = 0>(rest, u)
      y = Reshape(x, t) }"""
BOTH = """g (float[n,4] x, int64[n] l) => (float[a,b] y) <int64[1] one = {1}, int64[2] rest = {-1, 2}>
    { u = Unsqueeze(l, one) c = Cast<to = 1>(u) s = Shape(x) d = Mul(s, rest) e = Add(x, c) y = Reshape(e, d) }"""
ROUNDED = "g (double[3,4] x) => (double[3,4] y) { y = Relu(x) }"

CASES = (
    (CODED, "webgpu", "--types int64=int32 --io-types"),
    (MASKED, "webgpu", "--types int64=int32 --io-types"),
    (RESHAPED, "webgpu", "--input-shape"),
    (ROUNDED, "webgpu", "--types double=float --io-types"),
    (CODED, "ncnn", ""),
)


def model(text: str) -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


def options_of(hint: str) -> dict[str, Any]:
    """Return the arguments of Python for the options that a hint names."""
    words = shlex.split(hint[hint.index("--") :].removesuffix("."))
    return request(parse(["plan", "in.onnx", "--target", "mnn", *words])) | {"opset": None, "target": None}


@pytest.mark.parametrize(("text", "target", "wanted"), CASES)
def test_options_of_a_hint_convert_the_node(text: str, target: str, wanted: str) -> None:
    plan = opshift.plan(model(text), target=target)
    assert plan.refusals
    hints = {one.hint for one in plan.refusals if "--types" in one.hint or "--input-shape" in one.hint}
    assert not wanted or any(
        hint == f"Change its element types with {wanted}." or wanted in hint.split() for hint in hints
    )
    for one in plan.refusals:
        if not one.hint.startswith(("Change its element types with", "Use --", "Fix its dynamic inputs")):
            continue
        asked = {name: value for name, value in options_of(one.hint).items() if value and name != "target"}
        assert one.node not in {other.node for other in opshift.plan(model(text), target=target, **asked).refusals}


# --- reasons ---


def failing(*reasons: str, **last: Any) -> Failure:
    """Return a failure for the first reason, whose nearest lowering fails for the next one."""
    found: Failure | None = None
    for place, reason in reversed([*enumerate(reasons)]):
        name = f"lowering_{place}" if place else ""
        found = Failure(reason, name=name, nearest=found, **(last if place and found is None else {}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("failure", "explanation"),
    [
        (failing("no Less"), "no Less"),
        (failing("no Less", "no Greater", "no Max"), "no Less. Its decomposition fails, because no Greater"),
        (failing("no Less", "no Less", "no Max"), "no Less. Its decomposition fails, because no Max"),
        (failing("no Cast", "it is not bool", beside=True), "no Cast, and no decomposition applies: it is not bool"),
        (
            failing("no Resize", "no Shape", "no rank", missing=True),
            "no Resize. Its decomposition fails, because no Shape",
        ),
        (failing("no Resize", "the rank is unknown", missing=True), "no Resize; the rank is unknown"),
        (failing("", "no Less"), "no Less"),
        (failing("no Cast", ""), "no Cast"),
    ],
)
def test_explanation(failure: Failure, explanation: str) -> None:
    assert failure.explanation == explanation


def test_details_name_every_lowering() -> None:
    found = failing("no Less", "no Greater", "no Less", "", "no Max").details
    assert found == "no Less; lowering_1: no Greater; lowering_3: lowering_4: no Max"


VALUES = re.compile("run time|constant|axes|one axis|k is|off or on|max_output_boxes_per_class")
"""Parts of reasons that concern elements of operands, which shapes do not determine."""


def applicable(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Yield operators with the reasons of their lowerings that lack a fact although all types and shapes are known."""
    found: set[tuple[str, str]] = set()
    original = Deriver._best

    def best(self: Deriver, candidates: Any, lifted: Any, *others: Any) -> Any:
        if all(facts is None or (facts.dtype and facts.size is not None) for facts in lifted.operands):
            missing = (one for one in candidates if isinstance(one, Reason) and one.missing and not VALUES.search(one))
            found.update((lifted.operator.name, str(one)) for one in missing)
        return original(self, candidates, lifted, *others)

    monkeypatch.setattr(Deriver, "_best", best)
    names = [one.name for one in known_operators() if not one.domain and draw.opsets(one.name)]
    places = np.random.default_rng(seed).integers(10**6, size=count)
    for place in places:
        operator = names[place % len(names)]
        case = generate.draw_case(seed, int(place), [operator])
        try:
            opshift.plan(case.embedded.model, decompose=[operator], opset=max(case.opset, OLDEST))
        except opshift.InvalidModelError:
            continue
    yield from found


def test_no_fact_is_missing_where_all_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint to declare types and shapes would help nobody."""
    assert not [*applicable(3, 60, monkeypatch)]


@pytest.mark.slow
def test_no_fact_is_missing_in_more_models(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [*applicable(4, 700, monkeypatch)]
