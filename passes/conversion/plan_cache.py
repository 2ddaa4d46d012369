"""A cache shared by several plans of one model: prepared models, and the facts about their values."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable

import onnx

from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.rewrite.planner import Analysis, Goal, Planner
from opshift.passes.rewrite.prepare import Preparation, Prepared
from opshift.passes.rewrite.specialiser import Specialisers

ROOM = 2**28
"""The maximum size of cached prepared models in bytes; the latest one always stays."""


class PlanCache:
    """The cached results of earlier plans of one model.

    With `lasting`, other targets use them too: the cached models must then not be modified.
    """

    def __init__(self, *, lasting: bool = False) -> None:
        """Start with an empty cache."""
        self.lasting = lasting
        self.specialisers = Specialisers()
        self._prepared: OrderedDict[str, Prepared | UsageError | InvalidModelError] = OrderedDict()
        self._views: OrderedDict[tuple[int, bool], _View] = OrderedDict()

    def prepared(self, asked: Preparation, prepare: Callable[[], Prepared]) -> Prepared:
        """Return a prepared model; the first call computes it with `prepare`.

        Raises:
            UsageError, InvalidModelError: as raised by `prepare`, also in later calls.
        """
        if not self.lasting:
            return prepare()
        facts = (asked.sizes, asked.fold, asked.tidy, asked.static, sorted(asked.missing), asked.types, asked.runnable)
        key = repr((*facts, sorted(asked.ranks.items())))
        if key not in self._prepared:
            try:
                self._prepared[key] = prepare()
            except (UsageError, InvalidModelError) as error:
                self._prepared[key] = error
            self._make_room()
        self._prepared.move_to_end(key)
        found = self._prepared[key]
        if isinstance(found, Exception):
            raise found
        return found

    def view(self, model: onnx.ModelProto, reduced: bool, show: Callable[[], onnx.ModelProto]) -> _View:
        """Return the planners' view of a model; the first call for each `reduced` computes it with `show`."""
        key = id(model), reduced
        if key not in self._views:
            self._views[key] = _View(model, show(), self.specialisers)
        self._views.move_to_end(key)
        return self._views[key]

    def forget(self) -> None:
        """Clear the cache."""
        while self._views:
            self._views.popitem()[1].forget()
        self._prepared.clear()
        self.specialisers = Specialisers()

    def _make_room(self) -> None:
        """Evict the least recently used entries."""
        latest = next(reversed(self._prepared.values()))
        size = latest.model.ByteSize() if isinstance(latest, Prepared) else 0
        while len(self._prepared) > 1 and size * len(self._prepared) > ROOM:
            self._prepared.popitem(last=False)
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
