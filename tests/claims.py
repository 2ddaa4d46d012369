"""Claims of profiles: a small model, what `opshift where` claims of it for a runtime, and what the runtime did."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from node_tests import cases
from onnx import helper, numpy_helper
from runtimes import Runtime

import opshift
from opshift.opsets.runtimes.profiles import load_target
from opshift.passes.base.errors import OpshiftError
from opshift.passes.measurement.isolated import Array, RefusedError, alike
from opshift.passes.measurement.probes import at_opset

LOADED = 8
"""An ir_version that all runtimes load."""

FED = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "object"),
)
"""Element types that are fed to runtimes: those of numpy's own that ONNX has. Strings are objects."""


@dataclass(frozen=True)
class Small:
    """A model of one node, and values of its inputs."""

    name: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]

    @property
    def operator(self) -> str:
        """The operator of the node."""
        return str(self.model.graph.node[0].op_type)

    @property
    def node(self) -> str:
        """The node as a person would write it: attributes, and the element types and shapes of its inputs."""
        node = self.model.graph.node[0]
        constants = {one.name: numpy_helper.to_array(one) for one in self.model.graph.initializer}
        inputs = []
        for name in node.input:
            array = self.feeds.get(name, constants.get(name))
            shown = "-" if array is None else f"{_type(array)}{list(array.shape)}"
            if name in constants:
                shown += f"={constants[name].tolist()}" if constants[name].size <= 8 else "=constant"
            inputs.append(shown)
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        return f"{node.op_type} {attributes} ({', '.join(inputs)})"

    @property
    def ordinary(self) -> bool:
        """Whether all numbers are ones that runtimes of 32 bits hold."""
        arrays = [*self.feeds.values(), *map(numpy_helper.to_array, self.model.graph.initializer)]
        return all(map(ordinary, arrays))


def fed(arrays: Iterable[Array]) -> bool:
    """Return whether all arrays can be fed to runtimes, and whether there is one."""
    names = [array.dtype.name for array in arrays]
    return bool(names) and all(name in FED for name in names)


def _type(array: Array) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def ordinary(array: Array) -> bool:
    """Return whether there are elements, all of them finite and within 24 bits, which all runtimes hold."""
    if not array.size:
        return False
    if array.dtype.kind not in "fiu":
        return True
    wide = array.astype(np.float64)
    return bool((np.isfinite(wide) & (np.abs(wide) < 2**24)).all())


def node_models(opset: int, operators: Collection[str] = ()) -> Iterator[Small]:
    """Yield ONNX's own tests of one node, of some operators or of all, as models of an opset."""
    for case in cases(""):
        model = case.model
        if len(model.graph.node) != 1 or (operators and model.graph.node[0].op_type not in operators):
            continue
        arrays = [*map(_array, case.data_sets[0][0])]
        if fed(arrays) and (placed := at_opset(model, opset)) is not None:
            placed.ir_version = LOADED
            names = [value.name for value in placed.graph.input]
            yield Small(case.name, placed, dict(zip(names, arrays, strict=False)))


def _array(value: object) -> Array:
    """Return a test's input as it is fed: strings as objects, which numpy may hold in a type of their length."""
    array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def held(one: Small) -> Small | None:
    """Return the model with all inputs but the first as initializers."""
    if len(one.feeds) < 2:
        return None
    copy = onnx.ModelProto.FromString(one.model.SerializeToString())
    first, *others = one.feeds
    copy.graph.initializer.extend(numpy_helper.from_array(one.feeds[name], name) for name in others)
    kept = [value for value in copy.graph.input if value.name not in others]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return Small(f"{one.name}, constants", copy, {first: one.feeds[first]})


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """One model in one runtime: the claim of its profile, and what the runtime did."""

    runtime: str
    name: str
    operator: str
    node: str
    claim: str
    outcome: str
    detail: str = ""
    becomes: str = ""

    @property
    def false(self) -> bool:
        """Whether the model is claimed to run, and does not run right."""
        return self.claim != "refused" and self.outcome in ("wrong", "refused")


class Claims:
    """One runtime, its profile, and onnxruntime to compare with."""

    def __init__(self, name: str, *, refused: bool) -> None:
        self.name, self.also_refused = name, refused
        self.target = load_target(name)
        # A browser takes a while to start.
        self.runtime, self.reference = Runtime(name, timeout=120), Runtime("onnxruntime", timeout=120)

    def close(self) -> None:
        """End both processes."""
        self.runtime.close()
        self.reference.close()

    def _run(self, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs. ncnn loads no graph from which it removes all nodes, so there is one more node then."""
        names = {value.name for value in model.graph.input}
        given = {name: array for name, array in feeds.items() if name in names}
        try:
            return self.runtime.run(model, given)
        except RefusedError:
            floats = any(array.dtype == np.float32 for array in given.values())
            if self.name != "ncnn" or not floats:
                raise
            negating = behind_negation(model, given)
            return self.runtime.run(negating.model, negating.feeds)

    def check(self, one: Small) -> Checked | None:
        """Plan a model, and run what is claimed to run; None if onnxruntime does not run the original."""
        claim, model, note = "refused", one.model, ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = opshift.convert(one.model, target=self.target, verify=False)
                same = result.rewritten == one.model
                claim, model = ("runs" if same else "converts"), result.rewritten
            except OpshiftError as error:
                note = str(error).replace("\n", " ")[:300]
        about = self.name, one.name, one.operator, one.node, claim
        if self.name == "ncnn" and all(node.op_type == "Constant" for node in model.graph.node):
            return Checked(*about, "untried", "ncnn loads no graph of constants alone")
        if claim == "refused" and not self.also_refused:
            return Checked(*about, "untried", note)
        try:
            wanted = self.reference.run(one.model, one.feeds)
        except RefusedError:
            return None
        if not all(map(ordinary, wanted.values())):
            return None
        becomes = " ".join(node.op_type for node in model.graph.node) if claim == "converts" else ""
        try:
            found = self._run(model, one.feeds)
        except RefusedError as error:
            return Checked(*about, "refused", str(error)[:300], becomes)
        wrong = next((name for name in wanted if not alike(found[name], wanted[name])), None)
        if wrong is None:
            return Checked(*about, "right", note, becomes)
        shown = f"{brief(found[wrong])} instead of {brief(wanted[wrong])}"
        return Checked(*about, "wrong", shown, becomes)


def behind_negation(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Small:
    """Return a model that negates its first input of floats, which is fed negated: the outputs are the same bits."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    name = next(name for name in feeds if feeds[name].dtype == np.float32)
    for node in copy.graph.node:
        node.input[:] = ["negated" if one == name else one for one in node.input]
    copy.graph.node.insert(0, helper.make_node("Neg", [name], ["negated"]))
    return Small("", copy, {**feeds, name: -feeds[name]})


def brief(array: Array) -> str:
    """Write an array in a few words."""
    return (
        f"{array.dtype}{list(array.shape)} " + np.array2string(array, threshold=12, precision=4).replace("\n", "")[:150]
    )
