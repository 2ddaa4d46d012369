"""Real runtimes, each in a process of its own: some end it, where others raise.

`Runtime("mnn").run(model, feeds)` returns the outputs by name, or raises `RefusedError`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.rtld.execstack=2"}
"""The wheel of MNN 3.6.1 asks for a stack that can be executed, which glibc loads from 2.41 on with this alone."""


class RefusedError(Exception):
    """A runtime does not load a model, does not run it, or its process ended."""


# --- how each runs a model; in the process of its own -----------------------------------------------------------------


def _names(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Return inputs that are to be fed, and outputs."""
    constant = {tensor.name for tensor in model.graph.initializer}
    return [one.name for one in model.graph.input if one.name not in constant], [one.name for one in model.graph.output]


def _opencv(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    import cv2

    net = cv2.dnn.readNetFromONNX(np.frombuffer(model.SerializeToString(), np.uint8))
    for name, array in feeds.items():
        net.setInput(array, name)
    wanted = _names(model)[1]
    return dict(zip(wanted, net.forward(wanted), strict=True))


def _openvino(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    import openvino

    read = openvino.Core().read_model(model.SerializeToString(), b"")
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    # By place, since an input that only goes through a Dropout loses its name.
    found = openvino.compile_model(read, "CPU", settings)([feeds[name] for name in _names(model)[0]])
    return {name: np.array(found[index]) for index, name in enumerate(_names(model)[1])}


def _mnn(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    import _tools
    import MNN

    inputs, outputs = _names(model)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "m.onnx"), Path(folder, "m.mnn")
        source.write_bytes(model.SerializeToString())
        command = ["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target)]
        _tools.mnnconvert([*command, "--bizCode", "x"])
        if not target.exists():
            raise RefusedError("mnnconvert writes nothing")
        module = MNN.nn.load_module_from_file(str(target), inputs, outputs)
        kinds = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8}
        # 64-bit integers are int32 to it, also as inputs.
        arrays = [feeds[name].astype(np.int32) if feeds[name].dtype == np.int64 else feeds[name] for name in inputs]
        given = [MNN.expr.const(one, list(one.shape), MNN.expr.NCHW, kinds[one.dtype.name]) for one in arrays]
        found = [MNN.expr.convert(one, MNN.expr.NCHW) for one in module.forward(given)]
        return {name: np.array(one.read()) for name, one in zip(outputs, found, strict=True)}


def _ncnn(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    import ncnn

    inputs, outputs = _names(model)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "m.onnx")
        source.write_bytes(model.SerializeToString())
        kinds = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8"}
        shapes = ",".join(
            f"[{','.join(map(str, feeds[name].shape))}]{kinds.get(feeds[name].dtype.name, '?')}" for name in inputs
        )
        command = [_pnnx(), str(source), f"inputshape={shapes}", "fp16=0"]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
        written = Path(folder, "m.ncnn.param")
        if done.returncode or not written.exists():
            raise RefusedError(f"pnnx fails: {done.stderr.decode(errors='replace')[-200:]}")
        net = ncnn.Net()
        net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_fp16_packed = False
        net.opt.use_bf16_storage = net.opt.use_vulkan_compute = False
        net.opt.num_threads = 1
        if net.load_param(str(written)) or net.load_model(str(Path(folder, "m.ncnn.bin"))):
            raise RefusedError("ncnn does not load what pnnx writes")
        script = Path(folder, "m_ncnn.py").read_text()
        extractor = net.create_extractor()
        for place, name in enumerate(inputs):
            # Which axis is that of a batch, pnnx says in the script that it writes.
            batch = re.search(rf"in{place}\.numpy\(\), batch_index=(\d+)", script)
            array = np.ascontiguousarray(feeds[name])
            value = ncnn.Mat(array, batch_index=int(batch[1])) if batch else ncnn.Mat(array)
            if extractor.input(f"in{place}", value.clone()):
                raise RefusedError(f"ncnn takes no input {name}")
        found = {}
        for place, name in enumerate(outputs):
            status, value = extractor.extract(f"out{place}")
            if status:
                raise RefusedError(f"ncnn gives no output {name}")
            batch = re.search(rf"out{place}\.numpy\(batch_index=(\d+)", script)
            found[name] = np.array(value.numpy(batch_index=int(batch[1])) if batch else value)
        return found


def _pnnx() -> str:
    found = importlib.util.find_spec("pnnx")
    assert found is not None
    assert found.origin is not None
    return str(
        next(path for path in Path(found.origin).parent.rglob("pnnx*") if os.access(path, os.X_OK) and path.is_file())
    )


def _onnxruntime(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(_names(model)[1], session.run(None, dict(feeds)), strict=True))


RUNTIMES: Mapping[str, tuple[str, Callable[[onnx.ModelProto, Arrays], dict[str, Array]]]] = {
    "opencv-4": ("opencv-python-headless", _opencv),
    "mnn": ("MNN", _mnn),
    "openvino": ("openvino", _openvino),
    "ncnn": ("ncnn", _ncnn),
    "onnxruntime": ("onnxruntime", _onnxruntime),
}
"""By the names of their profiles: the distribution, and how it runs a model."""


def version(name: str) -> str | None:
    """Return the version that is installed, or None."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(RUNTIMES[name][0])
    return None


# --- from this side ---------------------------------------------------------------------------------------------------


class Runtime:
    """One runtime, in a process that is started when first asked, and again after it has ended."""

    def __init__(self, name: str, timeout: float = 60) -> None:
        self.name, self.timeout = name, timeout
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, model: onnx.ModelProto, feeds: Arrays) -> dict[str, Array]:
        """Return the outputs by name.

        Raises:
            RefusedError: the runtime does not load the model, or does not run it.
            ImportError: the runtime itself cannot be loaded.
        """
        if self._process is None:
            command = [sys.executable, __file__, self.name]
            environment = {**os.environ, **ENVIRONMENT}
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None
        assert answers is not None
        late = threading.Timer(self.timeout, self._process.kill)
        late.start()
        try:
            pickle.dump((model.SerializeToString(), dict(feeds)), given)
            given.flush()
            done, answer = pickle.load(answers)
        except (EOFError, OSError):
            self.close()
            raise RefusedError("its process ended, or took too long") from None
        finally:
            late.cancel()
        if isinstance(answer, ImportError):
            raise answer
        if not done:
            raise RefusedError(answer)
        found: dict[str, Array] = answer
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def alike(found: Array, wanted: Array) -> bool:
    """Whether both hold the same values, but for axes of length one and element types: runtimes for images drop both.

    Where floats are rounded, they may be so in another order: 1e-4 is several hundred roundings of a float32.
    """
    one, other = np.squeeze(np.asarray(found)), np.squeeze(np.asarray(wanted))
    return one.shape == other.shape and bool(
        np.allclose(one.astype(np.float64), other.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True)
    )


def _serve(name: str) -> None:
    """Answer until nobody asks; what a runtime prints goes nowhere."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    run = RUNTIMES[name][1]
    with contextlib.suppress(EOFError):
        while True:
            model, feeds = pickle.load(asked)
            try:
                answer: tuple[bool, Any] = True, run(onnx.ModelProto.FromString(model), feeds)
            except ImportError as error:
                answer = False, error
            except Exception as error:  # each runtime raises classes of its own
                answer = False, f"{type(error).__name__}: {error}".replace("\n", " ")
            pickle.dump(answer, answers)
            answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
