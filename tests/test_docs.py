"""The documents say what is so: generated pages are current, links lead somewhere, every refusal is explained."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from onnx import defs

from opshift.opsets.registry.no_conversion import no_conversions
from opshift.opsets.registry.operator import known_operators
from opshift.passes.base.plan import Code

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def generator() -> ModuleType:
    """docs/generate.py, as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    sys.path.insert(0, str(ROOT / "docs"))
    spec.loader.exec_module(module)
    sys.path.remove(str(ROOT / "docs"))
    return module


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_operators_page_is_current() -> None:
    """`python docs/generate.py` mends this."""
    generate = generator()
    difference = generate.outdated(generate.DOCUMENT, generate.operators_page())
    assert not difference, "".join(difference)


def test_the_pictures_are_current() -> None:
    """`python docs/generate.py` mends this."""
    generate = generator()
    for path, draw in generate.pictures.PICTURES.items():
        difference = generate.outdated(path, draw())
        assert not difference, "".join(difference)


@pytest.mark.slow
def test_compiled_bodies_are_current() -> None:
    """`python docs/generate.py` mends this."""
    generate = generator()
    difference = generate.outdated(generate.BODIES, generate.bodies_file())
    assert not difference, "".join(difference)


def test_operators_page_has_every_operator_and_lowering() -> None:
    page = text_of("docs/operators.md")
    for operator in known_operators():
        heading = f"{operator.domain}::{operator.name}" if operator.domain else operator.name
        assert f"\n## {heading}\n" in page
        for lowering in operator.lowerings:
            assert f"| `{lowering.name}`" in page
            assert lowering.summary


def test_what_has_no_conversion_is_printed_with_its_reason() -> None:
    page = generator().operators_page()
    _, _, printed = page.partition("## No exact conversion\n")
    for name, entries in no_conversions().items():
        for entry in entries:
            where = f"below {entry.below}" if entry.versions is None else "between {} and {}".format(*entry.versions)
            assert f"| {name} | {where} | {entry.reason} |\n" in printed


def test_reasons_are_read_off_the_source() -> None:
    generate = generator()
    operators = {operator.name: operator for operator in known_operators()}
    argmin, argmax = operators["ArgMin"], operators["ArgMax"]
    (old,) = (version for version in argmin.versions if version.since == 1)
    assert "select_last_index is not 0" in list(generate.version_limits(argmin, old))
    squeezed = next(lowering for lowering in argmax.lowerings if lowering.name == "squeezed")
    assert list(generate.reasons(squeezed.applies_if)) == ["the axis is kept"]


@pytest.mark.fast(1000)
@pytest.mark.parametrize("code", Code)
def test_every_refusal_is_explained(code: Code) -> None:
    assert f"`{code}`" in text_of("docs/limits.md")


def test_limits_name_no_code_that_is_gone() -> None:
    found = set(re.findall(r"^## `([a-z-]+)`", text_of("docs/limits.md"), re.MULTILINE))
    assert found == {str(code) for code in Code}


MADE = ("reference/command-line.md", "reference/operators/index.md")
"""Pages that are there only where the site is built, whose links docs/build_site.py checks."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in link or link.endswith(MADE) or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """Paths in code spans, such as `opsets/operators/hardmax.py`."""
    folders = "benchmarks|cli|docs|fixtures|opsets|passes|src|tests"
    for name in re.findall(rf"`(?:python )?((?:{folders})/[\w./-]*\w)[` ]", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_operators_that_documents_name_exist() -> None:
    """`Hardmax-13` and the like in the prose are versions that ONNX has."""
    own = {"HardmaxAxes"}
    for page in PAGES:
        for name, since in re.findall(r"\b([A-Z][A-Za-z]+)-(\d+)\b", page.read_text(encoding="utf-8")):
            if defs.has(name) and name not in own:
                versions = {
                    schema.since_version for schema in defs.get_all_schemas_with_history() if schema.name == name
                }
                assert int(since) in versions, f"{page.name}: {name}-{since}"


@pytest.mark.slow
def test_generator_checks() -> None:
    """`--check` is what a reviewer runs; it fails on what is out of date, and writes nothing."""
    before = text_of("docs/operators.md")
    pages = [
        ROOT / "docs" / "operators.md",
        ROOT / "docs" / "verification.md",
        ROOT / "opsets" / "data" / "bodies.onnxtxt",
    ]
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check", *pages], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert text_of("docs/operators.md") == before


# --- pages to learn from ----------------------------------------------------------------------------------------------

GUIDES = generator().GUIDES
posix = pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="the commands are for bash")


@posix
@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_does_what_it_shows(page: Path) -> None:
    """`python docs/generate.py docs/...` mends this. The corpus has what the pages need."""
    generate = generator()
    text = page.read_text(encoding="utf-8")
    asked = os.environ.get("CI") == "true" or os.environ.get("OPSHIFT_CORPUS") == "1"
    if (missing := generate.missing(text)) and not asked:
        pytest.skip(f"not installed: {', '.join(missing)}")
    difference = generate.outdated(page, generate.refreshed(text))
    assert not difference, "".join(difference)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_what_a_guide_does_not_run_is_little(page: Path) -> None:
    """Blocks of kind `sh` install something, write elsewhere, need the network or take long; else it is `console`."""
    completion = r"(mkdir -p ~/.zfunc && )?opshift completion \w+ > "
    command = r"opshift (convert (exported/|model\.onnx )|targets --measure |where )"
    allowed = rf"pip install |optimum-cli |{command}|{completion}"
    for block in generator().blocks(page.read_text(encoding="utf-8")):
        assert block.kind in ("console", "python", "text", "sh", "toml", "yaml"), block.kind
        if block.kind in ("toml", "yaml"):
            assert generator().FILE.match(block.body)
        if block.kind == "sh":
            assert all(re.match(allowed, line) for line in block.body.splitlines()), block.body


def test_a_page_runs_in_order(tmp_path: Path) -> None:
    page = """\
```toml
# here/mine.toml
name = "mine"
```

```python
number = 6 * 7
```

```python
print(number, open("here/mine.toml").readline().strip())
```

```text
```

```console
$ cat here/mine.toml | tail -n 1; false
$ echo "$NO_COLOR"
old
```
"""
    made = generator().refreshed(page)
    assert "```text\n42 # here/mine.toml\n```" in made
    assert 'tail -n 1; false\nname = "mine"\n(exit status 1)\n$ echo "$NO_COLOR"\n1\n```' in made
    assert "old" not in made
    assert generator().refreshed(made) == made


def test_what_python_prints_must_be_shown() -> None:
    with pytest.raises(ValueError, match="no block of kind text follows"):
        generator().refreshed("```python\nprint(1)\n```\n\n```console\n$ true\n```\n")


def test_a_page_tells_what_it_needs() -> None:
    assert generator().missing("# A page\n\n<!-- needs: sys no_such_package -->\n") == ["no_such_package"]
    assert generator().missing("# A page\n") == []


def test_the_reference_has_every_public_name() -> None:
    import opshift

    page = text_of("docs/reference/python.md")
    for name in opshift.__all__:
        assert re.search(rf"^\.\. auto\w+:: opshift\.{name}$", page, re.MULTILINE), name
