"""Dropout in inference: with and without a mask, a ratio, a mode. Training is refused."""

from __future__ import annotations

import numpy as np

from operators.harness import BF16, F16, F32, F64, Case, Code, Refused, Table, arr
from opshift.opsets.operators import dropout
from opshift.opsets.operators.dropout import Dropout

DATA = arr([[1, -2, 3], [-0.0, np.inf, np.nan]])
RATIO = arr(0.5)

TRAINS = """<ir_version: 8, opset_import: ["": 13]>
g (float[2,3] x {inputs}) => (float[2,3] y) {constants} {{ y = Dropout(x, ratio, mode) }}"""


class TestDropout(Table):
    operator = dropout.OPERATOR
    cases = (
        *(Case(f"{mask} mask", [DATA, None, None], Dropout(mask=mask)) for mask in ("unused", "ones", "zeros")),
        Case("mask of data's type", [DATA, None, None], Dropout(mask="zeros of data")),
        Case("ratio", [DATA, RATIO, None], Dropout(mask="unused"), known=(1,)),
        Case("ratio and mask", [DATA, RATIO, None], Dropout(), known=(1,)),
        Case("computed ratio", [DATA, RATIO, None], Dropout()),
        Case("not training", [DATA, RATIO, np.array(False)], Dropout(seed=3), known=(1, 2)),
        Case("double", [DATA.astype(F64), None, None], Dropout()),
        Case("float16", [DATA.astype(F16), None, None], Dropout(mask="zeros of data"), runs=12),
        Case("bfloat16", [DATA.astype(BF16), None, None], Dropout(mask="unused"), least=13),
        Case("empty", [np.zeros((0, 2), F32), None, None], Dropout()),
        Case("scalar", [arr(1), None, None], Dropout()),
    )
    refusals = (
        Refused(
            TRAINS.format(inputs="", constants="<float ratio = {0.5}, bool mode = {1}>"),
            Code.NO_LOWERING,
            "what training leaves out is random",
            {"opset": 10},
        ),
        Refused(
            TRAINS.format(inputs=", bool mode", constants="<float ratio = {0.5}>"),
            Code.MISSING_FACT,
            "training_mode, which must be false, is computed at run time",
            {"opset": 10},
        ),
    )
