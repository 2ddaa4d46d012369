"""Faults that show on few inputs only: what must be drawn, or looked at element by element, to see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.parser import parse_model


@dataclass(frozen=True)
class Hard:
    """A model, a wrong rewrite of it, and an input on which the two differ.

    Attributes:
        kind: what must be drawn or compared to see the difference.
        original: is right.
        rewritten: is not.
        witness: shows it.
    """

    kind: str
    original: ModelProto
    rewritten: ModelProto
    witness: Mapping[str, Any]


HARD: dict[str, Hard] = {}


def model(graph: str, opset: int) -> ModelProto:
    """Parse a graph at an opset."""
    ir_version = 13 if opset > 26 else 10 if opset > 20 else 8
    return parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}, "ai.onnx.ml": 3]> {graph}')


def hard(
    kind: str,
    name: str,
    signature: str,
    before: str,
    after: str,
    witness: Mapping[str, Any],
    weights: str = "",
    opset: int = 17,
) -> None:
    """Note a fault."""
    held = f"<{weights}>" if weights else ""
    original, rewritten = (model(f"g {signature} {held} {{ {body} }}", opset) for body in (before, after))
    assert name not in HARD
    HARD[name] = Hard(kind, original, rewritten, witness)


def f32(*values: Any) -> Any:
    """Return floats."""
    return np.array(values, np.float32)


def i64(*values: Any) -> Any:
    """Return integers."""
    return np.array(values, np.int64)


X = "(float[n,4] x) => (float[n,4] y)"
ROW = f32([1.0, 2.0, 3.0, 4.0])
LARGE = f32([1.0, -1e9, 3.0, 4.0])

# --- one bound for each element ---

hard(
    "element",
    "log_softmax_beside_a_mask",
    X,
    "y = LogSoftmax <axis = 1> (x)",
    "z = Mul (x, c) y = LogSoftmax <axis = 1> (z)",
    {"x": LARGE},
    "float c = {1.001}",
)
hard(
    "element",
    "log_softmax_beside_a_mask_of_its_own",
    X,
    "m = Add (x, k) y = LogSoftmax <axis = 1> (m)",
    "m = Add (x, k) l = LogSoftmax <axis = 1> (m) y = Add (l, e)",
    {"x": ROW},
    "float[4] k = {0, 0, 0, -1e9}, float e = {0.001}",
)
hard(
    "element",
    "a_score_beside_a_timestamp",
    "(float[n,1] x) => (float[n,2] y)",
    "s = Sigmoid (x) t = Add (x, time) y = Concat <axis = 1> (s, t)",
    "h = Cast <to = 10> (x) f = Cast <to = 1> (h) s = Sigmoid (f) t = Add (x, time) y = Concat <axis = 1> (s, t)",
    {"x": f32([0.3001])},
    "float time = {1.7e9}",
)
hard(
    "element",
    "a_row_beside_a_large_row",
    "(float[2,4] x) => (float[2,4] y)",
    "y = Mul (x, c)",
    "z = Mul (x, c) y = Add (z, e)",
    {"x": f32([1, 2, 3, 4], [1, 2, 3, 4])},
    "float[2,1] c = {1e8, 0.3}, float[2,1] e = {0, 0.001}",
)
hard(
    "element",
    "a_bias_beside_a_large_channel",
    "(float[n,2] x) => (float[n,2] y)",
    "y = Gemm (x, w, b)",
    "y = Gemm (x, w, d)",
    {"x": f32([0.5, 0.25])},
    "float[2,2] w = {1e7, 0.1, 3e7, 0.2}, float[2] b = {1.5, 0.125}, float[2] d = {1.5, 0.126}",
)
hard(
    "element",
    "a_sum_beside_a_mask",
    "(float[n,4] x) => (float[n,4] y)",
    "m = Add (x, k) y = Mul (m, c)",
    "m = Add (x, k) y = Mul (m, d)",
    {"x": ROW},
    "float[4] k = {0, 0, 0, -1e9}, float c = {0.3}, float d = {0.3001}",
)
hard(
    "element",
    "a_mean_beside_a_large_one",
    "(float[2,n] x) => (float[2] y)",
    "m = ReduceMean <axes = [1], keepdims = 0> (x) y = Mul (m, c)",
    "m = ReduceMean <axes = [1], keepdims = 0> (x) z = Mul (m, c) y = Add (z, e)",
    {"x": f32([1, 2], [3, 4])},
    "float[2] c = {3e10, 0.7}, float[2] e = {0, 0.0005}",
)
hard(
    "element",
    "a_softmax_of_a_masked_row",
    "(float[n,4] x) => (float[n,4] y)",
    "m = Add (x, k) y = Softmax <axis = 1> (m)",
    "m = Add (x, k) z = Mul (m, d) y = Softmax <axis = 1> (z)",
    {"x": ROW},
    "float[4] k = {0, 0, 0, -1e9}, float d = {1.001}",
)
hard(
    "element",
    "exp_of_a_wide_range",
    "(float[n,4] x) => (float[n,4] y)",
    "z = Mul (x, k) y = Exp (z)",
    "z = Mul (x, l) y = Exp (z)",
    {"x": ROW},
    "float[4] k = {20, 1, 1, 1}, float[4] l = {20, 1, 1, 1.001}",
)
hard(
    "element",
    "a_small_probability",
    "(float[n,4] x) => (float[n,4] y)",
    "m = Mul (x, k) s = Softmax <axis = 1> (m) y = Identity (s)",
    "m = Mul (x, k) s = Softmax <axis = 1> (m) e = Max (s, low) y = Identity (e)",
    {"x": f32([3, 0, 0, 0])},
    "float[4] k = {8, 1, 1, 1}, float low = {1e-9}",
)
hard(
    "element",
    "cumsum_beside_a_large_row",
    "(float[2,4] x) => (float[2,4] y)",
    "z = Mul (x, c) y = CumSum (z, a)",
    "z = Mul (x, d) y = CumSum (z, a)",
    {"x": f32([1, 2, 3, 4], [1, 2, 3, 4])},
    "float[2,1] c = {1e9, 0.3}, float[2,1] d = {1e9, 0.301}, int32 a = {1}",
)
hard(
    "element",
    "a_conv_with_a_large_channel",
    "(float[1,1,4,4] x) => (float[1,2,3,3] y)",
    "y = Conv (x, w)",
    "y = Conv (x, v)",
    {"x": np.ones((1, 1, 4, 4), np.float32)},
    "float[2,1,2,2] w = {1e8, 1e8, 3e8, 1e8, 0.1, 0.2, 0.3, 0.4},"
    " float[2,1,2,2] v = {1e8, 1e8, 3e8, 1e8, 0.1, 0.2, 0.3, 0.401}",
)
hard(
    "element",
    "layer_norm_of_rows_that_differ",
    "(float[2,4] x) => (float[2,4] y)",
    "z = Mul (x, c) y = LayerNormalization <epsilon = 1e-5> (z, s)",
    "z = Mul (x, c) y = LayerNormalization <epsilon = 1e-3> (z, s)",
    {"x": f32([1, 2, 3, 4], [1, 2, 3, 4])},
    "float[2,1] c = {1000, 0.01}, float[4] s = {1, 1, 1, 1}",
)
hard(
    "element",
    "a_half_beside_a_large_half",
    "(float16[n,2] x) => (float16[n,2] y)",
    "y = Mul (x, c)",
    "z = Mul (x, c) y = Add (z, e)",
    {"x": np.array([[1, 1]], np.float16)},
    "float16[2] c = {28672, 14336}, float16[2] e = {0, 8192}",
)
hard(
    "element",
    "a_double_rounded_to_float",
    "(double[n,3] x) => (double[n,3] y)",
    "y = Mul (x, c)",
    "f = Cast <to = 1> (x) d = Cast <to = 11> (f) y = Mul (d, c)",
    {"x": np.array([[0.1, 0.2, 0.3]])},
    "double[3] c = {0.3, 1e12, 0.7}",
)

hard("element", "a_column_beside_one_that_cancels", "(float[n,4] x) => (float[n,4] y)", "a = Add (x, k) y = Sub (a, k)",
     "a = Add (x, k) b = Sub (a, k) y = Add (b, e)", {"x": ROW},
     "float[4] k = {1e6, 0, 0, 0}, float[4] e = {0, 0, 0, 0.125}")
hard("element", "a_row_beside_one_that_cancels", "(float[6,n] x) => (float[6,n] y)", "a = Add (x, k) y = Sub (a, k)",
     "a = Add (x, k) b = Sub (a, k) y = Mul (b, e)", {"x": np.full((6, 3), 0.7, np.float32)},
     "float[6,1] k = {1e6, 1e6, 0, 0, 0, 0}, float[6,1] e = {1, 1, 1, 1, 1, 1.01}")
hard("element", "a_score_of_its_own_output", "(float[n,4] x) => (float[n,5] y)",
     "s = Softmax <axis = 1> (x) m = ReduceSum (x, one) t = Add (m, k) u = Sub (t, k) y = Concat <axis = 1> (s, u)",
     "z = Mul (x, c) s = Softmax <axis = 1> (z) m = ReduceSum (x, one) t = Add (m, k) u = Sub (t, k)"
     " y = Concat <axis = 1> (s, u)", {"x": ROW}, "float k = {1e6}, int64[1] one = {1}, float c = {1.02}")
hard("element", "a_vector_beside_one_that_cancels", "(float[1] x, float[6] z) => (float[7] y)",
     "a = Add (x, k) b = Sub (a, k) c = Sigmoid (z) y = Concat <axis = 0> (b, c)",
     "a = Add (x, k) b = Sub (a, k) c = HardSigmoid <alpha = 0.25> (z) y = Concat <axis = 0> (b, c)",
     {"x": f32(1), "z": f32(0.5, 1, 2, 3, 4, 1)}, "float k = {1e8}")

# --- selections ---

hard(
    "selection",
    "thresholded_relu_at_its_threshold",
    X,
    "y = ThresholdedRelu <alpha = 1.5> (x)",
    "b = Less (x, c) y = Where (b, zero, x)",
    {"x": f32([1.5, 1, 2, 0])},
    "float c = {1.5}, float zero = {0}",
)
hard(
    "selection",
    "shrink_at_its_threshold",
    X,
    "y = Shrink <lambd = 0.75> (x)",
    "a = Abs (x) b = Less (a, c) y = Where (b, zero, x)",
    {"x": f32([0.75, 1, -0.75, 0])},
    "float c = {0.75}, float zero = {0}",
)
hard(
    "selection",
    "shrink_with_a_bias_at_its_threshold",
    X,
    "y = Shrink <lambd = 0.75, bias = 0.25> (x)",
    "p = Sub (x, e) q = Add (x, e) g = GreaterOrEqual (x, c) l = Less (x, d) a = Where (l, q, zero)"
    " y = Where (g, p, a)",
    {"x": f32([0.75, 1, -0.75, 0])},
    "float c = {0.75}, float d = {-0.75}, float e = {0.25}, float zero = {0}",
)
hard(
    "selection",
    "round_half_up",
    X,
    "y = Round (x)",
    "a = Add (x, h) y = Floor (a)",
    {"x": f32([0.5, 1.5, 2.5, 0])},
    "float h = {0.5}",
)
hard(
    "selection",
    "round_half_away",
    X,
    "y = Round (x)",
    "s = Sign (x) m = Abs (x) a = Add (m, h) f = Floor (a) y = Mul (f, s)",
    {"x": f32([0.5, 1.5, 2.5, 0])},
    "float h = {0.5}",
)
hard(
    "selection",
    "cast_after_round_up",
    "(float[n,4] x) => (int64[n,4] y)",
    "r = Round (x) y = Cast <to = 7> (r)",
    "r = Add (x, h) f = Floor (r) y = Cast <to = 7> (f)",
    {"x": f32([0.5, 1.5, 2.5, 0])},
    "float h = {0.5}",
)
hard(
    "selection",
    "cast_by_floor",
    "(float[n,4] x) => (int64[n,4] y)",
    "y = Cast <to = 7> (x)",
    "f = Floor (x) y = Cast <to = 7> (f)",
    {"x": f32([-0.5, 1.5, 2.5, 0])},
)
hard(
    "selection",
    "round_after_a_scale",
    "(float[n,4] x) => (int32[n,4] y)",
    "s = Mul (x, c) r = Round (s) y = Cast <to = 6> (r)",
    "s = Mul (x, c) a = Add (s, h) f = Floor (a) y = Cast <to = 6> (f)",
    {"x": f32([2, 6, 10, 0])},
    "float c = {0.25}, float h = {0.5}",
)
hard(
    "selection",
    "round_after_a_sum_of_halves",
    "(float[n,4] x) => (float[n] y)",
    "s = ReduceSum <keepdims = 0> (x, one) y = Round (s)",
    "s = ReduceSum <keepdims = 0> (x, one) a = Add (s, h) y = Floor (a)",
    {"x": f32([0.5, 1, 1, 0])},
    "float h = {0.5}, int64[1] one = {1}",
)
hard(
    "selection",
    "argmax_through_half",
    "(float[n,4] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "h = Cast <to = 10> (x) g = Cast <to = 1> (h) y = ArgMax <axis = 1> (g)",
    {"x": f32([1.0, 1.0001, 0, 0])},
)
hard(
    "selection",
    "top_k_through_half",
    "(float[n,4] x) => (int64[n,2] y)",
    "v, y = TopK <axis = 1> (x, k)",
    "h = Cast <to = 10> (x) g = Cast <to = 1> (h) v, y = TopK <axis = 1> (g, k)",
    {"x": f32([1.0, 1.0001, 0, 0])},
    "int64[1] k = {2}",
)
hard(
    "selection",
    "greater_through_half",
    "(float[n,4] x, float[n,4] z) => (bool[n,4] y)",
    "y = Greater (x, z)",
    "h = Cast <to = 10> (x) i = Cast <to = 10> (z) a = Cast <to = 1> (h) b = Cast <to = 1> (i) y = Greater (a, b)",
    {"x": f32([1.0001, 0, 0, 0]), "z": f32([1, 0, 0, 0])},
)
hard(
    "selection",
    "equal_through_half",
    "(float[n,4] x, float[n,4] z) => (bool[n,4] y)",
    "y = Equal (x, z)",
    "h = Cast <to = 10> (x) i = Cast <to = 10> (z) a = Cast <to = 1> (h) b = Cast <to = 1> (i) y = Equal (a, b)",
    {"x": f32([1.0001, 0, 0, 0]), "z": f32([1, 0, 0, 0])},
)
hard(
    "selection",
    "equal_of_doubles_through_float",
    "(double[n,4] x, double[n,4] z) => (bool[n,4] y)",
    "y = Equal (x, z)",
    "h = Cast <to = 1> (x) i = Cast <to = 1> (z) y = Equal (h, i)",
    {"x": np.array([[1 + 1e-12, 0, 0, 0]]), "z": np.array([[1.0, 0, 0, 0]])},
)
hard(
    "selection",
    "max_pool_indices_through_half",
    "(float[1,1,1,4] x) => (float[1,1,1,3] v, int64[1,1,1,3] y)",
    "v, y = MaxPool <kernel_shape = [1, 2]> (x)",
    "h = Cast <to = 10> (x) g = Cast <to = 1> (h) w, y = MaxPool <kernel_shape = [1, 2]> (g)"
    " v = MaxPool <kernel_shape = [1, 2]> (x)",
    {"x": f32([[[1.0, 1.0001, 0, 0]]])},
)
hard(
    "selection",
    "hardmax_through_half",
    X,
    "y = Hardmax <axis = 1> (x)",
    "h = Cast <to = 10> (x) i = Cast <to = 1> (h) y = Hardmax <axis = 1> (i)",
    {"x": f32([1.0, 1.0001, 0, 0])},
)
hard(
    "selection",
    "unique_through_half",
    "(float[n] x) => (float[m] y)",
    "y = Unique (x)",
    "h = Cast <to = 10> (x) i = Cast <to = 1> (h) y = Unique (i)",
    {"x": f32(1.0, 1.0001, 0, 0)},
)
hard(
    "selection",
    "argmax_of_logits_moved",
    "(float[n,4] x) => (int64[n] y)",
    "m = MatMul (x, w) y = ArgMax <axis = 1, keepdims = 0> (m)",
    "m = MatMul (x, w) y = ArgMax <axis = 1, keepdims = 0, select_last_index = 1> (m)",
    {"x": f32([1, 3, 2, 3])},
    "float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}",
)
hard(
    "selection",
    "quantize_rounds_half_up",
    "(float[n,4] x) => (uint8[n,4] y)",
    "y = QuantizeLinear (x, s, p)",
    "d = Div (x, s) a = Add (d, h) f = Floor (a) b = Add (f, q) c = Clip (b, zero, most) y = Cast <to = 2> (c)",
    {"x": f32([0.25, 0.75, 1.25, 0])},
    "float s = {0.5}, uint8 p = {3}, float q = {3}, float h = {0.5}, float zero = {0}, float most = {255}",
)
hard(
    "selection",
    "clip_then_cast",
    "(float[n,4] x) => (uint8[n,4] y)",
    "c = Clip (x, zero, most) y = Cast <to = 2> (c)",
    "c = Clip (x, zero, more) y = Cast <to = 2> (c)",
    {"x": f32([255, 300, 1, 0])},
    "float zero = {0}, float most = {255}, float more = {254}",
)
NMS = "(float[1,n,4] b, float[1,1,n] s) => (int64[m,3] y)"
BOXES = {"b": f32([[0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 5, 1, 6]]), "s": f32([[0.9, 0.8, 0.7]])}
hard(
    "boxes",
    "nms_another_iou_threshold",
    NMS,
    "y = NonMaxSuppression (b, s, k, i, t)",
    "y = NonMaxSuppression (b, s, k, j, t)",
    BOXES,
    "int64 k = {10}, float i = {0.3}, float j = {0.5}, float t = {0.1}",
)
hard(
    "boxes",
    "nms_another_score_threshold",
    NMS,
    "y = NonMaxSuppression (b, s, k, i, t)",
    "y = NonMaxSuppression (b, s, k, i, u)",
    BOXES,
    "int64 k = {10}, float i = {0.5}, float t = {0.1}, float u = {0.85}",
)
hard(
    "boxes",
    "nms_score_threshold_lost",
    NMS,
    "y = NonMaxSuppression (b, s, k, i, t)",
    "y = NonMaxSuppression (b, s, k, i)",
    {**BOXES, "s": f32([[0.9, 0.8, 0.2]])},
    "int64 k = {10}, float i = {0.5}, float t = {0.25}",
)
hard(
    "boxes",
    "nms_center_of_boxes",
    NMS,
    "y = NonMaxSuppression (b, s, k, i)",
    "y = NonMaxSuppression <center_point_box = 1> (b, s, k, i)",
    {"b": f32([[0, 0, 4, 4], [0, 2.5, 4, 6.5], [9, 9, 10, 10]]), "s": f32([[0.9, 0.8, 0.7]])},
    "int64 k = {10}, float i = {0.25}",
)
hard(
    "boxes",
    "nms_fewer_boxes",
    NMS,
    "y = NonMaxSuppression (b, s, k, i)",
    "y = NonMaxSuppression (b, s, l, i)",
    {
        "b": f32([[0, at, 1, at + 1] for at in range(0, 60, 5)]),
        "s": np.linspace(1, 0.1, 12, dtype=np.float32).reshape(1, 1, 12),
    },
    "int64 k = {10}, int64 l = {9}, float i = {0.5}",
)
hard(
    "boxes",
    "nms_through_half",
    NMS,
    "y = NonMaxSuppression (b, s, k, i)",
    "h = Cast <to = 10> (s) g = Cast <to = 1> (h) y = NonMaxSuppression (b, g, k, i)",
    {"b": f32([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 5, 1, 6]]), "s": f32([[0.80001, 0.80002, 0.7]])},
    "int64 k = {10}, float i = {0.5}",
)
hard(
    "boxes",
    "nms_threshold_a_little_other",
    NMS,
    "y = NonMaxSuppression (b, s, k, i)",
    "y = NonMaxSuppression (b, s, k, j)",
    {"b": f32([[0, 0, 1, 1], [0, 0.3335, 1, 1.3335], [0, 5, 1, 6]]), "s": f32([[0.9, 0.8, 0.7]])},
    "int64 k = {10}, float i = {0.499}, float j = {0.5005}",
)

# --- near ties and thresholds ---

hard(
    "near tie",
    "greater_or_equal_at_a_constant",
    "(float[n,4] x) => (bool[n,4] y)",
    "y = Greater (x, c)",
    "y = GreaterOrEqual (x, c)",
    {"x": f32([0.7, 0, 1, 2])},
    "float c = {0.7}",
)
hard(
    "near tie",
    "threshold_a_little_larger",
    "(float[n,4] x) => (bool[n,4] y)",
    "y = Greater (x, c)",
    "y = Greater (x, d)",
    {"x": f32([0.70003, 0, 1, 2])},
    "float c = {0.7}, float d = {0.70005}",
)
hard(
    "near tie",
    "threshold_of_a_sigmoid",
    "(float[n,4] x) => (bool[n,4] y)",
    "s = Sigmoid (x) y = Greater (s, c)",
    "s = Sigmoid (x) y = Greater (s, d)",
    {"x": f32([0.02, 0, 1, 2])},
    "float c = {0.5}, float d = {0.51}",
)
hard(
    "near tie",
    "threshold_of_a_tanh",
    "(float[n,4] x) => (float[n,4] y)",
    "s = Tanh (x) g = Greater (s, c) y = Where (g, x, zero)",
    "s = Tanh (x) g = Greater (s, d) y = Where (g, x, zero)",
    {"x": f32([1.11, 0, 1, 2])},
    "float c = {0.8}, float d = {0.81}, float zero = {0}",
)
hard(
    "near tie",
    "threshold_of_an_exp",
    "(float[n,4] x) => (bool[n,4] y)",
    "s = Exp (x) y = Less (s, c)",
    "s = Exp (x) y = Less (s, d)",
    {"x": f32([4.607, 0, 1, 2])},
    "float c = {100}, float d = {101}",
)
hard(
    "near tie",
    "threshold_of_a_square",
    "(float[n,4] x) => (bool[n,4] y)",
    "s = Mul (x, x) y = Less (s, c)",
    "s = Mul (x, x) y = LessOrEqual (s, c)",
    {"x": f32([3, 0, 1, 2])},
    "float c = {9}",
)
hard(
    "near tie",
    "threshold_of_a_square_root",
    "(float[n,4] x) => (bool[n,4] y)",
    "s = Sqrt (x) y = Less (s, c)",
    "s = Sqrt (x) y = Less (s, d)",
    {"x": f32([144.5, 0, 1, 2])},
    "float c = {12}, float d = {12.05}",
)
hard(
    "near tie",
    "clip_at_a_distant_bound",
    X,
    "y = Clip (x, a, b)",
    "y = Clip (x, a, c)",
    {"x": f32([1e5, 0, 1, 2])},
    "float a = {0}, float b = {65504}, float c = {65500}",
)
hard(
    "near tie",
    "min_at_a_distant_bound",
    X,
    "y = Min (x, b)",
    "y = Min (x, c)",
    {"x": f32([1e9, 0, 1, 2])},
    "float b = {12345.5}, float c = {12345}",
)
hard(
    "near tie",
    "clip_of_a_scaled_value",
    X,
    "s = Mul (x, k) y = Clip (s, a, b)",
    "s = Mul (x, k) y = Clip (s, a, c)",
    {"x": f32([1000, 0, 1, 2])},
    "float k = {0.01}, float a = {0}, float b = {6}, float c = {6.01}",
)
hard(
    "near tie",
    "leaky_slope_of_one_sign",
    X,
    "y = LeakyRelu <alpha = 0.01> (x)",
    "y = LeakyRelu <alpha = 0.0101> (x)",
    {"x": f32([-1000, 0, 1, 2])},
)
hard(
    "near tie",
    "mod_by_a_constant",
    "(int64[n,4] x) => (int64[n,4] y)",
    "y = Mod (x, c)",
    "y = Mod <fmod = 1> (x, c)",
    {"x": i64([-5, 0, 1, 7])},
    "int64 c = {7}",
)
hard(
    "near tie",
    "equal_to_a_distant_constant",
    "(int64[n,4] x) => (bool[n,4] y)",
    "y = Equal (x, c)",
    "y = Equal (x, d)",
    {"x": i64([50256, 0, 1, 7])},
    "int64 c = {50256}, int64 d = {50257}",
)
hard(
    "near tie",
    "bucket_bounds",
    "(float[n,1] x) => (int64[n] y)",
    "g = GreaterOrEqual (x, c) i = Cast <to = 7> (g) y = ReduceSum <keepdims = 0> (i, one)",
    "g = GreaterOrEqual (x, d) i = Cast <to = 7> (g) y = ReduceSum <keepdims = 0> (i, one)",
    {"x": f32([400.5])},
    "float[4] c = {1, 20, 400, 8000}, float[4] d = {1, 20, 401, 8000}, int64[1] one = {1}",
)
hard(
    "near tie",
    "not_equal_but_near",
    "(float[n,4] x) => (bool[n,4] y)",
    "y = Equal (x, c)",
    "d = Sub (x, c) a = Abs (d) y = Less (a, e)",
    {"x": f32([0.70003, 0, 1, 2])},
    "float c = {0.7}, float e = {0.0001}",
)
hard(
    "near tie",
    "sorted_values_through_half",
    "(float[n] x) => (float[m] y)",
    "y, i = TopK <axis = 0> (x, k)",
    "h = Cast <to = 10> (x) g = Cast <to = 1> (h) v, i = TopK <axis = 0> (g, k) y = Gather (x, i)",
    {"x": f32(1.0, 1.0001, 0.5)},
    "int64[1] k = {1}",
)

# --- long axes ---

hard(
    "long axis",
    "slice_end_of_an_exporter",
    "(float[n] x) => (float[m] y)",
    "y = Slice (x, a, e)",
    "y = Slice (x, a, f)",
    {"x": np.arange(1200, dtype=np.float32)},
    "int64[1] a = {1}, int64[1] e = {9223372036854775807}, int64[1] f = {1000}",
)
hard(
    "long axis",
    "slice_end_just_beyond",
    "(float[n] x) => (float[m] y)",
    "y = Slice (x, a, e)",
    "y = Slice (x, a, f)",
    {"x": np.arange(300, dtype=np.float32)},
    "int64[1] a = {0}, int64[1] e = {255}, int64[1] f = {256}",
)
hard(
    "long axis",
    "positions_end",
    "(float[n,2] x) => (float[n,2] y)",
    "s = Shape <start = 0, end = 1> (x) p = Slice (table, zero, s) y = Add (x, p)",
    "s = Shape <start = 0, end = 1> (x) p = Slice (other, zero, s) y = Add (x, p)",
    {"x": np.zeros((40, 2), np.float32)},
    "int64[1] zero = {0}, float[40,1] table = {"
    + ",".join(map(str, range(40)))
    + "}, float[40,1] other = {"
    + ",".join([*map(str, range(39)), "38"])
    + "}",
)
hard(
    "long axis",
    "top_k_of_a_hundred",
    "(float[n] x) => (float[m] y)",
    "s = Shape (x) k = Min (s, c) y, i = TopK <axis = 0> (x, k)",
    "s = Shape (x) k = Min (s, d) y, i = TopK <axis = 0> (x, k)",
    {"x": np.arange(400, dtype=np.float32)},
    "int64[1] c = {300}, int64[1] d = {200}",
)
hard(
    "long axis",
    "chunk_of_a_long_axis",
    "(float[n] x) => (float[n] y)",
    "s = Shape (x) z = ConstantOfShape (s) y = Add (x, z)",
    "s = Shape (x) a = Slice (x, zero, cut) b = Slice (x, cut, far) c = Mul (b, two) y = Concat <axis = 0> (a, c)",
    {"x": np.arange(1, 600, dtype=np.float32)},
    "int64[1] zero = {0}, int64[1] cut = {512}, int64[1] far = {100000}, float two = {2}",
)
hard(
    "long axis",
    "indices_of_eight_bits",
    "(float[n] x) => (int64[m] y)",
    "y = ArgMax <axis = 0> (x)",
    "i = ArgMax <axis = 0> (x) c = Cast <to = 2> (i) y = Cast <to = 7> (c)",
    {"x": np.arange(300, dtype=np.float32)},
)
hard(
    "long axis",
    "argmax_of_eight_bits_along_rows",
    "(float[n,m] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "i = ArgMax <axis = 1> (x) c = Cast <to = 2> (i) y = Cast <to = 7> (c)",
    {"x": np.arange(600, dtype=np.float32).reshape(2, 300)},
)

# --- small magnitudes ---

hard(
    "small",
    "epsilon_of_a_norm",
    "(float[n,4] x) => (float[n,4] y)",
    "y = LayerNormalization <epsilon = 1e-5> (x, s)",
    "y = LayerNormalization <epsilon = 1e-6> (x, s)",
    {"x": f32([0.001, 0.002, 0.003, 0.001])},
    "float[4] s = {1, 1, 1, 1}",
)
hard(
    "small",
    "epsilon_of_a_norm_by_hand",
    "(float[n,4] x) => (float[n,4] y)",
    "p = Mul (x, x) m = ReduceMean <axes = [1]> (p) e = Add (m, c) r = Sqrt (e) y = Div (x, r)",
    "p = Mul (x, x) m = ReduceMean <axes = [1]> (p) e = Add (m, d) r = Sqrt (e) y = Div (x, r)",
    {"x": f32([0.001, 0.002, 0.003, 0.001])},
    "float c = {1e-6}, float d = {1e-8}",
)
hard(
    "small",
    "tiny_epsilon_of_a_norm_by_hand",
    "(float[n,4] x) => (float[n,4] y)",
    "p = Mul (x, x) m = ReduceSum (p, one) r = Sqrt (m) e = Max (r, c) y = Div (x, e)",
    "p = Mul (x, x) m = ReduceSum (p, one) r = Sqrt (m) e = Max (r, d) y = Div (x, e)",
    {"x": f32([1e-9, 2e-9, 0, 0])},
    "float c = {1e-8}, float d = {1e-12}, int64[1] one = {1}",
)
hard(
    "small",
    "epsilon_in_a_quotient",
    "(float[n,4] x, float[n,4] z) => (float[n,4] y)",
    "d = Add (z, c) y = Div (x, d)",
    "y = Div (x, z)",
    {"x": f32([1, 2, 3, 4]), "z": f32([1e-3, 1e-4, 1e-5, 1e-6])},
    "float c = {1e-6}",
)
hard(
    "small",
    "epsilon_in_a_logarithm",
    "(float[n,4] x) => (float[n,4] y)",
    "a = Abs (x) d = Add (a, c) y = Log (d)",
    "a = Abs (x) d = Add (a, e) y = Log (d)",
    {"x": f32([1e-5, 0, 1e-7, 1])},
    "float c = {1e-6}, float e = {1e-7}",
)
hard(
    "small",
    "a_small_instance_norm",
    "(float[n,2,4] x) => (float[n,2,4] y)",
    "y = InstanceNormalization <epsilon = 1e-5> (x, s, b)",
    "y = InstanceNormalization <epsilon = 1e-3> (x, s, b)",
    {"x": f32([[0.01, 0.02, 0.03, 0.01], [0.01, 0.05, 0.03, 0.01]])},
    "float[2] s = {1, 1}, float[2] b = {0, 0}",
)
hard(
    "small",
    "epsilon_of_a_batch_norm",
    "(float[n,2] x) => (float[n,2] y)",
    "y = BatchNormalization <epsilon = 1e-5> (x, s, b, m, v)",
    "y = BatchNormalization <epsilon = 1e-3> (x, s, b, m, v)",
    {"x": f32([1, 2])},
    "float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {0.01, 1}",
)
hard(
    "small",
    "expm1_of_small_numbers",
    X,
    "y = Elu (x)",
    "b = Less (x, zero) e = Exp (x) d = Floor (e) f = Where (b, x, x) y = Elu <alpha = 1.001> (f)",
    {"x": f32([-1e-3, -1, 1, 2])},
    "float zero = {0}",
)
hard(
    "small",
    "a_half_flushed_to_zero",
    X,
    "y = Mul (x, c)",
    "h = Cast <to = 10> (x) g = Cast <to = 1> (h) y = Mul (g, c)",
    {"x": f32([1e-9, 0, 1, 2])},
    "float c = {1e9}",
)

# --- flags, scales and modes that are inputs ---

hard(
    "input",
    "training_flag",
    "(float[n,4] x, bool t) => (float[n,4] y)",
    "y = Dropout (x, zero, t)",
    "d = Dropout (x, zero, t) m = Mul (d, two) y = Where (t, m, d)",
    {"x": ROW, "t": np.array(True)},
    "float zero = {0}, float two = {2}",
)
hard(
    "input",
    "a_flag_that_is_an_input",
    "(float[n,4] x, bool t) => (float[n,4] y)",
    "a = Relu (x) y = Where (t, a, x)",
    "y = Relu (x)",
    {"x": f32([-1, 2, 3, 4]), "t": np.array(False)},
)
hard(
    "input",
    "scales_of_a_resize",
    "(float[1,1,n,n] x, float[4] s) => (float[1,1,a,b] y)",
    'y = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , s)',
    'y = Resize <mode = "nearest", nearest_mode = "ceil", coordinate_transformation_mode = "asymmetric"> (x, , s)',
    {"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), "s": np.array([1, 1, 2, 2], np.float32)},
)
hard(
    "input",
    "sizes_of_a_resize",
    "(float[1,1,n,n] x, int64[4] s) => (float[1,1,a,b] y)",
    'y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , , s)',
    'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , , s)',
    {"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), "s": np.array([1, 1, 7, 7], np.int64)},
)
hard(
    "input",
    "the_axis_of_a_cumsum",
    "(float[n,4] x, int32 a) => (float[n,4] y)",
    "y = CumSum (x, a)",
    "y = CumSum <exclusive = 1> (x, a)",
    {"x": ROW, "a": np.array(1, np.int32)},
)
hard(
    "input",
    "k_of_a_trilu",
    "(float[n,n] x, int64 k) => (float[n,n] y)",
    "y = Trilu (x, k)",
    "y = Trilu <upper = 0> (x, k)",
    {"x": np.ones((3, 3), np.float32), "k": np.array(1)},
)
hard(
    "input",
    "k_of_a_trilu_off_by_one",
    "(float[n,n] x, int64 k) => (float[n,n] y)",
    "y = Trilu (x, k)",
    "m = Max (k, zero) y = Trilu (x, m)",
    {"x": np.ones((3, 3), np.float32), "k": np.array(-1)},
    "int64 zero = {0}",
)
hard(
    "input",
    "the_exponent_of_a_power",
    "(float[n,4] x, float p) => (float[n,4] y)",
    "y = Pow (x, p)",
    "a = Abs (x) y = Pow (a, p)",
    {"x": f32([-2, 1, 2, 3]), "p": np.array(3, np.float32)},
)
hard(
    "input",
    "the_ratio_of_a_slope",
    "(float[n,4] x, float[4] p) => (float[n,4] y)",
    "y = PRelu (x, p)",
    "m = Max (p, zero) y = PRelu (x, m)",
    {"x": f32([-2, 1, 2, 3]), "p": f32(-1, 0, 1, 1)},
    "float zero = {0}",
)
hard(
    "input",
    "a_zero_point_that_is_an_input",
    "(float[n,4] x, float s, uint8 z) => (uint8[n,4] y)",
    "y = QuantizeLinear (x, s, z)",
    "y = QuantizeLinear (x, s)",
    {"x": ROW, "s": np.array(0.5, np.float32), "z": np.array(3, np.uint8)},
)
hard(
    "input",
    "a_reduction_axis_that_is_an_input",
    "(float[n,4] x, int64[1] a) => (float[p,q] y)",
    "y = ReduceSum (x, a)",
    "y = ReduceSum <noop_with_empty_axes = 1> (x, b)",
    {"x": np.ones((3, 4), np.float32), "a": i64(0)},
    "int64[1] b = {1}",
)
hard(
    "input",
    "pads_that_are_an_input",
    "(float[n,4] x, int64[4] p) => (float[a,b] y)",
    "y = Pad (x, p)",
    'y = Pad <mode = "edge"> (x, p)',
    {"x": ROW, "p": i64(0, 1, 0, 1)},
)
hard(
    "input",
    "a_fill_value_that_is_an_input",
    "(float[n,4] x, float c) => (float[a,b] y)",
    "y = Pad (x, p, c)",
    "y = Pad (x, p)",
    {"x": ROW, "c": np.array(3, np.float32)},
    "int64[4] p = {0, 1, 0, 1}",
)
hard(
    "input",
    "steps_that_are_an_input",
    "(float[n] x, int64[1] s) => (float[m] y)",
    "y = Slice (x, a, e, z, s)",
    "t = Min (s, one) u = Max (t, one) y = Slice (x, a, e, z, u)",
    {"x": np.arange(9, dtype=np.float32), "s": i64(2)},
    "int64[1] a = {0}, int64[1] e = {100}, int64[1] z = {0}, int64[1] one = {1}",
)
hard(
    "input",
    "thresholds_that_are_inputs",
    "(float[1,n,4] b, float[1,1,n] s, float i) => (int64[m,3] y)",
    "y = NonMaxSuppression (b, s, k, i)",
    "y = NonMaxSuppression (b, s, k, h)",
    {
        "b": f32([[0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 5, 1, 6]]),
        "s": f32([[0.9, 0.8, 0.7]]),
        "i": np.array(0.25, np.float32),
    },
    "int64 k = {10}, float h = {0.5}",
)

# --- strings ---

S = "(string[n] x) => (bool[n] y)"
T = "(string[n] x) => (string[n,m] y, int64[n] c)"


def words(*values: str) -> Any:
    """Return strings."""
    return np.array(values, np.object_)


hard(
    "string",
    "another_pattern",
    S,
    'y = RegexFullMatch <pattern = "[a-z]+[0-9]+"> (x)',
    'y = RegexFullMatch <pattern = "[a-z]+[0-9]*"> (x)',
    {"x": words("abc", "ab1")},
    opset=20,
)
hard(
    "string",
    "a_pattern_of_an_address",
    S,
    'y = RegexFullMatch <pattern = "www.[a-z]+.com"> (x)',
    'y = RegexFullMatch <pattern = "www[.][a-z]+.com"> (x)',
    {"x": words("wwwxab.com", "www.ab.com")},
    opset=20,
)
hard(
    "string",
    "another_delimiter",
    T,
    'y, c = StringSplit <delimiter = "::"> (x)',
    'y, c = StringSplit <delimiter = ":"> (x)',
    {"x": words("a::b", "a:b")},
    opset=20,
)
hard(
    "string",
    "fewer_splits",
    T,
    'y, c = StringSplit <delimiter = ";", maxsplit = 3> (x)',
    'y, c = StringSplit <delimiter = ";", maxsplit = 2> (x)',
    {"x": words("a;b;c;d;e", "a")},
    opset=20,
)
hard(
    "string",
    "no_delimiter",
    T,
    "y, c = StringSplit (x)",
    'y, c = StringSplit <delimiter = " "> (x)',
    {"x": words(" a  b", "a b")},
    opset=20,
)
hard(
    "string",
    "compared_to_a_word",
    S,
    "y = Equal (x, w)",
    "y = Equal (x, v)",
    {"x": words("magic", "a")},
    'string w = {"magic"}, string v = {"magik"}',
    opset=19,
)
hard(
    "string",
    "a_number_in_words",
    "(string[n] x) => (float[n] y)",
    "y = Cast <to = 1> (x)",
    "f = Cast <to = 1> (x) y = Round (f)",
    {"x": words("1.5", "2")},
    opset=19,
)
hard(
    "string",
    "a_key_of_an_encoder",
    "(string[n] x) => (int64[n] y)",
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [4, 5], default_int64 = -1> (x)',
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dig"], values_int64s = [4, 5], default_int64 = -1> (x)',
    {"x": words("dog", "cat")},
)
hard(
    "string",
    "a_term_of_a_vocabulary",
    "(string[n] x) => (float[3] y)",
    'y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0, 1, 2], pool_strings = ["red", "green", "blue"]> (x)',
    'y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0, 1, 2], pool_strings = ["red", "green", "black"]> (x)',
    {"x": words("blue", "red")},
)

# --- labels ---

LOSS = "(float[n,5] x, int64[n] t) => (float y)"
LABELS = {"x": np.arange(15, dtype=np.float32).reshape(3, 5) % 4, "t": i64(3, 1, 2)}
hard(
    "label",
    "ignored_label_lost",
    LOSS,
    "y = SoftmaxCrossEntropyLoss <ignore_index = 3> (x, t)",
    "y = SoftmaxCrossEntropyLoss (x, t)",
    LABELS,
)
hard(
    "label",
    "labels_outside_ignored",
    LOSS,
    "y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x, t)",
    "z = Max (t, zero) y = SoftmaxCrossEntropyLoss (x, z)",
    {**LABELS, "t": i64(3, 1, -100)},
    "int64 zero = {0}",
)
hard(
    "label",
    "labels_ignored_by_a_likelihood",
    LOSS,
    "y = NegativeLogLikelihoodLoss <ignore_index = 255> (x, t)",
    "m = Min (t, four) y = NegativeLogLikelihoodLoss (x, m)",
    {**LABELS, "t": i64(3, 1, 255)},
    "int64 four = {4}",
)
hard(
    "label",
    "weights_of_ignored_labels",
    "(float[n,5] x, int64[n] t) => (float y)",
    "y = NegativeLogLikelihoodLoss <ignore_index = 2> (x, t, w)",
    "y = NegativeLogLikelihoodLoss <ignore_index = 3> (x, t, w)",
    LABELS,
    "float[5] w = {1, 2, 3, 4, 5}",
)

# --- tables ---

ROWS = ",".join(str(at % 7) for at in range(120))
OTHER = ",".join(str(at % 7 + (at == 87) * 0.01) for at in range(120))
hard(
    "table",
    "one_row_of_a_table",
    "(int64[n] i) => (float[n,3] y)",
    "y = Gather (t, i)",
    "y = Gather (u, i)",
    {"i": i64(29, 1)},
    f"float[40,3] t = {{{ROWS}}}, float[40,3] u = {{{OTHER}}}",
)
hard(
    "table",
    "one_row_of_a_table_before_a_norm",
    "(int64[n] i) => (float[n,3] y)",
    "g = Gather (t, i) y = LayerNormalization (g, s)",
    "g = Gather (u, i) y = LayerNormalization (g, s)",
    {"i": i64(29, 1)},
    f"float[40,3] t = {{{ROWS}}}, float[40,3] u = {{{OTHER}}}, float[3] s = {{1, 1, 1}}",
)
hard(
    "table",
    "rows_shifted_at_the_end",
    "(int64[n] i) => (float[n,3] y)",
    "y = Gather (t, i)",
    "m = Min (i, c) y = Gather (t, m)",
    {"i": i64(39, 1)},
    f"float[40,3] t = {{{ROWS}}}, int64 c = {{38}}",
)
hard(
    "table",
    "a_table_of_few_columns",
    "(int64[n,1] i) => (float[n] y)",
    "y = GatherND (t, i)",
    "y = GatherND (u, i)",
    {"i": i64([87], [1])},
    f"float[120] t = {{{ROWS}}}, float[120] u = {{{OTHER}}}",
)
hard(
    "table",
    "a_table_by_one_hot",
    "(int64[n] i) => (float[n,3] y)",
    "o = OneHot <axis = -1> (i, d, v) y = MatMul (o, t)",
    "o = OneHot <axis = -1> (i, d, v) y = MatMul (o, u)",
    {"i": i64(29, 1)},
    f"int64 d = {{40}}, float[2] v = {{0, 1}}, float[40,3] t = {{{ROWS}}}, float[40,3] u = {{{OTHER}}}",
)
hard(
    "table",
    "a_table_behind_a_shift",
    "(int64[n] i) => (float[n,3] y)",
    "k = Add (i, c) y = Gather (t, k)",
    "k = Add (i, c) y = Gather (u, k)",
    {"i": i64(27, 1)},
    f"int64 c = {{2}}, float[40,3] t = {{{ROWS}}}, float[40,3] u = {{{OTHER}}}",
)
hard(
    "table",
    "a_table_of_bytes",
    "(uint8[n] x) => (float[n] y)",
    "i = Cast <to = 6> (x) y = Gather (t, i)",
    "i = Cast <to = 6> (x) y = Gather (u, i)",
    {"x": np.array([201], np.uint8)},
    "float[256] t = {"
    + ",".join(map(str, range(256)))
    + "}, float[256] u = {"
    + ",".join(str(at + (at == 201)) for at in range(256))
    + "}",
)
hard(
    "table",
    "weights_of_a_category",
    "(int64[n] x) => (float[n,3] y)",
    "c = Clip (x, lo, hi) y = Gather (t, c)",
    "c = Clip (x, lo, less) y = Gather (t, c)",
    {"x": i64(39, 1)},
    f"int64 lo = {{0}}, int64 hi = {{39}}, int64 less = {{38}}, float[40,3] t = {{{ROWS}}}",
)
