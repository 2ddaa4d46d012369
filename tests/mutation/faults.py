"""Faults that a converter may make: each changes one thing of a model."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from differential.embed import messages
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    defs,
    helper,
    numpy_helper,
)

from mutation.neighbours import FLAGS, neighbours, words

Rng = np.random.Generator
Edit = Callable[[ModelProto], None]


@dataclass(frozen=True)
class Fault:
    """A change of one thing.

    Attributes:
        kind: the class of faults that it belongs to.
        operator: that of the node, or of the node that reads the constant.
        what: the change, for people.
        edit: makes it, in a copy of the model.
    """

    kind: str
    operator: str
    what: str
    edit: Edit

    def applied(self, model: ModelProto) -> ModelProto:
        """Return the mutant."""
        mutant = copy.deepcopy(model)
        self.edit(mutant)
        return mutant


Holder = GraphProto | FunctionProto


def holders(model: ModelProto) -> list[Holder]:
    """Return everything that holds nodes, in an order that a copy of the model has too."""
    inside = (each for one in model.functions for each in (one, *messages(one, GraphProto)))
    return [*messages(model.graph, GraphProto), *inside]


def faults(model: ModelProto, rng: Rng) -> list[Fault]:
    """Return the faults that a model may have, some values of which are drawn."""
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)
    types = value_types(model)
    found: list[Fault] = []
    readers = _readers(model)
    for at, holder in enumerate(holders(model)):
        for place, node in enumerate(holder.node):
            if node.domain not in ("", "ai.onnx") or node.op_type == "Constant":
                continue
            found += (
                Fault(kind, node.op_type, what, _on_node(at, place, change))
                for kind, what, change in _of_node(node, opset, types, rng)
            )
            found += _inserted(at, place, node, opset, types, rng)
    for number, tensor in enumerate(messages(model, TensorProto)):
        if tensor.data_location != TensorProto.EXTERNAL:
            reader = readers.get(_constant_name(model, tensor), "Constant")
            found += (
                Fault("constant", reader, what, _on_tensor(number, array)) for what, array in _of_tensor(tensor, rng)
            )
    return found


def value_types(model: ModelProto) -> dict[str, int]:
    """Return the element types of values of the main graph, as far as onnx infers them."""
    with contextlib.suppress(Exception):  # what is declared remains
        model = onnx.shape_inference.infer_shapes(model)
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    found = {value.name: value.type.tensor_type.elem_type for value in values if value.type.HasField("tensor_type")}
    return found | {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def _readers(model: ModelProto) -> dict[str, str]:
    return {name: node.op_type for node in messages(model, NodeProto) for name in node.input}


def _constant_name(model: ModelProto, tensor: TensorProto) -> str:
    if tensor.name:
        return str(tensor.name)
    for node in messages(model, NodeProto):
        if any(one.HasField("t") and one.t is tensor for one in node.attribute):
            return str(node.output[0])
    return ""


def _on_node(at: int, place: int, change: Callable[[NodeProto], None]) -> Edit:
    return lambda mutant: change(holders(mutant)[at].node[place])


def _on_tensor(number: int, array: Any) -> Edit:
    def edit(mutant: ModelProto) -> None:
        tensor = messages(mutant, TensorProto)[number]
        if array.dtype == np.object_:
            strings: Any = [str(one).encode() for one in array.flat]
            tensor.CopyFrom(helper.make_tensor(tensor.name, TensorProto.STRING, array.shape, strings))
        else:
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    return edit


# --- nodes ----------------------------------------------------------------------------------------------------------

_Change = tuple[str, str, Callable[[NodeProto], None]]


def _of_node(node: NodeProto, opset: int, types: Mapping[str, int], rng: Rng) -> Iterator[_Change]:
    """Yield faults of a node itself: its class, the change in words, and what makes it."""
    schema = _schema(node.op_type, opset)
    for number, one in enumerate(node.attribute):
        if one.ref_attr_name or one.type in (AttributeProto.GRAPH, AttributeProto.TENSOR):
            continue
        held = helper.get_attribute_value(one)
        for value in _values(one.name, held, rng):
            yield "attribute", f"{one.name} = {value!r} instead of {held!r}", _set(number, one.name, value)
        if schema is not None and one.name in schema.attributes and not schema.attributes[one.name].required:
            yield "attribute lost", f"{one.name} is lost", _lose(number)
    for name, attribute in schema.attributes.items() if schema is not None else ():
        if any(one.name == name for one in node.attribute) or not attribute.default_value.type:
            continue
        for value in _values(name, helper.get_attribute_value(attribute.default_value), rng):
            yield "default", f"{name} = {value!r} instead of its default", _set(None, name, value)
    for other in neighbours(node.op_type):
        replacement = _schema(other, opset)
        if replacement is not None and replacement.min_input <= len(node.input) <= replacement.max_input:
            yield "operator", f"{other} instead of {node.op_type}", _replace(other, replacement)
    yield from _of_inputs(node, schema, rng)
    if len(node.output) > 1 and all(node.output[:2]):
        yield "outputs", "the first two outputs change places", _swap_outputs
    read, made = (types.get(names[0]) if names else None for names in (node.input, node.output))
    if read is not None and read == made and node.op_type not in ("Identity", "Dropout"):
        yield "removed", f"{node.op_type} is left out", _bypass


def _of_inputs(node: NodeProto, schema: defs.OpSchema | None, rng: Rng) -> Iterator[_Change]:
    names = list(node.input)
    for one in range(len(names)):
        for other in range(one + 1, min(len(names), one + 3)):
            if names[one] != names[other] and names[one] and names[other]:
                yield "inputs", f"inputs {one} and {other} change places", _swap(one, other)
    if schema is None:
        return
    for at, name in enumerate(names):
        formal = schema.inputs[min(at, len(schema.inputs) - 1)] if schema.inputs else None
        if name and formal is not None and formal.option == defs.OpSchema.FormalParameterOption.Optional:
            yield "input lost", f"input {at} ({formal.name}) is lost", _drop(at)
    if len(names) > 2 and names[-1] and schema.inputs and len(schema.inputs) < len(names) + 1:
        formal = schema.inputs[-1]
        if formal.option == defs.OpSchema.FormalParameterOption.Variadic:
            yield "input lost", "the last input is lost", _cut


def _schema(operator: str, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        return None


def _set(number: int | None, name: str, value: Any) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        made = helper.make_attribute(name, value)
        if number is None:
            node.attribute.append(made)
        else:
            node.attribute[number].CopyFrom(made)

    return change


def _lose(number: int) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        del node.attribute[number]

    return change


def _replace(operator: str, schema: defs.OpSchema) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        node.op_type = operator
        kept = [one for one in node.attribute if one.name in schema.attributes]
        del node.attribute[:]
        node.attribute.extend(kept)

    return change


def _swap_outputs(node: NodeProto) -> None:
    node.output[0], node.output[1] = node.output[1], node.output[0]


def _swap(one: int, other: int) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        node.input[one], node.input[other] = node.input[other], node.input[one]

    return change


def _drop(at: int) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        node.input[at] = ""
        while node.input and not node.input[-1]:
            del node.input[-1]

    return change


def _cut(node: NodeProto) -> None:
    del node.input[-1]


def _bypass(node: NodeProto) -> None:
    node.op_type = "Identity"
    del node.attribute[:]
    del node.input[1:]
    del node.output[1:]


# --- nodes that are put in ------------------------------------------------------------------------------------------

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def _inserted(at: int, place: int, node: NodeProto, opset: int, types: Mapping[str, int], rng: Rng) -> Iterator[Fault]:
    """Yield faults that put nodes on an edge: what is rounded, bounded or made positive in between."""
    for index, name in enumerate(node.input):
        kind = types.get(name)
        if not name or kind not in _FLOATS or (index and rng.random() < 0.5):
            continue
        through = TensorProto.FLOAT16 if kind != TensorProto.FLOAT16 else TensorProto.INT32
        yield Fault(
            "narrower type",
            node.op_type,
            f"input {index} goes through {TensorProto.DataType.Name(through).lower()}",
            _put(at, place, index, [("Cast", {"to": through}), ("Cast", {"to": kind})]),
        )
        if kind == TensorProto.FLOAT:
            single = str(rng.choice(["Abs", "Relu", "Neg", "Floor"]))
            what = f"{single} before input {index}"
            yield Fault("inserted", node.op_type, what, _put(at, place, index, [(single, {})]))
            if opset < 11:
                bounds = {"min": -4.0, "max": float(rng.choice([1.0, 6.0, 100.0]))}
                what = f"Clip to {bounds} before input {index}"
                yield Fault("inserted", node.op_type, what, _put(at, place, index, [("Clip", bounds)]))


def _put(at: int, place: int, index: int, steps: list[tuple[str, dict[str, Any]]]) -> Edit:
    def edit(mutant: ModelProto) -> None:
        holder = holders(mutant)[at]
        name = holder.node[place].input[index]
        made = []
        for number, (operator, attributes) in enumerate(steps):
            new = f"put_{at}_{place}_{index}_{number}"
            made.append(helper.make_node(operator, [name], [new], **attributes))
            name = new
        holder.node[place].input[index] = name
        nodes = [*holder.node[:place], *made, *holder.node[place:]]
        kept = [copy.deepcopy(one) for one in nodes]
        del holder.node[:]
        holder.node.extend(kept)

    return edit


# --- values ---------------------------------------------------------------------------------------------------------


def _values(name: str, held: Any, rng: Rng) -> list[Any]:
    """Return other values of an attribute."""
    if isinstance(held, bytes):
        return list(words(name, held.decode()))
    if isinstance(held, int):
        return _integers(name, held)
    if isinstance(held, float):
        return _floats(held)
    if not isinstance(held, list) or not held:
        return []
    place = int(rng.integers(0, len(held)))

    def with_one(value: Any) -> list[Any]:
        return [*held[:place], value, *held[place + 1 :]]

    if isinstance(held[0], bytes):
        decoded = [one.decode() for one in held]
        return [[*decoded[:place], word, *decoded[place + 1 :]] for word in words(name, decoded[place])]
    others: list[Any] = _integers(name, held[place]) if isinstance(held[0], int) else _floats(held[place])
    found = [with_one(value) for value in others]
    if held[::-1] != held:
        found.append(held[::-1])
    if len(held) > 1 and name in ("pads", "axes", "perm", "split"):
        found.append([*held[1:], held[0]])
    return [one for one in found if one != held]


def _integers(name: str, held: int) -> list[int]:
    if name in ("to", "dtype", "output_dtype", "output_datatype", "stash_type", "seed", "sequence_length", "precision"):
        return []
    if name in FLAGS:
        return [1 - held] if held in (0, 1) else [0]
    if name in ("axis", "batch_axis", "time_axis", "batch_dims"):
        return [held + 1, held - 1]
    return [held + 1, held - 1]


def _floats(held: float) -> list[float]:
    return [*({held * 1.001, held * 0.5, held * 10, -held, held + 1, 0.0} - {held})] if held else [1.0, 0.01]


def _of_tensor(tensor: TensorProto, rng: Rng) -> Iterator[tuple[str, Any]]:
    """Yield arrays that differ from a constant a little."""
    array = numpy_helper.to_array(tensor)
    if not array.size:
        return
    places = dict.fromkeys((array.size - 1, int(rng.integers(0, array.size))))
    for place in places:
        for what, value in _elements(array.reshape(-1)[place], array.dtype, rng):
            made = array.copy().reshape(-1)
            made[place] = value
            yield f"element {place} of {tensor.name or 'a constant'} {what}", made.reshape(array.shape)
    if array.size > 1 and array.dtype.kind in "fiu":
        yield f"{tensor.name or 'a constant'} is shifted by one", np.roll(array.reshape(-1), 1).reshape(array.shape)
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                scaled = (array * array.dtype.type(1.001)).astype(array.dtype)
            yield f"{tensor.name or 'a constant'} times 1.001", scaled


def _elements(value: Any, dtype: np.dtype[Any], rng: Rng) -> list[tuple[str, Any]]:
    if dtype == np.bool_:
        return [("is flipped", not value)]
    if dtype == np.object_:
        return [("has another letter", f"{value}x")]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = [("is one more", int(value) + 1), ("is one less", int(value) - 1)]
        return [(what, one) for what, one in found if info.min <= one <= info.max]
    if dtype.kind != "f" or not np.isfinite(value):
        return []
    part = float(rng.choice([1e-3, 1e-2, 0.3]))
    with np.errstate(over="ignore"):
        changed = [("has another sign", -value), (f"is {part} larger", value * (1 + part)), ("is 0", 0)]
    return [(what, dtype.type(one)) for what, one in changed if one != value] or [("is 0.001", dtype.type(1e-3))]
