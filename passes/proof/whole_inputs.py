"""Generate inputs of two whole models that the original accepts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from opshift.passes.analysis.model_summary import ModelSummary, summary
from opshift.passes.analysis.scopes import Shape
from opshift.passes.base.effort import Allowance
from opshift.passes.base.limits import Limits
from opshift.passes.proof.comparison import Reference
from opshift.passes.proof.inputs import generator, user_inputs
from opshift.passes.proof.inputs.adversarial_nodes import adversarial_nodes
from opshift.passes.proof.inputs.generator import Draft
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.input_usage import InputUsage
from opshift.passes.proof.inputs.shape_search import hints, repairer, sizes_of
from opshift.passes.proof.inputs.trials import Result, Trials, find_trials, overridden, whole_budget
from opshift.passes.proof.model_variants import unchecked_operators, weights
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.signature import contradiction
from opshift.passes.proof.thresholds import at_thresholds
from opshift.passes.runtime import ort_models
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable


@dataclass(frozen=True)
class WholeInputs:
    """Draws inputs of two models, in addition to user inputs.

    NaN, infinities and the least numbers are left out if a pair of nodes, or a division, is undefined for them.
    """

    before: Runnable
    after: Runnable
    pairs: Sequence[Pair]
    shapes: Mapping[str, Shape]
    values: Any
    seed: int
    allowance: Allowance
    limits: Limits

    def trials(self, specs: Sequence[Spec], reference: Reference) -> Trials:
        """Return the inputs that the original accepts, with its outputs.

        Raises:
            UsageError: the user's inputs do not fit the model.
        """
        sets = () if self.values is None else user_inputs.of(self.values, specs)
        return functools.reduce(Trials.__add__, (self._round(specs, reference, one) for one in sets or ({},)))

    def _round(self, specs: Sequence[Spec], reference: Reference, fixed: user_inputs.UserInputs) -> Trials:
        """Return inputs whose outputs match the declarations and onnx's inference, or any if there are none.

        A conversion relies on declared ranks.
        """
        declared = {value.name: value.type.tensor_type for value in self.before.proto.graph.output}
        ranks = [len(one.shape.dim) if one.HasField("shape") else None for one in declared.values()]
        found = self._drawn(specs, reference, fixed, _Declared(self.before.proto, tuple(ranks)))
        return found if found.accepted or found.fatal else self._drawn(specs, reference, fixed, lambda feeds, one: one)

    def _drawn(
        self,
        specs: Sequence[Spec],
        reference: Reference,
        fixed: user_inputs.UserInputs,
        fitting: Callable[[Feeds, Result], Result],
    ) -> Trials:
        size = sum(1 for _ in ort_models.nodes(self.before.proto))
        budget = whole_budget(weights(self.before), specs, size, self.allowance.factor)
        shapes = {**self.shapes, **user_inputs.shapes(fixed)}
        draft = self._draft(generator.with_shapes(specs, shapes))
        known = hints(self._summary, sizes_of(specs, shapes))
        candidates: Iterable[Mapping[str, Shape]] = generator.sizes(draft.specs, whole=True, hints=known)
        candidates = (one for one in candidates if generator.fits(draft.specs, one) and draft.has_axes(one))
        rng = np.random.default_rng(self.seed)

        def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
            return draft.along(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)

        if len(fixed) == len(specs):
            budget = dataclasses.replace(budget, shapes=1, inputs=1, rejections=1, long=0)
            candidates = [user_inputs.shapes(fixed)]
        drawn = overridden(values, fixed)

        def long(base: Mapping[str, Shape]) -> Iterable[Mapping[str, Shape]]:
            return filter(draft.has_axes, generator.beyond(draft.specs, known, base))

        repair = repairer(draft.specs, known, draft.has_axes)

        def plain(batch: Sequence[Feeds]) -> list[Result]:
            return [fitting(feeds, one) for feeds, one in zip(batch, reference.plain_all(batch), strict=False)]

        pace = self.allowance.pace(reference.opening)
        found = find_trials(draft, drawn, plain, candidates, long, budget, repair, pace)
        if len(fixed) == len(specs):
            return found
        near = at_thresholds(self.before, [feeds for feeds, _ in found.accepted], self.limits, pace.take)
        results = plain(near) if near else []
        ran = [(feeds, one) for feeds, one in zip(near, results, strict=False) if not isinstance(one, RejectedError)]
        return found + Trials(tuple(ran), len(near), "")

    def _draft(self, specs: Sequence[Spec]) -> Draft:
        wanted, found = generator.input_usages(self._summary), generator.input_usages(self.after.proto)
        # A wrong rewritten model may compare its inputs with wrong numbers, so these are used too.
        numbers = {name: InputUsage(numbers=use.numbers) for name, use in found.items()}
        return Draft(
            tuple(specs),
            generator.position_inputs(self._summary),
            generator.Allowed(
                nan=not any(pair.exclude_nan for pair in self.pairs),
                infinite=not any(pair.finite for pair in self.pairs),
                least=not (generator.divides(self.before.proto) or generator.divides(self.after.proto)),
                whole=True,
            ),
            {name: wanted.get(name, InputUsage()) | numbers.get(name, InputUsage()) for name in {**wanted, **numbers}},
            adversarial_nodes(self._summary),
            generator.shape_inputs(self._summary),
        )

    @functools.cached_property
    def _summary(self) -> ModelSummary:
        return summary(self.before.proto)


_INFERRED = 2**24
"""The maximum size in bytes of a model whose shapes onnx infers for empty inputs."""
_INFERRED_EVERYWHERE = 2**20
"""The same for nonempty inputs, of which there are many."""


@dataclass(frozen=True)
class _Declared:
    """Checks that outputs match a model's declarations, and that onnx accepts its inputs.

    On empty inputs, onnxruntime may skip checks: Concat accepts mismatched dims, and returns uninitialized memory
    (1.32.0). ONNX's function bodies may broadcast dims that the specification requires to be equal. `ranks` are those
    of the outputs; None is any.
    """

    model: onnx.ModelProto
    ranks: tuple[int | None, ...]
    known: dict[tuple[object, ...], str] = field(default_factory=dict)
    """The errors of inputs and outputs by shape, whatever their values."""

    def __call__(self, feeds: Feeds, result: Result) -> Result:
        """Return the outputs, or an error if a tensor has a wrong rank or an impossible shape."""
        if isinstance(result, RejectedError):
            return result
        for rank, output in zip(self.ranks, result, strict=False):
            if rank is not None and isinstance(output, np.ndarray) and output.ndim != rank:
                return RejectedError(f"an output has {output.ndim} dimensions, and is declared with {rank}")
        arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
        full = all(value.size for value in arrays.values())
        if full and not self._everywhere:
            return result
        if self.model.ByteSize() > (_INFERRED_EVERYWHERE if full else _INFERRED):
            return result
        shapes = tuple(np.shape(value) for value in (*arrays.values(), *result) if isinstance(value, np.ndarray))
        if not full or shapes not in self.known:
            self.known[shapes] = self._wrong(feeds, result)
        return RejectedError(self.known[shapes]) if self.known[shapes] else result

    @functools.cached_property
    def _everywhere(self) -> bool:
        return bool(unchecked_operators(self.model))

    def _wrong(self, feeds: Feeds, result: tuple[Any, ...]) -> str:
        names = (value.name for value in self.model.graph.output)
        values = dict(zip(names, result, strict=True))
        try:
            return contradiction(self.model, feeds, values, strict=True, everywhere=self._everywhere)
        except RejectedError as error:
            return str(error)
