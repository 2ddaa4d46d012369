"""The pre-commit hook and the GitHub Action of this repository: what they declare, and what their steps do when run."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx.parser
import pytest
import yaml
from extras import need
from packaging.requirements import Requirement
from test_docs import ROOT, generator

from opshift.cli.hook import run

pytestmark = pytest.mark.slow

FIXTURES = ROOT / "fixtures"
GOES, STAYS = FIXTURES / "segmenter-opset13.onnxtxt", FIXTURES / "onehot-bfloat16-opset28.onnxtxt"

posix = pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="the steps are for bash")


def manifest(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


# --- the hook ---------------------------------------------------------------------------------------------------------


def test_the_hook_plans_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--opset=8", str(GOES)]) == 0
    assert run(["--opset", "8", str(GOES), str(STAYS)]) == 1
    said = capsys.readouterr().out
    assert f"{GOES}:\n" in said
    assert "[type]" in said
    assert run(["--opset=8", "--no-such", str(GOES)]) == 2
    assert run(["--opset=8"]) == 0


def test_the_worst_status_is_the_hooks() -> None:
    assert run(["--opset=8", str(STAYS), str(GOES)]) == 1
    assert run(["--opset=8", "missing.onnx", str(STAYS), str(GOES)]) == 2


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A git repository with what is here now, as pre-commit clones it."""
    folder = tmp_path / "released"
    ignored = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "*.egg-info", "build", "__pycache__")
    shutil.copytree(ROOT, folder, ignore=ignored)
    git(folder, "init", "--quiet")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--quiet", "--message", "everything")
    git(folder, "tag", "v0.1.0")
    return folder


WHERE = "https://github.com/<owner>/opshift"
"""Of the page, which says above that `<owner>` is for the reader to replace."""


def test_placeholders_are_told_apart() -> None:
    page = (ROOT / "docs" / "howto" / "ci.md").read_text(encoding="utf-8")
    told, *examples = page.split("<owner>")
    assert "`" + "<owner>` on this page is a placeholder" in told[-1:] + "<owner>" + examples[0]
    assert [after.split()[0] for after in examples[1:]] == ["/opshift", "/opshift@v0.1.0", "/opshift@v0.1.0"]
    assert "OWNER" not in page
    assert "example.com" not in page


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_pre_commit_runs_the_hook(released: Path, tmp_path: Path) -> None:
    """In a repository of somebody's, with the configuration of the page, and a hook that is installed from here."""
    need("pre_commit")
    mine = tmp_path / "mine"
    mine.mkdir()
    page = (ROOT / "docs" / "howto" / "ci.md").read_text(encoding="utf-8")
    (text,) = (block.body for block in generator().blocks(page) if block.body.startswith("# .pre-commit-config.yaml"))
    (mine / ".pre-commit-config.yaml").write_text(text.replace(WHERE, str(released)))
    git(mine, "init", "--quiet")
    shutil.copy(GOES, mine)
    (mine / "notes.txt").write_text("no model")
    git(mine, "add", ".")

    def commit() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"]
        environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
        return subprocess.run(command, cwd=mine, env=environment, capture_output=True, text=True, check=False)

    done = commit()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Possible: opset 13 -> 11" in done.stdout
    assert "notes.txt" not in done.stdout
    shutil.copy(STAYS, mine)
    git(mine, "add", ".")
    done = commit()
    assert done.returncode == 1
    assert "OneHot-28 (main/OneHot_0): its input is bfloat16" in done.stdout


def test_the_manifest_of_hooks_is_valid() -> None:
    need("pre_commit")
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (hook,) = manifest(".pre-commit-hooks.yaml")
    assert re.search(hook["files"], "models/a.onnx")
    assert not re.search(hook["files"], "models/a.onnx.data")


# --- the action -------------------------------------------------------------------------------------------------------

# docs.github.com, "Metadata syntax for GitHub Actions", of composite actions.
KEYS = {"name", "author", "description", "inputs", "outputs", "runs", "branding"}
INPUT_KEYS = {"description", "required", "default", "deprecationMessage"}
STEP_KEYS = {"run", "shell", "if", "name", "id", "env", "working-directory", "uses", "with", "continue-on-error"}


INSTALL, WHERE_STEP, CONVERT = "Install opshift", "List the runtimes", "Convert and verify"


def steps() -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = manifest("action.yml")["runs"]["steps"]
    return found


def test_the_action_has_only_keys_that_there_are() -> None:
    action = manifest("action.yml")
    assert {"name", "description", "runs"} <= set(action) <= KEYS
    assert action["runs"]["using"] == "composite"
    assert set(action["runs"]) == {"using", "steps"}
    assert set(action["branding"]) == {"icon", "color"}
    for given in action["inputs"].values():
        assert {"description", "required"} <= set(given) <= INPUT_KEYS
        assert given["required"] or "default" in given
    for given in action["outputs"].values():
        assert set(given) == {"description", "value"}
    for step in steps():
        assert {"run", "shell"} <= set(step) <= STEP_KEYS


def test_inputs_reach_the_steps_as_variables_only() -> None:
    """What is spliced into a script is run as a script: a model called `$(rm -rf .)` must not be."""
    action = manifest("action.yml")
    assert all("${{" not in step["run"] for step in steps())
    read = {name for step in steps() for value in step["env"].values() for name in re.findall(r"inputs\.(\w+)", value)}
    assert read == set(action["inputs"])
    named = {step["id"] for step in steps() if "id" in step}
    for given in action["outputs"].values():
        assert re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.\w+ \}\}", given["value"])[1] in named  # type: ignore[index]


def test_the_page_lists_every_input() -> None:
    page = (ROOT / "docs" / "howto" / "ci.md").read_text(encoding="utf-8")
    for name in manifest("action.yml")["inputs"]:
        assert f"`{name}`" in page


def step(name: str, folder: Path, github: Mapping[str, str], given: Mapping[str, str]) -> tuple[int, str]:
    """Run a step as GitHub's runner does, and return its status and what it printed."""
    inputs = {name: str(entry.get("default", "")) for name, entry in manifest("action.yml")["inputs"].items()}
    inputs |= given
    values = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ROOT)}
    (one,) = (item for item in steps() if item["name"] == name)
    wanted = {
        name: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values[found[1]], text) for name, text in one["env"].items()
    }
    script = folder / "step.sh"
    script.write_text(one["run"], encoding="utf-8")
    # docs.github.com, "Workflow syntax", `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    environment = {**os.environ, "NO_COLOR": "1", **github, **wanted}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.fixture
def github(tmp_path: Path) -> dict[str, str]:
    """The variables that a runner sets, and opshift of this environment on the path."""
    files = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "GITHUB_PATH": "path"}
    (tmp_path / "temp").mkdir()
    found = {name: str(tmp_path / "temp" / file) for name, file in files.items()}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**found, "RUNNER_TEMP": str(tmp_path / "temp"), "PATH": path}


def read(github: Mapping[str, str], name: str) -> str:
    path = Path(github[name])
    return path.read_text(encoding="utf-8") if path.exists() else ""


@posix
def test_the_action_converts_and_reports(tmp_path: Path, github: dict[str, str]) -> None:
    given = {"model": str(GOES), "output": "out here.onnx", "opset": "8", "arguments": "--require-proof  --seed 1"}
    status, said = step(CONVERT, tmp_path, github, given)
    assert status == 0, said
    assert (tmp_path / "out here.onnx").exists()
    assert read(github, "GITHUB_OUTPUT") == "verdict=verified\n"
    assert "OneHot" in read(github, "GITHUB_STEP_SUMMARY")
    assert "Verified" in read(github, "GITHUB_STEP_SUMMARY").splitlines()[0]


@posix
def test_the_action_passes_all_that_says_where_to_go(tmp_path: Path, github: dict[str, str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nwithout = ["OneHot"]\n')
    given = {
        "model": str(GOES),
        "output": "out.onnx",
        "decompose": "ArgMax",
        "target": "mine.toml",
        "arguments": "--no-verify",
        "report": "report.html",
    }
    status, said = step(CONVERT, tmp_path, github, given)
    assert status == 0, said
    assert "target mine, decompose ArgMax\n" in said
    assert "1 x OneHot-11 -> " in said
    assert "1 x ArgMax-13 -> " in said
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert read(github, "GITHUB_OUTPUT") == "verdict=not verified\n"
    assert "not verified" in read(github, "GITHUB_STEP_SUMMARY")


@posix
def test_the_action_fails_where_the_model_is_refused(tmp_path: Path, github: dict[str, str]) -> None:
    status, said = step(CONVERT, tmp_path, github, {"model": str(STAYS), "output": "out.onnx", "opset": "11"})
    assert status == 1
    assert "OneHot-28" in said
    assert not (tmp_path / "out.onnx").exists()
    assert read(github, "GITHUB_OUTPUT") == ""
    assert "OneHot-28" in read(github, "GITHUB_STEP_SUMMARY")


@posix
def test_the_action_runs_nothing_that_an_input_holds(tmp_path: Path, github: dict[str, str]) -> None:
    status, _ = step(
        CONVERT, tmp_path, github, {"model": "$(touch run)`touch run`.onnx", "output": "; touch run", "opset": "8"}
    )
    assert status == 2
    assert not (tmp_path / "run").exists()


@posix
def test_the_action_lists_the_runtimes(tmp_path: Path, github: dict[str, str]) -> None:
    given = {"model": str(GOES), "where": "onnxruntime-1.12,opencv-4", "badge": "runs.svg"}
    status, said = step(WHERE_STEP, tmp_path, github, given)
    assert status == 0, said
    summary = read(github, "GITHUB_STEP_SUMMARY")
    assert "| onnxruntime-1.12 (1.12.1) | runs | 13 |" in summary
    assert re.search(r"\| opencv-4 \([\d.]+\) \| converts \| 13 \| 1 x OneHot-11", summary)
    assert "opencv-4" in (tmp_path / "runs.svg").read_text(encoding="utf-8")


@posix
def test_the_action_fails_where_a_named_runtime_refuses_the_model(tmp_path: Path, github: dict[str, str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\noperators = ["Relu"]\n')
    status, said = step(WHERE_STEP, tmp_path, github, {"model": str(GOES), "where": "onnxruntime-1.12,mine.toml"})
    assert status == 1, said
    assert "| mine (listed) | refused |" in read(github, "GITHUB_STEP_SUMMARY")
    Path(github["GITHUB_STEP_SUMMARY"]).unlink()
    status, said = step(WHERE_STEP, tmp_path, github, {"model": "missing.onnx", "where": "opencv-4"})
    assert status == 2, said


@pytest.mark.slow
@posix
def test_the_action_lists_all_runtimes(tmp_path: Path, github: dict[str, str]) -> None:
    status, said = step(WHERE_STEP, tmp_path, github, {"model": str(STAYS), "where": "all"})
    assert status == 0, said
    assert "| tensorrt-8 (8.4, listed) | refused |" in read(github, "GITHUB_STEP_SUMMARY")


def test_steps_run_for_what_is_asked() -> None:
    """A job names an output, or the runtimes, or both; with neither, the conversion says what is missing."""
    asked = {one["name"]: one.get("if", "") for one in steps()}
    assert asked == {
        INSTALL: "",
        WHERE_STEP: "inputs.where != ''",
        CONVERT: "inputs.output != '' || inputs.where == ''",
    }


@posix
def test_the_action_without_an_output_is_a_usage_error(tmp_path: Path, github: dict[str, str]) -> None:
    status, said = step(CONVERT, tmp_path, github, {"model": str(GOES), "opset": "8"})
    assert status == 2, said
    assert "error:" in said


HOSTILE = "x ``` ::error::owned ##[error]owned </pre> <img src=x> | `code`"


@posix
@pytest.mark.parametrize("report", ["", "report.json"])
def test_the_action_on_names_that_are_commands(tmp_path: Path, github: dict[str, str], report: str) -> None:
    """Neither the log nor the summary of the job obeys a file's name or an operator's."""
    graph = "g (float[2] x) => (float[2] y) { h = Hardmax(x) y = com.acme.Foreign(h) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13, "com.acme": 1]> {graph}')
    model.graph.node[0].name = f"::error::{HOSTILE}"
    model.graph.node[1].op_type = f"```\n# owned\n::error::{HOSTILE}"
    model.graph.node[1].domain = model.opset_import[1].domain = "``` ::error::"
    for name, opset, status in (("::warning::a.onnx", "11", 0), ("##[error]b.onnx", "8", 0), ("::no.onnx", "11", 2)):
        if status == 0:
            (tmp_path / name).write_bytes(model.SerializeToString())
        for file in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
            Path(github[file]).unlink(missing_ok=True)
        given = {"model": name, "output": f"::{name}", "opset": opset, "arguments": "--no-verify -v", "report": report}
        done, said = step(CONVERT, tmp_path, github, given)
        assert done == status, said
        assert not re.search(r"^\s*::|##\[", said, re.MULTILINE), said
        summary = read(github, "GITHUB_STEP_SUMMARY")
        assert not re.search(r"##\[", summary)
        if report:  # the log, as indented code
            assert all(not line or line.startswith("    ") for line in summary.splitlines()), summary
        else:
            assert not re.search(r"^ {0,3}(```|# )", summary, re.MULTILINE), summary
        assert read(github, "GITHUB_OUTPUT") == ("" if status else "verdict=not verified\n")


def pins() -> dict[str, str]:
    """Return the versions that the action installs, by package."""
    lines = (ROOT / ".ci" / "action-constraints.txt").read_text(encoding="utf-8").splitlines()
    entries = [re.fullmatch(r"([a-z0-9-]+)==([0-9.]+)", line) for line in lines if line[:1] != "#"]
    assert all(entries)
    found = {entry[1]: entry[2] for entry in entries if entry}
    assert list(found) == sorted(found)
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_action_installs_versions_that_pyproject_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = [
        *project["project"]["dependencies"],
        *extras["verify"],
        *extras["report"],
        *project["build-system"]["requires"],
    ]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pins()[canonical(requirement.name)]), requirement
    (install,) = (step["run"] for step in steps() if step["name"] == "Install opshift")
    assert install.count("pip install") == 1
    assert '--constraint "$SOURCE/.ci/action-constraints.txt"' in install
    assert "--no-build-isolation" in install  # else what builds it would be of any version


def test_the_action_pins_all_that_is_installed() -> None:
    """Also what a package needs that opshift needs, on every system."""
    wanted, waiting = {"setuptools"}, [Requirement("opshift[report,verify]")]
    while waiting:
        one = waiting.pop()
        for text in importlib.metadata.distribution(one.name).requires or []:
            needed = Requirement(text)
            extras = [{"extra": extra} for extra in (*one.extras, "")]
            if needed.marker is not None and not any(map(needed.marker.evaluate, extras)):
                continue
            if canonical(needed.name) not in wanted:
                wanted.add(canonical(needed.name))
                waiting.append(needed)
            assert needed.specifier.contains(pins()[canonical(needed.name)]), (one.name, text)
    assert set(pins()) == wanted


@posix
def test_the_action_installs_opshift(tmp_path: Path, github: dict[str, str]) -> None:
    status, said = step(INSTALL, tmp_path, github, {})
    assert status == 0, said
    (scripts,) = read(github, "GITHUB_PATH").split()
    done = subprocess.run([f"{scripts}/opshift", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("opshift ")
    listed = subprocess.run(
        [f"{scripts}/python", "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    )
    have = dict(line.split("==") for line in listed.stdout.splitlines())
    have = {canonical(name): version for name, version in have.items()}
    assert {name: version for name, version in have.items() if name not in ("opshift", "pip")} == pins()
