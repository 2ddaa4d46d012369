"""Whether a rewritten model computes what the original does: both run in onnxruntime on the same hostile inputs.

Each lowered node is compared on its own first, as a model of one node against its replacement, because random values
fed to a whole model hardly ever reach the corners of a node in its middle. Then the whole models are compared.
Everything drawn depends on the seed alone, and how much is drawn on sizes alone, never on a clock.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.passes import inputs, sessions
from opshift.passes.compare import (
    EXACT,
    TOLERANCES,
    Contest,
    Judge,
    is_float,
    mismatch,
    sentence,
)
from opshift.passes.errors import UsageError
from opshift.passes.inputs import Budget, Draft, Outputs, Rng, Shape, UntestableError, Values
from opshift.passes.outcome import Check, Counterexample, Report, Verdict
from opshift.passes.sessions import Array, Feeds, RejectedError, Runner, Session, Source

Oracle = Callable[[Feeds], Mapping[str, Array]]
Hostile = Callable[[Rng, Feeds], Feeds]
Progress = Callable[[str, int, int], None]

ORACLE = "numpy oracle"
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
            known[key] = (_told(pair, _pair(_real(pair), seed, semantics)), {new: old for old, new in names.items()})
        check, originals = known[key]
        checks.append(_shared(check, pair, {originals[new]: old for old, new in names.items() if new in originals}))
        if progress:
            progress("nodes", done, len(pairs))
    return tuple(checks)


# --- one pair -------------------------------------------------------------------------------------------------------


_REAL = {TensorProto.COMPLEX64: TensorProto.FLOAT, TensorProto.COMPLEX128: TensorProto.DOUBLE}


def _real(pair: Pair) -> Pair:
    """Return the pair with floats in the place of complex numbers, which onnxruntime cannot be fed.

    What a lowering does with complex numbers, and any other type would go through in the same way, is move them about:
    an operator that computes with them would not be the same pair, and stays as it is.
    """
    models = [onnx.ModelProto.FromString(model.SerializeToString()) for model in (pair.original, pair.rewritten)]
    complexes = {value.name for value in models[0].graph.input if value.type.tensor_type.elem_type in _REAL}
    constants = {tensor.name for tensor in models[0].graph.initializer if tensor.data_type in _REAL}
    carriers = {node.op_type for node in models[1].graph.node if {*node.input} & (complexes | constants)}
    if not (complexes or constants) or not carriers <= _MOVERS:
        return pair
    numbers: dict[complex, int] = {}
    for model in models:
        for value in (*model.graph.input, *model.graph.output):
            if real := _REAL.get(value.type.tensor_type.elem_type):
                value.type.tensor_type.elem_type = real
        for tensor in model.graph.initializer:
            if tensor.data_type in _REAL:
                # One number for each value, the same in both models: what matters is which goes where.
                array = onnx.numpy_helper.to_array(tensor)
                told = [numbers.setdefault(complex(value), len(numbers) + 1) for value in array.flat]
                dtype = onnx.helper.tensor_dtype_to_np_dtype(_REAL[tensor.data_type])
                real_array = np.array(told, dtype=dtype).reshape(array.shape)
                tensor.CopyFrom(onnx.numpy_helper.from_array(real_array, tensor.name))
    return dataclasses.replace(pair, original=models[0], rewritten=models[1])


_MOVERS = frozenset({"OneHot", "Gather", "Where", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Concat"})


def _told(pair: Pair, check: Check) -> Check:
    """Say so where floats stood in the place of complex numbers."""
    if check.verdict is not Verdict.EQUAL or _real(pair) is pair:
        return check
    told = sentence("complex numbers, which onnxruntime cannot be fed, were read as floats", check.reason)
    return dataclasses.replace(check, reason=told)


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
    contest = Contest(judge, Runner(source), draft.specs, EXACT)
    try:
        finding = contest.run(trials.accepted, attempts=400 if trials.largest < 100_000 else 40)
    except RejectedError as error:
        why = _MISSING if error.missing_kernel else "onnxruntime does not load the replacement"
        return check(Verdict.DIFFERENT, f"{why}: {error}", judge.name, count)
    if finding is None:
        return check(Verdict.EQUAL, sentence(*notes), judge.name, count)
    return check(Verdict.DIFFERENT, sentence(finding.reason, *notes), judge.name, count, finding.counterexample())


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


def _judged_by_runtime(source: Source, runner: Runner, note: str, *, lean: bool = False) -> Judge:
    """Return the judge that runs the original in onnxruntime; `lean` closes it before the rewritten one opens."""
    return Judge(
        sessions.name(),
        tuple(value.name for value in source.proto.graph.output),
        lambda feeds: runner.run(feeds, optimised=False),
        lambda feeds: runner.run(feeds, optimised=True),
        note,
        runner.close if lean else lambda: None,
    )


def _judged_by_oracle(pair: Pair, oracle: Oracle, note: str) -> Judge:
    """Return the judge that computes a node's meaning in numpy."""
    outputs = tuple(value.name for value in pair.original.graph.output)
    constants = _constants(pair.original)

    def outputs_of(feeds: Feeds) -> Outputs:
        try:
            result = oracle({**constants, **feeds})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RejectedError(f"{type(error).__name__}: {error}") from error
        return tuple(np.asarray(result[output]) for output in outputs)

    return Judge(ORACLE, outputs, outputs_of, outputs_of, note)


def _judge(pair: Pair, semantics: str) -> Judge:
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


def _trusted(pair: Pair, judge: Judge) -> Judge:
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
    # onnxruntime 1.31.1 ends the process where GRU is given no steps, and an empty tensor may have any axis.
    filled = any(node.op_type in ("GRU", "LSTM", "RNN") for node in sessions.nodes(before.proto))
    filled = filled or any(spec.dims is None for spec in specs)
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
    contest = Contest(
        judge,
        Runner(source, lean=lean),
        specs,
        TOLERANCES[exact],
        pardoned,
    )
    try:
        finding = contest.run(trials.accepted, attempts=0 if lean else budget.inputs * 4)
    except RejectedError as error:
        if error.missing_kernel:
            return check(Verdict.UNCHECKED, f"onnxruntime has no kernel for the rewritten model: {error}", count)
        return check(Verdict.DIFFERENT, f"onnxruntime does not load the rewritten model: {error}", count)
    notes = sentence(judge.note, note and f"the rewritten model's {note}", pardoned.note())
    if finding is None:
        return check(Verdict.EQUAL, notes, count)
    if not _repeats(original, trials.accepted[0]):
        return check(Verdict.UNCHECKED, "the original gives other outputs each time it runs", count)
    return check(Verdict.DIFFERENT, sentence(finding.reason, notes), count, finding.counterexample())


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
        if not isinstance(value, np.ndarray) or not is_float(value.dtype):
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
        return mismatch(list(session.run(feeds)), list(session.run(feeds)), 0.0) is None
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
