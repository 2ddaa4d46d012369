"""`-` for standard input and output, and commands on several models, folders and patterns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from opshift.cli.main import main

FIXTURES = Path(__file__).parents[1] / "fixtures"


def binary(name: str) -> bytes:
    model: onnx.ModelProto = onnx.parser.parse_model((FIXTURES / f"{name}.onnxtxt").read_text(encoding="utf-8"))
    return bytes(model.SerializeToString())


HARDMAX = binary("hardmax-opset12")
REFUSED = binary("onehot-bfloat16-opset28")
CONVERT = ("convert", "-", "-", "--opset", "13", "--no-verify")


def run(*arguments: str, data: bytes = HARDMAX) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "opshift", *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, check=False)


def test_a_model_goes_through_a_pipe_and_all_else_to_stderr() -> None:
    done = run(*CONVERT)
    assert done.returncode == 0
    converted = onnx.ModelProto.FromString(done.stdout)
    assert [node.op_type for node in converted.graph.node] == ["Flatten", "Hardmax", "Reshape"]
    assert converted.opset_import[0].version == 13
    assert b"--no-verify" in done.stderr
    assert b"Hardmax" in done.stderr


def test_nothing_to_do_is_a_copy_on_stdout() -> None:
    assert run("convert", "-", "-o", "-", "--opset", "12", "--no-verify").stdout == HARDMAX


def test_json_of_a_model_on_stdout_is_on_stderr() -> None:
    done = run(*CONVERT, "--json")
    assert onnx.ModelProto.FromString(done.stdout).opset_import[0].version == 13
    assert json.loads(done.stderr)["status"] == 0
    refused = run("convert", "-", "-", "--opset", "11", "--json", data=REFUSED)
    assert refused.returncode == 1
    assert refused.stdout == b""
    assert json.loads(refused.stderr)["error"]["refusals"][0]["code"] == "type"


def test_a_refused_model_leaves_stdout_empty() -> None:
    done = run("convert", "-", "-", "--opset", "11", data=REFUSED)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"OneHot-28" in done.stderr


def test_weights_in_files_come_along_on_stdout(tmp_path: Path) -> None:
    import numpy as np

    weights = onnx.numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", 1, [4096])],
        [value("y", 1, [4096])],
        [weights],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    done = run("convert", str(tmp_path / "m.onnx"), "-", "--opset", "13", "--no-verify")
    converted = onnx.ModelProto.FromString(done.stdout)
    assert converted.graph.initializer[0].data_location == onnx.TensorProto.DEFAULT
    assert (onnx.numpy_helper.to_array(converted.graph.initializer[0]) == np.arange(4096)).all()


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    command = [sys.executable, "-m", "opshift", *CONVERT]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(HARDMAX, timeout=120)
    assert process.returncode == 0
    assert b"Traceback" not in err


@pytest.mark.parametrize("command", ["plan", "inspect"])
def test_plan_and_inspect_read_stdin(command: str) -> None:
    done = run(command, "-", *(("--opset", "13") if command == "plan" else ()), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"] == "-"


@pytest.mark.parametrize("data", [b"", b"words", HARDMAX[:-9]], ids=["empty", "text", "cut off"])
def test_what_is_no_model_on_stdin(data: bytes) -> None:
    done = run("inspect", "-", data=data)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: standard input: ")


USAGE = [
    (["convert", "-", "--opset", "13"], "add OUT"),
    (["convert", "-", "--opset", "13", "--in-place"], "add OUT"),
    (["convert", "a.onnx", "-", "--opset", "13", "--save-as-external-data"], "with its weights"),
    (["convert", "a.onnx", "-", "--opset", "13", "--external-data", "copy"], "with its weights"),
    (["convert", "a.onnx", "-", "-o", "out", "--opset", "13"], "is one model: give it alone"),
    (["verify", "-", "-"], "holds one model"),
    (["verify", "folder", "a.onnx"], "is a folder: name two models, or two folders"),
    (["plan", "empty", "--opset", "13"], "there are no models"),
    (["inspect", "*.nothing"], "there are no models"),
    (["plan", "folder", "--opset", "13", "--report", "r.md"], "--report is for one model"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE, ids=lambda value: " ".join(value))
def test_usage_error(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty").mkdir()
    for place in ("a.onnx", "folder/b.onnx"):
        Path(place).write_bytes(HARDMAX)
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_terminal_gets_no_binary(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("opshift.cli.terminal.is_terminal", lambda stream: True)
    assert main(["convert", str(FIXTURES / "hardmax-opset12.onnxtxt"), "-", "--opset", "13", "--no-verify"]) == 2
    assert "not written to a terminal" in capsys.readouterr().err


# --- several models ---------------------------------------------------------------------------------------------------


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo" / "more").mkdir(parents=True)
    (tmp_path / "zoo" / "a.onnx").write_bytes(HARDMAX)
    (tmp_path / "zoo" / "more" / "b.onnx").write_bytes(REFUSED)
    (tmp_path / "zoo" / "c.onnx").write_bytes(b"no model")
    return tmp_path


@pytest.mark.parametrize(
    "models", [["zoo"], ["zoo/*.onnx", "zoo/more"], ["zoo/a.onnx", "zoo/c.onnx", "zoo/more/b.onnx"]]
)
def test_plan_of_several_models(models: list[str], zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *models, "--opset", "11", "--json"]) == 2
    lines = {line["model"]: line["status"] for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert lines == {str(Path("zoo/a.onnx")): 0, str(Path("zoo/c.onnx")): 2} | {str(Path("zoo/more/b.onnx")): 1}
    assert main(["plan", *models, "--opset", "11"]) == 2
    found = capsys.readouterr()
    assert found.out.splitlines()[0] == f"{Path('zoo/a.onnx')}:"
    assert found.out.splitlines()[-1].startswith("1 of 3 models")
    assert found.out.splitlines()[0] == str(Path("zoo/a.onnx")) + ":"


def test_inspect_of_several_models(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "zoo/a.onnx", "zoo/more"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines() if ": opset " in line] == ["zoo/a.onnx", "zoo/more/b.onnx"]
    assert out.splitlines()[-1].startswith("2 of 2 models")


def test_verify_of_two_folders(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("zoo/more", "first")
    Path("first/gone.onnx").write_bytes(HARDMAX)
    shutil.copytree("zoo/more", "second")
    assert main(["verify", "first", "second", "--json"]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["model"], line["status"]) for line in lines] == [("first/b.onnx", 0), ("first/gone.onnx", 2)]


def test_any_mixture_of_models_is_converted(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.onnx").write_bytes(HARDMAX)
    assert main(["convert", "zoo/a*.onnx", "zoo/more", "d.onnx", "-o", "out", "--opset", "13", "--no-verify"]) == 0
    assert sorted(str(path.relative_to("out")) for path in Path("out").rglob("*.onnx")) == [
        "d.onnx",
        "zoo/a.onnx",
        "zoo/more/b.onnx",
    ]


@pytest.mark.parametrize("place", ["there", "not_yet/"])
def test_a_pattern_that_matched_one_model_goes_into_the_folder(place: str, zoo: Path) -> None:
    Path("there").mkdir()
    assert main(["convert", "zoo/a.onnx", "-o", place, "--opset", "13", "--no-verify"]) == 0
    assert (Path(place) / "a.onnx").is_file()
