"""Nodes that hardly anybody would write: operators with any attributes, and inputs of any type, rank or none at all."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, defs, helper

import opshift
from opshift.opsets.registry.facts import Facts, freeze
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import attribute_value
from opshift.passes.analysis.inference import typed
from opshift.passes.analysis.model_inference import infer_model

KINDS = defs.OpSchema.AttrType
DTYPES = [dtype for dtype in TensorProto.DataType.values() if dtype]
INTEGERS = (-7, -2, -1, 0, 1, 2, 3, 4, 7, 11)
FAR = (-(2**63), 2**31, 2**62, 100_000)
WORDS = ("SAME_UPPER", "VALID", "linear", "cubic", "nearest", "ij,jk->ik", "...i->i", "add", "", "DCR", "forward")
MANY = (0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 8)


def schemas() -> Sequence[defs.OpSchema]:
    """Every version of every operator of onnx that is not deprecated."""
    found = (one for one in defs.get_all_schemas_with_history() if not one.deprecated)
    return sorted(found, key=lambda one: (one.domain, one.name, one.since_version))


def dims(draws: random.Random) -> list[int | str | None]:
    rank = draws.choice((0, 1, 1, 2, 2, 3, 4, 5))
    return [draws.choice((0, 1, 2, 3, 4, 8, "n", "m", None, None, 5)) for _ in range(rank)]


def tensor(draws: random.Random, name: str = "t") -> onnx.TensorProto:
    dtype = draws.choice((TensorProto.INT64, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL))
    shape: list[int] = draws.choice(([], [0], [1], [2], [3], [4], [2, 2], [8]))
    few = (0, 1) if dtype == TensorProto.BOOL else (0, 1, 2, -1, 3)
    return helper.make_tensor(name, dtype, shape, [draws.choice(few) for _ in range(math.prod(shape))])


def graph(draws: random.Random) -> onnx.GraphProto:
    """A subgraph whose values may lack types."""
    made = onnx.GraphProto(name="inner")
    inputs = [f"a{index}" for index in range(draws.randint(0, 3))]
    for name in inputs:
        value = made.input.add(name=name)
        if draws.random() < 0.5:
            value.type.CopyFrom(helper.make_tensor_type_proto(draws.choice((0, 1, 7, 9)), dims(draws)))
    for index in range(draws.randint(0, 3)):
        name = draws.choice(("Identity", "Relu", "EyeLike", "RegexFullMatch", "NoSuch", "SequenceConstruct"))
        made.node.append(helper.make_node(name, [draws.choice([*inputs, "i0"])], [f"b{index}"]))
        made.output.add(name=f"b{index}")
    return made


def value_of(draws: random.Random, name: str, kind: Any) -> Any:
    """Return a value of an attribute of this kind, if one can be drawn."""

    def integer() -> int:
        return draws.choice(FAR if draws.random() < 0.05 else INTEGERS)

    if name in ("dtype", "to", "output_dtype", "output_datatype", "precision") and draws.random() < 0.8:
        return draws.choice(DTYPES)
    makers: Mapping[Any, Callable[[], Any]] = {
        KINDS.INT: integer,
        KINDS.FLOAT: lambda: draws.choice((0.0, -1.0, 1.5, math.nan)),
        KINDS.STRING: lambda: draws.choice(WORDS),
        KINDS.INTS: lambda: [integer() for _ in range(draws.choice(MANY))],
        KINDS.FLOATS: lambda: [1.0] * draws.choice(MANY),
        KINDS.STRINGS: lambda: [draws.choice(WORDS) for _ in range(draws.choice(MANY))],
        KINDS.TENSOR: lambda: tensor(draws),
        KINDS.GRAPH: lambda: graph(draws),
    }
    maker = makers.get(kind)
    return maker() if maker else None


LISTS = {KINDS.INTS: AttributeProto.INTS, KINDS.FLOATS: AttributeProto.FLOATS, KINDS.STRINGS: AttributeProto.STRINGS}


def draw(schema: defs.OpSchema, draws: random.Random) -> onnx.NodeProto:
    """Draw a node: mostly as the schema has it, else with inputs, outputs and attributes too many or too few."""
    wild = draws.random() < 0.3
    count = draws.randint(schema.min_input, min(schema.max_input, schema.min_input + 6))
    made = draws.randint(schema.min_output, min(schema.max_output, schema.min_output + 4))
    if wild and draws.random() < 0.5:
        count, made = draws.randint(0, count + 2), draws.randint(0, made + 2)
    inputs = [f"i{index}" if draws.random() < (0.8 if wild else 0.95) else "" for index in range(count)]
    node = helper.make_node(schema.name, inputs, [f"o{index}" for index in range(made)], domain=schema.domain)
    parameters = draws.random() < 0.1
    for name, attribute in sorted(schema.attributes.items()):
        if draws.random() < (0.06 if attribute.required and wild else 0.0 if attribute.required else 0.45):
            continue
        if parameters and draws.random() < 0.5:
            node.attribute.append(AttributeProto(name=name, type=AttributeProto.INT, ref_attr_name="p"))
        elif (value := value_of(draws, name, attribute.type)) is not None:
            node.attribute.append(helper.make_attribute(name, value, attr_type=LISTS.get(attribute.type)))
    return node


@dataclass(frozen=True)
class Drawn:
    """A node, and a model of it alone.

    Args:
        node: the node.
        facts: of its inputs, None of those that are left out.
        model: its graph's outputs have no types.
    """

    node: onnx.NodeProto
    facts: tuple[Facts | None, ...]
    model: onnx.ModelProto


def drawn(schema: defs.OpSchema, number: int) -> Drawn:
    """Draw a node of an operator; the same number gives the same one."""
    draws = random.Random(f"{schema.domain} {schema.name} {schema.since_version} {number}")
    node = draw(schema, draws)
    constants = {name: tensor(draws, name) for name in node.input if name and draws.random() < 0.25}
    facts: list[Facts | None] = []
    model = onnx.ModelProto(ir_version=13)
    model.opset_import.add(domain=schema.domain, version=schema.since_version)
    model.graph.node.append(node)
    for index, name in enumerate(node.input):
        if name in constants:
            held = freeze(constants[name])
            facts.append(Facts(constants[name].data_type, held.array.shape, held))
            continue
        formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
        allowed = [one[7:-1].upper() for one in formal.types if one.startswith("tensor(")] if formal else []
        dtype = TensorProto.DataType.Value(draws.choice(sorted(allowed))) if allowed else draws.choice(DTYPES)
        shape = None if draws.random() < 0.2 else tuple(dims(draws))
        one = Facts(None if draws.random() < 0.4 else dtype, shape)
        facts.append(one if name else None)
        if not name:
            continue
        value = model.graph.input.add(name=name)
        if one.dtype:
            value.type.CopyFrom(helper.make_tensor_type_proto(one.dtype, one.shape))
    model.graph.initializer.extend(constants.values())
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    return Drawn(node, tuple(facts), model)


PLACES = ("graph", "If", "function")


def placed(model: onnx.ModelProto, place: str) -> onnx.ModelProto:
    """Return the model with its nodes in the graph, in a branch, or in a function whose inputs have no types."""
    graph, (item,) = model.graph, model.opset_import
    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output if value.name]
    held = [helper.make_node("Constant", [], [one.name], value=one) for one in graph.initializer]
    made = onnx.ModelProto(ir_version=10)
    made.opset_import.add(domain=item.domain, version=item.version)
    if item.domain:
        made.opset_import.add(version=18)
    made.graph.name = "g"
    made.graph.input.extend(graph.input)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    for value in (*made.graph.input, *made.graph.output):
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    if place == "graph":
        made.graph.node.extend([*held, *graph.node])
    elif place == "If":
        bodies = [helper.make_graph([*held, *graph.node], "branch", [], graph.output) for _ in range(2)]
        made.graph.input.append(helper.make_tensor_value_info("choice", TensorProto.BOOL, []))
        made.graph.node.append(
            helper.make_node("If", ["choice"], outputs, then_branch=bodies[0], else_branch=bodies[1])
        )
    else:
        made.opset_import.add(domain="f", version=1)
        imports = [one for one in made.opset_import if one.domain != "f"]
        made.functions.append(helper.make_function("f", "F", inputs, outputs, [*held, *graph.node], imports))
        made.graph.node.append(helper.make_node("F", inputs, outputs, domain="f"))
    return made


def infer(schema: defs.OpSchema, number: int) -> None:
    """Infer a node by itself and in a model, and convert some, which raises an OpshiftError or nothing."""
    one = drawn(schema, number)
    node, facts, model = one.node, one.facts, one.model
    attributes = {
        one.name: freeze(attribute_value(one))
        for one in node.attribute
        if not one.ref_attr_name and one.type != AttributeProto.GRAPH
    }
    used = (True,) * len(node.output)
    # What an error is like does not matter here, but that there is one, and no signal.
    with contextlib.suppress(Exception):
        typed(Node(schema.domain, schema.name, schema.since_version, attributes, tuple(facts), used))
    with contextlib.suppress(Exception):
        infer_model(model)
    if number % 8 == 0:
        data = placed(model, PLACES[number // 8 % len(PLACES)]).SerializeToString()
        with contextlib.suppress(opshift.OpshiftError):
            opshift.convert(onnx.ModelProto.FromString(data), opset=21 - number % 5, verify=False)


def infer_unchecked(schema: defs.OpSchema, number: int) -> None:
    """Give the model to onnx as it is."""
    with contextlib.suppress(Exception):
        onnx.shape_inference.infer_shapes(drawn(schema, number).model, data_prop=True)
