"""Warn about nodes that the installed onnxruntime runs in the original, if their replacement has no kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.runtimes.kernels import has_kernel, named_output, version
from opshift.passes.analysis.inference import infer
from opshift.passes.base.plan import KernelWarning
from opshift.passes.rewrite.fragment import Constant, Fragment, Input, Output, ValueRef


def kernel_warning(
    typed_node: Node,
    source_opset: int,
    target_opset: int,
    fragment: Fragment,
    operands: Sequence[Facts | None],
    where: str,
) -> KernelWarning | None:
    """Return a warning if a node runs at the source opset, but its replacement has no kernel."""
    if typed_node.domain or not _runs(typed_node, source_opset):
        return None
    missing = _without_kernel(fragment, operands, target_opset)
    return None if missing is None else _warning(typed_node, missing, source_opset, target_opset, where)


def kept(typed_node: Node, source_opset: int, target_opset: int, where: str) -> KernelWarning:
    """Return the warning for an unchanged node for which `lacks_kernel` is true."""
    schema = schema_at("", typed_node.name, target_opset)
    since_version = schema.since_version if schema else typed_node.since_version
    return _warning(
        typed_node, dataclasses.replace(typed_node, since_version=since_version), source_opset, target_opset, where
    )


def _warning(typed_node: Node, missing: Node, source_opset: int, target_opset: int, where: str) -> KernelWarning:
    label = f"{missing.name}-{missing.since_version}"
    types = dict.fromkeys(type_name(facts.dtype) for facts in missing.inputs if facts is not None and facts.dtype)
    kinds = " to ".join(filter(None, (", ".join(types), named_output(missing, target_opset))))
    reason = f"onnxruntime {version()} has no kernel for {label} of {kinds}."
    between = (
        range(target_opset - 1, source_opset, -1)
        if target_opset > source_opset
        else range(target_opset + 1, source_opset)
    )
    nearest = next((opset for opset in between if _runs(typed_node, opset)), source_opset)
    keep = f"Keep {typed_node.name} to run the model there."
    return KernelWarning(
        where, label, reason, keep if source_opset == target_opset else f"Use opset {nearest} to run the model there."
    )


def lacks_kernel(typed_node: Node, source_opset: int, target_opset: int) -> bool:
    """Return whether onnxruntime runs a node at the source opset, but not unchanged at the target opset."""
    return _runs(typed_node, source_opset) and not _runs(typed_node, target_opset)


def _runs(typed_node: Node, opset: int) -> bool:
    schema = schema_at("", typed_node.name, opset)
    return schema is not None and has_kernel(
        dataclasses.replace(typed_node, since_version=schema.since_version), schema, opset
    )


def _without_kernel(fragment: Fragment, operands: Sequence[Facts | None], opset: int) -> Node | None:
    """Return the first node of a fragment without a kernel, as far as types are known."""
    made: dict[ValueRef, Facts] = {}
    for place, leaf in enumerate(fragment.nodes):
        schema = schema_at("", leaf.name, opset)
        inputs = tuple(_facts(ref, operands, made) for ref in leaf.inputs)
        known = [
            facts.dtype if facts else None for ref, facts in zip(leaf.inputs, inputs, strict=True) if ref is not None
        ]
        if schema is None or leaf.body is not None or not all(known):
            return None
        node = Node("", leaf.name, schema.since_version, leaf.attributes, inputs, (True,) * leaf.outputs)
        if not has_kernel(node, schema, opset):
            return node
        found = infer(node)
        if isinstance(found, Reason):
            return None
        made.update({Output(place, position): facts for position, facts in enumerate(found)})
    return None


def _facts(ref: ValueRef, operands: Sequence[Facts | None], made: dict[ValueRef, Facts]) -> Facts | None:
    if isinstance(ref, Input):
        return operands[ref.operand]
    if isinstance(ref, Constant):
        return Facts(ref.dtype, ref.value.array.shape, ref.value)
    return made.get(ref)
