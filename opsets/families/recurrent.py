"""Define what GRU, LSTM and RNN share. `layout`, which puts the batch first, was added at opset 14."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.shape_hints import EqualDims, NodeShapes, Pairs, Shape

Array = np.ndarray[Any, Any]


class Recurrent(Protocol):
    """The attributes that the three operators share."""

    @property
    def activations(self) -> tuple[str, ...] | None:
        """The names of the activation functions."""

    @property
    def activation_alpha(self) -> tuple[float, ...] | None:
        """The first parameters of the functions with parameters."""

    @property
    def activation_beta(self) -> tuple[float, ...] | None:
        """The second parameters of the functions with two parameters."""

    @property
    def clip(self) -> float | None:
        """The bound of an activation's input."""

    @property
    def direction(self) -> str:
        """`forward`, `reverse` or `bidirectional`."""

    @property
    def hidden_size(self) -> int | None:
        """The number of neurons in the hidden layer."""

    @property
    def layout(self) -> int:
        """Whether the batch is the first axis."""


Step = Callable[[int, Array, tuple[Array, ...]], tuple[Array, ...]]
"""Returns the states after a token.

Its arguments are a direction, the token's inputs [batch, size], and the states before [batch, hidden].
"""


def batch_first(what: Recurrent, operands: Operands) -> Reason | None:
    """Require that the batch is the first axis."""
    return None if what.layout else Reason("the batch is the second axis already")


def without_full_lengths(what: Any, operands: Operands) -> tuple[Any, Operands]:
    """Remove constant sequence lengths that all equal the input's length, which is the default."""
    x, lengths = operands[0], operands[4]
    tokens = None if x is None else x.dim(1 if what.layout else 0)
    if not isinstance(tokens, int) or not tokens or lengths is None or lengths.known is None:
        return what, operands
    if not lengths.known.size or (lengths.known != tokens).any():
        return what, operands
    return what, (*operands[:4], None, *operands[5:])


def runs(what: Recurrent, operands: Operands) -> bool:
    """Return whether onnxruntime has a kernel, which defines the results for NaN and infinity.

    1.32.0 has none for layout 1.
    """
    return not what.layout


def propagates(what: Recurrent, operands: Operands) -> bool:
    """Return whether a GRU or an LSTM has results for NaN and infinity that can be preserved: it has none.

    The sigmoid of onnxruntime 1.32.0's kernels is finite for NaN, the sum of infinities.
    """
    return False


def run(what: Recurrent, step: Step, x: Array, lengths: Array | None, initial: Sequence[Array]) -> tuple[Array, ...]:
    """Return Y and the last states, in the meaning's layout, for a step and initial states [directions, ...].

    All is computed in the element type, as in kernels.

    The text of sequence_lens does not define values after the end of a sequence: onnxruntime 1.32.0 returns zeros
    there. The last states are those of the last token, or zeros without tokens.
    """
    tokens, batch = x.shape[:2]
    ends = np.full(batch, tokens) if lengths is None else lengths
    if ((ends < 0) | (ends > tokens)).any():
        raise ValueError("a length of sequence_lens is not from 0 to the length of the sequences")
    directions, hidden = initial[0].shape[0], initial[0].shape[2]
    y = np.zeros((tokens, directions, batch, hidden), x.dtype)
    last = [one * (ends > 0)[:, None] for one in initial]
    for direction in range(directions):
        backwards = what.direction == "reverse" or direction == 1
        for turn in range(int(ends.max(initial=0))):
            (running,) = np.nonzero(turn < ends)
            token = ends[running] - 1 - turn if backwards else np.full(running.shape, turn)
            states = step(direction, x[token, running], tuple(one[direction, running] for one in last))
            y[token, direction, running] = states[0]
            for one, state in zip(last, states, strict=True):
                one[direction, running] = state
    if what.layout:
        y, last = y.transpose(2, 0, 1, 3), [one.transpose(1, 0, 2) for one in last]
    return (y, *last)


def states_of(what: Recurrent, state: Array | None, directions: int, x: Array, hidden: int) -> Array:
    """Return initial states as [directions, batch, hidden]: "If not specified - assumed to be 0"."""
    if state is None:
        return np.zeros((directions, x.shape[1], hidden), x.dtype)
    return state.transpose(1, 0, 2) if what.layout else state


LONGEST = 1000
"""The maximum number of tokens that verification feeds: to measure the rounding, the oracle runs up to 21 times."""


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw lengths from one to the smaller of batch and sequence, and floats of few digits, with sums from -2 to 2.

    The specification does not define lengths of zero. Outside -2 to 2, the activation functions of onnxruntime 1.32.0
    have an error of some units of 1, however small their results.
    """
    changed = {
        name: (np.round(np.clip(array.astype(np.float64), -0.5, 0.5) * 64) / 64).astype(array.dtype)
        for name, array in feeds.items()
        if array.dtype.kind in "fV" and array.flags.writeable
    }
    changed |= {
        name: changed[name] / changed[name].dtype.type(max(changed[name].shape[-1], 1))
        for name in ("W", "R")
        if name in changed
    }
    lengths = feeds.get("sequence_lens")
    if lengths is not None and lengths.flags.writeable:
        most = min(feeds["X"].shape[:2], default=1)
        changed["sequence_lens"] = rng.integers(1, max(most, 1) + 1, lengths.shape).astype(lengths.dtype)
    return {**feeds, **changed}


def _affine(x: Array, alpha: float, beta: float) -> Array:
    return alpha * x + beta


_FUNCTIONS: dict[str, tuple[Callable[[Array, float, float], Array], float, float]] = {
    "relu": (lambda x, alpha, beta: np.maximum(x, 0), 0, 0),
    "tanh": (lambda x, alpha, beta: np.tanh(x), 0, 0),
    "sigmoid": (lambda x, alpha, beta: 1 / (1 + np.exp(-x)), 0, 0),
    "affine": (_affine, 0, 0),
    "leakyrelu": (lambda x, alpha, beta: np.where(x >= 0, x, alpha * x), 0.01, 0),
    "thresholdedrelu": (lambda x, alpha, beta: np.where(x >= alpha, x, 0), 0, 0),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), 0, 0),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(_affine(x, alpha, beta), 0, 1), 0.2, 0.5),
    "elu": (lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(x)), 1, 0),
    "softsign": (lambda x, alpha, beta: x / (1 + np.abs(x)), 0, 0),
    "softplus": (lambda x, alpha, beta: np.logaddexp(0, x), 0, 0),
}
"""The activation functions in the specification, with the defaults of alpha and beta in onnxruntime 1.32.0."""

_BY_TEXT = {"affine": (1.0, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0)}
"""Other defaults. RNN-22: "Default values are the same as of corresponding ONNX operators": 1 for ThresholdedRelu.

The experimental Affine-1 has 1 and 0. ScaledTanh-1 has no defaults: with 1 and 1 it is Tanh.
"""

_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
_BETA = ("affine", "scaledtanh", "hardsigmoid")


def parameters_by_text(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes with the specification's parameters for functions without any."""
    found = {name: value for name, value in attributes.items() if value is not None}
    names = [name.lower() for name in found.get("activations", ())]
    for place, (key, taking) in enumerate((("activation_alpha", _ALPHA), ("activation_beta", _BETA))):
        parameters = tuple(found.get(key, ()))
        defaults = [_BY_TEXT.get(name, _FUNCTIONS[name][1:])[place] for name in names if name in taking]
        if len(parameters) < len(defaults):
            found[key] = (*parameters, *map(float, defaults[len(parameters) :]))
    return found


_LEAST: Mapping[str, Callable[[float, float], float]] = {
    **dict.fromkeys(("tanh", "sigmoid", "softplus"), lambda alpha, beta: 1.0),
    **dict.fromkeys(("scaledtanh", "elu"), lambda alpha, beta: abs(alpha)),
    **dict.fromkeys(("affine", "hardsigmoid"), lambda alpha, beta: abs(beta)),
}
"""The magnitude below which the absolute error of a function stays the same: kernels add a number of this size."""


def functions(
    what: Recurrent, defaults: tuple[str, ...], directions: int, rounding: InnerRounding | None = None
) -> list[Callable[[Array], Array]]:
    """Return the activation functions of all directions, with a `rounding` of their results."""
    named = _named(what, defaults, directions)
    found = [_clipped(what.clip, _FUNCTIONS[name][0], alpha, beta) for name, alpha, beta in named]
    if rounding is None:
        return found
    least = [_LEAST[name](alpha, beta) if name in _LEAST else 0.0 for name, alpha, beta in named]
    return [_rounded(one, rounding, size) for one, size in zip(found, least, strict=True)]


def _rounded(function: Callable[[Array], Array], rounding: InnerRounding, least: float) -> Callable[[Array], Array]:
    return lambda x: rounding.moved(function(x), least)


def _named(what: Recurrent, defaults: tuple[str, ...], directions: int) -> list[tuple[str, float, float]]:
    """Return the names, alphas and betas of all functions; alphas and betas are "consumed in the order" of these."""
    names = [name.lower() for name in what.activations or defaults * directions]
    alphas, betas = list(what.activation_alpha or ()), list(what.activation_beta or ())
    found = []
    for name in names:
        _, alpha, beta = _FUNCTIONS[name]
        alpha = alphas.pop(0) if name in _ALPHA and alphas else alpha
        beta = betas.pop(0) if name in _BETA and betas else beta
        found.append((name, float(alpha), float(beta)))
    return found


def _clipped(
    clip: float | None, function: Callable[[Array, float, float], Array], alpha: float, beta: float
) -> Callable[[Array], Array]:
    """Return a function with a clip "applied to the input of activations"."""

    def apply(x: Array) -> Array:
        return function(np.clip(x, -clip, clip) if clip else x, alpha, beta)

    return apply


# --- token by token -----------------------------------------------------------------------------------------------

MOST = 128
"""The maximum number of unrolled tokens: each has some ten nodes."""


@dataclass(frozen=True)
class Cell:
    """The cell of a layer of one direction: its functions with parameters, and a bound of each (or 0).

    `variant` is input_forget or linear_before_reset; with `backwards`, the last token comes first.
    """

    functions: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clips: tuple[float, ...] = ()
    variant: int = 0
    backwards: int = 0


def cell(what: Recurrent, defaults: tuple[str, ...], variant: int = 0, unclipped: tuple[int, ...] = ()) -> Cell:
    """Return the cell of a layer of one direction; the functions at the indices `unclipped` have no bound."""
    found = _named(what, defaults, 1)[: len(defaults)]
    names, alphas, betas = zip(*found, strict=True)
    clips = tuple(0.0 if place in unclipped else what.clip or 0.0 for place in range(len(found)))
    return Cell(names, alphas, betas, clips, variant, int(what.direction == "reverse"))


def bound_cell(what: Cell, operands: Operands) -> Mapping[str, Any]:
    """Bind the fields of a cell."""
    return dataclasses.asdict(what)


def compute_cell(what: Cell) -> Callable[[int, Array], Array]:
    """Return a function that computes the cell's function at an index."""

    def apply(place: int, x: Array) -> Array:
        function = _FUNCTIONS[what.functions[place]][0]
        bound = what.clips[place]
        return function(np.clip(x, -bound, bound) if bound else x, what.alphas[place], what.betas[place])

    return apply


def two_directions(what: Recurrent, operands: Operands) -> Reason | None:
    """Require a bidirectional layer with the batch as the second axis."""
    if what.layout:
        return Reason("")
    return None if what.direction == "bidirectional" else Reason("")


def of_each_direction(what: Recurrent, operands: Operands) -> Mapping[str, Any]:
    """Bind the functions of both directions, and their parameters."""
    names = what.activations
    half = len(names or ()) // 2
    first = [name.lower() for name in (names or ())[:half]]
    alphas, betas = (sum(name in taking for name in first) for taking in (_ALPHA, _BETA))

    def halves(values: Any, count: int) -> tuple[Any, Any]:
        return (values or ())[:count] or None, (values or ())[count:] or None

    return {
        **dict(zip(("forward", "reverse"), halves(names, half), strict=True)),
        **dict(zip(("forward_alpha", "reverse_alpha"), halves(what.activation_alpha, alphas), strict=True)),
        **dict(zip(("forward_beta", "reverse_beta"), halves(what.activation_beta, betas), strict=True)),
    }


def one_direction(what: Recurrent, operands: Operands) -> Reason | None:
    """Require a layer of one direction with the batch as the second axis, and not float16.

    The kernels of onnxruntime 1.32.0 compute float16 in float, whose sums do not overflow.
    """
    if what.layout:
        return Reason("")
    if (operands[0] or Facts()).dtype == TensorProto.FLOAT16:
        return Reason("the sums of float16 may overflow")
    return None if what.direction != "bidirectional" else Reason("")


def _count(gates: Facts | None) -> int | None:
    count = None if gates is None else gates.dim(0)
    return count if isinstance(count, int) else None


def tokens_of(place: int) -> Callable[[Cell, Operands], tuple[int, bool]]:
    """Return a function that counts the tokens of an operand, and returns whether the last one comes first."""
    return lambda what, operands: (_count(operands[place]) or 0, bool(what.backwards))


def few(place: int) -> Callable[[Cell, Operands], Reason | None]:
    """Return a condition: the operand has few enough tokens to unroll."""

    def applies(what: Cell, operands: Operands) -> Reason | None:
        count = _count(operands[place])
        if count is None:
            return Reason("the number of tokens is unknown", missing=True)
        if count > MOST:
            return Reason(f"there are more than {MOST} tokens")
        return None if count else Reason("there is no token")

    return applies


def many(place: int) -> Callable[[Cell, Operands], Reason | None]:
    """Return a condition: the operand has too many tokens to unroll, or an unknown number."""

    def applies(what: Cell, operands: Operands) -> Reason | None:
        count = _count(operands[place])
        return None if count is None or count > MOST else Reason(f"there are {MOST} tokens at most")

    return applies


def no_token(place: int) -> Callable[[Cell, Operands], Reason | None]:
    """Return a condition: the operand has no token."""
    return lambda what, operands: None if _count(operands[place]) == 0 else Reason("")


def forwards(place: int) -> Callable[[Cell, Operands], Reason | None]:
    """Return a condition: as `many`, and the first token comes first."""
    return lambda what, operands: many(place)(what, operands) or (Reason("") if what.backwards else None)


def reversed_order(place: int) -> Callable[[Cell, Operands], Reason | None]:
    """Return a condition: as `many`, and the last token comes first."""
    return lambda what, operands: many(place)(what, operands) or (None if what.backwards else Reason(""))


def facts_of_tokens(states: int, gates: int) -> Callable[[Cell, Operands], tuple[Facts, ...]]:
    """Return a function for the facts of the last states, and of the rows of all tokens."""

    def facts(what: Cell, operands: Operands) -> tuple[Facts, ...]:
        first = operands[1] or Facts()
        count = (operands[gates] or Facts()).dim(0)
        # A Loop without iterations has rows of other dimensions in onnxruntime 1.32.0: see StackedRows.
        dims = first.shape if first.shape is None or isinstance(count, int) else (None,) * len(first.shape)
        shape = None if dims is None else (count, *dims)
        return (*(Facts(first.dtype, first.shape),) * states, Facts(first.dtype, shape))

    return facts


def facts_of_cell(states: int) -> Callable[[Cell, Operands], tuple[Facts, ...]]:
    """Return a function for the facts of the states after a token, which equal those before."""

    def facts(what: Cell, operands: Operands) -> tuple[Facts, ...]:
        first = operands[0] or Facts()
        return (Facts(first.dtype, first.shape),) * states

    return facts


def run_tokens(
    step: Callable[..., tuple[Array, ...]],
    what: Cell,
    states: Sequence[Array],
    tokens: Sequence[Array | None],
    *others: Any,
) -> tuple[Array, ...]:
    """Return the last states and the rows of all tokens, computed by a cell's oracle."""
    count = len(tokens[0]) if tokens[0] is not None else 0
    rows = np.zeros((count, *states[0].shape), states[0].dtype)
    for turn in reversed(range(count)) if what.backwards else range(count):
        states = step(what, *states, *(None if one is None else one[turn : turn + 1] for one in tokens), *others)
        rows[turn] = states[0]
    return (*states, rows)


def equal_dims(gates: int) -> EqualDims:
    """Return a function that yields the equal dims of the inputs of an operator with this number of gates."""

    def rule(node: NodeShapes) -> Pairs:
        if not (node.inputs[0] and node.inputs[1]):
            return
        for at, (dims, wanted) in enumerate(zip(node.inputs, _expected(node, gates), strict=False)):
            if at and dims is not None and len(dims) == len(wanted):
                yield from ((one, other) for one, other in zip(dims, wanted, strict=True) if other)

    return rule


def _expected(node: NodeShapes, gates: int) -> tuple[Shape, ...]:
    """Return the expected input shapes, as far as the first input and the attributes determine them."""
    attributes = node.attributes
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    return _shapes(node.inputs[0], directions, attributes.get("hidden_size"), gates, attributes.get("layout"))


def _shapes(first: Shape | None, directions: int, hidden: Dim, gates: int, batch_first: object) -> tuple[Shape, ...]:
    """Return the specified input shapes; None if the shape of the first input does not determine one."""
    batch: Dim = None
    features: Dim = None
    if first is not None and len(first) == 3:
        batch, features = first[0 if batch_first else 1], first[2]

    def numbers(count: int) -> Dim:
        return count * hidden if isinstance(hidden, int) else None

    state: Shape = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    return (
        (None, None, None),
        (directions, numbers(gates), features),
        (directions, numbers(gates), hidden),
        (directions, numbers(2 * gates)),
        (batch,),
        state,
        state,
        (directions, numbers(3)),
    )


def check_shapes(what: Recurrent, gates: int, inputs: Sequence[Array | None]) -> None:
    """Check the shapes of the inputs, in the order of the schema (None: omitted).

    Raises:
        ValueError: a shape does not match the specification.
    """
    x, _, r = inputs[:3]
    if x is None or r is None or r.ndim != 3:
        raise ValueError("X and R must have three dimensions")
    directions = 2 if what.direction == "bidirectional" else 1
    hidden = r.shape[2] if what.hidden_size is None else what.hidden_size
    wanted = _shapes(x.shape, directions, hidden, gates, what.layout)
    for at, (one, dims) in enumerate(zip(inputs, wanted, strict=False)):
        if one is None:
            continue
        if one.ndim != len(dims) or any(
            dim is not None and dim != size for dim, size in zip(dims, one.shape, strict=True)
        ):
            raise ValueError(f"input {at} has shape {list(one.shape)}, and must have {list(dims)}")


@lowering(18, applies_if=batch_first)
def transposed(x, w, r, b, sequence_lens, initial_h):
    """Transpose the batch to the second axis, and back."""
    y, y_h = meaning.Same(
        op.Transpose(x, perm=[1, 0, 2]), w, r, b, sequence_lens, op.Transpose(initial_h, perm=[1, 0, 2]), layout=0
    )
    return op.Transpose(y, perm=[2, 0, 1, 3]), op.Transpose(y_h, perm=[1, 0, 2])


@lowering(18, applies_if=two_directions, bind=of_each_direction)
def both_ways(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    forward: Sequence[str],
    forward_alpha: Sequence[float],
    forward_beta: Sequence[float],
    reverse: Sequence[str],
    reverse_alpha: Sequence[float],
    reverse_beta: Sequence[float],
):
    """Process the tokens in each direction separately."""
    y_0, y_h_0 = meaning.Same(
        x,
        op.Slice(w, [0], [1], [0]),
        op.Slice(r, [0], [1], [0]),
        op.Slice(b, [0], [1], [0]),
        sequence_lens,
        op.Slice(initial_h, [0], [1], [0]),
        direction="forward",
        activations=forward,
        activation_alpha=forward_alpha,
        activation_beta=forward_beta,
    )
    y_1, y_h_1 = meaning.Same(
        x,
        op.Slice(w, [1], [2], [0]),
        op.Slice(r, [1], [2], [0]),
        op.Slice(b, [1], [2], [0]),
        sequence_lens,
        op.Slice(initial_h, [1], [2], [0]),
        direction="reverse",
        activations=reverse,
        activation_alpha=reverse_alpha,
        activation_beta=reverse_beta,
    )
    return op.Concat(y_0, y_1, axis=1), op.Concat(y_h_0, y_h_1, axis=0)
