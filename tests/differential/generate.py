"""Draw a case: a model, its inputs and a request, reproducible from a seed and an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import defs

from differential import draw
from differential.draw import Draw, Drawn
from differential.embed import PLACES, Embedded, Embedder
from differential.recipes import draw_node
from differential.schemas import NEWEST, OLDEST

TARGETS = (
    *sorted(path.stem for path in (Path(__file__).parents[2] / "opsets" / "targets").glob("*.toml")),
    "onnxruntime",
)


TYPES = (("int64", "int32"), ("float16", "float"), ("bfloat16", "float"))
"""Element types and those that they become: none of them is narrower, for the values that are drawn."""


@dataclass
class Case:
    """A model and what to ask opshift for."""

    seed: int
    index: int
    operator: str
    opset: int
    embedded: Embedded
    request: dict[str, Any]
    random: bool
    verify: bool


def draw_case(seed: int, index: int, operators: Sequence[str] = (), verify_share: float = 0.0) -> Case:
    """Draw the case of a seed and an index.

    Args:
        seed: of the run.
        index: of the case in the run.
        operators: those to draw from; all if none are given.
        verify_share: the share of cases that are also converted with verification.
    """
    rng = np.random.default_rng([seed, index])
    known = list(operators) or _OPERATORS
    operator = known[int(rng.integers(0, len(known)))]
    opset = _opset(rng, operator)
    embedder = Embedder(rng, opset)
    drawn = draw_node(Draw(rng, operator, opset))
    place = _place(rng, drawn)
    embedder.place(drawn, place)
    randoms = drawn.random
    if rng.random() < 0.1:
        second = _second(rng, opset)
        randoms = randoms or second.random
        embedder.place(second, "graph")
    verify = bool(rng.random() < verify_share)
    embedded, request = embedder.finish(place), _request(rng, operator, opset)
    request |= _static(np.random.default_rng([seed, index, 2]), embedded)
    return Case(seed, index, operator, opset, embedded, request, randoms, verify)


def _opset(rng: np.random.Generator, operator: str) -> int:
    """Return an opset that has the operator: half of the time the first or the last of one of its versions."""
    opsets = draw.opsets(operator)
    if rng.random() < 0.5:
        opsets = [each for each in opsets if each in _borders(operator)]
    return int(rng.choice(opsets))


def _borders(operator: str) -> set[int]:
    if operator not in _BORDERS:
        opsets = draw.opsets(operator)
        versions = {opset: defs.get_schema(operator, opset, "").since_version for opset in opsets}
        _BORDERS[operator] = {
            opset
            for opset in opsets
            if versions.get(opset - 1) != versions[opset] or versions.get(opset + 1) != versions[opset]
        }
    return _BORDERS[operator]


def _place(rng: np.random.Generator, drawn: Drawn) -> str:
    place = str(rng.choice(PLACES, p=[0.45, 0.1, 0.08, 0.07, 0.24, 0.06]))
    tensors = all(kind.HasField("tensor_type") for kind in drawn.output_types)
    if place in ("loop", "scan") and (not tensors or drawn.operator in _SHAPED_BY_VALUES):
        return "graph"  # each turn must have the same shapes
    return place


def _second(rng: np.random.Generator, opset: int) -> Drawn:
    operator = str(rng.choice([name for name in _OPERATORS if opset in draw.opsets(name)]))
    return draw_node(Draw(rng, operator, opset, prefix="second_"))


def _request(rng: np.random.Generator, operator: str, opset: int) -> dict[str, Any]:
    form = rng.random()
    if form < 0.6:
        borders = [each for each in range(OLDEST, NEWEST + 1) if each != opset]
        if rng.random() < 0.5:
            near = {each for border in _borders(operator) for each in (border - 1, border)}
            borders = [each for each in borders if each in near] or borders
        return {"opset": int(rng.choice(borders))}
    if form < 0.75:
        request: dict[str, Any] = {"decompose": [operator]}
        if rng.random() < 0.3:
            request["opset"] = int(rng.integers(OLDEST, NEWEST + 1))
        return request
    return {"target": TARGETS[int(rng.integers(0, len(TARGETS)))]}


def _static(rng: np.random.Generator, embedded: Embedded) -> dict[str, Any]:
    """Ask sometimes for folding, the shapes of the feeds, or other element types, beside anything else."""
    request: dict[str, Any] = {}
    if rng.random() < 0.1:
        request["fold"] = True
    shapes = [
        {name: list(value.shape) for name, value in feed.items() if hasattr(value, "shape")} for feed in embedded.feeds
    ]
    if rng.random() < 0.15 and shapes and all(one == shapes[0] for one in shapes) and shapes[0]:
        request["input_shapes"] = shapes[0]
    if rng.random() < 0.1:
        old, new = TYPES[int(rng.integers(0, len(TYPES)))]
        request["types"] = {old: new}
    return request


_OPERATORS = draw.operators()
_SHAPED_BY_VALUES = ("NonMaxSuppression", "NonZero", "Unique", "Compress", "StringSplit", "StringNormalizer")
_BORDERS: dict[str, set[int]] = {}
