"""CenterCropPad: cropping and padding by even and odd numbers, every form of axes, both types of the shape."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx.parser import parse_model

from operators.harness import (
    F32,
    F64,
    Array,
    Case,
    Table,
    arr,
    converted,
    differs,
    feeds_of,
    native_model,
    outputs_of,
    ran,
)
from opshift.opsets.operators import centercroppad
from opshift.opsets.operators.centercroppad import CenterCropPad
from opshift.opsets.registry.lowering import Reason

CUBE = np.arange(1, 61, dtype=F32).reshape(3, 4, 5)


class TestCenterCropPad(Table):
    operator = centercroppad.OPERATOR
    cases = tuple(
        Case(
            f"{np.dtype(dtype).name}, {what}, {how}",
            [x, np.array(shape, dtype)],
            meaning,
            known=known,
            symbolic=symbolic,
        )
        for dtype in (np.int32, np.int64)
        for how, known, symbolic in (("known", (1,), 7), ("computed", (), 7))
        for what, x, shape, meaning in (
            ("all axes", CUBE, (2, 7, 4), CenterCropPad()),
            ("two axes", CUBE, (6, 2), CenterCropPad((2, 0))),
            ("negative axes", CUBE, (1, 9), CenterCropPad((-1, -2))),
            ("one axis", CUBE, (1,), CenterCropPad((1,))),
            ("as it is", CUBE, (3, 4, 5), CenterCropPad()),
            ("to nothing", CUBE, (0,), CenterCropPad((0,))),
            ("int64", CUBE.astype(np.int64), (2, 7, 4), CenterCropPad()),
            ("bool", CUBE > 30, (2, 7, 4), CenterCropPad()),
            ("double", arr(CUBE, F64), (4, 3), CenterCropPad((0, 1))),
        )
    )

    # The function body of ONNX does not take an int32 shape, and onnxruntime 1.32.0 has no other kernel.
    def native_runs(self, case: Case, *, but: Collection[int] = ()) -> dict[int, tuple[list[Array], list[Array]]]:
        return {} if narrow(case) else super().native_runs(case, but=but)

    def check_conversion(self, case: Case, source: int, kind: str, target: int) -> None:
        if not narrow(case):
            super().check_conversion(case, source, kind, target)
        elif target < 18 and (kind == "static" or target >= case.symbolic):
            model = native_model(self.operator, case, source, kind)
            assert not isinstance(model, Reason)
            outputs = ran(converted(model, opset=target), feeds_of(self.operator, case))
            assert not differs(outputs_of(self.operator, case), outputs, 0)


def narrow(case: Case) -> bool:
    """Whether the shape is of int32."""
    shape = case.arrays[1]
    return shape is not None and shape.dtype == np.int32


def test_no_element_type_is_widened() -> None:
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[2,4] x) => (float[2,1] y) '
        "{ s = Constant <value = int32[1] {1}> () y = CenterCropPad <axes = [1]> (x, s) }"
    )
    assert [node.op_type for node in converted(model, opset=17).graph.node] == ["Slice"]
