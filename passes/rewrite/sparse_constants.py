"""Convert sparse constants to dense ones, which onnxruntime does when it opens a model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from opshift.opsets.registry.facts import tensor_of
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.graph.traversal import GraphView, graph_views, names_read, sparse_tensors

_LIMIT = 2**22
"""The maximum total number of elements of a model's sparse constants; with more, they stay sparse."""
_ATTRIBUTE = "sparse_value"


def with_dense_constants(model: onnx.ModelProto, views: Sequence[GraphView]) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a copy with dense constants in place of the sparse ones that nodes read, and a note on it.

    `views` are its graphs and functions. The model itself is returned if it has none, or if their elements are
    external.
    """
    found = [one for view in views for one in sparse_tensors(view)]
    if not found or sum(math.prod(one.dims) for one in found) > _LIMIT or any(_is_elsewhere(one) for one in found):
        return model, ()
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    count = sum(_write_out(view) for view in graph_views(changed))
    if not count:
        return model, ()
    constants = "1 sparse constant" if count == 1 else f"{count} sparse constants"
    growth = changed.ByteSize() - model.ByteSize()
    return changed, (f"Wrote out the zeros of {constants}, which makes the model {growth:,} bytes larger.",)


def _is_elsewhere(sparse: onnx.SparseTensorProto) -> bool:
    return onnx.TensorProto.EXTERNAL in (sparse.values.data_location, sparse.indices.data_location)


def _write_out(view: GraphView) -> int:
    """Convert the constants of one graph or function in place, and return their number."""
    count = 0
    if isinstance(view.graph, onnx.GraphProto):
        used = {value.name for value in view.graph.output}.union(*map(names_read, view.graph.node))
        sparse = list(view.graph.sparse_initializer)
        del view.graph.sparse_initializer[:]
        view.graph.sparse_initializer.extend(one for one in sparse if one.values.name not in used)
        view.graph.initializer.extend(_dense(one, one.values.name) for one in sparse if one.values.name in used)
        count += len(sparse) - len(view.graph.sparse_initializer)
    for index in view.places((CONSTANT,)):
        for attribute in view.graph.node[index].attribute:
            if attribute.name == _ATTRIBUTE and attribute.HasField("sparse_tensor"):
                attribute.CopyFrom(onnx.helper.make_attribute("value", _dense(attribute.sparse_tensor, "")))
                count += 1
    return count


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    """Return all elements; the indices refer to the flat tensor, or are rows with one index for each axis."""
    values, indices = to_array(sparse.values), to_array(sparse.indices)
    dense = np.full(tuple(sparse.dims), "" if values.dtype == object else values.dtype.type(0), values.dtype)
    dense[np.unravel_index(indices, dense.shape) if indices.ndim == 1 else tuple(indices.T)] = values
    return tensor_of(dense, sparse.values.data_type, name)
