"""Plan a conversion, or return the reason why it is impossible."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import starmap

import onnx

from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import OLDEST, default_domain
from opshift.opsets.registry.structural import IF, LOOP, SCAN
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.known_values import known_values
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import limits
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.base.options import Options
from opshift.passes.base.results import Code, Plan, Refusal
from opshift.passes.conversion.default_inputs import DEFAULTS, overridable, without_inputs
from opshift.passes.conversion.example_sizes import ExampleSizes, makes_nothing
from opshift.passes.conversion.request import (
    Request,
    prepare_model,
    refused,
    report_stage,
    retyped,
    wanted_ir_version,
    without_checks,
    without_lowered,
)
from opshift.passes.graph import traversal
from opshift.passes.io import external_data as external
from opshift.passes.rewrite.edits import Planned
from opshift.passes.rewrite.fixed_shapes import dynamic, input_shapes, shape_option
from opshift.passes.rewrite.groups import rewrite_groups
from opshift.passes.rewrite.planner import Analysis, FirstRefusalError, Focus, Goal, Planner, too_old
from opshift.passes.rewrite.prepare import Prepared
from opshift.passes.runtime.constant_nodes import ConstantNodes

_ELSEWHERE = 10.0
"""Seconds in which other opsets of a target are tried for a model that does not go to the nearest one."""


_GUESSES = (64, 224, 640, 32, 1)
"""Sizes of dims other than the first, with which it is tried whether fixed shapes are all that is missing."""


def plan_nearest(request: Request, options: Options) -> tuple[Request, Planned]:
    """Plan for the opset wanted; if a target leaves the opset open, for the nearest one that the model goes to.

    Raises:
        UnsupportedError: the model cannot be converted.
    """
    report_stage(options.progress, "plan")
    request, planned = _first_possible(request, options.progress, options.timeout)
    if request.legality.target is not None and not planned.plan.possible:
        request, planned = _with_other_types(*_without_quantized(request, planned, options), options)
    made = dataclasses.replace(_with_preparation(planned.plan, request.prepared), quantized=options.quantized or "")
    planned = dataclasses.replace(planned, plan=made)
    if not planned.plan.possible:
        raise refused(without_checks(request), planned.plan, _cured(request, planned.plan, options))
    return request, planned


def _first_possible(request: Request, progress: Progress | None, timeout: float | None) -> tuple[Request, Planned]:
    planned = _planned(request, progress, timeout)
    if planned.plan.possible or not request.others:
        return request, planned
    left = limits.Deadline(_ELSEWHERE)
    doubtful = refused_places(request.model, planned.plan.refusals)
    for opset in request.others:
        again = request.at(opset)
        if not left.left() or not is_possible(again, left.left(), doubtful):
            continue
        if (other := _planned(again, None, left.left(), hinting=False)).plan.possible:
            return again, other
    return request, planned


_RETYPED = 4
"""Plans after which no further nodes get other element types: each lowers what those before refused."""


def _with_other_types(request: Request, planned: Planned, options: Options) -> tuple[Request, Planned]:
    """Plan with other element types at nodes that are refused for theirs, as long as fewer nodes are refused then."""
    for _ in range(_RETYPED):
        refused = frozenset(one.node for one in planned.plan.refusals if one.code is not Code.LIMIT)
        evaluate = ConstantNodes(request.model) if kernels.installed() else None
        values = known_values(_shown(request, ()), evaluate) if refused else None
        again = None if values is None else retyped(request, values, refused)
        if again is None:
            break
        found = _planned(again, options.progress, options.timeout, hinting=False)
        if len(found.plan.refusals) >= len(planned.plan.refusals):
            break
        request, planned = again, found
    return request, planned


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
    written = _planned(dataclasses.replace(request, goal=goal), None, options.timeout, hinting=False)
    again = without_lowered(request, written) if written.plan.possible else None
    if again is None:
        return request, planned
    found = _planned(again, options.progress, options.timeout, hinting=False)
    return (again, found) if len(found.plan.refusals) < len(planned.plan.refusals) else (request, planned)


def _quantizes(node: onnx.NodeProto) -> bool:
    return not default_domain(node.domain) and traits_of(node).marks_quantization


def refused_places(model: onnx.ModelProto, refusals: Sequence[Refusal]) -> frozenset[int]:
    """Return where the first refused nodes are in the main graph, or the nodes that hold them."""
    return _places(model, tuple(dict.fromkeys(one.node for one in refusals))[:_DOUBTFUL])


def _places(model: onnx.ModelProto, paths: Sequence[str]) -> frozenset[int]:
    """Return where nodes of these paths are in the main graph, or the nodes that hold them."""
    # A name may contain dots: each part of a path up to one may be that of the node.
    wanted = {path[:end] for path in paths for end in (*_dots(path), len(path))}
    nodes = enumerate(model.graph.node)
    return frozenset(place for place, node in nodes if f"main/{traversal.node_name(node, place)}" in wanted)


def _dots(path: str) -> Iterator[int]:
    return (place for place, character in enumerate(path) if character == ".")


_DOUBTFUL = 20
"""Refusals that are looked at again first at other opsets: one of them is mostly refused there too."""


def is_possible(request: Request, timeout: float | None, doubtful: frozenset[int]) -> bool:
    """Return whether there is a plan, looking at doubtful nodes first, and no further than the first refusal."""
    try:
        return _planned(request, None, timeout, hinting=False, focus=Focus(doubtful)).plan.possible
    except FirstRefusalError:
        return False


def possible_somewhere(request: Request, doubtful: frozenset[int]) -> bool:
    """Return whether there is a plan at any opset of the target."""
    if request.prepared.refusals:
        return False
    requests = (request, *map(request.at, request.others))
    return any(is_possible(one, None, doubtful) for one in requests)


def _planned(
    request: Request,
    progress: Progress | None,
    timeout: float | None,
    *,
    hinting: bool = True,
    focus: Focus | None = None,
) -> Planned:
    own = default_opset(request.source.model.opset_import) or 1
    old = [too_old(request.legality.opset)] if request.legality.opset < OLDEST else []
    decompose = tuple(sorted(request.legality.decompose))
    nothing = Planned(Plan(own, request.legality.opset, "", decompose, 0, (), tuple(old)), (), ())
    if old:
        return nothing
    deadline = limits.Deadline(limits.LEAST_TIME if timeout is None else timeout)
    source = request.source
    lost = _constants(request)
    view = request.known.view(request.model, bool(lost), lambda: _shown(request, lost))
    model = view.shown
    analysis = Analysis(source.bodies, source.static, source.inferred) if model is source.model else None
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
    """Return the inputs that become constants of the result, as `remove_defaults` makes them."""
    wanted, _ = wanted_ir_version(request, request.model)
    return [] if request.keep_initializers_as_inputs and wanted >= DEFAULTS else overridable(request.model)


def _shown(request: Request, lost: Collection[str]) -> onnx.ModelProto:
    """Return the model as planners see it: with small external weights, and without the inputs that nobody can feed."""
    model = external.with_small(request.model, request.source.files)
    if not lost:
        return model
    read, model = model, onnx.ModelProto()
    model.CopyFrom(read)
    without_inputs(model, lost)
    return model


def _with_preparation(plan: Plan, prepared: Prepared) -> Plan:
    """Add to a plan what is done before it."""
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
    """Return the refusal of an If, a Loop or a Scan with the reason why its graphs cannot replace it."""
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


def _is_in_main(path: str) -> bool:
    return path.startswith("main/")


def _cured(request: Request, plan: Plan, options: Options) -> tuple[Refusal, ...]:
    """Return the refusals of a plan, with another hint for those that fixed shapes of the inputs would spare."""
    if any(one.code is Code.LIMIT for one in plan.refusals):
        return plan.refusals  # there was no time to find out
    shapes = input_shapes(request.model)
    if any(shape is None for shape in shapes.values()) or not any(dynamic(shapes)):
        return plan.refusals
    left = limits.Deadline(_ELSEWHERE)
    examples = ExampleSizes(request.model, shapes)
    for sizes in map(examples.of, _GUESSES):
        try:
            sized = dataclasses.replace(options, input_shapes=sizes)
            prepared = prepare_model(request.source, request.legality, sized, request.known)
            if makes_nothing(prepared.model, request.model):
                continue
            again = dataclasses.replace(request, prepared=prepared)
            # Other nodes are of no interest, and a long loop may be unrolled to many.
            paths = [one.node for one in plan.refusals]
            only = Focus(_places(again.model, paths), alone=True) if all(map(_is_in_main, paths)) else None
            planned = _planned(again, None, max(left.left(), 1.0), hinting=False, focus=only)
        except (UsageError, InvalidModelError):  # the model does not accept them, or a node of it
            continue
        remaining = {one.node for one in planned.plan.refusals}
        hint = f"Fix its dynamic inputs, such as with {' '.join(starmap(shape_option, sizes.items()))}."
        return tuple(
            one if one.node in remaining or one in prepared.refusals else dataclasses.replace(one, hint=hint)
            for one in plan.refusals
        )
    return plan.refusals
