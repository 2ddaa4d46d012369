"""Elements that do not count, since another order of the arithmetic may overflow there, or decide a sign.

Where sums and products read numbers so large that another order overflows, elements that are not finite in one of the
two do not count. In sums of infinities the order decides between those and NaN. And the sign of a zero that a sum or a
selection such as Max returns does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.traits import Trait
from opshift.passes.proof.integer_overflow import reduced_axes
from opshift.passes.proof.rounding.bound import EXACT, Bound
from opshift.passes.proof.rounding.inner_sums import makes_constants
from opshift.passes.proof.rounding.values import has, huge, infinite, infinity, is_float_array, is_large, zero
from opshift.passes.proof.rounding.wide_nodes import Firm, WideNode, loses_signs
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Array


def marks(nodes: Iterable[WideNode], plain: Mapping[str, Any]) -> Mapping[str, Bound]:
    """Return for each value of a run which of its elements do not count."""
    found = dict.fromkeys(plain, EXACT)
    for node in nodes:
        own = _marks_of(node, plain, found)
        # A label that a node makes of its own sums is decided by what overflows on the way.
        overflows = node.sums and any(has(plain[name], huge) or has(plain[name], infinite) for name in node.read)
        decided = replace(own, lost=overflows or own.lost)
        found.update({name: decided if _is_label(plain.get(name)) else own for name in node.node.output})
    return found


def _is_label(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not is_float(value.dtype)


def _marks_of(node: WideNode, plain: Mapping[str, Any], marks: Mapping[str, Bound]) -> Bound:
    """Return which elements of what a node returns do not count, by the marks of what it reads."""
    traits, read = node.traits, node.read
    again = traits_of(node.node).iteration is not None  # one addition after the other is a sum
    adds = Trait.ADDS in traits
    sums = node.sums or (again and adds)
    square = _bare_square if _bare(node) else _square
    large = huge if sums or Trait.MULTIPLIES in traits else _near_the_end if adds or Trait.COMPOSED in traits else None
    if makes_constants(node, plain):
        large = None
    divided = Trait.DIVIDES in traits and any(marks[name].unsigned and has(plain[name], zero) for name in read)
    return Bound(
        huge=any(
            marks[name].huge
            or (large is not None and has(plain[name], large))
            or (marks[name].undecided and plain[name] is None)  # what follows of infinities is not known
            for name in read
        )
        or ((Trait.NORMALIZES in traits or _bare(node)) and _without_spread(node, plain))
        or (Trait.SAMPLES in traits and any(has(plain[name], infinite) for name in read)),
        wild=any(marks[name].wild or (sums and has(plain[name], infinite)) for name in read) or divided,
        undecided=any(marks[name].undecided for name in read)
        or (sums and Trait.NORMALIZES not in traits and any(has(plain[name], infinity) for name in read)),
        unsigned=loses_signs(node.node) or any(marks[name].unsigned for name in read),
        lost=any(
            marks[name].lost
            or (Trait.SQUARES in traits and has(plain[name], square))
            or (Trait.PRODUCTS in traits and _multiplies_beyond(node, plain, name))
            for name in read
        ),
    )


def _square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows; those of float16 do not in float, where kernels add them."""
    return huge(wide, max(largest, float(np.finfo(np.float32).max)))


def _bare_square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers have a square that overflows, or underflows where nothing is added to it."""
    least = float(np.finfo(np.float32).tiny) ** 0.5
    return np.asarray(_square(wide, largest) | ((wide != 0) & (np.abs(wide) < least)))


def _multiplies_beyond(node: WideNode, plain: Mapping[str, Any], name: str) -> bool:
    """Return whether numbers above one that are multiplied overflow, or those below one underflow.

    The order decides then what of it the others bring back: an infinity, a number with fewer digits, or a zero.
    """

    def beyond(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
        axes = reduced_axes(node.node, [plain.get(one) for one in node.node.input], wide.ndim)
        finite = np.where((wide != 0) & np.isfinite(wide), np.abs(wide), 1.0)
        powers, end = np.log2(finite), np.log2(largest)
        return np.asarray((powers.clip(min=0).sum(axes) > end - 1) | (powers.clip(max=0).sum(axes) < 1 - end))

    return has(plain[name], beyond)


def _bare(node: WideNode) -> bool:
    """Return whether a normalization adds an epsilon of 0, which leaves 0 / 0 where squares underflow."""
    return any(one.name == "epsilon" and one.f == 0 for inner in node.computing for one in inner.attribute)


def _near_the_end(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return which numbers overflow when they are added up."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest / 8))


def _without_spread(node: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node returns NaN or an infinity for finite floats: the spread of a row is 0, or underflows."""
    finite = not any(has(plain[name], infinite) for name in node.read)
    return finite and any(has(plain[name], infinite) for name in node.made)


@dataclass(frozen=True)
class Overflow:
    """Elements of a value that may overflow where arithmetic is done in another order.

    Attributes:
        places: which.
        either: which of them may be any of the infinities, or NaN: large numbers of both signs are added up there.
    """

    places: npt.NDArray[np.bool_]
    either: npt.NDArray[np.bool_]


def overflowing(
    nodes: Iterable[WideNode], plain: Mapping[str, Any], marks: Mapping[str, Bound], firm: Mapping[str, Firm]
) -> Mapping[str, Overflow]:
    """Return which elements of values may overflow where arithmetic is done in another order.

    Those that elementwise arithmetic makes of large numbers, and all that a sum makes where one of them is. What every
    kernel computes alike is as large as it is: a mask of the least float takes nothing from its neighbours.
    """
    found: dict[str, Overflow] = {}
    for node in nodes:
        read = [name for name in node.read if is_float_array(plain[name])]
        for name in node.made:
            if not is_float_array(plain[name]) or not marks[name].huge:
                continue
            own = is_large(plain[name], Trait.ADDS)
            if np.all(firm.get(name, False)):
                found[name] = Overflow(own, np.zeros_like(own))
            elif node.sums or node.has_subgraphs:
                found[name] = Overflow(np.ones_like(own), np.ones_like(own))
            else:
                trait = Trait.MULTIPLIES if Trait.MULTIPLIES in node.traits else Trait.ADDS
                before = [found[one] for one in read if one in found]
                masks = [is_large(plain[one], trait) for one in read] + [one.places for one in before]
                either = _spread([one.either for one in before], own.shape)
                found[name] = Overflow(own | _spread(masks, own.shape), either)
    return found


def _spread(masks: Sequence[npt.NDArray[np.bool_]], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which elements of a result come from marked ones: all of them, where its shape does not tell."""
    marked = np.zeros(shape, np.bool_)
    for mask in masks:
        try:
            marked |= mask if mask.shape == shape else np.broadcast_to(mask, shape)
        except (ValueError, RuntimeError):  # another shape, or more axes than numpy spreads
            marked |= bool(mask.any())
    return marked


def where_finite(found: Any, value: Any, plain: Any) -> Any:
    """Return the elements of one value that are finite, or no floats, and else those of another."""
    arrays = isinstance(found, np.ndarray) and isinstance(value, np.ndarray) and found.shape == value.shape
    if not arrays or not isinstance(plain, np.ndarray):
        return value
    if found.dtype.kind != "f" or not is_float(plain.dtype):
        return found if plain.dtype.kind in "biu" else value
    return np.where(np.isfinite(found), found, value)


def not_finite(value: Array, plain: Array, turn: int, either: npt.NDArray[np.bool_]) -> Array:
    """Return what elements are in a perturbed run that may overflow.

    A large one is the infinity that it is near, but where it may be `either`.
    """
    large = is_large(plain, Trait.ADDS) & np.isfinite(value) & ~either
    return np.where(large, np.copysign(np.inf, value), value.dtype.type(_NOT_FINITE[turn])).astype(value.dtype)


_NOT_FINITE = (np.nan, np.inf, -np.inf, np.nan)
"""What the perturbed runs have in place of an element that is not finite, and that a sum of infinities may decide."""
