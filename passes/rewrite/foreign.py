"""Explain why nodes of other domains can neither stay on the target nor be replaced."""

from __future__ import annotations

import onnx

from opshift.opsets.registry import dialect
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import ML, operator_for
from opshift.opsets.registry.schema import default_domain, schema_read_at
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.assumptions import TENSOR_OUTPUT
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.rewrite.tensor_output import ZIP_MAP

WITHOUT = "Export the model again without the optimization that made this node."
"""The fix if a node has no replacement."""

NUMBERS = "Export the model again with other options, or keep it for a runtime that has ai.onnx.ml."
"""The same for ONNX's operators for classical machine learning, which no optimization emits."""


def hint(domain: str) -> str:
    """Return the fix if no lowering of a domain's operator applies."""
    return NUMBERS if domain == ML else WITHOUT


def refusal(node: onnx.NodeProto, where: str, why: Reason, target: Target | None) -> Refusal | None:
    """Return the refusal of a node that cannot stay, for the reason `why`; None if it may be replaced."""
    domain = default_domain(node.domain)
    label = f"{domain}::{node.op_type}" if domain else node.op_type
    if operator_for(domain, node.op_type) is None:
        known = dialect.why_never(domain, node.op_type)
        reason = f"{why}, and opshift cannot replace it" + (f": {known}." if known else ".")
        return Refusal(Code.FOREIGN_OPERATOR, where, label, reason, _hint(label, bool(known), target))
    if unknown := _unknown(domain, node):
        reason = f"onnxruntime {dialect.version()}, whose operators opshift knows, has no {unknown} of {label}."
        return Refusal(Code.FOREIGN_OPERATOR, where, label, reason, "Export the model again without it.")
    return None


def _hint(label: str, final: bool, target: Target | None) -> str:
    if label == f"{ML}::{ZIP_MAP}":
        return f"Accept a tensor of scores as the output (--assume {TENSOR_OUTPUT}), or export without ZipMap."
    if final:
        return WITHOUT
    without = f"Export the model again without {label}"
    if target is None:
        return f"{without}, or keep it for onnxruntime: name the other operators after --decompose."
    return f"{without}, or list it in [domains] of a profile if the runtime supports it."


def _unknown(domain: str, node: onnx.NodeProto) -> str:
    """Return the attributes, inputs or outputs that a node of onnxruntime's domain has and its schema lacks; or ""."""
    schema = schema_read_at(domain, node.op_type, 1) if node.op_type in dialect.operators(domain) else None
    if schema is None:
        return ""
    raw = schema.raw
    if unknown := next((one.name for one in node.attribute if one.name not in schema.attributes), ""):
        return f"attribute {unknown}"
    if len(node.input) > raw.max_input:
        return f"input {raw.max_input}"
    return f"output {raw.max_output}" if len(node.output) > raw.max_output else ""
