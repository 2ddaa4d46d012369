"""onnxruntime's releases as targets: what the table has of them, and that models made for one load and run there."""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from onnxruntimes import VERSIONS, Release, install, installed, interpreter
from running import run

import opshift
from opshift.cli.main import main
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.runtimes.profiles import builtin_targets, load_target, parse_target
from opshift.opsets.runtimes.releases import first_that_loads, release_of, releases
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.base.plan import Code

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from release_probes import elem_type, plain, probes


def model(text: str, opset: int, ir_version: int = 8, domains: str = "") -> onnx.ModelProto:
    return parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{domains}]> g {text}')


def converted(source: onnx.ModelProto, target: str) -> onnx.ModelProto:
    result = opshift.convert(source, target=target, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    return result


def opset_of(made: onnx.ModelProto, domain: str = "") -> int:
    return next(int(item.version) for item in made.opset_import if item.domain == domain)


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_minor_release_from_1_6_on_is_a_target() -> None:
    minors = [one.minor for one in releases()]
    assert minors == list(VERSIONS) == [f"1.{minor}" for minor in range(6, 6 + len(minors))]
    assert [one.version for one in releases()] == [version for version, _ in VERSIONS.values()]
    names = [name for name in builtin_targets() if release_of(name)]
    assert names == [f"onnxruntime-{minor}" for minor in minors], "1.6 is before 1.10"
    for older, newer in zip(releases(), releases()[1:], strict=False):
        assert older.opset <= newer.opset
        assert older.ir_version <= newer.ir_version


def test_a_patch_release_is_its_minor_release() -> None:
    assert load_target("onnxruntime-1.12.0") is load_target("onnxruntime-1.12")
    assert release_of("onnxruntime-1.12.1") == release_of("onnxruntime-1.12")
    assert release_of("onnxruntime-1") is release_of("onnxruntime") is release_of("onnxruntime-1.12x") is None


def test_an_unknown_release_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["targets", "onnxruntime-1.5"], ["plan", "m.onnx", "--target", "onnxruntime-1.5"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert "'onnxruntime-1.5' is neither a built-in target nor a file" in error
        assert all(f"{one.name}" in error for one in releases())
    with pytest.raises(opshift.UsageError, match=r"onnxruntime-1\.5 .*onnxruntime-1\.6, onnxruntime-1\.7"):
        opshift.plan(model("(float[2] x) => (float[2] y) {y = Abs (x)}", 13), target="onnxruntime-1.5")


def test_a_release_is_printed_and_listed_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["onnxruntime-1.12"][:7] == ["1.12.1", "7", "to", "17", "3", "to", "8"]
    assert main(["targets", "onnxruntime-1.12"]) == 0
    printed = capsys.readouterr().out
    assert 'version = "1.12.1"\nopset = [7, 17]\nir_version = [3, 8]\nfunctions = true\n' in printed
    assert '\noperator = "Asin"\nopset = [7, 17]\ndtypes = { input = ["float", "float16"] }\n' in printed


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_table_is_what_the_installed_onnxruntime_opens() -> None:
    """Nodes drawn from all operators, versions and element types: they open if the table has them."""
    import onnxruntime

    release = release_of(f"onnxruntime-{onnxruntime.__version__}")
    if release is None:
        pytest.skip(f"onnxruntime {onnxruntime.__version__} is not in the table")
    target = load_target(release.name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    outcomes = set()
    for probe in random.Random(1).sample(list(probes(release.opset)), 1500):
        try:
            onnxruntime.InferenceSession(probe.model, options, providers=["CPUExecutionProvider"])
            opens = True
        except Exception:  # each status has a class of its own
            opens = False
        outcomes.add(opens)
        reason = Legality(probe.opset, target=target).why_not(_node(probe.model, probe.name, probe.opset))
        assert (reason is None) == opens, (probe[:4], reason)
    assert outcomes == {True, False}


def _node(data: bytes, name: str, opset: int) -> Node:
    graph = onnx.ModelProto.FromString(data).graph
    node = next(one for one in graph.node if one.op_type == name)
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    schema = schema_at("", node.op_type, opset)
    assert schema is not None
    attributes: dict[str, Any] = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    for name, value in attributes.items():
        if isinstance(value, onnx.TensorProto):
            attributes[name] = opshift.opsets.registry.facts.freeze(value)
        elif isinstance(value, bytes):
            attributes[name] = value.decode()
    facts = tuple(Facts(types.get(name, elem_type("float16"))) if name else None for name in node.input)
    return Node("", node.op_type, schema.since_version, attributes, facts, (True,) * len(node.output))


def test_the_first_release_that_takes_a_node_is_named() -> None:
    legality = Legality(13, target=load_target("onnxruntime-1.8"))
    reason = legality.why_not(Node("", "ArgMax", 13, {}, (Facts(elem_type("uint8")),), (True,)))
    assert reason is not None
    assert reason.endswith("onnxruntime-1.11 is the first that supports it")
    never = legality.why_not(Node("", "Asin", 7, {}, (Facts(elem_type("double")),), (True,)))
    assert never is not None
    assert "is the first" not in never
    (refusal,) = opshift.plan(
        model("(double[2] x) => (double[2] y) {y = Asin (x)}", 13), target="onnxruntime-1.8"
    ).refusals
    assert (refusal.code, refusal.node, refusal.operator) == (Code.NO_LOWERING, "main/Asin_0", "Asin-7")


# --- opset, ir_version, functions, other domains ----------------------------------------------------------------------

RELU = "(float[2] x) => (float[2] y) {y = Relu (x)}"


@pytest.mark.parametrize(
    ("opset", "ir_version", "target", "wanted"),
    [
        (24, 12, "onnxruntime-1.12", (17, 8)),
        (21, 10, "onnxruntime-1.6", (13, 7)),
        (9, 10, "onnxruntime-1.12", (9, 8)),
        (9, 4, "onnxruntime-1.12", (9, 4)),
        (17, 8, "onnxruntime-1.12", (17, 8)),
        (17, 9, "onnxruntime-1.12", (17, 8)),
    ],
)
def test_a_release_alone_chooses_opset_and_ir_version(
    opset: int, ir_version: int, target: str, wanted: tuple[int, int]
) -> None:
    made = converted(model(RELU, opset, ir_version), target)
    assert (opset_of(made), made.ir_version) == wanted


def test_the_nearest_opset_that_the_model_goes_to_is_taken() -> None:
    """onnxruntime 1.22 loads opset 22, and has no kernel for MaxRoiPool-22."""
    text = "(float[1,1,4,4] x, float[1,5] r) => (float[1,1,2,2] y) {y = MaxRoiPool <pooled_shape = [2, 2]> (x, r)}"
    made = converted(model(text, 22, 10), "onnxruntime-1.22")
    assert opset_of(made) == 21
    assert [node.op_type for node in made.graph.node] == ["MaxRoiPool"]
    refused = opshift.plan(model(text, 22, 10), opset=22, target="onnxruntime-1.22")
    assert refused.refusals


def test_functions_are_inlined_for_releases_that_do_not_load_all() -> None:
    text = (
        "(float[2] x) => (float[2] y) {y = d.f (x)} "
        '<domain: "d", opset_import: ["": 15, "d": 1]> f (a) => (b) {c = d.h (a) b = d.h (c)} '
        '<domain: "d", opset_import: ["": 15]> h (a) => (b) {b = Abs (a)}'
    )
    source = model(text, 15, domains=', "d": 1')
    for target, functions in (("onnxruntime-1.9", 0), ("onnxruntime-1.11", 0), ("onnxruntime-1.12", 2)):
        made = converted(source, target)
        assert len(made.functions) == functions, target
        assert made.ir_version == 8
        ((y,),) = run(made, [{"x": np.array([-1, 2], np.float32)}])
        assert y.tolist() == [1, 2]


def with_own(name: str) -> Target:
    """A profile with one more operator, that an application registers."""
    text = load_target(name).to_toml()
    return parse_target(text.replace("[domains]", '[domains]\nmy = ["Own"]'), "own.toml")


def test_operators_of_other_domains_that_a_release_lacks_are_refused() -> None:
    text = (
        "(float[2,4] x, uint8[6] w, float[1] s) => (float[2,3] y) "
        "{y = com.microsoft.MatMulBnb4 <K = 4, N = 3, block_size = 16, quant_type = 0, transB = 0> (x, w, s)}"
    )
    source = model(text, 17, domains=', "com.microsoft": 1')
    (refusal,) = opshift.plan(source, target="onnxruntime-1.12").refusals
    assert (refusal.code, refusal.node, refusal.operator) == (
        Code.FOREIGN_OPERATOR,
        "main/MatMulBnb4_0",
        "com.microsoft::MatMulBnb4-1",
    )
    assert not opshift.plan(source, target="onnxruntime-1.16").refusals
    unknown = model("(float[2] x) => (float[2] y) {y = my.Own (x)}", 17, domains=', "my": 1')
    (refusal,) = opshift.plan(unknown, target="onnxruntime-1.12").refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert "[domains]" in refusal.hint, "an application may register it"
    assert not opshift.plan(unknown, target=with_own("onnxruntime-1.12")).refusals


def test_ai_onnx_ml_goes_to_the_opset_that_a_release_loads() -> None:
    scaler = "(float[2] x) => (float[2] y) {y = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x)}"
    assert opset_of(converted(model(scaler, 17, domains=', "ai.onnx.ml": 4'), "onnxruntime-1.12"), "ai.onnx.ml") == 3
    encoder = "(int64[2] x) => (int64[2] y) {y = ai.onnx.ml.LabelEncoder <keys_int64s = [0], values_int64s = [1]> (x)}"
    made = converted(model(encoder, 17, domains=', "ai.onnx.ml": 4'), "onnxruntime-1.12")
    assert opset_of(made, "ai.onnx.ml") == 3  # with LabelEncoder-2, which differs in other types


def test_values_of_attributes_that_a_release_refuses_are_rewritten() -> None:
    text = (
        "(float[1,3,2] x, float[1,4,2] w, float[1,4,4] r) => (float[1,3,1,4] y) "
        "{y = RNN <hidden_size = 4, layout = 1> (x, w, r)}"
    )
    made = converted(model(text, 14), "onnxruntime-1.12")
    assert [node.op_type for node in made.graph.node] == ["Transpose", "RNN", "Transpose"]


def test_a_cast_of_float16_to_itself_is_left_out_where_releases_mistake_its_type() -> None:
    """onnxruntime 1.8 to 1.28 insert Casts to float around MatMul, and mistake the type of one."""
    text = "(float16[2,2] x) => (float16[2,2] y) {a = MatMul (x, x) b = Cast <to = 10> (a) y = MatMul (b, b)}"
    for minor, kept in (
        ("1.7", True),
        ("1.8", False),
        ("1.28", False),
        ("1.29", True),
        ("1.30", False),
        ("1.31", True),
    ):
        made = converted(model(text, 13, 7), f"onnxruntime-{minor}")
        assert ("Cast" in [node.op_type for node in made.graph.node]) == kept, minor


def test_a_value_of_unknown_type_is_of_those_that_the_model_has() -> None:
    """In a model of floats a value of unknown type is none that the release lacks."""
    text = "(float[2] x) => (float[2] y) {z = my.Own (x) n = Neg (z) y = Cast <to = 1> (n)}"
    floats = model(text, 17, domains=', "my": 1')
    strict = Legality(13, target=load_target("onnxruntime-1.6"))
    node = Node("", "Neg", 13, {}, (Facts(),), (True,))
    reason = strict.why_not(node)
    assert reason is not None
    assert reason.missing
    assert dataclasses.replace(strict, types=frozenset({elem_type("float")})).why_not(node) is None
    refused = dataclasses.replace(strict, types=frozenset({elem_type("float"), elem_type("int16")})).why_not(node)
    assert refused is not None
    (refusal,) = opshift.plan(floats, target=with_own("onnxruntime-1.6")).refusals
    assert refusal.operator == "Neg-13", "an operator of another domain may return any type"


# --- in the releases --------------------------------------------------------------------------------------------------

MODELS = {
    "Gelu": ("(float[2,3] x) => (float[2,3] y) {y = Gelu (x)}", 20),
    "GroupNormalization": (
        "(float[2,4,3] x, float[4] s, float[4] b) => (float[2,4,3] y) "
        "{y = GroupNormalization <num_groups = 2> (x, s, b)}",
        21,
    ),
    "LayerNormalization": ("(float[2,3] x, float[3] s) => (float[2,3] y) {y = LayerNormalization (x, s)}", 17),
    "Max of int8": (
        "(float[2,3] x) => (float[2,3] y) {a = Cast <to = 3> (x) b = Max (a, a) y = Cast <to = 1> (b)}",
        24,
    ),
    "ReduceMax": (
        "(float[2,3] x) => (float[2] y) {a = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (x, a)}",
        20,
    ),
    "RNN": (
        "(float[1,3,2] x, float[1,4,2] w, float[1,4,4] r) => (float[1,3,1,4] y) "
        "{y = RNN <hidden_size = 4, layout = 1> (x, w, r)}",
        22,
    ),
    "Hardmax of double": (
        "(float[2,3] x) => (float[2,3] y) {a = Cast <to = 11> (x) b = Hardmax (a) y = Cast <to = 1> (b)}",
        18,
    ),
    "idle Cast": (
        "(float[2,2] x) => (float[2,2] y) {h = Cast <to = 10> (x) a = MatMul (h, h) "
        "b = Cast <to = 10> (a) c = MatMul (b, b) y = Cast <to = 1> (c)}",
        18,
    ),
    "Mish": ("(float[2,3] x) => (float[2,3] y) {y = Mish (x)}", 18),
    "Split": ("(float[2,4] x) => (float[2,2] y, float[2,2] z) {y, z = Split <axis = 1, num_outputs = 2> (x)}", 18),
    "function": (
        '(float[2] x) => (float[2] y) {y = d.f (x)} <domain: "d", opset_import: ["": 18]> f (a) => (b) {b = Mish (a)}',
        18,
    ),
}
"""Models that no release before 1.14 loads as they are."""


@functools.cache
def release(minor: str) -> Release:
    """Return a release that is installed, or that a Python of this machine is for."""
    if installed(minor) is None and os.environ.get("OPSHIFT_RUNTIMES") != "1":
        pytest.skip(f"onnxruntime {minor} is not installed: OPSHIFT_RUNTIMES=1 installs it")
    if installed(minor) is None and interpreter(VERSIONS[minor][1]) is None:
        pytest.fail(f"onnxruntime {minor} needs Python {VERSIONS[minor][1]}")
    install(minor)
    return Release(minor)


INSTALLED = ("1.16", *(minor for minor in ("1.6", "1.9", "1.12", "1.19", "1.24") if installed(minor)))


@pytest.mark.slow
@pytest.mark.parametrize("minor", INSTALLED)
def test_models_made_for_a_release_run_there(minor: str) -> None:
    there = release(minor)
    rng = np.random.default_rng(0)
    loaded_before = 0
    for name, (text, opset) in MODELS.items():
        source = model(text, opset, 10 if opset > 20 else 9, domains=', "d": 1' if "d.f" in text else "")
        shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in source.graph.input
        }
        feeds = {key: rng.integers(-3, 4, shape).astype(np.float32) for key, shape in shapes.items()}
        loaded_before += not there.load(source.SerializeToString())
        wanted = run(converted(source, "onnxruntime"), [feeds])[0]
        for expected, found in zip(wanted, there.run(converted(source, f"onnxruntime-{minor}"), feeds), strict=True):
            # Each sums up at most four products, in any order: 16 roundings of float32 are far from any fault.
            np.testing.assert_allclose(found, expected, rtol=2**-19, atol=2**-19, err_msg=name)
    assert loaded_before < len(MODELS)
    there.close()


@pytest.mark.slow
@pytest.mark.parametrize("minor", INSTALLED)
def test_a_release_loads_the_opset_and_ir_version_of_the_table_and_no_newer(minor: str) -> None:
    there, known = release(minor), release_of(f"onnxruntime-{minor}")
    assert known is not None
    assert not there.load(plain(known.opset))
    assert "under development" in there.load(plain(known.opset + 1))
    assert not there.load(plain(11, known.ir_version))
    assert re.search("IR version|file format version", there.load(plain(11, known.ir_version + 1)))
    assert first_that_loads(known.opset, 3) is not None
    there.close()
