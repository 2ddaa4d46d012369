"""Choose sizes for dynamic inputs that a model probably accepts, for hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from opshift.opsets.registry.facts import Dim
from opshift.passes.analysis.model_summary import summary
from opshift.passes.analysis.scopes import unnamed
from opshift.passes.proof.inputs.shape_search import Groups, grouped, hints
from opshift.passes.rewrite.fixed_shapes import Shapes, dynamic

Names = Mapping[str, Sequence[Dim]]
"""The shapes of dynamic inputs, in which each unknown dim has a name."""


class ExampleSizes:
    """The dims of a model's dynamic inputs, grouped by equal size."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes) -> None:
        """Group the dims that the nodes require to be equal, and find the dims with only one valid size."""
        self.names: Names = {
            name: tuple(unnamed(name, axis) if dim is None else dim for axis, dim in enumerate(shapes[name] or ()))
            for name in dynamic(shapes)
        }
        symbols = dict.fromkeys(dim for dims in self.names.values() for dim in dims if isinstance(dim, str))
        self.groups: Groups = grouped(tuple(symbols), hints(summary(model)))
        self.batch = {one for dims in self.names.values() for one in dims[_batch_axis(dims) :][:1]}

    def of(self, size: int) -> dict[str, tuple[int, ...]]:
        """Return shapes with a batch of one, the sizes that nodes require, and `size` for all other dims."""
        pattern = [1 if not self.batch.isdisjoint(group) else size for group in self.groups.free]
        found = self.groups.sizes(pattern)
        return {
            name: tuple(found[dim] if isinstance(dim, str) else dim or 0 for dim in dims)
            for name, dims in self.names.items()
        }


def _batch_axis(dims: Sequence[Dim]) -> int:
    """Return the index of the probable batch dim: 1 for a state, whose dim 0 counts layers or directions."""
    states = len(dims) > 2 and isinstance(dims[0], int) and dims[0] > 1 and isinstance(dims[1], str)
    return int(states)


def makes_nothing(model: onnx.ModelProto, before: onnx.ModelProto) -> bool:
    """Return whether fixed shapes leave a value without elements that may have some in the original."""
    empty = [_empty(one) for one in (before, model)]
    return bool(empty[1] - empty[0])


def _empty(model: onnx.ModelProto) -> set[str]:
    values = (*model.graph.value_info, *model.graph.output)
    return {
        value.name
        for value in values
        if any(dim.HasField("dim_value") and not dim.dim_value for dim in value.type.tensor_type.shape.dim)
    }
