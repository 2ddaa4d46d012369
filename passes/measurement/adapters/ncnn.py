"""Run models in ncnn, after conversion by pnnx."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

NAME = "ncnn"
OPSET = 12
KINDS = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8"}


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version("ncnn")


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name.

    Raises:
        ValueError: pnnx or ncnn rejects the model.
    """
    import ncnn

    outputs = [output.name for output in onnx.ModelProto.FromString(model).graph.output]
    with tempfile.TemporaryDirectory() as folder:
        model_file = Path(folder, "m.onnx")
        model_file.write_bytes(model)
        shapes = ",".join(
            f"[{','.join(map(str, array.shape))}]{KINDS.get(array.dtype.name, '?')}" for array in inputs.values()
        )
        command = [_pnnx(), str(model_file), f"inputshape={shapes}", "fp16=0"]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
        written = Path(folder, "m.ncnn.param")
        if done.returncode or not written.exists():
            raise ValueError(f"pnnx fails: {done.stderr.decode(errors='replace')[-200:]}")
        net = ncnn.Net()
        net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_fp16_packed = False
        net.opt.use_bf16_storage = net.opt.use_vulkan_compute = False
        net.opt.num_threads = 1
        if net.load_param(str(written)) or net.load_model(str(Path(folder, "m.ncnn.bin"))):
            raise ValueError("ncnn does not load what pnnx writes")
        script = Path(folder, "m_ncnn.py").read_text(encoding="utf-8")
        extractor = net.create_extractor()
        for place, (name, array) in enumerate(inputs.items()):
            # pnnx writes the batch axis into the generated script.
            batch = re.search(rf"in{place}\.numpy\(\), batch_index=(\d+)", script)
            whole = np.ascontiguousarray(array)
            value = ncnn.Mat(whole, batch_index=int(batch[1])) if batch else ncnn.Mat(whole)
            if extractor.input(f"in{place}", value.clone()):
                raise ValueError(f"ncnn takes no input {name}")
        found = {}
        for place, name in enumerate(outputs):
            status, value = extractor.extract(f"out{place}")
            if status:
                raise ValueError(f"ncnn gives no output {name}")
            batch = re.search(rf"out{place}\.numpy\(batch_index=(\d+)", script)
            found[name] = np.array(value.numpy(batch_index=int(batch[1])) if batch else value)
        return found


def _pnnx() -> str:
    """Return the path of the program."""
    found = importlib.util.find_spec("pnnx")
    if found is None or found.origin is None:
        raise ImportError("pnnx is not installed")
    return str(
        next(path for path in Path(found.origin).parent.rglob("pnnx*") if os.access(path, os.X_OK) and path.is_file())
    )
