"""Handle inputs that have an initializer as their default."""

from __future__ import annotations

from collections.abc import Collection

import onnx

DEFAULTS = 4
"""The first ir_version in which a caller can override an input's initializer."""


def defaults(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of the inputs that have an initializer."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return (
        frozenset(value.name for value in model.graph.input if value.name in initializers)
        if initializers
        else frozenset()
    )


def overridable(model: onnx.ModelProto) -> list[str]:
    """Return the inputs whose initializer a caller may override: below ir_version 4 there are none."""
    names = defaults(model) if model.ir_version >= DEFAULTS else ()
    return [value.name for value in model.graph.input if value.name in names]


def without_inputs(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Remove the inputs with these names."""
    for index in range(len(model.graph.input) - 1, -1, -1):
        if model.graph.input[index].name in names:
            del model.graph.input[index]
