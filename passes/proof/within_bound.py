"""Compare a model with a version in narrower floats, on inputs for which a bound is claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opshift.passes.analysis.departures import Distance, distance
from opshift.passes.base.errors import printable
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Check, Counterexample, Coverage, Verdict
from opshift.passes.proof.comparison import readable
from opshift.passes.proof.inputs.usual import UsualInputs
from opshift.passes.proof.rounded_values import narrow_values, with_rounded_values
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime import ort_models
from opshift.passes.runtime.ort_models import Array, Feeds, RejectedError, Runnable
from opshift.passes.runtime.ort_session import Session


def compare_within_bound(
    original: Runnable, rewritten: Runnable, inputs: UsualInputs, bound: float, limits: Limits
) -> Check:
    """Return whether all float outputs are within a relative bound, and all others equal."""
    reference = ort_models.name()
    if not inputs.feeds:
        reason = f"the original ran on none of the inputs: {inputs.rejection}"
        return Check("", "", Verdict.UNCHECKED, reason, reference, 0)
    names = [value.name for value in original.proto.graph.output]
    try:
        expected = Session(original, optimised=False, limits=limits).run_all(inputs.feeds)
    except RejectedError as error:
        return Check("", "", Verdict.UNCHECKED, f"onnxruntime does not load the original: {error}", reference, 0)
    try:
        found = Session(rounded(rewritten), optimised=False, limits=limits).run_all(inputs.feeds)
    except RejectedError as error:
        reason = f"onnxruntime does not load the rewritten model: {error}"
        return Check("", "", Verdict.DIFFERENT, reason, reference, 0)
    worst, place, count, elements = Distance(0.0), "", 0, 0
    for feeds, before, after in zip(inputs.feeds, expected, found, strict=False):
        if isinstance(before, RejectedError):
            continue
        if isinstance(after, RejectedError):
            reason = f"the rewritten model does not run on an input of the original: {after}"
            return Check("", "", Verdict.DIFFERENT, reason, reference, count)
        count += 1
        for name, one, other in zip(names, before, after, strict=True):
            wrong, far = _compared(one, other)
            elements += int(np.size(one))
            if wrong or far.size > bound:
                reason = wrong or f"it departs by {far.size:.3g} of its size, more than {bound:.3g}"
                return _different(f"output {printable(name)}: {reason}", feeds, name, far, reference, count)
            if far.size >= worst.size:
                worst, place = far, f"{printable(name)}{list(far.index)}"
    reason = f"outputs depart by {worst.size:.2g} of their size at most, the bound is {bound:.3g}, "
    reason += f"on {count} {'input' if count == 1 else 'inputs'} ({inputs.described})"
    if worst.size:
        reason += f"; worst: {place} is {worst.actual:.6g} for {worst.expected:.6g}"
    coverage = Coverage(elements=elements)
    return Check("", "", Verdict.WITHIN_BOUND, reason, reference, count, None, {}, coverage)


def rounded(runnable: Runnable) -> Runnable:
    """Return a model with rounded narrow floats."""
    narrow = narrow_values(runnable.proto)
    return replace(runnable, proto=with_rounded_values(runnable.proto, narrow), path=None) if narrow else runnable


def _compared(expected: object, actual: object) -> tuple[str, Distance]:
    """Return the error other than float differences, and the largest float difference."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        same = repr(expected) == repr(actual)
        return "" if same else "it differs, and is no tensor", Distance(0.0)
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}", Distance(0.0)
    if is_float(expected.dtype) and is_float(actual.dtype):
        return "", distance(expected, actual)
    return _unequal(expected, actual), Distance(0.0)


def _unequal(expected: Array, actual: Array) -> str:
    places = np.argwhere(expected != actual)
    if not len(places):
        return ""
    index = tuple(map(int, places[0]))
    return f"{actual[index]} instead of {expected[index]} at {list(index)}"


def _different(reason: str, feeds: Feeds, name: str, far: Distance, reference: str, count: int) -> Check:
    shown = {key: readable(value) for key, value in feeds.items()}
    example = Counterexample(shown, name, far.expected, far.actual)
    return Check("", "", Verdict.DIFFERENT, reason, reference, count, example)
