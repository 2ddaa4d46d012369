"""Read models at an opset that onnxruntime loads, if every operator has the same meaning there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import onnx

from opshift.opsets.registry.equivalences import same_meaning
from opshift.opsets.registry.facts import Facts, freeze
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import Lifted, Node, lift, operator_for
from opshift.opsets.registry.schema import OLDEST
from opshift.opsets.runtimes import kernels
from opshift.passes.graph import traversal
from opshift.passes.runtime.ort_models import (
    RejectedError,
    RejectionKind,
    Runnable,
    name,
    newest_ir_version,
    newest_opset,
    nodes,
    opset,
)


def _relabelled(node: onnx.NodeProto, old: int, new: int) -> bool:
    """Convert a default-domain node from opset `old` to `new` without changing its meaning; return whether it worked.

    It works if the operator has the same version at both opsets, or if the two schemas differ only in types. It also
    works if the reviewed table relates the versions for this node, or if the operator's file has one meaning of the
    node at both. Redundant attributes of the old opset are dropped.
    """
    try:
        before, after = (onnx.defs.get_schema(node.op_type, version, "") for version in (old, new))
    except onnx.defs.SchemaError:
        return False
    if before.since_version == after.since_version or _text(before) == _text(after):
        return True
    attributes = {attribute.name: _value(attribute) for attribute in node.attribute}
    only_before = {name: value for name, value in attributes.items() if name not in after.attributes}
    reviewed = same_meaning(node.op_type, before.since_version, after.since_version)
    if reviewed is not None:
        same = not reviewed.lost(attributes)
    elif new == OLDEST:
        same = _one_meaning(node, attributes, before.since_version, after.since_version)
    else:
        defaults = {name: before.attributes[name].default_value for name in only_before}
        same = _one_meaning(node, attributes, before.since_version, after.since_version) and all(
            value == _value(defaults[name]) for name, value in only_before.items()
        )
    if same:
        kept = [attribute for attribute in node.attribute if attribute.name not in only_before]
        del node.attribute[:]
        node.attribute.extend(kept)
    return same


def _value(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    return tuple(value) if attribute.type in _LISTS else value


_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)


def _one_meaning(node: onnx.NodeProto, attributes: Mapping[str, Any], *versions: int) -> bool:
    """Return whether the operator has a file in which these versions of the node have the same meaning."""
    operator = operator_for("", node.op_type)
    if operator is None:
        return False
    values = {key: freeze(value.decode() if isinstance(value, bytes) else value) for key, value in attributes.items()}
    facts = tuple(Facts() if name else None for name in node.input)
    used = tuple(bool(name) for name in node.output)
    lifted = []
    for version in versions:
        known = onnx.defs.get_schema(node.op_type, version, "").attributes
        own = {name: value for name, value in values.items() if name in known}
        lifted.append(lift(operator, Node("", node.op_type, version, own, facts, used), "runtime"))
    meanings = {(one.meaning, one.operands) for one in lifted if isinstance(one, Lifted)}
    return len(meanings) == 1 and all(isinstance(one, Lifted) for one in lifted)


def _text(schema: Any) -> tuple[Any, ...]:
    """Return a schema without its permitted types."""
    attributes = {
        name: (one.type, one.required, one.description, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    parameters = [(one.name, one.type_str, one.option, one.description) for one in (*schema.inputs, *schema.outputs)]
    return schema.doc, attributes, parameters


def fit(runnable: Runnable) -> tuple[Runnable, str]:
    """Return a model that onnxruntime loads, and a note on the changes (empty if none).

    A model newer than onnxruntime is read at the newest opset and ir_version that it loads, if every operator has the
    same meaning at both. A model of opset 1 to 6 is read at opset 7, the first with all kernels in onnxruntime; if an
    operator differs, the model is not changed.

    Raises:
        RejectedError: an operator differs between the model's opset and the newest one that onnxruntime loads, or
            onnxruntime would inline a body that violates the operator's specification.
    """
    old, newest = opset(runnable.proto), newest_opset()
    _refuse_wrong_bodies(runnable.proto, min(old, newest))
    oldest_ir = min(runnable.proto.ir_version, newest_ir_version())
    missing = any(_missing_outputs(node) for node in nodes(runnable.proto))
    if old < OLDEST and (read := _read_at_oldest(runnable.proto, old)) is not None:
        found, note = fit(replace(runnable, proto=read, path=None))
        relabelled = f"opset {old} was read as {OLDEST}, where every operator means the same"
        return found, ", ".join(filter(None, (relabelled, note)))
    if old <= newest and oldest_ir == runnable.proto.ir_version and not missing:
        return runnable, ""
    notes = []
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    if missing:
        notes.append(_with_outputs(proto))
    if old > newest:
        for node in nodes(proto):
            if node.domain in ("", "ai.onnx") and not _relabelled(node, old, newest):
                version = onnx.defs.get_schema(node.op_type, old, "").since_version
                raise RejectedError(
                    f"{name()} loads opsets up to {newest} and has no {node.op_type}-{version}", RejectionKind.TOO_NEW
                )
        for entry in (entry for holder in (proto, *proto.functions) for entry in holder.opset_import):
            if entry.domain in ("", "ai.onnx"):
                entry.version = newest
        notes.append(f"opset {old} was read as {newest}, where every operator means the same")
    if oldest_ir != proto.ir_version:
        notes.append(f"ir_version {proto.ir_version} was read as {oldest_ir}")
        proto.ir_version = oldest_ir
    return replace(runnable, proto=proto, path=None), ", ".join(notes)


def _read_at_oldest(model: onnx.ModelProto, old: int) -> onnx.ModelProto | None:
    """Return a model of opset 1 to 6 at opset 7; None if an operator's meaning differs, or without a default domain."""
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        return None
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    if not all(_relabelled(node, old, OLDEST) for node in nodes(proto) if node.domain in ("", "ai.onnx")):
        return None
    for entry in (entry for holder in (proto, *proto.functions) for entry in holder.opset_import):
        if entry.domain in ("", "ai.onnx"):
            entry.version = OLDEST
    return proto


def _refuse_wrong_bodies(model: onnx.ModelProto, opset: int) -> None:
    names = {node.op_type for node in nodes(model) if node.domain in ("", "ai.onnx")}
    wrong_bodies = {one: why for one in sorted(names) if (why := kernels.wrong_body(one, opset))}
    if not wrong_bodies:
        return
    found = [node for node in nodes(model) if node.domain in ("", "ai.onnx") and node.op_type in wrong_bodies]
    types = traversal.declared_types(model)
    for node in found:
        inlined = wrong_bodies[node.op_type]
        if inlined.of(types.get(node.input[0] if node.input else "") or None):
            reason = f"{name()} inlines the body of {node.op_type}, where {inlined.reason}"
            raise RejectedError(reason, RejectionKind.MISSING_KERNEL)


def _missing_outputs(node: onnx.NodeProto) -> int:
    """Return the number of outputs that a node must add before onnxruntime computes the existing ones."""
    wanted = traits_of(node).outputs_for
    most = max((count for place, count in wanted.items() if any(node.input[place : place + 1])), default=0)
    return max(0, most - sum(map(bool, node.output)))


def _with_outputs(model: onnx.ModelProto) -> str:
    """Add the outputs that onnxruntime requires, and return a note on them."""
    completed = dict[str, None]()
    for place, node in enumerate(nodes(model)):
        if missing := _missing_outputs(node):
            most = sum(map(bool, node.output)) + missing
            names = [*node.output, *[""] * most][:most]
            node.output[:] = [name or f"{names[0]}/{place}/{index}" for index, name in enumerate(names)]
            completed[node.op_type] = None
    return f"{', '.join(completed)} has all its outputs, without which {name()} does not compute the first"
