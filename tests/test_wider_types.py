"""Going through a wider type changes nothing: shown of every operator and pair of types, at the ends of each type."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from running import run, same

import opshift
from opshift.opsets.registry.equivalences import table
from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.operator import known_operators
from opshift.opsets.registry.wider_types import KINDS, MOVED, ORDERED, QUOTIENT, ROUNDED, SELECTED, Wider
from opshift.passes.base.plan import Code

Array = np.ndarray[Any, Any]
DTYPES = {
    dtype: np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    for dtype in {
        *MOVED,
        *(carrier for row in MOVED.values() for carrier in row),
        *(dtype for operator in known_operators() for dtype in operator.wider_types),
    }
}


def values(dtype: np.dtype[Any]) -> Array:
    """The ends of a type, what is near them, and numbers between."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, 2, 3, 7, 100]
        return np.array(near, dtype)
    rng = np.random.default_rng(0)
    info_of: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    bits = rng.integers(0, 2**dtype.itemsize * 8, 64)
    ends = [0.0, -0.0, 1, -1, 3, 0.1, np.inf, -np.inf, np.nan, float(info_of.max), float(info_of.tiny)]
    drawn = rng.standard_normal(64) * 2.0 ** (bits % 12 - 6)
    with np.errstate(all="ignore"):
        # The least subnormal numbers, where a type has fewer bits than elsewhere.
        small = np.arange(1, 20) * float(info_of.smallest_subnormal) * (-1) ** np.arange(1, 20)
        return np.array([*ends, *drawn, *small], dtype)


def pairs(wider_types: Wider) -> Iterator[tuple[int, int]]:
    for dtype, wide in wider_types.items():
        yield from ((dtype, one) for one in wide)


def computed(function: Callable[..., Any], arrays: list[Array]) -> Array:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = function(*arrays)
        return np.asarray(made[0] if isinstance(made, tuple) else made)


def check(name: str, function: Callable[..., Any], count: int, dtype: int, carrier: int) -> None:
    narrow, wide = DTYPES[dtype], DTYPES[carrier]
    one = values(narrow)
    arrays = [one] if count == 1 else [np.repeat(one, len(one)), np.tile(one, len(one))]
    if name in ("Div", "Mod") and narrow.kind in "iu":
        arrays = [array[arrays[1] != 0] for array in arrays]
    expected = computed(function, arrays)
    with np.errstate(all="ignore"):
        got = computed(function, [array.astype(wide) for array in arrays])
        got = got.astype(expected.dtype)
    if name in ("Max", "Min", "Relu", "Sign"):
        # No text says which zero is the larger, and numpy answers by type.
        expected, got = expected + expected.dtype.type(0), got + got.dtype.type(0)
    assert same(expected, got, 0.0), f"{name} of {type_name(dtype)} through {type_name(carrier)}"


@pytest.mark.parametrize("operator", [one for one in known_operators() if one.wider_types], ids=lambda one: one.name)
def test_what_an_oracle_computes_is_the_same_in_the_carrier(operator: Any) -> None:
    if any(operator.wider_types is table for table in ROUNDED):
        return  # rounded once, and said to round: the tables of cases compare within a bound
    count = 2 if operator.variadic else len(operator.operands)
    if count > 2 or operator.name in ("GatherND", "ReverseSequence", "Tile"):
        assert operator.wider_types is MOVED
        return
    if operator.name in ("MaxPool", "TopK"):
        assert operator.wider_types is ORDERED
        return
    if operator.name in ("ReduceMax", "ReduceMin"):
        assert operator.wider_types is SELECTED
        return
    schema = onnx.defs.get_schema(operator.name)
    meaning = operator.meaning()
    for dtype, carrier in pairs(operator.wider_types):
        if all(f"tensor({type_name(one)})" in schema.inputs[0].types for one in (dtype, carrier)):
            check(operator.name, lambda *arrays: operator.oracle(meaning, *arrays), count, dtype, carrier)


def test_an_operator_of_the_table_has_one_kind() -> None:
    for name, rows in table().items():
        kinds = {row.carried for row in rows} - {""}
        assert len(kinds) < 2, name
        assert kinds <= KINDS.keys(), name


def test_a_carrier_holds_every_value() -> None:
    for dtype, carrier in itertools.chain(pairs(MOVED), pairs(ORDERED), pairs(QUOTIENT)):
        array = values(DTYPES[dtype])
        with np.errstate(all="ignore"):
            assert same(array, array.astype(DTYPES[carrier]).astype(DTYPES[dtype]), 0.0)


def model(opset: int, name: str, dtype: str, attributes: str = "") -> onnx.ModelProto:
    return parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({dtype}[1,2,3,3] x) => ({dtype}[a,b,c,d] y) '
        f"{{ y = {name} {attributes} (x) }}"
    )


@pytest.mark.parametrize(
    ("source", "target", "name", "dtype", "attributes"),
    [
        (14, 7, "Relu", "int8", ""),
        (14, 9, "Relu", "int32", ""),
        (22, 8, "MaxPool", "int8", "<kernel_shape = [2, 2]>"),
        (22, 8, "MaxPool", "uint8", "<kernel_shape = [2, 2]>"),
    ],
)
def test_an_operator_without_a_file_goes_through_a_wider_type(
    source: int, target: int, name: str, dtype: str, attributes: str
) -> None:
    original = model(source, name, dtype, attributes)
    there = opshift.convert(original, opset=target).model
    assert isinstance(there, onnx.ModelProto)
    assert [node.op_type for node in there.graph.node] == ["Cast", name, "Cast"]
    x = np.arange(-9, 9).reshape(1, 2, 3, 3).astype(DTYPES[TensorProto.DataType.Value(dtype.upper())])
    assert same(run(original, [{"x": x}])[0][0], run(there, [{"x": x}])[0][0], 0.0)


def test_bfloat16_goes_down_to_13() -> None:
    there = opshift.convert(model(22, "MaxPool", "bfloat16", "<kernel_shape = [2, 2]>"), opset=13, verify=False).model
    assert isinstance(there, onnx.ModelProto)
    assert [node.op_type for node in there.graph.node] == ["Cast", "MaxPool", "Cast"]
    onnx.checker.check_model(there, full_check=True)


def test_functions_of_bfloat16_are_rounded_once_behind_float() -> None:
    original = model(22, "Sin", "bfloat16")
    there = opshift.convert(original, opset=13, verify=False).model
    assert isinstance(there, onnx.ModelProto)
    assert [node.op_type for node in there.graph.node] == ["Cast", "Sin", "Cast"]
    every = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    x = every[np.isfinite(every) & (np.abs(every) < 1e4)][: 18 * 1500].reshape(-1, 2, 3, 3)
    free = onnx.ModelProto()
    free.CopyFrom(there)
    for value in (*free.graph.input, *free.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    found = run(free, [{"x": x}])[0][0]
    exact = np.sin(x.astype(np.float64))
    nearest = exact.astype(ml_dtypes.bfloat16)
    assert np.mean(found == nearest) > 0.999
    assert np.all(np.abs(found.astype(np.float64) - exact) <= 2**-8 * np.abs(exact))


def test_narrow_floats_that_are_not_bfloat16_are_not_rounded_twice() -> None:
    there = opshift.convert(model(22, "Sin", "float16"), opset=13, verify=False).model
    assert isinstance(there, onnx.ModelProto)
    assert [node.op_type for node in there.graph.node] == ["Sin"]


def test_an_upgrade_leaves_the_type_alone() -> None:
    there = opshift.convert(model(13, "Erf", "bfloat16"), opset=18, verify=False).model
    assert isinstance(there, onnx.ModelProto)
    assert [node.op_type for node in there.graph.node] == ["Erf"]


@pytest.mark.parametrize("type_", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "call",
    [
        *(
            f"{name}<axes = [1]>(x)"
            for name in ("ReduceMax", "ReduceMean", "ReduceProd", "ReduceL2", "ReduceLogSumExp")
        ),
        *("ReduceSum(x, axis)", "AveragePool<kernel_shape = [2, 2]>(x)"),
    ],
)
def test_sums_of_narrow_floats_are_decomposed(call: str, type_: str) -> None:
    opset = 22 if "AveragePool" in call else 17
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({type_}[2,3,5,6] x) => ({type_}[a,b,c,d] y) '
        f"<int64[1] axis = {{1}}> {{ y = {call} }}"
    )
    name = call[: min(call.index(mark) for mark in "<(" if mark in call)]
    result = opshift.convert(model, decompose=[name])
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert isinstance(result.model, onnx.ModelProto)
    assert name not in {node.op_type for node in result.model.graph.node}


def test_a_product_of_integers_is_refused_where_it_stands() -> None:
    model = parse_model(
        '<ir_version: 10, opset_import: ["": 14]> g (uint64[2,3] x) => (uint64[2,3] y) '
        "<int64 axis = {1}> { y = CumSum (x, axis) }"
    )
    (refusal,) = opshift.plan(model, decompose=["CumSum"]).refusals
    assert (refusal.code, refusal.node, refusal.operator) == (Code.NO_LOWERING, "main/CumSum_0", "CumSum-14")
