"""Put drawn nodes into a model: in the main graph, in subgraphs, in functions; constants in every form."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from differential import values
from differential.chains import consume, produce
from differential.draw import Argument, Drawn
from differential.functions import in_function
from differential.schemas import carries
from differential.subgraphs import in_if, in_loop, in_scan
from differential.values import BOOL, FEEDS, INT64

PLACES = ("graph", "if", "loop", "scan", "function", "function in if")
_PRODUCED, _CONSUMED = 0.12, 0.15
"""How often an input is computed of other values, and an output is an input of another node."""

_RESHAPED = {values.FLOAT, values.DOUBLE, INT64, values.INT32, BOOL, values.FLOAT16, values.UINT8}


@dataclass
class Embedded:
    """A model, its external files, and the inputs of each feed."""

    model: ModelProto
    feeds: list[dict[str, Any]]
    place: str
    files: dict[str, bytes] = field(default_factory=dict)
    input_types: dict[str, TypeProto] = field(default_factory=dict)

    def inline(self) -> ModelProto:
        """Return the model with its external data inside."""
        if not self.files:
            return self.model
        model = ModelProto()
        model.CopyFrom(self.model)
        for tensor in tensors(model):
            if tensor.data_location == TensorProto.EXTERNAL:
                load_tensor(tensor, self.files)
        return model


def load_tensor(tensor: TensorProto, files: dict[str, bytes]) -> None:
    """Replace a reference to a file by the file's bytes."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    start = int(entries.get("offset", 0))
    data = files[entries["location"]]
    tensor.raw_data = data[start : start + int(entries.get("length", len(data) - start))]
    del tensor.external_data[:]
    tensor.ClearField("data_location")


Message = TypeVar("Message")


def messages(message: Any, kind: type[Message]) -> list[Message]:
    """Return all messages of a type in a message, wherever they are."""
    if isinstance(message, kind):
        found = [message]
        if kind is TensorProto:
            return found
    else:
        found = []
    for _, value in message.ListFields():
        for each in value if hasattr(value, "add") or isinstance(value, Sequence) else [value]:
            if hasattr(each, "ListFields"):
                found.extend(messages(each, kind))
    return found


def tensors(message: Any) -> list[TensorProto]:
    """Return all tensors in a message, wherever they are."""
    return messages(message, TensorProto)


class Embedder:
    """The state of building one model."""

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        """Begin with an empty graph."""
        self.rng = rng
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.functions: list[FunctionProto] = []
        self.values: dict[str, list[Any]] = {}
        self.defaulted: list[ValueInfoProto] = []
        self.files: dict[str, bytes] = {}
        self.ir_version = 0
        self._count = 0

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def name(self, stem: str) -> str:
        """Return a fresh name."""
        self._count += 1
        return f"{stem}_{self._count}"

    # Values of the outer graph

    def outer(self, argument: Argument, stacked: bool = False, name: str = "") -> str:
        """Put an argument into the main graph as an input, a constant or a computed value; return its name."""
        if not stacked and not name and argument.constant is None and self.chance(_PRODUCED):
            made = produce(self, argument)
            if made is not None:
                return made
        if not stacked and argument.is_tensor and argument.constant is not False:
            likely = 0.7 if argument.fixed else 0.12
            narrow = argument.elem_type in values.NARROW_INTEGERS  # onnxruntime's Python interface takes none
            if argument.constant or narrow or self.chance(likely):
                return self._constant(argument, name)
        return self._input(argument, stacked, name)

    def _input(self, argument: Argument, stacked: bool, name: str) -> str:
        name = name or self.name("x")
        kept = argument.values
        if stacked:
            kept = [np.stack([kept[feed], kept[(feed + 1) % FEEDS]]) for feed in range(FEEDS)]
        self.values[name] = kept
        shape = None if not argument.is_tensor else kept[0].shape
        kind = argument.elem_type
        if (
            argument.is_tensor
            and not stacked
            and argument.fixed
            and kind == INT64
            and len(shape or ()) == 1
            and self.chance(0.3)
        ):
            return self._computed(name, kept)
        declared = None if shape is None else self._declared(shape, argument.fixed)
        made = argument.type if not argument.is_tensor else helper.make_tensor_type_proto(kind, declared)
        self.inputs.append(helper.make_value_info(name, made))
        if argument.is_tensor and not argument.fixed and kind in _RESHAPED and self.chance(0.1):
            return self._without_rank(name, kept)
        if argument.is_tensor and self.chance(0.04) and carries("Identity", self.opset, [argument.type]):
            alias = self.name("same")
            self.nodes.append(helper.make_node("Identity", [name], [alias], name=self.name("node")))
            return alias
        return name

    def _without_rank(self, name: str, kept: list[Any]) -> str:
        """Return the same value with a rank that only the run knows: the checker requires ranks of graph inputs."""
        dims, reshaped = self.name("dims"), self.name("reshaped")
        self.values[dims] = [np.array(value.shape, np.int64) for value in kept]
        self.inputs.append(helper.make_tensor_value_info(dims, INT64, [None]))
        self.nodes.append(helper.make_node("Reshape", [name, dims], [reshaped], name=self.name("node")))
        return reshaped

    def _computed(self, name: str, kept: list[Any]) -> str:
        """Return a value that Shape computes of an input of that shape; for values that may be dims."""
        if not all((value >= 0).all() and value.size and np.prod(value) <= values.MOST_SHAPED for value in kept):
            declared = self._declared(kept[0].shape, True)
            self.inputs.append(helper.make_tensor_value_info(name, INT64, declared))
            return name
        source = self.name("shaped")
        self.values[source] = [np.zeros(tuple(int(dim) for dim in value), np.float32) for value in kept]
        del self.values[name]
        self.inputs.append(helper.make_tensor_value_info(source, TensorProto.FLOAT, [None] * len(kept[0])))
        self.nodes.append(helper.make_node("Shape", [source], [name], name=self.name("node")))
        return name

    def _declared(self, shape: Any, fixed: bool) -> Any:
        form = self.rng.random()
        if form < 0.5 or (fixed and form < 0.8):
            return shape
        if form < 0.7:
            return [self.name("dim") if self.chance(0.6) else dim for dim in shape]
        return [None for _ in shape]

    def _constant(self, argument: Argument, name: str) -> str:
        tensor = values.tensor(argument.values[0], argument.elem_type, name or self.name("c"))
        name = tensor.name
        if self.chance(0.25) and carries("Constant", self.opset, [argument.type]):
            self.nodes.append(self.constant_node(tensor, name))
        else:
            self.initializers.append(self.external(tensor))
            if self.chance(0.08):
                self.defaulted.append(helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
        if self.chance(0.08) and carries("Identity", self.opset, [argument.type]):
            alias = self.name("same")
            self.nodes.append(helper.make_node("Identity", [name], [alias], name=self.name("node")))
            return alias
        return name

    def constant_node(self, tensor: TensorProto, output: str) -> NodeProto:
        """Return a Constant node, in one of the forms that the opset has."""
        if self.opset >= 12 and len(tensor.dims) < 2 and 0 not in tensor.dims and self.chance(0.3):
            forms: dict[int, str] = {TensorProto.FLOAT: "value_float", TensorProto.INT64: "value_int"}
            form = forms.get(tensor.data_type)
            if form:
                inside = copy.deepcopy(tensor)
                if inside.data_location == TensorProto.EXTERNAL:
                    load_tensor(inside, self.files)
                array = onnx.numpy_helper.to_array(inside)
                many = "s" if len(tensor.dims) else ""
                return helper.make_node(
                    "Constant", [], [output], name=self.name("node"), **{form + many: array.tolist()}
                )
        return helper.make_node("Constant", [], [output], name=self.name("node"), value=self.external(tensor, 0.1))

    def external(self, tensor: TensorProto, probability: float = 0.12) -> TensorProto:
        """Move a tensor's bytes into a file, sometimes."""
        if tensor.data_type == TensorProto.STRING or not self.chance(probability) or not tensor.raw_data:
            return tensor
        location = "weights.bin" if self.chance(0.5) else f"{self.name('weights')}.bin"
        file = self.files.get(location, b"")
        tensor = copy.deepcopy(tensor)
        onnx.external_data_helper.set_external_data(tensor, location, offset=len(file), length=len(tensor.raw_data))
        self.files[location] = file + tensor.raw_data
        tensor.ClearField("raw_data")
        return tensor

    # Nodes

    def place(self, drawn: Drawn, where: str) -> None:
        """Add a drawn node to the model at this place."""
        stacked = None
        control = {"if": "If", "loop": "Loop", "scan": "Scan", "function in if": "If"}.get(where)
        if control == "Scan" and self.opset < 9:  # Scan-8 has an axis for the batch; its own recipe draws it
            control = where = "graph"
        elif control and not carries(control, self.opset, drawn.output_types):
            where = "function" if where == "function in if" else "graph"
        if where == "scan":
            stacked = next((i for i, each in enumerate(drawn.inputs) if _can_stack(each)), None)
            if stacked is None or self.opset < 9:
                where = "graph"
        for name, argument in drawn.captured.items():
            if where.startswith("function"):
                where = "graph"
            self._input(argument, False, name)
        names = [
            "" if argument is None else self.outer(argument, where == "scan" and index == stacked)
            for index, argument in enumerate(drawn.inputs)
        ]
        # An output that is not optional has a name even if nothing uses it.
        outputs = [
            self.name("y") if used or not drawn.optional_output(index) else ""
            for index, used in enumerate(drawn.outputs)
        ]
        node = helper.make_node(drawn.operator, names, outputs, name=self.name("node"))
        node.attribute.extend(_attributes(drawn))
        types = [each for each, name in zip(drawn.output_types, outputs, strict=False) if name]
        if where == "function" or where == "function in if":
            node = in_function(self, drawn, node)
        if where == "graph" or where == "function":
            self.nodes.append(node)
        elif where == "if" or where == "function in if":
            in_if(self, node, types)
        elif where == "loop":
            in_loop(self, node, types)
        else:
            in_scan(self, node, types, names[stacked or 0], drawn.inputs[stacked or 0])
        for name, kind, used in zip(outputs, drawn.output_types, drawn.outputs, strict=False):
            if used:
                self._output(name, kind)

    def _output(self, name: str, kind: TypeProto) -> None:
        if self.chance(_CONSUMED) and (more := consume(self, name, kind)):
            if self.chance(0.4):
                self._output(*more)
                return
            self.outputs.append(helper.make_value_info(*more))
        if self.chance(0.15) and carries("Identity", self.opset, [kind]):
            alias = self.name("out")
            self.nodes.append(helper.make_node("Identity", [name], [alias], name=self.name("node")))
            name = alias
        self.outputs.append(helper.make_value_info(name, kind))

    # The model

    def finish(self, place: str) -> Embedded:
        """Return the model with all that was placed."""
        natural = helper.find_min_ir_version_for([helper.make_opsetid("", self.opset)], ignore_unknown=True)
        choices = [natural, natural, natural, 3, 4, 7, 8, 10, 11]
        ir_version = max(int(self.rng.choice(choices)), self.ir_version)
        inputs = [*self.inputs, *self.defaulted]
        if ir_version < 4:
            listed = {value.name for value in inputs}
            inputs += [
                helper.make_tensor_value_info(each.name, each.data_type, list(each.dims))
                for each in self.initializers
                if each.name not in listed
            ]
        if self.chance(0.02):
            for node in self.nodes:
                node.name = "node" if self.chance(0.7) else ""
        graph = GraphProto(name="g")
        graph.node.extend(self.nodes)
        graph.input.extend(inputs)
        graph.output.extend(self.outputs)
        graph.initializer.extend(self.initializers)
        imports = [helper.make_opsetid("", self.opset)]
        if self.functions:
            imports.append(helper.make_opsetid("local", 1))
        model = helper.make_model_gen_version(
            graph, opset_imports=imports, functions=self.functions, ir_version=ir_version
        )
        model.ir_version = ir_version
        feeds = [{name: kept[feed] for name, kept in self.values.items()} for feed in range(FEEDS)]
        return Embedded(model, feeds, place, self.files, {each.name: each.type for each in inputs})


def _attributes(drawn: Drawn) -> list[AttributeProto]:
    made = []
    for name, value in drawn.attributes.items():
        if isinstance(value, AttributeProto):
            made.append(value)
        elif isinstance(value, list) and not value:
            made.append(AttributeProto(name=name, type=AttributeProto.INTS))
        else:
            made.append(helper.make_attribute(name, value))
    return made


def _can_stack(argument: Argument | None) -> bool:
    if argument is None or not argument.is_tensor or argument.fixed or argument.constant:
        return False
    return all(value.shape == argument.values[0].shape for value in argument.values)
