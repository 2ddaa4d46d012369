"""Run a single node: in onnxruntime, node by node, or by its numpy oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.runtimes import kernels
from opshift.passes.base.limits import Limits
from opshift.passes.proof.comparison import Excluded, Executor, Outputs
from opshift.passes.proof.integer_overflow import overflows
from opshift.passes.proof.pair import Oracle, Pair, constants_of
from opshift.passes.proof.signature import contradiction
from opshift.passes.runtime import ort_models, ort_opsets
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.oracles import are_few
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Runner

ORACLE = "numpy oracle"


def executor_of(
    runnable: Runnable, limits: Limits, *, kernels: bool = False, lean: bool = False
) -> tuple[Executor, str]:
    """Return an executor of a model and a note on it: in onnxruntime, otherwise node by node.

    Raises:
        RejectedError: onnxruntime does not load the model, for another reason than a missing opset or, unless it must
            have all `kernels`, a missing kernel.
    """
    try:
        fitting, note = ort_opsets.fit(runnable)
        runner = Runner(fitting, limits, lean=lean)
        runner.open(optimised=False)
    except RejectedError as error:
        missing = (RejectionKind.TOO_NEW,) if kernels else (RejectionKind.TOO_NEW, RejectionKind.MISSING_KERNEL)
        if error.why not in missing and not _complex(runnable.proto):
            raise
        return Interpreter(runnable, limits), f"nodes were run one by one, since {error}"
    return runner, note


def _complex(model: onnx.ModelProto) -> bool:
    """Return whether a model has complex inputs or constants, which onnxruntime does not support."""
    types = {value.type.tensor_type.elem_type for value in model.graph.input}
    types |= {tensor.data_type for tensor in model.graph.initializer}
    return bool(types & {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128})


class OracleExecutor:
    """An executor that runs a node's oracle."""

    name = ORACLE
    modes = (False,)

    def __init__(self, pair: Pair, oracle: Oracle, limits: Limits) -> None:
        """Store the oracle of a pair."""
        self._oracle = oracle
        self._limits = limits
        self._outputs = [value.name for value in pair.original.graph.output]
        self._constants = constants_of(pair.original)

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return the outputs of the node's oracle."""
        try:
            with np.errstate(all="ignore"):
                result = self._oracle({**self._constants, **feeds}, self._limits)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{type(error).__name__}: {error}") from error
        return tuple(np.asarray(result[output]) for output in self._outputs)

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return the outputs for each input."""
        return [ort_models.result_or_rejection(self.run, feeds, optimised) for feeds in batch]

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ShapeCheckedRunner:
    """An executor that runs onnxruntime, and checks its output shapes on empty inputs with onnx's inference.

    Scalars are checked by the oracle too: onnxruntime accepts axis 1 of a scalar.

    Some of its kernels are wrong for empty inputs (ArgMax of shape [0, 2] over axis -1 returns [0, 2]). The oracle then
    computes the outputs; without an oracle, the input is rejected. Inputs that only the kernels accept are also
    rejected: onnx rejects axis 1 of shape [0], and an oracle the maximum of an empty row, even without rows. The oracle
    checks every input of an operator that runs by ONNX's function body: a body of Reshape and the like accepts shapes
    that the specification excludes.
    """

    modes = (False, True)

    def __init__(self, pair: Pair, runner: Runner, limits: Limits) -> None:
        """Store the runner of a pair's original."""
        self.name = runner.name
        self._runner = runner
        self._model = pair.original
        self._outputs = tuple(value.name for value in pair.original.graph.output)
        self._oracles: tuple[OracleExecutor, ...] = ()
        if pair.oracle is not None:
            both = limits, dataclasses.replace(limits, inside=True)
            self._oracles = tuple(OracleExecutor(pair, pair.oracle, one) for one in both)
        node = pair.original.graph.node[0]
        foreign = bool(default_domain(node.domain))
        self._by_body = not foreign and kernels.runs_by_body(node.op_type, ort_models.opset(pair.original))

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return the correct outputs."""
        return self._checked(feeds, self._runner.run(feeds, optimised))

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return the correct outputs for each input."""
        found = self._runner.run_all(batch, optimised)
        return [
            one if isinstance(one, RejectedError) else ort_models.result_or_rejection(self._checked, feeds, one)
            for feeds, one in zip(batch, found, strict=False)
        ]

    def close(self) -> None:
        """Release the sessions."""
        self._runner.close()

    def _checked(self, feeds: Feeds, outputs: Outputs) -> Outputs:
        wrong = contradiction(self._model, feeds, dict(zip(self._outputs, outputs, strict=True)), strict=True)
        if wrong and not self._oracles:
            raise RejectedError(wrong)
        arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
        full = all(array.size and array.ndim for array in arrays)
        if not self._oracles or (full and not self._by_body):
            return outputs
        by_oracle = self._oracles[are_few((*feeds.values(), *outputs))].run(feeds, False)
        if full:
            return outputs
        # onnxruntime 1.32.0 leaves empty sums of products uninitialized (MatMulInteger); integers are exact.
        exact = all(one.dtype.kind in "iu" for one in by_oracle)
        return by_oracle if wrong or exact else outputs


def undefined_outputs(pair: Pair, limits: Limits, feeds: Feeds, optimised: bool) -> Excluded:
    """Return the outputs that do not count on an input.

    No output counts if integers overflow in the node, or if its oracle excludes the input: Einsum of onnxruntime 1.32.0
    repeats an axis of size 1 for a letter of another size. The same holds if onnxruntime 1.32.0 crashes: on recurrent
    operators without a batch, to which a form that it does not run may be rewritten.
    """
    node, values = pair.original.graph.node[0], {**constants_of(pair.original), **feeds}
    read = [values.get(name) for name in node.input]
    own = traits_of(node)
    undefined = overflows(node, read) or _excluded(pair, feeds, limits) or (own.aborts and _any_empty(read))
    undefined = undefined or (own.miscounts and has_empty_axis(read[0]))
    undefined = undefined or (own.meaningless is not None and own.meaningless(read))
    return Excluded(frozenset(value.name for value in pair.original.graph.output) if undefined else frozenset())


def has_empty_axis(value: object) -> bool:
    """Return whether an image has an axis without elements."""
    return isinstance(value, np.ndarray) and 0 in value.shape[2:]


def _any_empty(read: Sequence[object]) -> bool:
    return any(isinstance(one, np.ndarray) and not one.size for one in read)


def _excluded(pair: Pair, feeds: Feeds, limits: Limits) -> bool:
    if pair.oracle is None:
        return False
    try:
        OracleExecutor(pair, pair.oracle, limits).run(feeds, False)
    except RejectedError as error:
        return error.why is RejectionKind.REJECTED
    return False
