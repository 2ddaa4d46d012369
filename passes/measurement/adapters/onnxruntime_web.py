"""ONNX Runtime Web on the CPU, as WebAssembly in Node.js.

`npm install onnxruntime-web` installs it. Node.js looks for it in `node_modules` of the working directory and of the
folders above, then in `NODE_PATH`.
"""

from __future__ import annotations

import base64
import functools
import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import numpy as np

NAME = "onnxruntime-web"
OPSET = 23

RUN = """
async function run(ort, options, {model, inputs}) {
  const types = {
    float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, int16: Int16Array,
    int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
    uint64: BigUint64Array, bool: Uint8Array,
  };
  const bytes = text => Uint8Array.from(atob(text), one => one.charCodeAt(0));
  const text = bytes => btoa(Array.from(bytes, one => String.fromCharCode(one)).join(''));
  const session = await ort.InferenceSession.create(bytes(model), options);
  try {
    const feeds = {};
    for (const {name, type, dims, data} of inputs)
      feeds[name] = new ort.Tensor(type, type == 'string' ? data : new types[type](bytes(data).buffer), dims);
    const found = await session.run(feeds);
    return Object.entries(found).map(([name, {type, dims, data}]) => ({
      name, type, dims,
      data: type == 'string' ? data : text(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
    }));
  } finally {
    await session.release();
  }
}
"""
"""A function of JavaScript that answers what `request` returns."""

LOOP = f"""
{RUN}
const ort = require('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';
(async () => {{
  for await (const line of require('readline').createInterface({{input: process.stdin}})) {{
    let answer;
    try {{ answer = await run(ort, {{executionProviders: ['wasm']}}, JSON.parse(line)); }}
    catch (error) {{ answer = String(error); }}
    process.stdout.write(JSON.stringify(answer) + '\\n');
  }}
}})();
"""


def version() -> str:
    """Return the installed version.

    Raises:
        ImportError: Node.js or the package is missing.
    """
    return node("require('onnxruntime-web').env.versions.web")


def node(expression: str) -> str:
    """Return what Node.js prints of an expression.

    Raises:
        ImportError: Node.js is missing, or the expression requires a package that is not installed.
    """
    program = shutil.which("node")
    if program is None:
        raise ImportError("Node.js is not installed")
    done = subprocess.run([program, "-p", expression], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImportError("the npm package onnxruntime-web is not installed")
    return done.stdout.strip()


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name.

    Raises:
        ValueError: it refuses the model, or its process ended.
    """
    process = _started()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request(model, inputs)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        _started.cache_clear()
        raise ValueError("Node.js ended")
    return outputs(json.loads(line))


@functools.cache
def _started() -> subprocess.Popen[str]:
    """Start Node.js, which ends with its standard input."""
    return subprocess.Popen(
        ["node", "-e", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def request(model: bytes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model and its inputs as JSON holds them."""
    tensors = [
        {
            "name": name,
            "type": "string" if array.dtype.kind in "OU" else array.dtype.name,
            "dims": array.shape,
            "data": array.ravel().tolist() if array.dtype.kind in "OU" else _text(array.tobytes()),
        }
        for name, array in inputs.items()
    ]
    return {"model": _text(model), "inputs": tensors}


def outputs(answer: Any) -> dict[str, Any]:
    """Return arrays by name.

    Raises:
        ValueError: the answer is an error.
    """
    if isinstance(answer, str):
        raise ValueError(answer)
    return {one["name"]: _array(one["type"], one["data"]).reshape(one["dims"]) for one in answer}


def _array(element: str, data: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if element == "string":
        return np.array(data, object)
    return np.frombuffer(base64.b64decode(data), element)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
