"""Create probes, which are models of one node with inputs and outputs, from ONNX's node tests at one opset."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.structural import CAST
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base.errors import OpshiftError
from opshift.passes.convert import convert
from opshift.passes.measurement.isolated import Array

FED = ("float32", "int32", "int64", "bool", "uint8")
"""The element types that most runtimes accept as inputs."""


@dataclass(frozen=True)
class Probe:
    """A model of one node, possibly between comparisons that produce its bools; inputs, and the outputs of the test."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    wanted: Sequence[Array]
    place: int = 0

    @property
    def node(self) -> onnx.NodeProto:
        """The probed node."""
        node: onnx.NodeProto = self.model.graph.node[self.place]
        return node


def probes(opset: int, operators: Collection[str] = ()) -> Iterator[Probe]:
    """Yield ONNX's single-node tests of an opset, for some operators or for all."""
    for case in _cases(operators):
        model = case.model
        if model is None or not case.data_sets or len(model.graph.node) != 1:
            continue
        if operators and model.graph.node[0].op_type not in operators:
            continue
        arrays, wanted = ([_array(one) for one in values] for values in case.data_sets[0])
        plain = all(isinstance(one, np.ndarray) for one in wanted)
        if not arrays or not plain or not all(map(_is_fed, arrays)):
            continue
        placed = at_opset(model, opset)
        names = [value.name for value in model.graph.input]
        if placed is not None and len(names) == len(arrays):
            yield Probe(case.name, placed, dict(zip(names, arrays, strict=True)), wanted)


def _cases(operators: Collection[str]) -> Iterable[Any]:
    """Return ONNX's tests: each module has those of one operator, and computes them on import."""
    package: Any = importlib.import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(package, "_NodeTestCases", None)
        if not operators or found is None:
            found = package.collect_testcases()
        wanted = {name.casefold() for name in operators}
        for item in pkgutil.iter_modules(package.__path__) if operators else ():
            if item.name.replace("_", "") in wanted:
                importlib.import_module(f"{package.__name__}.{item.name}")
    return tuple(found)


def _array(value: Any) -> Any:
    """Return an array of a test; sequences, and types that numpy does not support, stay unchanged."""
    return value if isinstance(value, np.ndarray | TensorProto | list) or value is None else np.asarray(value)


def _is_fed(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in FED


def at_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return a single-node model at an opset; None if its conversion has another operator or several nodes."""
    node = model.graph.node[0]
    own = default_opset(model.opset_import)
    if own is None or node.domain or len(model.opset_import) > 1:
        return None
    before, after = (schema_at("", node.op_type, one) for one in (own, opset))
    if before is not None and after is not None and before.since_version == after.since_version:
        placed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
        placed.opset_import[0].version = opset
    else:
        try:
            placed = convert(model, opset=opset, verify=False).rewritten
        except OpshiftError:
            return None
    if [one.op_type for one in placed.graph.node] != [node.op_type]:
        return None
    placed.ir_version = max(helper.find_min_ir_version_for(placed.opset_import), 4)
    return placed


def with_constants(probe: Probe) -> Probe | None:
    """Return the probe with all inputs except the first as initializers; None if there is only one input."""
    if len(probe.inputs) < 2:
        return None
    model = onnx.ModelProto.FromString(probe.model.SerializeToString())
    first, *others = probe.inputs
    model.graph.initializer.extend(numpy_helper.from_array(probe.inputs[name], name) for name in others)
    kept = [value for value in model.graph.input if value.name not in others]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return Probe(f"{probe.name}, constants", model, {first: probe.inputs[first]}, probe.wanted)


def without_bools(probe: Probe) -> Probe | None:
    """Return the probe with floats in place of bools, which few runtimes accept; values above one half are true."""
    bools = [name for name, array in probe.inputs.items() if array.dtype == bool]
    if not bools:
        return None
    model = onnx.ModelProto.FromString(probe.model.SerializeToString())
    node = model.graph.node.pop()
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    for value in model.graph.input:
        if value.name in bools:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for name in bools:
        model.graph.node.append(helper.make_node("Greater", [name, "half"], [f"{name}.bool"]))
    for place, name in enumerate(node.input):
        node.input[place] = f"{name}.bool" if name in bools else name
    returns_bools = model.graph.output[0].type.tensor_type.elem_type == TensorProto.BOOL
    if returns_bools:
        node.output[0] = "bool"
    model.graph.node.append(node)
    if returns_bools:
        model.graph.node.append(helper.make_node(CAST, ["bool"], [model.graph.output[0].name], to=TensorProto.FLOAT))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    inputs = {name: array.astype(np.float32) if name in bools else array for name, array in probe.inputs.items()}
    return Probe(f"{probe.name}, floats", model, inputs, probe.wanted, len(bools))
