"""Define the traits of operators without a file, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.shape_hints import (
    blocks,
    parts,
)
from opshift.opsets.registry.traits import EVERY, AlongAxis, Flow, IterationLayout, Strings, Trait, Traits


def _joins_none(inputs: Sequence[Any]) -> bool:
    """Return whether a sequence has an element that is empty, and others of another shape.

    onnxruntime 1.32.0 concatenates them without checking their shapes, and leaves the part of an empty one
    uninitialized.
    """
    shapes = [getattr(one, "shape", None) for one in (inputs[0] if isinstance(inputs[0], list) else ())]
    return len(set(shapes)) > 1 and any(shape is not None and 0 in shape for shape in shapes)


SCHEMA_ONLY: Mapping[str, Traits] = {
    "ArrayFeatureExtractor": Traits(indices={1: AlongAxis(axis=-1, negative=False)}),
    "Bernoulli": Traits(floats=(Trait.RANDOM,)),
    "BlackmanWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "CausalConvWithState": Traits(floats=(Trait.SUMS,), unwritten=(0, 1)),
    "ConcatFromSequence": Traits(floats=(Trait.MOVES,), moved=EVERY, meaningless=_joins_none),
    "DepthToSpace": Traits(floats=(Trait.MOVES,), moved=(0,), likely_sizes=blocks(dimensions=2), exact_body=True),
    "EmbedLayerNormalization": Traits(
        indices={0: AlongAxis(data=2, axis=0, negative=False), 1: AlongAxis(data=4, axis=0, negative=False)}
    ),
    "HammingWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "HannWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "ImageDecoder": Traits(),
    "Loop": Traits(counts=(0, 1), iteration=IterationLayout(inputs=2, outputs=1), grows=True, makes_types=()),
    "MaxRoiPool": Traits(floats=(Trait.SELECTS,), corners=(1,), reads_places=True),
    "Multinomial": Traits(floats=(Trait.RANDOM,)),
    "Optional": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "RandomNormal": Traits(floats=(Trait.RANDOM,)),
    "RandomNormalLike": Traits(floats=(Trait.RANDOM,)),
    "RandomUniform": Traits(floats=(Trait.RANDOM,)),
    "RandomUniformLike": Traits(floats=(Trait.RANDOM,)),
    "RegexFullMatch": Traits(strings=Strings.PATTERN),
    "SequenceAt": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "SequenceConstruct": Traits(floats=(Trait.MOVES,), moved=EVERY),
    "SequenceEmpty": Traits(floats=(Trait.MOVES,)),
    "SequenceErase": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "SequenceInsert": Traits(floats=(Trait.MOVES,), moved=(0, 1)),
    "SequenceLength": Traits(value_range=value_ranges.counts, floats=(Trait.MOVES,)),
    "SequenceMap": Traits(),
    "Softsign": Traits(inverse=lambda value: (value / (1 - abs(value)),)),
    "SpaceToDepth": Traits(floats=(Trait.MOVES,), moved=(0,), likely_sizes=blocks(dimensions=1), exact_body=True),
    "SplitToSequence": Traits(floats=(Trait.MOVES,), counts=(1,), moved=(0,), likely_sizes=parts),
    "StringConcat": Traits(),
    "StringNormalizer": Traits(strings=Strings.CASES),
    "StringSplit": Traits(strings=Strings.DELIMITER),
    "SwiGLU": Traits(floats=(Trait.WEIGHS,)),
    "ThresholdedRelu": Traits(
        floats=(Trait.PIECEWISE, Trait.STEPS), bounds=("alpha",), flow=Flow.POINTWISE, exact_body=True
    ),
}
