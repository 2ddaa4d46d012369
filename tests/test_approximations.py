"""`--assume approximate`: Erf by polynomials, within the bound that the documentation states, and no further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from running import run

import opshift
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict
from opshift.passes.proof.node_pairs import compare_pairs
from opshift.passes.proof.pair import Pair

BOUND = 2.0**-21
"""Of each result; docs/semantics.md states it."""

Array = np.ndarray[Any, Any]
erf = np.vectorize(math.erf, [np.float64])


def model(operator: str, dtype: int, opset: int, domain: str = "", inputs: int = 1) -> onnx.ModelProto:
    """Return a model of one node."""
    names = ["x", "b"][:inputs]
    typed = [helper.make_tensor_value_info(name, dtype, ["n"]) for name in (*names, "y")]
    node = helper.make_node(operator, names, ["y"], "n", domain=domain)
    graph = helper.make_graph([node], "g", typed[:-1], typed[-1:])
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def approximated(original: onnx.ModelProto, **request: Any) -> opshift.Result:
    """Return the model with Erf, and what is made of it, decomposed."""
    gone = {"decompose": ["Erf", "Gelu"], "assume": ["approximate"]}
    return opshift.convert(original, **{**gone, "require_proof": True, **request})


def every_float(step: int) -> Array:
    """Return positive floats up to 8, of each binade as many."""
    return np.arange(0, np.float32(8).view(np.uint32), step, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("step", [4001, pytest.param(257, marks=pytest.mark.slow)])
def test_erf_of_float_is_within_the_bound(step: int) -> None:
    result = approximated(model("Erf", TensorProto.FLOAT, 13), verify=False)
    x = every_float(step)
    x = np.concatenate([x, -x[::16], np.array([8, 1e30, math.inf, -math.inf], np.float32)])
    for found in (run(result.rewritten, [{"x": x}], optimised=way)[0][0] for way in (False, True)):
        wanted = erf(x.astype(np.float64))
        smallest = np.finfo(np.float32).smallest_subnormal
        assert (np.abs(found - wanted) <= np.maximum(BOUND * np.abs(wanted), smallest)).all()
        assert np.abs(found).max() == 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda one: np.dtype(one).name)
def test_erf_of_other_floats_is_within_the_bound(dtype: Any) -> None:
    result = approximated(model("Erf", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 13), verify=False)
    if np.dtype(dtype).itemsize == 2:
        x = np.arange(2**16, dtype=np.uint16).view(dtype)
        x = x[np.abs(x) < 100]
    else:
        rng = np.random.default_rng(1)
        x = np.concatenate([rng.uniform(-6, 6, 100_000), np.exp(rng.uniform(-700, 2, 100_000)), [1e300, -math.inf]])
    (found,) = run(result.rewritten, [{"x": x}])[0]
    wanted = erf(x.astype(np.float64))
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    own = 0 if dtype == np.float64 else float(info.eps) / 2 * np.abs(wanted) + float(info.smallest_subnormal)
    assert (np.abs(found.astype(np.float64) - wanted) <= BOUND * np.abs(wanted) + own).all()


@pytest.mark.parametrize("opset", [7, 8, 11])
def test_erf_reaches_opsets_that_do_not_have_it(opset: int) -> None:
    result = approximated(model("Erf", TensorProto.FLOAT, 13), opset=opset, verify=False)
    x = every_float(40_001)
    (found,) = run(result.rewritten, [{"x": x}])[0]
    assert (np.abs(found - erf(x.astype(np.float64))) <= BOUND * erf(x.astype(np.float64)) + 2e-45).all()


def test_zeros_keep_their_sign_and_nan_stays() -> None:
    result = approximated(model("Erf", TensorProto.FLOAT, 13), verify=False)
    (found,) = run(result.rewritten, [{"x": np.array([0.0, -0.0, math.nan], np.float32)}])[0]
    assert found.view(np.uint32)[:2].tolist() == [0, 2**31]
    assert math.isnan(found[2])


FORMS = [
    ("Erf", "", 1, 13),
    ("Erf", "", 1, 9),
    ("Gelu", "", 1, 20),
    ("Gelu", "com.microsoft", 1, 17),
    ("BiasGelu", "com.microsoft", 2, 17),
]
TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


@pytest.mark.parametrize(
    ("operator", "domain", "inputs", "opset", "dtype"),
    [
        (*form, dtype)
        for form in FORMS
        for dtype in TYPES
        if dtype != TensorProto.BFLOAT16 or (form[3] >= 13 and not form[1])  # others have no bfloat16
    ],
)
def test_results_are_within_the_bound_and_never_equal(
    operator: str, domain: str, inputs: int, opset: int, dtype: int
) -> None:
    original = model(operator, dtype, opset, domain, inputs)
    result = approximated(original, decompose=["Erf", "Gelu", *([domain] if domain else [])])
    assert not {node.op_type for node in result.rewritten.graph.node} & {"Erf", "Gelu", "BiasGelu"}
    (step,) = result.plan.lowered
    assert step.assumes == ("approximate",)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert "2^-21" in result.report.whole.reason


@pytest.mark.parametrize(
    ("operator", "opset", "request_of"),
    [
        ("Erf", 13, {"decompose": ["Erf"]}),
        ("Gelu", 20, {"decompose": ["Gelu", "Erf"]}),
        ("Erf", 13, {"opset": 8}),
        ("Erf", 13, {"target": "qnn"}),
    ],
)
def test_the_refusal_names_the_assumption(operator: str, opset: int, request_of: Mapping[str, Any]) -> None:
    original = model(operator, TensorProto.FLOAT, opset)
    (refusal,) = opshift.plan(original, **request_of).refusals
    assert refusal.code is Code.ASSUMPTION
    assert "approximate" in refusal.hint
    assert "2^-21" in refusal.reason
    assert not opshift.plan(original, assume=["approximate"], **request_of).refusals


@pytest.mark.slow
def test_a_network_of_gelus_is_within_the_bound() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, 8)).astype(np.float32) / 3 for _ in range(3)]
    nodes = []
    for place in range(3):
        nodes.append(helper.make_node("MatMul", [f"x{place}", f"w{place}"], [f"m{place}"], f"m{place}"))
        nodes.append(helper.make_node("Gelu", [f"m{place}"], [f"x{place + 1}"], f"g{place}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("x0", "x3")]
    initializers = [onnx.numpy_helper.from_array(one, f"w{place}") for place, one in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    original = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    report = approximated(original).report
    assert report is not None
    assert report.verdict is Verdict.WITHIN_BOUND


def wrong(rewritten: onnx.ModelProto, by: float) -> onnx.ModelProto:
    """Return a model with the largest constant below 2 that is not 1, a coefficient, made larger by a share."""
    copied = onnx.ModelProto()
    copied.CopyFrom(rewritten)
    for tensor in copied.graph.initializer:
        value = onnx.numpy_helper.to_array(tensor)
        if value.size == 1 and 1 < value.item() < 1.2:
            tensor.CopyFrom(onnx.numpy_helper.from_array((value * np.float32(1 + by)).astype(value.dtype), tensor.name))
            return copied
    raise AssertionError("there is no such constant")


@pytest.mark.parametrize(("by", "verdict"), [(0.0, Verdict.EQUAL), (3e-6, Verdict.DIFFERENT)])
def test_verification_finds_worse_polynomials(by: float, verdict: Verdict) -> None:
    original = model("Erf", TensorProto.FLOAT, 13)
    rewritten = wrong(approximated(original, verify=False).rewritten, by)
    (check,) = compare_pairs([Pair("n", "Erf-13", original, rewritten, exact=False, approximate=True)])
    assert check.verdict is verdict


def test_verification_finds_another_formula_of_gelu() -> None:
    """The formula with tanh is 5e-4 off, and is no approximation that is accepted."""
    original = model("Gelu", TensorProto.FLOAT, 20)
    other = model("Gelu", TensorProto.FLOAT, 20)
    other.graph.node[0].attribute.append(helper.make_attribute("approximate", "tanh"))
    (check,) = compare_pairs([Pair("n", "Gelu-20", original, other, exact=False, approximate=True)])
    assert check.verdict is Verdict.DIFFERENT
