"""Weights of MatMulNBits: packed at opset 21 and later, floats below, and unpacked when the model is converted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opshift
from opshift.opsets.microsoft.matmulnbits import MatMulNBits, oracle
from opshift.passes.base.report import Verdict
from opshift.passes.rewrite import packed_weights

LARGE = (768, 130)
"""Columns and rows of weights that are too many to be looked into while nodes are planned."""


@dataclass(frozen=True)
class Weights:
    """A product with packed weights."""

    bits: int = 4
    block: int = 32
    zeros: str = "packed"
    dtype: Any = np.float32
    size: tuple[int, int] = (40, 3)
    bias: bool = False

    @property
    def rounding(self) -> float:
        """How far results may be apart, as a share of what a row adds up.

        The weight, the product, the bias and the result are rounded, and the sums, which have 24 bits at least.
        """
        return float(4 * np.finfo(self.dtype).eps + self.size[0] * 2.0**-24)

    @property
    def meaning(self) -> MatMulNBits:
        """The node's attributes."""
        columns, rows = self.size
        return MatMulNBits(K=columns, N=rows, bits=self.bits, block_size=self.block)

    @property
    def constants(self) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs of the node but for the first."""
        rng, what = np.random.default_rng(0), self.meaning
        rows, blocks = what.N, what.blocks
        found = {
            "w": rng.integers(0, 256, (rows, blocks, self.block * self.bits // 8), np.uint8),
            "s": rng.uniform(0.1, 1, rows * blocks).astype(self.dtype),
        }
        if self.zeros == "packed":
            found["z"] = rng.integers(0, 256, rows * -(-blocks * self.bits // 8), np.uint8)
        if self.zeros == "float":
            found["z"] = rng.uniform(0, 2**self.bits, rows * blocks).astype(self.dtype)
        if self.bias:
            found["b"] = rng.uniform(-1, 1, rows).astype(self.dtype)
        return found

    @property
    def model(self) -> onnx.ModelProto:
        """The node with constant weights."""
        what, dtype, held = self.meaning, helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)), self.constants
        inputs = ["x", *(name if name in held else "" for name in ("w", "s", "z", "g", "b"))]
        while not inputs[-1]:
            inputs.pop()
        attributes: dict[str, Any] = {"K": what.K, "N": what.N, "bits": what.bits, "block_size": what.block_size}
        node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attributes)
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", dtype, ["n", what.K])],
            [helper.make_tensor_value_info("y", dtype, ["n", what.N])],
            [numpy_helper.from_array(value, name) for name, value in held.items()],
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    def differs(self, model: onnx.ModelProto) -> float:
        """Return how far onnxruntime's result is from the specification's, as a share of what a row adds up."""
        import onnxruntime

        held = self.constants
        x = np.random.default_rng(1).uniform(-1, 1, (5, self.size[0])).astype(self.dtype)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {"x": x})
        wanted = oracle(self.meaning, x, held["w"], held["s"], held.get("z"), None, held.get("b"))
        most = self.size[0] * 2**self.bits  # of each product: scales and inputs are at most 1
        return float(np.abs(got.astype(np.float64) - wanted).max() / most)


FORMS = [
    *(Weights(bits, zeros=zeros) for bits in (2, 4, 8) for zeros in ("none", "packed", "float")),
    *(Weights(bits, 16, size=size) for bits in (4, 8) for size in ((33, 2), (64, 4))),
    *(Weights(bits, zeros=zeros, dtype=np.float16) for bits in (4, 8) for zeros in ("none", "packed")),
    Weights(bias=True),
]


def _narrow(model: onnx.ModelProto) -> list[int]:
    return [tensor.data_type for tensor in model.graph.initializer if tensor.data_type not in _FLOATS]


_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


def _converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    found = opshift.convert(model, opset=opset, decompose=["com.microsoft"], verify=False).model
    assert isinstance(found, onnx.ModelProto)
    return found


@pytest.mark.parametrize("form", [*FORMS, Weights(size=LARGE), Weights(8, zeros="none", size=LARGE)], ids=str)
def test_weights_stay_packed_from_opset_21_on(form: Weights) -> None:
    type_of_bits = {4: (21, TensorProto.UINT4), 8: (21, TensorProto.UINT8), 2: (25, TensorProto.UINT2)}
    least, narrow = type_of_bits[form.bits]
    for opset in (17, 21, 25):
        model = _converted(form.model, opset)
        assert form.differs(model) <= form.rounding
        names = [node.op_type for node in model.graph.node]
        packed = opset >= least and form.zeros != "float"
        assert names == ["DequantizeLinear"] * packed + ["MatMul"] + ["Add"] * form.bias
        assert _narrow(model) == ([narrow] * 2 if packed else [])


def test_packed_weights_are_no_larger_than_before() -> None:
    form = Weights(size=LARGE)
    assert _converted(form.model, 21).ByteSize() <= form.model.ByteSize() + 1024


def test_growth_is_reported_where_weights_become_floats() -> None:
    form = Weights(zeros="none", size=LARGE)
    result = opshift.convert(form.model, opset=17, decompose=["com.microsoft"], verify=False)
    columns, rows = LARGE
    assert any(f"{4 * columns * rows:,}" in note for note in result.notes)
    assert not opshift.convert(form.model, opset=21, decompose=["com.microsoft"], verify=False).notes


def test_weights_that_would_be_too_large_are_unpacked_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_weights, "MOST", 2**16)
    form = Weights(size=LARGE)
    result = opshift.convert(form.model, opset=17, decompose=["com.microsoft"], verify=False)
    assert isinstance(result.model, onnx.ModelProto)
    assert "BitShift" in [node.op_type for node in result.model.graph.node]
    assert any("in each run" in note for note in result.notes)
    assert form.differs(result.model) <= form.rounding


def test_weights_that_others_read_stay() -> None:
    """Two products share weights, and an output is the weights themselves."""
    form = Weights(size=LARGE)
    model = form.model
    again = onnx.NodeProto()
    again.CopyFrom(model.graph.node[0])
    again.output[0] = "y2"
    model.graph.node.extend([again, helper.make_node("Identity", ["w"], ["v"])])
    model.graph.output.add(name="y2").CopyFrom(model.graph.output[0])
    model.graph.output[1].name = "y2"
    model.graph.output.append(helper.make_tensor_value_info("v", TensorProto.UINT8, form.constants["w"].shape))
    result = opshift.convert(model, opset=21, decompose=["com.microsoft"], effort="quick")
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    assert isinstance(result.model, onnx.ModelProto)
    assert "w" in [tensor.name for tensor in result.model.graph.initializer]


@pytest.mark.parametrize("opset", [17, 21])
def test_weights_in_another_file_are_read(opset: int, tmp_path: Path) -> None:
    form = Weights(size=LARGE)
    onnx.save_model(form.model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=64, location="m.data")
    result = opshift.convert(tmp_path / "m.onnx", opset=opset, decompose=["com.microsoft"], verify=False)
    result.save(tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear"] * (opset > 20) + ["MatMul"]
    assert form.differs(model) <= form.rounding


@pytest.mark.parametrize("opset", [11, 17, 21])
@pytest.mark.parametrize(("shape", "bias"), [((3, 0, 16), False), ((0, 2, 16), True), ((3, 2, 0), True)])
def test_weights_without_elements_stand_for_a_product_that_is_left_out(
    shape: tuple[int, ...], bias: bool, opset: int
) -> None:
    """MatMulNBits-1: "Y is filled with zeros (or the broadcast bias, if provided)"."""
    form = Weights(bias=bias)
    model = form.model
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(shape, np.uint8), "w"))
    result = opshift.convert(model, opset=opset, decompose=["com.microsoft"], effort="quick", require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert "MatMul" not in [node.op_type for node in result.model.graph.node]
