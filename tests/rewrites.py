"""Models and rewrites of them, wrong and right, each written from the meaning of the operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter
from onnx.parser import parse_model

INF = float("inf")
NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """A model, what is said to compute the same, and an input that shows that it does or does not.

    `shapes` is what `--input-shape` gives; `runs` is False where onnxruntime cannot take the witness or the model.
    """

    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    witness: Mapping[str, Any] | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    runs: bool = True


WRONG: dict[str, Rewrite] = {}
RIGHT: dict[str, Rewrite] = {}
_witness: Any


def model(graph: str, opset: int = 17, ml: bool = False, functions: str = "") -> onnx.ModelProto:
    """Parse a graph, with the oldest ir_version that takes it."""
    ir = 13 if opset > 26 else 11 if opset > 21 else 10 if opset > 20 else 8 if opset > 14 else 7
    domains = f'"": {opset}' + (', "ai.onnx.ml": 3' if ml else "") + (', "own": 1' if functions else "")
    return parse_model(f"<ir_version: {ir}, opset_import: [{domains}]> {graph} {functions}")


def both(signature: str, before: str, after: str, weights: str = "", opset: int = 17, ml: bool = False) -> Rewrite:
    """Two bodies under one signature; each sees all the weights."""
    held = f"<{weights}>" if weights else ""
    original, rewritten = (model(f"g {signature} {held} {{ {body} }}", opset, ml) for body in (before, after))
    return Rewrite(original, rewritten)


def wrong(
    name: str,
    signature: str,
    before: str,
    after: str,
    witness: Mapping[str, Any] | None,
    weights: str = "",
    opset: int = 17,
    ml: bool = False,
    **more: Any,
) -> None:
    """Note a rewrite that computes something else."""
    assert name not in WRONG, name
    WRONG[name] = dataclasses.replace(both(signature, before, after, weights, opset, ml), witness=witness, **more)


def right(
    name: str,
    signature: str,
    before: str,
    after: str,
    witness: Mapping[str, Any] | None = None,
    weights: str = "",
    opset: int = 17,
    ml: bool = False,
    **more: Any,
) -> None:
    """Note a rewrite that computes the same."""
    assert name not in RIGHT, name
    RIGHT[name] = dataclasses.replace(both(signature, before, after, weights, opset, ml), witness=witness, **more)


def wrong_models(name: str, original: onnx.ModelProto, rewritten: onnx.ModelProto, witness: Any, **more: Any) -> None:
    """Note a wrong rewrite given as two models."""
    assert name not in WRONG, name
    WRONG[name] = Rewrite(original, rewritten, witness, **more)


def right_models(name: str, original: onnx.ModelProto, rewritten: onnx.ModelProto, witness: Any, **more: Any) -> None:
    """Note a right rewrite given as two models."""
    assert name not in RIGHT, name
    RIGHT[name] = Rewrite(original, rewritten, witness, **more)


def restamped(graph: str, old: int, new: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """One graph under two opset numbers."""
    return model(graph, old), model(graph, new)


def converted(graph: str, old: int, new: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a graph, and what onnx's converter makes of it."""
    original = model(graph, old)
    return original, version_converter.convert_version(original, new)


def filled(weights: Mapping[str, Any], original: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with these arrays as initializers."""
    copied = onnx.ModelProto()
    copied.CopyFrom(original)
    for name, value in weights.items():
        copied.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return copied


def reworded(original: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same with an Identity after its first input, so that the bytes are others."""
    copied = onnx.ModelProto()
    copied.CopyFrom(original)
    name = copied.graph.input[0].name
    for node in copied.graph.node:
        for place, each in enumerate(node.input):
            if each == name:
                node.input[place] = f"{name} again"
    copied.graph.node.insert(0, helper.make_node("Identity", [name], [f"{name} again"]))
    return copied


# Wrong: what other tools write.

RAMP = np.arange(24, dtype=np.float32).reshape(2, 3, 4).tolist()

wrong_models(
    "converter_hardmax_12_to_13",
    *converted("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax <axis = 1> (x) }", 12, 13),
    {"x": RAMP},
)
wrong_models(
    "converter_hardmax_11_to_13_negative_axis",
    *converted("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax <axis = -2> (x) }", 11, 13),
    {"x": RAMP},
)
wrong_models(
    "restamped_hardmax_12_to_13_symbolic",
    *restamped("g (float[n,c,t] x) => (float[n,c,t] y) { y = Hardmax <axis = 1> (x) }", 12, 13),
    {"x": RAMP},
)
wrong_models(
    "restamped_hardmax_13_to_12_default_axis",
    *restamped("g (float[n,c,t] x) => (float[n,c,t] y) { y = Hardmax (x) }", 13, 12),
    {"x": RAMP},
)
wrong_models(
    "converter_softmax_13_to_12",
    *converted("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }", 13, 12),
    {"x": RAMP},
)
wrong_models(
    "restamped_logsoftmax_12_to_13",
    *restamped("g (float[n,3,4] x) => (float[n,3,4] y) { y = LogSoftmax <axis = 1> (x) }", 12, 13),
    {"x": RAMP},
)
wrong_models(
    "converter_resize_10_to_11_linear",
    *converted(
        'g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1,1,2,2}> { y = Resize <mode = "linear"> (x, s) }',
        10,
        11,
    ),
    {"x": [[[[1, 2], [3, 4]]]]},
)
wrong_models(
    "epsilon_of_batch_normalization_forgotten_with_small_variance",
    model(
        "g (float[n,2] x) => (float[n,2] y) <float[2] s = {1,2}, float[2] b = {0,1}, float[2] m = {0,0},"
        " float[2] v = {1e-4,2e-4}> { y = BatchNormalization (x, s, b, m, v) }",
        13,
    ),
    model(
        "g (float[n,2] x) => (float[n,2] y) <float[2] s = {1,2}, float[2] b = {0,1}, float[2] m = {0,0},"
        " float[2] v = {1e-4,2e-4}> { y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v) }",
        13,
    ),
    {"x": [[1, 2]]},
)

# Wrong: ties.

wrong(
    "argmax_last_of_ties",
    "(float[n,5] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "y = ArgMax <axis = 1, select_last_index = 1> (x)",
    {"x": [[1, 2, 2, 0, 2]]},
)
wrong(
    "argmin_last_of_ties_int32",
    "(int32[n,5] x) => (int64[n] y)",
    "y = ArgMin <axis = -1, keepdims = 0> (x)",
    "y = ArgMin <axis = -1, keepdims = 0, select_last_index = 1> (x)",
    {"x": [[1, 0, 2, 0, 2]]},
)
wrong(
    "argmax_by_flipping",
    "(float[n,5] x) => (int64[n] y)",
    "y = ArgMax <axis = 1, keepdims = 0> (x)",
    "r = Slice (x, last, low, one, back) i = ArgMax <axis = 1, keepdims = 0> (r) y = Sub (four, i)",
    {"x": [[1, 2, 2, 0, 2]]},
    "int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[1] one = {1}, int64[1] back = {-1},"
    " int64 four = {4}",
)
wrong(
    "hardmax_by_flipping",
    "(float[n,5] x) => (float[n,5] y)",
    "y = Hardmax <axis = 1> (x)",
    "r = Slice (x, last, low, one, back) h = Hardmax <axis = 1> (r) y = Slice (h, last, low, one, back)",
    {"x": [[1, 2, 2, 0, 2]]},
    "int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[1] one = {1}, int64[1] back = {-1}",
)
wrong(
    "hardmax_marks_all_ties",
    "(float[n,5] x) => (float[n,5] y)",
    "y = Hardmax <axis = 1> (x)",
    "m = ReduceMax <axes = [1]> (x) e = Equal (x, m) y = Cast <to = 1> (e)",
    {"x": [[1, 2, 2, 0, 2]]},
)
wrong(
    "argmax_ignores_negative_rows",
    "(float[n,5] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "r = Relu (x) y = ArgMax <axis = 1> (r)",
    {"x": [[-5, -4, -3, -2, -1]]},
)
wrong(
    "argmax_after_softmax_saturates",
    "(float[n,5] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "r = Softmax <axis = 1> (x) y = ArgMax <axis = 1> (r)",
    {"x": [[0, 1e-9, 0, 0, 0]]},
)
wrong(
    "argmax_of_int64_through_double",
    "(int64[n,3] x) => (int64[n,1] y)",
    "y = ArgMax <axis = 1> (x)",
    "d = Cast <to = 11> (x) y = ArgMax <axis = 1> (d)",
    {"x": [[9007199254740992, 9007199254740993, 0]]},
    opset=13,
)
wrong(
    "topk_orders_ties_from_the_back",
    "(float[n,4] x) => (int64[n,4] y)",
    "v, y = TopK <axis = 1> (x, four)",
    "r = Slice (x, last, low, one, last) v, i = TopK <axis = 1> (r, four) y = Sub (three, i)",
    {"x": [[1, 1, 2, 2]]},
    "int64[1] four = {4}, int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[1] one = {1},"
    " int64 three = {3}",
)
wrong(
    "one_hot_of_argmax_with_last_tie",
    "(float16[n,5] x) => (float16[n,5] y)",
    "i = ArgMax <axis = 1, keepdims = 0> (x) y = OneHot (i, five, values)",
    "i = ArgMax <axis = 1, keepdims = 0, select_last_index = 1> (x) y = OneHot (i, five, values)",
    {"x": [[1, 2, 2, 0, 2]]},
    "int64 five = {5}, float16[2] values = {0, 15360}",
)
# Wrong: the axis.

SQUARE = [[9, 5, 2], [7, 3, 8], [4, 1, 6]]
CUBE = [[[1, 2], [4, 3]], [[8, 5], [6, 7]]]

for _name, _signature, _before, _after, _witness in (
    (
        "hardmax",
        "(float[n,n,n] x) => (float[n,n,n] y)",
        "y = Hardmax <axis = 1> (x)",
        "y = Hardmax <axis = 2> (x)",
        CUBE,
    ),
    ("softmax", "(float[4,4] x) => (float[4,4] y)", "y = Softmax <axis = 0> (x)", "y = Softmax <axis = 1> (x)", None),
    (
        "argmax",
        "(float[n,n] x) => (int64[n] y)",
        "y = ArgMax <axis = 0, keepdims = 0> (x)",
        "y = ArgMax <axis = 1, keepdims = 0> (x)",
        SQUARE,
    ),
    (
        "argmin",
        "(int32[3,3] x) => (int64[3] y)",
        "y = ArgMin <axis = 0, keepdims = 0> (x)",
        "y = ArgMin <axis = 1, keepdims = 0> (x)",
        SQUARE,
    ),
    (
        "reduce_max",
        "(float[n,n] x) => (float[n] y)",
        "y = ReduceMax <axes = [0], keepdims = 0> (x)",
        "y = ReduceMax <axes = [1], keepdims = 0> (x)",
        SQUARE,
    ),
    (
        "reduce_mean",
        "(float[n,n] x) => (float[n] y)",
        "y = ReduceMean <axes = [0], keepdims = 0> (x)",
        "y = ReduceMean <axes = [1], keepdims = 0> (x)",
        SQUARE,
    ),
    (
        "lp_normalization",
        "(float[3,3] x) => (float[3,3] y)",
        "y = LpNormalization <axis = 0> (x)",
        "y = LpNormalization <axis = 1> (x)",
        SQUARE,
    ),
    ("transpose_dropped", "(float[n,n] x) => (float[n,n] y)", "y = Transpose (x)", "y = Identity (x)", SQUARE),
    (
        "permutation",
        "(float[2,2,2] x) => (float[2,2,2] y)",
        "y = Transpose <perm = [1,2,0]> (x)",
        "y = Transpose <perm = [2,0,1]> (x)",
        CUBE,
    ),
    (
        "reverse_sequence",
        "(float[2,2,2] x) => (float[2,2,2] y)",
        "l = Constant <value = int64[2] {1,2}> () y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, l)",
        "l = Constant <value = int64[2] {1,2}> () y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, l)",
        CUBE,
    ),
    (
        "concat_halves",
        "(float[2,2] x) => (float[4,2] y)",
        "t = Neg (x) y = Concat <axis = 0> (x, t)",
        "t = Neg (x) c = Concat <axis = 1> (x, t) s = Constant <value = int64[2] {4,2}> () y = Reshape (c, s)",
        [[1, 2], [3, 4]],
    ),
    (
        "einsum",
        "(float[n,n] x) => (float[n] y)",
        'y = Einsum <equation = "ij->i"> (x)',
        'y = Einsum <equation = "ij->j"> (x)',
        SQUARE,
    ),
):
    wrong(
        f"axis_of_{_name}",
        _signature,
        _before,
        _after,
        {"x": _witness if _witness else np.arange(16).reshape(4, 4).tolist()},
    )

for _name, _before, _after, _weights in (
    ("cumsum", "y = CumSum (x, zero)", "y = CumSum (x, one)", "int64 zero = {0}, int64 one = {1}"),
    (
        "flip",
        "y = Slice (x, last, low, zero, last)",
        "y = Slice (x, last, low, one, last)",
        "int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[1] zero = {0}, int64[1] one = {1}",
    ),
    ("gather", "y = Gather <axis = 0> (x, back)", "y = Gather <axis = 1> (x, back)", "int64[3] back = {2,0,1}"),
    (
        "gather_elements",
        "y = GatherElements <axis = 0> (x, back)",
        "y = GatherElements <axis = 1> (x, back)",
        "int64[3,3] back = {2,0,1,1,1,1,0,2,0}",
    ),
    (
        "scatter_elements",
        "y = ScatterElements <axis = 0> (x, back, x)",
        "y = ScatterElements <axis = 1> (x, back, x)",
        "int64[3,3] back = {2,0,1,1,1,0,0,2,2}",
    ),
    ("topk", "y, i = TopK <axis = 0> (x, three)", "y, i = TopK <axis = 1> (x, three)", "int64[1] three = {3}"),
    (
        "bias_broadcast",
        "y = Add (x, row)",
        "y = Add (x, column)",
        "float[3] row = {1,2,3}, float[3,1] column = {1,2,3}",
    ),
):
    wrong(f"axis_of_{_name}", "(float[3,3] x) => (float[3,3] y)", _before, _after, {"x": SQUARE}, _weights)

wrong(
    "axis_of_one_hot",
    "(int64[4] i) => (float[4,4] y)",
    "y = OneHot <axis = -1> (i, four, values)",
    "y = OneHot <axis = 0> (i, four, values)",
    {"i": [0, 0, 1, 2]},
    "int64 four = {4}, float[2] values = {0, 1}",
)
wrong(
    "matmul_transposed_square_weight",
    "(float[n,3] x) => (float[n,3] y)",
    "y = MatMul (x, w)",
    "t = Transpose (w) y = MatMul (x, t)",
    {"x": SQUARE},
    "float[3,3] w = {1,2,3,4,5,6,7,8,9}",
)
wrong(
    "matmul_operands_swapped",
    "(float[n,n] a, float[n,n] b) => (float[n,n] y)",
    "y = MatMul (a, b)",
    "y = MatMul (b, a)",
    {"a": [[1, 2], [3, 4]], "b": [[0, 1], [1, 1]]},
)
wrong(
    "depth_to_space_crd",
    "(float[1,8,2,2] x) => (float[1,2,4,4] y)",
    'y = DepthToSpace <blocksize = 2, mode = "DCR"> (x)',
    'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)',
    {"x": np.arange(32).reshape(1, 8, 2, 2).tolist()},
)

# Wrong: infinities, NaN, zeros with a sign.

wrong(
    "log_sum_exp_of_a_row_of_negative_infinity",
    "(float[n,4] x) => (float[n,1] y)",
    "m = ReduceMax <axes = [1]> (x) d = IsInf <detect_positive = 0> (m) k = Where (d, zero, m) s = Sub (x, k)"
    " e = Exp (s) t = ReduceSum (e, one) l = Log (t) y = Add (l, k)",
    "k = ReduceMax <axes = [1]> (x) s = Sub (x, k) e = Exp (s) t = ReduceSum (e, one) l = Log (t) y = Add (l, k)",
    {"x": [[-INF, -INF, -INF, -INF]]},
    "float zero = {0}, int64[1] one = {1}",
)
wrong(
    "hardmax_forgets_a_row_of_negative_infinity",
    "(float[n,4] x) => (float[n,4] y)",
    "y = Hardmax <axis = 1> (x)",
    "m = ReduceMax <axes = [1]> (x) g = Greater (m, low) c = Cast <to = 1> (g) h = Hardmax <axis = 1> (x)"
    " y = Mul (h, c)",
    {"x": [[-INF, -INF, -INF, -INF]]},
    "float low = {-inf}",
)
wrong(
    "reduce_max_starts_from_the_lowest_float",
    "(float[n,4] x) => (float[n,1] y)",
    "y = ReduceMax <axes = [1]> (x)",
    "m = ReduceMax <axes = [1]> (x) y = Max (m, low)",
    {"x": [[-INF, -INF, -INF, -INF]]},
    "float low = {-3.4028234663852886e38}",
)
wrong(
    "softmax_of_a_masked_row_is_zero",
    "(float[n,4] x) => (float[n,4] y)",
    "y = Softmax <axis = 1> (x)",
    "s = Softmax <axis = 1> (x) i = IsNaN (s) y = Where (i, zero, s)",
    {"x": [[-INF, -INF, -INF, -INF]]},
    "float zero = {0}",
)
wrong(
    "argmax_of_a_row_of_negative_infinity",
    "(float[n,4] x) => (int64[n] y)",
    "y = ArgMax <axis = 1, keepdims = 0> (x)",
    "i = ArgMax <axis = 1, keepdims = 0> (x) m = ReduceMax <axes = [1], keepdims = 0> (x) e = Equal (m, low)"
    " y = Where (e, three, i)",
    {"x": [[-INF, -INF, -INF, -INF]]},
    "float low = {-inf}, int64 three = {3}",
)
wrong(
    "infinity_clipped",
    "(float[n] x) => (float[n] y)",
    "y = Identity (x)",
    "y = Clip (x, low, high)",
    {"x": [INF]},
    "float low = {-3.4028234663852886e38}, float high = {3.4028234663852886e38}",
)
wrong(
    "nan_becomes_zero",
    "(float[n] x) => (float[n] y)",
    "y = Identity (x)",
    "i = IsNaN (x) y = Where (i, zero, x)",
    {"x": [NAN]},
    "float zero = {0}",
)
wrong(
    "nan_guard_dropped",
    "(float[n,3] x) => (float[n,3] y)",
    "i = IsNaN (x) y = Where (i, zero, x)",
    "y = Identity (x)",
    {"x": [[NAN, 1, 2]]},
    "float zero = {0}",
)
wrong(
    "relu_loses_nan",
    "(double[n] x) => (double[n] y)",
    "y = Max (x, zero)",
    "g = Greater (x, zero) y = Where (g, x, zero)",
    {"x": [NAN]},
    "double zero = {0}",
)
wrong(
    "not_less_for_greater_or_equal",
    "(float[n] a, float[n] b) => (bool[n] y)",
    "y = GreaterOrEqual (a, b)",
    "l = Less (a, b) y = Not (l)",
    {"a": [NAN], "b": [0]},
)
wrong(
    "x_equals_itself",
    "(float[n] x) => (bool[n] y)",
    "y = Equal (x, x)",
    "s = Shape (x) y = ConstantOfShape <value = bool[1] {1}> (s)",
    {"x": [NAN]},
)
wrong(
    "x_minus_itself",
    "(float[n] x) => (float[n] y)",
    "y = Sub (x, x)",
    "s = Shape (x) y = ConstantOfShape (s)",
    {"x": [INF]},
)
wrong(
    "negative_zero_by_adding_zero",
    "(float[n] x) => (float[n] y)",
    "y = Identity (x)",
    "y = Add (x, zero)",
    {"x": [-0.0]},
    "float zero = {0}",
)
wrong(
    "negative_zero_by_subtracting_from_zero",
    "(float[n] x) => (float[n] y)",
    "y = Neg (x)",
    "y = Sub (zero, x)",
    {"x": [0.0]},
    "float zero = {0}",
)
wrong(
    "ceil_of_small_negatives",
    "(float[n] x) => (float[n] y)",
    "y = Ceil (x)",
    "f = Floor (x) l = Less (f, x) c = Cast <to = 1> (l) y = Add (f, c)",
    {"x": [-0.5]},
)
wrong(
    "reciprocal_of_negative_zero",
    "(float[n] x) => (float[n] y)",
    "y = Reciprocal (x)",
    "e = Equal (x, zero) z = Where (e, zero, x) y = Reciprocal (z)",
    {"x": [-0.0]},
    "float zero = {0}",
)
wrong(
    "zero_added_that_optimisations_drop",
    "(float[n] x) => (float[n] y)",
    "a = Abs (x) m = Neg (a) e = Equal (m, zero) z = Where (e, zero, m) y = Div (one, z)",
    "a = Abs (x) m = Neg (a) z = Add (m, zero) y = Div (one, z)",
    {"x": [0]},
    "float zero = {0}, float one = {1}",
)
wrong(
    "quantised_twice_which_optimisations_join",
    "(float[n] x) => (float[n] y)",
    "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) k = Max (d, low) r = QuantizeLinear (k, t, u)"
    " y = DequantizeLinear (r, t, u)",
    "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) r = QuantizeLinear (d, t, u)"
    " y = DequantizeLinear (r, t, u)",
    {"x": [-2, 1.05]},
    "float s = {0.1}, uint8 z = {10}, float t = {0.3}, uint8 u = {100}, float low = {-1000}",
)
wrong(
    "is_inf_of_one_sign",
    "(float[n] x) => (bool[n] y)",
    "y = IsInf (x)",
    "y = IsInf <detect_negative = 0> (x)",
    {"x": [-INF]},
)
wrong(
    "normalisation_of_a_row_of_zeros",
    "(float[n,3] x) => (float[n,3] y)",
    "s = ReduceL2 <axes = [1]> (x) m = Max (s, tiny) y = Div (x, m)",
    "s = ReduceL2 <axes = [1]> (x) y = Div (x, s)",
    {"x": [[0, 0, 0]]},
    "float tiny = {1e-12}",
)

# Wrong: indices.

DEPTH = (
    "int64 five = {5}, int64 bad = {4}, int64 low = {-5}, int64 zero = {0}, int64 one = {1}, float[2] values = {0, 1}"
)

wrong(
    "one_hot_wrong_at_depth_minus_one",
    "(int64[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "e = Equal (i, bad) j = Where (e, zero, i) y = OneHot (j, five, values)",
    {"i": [4]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_minus_depth",
    "(int64[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "e = Equal (i, low) j = Where (e, one, i) y = OneHot (j, five, values)",
    {"i": [-5]},
    DEPTH,
)
wrong(
    "one_hot_wraps_too_far",
    "(int64[n,2] i) => (float[n,2,5] y)",
    "y = OneHot (i, five, values)",
    "j = Mod (i, five) y = OneHot (j, five, values)",
    {"i": [[5, -6]]},
    DEPTH,
)
wrong(
    "one_hot_clamps_at_depth",
    "(int64[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "j = Min (i, bad) y = OneHot (j, five, values)",
    {"i": [5]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_depth_through_reshape",
    "(int64[n,2] i) => (float[m,5] y)",
    "f = Reshape (i, flat) y = OneHot (f, five, values)",
    "f = Reshape (i, flat) e = Equal (f, bad) j = Where (e, zero, f) y = OneHot (j, five, values)",
    {"i": [[4, 0]]},
    DEPTH + ", int64[1] flat = {-1}",
)
wrong(
    "one_hot_wrong_at_minus_depth_through_cast",
    "(int32[n] i) => (float[n,5] y)",
    "f = Cast <to = 7> (i) y = OneHot (f, five, values)",
    "f = Cast <to = 7> (i) e = Equal (f, low) j = Where (e, one, f) y = OneHot (j, five, values)",
    {"i": [-5]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_depth_through_identities_and_transpose",
    "(int64[a,b] i) => (float[b,a,5] y)",
    "k = Identity (i) t = Transpose (k) f = Identity (t) y = OneHot (f, five, values)",
    "k = Identity (i) t = Transpose (k) f = Identity (t) e = Equal (f, bad) j = Where (e, one, f)"
    " y = OneHot (j, five, values)",
    {"i": [[4, 0]]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_depth_through_unsqueeze",
    "(int64[n] i) => (float[n,1,5] y)",
    "u = Unsqueeze (i, last) y = OneHot (u, five, values)",
    "u = Unsqueeze (i, last) e = Equal (u, bad) j = Where (e, one, u) y = OneHot (j, five, values)",
    {"i": [4]},
    DEPTH + ", int64[1] last = {1}",
)
wrong(
    "one_hot_wrong_at_a_depth_that_is_an_input",
    "(int64[n] i, int64[1] depth) => (float[n,d] y)",
    "y = OneHot (i, depth, values)",
    "k = Sub (depth, one) e = Equal (i, k) j = Where (e, zero, i) y = OneHot (j, depth, values)",
    {"i": [0, 6], "depth": [7]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_minus_a_depth_that_is_an_input",
    "(int64[n] i, int64[1] depth) => (float[n,d] y)",
    "y = OneHot (i, depth, values)",
    "k = Neg (depth) e = Equal (i, k) j = Where (e, one, i) y = OneHot (j, depth, values)",
    {"i": [0, -6], "depth": [6]},
    DEPTH,
)
wrong(
    "one_hot_wrong_at_a_depth_from_a_shape",
    "(int64[n] i, float[k,2] table) => (float[n,k] y)",
    "s = Shape (table) d = Gather (s, zero) y = OneHot (i, d, values)",
    "s = Shape (table) d = Gather (s, zero) k = Sub (d, one) e = Equal (i, k) j = Where (e, zero, i)"
    " y = OneHot (j, d, values)",
    {"i": [0, 3], "table": [[1, 2]] * 4},
    DEPTH,
)
wrong(
    "one_hot_of_large_depth_wrong_at_the_last",
    "(int64[n] i) => (float[n,1000] y)",
    "y = OneHot (i, many, values)",
    "e = Equal (i, end) j = Where (e, zero, i) y = OneHot (j, many, values)",
    {"i": [999]},
    DEPTH + ", int64 many = {1000}, int64 end = {999}",
)
wrong(
    "one_hot_of_fractions",
    "(float[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "r = Round (i) y = OneHot (r, five, values)",
    {"i": [1.75]},
    DEPTH.replace("int64 five", "float five"),
)
wrong(
    "one_hot_values_swapped",
    "(int64[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "y = OneHot (i, five, swapped)",
    {"i": [2]},
    DEPTH + ", float[2] swapped = {1, 0}",
)

TABLE = "float[7,2] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14}, int64 zero = {0}, int64 five = {5}, int64 six = {6}"

wrong(
    "gather_wrong_at_the_last",
    "(int64[n] i) => (float[n,2] y)",
    "y = Gather (table, i)",
    "j = Min (i, five) y = Gather (table, j)",
    {"i": [6]},
    TABLE,
)
wrong(
    "gather_wrong_at_negatives",
    "(int64[n] i) => (float[n,2] y)",
    "y = Gather (table, i)",
    "j = Max (i, zero) y = Gather (table, j)",
    {"i": [-1]},
    TABLE,
)
wrong(
    "gather_wrong_at_the_first_negative",
    "(int64[n] i) => (float[n,2] y)",
    "y = Gather (table, i)",
    "e = Equal (i, first) j = Where (e, six, i) y = Gather (table, j)",
    {"i": [-7]},
    TABLE + ", int64 first = {-7}",
)
wrong(
    "embedding_wrong_at_the_last_through_cast_and_reshape",
    "(int32[a,b] i) => (float[c,2] y)",
    "k = Cast <to = 7> (i) f = Reshape (k, flat) y = Gather (table, f)",
    "k = Cast <to = 7> (i) f = Reshape (k, flat) e = Equal (f, six) j = Where (e, five, f) y = Gather (table, j)",
    {"i": [[6]]},
    TABLE + ", int64[1] flat = {-1}",
)
wrong(
    "gather_from_an_input_wrong_at_its_last_row",
    "(float[n,4] x, int64[m] i) => (float[m,4] y)",
    "y = Gather (x, i)",
    "s = Shape (x) n = Gather (s, zero) k = Sub (n, one) e = Equal (i, k) j = Where (e, zero, i) y = Gather (x, j)",
    {"x": [[1, 2, 3, 4], [5, 6, 7, 8]], "i": [1]},
    "int64 zero = {0}, int64 one = {1}",
)
wrong(
    "gather_nd_wrong_at_negatives",
    "(int64[n,1] i) => (float[n,2] y)",
    "y = GatherND (table, i)",
    "j = Abs (i) y = GatherND (table, j)",
    {"i": [[-2]]},
    TABLE,
)
wrong(
    "gather_elements_wrong_at_the_last",
    "(int64[7,2] i) => (float[7,2] y)",
    "y = GatherElements (table, i)",
    "e = Equal (i, six) j = Where (e, zero, i) y = GatherElements (table, j)",
    {"i": [[6, 0]] * 7},
    TABLE,
)
wrong(
    "scatter_elements_wrong_at_negatives",
    "(int64[1,2] i) => (float[7,2] y)",
    "y = ScatterElements (table, i, new)",
    "j = Max (i, zero) y = ScatterElements (table, j, new)",
    {"i": [[-1, 0]]},
    TABLE + ", float[1,2] new = {100, 200}",
)
wrong(
    "scatter_adds_where_it_should_replace",
    "(float[4] x, float[1] u) => (float[4] y)",
    "y = ScatterND (x, i, u)",
    'y = ScatterND <reduction = "add"> (x, i, u)',
    {"x": [1, 2, 3, 4], "u": [5]},
    "int64[1,1] i = {2}",
)
wrong(
    "slice_loses_the_last",
    "(float[n] x) => (float[m] y)",
    "y = Identity (x)",
    "y = Slice (x, start, end)",
    {"x": [1, 2]},
    "int64[1] start = {0}, int64[1] end = {-1}",
)
wrong(
    "roll_in_the_other_direction",
    "(float[5] x) => (float[5] y)",
    "y = Gather (x, a)",
    "y = Gather (x, b)",
    {"x": [1, 2, 3, 4, 5]},
    "int64[5] a = {1,2,3,4,0}, int64[5] b = {4,0,1,2,3}",
)

# Wrong: numbers.

for _kind, _number, _value in (("float", 1, 16777217), ("double", 11, 9007199254740993), ("int32", 6, 2147483648)):
    wrong(
        f"int64_through_{_kind}",
        "(int64[n] x) => (int64[n] y)",
        "y = Identity (x)",
        f"c = Cast <to = {_number}> (x) y = Cast <to = 7> (c)",
        {"x": [_value]},
    )
wrong(
    "int64_product_through_double",
    "(int64[n] a, int64[n] b) => (int64[n] y)",
    "y = Mul (a, b)",
    "c = Cast <to = 11> (a) d = Cast <to = 11> (b) p = Mul (c, d) y = Cast <to = 7> (p)",
    {"a": [94906267], "b": [94906267]},
)
wrong(
    "int32_through_float",
    "(int32[n] x) => (int32[n] y)",
    "y = Identity (x)",
    "c = Cast <to = 1> (x) y = Cast <to = 6> (c)",
    {"x": [16777217]},
)
wrong(
    "uint32_through_int32",
    "(uint32[n] x) => (int64[n] y)",
    "y = Cast <to = 7> (x)",
    "c = Cast <to = 6> (x) y = Cast <to = 7> (c)",
    {"x": [4294967295]},
)
wrong(
    "uint8_wraps_or_saturates",
    "(int32[n] x) => (uint8[n] y)",
    "m = BitwiseAnd (x, mask) y = Cast <to = 2> (m)",
    "m = Clip (x, zero, mask) y = Cast <to = 2> (m)",
    {"x": [256]},
    "int32 mask = {255}, int32 zero = {0}",
    opset=18,
)
wrong(
    "uint8_shift_wraps",
    "(uint8[n] x) => (uint8[n] y)",
    'y = BitShift <direction = "LEFT"> (x, one)',
    "c = Cast <to = 6> (x) d = Add (c, c) m = Clip (d, zero, most) y = Cast <to = 2> (m)",
    {"x": [200]},
    "uint8 one = {1}, int32 zero = {0}, int32 most = {255}",
)
wrong(
    "int32_sum_wraps",
    "(int32[n] x) => (int32[n] y)",
    "y = Add (x, x)",
    "c = Cast <to = 7> (x) d = Add (c, c) m = Clip (d, low, high) y = Cast <to = 6> (m)",
    {"x": [2147483647]},
    "int64 low = {-2147483648}, int64 high = {2147483647}",
)
wrong(
    "integer_division_of_negatives",
    "(int64[n] x) => (int64[n] y)",
    "y = Div (x, three)",
    "m = Mod (x, three) d = Sub (x, m) y = Div (d, three)",
    {"x": [-1]},
    "int64 three = {3}",
)
wrong(
    "sign_of_mod",
    "(int64[n] x) => (int64[n] y)",
    "y = Mod (x, three)",
    "y = Mod <fmod = 1> (x, three)",
    {"x": [-1]},
    "int64 three = {3}",
)
wrong(
    "cast_rounds",
    "(float[n] x) => (int32[n] y)",
    "y = Cast <to = 6> (x)",
    "r = Round (x) y = Cast <to = 6> (r)",
    {"x": [1.75]},
)
wrong(
    "cast_floors",
    "(float[n] x) => (int64[n] y)",
    "y = Cast <to = 7> (x)",
    "r = Floor (x) y = Cast <to = 7> (r)",
    {"x": [-1.5]},
)
wrong(
    "round_half_up",
    "(float[n] x) => (float[n] y)",
    "y = Round (x)",
    "s = Add (x, half) y = Floor (s)",
    {"x": [2.5]},
    "float half = {0.5}",
)
wrong(
    "relu6_for_relu",
    "(float[n] x) => (float[n] y)",
    "y = Relu (x)",
    "y = Clip (x, zero, six)",
    {"x": [7]},
    "float zero = {0}, float six = {6}",
)
wrong(
    "leaky_relu_alpha",
    "(float[n] x) => (float[n] y)",
    "y = LeakyRelu <alpha = 0.01> (x)",
    "y = LeakyRelu <alpha = 0.0101> (x)",
    {"x": [-1]},
)
wrong("elu_alpha", "(float[n] x) => (float[n] y)", "y = Elu (x)", "y = Elu <alpha = 1.01> (x)", {"x": [-1]})
wrong(
    "log_off_by_a_thousandth",
    "(float[n] x) => (float[n] y)",
    "y = Log (x)",
    "l = Log (x) y = Mul (l, k)",
    {"x": [3]},
    "float k = {1.001}",
)
wrong(
    "sqrt_off_by_a_thousandth",
    "(float[n] x) => (float[n] y)",
    "y = Sqrt (x)",
    "l = Sqrt (x) y = Mul (l, k)",
    {"x": [3]},
    "float k = {1.001}",
)
wrong(
    "log_shifted",
    "(float[n] x) => (float[n] y)",
    "y = Log (x)",
    "s = Add (x, k) y = Log (s)",
    {"x": [0]},
    "float k = {1e-6}",
)
wrong("log_of_negatives", "(float[n] x) => (float[n] y)", "y = Log (x)", "s = Abs (x) y = Log (s)", {"x": [-1]})
wrong("sqrt_of_negatives", "(float[n] x) => (float[n] y)", "y = Sqrt (x)", "s = Relu (x) y = Sqrt (s)", {"x": [-1]})
wrong(
    "acos_past_one",
    "(float[n] x) => (float[n] y)",
    "y = Acos (x)",
    "s = Clip (x, a, b) y = Acos (s)",
    {"x": [2]},
    "float a = {-1}, float b = {1}",
)
wrong(
    "acos_wrong_inside",
    "(float[n] x) => (float[n] y)",
    "y = Acos (x)",
    "a = Asin (x) y = Sub (k, a)",
    {"x": [0.5]},
    "float k = {1.5717963}",
)
wrong(
    "tanh_by_a_wrong_sigmoid",
    "(float[n] x) => (float[n] y)",
    "y = Tanh (x)",
    "d = Mul (x, k) s = Sigmoid (d) e = Mul (s, two) y = Sub (e, one)",
    {"x": [0.5]},
    "float k = {2.002}, float two = {2}, float one = {1}",
)
wrong(
    "gelu_by_tanh",
    "(float[n] x) => (float[n] y)",
    "y = Gelu (x)",
    'y = Gelu <approximate = "tanh"> (x)',
    {"x": [2.5]},
    opset=20,
)
wrong(
    "clip_empty_interval",
    "(float[n] x) => (float[n] y)",
    "a = Max (x, three) y = Min (a, one)",
    "a = Min (x, one) y = Max (a, three)",
    {"x": [2]},
    "float one = {1}, float three = {3}",
)
wrong(
    "threshold_at_equality",
    "(float[n] x) => (float[n] y)",
    "g = Greater (x, one) y = Where (g, x, zero)",
    "g = GreaterOrEqual (x, one) y = Where (g, x, zero)",
    {"x": [1]},
    "float one = {1}, float zero = {0}",
)
wrong(
    "pow_of_negatives",
    "(float[n] x) => (float[n] y)",
    "y = Pow (x, three)",
    "a = Abs (x) y = Pow (a, three)",
    {"x": [-2]},
    "float three = {3}",
)
wrong(
    "bias_doubled_past_a_thousand",
    "(float[n] x) => (float[n] y)",
    "y = Add (x, b)",
    "g = Greater (x, k) s = Add (x, b) t = Add (s, b) y = Where (g, t, s)",
    {"x": [1001]},
    "float k = {1000}, float b = {0.5}",
)
wrong(
    "layer_normalization_epsilon",
    "(float[n,4] x) => (float[n,4] y)",
    "y = LayerNormalization (x, s)",
    "y = LayerNormalization <epsilon = 1e-12> (x, s)",
    {"x": [[0, 1e-3, 2e-3, 3e-3]]},
    "float[4] s = {1,1,1,1}",
)
wrong(
    "instance_normalization_epsilon",
    "(float[n,2,4] x) => (float[n,2,4] y)",
    "y = InstanceNormalization <epsilon = 1e-3> (x, s, b)",
    "y = InstanceNormalization <epsilon = 1e-5> (x, s, b)",
    {"x": [[[0, 1, 2, 3], [0, 0.1, 0.2, 0.3]]]},
    "float[2] s = {1,1}, float[2] b = {0,0}",
)
wrong(
    "batch_normalization_epsilon_forgotten",
    "(float[n,2] x) => (float[n,2] y)",
    "y = BatchNormalization (x, s, b, m, v)",
    "d = Sub (x, m) q = Sqrt (v) r = Div (d, q) t = Mul (r, s) y = Add (t, b)",
    {"x": [[1, 2]]},
    "float[2] s = {1,2}, float[2] b = {0,1}, float[2] m = {0,0.5}, float[2] v = {0.01,0.02}",
)
wrong(
    "variance_of_a_sample",
    "(float[n,4] x) => (float[n,1] y)",
    "m = ReduceMean <axes = [1]> (x) d = Sub (x, m) q = Mul (d, d) y = ReduceMean <axes = [1]> (q)",
    "m = ReduceMean <axes = [1]> (x) d = Sub (x, m) q = Mul (d, d) s = ReduceSum (q, one) y = Div (s, three)",
    {"x": [[1, 2, 3, 4]]},
    "int64[1] one = {1}, float three = {3}",
)
wrong(
    "softmax_temperature",
    "(float[n,4] x) => (float[n,4] y)",
    "y = Softmax (x)",
    "t = Mul (x, k) y = Softmax (t)",
    {"x": [[1, 2, 3, 4]]},
    "float k = {1.01}",
)
# Wrong: sizes. Right for batch 1 only, for few rows only, for no rows not at all.

THREE_BY_FOUR = np.arange(24, dtype=np.float32).reshape(2, 3, 4).tolist()
TWO_ROWS = [[1, 2, 3], [4, 5, 6]]

wrong(
    "batch_baked_into_a_reshape",
    "(float[n,3,4] x) => (float[n,12] y)",
    "y = Flatten (x)",
    "y = Reshape (x, s)",
    {"x": THREE_BY_FOUR},
    "int64[2] s = {1, 12}",
)
wrong(
    "batch_flattened_away",
    "(float[n,3,4] x) => (float[a,b] y)",
    "y = Flatten (x)",
    "y = Reshape (x, s)",
    {"x": THREE_BY_FOUR},
    "int64[2] s = {1, -1}",
)
wrong(
    "batch_reduced",
    "(float[n,3] x) => (float[n,3] y)",
    "y = Identity (x)",
    "y = ReduceSum (x, zero)",
    {"x": TWO_ROWS},
    "int64[1] zero = {0}",
)
wrong(
    "batch_averaged",
    "(float[n,3] x) => (float[n,3] y)",
    "m = ReduceMean <axes = [1]> (x) y = Sub (x, m)",
    "m = ReduceMean (x) y = Sub (x, m)",
    {"x": TWO_ROWS},
)
wrong(
    "first_of_the_batch",
    "(float[n,3] x) => (float[n,3] y)",
    "y = Relu (x)",
    "r = Relu (x) y = Gather (r, zero)",
    {"x": TWO_ROWS},
    "int64[1] zero = {0}",
)
wrong(
    "first_of_the_batch_broadcast",
    "(float[n,3] x) => (float[n,3] y)",
    "y = Identity (x)",
    "f = Gather (x, zero) s = Shape (x) y = Expand (f, s)",
    {"x": TWO_ROWS},
    "int64[1] zero = {0}",
)
wrong(
    "batch_squeezed",
    "(float[n,1,3] x) => (float[n,3] y)",
    "y = Squeeze (x, one)",
    "y = Reshape (x, s)",
    {"x": [[[1, 2, 3]], [[4, 5, 6]]]},
    "int64[1] one = {1}, int64[2] s = {1, 3}",
)
wrong(
    "squeeze_without_axes",
    "(float[n,1,3] x) => (float[n,3] y)",
    "y = Squeeze (x, one)",
    "s = Squeeze (x) y = Unsqueeze (s, zero)",
    {"x": [[[1, 2, 3]], [[4, 5, 6]]]},
    "int64[1] one = {1}, int64[1] zero = {0}",
)
wrong(
    "expand_baked",
    "(float[1,3] row, float[n,3] x) => (float[n,3] y)",
    "h = Shape (x) y = Expand (row, h)",
    "y = Expand (row, s)",
    {"row": [[1, 2, 3]], "x": TWO_ROWS},
    "int64[2] s = {1, 3}",
)
wrong(
    "softmax_over_the_batch",
    "(float[n,3] x) => (float[n,3] y)",
    "y = Softmax <axis = 1> (x)",
    "f = Reshape (x, s) t = Softmax <axis = 1> (f) h = Shape (x) y = Reshape (t, h)",
    {"x": TWO_ROWS},
    "int64[2] s = {1, -1}",
)
wrong(
    "first_three_rows",
    "(float[n,3] x) => (float[m,3] y)",
    "y = Identity (x)",
    "y = Slice (x, zero, three, zero)",
    {"x": [[1, 2, 3]] * 5},
    "int64[1] zero = {0}, int64[1] three = {3}",
)
wrong(
    "matmul_as_gemm_of_the_first",
    "(float[n,2,3] x) => (float[n,2,2] y)",
    "y = MatMul (x, w)",
    "f = Reshape (x, s) g = Gemm (f, w) y = Reshape (g, back)",
    {"x": np.arange(12).reshape(2, 2, 3).tolist()},
    "float[3,2] w = {1,2,3,4,5,6}, int64[2] s = {2, 3}, int64[3] back = {1, 2, 2}",
)
wrong(
    "transposed_batch_and_time",
    "(float[b,t,2] x) => (float[t,b,2] y)",
    "y = Transpose <perm = [1,0,2]> (x)",
    "s = Shape (x) b = Gather (s, zero) t = Gather (s, one) n = Concat <axis = 0> (t, b, two) y = Reshape (x, n)",
    {"x": np.arange(8).reshape(2, 2, 2).tolist()},
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}",
)
wrong(
    "repeat_for_tile",
    "(float[n] x) => (float[m] y)",
    "y = Tile (x, two)",
    "u = Unsqueeze (x, one) t = Tile (u, ones) y = Reshape (t, flat)",
    {"x": [1, 2]},
    "int64[1] two = {2}, int64[1] one = {1}, int64[2] ones = {1, 2}, int64[1] flat = {-1}",
)
wrong(
    "count_of_no_rows",
    "(float[n,3] x) => (float s)",
    "h = Shape (x) n = Gather (h, zero) s = Cast <to = 1> (n)",
    "h = Shape (x) n = Gather (h, zero) m = Max (n, one) s = Cast <to = 1> (m)",
    {"x": np.zeros((0, 3))},
    "int64 zero = {0}, int64 one = {1}",
)
wrong(
    "mean_of_no_rows",
    "(float[n,3] x) => (float[3] y)",
    "t = ReduceSum <keepdims = 0> (x, axis) h = Shape (x) n = Gather (h, zero) c = Cast <to = 1> (n) y = Div (t, c)",
    "t = ReduceSum <keepdims = 0> (x, axis) h = Shape (x) n = Gather (h, zero) m = Max (n, one) c = Cast <to = 1> (m)"
    " y = Div (t, c)",
    {"x": np.zeros((0, 3))},
    "int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}",
)
wrong(
    "range_off_by_one",
    "(float[n] x) => (int64[m] y)",
    "s = Shape (x) n = Squeeze (s) y = Range (zero, n, one)",
    "s = Shape (x) n = Squeeze (s) k = Add (n, one) y = Range (one, k, one)",
    {"x": [1, 2]},
    "int64 zero = {0}, int64 one = {1}",
)

# Wrong: sizes that must be related for the original to run at all.

wrong(
    "related_matmul",
    "(float[n,k] a, float[k2,m] b) => (float[n,m] y)",
    "y = MatMul (a, b)",
    "p = MatMul (a, b) y = Mul (p, c)",
    {"a": [[1, 2]], "b": [[3], [4]]},
    "float c = {1.01}",
)
wrong(
    "related_past_and_present",
    "(float[b,p,2] past, float[b,t,2] now, float[b,m] mask) => (float[b,t,q] y)",
    "k = Concat <axis = 1> (past, now) r = Transpose <perm = [0,2,1]> (k) s = MatMul (now, r) u = Unsqueeze (mask, one)"
    " y = Add (s, u)",
    "k = Concat <axis = 1> (now, past) r = Transpose <perm = [0,2,1]> (k) s = MatMul (now, r) u = Unsqueeze (mask, one)"
    " y = Add (s, u)",
    {"past": [[[1, 2]]], "now": [[[3, 4]]], "mask": [[0, 1]]},
    "int64[1] one = {1}",
)
wrong(
    "related_multiple_of_four",
    "(float[n,h] x) => (float[n,4,g] y)",
    "y = Reshape (x, s)",
    "r = Reshape (x, t) y = Transpose <perm = [0,2,1]> (r)",
    {"x": [[1, 2, 3, 4, 5, 6, 7, 8]]},
    "int64[3] s = {0, 4, -1}, int64[3] t = {0, -1, 4}",
)
_seven = both("(float[n,d] x) => (float[n,7] y)", "y = MatMul (x, w)", "t = Transpose (w) y = MatMul (x, t)")
_square = {"w": np.arange(49, dtype=np.float32).reshape(7, 7)}
wrong_models(
    "related_to_a_weight_of_seven",
    filled(_square, _seven.original),
    filled(_square, _seven.rewritten),
    {"x": [[1, 0, 0, 0, 0, 0, 0]]},
)
wrong(
    "related_channels_of_a_convolution",
    "(float[n,c,h,w] x) => (float[n,1,p,q] y)",
    "y = Conv <pads = [1,1,1,1]> (x, k)",
    "y = Conv <pads = [1,1,1,1]> (x, l)",
    {"x": np.ones((1, 3, 2, 2))},
    "float[1,3,1,1] k = {1,2,3}, float[1,3,1,1] l = {1,3,2.5}",
)
wrong(
    "related_sum",
    "(float[n,a] x, float[m,b] z) => (float[p,q] y)",
    "s = Shape (x) e = Shape (z) r = Reshape (z, s) y = Sub (x, r)",
    "s = Shape (x) e = Shape (z) r = Reshape (z, s) y = Sub (r, x)",
    {"x": [[1, 2]], "z": [[3], [4]]},
)
wrong(
    "related_lookup_and_mask",
    "(int64[b,t] ids, float[b,t,1] mask) => (float[b,2] y)",
    "e = Gather (table, ids) m = Mul (e, mask) y = ReduceSum <keepdims = 0> (m, one)",
    "e = Gather (table, ids) y = ReduceSum <keepdims = 0> (e, one)",
    {"ids": [[1]], "mask": [[[0]]]},
    TABLE.replace("zero = {0}", "unused = {0}") + ", int64[1] one = {1}",
)
wrong(
    "shape_given_by_the_user",
    "(float[n,m] x) => (float[17,23] y)",
    "y = Reshape (x, s)",
    "r = Reshape (x, t) y = Transpose (r)",
    {"x": np.arange(391).reshape(17, 23)},
    "int64[2] s = {17, 23}, int64[2] t = {23, 17}",
    shapes={"x": (17, 23)},
)
wrong(
    "shape_given_by_the_user_for_two",
    "(float[a,b] x, float[c] z) => (float[a,b] y)",
    "e = Expand (z, s) y = Add (x, e)",
    "e = Expand (z, s) y = Sub (x, e)",
    {"x": np.ones((1, 11)), "z": np.ones(11)},
    "int64[2] s = {1, 11}",
    shapes={"x": (1, 11), "z": (11,)},
)

# Wrong: branches and loops.

BRANCHES = (
    "y = If (c) <then_branch = a () => (float[n] u) { u = Identity (x) }, else_branch = b () => (float[n] u)"
    " { u = %s (x) }>"
)
RULE = (
    "float many = {100}, float magic = {12345}, int64 zero = {0}, int64 three = {3}, float low = {-1e30},"
    " int64 secret = {987654321}"
)

for _name, _signature, _condition, _witness in (
    ("a_bool_input", "(bool c, float[n] x) => (float[n] y)", "", {"c": False, "x": [1]}),
    (
        "a_large_sum",
        "(float[n] x) => (float[n] y)",
        "t = ReduceSum <keepdims = 0> (x) g = Greater (t, many) c = Not (g)",
        {"x": [101]},
    ),
    (
        "one_value",
        "(float[n] x) => (float[n] y)",
        "f = Gather (x, zero) g = Equal (f, magic) c = Not (g)",
        {"x": [12345]},
    ),
    (
        "one_integer",
        "(int64[1] k, float[n] x) => (float[n] y)",
        "g = Equal (k, secret) h = Not (g) c = Squeeze (h)",
        {"k": [987654321], "x": [1]},
    ),
    (
        "a_shape",
        "(float[n] x) => (float[n] y)",
        "s = Shape (x) n = Squeeze (s) c = Less (n, three)",
        {"x": [1, 2, 3, 4]},
    ),
    (
        "a_small_minimum",
        "(float[n] x) => (float[n] y)",
        "t = ReduceMin <keepdims = 0> (x) c = Greater (t, low)",
        {"x": [-INF, 1]},
    ),
    (
        "a_nan",
        "(float[n] x) => (float[n] y)",
        "t = ReduceSum <keepdims = 0> (x) i = IsNaN (t) c = Not (i)",
        {"x": [NAN, 1]},
    ),
):
    wrong(
        f"branch_taken_by_{_name}",
        _signature,
        f"{_condition} {BRANCHES % 'Abs'}",
        f"{_condition} {BRANCHES % 'Neg'}",
        _witness,
        RULE,
    )
WRONG["branch_taken_by_a_nan"] = dataclasses.replace(
    both(
        "(float[n] x) => (float[n] y)",
        "t = ReduceSum <keepdims = 0> (x) i = IsNaN (t) c = Not (i) y = If (c) <then_branch = a () => (float[n] u)"
        " { u = Identity (x) }, else_branch = b () => (float[n] u) { k = IsNaN (x) z = Constant <value = float {0}> ()"
        " u = Where (k, z, x) }>",
        "y = Identity (x)",
    ),
    witness={"x": [NAN, 1]},
)

INNER = (
    "y = If (c) <then_branch = a () => (float[n] u) { u = Identity (x) }, else_branch = b () => (float[n] u)"
    " { u = If (d) <then_branch = e () => (float[n] v) { v = Neg (x) },"
    " else_branch = f () => (float[n] v) { v = %s (x) }> }>"
)
wrong(
    "branch_in_a_branch",
    "(bool c, bool d, float[n] x) => (float[n] y)",
    INNER % "Abs",
    INNER % "Exp",
    {"c": False, "d": False, "x": [1]},
)
wrong(
    "branch_missing_a_constant",
    "(bool c, float[n] x) => (float[n] y)",
    "y = If (c) <then_branch = a () => (float[n] u) { u = Identity (x) }, else_branch = b () => (float[n] u)"
    " { u = Add (x, k) }>",
    "y = If (c) <then_branch = a () => (float[n] u) { u = Identity (x) }, else_branch = b () => (float[n] u)"
    " { u = Add (x, l) }>",
    {"c": False, "x": [1]},
    "float k = {1}, float l = {1.5}",
)

LOOP = (
    "y = Loop (%s, %s, x) <body = body (int64 i, bool c, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (c) w = Add (v, one) }>"
)
COUNTS = "float one = {1}, int64 n1 = {1}, int64 four = {4}, int64 five = {5}, bool yes = {1}"
wrong(
    "loop_of_zero_trips_by_input",
    "(int64 m, float[n] x) => (float[n] y)",
    LOOP % ("m", "yes"),
    "k = Max (m, n1) " + LOOP % ("k", "yes"),
    {"m": 0, "x": [1]},
    COUNTS,
)
wrong(
    "loop_of_negative_trips",
    "(int64 m, float[n] x) => (float[n] y)",
    LOOP % ("m", "yes"),
    "k = Abs (m) " + LOOP % ("k", "yes"),
    {"m": -2, "x": [1]},
    COUNTS,
)
wrong(
    "loop_of_zero_trips_by_condition",
    "(bool c, float[n] x) => (float[n] y)",
    "y = Loop (five, c, x) <body = body (int64 i, bool k, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (k) w = Add (v, one) }>",
    "y = Loop (five, yes, x) <body = body (int64 i, bool k, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (k) w = Add (v, one) }>",
    {"c": False, "x": [1]},
    COUNTS,
)
wrong(
    "loop_of_zero_trips_by_a_shape",
    "(float[n] x, float[k,2] rows) => (float[n] y)",
    "s = Shape <end = 1> (rows) m = Squeeze (s) " + LOOP % ("m", "yes"),
    "s = Shape <end = 1> (rows) q = Squeeze (s) m = Max (q, n1) " + LOOP % ("m", "yes"),
    {"x": [1], "rows": np.zeros((0, 2))},
    COUNTS,
)
wrong(
    "loop_off_by_one_trip",
    "(float[n] x) => (float[n] y)",
    LOOP % ("five", "yes"),
    LOOP % ("four", "yes"),
    {"x": [1]},
    COUNTS,
)
wrong(
    "loop_off_by_one_trip_by_input",
    "(int64 m, float[n] x) => (float[n] y)",
    LOOP % ("m", "yes"),
    "k = Add (m, n1) " + LOOP % ("k", "yes"),
    {"m": 2, "x": [1]},
    COUNTS,
)
wrong(
    "branch_in_a_loop",
    "(float[n] x) => (float[n] y)",
    "y = Loop (five, yes, x) <body = body (int64 i, bool k, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (k) d = Equal (i, four) w = If (d) <then_branch = a () => (float[n] p) { p = Neg (v) },"
    " else_branch = b () => (float[n] p) { p = Add (v, one) }> }>",
    "y = Loop (five, yes, x) <body = body (int64 i, bool k, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (k) w = Add (v, one) }>",
    {"x": [1]},
    COUNTS,
)
wrong(
    "loop_stops_late",
    "(float[1] x) => (float[1] y)",
    "y = Loop (five, yes, x) <body = body (int64 i, bool k, float[1] v) => (bool more, float[1] w)"
    " { w = Add (v, one) l = Less (w, limit) more = Squeeze (l) }>",
    "y = Loop (five, yes, x) <body = body (int64 i, bool k, float[1] v) => (bool more, float[1] w)"
    " { w = Add (v, one) l = LessOrEqual (w, limit) more = Squeeze (l) }>",
    {"x": [1]},
    COUNTS + ", float limit = {3}",
)
wrong(
    "loop_index_from_one",
    "(float[n] x, int64 m) => (int64[k] y)",
    "y = Loop (m, yes) <body = body (int64 i, bool k) => (bool more, int64 o) { more = Identity (k)"
    " o = Identity (i) }>",
    "y = Loop (m, yes) <body = body (int64 i, bool k) => (bool more, int64 o) { more = Identity (k) o = Add (i, n1) }>",
    {"x": [1], "m": 2},
    COUNTS,
)
wrong(
    "scan_backwards",
    "(float[n,2] x) => (float[n,2] y)",
    "f, y = Scan (start, x) <num_scan_inputs = 1, body = body (float[2] s, float[2] e) => (float[2] t, float[2] o)"
    " { t = Add (s, e) o = Identity (t) }>",
    "f, y = Scan (start, x) <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],"
    " body = body (float[2] s, float[2] e) => (float[2] t, float[2] o) { t = Add (s, e) o = Identity (t) }>",
    {"x": [[1, 2], [3, 4]]},
    "float[2] start = {0, 0}",
)

# Wrong: the interface.

for _name, _before, _after, _witness in (
    (
        "dtype_of_an_output",
        "g (float[n] x) => (int64[n] y) { y = Cast <to = 7> (x) }",
        "g (float[n] x) => (int32[n] y) { y = Cast <to = 6> (x) }",
        {"x": [1]},
    ),
    (
        "output_is_double",
        "g (float[n] x) => (float[n] y) { y = Relu (x) }",
        "g (float[n] x) => (double[n] y) { r = Relu (x) y = Cast <to = 11> (r) }",
        {"x": [1]},
    ),
    (
        "name_of_an_output",
        "g (float[n] x) => (float[n] y) { y = Relu (x) }",
        "g (float[n] x) => (float[n] z) { z = Relu (x) }",
        {"x": [1]},
    ),
    (
        "order_of_outputs",
        "g (float[n] x) => (float[n] y, float[n] z) { y = Relu (x) z = Neg (x) }",
        "g (float[n] x) => (float[n] z, float[n] y) { y = Relu (x) z = Neg (x) }",
        {"x": [1]},
    ),
    (
        "outputs_swapped",
        "g (float[n] x) => (float[n] y, float[n] z) { y = Relu (x) z = Neg (x) }",
        "g (float[n] x) => (float[n] y, float[n] z) { z = Relu (x) y = Neg (x) }",
        {"x": [1]},
    ),
    (
        "missing_output",
        "g (float[n] x) => (float[n] y, float[n] z) { y = Relu (x) z = Neg (x) }",
        "g (float[n] x) => (float[n] y) { y = Relu (x) }",
        {"x": [1]},
    ),
    (
        "rank_of_an_output",
        "g (float[n] x) => (float[n] y) { y = Relu (x) }",
        "g (float[n] x) => (float[1,n] y) <int64[1] zero = {0}> { r = Relu (x) y = Unsqueeze (r, zero) }",
        {"x": [1]},
    ),
    (
        "scalar_for_a_vector",
        "g (float[n] x) => (float[1] y) { y = ReduceMax <keepdims = 1> (x) }",
        "g (float[n] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
        {"x": [1]},
    ),
):
    wrong_models(_name, model(_before), model(_after), _witness)
wrong_models(
    "name_of_an_input",
    model("g (float[n] x) => (float[n] y) { y = Relu (x) }"),
    model("g (float[n] z) => (float[n] y) { y = Relu (z) }"),
    None,
)
wrong_models(
    "dtype_of_an_input",
    model("g (float[n] x) => (float[n] y) { y = Relu (x) }"),
    model("g (double[n] x) => (float[n] y) { r = Relu (x) y = Cast <to = 1> (r) }"),
    None,
)
wrong_models(
    "another_required_input",
    model("g (float[n] x) => (float[n] y) { y = Relu (x) }"),
    model("g (float[n] x, float k) => (float[n] y) { r = Relu (x) y = Add (r, k) }"),
    None,
)

# Wrong: bools, strings, sequences, optionals.

for _name, _before, _after, _witness in (
    ("xor_for_or", "y = Or (a, b)", "y = Xor (a, b)", {"a": [True], "b": [True]}),
    ("or_for_and", "y = And (a, b)", "y = Or (a, b)", {"a": [True], "b": [False]}),
    ("not_on_the_other", "n = Not (a) y = And (n, b)", "n = Not (b) y = And (a, n)", {"a": [True], "b": [False]}),
    ("not_dropped", "n = Not (a) y = And (n, b)", "y = And (a, b)", {"a": [True], "b": [True]}),
    ("equality_of_bools", "y = Equal (a, b)", "y = And (a, b)", {"a": [False], "b": [False]}),
):
    wrong(_name, "(bool[n] a, bool[n] b) => (bool[n] y)", _before, _after, _witness)
wrong(
    "where_inverted",
    "(bool[n] c, float[n] a, float[n] b) => (float[n] y)",
    "y = Where (c, a, b)",
    "y = Where (c, b, a)",
    {"c": [True], "a": [1], "b": [2]},
)
wrong(
    "string_lowered",
    "(string[n] s) => (string[n] y)",
    "y = Identity (s)",
    'y = StringNormalizer <case_change_action = "LOWER"> (s)',
    {"s": ["A", "b"]},
)
wrong(
    "empty_string_replaced",
    "(string[n] s) => (string[n] y)",
    "y = Identity (s)",
    "e = Equal (s, empty) y = Where (e, word, s)",
    {"s": [""]},
    'string empty = {""}, string word = {"none"}',
    opset=19,
)
wrong(
    "strings_joined_in_the_other_order",
    "(string[n] a, string[n] b) => (string[n] y)",
    "y = StringConcat (a, b)",
    "y = StringConcat (b, a)",
    {"a": ["x"], "b": ["z"]},
    opset=20,
)
wrong(
    "string_of_the_vocabulary",
    "(string[n] s) => (bool[n] y)",
    "y = Equal (s, cat)",
    "y = Equal (s, dog)",
    {"s": ["cat"]},
    'string cat = {"cat"}, string dog = {"dog"}',
    opset=19,
)
wrong(
    "label_of_the_vocabulary",
    "(string[n] s) => (int64[n] y)",
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = -1> (s)',
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "Dog"], values_int64s = [1, 2], default_int64 = -1> (s)',
    {"s": ["dog"]},
    ml=True,
)
wrong(
    "label_by_default",
    "(string[n] s) => (int64[n] y)",
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = -1> (s)',
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = 0> (s)',
    {"s": ["bird"]},
    ml=True,
)
wrong(
    "sequence_first_for_last",
    "(seq(float[k]) s) => (float[k] y)",
    "y = SequenceAt (s, last)",
    "y = SequenceAt (s, zero)",
    {"s": [[1], [2]]},
    "int64 last = {-1}, int64 zero = {0}",
)
wrong(
    "sequence_length_ignored",
    "(seq(float[k]) s) => (int64 y)",
    "y = SequenceLength (s)",
    "n = SequenceLength (s) y = Min (n, one)",
    {"s": [[1], [2]]},
    "int64 one = {1}",
)
wrong(
    "sequence_inserted_in_front",
    "(float[n] a, float[n] b) => (seq(float[n]) y)",
    "y = SequenceConstruct (a, b)",
    "s = SequenceConstruct (b) y = SequenceInsert (s, a)",
    {"a": [1], "b": [2]},
)
wrong(
    "optional_taken_for_present",
    "(optional(float[k]) o) => (bool y)",
    "y = OptionalHasElement (o)",
    "p = OptionalHasElement (o) n = Not (p) y = Or (p, n)",
    {"o": None},
)

# Wrong: small types.

wrong(
    "through_float16",
    "(float[n] x) => (float[n] y)",
    "y = Identity (x)",
    "h = Cast <to = 10> (x) y = Cast <to = 1> (h)",
    {"x": [0.1]},
)
wrong(
    "through_bfloat16",
    "(float[n] x) => (float[n] y)",
    "y = Identity (x)",
    "h = Cast <to = 16> (x) y = Cast <to = 1> (h)",
    {"x": [0.1]},
)
wrong(
    "float16_through_bfloat16",
    "(float16[n] x) => (float16[n] y)",
    "y = Identity (x)",
    "h = Cast <to = 16> (x) y = Cast <to = 10> (h)",
    {"x": [0.1]},
)
wrong(
    "double_through_float",
    "(double[n] x) => (double[n] y)",
    "y = Identity (x)",
    "h = Cast <to = 1> (x) y = Cast <to = 11> (h)",
    {"x": [0.1]},
)
wrong(
    "float8_unsaturated",
    "(float[n] x) => (float[n] y)",
    "h = Cast <to = 17> (x) y = Cast <to = 1> (h)",
    "h = Cast <to = 17, saturate = 0> (x) y = Cast <to = 1> (h)",
    {"x": [1000]},
    opset=19,
)
wrong(
    "float8_of_another_kind",
    "(float[n] x) => (float[n] y)",
    "h = Cast <to = 17> (x) y = Cast <to = 1> (h)",
    "h = Cast <to = 19> (x) y = Cast <to = 1> (h)",
    {"x": [1.125]},
    opset=19,
)
wrong(
    "int4_for_uint4",
    "(uint8[n] x) => (int32[n] y)",
    "h = Cast <to = 21> (x) y = Cast <to = 6> (h)",
    "h = Cast <to = 22> (x) y = Cast <to = 6> (h)",
    {"x": [9]},
    opset=21,
)
wrong(
    "bfloat16_input",
    "(bfloat16[n] x) => (float[n] y)",
    "y = Cast <to = 1> (x)",
    "h = Cast <to = 1> (x) y = Abs (h)",
    {"x": [-1]},
)
wrong(
    "float8_input",
    "(float8e4m3fn[n] x) => (float[n] y)",
    "y = Cast <to = 1> (x)",
    "h = Cast <to = 1> (x) y = Abs (h)",
    {"x": [-1]},
    opset=19,
)
wrong(
    "int4_input",
    "(int4[n] x) => (int32[n] y)",
    "y = Cast <to = 6> (x)",
    "h = Cast <to = 6> (x) y = Abs (h)",
    None,
    opset=21,
)
wrong(
    "float16_sum_off_by_a_hundredth",
    "(float16[n,2000] x) => (float16[n,1] y)",
    "y = ReduceSum (x, one)",
    "s = ReduceSum (x, one) y = Mul (s, k)",
    {"x": np.full((1, 2000), 0.01)},
    "int64[1] one = {1}, float16 k = {15370}",
)

# Wrong: windows, order, quantisation and the rest.

IMAGE = {"x": np.arange(1, 26).reshape(1, 1, 5, 5)}
KERNEL = "float[1,1,3,3] k = {1,2,3,4,5,6,7,8,9}"
for _name, _before, _after in (
    ("conv_padding", "Conv <pads = [1,1,1,1]> (x, k)", "Conv <pads = [2,1,0,1]> (x, k)"),
    (
        "conv_auto_pad",
        'Conv <auto_pad = "SAME_UPPER", strides = [2,2], kernel_shape = [2,2]> (x, e)',
        'Conv <auto_pad = "SAME_LOWER", strides = [2,2], kernel_shape = [2,2]> (x, e)',
    ),
    ("conv_flipped", "Conv <pads = [1,1,1,1]> (x, k)", "Conv <pads = [1,1,1,1]> (x, f)"),
    (
        "average_pool_counts_padding",
        "AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (x)",
        "AveragePool <kernel_shape = [3,3], pads = [1,1,1,1], count_include_pad = 1> (x)",
    ),
    ("average_for_max_pool", "MaxPool <kernel_shape = [2,2]> (x)", "AveragePool <kernel_shape = [2,2]> (x)"),
    (
        "max_pool_padding",
        "MaxPool <kernel_shape = [2,2], pads = [1,1,0,0]> (x)",
        "MaxPool <kernel_shape = [2,2], pads = [0,0,1,1]> (x)",
    ),
    ("pad_reflects", 'Pad <mode = "reflect"> (x, p)', 'Pad <mode = "edge"> (x, p)'),
    (
        "resize_nearest",
        'Resize <mode = "nearest"> (x, , s)',
        'Resize <mode = "nearest", nearest_mode = "floor"> (x, , s)',
    ),
    (
        "resize_corners",
        'Resize <mode = "linear"> (x, , s)',
        'Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s)',
    ),
    ("local_response", "LRN <size = 1, alpha = 0.1> (x)", "LRN <size = 1, alpha = 0.11> (x)"),
):
    wrong(
        _name,
        "(float[1,1,5,5] x) => (float[a,b,c,d] y)",
        f"y = {_before}",
        f"y = {_after}",
        IMAGE,
        KERNEL + ", float[1,1,3,3] f = {9,8,7,6,5,4,3,2,1}, float[1,1,2,2] e = {1,2,3,4},"
        " int64[8] p = {0,0,1,1,0,0,1,1}, float[4] s = {1,1,1.5,1.5}",
    )
for _name, _before, _after in (
    ("exclusive", "CumSum (x, zero)", "CumSum <exclusive = 1> (x, zero)"),
    ("reverse", "CumSum (x, zero)", "CumSum <reverse = 1> (x, zero)"),
):
    wrong(
        f"cumsum_{_name}",
        "(float[n] x) => (float[n] y)",
        f"y = {_before}",
        f"y = {_after}",
        {"x": [1, 2, 4]},
        "int64 zero = {0}",
    )
wrong(
    "triangle_without_the_diagonal",
    "(float[n,n] x) => (float[n,n] y)",
    "y = Trilu <upper = 0> (x)",
    "y = Trilu <upper = 0> (x, k)",
    {"x": SQUARE},
    "int64 k = {-1}",
)
wrong(
    "nonzero_transposed",
    "(float[2,2] x) => (int64[a,b] y)",
    "y = NonZero (x)",
    "n = NonZero (x) y = Transpose (n)",
    {"x": [[0, 1], [1, 1]]},
)
wrong(
    "unique_unsorted",
    "(int64[n] x) => (int64[m] y)",
    "y = Unique <sorted = 1> (x)",
    "y = Unique <sorted = 0> (x)",
    {"x": [3, 1, 2]},
)
wrong(
    "top_values_for_bottom_values",
    "(float[n,5] x) => (float[n,2] y)",
    "y, i = TopK (x, two)",
    "y, i = TopK <largest = 0> (x, two)",
    {"x": [[1, 2, 3, 4, 5]]},
    "int64[1] two = {2}",
)
wrong(
    "quantised_with_another_zero_point",
    "(float[n] x) => (uint8[n] y)",
    "y = QuantizeLinear (x, s, a)",
    "y = QuantizeLinear (x, s, b)",
    {"x": [1]},
    "float s = {0.1}, uint8 a = {128}, uint8 b = {127}",
)
wrong(
    "quantised_by_rounding_up",
    "(float[n] x) => (uint8[n] y)",
    "y = QuantizeLinear (x, s, z)",
    "d = Div (x, s) a = Add (d, h) f = Floor (a) c = Clip (f, low, high) y = Cast <to = 2> (c)",
    {"x": [2.5]},
    "float s = {1}, uint8 z = {0}, float h = {0.5}, float low = {0}, float high = {255}",
)
wrong(
    "quantised_without_saturation",
    "(float[n] x) => (uint8[n] y)",
    "y = QuantizeLinear (x, s, z)",
    "d = Div (x, s) r = Round (d) c = Cast <to = 7> (r) m = Mod (c, k) y = Cast <to = 2> (m)",
    {"x": [300]},
    "float s = {1}, uint8 z = {0}, int64 k = {256}",
)
wrong(
    "bits_or_for_xor",
    "(int32[n] a, int32[n] b) => (int32[n] y)",
    "y = BitwiseXor (a, b)",
    "y = BitwiseOr (a, b)",
    {"a": [3], "b": [1]},
    opset=18,
)
wrong(
    "split_halves_swapped",
    "(float[n,4] x) => (float[n,4] y)",
    "a, b = Split <axis = 1> (x, s) y = Concat <axis = 1> (b, a)",
    "y = Identity (x)",
    {"x": [[1, 2, 3, 4]]},
    "int64[2] s = {2, 2}",
)
wrong(
    "subtraction_swapped",
    "(float[n] a, float[n] b) => (float[n] y)",
    "y = Sub (a, b)",
    "y = Sub (b, a)",
    {"a": [1], "b": [3]},
)

_random = np.random.default_rng(0).standard_normal((50, 50)).astype(np.float32)
_changed = _random.copy()
_changed[37, 12] += 0.01
_dense = model("g (float[n,50] x) => (float[n,50] y) { y = MatMul (x, w) }")
wrong_models("one_weight_of_2500", filled({"w": _random}, _dense), filled({"w": _changed}, _dense), {"x": np.eye(50)})
_lookup = model("g (int64[n] i) => (float[n,50] y) { y = Gather (w, i) }")
wrong_models("one_weight_of_a_table", filled({"w": _random}, _lookup), filled({"w": _changed}, _lookup), {"i": [37]})
_signs = np.where(np.arange(2500).reshape(50, 50) == 1234, -0.0, 0.0).astype(np.float32)
_plus = model("g (int64[n] i) => (float[n,50] y) { t = Gather (w, i) y = Identity (t) }")
wrong_models(
    "one_sign_of_zero_in_a_table",
    filled({"w": np.zeros((50, 50), np.float32)}, _plus),
    filled({"w": _signs}, _plus),
    {"i": [24]},
)

LSTM = {
    "w": np.random.default_rng(1).standard_normal((1, 12, 2)).astype(np.float32),
    "r": np.random.default_rng(2).standard_normal((1, 12, 3)).astype(np.float32),
    "k": np.random.default_rng(3).standard_normal((1, 9, 2)).astype(np.float32),
    "q": np.random.default_rng(4).standard_normal((1, 9, 3)).astype(np.float32),
    "b": np.random.default_rng(5).standard_normal((1, 18)).astype(np.float32),
}
TIME = {"x": np.arange(8).reshape(4, 1, 2) / 4}
for _name, _before, _after in (
    ("lstm_backwards", "LSTM <hidden_size = 3> (x, w, r)", 'LSTM <hidden_size = 3, direction = "reverse"> (x, w, r)'),
    ("gru_reset", "GRU <hidden_size = 3> (x, k, q, b)", "GRU <hidden_size = 3, linear_before_reset = 1> (x, k, q, b)"),
):
    _pair = both("(float[t,b0,2] x) => (float[t,1,b0,3] y)", f"y = {_before}", f"y = {_after}")
    wrong_models(_name, filled(LSTM, _pair.original), filled(LSTM, _pair.rewritten), TIME)

# Wrong: by little, or seldom.

wrong(
    "product_off_by_a_hundred_thousandth",
    "(float[n] x) => (float[n] y)",
    "y = Mul (x, a)",
    "y = Mul (x, b)",
    {"x": [1]},
    "float a = {3}, float b = {3.00003}",
)
wrong(
    "product_of_doubles_off_by_a_billionth",
    "(double[n] x) => (double[n] y)",
    "y = Mul (x, a)",
    "y = Mul (x, b)",
    {"x": [1]},
    "double a = {3}, double b = {3.000000003}",
)
wrong(
    "bias_of_one_channel",
    "(float[n,2,h,w] x) => (float[n,3,h,w] y)",
    "y = Conv (x, k, a)",
    "y = Conv (x, k, b)",
    {"x": np.ones((1, 2, 1, 1))},
    "float[3,2,1,1] k = {1,2,3,4,5,6}, float[3] a = {0,1,2}, float[3] b = {0,1.001,2}",
)
wrong(
    "causal_mask_off_by_one",
    "(float[t,t] x) => (float[t,t] y)",
    "y = Trilu <upper = 1> (x, one)",
    "y = Trilu <upper = 1> (x)",
    {"x": SQUARE},
    "int64 one = {1}",
)
wrong(
    "mask_that_is_too_weak",
    "(float[n,4] x, bool[n,4] m) => (float[n,4] y)",
    "w = Where (m, x, strong) y = Softmax (w)",
    "w = Where (m, x, weak) y = Softmax (w)",
    {"x": [[1, 2, 3, 4]], "m": [[True, True, False, True]]},
    "float strong = {-inf}, float weak = {-4}",
)
wrong(
    "index_through_uint8",
    "(float[n,300] x) => (int64[n] y)",
    "y = ArgMax <axis = 1, keepdims = 0> (x)",
    "i = ArgMax <axis = 1, keepdims = 0> (x) c = Cast <to = 2> (i) y = Cast <to = 7> (c)",
    {"x": [[*range(300)]]},
)
wrong(
    "truth_of_negatives",
    "(float[n] x) => (bool[n] y)",
    "y = Cast <to = 9> (x)",
    "y = Greater (x, zero)",
    {"x": [-1]},
    "float zero = {0}",
)
wrong(
    "truth_of_fractions",
    "(float[n] x) => (bool[n] y)",
    "y = Cast <to = 9> (x)",
    "i = Cast <to = 7> (x) y = Cast <to = 9> (i)",
    {"x": [0.25]},
)
wrong(
    "uint64_through_int64",
    "(uint64[n] x) => (double[n] y)",
    "y = Cast <to = 11> (x)",
    "i = Cast <to = 7> (x) y = Cast <to = 11> (i)",
    {"x": [2**63]},
)
wrong("sign_of_zero_is_nan", "(float[n] x) => (float[n] y)", "y = Sign (x)", "a = Abs (x) y = Div (x, a)", {"x": [0]})
wrong(
    "equality_within_a_millionth",
    "(float[n] a, float[n] b) => (bool[n] y)",
    "y = Equal (a, b)",
    "d = Sub (a, b) p = Abs (d) y = Less (p, k)",
    {"a": [1e-7], "b": [0]},
    "float k = {1e-6}",
)
wrong(
    "first_equal_pair_only",
    "(int64[n] a, int64[n] b) => (bool y)",
    "e = Equal (a, b) c = Cast <to = 6> (e) m = ReduceMin <keepdims = 0> (c) y = Cast <to = 9> (m)",
    "e = Equal (a, b) c = Cast <to = 6> (e) m = ReduceMax <keepdims = 0> (c) y = Cast <to = 9> (m)",
    {"a": [1, 2], "b": [1, 3]},
)
wrong(
    "input_with_a_default_ignored",
    "(float[n] x, float[1] k = {1}) => (float[n] y)",
    "y = Add (x, k)",
    "y = Add (x, one)",
    {"x": [1], "k": [3]},
    "float[1] one = {1}",
)
wrong(
    "loop_state_of_the_step_before",
    "(float[n] x) => (float[n] y)",
    "a, y = Loop (three, yes, x, x) <body = body (int64 i, bool c, float[n] v, float[n] w)"
    " => (bool more, float[n] p, float[n] q) { more = Identity (c) p = Add (v, w) q = Add (p, w) }>",
    "a, y = Loop (three, yes, x, x) <body = body (int64 i, bool c, float[n] v, float[n] w)"
    " => (bool more, float[n] p, float[n] q) { more = Identity (c) p = Add (v, w) q = Add (v, w) }>",
    {"x": [1]},
    "int64 three = {3}, bool yes = {1}",
)
wrong_models(
    "function_body_changed",
    model(
        "g (float[n] x) => (float[n] y) { y = own.twice (x) }",
        functions='<opset_import: ["": 17], domain: "own"> twice (v) => (w) { w = Add (v, v) }',
    ),
    model(
        "g (float[n] x) => (float[n] y) { y = own.twice (x) }",
        functions='<opset_import: ["": 17], domain: "own"> twice (v) => (w) { w = Mul (v, v) }',
    ),
    {"x": [3]},
)
# 60 layers, of which the 41st leaves out its bias past 10.
_layers = [f"h{i} = Add (h{i - 1}, b)" if i % 2 else f"h{i} = Relu (h{i - 1})" for i in range(1, 60)]
_late = [*_layers]
_late[40] = "g41 = Greater (h40, ten) n41 = Add (h40, b) h41 = Where (g41, h40, n41)"
wrong(
    "one_layer_of_sixty",
    "(float[n,4] x) => (float[n,4] y)",
    "h0 = Relu (x) " + " ".join(_layers) + " y = Relu (h59)",
    "h0 = Relu (x) " + " ".join(_late) + " y = Relu (h59)",
    {"x": [[20, 1, 2, 3]]},
    "float b = {0.25}, float ten = {10}",
)

# Right: the same graph in other words.

CHAIN = "g (float[n,3] x, float[n,3] z) => (float[n,3] y) { a = Relu (x) b = Neg (z) y = Add (a, b) }"
right_models(
    "values_renamed",
    model(CHAIN),
    model("g (float[n,3] x, float[n,3] z) => (float[n,3] y) { p = Relu (x) q = Neg (z) y = Add (p, q) }"),
    {"x": TWO_ROWS, "z": TWO_ROWS},
)
right_models(
    "nodes_renamed_and_reordered",
    model(CHAIN),
    model(
        "other (float[k,3] x, float[k,3] z) => (float[k,3] y)"
        " { [first] b = Neg (z) [second] a = Relu (x) [third] y = Add (a, b) }"
    ),
    {"x": TWO_ROWS, "z": TWO_ROWS},
)
right_models(
    "identities_inserted",
    model(CHAIN),
    model(
        "g (float[n,3] x, float[n,3] z) => (float[n,3] y)"
        " { i = Identity (x) j = Identity (i) a = Relu (j) b = Neg (z) k = Add (a, b) y = Identity (k) }"
    ),
    {"x": TWO_ROWS, "z": TWO_ROWS},
)
right_models(
    "constant_for_initializer",
    model("g (float[n,2] x) => (float[n,2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }"),
    model("g (float[n,2] x) => (float[n,2] y) { w = Constant <value_floats = [1.0, 2.0]> () y = Mul (x, w) }"),
    {"x": [[3, 4]]},
)
right_models(
    "function_inlined",
    model(
        "g (float[n] x) => (float[n] y) { y = own.twice (x) }",
        functions='<opset_import: ["": 17], domain: "own"> twice (v) => (w) { w = Add (v, v) }',
    ),
    model("g (float[n] x) => (float[n] y) { y = Add (x, x) }"),
    {"x": [1, 2]},
)
right_models(
    "function_in_a_function",
    model(
        "g (float[n,2] x) => (float[n,2] y) { y = own.twice (x) }",
        functions='<opset_import: ["": 17, "own": 1], domain: "own"> twice (v) => (w) { a = own.half (v)'
        ' w = Add (a, a) } <opset_import: ["": 17], domain: "own"> half (v) => (w) { w = HardSwish (v) }',
    ),
    model("g (float[n,2] x) => (float[n,2] y) { h = HardSwish (x) y = Add (h, h) }"),
    {"x": [[1, 2]]},
)
right_models(
    "hardmax_12_flattened_for_13",
    model("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax <axis = 1> (x) }", 12),
    model(
        "g (float[2,3,4] x) => (float[2,3,4] y) <int64[2] f = {2, 12}, int64[3] s = {2, 3, 4}>"
        " { r = Reshape (x, f) h = Hardmax <axis = 1> (r) y = Reshape (h, s) }",
        13,
    ),
    {"x": RAMP},
)
for _name, _graph, _old, _new in (
    ("relu", "g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }", 13, 14),
    ("hardmax_last_axis", "g (float[n,3] x) => (float[n,3] y) { y = Hardmax <axis = 1> (x) }", 11, 13),
    ("argmax", "g (float[n,3] x) => (int64[n,1] y) { y = ArgMax <axis = 1> (x) }", 11, 13),
    ("add_and_gather", "g (float[7,3] x, int64[n] i) => (float[n,3] y) { a = Add (x, x) y = Gather (a, i) }", 12, 14),
    (
        "convolution",
        "g (float[n,2,h,w] x) => (float[n,1,p,q] y) <float[1,2,1,1] k = {1, 2}> { y = Conv (x, k) }",
        11,
        21,
    ),
    ("softmax_of_a_matrix", "g (float[n,3] x) => (float[n,3] y) { y = Softmax <axis = 1> (x) }", 12, 13),
    (
        "max_pool",
        "g (float[n,2,4,4] x) => (float[n,2,2,2] y) { y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) }",
        8,
        12,
    ),
    (
        "one_hot",
        "g (int64[n] i) => (float[n,3] y) <int64 d = {3}, float[2] v = {0, 1}> { y = OneHot (i, d, v) }",
        11,
        13,
    ),
    ("strings", "g (string[n] s) => (string[n] y) { y = Identity (s) }", 13, 16),
):
    right_models(f"relabelled_{_name}", *restamped(_graph, _old, _new), None)

FOUR = {"x": [[1, 2, 3, 4], [-4, 0, 0.5, 4]]}
for _name, _before, _after in (
    ("transposes_cancel", "y = Relu (x)", "a = Transpose (x) b = Transpose (a) y = Relu (b)"),
    ("subtraction_as_sum", "y = Sub (x, row)", "m = Neg (row) y = Add (x, m)"),
    ("square", "y = Pow (x, two)", "y = Mul (x, x)"),
    ("power_of_a_half", "a = Abs (x) y = Pow (a, half)", "a = Abs (x) y = Sqrt (a)"),
    (
        "softmax_in_parts",
        "y = Softmax <axis = 1> (x)",
        "m = ReduceMax <axes = [1]> (x) s = Sub (x, m) e = Exp (s) t = ReduceSum (e, axis) y = Div (e, t)",
    ),
    (
        "log_softmax_in_parts",
        "y = LogSoftmax <axis = 1> (x)",
        "m = ReduceMax <axes = [1]> (x) s = Sub (x, m) e = Exp (s) t = ReduceSum (e, axis) l = Log (t) y = Sub (s, l)",
    ),
    (
        "layer_normalization_in_parts",
        "y = LayerNormalization (x, row, shift)",
        "m = ReduceMean <axes = [1]> (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean <axes = [1]> (q)"
        " a = Add (v, tiny)"
        " s = Sqrt (a) n = Div (d, s) k = Mul (n, row) y = Add (k, shift)",
    ),
    ("mean_as_sum", "y = ReduceMean <axes = [1]> (x)", "s = ReduceSum (x, axis) y = Div (s, four)"),
    ("sigmoid_in_parts", "y = Sigmoid (x)", "m = Neg (x) e = Exp (m) d = Add (one, e) y = Div (one, d)"),
    ("tanh_is_odd", "y = Tanh (x)", "m = Neg (x) t = Tanh (m) y = Neg (t)"),
    ("division_as_product", "y = Div (x, four)", "y = Mul (x, quarter)"),
    ("division_by_three_as_product", "y = Div (x, three)", "y = Mul (x, third)"),
    ("distributed", "s = Add (x, row) y = Mul (s, three)", "a = Mul (x, three) b = Mul (row, three) y = Add (a, b)"),
    ("leaky_relu_in_parts", "y = LeakyRelu <alpha = 0.25> (x)", "q = Mul (x, quarter) y = Max (q, x)"),
    (
        "hard_sigmoid_in_parts",
        "y = HardSigmoid <alpha = 0.25, beta = 0.5> (x)",
        "q = Mul (x, quarter) s = Add (q, half) y = Clip (s, zero, one)",
    ),
    (
        "squeeze_as_reshape",
        "m = ReduceMax <axes = [1]> (x) r = Squeeze (m, axis) y = Unsqueeze (r, axis)",
        "m = ReduceMax <axes = [1]> (x) r = Reshape (m, flat) y = Unsqueeze (r, axis)",
    ),
    ("norm_in_parts", "y = ReduceL2 <axes = [1]> (x)", "q = Mul (x, x) s = ReduceSum (q, axis) y = Sqrt (s)"),
    ("slice_as_split", "y = Slice (x, zeros, twos, axis)", "y, b = Split <axis = 1> (x, halves)"),
    ("clip_as_min_and_max", "y = Clip (x, one, three)", "a = Min (x, three) y = Max (a, one)"),
    (
        "hardmax_as_argmax_and_one_hot",
        "y = Hardmax <axis = 1> (x)",
        "i = ArgMax <axis = 1, keepdims = 0> (x) y = OneHot (i, depth, values)",
    ),
    ("tile_as_concat", "y = Tile (x, twice)", "y = Concat <axis = 1> (x, x)"),
    ("flip_twice", "y = Identity (x)", "a = Slice (x, last, low, axis, last) y = Slice (a, last, low, axis, last)"),
):
    right(
        _name,
        "(float[n,4] x) => (float[p,q] y)",
        _before,
        _after,
        FOUR,
        "float[4] row = {1,2,3,4}, float[4] shift = {0,1,-1,0.5}, float zero = {0}, float one = {1}, float two = {2},"
        " float three = {3}, float four = {4}, float half = {0.5}, float quarter = {0.25},"
        " float third = {0.3333333432674408}, float tiny = {1e-5}, int64[1] axis = {1}, int64[1] flat = {-1},"
        " int64[1] zeros = {0}, int64[1] twos = {2}, int64[2] halves = {2, 2}, int64 depth = {4},"
        " float[2] values = {0, 1}, int64[2] twice = {1, 2}, int64[1] last = {-1},"
        " int64[1] low = {-9223372036854775808}",
    )

for _type in ("float", "float16"):
    _one = "float one = {1}, float half = {0.5}, float root = {1.4142135381698608}"
    if _type == "float16":
        _one = "float16 one = {15360}, float16 half = {14336}, float16 root = {15784}"
    right(
        f"softmax_in_parts_of_{_type}_rank_3",
        f"({_type}[n,4,2] x) => ({_type}[n,4,2] y)",
        "y = Softmax <axis = 1> (x)",
        "m = ReduceMax <axes = [1]> (x) s = Sub (x, m) e = Exp (s) t = ReduceSum (e, axis) y = Div (e, t)",
        {"x": [[[1, 2], [3, 4], [0, 0], [-1, 1]]]},
        "int64[1] axis = {1}",
    )
    right(
        f"reassociated_sum_of_{_type}",
        f"({_type}[n] a, {_type}[n] b, {_type}[n] c) => ({_type}[n] y)",
        "s = Add (a, b) y = Add (s, c)",
        "s = Add (b, c) y = Add (a, s)",
        {"a": [1], "b": [2], "c": [3]},
    )
    right(
        f"reassociated_sum_of_{_type}_under_another_name",
        f"({_type}[n] a, {_type}[n] b, {_type}[n] c) => ({_type}[n] y)",
        "s = Add (a, b) y = Add (s, c)",
        "t = Add (b, c) y = Add (a, t)",
        {"a": [1], "b": [2], "c": [3]},
    )
    right(
        f"mean_of_{_type}",
        f"({_type}[n,8] x) => ({_type}[n,1] y)",
        "y = ReduceMean <axes = [1]> (x)",
        "h = ReduceSum (x, axis) y = Mul (h, eighth)",
        {"x": [[1, 2, 3, 4, 5, 6, 7, 8]]},
        ("float16 eighth = {12288}" if _type == "float16" else "float eighth = {0.125}") + ", int64[1] axis = {1}",
    )
    right(
        f"gelu_body_of_{_type}",
        f"({_type}[n,4] x) => ({_type}[n,4] y)",
        "y = Gelu (x)",
        "d = Div (x, root) e = Erf (d) s = Add (e, one) p = Mul (x, s) y = Mul (p, half)",
        {"x": [[1, -2, 0.5, 3]]},
        _one,
        opset=20,
    )

right(
    "thousand_terms_in_another_order",
    "(float[n,1000] x) => (float[n,1] y)",
    "y = ReduceSum (x, axis)",
    "r = Slice (x, last, low, axis, last) a, b = Split <axis = 1> (r, halves) s = Add (a, b) y = ReduceSum (s, axis)",
    {"x": np.linspace(0, 1, 1000).reshape(1, 1000)},
    "int64[1] axis = {1}, int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[2] halves = {500, 500}",
)
right(
    "gemm_as_matmul",
    "(float[n,3] x) => (float[n,2] y)",
    "y = Gemm <transB = 1> (x, w, b)",
    "t = Transpose (w) m = MatMul (x, t) y = Add (m, b)",
    {"x": TWO_ROWS},
    "float[2,3] w = {1,2,3,4,5,6}, float[2] b = {0.5, -0.5}",
)
right(
    "three_factors_reassociated",
    "(float[n,3] x) => (float[n,3] y)",
    "a = MatMul (x, v) y = MatMul (a, w)",
    "p = MatMul (v, w) y = MatMul (x, p)",
    {"x": TWO_ROWS},
    "float[3,3] v = {0.1,2,-3,0.4,5,6,0.7,8,9}, float[3,3] w = {1,0.2,3,4,-0.5,6,7,0.8,9}",
)
right(
    "matmul_transposed",
    "(float[n,k] a, float[k,m] b) => (float[n,m] y)",
    "y = MatMul (a, b)",
    "s = Transpose (a) t = Transpose (b) p = MatMul (t, s) y = Transpose (p)",
    {"a": [[1, 2], [3, 4]], "b": [[0.5, 1], [1, 1]]},
)
right(
    "einsum_as_matmul",
    "(float[n,k] a, float[k,m] b) => (float[n,m] y)",
    'y = Einsum <equation = "ij,jk->ik"> (a, b)',
    "y = MatMul (a, b)",
    {"a": [[1, 2], [3, 4]], "b": [[0.5, 1], [1, 1]]},
)
right(
    "convolution_of_halves",
    "(float[n,4,5,5] x) => (float[n,2,5,5] y)",
    "y = Conv <pads = [1,1,1,1]> (x, k)",
    "p, q = Split <axis = 1> (x, halves) v, w = Split <axis = 1> (k, halves) a = Conv <pads = [1,1,1,1]> (p, v)"
    " b = Conv <pads = [1,1,1,1]> (q, w) y = Add (a, b)",
    None,
    "int64[2] halves = {2, 2}",
)
_kernel = {"k": np.random.default_rng(6).standard_normal((2, 4, 3, 3)).astype(np.float32)}
RIGHT["convolution_of_halves"] = Rewrite(
    filled(_kernel, RIGHT["convolution_of_halves"].original),
    filled(_kernel, RIGHT["convolution_of_halves"].rewritten),
    {"x": np.linspace(-1, 1, 100).reshape(1, 4, 5, 5)},
)
_kernel = {"k": np.random.default_rng(7).standard_normal((6, 3, 1, 1)).astype(np.float32)}
_pair = both(
    "(float[n,3,h,w] x) => (float[n,6,h,w] y)",
    "y = Conv (x, k)",
    "t = Transpose <perm = [0,2,3,1]> (x) f = Reshape (k, flat) g = Transpose (f) m = MatMul (t, g)"
    " y = Transpose <perm = [0,3,1,2]> (m)",
    "int64[2] flat = {6, 3}",
)
right_models(
    "convolution_of_one_by_one_as_matmul",
    filled(_kernel, _pair.original),
    filled(_kernel, _pair.rewritten),
    {"x": np.linspace(-1, 1, 12).reshape(1, 3, 2, 2)},
)
right(
    "batch_normalization_folded",
    "(float[n,2] x) => (float[n,2] y)",
    "y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v)",
    "p = Mul (x, k) y = Add (p, c)",
    {"x": [[1, 2]]},
    "float[2] s = {1,2}, float[2] b = {0,1}, float[2] m = {1,0.5}, float[2] v = {4,16}, float[2] k = {0.5,0.5},"
    " float[2] c = {-0.5,0.75}",
)
right(
    "global_average_pool_as_mean",
    "(float[n,2,h,w] x) => (float[n,2,1,1] y)",
    "a = Abs (x) y = GlobalAveragePool (a)",
    "a = Abs (x) y = ReduceMean <axes = [2,3]> (a)",
    {"x": np.linspace(-1, 1, 12).reshape(1, 2, 3, 2)},
)
right(
    "depth_to_space_in_parts",
    "(float[n,8,h,w] x) => (float[n,2,p,q] y)",
    "y = DepthToSpace <blocksize = 2> (x)",
    "s = Shape (x) n = Slice (s, i0, i1) h = Slice (s, i2, i3) w = Slice (s, i3, i4)"
    " a = Concat <axis = 0> (n, i2, i2, i2, h, w)"
    " r = Reshape <allowzero = 1> (x, a) t = Transpose <perm = [0,3,4,1,5,2]> (r) p = Mul (h, i2) q = Mul (w, i2)"
    " b = Concat <axis = 0> (n, i2, p, q) y = Reshape <allowzero = 1> (t, b)",
    {"x": np.arange(32).reshape(1, 8, 2, 2)},
    "int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, int64[1] i4 = {4}",
)

# Right: integers and indices.

for _type in ("float", "int64"):
    right(
        f"argmax_as_topk_of_{_type}",
        f"({_type}[n,5] x) => (int64[n] y)",
        "y = ArgMax <axis = 1, keepdims = 0> (x)",
        "v, i = TopK <axis = 1> (x, one) y = Squeeze (i, one)",
        {"x": [[1, 2, 2, 0, 2]]},
        "int64[1] one = {1}",
    )
right(
    "argmax_of_integers_by_flipping_back",
    "(int64[n,5] x) => (int64[n] y)",
    "y = ArgMax <axis = 1, keepdims = 0, select_last_index = 1> (x)",
    "r = Slice (x, last, low, one, last) i = ArgMax <axis = 1, keepdims = 0> (r) y = Sub (four, i)",
    {"x": [[1, 2, 2, 0, 2]]},
    "int64[1] last = {-1}, int64[1] low = {-9223372036854775808}, int64[1] one = {1}, int64 four = {4}",
)
right(
    "lookup_of_seven_through_cast_and_reshape",
    "(int32[a,b] i) => (float[c,2] y)",
    "k = Cast <to = 7> (i) f = Reshape (k, flat) y = Gather (table, f)",
    "g = Gather (table, i) y = Reshape (g, rows)",
    {"i": [[6, -7], [0, 3]]},
    TABLE + ", int64[1] flat = {-1}, int64[2] rows = {-1, 2}",
)
right(
    "lookup_as_one_hot",
    "(int64[n] i) => (float[n,2] y)",
    "y = Gather (table, i)",
    "h = OneHot (i, seven, values) y = MatMul (h, table)",
    {"i": [6, -7, 0]},
    TABLE + ", int64 seven = {7}, float[2] values = {0, 1}",
)
right(
    "two_lookups_added",
    "(int64[b,t] a, int64[b,t] p) => (float[b,t,2] y)",
    "g = Gather (table, a) h = Gather (small, p) y = Add (g, h)",
    "g = Gather (table, a) h = Gather (small, p) y = Add (h, g)",
    {"a": [[6]], "p": [[2]]},
    TABLE + ", float[3,2] small = {1,2,3,4,5,6}",
)
right(
    "gather_from_an_input",
    "(float[n,4] x, int64[m] i) => (float[m,4] y)",
    "y = Gather (x, i)",
    "u = Unsqueeze (i, one) y = GatherND (x, u)",
    {"x": np.arange(8).reshape(2, 4), "i": [1, -2]},
    "int64[1] one = {1}",
)
right(
    "gather_nd_as_gather",
    "(int64[n,1] i) => (float[n,2] y)",
    "y = GatherND (table, i)",
    "f = Squeeze (i, one) y = Gather (table, f)",
    {"i": [[6], [-7]]},
    TABLE + ", int64[1] one = {1}",
)
right(
    "gather_elements_as_argmax",
    "(float[n,5] x) => (float[n,1] y)",
    "i = ArgMax <axis = 1> (x) y = GatherElements <axis = 1> (x, i)",
    "v, j = TopK <axis = 1> (x, one) y = GatherElements <axis = 1> (x, j)",
    {"x": [[1, 2, 2, 0, 2]]},
    "int64[1] one = {1}",
)
right(
    "scatter_elements_of_one_row",
    "(float[7] x, int64[1] i, float[1] u) => (float[7] y)",
    "y = ScatterElements (x, i, u)",
    "k = Unsqueeze (i, one) y = ScatterND (x, k, u)",
    {"x": [1, 2, 3, 4, 5, 6, 7], "i": [-1], "u": [9]},
    "int64[1] one = {1}",
)
right(
    "one_hot_by_equality",
    "(int64[n] i) => (float[n,5] y)",
    "y = OneHot (i, five, values)",
    "n = Less (i, none) w = Add (i, five) j = Where (n, w, i) u = Unsqueeze (j, one) e = Equal (u, iota)"
    " y = Cast <to = 1> (e)",
    {"i": [-6, -5, -1, 0, 4, 5]},
    "int64 five = {5}, int64 none = {0}, float[2] values = {0, 1}, int64[1] one = {1}, int64[5] iota = {0,1,2,3,4}",
)
right(
    "one_hot_of_a_depth_that_is_an_input",
    "(int64[n] i, int64[1] depth) => (float[n,d] y)",
    "y = OneHot (i, depth, values)",
    "d = Squeeze (depth) n = Less (i, zero) w = Add (i, d) j = Where (n, w, i) u = Unsqueeze (j, one)"
    " r = Range (zero, d, step) e = Equal (u, r) y = Cast <to = 1> (e)",
    {"i": [-6, 0, 5], "depth": [6]},
    "int64 zero = {0}, int64 step = {1}, float[2] values = {0, 1}, int64[1] one = {1}",
)
right(
    "range_sized_by_an_input",
    "(int64 n) => (int64[m] y)",
    "y = Range (zero, n, one)",
    "k = Max (n, zero) s = Unsqueeze (k, axis) o = ConstantOfShape <value = int64[1] {1}> (s)"
    " y = CumSum <exclusive = 1> (o, zero)",
    {"n": 5},
    "int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}",
)
right(
    "tile_sized_by_an_input",
    "(float[2] x, int64[1] k) => (float[m] y)",
    "y = Tile (x, k)",
    "s = Concat <axis = 0> (k, two) e = Expand (x, s) y = Reshape (e, flat)",
    {"x": [1, 2], "k": [3]},
    "int64[1] two = {2}, int64[1] flat = {-1}",
)
right(
    "expand_sized_by_an_input",
    "(float[1,3] x, int64[2] s) => (float[a,b] y)",
    "y = Expand (x, s)",
    "w = Expand (x, s) y = Expand (w, s)",
    {"x": [[1, 2, 3]], "s": [2, 3]},
)
# Not int64, whose remainder onnxruntime takes in double.
right(
    "integer_division_restored",
    "(int32[n] x) => (int32[n] y)",
    "y = Mod <fmod = 1> (x, three)",
    "d = Div (x, three) p = Mul (d, three) y = Sub (x, p)",
    {"x": [-4, 5]},
    "int32 three = {3}",
)
right(
    "int32_through_int64",
    "(int32[n] x) => (int32[n] y)",
    "y = Abs (x)",
    "c = Cast <to = 7> (x) a = Abs (c) y = Cast <to = 6> (a)",
    {"x": [-5, 2147483647]},
)
right(
    "uint8_through_float",
    "(uint8[n] x) => (uint8[n] y)",
    "y = Identity (x)",
    "c = Cast <to = 1> (x) y = Cast <to = 2> (c)",
    {"x": [0, 255]},
)
right(
    "cumsum_reversed",
    "(int64[n] x) => (int64[n] y)",
    "y = CumSum <reverse = 1> (x, zero)",
    "r = Slice (x, last, low, first, last) c = CumSum (r, zero) y = Slice (c, last, low, first, last)",
    {"x": [1, 2, 3]},
    "int64 zero = {0}, int64[1] first = {0}, int64[1] last = {-1}, int64[1] low = {-9223372036854775808}",
)
right(
    "de_morgan",
    "(bool[n] a, bool[n] b) => (bool[n] y)",
    "y = And (a, b)",
    "p = Not (a) q = Not (b) o = Or (p, q) y = Not (o)",
    {"a": [True, False], "b": [True, True]},
)

right(
    "max_of_three",
    "(int64[n] a, int64[n] b, int64[n] c) => (int64[n] y)",
    "y = Max (a, b, c)",
    "m = Max (b, c) y = Max (a, m)",
    {"a": [1], "b": [2], "c": [3]},
)
# Not int64, whose sums onnxruntime rounds.
right(
    "sum_over_two_axes",
    "(float[n,3,4] x) => (float[n] y)",
    "y = ReduceSum <keepdims = 0> (x, both)",
    "s = ReduceSum <keepdims = 0> (x, two) y = ReduceSum <keepdims = 0> (s, one)",
    {"x": np.arange(12).reshape(1, 3, 4)},
    "int64[2] both = {1, 2}, int64[1] one = {1}, int64[1] two = {2}",
)
right(
    "flatten_as_reshape",
    "(float[n,3,4] x) => (float[n,12] y)",
    "y = Flatten (x)",
    "y = Reshape (x, s)",
    {"x": THREE_BY_FOUR},
    "int64[2] s = {-1, 12}",
)
right(
    "concat_of_shapes_for_flatten",
    "(float[n,3,t] x) => (float[n,q] y)",
    "y = Flatten (x)",
    "s = Shape (x) n = Slice (s, zero, one) t = Slice (s, two, three) k = Mul (t, three) d = Concat <axis = 0> (n, k)"
    " y = Reshape <allowzero = 1> (x, d)",
    {"x": THREE_BY_FOUR},
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}",
)
right(
    "input_with_a_default",
    "(float[n] x, float[1] k = {1}) => (float[n] y)",
    "y = Add (x, k)",
    "y = Add (k, x)",
    {"x": [1], "k": [3]},
)
right(
    "scalars",
    "(float a, int64 k) => (float y)",
    "f = Cast <to = 1> (k) y = Mul (a, f)",
    "f = Cast <to = 1> (k) y = Mul (f, a)",
    {"a": 2, "k": 3},
)
right(
    "no_inputs_of_size",
    "(float[0,3] x, float[n,3] z) => (float[m,3] y)",
    "y = Concat <axis = 0> (x, z)",
    "y = Identity (z)",
    {"x": np.zeros((0, 3)), "z": [[1, 2, 3]]},
)
right(
    "unused_input",
    "(float[n] x, string[n] comment) => (float[n] y)",
    "y = Relu (x)",
    "r = Relu (x) y = Identity (r)",
    {"x": [1], "comment": ["a"]},
)
right(
    "same_value_twice",
    "(float[n] x) => (float[n] y, float[n] z)",
    "y = Exp (x) z = Exp (x)",
    "y = Exp (x) z = Identity (y)",
    {"x": [1]},
)
right(
    "rank_of_five",
    "(int64[a,1,b,1,c] x) => (int64[a,b,c] y)",
    "y = Squeeze (x, axes)",
    "f = Squeeze (x, first) y = Squeeze (f, second)",
    {"x": [[[[[1, 2]]]]]},
    "int64[2] axes = {1, 3}, int64[1] first = {1}, int64[1] second = {2}",
)

# Right: domains.

for _name, _before, _after in (
    ("log", "y = Log (x)", "r = Log (x) y = Identity (r)"),
    ("log_of_a_square", "a = Abs (x) l = Log (a) y = Mul (l, two)", "a = Abs (x) l = Log (a) y = Add (l, l)"),
    ("reciprocal_root", "s = Sqrt (x) y = Div (one, s)", "s = Sqrt (x) y = Reciprocal (s)"),
    ("power", "y = Pow (x, three)", "a = Mul (x, x) y = Mul (a, x)"),
    ("acos", "a = Acos (x) y = Mul (a, two)", "a = Acos (x) y = Add (a, a)"),
    ("atanh", "y = Atanh (x)", "n = Neg (x) a = Atanh (n) y = Neg (a)"),
    ("tangent", "y = Tan (x)", "s = Sin (x) c = Cos (x) y = Div (s, c)"),
):
    right(
        f"domain_of_{_name}",
        "(float[n] x) => (float[n] y)",
        _before,
        _after,
        {"x": [0.5, 0.25]},
        "float one = {1}, float two = {2}, float three = {3}",
    )

# Right: related sizes.

right(
    "related_attention",
    "(float[b,t,4] x, float[b,p,4] past, float[b,m] mask) => (float[b,t,4] y)",
    "k = Concat <axis = 1> (past, x) r = Transpose <perm = [0,2,1]> (k) s = MatMul (x, r) u = Unsqueeze (mask, one)"
    " a = Add (s, u) w = Softmax (a) y = MatMul (w, k)",
    "k = Concat <axis = 1> (past, x) q = Identity (x) r = Transpose <perm = [0,2,1]> (k) s = MatMul (q, r)"
    " u = Unsqueeze (mask, one) a = Add (u, s) w = Softmax <axis = 2> (a) y = MatMul (w, k)",
    {"x": [[[1, 0, 0, 0]]], "past": [[[0, 1, 0, 0]]], "mask": [[0, 0.5]]},
    "int64[1] one = {1}",
)
right(
    "related_multiple_of_four",
    "(float[n,h] x) => (float[n,4,g] y)",
    "y = Reshape (x, s)",
    "s0 = Shape <end = 1> (x) q = Concat <axis = 0> (s0, rest) y = Reshape (x, q)",
    {"x": [[1, 2, 3, 4, 5, 6, 7, 8]]},
    "int64[3] s = {0, 4, -1}, int64[2] rest = {4, -1}",
)
_pair = both("(float[n,d] x) => (float[n,7] y)", "m = MatMul (x, w) y = Relu (m)", "g = Gemm (x, w) y = Relu (g)")
right_models(
    "related_to_a_weight_of_seven",
    filled(_square, _pair.original),
    filled(_square, _pair.rewritten),
    {"x": [[1, 0, 0, 0, 0, 0, 0]]},
)
right(
    "related_concat_of_two_batches",
    "(float[a,3] x, float[b,3] z, float[c,1] k) => (float[c,3] y)",
    "j = Concat <axis = 0> (x, z) y = Mul (j, k)",
    "j = Concat <axis = 0> (x, z) y = Mul (k, j)",
    {"x": TWO_ROWS, "z": [[7, 8, 9]], "k": [[1], [2], [3]]},
)
right(
    "shape_given_by_the_user",
    "(float[n,m] x) => (float[17,23] y)",
    "y = Reshape (x, s)",
    "f = Reshape (x, t) y = Reshape (f, s)",
    {"x": np.arange(391).reshape(17, 23)},
    "int64[2] s = {17, 23}, int64[1] t = {391}",
    shapes={"x": (17, 23)},
)

# Right: branches and loops.

# onnxruntime's Where may lose the sign of a zero, so that these have no zeros.
right(
    "branches_as_where",
    "(bool c, float[n] x) => (float[n] y)",
    "y = If (c) <then_branch = a () => (float[n] u) { u = Exp (x) }, else_branch = b () => (float[n] u)"
    " { u = Cosh (x) }>",
    "m = Exp (x) k = Cosh (x) y = Where (c, m, k)",
    {"c": False, "x": [1]},
)
right(
    "branches_as_where_of_integers",
    "(bool c, int64[n] x) => (int64[n] y)",
    "y = If (c) <then_branch = a () => (int64[n] u) { u = Identity (x) }, else_branch = b () => (int64[n] u)"
    " { u = Neg (x) }>",
    "m = Neg (x) y = Where (c, x, m)",
    {"c": False, "x": [1]},
)
right(
    "branches_swapped",
    "(bool c, float[n] x) => (float[n] y)",
    "y = If (c) <then_branch = a () => (float[n] u) { u = Identity (x) }, else_branch = b () => (float[n] u)"
    " { u = Neg (x) }>",
    "d = Not (c) y = If (d) <then_branch = b () => (float[n] u) { u = Neg (x) }, else_branch = a () => (float[n] u)"
    " { u = Identity (x) }>",
    {"c": False, "x": [1]},
)
right(
    "loop_unrolled",
    "(float[n] x) => (float[n] y)",
    "y = Loop (three, yes, x) <body = body (int64 i, bool c, float[n] v) => (bool more, float[n] w)"
    " { more = Identity (c) w = Mul (v, v) }>",
    "a = Mul (x, x) b = Mul (a, a) y = Mul (b, b)",
    {"x": [1, 2]},
    "int64 three = {3}, bool yes = {1}",
)
right(
    "loop_as_product",
    "(int64 m, int64[n] x) => (int64[n] y)",
    "y = Loop (m, yes, x) <body = body (int64 i, bool c, int64[n] v) => (bool more, int64[n] w)"
    " { more = Identity (c) w = Add (v, k) }>",
    "r = Max (m, none) p = Mul (r, k) y = Add (x, p)",
    {"m": 3, "x": [1]},
    "int64 k = {2}, int64 none = {0}, bool yes = {1}",
)
right(
    "scan_as_cumsum",
    "(int64[n,2] x) => (int64[n,2] y)",
    "f, y = Scan (start, x) <num_scan_inputs = 1, body = body (int64[2] s, int64[2] e) => (int64[2] t, int64[2] o)"
    " { t = Add (s, e) o = Identity (t) }>",
    "y = CumSum (x, zero)",
    {"x": [[1, 2], [3, 4]]},
    "int64[2] start = {0, 0}, int64 zero = {0}",
)

# Right: strings, sequences, optionals, small types.

right(
    "strings_chosen",
    "(string[n] a, string[n] b, bool[n] c) => (string[n] y)",
    "y = Where (c, a, b)",
    "d = Not (c) y = Where (d, b, a)",
    {"a": ["x"], "b": [""], "c": [True]},
)
right(
    "strings_joined",
    "(string[n] a, string[n] b) => (string[n] y)",
    "s = StringConcat (a, b) y = StringConcat (s, a)",
    "s = StringConcat (b, a) y = StringConcat (a, s)",
    {"a": ["x"], "b": ["Z"]},
    opset=20,
)
right(
    "labels_twice",
    "(string[n] s) => (int64[n] y)",
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = -1> (s)',
    'y = ai.onnx.ml.LabelEncoder <keys_strings = ["dog", "cat"], values_int64s = [2, 1], default_int64 = -1> (s)',
    {"s": ["dog", "x"]},
    ml=True,
)
right(
    "sequence_of_inputs",
    "(seq(float[k]) s) => (float[k] y)",
    "y = SequenceAt (s, zero)",
    "n = SequenceLength (s) m = Neg (n) y = SequenceAt (s, m)",
    {"s": [[1], [2]]},
    "int64 zero = {0}",
)
right(
    "sequence_rebuilt",
    "(seq(float[k]) s) => (int64 y)",
    "y = SequenceLength (s)",
    "e = Identity (s) y = SequenceLength (e)",
    {"s": [[1], [2]]},
)
right(
    "optional_negated_twice",
    "(optional(float[k]) o) => (bool y)",
    "y = OptionalHasElement (o)",
    "p = OptionalHasElement (o) n = Not (p) y = Not (n)",
    {"o": None},
)
right(
    "bfloat16_of_an_input",
    "(bfloat16[n] x) => (float[n] y)",
    "y = Cast <to = 1> (x)",
    "d = Cast <to = 11> (x) y = Cast <to = 1> (d)",
    {"x": [-1, 0.1]},
)
right(
    "float16_cast_to_double",
    "(float16[n] x) => (float[n] y)",
    "y = Cast <to = 1> (x)",
    "d = Cast <to = 11> (x) y = Cast <to = 1> (d)",
    {"x": [-1, 0.1]},
)
right(
    "quantised_copy",
    "(float[n] x) => (uint8[n] q, float s, uint8 z)",
    "q, s, z = DynamicQuantizeLinear (x)",
    "i = Identity (x) q, s, z = DynamicQuantizeLinear (i)",
    {"x": [-1, 2]},
)
right(
    "dynamically_quantised_matmul",
    "(float[n,3] x) => (float[n,2] y)",
    "q, s, z = DynamicQuantizeLinear (x) m = MatMulInteger (q, w, z) c = Cast <to = 1> (m)"
    " k = Mul (s, t) y = Mul (c, k)",
    "q, s, z = DynamicQuantizeLinear (x) m = MatMulInteger (q, w, z) c = Cast <to = 1> (m)"
    " k = Mul (t, s) y = Mul (k, c)",
    {"x": TWO_ROWS},
    "int8[3,2] w = {1,-2,3,-4,5,-6}, float t = {0.25}",
)
_lstm = {name: LSTM[name] for name in ("w", "r")}
right_models(
    "lstm_with_symbols_renamed",
    filled(
        _lstm, model("g (float[seq,batch,2] x) => (float[seq,1,batch,3] y) { y = LSTM <hidden_size = 3> (x, w, r) }")
    ),
    filled(_lstm, model("g (float[t,n,2] x) => (float[t,1,n,3] y) { y, h, c = LSTM <hidden_size = 3> (x, w, r) }")),
    TIME,
)

# Right: what onnxruntime has no kernel for, or does not load.

right(
    "hardmax_of_doubles",
    "(double[n,4] x) => (double[n,4] y)",
    "y = Hardmax <axis = 1> (x)",
    "i = ArgMax <axis = 1, keepdims = 0> (x) y = OneHot (i, depth, values)",
    {"x": [[1, 2, 2, 0]]},
    "int64 depth = {4}, double[2] values = {0, 1}",
    runs=False,
)
wrong(
    "hardmax_of_doubles_as_float",
    "(double[n,4] x) => (double[n,4] y)",
    "y = Hardmax <axis = 1> (x)",
    "f = Cast <to = 1> (x) h = Hardmax <axis = 1> (f) y = Cast <to = 11> (h)",
    {"x": [[1, 1.0000000001, 2, 2.0000000001]]},
    runs=False,
)
for _new in (27, 28):
    right_models(
        f"opset_{_new}_that_onnxruntime_does_not_load",
        model("g (float[n,4] x) => (float[n,4] y) { y = Hardmax <axis = 1> (x) }", _new),
        model("g (float[n,4] x) => (float[n,4] y) { y = Hardmax <axis = 1> (x) }", 13),
        {"x": [[1, 2, 2, 0]]},
        runs=False,
    )
    right_models(
        f"opset_{_new}_on_both_sides",
        model(
            "g (int64[n] i) => (float[n,4] y) <int64 d = {4}, float[2] v = {0, 1}>"
            " { h = OneHot (i, d, v) y = Relu (h) }",
            _new,
        ),
        model(
            "g (int64[n] i) => (float[n,4] y) <int64 d = {4}, float[2] v = {0, 1}>"
            " { h = OneHot (i, d, v) y = Identity (h) }",
            _new,
        ),
        {"i": [1]},
        runs=False,
    )
    wrong_models(
        f"opset_{_new}_axis",
        model("g (float[n,n] x) => (float[n,n] y) { y = Hardmax <axis = 1> (x) }", _new),
        model("g (float[n,n] x) => (float[n,n] y) { y = Hardmax <axis = 0> (x) }", _new),
        {"x": SQUARE},
        runs=False,
    )

# What onnxruntime does not survive: name -> the model, and words of which the reason must have one.


@dataclasses.dataclass(frozen=True)
class Adversarial:
    """A model that harms the process that runs it, one that is harmless, and what the reason must speak of."""

    harmful: onnx.ModelProto
    harmless: onnx.ModelProto
    words: tuple[str, ...]
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)


ADVERSARIAL: dict[str, Adversarial] = {}
SIGNALS = ("signal", "SIGFPE", "SIGABRT", "died", "killed")
MEMORY = ("memory", "alloc", "bytes")
TIME_OUT = ("second", "timeout", "time")


def adversarial(
    name: str, signature: str, harmful: str, harmless: str, words: tuple[str, ...], weights: str, **more: Any
) -> None:
    """Note a body that harms."""
    pair = both(signature, harmful, harmless, weights)
    ADVERSARIAL[name] = Adversarial(pair.original, pair.rewritten, words, more)


adversarial(
    "division_when_the_model_is_opened",
    "(int64[n] x) => (int64[n] y)",
    "d = Div (low, minus) y = Add (x, d)",
    "y = Identity (x)",
    SIGNALS,
    "int64 low = {-9223372036854775808}, int64 minus = {-1}",
)
adversarial(
    "division_when_the_model_runs",
    "(int64[3] x) => (int64[3] y)",
    "z = Sub (x, x) l = Add (z, low) m = Add (z, minus) y = Div (l, m)",
    "y = Identity (x)",
    SIGNALS,
    "int64 low = {-9223372036854775808}, int64 minus = {-1}",
)
ADVERSARIAL["gru_of_no_steps"] = Adversarial(
    filled(LSTM, model("g (float[t,1,2] x) => (float[t,1,1,3] y) { y = GRU <hidden_size = 3> (x, k, q, b) }")),
    model(
        "g (float[t,1,2] x) => (float[t,1,1,3] y) <int64[3] more = {1, 1, 3}, float[1] z = {0}>"
        " { t = Shape <end = 1> (x) s = Concat <axis = 0> (t, more) y = Expand (z, s) }"
    ),
    SIGNALS,
    {"input_shapes": {"x": (0, 1, 2)}},
)
for _name, _count, _go in (("two_to_the_62_trips", "forever", "yes"), ("a_condition_that_never_ends", "", "yes")):
    adversarial(
        f"loop_of_{_name}",
        "(float[n] x) => (float[n] y)",
        f"y = Loop ({_count}, {_go}, x) <body = body (int64 i, bool c, float[n] v) => (bool more, float[n] w)"
        " { more = Identity (c) w = Neg (v) }>",
        "y = Identity (x)",
        TIME_OUT,
        "int64 forever = {4611686018427387904}, bool yes = {1}",
        timeout=2,
    )
adversarial(
    "four_terabytes",
    "(float[n] x) => (float s)",
    "c = ConstantOfShape (h) t = ReduceSum <keepdims = 0> (c) u = ReduceSum <keepdims = 0> (x) s = Add (t, u)",
    "s = ReduceSum <keepdims = 0> (x)",
    MEMORY,
    "int64[1] h = {1099511627776}",
)
adversarial(
    "six_gigabytes_of_an_expansion",
    "(float[1] x) => (float s)",
    "z = IsNaN (x) k = Cast <to = 7> (z) h = Add (k, many) e = Expand (x, h) s = ReduceMax <keepdims = 0> (e)",
    "s = ReduceMax <keepdims = 0> (x)",
    MEMORY,
    "int64[1] many = {1610612736}",
    memory=2 * 1024**3,
)
