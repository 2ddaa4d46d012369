"""Define the Reduce operators: axes as an attribute, then (13 for ReduceSum, 18 for the others) as an input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import axes_operand, first, operand_not_negative, rank_known
from opshift.opsets.families.reduction_steps import MOVED, one_by_one
from opshift.opsets.registry.facts import INTEGERS, Facts
from opshift.opsets.registry.lowering import Lowering, Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import SELECTED, SUMMED


@dataclass(frozen=True)
class Reduction:
    """Whether reduced axes are kept with length 1, and whether empty `axes` reduce no axis instead of all."""

    keepdims: int = 1
    noop_with_empty_axes: int = 0


_resolved = axes_operand(1)


def _normal(what: Reduction, operands: Operands) -> tuple[Reduction, Operands]:
    """Count axes from the front if the rank is known; if there are axes, drop the meaning of empty ones."""
    axes = operands[1]
    if axes is not None and axes.size == 0:
        operands = (operands[0], None)
    elif axes is not None and axes.size is not None:
        what = Reduction(what.keepdims)
    return _resolved(what, operands)


def _noop(what: Reduction, operands: Operands) -> Reason | None:
    return None if what.noop_with_empty_axes and operands[1] is None else Reason("there are axes to reduce, or may be")


def _no_axis(what: Reduction, operands: Operands) -> Reason | None:
    scalar = first(operands).rank == 0 and operands[1] is None
    return None if scalar else _noop(what, operands)


@lowering(18, applies_if=_no_axis)
def left_alone(data, axes):
    """Return the input unchanged, including -0.0: it "performs the Identity op" (ReduceSum-13)."""
    return op.Identity(data)


@lowering(18, applies_if=_noop)
def along_a_new_axis(data, axes):
    """Reduce along a new axis of length 1, which applies only the elementwise part: ReduceL1 is then Abs."""
    return meaning.Itself(op.Unsqueeze(data, [0]), [0], keepdims=0)


def _computed(what: Reduction, operands: Operands) -> Reason | None:
    if operands[1] is None or operands[1].known is not None:
        return Reason("the axes are known")
    if reason := rank_known(what, operands):
        return reason
    return None if first(operands).rank else Reason("a scalar has no axes")


def _pairs(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    dims = first(operands).shape or ()
    places = tuple(range(len(dims)))
    count = operands[1].size if operands[1] else None
    return {
        "places": places,
        "rank": (len(dims),),
        "inner": tuple(2 * place + 1 for place in places),
        "left": (-1 if count is None else len(dims) - count,),
        "noop": what.noop_with_empty_axes,
        "everything": (1 - what.noop_with_empty_axes,),
        "allowzero": 0 if all(isinstance(dim, int) and dim for dim in dims) else 1,
    }


def _kept(what: Reduction, operands: Operands) -> Reason | None:
    return _computed(what, operands) if what.keepdims else Reason("reduced axes go")


def _gone(what: Reduction, operands: Operands) -> Reason | None:
    return Reason("reduced axes stay") if what.keepdims else _computed(what, operands)


@lowering(18, applies_if=_kept, bind=_pairs, cost=10)
def apart(
    data,
    axes,
    places: Sequence[int],
    rank: Sequence[int],
    inner: Sequence[int],
    everything: Sequence[int],
    allowzero: int,
):
    """Split each axis into two and reduce the second; for each axis, one of the two has length 1."""
    resolved = axes + op.Cast(op.Less(axes, 0), to=7) * rank
    met = op.Cast(op.Equal(op.Unsqueeze(places, [1]), op.Unsqueeze(resolved, [0])), to=7)
    none = op.Cast(op.Equal(op.Size(axes), 0), to=7) * everything
    inside = op.Cast(op.Cast(op.ReduceSum(met, [1], keepdims=0) + none, to=9), to=7)
    outside = 1 - inside
    dims = op.Shape(data)
    outer = op.Unsqueeze(dims * outside + inside, [1])
    pairs = op.Concat(outer, op.Unsqueeze(dims * inside + outside, [1]), axis=1)
    return meaning.Itself(op.Reshape(data, op.Reshape(pairs, [-1]), allowzero=allowzero), inner, keepdims=0)


@lowering(18, applies_if=_gone, bind=_pairs, cost=10)
def squeezed(
    data,
    axes,
    places: Sequence[int],
    rank: Sequence[int],
    left: Sequence[int],
    noop: int,
    everything: Sequence[int],
    allowzero: int,
):
    """Keep the reduced axes, and drop them by Reshape."""
    resolved = axes + op.Cast(op.Less(axes, 0), to=7) * rank
    met = op.Cast(op.Equal(op.Unsqueeze(places, [1]), op.Unsqueeze(resolved, [0])), to=7)
    none = op.Cast(op.Equal(op.Size(axes), 0), to=7) * everything
    chosen = op.Cast(op.ReduceSum(met, [1], keepdims=0) + none, to=9)
    # Reshape to a constant length keeps the rank known, if the number of axes is known. The casts separate it from the
    # last Reshape, because the optimizer of onnxruntime 1.31.1 merges two in a row.
    dims = op.Compress(op.Cast(op.Shape(data), to=11), op.Not(chosen), axis=0)
    kept = op.Cast(op.Reshape(dims, left), to=7)
    y = meaning.Itself(data, axes, keepdims=1, noop_with_empty_axes=noop)
    return op.Reshape(y, kept, allowzero=allowzero)


def _booleans(what: Reduction, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype == TensorProto.BOOL else Reason("the data is not bool", missing=dtype is None)


@lowering(18, applies_if=_booleans)
def in_integers(data, axes):
    """Reduce zeros and ones; without elements, compare the least or the greatest integer with zero."""
    return op.Greater(meaning.Same(op.Cast(data, to=6), axes), 0)


def _one(what: Reduction, operands: Operands) -> bool:
    """Return whether each reduced axis has one element, and the elements stay unchanged."""
    data, axes = operands[0] or Facts(), operands[1]
    if not what.keepdims or data.shape is None or axes is None or axes.known is None:
        return False
    return all(data.dim(int(axis)) == 1 for axis in axes.known.flat)


def _single(what: Reduction, operands: Operands) -> Reason | None:
    gone = not what.keepdims and _one(Reduction(), operands)
    return None if gone else Reason("it is not over axes of length 1, which go")


@lowering(18, applies_if=_single)
def of_one(data, axes):
    """Drop axes of length 1."""
    return op.Squeeze(data, axes)


_LEAVE_ONE_ALONE = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
"""Operators that return a single element unchanged."""


def in_float(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    """Bind the computation type of floats, as in onnxruntime's kernels: squares of float16 overflow."""
    dtype = first(operands).dtype
    within = TensorProto.FLOAT if dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else dtype
    return {"keepdims": what.keepdims, "noop": what.noop_with_empty_axes, "within": within, "to": dtype}


def in_float_or_double(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    """Bind the same for functions without integer kernels: integers are computed in double."""
    bound = in_float(what, operands)
    return {**bound, "within": TensorProto.DOUBLE} if bound["to"] in INTEGERS else bound


def reduction(
    name: str,
    versions: tuple[int, ...],
    function: Callable[..., Any],
    lowerings: tuple[Lowering, ...] = (),
    *,
    in_any_order: bool = False,
    nests: bool = True,
    body_unused: str = "",
    traits: Traits | None = None,
) -> Operator:
    """Return the operator that reduces with a numpy function, called with `axis` and `keepdims`.

    `in_any_order`: the order of floats does not matter, as it does for a sum. `nests`: reducing some axes and then the
    others gives the same result, unlike for a sum of squares.
    """

    def oracle(meaning: Reduction, data: np.ndarray[Any, Any], axes: np.ndarray[Any, Any] | None = None) -> Any:
        if axes is None or not axes.size:
            # ReduceSum-13: "performs the Identity op"; ReduceL1-18 and the like still apply their elementwise part.
            axes = np.arange(0 if meaning.noop_with_empty_axes else data.ndim)
        return function(data, axis=tuple(int(axis) for axis in axes), keepdims=bool(meaning.keepdims)).astype(
            data.dtype
        )

    return Operator(
        name=name,
        meaning=Reduction,
        # ReduceMax-1 gives no range for its axes; ReduceMax-11: "Accepted range is [-r, r-1] where r = rank(data)".
        versions=tuple(
            Version(since, applies_if=operand_not_negative(1) if since < 11 else None) for since in versions
        ),
        operands=("data", "axes"),
        oracle=oracle,
        normal=_normal,
        idle=lambda what, operands: (
            name in _LEAVE_ONE_ALONE and (_noop(what, operands) is None or _one(what, operands))
        ),
        # For an input of another shape, kernels use another order of elements.
        lowerings=(
            dataclasses.replace(apart, rounds=not in_any_order),
            squeezed,
            *lowerings,
            left_alone if name in _LEAVE_ONE_ALONE else along_a_new_axis,
            *((in_integers, of_one) if in_any_order else ()),
            *(dataclasses.replace(one, rounds=not in_any_order) for one in ((one_by_one,) * nests + MOVED)),
        ),
        wider_types=SELECTED if in_any_order else SUMMED,
        # onnxruntime 1.32.0: the maximum of [0, NaN, 0, 1] is 0 or 1, depending on the axis's memory layout. The
        # specification does not define it.
        nan_defined=lambda what, operands: not in_any_order,
        body_unused=body_unused,
        traits=traits,
    )
