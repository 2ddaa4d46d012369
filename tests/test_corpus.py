"""Models that nobody here made, freed of the three operators and taken to every opset that the rest of them allows.

They need the extra `corpus` (and piper-tts). Without it the tests are skipped, but not in CI or with OPSHIFT_CORPUS=1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import onnx
import pytest
from corpus_models import CORPUS, SILERO, SKLEARN, TORCH, Built
from running import OPSETS, differences, nodes_of, operators_of, opset_of, run, version_at

import opshift

pytestmark = pytest.mark.slow

THREE = ("Hardmax", "ArgMax", "OneHot")
WITHOUT_ANY = {"sklearn-logistic-13", "piper-nakdimon", "magika", *(f"silero-{name}" for name in SILERO)}
# Of arithmetic that is said in another way, relative to the largest value. Whole numbers must be the same.
TOLERANCE = 1e-5


def _get(name: str) -> Built:
    missing = CORPUS[name].missing()
    if missing and (os.environ.get("CI") == "true" or os.environ.get("OPSHIFT_CORPUS") == "1"):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return CORPUS[name].built()


def _problems(built: Built, converted: object, opset: int) -> list[str]:
    """Describe what is wrong with a converted model."""
    assert isinstance(converted, onnx.ModelProto)
    onnx.checker.check_model(converted)
    problems = [] if opset_of(converted) == opset else [f"its opset is {opset_of(converted)}, not {opset}"]
    if _foreign(converted) != _foreign(built.model):
        problems.append("nodes of other domains were changed")
    expected = run(built.model, built.feeds)
    for optimised in (False, True):
        problems += differences(expected, run(converted, built.feeds, optimised=optimised), TOLERANCE)
    return problems


def _foreign(model: onnx.ModelProto) -> list[bytes]:
    """Return the nodes of other domains: they must come along untouched."""
    return [
        node.SerializeToString(deterministic=True) for node in nodes_of(model) if node.domain not in ("", "ai.onnx")
    ]


def _unfounded(model: onnx.ModelProto, opset: int, refusals: Sequence[opshift.Refusal]) -> list[str]:
    """Describe the refusals that name no operator of the model, one that is the same there, or one of the three."""
    problems = []
    for refusal in refusals:
        operator = refusal.operator.rpartition("-")[0]
        stands_in_the_way = (
            ("", operator) in operators_of(model)
            and version_at(operator, opset) != version_at(operator, opset_of(model))
            and operator not in THREE
        )
        if not stands_in_the_way:
            problems.append(f"refused for no reason: {refusal}")
    return problems


def test_corpus_is_large_enough() -> None:
    """At least six classifiers at the opsets that skl2onnx writes, both exporters of torch, and tashkeel."""
    assert sum(len(opsets) >= 5 for opsets in SKLEARN.values()) >= 6
    assert all(sum(bool(opsets[exporter]) for opsets in TORCH.values()) >= 2 for exporter in (0, 1))
    assert "piper-tashkeel" in CORPUS
    assert len(CORPUS) >= 70


@pytest.mark.parametrize("name", CORPUS)
def test_original_is_sound(name: str) -> None:
    """Each model checks, runs the same with and without optimisations, and has what it is here for."""
    built = _get(name)
    onnx.checker.check_model(built.model)
    outputs = run(built.model, built.feeds)
    assert differences(outputs, run(built.model, built.feeds, optimised=True), TOLERANCE) == []
    assert any(differences(outputs[:1], [other], TOLERANCE) for other in outputs[1:])
    assert (name in WITHOUT_ANY) != any(("", operator) in operators_of(built.model) for operator in THREE)


@pytest.mark.parametrize("name", CORPUS)
def test_is_freed_of_the_three(name: str) -> None:
    """At its own opset, with the proof that is on by default."""
    built = _get(name)
    result = opshift.convert(built.model, decompose=THREE)
    assert isinstance(result.model, onnx.ModelProto)
    assert not {operator for _, operator in operators_of(result.model)} & set(THREE)
    assert _problems(built, result.model, opset_of(built.model)) == []
    assert result.report is not None
    assert result.report.verdict == "equal"
    lowered = sum(operators_of(built.model)["", operator] for operator in THREE)
    assert len(result.report.nodes) >= min(lowered, 1)


@pytest.mark.parametrize("name", CORPUS)
def test_reaches_what_the_rest_allows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each opset: equal numbers, or a refusal that names only what really stands in the way."""
    built = _get(name)
    problems: list[str] = []
    reached: list[int] = []
    refused: dict[int, list[str]] = {}
    for opset in OPSETS:
        try:
            result = opshift.convert(built.model, opset=opset, verify=False)
        except opshift.UnsupportedError as error:
            refused[opset] = sorted({refusal.operator for refusal in error.refusals})
            problems += [f"to {opset}: {what}" for what in _unfounded(built.model, opset, error.refusals)]
            continue
        found = _problems(built, result.model, opset)
        problems += [f"to {opset}: {what}" for what in found]
        if not found:
            reached.append(opset)
    with capsys.disabled():  # pytest-xdist shows it nowhere, -n 0 does
        print(f"\n{_row(name, reached, refused)}", end="  ")
    assert problems == []
    assert opset_of(built.model) in reached
    assert len(reached) >= CORPUS[name].reaches, refused


def _row(name: str, reached: Sequence[int], refused: dict[int, list[str]]) -> str:
    """Return a row of the table: the model, how many opsets it reaches, and what stands in the way of the others."""
    blockers = sorted({operator for operators in refused.values() for operator in operators})
    return f"{name:30}{len(reached):4} converted{len(refused):4} refused  {', '.join(blockers)}"
