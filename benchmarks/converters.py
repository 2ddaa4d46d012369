"""The converters that the benchmarks compare: opshift, onnx.version_converter, onnxscript.version_converter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.helper
import onnx_ir
import onnx_ir.serde
import onnxscript.version_converter
from onnx import version_converter

import opshift
from opshift.passes.base.errors import UsageError

Converter = Callable[[onnx.ModelProto, int], onnx.ModelProto]


def by_opshift(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """opshift, without its proof: the judge here is the proof, and judges all alike."""
    return opshift.convert(model, opset=opset, verify=False).rewritten


def by_onnx(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """ONNX's own converter, with a fitting ir_version, which it leaves to the caller."""
    try:
        converted = version_converter.convert_version(model, opset)
    except Exception as error:
        raise UsageError(str(error)) from error
    return _finished(model, converted, opset)


def by_onnxscript(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """onnxscript's converter, which knows opsets from 18 on; where it fails it warns and leaves the model as it was."""
    try:
        ir_model = onnx_ir.serde.deserialize_model(model)
        onnxscript.version_converter.convert_version(ir_model, opset)
        converted = onnx_ir.serde.serialize_model(ir_model)
    except Exception as error:
        raise UsageError(str(error)) from error
    if [entry.version for entry in converted.opset_import if not entry.domain] != [opset]:
        raise UsageError("the model was left as it was")
    return _finished(model, converted, opset)


def _finished(model: onnx.ModelProto, converted: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Set a fitting ir_version, and the declared types of the outputs as they were."""
    least = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    converted.ir_version = max(converted.ir_version, least)
    for old, new in zip(model.graph.output, converted.graph.output, strict=True):
        new.CopyFrom(old)
    return converted


CONVERTERS: dict[str, tuple[str, Converter]] = {
    "opshift": ("opshift", by_opshift),
    "onnx.version_converter": ("onnx", by_onnx),
    "onnxscript.version_converter": ("onnxscript", by_onnxscript),
}
"""By name: the package that it comes with, and the function."""


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Lines with aligned columns, the first to the left."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*texts, strict=True)]
    return "\n".join(
        row[0].ljust(widths[0]) + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in texts
    )
