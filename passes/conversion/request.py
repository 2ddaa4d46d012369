"""The request of a conversion: the source model, the target, and the prepared model."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx

from opshift.opsets.registry.operator import ML, operator_for
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.opsets.registry.structural import IF, LOOP, SCAN, SEQUENCES, UNBATCHED_SCAN
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.base.arguments import Progress, check_names
from opshift.passes.base.assumptions import FITS, TENSOR_OUTPUT
from opshift.passes.base.decomposed_operators import check_decompose, decomposed_operators, names_any
from opshift.passes.base.errors import InvalidModelError, UnsupportedError, UsageError
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Action, Plan, Refusal
from opshift.passes.base.type_changes import requested_changes
from opshift.passes.conversion.default_inputs import DEFAULTS, overridable, without_inputs
from opshift.passes.conversion.narrow_floats import MeasuredIslands
from opshift.passes.conversion.plan_cache import PlanCache
from opshift.passes.graph.traversal import GraphView, graph_views, graphs
from opshift.passes.io import external_data as external
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import Source, load
from opshift.passes.rewrite.apply import lower
from opshift.passes.rewrite.edits import Planned
from opshift.passes.rewrite.fixed_shapes import Sizes
from opshift.passes.rewrite.opset_imports import (
    converted_ir_version,
)
from opshift.passes.rewrite.planner import Goal
from opshift.passes.rewrite.prepare import Preparation, Prepared, Shown, prepare, retype
from opshift.passes.rewrite.sparse_constants import with_dense_constants
from opshift.passes.rewrite.target_fit import without_unread
from opshift.passes.rewrite.target_types import interface_refusals, narrowed, types_at, types_for
from opshift.passes.rewrite.tensor_output import ZIP_MAP, with_tensors
from opshift.passes.rewrite.type_choice import Types
from opshift.passes.rewrite.wide_constants import missing_types
from opshift.passes.runtime.constant_nodes import ConstantNodes


@dataclass(frozen=True)
class Request:
    """A checked request."""

    source: Source
    prepared: Prepared
    goal: Goal
    ir_version: int | None
    keep_initializers_as_inputs: bool
    others: tuple[int, ...] = ()
    """The other opsets of the target, nearest first, if no opset is requested."""
    known: PlanCache = field(default_factory=PlanCache, compare=False)
    """The cache that several plans share."""
    changes: Mapping[int, int] = field(default_factory=dict)
    """The new element types by the old ones, including the types that the target does not support."""

    @property
    def model(self) -> onnx.ModelProto:
        """The model to plan: with fixed shapes and folded, if requested."""
        return self.prepared.model

    @property
    def legality(self) -> Legality:
        """The predicate for the nodes that the target supports."""
        return self.goal.legality

    def at(self, opset: int) -> Request:
        """Return the same request for another opset of the target."""
        legality = dataclasses.replace(self.legality, opset=opset)
        return dataclasses.replace(self, goal=dataclasses.replace(self.goal, legality=legality))

    @property
    def in_any_form(self) -> Request:
        """The same request, to find out quickly whether there is a plan: the first form of each node is taken."""
        return dataclasses.replace(self, goal=dataclasses.replace(self.goal, any_form=True))

    @property
    def loads_functions(self) -> bool:
        """Whether the target loads models with functions."""
        return self.legality.target is None or self.legality.target.keeps_functions

    @property
    def domains(self) -> Mapping[str, int]:
        """The newest opsets of other domains that the target loads."""
        return self.legality.target.newest_opsets if self.legality.target else {}


def read_request(model: Model, options: Options) -> Request:
    """Read and check the model and the options.

    Raises:
        UsageError: the request is invalid.
        InvalidModelError: the model is not a valid ONNX model.
    """
    profile = options.check()
    report_stage(options.progress, "load")
    source = read_source(model, options)
    check_decompose(options.decompose, source.model.functions)
    return request_of(source, profile, options, PlanCache())


def read_source(model: Model, options: Options) -> Source:
    """Read and check the model.

    Raises:
        InvalidModelError: the model is not a valid ONNX model.
    """
    source = load(model, options.allow_paths, options.assume_opset)
    source = _changed(source, *with_dense_constants(source.model, source.views))
    if TENSOR_OUTPUT not in options.assume:
        return source
    return _changed(source, *with_tensors(source.model), frozenset({f"{ML}::{ZIP_MAP}"}))


def request_of(source: Source, profile: Target | None, options: Options, known: PlanCache) -> Request:
    """Return the request for a model that was read; `known` caches the results of other requests for it.

    Raises:
        UsageError: the request is invalid.
        InvalidModelError: the model is not a valid ONNX model.
    """
    own = default_opset(source.model.opset_import)
    if own is None:
        raise InvalidModelError("The model imports no opset of the default domain.")
    others: tuple[int, ...] = ()
    opset, ir_version = options.opset, options.ir_version
    if profile is not None:
        low, high = profile.opset
        if opset is None:
            opset = nearest = min(max(own, low), high)
            others = tuple(sorted(range(low, high + 1), key=lambda one: (abs(one - nearest), one))[1:])
        elif not low <= opset <= high:
            raise UsageError(f"{profile.name} does not load opset {opset}, only {low} to {high}.")
        loaded = profile.ir_version
        if ir_version is not None and loaded and not loaded[0] <= ir_version <= loaded[1]:
            raise UsageError(f"{profile.name} does not load ir_version {ir_version}, only {loaded[0]} to {loaded[1]}.")
    dequantized = options.quantized == "qdq"
    decomposed = decomposed_operators(options.decompose) | (
        frozenset(_quantized(source.model)) if dequantized else frozenset()
    )
    goal = Goal(
        Legality(own if opset is None else opset, decomposed, profile, dequantized=dequantized),
        options.semantics,
        frozenset(options.assume) - {TENSOR_OUTPUT, FITS},
        runnable=profile is None and kernels.installed(),
        optimize=options.optimize,
    )
    prepared = prepare_model(source, goal.legality, options, known)
    changes = type_changes(source.model, profile, options)
    return Request(source, prepared, goal, ir_version, options.keep_initializers_as_inputs, others, known, changes)


def _quantized(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the operators of a model that can become float operators between DequantizeLinear and QuantizeLinear."""
    held = {(default_domain(node.domain), node.op_type) for view in graphs(model) for node in view.node}
    for domain, name in held:
        operator = operator_for(domain, name)
        if operator is not None and any(lowering.dequantizes for lowering in operator.lowerings):
            yield f"{domain}::{name}" if domain else name


def _changed(
    source: Source, model: onnx.ModelProto, notes: tuple[str, ...], replaced: frozenset[str] = frozenset()
) -> Source:
    """Return a source with another model in its place, and with the notes on the change among its repairs."""
    if model is source.model:
        return source
    repairs, views = (*source.repairs, *notes), tuple(graph_views(model))
    return dataclasses.replace(
        source, model=model, repairs=repairs, views=views, static=None, inferred=None, replaced=replaced
    )


def prepare_model(source: Source, legality: Legality, options: Options, known: PlanCache) -> Prepared:
    """Fix shapes and fold, if requested or if the target needs it."""
    target = legality.target
    sizes = Sizes(options.input_shapes or {}, options.dims or {}, options.batch)
    needed = target is not None and target.needs_constants and not source.model.training_info
    held = frozenset(name for view in source.views for domain, name, _ in view.by_op_key if not default_domain(domain))
    narrow = frozenset(() if source.model.training_info else missing_types(source.model, legality.opset))
    own = default_opset(source.model.opset_import) or 1
    missing = frozenset(() if source.model.training_info else _missing(legality, held, own))
    if legality.opset < _CARRIES_SEQUENCES and not source.model.training_info and _carries_sequences(source.views):
        missing |= {*SEQUENCES}
    runnable = target is None and kernels.installed()
    asked = Preparation(
        sizes=sizes,
        fold=options.fold or bool(sizes) or needed or bool(missing),
        tidy=options.fold or bool(sizes),
        static=target.name if target is not None and target.static else "",
        # Targets that differ only in operators that the model does not use share a prepared model.
        missing=missing & (held | {LOOP} if SCAN in held else held) if source.views else missing,
        types=Types(type_changes(source.model, target, options), options.io_types, FITS in options.assume),
        constants=frozenset() if target is None else target.constant_dtypes,
        runnable=runnable,
        narrow=narrow,
        inline=(target is not None and not target.keeps_functions)
        or names_any(options.decompose, source.model.functions),
        opset=legality.opset if narrow else 0,
        quantized=dataclasses.replace(legality, runnable=runnable) if options.quantized == "qoperator" else None,
        ranks={} if target is None or source.model.training_info else target.max_ranks(legality.opset),
    )
    found = known.prepared(asked, lambda: _prepared(source, asked, options, known))
    found = dataclasses.replace(found, folds=asked.fold)
    if target is not None and not target.unused_inputs:
        found = without_unread(found, target.name)
    if target is None:
        return found
    refusals, notes = tuple(interface_refusals(target, found.model)), tuple(narrowed(target, found.model))
    return dataclasses.replace(found, refusals=(*found.refusals, *refusals), notes=(*found.notes, *notes))


def type_changes(model: onnx.ModelProto, target: Target | None, options: Options) -> Mapping[int, int]:
    """Return the new element types by the old ones: those requested, and those that the target does not support."""
    return {**({} if target is None else types_for(target, model)), **requested_changes(options.types)}


def retyped(request: Request, values: Scope, refused: Collection[str]) -> Request | None:
    """Return a request in which the nodes with these paths have element types that the target accepts.

    Return None if they are refused for another reason than their types, or if their values do not fit other types.
    """
    found = types_at(request.model, values, request.legality, refused)
    if not found:
        return None
    evaluate = ConstantNodes(request.model) if kernels.installed() else None
    prepared = retype(request.prepared, Types(at=found), _shown(request.source), evaluate)
    return None if prepared is None else dataclasses.replace(request, prepared=prepared)


def without_lowered(request: Request, planned: Planned) -> Request | None:
    """Return a request for the model as it is once a plan for its own opset was followed, with the types of the target.

    None: its values do not fit these.
    """
    model = onnx.ModelProto()
    model.CopyFrom(request.model)
    lower(model, planned)
    steps = tuple(step for step in planned.plan.steps if step.action is Action.LOWER)
    evaluate = ConstantNodes(model) if kernels.installed() else None
    lowered = dataclasses.replace(request.prepared, model=model, steps=(*request.prepared.steps, *steps))
    prepared = retype(lowered, Types(request.changes), _shown(request.source), evaluate)
    return None if prepared is None else dataclasses.replace(request, prepared=prepared)


def _shown(source: Source) -> Shown:
    return functools.partial(external.with_small, files=source.files)


def whole(source: Source, tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a tensor of the model with its elements loaded, also from an external file."""
    if (span := external.span_of(tensor)) is None:
        return external.embedded(tensor, source.directory)
    found = onnx.TensorProto()
    found.CopyFrom(tensor)
    external.take(found, span)
    return found


def _prepared(source: Source, asked: Preparation, options: Options, known: PlanCache) -> Prepared:
    model = source.model
    if not options.keep_initializers_as_inputs and (lost := overridable(model)):
        model = onnx.ModelProto()
        model.CopyFrom(source.model)
        without_inputs(model, lost)
    evaluate = ConstantNodes(model) if kernels.installed() else None
    islands = MeasuredIslands(source, options) if asked.types.narrows else None
    keep = known.expanded if known.lasting else None
    found = prepare(model, asked, _shown(source), evaluate, islands, functools.partial(whole, source), keep)
    return dataclasses.replace(found, model=source.model) if found.model is model else found


def _missing(legality: Legality, held: Collection[str], own: int) -> Iterator[str]:
    """Yield the unsupported operators, and those to decompose, that are replaced before planning.

    If only the opset lacks an operator, it is yielded only if the model has it: `held` are the model's operators, `own`
    is its opset. Scan-8, which has batches, is a different operator from Scan-9 and later.
    """
    if SCAN in held and legality.opset < UNBATCHED_SCAN <= own:
        yield SCAN
    for name in (IF, LOOP, SCAN, *SEQUENCES):
        lacks = name in legality.decompose or (legality.target is not None and not legality.target.has_computed(name))
        if lacks or (name in held and schema_at("", name, legality.opset) is None):
            yield name


_CARRIES_SEQUENCES = 13
"""The first opset whose If and Loop can return sequences: in older opsets, their subgraphs return elements instead."""


def _carries_sequences(views: Iterable[GraphView]) -> bool:
    """Return whether any subgraph returns a sequence or an optional."""
    graphs = (view.graph for view in views if view.outer is not None)
    kinds = (value.type for graph in graphs if isinstance(graph, onnx.GraphProto) for value in graph.output)
    return any(type_proto.HasField("sequence_type") or type_proto.HasField("optional_type") for type_proto in kinds)


def assumed(assume: Collection[str], allow: Collection[str] | None, stacklevel: int = 3) -> frozenset[str]:
    """Return the assumptions of a request, including those passed as `allow`, the argument's former name."""
    check_names("assume", assume)
    if allow is None:
        return frozenset(assume)
    check_names("allow", allow)
    message = "allow= is now called assume=" + ", and 'nan' is no longer needed" * ("nan" in allow)
    warnings.warn(f"{message}.", DeprecationWarning, stacklevel=stacklevel)
    return frozenset(assume) | (frozenset(allow) - {"nan"})


def wanted_ir_version(request: Request, model: onnx.ModelProto) -> tuple[int, int | None]:
    """Return the requested ir_version, and the highest accepted one, or None if any is accepted."""
    if request.ir_version is not None:
        return request.ir_version, request.ir_version
    own = default_opset(model.opset_import) or 1
    wanted = converted_ir_version(model.ir_version, own, request.legality.opset)
    if request.keep_initializers_as_inputs and overridable(model):
        wanted = max(wanted, DEFAULTS)
    target = request.legality.target
    if target is None or target.ir_version is None:
        return wanted, None
    low, high = target.ir_version
    return min(max(wanted, low), high), high


def refused(request: Request, plan: Plan, refusals: tuple[Refusal, ...]) -> UnsupportedError:
    """Return the error for refusals found only while the plan was applied; they are added to the plan."""
    return UnsupportedError(refusals, dataclasses.replace(plan, refusals=refusals), request.source)


def report_stage(progress: Progress | None, stage: str) -> None:
    """Report the start of a stage; its number of steps may be reported later."""
    if progress:
        progress(stage, 0, 0)


def without_checks(request: Request) -> Request:
    """Return a request without the results of the model checks, which take much memory."""
    source = dataclasses.replace(request.source, views=(), static=None, inferred=None)
    return dataclasses.replace(request, source=source)
