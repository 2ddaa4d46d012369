"""The tiers of tests, and the parts of the slow one: together they leave out none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = """
import pytest

def test_alone(): pass

@pytest.mark.slow
def test_long(): pass

@pytest.mark.parametrize("number", range(6))
def test_few(number): pass

@pytest.mark.fast(2)
@pytest.mark.parametrize("number", range(30))
def test_many(number): pass
"""


def collected(folder: Path, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    if done.returncode == pytest.ExitCode.USAGE_ERROR:
        raise ValueError(done.stderr)
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: x\n    fast(cases): x\n")
    return tmp_path


def test_each_function_but_the_slow_ones_is_in_the_fast_tier(folder: Path) -> None:
    fast = collected(folder, "-m", "not slow")
    assert fast == ["test_alone", "test_few[0]", "test_many[0]", "test_many[15]"]


@pytest.mark.slow
def test_the_parts_together_are_all_slow_cases(folder: Path) -> None:
    whole = collected(folder, "-m", "slow")
    parts = [collected(folder, "-m", "slow", f"--part={number}/3") for number in (1, 2, 3)]
    assert len(whole) == 1 + 5 + 28
    assert set().union(*parts) == set(whole)
    assert sum(len(part) for part in parts) == len(whole)
    assert min(len(part) for part in parts) > 5


@pytest.mark.slow
def test_a_test_that_is_added_moves_no_other_to_another_part(folder: Path) -> None:
    before = set(collected(folder, "-m", "slow", "--part=1/3"))
    sample = folder / "test_sample.py"
    more = "@pytest.mark.parametrize('number', range(9))\ndef test_more(number): pass\n"
    sample.write_text(sample.read_text().replace("import pytest\n", f"import pytest\n\n{more}", 1))
    after = set(collected(folder, "-m", "slow", "--part=1/3"))
    assert before < after
    assert all(name.startswith("test_more") for name in after - before)


@pytest.mark.parametrize("part", ["0/3", "4/3", "2", "x", "1/0"])
def test_a_part_that_is_none_is_refused(folder: Path, part: str) -> None:
    with pytest.raises(ValueError, match="--part is K/N"):
        collected(folder, f"--part={part}")
