"""Define schemas that opshift adds to onnx's registry, only in its child process (onnx_process.py).

This module imports nothing: that process has only the extension module of the package `onnx`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPRECATED = "opshift.deprecated"
"""The domain of versions that onnx deprecates and opshift reads: onnx refuses them in their own domain."""

READ = frozenset({("GroupNormalization", 18)})
"""Versions that ONNX deprecated in their first opset, and that onnxruntime still runs (1.31.1).

It runs neither Upsample-10 nor Scatter-11.
"""


def schemas(defs: Any) -> list[Any]:
    """Return new unregistered schemas; `defs` is onnx.defs or its part of the extension module.

    The first output of each has the type of the first input.
    """
    made = [_hardmax_axes(defs.OpSchema), *(_revived(defs, *key) for key in sorted(READ))]
    alike = defs.get_schema("Relu", 6, "").get_type_and_shape_inference_function()
    for schema in made:
        schema.set_type_and_shape_inference_function(alike)
    return made


def _hardmax_axes(schema: Any) -> Any:
    floats = [f"tensor({name})" for name in ("float16", "float", "double", "bfloat16")]
    axes = "The axes of a row; negative ones count from the back."
    return schema(
        "HardmaxAxes",
        "opshift",
        1,
        doc="One in the first maximum, in row-major order, over all of `axes` together; zero elsewhere. This is "
        "DirectML's ACTIVATION_HARDMAX1; Hardmax-13 is the case of one axis, Hardmax-11 with axis k that of the axes "
        "k to r-1.",
        inputs=[schema.FormalParameter("input", "T", "Tensor of any rank from 1.")],
        outputs=[schema.FormalParameter("output", "T", "Tensor of the input's shape, zeros and ones.")],
        type_constraints=[("T", floats, "Floats.")],
        attributes=[schema.Attribute("axes", schema.AttrType.INTS, axes, required=True)],
    )


def _revived(defs: Any, name: str, since_version: int) -> Any:
    """Return a deprecated version as a valid one, with all required parts of its nodes."""
    raw = defs.get_schema(name, since_version, "")
    return defs.OpSchema(
        f"{name}-{since_version}",
        DEPRECATED,
        since_version,
        raw.doc or "",
        inputs=raw.inputs,
        outputs=raw.outputs,
        type_constraints=[(one.type_param_str, one.allowed_type_strs, one.description) for one in raw.type_constraints],
        attributes=list(raw.attributes.values()),
    )
