"""Check nodes where onnx's checker and inference do not: types, and invalid values that an operator defines."""

from __future__ import annotations

from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node, lift, operator_for
from opshift.opsets.registry.schema import schema_read_at


def operator_fault(node: Node) -> str | None:
    """Return the reason why a default-domain node is invalid, as far as its inputs are known."""
    schema, operator = schema_read_at("", node.name, node.since_version), operator_for("", node.name)
    if schema is None or operator is None:
        return None
    for facts, parameter in zip(node.inputs, schema.inputs, strict=False):
        if facts is not None and facts.dtype and facts.type not in parameter.types:
            return f"its input {parameter.name!r} is a {facts.type}, which this version does not take"
    lifted = lift(operator, node, "runtime")
    if not isinstance(lifted, Reason) or not lifted.invalid:
        return None
    defaulted = str(lifted).startswith("axis") and "axis" not in node.attributes
    return f"{lifted}; this axis is the default of the version" if defaulted else str(lifted)
