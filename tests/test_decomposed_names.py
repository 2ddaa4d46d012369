"""What --decompose takes: operators by their bare names whatever their domain, and functions of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from opshift.passes.base.errors import UsageError

SWISH = parse_model(
    '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[1,4] x) => (float[1,4] y) '
    "{ a = local.act (x) y = local.twice (a) } "
    '<opset_import: ["" : 17], domain: "local"> act (a) => (b) { s = Sigmoid (a) b = Mul (a, s) } '
    '<opset_import: ["" : 17, "local" : 1], domain: "local"> twice (a) => (b) { c = local.act (a) b = Add (c, c) }'
)
FEEDS = {"x": np.array([[-2, 0, 1, 30]], np.float32)}
PLAIN = ["Sigmoid", "Mul", "Sigmoid", "Mul", "Add"]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def made(model: onnx.ModelProto, **request: Any) -> onnx.ModelProto:
    result = opshift.convert(model, **request)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert isinstance(result.model, onnx.ModelProto)
    return result.model


def test_functions_are_inlined_for_targets_that_load_none() -> None:
    for target in ("mnn", "opencv-4", "openvino", "rknn", "tensorrt-8", "tensorrt-8.6"):
        found = made(SWISH, target=target)
        assert (operators(found), len(found.functions)) == (PLAIN, 0), target
        assert [entry.domain for entry in found.opset_import] == [""], target
        assert np.array_equal(run(found, [FEEDS])[0][0], run(SWISH, [FEEDS])[0][0]), target
    assert len(made(SWISH, target="tensorrt-10").functions) == 2


def test_opencv_runs_what_it_did_not_load() -> None:
    cv2 = pytest.importorskip("cv2")

    def outputs(model: onnx.ModelProto) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        net = cv2.dnn.readNetFromONNX(np.frombuffer(model.SerializeToString(), np.uint8))
        net.setInput(FEEDS["x"])
        found: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = net.forward()
        return found

    with pytest.raises(cv2.error):
        outputs(SWISH)
    there = made(SWISH, target="opencv-4")
    assert np.allclose(outputs(there), run(SWISH, [FEEDS])[0][0], rtol=2**-20)


@pytest.mark.parametrize("names", [["act"], ["local"], ["local::twice"], ["twice", "Hardmax"]], ids=str)
def test_functions_are_decomposed_by_name_domain_or_both(names: Sequence[str]) -> None:
    found = made(SWISH, decompose=names)
    assert (operators(found), len(found.functions)) == (PLAIN, 0)


def test_what_was_inlined_is_noted() -> None:
    result = opshift.convert(SWISH, decompose=["local"])
    assert [note for note in result.notes if "function" in note] == ["2 functions were inlined."]
    assert not [note for note in result.notes if "Nothing to decompose" in note]


OTHERS = {
    "FusedMatMul": ("com.microsoft", "FusedMatMul <alpha = 2.0>", "(float[2,3] x, float[3,2] z) => (float[2,2] y)"),
    "Binarizer": ("ai.onnx.ml", "Binarizer <threshold = 0.5>", "(float[2,3] x) => (float[2,3] y)"),
    "SimplifiedLayerNormalization": (
        "",
        "SimplifiedLayerNormalization",
        "(float[2,3] x, float[3] z) => (float[2,3] y)",
    ),
    "SkipSimplifiedLayerNormalization": (
        "com.microsoft",
        "SkipSimplifiedLayerNormalization",
        "(float[1,2,4] x, float[1,2,4] z, float[4] w) => (float[1,2,4] y)",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_operators_of_other_domains_need_no_domain(name: str) -> None:
    domain, call, signature = OTHERS[name]
    imports = f', "{domain}" : 1' if domain else ""
    dot = f"{domain}." if domain else ""
    operator = call.split()[0]
    inputs = ", ".join(part.split()[-1] for part in signature.split(" => ")[0].strip("()").split(", "))
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : 17{imports}]> g {signature} {{ y = {dot}{call} ({inputs}) }}'
    )
    result = opshift.convert(model, decompose=[operator])
    assert isinstance(result.model, onnx.ModelProto)
    assert operator not in operators(result.model)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert not [note for note in result.notes if "Nothing to decompose" in note]


def test_a_map_that_became_a_tensor_is_not_missed() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[n,2] x) => (float[n,2] y) '
        "{ s = Abs (x) y = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (s) }"
    )
    labels = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, None))
    model.graph.output[0].CopyFrom(onnx.helper.make_value_info("y", onnx.helper.make_sequence_type_proto(labels)))
    requests: tuple[dict[str, Any], ...] = ({"decompose": ["ZipMap"]}, {})
    for request in requests:
        result = opshift.convert(model, **request, assume=["tensor-output"])
        assert isinstance(result.model, onnx.ModelProto)
        assert operators(result.model) == ["Abs"]
        assert not [note for note in result.notes if "Nothing to decompose" in note]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("zipmap", "ZipMap"), ("MatMulNBit", "MatMulNBits"), ("akt", "act"), ("hardmax", "Hardmax")],
)
def test_an_unknown_name_gets_the_nearest_of_any_domain(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=rf"There is no operator '{name}'; did you mean {hint}\?"):
        opshift.plan(SWISH, decompose=[name])
