"""The rewritten model: the plan applied, its opset and ir_version set."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import onnx

from opshift.opsets.registry import dialect
from opshift.opsets.registry.inference_gaps import SLICE
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.opsets.registry.structural import CAST, SCAN
from opshift.opsets.runtimes import kernels
from opshift.passes.analysis import scopes
from opshift.passes.analysis.known_values import known_values
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.analysis.sliced_dims import declare_sliced_dims, keeps_names
from opshift.passes.base.decomposed_operators import names_of
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Code, KernelWarning, Plan, Refusal
from opshift.passes.base.version_numbers import released_with
from opshift.passes.conversion.default_inputs import DEFAULTS, defaults, overridable, without_inputs
from opshift.passes.conversion.request import (
    Request,
    refused,
    report_stage,
    wanted_ir_version,
    whole,
    without_checks,
)
from opshift.passes.conversion.result import Result
from opshift.passes.graph import traversal
from opshift.passes.graph.columnar import columnar_view
from opshift.passes.graph.traversal import GraphWalk, walk
from opshift.passes.io import external_data as external
from opshift.passes.io.onnx_checks import without_weights
from opshift.passes.io.reader import is_small, load
from opshift.passes.io.serialization import length, serialized_chunks
from opshift.passes.rewrite.apply import lower
from opshift.passes.rewrite.edits import Planned, Replace
from opshift.passes.rewrite.fixed_shapes import declare_outputs
from opshift.passes.rewrite.folding import fold_lowered, reads_constants_alone
from opshift.passes.rewrite.ir_downgrade import IrDowngrade, downgrade_ir_version
from opshift.passes.rewrite.opset_imports import (
    FUNCTIONS,
    IrVersionNeed,
    set_opset_imports,
    unused_imports,
)
from opshift.passes.rewrite.packed_weights import PackedWeights
from opshift.passes.rewrite.planner import Analysis, Planner
from opshift.passes.rewrite.target_fit import fit, interface_faults, lacks_shapes, misfits
from opshift.passes.runtime.constant_nodes import ConstantNodes


def rewrite(request: Request, planned: Planned, options: Options) -> tuple[Request, Planned, Result]:
    """Apply a plan, and set the opset and the ir_version; planning the result again must find no changes.

    Raises:
        UnsupportedError: the result needs something that the target does not support.
    """
    # The results of the checks, except the names, are no longer needed.
    views, missing = request.source.views, tuple(missed(request))
    request = without_checks(request)
    source, left_out = request.source, tuple[str, ...]()
    rewritten = request.model
    notes: tuple[str, ...] = request.prepared.notes
    wanted, highest = wanted_ir_version(request, rewritten)
    if not planned.plan.nothing_to_do and _needs_initializers(request) and (highest is None or highest >= DEFAULTS):
        wanted = max(wanted, DEFAULTS)
    unfit = misfits(rewritten, request.legality)
    unplanned = source.repairs or _unloaded(request, rewritten) or unfit or lacks_shapes(rewritten, request.legality)
    if not planned.plan.nothing_to_do or wanted != rewritten.ir_version or unplanned:
        report_stage(options.progress, "lower")
        if rewritten is not source.model:
            views = ()
            if request.known.lasting:
                rewritten = _copy(rewritten)
        elif source.path is None or is_small(source) or request.known.lasting:
            rewritten = _copy(source.model)
        else:  # there is no other user, and a copy would hold the weights in memory twice
            size = length(serialized_chunks(rewritten))
            source = dataclasses.replace(source, model=without_weights(rewritten), size=size)
            request = dataclasses.replace(request, source=source)
        weights = PackedWeights.of(rewritten, functools.partial(whole, source))
        lower(rewritten, planned, views, wanted)
        del views
        if unread := fit(rewritten, request.legality):
            raise refused(request, planned.plan, unread)
        set_opset_imports(rewritten, request.legality.opset, request.domains, request.legality.drops)
        if wanted >= DEFAULTS:
            _fold_lowered(request, planned, rewritten)
            notes += weights.compute(rewritten)
        _declare_outputs(request, rewritten)
        _declare_sliced_dims(rewritten)
        _declare_scanned(rewritten)
        walked = tuple(walk(rewritten, columnar_view(rewritten) if is_small(source) else None))
        if (planned.initializers or unfit) and request.ir_version is None:
            wanted = max(wanted, DEFAULTS)  # in older ir_versions, an initializer is an input with a default
        fitted = downgrade_ir_version(rewritten, wanted, highest, walked, load, functions=request.loads_functions)
        rewritten, walked, left_out = fitted.model, tuple(fitted.walked), fitted.left_out
        _fits(request, planned.plan, fitted, highest)
        notes += (*_kept(request, fitted, wanted), *remove_defaults(request, rewritten))
        walked = _settled(request, planned.plan, rewritten, walked)
        warnings = tuple(_unrunnable(request, planned.plan, walked))
        named = {one.operator for one in warnings}
        warnings += tuple(one for one in planned.plan.warnings if one.operator not in named)
        planned = dataclasses.replace(planned, plan=dataclasses.replace(planned.plan, warnings=warnings))
    if faults := interface_faults(rewritten, request.legality):
        raise refused(request, planned.plan, faults)
    result = Result(planned.plan, None, source, rewritten, left_out, (*missing, *notes))
    return request, planned, result


def _needs_initializers(request: Request) -> bool:
    """Return whether integer constants must be initializers that are not inputs.

    Below opset 9 a Constant holds floats only, so that integers would be Casts; below ir_version 4 an initializer is an
    input.
    """
    target = request.legality.target
    return target is not None and target.needs_constants and request.legality.opset < 9


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def missed(request: Request) -> Iterator[str]:
    """Yield a note if the model has none of the operators to decompose."""
    if not request.legality.decompose:
        return
    held = {(default_domain(domain), name) for view in request.source.views for domain, name, _ in view.by_op_key}
    named = {one for domain, name in held for one in ((domain, f"{domain}::{name}") if domain else (name,))}
    local = {one for function in request.source.model.functions for one in names_of(function)}
    twins = {f"{dialect.MICROSOFT}::{name}" for name in dialect.operators("")}
    missing = request.legality.decompose - named - local - request.source.replaced - twins
    missing -= {name for name in missing if f"{dialect.MICROSOFT}::{name}" in twins & named}
    if missing:
        others = sorted(f"{domain}::{name}" for domain, name in held if domain and name in missing)
        instead = f" It has {', '.join(others)}, which --decompose names with its domain." if others else ""
        yield f"Nothing to decompose: the model has no {', '.join(sorted(missing))}.{instead}"


def _fold_lowered(request: Request, planned: Planned, model: onnx.ModelProto) -> None:
    """Fold constant nodes that lowerings emitted, if the model is folded."""
    changes = (change for graph in planned.graphs for plan in graph.all() for change in plan.changes.values())
    written = any(isinstance(change, Replace) for change in changes)
    if request.prepared.folds and written and reads_constants_alone(model):
        target = request.legality.target
        evaluate = ConstantNodes(model) if kernels.installed() else None
        values = known_values(external.with_small(model, request.source.files), evaluate)
        fold_lowered(model, values, frozenset() if target is None else target.constant_dtypes)


def _declare_outputs(request: Request, model: onnx.ModelProto) -> None:
    """Declare the shapes of outputs without one, for a target that needs them."""
    if lacks_shapes(model, request.legality):
        declare_outputs(model, known_values(external.with_small(model, request.source.files)))


def _declare_sliced_dims(model: onnx.ModelProto) -> None:
    """Declare names for dims whose name onnxruntime would infer wrongly."""
    if not keeps_names(model) or all(node.op_type != SLICE for graph in traversal.graphs(model) for node in graph.node):
        return
    light = scopes.without_weights(model)
    del light.functions[:]
    with contextlib.suppress(onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        declare_sliced_dims(model, infer_model(light))


def _declare_scanned(model: onnx.ModelProto) -> None:
    """Declare the known shapes of the scan outputs of Scan bodies.

    onnxruntime 1.32.0 needs them, and infers no shape of LessOrEqual and GreaterOrEqual below version 16.
    """
    outputs = _scanned(model)
    if all(value.type.tensor_type.HasField("shape") for value in outputs):
        return
    with contextlib.suppress(onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        inferred = _scanned(infer_model(scopes.without_weights(model)))
        for value, known in zip(outputs, inferred, strict=True):
            declared, found = value.type.tensor_type, known.type.tensor_type
            if found.HasField("shape") and not declared.HasField("shape") and declared.elem_type == found.elem_type:
                declared.shape.CopyFrom(found.shape)


def _scanned(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the outputs of the bodies of all Scans, in the order of the graphs."""
    scans = (node for graph in traversal.graphs(model) for node in graph.node if node.op_type == SCAN)
    return [value for node in scans for subgraph in traversal.subgraphs(node) for value in subgraph.output]


def _unloaded(request: Request, model: onnx.ModelProto) -> bool:
    """Return whether the target cannot load a model because of its functions or its imports of other domains."""
    newer = any(item.version > request.domains.get(item.domain, item.version) for item in model.opset_import)
    idle = any(request.legality.drops(item.domain) for item in unused_imports(model))
    return newer or idle or (bool(model.functions) and not request.loads_functions)


def _settled(
    request: Request, plan: Plan, rewritten: onnx.ModelProto, walked: tuple[GraphWalk, ...]
) -> tuple[GraphWalk, ...]:
    """Plan the result again, which must find no changes; otherwise it is an internal error, and nothing is written.

    One more change is permitted and applied: a lowering may compute a constant that a node does not accept.
    """
    again = _planned_again(request, plan, rewritten, walked)
    if not again.plan.steps:
        return walked
    lower(rewritten, again, (), rewritten.ir_version)
    set_opset_imports(rewritten, request.legality.opset, request.domains, request.legality.drops)
    walked = tuple(walk(rewritten, None))
    if steps := _planned_again(request, plan, rewritten, walked).plan.steps:
        raise AssertionError(f"the result is not on the target: {steps[0]}")
    return walked


def _planned_again(request: Request, plan: Plan, rewritten: onnx.ModelProto, walked: tuple[GraphWalk, ...]) -> Planned:
    """Plan the result.

    Raises:
        UnsupportedError: a node of the result is refused.
    """
    model = external.with_small(rewritten, request.source.files)
    again_walked = walked if model is rewritten else ()
    goal = dataclasses.replace(request.goal, runnable=False, optimize=False)
    again = Planner(model, goal, Analysis(again_walked, specialisers=request.known.specialisers)).run()
    if again.plan.refusals:
        # A graph needs these around the requested nodes: a Constant in a function, an Identity for an output.
        raise refused(request, plan, again.plan.refusals)
    casts = [step for step in again.plan.steps if step.operator == CAST and step.lowerings == ("folded",)]
    if casts and request.legality.opset < 9:
        # Below opset 9, a Constant holds only floats, and a Cast changes its type.
        hint = "Use opset 9 or newer, if the runtime allows."
        needed = "a constant of this type is a Constant and a Cast below opset 9"
        found_refusals = tuple(
            Refusal(Code.NO_LOWERING, one.node, "Cast-6", f"{needed}; {one.why}.", hint) for one in casts
        )
        raise refused(request, plan, found_refusals)
    return again


def _unrunnable(request: Request, plan: Plan, walked: Sequence[GraphWalk]) -> Iterator[KernelWarning]:
    """Yield the nodes of the result without an onnxruntime kernel, if the original's opset had a kernel."""
    if not request.goal.runnable or not kernels.newest_opset():
        return
    import onnxruntime

    for count, one in enumerate(walked):
        where = one.graph.name if count else "main"
        for (domain, name, _), places in one.by_op_key.items():
            if default_domain(domain):
                continue
            last = kernels.last_that_runs(name, plan.source_opset, plan.target_opset)
            after = schema_at("", name, plan.target_opset)
            if last is None or after is None:
                continue
            reason = f"onnxruntime {onnxruntime.__version__} has no kernel for {name}-{after.since_version}."
            hint = f"Use opset {last} to run the model there."
            for place in places:
                path = f"{where}/{traversal.node_name(one.graph.node[place], place)}"
                yield KernelWarning(path, f"{name}-{after.since_version}", reason, hint)


def _fits(request: Request, plan: Plan, fit: IrDowngrade, highest: int | None) -> None:
    """Refuse if the model needs a higher ir_version than the accepted one."""
    if highest is None:
        return
    opset = request.legality.opset
    least = min(released_with(opset), request.source.model.ir_version)
    needed = [IrVersionNeed(least, f"opset {opset}"), *fit.ir_version_needs]
    beyond = [need for need in needed if need.ir_version > highest]
    if not beyond:
        return
    least = max(need.ir_version for need in beyond)
    what = ", ".join(dict.fromkeys(need.what for need in beyond))
    reason = f"the model needs ir_version {least} for {what}, not {highest}."
    hint = f"Use --ir-version {least} or higher."
    if (target := request.legality.target) and request.ir_version is None:
        reason = f"the model needs ir_version {least} for {what}; {target.name} loads those up to {highest}."
        hint = "Use a lower opset, or a newer target." if beyond == needed[:1] else "Use a newer target."
    raise refused(request, plan, (Refusal(Code.IR_VERSION, "model", "", reason, hint),))


def _kept(request: Request, fit: IrDowngrade, wanted: int) -> Iterator[str]:
    """Yield the reasons why the ir_version is higher than the usual one of the opset, if it is."""
    if not fit.ir_version_needs:
        return
    what = ", ".join(dict.fromkeys(need.what for need in fit.ir_version_needs))
    inlining = all(need.what in FUNCTIONS for need in fit.ir_version_needs)
    hint = f" --ir-version {wanted} inlines the functions." if inlining else ""
    yield f"ir_version {fit.model.ir_version} is written, not {wanted}, which does not support {what}.{hint}"


def remove_defaults(request: Request, rewritten: onnx.ModelProto) -> Iterator[str]:
    """Remove the inputs that have an initializer, from ir_version 4 on; yield a note if callers could override them."""
    if rewritten.ir_version >= DEFAULTS:
        if request.keep_initializers_as_inputs:
            return
        without_inputs(rewritten, defaults(rewritten))
    if lost := overridable(request.source.model):
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        keeps = "--keep-initializers-as-inputs keeps them."
        if request.keep_initializers_as_inputs:
            keeps = f"Only from ir_version {DEFAULTS} on can they be overridden."
        yield f"No longer inputs, but constants: {', '.join(lost[:_SHOWN])}{more}, which have initializers. {keeps}"


_SHOWN = 5
"""The maximum number of names in a note."""
