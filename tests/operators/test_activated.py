"""Activated: each function that onnxruntime fuses with a product, and none."""

from __future__ import annotations

from operators.harness import F32, F64, Case, Table, arr
from opshift.opsets.microsoft import activated
from opshift.opsets.microsoft.activated import Activated

LINE = arr([[-4, -1, -0.25], [0.25, 1, 4]])


class TestActivated(Table):
    operator = activated.OPERATOR
    tolerance = 1e-6
    cases = (
        *(
            Case(name, [LINE], Activated(name, first, second))
            for name, first, second in (
                ("Relu", 0, 0),
                ("Sigmoid", 0, 0),
                ("Softplus", 0, 0),
                ("Softsign", 0, 0),
                ("Tanh", 0, 0),
                ("Elu", 0.5, 0),
                ("LeakyRelu", 0.25, 0),
                ("ThresholdedRelu", 0.5, 0),
                ("Clip", -0.5, 2),
                ("HardSigmoid", 0.25, 0.5),
                ("Affine", 0.25, 0.5),
                ("ScaledTanh", 0.25, 0.5),
            )
        ),
        Case("none", [LINE], Activated()),
        Case("Relu of double", [LINE.astype(F64)], Activated("Relu")),
        Case("Clip of double", [LINE.astype(F64)], Activated("Clip", -0.5, 2)),
        Case("Tanh of nothing", [arr([], F32)], Activated("Tanh")),
        Case("Sigmoid of one", [arr(0.5)], Activated("Sigmoid")),
    )
