"""Opset imports and ir_version of the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import onnx
from onnx import TensorProto, helper

from opshift.opsets.operator import SPELLING
from opshift.opsets.schema import default_domain
from opshift.passes.describe import dtypes
from opshift.passes.graphs import Walked, graphs, walk
from opshift.passes.lower import METADATA

_TYPES = {
    4: ("BFLOAT16",),
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("UINT4", "INT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("UINT2", "INT2"),
}
"""The ir_version that brought an element type, from the comments on versions in onnx.proto."""


def restamp(
    model: onnx.ModelProto, opset: int, ir_version: int | None = None, walked: Sequence[Walked] | None = None
) -> int:
    """Set the opset of the default domain everywhere, drop the domain `opshift`, and set a fitting ir_version.

    Returns the lowest ir_version that the result can have. `walked` is the model, where somebody has walked over it.

    On the way down the ir_version goes to the lowest that the opset and the model's contents need, since who needs an
    old opset has an old runtime; on the way up it rises only if it must. From ir_version 4 on an initializer that is an
    input too is a default, which may be replaced: those of older models are constants, and leave the inputs.
    """
    constant = model.ir_version < 4
    before = next((item.version for item in model.opset_import if not default_domain(item.domain)), opset)
    for owner in (model, *model.functions):
        kept = [item for item in owner.opset_import if item.domain != SPELLING]
        for item in kept:
            if not default_domain(item.domain):
                item.version = opset
        if all(default_domain(item.domain) for item in kept) and any(
            not default_domain(node.domain) for graph in graphs(owner) for node in graph.node
        ):
            kept.append(onnx.helper.make_opsetid("", opset))
        copies = [onnx.OperatorSetIdProto.FromString(item.SerializeToString()) for item in kept]
        del owner.opset_import[:]
        owner.opset_import.extend(copies)
    least = least_ir_version(model, tuple(walk(model)) if walked is None else walked)
    if ir_version is not None:
        model.ir_version = ir_version
    elif opset < before:
        model.ir_version = min(model.ir_version, least)
    model.ir_version = max(model.ir_version, least)
    if constant and model.ir_version >= 4:
        held = {tensor.name for tensor in model.graph.initializer}
        held.update(tensor.values.name for tensor in model.graph.sparse_initializer)
        kept_inputs = [value for value in model.graph.input if value.name not in held]
        if len(kept_inputs) < len(model.graph.input):
            inputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept_inputs]
            del model.graph.input[:]
            model.graph.input.extend(inputs)
    return least


def least_ir_version(model: onnx.ModelProto, walked: Iterable[Walked]) -> int:
    """Return the lowest ir_version that can hold a model: its opset, and the fields and types that it uses."""
    imports = [helper.make_opsetid(default_domain(item.domain), item.version) for item in model.opset_import]
    needs = [helper.find_min_ir_version_for(imports, ignore_unknown=True)]
    if model.graph.quantization_annotation:
        needs.append(5)
    if model.graph.sparse_initializer:
        needs.append(6)
    if model.training_info:
        needs.append(7)
    if model.functions:
        needs.append(8)
    if any(item.attribute_proto for item in model.functions):
        needs.append(9)
    if any(item.overload for item in model.functions):
        needs.append(METADATA)
    if model.graph.metadata_props or any(item.metadata_props or item.value_info for item in model.functions):
        needs.append(METADATA)
    for graph in (one.graph for one in walked):
        if isinstance(graph, onnx.GraphProto) and graph.initializer:
            inputs = {value.name for value in graph.input}
            needs += [4] * any(tensor.name not in inputs for tensor in graph.initializer)
    if any(one.noted for one in walked):
        needs.append(METADATA)
    if any(one.placed for one in walked):
        needs.append(11)
    known = set(TensorProto.DataType.values())  # an operator of another domain may number its own
    found = {*itertools.chain.from_iterable((*dtypes(one.graph), *one.dtypes) for one in walked)}
    used = {TensorProto.DataType.Name(dtype) for dtype in found & known}
    needs += [version for version, names in _TYPES.items() if used & set(names)]
    return max(needs)
