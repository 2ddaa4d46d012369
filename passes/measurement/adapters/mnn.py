"""Run models in MNN: mnnconvert, then its Python package."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

NAME = "mnn"
OPSET = 13
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.rtld.execstack=2"}
"""The wheel of MNN 3.6.1 needs an executable stack, which glibc 2.41 and later loads only with this setting."""

INSIDE = {"int64": np.int32, "bool": np.int32, "float16": np.float32, "float64": np.float32}
"""MNN treats 64-bit integers and bools as int32, and all floats as float32, also for inputs."""


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("MNN")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name.

    Raises:
        ValueError: mnnconvert writes no model.
    """
    import _tools
    import MNN

    outputs = [output.name for output in onnx.ModelProto.FromString(model).graph.output]
    with tempfile.TemporaryDirectory() as folder:
        model_file, target = Path(folder, "m.onnx"), Path(folder, "m.mnn")
        model_file.write_bytes(model)
        command = ["mnnconvert", "-f", "ONNX", "--modelFile", str(model_file), "--MNNModel", str(target)]
        _tools.mnnconvert([*command, "--bizCode", "x"])
        if not target.exists():
            raise ValueError("mnnconvert writes nothing")
        module = MNN.nn.load_module_from_file(str(target), list(inputs), outputs)
        kinds = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8, "int8": MNN.expr.int8}
        arrays = [array.astype(INSIDE.get(array.dtype.name, array.dtype)) for array in inputs.values()]
        constants = [MNN.expr.const(one, list(one.shape), MNN.expr.NCHW, kinds[one.dtype.name]) for one in arrays]
        found = [MNN.expr.convert(one, MNN.expr.NCHW) for one in module.forward(constants)]
        return {name: np.array(one.read()) for name, one in zip(outputs, found, strict=True)}
