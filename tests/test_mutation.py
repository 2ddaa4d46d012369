"""Verification finds faults of converters: a sample of many mutants, and faults that show on few inputs only."""

from __future__ import annotations

import numpy as np
import pytest
from differential.runtimes import run
from mutation.faults import faults
from mutation.hard import Hard, hard
from mutation.run import draw_mutant, judged
from mutation.shown import apart
from mutation.subjects import draw_subject

import opshift
from opshift.passes.base.report import Verdict

pytestmark = pytest.mark.slow

HARD = hard()
_SEED, _COUNT = 29, 120
"""About twenty seconds of one core."""


@pytest.mark.parametrize("name", HARD)
def test_a_fault_that_shows_on_few_inputs_is_found(name: str) -> None:
    fault: Hard = HARD[name]
    expected, found = (run(model, [dict(fault.witness)])[0] for model in (fault.original, fault.rewritten))
    assert any(
        np.shape(one) != np.shape(other) or (np.asarray(one) != np.asarray(other)).any()
        for one, other in zip(expected, found, strict=True)
    )
    assert opshift.verify(fault.original, fault.rewritten).whole.verdict is Verdict.DIFFERENT


def test_a_sample_of_mutants_is_found() -> None:
    """One in a hundred may be missed, as docs/verification.md says; of so few, two."""
    found = list(judged(_SEED, _COUNT))
    assert not [one for one in found if one.verdict in ("raised", "")]
    assert len({one.operator for one in found}) > 60
    assert len({one.kind for one in found}) > 8
    missed = [one for one in found if one.verdict != "different"]
    assert len(missed) <= 2, "\n".join(f"{one.seed}:{one.index} {one.what}: {one.reason}" for one in missed)


def test_right_rewrites_are_not_refused() -> None:
    found = list(judged(_SEED, _COUNT, right=True))
    refused = [one for one in found if one.verdict in ("different", "raised", "")]
    assert not refused, "\n".join(f"{one.seed}:{one.index} {one.operator}: {one.reason}" for one in refused)


def test_the_same_numbers_draw_the_same_mutant() -> None:
    drawn = [next(each for index in range(20) if (each := draw_mutant(3, index)) is not None) for _ in range(2)]
    assert drawn[0][1].what == drawn[1][1].what
    assert drawn[0][2] == drawn[1][2]
    assert drawn[0][2] != drawn[0][0].rewritten


def test_faults_are_of_many_kinds() -> None:
    kinds = set()
    for index in range(40):
        subject = draw_subject(5, index)
        if subject is not None:
            kinds |= {fault.kind for fault in faults(subject.rewritten, np.random.default_rng(index))}
    assert kinds >= {"attribute", "attribute lost", "constant", "default", "input lost", "inputs", "inserted"}
    assert kinds >= {"narrower type", "operator", "removed"}


def test_rounding_is_no_difference() -> None:
    """The harness counts a mutant only where more than half of the digits differ."""
    one = np.array([1.0, 2.0], np.float32)
    assert not apart(one, np.nextafter(one, np.float32(3)), 0.0)
    assert apart(one, one * np.float32(1.001), 0.0)
    assert apart(one, one.astype(np.float64), 0.0)
    assert apart(np.array([1]), np.array([2]), 0.0)
    assert not apart(one, one * np.float32(1.001), 0.1)
