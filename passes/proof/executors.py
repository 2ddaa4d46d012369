"""Create the executors of the two models of a comparison, and the bounds of their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.passes.base.effort import Allowance
from opshift.passes.base.limits import Limits
from opshift.passes.proof.comparison import Comparison, Executor, Reference
from opshift.passes.proof.kernel_drift import KernelDrift
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.pair_executors import executor_of
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.proof.undefined_behavior import UndefinedFilter
from opshift.passes.runtime import ort_models
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import RejectedError, Runnable
from opshift.passes.runtime.ort_session import Runner


@dataclass(frozen=True)
class Executors:
    """Runs an original and a rewritten model, or the same part of both.

    Attributes:
        exact: outputs must be equal bit for bit.
        drift: with `exact`, ignore differences between onnxruntime's own kernels at two opsets.
        by_oracle: operators whose numpy oracle is the reference: then both models run node by node.
        lean: one session is open at a time.
    """

    pairs: Sequence[Pair]
    limits: Limits
    allowance: Allowance
    exact: bool = False
    drift: bool = False
    by_oracle: frozenset[str] = frozenset()
    lean: bool = False

    def reference(self, original: Runnable, rewritten: Runnable) -> Reference:
        """Return the whole original as the reference of a rewritten model.

        Raises:
            RejectedError: onnxruntime does not load the original.
        """
        outputs = tuple(value.name for value in original.proto.graph.output)
        way, note = self._executor(original)
        bounds = self._bounds(original, rewritten)
        opening = way.open(optimised=False).opening if isinstance(way, Runner) else 0.0
        return Reference(way, outputs, note and f"the original's {note}", bounds, self.lean, opening)

    def rewritten(self, runnable: Runnable, reference: Reference) -> tuple[Executor, str]:
        """Return the executor of the rewritten model: like the original's, so that the same kernels and oracles run.

        Raises:
            RejectedError: onnxruntime does not load it, or lacks a kernel although it has all of the original's.
        """
        if isinstance(reference.executor, Runner):
            return executor_of(runnable, self.limits, kernels=True, lean=self.lean)
        way, note = self._executor(runnable)
        if isinstance(way, Interpreter):
            return way, note
        return Interpreter(runnable, self.limits, strict=False), note

    def load(self, original: Runnable, rewritten: Runnable) -> None:
        """Open both models in onnxruntime: running node by node does not detect invalid types.

        Raises:
            RejectedError: onnxruntime loads only the original.
        """
        try:
            executor_of(original, self.limits, lean=self.lean)[0].close()
        except RejectedError:
            return
        executor_of(rewritten, self.limits, lean=self.lean)[0].close()

    def compare(self, original: Runnable, rewritten: Runnable) -> Comparison:
        """Return the comparison of a part or a variant of both models."""
        outputs = tuple(value.name for value in original.proto.graph.output)
        reference = Reference(self._executor(original)[0], outputs, "", self._bounds(original, rewritten))
        excluded = UndefinedFilter(original, self.pairs, self.limits, reference.executor)
        return Comparison(reference, self.rewritten(rewritten, reference)[0], excluded, allowance=self.allowance)

    def _bounds(self, original: Runnable, rewritten: Runnable) -> Bounds | KernelDrift | None:
        """Return the bounds for both models, or for a part of both; None: no differences are accepted."""
        if self.exact:
            return KernelDrift(original, rewritten, self.limits) if self.drift else None
        unsigned = _drops_signs(original.proto, rewritten.proto)
        approximate = any(pair.approximate for pair in self.pairs)
        return Bounds(original, self.limits, unsigned=unsigned, approximate=approximate)

    def _executor(self, runnable: Runnable) -> tuple[Executor, str]:
        if self.by_oracle:
            return Interpreter(runnable, self.limits, self.by_oracle, "spec"), ""
        return executor_of(runnable, self.limits, lean=self.lean)


def _drops_signs(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> bool:
    """Return whether only one of two models has a node whose kernel drops the sign of a zero."""
    before, after = (
        {node.op_type for node in ort_models.nodes(one) if traits_of(node).drops_signs} for one in (original, rewritten)
    )
    return before != after
