"""The verification of a conversion."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import FLOATS, INTEGERS, ExternalTensor, exact_types, type_name
from opshift.opsets.registry.node_traits import rounds
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.schema_only import VersionedAttributes
from opshift.opsets.registry.structural import CAST
from opshift.opsets.runtimes.profiles import INSTALLED
from opshift.passes.analysis.departures import bound_of
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import limits
from opshift.passes.base.assumptions import APPROXIMATE, FITS, TENSOR_OUTPUT
from opshift.passes.base.errors import VerificationError
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Action
from opshift.passes.base.report import Check, Report, Verdict
from opshift.passes.conversion.request import Request, report_stage
from opshift.passes.conversion.result import Result
from opshift.passes.io import external_data as external
from opshift.passes.io.reader import check_unchanged, is_small
from opshift.passes.rewrite.edits import Planned, Replace
from opshift.passes.rewrite.groups import replacements
from opshift.passes.rewrite.interface_types import with_interface, with_small_integers, with_unread
from opshift.passes.rewrite.node_models import alone
from opshift.passes.rewrite.type_choice import is_narrower

if TYPE_CHECKING:
    from opshift.passes.proof.pair import Pair


def _pair(change: Replace, source_opset: int, target_opset: int, semantics: str) -> Pair:
    from opshift.passes.proof.pair import Pair
    from opshift.passes.runtime import oracles

    operator, meaning, operands = change.lifted.operator, change.lifted.meaning, change.lifted.operands
    assumes = change.fragment.assumes
    original, rewritten = alone(change, source_opset, target_opset)
    names = list(original.graph.node[0].input)
    label = f"{change.typed_node.name}-{change.typed_node.since_version}"

    def oracle(feeds: Mapping[str, Any], allowed: limits.Limits) -> Mapping[str, Any]:
        arrays = []
        for index, facts in zip(change.lifted.sources, operands, strict=True):
            known = facts.known if facts else None
            arrays.append(known if index is None else feeds.get(names[index], known))
        every = oracles.computed(operator, meaning, arrays, allowed)
        outputs = original.graph.node[-1].output
        # A node may omit its last outputs.
        return dict(zip(outputs, every[: len(outputs)], strict=True))

    return Pair(
        node=change.where,
        operator=f"{change.typed_node.domain}::{label}" if change.typed_node.domain else label,
        original=original,
        rewritten=rewritten,
        # An operator without a file has no oracle, so onnxruntime is the only possible reference.
        oracle=None if isinstance(meaning, VersionedAttributes) else oracle,
        adversarial=operator.adversarial,
        exclude_nan=not operator.nan_defined(meaning, operands) or bool(assumes - {APPROXIMATE}),
        finite=not operator.infinity_defined(meaning, operands) or bool(assumes & {"finite-inputs", "whole-indices"}),
        whole="whole-indices" in assumes,
        exact=not (change.fragment.rounds or rounds(operator.name)),
        longest=operator.longest,
        approximate=APPROXIMATE in assumes,
    )


def _stays_in_file(change: Replace) -> bool:
    """Return whether a node is a constant whose elements stay in their file: the node alone has nothing to compare."""
    meaning = change.lifted.meaning
    return isinstance(meaning, constants.Constant) and isinstance(meaning.value, ExternalTensor)


def verified(request: Request, planned: Planned, result: Result, options: Options) -> Result:
    """Return the result with its report; raise VerificationError if it must not be written."""
    report_stage(options.progress, "verify")
    try:
        report = _compared(request, planned, result.rewritten, options)
    finally:  # an error need not concern the input model
        check_unchanged(request.source)
    report = dataclasses.replace(report, about=functools.partial(_about, result))
    result = dataclasses.replace(result, report=report)
    _shown_to_be_equal(result, report, options.require_proof)
    return result


def _compared(request: Request, planned: Planned, rewritten: onnx.ModelProto, options: Options) -> Report:
    """Run both models, and each lowered node against its original."""
    from opshift.passes.proof.verify import verify
    from opshift.passes.proof.whole_model import SAME

    plan, source = planned.plan, request.source
    pairs = [
        _pair(change, plan.source_opset, plan.target_opset, options.semantics)
        for change in replacements(planned)
        if not _stays_in_file(change)
    ]
    original, rewritten, original_dir, folder = _with_files(request, rewritten, options)
    rewritten = with_unread(rewritten, source.model, request.prepared.dropped)
    inputs: Any = options.inputs
    unfed = ""
    if options.io_types:
        # Both models are fed the type with fewer values: each value is valid in the other model too.
        original = with_interface(original, rewritten, _fed(request, wider=False))
        unfed = _unfed(rewritten, original, _fed(request, wider=True))
        rewritten = with_interface(rewritten, original, _fed(request, wider=True))
        inputs = _user_inputs(request, original, inputs)
    if options.inputs is None and (small := _small(request, options)):
        original, rewritten = (with_small_integers(one, small) for one in (original, rewritten))
    widened = any(old in FLOATS and new in FLOATS for old, new in request.changes.items())
    quantized = any(step.action is Action.QUANTIZE for step in plan.prepared)
    narrow = [new for old, new in request.changes.items() if is_narrower(old, new) and type_name(old) in plan.types]
    report = verify(
        original,
        rewritten,
        pairs=pairs,
        whole=options.verify != "nodes" and not narrow and not unfed,
        semantics=options.semantics,
        # A wider type, and sums of integers, avoid roundings of the original kernels.
        exact=all(pair.exact for pair in pairs) and not widened and not quantized,
        drift=True,
        original_dir=original_dir,
        rewritten_dir=folder,
        allow_paths=source.allowed,
        inputs=inputs,
        seed=options.seed,
        timeout=options.timeout,
        memory=options.memory,
        effort=options.effort,
        max_time=options.max_time,
        save_repro=options.save_repro,
        progress=options.progress,
    )
    if report.whole.reason == SAME:
        report = dataclasses.replace(report, whole=_of_copy(report.whole, request, rewritten, folder, options))
    approximated = frozenset(pair.node for pair in pairs if pair.approximate)
    report = with_approximations(report, approximated) if approximated else report
    if unfed and options.verify != "nodes":
        return dataclasses.replace(report, whole=dataclasses.replace(report.whole, reason=unfed))
    if not narrow or options.verify == "nodes":
        return report
    bound = max(map(bound_of, narrow))
    return dataclasses.replace(
        report, whole=_within(original, rewritten, (original_dir, folder), bound, inputs, options)
    )


def _of_copy(
    check: Check, request: Request, rewritten: onnx.ModelProto, folder: Path | None, options: Options
) -> Check:
    """Return the check of a model that is what was read.

    It may have been changed before, as the notes say, and not be one that onnxruntime loads, where that is the target.
    """
    from opshift.passes.runtime.ort_models import RejectedError, read
    from opshift.passes.runtime.ort_session import Session

    target = request.legality.target
    if target is not None and target.name == INSTALLED:
        source = read(rewritten, folder)
        try:
            Session(source, optimised=False, limits=limits.limits(options.timeout, options.memory, (source.proto,)))
        except RejectedError as error:
            return dataclasses.replace(
                check, verdict=Verdict.UNCHECKED, reason=f"onnxruntime does not load it: {error}"
            )
    if not request.source.repairs:
        return check
    return dataclasses.replace(check, reason="the two models are the same, apart from the changes that the notes name")


def _with_files(
    request: Request, rewritten: onnx.ModelProto, options: Options
) -> tuple[Any, onnx.ModelProto, Path | None, Path | None]:
    """Return both models with small external tensors loaded, and the folders of their external data.

    The comparison uses the model that was read; the weights of a large model are read again.
    """
    source = request.source
    if again := source.path is not None and not is_small(source) and not _is_changed(request, options):
        original: Any = source.path
    else:
        original = source.model
    if source.directory is None:
        return original, rewritten, None, None
    rewritten = external.with_small(rewritten, source.files)
    rewritten, folder = external.relocated(rewritten, source.files, source.directory)
    if again:
        return original, rewritten, None, folder
    original = external.with_small(source.model, source.files)
    original, original_dir = external.relocated(original, source.files, source.directory)
    return original, rewritten, original_dir, folder


def _unfed(rewritten: onnx.ModelProto, original: onnx.ModelProto, types: Collection[tuple[int, int]]) -> str:
    """Return the reason why the rewritten model cannot be fed or compared in the original's types; empty if it can."""
    opset = default_opset(rewritten.opset_import) or 0
    cast = schema_at("", CAST, opset)
    for like, values in (
        (original.graph.input, rewritten.graph.input),
        (original.graph.output, rewritten.graph.output),
    ):
        wanted = {value.name: value.type.tensor_type.elem_type for value in like}
        for value in values:
            dtype = wanted.get(value.name, 0)
            changed = (value.type.tensor_type.elem_type, dtype) in types
            if changed and cast and f"tensor({type_name(dtype)})" not in cast.inputs[0].types:
                return f"the original takes or returns {type_name(dtype)}, to which opset {opset} casts nothing"
    return ""


def with_approximations(report: Report, nodes: Collection[str]) -> Report:
    """Return the report with verdicts "within bound" in place of "equal", for a model with these approximated nodes."""

    def bounded(check: Check) -> Check:
        if check.verdict is not Verdict.EQUAL or (check.node and check.node not in nodes):
            return check
        inputs = f"{check.inputs} {'input' if check.inputs == 1 else 'inputs'}"
        reason = f"outputs depart by no more than approximations of at most 2^-21 explain, on {inputs}"
        reason = "; ".join(filter(None, (reason, check.reason)))
        return dataclasses.replace(check, verdict=Verdict.WITHIN_BOUND, reason=reason)

    return dataclasses.replace(report, nodes=tuple(map(bounded, report.nodes)), whole=bounded(report.whole))


def _is_changed(request: Request, options: Options) -> bool:
    """Return whether the compared model differs from the input model: in types, outputs or values."""
    narrower = any(is_narrower(old, new) for old, new in request.changes.items())
    assumed = not {TENSOR_OUTPUT, FITS}.isdisjoint(options.assume) or options.assume_opset is not None
    return narrower or assumed or options.io_types


def _user_inputs(request: Request, fed: onnx.ModelProto, inputs: Any) -> Any:
    """Return the user inputs, which have the source's types, in the types that the changed model is fed."""
    from opshift.passes.proof.inputs import generator, user_inputs

    if inputs is None:
        return None
    types = {spec.name: spec.element_type for spec in generator.specs(fed.graph)}
    return [
        user_inputs.in_types(one, types) for one in user_inputs.of(inputs, generator.specs(request.source.model.graph))
    ]


def _within(
    original: onnx.ModelProto,
    rewritten: onnx.ModelProto,
    folders: tuple[Any, Any],
    bound: float,
    user_inputs: Any,
    options: Options,
) -> Check:
    """Compare a model with its version in narrower floats, on other inputs than those that selected the nodes."""
    from opshift.passes.proof.inputs.input_specs import UntestableError
    from opshift.passes.proof.inputs.usual import usual_inputs
    from opshift.passes.proof.within_bound import compare_within_bound
    from opshift.passes.runtime.ort_models import RejectedError, read

    before, after = (read(model, folder) for model, folder in zip((original, rewritten), folders, strict=True))
    allowed = limits.limits(options.timeout, options.memory, (before.proto, after.proto))
    try:
        inputs = usual_inputs(before, user_inputs, options.seed + 1, allowed, fixed=after)
    except (UntestableError, RejectedError) as error:
        return Check("", "", Verdict.UNCHECKED, str(error), "", 0)
    return compare_within_bound(before, after, inputs, bound, allowed)


def _fed(request: Request, *, wider: bool) -> set[tuple[int, int]]:
    """Return the types of the model that is fed another type, and those: the old one where the new is `wider`."""
    pairs = [(old, new) for old, new in request.changes.items() if (new in exact_types(old)) is wider]
    return {(new, old) if wider else (old, new) for old, new in pairs}


def _small(request: Request, options: Options) -> set[str]:
    """Return the inputs of integers that are fed small ones: they are assumed to fit, or become inputs of floats."""
    floats = {old for old, new in request.changes.items() if new in FLOATS} if options.io_types else set()
    dtypes = INTEGERS & (request.changes.keys() if FITS in options.assume else floats)
    return {value.name for value in request.source.model.graph.input if value.type.tensor_type.elem_type in dtypes}


def _about(result: Result) -> dict[str, Any]:
    """Return the data of a report about the conversion, apart from the verdict."""
    return {
        "command": "convert",
        "model": str(result.source.path or ""),
        "before": (result.source_model, result.source.size),
        "after": (result.rewritten, None),
        "plan": result.plan,
        "left_out": result.left_out,
        "notes": result.notes,
        "repairs": result.repairs,
    }


def _shown_to_be_equal(result: Result, report: Report, require_proof: bool) -> None:
    """Raise VerificationError if the result must not be written."""
    for check in (*report.nodes, report.whole):
        if check.verdict == Verdict.DIFFERENT:
            raise VerificationError(_different(check), report, result)
    if not require_proof:
        return
    for check in (*report.nodes, report.whole):
        if check.verdict not in (Verdict.EQUAL, Verdict.WITHIN_BOUND):
            raise VerificationError(_unproven(check), report, result)


def _unproven(check: Check) -> str:
    if not check.node:
        return f"The whole model could not be compared: {check.reason}"
    return f"{check.operator} at {check.node} could not be shown to be equal: {check.reason}"


def _different(check: Check) -> str:
    what = f"{check.operator} at {check.node}" if check.node else "The whole model"
    return f"{what} computes different outputs after the conversion, so nothing is written: {check.reason}"
