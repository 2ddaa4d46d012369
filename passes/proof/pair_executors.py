"""The ways to run a node that stands alone: in onnxruntime, node by node, or by its numpy oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.runtimes import kernels
from opshift.passes.base.limits import Limits
from opshift.passes.proof.comparison import Executor, Outputs
from opshift.passes.proof.integer_overflow import overflows
from opshift.passes.proof.pair import Oracle, Pair, constants_of
from opshift.passes.proof.signature import contradiction
from opshift.passes.runtime import ort_models, ort_opsets
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Runner

ORACLE = "numpy oracle"


def executor_of(source: Runnable, limits: Limits, *, kernels: bool = False, lean: bool = False) -> tuple[Executor, str]:
    """Return a way to run a model, and what is to be said about it: in onnxruntime, else node by node.

    Raises:
        RejectedError: onnxruntime does not load the model, for another reason than that it lacks an opset or, unless it
            must have all `kernels`, a kernel.
    """
    try:
        fitting, note = ort_opsets.fit(source)
        runner = Runner(fitting, limits, lean=lean)
        runner.open(optimised=False)
    except RejectedError as error:
        lacking = (RejectionKind.TOO_NEW,) if kernels else (RejectionKind.TOO_NEW, RejectionKind.MISSING_KERNEL)
        if error.why not in lacking and not _complex(source.proto):
            raise
        return Interpreter(source, limits), f"nodes were run one by one, since {error}"
    return runner, note


def _complex(model: onnx.ModelProto) -> bool:
    """Return whether a model has complex inputs or constants, of which onnxruntime has none."""
    types = {value.type.tensor_type.elem_type for value in model.graph.input}
    types |= {tensor.data_type for tensor in model.graph.initializer}
    return bool(types & {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128})


class OracleExecutor:
    """An executor that asks a node's oracle."""

    name = ORACLE
    modes = (False,)

    def __init__(self, pair: Pair, oracle: Oracle, limits: Limits) -> None:
        """Keep the oracle of a pair."""
        self._oracle = oracle
        self._limits = limits
        self._outputs = [value.name for value in pair.original.graph.output]
        self._constants = constants_of(pair.original)

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return the node's meaning in numpy."""
        try:
            with np.errstate(all="ignore"):
                result = self._oracle({**self._constants, **feeds}, self._limits)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{type(error).__name__}: {error}") from error
        return tuple(np.asarray(result[output]) for output in self._outputs)

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return the meaning for each."""
        return [ort_models.result_or_rejection(self.run, feeds, optimised) for feeds in batch]

    def close(self) -> None:
        """Nothing is open."""


class ShapeCheckedRunner:
    """onnxruntime, but for empty inputs on which the shapes that it gives contradict onnx's inference.

    Scalars are asked of the oracle too: onnxruntime takes axis 1 of one.

    Some of its kernels are wrong there (ArgMax of shape [0, 2] over axis -1 gives [0, 2]). The oracle takes over; where
    there is none the input is rejected. So is one that they accept and onnx does not (axis 1 of shape [0]), or that the
    oracle does not (the maximum of an empty row, where there are no rows). What runs by ONNX's function body is asked
    of the oracle on every input: a body of Reshape and the like runs on shapes that the operator's text excludes.
    """

    modes = (False, True)

    def __init__(self, pair: Pair, runner: Runner, limits: Limits) -> None:
        """Keep how the original of a pair is run."""
        self.name = runner.name
        self._runner = runner
        self._model = pair.original
        self._outputs = tuple(value.name for value in pair.original.graph.output)
        self._oracle = None if pair.oracle is None else OracleExecutor(pair, pair.oracle, limits)
        node = pair.original.graph.node[0]
        foreign = bool(default_domain(node.domain))
        self._by_body = not foreign and kernels.runs_by_body(node.op_type, ort_models.opset(pair.original))

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return what is right."""
        return self._checked(feeds, self._runner.run(feeds, optimised))

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return what is right for each."""
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
        if wrong and self._oracle is None:
            raise RejectedError(wrong)
        arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
        full = all(array.size and array.ndim for array in arrays)
        if self._oracle is None or (full and not self._by_body):
            return outputs
        by_oracle = self._oracle.run(feeds, False)
        if full:
            return outputs
        # Of sums of no products onnxruntime 1.32.0 leaves what memory holds (MatMulInteger); integers are exact.
        exact = all(one.dtype.kind in "iu" for one in by_oracle)
        return by_oracle if wrong or exact else outputs


def undefined_outputs(pair: Pair, limits: Limits, feeds: Feeds, optimised: bool) -> frozenset[str]:
    """Return the outputs that do not count on an input.

    All do not where the node cannot compute with its integers, or where its oracle says that the text excludes them:
    Einsum of onnxruntime 1.32.0 repeats an axis of size 1 for a letter of another size. Nor where onnxruntime 1.32.0
    ends the process: on recurrent operators of no batch, which a form that it does not run may be rewritten to.
    """
    node, values = pair.original.graph.node[0], {**constants_of(pair.original), **feeds}
    read = [values.get(name) for name in node.input]
    own = traits_of(node)
    undefined = overflows(node, read) or _excluded(pair, feeds, limits) or (own.aborts and _any_empty(read))
    undefined = undefined or (own.miscounts and has_empty_axis(read[0]))
    undefined = undefined or (own.meaningless is not None and own.meaningless(read))
    return frozenset(value.name for value in pair.original.graph.output) if undefined else frozenset()


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
