"""Inputs that have an initializer, which is their default."""

from __future__ import annotations

from collections.abc import Collection

import onnx

DEFAULTS = 4
"""The ir_version from which on an input that has an initializer can be fed something else."""


def defaults(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of the inputs that have an initializer."""
    given = {tensor.name for tensor in model.graph.initializer}
    return frozenset(value.name for value in model.graph.input if value.name in given) if given else frozenset()


def overridable(model: onnx.ModelProto) -> list[str]:
    """Return the inputs that a caller may feed or leave to their initializer: below ir_version 4 there are none."""
    names = defaults(model) if model.ir_version >= DEFAULTS else ()
    return [value.name for value in model.graph.input if value.name in names]


def without_inputs(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Remove the inputs of these names."""
    for index in range(len(model.graph.input) - 1, -1, -1):
        if model.graph.input[index].name in names:
            del model.graph.input[index]
