"""ONNX's own node tests with other shapes, element types and values, and what they become without their operator."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from node_tests import _array, cases
from onnx import AttributeProto, ModelProto, helper, numpy_helper
from review_versions import versions
from running import RUNS_TO, Array, opset_of

import opshift
from opshift.opsets.registry.facts import constant, freeze, type_name
from opshift.opsets.registry.operator import Node, lift
from opshift.opsets.registry.schema import OLDEST, attribute_value, schema_at
from opshift.opsets.registry.schema_only import has_body, operator_of


class Single(NamedTuple):
    """A model of one node, and the inputs that come with it."""

    name: str
    model: ModelProto
    arrays: tuple[Array, ...]


@functools.cache
def singles() -> Mapping[str, Sequence[Single]]:
    """Return the tests of each operator that a lowering or a body can replace, smallest first; none with graphs."""
    found: dict[str, list[Single]] = collections.defaultdict(list)
    for case in sorted(cases(""), key=lambda case: len(case.model.SerializeToString())):
        model = ModelProto.FromString(case.model.SerializeToString())
        node = model.graph.node[0]
        arrays = tuple(map(_array, case.data_sets[0][0]))
        plain = "expanded" not in case.name and len(model.graph.node) == 1 and not node.domain
        graphs = any(item.type == AttributeProto.GRAPH for item in node.attribute)
        whole = len(arrays) == len(model.graph.input) and sum(array.size for array in arrays) <= 5000
        if not plain or graphs or not whole or opset_of(model) < OLDEST:
            continue
        operator = operator_of("", node.op_type)
        if operator is None or not (operator.lowerings or operator.wider_types or has_body(operator.name)):
            continue
        for entry in model.opset_import:
            entry.version = min(entry.version, RUNS_TO)  # newer versions add element types and attributes only
        schema = schema_at("", node.op_type, opset_of(model))
        if schema is None or any(item.name not in schema.attributes for item in node.attribute):
            continue
        kinds = [f"tensor({type_name(helper.np_dtype_to_tensor_dtype(array.dtype))})" for array in arrays]
        parameters = [schema.input(index) for index in range(len(arrays))]
        if not all(one is not None and kind in one.types for one, kind in zip(parameters, kinds, strict=True)):
            continue
        found[node.op_type].append(Single(case.name, model, arrays))
    return found


def shaped(single: Single, arrays: Sequence[Array], *, known: bool, constants: bool) -> ModelProto:
    """Return the model with these inputs: dimensions `known` or not, whole vectors behind the first as constants."""
    model = ModelProto()
    model.CopyFrom(single.model)
    del model.graph.input[:], model.graph.value_info[:]
    for index, (value, array) in enumerate(zip(single.model.graph.input, arrays, strict=True)):
        if constants and is_setting(index, array):
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
            continue
        dims = array.shape if known else [f"d{index}_{axis}" for axis in range(array.ndim)]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.input.append(helper.make_tensor_value_info(value.name, kind, dims))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    model.ir_version = min(max(8, model.ir_version), 13)
    return model


def is_setting(index: int, array: Array) -> bool:
    """Whether an input looks like axes, a shape or a count."""
    return index > 0 and array.dtype == np.int64 and array.ndim <= 1


def feeds(single: Single, arrays: Sequence[Array]) -> dict[str, Array]:
    """Return the arrays by name; sessions take those that they have inputs for."""
    return {value.name: array for value, array in zip(single.model.graph.input, arrays, strict=True)}


Request = Mapping[str, Any]
"""What a conversion is asked for: keywords of `opshift.convert`."""


class Converted(NamedTuple):
    """What a model becomes, how, and the serialization of its nodes, which tells it from others."""

    how: str
    model: ModelProto
    nodes: str


def requests_of(model: ModelProto, operator: str) -> list[Request]:
    """Return what to ask for: the model without its operator, and below each of its versions."""
    below = {version - 1 for version in versions()[operator]} | {OLDEST, 9, 13}
    lower = [{"opset": opset} for opset in sorted(below) if OLDEST <= opset < opset_of(model)]
    return [{"decompose": [operator]}, *lower]


def converted(model: ModelProto, operator: str, request: Request) -> Converted | None:
    """Return what the model becomes; None where that is refused, or the operator stays what it is."""
    try:
        result = opshift.convert(model, verify=False, **request)
    except opshift.UnsupportedError:
        return None
    rewritten = result.model
    assert isinstance(rewritten, ModelProto)
    if [node.op_type for node in rewritten.graph.node] == [operator]:
        return None
    nodes = str([(node.op_type, node.input, str(node.attribute)) for node in rewritten.graph.node])
    lowerings = sorted({one for step in result.plan.steps for one in step.lowerings})
    return Converted(f"{request} {lowerings}", rewritten, nodes)


def distinct(models: Sequence[ModelProto], operator: str) -> list[Request]:
    """Return those requests, of one operator, of which at least one of the models becomes something of its own."""
    found: dict[tuple[str, ...], Request] = {}
    for request in requests_of(models[0], operator):
        results = [converted(model, operator, request) for model in models]
        if any(results):
            found.setdefault(tuple(one.nodes if one else "" for one in results), request)
    return list(found.values())


def conversions(model: ModelProto, operator: str) -> Iterator[tuple[str, ModelProto]]:
    """Yield what the model becomes without its operator, and below its versions; each result once."""
    seen: set[str] = set()
    for request in requests_of(model, operator):
        one = converted(model, operator, request)
        if one and one.nodes not in seen:
            seen.add(one.nodes)
            yield one.how, one.model


def by_text(model: ModelProto, inputs: Mapping[str, Array]) -> Sequence[Array] | None:
    """Return what the operator's oracle computes of the inputs; None where there is none."""
    node = model.graph.node[0]
    operator, schema = operator_of("", node.op_type), schema_at("", node.op_type, opset_of(model))
    assert operator is not None
    assert schema is not None
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values = [None if not name else {**held, **inputs}[name] for name in node.input]
    attributes = {item.name: freeze(attribute_value(item)) for item in node.attribute}
    given = tuple(None if value is None else constant(value) for value in values)
    used = tuple(bool(name) for name in node.output)
    lifted = lift(operator, Node("", operator.name, schema.since_version, attributes, given, used), "runtime")
    try:
        assert not isinstance(lifted, str)
        with np.errstate(all="ignore"):
            found = operator.oracle(lifted.meaning, *(facts and facts.known for facts in lifted.operands))
    except Exception:
        return None
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


__all__ = [
    "Converted",
    "Request",
    "Single",
    "by_text",
    "conversions",
    "converted",
    "distinct",
    "feeds",
    "is_setting",
    "shaped",
    "singles",
]
