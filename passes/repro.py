"""A difference written down: two small models and the input on which they differ, as anybody can run them."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx

from opshift.passes import given
from opshift.passes.compare import Finding
from opshift.passes.errors import UsageError
from opshift.passes.sessions import Source


def write(directory: Path, original: Source, rewritten: Source, finding: Finding) -> str:
    """Write original.onnx, rewritten.onnx and test_data_set_0, and return the command that compares them.

    What the data set has as output is what the original computes.

    Raises:
        UsageError: the directory cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, source in (("original.onnx", original), ("rewritten.onnx", rewritten)):
            proto = onnx.ModelProto()
            proto.CopyFrom(source.proto)
            if source.directory is not None:
                onnx.load_external_data_for_model(proto, str(source.directory))
            (directory / name).write_bytes(proto.SerializeToString())
        found = finding.difference
        given.write(directory, finding.feeds, {found.output: found.expected}, original.proto.graph)
    except (OSError, ValueError) as error:
        raise UsageError(f"--save-repro {directory}: it cannot be written: {error}. Name another directory.") from error
    return shlex.join(
        [
            *("opshift", "verify", str(directory / "original.onnx"), str(directory / "rewritten.onnx")),
            *("--inputs", str(directory / "test_data_set_0")),
        ]
    )
