"""Models to put faults in: nodes of all operators at all versions, in graphs, branches, loops and functions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from differential import examine
from differential.generate import Case, draw_case
from differential.runtimes import LoadError, NoKernelError, RunError
from onnx import ModelProto, TensorProto, helper, numpy_helper

import opshift
from mutation.shown import run

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@dataclass(frozen=True)
class Subject:
    """A model, what opshift made of it or the model itself, and inputs.

    Attributes:
        operator: that the model was drawn for.
        place: where its node is.
        original: the model.
        rewritten: right, and to be made wrong.
        feeds: inputs that are drawn for the operator.
    """

    operator: str
    place: str
    original: ModelProto
    rewritten: ModelProto
    feeds: Sequence[dict[str, Any]]


def draw_subject(seed: int, index: int, operators: Sequence[str] = ()) -> Subject | None:
    """Draw a subject; None if onnxruntime does not run what is drawn."""
    try:
        case = draw_case(seed, index, operators)
    except onnx.checker.ValidationError:  # a constant of a body that is in a file
        return None
    if case.random or case.embedded.files or case.operator in RANDOM:
        return None
    model = case.embedded.model
    feeds: Sequence[dict[str, Any]] = case.embedded.feeds
    try:
        expected = run(model, feeds)
    except (LoadError, NoKernelError, RunError):
        return None
    if not examine.complete(case, model, expected):
        return None
    rng = np.random.default_rng([seed, index, 7])
    place = case.embedded.place
    if rng.random() < _DECLARED:
        model, feeds = _declared(model, feeds, rng)
    if rng.random() < 0.5:
        model, added = _surrounded(model, expected[0], case.opset, rng)
        place = f"{place}, {added}" if added else place
    return Subject(case.operator, place, model, _rewritten(case, model, rng), feeds)


def _declared(
    model: ModelProto, feeds: Sequence[dict[str, Any]], rng: np.random.Generator
) -> tuple[ModelProto, Sequence[dict[str, Any]]]:
    """Return a model as exporters write them, and inputs for it: shapes are known, and what sets shapes is constant."""
    made = ModelProto()
    made.CopyFrom(model)
    frozen = [name for name in feeds[0] if name.startswith("dims_") or _sets_a_shape(model, name)]
    made.graph.initializer.extend(numpy_helper.from_array(feeds[0][name], name) for name in frozen)
    kept = [value for value in made.graph.input if value.name not in frozen]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    symbolic = rng.random() < 0.4
    for value in made.graph.input:
        fed = feeds[0].get(value.name)
        if not isinstance(fed, np.ndarray) or not value.type.tensor_type.HasField("shape"):
            continue
        for axis, (dim, size) in enumerate(zip(value.type.tensor_type.shape.dim, fed.shape, strict=True)):
            if symbolic and axis == 0 and dim.dim_param:
                continue
            dim.dim_value = size
    same = [feed for feed in feeds if all(np.array_equal(feed[name], feeds[0][name]) for name in frozen)]
    tensors = [name for name, value in feeds[0].items() if isinstance(value, np.ndarray)]
    fits = [feed for feed in same if all(feed[name].shape == feeds[0][name].shape for name in tensors)]
    return made, [{name: value for name, value in feed.items() if name not in frozen} for feed in fits]


def _sets_a_shape(model: ModelProto, name: str) -> bool:
    """Return whether an input is a vector of integers that a node reads behind its first input."""
    kind = next((value.type.tensor_type for value in model.graph.input if value.name == name), None)
    if kind is None or kind.elem_type != TensorProto.INT64 or len(kind.shape.dim) > 1:
        return False
    return any(name in node.input[1:] and node.op_type in _SHAPED for node in model.graph.node)


_SHAPED = frozenset({
    "AffineGrid", "CenterCropPad", "Col2Im", "Expand", "MaxUnpool", "OneHot", "Pad", "Reshape", "Resize", "Slice",
    "Split", "Squeeze", "Tile", "TopK", "Unsqueeze",
})  # fmt: skip
_DECLARED = 0.8
"""The share of subjects whose shapes are known, as exporters write them; those of the others may be anything."""


def _rewritten(case: Case, model: ModelProto, rng: np.random.Generator) -> ModelProto:
    """Return what opshift makes of a model in half of the cases, and the model itself in the others."""
    if rng.random() < 0.5:
        with contextlib.suppress(opshift.OpshiftError):
            found = opshift.convert(model, verify=False, **case.request).model
            assert isinstance(found, ModelProto)
            return found
    return model


# --- what comes before and after ------------------------------------------------------------------------------------


def _surrounded(
    model: ModelProto, outputs: Sequence[Any], opset: int, rng: np.random.Generator
) -> tuple[ModelProto, str]:
    """Return a model with a node before one of its inputs and one after its first output, where that can be."""
    made = ModelProto()
    made.CopyFrom(model)
    said = [text for text in (_before(made, rng), _after(made, outputs[0], opset, rng)) if text]
    try:
        onnx.checker.check_model(made)
    except Exception:
        return model, ""
    return made, " ".join(said)


def _before(model: ModelProto, rng: np.random.Generator) -> str:
    """Put a node before what reads an input of floats, and name it."""
    floats = [value for value in model.graph.input if value.type.tensor_type.elem_type == TensorProto.FLOAT]
    defaults = {tensor.name for tensor in model.graph.initializer}
    floats = [value for value in floats if value.name not in defaults]
    if not floats:
        return ""
    value = floats[int(rng.integers(len(floats)))]
    operator = str(rng.choice(["Mul", "Add", "Neg", "Abs", "Sigmoid", "Exp", "Relu", "Sub", "Identity"]))
    inputs = [value.name]
    if operator in ("Mul", "Add", "Sub"):
        model.graph.initializer.append(helper.make_tensor("before_c", TensorProto.FLOAT, [], [0.5]))
        inputs.append("before_c")
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            if name == value.name:
                node.input[at] = "before_y"
    nodes = [helper.make_node(operator, inputs, ["before_y"], name="before"), *model.graph.node]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return f"behind {operator}"


def _after(model: ModelProto, output: Any, opset: int, rng: np.random.Generator) -> str:
    """Put a node after the first output, and name it."""
    kind = model.graph.output[0].type.tensor_type.elem_type
    if kind != TensorProto.FLOAT or not isinstance(output, np.ndarray) or bool(np.isnan(output).any()):
        return ""  # what a selection makes of NaN is not defined
    rank, name = output.ndim, model.graph.output[0].name
    choices: list[tuple[str, dict[str, Any], int]] = [
        ("Cast", {"to": TensorProto.INT32}, TensorProto.INT32),
        ("Sigmoid", {}, TensorProto.FLOAT),
        ("Floor", {}, TensorProto.FLOAT),
        ("Relu", {}, TensorProto.FLOAT),
        ("Tanh", {}, TensorProto.FLOAT),
    ]
    if rank:
        choices += [
            ("ArgMax", {"axis": rank - 1, "keepdims": 1}, TensorProto.INT64),
            ("Softmax", {"axis": rank - 1}, TensorProto.FLOAT),
            ("LogSoftmax", {"axis": rank - 1}, TensorProto.FLOAT),
            ("ReduceMean" if opset < 18 else "Identity", {}, TensorProto.FLOAT),
        ]
    operator, attributes, made = choices[int(rng.integers(len(choices)))]
    model.graph.node.append(helper.make_node(operator, [name], ["after_y"], name="after", **attributes))
    del model.graph.output[0]
    model.graph.output.insert(0, helper.make_tensor_value_info("after_y", made, [None] * rank))
    return f"before {operator}"
