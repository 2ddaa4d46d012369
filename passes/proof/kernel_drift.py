"""Measure the difference between onnxruntime's own kernels on operators that a conversion leaves unchanged.

A rewrite that only moves data is compared bit for bit. Yet the same node may run in another kernel at another opset
(Softsign of float16 at 18 and 19), or without one: the function body of Softplus of float16 overflows at 18, and the
kernel at 17 does not (onnxruntime 1.32.0). A whole model may also round differently from its nodes run one by one
(float16 up to opset 17, where casts between two nodes are dropped). If one of these is measured on an input, the
outputs are bounded by the original's rounding, and the original's outputs with the other opset's kernels are as right.
Otherwise only the undefined signs of zeros may differ.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import selects, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT, IDENTITY, IF
from opshift.passes.analysis.scopes import inlined
from opshift.passes.base.limits import Limits
from opshift.passes.graph.traversal import nested_nodes, outer_names, subgraphs
from opshift.passes.proof.equality import differs
from opshift.passes.proof.rounding.bound import EXACT, Bound, Enough
from opshift.passes.proof.rounding.wide_nodes import loses_signs
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.runtime import ort_opsets
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable
from opshift.passes.runtime.ort_session import Runner


class KernelDrift:
    """The bounds of the outputs of a model whose rewrites are exact."""

    def __init__(self, before: Runnable, after: Runnable, limits: Limits) -> None:
        """Store the models; nothing is run yet."""
        self._before, self._after, self._limits = before, after, limits
        self._bounds = Bounds(before, limits)

    @property
    def coarse(self) -> int:
        """The number of inputs for which only the bound of 8 units of the largest value was known."""
        return self._bounds.coarse

    def __call__(self, feeds: Feeds, outputs: Sequence[Any], enough: Enough) -> Sequence[Bound]:
        """Return the bound of each output; `enough` as for `Rounding.bounds`."""
        try:
            drifting, others = self._drifting(feeds)
        except RejectedError:
            drifting, others = self._rounding, tuple(outputs)  # rounding cannot be measured
        if not drifting:
            return self._signs

        def reached(bounds: Sequence[Bound]) -> list[Bound]:
            found = [bound.reaching(*values) for bound, *values in zip(bounds, outputs, others, strict=True)]
            signs = zip(found, self._signs, strict=True)
            return [replace(bound, unsigned=bound.unsigned or sign.unsigned) for bound, sign in signs]

        return reached(self._bounds(feeds, outputs, lambda found: enough(reached(found)), drifting))

    @functools.cached_property
    def _signs(self) -> tuple[Bound, ...]:
        """The outputs that depend on a zero of undefined sign."""
        lost: set[str] = set()
        graph = self._original.model.graph
        for node in graph.node:
            own = (node, *(one for subgraph in subgraphs(node) for one in nested_nodes(subgraph)))
            loses = loses_signs(node) or any(map(self._is_chosen, own))
            if loses or not lost.isdisjoint((*node.input, *outer_names(node))):
                lost.update(node.output)
        return tuple(Bound(unsigned=True) if value.name in lost else EXACT for value in graph.output)

    def _is_chosen(self, node: onnx.NodeProto) -> bool:
        """Return whether a node is an If that became a Where, or a Where that was replaced.

        Where changes -0.0 to 0.0 (onnxruntime 1.32.0).
        """
        drops = traits_of(node).drops_signs
        if default_domain(node.domain) or not (drops or node.op_type == IF):
            return False
        if (node.op_type, tuple(node.output)) in self._remaining:
            return False
        return drops or any(traits_of(other).drops_signs for other in nested_nodes(self._rewritten.model.graph))

    @functools.cached_property
    def _remaining(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """The operators and outputs of the nodes of the rewritten model."""
        return frozenset((node.op_type, tuple(node.output)) for node in nested_nodes(self._rewritten.model.graph))

    def _drifting(self, feeds: Feeds) -> tuple[frozenset[str], Sequence[Any]]:
        """Return the original's values on an input for which onnxruntime's own kernels differ.

        Also return the original's outputs with the kernels of the rewritten model's opset.

        Raises:
            RejectedError: a model cannot be run node by node.
        """
        values = self._original.values(feeds)
        changed = [node for node, twin in self._unchanged if self._changes(node, twin, values)]
        others = self._with_other_kernels(feeds) if changed else values
        outputs = [others[value.name] for value in self._original.model.graph.output]
        if changed:
            return frozenset(name for node in changed for name in node.output), outputs
        departs = any(self._departs(runnable, way, feeds) for runnable, way in self._ways)
        return self._rounding if departs else frozenset(), outputs

    def _with_other_kernels(self, feeds: Feeds) -> Mapping[str, Any]:
        """Return the original's values, with each unchanged node run at the opset of the rewritten model.

        Raises:
            RejectedError: a node does not run.
        """
        values = {**self._original.constants, **feeds}
        twins = {tuple(node.output): twin for node, twin in self._unchanged}
        for node in self._original.model.graph.node:
            twin = twins.get(tuple(node.output))
            values.update(self._original.node(node, values) if twin is None else self._rewritten.node(twin, values))
        return values

    @functools.cached_property
    def _rounding(self) -> frozenset[str]:
        """The rounded values of the original."""
        return frozenset(name for node in self._original.model.graph.node if not selects(node) for name in node.output)

    def _changes(self, node: onnx.NodeProto, twin: onnx.NodeProto | None, values: Mapping[str, Any]) -> bool:
        """Return whether a node's outputs differ at the opset of the rewritten model."""
        if twin is None:  # nodes in its subgraphs were rewritten, so the other nodes there stay
            return not all(map(selects, (inner for subgraph in subgraphs(node) for inner in nested_nodes(subgraph))))
        found = self._rewritten.node(twin, values)
        return any(differs(values[name], value) is not None for name, value in found.items())

    def _departs(self, runnable: Runnable, way: Interpreter, feeds: Feeds) -> bool:
        """Return whether a whole model, optimized or not, differs from its nodes run one by one."""
        runner = Runner(ort_opsets.fit(runnable)[0], self._limits)
        expected = list(way.run(feeds))
        return any(differs(list(runner.run(feeds, optimised)), expected) is not None for optimised in (False, True))

    @functools.cached_property
    def _original(self) -> Interpreter:
        return Interpreter(replace(self._before, proto=inlined(self._before.proto), path=None), self._limits)

    @functools.cached_property
    def _ways(self) -> tuple[tuple[Runnable, Interpreter], ...]:
        return (self._before, self._original), (self._after, self._rewritten)

    @functools.cached_property
    def _rewritten(self) -> Interpreter:
        return Interpreter(
            replace(self._after, proto=inlined(self._after.proto), path=None), self._limits, strict=False
        )

    @functools.cached_property
    def _unchanged(self) -> list[tuple[onnx.NodeProto, onnx.NodeProto | None]]:
        """The nodes of the main graph that both models have, paired with those of the rewritten model.

        The other node is None if nodes in its subgraphs were rewritten, or written out in place of it: they may round
        otherwise where their operands are elsewhere in memory (ReduceMean in a Scan, onnxruntime 1.32.0).
        """
        others = {tuple(node.output): node for node in self._rewritten.model.graph.node}
        before, after = _origins(self._original), _origins(self._rewritten)
        found: list[tuple[onnx.NodeProto, onnx.NodeProto | None]] = []
        for node in self._original.model.graph.node:
            twin = others.get(tuple(node.output))
            if twin is not None and _stated(twin, after) == _stated(node, before):
                found.append((node, twin))
            elif any(subgraphs(node)) and (traits_of(node).iteration or (twin and twin.op_type == node.op_type)):
                found.append((node, None))
        return found


def _stated(node: onnx.NodeProto, origins: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a node's computation and the sources of its inputs, without its opset."""
    attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    return node.domain, node.op_type, tuple(origins.get(name, name) for name in node.input), tuple(attributes)


def _origins(model: Interpreter) -> Mapping[str, Any]:
    """Return the sources of values that may be renamed in another model: constants, and copies of values."""
    found: dict[str, Any] = {name: _content(value) for name, value in model.constants.items()}
    for node in model.model.graph.node:
        if node.op_type == CONSTANT and not default_domain(node.domain):
            found[node.output[0]] = _content(model.node(node, {})[node.output[0]])
        elif node.op_type == IDENTITY and not default_domain(node.domain):
            found[node.output[0]] = found.get(node.input[0], node.input[0])
    return found


def _content(value: Any) -> Any:
    """Return the content of a constant as a key; a digest for large ones, to save memory."""
    if not isinstance(value, np.ndarray):
        return value
    elements = tuple(value.reshape(-1)) if value.dtype == np.object_ else hashlib.sha256(value.tobytes()).digest()
    return str(value.dtype), value.shape, elements
