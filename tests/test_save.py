"""Saving: what is written, what is refused, and that a failure of any kind leaves everything as it was."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from google.protobuf.message import EncodeError
from onnx import TensorProto

from opshift.cli.main import main
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.io import atomic_files, copying, model_forms, weight_files
from opshift.passes.io import writer as saving
from opshift.passes.io.atomic_files import Batch
from opshift.passes.io.reader import Source, load
from opshift.passes.io.writer import copy, save

HARDMAX = '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[2,3] y) { [hot] y = Hardmax(x) }'
ADD = '<ir_version: 8, opset_import: ["":13]> g (float[2] x) => (float[2] y) { y = Add(x, w) }'
WEIGHTS = np.array([1, 2], np.float32)
KILLS = int(os.environ.get("OPSHIFT_KILLS", "100"))
"""How often a process that saves is killed."""
Write = Callable[..., object]


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def saved(source: Source, path: Path | str, **options: Any) -> None:
    """Save as after a conversion: a changed copy of the model."""
    model = onnx.ModelProto()
    model.CopyFrom(source.model)
    model.producer_name = "changed"
    save(model, path, source=source, **options)


BOTH = pytest.mark.parametrize("write", [saved, copy])


def tree(folder: Path) -> dict[str, bytes | str]:
    """All that is below a folder, links and contents."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """What happens inside leaves no trace in the folder."""
    before = tree(folder)
    folders = {path for path in folder.rglob("*") if path.is_dir()}
    yield
    assert tree(folder) == before
    assert {path for path in folder.rglob("*") if path.is_dir()} == folders


def fails(write: Write, *arguments: object, error: type[Exception] = UsageError) -> str:
    with pytest.raises(error) as caught:
        write(*arguments)
    message = str(caught.value)
    assert message.isprintable(), message
    return message


def plain(folder: Path, name: str = "in.onnx") -> Source:
    (folder / name).write_bytes(parse(HARDMAX).SerializeToString())
    return load(folder / name)


def with_weights(folder: Path, *locations: str, name: str = "in.onnx") -> Source:
    """A model with one weight in each of these files."""
    model = parse(ADD)
    for index, location in enumerate(locations):
        tensor = model.graph.initializer.add(name="w" if index == 0 else f"w{index}", data_type=1, dims=[2])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        path = folder / location
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(WEIGHTS.tobytes())
    (folder / name).write_bytes(model.SerializeToString())
    return load(folder / name)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another folder."""
    path = tmp_path / "there"
    path.mkdir()
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder of the input."""
    path = tmp_path / "here"
    path.mkdir()
    return path


# --- one file ---


def test_a_new_file(here: Path, there: Path) -> None:
    source = plain(here)
    saved(source, there / "out.onnx")
    copy(source, str(there / "same.onnx"))
    assert onnx.load(there / "out.onnx").producer_name == "changed"
    assert (there / "same.onnx").read_bytes() == (here / "in.onnx").read_bytes()
    assert set(tree(there)) == {"out.onnx", "same.onnx"}
    with unchanged(here):
        saved(source, there / "out.onnx")


def test_a_relative_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plain(here)
    monkeypatch.chdir(here)
    saved(source, "out.onnx")
    assert (here / "out.onnx").exists()


def test_a_copy_keeps_every_byte(here: Path, there: Path) -> None:
    """Unknown fields, and an order of fields that protobuf would not write."""
    data = parse(HARDMAX).SerializeToString()
    data = data[2:] + data[:2] + b"\xfa\x7f\x03abc"
    (here / "in.onnx").write_bytes(data)
    source = load(here / "in.onnx")
    assert source.model.SerializeToString() != data
    copy(source, there / "out.onnx")
    assert (there / "out.onnx").read_bytes() == data


def test_a_copy_of_text_keeps_comments(here: Path, there: Path) -> None:
    text = "# a comment\n" + HARDMAX
    (here / "in.onnxtxt").write_text(text)
    source = load(here / "in.onnxtxt")
    copy(source, there / "out.onnxtxt")
    assert (there / "out.onnxtxt").read_text() == text
    copy(source, there / "out.onnx")
    assert onnx.load(there / "out.onnx") == parse(HARDMAX)


def test_a_model_in_memory_is_copied_by_saving_it(there: Path) -> None:
    copy(load(parse(HARDMAX)), there / "out.onnx")
    assert onnx.load(there / "out.onnx") == parse(HARDMAX)
    save(parse(HARDMAX), there / "other.onnx")
    assert onnx.load(there / "other.onnx") == parse(HARDMAX)


@BOTH
def test_the_permissions_of_a_new_file_are_the_umask_s(here: Path, there: Path, write: Write) -> None:
    old = os.umask(0o027)
    try:
        write(plain(here), there / "out.onnx")
    finally:
        os.umask(old)
    assert stat.S_IMODE((there / "out.onnx").stat().st_mode) == 0o640


@BOTH
def test_an_existing_file_keeps_its_permissions(here: Path, there: Path, write: Write) -> None:
    out = there / "out.onnx"
    out.write_text("old")
    out.chmod(0o604)
    write(plain(here), out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o604
    assert onnx.load(out).graph.node[0].op_type == "Hardmax"


@BOTH
def test_the_output_may_be_the_input(here: Path, write: Write) -> None:
    source = plain(here)
    write(source, here / "in.onnx")
    assert onnx.load(here / "in.onnx").graph.node[0].op_type == "Hardmax"
    assert set(tree(here)) == {"in.onnx"}


@BOTH
def test_an_output_that_is_a_link_is_written_through(here: Path, there: Path, write: Write) -> None:
    source = plain(here)
    (there / "real.onnx").write_text("old")
    (here / "link.onnx").symlink_to("../there/real.onnx")
    write(source, here / "link.onnx")
    assert (here / "link.onnx").readlink() == Path("../there/real.onnx")
    assert onnx.load(there / "real.onnx").graph.node[0].op_type == "Hardmax"
    (here / "loose.onnx").symlink_to("new.onnx")
    write(source, here / "loose.onnx")
    assert onnx.load(here / "new.onnx").graph.node[0].op_type == "Hardmax"


def test_an_input_that_is_a_link_is_replaced_where_it_really_is(here: Path, there: Path) -> None:
    plain(there, "real.onnx")
    (here / "in.onnx").symlink_to(there / "real.onnx")
    saved(load(here / "in.onnx"), here / "in.onnx")
    assert (here / "in.onnx").is_symlink()
    assert onnx.load(there / "real.onnx").producer_name == "changed"
    copy(load(here / "in.onnx"), here / "copy.onnx")
    assert onnx.load(here / "copy.onnx").producer_name == "changed"


@BOTH
def test_outputs_that_cannot_be_written(tmp_path: Path, here: Path, there: Path, write: Write) -> None:
    source = plain(here)
    (there / "file").write_text("old")
    (there / "circle.onnx").symlink_to("circle.onnx")
    (there / "loose.onnx").symlink_to("none/out.onnx")
    cases = {
        there / "none" / "out.onnx": "no folder",
        there / "file" / "out.onnx": "no folder",
        there / "loose.onnx": "no folder",
        there: "it is a folder",
        f"{there}/out/": "name of a file is missing",
        there / ("n" * 300): "cannot be written",
        there / "circle.onnx": "cannot be written",
        "a\0b.onnx": "cannot be written",
        there / "none\x1b[31m" / "out.onnx": r"\x1b[31m",
    }
    with unchanged(tmp_path):
        for path, words in cases.items():
            assert words in fails(write, source, path)


@BOTH
def test_an_output_that_is_not_a_regular_file(here: Path, there: Path, write: Write) -> None:
    source = plain(here)
    os.mkfifo(there / "fifo")
    assert "not a regular file" in fails(write, source, there / "fifo")
    assert "not a regular file" in fails(write, source, "/dev/null")
    assert stat.S_ISFIFO((there / "fifo").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@BOTH
def test_a_write_protected_output(here: Path, there: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plain(here)
    (there / "out.onnx").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everything
    with unchanged(there):
        assert "write-protected" in fails(write, source, there / "out.onnx")


@BOTH
def test_a_folder_that_may_not_be_written_to(
    here: Path, there: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plain(here)

    def denied(place: Path, *_: object) -> object:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(atomic_files, "_exclusive", denied)
    assert "cannot be written: permission denied" in fails(write, source, there / "out.onnx")


@BOTH
def test_nothing_is_overwritten_unasked(here: Path, there: Path, write: Write) -> None:
    source = plain(here)
    write(source, there / "out.onnx", overwrite=False)
    with unchanged(there), pytest.raises(UsageError, match="exists already"):
        write(source, there / "out.onnx", overwrite=False)


def test_an_input_that_was_changed_since_it_was_read(here: Path, there: Path) -> None:
    source = plain(here)
    os.utime(here / "in.onnx", ns=(1, 1))
    with unchanged(there):
        assert "changed in the meantime" in fails(copy, source, there / "out.onnx", error=InvalidModelError)
    (here / "in.onnx").unlink()
    with unchanged(there):
        assert "cannot be read" in fails(copy, source, there / "out.onnx", error=InvalidModelError)


class Huge:
    """What a model of more than 2 GiB does (tried: three weights of 800 MB)."""

    graph = onnx.GraphProto()
    functions = training_info = ()

    def SerializeToString(self) -> bytes:  # noqa: N802
        raise EncodeError("Failed to serialize proto")


@pytest.mark.parametrize("model", [Huge(), parse(HARDMAX)], ids=["refused by protobuf", "refused by its size"])
def test_more_than_protobuf_writes(there: Path, monkeypatch: pytest.MonkeyPatch, model: object) -> None:
    monkeypatch.setattr(saving, "LIMIT", 50)
    with unchanged(there):
        message = fails(save, model, there / "out.onnx")
    assert "2 GiB" in message
    assert "external data" in message
    assert model_forms.LIMIT == 2**31 - 1


# --- ONNX text ---


def text_of(edit: Callable[[onnx.ModelProto], object], text: str = ADD) -> onnx.ModelProto:
    model = parse(text)
    edit(model)
    return model


def weight(*values: float, dtype: type = np.float32) -> Callable[[onnx.ModelProto], None]:
    array: np.ndarray[Any, Any] = np.array(values, dtype)
    return lambda model: model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))


TEXTS: dict[str, tuple[onnx.ModelProto, bool]] = {
    "as it was parsed": (parse(HARDMAX), True),
    "raw bytes": (text_of(weight(1, 2)), True),
    "integers": (text_of(weight(1, -(2**63), dtype=np.int64)), True),
    "external data": (
        text_of(
            lambda m: m.graph.initializer.add(
                name="w",
                data_type=1,
                dims=[2],
                data_location=1,
                external_data=[onnx.StringStringEntryProto(key="location", value="w.bin")],
            )
        ),
        True,
    ),
    "infinity": (text_of(weight(1, -np.inf)), True),
    "metadata of a node": (text_of(lambda m: m.graph.node[0].metadata_props.add(key="k", value="v")), False),
    "a documented node": (text_of(lambda m: setattr(m.graph.node[0], "doc_string", "why")), False),
}


@pytest.mark.parametrize("case", TEXTS)
def test_onnx_text_is_written_only_where_it_says_everything(here: Path, case: str) -> None:
    model, whole = TEXTS[case]
    before = model.SerializeToString()
    (here / "w.bin").write_bytes(WEIGHTS.tobytes())
    source = Source(model, here, None, model)
    if whole:
        save(model, here / "out.onnxtxt", source=source)
        again = load(here / "out.onnxtxt").model
        assert saving._comparable(again) == saving._comparable(model)
        assert [node.op_type for node in again.graph.node] == [node.op_type for node in model.graph.node]
    else:
        with unchanged(here):
            assert "ends in .onnx" in fails(lambda: save(model, here / "out.onnxtxt", source=source))
    assert model.SerializeToString() == before


def test_digits_that_text_would_lose(here: Path) -> None:
    """Whatever digits onnx prints: what is written has the same bits, or nothing is written."""
    rng = np.random.default_rng(0)
    for bits in rng.integers(0, 2**32, (50, 2), np.uint64).astype(np.uint32):
        model = text_of(weight(*bits.view(np.float32)))
        with contextlib.suppress(UsageError):
            save(model, here / "out.onnxtxt")
            again = onnx.numpy_helper.to_array(load(here / "out.onnxtxt").model.graph.initializer[0])
            assert again.view(np.uint32).tolist() == bits.tolist()


# --- external data ---


@BOTH
def test_in_the_same_folder_it_is_referred_to(here: Path, write: Write) -> None:
    source = with_weights(here, "w.bin")
    node = (here / "w.bin").stat()
    write(source, here / "out.onnx")
    assert set(tree(here)) == {"in.onnx", "out.onnx", "w.bin"}
    assert (here / "w.bin").stat().st_ino == node.st_ino
    session = onnxruntime.InferenceSession(here / "out.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": WEIGHTS})[0].tolist() == [2, 4]


@BOTH
def test_the_same_folder_by_another_name(tmp_path: Path, here: Path, write: Write) -> None:
    source = with_weights(here, "w.bin")
    (tmp_path / "alias").symlink_to("here")
    write(source, tmp_path / "alias" / "out.onnx")
    assert set(tree(here)) == {"in.onnx", "out.onnx", "w.bin"}


@BOTH
def test_into_another_folder_it_is_copied(here: Path, there: Path, write: Write) -> None:
    source = with_weights(here, "w.bin", "./w.bin", "sub/deep/w.bin", "sub/other.bin")
    (here / "w.bin").write_bytes(WEIGHTS.tobytes() + b"and more")
    with unchanged(here):
        write(source, there / "out.onnx")
    assert set(tree(there)) == {"out.onnx", "w.bin", "sub/deep/w.bin", "sub/other.bin"}
    assert (there / "w.bin").read_bytes() == WEIGHTS.tobytes() + b"and more"
    shutil.rmtree(here)
    session = onnxruntime.InferenceSession(there / "out.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": WEIGHTS})[0].tolist() == [2, 4]


@pytest.mark.parametrize("place", ["kernel", "no such call", "call fails", "call ends too early"])
def test_every_way_of_copying(here: Path, there: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = with_weights(here, "w.bin")
    data = random.Random(0).randbytes(3_000_000)
    (here / "w.bin").write_bytes(data)
    calls = []

    def fake(read: int, write: int, count: int) -> int:
        calls.append(count)
        if place == "call fails":
            raise OSError(18, "Invalid cross-device link")
        return os.write(write, os.read(read, 1000)) if len(calls) == 1 else 0

    if place == "no such call":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    elif place != "kernel":
        monkeypatch.setattr(os, "copy_file_range", fake, raising=False)
    saved(source, there / "out.onnx")
    assert (there / "w.bin").read_bytes() == data
    assert bool(calls) == place.startswith("call")


HOLE = 1 << 20


@pytest.mark.parametrize("place", ["kernel", "no such call", "no holes are told"])
@pytest.mark.parametrize("data", ["", "0", "1", "3", "02", "13", "0134", "4"], ids=lambda data: f"data at {data}")
def test_holes_stay_holes(here: Path, there: Path, data: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the begin, in the middle, at the end: five MiB, some with data."""
    source = with_weights(here, "w.bin")
    with (here / "w.bin").open("wb") as file:
        for part in map(int, data):
            file.seek(part * HOLE)
            file.write(random.Random(part).randbytes(HOLE))
        file.truncate(5 * HOLE + 3)
    if place == "no such call":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    if place == "no holes are told":
        monkeypatch.delattr(os, "SEEK_DATA", raising=False)
    told: list[tuple[int, int]] = []
    with unchanged(here):
        saved(source, there / "out.onnx", progress=lambda stage, done, size: told.append((done, size)))
    copied = there / "w.bin"
    assert copied.read_bytes() == (here / "w.bin").read_bytes()
    assert told[-1] == (5, 5)
    assert told == sorted(told)
    taken = (here / "w.bin").stat().st_blocks
    sparse = taken * 512 < 5 * HOLE  # not every file system has holes
    if sparse and place != "no holes are told" and hasattr(os, "SEEK_DATA"):
        assert copied.stat().st_blocks <= taken


@BOTH
def test_what_is_there_already(here: Path, there: Path, write: Write) -> None:
    source = with_weights(here, "same.bin", "linked.bin", "within.bin", "new.bin")
    (there / "same.bin").write_bytes(WEIGHTS.tobytes())
    os.link(here / "linked.bin", there / "linked.bin")
    source = dataclasses.replace(source, allowed=(here.resolve(),))
    (there / "real.bin").write_bytes(WEIGHTS.tobytes())
    (there / "within.bin").symlink_to("real.bin")
    nodes = {name: (there / name).stat().st_ino for name in ("same.bin", "linked.bin", "within.bin")}
    write(source, there / "out.onnx")
    assert {name: (there / name).stat().st_ino for name in nodes} == nodes
    assert (there / "within.bin").is_symlink()
    assert (there / "new.bin").read_bytes() == WEIGHTS.tobytes()
    write(source, there / "out.onnx")


@BOTH
def test_another_file_of_that_name_is_not_overwritten(tmp_path: Path, here: Path, there: Path, write: Write) -> None:
    source = with_weights(here, "first.bin", "sub/w.bin")
    (there / "sub").mkdir()
    (there / "sub" / "w.bin").write_bytes(b"precious")
    with unchanged(tmp_path):
        message = fails(write, source, there / "out.onnx")
    assert "w.bin" in message
    assert "not overwritten" in message
    (there / "sub" / "w.bin").write_bytes(WEIGHTS.tobytes()[::-1])  # of the same length
    with unchanged(tmp_path):
        fails(write, source, there / "out.onnx")


@pytest.mark.parametrize("kind", ["folder", "fifo", "loose link", "link out", "folder is a link out", "file as folder"])
@BOTH
def test_nothing_is_written_outside(tmp_path: Path, here: Path, there: Path, write: Write, kind: str) -> None:
    source = with_weights(here, "sub/w.bin")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(WEIGHTS.tobytes())
    if kind == "folder is a link out":
        (there / "sub").symlink_to(outside)
    elif kind == "file as folder":
        (there / "sub").write_text("old")
    else:
        (there / "sub").mkdir()
        destination = there / "sub" / "w.bin"
        if kind == "folder":
            destination.mkdir()
        elif kind == "fifo":
            os.mkfifo(destination)
        else:
            destination.symlink_to(outside / ("none" if kind == "loose link" else "w.bin"))
    with unchanged(tmp_path):
        fails(write, source, there / "out.onnx")


@BOTH
def test_the_model_does_not_replace_its_own_weights(tmp_path: Path, here: Path, there: Path, write: Write) -> None:
    source = with_weights(here, "w.bin")
    (here / "link.onnx").symlink_to("w.bin")
    with unchanged(tmp_path):
        for path in (here / "w.bin", there / "w.bin", here / "link.onnx"):
            assert "keeps weights in a file of that name" in fails(write, source, path)


def test_weights_whose_folder_is_not_known(tmp_path: Path, here: Path, there: Path) -> None:
    model = with_weights(here, "w.bin").model
    with unchanged(tmp_path):
        assert "given in memory" in fails(save, model, there / "out.onnx")
        assert "given in memory" in fails(copy, load(model), here / "out.onnx")


def test_weights_of_an_onnx_ir_model(here: Path, there: Path) -> None:
    with_weights(here, "w.bin")
    source = load(onnx_ir.load(here / "in.onnx"))
    copy(source, here / "out.onnx")
    saved(source, there / "out.onnx")
    assert set(tree(here)) == {"in.onnx", "out.onnx", "w.bin"}
    assert set(tree(there)) == {"out.onnx", "w.bin"}


@BOTH
def test_weights_that_went_away_or_became_unsafe(here: Path, there: Path, write: Write) -> None:
    source = with_weights(here, "w.bin")
    (here / "w.bin").unlink()
    with unchanged(there):
        assert "missing" in fails(write, source, there / "out.onnx", error=InvalidModelError)
    (here / "w.bin").symlink_to("/dev/zero")
    with unchanged(there):
        assert "leads out" in fails(write, source, there / "out.onnx", error=InvalidModelError)


def test_weights_that_change_while_they_are_copied(here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = with_weights(here, "w.bin")

    def touched(read: int, write: int, count: int) -> int:
        os.utime(here / "w.bin", ns=(1, 1))
        return 0

    monkeypatch.setattr(os, "copy_file_range", touched, raising=False)
    with unchanged(there):
        assert "changed in the meantime" in fails(saved, source, there / "out.onnx", error=InvalidModelError)


@pytest.mark.parametrize("same", [True, False])
def test_weights_that_somebody_else_wrote_in_the_meantime(
    tmp_path: Path, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    source = with_weights(here, "w.bin")
    real = copying.copy_file

    def late(origin: Path, *rest: object) -> None:
        real(origin, *rest)  # type: ignore[arg-type]
        (there / "w.bin").write_bytes(WEIGHTS.tobytes() if same else b"precious")

    monkeypatch.setattr(copying, "copy_file", late)
    if same:
        saved(source, there / "out.onnx")
    else:
        assert "not overwritten" in fails(saved, source, there / "out.onnx")
        assert tree(there) == {"w.bin": b"precious"}


def cached(folder: Path) -> Source:
    """A model in a cache of the Hugging Face kind."""
    blobs = folder / "blobs"
    blobs.mkdir()
    with_weights(blobs, "w.bin", name="model")
    (folder / "snapshot").mkdir()
    for link, real in (("in.onnx", "model"), ("w.bin", "w.bin")):
        (folder / "snapshot" / link).symlink_to(f"../blobs/{real}")
    return load(folder / "snapshot" / "in.onnx")


@BOTH
def test_a_cache_of_links(tmp_path: Path, here: Path, there: Path, write: Write) -> None:
    source = cached(here)
    write(source, there / "out.onnx")
    assert not (there / "w.bin").is_symlink()
    onnxruntime.InferenceSession(there / "out.onnx", providers=["CPUExecutionProvider"])
    # Beside the input onnxruntime would not follow the link, as the new model is none.
    with unchanged(tmp_path):
        assert "Write to another folder" in fails(write, source, here / "snapshot" / "out.onnx")
    write(source, here / "snapshot" / "in.onnx")
    onnxruntime.InferenceSession(here / "snapshot" / "in.onnx", providers=["CPUExecutionProvider"])


# --- where weights go ---


def with_every_weight(folder: Path) -> Source:
    """Weights in two files, with offsets, in numbers of several types, in the graph of an If, and in a Constant."""
    text = """<ir_version: 8, opset_import: ["":13]> g (float[2] x, bool c) => (float[2] y, float[2] z, int64[3] k)
    { a = Add(x, w)  y = Add(a, big)  k = Constant<value = int64[3] {1, 2, 3}>()
      z = If(c)<then_branch = yes () => (float[2] t) { t = Mul(x, inner) },
                else_branch = no () => (float[2] e) { e = Neg(x) }> }"""
    model = parse(text)
    then = model.graph.node[-1].attribute[0].g
    then.initializer.append(onnx.numpy_helper.from_array(np.array([3, 5], np.float32), "inner"))
    for name, location, offset in (("w", "one.bin", 8), ("big", "sub/two.bin", 0)):
        tensor = model.graph.initializer.add(name=name, data_type=1, dims=[2], data_location=1)
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value=str(offset))
    model.graph.initializer.append(onnx.helper.make_tensor("halves", TensorProto.FLOAT16, [2], [1.5, -2]))
    model.graph.initializer.append(onnx.helper.make_tensor("bits", TensorProto.INT4, [3], [1, -2, 3]))
    model.graph.initializer.append(
        TensorProto(name="words", data_type=TensorProto.STRING, dims=[1], string_data=[b"a" * 4000])
    )
    (folder / "sub").mkdir()
    (folder / "one.bin").write_bytes(bytes(8) + WEIGHTS.tobytes() + b"more")
    (folder / "sub" / "two.bin").write_bytes((10 * WEIGHTS).tobytes())
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    return load(folder / "in.onnx")


def computed(path: Path) -> list[list[float]]:
    """What onnxruntime makes of such a model."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [value.tolist() for value in session.run(None, {"x": WEIGHTS, "c": np.array(True)})]


EVERY = [[12, 24], [3, 10], [1, 2, 3]]


def outside(path: Path) -> dict[str, int]:
    """The weights of a file that are external, with their offsets; their values are those they had."""
    model = onnx.load(path, load_external_data=False)
    whole = onnx.load(path)
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in whole.graph.initializer}
    assert values["halves"].tolist() == [1.5, -2]
    assert values["bits"].tolist() == [1, -2, 3]
    assert values["words"].tolist() == ["a" * 4000]
    graphs = (model.graph, model.graph.node[-1].attribute[0].g)
    tensors = [tensor for graph in graphs for tensor in graph.initializer if tensor.data_location]
    return {tensor.name: int({e.key: e.value for e in tensor.external_data}["offset"]) for tensor in tensors}


@BOTH
def test_weights_are_embedded(here: Path, there: Path, write: Write) -> None:
    source = with_every_weight(here)
    with unchanged(here):
        write(source, there / "out.onnx", external_data="embed")
    assert set(tree(there)) == {"out.onnx"}
    assert outside(there / "out.onnx") == {}
    assert computed(there / "out.onnx") == EVERY
    # Nothing is outside any more, so the same bytes come out again.
    copy(load(there / "out.onnx"), there / "again.onnx", external_data="embed")
    assert (there / "again.onnx").read_bytes() == (there / "out.onnx").read_bytes()


@BOTH
@pytest.mark.parametrize("threshold", [0, 4, 8, 9])
def test_weights_are_gathered_in_one_file(here: Path, there: Path, write: Write, threshold: int) -> None:
    source = with_every_weight(here)
    before = source.model.SerializeToString()
    with unchanged(here):
        write(source, there / "out.onnx", external_data="save", size_threshold=threshold)
    assert source.model.SerializeToString() == before
    large = {"w": 0, "big": 8}
    offsets = {0: {**large, "halves": 16, "bits": 20, "inner": 22}, 4: {**large, "halves": 16, "inner": 20}}
    offsets |= {8: {**large, "inner": 16}, 9: {}}
    assert outside(there / "out.onnx") == offsets[threshold]
    assert set(tree(there)) == {"out.onnx", *(["out.onnx.data"] if offsets[threshold] else [])}
    assert computed(there / "out.onnx") == EVERY
    load(there / "out.onnx")


def test_large_weights_begin_where_a_page_does(here: Path) -> None:
    source = plain(here)
    for name, size in (("a", 5), ("b", 1 << 18), ("c", 3), ("d", (1 << 18) - 1)):
        source.model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(size, size, np.float32), name))
    save(source.model, here / "out.onnx", external_data="save", size_threshold=8)
    model = onnx.load(here / "out.onnx", load_external_data=False)
    offsets = {t.name: int({e.key: e.value for e in t.external_data}["offset"]) for t in model.graph.initializer}
    assert offsets == {"a": 0, "b": 1 << 16, "c": (1 << 16) + (1 << 20), "d": (1 << 16) + (1 << 20) + 12}
    for tensor in onnx.load(here / "out.onnx").graph.initializer:
        assert set(onnx.numpy_helper.to_array(tensor).tolist()) == {tensor.dims[0]}


@BOTH
def test_weights_stay(tmp_path: Path, here: Path, there: Path, write: Write) -> None:
    source = with_every_weight(here)
    with unchanged(tmp_path):
        message = fails(lambda: write(source, there / "out.onnx", external_data="keep"))
    assert "are to stay in" in message
    assert "(copy)" in message
    write(source, here / "out.onnx", external_data="keep")
    assert set(tree(here)) == {"in.onnx", "out.onnx", "one.bin", "sub/two.bin"}
    write(source, there / "out.onnx", external_data="copy")
    assert set(tree(there)) == {"out.onnx", "one.bin", "sub/two.bin"}
    write(plain(there, "none.onnx"), here / "none.onnx", external_data="keep")
    assert computed(here / "out.onnx") == computed(there / "out.onnx") == EVERY


def test_what_the_output_refers_to_is_told(here: Path, there: Path) -> None:
    source = with_every_weight(here)
    assert save(source.model, there / "out.onnx", source=source) == (there / "one.bin", there / "sub/two.bin")
    assert copy(source, here / "out.onnx") == (here / "one.bin", here / "sub/two.bin")
    assert copy(source, here / "out.onnx", external_data="embed") == ()
    assert copy(source, here / "out.onnx", external_data="save", size_threshold=1) == (here / "out.onnx.data",)


def test_other_weights_beside_the_output_are_not_overwritten(tmp_path: Path, here: Path, there: Path) -> None:
    source = with_every_weight(here)
    for _ in range(2):  # the same again is no other
        saved(source, there / "out.onnx", external_data="save", size_threshold=8)
    with unchanged(tmp_path):
        assert "not overwritten" in fails(
            lambda: saved(source, there / "out.onnx", external_data="save", size_threshold=0)
        )
    (there / "out.onnx.data").unlink()
    (there / "out.onnx.data").symlink_to(here / "one.bin")
    with unchanged(tmp_path):
        assert "leads out" in fails(lambda: saved(source, there / "out.onnx", external_data="save", size_threshold=8))
        name = there / "a\\b.onnx"
        assert "backslash" in fails(lambda: saved(source, name, external_data="save", size_threshold=8))


def test_more_weights_than_a_file_takes(here: Path, there: Path) -> None:
    """Sparse files of 3 GB; nothing of them is read."""
    source = with_weights(here, "w.bin")
    source.model.graph.initializer[0].dims[:] = [750_000_000]
    with (here / "w.bin").open("r+b") as file:
        file.truncate(3_000_000_000)
    with unchanged_size(there):
        message = fails(lambda: saved(source, there / "out.onnx", external_data="embed"))
    assert "2 GiB" in message
    assert "--save-as-external-data" in message


@contextlib.contextmanager
def unchanged_size(folder: Path) -> Iterator[None]:
    yield
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", ["embed", "save"])
def test_weights_that_change_while_they_move(
    here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    source = with_every_weight(here)
    real = weight_files._chunk

    def touched(file: Path) -> object:
        piece = real(file)
        os.utime(file, ns=(1, 1))
        return piece

    monkeypatch.setattr(weight_files, "_chunk", touched)
    with unchanged(there):
        message = fails(
            lambda: saved(source, there / "out.onnx", external_data=how, size_threshold=8), error=InvalidModelError
        )
    assert "changed in the meantime" in message


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_fault_while_weights_are_gathered_leaves_everything_as_it_was(
    tmp_path: Path, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, at: int, step: str
) -> None:
    source = with_every_weight(here)
    (there / "out.onnx").write_text("old")
    before = tree(tmp_path)
    target = {"fsync": os, "replace": Path}[step]
    real, calls = getattr(target, step), [0]

    def failing(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] == at:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(target, step, failing)
    done = False
    with contextlib.suppress(KeyboardInterrupt):
        saved(source, there / "out.onnx", external_data="save", size_threshold=8)
        done = True
    monkeypatch.undo()
    assert done == (calls[0] < at)
    renamed = done or (step == "fsync" and at == 4)  # the flush of the folder, after the model was renamed
    assert (tree(tmp_path) == before) != renamed
    if renamed:
        assert computed(there / "out.onnx") == EVERY
    assert calls[0] >= min(at, 2)


def test_progress_counts_what_is_written(here: Path, there: Path) -> None:
    source = with_weights(here, "w.bin")
    (here / "w.bin").write_bytes(bytes(200 << 20))  # zeros that are written, no hole
    seen: list[tuple[str, int, int]] = []
    copy(source, there / "out.onnx", progress=lambda *step: seen.append(step))
    assert {step[0] for step in seen} == {"writing weights (MiB)"}
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert len(seen) >= 3
    assert seen[-1][1:] == (200, 200)


# --- faults ---


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", range(1, 10))
@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
def test_a_fault_at_any_step_leaves_everything_as_it_was(
    tmp_path: Path, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, at: int, step: str
) -> None:
    source = with_weights(here, "w.bin", "sub/w.bin", "sub/deep/w.bin")
    (there / "out.onnx").write_text("old")
    before = tree(tmp_path)
    target, name = {"fsync": (os, "fsync"), "replace": (Path, "replace"), "write": (copying, "copy_file")}[step]
    real, calls = getattr(target, name), [0]

    def failing(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] == at:
            raise fault
        return real(*arguments)

    monkeypatch.setattr(target, name, failing)
    caught = ""
    try:
        saved(source, there / "out.onnx")
    except (UsageError, KeyboardInterrupt) as error:
        caught = str(error) or "interrupted"
    monkeypatch.undo()
    # After the last step there is nothing to fail. One without a folder's flush is done all the same.
    done = calls[0] < at or (step == "fsync" and at > 4 and isinstance(fault, OSError))
    if step == "fsync" and at == 8 and not done:  # the flush of the folder, after the model was renamed
        assert onnx.load(there / "out.onnx", load_external_data=False).producer_name == "changed"
        return
    if done:
        assert not caught
        assert onnx.load(there / "out.onnx", load_external_data=False).producer_name == "changed"
        assert set(tree(there)) == {"out.onnx", "w.bin", "sub/w.bin", "sub/deep/w.bin"}
    else:
        assert "no space left on device" in caught or caught == "interrupted"
        assert tree(tmp_path) == before
        assert not (there / "sub").exists()
    assert calls[0] >= min(at, 3)


def run(code: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


FULL = """
import resource, sys
from opshift.passes.io.reader import load
from opshift.passes.io.writer import copy, save
from opshift.passes.base.errors import UsageError
source = load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    save(source.model, sys.argv[2], source=source)
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 1000, 60_000, 150_000])
def test_a_full_disk(tmp_path: Path, here: Path, there: Path, limit: int) -> None:
    """In a process that may write no larger files: the model has 100 kB, its weights have 200 kB."""
    source = with_weights(here, "w.bin", "sub/w.bin")
    (here / "sub" / "w.bin").write_bytes(bytes(200_000))
    source.model.graph.initializer.add(name="big", data_type=2, dims=[100_000], raw_data=bytes(100_000))
    (here / "in.onnx").write_bytes(source.model.SerializeToString())
    (there / "out.onnx").write_text("old")
    with unchanged(tmp_path):
        done = run(FULL, here / "in.onnx", there / "out.onnx", limit)
    assert "out.onnx' cannot be written: file too large" in done.stdout, done
    assert done.returncode == 0
    done = run(FULL, here / "in.onnx", here / "out.onnx", limit)  # nothing but the model is written here
    assert ("cannot be written" in done.stdout) == (limit < 100_000)
    assert ("out.onnx" in tree(here)) == (limit > 100_000)
    assert not [name for name in tree(here) if name.startswith(".opshift-")]


KILLED = """
import os, sys
from opshift.passes.io.reader import load
from opshift.passes.io.writer import save
source = load(sys.argv[1])
models = [source.model.__deepcopy__() for _ in range(2)]
for number, model in enumerate(models):
    model.producer_name = f"new {number}"
for _ in sys.stdin:  # each line starts another process, which saves until it is killed
    child = os.fork()
    while child == 0:
        for model in models:
            save(model, sys.argv[2], source=source)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to fork here")
def test_killed_at_any_moment(here: Path, there: Path) -> None:
    """The output is always one whole model, the weights are whole where they are, and nothing piles up."""
    source = with_weights(here, "w.bin", "sub/w.bin")
    data = random.Random(1).randbytes(300_000)
    (here / "sub" / "w.bin").write_bytes(data)
    source.model.graph.initializer.add(name="big", data_type=2, dims=[200_000], raw_data=bytes(200_000))
    (here / "in.onnx").write_bytes(source.model.SerializeToString())
    draw = random.Random(2)
    out = there / "out.onnx"
    seen: set[str] = set()
    most = 0
    command = [sys.executable, "-c", KILLED, str(here / "in.onnx"), str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for attempt in range(KILLS):
            if attempt % 20 == 19:
                shutil.rmtree(there)
                there.mkdir()
            server.stdin.write("\n")
            server.stdin.flush()
            child = int(server.stdout.readline())
            time.sleep(draw.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
            if out.exists():
                model = onnx.ModelProto.FromString(out.read_bytes())
                assert len(model.graph.initializer[2].raw_data) == 200_000
                assert (there / "sub" / "w.bin").read_bytes() == data  # they are there before the model is
                seen.add(model.producer_name)
            if (there / "sub" / "w.bin").exists():
                assert (there / "sub" / "w.bin").read_bytes() == data
            most = max(most, sum(path.name.startswith(".opshift-") for path in there.rglob("*")))
        server.stdin.close()
    assert seen == {"new 0", "new 1"}
    assert 1 <= most <= 3  # some were killed while they wrote, and none left more than its own files
    saved(load(here / "in.onnx"), out)
    assert set(tree(there)) == {"out.onnx", "w.bin", "sub/w.bin"}


@pytest.mark.slow
def test_a_conversion_that_is_killed_at_any_moment(here: Path, there: Path) -> None:
    """The command itself, with its child process: the output is the old file or the new one, and nothing piles up."""
    source = with_weights(here, "w.bin")
    source.model.graph.node.add(op_type="Hardmax", input=["y"], output=["z"], name="hot")
    source.model.graph.output[0].name = "z"
    (here / "in.onnx").write_bytes(source.model.SerializeToString())
    out = there / "out.onnx"
    command = [sys.executable, "-m", "opshift", "convert", str(here / "in.onnx"), "-o", str(out), "--opset"]
    begun = time.monotonic()
    subprocess.run([*command, "11"], check=True, capture_output=True, timeout=120)
    took = time.monotonic() - begun
    whole = {out.read_bytes()}
    subprocess.run([*command, "12"], check=True, capture_output=True, timeout=120)
    whole.add(out.read_bytes())
    before = tree(here)
    draw = random.Random(3)
    for attempt in range(max(4, KILLS // 12)):
        with subprocess.Popen([*command, "11" if attempt % 2 else "12"], stdout=-3, stderr=-3) as process:
            time.sleep(draw.uniform(0.6, 1.1) * took)
            process.kill()
        assert out.read_bytes() in whole
        assert tree(here) == before
        assert sum(path.name.startswith(".opshift-") for path in there.iterdir()) <= 2
    subprocess.run([*command, "11"], check=True, capture_output=True, timeout=120)
    assert set(tree(there)) == {"out.onnx", "w.bin"}


def unprivileged() -> list[str]:
    """Return what a command begins with so that permissions count for it: root passes over them."""
    if os.name != "posix":
        pytest.skip("permissions are those of POSIX")
    if os.getuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv, without which root passes over permissions")
    lost = "-dac_override,-dac_read_search,-fowner"
    return ["setpriv", f"--bounding-set={lost}", f"--inh-caps={lost}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.onnx", "new.onnx"])
def test_a_process_that_may_not_write_to_the_folder(here: Path, there: Path, name: str) -> None:
    plain(here)
    (there / "out.onnx").write_text("old")
    command = [sys.executable, "-m", "opshift", "convert", str(here / "in.onnx"), "-o", str(there / name)]
    command += ["--opset", "12"]
    there.chmod(0o555)
    try:
        with unchanged(there):
            done = subprocess.run([*unprivileged(), *command], capture_output=True, text=True, timeout=120, check=False)
    finally:
        there.chmod(0o755)
    assert done.returncode == 2
    assert "permission denied" in done.stderr
    assert "Traceback" not in done.stderr
    subprocess.run(command, capture_output=True, timeout=120, check=True)


WRITER = """
import sys, time
path, one, other = sys.argv[1:]
states = [open(name, "rb").read() for name in (one, other)]
print("begun", flush=True)
while True:
    for data in states:
        with open(path, "wb") as file:
            for at in range(0, len(data), 50):
                file.write(data[at : at + 50])
                file.flush()
        time.sleep(0.02)
"""


@pytest.mark.slow
def test_an_input_that_somebody_writes_all_the_while(here: Path, there: Path) -> None:
    """Of whatever is read: the output is what comes of one state of the file or the other, or there is none."""
    wanted = set()
    for name, changed in (("one", HARDMAX), ("other", HARDMAX.replace("Hardmax", "Softmax"))):
        model = parse(changed)
        model.doc_string = name * 200
        (here / name).write_bytes(model.SerializeToString())
        shutil.copy(here / name, here / f"{name}.onnx")
        assert main(["convert", str(here / f"{name}.onnx"), "-o", str(there / "out.onnx"), "--opset", "12"]) == 0
        wanted.add((there / "out.onnx").read_bytes())
        (there / "out.onnx").unlink()
    assert len(wanted) == 2
    became: Counter[int] = Counter()
    command = [sys.executable, "-c", WRITER, *(str(here / name) for name in ("in.onnx", "one", "other"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            for _ in range(300):
                status = main(
                    ["convert", str(here / "in.onnx"), "-o", str(there / "out.onnx"), "--opset", "12", "--no-verify"]
                )
                became[status] += 1
                assert (there / "out.onnx").exists() == (status == 0)
                if status == 0:
                    assert (there / "out.onnx").read_bytes() in wanted
                    (there / "out.onnx").unlink()
        finally:
            writer.kill()
    assert set(became) == {0, 2}


def test_a_folder_that_is_removed_while_a_model_is_converted(here: Path, there: Path) -> None:
    source = with_weights(here, "w.bin")
    real = copying.copy_file

    def late(origin: Path, *rest: object) -> None:
        real(origin, *rest)  # type: ignore[arg-type]
        shutil.rmtree(there)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "copy_file", late)
        assert "cannot be written" in fails(saved, source, there / "out.onnx")
    assert not there.exists()
    assert set(tree(here)) == {"in.onnx", "w.bin"}


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="file systems are mounted by root, on Linux")
def test_a_file_system_that_is_full(here: Path, there: Path) -> None:
    """A tmpfs of 200 kB, for a model of 150 kB that is there already."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", there], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        source = plain(here)
        source.model.graph.initializer.add(name="big", data_type=2, dims=[150_000], raw_data=bytes(150_000))
        saved(source, there / "out.onnx")
        with unchanged(there):
            assert "no space left on device" in fails(saved, source, there / "out.onnx")
            assert "no space left on device" in fails(saved, source, there / "another.onnx")
    finally:
        subprocess.run(["umount", there], check=True)


def test_a_file_that_somebody_is_writing_is_left_alone(here: Path, there: Path) -> None:
    source = plain(here)
    with Batch() as batch:
        file = batch.draft(there / "out.onnx")
        file.write(b"half")
        saved(source, there / "out.onnx")
        assert Path(file.name).exists()
    (there / Path(file.name).name).write_bytes(b"half")  # left behind by somebody who was killed
    (there / ".opshift-of-another-output.tmp").write_bytes(b"half")
    saved(source, there / "out.onnx")
    assert set(tree(there)) == {"out.onnx", ".opshift-of-another-output.tmp"}


def test_without_locks_nothing_is_swept_and_all_is_written(
    here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plain(here)
    with Batch() as batch:
        name = batch.draft(there / "out.onnx").name
    Path(name).write_bytes(b"half")

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    saved(source, there / "out.onnx")
    assert set(tree(there)) == {"out.onnx", Path(name).name}


@pytest.mark.parametrize("path", ["out.onnx", "in.onnx"])
def test_without_fcntl_as_on_windows(here: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = with_weights(here, "w.bin")
    monkeypatch.setattr(atomic_files, "fcntl", None)
    saved(source, here / path)
    assert onnx.load(here / path).producer_name == "changed"
    assert not [name for name in tree(here) if name.startswith(".opshift-")]


TOGETHER = """
import sys
from opshift.passes.io.reader import load
from opshift.passes.io.writer import save
source = load(sys.argv[1])
for _ in range(60):
    save(source.model, sys.argv[2], source=source)
"""


def test_two_conversions_to_one_output(here: Path, there: Path) -> None:
    with_weights(here, "w.bin")
    command = [sys.executable, "-c", TOGETHER, str(here / "in.onnx"), str(there / "out.onnx")]
    for process in [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert set(tree(there)) == {"out.onnx", "w.bin"}
    assert (there / "out.onnx").read_bytes() == (here / "in.onnx").read_bytes()


def test_copying_takes_no_memory(here: Path, there: Path) -> None:
    """A child process that copies 200 MB of weights stays far below that."""
    source = with_weights(here, "w.bin")
    assert source.directory == here
    with (here / "w.bin").open("r+b") as file:
        file.truncate(200_000_000)
    code = (
        "import sys; from resident import peak;"
        "from opshift.passes.io.reader import load; from opshift.passes.io.writer import copy;"
        "source = load(sys.argv[1]); before = peak(); copy(source, sys.argv[2]); print(peak() - before)"
    )
    grown = int(run(code, here / "in.onnx", there / "out.onnx", cwd=Path(__file__).parent).stdout)
    assert (there / "w.bin").stat().st_size == 200_000_000
    assert grown < 20_000_000
