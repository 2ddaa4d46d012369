"""Check rules that onnx's checker does not check, or cannot check on the summary."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import cast

import onnx
import onnx.defs
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.inference_gaps import FATAL, fatal
from opshift.opsets.registry.schema import attribute_value, default_domain
from opshift.passes.analysis.fitting_opsets import fitting_opsets, in_words
from opshift.passes.base.errors import InvalidModelError, printable
from opshift.passes.graph import limits, traversal
from opshift.passes.graph.traversal import GraphView
from opshift.passes.io import external_data
from opshift.passes.io.onnx_checks import ToleratedError, condensed_faults, tensors_in_and_out
from opshift.passes.io.operator_type_checks import declared_type


def check_head(model: onnx.ModelProto) -> None:
    """Check a model's versions and opset imports, before its other parts are used."""
    known = f"onnx {onnx.__version__}, which is installed here,"
    if not model.HasField("graph"):
        raise InvalidModelError("there is no graph in it.")
    if model.ir_version < 1:
        raise InvalidModelError("it has no ir_version: not an ONNX model, or it was damaged.")
    if model.ir_version > onnx.IR_VERSION:
        raise InvalidModelError(
            f"it has ir_version {model.ir_version}; {known} knows those up to {onnx.IR_VERSION}. "
            "A newer onnx may read it."
        )
    versions: dict[str | bytes, int] = {}
    for entry in model.opset_import:
        domain = "" if not default_domain(entry.domain) else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:  # readers differ in which entry they use
            raise InvalidModelError(
                f"it imports two versions of the operators of the domain {printable(domain or 'ai.onnx')}: "
                f"{versions[domain]} and {entry.version}."
            )
    if "" not in versions:
        raise InvalidModelError(
            "it declares no opset (opset_import has no entry for ai.onnx). If it was not cut off, read it as one with "
            "--assume-opset, such as --assume-opset 13 (in Python assume_opset)."
        )
    newest = onnx.defs.onnx_opset_version()
    if versions[""] > newest:
        raise InvalidModelError(
            f"it is written in opset {versions['']}; {known} knows opsets up to {newest}. A newer onnx may read it."
        )
    if versions[""] < 1:
        raise InvalidModelError(f"it declares opset {versions['']}, which does not exist.")


def check_structure(model: onnx.ModelProto, summary: onnx.ModelProto, data: bytes, found: Sequence[GraphView]) -> None:
    """Check texts, types, names, axes, attributes, calls and tensors.

    `summary` is the model for onnx's checker, `data` its serialization, and `found` are the graphs of the model.

    Raises:
        InvalidModelError: one of them violates the specification.
    """
    _check_utf8(data)
    _check_types(summary, found)
    _check_names(found)
    _check_axes(found)
    _check_fatal(found)
    _check_attributes(model, data, found)
    _check_calls(model, found)
    for tensor in traversal.tensors(found):
        _check_tensor(tensor)


def not_utf8() -> InvalidModelError:
    """Return the error for a model with damaged strings."""
    return InvalidModelError("there is a name or a text in it that is not UTF-8: it was damaged.")


def _check_utf8(data: bytes) -> None:
    """Refuse strings that are not UTF-8: protobuf's Python returns those of a proto2 message as bytes."""
    try:
        _proto3_model().FromString(data)
    except DecodeError:
        raise not_utf8() from None


@functools.cache
def _proto3_model() -> type[Message]:
    """Return ONNX's ModelProto in proto3, in which a parser must check that strings are UTF-8."""
    description = descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(description)
    description.syntax = "proto3"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(description.SerializeToString())
    descriptor = pool.FindMessageTypeByName(onnx.ModelProto.DESCRIPTOR.full_name)
    return cast(type[Message], message_factory.GetMessageClass(descriptor))


def _check_types(model: onnx.ModelProto, found: Sequence[GraphView]) -> None:
    """Check the element types of values, which onnx's checker does not; inner values may have no type."""
    for value in tensors_in_and_out(model):
        _check_type(value, external_data.ELEMENT_TYPES)
    inputs = {
        value.name: declared_type(value.type)
        for value in found[0].graph.input
        if isinstance(value, onnx.ValueInfoProto)
    }
    for value in model.graph.output:
        if value.name in inputs and not _agree(inputs[value.name], declared_type(value.type)):
            raise InvalidModelError(f"{printable(value.name)} is an input and an output, of different types.")
    for view in found:
        graph = view.graph
        declared = (graph.value_info,) if isinstance(graph, onnx.FunctionProto) else (graph.input, graph.output)
        for value in (value for values in (*declared, graph.value_info) for value in values):
            _check_type(value, external_data.ELEMENT_TYPES | {TensorProto.UNDEFINED})


def _agree(one: Facts | None, other: Facts | None) -> bool:
    """Return whether a value can have both types."""
    if one is None or other is None:
        return one is other
    dims = None if one.shape is None or other.shape is None else (one.shape, other.shape)
    return one.dtype == other.dtype and (
        dims is None
        or (len(dims[0]) == len(dims[1]) and all(a == b or None in (a, b) for a, b in zip(*dims, strict=True)))
    )


def _check_type(value: onnx.ValueInfoProto, known: Container[int]) -> None:
    dtype = value.type.tensor_type.elem_type
    if value.type.HasField("tensor_type") and dtype not in known:
        raise InvalidModelError(f"{printable(value.name)} has the element type {dtype}, which onnx does not know.")


_FIELDS: Mapping[int, str] = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}


def _check_names(found: Iterable[GraphView]) -> None:
    """Check names where onnxruntime is stricter than onnx's checker, or where the summary hides them from it."""
    for view in found:
        graph = view.graph
        if name := _twice([name for name in view.names if name]):
            raise ToleratedError(f"two nodes of {printable(view.path)} have the name {printable(name)}.")
        if isinstance(graph, onnx.FunctionProto):
            for default in graph.attribute_proto:
                what = f"the default {printable(default.name)} of {printable(view.path)}"
                if default.ref_attr_name:
                    raise InvalidModelError(f"{what} refers to a parameter; it must have a value.")
                if default.type in _FIELDS and not default.HasField(_FIELDS[default.type]):
                    raise InvalidModelError(f"{what} has no value of its type.")
            computed = {*graph.input, *view.outputs}
            for name in graph.output:
                if name not in computed:
                    raise InvalidModelError(f"{printable(view.path)} never computes its output {printable(name)}.")
            continue
        names = [tensor.name for tensor in graph.initializer]
        if name := _twice(names + [tensor.values.name for tensor in graph.sparse_initializer]):
            raise InvalidModelError(f"two initializers of {printable(view.path)} have the name {printable(name)}.")


def _check_calls(model: onnx.ModelProto, found: Iterable[GraphView]) -> None:
    """Check that no call passes more inputs than the function has, or uses more outputs."""
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    calls = (
        (view, index, functions[op_key])
        for view in found
        for op_key, places in view.by_op_key.items()
        if op_key in functions
        for index in places
    )
    for view, index, called in calls:
        node = view.graph.node[index]
        if len(node.input) > len(called.input) or len(node.output) > len(called.output):
            where = printable(f"{view.path}/{traversal.node_name(node, index)}")
            raise InvalidModelError(
                f"{where} calls the function {printable(called.name)} with {len(node.input)} inputs and "
                f"{len(node.output)} outputs; it has {len(called.input)} and {len(called.output)}."
            )


def _check_axes(found: Iterable[GraphView]) -> None:
    """Check that no declared shape has too many axes: onnx's inference would allocate memory for all of them."""
    lengths: dict[int, dict[str, int]] = {}
    for view in found:
        graph = view.graph
        declared = () if isinstance(graph, onnx.FunctionProto) else graph.input
        vectors = {
            value.name: value.type.tensor_type.shape.dim[0].dim_value
            for values in (declared, graph.value_info)
            for value in values
            if len(value.type.tensor_type.shape.dim) == 1
        }
        lengths[id(view)] = {**(lengths[id(view.outer)] if view.outer else {}), **vectors}
        for index in view.places(limits.SHAPED):
            node = graph.node[index]
            position = limits.SHAPED[node.op_type]
            if position < len(node.input):
                length = lengths[id(view)].get(node.input[position], 0)
                if length > limits.MOST_AXES:
                    where = printable(f"{view.path}/{traversal.node_name(node, index)}")
                    raise InvalidModelError(f"{node.op_type} at {where}: its shape has {length} axes.")


def _check_fatal(found: Iterable[GraphView]) -> None:
    """Check nodes that crash onnx's inference."""
    for view in found:
        for index in view.places(FATAL):
            node = view.graph.node[index]
            attributes = {one.name: attribute_value(one) for one in node.attribute if not one.ref_attr_name}
            if not default_domain(node.domain) and (wrong := fatal(node.op_type, attributes, len(node.output))):
                where = printable(f"{view.path}/{traversal.node_name(node, index)}")
                raise InvalidModelError(f"{node.op_type} at {where}: {wrong}.")


def _twice(names: Sequence[str]) -> str | None:
    """Return the first repeated name."""
    return Counter(names).most_common(1)[0][0] if len(set(names)) < len(names) else None


def _check_tensor(tensor: TensorProto) -> None:
    """Check the number of elements, which onnx's checker cannot see in the summary."""
    needed = external_data.size(tensor)
    if tensor.data_location == TensorProto.EXTERNAL:
        return
    if tensor.HasField("raw_data") and needed is not None:
        actual = len(tensor.raw_data)
        if actual != needed:
            raise InvalidModelError(
                f"tensor {printable(tensor.name)} has {actual} bytes of data; its shape and element type need {needed}."
            )
    else:
        _check_entries(tensor)


def _check_entries(tensor: TensorProto) -> None:
    """Check the number of elements in a tensor's typed fields: onnx's checker accepts any number."""
    if tensor.HasField("segment"):
        raise InvalidModelError(
            f"tensor {printable(tensor.name)} is a segment of a larger one, which opshift does not support."
        )
    per_element, packed = _PACKED.get(tensor.data_type, (1, 1))
    needed = -(-math.prod(tensor.dims) * per_element // packed)
    wanted = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    entries = {field: len(getattr(tensor, field)) for field in _DATA}
    if others := [field for field, count in entries.items() if count and field != wanted]:
        raise InvalidModelError(f"tensor {printable(tensor.name)} has entries in {others[0]}; its type needs {wanted}.")
    if entries[wanted] != needed:
        raise InvalidModelError(
            f"tensor {printable(tensor.name)} has {entries[wanted]} entries in {wanted}; "
            f"its shape and type need {needed}."
        )


_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")

# onnx.proto, on `int32_data` and the like: complex numbers take two entries, narrow types share one.
_PACKED: Mapping[int, tuple[int, int]] = {
    TensorProto.COMPLEX64: (2, 1),
    TensorProto.COMPLEX128: (2, 1),
    TensorProto.UINT4: (1, 2),
    TensorProto.INT4: (1, 2),
    TensorProto.FLOAT4E2M1: (1, 2),
    TensorProto.UINT2: (1, 4),
    TensorProto.INT2: (1, 4),
}


def with_fitting_opset(
    error: InvalidModelError, model: onnx.ModelProto, found: Sequence[GraphView]
) -> InvalidModelError:
    """Return an error that also names the opsets that the nodes fit, if the declared one is not among them."""
    opset = next((entry.version for entry in model.opset_import if not default_domain(entry.domain)), 0)
    fitting = fitting_opsets(found)
    if isinstance(error, ToleratedError) or not fitting or opset in fitting:
        return error
    nearest = min(fitting, key=lambda one: (abs(one - opset), -one))
    return InvalidModelError(
        f"{error} It declares opset {opset}, and its nodes are those of {in_words(fitting)}. If the declared opset is "
        f"wrong, read it as another with --assume-opset, such as --assume-opset {nearest} (in Python assume_opset)."
    )


_REFERENCE = b"\xaa\x01"  # the field ref_attr_name of an attribute


def _check_attributes(model: onnx.ModelProto, data: bytes, found: Sequence[GraphView]) -> None:
    """Check attributes of training graphs, which onnx's checker skips, and attribute references outside functions."""
    if not model.training_info and _REFERENCE not in data:
        return
    roots: dict[int, onnx.GraphProto | onnx.FunctionProto] = {}
    for view in found:  # an outer body always comes before its inner ones
        roots[id(view)] = roots[id(view.outer)] if view.outer else view.graph
    training = {id(graph) for info in model.training_info for graph in (info.initialization, info.algorithm)}
    newest = onnx.defs.onnx_opset_version()  # the check of a single attribute does not depend on the opset
    for view in found:
        root = roots[id(view)]
        if isinstance(root, onnx.FunctionProto):
            continue
        for index, node in enumerate(view.graph.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    where = printable(f"{view.path}/{traversal.node_name(node, index)}")
                    what = f"the parameter {printable(attribute.ref_attr_name)} of a function"
                    raise InvalidModelError(f"{node.op_type} at {where} refers to {what}, and is in none.")
                if id(root) in training and not list(traversal.held_graphs(attribute)):
                    with condensed_faults():
                        onnx_process.check_attribute(attribute, model.ir_version, newest)
