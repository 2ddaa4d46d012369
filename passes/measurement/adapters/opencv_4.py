"""Run models in OpenCV's dnn module."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

NAME = "opencv-4"
OPSET = 13


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("opencv-python-headless")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name."""
    import cv2

    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    for name, array in inputs.items():
        # It has no bool: true is 1.
        net.setInput(array.astype(np.float32) if array.dtype == bool else array, name)
    names = [output.name for output in onnx.ModelProto.FromString(model).graph.output]
    return dict(zip(names, net.forward(names), strict=True))
