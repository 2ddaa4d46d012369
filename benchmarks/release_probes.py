"""One-node models by which `benchmarks/releases.py` finds out what a release of onnxruntime has kernels for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, TensorProto, helper

from opshift.opsets.registry.schema import NEWEST, OLDEST, Parameter, Schema, schema_at

IR_VERSION = 7
"""That of all models here: every release from 1.6 on loads it."""

_VALUES: dict[Any, Any] = {
    AttributeProto.INT: 1,
    AttributeProto.FLOAT: 1.0,
    AttributeProto.STRING: "",
    AttributeProto.INTS: [1],
    AttributeProto.FLOATS: [1.0],
    AttributeProto.STRINGS: ["a"],
}
_ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "BitShift": {"direction": "LEFT"},
    "Concat": {"axis": 0},
    "ConcatFromSequence": {"axis": 0},
    "Einsum": {"equation": "i->i"},
    "GRU": {"hidden_size": 1},
    "LSTM": {"hidden_size": 1},
    "MaxRoiPool": {"pooled_shape": [1, 1]},
    "RNN": {"hidden_size": 1},
    "StringNormalizer": {"locale": "C"},
    "TfIdfVectorizer": {"mode": "TF", "ngram_indexes": [0], "ngram_counts": [0], "max_skip_count": 0},
}
"""Attributes that a node needs to be valid, where not all values are."""

OUTPUT_TYPES: Mapping[str, str] = {
    "Bernoulli": "dtype",
    "BlackmanWindow": "output_datatype",
    "Cast": "to",
    "ConstantOfShape": "value",
    "DequantizeLinear": "output_dtype",
    "EyeLike": "dtype",
    "HammingWindow": "output_datatype",
    "HannWindow": "output_datatype",
    "LayerNormalization": "stash_type",
    "MelWeightMatrix": "output_datatype",
    "Multinomial": "dtype",
    "QuantizeLinear": "output_dtype",
    "RandomNormal": "dtype",
    "RandomNormalLike": "dtype",
    "RandomUniform": "dtype",
    "RandomUniformLike": "dtype",
}
"""Operators of which an attribute names the element type of the output, and the attribute."""


class Probe(NamedTuple):
    """A model of one node at an opset, and the element types of its inputs by their type variables."""

    name: str
    opset: int
    since_version: int
    types: tuple[tuple[str, str], ...]
    model: bytes


def probes(newest: int = NEWEST) -> Iterator[Probe]:
    """Yield a model for each operator and version, in each combination of element types.

    An operator that ONNX defines by a function is tried at each opset: an older release inlines it at some only.
    """
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}):
        tried = set()
        for opset in range(OLDEST, newest + 1):
            schema = schema_at("", name, opset)
            if schema is None or (schema.since_version in tried and not schema.has_body):
                continue
            tried.add(schema.since_version)
            yield from _of(schema, opset)


def _of(schema: Schema, opset: int) -> Iterator[Probe]:
    if schema.name in {"Constant", *_GRAPHS} or any(not tensors(parameter) for parameter in schema.inputs):
        return  # a Constant is an initializer before anybody looks for its kernel
    variables: dict[str, list[str]] = {}
    for parameter in schema.inputs:
        variables.setdefault(parameter.type_variable, tensors(parameter))
    attribute = OUTPUT_TYPES.get(schema.name)
    parameter = schema.outputs[0]
    named = attribute in schema.attributes and parameter.type_variable not in variables
    if named:
        variables[parameter.type_variable] = tensors(parameter)
    for chosen in itertools.product(*variables.values()):
        bound = dict(zip(variables, chosen, strict=True))
        extra = {attribute: bound[parameter.type_variable]} if named and attribute else {}
        yield Probe(schema.name, opset, schema.since_version, tuple(bound.items()), _model(schema, opset, bound, extra))


def tensors(parameter: Parameter) -> list[str]:
    """Return the element types that a parameter accepts, such as float."""
    return sorted(name[len("tensor(") : -1] for name in parameter.types if name.startswith("tensor("))


def elem_type(name: str) -> int:
    """Return the number of an element type."""
    return int(TensorProto.DataType.Value(name.upper()))


def _model(schema: Schema, opset: int, bound: Mapping[str, str], extra: Mapping[str, str]) -> bytes:
    """Return a node of inputs of unknown shape; optional ones only where nothing else has their type."""
    if schema.name == "Cast" and set(bound.values()) == {"float16"}:
        return _idle_cast(opset)
    attributes: dict[str, Any] = {
        name: _VALUES[item.type]
        for name, item in schema.raw.attributes.items()
        if item.required and item.type in _VALUES
    }
    attributes |= {key: value for key, value in _ATTRIBUTES.get(schema.name, {}).items() if key in schema.attributes}
    for key, dtype in extra.items():
        number = elem_type(dtype)
        attributes[key] = (
            onnx.TensorProto(data_type=number, dims=[1], raw_data=_zero(number)) if key == "value" else number
        )
        if key == "value" and dtype == "string":
            attributes[key] = onnx.TensorProto(data_type=number, dims=[1], string_data=[b""])
    if schema.name == "TfIdfVectorizer":
        attributes |= {"pool_strings": ["a"]} if bound["T"] == "string" else {"pool_int64s": [1]}
    names, values = _inputs(schema, bound)
    outputs = [f"out{place}" for place in range(max(schema.raw.min_output, 1))]
    node = helper.make_node(schema.name, names, outputs, **attributes)
    graph = helper.make_graph([node], "probe", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    return bytes(model.SerializeToString())


def _zero(number: int) -> bytes:
    return bytes(max(1, helper.tensor_dtype_to_np_dtype(number).itemsize))


def _idle_cast(opset: int) -> bytes:
    """Return a Cast of float16 to itself between nodes whose kernels are of float.

    Where some releases insert Casts around these, they mistake its type; alone it opens.
    """
    text = "g (float16[2,2] x) => (float16[2,2] y) {a = MatMul (x, x) b = Cast <to = 10> (a) y = MatMul (b, b)}"
    model = onnx.parser.parse_model(f'<ir_version: {IR_VERSION}, opset_import: ["": {opset}]> {text}')
    return bytes(model.SerializeToString())


def _inputs(schema: Schema, bound: Mapping[str, str]) -> tuple[list[str], list[onnx.ValueInfoProto]]:
    names: list[str] = []
    seen: set[str] = set()
    required = {one.type_variable for one in schema.inputs if not one.optional}
    for place, parameter in enumerate(schema.inputs):
        wanted = not parameter.optional or parameter.type_variable not in required | seen
        names.append(f"in{place}" if wanted else "")
        seen.add(parameter.type_variable)
    while names and not names[-1]:
        names.pop()
    values = [
        helper.make_tensor_value_info(name, elem_type(bound[parameter.type_variable]), None)
        for name, parameter in zip(names, schema.inputs, strict=False)
        if name
    ]
    return names, values


# --- operators of sequences, optionals and graphs; models of functions, opsets and ir_versions ------------------------

_GRAPHS: Mapping[str, str] = {
    "If": "g (bool c, float[2] x) => (float[2] y) {y = If (c) <then_branch = a () => (float[2] s) {s = Abs (x)}, "
    "else_branch = b () => (float[2] t) {t = Neg (x)}>}",
    "Loop": "g (int64 n, bool c, float[2] x) => (float[2] y) "
    "{y = Loop (n, c, x) <body = a (int64 i, bool d, float[2] s) => (bool e, float[2] t) "
    "{e = Identity (d) t = Abs (s)}>}",
    "Scan": "g (float[2] x, float[3,2] s) => (float[2] y) "
    "{y, z = Scan <num_scan_inputs = 1, body = a (float[2] p, float[2] q) => (float[2] r, float[2] t) "
    "{r = Add (p, q) t = Identity (r)}> (x, s)}",
    "SequenceAt": "g (seq(float[2]) s, int64 i) => (float[2] y) {y = SequenceAt (s, i)}",
    "SequenceErase": "g (seq(float[2]) s, int64 i) => (seq(float[2]) y) {y = SequenceErase (s, i)}",
    "SequenceInsert": "g (seq(float[2]) s, float[2] x) => (seq(float[2]) y) {y = SequenceInsert (s, x)}",
    "SequenceLength": "g (seq(float[2]) s) => (int64 y) {y = SequenceLength (s)}",
    "ConcatFromSequence": "g (seq(float[2]) s) => (float[n] y) {y = ConcatFromSequence <axis = 0> (s)}",
    "SequenceMap": "g (seq(float[2]) s) => (seq(float[2]) y) "
    "{y = SequenceMap (s) <body = a (float[2] p) => (float[2] q) {q = Abs (p)}>}",
    "Optional": "g (float[2] x) => (optional(float[2]) y) {y = Optional (x)}",
    "OptionalHasElement": "g (optional(float[2]) x) => (bool y) {y = OptionalHasElement (x)}",
    "OptionalGetElement": "g (optional(float[2]) x) => (float[2] y) {y = OptionalGetElement (x)}",
}
"""Graphs of one node each, in ONNX's text format."""

_SCAN_8 = (
    "g (float[1,2] x, float[1,3,2] s) => (float[1,2] y) "
    "{y, z = Scan <num_scan_inputs = 1, body = a (float[2] p, float[2] q) => (float[2] r, float[2] t) "
    '{r = Add (p, q) t = Identity (r)}> ("", x, s)}'
)

FUNCTIONS: Mapping[str, str] = {
    "a function": "g (float[2] x) => (float[2] y) {y = d.f (x)} "
    '<domain: "d", opset_import: ["": 15]> f (a) => (b) {b = Abs (a)}',
    "a function of functions": "g (float[2] x) => (float[2] y) {y = d.f (x)} "
    '<domain: "d", opset_import: ["": 15, "d": 1]> f (a) => (b) {c = d.h (a) b = d.h (c)} '
    '<domain: "d", opset_import: ["": 15]> h (a) => (b) {b = Abs (a)}',
    "a function with a parameter": "g (float[2,3] x) => (float[2,3] y) {y = d.f <axis = 0> (x)} "
    '<domain: "d", opset_import: ["": 15]> f <axis> (a) => (b) {b = Softmax <axis: int = @axis> (a)}',
    "a function called in a graph of a node": "g (bool c, float[2] x) => (float[2] y) "
    "{y = If (c) <then_branch = a () => (float[2] s) {s = d.f (x)}, else_branch = b () => (float[2] t) {t = Neg (x)}>} "
    '<domain: "d", opset_import: ["": 15]> f (a) => (b) {b = Abs (a)}',
    "a function with a graph inside": "g (bool c, float[2] x) => (float[2] y) {y = d.f (c, x)} "
    '<domain: "d", opset_import: ["": 15]> f (c, a) => (b) '
    "{b = If (c) <then_branch = p () => (float[2] s) {s = Abs (a)}, else_branch = q () => (float[2] t) {t = Neg (a)}>}",
    "a function that is called twice": "g (float[2] x) => (float[2] y) {z = d.f (x) y = d.f (z)} "
    '<domain: "d", opset_import: ["": 15]> f (a) => (b) {c = Abs (a) b = Neg (c)}',
}
"""Models with functions, at ir_version 8 and opset 15."""


def of_graphs(newest: int = NEWEST) -> Iterator[Probe]:
    """Yield a model for each version of an operator that takes or returns more than tensors, or that holds graphs."""
    for name, text in _GRAPHS.items():
        tried = set()
        for opset in range(OLDEST, newest + 1):
            schema = schema_at("", name, opset)
            if schema is None or (schema.since_version in tried and not schema.has_body):
                continue
            tried.add(schema.since_version)
            written = _SCAN_8 if (name, schema.since_version) == ("Scan", 8) else text
            head = f'<ir_version: {8 if "ptional" in name else IR_VERSION}, opset_import: ["": {opset}]> '
            model = onnx.parser.parse_model(head + written)
            yield Probe(name, opset, schema.since_version, (), model.SerializeToString())


def functions() -> Iterator[bytes]:
    """Yield models with functions, all of which a release must load that has them."""
    for text in FUNCTIONS.values():
        head = '<ir_version: 8, opset_import: ["": 15, "d": 1]> '
        yield bytes(onnx.parser.parse_model(head + text).SerializeToString())


def plain(opset: int = 13, ir_version: int = IR_VERSION, **domains: int) -> bytes:
    """Return a model of one Not, to see which opsets and ir_versions load."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Not", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.BOOL, [1])],
        [value("y", TensorProto.BOOL, [1])],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*item) for item in domains.items())]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=ir_version).SerializeToString())


def foreign(domain: str, name: str, version: int) -> bytes:
    """Return a node of another domain without inputs: that it is no operator is told apart from all other faults."""
    graph = helper.make_graph(
        [helper.make_node(name, [], ["y"], domain=domain)], "g", [], [onnx.ValueInfoProto(name="y")]
    )
    imports = [helper.make_opsetid("", 13), helper.make_opsetid(domain, version)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION).SerializeToString())


# --- values of attributes ---------------------------------------------------------------------------------------------

_FLAGS = (
    *(
        "align_corners",
        "allowzero",
        "antialias",
        "ceil_mode",
        "center_point_box",
        "count_include_pad",
        "exclude_outside",
    ),
    *(
        "exclusive",
        "fmod",
        "input_forget",
        "inverse",
        "is_causal",
        "is_case_sensitive",
        "keepdims",
        "largest",
        "layout",
    ),
    *("linear_before_reset", "noop_with_empty_axes", "onesided", "periodic", "reverse", "select_last_index"),
    *("sorted", "storage_order", "training_mode", "upper", "interleaved", "detect_negative", "detect_positive"),
)
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(_FLAGS, (0, 1)),
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "batch_dims": (0, 1),
    "block_size": (0, 2),
    "case_change_action": ("NONE", "LOWER", "UPPER"),
    "coordinate_transformation_mode": (
        *(
            "align_corners",
            "asymmetric",
            "half_pixel",
            "half_pixel_symmetric",
            "output_half_pixel",
            "pytorch_half_pixel",
        ),
        *("tf_crop_and_resize", "tf_half_pixel_for_nn"),
    ),
    "direction": ("LEFT", "RIGHT", "bidirectional", "forward", "reverse"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "mode": (
        *("avg", "bicubic", "bilinear", "constant", "cubic", "edge", "linear", "max", "nearest", "reflect", "wrap"),
        *("CRD", "DCR", "IDF", "TF", "TFIDF"),
    ),
    "nearest_mode": ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor"),
    "padding_mode": ("border", "reflection", "zeros"),
    "qk_matmul_output_mode": (0, 1, 2, 3),
    "reduction": ("add", "max", "mean", "min", "mul", "none", "sum"),
}
"""Values of attributes that a schema does not list. One that a version does not have opens nowhere, or does no harm."""


_WITH: Mapping[tuple[str, str], tuple[tuple[str, Any], ...]] = {
    ("Resize", "antialias"): (("mode", "linear"),),
    ("Resize", "exclude_outside"): (("mode", "cubic"),),
}
"""What else a node needs, so that an attribute of it may have another value than the default."""


class Choice(NamedTuple):
    """A model in which one attribute has a value, and the same model without it."""

    name: str
    opset: int
    attribute: str
    value: Any
    types: tuple[str, ...]
    model: bytes
    without: bytes


def choices(newest: int = NEWEST) -> Iterator[Choice]:
    """Yield a model for each value of an attribute that a kernel may refuse."""
    for probe in _usual(newest):
        schema = schema_at("", probe.name, probe.opset)
        for attribute in sorted(_CHOICES.keys() & schema.attributes.keys()) if schema else ():
            for value in _CHOICES[attribute]:
                model = onnx.ModelProto.FromString(probe.model)
                (node,) = model.graph.node
                kept = [item for item in node.attribute if item.name != attribute]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute(attribute, value)])
                node.attribute.extend(itertools.starmap(helper.make_attribute, _WITH.get((probe.name, attribute), ())))
                if node.op_type in ("GRU", "LSTM", "RNN") and value == "bidirectional":
                    names = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}
                    node.attribute.append(helper.make_attribute("activations", names[node.op_type] * 2))
                types, written = tuple(dtype for _, dtype in probe.types), model.SerializeToString()
                yield Choice(probe.name, probe.opset, attribute, value, types, written, probe.model)


_USUAL = ("float", "int64", "bool", "int32", "uint8", "string")


def _usual(newest: int) -> Iterator[Probe]:
    """Yield one model of each operator and opset: that of the most usual element types."""
    for _, alike in itertools.groupby(probes(newest), lambda probe: probe[:2]):
        yield min(alike, key=lambda probe: [_USUAL.index(one) if one in _USUAL else 9 for _, one in probe.types])
