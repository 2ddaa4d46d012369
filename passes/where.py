"""Find the runtimes that run a model: unchanged, after conversion, or not at all."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.opsets.runtimes.profiles import INSTALLED as ONNXRUNTIME
from opshift.opsets.runtimes.profiles import builtin_targets, load_target
from opshift.opsets.runtimes.releases import release_of, releases
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import notebook
from opshift.passes.base.arguments import Progress
from opshift.passes.base.errors import UnsupportedError, UsageError, printable
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.conversion.plan_cache import PlanCache
from opshift.passes.conversion.plan_search import plan_nearest, possible_somewhere, refused_places
from opshift.passes.conversion.request import read_source, request_of
from opshift.passes.conversion.result import Result
from opshift.passes.conversion.rewriting import rewrite
from opshift.passes.convert import without_collection
from opshift.passes.graph.traversal import node_name
from opshift.passes.io import external_data
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import Source
from opshift.passes.rewrite.planner import FirstRefusalError, Focus, Goal, Planner


class Support(enum.StrEnum):
    """The outcome of a model for a runtime."""

    RUNS = "runs"
    """The model meets the runtime's profile as it is."""
    CONVERTS = "converts"
    """A converted model meets the profile."""
    REFUSED = "refused"
    """The model cannot be converted for the runtime."""


class Replaced(NamedTuple):
    """Nodes of one operator version that become the same operators; `becomes` is empty for a constant."""

    operator: str
    becomes: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, repr=False)
class Fit:
    """The outcome of one model for one runtime.

    `opset` and `ir_version` are those of the model that the runtime gets, or the model's own if it is refused.
    `prepared` counts the nodes that are folded, inlined, unrolled or dropped first, `bumped` those with a version bump.
    `measured` is false for a profile that was copied from a list and not tested in the runtime. `oldest` marks the
    oldest release of onnxruntime with this outcome.
    """

    target: str
    version: str
    measured: bool
    outcome: Support
    opset: int
    ir_version: int
    replaced: tuple[Replaced, ...] = ()
    prepared: Mapping[str, int] = dataclasses.field(default_factory=dict)
    bumped: int = 0
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    oldest: bool = False

    def __repr__(self) -> str:
        """Show target and outcome."""
        return f"<opshift.Fit {notebook.short(self.target)}: {self.outcome}>"


@dataclass(frozen=True, repr=False)
class Where:
    """The outcomes of one model for several runtimes, and the opsets that it can be converted to."""

    opset: int
    ir_version: int
    lowest: int | None
    """The lowest opset that the model can be converted to; None if there is none."""
    highest: int | None
    fits: tuple[Fit, ...]

    def __repr__(self) -> str:
        """Count the outcomes."""
        counts = Counter(fit.outcome for fit in self.fits)
        counts_text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Support if counts[outcome])
        return f"<opshift.Where opset {self.opset}: {counts_text or 'no target'}>"

    def __getitem__(self, target: str) -> Fit:
        """Return the outcome for a target, by its name."""
        for fit in self.fits:
            if fit.target == target:
                return fit
        raise KeyError(target)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        fits = [
            {**vars(fit), "replaced": [one._asdict() for one in fit.replaced], "refusals": list(fit.refusals)}
            for fit in self.fits
        ]
        return {**vars(self), "fits": fits}


def where(
    model: Model,
    targets: Collection[str | os.PathLike[str] | Target] | None = None,
    *,
    assume: Collection[str] = (),
    assume_opset: int | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    fold: bool = False,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Where:
    """Plan a model for several runtimes, without verification; nothing is written or modified.

    Args:
        model: as for `convert`.
        targets: runtimes' profiles: built-in names, TOML files or Targets. None is all built-in ones, with the oldest
            releases of onnxruntime that run the model as it is and after conversion, in place of all releases.
        assume: assumptions that the result may need: "no-nan", "finite-inputs", "whole-indices". With "approximate",
            Erf may be off by 2^-21 of each result. With "tensor-output", outputs that are maps (ZipMap of ai.onnx.ml)
            become tensors of scores. With "fits-int32", integers of unknown range get the narrower type that `types`
            requests.
        assume_opset: read the model at this opset instead of the declared one, for models that declare a wrong one.
        input_shapes: the new shapes of inputs, by name; they are declared in the model, and nodes that depend only on
            them are folded. -1 keeps a declared dim.
        dims: the sizes of symbolic dims of inputs, by the name of the dim.
        batch: the size of the first dim of each input that has two or more, unless the model fixes it.
        fold: replace nodes whose outputs follow from shapes and constants by constants, an If whose condition follows
            by its branch, and drop unused nodes; also done for fixed shapes, and for a target that needs it.
        allow_paths: directories to which links of external data may lead, in addition to the model's own.
        progress: called with a target's name, the targets done and all targets.

    Raises:
        InvalidModelError: the model is missing, unreadable or invalid.
        UsageError: the request is invalid.
    """
    if isinstance(targets, str | bytes | os.PathLike | Target):
        raise UsageError(f"targets is a list of profiles, not {targets!r} alone.")
    asked = dataclasses.replace(Options.of(locals()), verify=False, progress=None)
    names = plain_targets() if targets is None else list(targets)
    if not names:
        raise UsageError("targets names no profile: name one, or leave targets out for all.")
    chosen: list[Target] = []
    for name in names:
        profile = dataclasses.replace(asked, target=name).check()
        if profile is not None and profile not in chosen:
            chosen.append(profile)
    with without_collection(), onnx_process.limited(None, None):
        return _SharedModel(read_source(model, asked), asked).at(chosen, progress, releases_too=targets is None)


def plain_targets() -> tuple[str, ...]:
    """Return the built-in profiles except the releases of onnxruntime, the installed onnxruntime first."""
    names = (name for name in builtin_targets() if release_of(name) is None)
    return tuple(sorted(names, key=lambda name: (name != ONNXRUNTIME, name)))


class _SharedModel:
    """A model that was read, and the data that all its plans share."""

    def __init__(self, source: Source, asked: Options) -> None:
        self._source = source
        self._asked = asked
        self._known = PlanCache(lasting=True)
        self._own = default_opset(source.model.opset_import) or 1

    def at(self, targets: Collection[Target], progress: Progress | None, *, releases_too: bool) -> Where:
        """Plan for all targets."""
        fits: list[Fit] = []
        for count, target in enumerate(targets):
            if progress:
                progress(target.name, count, len(targets) + releases_too)
            fits.append(self._fit(target))
        if releases_too:
            if progress:
                progress("releases of onnxruntime", len(targets), len(targets) + 1)
            fits[1:1] = self._oldest_releases()
        found = Where(self._own, self._source.model.ir_version, *self._convertible_range(), tuple(fits))
        self._known.forget()
        return found

    @functools.cached_property
    def _shown(self) -> onnx.ModelProto:
        """The model with its small external weights embedded."""
        return external_data.with_small(self._source.model, self._source.files)

    def _fit(self, target: Target) -> Fit:
        """Plan for one target and apply the plan: some refusals appear only then."""
        options = dataclasses.replace(self._asked, target=target)
        model = self._source.model
        about = target.name, target.version, target.measured
        try:
            request = request_of(self._source, target, options, self._known)
            result = rewrite(*plan_nearest(request, options), options)[2]
        except UnsupportedError as error:
            return Fit(*about, Support.REFUSED, self._own, model.ir_version, refusals=error.refusals)
        unknown = tuple(self._unknown(target, result.rewritten))
        if result.rewritten is model and unknown:
            return Fit(*about, Support.REFUSED, self._own, model.ir_version, refusals=unknown)
        if result.rewritten is model:
            return Fit(*about, Support.RUNS, self._own, model.ir_version, notes=_notes(result))
        plan = result.plan
        kinds = Counter((f"{one.operator}-{one.since_version}", tuple(one.becomes)) for one in plan.lowered)
        return Fit(
            *about,
            Support.CONVERTS,
            plan.target_opset,
            result.rewritten.ir_version,
            replaced=tuple(Replaced(*kind, nodes) for kind, nodes in kinds.most_common()),
            prepared=dict(Counter(str(one.action) for one in plan.prepared)),
            bumped=len(plan.steps) - len(plan.lowered),
            notes=(*_notes(result), *(f"not sure: {one.node}: {one.reason}" for one in unknown)),
        )

    def _unknown(self, target: Target, result: onnx.ModelProto) -> Iterator[Refusal]:
        """Yield a refusal for the first node whose input ranks or types a runtime may fail to infer.

        Profiles are measured with nodes of known ranks and types. OpenVINO 2026.4.1 loads no Conv of unknown rank, and
        no ReduceMean of unknown type.
        """
        if target.name == ONNXRUNTIME or target.release is not None:
            return
        if result is self._source.model:
            values = self._known.view(result, False, lambda: self._shown).planner(None).scope
        else:
            values = Planner(result, Goal(Legality(target.opset[0])), hinting=False).scope
        for place, node in enumerate(result.graph.node):
            for name in filter(None, node.input):
                if not _is_known(values[name]):
                    where = f"main/{node_name(node, place)}"
                    reason = f"the element type or the rank of its input {printable(name)} is unknown, and "
                    reason += f"{target.name} was not tried with such nodes."
                    hint = "Fix its dynamic inputs with --input-shape, or declare the types and shapes of values."
                    yield Refusal(Code.MISSING_FACT, where, node.op_type, reason, hint)
                    return

    def _oldest_releases(self) -> Iterator[Fit]:
        """Yield the oldest release that runs a converted model, and the oldest that runs the unchanged model.

        Both may be the same release. If no release runs the model, the newest one is yielded with its refusals.
        """
        model = self._source.model
        newest = self._fit(load_target(releases()[-1].name))
        doubtful = refused_places(model, newest.refusals)
        converted = None
        for release in releases():
            loads = release.opset >= self._own and release.ir_version >= model.ir_version
            if converted is not None and not loads:
                continue
            target = load_target(release.name)
            options = dataclasses.replace(self._asked, target=target)
            request = request_of(self._source, target, options, self._known)
            found = self._fit(target) if possible_somewhere(request, doubtful) else None
            if found is None or found.outcome is Support.REFUSED:
                continue
            if found.outcome is Support.RUNS:
                yield dataclasses.replace(found, oldest=True)
                return
            if converted is None:
                converted = found
                yield dataclasses.replace(found, oldest=True)
        if converted is None:
            yield newest

    def _convertible_range(self) -> tuple[int | None, int | None]:
        """Return the lowest and the highest opset that the model can be converted to."""
        model = self._shown
        first = self._known.view(self._source.model, False, lambda: model).planner(None)
        opsets = range(OLDEST, NEWEST + 1)
        lowest = self._first_possible(opsets, first)
        return lowest, None if lowest is None else self._first_possible(reversed(opsets), first)

    def _first_possible(self, opsets: Iterable[int], first: Planner) -> int | None:
        doubtful: frozenset[int] = frozenset()
        for opset in opsets:
            goal = Goal(Legality(opset), any_form=True)
            planner = Planner(first.model, goal, alike=first, hinting=False, focus=Focus(doubtful))
            try:
                if planner.run().plan.possible:
                    return opset
            except FirstRefusalError:
                doubtful = refused_places(first.model, planner.ledger.refusals)
        return None


def _is_known(facts: Facts | None) -> bool:
    """Return whether a value has a known element type and rank, or is no tensor."""
    if facts is None:
        return False
    return (facts.dtype is not None and facts.rank is not None) or facts.type.partition("(")[0] in ("seq", "optional")


def _notes(result: Result) -> tuple[str, ...]:
    """Return the notes about a result that do not concern single nodes."""
    lost = tuple(f"ir_version {result.rewritten.ir_version} has no place for {what}." for what in result.left_out)
    kept = {item.domain for item in result.rewritten.opset_import}
    domains = sorted(printable(one.domain) for one in result.source_model.opset_import if one.domain not in kept)
    imports = (f"Unused imports dropped: {', '.join(domains)}.",) if domains else ()
    inlined = len(result.source_model.functions) - len(result.rewritten.functions)
    functions = (f"Functions inlined: {inlined}.",) if inlined > 0 else ()
    return (*result.repairs, *lost, *imports, *functions, *result.notes)
