"""Pair the nodes of a model with their forms in wide types, and hold the values of a wide run."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from opshift.opsets.registry.node_traits import float_traits, keeps_signs, selects
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.traits import Trait
from opshift.passes.graph.traversal import nested_nodes, outer_names, subgraphs
from opshift.passes.proof.inputs.input_specs import schema
from opshift.passes.proof.rounding.values import adds_exactly, is_float_array, is_integer, is_widest
from opshift.passes.proof.wider_types import in_double, widened


def computing(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield the node, or the nodes in its subgraphs if it has any."""
    inside = [inner for subgraph in subgraphs(node) for inner in nested_nodes(subgraph)]
    yield from (inner for inner in inside or (node,) if not any(subgraphs(inner)))


def _data(node: onnx.NodeProto, opsets: Mapping[str, int]) -> frozenset[str]:
    inside = [_data_of_body(subgraph, opsets) for subgraph in subgraphs(node)]
    if inside:
        return frozenset(node.input).union(*inside)
    if Trait.QUANTIZES in float_traits(node):
        return frozenset(node.input)  # scales, whose scaled values are other inputs
    found = schema(node.domain, node.op_type, opsets.get(default_domain(node.domain), 0))
    if found is None or not found.outputs or not found.inputs:
        return frozenset(node.input)
    made = {output.type_str for output in found.outputs}
    last = len(found.inputs) - 1
    pairs = ((name, found.inputs[min(index, last)]) for index, name in enumerate(node.input))
    names = (name for name, parameter in pairs if parameter.type_str in made)
    return frozenset((*names, *(node.input[:1] if Trait.SUMS in float_traits(node) else ())))


def _data_of_body(body: onnx.GraphProto, opsets: Mapping[str, int]) -> frozenset[str]:
    """Return the names that nodes of a body read as data; nodes that only move parameters read none."""
    found = frozenset(value.name for value in body.output)
    for node in reversed(body.node):
        if Trait.MOVES not in float_traits(node) or not found.isdisjoint(node.output):
            found |= _data(node, opsets)
    return found


def loses_signs(node: onnx.NodeProto) -> bool:
    """Return whether the sign of a zero that a node returns is undefined."""
    return not all(map(keeps_signs, computing(node)))


@dataclass(frozen=True, eq=False)
class WideNode:
    """A node, and the properties that determine its rounding.

    Attributes:
        node: the model's node.
        wide: the same node in wide types.
        computing: the nodes in its subgraphs if it has any, else itself.
        traits: the traits of all these nodes.
        read: the names that it reads, also in its subgraphs.
        made: the names that it returns.
        opsets: of the model, by domain.
    """

    node: onnx.NodeProto
    wide: onnx.NodeProto
    computing: tuple[onnx.NodeProto, ...]
    traits: frozenset[Trait]
    read: tuple[str, ...]
    made: tuple[str, ...]
    opsets: Mapping[str, int]

    @classmethod
    def of(cls, node: onnx.NodeProto, opsets: Mapping[str, int]) -> WideNode:
        """Return a node of a model that imports these opsets."""
        inside = tuple(computing(node))
        traits = frozenset[Trait]().union(*map(float_traits, inside))
        read = tuple(name for name in (*node.input, *outer_names(node)) if name)
        made = tuple(filter(None, node.output))
        return cls(node, in_double(widened(node)), inside, traits, read, made, opsets)

    @functools.cached_property
    def data(self) -> frozenset[str]:
        """The names that the node reads as data, without parameters such as the scales of a Resize.

        Data has the type of an output; summed inputs are data whatever their type (the X of RMSNormalization).
        """
        return _data(self.node, self.opsets)

    @property
    def has_subgraphs(self) -> bool:
        """Whether the node has subgraphs."""
        return any(subgraphs(self.node))

    @property
    def selects(self) -> bool:
        """Whether the node returns elements of its inputs."""
        return selects(self.node)

    @property
    def sums(self) -> bool:
        """Whether the node, or one in its subgraphs, adds many numbers."""
        return Trait.SUMS in self.traits

    @property
    def rounds_on_the_way(self) -> bool:
        """Whether the node rounds intermediate values whose error a perturbation of its inputs does not show.

        The scores of an Attention are large and close to each other, and nodes in a Scan read each other's results.
        """
        return self.has_subgraphs or not self.traits.isdisjoint({Trait.SUMS, Trait.NORMALIZES})

    def quantizes(self, plain: Mapping[str, Any]) -> bool:
        """Return whether it rounds floats to integers inside, given all values."""
        return Trait.QUANTIZES in self.traits and any(is_integer(plain[name]) for name in self.made)

    def in_float(self, plain: Mapping[str, Any]) -> bool:
        """Return whether its kernel computes in float, given all values; for sums, only the scale matters."""
        doubles = any(is_widest(plain[name]) for name in self.made)
        return Trait.IN_FLOAT in self.traits and (not self.sums or doubles)

    def adds_up_integers(self, plain: Mapping[str, Any]) -> bool:
        """Return whether it reads only integers, and its float results show the rounding of their sums."""
        if not self.sums or any(is_float_array(plain[name]) for name in self.read):
            return False
        return any(is_float_array(plain[name]) and not adds_exactly([plain[name]]) for name in self.made)

    @property
    def only_adds_and_multiplies(self) -> bool:
        """Whether the node only adds and multiplies: for example, Tanh of 19 is 1 in double, and rounded."""
        return not any(float_traits(inner).isdisjoint(_ELEMENTARY) for inner in self.computing)


_ELEMENTARY = frozenset(
    {Trait.MOVES, Trait.SELECTS, Trait.SUMS, Trait.ADDS, Trait.MULTIPLIES, Trait.PRODUCTS, Trait.ONCE}
)


Firm = npt.NDArray[np.bool_] | bool
"""Whether all elements of a value are firm, or which."""


@dataclass(frozen=True)
class WideRun:
    """The values of a run in wide types.

    Attributes:
        values: the values, by name.
        exact: which of them no rounding changes, nor what they are computed from.
        firm: which of their elements every kernel computes alike, in whatever order, since one operation of IEEE 754 on
            exact values led there, and nothing overflowed. What compares or rounds those decides, and is as in the
            narrow run; arithmetic reads them perturbed, since it may be done in another order.
        inputs: the names of inputs and constants.
        apart: by how much integers that the narrow run rounded are larger than those of the same node in wide types, on
            the inputs of the narrow run.
    """

    values: dict[str, Any]
    exact: dict[str, bool]
    firm: dict[str, Firm]
    inputs: frozenset[str]
    apart: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
