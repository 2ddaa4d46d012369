"""Einsum and ReverseSequence: every kind of term; sequences along both axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import F16, F32, F64, Array, Case, Code, Refused, Table, arr, text
from opshift.opsets.operators import einsum, reversesequence
from opshift.opsets.operators.einsum import Einsum
from opshift.opsets.operators.reversesequence import ReverseSequence

SIZES = {"b": 2, "i": 3, "j": 4, "k": 5, "l": 2, "m": 3, "A": 2, "Z": 3}


def case(equation: str, dtype: Any = F32, extra: tuple[int, ...] = (), **more: Any) -> Case:
    """Arrays of small whole numbers, which sum up exactly; `extra` is what an ellipsis stands for.

    None is zero: numpy starts a sum at 0.0, which makes 0.0 of -0.0.
    """
    rng = np.random.default_rng(3)
    arrays: list[Array] = []
    for term in equation.replace(" ", "").partition("->")[0].split(","):
        front, dots, back = term.partition("...")
        shape = [SIZES[name] for name in front] + [*extra] * bool(dots) + [SIZES[name] for name in back]
        arrays.append(rng.choice([-4, -3, -2, -1, 1, 2, 3, 4], shape).astype(dtype))
    return Case(f"{equation} {np.dtype(dtype).name} {extra}", arrays, Einsum(equation), **more)


class TestEinsum(Table):
    operator = einsum.OPERATOR
    cases = (
        *(
            case(equation, symbolic=7)
            for equation in (
                "ij->ij",
                "ij->ji",
                "ij",
                "ji",
                "ij->i",
                "ij->",
                "bij->jb",
                "ii->i",
                "ii->",
                "ii",
                "biji->jb",
                "iii->i",
                "i,i->",
                "i,i",
                "i,j->ij",
                " i , j -> i j ",
                "i,i->i",
                "ij,ji->ji",
                "ij,jk->ik",
                "ij,jk",
                "ij,kj->ki",
                "bij,bjk->bik",
                "bij,bkj->ikb",
                "bij,ij->b",
                "bijk,lj->bilk",
                "bij,bjkl->likb",
                "ij,kl->",
                "ijm,jk->ik",
                "iij,jk->ik",
                "ij,jk,kl->il",
                "i,j,k->kji",
                "ij,ij,ij->j",
                "Zi,iA->ZA",
                "Zi,iA",
            )
        ),
        *(
            case(equation, extra=extra)
            for equation in ("...ii->...i", "...ij->...ji", "...ij,...jk->...ik", "...i,...i->...", "i...->...")
            for extra in ((), (2,), (2, 3))
        ),
        case("...ij,...jk", extra=(2,)),
        case("ij,jk->ik", F64),
        case("bij->b", F64),
        case("ij,jk->ik", np.int32, least=9, symbolic=9),
        case("ij,jk->ik", np.int64, least=9, symbolic=9),
        case("i,j->ij", np.int64),
        Case("nothing inside", [np.zeros((2, 0), F32), np.zeros((0, 3), F32)], Einsum("ij,jk->ik")),
        Case("no rows", [np.zeros((0, 2), F32), np.ones((2, 3), F32)], Einsum("ij,jk->ik")),
    )
    refusals = (
        Refused(
            '<ir_version: 8, opset_import: ["": 12]> g (float[2,3] x, float[3,2] y) => (float[2,2] z) '
            '{ z = Einsum <equation = "ij,jk,kl,lm->im"> (x, y, x, y) }',
            Code.ABSENT_OPERATOR,
            "it has 4 operands",
            {"opset": 11},
        ),
        Refused(
            '<ir_version: 8, opset_import: ["": 12]> g (float[a,b] x, int64[n] s) => (float[c,d] z) '
            '{ y = Reshape (x, s) z = Einsum <equation = "...ij->...ji"> (y) }',
            Code.MISSING_FACT,
            "the rank is unknown",
            {"opset": 11},
        ),
        Refused(
            '<ir_version: 8, opset_import: ["": 12]> g (int64[2,3] x) => (int64[2] z) '
            '{ z = Einsum <equation = "ij->i"> (x) }',
            Code.ABSENT_OPERATOR,
            "not known to be of floats",
            {"opset": 11},
        ),
    )


CUBE = np.arange(24, dtype=F32).reshape(4, 3, 2)
BATCH_FIRST = ReverseSequence(0, 1)


class TestReverseSequence(Table):
    operator = reversesequence.OPERATOR
    cases = (
        Case("time first", [CUBE, np.array([4, 1, 2])]),
        Case("batch first", [CUBE, np.array([3, 1, 2, 1])], BATCH_FIRST),
        Case("known lengths", [CUBE, np.array([4, 3, 2])], known=(1,)),
        Case("a matrix", [CUBE[..., 0], np.array([2, 4, 3])]),
        *(Case(np.dtype(kind).name, [CUBE.astype(kind), np.array([2, 4, 3])]) for kind in (F16, F64, np.int64, bool)),
        Case("strings", [text("a", "b", "c", "d").reshape(2, 2), np.array([2, 1])]),
        Case("nothing else", [arr(np.zeros((4, 3, 0))), np.array([2, 4, 3])]),
    )
