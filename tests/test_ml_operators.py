"""Operators of ai.onnx.ml in, ONNX out: nodes drawn at random compute what onnxruntime's kernels and oracles do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from ml_cases import DRAWN, ML, Drawn
from running import run

import opshift
from opshift.opsets.ml.forest import DEEPEST
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.operator import Lifted, Node, lift, ml_operators, operator_for
from opshift.opsets.registry.schema import schema_at
from opshift.passes.base.report import Verdict
from opshift.passes.runtime.ort_models import RejectedError, Runnable
from opshift.passes.runtime.ort_session import Runner

DRAWS = 40


def drawn(name: str, seed: int) -> Drawn:
    return DRAWN[name](np.random.default_rng([seed, *name.encode()]))


def test_every_operator_is_drawn() -> None:
    assert DRAWN.keys() == {operator.name for operator in ml_operators()}


def kernel(case: Drawn) -> list[Any] | None:
    """What onnxruntime's kernel computes; None if it has none for the types."""
    runner = Runner(Runnable(case.model))
    try:
        runner.open(optimised=False)
        return list(runner.run(case.feeds, False))
    except RejectedError:
        return None


def oracle(case: Drawn) -> list[Any]:
    schema = schema_at(ML, case.name, case.version)
    operator = operator_for(ML, case.name)
    assert schema is not None
    assert operator is not None
    proto = case.model.graph.node[0]
    from opshift.passes.analysis.scopes import Scope, view

    facts: dict[str, Facts | None] = {
        name: dataclasses.replace(constant(one), value=None) for name, one in case.feeds.items()
    }
    seen: Node = view(proto, Scope(facts), case.opset, {ML: case.version})
    lifted = lift(operator, seen, "runtime")
    assert isinstance(lifted, Lifted), lifted
    with np.errstate(all="ignore"):
        found = operator.oracle(lifted.meaning, *case.arrays)
    return [np.asarray(one) for one in found] if isinstance(found, tuple) else [np.asarray(found)]


def check(case: Drawn, wanted: list[Any], got: list[Any], what: str) -> None:
    for one, other in zip(wanted, got, strict=True):
        assert one.dtype == other.dtype, what
        assert one.shape == other.shape, what
        if case.exact or one.dtype.kind not in "f":
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), f"{what}: {case}: {one} {other}"
            continue
        finite = np.isfinite(one)
        # PROBIT and quotients by zero are infinite, or no number, where rounding decides which
        both = finite & np.isfinite(other)
        assert (both == finite).mean() >= 0.9 if one.size else True, f"{what}: {case}: {one} {other}"
        unit = np.finfo(np.float32).eps * max(np.abs(one[both]).max(initial=0), 1)
        assert np.abs(one[both] - other[both]).max(initial=0) <= case.tolerance * unit, f"{what}: {case}: {one} {other}"


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_nodes_drawn_at_random_compute_the_same(name: str) -> None:
    judged = 0
    for seed in range(DRAWS):
        case = drawn(name, seed)
        found = kernel(case)
        told = oracle(case)
        if found is not None:
            judged += 1
            check(case, found, told, "the oracle")
        for opset in {9, 11, case.opset} if case.opset < 19 else {19}:
            result = opshift.convert(case.model, opset=opset, decompose=[ML], verify=False).model
            assert isinstance(result, onnx.ModelProto)
            assert not [node for node in result.graph.node if node.domain]
            assert [item.domain for item in result.opset_import] == [""]
            check(case, told if found is None else found, list(run(result, [case.feeds])[0]), f"at {opset}")
    assert judged >= DRAWS // 5


@pytest.mark.parametrize("name", DRAWN)
def test_replacements_are_verified(name: str) -> None:
    for seed in range(4):
        case = dataclasses.replace(drawn(name, seed), symbolic=True)
        result = opshift.convert(case.model, decompose=[ML], require_proof=True)
        assert result.report is not None
        assert {check.verdict for check in (*result.report.nodes, result.report.whole)} == {Verdict.EQUAL}
        assert len(result.report.nodes) == 1


@pytest.mark.slow
def test_deep_trees_are_levels_in_halves() -> None:
    """A lowering within a lowering may not nest as deep as trees are; DEEPEST levels are written."""
    for depth, possible in ((DEEPEST, True), (DEEPEST + 1, False)):
        model = chain(depth)
        plan = opshift.plan(model, decompose=[ML])
        assert plan.possible is possible
        if possible:
            made = opshift.convert(model, decompose=[ML], verify=False).model
            assert isinstance(made, onnx.ModelProto)
            rows = np.linspace(-1, depth + 1, 3 * depth, dtype=np.float32)[:, None]
            for before, after in zip(run(model, [{"x": rows}])[0], run(made, [{"x": rows}])[0], strict=True):
                assert np.array_equal(before, after)


def chain(depth: int) -> onnx.ModelProto:
    """A tree in which each question but the last leads to a leaf and to the next one; of many trees of one leaf."""
    count = 2 * depth + 1
    inner = range(0, count - 1, 2)
    leaves = [*range(1, count, 2), count - 1]
    trees = 200  # so that matrices would be large
    attributes = {
        "nodes_treeids": [0] * count + list(range(1, trees)),
        "nodes_nodeids": [*range(count)] + [0] * (trees - 1),
        "nodes_featureids": [0] * (count + trees - 1),
        "nodes_modes": ["BRANCH_LEQ" if node in inner else "LEAF" for node in range(count)] + ["LEAF"] * (trees - 1),
        "nodes_values": [node / 2 for node in range(count)] + [0.0] * (trees - 1),
        "nodes_truenodeids": [node + 1 if node in inner else 0 for node in range(count)] + [0] * (trees - 1),
        "nodes_falsenodeids": [node + 2 if node in inner else 0 for node in range(count)] + [0] * (trees - 1),
        "target_treeids": [0] * len(leaves),
        "target_nodeids": leaves,
        "target_ids": [0] * len(leaves),
        "target_weights": [float(leaf) for leaf in leaves],
        "n_targets": 1,
    }
    case = Drawn("TreeEnsembleRegressor", attributes, (np.zeros((2, 1), np.float32),), version=1, symbolic=True)
    model = case.model
    model.graph.input[0].name = model.graph.node[0].input[0] = "x"
    return model


@pytest.mark.slow
def test_many_support_vectors_are_added_up_in_any_order() -> None:
    """Beside coefficients that cancel, the rounding of a sum counts more than the sum has digits."""
    rng = np.random.default_rng(0)
    count = 120
    vectors, coefficients = rng.standard_normal((count, 5)), rng.standard_normal(count)

    def model(scale: float) -> onnx.ModelProto:
        node = onnx.helper.make_node(
            "SVMRegressor",
            ["x"],
            ["y"],
            domain="ai.onnx.ml",
            kernel_type="RBF",
            kernel_params=[0.2 * scale, 0.0, 3.0],
            n_supports=count,
            coefficients=(coefficients - coefficients.mean()).tolist(),
            support_vectors=vectors.ravel().tolist(),
            rho=[0.1],
        )
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([node], "g", [value("x", 1, ["n", 5])], [value("y", 1, ["n", 1])])
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)

    for seed in range(3):
        result = opshift.convert(model(1.0), decompose=["ai.onnx.ml"], seed=seed)
        assert result.report is not None
        assert result.report.verdict is Verdict.EQUAL, result.report
    wrong = opshift.convert(model(1.001), decompose=["ai.onnx.ml"], verify=False).rewritten
    assert opshift.verify(model(1.0), wrong).verdict is Verdict.DIFFERENT
