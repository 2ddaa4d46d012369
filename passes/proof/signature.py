"""Compare the signatures of two models, and the shapes of values with those that onnx infers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Dim
from opshift.passes.analysis.model_summary import declared_by_bodies, declared_of_elements
from opshift.passes.analysis.scopes import Shape, graph_inputs, versions
from opshift.passes.runtime.ort_models import Feeds, RejectedError


def interface_difference(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> str:
    """Return how the inputs and outputs of two models differ in name, order or type; empty if they do not.

    Inputs that have an initializer are left out, and the order of inputs does not matter.
    """
    wanted_inputs, found_inputs = (
        {value.name: _kind(value.type) for value in graph_inputs(model.graph)} for model in (original, rewritten)
    )
    wanted, found = ([(v.name, _kind(v.type)) for v in model.graph.output] for model in (original, rewritten))
    if set(wanted_inputs) != set(found_inputs):
        return f"the inputs are {_listed(found_inputs)} instead of {_listed(wanted_inputs)}"
    if [name for name, _ in wanted] != [name for name, _ in found]:
        return f"the outputs are {_listed(dict(found))} instead of {_listed(dict(wanted))}"
    pairs = [("input", name, declared, found_inputs[name]) for name, declared in wanted_inputs.items()]
    pairs += [("output", name, declared, other) for (name, declared), (_, other) in zip(wanted, found, strict=True)]
    for role, name, declared, other in pairs:
        if declared and other and declared != other:
            return f"{role} {name} is {other} instead of {declared}"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _kind(type_proto: onnx.TypeProto) -> str:
    """Return a type without its shape, such as seq(tensor(float)); empty if unknown."""
    which = type_proto.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = getattr(type_proto, which).elem_type
        name = onnx.TensorProto.DataType.Name(element).lower()
        return f"{which.removesuffix('_type')}({name})" if element else ""
    if which in ("sequence_type", "optional_type"):
        inner = _kind(getattr(type_proto, which).elem_type)
        return f"{which.removesuffix('_type')}({inner})" if inner else ""
    if which == "map_type":
        key = onnx.TensorProto.DataType.Name(type_proto.map_type.key_type).lower()
        return f"map({key}, {_kind(type_proto.map_type.value_type)})"
    return ""


def _fits(shape: Shape, declared: tuple[Dim, ...]) -> bool:
    if len(shape) != len(declared):
        return False
    return all(dim == size for dim, size in zip(declared, shape, strict=True) if isinstance(dim, int))


def contradiction(
    model: onnx.ModelProto, feeds: Feeds, values: Mapping[str, Any], *, strict: bool = False, everywhere: bool = False
) -> str:
    """Return how the shape of a value contradicts onnx's inference for these inputs; empty if none does.

    A shape that differs from the declaration in the body of a Loop, a Scan or a SequenceMap is a contradiction too,
    because onnxruntime plans memory by it. With `strict`, so is an output of another rank than the model declares, for
    which onnxruntime only warns. onnx is run only if a value is empty, where kernels of onnxruntime are known to be
    wrong, or `everywhere`.

    Raises:
        RejectedError: with `strict`, onnx infers that the model does not accept these inputs.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    sizes = {name: array.shape for name, array in arrays.items()}
    for node in model.graph.node:
        for name, declared in declared_by_bodies(node, versions(model).get("", 0)):
            if name in sizes and not _fits(sizes[name], declared):
                return f"{name} has the shape {list(sizes[name])}, and the body of {node.op_type} declares another"
        for name, declared in declared_of_elements(node):
            items = values[name] if isinstance(values.get(name), list) else ()
            if not all(_fits(item.shape, declared) for item in items if isinstance(item, np.ndarray)):
                return f"elements of {name} have shapes other than the body of {node.op_type} declares"
    for value in model.graph.output if strict else ():
        rank = len(value.type.tensor_type.shape.dim) if value.type.tensor_type.HasField("shape") else None
        if rank is not None and value.name in arrays and arrays[value.name].ndim != rank:
            return f"{value.name} has {arrays[value.name].ndim} dimensions, and the model declares {rank}"
    arrays_fed = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    if not everywhere and all(array.size for array in (*arrays_fed.values(), *arrays.values())):
        return ""
    concrete = onnx.ModelProto()
    concrete.CopyFrom(model)
    del concrete.graph.value_info[:]
    for value in concrete.graph.input:
        if value.name in arrays_fed:
            shape = onnx.helper.make_tensor_type_proto(value.type.tensor_type.elem_type, arrays_fed[value.name].shape)
            value.type.CopyFrom(shape)
    for value in concrete.graph.output:
        value.ClearField("type")
    try:
        inferred = onnx_process.infer_shapes(concrete, strict_mode=strict).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        if strict and isinstance(error, onnx.shape_inference.InferenceError):
            raise RejectedError(f"onnx: {error}") from error
        return ""  # no contradiction can be found for a model that is too large to infer
    for value in (*inferred.output, *inferred.value_info):
        array = arrays.get(value.name)
        if array is None or not value.type.tensor_type.HasField("shape"):
            continue
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        if len(dims) != array.ndim or any(d not in (None, size) for d, size in zip(dims, array.shape, strict=True)):
            return f"onnxruntime gives {value.name} the shape {list(array.shape)}, where onnx infers {dims}"
    return ""
