"""What compares, jumps or selects, after what every kernel computes alike: nothing there is rounding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import opshift
from opshift.passes.base.report import Verdict

EXACT = {
    "input": "t = Identity (x)",
    "Relu": "t = Relu (x)",
    "Neg": "t = Neg (x)",
    "Add": "c = Constant <value = float {0.5}> ()  t = Add (x, c)",
    "Sub": "t = Sub (x, z)",
    "Mul": "t = Mul (x, z)",
    "Div": "t = Div (x, z)",
    "Transpose": "u = Transpose (x)  t = Transpose (u)",
    "double": "u = Cast <to = 11> (x)  t = Cast <to = 1> (u)",
    "If": """d = Shape (x)  e = Size (x)  n = Size (d)  less = Less (n, e)  t = If (less) <
        then_branch = one () => (float[4,5] added) { added = Add (x, z) },
        else_branch = other () => (float[4,5] taken) { taken = Sub (x, z) }>""",
}
"""What comes before."""

HALF = "half = Constant <value = float {0.5}> ()"
ONE = "one = Constant <value = float {1}> ()"
ZERO = "zero = Constant <value = float {0}> ()"
PAIRS = {
    "ThresholdedRelu": (
        "float y",
        "y = ThresholdedRelu <alpha = 1.0> (t)",
        f"{ONE} {ZERO} b = GreaterOrEqual (t, one)  y = Where (b, t, zero)",
    ),
    "Shrink": (
        "float y",
        "y = Shrink <lambd = 0.5> (t)",
        f"{HALF} {ZERO} a = Abs (t)  b = GreaterOrEqual (a, half)  y = Where (b, t, zero)",
    ),
    "Round": ("float y", "y = Round (t)", f"{HALF} a = Add (t, half)  y = Floor (a)"),
    "Cast after Round": (
        "int32 y",
        "r = Round (t)  y = Cast <to = 6> (r)",
        f"{HALF} a = Add (t, half)  f = Floor (a)  y = Cast <to = 6> (f)",
    ),
    "Greater": ("bool y", f"{ONE} y = Greater (t, one)", f"{ONE} y = GreaterOrEqual (t, one)"),
    "Greater of two": ("bool y", "y = Greater (t, z)", "y = GreaterOrEqual (t, z)"),
    "Sign": (
        "float y",
        "y = Sign (t)",
        f"{ZERO} {ONE} m = Neg (one)  b = GreaterOrEqual (t, zero)  y = Where (b, one, m)",
    ),
    "Floor": ("float y", "y = Floor (t)", f"{ONE} c = Ceil (t)  y = Sub (c, one)"),
    "QuantizeLinear": (
        "uint8 y",
        "s = Constant <value = float {0.25}> ()  p = Constant <value = uint8 {3}> ()  y = QuantizeLinear (t, s, p)",
        f"""s = Constant <value = float {{0.25}}> ()  p = Constant <value = float {{3}}> ()  {HALF} {ZERO}
        u = Constant <value = float {{255}}> ()
        q = Div (t, s)  r = Add (q, half)  f = Floor (r)
        g = Add (f, p)  k = Clip (g, zero, u)  y = Cast <to = 2> (k)""",
    ),
    "TopK": (
        "int64 y",
        "k = Constant <value = int64[1] {1}> ()  v, y = TopK <axis = 1> (t, k)",
        "y = ArgMax <axis = 1, select_last_index = 1> (t)",
    ),
    "ArgMax": ("int64 y", "y = ArgMax <axis = 1> (t)", "y = ArgMax <axis = 1, select_last_index = 1> (t)"),
}
"""An output, what makes it, and what makes something else of numbers that are halves, ties or at a threshold."""


def model(before: str, output: str, after: str) -> onnx.ModelProto:
    """Return a model of two inputs."""
    text = f"""<ir_version: 8, opset_import: ["": 13]>
    g (float[4,5] x, float[4,5] z) => ({output}, float[4,5] w) {{ {EXACT[before]} {after} w = Identity (z) }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("before", EXACT)
@pytest.mark.parametrize("pair", PAIRS)
def test_what_decides_after_exact_arithmetic_is_never_pardoned(before: str, pair: str) -> None:
    """Inputs are exact, and one operation of IEEE 754 is the same in every kernel."""
    output, right, wrong = PAIRS[pair]
    found = opshift.verify(model(before, output, right), model(before, output, wrong))
    assert found.verdict == "different", found
    assert opshift.verify(model(before, output, right), model(before, output, right)).verdict == "equal"


CLOSE = """<ir_version: 8, opset_import: ["": 15]>
g (float[t,2] x) => (float[t,2] y, int64[t] k) { y = Sigmoid (x) %s }"""


@pytest.mark.slow
def test_many_close_choices_are_all_found_to_be_rounding() -> None:
    """Two numbers that are a few units apart are exchanged by a quarter of all random errors, or by fewer."""
    original = onnx.parser.parse_model(CLOSE % "k = ArgMax <axis = 1, keepdims = 0> (y)")
    rewritten = opshift.convert(original, decompose=["ArgMax", "Sigmoid"], verify=False).rewritten
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3, 3, (2000, 1)).astype(np.float32)
    close = {"x": np.hstack([rows, rows + rng.integers(1, 8, (2000, 1)).astype(np.float32) * np.float32(2**-23)])}
    assert opshift.verify(original, rewritten, inputs=close).verdict is Verdict.EQUAL
    least = onnx.parser.parse_model(CLOSE % "n = Neg (y) k = ArgMax <axis = 1, keepdims = 0> (n)")
    assert opshift.verify(original, least, inputs=close).verdict is Verdict.DIFFERENT
