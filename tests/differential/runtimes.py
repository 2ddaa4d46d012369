"""Run a model in onnxruntime, or in onnx's reference evaluator where onnxruntime has no kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
from onnx import ModelProto, NodeProto, TypeProto
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from differential.embed import messages

_NO_KERNEL = (
    "Could not find an implementation",
    "NOT_IMPLEMENTED",
    "is not currently registered or supported",  # an element type
    "bound to different types",  # the body of a function that onnx has for the operator, see below
    "does not match expected type",
    "Failed to find kernel for",
    "operator does not support",
    "are not supported. If you need support",  # a layout of recurrent operators
    "Unsupported value attribute datatype",  # of ConstantOfShape
    "data type is not supported with Scatter",  # halves that are added up
    "of input parameter (_inlfunc_",  # in the body of SoftmaxCrossEntropyLoss
    "in node () is invalid",  # in the body of Clip, whose nodes have no names
    "node. Name:'' Status",  # in the body of AffineGrid, when it runs
    "Only N can be zero",  # of the shape that is pooled over
    "Non per-tensor quantization is not supported now",  # zero points of ConvInteger
    "Dilation not supported for AutoPadType",
    "B zero point is not valid",  # of MatMulInteger: more than two dimensions
    "indices tensor must have rank >= 1",  # of OneHot
    "Tensor type mismatch. T !=",  # a cubic Resize of integers, which has a kernel for float alone
    "saturate is only used for cast to float 8",  # in the body of CastLike with saturate = 0
    "pre-allocated output OrtValues",  # in a Scan, where onnx infers that Attention of unknown width has none
)
"""What onnxruntime says where it has no kernel. Some bodies of operators that are functions (Attention, CenterCropPad,
RMSNormalization of narrow types) have no types that fit, and onnxruntime 1.32.0 has no kernel in their place."""

Feed = dict[str, Any]
Outputs = list[list[Any]]
"""The outputs of each feed."""


class NoKernelError(Exception):
    """onnxruntime has no kernel for an operator of the model."""


class LoadError(Exception):
    """onnxruntime does not open the model."""


class RunError(Exception):
    """The model does not run with these inputs."""


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    return options


_OPTIONS = _options()


def run(model: ModelProto, feeds: Sequence[Feed], options: onnxruntime.RunOptions | None = None) -> Outputs:
    """Run a model in onnxruntime without graph optimizations; `options` can end a run that takes too long.

    Raises:
        NoKernelError: an operator has no kernel.
        LoadError: the model is not opened for another reason.
        RunError: it does not run.
    """
    try:
        session = onnxruntime.InferenceSession(
            named(model).SerializeToString(), _OPTIONS, providers=["CPUExecutionProvider"]
        )
    except errors.NotImplemented as error:
        raise NoKernelError(str(error)) from error
    except Exception as error:
        if any(text in str(error) for text in _NO_KERNEL):
            raise NoKernelError(str(error)) from error
        raise LoadError(str(error)) from error
    types = {each.name: each.type for each in (*model.graph.input, *model.graph.output)}
    try:
        return [_run_once(session, feed, types, options) for feed in feeds]
    except (errors.NotImplemented, NoKernelError) as error:
        raise NoKernelError(str(error)) from error
    except Exception as error:
        if any(text in str(error) for text in _NO_KERNEL):
            raise NoKernelError(str(error)) from error
        raise RunError(str(error)) from error


def named(model: ModelProto) -> ModelProto:
    """Return the model with node names that differ: onnxruntime refuses duplicates, which ONNX allows.

    Last inputs that are left out go: those of a DFT end the process in onnxruntime 1.32.0. What a Cast reads of the
    graph's inputs passes an Identity: with optimizations off too, onnxruntime 1.32.0 removes a Cast to a wider type and
    back of an input, and then finds no value in a subgraph that reads it ("Missing Input").
    """
    names = [node.name for node in model.graph.node if node.name]
    idle = [node for node in messages(model, NodeProto) if _ends_idly(node)]
    cast = _cast_twice(model)
    if len(set(names)) == len(names) and not idle and not cast:
        return model
    copied = ModelProto()
    copied.CopyFrom(model)
    if len(set(names)) < len(names):
        for number, node in enumerate(copied.graph.node):
            node.name = f"{node.name}_{number}"
    for node in messages(copied, NodeProto):
        while _ends_idly(node):
            del node.input[-1]
    for node in copied.graph.node:
        if node.op_type == "Cast" and node.input[0] in cast:
            node.input[0] = f"{node.input[0]}/passed"
    for name in sorted(cast):
        copied.graph.node.insert(0, onnx.helper.make_node("Identity", [name], [f"{name}/passed"]))
    return copied


def _cast_twice(model: ModelProto) -> set[str]:
    """Return the graph's inputs of which Casts are cast again."""
    casts = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Cast"}
    inputs = {value.name for value in model.graph.input}
    return {casts[name] for name in casts.values() if name in casts} & inputs


def _ends_idly(node: NodeProto) -> bool:
    return bool(node.op_type != "Loop" and node.input and not node.input[-1])


def _run_once(
    session: onnxruntime.InferenceSession,
    feed: Feed,
    types: dict[str, TypeProto],
    options: onnxruntime.RunOptions | None = None,
) -> list[Any]:
    names = [each.name for each in session.get_outputs()]
    known = {name: feed[name] for name in (each.name for each in session.get_inputs()) if name in feed}
    if all(_has_numpy_type(types[name]) for name in (*known, *names)):
        return list(session.run(names, known, options))
    inputs = {name: _ort_value(value, types[name]) for name, value in known.items()}
    found = session._sess.run_with_ort_values({name: each._ortvalue for name, each in inputs.items()}, names, options)
    return [_array(onnxruntime.OrtValue(value)) for value in found]


def _has_numpy_type(kind: TypeProto) -> bool:
    """Return whether values of this type pass onnxruntime's Python interface as they are."""
    if not kind.HasField("tensor_type"):
        return True
    return kind.tensor_type.elem_type in _NUMPY_TYPES


_NUMPY_TYPES = {onnx.TensorProto.STRING} | {
    onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name))
    for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool")
}


def _ort_value(value: Any, kind: TypeProto) -> onnxruntime.OrtValue:
    if not kind.HasField("tensor_type"):
        raise NoKernelError("onnxruntime's Python interface takes no sequences beside narrow types")
    elem_type = kind.tensor_type.elem_type
    if elem_type == onnx.TensorProto.STRING:
        raise NoKernelError("onnxruntime's Python interface takes no strings beside narrow types")
    if elem_type in _NUMPY_TYPES:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value))
    array = np.array(value, order="C")
    carrier = {1: np.uint8, 2: np.uint16}.get(array.dtype.itemsize)
    if carrier is None:
        raise NoKernelError(f"onnxruntime's Python interface takes no {array.dtype}")
    found = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(carrier), elem_type)
    found.held = array  # onnxruntime reads its memory, and does not hold it
    return found


def _array(value: onnxruntime.OrtValue) -> Any:
    if not value.is_tensor():
        raise NoKernelError("onnxruntime's Python interface returns no sequences beside narrow types")
    elem_type = value.element_type()
    if elem_type in _NUMPY_TYPES:
        return value.numpy()
    shape = tuple(value.shape())
    held = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if np.prod(shape) else b""
    tensor = onnx.TensorProto(data_type=elem_type, dims=shape, raw_data=held)
    return onnx.numpy_helper.to_array(tensor)


def reference(model: ModelProto, feeds: Sequence[Feed]) -> Outputs:
    """Run a model in onnx's reference evaluator, which is wrong in places, with operators of our own.

    Raises:
        RunError: it does not run.
    """
    from onnx.reference import ReferenceEvaluator

    from differential.exact import EVALUATED

    try:
        with np.errstate(all="ignore"):
            # The evaluator passes no attributes on to functions in subgraphs.
            inlined = onnx.inliner.inline_local_functions(_with_defaults(model)) if model.functions else model
            evaluator = ReferenceEvaluator(_without_nameless_outputs(inlined), new_ops=EVALUATED)
            return [[_with_strings(value) for value in evaluator.run(None, dict(feed))] for feed in feeds]
    except Exception as error:
        raise RunError(repr(error)) from error


def _with_strings(value: Any) -> Any:
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value


def _with_defaults(model: ModelProto) -> ModelProto:
    """Return the model with what calls leave out of a function's attributes: the inliner of onnx 1.23.2 loses that."""
    copied = ModelProto()
    copied.CopyFrom(model)
    defaults = {(one.domain, one.name): list(one.attribute_proto) for one in copied.functions}
    for node in messages(copied, NodeProto):
        given = {one.name for one in node.attribute}
        missing = [one for one in defaults.get((node.domain, node.op_type), ()) if one.name not in given]
        node.attribute.extend(missing)
    for function in copied.functions:
        function.attribute.extend(one.name for one in function.attribute_proto)
        del function.attribute_proto[:]
    return copied


def _without_nameless_outputs(model: ModelProto) -> ModelProto:
    """Return the model with a name for each output: the evaluator of onnx 1.23.2 takes those without for inputs."""
    if all(all(node.output) for node in messages(model, NodeProto)):
        return model
    copied = ModelProto()
    copied.CopyFrom(model)
    for number, node in enumerate(messages(copied, NodeProto)):
        node.output[:] = [name or f"nameless_{number}_{index}" for index, name in enumerate(node.output)]
    return copied
