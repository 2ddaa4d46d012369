"""Cases written by others: ONNX's backend tests of the three operators, and facts from onnxruntime's unit tests.

Each case is taken to every opset, with the operator and without it, and must still give the numbers that came with it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import node_tests
import numpy as np
import onnx
import onnx.helper
import pytest
from running import BFLOAT16, OPSETS, Array, differences, operators_of, opset_of, run

import opshift

THREE = ("Hardmax", "ArgMax", "OneHot")


# ONNX's own ----------------------------------------------------------------------------------------------------------


TIES = ("", "_select_last_index")
BACKEND = [
    *(
        f"test_argmax_{form}_{values}{tie}"
        for form in ("no_keepdims", "keepdims", "default_axis", "negative_axis_keepdims")
        for values in ("example", "random")
        for tie in TIES
    ),
    *(
        f"test_hardmax_{form}"
        for form in ("example", "one_hot", "axis_0", "axis_1", "axis_2", "negative_axis", "default_axis")
    ),
    *(
        f"test_onehot_{form}"
        for form in ("without_axis", "with_axis", "with_negative_axis", "negative_indices", "out_of_range_indices")
    ),
    "test_onehot_with_bfloat16_values",
]


@functools.cache
def _backend() -> dict[str, Any]:
    three = {("", name) for name in THREE}
    return {
        case.name: case for case in node_tests.collected() if case.model and operators_of(case.model).keys() & three
    }


def test_backend_cases_are_all_there() -> None:
    """A case that a newer onnx adds belongs into the list."""
    assert set(BACKEND) == set(_backend())


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", BACKEND)
def test_backend_case(name: str, opset: int) -> None:
    case = _backend()[name]
    feeds, expected = [], []
    for given, wanted in case.data_sets:
        names = [entry.name for entry in case.model.graph.input]
        feeds.append({name: np.asarray(array) for name, array in zip(names, given, strict=True)})
        expected.append([np.asarray(array) for array in wanted])
    takes_bfloat16 = any(array.dtype == BFLOAT16 for array in feeds[0].values())
    for decompose in ((), THREE):
        if takes_bfloat16 and opset < 13:
            with pytest.raises(opshift.UnsupportedError, match="bfloat16"):
                opshift.convert(case.model, opset=opset, decompose=decompose, verify=False)
            continue
        assert _problems(case.model, opset, decompose, feeds, expected) == []


# onnxruntime's facts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One node with its inputs and output, and the opsets at which it is written so."""

    operator: str
    opsets: tuple[int, ...]
    inputs: tuple[Array, ...]
    output: Array
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self, opset: int) -> onnx.ModelProto:
        names = [f"in_{number}" for number in range(len(self.inputs))]
        node = onnx.helper.make_node(self.operator, names, ["out"], name="node", **self.attributes)
        described = [_described(name, array) for name, array in zip(names, self.inputs, strict=True)]
        graph = onnx.helper.make_graph([node], "case", described, [_described("out", self.output)])
        imports = [onnx.helper.make_opsetid("", opset)]
        ir_version = onnx.helper.find_min_ir_version_for(imports)
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def _described(name: str, array: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _lit(shape: tuple[int, ...], positions: list[int], off: Any, on: Any, dtype: Any) -> Array:
    """An array of `off` with `on` at these positions, counted in memory order."""
    array = np.full(shape, off, dtype)
    array.reshape(-1)[positions] = on
    return array


def _hardmax(values: Array, lit: list[int], opsets: tuple[int, ...], **attributes: int) -> Case:
    return Case("Hardmax", opsets, (values,), _lit(values.shape, lit, 0, 1, values.dtype), attributes)


def _argmax(values: Array, index: Any, opsets: tuple[int, ...], **attributes: int) -> Case:
    return Case("ArgMax", opsets, (values,), np.array(index, np.int64), attributes)


def _one_hot(
    kinds: tuple[Any, Any, Any],
    lit: list[int],
    off_on: tuple[Any, Any] = (0, 1),
    opsets: tuple[int, ...] = (11, 28),
    indices: Any = ((1, 9, 8), (2, 4, 6)),
    shape: tuple[int, ...] = (2, 3, 10),
    **attributes: int,
) -> Case:
    index, depth, value = kinds
    inputs = (np.array(indices, index), np.array([10], depth), np.array(off_on, value))
    return Case("OneHot", opsets, inputs, _lit(shape, lit, *off_on, value), attributes)


CUBE = np.abs(np.random.RandomState(123).randn(3, 4, 5)).astype(np.float32)
LAST = [3, 6, 12, 16, 21, 27, 31, 38, 41, 46, 52, 57]
STEPS = np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
PAIRS = np.array([[1, 2], [6, 5], [9, 10]], np.float32)
TIED = np.array([2, 2, 3, 4, 5, 6, 7, 8, 10, 10, 11, 12], np.int32).reshape(3, 2, 2)
MIXED = np.array([2, 4, 3, 4, 8, 6, 7, 8, 9, 13, 11, 12], np.int32).reshape(3, 2, 2)
OLD, ANY = (7, 10, 11, 12), (7, 11, 12, 13)
I32, I64, F16, F32 = np.int32, np.int64, np.float16, np.float32
ROW = [1, 19, 28, 32, 44, 56]  # the indices 1, 9, 8, 2, 4, 6 one-hot in rows of 10
PLANES = [6, 15, 28, 41, 50, 55]  # the same with the ten in front
MIDDLE = [3, 26, 28, 36, 43, 50]  # the same with the ten in the middle

CASES: dict[str, Case] = {
    "hardmax simple": _hardmax(np.array([[-1, 0, 1]], F32), [2], ANY, axis=1),
    "hardmax large": _hardmax(np.array([[0, 1, 2, 3], [10000, 10001, 10002, 10003]], F32), [3, 7], ANY, axis=1),
    "hardmax default axis below 13": _hardmax(CUBE, [6, 31, 46], OLD),
    "hardmax axis 0 below 13": _hardmax(CUBE, [31], OLD, axis=0),
    "hardmax axis 1 below 13": _hardmax(CUBE, [6, 31, 46], OLD, axis=1),
    "hardmax axis 2": _hardmax(CUBE, LAST, ANY, axis=2),
    "hardmax axis -1": _hardmax(CUBE, LAST, (11, 12, 13), axis=-1),
    "hardmax default axis of 13": _hardmax(CUBE, LAST, (13,)),
    "hardmax axis 0 of 13": _hardmax(
        CUBE, [0, 3, 5, 6, 8, 16, 17, 22, 24, 27, 31, 32, 34, 41, 49, 50, 53, 55, 58, 59], (13,), axis=0
    ),
    "hardmax axis 1 of 13": _hardmax(CUBE, [3, 5, 6, 9, 17, 20, 23, 24, 31, 32, 46, 49, 50, 57, 58], (13,), axis=1),
    "argmax": _argmax(STEPS, [[[1, 1]], [[1, 1]], [[1, 1]]], ANY, axis=1, keepdims=1),
    "argmax without keepdims": _argmax(STEPS, [[1, 1], [1, 1], [1, 1]], ANY, axis=1, keepdims=0),
    "argmax to a scalar": _argmax(np.array([1, 2, 3], F32), 2, ANY, axis=0, keepdims=0),
    "argmax int32": _argmax(STEPS.astype(I32), [[[1, 1]], [[1, 1]], [[1, 1]]], ANY, axis=1, keepdims=1),
    "argmax int32 negative axis": _argmax(
        STEPS.astype(I32), [[[1, 1]], [[1, 1]], [[1, 1]]], (11, 12, 13), axis=-2, keepdims=1
    ),
    "argmax 2-d": _argmax(PAIRS, [[1], [0], [1]], ANY, axis=1, keepdims=1),
    "argmax 2-d last": _argmax(PAIRS, [[1], [0], [1]], (12, 13), axis=1, keepdims=1, select_last_index=1),
    "argmax last": _argmax(TIED, [[[1, 1]], [[1, 1]], [[1, 1]]], (12, 13), axis=1, keepdims=1, select_last_index=1),
    "argmax last tied": _argmax(
        MIXED, [[[1, 1]], [[0, 1]], [[1, 0]]], (12, 13), axis=1, keepdims=1, select_last_index=1
    ),
    "onehot": _one_hot((I64, I64, I64), ROW, opsets=(9, 11, 28)),
    "onehot float float float": _one_hot((F32, F32, F32), ROW, opsets=(9, 11)),
    "onehot int64 float int32": _one_hot((I64, F32, I32), ROW),
    "onehot int64 int64 float": _one_hot((I64, I64, F32), ROW),
    "onehot int32 float float": _one_hot((I32, F32, F32), ROW),
    "onehot int32 int32 float": _one_hot((I32, I32, F32), ROW),
    "onehot float int64 int64": _one_hot((F32, I64, I64), ROW, opsets=(9, 11)),
    "onehot int64 int64 string": _one_hot((I64, I64, object), ROW, ("off", "on")),
    "onehot int64 int64 half": _one_hot((I64, I64, F16), ROW, (2, 3)),  # onnxruntime runs it on CUDA only
    "onehot int32 int32 half": _one_hot((I32, I32, F16), ROW),
    "onehot axis 0": _one_hot((I64, I64, I64), PLANES, opsets=(9, 11, 28), shape=(10, 2, 3), axis=0),
    "onehot axis 1": _one_hot((I64, I64, I64), MIDDLE, opsets=(9, 11, 28), shape=(2, 10, 3), axis=1),
    "onehot axis 2": _one_hot((I64, I64, I64), ROW, opsets=(9, 11, 28), axis=2),
    "onehot axis -3": _one_hot((I64, I64, I64), PLANES, shape=(10, 2, 3), axis=-3),
    "onehot off 2 on 3": _one_hot((I64, I64, I64), ROW, (2, 3)),
    "onehot off 2 on 3 float": _one_hot((F32, F32, F32), ROW, (2, 3)),
    "onehot off 2 on 3 int32": _one_hot((I64, F32, I32), ROW, (2, 3)),
    "onehot off 2 on 3 axis 0": _one_hot((I64, I64, I64), PLANES, (2, 3), shape=(10, 2, 3), axis=0),
    "onehot off 2 on 3 axis 1": _one_hot((I64, I64, I64), MIDDLE, (2, 3), shape=(2, 10, 3), axis=1),
    "onehot index -1": _one_hot((I64, I64, I64), PLANES, indices=((1, -1, 8), (2, 4, 6)), shape=(10, 2, 3), axis=-3),
    "onehot index -1 off 2 on 3": _one_hot(
        (I64, I64, I64), PLANES, (2, 3), indices=((1, -1, 8), (2, 4, 6)), shape=(10, 2, 3), axis=-3
    ),
    "onehot out of range": _one_hot((I64, I64, I64), [1, 19, 28, 44], indices=((1, -1, 8), (13, 4, -12))),
    "onehot out of range off 2 on 3": _one_hot(
        (I64, I64, I64), [1, 19, 28, 44], (2, 3), indices=((1, -1, 8), (13, 4, -12))
    ),
    "onehot empty": _one_hot((I64, I64, I64), [], indices=((), ()), shape=(10, 2, 0), axis=0),
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if F16 not in {i.dtype for i in case.inputs}])
def test_onnxruntime_gives_these_numbers(name: str) -> None:
    """Otherwise the facts below would be wrong."""
    case = CASES[name]
    for opset in case.opsets:
        model = case.model(opset)
        onnx.checker.check_model(model, full_check=True)
        assert differences([[case.output]], run(model, [_feed(case)])) == []


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_case(name: str, opset: int) -> None:
    case = CASES[name]
    for source in case.opsets:
        for decompose in ((), THREE):
            assert _problems(case.model(source), opset, decompose, [_feed(case)], [[case.output]]) == []


def _feed(case: Case) -> dict[str, Array]:
    return {f"in_{number}": array for number, array in enumerate(case.inputs)}


def _problems(
    model: onnx.ModelProto,
    opset: int,
    decompose: tuple[str, ...],
    feeds: list[dict[str, Array]],
    expected: list[list[Array]],
) -> list[str]:
    """Convert a model, and describe what is wrong with the result."""
    converted = opshift.convert(model, opset=opset, decompose=decompose, verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    onnx.checker.check_model(converted)
    left = [operator for _, operator in operators_of(converted) if operator in decompose]
    problems = [f"opset {opset_of(model)} to {opset}: {operator} is left" for operator in left]
    if opset_of(converted) != opset:
        problems.append(f"opset {opset_of(model)} to {opset}: it is {opset_of(converted)}")
    if any(array.dtype == BFLOAT16 for feed in feeds for array in feed.values()) and not decompose:
        # onnxruntime has no kernel for what was kept: what comes of it without the operator must be right.
        again = opshift.convert(converted, decompose=THREE, verify=False).model
        assert isinstance(again, onnx.ModelProto)
        converted = again
    for optimised in (False, True):
        found = differences(expected, run(converted, feeds, optimised=optimised))
        problems += [f"opset {opset_of(model)} to {opset}, optimised {optimised}: {what}" for what in found]
    return problems


@pytest.mark.fast(3)
@pytest.mark.parametrize("how", ["AVG", "MAX", "LPPOOL"])
def test_windows_are_pooled_at_once_as_onnx_pools_each(how: str) -> None:
    array = np.random.default_rng(0).standard_normal((1, 2, 5, 6, 4)).astype(np.float32)
    for kernel, strides in (((2, 2, 2), (1, 1, 1)), ((3, 1, 2), (2, 1, 2))):
        sizes = tuple((size - of) // step + 1 for size, of, step in zip(array.shape[2:], kernel, strides, strict=True))
        taken = (array, array.shape, kernel, strides, sizes, how)
        assert np.array_equal(node_tests.pool(*taken, p=3), node_tests._pool(*taken, p=3))
