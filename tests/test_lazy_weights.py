"""Large embedded weights stay in the model's file, and what is read and written is the same as if they did not."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from fuzz import in_pieces
from onnx import TensorProto
from onnx.parser import parse_model

import opshift
from opshift.passes.base.errors import InvalidModelError, VerificationError
from opshift.passes.graph.columnar import SMALL
from opshift.passes.io import external_data, lazy_weights, reader
from opshift.passes.io.external_data import LARGE
from opshift.passes.proof import node_pairs
from opshift.passes.rewrite.opset_imports import set_opset_imports

TEXT = """<ir_version: 8, opset_import: ["": 12, "l": 1], producer_name: "somebody">
    g (int64[2, 3] i, float[2, 3, 4] x) => (float[2, 3, 4] y, float[2, 3, 1024] z) <float[4] small = {1, 2, 3, 4}> {
        a = l.f(x) b = Add(a, small) y = Hardmax <axis = 1> (b)
        r = Gather(w0, i) s = Gather(w1, i) t = Add(r, s) z = Relu(t)
    }
    <domain: "l", opset_import: ["": 12]> f (a) => (b) { b = Relu(a) }"""
ROWS = 100
"""Of 4 KiB each, so that a weight is large."""


def model(text: str = TEXT) -> onnx.ModelProto:
    """A model with two large weights, around them what else a tensor, a graph and a model have."""
    made = parse_model(text)
    for place in (0, 1):
        weights = np.arange(place, place + ROWS * 1024, dtype=np.float32).reshape(ROWS, 1024)
        tensor = onnx.numpy_helper.from_array(weights, f"w{place}")
        tensor.doc_string = "behind the elements"
        made.graph.initializer.insert(place, tensor)  # in front of the small one
    made.graph.doc_string = "behind the initializers"
    made.metadata_props.add(key="behind", value="the graph")
    return made


def written(folder: Path, made: onnx.ModelProto | None = None, name: str = "in.onnx") -> Path:
    (folder / name).write_bytes((made or model()).SerializeToString())
    return folder / name


@pytest.fixture
def large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as a large one."""
    monkeypatch.setattr(reader, "SMALL", 0)


def spans(read: onnx.ModelProto) -> list[bool]:
    return [external_data.is_span(tensor) for tensor in read.graph.initializer]


# --- reading ---


def test_large_weights_stay_in_the_file(tmp_path: Path, large_files: None) -> None:
    read = reader.load(written(tmp_path)).model
    assert spans(read) == [True, True, False]
    assert read.ByteSize() < 3000
    assert external_data.filled(read) == model()
    assert spans(read) == [True, True, False]
    external_data.fill(read)
    assert read.SerializeToString() == model().SerializeToString()


def test_those_of_a_small_file_are_read(tmp_path: Path) -> None:
    assert reader.load(written(tmp_path)).model == model()


def test_a_little_less_than_large_is_read(tmp_path: Path, large_files: None) -> None:
    made = model()
    for name, size in (("less", LARGE - 1), ("enough", LARGE)):
        made.graph.initializer.add(name=name, data_type=TensorProto.UINT8, dims=[size], raw_data=bytes(size))
    assert spans(reader.load(written(tmp_path, made)).model) == [True, True, False, False, True]


def field(number: int, data: bytes) -> bytes:
    return head(number, len(data)) + data


def head(number: int, length: int) -> bytes:
    return lazy_weights.varint(number << 3 | 2) + lazy_weights.varint(length)


RAW = bytes(range(64))
TENSOR: bytes = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[64]).SerializeToString()
WHOLE: bytes = TENSOR + field(9, RAW)
HEAD: bytes = onnx.ModelProto(ir_version=8).SerializeToString()


def in_graph(tensor: bytes) -> bytes:
    return HEAD + field(7, field(2, b"g") + field(5, tensor))


def long_length(data: bytes, number: int) -> bytes:
    """A field whose length takes a byte more than it needs."""
    length = bytes([len(data) & 0x7F | 0x80, len(data) >> 7 | 0x80, 0])
    return lazy_weights.varint(number << 3 | 2) + length + data


ODD: dict[str, tuple[bytes, bool]] = {
    "as it should be": (in_graph(WHOLE), True),
    "elements in front": (in_graph(field(9, RAW) + TENSOR), True),
    "two graphs, which protobuf joins": (in_graph(WHOLE) + in_graph(WHOLE.replace(b"w", b"v")), True),
    "a field that nobody knows": (in_graph(WHOLE) + field(1000, b"?" * 50), True),
    "one of the graph": (HEAD + field(7, field(5, WHOLE) + field(1000, b"?" * 50)), True),
    "one of the tensor": (in_graph(WHOLE + field(1000, b"?")), False),
    "elements twice": (in_graph(WHOLE + field(9, RAW[::-1])), False),
    "few elements behind": (in_graph(WHOLE + field(9, b"")), False),
    "elements of two kinds": (in_graph(WHOLE + field(4, bytes(8))), False),
    "a reference beside them": (in_graph(WHOLE + field(13, b"")), False),
    "a location beside them": (in_graph(WHOLE + bytes([14 << 3, 1])), False),
    "a segment": (in_graph(WHOLE + field(3, b"")), False),
    "too many elements": (in_graph(TENSOR + field(9, RAW + RAW)), False),
    "no such element type": (in_graph(WHOLE + bytes([2 << 3, 99])), False),
    "strings": (in_graph(WHOLE + bytes([2 << 3, TensorProto.STRING])), False),
    "a long length of the elements": (in_graph(TENSOR + long_length(RAW, 9)), False),
    "a long length of the tensor": (HEAD + field(7, long_length(WHOLE, 5)), False),
    "a long length of the graph": (HEAD + long_length(field(5, WHOLE), 7), False),
    "a group": (in_graph(WHOLE) + bytes([1000 & 0xF | 0x83, 0x3E, 1000 & 0xF | 0x84, 0x3E]), False),
    "a group in the graph": (HEAD + field(7, bytes([0x9B, 1, 0x9C, 1]) + field(5, WHOLE)), False),
    "many dimensions": (in_graph(bytes([1 << 3, 1]) * 100 + WHOLE), False),
    "a graph that is a number": (HEAD + bytes([7 << 3, 1]) + in_graph(WHOLE), True),
    "fixed numbers": (in_graph(WHOLE) + bytes([0x85, 0x3E, *range(4), 0x81, 0x3E, *range(8)]), True),
    "a sparse one": (HEAD + field(7, field(15, field(1, WHOLE))), False),
    "one of a training graph": (HEAD + field(20, field(1, field(5, WHOLE))), False),
    "one of an inner graph": (HEAD + field(7, field(1, field(5, field(6, field(5, WHOLE))))), False),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_is_left_to_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Nothing is added, and nothing is lost; weights stay in the file where that is plain to see."""
    data, stays = ODD[case]
    (tmp_path / "m.onnx").write_bytes(data)
    in_pieces(tmp_path / "m.onnx")
    monkeypatch.setattr(lazy_weights, "LARGE", 16)
    with (tmp_path / "m.onnx").open("rb") as file:
        read = onnx.ModelProto.FromString(lazy_weights.read(file, tmp_path / "m.onnx", os.fstat(file.fileno())))
    assert (any(spans(read)) and lazy_weights.is_sound(read)) == stays


@pytest.mark.parametrize("masks", [(1, 4, 128, 255)])
def test_every_truncation_and_every_flipped_byte(tmp_path: Path, masks: tuple[int, ...]) -> None:
    data = in_graph(WHOLE) + field(1000, b"?" * 20)
    spoilt = [data[:length] for length in range(len(data))]
    spoilt += [data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for at in range(len(data)) for mask in masks]
    for candidate in spoilt:
        (tmp_path / "m.onnx").write_bytes(candidate)
        in_pieces(tmp_path / "m.onnx")


def test_random_models(tmp_path: Path) -> None:
    draw = random.Random(7)
    for _ in range(500):
        (tmp_path / "m.onnx").write_bytes(fuzz.mutated(draw.choice(fuzz.seeds()), draw))
        in_pieces(tmp_path / "m.onnx")


def test_what_lies_across_two_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields begin and end wherever a chunk does."""
    data = in_graph(WHOLE) + field(1000, b"?" * 200) + in_graph(WHOLE.replace(b"w", b"v"))
    (tmp_path / "m.onnx").write_bytes(data)
    for size in range(21, 150):
        monkeypatch.setattr(lazy_weights, "_CHUNK", size)
        assert in_pieces(tmp_path / "m.onnx") == 2


def test_more_fields_than_are_walked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_weights, "_MANY", 3)
    (tmp_path / "m.onnx").write_bytes(in_graph(WHOLE))
    assert in_pieces(tmp_path / "m.onnx") == 1
    (tmp_path / "m.onnx").write_bytes(in_graph(WHOLE) + field(1000, b""))
    assert in_pieces(tmp_path / "m.onnx") == 0


def test_what_does_not_fit_is_refused_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    made.graph.initializer[1].raw_data += b"!"
    path = written(tmp_path, made)
    messages = []
    for size in (SMALL, 0):
        monkeypatch.setattr(reader, "SMALL", size)
        with pytest.raises(InvalidModelError) as caught:
            reader.load(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert f"has {ROWS * 4096 + 1} bytes of data" in messages[0]


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, large_files: None) -> None:
    path = written(tmp_path)
    os.truncate(path, path.stat().st_size - 5000)
    with pytest.raises(InvalidModelError, match="not an ONNX model, or it was damaged or cut off"):
        reader.load(path)


def test_no_file_can_say_what_a_span_says(tmp_path: Path) -> None:
    """Another process, and so another run, has other words for it."""
    code = "from opshift.passes.io import external_data as external; print(external._SPAN)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other != external_data._SPAN
    assert len(other) == len(external_data._SPAN)
    made = model()
    external_data.refer(made.graph.initializer[0], external_data.Span(Path("/etc/passwd"), (), 0, ROWS * 4096))
    made.graph.initializer[0].external_data[0].key = other
    with pytest.raises(InvalidModelError, match="names no file"):
        reader.load(written(tmp_path, made))


# --- converting and writing ---


def with_function(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].metadata_props.add(key="of", value="a tensor")


def unknown(made: onnx.ModelProto) -> None:
    made.graph.MergeFromString(bytes([0xFA, 0x3E, 1, 7]))


def given_as_input(made: onnx.ModelProto) -> None:
    made.graph.input.append(onnx.helper.make_tensor_value_info("w1", 1, [ROWS, 1024]))


def branching(made: onnx.ModelProto) -> None:
    """A weight that is read in a branch."""
    branch = parse_model('<ir_version: 8, opset_import: ["": 12]> g () => (float v) { v = Gather(w0, i) }').graph
    node = made.graph.node.add(op_type="If", input=["c"], output=["u"])
    for name in ("then_branch", "else_branch"):
        node.attribute.append(onnx.helper.make_attribute(name, branch))
    for value in (*branch.output, *(one.g.output[0] for one in node.attribute)):
        value.type.tensor_type.ClearField("shape")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "c"))
    made.graph.output.append(onnx.helper.make_tensor_value_info("u", 1, [2, 3, 1024]))


EDITS: dict[str, Callable[[onnx.ModelProto], None]] = {
    "plain": lambda made: None,
    "metadata of a tensor": with_function,
    "a field that nobody knows": unknown,
    "a weight that is an input": given_as_input,
    "a weight that a branch reads": branching,
}
REQUESTS: dict[str, dict[str, Any]] = {
    "up": {"opset": 13},
    "nothing to do": {"opset": 12},
    "without functions": {"opset": 12, "ir_version": 7},
    "initializers that are inputs": {"opset": 8, "ir_version": 3},
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_the_same_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, request_: str) -> None:
    made = model()
    EDITS[edit](made)
    path = written(tmp_path, made)
    for weights in (None, "save"):
        found = []
        for size in (SMALL, 0):
            with monkeypatch.context() as patched:
                patched.setattr(reader, "SMALL", size)
                result = opshift.convert(path, **REQUESTS[request_], verify=False)
                assert any(spans(result.rewritten)) == (size == 0)
                (tmp_path / str(size)).mkdir(exist_ok=True)
                result.save(tmp_path / str(size) / "out.onnx", external_data=weights)
                if weights is None:
                    assert any(spans(result.rewritten)) == (size == 0)  # left untouched
                    assert (tmp_path / str(size) / "out.onnx").read_bytes() in (
                        path.read_bytes(),
                        result.rewritten.SerializeToString(),
                        external_data.filled(result.rewritten).SerializeToString(),
                    )
            found.append({file.name: file.read_bytes() for file in (tmp_path / str(size)).iterdir()})
        assert found[0] == found[1]
        assert set(found[0]) == ({"out.onnx"} if weights is None else {"out.onnx", "out.onnx.data"})


def test_external_weights_become_spans_to_be_embedded(tmp_path: Path) -> None:
    """In the main graph; those elsewhere, and small ones, are read. What is written is what they all were before."""
    made = model()
    for name, size in (("constant", LARGE), ("tiny", 8)):
        node = made.graph.node.add(op_type="Constant", output=[name])
        node.attribute.append(
            onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.zeros(size, np.uint8)))
        )
    outside = onnx.ModelProto()
    outside.CopyFrom(made)
    onnx.save(outside, tmp_path / "in.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    opshift.convert(tmp_path / "in.onnx", opset=12, verify=False).save(tmp_path / "out.onnx", external_data="embed")
    assert (tmp_path / "out.onnx").read_bytes() == made.SerializeToString()


def test_as_text(tmp_path: Path, large_files: None) -> None:
    made = model()
    made.graph.initializer[0].ClearField("doc_string")
    made.graph.initializer[1].ClearField("doc_string")
    made.graph.ClearField("doc_string")
    opshift.convert(written(tmp_path, made), opset=12, verify=False).save(tmp_path / "out.onnxtxt")
    read = reader.load(tmp_path / "out.onnxtxt").model
    assert onnx.numpy_helper.to_array(read.graph.initializer[1])[5, 7] == 5 * 1024 + 7 + 1


def test_over_its_own_file(tmp_path: Path, large_files: None) -> None:
    path = written(tmp_path)
    expected = opshift.convert(model(), opset=13, verify=False)
    result = opshift.convert(path, opset=13, verify=False)
    result.save(path)
    assert path.read_bytes() == expected.rewritten.SerializeToString()
    assert result.model == expected.model  # which is not in that file any more as it was
    result.save(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_through_a_link(tmp_path: Path, large_files: None) -> None:
    """And with another name, which external data must not have."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "links").mkdir()
    path = written(tmp_path / "blobs")
    (tmp_path / "links" / "in.onnx").symlink_to(path)
    os.link(path, tmp_path / "other.onnx")
    result = opshift.convert(tmp_path / "links" / "in.onnx", opset=13)
    assert result.report is not None
    assert result.report.verdict == "equal"
    result.save(tmp_path / "links" / "out.onnx")
    expected = opshift.convert(model(), opset=13, verify=False).rewritten
    assert (tmp_path / "links" / "out.onnx").read_bytes() == expected.SerializeToString()


def test_the_model_of_a_result_has_its_weights(tmp_path: Path, large_files: None) -> None:
    result = opshift.convert(written(tmp_path), opset=13, verify=False)
    expected = opshift.convert(model(), opset=13, verify=False)
    assert spans(result.rewritten)[:3] == [True, True, False]
    assert result.model == expected.model
    assert result.model is result.rewritten
    assert [tensor.HasField("raw_data") for tensor in result.source_model.graph.initializer] == [False, False, False]


def test_a_result_goes_to_another_process(tmp_path: Path, large_files: None) -> None:
    result = opshift.convert(written(tmp_path), opset=13, verify=False)
    data = pickle.dumps(result)
    (tmp_path / "in.onnx").unlink()
    assert pickle.loads(data).model == opshift.convert(model(), opset=13, verify=False).model


def change(path: Path, what: str) -> None:
    if what == "gone":
        path.unlink()
    elif what == "written":
        os.utime(path, ns=(1, 1))
    elif what == "replaced":
        path.with_suffix(".new").write_bytes(path.read_bytes())
        path.with_suffix(".new").replace(path)
    elif hasattr(os, "mkfifo"):
        path.unlink()
        os.mkfifo(path)


def test_progress_counts_weights_that_are_copied(tmp_path: Path, large_files: None) -> None:
    seen: list[tuple[str, int, int]] = []
    result = opshift.convert(heavy(tmp_path / "in.onnx", 16, 4), opset=13, verify=False)
    result.save(tmp_path / "out.onnx", progress=lambda *step: seen.append(step))
    assert {step[0] for step in seen} == {"writing weights (MiB)"}
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert seen[-1][1:] == (16, 16)


@pytest.mark.parametrize("what", ["gone", "written", "replaced", "a pipe"])
def test_a_file_that_is_not_the_one_any_more_that_was_read(tmp_path: Path, large_files: None, what: str) -> None:
    path = written(tmp_path)
    result = opshift.convert(path, opset=13, verify=False)
    change(path, what)
    before = sorted(tmp_path.iterdir())
    uses: tuple[Callable[[], object], ...] = (
        lambda: result.save(tmp_path / "out.onnx"),
        lambda: result.save(tmp_path / "out.onnx", external_data="save"),
        lambda: result.model,
        lambda: pickle.dumps(result),
    )
    for use in uses:
        with pytest.raises(InvalidModelError, match=r"changed in the meantime|cannot be read"):
            use()
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_changes_before_it_is_run(
    tmp_path: Path, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = node_pairs.compare_pairs

    def compare_pairs(*arguments: Any, **options: Any) -> Any:
        os.utime(tmp_path / "in.onnx", ns=(1, 1))
        return real(*arguments, **options)

    monkeypatch.setattr("opshift.passes.proof.verify.compare_pairs", compare_pairs)
    with pytest.raises(InvalidModelError, match="changed in the meantime"):
        opshift.convert(written(tmp_path), opset=13)


# --- proving ---


@pytest.mark.parametrize("sums", [False, True])
def test_what_is_proven_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: bool) -> None:
    """Also where rounding must be known, for which the model is run in a wider type."""
    made = model()
    if sums:
        made.graph.node[-1].CopyFrom(
            onnx.helper.make_node("LayerNormalization", ["t", "ones"], ["z"], axis=-1, name="sums")
        )
        made.opset_import[0].version = made.functions[0].opset_import[0].version = 17
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1024, np.float32), "ones"))
    path = written(tmp_path, made)
    reports = []
    for size in (SMALL, 0):
        monkeypatch.setattr(reader, "SMALL", size)
        reports.append(opshift.convert(path, opset=16 if sums else 13).report)
    assert reports[0] == reports[1]
    assert reports[0] is not None
    assert reports[0].verdict == "equal"


@pytest.mark.parametrize("name", ["same.onnx", "other.onnx"])
def test_two_files(tmp_path: Path, large_files: None, name: str) -> None:
    before = written(tmp_path)
    made = model()
    if name == "other.onnx":
        made.graph.initializer[1].raw_data = bytes(4) + made.graph.initializer[1].raw_data[4:]
    report = opshift.verify(before, written(tmp_path, made, name), save_repro=tmp_path / "repro")
    assert report.verdict == ("equal" if name == "same.onnx" else "different")
    assert ("byte for byte" in report.whole.reason) == (name == "same.onnx")
    if name == "other.onnx":
        shown = [onnx.load(tmp_path / "repro" / one) for one in ("original.onnx", "rewritten.onnx")]
        assert not any(map(external_data.is_span, (tensor for one in shown for tensor in one.graph.initializer)))
        assert (
            opshift.verify(tmp_path / "repro/original.onnx", tmp_path / "repro/rewritten.onnx").verdict == "different"
        )


def test_what_is_not_equal_can_be_looked_into(
    tmp_path: Path, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(made: onnx.ModelProto, *rest: Any) -> Any:
        made.graph.node[-1].op_type = "Neg"  # in place of Relu
        return set_opset_imports(made, *rest)

    monkeypatch.setattr("opshift.passes.conversion.rewriting.set_opset_imports", spoilt)
    with pytest.raises(VerificationError) as caught:
        opshift.convert(written(tmp_path), opset=13)
    assert caught.value.result is not None
    found = caught.value.result.model
    assert isinstance(found, onnx.ModelProto)
    assert found.graph.initializer[1].raw_data == model().graph.initializer[1].raw_data


# --- memory ---

MIB = 2**20
LEAST = 160
"""MiB that a process may take: without weights it takes some 100."""
on_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")


def heavy(path: Path, mib: int, weights: int) -> Path:
    """Write a model with so many MiB of weights; all but the first bytes of each MiB are holes of the file."""
    names = [f"w{place}" for place in range(weights)]
    reads = " ".join(f"g{place} = Gather({name}, i)" for place, name in enumerate(names))
    text = (
        f"g (int64[2, 3] i) => (float[2, 3, 1024] y) {{ {reads} s = Sum({', '.join(f'g{n}' for n in range(weights))})"
    )
    made = parse_model(f'<ir_version: 8, opset_import: ["": 12]> {text} y = Hardmax <axis = 1> (s) }}')
    graph, size = made.graph.SerializeToString(), mib // weights * MIB
    stubs = [TensorProto(name=name, data_type=1, dims=[size // 4096, 1024]).SerializeToString() for name in names]
    starts = [stub + head(9, size) for stub in stubs]
    tensors = [head(5, len(start) + size) + start for start in starts]
    made.ClearField("graph")
    with path.open("wb") as file:
        file.write(made.SerializeToString() + head(7, len(graph) + sum(len(one) + size for one in tensors)) + graph)
        for place, one in enumerate(tensors):
            file.write(one)
            begin = file.tell()
            for at in range(0, size, MIB):
                file.seek(begin + at)
                file.write(np.full(100, place * 1000 + at // MIB + 1, np.float32).tobytes())
            file.seek(begin + size)
        file.truncate()
    return path


MEASURED = """
import sys
from pathlib import Path
from opshift.cli.main import main
status = main(sys.argv[1:])
(peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak) // 1024)
sys.exit(status)
"""
DIGESTS = """
import hashlib, sys
import onnx, onnx.numpy_helper
for tensor in onnx.load(sys.argv[1]).graph.initializer:
    if tensor.name.startswith("w"):
        print(hashlib.sha256(onnx.numpy_helper.to_array(tensor)).hexdigest())
"""


def printed(code: str, *arguments: str | Path) -> list[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def took(*arguments: str | Path) -> int:
    """Run opshift, and return the MiB that its process took at most."""
    return int(printed(MEASURED, *arguments)[-1])


def digests(path: Path) -> list[str]:
    """Return digests of the weights of a model, as onnx reads them."""
    return printed(DIGESTS, path)


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize("weights", [1, 10])
def test_embedded_weights_are_not_held(tmp_path: Path, weights: int) -> None:
    """However they are read and written: 300 MiB."""
    path = heavy(tmp_path / "in.onnx", 300, weights)
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
    expected = digests(path)
    assert len(set(expected)) == weights
    asked = ("--opset", "13", "--no-verify")
    assert took("convert", path, "-o", tmp_path / "out.onnx", *asked) < LEAST
    assert digests(tmp_path / "out.onnx") == expected
    outside = tmp_path / "a" / "out.onnx"
    assert took("convert", path, "-o", outside, *asked, "--save-as-external-data") < LEAST
    assert outside.stat().st_size < MIB
    assert digests(outside) == expected
    again = tmp_path / "b" / "out.onnx"
    assert took("convert", outside, "-o", again, *asked, "--external-data", "embed") < LEAST
    assert again.stat().st_size > 300 * MIB
    assert digests(again) == expected
    assert again.read_bytes() == (tmp_path / "out.onnx").read_bytes()


@pytest.mark.slow
@on_linux
def test_over_its_own_file_they_are_held_once(tmp_path: Path) -> None:
    path = heavy(tmp_path / "in.onnx", 300, 10)
    expected = digests(path)
    assert took("convert", path, "--in-place", "--opset", "13", "--no-verify") < 300 + 30 + LEAST
    assert digests(path) == expected


@pytest.mark.slow
@on_linux
def test_what_proves_does_not_hold_them(tmp_path: Path) -> None:
    """The process in which onnxruntime runs does, and reads them from the files."""
    path = heavy(tmp_path / "in.onnx", 100, 10)
    assert took("convert", path, "-o", tmp_path / "out.onnx", "--opset", "13", "--require-proof") < LEAST
    assert took("verify", path, tmp_path / "out.onnx") < LEAST
