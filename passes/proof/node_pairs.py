"""Compare each lowered node with its original, both as models of their own.

Random values fed to a whole model hardly ever reach the corners of a node in its middle.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.runtimes import kernels
from opshift.passes.analysis.model_summary import summary
from opshift.passes.analysis.scopes import versions
from opshift.passes.base.arguments import Progress
from opshift.passes.base.effort import LEAST_OF_NODE, LEAST_OF_REPEATED, Allowance
from opshift.passes.base.errors import OpshiftError, printable
from opshift.passes.base.limits import Limits
from opshift.passes.base.results import Check, Counterexample, Coverage, Verdict
from opshift.passes.proof.canonical import canonical, without_weights
from opshift.passes.proof.comparison import Comparison, Executor, Mismatch, Outputs, Reference, sentence
from opshift.passes.proof.coverage import CoverageCounter
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.inputs.generator import Draft, Rng, Shape, UntestableError
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import hints, repairer
from opshift.passes.proof.inputs.trials import Budget, Trials, Values, find_trials
from opshift.passes.proof.inputs.value_classes import counted, summed
from opshift.passes.proof.integer_overflow import overflows
from opshift.passes.proof.kernel_drift import KernelDrift
from opshift.passes.proof.kernel_faults import miscomputed
from opshift.passes.proof.randomness import random_outputs
from opshift.passes.proof.signature import contradiction, interface_difference
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime import ort_models, ort_opsets, ort_process
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Array, Feeds, RejectedError, RejectionKind, Runnable
from opshift.passes.runtime.ort_session import Runner

Oracle = Callable[[Feeds, Limits], Mapping[str, Array]]
Adversarial = Callable[[Rng, Feeds], Feeds]
Shown = Callable[[onnx.ModelProto, onnx.ModelProto, Mismatch, bool], str]
"""Is told of two small models that differ, and whether bit for bit, and returns the command that shows it."""

ORACLE = "numpy oracle"
_TYPES = 5  # element types tried where the type is not known

ENOUGH = 5
"""Comparisons of nodes that find a difference, after which no other node is compared."""


@dataclass(frozen=True)
class Pair:
    """A lowered node as a model of its own, and its replacement as one.

    Attributes:
        node: the node's path, for people.
        operator: such as `Hardmax-13`.
        original: a model of that one node. Graph inputs are typed as far as is known: the element type may be
            UNDEFINED, the shape absent (unknown rank) or partly symbolic; constants are initializers.
        rewritten: the replacement, with the same inputs and outputs, at any opset.
        oracle: the operator's meaning in numpy: from values by input name, the constants among them, to values by
            output name, within limits. It judges where onnxruntime has no kernel for the original, and always under
            "spec". It raises RejectedError, ValueError, IndexError or TypeError for inputs that the operator does not
            accept.
        adversarial: the operator's own inputs: from a generator and a draft of all values, returns adversarial values
            for this operator. The constants are among them, as read-only arrays: they stay as they are. None: the
            generic draft is fed.
        exclude_nan: the result on NaN is not defined, or not kept: none is fed.
        finite: the same for the infinities.
        whole: the same for floats that are not whole numbers, in the first input.
        exact: equal is bit for bit, but for what onnxruntime departs from itself by (drift.py); otherwise within what
            rounding alone makes of the original (rounding.py).
        longest: no dim that is longer is fed: the replacement needs memory that grows with its square.
        approximate: the replacement is off by as much as the operator's traits and `approximate` allow.
    """

    node: str
    operator: str
    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    oracle: Oracle | None = None
    adversarial: Adversarial | None = None
    exclude_nan: bool = False
    finite: bool = False
    whole: bool = False
    exact: bool = True
    longest: int | None = None
    approximate: bool = False


def compare_pairs(
    pairs: Sequence[Pair],
    *,
    seed: int = 0,
    semantics: str = "runtime",
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    allowance: Allowance | None = None,
    progress: Progress | None = None,
    shown: Shown = lambda original, rewritten, mismatch, exact: "",
) -> tuple[Check, ...]:
    """Compare each pair; those that differ in names alone are compared once and share the verdict.

    The first pair of a kind has a larger part of the effort than others that differ from it in their weights alone, and
    the first of an operator than its further kinds: the n-th has an n-th.
    `allowance` tells the effort and its end; None: normal effort. After ENOUGH comparisons that found a difference the
    nodes that are left are not compared.

    Raises:
        UsageError: onnxruntime is not installed.
    """
    ort_models.runtime()
    allowance = allowance or Allowance(ort_process.seconds)
    known: dict[tuple[object, ...], tuple[Check, dict[str, str]]] = {}
    kinds = set[tuple[bytes, bytes]]()
    alike = Counter[str]()
    checks, different = [], 0
    for done, pair in enumerate(pairs, 1):
        renamed, names = canonical(pair.original, pair.rewritten)
        asked = pair.exclude_nan, pair.finite, pair.whole, pair.exact, pair.oracle is None, pair.adversarial is None
        key = (*renamed, pair.operator, *asked, pair.approximate)
        if key not in known and different == ENOUGH:
            reason = f"it was not compared, since {ENOUGH} other nodes differ"
            checks.append(Check(pair.node, pair.operator, Verdict.UNCHECKED, reason, "", 0))
            continue
        if key not in known:
            kind = without_weights(renamed)
            alike[pair.operator] += kind not in kinds
            least = LEAST_OF_REPEATED if kind in kinds else LEAST_OF_NODE
            own = allowance.part(least, 1 / alike[pair.operator])
            kinds.add(kind)
            comparison = PairComparison(pair, seed, semantics, limits, own, shown)
            known[key] = comparison.check(), {new: old for old, new in names.items()}
            different += known[key][0].verdict is Verdict.DIFFERENT
        check, originals = known[key]
        checks.append(_shared(check, pair, {originals[new]: old for old, new in names.items() if new in originals}))
        if progress:
            progress("nodes", done, len(pairs))
    return tuple(checks)


@dataclass(frozen=True)
class PairComparison:
    """The comparison of one pair."""

    pair: Pair
    seed: int
    semantics: str
    limits: Limits
    allowance: Allowance
    shown: Shown

    def check(self) -> Check:
        """Compare the pair, for a few element types where they are not known."""
        pair = self.pair
        if random_outputs(pair.original):
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, "it draws random numbers", "", 0)
        equal: list[Check] = []
        unserved: list[str] = []
        failure = "onnxruntime cannot be fed any element type that the operator takes"
        try:
            for types in generator.guesses(pair.original, versions(pair.rewritten)[""]):
                original, rewritten = _typed(pair.original, types), _typed(pair.rewritten, types)
                check = self._typed(dataclasses.replace(pair, original=original, rewritten=rewritten), bool(equal))
                if types and _MISSING in check.reason:
                    unserved.append(f"{_type_names(types)}: {check.reason}")
                elif check.verdict is Verdict.DIFFERENT:
                    return check
                elif check.verdict is Verdict.UNCHECKED:
                    failure = check.reason
                else:
                    equal.append(check)
                if len(equal) == _TYPES:
                    break
        except (UntestableError, RejectedError) as error:
            failure = str(error)
        except MemoryError as error:
            failure = f"opshift ran out of memory while it compared the node ({error})"
        except OpshiftError:
            raise
        except Exception as error:
            failure = failed(error)
        if not equal:
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, "; ".join(unserved) or failure, "", 0)
        return Check(
            pair.node,
            pair.operator,
            Verdict.EQUAL,
            "; ".join(dict.fromkeys(filter(None, (*(check.reason for check in equal), *unserved)))),
            " and ".join(dict.fromkeys(check.judge for check in equal)),
            sum(check.inputs for check in equal),
            None,
            summed(check.classes for check in equal),
            sum((check.coverage for check in equal), Coverage()),
        )

    def _typed(self, pair: Pair, again: bool) -> Check:
        """Compare a pair whose element types are all set; `again` says that it was equal for others, and tries less.

        Raises:
            UntestableError: no inputs can be made.
        """

        def unchecked(reason: str) -> Check:
            return Check(pair.node, pair.operator, Verdict.UNCHECKED, reason, "", 0)

        mismatch = interface_difference(pair.original, pair.rewritten)
        if mismatch:
            return Check(pair.node, pair.operator, Verdict.DIFFERENT, mismatch, "", 0)
        try:
            reference = self._reference(pair)
        except RejectedError as error:
            return unchecked(f"onnxruntime does not run the original: {error}")
        draft = _draft(pair)
        most = math.inf if pair.longest is None else pair.longest
        long = [
            sizes
            for sizes in generator.long_sizes(draft.specs)
            if all(dim <= most for shape in sizes.values() for dim in shape)
        ]
        complaints: list[str] = []
        values = _values(draft, pair, np.random.default_rng(self.seed), complaints)
        trials = self._trials(pair, draft, values, reference, () if again else long, 50 if again else 100)
        ran = isinstance(reference.executor, _ShapeCheckedRunner)
        if (
            not trials.accepted
            and not trials.fatal
            and pair.oracle
            and isinstance(reference.executor, _ShapeCheckedRunner)
        ):
            # Mod-28 of floats with fmod 0 loads as Mod-13, and is then run on nothing (onnxruntime 1.31.1).
            note = f"onnxruntime runs the original on no input: {trials.rejection}"
            reference = Reference(
                _OracleExecutor(pair, pair.oracle, self.limits), reference.outputs, note, reference.bounds
            )
            trials = self._trials(pair, draft, values, reference, () if again else long, 50 if again else 100)
        if not trials.accepted:
            return unchecked(f"the original ran on none of {trials.tried} inputs: {trials.rejection}")
        return self._compared(pair, reference, draft.specs, trials, complaints, ran=ran)

    def _compared(
        self,
        pair: Pair,
        reference: Reference,
        specs: Sequence[Spec],
        trials: Trials,
        complaints: Sequence[str],
        *,
        ran: bool,
    ) -> Check:
        """Compare a pair on inputs that the original accepts; `ran`: it loads in onnxruntime."""
        covered, count = CoverageCounter(), len(trials.accepted)

        def check(
            verdict: Verdict,
            reason: str,
            shown: Counterexample | None = None,
            classes: Mapping[str, int] | None = None,
        ) -> Check:
            name, total = reference.executor.name if count else "", covered.total()
            return Check(pair.node, pair.operator, verdict, reason, name, count, shown, dict(classes or {}), total)

        try:
            # What ran in onnxruntime must run there still.
            trusted = isinstance(reference.executor, _ShapeCheckedRunner)
            rewritten, relabelled = self._executor(pair.rewritten, trials.accepted[0][0], kernels=trusted)
            undefined = functools.partial(_undefined, pair, self.limits)
            comparison = Comparison(reference, rewritten, undefined, covered=covered, allowance=self.allowance)
            mismatch = comparison.run(trials.accepted)
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.TOO_NEW):
                return check(Verdict.UNCHECKED, f"the replacement: {error}")
            if error.why is RejectionKind.MISSING_KERNEL:
                return check(Verdict.UNCHECKED, f"{_MISSING}: {error}")
            return check(Verdict.DIFFERENT, f"onnxruntime does not load the replacement: {error}")
        relabelled = relabelled and f"the replacement's {relabelled}"
        decided = comparison.decided(trials.accepted)
        count, classes = len(decided), counted(decided, specs)
        notes = sentence(reference.note, relabelled, comparison.note, *complaints[:1])
        if mismatch is None and (not comparison.compared(trials.accepted) or covered.total().is_void):
            return check(Verdict.UNCHECKED, sentence("no input has a meaning", notes))
        if mismatch is None:
            return check(Verdict.EQUAL, notes, None, classes)
        if ran and reference.executor.name == ORACLE and isinstance(mismatch.difference.actual, str):
            # onnxruntime loads the original, and runs neither of the two on what was drawn.
            return check(Verdict.UNCHECKED, sentence(mismatch.reason, notes))
        mismatch = comparison.shrunk(mismatch, specs, 400 if trials.largest < 100_000 else 40)
        command = self.shown(pair.original, pair.rewritten, mismatch, pair.exact)
        example = mismatch.counterexample(command=command)
        return check(Verdict.DIFFERENT, sentence(mismatch.reason, notes), example, classes)

    def _executor(self, rewritten: onnx.ModelProto, feeds: Feeds, *, kernels: bool) -> tuple[Executor, str]:
        """Return how the replacement is run; `feeds` show whether its kernels run: GRU of double loads, and does not.

        What did not run in onnxruntime before need not after.
        """
        way, note = executor_of(Runnable(rewritten), self.limits, kernels=kernels)
        if not kernels and isinstance(way, Runner):
            tried = ort_models.result_or_rejection(way.run, feeds, False)
            if isinstance(tried, RejectedError) and tried.why is RejectionKind.MISSING_KERNEL:
                way.close()
                way, note = Interpreter(Runnable(rewritten), self.limits), f"nodes were run one by one, since {tried}"
        if faults := miscomputed(rewritten):
            way.close()  # it was opened to see that it loads: node by node, types that do not fit are not noticed
            return Interpreter(Runnable(rewritten), self.limits, frozenset(faults), strict=False), ""
        return way, note

    def _trials(
        self,
        pair: Pair,
        draft: Draft,
        values: Values,
        reference: Reference,
        long: Sequence[Mapping[str, Shape]],
        count: int,
    ) -> Trials:
        """Return inputs that the original accepts; where patterns of sizes find none, sizes are searched."""
        shapes = generator.sizes(draft.specs, whole=False)
        budget = Budget(100, count, elements=400_000, rejections=2000)
        pace = self.allowance.pace(reference.opening)
        trials = find_trials(draft, values, reference.plain_all, shapes, lambda base: long, budget, pace=pace)
        if trials.accepted or trials.fatal:
            return trials
        # Patterns of sizes alone find no depth of one element beside two values.
        known = hints(summary(pair.original))
        search, repair = Budget(shapes=20, inputs=50, elements=400_000, rejections=500), repairer(draft.specs, known)
        found = find_trials(draft, values, reference.plain_all, (), lambda base: (), search, repair, pace)
        return found if found.accepted else trials

    def _reference(self, pair: Pair) -> Reference:
        """Return what judges a pair.

        Raises:
            RejectedError: onnxruntime does not load the original, and went beyond a limit or ended.
        """
        outputs = tuple(value.name for value in pair.original.graph.output)
        original = Runnable(pair.original)
        bounds = (
            KernelDrift(original, Runnable(pair.rewritten), self.limits)
            if pair.exact
            else Bounds(original, self.limits, approximate=pair.approximate)
        )
        if self.semantics == "spec" and pair.oracle is not None:
            return Reference(_OracleExecutor(pair, pair.oracle, self.limits), outputs, bounds=bounds)
        if pair.oracle is not None and miscomputed(pair.original):
            bounds = (
                bounds if pair.exact else Bounds(original, self.limits, kernels=False, approximate=pair.approximate)
            )
            return Reference(_OracleExecutor(pair, pair.oracle, self.limits), outputs, MISCOMPUTED, bounds)
        try:
            source, note = ort_opsets.fit(Runnable(pair.original))
            runner = Runner(source, self.limits)
            opening = runner.open(optimised=False).opening
        except RejectedError as error:
            if error.why in (RejectionKind.LIMIT, RejectionKind.DEATH):
                raise
            if pair.oracle is None:
                way, note = executor_of(original, self.limits)
                return Reference(way, outputs, note, bounds)
            note = f"onnxruntime does not run the original: {error}"
            if not pair.exact:
                bounds = Bounds(original, self.limits, kernels=False, approximate=pair.approximate)
            return Reference(_OracleExecutor(pair, pair.oracle, self.limits), outputs, note, bounds)
        return Reference(
            _ShapeCheckedRunner(pair, runner, self.limits),
            outputs,
            note and f"the original's {note}",
            bounds,
            opening=opening,
        )


MISCOMPUTED = "onnxruntime computes the operator wrongly here, so its numpy oracle did"

_MISSING = "onnxruntime has no kernel for the replacement"


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


class _OracleExecutor:
    """An executor that asks a node's oracle."""

    name = ORACLE
    modes = (False,)

    def __init__(self, pair: Pair, oracle: Oracle, limits: Limits) -> None:
        self._oracle = oracle
        self._limits = limits
        self._outputs = [value.name for value in pair.original.graph.output]
        self._constants = _constants(pair.original)

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


class _ShapeCheckedRunner:
    """onnxruntime, but for empty inputs on which the shapes that it gives contradict onnx's inference.

    Scalars are asked of the oracle too: onnxruntime takes axis 1 of one.

    Some of its kernels are wrong there (ArgMax of shape [0, 2] over axis -1 gives [0, 2]). The oracle takes over; where
    there is none the input is rejected. So is one that they accept and onnx does not (axis 1 of shape [0]), or that the
    oracle does not (the maximum of an empty row, where there are no rows). What runs by ONNX's function body is asked
    of the oracle on every input: a body of Reshape and the like runs on shapes that the operator's text excludes.
    """

    modes = (False, True)

    def __init__(self, pair: Pair, runner: Runner, limits: Limits) -> None:
        self.name = runner.name
        self._runner = runner
        self._model = pair.original
        self._outputs = tuple(value.name for value in pair.original.graph.output)
        self._oracle = None if pair.oracle is None else _OracleExecutor(pair, pair.oracle, limits)
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


def failed(error: Exception) -> str:
    """Return the reason for a comparison that opshift could not make: a model must not end the program."""
    return (
        f"opshift failed while it compared, please report this ({type(error).__name__}: {printable(str(error), 200)})"
    )


def _undefined(pair: Pair, limits: Limits, feeds: Feeds, optimised: bool) -> frozenset[str]:
    """Return the outputs that do not count on an input.

    All do not where the node cannot compute with its integers, or where its oracle says that the text excludes them:
    Einsum of onnxruntime 1.32.0 repeats an axis of size 1 for a letter of another size. Nor where onnxruntime 1.32.0
    ends the process: on recurrent operators of no batch, which a form that it does not run may be rewritten to.
    """
    node, values = pair.original.graph.node[0], {**_constants(pair.original), **feeds}
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
        _OracleExecutor(pair, pair.oracle, limits).run(feeds, False)
    except RejectedError as error:
        return error.why is RejectionKind.REJECTED
    return False


def _draft(pair: Pair) -> Draft:
    """Return how the inputs of a pair are drawn."""
    divides = generator.divides(pair.original) or generator.divides(pair.rewritten)
    allowed = generator.Allowed(nan=not pair.exclude_nan, infinite=not pair.finite, least=not divides)
    reshaped = any(traits_of(node).reshapes for node in pair.original.graph.node)
    shape_inputs = generator.shape_inputs(summary(pair.original)) if reshaped else ()
    return Draft(
        generator.specs(pair.original.graph),
        generator.position_inputs(pair.original),
        allowed,
        shape_inputs=shape_inputs,
    )


def _values(draft: Draft, pair: Pair, rng: Rng, complaints: list[str]) -> Values:
    """Return what makes the inputs of a pair: the generic draft, changed by the operator's own say.

    Where that fails the draft is fed, and why is added to `complaints`: among the ranks that are tried for an unknown
    one are some that make no sense for the operator.
    """
    constants = _constants(pair.original)
    first = next(iter(pair.original.graph.node[0].input), "")

    def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        found = adversarial(shapes, turn)
        cut = {first: np.trunc(found[first])} if first in found and is_float(found[first].dtype) else {}
        return {**found, **cut}

    def adversarial(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        drawn = draft.along(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)
        if pair.adversarial is None:
            return drawn
        try:
            changed = pair.adversarial(rng, {**constants, **drawn})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            complaints.append(f"some inputs were not the operator's own: {type(error).__name__}: {error}")
            return drawn
        return {name: np.asarray(changed.get(name, value), value.dtype) for name, value in drawn.items()}

    return values if pair.whole else adversarial


def _typed(model: onnx.ModelProto, types: Mapping[str, int]) -> onnx.ModelProto:
    """Return a copy in which these inputs have these element types, and values of unknown type none at all."""
    if not types:
        return model
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value in typed.graph.input:
        if value.name in types:
            value.type.tensor_type.elem_type = types[value.name]
    for value in typed.graph.output:
        # onnxruntime infers the type of an output that has none, and rejects UNDEFINED.
        if value.type.HasField("tensor_type") and not value.type.tensor_type.elem_type:
            value.ClearField("type")
    kept = [value for value in typed.graph.value_info if value.type.tensor_type.elem_type]
    del typed.graph.value_info[:]
    typed.graph.value_info.extend(kept)
    return typed


def _type_names(types: Mapping[str, int]) -> str:
    """Return 'x float, y int64'."""
    return ", ".join(f"{name} {onnx.TensorProto.DataType.Name(kind).lower()}" for name, kind in types.items())


def _constants(model: onnx.ModelProto) -> dict[str, Array]:
    """Return the values of the initializers, read-only."""
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for array in constants.values():
        array.flags.writeable = False
    return constants


def _shared(check: Check, pair: Pair, names: Mapping[str, str]) -> Check:
    """Return the verdict on an equal pair as one on this pair; `names` maps its names to this pair's."""
    shown = check.counterexample
    if shown is not None:
        values = {names.get(name, name): value for name, value in shown.inputs.items()}
        shown = dataclasses.replace(shown, inputs=values, output=names.get(shown.output, shown.output))
    return dataclasses.replace(check, node=pair.node, counterexample=shown)
