"""Lowerings and function bodies of floats are as accurate as onnxruntime's own kernel, also where numbers are extreme.

The bound of each element is eight times the kernel's worst error on the same input, for a body has a few roundings
where a kernel has one, and 64 units in the last place: half a unit for each of at most 32 operations, each of which may
double the error of its operands once. Below the least normal number units are as large as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from running import Array, opset_of, run
from single_nodes import Single, by_text, conversions, feeds, shaped, singles

from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.schema import schema_at

DTYPES: Mapping[str, type[np.floating[Any]]] = {"float": np.float32, "double": np.float64, "float16": np.float16}
OPERATORS = sorted(
    {
        *("BatchNormalization", "Celu", "Elu", "Gelu", "GroupNormalization", "HardSwish", "LayerNormalization"),
        *("LogSoftmax", "MeanVarianceNormalization", "Mish", "PRelu", "RMSNormalization", "Reciprocal", "ReduceL1"),
        *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSumSquare", "Selu", "Softmax"),
        *("Softplus", "Softsign", "SoftmaxCrossEntropyLoss", "Sqrt", "Swish", "ThresholdedRelu"),
    }
    & singles().keys()
)
"""Those that use Exp, Log, Sqrt, Div or squares."""


def values(dtype: type[np.floating[Any]], shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Yield arrays of a shape: near all ends of the type, and where exponentials saturate."""
    rng = np.random.default_rng(5)
    info = np.finfo(dtype)
    most, least = float(info.max), float(info.tiny)
    drawn = rng.standard_normal(shape)
    for name, array in {
        "ordinary": drawn,
        "small": drawn * 1e-3,
        "large": np.clip(drawn, -1, 1) * (most / 2),
        "squares overflow": drawn * most**0.5,
        "squares nearly overflow": drawn * most**0.5 / 50,
        "tiny": drawn * least * 8,
        "squares vanish": drawn * least**0.5,
        "of many sizes": drawn * 10.0 ** rng.uniform(-4, 4, shape),
        "saturating": drawn * 200,
        "far below zero": -np.abs(drawn * 200) - 90,
        "zeros": drawn * 0,
        "infinite": np.where(drawn > 1, np.inf, drawn),
        "infinite below": np.where(drawn > 1, -np.inf, drawn),
        "all infinite below": np.full(shape, -np.inf),
    }.items():
        with np.errstate(over="ignore"):
            yield name, array.astype(dtype)


def typed(single: Single, dtype: type[np.floating[Any]]) -> Single:
    """Return the same with its floats of this type."""
    arrays = tuple(array.astype(dtype) if array.dtype.kind == "f" else array for array in single.arrays)
    model = type(single.model).FromString(single.model.SerializeToString())
    for output in model.graph.output:
        if output.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
            output.type.tensor_type.elem_type = {2: 10, 4: 1, 8: 11}[np.dtype(dtype).itemsize]
    return Single(single.name, model, arrays)


def distance(one: Array, other: Array) -> Array:
    """Return how far numbers lie apart: not at all where both are the same infinity, or none."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.where(np.isnan(apart), np.inf, apart))


def faults(exact: Array, kernel: Array, found: Array) -> str:
    """Describe the first element that is less accurate than it must be."""
    info = np.finfo(kernel.dtype)
    with np.errstate(over="ignore"):
        nearest = exact.astype(kernel.dtype)
    own = distance(nearest, kernel)
    fair = np.isfinite(own)  # elsewhere the kernel itself overflows, and so may what replaces it
    size = np.abs(np.where(np.isfinite(nearest), nearest, 0).astype(np.float64))
    bound = 8 * own.max(initial=0, where=fair) + 64 * float(info.eps) * np.maximum(size, float(info.tiny))
    bad = np.flatnonzero((fair & ~(distance(nearest, found) <= bound)).ravel())
    if not bad.size:
        return ""
    return f"{found.ravel()[bad[0]]} for {exact.ravel()[bad[0]]}, of which the kernel makes {kernel.ravel()[bad[0]]}"


def takes(operator: str, model: ModelProto, dtype: type[np.floating[Any]]) -> bool:
    """Whether this version of the operator is for this element type."""
    schema = schema_at("", operator, opset_of(model))
    parameter = None if schema is None else schema.input(0)
    name = type_name(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    return parameter is not None and f"tensor({name})" in parameter.types


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_lowerings_are_as_accurate_as_the_kernel(operator: str, dtype: str) -> None:
    wrong = []
    for plain in singles()[operator][:2]:
        single = typed(plain, DTYPES[dtype])
        original = shaped(single, single.arrays, known=True, constants=True)
        if not takes(operator, original, DTYPES[dtype]):
            continue
        rewritten = list(conversions(original, operator))
        wide = shaped(typed(plain, np.float64), typed(plain, np.float64).arrays, known=True, constants=True)
        for name, array in values(DTYPES[dtype], single.arrays[0].shape):
            given = feeds(single, (array, *single.arrays[1:]))
            exact = by_text(
                wide, {key: one.astype(np.float64) if one.dtype.kind == "f" else one for key, one in given.items()}
            )
            try:
                kernel = run(original, [given])[0]
            except Exception:  # onnxruntime has no kernel for this type
                break
            for how, model in rewritten:
                found = run(model, [given])[0]
                for index, (own, other) in enumerate(zip(kernel, found, strict=True)):
                    text = own if exact is None else exact[index]
                    if own.dtype.kind == "f" and (fault := faults(text, own, other)):
                        wrong.append(f"{single.name}, {name}, {how}: {fault}")
    assert not wrong, "\n".join(wrong[:6])
