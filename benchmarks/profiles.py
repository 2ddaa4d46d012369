"""Run one-node models of all operators in a real runtime: `python benchmarks/profiles.py opencv-4 mnn openvino ncnn`.

The models are ONNX's backend node tests, as far as one node can say them at the newest opset of the runtime's profile:
as they are, and with all inputs but the first as initializers. A row says of how many the runtime gives the values of
the test, other values, or none; element types and axes of length one are not compared. With `--check` the profile is
held against what was found: it must not have what never runs right, and must have what always does.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np
import onnx
import onnx.numpy_helper
from converters import table
from node_tests import cases
from runtimes import RUNTIMES, RefusedError, Runtime, alike, version

import opshift
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.scopes import describe, view
from opshift.passes.base.errors import OpshiftError

OUTCOMES = ("right", "wrong", "refused")
DTYPES = ("float32", "int32", "int64", "bool", "uint8")
"""Element types that can be fed to runtimes."""


def one_node(case: Any, opset: int) -> onnx.ModelProto | None:
    """Return the test at an opset, where it is one node of the same operator there."""
    if len(case.model.graph.node) != 1 or case.model.graph.node[0].domain:
        return None
    try:
        model = opshift.convert(case.model, opset=opset, verify=False).model
    except OpshiftError:
        return None
    assert isinstance(model, onnx.ModelProto)
    same = len(model.graph.node) == 1 and model.graph.node[0].op_type == case.model.graph.node[0].op_type
    model.ir_version = 8
    return model if same else None


def held(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, dict[str, Any]] | None:
    """Return the model with all inputs but the first as initializers."""
    if len(feeds) < 2:
        return None
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    first, *others = feeds
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in others)
    for index in range(len(copy.graph.input) - 1, -1, -1):
        if copy.graph.input[index].name in others:
            del copy.graph.input[index]
    return copy, {first: feeds[first]}


def outcome(runtime: Runtime, model: onnx.ModelProto, feeds: Mapping[str, Any], wanted: Sequence[Any]) -> str:
    """Run one model."""
    try:
        found = runtime.run(model, feeds)
    except RefusedError:
        return "refused"
    return "right" if all(map(alike, found.values(), wanted)) else "wrong"


def without_bools(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, dict[str, Any]] | None:
    """Return the model with floats in place of bools, which few runtimes take; what is above a half is true."""
    bools = [name for name, array in feeds.items() if array.dtype == bool]
    if not bools:
        return None
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    node = copy.graph.node.pop()
    copy.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    for value in copy.graph.input:
        if value.name in bools:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for name in bools:
        copy.graph.node.append(onnx.helper.make_node("Greater", [name, "half"], [f"{name}.bool"]))
    for place, name in enumerate(node.input):
        node.input[place] = f"{name}.bool" if name in bools else name
    gives_bools = copy.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BOOL
    if gives_bools:
        node.output[0] = "bool"
    copy.graph.node.append(node)
    if gives_bools:
        copy.graph.node.append(onnx.helper.make_node("Cast", ["bool"], [copy.graph.output[0].name], to=1))
        copy.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return copy, {name: array.astype(np.float32) if name in bools else array for name, array in feeds.items()}


def legal(model: onnx.ModelProto, target: Target, opset: int) -> bool:
    """Whether the profile has the node of a model."""
    node = next(one for one in model.graph.node if not one.output[0].endswith(".bool"))
    return Legality(opset, target=target).why_not(view(node, describe(model), opset)) is None


def tried(name: str, pattern: str, most: int, opset: int) -> Iterator[tuple[str, str, str, bool]]:
    """Yield operator, test, outcome and whether the profile has the node, for the best one of all forms of a test."""
    runtime, target = Runtime(name, timeout=20), load_target(name)
    seen: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(pattern):
            operator = case.model.graph.node[0].op_type
            if seen[operator] >= most or (model := one_node(case, opset)) is None:
                continue
            given, wanted = case.data_sets[0]
            names = [value.name for value in model.graph.input]
            feeds = dict(zip(names, map(np.asarray, given), strict=False))
            if len(feeds) < len(names) or any(array.dtype.name not in DTYPES for array in feeds.values()):
                continue
            seen[operator] += 1
            forms = [(model, feeds), held(model, feeds), without_bools(model, feeds)]
            arrays = [np.asarray(one) for one in wanted]
            found = [
                (outcome(runtime, one, given, arrays), legal(one, target, opset)) for one, given in filter(None, forms)
            ]
            result, listed = min(found, key=lambda one: (OUTCOMES.index(one[0]), not one[1]))
            yield operator, case.name, result, listed
    runtime.close()


TOLD_BY_OTHERS = {
    ("opencv-4", "Constant"): "a graph of one Constant has no input; with others around it runs",
    ("opencv-4", "ConstantOfShape"): "the same",
    ("opencv-4", "GRU"): "it asks for all six inputs, and runs then",
    ("opencv-4", "PRelu"): "a slope by channel, of shape (C, 1, 1), runs right",
    ("opencv-4", "QLinearConv"): "of int8; the tests are of uint8",
    ("opencv-4", "QLinearMatMul"): "of int8; the tests are of uint8",
    ("opencv-4", "QuantizeLinear"): "of int8, and with DequantizeLinear behind it; the tests are of uint8",
    ("mnn", "Dropout"): "nothing is left of a graph of one Dropout",
    ("ncnn", "Constant"): "a graph of one Constant has no input; with others around it runs",
    ("ncnn", "Dropout"): "nothing is left of a graph of one Dropout",
    ("ncnn", "Identity"): "nothing is left of a graph of one Identity",
}
"""Operators of which the tests give a wrong picture, and what was seen."""


def faults(name: str, rows: Sequence[tuple[str, str, str, bool]]) -> Iterator[str]:
    """Say where a profile does not fit what was found."""
    target = load_target(name)
    for operator in sorted({row[0] for row in rows}):
        if (name, operator) in TOLD_BY_OTHERS:
            continue
        listed = [result for one, _, result, has in rows if one == operator and has]
        found = [result for one, _, result, _ in rows if one == operator]
        if listed and "right" not in listed:
            yield f"{name}: {operator} never runs right, and the profile has it"
        if not target.has(operator) and set(found) == {"right"}:
            yield f"{name}: {operator} always runs right, and the profile does not have it"


def main() -> int:
    """Run what is asked for, and print or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runtimes", nargs="*", default=[name for name in RUNTIMES if name != "onnxruntime"])
    parser.add_argument("--filter", default="", help="a pattern that the names of the tests have")
    parser.add_argument("--opset", type=int, help="another opset than the newest of the profile")
    parser.add_argument("--most", type=int, default=12, help="tests for an operator")
    parser.add_argument("--check", action="store_true", help="exit 1 where a profile does not fit")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    options = parser.parse_args()
    outcomes, wrong = {}, list[str]()
    for name in options.runtimes:
        print(f"{name} {version(name)}")
        rows = outcomes[name] = sorted(
            tried(name, options.filter, options.most, options.opset or load_target(name).opset[1])
        )
        found: dict[str, Counter[str]] = {}
        for operator, _, result, _ in rows:
            found.setdefault(operator, Counter())[result] += 1
        print(
            table(
                [("operator", *OUTCOMES), *((one, *(many[kind] for kind in OUTCOMES)) for one, many in found.items())]
            )
        )
        wrong += faults(name, rows)
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=0))
    print("\n".join(wrong))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
