"""com.microsoft::TransposeMatMul: FusedMatMul under its first name, without batches to transpose."""

from __future__ import annotations

import dataclasses

from opshift.opsets.microsoft import fusedmatmul

OPERATOR = dataclasses.replace(fusedmatmul.OPERATOR, name="TransposeMatMul", means=fusedmatmul.OPERATOR)
