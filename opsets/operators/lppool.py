"""LpPool: the Lp norms of windows. ceil_mode and dilations came with 18; 22 ignores windows that start late."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.windows import (
    Pool,
    as_pads,
    below_22,
    nondefault_attributes,
    normal,
    overhangs,
    same_pads,
    spatial,
    unsupported_ceil_mode,
    windows,
)
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class LpPool(Pool):
    """The windows along each axis behind the first two, and the p of the norm."""

    p: float = 2


def oracle(what: LpPool, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LpPool-22: "computing the Lp norm on all values of a subset of the input tensor"; padding adds nothing.

    Powers overflow and underflow as in onnxruntime 1.32.0; those of halves are taken in float.
    """
    what, _ = normal(what, (None,))
    sizes = spatial(what, x)
    if what.auto_pad != "NOTSET":
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=same_pads(what, sizes))
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    y = np.abs(wide) ** wide.dtype.type(what.p)
    for axis, along in enumerate(windows(what, sizes), 2):
        y = along.summed(y, axis)
    return np.asarray((y ** (1 / what.p)).astype(x.dtype))


def _write(since: int, what: LpPool, operands: Operands) -> Mapping[str, Any] | Reason:
    if since < 18 and set(what.dilations) - {1}:
        return Reason("it has no dilations")
    if since < 18 and what.ceil_mode:
        return Reason("it has no ceil_mode")
    if not isinstance(what.p, int):
        return Reason("p is an integer")
    fields = {name: value for name, value in nondefault_attributes(what).items() if (name, value) != ("p", LpPool.p)}
    return unsupported_ceil_mode(what, operands, since >= 22) or fields


@lowering(18, applies_if=overhangs, bind=as_pads)
def by_pads(x, pads: Sequence[int]):
    """Pad for the windows that end behind the input."""
    return meaning.Same(x, pads=pads, ceil_mode=0)


def _averages(what: LpPool, operands: Operands) -> Reason | None:
    if what.ceil_mode:
        return Reason("it has ceil_mode")
    if reason := dtype_known(what, operands):
        return reason
    if what.auto_pad != "NOTSET":
        return Reason("it has auto_pad, and the size of the input is unknown", missing=True)
    return Reason("p is less than 1") if what.p < 1 else None


def _distances(what: LpPool, operands: Operands) -> Reason | None:
    return Reason("p is not 1") if what.p != 1 else _averages(what, operands)


def _lengths(what: LpPool, operands: Operands) -> Reason | None:
    return Reason("p is not 2") if what.p != 2 else _averages(what, operands)


def _count(what: LpPool, operands: Operands) -> Mapping[str, Any]:
    """Bind the windows, how many elements each has with its padding, and the type that powers are taken in."""
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    wide = np.float64 if within == TensorProto.DOUBLE else np.float32
    return {
        "kernel_shape": what.kernel_shape,
        "strides": what.strides,
        "pads": what.pads,
        "dilations": what.dilations,
        "count": Tensor(np.array(math.prod(what.kernel_shape), wide)),
        "within": within,
        "to": dtype,
    }


def _exponents(what: LpPool, operands: Operands) -> Mapping[str, Any]:
    bound = _count(what, operands)
    wide = bound["count"].array.dtype
    return {**bound, "p": Tensor(np.array(what.p, wide)), "root": Tensor(np.array(1 / what.p, wide))}


@lowering(18, applies_if=_distances, bind=_count, rounds=True)
def by_distances(
    x,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    count: Sequence[int],
    within: int,
    to: int,
):
    """Average absolute values, padding included, and multiply by their number."""
    average = meaning.AveragePool(
        op.Abs(op.Cast(x, to=within)),
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        dilations=dilations,
        count_include_pad=1,
    )
    return op.Cast(average * count, to=to)


@lowering(18, applies_if=_lengths, bind=_count, rounds=True)
def by_squares(
    x,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    count: Sequence[int],
    within: int,
    to: int,
):
    """Average squares, padding included; compute the root of their sum."""
    wide = op.Cast(x, to=within)
    average = meaning.AveragePool(
        wide * wide,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        dilations=dilations,
        count_include_pad=1,
    )
    return op.Cast(op.Sqrt(average * count), to=to)


@lowering(18, applies_if=_averages, bind=_exponents, rounds=True)
def by_powers(
    x,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    count: Sequence[int],
    within: int,
    to: int,
    p: Sequence[int],
    root: Sequence[int],
):
    """Average powers, padding included; compute the root of their sum."""
    average = meaning.AveragePool(
        op.Pow(op.Abs(op.Cast(x, to=within)), p),
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        dilations=dilations,
        count_include_pad=1,
    )
    return op.Cast(op.Pow(average * count, root), to=to)


def _first() -> Version:
    version = below_22(LpPool, 1, _write)
    lift = version.lift

    def lifted(attributes: Mapping[str, Any]) -> LpPool:
        # LpPool-1 has a float p; and of the kernel's shape, which may be left out, it has no default.
        assert lift
        what: LpPool = lift(attributes)
        return dataclasses.replace(what, p=int(what.p)) if float(what.p).is_integer() else what

    return dataclasses.replace(version, lift=lifted, spec=lifted)


OPERATOR = Operator(
    name="LpPool",
    meaning=LpPool,
    versions=(
        _first(),
        *(below_22(LpPool, since, _write) for since in (2, 11, 18)),
        Version(22, write=functools.partial(_write, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    fault=lambda what, operands: None if what.kernel_shape else "it has no kernel_shape",
    lowerings=(by_pads, by_distances, by_squares, by_powers),
    wider_types=COMPUTED,
    traits=Traits(miscounts=True, floats=(Trait.SUMS, Trait.WEIGHS)),
)
