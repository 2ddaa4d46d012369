"""Every mutant of a lowering is caught by the proof: another axis, another tie, off for on, a constant off by one.

A subject is one lowering at the top, derived for one target. Each of its mutants, a small change of one node or one
constant of what it writes, must be found different by `compare_pairs`. The survivors are listed with the reason why
they are right all the same.

There are thousands: one in `SHARE` is tried, always the same ones, or all with `OPSHIFT_MUTANTS=all`. All is what
whoever writes a lowering runs: `OPSHIFT_MUTANTS=all pytest tests/test_mutants.py -k ArgMax`.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from operators.harness import only

from opshift.opsets.families.axes import END
from opshift.opsets.faster import every
from opshift.opsets.operators import onehot
from opshift.opsets.registry.facts import Facts, Tensor, constant
from opshift.opsets.registry.lowering import APPROXIMATE, Lowering, Reason
from opshift.opsets.registry.node_traits import rounds
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, known_operators, lift, write_native
from opshift.opsets.runtimes.target import Legality
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Verdict
from opshift.passes.proof.node_pairs import compare_pairs
from opshift.passes.proof.pair import Pair
from opshift.passes.rewrite.edits import Replace
from opshift.passes.rewrite.fragment import Fragment, operand_sources
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.node_models import alone
from opshift.passes.runtime import oracles

SHARE = 1 if os.environ.get("OPSHIFT_MUTANTS") == "all" else 3
OPERATORS = {(operator.domain, operator.name): operator for operator in known_operators()}


@dataclass(frozen=True)
class Subject:
    """One lowering of an operator, for a meaning and operands (`float[n,3]`, `float` of unknown rank, or a constant).

    It is derived for an opset, without the operator itself unless `keep`; `used` tells its outputs. `tamed`
    makes inputs that the proof can judge, where the operator does not do so itself.
    """

    operator: str
    lowering: str
    meaning: Mapping[str, Any]
    operands: tuple[str | np.ndarray[Any, Any] | None, ...]
    opset: int = 13
    keep: bool = False
    used: tuple[bool, ...] = (True,)
    tamed: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]] | None = None

    def __str__(self) -> str:
        operands = ",".join(item if isinstance(item, str) else "-" if item is None else "#" for item in self.operands)
        fields = ",".join(f"{name}={value}" for name, value in self.meaning.items())
        return f"{self.operator}.{self.lowering}({fields}) of {operands} at {self.opset}"


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def facts(operand: str | np.ndarray[Any, Any] | None) -> Facts | None:
    """Read `float[n,3]`, `float` of unknown rank, a sequence, or `int64[2] of n,m` for dims; an array is a constant."""
    if operand is None:
        return None
    if not isinstance(operand, str):
        return constant(operand)
    if operand.startswith("seq("):
        return Facts(container=operand)
    operand, _, held = operand.partition(" of ")
    if held:
        elements = held.split(",")
        return Facts(TensorProto.INT64, (len(elements),), Tensor(np.array(elements, object)))
    name, _, dims = operand.partition("[")
    dtype = TensorProto.DataType.Value(name.upper())
    if not operand.endswith("]"):
        return Facts(dtype, None)
    parts = [dim for dim in dims[:-1].split(",") if dim]
    return Facts(dtype, tuple(int(dim) if dim.isdigit() else dim for dim in parts))


def lowering_of(subject: Subject) -> Lowering:
    """Return the subject's lowering."""
    operator = OPERATORS["", subject.operator]
    return next(item for item in every(operator) if item.name == subject.lowering)


def pair_of(subject: Subject) -> Pair:
    """Return the subject's node and its replacement, as `convert` hands them to the proof."""
    operator = OPERATORS["", subject.operator]
    meaning = operator.meaning(**subject.meaning)
    every = {item.name: getattr(meaning, item.name) for item in dataclasses.fields(meaning)}
    fields = {name: value for name, value in every.items() if value is not None}
    operands = tuple(facts(operand) for operand in subject.operands)
    spelled = Node(SPELLING, operator.name, 1, fields, operands, subject.used)
    whole = lift(only(operator, lowering_of(subject)), spelled, "runtime")
    assert isinstance(whole, Lifted)
    gone = frozenset[str]() if subject.keep else frozenset({operator.name})
    found = Deriver(
        Legality(subject.opset, gone, runnable=True),
        assume=frozenset({"finite-inputs", "whole-indices", "approximate"}),
    ).derive(whole)
    assert isinstance(found, Fragment), found
    assert found.lowerings[0] == subject.lowering
    seen, source = native(dataclasses.replace(whole, operator=operator)) or (spelled, subject.opset)
    original, rewritten = alone(Replace(found, operand_sources(whole), seen, whole, "node"), source, subject.opset)
    if seen is spelled:
        del original.graph.node[0].attribute[:], rewritten.opset_import[1:]
    outputs = original.graph.node[0].output

    def oracle(feeds: Mapping[str, Any], limits: Limits) -> Mapping[str, Any]:
        results = oracles.computed(operator, whole.meaning, arrays(original, whole, feeds), limits)
        return dict(zip(outputs, results, strict=False))

    return Pair(
        node=str(subject),
        operator=operator.name,
        original=original,
        rewritten=rewritten,
        oracle=oracle,
        adversarial=subject.tamed or operator.adversarial,
        exclude_nan=bool(found.assumes - APPROXIMATE) or not operator.nan_defined(whole.meaning, whole.operands),
        finite="finite-inputs" in found.assumes or not operator.infinity_defined(whole.meaning, whole.operands),
        exact=not (found.rounds or rounds(operator.name)),
        longest=operator.longest,
        approximate=bool(found.assumes & APPROXIMATE),
    )


def native(whole: Lifted) -> tuple[Node, int] | None:
    """Return the node itself at an opset that can say it, best one that onnxruntime loads; None if it means another."""
    given = [None if facts is None else index for index, facts in enumerate(whole.operands)]
    while given and given[-1] is None:
        given.pop()
    for opset in (26, 12, 10, 8, 28):
        written = write_native(whole, opset)
        if isinstance(written, Reason) or written.inputs != tuple(given):
            continue
        inputs = whole.operands[: len(given)]
        node = Node("", whole.operator.name, written.since_version, written.attributes, inputs, whole.used)
        back = lift(whole.operator, node, "runtime")
        if Legality(opset).why_not(node) is None and isinstance(back, Lifted) and back.meaning == whole.meaning:
            return node, opset
    return None


def arrays(original: onnx.ModelProto, whole: Lifted, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the oracle's arguments."""
    names = original.graph.node[0].input
    known = [None if item is None else item.known for item in whole.operands]
    return [feeds.get(name, value) for name, value in zip(names, known, strict=False)]


# --- mutants ----------------------------------------------------------------------------------------------------------

EXCHANGED = {
    "ReduceMax": "ReduceMin",
    "ReduceMin": "ReduceMax",
    "Less": "Greater",
    "Greater": "Less",
    "And": "Or",
    "Or": "And",
    "Add": "Sub",
    "Sub": "Add",
}
TURNED = {"Sub", "Where", "Div", "Less", "Greater", "Concat"}
"""Operators whose last two inputs are not the same to them."""


def mutants(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield every mutant of a model, with what was changed."""
    for index, node in enumerate(model.graph.node):
        for what, nodes in changes(node):
            mutant = copy.deepcopy(model)
            kept = list(mutant.graph.node)
            del mutant.graph.node[:]
            mutant.graph.node.extend([*kept[:index], *nodes, *kept[index + 1 :]])
            yield f"{node.name}: {what}", mutant
    for index, tensor in enumerate(model.graph.initializer):
        if any(tensor.name in node.input for node in model.graph.node) and tensor.name.startswith("opshift/"):
            for what, array in off_by_one(numpy_helper.to_array(tensor)):
                mutant = copy.deepcopy(model)
                mutant.graph.initializer[index].CopyFrom(numpy_helper.from_array(array, tensor.name))
                users = "+".join(node.name for node in model.graph.node if tensor.name in node.input)
                yield f"constant of {users}: {what}", mutant


def changes(node: NodeProto) -> Iterator[tuple[str, list[NodeProto]]]:
    """Yield nodes to write instead of a node."""
    for place, attribute in enumerate(node.attribute):
        if attribute.name in ("axis", "axes", "perm", "epsilon", *SWITCHES, *STEPPED):
            for what, value in numbers(attribute):
                mutant = copy.deepcopy(node)
                mutant.attribute[place].CopyFrom(helper.make_attribute(attribute.name, value))
                yield f"{attribute.name}={what}", [mutant]
    if node.op_type in EXCHANGED:
        mutant = copy.deepcopy(node)
        mutant.op_type = EXCHANGED[node.op_type]
        yield f"is {mutant.op_type}", [mutant]
    if node.op_type in TURNED and len(node.input) >= 2:
        mutant = copy.deepcopy(node)
        mutant.input[-2:] = [node.input[-1], node.input[-2]]
        yield "inputs turned", [mutant]
    if node.op_type in ("Equal", "IsNaN"):
        inner = copy.deepcopy(node)
        inner.output[0] += "/not"
        yield "negated", [inner, helper.make_node("Not", inner.output, node.output)]
    if node.op_type in ("Cast", "Not"):
        yield "dropped", [helper.make_node("Identity", node.input, node.output)]


SWITCHES = ("keepdims", "select_last_index", "largest", "ceil_mode", "count_include_pad", "align_corners")
STEPPED = ("pads", "strides", "dilations", "kernel_shape")
"""Lists of which the first and the last number are changed, each by itself."""


def numbers(attribute: onnx.AttributeProto) -> Iterator[tuple[str, Any]]:
    """Yield other values for an attribute."""
    value = helper.get_attribute_value(attribute)
    if attribute.name in SWITCHES:
        yield str(1 - value), 1 - value
    elif attribute.name == "epsilon":
        yield str(value + 1), value + 1
    elif attribute.name in STEPPED:
        for place in sorted({0, len(value) - 1}):
            longer = [item + (index == place) for index, item in enumerate(value)]
            yield str(longer), longer
    elif attribute.name == "perm":
        turned = [*value[1:], value[0]]
        yield str(turned), turned
    else:
        single = isinstance(value, int)
        for step in (-1, 1):
            moved = value + step if single else [item + step for item in value]
            yield str(moved), moved


def another(element: Any) -> Any:
    """Return another element of the same type."""
    if isinstance(element, str):
        return f"{element}?"
    if isinstance(element, bool | np.bool_):
        return not element
    return element + 1 if np.isfinite(element) else 0


def off_by_one(array: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield arrays in which the first or the last element is not what it was."""
    for place in sorted({0, array.size - 1} & set(range(array.size))):
        if array.reshape(-1)[place] in (END, -END):
            continue  # any number past the last dimension says the same
        other = array.copy()
        flat = other.reshape(-1)
        flat[place] = another(flat[place])
        yield f"element {place} is {flat[place]}, not {array.reshape(-1)[place]}", other


# --- subjects ---------------------------------------------------------------------------------------------------------

ROWS, MASK = {"axes": (1,)}, np.array([False, True])
HOT = {"axis": -1, "negative": "wrap", "fraction": "truncate"}
OFF = {"axis": 1, "negative": "off", "fraction": "whole"}
WHOLE = {**HOT, "negative": "off", "fraction": "absent"}
TWO, FOUR = (True,) * 2, (True,) * 4
ASKED = ("int64[1]", "float[1]")
"""How many boxes are asked for, and the share of a union that boxes may have in common."""


def near_image(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have a grid in and around the image, and pixels that are small integers.

    Where a grid says -inf, or overflows, onnxruntime 1.31.1 takes a pixel at the edge, and the lowering zero, as the
    text has it: the proof of a GridSample alone says that they differ.
    """
    steps = {"X": (1, 9), "grid": (8, 14)}
    return {name: rng.integers(-most, most + 1, feeds[name].shape) / by for name, (by, most) in steps.items()}


def whole(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Indices without a fraction."""
    drawn = onehot.adversarial(rng, feeds)
    return {**drawn, "indices": np.trunc(drawn["indices"])}


def far(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Doubles of all sizes, whose quotients are neither infinite nor zero."""
    size = np.where(rng.random(9) < 0.3, rng.choice([-1060.0, -1040.0, 1023.0], 9), rng.uniform(-1000, 1000, 9))
    ends = np.clip(size + rng.uniform(-900, 900, 9), -1000, 1023.9)
    return {"A": np.exp2(ends), "B": -np.exp2(size)}


def quotients(bits: int) -> Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]]:
    """Return what makes dividends and divisors of few digits, whose quotients have up to so many bits."""

    def tamed(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        dividends = rng.integers(0, 2**16, feeds["A"].shape) * 2.0 ** rng.integers(0, bits - 16, feeds["A"].shape)
        return {"A": dividends, "B": rng.integers(4, 99, feeds["B"].shape) / 4.0}

    return tamed


def near_places(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have small integers, and offsets of eighths that lead in and around the image."""
    return {
        name: rng.integers(-40, 41, array.shape) / 8 if name == "offset" else rng.integers(-9, 10, array.shape)
        for name, array in feeds.items()
    }


def level(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have images of mean 0 and variance 4, so that nothing rounds: GroupNormalization-18 is not written as a node.

    There are two groups of some channels. Scales are odd and biases even, so that no zero is signed.
    """
    odd, even = 2 * rng.integers(-9, 10, (2, 2)).astype(np.float32)
    channels = int(rng.integers(1, 4)) * 2 if feeds["X"].shape[1] != 6 else 6
    return {"X": np.resize(np.array([2, -2], np.float32), (2, channels, 4)), "scale": odd + 1, "bias": even}


def level_heads(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have queries that all of four keys answer alike, so that a mean of whole numbers is what nothing rounds."""
    values = 4 * rng.integers(1, 9, feeds["V"].shape)
    return {**feeds, "Q": np.zeros_like(feeds["Q"]), "K": np.ones_like(feeds["K"]), "V": values}


CEILED = {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0), "ceil_mode": 1}
UPSAMPLED = {"strides": (2, 3), "pads": (1, 0, 0, 1), "output_padding": (1, 0)}
SHAPED = {"output_shape": (4,)}
WINDOWS = {"kernel_shape": (3, 2), "strides": (1, 2), "pads": (1, 0, 0, 1)}
UNPOOLED = {"kernel_shape": (2, 3), "strides": (2, 2), "pads": (0, 1, 0, 1)}
MELS = (np.array(4), np.array(32), np.array(8000), np.array(20, np.float32), np.array(4000, np.float32))
WIDE = {"kernel_shape": (3,), "strides": (2,), "auto_pad": "SAME_LOWER"}
DILATED = {"kernel_shape": (2,), "dilations": (3,), "pads": (1, 2)}
COUNTED = {"count_include_pad": 1}
MIRRORED = {"padding_mode": "reflection", "align_corners": 1}
IMAGE = ("float[n,2,3,4]", "float[1,2,2,2]", "float[n,8,2,3]")
HALF = {"inverse": 1, "onesided": 1}
HEADS = ("float[2,2,3,4]", "float[2,2,4,4]", "float[2,2,4,4]")
SPREAD = {"short_mask": "spread"}
BY_GROUP = {"num_groups": 2, "epsilon": 0.0, "scaled": "group"}
LINEAR = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
BATCH_FIRST, NOTHING = {"hidden_size": 5, "layout": 1}, (None, None, None)
PER_HEAD = ("float[2,2,3,4]", "float[2,2,5,4]", "float[2,2,5,6]")
IN_ROWS = ("float[2,3,8]", "float[2,5,8]", "float[2,5,12]")
"""Queries, keys and values, each head with an axis of its own, and all heads in a row."""

FILTERED = ("float[n,4,5,6]", "float[6,4,3,2]", None)
GROUPED = ("float[n,4,5,6]", "float[6,2,3,2]", None)
CONVOLVED = (
    "uint8[1,2,4,5]", "float[]", "uint8[]", "int8[3,2,2,2]", "float[3]", np.array(0, np.int8), "float[]", "uint8[]"
)  # fmt: skip
"""Image and kernels: floats, in two groups, and quantized."""

SIZES = {"coordinate_transformation_mode": "sizes"}


def sized(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Regions by their sizes in place of their ends."""
    drawn = OPERATORS["", "RoiAlign"].adversarial(rng, feeds)  # type: ignore[misc]
    start, end = drawn["rois"][:, :2], drawn["rois"][:, 2:]
    return {**drawn, "rois": np.concatenate([start, np.maximum(end - start, 0)], axis=1)}


TWO_BINS = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}

GRAMS = {
    "mode": "TF",
    "min_gram_length": 2,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "ngram_counts": (0, 0),
    "ngram_indexes": (1, 0, 2),
    "pool_int64s": (1, 2, 2, 2, 3, 1),
}
WEIGHTED = {**GRAMS, "mode": "TFIDF", "weights": (0.5, 2.0, 3.0)}
SINGLES = {**GRAMS, "min_gram_length": 1, "max_gram_length": 1, "ngram_counts": (0,), "pool_int64s": (1, 2, 3)}
BOTH = {
    **GRAMS,
    "min_gram_length": 1,
    "ngram_counts": (0, 1),
    "ngram_indexes": (1, 0, 2),
    "pool_int64s": (1, 2, 2, 2, 3),
}

SUBJECTS = (
    Subject("TfIdfVectorizer", "counted", GRAMS, ("int64[2,5]",)),
    Subject("TfIdfVectorizer", "counted", SINGLES, ("int32[n,c]",)),
    Subject("TfIdfVectorizer", "weighed", WEIGHTED, ("int64[n,c]",), opset=18),
    Subject("TfIdfVectorizer", "found", {**GRAMS, "mode": "IDF"}, ("int64[5]",)),
    Subject("TfIdfVectorizer", "found_and_weighed", {**WEIGHTED, "mode": "IDF"}, ("int64[5]",)),
    Subject("TfIdfVectorizer", "spread_out", {**WEIGHTED, "ngram_indexes": (3, 0, 3)}, ("int64[2,5]",)),
    Subject(
        "TfIdfVectorizer", "found_and_spread_out", {**GRAMS, "mode": "IDF", "ngram_indexes": (3, 0, 1)}, ("int32[3]",)
    ),
    Subject("TfIdfVectorizer", "length_by_length", BOTH, ("int64[2,5]",)),
    Subject("Hardmax", "permuted", ROWS, ("float[2,3,4]",), keep=True),
    Subject("Hardmax", "flattened", {"axes": (1, 2)}, ("float[2,3,n]",), keep=True),
    Subject("Hardmax", "flattened", {"axes": (1, 2)}, ("float[2,3,n]",), opset=18, keep=True),
    Subject("Hardmax", "scattered", {"axes": (1, 2)}, ("float[n,m,k]",), keep=True),
    Subject("Hardmax", "scattered", {"axes": (1, 2)}, ("double[n,m,k]",)),
    Subject("Hardmax", "ranked", ROWS, ("float",), opset=18, keep=True),
    Subject("Hardmax", "ranked", {"axes": (-2,)}, ("float",), opset=18, keep=True),
    Subject("Hardmax", "ranked_from_both_ends", {"axes": (1, -2)}, ("float",), opset=18, keep=True),
    Subject("Hardmax", "ranked_from_both_ends", {"axes": (1, -1, -2)}, ("float",), opset=18, keep=True),
    Subject("Hardmax", "through_float", ROWS, ("float16[2,3]",), opset=13),
    Subject("Hardmax", "merged", {"axes": (1, 2)}, ("float[n,3,2]",), keep=True),
    Subject("Hardmax", "index_equal", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_equal", ROWS, ("float[2,5]",), opset=9),
    Subject("Hardmax", "index_equal_float", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_equal_int16", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_equal_uint8", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_relu", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_scatter", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "index_padded", {"axes": (0,)}, ("float[5,1]",)),
    Subject("Hardmax", "product", {"axes": (1, 2)}, ("float[2,3,4]",)),
    Subject("Hardmax", "sign_relu", ROWS, ("float[2,5]",)),
    Subject("Hardmax", "topk_equal", ROWS, ("float[n,m]",)),
    Subject("Hardmax", "padded_index_equal", ROWS, ("float[n,m]",)),
    Subject("Hardmax", "scattered_at_run_time", ROWS, ("float[n,m]",), opset=18, keep=True),
    Subject("Hardmax", "first_hit", ROWS, ("float[n,m]",)),
    Subject("Hardmax", "first_hit", {"axes": (1,)}, ("float",), opset=18),
    Subject("Hardmax", "reshaped_index_equal", {"axes": (1,)}, ("float[n,m,3]",), opset=18),
    Subject("ArgMax", "widened", {"axis": 1}, ("int16[2,5]",)),
    Subject("ArgMax", "signed", {"axis": 1}, ("uint64[2,5]",), opset=18),
    Subject("ArgMax", "shifted", {"axis": 1}, ("uint64[2,5]",)),
    Subject("ArgMax", "squeezed", {"axis": 1, "keepdims": 0}, ("float[2,5]",)),
    Subject("ArgMax", "ranked", {"axis": 1}, ("float",), opset=18),
    Subject("ArgMax", "topk", {"axis": 1}, ("float[2,m]",)),
    Subject("ArgMax", "topk_if_any", {"axis": 1}, ("float[n,m]",)),
    Subject("ArgMax", "topk_if_any", {"axis": 1, "keepdims": 0}, ("float",), opset=18),
    Subject("ArgMax", "first_sum", {"axis": 1}, ("float",), opset=18),
    Subject("ArgMax", "last_sum", {"axis": 1, "select_last_index": 1}, ("float",), opset=18),
    Subject("ArgMax", "first_score", {"axis": 1}, ("int32[2,5]",)),
    Subject("ArgMax", "first_score", {"axis": 1}, ("float[2,m,3]",)),
    Subject("ArgMax", "first_score", {"axis": 1}, ("float[2,m,3]",), opset=9),
    Subject("ArgMax", "last_score", {"axis": 1, "select_last_index": 1}, ("int32[2,5]",)),
    Subject("ArgMax", "last_score", {"axis": -2, "select_last_index": 1}, ("double[2,m,3]",)),
    Subject("ArgMax", "index_cast", {"axis": 1, "dtype": 6}, ("float[2,5]",)),
    *(
        Subject("ArgMax", f"{which}_{how}", {"axis": 1, **more}, ("float[2,5]",))
        for which, more in (("first", {}), ("last", {"select_last_index": 1}))
        for how in ("place", "place_below", "score_below", "sign")
    ),
    Subject("ArgMax", "blocked", {"axis": 1}, ("float[48,180]",), keep=True),
    Subject("ArgMax", "blocked_at_run_time", {"axis": 1}, ("float[n,m]",), opset=18, keep=True),
    Subject(
        "ArgMax", "blocked_at_run_time", {"axis": 2, "select_last_index": 1}, ("int32[a,b,m]",), opset=18, keep=True
    ),
    Subject("ArgMax", "first_blocked_in_bytes", {"axis": 1}, ("float[9,36,26]",), opset=18, keep=True),
    Subject(
        "ArgMax",
        "last_blocked_in_bytes",
        {"axis": 1, "select_last_index": 1},
        ("float[9,36,26]",),
        opset=18,
        keep=True,
    ),
    Subject("ArgMax", "mirrored", {"axis": 1, "select_last_index": 1}, ("float[2,5]",)),
    Subject("Celu", "by_exp", {"alpha": 2.0}, ("float[40]",)),
    Subject("Elu", "by_tanh", {}, ("float[40]",)),
    Subject("Selu", "by_elu", {}, ("float[40]",)),
    Subject("Softplus", "without_overflow", {}, ("float[40]",)),
    Subject("Shrink", "compared", {"bias": 1.0, "lambd": 1.5}, ("float[40]",)),
    Subject("ConvInteger", "in_float", {}, ("uint8[1,2,4]", "int8[3,2,2]", "uint8[]", "int8[3]"), opset=18),
    Subject("ConvInteger", "with_zero_of_x", {}, ("uint8[1,2,4]", "int8[3,2,2]", None, "int8[]"), opset=18),
    Subject("ConvInteger", "with_zero_of_w", {}, ("uint8[1,2,4]", "uint8[3,2,2]", "uint8[]", None), opset=18),
    Subject("MatMulInteger", "in_int32", {}, ("uint8[2,3]", "int8[3,4]", "uint8[]", "int8[4]"), opset=18),
    Subject("MatMulInteger", "in_float", {}, ("uint8[2,3]", "int8[3,4]", "uint8[]", "int8[4]"), opset=18),
    Subject("MatMulInteger", "in_double", {}, ("uint8[2,3]", "int8[3,4]", "uint8[]", "int8[4]"), opset=18),
    Subject(
        "MatMulInteger",
        "in_double_with_overflow",
        {},
        ("uint8[1,180000]", "uint8[180000,1]", "uint8[]", "uint8[]"),
        opset=18,
    ),
    Subject("GlobalAveragePool", "by_mean", {}, ("float[2,3,4,5]",), opset=18),
    Subject("GlobalMaxPool", "by_maximum", {}, ("float[2,3,4,5]",), opset=18),
    Subject("LpNormalization", "by_l1", {"axis": 1, "p": 1}, ("float[2,3,4]",), opset=18),
    Subject("LpNormalization", "by_l2", {"axis": 1, "p": 2}, ("float[2,3,4]",), opset=18),
    Subject("LRN", "by_neighbours", {"alpha": 0.5, "size": 3}, ("float[2,5,3,2]",), opset=18),
    Subject("LRN", "by_neighbours_at_run_time", {"alpha": 0.5, "size": 3}, ("float[2,c,3]",), opset=18),
    Subject("LRN", "of_four_axes", {"alpha": 0.5, "size": 3}, ("float",), opset=18, keep=True),
    Subject("InstanceNormalization", "of_rows", {}, ("float", "float[c]", "float[c]"), opset=18),
    Subject("TopK", "of_parts", {}, ("float[2,4100]", ints(2)), opset=18, keep=True, used=TWO),
    Subject("TopK", "along_last", {"axis": 0}, ("float[4100,2]", ints(2)), opset=18, keep=True, used=TWO),
    Subject("GlobalLpPool", "by_l1", {"p": 1}, ("float[2,3,4,5]",), opset=18),
    Subject("GlobalLpPool", "by_l2", {"p": 2}, ("float[2,3,4,5]",), opset=18),
    Subject("GlobalLpPool", "by_powers", {"p": 3}, ("float[2,3,4,5]",), opset=18),
    Subject("MatMulInteger", "with_column", {}, ("uint8[2,3]", "uint8[3,4]", "uint8[2]", "uint8[]"), opset=18),
    Subject("MatMulInteger", "with_zero_of_a", {}, ("uint8[2,3]", "uint8[3,4]", None, "uint8[]"), opset=18),
    Subject("MatMulInteger", "with_zero_of_b", {}, ("uint8[2,3]", "uint8[3,4]", "uint8[]", None), opset=18),
    Subject("MeanVarianceNormalization", "by_distance", {}, ("float[2,3,2,2]",), opset=18),
    Subject("DynamicQuantizeLinear", "measured", {}, ("float[40]",), used=(True, True, True)),
    Subject(
        "QLinearMatMul",
        "by_sums",
        {},
        ("uint8[2,3]", "float[]", "uint8[]", "uint8[3,4]", "float[]", "uint8[]", "float[]", "uint8[]"),
        opset=18,
    ),
    Subject(
        "QLinearMatMul",
        "by_floats",
        {},
        ("uint8[2,3]", "float[]", "uint8[]", "int8[3,4]", "float[4]", "int8[4]", "float[]", "uint8[]"),
        opset=18,
    ),
    Subject("ReduceL2", "root_of_squares", {}, ("float[2,3,4]", ints(1)), opset=18),
    Subject("ReduceL2", "whole_root_of_squares", {"keepdims": 0}, ("int32[2,3,4]", ints(1)), opset=18),
    Subject("ReduceLogSum", "of_sum", {}, ("float[2,3,4]", ints(1)), opset=18),
    Subject("ReduceLogSumExp", "shifted", {"keepdims": 0}, ("float[2,3,4]", ints(1)), opset=18),
    Subject("ReduceSumSquare", "of_squares", {}, ("float[2,3,4]", ints(1)), opset=18),
    Subject("LayerNormalization", "flattened", {"axis": 1}, ("float", "float[]", None), 18, used=(True,) * 3),
    *(
        Subject("Attention", name, what, (*PER_HEAD, *more, *[None] * (4 - len(more))), opset=18)
        for name, what, more in (
            ("with_bias", {}, ("bool[3,5]",)),
            ("with_past", {}, (None, "float[2,2,4,4]", "float[2,2,4,6]")),
            ("with_triangle", {"is_causal": 1}, ()),
            ("of_products", {}, ()),
            ("of_biased_products", {}, ("float[3,5]",)),
        )
    ),
    Subject("Attention", "shared_keys", {}, ("float[2,4,3,4]", *PER_HEAD[1:], *[None] * 4), opset=18),
    Subject("Attention", "of_rows", {"q_num_heads": 2, "kv_num_heads": 2}, (*IN_ROWS, *[None] * 4), opset=18),
    Subject(
        "Attention",
        "with_axes_of_heads",
        {"q_num_heads": 2, "kv_num_heads": 2},
        (*IN_ROWS, "float[3,5]", *[None] * 3),
        opset=18,
    ),
    Subject("RotaryEmbedding", "gathered", {}, ("float[2,3,2,4]", *["float[5,2]"] * 2, "int64[2,2]"), opset=18),
    Subject("RotaryEmbedding", "by_heads", {"num_heads": 3}, ("float[2,2,12]", *["float[2,2,2]"] * 2, None), opset=18),
    Subject(
        "RotaryEmbedding",
        "in_part",
        {"rotary_embedding_dim": 2},
        ("float[2,3,2,4]", *["float[2,2,1]"] * 2, None),
        opset=18,
    ),
    Subject("RotaryEmbedding", "of_halves", {}, ("float[2,3,2,4]", *["float[2,2,2]"] * 2, None), opset=18),
    Subject(
        "RotaryEmbedding",
        "of_neighbours",
        {"interleaved": 1},
        ("float[2,3,2,4]", *["float[2,2,2]"] * 2, None),
        opset=18,
    ),
    Subject("OneHot", "wrapped", HOT, ("int64[2,3]", "int64[]", "float[2]"), keep=True),
    Subject("OneHot", "wrapped_by_product", HOT, ("int64[2,3]", "int64[]", "float[2]"), keep=True),
    Subject("OneHot", "raised", {**HOT, "negative": "off"}, ("int64[2,3]", "int64[]", "float[2]"), keep=True),
    Subject("OneHot", "as_int64", HOT, ("int32[4]", "int64[]", "float[2]"), keep=True),
    Subject("OneHot", "as_int64", HOT, ("uint64[4]", "int64[]", "float[2]"), keep=True),
    Subject("OneHot", "as_float", HOT, ("float16[4]", "float[]", "float[2]"), keep=True),
    Subject("OneHot", "cut", {**HOT, "axis": 1}, ("float[2,3]", np.array(5), "float[2]")),
    Subject("OneHot", "taken_as_whole", {**HOT, "axis": 1}, ("float[2,3]", np.array(5), "float[2]"), tamed=whole),
    Subject("OneHot", "cut", HOT, ("double[4]", np.array(5), MASK)),
    Subject("OneHot", "values_as_float", HOT, ("int64[4]", "int64[]", "bfloat16[2]"), keep=True),
    Subject("OneHot", "cast_mask", HOT, ("int64[4]", "int64[]", ints(0, 1))),
    Subject("OneHot", "where_mask", HOT, ("int64[4]", "int64[]", "int32[2]")),
    Subject("OneHot", "gather_mask", HOT, ("int64[4]", "int64[]", "float[2]")),
    Subject("OneHot", "gather_mask", HOT, ("int64[4]", "int64[]", "string[2]"), opset=9),
    Subject("OneHot", "equal_iota", {**HOT, "axis": 1, "negative": "off"}, ("int64[2,3]", "int64[]", MASK)),
    Subject("OneHot", "equal_iota", OFF, ("float[2,3]", "int64[]", MASK), tamed=whole),
    Subject("OneHot", "equal_below", {**OFF, "negative": "only"}, ("int64[2,3]", np.array(4), MASK)),
    Subject("OneHot", "equal_sums", {**OFF, "axis": 1}, ("int64", "int64[]", MASK), opset=18),
    Subject("OneHot", "shifted", {**OFF, "negative": "only"}, ("int64[2,3]", "int64[]", "float[2]")),
    Subject("OneHot", "counted_in_float", HOT, ("int64[4]", np.array(5), "float[2]")),
    Subject("OneHot", "counted_in_int16", WHOLE, ("float[4]", np.array(5), MASK), tamed=whole),
    Subject("OneHot", "counted_in_int8", WHOLE, ("float[4]", np.array(5), MASK), tamed=whole),
    Subject("OneHot", "relu_iota", WHOLE, ("float[4]", np.array(5), ints(0, 1)), tamed=whole),
    Subject("OneHot", "sign_iota", OFF, ("float[2,3]", np.array(5), ints(0, 1)), tamed=whole),
    Subject("OneHot", "added", HOT, ("int64[4]", np.array(5), ints(0, 1))),
    Subject("OneHot", "either", HOT, ("int64[4]", np.array(5), MASK)),
    Subject("OneHot", "scaled", HOT, ("int64[4]", "int64[]", ints(2, 5))),
    Subject("OneHot", "blended", HOT, ("int64[4]", "int64[]", np.array([2, 5], np.float32))),
    Subject("OneHot", "scattered", HOT, ("int64[2,3]", "int64[]", "float[2]")),
    Subject("OneHot", "scattered", {**OFF, "axis": 0}, ("int64[2,3]", "int64[]", "float[2]")),
    Subject("OneHot", "ranked", {**HOT, "axis": 1}, ("int64", "int64[]", "float[2]"), opset=18),
    Subject("OneHot", "reversed_axes", {**HOT, "axis": 0}, ("int64", "int64[]", "float[2]")),
    Subject("ReduceMax", "apart", {}, ("float[2,3,4]", "int64[1]"), keep=True),
    Subject("ReduceSum", "squeezed", {"keepdims": 0}, ("float[2,3,4]", "int64[1]"), keep=True),
    Subject("ReduceSum", "left_alone", {"noop_with_empty_axes": 1}, ("float[2,3]", None), opset=12, keep=True),
    Subject("ReduceL1", "along_a_new_axis", {"noop_with_empty_axes": 1}, ("float[2,3]", None), opset=12, keep=True),
    Subject("ReduceMax", "larger_half", {}, ("int8[2,5,3]", ints(1)), opset=18, keep=True),
    Subject("ReduceMax", "larger_half", {}, ("float[2,5,3]", ints(1)), opset=18),
    Subject("Sum", "alone", {}, ("float[n,3]",)),
    Subject("Transpose", "by_places", {"perm": (2, 0, 1)}, ("float[2,3,4]",)),
    Subject("Max", "chosen_of_floats", {}, ("float[n,3]", "float[3]")),
    Subject("Min", "chosen_of_floats", {}, ("float[n,3]", "float[3]")),
    Subject("ConvTranspose", "spread", UPSAMPLED, ("float[n,2,h,3]", "float[2,1,3,2]", None), opset=18, keep=True),
    Subject("ConvTranspose", "cut", {"pads": (3, 2)}, ("float[n,2,6]", "float[2,1,2]", None), opset=18, keep=True),
    Subject(
        "ConvTranspose", "by_convolution", {"pads": (1, 0)}, ("float[2,2,5]", "float[2,3,3]", "float[3]"), opset=18
    ),
    Subject("ConvTranspose", "by_grouped_convolution", {"group": 2}, ("float[2,4,5]", "float[4,3,2]", None), opset=18),
    Subject("ConvTranspose", "cut_at_run_time", SHAPED, ("float[1,2,h]", "float[2,1,3]", None), opset=18, keep=True),
    Subject("Conv", "with_pads", {"auto_pad": "SAME_LOWER"}, FILTERED, opset=22, keep=True),
    Subject("Conv", "with_sum", {"pads": (1, 0, 0, 1)}, (*FILTERED[:2], "float[6]"), opset=22, keep=True),
    Subject("Conv", "by_matmul", {}, ("float[n,4,5,6]", "float[6,4,1,1]", None), opset=18),
    Subject("Conv", "with_channels_last", {}, ("float[n,4,h,w]", "float[6,4,1,1]", None), opset=18),
    Subject("Conv", "by_patches", {"pads": (0, 1, 1, 0), "strides": (2, 1), "group": 2}, GROUPED, opset=18),
    Subject("Conv", "by_patches", {"dilations": (2, 1)}, FILTERED, opset=18),
    Subject("MatMul", "by_gemm", {}, ("float[n,4]", "float[4,m]")),
    Subject("MatMul", "by_products", {}, ("float[n,4]", "float[2,4,5]")),
    Subject("MatMul", "by_products", {}, ("float[4]", "float[4,5]")),
    Subject("MatMul", "by_products", {}, ("float[n,4]", "float[4]")),
    Subject("Det", "by_terms", {}, ("float[n,3,3]",), opset=18),
    Subject("QLinearConv", "by_sums", {"pads": (1, 0, 0, 1)}, (*CONVOLVED, None), opset=18),
    Subject("QLinearConv", "by_sums_and_bias", {"strides": (1, 2)}, (*CONVOLVED, "int32[3]"), opset=18),
    Subject("QLinearConv", "by_floats", {"strides": (1, 2)}, (*CONVOLVED, "int32[3]"), opset=18),
    Subject(
        "AveragePool", "by_convolution", {"kernel_shape": (2, 3), "pads": (1, 0, 0, 1)}, ("float[n,2,4,5]",), opset=18
    ),
    Subject("ReduceMax", "largest", {}, ("float[2,5,3]", ints(1)), opset=18),
    Subject("ReduceMax", "largest_beside_lowest", {}, ("float[2,n,3]", ints(1)), opset=18),
    Subject("ReduceMax", "least_negative", {}, ("float[2,n,3]", ints(1)), opset=18),
    Subject("ReduceMax", "least_complement", {"keepdims": 0}, ("int32[2,n,3]", ints(1)), opset=18),
    Subject("ReduceMin", "greatest_negative", {"keepdims": 0}, ("float[2,n,3]", ints(1)), opset=18),
    Subject("ReduceMin", "greatest_complement", {}, ("uint8[2,n,3]", ints(1)), opset=18),
    Subject("ReduceMean", "global_average", {}, ("float[2,3,4,5]", ints(2, 3)), opset=18),
    Subject("ReduceMean", "of_sum", {}, ("float[n,3,4]", ints(1)), opset=18),
    Subject("ReduceMean", "of_sum_and_sizes", {"keepdims": 0}, ("float[n,m]", ints(1)), opset=18),
    Subject("ReduceProd", "product_of_halves", {}, ("float[n,4]", ints(1)), opset=18),
    Subject("ReduceProd", "product_in_double", {}, ("int32[n,3]", ints(1)), opset=18, keep=True),
    Subject("ReduceProd", "product_with_last", {"keepdims": 0}, ("float[n,3]", ints(1)), opset=18),
    Subject("ReduceSum", "by_column", {}, ("float[n,3]", ints(1)), opset=18),
    Subject("ReduceSum", "by_column_of_its_length", {}, ("float[n,m]", ints(1)), opset=18),
    Subject("ReduceSum", "by_row", {}, ("float[3,n]", ints(0)), opset=18),
    Subject("ReduceSum", "sum_of_halves", {}, ("float[n,4]", ints(1)), opset=18),
    Subject("ReduceSum", "sum_with_last", {"keepdims": 0}, ("float[n,3]", ints(1)), opset=18),
    Subject("ReduceSum", "one_by_one", {"keepdims": 0}, ("float[n,3,m]", ints(0, 2)), opset=18, keep=True),
    Subject("ReduceSum", "moved_last", {}, ("float[n,3,4,2]", ints(1)), opset=18, keep=True),
    Subject("ReduceMin", "kept_first", {"keepdims": 0}, ("float[n,3,4,2]", ints(1)), opset=18, keep=True),
    Subject("ReduceMin", "in_one_row", {"keepdims": 0}, ("float", None), opset=18, keep=True),
    Subject("ReduceMin", "in_one_row_with_axes", {}, ("float[n,m]", None), opset=18, keep=True),
    Subject("ReduceMin", "in_one_row_of_any_rank", {}, ("float", None), opset=18, keep=True),
    Subject("ReduceMin", "smaller_half", {"keepdims": 0}, ("uint8[2,5,3]", ints(1)), opset=18, keep=True),
    Subject("ReduceMax", "of_one", {"keepdims": 0}, ("float[2,1,3]", ints(1)), opset=18, keep=True),
    Subject("ReduceMax", "in_integers", {}, ("bool[2,3,4]", ints(1)), opset=18, keep=True),
    Subject("ReduceMin", "in_integers", {"keepdims": 0}, ("bool[2,3,4]", ints(1)), opset=9, keep=True),
    Subject("CumSum", "of_each_place", {"exclusive": 1}, ("float[2,3]", np.array(1))),
    Subject("CumSum", "of_each_integer", {"exclusive": 1}, ("int32[2,3]", np.array(1))),
    Subject("CumSum", "of_halves_of_each_integer", {"reverse": 1}, ("int64[2,3]", np.array(1))),
    Subject("CumSum", "as_three_axes", {"exclusive": 1}, ("float[2,3,4]", "int64[]"), keep=True),
    Subject("CumProd", "of_each_place", {"exclusive": 1, "reverse": 1}, ("float[2,3]", np.array(0))),
    Subject("CumProd", "by_doubling", {}, ("int64[2,5]", np.array(1))),
    Subject("CumProd", "by_doubling", {"reverse": 1}, ("uint32[5,2]", np.array(0))),
    Subject("CumProd", "of_those_before", {"exclusive": 1, "reverse": 1}, ("int32[2,3]", np.array(1))),
    Subject("Mod", "by_long_division", {"fmod": 1}, ("float16[2,3]", "float16[3]")),
    Subject(
        "Mod",
        "of_first_digits",
        {"fmod": 1, "digits": 24, "bits": 80},
        ("double[2,3]", "double[3]"),
        tamed=quotients(80),
    ),
    Subject(
        "Mod",
        "of_last_digits",
        {"fmod": 1, "digits": 24, "bits": 20},
        ("double[2,3]", "double[3]"),
        tamed=quotients(20),
    ),
    Subject("Mod", "by_power_of_two", {"fmod": 1}, ("float[2,3]", np.array([4, -1, 2], np.float32))),
    Subject("Mod", "of_quotient", {}, ("uint32[2,3]", "uint32[3]")),
    Subject("Mod", "truncated", {"fmod": 1}, ("int32[2,3]", "int32[3]")),
    Subject("Mod", "floored", {}, ("int32[2,3]", "int32[3]")),
    Subject("Mod", "floored_floats", {}, ("float[2,3]", "float[3]"), keep=True),
    Subject("Pow", "in_double", {}, ("float[2,3]", "int32[3]"), opset=9, keep=True),
    Subject("Pow", "squared", {}, ("float[2,3]", np.array(2, np.float32))),
    Subject("Pow", "cubed", {}, ("float[2,3]", np.array(3, np.float32))),
    Subject("Pow", "itself", {}, ("float[2,3]", np.array(1, np.float32))),
    Subject("Pow", "inverse", {}, ("float[2,3]", np.array(-1, np.float32))),
    Subject("Pow", "of_square", {}, ("float[2,3]", np.array(4, np.float32))),
    Subject("Pow", "once_more", {}, ("int32[2,3]", np.array(5, np.int32))),
    Subject("Pow", "of_reciprocal", {}, ("float[2,3]", np.array(-2, np.float32))),
    Subject("Pow", "root", {}, ("float[2,3]", np.array(0.5, np.float32))),
    Subject("Pow", "inverse_root", {}, ("double[2,3]", np.array(-0.5))),
    Subject("Pow", "of_wide_integers", {}, ("int64[2,3]", "int64[3]"), opset=9, keep=True),
    Subject("Div", "by_reciprocal", {}, ("float[2,3]", "float[3]")),
    Subject("Div", "by_scaled_reciprocal", {}, ("double[9]", "double[9]"), tamed=far),
    Subject("Div", "in_three_parts", {}, ("int64[2,3]", "int64[3]"), opset=16),
    Subject("Div", "in_unsigned_parts", {}, ("uint64[2,3]", "uint64[3]"), opset=18),
    Subject("Size", "of_shape", {}, ("float[n,m]",)),
    Subject("BitShift", "multiplied", {}, ("int32[40,3]", "int32[40,3]")),
    Subject("BitShift", "divided", {"direction": "RIGHT"}, ("int32[40,3]", "int32[40,3]")),
    Subject("BitShift", "divided_uint64", {"direction": "RIGHT"}, ("uint64[2,3]", "uint64[3]")),
    Subject("BitCast", "recast", {"to": TensorProto.UINT8}, ("int8[40]",)),
    Subject("BitCast", "measured", {"to": TensorProto.INT32}, ("float[400]",)),
    Subject("BitCast", "measured", {"to": TensorProto.UINT64}, ("double[400]",)),
    Subject("BitCast", "composed", {"to": TensorProto.FLOAT}, ("uint32[400]",)),
    Subject("BitCast", "composed", {"to": TensorProto.FLOAT16}, ("int16[400]",)),
    Subject("BitCast", "by_integers", {"to": TensorProto.BFLOAT16}, ("float16[400]",), opset=26, keep=True),
    Subject("BitwiseAnd", "by_bits", {}, ("int64[40,3]", "int64[40,3]")),
    Subject("BitwiseOr", "by_sum", {}, ("int64[40,3]", "int64[40,3]")),
    Subject("BitwiseXor", "by_sum", {}, ("int64[40,3]", "int64[40,3]")),
    Subject("BitwiseNot", "complement", {}, ("int64[40,3]",)),
    Subject("Round", "by_floor", {}, ("float[40]",)),
    Subject("QuantizeLinear", "with_zero_point", {}, ("float[40]", "float[]", None), opset=13),
    Subject("QuantizeLinear", "by_element", {"block_size": 2}, ("float[2,4]", "float[2,2]", "uint8[2,2]"), opset=13),
    Subject("QuantizeLinear", "by_division", {}, ("float[40]", "float[]", "int8[]"), opset=13),
    Subject("DequantizeLinear", "with_zero_point", {}, ("uint8[40]", "float[]", None), opset=13),
    Subject("DequantizeLinear", "by_element", {"block_size": 2}, ("int8[2,4]", "float[2,2]", "int8[2,2]"), opset=13),
    Subject("DequantizeLinear", "by_product", {}, ("int8[40]", "float[]", "int8[]"), opset=13),
    Subject(
        "DequantizeLinear",
        "by_float_scale",
        {"output_dtype": TensorProto.FLOAT},
        ("int8[40]", "float16[]", "int8[]"),
        opset=21,
        keep=True,
    ),
    Subject(
        "ScatterND",
        "at_known_places",
        {},
        ("float[3,4,2]", np.array([[0, 2], [-1, -2]], np.int64), "float[2,2]"),
        keep=True,
    ),
    Subject(
        "ScatterND", "along_one_axis", {}, ("float[3,4]", np.array([[2], [-3]], np.int64), "float[2,4]"), keep=True
    ),
    Subject(
        "ScatterND",
        "axis_by_axis",
        {},
        ("float[3,4]", np.array([[2, 1], [2, 0], [0, 1], [0, 0]], np.int64), "float[4]"),
        keep=True,
    ),
    Subject(
        "ScatterND", "in_numbered_rows", {}, ("float[3,4]", np.array([[2, 1], [0, 3]], np.int64), "float[2]"), keep=True
    ),
    Subject("ScatterND", "by_matches", {}, ("float[3,4]", "int64[2,1]", "float[2,4]"), opset=18, keep=True),
    Subject("ScatterND", "in_computed_rows", {}, ("float[3,4,2]", "int64[5,2]", "float[5,2]"), keep=True),
    Subject("ScatterND", "in_a_row", {}, ("float[3,4,2]", "int64[5,2]", "float[5,2]")),
    Subject(
        "ScatterND", "in_rows", {"reduction": "add"}, ("float[3,4,2]", "int64[5,2]", "float[5,2]"), opset=18, keep=True
    ),
    Subject(
        "ScatterElements",
        "by_sums",
        {"axis": 1, "reduction": "add"},
        ("float[3,4]", "int64[3,2]", "float[3,2]"),
        opset=18,
    ),
    Subject(
        "ScatterElements", "by_products", {"reduction": "mul"}, ("float[3,4]", "int64[2,3]", "float[2,3]"), opset=18
    ),
    Subject("ScatterElements", "by_maxima", {"reduction": "max"}, ("float[3,4]", "int64[2,3]", "float[2,3]"), opset=18),
    Subject("ScatterElements", "by_minima", {"reduction": "min"}, ("int64[3,4]", "int64[2,3]", "int64[2,3]"), opset=18),
    Subject(
        "ScatterElements",
        "by_sums_of_halves",
        {"reduction": "add"},
        ("int64[3,4]", "int64[2,3]", "int64[2,3]"),
        opset=18,
    ),
    Subject(
        "ScatterElements",
        "along_one_axis",
        {"axis": 1},
        ("float[2,4]", np.array([[3, -4], [3, -4]], np.int64), "float[2,2]"),
        keep=True,
    ),
    Subject(
        "ScatterElements",
        "at_known_places",
        {"axis": 1},
        ("float[3,4]", np.array([[3, -4], [1, 2]], np.int64), "float[2,2]"),
        keep=True,
    ),
    Subject("ScatterElements", "by_coordinates", {"axis": 1}, ("float[3,4]", "int64[3,2]", "float[3,2]"), keep=True),
    Subject("ScatterElements", "by_last", {"axis": 1}, ("float[3,4]", "int64[2,3]", "float[2,3]"), opset=18),
    Subject("ScatterElements", "as_scatter", {"axis": 1}, ("float[3,4]", "int64[3,2]", "float[3,2]"), opset=9),
    Subject("Where", "one_or_zero", {}, ("bool[2,3]", np.array(1), np.array(0))),
    Subject("Where", "zero_or_one", {}, ("bool[2,3]", np.array([0], np.float32), np.array(1, np.float32))),
    Subject("Where", "by_logic", {}, ("bool[2,3]", "bool[2,3]", "bool[3]")),
    Subject("Where", "by_product", {}, ("bool[2,3]", "int64[2,3]", "int64[3]")),
    Subject("Where", "by_gather", {}, ("bool[2,3]", "double[2,3]", "double[3]")),
    Subject("Where", "by_gather", {}, ("bool[2,n]", "int32[2,n]", "int32[n]")),
    Subject("Range", "in_float", {}, ("float16[]", "float16[]", "float16[]"), keep=True),
    Subject("Range", "counted", {}, ("int64[]", "int64[]", "int64[]"), keep=True),
    Subject("Range", "counted", {}, ("int16[]", "int16[]", np.array(-2, np.int16)), keep=True),
    Subject("Range", "counted", {}, ("float[]", "float[]", "float[]"), keep=True),
    Subject("TensorScatter", "from_start", {}, ("float[2,4,3]", "float[2,2,3]", None), opset=24, keep=True),
    Subject("TensorScatter", "looked_up", {}, ("float[2,4,3]", "float[2,2,3]", "int64[2]")),
    Subject("TensorScatter", "looked_up", {"mode": "circular"}, ("float[2,4,n]", "float[2,2,n]", "int64[2]")),
    Subject("Range", "nonzero", {}, (np.array(0, np.int64), "int64[]", np.array(1, np.int64))),
    Subject("Range", "folded", {}, (np.array(0, np.int64), "int64[]", np.array(1, np.int64)), opset=9),
    Subject("Einsum", "summed", {"equation": "ijk->ki"}, ("float[2,3,4]",)),
    Subject("Einsum", "diagonal", {"equation": "iji->ij"}, ("float[3,2,3]",)),
    Subject("Einsum", "diagonal", {"equation": "iij->ij"}, ("float[n,n,2]",), opset=18),
    Subject("Einsum", "apart", {"equation": "ijk,jl->il"}, ("float[2,3,4]", "float[3,2]"), keep=True),
    Subject("Einsum", "multiplied", {"equation": "ij,kj->jki"}, ("float[2,3]", "float[4,3]")),
    Subject("Einsum", "by_matrices", {"equation": "bij,bkj->ikb"}, ("float[2,3,4]", "float[2,5,4]")),
    Subject("Einsum", "by_matrices", {"equation": "bij,bjkl->likb"}, ("float[b,3,n]", "float[b,n,5,2]"), opset=18),
    Subject(
        "Einsum", "two_by_two", {"equation": "ij,jk,kl->il"}, ("float[2,3]", "float[3,4]", "float[4,2]"), keep=True
    ),
    Subject("ReverseSequence", "looked_up", {}, ("float[4,3,2]", "int64[3]")),
    Subject("ReverseSequence", "looked_up", {"batch_axis": 0, "time_axis": 1}, ("float[3,n]", "int64[3]")),
    Subject("Max", "chosen", {}, ("int64[2,3]", "int64[3]"), opset=11, keep=True),
    Subject("Min", "chosen", {}, ("int64[2,3]", "int64[3]"), opset=11, keep=True),
    Subject("Equal", "by_order", {}, ("float[2,3]", "float[3]")),
    Subject("Equal", "by_number", {}, ("string[2,3]", "string[3]"), keep=True),
    Subject("Less", "exchanged", {}, ("float[2,3]", "float[3]")),
    Subject("Add", "aligned", {"axis": 1}, ("float[2,3,4,5]", "float[3]"), keep=True),
    Subject("Sub", "aligned", {"axis": 0}, ("float[2,3,4]", "float[2,3]"), keep=True),
    Subject("PRelu", "by_parts", {}, ("float[2,3]", np.array([0.25, -2, 0], np.float32)), keep=True),
    Subject("PRelu", "aligned", {"axis": 1, "vectors": True}, ("float[2,3,4]", "float[3]"), keep=True),
    Subject("Add", "of_negative", {}, ("float[2,3]", "float[3]")),
    Subject("Sub", "of_negative", {}, ("int32[2,3]", "int32[3]")),
    Subject("Sub", "first_as_vector", {}, (np.array([[2]], np.float32), "float[2,3]"), keep=True),
    Subject("Sub", "second_widened", {}, (np.array([[[2]]], np.float32), "float[3]"), keep=True),
    Subject("Sub", "first_widened", {}, ("float[3]", np.array([[[2]]], np.float32)), keep=True),
    Subject("Sub", "second_as_vector", {}, ("float[2,3]", np.array([[2]], np.float32)), keep=True),
    Subject("Neg", "by_product", {}, ("float[2,3]",)),
    Subject("IsNaN", "unequal", {}, ("float[2,3]",)),
    Subject("Squeeze", "reshaped_to_known", {}, ("float[n,1,3]", ints(1))),
    Subject("Unsqueeze", "reshaped_to_known", {}, ("float[n,3]", ints(1))),
    Subject("Squeeze", "reshaped_to_kept", {}, ("float[n,1,m]", ints(1)), opset=18),
    Subject("Squeeze", "reshaped_at_run_time", {}, ("float[n,1,m,1]", "int64[2]"), opset=18),
    Subject("Squeeze", "reshaped_to_others_than_one", {}, ("float[n,1,3]", None), opset=18),
    Subject("Unsqueeze", "reshaped_to_grown", {}, ("float[n,m]", ints(1)), opset=18),
    Subject("Unsqueeze", "reshaped_at_run_time", {}, ("float[n,m]", "int64[2]"), opset=18),
    Subject("Less", "by_halves", {}, ("int64[2,3]", "int64[3]"), opset=11, keep=True),
    Subject("Less", "by_halves", {}, ("uint64[2,3]", "uint64[3]"), opset=8, keep=True),
    Subject("Greater", "exchanged", {}, ("float[2,3]", "float[3]")),
    Subject("GreaterOrEqual", "either", {}, ("float[2,3]", "float[3]")),
    Subject("LessOrEqual", "either", {}, ("float[2,3]", "float[3]")),
    Subject("IsNaN", "by_comparison", {}, ("float[2,3]",)),
    Subject("Reshape", "tiled", {"allowzero": 1}, ("float[n,m]", "int64[2]"), keep=True),
    Subject("Reshape", "tiled_behind", {"allowzero": 1}, ("float[n,m]", "int64[r]"), keep=True),
    Subject("Flatten", "reshaped", {"axis": 1}, ("float[2,3,m]",), opset=18),
    Subject("Gather", "taken", {"axis": 1}, ("float[2,3]", np.array(1, np.int64)), opset=13),
    Subject("Gather", "evenly", {"axis": 1}, ("float[2,5]", ints(1, 2)), opset=13),
    Subject("Gather", "in_runs", {"axis": 1}, ("float[2,6]", ints(2, 0, 1, 4)), opset=13),
    Subject("Gather", "in_plain_runs", {"axis": 1}, ("float[2,6]", ints(0, 2, 3)), opset=13),
    Subject("Gather", "guarded", {"axis": 1}, ("float[2,3]", "int64[2]"), opset=10, keep=True),
    Subject("Shape", "sliced", {"start": 1, "end": 3}, ("float[n,m,k]",), keep=True),
    Subject("Squeeze", "reshaped", {}, ("float", ints(-2)), opset=18),
    Subject("Unsqueeze", "reshaped", {}, ("float", ints(-2)), opset=18),
    Subject("Identity", "reshaped", {}, ("float[2,3]",)),
    Subject("Identity", "times_one", {}, ("float[n]",)),
    Subject("Identity", "longer_and_shorter", {}, ("seq(tensor(float))",)),
    Subject("Expand", "tiled", {}, ("float[1]", "int64[2]")),
    Subject("CastLike", "cast", {}, ("float[3]", "int32[1]")),
    Subject("ConstantOfShape", "expanded", {"value": Tensor(ints(3))}, ("int64[2]",)),
    Subject(
        "Slice", "one_by_one", {}, ("float[2,3]", "int64[2]", "int64[2]", ints(0, 1), ints(2, 1)), opset=18, keep=True
    ),
    Subject("Slice", "mirrored", {}, ("float[n,3]", "int64[1]", "int64[1]", ints(0), ints(-1)), opset=18, keep=True),
    Subject("Slice", "gathered", {}, ("float[5,3]", "int64[1]", "int64[1]", ints(0), ints(2)), opset=18),
    Subject("Clip", "from_lowest", {}, ("int32[2,3]", None, "int32[]"), opset=11),
    Subject("Clip", "to_highest", {}, ("int32[2,3]", "int32[]", None), opset=11),
    Subject("Clip", "chosen", {}, ("int32[2,3]", "int32[]", "int32[]")),
    Subject("Clip", "looked_up", {}, ("float[2,3]", "float[]", "float[]")),
    Subject("Clip", "between", {}, ("float[2,3]", np.array(-1, np.float32), np.array(2, np.float32))),
    Subject("Pad", "placed", {}, ("float[2,3]", ints(1, 2), None, ints(1)), keep=True),
    Subject("Pad", "with_zero", {}, ("int64[2,3]", ints(1, 0, 0, 2), None, None)),
    Subject("Pad", "cropped", {"mode": "reflect"}, ("float[3,4]", ints(-1, 2, 0, -1)), keep=True),
    Subject("Pad", "joined", {}, ("int64[2,n]", ints(1, 0, 0, 2), np.array(3), None)),
    Subject("Pad", "indexed", {"mode": "wrap"}, ("int64[2,3]", ints(1, 0, 0, 2), None, None)),
    Subject("Pad", "placed_at_run_time", {}, ("float[2,3]", "int64[2]", None, "int64[1]"), opset=18, keep=True),
    Subject("Pad", "bordered", {}, ("float[3]", "int64[2]", "float[]", None), opset=18),
    Subject("Pad", "held", {"mode": "edge"}, ("int64[3]", "int64[2]", None, None), opset=18),
    Subject("Pad", "repeated", {"mode": "reflect"}, ("int64[3]", "int64[2]", None, None), opset=18),
    Subject("Pad", "repeated", {"mode": "wrap"}, ("int64[3]", "int64[2]", None, None), opset=18),
    Subject("Pad", "unpadded", {}, ("int64[2,3]", ints(0, 0, 0, 0), None, None)),
    Subject("Expand", "repeated", {}, ("float[n,1]", "int64[3]"), opset=18),
    Subject("ArgMin", "of_negatives", {"axis": 1}, ("int32[2,5]",)),
    Subject("ArgMin", "of_complements", {"axis": 1}, ("int64[2,5]",)),
    Subject("Trilu", "from_main", {}, ("float[2,n]", None), opset=18),
    Subject("Trilu", "masked", {}, ("float[2,n]", "int64[]"), opset=18),
    Subject("Trilu", "masked", {"upper": 0}, ("int64[3,4]", "int64[]"), opset=9),
    Subject("GatherElements", "numbered", {"axis": 1}, ("float[4,3]", "int64[4,3]"), opset=18),
    Subject("AffineGrid", "of_images", {}, ("float[2,2,3]", "int64[4]"), opset=18),
    Subject("AffineGrid", "of_images", {"align_corners": 1}, ("float[2,2,3]", ints(2, 1, 3, 4)), opset=18),
    Subject("AffineGrid", "of_images", {"align_corners": 1}, ("float[2,2,3]", "int64[4]"), opset=18),
    Subject("AffineGrid", "of_volumes", {}, ("float[2,3,4]", ints(2, 1, 2, 3, 4)), opset=18),
    Subject("AffineGrid", "of_volumes", {"align_corners": 1}, ("float[2,3,4]", "int64[5]"), opset=18),
    Subject("AveragePool", "by_pads", CEILED, ("float[1,2,5]",), opset=18, keep=True),
    Subject("AveragePool", "padded", {**CEILED, **COUNTED}, ("float[1,2,5]",), opset=18, keep=True),
    Subject(
        "AveragePool",
        "padded",
        {"kernel_shape": (3,), "pads": (1, 0), **COUNTED},
        ("float[1,2,5]",),
        opset=18,
        keep=True,
    ),
    Subject("AveragePool", "by_convolution", DILATED, ("float[1,2,7]",), opset=18),
    Subject("AveragePool", "by_convolution", {**DILATED, **COUNTED}, ("float[n,2,7]",), opset=18),
    Subject("EyeLike", "from_float", {"dtype": 7, "k": 1}, ("bfloat16[a,b]",), opset=18, keep=True),
    Subject("EyeLike", "by_places", {"dtype": 1, "k": 1}, ("float[a,b]",), opset=18),
    Subject("LpPool", "by_pads", CEILED, ("float[1,2,5]",), opset=18, keep=True),
    Subject("LpPool", "by_distances", {"p": 1, "kernel_shape": (3,), "pads": (1, 0)}, ("float[1,2,5]",), opset=18),
    Subject(
        "LpPool", "by_squares", {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}, ("float[1,2,5]",), opset=18
    ),
    Subject("LpPool", "by_powers", {"p": 3, "kernel_shape": (3,), "pads": (0, 1)}, ("float[1,2,5]",), opset=18),
    Subject("MaxPool", "by_slices", CEILED, ("float[1,2,n]",), keep=True),
    Subject("MaxPool", "by_slices", {**WINDOWS, "dilations": (2, 1)}, ("int32[2,1,n,m]",)),
    Subject("AveragePool", "by_slices", {"kernel_shape": (3, 2), "strides": (2, 1)}, ("float[1,2,n,m]",)),
    Subject("AveragePool", "by_slices_and_numbers", CEILED, ("float[3,c,n]",)),
    Subject("AveragePool", "by_slices_and_numbers", {**CEILED, **COUNTED}, ("double[3,c,n]",)),
    Subject("AveragePool", "by_convolutions", WIDE, ("float[2,c,n]",)),
    Subject("MaxPool", "along_axis", {**CEILED, "ceil_mode": 0}, ("float[1,2,5]",), opset=18),
    Subject("MaxPool", "axis_by_axis", WINDOWS, ("float[n,2,4,5]",), opset=18),
    Subject("MaxPool", "with_indices", WINDOWS, ("float[n,2,4,5]",), opset=18, used=TWO),
    Subject("MaxPool", "with_indices", {**WINDOWS, "storage_order": 1}, ("float[2,2,4,5]",), opset=18, used=TWO),
    Subject("MaxPool", "at_run_time", {**WINDOWS, "strides": (2, 1)}, ("float[n,2,h,w]",), opset=18),
    Subject(
        "MaxPool", "at_run_time", {**CEILED, "pads": (2, 0), "storage_order": 1}, ("float[n,2,h]",), opset=18, used=TWO
    ),
    Subject("MaxPool", "at_run_time", WIDE, ("float[1,2,h]",), opset=18, used=TWO),
    Subject("MaxPool", "by_pads", CEILED, ("float[1,2,5]",), opset=9, keep=True, used=TWO),
    Subject("BatchNormalization", "flattened", {"spatial": 0}, ("float[2,3,4]", *["float[3,4]"] * 4), keep=True),
    Subject("BatchNormalization", "in_one_type", {}, ("float16[2,3,4]", *["float[3]"] * 4), keep=True),
    Subject(
        "BatchNormalization",
        "measured",
        {"training_mode": 1, "running": 1},
        ("float[4,3,2]", *["float[3]"] * 4),
        used=(True, True, True),
        keep=True,
    ),
    Subject("BatchNormalization", "computed", {}, ("float[2,3,4]", *["float[3]"] * 4)),
    Subject("GroupNormalization", "as_rows", {"num_groups": 3}, ("float[2,6,4]", "float[6]", "float[6]"), 18),
    Subject("GroupNormalization", "as_rows", {"num_groups": 3}, ("float[n,6,h]", "float[6]", "float[6]"), 18),
    Subject("GroupNormalization", "by_means", {"num_groups": 3}, ("float[n,6,h]", "float[6]", "float[6]"), 13),
    Subject("GroupNormalization", "by_channel", BY_GROUP, ("float[2,6,4]", *["float[2]"] * 2), 21, True, tamed=level),
    Subject("GroupNormalization", "by_channel", BY_GROUP, ("float[2,c,4]", *["float[g]"] * 2), 21, True, tamed=level),
    Subject("HardSwish", "clipped", {}, ("double[40]",), opset=11),
    Subject("Mish", "by_exp", {}, ("double[40]",)),
    Subject("Sum", "added", {}, ("float[2,3]", "float[3]")),
    Subject("Reciprocal", "divided", {}, ("float[2,3]",)),
    Subject("Sum", "in_pairs", {}, ("float[2,3]", "float[3]", "float[2,1]")),
    Subject("Mean", "divided", {}, ("float[2,3]", "float[3]", "float[2,1]")),
    Subject("Max", "in_pairs", {}, ("int64[2,3]", "int64[3]", "int64[2,1]"), opset=11, keep=True),
    Subject("Min", "in_pairs", {}, ("int64[2,3]", "int64[3]", "int64[2,1]"), opset=11, keep=True),
    Subject("Max", "spread", {}, ("float[2,3]", "float[3]"), opset=7, keep=True),
    Subject("Min", "spread", {}, ("float[2,3]", "float[3]"), opset=7, keep=True),
    Subject("Attention", "spread", SPREAD, (*HEADS, "bool[3,1]", None, None, None), 24, True, tamed=level_heads),
    Subject("Attention", "spread", SPREAD, (*HEADS, "bool[3,m]", None, None, None), 24, True, tamed=level_heads),
    Subject("RMSNormalization", "computed", {}, ("float[2,3,4]", "double[4]"), opset=18),
    Subject("LayerNormalization", "shifted", {}, ("float[2,3,4]", "float[4]", "float[4]"), opset=18),
    Subject("InstanceNormalization", "computed", {}, ("float[2,3,4,5]", "float[3]", "float[3]"), opset=18),
    Subject("LayerNormalization", "computed", {"axis": 1}, ("float[2,3,4]", "float[3,4]", None), used=(True,) * 3),
    Subject("DeformConv", "shifted", {}, (*IMAGE, "float[1]", None), opset=19, keep=True),
    Subject("DeformConv", "with_mask", {}, (*IMAGE, None, None), opset=19, keep=True),
    Subject("DeformConv", "looked_up", {}, (*IMAGE, None, "float[n,4,2,3]"), opset=18, tamed=near_places),
    Subject("LinearAttention", "in_float", LINEAR, (*["float16[2,1,4]"] * 3, "float[2,2,2,2]", None, None), used=TWO),
    Subject("LinearAttention", "from_nothing", LINEAR, (*["float[n,1,4]"] * 3, None, None, None), used=TWO),
    Subject("LinearAttention", "by_halves", LINEAR, (*["float[2,3,4]"] * 3, "float[2,2,2,2]", None, None), used=TWO),
    Subject(
        "LinearAttention",
        "decayed",
        {**LINEAR, "update_rule": "gated"},
        (*["float[2,1,4]"] * 3, "float[2,2,2,2]", "float[2,1,2]", None),
        used=TWO,
    ),
    Subject(
        "LinearAttention",
        "corrected",
        {**LINEAR, "update_rule": "delta"},
        (*["float[2,1,4]"] * 3, "float[2,2,2,2]", None, "float[2,1,1]"),
        used=TWO,
    ),
    Subject(
        "LinearAttention",
        "added",
        {**LINEAR, "q_num_heads": 4},
        ("float[n,1,12]", "float[n,1,6]", "float[n,1,4]", "float[n,2,3,2]", None, None),
        used=TWO,
    ),
    Subject("LinearAttention", "in_a_loop", LINEAR, (*["float[2,n,4]"] * 3, "float[2,2,2,2]", None, None), used=TWO),
    Subject("Sign", "of_unsigned", {}, ("uint16[2,3]",), opset=8),
    Subject("Sign", "by_comparison", {}, ("int32[2,3]",), opset=8),
    Subject("Sign", "keeping_nan", {}, ("float[2,3]",), opset=8),
    Subject("IsInf", "either", {}, ("float[2,3]",), opset=9),
    Subject("IsInf", "negative", {"detect_positive": 0}, ("float[2,3]",), opset=9),
    Subject("IsInf", "positive", {"detect_negative": 0}, ("float[2,3]",), opset=9),
    Subject("Gather", "by_matrix", {"axis": 1}, ("float[2,3,4]", "int64[2]"), opset=13, keep=True),
    Subject("Gather", "by_matrix", {"axis": -1}, ("float[2,3,4]", "int32[n]"), opset=13, keep=True),
    Subject("Gather", "by_number", {"axis": 1}, ("string[2,3]", "int64[2]"), opset=18, keep=True),
    Subject("GatherND", "along_first", {}, ("float[3,2]", "int64[2,1]")),
    Subject("GatherND", "numbered", {}, ("float[3,4,2]", "int64[2,2]")),
    Subject("GatherND", "numbered", {}, ("float[n,m,k]", "int64[2,2]"), opset=18),
    Subject("GatherND", "by_number", {}, ("string[3,2]", "int64[2,2]")),
    Subject("GatherND", "batch_as_index", {"batch_dims": 1}, ("float[2,3,4]", "int64[2,2,1]"), opset=11, keep=True),
    Subject("CenterCropPad", "widened", {"axes": (1,)}, ("float[2,4]", np.array([1], np.int32)), opset=17),
    Subject("Col2Im", "looked_up", {"strides": (2, 1)}, ("float[n,4,4]", ints(4, 3), ints(2, 2)), opset=17),
    Subject(
        "RNN",
        "transposed",
        BATCH_FIRST,
        ("float[2,3,4]", "float[1,5,4]", "float[1,5,5]", *NOTHING),
        keep=True,
        used=TWO,
    ),
    Subject(
        "GRU",
        "transposed",
        BATCH_FIRST,
        ("float[2,3,4]", "float[1,15,4]", "float[1,15,5]", *NOTHING),
        keep=True,
        used=TWO,
    ),
    Subject(
        "LSTM",
        "transposed",
        BATCH_FIRST,
        ("float[2,3,4]", "float[1,20,4]", "float[1,20,5]", *NOTHING, None, None),
        keep=True,
        used=(True, True, True),
    ),
    *(
        Subject(
            name,
            lowering,
            {"direction": direction, "hidden_size": 2, **more},
            (
                *("float[2,2,3]", f"float[{count},{gates * 2},3]", f"float[{count},{gates * 2},2]"),
                *(f"float[{count},{gates * 4}]", "int32[2]", f"float[{count},2,2]"),
                *((f"float[{count},2,2]", f"float[{count},6]") if name == "LSTM" else ()),
            ),
            used=(True,) * (3 if name == "LSTM" else 2),
        )
        for name, gates, lowering, direction, count, more in (
            ("RNN", 1, "both_ways", "bidirectional", 2, {}),
            ("RNN", 1, "token_by_token", "reverse", 1, {}),
            ("GRU", 3, "both_ways", "bidirectional", 2, {}),
            ("GRU", 3, "reset_before", "forward", 1, {}),
            ("GRU", 3, "reset_after", "reverse", 1, {"linear_before_reset": 1}),
            ("LSTM", 4, "both_ways", "bidirectional", 2, {}),
            ("LSTM", 4, "token_by_token", "forward", 1, {}),
        )
    ),
    Subject("Gemm", "product", {"transA": 1, "alpha": 0.5}, ("float[3,2]", "float[3,4]", None)),
    Subject("Gemm", "product_and_sum", {"transB": 1, "beta": 0.5}, ("float[3,2]", "float[4,2]", "float[4]")),
    Subject("Gemm", "with_zero", {"transA": 1}, ("float[3,2]", "float[3,4]", None), opset=10, keep=True),
    Subject("DFT", "by_matrix", {}, ("float[2,3,2]", None, np.array(1)), opset=18),
    Subject("DFT", "by_matrix", {"onesided": 1}, ("float[2,3,1]", np.array(5), np.array(1)), opset=18),
    Subject("DFT", "by_matrix", {"inverse": 1}, ("float[2,4,2]", None, np.array(1)), opset=18),
    Subject("DFT", "by_factors", {"onesided": 1}, ("float[2,730,1]", np.array(735), np.array(1)), opset=18, keep=True),
    Subject("DFT", "by_factors", {"inverse": 1}, ("float[2,520,2]", None, np.array(1)), opset=18, keep=True),
    Subject("DFT", "mirrored", HALF, ("float[2,4,2]", None, np.array(1)), opset=18, keep=True),
    Subject("DFT", "mirrored", HALF, ("float[2,4,2]", np.array(7), np.array(1)), opset=18, keep=True),
    Subject("DFT", "counted", {}, ("float[2,n,2]", None, np.array(1)), opset=18, keep=True),
    Subject("DFT", "by_computed_matrix", {}, ("float[2,n,2]", "int64[]", np.array(1)), opset=18),
    Subject("DFT", "by_computed_matrix", {"onesided": 1}, ("float[2,n,1]", "int64[]", np.array(1)), opset=18),
    Subject("DFT", "by_computed_matrix", {"inverse": 1}, ("float[2,3,n,2]", "int64[]", np.array(1)), opset=18),
    Subject("DFT", "along_second_of_four", {}, ("float[2,3,4,2]", None, "int64[]"), opset=18, keep=True),
    Subject("MelWeightMatrix", "written", {}, MELS, opset=18),
    Subject("MaxUnpool", "scattered", {"kernel_shape": (2,)}, ("float[1,2,3]", "int64[1,2,3]", "int64[3]"), opset=18),
    Subject("MaxUnpool", "with_shape", UNPOOLED, ("float[n,2,3,3]", "int64[n,2,3,3]", None), opset=18),
    Subject("Unique", "of_elements", {}, ("float[n]",), opset=18, used=FOUR),
    Subject("Unique", "of_elements_as_they_occur", {"sorted": 0}, ("float[n]",), opset=18, used=FOUR),
    Subject("Unique", "of_slices", {"axis": 1}, ("float[2,n]",), opset=18, used=FOUR),
    Subject("Unique", "of_slices_as_they_occur", {"axis": 1, "sorted": 0}, ("float[2,n]",), opset=18, used=FOUR),
    Subject(
        "STFT", "convolved", {}, ("float[2,9,1]", np.array(2), np.array([1, 2, 3, 1], np.float32), None), keep=True
    ),
    Subject("STFT", "convolved_alone", {"onesided": 0}, ("float[2,9]", np.array(2), None, np.array(4)), keep=True),
    Subject("STFT", "framed", {}, ("float[2,9,1]", np.array(2), None, np.array(4)), opset=18),
    Subject("STFT", "framed", {"onesided": 0}, ("float[2,n,1]", "int64[]", None, "int64[]"), opset=18),
    Subject("STFT", "windowed", {}, ("float[2,9,1]", np.array(2), "float[4]", np.array(4)), opset=18),
    Subject("STFT", "half_of_whole", {}, ("float[2,9,2]", np.array(2), None, np.array(4)), opset=18),
    Subject("STFT", "as_long_as_window", {}, ("float[2,9,1]", np.array(2), "float[4]", None), opset=18),
    Subject("STFT", "with_parts", {}, ("float[2,9]", np.array(2), None, np.array(4)), opset=18),
    Subject("STFT", "as_long_as_signal", {}, ("float[2,n,1]", np.array(2), None, None), opset=18),
    Subject("DFT", "cut", {}, ("float[2,5,2]", np.array(3), np.array(1)), opset=18),
    *(
        Subject(
            "GridSample",
            "nearest" if mode == "nearest" else "weighed",
            {"mode": mode, **more},
            of,
            opset,
            tamed=near_image,
        )
        for mode, more, of, opset in (
            ("nearest", {}, ("float[2,2,3,4]", "float[2,2,3,2]"), 13),
            ("nearest", MIRRORED, ("float[2,2,3,4]", "float[2,2,3,2]"), 18),
            ("linear", {}, ("float[2,2,3,4]", "float[2,2,3,2]"), 13),
            ("cubic", {}, ("float[2,2,3,4]", "float[2,2,3,2]"), 18),
        )
    ),
    Subject("Split", "sized", {"num_outputs": 3}, ("float[5,2]", None), used=(True,) * 3, keep=True),
    Subject("Split", "sized", {"axis": 1, "num_outputs": 2}, ("float[2,5]", None), used=TWO, keep=True),
    Subject("Split", "measured", {"num_outputs": 2}, ("float[n,5]", None), used=TWO, keep=True),
    Subject("Split", "measured", {"axis": -1, "num_outputs": 2}, ("float[2,n]", None), used=TWO, keep=True),
    Subject("Split", "whole_sizes", {"num_outputs": 2}, ("float[4,4]", "float[2]"), used=TWO, keep=True),
    Subject("Split", "whole", {}, ("float[2,5]", None)),
    Subject("Split", "cut", {"axis": 1, "num_outputs": 2}, ("float[2,5]", ints(2, 3)), used=TWO),
    Subject("Split", "cut", {"num_outputs": 3}, ("float[6]", "int64[3]"), used=(True,) * 3),
    Subject("Dropout", "copied", {}, ("float[2,3]", None, None), used=TWO),
    Subject("Dropout", "copied", {"mask": "zeros"}, ("float[2,3]", None, None), used=TWO),
    Subject("Dropout", "copied", {"mask": "zeros of data"}, ("float[n,3]", None, None), used=TWO),
    Subject("TopK", "of_negatives", {"axis": 1, "largest": 0}, ("float[2,5]", "int64[1]"), used=TWO),
    Subject("TopK", "in_order", {"sorted": 0}, ("float[2,5]", ints(1)), keep=True, used=TWO),
    Subject("TopK", "counted", {"axis": 1}, ("float[2,5,3]", "int64[1]"), used=TWO),
    Subject("TopK", "counted", {"axis": 0}, ("int32[5]", ints(3)), used=TWO),
    Subject("Abs", "of_unsigned", {}, ("uint8[n]",)),
    Subject("Abs", "parted", {}, ("float[n]",)),
    Subject("Abs", "chosen", {}, ("int32[n]",)),
    Subject("And", "by_or", {}, ("bool[n]", "bool[n]")),
    Subject("And", "by_product", {}, ("bool[n]", "bool[n]")),
    Subject("Or", "by_and", {}, ("bool[n]", "bool[n]")),
    Subject("Or", "by_sum", {}, ("bool[n]", "bool[n]")),
    Subject("Xor", "unequal", {}, ("bool[n]", "bool[n]")),
    Subject("Xor", "either_alone", {}, ("bool[n]", "bool[n]")),
    Subject("Xor", "by_difference", {}, ("bool[n]", "bool[n]")),
    Subject("Not", "equal_to_false", {}, ("bool[n]",)),
    Subject("Not", "exchanged", {}, ("bool[n]",)),
    Subject("Not", "by_difference", {}, ("bool[n]",)),
    Subject("Floor", "by_ceil", {}, ("float[n]",)),
    Subject("Floor", "by_round", {}, ("float[n]",)),
    Subject("Ceil", "by_floor", {}, ("float[n]",)),
    Subject("Sigmoid", "by_exp", {}, ("float[n]",)),
    Subject("Tan", "by_quotient", {}, ("float[n]",)),
    Subject("Sin", "by_half_tangent", {}, ("float[n]",)),
    Subject("Cos", "by_half_sine", {}, ("float[n]",)),
    Subject("Exp", "by_power", {}, ("float[n]",)),
    Subject("Log", "of_sum", {}, ("float[n]",)),
    Subject("Sinh", "by_exp", {}, ("float[n]",)),
    Subject("Cosh", "by_exp", {}, ("float[n]",)),
    Subject("NonMaxSuppression", "nothing", {}, ("float[b,n,4]", "float[b,c,n]", None, None, None), opset=18),
    Subject(
        "NonMaxSuppression", "of_centers", {"center_point_box": 1}, ("float[b,n,4]", "float[b,c,n]", *ASKED), opset=18
    ),
    Subject("NonMaxSuppression", "above", {}, ("float[b,n,4]", "float[b,c,n]", *ASKED, "float[1]"), opset=18),
    Subject(
        "NonMaxSuppression",
        "not_below",
        {"inclusive": True},
        ("float[b,n,4]", "float[b,c,n]", *ASKED, "float[1]"),
        opset=18,
    ),
    Subject("NonMaxSuppression", "of_any_overlap", {}, ("float[b,n,4]", "float[b,c,n]", ints(3), None), opset=18),
    Subject("NonMaxSuppression", "one_by_one", {}, ("float[b,n,4]", "float[b,c,n]", *ASKED), opset=18),
    *(
        Subject(
            "RoiAlign",
            lowering,
            {**TWO_BINS, **fields},
            ("float[2,2,5,4]", "float[6,4]", "int64[6]"),
            opset=18,
            tamed=sized if SIZES.items() <= fields.items() else None,
        )
        for lowering, fields in (
            ("shifted", {}),
            ("widened", {"coordinate_transformation_mode": "output_half_pixel", "sampling_ratio": 1}),
            ("averaged", {**SIZES, "sampling_ratio": 0}),
            ("largest_product", {**SIZES, "mode": "max", "corners": True, "sampling_ratio": 0}),
            ("largest_point", {**SIZES, "mode": "max"}),
        )
    ),
    Subject("Tanh", "by_exp", {}, ("float[n]",)),
    Subject("Asin", "by_atan", {}, ("float[n]",)),
    Subject("Acos", "by_atan", {}, ("float[n]",)),
    Subject("Atan", "by_asin", {}, ("float[n]",)),
    Subject("Erf", "by_polynomials", {}, ("float[n]",)),
    Subject("Asinh", "by_log", {}, ("float[n]",)),
    Subject("Acosh", "by_log", {}, ("float[n]",)),
    Subject("Atanh", "by_log", {}, ("float[n]",)),
    Subject("Sqrt", "by_power", {}, ("float[n]",)),
    Subject("Compress", "gathered", {"axis": 1}, ("float[n,3]", "bool[2]")),
    Subject("Compress", "gathered_in_a_row", {}, ("float[n,3]", "bool[2]")),
    Subject("NonZero", "compressed", {}, ("float[n,3]",)),
    Subject("Tile", "along_one_axis", {}, ("float[2,3]", ints(3).reshape(()), np.array(1)), keep=True),
    Subject("Tile", "along_one_axis", {}, ("float[2,3,4]", ints(2).reshape(()), np.array(0)), keep=True),
    Subject("Tile", "expanded", {}, ("float[n,3]", ints(2, 3))),
    Subject("Equal", "both_or_neither", {}, ("bool[n]", "bool[n]")),
    Subject("Equal", "neither_less", {}, ("int32[n]", "int32[n]")),
    Subject("GlobalAveragePool", "by_mean_at_run_time", {}, ("float",), opset=18),
    Subject("GlobalMaxPool", "by_maximum_at_run_time", {}, ("float",), opset=18),
    Subject("GlobalLpPool", "by_powers_at_run_time", {"p": 3}, ("float",), opset=18),
    Subject("ScatterND", "in_counted_rows", {}, ("float[n,m,3]", "int64[k,2]", "float[k,3]"), opset=18),
    Subject("GlobalAveragePool", "by_mean_of_rows", {}, ("float",), opset=16),
    Subject("GlobalMaxPool", "by_maximum_of_rows", {}, ("float",), opset=16),
    Subject(
        "TopK", "of_complements", {"largest": 0, "axis": 1}, ("int32[2,4]", "int64[1]"), opset=13, used=(True, True)
    ),
    Subject("Gather", "of_rows", {"axis": 0}, ("float[3,n]", "int32[2]"), opset=16),
    Subject("Gather", "of_turned_rows", {"axis": 1}, ("float[2,3,4]", "int64[2,2]"), opset=16),
    Subject("Less", "one_way", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Less", "not_the_larger", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Less", "not_the_larger_float", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Greater", "one_way", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Greater", "by_rest", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("LessOrEqual", "exchanged", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("GreaterOrEqual", "exchanged", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Equal", "without_difference", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Sign", "clipped", {}, ("int32[2,3]",), opset=16),
    Subject("Sign", "rounded_away", {}, ("float[2,3]",), opset=16),
    Subject("Abs", "larger", {}, ("int32[n]",), opset=16),
    Subject("Neg", "by_difference", {}, ("float[2,3]",), opset=16),
    Subject("Add", "summed", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Add", "of_matrices", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Max", "of_negatives", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Max", "of_complements", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Min", "of_negatives", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Min", "of_complements", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Mul", "of_rows", {}, ("float[2,3]", "float[3]"), opset=16),
    Subject("Mul", "of_matrices", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Div", "by_reciprocal_of_integers", {}, ("int32[2,3]", "int32[3]"), opset=16),
    Subject("Cast", "selected", {"to": 1}, ("bool[2,3]",), opset=16),
    Subject("Cast", "not_zero", {"to": 9}, ("float[2,3]",), opset=16),
    Subject("Pow", "by_logarithm", {}, ("float[n]", "float[n]")),
)

NOT_MUTATED = {
    **dict.fromkeys(("Resize", "Upsample"), "moves attributes and constants about: the table of cases is the test"),
    **dict.fromkeys(
        ("OptionalGetElement", "OptionalHasElement"), "one node, or a constant: nothing is there to change"
    ),
}
"""Operators whose lowerings have no subject, and why."""

SURVIVORS = (
    (
        "Pow.of_wide_integers",
        "constant of node/Equal.*|node/Or: is And",
        "double holds all powers that are compared, of 2 and 3 too",
    ),
    (
        "Mod.(by_long_division|of_(first|last)_digits)",
        r"constant of node/(Min|Mul): .*|node/(Add: is Sub|Sub_[123]: (is Add|inputs turned))",
        "so large a divisor is the same with one more; a quotient is one off only where Div is a product",
    ),
    (
        "Mod.of_(first|last)_digits",
        r"constant of node/Less: .*|node/(Less|Where): .*",
        "a quotient is one off only where Div is a product",
    ),
    (r"TfIdfVectorizer.* of int(32|64)\[[35]\]", "node/Gather: axis=0", "of a vector, axis 0 is axis -1"),
    ("TfIdfVectorizer", "constant of node/Pad: element 3 is 3, not 2", "what is behind a row is in no n-gram"),
    (
        "Pow.by_logarithm",
        r"constant of node/(Max|Min): .*|constant of node/Mul_1: element 0 is 1.5, not 0.5",
        "so large a float is the same with one more; one and a half times an odd number is no whole one either",
    ),
    (
        "Hardmax.(first_hit|scattered)|ArgMax.first_sum",
        "constant of node/Where: element 0 is 2.0, not 1.0",
        "each maximum may count twice",
    ),
    ("Identity.longer_and_shorter", "constant of node/SequenceInsert: .*", "the element is removed again"),
    ("Div.in_three_parts", "node/Sub_2: inputs turned", "of the rest the size counts"),
    (
        "Div.by_scaled_reciprocal",
        r"constant of node/Where: element 0 is (\S+), not \1",
        "so large a float is the same with one more",
    ),
    (
        "Div.by_scaled_reciprocal",
        "constant of node/Less: element 0 is 1.0, .*",
        "a product of large numbers may overflow in another order; the table of cases has quotients of these",
    ),
    ("Squeeze.reshaped_(at|to)", "node/Compress: axis=-1", "of elements in a row, axis -1 is axis 0"),
    ("Squeeze.reshaped_at", "node/ReduceMax: keepdims=1", "Compress reads a condition of any shape as a row"),
    ("LRN.of_four_axes", "node/Concat: inputs turned", "which of two axes has length 1 does not count"),
    (
        "Unsqueeze.reshaped_at_run_time",
        "node/Concat: inputs turned|constant of node/Concat_1: .*|constant of node/Equal: element 3 is 4, not 3",
        "new axes are in any order; what is behind the shape is read at the end only, where 1 replaces it, or is it",
    ),
    ("NonZero.compressed", "node/Compress: axis=-1", "of elements in a row, axis -1 is axis 0"),
    ("QLinearConv.by_floats", "node/DequantizeLinear_2: axis=-1", "the bias is a vector, whose axis -1 is axis 0"),
    ("Compress.gathered_in_a_row", "node/Gather: axis=-1", "of elements in a row, axis -1 is axis 0"),
    ("(Greater.by_rest|Equal.without_difference)", "node/Sub: inputs turned", "no order changes what is not zero"),
    ("(Add.of_matrices|Mul.of_rows)", "node/Concat: inputs turned", "sums and products of two numbers have no order"),
    (
        "Global(Average|Max)Pool.by_(mean|maximum)_of_rows",
        "node/Reduce(Mean|Max): keepdims=1",
        "it is reshaped afterwards",
    ),
    ("Erf.by_polynomials", "constant of node/Min: .*", "beyond 15.4 the quotient is more than 1, which is cut"),
    ("Exp.by_power", r"constant of node/Less: .*", "from 1000 on a power is infinite or zero"),
    (
        "Acosh.by_log",
        r"constant of node/Greater: element 0 is (\S+), not \1",
        "so large a float is the same with one more",
    ),
    (
        "Sqrt.by_power",
        "constant of node/Mul: .*|node/(Div|Sub): inputs turned",
        "any factor below zero makes -0.0 of 0.0, and zeros divide and subtract either way",
    ),
    ("(Xor|Not).by_difference", "node/Sub: inputs turned", "1 and -1 are both true"),
    ("Sign.keeping_nan", r"constant of node/(Less_1|Greater_1): .*", "any two numbers will do, one below the other"),
    ("IsInf", r"constant of node\S*: element 0 is (\S+), not \1", "the largest number and 1 is the largest number"),
    ("(Gather|GatherND).by_number", r"node/Gather(_1)?: axis=-1", "the elements are a vector, whose axis -1 is axis 0"),
    ("Col2Im.looked_up", "node/ReduceSum: keepdims=1", "the sums are reshaped in any case"),
    ("Col2Im.looked_up", "constant of node/Concat: element 1 is 2, not 1", "of zeros behind all values one is read"),
    (
        "Attention.with_triangle",
        "constant of node/Add: element 0 is 1.0, not 0.0",
        "the first query attends to one key, whose weight is 1 whatever is added",
    ),
    (
        "Attention.(of_biased_products|with_axes_of_heads)",
        "constant of node/ReduceMax: element 0 is 0, not -1|node/ReduceMax: is ReduceMin|constant of node/Where: .*",
        "infinities are not fed, which alone tell a query without keys; the table of cases has them",
    ),
    ("Gemm.with_zero", "constant of node: element 0 is 1.0, not 0.0", "it is multiplied by zero"),
    ("", r"node/Concat\S*: axis=-1", "vectors are joined, whose axis -1 is axis 0"),
    ("", r"constant of node/Reshape\S*: element 0 is 0, not -1", "of a vector, 0 copies what -1 infers"),
    ("GroupNormalization.as_rows", "node/ReduceProd: keepdims=0", "divided by a vector it is a vector"),
    ("RMSNormalization.computed", "node/Cast_1: dropped", "what is rounded to float is within its rounding"),
    ("CumSum.as_three_axes", "node/Gather: axis=-1", "the shape is a vector, whose axis -1 is axis 0"),
    ("ReduceSum.squeezed", "node/Compress: axis=-1", "the shape is a vector, whose axis -1 is axis 0"),
    ("(Max|Min).spread", r"node/Add(_1)?: is Sub", "it is zero that is added"),
    ("ReduceMax.apart", "node/Add_1: is Sub", "there is one axis, so it is zero that is added"),
    ("ReduceMax.apart", "node/Cast_2: dropped", "one axis is met once"),
    (
        "ReduceSum.squeezed|ReduceMax.apart",
        "constant of node/Unsqueeze: element 0 is 1, not 0",
        "there is one axis: a row and a column of one element are the same",
    ),
    ("ReduceSum.squeezed", "node/ReduceSum: keepdims=1", "onnxruntime takes a condition of any rank"),
    (
        "Hardmax.index_relu|OneHot.(relu|sign)_iota",
        "node/Sub: inputs turned",
        "the distance counts, whichever way it is taken",
    ),
    (
        "Hardmax.(sign|index)_relu",
        "constant of node/Mul: element 0 is 6.0, not 5.0",
        "the number of the first position need only be the largest",
    ),
    (
        r"ArgMax.topk_if_any\(.*\[n,m\]",
        "constant of node/Slice: element 0 is 3, not 2",
        "the shape has nothing behind its last dimension",
    ),
    (
        "(ArgMax.blocked|Hardmax.scattered)_at_run_time",
        "constant of node/Mod: element 0 is .*|node/ArgMin: axis=-1",
        "no row is as long as the first number, and the divisors are a vector, whose axis -1 is axis 0",
    ),
    ("OneHot.scattered", r"node/Gather\S*: axis=-1", "values is a vector, whose axis -1 is axis 0"),
    (r"OneHot.scattered\(axis=-1", "node/Concat: inputs turned", "the last of the three parts is empty"),
    ("(Squeeze|Unsqueeze).reshaped_to_known", "constant of node: element 0 is 0, not -1", "0 copies what -1 infers"),
    ("ArgMax.first_score.* 9", r"node/Squeeze: axes=\[-1\]", "of a vector, axis -1 is axis 0"),
    ("OneHot.gather_mask", "node/Gather: axis=-1", "values is a vector, whose axis -1 is axis 0"),
    (
        r"OneHot.as_int64\(axis=-1.* of int32\[4\]",
        "node/Cast: dropped",
        "OneHot of int32 means the same; it is onnxruntime that has no kernel for it, neither before nor after",
    ),
    (
        "Hardmax.(topk|padded_index)_equal",
        "constant of node/Slice: element 0 is 3, not 2",
        "the axis is the last: the shape has nothing behind it",
    ),
    ("Shape.sliced", "constant of node/Slice: element 0 is 4, not 3", "the rank is 3: the shape has nothing behind it"),
    ("Hardmax.padded_index_equal", "constant of node/Pad: element 3 is 2, not 1", "-inf stands behind each row twice"),
    (
        "Hardmax.reshaped_index_equal",
        "constant of node/Where: element [0-9] is (2, not 1|1, not 0)",
        "however many elements a row has, of no rows they are none: one zero is enough",
    ),
    (
        "OneHot.as_float",
        "node/Cast: dropped",
        "OneHot of float16 means the same; it is onnxruntime that has no kernel for it, neither before nor after",
    ),
    ("OneHot.counted_in_int(8|16)", "constant of node/Clip: element 0 is 6.0, not 5.0", "5 is beyond depth already"),
    ("(Hardmax|ArgMax).ranked", "node/Concat: inputs turned", "the last of the three parts is empty"),
    (
        "Hardmax.ranked_from_both_ends",
        r"constant of node/(Add_1|Equal): element 1 is 2, not 1",
        "axis 1 is in the row in any case: one is true, and so is two",
    ),
    (
        r"Hardmax.ranked_from_both_ends\(axes=\(1, -2\)\)",
        "node/ReduceMax: is ReduceMin",
        "one axis counts from the back: nothing is reduced",
    ),
    ("Hardmax.ranked_from_both_ends", "node/Add_3: is Sub", "of a length of 1, -1 infers just that"),
    ("Hardmax.through_float", "node/Cast: dropped", "onnxruntime compares float16 as float by itself"),
    (
        "Range|OneHot.gather_mask|ArgMax.first_score.* 9",
        "node/Concat: inputs turned",
        "the larger of zero and a length, in either order",
    ),
    (
        "OneHot.gather_mask|ArgMax.first_score.* 9",
        "constant of node/Concat: element 0 is 1, not 0",
        "a depth is one at least, and ArgMax takes no empty row",
    ),
    (
        "Range.folded",
        r"node/Sub_1: is Add|constant of node/(Div_2|Mul_1|Concat_1): .*",
        "what keeps it from more than 2^24 numbers, which the proof does not count to",
    ),
    (
        "Range.folded",
        r"node/Sub_2: is Add|constant of node/Add_1\S*: element 0 is 4096, not 4095",
        "what is filled up too far is cut off",
    ),
    ("Reshape.tiled_behind", "node/Concat: inputs turned", "the elements may also be along the first axis"),
    (
        "Mod.(truncated|floored)\\(",
        r"constant of node/Equal: element 0 is 0, not -1|node/Add(_1)?: is Sub",
        "the divisor -1, with which the quotient may overflow, is not among those of the proof",
    ),
    (
        r"BitShift.divided\(.*int32",
        r"constant of node/Gather: element 31 is 2147483649, not 2147483648",
        "no int32, and no ones' complement of one, is as large as either",
    ),
    ("QuantizeLinear.with_zero_point", "node/Add: is Sub", "zero may be added or taken away"),
    (
        "DequantizeLinear.with_zero_point",
        "node/Cast: dropped",
        "without a zero point nothing is subtracted as int32: a byte is the same float with or without that step",
    ),
    (
        "BitShift.divided_uint64",
        r"constant of node/Less_1: element 0 is 65, not 64|node/And: is Or",
        "no version that takes it defines a shift by as many bits as there are",
    ),
    ("ArgMax.widened", "node/Cast: dropped", "TopK-11 takes int16 as it is"),
    (
        "ArgMax.shifted",
        "node/Add_2: is Sub|node/Where: inputs turned|(constant of )?node/Less: .*",
        "modulo 2^64, in which onnxruntime adds, 2^63 and -2^63 are one number: both sides of the Where are the same",
    ),
    ("ArgMax.ranked", "node/ReduceSum: keepdims=0", "a Reshape to the shape of the output follows"),
    (
        "Less.by_halves",
        r"constant of node/Div\S*: element 0 is 4294967297, not 4294967296",
        "quotient and remainder have the order of the numbers for any divisor that keeps both exact",
    ),
    ("ArgMax.first_score.* 9", "node/Greater: .*", "nothing is greater than the maximum"),
    ("ArgMax.first_score.* 9", "node/And: is Or", "no NaN is fed: any index will do"),
    (
        "ArgMax.first_score.* 9|Equal.by_order|IsNaN.by_comparison",
        r"constant of node/(Less|Greater)\S*: .*",
        "every number is below 2 or above -1, or below 1 or above 0; NaN is neither",
    ),
    ("Slice.one_by_one", "constant of node/Slice_2: element 0 is 3, not 2", "there are two starts, and as many ends"),
    (
        "Slice.gathered",
        r"constant of node/Less_1\+node/Less_3: element 0 is 6.0, not 5.0",
        "the length is brought to the length",
    ),
    (
        "Clip.looked_up|GatherElements.numbered",
        r"node/Gather\S*: axis=-1",
        "of a vector, axis -1 is axis 0",
    ),
    ("Pad.placed_at_run_time", "node/ReduceSum: keepdims=1", "all is put in a row afterwards"),
    (
        "Pad.(bordered|held|repeated)",
        r"node/Gather(_\d)?: axis=-1",
        "pads, shape and data are vectors: axis -1 is axis 0",
    ),
    ("Pad.repeated.*reflect", "node/Sub: inputs turned", "what is mirrored is the same on both sides"),
    (
        "Pad.repeated.*reflect",
        "node/Add_1: is Sub",
        "what is cut off behind does not count for what is mirrored in front, and nothing is mirrored behind",
    ),
    ("Pad.repeated.*wrap", "node/(Add_4: is Sub|Sub_[123]: (is Add|inputs turned))", "wrapped, zero is taken away"),
    ("Pad.(with_zero|joined)", r"node/Concat_\d: inputs turned", "there is nothing before the first element"),
    ("DeformConv", "node/Gather: axis=-1", "the rows of pixels are a vector, whose axis -1 is axis 0"),
    ("DeformConv", r"constant of node/Gather: element \d+ is -1099511627775, .*", "it stays below zero"),
    (
        "DeformConv",
        "node/Sub(_1)?: inputs turned",
        "of a distance the sign is dropped; two weights turn theirs together",
    ),
    ("DeformConv", r"constant of node/Less\+node/Where: element 0 is 4.0, not 3.0", "one pixel farther is outside too"),
    ("DFT.(counted|along_second_of_four)", "node/Gather: axis=-1", "the shape is a vector, whose axis -1 is axis 0"),
    (r"DFT.by_computed_matrix\(\)", "node/Concat: axis=-2", "zeros behind a signal do not count"),
    (r"DFT.by_computed_matrix\(onesided", "node/(Sub: is Add|Add_1: is Sub)", "the imaginary parts are zero"),
    (r"DFT.by_computed_matrix\(inverse", "constant of node/Slice: element 0 is 3, not 2", "two parts are read"),
    (
        "ReduceLogSumExp",
        r"constant of node/Clip: element 0 is (\S+), not \1",
        "the largest number is the same with one more",
    ),
    (
        "ReduceL2.whole_root_of_squares.*int32",
        "node/Sub: is Add",
        "no sum of int32 is so large that a double rounds its root up to the next whole number: zero is taken away",
    ),
    (
        "MatMulInteger.in_double_with_overflow",
        "constant of node/Add: .*",
        "only of the sum 2^31 - 1, or one that differs by multiples of 2^32, it is another: none is drawn",
    ),
    ("BitCast", r"constant of \S+: element \d+ is (\S+), not \1", "so large a float is the same with one more"),
    ("BitCast.measured", "node/Add_2: is Sub|constant of node/Mul_4: .*", "no NaN is fed: --assume no-nan"),
    (
        "BitCast.measured",
        "node/Add_4: is Sub",
        "the highest bit is taken away or added: without a carry it is the same",
    ),
    (
        "LinearAttention.from_nothing",
        "constant of node/Slice: element 0 is 1, not 0",
        "zeros for each of the batch, or for all of it: they are added to what has a batch",
    ),
    (
        "ScatterElements.by_sums_of_halves",
        r"constant of node/Div\+node/Mul\+node/Mul_3: element 0 is 4294967297, not 4294967296",
        "whatever number divides, its multiples and the remainders add up to the same sum",
    ),
    (
        "DFT.by_factors.*onesided",
        r"constant of node/Mul_1: element 0 is 1.0, not -0.0",
        "the sum of a real row has no imaginary part that this could turn",
    ),
    (
        "ScatterElements.by_last",
        r"constant of node/Pad_1: element 3 is 1, not 0|constant of node/Where\+node/Pad: element 0 is .*",
        "one more row of updates is not read; all numbers below zero tell the same",
    ),
    (
        "ScatterElements.by_",
        r"constant of node/Pad(\+node/Pad_1)?: element 0 is 1, not 0",
        "one more row along the axis that is reduced joins nothing",
    ),
    ("AffineGrid", r"node/Gather(_\d)?: axis=-1", "the size is a vector, whose axis -1 is axis 0"),
    (r"AffineGrid.*align_corners=1", r"node/Add(_\d)?: is Sub", "the corners are centers: the shift is zero"),
    ("AffineGrid", r"constant of node/Slice\+node/Slice_1: .*", "the size has nothing behind the last axis"),
    (
        "(AveragePool|LpPool|MaxPool).by_pads|AveragePool.padded",
        r"node(/AveragePool)?: pads=\[[01], 2\]",
        "padding does not count, and one more element makes no further window: they stand two apart",
    ),
    (
        "MaxPool.(with_indices|at_run_time)",
        r"node/Reduce(Max|Sum_1): keepdims=1",
        "the result is reshaped, and has as many elements",
    ),
    (
        "MaxPool.(along_axis|axis_by_axis|with_indices)",
        r"constant of node/(Gather(_1)?|MaxPool/Gather): .*",
        "an element in the padding is any other one of the window",
    ),
    ("MaxPool.with_indices", r"constant of node/Add: .*", "without an image there is none to count"),
    (
        r"MaxPool.at_run_time.*kernel_shape=\(3, 2\)",
        r"constant of node/Add_?[134]?: .*|node/Add_1: is Sub",
        "the smaller of two counts is the other one",
    ),
    (
        r"MaxPool.at_run_time.*pads=\(2, 0\)",
        "constant of node/Add_2: element 0 is 5, not 4",
        "half of it is the same whole number",
    ),
    ("MaxPool.at_run_time.*auto_pad", r"node/Add(_1)?: is Sub", "of automatic padding the two counts are the same"),
    (
        "MaxPool.at_run_time.*pads=",
        r"node/Sub: .*",
        "padding that is not automatic does not depend on it: it is multiplied by 0",
    ),
    ("Unique", r"node/Compress(_1)?: axis=-1", "of a vector, axis -1 is axis 0"),
    ("MaxUnpool", "node/ScatterElements: axis=-1", "of a vector, axis -1 is axis 0"),
    ("Mish.by_exp", "constant of node/Min: element 0 is 21.0, not 20.0", "from 20 on a double is multiplied by 1"),
    ("BatchNormalization.measured", "node/Sub: inputs turned", "the distance is squared"),
    ("ReverseSequence", "node/Gather: axis=-1", "the shape is a vector, whose axis -1 is axis 0"),
    (
        "TopK",
        r"constant of node/And: element 0 is True, not False",
        "if element 0 misses its rank, the index there is a sum of none, which is 0; elsewhere it adds 0",
    ),
    ("GridSample", "node/Gather: axis=-1", "the rows of pixels are a vector, whose axis -1 is axis 0"),
    (
        r"GridSample.*mode=(nearest|linear|cubic)\)",
        r"constant of node/(Less\+node/Where: element \d is [78]\.0, .*|Greater\+node/Where_1: .*)",
        "a place is outside, one pixel farther or nearer, and so are all pixels around it",
    ),
    ("GridSample", r"constant of node/Gather: element \d+ is -1099511627775, .*", "it stays below zero"),
    ("GridSample.*reflection", r"constant of node/(Max|Concat): .*", "nothing is outside, where the pixel of zeros is"),
    (
        "GridSample.*reflection",
        r"constant of node/(Less|Greater)\S*: .*",
        "2^22 pixels away floats hold no places between two pixels, and nothing is promised",
    ),
    ("RoiAlign", "node/ReduceMax: keepdims=1", "onnxruntime takes an end of Range in a vector"),
    (
        "RoiAlign.averaged",
        "constant of node/(Concat(_1)?|Where): .*|node/Sub(_1)?: is Add",
        "points that a bin has too many, wherever they are, weigh nothing in a mean",
    ),
    ("GridSample.weighed", "node/Sub_1: inputs turned", "of the distance the sign is dropped"),
    ("GridSample.weighed", r"node/Split(_1)?: axis=-1", "of a vector, axis -1 is axis 0"),
    (r"GridSample.weighed\(mode=linear", r"node/Add_[2567]: is Sub", "a line has no squares: zero is added"),
    (r"GridSample.weighed\(mode=linear", "constant of node/Split_1: .*", "no pixel that counts is farther than 1"),
    (r"GridSample.weighed\(mode=cubic", "node/Add_3: is Sub", "the curve is level at its top: zero is added"),
)
"""Subject, mutant and why it computes the same; each is a regular expression."""


def caught(pair: Pair, model: onnx.ModelProto) -> bool:
    """Whether verification finds a mutant; one that does not even load is found too.

    How many inputs are tried depends on CPU times, which a busy machine makes longer: what is missed is tried again.
    """
    mutant = dataclasses.replace(pair, rewritten=model)
    return any(compare_pairs([mutant])[0].verdict is not Verdict.EQUAL for _ in range(2))


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_every_mutant_is_caught(subject: Subject) -> None:
    pair = pair_of(subject)
    (check,) = compare_pairs([pair])
    assert check.verdict is Verdict.EQUAL, check.reason
    tried = [(what, model) for what, model in mutants(pair.rewritten) if zlib.crc32(what.encode()) % SHARE == 0]
    found = {what for what, model in tried if not caught(pair, model)}
    missed = sorted(what for what in found if not is_listed(subject, what))
    assert not missed, "\n".join(missed)


def is_listed(subject: Subject, what: str) -> bool:
    return any(re.match(who, str(subject)) and re.fullmatch(mutant, what) for who, mutant, _ in SURVIVORS)


def test_every_lowering_is_mutated() -> None:
    mutated = {lowering_of(subject).body for subject in SUBJECTS}
    missing = [
        f"{one.name}: {item.name}"
        for one in OPERATORS.values()
        for item in every(one)
        if item.body not in mutated and one.name not in NOT_MUTATED
    ]
    assert not missing


@pytest.mark.parametrize(("who", "mutant"), [entry[:2] for entry in SURVIVORS], ids=lambda text: text)
def test_no_survivor_is_listed_in_vain(who: str, mutant: str) -> None:
    for subject in SUBJECTS:
        if re.match(who, str(subject)):
            pair = pair_of(subject)
            if any(re.fullmatch(mutant, what) and not caught(pair, model) for what, model in mutants(pair.rewritten)):
                return
    pytest.fail("all such mutants are caught")
