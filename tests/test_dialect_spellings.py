"""Operators that onnxruntime registers in the default domain, where ONNX does not have them: read, and replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from running import run

import opshift
from opshift.cli.main import main
from opshift.opsets.registry import dialect
from opshift.opsets.registry.schema import is_dialect, schema_at, schema_read_at
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict


def model(body: str, opset: int, outputs: str = "float[2,3,4] y") -> onnx.ModelProto:
    inputs = "float[2,3,4] x, float[4] g, float[4] b"
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )


BOTH = "float[2,3,4] y, float[2,3,1] v"
SIMPLIFIED = "y = SimplifiedLayerNormalization <epsilon = 0.01> (x, g)"
CASES = [
    (SIMPLIFIED, 14, "float[2,3,4] y", 9, "ReduceMean"),
    (SIMPLIFIED, 14, "float[2,3,4] y", 14, "ReduceMean"),
    (SIMPLIFIED, 18, "float[2,3,4] y", 23, "RMSNormalization"),
    ("y, v = SimplifiedLayerNormalization <axis = 2> (x, g)", 17, BOTH, 17, "ReduceMean"),
    ("y, v = SimplifiedLayerNormalization (x, g)", 17, BOTH, 23, "RMSNormalization"),
    ("y = LayerNormalization (x, g, b)", 14, "float[2,3,4] y", 9, "ReduceMean"),
    ("y = LayerNormalization (x, g, b)", 14, "float[2,3,4] y", 14, "ReduceMean"),
    ("y = LayerNormalization (x, g, b)", 11, "float[2,3,4] y", 17, "LayerNormalization"),
]


@pytest.mark.fast(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}: {case[1]} to {case[3]}")
def test_an_operator_of_onnxruntime_in_the_default_domain_is_replaced(case: tuple[str, int, str, int, str]) -> None:
    body, opset, outputs, target, contains = case
    source = model(body, opset, outputs)
    result = opshift.convert(source, opset=target, require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    onnx.checker.check_model(result.model, full_check=True)
    assert contains in [node.op_type for node in result.model.graph.node]
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("x", (2, 3, 4)), ("g", 4), ("b", 4))}
    for before, after in zip(run(source, [feeds])[0], run(result.model, [feeds])[0], strict=True):
        assert np.abs(before - after).max() <= 64 * np.finfo(np.float32).eps * np.abs(before).max()


def test_a_stray_operator_is_compared_with_its_oracle() -> None:
    source = model("y, , , s = SkipSimplifiedLayerNormalization (x, x, g)", 17, "float[2,3,4] y, float[2,3,4] s")
    result = opshift.convert(source, opset=23)
    assert result.report is not None
    assert [(check.judge, check.verdict) for check in result.report.nodes] == [("numpy oracle", Verdict.EQUAL)]
    assert [node.op_type for node in result.model.graph.node] == ["Add", "RMSNormalization"]  # type: ignore[union-attr]


def test_every_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = str(tmp_path / "before.onnx"), str(tmp_path / "after.onnx")
    onnx.save(model(SIMPLIFIED, 14), before)
    assert main(["inspect", before]) == 0
    assert main(["plan", before, "--opset", "13"]) == 0
    assert main(["convert", before, after, "--opset", "13"]) == 0
    assert main(["verify", before, after]) == 0
    assert "equal" in capsys.readouterr().out


def test_one_in_a_subgraph_and_one_in_a_function_are_read() -> None:
    text = """<ir_version: 8, opset_import: ["": 16, "f": 1]>
    g (float[2,4] x, float[4] g, bool c) => (float[2,4] y, float[2,4] z) {
        y = If (c) <then_branch = a () => (float[2,4] p) { p = SimplifiedLayerNormalization (x, g) },
                    else_branch = b () => (float[2,4] q) { q = Identity (x) }>
        z = f.F (x, g)
    }
    <domain: "f", opset_import: ["": 16]> F (a, s) => (b) { b = SimplifiedLayerNormalization (a, s) }"""
    # onnxruntime 1.32.0 ends its process on the whole model: on a function that has one.
    result = opshift.convert(onnx.parser.parse_model(text), opset=13, verify="nodes")
    assert isinstance(result.model, onnx.ModelProto)
    onnx.checker.check_model(result.model, full_check=True)
    assert result.report is not None
    assert [check.verdict for check in result.report.nodes] == [Verdict.EQUAL] * 2


def test_what_is_not_replaced_is_refused_by_name() -> None:
    (refusal,) = opshift.plan(model("y = GRUUnit (x, x, g, b)", 11), opset=12).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert "onnxruntime has" in refusal.reason


def test_an_unknown_operator_is_invalid_still() -> None:
    with pytest.raises(opshift.InvalidModelError):
        opshift.plan(model("y = SimplifiedLayerNorm (x, g)", 14), opset=12)


def test_an_opset_that_has_the_operator_has_onnx_s_own() -> None:
    assert "LayerNormalization" in dialect.operators("")
    old, new = (schema_read_at("", "LayerNormalization", opset) for opset in (16, 17))
    assert old is not None
    assert new is not None
    assert is_dialect(old)
    assert not is_dialect(new)
    assert schema_at("", "LayerNormalization", 16) is None
