"""The skeleton of an operator: formatted and typed as all files are; its tests fail for want of an oracle alone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import new_operator
import pytest
from extras import need

from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.schema import NEWEST, schema_at
from opshift.opsets.registry.schema_only_traits import SCHEMA_ONLY

ROOT = Path(__file__).parents[1]
CONFIGURATION = str(ROOT / "pyproject.toml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the table of traits, in which there is no operator."""
    (tmp_path / new_operator.TABLE).parent.mkdir(parents=True)
    shutil.copy(ROOT / new_operator.TABLE, tmp_path / new_operator.TABLE)
    return tmp_path


def tool(*arguments: object, at: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)


def result_of_tests(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of the skeleton, with its operator beside those of the package."""
    (root / "conftest.py").write_text(
        "import operators, opshift.opsets.operators as package\n"
        f"package.__path__.append({str(root / 'opsets' / 'operators')!r})\n"
        "from operators.conftest import *\n",
        encoding="utf-8",
    )
    where = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir=."]
    return subprocess.run(
        [*command, "tests/operators"],
        cwd=root,
        env={**os.environ, **where},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_skeleton_is_whole_but_for_what_the_author_fills_in(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new_operator.main(["Softsign", "--root", str(root)]) == 0
    steps = capsys.readouterr().out
    assert [int(number) for number in re.findall(r"^(\d)\.", steps, re.MULTILINE)] == [2, 3, 4, 5, 6]
    operator, table = root / "opsets" / "operators" / "softsign.py", root / new_operator.TABLE
    test = root / "tests" / "operators" / "test_softsign.py"
    for command in (["check", operator, table], ["check", "--ignore", "D1", test], ["format", "--check", root]):
        done = tool("ruff", *command, "--config", CONFIGURATION)
        assert done.returncode == 0, done.stdout
    text = operator.read_text(encoding="utf-8")
    assert "traits=Traits(inverse=lambda value: (value / (1 - abs(value)),))" in text
    assert '"Softsign"' not in table.read_text(encoding="utf-8")

    done = result_of_tests(root)
    assert done.returncode == 1, done.stdout + done.stderr
    errors = {
        line.removeprefix("E").strip()
        for line in done.stdout.splitlines()
        if line.startswith("E  ") and "Error" in line
    }
    assert errors == {"NotImplementedError: write the oracle of Softsign"}, done.stdout
    missing = 'raise NotImplementedError("write the oracle of Softsign")'
    filled = text.replace(missing, "return input_ / (1 + np.abs(input_))")
    assert filled != text
    operator.write_text(filled, encoding="utf-8")
    done = result_of_tests(root)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_skeleton_is_typed(root: Path) -> None:
    need("mypy")
    assert new_operator.main(["Softsign", "--root", str(root)]) == 0
    done = tool("mypy", "--strict", root / "opsets" / "operators" / "softsign.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", [name for name in SCHEMA_ONLY if schema_at("", name, NEWEST)][::6])
def test_a_skeleton_has_the_attributes_and_inputs_of_the_schema(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_operator.main([name, "--root", str(root)])
    path = root / "opsets" / "operators" / f"{name.lower()}.py"
    done = tool("ruff", "check", "--config", CONFIGURATION, path, root / new_operator.TABLE)
    assert done.returncode == 0, done.stdout
    schema = schema_at("", name, NEWEST)
    assert schema is not None
    spec = importlib.util.spec_from_file_location(f"skeleton_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    operator = module.OPERATOR
    assert operator.operands == tuple(parameter.name for parameter in schema.inputs)
    if schema.attributes:
        assert set(operator.meaning.__dataclass_fields__) == set(schema.attributes)
    assert repr(operator.traits).split(" at 0x")[0] == repr(traits(name)).split(" at 0x")[0]


@pytest.mark.parametrize("name", ["Hardmax", "NoSuchOperator"])
def test_an_operator_with_a_file_or_none_at_all_is_refused(root: Path, name: str) -> None:
    (root / "opsets" / "operators").mkdir()
    (root / "opsets" / "operators" / "hardmax.py").touch()
    with pytest.raises(SystemExit):
        new_operator.main([name, "--root", str(root)])
    assert (root / new_operator.TABLE).read_text(encoding="utf-8").count('"') > len(SCHEMA_ONLY)
