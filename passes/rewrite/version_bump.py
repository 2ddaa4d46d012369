"""Bump the version of nodes of operators without a file, as the reviewed table permits."""

from __future__ import annotations

import dataclasses

from onnx import TensorProto

from opshift.opsets.registry import dialect
from opshift.opsets.registry.equivalences import SameMeaning, same_meaning
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.no_conversion import why_absent
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Schema, schema_at
from opshift.opsets.registry.structural import IDENTITY, LOOP, SEQUENCES
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import typed
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.rewrite.edits import CarryValue, DropAttributes
from opshift.passes.rewrite.node_context import NodeContext
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions
from opshift.passes.rewrite.unknown_types import UnknownTypes, gives_fewer

_NO_WAY = "opshift has no decomposition for {}"
_REMOVED = "sequences and optionals are removed only if their contents are known and no graph returns them"
_TENSORS = "Return tensors in their place, and make lengths and positions in them constant."


def bumped(
    context: NodeContext, legality: Legality, decisions: OpTypeDecisions, unknown: UnknownTypes
) -> DropAttributes | CarryValue | Refusal | None:
    """Return the changes of a node at the target's version, or the reason why the table does not permit it."""
    node, label = context.typed_node, context.label
    before, after = schema_at("", node.name, context.opset), schema_at("", node.name, legality.opset)
    if before is None and node.name in dialect.operators(""):
        reason = (
            f"ONNX has no {node.name} at opset {context.opset}, which onnxruntime has, and opshift cannot replace it."
        )
        return Refusal(Code.FOREIGN_OPERATOR, context.where, node.name, reason, "Export the model again without it.")
    if before is None:
        return Refusal(
            Code.UNKNOWN_OPERATOR,
            context.where,
            node.name,
            f"opset {context.opset} has no {node.name}.",
            "Export the model again without it.",
        )
    if after is None:
        known = why_absent(node.name)
        known = f"opshift cannot replace it exactly: {known}" if known else "opshift has no replacement for it"
        reason = f"opset {legality.opset} has no {node.name}, and {known}."
        return Refusal(Code.ABSENT_OPERATOR, context.where, label, reason, "")
    row = same_meaning(node.name, before.since_version, after.since_version)
    if refusal := _differs(context, before, after, row):
        return refusal
    if refusal := _unknown(context, before, after, row, unknown):
        return refusal
    drop = tuple(name for name in (row.new_attributes if row else ()) if name in node.attributes)
    kept = {name: value for name, value in node.attributes.items() if name not in drop}
    renewed = dataclasses.replace(node, since_version=after.since_version, attributes=kept)
    carry = node.name == LOOP and after.since_version == 1 and len(context.node.input) == 2
    if carry and not decisions.has(IDENTITY):
        return Refusal(Code.NO_LOWERING, context.where, label, "Loop-1 carries a value by Identity.", "")
    if carry:
        renewed = dataclasses.replace(renewed, inputs=(*renewed.inputs, Facts(TensorProto.FLOAT, ())))
    if illegal := legality.why_not(renewed) or _output_type(renewed, after):
        listed = node.name in SEQUENCES
        if node.name in legality.decompose:
            reason = f"{node.name} is to be decomposed, and {_REMOVED}" if listed else _NO_WAY.format(node.name)
            return Refusal(Code.ABSENT_OPERATOR, context.where, label, f"{reason}.", "")
        unsupported = legality.target is not None and not legality.target.has(node.name)
        code = Code.NO_LOWERING if unsupported else Code.TYPE
        why, hint = (_REMOVED, _TENSORS) if listed and unsupported else ("opshift has no replacement for it", "")
        return Refusal(code, context.where, label, f"{illegal}, and {why}.", hint)
    return CarryValue() if carry else DropAttributes(drop) if drop else None


def _differs(context: NodeContext, before: Schema, after: Schema, row: SameMeaning | None) -> Refusal | None:
    """Refuse a node whose meaning differs, or may differ, at the target's version."""
    name = f"{context.typed_node.name}-{after.since_version}"
    if before.since_version == after.since_version:
        return None
    if row is None:
        reason = f"{name} differs from it, and no conversion between them is known."
        return Refusal(Code.UNKNOWN_OPERATOR, context.where, context.label, reason, "")
    if lost := row.lost(context.typed_node.attributes):
        gone = [what for what in lost if what.removeprefix("attribute ") not in after.attributes]
        how = f"has no {', '.join(gone)}" if gone else f"differs in {', '.join(lost)}"
        return Refusal(Code.NO_LOWERING, context.where, context.label, f"{name} {how}.", "")
    return None


def _unknown(
    context: NodeContext, before: Schema, after: Schema, row: SameMeaning | None, unknown: UnknownTypes
) -> Refusal | None:
    """Refuse a node if an unknown parameter or type decides whether the table permits it."""
    parameters = {item.name for item in context.node.attribute if item.ref_attr_name} - set(
        context.typed_node.attributes
    )
    deciding = {*(row.new_attributes if row else ()), *(parameters - set(after.attributes))}
    if gives_fewer(before, after):
        deciding |= parameters  # one of them may name the type
    if vague := sorted(parameters & deciding):
        reason = f"{', '.join(vague)} is a parameter of the function, and its values are not known."
        return Refusal(Code.MISSING_FACT, context.where, context.label, reason, "")
    if why := unknown.not_taken(context.typed_node, before, after):
        hint = "Give the model's inputs element types."
        return Refusal(Code.MISSING_FACT, context.where, context.label, why, hint)
    return None


def _output_type(node: Node, schema: Schema) -> Reason | None:
    """Check with onnx a node whose output type depends on an attribute and no input."""
    bound = {parameter.type_variable for parameter in schema.inputs}
    if all(parameter.type_variable in bound for parameter in schema.outputs):
        return None
    inferred = typed(node)
    return inferred if isinstance(inferred, Reason) else None
