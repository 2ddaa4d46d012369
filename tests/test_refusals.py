"""The list of refused decompositions: what it counts, and operators of which a sample of models has none."""

from __future__ import annotations

import pytest
from refusals import lines, main, refused

SERVED = ("Abs", "Clip", "Gelu", "GlobalAveragePool", "Less", "Max", "Neg", "Relu", "Sign", "Sub", "Where")
"""Operators that are decomposed in all models that are drawn below, Gelu without Erf as well."""


def test_a_refusal_is_listed_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    one = refused(1, 0, ["Concat"])
    assert one is not None
    first, second, third = lines([one, one], 3)
    assert first == "2 of 3 models are refused"
    assert second == "Concat: 2"
    assert third.startswith("  2 like 0: Concat-")
    assert main(["--seconds", "0.2", "--operators", "Neg"]) == 0
    assert capsys.readouterr().out.startswith("0 of ")


@pytest.mark.parametrize("operator", SERVED)
def test_no_model_of_a_served_operator_is_refused(operator: str) -> None:
    found = [one for index in range(12) if (one := refused(3, index, [operator]))]
    assert not found, "\n".join(lines(found, 12))
