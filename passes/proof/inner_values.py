"""Run a model for the values inside of its main graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from opshift.passes.base.limits import Limits
from opshift.passes.runtime.ort_models import Feeds, RejectedError, Runnable
from opshift.passes.runtime.ort_session import Session


def showing(runnable: Runnable, names: Iterable[str]) -> Runnable:
    """Return a model whose outputs are these values of the main graph, which nodes compute."""
    proto = onnx.ModelProto()
    proto.CopyFrom(runnable.proto)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return replace(runnable, proto=proto, path=None)


class InnerValues:
    """A session that returns values of a model's main graph."""

    def __init__(self, runnable: Runnable, names: Sequence[str], limits: Limits) -> None:
        """Open the model.

        Raises:
            RejectedError: onnxruntime does not load it.
        """
        self._session = Session(showing(runnable, names), optimised=False, limits=limits)

    def on(self, feeds: Sequence[Feeds]) -> list[Mapping[str, Any] | None]:
        """Return the values by name on each input; None if the model does not run on it."""
        rows = self._session.run_all(feeds)
        found = [None if isinstance(row, RejectedError) else self._named(row) for row in rows]
        return [*found, *[None] * (len(feeds) - len(rows))]

    def _named(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return dict(zip(self._session.outputs, row, strict=True))
