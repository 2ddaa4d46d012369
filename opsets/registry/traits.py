"""Define `Traits`: the facts about an operator that verification and analysis need, besides its meaning.

The traits of an operator with a file are in that file; those of others are in `schema_only_traits.py`. The defaults
hold for an operator that computes each element separately, and rounds it once or more.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opshift.opsets.registry.inner_sums import InnerSum
from opshift.opsets.registry.quantized_form import QuantizedForm
from opshift.opsets.registry.shape_hints import EqualDims, NodeShapes
from opshift.opsets.registry.value_ranges import Rule

Merges = Callable[[Any, Any, int], "Sequence[tuple[Any, Any]] | None"]


class Trait(enum.Enum):
    """The effect of an operator on floats."""

    MOVES = "moves"
    """Each float of an output is a float of an input, or a constant, bit for bit: zeros keep their sign."""
    SELECTS = "selects"
    """The same except for the sign of a zero.

    No specification distinguishes zeros, and kernels of onnxruntime disagree: Max of 0.0 and -0.0 in float16 has one
    sign at opset 11 and the other at 12 (1.32.0).
    """
    SUMS = "sums"
    """It adds many numbers, in an order that depends on the kernel."""
    ADDS = "adds"
    """It adds two numbers."""
    MULTIPLIES = "multiplies"
    """It multiplies or divides two numbers, so that another order overflows elsewhere."""
    PRODUCTS = "products"
    """It multiplies many numbers, in an order that depends on the kernel.

    Intermediate results may overflow or underflow.
    """
    COMPOSED = "composed"
    """It is defined by several operations, which may overflow before the result does."""
    ADDS_ONE = "adds one"
    """It adds 1 to, or subtracts 1 from, a much smaller number, which other kernels avoid.

    Elu of -1e-38 in onnxruntime 1.32.0 is 0.0.
    """
    PIECEWISE = "piecewise"
    """It is one function below a bound and another above; at the bound no specification distinguishes zeros."""
    DIVIDES = "divides"
    """The sign of a zero input is the sign of an infinite result."""
    NORMALIZES = "normalizes"
    """It divides by the spread of its input, which is 0 / 0 for a constant input: kernels return NaN or 0."""
    SQUARES = "squares"
    """It divides by the root of a sum of squares: if that overflows, finite numbers become 0.

    For RMSNormalization of float this holds for its function body, but not for onnxruntime 1.32.0.
    """
    WEIGHS = "weighs"
    """It computes intermediate quotients, roots or powers.

    So whole results of whole inputs do not prove that nothing was rounded: three weights of a third, whose sum is 1,
    turn three 2 into 2.0 or 1.9999999.
    """
    SAMPLES = "samples"
    """It samples between elements.

    An element with weight 0 is multiplied in one kernel and left out in another, which matters only if it is infinite.
    """
    STEPS = "steps"
    """It returns its input, or a number that is constant between two jumps: nothing is rounded."""
    ONCE = "once"
    """It rounds each element once, as in IEEE 754, whatever type a kernel computes in.

    With twice the digits and two more, a sum, a product or a quotient has no double rounding (Figueroa, 1995).
    """
    CONVERTS = "converts"
    """It rounds each element to another type, or not at all if that type can hold it."""
    IN_FLOAT = "in float"
    """It computes in float even if the output is double.

    ONNX's function body does so, or onnxruntime (the scale of an inverse DFT, 1.32.0).
    """
    QUANTIZES = "quantizes"
    """It quantizes results of other scales, which kernels multiply in various orders.

    A number near the middle of two steps becomes one or the other, such as one byte of 81,920 in QLinearAdd
    (onnxruntime 1.32.0).
    """
    RANDOM = "random"
    """It draws random numbers, at least in training (Dropout).

    The same model returns other results in each run, or in another session.
    """


def roots(value: float) -> list[float]:
    """Return the numbers of which a square is this one, the `Traits.inverse` of squares."""
    return [math.sqrt(value), -math.sqrt(value)]


# --- what the values of an input mean ------------------------------------------------------------------------------


EVERY = range(2**31)
"""All inputs of an operator with any number of them."""


@dataclass(frozen=True)
class Interval:
    """The numbers for which an operator is defined; `zero`: 0 is one of them."""

    low: float = -math.inf
    high: float = math.inf
    zero: bool = True


@dataclass(frozen=True)
class AlongAxis:
    """Indices along an axis of the input `data`.

    `axis` is a number, or the name of its attribute. `negative` indices count from the end. The attribute `ignored` is
    a defined index outside, such as a label that a loss ignores.
    """

    data: int = 0
    axis: int | str = "axis"
    negative: bool = True
    ignored: str = ""


@dataclass(frozen=True)
class Coordinates:
    """Indices whose last axis has one index for each axis of the first input, after `batch_dims` axes."""


@dataclass(frozen=True)
class Below:
    """Indices below the value of the input `limit`; others are defined too."""

    limit: int


class Strings(enum.Enum):
    """Strings that an operator distinguishes, besides those in its attributes."""

    LISTED = "listed"
    """No others."""
    CASES = "cases"
    """Strings in upper and lower case."""
    PATTERN = "pattern"
    """Strings that match a pattern."""
    DELIMITER = "delimiter"
    """Strings with a delimiter."""
    NUMERALS = "numerals"
    """Numbers in digits."""


# --- relations of values ---------------------------------------------------------------------------------------------


class Flow(enum.Enum):
    """The relation of an output's elements to the elements of an input that are not moved unchanged."""

    COMPUTED = "computed"
    """Each depends on any number of elements."""
    POINTWISE = "pointwise"
    """Each depends on one or a few elements: comparisons of the output concern these elements."""
    SUMMED = "summed"
    """Each is the sum of some of them."""
    BOUNDED = "bounded"
    """Each is small, or one of two values, whatever the elements are."""
    DROPPED = "dropped"
    """The elements have no effect: an output depends only on shapes."""


class Arithmetic(enum.Enum):
    """The arithmetic of an operator with one or two numbers, for solving equations with a constant."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    NEGATE = "negate"


@dataclass(frozen=True)
class IterationLayout:
    """An operator that runs its body many times: the inputs and outputs before the loop-carried values.

    Attributes:
        inputs: the number of inputs of node and body: the trip count or the iteration number, and a condition.
        outputs: the number of outputs of the body only: a condition.
        scanned: the attribute with the number of trailing inputs that are not loop-carried but scanned.
    """

    inputs: int = 0
    outputs: int = 0
    scanned: str = ""


# --- undefined results, and rounding ---------------------------------------------------------------------------------


class Integers(enum.Enum):
    """The integer arithmetic of operators whose kernels have only the precision of floats."""

    AS_FLOATS = "as floats"
    """It computes in float."""
    WRAPPED = "wrapped"
    """It adds in double, and sums may overflow the type: those of 64 bits are rounded."""
    SUMS = "sums"
    """It adds, and sums may not overflow the type."""
    SQUARES = "squares"
    """It adds squares."""
    PRODUCTS = "products"
    """It multiplies in double: products of 64 bits are rounded."""
    EXPONENTIALS = "exponentials"
    """It adds exponentials, which are truncated to integers."""
    JOINED_SUMS = "joined sums"
    """It adds updates to data one by one; its replacement adds them in double."""
    JOINED_PRODUCTS = "joined products"
    """The same with products."""


class Undefined(enum.Enum):
    """The conditions under which an operator's result is undefined, besides NaN and the like."""

    BEYOND_INTEGERS = "beyond integers"
    """Floats are cast to integers that do not hold them."""
    QUANTIZED_NAN = "quantized NaN"
    """A NaN becomes an integer."""
    PADDED_ROWS = "padded rows"
    """Floats are not finite, and some keys are padding."""
    WITHOUT_RANGE = "without range"
    """The range of the input is not a valid divisor."""
    NO_BATCH = "no batch"
    """Further outputs are statistics of no elements: kernels return NaN, or uninitialized memory."""
    ONE_PIXEL = "one pixel"
    """A single pixel is aligned with both corners."""
    ZERO_AND_INFERRED = "zero and inferred"
    """A shape has an explicit zero, and a dimension to be inferred from the others."""


@dataclass(frozen=True)
class NearOne:
    """The digits that an operator loses when it adds 1 to a much smaller number.

    Attributes:
        factor: the largest subsequent factor for which the loss still matters.
        divided: its attribute `alpha`, if above 1, divides the loss instead of multiplying it.
        in_double_only: kernels have the loss in double, but not in float.
        rounded: it adds its attribute `beta`, by default the `factor`, to a product; as a separate operator, this
            rounds the sum to the type of the result.
    """

    factor: float = 1.0
    divided: bool = False
    in_double_only: bool = False
    rounded: bool = False


@dataclass(frozen=True)
class Traits:
    """The effect of an operator on floats, and its use of the values of its inputs.

    Inputs are referred to by index, attributes by name.
    """

    floats: tuple[Trait, ...] = ()
    floats_by: Callable[[Mapping[str, Any]], tuple[Trait, ...]] | None = None
    """The same, if a node's attributes determine it; a reference to a function's parameter is None."""

    counts: Sequence[int] = ()
    """Inputs that determine the size of a result, or the run time of a node."""
    moved: Sequence[int] = ()
    """Inputs whose elements an output has unchanged, or cast."""
    reads_numbers: Sequence[int] = ()
    """Inputs that count as numbers, whatever their element type: constants among them may be of a wider type."""
    indices: Mapping[int, AlongAxis | Coordinates | Below] = field(default_factory=dict)
    """Inputs that are indices, and their targets."""
    domains: Mapping[int, Interval] = field(default_factory=dict)
    """The numbers for which the operator is defined, or beyond which all results are rounded to a constant."""
    corners: Sequence[int] = ()
    """Inputs that are corners of boxes."""
    overlaps: int | None = None
    """The input with thresholds for the overlap of two boxes: the shared area divided by the area of both."""
    compared_with: Mapping[int, int] = field(default_factory=dict)
    """Inputs whose elements are compared with the only number of another input."""
    compares: bool = False
    """Whether it compares its inputs with each other."""
    bounds: tuple[str, ...] = ()
    """Attributes that it compares its input with: numbers, lists or tensors."""
    landmarks: Callable[[Mapping[str, Any], Sequence[Any]], Iterable[float]] | None = None
    """Numbers that expose an error, such as a narrower type or another order of rounding.

    They follow from the attributes and the constant inputs (None: a computed one).
    """
    strings: Strings | None = None
    """Strings that it distinguishes; None if it reads none, or treats all alike."""

    flow: Flow = Flow.COMPUTED
    positions_after: bool = False
    """Whether outputs after the first are positions in the input."""
    clamped: Sequence[int] = ()
    """Inputs that are clamped between the others."""
    arithmetic: Arithmetic | None = None
    inverse: Callable[[float], Sequence[float]] | None = None
    """For a function of one number, or of each that it adds up: those of which it returns this one."""
    iteration: IterationLayout | None = None
    joins: bool = False
    """Whether the output is the concatenation of the inputs along an axis."""
    reshapes: bool = False
    """Whether the output has the elements of the first input in the shape that is the second input."""

    value_range: Rule | None = None
    """The bounds of the outputs' elements; if None, an output that moves elements has their range."""

    equal_dims: EqualDims | None = None
    """The dims of the inputs that are equal, or broadcast to each other."""
    spreads: bool = True
    """Whether one of these dims may be 1 although the other is not."""
    likely_sizes: Callable[[NodeShapes], Iterable[int]] | None = None
    """Probable lengths of the first input."""

    decides: bool = False
    """Whether the result jumps: for equal values it is the same, whatever the order of comparisons."""
    nan_undefined: bool = False
    """Whether no specification defines the result for a NaN, and kernels differ because of the order of comparisons."""
    reads_places: bool = False
    """Whether it reads at positions given by floats.

    From 2^23 on, floats have no position between two elements, kernels truncate them to integers that overflow, and no
    specification defines the result.
    """
    unchecked: bool = False
    """Whether kernels of onnxruntime 1.32.0 accept invalid inputs, and leave results uninitialized."""
    unwritten: tuple[int, ...] = ()
    """Inputs that onnxruntime 1.32.0 does not handle if they are empty.

    It leaves sums of no products, or a state after no elements, uninitialized; at some versions it refuses them.
    """
    decided: Mapping[str, Any] = field(default_factory=dict)
    """Attributes that decide for one result where the specification permits several without them."""
    aborts: bool = False
    """Whether onnxruntime 1.32.0 may crash the process if an input has no elements."""
    miscounts: bool = False
    """Whether onnxruntime 1.32.0 counts windows over an axis without elements.

    It rounds a negative number up in a pool with explicit pads, but not with automatic ones.
    """
    outputs_for: Mapping[int, int] = field(default_factory=dict)
    """The number of outputs by input index.

    A node with that input needs them for onnxruntime 1.32.0 to compute the first one correctly.
    """
    byte_factors: tuple[int, ...] = ()
    """The two inputs that it multiplies as bytes, or quantizes to bytes first.

    If only one is signed, onnxruntime 1.32.0 saturates sums of two products at 16 bits on processors with AVX2 and
    without VNNI.
    """
    drops_strings: bool = False
    """Whether onnxruntime 1.32.0 fills only the first element of each moved slice of strings."""
    slides: bool = False
    """Whether onnxruntime 1.32.0 moves its window by adding a square and subtracting another.

    Results of small elements near a large one are then wrong, infinite or NaN.
    """
    rounds_angles: bool = False
    """Whether kernels add rows times roots of unity with rounded angles.

    The error of the last root is as many units as the row length, and so is that of zero results (onnxruntime 1.32.0,
    for rows whose length is no power of two).
    """
    feeds_back: bool = False
    """Whether rounding in one step reaches later steps, which may multiply it.

    The oracle accepts an `InnerRounding`, the keyword `rounding`, which perturbs the results in each step.
    """
    overflows_inside: bool = False
    """Whether the kernel returns NaN or infinities for finite numbers if intermediate results overflow.

    An example is Softplus in RNN, GRU and LSTM (onnxruntime 1.32.0).
    """
    miscomputed: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether onnxruntime 1.32.0 computes nodes with these attributes incorrectly."""
    refuses: Callable[[Sequence[str]], bool] | None = None
    """Whether onnxruntime's kernel refuses to run nodes with inputs of these names; one left out is empty."""
    scales: tuple[int, ...] = ()
    """For a quantizing operator: the scales of its inputs, then the scale of its output."""
    quantized: str = ""
    """The operator on quantized values that replaces it between DequantizeLinear and QuantizeLinear."""
    form: QuantizedForm | None = None
    """For such an operator: the mapping from the float operator."""
    clamp: Callable[[Any, Any], tuple[float, float] | None] | None = None
    """The bounds to which it clamps its first operand; it has no other effect.

    They follow from its meaning and the facts about its operands, if known.
    """
    marks_quantization: bool = False
    """Whether runtimes look for it to compute adjacent nodes in integers: it is not folded."""
    reads_packed: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether it reads constants that must stay narrow: a lowering that emits it does not fold it."""
    packed_weights: tuple[int, ...] = ()
    """Its packed weights, several in a byte, and their scales: lowered nodes of these are folded."""
    integers: Integers | None = None
    integers_by: Callable[[Mapping[str, Any]], Integers | None] | None = None
    """The same, if a node's attributes determine it."""
    undefined: Undefined | None = None
    meaningless: Callable[[Sequence[Any]], bool] | None = None
    """Whether the result for these inputs (None: omitted) is undefined, for another reason."""

    factors: int = 1
    """The number of inputs that are factors of each term of its sums."""
    inner_sum: InnerSum | None = None
    adds_first: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Returns the inputs (None: omitted) with a bias already added to others, and zeros in its place.

    A bias that is large beside each row takes the last digits of every row, and moving it moves all rows alike.
    """
    near_one: NearOne = NearOne()
    approximated: float | None = None
    """The magnitude below which an approximated result has an absolute error of 2^-21 of it; None: no approximation."""
    exact_body: bool = False
    """Whether ONNX's function body only moves and compares floats, or adds once, so that kernels round the same."""
    drops_signs: bool = False
    """Whether onnxruntime's kernel changes -0.0 to 0.0, although it only moves elements (1.32.0)."""
    reads_bits: bool = False
    """Whether it reads the bits of floats, which differ in a wider type."""
    typed_by_attribute: bool = False
    """Whether it creates floats without a float input, in the type of an attribute."""
    makes_types: tuple[int, ...] | None = None
    """Element types of outputs besides those in attributes and subgraphs; None: as in the schema."""
    all_elements: bool = False
    """Whether the output has all elements of the first input and no others, cast or not."""
    keeps_order: bool = False
    """Whether these keep their order in the flattened tensor, whatever the axes are."""
    merges: Merges | None = None
    """The rule that expresses a meaning with fewer axes.

    Its arguments are the meaning, the facts of the operands, and the maximum rank. It returns stages of
    `opsets.families.merged_axes`, or None if it is impossible.
    """
    grows: bool = False
    """Whether it creates a long vector from a few numbers."""
    heavy: bool = False
    """Whether a node may take many more steps than it has input and output elements, so that it is not folded."""
    rivals: bool = False
    """Whether its lowerings are so many and so different in cost that `--optimize` compares all of them."""
    checked: bool = False
    """Whether onnx's checker and inference accept nodes that no runtime runs.

    Then opshift checks them when it reads a model.
    """
