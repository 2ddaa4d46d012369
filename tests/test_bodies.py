"""ONNX's function bodies as lowerings: its own tests of the operators that have one, where the operator is not."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx
import onnx.parser
import pytest
from node_tests import asked, cases, differs
from running import CannotRunError

import opshift
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Body, Reason
from opshift.opsets.registry.operator import Node, lift
from opshift.opsets.registry.schema_only import has_body, operator_of
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.schema_bodies import bodies
from opshift.passes.base.plan import Code
from opshift.passes.rewrite.fragment import Fragment
from opshift.passes.rewrite.lowering_search import Deriver

FLOAT = onnx.TensorProto.FLOAT
NO_KERNEL = "NOT_IMPLEMENTED"


@functools.cache
def _tests() -> list[Any]:
    """The tests of operators with a body, whose models are that one node."""
    return [
        case for case in cases("") if len(case.model.graph.node) == 1 and has_body(case.model.graph.node[0].op_type)
    ]


def _runs(case: Any) -> bool:
    """Whether onnxruntime gives a test's outputs for the model as it is; one that is too new counts."""
    try:
        return not differs(case, case.model)
    except CannotRunError:
        return True
    except Exception:  # onnxruntime raises classes of its own
        return False


LEAST: Mapping[int, Mapping[str, int]] = {
    13: {
        "Attention": 77,
        "BlackmanWindow": 2,
        "CausalConvWithState": 13,
        "Celu": 1,
        "CenterCropPad": 3,
        "Gelu": 4,
        "GroupNormalization": 2,
        "HammingWindow": 2,
        "HannWindow": 2,
        "HardSwish": 1,
        "LayerNormalization": 19,
        "Mish": 1,
        "RMSNormalization": 19,
        "SwiGLU": 3,
        "Swish": 1,
    },
    9: {
        "CausalConvWithState": 13,
        "Celu": 2,
        "Gelu": 4,
        "GroupNormalization": 2,
        "HardSwish": 1,
        "LayerNormalization": 19,
        "Mish": 1,
        "RMSNormalization": 19,
        "SwiGLU": 3,
        "Swish": 1,
        "ThresholdedRelu": 3,
    },
}
"""By target and operator, how many of its tests come out right by a body, or by another lowering that came since."""


@pytest.mark.slow
@pytest.mark.parametrize("target", LEAST)
def test_bodies_compute_what_onnx_says(target: int) -> None:
    right: Counter[str] = Counter()
    by_body: Counter[str] = Counter()
    wrong = []
    for case in _tests():
        if not asked(case.model, target):
            continue
        try:
            result = opshift.convert(case.model, opset=target, verify=False)
        except opshift.UnsupportedError:
            continue
        if not any(step.lowerings for step in result.plan.steps):
            continue
        try:
            found = differs(case, result.rewritten)
        except Exception as error:  # onnxruntime raises classes of its own
            found = f"{type(error).__name__}: {error}"
        name = case.model.graph.node[0].op_type
        if not found:
            right[name] += 1
            by_body[name] += any("body of" in lowering for step in result.plan.steps for lowering in step.lowerings)
        elif NO_KERNEL not in found and _runs(case):
            wrong.append(f"{case.name}: {found}")
    print(f"to opset {target}, right: {dict(sorted(right.items()))}, of these by bodies: {by_body.total()}")
    assert not wrong, "\n".join(wrong)
    assert {name: right[name] for name, least in LEAST[target].items() if right[name] < least} == {}


def _derived(name: str, since: int, opset: int, *inputs: Facts | None, **attributes: Any) -> Fragment:
    operator = operator_of("", name)
    assert operator is not None
    lifted = lift(operator, Node("", name, since, attributes, inputs, (True,)), "runtime")
    assert not isinstance(lifted, Reason)
    found = Deriver(Legality(opset)).derive(lifted)
    assert isinstance(found, Fragment), found
    return found


def test_a_body_is_lowered_in_turn() -> None:
    found = _derived("Mish", 22, 12, Facts(FLOAT, (2, 3)))
    assert [leaf.name for leaf in found.nodes] == ["Softplus", "Tanh", "Mul"]
    assert found.lowerings == ("body of Mish-22",)


def test_what_no_output_needs_is_not_written() -> None:
    found = _derived("RMSNormalization", 23, 13, Facts(FLOAT, (2, 3)), Facts(FLOAT, (3,)), axis=-1)
    assert "Cast" not in [leaf.name for leaf in found.nodes]


def test_a_parameter_takes_its_default() -> None:
    (halved,) = (leaf for leaf in _derived("Swish", 24, 23, Facts(FLOAT, (2,)), alpha=0.5).nodes[:1])
    assert halved.name == "Mul"
    one = _derived("Swish", 24, 23, Facts(FLOAT, (2,)))
    # Its alpha is 1, by which nothing is multiplied.
    assert [leaf.name for leaf in one.nodes] == ["Sigmoid", "Mul"]


@pytest.mark.parametrize(
    ("name", "since", "dtype", "rounds"),
    [
        ("Gelu", 20, FLOAT, True),
        ("Clip", 13, FLOAT, True),
        ("Clip", 13, onnx.TensorProto.INT32, False),
        ("HannWindow", 17, onnx.TensorProto.INT64, True),
        ("SpaceToDepth", 28, FLOAT, False),
    ],
)
def test_a_body_says_whether_it_rounds(name: str, since: int, dtype: int, rounds: bool) -> None:
    operator = operator_of("", name)
    assert operator is not None
    attributes = {"blocksize": 2} if name == "SpaceToDepth" else {}
    lifted = lift(operator, Node("", name, since, attributes, (Facts(dtype, ()),), (True,)), "runtime")
    assert not isinstance(lifted, Reason)
    assert {body.rounds for body in bodies(lifted) if isinstance(body, Body)} == {rounds}


def test_what_is_exact_is_taken_before_what_rounds() -> None:
    """Softmax-13 over axis 0 could be its body; moving the axis to the end keeps the kernel."""
    found = _derived("Softmax", 13, 12, Facts(FLOAT, (2, 3)), axis=0)
    assert "body" not in " ".join(found.lowerings)
    assert not found.rounds


def test_a_body_with_graphs_is_none() -> None:
    operator = operator_of("", "AffineGrid")
    assert operator is not None
    operands = Facts(FLOAT, (2, 2, 3)), Facts(onnx.TensorProto.INT64, (4,))
    lifted = lift(operator, Node("", "AffineGrid", 20, {}, operands, (True,)), "runtime")
    assert not isinstance(lifted, Reason)
    found = list(bodies(lifted))
    assert found
    assert all(isinstance(body, Reason) and "graphs inside" in body for body in found)


REFUSED = {
    "a type that decides the body": (
        '<ir_version: 8, opset_import: ["":20, "l":1]> g (float[2] x) => (float[2] y) { y = Abs(x) } '
        '<opset_import: ["":20], domain: "l"> f (x) => (y) { y = Gelu(x) }',
        17,
        Code.MISSING_FACT,
        "the element type of X is unknown",
    ),
    "a node of the body": (
        '<ir_version: 8, opset_import: ["":18, "other":1]> g (float[2,3] w, int64[2] s) => (float[n,m] y) '
        "{ x = other.Some(w) y = CenterCropPad(x, s) }",
        8,
        Code.MISSING_FACT,
        "body of CenterCropPad-18: ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused(case: str) -> None:
    text, opset, code, words = REFUSED[case]
    plan = opshift.plan(onnx.parser.parse_model(text), opset=opset)
    assert [refusal.code for refusal in plan.refusals] == [code]
    assert all(words in (refusal.details or refusal.reason) for refusal in plan.refusals)
