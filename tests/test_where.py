"""`opshift where`: which runtimes run a model, as it is, after conversion, or not."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from runtimes import Runtime, version

import opshift
from opshift.cli.main import main
from opshift.cli.reports.badge import badge
from opshift.cli.reports.runtimes import Entry
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.opsets.runtimes.releases import release_of
from opshift.passes.measurement.isolated import alike
from opshift.passes.where import Support, plain_targets

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))

RELU = '<ir_version: 7, opset_import: ["": 13]> g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }'
HARDMAX = '<ir_version: 7, opset_import: ["": 13]> g (float[2,3] x) => (float[2,3] y) { y = Hardmax (x) }'
NEW = '<ir_version: 10, opset_import: ["": 21]> g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }'
FOREIGN = """<ir_version: 7, opset_import: ["": 13, "mine": 1]>
g (float[2,3] x) => (float[2,3] y) { [odd] y = mine.Odd (x) }"""
SHAPED = """<ir_version: 8, opset_import: ["": 17]> g (float[n,3] x) => (float[n,3] y) {
    s = Shape (x) z = Reshape (x, s) y = Relu (z) }"""
UNUSED_IMPORT = '<ir_version: 7, opset_import: ["": 13, "mine": 1]> g (float[2] x) => (float[2] y) { y = Relu (x) }'


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that runs, one that needs a conversion, and one that no runtime has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo").mkdir()
    for name, text in {"relu": RELU, "hardmax": HARDMAX, "foreign": FOREIGN}.items():
        onnx.save(parse_model(text), tmp_path / "zoo" / f"{name}.onnx")
    return tmp_path


def outcomes(found: opshift.Where) -> dict[str, str]:
    return {fit.target: str(fit.outcome) for fit in found.fits}


def of_json(capsys: pytest.CaptureFixture[str]) -> Any:
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_a_model_runs_is_converted_or_is_refused() -> None:
    found = opshift.where(parse_model(HARDMAX), ["onnxruntime-1.12", "opencv-4"])
    assert outcomes(found) == {"onnxruntime-1.12": "runs", "opencv-4": "converts"}
    (replaced,) = found["opencv-4"].replaced
    assert (replaced.operator, replaced.nodes) == ("Hardmax-13", 1)
    assert "Hardmax" not in replaced.becomes
    (fit,) = opshift.where(parse_model(FOREIGN), ["opencv-4"]).fits
    assert fit.outcome is Support.REFUSED
    (refusal,) = fit.refusals
    assert (refusal.code, refusal.node) == ("foreign-operator", "main/odd")
    assert refusal.reason


def test_a_newer_opset_and_ir_version_are_converted() -> None:
    (fit,) = opshift.where(parse_model(NEW), ["onnxruntime-1.12"]).fits
    assert (fit.outcome, fit.opset, fit.ir_version, fit.bumped) == ("converts", 17, 8, 0)


def test_a_model_that_another_ir_version_alone_would_serve_does_not_run() -> None:
    model = parse_model(RELU.replace("ir_version: 7", "ir_version: 9"))
    (fit,) = opshift.where(model, ["onnxruntime-1.6"]).fits
    assert (fit.outcome, fit.ir_version) == ("converts", 7)


def test_an_unused_import_that_a_target_does_not_support_does_not_run() -> None:
    (fit,) = opshift.where(parse_model(UNUSED_IMPORT), ["opencv-4"]).fits
    assert fit.outcome is Support.CONVERTS
    assert "mine" in fit.notes[0]


def test_a_node_of_unknown_rank_is_not_said_to_run_where_ranks_were_known() -> None:
    """OpenVINO 2026.4.1 loads no Conv of unknown rank."""
    model = parse_model(RELU)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    found = opshift.where(model, ["openvino", "onnxruntime-1.12"])
    assert outcomes(found) == {"openvino": "refused", "onnxruntime-1.12": "runs"}
    (refusal,) = found["openvino"].refusals
    assert (refusal.code, refusal.node) == ("missing-fact", "main/Relu_0")


def test_shapes_make_a_model_fit() -> None:
    model = parse_model(SHAPED)
    (fit,) = opshift.where(model, ["opencv-4"], input_shapes={"x": (2, 3)}).fits
    assert fit.outcome is Support.CONVERTS
    assert fit.prepared["fold"] == 1


@pytest.mark.parametrize("fixture", ["segmenter-opset13", "classifier-opset18", "onehot-bfloat16-opset28"])
@pytest.mark.parametrize(
    "target", ["opencv-4", "mnn", "ncnn", "openvino", "tract", "tensorrt-8", "webnn", "onnxruntime-1.6"]
)
def test_outcomes_are_those_of_plan(fixture: str, target: str) -> None:
    path = FIXTURES / f"{fixture}.onnxtxt"
    (fit,) = opshift.where(path, [target]).fits
    plan = opshift.plan(path, target=target)
    assert (fit.outcome is not Support.REFUSED) == plan.possible
    assert fit.refusals == plan.refusals
    if fit.outcome is Support.CONVERTS:
        assert fit.opset == plan.target_opset
        assert sum(one.nodes for one in fit.replaced) == len(plan.lowered)


def test_several_targets_at_once_get_what_each_gets_alone() -> None:
    """They share what is known of the model, and none may change it."""
    model = parse_model(SHAPED)
    before = model.SerializeToString(deterministic=True)
    targets = ["opencv-4", "mnn", "webnn", "openvino", "onnxruntime-1.6", "ncnn"]
    together = opshift.where(model, targets)
    assert model.SerializeToString(deterministic=True) == before
    for fit in together.fits:
        assert opshift.where(model, [fit.target]).fits == (fit,)


def test_a_folded_model_is_shared_unchanged() -> None:
    """All releases have the same operators of control flow, so they share one prepared model."""
    targets = ["onnxruntime-1.6", "onnxruntime-1.12", "onnxruntime-1.20"]
    together = opshift.where(parse_model(SHAPED), targets, input_shapes={"x": (2, 3)})
    assert [fit.opset for fit in together.fits] == [13, 17, 17]
    for fit in together.fits:
        assert opshift.where(parse_model(SHAPED), [fit.target], input_shapes={"x": (2, 3)}).fits == (fit,)


def test_all_profiles_and_the_oldest_releases() -> None:
    found = opshift.where(parse_model(NEW))
    plain = [fit.target for fit in found.fits if not fit.oldest]
    assert sorted(plain) == sorted(plain_targets())
    oldest = [(fit.target, str(fit.outcome)) for fit in found.fits if fit.oldest]
    assert oldest == [("onnxruntime-1.6", "converts"), ("onnxruntime-1.18", "runs")]
    assert (found.lowest, found.highest) == (OLDEST, NEWEST)


def test_a_model_of_an_old_opset_runs_in_the_oldest_release() -> None:
    oldest = [(fit.target, str(fit.outcome)) for fit in opshift.where(parse_model(RELU)).fits if fit.oldest]
    assert oldest == [("onnxruntime-1.6", "runs")]


def test_where_no_release_serves_the_newest_one_is_shown() -> None:
    found = opshift.where(parse_model(FOREIGN))
    (fit,) = (fit for fit in found.fits if release_of(fit.target))
    assert fit.outcome is Support.REFUSED
    assert not fit.oldest


def test_profiles_say_whether_they_were_measured() -> None:
    found = opshift.where(parse_model(RELU), ["opencv-4", "coreml", "onnxruntime-1.12"])
    assert [fit.measured for fit in found.fits] == [True, False, True]


def test_wrong_targets_are_refused() -> None:
    for targets in ("opencv-4", ["none"], []):
        with pytest.raises(opshift.UsageError):
            opshift.where(parse_model(RELU), targets)


def test_reprs_are_short() -> None:
    found = opshift.where(parse_model(RELU), ["opencv-4"])
    assert repr(found) == "<opshift.Where opset 13: 1 runs>"
    assert repr(found.fits[0]) == "<opshift.Fit opencv-4: runs>"
    with pytest.raises(KeyError):
        found["mnn"]


# --- what is said to run runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["onnxruntime", "opencv-4", "openvino", "mnn", "tract"])
@pytest.mark.parametrize("text", [RELU, HARDMAX, SHAPED, NEW], ids=["relu", "hardmax", "shaped", "new"])
def test_what_runs_is_run_by_the_runtime(text: str, target: str) -> None:
    if version(target) is None:
        pytest.skip(f"{target} is not installed")
    model = parse_model(text)
    (fit,) = opshift.where(model, [target]).fits
    if fit.outcome is not Support.RUNS:
        if fit.outcome is not Support.CONVERTS:
            pytest.skip(f"{target} refuses it")
        converted = opshift.convert(model, target=target, verify=False).model
        assert isinstance(converted, onnx.ModelProto)
        model = converted
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    runtime, reference = Runtime(target), Runtime("onnxruntime")
    try:
        assert alike(runtime.run(model, {"x": x})["y"], reference.run(parse_model(text), {"x": x})["y"])
    finally:
        runtime.close()
        reference.close()


# --- command line -----------------------------------------------------------------------------------------------------


def test_the_table_of_a_folder(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "zoo", "--target", "opencv-4,onnxruntime-1.12"]) == 1
    out = capsys.readouterr().out
    assert f"zoo/relu.onnx: opset 13, ir_version 7, convertible to opset 7 to {NEWEST}" in out
    lines = {tuple(line.split()[:2]): line for line in out.splitlines()}
    assert "runs" in lines["zoo/relu.onnx", "opencv-4"]
    assert "converts" in lines["zoo/hardmax.onnx", "opencv-4"]
    assert "1 x Hardmax-13 -> " in lines["zoo/hardmax.onnx", "opencv-4"]
    refused = lines["zoo/foreign.onnx", "opencv-4"]
    assert "refused" in refused
    assert "main/odd" in refused
    assert "[foreign-operator]" in refused


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["zoo/foreign.onnx"], 0),
        (["zoo/hardmax.onnx", "--target", "opencv-4"], 0),
        (["zoo/foreign.onnx", "--target", "opencv-4"], 1),
        (["zoo/foreign.onnx", "none.onnx", "--target", "opencv-4"], 2),
        (["none.onnx"], 2),
        (["zoo/relu.onnx", "--target", "nothing"], 2),
        (["zoo/relu.onnx", "--target", "mnn", "--batch", "1", "--input-shape", "z:1"], 2),
        (["zoo/relu.onnx", "--badge", "b.png"], 2),
        (["zoo/relu.onnx", "--badge", "no/b.svg"], 2),
        (["zoo/relu.onnx", "--jobs", "0"], 2),
        (["zoo/relu.onnx", "-", "--target", "mnn"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_exit_status(zoo: Path, arguments: list[str], status: int) -> None:
    assert main(["where", *arguments]) == status


def test_json_fits_the_schema(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (zoo / "broken.onnx").write_bytes(b"no model")
    arguments = ["where", "zoo", "broken.onnx", "--target", "opencv-4", "--json", "--report", "r.json"]
    assert main(arguments) == 2
    document = of_json(capsys)
    assert document["command"] == "where"
    found = {entry["model"]: entry for entry in document["where"]}
    assert found["zoo/relu.onnx"]["fits"][0]["outcome"] == "runs"
    assert found["zoo/foreign.onnx"]["fits"][0]["refusals"][0]["code"] == "foreign-operator"
    assert found["broken.onnx"]["error"]["kind"] == "invalid-model"
    assert not (zoo / "r.json").exists()


@pytest.mark.slow
def test_models_in_parallel_come_to_the_same(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["where", "zoo", "none.onnx", "--target", "opencv-4", "--json"])
    alone = of_json(capsys)["where"]
    main(["where", "zoo", "none.onnx", "--target", "opencv-4", "--json", "-j", "2"])
    assert of_json(capsys)["where"] == alone


def test_one_unreadable_model_is_a_message(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "none.onnx"]) == 2
    done = capsys.readouterr()
    assert "there is no such file" in done.err
    assert not done.out


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports_have_the_table(zoo: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "zoo", "--target", "opencv-4", "--report", f"r.{suffix}"]) == 1
    text = (zoo / f"r.{suffix}").read_text(encoding="utf-8")
    assert "opencv-4" in text
    assert "foreign" in text
    if suffix == "json":
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(text))


def test_names_of_models_and_nodes_command_no_log(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = parse_model(FOREIGN)
    model.graph.node[0].name = "\x1b[31m##[error]x\n::error::y<script>"
    onnx.save(model, zoo / "odd.onnx")
    for extra in ([], ["-v"], ["--json"]):
        main(["where", "odd.onnx", "--target", "mnn", "--report", "r.html", *extra])
        out = capsys.readouterr().out
        assert "##[" not in out
        assert "\x1b" not in out
        assert not any(line.startswith("::") for line in out.splitlines())
        assert "y<script>" not in (zoo / "r.html").read_text(encoding="utf-8")


# --- badge ------------------------------------------------------------------------------------------------------------


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_the_badge_has_what_serves_all_models(zoo: Path) -> None:
    targets = "onnxruntime-1.12,opencv-4,coreml"
    assert main(["where", "zoo/relu.onnx", "zoo/hardmax.onnx", "--target", targets, "--badge", "b.svg"]) == 0
    assert texts(zoo / "b.svg") == ["runs on", "onnxruntime-1.12", "converted: opencv-4, coreml"]
    assert main(["where", "zoo", "--target", targets, "--badge", "b.svg"]) == 1
    assert texts(zoo / "b.svg") == ["runs on", "no tested target"]


def test_a_badge_of_all_profiles_has_measured_ones_only() -> None:
    found = opshift.where(parse_model(RELU))
    text = badge([Entry("m.onnx", 0, found)])
    assert "opencv-4" in text
    assert "coreml" not in text
    assert "onnxruntime-1" not in text


def test_a_badge_escapes_names_of_targets(zoo: Path) -> None:
    (zoo / "t.toml").write_text('name = "<b>&\\u001b##[x]"\n')
    assert main(["where", "zoo/relu.onnx", "--target", "t.toml", "--badge", "b.svg"]) == 0
    assert "##[" not in (zoo / "b.svg").read_text(encoding="utf-8")
    assert texts(zoo / "b.svg")[1] == r"<b>&\x1b##[x]"


def test_nothing_is_written_for_an_unreadable_model(zoo: Path) -> None:
    (zoo / "b.svg").write_text("old")
    assert main(["where", "zoo/relu.onnx", "none.onnx", "--target", "mnn", "--badge", "b.svg"]) == 2
    assert (zoo / "b.svg").read_text() == "old"


def test_a_badge_replaces_no_model(zoo: Path) -> None:
    os.link(zoo / "zoo" / "relu.onnx", zoo / "b.svg")
    before = (zoo / "b.svg").read_bytes()
    assert main(["where", "zoo/relu.onnx", "--target", "mnn", "--badge", "b.svg"]) == 2
    assert (zoo / "b.svg").read_bytes() == before
