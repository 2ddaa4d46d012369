"""Einsum: sums of products over named dimensions, as an equation tells. Versions 12 and 28."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import FLOATS
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Einsum:
    """A term of dimension characters for each operand, and one for the output."""

    equation: str = ""


def oracle(what: Einsum, *arrays: np.ndarray[Any, Any]) -> Any:
    """Einsum-12: "output[output-term] = reduce-sum( input1[term1] * input2[term2] )".

    numpy repeats an axis of size 1, of which the text says nothing.
    """
    sizes: dict[str, int] = {}
    for term, array in zip(what.equation.replace(" ", "").partition("->")[0].split(","), arrays, strict=True):
        front, _, behind = term.partition("...")
        letters = (*zip(front, array.shape, strict=False), *zip(behind[::-1], array.shape[::-1], strict=False))
        if any(sizes.setdefault(letter, size) != size for letter, size in letters):
            raise ValueError(f"Einsum-12: a letter of {what.equation} has two sizes")
    return np.asarray(np.einsum(what.equation.replace(" ", ""), *arrays)).astype(arrays[0].dtype)


@dataclass(frozen=True)
class Terms:
    """An equation whose ellipses are spelled out: the dimensions of each operand, and those of the output."""

    inputs: tuple[str, ...]
    output: str

    @property
    def equation(self) -> str:
        """The equation, as the attribute has it."""
        return f"{','.join(self.inputs)}->{self.output}"


def _explicit(equation: str) -> str:
    """Tell the output: "indices appearing exactly once in the equation", behind the ellipsis if there is one."""
    bare = equation.replace(" ", "")
    if "->" in bare:
        return bare
    counts = Counter(bare.replace(".", "").replace(",", ""))
    return f"{bare}->{'...' * ('...' in bare)}{''.join(sorted(name for name, count in counts.items() if count == 1))}"


def terms(what: Einsum, operands: Operands) -> Terms | None:
    """Read the equation; None where an ellipsis stands for a number of dimensions that is not known."""
    left, _, output = what.equation.partition("->")
    inputs = left.split(",")
    if "..." not in what.equation:
        return Terms(tuple(inputs), output)
    counts = {
        facts.rank - len(term) + 3
        for term, facts in zip(inputs, operands, strict=False)
        if "..." in term and facts is not None and facts.rank is not None
    }
    if len(counts) != 1:
        return None
    free = [name for name in string.ascii_letters if name not in what.equation]
    rest = "".join(free[: counts.pop()])
    return Terms(tuple(term.replace("...", rest) for term in inputs), output.replace("...", rest))


def normal(what: Einsum, operands: Operands) -> tuple[Einsum, Operands]:
    """Tell the output, and spell out an ellipsis whose number of dimensions is known."""
    explicit = Einsum(_explicit(what.equation))
    found = terms(explicit, operands)
    return explicit if found is None else Einsum(found.equation), operands


def _copies(what: Einsum, operands: Operands) -> bool:
    inputs, _, output = what.equation.partition("->")
    return inputs == output


def _terms(what: Einsum, operands: Operands, count: int) -> Terms | Reason:
    """Return the terms of so many operands, none of which is stretched but by an ellipsis."""
    found = terms(what, operands)
    if found is None:
        return Reason("the rank is unknown", missing=True)
    if len(operands) != count or len(found.inputs) != count:
        return Reason(f"it has {len(operands)} operands, not {count}")
    if found.inputs and "." in what.equation:
        return Reason("the rank is unknown", missing=True)
    sizes: dict[str, set[Any]] = {}
    for term, facts in zip(found.inputs, operands, strict=True):
        for name, dim in zip(term, (facts.shape if facts else None) or (), strict=False):
            sizes.setdefault(name, set()).add(dim)
    stretched = any(1 in dims and len(dims) > 1 for dims in sizes.values())
    return Reason("a dimension of 1 may be stretched") if stretched else found


# --- one operand ------------------------------------------------------------------------------------------------------


def _diagonal(what: Einsum, operands: Operands) -> Reason | None:
    found = _terms(what, operands, 1)
    if isinstance(found, Reason):
        return found
    return None if _twice(found.inputs[0]) else Reason("no dimension is repeated")


def _twice(term: str) -> str:
    """Return the first dimension that a term has more than once; nothing if there is none."""
    return next((name for name in term if term.count(name) > 1), "")


def _last_two(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _terms(what, operands, 1)
    assert isinstance(found, Terms)
    (term,) = found.inputs
    name = _twice(term)
    pair = [axis for axis, one in enumerate(term) if one == name][:2]
    others = [axis for axis in range(len(term)) if axis not in pair]
    left = "".join(term[axis] for axis in others) + name
    return {"perm": (*others, *pair), "outer": (len(others),), "equation": f"{left}->{found.output}"}


@lowering(18, applies_if=_diagonal, bind=_last_two)
def diagonal(x, perm: Sequence[int], outer: Sequence[int], equation: str):
    """Merge two dimensions of one name into a row, and select every (n + 1)th element: the diagonal."""
    moved = op.Transpose(x, perm=perm)
    shape = op.Shape(moved)
    count = op.Slice(shape, [-1], [2147483647])
    row = op.Reshape(moved, op.Concat(op.Slice(shape, [0], outer), count * count, axis=0), allowzero=1)
    index = op.Range(0, op.Squeeze(count, [0]), 1) * (count + 1)
    return meaning.Itself(op.Gather(row, index, axis=-1), equation=equation)


def _summed(what: Einsum, operands: Operands) -> Reason | None:
    found = _terms(what, operands, 1)
    if isinstance(found, Reason):
        return found
    if _twice(found.inputs[0]):
        return Reason("a dimension is repeated")
    gone = set(found.inputs[0]) - set(found.output)
    dtype = operands[0].dtype if operands[0] else None
    # ReduceSum of onnxruntime 1.31.1 takes integers as doubles.
    return Reason("the sums are not known to be of floats", dtype is None) if gone and dtype not in FLOATS else None


def _axes(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _terms(what, operands, 1)
    assert isinstance(found, Terms)
    (term,) = found.inputs
    kept = [name for name in term if name in found.output]
    return {
        "axes": tuple(axis for axis, name in enumerate(term) if name not in found.output),
        "perm": tuple(kept.index(name) for name in found.output),
    }


@lowering(18, applies_if=_summed, bind=_axes, rounds=True)
def summed(x, axes: Sequence[int], perm: Sequence[int]):
    """Sum over the dimensions that the output lacks, and transpose the others."""
    return op.Transpose(op.ReduceSum(x, axes, keepdims=0, noop_with_empty_axes=1), perm=perm)


# --- two operands -----------------------------------------------------------------------------------------------------


def _alone(found: Terms) -> tuple[str, ...]:
    """Return what each of two operands becomes by itself: no dimension twice, none that only it has and loses."""
    rest = (found.inputs[1] + found.output, found.inputs[0] + found.output)
    return tuple(
        "".join(dict.fromkeys(name for name in term if name in other))
        for term, other in zip(found.inputs, rest, strict=True)
    )


def _unprepared(what: Einsum, operands: Operands) -> Reason | None:
    found = _terms(what, operands, 2)
    if isinstance(found, Reason):
        return found
    return None if _alone(found) != found.inputs else Reason("neither operand is summed up by itself")


def _each(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _terms(what, operands, 2)
    assert isinstance(found, Terms)
    one, other = _alone(found)
    return {
        "first": f"{found.inputs[0]}->{one}",
        "second": f"{found.inputs[1]}->{other}",
        "both": f"{one},{other}->{found.output}",
    }


@lowering(18, applies_if=_unprepared, bind=_each, rounds=True)
def apart(x, y, first: str, second: str, both: str):
    """Sum each operand alone first, where possible."""
    return meaning.Itself(meaning.Itself(x, equation=first), meaning.Itself(y, equation=second), equation=both)


def _prepared(what: Einsum, operands: Operands) -> Terms | Reason:
    found = _terms(what, operands, 2)
    if isinstance(found, Reason):
        return found
    return found if _alone(found) == found.inputs else Reason("an operand is to be summed up by itself")


def _outer(what: Einsum, operands: Operands) -> Reason | None:
    found = _prepared(what, operands)
    if isinstance(found, Reason):
        return found
    return Reason("products are summed up") if set("".join(found.inputs)) - set(found.output) else None


def _aligned(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _prepared(what, operands)
    assert isinstance(found, Terms)
    bound: dict[str, Any] = {}
    for side, term in zip(("x", "y"), found.inputs, strict=True):
        order = [name for name in found.output if name in term]
        bound[f"perm_{side}"] = tuple(term.index(name) for name in order)
        bound[f"new_{side}"] = tuple(axis for axis, name in enumerate(found.output) if name not in term)
    return bound


# It rounds no product, but the sums of onnxruntime 1.31.1 begin with 0.0, and so have no -0.0.
@lowering(18, applies_if=_outer, bind=_aligned, rounds=True)
def multiplied(x, y, perm_x: Sequence[int], new_x: Sequence[int], perm_y: Sequence[int], new_y: Sequence[int]):
    """Transpose both to the order of the output, and multiply them."""
    one = op.Unsqueeze(op.Transpose(x, perm=perm_x), new_x)
    return one * op.Unsqueeze(op.Transpose(y, perm=perm_y), new_y)


def _contracted(what: Einsum, operands: Operands) -> Reason | None:
    found = _prepared(what, operands)
    if isinstance(found, Reason):
        return found
    return None if set("".join(found.inputs)) - set(found.output) else Reason("no products are summed up")


def _matrices(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _prepared(what, operands)
    assert isinstance(found, Terms)
    one, other = found.inputs
    batch = [name for name in found.output if name in one and name in other]
    rows = [name for name in one if name not in other]
    columns = [name for name in other if name not in one]
    inner = [name for name in one if name in other and name not in batch]
    made = [*batch, *rows, *columns]
    return {
        "perm_x": tuple(one.index(name) for name in [*batch, *rows, *inner]),
        "perm_y": tuple(other.index(name) for name in [*batch, *inner, *columns]),
        "outer": (len(batch),),
        "to_rows": (len(batch) + len(rows),),
        "to_inner": (len(batch) + len(inner),),
        "perm": tuple(made.index(name) for name in found.output),
    }


@lowering(18, applies_if=_contracted, bind=_matrices, rounds=True)
def by_matrices(
    x,
    y,
    perm_x: Sequence[int],
    perm_y: Sequence[int],
    outer: Sequence[int],
    to_rows: Sequence[int],
    to_inner: Sequence[int],
    perm: Sequence[int],
):
    """Multiply matrices: dimensions in both and the output are the batch; those of one operand are rows or columns."""
    one = op.Transpose(x, perm=perm_x)
    shape = op.Shape(one)
    batch = op.Slice(shape, [0], outer)
    rows = op.Slice(shape, outer, to_rows)
    inner = op.ReduceProd(op.Slice(shape, to_rows, [2147483647]), keepdims=1)
    left = op.Reshape(one, op.Concat(batch, op.ReduceProd(rows, keepdims=1), inner, axis=0), allowzero=1)
    other = op.Transpose(y, perm=perm_y)
    columns = op.Slice(op.Shape(other), to_inner, [2147483647])
    right = op.Reshape(other, op.Concat(batch, inner, op.ReduceProd(columns, keepdims=1), axis=0), allowzero=1)
    product = op.Reshape(op.MatMul(left, right), op.Concat(batch, rows, columns, axis=0), allowzero=1)
    return op.Transpose(product, perm=perm)


# --- three operands ---------------------------------------------------------------------------------------------------


def _three(what: Einsum, operands: Operands) -> Reason | None:
    found = _terms(what, operands, 3)
    return found if isinstance(found, Reason) else None


def _first_two(what: Einsum, operands: Operands) -> Mapping[str, Any]:
    found = _terms(what, operands, 3)
    assert isinstance(found, Terms)
    one, two, three = found.inputs
    between = "".join(dict.fromkeys(name for name in one + two if name in three + found.output))
    return {"first": f"{one},{two}->{between}", "second": f"{between},{three}->{found.output}"}


@lowering(18, applies_if=_three, bind=_first_two, rounds=True)
def two_by_two(x, y, z, first: str, second: str):
    """Combine two operands, then the third."""
    return meaning.Itself(meaning.Itself(x, y, equation=first), z, equation=second)


OPERATOR = Operator(
    name="Einsum",
    meaning=Einsum,
    versions=(Version(12), Version(28)),
    operands=(),
    variadic=True,
    oracle=oracle,
    normal=normal,
    idle=_copies,
    lowerings=(summed, diagonal, multiplied, by_matrices, apart, two_by_two),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS,), unchecked=True, factors=2, heavy=True),
)
