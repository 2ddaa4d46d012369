"""Infer facts about all values of a model, node by node from its inputs: types, shapes, and constant elements.

The declared type of a computed value is used only if it cannot be inferred: a declared shape may be that of another
batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Dim, Facts, array_of, constant, facts_of_tensor, facts_of_type
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import float_traits, is_firm, traits_of
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT, IF, UNBATCHED_SCAN
from opshift.opsets.registry.traits import IterationLayout, Trait
from opshift.passes.analysis.inference import infer, is_bounded
from opshift.passes.analysis.scopes import Array, Scope, default_opset, initializers, owner, unnamed, view
from opshift.passes.graph.limits import FOLDED
from opshift.passes.graph.traversal import attribute_key, named_subgraphs

Evaluate = Callable[[onnx.NodeProto, Sequence[Array | None]], Sequence[Array] | None]
"""Computes a node's outputs from constants; None if that is not possible."""

_ROUNDS = 4
"""The maximum number of passes over a body until its loop-carried values have the same shape before and after."""

KnownFacts = tuple[Facts, ...]


class ContradictionError(Exception):
    """A node does not accept the shapes of its inputs."""

    def __init__(self, node: onnx.NodeProto, reason: Reason) -> None:
        """Store the node, and the reason why its schema does not accept it."""
        super().__init__(str(reason))
        self.node = node
        self.reason = reason


def known_values(model: onnx.ModelProto, evaluate: Evaluate | None = None, *, strict: bool = False) -> Scope:
    """Return the facts about the values of the main graph and its subgraphs, elements included.

    The nodes of the model are sorted. Functions are not analyzed. `evaluate` computes nodes that no oracle computes
    exactly.

    Raises:
        ContradictionError: with `strict`, a node of the main graph does not accept the shapes of its inputs; a
            subgraph's node may never run.
    """
    walk = Propagation(model, evaluate, strict=strict)
    inputs: dict[str, Facts | None] = {value.name: _with_symbols(value) for value in model.graph.input}
    return walk.graph(model.graph, None, {**inputs, **initializers(model)})


class Propagation:
    """One walk over a model; each subgraph follows the outer values that it reads."""

    def __init__(self, model: onnx.ModelProto, evaluate: Evaluate | None, *, strict: bool = False) -> None:
        """Store a model with sorted nodes; `evaluate` and `strict` are as for `known_values`."""
        self._opset = default_opset(model.opset_import) or 1
        self._imported = {item.domain: item.version for item in model.opset_import}
        self._functions = {(item.domain, item.name, item.overload) for item in model.functions}
        self._evaluate = evaluate
        self._strict = strict
        self._found: dict[Hashable, KnownFacts | Reason] = {}
        self._large: dict[str, TensorProto] = {}
        """The constants that are not small, by name."""

    def graph(self, graph: onnx.GraphProto, outer: Scope | None, inputs: Mapping[str, Facts | None]) -> Scope:
        """Return the scope of a graph; `inputs` are the facts about its inputs."""
        own: dict[str, Facts | None] = dict(inputs)
        inner: dict[tuple[str, str], Scope] = {}
        scope = Scope(own, outer, inner)
        for tensor in graph.initializer:
            own.setdefault(tensor.name, facts_of_tensor(tensor))
            self._keep(tensor.name, tensor, own[tensor.name])
        declared = {value.name: value.type for values in (graph.value_info, graph.output) for value in values}
        fails = False
        for node in graph.node:
            foreign = self._is_foreign(node)
            found = self._node(node, scope, inner)
            if isinstance(found, Reason):
                by_shapes = not foreign and self._is_by_shapes(node, scope)
                fails = fails or by_shapes
                if by_shapes and self._strict and outer is None:
                    raise ContradictionError(node, found)
                found = tuple(Facts() for _ in node.output)
            for name, facts in zip(node.output, found, strict=False):
                if name:
                    own[name] = _completed(facts, declared.get(name), foreign=foreign)
        return Scope(own, outer, inner, fails)

    def _is_by_shapes(self, node: onnx.NodeProto, scope: Scope) -> bool:
        """Return whether a node that rejects its inputs would accept other shapes of the same types."""
        types = {name: Facts(facts.dtype) for name in node.input if name and (facts := scope[name]) is not None}
        return not isinstance(infer(view(node, Scope(dict(types)), self._opset)), Reason)

    def _is_foreign(self, node: onnx.NodeProto) -> bool:
        return bool(default_domain(node.domain)) or (node.domain, node.op_type, node.overload) in self._functions

    def _keep(self, name: str, tensor: TensorProto, facts: Facts | None) -> None:
        if facts is not None and facts.unread and tensor.data_location != TensorProto.EXTERNAL:
            self._large[name] = tensor

    # --- nodes ---

    def _node(
        self, node: onnx.NodeProto, scope: Scope, inner: MutableMapping[tuple[str, str], Scope]
    ) -> KnownFacts | Reason:
        """Return the facts about a node's outputs, or why it fails; its subgraphs' scopes are added to `inner`."""
        unknown = tuple(Facts() for _ in node.output)
        if any(attribute.ref_attr_name for attribute in node.attribute):
            return unknown
        if any(named_subgraphs(node)):
            return self._with_graphs(node, scope, inner) or unknown
        if (node.domain, node.op_type, node.overload) in self._functions:
            return unknown
        found = self._inferred(node, scope)
        if is_constant(node) and not isinstance(found, Reason):
            held = next((one.t for one in node.attribute if one.HasField("t")), TensorProto())
            self._keep(node.output[0], held, found[0])
        return found

    def _inferred(self, node: onnx.NodeProto, scope: Scope) -> KnownFacts | Reason:
        inputs = tuple(scope[name] if name else None for name in node.input)
        attributes = attribute_key(node)
        key = node.domain, node.op_type, attributes, inputs, tuple(map(bool, node.output))
        # For large constants, the key contains only their shapes.
        known = attributes is not None and not any(facts is not None and facts.unread for facts in inputs)
        if known and key in self._found:
            return self._found[key]
        typed_node = view(node, scope, self._opset, self._imported)
        found = infer(typed_node, FOLDED)
        if isinstance(found, Reason) and default_domain(node.domain):
            found = tuple(Facts() for _ in node.output)  # nodes of other domains are not checked here
        if not isinstance(found, Reason) and not is_constant(node):
            if traits_of(node).marks_quantization:
                found = tuple(map(_shaped, found))
            elif not is_firm(node):
                found = tuple(map(_without_floats, found))
            found = self._evaluated(node, typed_node, found) or found
        if known:
            self._found[key] = found
        return found

    def _evaluated(self, node: onnx.NodeProto, typed_node: Node, found: KnownFacts) -> KnownFacts | None:
        """Return the evaluated outputs of a node whose inputs are all constant."""
        if self._evaluate is None or default_domain(node.domain) or not _is_computable(node, typed_node, found):
            return None
        arrays = [self._elements(name, facts) for name, facts in zip(node.input, typed_node.inputs, strict=True)]
        if any(array is None and facts is not None for array, facts in zip(arrays, typed_node.inputs, strict=True)):
            return None
        made = self._evaluate(node, arrays)
        if made is None:
            return None
        rest = iter(made)
        return tuple(
            constant(next(rest), facts.dtype) if name else facts for name, facts in zip(node.output, found, strict=True)
        )

    def _elements(self, name: str, facts: Facts | None) -> Array | None:
        """Return the elements of a constant, even if it is not small."""
        if facts is None or not facts.unread:
            return None if facts is None else facts.known
        tensor = self._large.get(name)
        return None if tensor is None or (facts.size or 0) * 8 > FOLDED else array_of(tensor)

    # --- nodes with subgraphs ---

    def _with_graphs(
        self, node: onnx.NodeProto, scope: Scope, inner: MutableMapping[tuple[str, str], Scope]
    ) -> KnownFacts | Reason | None:
        place = owner(node)
        iteration = traits_of(node).iteration
        if node.op_type == IF and not default_domain(node.domain):
            found = []
            for name, graph in named_subgraphs(node):
                inside = inner[place, name] = self.graph(graph, scope, {})
                if not inside.fails:
                    found.append([inside[value.name] or Facts() for value in graph.output])
            return tuple(functools.reduce(joined, facts) for facts in zip(*found, strict=True)) or Reason(
                "neither branch accepts its inputs"
            )
        for name, graph in named_subgraphs(node):
            if iteration is None or default_domain(node.domain):
                inner[place, name] = self.graph(
                    graph, scope, {value.name: facts_of_type(value.type) for value in graph.input}
                )
                continue
            inner[place, name], known = self._iterated(node, graph, iteration, scope)
            return known
        return None

    def _iterated(
        self, node: onnx.NodeProto, body: onnx.GraphProto, iteration: IterationLayout, scope: Scope
    ) -> tuple[Scope, KnownFacts | None]:
        """Return the scope of the body of a Loop or a Scan, and the facts about the node's outputs."""
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute if one.name != "body"}
        count = attributes.get(iteration.scanned, 0) if iteration.scanned else 0
        if iteration.scanned and self._opset < UNBATCHED_SCAN:  # the sequences of Scan-8 have a leading batch axis
            declared = {value.name: facts_of_type(value.type) for value in body.input}
            return self.graph(body, scope, declared), None
        inputs = [scope[name] if name else None for name in node.input]
        carried = [_shaped(facts) for facts in inputs[iteration.inputs : len(inputs) - count]]
        axes = attributes.get("scan_input_axes") or [0] * count
        scanned = [_slice(facts, axis) for facts, axis in zip(inputs[len(inputs) - count :], axes, strict=True)]
        names = [value.name for value in body.input]
        # Inside an iteration, the condition is true.
        turns = [Facts(TensorProto.INT64, ()), constant(np.array(True))][: iteration.inputs]
        for _ in range(_ROUNDS):
            inside = self.graph(body, scope, dict(zip(names, [*turns, *carried, *scanned], strict=False)))
            made = [inside[value.name] or Facts() for value in body.output[iteration.outputs :]]
            after = [joined(one, _shaped(other)) for one, other in zip(carried, made, strict=False)]
            if after == carried:
                break
            carried = after
        else:
            carried = [Facts(facts.dtype) for facts in carried]
            inside = self.graph(body, scope, dict(zip(names, [*turns, *carried, *scanned], strict=False)))
            made = [inside[value.name] or Facts() for value in body.output[iteration.outputs :]]
        first = inputs[len(inputs) - count] if count else None
        length = first.dim(axes[0]) if first is not None else None
        if not iteration.scanned:
            length = _trips(inputs, inside[body.output[0].name])
        places = attributes.get("scan_output_axes") or [0] * len(made)
        lists = [_stacked(facts, length, axis) for facts, axis in zip(made[len(carried) :], places, strict=False)]
        return inside, (*carried, *lists)


def _trips(inputs: Sequence[Facts | None], again: Facts | None) -> int | None:
    """Return the number of a Loop's iterations if no condition ends it; `again` is the body's condition."""
    most, begins = (*inputs, None, None)[:2]
    conditions = [again, *([begins] if begins is not None else [])]
    if most is None or not all(one and one.known is not None and one.known.all() for one in conditions):
        return None
    return max(int(most.known.item()), 0) if most.known is not None and most.known.size == 1 else None


def is_constant(node: onnx.NodeProto) -> bool:
    """Return whether a node is a Constant."""
    return node.op_type == CONSTANT and not default_domain(node.domain)


def _with_symbols(value: onnx.ValueInfoProto) -> Facts:
    """Return the declared facts about an input, with a symbol for each dim without a name."""
    facts = facts_of_type(value.type)
    dims = facts.shape and tuple(unnamed(value.name, at) if dim is None else dim for at, dim in enumerate(facts.shape))
    return dataclasses.replace(facts, shape=dims)


def _is_computable(node: onnx.NodeProto, typed_node: Node, found: KnownFacts) -> bool:
    """Return whether a node of constants is deterministic and small enough, and does not dequantize weights."""
    if not node.input or Trait.RANDOM in float_traits(node) or traits_of(node).marks_quantization:
        return False
    if all(facts.known is not None for facts, used in zip(found, typed_node.used, strict=True) if used):
        return False
    if not all(facts is None or facts.is_constant for facts in typed_node.inputs):
        return False
    return all(facts.dtype for facts in found) and is_bounded(typed_node, found, FOLDED)


def _completed(facts: Facts, declared: onnx.TypeProto | None, *, foreign: bool) -> Facts:
    """Add declared facts: the type of a value, and the shape of an output from another domain's operator."""
    if declared is None or (facts.type and (facts.shape is not None or not foreign)):
        return facts
    known = facts_of_type(declared)
    shape = known.shape if foreign and facts.shape is None else facts.shape
    return dataclasses.replace(
        facts, dtype=facts.dtype or known.dtype, shape=shape, container=facts.container or known.container
    )


def _without_floats(facts: Facts) -> Facts:
    """Remove elements whose rounding depends on the kernel."""
    if facts.value is None or facts.value.array.dtype.kind not in "fcV":
        return facts
    return Facts(facts.dtype, facts.shape)


def _shaped(facts: Facts | None) -> Facts:
    """Return facts without elements."""
    return Facts() if facts is None else Facts(facts.dtype, facts.shape, container=facts.container)


def joined(one: Facts, other: Facts) -> Facts:
    """Return the common facts about two values."""
    if one == other:
        return one
    shape: tuple[Dim, ...] | None = None
    if one.shape is not None and other.shape is not None and len(one.shape) == len(other.shape):
        shape = tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True))
    dtype = one.dtype if one.dtype == other.dtype else None
    return Facts(dtype, shape, container=one.container if one.container == other.container else "")


def _slice(facts: Facts | None, axis: int) -> Facts:
    """Return the facts about the slices of a value along an axis."""
    if facts is None or facts.shape is None:
        return Facts(facts.dtype if facts else None)
    place = axis % len(facts.shape) if facts.shape else 0
    return Facts(facts.dtype, facts.shape[:place] + facts.shape[place + 1 :])


def _stacked(facts: Facts, length: Dim, axis: int) -> Facts:
    """Return the facts about slices stacked along an axis."""
    if facts.shape is None:
        return Facts(facts.dtype)
    place = axis % (len(facts.shape) + 1)
    return Facts(facts.dtype, (*facts.shape[:place], length, *facts.shape[place:]))


def is_static(facts: Facts) -> bool:
    """Return whether all dims of a value are known."""
    return facts.shape is not None and all(isinstance(dim, int) for dim in facts.shape)


def scopes_of(scope: Scope, graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, Scope]]:
    """Yield a graph and all its subgraphs, each with its scope."""
    yield graph, scope
    for node in graph.node:
        for name, inside in named_subgraphs(node):
            yield from scopes_of(scope.enter(node, name), inside)
