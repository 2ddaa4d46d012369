"""What the installed onnxruntime cannot run: the target avoids it, and other conversions warn."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

import opshift
from opshift.cli.main import main
from opshift.opsets import kernels
from opshift.opsets.target import Target

ROI = """<ir_version: 8, opset_import: ["": 16]>
g (float[1,2,8,8] x, float[3,4] r, int64[3] b) => (float[3,2,1,1] y) { [roi] y = RoiAlign (x, r, b) }"""


@pytest.mark.skipif(kernels.runs("RoiAlign", 22), reason="this onnxruntime has the kernel")
def test_a_version_without_a_kernel_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = opshift.plan(parse_model(ROI), opset=22)
    (warning,) = plan.warnings
    assert (warning.node, warning.operator) == ("main/roi", "RoiAlign-22")
    assert onnxruntime.__version__ in warning.reason
    assert "opset 21" in warning.hint
    assert plan.to_json()["warnings"][0]["node"] == "main/roi"
    assert not opshift.plan(parse_model(ROI), opset=21).warnings
    assert not opshift.plan(parse_model(ROI), opset=22, target=Target("mine")).warnings
    file = tmp_path / "m.onnxtxt"
    file.write_text(ROI)
    assert main(["plan", str(file), "--opset", "22"]) == 0
    assert "warning: onnxruntime" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Mish", "HardSwish", "Gelu", "Softplus", "Elu"])
def test_the_target_onnxruntime_opens_bfloat16(name: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 22]>
    g (bfloat16[2,3] x) => (bfloat16[2,3] y) {{ y = {name} (x) }}"""
    result = opshift.convert(parse_model(text), target="onnxruntime", verify=False).model
    assert isinstance(result, onnx.ModelProto)
    onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
