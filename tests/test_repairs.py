"""Defects that others tolerate: two nodes of one name, and nodes in the wrong order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnxruntime
import pytest

import opshift
from opshift.cli.main import main
from opshift.passes.base.errors import InvalidModelError
from opshift.passes.base.report import Verdict

HEAD = '<ir_version: 8, opset_import: ["":17, "f":1]> g (float[2] x, bool b) => (float[2] y)'
IF = "y = If(b)<then_branch = t () => (float[2] u) {%s}, else_branch = e () => (float[2] v) {[n] v = Neg(x)}>"
FUNCTION = '{y = f.F(x)} <domain: "f", opset_import: ["":17]> F (x) => (y)'
TWICE = {
    "main": "{[n] a = Abs(x) [n] c = Neg(a) [n_1] y = Neg(c)}",
    "subgraph": f"{{{IF % '[n] a = Abs(x) [n] u = Neg(a)'}}}",
    "function": f"{FUNCTION} {{[n] a = Abs(x) [n] y = Neg(a)}}",
}
UNSORTED = {
    "main": "{y = Neg(c) c = Neg(a) a = Abs(x)}",
    "subgraph": f"{{{IF % 'u = Neg(a) a = Abs(x)'}}}",
    "read in a subgraph": f"{{{IF % 'u = Neg(a)'} a = Abs(x)}}",
    "function": f"{FUNCTION} {{y = Neg(a) a = Abs(x)}}",
}
CASES = {f"name {place}": ("name", body) for place, body in TWICE.items()} | {
    f"order {place}": ("order", body) for place, body in UNSORTED.items()
}


def run(model: onnx.ModelProto, *, taken: bool) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": np.array([-2, 3], np.float32), "b": np.array(taken)}
    known = {value.name for value in session.get_inputs()}
    return session.run(None, {name: value for name, value in feeds.items() if name in known})[0]


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("case", CASES)
def test_tolerated_defects_are_repaired_with_a_note(case: str, opset: int, tmp_path: Path) -> None:
    what, body = CASES[case]
    model = onnx.parser.parse_model(f"{HEAD} {body}")
    before = model.SerializeToString()
    (note,) = opshift.convert(model, opset=opset).repairs
    assert note.startswith("Renamed 1 node of" if what == "name" else "Sorted the nodes of")
    assert model.SerializeToString() == before
    path = tmp_path / "model.onnx"
    path.write_bytes(before)
    result = opshift.convert(path, opset=opset)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    result.save(tmp_path / "out.onnx")
    saved = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(saved, full_check=True)
    for taken in (True, False):
        expected = [2, 3] if "main" in case else [2, -3] if "graph" in case and not taken else [-2, -3]
        np.testing.assert_array_equal(run(saved, taken=taken), expected)


@pytest.mark.parametrize("body", ["{y = Add(a, x) a = Abs(y)}", "{a = Abs(q) y = Neg(a)}"])
def test_cycles_and_missing_values_are_no_defects_to_repair(body: str) -> None:
    with pytest.raises(InvalidModelError, match="not computed before it"):
        opshift.convert(onnx.parser.parse_model(f"{HEAD} {body}"), opset=21)


def test_the_order_stays_as_far_as_it_can() -> None:
    body = "{a = Abs(x) y = Add(c, d) d = Neg(a) c = Abs(a) e = Neg(c)}"
    result = opshift.convert(onnx.parser.parse_model(f"{HEAD} {body}"), opset=17)
    assert [node.output[0] for node in result.rewritten.graph.node] == ["a", "d", "c", "y", "e"]


def test_the_command_line_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(f"{HEAD} {TWICE['main']}").SerializeToString())
    assert main(["convert", str(path), "-o", str(tmp_path / "out.onnx"), "--opset", "17"]) == 0
    said = capsys.readouterr().out
    assert "Renamed 1 node of 'main'" in said
    assert "is a copy" not in said
