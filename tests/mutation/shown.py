"""Whether a mutant differs from its original, shown in onnxruntime without a line of opshift."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from differential import runtimes
from differential.embed import messages
from differential.judge import IGNORES_NAN
from differential.runtimes import LoadError, NoKernelError, RunError
from onnx import ModelProto, NodeProto, ValueInfoProto

Feed = Mapping[str, Any]
Outputs = Sequence[Any]

_PARTS = {np.dtype(np.float64): 2.0**-26, np.dtype(np.float32): 2.0**-11, np.dtype(np.float16): 2.0**-6}
"""The relative distance from which on two floats differ by more than rounding: half of the digits."""
_NOISE = 32.0
"""How many times the effect of a few units in the inputs two results must lie apart."""
_SCALES = (1.0, 1e-3, 30.0)


_SECONDS = 5.0
"""How long a mutant may run: the condition of a Loop may be wrong."""


def run(model: ModelProto, feeds: Sequence[Feed]) -> runtimes.Outputs:
    """Run a model as `runtimes.run` does, and end it after some seconds."""
    options = onnxruntime.RunOptions()
    timer = threading.Timer(_SECONDS, setattr, (options, "terminate", True))
    timer.start()
    try:
        return runtimes.run(model, [dict(feed) for feed in feeds], options)
    finally:
        timer.cancel()


def feeds_of(given: Sequence[Feed], rng: np.random.Generator) -> list[Feed]:
    """Return inputs to tell two models apart: those that are given, and others with the same shapes."""
    found = list(given)
    for scale in _SCALES:
        found.append({name: _redrawn(value, scale, rng) for name, value in given[0].items()})
    return found


def _redrawn(value: Any, scale: float, rng: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype not in _PARTS:
        return value
    drawn = np.asarray(rng.normal(size=value.shape)) * scale
    if value.size and bool((value >= 0).all()):
        drawn = np.abs(drawn)
    return drawn.astype(value.dtype)


def accepted(model: ModelProto, feeds: Sequence[Feed]) -> list[tuple[Feed, Outputs]]:
    """Return the inputs on which a model runs, with its outputs; none if it gives other outputs each time."""
    found: list[tuple[Feed, Outputs]] = []
    for feed in feeds:
        try:
            first, second = run(model, [feed, feed])
        except (LoadError, NoKernelError):
            return []
        except RunError:
            continue
        if any(apart(one, other, 0.0) for one, other in zip(first, second, strict=True)):
            return []
        found.append((feed, first))
    return found


def defined(model: ModelProto, trials: Sequence[tuple[Feed, Outputs]]) -> list[tuple[Feed, Outputs]]:
    """Return the inputs on which no node of the main graph selects by a NaN, or casts what no integer is.

    The text defines no result of those, so that a difference there shows no fault.
    """
    ranges = {
        node.input[0]: onnx.helper.tensor_dtype_to_np_dtype(attribute.i)
        for node in model.graph.node
        for attribute in node.attribute
        if node.op_type == "Cast" and attribute.name == "to"
    }
    selected = {node.input[0] for node in model.graph.node if node.op_type in IGNORES_NAN}
    integers = {name: np.iinfo(dtype) for name, dtype in ranges.items() if dtype.kind in "iu"}
    given = {value.name for value in (*model.graph.input, *model.graph.output)}
    opened = ModelProto()
    opened.CopyFrom(model)
    opened.graph.output.extend(ValueInfoProto(name=name) for name in sorted({*selected, *integers} - given))
    names = [value.name for value in opened.graph.output]
    kept = []
    for feed, outputs in trials:
        try:
            (found,) = run(opened, [feed])
        except (LoadError, NoKernelError, RunError):
            return list(trials)
        values = {**feed, **dict(zip(names, found, strict=True))}
        if not any(_has_nan(values.get(name)) for name in selected) and not any(
            _beyond(values.get(name), limits) for name, limits in integers.items()
        ):
            kept.append((feed, outputs))
    return kept


def _beyond(value: Any, limits: np.iinfo[Any]) -> bool:
    """Return whether floats have an element that integers of this type do not hold."""
    if not isinstance(value, np.ndarray) or not _is_float(value):
        return False
    wide = value.astype(np.float64)
    return not bool(((wide > float(limits.min) - 1) & (wide < float(limits.max) + 1)).all())


def difference(
    original: ModelProto, mutant: ModelProto, trials: Sequence[tuple[Feed, Outputs]], rng: np.random.Generator
) -> int | None:
    """Return the first of these inputs on which the two differ by more than rounding; None if there is none.

    Raises:
        LoadError, NoKernelError: onnxruntime does not open the mutant.
    """
    names = {node.op_type for node in messages(original, NodeProto)}
    for number, (feed, expected) in enumerate(trials):
        if names & IGNORES_NAN and any(_has_nan(value) for value in feed.values()):
            continue
        try:
            (found,) = run(mutant, [feed])
        except RunError:
            return number
        if not any(apart(one, other, 0.0) for one, other in zip(expected, found, strict=True)):
            continue
        noise = _noise(original, feed, expected, rng)
        if any(apart(one, other, each) for one, other, each in zip(expected, found, noise, strict=True)):
            return number
    return None


def _noise(original: ModelProto, feed: Feed, expected: Outputs, rng: np.random.Generator) -> list[float]:
    """Return how far a few units in the floats of an input take the floats of each output."""
    found = [0.0] * len(expected)
    if any(isinstance(value, np.ndarray) and _is_easy(value) for value in feed.values()):
        return found  # thresholds and ties decide there, and arithmetic is exact
    for _ in range(2):
        moved = {name: _moved(value, rng) for name, value in feed.items()}
        try:
            (others,) = run(original, [moved])
        except RunError:
            continue
        for at, (one, other) in enumerate(zip(expected, others, strict=True)):
            if isinstance(one, np.ndarray) and _is_float(one) and one.shape == other.shape:
                with np.errstate(all="ignore"):
                    distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
                found[at] = max(found[at], _NOISE * float(distance[np.isfinite(distance)].max(initial=0.0)))
    return found


def _is_easy(value: Any) -> bool:
    if not _is_float(value) or not value.size or not np.isfinite(value).all():
        return False
    return bool((value.astype(np.float64) * 2 % 1 == 0).all())


def _moved(value: Any, rng: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray) or not _is_float(value):
        return value
    eps = float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        return (value.astype(np.float64) * (1 + 2 * eps * rng.choice((-1, 1), size=value.shape))).astype(value.dtype)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in (*_PARTS, np.dtype(ml_dtypes.bfloat16))


def _has_nan(value: Any) -> bool:
    return _is_float(value) and bool(np.isnan(value).any())


def apart(one: Any, other: Any, noise: float) -> bool:
    """Return whether two outputs differ by more than rounding; an infinity or a NaN differs from finite numbers."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(apart(a, b, noise) for a, b in zip(one, other, strict=True))
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return one is not other and not (np.ndim(one) == 0 and bool(one == other))
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    if not _is_float(one):
        return bool((one != other).any())
    part = _PARTS.get(one.dtype, 2.0**-3)
    first, second = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(first) & np.isfinite(second)
        far = np.abs(first - second) > noise + part * np.maximum(np.abs(first), np.abs(second)) + 1e-30
    alike = (first == second) | (np.isnan(first) & np.isnan(second))
    large = float(np.abs(first[np.isfinite(first)]).max(initial=0.0)) > 1e15
    return bool((finite & far).any() or (not large and (~finite & ~alike).any()))


def readable(feeds: Feed) -> Iterator[str]:
    """Yield an input in words."""
    for name, value in feeds.items():
        yield f"{name} = {np.asarray(value).reshape(-1)[:8].tolist()} {list(np.shape(value))}"
