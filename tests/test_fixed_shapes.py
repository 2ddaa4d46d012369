"""Shapes of inputs are part of the request: written into the model, and refused if they contradict it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import opshift
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.errors import UnsupportedError, UsageError
from opshift.passes.base.plan import Action
from opshift.passes.base.report import Verdict

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
TWO = HEAD + (
    "g (float[batch,3,h,w] images, float[batch,4] boxes, float[k] scores) => (float[batch,r] y, float[a] z, float[b] s)"
    " { r = Flatten (images) t = ReduceSum <keepdims = 0> (boxes) y = Add (r, t) i = Constant <value_ints = [-1]> () "
    "z = Reshape (boxes, i) s = Relu (scores) }"
)


def shapes(model: Any) -> dict[str, list[Any]]:
    """Return the declared shapes of inputs, outputs and other values."""
    graph = model.graph
    return {
        value.name: [dim.dim_param or dim.dim_value or None for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output, *graph.value_info)
    }


def fixed(text: str = TWO, **asked: Any) -> dict[str, list[Any]]:
    return shapes(opshift.convert(parse_model(text), verify=False, **asked).model)


def test_a_shape_is_written_into_inputs_outputs_and_values() -> None:
    found = fixed(input_shapes={"images": (2, 3, 4, 5)})
    assert found["images"] == [2, 3, 4, 5]
    assert found["boxes"] == [2, 4]
    assert found["y"] == [2, 60]
    assert found["z"] == [8]
    assert found["r"] == [2, 60]
    assert found["scores"] == ["k"]
    assert found["s"] == ["b"]


def test_a_dim_is_fixed_wherever_it_stands() -> None:
    found = fixed(dims={"batch": 1, "h": 8})
    assert found["images"] == [1, 3, 8, "w"]
    assert found["boxes"] == [1, 4]
    assert found["z"] == [4]


def test_a_batch_is_the_first_dim_of_inputs_that_have_two() -> None:
    found = fixed(batch=5)
    assert found["images"] == [5, 3, "h", "w"]
    assert found["boxes"] == [5, 4]
    assert found["scores"] == ["k"]


def test_a_batch_sets_dims_without_a_name() -> None:
    text = HEAD + "g (float[?,3] x, float[7,2] y) => (float[a,b] z) { z = Relu (x) }"
    text = text.replace("[?,3]", "[N,3]")
    model = parse_model(text)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    found = shapes(opshift.convert(model, batch=4, verify=False).model)
    assert found == {"x": [4, 3], "y": [7, 2], "z": [4, 3]}


def test_an_unknown_rank_is_fixed() -> None:
    model = parse_model(HEAD + "g (float[n] x) => (float[n] y) { y = Relu (x) }")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    assert shapes(opshift.convert(model, input_shapes={"x": (2, 3)}, verify=False).model) == {"x": [2, 3], "y": [2, 3]}


def test_shapes_that_the_model_has_change_nothing() -> None:
    model = parse_model(HEAD + "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }")
    result = opshift.convert(model, input_shapes={"x": (2, 3)}, batch=2, verify=False)
    assert result.plan.nothing_to_do
    assert result.model is model


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input_shapes": {"image": (1, 3, 4, 4)}}, "no input 'image'; did you mean 'images'"),
    ({"input_shapes": {"images": (1, 3, 4)}}, r"images:1,3,4 has 3 dims, and the input 'images' has 4"),
    ({"input_shapes": {"images": (1, 4, 4, 4)}}, r"makes dim 1 4, and the model has a fixed 3 there"),
    (
        {"input_shapes": {"images": (1, 3, 4, 4), "boxes": (2, 4)}},
        "images:1,3,4,4 makes the dim 'batch' 1, and .* boxes:2,4 2",
    ),
    (
        {"input_shapes": {"images": (1, 3, 4, 4)}, "dims": {"h": 5}},
        "images:1,3,4,4 makes the dim 'h' 4, and --dim h=5 5",
    ),
    ({"input_shapes": {"images": (1, 3, 4, 4)}, "batch": 2}, "makes the dim 'batch' 1, and --batch 2 2"),
    ({"dims": {"heigth": 5}}, "No input of the model has a dim 'heigth'"),
    ({"dims": {"a": 5}}, "Its symbolic dims are 'batch', 'h', 'w', 'k'"),
]


@pytest.mark.parametrize(("asked", "says"), WRONG)
def test_contradictions_are_refused_with_both(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        opshift.plan(parse_model(TWO), **asked)


def test_a_batch_that_no_input_has_is_refused() -> None:
    text = HEAD + "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }"
    with pytest.raises(UsageError, match="--batch 4 finds no batch to set: the first dim of 'x' is 2"):
        opshift.convert(parse_model(text), batch=4)
    text = HEAD + "g (float[n] x) => (float[n] y) { y = Relu (x) }"
    with pytest.raises(UsageError, match="no input has two dims or more"):
        opshift.convert(parse_model(text), batch=4)


@pytest.mark.parametrize(
    ("name", "says"), [("w", "'w' is an initializer of the model"), ("list", "'list' is no tensor, and has no shape")]
)
def test_what_has_no_shape_to_fix_is_refused(name: str, says: str) -> None:
    text = HEAD + "g (float[n,3] x, seq(float[n]) list) => (float[n,3] y) <float[3] w = {1,2,3}> { y = Add (x, w) }"
    with pytest.raises(UsageError, match=says):
        opshift.convert(parse_model(text), input_shapes={name: (3,)})


def test_a_shape_that_a_node_does_not_accept_is_refused() -> None:
    text = HEAD + "g (float[n,k] x) => (float[n,m] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> { y = MatMul (x, w) }"
    assert fixed(text, input_shapes={"x": (3, 4)})["y"] == [3, 2]
    with pytest.raises(UsageError, match="The model does not accept --input-shape x:3,5: MatMul at 'y'"):
        opshift.convert(parse_model(text), input_shapes={"x": (3, 5)})


def test_both_models_are_compared_with_the_fixed_shapes() -> None:
    result = opshift.convert(parse_model(TWO), input_shapes={"images": (2, 3, 4, 5)})
    assert result.report is not None
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert result.report.whole.shapes == {"images": (2, 3, 4, 5), "boxes": (2, 4)}


def test_verify_compares_with_the_shapes_that_the_second_model_fixes() -> None:
    before = parse_model(HEAD + "g (float[n,m] x) => (float[n,m] y) { y = Relu (x) }")
    after = parse_model(HEAD + "g (float[2,5] x) => (float[2,5] y) { y = Relu (x) }")
    found = opshift.verify(before, after)
    assert found.verdict is Verdict.EQUAL
    assert found.whole.shapes == {"x": (2, 5)}
    wrong = parse_model(HEAD + "g (float[2,5] x) => (float[2,5] y) { y = Abs (x) }")
    assert opshift.verify(before, wrong).verdict is Verdict.DIFFERENT
    assert opshift.verify(after, after).whole.shapes == {}


def test_user_inputs_have_the_fixed_shapes() -> None:

    text = HEAD + "g (float[n,m] x) => (float[n,m] y) { y = Relu (x) }"
    good, bad = np.zeros((2, 5), np.float32), np.zeros((3, 5), np.float32)
    assert opshift.convert(parse_model(text), input_shapes={"x": (2, 5)}, inputs={"x": good}).report is not None
    with pytest.raises(UsageError, match=r"has the shape \[2, 5\]"):
        opshift.convert(parse_model(text), input_shapes={"x": (2, 5)}, inputs={"x": bad})


STATIC = Target("npu", static=True)


def test_a_static_target_refuses_dynamic_inputs_with_the_option() -> None:
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(TWO), target=STATIC)
    first = caught.value.refusals[0]
    assert first.node == "input images"
    assert "npu needs static shapes" in first.reason
    options = "--input-shape images:1,3,64,64 --input-shape boxes:1,4 --input-shape scores:1"
    assert first.hint == f"Fix its dynamic inputs, such as with {options}."
    assert fixed(target=STATIC, dims={"batch": 1, "h": 4, "w": 4, "k": 2})["y"] == [1, 48]


def test_a_static_target_refuses_shapes_that_depend_on_values() -> None:
    text = HEAD + "g (float[4] x) => (float[1,k] y) { i = NonZero (x) j = Cast <to = 1> (i) y = Relu (j) }"
    (refusal,) = opshift.plan(parse_model(text), target=STATIC).refusals
    assert (refusal.node, refusal.operator) == ("main/NonZero_0", "NonZero")


def test_a_model_that_ends_where_a_refusal_names_it_has_static_shapes() -> None:
    text = """g (float[1,12,4] raw, float[1,2,12] scores) => (float[k,3] y)
    <int64 most = {5}, float[1,1,4] scale = {1, 1, 2, 2}> {
        boxes = Mul (raw, scale)
        found = NonMaxSuppression (boxes, scores, most)
        y = Cast <to = 1> (found)
    }"""
    model = parse_model(HEAD + text)
    (refusal,) = opshift.plan(model, target=STATIC).refusals
    assert refusal.hint.startswith("End the model at 'boxes', such as with onnx.utils.extract_model")
    inferred = onnx.shape_inference.infer_shapes(model)
    cut = onnx.utils.Extractor(inferred).extract_model(["raw", "scores"], ["boxes"])
    assert opshift.plan(cut, target=STATIC).possible


def test_a_plan_takes_shapes() -> None:
    text = HEAD + "g (float[n,4] x) => (float[a,b] y) { s = Shape (x) y = Reshape (x, s) }"
    plan = opshift.plan(parse_model(text), input_shapes={"x": (2, 4)})
    assert plan.shapes == {"x": (2, 4)}
    assert [(step.action, step.node) for step in plan.prepared] == [(Action.FOLD, "main/Shape_0")]
    assert plan.to_json()["shapes"] == {"x": [2, 4]}


def test_the_batch_of_a_text_is_a_dim_of_the_model() -> None:
    """What is declared of values that a node computes is not relied on."""
    text = HEAD + "g (float[n,4] x) => (float[n,4] y) <float[9,9] r> { r = Relu (x) s = Shape (r) y = Reshape (r, s) }"
    assert fixed(text, input_shapes={"x": (2, 4)})["r"] == [2, 4]


def test_the_command_line_fixes_shapes(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from opshift.cli.main import main

    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(parse_model(TWO), path)
    asked = ["--input-shape", "images:2,3,4,5", "--dim", "k=3"]
    assert main(["convert", str(path), str(out), *asked]) == 0
    text = capsys.readouterr().out
    assert "input images:2,3,4,5, input boxes:2,4, input scores:3" in text
    assert "verified: outputs equal on" in text.splitlines()[-1]
    assert ", images:2,3,4,5, boxes:2,4, scores:3 (onnxruntime" in text.splitlines()[-1]
    assert shapes(onnx.load(out))["y"] == [2, 60]
    assert main(["plan", str(path), "--batch", "1"]) == 0
    assert "input images:1,3,h,w" in capsys.readouterr().out


def test_a_question_mark_is_no_name() -> None:
    """Exporters of PaddlePaddle write it for any dim that is unknown."""
    model = parse_model(HEAD + "g (float[n,h,w] x) => (float[n,a,b] y) { y = Relu (x) }")
    for dim in list(model.graph.input[0].type.tensor_type.shape.dim)[1:]:
        dim.dim_param = "?"
    result = opshift.convert(model, input_shapes={"x": (1, 2, 3)})
    assert shapes(result.model) == {"x": [1, 2, 3], "y": [1, 2, 3]}
    assert result.report is not None
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL


@pytest.mark.parametrize("opset", [10, 11, 18])
def test_scales_of_resize_tell_sizes(opset: int) -> None:
    text = HEAD.replace("17", str(opset)) + "g (float[n,3,h,w] x) => (float[n,3,a,b] y) "
    roi = "" if opset == 10 else "e = Constant <value = float[0] {}> () "
    inputs = "x, k" if opset == 10 else "x, e, k"
    text += "{ k = Constant <value = float[4] {1, 1, 2, 1.5}> () " + roi + f"y = Resize ({inputs}) }}"
    assert fixed(text, input_shapes={"x": (1, 3, 5, 7)})["y"] == [1, 3, 10, 10]


def test_a_large_constant_stays_one_where_its_type_is_declared() -> None:
    """A target that needs constant weights takes those of a Constant that is not looked into."""
    text = HEAD + "g (float[n,8,h,w] x) => (float[n,m,a,b] y) { y = Conv (x, k) }"
    model = parse_model(text)
    weights = onnx.numpy_helper.from_array(np.ones((512, 8, 3, 3), np.float32))
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["k"], value=weights))
    target = Target("npu", limits=(Limit("Conv", constant_inputs=("W",)),))
    assert opshift.plan(model, input_shapes={"x": (1, 8, 5, 5)}, target=target).possible


def test_a_guessed_shape_that_a_node_does_not_accept_is_no_cure() -> None:
    """The hint of a refusal is found with guessed shapes, and RoiAlign has as many regions as batch indices."""
    text = (
        '<ir_version: 8, opset_import: ["": 16]> g (float[1,2,4,5] x, float[4,4] r, int64[n] i) => (float[a,b,c,d] y) '
        "{ y = RoiAlign <sampling_ratio = 2> (x, r, i) }"
    )
    target = Target("npu", without=frozenset({"Gather", "GatherND", "RoiAlign"}))
    (refusal,) = opshift.plan(onnx.parser.parse_model(text), opset=12, target=target).refusals
    assert "--input-shape" not in refusal.hint, "the indices of pixels are computed, whatever the shapes"


def test_a_shape_that_onnx_infers_wrongly_where_an_attribute_is_left_out_is_valid() -> None:
    """onnx 1.23.2 infers 4 bins of the 3 that there are where `onesided` is left out."""
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[1,16,1] x, float[w] v) => (float[1,f,b,2] y)
        <int64 step = {3}> { y = STFT (x, step, v) }"""
    result = opshift.convert(parse_model(text), fold=True, input_shapes={"v": (4,)}).rewritten
    onnx.checker.check_model(result, full_check=True)
    (declared,) = result.graph.output
    assert [dim.dim_value for dim in declared.type.tensor_type.shape.dim] == [1, 5, 3, 2]


def test_the_sizes_of_a_hint_are_those_that_nodes_accept() -> None:
    """Two heads do not share a width of 1: the result would be without elements, whatever it is converted to."""
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[b,s,w] x, float[b,t,w] k, float[b,t,w] v, float[c] d) => (float[b,s,w] y) {
        y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, v, d)
    }"""
    hints = {one.hint for one in opshift.plan(parse_model(text), target=STATIC).refusals}
    sizes = "--input-shape x:1,64,8 --input-shape k:1,64,8 --input-shape v:1,64,8 --input-shape d:24"
    assert hints == {f"Fix its dynamic inputs, such as with {sizes}."}


KEEPS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"input_shapes": {"x": (-1, 3, 8, 32)}}, ["n", 3, 8, 32]),
    ({"input_shapes": {"x": (-1, -1, -1, 32)}}, ["n", 3, "", 32]),
    ({"input_shapes": {"x": (-1, 3, -1, 32)}, "batch": 2}, [2, 3, "", 32]),
    ({"input_shapes": {"x": (-1, 3, 8, -1)}, "dims": {"n": 4}}, [4, 3, 8, "w"]),
    ({"input_shapes": {"x": (5, -1, 8, -1)}}, [5, 3, 8, "w"]),
]


@pytest.mark.parametrize(("asked", "wanted"), KEEPS)
def test_a_size_of_minus_one_keeps_the_dim(asked: dict[str, Any], wanted: list[Any]) -> None:
    model = parse_model(HEAD + "g (float[n,3,?,w] x) => (float[n,3,?,w] y) { y = Relu (x) }")
    result = opshift.convert(model, **asked)
    assert isinstance(result.model, onnx.ModelProto)
    (value,) = result.model.graph.input
    dims = value.type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == wanted
    assert result.report is not None
    assert result.report.verdict == "equal"


def test_a_dim_without_a_size_keeps_none() -> None:
    model = parse_model(HEAD + "g (float[n,?] x) => (float[n,?] y) { y = Relu (x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UsageError, match="keeps a dim, and the rank of the input 'x' is unknown"):
        opshift.plan(model, input_shapes={"x": (-1, 3)})
    with pytest.raises(UsageError, match="give a tuple of sizes"):
        opshift.plan(model, input_shapes={"x": (-2, 3)})
    with pytest.raises(UsageError, match="give a tuple of sizes"):
        opshift.verify(model, model, input_shapes={"x": (-1, 3)})
