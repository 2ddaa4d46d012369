"""Return the traits of operators and of nodes, by name, for verification and analysis.

The name suffices: a function, or an operator of an unregistered domain, gets the traits of the operator with its name.
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
    """Return the traits from an operator's file, its package or its row; None if there are none."""
    operator = operator_for(domain, name)
    if operator is not None and operator.traits is not None:
        return operator.traits
    return None if domain else SCHEMA_ONLY.get(name)


@functools.cache
def traits(name: str, domain: str = "") -> Traits:
    """Return the traits of an operator; for an unknown one, those of the default-domain operator with its name."""
    own = declared_traits(name, default_domain(domain))
    return own or (declared_traits(name) if domain else None) or _PLAIN


def traits_of(node: onnx.NodeProto) -> Traits:
    """Return the traits of a node's operator."""
    return traits(node.op_type, node.domain)


@functools.cache
def _floats(name: str, domain: str) -> frozenset[Trait]:
    return frozenset(traits(name, domain).floats)


def attributes_of(node: onnx.NodeProto) -> Mapping[str, Any]:
    """Return the attributes of a node by name; None for a reference to a function's parameter."""
    return {one.name: None if one.ref_attr_name else attribute_value(one) for one in node.attribute}


def float_traits(node: onnx.NodeProto) -> frozenset[Trait]:
    """Return the effects of a node on floats."""
    by_attributes = traits_of(node).floats_by
    if by_attributes:
        return frozenset(by_attributes(attributes_of(node)))
    return _floats(node.op_type, node.domain)


def integers_of(node: onnx.NodeProto) -> Integers | None:
    """Return the kind of a node's integer arithmetic, if it is not exact."""
    own = traits_of(node)
    return own.integers_by(attributes_of(node)) if own.integers_by else own.integers


_LOSES_SIGNS = frozenset({
    Trait.SELECTS, Trait.SUMS, Trait.ADDS, Trait.COMPOSED, Trait.PIECEWISE, Trait.IN_FLOAT
})  # fmt: skip


def selects(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing and does not depend on the order of arithmetic."""
    return not float_traits(node).isdisjoint({Trait.MOVES, Trait.SELECTS})


def is_exact(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing: it selects, or is a step function."""
    return selects(node) or Trait.STEPS in float_traits(node)


def is_firm(node: onnx.NodeProto) -> bool:
    """Return whether every kernel returns the same floats for the same floats, in any order of arithmetic."""
    return is_exact(node) or Trait.ONCE in float_traits(node)


def rounds(operator: str) -> bool:
    """Return whether each kernel of an operator rounds floats differently.

    The same node in another layout may round differently (onnxruntime 1.31.1, Softmax of float16: 1,000 elements along
    axis 0 and along the last, by one unit), and at an opset without a kernel its function body does
    (ReduceLogSumExp-28, 1.32.0).
    """
    return not _floats(operator, "").isdisjoint({Trait.SUMS, Trait.COMPOSED, Trait.IN_FLOAT})


def keeps_signs(node: onnx.NodeProto) -> bool:
    """Return whether the sign of a node's zeros is defined: the input's, or by IEEE 754, as for Ceil."""
    return float_traits(node).isdisjoint(_LOSES_SIGNS)
