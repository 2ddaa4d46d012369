"""The traits of operators and of nodes, by name, for verification and analysis.

A name is enough: a function, or an operator of a domain that nobody registers, is taken for the operator whose name
it bears.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import onnx

from opshift.opsets.registry.operator import operator_for
from opshift.opsets.registry.schema import attribute_value, default_domain
from opshift.opsets.registry.schema_only_traits import SCHEMA_ONLY
from opshift.opsets.registry.traits import Integers, Trait, Traits

_PLAIN = Traits()


def declared_traits(name: str, domain: str = "") -> Traits | None:
    """Return the traits that an operator's file, its package or its row gives, None if there are none."""
    operator = operator_for(domain, name)
    if operator is not None and operator.traits is not None:
        return operator.traits
    return None if domain else SCHEMA_ONLY.get(name)


@functools.cache
def traits(name: str, domain: str = "") -> Traits:
    """Return the traits of an operator; of one that is not known, those of the default domain's with its name."""
    own = declared_traits(name, default_domain(domain))
    return own or (declared_traits(name) if domain else None) or _PLAIN


def traits_of(node: onnx.NodeProto) -> Traits:
    """Return the traits of a node's operator."""
    return traits(node.op_type, node.domain)


@functools.cache
def _floats(name: str, domain: str) -> frozenset[Trait]:
    return frozenset(traits(name, domain).floats)


def attributes_of(node: onnx.NodeProto) -> Mapping[str, Any]:
    """Return the attributes of a node by name; None for one that refers to a parameter of a function."""
    return {one.name: None if one.ref_attr_name else attribute_value(one) for one in node.attribute}


def float_traits(node: onnx.NodeProto) -> frozenset[Trait]:
    """Return what a node does with floats."""
    by_attributes = traits_of(node).floats_by
    if by_attributes:
        return frozenset(by_attributes(attributes_of(node)))
    return _floats(node.op_type, node.domain)


def integers_of(node: onnx.NodeProto) -> Integers | None:
    """Return how a node computes with integers, if not exactly."""
    own = traits_of(node)
    return own.integers_by(attributes_of(node)) if own.integers_by else own.integers


_LOSES_SIGNS = frozenset({
    Trait.SELECTS, Trait.SUMS, Trait.ADDS, Trait.COMPOSED, Trait.PIECEWISE, Trait.IN_FLOAT
})  # fmt: skip


def selects(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing and has no order of its own."""
    return not float_traits(node).isdisjoint({Trait.MOVES, Trait.SELECTS})


def is_exact(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing: one that selects, or that jumps at certain places."""
    return selects(node) or Trait.STEPS in float_traits(node)


def is_firm(node: onnx.NodeProto) -> bool:
    """Return whether every kernel, in whatever order, returns the same floats for the same floats."""
    return is_exact(node) or Trait.ONCE in float_traits(node)


def rounds(operator: str) -> bool:
    """Return whether each kernel of an operator rounds floats in a way of its own.

    The same node in another layout may round otherwise (onnxruntime 1.31.1, Softmax of float16: 1,000 elements along
    axis 0 and along the last, by one unit), and at an opset without a kernel its function body does
    (ReduceLogSumExp-28, 1.32.0).
    """
    return not _floats(operator, "").isdisjoint({Trait.SUMS, Trait.COMPOSED, Trait.IN_FLOAT})


def keeps_signs(node: onnx.NodeProto) -> bool:
    """Return whether a node returns zeros with a sign that is defined: its input's, or by IEEE 754, as for Ceil."""
    return float_traits(node).isdisjoint(_LOSES_SIGNS)
