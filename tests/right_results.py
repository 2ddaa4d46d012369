"""Right conversions that the default verification refuses: `python tests/right_results.py --cases 2000 --seed 0`.

A case is one of ONNX's own node tests, as a model of one node: restated at an opset of its operator, retyped to an
element type that the schema accepts, and converted across a boundary of versions, or decomposed. A result that agrees
with the original when both run in onnxruntime on the node test's own inputs, within what the element type can resolve,
counts as right. The script prints each right result that `opshift.convert` refused, and the rate.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import random
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from node_tests import cases
from onnx import ModelProto, TensorProto, helper, numpy_helper

import opshift
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.passes.runtime.ort_models import RejectedError, Runnable
from opshift.passes.runtime.ort_opsets import fit
from opshift.passes.runtime.ort_session import Runner

OPSETS = range(OLDEST, NEWEST + 1)
ELEMENTS = (
    *(TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL),
)
COMMON = ((17, 18), (18, 17), (11, 12), (12, 11), (18, 19), (19, 18))
"""Pairs of opsets between which kernels of onnxruntime change although versions do not."""
RESOLUTION: dict[int, float] = {TensorProto.FLOAT16: 2.0**-7, TensorProto.BFLOAT16: 2.0**-4}
"""The relative distance up to which two results count as the same."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A model of one node, its inputs, and what it is converted to."""

    name: str
    operator: str
    element: int
    model: ModelProto
    feeds: Mapping[str, Any]
    source_opset: int
    opset: int | None
    decompose: tuple[str, ...] = ()

    def __str__(self) -> str:
        goal = f"{self.source_opset} to {self.opset}" if self.opset else f"{self.source_opset} decomposed"
        return f"{self.operator} {TensorProto.DataType.Name(self.element).lower()} {goal} ({self.name})"


@functools.cache
def templates() -> dict[str, list[Any]]:
    """Return the node tests of one node, by operator."""
    found: dict[str, list[Any]] = collections.defaultdict(list)
    for case in cases(""):
        (node, *others) = case.model.graph.node
        if not others and node.domain in ("", "ai.onnx") and "expanded" not in case.name:
            found[node.op_type].append(case)
    return dict(found)


@functools.cache
def versions(operator: str) -> tuple[int, ...]:
    """Return the versions that an operator has from opset 7 on."""
    every = {
        onnx.defs.get_schema(operator, opset, "").since_version
        for opset in OPSETS
        if onnx.defs.has(operator, opset, "")
    }
    return tuple(sorted(every))


def journeys(operator: str) -> list[tuple[int, int | None]]:
    """Return pairs of opsets around each version boundary; None for a decomposition."""
    starts = versions(operator)
    around = [
        (max(7, start + one), max(7, start + other)) for start in starts for one in (-1, 0, 1) for other in (-1, 0, 1)
    ]
    pairs = [pair for pair in dict.fromkeys((*around, *COMMON)) if pair[0] != pair[1] and max(pair) <= NEWEST]
    pairs = [pair for pair in pairs if min(pair) >= starts[0]] + [
        pair for pair in pairs if pair[1] < starts[0] <= pair[0]
    ]
    return [*pairs, *((start, None) for start in (*starts, 13, 17, 20) if start >= max(7, starts[0]))]


def case_of(seed: int, number: int) -> Case | None:
    """Return one case; None where what is drawn is no valid model, or onnxruntime does not run it."""
    rng = random.Random(f"{seed}:{number}")
    operators = sorted(templates())
    operator = operators[number % len(operators)]
    test = rng.choice(templates()[operator])
    source_opset, opset = rng.choice(journeys(operator))
    names = [value.name for value in test.model.graph.input]
    feeds = {name: _array(value) for name, value in zip(names, test.data_sets[0][0], strict=False)}
    frozen = _frozen(test.model, feeds, rng)
    model = _restated(frozen, source_opset)
    if model is None:
        return None
    fed = {value.name: feeds[value.name] for value in model.graph.input if value.name in feeds}
    elements = _elements(model, source_opset)
    element = rng.choice(elements)
    retyped = _retyped(model, fed, element, source_opset)
    if retyped is None:
        return None
    model, fed = retyped
    if rng.random() < 0.3:
        _symbolic(model)
    return Case(test.name, operator, element, model, fed, source_opset, opset, () if opset else (operator,))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _frozen(model: ModelProto, feeds: Mapping[str, Any], rng: random.Random) -> ModelProto:
    """Return a copy in which inputs that set shapes are initializers, as older versions have them as attributes."""
    copy = ModelProto()
    copy.CopyFrom(model)
    schema = onnx.defs.get_schema(model.graph.node[0].op_type, model.opset_import[0].version, "")
    last = len(schema.inputs) - 1
    small = {
        name
        for at, name in enumerate(model.graph.node[0].input)
        if name in feeds
        and at
        and (set(schema.inputs[min(at, last)].types) <= {"tensor(int64)", "tensor(int32)"} or rng.random() < 0.15)
    }
    copy.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in sorted(small))
    kept = [value for value in copy.graph.input if value.name not in small]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


def _restated(model: ModelProto, opset: int) -> ModelProto | None:
    """Return the model at another opset; None where that is not one node of the same operator."""
    own = model.opset_import[0].version
    if own == opset:
        return model
    try:
        found = opshift.convert(model, opset=opset, verify=False).model
    except opshift.OpshiftError:
        return None
    assert isinstance(found, ModelProto)
    kept = [node.op_type for node in found.graph.node]
    return found if kept == [model.graph.node[0].op_type] else None


def _elements(model: ModelProto, opset: int) -> list[int]:
    """Return the element types that the first type variable of the node may have."""
    node = model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    own = _type_of(model, node.input[0]) if node.input else TensorProto.FLOAT
    if not schema.inputs or not node.input:
        return [own]
    allowed = schema.inputs[0].types
    found = [
        one
        for one in ELEMENTS
        if f"tensor({helper.tensor_dtype_to_string(one).removeprefix('TensorProto.').lower()})" in allowed
    ]
    return [int(one) for one in found] or [own]


def _type_of(model: ModelProto, name: str) -> int:
    for value in model.graph.input:
        if value.name == name:
            return int(value.type.tensor_type.elem_type)
    return next((int(tensor.data_type) for tensor in model.graph.initializer if tensor.name == name), TensorProto.FLOAT)


def _retyped(
    model: ModelProto, feeds: Mapping[str, Any], element: int, opset: int
) -> tuple[ModelProto, dict[str, Any]] | None:
    """Return the model and inputs with another element type wherever the first input's type variable is."""
    node = model.graph.node[0]
    if not node.input:
        return model, dict(feeds)
    own = _type_of(model, node.input[0])
    if own == element:
        return model, dict(feeds)
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    last = len(schema.inputs) - 1
    variable = schema.inputs[0].type_str
    same = {name for at, name in enumerate(node.input) if name and schema.inputs[min(at, last)].type_str == variable}
    made = {
        name
        for at, name in enumerate(node.output)
        if schema.outputs[min(at, len(schema.outputs) - 1)].type_str == variable
    }
    copy = ModelProto()
    copy.CopyFrom(model)
    dtype = helper.tensor_dtype_to_np_dtype(element)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.name in same | made:
            value.type.tensor_type.elem_type = element
    for tensor in copy.graph.initializer:
        if tensor.name in same:
            tensor.CopyFrom(numpy_helper.from_array(_cast(numpy_helper.to_array(tensor), dtype), tensor.name))
    for value in copy.graph.output:
        if value.name not in made:
            value.type.tensor_type.ClearField("elem_type")
    try:
        inferred = onnx.shape_inference.infer_shapes(copy, strict_mode=True, check_type=True)
        copy.graph.output[0].CopyFrom(inferred.graph.output[0])
        for at, value in enumerate(inferred.graph.output):
            copy.graph.output[at].CopyFrom(value)
        onnx.checker.check_model(copy)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        return None
    return copy, {name: _cast(value, dtype) if name in same else value for name, value in feeds.items()}


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    if array.dtype == object or dtype.hasobject:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _symbolic(model: ModelProto) -> None:
    """Make the first dimension of each input unknown."""
    for value in model.graph.input:
        for at, dim in enumerate(value.type.tensor_type.shape.dim[:1]):
            dim.dim_param = f"{value.name}_{at}"
    for value in model.graph.output:
        for at, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{at}"


def outputs(model: ModelProto, feeds: Mapping[str, Any]) -> Sequence[Any]:
    """Run a model with graph optimisations off."""
    return Runner(fit(Runnable(model))[0]).run(feeds, False)


def verdict(case: Case) -> tuple[str, str]:
    """Return what became of a case: `accepted`, `refused` though right, `wrong`, `unconvertible` or `not run`."""
    try:
        expected = outputs(case.model, case.feeds)
    except RejectedError as error:
        return "not run", str(error)
    try:
        result = opshift.convert(case.model, opset=case.opset, decompose=case.decompose, verify=False)
    except (opshift.UnsupportedError, opshift.InvalidModelError) as error:
        return "unconvertible", str(error)
    try:
        opshift.convert(case.model, opset=case.opset, decompose=case.decompose)
    except opshift.VerificationError as error:
        try:
            assert isinstance(result.model, ModelProto)
            actual = outputs(result.model, case.feeds)
            right = all(close(one, other, case.element) for one, other in zip(expected, actual, strict=True))
        except RejectedError as why:
            return "wrong", f"{error} [{why}]"
        return ("refused" if right else "wrong"), str(error)
    return "accepted", ""


def close(expected: Any, actual: Any, element: int) -> bool:
    """Return whether two outputs are the same as far as the element type resolves."""
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(
            close(one, other, element) for one, other in zip(expected, actual, strict=True)
        )
    one, other = np.asarray(expected), np.asarray(actual)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind in "OUSb":
        return bool((one == other).all())
    resolution = RESOLUTION.get(element, 2.0**-17)
    wide = one.astype(np.float64), other.astype(np.float64)
    largest = float(np.abs(wide[0][np.isfinite(wide[0])]).max(initial=0))
    return bool(np.allclose(*wide, rtol=resolution, atol=resolution * largest, equal_nan=True))


def main() -> None:
    """Judge many cases and print what was refused."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operator", default=".*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tally: collections.Counter[str] = collections.Counter()
    operators = sorted(templates())
    for number in range(options.start, options.start + options.cases):
        if not re.fullmatch(options.operator, operators[number % len(operators)]):
            continue
        case = case_of(options.seed, number)
        if case is None:
            tally["no case"] += 1
            continue
        kind, why = verdict(case)
        tally[kind] += 1
        if kind in ("refused", "wrong"):
            print(f"{kind} {options.seed}:{number} {case}: {why[:400]}", flush=True)
    right = tally["accepted"] + tally["refused"]
    print(dict(tally), f"{tally['refused']} of {right} right results refused")


if __name__ == "__main__":
    main()
