"""Targets whose operators take few axes: neighbours are merged, with a Reshape around, and numbers are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from running import run, same

import opshift
from opshift.passes.base.plan import Code

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
KEEPING = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")
RNG = np.random.default_rng(0)

CALLS: dict[str, tuple[str, str, str]] = {
    "Add of channels": ("float[2,3,4,5,6] x, float[3,1,1,1] b", "", "Add(x, b)"),
    "Add of both sides": ("float[2,1,4,1,1] x, float[1,3,1,5,6] b", "", "Add(x, b)"),
    "Add of a scalar": ("float[2,3,4,5,6] x, float b", "", "Add(x, b)"),
    "Relu": ("float[2,3,4,5,6,2] x", "", "Relu(x)"),
    "Relu of an open batch": ("float[n,3,4,5,6] x", "", "Relu(x)"),
    "Relu of ones": ("float[1,1,1,1,1] x", "", "Relu(x)"),
    "Clip": ("float[2,3,4,5,6] x, float a, float b", "", "Clip(x, a, b)"),
    "Where": ("bool[2,3,1,1,6] c, float[2,3,4,5,6] x, float[6] z", "", "Where(c, x, z)"),
    "Cast": ("float[2,3,4,5,6] x", "", "Cast <to = 7> (x)"),
    "MatMul of one matrix": ("float[2,3,4,5,6] x, float[6,7] b", "", "MatMul(x, b)"),
    "MatMul of two stacks": ("float[2,3,4,5,6] x, float[2,3,4,6,7] b", "", "MatMul(x, b)"),
    "MatMul of a shared stack": ("float[2,3,4,5,6] x, float[1,3,4,6,7] b", "", "MatMul(x, b)"),
    "MatMul of a row": ("float[2,3,4,5,6] x, float[2,3,4,6,1] b", "", "MatMul(x, b)"),
    "ReduceSum": ("float[2,3,4,5,6] x", "int64[2] a = {1, 2}", "ReduceSum(x, a)"),
    "ReduceMax of the last": ("float[2,3,4,5,6] x", "int64[1] a = {-1}", "ReduceMax <keepdims = 0> (x, a)"),
    "ReduceSumSquare of one by one": ("float[2,3,1,1,6] x", "int64[2] a = {2, 3}", "ReduceSumSquare(x, a)"),
    "ReduceMax of all": ("float[2,3,4,5,6] x", "", "ReduceMax(x)"),
    "Softmax": ("float[2,3,4,5,6] x", "", "Softmax <axis = 2> (x)"),
    "LogSoftmax": ("float[2,3,4,5,6] x", "", "LogSoftmax <axis = -1> (x)"),
    "ArgMax": ("float[2,3,4,5,6] x", "", "ArgMax <axis = 1, keepdims = 0> (x)"),
    "CumSum": ("float[2,3,4,5,6] x", "int64[1] a = {3}", "CumSum <reverse = 1> (x, a)"),
    "Concat": ("float[2,3,4,5,6] x, float[2,3,1,5,6] b", "", "Concat <axis = 2> (x, b)"),
    "Slice": (
        "float[2,3,4,5,6] x",
        "int64[2] s = {1, -1}, int64[2] e = {3, -9}, int64[2] a = {-3, 4}, int64[2] t = {1, -2}",
        "Slice(x, s, e, a, t)",
    ),
    "Gather": ("float[2,3,4,5,6] x", "int64[2,2] i = {0, 2, 1, -1}", "Gather <axis = 2> (x, i)"),
    "Gather of one": ("float[2,3,4,5,6] x", "int64 i = {1}", "Gather <axis = 4> (x, i)"),
    "Pad": ("float[2,3,4,5,6] x", "int64[10] p = {0, 0, 1, 0, 0, 0, 0, 2, 0, 0}", 'Pad <mode = "reflect"> (x, p)'),
    "Pad of named axes": ("float[2,3,4,5,6] x, float v", "int64[2] p = {1, 2}, int64[1] a = {-1}", "Pad(x, p, v, a)"),
    "Expand": ("float[2,1,1,5,6] x", "int64[5] s = {2, 3, 4, 5, 6}", "Expand(x, s)"),
    "Expand to more axes": ("float[2,1,1,5,6] x", "int64[6] s = {2, 2, 3, 4, 5, 6}", "Expand(x, s)"),
    "Tile": ("float[2,3,4,5,6] x", "int64[5] s = {1, 1, 3, 1, 1}", "Tile(x, s)"),
    "Transpose of neighbours": ("float[2,3,4,5,6] x", "", "Transpose <perm = [0, 3, 4, 1, 2]> (x)"),
    "Transpose in turn": ("float[2,3,4,5,6] x", "", "Transpose(x)"),
    "Transpose beside ones": ("float[1,3,1,5,6] x", "", "Transpose(x)"),
    "Transpose of ones": ("float[1,1,1,1,1] x", "", "Transpose(x)"),
    "LpNormalization": ("float[2,3,4,5,6] x", "", "LpNormalization <axis = 1> (x)"),
    "GlobalAveragePool": ("float[2,3,4,5,6] x", "", "GlobalAveragePool(x)"),
    "GlobalMaxPool": ("float[2,3,4,5,6] x", "", "GlobalMaxPool(x)"),
    "InstanceNormalization": (
        "float[2,3,4,5,6] x, float[3] s, float[3] b",
        "",
        "InstanceNormalization <epsilon = 0.5> (x, s, b)",
    ),
    "BatchNormalization": (
        "float[2,3,4,5,6] x, float[3] s, float[3] b, float[3] m, float[3] v",
        "",
        "BatchNormalization <epsilon = 0.5> (x, s, b, m, v)",
    ),
}
"""Inputs, constants, and the call of the node that has more than four axes."""


def profile(folder: Path, operators: Sequence[str], most: int = 4) -> str:
    """Write a profile that has these operators, all but those that keep the order of elements with few axes only."""
    listed = ", ".join(f'"{one}"' for one in sorted({*operators, *KEEPING, "Constant"}))
    limits = "".join(f'[[limits]]\noperator = "{one}"\nmax_rank = {most}\n' for one in operators if one not in KEEPING)
    path = folder / "few.toml"
    path.write_text(f'name = "few"\noperators = [{listed}]\n{limits}')
    return str(path)


def ranks(model: onnx.ModelProto, operators: Sequence[str]) -> int:
    """Return the most axes of an input of nodes of these operators."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    known = {value.name: len(value.type.tensor_type.shape.dim) for value in (*inferred.value_info, *inferred.input)}
    known.update((tensor.name, len(tensor.dims)) for tensor in inferred.initializer)
    read = (name for node in model.graph.node if node.op_type in operators for name in node.input)
    return max((known[name] for name in read if name), default=0)


def fed(model: onnx.ModelProto, batch: int = 2) -> dict[str, Any]:
    """Return small whole numbers for all inputs, whose sums are exact."""
    feeds = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or batch for dim in kind.shape.dim]
        array = RNG.integers(0, 2, shape) if kind.elem_type == TensorProto.BOOL else RNG.integers(-9, 10, shape)
        feeds[value.name] = np.asarray(np.abs(array) if value.name == "v" else array).astype(
            helper.tensor_dtype_to_np_dtype(kind.elem_type)
        )
    return feeds


@pytest.mark.parametrize("name", CALLS)
def test_axes_that_are_treated_alike_are_merged(name: str, tmp_path: Path) -> None:
    inputs, constants, call = CALLS[name]
    operator = call.split("(")[0].split("<")[0].strip()
    kind = "int64" if operator in ("ArgMax", "Cast") else "float"
    body = f"<{constants}>" if constants else ""
    model = parse_model(f"{HEAD} g ({inputs}) => ({kind}[] y) {body} {{ y = {call} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = opshift.convert(model, target=profile(tmp_path, [operator]), verify=False)
    assert {node.op_type for node in result.rewritten.graph.node} <= {operator, "Reshape"}
    assert ranks(result.rewritten, [operator]) <= 4
    feeds = fed(model)
    (wanted,), (found,) = (run(one, [feeds])[0] for one in (model, result.rewritten))
    # Of whole numbers all sums are exact; only these take roots, quotients and exponentials of them.
    rounds = operator.endswith(("ormalization", "oftmax"))
    assert same(wanted, found, 1e-6 if rounds else 0.0)


@pytest.mark.parametrize("most", [4, 5])
def test_a_pixel_shuffle_is_transposed_in_few_axes(most: int, tmp_path: Path) -> None:
    """What has six axes is between two Reshapes, which become those around the transpositions; so ncnn takes it."""
    model = parse_model(
        f"{HEAD} g (float[n,36,4,4] x) => (float[n,4,12,12] y) "
        "<int64[6] s = {-1, 4, 3, 3, 4, 4}, int64[4] t = {-1, 4, 12, 12}> "
        "{ a = Reshape(x, s) b = Transpose <perm = [0, 1, 4, 2, 5, 3]> (a) y = Reshape(b, t) }"
    )
    result = opshift.convert(model, target=profile(tmp_path, ["Transpose"], most), verify=False)
    assert [node.op_type for node in result.rewritten.graph.node] == [*["Reshape", "Transpose"] * (6 - most), "Reshape"]
    assert ranks(result.rewritten, ["Reshape", "Transpose"]) <= most
    feeds = fed(model)
    assert same(run(model, [feeds])[0][0], run(result.rewritten, [feeds])[0][0], 0.0)
    assert not opshift.plan(model, target="ncnn").refusals


def test_nothing_is_reshaped_between_nodes_with_the_same_axes(tmp_path: Path) -> None:
    model = parse_model(
        f"{HEAD} g (float[2,3,4,5,6] x, float[3,1,1,1] b) => (float[2,3,4,5,6] y, float[2,3,4,5,6] z) "
        "{ y = Add(x, b) c = Relu(y) d = Sigmoid(c) z = Mul(d, c) }"
    )
    operators = ["Add", "Relu", "Sigmoid", "Mul"]
    result = opshift.convert(model, target=profile(tmp_path, operators))
    assert [node.op_type for node in result.rewritten.graph.node].count("Reshape") == 4
    assert ranks(result.rewritten, operators) <= 4
    assert result.report is not None
    assert result.report.verdict == "equal"
    again = opshift.convert(result.rewritten, target=profile(tmp_path, operators), verify=False)
    assert again.rewritten.SerializeToString() == result.rewritten.SerializeToString()


@pytest.mark.parametrize(
    ("inputs", "call", "code"),
    [
        ("float[2,3,4,5,6] x, float[2,1,4,1,6] b", "Add(x, b)", Code.NO_LOWERING),
        ("float[n,m,4,5,6] x", "Relu(x)", Code.MISSING_FACT),
        ("float[2,3,4,5,6] x, float[2,1,4,6,7] b", "MatMul(x, b)", Code.MISSING_FACT),
    ],
)
def test_axes_that_cannot_be_merged_are_refused(inputs: str, call: str, code: Code, tmp_path: Path) -> None:
    model = parse_model(f"{HEAD} g ({inputs}) => (float[a,b,c,d,e] y) {{ y = {call} }}")
    operator = call.split("(")[0]
    plan = opshift.plan(model, target=profile(tmp_path, [operator]))
    assert [refusal.code for refusal in plan.refusals] == [code]
    assert "rank 4 at most" in plan.refusals[0].reason


# --- random graphs ----------------------------------------------------------------------------------------------------

OPERATORS = ("Add", "Mul", "Neg", "Relu", "Transpose", "ReduceSum", "ReduceMax", "Concat", "Slice", "Softmax", "MatMul")


def drawn(seed: int) -> onnx.ModelProto:
    """Return a graph of some nodes that begins with a tensor of five to seven axes."""
    rng = np.random.default_rng(seed)
    shape = [int(dim) for dim in rng.choice([1, 2, 3, 4], rng.integers(5, 8), p=[0.25, 0.35, 0.25, 0.15])]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    nodes: list[onnx.NodeProto] = []
    constants: list[TensorProto] = []
    name, steps = "x", int(rng.integers(1, 6))
    for step in range(steps):
        operator = str(rng.choice(OPERATORS[:9] + OPERATORS[10:]))
        inputs, attributes, shape = _drawn_node(rng, operator, name, shape, constants)
        name = f"v{step}"
        nodes.append(helper.make_node(operator, inputs, [name], **attributes))
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [value], [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _drawn_node(
    rng: np.random.Generator, operator: str, name: str, shape: list[int], constants: list[TensorProto]
) -> tuple[list[str], dict[str, Any], list[int]]:
    def constant(array: Any, dtype: Any = np.int64) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array, dtype), f"c{len(constants)}"))
        return constants[-1].name

    axis = int(rng.integers(len(shape)))
    match operator:
        case "Add" | "Mul":
            front = int(rng.integers(len(shape)))
            other = [dim if rng.integers(2) else 1 for dim in shape[front:]]
            return [name, constant(rng.integers(-2, 3, other), np.float32)], {}, shape
        case "Transpose":
            perm = [int(one) for one in rng.permutation(len(shape))]
            return [name], {"perm": perm}, [shape[one] for one in perm]
        case "ReduceSum" | "ReduceMax":
            axes = sorted({axis, int(rng.integers(len(shape)))})
            return [name, constant(axes)], {"keepdims": 1}, [1 if one in axes else dim for one, dim in enumerate(shape)]
        case "Concat":
            return [name, name], {"axis": axis}, [dim * 2 if one == axis else dim for one, dim in enumerate(shape)]
        case "Slice":
            return [name, *(constant([one]) for one in (-1, -9, axis, -1))], {}, shape
        case "MatMul":
            width = int(rng.integers(1, 4))
            return [name, constant(rng.integers(-2, 3, (shape[-1], width)), np.float32)], {}, [*shape[:-1], width]
    return [name], {}, shape


def check_drawn(seed: int, folder: Path) -> bool:
    """Convert a random graph; return whether it was refused."""
    model, target = drawn(seed), profile(folder, OPERATORS)
    if refusals := opshift.plan(model, target=target).refusals:
        assert all("rank 4 at most" in refusal.reason for refusal in refusals), refusals
        return True
    result = opshift.convert(model, target=target, verify=False)
    assert ranks(result.rewritten, OPERATORS) <= 4
    feeds = fed(model)
    assert same(run(model, [feeds])[0][0], run(result.rewritten, [feeds])[0][0], 0.0), seed
    return False


@pytest.mark.slow
def test_random_graphs_of_many_axes_compute_the_same(tmp_path: Path) -> None:
    refused = [check_drawn(seed, tmp_path) for seed in range(8)]
    assert sum(refused) < 4


@pytest.mark.slow
def test_more_random_graphs_of_many_axes_compute_the_same(tmp_path: Path) -> None:
    refused = [check_drawn(seed, tmp_path) for seed in range(100, 200)]
    assert sum(refused) < 40
