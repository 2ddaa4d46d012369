"""HardmaxAxes: a hardmax over any set of axes, DirectML's ACTIVATION_HARDMAX1, in the domain `opshift`."""

from __future__ import annotations

import dataclasses

import onnx.defs
import onnx.shape_inference

from opshift.opsets.operator import Version
from opshift.opsets.operators import hardmax
from opshift.opsets.rows import Rows

SCHEMA = onnx.defs.OpSchema(
    "HardmaxAxes",
    "opshift",
    1,
    doc="One in the first maximum, in row-major order, over all of `axes` together; zero elsewhere. This is DirectML's "
    "ACTIVATION_HARDMAX1; Hardmax-13 is the case of one axis, Hardmax-11 with axis k that of the axes k to r-1.",
    inputs=[onnx.defs.OpSchema.FormalParameter("input", "T", "Tensor of any rank from 1.")],
    outputs=[onnx.defs.OpSchema.FormalParameter("output", "T", "Tensor of the input's shape, zeros and ones.")],
    type_constraints=[("T", [f"tensor({name})" for name in ("float16", "float", "double", "bfloat16")], "Floats.")],
    attributes=[
        onnx.defs.OpSchema.Attribute(
            "axes",
            onnx.defs.OpSchema.AttrType.INTS,
            "The axes of a row; negative ones count from the back.",
            required=True,
        )
    ],
)


def _infer(context: onnx.shape_inference.InferenceContext) -> None:
    known = context.get_input_type(0)
    if known is not None:
        context.set_output_type(0, known)


def register() -> None:
    """Make the operator known to onnx's checker and shape inference, once in a process."""
    if not onnx.defs.has("HardmaxAxes", domain="opshift"):
        SCHEMA.set_type_and_shape_inference_function(_infer)
        onnx.defs.register_schema(SCHEMA)


register()

OPERATOR = dataclasses.replace(
    hardmax.OPERATOR,
    name="HardmaxAxes",
    domain="opshift",
    means=hardmax.OPERATOR,
    versions=(Version(1, lift=lambda attributes: Rows(tuple(attributes["axes"] or ()))),),
)
