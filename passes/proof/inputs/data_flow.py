"""What a model does with the values of its inputs: what it looks up, counts, takes roots of, compares with what.

Followed backwards, from the operators that read a value to the graph inputs that it comes from: through operators that
only move or cast elements everything is passed on, through arithmetic with a constant what can be solved for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.operator import operator_for
from opshift.opsets.registry.schema import default_domain
from opshift.passes.analysis.model_summary import Outline, outline
from opshift.passes.analysis.scopes import Array
from opshift.passes.graph.traversal import graphs, subgraphs
from opshift.passes.proof.inputs import texts
from opshift.passes.proof.inputs.input_specs import schema


@dataclass(frozen=True)
class Axis:
    """A length that the shapes of the inputs tell: of an axis of a graph input."""

    input: str
    axis: int


@dataclass(frozen=True)
class Drawn:
    """A length that the inputs tell: the one element of a graph input."""

    input: str


Length = int | Axis | Drawn | None


@dataclass(frozen=True)
class Lookup:
    """Values that are indices.

    Attributes:
        lengths: those of the axes that they index: one, or one for each element of an index' last axis.
        beyond: indices outside are defined too.
        negative: negative indices are defined, and count from the end.
        offset: a constant that is added to the values first.
        ignored: values outside that are defined, such as labels that a loss ignores.
    """

    lengths: tuple[Length, ...]
    beyond: bool = False
    negative: bool = True
    offset: int = 0
    ignored: tuple[int, ...] = ()


@dataclass(frozen=True)
class Interval:
    """Numbers for which an operator has a meaning; `zero` says whether 0 is one of them."""

    low: float = -math.inf
    high: float = math.inf
    zero: bool = True


@dataclass(frozen=True)
class Number:
    """A constant that values, or with `summed` the sum of many of them, are compared with."""

    value: float | str
    summed: bool = False


@dataclass(frozen=True)
class Use:
    """What becomes of a value.

    Attributes:
        counts: it sets a size or how long a node runs.
        places: it is an axis or a position, or an index is computed from it.
        lookups: it is an index as it is.
        intervals: what it should lie in.
        numbers: what it is compared with.
        boxes: how long an element of an image is, in the units of corners of boxes; 0 where it is none.
    """

    counts: bool = False
    places: bool = False
    lookups: tuple[Lookup, ...] = ()
    intervals: tuple[Interval, ...] = ()
    numbers: tuple[Number, ...] = ()
    boxes: float = 0.0

    def __or__(self, other: Use) -> Use:
        """Return what becomes of a value that is used in both ways; of many numbers the first are kept."""
        if other == NOTHING or self == other:
            return self
        if self == NOTHING:
            return other
        return Use(
            self.counts or other.counts,
            self.places or other.places,
            _joined(self.lookups, other.lookups),
            _joined(self.intervals, other.intervals),
            _joined(self.numbers, other.numbers),
            max(self.boxes, other.boxes),
        )


_KEPT = 24  # constants of one node
_MOST = 64  # of all nodes that an input reaches


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    if not other or one == other:
        return one
    if not one:
        return other
    taken = itertools.chain.from_iterable(itertools.zip_longest(one, other))
    return tuple(dict.fromkeys(item for item in taken if item is not None))[:_MOST]


NOTHING = Use()
COUNT = Use(counts=True)
PLACE = Use(places=True)


# --- what operators do with their inputs ----------------------------------------------------------------------------

# Inputs that set how large a result is, or how long a node runs. None: all inputs.
_COUNTS: dict[str, tuple[int, ...] | None] = {
    "AffineGrid": (1,), "BlackmanWindow": None, "CenterCropPad": (1,), "Col2Im": (1, 2), "ConstantOfShape": None,
    "DFT": (1,), "Expand": (1,), "HammingWindow": None, "HannWindow": None, "Loop": (0, 1), "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1), "NonMaxSuppression": (2,), "OneHot": (1,), "Pad": (1,), "Range": None, "Reshape": (1,),
    "Resize": (1, 2, 3), "STFT": (1, 3), "Split": (1,), "SplitToSequence": (1,), "Tile": (1, 2), "TopK": (1,),
    "Upsample": (1,),
}  # fmt: skip

# Inputs whose elements an output has as they are, or cast. None: all inputs.
_MOVED: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "Cast", "CastLike", "CenterCropPad", "Compress", "DepthToSpace", "DynamicSlice", "Expand", "Flatten",
            "Gather", "GatherElements", "GatherND", "Identity", "Optional", "OptionalGetElement", "Pad", "Reshape",
            "ReverseSequence", "SequenceAt", "SequenceErase", "Slice", "SpaceToDepth", "Split", "SplitToSequence",
            "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze",
        ),
        (0,),
    ),
    "Concat": None, "ConcatFromSequence": None, "SequenceConstruct": None, "SequenceInsert": (0, 1),
    "ScatterElements": (0, 2), "Scatter": (0, 2), "ScatterND": (0, 2), "Where": (1, 2),
}  # fmt: skip

# What each operator has a meaning for, by the index of the input.
_PERMITTED: dict[str, Mapping[int, Interval]] = {
    "Acos": {0: Interval(-1, 1)},
    "Acosh": {0: Interval(1)},
    "Asin": {0: Interval(-1, 1)},
    "Atanh": {0: Interval(-1, 1)},
    "BatchNormalization": {4: Interval(0)},
    "Cosh": {0: Interval(-16, 16)},
    "Div": {1: Interval(zero=False)},
    "Exp": {0: Interval(-16, 16)},  # beyond it what follows overflows, or is rounded to 0 or 1
    "Log": {0: Interval(0, zero=False)},
    # Twice the upper edge is at most the sample rate; of a few bins edges that are much lower share the first.
    "MelWeightMatrix": {2: Interval(2000, 16000), 3: Interval(0, 400), 4: Interval(400, 2000)},
    "Mod": {1: Interval(zero=False)},
    "Pow": {0: Interval(0)},
    "Reciprocal": {0: Interval(zero=False)},
    "Sinh": {0: Interval(-16, 16)},
    "Sqrt": {0: Interval(0)},
}

_BOXES = {"MaxRoiPool": 1, "NonMaxSuppression": 0, "RoiAlign": 1}
"""Inputs that are corners of boxes, by index."""

_COMPARES = frozenset({
    "Clip", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Where",
})  # fmt: skip
_BOUNDS = {"Clip": ("min", "max"), "ThresholdedRelu": ("alpha",), "Shrink": ("lambd",)}

# Each element of the output comes from one element, or from a few of them: what it is compared with tells of those.
_POINTWISE = frozenset({
    "Abs", "Add", "Ceil", "Clip", "Div", "Floor", "Max", "Mean", "Min", "Mod", "Mul", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "Relu", "Round", "Shrink", "Sub", "ThresholdedRelu",
})  # fmt: skip
_SUMS = frozenset({"CumSum", "ReduceL1", "ReduceSum", "Sum"})


# Whatever they are given, what comes out is small, or one of two.
_BOUNDED = frozenset({
    "And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Hardmax", "IsInf", "IsNaN", "Less",
    "LessOrEqual", "NonMaxSuppression", "NonZero", "Not", "Or", "Sign", "Xor",
})  # fmt: skip
# Their outputs after the first are bounded so too: positions in their input.
_POSITIONED = frozenset({"MaxPool", "TopK", "Unique"})


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def _gathered(node: onnx.NodeProto, view: Outline, axis: int | None = None) -> Lookup:
    at = int(_attribute(node, "axis", 0)) if axis is None else axis
    return Lookup((_length(view, node.input[0], at),))


def _gathered_nd(node: onnx.NodeProto, view: Outline) -> Lookup:
    batch = int(_attribute(node, "batch_dims", 0))
    data, indices = view.shapes.get(node.input[0]), view.shapes.get(node.input[1])
    rank = 6 if data is None else len(data)
    columns = indices[-1] if indices else None
    last = batch + columns if isinstance(columns, int) else rank
    return Lookup(tuple(_length(view, node.input[0], axis) for axis in range(batch, min(last, rank))))


def _one_hot(node: onnx.NodeProto, view: Outline) -> Lookup:
    depth = view.constant(node.input[1])
    if depth is not None and depth.size == 1:
        return Lookup((int(depth.item()),), beyond=True)
    source = view.origin(node.input[1])
    return Lookup((Drawn(source),) if source in view.inputs else (None,), beyond=True)


def _classes(node: onnx.NodeProto, view: Outline) -> Lookup:
    ignored = _attribute(node, "ignore_index", None)
    kept = (int(ignored),) if isinstance(ignored, int) else ()
    return Lookup((_length(view, node.input[0], 1),), negative=False, ignored=kept)


_Indexed = Callable[[onnx.NodeProto, Outline], Lookup]
_LOOKUPS: dict[str, tuple[tuple[int, _Indexed], ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "Scatter", "ScatterElements"), ((1, _gathered),)),
    **dict.fromkeys(("GatherND", "ScatterND"), ((1, _gathered_nd),)),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), ((1, _classes),)),
    "ArrayFeatureExtractor": ((1, lambda node, view: Lookup((_length(view, node.input[0], -1),), negative=False)),),
    "EmbedLayerNormalization": (
        (0, lambda node, view: Lookup((_length(view, node.input[2], 0),), negative=False)),
        (1, lambda node, view: Lookup((_length(view, node.input[4], 0),), negative=False)),
    ),
    "OneHot": ((0, _one_hot),),
    "RoiAlign": ((2, lambda node, view: Lookup((_length(view, node.input[0], 0),), negative=False)),),
    "RotaryEmbedding": ((3, lambda node, view: Lookup((_length(view, node.input[1], 0),), negative=False)),),
}


def _length(view: Outline, name: str, axis: int) -> Length:
    """Return how long an axis of a value is."""
    dims = view.shapes.get(name)
    if dims is not None and -len(dims) <= axis < len(dims):
        dim = dims[axis]
        if isinstance(dim, str):
            return Axis(*view.bearers[dim]) if dim in view.bearers else None
        return dim
    return Axis(name, axis) if name in view.inputs else None


def _own(node: onnx.NodeProto, view: Outline, index: int) -> Use:
    """Return what a node itself does with one of its inputs."""
    operator = node.op_type
    if operator in view.functions:
        return COUNT
    counted = _COUNTS.get(operator, ())
    if counted is None or index in counted:
        return COUNT
    for at, indexed in _LOOKUPS.get(operator, ()):
        if at == index:
            return Use(lookups=(indexed(node, view),))
    use = NOTHING
    if permitted := _PERMITTED.get(operator, {}).get(index):
        use = Use(intervals=(permitted,))
    if operator in _COMPARES or operator in _BOUNDS:
        use |= Use(numbers=_compared(node, view, index))
    if _BOXES.get(operator) == index:
        use |= Use(boxes=1 / (float(_attribute(node, "spatial_scale", 1.0)) or 1.0))
    if node.domain == "ai.onnx.ml" or operator in _READS_STRINGS:
        use |= Use(numbers=_listed(node))
    domain = default_domain(node.domain)
    if not permitted and index in _positions(domain, operator, view.versions.get(domain, 1), len(node.input)):
        use |= PLACE
    return use


def _listed(node: onnx.NodeProto) -> tuple[Number, ...]:
    """Return the keys and categories that a node has as attributes, and strings made for its pattern or delimiter."""
    listed = (attribute for attribute in node.attribute if attribute.name.split("_")[0] in _KEYS)
    found = [item for attribute in listed for item in _some_values(attribute)]
    if node.op_type == "StringNormalizer":
        found += [made for word in found for made in (word.swapcase(), word.upper(), word.lower(), word.title())]
    if node.op_type == "RegexFullMatch":
        found += texts.around_pattern(_text(node, "pattern"))
    if node.op_type == "StringSplit":
        found += texts.around_delimiter(_text(node, "delimiter"), int(_attribute(node, "maxsplit", 0)))
    if node.op_type == "Cast":
        found += texts.NUMERALS
    return _numbers(found)


_READS_STRINGS = frozenset({"Cast", "RegexFullMatch", "StringNormalizer", "StringSplit", "TfIdfVectorizer"})
_KEYS = frozenset({"cats", "classlabels", "keys", "pool", "stopwords"})


def _text(node: onnx.NodeProto, name: str) -> str:
    held = _attribute(node, name, b"")
    return held.decode("utf-8", "replace") if isinstance(held, bytes) else ""


def _some_values(attribute: onnx.AttributeProto) -> Sequence[Any]:
    return [item.decode("utf-8", "replace") for item in attribute.strings[:_KEPT]] or list(attribute.ints[:_KEPT])


def _compared(node: onnx.NodeProto, view: Outline, index: int) -> tuple[Number, ...]:
    """Return the constants among the other inputs of a node, and those that it has as attributes."""
    others = (view.constant(name) for at, name in enumerate(node.input) if at != index)
    found = [item for array in others if array is not None for item in _items(array)]
    found += [_attribute(node, name, None) for name in _BOUNDS.get(node.op_type, ())]
    return _numbers(found)


def _items(array: Array) -> list[Any]:
    return list(array.astype("f4").reshape(-1) if array.dtype.kind == "V" else array.reshape(-1).tolist())


def _numbers(items: Iterable[Any]) -> tuple[Number, ...]:
    kept = (item for item in items if isinstance(item, str) or (isinstance(item, int | float) and math.isfinite(item)))
    return tuple(Number(item) for item in dict.fromkeys(kept) if not isinstance(item, bool))


@functools.cache
def _positions(domain: str, operator: str, version: int, count: int) -> frozenset[int]:
    """Return which inputs the schema types as int32 or int64 and nothing else: axes, positions, counts."""
    found = schema(domain, operator, version)
    if found is None or not found.inputs:
        return frozenset()
    last = len(found.inputs) - 1
    kinds = {"tensor(int32)", "tensor(int64)"}
    return frozenset(index for index in range(count) if set(found.inputs[min(index, last)].types) <= kinds)


# --- what passes through operators ----------------------------------------------------------------------------------


def _passed(node: onnx.NodeProto, view: Outline, index: int, wanted: Use) -> Use:
    """Return what becomes of one of the inputs of a node, given what becomes of its outputs."""
    operator = node.op_type
    if wanted == NOTHING or operator in ("Shape", "Size"):
        return NOTHING
    if operator in _MOVED:
        moved = _MOVED[operator]
        if moved is None or index in moved:
            return wanted
    if operator in _BOUNDED:
        return Use(wanted.counts)
    indirect = Use(wanted.counts, wanted.places or bool(wanted.lookups))
    if shifted := _shifted(node, view, index, wanted):
        numbers = (*_bounds_of(node, view, index), *wanted.numbers)
        return Use(wanted.counts, wanted.places, shifted, numbers=numbers)
    if operator in _SUMS:
        numbers = tuple(Number(one.value, summed=True) for one in wanted.numbers)
        return dataclasses.replace(indirect, numbers=numbers)
    if operator in _INVERSES:
        return dataclasses.replace(indirect, numbers=_inverted(_INVERSES[operator], wanted.numbers))
    if operator == "Mul" and len(node.input) == 2 and node.input[0] == node.input[1]:
        return dataclasses.replace(indirect, numbers=_inverted(_roots, wanted.numbers))
    if operator not in _POINTWISE and operator != "Neg":
        return indirect
    solved = _solved(node, view, index)
    if solved is None:
        return dataclasses.replace(indirect, numbers=wanted.numbers)
    return dataclasses.replace(
        indirect,
        numbers=tuple(
            Number(solved(one.value), one.summed) for one in wanted.numbers if not isinstance(one.value, str)
        ),
        intervals=tuple(_image(solved, one) for one in wanted.intervals),
    )


def _roots(value: float) -> list[float]:
    return [math.sqrt(value), -math.sqrt(value)]


_INVERSES: dict[str, Callable[[float], list[float]]] = {
    "Abs": lambda value: [value, -value],
    "Atan": lambda value: [math.tan(value)],
    "Cos": lambda value: [math.acos(value)],
    "Erf": lambda value: [statistics.NormalDist().inv_cdf((value + 1) / 2) / math.sqrt(2)],
    "Exp": lambda value: [math.log(value)],
    "Log": lambda value: [math.exp(value)],
    "Reciprocal": lambda value: [1 / value],
    "Sigmoid": lambda value: [math.log(value / (1 - value))],
    "Sin": lambda value: [math.asin(value)],
    "Softplus": lambda value: [math.log(math.expm1(value))],
    "Softsign": lambda value: [value / (1 - abs(value))],
    "Sqrt": lambda value: [value * value],
    "Tanh": lambda value: [math.atanh(value)],
}
"""Functions of one number, and the numbers that they return one for."""


def _inverted(inverse: Callable[[float], list[float]], numbers: Iterable[Number]) -> tuple[Number, ...]:
    """Return the numbers of which a function returns these."""
    found = []
    for one in numbers:
        with contextlib.suppress(ArithmeticError, ValueError):
            found += [Number(value, one.summed) for value in inverse(float(one.value))]
    return tuple(found)


_CLAMPS = frozenset({"Clip", "Max", "Min"})


def _shifted(node: onnx.NodeProto, view: Outline, index: int, wanted: Use) -> tuple[Lookup, ...]:
    """Return the lookups of an index that a constant is added to, or that is clamped, as those of its input."""
    if not wanted.lookups or wanted.counts:
        return ()
    if node.op_type in _CLAMPS and (node.op_type != "Clip" or index == 0):
        # What is clamped is defined wherever it is; which side is clamped the numbers tell.
        return tuple(dataclasses.replace(one, beyond=True, negative=True) for one in wanted.lookups)
    if node.op_type not in ("Add", "Sub") or len(node.input) != 2 or (node.op_type == "Sub" and index == 1):
        return ()
    other = view.constant(node.input[1 - index])
    if other is None or other.size != 1 or other.dtype.kind not in "iu":
        return ()
    offset = int(other.item()) if node.op_type == "Add" else -int(other.item())
    return tuple(dataclasses.replace(one, offset=one.offset + offset) for one in wanted.lookups)


def _bounds_of(node: onnx.NodeProto, view: Outline, index: int) -> tuple[Number, ...]:
    return _compared(node, view, index) if node.op_type in _CLAMPS else ()


def _solved(node: onnx.NodeProto, view: Outline, index: int) -> Callable[[float], float] | None:
    """Return what gives the input that an output of a node comes from, for arithmetic with one constant."""
    if node.op_type == "Neg":
        return lambda value: -value
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2:
        return None
    other = view.constant(node.input[1 - index])
    if other is None or other.size != 1 or other.dtype.kind not in "iuf":
        return None
    constant = other.item()
    if node.op_type == "Add":
        return lambda value: value - constant
    if node.op_type == "Sub":
        return (lambda value: value + constant) if index == 0 else (lambda value: constant - value)
    if not constant or not math.isfinite(constant) or (node.op_type == "Div" and index == 1):
        return None
    if node.op_type == "Div":
        return lambda value: value * constant
    return lambda value: value // constant if isinstance(value, int) and isinstance(constant, int) else value / constant


def _image(solved: Callable[[float], float], interval: Interval) -> Interval:
    """Return the interval of the inputs for one of outputs."""
    low, high = sorted((solved(interval.low), solved(interval.high)))
    if not interval.zero and interval.low == -math.inf and interval.high == math.inf:
        return Interval()  # where the hole is now is not kept
    return Interval(low, high, zero=interval.zero or low < 0 < high)


# --- the graphs -----------------------------------------------------------------------------------------------------

_Wanted = dict[str, Use]


def _add(found: _Wanted, name: str, use: Use) -> None:
    if name and use != NOTHING:
        found[name] = found.get(name, NOTHING) | use


def _followed(graph: onnx.GraphProto, view: Outline, wanted: Iterable[Use]) -> _Wanted:
    """Return what becomes of the values of a graph and of those around it, given what becomes of its outputs."""
    found: _Wanted = {}
    for value, use in zip(graph.output, wanted, strict=False):
        _add(found, value.name, use)
    for node in reversed(graph.node):
        outputs = [found.get(name, NOTHING) for name in node.output]
        if node.op_type in _POSITIONED:
            outputs = [outputs[0], *(Use(use.counts) for use in outputs[1:])]
        flow = functools.reduce(Use.__or__, outputs, NOTHING)
        bodies = [body for _, body in subgraphs(node)]
        inputs = [NOTHING] * len(node.input)
        for body in bodies:
            inside, formal = _body(node, body, view, outputs)
            own = {value.name for value in (*body.input, *body.initializer)}
            own.update(name for inner in body.node for name in inner.output)
            for name, use in inside.items():
                if name not in own:
                    _add(found, name, use)
            # The inputs of a body are the last ones of its node: a Scan-8 has one more, which is optional.
            for at, use in enumerate(reversed(formal[: len(inputs)]), 1):
                inputs[-at] |= use
        for index, name in enumerate(node.input):
            if name:
                passed = inputs[index] if bodies else _passed(node, view, index, flow)
                _add(found, name, _own(node, view, index) | passed)
    return found


def _body(
    node: onnx.NodeProto, body: onnx.GraphProto, view: Outline, outputs: Sequence[Use]
) -> tuple[_Wanted, list[Use]]:
    """Return what becomes of the values in a body, and of the inputs of its node that are its inputs.

    What a Loop or a Scan carries goes round: what becomes of a carried value becomes of the one that it is made from.
    """
    first = {"Loop": 1}.get(node.op_type, 0)  # the condition has no output of the node
    entry = {"Loop": 2}.get(node.op_type, 0)
    carried = 0
    if node.op_type == "Loop":
        carried = len(body.input) - 2
    elif node.op_type == "Scan":
        carried = len(body.input) - int(_attribute(node, "num_scan_inputs", 0))
    wanted = [COUNT] * first + list(outputs)
    for _ in range(3):
        found = _followed(body, view, wanted)
        formal = [found.get(value.name, NOTHING) for value in body.input]
        again = list(wanted)
        for at in range(min(carried, len(wanted) - first)):
            again[first + at] |= formal[entry + at]
        if again == wanted:
            break
        wanted = again
    for at in range(min(carried, len(outputs))):
        formal[entry + at] |= outputs[at]  # a Loop that runs zero times
    return found, formal


def uses(model: onnx.ModelProto | Outline) -> dict[str, Use]:
    """Return what becomes of each graph input; those of which nothing is known are left out."""
    view = model if isinstance(model, Outline) else outline(model)
    found = _followed(view.graph, view, ())
    return {name: found[name] for name in view.inputs if name in found}


def steering(model: onnx.ModelProto | Outline) -> frozenset[str]:
    """Return the names of the graph inputs whose values reach a size, a count, a position or an index.

    Fed with anything but small numbers ConstantOfShape([2^33]) would take all memory, and a Loop whose condition sees
    an infinity may never end. `Shape` and `Size` pass no values on.
    """
    return frozenset(
        name
        for name, use in uses(model).items()
        if use.counts or use.places or any(not lookup.beyond for lookup in use.lookups)
    )


@dataclass(frozen=True, eq=False)
class Say:
    """An operator's own say on the inputs of one node: on graph inputs, beside constants that stay as they are.

    `inputs` are the graph inputs by operand, `constants` read-only arrays by operand.
    """

    hostile: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]]
    inputs: Mapping[str, str]
    constants: Mapping[str, Array]

    def changed(self, rng: np.random.Generator, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs of the same shapes that are hostile for the operator; as they are where it makes none."""
        operands = {operand: feeds[name] for operand, name in self.inputs.items()}
        if not all(isinstance(value, np.ndarray) for value in operands.values()):
            return dict(feeds)
        try:
            wanted = self.hostile(rng, {**self.constants, **operands})
            made = {operand: np.asarray(wanted[operand], array.dtype) for operand, array in operands.items()}
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return dict(feeds)
        if any(made[operand].shape != array.shape for operand, array in operands.items()):
            return dict(feeds)
        return {**feeds, **{name: made[operand] for operand, name in self.inputs.items()}}


def says(view: Outline) -> tuple[Say, ...]:
    """Return what operators say on nodes of the main graph that read nothing but graph inputs and small constants."""
    found = []
    for node in view.graph.node:
        domain = default_domain(node.domain)
        operator = operator_for(domain, node.op_type)
        declared = schema(domain, node.op_type, view.versions.get(domain, 1))
        if operator is None or operator.hostile is None or declared is None:
            continue
        if operator.variadic or len(declared.inputs) != len(operator.operands):
            continue  # some operands are attributes at this version
        named = {operand: name for operand, name in zip(operator.operands, node.input, strict=False) if name}
        fed = {operand: name for operand, name in named.items() if name in view.inputs}
        constants = {operand: view.constants[name].copy() for operand, name in named.items() if name in view.constants}
        if fed and len(fed) + len(constants) == len(named) and len(set(fed.values())) == len(fed):
            for array in constants.values():
                array.flags.writeable = False
            found.append(Say(operator.hostile, fed, constants))
    return tuple(found)


@dataclass(frozen=True)
class Fill:
    """A graph input that is the shape that a value is reshaped to, or all of that shape but for known sizes.

    `elements` are the lengths of the axes of what is reshaped, and `others` is what the known sizes multiply up to.
    """

    input: str
    elements: tuple[Length, ...]
    others: int


def fills(view: Outline) -> tuple[Fill, ...]:
    """Return which inputs of the main graph must multiply up to the number of elements of a value."""
    makers = {name: node for node in view.graph.node for name in node.output}
    found = []
    for node in view.graph.node:
        if node.op_type != "Reshape" or len(node.input) < 2 or (dims := view.shapes.get(node.input[0])) is None:
            continue
        elements = tuple(_length(view, node.input[0], axis) for axis in range(len(dims)))
        parts = list(_parts(view, makers, node.input[1]))
        sizes = [part for part in parts if not isinstance(part, str)]
        named = [part for part in parts if isinstance(part, str)]
        if len(named) == 1 and named[0] and None not in elements and all(one > 0 for one in sizes):
            found.append(Fill(named[0], elements, math.prod(sizes)))
    return tuple(found)


def _parts(view: Outline, makers: Mapping[str, onnx.NodeProto], name: str) -> Iterator[int | str]:
    """Yield what a shape is put together from: sizes, names of graph inputs, and an empty name for anything else."""
    known = view.constant(name)
    origin = view.origin(name)
    if known is not None and known.dtype.kind in "iu":
        yield from known.reshape(-1).tolist()
    elif origin in view.inputs:
        yield origin
    elif origin in makers and makers[origin].op_type == "Concat":
        for part in makers[origin].input:
            yield from _parts(view, makers, part)
    else:
        yield ""


def divides(model: onnx.ModelProto) -> bool:
    """Return whether a model divides by something that is not constant.

    onnxruntime's Div and Mod of the least integer by -1 end the process (SIGFPE), so such a model never gets it.
    """
    found = [node for graph in graphs(model) for node in graph.node]
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {name for node in found if node.op_type == "Constant" for name in node.output}
    return any(
        node.op_type in ("Div", "Mod") and len(node.input) == 2 and node.input[1] not in constants for node in found
    )
