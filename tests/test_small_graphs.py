"""Without `--optimize`, ArgMax, Hardmax and OneHot become graphs as small as a person would write, whatever is known.

Every combination of element type, shape, opset and operators to avoid is derived and counted; a share of the models is
converted and verified.
"""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

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
SHAPES: tuple[tuple[Any, ...] | None, ...] = (
    (5,),
    ("n",),
    (1000, 3),
    (2, 0),
    ("n", 7),
    (2, "m"),
    ("n", "m"),
    (1, 21, 512, 512),
    ("n", 21, "h", "w"),
    ("a", "b", "c", "d"),
    None,
)
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


def argmax(opset: int) -> list[tuple[Asked, int]]:
    """ArgMax of each type and shape, with the most nodes that it may have."""
    found = []
    for dtype, shape, keep, last, without in itertools.product(NUMBERS, SHAPES, (0, 1), (0, 1), WITHOUT):
        if (last and opset < 12) or (dtype == T.BFLOAT16 and opset < 13):
            continue
        for axis in {0, 1, -1} if shape is None or len(shape) > 1 else {0}:
            if axis < 0 and opset < 11:
                continue
            attributes = {"axis": axis, "keepdims": keep} | ({"select_last_index": 1} if last else {})
            facts = Facts(dtype, shape)
            most = 8 if last or opset < 11 or "TopK" in without else 3
            # onnxruntime has no kernel of either for these types: their order is that of other types.
            most += {T.UINT64: 2 if opset >= 18 else 6 + 4 * ("Where" in without), T.BFLOAT16: 1}.get(dtype, 0)
            most += 4 * (opset < 13) + 4 * empty_or_unranked(facts, (axis,))
            found.append((Asked(opset, "ArgMax", tuple(attributes.items()), (facts,), without), most))
    return found


def hardmax(opset: int) -> list[tuple[Asked, int]]:
    """Hardmax of each type and shape, with the most nodes that it may have."""
    found = []
    for dtype, shape, without in itertools.product(FLOATS, SHAPES, WITHOUT):
        if dtype == T.BFLOAT16 and opset < 13:
            continue
        for axis in {0, 1, -1} if shape is None or len(shape) > 1 else {0}:
            if axis < 0 and opset < 11:
                continue
            facts = Facts(dtype, shape)
            rank = len(shape or ())
            row = (axis,) if opset >= 13 or shape is None else range(axis % rank, rank)
            most = 6 if opset >= 13 else 8
            most += (dtype == T.BFLOAT16) + 4 * (opset < 13) + 4 * empty_or_unranked(facts, row)
            if opset < 11 and (shape is None or sum(not isinstance(dim, int) or dim == 0 for dim in shape) > 1):
                # Reshape below 14 has no shape with an empty dimension, and what restores it below ScatterND is larger.
                most = 40
            more = {"ArgMax"} if "TopK" in without else set[str]()
            # Counting instead of choosing takes up to two nodes more.
            most += 2 * ("Where" in without)
            found.append((Asked(opset, "Hardmax", (("axis", axis),), (facts,), without | more), most))
    return found


def onehot(opset: int) -> list[tuple[Asked, int]]:
    """OneHot of each type and shape, with the most nodes that it may have."""
    found = []
    depths = (constant(np.array(10)), Facts(T.INT64, ()), Facts(T.INT64, (1,)), Facts(T.INT64, None))
    values = (constant(np.array([0, 1], np.float32)), constant(np.array([2, 5], np.int64)), Facts(T.FLOAT, (2,)))
    for dtype, shape, depth, value, without in itertools.product(
        INDICES, SHAPES, depths, values, (frozenset[str](), frozenset({"Where"}), frozenset({"ScatterElements"}))
    ):
        for axis in (0, -1):
            facts = Facts(dtype, shape)
            most = 8 if depth.known is not None else 12
            # Where chooses between the values in one node; without it, Cast and Gather do.
            most += 4 * (opset < 13) + 4 * (shape is None) + ("Where" in without)
            found.append((Asked(opset, "OneHot", (("axis", axis),), (facts, depth, value), without), most))
    return found


def sample(operator: Any, opset: int, count: int) -> list[tuple[Asked, int]]:
    """Return so many of the nodes of an operator, the same each time."""
    every: list[tuple[Asked, int]] = operator(opset)
    return random.Random(opset).sample(every, min(count, len(every)))


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
    for asked, most in sample(operator, opset, 20):
        fragment = derived(asked)
        if fragment is None:
            large.append(f"{asked}: no replacement")
            continue
        names = [leaf.name for leaf in fragment.nodes]
        if LOOPS & set(names) or (is_bounded(asked) and len(names) > most):
            large.append(f"{asked}: {len(names)} > {most}: {names}")
    assert not large, f"{len(large)} too large:\n" + "\n".join(large[:12])


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
        if (asked.operands[0].size or 0) < 10000 and asked.operands[0].shape != (2, 0)
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
