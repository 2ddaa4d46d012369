"""The pass of onnx_ir: the same model as the command line's, beside passes of that library."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir
import pytest
from onnx_ir.passes.common import RemoveUnusedNodesPass
from refused import refused

import opshift
from opshift.cli.main import main
from opshift.ir import ConvertPass

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("*.onnxtxt"))


def loaded(path: Path, folder: Path) -> tuple[Path, onnx_ir.Model]:
    """Return a model as onnx_ir writes it, and as it reads it again."""
    file = folder / "model.onnx"
    onnx_ir.save(onnx_ir.from_proto(onnx.parser.parse_model(path.read_text(encoding="utf-8"))), file)
    return file, onnx_ir.load(file)


@pytest.mark.fast(6)
@pytest.mark.parametrize("opset", [11, 28])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_pass_makes_the_model_of_the_command_line(path: Path, opset: int, tmp_path: Path) -> None:
    file, model = loaded(path, tmp_path)
    before = onnx_ir.to_proto(model).SerializeToString()
    written, saved = tmp_path / "written.onnx", tmp_path / "saved.onnx"
    if main(["convert", str(file), str(written), "--opset", str(opset), "--no-verify", "--quiet"]):
        with pytest.raises(opshift.OpshiftError):
            ConvertPass(opset=opset, verify=False)(model)
        return
    done = ConvertPass(opset=opset, verify=False)(model)
    done.result.save(saved)
    assert saved.read_bytes() == written.read_bytes()
    assert onnx_ir.to_proto(done.model) == onnx_ir.to_proto(onnx_ir.load(written))
    assert onnx_ir.to_proto(model).SerializeToString() == before, "the given model stays as it is"
    assert done.modified is (written.read_bytes() != file.read_bytes())
    assert not ConvertPass(opset=opset, verify=False)(done).modified, "what is converted stays"


def test_it_runs_beside_other_passes_until_nothing_changes() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[n,4] x) => (float[n,4] y) {y = Hardmax (x) z = Neg (x)}'
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    passes = onnx_ir.passes.PassManager(
        [ConvertPass(decompose=["Hardmax"], opset=11), RemoveUnusedNodesPass()], steps=4
    )
    done = passes(model)
    assert done.modified
    assert not {"Hardmax", "Neg"} & {node.op_type for node in done.model.graph}
    assert not passes(done.model).modified


def test_the_result_has_plan_and_report() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[n,4] x) => (float[n,4] y) {y = Hardmax (x)}'
    done = ConvertPass(opset=11)(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    assert done.result.report is not None
    assert done.result.report.verdict == "equal"
    assert [step.operator for step in done.result.plan.steps] == ["Hardmax"]


def test_an_unknown_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="opsett"):
        ConvertPass(opsett=11)
    assert repr(ConvertPass(opset=11, target="opencv-4")) == "ConvertPass(opset=11, target='opencv-4')"


def test_a_refusal_names_the_node() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (uint4[n] x) => (uint4[n] y) {y = Identity (x)}'
    with refused("no-lowering: Identity at main/Identity_0"):
        ConvertPass(opset=13)(onnx_ir.from_proto(onnx.parser.parse_model(text)))
