"""The texts of docs/dialect.md and docs/ml.md: a row for each replaced operator of another domain."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.opsets.registry import dialect
from opshift.opsets.registry.operator import ML, Operator, dialect_operators, ml_operators
from opshift.opsets.registry.schema import Schema, foreign_operators, schema_at, schema_read_at

HEAD = """\
# onnxruntime's own operators

Written by `python docs/generate.py` from the registry; do not edit by hand.

onnxruntime's optimizer and its tools save models with operators of the domain com.microsoft, and with some in the
default domain that ONNX does not have. Few other runtimes load these models. opshift replaces the operators in the
table:

```
opshift convert optimized.onnx plain.onnx --decompose com.microsoft --opset 17
opshift convert optimized.onnx plain.onnx --target openvino
```

`--decompose com.microsoft` replaces all of them, `--decompose com.microsoft::FastGelu` one. With `--target`,
operators that the target does not list are replaced ([targets.md](targets.md#write-a-profile)). Otherwise operators of
com.microsoft stay. Operators in the default domain are always replaced, because no opset has them.

The operators have no versions, and still change. The table is for onnxruntime {version}; a node with another
attribute, input or output is refused. Each replacement is verified as usual: the original node runs in onnxruntime
where its CPU provider has a kernel, otherwise in numpy, as the schema's text defines it. Outputs agree within the
rounding of the original; moved data agrees exactly, and so do quantized values, but for one step where what is
rounded lies in the middle of two. Types are those of the schema; for most of them but float there is no kernel, and
numpy is the reference. Constant weights of MatMulNBits with packed zero points, or none, stay packed at opset 21 and
later, where DequantizeLinear reads uint4 and uint8 in blocks (uint2 from 25 on). Below, and with float zero points,
they become floats, and a note has the growth in bytes; beyond 1 GiB, nodes unpack them in each run. `accuracy_level`
of MatMulNBits permits a kernel to round its input, so the result is that of level 1. Fully masked rows are not
compared, because rounding decides their weights, and neither are empty batches of attention. A past
without the outputs for the present is not defined in the kernel of MultiHeadAttention (1.32.0), which reads
uninitialized memory.

`python benchmarks/dialect_runtimes.py RUNTIME` runs nodes of these operators in another runtime, and with `--converted`
what they become for its profile. Of 100 nodes, all but those of QLinearConcat, QLinearLeakyRelu, QLinearSigmoid,
QLinearWhere, NhwcMaxPool and UnfoldTensor, right are, before and after: OpenVINO 2026.4.1, 67 and 98; MNN 3.6.1, 8 and
79; OpenCV 4.14, which needs constant weights, none and 38.

`python benchmarks/dialect_in_runtimes.py` runs whole models, made of packages, in OpenVINO, OpenCV and tract, before
and after. Of BERT, RoBERTa, DistilBERT, ALBERT, GPT-2 and five decoders as genai writes them, right are: OpenVINO
2026.4.1, 5 and 10; tract 0.23.9, 2 and 10; OpenCV 4.14, none and 2.

| Operator | Types | Attributes | Replaced by | Compared with | Refused |
|---|---|---|---|---|---|
"""

OTHERS = """
The other operators of com.microsoft are refused with the code [`foreign-operator`](limits.md#foreign-operator),
unless they stay.
"""


ML_HEAD = """\
# Operators for classical machine learning

Written by `python docs/generate.py` from the registry; do not edit by hand.

Converters from scikit-learn and its like write operators of ONNX's domain ai.onnx.ml, which few runtimes have. opshift
replaces those in the table by tensor operators:

```
opshift convert pipeline.onnx plain.onnx --decompose ai.onnx.ml
opshift convert pipeline.onnx plain.onnx --target openvino
```

`--decompose ai.onnx.ml` replaces all of them, `--decompose ai.onnx.ml::Scaler` one; with `--target`, all
operators that the target does not list are replaced ([targets.md](targets.md#write-a-profile)). The specification of
these operators leaves much open: scores of two classes, the formulas of `post_transform`, rows whose norm is zero. The
replacements compute what the CPU kernels of onnxruntime 1.32.0 do, and are compared with them; where a kernel lacks an
element type, the reference is numpy. PROBIT is an approximation in float: near 0.5, cancellation leaves half of the
digits. Strings stay strings: a runtime without them needs labels that are integers.

ZipMap, which makes maps from labels to scores, has no replacement by tensors. `--assume tensor-output` drops it at the
end of a model: the output keeps its name, and becomes a tensor with a column for each label.

| Operator | Versions | Types | Attributes | Replaced by | Refused |
|---|---|---|---|---|---|
"""

ML_OTHERS = """
The other operators of the domain ({others}) are refused with the code
[`foreign-operator`](limits.md#foreign-operator), unless they stay.
"""


def ml_page() -> str:
    """Return the text on ai.onnx.ml."""
    operators = ml_operators()
    others = sorted(foreign_operators(ML) - {operator.name for operator in operators})
    return ML_HEAD + "".join(map(_ml_row, operators)) + ML_OTHERS.format(others=", ".join(others))


def _ml_row(operator: Operator) -> str:
    schema = schema_at(ML, operator.name, operator.versions[-1].since)
    assert schema is not None
    cells = (
        operator.name,
        ", ".join(str(version.since) for version in operator.versions),
        "; ".join(_types(schema)),
        ", ".join(sorted(schema.attributes)) or "none",
        "; ".join(_ways(operator)),
        operator.refused or "nothing",
    )
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """Return the text."""
    rows = "".join(map(_row, dialect_operators()))
    return HEAD.format(version=dialect.version()) + rows + OTHERS


def _row(operator: Operator) -> str:
    schema = schema_read_at(operator.domain, operator.name, 1)
    assert schema is not None
    cells = (
        operator.name if operator.domain else f"{operator.name} (default domain)",
        "; ".join(_types(schema)),
        ", ".join(sorted(schema.attributes)) or "none",
        "; ".join(_ways(operator)),
        "the kernel" if dialect.has_kernel(operator.domain, operator.name) else "numpy",
        operator.refused or "nothing",
    )
    return f"| {' | '.join(cells)} |\n"


def _types(schema: Schema) -> Iterator[str]:
    """Yield the element types of each type variable of the inputs."""
    kinds = {one.type_variable: one.types for one in schema.inputs}
    for variable, types in kinds.items():
        yield f"{variable}: {', '.join(sorted(kind.removeprefix('tensor(').removesuffix(')') for kind in types))}"


def _ways(operator: Operator) -> Iterator[str]:
    """Yield the replacements of a node, as its lowerings describe them."""
    if operator.means is not None and not operator.means.domain:
        yield f"{operator.means.name}-{operator.means.versions[0].since}, or what replaces that"
        return
    yield from (one.summary.rstrip(".") for one in (operator.means or operator).lowerings)
