"""Check onnxruntime's profile: open one-node models in the child process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper

from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Schema, schema_at
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.runtime.ort_models import RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Session

_VALUES: dict[Any, Any] = {
    AttributeProto.INT: 1,
    AttributeProto.FLOAT: 1.0,
    AttributeProto.STRING: "",
    AttributeProto.INTS: [1],
    AttributeProto.FLOATS: [1.0],
    AttributeProto.STRINGS: ["a"],
}
_USUAL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32, TensorProto.UINT8)


@dataclass(frozen=True)
class ProbeResult:
    """The results of probing a profile: nodes that fit it, nodes that do not, and the number of inconclusive ones.

    A generated node is inconclusive if onnxruntime rejects it for another reason than a missing kernel.
    """

    confirmed: int
    denied: tuple[str, ...]
    inconclusive: int


def probe(target: Target) -> ProbeResult:
    """Open a node of each operator at the target's newest opset, in each element type of its first input."""
    legality = Legality(target.opset[1], target=target)
    confirmed, denied, inconclusive = 0, [], 0
    for schema in _schemas(target.opset[1]):
        for dtype in _dtypes(schema):
            model, node = _one(schema, dtype, legality.opset, target)
            says = legality.why_not(node) is None
            opens = _opens(model)
            if opens is None:
                inconclusive += 1
            elif opens == says:
                confirmed += 1
            else:
                what = "is listed, and does not open" if says else "opens, and is not listed"
                denied.append(f"{schema.name}-{schema.since_version} of {type_name(dtype)} {what}")
    return ProbeResult(confirmed, tuple(denied), inconclusive)


def _schemas(opset: int) -> Iterator[Schema]:
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}):
        schema = schema_at("", name, opset)
        if schema and schema.inputs and all(_tensors(parameter.types) for parameter in schema.inputs):
            yield schema


def _tensors(types: frozenset[str]) -> list[int]:
    """Return the element types that a parameter accepts."""
    names = (name[len("tensor(") : -1].upper() for name in types if name.startswith("tensor("))
    return sorted(TensorProto.DataType.Value(name) for name in names)


def _dtypes(schema: Schema) -> list[int]:
    return _tensors(schema.inputs[0].types)


def _one(schema: Schema, dtype: int, opset: int, target: Target) -> tuple[onnx.ModelProto, Node]:
    """Return a node with inputs of unknown shape; each type variable after the first has its most usual type."""
    bound = {schema.inputs[0].type_variable: dtype}
    inputs = [parameter for parameter in schema.inputs if not parameter.optional]
    for parameter in inputs:
        allowed = _tensors(parameter.types)
        bound.setdefault(parameter.type_variable, next((one for one in _USUAL if one in allowed), allowed[0]))
    attributes: dict[str, Any] = {
        name: dtype if name == "to" else _VALUES[attribute.type]
        for name, attribute in schema.raw.attributes.items()
        if attribute.required and attribute.type in _VALUES
    }
    names = [parameter.name for parameter in inputs]
    values = [helper.make_tensor_value_info(one.name, bound[one.type_variable], None) for one in inputs]
    outputs = [parameter.name + ".out" for parameter in schema.outputs[: max(schema.raw.min_output, 1)]]
    node = helper.make_node(schema.name, names, outputs, **attributes)
    graph = helper.make_graph([node], "probe", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    newest = (target.ir_version or (8, 8))[1]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=newest)
    facts = tuple(Facts(bound[parameter.type_variable]) for parameter in inputs)
    return model, Node("", schema.name, schema.since_version, attributes, facts, (True,) * len(outputs))


def _opens(model: onnx.ModelProto) -> bool | None:
    """Return whether onnxruntime has a kernel for the node; None if it fails before the search for a kernel."""
    try:
        Session(Runnable(model), optimised=False)
    except RejectedError as error:
        return False if error.why is RejectionKind.MISSING_KERNEL else None
    return True
