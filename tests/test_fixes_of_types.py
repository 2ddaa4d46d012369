"""Fixes that errors about element types and opsets name, and that work."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

import opshift
from opshift.passes.base.errors import InvalidModelError, UnsupportedError

HOT = str(Path(__file__).resolve().parent.parent / "fixtures" / "onehot-bfloat16-opset28.onnxtxt")
INSIDE = (
    '<ir_version: 8, opset_import: ["": 17]> g (float[1,4] x) => (float[1,4] y) '
    "{ c = Cast <to = 16> (x) m = MatMul (c, c2) y = Cast <to = 1> (m) }"
)


def product() -> onnx.ModelProto:
    model = parse_model(INSIDE)
    kind = onnx.TensorProto.BFLOAT16
    model.graph.initializer.append(onnx.helper.make_tensor("c2", kind, [4, 4], [0.5 * one for one in range(16)]))
    return model


@pytest.mark.parametrize("io_types", [False, True])
def test_bfloat16_below_13_goes_as_the_refusal_says(io_types: bool) -> None:
    model = HOT if io_types else product()
    with pytest.raises(UnsupportedError) as refused:
        opshift.convert(model, opset=11)
    assert any("--types bfloat16=float" in refusal.hint for refusal in refused.value.refusals)
    result = opshift.convert(model, opset=11, types={"bfloat16": "float"}, io_types=io_types)
    assert isinstance(result.model, onnx.ModelProto)
    onnx.checker.check_model(result.model, full_check=True)
    if io_types:  # no model of opset 11 is fed with bfloat16, so that nothing is compared
        assert result.report is not None
        assert result.report.verdict == "unchecked"
        assert "bfloat16, to which opset 11 casts nothing" in result.report.whole.reason
    else:
        assert result.report is not None
        assert result.report.verdict == "equal"


def test_a_model_without_opset_is_read_as_the_error_says() -> None:
    model = parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }')
    del model.opset_import[:]
    with pytest.raises(InvalidModelError, match="--assume-opset"):
        opshift.convert(model, opset=11)
    report = opshift.convert(model, opset=11, assume_opset=17).report
    assert report is not None
    assert report.verdict == "equal"


def test_both_inputs_of_two_types_are_named() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float16[2] x, float[2] z) => (float16[2] y) { y = Add (x, z) }'
    )
    wanted = r"its inputs 'A' and 'B' are of one type, and here tensor\(float16\) and tensor\(float\)"
    with pytest.raises(InvalidModelError, match=wanted):
        opshift.convert(model, opset=12)
    with pytest.raises(InvalidModelError, match=wanted):
        opshift.convert(model, types={"float": "float16"})


def test_types_of_what_has_no_kernel_are_changed_after_it_is_replaced() -> None:
    """onnxruntime has no MatMul of bfloat16, by which narrower floats would be chosen."""
    with pytest.raises(UnsupportedError) as refused:
        opshift.convert(product(), types={"bfloat16": "float16"})
    assert "--target onnxruntime first" in refused.value.refusals[0].hint
    first = opshift.convert(product(), target="onnxruntime").model
    assert isinstance(first, onnx.ModelProto)
    report = opshift.convert(first, types={"bfloat16": "float16"}).report
    assert report is not None
    assert report.verdict == "within bound"


def test_inputs_that_choose_narrower_floats_may_be_empty() -> None:
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (double[2,N] x) => (double[2,N] y, float[2,1] m)
        <double[1] s = {2}> { y, m = LayerNormalization<axis = -1>(x, s) }"""
    )
    report = opshift.convert(model, types={"float": "float16"}).report
    assert report is not None
    assert report.verdict in ("equal", "within bound")
