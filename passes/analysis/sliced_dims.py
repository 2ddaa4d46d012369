"""Name the dimensions that a Slice-10 cuts: onnx infers the size and the name that they had before.

onnxruntime (1.32.0) infers the same. It then reuses a buffer of the uncut size for the cut value, and fails with "Shape
mismatch attempting to re-use buffer". Both keep a declared name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from opshift.opsets.registry.facts import Dim, facts_of_tensor, facts_of_type
from opshift.opsets.registry.inference_gaps import INFERRED_AS, SLICE
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.graph.traversal import graphs


def keeps_names(model: onnx.ModelProto) -> bool:
    """Return whether the names of cut dimensions are wrong at a model's opset."""
    opset = next((item.version for item in model.opset_import if not default_domain(item.domain)), 0)
    found = schema_at("", SLICE, opset)
    return found is not None and (SLICE, found.since_version) in INFERRED_AS


def name_sliced_dims(model: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Declare names for the dimensions that Slices cut, if they would keep one; return whether there are any.

    Args:
        model: the model; names are added to the declarations of values and outputs.
        inferred: the same model with the shapes that onnx infers.
    """
    values = (value for graph in _graphs(inferred) for value in (*graph.input, *graph.output, *graph.value_info))
    known = {value.name: value for value in values}
    shapes = {name: facts_of_type(value.type).shape or () for name, value in known.items()}
    constants: dict[str, list[int]] = {}
    found = False
    for graph in _graphs(model):
        constants.update(_constants(graph))
        declared = {value.name: value for value in (*graph.value_info, *graph.output)}
        for node in graph.node:
            if node.op_type != SLICE or default_domain(node.domain):
                continue
            name = node.output[0]
            if not (cut := _cut(node, shapes, constants)):
                continue
            if name not in declared:
                declared[name] = graph.value_info.add()
                declared[name].CopyFrom(known[name])
            tensor_type = declared[name].type.tensor_type
            if not tensor_type.HasField("shape"):
                tensor_type.CopyFrom(known[name].type.tensor_type)
            for axis in cut:
                tensor_type.shape.dim[axis].dim_param = _name(name, axis)
            found = True
    return found


def declare_sliced_dims(model: onnx.ModelProto, inferred: onnx.ModelProto) -> None:
    """Declare the dimensions that were named before the model's inference, so that onnxruntime gets the names too."""
    for here, there in zip(_graphs(model), _graphs(inferred), strict=True):
        known = {value.name: value for value in (*there.value_info, *there.output)}
        declared = {value.name: value for value in (*here.value_info, *here.output)}
        for node in here.node:
            name = node.output[0] if node.op_type == SLICE and not default_domain(node.domain) else ""
            dims = known[name].type.tensor_type.shape.dim if name in known else ()
            if any(dim.dim_param == _name(name, axis) for axis, dim in enumerate(dims)):
                value = declared[name] if name in declared else here.value_info.add()
                value.CopyFrom(known[name])


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    return (graph for graph in graphs(model) if isinstance(graph, onnx.GraphProto))


def _name(value: str, axis: int) -> str:
    return f"{value}_dim_{axis}"


def _cut(node: onnx.NodeProto, shapes: Mapping[str, tuple[Dim, ...]], constants: Mapping[str, list[int]]) -> list[int]:
    """Return the axes of a Slice's output that keep the input's name although they may be cut."""
    data, dims = shapes.get(node.input[0], ()), shapes.get(node.output[0], ())
    if not dims or len(data) != len(dims):
        return []
    axes = constants.get(node.input[3]) if len(node.input) > 3 and node.input[3] else None
    places = range(len(dims)) if axes is None else sorted({axis % len(dims) for axis in axes})
    return [axis for axis in places if isinstance(dims[axis], str) and dims[axis] == data[axis]]


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, list[int]]]:
    """Yield the small integer vectors in a graph."""
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in graph.node
        if node.op_type == CONSTANT
        for attribute in node.attribute
        if attribute.type == onnx.AttributeProto.TENSOR
    ]
    for name, tensor in tensors:
        known = facts_of_tensor(tensor).known if len(tensor.dims) == 1 else None
        if known is not None and known.dtype.kind == "i":
            yield name, known.tolist()
