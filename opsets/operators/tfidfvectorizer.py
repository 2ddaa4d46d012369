"""TfIdfVectorizer: how often each n-gram of a pool is found in a row, and weights of what is found. Since version 9."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Strings, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TfIdfVectorizer:
    """The pool of n-grams, those of one element first; which lengths and distances count; the weights."""

    mode: str = ""
    min_gram_length: int = 1
    max_gram_length: int = 1
    max_skip_count: int = 0
    ngram_counts: tuple[int, ...] = ()
    ngram_indexes: tuple[int, ...] = ()
    pool_int64s: tuple[int, ...] | None = None
    pool_strings: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None

    @property
    def width(self) -> int:
        """The length of the result. TfIdfVectorizer-9: "max(ngram_indexes) + 1"."""
        return max(self.ngram_indexes) + 1

    def pools(self) -> dict[int, tuple[int, Array]]:
        """Return, by the length of n-grams that count, the number of the first one, and them, one a row."""
        pool = np.array(self.pool_strings, object) if self.pool_strings else np.array(self.pool_int64s or (), np.int64)
        ends, found, number = (*self.ngram_counts[1:], len(pool)), {}, 0
        for length, (start, end) in enumerate(zip(self.ngram_counts, ends, strict=True), 1):
            grams = pool[start:end].reshape(-1, length)
            if self.min_gram_length <= length <= self.max_gram_length and len(grams):
                found[length] = (number, grams)
            number += len(grams)
        return found

    def distances(self, length: int) -> int:
        """Return how many distances of elements count: with skips more than one."""
        return 1 if length == 1 else self.max_skip_count + 1


def oracle(what: TfIdfVectorizer, x: Array) -> Array:
    """TfIdfVectorizer-9: "Y[ngram_indexes[i]] indicates the times that the i-th n-gram is found".

    With IDF, "all the counts larger than 1 would be truncated to 1"; "weights would be used to scale" these, or all
    counts with TFIDF.
    """
    y = np.zeros((*x.shape[:-1], what.width))
    for length, (first, grams) in what.pools().items():
        for distance in range(1, what.distances(length) + 1):
            for start in range(x.shape[-1] - distance * (length - 1)):
                window = x[..., start : start + distance * (length - 1) + 1 : distance]
                for number, gram in enumerate(grams, first):
                    weight = what.weights[number] if what.weights and what.mode != "TF" else 1
                    met = (window == gram).all(axis=-1)
                    place = y[..., what.ngram_indexes[number]]
                    place[...] = np.where(met, weight if what.mode == "IDF" else place + weight, place)
    return y.astype(np.float32)


def _fault(what: TfIdfVectorizer, operands: Operands) -> str | None:
    """Return what onnxruntime 1.32.0 refuses."""
    pool = what.pool_strings or what.pool_int64s or ()
    if bool(what.pool_strings) == bool(what.pool_int64s):
        return "it has no pool, or two"
    ends = (*what.ngram_counts[1:], len(pool))
    sizes = [end - start for start, end in zip(what.ngram_counts, ends, strict=True)]
    if any(size < 0 or size % length for length, size in enumerate(sizes, 1)) or what.ngram_counts[:1] != (0,):
        return "its ngram_counts do not part the pool"
    number = sum(size // length for length, size in enumerate(sizes, 1))
    if len(what.ngram_indexes) != number or min(what.ngram_indexes, default=0) < 0:
        return f"it has {len(what.ngram_indexes)} ngram_indexes for {number} n-grams"
    if what.weights and len(what.weights) != number:
        return f"it has {len(what.weights)} weights for {number} n-grams"
    if not 1 <= what.min_gram_length <= what.max_gram_length <= len(what.ngram_counts) or what.max_skip_count < 0:
        return "the lengths of its n-grams are out of range"
    return None


def _computed(what: TfIdfVectorizer, operands: Operands) -> Reason | None:
    """Require weights that nothing found cannot turn into NaN, and clear ones where n-grams share a place."""
    if what.mode not in ("TF", "IDF", "TFIDF"):
        return Reason(f"its mode is {what.mode}")
    if what.mode != "TF" and not np.isfinite(what.weights or ()).all():
        return Reason("its weights are not finite")
    if what.mode == "IDF" and len(set(what.ngram_indexes)) < len(what.ngram_indexes):
        return Reason("no text defines which weight counts where several n-grams have one place")
    return None


def _one_length(applies_if: Callable[[TfIdfVectorizer, Operands], Reason | None]) -> Callable[..., Reason | None]:
    def holds(what: TfIdfVectorizer, operands: Operands) -> Reason | None:
        return _computed(what, operands) or (applies_if(what, operands) if len(what.pools()) == 1 else Reason(""))

    return holds


def _order(what: TfIdfVectorizer) -> Array | None:
    """Return the n-grams by their places, if each place of the result has one, and all count."""
    ((_, grams),) = what.pools().values()
    everywhere = sorted(what.ngram_indexes) == list(range(len(grams)))
    return np.argsort(what.ngram_indexes) if everywhere else None


def _weighs(what: TfIdfVectorizer) -> bool:
    return what.mode != "TF" and bool(what.weights)


def _in_order(mode: str, weighs: bool) -> Callable[[TfIdfVectorizer, Operands], Reason | None]:
    def applies(what: TfIdfVectorizer, operands: Operands) -> Reason | None:
        if (what.mode == "IDF") != (mode == "IDF") or _weighs(what) != weighs:
            return Reason("")
        if weighs and min(what.weights or (0,)) < 0:
            return Reason("a weight below zero makes -0.0 of what is not found")
        return Reason("places of the result have no n-gram, or several") if _order(what) is None else None

    return _one_length(applies)


def _somewhere(once: bool) -> Callable[[TfIdfVectorizer, Operands], Reason | None]:
    return _one_length(lambda what, operands: None if (what.mode == "IDF") == once else Reason(""))


def _counts(what: TfIdfVectorizer, operands: Operands) -> Mapping[str, Any]:
    ((length, (number, grams)),) = what.pools().items()
    weights = np.array(what.weights or (1,) * len(what.ngram_indexes), np.float32)
    bounded(len(grams) * what.width)
    spread = np.zeros((len(grams), what.width), np.float32)
    indexes = np.array(what.ngram_indexes[number : number + len(grams)])
    spread[np.arange(len(grams)), indexes] = weights[number : number + len(grams)] if _weighs(what) else 1
    order = _order(what)
    return {
        "pool": Tensor(grams),
        "ordered": Tensor(grams if order is None else grams[order]),
        "distances": what.distances(length),
        "weights": Tensor(weights if order is None else weights[order]),
        "spread": Tensor(spread),
        "one": Tensor(np.array(1, np.float32)),
    }


@lowering(18, applies_if=_in_order("TF", False), bind=_counts)
def counted(x, ordered: str, distances: int):
    """Count the n-grams."""
    return meaning.GramCounts(x, grams=ordered, distances=distances)


@lowering(18, applies_if=_in_order("TFIDF", True), bind=_counts)
def weighed(x, ordered: str, distances: int, weights: Sequence[int]):
    """Multiply the counts of n-grams by their weights."""
    return meaning.GramCounts(x, grams=ordered, distances=distances) * weights


@lowering(18, applies_if=_in_order("IDF", False), bind=_counts)
def found(x, ordered: str, distances: int, one: Sequence[int]):
    """Count the n-grams, up to one."""
    return op.Min(meaning.GramCounts(x, grams=ordered, distances=distances), one)


@lowering(18, applies_if=_in_order("IDF", True), bind=_counts)
def found_and_weighed(x, ordered: str, distances: int, one: Sequence[int], weights: Sequence[int]):
    """Count the n-grams, up to one, and multiply by their weights."""
    return op.Min(meaning.GramCounts(x, grams=ordered, distances=distances), one) * weights


@lowering(18, applies_if=_somewhere(False), bind=_counts, rounds=True)
def spread_out(x, pool: str, distances: int, spread: Sequence[int]):
    """Count the n-grams, and multiply by a matrix of their weights, which has a column for each place."""
    return op.MatMul(meaning.GramCounts(x, grams=pool, distances=distances), spread)


@lowering(18, applies_if=_somewhere(True), bind=_counts, rounds=True)
def found_and_spread_out(x, pool: str, distances: int, one: Sequence[int], spread: Sequence[int]):
    """Count the n-grams, up to one, and multiply by a matrix of their weights."""
    return op.MatMul(op.Min(meaning.GramCounts(x, grams=pool, distances=distances), one), spread)


def _several(what: TfIdfVectorizer, operands: Operands) -> Reason | None:
    return _computed(what, operands) or (None if len(what.pools()) > 1 else Reason(""))


def _shorter_and_longer(what: TfIdfVectorizer, operands: Operands) -> Mapping[str, Any]:
    least = min(what.pools())
    return {"least": least, "more": least + 1}


@lowering(18, applies_if=_several, bind=_shorter_and_longer, rounds=True)
def length_by_length(x, least: int, more: int):
    """Add up what the shortest n-grams give, and the others."""
    return meaning.Same(x, max_gram_length=least) + meaning.Same(x, min_gram_length=more)


OPERATOR = Operator(
    name="TfIdfVectorizer",
    meaning=TfIdfVectorizer,
    versions=(Version(9),),
    operands=("X",),
    oracle=oracle,
    fault=_fault,
    lowerings=(counted, weighed, found, found_and_weighed, spread_out, found_and_spread_out, length_by_length),
    traits=Traits(strings=Strings.LISTED, floats=(Trait.SUMS,)),
)
