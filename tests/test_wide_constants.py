"""Constants of types that the opset lacks: int4 as int8, float8 as float, where nodes read numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refused import refused

import opshift
from opshift.passes.runtime import ort_session
from opshift.passes.runtime.ort_models import Runnable

NARROW = {
    "int4": (ml_dtypes.int4, 21, TensorProto.INT8),
    "uint4": (ml_dtypes.uint4, 21, TensorProto.UINT8),
    "int2": (ml_dtypes.int2, 25, TensorProto.INT8),
    "uint2": (ml_dtypes.uint2, 25, TensorProto.UINT8),
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, 19, TensorProto.FLOAT),
    "float8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 19, TensorProto.FLOAT),
    "float8e5m2": (ml_dtypes.float8_e5m2, 19, TensorProto.FLOAT),
    "float8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 19, TensorProto.FLOAT),
    "float4e2m1": (ml_dtypes.float4_e2m1fn, 23, TensorProto.FLOAT),
}
"""numpy's type, the opset that brought it, and the type that it becomes."""


def weights(kind: str, shape: tuple[int, ...] = (4, 6)) -> NDArray[np.generic]:
    """Return all small numbers of a type, in turn."""
    dtype = NARROW[kind][0]
    least = 0 if kind.startswith("u") else -2
    whole = np.arange(np.prod(shape)).reshape(shape) % 4 + least
    found: NDArray[np.generic] = whole.astype(np.float32).astype(dtype)
    return found


def model(
    kind: str, nodes: list[onnx.NodeProto], tensors: Mapping[str, NDArray[Any]], columns: int = 6
) -> onnx.ModelProto:
    """Return x (n rows of 4) times what the nodes make of the constants: `w`."""
    opset = NARROW[kind][1]
    graph = helper.make_graph(
        [*nodes, helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", columns])],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11 if opset > 21 else 10)


def dtypes(found: onnx.ModelProto) -> set[int]:
    return {tensor.data_type for tensor in found.graph.initializer}


def rows(source: onnx.ModelProto, result: opshift.Result) -> None:
    """Compare onnxruntime with onnx's reference evaluator, which reads the narrow types, and knows no old opsets."""
    x = {"x": np.arange(8, dtype=np.float32).reshape(2, 4) - 3}
    (expected,) = ReferenceEvaluator(source).run(None, x)
    (found,) = ort_session.Session(Runnable(result.rewritten), optimised=False).run(x)
    np.testing.assert_array_equal(found, expected)


SCALES = {"one": np.array(0.5, np.float32), "along an axis": np.array([0.5, 2, 1, 0.25], np.float32)}


@pytest.mark.fast(4)
@pytest.mark.parametrize("opset", [10, 13, 18])
@pytest.mark.parametrize("zero", [False, True], ids=["", "zero point"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", NARROW)
def test_dequantized_weights_get_a_wider_type(kind: str, scale: str, zero: bool, opset: int) -> None:
    tensors = {"q": weights(kind), "s": SCALES[scale]}
    if zero:
        # "For float8 types, zero point must be zero."
        ones = 0 if kind.startswith("float") else 1
        tensors["z"] = np.full(SCALES[scale].shape, ones).astype(np.float32).astype(NARROW[kind][0])
    source = model(kind, [helper.make_node("DequantizeLinear", [*tensors], ["w"], axis=0)], tensors)
    result = opshift.convert(source, opset=opset)
    assert result.report is not None
    assert result.report.verdict != "different"
    assert dtypes(result.rewritten) <= {NARROW[kind][2], TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32}
    if kind.startswith("float"):
        assert [node.op_type for node in result.rewritten.graph.node] == ["MatMul"], "what is constant is computed"
        assert len(result.rewritten.graph.initializer) == 1, "what nobody reads is dropped"
    rows(source, result)


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_weights_in_blocks_get_a_wider_type(opset: int) -> None:
    tensors = {"q": weights("int4"), "s": np.array([[0.5, 2], [1, 4], [2, 1], [1, 1]], np.float32)}
    source = model("int4", [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=3)], tensors)
    result = opshift.convert(source, opset=opset)
    assert result.report is not None
    assert result.report.verdict == "equal"
    rows(source, result)


@pytest.mark.parametrize("kind", NARROW)
def test_weights_that_are_cast_get_a_wider_type(kind: str) -> None:
    source = model(kind, [helper.make_node("Cast", ["q"], ["w"], to=TensorProto.FLOAT)], {"q": weights(kind)})
    rows(source, opshift.convert(source, opset=11))


@pytest.mark.slow
def test_weights_are_moved_on_the_way() -> None:
    nodes = [
        helper.make_node("Transpose", ["q"], ["t"], perm=[1, 0]),
        helper.make_node("DequantizeLinear", ["t", "s"], ["w"]),
    ]
    source = model("int4", nodes, {"q": weights("int4", (6, 4)), "s": SCALES["one"]})
    result = opshift.convert(source, opset=13)
    assert [node.op_type for node in result.rewritten.graph.node] == ["DequantizeLinear", "MatMul"]
    rows(source, result)


def test_weights_of_a_constant_node_in_a_branch_get_a_wider_type() -> None:
    held = numpy_helper.from_array(weights("uint4"), "q")
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["q"], value=held), helper.make_node("DequantizeLinear", ["q", "s"], ["d"])],
        "b",
        [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, [4, 6])],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["other"], ["e"])],
        "o",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [4, 6])],
    )
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["c"], to=9)]
    nodes += [helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=other)]
    tensors = {"s": SCALES["one"], "other": np.ones((4, 6), np.float32)}
    source = model("uint4", nodes, tensors)
    result = opshift.convert(source, opset=13)
    assert result.report is not None
    assert result.report.verdict == "equal"


def test_weights_in_a_file_get_a_wider_type(tmp_path: Path) -> None:
    kind, big = "int4", weights("int4", (4, 3000))
    source = model(
        kind, [helper.make_node("DequantizeLinear", ["q", "s"], ["w"])], {"q": big, "s": SCALES["one"]}, 3000
    )
    onnx.save(source, tmp_path / "in.onnx", save_as_external_data=True, size_threshold=0, location="in.data")
    result = opshift.convert(tmp_path / "in.onnx", opset=13)
    result.save(tmp_path / "out.onnx")
    (wide,) = (one for one in onnx.load(tmp_path / "out.onnx").graph.initializer if one.data_type == TensorProto.INT8)
    np.testing.assert_array_equal(numpy_helper.to_array(wide), big.astype(np.int8))
    assert any("int4 became int8" in note and "6,000 bytes became 12,000" in note for note in result.notes), result.plan


def test_a_zero_point_that_is_quantized_to_keeps_its_type_and_is_refused() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["v"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"]),
    ]
    tensors = {"q": weights("int4"), "s": SCALES["one"], "z": np.array(1).astype(ml_dtypes.int4)}
    source = model("int4", nodes, tensors)
    source.graph.output.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, None))
    places = (
        "QuantizeLinear-21 at main/QuantizeLinear_0",
        *(f"DequantizeLinear-21 at main/DequantizeLinear_{n}" for n in (1, 2)),
    )
    with refused(*(f"no-lowering: {place}" for place in places)):
        opshift.convert(source, opset=13)


def test_weights_that_are_fed_are_refused() -> None:
    source = model("int4", [helper.make_node("DequantizeLinear", ["q", "s"], ["w"])], {"s": SCALES["one"]})
    source.graph.input.append(helper.make_tensor_value_info("q", TensorProto.INT4, [4, 6]))
    with refused("no-lowering: DequantizeLinear-21 at main/DequantizeLinear_0"):
        opshift.convert(source, opset=13)


def test_what_the_opset_has_stays() -> None:
    source = model(
        "int4", [helper.make_node("DequantizeLinear", ["q", "s"], ["w"])], {"q": weights("int4"), "s": SCALES["one"]}
    )
    assert TensorProto.INT4 in dtypes(opshift.convert(source, opset=24).rewritten)


def branches(kind: str, scales: tuple[float, float]) -> onnx.ModelProto:
    """Return an If whose branches have a scale of one name each."""
    held = [numpy_helper.from_array(np.array(scale, np.float32), "s") for scale in scales]
    made = [
        helper.make_graph(
            [helper.make_node("DequantizeLinear", ["q", "s"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6])],
            [tensor],
        )
        for name, tensor in zip("ab", held, strict=True)
    ]
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["c"], to=9)]
    nodes.append(helper.make_node("If", ["c"], ["w"], then_branch=made[0], else_branch=made[1]))
    return model(kind, nodes, {"q": weights(kind)})


@pytest.mark.parametrize("kind", ["int4", "float8e4m3fn"])
def test_constants_of_one_name_in_two_branches_are_told_apart(kind: str) -> None:
    source = branches(kind, (1.0, 5.0))
    if kind == "int4":
        rows(source, opshift.convert(source, opset=13, verify=False))
    else:
        place = "DequantizeLinear-19 at main/If_2.{}_branch/DequantizeLinear_0"
        with refused(*(f"no-lowering: {place.format(branch)}" for branch in ("then", "else"))):
            opshift.convert(source, opset=13)


def test_a_scale_that_may_be_fed_is_not_folded() -> None:
    kind = "float8e4m3fn"
    source = model(
        kind, [helper.make_node("DequantizeLinear", ["q", "s"], ["w"])], {"q": weights(kind), "s": SCALES["one"]}
    )
    source.graph.input.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, []))
    with refused("no-lowering: DequantizeLinear-19 at main/DequantizeLinear_0"):
        opshift.convert(source, opset=13, keep_initializers_as_inputs=True)


def test_folded_constants_come_in_one_order() -> None:
    kind, tensors = "float8e4m3fn", {f"q{place}": weights("float8e4m3fn", (4, 1)) for place in range(6)}
    nodes = [helper.make_node("DequantizeLinear", [name, "s"], [f"d_{name}"]) for name in tensors]
    nodes.append(helper.make_node("Concat", [f"d_{name}" for name in tensors], ["w"], axis=1))
    source = model(kind, nodes, {**tensors, "s": SCALES["one"]})
    found = opshift.convert(source, opset=13, verify=False).rewritten
    assert [tensor.name for tensor in found.graph.initializer if tensor.name.startswith("d_")] in (
        [],
        sorted(f"d_{name}" for name in tensors),
    )


def test_a_folded_constant_node_goes() -> None:
    kind = "float8e4m3fn"
    held = numpy_helper.from_array(weights(kind), "q")
    nodes = [
        helper.make_node("Constant", [], ["q"], value=held),
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"]),
    ]
    source = model(kind, nodes, {"s": SCALES["one"]})
    result = opshift.convert(source, opset=13)
    assert dtypes(result.rewritten) == {TensorProto.FLOAT}
    assert result.rewritten.ir_version == 7
    rows(source, result)


MOVES: dict[str, tuple[str, list[str], dict[str, Any], NDArray[Any]]] = {
    "padded": ("Pad", ["q", "i", "z"], {}, np.array([0, 1, 0, 0])),
}


@pytest.mark.parametrize("kind", ["int4", "float4e2m1"])
@pytest.mark.parametrize("case", MOVES)
def test_weights_that_are_moved_at_run_time_get_a_wider_type(case: str, kind: str) -> None:
    """What is fed keeps them from being folded before."""
    operator, names, attributes, fed = MOVES[case]
    tensors = {"q": weights(kind, (4, 5)), "z": np.array(1, np.float32).astype(NARROW[kind][0])}
    nodes = [helper.make_node(operator, names, ["t"], **attributes), helper.make_node("Cast", ["t"], ["w"], to=1)]
    source = model(kind, nodes, {name: tensors[name] for name in tensors if name in names})
    source.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, fed.shape))
    result = opshift.convert(source, opset=18, verify=False)
    assert dtypes(result.rewritten) <= {NARROW[kind][2]}
    x = {"x": np.arange(8, dtype=np.float32).reshape(2, 4) - 3, "i": fed.astype(np.int64)}
    (expected,) = ReferenceEvaluator(source).run(None, x)
    (found,) = ort_session.Session(Runnable(result.rewritten), optimised=False).run(x)
    np.testing.assert_array_equal(found, expected)


def test_indices_beside_what_is_moved_keep_their_type() -> None:
    nodes = [
        helper.make_node("TopK", ["q", "k"], ["t", "j"]),
        helper.make_node("Cast", ["t"], ["a"], to=1),
        helper.make_node("Cast", ["j"], ["b"], to=1),
        helper.make_node("Add", ["a", "b"], ["w"]),
    ]
    source = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("k", TensorProto.INT64, [1])],
            [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array([3, 1, 2]).astype(ml_dtypes.bfloat16), "q")],
            value_info=[helper.make_tensor_value_info("j", TensorProto.INT64, [None])],
        ),
        opset_imports=[helper.make_opsetid("", 24)],
        ir_version=10,
    )
    with pytest.raises(opshift.UnsupportedError):
        opshift.convert(source, opset=10)
