"""The verification of a conversion."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import onnx

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import Elsewhere
from opshift.opsets.registry.node_traits import rounds
from opshift.opsets.registry.schema_only import VersionedAttributes
from opshift.passes.base import limits
from opshift.passes.base.errors import VerificationError
from opshift.passes.base.options import Options
from opshift.passes.base.results import TENSOR_OUTPUT, Check, Report, Verdict
from opshift.passes.conversion.request import Request, tell
from opshift.passes.conversion.result import Result
from opshift.passes.io import external_data as external
from opshift.passes.io.reader import check_unchanged, is_small
from opshift.passes.rewrite.apply import alone
from opshift.passes.rewrite.edits import Planned, Replace
from opshift.passes.rewrite.groups import replacements

if TYPE_CHECKING:
    from opshift.passes.proof.node_pairs import Pair


def _pair(change: Replace, source: int, target: int, semantics: str) -> Pair:
    from opshift.passes.proof.node_pairs import Pair
    from opshift.passes.runtime import oracles

    operator, meaning, operands = change.lifted.operator, change.lifted.meaning, change.lifted.operands
    assumes = change.fragment.assumes
    original, rewritten = alone(change, source, target)
    names = list(original.graph.node[0].input)
    label = f"{change.seen.name}-{change.seen.since_version}"

    def oracle(feeds: Mapping[str, Any], allowed: limits.Limits) -> Mapping[str, Any]:
        arrays = []
        for index, facts in zip(change.lifted.sources, operands, strict=True):
            known = facts.known if facts else None
            arrays.append(known if index is None else feeds.get(names[index], known))
        every = oracles.computed(operator, meaning, arrays, allowed)
        outputs = original.graph.node[-1].output
        # The last outputs of a node may be left out.
        return dict(zip(outputs, every[: len(outputs)], strict=True))

    return Pair(
        node=change.where,
        operator=f"{change.seen.domain}::{label}" if change.seen.domain else label,
        original=original,
        rewritten=rewritten,
        # An operator without a file has no oracle: onnxruntime is the judge, or nobody.
        oracle=None if isinstance(meaning, VersionedAttributes) else oracle,
        adversarial=operator.adversarial,
        exclude_nan=not operator.nan_defined(meaning, operands) or bool(assumes),
        finite=not operator.infinity_defined(meaning, operands) or bool(assumes & {"finite-inputs", "whole-indices"}),
        whole="whole-indices" in assumes,
        exact=not (change.fragment.rounds or rounds(operator.name)),
        longest=operator.longest,
    )


def _stays_in_file(change: Replace) -> bool:
    """Whether a node is a constant whose elements stay in their file: alone it has none to compare."""
    meaning = change.lifted.meaning
    return isinstance(meaning, constants.Constant) and isinstance(meaning.value, Elsewhere)


def verified(request: Request, planned: Planned, result: Result, options: Options) -> Result:
    """Return the result with its report; VerificationError if it must not be written."""
    tell(options.progress, "verify")
    try:
        report = _compared(request, planned, result.rewritten, options)
    finally:  # an error may not be about the model that was read
        check_unchanged(request.source)
    report = dataclasses.replace(report, about=functools.partial(_about, result))
    result = dataclasses.replace(result, report=report)
    _shown_to_be_equal(result, report, options.require_proof)
    return result


def _compared(request: Request, planned: Planned, rewritten: onnx.ModelProto, options: Options) -> Report:
    """Run both models, and each lowered node beside its original."""
    from opshift.passes.proof.verify import verify

    plan, source = planned.plan, request.source
    pairs = [
        _pair(change, plan.source_opset, plan.target_opset, options.semantics)
        for change in replacements(planned)
        if not _stays_in_file(change)
    ]
    # What was read is what is compared; the weights of a large model are read once more.
    again = source.path is not None and not is_small(source) and TENSOR_OUTPUT not in options.assume
    original: Any = source.path if again else source.model
    original_dir = folder = source.directory
    if source.directory is not None:
        rewritten = external.with_small(rewritten, source.files)
        rewritten, folder = external.relocated(rewritten, source.files, source.directory)
        if not again:
            original = external.with_small(source.model, source.files)
            original, original_dir = external.relocated(original, source.files, source.directory)
    return verify(
        original,
        rewritten,
        pairs=pairs,
        whole=options.verify != "nodes",
        semantics=options.semantics,
        exact=all(pair.exact for pair in pairs),
        drift=True,
        original_dir=None if again else original_dir,
        rewritten_dir=folder,
        allow_paths=source.allowed,
        inputs=options.inputs,
        seed=options.seed,
        timeout=options.timeout,
        memory=options.memory,
        effort=options.effort,
        max_time=options.max_time,
        save_repro=options.save_repro,
        progress=options.progress,
    )


def _about(result: Result) -> dict[str, Any]:
    """Return what a report tells of a conversion beside its verdict."""
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
    """Raise where the result must not be written."""
    for check in (*report.nodes, report.whole):
        if check.verdict == Verdict.DIFFERENT:
            raise VerificationError(_different(check), report, result)
    if not require_proof:
        return
    for check in (*report.nodes, report.whole):
        if check.verdict != Verdict.EQUAL:
            raise VerificationError(_unproven(check), report, result)


def _unproven(check: Check) -> str:
    if not check.node:
        return f"The whole model could not be compared: {check.reason}"
    return f"{check.operator} at {check.node} could not be shown to be equal: {check.reason}"


def _different(check: Check) -> str:
    what = f"{check.operator} at {check.node}" if check.node else "The whole model"
    return f"{what} computes different outputs after the conversion, so nothing is written: {check.reason}"
