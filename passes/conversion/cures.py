"""Find options that would avoid refusals, for their hints: fixed input shapes, and other element types.

Each option is tried: a hint is given only for nodes that are converted with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap

from opshift.opsets.registry.facts import type_name
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base import limits
from opshift.passes.base.assumptions import FITS
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.base.options import Options
from opshift.passes.base.plan import Code, Plan, Refusal
from opshift.passes.conversion.example_sizes import ExampleSizes, makes_nothing
from opshift.passes.conversion.planning import places_of, plan_request
from opshift.passes.conversion.request import Request, prepare_model, type_changes
from opshift.passes.graph.traversal import walk
from opshift.passes.rewrite.fixed_shapes import dynamic, input_shapes, shape_option
from opshift.passes.rewrite.op_type_decisions import named_types
from opshift.passes.rewrite.planner import Focus

_SECONDS = 10.0
"""The time limit for trying options."""

_SIZES = (64, 224, 640, 32, 1)
"""The sizes that are tried for dims other than the first."""

_OTHER_TYPES = {"int64": "int32", "double": "float", "bfloat16": "float", "float16": "float"}
"""The element types that are tried in place of others: those that most runtimes have."""


def with_cures(request: Request, plan: Plan, options: Options) -> tuple[Refusal, ...]:
    """Return the refusals of a plan, with another hint for those that some options would avoid."""
    if any(one.code is Code.LIMIT for one in plan.refusals):
        return plan.refusals  # out of time
    trials = _Trials(request, plan, limits.Deadline(_SECONDS))
    refusals, sized = plan.refusals, options
    if (shapes := trials.shapes(options)) is not None:
        sized, cured = shapes
        flags = starmap(shape_option, (sized.input_shapes or {}).items())
        hint = f"Fix its dynamic inputs, such as with {' '.join(flags)}."
        refusals = tuple(dataclasses.replace(one, hint=hint) if one.node in cured else one for one in refusals)
        trials = dataclasses.replace(trials, cured=cured)
    if (types := trials.types(sized)) is None:
        return refusals
    retyped, cured = types
    hint = f"Change its element types with {_type_options(retyped, options)}."
    if sized is not options:
        flags = starmap(shape_option, (sized.input_shapes or {}).items())
        hint = f"Use {' '.join(flags)} {_type_options(retyped, options)}."
    return tuple(dataclasses.replace(one, hint=hint) if one.node in cured else one for one in refusals)


@dataclass(frozen=True)
class _Trials:
    """Tries options for a request whose plan has refusals; `cured` are the nodes that have a hint already."""

    request: Request
    plan: Plan
    left: limits.Deadline
    cured: frozenset[str] = frozenset()

    @property
    def refused(self) -> frozenset[str]:
        """The refused nodes, inputs and outputs without a hint."""
        return frozenset(one.node for one in self.plan.refusals) - self.cured

    def shapes(self, options: Options) -> tuple[Options, frozenset[str]] | None:
        """Return options with input shapes that the model accepts, and the nodes that are converted with them."""
        shapes = input_shapes(self.request.model)
        if any(shape is None for shape in shapes.values()) or not any(dynamic(shapes)):
            return None
        examples = ExampleSizes(self.request.model, shapes)
        for sizes in map(examples.of, _SIZES):
            sized = dataclasses.replace(options, input_shapes=sizes)
            # Other nodes do not matter here, and a long loop may be unrolled to many.
            if (remaining := self._remaining(sized, alone=True)) is not None:
                return sized, self.refused - remaining
        return None

    def types(self, options: Options) -> tuple[Options, frozenset[str]] | None:
        """Return options with other element types, and the nodes that are converted with them; None if there are none.

        First all types of the interface may change, and integers may be assumed to fit. If that helps, these two are
        left out where they are not needed.
        """
        for changes in self._type_changes(options):
            base = dataclasses.replace(options, types={**(options.types or {}), **changes})
            assumed = dataclasses.replace(base, assume=(*base.assume, FITS))
            freest = dataclasses.replace(assumed, io_types=True)
            if not (cured := self._cured(freest)):
                continue
            for one in (base, dataclasses.replace(base, io_types=True), assumed):
                if self._cured(one) >= cured:
                    return one, cured
            return freest, cured
        return None

    def _type_changes(self, options: Options) -> Iterator[Mapping[str, str]]:
        """Yield changes of the element types that the model has: none, each, and all together."""
        target, model = self.request.legality.target, self.request.model
        if target is None or not self.refused:
            return
        held = named_types(walk(model), default_opset(model.opset_import) or 1)
        names = {type_name(dtype) for dtype in held} - (options.types or {}).keys()
        found = {old: new for old, new in _OTHER_TYPES.items() if old in names and new in (target.types or (new,))}
        yield {}
        yield from ({old: new} for old, new in found.items())
        if len(found) > 1:
            yield found

    def _cured(self, options: Options) -> frozenset[str]:
        """Return the nodes that are converted with these options; none if other nodes are refused instead."""
        remaining = self._remaining(options, alone=False) if self.left.left() else None
        return self.refused - remaining if remaining is not None and remaining <= self.refused else frozenset()

    def _remaining(self, options: Options, *, alone: bool) -> frozenset[str] | None:
        """Return the nodes that are refused with these options; None if the model does not accept them.

        With `alone`, only the refused nodes are planned.
        """
        request = self.request
        try:
            prepared = prepare_model(request.source, request.legality, options, request.known)
            if makes_nothing(prepared.model, request.model):
                return None
            changes = type_changes(request.source.model, request.legality.target, options)
            again = dataclasses.replace(request, prepared=prepared, changes=changes)
            paths = [one.node for one in self.plan.refusals]
            inside = alone and all(path.startswith("main/") for path in paths)
            focus = Focus(places_of(again.model, paths), alone=True) if inside else None
            planned = plan_request(again.in_any_form, None, max(self.left.left(), 1.0), hinting=False, focus=focus)
        except (UsageError, InvalidModelError):
            return None
        return frozenset(one.node for one in (*planned.plan.refusals, *prepared.refusals))


def _type_options(chosen: Options, asked: Options) -> str:
    """Return the command-line options that change element types, without those that were given."""
    changes = [f"{old}={new}" for old, new in (chosen.types or {}).items() if old not in (asked.types or {})]
    words = [f"--types {','.join(changes)}"] if changes else []
    words += ["--io-types"] if chosen.io_types and not asked.io_types else []
    words += [f"--assume {FITS}"] if FITS in chosen.assume and FITS not in asked.assume else []
    return " ".join(words)
