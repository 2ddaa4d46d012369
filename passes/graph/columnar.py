"""Read a large graph's nodes as a columnar view: one list per field, parsed at once instead of node by node."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from onnx import AttributeProto, NodeProto

UNTYPED = AttributeProto.UNDEFINED
SMALL = 2**26
"""The maximum model size in bytes: a larger model may hold weights, which would be copied."""

NAMING = frozenset({"dtype", "output_dtype", "to"})
"""Attributes whose value is an element type."""

OpKey = tuple[str, str, str]
"""Domain, operator and overload of a node."""

_TYPES = frozenset(AttributeProto.AttributeType.values())
_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTED = (
    *("input", "output", "name", "op_type", "domain", "overload"),
    *("attribute", "metadata_props", "device_configurations"),
)


@dataclass(frozen=True)
class ColumnarView:
    """The nodes of a main graph: their indices by op key, their names ("" for unnamed ones), all inputs and outputs.

    `types` are the types of attributes, `dtypes` the element types in attributes. `noted` is whether any node has
    metadata_props or an overload, `placed` whether any has device configurations. `read` is the parsed message for
    names, `count` the number of nodes.
    """

    read: Any
    count: int
    by_op_key: Mapping[OpKey, Sequence[int]]
    types: Set[int]
    dtypes: Set[int]
    noted: bool
    placed: bool

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes."""
        return _field_values(self.read.name, self.count)

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs of all nodes, concatenated."""
        inputs: list[str] = self.read.input[:]
        return inputs

    @property
    def outputs(self) -> Sequence[str]:
        """The outputs of all nodes, concatenated."""
        outputs: list[str] = self.read.output[:]
        return outputs


def columnar_view(model: onnx.ModelProto) -> ColumnarView | None:
    """Return the columnar view of the main graph; None if only some nodes set a field.

    The model is serialized, so it should be small.
    """
    count = len(model.graph.node)
    # A file may set a field twice; a new serialization has it once.
    read = _columnar_message().FromString(model.SerializeToString()).graph.node
    fields = (read.op_type, read.domain, read.overload, read.name)
    if any(len(field) != count and any(field) for field in fields):
        return None
    operators, domains, overloads = (_field_values(field, count) for field in fields[:3])
    by_op_key: defaultdict[OpKey, list[int]] = defaultdict(list)
    for index, op_key in enumerate(zip(domains, operators, overloads, strict=True)):
        by_op_key[op_key].append(index)
    types: set[int] = set()
    dtypes: set[int] = set()
    for one in read.attribute:
        types.add(one.type)
        if one.name in NAMING and one.type == AttributeProto.INT:
            dtypes.add(one.i)
    return ColumnarView(
        read,
        count,
        dict(by_op_key),
        # An unknown enum value reads as no type.
        {attribute_type if attribute_type in _TYPES else UNTYPED for attribute_type in types},
        dtypes,
        noted=bool(read.metadata_props) or any(overload for _, _, overload in by_op_key),
        placed=bool(read.device_configurations),
    )


def _field_values(field: Any, count: int) -> Sequence[str]:
    """Return the value of a field of each node; an empty sequence if no node sets it."""
    return field[:] if len(field) == count else [""] * count


@functools.cache
def _columnar_message() -> Any:
    """Return a ModelProto message type whose graph has one node with repeated fields.

    protobuf merges repeated occurrences of a singular message field, which extends the repeated fields in it. So one
    parse turns a list of nodes into lists of their names, operators and so on.
    """
    file = descriptor_pb2.FileDescriptorProto(name="opshift/columns.proto", package="opshift.columns")
    node, attribute = file.message_type.add(name="Node"), file.message_type.add(name="Attribute")
    for name in _LISTED:
        field = NodeProto.DESCRIPTOR.fields_by_name[name]
        added = node.field.add(name=name, number=field.number, label=_FIELD.LABEL_REPEATED, type=field.type)
        if field.message_type:
            added.type_name = ".opshift.columns.Attribute"  # of other messages, only their number matters
    for name, field_type in (("name", _FIELD.TYPE_STRING), ("type", _FIELD.TYPE_INT32), ("i", _FIELD.TYPE_INT64)):
        number = AttributeProto.DESCRIPTOR.fields_by_name[name].number
        attribute.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL, type=field_type)
    for name, inner, number in (
        ("Graph", "node", onnx.GraphProto.NODE_FIELD_NUMBER),
        ("Model", "graph", onnx.ModelProto.GRAPH_FIELD_NUMBER),
    ):
        within = f".opshift.columns.{inner.capitalize()}"
        file.message_type.add(name=name).field.add(
            name=inner, number=number, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_MESSAGE, type_name=within
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("opshift.columns.Model"))
