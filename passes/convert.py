"""`convert` and `plan`: the eight steps of a conversion, in order."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from opshift.passes.outcome import Plan, Report

if TYPE_CHECKING:
    import onnx_ir

    from opshift.opsets.target import Target

type Model = str | os.PathLike[str] | onnx.ModelProto | onnx_ir.Model


@dataclass(frozen=True)
class Result:
    """A converted model with the plan that was followed and the report of what was shown (None with verify=False)."""

    model: onnx.ModelProto | onnx_ir.Model
    plan: Plan
    report: Report | None

    def save(self, path: str | os.PathLike[str]) -> None: ...


def plan(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    semantics: str = "runtime",
    allow: Collection[str] = (),
    ir_version: int | None = None,
) -> Plan: ...


def convert(
    model: Model,
    *,
    opset: int | None = None,
    decompose: Collection[str] = (),
    target: str | os.PathLike[str] | Target | None = None,
    verify: bool = True,
    semantics: str = "runtime",
    allow: Collection[str] = (),
    ir_version: int | None = None,
    require_proof: bool = False,
    input_shapes: dict[str, tuple[int, ...]] | None = None,
    seed: int = 0,
) -> Result: ...
