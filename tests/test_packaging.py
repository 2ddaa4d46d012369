"""What is built and installed: the whole package, nothing else, and it works from any folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from extras import need

import opshift

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: dict[str, str] = {
    "opshift": "src/opshift",
    "opshift.passes": "passes",
    "opshift.opsets": "opsets",
    "opshift.cli": "cli",
}
"""Where the packages are; those inside these follow from their folders."""
DATA = (".css", ".html", ".js", ".json", ".onnxtxt", ".toml", ".typed")


def folders() -> dict[str, Path]:
    """Every package by its name, found by its `__init__.py`."""
    found: dict[str, Path] = {}
    for name, place in PACKAGES.items():
        for init in sorted((ROOT / place).rglob("__init__.py")):
            inside = init.parent.relative_to(ROOT / place).parts
            found[".".join([name, *inside])] = init.parent
    return found


def sources() -> dict[str, Path]:
    """Every file that belongs into a wheel, by its place there."""
    return {
        f"{package.replace('.', '/')}/{file.relative_to(folder).as_posix()}": file
        for package, folder in folders().items()
        for file in folder.rglob("*")
        if (file.suffix in DATA or (file.suffix == ".py" and file.parent == folder)) and file.is_file()
    }


def python(arguments: Sequence[str], cwd: Path, **environment: str) -> str:
    """Run this Python elsewhere; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made of that sdist."""
    need("build")
    folder = tmp_path_factory.mktemp("built")
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "*.egg-info", "build", "__pycache__")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    python(["-m", "build", "--outdir", str(folder), str(checkout)], folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(only(built, "*.whl"))


@pytest.fixture(scope="module")
def installed(built: Path) -> Path:
    """A folder with the wheel in it, apart from its requirements."""
    target = built / "installed"
    place = str(only(built, "*.whl"))
    python(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), place], built)
    return target


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_every_package_is_listed() -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(folders())
    assert setuptools["package-dir"] == PACKAGES


def test_every_folder_of_modules_is_a_package() -> None:
    """A folder without `__init__.py` would be left out of the wheel without a word."""
    for place in PACKAGES.values():
        for module in (ROOT / place).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_no_folder_shadows_the_package() -> None:
    assert not (ROOT / "opshift").exists()
    assert not (ROOT / "__init__.py").exists()


def test_versions_agree() -> None:
    text = (ROOT / "src/opshift/__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{PROJECT["project"]["version"]}"' in text
    assert f"## [{PROJECT['project']['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.endswith("/")}
    assert {name for name in names if ".dist-info/" not in name} == set(sources())
    for name, file in sources().items():
        assert wheel.read(name) == file.read_bytes(), name


def test_wheel_has_what_the_package_reads() -> None:
    names = set(sources())
    for name in (
        "opshift/py.typed",
        "opshift/opsets/data/bodies.onnxtxt",
        "opshift/opsets/registry/equivalences.toml",
        "opshift/opsets/targets/opencv-4.toml",
        "opshift/opsets/operators/hardmax.py",
        "opshift/opsets/operators/argmax.py",
        "opshift/opsets/operators/onehot.py",
        "opshift/cli/main.py",
        "opshift/cli/reports/templates/page.html",
    ):
        assert name in names


def test_metadata(wheel: zipfile.ZipFile) -> None:
    found = metadata(wheel)
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert set(found.get_all("Provides-Extra", [])) == {
        "verify",
        "report",
        "dev",
        "ci",
        "browser",
        "corpus",
        "docs",
        "runtimes",
    }
    needed = [line for line in found.get_all("Requires-Dist", []) if "extra" not in line]
    assert not any(line.startswith("onnxruntime") for line in needed), "it comes with the extra `verify`"
    assert "# opshift" in str(found.get_payload())
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    (entries,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert "opshift = opshift.cli.main:main" in wheel.read(entries).decode()


def test_sdist_can_be_tested(built: Path) -> None:
    """It has what the tests and the documents need beside the package."""
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [".ci/run", ".ci/checks.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs/generate.py"]
    wanted.append("docs/report.schema.json")
    wanted += [file.relative_to(ROOT).as_posix() for file in (ROOT / "fixtures").glob("*.onnxtxt")]
    wanted += [file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")]
    assert set(wanted) <= names
    folders = {part for name in names for part in name.split("/")[:-1]}
    assert not [folder for folder in folders if folder.endswith(("__pycache__", "_cache"))]


def test_installed_package_works_from_another_folder(installed: Path, tmp_path: Path) -> None:
    """Not this checkout but the wheel runs, and finds its operators, tables and profiles."""
    path = {"PYTHONPATH": str(installed)}
    where = python(["-c", "import opshift; print(opshift.__file__)"], tmp_path, **path)
    assert Path(where.strip()).is_relative_to(installed)
    version = python(["-m", "opshift", "--version"], tmp_path, **path)
    assert version == f"opshift {PROJECT['project']['version']}\n"
    assert "onnxruntime" in python(["-m", "opshift", "targets"], tmp_path, **path)
    assert "HardmaxAxes" in python(["-m", "opshift", "ops"], tmp_path, **path)
    model = ROOT / "fixtures" / "all-three-opset13.onnxtxt"
    request = ["convert", str(model), "-o", "out.onnx", "--opset", "8", "--quiet"]
    assert python(["-m", "opshift", *request], tmp_path, **path).startswith("verified: outputs equal on ")
    assert (tmp_path / "out.onnx").stat().st_size > 0


# --- what documents and messages tell to install ---

INSTALLS = re.compile(r"(?:pip3?|pipx|uv pip|uv tool) install[^\n`&]*|uvx [^\n`]*|pipx run [^\n`]*")
WHERE = re.compile(
    r"(?:\./opshift|\"?\.|\$SOURCE)(?:\[[\w,]+\])?|opshift(?:\[[\w,]+\])? @ git\+https://github\.com/<owner>/opshift"
)
"""A checkout, or Git with a placeholder for the account: opshift is on no index."""


def texts() -> list[Path]:
    listed = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md")]
    return listed + [path for name in ("cli", "passes", "src") for path in (ROOT / name).rglob("*.py")]


def test_nothing_tells_to_install_opshift_from_an_index() -> None:
    found = [(path, line) for path in texts() for line in INSTALLS.findall(path.read_text(encoding="utf-8"))]
    assert len(found) > 8
    for path, line in found:
        rest = WHERE.sub(" ", line).replace("./opshift-softsign", " ")
        of_itself = rest.split(" opshift ")[0] if line.startswith("uvx") else rest
        assert "opshift" not in of_itself, f"{path}: {line}"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/howto/ci.md"])
def test_a_placeholder_of_the_repository_is_explained(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "github.com/<owner>/opshift" in text
    explained = r"account\s+that\s+(has|hosts)\s+(the|your)\s+(opshift\s+)?repository"
    assert re.search(explained, text)


def test_the_message_without_onnxruntime_installs_what_verification_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from opshift.passes.runtime import ort_models

    (needed,) = PROJECT["project"]["optional-dependencies"]["verify"]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(opshift.UsageError, match=re.escape(f"`pip install '{needed}'`")):
        ort_models.runtime.__wrapped__()
