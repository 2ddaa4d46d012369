"""Loading: what is read, and each kind of input that is refused, with the words that it is refused in."""

from __future__ import annotations

import functools
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

import opshift
from opshift.opsets.registry.schema import NEWEST
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.graph import limits, traversal
from opshift.passes.io import external_data, operator_type_checks, reader

HARDMAX = '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[2,3] y) { [hot] y = Hardmax(x) }'
ADD = '<ir_version: 8, opset_import: ["":13]> g (float[2] x) => (float[2] y) { y = Add(x, w) }'
IF = """<ir_version: 8, opset_import: ["":13]> g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, w) }, else_branch = e () => (float[2] b) { b = Neg(x) }>
}"""
FUNCTION = """<ir_version: 8, opset_import: ["":13, "l":1]> g (float[2] x) => (float[2] y) { y = l.f(x) }
<domain: "l", opset_import: ["":13, "l":1]> f (a) => (b) { c = Constant<value = float[2] {1, 2}>() b = Add(a, c) }"""
WEIGHTS = np.array([1, 2], np.float32)


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def written(folder: Path, model: onnx.ModelProto | bytes | str, name: str = "m.onnx") -> Path:
    path = folder / name
    if isinstance(model, str):
        model = model.encode()
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def point(tensor: TensorProto, entries: dict[str, object]) -> None:
    """Make a tensor external."""
    for field in ("raw_data", "float_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def with_weights(**entries: object) -> onnx.ModelProto:
    """A model whose one weight is in a file."""
    model = parse(ADD)
    point(model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2]), entries)
    return model


def edited(text: str, edit: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = parse(text)
    edit(model)
    return model


def refused(model: object) -> str:
    """Return the words that a model is refused in: one paragraph, without terminal escapes."""
    with pytest.raises(InvalidModelError) as caught:
        reader.load(model)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.isprintable(), message
    assert len(message) < 1500
    return message


# --- what is read ---


def test_a_binary_file(tmp_path: Path) -> None:
    path = written(tmp_path, parse(HARDMAX))
    for given_as in (path, str(path)):
        source = reader.load(given_as)
        assert source.model == parse(HARDMAX)
        assert (source.path, source.directory, source.original) == (path, tmp_path, None)


@pytest.mark.parametrize("name", ["m.onnxtxt", "m.onnx.txt", "m.txt", "M.ONNXTXT"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_onnx_text(tmp_path: Path, name: str, mark: str) -> None:
    assert reader.load(written(tmp_path, mark + HARDMAX, name)).model == parse(HARDMAX)


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, parse(HARDMAX))
    monkeypatch.chdir(tmp_path)
    source = reader.load("m.onnx")
    assert (source.path, source.directory) == (tmp_path / "m.onnx", tmp_path)


def test_a_model_in_memory_is_neither_copied_nor_changed() -> None:
    model = with_weights(location="w.bin")
    model.graph.initializer.add(name="big", data_type=1, dims=[5000], raw_data=bytes(20000))
    before = model.SerializeToString()
    source = reader.load(model)
    assert source.model is model
    assert source.original is model
    assert source.directory is None
    assert model.SerializeToString() == before


def test_an_onnx_ir_model() -> None:
    model = onnx_ir.from_proto(parse(HARDMAX))
    source = reader.load(model)
    assert source.original is model
    assert source.model.graph.node[0].op_type == "Hardmax"
    assert source.directory is None


@pytest.mark.parametrize("place", ["initializer", "Constant", "branch", "Constant in a branch"])
@pytest.mark.parametrize("current", [False, True])
def test_an_onnx_ir_model_knows_the_folder_of_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, current: bool
) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    path = written(tmp_path, places({"location": "w.bin"})[place])
    if current:
        monkeypatch.chdir(tmp_path)
    source = reader.load(onnx_ir.load(path.name if current else path))
    assert source.directory == tmp_path.resolve()
    assert [item.location for item in external_data.references(traversal.graph_views(source.model))] == ["w.bin"]


def test_an_onnx_ir_model_with_weights_in_a_function(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    model = places({"location": "w.bin"})["function"]
    assert reader.load(onnx_ir.load(written(tmp_path, model))).directory is None  # onnx_ir 1.1 does not keep it
    point(model.graph.initializer.add(name="w", data_type=1, dims=[2]), {"location": "w.bin"})
    assert reader.load(onnx_ir.load(written(tmp_path, model))).directory == tmp_path.resolve()


def test_an_onnx_ir_model_whose_folder_is_not_known() -> None:
    assert reader.load(onnx_ir.from_proto(with_weights(location="no-such-file.bin"))).directory is None


def test_an_onnx_ir_model_with_weights_in_two_folders(tmp_path: Path) -> None:
    model = parse(ADD)
    for name in "wv":
        point(model.graph.initializer.add(name=name, data_type=1, dims=[2]), {"location": "w.bin"})
    other = onnx_ir.from_proto(model)
    for name, value in other.graph.initializers.items():
        (tmp_path / name).mkdir()
        value.const_value.base_dir = tmp_path / name  # type: ignore[union-attr]
    assert "several folders" in refused(other)


def test_something_else_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="an object of type"):
        reader.load(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("opset", [1, 6, 7, 12, 13, 28])
def test_opsets_too_old_to_convert_pass(opset: int) -> None:
    assert reader.load(parse(HARDMAX.replace('"":13', f'"":{opset}'))).model.opset_import[0].version == opset


def test_a_model_from_before_opsets() -> None:
    def age(model: onnx.ModelProto) -> None:
        model.ir_version = 2
        del model.opset_import[:]

    reader.load(edited(HARDMAX, age))


PIPELINE = """<ir_version: 8, opset_import: ["ai.onnx.ml": 3]> g (float[n,2] x) => (float[n,2] y)
    { y = ai.onnx.ml.Binarizer<threshold = 0.5>(x) }"""


def test_a_pipeline_needs_no_opset_of_operators_that_it_does_without() -> None:
    """ONNX's own tests of ai.onnx.ml import nothing else, and onnxruntime runs them."""
    model = onnx.parser.parse_model(PIPELINE)
    found = reader.load(model)
    assert [(entry.domain, entry.version) for entry in found.model.opset_import] == [("ai.onnx.ml", 3), ("", 18)]
    assert found.repairs == ("Read as opset 18: the model imports no opset of ai.onnx, and has none of its operators.",)
    assert [entry.domain for entry in model.opset_import] == ["ai.onnx.ml"], "the model given is not changed"
    report = opshift.convert(model, opset=13, decompose=["ai.onnx.ml"]).report
    assert report is not None
    assert report.verdict == "equal"


def test_an_operator_of_onnx_needs_an_opset() -> None:
    model = onnx.parser.parse_model(PIPELINE.replace("}", "z = Relu (y) }").replace("[n,2] y)", "[n,2] z)"))
    with pytest.raises(InvalidModelError, match="no entry for ai"):
        reader.load(model)


@pytest.mark.parametrize("where", ["import", "node", "both", "beside ai.onnx.ml", "twice, equal"])
def test_both_spellings_of_the_domain(where: str) -> None:
    model = parse(HARDMAX)
    if where in ("import", "both"):
        model.opset_import[0].domain = "ai.onnx"
    if where in ("node", "both"):
        model.graph.node[0].domain = "ai.onnx"
    if where == "beside ai.onnx.ml":
        model.opset_import.add(domain="ai.onnx.ml", version=3)
    if where == "twice, equal":
        model.opset_import.add(domain="ai.onnx", version=13)
    before = model.SerializeToString()
    reader.load(model)
    assert model.SerializeToString() == before
    onnxruntime.InferenceSession(before, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("where", ["import", "node"])
def test_the_other_spelling_is_checked_as_well(where: str) -> None:
    model = parse(HARDMAX.replace("Hardmax(x)", "Hardmax<axis = 2>(x)"))
    (model.opset_import[0] if where == "import" else model.graph.node[0]).domain = "ai.onnx"
    assert "axis 2 is out of range" in refused(model)
    model.graph.node[0].op_type = "Hardmux"
    assert "Hardmux" in refused(model)


@pytest.mark.parametrize("value", ["input", "output"])
def test_unknown_ranks_pass_as_they_do_in_onnxruntime(value: str) -> None:
    model = parse(HARDMAX)
    getattr(model.graph, value)[0].type.tensor_type.ClearField("shape")
    with pytest.raises(onnx.checker.ValidationError, match="shape"):
        onnx.checker.check_model(model)
    reader.load(model)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    model.graph.node[0].op_type = "Hardmux"
    assert "Hardmux" in refused(model)


def with_initializer(model: onnx.ModelProto, weights: TensorProto) -> None:
    model.graph.initializer.append(weights)


def test_large_weights_are_checked_and_not_lost() -> None:
    text = ADD.replace("float[2] ", "float[2000] ")
    for weights in (
        onnx.numpy_helper.from_array(np.zeros(2000, np.float32), "w"),
        onnx.helper.make_tensor("w", 1, [2000], [0.0] * 2000),
    ):
        reader.load(edited(text, functools.partial(with_initializer, weights=weights)))
        model = parse(text.replace("{", "{ w = Constant() "))
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("value", weights))
        reader.load(model)


def test_large_weights_that_are_inputs_as_well() -> None:
    model = parse(ADD.replace("float[2] ", "float[2000] ").replace("x)", "x, float[2000] w)", 1))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(2000, np.float32), "w"))
    reader.load(model)


def test_inferred_types_are_handed_on() -> None:
    model = parse(HARDMAX.replace("y = Hardmax(x)", "z = Relu(x) y = Hardmax(z)"))
    source = reader.load(model)
    assert source.inferred is None
    assert source.static is not None
    assert source.static.find("z") == source.static.find("x")
    open_ranks = parse(HARDMAX.replace("y = Hardmax(x)", "s = Shape(x) z = Reshape(x, s) y = Hardmax(z)"))
    inferred = reader.load(open_ranks).inferred
    assert inferred is not None
    assert [value.name for value in inferred.graph.value_info] == ["s", "z"]
    other = reader.load(parse(ADD.replace("w", "x")))
    assert (other.inferred, other.static) == (None, None)


def test_functions_that_call_each_other_take_no_time() -> None:
    text = '<ir_version: 8, opset_import: ["":13, "l":1]> g (float[2] x) => (float[2] y) { z = l.f0(x) y = Hardmax(z) }'
    for i in range(24):
        text += f'<domain: "l", opset_import: ["":13, "l":1]> f{i} (a) => (b) {{ c = l.f{i + 1}(a) b = l.f{i + 1}(c) }}'
    text += '<domain: "l", opset_import: ["":13, "l":1]> f24 (a) => (b) { b = Relu(a) }'
    started = os.times().user
    reader.load(parse(text))
    assert os.times().user - started < 3  # through onnx's inference: 37 s


# --- files that are no models ---

TRUNCATED = parse(HARDMAX).SerializeToString()

NOT_ONNX = {
    "empty": (b"", "empty"),
    "blank": (b" \n", "empty"),
    "truncated": (TRUNCATED[:-20], "damaged or cut off"),
    "cut after the graph": (TRUNCATED[: TRUNCATED.index(b"B\x04\n\0\x10\r")], "cut off"),
    "random": (bytes(range(255, 127, -1)) * 4, "not an ONNX model"),
    "only a producer": (onnx.ModelProto(ir_version=8, producer_name="p").SerializeToString(), "no graph"),
    "text": (b"hello world\n", "text file"),
    "onnx text": (HARDMAX.encode(), ".onnxtxt"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06", "PNG image"),
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "JPEG image"),
    "pdf": (b"%PDF-1.7\n", "PDF"),
    "json": (b'{"ir_version": 8}', "JSON"),
    "html": (b"\n<!DOCTYPE html>\n<html>", "web page"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "git lfs pull"),
    "zip": (b"PK\x03\x04\x14\0", "zip archive"),
    "gzip": (b"\x1f\x8b\x08\0", "gzip"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "tflite": (b"\x1c\0\0\0TFL3\x14\0 \0", "TensorFlow Lite"),
    "ort": (b"\x1c\0\0\0ORTM\0\0\0\0", "onnxruntime's own format"),
    "gguf": (b"GGUF\x03\0\0\0", "GGUF"),
}


@pytest.mark.parametrize("case", NOT_ONNX)
def test_files_that_are_not_onnx(tmp_path: Path, case: str) -> None:
    data, words = NOT_ONNX[case]
    message = refused(written(tmp_path, data, "what.onnx"))
    assert words in message
    assert "what.onnx" in message


NOT_TEXT = {
    "empty": (b"", "empty"),
    "blank": (b" \n", "empty"),
    "prose": (b"hello world", "line 1, column 7: Expected character = not found"),
    "binary": (TRUNCATED, "not text"),
    "not utf-8": (HARDMAX.replace("hot", "h\xf6t").encode("latin-1"), "not text"),
    "cut off": (HARDMAX[:-10].encode(), "not ONNX text: line 1"),
    "huge number": (HARDMAX.replace("3]", "99999999999999999999]").encode(), "not ONNX text"),
    "too many brackets": (b"<" + b"(" * 100_000, "nested deeper"),
    "nested too deep": (
        (
            '<ir_version: 8, opset_import: ["":13]> g (bool c, float x) => (float y) {'
            + "y = If(c) <then_branch = t () => (float y) {" * 20_000
        ).encode(),
        "nested deeper",
    ),
}


@pytest.mark.parametrize("case", NOT_TEXT)
def test_files_that_are_not_onnx_text(tmp_path: Path, case: str) -> None:
    data, words = NOT_TEXT[case]
    assert words in refused(written(tmp_path, data, "m.onnxtxt"))


def test_brackets_in_strings_do_not_nest(tmp_path: Path) -> None:
    text = HARDMAX.replace("hot", '"' + "(" * 1000 + '"')
    assert reader.load(written(tmp_path, text, "m.onnxtxt")).model.graph.node[0].name == "(" * 1000


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.onnx")
    assert "folder" in refused(tmp_path)
    assert "cannot be read" in refused("a\0b.onnx")
    assert "cannot be read" in refused(tmp_path / ("n" * 300))
    circle = tmp_path / "circle.onnx"
    circle.symlink_to(circle)
    assert "cannot be read" in refused(circle)
    assert r"\x1b[31m" in refused(tmp_path / "\x1b[31m.onnx")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(parse(HARDMAX).SerializeToString())
    states = iter([(1,), (2,)])
    monkeypatch.setattr(reader, "stamp", lambda status: next(states))
    with pytest.raises(InvalidModelError, match="the file changed while it was read"):
        reader.load(path)


def test_files_that_are_not_regular_are_never_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.onnx"
    os.mkfifo(fifo)  # opening it would wait for ever
    assert "regular file" in refused(fifo)
    assert "regular file" in refused("/dev/zero")  # reading it would fill the memory
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert "regular file" in refused(tmp_path / "s")


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, parse(HARDMAX))

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    assert "permission denied" in refused(path)


def test_more_than_protobuf_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)  # a hole, no bytes
    message = refused(path)
    assert "2 GiB" in message
    assert "external data" in message


# --- models against the specification ---


def deep(depth: int) -> onnx.ModelProto:
    """Graphs inside graphs, built in memory, where protobuf sets no limit."""
    model = parse(HARDMAX)
    graph = model.graph
    for _ in range(depth):
        attribute = graph.node.add(op_type="If", input=["c"], output=["o"]).attribute.add(name="then_branch", type=5)
        graph = attribute.g
        graph.name = "inner"
    return model


def wire(model: onnx.ModelProto, name: str) -> None:
    """Let the first node read something else."""
    model.graph.node[0].input[0] = name


def call(model: onnx.ModelProto, name: str, operator: str) -> None:
    model.graph.node[0].name = name
    model.graph.node[0].op_type = operator


def compute(model: onnx.ModelProto, name: str) -> None:
    """Let the function's last node compute something else."""
    model.functions[0].node[1].output[0] = name


def twice(items: object) -> None:
    items.add().CopyFrom(items[0])  # type: ignore[attr-defined,index]


FAULTS: dict[str, tuple[str, Callable[[onnx.ModelProto], object], tuple[str, ...]]] = {
    "no graph": (HARDMAX, lambda m: m.ClearField("graph"), ("no graph",)),
    "no ir_version": (HARDMAX, lambda m: m.ClearField("ir_version"), ("no ir_version",)),
    "negative ir_version": (HARDMAX, lambda m: setattr(m, "ir_version", -3), ("no ir_version",)),
    "newer ir_version": (HARDMAX, lambda m: setattr(m, "ir_version", 99), ("ir_version 99", "newer onnx")),
    "no opset": (HARDMAX, lambda m: m.ClearField("opset_import"), ("opset",)),
    "only another domain": (HARDMAX, lambda m: setattr(m.opset_import[0], "domain", "l"), ("opset",)),
    "newer opset": (
        HARDMAX,
        lambda m: setattr(m.opset_import[0], "version", NEWEST + 1),
        (f"opset {NEWEST + 1}", f"up to {NEWEST}"),
    ),
    "huge opset": (HARDMAX, lambda m: setattr(m.opset_import[0], "version", 2**62), (str(2**62),)),
    "opset 0": (HARDMAX, lambda m: setattr(m.opset_import[0], "version", 0), ("opset 0", "does not exist")),
    "negative opset": (HARDMAX, lambda m: setattr(m.opset_import[0], "version", -1), ("opset -1",)),
    "two opsets": (HARDMAX, lambda m: m.opset_import.add(domain="", version=12), ("13 and 12",)),
    "two opsets, spelled apart": (HARDMAX, lambda m: m.opset_import.add(domain="ai.onnx", version=12), ("13 and 12",)),
    "opset under ir_version 2": (HARDMAX, lambda m: setattr(m, "ir_version", 2), ("IR version < 3",)),
    "unknown operator": (
        HARDMAX,
        lambda m: setattr(m.graph.node[0], "op_type", "Nope"),
        ("'hot' (Nope): there is no Nope in opset 13",),
    ),
    "operator of a later opset": (HARDMAX, lambda m: setattr(m.graph.node[0], "op_type", "Gelu"), ("'hot' (Gelu)",)),
    "domain without import": (HARDMAX, lambda m: setattr(m.graph.node[0], "domain", "q"), ("'hot'", "domain 'q'")),
    "unknown attribute": (
        HARDMAX,
        lambda m: m.graph.node[0].attribute.append(onnx.helper.make_attribute("axiz", 1)),
        ("'hot' (Hardmax)", "axiz"),
    ),
    "wrong type of attribute": (
        HARDMAX,
        lambda m: m.graph.node[0].attribute.append(onnx.helper.make_attribute("axis", "one")),
        ("'hot' (Hardmax)", "axis"),
    ),
    "attribute twice": (
        HARDMAX,
        lambda m: m.graph.node[0].attribute.extend([onnx.helper.make_attribute("axis", 1)] * 2),
        ("'hot' (Hardmax)", "multiple times"),
    ),
    "undefined input": (
        HARDMAX,
        lambda m: wire(m, "q"),
        ("'q'", "Hardmax", "not computed"),
    ),
    "cycle": (HARDMAX, lambda m: wire(m, "y"), ("'y' of node 'hot' (Hardmax)", "cycle")),
    "undefined output": (HARDMAX, lambda m: setattr(m.graph.output[0], "name", "q"), ("'q'",)),
    "one value twice": (
        HARDMAX,
        lambda m: m.graph.node.add(op_type="Relu", input=["x"], output=["y"]),
        ("'y'", "multiple times"),
    ),
    "one input twice": (HARDMAX, lambda m: twice(m.graph.input), ("'x'", "multiple times")),
    "one initializer twice": (
        HARDMAX,
        lambda m: m.graph.initializer.extend([TensorProto(name="w", data_type=1, dims=[1], raw_data=bytes(4))] * 2),
        ("two initializers", "'w'"),
    ),
    "one large initializer twice": (
        HARDMAX,
        lambda m: m.graph.initializer.extend(
            [TensorProto(name="w", data_type=1, dims=[2000], raw_data=bytes(8000))] * 2
        ),
        ("two initializers", "'w'"),
    ),
    "large initializer computed as well": (
        HARDMAX,
        lambda m: m.graph.initializer.add(name="y", data_type=1, dims=[2000], raw_data=bytes(8000)),
        ("'y'", "multiple times"),
    ),
    "metadata twice": (
        HARDMAX,
        lambda m: m.metadata_props.extend([onnx.StringStringEntryProto(key="k", value="v")] * 2),
        ("metadata_props",),
    ),
    "function twice": (FUNCTION, lambda m: twice(m.functions), ("l::f",)),
    "function calls itself": (
        FUNCTION,
        lambda m: m.functions[0].node.add(op_type="f", domain="l", input=["a"], output=["z"]),
        ("l::f -> l::f",),
    ),
    "function computes no output": (
        FUNCTION,
        lambda m: compute(m, "z"),
        ("function f", "'b'"),
    ),
    "function reads nothing": (FUNCTION, lambda m: m.functions[0].node[1].input.__setitem__(0, "q"), ("'q'",)),
    "function of another opset": (
        FUNCTION,
        lambda m: setattr(m.functions[0].opset_import[0], "version", 12),
        ("12", "13"),
    ),
    "too few bytes": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(7)),
        ("'w'", "7 bytes", "need 8"),
    ),
    "too many bytes": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(9)),
        ("'w'", "9 bytes", "need 8"),
    ),
    "too few bytes of many": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2000], raw_data=bytes(7999)),
        ("'w'", "7999 bytes", "need 8000"),
    ),
    "too few numbers": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1]),
        ("w", "float_data"),
    ),
    "too few numbers of many": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2000], float_data=[1] * 1999),
        ("w", "float_data"),
    ),
    "1e15 elements": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[10**8, 10**7], raw_data=b"1234"),
        ("'w'", "4 bytes"),
    ),
    "more elements than 64 bits count": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2**62] * 3, raw_data=b""),
        ("'w'", "beyond memory"),
    ),
    "input without a type": (HARDMAX, lambda m: m.graph.input[0].ClearField("type"), ("'type'",)),
    "input without an element type": (
        HARDMAX,
        lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"),
        ("'x'", "element type 0"),
    ),
    "negative dimension": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[-2], raw_data=bytes(8)),
        ("'w'", "negative"),
    ),
    "unknown element type": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", data_type=99, dims=[2], raw_data=bytes(8)),
        ("'w'", "99"),
    ),
    "no element type": (
        ADD,
        lambda m: m.graph.initializer.add(name="w", dims=[2], raw_data=bytes(8)),
        ("'w'", "element type 0"),
    ),
    "escapes in a name": (
        HARDMAX,
        lambda m: call(m, "\x1b[2J", "\x1b]0;"),
        (r"\x1b[2J", r"\x1b]0;"),
    ),
    "a very long name": (
        HARDMAX,
        lambda m: call(m, "n" * 10**6, "Q" * 10**6),
        ("nnn...",),
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_models_against_the_specification(tmp_path: Path, case: str) -> None:
    text, edit, words = FAULTS[case]
    model = edited(text, edit)
    before = model.SerializeToString()
    for given_as in (model, written(tmp_path, model, "bad.onnx")):
        message = refused(given_as)
        assert all(word in message for word in words), message
    assert "bad.onnx" in message
    assert model.SerializeToString() == before


@pytest.mark.parametrize("depth", [31, 32, 33, 40, 1000, 100_000])
def test_graphs_nested_too_deep(tmp_path: Path, depth: int) -> None:
    model = deep(depth)
    too_deep = depth > limits.NESTING
    assert ("are nested" in refused(model)) == too_deep
    if depth < 1000:  # protobuf itself crashes at 100,000
        # protobuf 6 does not say why it reads no further.
        said = refused(written(tmp_path, model))
        silent = version("protobuf").startswith("6.") and "not an ONNX model" in said
        assert ("are nested" in said or silent) == too_deep


def test_text_that_is_not_utf8_is_found_anywhere(tmp_path: Path) -> None:
    model = parse(FUNCTION)
    model.doc_string = "doc_1"
    model.metadata_props.add(key="key_1", value="val_1")
    model.graph.node[0].name = "node1"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "dim_1"
    model.graph.initializer.add(name="init1", data_type=1, dims=[2000], raw_data=bytes(8000))
    model.functions[0].doc_string = "fdoc1"
    data = model.SerializeToString()
    for word in (b"doc_1", b"key_1", b"val_1", b"node1", b"dim_1", b"init1", b"fdoc1"):
        assert data.count(word) >= 1
        assert "UTF-8" in refused(written(tmp_path, data.replace(word, b"\xff" + word[1:])))
    reader.load(written(tmp_path, data))


@pytest.mark.slow
def test_every_truncation_and_every_flipped_byte_is_refused_or_read(tmp_path: Path) -> None:
    data = written(tmp_path, parse(FUNCTION)).read_bytes()
    spoilt = [data[:length] for length in range(len(data))]
    spoilt += [
        data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for at in range(len(data)) for mask in (1, 128, 255)
    ]
    read = 0
    words: list[str] = []
    for candidate in spoilt:
        try:
            reader.load(written(tmp_path, candidate))
            read += 1
        except InvalidModelError as error:
            words.append(str(error))
    assert 0 < read < len(spoilt) / 2
    assert all(text.isprintable() for text in words)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), suffix=st.sampled_from([".onnx", ".onnxtxt"]))
def test_random_bytes(tmp_path: Path, data: bytes, suffix: str) -> None:
    refused(written(tmp_path, data, f"random{suffix}"))


# --- the operators ---


def with_operator(call: str, opset: int, inputs: str) -> onnx.ModelProto:
    """A model of one operator, which sees its input through another one, so that types must be inferred."""
    first, *others = inputs.split("; ")
    declared = ", ".join([f"{first} p", *others])
    result = "int64" if "ArgMax" in call else "bfloat16" if "bfloat16" in inputs else "float"
    return parse(
        f'<ir_version: 8, opset_import: ["":{opset}]> g ({declared}) => ({result}[] y)'
        f"{{ x = Identity(p) [it] y = {call} }}"
    )


ONEHOT = "; int64 d; float[2] v"
OPERATORS = [
    # call, opset, inputs, words (none: it is valid)
    ("Hardmax(x)", 7, "float[2,3]", ""),
    ("Hardmax(x)", 7, "float[3]", "Hardmax-1 at 'main/it': axis 1 is out of range"),
    ("Hardmax(x)", 11, "float[3]", "which allows -1 to 0"),
    ("Hardmax(x)", 13, "float[3]", ""),
    ("Hardmax(x)", 11, "float[n]", "rank 1"),
    ("Hardmax<axis = 0>(x)", 11, "float[3]", ""),
    ("Hardmax(x)", 13, "float", "scalar"),
    ("Hardmax(x)", 7, "float", "scalar"),
    *((f"Hardmax<axis = {a}>(x)", o, "float[2,3]", "allows -2 to 1") for a in (-3, 2, 9) for o in (7, 11, 13)),
    *((f"Hardmax<axis = {a}>(x)", o, "float[2,3]", "") for a in (-2, -1, 0, 1) for o in (7, 11, 13)),
    ("Hardmax(x)", 13, "int32[2,3]", "its input 'input' is a tensor(int32)"),
    ("Hardmax(x)", 13, "bfloat16[2,3]", ""),
    ("Hardmax(x)", 11, "bfloat16[2,3]", "bfloat16"),
    ("ArgMax(x)", 7, "float[2,3]", ""),
    *((f"ArgMax<axis = {a}>(x)", o, "float[2,3]", "allows -2 to 1") for a in (-3, 2) for o in (7, 11, 12, 13)),
    *((f"ArgMax<axis = {a}>(x)", o, "float[2,3]", "") for a in (-2, 1) for o in (7, 11, 12, 13)),
    ("ArgMax(x)", 13, "float", "scalar"),
    ("ArgMax(x)", 13, "bool[2]", "tensor(bool)"),
    *(
        (f"OneHot<axis = {a}>(x, d, v)", o, "int64[2,3]" + ONEHOT, "allows -3 to 2")
        for a in (-4, 3)
        for o in (9, 11, 28)
    ),
    *((f"OneHot<axis = {a}>(x, d, v)", o, "int64[2,3]" + ONEHOT, "") for a in (-3, -1, 2) for o in (9, 11, 28)),
    ("OneHot(x, d, v)", 11, "int64" + ONEHOT, "scalar"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64[1] d; float[2] v", ""),
    ("OneHot(x, d, v)", 11, "int64[2]; int64[m] d; float[n] v", ""),
    ("OneHot(x, d, v)", 11, "int64[2]; int64[2] d; float[2] v", "depth has the shape [2]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64[0] d; float[2] v", "depth has the shape [0]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64[1,1] d; float[2] v", "depth has the shape [1, 1]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; float v", "values have the shape []"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; float[1] v", "values have the shape [1]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; float[3] v", "values have the shape [3]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; float[1,2] v", "values have the shape [1, 2]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; float[n,2] v", "values have the shape [?, 2]"),
    ("OneHot(x, d, v)", 11, "int64[2]; int64 d; bfloat16[2] v", "bfloat16"),
    ("OneHot(x, d, v)", 28, "int64[2]; int64 d; bfloat16[2] v", ""),
]


@pytest.mark.parametrize(("call", "opset", "inputs", "words"), OPERATORS, ids=str)
def test_operators_out_of_range(call: str, opset: int, inputs: str, words: str) -> None:
    model = with_operator(call, opset, inputs)
    if words:
        assert words in refused(model)
        with pytest.raises(InvalidModelError):
            operator_type_checks.check_operators(model)
    else:
        reader.load(model)
        operator_type_checks.check_operators(model)


@pytest.mark.parametrize(("call", "opset", "inputs", "words"), OPERATORS, ids=str)
def test_onnx_and_onnxruntime_agree_on_what_is_out_of_range(call: str, opset: int, inputs: str, words: str) -> None:
    """One that is accepted passes strict inference; one that is refused fails in it, or onnxruntime does not run it."""
    model = with_operator(call, opset, inputs)
    if not words:
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
        return
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return
    with pytest.raises(Exception, match=r"axis|TypeInferenceError|Type Error|[Ii]nvalid"):  # noqa: PT012
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        session.run(None, {value.name: zeros(value) for value in session.get_inputs()})


def zeros(value: Any) -> npt.NDArray[Any]:
    """Return zeros for an input of a session; dimensions with a name have length 3."""
    dtype = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}[value.type]
    return np.zeros([dim if isinstance(dim, int) else 3 for dim in value.shape], dtype)


def test_an_axis_beyond_32_bits() -> None:
    """It is refused by the text; onnx and onnxruntime cut this one to 0."""
    assert "out of range" in refused(with_operator(f"Hardmax<axis = {2**62}>(x)", 13, "float[2,3]"))


@pytest.mark.parametrize("size", [7, 9])
def test_onnxruntime_refuses_a_wrong_number_of_bytes_as_well(size: int) -> None:
    model = edited(ADD, lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(size)))
    refused(model)
    with pytest.raises(Exception, match="size"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_an_unknown_rank_is_no_fault() -> None:
    model = with_operator("Hardmax<axis = 7>(x)", 13, "float[2]")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    reader.load(model)


def test_a_type_that_comes_from_a_large_weight() -> None:
    model = parse(HARDMAX.replace("Hardmax(x)", "Hardmax<axis = 2>(w)"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((2, 3000), np.float32), "w"))
    assert "rank 2" in refused(model)
    model.graph.node[0].attribute[0].i = 1
    reader.load(model)


INNER = {
    "If": "y = If(c) <then_branch = t () => (float a) { HOT }, else_branch = e () => (float b) { b = Neg(x) }>",
    "If in If": "y = If(c) <then_branch = t () => (float o) { [in] o = If(c) <"
    "then_branch = u () => (float a) { HOT }, else_branch = v () => (float k) { k = Neg(x) }> },"
    "else_branch = e () => (float b) { b = Neg(x) }>",
    "Loop": "y = Loop(n, c, r) <body = t (int64 i, bool d, float[2,3] s) => (bool f, float[2,3] a)"
    "{ f = Identity(d) r1 = Relu(s) HOT }>",
}


@pytest.mark.parametrize("kind", INNER)
def test_operators_in_inner_graphs_that_read_outer_values(kind: str) -> None:
    body = INNER[kind].replace("HOT", "[hot] a = Hardmax<axis = 5>(r)")
    text = (
        f'<ir_version: 8, opset_import: ["":13]> g (bool c, int64 n, float[2,3] x) => (float y){{ r = Relu(x) {body} }}'
    )
    message = refused(parse(text))
    assert "Hardmax-13 at 'main/" in message
    assert "/hot'" in message
    assert "rank 2" in message
    reader.load(parse(text.replace("axis = 5", "axis = 1")))
    if kind == "Loop":
        assert "rank 2" in refused(parse(text.replace("(r) }", "(r1) }")))


# --- external data ---


def lay_out(folder: Path) -> Path:
    """The folder of a model with its weights, beside a secret that it must not reach."""
    inner = folder / "model"
    inner.mkdir()
    (inner / "w.bin").write_bytes(WEIGHTS.tobytes())
    (inner / "sub").mkdir()
    (inner / "sub" / "w.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "secret.bin").write_bytes(WEIGHTS.tobytes())
    return inner


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w.bin"},
        {"location": "./w.bin"},
        {"location": "sub/w.bin"},
        {"location": "sub//w.bin"},
        {"location": "w.bin", "offset": 0, "length": 8},
        {"location": "w.bin", "offset": "0000", "checksum": "0"},
    ],
    ids=str,
)
def test_external_data_that_are_there(tmp_path: Path, entries: dict[str, object]) -> None:
    path = written(lay_out(tmp_path), with_weights(**entries))
    source = reader.load(path)
    assert source.model.graph.initializer[0].raw_data == b""
    assert onnx.numpy_helper.to_array(source.model.graph.initializer[0], str(path.parent)).tolist() == [1, 2]


UNSAFE = {
    "no location": ({}, "names no file"),
    "empty location": ({"location": ""}, "names no file"),
    "absolute": ({"location": "/etc/passwd"}, "absolute"),
    "drive": ({"location": "C:w.bin"}, "absolute"),
    "drive and root": ({"location": "C:/w.bin"}, "absolute"),
    "share": ({"location": "//server/share/w.bin"}, "absolute"),
    "windows share": ({"location": r"\\server\share\w.bin"}, "absolute"),
    "windows root": ({"location": r"\w.bin"}, "absolute"),
    "windows separators": ({"location": r"sub\w.bin"}, "backslash"),
    "windows parent": ({"location": r"..\secret.bin"}, "backslash"),
    "parent": ({"location": "../secret.bin"}, "'..'"),
    "parent inside": ({"location": "sub/../w.bin"}, "'..'"),
    "parent at the end": ({"location": "sub/.."}, "'..'"),
    "zero byte": ({"location": "w.bin\0.txt"}, "zero byte"),
    "memory": ({"location": "*/_ORT_MEM_ADDR_/*"}, "address in memory"),
    "missing": ({"location": "none.bin"}, "missing"),
    "folder": ({"location": "sub"}, "not a regular file"),
    "the model's folder": ({"location": "."}, "not a regular file"),
    "below a file": ({"location": "w.bin/x"}, "cannot be reached"),
    "too long": ({"location": "n" * 300}, "cannot be reached"),
    "escape": ({"location": "\x1b[2J"}, r"\x1b[2J"),
    "offset past the end": ({"location": "w.bin", "offset": 1}, "too short"),
    "huge offset": ({"location": "w.bin", "offset": 2**62}, "too short"),
    "offset of 100 digits": ({"location": "w.bin", "offset": "9" * 100}, "offset"),
    "negative offset": ({"location": "w.bin", "offset": -1}, "offset '-1'"),
    "offset in words": ({"location": "w.bin", "offset": "two"}, "offset 'two'"),
    "offset with a blank": ({"location": "w.bin", "offset": " 0"}, "offset ' 0'"),
    "offset with an underscore": ({"location": "w.bin", "offset": "0_0"}, "offset"),
    "offset in Arabic digits": ({"location": "w.bin", "offset": "\u0660"}, "offset"),
    "empty offset": ({"location": "w.bin", "offset": ""}, "offset ''"),
    "negative length": ({"location": "w.bin", "length": -8}, "length '-8'"),
    "length too small": ({"location": "w.bin", "length": 4}, "4 bytes long"),
    "length too large": ({"location": "w.bin", "length": 12}, "12 bytes long"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_external_data_that_are_refused(tmp_path: Path, case: str) -> None:
    entries, words = UNSAFE[case]
    message = refused(written(lay_out(tmp_path), with_weights(**cast("dict[str, Any]", entries))))
    assert words in message
    assert "'w'" in message


def test_a_location_given_twice(tmp_path: Path) -> None:
    model = with_weights(location="w.bin")
    model.graph.initializer[0].external_data.add(key="location", value="../secret.bin")
    assert "the entry 'location' twice" in refused(written(lay_out(tmp_path), model))


def test_strings_and_huge_tensors_outside(tmp_path: Path) -> None:
    model = with_weights(location="w.bin")
    model.graph.initializer[0].dims[0] = 10**15
    assert "too short" in refused(written(lay_out(tmp_path), model))
    model.graph.initializer[0].data_type = TensorProto.STRING
    assert "strings" in refused(model)


@pytest.mark.parametrize(
    ("dtype", "count", "size"),
    [("INT4", 3, 2), ("UINT2", 5, 2), ("FLOAT6E2M3", 4, 3), ("BFLOAT16", 3, 6), ("BOOL", 3, 3), ("COMPLEX128", 1, 16)],
)
def test_bytes_of_other_element_types(tmp_path: Path, dtype: str, count: int, size: int) -> None:
    model = parse(ADD.replace("Add(x, w)", "Relu(x)"))
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.DataType.Value(dtype), dims=[count])
    point(tensor, {"location": "w.bin"})
    (tmp_path / "w.bin").write_bytes(bytes(size))
    reader.load(written(tmp_path, model))
    (tmp_path / "w.bin").write_bytes(bytes(size - 1))
    assert "too short" in refused(written(tmp_path, model))


def test_every_element_type_has_a_size() -> None:
    for name, number in TensorProto.DataType.items():
        if name in ("UNDEFINED", "STRING"):
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(number)
        bits = external_data.size(TensorProto(data_type=number, dims=[24]))
        try:
            info: Any = ml_dtypes.finfo if "FLOAT" in name and dtype.kind == "V" else ml_dtypes.iinfo
            expected = info(dtype).bits
        except ValueError:
            expected = dtype.itemsize * 8
        assert bits == 24 * expected / 8, name


def places(entries: dict[str, object]) -> dict[str, onnx.ModelProto]:
    """Models with one external tensor, in each place that can hold a tensor."""
    found = {"initializer": with_weights(**entries)}
    model = parse(ADD.replace("{", "{ w = Constant<value = float[2] {1, 2}>()"))
    point(model.graph.node[0].attribute[0].t, entries)
    found["Constant"] = model
    model = parse(FUNCTION)
    point(model.functions[0].node[0].attribute[0].t, entries)
    found["function"] = model
    model = parse(FUNCTION)
    default = onnx.helper.make_attribute("t", onnx.numpy_helper.from_array(WEIGHTS, "t"))
    point(default.t, entries)
    model.functions[0].attribute_proto.append(default)
    found["default of a function"] = model
    model = parse(IF)
    point(model.graph.node[0].attribute[0].g.initializer.add(name="w", data_type=1, dims=[2]), entries)
    found["branch"] = model
    model = parse(IF.replace("{ a = ", "{ w = Constant<value = float[2] {1, 2}>() a = "))
    point(model.graph.node[0].attribute[0].g.node[0].attribute[0].t, entries)
    found["Constant in a branch"] = model
    model = parse(ADD.replace("Add(x, w)", "l.Op(x)").replace('"":13', '"":13, "l":1'))
    attribute = onnx.AttributeProto(name="ts", type=onnx.AttributeProto.TENSORS)
    point(attribute.tensors.add(data_type=1, dims=[2]), entries)
    model.graph.node[0].attribute.append(attribute)
    found["list of tensors"] = model
    for part in ("values", "indices"):
        model = parse(ADD.replace("Add(x, w)", "Relu(x)"))
        sparse = model.graph.sparse_initializer.add(dims=[4])
        sparse.values.CopyFrom(onnx.numpy_helper.from_array(WEIGHTS, "s"))
        sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([1, 3]), "i"))
        if part == "indices":
            sparse.values.CopyFrom(onnx.numpy_helper.from_array(WEIGHTS[:1], "s"))
            sparse.indices.dims[0] = 1
        point(getattr(sparse, part), entries)
        found[f"sparse {part}"] = model
    model = parse(ADD.replace("Add(x, w)", "Relu(x)"))
    training = model.training_info.add().algorithm
    point(training.initializer.add(name="w", data_type=1, dims=[2]), entries)
    found["training"] = model
    return found


@pytest.mark.parametrize("place", places({}))
def test_external_data_in_any_place(tmp_path: Path, place: str) -> None:
    inner = lay_out(tmp_path)
    model = places({"location": "w.bin"})[place]
    before = model.SerializeToString()
    reader.load(written(inner, model))
    reader.load(model)
    assert model.SerializeToString() == before
    assert [item.location for item in external_data.references(traversal.graph_views(model))] == ["w.bin"]
    for location, words in (("../secret.bin", "'..'"), ("none.bin", "missing")):
        assert words in refused(written(inner, places({"location": location})[place]))


def test_links(tmp_path: Path) -> None:
    inner = lay_out(tmp_path)
    (inner / "in.bin").symlink_to("w.bin")
    (inner / "out.bin").symlink_to("../secret.bin")
    (inner / "loose.bin").symlink_to("nowhere")
    (inner / "circle.bin").symlink_to("circle.bin")
    (inner / "up").symlink_to("..")
    (tmp_path / "other.bin").write_bytes(WEIGHTS.tobytes())
    os.link(tmp_path / "other.bin", inner / "hard.bin")
    reader.load(written(inner, with_weights(location="in.bin")))
    for name, words in (
        ("hard.bin", "has 2 hard links"),
        ("out.bin", "leads out of the model's folder"),
        ("up/secret.bin", "leads out of the model's folder"),
        ("loose.bin", "missing"),
        ("circle.bin", "cannot be reached"),
    ):
        assert words in refused(written(inner, with_weights(location=name)))


def test_a_folder_that_is_a_link(tmp_path: Path) -> None:
    written(lay_out(tmp_path), with_weights(location="w.bin"))
    (tmp_path / "other").symlink_to("model")
    assert reader.load(tmp_path / "other" / "m.onnx").directory == tmp_path / "other"


def cache(folder: Path, model: onnx.ModelProto) -> Path:
    """A cache of the Hugging Face kind."""
    (folder / "blobs").mkdir()
    (folder / "snapshots" / "1" / "onnx").mkdir(parents=True)
    (folder / "blobs" / "aaa").write_bytes(model.SerializeToString())
    (folder / "blobs" / "bbb").write_bytes(WEIGHTS.tobytes())
    path = folder / "snapshots" / "1" / "onnx" / "m.onnx"
    path.symlink_to("../../../blobs/aaa")
    (path.parent / "w.bin").symlink_to("../../../blobs/bbb")
    return path


def test_a_cache_of_links(tmp_path: Path) -> None:
    path = cache(tmp_path, with_weights(location="w.bin"))
    reader.load(path)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (path.parent / "w.bin").unlink()
    (tmp_path / "secret.bin").write_bytes(WEIGHTS.tobytes())
    (path.parent / "w.bin").symlink_to(tmp_path / "secret.bin")
    assert "leads out" in refused(path)


def test_a_link_out_is_refused_where_the_model_is_no_link(tmp_path: Path) -> None:
    path = cache(tmp_path, with_weights(location="w.bin"))
    path.unlink()
    assert "leads out" in refused(written(path.parent, with_weights(location="w.bin")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_devices_and_fifos_are_never_opened(tmp_path: Path) -> None:
    inner = lay_out(tmp_path)
    os.mkfifo(inner / "fifo.bin")
    assert "not a regular file" in refused(written(inner, with_weights(location="fifo.bin")))
    (inner / "zero.bin").symlink_to("/dev/zero")
    assert "leads out" in refused(written(inner, with_weights(location="zero.bin")))
    try:
        os.mknod(inner / "device.bin", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except (OSError, AttributeError):
        pytest.skip("devices may not be made here")
    assert "not a regular file" in refused(written(inner, with_weights(location="device.bin")))


def test_the_current_folder_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(lay_out(tmp_path), with_weights(location="w.bin"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # onnx's checker would look for w.bin here
    reader.load(path)
    reader.load(with_weights(location="w.bin"))


def test_a_model_in_memory_is_judged_by_the_text_of_its_locations() -> None:
    assert "absolute" in refused(with_weights(location="/w.bin"))


def test_weights_of_terabytes_stay_where_they_are(tmp_path: Path) -> None:
    count = 2**38
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * count)  # a hole, no bytes
    model = parse(HARDMAX.replace("Hardmax(x)", "Hardmax(w)"))
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[count // 2, 2])
    point(tensor, {"location": "w.bin", "length": 4 * count})
    reader.load(written(tmp_path, model))


def test_loading_imports_neither_onnxscript_nor_onnxruntime(tmp_path: Path) -> None:
    path = written(tmp_path, parse(HARDMAX))
    code = (
        "import sys; from opshift.passes.io import reader as load; "
        f"load.load({str(path)!r}); print([m for m in ('onnxscript', 'onnxruntime', 'onnx_ir') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
