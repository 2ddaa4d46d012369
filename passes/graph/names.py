"""Create unique names for new values and nodes of a model."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from opshift.passes.graph.traversal import GraphView, graph_views


class Names:
    """Names that are unused in a model; values and nodes share one pool."""

    def __init__(self, model: onnx.ModelProto, views: Iterable[GraphView] = ()) -> None:
        """Collect all names of a model; `views` is the model's traversal, if it exists already."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        for view in views or graph_views(model):
            graph = view.graph
            if isinstance(graph, onnx.GraphProto):
                self._taken.update(tensor.name for tensor in graph.initializer)
                self._taken.update(tensor.values.name for tensor in graph.sparse_initializer)
                self._taken.update(value.name for value in (*graph.input, *graph.output))
            else:
                self._taken.update(graph.input)
            # Types of removed values may still be declared.
            self._taken.update(value.name for value in graph.value_info)
            self._taken.update(view.names)
            self._taken.update(view.outputs)

    def new(self, wanted: str) -> str:
        """Return the requested name, or its first unused numbered variant."""
        if wanted not in self._taken:
            self._taken.add(wanted)
            return wanted
        name, number = wanted, self._numbers.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        self._numbers[wanted] = number  # all lower numbers remain used
        return name
