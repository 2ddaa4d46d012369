"""Set the opset imports and the ir_version of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx
from onnx import TensorProto

from opshift.opsets.registry.operator import SPELLING
from opshift.opsets.registry.schema import default_domain
from opshift.passes.analysis.scopes import dtypes
from opshift.passes.base.version_numbers import released_with
from opshift.passes.graph.traversal import GraphWalk, graphs
from opshift.passes.rewrite.apply import METADATA

_TYPES = {
    4: ("BFLOAT16",),
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("UINT4", "INT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("UINT2", "INT2"),
    14: ("FLOAT6E2M3", "FLOAT6E3M2"),
}
"""The first ir_version with an element type, from the comments on versions in onnx.proto."""

_CONSTANT_1 = frozenset({TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE})
"""The element types of Constant-1, the version of the opsets that go with ir_version 3."""

FUNCTIONS = "local functions", "default values of a function's attributes", "overloads of functions"
"""The features of functions that need different ir_versions."""

_LATE_TYPES = frozenset({"optional_type", "sparse_tensor_type"})
"""The kinds of values that ir_version 8 introduced."""


def set_opset_imports(
    model: onnx.ModelProto,
    opset: int,
    domains: Mapping[str, int] | None = None,
    drops: Callable[[str], bool] = lambda domain: False,
) -> None:
    """Set the opset of the default domain everywhere, and drop the domain `opshift`; the ir_version stays.

    `domains` has the maximum opsets of other domains: newer imports are lowered. An unused import of another domain is
    removed if `drops` returns true.
    """
    for owner in (model, *model.functions):
        idle = {item.domain for item in unused_imports(owner) if drops(item.domain)}
        kept = [item for item in owner.opset_import if item.domain != SPELLING and item.domain not in idle]
        for item in kept:
            if not default_domain(item.domain):
                item.version = opset
            item.version = min(item.version, (domains or {}).get(item.domain, item.version))
        if all(default_domain(item.domain) for item in kept) and any(
            not default_domain(node.domain) for graph in graphs(owner) for node in graph.node
        ):
            kept.append(onnx.helper.make_opsetid("", opset))
        copies = [onnx.OperatorSetIdProto.FromString(item.SerializeToString()) for item in kept]
        del owner.opset_import[:]
        owner.opset_import.extend(copies)


def unused_imports(owner: onnx.ModelProto | onnx.FunctionProto) -> list[onnx.OperatorSetIdProto]:
    """Return the imports of other domains that no node of a model or function uses."""
    foreign = [item for item in owner.opset_import if default_domain(item.domain)]
    used = {node.domain for graph in graphs(owner) for node in graph.node} if foreign else set()
    return [item for item in foreign if item.domain not in used]


def converted_ir_version(ir_version: int, before: int, opset: int) -> int:
    """Return the usual ir_version for a conversion between two opsets, without regard to the model's contents.

    Down, it is that of the first onnx release with the opset, or the source's if lower: an old opset is for an old
    runtime. Up, the source's is raised only if it is lower than that release's.
    """
    if opset < before:
        return max(3, min(ir_version, released_with(opset)))
    return max(ir_version, released_with(opset)) if opset > before else max(3, ir_version)


class IrVersionNeed(NamedTuple):
    """An ir_version that a part of a model needs, and the description of that part."""

    ir_version: int
    what: str


def least_ir_version(model: onnx.ModelProto, walked: Sequence[GraphWalk]) -> int:
    """Return the lowest ir_version for a model without changes: for its opset, fields and types."""
    opset = max((item.version for item in model.opset_import if not default_domain(item.domain)), default=1)
    held = (
        released_with(opset),
        *(need.ir_version for need in ir_version_needs(model, walked)),
        *_spare(model, walked),
    )
    return max(held)


def ir_version_needs(model: onnx.ModelProto, walked: Sequence[GraphWalk]) -> list[IrVersionNeed]:
    """Return the parts that no lower ir_version can express, apart from the opset and from removable parts."""
    found = list(_fields(model, walked))
    imported = {item.domain: item.version for item in model.opset_import}
    used = {domain for one in walked for domain, _, _ in one.by_op_key if default_domain(domain)}
    for domain in sorted(used & imported.keys()):
        version = imported[domain]
        found.append(IrVersionNeed(released_with(version, domain), f"operators of {domain} {version}"))
    known = set(TensorProto.DataType.values())  # an operator of another domain may use its own type numbers
    dtyped = {*itertools.chain.from_iterable((*dtypes(one.graph), *one.dtypes) for one in walked)}
    types = {TensorProto.DataType.Name(dtype) for dtype in dtyped & known}
    for version, names in _TYPES.items():
        if held := sorted(types & set(names)):
            found.append(IrVersionNeed(version, f"the element type {held[0].lower()}"))
    return [need for need in found if need.ir_version > 3]


def _fields(model: onnx.ModelProto, walked: Sequence[GraphWalk]) -> Iterator[IrVersionNeed]:
    graphs = [one.graph for one in walked if isinstance(one.graph, onnx.GraphProto)]
    if any(unwritten(graph) for graph in graphs[1:]):
        yield IrVersionNeed(4, "initializers of a subgraph, which Constant-1 cannot hold")
    if any(graph.quantization_annotation for graph in graphs):
        yield IrVersionNeed(5, "quantization annotations")
    if any(graph.sparse_initializer for graph in graphs):
        yield IrVersionNeed(6, "sparse initializers")
    if model.training_info:
        yield IrVersionNeed(7, "training information")
    if any(
        kind in _LATE_TYPES
        for graph in graphs
        for value in (*graph.input, *graph.output)
        for kind in kinds_of_type(value.type)
    ):
        yield IrVersionNeed(8, "optional or sparse values")
    if model.functions:
        yield IrVersionNeed(8, FUNCTIONS[0])
    if any(item.attribute_proto for item in model.functions):
        yield IrVersionNeed(9, FUNCTIONS[1])
    if any(item.overload for item in model.functions):
        yield IrVersionNeed(METADATA, FUNCTIONS[2])


def unwritten(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Return the initializers that are not inputs, and that Constant-1 cannot hold."""
    inputs = {value.name for value in graph.input}
    return [
        tensor
        for tensor in graph.initializer
        if tensor.name not in inputs
        and (tensor.data_type not in _CONSTANT_1 or tensor.data_location == TensorProto.EXTERNAL)
    ]


def kinds_of_type(value_type: onnx.TypeProto) -> Iterator[str]:
    """Yield the kind of a type and of its inner types: sequence_type, tensor_type."""
    which = value_type.WhichOneof("value")
    if which:
        yield which
    if which in ("sequence_type", "optional_type"):
        yield from kinds_of_type(getattr(value_type, which).elem_type)
    if which == "map_type":
        yield from kinds_of_type(value_type.map_type.value_type)


def _spare(model: onnx.ModelProto, walked: Sequence[GraphWalk]) -> Iterator[int]:
    """Yield the ir_versions of parts that can be dropped or rewritten without changing the results."""
    for graph in (one.graph for one in walked):
        if isinstance(graph, onnx.GraphProto) and graph.initializer:
            inputs = {value.name for value in graph.input}
            if any(tensor.name not in inputs for tensor in graph.initializer):
                yield 4
    if model.graph.metadata_props or any(item.metadata_props or item.value_info for item in model.functions):
        yield METADATA
    if any(one.noted for one in walked):
        yield METADATA
    if model.configuration or any(one.placed for one in walked):
        yield 11
