"""Nodes of other domains: a target keeps those that it lists, and `--decompose` names operators and domains."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest

import opshift
from opshift.cli.main import main
from opshift.opsets.registry import dialect
from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import builtin_targets, load_target, parse_target
from opshift.opsets.runtimes.releases import releases
from opshift.passes.base.plan import Code

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import dialect as snapshot


def model(body: str, opset: int = 17, domains: str = ', "com.microsoft": 1, "my": 1') -> onnx.ModelProto:
    """A model of one input and one output, of two floats each."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}{domains}]> g (float[2,2] x) => (float[2,2] y) {{ {body} }}'
    )


def profile(domains: str) -> str:
    return f'name = "m"\nopset = [7, 17]\n{domains}'


LISTED = profile('domains = { "com.microsoft" = ["FusedGemm", "BeamSearch"], my = 3 }')
SEARCH = "y = com.microsoft.BeamSearch (x)"


# --- what a target supports -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [SEARCH, "y = my.Own (x)"])
def test_a_target_keeps_what_its_profile_lists(body: str) -> None:
    source = model(body)
    assert not opshift.plan(source, target=parse_target(LISTED, "m.toml")).refusals
    (refusal,) = opshift.plan(source, target=parse_target(profile(""), "m.toml")).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert refusal.node.startswith("main/")
    assert "m does not support the domain" in refusal.reason
    assert refusal.hint


def test_an_operator_that_a_profile_does_not_list_is_refused_by_name() -> None:
    (refusal,) = opshift.plan(
        model("y = com.microsoft.NGramRepeatBlock (x)"), target=parse_target(LISTED, "m")
    ).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert refusal.operator == "com.microsoft::NGramRepeatBlock"
    assert "[domains]" in refusal.hint


@pytest.mark.parametrize("body", [SEARCH, "y = com.microsoft.EPContext (x)", "y = com.microsoft.nchwc.Conv (x)"])
def test_what_is_never_replaced_says_why_and_what_to_do(body: str) -> None:
    source = model(body, domains=', "com.microsoft": 1, "com.microsoft.nchwc": 1')
    (refusal,) = opshift.plan(source, target="tensorrt-8").refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert "generation" in refusal.reason or "one machine" in refusal.reason
    assert "Export the model again" in refusal.hint


def test_without_a_target_foreign_nodes_are_kept() -> None:
    source = model(SEARCH, opset=13)
    result = opshift.convert(source, opset=17, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    assert result.graph.node[0] == source.graph.node[0]
    assert [item.domain for item in result.opset_import] == ["", "com.microsoft", "my"]


def test_foreign_nodes_in_subgraphs_and_functions_are_found() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1, "f": 1]>
    g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = a () => (float[2] p) { p = com.microsoft.BeamSearch (x) },
                    else_branch = b () => (float[2] q) { q = Identity (x) }>
        z = f.F (x)
    }
    <domain: "f", opset_import: ["": 17, "com.microsoft": 1]> F (a) => (b) { b = com.microsoft.EPContext (a) }"""
    refusals = opshift.plan(onnx.parser.parse_model(text), target="tensorrt-8").refusals
    assert {one.code for one in refusals} == {Code.FOREIGN_OPERATOR}
    assert sorted(one.operator for one in refusals) == ["com.microsoft::BeamSearch", "com.microsoft::EPContext"]


def test_local_functions_of_a_foreign_domain_are_no_foreign_operators() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[2] x) => (float[2] y) { y = com.microsoft.BeamSearch (x) }
    <domain: "com.microsoft", opset_import: ["": 17]> BeamSearch (a) => (b) { b = Abs (a) }"""
    assert not opshift.plan(onnx.parser.parse_model(text), target="openvino").refusals


def test_imports_that_no_node_uses_go_where_the_target_lacks_the_domain() -> None:
    source = model("y = Abs (x)")
    kept = opshift.convert(source, target=parse_target(LISTED, "m"), verify=False).model
    assert isinstance(kept, onnx.ModelProto)
    assert [item.domain for item in kept.opset_import] == ["", "com.microsoft", "my"]
    dropped = opshift.convert(source, target=parse_target(profile(""), "m"), verify=False).model
    assert isinstance(dropped, onnx.ModelProto)
    assert [item.domain for item in dropped.opset_import] == [""]


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_every_built_in_profile_states_the_domains_that_it_supports() -> None:
    for name in builtin_targets():
        target = load_target(name)
        assert "domains" in target.to_toml() or (target.base and target.domains), name


def test_releases_of_onnxruntime_list_what_they_have_of_its_own_operators() -> None:
    lists = [load_target(one.name).domains["com.microsoft"] for one in releases()]
    sets = [one for one in lists if isinstance(one, frozenset)]
    assert len(sets) == len(releases())
    assert all(older <= newer for older, newer in itertools.pairwise(sets))
    assert "GroupQueryAttention" not in sets[0]
    assert "GroupQueryAttention" in sets[-1]


def test_the_installed_onnxruntime_lists_its_kernels() -> None:
    domains = load_target("onnxruntime").domains
    own = domains["com.microsoft"]
    assert isinstance(own, frozenset)
    assert "FusedGemm" in own
    assert "BiasSoftmax" not in own
    assert domains["ai.onnx.ml"] == 5


WRONG = {
    "no operator of the domain": ('domains = { "com.microsoft" = ["FastGelo"] }', 3, "did you mean 'FastGelu'?"),
    "of ai.onnx.ml": ('domains = { "ai.onnx.ml" = ["Scalar"] }', 3, "did you mean 'Scaler'?"),
    "no name": ('domains = { "com.microsoft" = [1] }', 3, "holds names of operators, not 1"),
    "twice": ('[domains]\n"com.microsoft" = ["FastGelu", "FastGelu"]', 4, "FastGelu is listed twice"),
    "no opset": ('domains = { "ai.onnx.ml" = 0 }', 3, "the newest opset that it loads, not 0"),
    "the default domain": ('domains = { "ai.onnx" = 3 }', 3, "the default domain has its own keys"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_the_domains_of_a_profile_is_said(case: str) -> None:
    text, line, reason = WRONG[case]
    with pytest.raises(ProfileError, match=rf"m\.toml:{line}: ") as error:
        parse_target(profile(text), "m.toml")
    assert reason in str(error.value)


# --- `--decompose` ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["com.microsoft::BeamSearch", "com.microsoft"])
def test_decompose_names_an_operator_or_all_of_a_domain(asked: str) -> None:
    (refusal,) = opshift.plan(model(SEARCH), decompose=[asked]).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert not opshift.plan(model("y = my.Own (x)"), decompose=[asked]).refusals


def test_what_has_no_replacement_is_to_be_exported_otherwise_or_kept() -> None:
    source = model("y = com.microsoft.CDist (x, x)")
    (refusal,) = opshift.plan(source, decompose=["com.microsoft"]).refusals
    assert refusal.code is Code.FOREIGN_OPERATOR
    assert refusal.hint.startswith("Export the model again without com.microsoft::CDist, or keep it for onnxruntime")
    (refusal,) = opshift.plan(source, target="opencv-4").refusals
    assert refusal.hint.startswith("Export the model again without com.microsoft::CDist, or list it in [domains]")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("com.microsoft::FastGelo", "com.microsoft has no operator 'FastGelo'; did you mean FastGelu?"),
        ("ai.onnx", "default domain"),
        ("ai.onnx::Hardmx", "did you mean Hardmax?"),
    ],
)
def test_what_no_domain_has_is_a_usage_error(asked: str, reason: str) -> None:
    with pytest.raises(opshift.UsageError) as error:
        opshift.plan(model("y = Abs (x)"), decompose=[asked])
    assert reason in str(error.value)


def test_the_long_name_of_the_default_domain_is_the_short_one() -> None:
    result = opshift.convert(model("y = Hardmax (x)"), decompose=["ai.onnx::Hardmax"], verify=False)
    assert "Hardmax" not in [node.op_type for node in result.model.graph.node]  # type: ignore[union-attr]


def test_a_domain_that_the_model_does_not_have_is_told() -> None:
    (note,) = opshift.convert(model("y = Abs (x)"), decompose=["org.own"], verify=False).notes
    assert note == "Nothing to decompose: the model has no org.own."


def test_the_command_line_takes_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(SEARCH), tmp_path / "m.onnx")
    status = main(["plan", str(tmp_path / "m.onnx"), "--decompose", "com.microsoft", "--json"])
    (refusal,) = json.loads(capsys.readouterr().out)["plan"]["refusals"]
    assert (status, refusal["code"]) == (1, "foreign-operator")


# --- the snapshot of onnxruntime's operators --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_schemas_are_those_of_the_installed_onnxruntime() -> None:
    """If not: review what changed, then write it down with `python benchmarks/dialect.py --write`."""
    found = sorted(snapshot.differences(json.loads(snapshot.FILE.read_text(encoding="utf-8")), snapshot.measured()))
    assert not found, f"onnxruntime {onnxruntime.__version__} differs from {dialect.version()}"


def test_a_new_attribute_and_a_gone_operator_are_differences() -> None:
    before = json.loads(snapshot.FILE.read_text(encoding="utf-8"))
    after = json.loads(snapshot.FILE.read_text(encoding="utf-8"))
    after["domains"]["com.microsoft"]["Gelu"]["attributes"]["alpha"] = ["FLOAT"]
    del after["domains"]["com.microsoft"]["FastGelu"]
    assert sorted(snapshot.differences(before, after)) == [
        "com.microsoft::FastGelu: gone",
        'com.microsoft::Gelu: attributes: {} -> {"alpha": ["FLOAT"]}',
    ]
