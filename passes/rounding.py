"""How far rounding alone takes the outputs of a model, as a bound for another order of the same arithmetic.

The model runs node by node in the next wider type (float as double, float16 and bfloat16 as float). What only moves,
selects and compares gets no bound at all, nor does arithmetic on small whole numbers, which is exact in any order. For
the rest the wide run is repeated with every value that is read disturbed by one unit of rounding, up or down (Monte
Carlo arithmetic, Parker 1997): another order of summation is such a disturbance. The bound is 8 times the largest
distance from the wide run, of the narrow run and of the disturbed ones.

Another order can also overflow where this one does not: where sums and products read numbers that large, elements that
are not finite in one of the two do not count. In sums of infinities the order decides between those and NaN. And the
sign of a zero that a sum gives does not count.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from opshift.passes.describe import inlined
from opshift.passes.interpret import Interpreter, bodies, outer_names, within
from opshift.passes.sessions import Array, Feeds, Limits, RejectedError, Source, Why
from opshift.passes.specs import schema, versions

FACTOR = 8
"""What the bound multiplies the distance by; the least significant bits of two right results differ by less."""
_RUNS = 4  # disturbed ones
_WIDER = {
    TensorProto.FLOAT: TensorProto.DOUBLE,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
}
_WIDE: Mapping[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
    np.dtype(np.float64): np.dtype(np.float64),  # there is no wider one in onnxruntime
}
# Without inputs they give what they are told to, in the type that they are told.
_GIVEN = frozenset({"Constant", "ConstantOfShape", "EyeLike"})


# They move, select and compare; they round nothing, and have no order of their own.
SELECTING = frozenset({
    "Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "CenterCropPad", "Clip", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape",
    "DepthToSpace", "Dropout", "Equal", "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND",
    "Greater", "GreaterOrEqual", "Hardmax", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "MaxPool",
    "MaxRoiPool", "Min", "Neg", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Optional", "OptionalGetElement",
    "OptionalHasElement", "Or", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Scatter",
    "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split",
    "SplitToSequence", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Upsample", "Where",
    "Xor",
})  # fmt: skip
# They add many numbers up, in an order of their own.
_SUMS = frozenset({
    "AffineGrid", "Attention", "AveragePool", "BatchNormalization", "CausalConvWithState", "Conv", "ConvInteger",
    "ConvTranspose", "CumProd", "CumSum", "DFT", "DeformConv", "Det", "Einsum", "GRU", "Gemm", "GlobalAveragePool",
    "GlobalLpPool", "GridSample", "GroupNormalization", "InstanceNormalization", "LRN", "LSTM", "LayerNormalization",
    "LinearAttention", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "Mean", "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss", "RMSNormalization", "RNN", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Resize", "RoiAlign",
    "RotaryEmbedding", "STFT", "Softmax", "SoftmaxCrossEntropyLoss", "Sum",
})  # fmt: skip
_ADDS = frozenset({"Add", "Sub"})
# What they are made of overflows before they do.
_MULTIPLY = frozenset({"Div", "Mul", "Pow"})
_COMPOSED = frozenset({"Celu", "Elu", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish"})


@dataclass(frozen=True)
class Bound:
    """What an output may depart by.

    Attributes:
        slack: the absolute distance.
        unstable: the elements at which rounding decides everything; None where there are none.
        huge: elements that are not finite in one of the two do not count.
        wild: elements that are not finite in both do not count.
        unsigned: the sign of a zero does not count.
    """

    slack: float = 0.0
    unstable: npt.NDArray[np.bool_] | None = None
    huge: bool = False
    wild: bool = False
    unsigned: bool = False

    def within(self, other: Bound) -> Bound:
        """Return the marks of this bound with the distance and the elements of another."""
        return replace(self, slack=other.slack, unstable=other.unstable)

    def plus(self, slack: float) -> Bound:
        """Return a bound that is wider by so much."""
        return replace(self, slack=self.slack + slack)


EXACT = Bound()


class Rounding:
    """The bounds of a model's outputs, input by input."""

    def __init__(self, source: Source, limits: Limits) -> None:
        """Keep the model; nothing is run yet."""
        source = replace(source, proto=inlined(source.proto), path=None)
        self._plain = Interpreter(source, limits)
        self._wide = Interpreter(source, limits)
        self._graph = self._plain.model.graph
        self._nodes = [(node, _widened(node)) for node in self._graph.node]
        self._narrow_only: set[int] = set()

    def bounds(self, feeds: Feeds, outputs: Sequence[Any]) -> tuple[Bound, ...]:
        """Return the bound of each output, given the outputs that the narrow model has on this input.

        Raises:
            RejectedError: the model cannot be run node by node.
        """
        plain = self._plain.values(feeds)
        wide, exact = self._run(feeds, plain)
        names = [value.name for value in self._graph.output]
        runs = [wide]
        for turn in range(_RUNS if not all(exact[name] for name in names) else 0):
            runs.append(self._run(feeds, plain, (wide, exact), turn)[0])
        marks = self._marks(plain)
        return tuple(
            marks[name] if exact[name] else marks[name].within(_bound(value, [run[name] for run in runs]))
            for name, value in zip(names, outputs, strict=True)
        )

    def _marks(self, plain: Mapping[str, Any]) -> Mapping[str, Bound]:
        """Return for each value what of it does not count."""
        marks = dict.fromkeys(plain, EXACT)
        for node, _ in self._nodes:
            read = [name for name in (*node.input, *outer_names(node)) if name]
            kinds = {node.op_type, *(inner.op_type for body in bodies(node) for inner in within(body))}
            again = node.op_type in ("Loop", "Scan")  # one addition after the other is a sum
            sums, adds = bool(kinds & (_SUMS | _ADDS if again else _SUMS)), bool(kinds & _ADDS)
            large = _huge if sums or kinds & _MULTIPLY else _near_the_end if adds or kinds & _COMPOSED else None
            found = Bound(
                huge=any(marks[name].huge or (large is not None and _has(plain[name], large)) for name in read),
                wild=any(marks[name].wild or (sums and _has(plain[name], _infinite)) for name in read),
                unsigned=sums or adds or any(marks[name].unsigned for name in read),
            )
            marks.update(dict.fromkeys(node.output, found))
        return marks

    def _run(
        self,
        feeds: Feeds,
        plain: Mapping[str, Any],
        first: tuple[Mapping[str, Any], Mapping[str, bool]] | None = None,
        turn: int = 0,
    ) -> tuple[dict[str, Any], dict[str, bool]]:
        """Return the wide values, and which of them are exact with all that they are computed from.

        With the `first` run, what was exact there is taken from it, and what every other node reads is disturbed, in
        another way each `turn`.
        """
        rng = np.random.default_rng(turn)
        values = {name: _wider(value) for name, value in (*self._plain.constants.items(), *feeds.items())}
        exact = dict.fromkeys(values, True)
        for node, widened in self._nodes:
            names = [name for name in node.output if name]
            if first and all(first[1][name] for name in names):
                values.update({name: first[0][name] for name in names})
                continue
            read = [name for name in (*node.input, *outer_names(node)) if name]
            given = {name: values[name] for name in read}
            if first:
                data = _data(node, self._plain.model)
                given = {
                    name: _disturbed(value, plain[name], rng, _SIGNS[turn] * (-1) ** place) if name in data else value
                    for place, (name, value) in enumerate(given.items())
                }
            results, narrow = self._node(node, widened, given, plain)
            if first:
                # A result that was not computed in a wider type does not show how it rounds itself.
                own = {name for name in results if node.op_type not in SELECTING and _is_widest(plain[name])}
                results = {
                    name: _disturbed(value, plain[name], rng, 0) if narrow or name in own else value
                    for name, value in results.items()
                }
            values.update(results)
            easy = node.op_type in SELECTING or (
                not narrow and all(_easy(plain[name]) for name in read) and all(_shown(plain[name]) for name in names)
            )
            same = easy and all(exact.get(name, False) for name in read) and _same(results, plain, names)
            exact.update(dict.fromkeys(names, same))
        return values, exact

    def _node(
        self, node: onnx.NodeProto, widened: onnx.NodeProto, given: Mapping[str, Any], plain: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], bool]:
        """Return the outputs of a node in wide types, and whether they were computed in narrow ones."""
        names = [name for name in node.output if name]
        if not node.input or node.op_type in _GIVEN:
            return {name: _wider(plain[name]) for name in names}, False
        if id(node) not in self._narrow_only:
            try:
                return self._wide.node(widened, given), False
            except RejectedError as error:
                if error.why in (Why.LIMIT, Why.DEATH):
                    raise
                self._narrow_only.add(id(node))
        narrow = {name: _as(value, plain[name]) for name, value in given.items()}
        results = self._plain.node(node, narrow)
        floats = any(_is_wide(value) for value in given.values()) and any(
            isinstance(value, np.ndarray) and value.dtype in _WIDE for value in results.values()
        )
        return {name: _wider(value) for name, value in results.items()}, floats


def _data(node: onnx.NodeProto, model: onnx.ModelProto) -> frozenset[str]:
    """Return the names that a node reads as data, and not as parameters such as the scales of a Resize."""
    found = schema(node.domain, node.op_type, versions(model).get("" if node.domain == "ai.onnx" else node.domain, 0))
    if found is None or not found.outputs or not found.inputs:
        return frozenset((*node.input, *outer_names(node)))
    made = {output.type_str for output in found.outputs}
    pairs = ((name, found.inputs[min(index, len(found.inputs) - 1)]) for index, name in enumerate(node.input))
    return frozenset(name for name, parameter in pairs if parameter.type_str in made) | frozenset(outer_names(node))


def _widened(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy that makes the wide type where the node makes the narrow one, in the graphs inside of it too."""
    wide = copy.deepcopy(node)
    for attribute in wide.attribute:
        if attribute.name in ("to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision"):
            attribute.i = _wider_type(attribute.i)
    for body in bodies(wide):
        for value in (*body.input, *body.output, *body.value_info):
            _widen(value.type)
        for tensor in body.initializer:
            tensor.CopyFrom(_wide_tensor(tensor))
        for inner in body.node:
            inner.CopyFrom(_widened(inner))
            for attribute in inner.attribute if inner.op_type in _GIVEN else ():
                attribute.CopyFrom(_wide_constant(attribute))
    return wide


def _wider_type(element: int) -> int:
    return int(_WIDER.get(element, element))  # type: ignore[call-overload]


def _widen(kind: onnx.TypeProto) -> None:
    """Make a type the wide one, also of the elements of a sequence or an optional."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        kind.tensor_type.elem_type = _wider_type(kind.tensor_type.elem_type)
    elif which in ("sequence_type", "optional_type"):
        _widen(getattr(kind, which).elem_type)


def _wide_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in _WIDER or tensor.data_location == TensorProto.EXTERNAL:
        return tensor
    return onnx.numpy_helper.from_array(_wider(onnx.numpy_helper.to_array(tensor)), tensor.name)


def _wide_constant(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    """Return the attribute `value` of a node that gives it as a wide tensor; those of a Constant are float alone."""
    if attribute.name == "value":
        return onnx.helper.make_attribute("value", _wide_tensor(attribute.t))
    if attribute.name in ("value_float", "value_floats"):
        value = np.asarray(onnx.helper.get_attribute_value(attribute), np.float32)
        return onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(_wider(value)))
    return attribute


def _has(value: Any, what: Callable[[Array, float], npt.NDArray[np.bool_]]) -> bool:
    """Return whether a value has floats of a kind, told of them and the largest of their type."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return False
    return bool(what(value.astype(np.float64), float(ml_dtypes.finfo(value.dtype).max)).any())  # type: ignore[no-untyped-call]


def _huge(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest**0.5))


def _near_the_end(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers overflow when they are added up."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest / 8))


def _infinite(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    return np.asarray(~np.isfinite(wide))


def _is_widest(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _is_wide(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in _WIDE.values()


def _wider(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        wide = _WIDE.get(np.dtype(value.dtype))
        return value if wide is None else value.astype(wide)
    return [_wider(item) for item in value] if isinstance(value, list) else value


def _as(value: Any, like: Any) -> Any:
    """Return a value in the type that the narrow model has it in."""
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray):
        with np.errstate(over="ignore"):
            return value.astype(like.dtype, copy=False)
    if isinstance(value, list) and isinstance(like, list) and like:
        return [_as(item, like[0]) for item in value]
    return value


_SIGNS = (1, -1, 0, 0)  # of the first input's disturbance, the others' alternate; 0: at random, element by element


def _disturbed(value: Any, like: Any, rng: np.random.Generator, sign: int) -> Any:
    """Return floats with each element moved by one unit of rounding of the narrow type, up or down."""
    if not (isinstance(value, np.ndarray) and isinstance(like, np.ndarray) and like.dtype in _WIDE):
        return value
    info = ml_dtypes.finfo(like.dtype)  # type: ignore[no-untyped-call]
    signs = np.asarray(sign if sign else rng.integers(0, 2, size=value.shape) * 2 - 1)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        unit = np.maximum(np.abs(value) * float(info.eps), float(info.smallest_subnormal)) * np.sign(value)
        return np.asarray(np.where(np.isfinite(value), value + signs * unit, value), value.dtype)


def _easy(value: Any) -> bool:
    """Return whether floats are whole numbers so small that thousands of products of two add up exactly."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return True
    bits = -math.log2(float(ml_dtypes.finfo(value.dtype).eps))  # type: ignore[no-untyped-call]
    wide = value.astype(np.float64)
    return bool(((np.abs(wide) <= 2 ** (bits / 4)) & (wide == np.round(wide))).all())


def _shown(value: Any) -> bool:
    """Return whether a wide run shows that nothing was rounded; of doubles, which have none, whole numbers do."""
    return not (isinstance(value, np.ndarray) and value.dtype == np.float64) or bool((value == np.round(value)).all())


def _same(wide: Mapping[str, Any], plain: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(_equal(wide[name], plain[name]) for name in names)


def _equal(wide: Any, plain: Any) -> bool:
    """Return whether a wide value is the narrow one: NaN is NaN, and a zero has its sign."""
    if isinstance(wide, list) and isinstance(plain, list):
        return len(wide) == len(plain) and all(map(_equal, wide, plain))
    if not (isinstance(wide, np.ndarray) and isinstance(plain, np.ndarray)):
        return wide is plain or bool(wide == plain)
    other = _wider(plain)
    if wide.shape != other.shape or wide.dtype != other.dtype:
        return False
    if wide.dtype.kind != "f":
        return bool((wide == other).all())
    return bool(
        (((wide == other) & (np.signbit(wide) == np.signbit(other))) | (np.isnan(wide) & np.isnan(other))).all()
    )


def _bound(plain: Any, runs: Sequence[Any]) -> Bound:
    """Return the bound of an output, of the narrow value and the wide ones, of which the first is undisturbed."""
    if not isinstance(plain, np.ndarray):
        pairs = [_bound(item, [run[index] for run in runs]) for index, item in _items(plain)]
        return Bound(max((each.slack for each in pairs), default=0.0))
    wide = runs[0]
    others = [_wider(plain), *runs[1:]]
    if any(not isinstance(other, np.ndarray) or other.shape != wide.shape for other in others):
        return Bound(0.0, np.ones(plain.shape, np.bool_))  # rounding decides the very shape
    if wide.dtype.kind != "f":
        unstable = np.logical_or.reduce([other != wide for other in others])
        return Bound(0.0, unstable if unstable.any() else None)
    finite = np.logical_and.reduce([np.isfinite(other) for other in (wide, *others)])
    alike = np.logical_and.reduce([(other == wide) | (np.isnan(other) & np.isnan(wide)) for other in others])
    with np.errstate(invalid="ignore", over="ignore"):
        distance = max(float(np.abs(other - wide)[finite].max(initial=0.0)) for other in others)
    unstable = ~finite & ~alike
    with np.errstate(invalid="ignore", over="ignore"):
        # No digit is right: the narrow type overflowed, or all is cancelled, on the way.
        largest = float(np.abs(wide[finite]).max(initial=0.0))
        unstable |= finite & (np.abs(others[0] - wide) > largest / 2)
    return Bound(FACTOR * distance, unstable if unstable.any() else None)


_FLOATS = frozenset(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        "float4_e2m1fn",
    )
)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is a float, those of ml_dtypes included."""
    return dtype.kind == "f" or dtype in _FLOATS


def rounded(value: Any) -> Bound:
    """Return 8 units of rounding of the largest value of an output, the bound where nothing better is known."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return EXACT
    wide = value.astype(np.float64)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    return Bound(FACTOR * largest * float(ml_dtypes.finfo(value.dtype).eps))  # type: ignore[no-untyped-call]


class Bounds:
    """The bounds of a model's outputs; 8 units of the largest value where it cannot be run node by node."""

    def __init__(self, source: Source, limits: Limits) -> None:
        """Keep the model."""
        self._rounding = Rounding(source, limits)
        self.coarse = 0
        """On how many inputs nothing better was known."""

    def __call__(self, feeds: Feeds, outputs: Sequence[Any]) -> Sequence[Bound]:
        """Return the bound of each output."""
        try:
            return self._rounding.bounds(feeds, outputs)
        except RejectedError:
            self.coarse += 1
            return [rounded(value) for value in outputs]


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()
