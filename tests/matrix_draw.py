"""Draw the attributes, element types, shapes and adversarial values of one node of the matrix."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import oracles
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Dims: TypeAlias = tuple[int | str | None, ...]
Attributes: TypeAlias = dict[str, int | tuple[int, ...]]

CONTROL_FLOW = ("if", "loop", "scan", "if-fn", "fn-if")

EVERY = 99
"""Stands for all axes."""

FEEDS = 3
"""How many sets of inputs each case runs on."""

VERSIONS = {"Hardmax": (1, 11, 13), "ArgMax": (1, 11, 12, 13), "OneHot": (9, 11, 28), "HardmaxAxes": (1,)}
FLOATS = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16)
COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
LONG = (130, 257, 2049, 4097, 5000)
KINDS = ("static", "symbolic", "partial", "empty", "unknown")

# The triples of OneHot that onnxruntime 1.31 has a kernel for.
_F, _L, _I, _S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING
ONEHOT_KERNELS = (
    *((_L, _L, _L), (_F, _L, _L), (_L, _L, _S), (_F, _L, _S), (_F, _F, _F), (_L, _F, _I)),
    *((_L, _L, _F), (_I, _I, _F), (_I, _F, _F), (_L, _F, _F), (_L, _I, _F)),
)


def _no_other(feed: int) -> Array:
    raise AssertionError(f"a constant has no other value, in feed {feed} or any")


@dataclasses.dataclass(frozen=True)
class Slot:
    """One input of a node: what it is in the model, and its value in each feed.

    `declared` None means that its rank is to be hidden. `how` is `input`, `init`, `node` (a Constant), `overridable`
    (an initializer that is also an input), or `wire` (another node's output). `redraw` gives another value for a feed,
    of the same shape.
    """

    elem: int
    declared: Dims | None
    how: str
    arrays: tuple[Array, ...]
    redraw: Callable[[int], Array] = dataclasses.field(compare=False, default=_no_other)


@dataclasses.dataclass(frozen=True)
class Use:
    """One node of an operator under test, with its inputs and the oracle of its version."""

    op: str
    since: int
    attributes: Attributes
    slots: tuple[Slot, ...]
    out_elem: int
    kind: str
    features: frozenset[str] = frozenset()

    @property
    def domain(self) -> str:
        return "opshift" if self.op == "HardmaxAxes" else ""

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis, or the axes, defaults counted."""
        value = self.explicit().attributes["axes" if self.op == "HardmaxAxes" else "axis"]
        return value if isinstance(value, tuple) else (value,)

    def explicit(self) -> Use:
        """The same node with its defaults written out."""
        defaults: Attributes = {} if self.op == "HardmaxAxes" else {"axis": default_axis(self.op, self.since)}
        if self.op == "ArgMax":
            defaults["keepdims"] = 1
        if self.op == "ArgMax" and self.since >= 12:
            defaults["select_last_index"] = 0
        return dataclasses.replace(self, attributes={**defaults, **self.attributes})

    def expected(self, feed: int, first: Array | None = None) -> Array:
        """The output by the text; `first` stands for the first input if given."""
        arrays = [slot.arrays[feed] for slot in self.slots]
        if first is not None:
            arrays[0] = first
        return oracle(self.op, self.since)(*arrays, **self.attributes)

    def node(self, inputs: Sequence[str], output: str, refs: dict[str, str] | None = None, name: str = "") -> NodeProto:
        """The node; `refs` says which attributes refer to which parameter of a function."""
        own: dict[str, Any] = {key: value for key, value in self.attributes.items() if key not in (refs or {})}
        node = helper.make_node(self.op, inputs, [output], name=name, domain=self.domain, **own)
        for key, parameter in (refs or {}).items():
            node.attribute.add(name=key, ref_attr_name=parameter, type=attribute_type(self.op, key))
        return node

    def __str__(self) -> str:
        arrays = ", ".join(
            f"{elem_name(s.elem)}{'?' if s.declared is None else list(s.declared)}:{s.how}" for s in self.slots
        )
        shapes = sorted({slot.shape for slot in self.slots[0].arrays})
        return f"{self.op}-{self.since}({self.attributes or ''}) on {arrays} fed {shapes} [{self.kind}]"


def attribute_type(op: str, key: str) -> AttributeProto.AttributeType:
    return AttributeProto.INTS if (op, key) == ("HardmaxAxes", "axes") else AttributeProto.INT


def oracle(op: str, since: int) -> Callable[..., Array]:
    if op == "OneHot":
        return oracles.one_hot
    if op == "Hardmax":
        return oracles.hardmax_1 if since < 13 else oracles.hardmax_13
    return oracles.argmax_or_any if op == "ArgMax" else oracles.hardmax_axes


@cache
def elem_name(elem: int) -> str:
    return str(helper.tensor_dtype_to_string(elem)).removeprefix("TensorProto.").lower()


@cache
def numpy_type(elem: int) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem))


@cache
def allowed(op: str, since: int, parameter: int) -> tuple[int, ...]:
    """The element types that the schema's n-th input takes."""
    if op == "HardmaxAxes":
        return FLOATS
    schema = defs.get_schema(op, since)
    variable = schema.inputs[parameter].type_str
    names = next(t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == variable)
    return tuple(sorted(_elem_of(name) for name in names))


def _elem_of(name: str) -> int:
    return int(TensorProto.DataType.Value(name.removeprefix("tensor(").removesuffix(")").upper()))


@dataclasses.dataclass
class Draws:
    """The random numbers of one case, and what all its nodes must agree on."""

    source_opset: int
    """The opset of the source model."""
    lowest: int
    """The lower one of the source's and the target's opset: what both can say."""
    place: str
    rng: random.Random
    numbers: np.random.Generator
    symbols: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def use(self, op: str, like: Use | None = None, wire: tuple[int, tuple[Array, ...]] | None = None) -> Use:
        """One node: with the attributes and inner constants of `like`, or fed with a `wire` of some element type."""
        since = 1 if op == "HardmaxAxes" else defs.get_schema(op, self.source_opset).since_version
        make = self._one_hot if op == "OneHot" else self._reduction
        return make(op, since, like, wire)

    # -- Hardmax, HardmaxAxes, ArgMax

    def _reduction(self, op: str, since: int, like: Use | None, wire: Any) -> Use:
        elem = wire[0] if wire else self._elem(op, since)
        kind = "wire" if wire else self._kind()
        ranks = self._ranks(op, since, kind, like) if not wire else sorted({a.ndim for a in wire[1]})
        attributes = dict(like.attributes) if like else self.attributes(op, since, ranks)
        # An empty value of unknown rank comes through an If, which takes bfloat16 from 16 on.
        no_if = kind == "unknown" and elem == TensorProto.BFLOAT16 and self.lowest < 16
        nowhere = no_if or (op, since) == ("ArgMax", 11)
        forbidden = EVERY if nowhere else _reduced_axis(attributes) if op == "ArgMax" else None
        features = frozenset({"nan"}) if not wire and self._may_be_nan(op, elem) and self.chance(0.04) else frozenset()
        if wire:
            slot = Slot(elem, None, "wire", wire[1])
        else:
            shapes, declared = self._shapes(kind, ranks, forbidden)

            def draw(shape: tuple[int, ...], feed: int) -> Array:
                return self._with_nan(elem, shape) if features else self._data(elem, shape)

            slot = self._slot(elem, declared, shapes, draw)
        return Use(op, since, attributes, (slot,), TensorProto.INT64 if op == "ArgMax" else elem, kind, features)

    @staticmethod
    def _may_be_nan(op: str, elem: int) -> bool:
        return op == "ArgMax" and elem in (TensorProto.FLOAT, TensorProto.DOUBLE)

    def attributes(self, op: str, since: int, ranks: Sequence[int]) -> Attributes:
        """Legal attributes for inputs of all these ranks; sometimes a default is left out."""
        if op == "HardmaxAxes":
            return {"axes": self._axes(min(ranks), len(ranks) == 1)}
        legal = sorted(set.intersection(*(legal_axes(op, since, rank) for rank in ranks)))
        default = default_axis(op, since)
        drawn: Attributes = {"axis": default if default in legal and self.chance(0.2) else self.rng.choice(legal)}
        if op == "ArgMax":
            drawn["keepdims"] = self.rng.choice((0, 1))
        if op == "ArgMax" and since >= 12:
            drawn["select_last_index"] = self.rng.choice((0, 1))
        defaults = {"axis": default, "keepdims": 1, "select_last_index": 0}
        return {key: value for key, value in drawn.items() if value != defaults[key] or self.chance(0.4)}

    def _axes(self, rank: int, known: bool) -> tuple[int, ...]:
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank))
        if not known:
            # Both signs together would name one axis twice at some other rank.
            return tuple(axis - rank for axis in chosen) if self.chance(0.5) else tuple(chosen)
        return tuple(axis - rank if self.chance(0.4) else axis for axis in chosen)

    # -- OneHot

    def _one_hot(self, op: str, since: int, like: Use | None, wire: Any) -> Use:
        triple = self._triple(since, wire[0] if wire else None)
        kind = "wire" if wire else self._kind()
        ranks = self._ranks(op, since, kind, like) if not wire else sorted({a.ndim for a in wire[1]})
        attributes = dict(like.attributes) if like else self.attributes(op, since, ranks)
        depth = like.slots[1] if like and like.slots[1].how == "node" else self._depth(triple[1])
        values = like.slots[2] if like and like.slots[2].how == "node" else self._on_off(triple[2])
        fractional = (
            not wire
            and since >= 11
            and triple[0] == TensorProto.FLOAT
            and (triple[0], depth.elem, values.elem) in ONEHOT_KERNELS
            and self.chance(0.1)
        )
        if wire:
            indices = Slot(triple[0], None, "wire", wire[1])
        else:
            shapes, declared = self._shapes(kind, ranks, None)
            sizes = [int(array.reshape(()).item()) for array in depth.arrays]
            indices = self._slot(
                triple[0], declared, shapes, lambda s, feed: self._indices(triple[0], s, sizes[feed], since, fractional)
            )
        features = frozenset({"fractional"}) if fractional else frozenset()
        return Use(op, since, attributes, (indices, depth, values), values.elem, kind, features)

    def _triple(self, since: int, first: int | None) -> tuple[int, int, int]:
        """Half of them are those that onnxruntime has a kernel for."""
        if self.chance(0.4):
            fits = [triple for triple in ONEHOT_KERNELS if first in (None, triple[0])]
            return self.rng.choice(fits)
        any_of = [self.rng.choice(allowed("OneHot", since, i)) for i in range(3)]
        if any_of[2] in COMPLEX and self.chance(0.7):
            any_of[2] = self.rng.choice((TensorProto.BOOL, TensorProto.STRING, TensorProto.UINT8))
        if any_of[2] == TensorProto.BFLOAT16 and not self._may_use_bfloat16():
            any_of[2] = TensorProto.DOUBLE
        return (first or any_of[0], any_of[1], any_of[2])

    def _how(self) -> str:
        return self.rng.choices(("init", "node", "input", "overridable"), (35, 20, 32, 13))[0]

    def _depth(self, elem: int) -> Slot:
        how = self._how()
        most = 127 if elem == TensorProto.INT8 else 255 if elem == TensorProto.UINT8 else 300
        size = [self.rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(FEEDS)]
        if self.chance(0.05):
            size = [self.rng.choice((most, 100, 126)) for _ in range(FEEDS)]
        if how in ("init", "node"):
            size = [size[0]] * FEEDS
        form: tuple[int, ...] = self.rng.choice(((), (1,)))
        arrays = tuple(np.full(form, value, numpy_type(elem)) for value in size)
        declared: Dims | None = form
        if how == "input" and self.chance(0.1):
            declared = ("One",) if form else None
        return Slot(elem, declared, how, arrays)

    def _on_off(self, elem: int) -> Slot:
        how = self._how()
        arrays = [self._pair(elem) for _ in range(FEEDS)]
        if how in ("init", "node"):
            arrays = [arrays[0]] * FEEDS
        declared: Dims | None = (2,)
        if how == "input" and self.chance(0.15):
            declared = ("Two",) if self.chance(0.7) else None
        return Slot(elem, declared, how, tuple(arrays))

    def _pair(self, elem: int) -> Array:
        dtype = numpy_type(elem)
        if elem == TensorProto.STRING:
            return np.array(self.rng.sample(["", "off", "on", "ü", "two\nlines"], 2), dtype=object)
        if self.chance(0.4):
            return np.array([0, 1]).astype(dtype)
        if elem == TensorProto.BOOL:
            return np.array(self.rng.choices((False, True), k=2))
        if elem in COMPLEX:
            return np.array(self.rng.sample([0, 1, 1j, -2.5 + 3j, complex("inf"), complex(0.0, -0.0)], 2), dtype=dtype)
        pool = _pool(elem)
        if elem in FLOATS:
            pool = np.concatenate([pool, np.array([np.nan]).astype(dtype)])
        return pool[self.numbers.integers(0, len(pool), 2)]

    def _indices(self, elem: int, shape: tuple[int, ...], depth: int, since: int, fractional: bool) -> Array:
        dtype = numpy_type(elem)
        least = 0 if since < 11 or elem in _UNSIGNED else -depth - 2
        low, high = _whole_range(elem)
        inside = self.numbers.integers(max(low, least), min(high, depth + 1) + 1, shape)
        drawn = np.asarray(inside).astype(dtype)
        far = _far_indices(elem, depth, negative=since >= 11)
        if len(far) and self.chance(0.6):
            take = self.numbers.random(shape) < 0.3
            drawn = np.where(take, far[self.numbers.integers(0, len(far), shape)], drawn).astype(dtype)
        if fractional:
            drawn = (drawn + self.numbers.choice([0.0, 0.5, -0.25, 0.0], shape)).astype(dtype)
        return drawn

    # -- element types, shapes, values

    def _may_use_bfloat16(self) -> bool:
        """If, Loop and Scan take bfloat16 from 16 on; below 13 nothing does, which a few cases ask for all the same."""
        if self.place in CONTROL_FLOW:
            return self.lowest >= 16
        return self.source_opset >= 13 and (self.lowest >= 13 or self.chance(0.2))

    def _elem(self, op: str, since: int) -> int:
        if self.chance(0.3):
            return TensorProto.FLOAT
        elem = self.rng.choice(allowed(op, since, 0))
        if elem == TensorProto.BFLOAT16 and not self._may_use_bfloat16():
            return TensorProto.DOUBLE
        return elem

    def _kind(self) -> str:
        return self.rng.choices((*KINDS, "shapeless"), (26, 24, 16, 14, 18, 2))[0]

    def _ranks(self, op: str, since: int, kind: str, like: Use | None) -> list[int]:
        """The ranks that the feeds have; several only where the model does not say."""
        legal = [rank for rank in range(6) if self._rank_is_legal(op, since, rank, like)]
        weights = [1 if rank == 5 else 3 if rank in (1, 4) else 4 if rank else 2 for rank in legal]
        first = self.rng.choices(legal, weights)[0]
        # onnxruntime's Scan wants a body whose ranks are known.
        if kind in ("unknown", "shapeless") and self.place != "scan" and self.chance(0.6):
            return sorted({first, first + 1} & {*legal})
        return [first]

    @staticmethod
    def _rank_is_legal(op: str, since: int, rank: int, like: Use | None) -> bool:
        if rank == 5 and op == "OneHot":
            return False
        if like is None:
            return bool(legal_axes(op, since, rank))
        axes = like.axes
        legal = legal_axes(op, since, rank)
        return set(axes) <= legal and len({axis % max(rank, 1) for axis in axes}) == len(axes)

    def _shapes(self, kind: str, ranks: list[int], forbidden: int | None) -> tuple[list[tuple[int, ...]], Dims | None]:
        """One shape for each feed and what the model declares; no empty dim where `forbidden` (an axis, or EVERY)."""
        feeds = [self._shape(ranks[feed % len(ranks)]) for feed in range(FEEDS)]
        if kind in ("unknown", "shapeless"):
            maybe = self.rng.randrange(FEEDS)
            if self.lowest < 11 and len(set(ranks)) > 1:
                # The empty value comes through an If, and If-1 asks for branches "of the same shape".
                return feeds, None
            return [self._maybe_empty(s, forbidden, 0.3) if i == maybe else s for i, s in enumerate(feeds)], None
        base = feeds[0]
        if kind == "empty" and self.chance(0.5):
            base = self._maybe_empty(base, forbidden, 1.0)
        declared = tuple(self._declared(kind, size) for size in base)
        shapes = [tuple(d if isinstance(d, int) else s[i] for i, d in enumerate(declared)) for s in feeds]
        if kind == "empty" and 0 not in base:
            # Symbolic dims that come out empty in some feeds.
            declared = tuple(f"d{next(self.symbols)}" for _ in base)
            shapes = [self._maybe_empty(shape, forbidden, 0.7) for shape in feeds]
        return shapes, declared

    def _declared(self, kind: str, size: int) -> int | str | None:
        if kind in ("static", "empty") or (kind == "partial" and self.chance(0.5)):
            return size
        return None if kind == "partial" and self.chance(0.4) else f"d{next(self.symbols)}"

    def _shape(self, rank: int) -> tuple[int, ...]:
        sizes = (1, 2, 3, 4, 5) if rank <= 3 else (1, 2, 3)
        shape = [self.rng.choice(sizes) for _ in range(rank)]
        if rank in (1, 2) and self.chance(0.05):
            shape[self.rng.randrange(rank)] = self.rng.choice(LONG)
        return tuple(shape)

    def _maybe_empty(self, shape: tuple[int, ...], forbidden: int | None, probability: float) -> tuple[int, ...]:
        rank = len(shape)
        free = [i for i in range(rank) if forbidden is None or i != forbidden % rank] if forbidden != EVERY else []
        if not free or not self.chance(probability):
            return shape
        empty = set(self.rng.sample(free, 2 if len(free) > 1 and self.chance(0.2) else 1))
        return tuple(0 if i in empty else size for i, size in enumerate(shape))

    @staticmethod
    def _slot(elem: int, declared: Dims | None, shapes: list[tuple[int, ...]], draw: Callable[..., Array]) -> Slot:
        arrays = tuple(draw(shape, feed) for feed, shape in enumerate(shapes))
        return Slot(elem, declared, "input", arrays, lambda feed: draw(shapes[feed], feed))

    def _data(self, elem: int, shape: tuple[int, ...]) -> Array:
        """Ties, rows of one value, extremes, both zeros, and neighbours that a narrower type takes for equal."""
        pool = _pool(elem)
        pattern = self.rng.choice(("ties", "one", "extremes", "extremes", "near", "lows", "any"))
        if pattern == "one":
            return np.full(shape, pool[self.numbers.integers(0, len(pool))], numpy_type(elem))
        if pattern == "near":
            pool = _near(elem)
        elif pattern == "lows":
            pool = np.array([pool.min(), pool.min(), np.sort(pool)[1]])
        elif pattern == "ties":
            pool = np.array([0, 1, 2, 1]).astype(pool.dtype)
        elif pattern == "any" and elem in FLOATS:
            return np.asarray(self.numbers.normal(size=shape) * 8).round(1).astype(numpy_type(elem))
        return np.asarray(pool[self.numbers.integers(0, len(pool), shape)])

    def _with_nan(self, elem: int, shape: tuple[int, ...]) -> Array:
        drawn = self._data(elem, shape)
        chosen = self.numbers.random(shape) < 0.3
        return np.where(chosen, np.array(np.nan, drawn.dtype), drawn)


_UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
_SIGNED = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)


def legal_axes(op: str, since: int, rank: int) -> set[int]:
    """Every axis that the version's text defines for this rank."""
    if op == "OneHot":
        # The text says nothing against rank 0, but ONNX's own shape inference and onnxruntime refuse it.
        both = {-1, *range(rank + 1)} if since < 11 else set(range(-rank - 1, rank + 1))
        return both if rank else set()
    if op == "HardmaxAxes" or since >= 11:
        return set(range(-rank, rank))
    return set(range(rank))


def default_axis(op: str, since: int) -> int:
    return {"ArgMax": 0, "OneHot": -1, "Hardmax": 1 if since < 13 else -1, "HardmaxAxes": 0}[op]


def _reduced_axis(attributes: Attributes) -> int:
    axis = attributes.get("axis", 0)
    assert isinstance(axis, int)
    return axis


def _whole_range(elem: int) -> tuple[int, int]:
    """The integers around zero that the type holds exactly."""
    if elem in (*_UNSIGNED, *_SIGNED):
        info = np.iinfo(numpy_type(elem))
        return int(info.min), int(info.max)
    return (-2048, 2048) if elem == TensorProto.FLOAT16 else (-(2**24), 2**24)


_EDGES = [0, 1, -1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**24 + 1]
_WIDE = [
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**32 + 1,
    -(2**31),
    -(2**31) - 1,
    -(2**32),
    2**33 + 2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]


def _float_info(dtype: np.dtype[Any]) -> Any:
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@cache
def _pool(elem: int) -> Array:
    """The values of a type at which implementations go wrong."""
    dtype = numpy_type(elem)
    if elem == TensorProto.BOOL:
        return np.array([False, True])
    if elem in FLOATS:
        info = _float_info(dtype)
        ends = [info.max, -info.max, info.smallest_subnormal, -info.smallest_subnormal, info.tiny]
        plain = np.array([-np.inf, np.inf, -0.0, 0.0, 1.0, -1.0]).astype(dtype)
        one = np.array([1.0], dtype)
        return np.concatenate([plain, np.array(ends).astype(dtype), one + info.eps, one - info.eps]).astype(dtype)
    low, high = _whole_range(elem)
    return np.array([v for v in (*_EDGES, *_WIDE, low, high, high - 1) if low <= v <= high], dtype=dtype)


@cache
def _near(elem: int) -> Array:
    """Neighbours that are equal in the next narrower type."""
    dtype = numpy_type(elem)
    if elem in FLOATS:
        one = np.array([1.0], dtype)
        eps = _float_info(dtype).eps
        return np.concatenate([one, one + eps, one + 2 * eps, -one, -one - eps]).astype(dtype)
    high = _whole_range(elem)[1]
    base = min(2**62 + 2**31, high - 3)
    # The fourth differs in the upper half of the low word of 64 bits only.
    return np.array([base + 3, base + 2, base + 1, base, base - 2**31 if high > 2**32 else base - 1], dtype=dtype)


def _far_indices(elem: int, depth: int, negative: bool) -> Array:
    """Indices out of range, some of which a cast to int32 or a wrong wrap brings back into it."""
    dtype = numpy_type(elem)
    candidates = [depth, depth + 1, 2 * depth, 255, 256, 2**31, 2**31 - 1, 2**32, 2**32 + 1]
    candidates += [2**53 + 1, 2**63 - 1, 2**64 - 1]
    if negative:
        candidates += [-depth, -depth - 1, -2 * depth, -(2**31), -(2**32), -(2**32) + 1, -(2**63), -128, -129]
    if elem in FLOATS:
        whole = [float(v) for v in candidates if abs(v) < 2**62] + ([-0.0] if negative else [])
        with np.errstate(over="ignore"):
            cast = np.array(whole).astype(dtype)
        return cast[np.isfinite(cast.astype(np.float64))]
    low, high = _whole_range(elem)
    return np.array([v for v in candidates if low <= v <= high], dtype=dtype)
