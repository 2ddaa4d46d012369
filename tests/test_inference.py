"""What is inferred of nodes of which little is known: never a crash, never a wrong fact, never a wrong accusation.

The nodes are ONNX's own node tests at every version that takes them, with types, shapes and elements of their inputs
withheld in many ways; and nodes drawn at random, which hardly anybody would write, for what ends a process.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodes_at_random
import numpy as np
import onnx
import onnx.checker
import onnx.inliner
import onnx.parser
import pytest
from node_tests import collected
from onnx import AttributeProto, TensorProto, defs, helper
from running import run as outputs_of

import opshift
from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Dim, Facts, Tensor, constant, facts_of_type, freeze, type_name
from opshift.opsets.registry.inference_gaps import FIXED_RANK
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import NEWEST, OLDEST, attribute_value, schema_at, schema_read_at
from opshift.passes.analysis.inference import infer, typed
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.base.errors import UnsupportedError

SHOWN = (TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True)
class Case:
    """A node of one version, and the facts of its inputs and outputs when all is known."""

    name: str
    node: Node
    proto: onnx.NodeProto
    outputs: tuple[Facts, ...]

    def asked(self, inputs: Sequence[Facts | None]) -> tuple[Facts, ...] | Reason:
        return typed(dataclasses.replace(self.node, inputs=tuple(inputs)))


@functools.cache
def cases() -> tuple[Case, ...]:
    """ONNX's node tests of one node of tensors, at each version from the oldest that takes the node."""
    return tuple(case for one in collected() if one.model is not None and one.data_sets for case in versions(one))


def versions(test: Any) -> Iterator[Case]:
    graph = test.model.graph
    if len(graph.node) != 1 or not all(value.type.HasField("tensor_type") for value in (*graph.input, *graph.output)):
        return
    (node,) = graph.node
    if any(attribute.type in (AttributeProto.GRAPH, AttributeProto.TYPE_PROTO) for attribute in node.attribute):
        return
    arrays = {value.name: array for value, array in zip(graph.input, test.data_sets[0][0], strict=False)}
    known: dict[str, Facts | None] = {"": None}
    for value in graph.input:
        facts, array = facts_of_type(value.type), arrays.get(value.name)
        if isinstance(array, np.ndarray) and facts.dtype in SHOWN and array.size < 100 and array.dtype != object:
            facts = constant(array, facts.dtype)
        known[value.name] = facts
    if not set(node.input) <= set(known):
        return
    opset = next(item.version for item in test.model.opset_import if item.domain == node.domain)
    tried = range(OLDEST, opset + 1) if not node.domain else [opset]
    schemas = [schema for at in tried if (schema := schema_read_at(node.domain, node.op_type, at))]
    for since in sorted({schema.since_version for schema in schemas}):
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = onnx.IR_VERSION, {node.domain: since}
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError:
            continue
        attributes = {one.name: freeze(attribute_value(one)) for one in node.attribute}
        inputs = tuple(known[name] for name in node.input)
        seen = Node(node.domain, node.op_type, since, attributes, inputs, tuple(map(bool, node.output)))
        outputs = typed(seen)
        if isinstance(outputs, Reason):
            continue
        yield Case(f"{test.name} {since}", seen, node, outputs)


def blurred(inputs: Sequence[Facts | None], draws: random.Random, *, types: bool) -> list[Facts | None]:
    """Withhold some of what is known."""
    made: list[Facts | None] = []
    names = draws.random() < 0.3
    for place, facts in enumerate(inputs):
        if facts is None or facts.shape is None:
            made.append(facts)
            continue
        shape: tuple[Dim, ...] | None = facts.shape
        if draws.random() < 0.6:
            shape = tuple(
                (f"d{place}.{axis}" if names else None) if draws.random() < 0.6 else dim
                for axis, dim in enumerate(facts.shape)
            )
        if draws.random() < 0.15:
            shape = None
        value: Tensor | None = facts.value if draws.random() < 0.5 else None
        dtype = None if types and draws.random() < 0.6 else facts.dtype
        made.append(Facts(dtype, facts.shape if value else shape, value if dtype else None))
    return made


def contradiction(found: Sequence[Facts], wanted: Sequence[Facts]) -> str:
    """Say where what is inferred from less contradicts what is inferred from all."""
    for one, other in zip(found, wanted, strict=True):
        if one.dtype and other.dtype and one.dtype != other.dtype:
            return f"type {one.dtype} for {other.dtype}"
        if one.shape is None or other.shape is None:
            continue
        if len(one.shape) != len(other.shape):
            return f"shape {one.shape} for {other.shape}"
        for dim, true in zip(one.shape, other.shape, strict=True):
            if isinstance(dim, int) and isinstance(true, int) and dim != true:
                return f"shape {one.shape} for {other.shape}"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("types", [False, True], ids=["shapes", "types"])
def test_less_knowledge_never_gives_other_facts(types: bool) -> None:
    """Nor is a node accused for what is not known."""
    faults = []
    for case in cases():
        draws = random.Random(case.name)
        for _ in range(8):
            inputs = blurred(case.node.inputs, draws, types=types)
            found = case.asked(inputs)
            fault = str(found) if isinstance(found, Reason) else contradiction(found, case.outputs)
            if fault:
                faults.append(f"{case.name}: {fault}; {inputs}")
    assert not faults, "\n".join(faults[:20])


@pytest.mark.slow
def test_outputs_have_the_element_type_of_inputs_whatever_the_shapes_are() -> None:
    """onnx infers nothing of some nodes without ranks: Attention, for example."""
    missing = []
    for case in cases():
        inputs = [facts and Facts(facts.dtype) for facts in case.node.inputs]
        found = case.asked(inputs)
        schema = schema_at(case.node.domain, case.node.name, case.node.since_version)
        assert schema is not None
        formal = [schema.input(index) for index, facts in enumerate(inputs) if facts]
        bound = {parameter.type_variable for parameter in formal if parameter and parameter.homogeneous}
        for index, facts in enumerate(() if isinstance(found, Reason) else found):
            parameter = schema.outputs[min(index, len(schema.outputs) - 1)]
            if parameter.homogeneous and parameter.type_variable in bound and facts.dtype != case.outputs[index].dtype:
                missing.append(f"{case.name}: output {index}")
    assert not missing, "\n".join(missing[:20])


@pytest.mark.parametrize("opset", [7, 8])
def test_a_value_behind_an_attention_of_unknown_shapes_has_its_type(opset: int) -> None:
    """Equal of opset 7 takes no floats, so that IsNaN needs the type."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 28]>
        g (double[?,?,?,?] q, double[2,2,3,1] k, double[?,?,?,?] v, double[?,?,?,?] p, double[2,2,2,1] r)
        => (bool[?,?,?,?] n) {y, a, b = Attention (q, k, v, "", p, r) n = IsNaN (b)}""")
    result = opshift.convert(model, opset=opset, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    onnx.checker.check_model(result, full_check=True)


@pytest.mark.slow
def test_there_are_cases_of_nearly_every_operator() -> None:
    names = {case.node.name for case in cases() if not case.node.domain}
    missing = {schema.name for schema in defs.get_all_schemas() if not schema.domain} - names
    assert len(names) > 150, sorted(missing)


# --- in functions, whose inputs have no types ---


def in_function(case: Case, nested: bool) -> onnx.ModelProto:
    """A model that calls a function, or one through another, that holds the node."""
    node = onnx.NodeProto()
    node.CopyFrom(case.proto)
    names = list(dict.fromkeys(name for name in node.input if name))
    outputs = [name for name in node.output if name]
    opset = case.node.since_version if not case.node.domain else NEWEST
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    if case.node.domain:
        imports.append(helper.make_opsetid(case.node.domain, case.node.since_version))
    functions = [helper.make_function("f", "Inner", names, outputs, [node], imports)]
    if nested:
        call = helper.make_node("Inner", names, outputs, domain="f")
        functions.append(helper.make_function("f", "Outer", names, outputs, [call], imports))
    facts = dict(zip(case.proto.input, case.node.inputs, strict=False))
    graph = onnx.GraphProto(name="g")
    for name in names:
        known = facts[name]
        assert known is not None
        graph.input.append(helper.make_tensor_value_info(name, known.dtype or 0, known.shape))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    used = [one for one, named in zip(case.outputs, case.node.used, strict=True) if named]
    for value, known in zip(graph.output, used, strict=True):
        value.type.CopyFrom(helper.make_tensor_type_proto(known.dtype or 0, known.shape))
    graph.node.append(helper.make_node("Outer" if nested else "Inner", names, outputs, domain="f"))
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def smallest() -> list[Case]:
    """The smallest case of each operator's version."""
    found: dict[tuple[str, int], Case] = {}
    for case in sorted(cases(), key=lambda one: len(one.proto.SerializeToString())):
        if not case.node.domain and all(facts.dtype for facts in case.outputs):
            found.setdefault((case.node.name, case.node.since_version), case)
    return [found[key] for key in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True], ids=["function", "function in a function"])
def test_valid_functions_are_never_called_invalid(nested: bool) -> None:
    faults = []
    for case in smallest():
        model = in_function(case, nested)
        own = next(item.version for item in model.opset_import if not item.domain)
        for opset in sorted({max(OLDEST, own - 1), min(NEWEST, own + 1), NEWEST} - {own}):
            try:
                opshift.convert(model, opset=opset, verify=False)
            except UnsupportedError:
                continue
            except Exception as error:  # InvalidModelError, or a fault of opshift's own
                faults.append(f"{case.name} to {opset}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults[:20])


def positions() -> list[tuple[defs.OpSchema, int]]:
    """Inputs that may be int32 or int64, and nothing else: axes, indices and counts."""
    kinds = {"tensor(int32)", "tensor(int64)"}
    schemas = (one for one in defs.get_all_schemas_with_history() if not one.domain and not one.deprecated)
    return [(one, index) for one in schemas for index, formal in enumerate(one.inputs) if set(formal.types) == kinds]


def test_positions_of_int32_are_as_good_as_those_of_int64() -> None:
    """onnx reads the axes of Pad as int64, whatever they are."""
    found = positions()
    assert len(found) >= 50
    for schema, index in found:
        said = []
        for dtype in (np.int32, np.int64):
            inputs = [
                Facts(TensorProto.FLOAT, (4,)) if "tensor(float)" in formal.types else constant(np.array([1, 1]))
                for formal in schema.inputs[: max(schema.min_input, index + 1)]
            ]
            inputs[index] = constant(np.array([0], dtype))
            said.append(typed(Node("", schema.name, schema.since_version, {}, tuple(inputs), (True,))))
        assert "ParseData" not in str(said[0]), (schema.name, schema.since_version, said[0])
        assert isinstance(said[0], Reason) == isinstance(said[1], Reason), (schema.name, said)


# --- what ends a process ---

BARE = """
import mmap, os, resource, struct, sys
sys.path.insert(0, sys.argv[1])
import nodes_at_random
count = int(sys.argv[2])
place = mmap.mmap(-1, 8)
for schema in nodes_at_random.schemas():
    if schema.name not in sys.argv[3:]:
        continue
    start = 0
    while start < count:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for number in range(start, count):
                place[:] = struct.pack("q", number)
                nodes_at_random.infer_unchecked(schema, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        (number,) = struct.unpack("q", place[:])
        print(schema.name, schema.since_version, number)
        start = number + 1
"""

ALL = """
import sys
sys.path.insert(0, sys.argv[1])
import nodes_at_random
for schema in nodes_at_random.schemas():
    for number in range(int(sys.argv[2])):
        nodes_at_random.infer(schema, number)
print("lives")
"""

FATAL = ("GatherND", "LayerNormalization", "Split")
"""Operators of which nodes at random end a process in which onnx 1.23.2 infers."""


@pytest.mark.slow
def test_no_node_ends_the_process() -> None:
    """Every operator at every version, with inputs that lack a type, a rank or themselves."""
    assert run(ALL, "12") == ["lives"]


@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
def test_a_node_that_ends_a_process_ends_a_child_alone() -> None:
    """The same nodes both ways: onnx as it is dies, opshift lives."""
    ended = [line.split() for line in run(BARE, "100", *FATAL)]
    assert {name for name, _, _ in ended} == set(FATAL)
    schemas = {(one.name, one.since_version): one for one in nodes_at_random.schemas() if not one.domain}
    for name, since_version, number in ended:
        schema = schemas[name, int(since_version)]
        with pytest.raises(onnx_process.OnnxDiedError, match="onnx crashes on it"):
            onnx_process.infer_shapes(nodes_at_random.drawn(schema, int(number)).model, data_prop=True)
        nodes_at_random.infer(schema, int(number))


def run(code: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", code, str(Path(__file__).parent), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


CHOICE = """
<ir_version: 8, opset_import: ["": 13]> g (bool b, float[n,3] x) => (float y) {
   y = If (b) <
      then_branch = matrix () => (float[n,3] a) { a = Identity (x) },
      else_branch = more () => (float[1,n,3] c) { axes = Constant <value_ints = [0]> ()  c = Unsqueeze (x, axes) }
   >
}
"""
GROWTH = """
<ir_version: 8, opset_import: ["": 13]> g (float[2,3] x) => (float y) {
   trip = Constant <value_int = 3> ()
   on = Constant <value = bool {1}> ()
   y = Loop (trip, on, x) <
      body = twice (int64 i, bool go, float[m,3] v) => (bool still, float[4,3] w) {
         still = Identity (go)  w = Concat <axis = 0> (v, v)
      }
   >
}
"""


@pytest.mark.parametrize("text", [CHOICE, GROWTH], ids=["If", "Loop"])
def test_the_shape_of_one_branch_or_iteration_is_not_that_of_the_node(text: str) -> None:
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.Clear()
    (output,) = infer_model(model).graph.output
    facts = facts_of_type(output.type)
    assert facts.dtype == TensorProto.FLOAT
    assert not any(isinstance(dim, int) for dim in (facts.shape or ())[:1])
    assert text is GROWTH or facts.shape is None


@pytest.mark.parametrize("since_version", [1, 11, 22])
@pytest.mark.parametrize("automatic", ["SAME_LOWER", "SAME_UPPER", "NOTSET", "VALID"])
def test_transposed_convolutions_have_the_sizes_that_run(automatic: str, since_version: int) -> None:
    """onnx adds `output_padding` to the sizes of SAME_UPPER and SAME_LOWER, which ConvTranspose-11 gives without it."""
    for size, kernel, stride, dilation in itertools.product((1, 3), (1, 2, 3), (1, 2, 3), (1, 2)):
        more = min(stride - 1, 1)  # onnxruntime takes no more
        said = f'auto_pad = "{automatic}", strides = [{stride}], dilations = [{dilation}], output_padding = [{more}]'
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": {max(since_version, 7)}]> '
            f"g (float[1,2,{size}] x, float[2,3,{kernel}] w) => (float[a,b,c] y) {{y = ConvTranspose <{said}> (x, w)}}"
        )
        given = {"x": np.ones((1, 2, size), np.float32), "w": np.ones((2, 3, kernel), np.float32)}
        shape = outputs_of(model, [given])[0][0].shape
        node = model.graph.node[0]
        attributes = {one.name: freeze(attribute_value(one)) for one in node.attribute}
        inputs = tuple(Facts(TensorProto.FLOAT, one.shape) for one in given.values())
        found = typed(Node("", "ConvTranspose", since_version, attributes, inputs, (True,)))
        assert not isinstance(found, Reason)
        assert found[0].shape == shape, said
        inferred = facts_of_type(infer_model(model).graph.output[0].type).shape
        assert inferred is not None
        assert inferred[2] in ("c", shape[2]), said


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("automatic", ["SAME_LOWER", "SAME_UPPER"])
def test_automatic_padding_has_the_sizes_of_the_text(operator: str, ceil_mode: int, automatic: str) -> None:
    """Pools since 19: "output_spatial_shape[i] = ceil(input_spatial_shape[i] / strides_spatial_shape[i])"."""
    for size, kernel, stride in itertools.product(range(1, 8), range(1, 4), range(1, 5)):
        said = f'auto_pad = "{automatic}", ceil_mode = {ceil_mode}, kernel_shape = [{kernel}], strides = [{stride}]'
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 19]> '
            f"g (float[1,1,{size}] x) => (float[1,1,n] y) {{y = {operator} <{said}> (x)}}"
        )
        node = model.graph.node[0]
        attributes = {one.name: attribute_value(one) for one in node.attribute}
        schema = schema_at("", operator, 19)
        assert schema is not None
        seen = Node("", operator, schema.since_version, attributes, (Facts(TensorProto.FLOAT, (1, 1, size)),), (True,))
        found = typed(seen)
        assert not isinstance(found, Reason)
        assert found[0].shape == (1, 1, math.ceil(size / stride)), said
        inferred = facts_of_type(infer_model(model).graph.output[0].type).shape
        assert inferred is not None
        assert inferred[2] in ("n", math.ceil(size / stride))


@pytest.mark.parametrize("shape", [None, (None, 2), (2, 2)])
def test_an_element_type_that_the_output_cannot_have_is_found_whatever_the_shape(shape: tuple[Dim, ...] | None) -> None:
    tried = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        attribute = next((name for name in ("dtype", "output_datatype", "to") if name in schema.attributes), None)
        if schema.domain or attribute is None or schema.attributes[attribute].type != defs.OpSchema.AttrType.INT:
            continue
        if f"tensor({type_name(TensorProto.STRING)})" in schema.outputs[0].types or len(schema.inputs) != 1:
            continue
        inputs = (Facts(TensorProto.FLOAT, shape),)
        node = Node("", schema.name, schema.since_version, {attribute: TensorProto.STRING}, inputs, (True,))
        assert isinstance(typed(node), Reason), schema.name
        tried += 1
    assert tried > 10


@pytest.mark.parametrize("automatic", ["NOTSET", "VALID"])
def test_windows_that_start_late_are_no_facts(automatic: str) -> None:
    """MaxPool-22: "Sliding windows that would start in the right padded region are ignored"."""
    for size, kernel, stride in itertools.product(range(1, 9), range(1, 4), range(1, 5)):
        attributes = {"auto_pad": automatic, "ceil_mode": 1, "kernel_shape": (kernel,), "strides": (stride,)}
        inputs = (Facts(TensorProto.FLOAT, (0, 1, size)),)
        found = typed(Node("", "MaxPool", 12, attributes, inputs, (True,)))
        if isinstance(found, Reason):
            continue
        shape = found[0].shape
        assert shape is not None
        count = shape[2]
        if isinstance(count, int) and size >= kernel:
            assert count <= len(range(0, size, stride)), (size, kernel, stride)


LATE = {
    "graph": "y = {pool} (x) z = Identity (y)",
    "if": "z = If (t) <then_branch = f () => (float[] u) {{u = {pool} (x)}},"
    " else_branch = h () => (float[] w) {{w = {pool} (x)}}>",
    "loop": "z = Loop (trips, t) <body = b (int64 i, bool m) => (bool n, float[] r)"
    " {{n = Identity (m) r = {pool} (x)}}>",
}
"""A pool in the main graph, and in subgraphs that read its data from outside.

onnxruntime 1.32.0 infers as onnx does, and does not run the pool in an If, whose output it has set aside memory for.
"""


def _pooled(place: str, pool: str, dims: Sequence[int], opset: int = 21) -> onnx.ModelProto:
    names = ",".join("abcdefg"[: len(dims) + (place == "loop")])
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float{list(dims)} x, bool t) => (float[{names}] z) '
        f"<int64 trips = {{2}}> {{{LATE[place].format(pool=pool)}}}"
    )
    for node in model.graph.node:
        for attribute in node.attribute:
            for value in attribute.g.output:
                if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                    value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("place", LATE)
@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
def test_windows_that_start_late_are_no_facts_of_a_model_either(operator: str, place: str) -> None:
    late = 0
    for size, kernel, stride in itertools.product(range(1, 6), range(1, 4), range(1, 5)):
        if size < kernel:
            continue
        pool = f"{operator} <ceil_mode = 1, kernel_shape = [{kernel}], strides = [{stride}]>"
        model = _pooled(place, pool, (1, 1, size))
        feed = {"x": np.ones((1, 1, size), np.float32), "t": np.array(True)}
        inferred = infer_model(model)
        shapes = [value.type.tensor_type.shape.dim[-1].dim_value for value in inferred.graph.output]
        inner = [value for node in inferred.graph.node for one in node.attribute for value in one.g.output]
        shapes += [one.type.tensor_type.shape.dim[-1].dim_value for one in inner if one.name in ("u", "w", "r")]
        right = outputs_of(_pooled("graph", pool, (1, 1, size)), [feed])[0][0].shape[-1]
        assert set(shapes) <= {0, right}, pool
        late += set(shapes) != {right} != {0}
    assert late


def test_both_outputs_of_a_pool_with_late_windows_have_their_own_types() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,1,4] x) => (float[a,b,c] u, int64[a,b,d] v)'
        "{y, i = MaxPool <ceil_mode = 1, kernel_shape = [1], strides = [5]> (x) u = Identity (y) v = Identity (i)}"
    )
    known = {value.name: facts_of_type(value.type) for value in infer_model(model).graph.value_info}
    assert (known["y"].dtype, known["i"].dtype) == (TensorProto.FLOAT, TensorProto.INT64)


@pytest.mark.parametrize("place", LATE)
@pytest.mark.parametrize(("operator", "after"), [("LpPool", 11), ("LpPool", 17), ("AveragePool", 9), ("MaxPool", 9)])
def test_a_pool_with_late_windows_stays_valid_without_ceil_mode(operator: str, after: int, place: str) -> None:
    pool = f"{operator} <ceil_mode = 1, kernel_shape = [2, 3], strides = [3, 2]>"
    model = _pooled(place, pool, (2, 2, 3, 3))
    feed = {"x": np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3), "t": np.array(True)}
    result = opshift.convert(model, opset=after, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    onnx.checker.check_model(result, full_check=True)
    expected = outputs_of(model if place != "if" else _pooled("graph", pool, (2, 2, 3, 3)), [feed])
    np.testing.assert_allclose(outputs_of(result, [feed])[0][0], expected[0][0], rtol=1e-6)


@pytest.mark.parametrize("automatic", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("operator", "opset", "after"), [("MaxPool", 24, 21), ("MaxPool", 22, 11), ("LpPool", 22, 18)])
def test_automatic_padding_beside_dilations_of_single_elements_stays_valid(
    operator: str, opset: int, after: int, automatic: str
) -> None:
    """onnx's inference below opset 22 counts a window too many with ceil_mode, which does not matter here."""
    for size, stride in itertools.product((3, 4, 5), (1, 2, 3)):
        pool = f"{operator} <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, {stride}], dilations = [2, 1], "
        width = -(-size // stride)
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": {opset}]> g (float[1,1,3,{size}] x) => (float[1,1,3,{width}] y) '
            f'{{y = {pool} auto_pad = "{automatic}"> (x)}}'
        )
        result = opshift.convert(model, opset=after, verify=False).model
        assert isinstance(result, onnx.ModelProto)
        onnx.checker.check_model(result, full_check=True)
        feed = {"x": np.arange(3 * size, dtype=np.float32).reshape(1, 1, 3, size)}
        np.testing.assert_allclose(outputs_of(result, [feed])[0][0], outputs_of(model, [feed])[0][0], rtol=1e-6)


SLICED = [
    "k = Reshape(x, d) y = Slice(k, s, e, a)",
    "y = Slice(x, s, e, a)",
    "b = Constant <value = int64[1] {0}> () y = Slice(x, s, e, b)",
    "y = Slice(x, s, e)",
    "k = Slice(x, s, e, a) y = Slice(k, s, e, a)",
    "t = Constant <value = bool {1}> () y = If(t) <then_branch = f () => (float[A, 3] u) { u = Slice(x, s, e, a) },"
    " else_branch = h () => (float[B, 3] w) { w = Slice(x, s, e, a) }>",
]


@pytest.mark.parametrize("opset", [9, 10, 11])
@pytest.mark.parametrize("text", SLICED)
def test_a_cut_dimension_does_not_keep_its_name(text: str, opset: int) -> None:
    """onnxruntime 1.32.0 fails to run Slice-10 otherwise: it puts the result into a buffer of the uncut size."""
    before = onnx.parser.parse_model(
        '<ir_version: 6, opset_import: ["": 13]> g (float[N, 3] x) => (float[M, 3] o, float[3, K] p)'
        f" <int64[1] s = {{1}}, int64[1] e = {{3}}, int64[1] a = {{0}}, int64[2] d = {{-1, 3}}>"
        f" {{ r = Neg(x) p = Transpose(r) {text} o = Exp(y) }}"
    )
    result = opshift.convert(before, opset=opset)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert isinstance(result.model, onnx.ModelProto)
    x = np.arange(300, dtype=np.float32).reshape(100, 3)
    for found, expected in zip(*(outputs_of(one, [{"x": x}])[0] for one in (result.model, before)), strict=True):
        assert np.array_equal(found, expected)


def test_dimensions_that_slice_10_does_not_cut_keep_their_names() -> None:
    found = infer_model(
        onnx.parser.parse_model(
            '<ir_version: 5, opset_import: ["": 10]> g (float[N, M] x) => (y)'
            " <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {-1}> { y = Slice(x, s, e, a) z = Exp(y) }"
        )
    )
    dims = {value.name: [dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in found.graph.value_info}
    assert dims["z"][0] == "N"
    assert dims["z"][1] != "M"


def test_a_slice_of_unknown_rank_is_inferred() -> None:
    found = infer_model(
        onnx.parser.parse_model(
            '<ir_version: 5, opset_import: ["": 10]> g (float[N, M] x, int64[K] d) => (y)'
            " <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {0}> { r = Reshape(x, d) y = Slice(r, s, e, a) }"
        )
    )
    assert not found.graph.output[0].type.tensor_type.HasField("shape")


RANKED = [
    ("Flatten", {}, (TensorProto.FLOAT,)),
    ("DepthToSpace", {"blocksize": 2}, (TensorProto.FLOAT,)),
    ("SpaceToDepth", {"blocksize": 2}, (TensorProto.FLOAT,)),
    ("MaxRoiPool", {"pooled_shape": (2, 2)}, (TensorProto.FLOAT, TensorProto.FLOAT)),
    ("STFT", {}, (TensorProto.FLOAT, TensorProto.INT64)),
]


@pytest.mark.parametrize(("name", "attributes", "dtypes"), RANKED)
def test_the_rank_of_an_output_does_not_need_the_rank_of_an_input(
    name: str, attributes: dict[str, Any], dtypes: Sequence[int]
) -> None:
    schema = schema_at("", name, 17)
    assert schema is not None
    found = infer(Node("", name, schema.since_version, attributes, tuple(Facts(dtype) for dtype in dtypes), (True,)))
    assert not isinstance(found, Reason)
    assert found[0].rank == FIXED_RANK[name]


def test_each_fixed_rank_is_tested() -> None:
    assert {name for name, _, _ in RANKED} == set(FIXED_RANK)


@pytest.mark.parametrize("shape", [(8,), (2, 4), (1, 2, 4), (2, 2, 2)])
def test_an_operator_that_needs_two_axes_gets_them_from_flatten(shape: tuple[int, ...]) -> None:
    """Hardmax-1 flattens its input, and ArgMax of TensorRT takes no other rank than those it lists."""
    before = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["": 7]> g (float[2, 4] x, int64[K] d) => (y)'
        f" {{ r = Reshape(x, d) y = Hardmax<axis = {min(1, len(shape) - 1)}>(r) }}"
    )
    before.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    result = opshift.convert(before, target="tensorrt-10")
    assert isinstance(result.model, onnx.ModelProto)
    assert "Hardmax" not in {node.op_type for node in result.model.graph.node}
    feed: dict[str, np.ndarray[Any, Any]] = {
        "x": np.asarray([[1, 3, 3, 2], [5, 0, 5, 4]], np.float32),
        "d": np.asarray(shape, np.int64),
    }
    found, expected = (outputs_of(one, [feed])[0][0] for one in (result.model, before))
    assert np.array_equal(found, expected)
