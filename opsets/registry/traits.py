"""`Traits`: the facts about an operator that verification and analysis need, besides its meaning.

An operator with a file gives its traits there; those of the others are in `schema_only_traits.py`. The defaults hold
for an operator that computes each element by itself, and rounds it once or more.
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
    """The same but for the sign of a zero. No specification tells zeros apart, and kernels of onnxruntime disagree: Max
    of 0.0 and -0.0 in float16 has one sign at opset 11 and the other at 12 (1.32.0)."""
    SUMS = "sums"
    """It adds up many numbers, in an order that each kernel chooses."""
    ADDS = "adds"
    """It adds two numbers."""
    MULTIPLIES = "multiplies"
    """It multiplies or divides two numbers, so that other orders overflow elsewhere."""
    PRODUCTS = "products"
    """It multiplies many numbers, in an order that each kernel chooses: on the way they may overflow or underflow."""
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
    QUANTIZES = "quantizes"
    """It quantizes what it computes with other scales, which kernels multiply in an order of their own: what is near
    the middle of two steps becomes one or the other. So is
    one byte of 81,920 that QLinearAdd makes (onnxruntime 1.32.0).
    """
    RANDOM = "random"
    """It draws random numbers, at least if it trains (Dropout): the same model returns others each time, or in another
    session."""


def roots(value: float) -> list[float]:
    """Return the numbers of which a square is this one, the `Traits.inverse` of squares."""
    return [math.sqrt(value), -math.sqrt(value)]


# --- what the values of an input mean ------------------------------------------------------------------------------


EVERY = range(2**31)
"""All inputs of an operator that has any number of them."""


@dataclass(frozen=True)
class Interval:
    """Numbers for which an operator has a meaning; `zero` says whether 0 is one of them."""

    low: float = -math.inf
    high: float = math.inf
    zero: bool = True


@dataclass(frozen=True)
class AlongAxis:
    """Indices along an axis of the input `data`.

    `axis` is a number, or the attribute that holds it. `negative` indices count from the end. The attribute `ignored`
    holds an index outside that is defined, such as a label that a loss ignores.
    """

    data: int = 0
    axis: int | str = "axis"
    negative: bool = True
    ignored: str = ""


@dataclass(frozen=True)
class Coordinates:
    """Indices of which the last axis has one for each axis of the first input, after those that `batch_dims` counts."""


@dataclass(frozen=True)
class Below:
    """Indices below the number that the input `limit` holds; those outside are defined too."""

    limit: int


class Strings(enum.Enum):
    """Strings that an operator distinguishes, beside those that it lists as attributes."""

    LISTED = "listed"
    """No others."""
    CASES = "cases"
    """Those in upper and in lower case."""
    PATTERN = "pattern"
    """Those that a pattern matches."""
    DELIMITER = "delimiter"
    """Those that have a delimiter."""
    NUMERALS = "numerals"
    """Numbers in digits."""


# --- what becomes of values -----------------------------------------------------------------------------------------


class Flow(enum.Enum):
    """The relation of an output's elements to the elements of an input that are not passed on unchanged."""

    COMPUTED = "computed"
    """Each comes from any number of them."""
    POINTWISE = "pointwise"
    """Each comes from one, or from a few of them: what it is compared with tells of those."""
    SUMMED = "summed"
    """Each is the sum of some of them."""
    BOUNDED = "bounded"
    """Each is small, or one of two, whatever they are."""
    DROPPED = "dropped"
    """None comes from them: an output depends on shapes alone."""


class Arithmetic(enum.Enum):
    """The arithmetic of an operator with one or two numbers, for solving equations with a constant."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    NEGATE = "negate"


@dataclass(frozen=True)
class IterationLayout:
    """An operator that runs its body many times: what the node and the body have before the values they carry.

    Attributes:
        inputs: how many inputs, of both: the trip count or the iteration number, and a condition.
        outputs: how many outputs, of the body alone: a condition.
        scanned: the attribute that holds how many inputs, the last ones, are not carried but cut into slices.
    """

    inputs: int = 0
    outputs: int = 0
    scanned: str = ""


# --- results that no text defines, and how they round ---------------------------------------------------------------


class Integers(enum.Enum):
    """Integer arithmetic of operators whose kernels hold no more digits than floats."""

    AS_FLOATS = "as floats"
    """In float."""
    WRAPPED = "wrapped"
    """Sums that may leave the type, in double: those of 64 bits are rounded."""
    SUMS = "sums"
    """Sums that may not leave it."""
    SQUARES = "squares"
    """Sums of squares."""
    PRODUCTS = "products"
    """Products, in double: those of 64 bits are rounded."""
    EXPONENTIALS = "exponentials"
    """Sums of exponentials, which are cut to integers."""
    JOINED_SUMS = "joined sums"
    """Updates are added to data one by one; what replaces the operator adds them up in double."""
    JOINED_PRODUCTS = "joined products"
    """The same with products."""


class Undefined(enum.Enum):
    """When an operator's result is not defined, for reasons of its own."""

    BEYOND_INTEGERS = "beyond integers"
    """Floats are cast to integers that do not hold them."""
    QUANTIZED_NAN = "quantized NaN"
    """A NaN becomes an integer."""
    PADDED_ROWS = "padded rows"
    """Floats are not finite where some keys are padding."""
    WITHOUT_RANGE = "without range"
    """The range of the input is no scale to divide by."""
    NO_BATCH = "no batch"
    """Further outputs are statistics of no elements: kernels return NaN, or what memory holds."""
    ONE_PIXEL = "one pixel"
    """A single pixel is aligned with both corners."""
    ZERO_AND_INFERRED = "zero and inferred"
    """A shape has a zero that is meant as one, and a dimension that is to be inferred from the others."""


@dataclass(frozen=True)
class NearOne:
    """The digits that an operator loses when it adds 1 to a much smaller number.

    Attributes:
        factor: the largest number that it multiplies by afterwards, where what was lost still counts.
        divided: its attribute `alpha` divides what is lost, where it is above 1, and does not multiply it.
        in_double_only: kernels lose it in double, and not in float.
        rounded: it adds its attribute `beta`, by default the `factor`, to a product, and where that is an operator of
            its own the sum is rounded to the type of the result.
        gain: the largest factor of the function that loses them, by the attributes and the values of the inputs (None
            where one is not known): a number, or one for each element of the last axis of the results.
    """

    factor: float = 1.0
    divided: bool = False
    in_double_only: bool = False
    rounded: bool = False
    gain: Callable[[Mapping[str, Any], Sequence[Any]], Any] | None = None


@dataclass(frozen=True)
class Traits:
    """The effect of an operator on floats, and its use of the values of its inputs.

    Inputs are given by their indices, attributes by their names.
    """

    floats: tuple[Trait, ...] = ()
    floats_by: Callable[[Mapping[str, Any]], tuple[Trait, ...]] | None = None
    """The same, where a node's attributes decide it; an attribute that refers to a function's parameter is None."""

    counts: Sequence[int] = ()
    """Inputs that set how large a result is, or how long a node runs."""
    moved: Sequence[int] = ()
    """Inputs whose elements an output has as they are, or cast."""
    reads_numbers: Sequence[int] = ()
    """Inputs that count as numbers, whatever their element type: constants among them may be of a wider type."""
    indices: Mapping[int, AlongAxis | Coordinates | Below] = field(default_factory=dict)
    """Inputs that are indices, and what of."""
    domains: Mapping[int, Interval] = field(default_factory=dict)
    """The numbers for which the operator has a meaning, or beyond which all that follows is rounded to a constant."""
    corners: Sequence[int] = ()
    """Inputs that are corners of boxes."""
    overlaps: int | None = None
    """The input that holds what shares of two boxes are compared with: of the area of both, the part that both have."""
    compared_with: Mapping[int, int] = field(default_factory=dict)
    """Inputs of which each element is compared with the one number of another input."""
    compares: bool = False
    """Whether it compares its inputs with each other."""
    bounds: tuple[str, ...] = ()
    """Attributes with which it compares its input."""
    landmarks: Callable[[Mapping[str, Any], Sequence[Any]], Iterable[float]] | None = None
    """Numbers where a detour shows, such as a narrower type or another order of rounding, by the attributes and by the
    constants among the inputs; None stands for one that is computed."""
    strings: Strings | None = None
    """Strings that it distinguishes; None where it reads none, or does with all the same."""

    flow: Flow = Flow.COMPUTED
    positions_after: bool = False
    """Whether outputs after the first are positions in the input."""
    clamped: Sequence[int] = ()
    """Inputs that are brought between the others."""
    arithmetic: Arithmetic | None = None
    inverse: Callable[[float], Sequence[float]] | None = None
    """For a function of one number, or of each that it adds up: those of which it returns this one."""
    iteration: IterationLayout | None = None
    joins: bool = False
    """Whether the output is one input after the other, along an axis."""
    reshapes: bool = False
    """Whether the output has the elements of the first input in the shape that the second one is."""

    value_range: Rule | None = None
    """Between which numbers the elements of the outputs lie; None: an output that moves elements has their range."""

    equal_dims: EqualDims | None = None
    """The dims of the inputs that are equal, or broadcast to each other."""
    spreads: bool = True
    """Whether one of these dims may be 1, and the other one not."""
    likely_sizes: Callable[[NodeShapes], Iterable[int]] | None = None
    """Lengths that the first input is likely to have."""

    decides: bool = False
    """Whether the result jumps: of the same values it is the same, in whatever order these are compared."""
    nan_undefined: bool = False
    """Whether no text defines the result of a NaN, and what comes after it differs with the order of comparisons."""
    reads_places: bool = False
    """Whether it reads at places that floats give. From 2^23 on these hold none between two elements, kernels cut them
    to integers that they do not fit, and no text defines what is read there."""
    unchecked: bool = False
    """Whether kernels of onnxruntime 1.32.0 take inputs that do not fit, and leave results as memory is."""
    unwritten: tuple[int, ...] = ()
    """Inputs that, where one has no elements, onnxruntime 1.32.0 makes sums of no products of, or a state after no
    elements, and leaves them as memory is; or that it refuses then, in some versions."""
    aborts: bool = False
    """Whether onnxruntime 1.32.0 may end the process where an input has no elements."""
    miscounts: bool = False
    """Whether onnxruntime 1.32.0 counts windows over an axis without elements: it rounds what is below 0 up, in a pool
    with explicit pads, and not in one that chooses them."""
    outputs_for: Mapping[int, int] = field(default_factory=dict)
    """How many outputs a node needs, where it has an input, for onnxruntime 1.32.0 to compute the first one right."""
    byte_factors: tuple[int, ...] = ()
    """The two inputs that it multiplies as bytes, or quantizes to bytes first. Where one is signed and the other not,
    onnxruntime 1.32.0 cuts sums of two products to 16 bits on processors that have AVX2 and no VNNI."""
    drops_strings: bool = False
    """Whether onnxruntime 1.32.0, of strings that it moves in slices, fills the first element of each alone."""
    slides: bool = False
    """Whether onnxruntime 1.32.0 moves its window by adding a square and subtracting another, so that beside a large
    element what is left of small ones is wrong, infinite or NaN."""
    rounds_angles: bool = False
    """Whether kernels add up rows times roots of unity of rounded angles: that of the last root is off by as many units
    as a row is long, and so is what should be zero (onnxruntime 1.32.0, of rows whose length is no power of two)."""
    overflows_inside: bool = False
    """Whether the kernel makes NaN or infinities of finite numbers, where what it computes on the way overflows:
    Softplus in RNN, GRU and LSTM (onnxruntime 1.32.0)."""
    miscomputed: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether onnxruntime 1.32.0 computes nodes of these attributes wrongly."""
    scales: tuple[int, ...] = ()
    """Of an operator that quantizes: the scales of its inputs, then the one that they are divided by."""
    quantized: str = ""
    """The operator on quantized values that computes it between DequantizeLinear and QuantizeLinear."""
    form: QuantizedForm | None = None
    """Of such an operator: how it computes what one of floats does."""
    clamp: Callable[[Any, Any], tuple[float, float] | None] | None = None
    """Between which numbers it brings its first operand, by its meaning and the facts about its operands, where these
    are known; it changes nothing else."""
    marks_quantization: bool = False
    """Whether runtimes look for it around a node, which they compute in integers then: it is not folded."""
    reads_packed: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether it reads constants that are to stay as narrow as they are: a lowering that writes it does not fold it."""
    packed_weights: tuple[int, ...] = ()
    """Its weights, of which several are in a byte, and their scales: what lowerings make of these is computed once."""
    integers: Integers | None = None
    integers_by: Callable[[Mapping[str, Any]], Integers | None] | None = None
    """The same, where a node's attributes decide it."""
    undefined: Undefined | None = None
    meaningless: Callable[[Sequence[Any]], bool] | None = None
    """Whether these inputs, None where one is left out, have no result that is defined, for a reason of its own."""

    factors: int = 1
    """The number of inputs that each term of its sums is a product of."""
    inner_sum: InnerSum | None = None
    near_one: NearOne = NearOne()
    approximated: float | None = None
    """The least size of which an approximated result is 2^-21 off, where it is itself smaller; None: it is never."""
    exact_body: bool = False
    """Whether ONNX's function body moves and compares floats, or adds once, so that no kernel rounds otherwise."""
    drops_signs: bool = False
    """Whether onnxruntime's kernel makes 0.0 of -0.0, which it only moves (1.32.0)."""
    reads_bits: bool = False
    """Whether it reads the bits of floats, of which a wider type has others."""
    typed_by_attribute: bool = False
    """Whether without an input of floats it makes some, in the type that an attribute has."""
    makes_types: tuple[int, ...] | None = None
    """Element types of outputs beside those that attributes name, and those of graphs inside; None: what the schema
    tells."""
    all_elements: bool = False
    """Whether the output has all elements of the first input and no others, cast or not."""
    keeps_order: bool = False
    """Whether these are in the same order, one after the other, whatever the axes are."""
    merges: Merges | None = None
    """The rule that expresses a meaning with fewer axes, from the meaning, the facts of the operands, and the most axes
    that there may be: stages of `opsets.families.merged_axes`, None where there is no way."""
    grows: bool = False
    """Whether it makes a long vector of a few numbers."""
    heavy: bool = False
    """Whether a node may take many more steps than it reads and returns elements, so that constants are not folded."""
    rivals: bool = False
    """Whether lowerings of it are so many, and so different in cost, that `--optimize` compares all of them."""
    checked: bool = False
    """Whether onnx's checker and inference take nodes that no runtime runs: they are checked when a model is read."""
