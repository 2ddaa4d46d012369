"""Nodes of onnxruntime's own operators: the cases that tests/test_dialect_operators.py converts and compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opshift.opsets.registry import dialect

DECOMPOSE = ("com.microsoft",)


@dataclass(frozen=True)
class Case:
    """A model of one node: the node as ONNX text, and the types of its inputs and outputs.

    `opsets` are those that it is converted to. `whole` names inputs of small whole numbers with their ends, for what
    is packed or an index.
    """

    node: str
    inputs: str
    outputs: str
    opsets: tuple[int, ...] = (9, 17)
    initializers: str = ""
    whole: dict[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    opset: int = 17
    types: bool = True
    """Whether onnxruntime has a kernel for these types, if it has one for any."""

    @property
    def name(self) -> str:
        """The operator."""
        return self.node.split("=", 1)[1].replace("<", "(").split("(")[0].strip().removeprefix("com.microsoft.")

    @property
    def runs(self) -> bool:
        """Whether onnxruntime runs the node."""
        return self.types and dialect.has_kernel(dialect.MICROSOFT, self.name)

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        held = f" <{self.initializers}>" if self.initializers else ""
        head = f'<ir_version: 8, opset_import: ["": {self.opset}, "com.microsoft": 1]>'
        text = f"{head} g ({self.inputs}) => ({self.outputs}){held} {{ {self.node} }}"
        return onnx.parser.parse_model(text)

    def __str__(self) -> str:
        """The node, as an id of a test."""
        return self.node.split("=", 1)[1].strip().removeprefix("com.microsoft.").replace(" ", "")


X = "float[2,3] x, float[3] b"
Y = "float[2,3] y"
NORMAL = "float[2,3,4] x, float[2,3,4] k, float[4] g, float[4] b, float[4] c"
NORMALIZED = "float[2,3,4] y, float[2,3,1] m, float[2,3,1] v, float[2,3,4] s"
EMBED = (
    "int32[2,3] i, int32[2,3] s, float[7,4] w, float[5,4] p, float[2,4] k, float[4] g, float[4] b, "
    "int32[2,3] m, int32[2,3] q"
)
EMBEDDED = "float[2,3,4] y, int32[2] c, float[2,3,4] t"
CONV = "float[1,2,5,5] x, float[4,2,3,3] w, float[4] b, float[1,4,3,3] z"
GEMM = "float[2,3] x, float[4,3] w, float[4] b"

QUANTIZED = "uint8[2,8] a, int8[8,3] w, float s, float[3] t, uint8 z, int8 q, float[3] b"
PACKED = "float[2,40] x, uint8[3,3,8] w, float[9] s, uint8[6] z, float[3] b"
BITS = "<K = 40, N = 3, bits = 4, block_size = 16>"
GROUPS = f"int32[40] g = {{{', '.join(str(7 * column % 3) for column in range(40))}}}"
HALF_CONV = "float16[1,2,5] x, float16[4,2,3] w"
GRID = "float[1,2,3,4] x, float[1,5,6,2] g"
BYTES = {"w": (0, 256), "z": (0, 256)}
ONE_SCALE = "float[1] s = {0.004}, uint8[1] z = {100}"
LSTM_INPUTS = (
    "float[3,2,4] x, uint8[DIRECTIONS,4,12] w, uint8[DIRECTIONS,3,12] r, float[DIRECTIONS,24] b, "
    "float[DIRECTIONS,2,3] h, float[DIRECTIONS,2,3] c, float[DIRECTIONS,9] p"
)
ROTARY = "float[2,5,24] x, int64[1] o, int64[2,5] p, float[10,4] c, float[10,4] s"
HEADS = (
    "float[2,5,8] q, float[2,7,8] k, float[2,7,12] v, float[28] b, int32[2,7] m, int32[2,5,7] mp, int32[2] ml, "
    "float[2,2,5,7] a, float[1,1,5,7] a1, float[2,2,3,4] pk, float[2,2,3,4] pv, float[2,2,7,4] k4, float[2,2,7,4] v4, "
    "float[2,5,2,3,4] pq, float[2,7,2,2,4] kv, float[24] pb, int32[2,5] m5"
)
PROJECTED = (
    "float[2,5,6] x, float[6,24] w, float[24] b, int32[2,5] m, int32[2] ml, int32[2,5,5] mp, "
    "int32[1,1] m1, float[2,2,2,3,4] p, int32[2,8] mt, int32[2] lt, float[1,2,5,5] ab"
)

CACHED = (
    "float[B,S,64] q, float[B,S,32] k, float[B,S,32] v, float[B,2,P,16] pk, float[B,2,P,16] pv, int32[B] n, "
    "int32[1] t, float[16,8] c, float[16,8] s, int64[B,S] p, float[1,4,S,T] a, float[4] h, float[B,S,128] x"
)


def cached(batch: int, tokens: int, past: int, total: int) -> str:
    """Inputs of GroupQueryAttention."""
    sizes = {"B": batch, "S": tokens, "P": past or 3, "T": total}
    text = CACHED
    for name, size in sizes.items():
        text = (
            text.replace(f"[{name},", f"[{size},").replace(f",{name},", f",{size},").replace(f",{name}]", f",{size}]")
        )
        text = text.replace(f"[{name}]", f"[{size}]")
    return text


GEMMS = (
    "uint8[5,8] a, float s, uint8 z, uint8[8,3] b, float[3] t, uint8[3] w, int32[3] c, float u, uint8 v, uint8[8,5] e, "
    "uint8[3,8] f, float r, uint8 q, int8[5,8] g, int8[8,3] h, int8 p, int32[5,3] d"
)
SHARED = ", past_present_share_buffer = 1"
BUFFERS = "float[2,1,16] y, float[2,2,6,8] f, float[2,2,6,8] g"
IMAGES = "T[2,3,7,6] x, float s, T z, float t, T w"
NINE = ", x, s, z, x, t, w, v, s, w" * 3
STEPS = "T[2,60] x, float s, T z, float t, T w"

CASES = [
    Case("y = com.microsoft.Gelu (x)", X, Y, (9, 17, 20)),
    Case("y = com.microsoft.Gelu (x)", "float[n,3] x", "float[n,3] y", (17,)),
    Case("y = com.microsoft.FastGelu (x)", X, Y, (9, 20)),
    Case("y = com.microsoft.FastGelu (x, b)", X, Y, (9, 20)),
    Case("y = com.microsoft.BiasGelu (x, b)", X, Y, (9, 20)),
    Case("y = com.microsoft.QuickGelu (x)", X, Y, (9, 24)),
    Case("y = com.microsoft.QuickGelu <alpha = 0.5> (x)", X, Y, (9, 24)),
    Case("y = com.microsoft.FusedMatMul (x, b)", "float[2,3] x, float[3,4] b", "float[2,4] y", (7, 17)),
    Case(
        "y = com.microsoft.FusedMatMul <transA = 1, alpha = 0.5> (x, b)",
        "float[2,5,3] x, float[5,4] b",
        "float[2,3,4] y",
    ),
    Case(
        "y = com.microsoft.FusedMatMul <transB = 1, transBatchA = 1> (x, b)",
        "float[2,7,3] x, float[7,5,3] b",
        "float[7,2,5] y",
    ),
    Case(
        "y = com.microsoft.FusedMatMul <transA = 1, transB = 1, transBatchA = 1, transBatchB = 1, alpha = -2.0> (x, b)",
        "float[3,7,2] x, float[5,7,3] b",
        "float[7,2,5] y",
    ),
    Case("y = com.microsoft.FusedMatMul <transA = 1> (x, b)", "float[3] x, float[3,4] b", "float[4] y"),
    Case("y = com.microsoft.FusedMatMul (x, b)", "double[2,3] x, double[3,4] b", "double[2,4] y"),
    Case("y = com.microsoft.TransposeMatMul <transB = 1> (x, b)", "float[n,3] x, float[4,3] b", "float[n,4] y"),
    Case('y = com.microsoft.FusedConv <activation = "Relu", pads = [1, 1, 1, 1]> (x, w, b)', CONV, "float[1,4,5,5] y"),
    Case(
        'y = com.microsoft.FusedConv <activation = "Clip", activation_params = [-1.0, 1.0], auto_pad = "SAME_LOWER", '
        "strides = [2, 2]> (x, w, b, z)",
        CONV,
        "float[1,4,3,3] y",
    ),
    Case(
        'y = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.25], group = 2> (x, w)',
        "float[n,2,5] x, float[4,1,3] w",
        "float[n,4,3] y",
    ),
    Case(
        'y = com.microsoft.FusedConv <activation = "HardSigmoid", activation_params = [0.25, 0.5], dilations = [2, 2]> '
        "(x, w, , z)",
        "float[1,2,5,5] x, float[4,2,2,2] w, float[1,4,3,3] z",
        "float[1,4,3,3] y",
        (17,),
    ),
    Case('y = com.microsoft.FusedConv <activation = "Tanh"> (x, w, b)', CONV, "float[1,4,3,3] y", (17,)),
    Case('y = com.microsoft.FusedConv <activation = "Sigmoid"> (x, w)', CONV, "float[1,4,3,3] y", (17,)),
    *(
        Case(
            f'y = com.microsoft.FusedGemm <activation = "{name}", activation_alpha = 0.5, activation_beta = 0.25, '
            "alpha = 0.5, beta = 2.0, transB = 1> (x, w, b)",
            GEMM,
            "float[2,4] y",
            (17,),
        )
        for name in (
            *("Relu", "Tanh", "LeakyRelu", "Elu", "Softplus", "Softsign", "ThresholdedRelu", "HardSigmoid", "Sigmoid"),
        )
    ),
    Case("y, m, v, s = com.microsoft.SkipLayerNormalization (x, k, g, b, c)", NORMAL, NORMALIZED, (9, 17)),
    Case("y = com.microsoft.SkipLayerNormalization <epsilon = 0.1> (x, k, g, b)", NORMAL, "float[2,3,4] y"),
    Case(
        "y, , , s = com.microsoft.SkipLayerNormalization (x, k, g)",
        "float[n,3,4] x, float[3,4] k, float[4] g",
        "float[n,3,4] y, float[n,3,4] s",
    ),
    Case(
        "y = com.microsoft.SkipLayerNormalization (x, k, g)",
        "float16[n,3,4] x, float16[n,3,4] k, float16[4] g",
        "float16[n,3,4] y",
        (17,),
    ),
    Case("y, m, v, s = com.microsoft.SkipSimplifiedLayerNormalization (x, k, g, b)", NORMAL, NORMALIZED, (9, 17, 23)),
    Case(
        "y, , , s = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.1> (x, k, g)",
        "float[n,3,4] x, float[n,3,4] k, float[4] g",
        "float[n,3,4] y, float[n,3,4] s",
        (17, 23),
    ),
    Case("y, c, t = com.microsoft.EmbedLayerNormalization (i, s, w, p, k, g, b, m, q)", EMBED, EMBEDDED),
    Case("y, c, t = com.microsoft.EmbedLayerNormalization (i, s, w, p, k, g, b)", EMBED, EMBEDDED),
    Case("y, c = com.microsoft.EmbedLayerNormalization (i, , w, p, , g, b, m)", EMBED, "float[2,3,4] y, int32[2] c"),
    Case("y, c, t = com.microsoft.EmbedLayerNormalization (i, , w, p, , g, b, m, q)", EMBED, EMBEDDED, (17,)),
    Case(
        "y, c = com.microsoft.EmbedLayerNormalization (i, s, w, p, k, g, b, m)",
        EMBED.replace("[2,3]", "[n,s]"),
        "float[n,s,4] y, int32[n] c",
        (17,),
    ),
    Case("y, m = com.microsoft.BiasDropout (x, b)", X, "float[2,3] y, bool[2,3] m", (7, 13)),
    Case("y, m = com.microsoft.BiasDropout <seed = 3> (x, b, x)", X, "float[2,3] y, bool[2,3] m", (7, 13)),
    Case(
        "y = com.microsoft.BiasDropout (x, b, , r, t)",
        X,
        Y,
        (13,),
        initializers="float r = {0.5}, bool t = {0}",
    ),
    Case(
        "y = com.microsoft.BiasSoftmax <axis = 2, is_inner_broadcast = 0> (x, b)",
        "float[2,3,4,5] x, float[1,1,4,5] b",
        "float[2,3,4,5] y",
        (7, 13),
    ),
    Case(
        "y = com.microsoft.BiasSoftmax <axis = 3, is_inner_broadcast = 1> (x, b)",
        "float[2,3,4,5] x, float[2,1,1,5] b",
        "float[2,3,4,5] y",
        (7, 13),
    ),
    Case("y = com.microsoft.QuantizeLinear (x, s, z)", "float[2,3] x, float s, uint8 z", "uint8[2,3] y", (10, 21)),
    Case(
        "y = com.microsoft.QuantizeLinear <axis = 0> (x, s, z)",
        "float[2,3] x, float[2] s, int8[2] z",
        "int8[2,3] y",
        (13, 21),
    ),
    Case("y = com.microsoft.QuantizeLinear (x, s, z)", "float[2,3] x, float s, int16 z", "int16[2,3] y", (13, 21)),
    Case("y = com.microsoft.QuantizeLinear (x, s, z)", "float[2,3] x, float s, uint16 z", "uint16[2,3] y", (21,)),
    Case("y = com.microsoft.DequantizeLinear (x, s, z)", "uint16[2,3] x, float s, uint16 z", Y, (13, 21)),
    Case("y = com.microsoft.DequantizeLinear (x, s, z)", "uint8[2,3] x, float s, uint8 z", Y, (10, 21)),
    Case("y = com.microsoft.DequantizeLinear (x, s)", "int32[2,3] x, float s", Y, (10, 21)),
    Case("y = com.microsoft.DequantizeLinear <axis = 1> (x, s, z)", "int8[2,3] x, float[3] s, int8[3] z", Y, (13, 21)),
    *(
        Case(f"y = com.microsoft.MatMulIntegerToFloat ({given})", QUANTIZED, "float[2,3] y", opsets)
        for given, opsets in (("a, w, s, t, z, q, b", (10, 17)), ("a, w, s, s", (17,)), ("a, w, s, t, , q", (17,)))
    ),
    Case(
        "y = com.microsoft.DynamicQuantizeMatMul (x, w, t, q, b)",
        "float[2,8] x, int8[8,3] w, float[3] t, int8[3] q, float[3] b",
        "float[2,3] y",
        (11, 17),
    ),
    Case(
        "y = com.microsoft.DynamicQuantizeMatMul (x, w, t)",
        "float[n,2,8] x, uint8[8,3] w, float t",
        "float[n,2,3] y",
        (17,),
    ),
    *(
        Case(
            f"y = com.microsoft.MatMulBnb4 <K = {columns}, N = 3, block_size = 16, quant_type = {kind}> (x, w, s)",
            f"float[{rows}{columns}] x, uint8[{-(-3 * columns // 2)}] w, float[{-(-3 * columns // 16)}] s",
            f"float[{rows}3] y",
            (9, 17),
            whole={"w": (0, 256)},
        )
        for kind, columns, rows in ((0, 40, "2,"), (1, 40, "n,2,"), (1, 13, "2,"))
    ),
    *(
        Case(f"y = com.microsoft.GemmFastGelu ({names})", "float[n,2,3] x, float[3,4] w, float[4] b", "float[n,2,4] y")
        for names in ("x, w", "x, w, b")
    ),
    Case(f"y = com.microsoft.MatMulNBits {BITS} (x, w, s, z, , b)", PACKED, "float[2,3] y", (11, 17, 21), whole=BYTES),
    Case(f"y = com.microsoft.MatMulNBits {BITS} (x, w, s)", PACKED, "float[2,3] y", (17, 21), whole=BYTES),
    Case(f"y = com.microsoft.MatMulNBits {BITS} (x, w, s, , g, b)", PACKED, "float[2,3] y", (11, 21), GROUPS, BYTES),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS} (x, w, s, z, g)",
        PACKED.replace("uint8[6] z", "float[9] z"),
        "float[2,3] y",
        (17, 21),
        GROUPS,
        {"w": (0, 256)},
    ),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS.replace('bits = 4', 'bits = 2')} (x, w, s, z)",
        PACKED.replace("[3,3,8]", "[3,3,4]").replace("uint8[6]", "uint8[3]"),
        "float[2,3] y",
        (17, 21, 25),
        whole=BYTES,
    ),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS} (x, w, s, z)",
        PACKED.replace("uint8[6] z", "float[9] z"),
        "float[2,3] y",
        (17,),
        whole={"w": (0, 256)},
    ),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS.replace('bits = 4', 'bits = 8')} (x, w, s, z)",
        PACKED.replace("[3,3,8]", "[3,3,16]").replace("uint8[6]", "uint8[9]"),
        "float[2,3] y",
        (17, 21),
        whole=BYTES,
    ),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS.replace('bits = 4', 'bits = 4, accuracy_level = 1')} (x, w, s)",
        PACKED.replace("float[2,40]", "float[n,5,40]"),
        "float[n,5,3] y",
        (17,),
        whole=BYTES,
    ),
    *(
        Case(
            f"{outputs} = com.microsoft.DynamicQuantizeLSTM <hidden_size = 3{more}> ({given})",
            LSTM_INPUTS.replace("DIRECTIONS", directions),
            "float[3,DIRECTIONS,2,3] y, float[DIRECTIONS,2,3] f, float[DIRECTIONS,2,3] g".replace(
                "DIRECTIONS", directions
            ),
            opsets,
            f"int32[2] l = {{2, 3}}, {scales}",
            whole={"w": (0, 256), "r": (0, 256)},
        )
        for outputs, more, given, directions, opsets, scales in (
            ("y, f, g", "", "x, w, r, , , , , , s, z, s, z", "1", (11, 17, 23), ONE_SCALE),
            ("y, f, g", "", "x, w, r, b, l, h, c, p, s, z, s, z", "1", (17,), ONE_SCALE),
            ("y, f, g", ', direction = "reverse"', "x, w, r, b, l, h, c, , s, z, s, z", "1", (11, 17), ONE_SCALE),
            (
                "y, f, g",
                ', direction = "bidirectional", input_forget = 1',
                "x, w, r, b, , , , , s, z, s, z",
                "2",
                (17,),
                "float[2] s = {0.004, 0.005}, uint8[2] z = {100, 120}",
            ),
        )
    ),
    Case("y = com.microsoft.RotaryEmbedding (x, p, c, s)", ROTARY, "float[2,5,24] y", (9, 17, 23)),
    Case("y = com.microsoft.RotaryEmbedding <interleaved = 1> (x, o, c, s)", ROTARY, "float[2,5,24] y", (9, 23)),
    Case(
        "y = com.microsoft.RotaryEmbedding <num_heads = 2, rotary_embedding_dim = 8> (x, p, c, s)",
        ROTARY,
        "float[2,5,24] y",
        (17, 23),
    ),
    Case(
        "y = com.microsoft.RotaryEmbedding (x, o, c, s)",
        ROTARY.replace("[2,5,24]", "[2,3,5,8]"),
        "float[2,3,5,8] y",
        (17, 23),
    ),
    Case("y = com.microsoft.RotaryEmbedding (x, o, c, s)", ROTARY.replace("[2,5,24]", "[b,t,24]"), "float[b,t,24] y"),
    *(
        Case(
            f"{outputs} = com.microsoft.MultiHeadAttention <num_heads = 2{more}> ({given})",
            HEADS,
            made,
            opsets,
            whole={"ml": (1, 8)},
        )
        for outputs, more, given, made, opsets in (
            ("y", "", "q, k, v", "float[2,5,12] y", (17, 23)),
            ("y", "", "q, k, v, b", "float[2,5,12] y", (17, 23)),
            ("y", "", "q, k, v, , m", "float[2,5,12] y", (17, 23)),
            ("y", ", mask_filter_value = -100.0, scale = 0.5", "q, k, v, b, m, a", "float[2,5,12] y", (9, 23)),
            ("y", "", "q, k, v, , mp, a1", "float[2,5,12] y", (17, 23)),
            ("y", "", "q, k, v, , mp", "float[2,5,12] y", (17,)),
            ("y", "", "q, k, v, , ml", "float[2,5,12] y", (17,)),
            ("y", "", "q, k4, v4", "float[2,5,8] y", (17, 23)),
            ("y", "", "pq", "float[2,5,8] y", (9, 17, 23)),
            ("y", "", "pq, , , pb, m5", "float[2,5,8] y", (17,)),
            ("y", "", "q, kv", "float[2,5,8] y", (9, 17, 23)),
            ("y", ", scale = 0.5", "q, kv, , , m, a", "float[2,5,8] y", (17,)),
            ("y, n, w", "", "q, k, k, , , , pk, pv", "float[2,5,8] y, float[2,2,10,4] n, float[2,2,10,4] w", (17, 23)),
            ("y", ", unidirectional = 1", "q, q, q", "float[2,5,8] y", (17, 23)),
            (
                "y, n, w",
                ", unidirectional = 1",
                "q, q, q, , , , pk, pv",
                "float[2,5,8] y, float[2,2,8,4] n, float[2,2,8,4] w",
                (17, 23),
            ),
        )
    ),
    Case(
        "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , m)",
        HEADS.replace("[2,", "[n,"),
        "float[n,5,12] y",
        (17,),
    ),
    *(
        Case(
            f"{outputs} = com.microsoft.Attention <num_heads = 2{more}> ({given})",
            PROJECTED,
            made,
            opsets,
            initializers="int32[4] ms = {4, 5, 1, 2}, int32[8] mc = {4, 5, 0, 4, 9, 0, 4, 9}",
            whole={"ml": (1, 6), "lt": (1, 9), "mp": (1, 2), "mt": (1, 2)},
        )
        for outputs, more, given, made, opsets in (
            ("y", "", "x, w, b", "float[2,5,8] y", (17, 23)),
            ("y", "", "x, w", "float[2,5,8] y", (17,)),
            ("y", ", scale = 0.25", "x, w, b, m", "float[2,5,8] y", (9, 17, 23)),
            ("y", "", "x, w, b, ml", "float[2,5,8] y", (17,)),
            ("y", "", "x, w, b, ms", "float[2,5,8] y", (17,)),
            ("y", "", "x, w, b, mc", "float[2,5,8] y", (17,)),
            ("y", ", unidirectional = 1", "x, w, b, mp", "float[2,5,8] y", (17,)),
            ("y", ", unidirectional = 1", "x, w, b, m1", "float[2,5,8] y", (17,)),
            ("y", ", qkv_hidden_sizes = [8, 8, 8]", "x, w, b, , , ab", "float[2,5,8] y", (17, 23)),
            ("y", ", qkv_hidden_sizes = [6, 6, 12]", "x, w, b", "float[2,5,12] y", (17, 23)),
            ("y, t", ", unidirectional = 1", "x, w, b, mt, p", "float[2,5,8] y, float[2,2,2,8,4] t", (17, 23)),
            ("y, t", "", "x, w, b, ms, p", "float[2,5,8] y, float[2,2,2,8,4] t", (17,)),
            ("y, t", "", "x, w, b, lt, p", "float[2,5,8] y, float[2,2,2,8,4] t", (17,)),
            ("y, t", "", "x, w, b", "float[2,5,8] y, float[2,2,2,5,4] t", (17, 23)),
        )
    ),
    Case(
        "y, n, w = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q, q, , m, , pk, pv)",
        "float[b,s,8] q, int32[b,t] m, float[b,2,p,4] pk, float[b,2,p,4] pv",
        "float[b,s,8] y, float[b,2,t,4] n, float[b,2,t,4] w",
        (17,),
        whole={"m": (1, 2)},
    ),
    Case(
        "y = com.microsoft.Attention <num_heads = 2> (x, w, c, l)",
        "float[b,s,6] x, float[6,24] w, float[24] c, int32[m] l",
        "float[b,s,8] y",
        (17,),
        whole={"l": (1, 4)},
    ),
    Case(
        "y, n = com.microsoft.Attention <num_heads = 2> (x, w, c, l, p)",
        "float[b,s,6] x, float[6,24] w, float[24] c, int32[m] l, float[2,b,2,p,4] p",
        "float[b,s,8] y, float[2,b,2,t,4] n",
        (17,),
        whole={"l": (1, 4)},
    ),
    *(
        Case(
            f"y = com.microsoft.Attention <num_heads = 2> (x, w, c, {mask})",
            "float[b,s,6] x, float[6,24] w, float[24] c, int32[b,s] m, int32[b] l",
            "float[b,s,8] y",
            (17,),
            whole={"m": (1, 2), "l": (1, 4)},
        )
        for mask in "ml"
    ),
    Case("y = com.microsoft.DequantizeLinear (x, s, z)", "int4[2,3] x, float s, int4 z", Y, (21,)),
    Case('y = com.microsoft.FusedConv <activation = "Relu"> (x, w)', HALF_CONV, "float16[1,4,3] y", (17,)),
    Case("y = com.microsoft.Gelu (x)", "double[2,3] x", "double[2,3] y", (17,), types=False),
    Case("y = com.microsoft.Gelu (x)", "bfloat16[2,3] x", "bfloat16[2,3] y", (17,), types=False),
    Case("y = com.microsoft.FastGelu (x)", "float16[2,3] x", "float16[2,3] y", (17, 20)),
    Case("y = com.microsoft.QuickGelu (x)", "float16[2,3] x", "float16[2,3] y", (17,)),
    Case(
        "y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w)",
        "float16[2,5] x, float16[3,5] w",
        "float16[2,3] y",
        (17,),
    ),
    Case(
        'y = com.microsoft.FusedGemm <activation = "Relu"> (x, w)',
        "int32[2,5] x, int32[5,3] w",
        "int32[2,3] y",
        (17,),
        types=False,
    ),
    Case(
        "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, q, q)",
        "float16[2,5,8] q",
        "float16[2,5,8] y",
        (17, 23),
    ),
    Case(
        "y = com.microsoft.SkipLayerNormalization (x, x, g)",
        "bfloat16[2,3,4] x, bfloat16[4] g",
        "bfloat16[2,3,4] y",
        (17,),
    ),
    Case(
        "y = com.microsoft.RotaryEmbedding (x, p, c, c)",
        "float16[2,5,24] x, int64[2,5] p, float16[10,4] c",
        "float16[2,5,24] y",
        (17, 23),
    ),
    Case(
        f"y = com.microsoft.MatMulNBits {BITS} (x, w, s)",
        "float16[2,40] x, uint8[3,3,8] w, float16[9] s",
        "float16[2,3] y",
        (17,),
        whole=BYTES,
    ),
    Case("y = com.microsoft.MatMulIntegerToFloat (a, w, s, s)", "int8[2,8] a, int8[8,3] w, float s", Y, (17,)),
    Case("y = com.microsoft.Trilu (x)", "float[2,3,4] x", "float[2,3,4] y", (9, 14)),
    Case(
        "y = com.microsoft.Trilu <upper = 0> (x, k)",
        "int64[3,4] x",
        "int64[3,4] y",
        (9, 14),
        initializers="int64 k = {-1}",
    ),
    Case(
        'y = com.microsoft.GridSample <mode = "bilinear", padding_mode = "border", align_corners = 1> (x, g)',
        "float[1,2,3,4] x, float[1,5,6,2] g",
        "float[1,2,5,6] y",
        (11, 16, 20),
    ),
    Case('y = com.microsoft.GridSample <mode = "nearest"> (x, g)', GRID, "float[1,2,5,6] y", (16,)),
    Case("y = com.microsoft.Range (a, b, d)", "int32 a, int32 b, int32 d", "int32[n] y", (11,), whole={"d": (1, 2)}),
    Case("y = com.microsoft.Range (a, b)", "int64 a, int64 b", "int64[n] y", (11,), whole={"b": (5, 9)}),
    Case("y = com.microsoft.ExpandDims (x, a)", "float[2,3] x", "float[2,1,3] y", (9, 13), "int32 a = {1}"),
    Case("y = com.microsoft.ExpandDims (x, a)", "bool[n,3] x", "bool[n,3,1] y", (13,), "int32 a = {-1}"),
    Case("y = com.microsoft.Pad (x, p)", "float[2,3] x", "float[4,5] y", (9, 13), "int64[4] p = {1, 0, 1, 2}"),
    Case(
        'y = com.microsoft.Pad <mode = "reflect"> (x, p)',
        "float[2,3] x",
        "float[2,5] y",
        (11,),
        "int64[4] p = {0, 1, 0, 1}",
    ),
    Case(
        "y = com.microsoft.Pad (x, p, v)",
        "float[2,3] x, float v",
        "float[3,3] y",
        (11,),
        "int64[4] p = {1, 0, 0, 0}",
    ),
    *(
        Case(
            f"y = com.microsoft.{node}",
            inputs.replace("T ", f"{dtype} ").replace("T[", f"{dtype}["),
            f"{dtype}{made} y",
            opsets,
        )
        for dtype in ("uint8", "int8")
        for node, inputs, made, opsets in (
            ("QLinearSigmoid (x, s, z, t, w)", STEPS, "[2,60]", (11, 17)),
            ("QLinearLeakyRelu <alpha = 0.25> (x, s, z, t, w)", STEPS, "[2,60]", (11, 17)),
            ("QLinearWhere (c, x, s, z, v, t, w, u, w)", f"{STEPS}, bool[2,1] c, T[60] v, float u", "[2,60]", (11, 17)),
            ("QLinearConcat <axis = 0> (t, w, x, s, z)", STEPS, "[2,60]", (17,)),
            ("QLinearConcat <axis = 1> (t, w, x, s, z, x, t, w)", STEPS, "[2,120]", (11, 17)),
            ("QLinearConcat <axis = -1> (t, w, x, s, z, x, t, w, v, s, w)", f"{STEPS}, T[2,3] v", "[2,123]", (17,)),
            (
                "QLinearConcat <axis = 0> (t, w, x, s, z, x, t, w, v, s, w, x, s, w)",
                f"{STEPS}, T[1,60] v",
                "[7,60]",
                (17,),
            ),
            (f"QLinearConcat <axis = 1> (t, w{NINE})", f"{STEPS}, T[2,1] v", "[2,363]", (11,)),
            ("QLinearAdd (x, s, z, v, t, w, u, w)", f"{STEPS}, T[60] v, float u", "[2,60]", (11, 17)),
            ("QLinearMul (x, s, z, v, t, w, u, w)", f"{STEPS}, T[2,1] v, float u", "[2,60]", (11, 17)),
            ("QLinearSoftmax <opset = 13> (x, s, z, t, w)", STEPS, "[2,60]", (11, 17)),
            (
                "QLinearSoftmax <opset = 12, axis = 1> (x, s, , t, w)",
                "T[2,6,5] x, float s, float t, T w",
                "[2,6,5]",
                (17,),
            ),
            ("QLinearSoftmax <opset = 13, axis = 1> (x, s, z, t, w)", IMAGES, "[2,3,7,6]", (17,)),
            ("QLinearSoftmax <opset = 13> (x, s, z, t, w)", "T[2,n] x, float s, T z, float t, T w", "[2,n]", (17,)),
            (
                "QLinearSoftmax <opset = 12, axis = 1> (x, s, z, t, w)",
                "T[2,n,m] x, float s, T z, float t, T w",
                "[2,n,m]",
                (17,),
            ),
            ("QLinearGlobalAveragePool (x, s, z, t, w)", IMAGES, "[2,3,1,1]", (11, 17)),
            ("QLinearGlobalAveragePool <channels_last = 1> (x, s, z, t, w)", IMAGES, "[2,1,1,6]", (17,)),
            ("QLinearReduceMean <axes = [1, -1], keepdims = 1> (x, s, z, t, w)", IMAGES, "[2,1,7,1]", (11, 17)),
            ("QLinearReduceMean <axes = [0], keepdims = 0> (x, s, z, t, w)", IMAGES, "[3,7,6]", (18,)),
            (
                "QLinearAveragePool <kernel_shape = [3, 2], strides = [2, 1]> (x, s, z, t, w)",
                IMAGES,
                "[2,3,3,5]",
                (11, 17),
            ),
            (
                "QLinearAveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], count_include_pad = 1> "
                "(x, s, z, t, w)",
                IMAGES,
                "[2,3,7,6]",
                (17,),
            ),
            (
                'QLinearAveragePool <kernel_shape = [3, 2], auto_pad = "SAME_UPPER", channels_last = 1> '
                "(x, s, z, t, w)",
                IMAGES,
                "[2,3,7,6]",
                (17,),
            ),
            (
                "QLinearAveragePool <kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1> (x, s, z, t, w)",
                IMAGES,
                "[2,3,4,3]",
                (17,),
            ),
            (
                "NhwcMaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]> (x)",
                "T[2,7,6,3] x",
                "[2,4,6,3]",
                (13,),
            ),
            ('NhwcMaxPool <kernel_shape = [3, 2], auto_pad = "SAME_UPPER"> (x)', "T[n,7,6,3] x", "[n,7,6,3]", (17,)),
        )
    ),
    *(
        Case(f"y = com.microsoft.UnfoldTensor {node} (x)", f"{dtype}[n,8,2] x", f"{dtype}{made} y", (11, 17))
        for dtype in ("float", "int64")
        for node, made in (("<dim = 1, size = 3, step = 2>", "[n,3,2,3]"), ("<size = 2>", "[n,8,1,2]"))
    ),
    *(
        Case(
            f"y, i, j = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2{more}> ({given})",
            cached(batch, tokens, past, total),
            f"float[{batch},{tokens},64] y, float[{batch},2,{max(past, total)},16] i, "
            f"float[{batch},2,{max(past, total)},16] j",
            opsets,
            initializers=f"int32[1] t = {{{total}}}, int32[{batch}] n = {{{', '.join(str(end - 1) for end in ends)}}}",
        )
        for (batch, tokens, past, total), ends, more, given, opsets in (
            ((2, 5, 0, 5), (5, 3), "", "q, k, v, , , n, t", (9, 17, 23)),
            ((2, 5, 9, 5), (5, 3), "", "q, k, v, pk, pv, n, t", (17,)),
            ((2, 1, 6, 7), (7, 4), "", "q, k, v, pk, pv, n, t", (11, 17, 23)),
            ((2, 1, 9, 7), (7, 4), "", "q, k, v, pk, pv, n, t", (17,)),
            ((1, 3, 6, 9), (9,), "", "q, k, v, pk, pv, n, t", (11, 17, 23)),
            ((1, 3, 12, 9), (9,), ", scale = 0.5", "q, k, v, pk, pv, n, t", (17,)),
            ((2, 1, 6, 7), (7, 4), ", do_rotary = 1", "x, , , pk, pv, n, t, c, s", (17, 23)),
            ((1, 3, 6, 9), (9,), ", do_rotary = 1, rotary_interleaved = 1", "q, k, v, pk, pv, n, t, c, s", (17,)),
            ((2, 5, 0, 5), (5, 3), ", do_rotary = 1", "q, k, v, , , n, t, c, s", (17,)),
            ((2, 1, 6, 7), (7, 4), ", do_rotary = 1", "q, k, v, pk, pv, n, t, c, s, p", (17,)),
            ((2, 5, 0, 5), (5, 4), ", local_window_size = 2", "q, k, v, , , n, t", (17,)),
            ((1, 3, 6, 9), (9,), ", local_window_size = 4", "q, k, v, pk, pv, n, t", (17, 23)),
            ((2, 5, 0, 5), (5, 5), ", local_window_size = 2, softcap = 0.5", "q, k, v, , , n, t", (17, 23)),
            ((1, 3, 6, 9), (9,), ", smooth_softmax = 1", "q, k, v, pk, pv, n, t", (17, 23)),
            ((1, 3, 6, 9), (9,), "", "q, k, v, pk, pv, n, t, , , , a, h", (17, 23)),
            ((2, 1, 9, 7), (7, 4), ", softcap = 0.5", "q, k, v, pk, pv, n, t, , , , a, h", (17, 23)),
            ((1, 3, 6, 9), (9,), ", causal = 0", "q, k, v, pk, pv, n, t", (17,)),
            ((2, 5, 0, 5), (5, 3), ", causal = 0", "q, k, v, , , n, t, , , , a", (17,)),
        )
    ),
    Case(
        "y, i, j = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, pk, pv, n, t)",
        "float[b,one,64] q, float[b,one,32] k, float[b,one,32] v, float[b,2,p,16] pk, float[b,2,p,16] pv, int32[b] n, "
        "int32 t",
        "float[b,one,64] y, float[b,2,r,16] i, float[b,2,r,16] j",
        (17,),
        whole={"n": (2, 3), "t": (3, 4)},
    ),
    Case(
        "y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> "
        "(q, , , , , n, t, c, c)",
        "float16[2,5,128] q, int32[2] n, int32[1] t, float16[16,8] c",
        "float16[2,5,64] y",
        (17,),
        initializers="int32[1] t = {5}, int32[2] n = {4, 2}",
    ),
    *(
        Case(f"y = com.microsoft.QGemm {node}", GEMMS, f"{made}[5,3] y", opsets)
        for node, made, opsets in (
            ("(a, s, z, b, t, w, c, u, v)", "uint8", (11, 17)),
            ("<alpha = 0.5> (a, s, z, b, t, w, c)", "float", (11, 17)),
            ("<transA = 1, transB = 1> (e, s, z, f, r, q)", "float", (17,)),
            ("<transB = 1> (a, s, z, f, t, w, , u, v)", "uint8", (17,)),
            ("(g, s, p, h, r, p, d)", "float", (17,)),
        )
    ),
    *(
        Case(
            f"{outputs} = com.microsoft.QAttention <num_heads = 2{more}> ({given})",
            "uint8[2,5,6] x, int8[6,24] w, float[24] b, float s, float t, float[24] tc, int32[2,5] m, uint8 z, "
            "int8 wz, int8[24] zc, float[2,2,2,3,4] p, int32[2] l, uint8[6,24] wu, uint8 zu",
            made,
            opsets,
            whole={"l": (1, 6)},
        )
        for outputs, more, given, made, opsets in (
            ("y", "", "x, w, b, s, t", "float[2,5,8] y", (17,)),
            ("y", "", "x, wu, b, s, t, m, z, zu", "float[2,5,8] y", (11, 17, 23)),
            ("y", ", unidirectional = 1", "x, w, b, s, tc, l, z, zc", "float[2,5,8] y", (17,)),
            (
                "y, i",
                ", unidirectional = 1",
                "x, w, b, s, t, , z, wz, p",
                "float[2,5,8] y, float[2,2,2,8,4] i",
                (17,),
            ),
        )
    ),
    *(
        Case(f"y = com.microsoft.ReduceSumInteger {node} (x)", f"{dtype}[2,3,4] x", f"{made} y", opsets)
        for node, dtype, made, opsets in (
            ("<axes = [1], keepdims = 1>", "int8", "int32[2,1,4]", (11, 17)),
            ("<axes = [0, -1], keepdims = 0>", "uint8", "uint32[3]", (17,)),
        )
    ),
    *(
        Case(f"y = com.microsoft.ConvTransposeWithDynamicPads {node}", inputs, made, opsets, held)
        for node, inputs, made, opsets, held in (
            (
                "<strides = [2, 2], group = 2> (x, w, p, b)",
                "float[1,2,5,5] x, float[2,3,3,3] w, float[6] b",
                "float[1,6,9,10] y",
                (9, 17),
                "int64[4] p = {1, 0, 1, 1}",
            ),
            ("(x, w, p)", "float[n,2,5] x, float[2,3,3] w", "float[n,3,6] y", (17,), "int64[2] p = {1, 0}"),
        )
    ),
    Case("y = com.microsoft.BiasAdd (x, b, k)", "float[2,3,4] x, float[4] b, float[2,3,4] k", "float[2,3,4] y"),
    Case("y = com.microsoft.BiasAdd (x, b, k)", "float16[n,3,4] x, float16[4] b, float16[n,3,4] k", "float16[n,3,4] y"),
    Case("y = com.microsoft.BiasSplitGelu (x, b)", "float[2,3,8] x, float[8] b", "float[2,3,4] y", (9, 17, 20)),
    Case("y = com.microsoft.BiasSplitGelu (x, b)", "float16[n,3,8] x, float16[8] b", "float16[n,3,4] y", (17,)),
    *(
        Case(
            f"{made} = com.microsoft.SkipGroupNorm <activation = {swish}, groups = 2> (x, g, b, {given})",
            "float[2,3,5,4] x, float[4] g, float[4] b, float[2,3,5,4] s, float[2,1,1,4] r, float[2,4] m, float[4] c",
            f"float[2,3,5,4] y{', float[2,3,5,4] t' * (made != 'y')}",
            opsets,
        )
        for made, swish, given, opsets in (
            ("y, t", 0, "s", (17, 21)),
            ("y, t", 1, "s, c", (9, 17)),
            ("y", 1, "r", (17,)),
            ("y, t", 0, "m", (17,)),
            ("y, t", 1, "m, c", (17,)),
        )
    ),
    *(
        Case(f"y = com.microsoft.NhwcConv <{fields}> ({given})", inputs, made, opsets)
        for fields, given, inputs, made, opsets in (
            (
                "kernel_shape = [3, 2], pads = [1, 0, 1, 0], strides = [2, 1]",
                "x, w, b",
                "float[2,5,6,3] x, float[4,3,2,3] w, float[4] b",
                "float[2,3,5,4] y",
                (9, 17),
            ),
            ("group = 2", "x, w", "float[n,5,6,4] x, float[6,3,3,2] w", "float[n,3,4,6] y", (17,)),
            ('auto_pad = "SAME_UPPER"', "x, w", "float16[2,5,3] x, float16[4,2,3] w", "float16[2,5,4] y", (17,)),
        )
    ),
    *(
        Case(
            f"y = com.microsoft.GroupNorm <activation = {swish}, groups = 2, channels_last = {last}> (x, g, b)",
            f"{dtype}{shape} x, float[4] g, float[4] b",
            f"{dtype}{shape} y",
            opsets,
        )
        for swish, last, dtype, shape, opsets in (
            (0, 1, "float", "[2,3,5,4]", (17, 21)),
            (1, 0, "float", "[2,4,3,5]", (17, 21)),
            (1, 1, "float16", "[2,3,5,4]", (17,)),
        )
    ),
    *(
        Case(
            f"y = com.microsoft.GatherBlockQuantized <bits = {bits}, block_size = 16> (d, i, s{zeros})",
            f"uint8[9,{packed}] d, int64[2,3] i, float[9,3] s, uint8[9,{points}] z",
            "float[2,3,40] y",
            opsets,
            whole={"d": (0, 256), "z": (0, 256), "i": (-9, 9)},
        )
        for bits, packed, points, zeros, opsets in (
            (4, 20, 2, "", (11, 17)),
            (4, 20, 2, ", z", (17, 21)),
            (8, 40, 3, ", z", (17,)),
            (2, 10, 1, "", (17,)),
        )
    ),
    Case(
        "y = com.microsoft.GatherBlockQuantized <block_size = 16, quantize_axis = -1> (d, i, s, z)",
        "uint4[9,32] d, int32[n] i, float[9,2] s, uint4[9,2] z",
        "float[n,32] y",
        (21,),
        opset=21,
    ),
    *(
        Case(f"y = com.microsoft.{operator} <signal_ndim = {axes}> (x)", f"{given} x", f"{made} y", opsets)
        for operator, axes, given, made, opsets in (
            ("Rfft", 1, "float[2,6]", "float[2,4,2]", (11, 17, 20)),
            ("Rfft", 1, "double[n,7]", "double[n,4,2]", (17, 20)),
            ("Rfft", 2, "float[2,3,8]", "float[2,3,5,2]", (11, 17, 20)),
            ("Rfft", 3, "float[2,3,4]", "float[2,3,3,2]", (17,)),
            ("Rfft", 1, "float[n,m]", "float[n,k,2]", (17,)),
            ("Rfft", 1, "float16[n,m]", "float16[n,k,2]", (11, 17)),
            ("Rfft", 2, "float16[2,3,8]", "float16[2,3,5,2]", (17,)),
            ("Irfft", 1, "float[2,4,2]", "float[2,6]", (11, 17, 20)),
            ("Irfft", 1, "double[n,5,2]", "double[n,8]", (17, 20)),
            ("Irfft", 2, "float[2,3,5,2]", "float[2,3,8]", (11, 17, 20)),
            ("Irfft", 3, "float[2,3,3,2]", "float[2,3,4]", (17,)),
            ("Irfft", 1, "float[n,m,c]", "float[n,k]", (17,)),
            ("Irfft", 1, "float16[n,m,2]", "float16[n,k]", (17,)),
            ("Irfft", 2, "float16[2,3,5,2]", "float16[2,3,8]", (11, 17)),
        )
    ),
    *(
        Case("y = com.microsoft.Inverse (x)", f"{dtype}{shape} x", f"{dtype}{shape} y", opsets)
        for dtype, shape, opsets in (
            ("float", "[2,1,1]", (17,)),
            ("float", "[2,2]", (11, 17)),
            ("float", "[n,3,3]", (11, 17)),
            ("double", "[2,3,4,4]", (17,)),
            ("float", "[4,4]", (17,)),
        )
    ),
    *(
        Case(
            f'y = com.microsoft.CropAndResize <mode = "{mode}"{more}> (x, r, i, {size})',
            "float[2,3,6,7] x, float[5,4] r, int32[5] i",
            f"float[5,3,{made}] y",
            opsets,
            "int32[2] s = {4, 5}, int32[2] o = {1, 3}",
        )
        for mode, more, size, made, opsets in (
            ("bilinear", "", "s", "4,5", (11, 17)),
            ("bilinear", ", extrapolation_value = 7.0", "o", "1,3", (17,)),
            ("nearest", ", extrapolation_value = 7.0", "s", "4,5", (17,)),
        )
    ),
    *(
        Case(
            f"{outputs} = com.microsoft.DecoderMaskedMultiHeadAttention <num_heads = 2{more}> ({given})",
            "float[2,1,16] q, float[2,1,16] k, float[2,1,16] v, int32[2,5] m, float[1,2,1,5] a, float[2,2,6,8] i, "
            "float[2,2,6,8] j, float[48] b, int32[2,6] n",
            made,
            opsets,
            "int32[1] p = {4}",
            whole={"m": (1, 2), "n": (1, 2)},
        )
        for outputs, more, given, made, opsets in (
            ("y, f, g", SHARED, "q, k, v, , , i, j, p", BUFFERS, (11, 17, 23)),
            ("y, f, g", f"{SHARED}, scale = 0.5", "q, k, v, m, a, i, j, p, , , b", BUFFERS, (17, 23)),
            ("y", "", "q, k, v", "float[2,1,16] y", (17,)),
            ("y", "", "q, i, j, n, , , , , , , b", "float[2,1,16] y", (17, 23)),
        )
    ),
    *(
        Case(
            f"y = com.microsoft.RelativePositionBias <max_distance = {most}{more}> (b, q, k)",
            "float[8,3] b, int64[1] q, int64[1] k",
            "float[1,3,m,n] y",
            opsets,
            whole={"q": (3, 5), "k": (20, 30)},
        )
        for most, more, opsets in ((12, ", is_bidirectional = 1", (11, 17)), (16, "", (17,)))
    ),
]
"""The cases of all operators."""


def drawn(case: Case, seed: int) -> dict[str, Any]:
    """Inputs of moderate size, ids among the first two rows of their tables."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    held = {tensor.name for tensor in case.model.graph.initializer}
    for value in case.model.graph.input:
        tensor = value.type.tensor_type
        shape = [
            dim.dim_value or {"t": 4, "one": 1}.get(dim.dim_param, 2) for dim in tensor.shape.dim
        ]  # a past, and as many
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if value.name in held:
            continue
        if value.name in case.whole or dtype.kind in "iu":
            low, high = case.whole.get(value.name, (0, 2))
            feeds[value.name] = rng.integers(low, high, shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            feeds[value.name] = rng.uniform(0.1, 2, shape).astype(dtype)
    return feeds
