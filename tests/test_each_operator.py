"""Every operator of the default domain, up and down: a minimal model of each, made of ONNX's own node tests.

The smallest test of an operator goes to the newest opset, and to the first opset of each older version and the one
before the oldest. What comes out gives the outputs that come with the test, or is refused with a reason and, where
anything helps, a hint.
"""

from __future__ import annotations

import functools
from typing import Any

import onnx
import onnxruntime
import pytest
from node_tests import RANDOM, asked, cases, differs
from review_versions import versions
from running import CannotRunError, nodes_of, opset_of

import opshift
from opshift.opsets.registry.schema import NEWEST, OLDEST

NOT_RUN = (
    CannotRunError,
    onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph,
    onnxruntime.capi.onnxruntime_pybind11_state.Fail,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
    RuntimeError,  # onnxruntime takes no arrays of float8 and of less
)

SEQUENCES = {
    "ConcatFromSequence",
    "Optional",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
}
"""Their tests are no tests of tensors; tests/test_old_forms.py has some of them."""

WITHOUT_CASE = RANDOM | SEQUENCES | {"GlobalLpPool", "MaxRoiPool", "Not"}
"""The test of Not, which has one version, is of opset 1."""

# The body of function that onnx has for opset 9 is faulty, and its inference fails on it.
FAULTY = {"MeanVarianceNormalization"}


@functools.cache
def smallest() -> dict[str, Any]:
    """The smallest test of each operator, by operator; tests whose name ends in `_expanded` spell out a body."""
    found: dict[str, Any] = {}
    for case in sorted(cases(""), key=lambda case: len(case.model.SerializeToString())):
        for node in nodes_of(case.model):
            if node.domain in ("", "ai.onnx") and "expanded" not in case.name and opset_of(case.model) >= OLDEST:
                found.setdefault(node.op_type, case)
    return found


def opsets(operator: str, own: int) -> list[int]:
    """The newest opset, and the first of each older version, with the one before the oldest."""
    known = [version for version in versions()[operator] if version < own]
    older = {max(version, OLDEST) for version in known} | {max(min(versions()[operator]) - 1, OLDEST)}
    return [opset for opset in (*sorted(older), NEWEST) if opset != own]


def test_every_operator_has_a_case() -> None:
    assert set(versions()) - set(smallest()) == WITHOUT_CASE


def runs(case: Any) -> bool:
    """Whether onnxruntime gives the test's own outputs for its model as it is."""
    try:
        return not differs(case, case.model)
    except NOT_RUN:
        return False


@pytest.mark.parametrize("operator", sorted(set(versions()) - WITHOUT_CASE))
def test_operator_goes_up_and_down(operator: str) -> None:
    case = smallest()[operator]
    own = opset_of(case.model)
    sound = runs(case)
    problems = []
    for opset in opsets(operator, own):
        plan = opshift.plan(case.model, opset=opset)
        for refusal in plan.refusals:
            problems += [f"{opset}: {refusal}"] * (opset > own or not (refusal.reason and refusal.hint))
        if plan.refusals or not asked(case.model, opset):
            continue
        result = opshift.convert(case.model, opset=opset, verify=False).model
        assert isinstance(result, onnx.ModelProto)
        onnx.checker.check_model(result, full_check=operator not in FAULTY)
        if not sound:
            continue
        try:
            found = differs(case, result)
        except NOT_RUN as error:
            found = f"{type(error).__name__}: {error}"
        problems += [f"{opset}: {found}"] * bool(found)
    assert not problems, "\n".join(problems)
