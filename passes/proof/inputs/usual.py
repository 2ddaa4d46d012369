"""Generate typical inputs: normal numbers, small integers, indices inside; for claims about such inputs.

Padding is typical too: rows of zeros, and inputs of only zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.passes.analysis.model_summary import summary
from opshift.passes.base.limits import Limits
from opshift.passes.proof.inputs import generator, user_inputs
from opshift.passes.proof.inputs.generator import Draft
from opshift.passes.proof.inputs.shape_search import as_fixed, hints, sizes_of
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable
from opshift.passes.runtime.ort_session import Session

_DRAWS = 3
"""The number of inputs of each shape."""
_SHAPES = 2
"""The number of shapes if the model has dynamic dims: the largest of the first accepted ones."""
_ACCEPTED, _TRIED = 6, 64
"""The numbers of accepted shapes before the choice, and of tried shapes at most."""


@dataclass(frozen=True)
class UsualInputs:
    """Inputs that a model accepts, and their description for users; `rejection` is why it accepts none."""

    feeds: tuple[Feeds, ...]
    described: str
    rejection: str = ""


def usual_inputs(
    runnable: Runnable, inputs: Any, seed: int, limits: Limits, *, fixed: Runnable | None = None
) -> UsualInputs:
    """Return the user inputs, completed by typical ones, or only typical ones.

    They have the input shapes of a `fixed` model.

    Raises:
        UsageError: the user's inputs do not fit the model.
        UntestableError: the model has inputs that cannot be drawn.
        RejectedError: onnxruntime does not load the model.
    """
    specs = generator.specs(runnable.proto.graph)
    if fixed is not None:
        specs, _ = as_fixed(specs, generator.specs(fixed.proto.graph))
    sets = () if inputs is None else user_inputs.of(inputs, specs)
    session = Session(runnable, optimised=False, limits=limits)
    rng = np.random.default_rng(seed)
    described = f"{len(sets)} given" if sets else f"normally distributed and zeros, seed {seed}"
    found: list[Feeds] = []
    rejection = ""
    for values in sets or ({},):
        feeds, rejection = _accepted(runnable, session, specs, values, rng)
        found += feeds
    return UsualInputs(tuple(found), described, "" if found else rejection)


def _accepted(
    runnable: Runnable,
    session: Session,
    specs: tuple[generator.Spec, ...],
    fixed: Mapping[str, Any],
    rng: generator.Rng,
) -> tuple[list[Feeds], str]:
    """Return accepted inputs, and the reason of the last rejection."""
    if len(fixed) == len(specs):
        result = session.run_all([fixed])[0]
        return ([], str(result)) if isinstance(result, RejectedError) else ([fixed], "")
    shapes = user_inputs.shapes(fixed)
    known = summary(runnable.proto)
    draft = Draft(
        generator.with_shapes(specs, shapes),
        generator.position_inputs(known),
        generator.Allowed(nan=False, infinite=False, least=False, whole=True),
        generator.input_usages(known),
        (),
        generator.shape_inputs(known),
    )
    candidates = generator.sizes(draft.specs, whole=True, hints=hints(known, sizes_of(specs, shapes)))
    rejection = ""
    accepted: list[Sequence[Feeds]] = []
    for shape in itertools.islice((one for one in candidates if generator.fits(draft.specs, one)), _TRIED):
        usual = [_with_both_decisions(draft.usual(rng, shape), turn) for turn in range(_DRAWS)]
        drawn = [{**one, **fixed} for one in (*usual, *_padded(usual[0]))]
        results = session.run_all(drawn)
        good = [feeds for feeds, one in zip(drawn, results, strict=False) if not isinstance(one, RejectedError)]
        rejection = next((str(one) for one in results if isinstance(one, RejectedError)), rejection)
        if good:
            accepted.append(good)
        if len(accepted) == _ACCEPTED:
            break
    accepted.sort(key=lambda feeds: sum(np.size(value) for value in feeds[0].values()))
    return [feeds for good in accepted[-_SHAPES:] for feeds in good], rejection


def _with_both_decisions(feeds: Feeds, turn: int) -> Feeds:
    """Return inputs whose single truth values are all true at first, then one of them is false in each turn.

    A branch that never runs is not measured, nor is one in a branch.
    """
    decisions = [name for name, value in feeds.items() if np.size(value) == 1 and np.asarray(value).dtype == bool]
    chosen = {name: np.full_like(feeds[name], turn != place + 1) for place, name in enumerate(decisions)}
    return {**feeds, **chosen}


def _padded(feeds: Feeds) -> tuple[Feeds, ...]:
    """Return variants: every second row zero, all floats zero, and all numbers zero."""
    return (
        {name: _with_zeros(value, 2) if _is_float(value) else value for name, value in feeds.items()},
        {name: _with_zeros(value, 1) if _is_float(value) else value for name, value in feeds.items()},
        {name: _with_zeros(value, 1) for name, value in feeds.items()},
    )


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and is_float(value.dtype)


def _with_zeros(value: Any, step: int) -> Any:
    """Return an array with zeros in the first of each `step` rows along the last axis."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    found = value.copy()
    rows = found.reshape(math.prod(found.shape[:-1]), *found.shape[-1:])
    rows[::step] = 0
    return found
