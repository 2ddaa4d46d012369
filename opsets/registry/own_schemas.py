"""Schemas that opshift adds to onnx's own, for its process only (onnx_process.py): onnx's registry here lacks them.

This module imports nothing: in that process there is no package `onnx`, only its extension module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPRECATED = "opshift.deprecated"
"""The domain of versions that onnx deprecates and opshift reads: its checker and inference refuse them in their own."""

READ = frozenset({("GroupNormalization", 18)})
"""Versions that ONNX deprecates in the opset they came with, and that onnxruntime runs (1.31.1) all the same.

It runs neither Upsample-10 nor Scatter-11.
"""


def schemas(defs: Any) -> list[Any]:
    """Return new schemas, not registered; `defs` is onnx.defs or the part of the extension module that it wraps.

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
    """Return a deprecated version, no longer deprecated, with all that its nodes must have."""
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
