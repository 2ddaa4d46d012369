"""Plan a request: infer what the nodes need, and choose a change for each of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import onnx

from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.schema import OLDEST
from opshift.opsets.registry.structural import IF, LOOP, SCAN
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import limits
from opshift.passes.base.arguments import Progress
from opshift.passes.base.plan import Code, Plan, Refusal
from opshift.passes.conversion.default_inputs import DEFAULTS, overridable, without_inputs
from opshift.passes.conversion.request import (
    Request,
    wanted_ir_version,
)
from opshift.passes.graph.traversal import node_name
from opshift.passes.io import external_data as external
from opshift.passes.rewrite.edits import Planned
from opshift.passes.rewrite.groups import rewrite_groups
from opshift.passes.rewrite.planner import Analysis, Focus, Planner, too_old
from opshift.passes.rewrite.prepare import Prepared


def plan_request(
    request: Request,
    progress: Progress | None,
    timeout: float | None,
    *,
    hinting: bool = True,
    focus: Focus | None = None,
) -> Planned:
    """Return the changes that a request needs, or the refusals.

    `focus` restricts the plan to some nodes, `hinting` looks for fixes of the refused ones.

    Raises:
        FirstRefusalError: with a focus, a node is refused.
    """
    own = default_opset(request.source.model.opset_import) or 1
    old = [too_old(request.legality.opset)] if request.legality.opset < OLDEST else []
    decompose = tuple(sorted(request.legality.decompose))
    nothing = Planned(Plan(own, request.legality.opset, "", decompose, 0, (), tuple(old)), (), ())
    if old:
        return nothing
    deadline = limits.Deadline(limits.LEAST_TIME if timeout is None else timeout)
    source = request.source
    lost = _constants(request)
    view = request.known.view(request.model, bool(lost), lambda: shown(request, lost))
    model = view.shown
    analysis = Analysis(source.views, source.static, source.inferred) if model is source.model else None
    planner = Planner(
        model,
        request.goal,
        analysis,
        alike=view.planner(analysis),
        hinting=hinting,
        progress=progress,
        deadline=deadline,
        focus=focus,
    )
    try:
        planned = planner.run()
    except limits.DeadlineError:
        reason = f"planning did not finish within {deadline.seconds:g} s."
        refusal = Refusal(Code.LIMIT, "model", "", reason, "Allow more time with --timeout.")
        return dataclasses.replace(nothing, plan=dataclasses.replace(nothing.plan, refusals=(refusal,)))
    planner.forget()
    plan = dataclasses.replace(planned.plan, rewrites=functools.partial(rewrite_groups, planned))
    return dataclasses.replace(planned, plan=plan)


def _constants(request: Request) -> list[str]:
    """Return the inputs that become constants of the result, as in `remove_defaults`."""
    wanted, _ = wanted_ir_version(request, request.model)
    return [] if request.keep_initializers_as_inputs and wanted >= DEFAULTS else overridable(request.model)


def shown(request: Request, lost: Collection[str]) -> onnx.ModelProto:
    """Return the model as planners see it: with small external weights, and without inputs that callers cannot feed."""
    model = external.with_small(request.model, request.source.files)
    if not lost:
        return model
    read, model = model, onnx.ModelProto()
    model.CopyFrom(read)
    without_inputs(model, lost)
    return model


def places_of(model: onnx.ModelProto, paths: Sequence[str]) -> frozenset[int]:
    """Return the main graph's indices of the nodes with these paths, or of the nodes that contain them."""
    # A node's name may contain dots, so each prefix of a path that ends at a dot may be the node's name.
    wanted = {path[:end] for path in paths for end in (*_dots(path), len(path))}
    nodes = enumerate(model.graph.node)
    return frozenset(place for place, node in nodes if f"main/{node_name(node, place)}" in wanted)


def _dots(path: str) -> Iterator[int]:
    return (place for place, character in enumerate(path) if character == ".")


def with_preparation(plan: Plan, prepared: Prepared) -> Plan:
    """Add the steps of the preparation to a plan."""
    refusals = (*prepared.refusals, *(_explained(one, prepared.kept) for one in plan.refusals))
    return dataclasses.replace(
        plan,
        kept=max(plan.kept - prepared.casts, 0),
        shapes=prepared.shapes,
        types=prepared.types,
        wide=prepared.wide,
        dequantized=prepared.dequantized,
        prepared=prepared.steps,
        refusals=refusals,
    )


def _explained(refusal: Refusal, kept: Mapping[str, Reason]) -> Refusal:
    """Return the refusal of an If, a Loop or a Scan, with the reason why its subgraphs cannot replace it."""
    why, name = kept.get(refusal.node), refusal.operator.partition("-")[0]
    if why is None or name not in (IF, LOOP, SCAN):
        return refusal
    cause = refusal.reason.partition(", and opshift")[0].removesuffix(".")
    cause = f"{name} is to be decomposed" if cause == f"opshift has no decomposition for {name}" else cause
    fix = f"Use a target that has {name}."
    if why.missing:
        what = "its condition" if name == IF else "the number and the condition of its iterations"
        fix = f"Make {what} constant in the model."
    hint = refusal.hint if "opset" in refusal.hint or "--decompose" in refusal.hint else fix
    return dataclasses.replace(refusal, reason=f"{cause}, and {why}.", hint=hint)
