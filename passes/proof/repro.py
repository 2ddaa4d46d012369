"""Write a reproduction of a difference: two small models, and the input on which they differ."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from opshift.passes.base.errors import UsageError, reason, shown_path
from opshift.passes.graph import traversal
from opshift.passes.io import atomic_files, external_data
from opshift.passes.proof.comparison import Mismatch
from opshift.passes.proof.inputs import user_inputs
from opshift.passes.runtime.ort_models import Runnable


def refuse_used(directory: Path) -> None:
    """Refuse a directory with contents, which might be overwritten or read as a part of the example.

    Raises:
        UsageError: it has contents, cannot be read, or is not a directory.
    """
    try:
        if directory.exists():
            atomic_files.sweep(directory)
        held = sorted(directory.iterdir()) if directory.exists() else []
    except OSError as error:
        raise _unwritable(directory, error) from error
    if held:
        raise UsageError(
            f"--save-repro {_bare(directory)}: it holds {_bare(held[0].name)} already, and nothing is "
            "overwritten. Name a directory that is new or empty."
        )


def write(
    directory: Path, original: Runnable, rewritten: Runnable, mismatch: Mismatch, options: Sequence[str] = ()
) -> str:
    """Write original.onnx, rewritten.onnx and test_data_set_0, and return the command that compares them.

    The outputs in the data set are the original's. `options` are further options of the command, without which it might
    not show the difference.

    Raises:
        UsageError: the directory has contents, or cannot be written to.
    """
    refuse_used(directory)
    try:
        with atomic_files.Batch() as batch:
            batch.make_folders(directory)
            for name, runnable in (("original.onnx", original), ("rewritten.onnx", rewritten)):
                proto = onnx.ModelProto()
                proto.CopyFrom(runnable.proto)
                for tensor in traversal.tensors(traversal.graph_views(proto)):
                    tensor.CopyFrom(external_data.embedded(tensor, runnable.directory))
                place = directory / name
                batch.draft(place, conflict=user_inputs.taken(place)).write(proto.SerializeToString())
            found = mismatch.difference
            user_inputs.write(directory, mismatch.feeds, {found.output: found.expected}, original.proto.graph, batch)
            batch.publish()
    except (OSError, ValueError) as error:
        raise _unwritable(directory, error) from error
    return shlex.join(
        [
            *("opshift", "verify", str(directory / "original.onnx"), str(directory / "rewritten.onnx")),
            *("--inputs", str(directory / "test_data_set_0")),
            *options,
        ]
    )


def verify_command(
    before: Runnable,
    after: Runnable,
    seed: int,
    shapes: Mapping[str, tuple[int, ...]] | None,
    inputs: object,
    options: Sequence[str],
) -> str:
    """Return the command that reproduces the difference of two files; empty if one is not a file."""
    if not before.named or not after.named:
        return ""
    parts = ["opshift", "verify", before.named, after.named, "--seed", str(seed)]
    for name, shape in (shapes or {}).items():
        parts += ["--input-shape", f"{name}:{','.join(map(str, shape))}"]
    if isinstance(inputs, str | os.PathLike):
        parts += ["--inputs", os.fspath(inputs)]
    return shlex.join([*parts, *options])


@dataclass
class Reproduction:
    """The command that reproduces a difference; the first difference is written to files if requested."""

    directory: str | os.PathLike[str] | None
    command: str
    options: Sequence[str]
    written: bool = False

    def __call__(
        self,
        original: Runnable | onnx.ModelProto,
        rewritten: Runnable | onnx.ModelProto,
        mismatch: Mismatch,
        exact: bool = False,
    ) -> str:
        """Return the command; write both models and the input if none were written."""
        if self.directory is None or self.written:
            return self.command
        sources = [one if isinstance(one, Runnable) else Runnable(one) for one in (original, rewritten)]
        self.written = True
        options = ["--exact"] * (exact and "--exact" not in self.options) + list(self.options)
        return write(Path(self.directory), sources[0], sources[1], mismatch, options)


def _unwritable(directory: Path, error: Exception) -> UsageError:
    return UsageError(
        f"--save-repro {_bare(directory)}: it cannot be written: {reason(error)}. Name another directory."
    )


def _bare(path: str | Path) -> str:
    """Return a path in printable form, without quotation marks."""
    return shown_path(path)[1:-1]
