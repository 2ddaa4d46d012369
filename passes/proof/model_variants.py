"""Compare models for identity, and remove some of their parts."""

from __future__ import annotations

import contextlib
import dataclasses
import filecmp
import math
from collections.abc import Collection, Mapping
from typing import Any

import onnx

from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import operator_for
from opshift.opsets.runtimes.kernels import runs_by_body
from opshift.passes.graph.traversal import names_read
from opshift.passes.io import external_data
from opshift.passes.io.repairs import repair
from opshift.passes.proof.inputs import generator
from opshift.passes.runtime import ort_models
from opshift.passes.runtime.ort_models import Runnable


def same(before: Runnable, after: Runnable) -> bool:
    """Return whether two models of one folder are identical; large weights may have stayed in two files."""
    if before.directory != after.directory:
        return False
    if before.proto == after.proto:
        return True
    if before.path is None or after.path is None or not any(map(external_data.is_span, before.proto.graph.initializer)):
        return False
    with contextlib.suppress(OSError):
        return filecmp.cmp(before.path, after.path, shallow=False)
    return False


def with_own_names(runnable: Runnable) -> Runnable:
    """Return a model with unique node names: onnxruntime refuses duplicates, which ONNX permits."""
    names = [node.name for node in runnable.proto.graph.node if node.name]
    if len(set(names)) == len(names):
        return runnable
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    repair(proto)
    return dataclasses.replace(runnable, proto=proto, path=None)


def decided_as(before: onnx.ModelProto, after: onnx.ModelProto) -> onnx.ModelProto:
    """Return the original model with the choices that the rewritten one made where the specification permits several.

    An example is TopK without an order, in place of which there is a sorted one. What both leave open, both choose as
    the installed onnxruntime does.
    """
    open_before, open_after = _open(before), _open(after)
    if len(open_before) <= len(open_after):
        return before
    proto = onnx.ModelProto()
    proto.CopyFrom(before)
    for node in ort_models.nodes(proto):
        if tuple(node.output) in open_before - open_after:
            chosen = traits(node.op_type).decided
            kept = [attribute for attribute in node.attribute if attribute.name not in chosen]
            del node.attribute[:]
            node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in chosen.items())])
    return proto


def _open(model: onnx.ModelProto) -> set[tuple[str, ...]]:
    """Return the outputs of each node with an attribute that leaves the result open."""
    named = {node.op_type for node in ort_models.nodes(model) if node.domain in ("", "ai.onnx")}
    chosen = {name: traits(name).decided for name in named if traits(name).decided}
    nodes = (node for node in ort_models.nodes(model) if node.op_type in chosen) if chosen else ()
    return {
        tuple(node.output) for node in nodes if any(_leaves_open(one, chosen[node.op_type]) for one in node.attribute)
    }


def _leaves_open(attribute: onnx.AttributeProto, chosen: Mapping[str, Any]) -> bool:
    if attribute.name not in chosen or attribute.ref_attr_name:
        return False
    return bool(onnx.helper.get_attribute_value(attribute) != chosen[attribute.name])


def optional_inputs(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of small inputs that have an initializer."""
    if model.ir_version < 4:
        return frozenset()
    small = {tensor.name for tensor in model.graph.initializer if math.prod(tensor.dims) <= 2**16}
    return frozenset(value.name for value in model.graph.input if value.name in small)


def without_initializers(runnable: Runnable, names: Collection[str]) -> Runnable:
    """Return a model without these initializers."""
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return dataclasses.replace(runnable, proto=proto, path=None)


def without_outputs(runnable: Runnable, names: Collection[str]) -> Runnable:
    """Return a model without these outputs, and without the nodes that only they need."""
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    graph = proto.graph
    kept = [value for value in graph.output if value.name not in names]
    del graph.output[:]
    graph.output.extend(kept)
    wanted = {value.name for value in kept}
    for place in range(len(graph.node) - 1, -1, -1):
        node = graph.node[place]
        if wanted.isdisjoint(node.output):
            del graph.node[place]
        else:
            wanted.update(names_read(node))
    return dataclasses.replace(runnable, proto=proto, path=None)


def weights(runnable: Runnable) -> int:
    """Return the approximate size of a model's weights in bytes, including those on disk."""
    return sum(
        math.prod(tensor.dims) * max(1, generator.np_dtype(tensor.data_type).itemsize)
        for tensor in runnable.proto.graph.initializer
    )


def departing_operators(model: onnx.ModelProto) -> frozenset[str]:
    """Return the operators of a model for which onnxruntime differs from the specification."""
    named = {node.op_type for node in ort_models.nodes(model) if node.domain in ("", "ai.onnx")}
    known = (operator for name in sorted(named) if (operator := operator_for("", name)))
    return frozenset(operator.name for operator in known if any(version.spec for version in operator.versions))


def unchecked_operators(model: onnx.ModelProto) -> frozenset[str]:
    """Return the operators that onnxruntime runs on inputs that their specifications exclude.

    It runs them by ONNX's function body, or a kernel does not check its inputs.
    """
    names = {node.op_type for node in ort_models.nodes(model) if node.domain in ("", "ai.onnx")}
    version = ort_models.opset(model)
    known = {name for name in names if operator_for("", name) is not None}
    return frozenset(name for name in known if traits(name).unchecked or runs_by_body(name, version))
