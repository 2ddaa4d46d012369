"""How operators treat floats: which move them bit for bit, which select among them, and which round.

Verification asks here how exact a comparison can be. An operator without an entry computes each element by itself and
rounds it once or more.
"""

from __future__ import annotations

import enum
import functools

import onnx


class Trait(enum.Enum):
    """What an operator does with floats."""

    MOVES = "moves"
    """Each float of an output is a float of an input, or a constant, bit for bit: zeros keep their sign."""
    SELECTS = "selects"
    """The same but for the sign of a zero. No specification tells zeros apart, and kernels of onnxruntime disagree: Max
    of 0.0 and -0.0 in float16 has one sign at opset 11 and the other at 12 (1.32.0)."""
    SUMS = "sums"
    """It adds up many numbers, in an order that each kernel chooses."""
    ADDS = "adds"
    """It adds two numbers."""
    MULTIPLIES = "multiplies"
    """It multiplies or divides two numbers, so that other orders overflow elsewhere."""
    COMPOSED = "composed"
    """It is defined by several operations, which overflow before the result does."""
    ADDS_ONE = "adds one"
    """It adds 1 to a number that is small beside it, or subtracts it, where other kernels do not: Elu of -1e-38 in
    onnxruntime 1.32.0 is 0.0."""
    PIECEWISE = "piecewise"
    """It is one function below a bound and another above; at the bound no specification tells zeros apart."""
    DIVIDES = "divides"
    """The sign of a zero that it reads is the sign of an infinity that it returns."""
    NORMALIZES = "normalizes"
    """It divides by the spread of its input, which is 0 / 0 where that has none: kernels return NaN or 0."""
    SQUARES = "squares"
    """It divides by the root of a sum of squares: where that overflows, finite numbers become 0. RMSNormalization of
    float does so by its function body, and not in onnxruntime 1.32.0."""
    WEIGHS = "weighs"
    """It takes quotients, roots or powers on the way, so that whole numbers that it returns for whole numbers do not
    show that nothing was rounded: three weights of a third, which add up to 1, make 2.0 or 1.9999999 of three 2."""
    SAMPLES = "samples"
    """It samples between elements: one whose weight is 0 is multiplied by it in one kernel and left out in another,
    which tells only where it is infinite."""
    STEPS = "steps"
    """It returns what it reads, or a number that is the same between two places where it jumps: nothing is rounded."""
    ONCE = "once"
    """It rounds each element once, as IEEE 754 has it, whatever type a kernel computes in: twice the digits and two
    more leave no double rounding of a sum, a product or a quotient (Figueroa, 1995)."""
    CONVERTS = "converts"
    """It rounds each element to another type, and not at all where that holds it."""
    IN_FLOAT = "in float"
    """It computes in float also where the output is double, by the function body that ONNX defines, or in
    onnxruntime (the scale of an inverse DFT, 1.32.0)."""


_BY_TRAIT: dict[Trait, frozenset[str]] = {
    Trait.MOVES: frozenset({
        "Abs", "And", "ArgMax", "ArgMin", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
        "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace",
        "Dropout", "Equal", "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Greater",
        "GreaterOrEqual", "Hardmax", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Neg", "NonMaxSuppression",
        "NonZero", "Not", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Or", "Pad", "Reshape",
        "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct",
        "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice",
        "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique",
        "Unsqueeze", "Upsample", "Where", "Xor",
    }),
    Trait.SELECTS: frozenset({
        "Clip", "Max", "MaxPool", "MaxRoiPool", "Min", "ReduceMax", "ReduceMin", "Relu", "Sign",
    }),
    Trait.SUMS: frozenset({
        "AffineGrid", "Attention", "AveragePool", "BatchNormalization", "CausalConvWithState", "Col2Im", "Conv",
        "ConvInteger", "ConvTranspose", "CumProd", "CumSum", "DFT", "DeformConv", "Det", "Einsum", "GRU", "Gemm",
        "GlobalAveragePool", "GlobalLpPool", "GridSample", "GroupNormalization", "InstanceNormalization", "LRN", "LSTM",
        "LayerNormalization", "LinearAttention", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "Mean",
        "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "RMSNormalization", "RNN", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Resize",
        "RoiAlign", "RotaryEmbedding", "STFT", "Softmax", "SoftmaxCrossEntropyLoss", "Sum",
    }),
    Trait.ADDS: frozenset({"Add", "Sub"}),
    Trait.MULTIPLIES: frozenset({"Div", "Mul", "Pow"}),
    Trait.COMPOSED: frozenset({"Celu", "Elu", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish"}),
    Trait.PIECEWISE: frozenset({"HardSigmoid", "LeakyRelu", "PRelu", "Shrink", "ThresholdedRelu"}),
    Trait.DIVIDES: frozenset({"Div", "Pow", "Reciprocal"}),
    Trait.NORMALIZES: frozenset({"LpNormalization", "MeanVarianceNormalization"}),
    Trait.ADDS_ONE: frozenset({"Celu", "Elu", "GRU", "LSTM", "Mish", "RNN", "Selu", "Softplus", "Swish"}),
    Trait.SQUARES: frozenset({
        "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization",
        "MeanVarianceNormalization", "RMSNormalization",
    }),
    Trait.WEIGHS: frozenset({
        "AffineGrid", "Attention", "AveragePool", "BatchNormalization", "DFT", "DeformConv", "Det", "GRU",
        "GlobalAveragePool", "GlobalLpPool", "GridSample", "GroupNormalization", "InstanceNormalization", "LRN", "LSTM",
        "LayerNormalization", "LinearAttention", "LogSoftmax", "LpNormalization", "LpPool", "Mean",
        "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "RMSNormalization", "RNN", "ReduceLogSumExp",
        "ReduceMean", "Resize", "RoiAlign", "RotaryEmbedding", "STFT", "Softmax", "SoftmaxCrossEntropyLoss", "SwiGLU",
        "Upsample",
    }),
    Trait.SAMPLES: frozenset({"DeformConv", "GridSample", "Resize", "RoiAlign", "Upsample"}),
    Trait.STEPS: frozenset({"Ceil", "Floor", "Round", "ThresholdedRelu"}),
    Trait.ONCE: frozenset({"Add", "Cast", "CastLike", "Div", "Mul", "Shrink", "Sub"}),
    Trait.CONVERTS: frozenset({"Cast", "CastLike"}),
    Trait.IN_FLOAT: frozenset({"BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "MelWeightMatrix"}),
}  # fmt: skip


_LOSES_SIGNS = frozenset({
    Trait.SELECTS, Trait.SUMS, Trait.ADDS, Trait.COMPOSED, Trait.PIECEWISE, Trait.IN_FLOAT
})  # fmt: skip


@functools.cache
def traits(operator: str) -> frozenset[Trait]:
    """Return the traits of an operator of the default domain."""
    return frozenset(trait for trait, names in _BY_TRAIT.items() if operator in names)


def traits_of(node: onnx.NodeProto) -> frozenset[Trait]:
    """Return the traits of a node: scattering with a reduction, or sampling between elements, moves no floats."""
    given = {attribute.name: attribute.s for attribute in node.attribute if attribute.name in ("reduction", "mode")}
    if node.op_type in ("ScatterElements", "ScatterND") and given.get("reduction", b"none") != b"none":
        return frozenset({Trait.SELECTS if given["reduction"] in (b"max", b"min") else Trait.SUMS})
    if node.op_type == "Upsample" and given.get("mode", b"nearest") != b"nearest":
        return frozenset({Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES})
    if node.op_type in ("Resize", "Upsample") and given.get("mode", b"nearest") == b"nearest":
        return traits(node.op_type) - {Trait.WEIGHS, Trait.SAMPLES}
    if node.op_type == "Shrink" and not any(one.f or one.ref_attr_name for one in node.attribute if one.name == "bias"):
        return traits(node.op_type) - {Trait.ONCE} | {Trait.STEPS}
    return traits(node.op_type)


def selects(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing and has no order of its own."""
    return not traits_of(node).isdisjoint({Trait.MOVES, Trait.SELECTS})


def is_exact(node: onnx.NodeProto) -> bool:
    """Return whether a node rounds nothing: one that selects, or that jumps at certain places."""
    return selects(node) or Trait.STEPS in traits_of(node)


def is_firm(node: onnx.NodeProto) -> bool:
    """Return whether every kernel, in whatever order, returns the same floats for the same floats."""
    return is_exact(node) or Trait.ONCE in traits_of(node)


def rounds(operator: str) -> bool:
    """Return whether each kernel of an operator rounds floats in a way of its own.

    The same node in another layout may round otherwise (onnxruntime 1.31.1, Softmax of float16: 1,000 elements along
    axis 0 and along the last, by one unit), and at an opset without a kernel its function body does
    (ReduceLogSumExp-28, 1.32.0).
    """
    return not traits(operator).isdisjoint({Trait.SUMS, Trait.COMPOSED, Trait.IN_FLOAT})


def keeps_signs(node: onnx.NodeProto) -> bool:
    """Return whether a node returns zeros with a sign that is defined: its input's, or by IEEE 754, as for Ceil."""
    return traits_of(node).isdisjoint(_LOSES_SIGNS)
