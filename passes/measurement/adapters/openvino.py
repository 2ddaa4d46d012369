"""Run models in OpenVINO, on the CPU."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

NAME = "openvino"
OPSET = 20


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("openvino")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(openvino.Core().read_model(model, b""), "CPU", settings)
    # By position, because an input that only a Dropout uses loses its name. An unused input is removed.
    values = list(inputs.values())
    if len(compiled.inputs) != len(values):
        names = [one.any_name for one in compiled.inputs]
        nameless = (array for name, array in inputs.items() if name not in names)
        values = [inputs[name] if name in inputs else next(nameless) for name in names]
    found = compiled(values)
    names = [output.name for output in onnx.ModelProto.FromString(model).graph.output]
    return {name: np.array(found[place]) for place, name in enumerate(names)}
