"""Which types the schemas of operators that carry any value allow."""

from __future__ import annotations

import functools

from onnx import TypeProto, defs

from differential import values

OLDEST, NEWEST = 7, defs.onnx_opset_version()
"""The opsets that opshift converts between: the newest is that of the onnx which is installed."""


@functools.cache
def _carried(operator: str, opset: int) -> frozenset[str]:
    schema = defs.get_schema(operator, opset, "")
    return frozenset(schema.type_constraints[0].allowed_type_strs if operator == "Identity" else _last(schema))


def _last(schema: defs.OpSchema) -> list[str]:
    variable = schema.outputs[0].type_str
    return next(list(each.allowed_type_strs) for each in schema.type_constraints if each.type_param_str == variable)


def carries(operator: str, opset: int, kinds: list[TypeProto]) -> bool:
    """Return whether Identity, If, Loop or Scan of an opset may have values of these types."""
    return all(type_string(kind) in _carried(operator, opset) for kind in kinds)


def type_string(kind: TypeProto) -> str:
    """Return a type as schemas write it."""
    if kind.HasField("sequence_type"):
        return f"seq({type_string(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({type_string(kind.optional_type.elem_type)})"
    return next(text for text, value in values.ELEM_TYPE.items() if value == kind.tensor_type.elem_type)


@functools.cache
def allows(operator: str, opset: int, kind: str) -> bool:
    """Return whether the first input of an operator may have this type, and nothing else is required of a node."""
    try:
        schema = defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        return False
    variable = schema.inputs[0].type_str
    allowed = next((each.allowed_type_strs for each in schema.type_constraints if each.type_param_str == variable), ())
    return not schema.deprecated and (kind in allowed or kind == variable)
