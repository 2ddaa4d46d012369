"""Whether a rewritten model computes what the original does: both run in onnxruntime on the same hostile inputs.

Each lowered node is compared on its own first, as a model of one node against its replacement, because random values
fed to a whole model hardly ever reach the corners of a node in its middle. Then the whole models are compared.
Everything drawn depends on the seed alone, and how much is drawn on sizes alone, never on a clock.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

from opshift.passes import inputs, sessions
from opshift.passes.errors import UsageError
from opshift.passes.inputs import Budget, Draft, Outputs, Rng, Shape, UntestableError, Values
from opshift.passes.outcome import Check, Counterexample, Report, Verdict
from opshift.passes.sessions import Array, Feeds, RejectedError, Runner, Session, Source

Oracle = Callable[[Feeds], Mapping[str, Array]]
Hostile = Callable[[Rng, Feeds], Feeds]
Progress = Callable[[str, int, int], None]

ORACLE = "numpy oracle"
_MODES = (False, True)  # graph optimisations off, on
_SHOWN = 64  # elements of an array that a counterexample lists in full
_TYPES = 5  # element types tried where the type is not known
_LEAN = 2**30  # bytes of weights from which on one session is open at a time


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
    """

    node: str
    operator: str
    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    oracle: Oracle | None = None
    hostile: Hostile | None = None
    exclude_nan: bool = False
    finite: bool = False


def verify(
    original: str | os.PathLike[str] | onnx.ModelProto,
    rewritten: str | os.PathLike[str] | onnx.ModelProto,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    pairs: Sequence[Pair] = (),
    semantics: str = "runtime",
    exact: bool | None = None,
    original_dir: str | os.PathLike[str] | None = None,
    rewritten_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare two models node by node and as wholes, and return what was shown.

    Args:
        original: a path (.onnx or ONNX text) or a protobuf.
        rewritten: what should compute the same.
        input_shapes: shapes of inputs of the whole models, by name, instead of sizes tried.
        seed: the same seed and versions give the same report.
        pairs: the lowered nodes.
        semantics: "runtime" takes what onnxruntime computes for a node as its meaning, "spec" its oracle.
        exact: True: the whole models are equal bit for bit with graph optimisations off; with them on, an output of
            floats may depart from the original's by 8 times what the optimisations themselves make the original
            depart from itself on that input, since a rewrite changes what they fuse. None: that bound holds with
            optimisations off as well. False: the bound grows by 8 units of rounding of the largest value of the
            output, because another order of summation is another rounding. In all three a deviation of zero is a
            bound of zero, and integers, booleans and strings are equal exactly.
        original_dir: the directory of the original's external data, where a protobuf is given.
        rewritten_dir: the same for the rewritten model.
        progress: is called with a stage ("nodes" or "whole"), the steps done and all steps.

    Raises:
        UsageError: onnxruntime is not installed, or `input_shapes` or `semantics` does not fit.
        InvalidModelError: a path holds no ONNX model.
    """
    if semantics not in ("runtime", "spec"):
        raise UsageError(f"There are the semantics runtime and spec, not {semantics}.")
    sessions.runtime()
    before, after = sessions.read(original, original_dir), sessions.read(rewritten, rewritten_dir)
    report = progress or (lambda stage, done, total: None)
    checks = prove(pairs, seed=seed, semantics=semantics, progress=report)
    report("whole", 0, 1)
    whole = _whole(before, after, input_shapes or {}, seed, pairs, exact)
    if semantics == "spec" and pairs and whole.verdict is Verdict.DIFFERENT:
        operators = ", ".join(sorted({pair.operator for pair in pairs}))
        reason = f"onnxruntime, which may depart from the text on {operators}, computes something else: {whole.reason}"
        whole = dataclasses.replace(whole, verdict=Verdict.UNCHECKED, reason=reason)
    report("whole", 1, 1)
    return Report(checks, whole, seed, _versions())


def prove(
    pairs: Sequence[Pair], *, seed: int = 0, semantics: str = "runtime", progress: Progress | None = None
) -> tuple[Check, ...]:
    """Compare each pair; those that differ in names alone are compared once and share the verdict.

    Raises:
        UsageError: onnxruntime is not installed.
    """
    sessions.runtime()
    known: dict[tuple[object, ...], tuple[Check, dict[str, str]]] = {}
    checks = []
    for done, pair in enumerate(pairs, 1):
        renamed, names = _canonical(pair)
        key = (*renamed, pair.operator, pair.exclude_nan, pair.finite, pair.oracle is None, pair.hostile is None)
        if key not in known:
            known[key] = (_pair(pair, seed, semantics), {new: old for old, new in names.items()})
        check, originals = known[key]
        checks.append(_shared(check, pair, {originals[new]: old for old, new in names.items() if new in originals}))
        if progress:
            progress("nodes", done, len(pairs))
    return tuple(checks)


# --- one pair -------------------------------------------------------------------------------------------------------


def _pair(pair: Pair, seed: int, semantics: str) -> Check:
    """Compare one pair, for a few element types where they are not known."""
    equal: list[Check] = []
    unserved: list[str] = []
    failure = "onnxruntime cannot be fed any element type that the operator takes"
    try:
        for types in inputs.guesses(pair.original):
            original, rewritten = _typed(pair.original, types), _typed(pair.rewritten, types)
            typed = dataclasses.replace(pair, original=original, rewritten=rewritten)
            check = _typed_pair(typed, seed, semantics, again=bool(equal))
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
    except UntestableError as error:
        failure = str(error)
    if not equal:
        return Check(pair.node, pair.operator, Verdict.UNCHECKED, "; ".join(unserved) or failure, "", 0)
    return Check(
        pair.node,
        pair.operator,
        Verdict.EQUAL,
        "; ".join(dict.fromkeys(filter(None, (*(check.reason for check in equal), *unserved)))),
        " and ".join(dict.fromkeys(check.judge for check in equal)),
        sum(check.inputs for check in equal),
    )


_MISSING = "onnxruntime has no kernel for the replacement"


def _typed_pair(pair: Pair, seed: int, semantics: str, *, again: bool) -> Check:
    """Compare a pair whose element types are all set; `again` says that it was equal for others, and tries less.

    Raises:
        UntestableError: no inputs can be made.
    """

    def check(
        verdict: Verdict, reason: str, judge: str = "", count: int = 0, shown: Counterexample | None = None
    ) -> Check:
        return Check(pair.node, pair.operator, verdict, reason, judge, count, shown)

    mismatch = _interface_difference(pair.original, pair.rewritten)
    if mismatch:
        return check(Verdict.DIFFERENT, mismatch)
    try:
        judge = _judge(pair, semantics)
    except RejectedError as error:
        return check(Verdict.UNCHECKED, f"onnxruntime does not run the original, and there is no oracle: {error}")
    try:
        source, relabelled = sessions.fit(Source(pair.rewritten))
    except RejectedError as error:
        return check(Verdict.UNCHECKED, f"the replacement is too new: {error}")
    complaints: list[str] = []
    draft = _draft(pair)
    trials = inputs.trials(
        draft,
        _values(draft, pair, np.random.default_rng(seed), complaints),
        judge.plain,
        inputs.sizes(draft.specs, whole=False),
        () if again else inputs.long_sizes(draft.specs),
        Budget(shapes=100, inputs=50 if again else 100, elements=400_000, rejections=2000),
    )
    notes = (judge.note, relabelled and f"the replacement's {relabelled}", *complaints[:1])
    count = len(trials.accepted)
    if not count:
        return check(
            Verdict.UNCHECKED, f"the original ran on none of {trials.tried} inputs: {trials.rejection}", judge.name
        )
    contest = _Contest(judge, Runner(source), draft.specs, _EXACT)
    try:
        finding = contest.run(trials.accepted, attempts=400 if trials.largest < 100_000 else 40)
    except RejectedError as error:
        why = _MISSING if error.missing_kernel else "onnxruntime does not load the replacement"
        return check(Verdict.DIFFERENT, f"{why}: {error}", judge.name, count)
    if finding is None:
        return check(Verdict.EQUAL, _sentence(*notes), judge.name, count)
    return check(Verdict.DIFFERENT, _sentence(finding.reason, *notes), judge.name, count, finding.counterexample())


def _draft(pair: Pair) -> Draft:
    """Return how the inputs of a pair are drawn."""
    divides = inputs.divides(pair.original) or inputs.divides(pair.rewritten)
    allowed = inputs.Allowed(nan=not pair.exclude_nan, infinite=not pair.finite, least=not divides)
    return Draft(inputs.specs(pair.original.graph), inputs.steering(pair.original), allowed)


def _values(draft: Draft, pair: Pair, rng: Rng, complaints: list[str]) -> Values:
    """Return what makes the inputs of a pair: the generic draft, changed by the operator's own say.

    Where that fails the draft is fed, and why is added to `complaints`: among the ranks that are tried for an unknown
    one are some that make no sense for the operator.
    """
    constants = _constants(pair.original)

    def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        drawn = draft.peaks(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)
        if pair.hostile is None:
            return drawn
        try:
            changed = pair.hostile(rng, {**constants, **drawn})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            complaints.append(f"some inputs were not the operator's own: {type(error).__name__}: {error}")
            return drawn
        return {name: np.asarray(changed.get(name, value), value.dtype) for name, value in drawn.items()}

    return values


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


def _shared(check: Check, pair: Pair, names: Mapping[str, str]) -> Check:
    """Return the verdict on an equal pair as one on this pair; `names` maps its names to this pair's."""
    shown = check.counterexample
    if shown is not None:
        values = {names.get(name, name): value for name, value in shown.inputs.items()}
        shown = dataclasses.replace(shown, inputs=values, output=names.get(shown.output, shown.output))
    return dataclasses.replace(check, node=pair.node, counterexample=shown)


# --- the judge and the trials ---------------------------------------------------------------------------------------


_Wanted = tuple[Outputs, Outputs]  # with graph optimisations off, on


@dataclass(frozen=True)
class _Judge:
    """What says which outputs are right: with optimisations off, with them on, and in whose name."""

    name: str
    outputs: tuple[str, ...]
    plain: Callable[[Feeds], Outputs]
    optimised: Callable[[Feeds], Outputs]
    note: str = ""
    close: Callable[[], None] = lambda: None

    def both(self, feeds: Feeds, plain: Outputs) -> _Wanted:
        """Return the outputs both ways; where the optimised model does not run, the plain outputs stand for it."""
        try:
            return plain, self.optimised(feeds)
        except RejectedError:
            return plain, plain


def _judged_by_runtime(source: Source, runner: Runner, note: str, *, lean: bool = False) -> _Judge:
    """Return the judge that runs the original in onnxruntime; `lean` closes it before the rewritten one opens."""
    return _Judge(
        sessions.name(),
        tuple(value.name for value in source.proto.graph.output),
        lambda feeds: runner.run(feeds, optimised=False),
        lambda feeds: runner.run(feeds, optimised=True),
        note,
        runner.close if lean else lambda: None,
    )


def _judged_by_oracle(pair: Pair, oracle: Oracle, note: str) -> _Judge:
    """Return the judge that computes a node's meaning in numpy."""
    outputs = tuple(value.name for value in pair.original.graph.output)
    constants = _constants(pair.original)

    def outputs_of(feeds: Feeds) -> Outputs:
        try:
            result = oracle({**constants, **feeds})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{type(error).__name__}: {error}") from error
        return tuple(np.asarray(result[output]) for output in outputs)

    return _Judge(ORACLE, outputs, outputs_of, outputs_of, note)


def _judge(pair: Pair, semantics: str) -> _Judge:
    """Return what judges a pair.

    Raises:
        RejectedError: onnxruntime does not run the original, and there is no oracle.
    """
    if semantics == "spec" and pair.oracle is not None:
        return _judged_by_oracle(pair, pair.oracle, "")
    try:
        source, note = sessions.fit(Source(pair.original))
        runner = Runner(source)
        runner.open(optimised=False)
    except RejectedError as error:
        if pair.oracle is None:
            raise
        return _judged_by_oracle(pair, pair.oracle, f"onnxruntime does not run the original: {error}")
    return _trusted(pair, _judged_by_runtime(source, runner, note and f"the original's {note}"))


def _trusted(pair: Pair, judge: _Judge) -> _Judge:
    """Return the judge, but for empty inputs on which the shapes that onnxruntime gives contradict onnx's inference.

    Scalars are asked of the oracle too: onnxruntime takes axis 1 of one.

    Some of its kernels are wrong there (ArgMax of shape [0, 2] over axis -1 gives [0, 2]). The oracle takes over; where
    there is none the input is rejected. So is one that they accept and onnx does not (axis 1 of shape [0]), or that the
    oracle does not (the maximum of an empty row, where there are no rows).
    """
    oracle = None if pair.oracle is None else _judged_by_oracle(pair, pair.oracle, "").plain

    def outputs_of(feeds: Feeds, run: Callable[[Feeds], Outputs]) -> Outputs:
        outputs = run(feeds)
        wrong = _contradiction(pair.original, feeds, dict(zip(judge.outputs, outputs, strict=True)), strict=True)
        if wrong and oracle is None:
            raise RejectedError(wrong)
        if oracle is None or all(array.size and array.ndim for array in feeds.values()):
            return outputs
        judged = oracle(feeds)
        return judged if wrong else outputs

    return dataclasses.replace(
        judge,
        plain=lambda feeds: outputs_of(feeds, judge.plain),
        optimised=lambda feeds: outputs_of(feeds, judge.optimised),
    )


def _contradiction(model: onnx.ModelProto, feeds: Feeds, values: Mapping[str, Any], *, strict: bool = False) -> str:
    """Return how the shape of a value contradicts what onnx infers from these inputs; empty if none does.

    Asked where something is empty only, since that is where onnxruntime's kernels were seen to be wrong.

    Raises:
        RejectedError: with `strict`, onnx infers that the model does not accept these inputs.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if all(array.size for array in (*feeds.values(), *arrays.values())):
        return ""
    concrete = onnx.ModelProto()
    concrete.CopyFrom(model)
    del concrete.graph.value_info[:]
    for value in concrete.graph.input:
        if value.name in feeds:
            shape = onnx.helper.make_tensor_type_proto(value.type.tensor_type.elem_type, feeds[value.name].shape)
            value.type.CopyFrom(shape)
    for value in concrete.graph.output:
        value.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(concrete, strict_mode=strict).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        if strict and isinstance(error, onnx.shape_inference.InferenceError):
            raise RejectedError(f"onnx: {error}") from error
        return ""  # a model that is too large to infer contradicts nothing
    for value in (*inferred.output, *inferred.value_info):
        array = arrays.get(value.name)
        if array is None or not value.type.tensor_type.HasField("shape"):
            continue
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        if len(dims) != array.ndim or any(d not in (None, size) for d, size in zip(dims, array.shape, strict=True)):
            return f"onnxruntime gives {value.name} the shape {list(array.shape)}, where onnx infers {dims}"
    return ""


# --- the comparison -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tolerance:
    """By how much outputs of floats may depart.

    `plain` and `optimised` multiply what graph optimisations make the original depart from itself on the same input,
    for optimisations off and on; `rounding` multiplies the unit of rounding of the largest value of the output.
    """

    plain: float = 0.0
    optimised: float = 0.0
    rounding: float = 0.0

    def slack(self, wanted: tuple[Any, Any], optimised: bool) -> float:
        """Return the absolute bound for an output, of which `wanted` has the original's values off and on."""
        factor = self.optimised if optimised else self.plain
        if not (factor or self.rounding) or not all(isinstance(value, np.ndarray) for value in wanted):
            return 0.0
        off, on = wanted
        if off.dtype != on.dtype or off.shape != on.shape or not _is_float(off.dtype):
            return 0.0
        finite = np.isfinite(off) & np.isfinite(on)
        wide_off, wide_on = off[finite].astype(np.float64), on[finite].astype(np.float64)
        deviation = np.abs(wide_off - wide_on).max(initial=0.0)
        largest = np.abs(wide_off).max(initial=0.0)
        step = ml_dtypes.finfo(off.dtype).eps  # type: ignore[no-untyped-call]
        return float(factor * deviation + self.rounding * largest * float(step))


_EXACT = _Tolerance()
_TOLERANCES = {True: _Tolerance(0, 8), None: _Tolerance(8, 8), False: _Tolerance(8, 8, 8)}


@dataclass(frozen=True)
class _Difference:
    """An output that differs: what was wanted, what came, what is wrong and at which element."""

    output: str
    expected: Any
    actual: Any
    what: str
    index: tuple[int, ...] | None = None


@dataclass(frozen=True)
class _Finding:
    """An input on which the two differ."""

    feeds: Feeds
    difference: _Difference
    reason: str

    def counterexample(self) -> Counterexample:
        """Return it in plain lists and numbers."""
        found = self.difference
        return Counterexample(
            {name: _readable(value) for name, value in self.feeds.items()},
            found.output,
            _readable(found.expected, found.index),
            _readable(found.actual, found.index),
        )


@dataclass(frozen=True)
class _Contest:
    """A rewritten model against its judge; `pardoned` says which inputs do not count although the two differ."""

    judge: _Judge
    rewritten: Runner
    specs: Sequence[inputs.Spec]
    tolerance: _Tolerance
    pardoned: Callable[[Feeds], bool] = lambda feeds: False

    def run(self, trials: Sequence[tuple[Feeds, Outputs]], attempts: int) -> _Finding | None:
        """Return an input on which the two differ, made smaller in so many attempts; None if there is none.

        Raises:
            RejectedError: onnxruntime does not load the rewritten model.
        """
        wanted = [self.judge.both(feeds, plain) for feeds, plain in trials]
        self.judge.close()
        for optimised in _MODES:
            self.rewritten.open(optimised)
            for (feeds, _), outputs in zip(trials, wanted, strict=True):
                found = self._difference(feeds, outputs, optimised)
                if found is None or self.pardoned(feeds):
                    continue
                fails = functools.partial(self._fails, optimised=optimised)
                small, found = _shrink(self.specs, feeds, found, fails, attempts)
                way = "on" if optimised else "off"
                return _Finding(small, found, f"output {found.output}: {found.what}, with graph optimisations {way}")
        return None

    def _difference(self, feeds: Feeds, wanted: _Wanted, optimised: bool) -> _Difference | None:
        try:
            actual = self.rewritten.run(feeds, optimised)
        except RejectedError as error:
            return _Difference(self.judge.outputs[0], wanted[optimised][0], f"error: {error}", f"does not run: {error}")
        for name, off, on, value in zip(self.judge.outputs, *wanted, actual, strict=True):
            expected = on if optimised else off
            found = _mismatch(expected, value, self.tolerance.slack((off, on), optimised))
            if found is not None and not (optimised and _mismatch(off, value, 0.0) is None):
                return _Difference(name, expected, value, *found)
        return None

    def _fails(self, feeds: Feeds, optimised: bool) -> _Difference | None:
        """Return the difference on an input that may be nonsense to the original, which then is no difference."""
        try:
            plain = self.judge.plain(feeds)
            wanted = self.judge.both(feeds, plain) if optimised or self.tolerance.plain else (plain, plain)
        except RejectedError:
            return None
        found = self._difference(feeds, wanted, optimised)
        return None if found is None or self.pardoned(feeds) else found


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is a float, those of ml_dtypes included."""
    return dtype.kind in "fV"


def _mismatch(expected: Any, actual: Any, slack: float) -> tuple[str, tuple[int, ...] | None] | None:
    """Return what is wrong with a value and at which element; None where it is right.

    Floats are compared bit for bit, any NaN being equal to any other, or with `slack` as the absolute bound.
    """
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{len(actual)} elements instead of {len(expected)}", None
        found = (_mismatch(one, other, slack) for one, other in zip(expected, actual, strict=True))
        return next((each for each in found if each is not None), None)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            return f"the keys {list(actual)} instead of {list(expected)}", None
        return _mismatch(list(expected.values()), list(actual.values()), slack)
    if expected is None or actual is None:
        return None if expected is actual else ("a missing optional value", None)
    return _array_mismatch(_plain(np.asarray(expected)), _plain(np.asarray(actual)), slack)


def _plain(array: Array) -> Array:
    """Return strings as objects, whatever way they came, and everything else as it is."""
    return (
        np.array([str(item) for item in array.flat], dtype=object).reshape(array.shape)
        if array.dtype.kind in "OSU"
        else array
    )


def _array_mismatch(expected: Array, actual: Array, slack: float) -> tuple[str, tuple[int, ...] | None] | None:
    if expected.dtype != actual.dtype:
        return f"element type {actual.dtype} instead of {expected.dtype}", None
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}", None
    wrong = _unequal(expected, actual)
    if slack and wrong.any():
        both = np.isfinite(expected.astype(np.float64)) & np.isfinite(actual.astype(np.float64))
        with np.errstate(invalid="ignore"):
            near = np.abs(expected.astype(np.float64) - actual.astype(np.float64)) <= slack
        wrong &= ~(both & near)
    if not wrong.any():
        return None
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return f"{actual[index]} instead of {expected[index]} at {list(index)}", index


def _unequal(one: Array, other: Array) -> npt.NDArray[np.bool_]:
    """Return which elements of two arrays of the same type and shape differ in their bits; no two NaN do."""
    if not _is_float(one.dtype):
        return np.asarray(one != other, dtype=np.bool_)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    flat = one.reshape(-1).view(bits) != other.reshape(-1).view(bits)
    wrong = np.asarray(flat, dtype=np.bool_).reshape(one.shape)
    return wrong & ~(np.isnan(one) & np.isnan(other)) if wrong.any() else wrong


# --- counterexamples ------------------------------------------------------------------------------------------------


def _shrink(
    specs: Sequence[inputs.Spec],
    feeds: Feeds,
    found: _Difference,
    fails: Callable[[Feeds], _Difference | None],
    attempts: int,
) -> tuple[Feeds, _Difference]:
    """Return a smaller input on which the two still differ: free dims cut, then values set to zero."""
    left = attempts

    def keep(candidate: Feeds) -> bool:
        """Go on with a candidate if the two differ on it too."""
        nonlocal feeds, found, left
        left -= 1
        still = fails(candidate) if left >= 0 else None
        if still is not None:
            feeds, found = candidate, still
        return still is not None

    def clear(name: str, start: int, stop: int) -> None:
        """Set as much of a stretch of the flat elements to zero as can be."""
        if left <= 0 or _is_zero(feeds[name].reshape(-1)[start:stop]):
            return
        if keep({**feeds, name: _zeroed(feeds[name], start, stop)}) or stop - start == 1:
            return
        middle = (start + stop) // 2
        clear(name, start, middle)
        clear(name, middle, stop)

    for _ in range(2):
        while any(keep(candidate) for candidate in _cuts(specs, feeds)):
            pass
        for name in feeds:
            clear(name, 0, feeds[name].size)
    return feeds, found


def _cuts(specs: Sequence[inputs.Spec], feeds: Feeds) -> Iterable[Feeds]:
    """Yield the feeds with one free dim cut to one element, to its first half or to its last half."""
    axes: dict[str, dict[str, list[int]]] = {}
    for spec in specs:
        array = feeds[spec.name]
        dims = spec.dims if spec.dims is not None else tuple(f":{array.ndim - 1 - axis}" for axis in range(array.ndim))
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                axes.setdefault(dim, {}).setdefault(spec.name, []).append(axis)
    for places in axes.values():
        sizes = {feeds[name].shape[axis] for name, at in places.items() for axis in at}
        size = max(sizes)
        for part in dict.fromkeys(((0, 1), (0, (size + 1) // 2), (size // 2, size), (size - 1, size))):
            if size > 1 and part != (0, size):
                yield {name: _cut(array, places.get(name, []), size, slice(*part)) for name, array in feeds.items()}


def _cut(array: Array, axes: Sequence[int], size: int, part: slice) -> Array:
    """Return a copy of an array cut along those of the axes that have this size."""
    picks = tuple(part if axis in axes and length == size else slice(None) for axis, length in enumerate(array.shape))
    return array[picks].copy(order="C")


def _is_zero(array: Array) -> bool:
    """Return whether all elements are +0, false or the empty string."""
    if array.dtype == np.object_:
        return not (array != "").any()
    return not (array.astype(np.bool_).any() or (_is_float(array.dtype) and np.signbit(array).any()))


def _zeroed(array: Array, start: int, stop: int) -> Array:
    """Return a copy with a stretch of its flat elements set to zero."""
    copy = array.copy(order="C")
    copy.reshape(-1)[start:stop] = "" if array.dtype == np.object_ else 0
    return copy


def _readable(value: Any, index: tuple[int, ...] | None = None) -> Any:
    """Return a value as nested lists of plain numbers and strings; a large one as a sentence about it."""
    if isinstance(value, list):
        return [_readable(item) for item in value[:_SHOWN]]
    if isinstance(value, dict):
        return {str(key): _readable(item) for key, item in list(value.items())[:_SHOWN]}
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    kind = f"{value.dtype}{list(array.shape)}"
    if array.ndim > 1 and not array.size:
        return f"{kind}, empty"
    if array.size <= _SHOWN:
        return array.tolist()
    if index is not None:
        return f"{kind}, {array[index]} at {list(index)}"
    zero: Any = "" if array.dtype == np.object_ else 0
    others = np.argwhere(array != zero)
    listed = ", ".join(f"{array[tuple(at)]} at {at.tolist()}" for at in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    return f"{kind}, zero but for {listed}{more}" if len(others) else f"{kind}, all zero"


def _sentence(*parts: str) -> str:
    """Return the parts that say something, one after the other."""
    return "; ".join(filter(None, parts))


# --- the whole models -----------------------------------------------------------------------------------------------


def _whole(
    before: Source,
    after: Source,
    shapes: Mapping[str, Shape],
    seed: int,
    pairs: Sequence[Pair],
    exact: bool | None,
) -> Check:
    """Compare two models as wholes.

    NaN in an operator that selects has no defined meaning. So where pairs exclude it, and where no pairs say anything,
    an input on which the two differ does not count if the original makes a NaN of it, at its inputs or inside.
    """

    def check(verdict: Verdict, reason: str, count: int = 0, shown: Counterexample | None = None) -> Check:
        return Check("", "", verdict, reason, sessions.name() if count else "", count, shown)

    if before.proto == after.proto and before.directory == after.directory:
        return check(Verdict.EQUAL, "the two models are the same, byte for byte")
    mismatch = _interface_difference(before.proto, after.proto)
    if mismatch:
        return check(Verdict.DIFFERENT, mismatch)
    try:
        found = inputs.specs(before.proto.graph)
    except UntestableError as error:
        return check(Verdict.UNCHECKED, str(error))
    try:
        specs = inputs.with_shapes(found, shapes)
    except ValueError as error:
        raise UsageError(f"The input shapes do not fit the model: {error}.") from error
    if not all(spec.element_type for spec in specs):
        return check(Verdict.UNCHECKED, "the model does not say which type each input has")
    weights = _weights(before)
    lean = weights >= _LEAN
    try:
        original, relabelled = sessions.fit(before)
        runner = Runner(original, lean=lean)
        runner.open(optimised=False)
    except RejectedError as error:
        return check(Verdict.UNCHECKED, f"onnxruntime does not load the original: {error}")
    judge = _judged_by_runtime(original, runner, relabelled and f"the original's {relabelled}", lean=lean)
    draft = Draft(
        specs,
        inputs.steering(before.proto),
        inputs.Allowed(
            nan=not any(pair.exclude_nan for pair in pairs),
            infinite=not any(pair.finite for pair in pairs),
            least=not (inputs.divides(before.proto) or inputs.divides(after.proto)),
            whole=True,
        ),
    )
    budget = inputs.whole_budget(weights, specs, sum(1 for _ in sessions.nodes(before.proto)))
    # onnxruntime 1.31.1 ends the process where GRU is given no steps.
    filled = any(node.op_type in ("GRU", "LSTM", "RNN") for node in sessions.nodes(before.proto))
    candidates = (
        shape
        for shape in inputs.sizes(specs, whole=True)
        if inputs.fits(specs, shape) and not (filled and any(0 in dims for dims in shape.values()))
    )
    trials = inputs.trials(draft, _whole_values(draft, seed), judge.plain, candidates, (), budget)
    count = len(trials.accepted)
    if not count:
        return check(Verdict.UNCHECKED, f"the original ran on none of {trials.tried} inputs: {trials.rejection}")
    try:
        source, note = sessions.fit(after)
    except RejectedError as error:
        return check(Verdict.UNCHECKED, f"the rewritten model is too new: {error}")
    undefined = not pairs or any(pair.exclude_nan or pair.finite for pair in pairs)
    pardoned = _Pardon(original, nan=undefined, infinite=any(pair.finite for pair in pairs))
    contest = _Contest(
        judge,
        Runner(source, lean=lean),
        specs,
        _TOLERANCES[exact],
        pardoned,
    )
    try:
        finding = contest.run(trials.accepted, attempts=0 if lean else budget.inputs * 4)
    except RejectedError as error:
        if error.missing_kernel:
            return check(Verdict.UNCHECKED, f"onnxruntime has no kernel for the rewritten model: {error}", count)
        return check(Verdict.DIFFERENT, f"onnxruntime does not load the rewritten model: {error}", count)
    notes = _sentence(judge.note, note and f"the rewritten model's {note}", pardoned.note())
    if finding is None:
        return check(Verdict.EQUAL, notes, count)
    if not _repeats(original, trials.accepted[0]):
        return check(Verdict.UNCHECKED, "the original gives other outputs each time it runs", count)
    return check(Verdict.DIFFERENT, _sentence(finding.reason, notes), count, finding.counterexample())


class _Pardon:
    """Says whether an input on which two models differ does not count.

    It does not if the original makes a value of the main graph from it whose shape contradicts onnx's inference; nor,
    with `nan`, if a NaN comes up in such a value, or with `infinite` an infinity.
    """

    def __init__(self, original: Source, *, nan: bool, infinite: bool) -> None:
        """Keep the model; it is opened when it is first asked."""
        self._original = original
        self._nan = nan
        self._infinite = infinite
        self._session: Session | None = None
        self._count = 0

    def __call__(self, feeds: Feeds) -> bool:
        """Return whether what the two compute on this input does not count."""
        values = self._values(feeds)
        undefined = any(self._undefined(value) for value in (*feeds.values(), *values.values()))
        pardoned = undefined or bool(_contradiction(self._original.proto, feeds, values))
        self._count += pardoned
        return pardoned

    def note(self) -> str:
        """Return how many inputs did not count, as a reason."""
        return f"{self._count} inputs of which the original makes nothing defined were left out" if self._count else ""

    def _undefined(self, value: Any) -> bool:
        if not isinstance(value, np.ndarray) or not _is_float(value.dtype):
            return False
        return bool((self._nan and np.isnan(value).any()) or (self._infinite and np.isinf(value).any()))

    def _values(self, feeds: Feeds) -> dict[str, Any]:
        """Return every value of the main graph by name; none where onnxruntime cannot show them."""
        try:
            if self._session is None:
                self._session = Session(self._exposed(), optimised=False)
            return dict(zip(self._session.outputs, self._session.run(feeds), strict=True))
        except RejectedError:
            return {}

    def _exposed(self) -> Source:
        """Return the original with every value of its main graph as an output."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._original.proto)
        known = {value.name for value in proto.graph.output}
        inner = dict.fromkeys(name for node in proto.graph.node for name in node.output if name and name not in known)
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
        return dataclasses.replace(self._original, proto=proto, path=None)


def _whole_values(draft: Draft, seed: int) -> Values:
    """Return what makes the inputs of a whole model."""
    rng = np.random.default_rng(seed)

    def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        return draft.peaks(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)

    return values


def _repeats(original: Source, trial: tuple[Feeds, Outputs]) -> bool:
    """Return whether the original computes the same twice in a row on this input."""
    feeds, _ = trial
    try:
        session = Session(original, optimised=False)
        return _mismatch(list(session.run(feeds)), list(session.run(feeds)), 0.0) is None
    except RejectedError:
        return False


def _weights(source: Source) -> int:
    """Return about how many bytes the weights of a model have, those on disk included."""
    return sum(
        math.prod(tensor.dims) * max(1, inputs.np_dtype(tensor.data_type).itemsize)
        for tensor in source.proto.graph.initializer
    )


# --- what two models look like from outside -------------------------------------------------------------------------


def _interface_difference(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> str:
    """Return how the inputs and outputs of two models differ in name, order or type; empty if they do not.

    Inputs that have an initializer are left out, and the order of inputs does not matter.
    """
    wanted_inputs, inputs_found = (
        {value.name: _kind(value.type) for value in inputs.graph_inputs(model.graph)} for model in (original, rewritten)
    )
    wanted, found = ([(v.name, _kind(v.type)) for v in model.graph.output] for model in (original, rewritten))
    if set(wanted_inputs) != set(inputs_found):
        return f"the inputs are {_listed(inputs_found)} instead of {_listed(wanted_inputs)}"
    if [name for name, _ in wanted] != [name for name, _ in found]:
        return f"the outputs are {_listed(dict(found))} instead of {_listed(dict(wanted))}"
    pairs = [("input", name, kind, inputs_found[name]) for name, kind in wanted_inputs.items()]
    pairs += [("output", name, kind, other) for (name, kind), (_, other) in zip(wanted, found, strict=True)]
    for role, name, kind, other in pairs:
        if kind and other and kind != other:
            return f"{role} {name} is {other} instead of {kind}"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _kind(kind: onnx.TypeProto) -> str:
    """Return a type without its shape, such as seq(tensor(float)); empty where it is not known."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = getattr(kind, which).elem_type
        name = onnx.TensorProto.DataType.Name(element).lower()
        return f"{which.removesuffix('_type')}({name})" if element else ""
    if which in ("sequence_type", "optional_type"):
        inner = _kind(getattr(kind, which).elem_type)
        return f"{which.removesuffix('_type')}({inner})" if inner else ""
    if which == "map_type":
        key = onnx.TensorProto.DataType.Name(kind.map_type.key_type).lower()
        return f"map({key}, {_kind(kind.map_type.value_type)})"
    return ""


def _versions() -> dict[str, str]:
    """Return the versions of what took part."""
    try:
        own = importlib.metadata.version("opshift")
    except importlib.metadata.PackageNotFoundError:
        own = "unknown"
    return {
        "opshift": own,
        "onnx": onnx.__version__,
        "onnxruntime": str(sessions.runtime().__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
