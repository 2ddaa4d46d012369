"""A rewritten node and its replacement as models of their own, for verification and drawings."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from opshift.opsets.registry.facts import tensor_of, type_of_facts
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.structural import CAST
from opshift.passes.analysis.inference import make_node
from opshift.passes.graph.names import Names
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.new_constants import Constants
from opshift.passes.rewrite.splice import splice


def alone(change: Replace, source_opset: int, target_opset: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a lowered node and its replacement as separate models, with the types that the planner knew.

    Inputs have the names of the operands; constant operands are initializers. Outputs are y0, y1 ...
    """
    typed_node, operator = change.typed_node, change.lifted.operator
    named = {
        index: name for name, index in zip(operator.operands, change.lifted.sources, strict=False) if index is not None
    }
    inputs = ["" if facts is None else named.get(index, f"x{index}") for index, facts in enumerate(typed_node.inputs)]
    outputs = [f"y{index}" if used else "" for index, used in enumerate(typed_node.used)]
    original = _model(source_opset, typed_node, inputs, outputs)
    node = make_node(typed_node.name, typed_node.domain, inputs, outputs, typed_node.attributes)
    original.graph.node.append(node)
    node.name = "node"
    if change.cast is not None:
        node.output[0] = "index"
        original.graph.node.append(make_node(CAST, "", ["index"], outputs, {"to": change.cast}))
        node = make_node(typed_node.name, typed_node.domain, inputs, outputs, typed_node.attributes)
    # A detached sequence that is only passed through needs an Identity, which supports only tensors below opset 14.
    passed_on = not change.fragment.nodes and any(facts is not None and facts.container for facts in typed_node.inputs)
    rewritten = _model(source_opset if passed_on else target_opset, typed_node, inputs, outputs)
    constants = Constants(Names(original), target_opset)
    # In a detached model, an output value must have the output's name.
    change = change._replace(renamed=(), inputs=())
    splice(rewritten.graph.node, node, 0, change, Names(original), constants, False, {})
    rewritten.graph.initializer.extend([*constants.made, *constants.outputs])
    return original, rewritten


def _model(opset: int, typed_node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    imports = [onnx.helper.make_opsetid("", opset)]
    if typed_node.domain:
        imports.append(onnx.helper.make_opsetid(typed_node.domain, typed_node.since_version))
    least = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = onnx.ModelProto(ir_version=max(least, 8))
    model.opset_import.extend(imports)
    model.graph.name = "node"
    for name, facts in zip(inputs, typed_node.inputs, strict=True):
        if facts is None:
            continue
        if facts.known is not None:
            model.graph.initializer.append(tensor_of(facts.known, facts.dtype or 0, name))
            continue
        value = model.graph.input.add(name=name)
        value.type.CopyFrom(type_of_facts(facts))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name)
    return model
