"""Run a model to find the nodes that must keep a wider float type."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from opshift.opsets.runtimes import kernels
from opshift.passes.analysis.known_values import known_values
from opshift.passes.base.errors import UsageError
from opshift.passes.base.limits import limits
from opshift.passes.base.options import Options
from opshift.passes.io import external_data as external
from opshift.passes.io.reader import Source
from opshift.passes.rewrite.float_islands import Change, IslandSearch, UnmeasuredError, Values
from opshift.passes.rewrite.inner_sizes import Key, ValueSizes, sizes_in, with_sizes
from opshift.passes.rewrite.type_choice import Types

if TYPE_CHECKING:
    from opshift.passes.runtime.ort_models import Feeds


_NO_KERNEL = re.compile(r"find an implementation for (\w+)\(")
"""The error message of onnxruntime 1.32.0 for an operator without a kernel."""


@dataclass(frozen=True)
class MeasuredIslands:
    """Finds the nodes that keep their type by running models in onnxruntime, on user inputs or typical ones.

    Raises:
        UsageError: onnxruntime is not installed, or the user's inputs do not fit the model.
    """

    source: Source
    options: Options

    def __call__(self, model: onnx.ModelProto, asked: Types, change: Change) -> Mapping[str, str]:
        """Return the reasons why nodes of a model keep their type, by node path.

        Raises:
            UnmeasuredError: the model ran on none of the tried inputs.
        """
        from opshift.passes.proof.inputs.input_specs import UntestableError
        from opshift.passes.proof.inputs.usual import usual_inputs
        from opshift.passes.proof.rounded_values import with_rounded_values
        from opshift.passes.runtime.ort_models import RejectedError

        if not kernels.installed():
            raise UsageError(
                "Narrower floats are measured in onnxruntime, which is not installed: pip install 'onnxruntime>=1.32'."
            )
        allowed = limits(self.options.timeout, self.options.memory, (model,))
        try:
            found = usual_inputs(self._runnable(model), self.options.inputs, self.options.seed, allowed)
        except (UntestableError, RejectedError) as error:
            raise UnmeasuredError(str(error)) from error
        if not found.feeds:
            raise UnmeasuredError(f"it ran on none of the inputs: {found.rejection}", opens=True)
        feeds = [_held(one, model, asked) for one in found.feeds]

        def run(
            changed: onnx.ModelProto, names: Sequence[str], narrow: Collection[str], times: int
        ) -> Sequence[Values]:
            try:
                return self._values(with_rounded_values(changed, narrow), names, feeds * times)
            except RejectedError as error:
                missing = _NO_KERNEL.search(str(error))
                raise UnmeasuredError(str(error), missing[1] if missing else "") from error

        def measure() -> Sequence[Mapping[Key, ValueSizes]]:
            measured = with_sizes(model, known_values(self._shown(model)))
            try:
                found = self._values(measured.model, [*measured.rows], feeds)
            except RejectedError:
                return ()
            return [sizes_in(measured.rows, one) for one in found]

        return IslandSearch(model.graph, asked, change, run, measure).search(model)

    def _shown(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return a model whose small constants hold their elements, also those of other files."""
        return model if self.source.directory is None else external.with_small(model, self.source.files)

    def _runnable(self, model: onnx.ModelProto) -> Any:
        from opshift.passes.runtime.ort_models import Runnable

        folder = self.source.directory
        model = self._shown(model)
        if folder is not None:
            model, folder = external.relocated(model, self.source.files, folder)
        return Runnable(model, directory=folder)

    def _values(self, model: onnx.ModelProto, names: Sequence[str], feeds: Sequence[Feeds]) -> list[Values]:
        """Return the values of a model on each input, in as many runs as their size requires."""
        from opshift.passes.runtime.ort_models import RejectedError, RejectionKind
        from opshift.passes.runtime.ort_session import Session

        made = {name for node in model.graph.node for name in node.output}
        work = onnx.ModelProto()
        work.CopyFrom(model)
        outputs = {value.name for value in work.graph.output}
        wanted = [name for name in names if name in made and name not in outputs]
        work.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        session = Session(self._runnable(work), optimised=False, limits=limits(None, self.options.memory, (model,)))
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        cast = [{name: _cast(value, types[name]) for name, value in one.items()} for one in feeds]
        found: list[Values] = []
        for one in cast:
            result = session.run_all([one])[0]
            if isinstance(result, RejectedError) and result.why is RejectionKind.LARGE and len(names) > 1:
                half = len(names) // 2
                parts = [self._values(model, part, feeds) for part in (names[:half], names[half:])]
                return [{**first, **second} for first, second in zip(*parts, strict=True)]
            if isinstance(result, RejectedError):
                raise result
            values = dict(zip(session.outputs, result, strict=True))
            found.append({name: value for name, value in values.items() if isinstance(value, np.ndarray)})
        return found


def _cast(value: Any, dtype: int) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    with np.errstate(over="ignore"):
        return value.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


def _held(feeds: Feeds, model: onnx.ModelProto, asked: Types) -> Feeds:
    """Return inputs that fit their new types, if inputs of the model change type."""
    if not asked.outer:
        return feeds
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    return {
        name: _cast(_cast(value, asked.changes.get(types[name], types[name])), types[name])
        for name, value in feeds.items()
    }
