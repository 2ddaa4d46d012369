"""What a converter confuses: operators, modes and flags that are near each other."""

from __future__ import annotations

_GROUPS = (
    ("Floor", "Round", "Ceil"),
    ("Greater", "GreaterOrEqual"),
    ("Less", "LessOrEqual"),
    ("Greater", "Less"),
    ("And", "Or", "Xor"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    ("ReduceMax", "ReduceMin"),
    ("ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
    ("ReduceLogSum", "ReduceLogSumExp", "ReduceSum"),
    ("ReduceProd", "ReduceSum"),
    ("ArgMax", "ArgMin"),
    ("Max", "Min"),
    ("Add", "Sub"),
    ("Mul", "Div"),
    ("Sum", "Mean"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("Relu", "Elu", "LeakyRelu", "Softplus"),
    ("Relu", "ThresholdedRelu"),
    ("Celu", "Elu", "Selu"),
    ("Gelu", "HardSwish", "Swish"),
    ("Sigmoid", "HardSigmoid", "Tanh", "Softsign"),
    ("Mish", "HardSwish"),
    ("Sin", "Cos", "Tan"),
    ("Sinh", "Cosh", "Tanh"),
    ("Asin", "Atan", "Asinh"),
    ("Erf", "Tanh"),
    ("Exp", "Softplus"),
    ("Log", "Sqrt"),
    ("Sqrt", "Abs"),
    ("Sign", "Tanh"),
    ("Neg", "Abs", "Identity"),
    ("Abs", "Relu"),
    ("IsInf", "IsNaN"),
    ("AveragePool", "MaxPool"),
    ("GlobalAveragePool", "GlobalMaxPool"),
    ("HannWindow", "HammingWindow", "BlackmanWindow"),
    ("Reciprocal", "Neg"),
    ("CumSum", "CumProd"),
    ("DepthToSpace", "SpaceToDepth"),
    ("InstanceNormalization", "GroupNormalization"),
    ("LayerNormalization", "RMSNormalization"),
    ("GatherElements", "Gather"),
    ("Shrink", "ThresholdedRelu"),
    ("Mod", "Div"),
    ("Acosh", "Log"),
    ("Atanh", "Atan"),
    ("BitwiseNot", "Neg"),
    ("Not", "Identity"),
    ("RandomNormalLike", "RandomUniformLike"),
)


def neighbours(operator: str) -> list[str]:
    """Return the operators that are taken for another."""
    return sorted({name for group in _GROUPS if operator in group for name in group if name != operator})


_WORDS = {
    "mode": (
        ("DCR", "CRD"),
        ("nearest", "linear", "cubic"),
        ("constant", "reflect", "edge", "wrap"),
        ("bilinear", "nearest", "bicubic"),
        ("avg", "max"),
        ("linear", "circular"),
    ),
    "coordinate_transformation_mode": (
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"),
        ("half_pixel", "output_half_pixel"),
    ),
    "nearest_mode": (("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),),
    "padding_mode": (("zeros", "border", "reflection"),),
    "reduction": (("none", "add", "mul", "max", "min"), ("mean", "sum")),
    "direction": (("forward", "reverse"), ("LEFT", "RIGHT")),
    "auto_pad": (("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"),),
    "approximate": (("none", "tanh"),),
    "case_change_action": (("LOWER", "UPPER", "NONE"),),
    "activations": (("Tanh", "Sigmoid", "Relu", "HardSigmoid", "Softsign"),),
    "keep_aspect_ratio_policy": (("stretch", "not_larger", "not_smaller"),),
    "update_rule": (("linear", "gated", "delta", "gated_delta"),),
    "round_mode": (("up", "down", "nearest"),),
    "activation": (("none", "silu", "swish"),),
}


def words(attribute: str, value: str) -> list[str]:
    """Return the values of an attribute that are taken for one."""
    found = {word for group in _WORDS.get(attribute, ()) if value in group for word in group}
    if attribute == "equation":
        found.update(_equations(value))
    if attribute in ("pattern", "delimiter") and value:
        found.update((value[:-1], value + "a", value.upper(), ","))
    return sorted(found - {value})


def _equations(value: str) -> list[str]:
    left, arrow, right = value.partition("->")
    letters = [letter for letter in right if letter.isalpha()]
    if not arrow or not letters:
        return []
    turned = right.replace("".join(letters), "".join(letters[::-1]))
    terms = left.split(",")
    swapped = ",".join([*terms[1:], terms[0]])
    return [f"{left}->{turned}", f"{swapped}->{right}", *(f"{','.join((terms[0][::-1], *terms[1:]))}->{right}",)]


FLAGS = frozenset({
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad", "exclude_outside",
    "exclusive", "fmod", "inverse", "input_forget", "interleaved", "is_case_sensitive", "is_causal", "keepdims",
    "largest", "layout", "linear_before_reset", "noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper", "detect_negative",
    "detect_positive", "normalize_variance", "do_center",
})  # fmt: skip
