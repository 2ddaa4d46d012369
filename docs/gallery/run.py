"""Run a model in a runtime, and print what it returns: `python gallery/run.py RUNTIME MODEL`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.parser import parse_model

from opshift.passes.measurement.isolated import Isolated, RefusedError


def loaded(path: str) -> onnx.ModelProto:
    """Read a model that is text or not."""
    return parse_model(Path(path).read_text(encoding="utf-8")) if path.endswith(".onnxtxt") else onnx.load(path)


def values(info: onnx.ValueInfoProto) -> np.ndarray[Any, Any]:
    """Return numbers with ties, some of them negative; one for a dim that is unknown."""
    tensor = info.type.tensor_type
    shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    numbers = [2, -1, 3, 0, 3, -2, 1] if dtype.kind == "f" else [1, -1, 0]
    return np.resize(np.array(numbers), shape).astype(dtype)


def main(runtime: str, path: str) -> None:
    """Print the first numbers of each output, or the error of the runtime."""
    model = loaded(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {info.name: values(info) for info in model.graph.input if info.name not in constants}
    process = Isolated(runtime)
    try:
        found = process.run(model.SerializeToString(), inputs)
    except RefusedError as error:
        print(*textwrap.wrap(f"{runtime}: {error}"[:330], 110), sep="\n")
    else:
        for name, array in found.items():
            shown = np.array2string(np.ravel(array)[:8].astype(np.float64), precision=3, suppress_small=True)
            print(f"{runtime}: {name} = {shown}")
    process.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
