"""Find nodes that onnxruntime computes wrongly: both models run them with the operators' numpy oracles instead.

Sums of products of signed and unsigned bytes saturate at 16 bits on some processors. Some operators that move slices of
strings fill only one element of each. Moving window sums (LRN) add a square and subtract another, which cancels beside
a large one: for 1, 1, 1e5, 1, 1, 1 with a size of 3 and an alpha of 1, the last results are infinity and NaN (1.32.0).
Some kernels are wrong for some attributes.
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
"""The element types of unsigned factors: floats are quantized to unsigned bytes (DynamicQuantizeMatMul)."""


def miscomputed(model: onnx.ModelProto, *, exact: bool = False) -> Counter[str]:
    """Return the operators that onnxruntime computes wrongly, with the number of the model's affected nodes.

    Products of bytes count if only one factor is signed, or if a type is unknown; operators that drop strings count if
    the model has strings. With `exact`, operators whose oracles round differently do not count: folded constants are
    the kernel's, bit for bit.
    """
    owned = [(node, traits_of(node)) for node in ort_models.nodes(model)]
    found = [
        (node, own)
        for node, own in owned
        if own.byte_factors or own.drops_strings or (own.slides and not exact) or _without_kernel(node, own)
    ]
    if not found:
        return Counter()
    types = {**declared_types(model), **_initializer_types(model)}
    strings = TensorProto.STRING in types.values()
    return Counter(
        node.op_type
        for node, own in found
        if own.slides
        or _without_kernel(node, own)
        or (own.drops_strings and strings)
        or (own.byte_factors and _mixed(node, own.byte_factors, types) and kernels.cuts_sums_of_bytes())
    )


def unequal(before: onnx.ModelProto, after: onnx.ModelProto, *, exact: bool) -> frozenset[str]:
    """Return the operators that onnxruntime computes wrongly in more nodes of one model than of the other."""
    one, other = miscomputed(before, exact=exact), miscomputed(after, exact=exact)
    return frozenset(name for name in one.keys() | other.keys() if one[name] != other[name])


def _without_kernel(node: onnx.NodeProto, own: Traits) -> bool:
    """Return whether the kernel computes nodes with these attributes wrongly, or refuses nodes with these inputs."""
    if own.refuses is not None:
        return own.refuses(node.input)
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
