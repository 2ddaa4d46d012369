"""Nodes that onnxruntime computes wrongly: both models run them with the operators' numpy oracles instead.

Sums of products of signed and unsigned bytes are cut to 16 bits on some processors. Some operators that move slices of
strings fill one element of each. Sums of a window that moves along an axis (LRN) are made by adding a square and
subtracting another, which cancels beside a large one: of 1, 1, 1e5, 1, 1, 1 with a size of 3 and an alpha of 1 the last
are infinity and NaN (1.32.0). Some kernels are wrong for some attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.runtimes import kernels
from opshift.passes.graph.traversal import declared_types, graph_views
from opshift.passes.runtime import ort_models

_UNSIGNED = frozenset({TensorProto.UINT8, TensorProto.FLOAT})
"""The element types of bytes that are not signed: floats are quantized to such (DynamicQuantizeMatMul)."""


def miscomputed(model: onnx.ModelProto, *, exact: bool = False) -> Counter[str]:
    """Return the operators that onnxruntime computes wrongly, and in how many nodes of a model.

    Products of bytes count where one factor is signed and the other not, or a type is not known; what drops strings
    where a model has any. With `exact`, an operator whose oracle rounds otherwise does not: a constant that a kernel
    made is that kernel's, bit for bit.
    """
    owned = [(node, traits_of(node)) for node in ort_models.nodes(model)]
    found = [
        (node, own)
        for node, own in owned
        if own.byte_factors or own.drops_strings or (own.slides and not exact) or _wrong_by_attributes(node, own)
    ]
    if not found:
        return Counter()
    types = {**declared_types(model), **_initializer_types(model)}
    strings = TensorProto.STRING in types.values()
    return Counter(
        node.op_type
        for node, own in found
        if own.slides
        or _wrong_by_attributes(node, own)
        or (own.drops_strings and strings)
        or (own.byte_factors and _mixed(node, own.byte_factors, types) and kernels.cuts_sums_of_bytes())
    )


def unequal(before: onnx.ModelProto, after: onnx.ModelProto, *, exact: bool) -> frozenset[str]:
    """Return the operators of which onnxruntime computes more nodes of one model wrongly than of the other."""
    one, other = miscomputed(before, exact=exact), miscomputed(after, exact=exact)
    return frozenset(name for name in one.keys() | other.keys() if one[name] != other[name])


def _wrong_by_attributes(node: onnx.NodeProto, own: Traits) -> bool:
    if own.miscomputed is None or default_domain(node.domain):
        return False
    return own.miscomputed(attributes_of(node))


def _mixed(node: onnx.NodeProto, factors: Sequence[int], types: Mapping[str, int]) -> bool:
    """Return whether factors have both signs, as far as is known."""
    dtypes = [types.get(node.input[place], 0) for place in factors]
    return 0 in dtypes or len({dtype in _UNSIGNED for dtype in dtypes}) == 2


def _initializer_types(model: onnx.ModelProto) -> Mapping[str, int]:
    held = (view.graph.initializer for view in graph_views(model) if isinstance(view.graph, onnx.GraphProto))
    return {tensor.name: tensor.data_type for tensors in held for tensor in tensors}
