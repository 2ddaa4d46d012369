"""The reviewed table of versions that mean the same, held against onnx.defs, against itself and against onnxruntime."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from node_tests import collected
from onnx import helper
from review_versions import OLDEST_OPSET, file_name, neighbours, operator_files, versions

from opshift.opsets.registry.equivalences import Row, SameMeaning, digest, parse, same_meaning, schema_text, table
from opshift.opsets.registry.schema import attribute_value

onnxruntime = pytest.importorskip("onnxruntime")
errors = onnxruntime.capi.onnxruntime_pybind11_state
ONNXRUNTIME_ERRORS = (errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.RuntimeException)

ROWS = [row for rows in table().values() for row in rows]
NEWEST_IN_ONNXRUNTIME = 26
OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
RANDOM = {"Bernoulli", "Dropout", "Multinomial"}  # of those that onnx has cases for


def name(row: Row) -> str:
    return f"{row.operator}-{row.versions[0]}-{row.versions[1]}"


def schemas(row: Row) -> tuple[onnx.defs.OpSchema, onnx.defs.OpSchema]:
    known = versions()[row.operator]
    return known[row.versions[0]], known[row.versions[1]]


# The table itself.


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_somebody_has_read_these_very_texts(row: Row) -> None:
    assert row.digests == tuple(digest(schema) for schema in schemas(row))
    assert row.change


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_row_joins_neighbours(row: Row) -> None:
    assert row.versions in neighbours(row.operator)
    assert not any(schema.deprecated for schema in schemas(row))


def test_the_table_is_sorted_and_has_no_row_twice() -> None:
    order = [(row.operator, row.versions) for row in ROWS]
    assert order == sorted(set(order))


def test_an_operator_that_has_a_file_has_no_row() -> None:
    assert {file_name(operator) for operator in table()}.isdisjoint(operator_files())


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_attributes_differ_as_the_row_says(row: Row) -> None:
    older, newer = (
        {key: (item.type, item.required, default_of(item)) for key, item in schema.attributes.items()}
        for schema in schemas(row)
    )
    assert older.items() <= newer.items(), "an attribute was withdrawn or changed"
    assert newer.keys() - older.keys() <= row.new_attributes.keys(), "a new attribute is not in the row"
    for key, value in row.new_attributes.items():
        _, required, default = newer[key]
        assert not required
        # Where the schema gives no default, an absent list means the row's item everywhere, or nothing at all.
        assert default == value or (default is None and value in ((), (1,)))


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_parameters_differ_as_the_row_says(row: Row) -> None:
    older, newer = schemas(row)
    for before, after in ((older.inputs, newer.inputs), (older.outputs, newer.outputs)):
        # An operator that gains an input or an output has a file.
        assert [item.name for item in after] == [item.name for item in before]
        for old, new in zip(before, after, strict=True):
            assert new.option in (old.option, OPTIONAL)
            assert set(new.types) & set(old.types)


def default_of(attribute: onnx.defs.OpSchema.Attribute) -> Any:
    return attribute_value(attribute.default_value) if attribute.default_value.type else None


# Looking up.


def test_a_version_means_the_same_as_itself() -> None:
    assert same_meaning("NoSuchOperator", 7, 7) == SameMeaning("NoSuchOperator", 7, 7)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_row_holds_both_ways_unless_it_says_up_only(row: Row) -> None:
    older, newer = row.versions
    up, down = same_meaning(row.operator, older, newer), same_meaning(row.operator, newer, older)
    assert up is not None
    assert up.changes == (row.change,)
    assert not up.new_attributes
    if row.up_only:
        assert down is None
    else:
        assert down is not None
        assert down.new_attributes == row.new_attributes


def test_rows_chain() -> None:
    up, down = same_meaning("DepthToSpace", 1, 13), same_meaning("DepthToSpace", 13, 1)
    assert up is not None
    assert down is not None
    assert up.changes == down.changes[::-1]
    assert len(up.changes) == 2
    assert not up.new_attributes
    assert down.new_attributes == {"mode": "DCR"}


@pytest.mark.parametrize(
    ("operator", "source", "target"),
    [
        ("Relu", 6, 15),  # no version 15
        ("Relu", 7, 14),  # an opset, not a version
        ("Relu", 14, 21),
        ("Sum", 13, 6),  # up only, in the middle of a chain
        ("NoSuchOperator", 1, 2),
    ],
)
def test_a_missing_link_gives_nothing(operator: str, source: int, target: int) -> None:
    assert same_meaning(operator, source, target) is None


@pytest.mark.parametrize(
    ("operator", "source", "target", "attributes", "expected"),
    [
        ("DepthToSpace", 11, 1, {"blocksize": 2}, ()),
        ("DepthToSpace", 11, 1, {"blocksize": 2, "mode": "DCR"}, ()),
        ("SpaceToDepth", 28, 13, {"mode": "CRD"}, ("attribute mode",)),
        ("DepthToSpace", 11, 1, {"mode": "CRD"}, ("attribute mode",)),
    ],
)
def test_what_a_node_would_lose(
    operator: str,
    source: int,
    target: int,
    attributes: dict[str, Any],
    expected: tuple[str, ...],
) -> None:
    meaning = same_meaning(operator, source, target)
    assert meaning is not None
    assert meaning.lost(attributes) == expected


ENTRY = '[[Relu]]\nversions = [6, 13]\ndigests = ["a", "b"]\n'


@pytest.mark.parametrize("text", [ENTRY, ENTRY + 'change = "x"\nnew_input = 1\n', ENTRY.replace("6, ", "")])
def test_a_row_with_an_unknown_or_missing_key_is_an_error(text: str) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        parse(text)
    assert parse(ENTRY + 'change = "x"\n')["Relu"][0].versions == (6, 13)


def test_the_canonical_text_has_all_that_a_reviewer_reads() -> None:
    text = schema_text(onnx.defs.get_schema("MaxPool", 12, ""))
    for part in (
        "operator MaxPool\nsince_version 12\n",
        "consumes an input tensor X and applies max pooling",
        "attribute ceil_mode INT optional default 0\nWhether to use ceil or floor",
        "attribute kernel_shape INTS required default None",
        "attribute auto_pad STRING optional default b'NOTSET'",
        "input X Single T\nInput data tensor",
        "output Indices Optional I\nIndices tensor",
        "type I tensor(int64)\nConstrain index tensor to int64",
        "type T tensor(double), tensor(float), tensor(float16), tensor(int8), tensor(uint8)\n",
    ):
        assert part in text


# Against onnxruntime, on the cases that onnx ships.

# Rows that onnxruntime cannot show: random results, optional or sequence types, no kernel for one of the versions, or
# a version 28 whose cases cannot go down. The list is exact: a row must leave it once a case or a kernel appears.
UNSEEN = {
    "Bernoulli-15-22",
    "BitShift-11-28",
    "MaxRoiPool-1-22",
    "Mod-13-28",
    "Multinomial-7-22",
    "Optional-15-28",
    "OptionalGetElement-15-18",
    "OptionalHasElement-15-18",
    "RandomNormal-1-22",
    "RandomNormalLike-1-22",
    "RandomUniform-1-22",
    "RandomUniformLike-1-22",
    "SplitToSequence-11-24",
}


@dataclass(frozen=True)
class OneNode:
    """A model of one node with tensors in and out, made for one version of its operator, and what it must compute."""

    model: onnx.ModelProto
    version: int
    inputs: list[Any]
    expected: list[Any]
    rtol: float
    atol: float

    @property
    def node(self) -> onnx.NodeProto:
        node: onnx.NodeProto = self.model.graph.node[0]
        return node

    def at(self, version: int) -> onnx.ModelProto | None:
        """Return the model relabelled to another version of the operator; None where the table or a schema says no."""
        meaning = same_meaning(self.node.op_type, self.version, version)
        opset = opset_of(self.node.op_type, version)
        attributes = {item.name: attribute_value(item) for item in self.node.attribute}
        if opset is None or meaning is None or meaning.lost(attributes):
            return None
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        model.opset_import[0].version = opset
        model.ir_version = min(model.ir_version, 10)
        node = model.graph.node[0]
        kept = [item for item in self.node.attribute if item.name not in meaning.new_attributes]
        del node.attribute[:], node.input[used(node.input) :], node.output[used(node.output) :]
        node.attribute.extend(kept)
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        types = {item.name: item.type for item in model.graph.input}
        try:
            onnx.shape_inference.infer_node_outputs(schema, node, types, opset_imports=list(model.opset_import))
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
            return None
        return model

    def run_at(self, version: int) -> list[Any] | None:
        """Return what onnxruntime computes at a version; None where the node cannot be moved or no kernel is there."""
        model = self.at(version)
        return None if model is None else run(model, self.inputs)

    def check(self, computed: list[Any]) -> None:
        for got, wanted in zip(computed, self.expected, strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, wanted, rtol=self.rtol, atol=self.atol)
            else:
                np.testing.assert_array_equal(got, wanted)

    def works_as_shipped(self) -> bool:
        """Say whether onnxruntime gets the case right at its own version, if it loads that version."""
        if opset_of(self.node.op_type, self.version) is None:
            return True
        try:
            computed = self.run_at(self.version)
            if computed is not None:
                self.check(computed)
        except (RuntimeError, AssertionError, *ONNXRUNTIME_ERRORS):
            return False
        return computed is not None


def used(names: Any) -> int:
    return max((index + 1 for index, item in enumerate(names) if item), default=0)


def opset_of(operator: str, version: int) -> int | None:
    """Return the newest opset that has this version of an operator and that onnxruntime loads."""
    last = min([NEWEST_IN_ONNXRUNTIME, *(other - 1 for other in versions()[operator] if other > version)])
    return last if last >= max(version, OLDEST_OPSET) else None


def run(model: onnx.ModelProto, inputs: list[Any]) -> list[Any] | None:
    """Run a model in onnxruntime as it stands; None where it has no kernel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except errors.NotImplemented:
        return None
    return list(session.run(None, dict(zip([item.name for item in model.graph.input], inputs, strict=True))))


@functools.cache
def one_node_cases() -> dict[str, list[OneNode]]:
    """Return onnx's own cases for the operators of the table, as far as numpy has their dtypes."""
    found: dict[str, list[OneNode]] = {}
    for case in collected():
        model = case.model
        if model is None or len(model.graph.node) != 1 or len(model.opset_import) != 1 or model.opset_import[0].domain:
            continue
        operator = model.graph.node[0].op_type
        values = (*model.graph.input, *model.graph.output)
        if operator not in table() or operator in RANDOM or not all(plain(item.type) for item in values):
            continue
        version = onnx.defs.get_schema(operator, model.opset_import[0].version, "").since_version
        for inputs, expected in case.data_sets or ():
            node = OneNode(
                model,
                version,
                [array(item) for item in inputs],
                [array(item) for item in expected],
                case.rtol,
                case.atol,
            )
            if node.works_as_shipped():
                found.setdefault(operator, []).append(node)
    return found


def array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def plain(kind: onnx.TypeProto) -> bool:
    """Say whether a type is a tensor of a dtype that numpy has of its own."""
    if not kind.HasField("tensor_type"):
        return False
    return helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type).type.__module__ == "numpy"


def same_bits(left: list[Any], right: list[Any]) -> bool:
    return all(
        (a.dtype, a.shape, a.tolist() if a.dtype == object else a.tobytes())
        == (b.dtype, b.shape, b.tolist() if b.dtype == object else b.tobytes())
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_onnxruntime_computes_the_same_at_both_versions(row: Row) -> None:
    seen = 0
    older, newer = row.versions
    for case in one_node_cases().get(row.operator, []):
        at_older, at_newer = case.run_at(older), case.run_at(newer)
        for computed in (at_older, at_newer):
            if computed is not None:
                case.check(computed)
        if at_older is not None and at_newer is not None:
            assert same_bits(at_older, at_newer)
            seen += 1
        # What the case ships is the newer version's meaning, where onnxruntime cannot load that itself.
        seen += at_older is not None and opset_of(row.operator, newer) is None
    for attributes, inputs in boundary(row):
        at_older = run(one_node(row.operator, older, attributes, inputs), inputs)
        at_newer = run(one_node(row.operator, newer, attributes, inputs), inputs)
        assert at_older is not None
        assert at_newer is not None
        assert same_bits(at_older, at_newer)
        seen += 1
    assert bool(seen) == (name(row) not in UNSEEN)


# Boundary inputs of our own, where the texts leave a doubt or onnx has no case that both versions take.

Attributes = dict[str, Any]
X = np.random.default_rng(0).standard_normal((1, 2, 6)).astype(np.float32)
MATRIX = np.array([[3, -1, 2], [0, 5, -4]], np.float32)
SPECIAL = np.array([-3, -1, -0.0, 0, 1, 3, np.nan, np.inf, -np.inf], np.float32)
PADDING = [
    {"strides": [stride], "auto_pad": pad}
    for stride in (1, 2)
    for pad in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
]


def reductions() -> Iterator[tuple[Attributes, list[Any]]]:
    """Yield all kinds of axes on ordinary and empty tensors."""
    for axes, keepdims, data in itertools.product(([0], [1], [0, 1], None), (0, 1), (np.abs(MATRIX), MATRIX[:0])):
        yield {"keepdims": keepdims} | ({} if axes is None else {"axes": axes}), [data]


def convolutions() -> Iterator[tuple[Attributes, list[Any]]]:
    """Yield every kind of padding, on even and odd lengths."""
    for size, length, padding in itertools.product((2, 3), (5, 6), PADDING):
        yield padding, [X[..., :length], np.linspace(-1, 2, 4 * size, dtype=np.float32).reshape(2, 2, size)]


def branches() -> Attributes:
    """Return two branches for If, the one's output a constant of the other's shape."""
    graphs = {}
    for branch, value in (("then_branch", 1.0), ("else_branch", 2.0)):
        constant = helper.make_node("Constant", [], [branch], value=helper.make_tensor("", 1, [2], [value, -value]))
        graphs[branch] = helper.make_graph([constant], branch, [], [helper.make_tensor_value_info(branch, 1, [2])])
    return graphs


def loop_body() -> onnx.GraphProto:
    """Return a body with a carried value, a scan output and an outer value (`i2`, the carried value's first)."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["carried", "i2"], ["next"]),
        helper.make_node("Identity", ["carried"], ["scanned"]),
        helper.make_node("Identity", ["go"], ["go_on"]),
    ]
    inputs = [value("trip", 7, []), value("go", 9, []), value("carried", 1, [2])]
    outputs = [value("go_on", 9, []), value("next", 1, [2]), value("scanned", 1, [2])]
    return helper.make_graph(nodes, "body", inputs, outputs)


def boundary(row: Row) -> Iterator[tuple[Attributes, list[Any]]]:
    """Yield attributes and inputs for a row; nothing for most."""
    quantized, zero = np.array([[9, 0, 255], [1, 0, 3]], np.uint8)
    scale = np.array([0.5, 0.25, 2], np.float32)
    integers = [np.array([5, -5, 5, -5], np.int64), np.array([3, 3, -3, -3], np.int64)]
    match row.operator:
        case "CastLike":
            yield from (({}, [SPECIAL[:6], np.zeros(1, dtype)]) for dtype in (np.int32, np.float64, np.bool_))
        case "Compress" if row.up_only:
            yield {"axis": 1}, [MATRIX, np.array([True, False, True])]
            yield {}, [MATRIX, np.array([False, True])]
        case "Conv" if row.versions == (1, 11):
            yield from convolutions()
        case "DepthToSpace" | "SpaceToDepth" if row.versions[0] == 1:
            yield {"blocksize": 2}, [np.arange(64, dtype=np.float32).reshape(1, 4, 4, 4)]
        case "QuantizeLinear" | "DequantizeLinear" if row.versions == (10, 13):
            yield (
                {},
                [
                    quantized if row.operator == "DequantizeLinear" else SPECIAL[:6],
                    np.array(0.5, np.float32),
                    np.array(1, np.uint8),
                ],
            )
        case "QuantizeLinear" if row.versions[0] < 21:
            yield {"axis": 0}, [SPECIAL[3:6], scale, zero]
            yield {"axis": 0}, [SPECIAL[3:6].reshape(3, 1), scale, zero]
        case "DequantizeLinear" if row.versions[0] < 21:
            yield {"axis": 0}, [quantized, scale, zero]
            yield {"axis": 0}, [quantized.reshape(3, 1), scale, zero]
        case "If" if row.up_only:
            yield from ((branches(), [np.array(value)]) for value in (True, False))
        case "Loop":
            for trips, go in ((0, True), (3, True), (3, False)):
                yield {"body": loop_body()}, [np.array(trips, np.int64), np.array(go), np.array([1, 2], np.float32)]
        case "Mean" | "Sum":
            yield {}, [MATRIX, -MATRIX, MATRIX * 3]
        case "Mod" if row.versions == (10, 13):
            yield from (({"fmod": fmod}, integers) for fmod in (0, 1))
            yield {"fmod": 1}, [SPECIAL, np.full(9, 2, np.float32)]
            yield {"fmod": 1}, [np.full(9, -2.5, np.float32), SPECIAL]
        case "NonMaxSuppression":
            boxes = np.array([[[0, 0, 1, 2], [0, 1, 1, 3], [0, 0, 1, 1], [0, 0, 1, 4]]], np.float32)
            scores = np.array([[[0.9, 0.8, 0.7, 0.95]]], np.float32)
            for threshold in (0, 0.25, 1 / 3, 0.5, 1):  # the boxes overlap by exactly these
                limits = [np.array([threshold], np.float32), np.array([0], np.float32)]
                yield {}, [boxes, scores, np.array([9], np.int64), *limits]
        case operator if operator.startswith("Reduce") and row.versions[1] <= 13:
            yield from reductions()


def one_node(operator: str, version: int, attributes: Attributes, inputs: list[Any]) -> onnx.ModelProto:
    """Return a model of one node at a version of its operator, with as many outputs as the boundary inputs give."""
    names = [f"i{index}" for index in range(len(inputs))]
    count = {"Loop": 2}.get(operator, 1)
    node = helper.make_node(operator, names, [f"o{index}" for index in range(count)], **attributes)
    given = [
        helper.make_tensor_value_info(item, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for item, value in zip(names, inputs, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=item) for item in node.output]
    opset = opset_of(operator, version)
    assert opset is not None
    graph = helper.make_graph([node], "g", given, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
