"""Names for new values and nodes of a model."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from opshift.passes.graph.traversal import GraphView, graph_views


class Names:
    """Names that nothing in a model has yet; values and nodes share one pool."""

    def __init__(self, model: onnx.ModelProto, bodies: Iterable[GraphView] = ()) -> None:
        """Take all names of a model as taken; `bodies` is the model, where somebody has walked over it."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        for body in bodies or graph_views(model):
            graph = body.graph
            if isinstance(graph, onnx.GraphProto):
                self._taken.update(tensor.name for tensor in graph.initializer)
                self._taken.update(tensor.values.name for tensor in graph.sparse_initializer)
                self._taken.update(value.name for value in (*graph.input, *graph.output))
            else:
                self._taken.update(graph.input)
            # Types of values that are gone may still be noted.
            self._taken.update(value.name for value in graph.value_info)
            self._taken.update(body.names)
            self._taken.update(body.outputs)

    def new(self, wanted: str) -> str:
        """Return the name that is wanted, or the first numbered one that is free."""
        if wanted not in self._taken:
            self._taken.add(wanted)
            return wanted
        name, number = wanted, self._numbers.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        self._numbers[wanted] = number  # none below it will be free
        return name
