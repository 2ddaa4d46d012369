"""Infer the types and shapes of a whole model with onnx, without the nodes that are known to crash it.

onnx's inference (1.23.2) dereferences the type of an input without checking that it exists (EyeLike, RegexFullMatch):
values without a type are declared as tensors of undefined type. Nodes that crash it for another reason, or that it
infers wrongly, are set aside: an unknown operator takes their place.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, TypeProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Facts, facts_of_type, type_of_facts
from opshift.opsets.registry.inference_gaps import (
    FATAL,
    NEEDS_CONSTANTS,
    ROUNDED,
    SLICE,
    UNSURE,
    WRONG_SIZE,
    exceeds_int32,
    fatal,
    unranked,
    unsized,
    without_late,
    wrong_size,
    wrong_without_constants,
)
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.schema import attribute_value, default_domain, schema_at
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.analysis.data_propagation import set_long_aside
from opshift.passes.analysis.sliced_dims import keeps_names, name_sliced_dims
from opshift.passes.graph.limits import LONGEST
from opshift.passes.graph.traversal import graphs, subgraphs

_ASIDE = "opshift.aside:"
"""The prefix of the domain of a node that is set aside; its own domain follows."""

_ZERO = b"\x0a\x02\x08\x00"
"""A dimension of zero in a shape, in protobuf's encoding."""

_CEIL = b"ceil_mode"

_REFERENCE = b"\xaa\x01"
"""The field ref_attr_name of an attribute."""

_TENSOR, _SEQUENCE, _OPTIONAL = TypeProto(), TypeProto(), TypeProto()
_TENSOR.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
_SEQUENCE.sequence_type.elem_type.CopyFrom(_TENSOR)
_OPTIONAL.optional_type.elem_type.CopyFrom(_TENSOR)


def infer_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model with inferred types and shapes; the model itself is not changed.

    Functions are not analyzed. A value without known facts may be declared as a tensor without element type.

    Raises:
        Exception: InferenceError, or any C++ exception for unexpected contents.
    """
    known = without_hostile_dims(model)
    shown = known
    if shown is model:
        shown = onnx.ModelProto()
        shown.CopyFrom(model)
    data = shown.SerializeToString()
    _set_aside_unsafe(shown, data)
    _set_aside_malformed(shown, shown.graph, ())
    _declare(shown)
    set_long_aside(shown, _set_aside)
    inferred = onnx_process.infer_shapes(shown, data_prop=True)
    if SLICE.encode() in data and keeps_names(shown) and name_sliced_dims(shown, inferred):
        inferred = onnx_process.infer_shapes(shown, data_prop=True)
    declared_zeros = data.count(_ZERO)
    unsure = any(name.encode() in data for name in UNSURE)
    late = _CEIL in data
    while (
        (unsure and _set_aside_unsure(shown, inferred))
        or (late and _set_aside_late(shown.graph, inferred.graph, {}, functools.partial(_set_aside, shown)))
        or (inferred.SerializeToString().count(_ZERO) > declared_zeros and _set_aside_zeros(shown, inferred))
    ):
        inferred = onnx_process.infer_shapes(shown, data_prop=True)
    _put_back(inferred)
    return inferred


def _put_back(model: onnx.ModelProto) -> None:
    """Restore the domains of the nodes that were set aside."""
    kept = [item for item in model.opset_import if not item.domain.startswith(_ASIDE)]
    if len(kept) == len(model.opset_import):
        return
    kept = [onnx.OperatorSetIdProto.FromString(item.SerializeToString()) for item in kept]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    for graph in graphs(model):
        for node in graph.node:
            node.domain = node.domain.removeprefix(_ASIDE)


def _set_aside(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.domain = _ASIDE + node.domain
    if all(item.domain != node.domain for item in model.opset_import):
        model.opset_import.add(domain=node.domain, version=1)


def _set_aside_unsafe(model: onnx.ModelProto, data: bytes) -> None:
    """Set aside nodes that crash the process or are inferred wrongly, and those with unbound attribute references.

    onnx uses the default for an attribute that refers to a parameter.
    """
    listed = [name for name in FATAL | NEEDS_CONSTANTS | WRONG_SIZE if name.encode() in data]
    references = _REFERENCE in data
    if not listed and not references:
        return
    for graph in graphs(model):
        if not isinstance(graph, onnx.GraphProto):
            continue
        constants: frozenset[str] | None = None
        for node in graph.node:
            unsafe = references and any(attribute.ref_attr_name for attribute in node.attribute)
            if not unsafe and node.op_type in listed and not default_domain(node.domain):
                if constants is None:
                    constants = _constants(graph)
                constant_inputs = [name in constants if name else None for name in node.input]
                attributes = {one.name: attribute_value(one) for one in node.attribute}
                unsafe = (
                    wrong_without_constants(node.op_type, constant_inputs)
                    or wrong_size(node.op_type, attributes)
                    or bool(fatal(node.op_type, attributes, len(node.output)))
                )
            if unsafe:
                _set_aside(model, node)


def _set_aside_malformed(model: onnx.ModelProto, graph: onnx.GraphProto, outer: Sequence[Set[str]]) -> None:
    """Set aside nodes without a required input or attribute, or with an undefined input.

    onnx's checker refuses such nodes; those of functions may have lost a parameter since.
    """
    versions = {default_domain(item.domain): item.version for item in model.opset_import}
    own = {tensor.name for tensor in graph.initializer}
    own.update(tensor.values.name for tensor in graph.sparse_initializer)
    own.update(value.name for values in (graph.input, graph.value_info, graph.output) for value in values)
    for node in graph.node:
        for inner in subgraphs(node):
            _set_aside_malformed(model, inner, (*outer, own))
        read = node.input[:]
        unknown = not own.issuperset(read) and any(
            name and name not in own and not any(name in names for names in outer) for name in read
        )
        own.update(node.output[:])
        version = versions.get(default_domain(node.domain))
        form = None if version is None else _form(default_domain(node.domain), node.op_type, version)
        if unknown or (form is not None and not form.fits(node)):
            _set_aside(model, node)


@dataclass(frozen=True)
class _Form:
    """The numbers of inputs and outputs of an operator, its required inputs, and its attributes."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    required: int
    attributes: frozenset[str]

    def fits(self, node: onnx.NodeProto) -> bool:
        """Return whether a node has all required inputs, outputs and attributes."""
        return (
            self.inputs[0] <= len(node.input) <= self.inputs[1]
            and self.outputs[0] <= len(node.output) <= self.outputs[1]
            and "" not in node.input[: self.required]
            and (not self.attributes or self.attributes.issubset([attribute.name for attribute in node.attribute]))
            and not any(attribute.name == "axis" and exceeds_int32(attribute.i) for attribute in node.attribute)
        )


@functools.cache
def _form(domain: str, name: str, version: int) -> _Form | None:
    schema = schema_at(domain, name, version)
    if schema is None:
        return None
    raw = schema.raw
    required = next((index for index, one in enumerate(schema.inputs) if one.optional), len(schema.inputs))
    required_attributes = frozenset(name for name, (needed, _) in schema.attributes.items() if needed)
    return _Form((raw.min_input, raw.max_input), (raw.min_output, raw.max_output), required, required_attributes)


def _constants(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the values whose elements onnx's inference reads: those of outer graphs are not included."""
    made = (node.output[0] for node in graph.node if node.op_type == CONSTANT and len(node.output) == 1)
    return frozenset(made).union(tensor.name for tensor in graph.initializer)


# --- values without a type ---


def _declare(model: onnx.ModelProto) -> None:
    """Declare a type for each value that has none."""
    opset = next((item.version for item in model.opset_import if not default_domain(item.domain)), 1)
    outer: dict[str, TypeProto] = {}
    _declare_in(model.graph, opset, outer)


def _declare_in(graph: onnx.GraphProto, opset: int, outer: Mapping[str, TypeProto]) -> None:
    """Declare the types of values in one graph and its subgraphs; `outer` has the types that are not tensors."""
    others = dict(outer)
    typed = {tensor.name for tensor in graph.initializer}
    typed.update(tensor.values.name for tensor in graph.sparse_initializer)
    for values in (graph.input, graph.value_info):
        for value in values:
            if value.type.WhichOneof("value") is None:
                value.type.CopyFrom(_TENSOR)
            elif not value.type.HasField("tensor_type"):
                others[value.name] = value.type
            typed.add(value.name)
    open_outputs = {}
    for value in graph.output:
        if value.type.WhichOneof("value") is None:
            open_outputs[value.name] = value
        elif not value.type.HasField("tensor_type"):
            others[value.name] = value.type
        typed.add(value.name)
    added = []
    for node in graph.node:
        inner = list(subgraphs(node))
        for one in inner:
            if (loop := traits(node.op_type).iteration) and not loop.scanned:
                _declare_carried(node, one, others)
            _declare_in(one, opset, others)
        kinds = _kinds(node.domain, node.op_type, opset)
        for index, name in enumerate(node.output):
            if not name or (name in typed and name not in open_outputs):
                continue
            type_proto = kinds[min(index, len(kinds) - 1)] if kinds else _TENSOR
            if type_proto is None:
                type_proto = _kind_of(node, index, inner, others)
            if not type_proto.HasField("tensor_type"):
                others[name] = type_proto
            if name in open_outputs:
                open_outputs.pop(name).type.CopyFrom(type_proto)
            else:
                added.append(onnx.ValueInfoProto(name=name, type=type_proto))
            typed.add(name)
    for value in open_outputs.values():
        value.type.CopyFrom(others.get(value.name, _TENSOR))
    graph.value_info.extend(added)


@functools.cache
def _kinds(domain: str, name: str, opset: int) -> Sequence[TypeProto | None]:
    """Return the kind of each output of an operator: tensor, sequence or optional; None if it depends on the node."""
    schema = schema_at("", name, opset) if not default_domain(domain) else None
    found: list[TypeProto | None] = []
    for output in schema.outputs if schema else ():
        starts = {allowed.partition("(")[0] for allowed in output.types}
        only = starts.pop() if len(starts) == 1 else ""
        found.append({"tensor": _TENSOR, "seq": _SEQUENCE, "optional": _OPTIONAL}.get(only))
    return found


def _declare_carried(node: onnx.NodeProto, body: onnx.GraphProto, others: Mapping[str, TypeProto]) -> None:
    """Declare the loop-carried inputs of a Loop's body that are not tensors."""
    for name, value in zip(node.input, body.input, strict=False):
        if name in others and value.type.WhichOneof("value") is None:
            value.type.CopyFrom(_shapeless(others[name]))


def _kind_of(
    node: onnx.NodeProto, index: int, inner: Sequence[onnx.GraphProto], others: Mapping[str, TypeProto]
) -> TypeProto:
    """Return the type of an output of If, Loop, Identity or OptionalGetElement."""
    if inner:
        # A Loop's body returns the condition first, and its scan outputs are tensors.
        loop = traits(node.op_type).iteration
        loop = None if loop and loop.scanned else loop
        first, carried = (loop.outputs, len(node.input) - loop.inputs) if loop else (0, len(node.output))
        outputs = inner[0].output[first:]
        # Another branch, or another iteration, may return another shape.
        return _shapeless(outputs[index].type) if index < min(carried, len(outputs)) else _TENSOR
    type_proto = others.get(node.input[0], _TENSOR) if node.input else _TENSOR
    if node.op_type == "OptionalGetElement" and type_proto.HasField("optional_type"):
        return type_proto.optional_type.elem_type
    return type_proto


def _shapeless(type_proto: TypeProto) -> TypeProto:
    """Return a type without the shapes of its tensors."""
    found = TypeProto()
    found.CopyFrom(type_proto)
    inner = found
    while (name := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
        inner = getattr(inner, name).elem_type
    if inner.HasField("tensor_type"):
        inner.tensor_type.ClearField("shape")
    return found


# --- false dimensions of zero ---


def _set_aside_unsure(shown: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Set aside nodes that are inferred wrongly for unknown input shapes; return whether there are any."""
    found = False
    for here, there in _pairs(shown, inferred):
        nodes = [one for one in here.node if one.op_type in UNSURE and not default_domain(one.domain)]
        values = (there.value_info, there.output, there.input) if nodes else ()
        shapes = {value.name: facts_of_type(value.type).shape for one in values for value in one}
        shapes.update((tensor.name, tuple(tensor.dims)) for tensor in there.initializer if nodes)
        for node in nodes:
            read = [shapes.get(name) if name else () for name in node.input]
            if unranked(node.op_type, read) or unsized(node.op_type, read):
                _set_aside(shown, node)
                found = True
    return found


def _set_aside_late(
    here: onnx.GraphProto,
    there: onnx.GraphProto,
    outer: Mapping[str, Facts],
    set_aside: Callable[[onnx.NodeProto], None],
) -> bool:
    """Set aside pools whose sizes count windows that start in the padding; return whether there are any.

    Their other inferred facts are declared instead, for the inference of the following nodes.
    """
    known = {**outer, **{value.name: facts_of_type(value.type) for value in _values(there)}}
    known.update((tensor.name, Facts(tensor.data_type, tuple(tensor.dims))) for tensor in there.initializer)
    late: dict[str, Facts] = {}
    found = False
    for node, same in zip(here.node, there.node, strict=True):
        for one, other in zip(subgraphs(node), subgraphs(same), strict=True):
            found = _set_aside_late(one, other, known, set_aside) or found
        if node.op_type not in ROUNDED or default_domain(node.domain) or not node.input or not node.output:
            continue
        attributes = {one.name: attribute_value(one) for one in node.attribute}
        inferred = {name: known.get(name, Facts()) for name in node.output if name}
        data = known.get(node.input[0])
        right = {name: without_late(node.op_type, attributes, facts, data) for name, facts in inferred.items()}
        if right != inferred:
            set_aside(node)
            late.update(right)
    for value in _values(here) if late else ():
        if value.name in late and not value.type.tensor_type.HasField("shape"):
            value.type.CopyFrom(type_of_facts(late[value.name]))
    return found or bool(late)


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    return itertools.chain(graph.input, graph.output, graph.value_info)


def _pairs(one: onnx.ModelProto, other: onnx.ModelProto) -> Iterator[tuple[onnx.GraphProto, onnx.GraphProto]]:
    """Yield each graph of a model with the same graph of another."""
    for here, there in zip(graphs(one), graphs(other), strict=True):
        if isinstance(here, onnx.GraphProto) and isinstance(there, onnx.GraphProto):
            yield here, there


def _set_aside_zeros(shown: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Set aside the first nodes of each graph that infer 0 dims from nonzero ones; return whether there are any.

    Some operators (Attention) read an unknown dimension as 0. If all inputs of a node are known, the 0 is a fact.
    """
    found = False
    for here, there in _pairs(shown, inferred):
        declared = {value.name for values in (here.value_info, here.output) for value in values if _has_zero(value)}
        types = {value.name: value for values in (there.value_info, there.output, there.input) for value in values}
        zeros = {name for name, value in types.items() if _has_zero(value)} - declared
        constants = {tensor.name for tensor in there.initializer}
        for node in here.node if zeros else ():
            if node.domain.startswith(_ASIDE) or zeros.isdisjoint(node.output) or any(_graphs_in(node)):
                continue
            read = [types.get(name) for name in node.input if name and name not in constants]
            if any(value is not None and _has_zero(value) for value in read):
                continue
            if any(value is None or not _is_known(value) for value in read):
                _set_aside(shown, node)
                found = True
    return found


def _graphs_in(node: onnx.NodeProto) -> Iterator[AttributeProto]:
    return (one for one in node.attribute if one.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS))


def _has_zero(value: onnx.ValueInfoProto) -> bool:
    return 0 in (facts_of_type(value.type).shape or ())


def _is_known(value: onnx.ValueInfoProto) -> bool:
    shape = facts_of_type(value.type).shape
    return shape is not None and all(isinstance(dim, int) for dim in shape)


# The field dim_value, with a number of four (2**21 and more) to ten bytes (negative numbers).
_FAR = re.compile(rb"\x08[\x80-\xff]{3,9}[\x01-\x7f]")


def without_hostile_dims(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model, or a copy without the dimensions that crash onnx's inference.

    Negative dimensions, which onnxruntime treats as unknown, crash the process (1.23.2, Slice). Vectors of more than
    `LONGEST` elements need unbounded memory.
    """
    try:
        data = model.SerializeToString()
    except EncodeError:  # too large for onnx as well
        return model
    if not _FAR.search(data):
        return model
    known = onnx.ModelProto()
    known.CopyFrom(model)
    for graph in graphs(known):
        declared = () if isinstance(graph, onnx.FunctionProto) else (graph.input, graph.output)
        for value in (value for values in (*declared, graph.value_info) for value in values):
            dims = value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
            for dim in dims:
                if dim.dim_value < 0 or (len(dims) == 1 and dim.dim_value > LONGEST):
                    dim.ClearField("dim_value")
    return known
