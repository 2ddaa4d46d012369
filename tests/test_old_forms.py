"""Models written as each operator version's own opset has them, 7 to 13, and taken to every opset there is.

A form that a later version keeps stands once, with the range of opsets that read it; each version in it is tried.
onnxruntime runs the original at its own opset, and what it computes is what every conversion must compute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model
from review_versions import versions
from running import OPSETS, Array, CannotRunError, differences, run, version_at

import opshift
from opshift.opsets.registry.no_conversion import no_conversions

OLD = range(7, 14)
UNARY = (
    "Abs Acos Asin Atan Ceil Cos Elu Exp Floor HardSigmoid Identity LeakyRelu Log Neg Reciprocal Relu Selu Sigmoid "
    "Sin Softplus Softsign Sqrt Tan Tanh Acosh:9 Asinh:9 Atanh:9 Cosh:9 Sinh:9 Erf:9 Sign:9 Round:11 Celu:12 "
    "ThresholdedRelu:10"
)
BINARY = "Add Sub Mul Div Pow PRelu Sum:8 Max:8 Min:8 Mean:8"
UNBROADCAST = "Sum Max Min Mean"
LOGICAL = "And Or Xor"
COMPARED = "Equal:11 Greater Less GreaterOrEqual:12 LessOrEqual:12"
REDUCED = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"

FORMS = """
7-13 (float[2,3,4] x) => (float[] y, float[] z) { y = Softmax (x) z = LogSoftmax <axis = 2> (x) }
7-13 (float[2,3,4] x) => (float[] y) { y = LogSoftmax (x) }
7-13 (float[2,3,4] x) => (float[] y) { y = Softmax <axis = 0> (x) }
7-13 (float[2,3,4] x) => (float[] y) { y = Hardmax <axis = 1> (x) }
7-13 (float[2,3,4] x) => (float[] y) { y = Flatten <axis = 2> (x) }
11-13 (float[2,3,4] x) => (float[] y) { y = Flatten <axis = -1> (x) }
7-13 (float[2,3,4] x) => (int64[] y, int64[] z) { y = ArgMax <axis = 1> (x) z = ArgMin <axis = 2, keepdims = 0> (x) }
12-13 (float[2,3] x) => (int64[] y) { y = ArgMin <axis = 1, select_last_index = 1> (x) }
7-12 (float[2,3,4] x) => (float[] y) { y = ReduceSum <axes = [0, 2], keepdims = 0> (x) }
13-13 (float[2,3,4] x) => (float[] y) <int64[2] a = {0, 2}> { y = ReduceSum <keepdims = 0> (x, a) }
13-13 (float[2,3,4] x) => (float[] y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }
7-8 (float[4,6,6] x) => (float[] y) { s = Constant <value = int64[2] {0, -1}> () y = Reshape (x, s) }
7-13 (float[2,3,4] x, int64[2] s) => (float[] y) { y = Reshape (x, s) }
7-12 (float[1,3,1] x) => (float[] y) { y = Squeeze <axes = [0, 2]> (x) }
7-13 (float[1,3,1] x) => (float[] y) { y = Squeeze (x) }
13-13 (float[1,3,1] x) => (float[] y) <int64[1] a = {-1}> { y = Squeeze (x, a) }
7-12 (float[3,2] x) => (float[] y) { y = Unsqueeze <axes = [0, 3]> (x) }
11-12 (float[3,2] x) => (float[] y) { y = Unsqueeze <axes = [-1]> (x) }
13-13 (float[3,2] x) => (float[] y) <int64[2] a = {0, 3}> { y = Unsqueeze (x, a) }
7-12 (float[5,4] x) => (float[] y, float[] z) { y, z = Split <axis = 0, split = [2, 3]> (x) }
7-13 (float[6,4] x) => (float[] y, float[] z) { y, z = Split (x) }
13-13 (float[5,4] x) => (float[] y, float[] z) <int64[2] s = {2, 3}> { y, z = Split (x, s) }
7-9 (float[5,4] x) => (float[] y) { y = Slice <starts = [1, -3], ends = [9, -1], axes = [0, 1]> (x) }
7-9 (float[5,4] x) => (float[] y) { y = Slice <starts = [1], ends = [3]> (x) }
10-13 (float[5,4] x) => (float[] y) <int64[2] s = {4, 0}, int64[2] e = {-9, 3}, int64[2] a = {0, 1}, int64[2] d = {-2,
  2}> { y = Slice (x, s, e, a, d) }
7-10 (float[2,3] x) => (float[] y) { y = Pad <pads = [0, 1, 1, 0], value = 2.5> (x) }
7-10 (float[3,3] x) => (float[] y) { y = Pad <pads = [0, 1, 1, 2], mode = "reflect"> (x) }
7-10 (float[3,3] x) => (float[] y) { y = Pad <pads = [0, -1, 1, 0], mode = "edge"> (x) }
11-13 (float[2,3] x) => (float[] y) <int64[4] p = {0, 1, 1, 0}, float v = {2.5}> { y = Pad (x, p, v) }
7-10 (float[2,3] x) => (float[] y) { y = Clip <min = -0.5, max = 0.5> (x) }
7-13 (float[2,3] x) => (float[] y) { y = Clip (x) }
11-13 (float[2,3] x) => (float[] y) <float a = {-0.5}> { y = Clip (x, a) }
7-11 (float[2,3] x) => (float[] y) { y = Dropout <ratio = 0.3> (x) }
12-13 (float[2,3] x) => (float[] y) <float r = {0.3}> { y = Dropout (x, r) }
10-13 (float[2,3] x) => (float[] y, bool[] m) { y, m = Dropout (x) }
7-9 (float[4,6] x) => (float[] y, int64[] i) { y, i = TopK <k = 3> (x) }
7-9 (float[4,6] x) => (float[] y, int64[] i) { y, i = TopK <k = 2, axis = 0> (x) }
10-13 (float[4,6] x) => (float[] y, int64[] i) <int64[1] k = {3}> { y, i = TopK (x, k) }
11-13 (float[4,6] x) => (float[] y, int64[] i) <int64[1] k = {3}> { y, i = TopK <largest = 0, axis = 0> (x, k) }
7-13 (float[2,3] x) => (int32[] y, double[] z) { y = Cast <to = 6> (x) z = Cast <to = 11> (x) }
7-13 (float[2,3] x) => (bool[] y) { y = Cast <to = 9> (x) }
9-13 (int64[2,3] x) => (string[] y) { y = Cast <to = 8> (x) }
7-13 (float[2,3] x, float[2,1] z) => (float[] y) { y = Concat <axis = 1> (x, z) }
11-13 (float[2,3] x, float[2,1] z) => (float[] y) { y = Concat <axis = -1> (x, z) }
7-13 () => (float[] y) { y = Constant <value = float[2] {1, 2}> () }
12-13 () => (float y, int64[] z, float[] u) { y = Constant <value_float = 2.5> () z = Constant <value_ints = [3, 4]>
  () u = Constant <value_floats = [0.5]> () }
9-13 (int64[2] s) => (float[] y) { y = ConstantOfShape (s) }
9-13 (int64[2] s) => (int32[] y) { y = ConstantOfShape <value = int32[1] {7}> (s) }
7-13 (float[5] x, int64[2,2] i) => (float[] y) { y = Gather (x, i) }
11-13 (float[2,3] x, int64[2,2] i) => (float[] y) { y = GatherElements <axis = 1> (x, i) }
11-13 (float[3,3,2] x, int64[4,2] i) => (float[] y) { y = GatherND (x, i) }
12-13 (float[3,3,2] x, int64[3,1] i) => (float[] y) { y = GatherND <batch_dims = 1> (x, i) }
7-10 (float[2,3] x, float[3,4] z, float[2,4] c) => (float[] y) { y = Gemm <alpha = 0.5, beta = 2.0> (x, z, c) }
7-13 (float[3,2] x, float[3,4] z, float[4] c) => (float[] y) { y = Gemm <transA = 1> (x, z, c) }
11-13 (float[2,3] x, float[3,4] z) => (float[] y) { y = Gemm (x, z) }
7-13 (float[2,2,3] x, float[3,4] z) => (float[] y) { y = MatMul (x, z) }
7-13 (float[2,3,4] x) => (float[] y) { y = Transpose <perm = [2, 0, 1]> (x) }
7-13 (float[2,3,4] x) => (int64[] y, int64 z) { y = Shape (x) z = Size (x) }
7-13 (float[2,3] x, int64[2] s) => (float[] y) { y = Tile (x, s) }
8-13 (float[3,1] x) => (float[] y) <int64[3] s = {2, 1, 4}> { y = Expand (x, s) }
7-10 (int32[2,3] x, int32[3] z) => (bool[] y) { y = Equal (x, z) }
7-13 (bool[2,3] x, bool[3] z) => (bool[] y) { y = Equal (x, z) }
9-13 (int64[2,3] x, int64[3] z) => (bool[] y, bool[] u) { y = Greater (x, z) u = Less (x, z) }
9-13 (bool[2,3] c, float[3] x, float[2,1] z) => (float[] y) { y = Where (c, x, z) }
9-13 (float[2,3] x) => (int64[] y) { y = NonZero (x) }
9-13 (float[2,3] x) => (bool[] y) { n = Log (x) y = IsNaN (n) }
10-13 (float[2,3] x) => (bool[] y) { o = Sub (x, x) n = Reciprocal (o) y = IsInf <detect_negative = 0> (n) }
9-13 (float[4,3] x) => (float[] y) <bool[3] c = {1, 0, 1}> { y = Compress <axis = 1> (x, c) }
9-13 (int64[2,3] x) => (float[] y) <int64 d = {4}, float[2] v = {0, 1}> { y = OneHot (x, d, v) }
9-13 (float[2,3] x) => (float[] y) { y = EyeLike <k = 1> (x) }
9-10 (float[3,3] x, int64[2,2] i, float[2,2] u) => (float[] y) { y = Scatter (x, i, u) }
11-13 (float[3,3] x, int64[1,2] i, float[1,2] u) => (float[] y) { y = ScatterElements <axis = 0> (x, i, u) }
11-13 (float[4,3] x, float[1,3] u) => (float[] y) <int64[1,1] i = {2}> { y = ScatterND (x, i, u) }
11-13 (float[2,3] x) => (float[] y) <int64 a = {1}> { y = CumSum <reverse = 1, exclusive = 1> (x, a) }
11-13 () => (int64[] y) <int64 a = {1}, int64 b = {9}, int64 c = {3}> { y = Range (a, b, c) }
10-13 (int64[2,3] x) => (int64[] y) <int64[1] z = {3}> { y = Mod (x, z) }
10-13 (float[2,3] x) => (float[] y) <float[1] z = {0.75}> { y = Mod <fmod = 1> (x, z) }
11-13 (uint8[2,3] x) => (uint8[] y) <uint8[1] z = {2}> { y = BitShift <direction = "LEFT"> (x, z) }
12-13 (float[2,3] x, float[3,4] z) => (float[] y) { y = Einsum <equation = "ij,jk->ik"> (x, z) }
11-13 (float[3,3] x) => (float y) { y = Det (x) }
11-13 (int64[6] x) => (int64[] y, int64[] i) { y, i = Unique (x) }
10-13 (float[4,3] x) => (float[] y) <int64[3] n = {4, 1, 2}> { y = ReverseSequence (x, n) }
11-13 (float[4,3] x) => (float[] y) { s = SplitToSequence (x) y = ConcatFromSequence <axis = 0> (s) }
7-13 (float[1,8,2,2] x) => (float[] y) { y = DepthToSpace <blocksize = 2> (x) }
11-13 (float[1,8,2,2] x) => (float[] y) { y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }
7-13 (float[1,2,4,4] x) => (float[] y) { y = SpaceToDepth <blocksize = 2> (x) }
7-8 (float[1,2,3,3] x) => (float[] y) { y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (x) }
7-8 (float[1,1,3,3] x) => (float[] y) { y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x) }
9-9 (float[1,2,3,3] x) => (float[] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample <mode = "nearest"> (x, s) }
9-9 (float[1,1,3,3] x) => (float[] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample <mode = "linear"> (x, s) }
10-10 (float[1,2,4,4] x) => (float[] y) <float[4] s = {1, 1, 0.5, 1.5}> { y = Resize (x, s) }
10-10 (float[1,1,4,4] x) => (float[] y) <float[4] s = {1, 1, 2, 2}> { y = Resize <mode = "linear"> (x, s) }
11-13 (float[1,1,4,4] x) => (float[] y) <float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 2}> { y =
  Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, r, s) }
11-13 (float[1,1,4,4] x) => (float[] y) <float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 2}> { y =
  Resize <mode = "cubic"> (x, r, s) }
7-13 (float[1,2,5,5] x, float[3,2,3,3] w, float[3] b) => (float[] y) { y = Conv <pads = [1, 1, 0, 0], strides = [2,
  1]> (x, w, b) }
7-13 (float[1,2,5] x, float[2,3,3] w) => (float[] y) { y = ConvTranspose <strides = [2], output_padding = [1]> (x, w)
  }
7-13 (float[1,2,5,5] x) => (float[] y) { y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 0],
  count_include_pad = 1> (x) }
10-13 (float[1,2,5,5] x) => (float[] y) { y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
  }
7-13 (float[1,2,5,5] x) => (float[] y) { y = MaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 0]> (x) }
8-13 (float[1,2,4,4] x) => (float[] y, int64[] i) { y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }
10-13 (float[1,2,5,5] x) => (float[] y) { y = MaxPool <kernel_shape = [2, 2], dilations = [2, 1], ceil_mode = 1> (x) }
9-13 (float[1,1,4,4] x) => (float[] y) { p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) y = MaxUnpool
  <kernel_shape = [2, 2], strides = [2, 2]> (p, i) }
7-13 (float[1,2,5,5] x) => (float[] y) { y = LpPool <kernel_shape = [2, 2], p = 3> (x) }
7-13 (float[1,2,5,5] x) => (float[] y, float[] z, float[] u) { y = GlobalAveragePool (x) z = GlobalMaxPool (x) u =
  GlobalLpPool (x) }
7-13 (float[1,1,6,6] x) => (float[] y) <float[1,5] r = {0, 0, 0, 4, 4}> { y = MaxRoiPool <pooled_shape = [2, 2]> (x,
  r) }
10-13 (float[1,1,6,6] x) => (float[] y) <float[1,4] r = {0, 0, 4, 4}, int64[1] b = {0}> { y = RoiAlign <output_height
  = 2, output_width = 2, sampling_ratio = 2> (x, r, b) }
9-13 (float[2,2,3,3] x) => (float[] y) { y = MeanVarianceNormalization (x) }
7-13 (float[1,4,3,3] x) => (float[] y) { y = LRN <size = 3> (x) }
7-13 (float[2,3,4] x) => (float[] y) { y = LpNormalization <axis = 1, p = 1> (x) }
7-13 (float[2,3,4] x, float[3] s, float[3] b) => (float[] y) { y = InstanceNormalization (x, s, b) }
7-13 (float[2,3,4] x) => (float[] y) <float[3] s = {1, 2, 0.5}, float[3] b = {0, 1, 2}, float[3] m = {0.1, 0.2, 0.3},
  float[3] v = {1, 0.5, 2}> { y = BatchNormalization (x, s, b, m, v) }
7-13 (float[3,2,4] x, float[1,9,4] w, float[1,9,3] r, float[1,18] b) => (float[] y, float[] h) { y, h = GRU
  <hidden_size = 3> (x, w, r, b) }
7-13 (float[3,2,4] x, float[1,12,4] w, float[1,12,3] r) => (float[] y, float[] h, float[] c) { y, h, c = LSTM
  <hidden_size = 3> (x, w, r) }
7-13 (float[3,2,4] x, float[2,3,4] w, float[2,3,3] r) => (float[] y, float[] h) { y, h = RNN <hidden_size = 3,
  direction = "bidirectional"> (x, w, r) }
10-10 (float[1,4,4] b, float[1,1,4] s) => (int64[] y) <int64 m = {2}> { y = NonMaxSuppression (b, s, m) }
11-13 (float[1,4,4] b, float[1,1,4] s) => (int64[] y) <int64 m = {2}, float t = {0.4}> { y = NonMaxSuppression (b, s,
  m, t) }
10-13 (float[2,3] x) => (uint8[] y, float[] z) <float s = {0.1}, uint8 o = {128}> { y = QuantizeLinear (x, s, o) z =
  DequantizeLinear (y, s, o) }
13-13 (float[2,3] x) => (int8[] y, float[] z) <float[3] s = {0.1, 0.2, 0.3}, int8[3] o = {1, -2, 0}> { y =
  QuantizeLinear <axis = 1> (x, s, o) z = DequantizeLinear <axis = 1> (y, s, o) }
10-13 (uint8[2,3] x, uint8[3,2] w) => (uint8[] y) <float s = {0.1}, uint8 o = {2}, float t = {1.5}> { y =
  QLinearMatMul (x, s, o, w, s, o, t, o) }
12-13 (float[3,4] x, int64[3] t) => (float y) { y = NegativeLogLikelihoodLoss (x, t) }
12-13 (float[3,4] x, int64[3] t) => (float[] y) { y = SoftmaxCrossEntropyLoss <reduction = "none"> (x, t) }
7-13 (bool[1] p, float[2] x) => (float[] y) { c = Squeeze (p) y = If (c) <then_branch = t () => (float[2] u) { u = Neg
  (x) }, else_branch = e () => (float[2] v) { v = Abs (x) }> }
7-13 (float[2] x) => (float[] y, float[] z) <int64 n = {3}, bool c = {1}> { y, z = Loop (n, c, x) <body = b (int64 i,
  bool k, float[2] s) => (bool l, float[2] t, float[2] u) { l = Identity (k) t = Add (s, x) u = Identity (t) }> }
8-8 (float[1,4,2] x, float[1,2] s) => (float[] y, float[] z) { y, z = Scan <num_scan_inputs = 1, body = b (float[2] a,
  float[2] c) => (float[2] d, float[2] e) { d = Add (a, c) e = Identity (d) }> (, s, x) }
9-13 (float[4,2] x, float[2] s) => (float[] y, float[] z) { y, z = Scan <num_scan_inputs = 1, body = b (float[2] a,
  float[2] c) => (float[2] d, float[2] e) { d = Add (a, c) e = Identity (d) }> (s, x) }
"""


@dataclass(frozen=True)
class Form:
    """A graph as text, and the opset that it is written for."""

    graph: str
    opset: int

    def model(self) -> onnx.ModelProto:
        return parse_model(f'<ir_version: 7, opset_import: ["": {self.opset}]> g {self.graph}')

    def __str__(self) -> str:
        return f"{'-'.join(sorted(_operators(self.graph)))}-{self.opset}"


def _operators(graph: str) -> set[str]:
    text = re.sub(r'"[^"]*"', "", graph)
    return set(re.findall(r"=\s+([A-Z]\w+)\s*[(<]", text))


def _spread(graph: str, first: int, last: int) -> list[Form]:
    """Return the form at the first opset of each version in a range."""
    found: dict[tuple[int | None, ...], Form] = {}
    for opset in range(first, last + 1):
        key = tuple(version_at(operator, opset) for operator in sorted(_operators(graph)))
        found.setdefault(key, Form(graph, opset))
    return list(found.values())


def _named(names: str, graph: str) -> list[Form]:
    forms = []
    for entry in names.split():
        name, _, first = entry.partition(":")
        forms += _spread(graph.replace("NAME", name), int(first or 7), 13)
    return forms


def _forms() -> list[Form]:
    forms = _named(UNARY, "(float[2,3] x) => (float[2,3] y) { y = NAME (x) }")
    forms += _named(BINARY, "(float[2,3] x, float[3] z) => (float[2,3] y) { y = NAME (x, z) }")
    forms += _named(UNBROADCAST, "(float[2,3] x, float[2,3] z) => (float[2,3] y) { y = NAME (x, z, x) }")
    forms += _named(LOGICAL, "(bool[2,3] x, bool[3] z) => (bool[2,3] y) { y = NAME (x, z) }")
    forms += _named(COMPARED, "(float[2,3] x, float[3] z) => (bool[2,3] y) { y = NAME (x, z) }")
    forms += _named(REDUCED, "(float[2,3,4] x) => (float[] y) { y = NAME <axes = [0, 2], keepdims = 0> (x) }")
    forms += _named(REDUCED, "(float[2,3,4] x) => (float[] y) { y = NAME (x) }")
    for line in re.findall(r"^\d.*(?:\n  .*)*", FORMS, re.MULTILINE):
        opsets, _, graph = line.partition(" ")
        first, last = map(int, opsets.split("-"))
        forms += _spread(graph, first, last)
    return forms


ALL = _forms()

RANDOM = {"Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
"""Operators whose outputs no two runs share."""


NO_KERNEL = {"MaxRoiPool", "RoiAlign"}
"""What onnxruntime 1.31.1 runs below opset 22 only."""

CEILED = {"AveragePool", "MaxPool"}
"""22 leaves out windows that would start in the padding, of which the versions before say nothing."""

NOT_IMPLEMENTED = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented


def _listed(label: str, form: Form, opset: int) -> bool:
    """Whether it is known that a node cannot be taken to a newer opset."""
    operator = label.rpartition("-")[0]
    if operator in CEILED:
        return "ceil_mode = 1" in form.graph and opset >= 22
    return any(
        entry.versions and form.opset <= entry.versions[0] < opset for entry in no_conversions().get(operator, ())
    )


def _feed(model: onnx.ModelProto) -> dict[str, Array]:
    """Draw inputs: a shape or index is small, so that it fits whatever it is for."""
    numbers = np.random.default_rng(len(model.SerializeToString()))
    feed = {}
    for value in model.graph.input:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name == "s" and dtype == np.int64:
            drawn = np.array([2, 12]) if "Reshape" in {node.op_type for node in model.graph.node} else np.array([3, 2])
        elif np.issubdtype(dtype, np.floating):
            drawn = numbers.uniform(0.1, 0.95, dims)
        else:
            drawn = numbers.integers(0, 2, dims)
        feed[value.name] = drawn.astype(dtype).reshape(dims)
    return feed


def _shape(model: onnx.ModelProto, outputs: list[Array]) -> None:
    """Declare the outputs with the shapes that they have: the text leaves them out."""
    for value, array in zip(model.graph.output, outputs, strict=True):
        value.CopyFrom(
            onnx.helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, np.shape(array))
        )


def test_every_version_has_a_form() -> None:
    """Of each operator that has changed since, and whose versions of 7 to 13 are more than wording."""
    covered = {(operator, version_at(operator, form.opset)) for form in ALL for operator in _operators(form.graph)}
    wanted = {
        (operator, version_at(operator, opset))
        for operator, known in versions().items()
        for opset in OLD
        if len(known) > 1 and operator not in RANDOM and version_at(operator, opset)
    }
    assert wanted - covered == set()


@pytest.mark.parametrize("form", ALL, ids=str)
def test_old_form(form: Form) -> None:
    """Every newer opset is reached, and computes the same; every older one is, or is refused with a reason."""
    model = form.model()
    feed = _feed(model)
    expected = run(model, [feed])
    _shape(model, expected[0])
    onnx.checker.check_model(model)
    problems = []
    for opset in OPSETS:
        plan = opshift.plan(model, opset=opset)
        if plan.refusals:
            known = all(_listed(refusal.operator, form, opset) for refusal in plan.refusals)
            problems += [f"{opset}: {plan.refusals[0]}"] * (opset > form.opset and not known)
            continue
        converted = opshift.convert(model, opset=opset, verify=False).model
        assert isinstance(converted, onnx.ModelProto)
        onnx.checker.check_model(converted)
        try:
            actual = run(converted, [feed])
        except CannotRunError:
            continue
        except NOT_IMPLEMENTED:
            problems += [f"{opset}: onnxruntime has no kernel"] * (opset < 22 or not _operators(form.graph) & NO_KERNEL)
            continue
        problems += [f"{opset}: {what}" for what in differences(expected, actual, 1e-6)]
    assert not problems, "\n".join(problems)
