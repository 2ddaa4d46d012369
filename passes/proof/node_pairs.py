"""Whether a lowered node computes what the node did: each is compared on its own, as a model of one node.

Random values fed to a whole model hardly ever reach the corners of a node in its middle.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from opshift.opsets.registry.facts import FLOATS
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.runtimes import kernels
from opshift.passes.analysis.model_summary import outline
from opshift.passes.base.arguments import Progress
from opshift.passes.base.effort import LEAST_OF_NODE, LEAST_OF_REPEATED, Allowance
from opshift.passes.base.errors import OpshiftError, printable
from opshift.passes.base.limits import Limits
from opshift.passes.base.results import Check, Counterexample, Coverage, Verdict
from opshift.passes.proof.comparison import Contest, Finding, Judge, Outputs, Route, sentence
from opshift.passes.proof.coverage import Covered
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.inputs.generator import Budget, Draft, Rng, Shape, UntestableError, Values
from opshift.passes.proof.inputs.shape_search import hints, repairer
from opshift.passes.proof.inputs.value_classes import counted, summed
from opshift.passes.proof.integer_overflow import overflows
from opshift.passes.proof.kernel_drift import Drift
from opshift.passes.proof.randomness import random_outputs
from opshift.passes.proof.signature import contradiction, interface_difference
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime import ort_session
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_session import Array, Feeds, RejectedError, Runner, Source, Why

Oracle = Callable[[Feeds], Mapping[str, Array]]
Hostile = Callable[[Rng, Feeds], Feeds]
Shown = Callable[[onnx.ModelProto, onnx.ModelProto, Finding, bool], str]
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
            output name. It judges where onnxruntime has no kernel for the original, and always under "spec". It
            raises ValueError, IndexError or TypeError for inputs that the operator does not accept.
        hostile: the operator's say on its inputs: given a generator and a draft of all values, returns values that are
            hostile for this operator. The constants are among them, as read-only arrays: they stay as they are. None:
            the generic draft is fed.
        exclude_nan: the result on NaN is not defined, or not kept: none is fed.
        finite: the same for the infinities.
        whole: the same for floats that are not whole numbers, in the first input.
        exact: equal is bit for bit, but for what onnxruntime departs from itself by (drift.py); otherwise within what
            rounding alone makes of the original (rounding.py).
        longest: no dim that is longer is fed: the replacement needs memory that grows with its square.
    """

    node: str
    operator: str
    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    oracle: Oracle | None = None
    hostile: Hostile | None = None
    exclude_nan: bool = False
    finite: bool = False
    whole: bool = False
    exact: bool = True
    longest: int | None = None


def prove(
    pairs: Sequence[Pair],
    *,
    seed: int = 0,
    semantics: str = "runtime",
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    allowance: Allowance | None = None,
    progress: Progress | None = None,
    shown: Shown = lambda original, rewritten, finding, exact: "",
) -> tuple[Check, ...]:
    """Compare each pair; those that differ in names alone are compared once and share the verdict.

    The first pair of a kind has a larger part of the effort than others that differ from it in their weights alone.
    `allowance` tells the effort and its end; None: normal effort. After ENOUGH comparisons that found a difference the
    nodes that are left are not compared.

    Raises:
        UsageError: onnxruntime is not installed.
    """
    ort_session.runtime()
    allowance = allowance or Allowance(ort_session.seconds)
    known: dict[tuple[object, ...], tuple[Check, dict[str, str]]] = {}
    kinds = set[tuple[bytes, bytes]]()
    checks, different = [], 0
    for done, pair in enumerate(pairs, 1):
        renamed, names = _canonical(pair)
        asked = pair.exclude_nan, pair.finite, pair.whole, pair.exact, pair.oracle is None, pair.hostile is None
        key = (*renamed, pair.operator, *asked)
        if key not in known and different == ENOUGH:
            reason = f"it was not compared, since {ENOUGH} other nodes differ"
            checks.append(Check(pair.node, pair.operator, Verdict.UNCHECKED, reason, "", 0))
            continue
        if key not in known:
            kind = _without_weights(renamed)
            own = allowance.part(LEAST_OF_REPEATED if kind in kinds else LEAST_OF_NODE)
            kinds.add(kind)
            proof = Proof(pair, seed, semantics, limits, own, shown)
            known[key] = proof.check(), {new: old for old, new in names.items()}
            different += known[key][0].verdict is Verdict.DIFFERENT
        check, originals = known[key]
        checks.append(_shared(check, pair, {originals[new]: old for old, new in names.items() if new in originals}))
        if progress:
            progress("nodes", done, len(pairs))
    return tuple(checks)


@dataclass(frozen=True)
class Proof:
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
            for types in generator.guesses(pair.original):
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

        def check(
            verdict: Verdict,
            reason: str,
            count: int = 0,
            shown: Counterexample | None = None,
            classes: Mapping[str, int] | None = None,
        ) -> Check:
            judged = judge.route.name if judge and count else ""
            return Check(
                pair.node, pair.operator, verdict, reason, judged, count, shown, dict(classes or {}), covered.total()
            )

        judge: Judge | None = None
        covered = Covered()
        mismatch = interface_difference(pair.original, pair.rewritten)
        if mismatch:
            return check(Verdict.DIFFERENT, mismatch)
        try:
            judge = self._judge(pair)
        except RejectedError as error:
            return check(Verdict.UNCHECKED, f"onnxruntime does not run the original: {error}")
        draft = _draft(pair)
        most = math.inf if pair.longest is None else pair.longest
        long = [
            sizes
            for sizes in generator.long_sizes(draft.specs)
            if all(dim <= most for shape in sizes.values() for dim in shape)
        ]
        complaints: list[str] = []
        values = _values(draft, pair, np.random.default_rng(self.seed), complaints)
        trials = self._trials(pair, draft, values, judge, () if again else long, 50 if again else 100)
        ran = isinstance(judge.route, _Trusted)
        if not trials.accepted and not trials.fatal and pair.oracle and isinstance(judge.route, _Trusted):
            # Mod-28 of floats with fmod 0 loads as Mod-13, and is then run on nothing (onnxruntime 1.31.1).
            note = f"onnxruntime runs the original on no input: {trials.rejection}"
            judge = Judge(_Asked(pair, pair.oracle, self.limits), judge.outputs, note, judge.bounds)
            trials = self._trials(pair, draft, values, judge, () if again else long, 50 if again else 100)
        count = len(trials.accepted)
        if not count:
            return check(Verdict.UNCHECKED, f"the original ran on none of {trials.tried} inputs: {trials.rejection}")
        try:
            # What ran in onnxruntime must run there still.
            trusted = isinstance(judge.route, _Trusted)
            rewritten, relabelled = route(Source(pair.rewritten), self.limits, kernels=trusted)
            undefined = functools.partial(_undefined, pair)
            contest = Contest(judge, rewritten, undefined, covered=covered, allowance=self.allowance)
            finding = contest.run(trials.accepted)
        except RejectedError as error:
            if error.why in (Why.LIMIT, Why.TOO_NEW):
                return check(Verdict.UNCHECKED, f"the replacement: {error}", count)
            if error.why is Why.MISSING_KERNEL:
                return check(Verdict.UNCHECKED, f"{_MISSING}: {error}", count)
            return check(Verdict.DIFFERENT, f"onnxruntime does not load the replacement: {error}", count)
        relabelled = relabelled and f"the replacement's {relabelled}"
        decided = contest.decided(trials.accepted)
        count, classes = len(decided), counted(decided, draft.specs)
        notes = sentence(judge.note, relabelled, contest.note, *complaints[:1])
        if finding is None and (not contest.compared(trials.accepted) or covered.total().is_void):
            return check(Verdict.UNCHECKED, sentence("no input has a meaning", notes), count)
        if finding is None:
            return check(Verdict.EQUAL, notes, count, None, classes)
        if ran and judge.route.name == ORACLE and isinstance(finding.difference.actual, str):
            # onnxruntime loads the original, and runs neither of the two on what was drawn.
            return check(Verdict.UNCHECKED, sentence(finding.reason, notes), count)
        finding = contest.shrunk(finding, draft.specs, 400 if trials.largest < 100_000 else 40)
        command = self.shown(pair.original, pair.rewritten, finding, pair.exact)
        example = finding.counterexample(command=command)
        return check(Verdict.DIFFERENT, sentence(finding.reason, notes), count, example, classes)

    def _trials(
        self, pair: Pair, draft: Draft, values: Values, judge: Judge, long: Sequence[Mapping[str, Shape]], count: int
    ) -> generator.Trials:
        """Return inputs that the original accepts; where patterns of sizes find none, sizes are searched."""
        shapes = generator.sizes(draft.specs, whole=False)
        budget = Budget(100, count, elements=400_000, rejections=2000)
        pace = self.allowance.pace(judge.opening)
        trials = generator.trials(draft, values, judge.plain_all, shapes, lambda base: long, budget, pace=pace)
        if trials.accepted or trials.fatal:
            return trials
        # Patterns of sizes alone find no depth of one element beside two values.
        known = hints(outline(pair.original))
        search, repair = Budget(shapes=20, inputs=50, elements=400_000, rejections=500), repairer(draft.specs, known)
        found = generator.trials(draft, values, judge.plain_all, (), lambda base: (), search, repair, pace)
        return found if found.accepted else trials

    def _judge(self, pair: Pair) -> Judge:
        """Return what judges a pair.

        Raises:
            RejectedError: onnxruntime does not load the original, and went beyond a limit or ended.
        """
        outputs = tuple(value.name for value in pair.original.graph.output)
        original = Source(pair.original)
        bounds = Drift(original, Source(pair.rewritten), self.limits) if pair.exact else Bounds(original, self.limits)
        if self.semantics == "spec" and pair.oracle is not None:
            return Judge(_Asked(pair, pair.oracle, self.limits), outputs, bounds=bounds)
        try:
            source, note = ort_session.fit(Source(pair.original))
            runner = Runner(source, self.limits)
            opening = runner.open(optimised=False).opening
        except RejectedError as error:
            if error.why in (Why.LIMIT, Why.DEATH):
                raise
            if pair.oracle is None:
                way, note = route(original, self.limits)
                return Judge(way, outputs, note, bounds)
            note = f"onnxruntime does not run the original: {error}"
            if not pair.exact:
                bounds = Bounds(original, self.limits, kernels=False)
            return Judge(_Asked(pair, pair.oracle, self.limits), outputs, note, bounds)
        return Judge(_Trusted(pair, runner), outputs, note and f"the original's {note}", bounds, opening=opening)


_MISSING = "onnxruntime has no kernel for the replacement"


def route(source: Source, limits: Limits, *, kernels: bool = False, lean: bool = False) -> tuple[Route, str]:
    """Return a way to run a model, and what is to be said about it: in onnxruntime, else node by node.

    Raises:
        RejectedError: onnxruntime does not load the model, for another reason than that it lacks an opset or, unless it
            must have all `kernels`, a kernel.
    """
    try:
        fitting, note = ort_session.fit(source)
        runner = Runner(fitting, limits, lean=lean)
        runner.open(optimised=False)
    except RejectedError as error:
        lacking = (Why.TOO_NEW,) if kernels else (Why.TOO_NEW, Why.MISSING_KERNEL)
        if error.why not in lacking and not _complex(source.proto):
            raise
        return Interpreter(source, limits), f"nodes were run one by one, since {error}"
    return runner, note


def _complex(model: onnx.ModelProto) -> bool:
    """Return whether a model has complex inputs or constants, of which onnxruntime has none."""
    types = {value.type.tensor_type.elem_type for value in model.graph.input}
    types |= {tensor.data_type for tensor in model.graph.initializer}
    return bool(types & {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128})


class _Asked:
    """A route that asks a node's oracle."""

    name = ORACLE
    modes = (False,)

    def __init__(self, pair: Pair, oracle: Oracle, limits: Limits) -> None:
        self._oracle = oracle
        self._most = limits.results
        self._outputs = [value.name for value in pair.original.graph.output]
        self._constants = _constants(pair.original)

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return the node's meaning in numpy."""
        try:
            with np.errstate(all="ignore"):
                result = self._oracle({**self._constants, **feeds})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{type(error).__name__}: {error}") from error
        except MemoryError as error:
            raise RejectedError(f"the oracle ran out of memory: {error}", Why.LIMIT) from error
        outputs = tuple(np.asarray(result[output]) for output in self._outputs)
        if (size := sum(array.nbytes for array in outputs)) > self._most:
            raise RejectedError(f"its outputs have {size} bytes, and at most {self._most} are compared", Why.LARGE)
        return outputs

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return the meaning for each."""
        return [ort_session.attempt(self.run, feeds, optimised) for feeds in batch]

    def close(self) -> None:
        """Nothing is open."""


class _Trusted:
    """onnxruntime, but for empty inputs on which the shapes that it gives contradict onnx's inference.

    Scalars are asked of the oracle too: onnxruntime takes axis 1 of one.

    Some of its kernels are wrong there (ArgMax of shape [0, 2] over axis -1 gives [0, 2]). The oracle takes over; where
    there is none the input is rejected. So is one that they accept and onnx does not (axis 1 of shape [0]), or that the
    oracle does not (the maximum of an empty row, where there are no rows). What runs by ONNX's function body is asked
    of the oracle on every input: a body of Reshape and the like runs on shapes that the operator's text excludes.
    """

    modes = (False, True)

    def __init__(self, pair: Pair, runner: Runner) -> None:
        self.name = runner.name
        self._runner = runner
        self._model = pair.original
        self._outputs = tuple(value.name for value in pair.original.graph.output)
        self._oracle = None if pair.oracle is None else _Asked(pair, pair.oracle, Limits())
        self._by_body = kernels.runs_by_body(pair.original.graph.node[0].op_type, ort_session.opset(pair.original))

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return what is right."""
        return self._checked(feeds, self._runner.run(feeds, optimised))

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return what is right for each."""
        found = self._runner.run_all(batch, optimised)
        return [
            one if isinstance(one, RejectedError) else ort_session.attempt(self._checked, feeds, one)
            for feeds, one in zip(batch, found, strict=False)
        ]

    def close(self) -> None:
        """Let go of the sessions."""
        self._runner.close()

    def _checked(self, feeds: Feeds, outputs: Outputs) -> Outputs:
        wrong = contradiction(self._model, feeds, dict(zip(self._outputs, outputs, strict=True)), strict=True)
        if wrong and self._oracle is None:
            raise RejectedError(wrong)
        arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
        full = all(array.size and array.ndim for array in arrays)
        if self._oracle is None or (full and not self._by_body):
            return outputs
        judged = self._oracle.run(feeds, False)
        if full:
            return outputs
        # Of sums of no products onnxruntime 1.32.0 leaves what memory holds (MatMulInteger); integers are exact.
        exact = all(one.dtype.kind in "iu" for one in judged)
        return judged if wrong or exact else outputs


def failed(error: Exception) -> str:
    """Return the reason for a comparison that opshift could not make: a model must not end the program."""
    return (
        f"opshift failed while it compared, please report this ({type(error).__name__}: {printable(str(error), 200)})"
    )


def _undefined(pair: Pair, feeds: Feeds, optimised: bool) -> frozenset[str]:
    """Return the outputs that do not count on an input.

    All do not where the node cannot compute with its integers, or where its oracle says that the text excludes them:
    Einsum of onnxruntime 1.32.0 repeats an axis of size 1 for a letter of another size. Nor where onnxruntime 1.32.0
    ends the process: on recurrent operators of no batch, which a form that it does not run may be rewritten to.
    """
    node, values = pair.original.graph.node[0], {**_constants(pair.original), **feeds}
    read = [values.get(name) for name in node.input]
    own = traits_of(node)
    undefined = overflows(own, read) or _excluded(pair, feeds) or (own.aborts and _any_empty(read))
    undefined = undefined or (own.miscounts and is_hollow(read[0]))
    return frozenset(value.name for value in pair.original.graph.output) if undefined else frozenset()


def is_hollow(value: object) -> bool:
    """Return whether an image has an axis without elements."""
    return isinstance(value, np.ndarray) and 0 in value.shape[2:]


def _any_empty(read: Sequence[object]) -> bool:
    return any(isinstance(one, np.ndarray) and not one.size for one in read)


def _excluded(pair: Pair, feeds: Feeds) -> bool:
    if pair.oracle is None:
        return False
    try:
        _Asked(pair, pair.oracle, Limits()).run(feeds, False)
    except RejectedError as error:
        return error.why is Why.REJECTED
    return False


def _draft(pair: Pair) -> Draft:
    """Return how the inputs of a pair are drawn."""
    divides = generator.divides(pair.original) or generator.divides(pair.rewritten)
    allowed = generator.Allowed(nan=not pair.exclude_nan, infinite=not pair.finite, least=not divides)
    reshaped = any(traits_of(node).reshapes for node in pair.original.graph.node)
    fills = generator.fills(outline(pair.original)) if reshaped else ()
    return Draft(generator.specs(pair.original.graph), generator.steering(pair.original), allowed, fills=fills)


def _values(draft: Draft, pair: Pair, rng: Rng, complaints: list[str]) -> Values:
    """Return what makes the inputs of a pair: the generic draft, changed by the operator's own say.

    Where that fails the draft is fed, and why is added to `complaints`: among the ranks that are tried for an unknown
    one are some that make no sense for the operator.
    """
    constants = _constants(pair.original)
    first = next(iter(pair.original.graph.node[0].input), "")

    def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        found = hostile(shapes, turn)
        cut = {first: np.trunc(found[first])} if first in found and is_float(found[first].dtype) else {}
        return {**found, **cut}

    def hostile(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        drawn = draft.peaks(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)
        if pair.hostile is None:
            return drawn
        try:
            changed = pair.hostile(rng, {**constants, **drawn})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            complaints.append(f"some inputs were not the operator's own: {type(error).__name__}: {error}")
            return drawn
        return {name: np.asarray(changed.get(name, value), value.dtype) for name, value in drawn.items()}

    return values if pair.whole else hostile


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


def _canonical(pair: Pair) -> tuple[tuple[bytes, bytes], dict[str, str]]:
    """Return both models as bytes that do not depend on names, and the new name of each value."""
    values: dict[str, str] = {}
    symbols: dict[str, str] = {}

    def value(name: str) -> str:
        return values.setdefault(name, f"v{len(values)}") if name else ""

    def info(entry: onnx.ValueInfoProto) -> None:
        entry.name = value(entry.name)
        entry.doc_string = ""
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = symbols.setdefault(dim.dim_param, f"d{len(symbols)}")

    def body(holder: onnx.GraphProto | onnx.FunctionProto) -> None:
        holder.doc_string = ""
        del holder.metadata_props[:]
        for node in holder.node:
            node.name = node.doc_string = ""
            del node.metadata_props[:]
            node.input[:] = [value(name) for name in node.input]
            for attribute in node.attribute:
                attribute.doc_string = ""
                for nested in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                    graph(nested)
            node.output[:] = [value(name) for name in node.output]

    def graph(proto: onnx.GraphProto) -> None:
        proto.name = ""
        del proto.quantization_annotation[:]
        for entry in proto.input:
            info(entry)
        for tensor in proto.initializer:
            tensor.name = value(tensor.name)
            tensor.doc_string = ""
        for sparse in proto.sparse_initializer:
            sparse.values.name = value(sparse.values.name)
        body(proto)
        for entry in (*proto.output, *proto.value_info):
            info(entry)

    def renamed(model: onnx.ModelProto) -> bytes:
        copy = onnx.ModelProto()
        copy.ir_version = model.ir_version
        copy.opset_import.extend(model.opset_import)
        copy.graph.CopyFrom(model.graph)
        copy.functions.extend(model.functions)
        graph(copy.graph)
        for function in copy.functions:
            function.input[:] = [value(name) for name in function.input]
            body(function)
            function.output[:] = [value(name) for name in function.output]
            for entry in function.value_info:
                info(entry)
        return bytes(copy.SerializeToString(deterministic=True))

    return (renamed(pair.original), renamed(pair.rewritten)), values


def _without_weights(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return the models of a pair without the elements of their constants of floats."""
    original, rewritten = map(onnx.ModelProto.FromString, pair)
    for tensor in (*original.graph.initializer, *rewritten.graph.initializer):
        if tensor.data_type in FLOATS:
            for content in ("raw_data", "float_data", "double_data", "int32_data"):
                tensor.ClearField(content)
    return original.SerializeToString(deterministic=True), rewritten.SerializeToString(deterministic=True)


def _shared(check: Check, pair: Pair, names: Mapping[str, str]) -> Check:
    """Return the verdict on an equal pair as one on this pair; `names` maps its names to this pair's."""
    shown = check.counterexample
    if shown is not None:
        values = {names.get(name, name): value for name, value in shown.inputs.items()}
        shown = dataclasses.replace(shown, inputs=values, output=names.get(shown.output, shown.output))
    return dataclasses.replace(check, node=pair.node, counterexample=shown)
