"""Name the operators that opshift emits into any model, that have subgraphs, or that mark values."""

CONSTANT = "Constant"
IDENTITY = "Identity"
CAST = "Cast"
RESHAPE = "Reshape"
IF = "If"
LOOP = "Loop"
SCAN = "Scan"
UNBATCHED_SCAN = 9
"""The first opset whose Scan has no batch: Scan-8 is a different operator."""
QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"

SEQUENCES = (
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
)
"""Operators that read or create sequences and optionals."""

(
    JOIN,
    OPTIONAL,
    GET_ELEMENT,
    HAS_ELEMENT,
    SEQUENCE_AT,
    SEQUENCE_CONSTRUCT,
    SEQUENCE_EMPTY,
    SEQUENCE_ERASE,
    SEQUENCE_INSERT,
    SEQUENCE_LENGTH,
    SEQUENCE_MAP,
    SPLIT_TO_SEQUENCE,
) = SEQUENCES
