"""Find several consistent shapes for the inputs of a model, even if it accepts few.

The same symbol always has the same size. Hints from shape inference come first. If the model rejects the tried shapes,
a small search follows, based on the sizes in the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.opsets.registry.shape_hints import NodeShapes, hints_of
from opshift.passes.analysis.model_summary import ModelSummary, declared_by_bodies
from opshift.passes.analysis.scopes import Shape
from opshift.passes.graph.traversal import nested_nodes
from opshift.passes.proof.inputs.input_specs import Dims, Spec

Shapes = Mapping[str, Shape]
Accepts = Callable[[Shapes], bool]
Repair = Callable[[Accepts, Sequence[Shapes]], Iterator[Shapes]]

_RANKS = (2, 1, 3, 0, 4, 5, 6)
_LARGEST = 4096  # a larger size is a vocabulary, which is unlikely for a dim of an input
_ORDINARY = 8  # sizes up to this are always tried
_LONG = 2048  # memory that is quadratic in this size still fits
_ENDS = 8
_COUNTED, _COUNTED_LESS_OFTEN = (300, 2200, 34_000), (130,)
"""Sizes that exceed the range of uint8, float16 and int16; and of int8."""


def free(found: Sequence[Spec]) -> bool:
    """Return whether any dim is dynamic."""
    return any(spec.dims is None or any(isinstance(dim, str) for dim in spec.dims) for spec in found)


def fits(found: Sequence[Spec], shapes: Shapes) -> bool:
    """Return whether shapes are small enough to try, or fixed."""
    return not free(found) or sum(math.prod(dims) for dims in shapes.values()) <= 2**22


def with_shapes(found: Sequence[Spec], shapes: Shapes) -> tuple[Spec, ...]:
    """Return the specs with the dims of some inputs set, and their symbols set in all other inputs.

    Raises:
        ValueError: there is no such input, or the shape contradicts the input's rank or its static dims.
    """
    names = [spec.name for spec in found]
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in names:
            raise ValueError(f"the model has no input {name}; it has {', '.join(names) or 'none'}")
        dims = found[names.index(name)].dims
        if dims is None:
            continue
        if len(dims) != len(shape) or any(isinstance(d, int) and d != s for d, s in zip(dims, shape, strict=True)):
            raise ValueError(f"input {name} has the shape {list(dims)}, which {list(shape)} does not fit")
        sizes |= {dim: size for dim, size in zip(dims, shape, strict=True) if isinstance(dim, str)}
    return tuple(
        replace(
            spec,
            dims=tuple(shapes[spec.name])
            if spec.name in shapes
            else spec.dims and tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.dims),
        )
        for spec in found
    )


def as_fixed(found: Sequence[Spec], other: Sequence[Spec]) -> tuple[tuple[Spec, ...], dict[str, Dims]]:
    """Return the specs with the dims that another model fixes, and the dims of the inputs that it fixes.

    The same symbol always has the same size.

    Raises:
        ValueError: it fixes one symbol to two sizes.
    """
    dims = {spec.name: spec.dims for spec in other}
    sizes: dict[str, int] = {}
    for spec in found:
        for dim, size in zip(spec.dims or (), dims.get(spec.name) or (), strict=False):
            if isinstance(dim, str) and isinstance(size, int) and sizes.setdefault(dim, size) != size:
                raise ValueError(f"the dim {dim} is {sizes[dim]} in one input and {size} in another")
    fixed: dict[str, Dims] = {}
    specs = []
    for spec in found:
        own, wanted = spec.dims, dims.get(spec.name)
        substituted = own and tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in own)
        shape = wanted if own is None else substituted
        if shape is not None and shape != own and any(isinstance(dim, int) for dim in shape):
            fixed[spec.name] = shape
            spec = replace(spec, dims=shape)
        specs.append(spec)
    return tuple(specs), fixed


def symbols(found: Sequence[Spec]) -> tuple[str, ...]:
    """Return the symbols in the dims of the inputs, in order."""
    return tuple(dict.fromkeys(dim for spec in found for dim in spec.dims or () if isinstance(dim, str)))


def sizes_of(found: Sequence[Spec], shapes: Shapes) -> dict[str, int]:
    """Return the size of each symbol in these shapes."""
    return {
        dim: size
        for spec in found
        if spec.dims is not None and spec.name in shapes
        for dim, size in zip(spec.dims, shapes[spec.name], strict=False)
        if isinstance(dim, str)
    }


# --- patterns -------------------------------------------------------------------------------------------------------


def sizes(found: Sequence[Spec], *, whole: bool, hints: SymbolHints | None = None) -> Iterator[dict[str, Shape]]:
    """Yield shapes for all inputs, small ones first; the same symbol always has the same size.

    Inputs of unknown rank share their dims counted from the right, so that they broadcast. `whole` adds usual sizes of
    images and sequences. Shapes that satisfy the hints alternate with others, because a dim of 1 broadcasts.
    """
    yielded: set[tuple[Shape, ...]] = set()
    for ranked in _ranks(found):
        names = symbols(ranked)
        kinds = [grouped(names, hints), *([grouped(names, None)] if hints else [])]
        rows = itertools.zip_longest(*(map(groups.sizes, _patterns(len(groups.free), whole=whole)) for groups in kinds))
        for size in (size for row in rows for size in row if size is not None):
            shapes = _bound(ranked, size)
            if (key := tuple(shapes.values())) not in yielded:
                yielded.add(key)
                yield shapes


def long_sizes(found: Sequence[Spec]) -> Iterator[dict[str, Shape]]:
    """Yield shapes with one dim beyond the range of int8, uint8, float16 and uint16, and 1 for all other symbols."""
    for ranked in itertools.islice(_ranks(found), 2):
        names = symbols(ranked)
        for pattern in _long_patterns(len(names)):
            yield _bound(ranked, dict(zip(names, pattern, strict=True)))


def beyond(found: Sequence[Spec], known: SymbolHints, base: Shapes) -> Iterator[dict[str, Shape]]:
    """Yield shapes with one symbol, and its equals, at and beyond each limit in the model.

    The other symbols are as in `base`, which is accepted.
    """
    ranked = tuple(
        replace(spec, dims=spec.dims or tuple(f":{at}" for at in range(len(base[spec.name])))) for spec in found
    )
    chosen = sizes_of(ranked, base)
    ends = (end + more for end in known.ends for more in (1, 0))
    lengths = dict.fromkeys((*_COUNTED, *ends, *_COUNTED_LESS_OFTEN))
    groups = grouped(symbols(ranked), SymbolHints(known.equal, known.pinned)).free
    for length, group in itertools.product(lengths, groups):
        yield _bound(ranked, {**chosen, **dict.fromkeys(group, length)})


def _bound(ranked: Sequence[Spec], size: Mapping[str, int]) -> dict[str, Shape]:
    """Return the shapes of all inputs for given sizes of the symbols."""
    return {spec.name: tuple(size[dim] if isinstance(dim, str) else dim for dim in spec.dims or ()) for spec in ranked}


def _ranks(found: Sequence[Spec]) -> Iterator[tuple[Spec, ...]]:
    """Yield the specs with each unknown rank set, first all to the same; at most 60 times."""
    unranked = [spec.name for spec in found if spec.dims is None]
    if not unranked:
        yield tuple(found)
        return
    same = [(rank,) * len(unranked) for rank in _RANKS]
    mixed = [
        (*ranks, *ranks[-1:] * (len(unranked) - 3)) for ranks in itertools.product(_RANKS, repeat=min(len(unranked), 3))
    ]
    for ranks in list(dict.fromkeys(same + mixed))[:60]:
        rank_of = dict(zip(unranked, ranks, strict=True))
        yield tuple(
            replace(spec, dims=tuple(f":{index}" for index in reversed(range(rank_of[spec.name]))))
            if spec.dims is None
            else spec
            for spec in found
        )


def _patterns(count: int, *, whole: bool) -> Iterable[Shape]:
    """Return small sizes for `count` symbols: equal ones, distinct ones, each of the first four 1 and 0."""
    first = min(count, 4)
    one = [tuple(1 if at == index else 3 + index for index in range(count)) for at in range(first)]
    none = [tuple(0 if at == index else 2 + index for index in range(count)) for at in range(first)]
    patterns: list[Shape] = [
        (2,) * count,
        tuple(2 + index % 4 for index in range(count)),
        tuple(4 - index % 3 for index in range(count)),
        (1,) * count,
    ]
    if whole:
        patterns += [*none[:1], (3,) * count, (4,) * count, *one, *none[1:]]
        patterns += [(length,) * count for length in (5, 8, 16, 32, 64, 128)]
        patterns += [(1,) + (length,) * (count - 1) for length in (4, 8, 16, 32, 64, 128, 224, 256, 512) if count > 1]
    else:
        patterns += [(3,) * count, *one, *none]
        # All dims are empty only for single nodes, whose oracles know whether that is defined.
        patterns += [(0,) * count]
        # Kernels process four, eight or sixteen elements at once.
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


# --- symbols in the model -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SymbolHints:
    """Constraints on symbols from shape inference, which broadcast dims of 1 may violate.

    Attributes:
        equal: symbols that share a dim.
        pinned: symbols that share a dim with a number, and that number.
        lengths: sizes in the model, the likeliest first.
        ends: possible limits of a long axis: integer constants, and lengths of tables.
    """

    equal: tuple[tuple[str, str], ...] = ()
    pinned: tuple[tuple[str, int], ...] = ()
    lengths: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def hints(view: ModelSummary, fixed: Mapping[str, int] | None = None) -> SymbolHints:
    """Return the constraints of a model's nodes on the symbols in its shapes; `fixed` are requested sizes."""
    equal: dict[tuple[str, str], None] = {}
    pinned: dict[str, int] = dict(fixed or {})
    reshaped: dict[int, None] = {}
    for node in nested_nodes(view.graph):
        own = traits_of(node)
        spread = 1 if own.spreads else None
        for one, other in _meeting(node, view):
            if isinstance(one, str) and isinstance(other, str) and one != other:
                equal[one, other] = None
            elif isinstance(one, str) and isinstance(other, int) and other != spread:
                pinned.setdefault(one, other)
            elif isinstance(other, str) and isinstance(one, int) and one != spread:
                pinned.setdefault(other, one)
        if own.likely_sizes:
            reshaped.update(dict.fromkeys(hints_of(own.likely_sizes, _seen(node, view))))
    declared = dict.fromkeys(
        dim for dims in (*view.weights, *view.shapes.values()) for dim in dims if isinstance(dim, int)
    )
    kept = [size for size in (*reshaped, *pinned.values(), *sorted(declared)) if 1 < size <= _LARGEST]
    integers = (array for array in view.constants.values() if array.dtype.kind in "iu")
    values = [abs(int(value)) for array in integers for value in array.reshape(-1).tolist()]
    tables = [size for dims in view.weights for size in dims]
    ends = sorted({value for value in (*values, *tables) if _ORDINARY < value <= _LONG}, reverse=True)
    return SymbolHints(tuple(equal), tuple(pinned.items()), tuple(dict.fromkeys(kept))[:48], tuple(ends[:_ENDS]))


def _seen(node: onnx.NodeProto, view: ModelSummary) -> NodeShapes:
    """Return a node in the form for its operator's rules."""
    return NodeShapes(
        inputs=tuple(view.shapes.get(name) for name in node.input),
        output=view.shapes.get(node.output[0]) if node.output else None,
        attributes=attributes_of(node),
        opset=view.versions.get("", 0),
        constant=lambda index: _elements(view, node.input[index]) if index < len(node.input) else None,
    )


def _elements(view: ModelSummary, name: str) -> np.ndarray[Any, Any] | None:
    found = view.constant(name)
    return None if found is None else found.reshape(-1)


def _meeting(node: onnx.NodeProto, view: ModelSummary) -> Iterator[tuple[Dim, Dim]]:
    """Yield pairs of input dims that must be equal, or that broadcast against each other."""
    for name, declared in declared_by_bodies(node, view.versions.get("", 0)):
        if len(view.shapes[name]) == len(declared):
            yield from zip(view.shapes[name], declared, strict=True)
    rule = traits_of(node).equal_dims
    known = sum(name in view.shapes for name in (*node.input, *node.output[:1]))
    if rule and known >= min(2, len(node.input)):
        yield from hints_of(rule, _seen(node, view))


@dataclass(frozen=True)
class Groups:
    """Symbols grouped by size: `free` groups may vary, `fixed` has the sizes of other symbols."""

    free: tuple[tuple[str, ...], ...]
    fixed: Mapping[str, int]

    def sizes(self, pattern: Sequence[int]) -> dict[str, int]:
        """Return the size of each symbol, given the sizes of the free groups."""
        chosen = {name: size for group, size in zip(self.free, pattern, strict=True) for name in group}
        return {**self.fixed, **chosen}


def grouped(names: Sequence[str], known: SymbolHints | None) -> Groups:
    """Return symbols grouped by the hints' equalities; each alone without hints."""
    known = known or SymbolHints()
    leader: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := leader.get(name, name)) != name:
            name = above
        return name

    for one, other in known.equal:
        if root(one) != root(other):
            leader[root(other)] = root(one)
    pinned: dict[str, int] = {}
    for name, size in known.pinned:
        pinned.setdefault(root(name), size)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(root(name), []).append(name)
    return Groups(
        tuple(tuple(group) for top, group in groups.items() if top not in pinned),
        {name: pinned[top] for top, group in groups.items() if top in pinned for name in group},
    )


# --- the search -----------------------------------------------------------------------------------------------------

_SMALL = (2, 1, 3, 4)
_VARIED = (1, 3, 0, 2, 5, 4, 8)
_SQUARES = (5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 384)
_ENOUGH = 4  # number of different sizes of a symbol after which it is not varied separately
_FEW = 3  # number of different sizes of a symbol below which dependent symbols are searched
_TRIES = 4  # consecutive rejected lengths after which a symbol is not varied


def repaired(
    found: Sequence[Spec], known: SymbolHints, accepts: Accepts, start: Sequence[Shapes] = (), *, rejections: int = 150
) -> Iterator[Shapes]:
    """Yield shapes that are accepted, so that each symbol soon has several sizes, 0 and 1 among them.

    `start` are accepted shapes that are not yielded again. Without any, a first one is searched: all small sizes for up
    to three groups of symbols; for more groups, equal sizes, one size as the sum of two others, and single sizes from
    the model. Then single symbols are varied, pairs of them together, and sums consistently. The search ends after
    `rejections` rejections.
    """
    unranked = any(spec.dims is None for spec in found)
    for ranked in _ranks(found):
        names = symbols(ranked)
        accepted = [sizes_of(ranked, shapes) for shapes in start if _of_rank(ranked, shapes)]
        if start and not accepted:
            continue
        limit = min(rejections, 12) if unranked and not accepted else rejections
        search = _Search(ranked, accepts, limit, {_key(names, one) for one in accepted})
        if not accepted:
            accepted = list(itertools.islice(search.first(_proposals(names, known)), 1))
            yield from map(search.shapes, accepted)
        rejections -= limit - search.left
        if accepted:
            search.left = rejections
            yield from _varied(names, known, accepted, search)
        if accepted or rejections <= 0:
            return


def repairer(found: Sequence[Spec], known: SymbolHints, allowed: Accepts = lambda shapes: True) -> Repair | None:
    """Return `repaired` for permitted shapes that are small enough to try; None if no dim is dynamic."""
    if not free(found):
        return None

    def repair(accepts: Accepts, start: Sequence[Shapes]) -> Iterator[Shapes]:
        def tried(shapes: Shapes) -> bool:
            return fits(found, shapes) and allowed(shapes) and accepts(shapes)

        return repaired(found, known, tried, start)

    return repair


def _of_rank(ranked: Sequence[Spec], shapes: Shapes) -> bool:
    return all(len(spec.dims or ()) == len(shapes.get(spec.name, ())) for spec in ranked)


def _key(names: Sequence[str], size: Mapping[str, int]) -> Shape:
    return tuple(size.get(name, -1) for name in names)


class _Search:
    """Tries each assignment of sizes once, until too many are rejected."""

    def __init__(self, ranked: Sequence[Spec], accepts: Accepts, rejections: int, known: Iterable[Shape]) -> None:
        self._ranked = ranked
        self._names = symbols(ranked)
        self._accepts = accepts
        self._answers = dict.fromkeys(known, True)
        self.left = rejections

    def shapes(self, size: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shapes of an assignment."""
        return _bound(self._ranked, size)

    def holds(self, size: Mapping[str, int]) -> bool:
        """Return whether an assignment is accepted."""
        key = _key(self._names, size)
        if key not in self._answers:
            if self.left <= 0:
                return False
            self._answers[key] = self._accepts(self.shapes(size))
            self.left -= not self._answers[key]
        return self._answers[key]

    def accepts(self, size: Mapping[str, int]) -> bool:
        """Return whether an assignment is new and accepted."""
        return _key(self._names, size) not in self._answers and self.holds(size)

    def first(self, proposals: Iterable[dict[str, int]]) -> Iterator[dict[str, int]]:
        """Yield the accepted assignments, until too many are rejected."""
        for proposal in proposals:
            if self.left <= 0:
                return
            if self.accepts(proposal):
                yield proposal


def _proposals(names: Sequence[str], known: SymbolHints) -> Iterator[dict[str, int]]:
    """Yield assignments of sizes to symbols, the likeliest first."""
    hinted, loose = grouped(names, known), grouped(names, None)
    for groups in (hinted, loose):
        count = len(groups.free)
        for pattern in ((2,) * count, tuple(2 + index for index in range(count)), (1,) * count):
            yield groups.sizes(pattern)
    for groups in (hinted, loose) if hinted != loose else (loose,):
        for pattern in _images(len(groups.free)):
            yield groups.sizes(pattern)
    for groups in (hinted, loose) if hinted != loose else (loose,):
        count = len(groups.free)
        search = _exhaustive(count, known.lengths) if count <= 3 else _structured(count, known.lengths)
        limit = 60 if groups is hinted and hinted != loose else None
        for pattern in itertools.islice(search, limit):
            yield groups.sizes(pattern)


def _images(count: int) -> Iterator[Shape]:
    """Yield sizes of square images, of a batch of one or two."""
    for length in _SQUARES:
        yield (2 if length < 100 else 1, *(length,) * (count - 1)) if count > 1 else (length,) * count


def _exhaustive(count: int, lengths: Sequence[int]) -> Iterator[Shape]:
    """Yield all sizes for a few symbols; sizes early in the list come first."""
    choice = tuple(dict.fromkeys((*_SMALL, *lengths[: {1: 48, 2: 16, 3: 8}.get(count, 0)], 5, 6, 7, 8, 16, 32)))
    ranked = sorted(itertools.product(range(len(choice)), repeat=count), key=lambda pick: (sum(pick), pick))
    return (tuple(choice[index] for index in pick) for pick in ranked)


def _structured(count: int, lengths: Sequence[int]) -> Iterator[Shape]:
    """Yield sizes for many symbols: sums, one of a size in the model, and equal ones, alternately."""
    kinds = [_sums(count), _single(count, lengths), _partitions(count)]
    for row in itertools.zip_longest(*kinds):
        yield from (pattern for pattern in row if pattern is not None)


def _sums(count: int) -> Iterator[Shape]:
    """Yield sizes of which one is the sum of two others; the others are 2, or all different."""
    for distinct in (False, True):
        for total in reversed(range(count)):
            for one, other in itertools.combinations([at for at in range(count) if at != total], 2):
                pattern = [2 + index if distinct else 2 for index in range(count)]
                pattern[one], pattern[other] = 3, pattern[other]
                pattern[total] = pattern[one] + pattern[other]
                yield tuple(pattern)


def _single(count: int, lengths: Sequence[int]) -> Iterator[Shape]:
    """Yield sizes of which one, or all, are a size in the model, and the others are 2 or another such size."""
    for length in lengths[:16]:
        yield (length,) * count
    for fill, length in itertools.product((2, *lengths[:6]), lengths[:16]):
        for at in range(count):
            yield tuple(length if at == index else fill for index in range(count))


def _partitions(count: int) -> Iterator[Shape]:
    """Yield sizes for each partition into equal symbols, few groups first; only the first eight symbols are grouped."""

    def grow(prefix: Shape, blocks: int) -> Iterator[Shape]:
        if len(prefix) == count:
            if max(prefix, default=0) + 1 == blocks:
                yield tuple(2 + block for block in prefix)
            return
        if len(prefix) >= 8:
            yield from grow((*prefix, prefix[len(prefix) % 8]), blocks)
            return
        for block in range(min(blocks, max(prefix, default=-1) + 2)):
            yield from grow((*prefix, block), blocks)

    for blocks in range(2, min(count, 8) + 1):
        yield from grow((), blocks)


def _varied(
    names: Sequence[str], known: SymbolHints, accepted: Sequence[Mapping[str, int]], search: _Search
) -> Iterator[dict[str, Shape]]:
    """Yield accepted shapes near an accepted one: each symbol alone, with its dependent symbols, and in sums."""
    base = accepted[0]
    seen = {name: {size[name] for size in accepted} for name in names}
    lengths = tuple(dict.fromkeys((*_VARIED, *known.lengths[:12])))

    def changed(changes: Mapping[str, int]) -> Iterator[dict[str, Shape]]:
        size = {**base, **changes}
        if all(len(seen[name]) >= _ENOUGH or value in seen[name] for name, value in changes.items()):
            return
        if search.accepts(size):
            for name, value in size.items():
                seen[name].add(value)
            yield search.shapes(size)

    def rounds(groups: Sequence[Sequence[str]]) -> Iterator[dict[str, Shape]]:
        """Try every length on every group, except on groups that never accept one."""
        tries = [_TRIES] * len(groups)
        for length, (at, group) in itertools.product(lengths, enumerate(groups)):
            if tries[at] > 0:
                before = search.left
                yielded = list(changed(dict.fromkeys(group, length)))
                tries[at] = _TRIES if yielded else tries[at] - (search.left < before)
                yield from yielded

    def stuck() -> list[str]:
        return [name for name in names if len(seen[name]) < 2]

    yield from rounds(grouped(names, SymbolHints(equal=known.equal)).free)
    yield from rounds([(name,) for name in stuck()])
    together: list[tuple[str, ...]] = []
    for name in (name for name in names if len(seen[name]) < _FEW):
        if not any(name in group for group in together) and (group := _together(name, names, base, search)):
            together.append(group)
    yield from rounds(together)
    # One more past token is one more in total; zero and one past token are tried too.
    for one, other in itertools.permutations(names, 2):
        if base[one] < base[other]:
            for step in (1, -base[one], 1 - base[one], 3):
                yield from changed({one: base[one] + step, other: base[other] + step})
    for factor, (one, other) in itertools.product((2, 3), itertools.combinations_with_replacement(names, 2)):
        yield from changed({one: base[one] * factor, other: base[other] * factor})


def _together(name: str, names: Sequence[str], base: Mapping[str, int], search: _Search) -> tuple[str, ...]:
    """Return a symbol with its dependent symbols; empty if there are none.

    Not all symbols of one size may change: the number of sizes of a Reshape is unrelated to their values.
    """
    length = base[name] + 1
    group = [other for other in names if base[other] == base[name]]
    holds = search.holds({**base, **dict.fromkeys(group, length)})
    others = [other for other in group if other != name]
    for left_out in (*itertools.combinations(others, 1), *itertools.combinations(others, 2)):
        fewer = [kept for kept in group if kept not in left_out]
        if fewer != group and search.holds({**base, **dict.fromkeys(fewer, length)}):
            group, holds = fewer, True
    return tuple(group) if holds else ()
