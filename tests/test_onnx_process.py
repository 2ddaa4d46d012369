"""onnx's C++ code: what crashes, hangs or grows there ends a child process, and what was asked ends in words.

Each model is run both ways: given to onnx as it is, in a process that may end, and to opshift, in this one.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

import opshift
from opshift.opsets.native import onnx_process
from opshift.opsets.native.channel import Channel, LostError
from opshift.opsets.native.onnx_process import OnnxDiedError, limited
from opshift.opsets.registry.schema import schema_at
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.inspection import inspect
from opshift.passes.proof.inputs import generator
from opshift.passes.runtime import ort_process, ort_worker

ROOT = Path(__file__).parents[1]
MODEL = '<ir_version: 8, opset_import: ["": 13]> g (float[n,k] x) => (float[n,k] y) { y = Hardmax(x) }'
BARE = """
import resource, sys, onnx, onnx.shape_inference
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
onnx.shape_inference.infer_shapes(sys.stdin.buffer.read(), data_prop=True)
"""


def value(name: str, dtype: int, shape: list[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def single(node: onnx.NodeProto, inputs: list[onnx.ValueInfoProto], opset: int) -> onnx.ModelProto:
    outputs = [value(name, TensorProto.FLOAT, ["a"]) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def split() -> onnx.ModelProto:
    node = helper.make_node("Split", ["x"], ["y", "z"], num_outputs=1)
    return single(node, [value("x", TensorProto.FLOAT, [4])], 18)


def gather() -> onnx.ModelProto:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-(10**6))
    return single(node, [value("x", TensorProto.FLOAT, [4, 4]), value("i", TensorProto.INT64, [4, 1])], 13)


def untyped(name: str, **attributes: Any) -> onnx.ModelProto:
    """A function whose input has no type calls the operator; the model asks for it by a value without one."""
    model = single(helper.make_node(name, ["x"], ["y"], **attributes), [onnx.ValueInfoProto(name="x")], 20)
    model.graph.output[0].ClearField("type")
    return model


CRASHING: dict[str, Callable[[], onnx.ModelProto]] = {
    "Split into another number of parts": split,
    "GatherND with a negative number of batch dims": gather,
    "EyeLike of a value without a type": lambda: untyped("EyeLike", dtype=1),
    "RegexFullMatch of a value without a type": lambda: untyped("RegexFullMatch", pattern="a"),
}


NUMBERS = itertools.count(1)


def fresh() -> bytes:
    """Return a model whose answer is not remembered."""
    data: bytes = parse_model(MODEL.replace("k]", f"{next(NUMBERS)}]")).SerializeToString()
    return data


@pytest.fixture(autouse=True)
def lives() -> Iterator[None]:
    """After each test the next call works."""
    yield
    onnx_process.check_model(fresh())


# --- both ways ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
@pytest.mark.parametrize("name", CRASHING)
def test_onnx_as_it_is_crashes(name: str) -> None:
    data = CRASHING[name]().SerializeToString()
    ended = subprocess.run([sys.executable, "-c", BARE], input=data, capture_output=True, timeout=120, check=False)
    assert ended.returncode < 0, ended.stderr


@pytest.mark.parametrize("name", CRASHING)
def test_onnx_in_a_child_is_an_error(name: str) -> None:
    with pytest.raises(OnnxDiedError, match="onnx crashes on it"):
        onnx_process.infer_shapes(CRASHING[name](), data_prop=True)


@pytest.mark.parametrize("name", CRASHING)
@pytest.mark.parametrize("place", ["graph", "function"])
def test_opshift_lives_and_says_what_is_wrong(name: str, place: str) -> None:
    model = CRASHING[name]()
    if place == "function":
        node = model.graph.node[0]
        imports = list(model.opset_import)
        model.functions.append(helper.make_function("f", "F", list(node.input), list(node.output), [node], imports))
        model.opset_import.add(domain="f", version=1)
        called = helper.make_node("F", list(node.input), list(node.output), domain="f")
        node.CopyFrom(called)
    for made in (*model.graph.input, *model.graph.output):
        if not made.HasField("type"):
            made.CopyFrom(value(made.name, TensorProto.STRING if "Regex" in name else TensorProto.FLOAT, [2, 2]))
    calls = (lambda: opshift.convert(model, opset=13), lambda: inspect(model), lambda: infer_model(model))
    for call in calls:
        with contextlib.suppress(opshift.OpshiftError, OnnxDiedError):
            call()
    if "without a type" not in name:
        with pytest.raises(opshift.InvalidModelError, match=model.graph.node[0].op_type if place == "graph" else "its"):
            opshift.convert(model, opset=13)


@pytest.mark.parametrize(
    "text", ["seq(" * 200_000, "float[n] x) => (float[n] y) { y = If(x)" + "<a = g() => (float z) { z = If(x)" * 50_000]
)
def test_text_that_onnx_crashes_on_is_an_error(tmp_path: Path, text: str) -> None:
    whole = '<ir_version: 8, opset_import: ["": 13]> g (' + text
    with pytest.raises(OnnxDiedError, match="onnx crashes on it"):
        onnx_process.parse_model(whole)
    (tmp_path / "m.onnxtxt").write_text(whole)
    with pytest.raises(opshift.InvalidModelError):
        opshift.plan(tmp_path / "m.onnxtxt", opset=11)


def test_what_crashes_the_checker_is_an_invalid_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: bytes) -> None:
        onnx_process.infer_shapes(split())

    monkeypatch.setattr(onnx_process, "check_model", crash)
    with pytest.raises(opshift.InvalidModelError, match=r"cannot be checked: onnx crashes on it \(signal .*Export it"):
        opshift.plan(parse_model(MODEL), opset=11)


def test_inference_that_crashes_leaves_a_valid_model_as_convertible_as_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """onnx may crash on a node that is right; nothing is known of its outputs then."""

    def crash(*_: Any, **__: Any) -> Any:
        raise OnnxDiedError("onnx crashes on it (signal 11, SIGSEGV)")

    monkeypatch.setattr(onnx_process, "infer_shapes", crash)
    monkeypatch.setattr(onnx_process, "infer_node", crash)
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n,4] x) => (float[n,4] y) { a = Relu(x) y = Neg(a) }'
    )
    assert opshift.convert(model, opset=16).report is not None


# --- time, memory, interruptions ------------------------------------------------------------------------------------


def doubling(count: int) -> onnx.ModelProto:
    """Functions that call each other twice: inlined they are 2 ** count nodes."""
    functions = "".join(
        f'<domain: "f", opset_import: ["": 13, "f": 1]> F{index} (x) => (y) {{ a = f.F{index - 1}(x) '
        f"y = f.F{index - 1}(a) }}"
        for index in range(1, count)
    )
    return parse_model(
        f'<ir_version: 8, opset_import: ["": 13, "f": 1]> g (float[n] x) => (float[n] y) {{ y = f.F{count - 1}(x) }}'
        f'{functions} <domain: "f", opset_import: ["": 13]> F0 (x) => (y) {{ y = Relu(x) }}'
    )


def test_all_of_a_verification_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(generator, "specs", lambda *_: seen.append(onnx_process._current_limits()))
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
    opshift.verify(parse_model(text), parse_model(text.replace("Relu", "Abs")), timeout=30.0, memory=2**28)
    assert {asked[:2] for asked in seen} == {(30.0, 2**28)}
    assert all(asked.losses for asked in seen)


def test_a_call_that_takes_too_long_is_ended() -> None:
    with limited(0.5, None), pytest.raises(OnnxDiedError, match=r"within 0\.5 s"):
        onnx_process.inline(doubling(40))


def endless(count: int) -> onnx.ModelProto:
    """Different nodes of which each keeps the inference of onnx 1.23.2 busy for ever."""
    nodes = " ".join(f'y{at} = Einsum <equation = "...{chr(97 + at)}...->"> (x)' for at in range(count))
    return parse_model(f'<ir_version: 8, opset_import: ["": 12]> g (float[1,4] x) => (float[a,b] y0) {{ {nodes} }}')


@pytest.mark.slow
def test_many_nodes_lose_no_more_time_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_process, "_LOST", 4.0)
    begin = time.monotonic()
    assert opshift.inspect(endless(20)).blocked
    assert opshift.plan(endless(20), opset=11).refusals
    assert time.monotonic() - begin < 3 * 2 * 4.0


def test_what_lost_much_time_once_is_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_process, "_LOST", 2.0)
    schema = schema_at("", "Einsum", 12)
    assert schema is not None
    types = {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 4])}
    nodes = endless(20).graph.node
    seen = []
    with limited(None, None):
        for node in (nodes[0], *nodes):
            begin = time.monotonic()
            with pytest.raises(OnnxDiedError) as raised:
                onnx_process.infer_node(schema, node, types, {})
            seen.append((time.monotonic() - begin > 0.1, str(raised.value)))
    assert [slow for slow, _ in seen[:3]] == [True, False, True]
    assert seen[0][1] == seen[1][1] == "onnx did not finish with it within 1 s"
    assert seen[-1] == (False, "onnx has lost 2 s on this model, and is not called for it again")
    relu = schema_at("", "Relu", 13)
    assert relu is not None
    assert onnx_process.infer_node(relu, helper.make_node("Relu", ["x"], ["y"]), types, {})  # another model


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
def test_a_call_that_takes_too_much_memory_is_ended() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 21]> g (int64[1000000000000] x) => (int64[m] y) { y = Add(x, x) }'
    )
    with limited(None, 2**28), pytest.raises(OnnxDiedError, match="more than 268435456 bytes of memory"):
        onnx_process.infer_shapes(model, data_prop=True)


def test_after_an_interruption_no_older_answer_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("opshift.opsets.native.child.Child.receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        onnx_process.parse_model(MODEL + " ")
    monkeypatch.undo()
    assert onnx_process.to_text(parse_model(MODEL)).startswith("<")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_a_child_of_its_own() -> None:
    onnx_process.check_model(fresh())
    here = {child.process.pid for child in onnx_process._idle}
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            onnx_process.check_model(fresh())
            os.write(writing, str([one.process.pid for one in onnx_process._idle]).encode())
            onnx_process.stop()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        there = set(ast.literal_eval(answer.read()))
    os.waitpid(child, 0)
    assert there
    assert not there & here


def test_threads_have_children_of_their_own() -> None:
    models = [parse_model(MODEL.replace("k]", f"{size}]")) for size in range(2, 10)]
    found: dict[int, Any] = {}

    def infer(index: int) -> None:
        for _ in range(20):
            found[index] = onnx_process.infer_shapes(models[index]).graph.output[0]

    threads = [threading.Thread(target=infer, args=(index,)) for index in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {index: one.type.tensor_type.shape.dim[1].dim_value for index, one in found.items()} == dict(
        zip(range(8), range(2, 10), strict=True)
    )


@pytest.mark.skipif(sys.platform == "win32", reason="it kills by a signal")
def test_a_child_ends_with_the_process_that_it_serves() -> None:
    code = (
        "import os, signal; from opshift.opsets.native import onnx_process as p; p.start(); "
        "print(p._idle[0].process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert wait_for(int(ended.stdout))


def wait_for(pid: int) -> bool:
    """Whether a process that is no child of this one is gone within some seconds."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        threading.Event().wait(0.05)
    return False


def test_without_processes_there_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_process.stop()

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", fail)
    onnx_process._remembered.cache_clear()
    with pytest.raises(opshift.UsageError, match=r"No child process can be started to check models in: .*no more"):
        opshift.plan(parse_model(MODEL), opset=11)
    monkeypatch.undo()


# --- what is where --------------------------------------------------------------------------------------------------

FOREIGN = {
    *("onnx.checker", "onnx.inliner", "onnx.parser", "onnx.printer", "onnx.version_converter"),
    *("check_model", "check_node", "check_tensor", "infer_shapes", "infer_node_outputs", "parse_model", "to_text"),
    *("get_context_dependent_function_with_opset_version", "inline_local_functions"),
}
OWN_DATA = {"opsets/registry/compiled.py", "passes/rewrite/inner_sizes.py"}
"""Files that parse and print graphs of opshift's own: bodies of lowerings, and nodes that measure values."""


@pytest.mark.slow
def test_no_other_file_gives_a_model_to_onnx() -> None:
    """`onnx.checker.ValidationError` and the like are classes, and are named anywhere."""
    files = [path for folder in ("passes", "opsets", "cli") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if name in OWN_DATA | {"opsets/native/onnx_process.py", "opsets/native/onnx_worker.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            owner, _, last = called.rpartition(".")
            assert owner == "onnx_process" or last not in FOREIGN, f"{name}: {called}"
            assert owner not in FOREIGN, f"{name}: {called}"


def test_nothing_is_added_to_the_registry_of_onnx() -> None:
    code = """
import onnx, onnx.defs
before = {(one.domain, one.name, one.since_version) for one in onnx.defs.get_all_schemas_with_history()}
import opshift
from onnx.parser import parse_model
opshift.convert(parse_model('<ir_version: 8, opset_import: ["": 11, "opshift": 1]> g (float[n,2,2] x) => '
    '(float[n,2,2] y) { y = opshift.HardmaxAxes<axes = [1, 2]>(x) }'), opset=13, verify=False)
opshift.convert(parse_model('<ir_version: 8, opset_import: ["": 18]> g (float[n,4,2] x, float[2] s) => '
    '(float[n,4,2] y) { y = GroupNormalization<num_groups = 2>(x, s, s) }'), opset=17, verify=False)
after = {(one.domain, one.name, one.since_version) for one in onnx.defs.get_all_schemas_with_history()}
print(len(before), after - before)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.partition(" ")[2] == "set()\n", ended.stdout + ended.stderr


def test_what_the_child_answers_is_what_onnx_answers_here() -> None:
    """Models of the fixtures, checked, inferred, printed and parsed in both processes."""
    paths = sorted((ROOT / "fixtures").glob("*.onnxtxt"))
    assert len(paths) > 50
    for path in itertools.islice(paths, 0, None, 5):
        text = path.read_text(encoding="utf-8")
        model = onnx.parser.parse_model(text)
        assert onnx_process.parse_model(text) == model
        assert onnx_process.to_text(model) == onnx.printer.to_text(model)
        assert onnx_process.infer_shapes(model, data_prop=True) == onnx.shape_inference.infer_shapes(
            model, data_prop=True
        )


def test_errors_are_those_of_onnx() -> None:
    with pytest.raises(onnx.checker.ValidationError, match="ir_version"):
        onnx_process.check_model(onnx.ModelProto().SerializeToString())
    with pytest.raises(onnx.parser.ParseError):
        onnx_process.parse_model("<")
    bad = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2,3] x) => (float[2] y) { y = Hardmax<axis=5>(x) }'
    )
    with pytest.raises(onnx.shape_inference.InferenceError, match="axis"):
        onnx_process.infer_shapes(bad, strict_mode=True)


def test_a_schema_of_another_package_infers_in_this_process() -> None:
    """Its Python code is in this process only."""
    schema = onnx.defs.OpSchema(
        "Elsewhere",
        "tests.elsewhere",
        1,
        inputs=[onnx.defs.OpSchema.FormalParameter("x", "T")],
        outputs=[onnx.defs.OpSchema.FormalParameter("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
    )

    def infer(context: Any) -> None:
        context.set_output_type(0, context.get_input_type(0))

    schema.set_type_and_shape_inference_function(infer)
    onnx.defs.register_schema(schema)
    try:
        model = parse_model(
            '<ir_version: 8, opset_import: ["": 13, "tests.elsewhere": 1]> '
            "g (float[n,4] x) => (float[n,4] y) { a = tests.elsewhere.Elsewhere(x) y = Hardmax(a) }"
        )
        result = opshift.convert(model, opset=11, verify=False)
        assert "Hardmax" in {node.op_type for node in result.rewritten.graph.node}
    finally:
        onnx.defs.deregister_schema("Elsewhere", 1, "tests.elsewhere")


def test_a_message_that_is_cut_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "message"
    with path.open("wb") as outgoing, path.open("rb") as incoming:
        channel = Channel(incoming, outgoing)
        channel.send([b"one", "", b"x" * 100_000])
        assert channel.receive() == [b"one", "", b"x" * 100_000]
    whole = path.read_bytes()
    for data in (b"", whole[:-1], whole[:10], b"\xff" * 12, whole[:3] + b"\x8e" + np.int64(2**62).tobytes()):
        path.write_bytes(data)
        with path.open("rb") as incoming, pytest.raises((LostError, MemoryError)):
            Channel(incoming, io.BytesIO()).receive()


class Printing:
    def __reduce__(self) -> Any:
        return print, ("an answer ran code",)


@pytest.mark.parametrize("classes", [frozenset(), ort_process._CLASSES])
def test_an_answer_of_a_child_runs_no_code(classes: frozenset[tuple[str, str]], capsys: Any) -> None:
    for answer in (Printing(), (("done", [Printing()]), 1)):
        with pytest.raises(LostError, match=r"builtins\.print is not permitted"):
            Channel(io.BytesIO(pickle.dumps(answer)), io.BytesIO(), classes).receive()
    assert not capsys.readouterr().out


def test_answers_of_onnxruntime_may_contain_all_its_types() -> None:
    arrays = [
        *(np.ones((2, 1), name) for name in ("f2", "f4", "f8", "c8", "c16", "?", "i1", "i8", "u1", "u8", "U3", "S3")),
        *(np.ones(3, dtype) for dtype, _ in ort_worker.PACKED_TYPES.values()),
        np.array(["a", "b"], object),
        np.ones((3, 2), order="F"),
        np.float32(1),
    ]
    for answer in ([arrays, {"a": arrays[:1], 1: 1.5}, None], (arrays[-1], "done")):
        data = pickle.dumps(answer, protocol=5)
        found = Channel(io.BytesIO(data), io.BytesIO(), ort_process._CLASSES).receive()
        assert repr(found) == repr(answer)
