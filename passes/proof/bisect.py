"""Find the first node whose value differs between two models, and extract it from both as small models with one input.

Values are matched by name, or by their bits on the current input if names changed. A cut starts at values that are the
same in both models, so the difference arises inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opshift.opsets.registry.node_traits import traits_of
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.base.limits import Limits
from opshift.passes.graph.traversal import held_graphs, outer_names
from opshift.passes.proof.equality import differs
from opshift.passes.runtime.node_evaluator import type_of
from opshift.passes.runtime.ort_models import Feeds, Runnable
from opshift.passes.runtime.ort_session import Session

_EMBEDDED = 64 * 2**20  # maximum bytes of constants in a cut


@dataclass(frozen=True)
class Cut:
    """A part of two models that should compute the same: its node in the original, and both parts with the input."""

    node: str
    operator: str
    original: Runnable
    rewritten: Runnable
    feeds: Feeds


class Trace:
    """A model with all values of its main graph, and the nodes that compute them."""

    def __init__(self, runnable: Runnable, limits: Limits, *, optimised: bool = False) -> None:
        """Store the model; it is opened when values are first requested, with or without graph optimizations."""
        self.runnable = runnable
        self.nodes = list(runnable.proto.graph.node)
        self.maker = {name: index for index, node in enumerate(self.nodes) for name in node.output if name}
        self.constants = {tensor.name: tensor for tensor in runnable.proto.graph.initializer}
        self._limits = limits
        self._optimised = optimised

    @functools.cached_property
    def _session(self) -> Session:
        proto = onnx.ModelProto()
        proto.CopyFrom(self.runnable.proto)
        known = {value.name for value in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.maker if name not in known)
        return Session(
            replace(self.runnable, proto=proto, path=None, directory=_folder(self.runnable)),
            optimised=self._optimised,
            limits=self._limits,
        )

    def values(self, feeds: Feeds) -> dict[str, Any]:
        """Return every computed or fed value, by name.

        Raises:
            RejectedError: onnxruntime cannot return them.
        """
        session = self._session
        return {**feeds, **dict(zip(session.outputs, session.run(feeds), strict=True))}

    def reads(self, index: int) -> Iterator[str]:
        """Yield the names that a node and its subgraphs read."""
        node = self.nodes[index]
        yield from (name for name in node.input if name)
        yield from outer_names(node)

    def cone(self, name: str, stops: Collection[str]) -> tuple[list[int], list[str]]:
        """Return the nodes that compute a value from `stops` or inputs, in order, and their starting values.

        The value itself is computed even if it is a stop; constants are not starting values.
        """
        found: set[int] = set()
        leaves: dict[str, None] = {}
        waiting = [name]
        while waiting:
            value = waiting.pop()
            if value in self.constants:
                continue
            if value not in self.maker or (value in stops and value != name):
                leaves[value] = None
            elif self.maker[value] not in found:
                found.add(self.maker[value])
                waiting.extend(self.reads(self.maker[value]))
        return sorted(found), list(leaves)

    @functools.cached_property
    def types(self) -> Mapping[str, onnx.TypeProto]:
        """The inferable types of values, with the symbols of their dims."""
        proto = self.runnable.proto
        try:
            graph = infer_model(proto).graph
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
            graph = proto.graph
        return {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}

    def part(
        self,
        nodes: Sequence[int],
        inputs: Mapping[str, onnx.TypeProto],
        output: onnx.ValueInfoProto,
        renamed: Mapping[str, str],
    ) -> Runnable:
        """Return these nodes as a separate model; `renamed` renames its inputs and its output."""
        graph = onnx.GraphProto(name="part")
        graph.node.extend(self.nodes[index] for index in nodes)
        read = {name for index in nodes for name in self.reads(index)}
        graph.initializer.extend(tensor for name, tensor in self.constants.items() if name in read)
        for name, value_type in inputs.items():
            graph.input.add(name=name, type=value_type)
        graph.output.append(output)
        old = self.runnable.proto
        proto = helper.make_model(
            graph, opset_imports=old.opset_import, ir_version=old.ir_version, functions=list(old.functions)
        )
        _rename(proto.graph, renamed)
        return Runnable(proto, directory=_folder(self.runnable))


def _folder(runnable: Runnable) -> Any:
    """Return the directory of the external data."""
    return runnable.path.parent if runnable.directory is None and runnable.path is not None else runnable.directory


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values, also in subgraphs, which see the values of outer graphs."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for subgraph in held_graphs(attribute):
                own = {value.name for value in subgraph.input} | {
                    name for each in subgraph.node for name in each.output
                }
                _rename(subgraph, {old: new for old, new in names.items() if old not in own})
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)


def matches(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return, for values of the original, the name of a bit-identical value in the rewritten model."""
    found = {name: name for name, value in before.items() if name in after and _same(value, after[name])}
    by_bits: dict[Any, str] = {}
    for name, value in after.items():
        by_bits.setdefault(_bits(value), name)
    for name, value in before.items():
        if name not in found and name not in after and (other := by_bits.get(_bits(value))):
            found[name] = other
    return found


def _same(one: Any, other: Any) -> bool:
    return differs(one, other) is None


def _bits(value: Any) -> Any:
    """Return a key that bit-identical values share."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, tuple(value.reshape(-1)) if value.dtype == object else value.tobytes()
    return repr(value)


def first_differences(
    before: Trace, after: Trace, feeds: Feeds, differs: Callable[[Cut], bool], *, decisions: bool = False
) -> Iterator[Cut]:
    """Yield the parts of two models with equal inputs and different outputs on an input.

    A value's name may have another meaning in the rewritten model. So both must compute it from the same values. With
    `decisions`, it must be the output of an operator like ArgMax, because arithmetic may move behind another value.

    Raises:
        RejectedError: onnxruntime cannot return the values of one of the two.
    """
    wanted, found = before.values(feeds), after.values(feeds)
    same = matches(wanted, found)
    for index, node in enumerate(before.nodes):
        for name in node.output:
            if not name or name in same or name not in after.maker:
                continue
            if decisions and (not traits_of(node).decides or not _alike(wanted[name], found.get(name))):
                continue
            if not all(read in same or read in before.constants for read in before.reads(index)):
                continue
            cut = _cut(before, after, index, name, same, wanted, found, alike=True)
            if cut is not None and differs(cut):
                yield cut


def _alike(one: Any, other: Any) -> bool:
    arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return arrays and (one.dtype, one.shape) == (other.dtype, other.shape)


def _cut(
    before: Trace,
    after: Trace,
    index: int,
    name: str,
    same: Mapping[str, str],
    values: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    alike: bool = False,
) -> Cut | None:
    """Return both computations of a value from equal values, none of which depends on another.

    With `alike`, these must be the node's inputs.
    """
    stops = dict(same)
    while True:
        others = {other: own for own, other in stops.items() if own not in before.constants}
        nodes_after, leaves_after = after.cone(name, others)
        if not all(leaf in others for leaf in leaves_after):
            return None  # an input of the rewritten model only
        begin = {others[leaf] for leaf in leaves_after}
        nodes_before, leaves_before = before.cone(name, begin)
        inputs = [*dict.fromkeys((*leaves_before, *begin))]
        if alike and set(inputs) != {read for read in before.reads(index) if read not in before.constants}:
            return None
        dependent = [leaf for leaf in inputs if leaf in before.maker and _depends(before, leaf, inputs)]
        if not dependent:
            break
        for leaf in dependent:
            del stops[leaf]
    if any(leaf not in values for leaf in inputs) or name not in found:
        return None
    sizes = [tensor.ByteSize() for side in (before, after) for tensor in side.constants.values()]
    if sum(sizes) > _EMBEDDED and _folder(before.runnable) is None:
        return None
    types = {leaf: before.types.get(leaf) or type_of(values[leaf]) for leaf in inputs}
    node = before.nodes[index]
    renamed = {stops[leaf]: leaf for leaf in inputs if stops.get(leaf, leaf) != leaf}
    return Cut(
        f"main/{node.name or node.output[0]}",
        operator_label(before.runnable.proto, node),
        before.part(nodes_before, types, onnx.ValueInfoProto(name=name, type=type_of(values[name])), {}),
        after.part(
            nodes_after,
            {stops.get(leaf, leaf): value_type for leaf, value_type in types.items()},
            onnx.ValueInfoProto(name=name, type=type_of(found[name])),
            renamed,
        ),
        {leaf: values[leaf] for leaf in inputs},
    )


def _depends(side: Trace, leaf: str, others: Collection[str]) -> bool:
    """Return whether a value is computed from one of the others."""
    stops = {other for other in others if other != leaf}
    return any(found in stops for found in side.cone(leaf, stops)[1])


def operator_label(model: onnx.ModelProto, node: onnx.NodeProto) -> str:
    """Return `Hardmax-13`, or the name with its domain if onnx does not know the operator."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    opset = next((entry.version for entry in model.opset_import if entry.domain in (domain, node.domain)), 0)
    try:
        return f"{node.op_type}-{onnx.defs.get_schema(node.op_type, opset, domain).since_version}"
    except onnx.defs.SchemaError:
        return f"{domain}.{node.op_type}" if domain else node.op_type


def unoptimised_agree(before: Trace, after: Trace, feeds: Feeds, differs: Callable[[Cut], bool]) -> Cut | None:
    """Return a small part that differs although all values are the same with graph optimizations off.

    `differs` runs with graph optimizations. Bisection finds the value; then the part's start moves back until the part
    differs again, because it must contain the fused nodes.

    Raises:
        RejectedError: onnxruntime cannot return the values of one of the two.
    """
    wanted, found = before.values(feeds), after.values(feeds)
    same = matches(wanted, found)
    names = [name for node in before.nodes for name in node.output if name in same and same[name] == name]
    inputs = {name: name for name in feeds}

    def whole(name: str) -> Cut | None:
        return _cut(before, after, before.maker[name], name, inputs, wanted, found)

    low, high = 0, len(names) - 1
    while low < high:
        middle = (low + high) // 2
        cut = whole(names[middle])
        low, high = (low, middle) if cut is not None and differs(cut) else (middle + 1, high)
    if not names:
        return None
    best = whole(names[low])
    if best is None or not differs(best):
        return None
    for start in (low - 1, low - 2, low - 4, low - 8, low - 16, low - 32):
        if start < 0:
            break
        stops = {name: name for name in (*inputs, *names[: start + 1])}
        cut = _cut(before, after, before.maker[names[low]], names[low], stops, wanted, found)
        if cut is not None and differs(cut):
            return cut
    return best
