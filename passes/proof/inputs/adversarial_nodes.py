"""Find the nodes whose operators define adversarial values for their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.operator import operator_for
from opshift.opsets.registry.schema import default_domain
from opshift.passes.analysis.model_summary import ModelSummary
from opshift.passes.analysis.scopes import Array
from opshift.passes.proof.inputs.input_specs import schema


@dataclass(frozen=True, eq=False)
class AdversarialNode:
    """A node whose operator defines adversarial values for its graph inputs, given its constant inputs.

    `inputs` are the graph inputs by operand, `constants` read-only arrays by operand.
    """

    adversarial: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]]
    inputs: Mapping[str, str]
    constants: Mapping[str, Array]

    def changed(self, rng: np.random.Generator, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return adversarial inputs of the same shapes, or the inputs unchanged if the operator defines none."""
        operands = {operand: feeds[name] for operand, name in self.inputs.items()}
        if not all(isinstance(value, np.ndarray) for value in operands.values()):
            return dict(feeds)
        try:
            wanted = self.adversarial(rng, {**self.constants, **operands})
            made = {operand: np.asarray(wanted[operand], array.dtype) for operand, array in operands.items()}
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return dict(feeds)
        if any(made[operand].shape != array.shape for operand, array in operands.items()):
            return dict(feeds)
        return {**feeds, **{name: made[operand] for operand, name in self.inputs.items()}}


def adversarial_nodes(view: ModelSummary) -> tuple[AdversarialNode, ...]:
    """Return the main-graph nodes with such operators that read only graph inputs and small constants."""
    found = []
    for node in view.graph.node:
        domain = default_domain(node.domain)
        operator = operator_for(domain, node.op_type)
        declared = schema(domain, node.op_type, view.versions.get(domain, 1))
        if operator is None or operator.adversarial is None or declared is None:
            continue
        if operator.variadic or len(declared.inputs) != len(operator.operands):
            continue  # some operands are attributes at this version
        named = {operand: name for operand, name in zip(operator.operands, node.input, strict=False) if name}
        fed = {operand: name for operand, name in named.items() if name in view.inputs}
        constants = {operand: view.constants[name].copy() for operand, name in named.items() if name in view.constants}
        if fed and len(fed) + len(constants) == len(named) and len(set(fed.values())) == len(fed):
            for array in constants.values():
                array.flags.writeable = False
            found.append(AdversarialNode(operator.adversarial, fed, constants))
    return tuple(found)
