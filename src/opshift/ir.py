"""Provide opshift as a pass of onnx_ir: `opshift.ir.ConvertPass(opset=11)` works like that library's own passes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import onnx_ir

import opshift


@dataclass
class ConvertResult(onnx_ir.passes.PassResult):
    """The result of the pass: the converted model, whether it differs from the input model, and the details.

    Attributes:
        result: what `opshift.convert` returned: its plan, the report of the verification, and notes.
    """

    result: opshift.Result


class ConvertPass(onnx_ir.passes.FunctionalPass):
    """Convert a model to an opset, replace operators, or fit it to a runtime, and verify the outputs.

    The input model is not modified. `result.save(path)` writes the same bytes as `opshift convert`; `onnx_ir.save`
    writes the model in its own order.
    """

    def __init__(self, **options: Any) -> None:
        """Keep the options.

        Args:
            options: the arguments of `opshift.convert`, except the model.

        Raises:
            TypeError: `opshift.convert` has no such argument.
        """
        inspect.signature(opshift.convert).bind(None, **options)
        self.options = options

    def __repr__(self) -> str:
        """Show the options, as PassManager does in its messages."""
        return f"ConvertPass({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def __call__(self, model_or_result: onnx_ir.Model | onnx_ir.passes.PassResult, /) -> ConvertResult:
        """Convert a model or another pass's result; see `call`."""
        done = super().__call__(model_or_result)
        assert isinstance(done, ConvertResult)
        return done

    def call(self, model: onnx_ir.Model) -> ConvertResult:
        """Convert a model.

        Raises:
            UnsupportedError: a node cannot be expressed as requested; `refusals` names it, with reason and fix.
            VerificationError: the outputs are not the same; `report` has the inputs.
            InvalidModelError: the model breaks ONNX's rules.
            UsageError: an option has a wrong value.
        """
        result = opshift.convert(model, **self.options)
        return ConvertResult(result.model, result.rewritten is not result.source.model, result)
