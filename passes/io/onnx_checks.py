"""Prepare a model's summary for onnx's checker and inference, and report the checker's errors.

In the summary, large and external weights are typed inputs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import onnx
import onnx.defs
from google.protobuf.message import Message
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.dialect import MICROSOFT, operators
from opshift.opsets.registry.schema import (
    DEPRECATED,
    NEWEST,
    READ,
    Schema,
    default_domain,
    is_dialect,
    schema_read_at,
)
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.base.errors import InvalidModelError, UsageError, printable
from opshift.passes.graph import traversal
from opshift.passes.graph.traversal import GraphView
from opshift.passes.io import external_data

LARGE = 4096
"""The maximum size in bytes of tensors in the summary; onnx reads the elements of smaller ones, such as shapes."""


def _is_heavy(tensor: TensorProto) -> bool:
    """Return whether a tensor is left out of the summary, by its declared size: protobuf's ByteSize would copy it."""
    if external_data.is_external(tensor):
        return True
    try:
        return (external_data.size(tensor) or 0) > LARGE
    except InvalidModelError:  # an invalid type or shape, which a later check reports
        return False


def shown_to_onnx(model: onnx.ModelProto, main: GraphView) -> onnx.ModelProto:
    """Return the model with its large and external weights as typed inputs; the model itself if it has none.

    Only initializers and Constant nodes of the main graph are replaced. In other graphs, an input would change the
    graph's signature.
    """
    graph = model.graph
    heavy = [_is_heavy(tensor) for tensor in graph.initializer]
    constants: Mapping[int, TensorProto] = {}
    if any(attribute.name == "value" and _is_heavy(attribute.t) for attribute in main.holders):
        constants = {
            index: node.attribute[0].t
            for index, node in enumerate(graph.node)
            if node.op_type == CONSTANT
            and not default_domain(node.domain)
            and len(node.attribute) == len(node.output) == 1
            if node.attribute[0].name == "value" and _is_heavy(node.attribute[0].t)
        }
    if not any(heavy) and not constants:
        return model
    summary = onnx.ModelProto()
    copy_fields(summary, model, {"graph"})
    copy_fields(summary.graph, graph, {"node", "initializer"})
    summary.graph.node.extend(node for index, node in enumerate(graph.node) if index not in constants)
    summary.graph.initializer.extend(tensor for tensor, drop in zip(graph.initializer, heavy, strict=True) if not drop)
    inputs = {value.name for value in graph.input}
    weights = [(tensor.name, tensor) for tensor, drop in zip(graph.initializer, heavy, strict=True) if drop]
    weights += [(graph.node[index].output[0], tensor) for index, tensor in constants.items()]
    for name, tensor in weights:
        if name not in inputs:
            value = summary.graph.input.add(name=name)
            value.type.tensor_type.elem_type = tensor.data_type
            value.type.tensor_type.shape.SetInParent()
            for size in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=size)
    return summary


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without the elements of the large initializers that are in memory."""
    light = onnx.ModelProto()
    copy_fields(light, model, {"graph"})
    copy_fields(light.graph, model.graph, {"initializer"})
    for tensor in model.graph.initializer:
        if _is_heavy(tensor) and tensor.data_location != TensorProto.EXTERNAL:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.add().CopyFrom(tensor)
    return light


def copy_fields(target: Message, message: Message, without: set[str]) -> None:
    """Copy all set fields of a message, except some."""
    for entry, value in message.ListFields():
        if entry.name in without:
            continue
        if hasattr(value, "MergeFrom"):  # a message, or a repeated field
            getattr(target, entry.name).MergeFrom(value)
        else:
            setattr(target, entry.name, value)


_FUNCTIONS = 8
"""The first ir_version with functions; onnx's checker ignores functions of older models."""


def _closed(summary: onnx.ModelProto, data: bytes) -> bytes:
    """Return the serialized summary without references to files, which onnx's checker would open.

    Functions are checked at every ir_version, as in onnxruntime. An external tensor in the summary becomes an empty
    one. The default domain is spelled ''. Inputs and outputs of unknown rank, which the checker refuses and onnxruntime
    accepts, become scalars. A deprecated version that opshift still reads moves to a domain where it is not deprecated,
    and an operator that only onnxruntime has in the default domain moves to its domain.
    """
    shapeless = any(not value.type.tensor_type.HasField("shape") for value in tensors_in_and_out(summary))
    early = bool(summary.functions) and summary.ir_version < _FUNCTIONS
    deprecated, own = _deprecated(summary, data), _own_spellings(summary, data)
    if (
        not shapeless
        and not early
        and not deprecated
        and not own
        and b"location" not in data
        and b"\x07ai.onnx" not in data
    ):
        return data  # protobuf writes a string as its length and its bytes
    model = onnx.ModelProto()
    model.CopyFrom(summary)
    if early:
        model.ir_version = _FUNCTIONS
    found = tuple(traversal.graph_views(model))
    for view in found:
        for sparse in traversal.sparse_tensors(view):
            if external_data.is_external(sparse.values) or external_data.is_external(sparse.indices):
                _empty(sparse.values)
                _empty(sparse.indices)
    for tensor in traversal.tensors(found):
        if external_data.is_external(tensor):
            _empty(tensor)
    for value in tensors_in_and_out(model):
        value.type.tensor_type.shape.SetInParent()
    holders = [*model.opset_import, *model.functions, *(node for view in found for node in view.graph.node)]
    holders += [entry for function in model.functions for entry in function.opset_import]
    for holder in holders:
        if holder.domain == "ai.onnx":
            holder.domain = ""
    for one in deprecated:
        for node in (node for view in found for node in view.graph.node):
            if not node.domain and node.op_type == one.name:
                node.domain, node.op_type = one.domain, one.raw.name
        for importer in (model, *model.functions):
            importer.opset_import.add(domain=one.domain, version=one.since_version)
    if own:
        for node in (node for view in found for node in view.graph.node):
            if not node.domain and node.op_type in own:
                node.domain = MICROSOFT
        for importer in (model, *model.functions):
            if all(entry.domain != MICROSOFT for entry in importer.opset_import):
                importer.opset_import.add(domain=MICROSOFT, version=1)
    return cast(bytes, model.SerializeToString())


def _deprecated(summary: onnx.ModelProto, data: bytes) -> Sequence[Schema]:
    """Return the deprecated versions that opshift still reads, of operators that the model names."""
    importers = (summary, *summary.functions)
    opsets = {entry.version for one in importers for entry in one.opset_import if not default_domain(entry.domain)}
    named = (name for name, _ in READ if name.encode() in data)
    found = ([schema_read_at("", name, opset) for opset in opsets] for name in named)
    return [one[0] for one in found if one[0] and all(other and other.domain == DEPRECATED for other in one)]


def _own_spellings(summary: onnx.ModelProto, data: bytes) -> frozenset[str]:
    """Return the operators that only onnxruntime has in the default domain, and that the model may have."""
    opsets = {
        entry.version
        for one in (summary, *summary.functions)
        for entry in one.opset_import
        if not default_domain(entry.domain) and entry.version <= NEWEST
    }
    named = (name for name in operators("") if name.encode() in data)
    found = ((name, [schema_read_at("", name, opset) for opset in opsets]) for name in named)
    return frozenset(name for name, read in found if read and all(one and is_dialect(one) for one in read))


def _empty(tensor: TensorProto) -> None:
    tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))


class ToleratedError(InvalidModelError):
    """A defect that other tools tolerate."""


def check_by_onnx(summary: onnx.ModelProto, data: bytes) -> None:
    """Run onnx's checker on the result of `shown_to_onnx`; `data` is its serialization.

    Raises:
        InvalidModelError: the model violates ONNX's rules.
        UsageError: the checker's process does not start.
    """
    with condensed_faults():
        onnx_process.check_model(_closed(summary, data))


@contextlib.contextmanager
def condensed_faults() -> Iterator[None]:
    """Condense an exception of onnx into one line."""
    try:
        yield
    except onnx_process.NoProcessError as error:
        raise UsageError(str(error)) from error
    except onnx_process.OnnxDiedError as error:
        raise InvalidModelError(f"it cannot be checked: {error}. Export it again, or repair it.") from None
    except Exception as error:  # ValidationError, or any C++ exception for unexpected contents
        error_class = ToleratedError if _UNSORTED.search(str(error)) else InvalidModelError
        raise error_class(_condensed(str(error))) from None


_UNSORTED = re.compile(r"topologically sorted, however input '(.*?)' of node:\s*name: (.*?) OpType: (\S*)", re.S | re.I)


def _condensed(text: str) -> str:
    """Return the checker's message in one line, with the node that it concerns."""
    if match := _UNSORTED.search(text):
        value, name, operator = match.groups()
        return (
            f"input {printable(value)} of {_node(name, operator)} is not computed before it: nothing has that name, or "
            "the nodes form a cycle or are in the wrong order."
        )
    if "Unable to parse proto" in text:
        return "it is too large, or nested too deep, for onnx to check."
    message, _, context = text.partition("\n\n==> Context: ")
    message = re.sub(r"^No Op registered for (.*) with domain_version of (\S+)", r"there is no \1 in opset \2", message)
    message = printable(" ".join(message.split()).rstrip("."), 400)[1:-1]
    match = re.search(r"Name: (.*?) OpType: (\S*)", context, re.S)
    where = f"{_node(match[1], match[2])}: " if match else ""
    return f"it breaks ONNX's rules: {where}{message}. Export it again, or repair it."


def _node(name: str, operator: str) -> str:
    shown = printable(operator)[1:-1]
    return f"node {printable(name.strip())} ({shown})" if name.strip() else f"a node {shown}".rstrip()


def tensors_in_and_out(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    """Yield the inputs and outputs of the main graph that are tensors."""
    values = (*model.graph.input, *model.graph.output)
    return (value for value in values if value.type.HasField("tensor_type"))
