"""Cast, CastLike, Constant and ConstantOfShape: element types and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from running import run

import opshift
from operators.harness import BF16, F16, F32, F64, INF, NAN, Case, Table, arr
from opshift.opsets.operators import cast, castlike, constant, constantofshape
from opshift.opsets.operators.cast import Cast
from opshift.opsets.operators.constant import Constant
from opshift.opsets.operators.constantofshape import ConstantOfShape
from opshift.opsets.registry.facts import Tensor

NUMBERS = (F16, F32, F64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_)
WHOLE = [0, 1, 2, 100]


def code(dtype: Any) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class TestCast(Table):
    operator = cast.OPERATOR
    cases = (
        *(Case(f"float to {np.dtype(to).name}", [arr(WHOLE)], Cast(code(to))) for to in NUMBERS),
        *(
            Case(f"{np.dtype(of).name} to double", [np.array(WHOLE, of)], Cast(code(F64)))
            for of in NUMBERS
            if of != F32
        ),
        Case("float to int64 drops the fraction", [arr([0.9, -0.9, 2.5, -2.5])], Cast(code(np.int64))),
        Case("double to float rounds", [np.array([0.1, 1e300, -1e300, NAN])], Cast(code(F32))),
        Case("all but zero is true", [arr([0.0, -0.0, 0.5, INF])], Cast(code(np.bool_))),
        Case("int64 to uint64 by its bits", [np.array([-1, 5], np.int64)], Cast(code(np.uint64))),
        Case("uint64 to int64 by its bits", [np.array([2**64 - 1, 5], np.uint64)], Cast(code(np.int64))),
        Case("bfloat16 to float", [arr([1, 3.25], BF16)], Cast(code(F32)), least=13),
        Case("float to bfloat16", [arr([1, 3.25])], Cast(code(BF16)), least=13),
    )


class TestCastLike(Table):
    operator = castlike.OPERATOR
    cases = (
        *(Case(f"float to {np.dtype(to).name}", [arr(WHOLE), np.array([1], to)]) for to in NUMBERS),
        Case("bfloat16", [arr([1, 3.25]), arr([1], BF16)], least=13),
        Case("known", [arr(WHOLE), np.array([1], np.int64)], known=(0,)),
    )


class TestConstant(Table):
    operator = constant.OPERATOR
    cases = (
        *(Case(np.dtype(dtype).name, [], Constant(Tensor(np.array(WHOLE, dtype)))) for dtype in NUMBERS),
        Case("scalar", [], Constant(Tensor(arr(3)))),
        Case("empty", [], Constant(Tensor(np.zeros((0, 2), np.int64)))),
        Case("string", [], Constant(Tensor(np.array(["a", "b"], object)))),
    )


class TestConstantOfShape(Table):
    operator = constantofshape.OPERATOR
    cases = (
        *(
            Case(
                f"{value and value.array.dtype} {dims} {'known' if known else 'computed'}",
                [np.array(dims, np.int64)],
                ConstantOfShape(value),
                known,
                symbolic=7 if known else 8,
            )
            for value in (None, Tensor(np.array([3], np.int64)), Tensor(np.array([True])))
            for dims in ((2, 3), (0,), (4,))
            for known in ((), (0,))
        ),
        Case("scalar", [np.zeros((0,), np.int64)], known=(0,)),
    )


FOREIGN = [
    ("openvino", TensorProto.INT2),
    ("openvino", TensorProto.UINT4),
    ("openvino", TensorProto.FLOAT8E8M0),
]
"""Targets, and element types of which no operator of their opset gives a tensor."""

INLINED = {"openvino"}
"""Targets for which functions are inlined, since they need constant inputs."""


def second_of(dtype: int) -> int:
    """A float8e8m0 is a power of two, and an int2 no more than 1."""
    return 4 if dtype == TensorProto.FLOAT8E8M0 else 0


def folded_of(dtype: int, ir_version: int = 13, inside: str = "") -> onnx.ModelProto:
    """Return a model of opset 25 whose outputs are known: a constant transposed, and what a Cast makes of that."""
    value = helper.make_tensor("c", dtype, [2, 1], [1, second_of(dtype)])
    held = helper.make_node("Constant", [], ["c"], value=value)
    turned = helper.make_node("Transpose", ["c"], ["y"])
    cast_to = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)
    y, z = (helper.make_tensor_value_info(name, kind, [1, 2]) for name, kind in (("y", dtype), ("z", 1)))
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("local", 1)]
    graph = helper.make_graph([held, turned, cast_to], "g", [], [y, z])
    functions = []
    if inside == "function":
        functions = [helper.make_function("local", "F", [], ["y", "z"], graph.node, opsets[:1])]
        graph = helper.make_graph([helper.make_node("F", [], ["y", "z"], domain="local")], "g", [], [y, z])
    elif inside == "If":
        branches = {f"{name}_branch": helper.make_graph(graph.node, name, [], [z]) for name in ("then", "else")}
        chosen = helper.make_tensor_value_info("b", TensorProto.BOOL, [])
        graph = helper.make_graph([helper.make_node("If", ["b"], ["z"], **branches)], "g", [chosen], [z])
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=functions)


@pytest.mark.parametrize(("target", "dtype"), FOREIGN)
@pytest.mark.parametrize("inside", ["", "If"])
def test_a_constant_of_a_type_that_no_operator_of_the_opset_gives_is_an_initializer(
    target: str, dtype: int, inside: str
) -> None:
    model = folded_of(dtype, inside=inside)
    result = opshift.convert(model, target=target).rewritten
    onnx.checker.check_model(result, full_check=True)
    expected = [[1, second_of(dtype)]]
    if not inside:
        (kept,) = result.graph.initializer
        assert (kept.name, kept.data_type) == ("y", dtype)
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(kept).astype(F32), expected)
        del result.graph.output[0]  # numpy has no such type for onnxruntime
    np.testing.assert_array_equal(run(result, [{"b": np.array(True)}])[0][0], expected)


@pytest.mark.parametrize(("target", "dtype"), FOREIGN)
@pytest.mark.parametrize(("ir_version", "inside"), [(13, "function"), (3, "")])
def test_where_no_initializer_can_stand_such_a_constant_is_refused(
    target: str, dtype: int, ir_version: int, inside: str
) -> None:
    model = folded_of(dtype, ir_version, inside)
    if inside and target in INLINED:
        result = opshift.convert(model, target=target).rewritten
        assert not result.functions
        del result.graph.output[0]  # numpy has no such type for onnxruntime
        np.testing.assert_array_equal(run(result, [{"b": np.array(True)}])[0][0], [[1, second_of(dtype)]])
        return
    with pytest.raises(opshift.UnsupportedError) as caught:
        opshift.convert(model, target=target)
    assert {refusal.code for refusal in caught.value.refusals} == {"type"}
    assert all("or newer" in refusal.hint for refusal in caught.value.refusals)
