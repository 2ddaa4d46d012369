"""Inputs for a comparison: which types and shapes a model may be fed, and values that tell near misses apart.

Random floats hardly ever tie, overflow or meet an infinity, so values are drawn from small palettes, one palette per
*mood*: ties, signs, both zeros, infinities, the extremes of the type, the integers around 2^31, 2^32 and 2^53.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from opshift.passes.sessions import Array, Feeds, RejectedError, nodes, opset

_T = onnx.TensorProto
Rng = np.random.Generator
Shape = tuple[int, ...]

# In the order in which they are tried where an element type is unknown.
_FEEDABLE: tuple[int, ...] = (
    _T.FLOAT, _T.INT64, _T.INT32, _T.DOUBLE, _T.FLOAT16, _T.BOOL, _T.STRING, _T.UINT8,
    _T.INT8, _T.BFLOAT16, _T.INT16, _T.UINT16, _T.UINT32, _T.UINT64,
    _T.FLOAT8E4M3FN, _T.FLOAT8E5M2, _T.FLOAT8E4M3FNUZ, _T.FLOAT8E5M2FNUZ,
)  # fmt: skip
_ELEMENT_TYPES = {
    f"tensor({_T.DataType.Name(element).lower()})": element for element in _FEEDABLE if element != _T.UNDEFINED
}

# Inputs that set how large a result is, or how long a node runs: fed small numbers only. None: all inputs.
_SIZES: dict[str, tuple[int, ...] | None] = {
    "AffineGrid": (1,), "BlackmanWindow": None, "CenterCropPad": (1,), "Col2Im": (1, 2), "ConstantOfShape": None,
    "DFT": (1,), "Expand": (1,), "HammingWindow": None, "HannWindow": None, "Loop": (0,), "MaxUnpool": (2,),
    "MelWeightMatrix": None, "NonMaxSuppression": (2,), "OneHot": (1,), "Pad": (1,), "Range": None, "Reshape": (1,),
    "Resize": (1, 2, 3), "STFT": (1, 3), "Split": (1,), "SplitToSequence": (1,), "Tile": (1, 2), "TopK": (1,),
    "Upsample": (1,),
}  # fmt: skip


class UntestableError(Exception):
    """No inputs can be made for a model; the text says why."""


@dataclass(frozen=True)
class Spec:
    """A graph input: its element type (0: unknown) and its dims (a str is a symbol; None: the rank is unknown)."""

    name: str
    element_type: int
    dims: tuple[int | str, ...] | None


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no initializer, in order."""
    given = {tensor.name for tensor in graph.initializer}
    given |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in given]


def specs(graph: onnx.GraphProto) -> tuple[Spec, ...]:
    """Return the specs of the inputs that a caller must feed.

    A dim without a name is a symbol of its own, that no other dim shares.

    Raises:
        UntestableError: an input is a sequence, an optional, a map or sparse, or of a type that cannot be fed.
    """
    found = []
    for value in graph_inputs(graph):
        kind = value.type.WhichOneof("value")
        if kind not in (None, "tensor_type"):
            raise UntestableError(
                f"input {value.name} is a {str(kind).removesuffix('_type')}, for which no values are made"
            )
        tensor = value.type.tensor_type
        if tensor.elem_type and tensor.elem_type not in _FEEDABLE:
            raise UntestableError(f"input {value.name} is {_T.DataType.Name(tensor.elem_type)}, which cannot be fed")
        dims = tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}:{index}"
            for index, dim in enumerate(tensor.shape.dim)
        )
        found.append(Spec(value.name, tensor.elem_type, dims if tensor.HasField("shape") else None))
    return tuple(found)


# --- element types that are not known -------------------------------------------------------------------------------


def guesses(model: onnx.ModelProto) -> Iterator[dict[str, int]]:
    """Yield element types for the inputs of a one-node model whose types are unknown, by input name.

    Inputs that share a type variable of the operator's schema get the same type, and a known one binds it. The most
    usual types come first; at most 40 combinations are yielded. Nothing is unknown: one empty dict.
    """
    unknown = [spec.name for spec in specs(model.graph) if not spec.element_type]
    if not unknown:
        yield {}
        return
    node = model.graph.node[-1]
    variables, allowed = _type_variables(model, node)
    known = {spec.name: spec.element_type for spec in specs(model.graph)}
    known |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for feed, variable in variables.items():
        if known.get(feed):
            allowed[variable] = (known[feed],)
    slots = list(dict.fromkeys(variables.get(feed, feed) for feed in unknown))
    choices = [allowed.get(slot, _FEEDABLE) for slot in slots]
    ranked = sorted(itertools.product(*(range(len(choice)) for choice in choices)), key=lambda pick: (sum(pick), pick))
    for pick in ranked[:40]:
        types = {slot: choice[index] for slot, choice, index in zip(slots, choices, pick, strict=True)}
        yield {feed: types[variables.get(feed, feed)] for feed in unknown}


def _schema(model: onnx.ModelProto, node: onnx.NodeProto) -> Any:
    """Return the schema of a node in a model, or None where onnx has none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = next((entry.version for entry in model.opset_import if entry.domain == node.domain), opset(model))
    try:
        return onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def _parameters(schema: Any, node: onnx.NodeProto) -> Iterator[tuple[int, str, Any]]:
    """Yield the index and the name of each input that a node has, with the schema's parameter for it."""
    for index, value in enumerate(node.input):
        if value and schema.inputs:
            yield index, value, schema.inputs[min(index, len(schema.inputs) - 1)]


def _type_variables(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[dict[str, str], dict[str, Sequence[int]]]:
    """Return the type variable of each input of a node, and the types that each variable may be, usual ones first."""
    schema = _schema(model, node)
    if schema is None:
        return {}, {}
    variables: dict[str, str] = {}
    allowed: dict[str, Sequence[int]] = {}
    for index, value, parameter in _parameters(schema, node):
        loose = not parameter.is_homogeneous
        variables[value] = f"{parameter.type_str}#{index}" if loose else parameter.type_str
        types = {_ELEMENT_TYPES[kind] for kind in parameter.types if kind in _ELEMENT_TYPES}
        allowed[variables[value]] = tuple(element for element in _FEEDABLE if element in types)
    return variables, allowed


# --- inputs that must stay small ------------------------------------------------------------------------------------


def steering(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of the graph inputs whose values reach a size, a count or an index list of some operator.

    Those are fed small numbers only: ConstantOfShape([2^33]) would take all memory, and a Loop whose condition sees an
    infinity may never end. `Shape` and `Size` pass no values on. Model-local functions that hold such an operator are
    taken to hand it every input.
    """
    heavy = {function.name for function in model.functions if _holds_sizes(function, model)}
    reached: dict[str, frozenset[str]] = {value.name: frozenset((value.name,)) for value in graph_inputs(model.graph)}
    found: set[str] = set()

    def visit(graph: onnx.GraphProto, outer: frozenset[str]) -> frozenset[str]:
        """Follow values through a graph whose formal inputs hold `outer`; return what reaches its outputs."""
        for value in graph.input:
            reached.setdefault(value.name, outer)
        for node in graph.node:
            sources = [reached.get(name, frozenset()) for name in node.input]
            flow = frozenset().union(*sources)
            sized = _SIZES.get(node.op_type, ())
            found.update(*(s for index, s in enumerate(sources) if sized is None or index in sized))
            found.update(*_small_only(model, node, sources))
            if node.op_type in heavy:
                found.update(flow)
            bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            if node.op_type == "Loop":
                # A condition that passes through the body is steered by the condition alone, not by what is carried.
                formal = [value.name for value in bodies[0].input[:2]]
                reached.update(zip(formal, sources, strict=False))
            flow = flow.union(*(visit(body, flow) for body in bodies))
            if node.op_type == "Loop":
                found.update(reached.get(bodies[0].output[0].name, frozenset()))
            for name in node.output:
                reached[name] = frozenset() if node.op_type in ("Shape", "Size") else flow
        return frozenset().union(*(reached.get(value.name, frozenset()) for value in graph.output))

    visit(model.graph, frozenset())
    return frozenset(found)


def _holds_sizes(function: onnx.FunctionProto, model: onnx.ModelProto) -> bool:
    """Return whether a function, or one that it calls, holds an operator with an input that sets a size."""
    calls = {other.name for other in model.functions if other.name != function.name}
    return any(node.op_type in _SIZES or node.op_type in calls for node in function.node)


def _small_only(
    model: onnx.ModelProto, node: onnx.NodeProto, sources: Sequence[frozenset[str]]
) -> Iterator[frozenset[str]]:
    """Yield what reaches inputs that the schema types as int32 or int64 and nothing else: axes, indices, counts."""
    if not any(sources):
        return
    schema = _schema(model, node)
    if schema is None:
        return
    for index, _, parameter in _parameters(schema, node):
        if sources[index] and set(parameter.types) <= {"tensor(int32)", "tensor(int64)"}:
            yield sources[index]


def divides(model: onnx.ModelProto) -> bool:
    """Return whether a model divides by something that is not constant.

    onnxruntime's Div and Mod of the least integer by -1 end the process (SIGFPE), so such a model never gets it.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {name for node in nodes(model) if node.op_type == "Constant" for name in node.output}
    return any(
        node.op_type in ("Div", "Mod") and len(node.input) == 2 and node.input[1] not in constants
        for node in nodes(model)
    )


# --- shapes ---------------------------------------------------------------------------------------------------------

_RANKS = (2, 1, 3, 0, 4, 5, 6)


def with_shapes(found: Sequence[Spec], shapes: Mapping[str, Shape]) -> tuple[Spec, ...]:
    """Return the specs with the dims of some inputs set, and their symbols set wherever else they stand.

    Raises:
        ValueError: no such input, or the shape contradicts the input's rank or its static dims.
    """
    names = [spec.name for spec in found]
    symbols: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in names:
            raise ValueError(f"the model has no input {name}; it has {', '.join(names) or 'none'}")
        dims = found[names.index(name)].dims
        if dims is None:
            continue
        if len(dims) != len(shape) or any(isinstance(d, int) and d != s for d, s in zip(dims, shape, strict=True)):
            raise ValueError(f"input {name} has the shape {list(dims)}, which {list(shape)} does not fit")
        symbols |= {dim: size for dim, size in zip(dims, shape, strict=True) if isinstance(dim, str)}
    return tuple(
        Spec(
            spec.name,
            spec.element_type,
            tuple(shapes[spec.name])
            if spec.name in shapes
            else spec.dims and tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.dims),
        )
        for spec in found
    )


def sizes(found: Sequence[Spec], *, whole: bool) -> Iterator[dict[str, Shape]]:
    """Yield shapes for all inputs, small ones first: the same symbol has the same size wherever it stands.

    Inputs of unknown rank share their dims counted from the right, so that they broadcast. `whole` adds the sizes
    that images and sequences have.
    """
    for ranked in _ranks(found):
        yield from _bound(ranked, lambda count: _patterns(count, whole=whole))


def long_sizes(found: Sequence[Spec]) -> Iterator[dict[str, Shape]]:
    """Yield shapes with a dim longer than an int8, a uint8, a float16 and a uint16 count, the other symbols being 1."""
    for ranked in itertools.islice(_ranks(found), 2):
        yield from _bound(ranked, _long_patterns)


def _bound(ranked: Sequence[Spec], patterns: Callable[[int], Iterable[Shape]]) -> Iterator[dict[str, Shape]]:
    """Yield the shapes of all inputs for each pattern of sizes for their symbols."""
    symbols = list(dict.fromkeys(dim for spec in ranked for dim in spec.dims or () if isinstance(dim, str)))
    for pattern in patterns(len(symbols)):
        size = dict(zip(symbols, pattern, strict=True))
        yield {
            spec.name: tuple(size[dim] if isinstance(dim, str) else dim for dim in spec.dims or ()) for spec in ranked
        }


def _ranks(found: Sequence[Spec]) -> Iterator[tuple[Spec, ...]]:
    """Yield the specs with each unknown rank set, all to the same first; at most 60 times."""
    free = [spec.name for spec in found if spec.dims is None]
    if not free:
        yield tuple(found)
        return
    same = [(rank,) * len(free) for rank in _RANKS]
    mixed = [(*ranks, *ranks[-1:] * (len(free) - 3)) for ranks in itertools.product(_RANKS, repeat=min(len(free), 3))]
    for ranks in list(dict.fromkeys(same + mixed))[:60]:
        rank_of = dict(zip(free, ranks, strict=True))
        yield tuple(
            Spec(spec.name, spec.element_type, tuple(f":{index}" for index in reversed(range(rank_of[spec.name]))))
            if spec.dims is None
            else spec
            for spec in found
        )


def _patterns(count: int, *, whole: bool) -> Iterable[Shape]:
    """Return small sizes for `count` symbols: equal ones, distinct ones, each of the first four 1 and 0."""
    first = min(count, 4)
    patterns: list[Shape] = [
        (2,) * count,
        tuple(2 + index % 4 for index in range(count)),
        tuple(4 - index % 3 for index in range(count)),
        (1,) * count,
        (3,) * count,
        *(tuple(1 if at == index else 3 + index for index in range(count)) for at in range(first)),
        *(tuple(0 if at == index else 2 + index for index in range(count)) for at in range(first)),
    ]
    if whole:
        patterns += [(length,) * count for length in (5, 8, 16, 32, 64, 128)]
        patterns += [(1,) + (length,) * (count - 1) for length in (4, 8, 16, 32, 64, 128, 224, 256, 512) if count > 1]
    else:
        # Everything at once is empty for single nodes alone, whose oracles know whether that has a meaning.
        patterns += [(0,) * count]
        # Kernels take four, eight or sixteen elements at once.
        patterns += [tuple(5 + index for index in range(count))] if count <= 3 else []
        patterns += [
            tuple(length if at == index else 2 for index in range(count)) for length in (9, 17) for at in range(first)
        ]
    return dict.fromkeys(patterns)


def _long_patterns(count: int) -> Iterator[Shape]:
    """Yield sizes for `count` symbols with one long dim."""
    for length in (130, 300, 3000, 70_000):
        for at in range(min(count, 3)):
            yield tuple(length if at == index else 1 for index in range(count))


# --- values ---------------------------------------------------------------------------------------------------------

_WORDS = (0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32)
_WIDE = (*_WORDS, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**24 + 1, 2**33, 2**33 + 2**31, 2**53, 2**53 + 1, 2**63)


@dataclass(frozen=True)
class Allowed:
    """Which values may be fed.

    `nan`, `infinite` and `least`: NaN, the infinities, the least integer of a type; `whole` puts the plain values
    first, that a whole model accepts.
    """

    nan: bool = True
    infinite: bool = True
    least: bool = True
    whole: bool = False


@dataclass(frozen=True)
class Draft:
    """How the inputs of a model are drawn; `steer` names inputs that get small numbers only."""

    specs: tuple[Spec, ...]
    steer: frozenset[str]
    allowed: Allowed

    def feeds(self, rng: Rng, shapes: Mapping[str, Shape], turn: int) -> dict[str, Array]:
        """Return values for all inputs; `turn` picks the moods, and every combination comes with enough turns."""
        drawn = {}
        for position, spec in enumerate(self.specs):
            moods = self._moods(spec)
            mood = (turn + position * (turn // len(moods))) % len(moods)
            drawn[spec.name] = _draw(rng, moods[mood], shapes[spec.name])
        return drawn

    def peaks(self, rng: Rng, shapes: Mapping[str, Shape], manner: str) -> dict[str, Array]:
        """Return values of which one in each row of the longest axis is a peak, or with 'dip' is the least."""
        return {
            spec.name: _draw(rng, _Mood(self._moods(spec)[0].palette, manner), shapes[spec.name]) for spec in self.specs
        }

    def turns(self) -> int:
        """Return how many turns show every mood of every input once."""
        return max((len(self._moods(spec)) for spec in self.specs), default=1)

    def _moods(self, spec: Spec) -> tuple[_Mood, ...]:
        return _moods(np_dtype(spec.element_type), spec.name in self.steer, self.allowed)


def np_dtype(element_type: int) -> np.dtype[Any]:
    """Return the numpy dtype that arrays of an ONNX element type have; strings are objects."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))


@dataclass(frozen=True)
class _Mood:
    """Values of one character: drawn from a palette in a manner, see `_draw`."""

    palette: Array
    manner: str = "each"


def _palette(dtype: np.dtype[Any], values: Iterable[Any], allowed: Allowed) -> Array:
    """Return the distinct values that the type holds and that are allowed, in order; never empty."""
    if dtype == np.object_:
        kept = np.empty(len(given := list(values)), dtype)
        kept[:] = given
        return kept
    if dtype == np.bool_:
        return np.array(list(values), dtype)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        least = int(info.min) + (not allowed.least and info.min < 0)
        return np.array([v for v in dict.fromkeys(values) if least <= v <= info.max] or [0], dtype)
    with np.errstate(over="ignore"):
        array = np.array([float(value) for value in values]).astype(dtype)
    wide = array.astype(np.float64)
    kept = array[(allowed.nan | ~np.isnan(wide)) & (allowed.infinite | ~np.isinf(wide))]
    return kept if kept.size else np.zeros(1, dtype)


@functools.cache
def _moods(dtype: np.dtype[Any], small: bool, allowed: Allowed) -> tuple[_Mood, ...]:
    """Return the moods for an element type, those that show a small counterexample first."""

    def mood(values: Iterable[Any], manner: str = "each") -> _Mood:
        return _Mood(_palette(dtype, values, allowed), manner)

    if dtype == np.object_:
        words = ("", "a", "b", "0", "A", "é", "ab" * 20)
        return (mood(words), mood(("a", "b")), mood(words, "one"))
    if dtype == np.bool_:
        return (mood((False, True)), mood((True,)), mood((False,)), mood((False, True), "peak"))
    floating = not np.issubdtype(dtype, np.integer)
    if small:
        kinds = [mood((0, 1, 2)), mood((1,)), mood((2,)), mood((0, 1, 2, 3)), mood((-2, -1, 0, 1, 2)), mood((0,))]
        return (*kinds, mood((0,), "normal")) if floating and allowed.whole else tuple(kinds)
    if not floating:
        signed = [-value for value in _WIDE]
        wide = [*_WIDE, *signed, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
        hostile = [
            mood((0, 1, 2)),
            mood(wide, "rows"),
            mood(wide, "peak"),
            mood((0, 2**31)),
            mood((*_WORDS, *(-value for value in _WORDS))),
            mood((2**53, 2**53 + 1)),
            mood((2**24, 2**24 + 1)),
            mood((2**63, 2**63 + 1)),
            mood((-2, -1, 0, 1, 2)),
            mood(wide, "few"),
            mood(wide, "dip"),
            mood(wide),
            mood(wide, "one"),
            mood((0, 1), "normal"),
        ]
        hostile = [one for one in hostile if len(one.palette) > 1]  # the others do not fit the type
        plain = [mood((0, 1)), mood((0, 1, 2, 3)), mood((0,)), mood(range(10)), mood(range(100))]
        return tuple(plain + hostile if allowed.whole else hostile)
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    high, tiny, step = float(info.max), float(info.smallest_normal), float(info.eps)
    subnormal = float(info.smallest_subnormal)
    edges: list[float] = [
        high,
        -high,
        tiny,
        -tiny,
        subnormal,
        -subnormal,
        0.0,
        -0.0,
        1.0,
        1 + step,
        1 - step / 2,
        2**24,
        2**24 + 1,
    ]
    inf, nan = float("inf"), float("nan")
    union = [*edges, inf, -inf, 2.0, 0.5, -1.5, 1e-3]
    hostile = [
        mood((0, 1, 2)),
        mood((-inf, -1.5, 0.5), "rows"),
        mood(union, "peak"),
        mood((-2, -1, -0.5)),
        mood((0.0, -0.0)),
        mood((-inf,)),
        mood((-inf, inf, 0, 1)),
        mood((1, 1 + step)),
        mood(edges),
        mood(union, "few"),
        mood(union, "dip"),
        mood(union, "one"),
        mood((0,), "normal"),
        mood((nan, 0, 1, 2, -inf)),
        mood((nan, -1, -2), "rows"),
    ]
    if not allowed.infinite:
        # A whole model turns the extremes into infinities, and those into NaN, as soon as it adds or multiplies.
        hostile = [one for one in hostile if not allowed.whole or np.abs(one.palette.astype(np.float64)).max() < 100]
    plain = [mood((0,), "normal"), mood(np.linspace(-3, 3, 25)), mood(np.linspace(0, 1, 17))]
    return tuple(plain + hostile if allowed.whole else hostile)


def _draw(rng: Rng, mood: _Mood, shape: Shape) -> Array:
    """Return an array of this shape in a mood.

    'each' draws every element from the palette; 'few' from up to three values of it; 'one' is a single value all
    over; 'rows' has rows of a single value along one axis; 'peak' is a single value but for a larger one in each row of
    the longest axis, 'dip' but for a smaller one; 'normal' is a normal distribution, or random bits for integers.
    """
    if mood.manner == "normal":
        return _normal(rng, mood.palette.dtype, shape)
    palette = mood.palette
    count = {"few": 3, "peak": 2, "dip": 2, "one": 1}.get(mood.manner, len(palette))
    if count < len(palette):
        palette = palette[rng.permutation(len(palette))[:count]]
    if mood.manner in ("peak", "dip"):
        low, high = np.sort(palette)[[0, -1]]
        flat, peak = (low, high) if mood.manner == "peak" else (high, low)
        drawn = np.full(shape, flat, palette.dtype)
        if drawn.size and drawn.ndim:
            rows = np.moveaxis(drawn, int(np.argmax(shape)), -1)
            length = rows.shape[-1]  # in a long row the end counts, where a narrow counter has overflowed
            at = rng.integers(max(0, length - 1000), length, size=(*rows.shape[:-1], 1))
            np.put_along_axis(rows, at, peak, -1)
        return drawn
    drawn = palette.take(rng.integers(len(palette), size=math.prod(shape))).reshape(shape)
    if mood.manner == "rows" and drawn.size and drawn.ndim:
        rows = np.moveaxis(drawn, int(rng.integers(drawn.ndim)), -1)
        same = rng.random(rows.shape[:-1]) < 0.6
        rows[same] = rows[same][..., :1]
    return drawn


def _normal(rng: Rng, dtype: np.dtype[Any], shape: Shape) -> Array:
    """Return normally distributed floats, or integers with every bit at random."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return np.asarray(
            rng.integers(int(info.min) + (info.min < 0), info.max, size=shape, dtype=dtype, endpoint=True)
        )
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


# --- the trials -----------------------------------------------------------------------------------------------------

Outputs = tuple[Any, ...]
Values = Callable[[Mapping[str, Shape], int | str], Feeds]  # a turn, or 'peak' or 'dip' for one value in each row


@dataclass(frozen=True)
class Budget:
    """How much is tried: shapes, inputs, elements of all inputs together, and inputs that are rejected."""

    shapes: int
    inputs: int
    elements: int
    rejections: int


@dataclass(frozen=True)
class Trials:
    """The inputs that the original accepts, each with its outputs, and why it rejected the last of the others."""

    accepted: tuple[tuple[Feeds, Outputs], ...]
    tried: int
    rejection: str

    @property
    def largest(self) -> int:
        """Return how many elements the largest input has."""
        return max((array.size for feeds, _ in self.accepted for array in feeds.values()), default=0)


def trials(
    draft: Draft,
    values: Values,
    plain: Callable[[Feeds], Outputs],
    shapes: Iterable[Mapping[str, Shape]],
    long: Iterable[Mapping[str, Shape]],
    budget: Budget,
) -> Trials:
    """Return inputs that the original accepts: one of each shape, then each shape in ever other moods, then `long`.

    Three inputs are found even where the first is larger than the budget.
    """
    found: list[tuple[Feeds, Outputs]] = []
    fitting: list[Mapping[str, Shape]] = []
    rejections: list[str] = []
    elements = 0

    def attempt(shape: Mapping[str, Shape], turn: int | str) -> bool:
        nonlocal elements
        feeds = values(shape, turn)
        try:
            found.append((feeds, plain(feeds)))
        except RejectedError as error:
            rejections.append(str(error))
            return False
        elements += sum(array.size for array in feeds.values())
        return True

    def spent() -> bool:
        over = len(found) >= budget.inputs or elements >= budget.elements
        return len(rejections) >= budget.rejections or (over and len(found) >= 3)

    for shape in shapes:
        if len(fitting) == budget.shapes or spent():
            break
        if any(attempt(shape, turn) for turn in dict.fromkeys((len(fitting), 0, 1, 2))):
            fitting.append(shape)
    for turn, (position, shape) in itertools.product(range(1, 4 * draft.turns()), enumerate(fitting)):
        if spent():
            break
        attempt(shape, turn + position)
    for shape in long if fitting else ():
        if len(rejections) < budget.rejections:
            attempt(shape, "peak")
            attempt(shape, "dip")
    return Trials(tuple(found), len(found) + len(rejections), rejections[-1] if rejections else "no shape was found")


def fits(specs: Sequence[Spec], shape: Mapping[str, Shape]) -> bool:
    """Return whether shapes are small enough to try, or have no choice."""
    free = any(spec.dims is None or any(isinstance(dim, str) for dim in spec.dims) for spec in specs)
    return not free or sum(math.prod(dims) for dims in shape.values()) <= 2**22


def whole_budget(weights: int, specs: Sequence[Spec], nodes: int) -> Budget:
    """Return how much to try on a whole model: 48 inputs of a small one, three of one with gigabytes of weights."""
    static = sum(math.prod(dim if isinstance(dim, int) else 2 for dim in spec.dims or ()) for spec in specs)
    cost = 1 + weights + 64 * static + 50_000 * nodes
    count = min(48, max(3, 1_000_000_000 // cost))
    return Budget(shapes=min(6, count), inputs=count, elements=2**24, rejections=200)
