"""How far onnxruntime departs from itself on a model that a conversion leaves as it is.

A rewrite that only moves data is compared bit for bit. Yet the same node may run in another kernel at another opset
(Softsign of float16 at 18 and 19), or without one: the function body of Softplus of float16 overflows at 18, and the
kernel at 17 does not (onnxruntime 1.32.0). And a whole model may round where its nodes, run one by one, do not (float16
up to opset 17, where casts between two nodes are dropped). Where either is measured on an input, what rounding makes of
the original bounds the outputs, and what the other opset's kernels make of the original is as right; where neither is,
nothing may differ but the sign of a zero whose sign is not defined.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from opshift.opsets.registry.node_traits import selects
from opshift.passes.analysis.scopes import inlined
from opshift.passes.base.limits import Limits
from opshift.passes.proof.comparison import mismatch
from opshift.passes.proof.tolerance import EXACT, Bound, Bounds, Enough, loses_signs
from opshift.passes.runtime import ort_session
from opshift.passes.runtime.node_evaluator import Interpreter, bodies, outer_names, within
from opshift.passes.runtime.ort_session import Feeds, RejectedError, Runner, Source


class Drift:
    """The bounds of the outputs of a model whose rewrites are exact."""

    def __init__(self, before: Source, after: Source, limits: Limits) -> None:
        """Keep the models; nothing is run yet."""
        self._before, self._after, self._limits = before, after, limits
        self._bounds = Bounds(before, limits)

    @property
    def coarse(self) -> int:
        """On how many inputs nothing better was known than 8 units of the largest value."""
        return self._bounds.coarse

    def __call__(self, feeds: Feeds, outputs: Sequence[Any], enough: Enough) -> Sequence[Bound]:
        """Return the bound of each output; `enough` as for `Rounding.bounds`."""
        try:
            drifting, others = self._drifting(feeds)
        except RejectedError:
            drifting, others = self._rounding, tuple(outputs)  # it cannot be measured
        if not drifting:
            return self._signs

        def reached(bounds: Sequence[Bound]) -> list[Bound]:
            return [bound.reaching(*values) for bound, *values in zip(bounds, outputs, others, strict=True)]

        return reached(self._bounds(feeds, outputs, lambda found: enough(reached(found)), drifting))

    @functools.cached_property
    def _signs(self) -> tuple[Bound, ...]:
        """Which outputs depend on a zero whose sign is not defined."""
        lost: set[str] = set()
        graph = self._original.model.graph
        for node in graph.node:
            if loses_signs(node) or not lost.isdisjoint((*node.input, *outer_names(node))):
                lost.update(node.output)
        return tuple(Bound(unsigned=True) if value.name in lost else EXACT for value in graph.output)

    def _drifting(self, feeds: Feeds) -> tuple[frozenset[str], Sequence[Any]]:
        """Return the values of the original in which onnxruntime departs from itself on an input.

        Beside them are the outputs that the original has with the kernels of the rewritten model's opset.

        Raises:
            RejectedError: a model cannot be run node by node.
        """
        values = self._original.values(feeds)
        changed = [node for node, twin in self._unchanged if self._changes(node, twin, values)]
        others = self._with_other_kernels(feeds) if changed else values
        outputs = [others[value.name] for value in self._original.model.graph.output]
        if changed:
            return frozenset(name for node in changed for name in node.output), outputs
        departs = any(self._departs(source, way, feeds) for source, way in self._ways)
        return self._rounding if departs else frozenset(), outputs

    def _with_other_kernels(self, feeds: Feeds) -> Mapping[str, Any]:
        """Return the values of the original, each unchanged node run at the opset of the rewritten model.

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
        """The values of the original that are rounded."""
        return frozenset(name for node in self._original.model.graph.node if not selects(node) for name in node.output)

    def _changes(self, node: onnx.NodeProto, twin: onnx.NodeProto | None, values: Mapping[str, Any]) -> bool:
        """Return whether a node gives something else at the opset of the rewritten model."""
        if twin is None:  # nodes in its subgraphs were rewritten, which leaves the others there
            return not all(map(selects, (inner for body in bodies(node) for inner in within(body))))
        found = self._rewritten.node(twin, values)
        return any(mismatch(values[name], value) is not None for name, value in found.items())

    def _departs(self, source: Source, way: Interpreter, feeds: Feeds) -> bool:
        """Return whether a model as a whole, optimised or not, gives something else than its nodes one by one."""
        runner = Runner(ort_session.fit(source)[0], self._limits)
        expected = list(way.run(feeds))
        return any(mismatch(list(runner.run(feeds, optimised)), expected) is not None for optimised in (False, True))

    @functools.cached_property
    def _original(self) -> Interpreter:
        return Interpreter(replace(self._before, proto=inlined(self._before.proto), path=None), self._limits)

    @functools.cached_property
    def _ways(self) -> tuple[tuple[Source, Interpreter], ...]:
        return (self._before, self._original), (self._after, self._rewritten)

    @functools.cached_property
    def _rewritten(self) -> Interpreter:
        return Interpreter(
            replace(self._after, proto=inlined(self._after.proto), path=None), self._limits, strict=False
        )

    @functools.cached_property
    def _unchanged(self) -> list[tuple[onnx.NodeProto, onnx.NodeProto | None]]:
        """The nodes of the main graph that both models have, with the one in the rewritten model.

        None stands for the other node where nodes in its subgraphs were rewritten.
        """
        others = {tuple(node.output): node for node in self._rewritten.model.graph.node}
        found: list[tuple[onnx.NodeProto, onnx.NodeProto | None]] = []
        for node in self._original.model.graph.node:
            twin = others.get(tuple(node.output))
            if twin is not None and _stated(twin) == _stated(node):
                found.append((node, twin))
            elif twin is not None and twin.op_type == node.op_type and any(bodies(node)):
                found.append((node, None))
        return found


def _stated(node: onnx.NodeProto) -> tuple[Any, ...]:
    """Return what a node computes from what, apart from its opset."""
    attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    return node.domain, node.op_type, tuple(node.input), tuple(attributes)
