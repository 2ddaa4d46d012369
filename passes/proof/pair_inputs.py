"""Draw the inputs of a single node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import ML
from opshift.passes.analysis.model_summary import summary
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.inputs.generator import Draft, Rng, Shape
from opshift.passes.proof.inputs.input_usage import InputUsage
from opshift.passes.proof.inputs.trials import Values
from opshift.passes.proof.pair import Pair, constants_of
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Feeds


def draft_of(pair: Pair) -> Draft:
    """Return the rules for drawing the inputs of a pair."""
    divides = generator.divides(pair.original) or generator.divides(pair.rewritten)
    allowed = generator.Allowed(nan=not pair.exclude_nan, infinite=not pair.finite, least=not divides)
    nodes = pair.original.graph.node
    reshaped = any(traits_of(node).reshapes for node in nodes)
    listed = any(traits_of(node).strings or node.domain == ML for node in nodes)
    usages = generator.input_usages(summary(pair.original)) if listed else {}
    return Draft(
        generator.specs(pair.original.graph),
        generator.position_inputs(pair.original),
        allowed,
        # Keys and the like are in the node's attributes, which its operator's own inputs do not know.
        {name: InputUsage(numbers=use.numbers) for name, use in usages.items()},
        shape_inputs=generator.shape_inputs(summary(pair.original)) if reshaped else (),
    )


def values_of(draft: Draft, pair: Pair, rng: Rng, complaints: list[str]) -> Values:
    """Return the function that generates a pair's inputs: the generic draft, modified by the operator.

    If the modification fails, the draft is fed, and the reason is added to `complaints`: some of the ranks tried for an
    unknown one are invalid for the operator.
    """
    constants = constants_of(pair.original)
    first = next(iter(pair.original.graph.node[0].input), "")

    def values(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        found = adversarial(shapes, turn)
        cut = {first: np.trunc(found[first])} if first in found and is_float(found[first].dtype) else {}
        return {**found, **cut}

    def adversarial(shapes: Mapping[str, Shape], turn: int | str) -> Feeds:
        drawn = draft.along(rng, shapes, turn) if isinstance(turn, str) else draft.feeds(rng, shapes, turn)
        if pair.adversarial is None:
            return drawn
        try:
            changed = pair.adversarial(rng, {**constants, **drawn})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            complaints.append(f"some inputs were not the operator's own: {type(error).__name__}: {error}")
            return drawn
        return {name: np.asarray(changed.get(name, value), value.dtype) for name, value in drawn.items()}

    return values if pair.whole else adversarial


def typed(model: onnx.ModelProto, types: Mapping[str, int]) -> onnx.ModelProto:
    """Return a copy with these element types of inputs, and without declared types of untyped values."""
    if not types:
        return model
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value in typed.graph.input:
        if value.name in types:
            value.type.tensor_type.elem_type = types[value.name]
    for value in typed.graph.output:
        # onnxruntime infers the type of an output without one, and rejects UNDEFINED.
        if value.type.HasField("tensor_type") and not value.type.tensor_type.elem_type:
            value.ClearField("type")
    kept = [value for value in typed.graph.value_info if value.type.tensor_type.elem_type]
    del typed.graph.value_info[:]
    typed.graph.value_info.extend(kept)
    return typed


def type_names(types: Mapping[str, int]) -> str:
    """Return 'x float, y int64'."""
    return ", ".join(f"{name} {onnx.TensorProto.DataType.Name(dtype).lower()}" for name, dtype in types.items())
