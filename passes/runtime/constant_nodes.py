"""Compute single nodes of constants in onnxruntime, if no oracle computes them exactly."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from opshift.opsets.registry.schema import default_domain
from opshift.passes.analysis.scopes import Array
from opshift.passes.runtime.node_evaluator import single
from opshift.passes.runtime.ort_models import RejectedError, Runnable
from opshift.passes.runtime.ort_opsets import fit
from opshift.passes.runtime.ort_session import Session


class ConstantNodes:
    """Computes a model's nodes, each in its own session, with graph optimizations off."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Store the opset imports of a model."""
        imports = [item for item in model.opset_import if not default_domain(item.domain)]
        self._imports = imports
        self._like = onnx.ModelProto(ir_version=model.ir_version)

    def __call__(self, node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Array] | None:
        """Return the used outputs of the node; None if onnxruntime does not compute them."""
        feeds = {name: array for name, array in zip(node.input, arrays, strict=True) if name}
        try:
            runnable, _ = fit(Runnable(single(node, feeds, self._imports, self._like)))
            return list(Session(runnable, optimised=False).run(feeds))
        except RejectedError:
            return None
