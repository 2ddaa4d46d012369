"""Use ONNX's function bodies, which define many operators by nodes of other operators, as lowerings.

A body rounds after each of its nodes, and a kernel may round differently: the results are the same except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import INTEGERS, type_of_facts
from opshift.opsets.registry.lowering import Body, Reason, read
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Native, write_native
from opshift.opsets.registry.schema import Schema, default_domain
from opshift.opsets.registry.schema_only import schemas
from opshift.passes.analysis.inference import make_node


def bodies(lifted: Lifted) -> Iterator[Body | Reason]:
    """Yield the bodies of every version that can express a meaning, newest first, or the reason why there is none."""
    if lifted.operator.domain:
        return
    if lifted.operator.body_unused:
        yield Reason(f"body of {lifted.operator.name}: {lifted.operator.body_unused}")
        return
    for schema in reversed(schemas(lifted.operator.name)):
        if not schema.has_body:
            continue
        native = write_native(lifted, schema.since_version)
        if not isinstance(native, Reason):
            yield from _bodies(lifted, schema, native)


def _bodies(lifted: Lifted, schema: Schema, native: Native) -> Iterator[Body | Reason]:
    label = f"body of {schema.name}-{schema.since_version}"
    bound = {name: default for name, (_, default) in schema.attributes.items()} | dict(native.attributes)
    raw: Any = schema.raw
    rounds = _rounds(lifted, schema)
    for opset in raw.function_opset_versions:
        function = onnx.FunctionProto.FromString(raw.get_function_with_opset_version(opset))
        yield _body(label, opset, function, bound, native, rounds)
    if not raw.has_context_dependent_function:
        return
    operands = [None if index is None else lifted.operands[index] for index in native.inputs]
    for facts, parameter in zip(operands, (schema.input(index) for index in range(len(operands))), strict=True):
        if facts is not None and facts.dtype is None and parameter is not None:
            yield Reason(f"{label}: the element type of {parameter.name} is unknown", missing=True)
            return
    names = ["" if facts is None else f"i{index}" for index, facts in enumerate(operands)]
    outputs = [f"o{index}" if used else "" for index, used in enumerate(lifted.used)]
    node = make_node(schema.name, "", names, outputs, native.attributes).SerializeToString()
    types = [b"" if facts is None else type_of_facts(facts).SerializeToString() for facts in operands]
    for opset in raw.context_dependent_function_opset_versions:
        try:
            function = onnx_process.function_body(schema, opset, node, types)
        except (RuntimeError, onnx.shape_inference.InferenceError) as error:
            yield Reason(f"{label}: {str(error).splitlines()[0]}")
            continue
        yield _body(label, opset, function, bound, native, rounds)


def _rounds(lifted: Lifted, schema: Schema) -> bool:
    """Return whether a body and a kernel may round differently: only if there are floats."""
    bound = {parameter.type_variable for parameter in schema.inputs}
    whole = all(facts is None or facts.dtype in INTEGERS for facts in lifted.operands)
    return not traits(schema.name).exact_body and not (
        whole and all(parameter.type_variable in bound for parameter in schema.outputs)
    )


def _body(
    label: str, opset: int, function: onnx.FunctionProto, bound: Mapping[str, Any], native: Native, rounds: bool
) -> Body | Reason:
    if not function.node:
        return Reason(f"{label}: there is none for what is known of this node", missing=True)
    for node in function.node:
        if default_domain(node.domain):
            return Reason(f"{label}: it has operators of {node.domain}")
        if any(item.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for item in node.attribute):
            return Reason(f"{label}: it has graphs inside")
    return Body(label, opset, read(function), bound, native.inputs, rounds=rounds)
