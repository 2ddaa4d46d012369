"""The traits of operators without a file, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.opsets.registry.shape_hints import (
    blocks,
    boxes_and_scores,
    broadcast,
    convolved,
    matrices,
    one_shape,
    parts,
)
from opshift.opsets.registry.traits import EVERY, AlongAxis, Flow, Interval, Iteration, Strings, Trait, Traits


def _joins_none(inputs: Sequence[Any]) -> bool:
    """Whether a sequence has an element that is empty, and others of another shape.

    onnxruntime 1.32.0 joins them whether they fit or not, and leaves the place of an empty one as memory is.
    """
    shapes = [getattr(one, "shape", None) for one in (inputs[0] if isinstance(inputs[0], list) else ())]
    return len(set(shapes)) > 1 and any(shape is not None and 0 in shape for shape in shapes)


SCHEMA_ONLY: Mapping[str, Traits] = {
    "ArrayFeatureExtractor": Traits(indices={1: AlongAxis(axis=-1, negative=False)}),
    "Bernoulli": Traits(floats=(Trait.RANDOM,)),
    "BlackmanWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "CausalConvWithState": Traits(floats=(Trait.SUMS,), unwritten=(0, 1)),
    "ConcatFromSequence": Traits(floats=(Trait.MOVES,), moved=EVERY, meaningless=_joins_none),
    "Conv": Traits(floats=(Trait.SUMS,), equal_dims=convolved, spreads=False, factors=2),
    "Cosh": Traits(domains={0: Interval(-16, 16)}),
    "DepthToSpace": Traits(floats=(Trait.MOVES,), moved=(0,), likely_sizes=blocks(dimensions=2), exact_body=True),
    "Det": Traits(floats=(Trait.SUMS, Trait.WEIGHS)),
    "DynamicSlice": Traits(moved=(0,)),
    "EmbedLayerNormalization": Traits(
        indices={0: AlongAxis(data=2, axis=0, negative=False), 1: AlongAxis(data=4, axis=0, negative=False)}
    ),
    "HammingWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "HannWindow": Traits(floats=(Trait.IN_FLOAT,), counts=(0,), grows=True),
    "HardSigmoid": Traits(floats=(Trait.PIECEWISE,)),
    "ImageDecoder": Traits(),
    "LeakyRelu": Traits(floats=(Trait.PIECEWISE,)),
    "Loop": Traits(counts=(0, 1), iteration=Iteration(inputs=2, outputs=1), grows=True, makes_types=()),
    "MatMul": Traits(floats=(Trait.SUMS,), equal_dims=matrices, factors=2),
    "MaxRoiPool": Traits(floats=(Trait.SELECTS,), corners=(1,), reads_places=True),
    "MaxUnpool": Traits(counts=(2,), equal_dims=one_shape),
    "MelWeightMatrix": Traits(
        floats=(Trait.IN_FLOAT,),
        counts=(0, 1),
        domains={2: Interval(2000, 16000), 3: Interval(0, 400), 4: Interval(400, 2000)},
        grows=True,
    ),
    "Multinomial": Traits(floats=(Trait.RANDOM,)),
    "NonMaxSuppression": Traits(
        floats=(Trait.MOVES,),
        counts=(2,),
        corners=(0,),
        flow=Flow.BOUNDED,
        equal_dims=boxes_and_scores,
        spreads=False,
        decides=True,
        nan_undefined=True,
    ),
    "Optional": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "PRelu": Traits(floats=(Trait.PIECEWISE,), equal_dims=broadcast),
    "QLinearConv": Traits(unwritten=(0, 3), scales=(1, 4, 6)),
    "RandomNormal": Traits(floats=(Trait.RANDOM,)),
    "RandomNormalLike": Traits(floats=(Trait.RANDOM,)),
    "RandomUniform": Traits(floats=(Trait.RANDOM,)),
    "RandomUniformLike": Traits(floats=(Trait.RANDOM,)),
    "RegexFullMatch": Traits(strings=Strings.PATTERN),
    "Relu": Traits(floats=(Trait.SELECTS,), flow=Flow.POINTWISE),
    "STFT": Traits(floats=(Trait.SUMS, Trait.WEIGHS), counts=(1, 3)),
    "SequenceAt": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "SequenceConstruct": Traits(floats=(Trait.MOVES,), moved=EVERY),
    "SequenceEmpty": Traits(floats=(Trait.MOVES,)),
    "SequenceErase": Traits(floats=(Trait.MOVES,), moved=(0,)),
    "SequenceInsert": Traits(floats=(Trait.MOVES,), moved=(0, 1)),
    "SequenceLength": Traits(floats=(Trait.MOVES,)),
    "SequenceMap": Traits(),
    "Softsign": Traits(inverse=lambda value: (value / (1 - abs(value)),)),
    "SpaceToDepth": Traits(floats=(Trait.MOVES,), moved=(0,), likely_sizes=blocks(dimensions=1), exact_body=True),
    "SplitToSequence": Traits(floats=(Trait.MOVES,), counts=(1,), moved=(0,), likely_sizes=parts),
    "StringConcat": Traits(),
    "StringNormalizer": Traits(strings=Strings.CASES),
    "StringSplit": Traits(strings=Strings.DELIMITER),
    "SwiGLU": Traits(floats=(Trait.WEIGHS,)),
    "TfIdfVectorizer": Traits(strings=Strings.LISTED),
    "ThresholdedRelu": Traits(
        floats=(Trait.PIECEWISE, Trait.STEPS), bounds=("alpha",), flow=Flow.POINTWISE, exact_body=True
    ),
    "Unique": Traits(floats=(Trait.MOVES,), moved=(0,), positions_after=True, decides=True, nan_undefined=True),
}
