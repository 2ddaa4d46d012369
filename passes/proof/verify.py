"""Whether a rewritten model computes what the original does: both run in onnxruntime on the same hostile inputs.

Each lowered node is compared on its own first (pairs.py), then the whole models. Everything drawn depends on the seed
alone, and how much is drawn on sizes alone, never on a clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import filecmp
import functools
import importlib.metadata
import math
import os
import platform
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import operator_for
from opshift.passes.analysis.model_summary import Outline, outline
from opshift.passes.analysis.scopes import Shape
from opshift.passes.base.arguments import Progress, check_effort, check_types
from opshift.passes.base.effort import LARGE, LEAST, Allowance
from opshift.passes.base.errors import OpshiftError, UsageError
from opshift.passes.base.limits import Limits
from opshift.passes.base.limits import check as check_limits
from opshift.passes.base.limits import limits as within
from opshift.passes.base.results import Check, Counterexample, Coverage, Report, Verdict
from opshift.passes.io import external_data
from opshift.passes.io.model_forms import Model
from opshift.passes.io.reader import check_unchanged
from opshift.passes.io.repairs import repair
from opshift.passes.proof import branch_coverage, repro
from opshift.passes.proof.bisect import Cut, Side, partings, unoptimised_agree
from opshift.passes.proof.comparison import Contest, Finding, Judge, Route, mismatch, sentence
from opshift.passes.proof.coverage import Covered
from opshift.passes.proof.inputs import generator, user_inputs
from opshift.passes.proof.inputs.data_flow import Use, says
from opshift.passes.proof.inputs.generator import Draft, UntestableError
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import hints, repairer, sizes_of
from opshift.passes.proof.inputs.value_classes import counted
from opshift.passes.proof.kernel_drift import Drift
from opshift.passes.proof.node_pairs import ENOUGH, Pair, failed, prove, route
from opshift.passes.proof.randomness import names_read, random_outputs
from opshift.passes.proof.signature import interface_difference
from opshift.passes.proof.tolerance import Bounds
from opshift.passes.proof.undefined_behavior import Pardon
from opshift.passes.runtime import ort_session
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_session import Feeds, RejectedError, Runner, Source, Why

_LEAN = 2**30  # bytes of weights from which on one session is open at a time
_STEPS = 400  # attempts at a smaller input


def verify(
    original: Model | Source,
    rewritten: Model | Source,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
    pairs: Sequence[Pair] = (),
    whole: bool = True,
    semantics: str = "runtime",
    exact: bool = False,
    drift: bool = False,
    timeout: float | None = None,
    memory: int | None = None,
    effort: str = "normal",
    max_time: float | None = None,
    save_repro: str | os.PathLike[str] | None = None,
    original_dir: str | os.PathLike[str] | None = None,
    rewritten_dir: str | os.PathLike[str] | None = None,
    allow_paths: Collection[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Report:
    """Compare two models node by node and as wholes, and return what was shown.

    Args:
        original: a path (.onnx or ONNX text), bytes, a file opened in binary mode, a protobuf, an onnx_ir.Model, an
            object with `.model_proto`, or what `ort_session.read` made of one.
        rewritten: the model to compare with it.
        input_shapes: shapes of inputs of the whole models, by name, instead of several sizes.
        inputs: input values of the whole models instead of generated ones: an .npz file, a directory test_data_set_N
            or one that contains several, or values by name. Missing inputs are still generated.
        seed: the same seed and versions produce the same report.
        pairs: the rewritten nodes.
        whole: False compares only the pairs, and reports this.
        semantics: the reference is onnxruntime ("runtime"), or the numpy oracles of operators for which onnxruntime
            and the specification differ ("spec").
        exact: True: the whole models must be equal bit for bit with graph optimizations off. With them on, a float
            output may differ from the original's by 8 times the original's own difference between optimizations on and
            off on that input, since a rewrite changes which nodes are fused. False: with either, floats may differ by
            8 times the original's rounding error on that input (rounding.py), which is zero if its arithmetic is exact.
            Integers, booleans and strings must be equal exactly, unless rounding decides them.
        drift: with `exact`, ignore onnxruntime's own differences on nodes that are the same in both models, and the
            sign of a zero whose sign no specification defines (drift.py).
        timeout: the time limit of the comparison in seconds (None: ten minutes, and longer for large models).
        memory: the memory limit of onnxruntime in bytes, if the system supports limits (None: 1 GiB, and more for
            weights and for large declared inputs and outputs, up to three quarters of the machine's).
        effort: the CPU time budget of the whole models: "normal" is 9 times the time in which onnxruntime opens both
            models and runs each once, 2.5 times with more than 100 MB of weights, and at least 1.8 seconds; "quick"
            is a third of that, "thorough" ten times as much.
        max_time: stop after this many seconds once the minimum number of inputs is tried; the comparisons up to then
            count.
        save_repro: a directory for two small models and an input on which they differ, if they do.
        original_dir: the directory of the original's external data, where a protobuf is given.
        rewritten_dir: the same for the rewritten model.
        allow_paths: directories in which links of external data may end.
        progress: is called with a stage ("nodes" or "whole"), the steps done and all steps.

    Raises:
        UsageError: onnxruntime is not installed, or `input_shapes`, `inputs`, `semantics`, `seed`, `timeout`,
            `memory`, `effort` or `max_time` does not fit.
        InvalidModelError: a path holds no ONNX model, or another one by the time the comparison ends.
    """
    check_types(
        {
            "semantics": semantics,
            "input_shapes": input_shapes,
            "inputs": inputs,
            "allow_paths": allow_paths,
            "save_repro": save_repro,
            "progress": progress,
        }
    )
    check_limits(seed, timeout, memory)
    check_effort(effort, max_time)
    ort_session.runtime()
    allowance = Allowance(ort_session.seconds, effort, max_time)
    if save_repro is not None:
        repro.refuse_used(Path(save_repro))
    with onnx_process.limited(timeout, memory):
        before = _named(ort_session.read(original, original_dir, allow_paths))
        after = _named(ort_session.read(rewritten, rewritten_dir, allow_paths))
        limits = within(timeout, memory, (before.proto, after.proto))
        report = progress or (lambda stage, done, total: None)
        options = _options(exact, semantics, timeout, memory, effort, allow_paths)
        shown = _Shown(save_repro, _command(before, after, seed, input_shapes, inputs, options), options)
        checks = prove(
            pairs, seed=seed, semantics=semantics, limits=limits, allowance=allowance, progress=report, shown=shown
        )
        if not whole:
            check = Check("", "", Verdict.UNCHECKED, "only the rewritten nodes were compared, as was asked for", "", 0)
        elif sum(check.verdict is Verdict.DIFFERENT for check in checks) >= (1 if semantics == "spec" else ENOUGH):
            check = Check("", "", Verdict.UNCHECKED, "it was not compared, since nodes differ", "", 0)
        else:
            judged = _contested(before.proto) if semantics == "spec" else frozenset()
            comparison = _Whole(
                before,
                after,
                input_shapes or {},
                inputs,
                seed,
                pairs,
                exact,
                drift,
                judged,
                limits,
                allowance.part(LEAST, large=max(map(_weights, (before, after))) >= LARGE),
                shown,
                report,
            )
            try:
                check = comparison.check()
            except RejectedError as error:
                check = Check("", "", Verdict.UNCHECKED, str(error), "", 0)
            except MemoryError as error:
                reason = f"opshift ran out of memory while it compared the two models ({error})"
                check = Check("", "", Verdict.UNCHECKED, reason, "", 0)
            except OpshiftError:
                raise
            except Exception as error:
                check = Check("", "", Verdict.UNCHECKED, failed(error), "", 0)
        for source in (before, after):
            if source.origin is not None:
                check_unchanged(source.origin)
        return Report(checks, check, seed, _versions(), effort, max_time, functools.partial(_about, before, after))


def _about(before: Source, after: Source) -> dict[str, Any]:
    """Return what a report tells of a comparison beside its verdict."""
    sides = {"before": (before.proto, None), "after": (after.proto, None)}
    return {"command": "verify", "model": before.named, "other": after.named, **sides}


def _contested(model: onnx.ModelProto) -> frozenset[str]:
    """Return the operators of a model whose text and whose onnxruntime differ."""
    named = {node.op_type for node in ort_session.nodes(model) if node.domain in ("", "ai.onnx")}
    known = (operator for name in sorted(named) if (operator := operator_for("", name)))
    return frozenset(operator.name for operator in known if any(version.spec for version in operator.versions))


def _command(
    before: Source,
    after: Source,
    seed: int,
    shapes: Mapping[str, tuple[int, ...]] | None,
    given: object,
    options: Sequence[str],
) -> str:
    """Return the command that shows the difference of two files again; empty where one is no file."""
    if not before.named or not after.named:
        return ""
    parts = ["opshift", "verify", before.named, after.named, "--seed", str(seed)]
    for name, shape in (shapes or {}).items():
        parts += ["--input-shape", f"{name}:{','.join(map(str, shape))}"]
    if given is not None and not isinstance(given, Mapping):
        parts += ["--inputs", os.fspath(given)]  # type: ignore[call-overload]
    return shlex.join([*parts, *options])


def _options(
    exact: bool,
    semantics: str,
    timeout: float | None,
    memory: int | None,
    effort: str,
    allow_paths: Iterable[str | os.PathLike[str]],
) -> list[str]:
    """Return what else directs the comparison, as options of the command."""
    asked = {"--semantics": semantics if semantics != "runtime" else None, "--timeout": timeout, "--memory": memory}
    asked |= {"--effort": effort if effort != "normal" else None}
    given = [part for name, value in asked.items() if value is not None for part in (name, f"{value}")]
    permitted = [part for path in allow_paths for part in ("--allow-path", os.fspath(path))]
    return ["--exact"] * exact + given + permitted


@dataclass
class _Shown:
    """Says how a difference is seen again, and writes the first one down where that is asked for."""

    directory: str | os.PathLike[str] | None
    command: str
    options: Sequence[str]
    written: bool = False

    def __call__(
        self,
        original: Source | onnx.ModelProto,
        rewritten: Source | onnx.ModelProto,
        finding: Finding,
        exact: bool = False,
    ) -> str:
        """Return the command; write both models and the input if none were written."""
        if self.directory is None or self.written:
            return self.command
        sources = [one if isinstance(one, Source) else Source(one) for one in (original, rewritten)]
        self.written = True
        options = ["--exact"] * (exact and "--exact" not in self.options) + list(self.options)
        return repro.write(Path(self.directory), sources[0], sources[1], finding, options)


@dataclass(frozen=True)
class _Whole:
    """The comparison of two models as wholes.

    NaN in an operator that selects has no defined meaning, nor has an integer that a float is too large for. An input
    on which the two differ does not count if the original makes such a thing of it.
    """

    before: Source
    after: Source
    shapes: Mapping[str, Shape]
    given: Any
    seed: int
    pairs: Sequence[Pair]
    exact: bool
    drift: bool
    judged: frozenset[str]
    limits: Limits
    allowance: Allowance
    shown: _Shown
    progress: Progress
    defaults: bool = True
    """Whether inputs that have an initializer are drawn too, in a second round."""

    def check(self) -> Check:
        """Compare them.

        Raises:
            UsageError: the shapes or inputs that were given do not fit.
            RejectedError: onnxruntime went beyond the limits.
        """
        if _same(self.before, self.after):
            return self._told(Verdict.EQUAL, "the two models are the same, byte for byte")
        mismatch = interface_difference(self.before.proto, self.after.proto)
        if mismatch:
            return self._told(Verdict.DIFFERENT, mismatch)
        if self._random:
            return self._but_for_random()
        try:
            found = generator.specs(self.before.proto.graph)
        except UntestableError as error:
            return self._told(Verdict.UNCHECKED, str(error))
        try:
            specs = generator.with_shapes(found, self.shapes)
        except ValueError as error:
            raise UsageError(f"The input shapes do not fit the model: {error}.") from error
        if not all(spec.element_type for spec in specs):
            return self._told(Verdict.UNCHECKED, "the model does not say which type each input has")
        try:
            judge = self._judge()
        except RejectedError as error:
            return self._told(Verdict.UNCHECKED, f"onnxruntime does not load the original: {error}")
        return self._tried(specs, judge)

    def _but_for_random(self) -> Check:
        """Compare all outputs but those that are random."""
        names = ", ".join(self._random)
        if len(self._random) == len(self.before.proto.graph.output):
            return self._told(Verdict.UNCHECKED, f"all outputs are random ({names})")
        before, after = (_without_outputs(one, self._random) for one in (self.before, self.after))
        check = dataclasses.replace(self, before=before, after=after).check()
        return dataclasses.replace(
            check, reason=sentence(check.reason, f"not compared, since they are random: {names}")
        )

    @functools.cached_property
    def _random(self) -> tuple[str, ...]:
        return random_outputs(self.before.proto)

    def _judge(self) -> Judge:
        source = self.before
        outputs = tuple(value.name for value in source.proto.graph.output)
        way, note = self._route(source)
        bounds = self._bounds(source, self.after)
        opening = way.open(optimised=False).opening if isinstance(way, Runner) else 0.0
        return Judge(way, outputs, note and f"the original's {note}", bounds, self._lean, opening)

    def _bounds(self, original: Source, rewritten: Source) -> Bounds | Drift | None:
        """Return what bounds the outputs of both models, or of a part of both; None: nothing may differ."""
        if self.exact:
            return Drift(original, rewritten, self.limits) if self.drift else None
        return Bounds(original, self.limits)

    def _route(self, source: Source) -> tuple[Route, str]:
        """Return how a model is run: where oracles judge, both are run node by node, so that both mean the text."""
        if self.judged:
            return Interpreter(source, self.limits, self.judged, "spec"), ""
        return route(source, self.limits, lean=self._lean)

    def _rival(self, source: Source, judge: Judge) -> tuple[Route, str]:
        """Return how the rewritten model is run: as the original is, so that the same kernels and oracles compute.

        Raises:
            RejectedError: onnxruntime does not load it, or lacks a kernel where it had all for the original.
        """
        if isinstance(judge.route, Runner):
            return route(source, self.limits, kernels=True, lean=self._lean)
        way, note = self._route(source)
        if isinstance(way, Interpreter):
            return way, note
        return Interpreter(source, self.limits, strict=False), note

    @functools.cached_property
    def _lean(self) -> bool:
        return _weights(self.before) >= _LEAN

    def _tried(self, specs: Sequence[Spec], judge: Judge) -> Check:
        trials = self._trials(specs, judge)
        allowance, count = self.allowance, len(trials.accepted)
        self.progress("whole", 0, 2 * count)
        if not count:
            reason = f"the original ran on none of {trials.tried} inputs: {trials.rejection}"
            return self._told(Verdict.UNCHECKED, reason)
        contest: Contest | None = None
        covered = Covered(specs)

        def told(verdict: Verdict, reason: str, *, shown: Counterexample | None = None) -> Check:
            tried = contest.decided(trials.accepted) if contest else [feeds for feeds, _ in trials.accepted]
            name, classes = judge.route.name, counted(tried, specs)
            return self._told(
                verdict, reason, judge=name, count=len(tried), classes=classes, shown=shown, covered=covered
            )

        if not _repeats(judge, trials.accepted[0]):
            return told(Verdict.UNCHECKED, "the original gives other outputs each time it runs")
        done = iter(range(1, 2 * count + 1))
        pardoned = Pardon(self.before, self.pairs, self.limits, judge.route)
        try:
            rewritten, note = self._rival(self.after, judge)
            contest = Contest(judge, rewritten, pardoned, covered=covered, allowance=allowance)
            finding = contest.run(trials.accepted, lambda: self.progress("whole", next(done), 2 * count))
        except RejectedError as error:
            if error.why in (Why.MISSING_KERNEL, Why.TOO_NEW, Why.LIMIT):
                return told(Verdict.UNCHECKED, f"the rewritten model: {error}")
            return told(Verdict.DIFFERENT, f"onnxruntime does not load the rewritten model: {error}")
        self.progress("whole", 2 * count, 2 * count)
        bounds = judge.bounds
        departs = f"on {len(contest.near)} inputs or more floats depart by rounding" if contest.near else ""
        coarse = bounds.coarse if isinstance(bounds, Bounds | Drift) else 0
        estimated = f"on {coarse} of them rounding was estimated by 8 units of the largest value" if coarse else ""
        lost = sorted(_optional(self.before.proto) - _optional(self.after.proto))
        kept = f"{', '.join(lost)} had a default, and cannot be given any more" if lost else ""
        told_of = note and f"the rewritten model's {note}"
        notes: tuple[str, ...] = (judge.note, told_of, pardoned.note(), contest.note, departs, estimated, kept)
        if finding is not None:
            reason, shown = self._explained(contest, finding, specs)
            return told(Verdict.DIFFERENT, sentence(reason, *notes), shown=shown)
        if not contest.compared(trials.accepted) or covered.total().is_void:
            return told(Verdict.UNCHECKED, sentence("the original makes nothing defined of any input", *notes))
        fatal = [*trials.fatal, *(f"the rewritten model: {error}" for _, error in contest.beyond)]
        left_out = f"left out was an input: {fatal[-1]}" if fatal else ""
        if self._lean or self.judged:
            return told(Verdict.EQUAL, sentence(*notes, left_out))
        further: tuple[Callable[[], _Look], ...] = (
            lambda: self._parted(contest.near),
            lambda: self._branches(trials.accepted[: max(1, len(contest.decided(trials.accepted)))]),
            self._overridden,
        )
        for find in further:
            look = find()
            if look.shown is not None:
                return told(Verdict.DIFFERENT, sentence(look.said, *notes), shown=look.shown)
            if look.undecided:
                return told(Verdict.UNCHECKED, sentence(look.said, *notes))
            notes = (*notes, look.said)
        return told(Verdict.EQUAL, sentence(*notes, left_out))

    def _overridden(self) -> _Look:
        """Compare once more with the initializers of inputs taken away, which a caller may override.

        Below ir_version 4 every initializer is an input, and none is meant to be given.
        """
        names = _optional(self.before.proto) & _optional(self.after.proto)
        if not names or not self.defaults:
            return _Look("")
        check = dataclasses.replace(
            self,
            before=_without(self.before, names),
            after=_without(self.after, names),
            given=None,
            defaults=False,
            progress=lambda stage, done, total: None,
        ).check()
        different = check.verdict is Verdict.DIFFERENT
        said = (
            f"where inputs that have defaults are given: {check.reason}" if check.verdict is not Verdict.EQUAL else ""
        )
        return _Look(said, check.counterexample or Counterexample({}, "", None, None) if different else None)

    def _told(
        self,
        verdict: Verdict,
        reason: str,
        *,
        judge: str = "",
        count: int = 0,
        shown: Counterexample | None = None,
        classes: Mapping[str, int] | None = None,
        covered: Covered | None = None,
    ) -> Check:
        compared = covered.total() if covered else Coverage()
        return Check("", "", verdict, reason, judge, count, shown, dict(classes or {}), compared)

    # --- inputs ---

    def _trials(self, specs: Sequence[Spec], judge: Judge) -> generator.Trials:
        """Return the inputs that the original accepts: drawn, or around those that are given.

        Raises:
            UsageError: what is given does not fit the model.
        """
        sets = () if self.given is None else user_inputs.of(self.given, specs)
        return functools.reduce(generator.Trials.__add__, (self._round(specs, judge, one) for one in sets or ({},)))

    def _round(self, specs: Sequence[Spec], judge: Judge, fixed: user_inputs.Given) -> generator.Trials:
        """Return inputs whose outputs have the ranks that the original declares, or any where there are none such.

        A conversion relies on declared ranks.
        """
        declared = {value.name: value.type.tensor_type for value in self.before.proto.graph.output}
        ranks = [len(one.shape.dim) if one.HasField("shape") else None for one in declared.values()]
        found = self._drawn(specs, judge, fixed, functools.partial(_of_ranks, ranks))
        return found if found.accepted or found.fatal else self._drawn(specs, judge, fixed, lambda one: one)

    def _drawn(
        self,
        specs: Sequence[Spec],
        judge: Judge,
        fixed: user_inputs.Given,
        fitting: Callable[[generator.Result], generator.Result],
    ) -> generator.Trials:
        size = sum(1 for _ in ort_session.nodes(self.before.proto))
        budget = generator.whole_budget(_weights(self.before), specs, size, self.allowance.factor)
        shapes = {**self.shapes, **user_inputs.shapes(fixed)}
        draft = self._draft(generator.with_shapes(specs, shapes))
        known = hints(self._outline, sizes_of(specs, shapes))
        candidates: Iterable[Mapping[str, Shape]] = generator.sizes(draft.specs, whole=True, hints=known)
        candidates = (shape for shape in candidates if generator.fits(draft.specs, shape))
        rng = np.random.default_rng(self.seed)

        def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
            return draft.peaks(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)

        if len(fixed) == len(specs):
            budget = dataclasses.replace(budget, shapes=1, inputs=1, rejections=1, long=0)
            candidates = [user_inputs.shapes(fixed)]
        drawn = generator.overridden(values, fixed)
        long = functools.partial(generator.beyond, draft.specs, known)
        repair = repairer(draft.specs, known)

        def plain(batch: Sequence[Feeds]) -> list[generator.Result]:
            return [fitting(one) for one in judge.plain_all(batch)]

        pace = self.allowance.pace(judge.opening)
        return generator.trials(draft, drawn, plain, candidates, long, budget, repair, pace)

    def _draft(self, specs: Sequence[Spec]) -> Draft:
        wanted, found = generator.uses(self._outline), generator.uses(self.after.proto)
        # What the rewritten model compares its inputs with may be what is wrong with it.
        numbers = {name: Use(numbers=use.numbers) for name, use in found.items()}
        return Draft(
            tuple(specs),
            generator.steering(self._outline),
            generator.Allowed(
                nan=not any(pair.exclude_nan for pair in self.pairs),
                infinite=not any(pair.finite for pair in self.pairs),
                least=not (generator.divides(self.before.proto) or generator.divides(self.after.proto)),
                whole=True,
            ),
            {name: wanted.get(name, Use()) | numbers.get(name, Use()) for name in {**wanted, **numbers}},
            says(self._outline),
            generator.fills(self._outline),
        )

    @functools.cached_property
    def _outline(self) -> Outline:
        return outline(self.before.proto)

    # --- where they differ ---

    def _parted(self, near: Sequence[Feeds]) -> _Look:
        """Look for a place where the two part by more than rounding, although the outputs differ by no more."""
        if not any(traits_of(node).decides for node in self.before.proto.graph.node):
            return _Look("")
        for place, feeds in enumerate(near):
            if place and self.allowance.left() < 0:
                break
            found = self._cut(feeds, optimised=False, decisions=True)
            if found is not None:
                return self._told_cut(found, "the outputs differ by no more than rounding")
        return _Look("")

    def _cut(self, feeds: Feeds, *, optimised: bool, decisions: bool = False) -> tuple[Cut, Finding] | None:
        """Return the first place where the two part on an input, and the difference there; see `partings`."""
        found: list[tuple[Cut, Finding]] = []

        def differs(cut: Cut) -> bool:
            difference = self._contested(cut.original, cut.rewritten).on(cut.feeds, optimised)
            if difference is not None:
                found.append((cut, Finding(cut.feeds, difference, optimised)))
            return difference is not None

        try:
            if optimised:
                best = unoptimised_agree(*self._sides, feeds, differs)
                return next((each for each in found if each[0] is best), None)
            next(partings(*self._sides, feeds, differs, decisions=decisions), None)
        except RejectedError:
            return None
        return found[0] if found else None

    def _contested(self, original: Source, rewritten: Source) -> Contest:
        """Return the comparison of a part or a variant of both models."""
        outputs = tuple(value.name for value in original.proto.graph.output)
        judge = Judge(self._route(original)[0], outputs, "", self._bounds(original, rewritten))
        pardon = Pardon(original, self.pairs, self.limits, judge.route)
        return Contest(judge, self._rival(rewritten, judge)[0], pardon, allowance=self.allowance)

    @functools.cached_property
    def _sides(self) -> tuple[Side, Side]:
        sources = (ort_session.fit(self.before)[0], ort_session.fit(self.after)[0])
        return Side(sources[0], self.limits), Side(sources[1], self.limits)

    def _explained(self, contest: Contest, finding: Finding, specs: Sequence[Spec]) -> tuple[str, Counterexample]:
        """Return why the two differ: at which node, on which small input."""
        if not self._lean and not self.judged:
            cut = self._cut(finding.feeds, optimised=finding.optimised)
            if cut is not None:
                look = self._told_cut(cut, finding.reason)
                assert look.shown is not None
                return look.said, look.shown
        if self._lean:
            return finding.reason, finding.counterexample(command=self.shown.command)
        found = contest.shrunk(finding, specs, _STEPS)
        return found.reason, found.counterexample(command=self.shown(self.before, self.after, found))

    def _told_cut(self, cut: tuple[Cut, Finding], reason: str) -> _Look:
        """Say where the two part, on an input made small."""
        place, found = cut
        where = f"{place.operator} at {place.node}"
        found = self._contested(place.original, place.rewritten).shrunk(
            found, generator.specs(place.original.proto.graph), _STEPS
        )
        example = found.counterexample(where, self.shown(place.original, place.rewritten, found))
        return _Look(f"{reason}; the first value that differs is made by {where}: {found.reason}", example)

    def _branches(self, trials: Sequence[tuple[Feeds, Any]]) -> _Look:
        """Take every branch of an If that no input took by force, and compare; name the Loops that none entered."""
        feeds = [feeds for feeds, _ in trials]
        said = []
        for branch in branch_coverage.untaken(self.before, self.after, feeds, self.limits):
            if branch.rewritten is None:
                said.append(f"no input took {branch.name}")
                continue
            try:
                contest = self._contested(branch.original, branch.rewritten)
                results = zip(feeds, contest.judge.route.run_all(feeds, False), strict=False)
                accepted = [(one, found) for one, found in results if not isinstance(found, RejectedError)]
                finding = contest.run(accepted)
            except RejectedError as error:
                said.append(f"no input took {branch.name}, and by force: {error}")
                continue
            if finding is not None and not branch.sure:
                # The branches may have changed places with a condition that was turned around.
                why = f"no input took {branch.name}, and taken by force the two differ: {finding.reason}"
                return _Look(why, undecided=True)
            if finding is not None:
                finding = contest.shrunk(finding, generator.specs(self.before.proto.graph), _STEPS)
                example = finding.counterexample(branch.name, self.shown(branch.original, branch.rewritten, finding))
                return _Look(f"{branch.name}, which no input took and was taken by force: {finding.reason}", example)
            equal = "taken by force it is equal" if branch.runs else "no difference was seen by force"
            said.append(f"no input took {branch.name}; {equal if accepted else 'none can by force'}")
        loops = branch_coverage.unentered(self.before, feeds, self.limits)
        return _Look(sentence(*said, *(f"no input entered the body of the Loop at {name}" for name in loops)))


@dataclass(frozen=True)
class _Look:
    """What is to be said of a further look at two models, and the input that tells them apart if there is one."""

    said: str
    shown: Counterexample | None = None
    undecided: bool = False


def _same(before: Source, after: Source) -> bool:
    """Return whether two models of one folder are the same; large weights may have stayed in two files."""
    if before.directory != after.directory:
        return False
    if before.proto == after.proto:
        return True
    if before.path is None or after.path is None or not any(map(external_data.is_span, before.proto.graph.initializer)):
        return False
    with contextlib.suppress(OSError):
        return filecmp.cmp(before.path, after.path, shallow=False)
    return False


def _named(source: Source) -> Source:
    """Return a model whose nodes have names of their own: onnxruntime refuses others, which ONNX allows."""
    names = [node.name for node in source.proto.graph.node if node.name]
    if len(set(names)) == len(names):
        return source
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    repair(proto)
    return dataclasses.replace(source, proto=proto, path=None)


def _optional(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of small inputs that have an initializer."""
    if model.ir_version < 4:
        return frozenset()
    small = {tensor.name for tensor in model.graph.initializer if math.prod(tensor.dims) <= 2**16}
    return frozenset(value.name for value in model.graph.input if value.name in small)


def _without(source: Source, names: Collection[str]) -> Source:
    """Return a model without these initializers."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return dataclasses.replace(source, proto=proto, path=None)


def _without_outputs(source: Source, names: Collection[str]) -> Source:
    """Return a model without these outputs, and without the nodes that serve them alone."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    graph = proto.graph
    kept = [value for value in graph.output if value.name not in names]
    del graph.output[:]
    graph.output.extend(kept)
    wanted = {value.name for value in kept}
    for place in range(len(graph.node) - 1, -1, -1):
        node = graph.node[place]
        if wanted.isdisjoint(node.output):
            del graph.node[place]
        else:
            wanted.update(names_read(node))
    return dataclasses.replace(source, proto=proto, path=None)


def _of_ranks(ranks: Sequence[int | None], result: generator.Result) -> generator.Result:
    """Return outputs, or an error where one is a tensor of another rank; None is any."""
    if isinstance(result, RejectedError):
        return result
    for rank, output in zip(ranks, result, strict=False):
        if rank is not None and isinstance(output, np.ndarray) and output.ndim != rank:
            return RejectedError(f"an output has {output.ndim} dimensions, and is declared with {rank}")
    return result


def _repeats(judge: Judge, trial: tuple[Feeds, Any]) -> bool:
    """Return whether the original computes the same once more on this input."""
    feeds, outputs = trial
    try:
        return mismatch(list(outputs), list(judge.plain(feeds))) is None
    except RejectedError as error:
        if error.why is Why.LIMIT:
            raise
        return False


def _weights(source: Source) -> int:
    """Return about how many bytes the weights of a model have, those on disk included."""
    return sum(
        math.prod(tensor.dims) * max(1, generator.np_dtype(tensor.data_type).itemsize)
        for tensor in source.proto.graph.initializer
    )


def _versions() -> dict[str, str]:
    """Return the versions of what took part."""
    try:
        own = importlib.metadata.version("opshift")
    except importlib.metadata.PackageNotFoundError:
        own = "unknown"
    return {
        "opshift": own,
        "onnx": onnx.__version__,
        "onnxruntime": str(ort_session.runtime().__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
