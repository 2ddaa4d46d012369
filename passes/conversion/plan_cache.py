"""A cache shared by several plans of one model: prepared models, and the facts about their values."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import onnx

from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.rewrite.planner import Analysis, Goal, Planner
from opshift.passes.rewrite.prepare import Expanded, Preparation, Prepared
from opshift.passes.rewrite.specialiser import Specialisers

ROOM = 2**28
"""The maximum size of cached models of one kind in bytes; the latest one always stays."""

_SCOPES = 4
"""The maximum number of models of which all facts are cached, elements included."""


class PlanCache:
    """The cached results of earlier plans of one model.

    With `lasting`, other targets use them too: the cached models must then not be modified.
    """

    def __init__(self, *, lasting: bool = False) -> None:
        """Start with an empty cache."""
        self.lasting = lasting
        self.specialisers = Specialisers()
        self._prepared = _Models[Prepared]()
        self._expanded = _Models[Expanded]()
        self._values: OrderedDict[int, tuple[onnx.ModelProto, Scope]] = OrderedDict()
        self._views: OrderedDict[tuple[int, bool], _View] = OrderedDict()

    def prepared(self, asked: Preparation, prepare: Callable[[], Prepared]) -> Prepared:
        """Return a prepared model; the first call computes it with `prepare`.

        Raises:
            UsageError, InvalidModelError: as raised by `prepare`, also in later calls.
        """
        if not self.lasting:
            return prepare()
        return self._prepared.get(asked.key, prepare)

    def expanded(self, key: Hashable, expand: Callable[[], Expanded]) -> Expanded:
        """Return an expanded model, of which preparations of the same source model make copies.

        Raises:
            UsageError, InvalidModelError: as raised by `expand`, also in later calls.
        """
        return self._expanded.get(key, expand)

    def values(self, model: onnx.ModelProto, compute: Callable[[], Scope]) -> Scope:
        """Return the facts about a model's values, elements included; the first call computes them."""
        if not self.lasting:
            return compute()
        if id(model) not in self._values:
            self._values[id(model)] = model, compute()
            if len(self._values) > _SCOPES:
                self._values.popitem(last=False)
        self._values.move_to_end(id(model))
        return self._values[id(model)][1]

    def view(self, model: onnx.ModelProto, reduced: bool, show: Callable[[], onnx.ModelProto]) -> _View:
        """Return the planners' view of a model; the first call for each `reduced` computes it with `show`."""
        key = id(model), reduced
        if key not in self._views:
            self._views[key] = _View(model, show(), self.specialisers)
            self._make_room(model.ByteSize())
        self._views.move_to_end(key)
        return self._views[key]

    def forget(self) -> None:
        """Clear the cache."""
        while self._views:
            self._views.popitem()[1].forget()
        self._prepared.clear()
        self._expanded.clear()
        self._values.clear()
        self.specialisers = Specialisers()

    def _make_room(self, size: int) -> None:
        """Evict the least recently used views of models of this size."""
        while len(self._views) > 1 and size * len(self._views) > ROOM:
            self._views.popitem(last=False)[1].forget()


class _View:
    """A model as planners see it; `model` is kept alive so that its id stays unique."""

    def __init__(self, model: onnx.ModelProto, shown: onnx.ModelProto, specialisers: Specialisers) -> None:
        self.model, self.shown = model, shown
        self._specialisers = specialisers
        self._planner: Planner | None = None

    def planner(self, analysis: Analysis | None) -> Planner:
        """Return a planner that holds the facts about the values, and does not plan by itself."""
        if self._planner is None:
            goal = Goal(Legality(default_opset(self.shown.opset_import) or 1))
            analysis = dataclasses.replace(analysis or Analysis(), specialisers=self._specialisers)
            self._planner = Planner(self.shown, goal, analysis, hinting=False)
        return self._planner

    def forget(self) -> None:
        """Release the facts about the values: planners refer to each other, so they are not freed automatically."""
        if self._planner is not None:
            self._planner.forget()
        self._planner = None


_Made = TypeVar("_Made", Prepared, Expanded)


class _Models(Generic[_Made]):
    """Models by keys, or the errors in place of them; the least recently used ones are evicted."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, _Made | UsageError | InvalidModelError] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """Return the model of a key; the first call makes it."""
        if key not in self._found:
            try:
                self._found[key] = make()
            except (UsageError, InvalidModelError) as error:
                self._found[key] = error
            latest = self._found[key]
            size = 0 if isinstance(latest, Exception) else latest.model.ByteSize()
            while len(self._found) > 1 and size * len(self._found) > ROOM:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found

    def clear(self) -> None:
        """Evict all models."""
        self._found.clear()
