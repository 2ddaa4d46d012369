"""Save a conversion's result, or return it as a model."""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from opshift.passes.base import notebook
from opshift.passes.base.arguments import Progress, check_path
from opshift.passes.base.errors import UsageError
from opshift.passes.base.option_table import check_arguments
from opshift.passes.base.plan import Plan
from opshift.passes.base.report import Report
from opshift.passes.io import external_data as external
from opshift.passes.io.reader import Source

if TYPE_CHECKING:
    from pathlib import Path

    import onnx_ir

    from opshift.passes.io.atomic_files import Batch
    from opshift.passes.io.weight_files import Weights


@dataclass(frozen=True, repr=False)
class Result:
    """A converted model with its plan and the report of its verification (None with verify=False).

    `source` is the model that was read.
    """

    plan: Plan
    report: Report | None
    source: Source
    rewritten: onnx.ModelProto
    """The protobuf of `model`; large tensors may still refer to the input file."""
    left_out: tuple[str, ...] = ()
    """The parts of the model that were dropped because its ir_version cannot hold them."""
    notes: tuple[str, ...] = ()
    """Further notes on the result: why its ir_version is higher, and which inputs became constants."""

    def __repr__(self) -> str:
        """Show the opsets, the numbers of nodes and the verdict."""
        return f"<opshift.Result {self.plan._line()}; {self.report._line() if self.report else 'not verified'}>"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        notes = [("note", note) for note in (*self.repairs, *self.notes)]
        verdict = ("verification", self.report._line() if self.report else "not run")
        return notebook.table("opshift.Result", [*self.plan._rows(), *notes, verdict])

    @property
    def repairs(self) -> tuple[str, ...]:
        """The model's repaired defects, which other tools tolerate."""
        return self.source.repairs

    @functools.cached_property
    def model(self) -> onnx.ModelProto | onnx_ir.Model:
        """The converted model: an onnx.ModelProto, or an onnx_ir.Model if `convert` got one.

        The first access reads large weights of a file of more than 64 MiB.

        Raises:
            InvalidModelError: that file has changed since.
        """
        external.fill(self._stored)
        return as_given(self.source, self._stored)

    @functools.cached_property
    def _stored(self) -> onnx.ModelProto:
        """The model as stored in the file: large weights have the types in which nodes read them."""
        from opshift.passes.io.weight_types import with_converted_weights

        if self.rewritten is self.source.model:
            return self.rewritten
        return with_converted_weights(self.rewritten, self.source)

    @property
    def source_model(self) -> onnx.ModelProto:
        """The input model; if its file is larger than 64 MiB, large weights may be missing."""
        return self.source.model

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state, with all weights, because another process or machine may not have the file."""
        external.fill(self._stored)
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
            UsageError: the file cannot be written there, or not in this form.
            InvalidModelError: external data have changed since the model was read.
        """
        from opshift.passes.io import atomic_files, weight_files, writer

        check_path(path, "path", "a string or a path")
        check_arguments({"progress": progress})
        if external_data is not None and not (isinstance(external_data, str) and external_data in weight_files.WEIGHTS):
            raise UsageError(f"external_data is one of {', '.join(weight_files.WEIGHTS)}, not {external_data!r}.")
        if type(size_threshold) is not int or size_threshold < 0:
            raise UsageError(f"size_threshold is a number of bytes, not {size_threshold!r}.")
        how: dict[str, Any] = {
            "external_data": external_data,
            "size_threshold": size_threshold,
            "progress": progress,
        }
        written = self.rewritten is not self.source.model or external_data is not None
        if written and self.source.path is not None and external.same_file(self.source.path, path):
            external.fill(self._stored, self.source.path)
        with contextlib.nullcontext(batch) if batch else atomic_files.Batch() as together:
            together.ready.insert(0, lambda: external.check_stamps(self.source.stamps))
            how["batch"] = together
            if self.rewritten is self.source.model:
                return writer.copy(self.source, path, **how)
            return writer.save(self._stored, path, source=self.source, **how)


def as_given(source: Source, rewritten: onnx.ModelProto) -> onnx.ModelProto | onnx_ir.Model:
    """Return a converted model in the form of the input model."""
    if source.original is None or isinstance(source.original, onnx.ModelProto):
        return rewritten
    import onnx_ir

    return onnx_ir.serde.deserialize_model(rewritten)
