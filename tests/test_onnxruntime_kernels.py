"""What the installed onnxruntime cannot run: the target avoids it, and other conversions warn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

import opshift
from opshift.cli.main import main
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.target import Target

ROI = """<ir_version: 8, opset_import: ["": 16]>
g (float[1,2,8,8] x, float[3,5] r) => (float[3,2,2,2] y) { [roi] y = MaxRoiPool <pooled_shape = [2, 2]> (x, r) }"""


@pytest.mark.skipif(kernels.runs("MaxRoiPool", 22), reason="this onnxruntime has the kernel")
def test_a_version_without_a_kernel_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = opshift.plan(parse_model(ROI), opset=22)
    (warning,) = plan.warnings
    assert (warning.node, warning.operator) == ("main/roi", "MaxRoiPool-22")
    assert onnxruntime.__version__ in warning.reason
    assert "opset 21" in warning.hint
    assert plan.to_json()["warnings"][0]["node"] == "main/roi"
    assert not opshift.plan(parse_model(ROI), opset=21).warnings
    assert not opshift.plan(parse_model(ROI), opset=22, target=Target("mine")).warnings
    file = tmp_path / "m.onnxtxt"
    file.write_text(ROI)
    assert main(["plan", str(file), "--opset", "22"]) == 0
    assert "warning: onnxruntime" in capsys.readouterr().err


@pytest.mark.skipif(kernels.runs("RandomUniformLike", 22), reason="this onnxruntime has the kernel")
def test_a_body_without_kernels_is_named() -> None:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2] x) => (float[2] y) { [drawn] y = Bernoulli (x) }"""
    (warning,) = opshift.plan(parse_model(text), opset=22).warnings
    assert (warning.node, warning.operator) == ("main/drawn", "Bernoulli-22")
    assert not opshift.plan(parse_model(text), opset=21).warnings


LOSING = {
    **{
        f"{name} of float16": ("int64 x", "float16[n] y", f"{name} <output_datatype = 10> (x)", 17, 27)
        for name in ("BlackmanWindow", "HammingWindow", "HannWindow")
    },
    "Mish of double": ("double[3] x", "double[3] y", "Mish (x)", 18, 22),
    "DepthToSpace of uint8": ("uint8[1,4,2,2] x", "uint8[1,1,4,4] y", "DepthToSpace <blocksize = 2> (x)", 11, 10),
    "DepthToSpace of int8": ("int8[1,4,2,2] x", "int8[1,1,4,4] y", "DepthToSpace <blocksize = 2> (x)", 26, 9),
    "GridSample of double": (
        "double[1,1,3,3] x, double[1,2,2,2] p",
        "double[1,1,2,2] y",
        'GridSample <mode = "nearest"> (x, p)',
        20,
        16,
    ),
    "HardSigmoid of double": ("double[3] x", "double[3] y", "HardSigmoid (x)", 18, 7),
    "Max of double": ("double[3] x, double[3] p", "double[3] y", "Max (x, p)", 12, 7),
    "MaxPool of double": ("double[1,1,4] x", "double[1,1,3] y", "MaxPool <kernel_shape = [2]> (x)", 10, 7),
    "Min of double": ("double[3] x, double[3] p", "double[3] y", "Min (x, p)", 8, 7),
    "Pad of bool": ("bool[3] x, int64[2] p", "bool[n] y", "Pad (x, p)", 13, 12),
    "Relu of int32": ("int32[3] x", "int32[3] y", "Relu (x)", 14, 13),
    "Relu of int64": ("int64[3] x", "int64[3] y", "Relu (x)", 18, 19),
    "ThresholdedRelu of double": ("double[3] x", "double[3] y", "ThresholdedRelu (x)", 18, 20),
    "Transpose of int4": ("int4[3,2] x", "int4[2,3] y", "Transpose (x)", 24, 21),
}
"""Nodes that onnxruntime 1.32.0 runs at one opset, and at another not of this type, or just so."""


def _in_place(place: str, inputs: str, output: str, call: str, source: int) -> onnx.ModelProto:
    names = ", ".join(one.split()[-1] for one in inputs.split(", ") if " " in one)
    attributed = f'<ir_version: 10, opset_import: ["": {source}, "local": 1]>'
    if place == "graph":
        return parse_model(f"{attributed} g ({inputs}) => ({output}) {{ y = {call} }}")
    if place == "twice":
        return parse_model(f"{attributed} g ({inputs}) => ({output}, {output[:-1]}z) {{ y = {call} z = {call} }}")
    return parse_model(f"""{attributed} g ({inputs}) => ({output}) {{ y = local.F ({names}) }}
        <domain: "local", opset_import: ["": {source}]> F ({names}) => (y) {{ y = {call} }}""")


@pytest.mark.parametrize("place", ["graph", "twice", "function"])
@pytest.mark.parametrize("name", LOSING)
def test_a_type_without_a_kernel_is_replaced_or_named(name: str, place: str) -> None:
    inputs, output, call, source, target = LOSING[name]
    model = _in_place(place, inputs, output, call, source)
    _opens(model)
    try:
        result = opshift.convert(model, opset=target)
    except opshift.UnsupportedError:
        return
    warnings = result.plan.warnings
    assert not opshift.plan(model, opset=target, target=Target("mine")).warnings
    if warnings:
        assert len(warnings) == (2 if place == "twice" else 1)
        assert {one.operator.split("-")[0] for one in warnings} == {name.split()[0]}
        assert all(f" {name.split()[-1]}." in one.reason for one in warnings)
        with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|not currently registered|Failed to find kernel"):
            _opens(result.rewritten)
    else:
        _opens(result.rewritten)


@pytest.mark.parametrize("target", [10, 13, 18])
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_a_body_without_types_that_fit_is_replaced(kind: str, target: int) -> None:
    """Those of MeanVarianceNormalization add a float to float16; where none is inlined the kernel for float runs."""
    text = f"g ({kind}[1,2,3,3] x) => ({kind}[1,2,3,3] y) {{ y = MeanVarianceNormalization (x) }}"
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    _opens(model)
    rewritten = opshift.convert(model, opset=target).rewritten
    _opens(rewritten)
    kept = [node.op_type for node in rewritten.graph.node] == ["MeanVarianceNormalization"]
    assert kept is (kind == "float")


def _opens(model: onnx.ModelProto) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_a_node_that_onnxruntime_did_not_run_before_is_not_named() -> None:
    text = """<ir_version: 8, opset_import: ["": 7]> g (double[2] x) => (double[2] y) { y = Min (x, x) }"""
    assert not opshift.plan(parse_model(text.replace("7", "8")), opset=9).warnings
    assert not opshift.plan(parse_model(text), opset=8).warnings
    floats = text.replace("double", "float").replace("7", "12")
    assert not opshift.plan(parse_model(floats), opset=7).warnings


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Mish", "HardSwish", "Gelu", "Softplus", "Elu"])
def test_the_target_onnxruntime_opens_bfloat16(name: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 22]>
    g (bfloat16[2,3] x) => (bfloat16[2,3] y) {{ y = {name} (x) }}"""
    result = opshift.convert(parse_model(text), target="onnxruntime", verify=False).model
    assert isinstance(result, onnx.ModelProto)
    onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])


FAR = {
    "ReduceLogSumExp": ([[100, 100, -np.inf], [-200, -200, -200]], [[np.log(2) + 100], [np.log(3) - 200]], "float"),
    "ReduceLogSum": ([[3e4, 5e4, 6e4], [1, 1, 1]], [[np.log(14e4)], [np.log(3)]], "float16"),
    "Softplus": ([[800, -800, 0]], [[800, 0, np.log(2)]], "double"),
}
"""By operator: an input on which its body overflows, what it computes, and the element type of both."""


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize(("source", "opset"), [(18, 28), (13, 28), (28, 18), (28, 13), (28, None)])
def test_a_body_that_overflows_neither_runs_nor_judges(name: str, source: int, opset: int | None) -> None:
    given, wanted, kind = FAR[name]
    axes = "" if name == "Softplus" else "<axes = [1]>" if source < 18 else ", a"
    constants = "<int64[1] a = {1}>" if axes == ", a" else ""
    call = f"{name} (x{axes})" if constants else f"{name} {axes} (x)"
    text = f"""<ir_version: 8, opset_import: ["": {source}]>
    g ({kind}[N,3] x) => ({kind}[N,K] y) {constants} {{ y = {call} }}"""
    result = opshift.convert(parse_model(text), opset=opset, target=None if opset else "onnxruntime")
    assert result.report is not None
    assert result.report.verdict == "equal"
    session = onnxruntime.InferenceSession(result.rewritten.SerializeToString(), providers=["CPUExecutionProvider"])
    dtype = np.dtype({"float": "f4", "double": "f8", "float16": "f2"}[kind])
    (found,) = session.run(None, {"x": np.array(given, dtype)})
    np.testing.assert_allclose(found, np.array(wanted, dtype), rtol=4 * np.finfo(dtype).eps, atol=1e-300)
