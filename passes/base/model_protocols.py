"""What errors hold: a model that was read, and a converted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from opshift.passes.base.plan import Plan
from opshift.passes.base.report import Report

if TYPE_CHECKING:
    import onnx


class ReadModel(Protocol):
    """A model that was read, as errors hold it; `size` is its file's size in bytes, if it has a file."""

    @property
    def model(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def size(self) -> int | None: ...  # noqa: D102


class ConvertedModel(Protocol):
    """A conversion's result, as errors hold it."""

    @property
    def plan(self) -> Plan: ...  # noqa: D102

    @property
    def source(self) -> ReadModel: ...  # noqa: D102

    @property
    def model(self) -> Any: ...  # noqa: D102

    @property
    def source_model(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def rewritten(self) -> onnx.ModelProto: ...  # noqa: D102

    @property
    def report(self) -> Report | None: ...  # noqa: D102

    @property
    def repairs(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102
