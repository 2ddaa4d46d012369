"""Check requested opsets and ir_versions, and map opsets to ir_versions."""

from __future__ import annotations

import onnx
from onnx import helper

from opshift.opsets.registry.schema import NEWEST
from opshift.passes.base.errors import UsageError


def released_with(opset: int, domain: str = "") -> int:
    """Return the ir_version of the first onnx release that has an opset; 3 if onnx does not know it."""
    return helper.find_min_ir_version_for([helper.make_opsetid(domain, opset)], ignore_unknown=True)


def check_opset(name: str, opset: int | None) -> None:
    """Raise UsageError for an argument with an opset that onnx does not know; None is accepted."""
    _check(name, opset, NEWEST, "opsets 1")


def check_ir_version(ir_version: int | None) -> None:
    """Raise UsageError for an ir_version that onnx does not know."""
    _check("ir_version", ir_version, onnx.IR_VERSION, "1")


def _check(name: str, number: int | None, newest: int, known: str) -> None:
    if number is not None and (type(number) is not int or not 1 <= number <= newest):
        raise UsageError(f"There is no {name} {number!r}; onnx {onnx.__version__} knows {known} to {newest}.")
