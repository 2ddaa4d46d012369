"""What a stranger's model or archive refers to: nothing outside its own folder is opened, unless that was permitted.

The vulnerabilities that onnx has had in this are tried by their names.
"""

from __future__ import annotations

import os
import socket
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import opshift
from opshift.cli.main import main
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.base.report import Verdict
from opshift.passes.graph import traversal
from opshift.passes.inspection import inspect
from opshift.passes.io import external_data
from opshift.passes.io.reader import load
from opshift.passes.proof.inputs import user_inputs
from opshift.passes.proof.inputs.generator import specs

WEIGHTS = np.array([1, 2, 3], np.float32)
EVENTS: list[tuple[str, str]] = []
"""What was opened and connected to, while anybody listens."""
LISTENING: list[bool] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if LISTENING and event in ("open", "os.open", "socket.connect", "socket.getaddrinfo"):
        EVENTS.append((event, str(arguments[0])))


sys.addaudithook(_listen)


@pytest.fixture
def events() -> Iterator[list[tuple[str, str]]]:
    """The files and connections that a test opens."""
    EVENTS.clear()
    LISTENING.append(True)
    yield EVENTS
    LISTENING.clear()


def model_of(element: str = "float", **entries: object) -> onnx.ModelProto:
    """A model whose one weight is outside; onnxruntime has no kernel for its Hardmax of doubles."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["":13]> g ({element}[2,3] x) => ({element}[2,3] y) '
        "{ z = Add(x, w) y = Hardmax<axis=0>(z) }"
    )
    number = onnx.TensorProto.DataType.Value(element.upper())
    tensor = model.graph.initializer.add(name="w", data_type=number, dims=[3], data_location=1)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def weights(element: str = "float") -> bytes:
    return WEIGHTS.astype(np.float32 if element == "float" else np.float64).tobytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model, beside secrets that it must not reach."""
    inner = tmp_path / "model"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(weights())
    (inner / "w.bin").write_bytes(weights())
    return inner


# --- by name ---


def linked(folder: Path) -> None:
    (folder / "up").symlink_to("..")
    (folder / "link.bin").symlink_to("../secret.bin")


def hard(folder: Path) -> None:
    (folder / "w.bin").unlink()
    os.link(folder.parent / "secret.bin", folder / "w.bin")


def nothing(folder: Path) -> None:
    pass


KNOWN: dict[str, tuple[Callable[[Path], None], dict[str, Any], str]] = {
    "CVE-2022-25882, a path upwards": (nothing, {"location": "../secret.bin"}, "'..'"),
    "CVE-2022-25882, an absolute path": (nothing, {"location": "/etc/passwd"}, "absolute"),
    "CVE-2024-27318, down and up": (nothing, {"location": "sub/../../secret.bin"}, "'..'"),
    "CVE-2024-27318, a dot before": (nothing, {"location": "./../secret.bin"}, "'..'"),
    "CVE-2024-27318, a backslash": (nothing, {"location": "sub\\..\\..\\secret.bin"}, "backslash"),
    "CVE-2026-27489, a link": (linked, {"location": "link.bin"}, "leads out"),
    "CVE-2026-27489, a folder that is a link": (linked, {"location": "up/secret.bin"}, "leads out"),
    "CVE-2026-34447, a link to a device": (
        lambda folder: (folder / "zero.bin").symlink_to("/dev/zero"),
        {"location": "zero.bin"},
        "leads out",
    ),
    "CVE-2026-34446, a hard link": (hard, {"location": "w.bin"}, "2 hard links"),
    "CVE-2026-34445, an offset beyond any file": (nothing, {"location": "w.bin", "offset": 10**18}, "too short"),
    "CVE-2026-34445, a negative offset": (nothing, {"location": "w.bin", "offset": -1}, "offset"),
    "CVE-2026-34445, a length to set aside": (nothing, {"location": "w.bin", "length": 10**18}, "bytes long"),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("command", ["convert", "plan", "verify", "inspect"])
def test_known_vulnerabilities_of_reading(
    folder: Path, name: str, command: str, events: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, entries, words = KNOWN[name]
    prepare(folder)
    path = folder / "m.onnx"
    path.write_bytes(model_of(**entries).SerializeToString())
    before = contents(folder.parent)
    events.clear()
    more = {
        "convert": ["--opset", "11", "-o", str(folder / "out.onnx")],
        "plan": ["--opset", "11"],
        "verify": [str(path)],
        "inspect": [],
    }[command]
    assert main([command, str(path), *more]) == 2
    outside = {opened for _, opened in events if opened.startswith((str(folder.parent), "/etc/passwd", "/dev/zero"))}
    assert outside == {str(path)}
    assert contents(folder.parent) == before
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert "Traceback" not in said.err


def test_cve_2026_34445_keys_are_not_attributes(folder: Path) -> None:
    """What describes external data is looked up by key: unknown ones have no effect, known ones stand once."""
    model = model_of(location="w.bin", __class__="dict", base_dir="/etc", tensor="x", __init__="1")
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (reference,) = external_data.references(traversal.graph_views(load(folder / "m.onnx").model))
    assert reference == external_data.FileReference("w", "w.bin", 0, 12)
    model.graph.initializer[0].external_data.add(key="length", value="12")
    model.graph.initializer[0].external_data.add(key="length", value="4")
    with pytest.raises(InvalidModelError, match="the entry 'length' twice"):
        load(model)


@pytest.mark.parametrize("location", ["../secret.bin", "sub/../../secret.bin", "{}/secret.bin"])
def test_cve_2025_51480_nothing_is_overwritten_outside(folder: Path, tmp_path: Path, location: str) -> None:
    """A model in memory, whose locations are judged before anything is written."""
    before = contents(tmp_path)
    with pytest.raises(InvalidModelError, match=r"absolute|'\.\.'"):
        opshift.convert(model_of(location=location.format(tmp_path)), opset=11, verify=False)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["../evil.npy", "/evil.npy", "sub/../../evil.npy", "..\\evil.npy"])
def test_cve_2024_5187_archives_are_not_unpacked(tmp_path: Path, name: str) -> None:
    """Names in an .npz are names of inputs; a model in an archive is not looked for."""
    inner = tmp_path / "inner"
    inner.mkdir()
    with zipfile.ZipFile(inner / "x.npz", "w") as archive:
        archive.writestr(name, b"x")
    (tmp_path / "payload").write_bytes(b"x")
    with tarfile.open(inner / "m.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "payload", name)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="no such input"):
        user_inputs.read(inner / "x.npz", specs(model_of(location="w.bin").graph))
    for path in ("x.npz", "m.tar.gz"):
        with pytest.raises(InvalidModelError, match=r"(zip|gzip) archive"):
            load(inner / path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("address", ["https://localhost/m.onnx", "onnx/models:main", "hub:resnet50", "file:///m.onnx"])
def test_cve_2026_28500_nothing_is_fetched(
    address: str, events: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(InvalidModelError, match="no such file"):
        load(address)
    assert not [event for event, _ in events if event.startswith("socket")]
    assert "onnx.hub" not in sys.modules


# --- what is permitted ---


def laid_out(folder: Path, kind: str, element: str) -> tuple[Path, Path]:
    """A model whose weight is reached by a link of some kind; return its path and where the weight really is."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "1" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    data = model_of(element, location="w.bin").SerializeToString()
    (blobs / "b").write_bytes(weights(element))
    if kind == "cache":
        (blobs / "a").write_bytes(data)
        (snapshot / "m.onnx").symlink_to("../../../blobs/a")
    else:
        (snapshot / "m.onnx").write_bytes(data)
    if kind == "hard link":
        os.link(blobs / "b", snapshot / "w.bin")
    elif kind == "within":
        (snapshot / "real.bin").write_bytes(weights(element))
        (snapshot / "w.bin").symlink_to("real.bin")
    else:
        (snapshot / "w.bin").symlink_to("../../../blobs/b")
    return snapshot / "m.onnx", blobs


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("kind", ["cache", "within"])
def test_links_that_stay_inside_are_followed_by_the_proof_too(tmp_path: Path, kind: str, element: str) -> None:
    """The rewritten model is no link, and onnxruntime would follow none from it; weights of doubles are read by us."""
    path, _ = laid_out(tmp_path, kind, element)
    result = opshift.convert(path, opset=11)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert [tensor.external_data[0].value for tensor in result.rewritten.graph.initializer[:1]] == ["w.bin"]
    (tmp_path / "there").mkdir()
    result.save(tmp_path / "there" / "out.onnx")
    assert opshift.verify(path, tmp_path / "there" / "out.onnx").verdict is Verdict.EQUAL


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_links_that_are_permitted(tmp_path: Path, kind: str, element: str) -> None:
    path, blobs = laid_out(tmp_path, kind, element)
    allowed = [blobs if kind == "link" else path.parent]
    with pytest.raises(InvalidModelError, match="--allow-path"):
        opshift.plan(path, opset=11)
    with pytest.raises(InvalidModelError, match="--allow-path"):
        opshift.plan(path, opset=11, allow_paths=[path.parent if kind == "link" else blobs])
    assert opshift.plan(path, opset=11, allow_paths=allowed).possible
    assert 11 in inspect(path, allow_paths=allowed).reachable
    result = opshift.convert(path, opset=11, allow_paths=allowed)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    for place in (tmp_path / "there", path.parent):
        place.mkdir(exist_ok=True)
        result.save(place / "out.onnx")
        report = opshift.verify(path, place / "out.onnx", allow_paths=allowed)
        assert report.verdict is Verdict.EQUAL
    assert (tmp_path / "there" / "w.bin").stat().st_nlink == 1
    assert not (tmp_path / "there" / "w.bin").is_symlink()
    assert (path.parent / "w.bin").samefile(blobs / "b")


def test_the_option_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, blobs = laid_out(tmp_path, "link", "float")
    option = ["--allow-path", str(tmp_path / "snapshots"), "--allow-path", str(blobs)]
    out = tmp_path / "out.onnx"
    for arguments in (
        ["convert", str(path), "--opset", "11", "-o", str(out)],
        ["plan", str(path), "--opset", "11"],
        ["inspect", str(path)],
        ["verify", str(path), str(path)],
    ):
        assert main(arguments) == 2
        assert "--allow-path" in capsys.readouterr().err
        assert main([*arguments, *option]) == 0
        capsys.readouterr()
    assert (tmp_path / "w.bin").read_bytes() == weights()


def test_a_difference_tells_of_the_option(tmp_path: Path) -> None:
    path, blobs = laid_out(tmp_path, "link", "float")
    other = onnx.load(path, load_external_data=False)
    other.graph.node[1].attribute[0].i = 1
    (path.parent / "n.onnx").write_bytes(other.SerializeToString())
    report = opshift.verify(path, path.parent / "n.onnx", allow_paths=[blobs], save_repro=tmp_path / "repro")
    assert report.verdict is Verdict.DIFFERENT
    assert report.whole.counterexample is not None
    assert f"--allow-path {blobs}" in report.whole.counterexample.command
    small = onnx.load(tmp_path / "repro" / "original.onnx", load_external_data=False)
    assert not [tensor for tensor in small.graph.initializer if external_data.is_external(tensor)]


@pytest.mark.parametrize("path", ["none", "file", "a\0b", "circle"])
def test_what_can_be_permitted_is_a_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(UsageError, match="--allow-path"):
        load(model_of(location="w.bin"), [tmp_path / path])
    with pytest.raises(UsageError, match="--allow-path"):
        load(model_of(location="w.bin"), [""])
    with pytest.raises(UsageError, match="a list"):
        load(model_of(location="w.bin"), str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_permitted_is_still_a_regular_file(tmp_path: Path, kind: str) -> None:
    path, blobs = laid_out(tmp_path, "link", "float")
    (blobs / "b").unlink()
    os.mkfifo(blobs / "b") if kind == "fifo" else (blobs / "b").mkdir()
    with pytest.raises(InvalidModelError, match="not a regular file"):
        load(path, [blobs])


def test_weights_that_change_before_they_are_read(tmp_path: Path) -> None:
    tensor = model_of(location="w.bin").graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(weights()[:-1])
    with pytest.raises(InvalidModelError, match="too short"):
        external_data.embedded(tensor, tmp_path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InvalidModelError, match="cannot be read"):
        external_data.embedded(tensor, tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "w.bin")
        with pytest.raises(InvalidModelError, match="not a regular file"):
            external_data.embedded(tensor, tmp_path)


# --- what is printed ---

ESCAPE = "\x1b[2J\x1b]0;x\x07"
PRINTED = {
    "that is lowered": "g (float[n,3] x) => (float[n,3] y) { y = Hardmax<axis=0>(x) }",
    "that is refused": "g (bfloat16[2,3] x) => (bfloat16[2,3] y) { y = Hardmax(x) }",
    "of another domain": "g (float[2] x) => (float[2] y) { y = l.Foo(x) }",
}


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("name", PRINTED)
def test_names_never_reach_the_terminal_as_they_are(
    tmp_path: Path, name: str, verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["":13, "l":1]> {PRINTED[name]}')
    for node in model.graph.node:
        node.name = node.op_type + ESCAPE
        for names in (node.input, node.output):
            names[:] = [ESCAPE + value for value in names]
        if node.domain:
            node.op_type += ESCAPE
    for value in (*model.graph.input, *model.graph.output):
        value.name = ESCAPE + value.name
    model.producer_name = model.graph.name = ESCAPE
    path, other = tmp_path / "m.onnx", tmp_path / "n.onnx"
    path.write_bytes(model.SerializeToString())
    model.graph.node[0].name = "other"
    if name == "that is lowered":
        model.graph.node[0].attribute[0].i = 1
    other.write_bytes(model.SerializeToString())
    flag = ["-v"] * verbose
    said = []
    for arguments in (
        ["convert", str(path), "--opset", "11", "-o", str(tmp_path / "out.onnx")],
        ["plan", str(path), "--opset", "11"],
        ["inspect", str(path)],
        ["verify", str(path), str(other)],
    ):
        assert main([*arguments, *flag]) in (0, 1)
        said.append("".join(capsys.readouterr()))
    assert all(character.isprintable() or character == "\n" for character in "".join(said))
    assert "\\x1b[2J" in "".join(said)
