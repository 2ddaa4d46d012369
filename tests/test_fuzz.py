"""Adversarial models in bulk: each is converted, or refused in words, in bounded time."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fuzz
import onnx
import onnx.helper
import onnx.parser
import pytest
from fuzz import FINDS, FIXTURES, examine

from opshift.cli.main import main
from opshift.passes.base.errors import InvalidModelError
from opshift.passes.io import model_checks, reader

pytestmark = pytest.mark.slow

FOUND = sorted(path.stem for path in FINDS.glob("*.onnx"))
HEAD = '<ir_version: 8, opset_import: ["":13]> '


def parse(graph: str) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx.parser.parse_model(HEAD + graph)


# --- what was found ---


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_before(tmp_path: Path, name: str) -> None:
    data = (FINDS / f"{name}.onnx").read_bytes()
    assert examine(data, tmp_path) in ("not read", "invalid", "refused", "converted")
    (tmp_path / "m.onnx").write_bytes(data)
    for arguments in (["inspect"], ["plan", "--opset", "11"], ["convert", "--opset", "18", "-o", f"{tmp_path}/o.onnx"]):
        assert main([arguments[0], str(tmp_path / "m.onnx"), *arguments[1:]]) in (0, 1, 2)


def test_the_harness_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FINDS / "more-elements-than-the-shape-has.onnx").read_bytes()
    monkeypatch.setattr(model_checks, "_check_entries", lambda tensor: None)
    with pytest.raises(ValueError, match="cannot reshape"):
        examine(data, tmp_path)


# --- in bulk ---


@pytest.mark.parametrize(
    ("name", "masks"),
    [("hardmax-opset12", (1, 4, 128, 255)), ("onehot-constant-opset11", (1,)), ("in-if-opset11", (1,))],
)
def test_every_truncation_and_every_flipped_byte(tmp_path: Path, name: str, masks: tuple[int, ...]) -> None:
    data = onnx.parser.parse_model((FIXTURES / f"{name}.onnxtxt").read_text()).SerializeToString()
    spoilt = [data[:length] for length in range(len(data))]
    spoilt += [data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for at in range(len(data)) for mask in masks]
    became = {examine(candidate, tmp_path) for candidate in spoilt}
    assert became >= {"not read", "converted"}


def test_text_that_is_cut_off_or_has_another_letter_anywhere(tmp_path: Path) -> None:
    text = (FIXTURES / "in-function-attribute-opset11.onnxtxt").read_text()
    spoilt = [text[:length] for length in range(0, len(text), 2)]
    spoilt += [text[:at] + letter + text[at + 1 :] for at in range(0, len(text), 3) for letter in '"<}9\x1b']
    words = []
    for candidate in spoilt:
        (tmp_path / "m.onnxtxt").write_text(candidate)
        try:
            reader.load(tmp_path / "m.onnxtxt")
        except InvalidModelError as error:
            words.append(str(error))
    assert len(words) > len(spoilt) / 2
    assert all(text.isprintable() for text in words)


def ran(*arguments: str, timeout: int = 300) -> str:
    """Run the fuzzer in a process of its own, since what it looks for may end one; it must not end with a find."""
    command = [sys.executable, str(Path(fuzz.__file__)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def test_random_mutations(tmp_path: Path) -> None:
    printed = ran("--number", "1000", "--seconds", "30", "--seed", "0", "--find", str(tmp_path / "find"))
    assert "'converted'" in printed
    assert "'not read'" in printed


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed: it has no wheel here"
)
def test_mutations_guided_by_coverage(tmp_path: Path) -> None:
    arguments = ["--corpus", str(tmp_path / "corpus"), "--find", str(tmp_path / "find")]
    executed = 0
    for seconds in ("12", "90"):  # beside other tests 12 may be too few
        printed = ran("--atheris", "--seconds", seconds, "--seed", "1", *arguments)
        line = next(line for line in printed.splitlines() if "number_of_executed_units" in line)
        if (executed := int(line.split()[-1])) > 2 * fuzz.SAMPLED:
            break
    assert executed > 2 * fuzz.SAMPLED


# --- what is declared, and is too much ---


def deep(depth: int) -> onnx.ModelProto:
    """A Hardmax in Ifs inside each other."""
    model = onnx.parser.parse_model(HEAD + "g (bool c, float[2,3] x) => (float[2,3] y) { y = Hardmax<axis = 0>(x) }")
    node = onnx.NodeProto()
    node.CopyFrom(model.graph.node[0])
    node.output[0] = "h"
    for level in range(depth):
        outer = onnx.NodeProto(op_type="If", input=["c"], output=[f"o{level}" if level < depth - 1 else "y"])
        other = onnx.NodeProto(op_type="Identity", input=["x"], output=[f"e{level}"])
        for name, inner in (("then_branch", node), ("else_branch", other)):
            attribute = outer.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
            attribute.g.name = f"{name}{level}"
            attribute.g.node.append(inner)
            attribute.g.output.append(onnx.helper.make_tensor_value_info(inner.output[0], 1, [2, 3]))
        node = outer
    model.graph.node[0].CopyFrom(node)
    return model


def doubled(depth: int) -> onnx.ModelProto:
    """Functions that each call the next twice."""
    text = '<ir_version: 8, opset_import: ["":13, "l":1]> g (float[2,3] x) => (float[2,3] y) { y = l.f0(x) }'
    for level in range(depth):
        body = f"c = l.f{level + 1}(a) b = l.f{level + 1}(c)"
        text += f'<domain: "l", opset_import: ["":13, "l":1]> f{level} (a) => (b) {{ {body} }}'
    text += f'<domain: "l", opset_import: ["":13, "l":1]> f{depth} (a) => (b) {{ b = Hardmax<axis = 0>(a) }}'
    return onnx.parser.parse_model(text)


def negative() -> onnx.ModelProto:
    model = parse("g (float[2,3] x) => (float[n,3] y) { y = Hardmax<axis = 0>(x) }")()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -2
    return model


def misdeclared() -> onnx.ModelProto:
    model = parse("g (float[2,3] x) => (float[2,3] y) { z = Relu(x) y = Hardmax<axis = 0>(z) }")()
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("z", 1, [10**8, 10**7]))
    return model


LONG = "<int64[2] s = {100000000, 10000000}>"
HUGE = 2**62
EXCESSIVE: dict[str, tuple[Callable[[], onnx.ModelProto], int]] = {
    "31 Ifs inside each other": (lambda: deep(31), 0),
    "as many as protobuf does not read": (lambda: deep(32), 2),
    "12 functions that call the next twice": (lambda: doubled(9), 0),
    "ConstantOfShape of 1e15 elements": (
        parse(f"g (float[2,3] x) => (float[n,m] y) {LONG} {{ z = ConstantOfShape(s) y = Hardmax<axis = 0>(z) }}"),
        1,
    ),
    "Expand to 1e15 elements": (
        parse(f"g (float[1,1] x) => (float[n,m] y) {LONG} {{ z = Expand(x, s) y = Hardmax<axis = 0>(z) }}"),
        1,
    ),
    "an input of 1e15 elements": (
        parse("g (float[100000000,10000000] x) => (float[100000000,10000000] y) { y = Hardmax<axis = 0>(x) }"),
        1,
    ),
    "an input of 2^64 elements": (parse(f"g (float[{HUGE},4] x) => (float[n,m] y) {{ y = Hardmax<axis = 0>(x) }}"), 1),
    "OneHot of depth 2^62": (
        parse(
            f"g (int64[3] x) => (float[n,m] y) <int64 d = {{{HUGE}}}, float[2] v = {{0,1}}> {{ y = OneHot(x, d, v) }}"
        ),
        0,
    ),
    "OneHot of negative depth": (
        parse("g (int64[3] x) => (float[n,m] y) <int64 d = {-5}, float[2] v = {0, 1}> { y = OneHot(x, d, v) }"),
        0,
    ),
    "Range to 2^62": (
        parse(
            f"g (float[3] x) => (int64[n] y) <int64 a = {{0}}, int64 b = {{{HUGE}}}, int64 c = {{1}}> "
            "{ y = Range(a, b, c) }"
        ),
        0,
    ),
    "Tile 2^62 times": (parse(f"g (float[3] x) => (float[n] y) <int64[1] r = {{{HUGE}}}> {{ y = Tile(x, r) }}"), 2),
    "Pad by 2^62": (parse(f"g (float[3] x) => (float[n] y) <int64[2] r = {{{HUGE}, 1}}> {{ y = Pad(x, r) }}"), 0),
    "a negative dimension, which is one that is not known": (negative, 0),
    "an input named as an output": (parse("g (float[2,3] x) => (float[2,3] x) { y = Hardmax<axis = 0>(x) }"), 0),
    "an output twice": (parse("g (float[2,3] x) => (float[2,3] y, float[2,3] y) { y = Hardmax<axis = 0>(x) }"), 0),
    "a value of another shape than is declared": (misdeclared, 1),
}


@pytest.mark.parametrize("name", EXCESSIVE)
def test_what_is_too_much(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    make, status = EXCESSIVE[name]
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(make().SerializeToString())
    begun = time.monotonic()
    limits = ["--timeout", "10", "--memory", "2G"]
    assert main(["convert", str(path), "--opset", "11", "-o", str(out), *limits]) == status
    assert main(["inspect", str(path)]) in (0, 2)
    assert time.monotonic() - begun < 60
    assert out.exists() == (status == 0)
    assert "Traceback" not in "".join(capsys.readouterr())
