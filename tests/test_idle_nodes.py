"""No lowering leaves a node that does nothing: each new node with one input of the output's type is run by itself."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from node_tests import cases
from onnx import TensorProto, helper
from running import opset_of, run

import opshift
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.operator import Node, operator_for
from opshift.opsets.registry.schema import schema_at
from opshift.passes.analysis.inference import infer
from opshift.passes.base.errors import OpshiftError
from opshift.passes.rewrite.specialiser import Specialiser

EACH = 3
"""Node tests of each operator that are converted."""

LEFT = {"Identity", "RoiAlign", "TopK"}
"""What replaces Identity does nothing. Of TopK below 10 a shape is known only once all nodes are written, and so is, of
RoiAlign, the share of each point, which may be 1."""


@functools.cache
def models() -> Mapping[str, list[onnx.ModelProto]]:
    """Return node tests of one node, by operator: those that differ most in their attributes."""
    found: dict[str, dict[Any, onnx.ModelProto]] = defaultdict(dict)
    for case in cases(""):
        if len(case.model.graph.node) == 1 and not case.model.functions:
            (node,) = case.model.graph.node
            types = tuple(value.type.tensor_type.elem_type for value in case.model.graph.input)
            key = tuple(sorted(item.name for item in node.attribute)), types
            found[node.op_type].setdefault(key, case.model)
    return {name: list(kinds.values())[:EACH] for name, kinds in found.items()}


def new_nodes(name: str) -> Iterator[tuple[onnx.ModelProto, onnx.NodeProto]]:
    """Yield results of decomposing and of going down, with each node in them."""
    requests: list[dict[str, Any]] = [{"decompose": [name]}, {"opset": 13}, {"opset": 9}]
    for model in models()[name]:
        for how in requests:
            if how.get("opset", 0) >= opset_of(model):
                continue
            try:
                result = opshift.convert(model, verify=False, **how).model
            except OpshiftError:
                continue
            assert isinstance(result, onnx.ModelProto)
            if [node.op_type for node in result.graph.node] != [name]:
                yield from ((result, node) for node in result.graph.node)


def does_nothing(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Run a node on values of its one input that is no constant, and compare what comes out with what went in."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for one in model.graph.node:
        if one.op_type == "Constant":
            constants[one.output[0]] = onnx.TensorProto.FromString(one.attribute[0].t.SerializeToString())
    types = {value.name: value.type for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    fed = [name for name in dict.fromkeys(node.input) if name and name not in constants]
    if len(fed) != 1 or len(node.output) != 1 or not {fed[0], node.output[0]} <= types.keys():
        return False
    before, after = types[fed[0]].tensor_type, types[node.output[0]].tensor_type
    if before != after or any(not dim.HasField("dim_value") for dim in before.shape.dim):
        return False
    dtype = helper.tensor_dtype_to_np_dtype(before.elem_type)
    if dtype.kind not in "fiub":
        return False
    rng = np.random.default_rng(0)
    shape = tuple(dim.dim_value for dim in before.shape.dim)
    feeds = []
    for count in range(7):
        if dtype.kind in "iu":
            x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        elif dtype.kind == "f":
            x = (rng.normal(size=shape) * 10.0 ** min(count, 4)).astype(dtype)
            if count >= 5:  # beyond the bounds of a Clip, Min or Max
                x = np.full(shape, np.finfo(dtype).max / 8 * (-1 if count == 5 else 1), dtype)
        else:
            x = rng.random(shape) < 0.5
        if dtype.kind == "f" and x.size and not count and node.op_type != "Where":  # onnxruntime makes 0.0 of -0.0
            x.reshape(-1)[0] = -0.0
        feeds.append({fed[0]: x})
    alone = onnx.ModelProto(ir_version=model.ir_version)
    alone.opset_import.extend(model.opset_import)
    alone.graph.name = "alone"
    alone.graph.node.append(node)
    alone.graph.input.add(name=fed[0]).type.CopyFrom(types[fed[0]])
    alone.graph.output.add(name=node.output[0]).type.CopyFrom(types[node.output[0]])
    for name in node.input:
        if name in constants:
            tensor = alone.graph.initializer.add()
            tensor.CopyFrom(constants[name])
            tensor.name = name
    try:
        outputs = run(alone, feeds)
    except Exception:  # a type that onnxruntime has no kernel for
        return False
    # Sums and products of one element, whose shape the lowering does not know, are what they are of.
    return not node.op_type.startswith("Reduce") and all(
        one[0].tobytes() == feed[fed[0]].tobytes() for one, feed in zip(outputs, feeds, strict=True)
    )


@pytest.mark.parametrize("name", sorted(models().keys() - LEFT))
def test_no_lowering_leaves_a_node_that_does_nothing(name: str) -> None:
    last = None
    idle = []
    for model, node in new_nodes(name):
        if model is not last:
            last = model
            typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
        if node.op_type not in ("Identity", "Constant") and does_nothing(typed, node):
            idle.append(f"{node.op_type} {node.name}")
    assert not idle


X = Facts(TensorProto.FLOAT, (2, 3))
WHOLE = Facts(TensorProto.INT64, (2, 3))
TRUTH = Facts(TensorProto.BOOL, (2, 3))


def of(number: Any, dtype: Any = np.float32, shape: tuple[int, ...] = ()) -> Facts:
    return constant(np.full(shape, number, dtype))


# What the node repeats: the input of this number, or None if it does something to some value or to the shape.
NEUTRAL: tuple[tuple[str, tuple[Facts | None, ...], int | None], ...] = (
    ("Add", (WHOLE, of(0, np.int64)), 0),
    ("Add", (of(0, np.int64), WHOLE), 1),
    ("Add", (X, of(0.0)), None),
    ("Add", (X, of(-0.0)), 0),
    ("Add", (WHOLE, of(0, np.int64, (4, 1, 1))), None),
    ("Sub", (X, of(0.0)), 0),
    ("Sub", (X, of(-0.0)), None),
    ("Sub", (of(0, np.int64), WHOLE), None),
    ("Mul", (X, of(1.0)), 0),
    ("Mul", (of(1.0), X), 1),
    ("Mul", (X, of(1.0, shape=(1, 1, 1))), None),
    ("Mul", (X, of(0.0)), None),
    ("Div", (X, of(1.0)), 0),
    ("Div", (of(1.0), X), None),
    ("And", (TRUTH, of(True, bool)), 0),
    ("And", (TRUTH, of(False, bool)), None),
    ("And", (TRUTH, of(False, bool, (2, 3))), 1),
    ("Or", (TRUTH, of(False, bool)), 0),
    ("Or", (of(True, bool, (2, 3)), TRUTH), 0),
    ("Where", (of(False, bool), WHOLE, X), None),
    ("Where", (of(False, bool), X, X), 2),
    ("Where", (of(True, bool, (2, 1)), X, of(0.0)), 1),
    ("Where", (of(True, bool), of(0.0), X), None),
    ("Where", (of(True, bool, (4, 1, 1)), X, X), None),
    ("Concat", (X,), 0),
    ("Concat", (X, X), None),
    ("Max", (X,), 0),
    ("Expand", (X, constant(np.array([2, 3]))), 0),
    ("Expand", (X, constant(np.array([1, 1]))), 0),
    ("Expand", (X, constant(np.array([1, 2, 3]))), None),
    ("Tile", (X, constant(np.array([1, 1]))), 0),
    ("Tile", (Facts(TensorProto.FLOAT, (0, 3)), constant(np.array([2, 1]))), None),
    ("Gather", (X, constant(np.array([0, 1]))), 0),
    ("Gather", (X, constant(np.array([1, 0]))), None),
    ("Gather", (X, constant(np.array([0]))), None),
    ("Slice", (X, constant(np.array([0])), constant(np.array([9])), constant(np.array([1]))), 0),
    ("Slice", (X, *(constant(np.array([one])) for one in (-1, -9, 1, -1))), None),
    ("Slice", (Facts(TensorProto.FLOAT, (2, None)), *(constant(np.array([one])) for one in (0, 9, 1))), None),
    ("BitwiseOr", (WHOLE, of(0, np.int64)), 0),
)


@pytest.mark.parametrize(("name", "inputs", "wanted"), NEUTRAL)
def test_what_constants_decide(name: str, inputs: tuple[Facts | None, ...], wanted: int | None) -> None:
    schema = schema_at("", name, 18)
    assert schema is not None
    assert operator_for("", name) is not None
    node = Node("", name, schema.since_version, {"axis": 0} if name == "Concat" else {}, inputs, (True,))
    inferred = infer(node)
    outputs = inferred if isinstance(inferred, tuple) else (Facts(),)
    assert Specialiser()._idle(node, outputs) == wanted
