"""Weights in files get another element type as they are copied: the numbers are those of a conversion in memory."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.parser import parse_model

import opshift
from opshift.passes.io import reader
from opshift.passes.io.weight_types import with_converted_weights

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,64] x, int64[2] i) => (float[2,64] y)
{ h = MatMul (x, w) s = Softmax (h) r = Gather (table, i) y = Add (s, r) }"""
RNG = np.random.default_rng(0)
WEIGHTS = {"w": RNG.normal(size=(64, 64)).astype(np.float32), "table": RNG.normal(size=(300, 64)).astype(np.float32)}
CHANGES: dict[str, dict[str, Any]] = {
    "float16": {"types": {"float": "float16"}},
    "double": {"types": {"float": "double"}},
    "double, outside too": {"types": {"float": "double"}, "io_types": True},
}


def write(folder: Path, *, name: str = "w.bin") -> Path:
    """Write the model with its weights in a file beside it."""
    model = parse_model(TEXT)
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in WEIGHTS.items())
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location=name, size_threshold=0)
    return folder / "m.onnx"


def in_memory(change: dict[str, Any]) -> onnx.ModelProto:
    model = parse_model(TEXT)
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in WEIGHTS.items())
    return opshift.convert(model, **change).rewritten


def arrays(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def run(model: str | bytes) -> list[np.ndarray[Any, Any]]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.arange(128).reshape(2, 64) / 128
    fed = {"x": x.astype(np.float64 if "double" in session.get_inputs()[0].type else np.float32)}
    found: list[np.ndarray[Any, Any]] = session.run(None, {**fed, "i": np.array([2, 0])})
    return found


@pytest.fixture(params=["external data", "the model's own file"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "external data":
        return write(tmp_path / "a")
    monkeypatch.setattr(reader, "SMALL", 0)
    monkeypatch.setattr("opshift.passes.io.lazy_weights.LARGE", 16)
    whole = onnx.load(write(tmp_path / "a"))
    (tmp_path / "a" / "w.bin").unlink()
    onnx.save(whole, tmp_path / "a" / "m.onnx")
    return tmp_path / "a" / "m.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", ["b/m.onnx", "a/n.onnx", "a/m.onnx"])
def test_weights_in_files_are_converted(path: Path, change: str, place: str) -> None:
    expected = in_memory(CHANGES[change])
    result = opshift.convert(path, **CHANGES[change])
    output = path.parent.parent / place
    output.parent.mkdir(exist_ok=True)
    result.save(output)
    written = onnx.load(output)
    assert [node.op_type for node in written.graph.node] == [node.op_type for node in expected.graph.node]
    assert arrays(written).keys() == arrays(expected).keys()
    for name, array in arrays(expected).items():
        np.testing.assert_array_equal(arrays(written)[name], array)
    for one, two in zip(run(str(output)), run(expected.SerializeToString()), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("weights", ["embed", "save", None])
def test_converted_weights_go_where_they_are_asked_to(path: Path, weights: Any) -> None:
    """A weight that two types are read of is there in both, and one that keeps its type stays in its file."""
    result = opshift.convert(path, types={"float": "double"}, verify=False)
    (path.parent / "n.onnx").write_bytes(b"old")
    result.save(path.parent / "n.onnx", external_data=weights)
    alone = onnx.load(path.parent / "n.onnx", load_external_data=False)
    outside = [tensor for tensor in alone.graph.initializer if tensor.data_location == TensorProto.EXTERNAL]
    # Of external data, w is small enough to be read.
    counts = {"save": 2, "embed": 0, None: int((path.parent / "w.bin").exists())}
    assert len(outside) == counts[weights]
    expected = in_memory({"types": {"float": "double"}})
    for written in (onnx.load(path.parent / "n.onnx"), pickle.loads(pickle.dumps(result)).model, result.model):
        assert isinstance(written, onnx.ModelProto)
        for name, array in arrays(expected).items():
            np.testing.assert_array_equal(arrays(written)[name], array)


@pytest.mark.parametrize("prefix", ["", "./"])
def test_what_keeps_its_type_stays_in_its_file(tmp_path: Path, prefix: str) -> None:
    """The new file has another name than the old one, which the output still refers to."""
    path = write(tmp_path / "a", name="n.onnx.data")
    model = onnx.load(path, load_external_data=False)
    model.graph.node.append(onnx.helper.make_node("Identity", ["table"], ["kept"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("kept", TensorProto.FLOAT, [300, 64]))
    for entry in (one for tensor in model.graph.initializer for one in tensor.external_data):
        entry.value = prefix * (entry.key == "location") + entry.value
    path.write_bytes(model.SerializeToString())
    result = opshift.convert(path, types={"float": "double"}, verify=False)
    for output in (tmp_path / "a" / "n.onnx", tmp_path / "b" / "n.onnx"):
        output.parent.mkdir(exist_ok=True)
        files = {file.name for file in result.save(output)}
        assert files == {"n.onnx.data", "n.onnx.1.data"}
        written = arrays(onnx.load(output))
        np.testing.assert_array_equal(written["table"], WEIGHTS["table"])
        assert {one.dtype for name, one in written.items() if name != "table"} == {np.dtype(np.float64)}
        run(str(output))


def test_casts_of_the_model_itself_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    model = onnx.load(path, load_external_data=False)
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT16))
    model.graph.output.append(onnx.helper.make_tensor_value_info("v", TensorProto.FLOAT16, [64, 64]))
    path.write_bytes(model.SerializeToString())
    source = reader.load(path)
    assert with_converted_weights(source.model, source) is source.model


def test_large_weights_are_converted_in_pieces(tmp_path: Path) -> None:
    """No more than a few MiB are in memory at a time."""
    path = tmp_path / "m.onnx"
    model = parse_model(TEXT)
    for key, rows in (("w", 64), ("table", 2**18)):  # 64 MiB
        tensor = model.graph.initializer.add(name=key, data_type=TensorProto.FLOAT, dims=[rows, 64])
        tensor.data_location = TensorProto.EXTERNAL
        for entry, value in (("location", "zeros"), ("length", str(rows * 256))):
            tensor.external_data.add(key=entry, value=value)
    path.write_bytes(model.SerializeToString())
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(2**18 * 256)
    result = opshift.convert(path, types={"float": "double"}, verify=False)
    tracemalloc.start()
    result.save(tmp_path / "n.onnx")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    assert (tmp_path / "n.onnx.data").stat().st_size >= 2**18 * 512
