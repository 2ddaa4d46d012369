"""Define operators without attributes whose versions differ only in element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, INTEGERS, Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Lowering, Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import Wider


@dataclass(frozen=True)
class Plain:
    """An operator without attributes."""


def one_shape(meaning: Plain, operands: Operands) -> Reason | None:
    """Sum-6, Max-6, Min-6: "All inputs and outputs must have the same shape and data type"; none is broadcast."""
    shapes = {facts.shape for facts in operands if facts is not None}
    one = next(iter(shapes), None)
    known = len(operands) == 1 or (len(shapes) == 1 and one is not None and None not in one)
    return None if known else Reason("the inputs are not known to have one shape, and it does not broadcast", True)


def more_than_two(meaning: Plain, operands: Operands) -> Reason | None:
    """Require at least three operands."""
    return None if len(operands) > 2 else Reason(f"there are {len(operands)} operands")


def of_two_shapes(meaning: Plain, operands: Operands) -> Reason | None:
    """Require two float tensors whose shapes are not known to be equal."""
    if len(operands) != 2 or one_shape(meaning, operands) is None:
        return Reason("the inputs are not two of different shapes")
    dtypes = {None if facts is None else facts.dtype for facts in operands}
    return None if dtypes <= FLOATS else Reason("the inputs are not known to be floats", missing=None in dtypes)


def own_type(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    """Bind `to` to the element type of the first operand."""
    return {"to": operands[0].dtype if operands[0] is not None else None}


def known_type(meaning: Any, operands: Operands) -> Reason | None:
    """Require a known element type, which constants get."""
    known = operands[0] is not None and operands[0].dtype is not None
    return None if known else Reason("the element type is unknown", missing=True)


def in_own_type(**numbers: float) -> Callable[[Any, Operands], Mapping[str, Any]]:
    """Return a function that binds numbers in the first operand's type: a constant in a body is a float."""

    def bind(meaning: Any, operands: Operands) -> Mapping[str, Any]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(operands[0].dtype or 0) if operands[0] else np.dtype(np.float32)
        return {name: Tensor(np.array(number, dtype)) for name, number in numbers.items()}

    return bind


def in_wide_type(**numbers: float) -> Callable[[Any, Operands], Mapping[str, Any]]:
    """Return a function that binds numbers like `in_own_type`, but in float for 16-bit floats, and `within` and `to`.

    For these, onnxruntime computes in float, with numbers of float.
    """

    def bind(meaning: Any, operands: Operands) -> Mapping[str, Any]:
        to = operands[0].dtype if operands[0] else None
        within = TensorProto.FLOAT if to in {None, TensorProto.FLOAT16, TensorProto.BFLOAT16} else to
        numpy_type = onnx.helper.tensor_dtype_to_np_dtype(within or TensorProto.FLOAT)
        bound = {name: Tensor(np.array(number, numpy_type)) for name, number in numbers.items()}
        return {**bound, "within": within, "to": to}

    return bind


def all_bits(meaning: Any, operands: Operands) -> Mapping[str, Any]:
    """Bind `ones` to the integer of the first operand's type with all bits set: -1, or the largest number."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(operands[0].dtype or TensorProto.INT64 if operands[0] else 7)
    return {"ones": Tensor(np.array(np.iinfo(dtype).max if dtype.kind == "u" else -1, dtype))}


def all_are(operand: Facts | None, number: float) -> bool:
    """Return whether all elements are constant and equal to this number; for floats, 0.0 differs from -0.0."""
    if operand is None or operand.known is None or operand.known.dtype.kind not in "biuf":
        return False
    signed = operand.known.dtype.kind != "f" or (np.signbit(operand.known) == np.signbit(number)).all()
    return bool((operand.known == number).all() and signed)


def neutral_operand(
    number: float, *, right_only: bool = False, floats: float | None = None
) -> Callable[[Any, Operands], int | None]:
    """Return a function that finds the operand that is returned unchanged, because the other is all `number`.

    With `right_only`, the second operand must be that number. `floats` is the number for floats, if it differs.
    """

    def neutral(meaning: Any, operands: Operands) -> int | None:
        if len(operands) != 2:
            return None
        for place, one in ((0, operands[1]), (1, operands[0]))[: 1 if right_only else 2]:
            whole = one is not None and one.dtype in INTEGERS
            if all_are(one, number if whole or floats is None else floats):
                return place
        return None

    return neutral


def single_operand(meaning: Any, operands: Operands) -> int | None:
    """Return the index of the only operand."""
    return 0 if len(operands) == 1 else None


def absorbing_operand(ends: float, keeps: float) -> Callable[[Any, Operands], int | None]:
    """Return a function that finds the operand that And or Or returns: one is all `ends`, or the other all `keeps`."""

    def neutral(meaning: Any, operands: Operands) -> int | None:
        found = next((place for place, one in enumerate(operands) if all_are(one, ends)), None)
        return neutral_operand(keeps)(meaning, operands) if found is None else found

    return neutral


def two_integers(meaning: Plain, operands: Operands) -> Reason | None:
    """Require two integer tensors, which have no NaN that a comparison would lose."""
    dtypes = {facts.dtype for facts in operands if facts is not None} - {None}
    if len(operands) == 2 and dtypes and dtypes <= INTEGERS:
        return None
    return Reason("the inputs are not known to be two tensors of integers", missing=not dtypes)


def two_floats(meaning: Plain, operands: Operands) -> Reason | None:
    """Require two float tensors."""
    dtypes = {facts.dtype for facts in operands if facts is not None} - {None}
    if len(operands) == 2 and dtypes and dtypes <= FLOATS:
        return None
    return Reason("the inputs are not known to be two tensors of floats", missing=not dtypes)


def of_double(meaning: Any, operands: Operands) -> Reason | None:
    """Require double, for which onnxruntime 1.31.1 lacks kernels of many functions."""
    dtype = operands[0].dtype if operands[0] is not None else None
    return None if dtype == TensorProto.DOUBLE else Reason("it is not known to be double", missing=dtype is None)


def distinct_upper_halves(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change 64-bit integers so that their upper halves are equal only if the lower ones are small.

    Otherwise onnxruntime compares the lower halves as signed: it returns 0 as the larger of 2^31 and 0 (seen in
    1.31.1).
    """
    wide = {name for name, array in feeds.items() if array.dtype.kind in "iu" and array.dtype.itemsize == 8}
    free = {name for name in wide if feeds[name].flags.writeable}
    high = bool(rng.integers(2))
    return {
        name: (array >> 32 << 32 if high else array >> 33) if name in free else array for name, array in feeds.items()
    }


def plain(
    name: str,
    versions: tuple[int, ...],
    operands: tuple[str, ...],
    function: Callable[..., Any],
    lowerings: tuple[Lowering, ...] = (),
    *,
    moves_data: bool = False,
    variadic: bool = False,
    weight: float = 1.0,
    wider_types: Wider | None = None,
    applies_if: Mapping[int, Callable[[Any, Operands], Reason | None]] | None = None,
    adversarial: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]] | None = None,
    idle: Callable[[Plain, Operands], bool] | None = None,
    body_unused: str = "",
    neutral: Callable[[Any, Operands], int | None] | None = None,
    traits: Traits | None = None,
    by_facts: Callable[[Mapping[str, Any], Operands], Facts | None] | None = None,
    of_dims: Callable[..., Dim] | None = None,
) -> Operator:
    """Return the operator that computes a numpy function of its operands."""
    return Operator(
        name=name,
        meaning=Plain,
        versions=tuple(Version(since, applies_if=(applies_if or {}).get(since)) for since in versions),
        adversarial=adversarial,
        operands=operands,
        oracle=lambda meaning, *arrays: function(*arrays),
        lowerings=lowerings,
        moves_data=moves_data,
        variadic=variadic,
        weight=weight,
        idle=idle,
        neutral=neutral,
        wider_types=wider_types or {},
        body_unused=body_unused,
        traits=traits,
        by_facts=by_facts,
        of_dims=of_dims,
    )
