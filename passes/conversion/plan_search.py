"""Look for a plan: at other opsets of a target, and with other element types.

Preparing and planning are functions of a request, and are called as often as there are requests to try.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.known_values import known_values
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.base import limits
from opshift.passes.base.arguments import Progress
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.conversion.cures import with_cures
from opshift.passes.conversion.planning import places_of, plan_request, shown, with_preparation
from opshift.passes.conversion.request import (
    Request,
    refused,
    report_stage,
    retyped,
    without_checks,
    without_lowered,
)
from opshift.passes.graph import traversal
from opshift.passes.rewrite.edits import Planned
from opshift.passes.rewrite.planner import FirstRefusalError, Focus, Goal
from opshift.passes.runtime.constant_nodes import ConstantNodes

_ELSEWHERE = 10.0
"""The time limit in seconds for other opsets of a target, if a model cannot be converted to the nearest one."""


def plan_nearest(request: Request, options: Options) -> tuple[Request, Planned]:
    """Plan for the requested opset; if a target has several opsets, for the nearest one with a plan.

    Raises:
        UnsupportedError: the model cannot be converted.
    """
    report_stage(options.progress, "plan")
    request, planned = _first_possible(request, options.progress, options.timeout)
    if request.legality.target is not None and not planned.plan.possible:
        request, planned = _with_other_types(*_without_quantized(request, planned, options), options)
    made = dataclasses.replace(with_preparation(planned.plan, request.prepared), quantized=options.quantized or "")
    planned = dataclasses.replace(planned, plan=made)
    if not planned.plan.possible:
        raise refused(without_checks(request), planned.plan, with_cures(request, planned.plan, options))
    return request, planned


def _first_possible(request: Request, progress: Progress | None, timeout: float | None) -> tuple[Request, Planned]:
    planned = plan_request(request, progress, timeout)
    if planned.plan.possible or not request.others:
        return request, planned
    left = limits.Deadline(_ELSEWHERE)
    doubtful = refused_places(request.model, planned.plan.refusals)
    for opset in request.others:
        again = request.at(opset)
        if not left.left() or not is_possible(again, left.left(), doubtful):
            continue
        if (other := plan_request(again, None, left.left(), hinting=False)).plan.possible:
            return again, other
    return request, planned


_RETYPED = 4
"""The maximum number of plans that change further element types: each lowers nodes that the earlier ones refused."""


def _with_other_types(request: Request, planned: Planned, options: Options) -> tuple[Request, Planned]:
    """Plan with other element types at nodes refused for theirs, while this reduces the refused nodes."""
    for _ in range(_RETYPED):
        refused = frozenset(one.node for one in planned.plan.refusals if one.code is not Code.LIMIT)
        values = request.known.values(request.model, functools.partial(_known_values, request)) if refused else None
        again = None if values is None else retyped(request, values, refused)
        if again is None:
            break
        found = plan_request(again, options.progress, options.timeout, hinting=False)
        if len(found.plan.refusals) >= len(planned.plan.refusals):
            break
        request, planned = again, found
    return request, planned


def _known_values(request: Request) -> Scope:
    evaluate = ConstantNodes(request.model) if kernels.installed() else None
    return known_values(shown(request, ()), evaluate)


def _without_quantized(request: Request, planned: Planned, options: Options) -> tuple[Request, Planned]:
    """Plan with quantization written out as arithmetic, if types change and fewer nodes are refused then.

    The quantized values get other element types then, which QuantizeLinear does not make of them.
    """
    refused = {one.operator.partition("-")[0] for one in planned.plan.refusals}
    names = {node.op_type for graph in traversal.graphs(request.model) for node in graph.node if _quantizes(node)}
    if not request.changes or refused.isdisjoint(names) or request.model.functions or request.prepared.refusals:
        return request, planned
    own = default_opset(request.model.opset_import) or 1
    goal = Goal(Legality(own, frozenset(names)), request.goal.semantics)
    written = plan_request(dataclasses.replace(request, goal=goal), None, options.timeout, hinting=False)
    again = without_lowered(request, written) if written.plan.possible else None
    if again is None:
        return request, planned
    found = plan_request(again, options.progress, options.timeout, hinting=False)
    return (again, found) if len(found.plan.refusals) < len(planned.plan.refusals) else (request, planned)


def _quantizes(node: onnx.NodeProto) -> bool:
    return not default_domain(node.domain) and traits_of(node).marks_quantization


def refused_places(model: onnx.ModelProto, refusals: Sequence[Refusal]) -> frozenset[int]:
    """Return the main graph's indices of the first refused nodes, or of the nodes that contain them."""
    return places_of(model, tuple(dict.fromkeys(one.node for one in refusals))[:_DOUBTFUL])


_DOUBTFUL = 20
"""The number of refusals that are checked first at other opsets: usually one of them is refused there too."""


def is_possible(request: Request, timeout: float | None, doubtful: frozenset[int]) -> bool:
    """Return whether there is a plan; stop at the first refusal, and check doubtful nodes first."""
    try:
        return plan_request(request.in_any_form, None, timeout, hinting=False, focus=Focus(doubtful)).plan.possible
    except FirstRefusalError:
        return False


def possible_somewhere(request: Request, doubtful: frozenset[int]) -> bool:
    """Return whether there is a plan for any opset of the target."""
    if request.prepared.refusals:
        return False
    requests = (request, *map(request.at, request.others))
    return any(is_possible(one, None, doubtful) for one in requests)
