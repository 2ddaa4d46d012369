"""What opshift prints: no name can move a terminal's cursor, or be taken by a CI log for a command."""

from __future__ import annotations

import html
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.helper
import pytest
from onnx import TensorProto

from opshift.cli import hook, terminal
from opshift.cli.main import main
from opshift.cli.reports.markdown import code, text

NAMES = {
    "github": "::error file=a,line=1::owned",
    "github behind blanks": "  ::add-mask::owned",
    "github of old": "##[error]owned",
    "azure": "##vso[task.setvariable variable=a]owned",
    "line break": "a\n::error::owned",
    "carriage return": "a\r::error::owned",
    "line separator": "a\u2028::error::owned",
    "next line": "a\x85::error::owned",
    "fold": "word " * 12 + "::error::owned",
    "fold of a word": "w" * 39 + "::error::owned",
    "colour": "\x1b[31mred\x1b]0;title\x07",
    "c1": "a\x9b31m",
    "right to left": "a\u202e\u2066exe.onnx",
    "invisible": "a\u200b\u00ad\ufeffb",
    "surrogate": "a\udcff::b",
}

# actions/runner, ActionCommand.cs: `::` behind blanks, and `##[` wherever it stands. Azure Pipelines: `##vso[`.
OBEYED = re.compile(r"^\s*::|##\[|##vso\[", re.MULTILINE)


def check(printed: str, *, colours: bool = False) -> None:
    if colours:
        printed = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert not OBEYED.search(printed), printed
    wrong = {c for c in printed if not c.isprintable() and c != "\n"}
    assert not wrong, (wrong, printed)


HOSTILE = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())


def model(name: str, *, operator: str = "Foreign", domain: str = "com.acme", depth: bool = True) -> onnx.ModelProto:
    """Hardmax, and an operator of another domain that keeps no opset; all is called `name` that can be."""
    name = name.encode("utf-8", "backslashreplace").decode()  # protobuf has no surrogates
    make = onnx.helper.make_node
    nodes = [
        make("Hardmax", ["x"], [f"{name} hot"], name=f"{name} hot"),
        make(operator, [f"{name} hot"], [f"{name} y"], name=name, domain=domain),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, name, [value("x", TensorProto.FLOAT, [2, 3])], [value(f"{name} y", TensorProto.FLOAT, None)]
    )
    imports = [onnx.helper.make_opsetid("", 13)]
    if domain:
        imports.append(onnx.helper.make_opsetid(domain, 1))
    made = onnx.helper.make_model(graph, opset_imports=imports, producer_name=name, doc_string=name, ir_version=8)
    made.metadata_props.add(key=name, value=name)
    return made


def commands(path: str, other: str) -> Sequence[Sequence[str]]:
    """All commands, on a model that is refused, one that is converted and one that is not there."""
    return [
        ["convert", path, "-o", f"{other}.out", "--opset", "12", "--no-verify", "-v"],
        ["convert", path, "-o", f"{other}.out", "--opset", "8", "--no-verify", "--report", f"{other}.md"],
        ["convert", path, "-o", f"nowhere/{other}", "--opset", "12"],
        ["convert", other, "-o", path, "--opset", "12", "--debug"],
        ["convert", other, "--opset", "12"],
        ["convert", ".", "-o", "out", "--opset", "12", "--no-verify", "-v", "--report", f"{other}.html"],
        ["plan", path, "--opset", "9", "-v"],
        ["plan", path, "--decompose", "Hardmax", "-v"],
        ["plan", path, "--decompose", other],
        ["plan", path, "--target", other],
        ["inspect", path, "-v"],
        ["verify", path, path, "--inputs", other],
        ["verify", path, path, "--input-shape", other, "--input-shape", f"{other}:1"],
        ["verify", path, other],
        ["ops", other],
        ["targets", other],
        [other],
        ["convert", other, f"--{other}"],
        ["convert", path, "--opset", other],
        ["convert", path, "--timeout", other, "--memory", other],
        ["convert", path, "--assume", other],
        ["convert", path, "--semantics", other],
        ["convert", path, "-o", "x", "--opset", "12", "--report", other],
        ["convert", path, "-o", "x", "--opset", "12", "--save-repro", other, "--allow-path", other],
    ]


@pytest.mark.parametrize("name", [NAMES[kind] for kind in ("github of old", "azure")])
def test_a_page_begins_no_command_of_a_log(name: str, tmp_path: Path) -> None:
    onnx.save(model(name), tmp_path / "in.onnx")
    page, out = str(tmp_path / "r.html"), str(tmp_path / "out.onnx")
    assert (
        main(["convert", str(tmp_path / "in.onnx"), "-o", out, "--opset", "12", "--no-verify", "--report", page]) == 0
    )
    written = Path(page).read_text()
    assert "owned hot" in html.unescape(written)
    assert not re.search(r"##\[|##vso\[", written)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [NAMES[kind] for kind in ("github", "azure", "line break", "surrogate")])
def test_every_command_on_hostile_names(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{name}.onnx"
    Path(path).write_bytes(model(name).SerializeToString())
    for command in commands(path, name):
        status = main(command)
        printed = capsys.readouterr()
        assert status in (0, 1, 2), (command, printed.err)
        check(printed.out)
        check(printed.err)


@HOSTILE
def test_the_hook_on_hostile_names(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{name}.onnx"
    Path(path).write_bytes(model(name).SerializeToString())
    hook.run(["--opset=9", path, f"{name} is not there.onnx"])
    printed = capsys.readouterr()
    assert "owned" not in name or "owned" in printed.out
    check(printed.out)
    check(printed.err)


@pytest.mark.parametrize("field", ["operator", "domain"])
@HOSTILE
def test_hostile_operators_and_domains(name: str, field: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = name.encode("utf-8", "backslashreplace").decode()
    Path("m.onnx").write_bytes(model("n", **{field: name}).SerializeToString())  # type: ignore[arg-type]
    for command in (
        ["inspect", "m.onnx", "-v"],
        ["plan", "m.onnx", "--opset", "9", "-v"],
        ["convert", "m.onnx", "-o", "out.onnx", "--opset", "12", "-v"],
    ):
        main(command)
        printed = capsys.readouterr()
        check(printed.out)
        check(printed.err)


@HOSTILE
def test_json_says_the_same_without_a_command(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{name}.onnx"
    Path(path).write_bytes(model(name).SerializeToString())
    main(["plan", path, "--opset", "12", "--json", "--report", "report.json"])
    printed = capsys.readouterr().out
    check(printed)
    assert json.loads(printed)["model"] == path
    written = Path("report.json").read_text()
    check(written)
    assert json.loads(written)["model"] == path
    main(["convert", ".", "-o", "out", "--opset", "12", "--no-verify", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    check(line)
    assert json.loads(line)["model"] == path


class Screen(io.StringIO):
    """A narrow terminal."""

    def isatty(self) -> bool:
        return True


@HOSTILE
@pytest.mark.parametrize("columns", [20, 40, 61])
def test_lines_that_a_terminal_folds(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    for stream in ("stdout", "stderr"):
        screen = Screen()
        monkeypatch.setattr(sys, stream, screen)
        if stream == "stderr":
            terminal.message(name, f"error: {name}")
        else:
            terminal.say(name, "bold red")
            terminal.say(f"some words before {name}")
            terminal.table(("Name", "Value"), [(name, name), ("x" * 30, name)])
        check(screen.getvalue(), colours=True)


def test_what_is_harmless_stays_as_it_is() -> None:
    for line in ("a::b", "std::vector", "com.acme::Foo  1", "# [a]", "C:\\x", "x: ::1", "##", "a ##b [c]"):
        assert terminal.inert(line) == line
    assert terminal.inert("::a") == "\\x3a:a"
    assert terminal.inert("##[a]") == "\\x23#[a]"


@HOSTILE
def test_reports_in_markdown(name: str) -> None:
    for written in (code(name), text(name)):
        check(written)


def test_a_warning_under_debug_is_printed_as_all_else(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    from opshift.cli.commands import ops

    def warned(_: object) -> int:
        warnings.warn("a\n::error::owned", stacklevel=1)
        return 0

    monkeypatch.setattr(ops, "run", warned)
    assert main(["ops", "--debug"]) == 0
    printed = capsys.readouterr().err
    assert "owned" in printed
    check(printed)
