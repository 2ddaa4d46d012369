"""Fit a model to a target: constants in supported element types, copies of shared ones, and required inputs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opshift.opsets.registry.facts import FLOATS, Facts, Tensor, tensor_of, type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY
from opshift.opsets.registry.value_ranges import SIGNIFICANT_BITS, of_type
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Legality
from opshift.passes.base.errors import printable
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import graphs, names_read
from opshift.passes.rewrite.fixed_shapes import shape_option, undeclared
from opshift.passes.rewrite.prepare import Prepared

Array = np.ndarray[Any, np.dtype[Any]]

_WRITTEN_TYPES = (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE)
"""The element types for constants of other types: the first that holds the elements is used."""


def misfits(model: onnx.ModelProto, legality: Legality) -> bool:
    """Return whether a target does not accept all constants and inputs of a model unchanged."""
    if legality.target is None:
        return False
    found = (*(_unread(graph, legality) for graph in graphs(model)), _shared(model, legality), _fed(model, legality))
    return any(True for one in found for _ in one)


def fit(model: onnx.ModelProto, legality: Legality) -> tuple[Refusal, ...]:
    """Rewrite the constants and inputs that a target does not accept, in place, and return refusals.

    A constant of another element type becomes a Cast of one that the target reads. An input that requires an unshared
    constant gets a copy. A model input that a node must not read directly gets an Identity.
    """
    refusals: list[Refusal] = []
    if not misfits(model, legality):
        return ()
    names = Names(model)
    model.ir_version = max(model.ir_version, 4)  # in older ir_versions, an initializer is an input with a default
    for graph in graphs(model):
        for tensor in [*_unread(graph, legality)]:
            converted = (
                None if _is_elsewhere(tensor) else _in_read_type(numpy_helper.to_array(tensor), tensor, legality)
            )
            if converted is None:
                refusals.append(_refusal(tensor, legality))
            else:
                _write(graph, tensor, names.new(f"{tensor.name}/{type_name(converted.data_type)}"), converted)
    _copy_shared(model, names, legality)
    _set_apart(model, names, legality)
    return tuple(refusals)


def interface_faults(model: onnx.ModelProto, legality: Legality) -> tuple[Refusal, ...]:
    """Return a refusal for each constant output, unused input, and input or output of unknown rank.

    Only a target that runs no such models refuses them.
    """
    if legality.target is None:
        return ()
    if legality.target.declared_shapes and (unranked := tuple(_unranked(model, legality.target.name))):
        return unranked
    outputs = () if legality.target.constant_outputs else _constant_outputs(model, legality.target.name)
    return (*outputs, *(() if legality.target.unused_inputs else _unused_inputs(model, legality.target.name)))


def lacks_shapes(model: onnx.ModelProto, legality: Legality) -> bool:
    """Return whether the target requires declared output shapes that the model lacks."""
    needed = legality.target is not None and legality.target.declared_shapes
    return needed and any(True for _ in undeclared(model.graph.output))


def _unranked(model: onnx.ModelProto, target: str) -> Iterator[Refusal]:
    reason = f"its rank is unknown, and {target} loads no models with such {{}}."
    for value in undeclared(model.graph.input):
        hint = f"Fix it with {shape_option(value.name, (1, 3, 640, 640))}."
        yield Refusal(Code.MISSING_FACT, f"input {printable(value.name)}", "", reason.format("inputs"), hint)
    for value in undeclared(model.graph.output):
        hint = "Declare its shape in the model, or fix the shapes of the inputs with --input-shape."
        yield Refusal(Code.MISSING_FACT, f"output {printable(value.name)}", "", reason.format("outputs"), hint)


def without_unread(prepared: Prepared, target: str) -> Prepared:
    """Return a model without its unused inputs, for a target that does not run models with such inputs."""
    unread = tuple(_unread_inputs(prepared.model))
    if not unread or len(unread) == len(prepared.model.graph.input):
        return prepared
    work = onnx.ModelProto()
    work.CopyFrom(prepared.model)
    kept = [value for value in work.graph.input if value.name not in unread]
    del work.graph.input[:]
    work.graph.input.extend(kept)
    named = ", ".join(map(printable, unread))
    note = f"No longer inputs, since no node reads them and {target} runs no models with such: {named}."
    return dataclasses.replace(prepared, model=work, notes=(*prepared.notes, note), dropped=unread)


def _unread_inputs(model: onnx.ModelProto) -> Iterator[str]:
    read = {value.name for value in model.graph.output}.union(*map(names_read, model.graph.node))
    read.update(tensor.name for tensor in model.graph.initializer)
    yield from (value.name for value in model.graph.input if value.name not in read)


def _unused_inputs(model: onnx.ModelProto, target: str) -> tuple[Refusal, ...]:
    reason = f"no node reads it, and {target} runs no models with such inputs."
    hint = "Remove it from the inputs of the model."
    return tuple(
        Refusal(Code.NO_LOWERING, f"input {printable(name)}", "", reason, hint) for name in _unread_inputs(model)
    )


def _constant_outputs(model: onnx.ModelProto, target: str) -> tuple[Refusal, ...]:
    constants = {"", *(tensor.name for tensor in model.graph.initializer)}
    for node in model.graph.node:
        if constants.issuperset(names_read(node)):
            constants.update(node.output)
    reason = f"it is constant, and {target} returns no constants."
    hint = "Remove it from the outputs of the model."
    return tuple(
        Refusal(Code.NO_LOWERING, f"output {printable(value.name)}", "", reason, hint)
        for value in model.graph.output
        if value.name in constants
    )


# --- element types ----------------------------------------------------------------------------------------------------


def _unread(graph: onnx.GraphProto | onnx.FunctionProto, legality: Legality) -> Iterator[TensorProto]:
    """Yield the constants of a graph whose element types the target does not read, by name."""
    if legality.target is None or not legality.target.constant_dtypes or isinstance(graph, onnx.FunctionProto):
        return
    allowed = legality.target.constant_dtypes
    inputs = {value.name for value in graph.input}
    yield from (one for one in graph.initializer if one.data_type not in allowed and one.name not in inputs)
    for node in graph.node:
        if node.op_type == CONSTANT and not default_domain(node.domain):
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.t.data_type not in allowed:
                    tensor = TensorProto()
                    tensor.CopyFrom(attribute.t)
                    tensor.name = node.output[0]
                    yield tensor


def _is_elsewhere(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def _in_read_type(array: Array, tensor: TensorProto, legality: Legality) -> TensorProto | None:
    """Return a constant in another element type that holds its elements, and from which the target can cast."""
    assert legality.target is not None
    schema = schema_at("", CAST, legality.opset)
    if array.dtype.kind not in "biuf" or schema is None:
        return None
    for other in _WRITTEN_TYPES:
        if other not in legality.target.constant_dtypes:
            continue
        if not _holds(array, other):
            continue
        written = array.astype(helper.tensor_dtype_to_np_dtype(other))
        facts = Facts(other, tuple(tensor.dims), Tensor(written))
        node = Node("", CAST, schema.since_version, {"to": tensor.data_type}, (facts,), (True,))
        if legality.why_not(node) is None:
            return tensor_of(written, other, "")
    return None


def _holds(array: Array, dtype: int) -> bool:
    """Return whether an element type holds all elements of an array."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            back = array.astype(helper.tensor_dtype_to_np_dtype(dtype)).astype(array.dtype)
        return dtype in FLOATS and np.array_equal(back, array, equal_nan=True)
    if dtype in FLOATS:
        bound = 2 ** SIGNIFICANT_BITS[dtype]
        low, high = -bound, bound
    else:
        low, high = of_type(dtype).low, of_type(dtype).high
    return not array.size or (low <= int(array.min()) and int(array.max()) <= high)


def _write(graph: onnx.GraphProto | onnx.FunctionProto, old: TensorProto, name: str, converted: TensorProto) -> None:
    """Replace a constant by a renamed one and a Cast that outputs the original name."""
    assert isinstance(graph, onnx.GraphProto)
    converted.name = name
    cast = helper.make_node(CAST, [name], [old.name], name=old.name, to=old.data_type)
    nodes = [node for node in graph.node if old.name not in node.output]
    drop_named(graph.initializer, (old.name,))
    graph.initializer.append(converted)
    replace_nodes(graph, (cast, *nodes))


def _refusal(tensor: TensorProto, legality: Legality) -> Refusal:
    assert legality.target is not None
    dtype, target = type_name(tensor.data_type), legality.target.name
    reason = f"{target} reads no constants of {dtype}, and none of its other types holds the elements."
    hint = "Store them in another element type."
    if _is_elsewhere(tensor):
        reason = f"{target} reads no constants of {dtype}, and the elements are in another file."
        hint = "Store them in the model."
    return Refusal(Code.TYPE, f"constant {printable(tensor.name)}", "", reason, hint)


# --- constants and inputs of one consumer -----------------------------------------------------------------------------


def _shared(model: onnx.ModelProto, legality: Legality) -> Iterator[tuple[onnx.NodeProto, int]]:
    """Yield the inputs that require an unshared constant but read a shared one."""
    constants = {tensor.name for tensor in model.graph.initializer}
    readers: Counter[str] | None = None
    for node, place in _named_inputs(model, legality, lambda limit: limit.own_constants):
        name = node.input[place]
        readers = readers or Counter(name for graph in graphs(model) for node in graph.node for name in node.input)
        if name in constants and readers[name] > 1:
            readers[name] -= 1
            yield node, place


def _fed(model: onnx.ModelProto, legality: Legality) -> Iterator[tuple[onnx.NodeProto, int]]:
    """Yield the inputs that read the only model input, although they must not if it has no other consumer."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in constants]
    if len(inputs) != 1:
        return
    for node, place in _named_inputs(model, legality, lambda limit: limit.not_fed):
        if node.input[place] == inputs[0]:
            if sum(name == inputs[0] for graph in graphs(model) for one in graph.node for name in one.input) == 1:
                yield node, place
            return


def _named_inputs(
    model: onnx.ModelProto, legality: Legality, names: Callable[[Limit], Collection[str]]
) -> Iterator[tuple[onnx.NodeProto, int]]:
    """Yield the inputs of main-graph nodes that the target's limits name."""
    limits = () if legality.target is None else legality.target.limits
    found = [(limit.operator, names(limit)) for limit in limits if names(limit) and limit.holds(legality.opset)]
    for node in model.graph.node if found else ():
        named = {name for operator, named in found if operator == node.op_type for name in named}
        schema = schema_at("", node.op_type, legality.opset) if named and not default_domain(node.domain) else None
        for place, name in enumerate(node.input if schema else ()):
            parameter = schema.input(place) if schema else None
            if name and parameter is not None and parameter.name in named:
                yield node, place


def _copy_shared(model: onnx.ModelProto, names: Names, legality: Legality) -> None:
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node, place in [*_shared(model, legality)]:
        copy = onnx.TensorProto()
        copy.CopyFrom(tensors[node.input[place]])
        copy.name = names.new(f"{copy.name}/copy")
        node.input[place] = copy.name
        model.graph.initializer.append(copy)


def _set_apart(model: onnx.ModelProto, names: Names, legality: Legality) -> None:
    for node, place in [*_fed(model, legality)]:
        name = names.new(f"{node.input[place]}/{IDENTITY}")
        same = helper.make_node(IDENTITY, [node.input[place]], [name], name=name)
        node.input[place] = name
        replace_nodes(model.graph, (same, *model.graph.node))
