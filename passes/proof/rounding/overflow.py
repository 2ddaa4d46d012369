"""Find elements that do not count, because another order of the arithmetic may overflow or change a sign.

If sums and products read numbers so large that another order overflows, elements that are not finite in one of the two
do not count. In sums of infinities, the order decides between infinities and NaN. The sign of a zero from a sum or a
selection such as Max does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Return, for each value of a run, the elements that do not count."""
    found = dict.fromkeys(plain, EXACT)
    for node in nodes:
        own = _marks_of(node, plain, found)
        # Overflow inside the node's sums may decide its labels.
        overflows = node.sums and any(has(plain[name], huge) or has(plain[name], infinite) for name in node.read)
        decided = replace(own, lost=overflows or own.lost)
        found.update({name: decided if _is_label(plain.get(name)) else own for name in node.node.output})
    return found


def _is_label(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not is_float(value.dtype)


def _marks_of(node: WideNode, plain: Mapping[str, Any], marks: Mapping[str, Bound]) -> Bound:
    """Return the elements of a node's outputs that do not count, from the marks of its inputs."""
    traits, read = node.traits, node.read
    again = traits_of(node.node).iteration is not None  # repeated additions are a sum
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
            or (marks[name].undecided and plain[name] is None)  # the effect of infinities is unknown
            for name in read
        )
        or ((Trait.NORMALIZES in traits or _bare(node)) and _without_spread(node, plain))
        or (Trait.SAMPLES in traits and any(has(plain[name], infinite) for name in read))
        or _overflows_inside(node, plain, huge),
        wild=any(marks[name].wild or (sums and has(plain[name], infinite)) for name in read) or divided,
        undecided=any(marks[name].undecided for name in read)
        or (sums and Trait.NORMALIZES not in traits and any(has(plain[name], infinity) for name in read)),
        unsigned=loses_signs(node.node) or any(marks[name].unsigned for name in read),
        lost=any(
            marks[name].lost
            or (Trait.SQUARES in traits and has(plain[name], square))
            or (Trait.PRODUCTS in traits and _multiplies_beyond(node, plain, name))
            for name in read
        )
        or _overflows_inside(node, plain, _at_the_end),
    )


def _overflows_inside(
    node: WideNode, plain: Mapping[str, Any], what: Callable[[Array, float], npt.NDArray[np.bool_]]
) -> bool:
    """Return whether a node whose intermediate results may overflow, and decide later ones, has numbers of a kind."""
    if not any(traits_of(inner).overflows_inside for inner in node.computing):
        return False
    return any(has(plain[name], what) for name in (*node.read, *node.made))


def _square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers whose square overflows; those of float16 do not in float, if kernels add them there."""
    return huge(wide, max(largest, float(np.finfo(np.float32).max)))


def _bare_square(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers whose square overflows, or underflows if nothing is added to it."""
    least = float(np.finfo(np.float32).tiny) ** 0.5
    return np.asarray(_square(wide, largest) | ((wide != 0) & (np.abs(wide) < least)))


def _multiplies_beyond(node: WideNode, plain: Mapping[str, Any], name: str) -> bool:
    """Return whether a product of the numbers above one overflows, or of those below one underflows.

    The order then decides the result with the other factors: an infinity, a number with fewer digits, or a zero.
    """

    def beyond(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
        axes = reduced_axes(node.node, [plain.get(one) for one in node.node.input], wide.ndim)
        finite = np.where((wide != 0) & np.isfinite(wide), np.abs(wide), 1.0)
        powers, end = np.log2(finite), np.log2(largest)
        return np.asarray((powers.clip(min=0).sum(axes) > end - 1) | (powers.clip(max=0).sum(axes) < 1 - end))

    return has(plain[name], beyond)


def _bare(node: WideNode) -> bool:
    """Return whether a normalization adds an epsilon of 0, which leads to 0 / 0 if squares underflow."""
    return any(one.name == "epsilon" and one.f == 0 for inner in node.computing for one in inner.attribute)


def _near_the_end(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers whose sum overflows."""
    return np.asarray(np.isfinite(wide) & (np.abs(wide) > largest / 8))


def _at_the_end(wide: Array, largest: float) -> npt.NDArray[np.bool_]:
    """Return the numbers that are not finite, or whose sum overflows: some kernels clip them to the largest number."""
    return infinite(wide, largest) | _near_the_end(wide, largest)


def _without_spread(node: WideNode, plain: Mapping[str, Any]) -> bool:
    """Return whether a node returns NaN or an infinity for finite floats: the spread of a row is 0, or underflows."""
    finite = not any(has(plain[name], infinite) for name in node.read)
    return finite and any(has(plain[name], infinite) for name in node.made)


@dataclass(frozen=True)
class Overflow:
    """The elements of a value that may overflow if the arithmetic is done in another order.

    Attributes:
        places: these elements.
        either: those that may be either infinity, or NaN: large numbers of both signs are added there.
    """

    places: npt.NDArray[np.bool_]
    either: npt.NDArray[np.bool_]


def overflowing(
    nodes: Iterable[WideNode], plain: Mapping[str, Any], marks: Mapping[str, Bound], firm: Mapping[str, Firm]
) -> Mapping[str, Overflow]:
    """Return the elements of values that may overflow if the arithmetic is done in another order.

    These are elementwise results of large numbers, and all results of a sum with a large number. Values that every
    kernel computes alike do not overflow: a mask of the least float does not affect its neighbours.
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
    """Return the elements of a result that depend on marked ones: all of them if the shapes do not show it."""
    marked = np.zeros(shape, np.bool_)
    for mask in masks:
        try:
            marked |= mask if mask.shape == shape else np.broadcast_to(mask, shape)
        except (ValueError, RuntimeError):  # another shape, or more axes than numpy broadcasts
            marked |= bool(mask.any())
    return marked


def where_finite(found: Any, value: Any, plain: Any) -> Any:
    """Return a value's elements that are finite, or no floats; for other elements, those of another value."""
    arrays = isinstance(found, np.ndarray) and isinstance(value, np.ndarray) and found.shape == value.shape
    if not arrays or not isinstance(plain, np.ndarray):
        return value
    if found.dtype.kind != "f" or not is_float(plain.dtype):
        return found if plain.dtype.kind in "biu" else value
    return np.where(np.isfinite(found), found, value)


def not_finite(value: Array, plain: Array, turn: int, either: npt.NDArray[np.bool_]) -> Array:
    """Return the values in a perturbed run of elements that may overflow.

    A large number becomes the nearest infinity, unless it may be `either`.
    """
    large = is_large(plain, Trait.ADDS) & np.isfinite(value) & ~either
    return np.where(large, np.copysign(np.inf, value), value.dtype.type(_NOT_FINITE[turn])).astype(value.dtype)


_NOT_FINITE = (np.nan, np.inf, -np.inf, np.nan)
"""The replacements, in the perturbed runs, for a non-finite element that a sum of infinities may decide."""
