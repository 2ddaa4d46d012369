"""Functions whose calls decide: element types that are parameters, and branches whose shapes an older If compares."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from refused import refused
from running import run, same

import opshift

BRANCHES = """<ir_version: 8, opset_import: ["" : 21, "f" : 1]>
g (bool c, float[2,3] x) => (float[N,M] y) { y = f.Fn(c, x) }
<domain: "f", opset_import: ["" : 21]>
Fn (c, x) => (y) {
  y = If (c) <then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = %s(x) }>
}"""

PARAMETERS = {
    "Cast": ("x", "y = Cast <to: int = @p> (x)", 21, 9),
    "ConstantOfShape and Cast": ("x", "s = Shape(x) z = ConstantOfShape(s) y = Cast <to: int = @p> (z)", 21, 13),
    "EyeLike": ("x", "y = EyeLike <dtype: int = @p> (x)", 24, 21),
    "EyeLike below": ("x", "y = EyeLike <dtype: int = @p> (x)", 22, 13),
}
"""By name: what a call passes, the body, and the opsets."""
TYPES = {"float": 1, "int32": 6, "int64": 7, "float16": 10, "double": 11, "uint64": 13, "bfloat16": 16}


def test_if_1_in_a_function_has_branches_of_one_shape() -> None:
    original = parse_model(BRANCHES % "Neg")
    converted = opshift.convert(original, opset=8).model
    assert isinstance(converted, onnx.ModelProto)
    onnx.checker.check_model(converted, full_check=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    feeds = [{"c": np.array(flag), "x": x} for flag in (True, False)]
    for wanted, found in zip(run(original, feeds), run(converted, feeds), strict=True):
        assert same(wanted[0], found[0])


def test_if_1_in_a_function_with_branches_of_two_shapes_is_refused() -> None:
    with refused("no-lowering: If-21 at function Fn/If_0"):
        opshift.convert(parse_model(BRANCHES % "Transpose"), opset=8)


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_element_type_is_what_the_call_passes(name: str, element: str) -> None:
    passed, body, source, target = PARAMETERS[name]
    original = parse_model(f"""<ir_version: 8, opset_import: ["" : {source}, "f" : 1]>
g (float[3,3] x) => ({element}[3,3] y) {{ y = f.Fn <p: int = {TYPES[element]}> ({passed}) }}
<domain: "f", opset_import: ["" : {source}]>
Fn <p> (x) => (y) {{ {body} }}""")
    try:
        converted = opshift.convert(original, opset=target, verify=False).model
    except opshift.UnsupportedError:
        assert element == "bfloat16"
        assert target < 22
        return
    assert isinstance(converted, onnx.ModelProto)
    onnx.checker.check_model(converted, full_check=True)
    feed = {"x": np.arange(9, dtype=np.float32).reshape(3, 3)}
    try:
        expected = run(original, [feed])[0][0]
    except Exception:  # onnxruntime 1.32.0 has no such kernel
        return
    assert same(expected, run(converted, [feed])[0][0])
