"""Faults that show on few inputs only: what must be drawn, or looked at element by element, to see them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper
from onnx.parser import parse_model


@dataclass(frozen=True)
class Hard:
    """A model, a wrong rewrite of it, and an input on which the two differ.

    Attributes:
        kind: what must be drawn or compared to see the difference.
        original: is right.
        rewritten: is not.
        witness: shows it.
    """

    kind: str
    original: ModelProto
    rewritten: ModelProto
    witness: Mapping[str, Any]


def hard() -> dict[str, Hard]:
    """Return the faults by name."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {fault["name"]: _hard(fault) for fault in tomllib.loads(text)["fault"]}


def _hard(fault: Mapping[str, Any]) -> Hard:
    opset = fault.get("opset", 17)
    held = f"<{fault['weights']}>" if "weights" in fault else ""
    original, rewritten = (
        parse_model(
            f'<ir_version: {10 if opset > 17 else 8}, opset_import: ["": {opset}, "ai.onnx.ml": 3]>'
            f" g {fault['signature']} {held} {{ {fault[body]} }}"
        )
        for body in ("before", "after")
    )
    types = {value.name: value.type.tensor_type.elem_type for value in original.graph.input}
    witness = {name: _array(value, types[name]) for name, value in fault["witness"].items()}
    return Hard(fault["kind"], original, rewritten, witness)


def _array(value: Any, element: int) -> Any:
    """Return values of an element type, or with `first` and `shape` numbers that count up."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    if not isinstance(value, dict):
        return np.array(value, dtype)
    return (np.arange(math.prod(value["shape"])) + value["first"]).astype(dtype).reshape(value["shape"])
