"""Widen constants whose element type the opset does not have: int4 to int8, float8 to float.

The wider type holds every number of the narrow one, so nodes that dequantize, cast or move the numbers return the same
results. A constant that another node reads keeps its type. DequantizeLinear accepts no float: if all its inputs are
constant, its output becomes the constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, array_of, freeze, tensor_of, type_name
from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.opsets.registry.operator import Lifted, Node, lift, operator_for
from opshift.opsets.registry.schema import NEWEST, Parameter, Schema, default_domain, schema_at, schema_read_at
from opshift.opsets.registry.structural import CAST, CONSTANT
from opshift.opsets.registry.traits import Trait
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.traversal import graphs, named_subgraphs, node_name

WIDER: Mapping[int, int] = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.INT2), TensorProto.INT8),
    **dict.fromkeys((TensorProto.UINT4, TensorProto.UINT2), TensorProto.UINT8),
    **dict.fromkeys(
        (
            TensorProto.FLOAT4E2M1,
            TensorProto.FLOAT8E4M3FN,
            TensorProto.FLOAT8E4M3FNUZ,
            TensorProto.FLOAT8E5M2,
            TensorProto.FLOAT8E5M2FNUZ,
            TensorProto.FLOAT8E8M0,
            TensorProto.BFLOAT16,
        ),
        TensorProto.FLOAT,
    ),
}
"""The wider type for each narrow one: every opset has it, and it holds all numbers of the narrow one."""

Whole = Callable[[TensorProto], TensorProto]
"""Returns a tensor with its elements loaded, also from an external file."""


@dataclass(frozen=True)
class Widened:
    """The steps of nodes that read widened constants, and notes on these constants."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


def missing_types(model: onnx.ModelProto, opset: int) -> frozenset[int]:
    """Return the narrow element types of a model's constants that an opset does not have."""
    held = {tensor.data_type for tensor in _tensors(model)} & WIDER.keys()
    schema = schema_at("", CAST, opset) if held else None
    if schema is None:
        return frozenset()
    return frozenset(dtype for dtype in held if f"tensor({type_name(dtype)})" not in schema.inputs[0].types)


def widen(model: onnx.ModelProto, narrow: Collection[int], opset: int, whole: Whole) -> Widened:
    """Widen the constants of these types in place, if all their consumers permit it."""
    values = _Values.of(model, narrow)
    wide = values.widened()
    if not wide:
        return Widened()
    steps = tuple(values.steps(wide))
    values.fold(wide, whole)
    changed: Counter[int] = Counter()
    before = after = 0
    for tensor in (values.tensors[name] for name in sorted(wide & values.tensors.keys())):
        dtype, held = tensor.data_type, array_of(whole(tensor))
        found = tensor_of(held.astype(onnx.helper.tensor_dtype_to_np_dtype(WIDER[dtype])), WIDER[dtype], tensor.name)
        found.doc_string = tensor.doc_string
        found.metadata_props.extend(tensor.metadata_props)
        changed[dtype] += 1
        before, after = before + len(tensor_of(held, dtype, "").raw_data), after + len(found.raw_data)
        tensor.CopyFrom(found)
    for graph in _graphs(model):
        for value in (one for one in graph.value_info if one.name in wide):
            value.type.tensor_type.elem_type = WIDER[values.dtypes[value.name]]
    names = ", ".join(f"{type_name(one)} became {type_name(WIDER[one])}" for one in sorted(changed))
    note = f"Constants of {names}, since opset {opset} has no such type: {before:,} bytes became {after:,}."
    return Widened(steps, (note,) if changed else ())


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the main graph and all subgraphs of a model."""
    return (one for one in graphs(model) if isinstance(one, onnx.GraphProto))


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    for owner in graphs(model):
        yield from owner.initializer if isinstance(owner, onnx.GraphProto) else ()
        yield from (
            one.t for node in owner.node if node.op_type == CONSTANT for one in node.attribute if one.name == "value"
        )


@dataclass
class _Values:
    """The values that may get a wider type: constants, and values with only their elements."""

    model: onnx.ModelProto
    tensors: dict[str, TensorProto] = field(default_factory=dict)
    """The constants of narrow types, by value name."""
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = field(default_factory=dict)
    """The consumers of each value: the node and its input index."""
    owners: dict[int, tuple[str, onnx.GraphProto]] = field(default_factory=dict)
    """The paths and the graphs of nodes, by node id."""
    constants: dict[str, TensorProto] = field(default_factory=dict)
    """All constants of any type: initializers and Constant nodes."""
    dtypes: dict[str, int] = field(default_factory=dict)
    """The narrow types of values that may become wider."""
    fixed: set[str] = field(default_factory=set)
    """The values that stay: inputs and outputs, whose types are public, and names that several graphs define."""

    @classmethod
    def of(cls, model: onnx.ModelProto, narrow: Collection[int]) -> _Values:
        """Collect the values; a name that several graphs define is skipped."""
        found = cls(model)
        found._add(model.graph, "main", narrow)
        every = list(_graphs(model))
        defined = Counter(name for graph in every for name in _definitions(graph))
        found.fixed |= {name for name, count in defined.items() if count > 1}
        found.fixed |= {value.name for graph in every for value in (*graph.input, *graph.output)}
        return found

    def _add(self, graph: onnx.GraphProto, path: str, narrow: Collection[int]) -> None:
        self.constants.update({tensor.name: tensor for tensor in graph.initializer})
        self.tensors.update({tensor.name: tensor for tensor in graph.initializer if tensor.data_type in narrow})
        for index, node in enumerate(graph.node):
            where = f"{path}/{node_name(node, index)}"
            self.owners[id(node)] = where, graph
            for place, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((node, place))
            if node.op_type == CONSTANT and not default_domain(node.domain):
                for tensor in (one.t for one in node.attribute if one.name == "value"):
                    self.constants[node.output[0]] = tensor
                    if tensor.data_type in narrow:
                        self.tensors[node.output[0]] = tensor
            for name, inner in named_subgraphs(node):
                self._add(inner, f"{where}.{name}", narrow)

    def widened(self) -> frozenset[str]:
        """Return the values that become wider: the largest set in which all values of a node agree."""
        found: set[str] = set()
        self.dtypes.update({name: tensor.data_type for name, tensor in self.tensors.items()})
        made: dict[str, onnx.NodeProto] = {}
        waiting = [*self.tensors]
        while waiting:
            if (name := waiting.pop()) in found:
                continue
            found.add(name)
            for node, place in self.readers.get(name, ()):
                if _moves(node, place):
                    made.update(dict.fromkeys(node.output, node))
                    self.dtypes.update(dict.fromkeys(node.output, self.dtypes[name]))
                    waiting += filter(None, node.output)
        while stays := {name for name in found if not self._agreed(name, found, made)}:
            found -= stays
        return frozenset(found)

    def _agreed(self, name: str, found: Collection[str], made: Mapping[str, onnx.NodeProto]) -> bool:
        """Return whether all nodes that read or compute a value have their other narrow values widened too."""
        if name in self.fixed:
            return False
        maker = made.get(name)
        nodes = [(maker, _moved(maker))] if maker is not None else []
        for node, place in self.readers.get(name, ()):
            numbers = traits_of(node).reads_numbers if not default_domain(node.domain) else ()
            if _moves(node, place):
                nodes.append((node, _moved(node)))
                if not all(one in found for one in node.output if one):
                    return False
            elif place in numbers and (self._takes_wider(node, place, name) or self._folds(node)):
                nodes.append((node, tuple(numbers)))
            else:
                return False
        return all(
            node.input[place] in found
            for node, places in nodes
            for place in places
            if any(node.input[place : place + 1])
        )

    def _takes_wider(self, node: onnx.NodeProto, place: int, name: str) -> bool:
        """Return whether the schema accepts the wider type of a node's input."""
        schema = self._schema(node)
        dtype = self.dtypes.get(name)
        if schema is None or dtype is None or place >= len(schema.inputs):
            return False
        return f"tensor({type_name(WIDER[dtype])})" in schema.inputs[place].types

    def _folds(self, node: onnx.NodeProto) -> bool:
        """Return whether all inputs of a node are constant, and its output can be computed."""
        operator = operator_for("", node.op_type)
        if operator is None or operator.oracle is None or len(node.output) != 1 or node.output[0] in self.fixed:
            return False
        known = all(name in self.constants and name not in self.fixed for name in node.input if name)
        return known and self._lifted(node) is not None

    def _schema(self, node: onnx.NodeProto) -> Schema | None:
        return schema_read_at("", node.op_type, default_opset(self.model.opset_import) or 1)

    def _lifted(self, node: onnx.NodeProto) -> Lifted | None:
        """Return the meaning of a node."""
        operator, schema = operator_for("", node.op_type), self._schema(node)
        if operator is None or schema is None or any(attribute.ref_attr_name for attribute in node.attribute):
            return None
        facts = tuple(
            Facts(self.constants[name].data_type, tuple(self.constants[name].dims)) if name else None
            for name in node.input
        )
        attributes = {name: freeze(value) for name, value in attributes_of(node).items()}
        found = lift(operator, Node("", node.op_type, schema.since_version, attributes, facts, (True,)), "runtime")
        return found if isinstance(found, Lifted) else None

    def fold(self, wide: Collection[str], whole: Whole) -> None:
        """Replace nodes that accept no wider type by constants, and drop unused constants."""
        readers = {id(node): node for name in sorted(wide) for node, _ in self.readers.get(name, ())}
        for node in readers.values():
            lifted = None if self._keeps(node) else self._lifted(node)
            if lifted is None or lifted.operator.oracle is None:
                continue
            arrays = [array_of(whole(self.constants[name])) if name else None for name in node.input]
            found = np.asarray(lifted.operator.oracle(lifted.meaning, *arrays))
            graph = self.owners[id(node)][1]
            graph.initializer.append(onnx.numpy_helper.from_array(found, node.output[0]))
            graph.node.remove(node)
            for name in filter(None, node.input):
                self.readers[name] = [one for one in self.readers[name] if one[0] is not node]
                if not self.readers[name] and name not in self.fixed:
                    self._drop(name)

    def _drop(self, name: str) -> None:
        """Remove an initializer or a Constant node."""
        self.tensors.pop(name, None)
        for graph in _graphs(self.model):
            for tensor in [one for one in graph.initializer if one.name == name]:
                graph.initializer.remove(tensor)
            for node in [one for one in graph.node if one.op_type == CONSTANT and name in one.output]:
                graph.node.remove(node)

    def _keeps(self, node: onnx.NodeProto) -> bool:
        """Return whether a node accepts the wider types of all numbers that it reads."""
        numbers = traits_of(node).reads_numbers
        read = [(place, name) for place, name in enumerate(node.input) if place in numbers and name in self.dtypes]
        return not read or all(self._takes_wider(node, place, name) for place, name in read)

    def steps(self, wide: Collection[str]) -> Iterator[Step]:
        """Yield the steps of the nodes that read them."""
        seen = set()
        for name in sorted(wide):
            for node, _ in self.readers.get(name, ()):
                if id(node) not in seen:
                    seen.add(id(node))
                    schema = self._schema(node)
                    since = schema.since_version if schema else 1
                    why = "the opset has no constants of the type that it reads"
                    action = Action.RETYPE if self._keeps(node) else Action.FOLD
                    yield Step(action, self.owners[id(node)][0], node.op_type, since, why)


def _moves(node: onnx.NodeProto, place: int) -> bool:
    """Return whether a node only moves the elements of an input."""
    return place in _moved(node)


def _moved(node: onnx.NodeProto) -> tuple[int, ...]:
    """Return the inputs whose elements a node moves: all with the type of its outputs, or none."""
    schema = None if default_domain(node.domain) else schema_at("", node.op_type, NEWEST)
    traits = traits_of(node)
    if schema is None or traits.floats != (Trait.MOVES,) or traits.floats_by or traits.reads_numbers:
        return ()
    made = {_parameter(schema.outputs, place).type_variable for place in range(len(node.output))}
    typed = tuple(place for place in range(len(node.input)) if _parameter(schema.inputs, place).type_variable in made)
    return typed if len(made) == 1 and any(place in traits.moved for place in typed) else ()


def _parameter(parameters: Sequence[Parameter], place: int) -> Parameter:
    """Return the parameter at an index; the last one may be variadic."""
    return parameters[min(place, len(parameters) - 1)]


def _definitions(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of values that a graph defines; an initializer of an input counts as that input."""
    yield from {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    yield from (name for node in graph.node for name in node.output if name)
