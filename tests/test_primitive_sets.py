"""Primitive operators are taken away, one by one, in pairs and in random sets: what is left expresses them, or a row
below says why it does not.

Outputs are compared with onnxruntime's own kernel on all pairs of extreme values.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from running import run

import opshift

Array = np.ndarray[Any, Any]

ONE = ("Abs", "Cast", "Ceil", "Exp", "Floor", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sign", "Sqrt")
ORDERS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
TWO = ("Add", "And", "Div", "Equal", "Max", "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Xor", *ORDERS)
PRIMITIVES = (*ONE, *TWO, "Clip", "Where")

FLOATS, INTEGERS = ("float", "double", "float16"), ("int32", "int64")
_TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("And", "Not", "Or", "Xor"), ("bool",)),
    **dict.fromkeys(("Ceil", "Exp", "Floor", "Reciprocal", "Round", "Sqrt"), FLOATS),
    "Cast": (*FLOATS, *INTEGERS, "bool"),
    "Equal": (*FLOATS[:2], *INTEGERS, "bool"),
    "Mod": ("float", *INTEGERS, "uint8"),
    "Where": ("float", "double", "int64", "bool"),
}
NODES = [(name, kind) for name in PRIMITIVES for kind in _TYPES.get(name, (*FLOATS, *INTEGERS))]

DIGITS = "no wider type has digits left for the quotient or the power, and two roundings are not one"
RUN_TIME = "numbers are cast by no other operator"
QUOTIENTS = "nothing else divides, but for powers, which are a unit off"
POWERS = "powers and exponentials are made of each other"
ROUNDED = "nothing else rounds floats of any size"
BOOLEANS = "only Cast and Where make numbers of booleans"
SUMS = "nothing else adds integers whose products have no kernel"

UNEXPRESSIBLE: dict[tuple[str, str], dict[frozenset[str], str]] = {}
"""By operator and type: sets without which it is refused, and why. Any set that contains one is refused."""


def _unexpressible(names: str, kinds: Sequence[str], gone: str, reason: str) -> None:
    for name, kind in itertools.product(names.split(), kinds):
        UNEXPRESSIBLE.setdefault((name, kind), {})[frozenset(gone.split())] = reason


_unexpressible("Cast", (*FLOATS, *INTEGERS), "", RUN_TIME)
_unexpressible("Cast", ("bool",), "Where", BOOLEANS)
_unexpressible("Div", ("float", "float16", *INTEGERS), "Cast", DIGITS)
_unexpressible("Div", (*FLOATS, *INTEGERS), "Reciprocal", QUOTIENTS)
_unexpressible("Reciprocal", FLOATS, "Div", QUOTIENTS)
_unexpressible("Mod", ("float",), "Cast", DIGITS)
_unexpressible("Mod", ("float",), "Div Reciprocal", QUOTIENTS)
_unexpressible("Mod", (*INTEGERS, "uint8"), "Div Reciprocal", QUOTIENTS)
_unexpressible("Mod", (*INTEGERS, "uint8"), "Div Cast", DIGITS)
_unexpressible("Mod", ("uint8",), "Cast Sub", SUMS)
_unexpressible("Mod", ("uint8",), "Cast Mul", SUMS)
_unexpressible("Pow", ("double", *INTEGERS), "", DIGITS)
_unexpressible("Pow", ("float",), "Cast", DIGITS)
_unexpressible("Pow", ("float",), "Exp", POWERS)
_unexpressible("Pow", ("float16",), "Cast", DIGITS)
_unexpressible("Pow", ("float16",), "Exp", POWERS)
_unexpressible("Exp", FLOATS, "Pow", POWERS)
_unexpressible("Sqrt", ("double",), "Div Reciprocal", QUOTIENTS)
_unexpressible("Sqrt", ("double",), "Pow", POWERS)
_unexpressible("Sqrt", ("float", "float16"), "Cast Div", DIGITS)
_unexpressible("Sqrt", ("float", "float16"), "Cast Pow", DIGITS)
_unexpressible("Sqrt", ("float", "float16"), "Div Reciprocal", QUOTIENTS)
_unexpressible("Sqrt", ("float", "float16"), "Exp Pow", POWERS)
_unexpressible("Ceil", FLOATS, "Floor Round", ROUNDED)
_unexpressible("Floor", FLOATS, "Ceil Round", ROUNDED)
_unexpressible("Round", FLOATS, "Ceil Floor", ROUNDED)
_unexpressible("Round", FLOATS, "Div Reciprocal", QUOTIENTS)
_unexpressible("Where", ("float", "double", "int64"), "Cast", BOOLEANS)
_unexpressible("Sign", (*FLOATS, *INTEGERS), "Cast Where", BOOLEANS)


def reason_for(name: str, kind: str, gone: set[str]) -> str:
    """Return why an operator cannot be expressed without these; nothing if it can."""
    rows = UNEXPRESSIBLE.get((name, kind), {})
    return next((reason for others, reason in rows.items() if others <= gone), "")


@functools.cache
def model(name: str, kind: str) -> onnx.ModelProto:
    """Return a model of one node at opset 18, whose inputs broadcast."""
    own = TensorProto.DataType.Value(kind.upper())
    types = {"Where": [TensorProto.BOOL, own, own], "Clip": [own] * 3}.get(name, [own] * (1 if name in ONE else 2))
    dims = [[f"n{place}", f"m{place}"] for place in range(len(types))]
    shapes = dims if name != "Clip" else [dims[0], [], []]
    returned = TensorProto.BOOL if name in (*ORDERS, "Equal", "And", "Or", "Xor", "Not") else own
    attributes: dict[str, Any] = {}
    if name == "Cast":
        returned = TensorProto.FLOAT if kind in ("int64", "bool") else TensorProto.INT64
        attributes = {"to": returned}
    if name == "Mod" and kind in FLOATS:
        attributes = {"fmod": 1}
    names = [f"x{place}" for place in range(len(types))]
    inputs = [helper.make_tensor_value_info(*given) for given in zip(names, types, shapes, strict=True)]
    output = helper.make_tensor_value_info("y", returned, ["k", "l"])
    graph = helper.make_graph([helper.make_node(name, names, ["y"], "n", **attributes)], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def extremes(name: str, kind: str) -> list[Array]:
    """Return the ends of a type, and numbers that are special to it, one for each input so that all pairs occur."""
    if kind == "bool":
        values = np.array([False, True])
    elif kind in FLOATS:
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(kind, kind))
        info = np.finfo(dtype)
        least = float(info.smallest_subnormal)
        signed = [0.0, least, float(info.tiny), 0.3, 0.5, 1.0, 1.5, 2.5, 7.0, float(info.max), np.inf]
        values = np.array([*signed, *(-one for one in signed), np.nan], dtype)
    else:
        ends = np.iinfo(kind)
        values = np.array([ends.max, ends.max - 1, ends.min, ends.min + 1, 49, 7, 3, 1, 0], kind)
        values = np.append(values, np.array([-1, -49], kind)) if ends.min else values
    if name in ("Div", "Mod") and kind not in FLOATS:
        divisors = values[(values != 0) & (values != -1)]
        return [values[:, None], divisors[None, :]]
    if name == "Cast" and kind in FLOATS:
        values = values[np.abs(values) < 1e4]
    if name == "Where":
        truths = np.array([[True], [False]])
        # Where of onnxruntime 1.32.0 makes 0.0 of -0.0.
        return [
            truths,
            values[None, :] + (0 if kind != "bool" else False),
            values[::-1][None, :] + values.dtype.type(0),
        ]
    if name == "Clip":
        return [values[:, None], values[:1] * 0 - values.dtype.type(1), np.array([3], values.dtype)]
    return [values[:, None], *([values[None, :]] if name in TWO else [])]


def feeds(name: str, kind: str) -> dict[str, Array]:
    given = extremes(name, kind)
    return {f"x{place}": array.reshape(()) if array.size == 1 else array for place, array in enumerate(given)}


def assert_same(name: str, kind: str, result: onnx.ModelProto) -> None:
    """Compare with onnxruntime's kernel of the original, if it has one; rounded operators within some units."""
    fed = feeds(name, kind)
    try:
        (wanted,) = run(model(name, kind), [fed])[0]
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        pytest.skip("onnxruntime has no kernel of the original")
    for optimised in (False, True):
        (found,) = run(result, [fed], optimised=optimised)[0]
        if name in ("Exp", "Pow", "Sqrt", "Reciprocal", "Div") and kind in FLOATS:
            with np.errstate(all="ignore"):
                unit = np.spacing(np.abs(np.where(np.isfinite(wanted), wanted, 0)))
                near = np.abs(np.subtract(found, wanted, dtype=np.float64)) <= 4.0 * unit
            same = near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
            assert same.all(), (fed, wanted[~same], found[~same])
        else:
            np.testing.assert_array_equal(found, wanted)


def converted(name: str, kind: str, gone: set[str]) -> onnx.ModelProto | None:
    """Return the model without these operators, after a look at the nodes; None where it is refused as a row says."""
    reason = reason_for(name, kind, gone)
    refusals = opshift.plan(model(name, kind), decompose=sorted(gone)).refusals
    assert bool(refusals) <= bool(reason), f"{name} of {kind} without {sorted(gone)}: {refusals[0]}"
    if refusals:
        return None
    result = opshift.convert(model(name, kind), decompose=sorted(gone), verify=False).model
    assert not reason, f"{name} of {kind} is expressed without {sorted(gone)}: take the row away"
    assert isinstance(result, onnx.ModelProto)
    assert not gone & {node.op_type for node in result.graph.node}
    return result


@pytest.mark.parametrize(("name", "kind"), NODES, ids=str)
def test_a_primitive_is_expressed_by_others(name: str, kind: str) -> None:
    result = converted(name, kind, {name})
    if result is not None:
        assert_same(name, kind, result)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), NODES, ids=str)
def test_pairs_of_primitives_are_expressed(name: str, kind: str) -> None:
    for other in PRIMITIVES:
        result = converted(name, kind, {name, other})
        if result is not None:
            assert_same(name, kind, result)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_random_sets_of_primitives_are_expressed(seed: int) -> None:
    rng = random.Random(seed)
    for name, kind in rng.sample(NODES, 40):
        gone = {name, *rng.sample(PRIMITIVES, rng.randrange(2, 4))}
        result = converted(name, kind, gone)
        if result is not None and rng.random() < 0.25:
            assert_same(name, kind, result)
