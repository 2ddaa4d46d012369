"""Move a node into a function: with attribute parameters, untyped inputs and constants inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper

from differential.draw import Drawn
from differential.schemas import carries

if TYPE_CHECKING:
    from differential.embed import Embedder

_FUNCTIONS_SINCE, _ATTRIBUTE_DEFAULTS_SINCE = 8, 9
"""The ir_versions that these exist from."""


def in_function(to: Embedder, drawn: Drawn, node: NodeProto) -> NodeProto:
    """Move the node into a function; return the call."""
    inner = NodeProto()
    inner.CopyFrom(node)
    inner.name = to.name("inner") if to.chance(0.7) else ""
    before: list[NodeProto] = []
    outer_inputs: list[str] = []
    inner_inputs: list[str] = []
    parameters: dict[str, AttributeProto] = {}
    for index, name in enumerate(node.input):
        argument = drawn.inputs[index] if index < len(drawn.inputs) else None
        constant = next((each for each in to.initializers if each.name == name), None)
        allowed = argument is not None and argument.constant is not False
        allowed = allowed and argument is not None and carries("Constant", to.opset, [argument.type])
        if constant is not None and allowed and to.chance(0.5):
            before.append(_constant_inside(to, constant, name, parameters))
            _drop(to, name)
            inner_inputs.append(f"{name}_in")
        elif name:
            if name not in outer_inputs:
                outer_inputs.append(name)
            inner_inputs.append(f"{name}_in")
        else:
            inner_inputs.append("")
    inner.input[:] = inner_inputs
    inner.output[:] = [f"{name}_in" if name else "" for name in node.output]
    del inner.attribute[:]
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or not to.chance(0.45):
            inner.attribute.append(attribute)
            continue
        parameter = f"{attribute.name}_p" if to.chance(0.5) else attribute.name
        inner.attribute.append(AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name=parameter))
        parameters[parameter] = attribute
    call = _assemble(to, [*before, inner], outer_inputs, [name for name in node.output if name], parameters)
    if to.chance(0.1):
        call = _wrap_call(to, call)
    return call


def _constant_inside(to: Embedder, tensor: TensorProto, name: str, parameters: dict[str, AttributeProto]) -> NodeProto:
    plain = TensorProto()
    plain.CopyFrom(tensor)
    plain.name = ""
    node = helper.make_node("Constant", [], [f"{name}_in"], name=to.name("inner"))
    if to.chance(0.3):
        node.attribute.append(AttributeProto(name="value", type=AttributeProto.TENSOR, ref_attr_name=f"{name}_value"))
        parameters[f"{name}_value"] = helper.make_attribute("value", plain)
    else:
        node.attribute.append(helper.make_attribute("value", plain))
    return node


def _drop(to: Embedder, name: str) -> None:
    to.initializers = [each for each in to.initializers if each.name != name]
    to.defaulted = [each for each in to.defaulted if each.name != name]


def _assemble(
    to: Embedder, nodes: list[NodeProto], inputs: list[str], outputs: list[str], parameters: dict[str, AttributeProto]
) -> NodeProto:
    defaults = bool(parameters) and to.chance(0.25)
    function = FunctionProto(name=to.name("Fn"), domain="local")
    function.input.extend(f"{name}_in" for name in inputs)
    function.output.extend(f"{name}_in" for name in outputs)
    function.node.extend(nodes)
    function.opset_import.append(helper.make_opsetid("", to.opset))
    call = helper.make_node(function.name, inputs, outputs, domain="local", name=to.name("node"))
    for parameter, attribute in parameters.items():
        passed = AttributeProto()
        passed.CopyFrom(attribute)
        passed.name = parameter
        if defaults and to.chance(0.5):
            function.attribute_proto.append(passed)
            to.ir_version = max(to.ir_version, _ATTRIBUTE_DEFAULTS_SINCE)
        else:
            function.attribute.append(parameter)
            call.attribute.append(passed)
    to.functions.append(function)
    to.ir_version = max(to.ir_version, _FUNCTIONS_SINCE)
    return call


def _wrap_call(to: Embedder, call: NodeProto) -> NodeProto:
    """Put a call of a function into another function."""
    inner = NodeProto()
    inner.CopyFrom(call)
    inner.input[:] = [f"{name}_of" for name in call.input]
    inner.output[:] = [f"{name}_of" for name in call.output]
    outer = FunctionProto(name=to.name("Outer"), domain="local")
    outer.input.extend(inner.input)
    outer.output.extend(inner.output)
    outer.node.append(inner)
    outer.opset_import.extend([helper.make_opsetid("", to.opset), helper.make_opsetid("local", 1)])
    to.functions.append(outer)
    return helper.make_node(outer.name, list(call.input), list(call.output), domain="local", name=to.name("node"))
