"""Find the opsets that define a model's operators and attributes, if the model declares another opset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx

from opshift.opsets.registry.schema import NEWEST, OLDEST_SOURCE, default_domain, schema_read_at
from opshift.passes.graph.traversal import GraphView


def fitting_opsets(views: Sequence[GraphView]) -> tuple[int, ...]:
    """Return the opsets that define all default-domain operators with the attributes and inputs of the nodes."""
    nodes = [node for view in views for node in view.graph.node if not default_domain(node.domain)]
    opsets = range(OLDEST_SOURCE, NEWEST + 1)
    return tuple(opset for opset in opsets if all(_fits(node, opset) for node in nodes))


def _fits(node: onnx.NodeProto, opset: int) -> bool:
    schema = schema_read_at("", node.op_type, opset)
    if schema is None:
        return False
    attributes = {attribute.name for attribute in node.attribute}
    required = {name for name, (is_required, _) in schema.attributes.items() if is_required}
    counts = (schema.raw.min_input <= len(node.input) <= schema.raw.max_input) and (
        schema.raw.min_output <= len(node.output) <= schema.raw.max_output
    )
    return counts and required <= attributes <= schema.attributes.keys()


def in_words(opsets: Sequence[int]) -> str:
    """Return opsets as text, such as `opset 1 to 5 or 9`."""
    runs = []
    for _, run in itertools.groupby(enumerate(opsets), lambda pair: pair[1] - pair[0]):
        found = [opset for _, opset in run]
        runs.append(str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}")
    return f"opset {' or '.join(runs)}"
