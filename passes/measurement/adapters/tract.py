"""Run models in tract, on the CPU."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.structural import CAST

NAME = "tract"
OPSET = 21


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("tract")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name.

    Raises:
        ValueError: an input has a type that this adapter does not support.
    """
    import tract

    proto = onnx.ModelProto.FromString(model)
    names = [output.name for output in proto.graph.output]
    for output in proto.graph.output:
        # Values computed from shapes are symbols, which its package does not return.
        if output.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            name = f"{output.name}/number"
            proto.graph.node.append(onnx.helper.make_node(CAST, [output.name], [name], to=onnx.TensorProto.DOUBLE))
            output.name = name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(proto.SerializeToString())
        loaded = tract.onnx().load(path)
    for place, array in enumerate(inputs.values()):
        dims = "".join(f"{size}," for size in array.shape)
        loaded.set_input_fact(place, dims + _kind(array.dtype))
    found = loaded.into_model().into_runnable().run([np.array(one, order="C") for one in inputs.values()])
    return {name: one.to_numpy() for name, one in zip(names, found, strict=True)}


def _kind(dtype: np.dtype[Any]) -> str:
    """Return the name of an element type in tract, such as f32."""
    if dtype.kind not in "fiub":
        raise ValueError(f"tract is given no {dtype}")
    return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
