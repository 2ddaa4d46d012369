"""Without `--optimize`, ArgMax, Hardmax and OneHot become graphs as small as a person would write, whatever is known.

Nodes are drawn: opset, element type, rank, which dimensions are known, axis, and the operators to avoid. They are
derived and counted; a share of the models is converted and verified.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from running import session_of

import opshift
from opshift.opsets.registry.facts import Facts, constant, tensor_of, type_name, type_of_facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at
from opshift.opsets.runtimes.profiles import builtin_targets, load_target
from opshift.opsets.runtimes.target import Legality
from opshift.passes.rewrite.fragment import Fragment
from opshift.passes.rewrite.lowering_search import Deriver

T = TensorProto
OPSETS = range(OLDEST, NEWEST + 1)
DIMS = (0, 1, 2, 5, 21, 1000)
FLOATS = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)
NUMBERS = (*FLOATS, T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64)
INDICES = (T.INT32, T.INT64, T.UINT8, T.UINT64, T.FLOAT, T.DOUBLE)
WITHOUT = (frozenset[str](), frozenset({"TopK"}), frozenset({"TopK", "Where"}))
LOOPS = {"If", "Loop", "Scan"}


@dataclass(frozen=True)
class Asked:
    """A node, and the operators that its replacement does without."""

    opset: int
    name: str
    attributes: tuple[tuple[str, int], ...]
    operands: tuple[Facts, ...]
    without: frozenset[str]

    def __str__(self) -> str:
        types = ", ".join(f"{type_name(one.dtype or 0)}{one.shape}" for one in self.operands)
        return f"{self.name}{dict(self.attributes)} of {types} at {self.opset} without {sorted(self.without)}"

    @property
    def node(self) -> Node:
        """The node, of a newer version where the opset does not have the operator."""
        schema = schema_at("", self.name, self.opset) or schema_at("", self.name, 13)
        assert schema is not None
        return Node("", self.name, schema.since_version, dict(self.attributes), self.operands, (True,))


@functools.lru_cache(maxsize=8)
def derivers(opset: int, without: frozenset[str]) -> tuple[Deriver, Deriver]:
    """Return what prefers the kernels of onnxruntime, and what does not, as a conversion tries them."""
    return Deriver(Legality(opset, without, runnable=True)), Deriver(Legality(opset, without))


def derived(asked: Asked) -> Fragment | None:
    """Return the replacement, None if there is none."""
    for deriver in derivers(asked.opset, asked.without | {asked.name}):
        lifted = deriver.lift(asked.node)
        if not isinstance(lifted, Reason) and isinstance(found := deriver.derive(lifted), Fragment):
            return found
    return None


def empty_or_unranked(facts: Facts, axes: range | tuple[int, ...]) -> bool:
    """Whether the rank is unknown, or an axis of a row may be empty."""
    shape = facts.shape
    return shape is None or any(not isinstance(shape[axis], int) or shape[axis] == 0 for axis in axes)


def shape_of(rng: random.Random) -> tuple[Any, ...] | None:
    """Return a shape of up to five dimensions, known or not, or None for an unknown rank."""
    rank = rng.randrange(6)
    return tuple(rng.choice((rng.choice(DIMS), f"d{axis}")) for axis in range(rank)) or None


def axis_of(rng: random.Random, shape: tuple[Any, ...] | None, opset: int) -> int:
    """Return an axis, from the back only where the opset has that."""
    back, front = (2, 3) if shape is None else (len(shape), len(shape))
    return rng.randrange(-back if opset >= 11 else 0, front)


def argmax(opset: int, rng: random.Random) -> tuple[Asked, int]:
    """Return an ArgMax, and the most nodes that it may have."""
    dtype = rng.choice([one for one in NUMBERS if one != T.BFLOAT16 or opset >= 13])
    shape, without, last = shape_of(rng), rng.choice(WITHOUT), opset >= 12 and rng.randrange(2)
    attributes = {"axis": axis_of(rng, shape, opset), "keepdims": rng.randrange(2)}
    attributes |= {"select_last_index": 1} if last else {}
    facts = Facts(dtype, shape)
    most = 8 if last or opset < 11 or "TopK" in without else 3
    most += 4 * (opset < 13 or empty_or_unranked(facts, (attributes["axis"],)))
    # onnxruntime searches neither type: test_onnxruntime_searches_no_uint64. A Cast keeps the order of bfloat16; of
    # uint64 it takes two nodes, and below 18 five, as no sum may overflow.
    most += {T.UINT64: 1 if opset >= 18 else 4 + 4 * ("Where" in without), T.BFLOAT16: 1}.get(dtype, 0)
    return Asked(opset, "ArgMax", tuple(attributes.items()), (facts,), without), most


def hardmax(opset: int, rng: random.Random) -> tuple[Asked, int]:
    """Return a Hardmax, and the most nodes that it may have."""
    dtype = rng.choice([one for one in FLOATS if one != T.BFLOAT16 or opset >= 13])
    shape, without = shape_of(rng), rng.choice(WITHOUT)
    axis, facts = axis_of(rng, shape, opset), Facts(dtype, shape)
    rank = len(shape or ())
    row = (axis,) if opset >= 13 or shape is None else range(axis % rank, rank)
    most = (6 if opset >= 13 else 8) + 4 * (opset < 13 or empty_or_unranked(facts, row))
    if opset < 13:
        # onnxruntime finds no places in doubles, and below 13 a shape with an empty dimension is restored by places.
        most += dtype == T.DOUBLE
    if opset < 11 and (shape is None or sum(not isinstance(dim, int) or dim == 0 for dim in shape) > 1):
        # Reshape below 14 has no shape with an empty dimension, and what restores it below ScatterND is larger.
        most = 40
    if "TopK" in without:
        # Without ArgMax too, positions are counted; onnxruntime compares no bfloat16.
        without, most = without | {"ArgMax"}, most + 2 * ("Where" in without) + (dtype == T.BFLOAT16)
    return Asked(opset, "Hardmax", (("axis", axis),), (facts,), without), most


DEPTHS = (*(constant(np.array(depth)) for depth in (10, 30522)), *(Facts(T.INT64, one) for one in ((), (1,), None)))
VALUES = (constant(np.array([0, 1], np.float32)), constant(np.array([2, 5], np.int64)), Facts(T.FLOAT, (2,)))


def onehot(opset: int, rng: random.Random) -> tuple[Asked, int]:
    """Return a OneHot, and the most nodes that it may have."""
    shape, depth = shape_of(rng), rng.choice(DEPTHS)
    without = rng.choice((frozenset[str](), frozenset({"Where"}), frozenset({"ScatterElements"})))
    axis = rng.choice((0, -1)) if shape is None else rng.randrange(-len(shape) - 1, len(shape) + 1)
    facts = Facts(rng.choice(INDICES), shape)
    most = (8 if depth.known is not None else 12) + 4 * (opset < 13 or shape is None)
    # Where chooses between the values in one node; without it, Cast and Gather do.
    most += "Where" in without
    return Asked(opset, "OneHot", (("axis", axis),), (facts, depth, rng.choice(VALUES)), without), most


def sample(operator: Any, opset: int, count: int) -> list[tuple[Asked, int]]:
    """Return so many nodes of an operator, the same each time."""
    rng = random.Random(opset)
    return [operator(opset, rng) for _ in range(count)]


OPERATORS = (argmax, hardmax, onehot)


def is_bounded(asked: Asked) -> bool:
    """Return whether a bound is promised: below 11, where neither CumSum nor Range count, not for every node.

    An unknown rank or length takes a shape that is computed there, uint64 is compared by halves, and without ArgMax and
    TopK the first maximum of a row takes the index of each element. Up to an unknown depth nothing counts in few nodes
    below 9, where NonZero and ConstantOfShape begin.
    """
    data = asked.operands[0]
    if asked.opset >= 11 or data.shape is None:
        return asked.opset >= 11
    if asked.name == "OneHot":
        return asked.opset >= 9 or asked.operands[1].known is not None
    if asked.name == "Hardmax":
        return all(isinstance(dim, int) for dim in data.shape) and not {"ArgMax", "TopK"} <= set(asked.without)
    return data.dtype != T.UINT64 and isinstance(data.shape[dict(asked.attributes)["axis"]], int)


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda function: function.__name__)
def test_graphs_are_small(operator: Any, opset: int) -> None:
    large = []
    for asked, most in sample(operator, opset, 20 if opset >= 11 else 5):
        fragment = derived(asked)
        if fragment is None:
            large.append(f"{asked}: no replacement")
            continue
        names = [leaf.name for leaf in fragment.nodes]
        if LOOPS & set(names) or (is_bounded(asked) and len(names) > most):
            large.append(f"{asked}: {len(names)} > {most}: {names}")
    assert not large, f"{len(large)} too large:\n" + "\n".join(large[:12])


@pytest.mark.parametrize("name", ["TopK", "ReduceMax"])
def test_onnxruntime_searches_no_uint64(name: str) -> None:
    """This is why ArgMax of uint64 has more nodes: its elements become integers of a type that is searched."""
    calls = {
        "TopK": "k = Constant <value = int64[1] {1}> () v, y = TopK (x, k)",
        "ReduceMax": "y = ReduceMax (x)",
    }
    made = {"TopK": "int64[n]", "ReduceMax": "uint64[n]"}[name]
    text = f'<ir_version: 8, opset_import: ["": 13]> g (uint64[n] x) => ({made} y) {{ {calls[name]} }}'
    with pytest.raises(Exception, match=r"(?i)not.?implemented"):
        session_of(parse_model(text))


def model_of(asked: Asked) -> onnx.ModelProto:
    """Return a model of the node."""
    names = {"ArgMax": ("data",), "Hardmax": ("input",), "OneHot": ("indices", "depth", "values")}[asked.name]
    attributes: dict[str, Any] = dict(asked.attributes)
    node = helper.make_node(asked.name, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", [], [])
    for name, facts in zip(names, asked.operands, strict=True):
        if facts.known is not None:
            graph.initializer.append(tensor_of(facts.known, facts.dtype or 0, name))
        else:
            graph.input.add(name=name).type.CopyFrom(type_of_facts(facts))
    dtype = T.INT64 if asked.name == "ArgMax" else asked.operands[-1].dtype
    graph.output.append(helper.make_tensor_value_info("y", dtype or 0, None))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", asked.opset)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [9, 11, 13, 18, 21, 26])
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda function: function.__name__)
def test_small_graphs_are_verified_equal(operator: Any, opset: int) -> None:
    tried = [
        asked
        for asked, _ in sample(operator, opset, 120)
        if (asked.operands[0].size or 0) < 10000 and 0 not in (asked.operands[0].shape or ())
    ][:8]
    for asked in tried:
        gone = sorted(asked.without | {asked.name})
        report = opshift.convert(model_of(asked), decompose=gone, verify="nodes").report
        assert report is not None
        assert [check.verdict for check in report.nodes] == ["equal"], asked


PROFILES_WITHOUT_INTEGERS = {"ncnn"}
"""The index of an ArgMax is an integer, which such a runtime does not have."""


@pytest.mark.parametrize("name", sorted({*builtin_targets()} - PROFILES_WITHOUT_INTEGERS))
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("shape", ["1,21,512,512", "n,21,512,512"])
def test_profiles_have_a_small_argmax(name: str, shape: str, last: int) -> None:
    low, high = load_target(name).opset
    opset = min(max(low, 13), high)
    attributes = "axis = 1, keepdims = 0" + ", select_last_index = 1" * last
    text = f"""<ir_version: 8, opset_import: ["": {max(opset, 12)}]> g (float[{shape}] x) => (int64[a,512,512] y) {{
        y = ArgMax <{attributes}> (x) }}"""
    plan = opshift.plan(parse_model(text), target=name)
    if not plan.possible and "n" in shape:
        assert "static" in str(plan.refusals[0]) or "constant" in str(plan.refusals[0])
        return
    assert plan.possible, plan.refusals
    assert all(len(step.becomes) <= 10 and not LOOPS & {*step.becomes} for step in plan.steps)
