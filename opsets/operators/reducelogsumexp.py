"""ReduceLogSumExp: the logarithm of the sum of exponentials over some axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper

from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import Reduction, in_float_or_double, reduction
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _log_sum_exp(data: Array, **options: Any) -> Array:
    wide = data.astype(np.float64)
    greatest = np.max(wide, initial=-np.inf, axis=options["axis"], keepdims=True)
    shift = np.where(np.isfinite(greatest), greatest, 0)
    total = np.log(np.sum(np.exp(wide - shift), **options))
    result: Array = total + np.reshape(shift, np.shape(total))
    return result


def _limits(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    bound = in_float_or_double(what, operands)
    most = np.finfo(helper.tensor_dtype_to_np_dtype(bound["within"])).max
    return {**bound, "least": Tensor(np.array(-most)), "most": Tensor(np.array(most))}


@lowering(18, applies_if=dtype_known, bind=_limits, rounds=True)
def shifted(data, axes, keepdims: int, noop: int, within: int, to: int, least: float, most: float):
    """Subtract the greatest element first, so that no exponential is above 1, and not all are 0.

    Where it is infinite the greatest finite number stands for it: an infinity less itself would be no number.
    """
    wide = op.Cast(data, to=within)
    greatest = op.ReduceMax(wide, axes, keepdims=1, noop_with_empty_axes=noop)
    shift = op.Clip(greatest, least, most)
    powers = op.Exp(wide - shift)
    total = op.ReduceSum(powers, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    # Of one element the sum is that element, so that the shift loses the axes that the total has lost.
    return op.Cast(op.Log(total) + op.ReduceSum(shift, axes, keepdims=keepdims, noop_with_empty_axes=noop), to=to)


OPERATOR = reduction(
    "ReduceLogSumExp",
    (1, 11, 13, 18, 28),
    _log_sum_exp,
    (shifted,),
    body_unused="exponentials overflow where their logarithm does not",
    traits=Traits(
        merges=reduced,
        floats=(Trait.SUMS, Trait.WEIGHS),
        integers=Integers.EXPONENTIALS,
        inner_sum=InnerSum(SumUse.LOGARITHM),
    ),
)
