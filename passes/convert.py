"""`convert` and `plan`: the eight steps of a conversion, in order."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import Elsewhere
from opshift.opsets.registry.node_traits import rounds
from opshift.opsets.registry.schema import OLDEST, default_domain, schema_at
from opshift.opsets.registry.schema_only import Worded
from opshift.opsets.registry.structural import CAST
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import limits, notebook
from opshift.passes.base.arguments import Progress, check_path, check_progress, check_types
from opshift.passes.base.errors import InvalidModelError, UnsupportedError, UsageError, VerificationError
from opshift.passes.base.options import Options
from opshift.passes.base.results import Caution, Check, Code, Plan, Refusal, Report, Verdict
from opshift.passes.graph import traversal
from opshift.passes.graph.columnar import columns
from opshift.passes.graph.traversal import Walked, walk
from opshift.passes.io import external_data as external
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import Source, check_unchanged, is_small, load, without_weights
from opshift.passes.io.serialization import length, pieces
from opshift.passes.rewrite.apply import alone, lower
from opshift.passes.rewrite.edits import Planned, Replace
from opshift.passes.rewrite.groups import kinds, replacements
from opshift.passes.rewrite.ir_downgrade import Fitted, fitted
from opshift.passes.rewrite.opset_imports import FUNCTIONS, Need, converted_ir_version, released_with, restamp
from opshift.passes.rewrite.planner import Analysis, Goal, Planner, too_old, written_too_old

if TYPE_CHECKING:
    from pathlib import Path

    import onnx_ir

    from opshift.passes.io.atomic_files import Batch
    from opshift.passes.io.writer import Weights
    from opshift.passes.proof.node_pairs import Pair


@dataclass(frozen=True, repr=False)
class Result:
    """A converted model with its plan and the report of its verification (None with verify=False).

    `source` is the model that was read.
    """

    plan: Plan
    report: Report | None
    source: Source
    rewritten: onnx.ModelProto
    """The protobuf of `model`; what is large may be in the file still that it was read from."""
    left_out: tuple[str, ...] = ()
    """What the model held that its ir_version has no place for."""
    notes: tuple[str, ...] = ()
    """What else is to be known of the result: why its ir_version is higher, which inputs are constants now."""

    def __repr__(self) -> str:
        """Show opsets, numbers of nodes and the verdict."""
        return f"<opshift.Result {notebook.result_line(self)}>"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return notebook.result_html(self)

    @property
    def repairs(self) -> tuple[str, ...]:
        """The defects of the model that were repaired before the conversion; other tools tolerate them."""
        return self.source.repairs

    @functools.cached_property
    def model(self) -> onnx.ModelProto | onnx_ir.Model:
        """The converted model: an onnx.ModelProto, or an onnx_ir.Model if `convert` got one.

        The first access reads large weights of a file of more than 64 MiB.

        Raises:
            InvalidModelError: that file has changed in the meantime.
        """
        external.fill(self.rewritten)
        return _as_given(self.source, self.rewritten)

    @property
    def source_model(self) -> onnx.ModelProto:
        """The model that was read; one of a file of more than 64 MiB may lack its large weights."""
        return self.source.model

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: in another process, or on another machine, the file may not be there."""
        external.fill(self.rewritten)
        return self.__dict__

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        external_data: Weights | None = None,
        size_threshold: int = 1024,
        progress: Progress | None = None,
        batch: Batch | None = None,
    ) -> tuple[Path, ...]:
        """Write the model to a file, atomically and with its external data; as ONNX text for .onnxtxt.

        If nothing was changed, the file is a copy, byte for byte. Large weights are copied from file to file. If the
        path is the file that contains them, they are read first.

        Args:
            path: the file to write.
            external_data: the destination of external weights. "keep": they stay, which needs the same directory.
                "copy": the files are copied to the new directory. "embed": they are stored in the model's file.
                "save": all weights, including embedded ones, are stored in one file next to it. None keeps or copies.
            size_threshold: bytes; with "save", smaller weights stay in the model's file.
            progress: called with a stage, the MiB of written weights, and all MiB.
            batch: other files (`opshift.passes.io.atomic_files.Batch`) written together with the model: all or none.

        Returns:
            The files of external data that the model refers to now.

        Raises:
            UsageError: the file cannot be written there, or not in this way.
            InvalidModelError: external data have changed since the model was read.
        """
        from opshift.passes.io import atomic_files, writer

        check_path(path, "path", "a string or a path")
        check_progress(progress)
        if external_data is not None and not (isinstance(external_data, str) and external_data in writer.WEIGHTS):
            raise UsageError(f"external_data is one of {', '.join(writer.WEIGHTS)}, not {external_data!r}.")
        if type(size_threshold) is not int or size_threshold < 0:
            raise UsageError(f"size_threshold is a number of bytes, not {size_threshold!r}.")
        how: dict[str, Any] = {
            "external_data": external_data,
            "size_threshold": size_threshold,
            "progress": progress,
        }
        written = self.rewritten is not self.source.model or external_data is not None
        if written and self.source.path is not None and external.same_file(self.source.path, path):
            external.fill(self.rewritten)
        with contextlib.nullcontext(batch) if batch else atomic_files.Batch() as together:
            together.ready.insert(0, lambda: external.check_stamps(self.source.stamps))
            how["batch"] = together
            if self.rewritten is self.source.model:
                return writer.copy(self.source, path, **how)
            return writer.save(self.rewritten, path, source=self.source, **how)


@dataclass(frozen=True)
class _Request:
    """What is asked for, checked."""

    source: Source
    goal: Goal
    ir_version: int | None
    keep_initializers_as_inputs: bool
    others: tuple[int, ...] = ()
    """Other opsets of the target, the nearest first, where no opset is asked for."""

    @property
    def legality(self) -> Legality:
        """What the target takes."""
        return self.goal.legality

    def at(self, opset: int) -> _Request:
        """Return the same for another opset of the target."""
        legality = dataclasses.replace(self.legality, opset=opset)
        return dataclasses.replace(self, goal=dataclasses.replace(self.goal, legality=legality))

    @property
    def loads_functions(self) -> bool:
        """Whether the target loads models with functions."""
        return self.legality.target is None or self.legality.target.functions

    @property
    def domains(self) -> Mapping[str, int]:
        """The newest opsets that the target loads of other domains."""
        return self.legality.target.domains if self.legality.target else {}


def plan(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    semantics: str = "runtime",
    assume: Collection[str] = (),
    allow: Collection[str] | None = None,
    ir_version: int | None = None,
    optimize: bool = False,
    keep_initializers_as_inputs: bool = False,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Plan:
    """Return the changes that `convert` would make with the same arguments, and the blockers; nothing is modified.

    The conversion is tried on a copy, because only then some blockers appear (above all, an ir_version).

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: the request is invalid.
    """
    assume = assume if allow is None else assumed(assume, allow)
    try:
        return convert(
            model,
            opset=opset,
            decompose=decompose,
            target=target,
            verify=False,
            semantics=semantics,
            assume=assume,
            ir_version=ir_version,
            optimize=optimize,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            allow_paths=allow_paths,
            progress=progress,
        ).plan
    except UnsupportedError as error:
        return cast("Plan", error.plan)


def convert(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    verify: bool | Literal["nodes"] = True,
    semantics: str = "runtime",
    assume: Collection[str] = (),
    allow: Collection[str] | None = None,
    ir_version: int | None = None,
    optimize: bool = False,
    keep_initializers_as_inputs: bool = False,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    require_proof: bool = False,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    memory: int | None = None,
    effort: str = "normal",
    max_time: float | None = None,
    save_repro: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Convert a model to an opset, replace operators, or fit it to a runtime, and verify the outputs.

    Args:
        model: a path, bytes, a file opened in binary mode, an onnx.ModelProto, an onnx_ir.Model or an object with
            `.model_proto` (torch.onnx.ONNXProgram); it is not modified.
        opset: the target opset of the default domain, 7 to 28; None keeps the model's.
        decompose: operators of the default domain to replace.
        target: a runtime's profile: a built-in name, a TOML file or a Target.
        verify: compare with the original in onnxruntime, each rewritten node and the whole models; "nodes" skips the
            whole models and reads no weights.
        semantics: if onnxruntime and the specification differ, preserve onnxruntime's results ("runtime") or the
            specified ones ("spec").
        assume: assumptions that the result may need: "no-nan", "finite-inputs", "whole-indices".
        allow: the former name of `assume`; deprecated.
        ir_version: the target ir_version; None selects that of the first onnx release with a lower opset, or the
            model's own if that is lower, and raises it only if the opset or the model's contents need more.
        optimize: also replace supported Hardmax, ArgMax and OneHot nodes if the result is faster in onnxruntime.
        keep_initializers_as_inputs: keep inputs that have an initializer; by default they become constants of the
            result, from ir_version 4 on.
        allow_paths: directories to which links of external data may lead, in addition to the model's own.
        require_proof: raise also if a node or the whole models could not be compared.
        input_shapes: shapes of inputs for verification, by name.
        inputs: input values for verification: an .npz file, a test_data_set directory or values by name.
        seed: the seed of the generated inputs; the same seed produces the same report.
        timeout: the time limit of planning, and of the verification after it, in seconds (None: ten minutes each;
            longer for the verification of large models).
        memory: the memory limit of onnxruntime in bytes (None: 1 GiB, and more for large models; see `verify`).
        effort: the CPU time of the verification: "quick", "normal" or "thorough"; see `verify`.
        max_time: stop the verification after this many seconds once the minimum number of inputs is tried.
        save_repro: a directory for two small models and the input on which they differ, if they do.
        progress: called with a stage, the steps done and all steps.

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: the request is invalid, or onnxruntime is missing.
        UnsupportedError: the model cannot be converted; it names every blocking node.
        VerificationError: the result was not verified as equal.
    """
    options = Options(
        opset=opset,
        decompose=decompose,
        target=target,
        verify=verify,
        semantics=semantics,
        assume=assume if allow is None else assumed(assume, allow),
        ir_version=ir_version,
        optimize=optimize,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        allow_paths=allow_paths,
        require_proof=require_proof,
        input_shapes=input_shapes,
        inputs=inputs,
        seed=seed,
        timeout=timeout,
        memory=memory,
        effort=effort,
        max_time=max_time,
        save_repro=save_repro,
        progress=progress,
    )
    request, planned, result = _rewritten(model, options)
    return _verified(request, planned, result, options) if verify else result


def _rewritten(model: Model, options: Options) -> tuple[_Request, Planned, Result]:
    """Do all but the verification."""
    profile, progress = options.check(), options.progress
    with _without_collection(), onnx_process.limited(options.timeout, options.memory):
        _tell(progress, "load")
        request = _request(model, options, profile)
        _tell(progress, "plan")
        request, planned = _planned_nearest(request, progress, options.timeout)
        # What the checks have found out has served, but for the names.
        bodies = request.source.bodies
        missed = tuple(_missed(request))
        source = dataclasses.replace(request.source, bodies=(), static=None, inferred=None)
        request = dataclasses.replace(request, source=source)
        left_out: tuple[str, ...] = ()
        if not planned.plan.possible:
            raise _refused(request, planned.plan, planned.plan.refusals)
        rewritten = source.model
        notes: tuple[str, ...] = ()
        wanted, highest = _wanted_ir_version(request, source.model)
        unplanned = source.repairs or _unloaded(request, rewritten)
        if not planned.plan.nothing_to_do or wanted != rewritten.ir_version or unplanned:
            _tell(progress, "lower")
            if source.path is None or is_small(source):
                rewritten = onnx.ModelProto()
                rewritten.CopyFrom(source.model)
            else:  # nobody else has it, and with a copy its weights would be in memory twice
                size = length(pieces(rewritten))
                source = dataclasses.replace(source, model=without_weights(rewritten), size=size)
                request = dataclasses.replace(request, source=source)
            lower(rewritten, planned, bodies, wanted)
            del bodies
            restamp(rewritten, request.legality.opset, request.domains)
            walked = tuple(walk(rewritten, columns(rewritten) if is_small(source) else None))
            if planned.initializers and request.ir_version is None:
                wanted = max(wanted, 4)  # before, an initializer is an input that has a default
            fit = fitted(rewritten, wanted, highest, walked, load, functions=request.loads_functions)
            rewritten, walked, left_out = fit.model, tuple(fit.walked), fit.left_out
            _fits(request, planned.plan, fit, highest)
            notes = (*_kept(request, fit, wanted), *_defaults_removed(request, rewritten))
            _settled(request, planned.plan, rewritten, walked)
            warnings = tuple(_unrunnable(request, planned.plan, walked))
            named = {one.operator for one in warnings}
            warnings += tuple(one for one in planned.plan.warnings if one.operator not in named)
            planned = dataclasses.replace(planned, plan=dataclasses.replace(planned.plan, warnings=warnings))
    result = Result(planned.plan, None, source, rewritten, left_out, (*missed, *notes))
    return request, planned, result


def _tell(progress: Progress | None, stage: str) -> None:
    """Say that a stage begins; how much there is to do is told later, if at all."""
    if progress:
        progress(stage, 0, 0)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from looking for cycles meanwhile: there are none, and it would look at many objects often."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _unloaded(request: _Request, model: onnx.ModelProto) -> bool:
    """Whether the target does not load a model for its functions, or for newer opsets of other domains."""
    newer = any(item.version > request.domains.get(item.domain, item.version) for item in model.opset_import)
    return newer or (bool(model.functions) and not request.loads_functions)


def _settled(request: _Request, plan: Plan, rewritten: onnx.ModelProto, walked: Sequence[Walked]) -> None:
    """Plan the result again, which must give nothing: else the fault is opshift's own, and nothing is written."""
    model = external.with_small(rewritten, request.source.files)
    again_walked = walked if model is rewritten else ()
    goal = dataclasses.replace(request.goal, runnable=False, optimize=False)
    planner = Planner(model, goal, Analysis(again_walked))
    again = planner.run().plan
    if again.refusals:
        # What a graph needs around the nodes that were asked for: a Constant in a function, an Identity for an output.
        raise _refused(request, plan, again.refusals)
    casts = [step for step in again.steps if step.operator == CAST and step.lowerings == ("folded",)]
    if casts and request.legality.opset < 9:
        # A Constant holds floats only there, and a Cast makes what else it is.
        hint = "Take opset 9 or newer, if the runtime allows."
        needed = "a constant of this type is a Constant and a Cast below opset 9"
        said = tuple(Refusal(Code.NO_LOWERING, one.node, "Cast-6", f"{needed}; {one.why}.", hint) for one in casts)
        raise _refused(request, plan, said)
    if again.steps:
        raise AssertionError(f"the result is not on the target: {again.steps[0]}")


def _unrunnable(request: _Request, plan: Plan, walked: Sequence[Walked]) -> Iterator[Caution]:
    """Yield the nodes of the result that onnxruntime has no kernel for, and had one at the opset of the original."""
    if not request.goal.runnable or not kernels.newest_opset():
        return
    import onnxruntime

    for count, one in enumerate(walked):
        where = one.graph.name if count else "main"
        for (domain, name, _), places in one.kinds.items():
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
                yield Caution(path, f"{name}-{after.since_version}", reason, hint)


def _wanted_ir_version(request: _Request, model: onnx.ModelProto) -> tuple[int, int | None]:
    """Return the ir_version wanted, and the highest that is accepted, if any is not."""
    if request.ir_version is not None:
        return request.ir_version, request.ir_version
    own = default_opset(model.opset_import) or 1
    wanted = converted_ir_version(model.ir_version, own, request.legality.opset)
    if request.keep_initializers_as_inputs and _overridable(model):
        wanted = max(wanted, _DEFAULTS)
    target = request.legality.target
    if target is None or target.ir_version is None:
        return wanted, None
    low, high = target.ir_version
    return min(max(wanted, low), high), high


def _fits(request: _Request, plan: Plan, fit: Fitted, highest: int | None) -> None:
    """Refuse where the model needs a higher ir_version than is accepted."""
    if highest is None:
        return
    opset = request.legality.opset
    least = min(released_with(opset), request.source.model.ir_version)
    needed = [Need(least, f"opset {opset}"), *fit.needs]
    beyond = [need for need in needed if need.ir_version > highest]
    if not beyond:
        return
    least = max(need.ir_version for need in beyond)
    what = ", ".join(dict.fromkeys(need.what for need in beyond))
    reason = f"the model needs ir_version {least} for {what}, not {highest}."
    hint = f"Take --ir-version {least} or higher."
    if (target := request.legality.target) and request.ir_version is None:
        reason = f"the model needs ir_version {least} for {what}; {target.name} loads those up to {highest}."
        hint = "Take a lower opset, or a newer target." if beyond == needed[:1] else "Take a newer target."
    raise _refused(request, plan, (Refusal(Code.IR_VERSION, "model", "", reason, hint),))


def _missed(request: _Request) -> Iterator[str]:
    """Yield a note if operators are to be decomposed that the model does not have."""
    if not request.legality.decompose:
        return
    held = {(default_domain(domain), name) for body in request.source.bodies for domain, name, _ in body.kinds}
    missing = request.legality.decompose - {name for domain, name in held if not domain}
    if missing:
        others = sorted(f"{domain}::{name}" for domain, name in held if name in missing)
        instead = f" It has {', '.join(others)}, which --decompose leaves as it is." if others else ""
        yield f"Nothing to decompose: the model has no {', '.join(sorted(missing))}.{instead}"


def _kept(request: _Request, fit: Fitted, wanted: int) -> Iterator[str]:
    """Yield why the ir_version is higher than the one that goes with the opset, if it is."""
    if not fit.needs:
        return
    what = ", ".join(dict.fromkeys(need.what for need in fit.needs))
    inlining = all(need.what in FUNCTIONS for need in fit.needs)
    hint = f" --ir-version {wanted} inlines the functions." if inlining else ""
    yield f"ir_version {fit.model.ir_version} is written, not {wanted}, which has no place for {what}.{hint}"


# --- initializers that are inputs -------------------------------------------------------------------------------------


def _defaults(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of the inputs that have an initializer."""
    given = {tensor.name for tensor in model.graph.initializer}
    return frozenset(value.name for value in model.graph.input if value.name in given) if given else frozenset()


def _overridable(model: onnx.ModelProto) -> list[str]:
    """Return the inputs that a caller may feed or leave to their initializer: below ir_version 4 there are none."""
    names = _defaults(model) if model.ir_version >= _DEFAULTS else ()
    return [value.name for value in model.graph.input if value.name in names]


def _defaults_removed(request: _Request, rewritten: onnx.ModelProto) -> Iterator[str]:
    """Remove the inputs that have an initializer, from ir_version 4 on; yield a note if callers could override them."""
    if rewritten.ir_version >= _DEFAULTS:
        if request.keep_initializers_as_inputs:
            return
        _without_inputs(rewritten, _defaults(rewritten))
    if lost := _overridable(request.source.model):
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        keeps = "--keep-initializers-as-inputs keeps them."
        if request.keep_initializers_as_inputs:
            keeps = f"Only from ir_version {_DEFAULTS} on can they be overridden."
        yield f"No inputs any more, but constants: {', '.join(lost[:_SHOWN])}{more}, which have initializers. {keeps}"


_DEFAULTS = 4
"""The ir_version from which on an input that has an initializer can be fed something else."""


_SHOWN = 5
"""How many names a note has."""


def _without_inputs(model: onnx.ModelProto, names: Collection[str]) -> None:
    for index in range(len(model.graph.input) - 1, -1, -1):
        if model.graph.input[index].name in names:
            del model.graph.input[index]


def _refused(request: _Request, plan: Plan, refusals: tuple[Refusal, ...]) -> UnsupportedError:
    """Return the error for what was found out only when the plan was followed: it is the plan's from then on."""
    return UnsupportedError(refusals, dataclasses.replace(plan, refusals=refusals), request.source)


# --- the request ------------------------------------------------------------------------------------------------------


def _request(model: Model, options: Options, profile: Target | None) -> _Request:
    """Read the model, and take over what is asked for."""
    source = load(model, options.allow_paths)
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
            raise UsageError(f"Opset {opset} is outside of what {profile.name} takes, {low} to {high}.")
        known = profile.ir_version
        if ir_version is not None and known and not known[0] <= ir_version <= known[1]:
            raise UsageError(f"ir_version {ir_version} is outside of what {profile.name} takes, {known}.")
    goal = Goal(
        Legality(own if opset is None else opset, frozenset(options.decompose), profile),
        options.semantics,
        frozenset(options.assume),
        runnable=profile is None and kernels.installed(),
        optimize=options.optimize,
    )
    return _Request(source, goal, ir_version, options.keep_initializers_as_inputs, others)


def assumed(assume: Collection[str], allow: Collection[str] | None, stacklevel: int = 3) -> frozenset[str]:
    """Return the assumptions of a request, those that go by the former name of the argument among them."""
    check_types({"assume": assume, "allow": () if allow is None else allow})
    if allow is None:
        return frozenset(assume)
    message = "allow= is now called assume=" + ", and 'nan' is no longer needed" * ("nan" in allow)
    warnings.warn(f"{message}.", DeprecationWarning, stacklevel=stacklevel)
    return frozenset(assume) | (frozenset(allow) - {"nan"})


_ELSEWHERE = 10.0
"""Seconds in which other opsets of a target are tried for a model that does not go to the nearest one."""


def _planned_nearest(request: _Request, progress: Progress | None, timeout: float | None) -> tuple[_Request, Planned]:
    """Plan for the opset wanted; if a target leaves the opset open, for the nearest one that the model goes to."""
    planned = _planned(request, progress, timeout)
    if planned.plan.possible or not request.others:
        return request, planned
    left = limits.Deadline(_ELSEWHERE)
    for opset in request.others:
        again = request.at(opset)
        if left.left() and (other := _planned(again, None, left.left(), hinting=False)).plan.possible:
            return again, other
    return request, planned


def _planned(request: _Request, progress: Progress | None, timeout: float | None, *, hinting: bool = True) -> Planned:
    own = default_opset(request.source.model.opset_import) or 1
    old = [] if (refusal := written_too_old(request.source.model, own)) is None else [refusal]
    old += [too_old(request.legality.opset, "it is to go to")] * (request.legality.opset < OLDEST)
    decompose = tuple(sorted(request.legality.decompose))
    nothing = Planned(Plan(own, request.legality.opset, "", decompose, 0, (), tuple(old)), (), ())
    if old:
        return nothing
    deadline = limits.Deadline(limits.LEAST_TIME if timeout is None else timeout)
    source = request.source
    model = external.with_small(source.model, source.files)
    wanted, _ = _wanted_ir_version(request, model)
    lost = () if request.keep_initializers_as_inputs and wanted >= _DEFAULTS else _overridable(model)
    if lost:
        # They are constants of the result, as `_defaults_removed` makes them: nobody can override them there.
        read, model = model, onnx.ModelProto()
        model.CopyFrom(read)
        _without_inputs(model, lost)
    analysis = Analysis(source.bodies, source.static, source.inferred) if model is source.model else None
    planner = Planner(model, request.goal, analysis, hinting=hinting, progress=progress, deadline=deadline)
    try:
        planned = planner.run()
    except limits.DeadlineError:
        reason = f"how to convert it was not found out within {deadline.seconds:g} s."
        refusal = Refusal(Code.LIMIT, "model", "", reason, "Give it longer with --timeout.")
        return dataclasses.replace(nothing, plan=dataclasses.replace(nothing.plan, refusals=(refusal,)))
    planner.forget()
    plan = dataclasses.replace(planned.plan, rewrites=functools.partial(kinds, planned))
    return dataclasses.replace(planned, plan=plan)


# --- the proof --------------------------------------------------------------------------------------------------------


def _pair(change: Replace, source: int, target: int, semantics: str) -> Pair:
    from opshift.passes.proof.node_pairs import Pair

    operator, meaning, operands = change.lifted.operator, change.lifted.meaning, change.lifted.operands
    assumes = change.fragment.assumes
    original, rewritten = alone(change, source, target)
    names = list(original.graph.node[0].input)

    def oracle(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        arrays = []
        for index, facts in zip(change.lifted.sources, operands, strict=True):
            known = facts.known if facts else None
            arrays.append(known if index is None else feeds.get(names[index], known))
        results = operator.oracle(meaning, *arrays)
        outputs = original.graph.node[-1].output
        every = results if isinstance(results, tuple) else (results,)
        # The last outputs of a node may be left out.
        return dict(zip(outputs, every[: len(outputs)], strict=True))

    return Pair(
        node=change.where,
        operator=f"{change.seen.name}-{change.seen.since_version}",
        original=original,
        rewritten=rewritten,
        # An operator without a file has no oracle: onnxruntime is the judge, or nobody.
        oracle=None if isinstance(meaning, Worded) else oracle,
        hostile=operator.hostile,
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


def _verified(request: _Request, planned: Planned, result: Result, options: Options) -> Result:
    """Return the result with its report; VerificationError if it must not be written."""
    _tell(options.progress, "verify")
    try:
        report = _compared(request, planned, result.rewritten, options)
    finally:  # an error may not be about the model that was read
        check_unchanged(request.source)
    report = dataclasses.replace(report, about=functools.partial(_about, result))
    result = dataclasses.replace(result, report=report)
    _shown_to_be_equal(result, report, options.require_proof)
    return result


def _compared(request: _Request, planned: Planned, rewritten: onnx.ModelProto, options: Options) -> Report:
    """Run both models, and each lowered node beside its original."""
    from opshift.passes.proof.verify import verify

    plan, source = planned.plan, request.source
    pairs = [
        _pair(change, plan.source_opset, plan.target_opset, options.semantics)
        for change in replacements(planned)
        if not _stays_in_file(change)
    ]
    # What was read is what is compared; the weights of a large model are read once more.
    again = source.path is not None and not is_small(source)
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
        input_shapes=options.input_shapes,
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
    return f"{what} computes something else after the conversion, so nothing is written: {check.reason}"


def _as_given(source: Source, rewritten: onnx.ModelProto) -> onnx.ModelProto | onnx_ir.Model:
    if source.given is None or isinstance(source.given, onnx.ModelProto):
        return rewritten
    import onnx_ir

    return onnx_ir.serde.deserialize_model(rewritten)
