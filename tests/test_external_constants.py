"""External data of any tensor: of Constant attributes and small initializers, in graphs, subgraphs and functions.

In the working directory lies a file of the same name with other contents, which nobody may read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import opshift
from opshift.passes.base.errors import InvalidModelError, UnsupportedError
from opshift.passes.base.report import Verdict
from opshift.passes.inspection import inspect

OPENED: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if OPENED is not None and event in ("open", "os.open"):
        OPENED.append(str(arguments[0]))


sys.addaudithook(_listen)

ELEMENTS = np.arange(6, dtype=np.float32).reshape(2, 3)
ZERO = "float[2,3] {0, 0, 0, 0, 0, 0}"
MADE = f"c = Constant<value = {ZERO}>()"
ADD = "(float[2,3] x, bool b) => (float[2,3] y)"
BODIES = {
    "main": f'<ir_version: 9, opset_import: ["":18]> g {ADD} {{{MADE} y = Add(x, c)}}',
    "subgraph": f"""<ir_version: 9, opset_import: ["":18]> g {ADD} {{
        y = If(b)<then_branch = t () => (float[2,3] u) {{{MADE} u = Add(x, c)}},
                  else_branch = e () => (float[2,3] v) {{v = Neg(x)}}>}}""",
    "function": f"""<ir_version: 9, opset_import: ["":18, "f":1]> g {ADD} {{y = f.F(x)}}
        <domain: "f", opset_import: ["":18]> F (x) => (y) {{{MADE} y = Add(x, c)}}""",
    "parameter": f"""<ir_version: 9, opset_import: ["":18, "f":1]> g {ADD} {{y = f.F<v = {ZERO}>(x)}}
        <domain: "f", opset_import: ["":18]> F <v> (x) => (y) {{c = Constant<value: tensor = @v>() y = Add(x, c)}}""",
    "default": f"""<ir_version: 9, opset_import: ["":18, "f":1]> g {ADD} {{y = f.F(x)}}
        <domain: "f", opset_import: ["":18]> F <v: tensor = {ZERO}> (x) => (y)
        {{c = Constant<value: tensor = @v>() y = Add(x, c)}}""",
    "initializer": f"""<ir_version: 9, opset_import: ["":18]> g {ADD}
        <float[2,3] c = {{0, 0, 0, 0, 0, 0}}> {{y = Add(x, c)}}""",
    "initializer of a subgraph": f"""<ir_version: 9, opset_import: ["":18]> g {ADD} {{
        y = If(b)<then_branch = t () => (float[2,3] u) <float[2,3] c = {{0, 0, 0, 0, 0, 0}}> {{u = Add(x, c)}},
                  else_branch = e () => (float[2,3] v) {{v = Neg(x)}}>}}""",
    "filling": f"""<ir_version: 9, opset_import: ["":18]> g {ADD} {{
        s = Shape(x) c = ConstantOfShape<value = float[1] {{0}}>(s) y = Add(x, c)}}""",
}


def tensors(message: Any) -> list[onnx.TensorProto]:
    """All tensors that a message holds."""
    if isinstance(message, onnx.TensorProto):
        return [message]
    found = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value]:
                found += tensors(item)
    return found


def moved_out(model: onnx.ModelProto, folder: Path, elements: Callable[[np.ndarray[Any, Any]], Any]) -> onnx.ModelProto:
    """Return the model with all its tensors in the file `w.bin` of a folder."""
    data = b""
    for tensor in tensors(model):
        part = np.ascontiguousarray(elements(onnx.numpy_helper.to_array(tensor))).tobytes()
        for field in ("raw_data", "float_data", "int64_data", "int32_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", len(data)), ("length", len(part))):
            tensor.external_data.add(key=key, value=str(value))
        data += part
    (folder / "w.bin").write_bytes(data)
    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the model; the working directory is another one, with a file of the same name."""
    for name in ("model", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "w.bin").write_bytes(np.full(64, 100, np.float32).tobytes())
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "model"


def asked(place: str, folder: Path) -> Path:
    """Write a model whose constant is in a file, and return its path."""
    model = moved_out(
        onnx.parser.parse_model(BODIES[place]), folder, lambda array: ELEMENTS if array.size == 6 else array + 1
    )
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def outputs(path: Path, feeds: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    known = {one.name for one in session.get_inputs()}
    return np.asarray(session.run(None, {name: value for name, value in feeds.items() if name in known})[0])


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("place", BODIES)
def test_constants_in_files_stay_what_they_are(place: str, opset: int, folder: Path, tmp_path: Path) -> None:
    path = asked(place, folder)
    feeds = {"x": np.zeros((2, 3), np.float32), "b": np.array(True)}
    wanted = np.ones((2, 3)) if place == "filling" else ELEMENTS
    result = opshift.convert(path, opset=opset)
    assert result.report is not None
    assert result.report.whole is not None
    assert result.report.whole.verdict is Verdict.EQUAL, result.report.whole
    for how in ("copy", "embed", "save"):
        (tmp_path / how).mkdir()
        result.save(tmp_path / how / "out.onnx", external_data=how)
        np.testing.assert_array_equal(outputs(tmp_path / how / "out.onnx", feeds), wanted)
    result.save(folder / "kept.onnx", external_data="keep")
    np.testing.assert_array_equal(outputs(folder / "kept.onnx", feeds), wanted)


@pytest.mark.parametrize("place", BODIES)
def test_files_of_a_model_in_memory_are_not_looked_for(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(asked(place, folder), load_external_data=False)
    opened: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "OPENED", opened)
    result = opshift.convert(model, opset=21)
    assert not [path for path in opened if path.endswith("w.bin")]
    assert result.report is not None
    assert result.report.whole is not None
    assert result.report.whole.verdict is Verdict.UNCHECKED
    where = [[(entry.key, entry.value) for entry in tensor.external_data] for tensor in tensors(model)]
    assert [[(entry.key, entry.value) for entry in tensor.external_data] for tensor in tensors(result.model)] == where


@pytest.mark.parametrize("place", BODIES)
def test_a_missing_file_is_a_fault_of_the_model(place: str, folder: Path) -> None:
    path = asked(place, folder)
    (folder / "w.bin").unlink()
    with pytest.raises(InvalidModelError, match="is missing"):
        opshift.convert(path, opset=21)


SHAPES = {
    "Slice": """<ir_version: 7, opset_import: ["":13]> g (float[4,6] x) => (float[2,4] y)
        <int64[2] s = {0, 1}, int64[2] e = {2, 5}, int64[2] a = {0, 1}> {y = Slice(x, s, e, a)}""",
    "Slice of Constants": """<ir_version: 7, opset_import: ["":13]> g (float[4,6] x) => (float[2,4] y) {
        s = Constant<value = int64[2] {0, 1}>() e = Constant<value = int64[2] {2, 5}>()
        a = Constant<value = int64[2] {0, 1}>() y = Slice(x, s, e, a)}""",
    "Resize": """<ir_version: 7, opset_import: ["":13]> g (float[1,1,2,3] x) => (float[1,1,4,6] y)
        <float[4] s = {1, 1, 2, 2}>
        {y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , s)}""",
    "Unsqueeze": """<ir_version: 7, opset_import: ["":13]> g (float[4] x) => (float[1,4] y)
        <int64[1] a = {0}> {y = Unsqueeze(x, a)}""",
    "Clip": """<ir_version: 7, opset_import: ["":13]> g (float[4] x) => (float[4] y)
        <float low = {-1}, float high = {1}> {y = Clip(x, low, high)}""",
    "Slice in a function": """<ir_version: 8, opset_import: ["":13, "f":1]> g (float[4,6] x) => (float[2,4] y)
        {y = f.F(x)} <domain: "f", opset_import: ["":13]> F (x) => (y) {
        s = Constant<value = int64[2] {0, 1}>() e = Constant<value = int64[2] {2, 5}>()
        a = Constant<value = int64[2] {0, 1}>() y = Slice(x, s, e, a)}""",
}


@pytest.mark.parametrize("name", SHAPES)
def test_small_constants_in_files_are_read(name: str, folder: Path) -> None:
    """A version below takes them as attributes."""
    model = onnx.parser.parse_model(SHAPES[name])
    embedded = opshift.convert(model, opset=8, verify=False)
    path = folder / "model.onnx"
    path.write_bytes(moved_out(model, folder, lambda array: array).SerializeToString())
    result = opshift.convert(path, opset=8)
    assert onnx.printer.to_text(result.rewritten) == onnx.printer.to_text(embedded.rewritten)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL, result.report
    assert 8 in inspect(path).reachable
    # Clip takes its bounds as operands of Max and Min too, Unsqueeze computed axes, and Resize computed scales.
    if name not in ("Clip", "Unsqueeze", "Resize"):
        with pytest.raises(UnsupportedError):
            opshift.convert(onnx.load(path, load_external_data=False), opset=8)


def test_large_constants_in_files_are_not_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 9, opset_import: ["":18]> g (float[1] x) => (float[N] y) {
        c = Constant<value = float[1] {0}>() y = Add(x, c)}"""
    model = moved_out(onnx.parser.parse_model(text), folder, lambda array: array)
    (tensor,) = tensors(model)
    tensor.dims[0] = 2**40
    del tensor.external_data[2]
    with (folder / "w.bin").open("r+b") as file:
        file.truncate(2**42)  # a hole
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    opened: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "OPENED", opened)
    result = opshift.convert(path, opset=21, verify=False)
    assert not [name for name in opened if name.endswith("w.bin")]
    assert list(tensors(result.model)[0].dims) == [2**40]
