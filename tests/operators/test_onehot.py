"""OneHot: indices that wrap, point nowhere or are not whole; every element type; depth of every form."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Table, arr, text
from opshift.opsets.operators import onehot
from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.registry.operator import Lifted

INDICES = np.array([[0, 2, 4], [-1, -5, 5]], np.int64)
FAR = np.array([2**31, 2**32 - 1, 2**33 + 2**31, 2**53 + 1, -(2**63), 2**63 - 1, 3, -5, -6, 5], np.int64)
NEAR_AND_FAR: dict[str, Array] = {"near": INDICES, "far": FAR, "int32": INDICES.astype(np.int32)}
HALVES = arr([0.5, 1, -0.5, -1, 1.5, 2.9999998, 4, 5, -5, -5.5, INF, -INF, 1e30])
MASK = np.array([False, True])
FIVE = np.array(5, np.int64)
BESIDE = np.array([-1 + 2**-24, -1 + 2**-53, -5 + 2**-21, -0.5, -1, 4, -5])
"""Beside whole numbers, some of them where a sum with depth rounds to a whole number, and others."""
BORDERS = (127, 128, 2**15 - 1, 2**15)


def case(
    name: str,
    indices: Array = INDICES,
    depth: Array = FIVE,
    values: Any = None,
    *,
    axis: int = -1,
    negative: str = "wrap",
    fraction: str = "truncate",
    **more: Any,
) -> Case:
    """A case of three operands; off and on are 2 and 5 unless given."""
    off_on = arr([2, 5]) if values is None else values
    return Case(name, [indices, depth, off_on], OneHot(axis, negative, fraction), **more)


INDEX_TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, F16, F32, F64)
VALUE_TYPES = (
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    F16,
    F32,
    F64,
    np.bool_,
)


def indices_of(dtype: Any) -> Array:
    """Indices that the type can hold, some out of range."""
    unsigned = np.dtype(dtype).kind == "u"
    return np.array([0, 2, 4, 5, 9, np.iinfo(dtype).max] if unsigned else [0, 2, 4, 5, -1, -5, -6], dtype)


NOT_FINITE = np.array([0.0, -0.0, 2, 4, 5, -1, -5, -6, 2**30, -(2**30), 1e30, -1e30, INF, -INF, NAN])
WHOLE: dict[Any, Array] = {F32: INDICES.astype(F32), F64: FAR.astype(F64)}
COMPARABLE: tuple[Array, ...] = (INDICES, INDICES.astype(np.int32), FAR, *WHOLE.values())
"""Indices that are compared with positions as they are."""


class TestOneHot(Table):
    operator = onehot.OPERATOR
    cases = (
        *(case(f"axis {axis}", axis=axis) for axis in (0, 1, 2, -1, -2, -3)),
        *(case(f"axis {axis}, known depth", axis=axis, known=(1,)) for axis in (0, 2, -1, -3)),
        *(case(f"axis {axis}, all known but indices", axis=axis, known=(1, 2)) for axis in (0, 2, -1, -3)),
        *(
            case(f"{negative} {what}", indices, negative=negative)
            for negative in ("wrap", "off", "only")
            for what, indices in NEAR_AND_FAR.items()
        ),
        *(
            case(f"{negative} whole {dtype.__name__}", indices.astype(dtype), negative=negative, fraction="whole")
            for negative in ("wrap", "off", "only")
            for dtype, indices in {F32: NOT_FINITE, F64: np.concatenate([NOT_FINITE, FAR.astype(F64)])}.items()
        ),
        *(
            case(f"{dtype.__name__} beside whole numbers, {of}", BESIDE.astype(dtype), values=values, known=(1, 2))
            for dtype in (F32, F64)
            for of, values in (("a mask", MASK), ("zero and one", arr([0, 1])), ("any", arr([2, 5])))
        ),
        *(
            case(
                f"depth {depth}, {negative}",
                at.astype(dtype),
                np.array(depth),
                values,
                known=(1, 2),
                negative=negative,
                fraction=fraction,
            )
            for depth in BORDERS
            for at in (np.array([0, 1, depth - 1, depth, depth + 1, -1, -depth, -depth - 1, 2**15, 2**16, -(2**16)]),)
            for dtype, values, negative, fraction in (
                (np.int64, arr([0, 1]), "wrap", "truncate"),
                (F32, MASK, "off", "absent"),
            )
        ),
        case("no negative index", np.array([0, 4, 5], np.int64), negative="absent"),
        case("scalar depth in a vector", depth=np.array([5], np.int64)),
        case("no indices", np.zeros((0, 2), np.int64)),
        case("no indices, first axis", np.zeros((2, 0), np.int64), axis=0),
        case("depth 1", depth=np.array(1, np.int64)),
        case("float depth", depth=arr(5.0)),
        case("int32 depth", depth=np.array(5, np.int32)),
        *(case(f"{np.dtype(dtype)} indices", indices_of(dtype)) for dtype in INDEX_TYPES),
        *(case(f"{np.dtype(dtype)} values", values=np.array([0, 1], dtype)) for dtype in VALUE_TYPES),
        *(
            case(f"{np.dtype(dtype)} values, known", values=np.array([0, 1], dtype), known=(2,))
            for dtype in VALUE_TYPES
        ),
        case("string values", values=text("off", "on")),
        case("string values, known", values=text("off", "on"), known=(2,)),
        case("bool values the other way, known", values=np.array([True, False]), known=(2,)),
        *(
            case(
                f"mask, {axis} {indices.dtype} {negative}",
                indices,
                values=MASK,
                known=(1, 2) if negative == "only" else (2,),
                axis=axis,
                negative=negative,
            )
            for axis, indices, negative in itertools.product(
                (0, -1, 1, -2), (INDICES, HALVES, HALVES.astype(F64)), ("wrap", "off", "only", "absent")
            )
            if negative != "absent" or (indices >= 0).all()
        ),
        *(
            case(
                f"mask of a known depth, {axis} {indices.dtype} {indices.ndim} axes {fraction}",
                indices,
                values=MASK,
                known=(1, 2),
                axis=axis,
                fraction=fraction,
            )
            for axis in (0, -1, 1, -2)
            for indices in COMPARABLE
            for fraction in ("absent" if indices.dtype.kind == "f" else "truncate",)
        ),
        *(
            case(
                f"whole {dtype.__name__}, {negative}, axis {axis}",
                whole,
                values=arr([0, 1]),
                known=(1, 2),
                axis=axis,
                negative=negative,
                fraction="absent",
            )
            for dtype, whole in WHOLE.items()
            for axis, negative in ((-1, "wrap"), (0, "off"), (-2, "only"))
        ),
        *(
            case(f"{what}, known", values=values, known=(1, 2))
            for what, values in {
                "2 and 5": arr([2, 5]),
                "int8 that wraps": np.array([-128, 127], np.int8),
                "far apart": arr([1e30, 1]),
                "too far apart": arr([-3e38, 3e38]),
                "zero and -0.0": arr([0, -0.0]),
                "infinities": arr([0, INF]),
                "half": arr([0.1, 1000], F16),
            }.items()
        ),
        case("-0.0 and NaN", values=arr([-0.0, NAN])),
        case("-0.0 and NaN, known", values=arr([-0.0, NAN]), known=(2,)),
        case("infinities", values=arr([INF, -INF])),
        case("the same value twice", values=arr([3, 3])),
        case("bfloat16 values", values=np.array([2, 5], BF16), least=13),
        case("bfloat16 values, known", values=np.array([0, 1], BF16), known=(2,), least=13),
        *(case(f"fractions, {np.dtype(dtype)}", HALVES.astype(dtype)) for dtype in (F32, F64)),
        *(case(f"fractions, {np.dtype(dtype)}, known depth", HALVES.astype(dtype), known=(1,)) for dtype in (F32, F64)),
        case("fractions, depth of their type", HALVES, arr(5)),
        *(case(f"whole {dtype.__name__}, known depth", INDICES.astype(dtype), known=(1,)) for dtype in (F32, F64)),
        case("fractions, half", HALVES[:-1].astype(F16)),
        case("fractions, half, known depth", HALVES[:-1].astype(F16), known=(1,)),
        case("fractions, negative off", HALVES, negative="off"),
        case("NaN indices", arr([NAN, 1])),
        case("NaN indices, known depth", arr([NAN, 1]), known=(1,)),
        *(
            case(f"double {off} and {on}, known", values=np.array([off, on]), known=(2,))
            for off, on in ((5e-324, 1 - 2.0**-52), (1e-300, 3.0), (1 + 1e-10, 2 + 1e-10), (3.0, 1e300))
        ),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # That there are no negative indices is known of a node's inputs; no version says it.
        if whole.meaning.fraction != "truncate":
            back = dataclasses.replace(back, meaning=dataclasses.replace(back.meaning, fraction=whole.meaning.fraction))
        if whole.meaning.negative == "absent":
            back = dataclasses.replace(back, meaning=dataclasses.replace(back.meaning, negative="absent"))
        return super().lifts_to(back, whole)
