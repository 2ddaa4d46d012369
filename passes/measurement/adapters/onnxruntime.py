"""Run models in onnxruntime, on the CPU."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

NAME = "onnxruntime"
OPSET = 26


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("onnxruntime")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
