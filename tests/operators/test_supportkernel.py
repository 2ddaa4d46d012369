"""SupportKernel: the four kernel functions of support vector machines."""

from __future__ import annotations

from operators.harness import F64, Case, Table, arr
from opshift.opsets.ml import supportkernel
from opshift.opsets.ml.supportkernel import SupportKernel

ROWS = arr([[1, -0.5, 0.25], [0, 0.5, -1]])
VECTORS = arr([[0.5, 1], [-1, 0.25], [0, 2]])
WIDE = [ROWS.astype(F64), VECTORS.astype(F64)]
KINDS = ("LINEAR", "POLY", "RBF", "SIGMOID")


class TestSupportKernel(Table):
    operator = supportkernel.OPERATOR
    tolerance = 1e-6
    cases = (
        *(Case(kind, [ROWS, VECTORS], SupportKernel(kind, 0.5, 0.25, 3)) for kind in KINDS),
        *(
            Case(f"{kind} of double", [ROWS.astype(F64), VECTORS.astype(F64)], SupportKernel(kind, 0.5, 1, 2))
            for kind in KINDS
        ),
        Case("no rows", [ROWS[:0], VECTORS], SupportKernel("RBF", 0.5)),
    )
