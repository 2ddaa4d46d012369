"""The documents as a site: a warning fails, links are checked, and each operator has a page with its lowerings drawn.

It needs the extra `docs`. The whole site is built by .ci/checks.py.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from test_docs import ROOT

from opshift.cli.main import COMMANDS, build
from opshift.opsets.registry.no_conversion import no_conversions
from opshift.opsets.registry.operator import known_operators

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """docs/build_site.py, as a module."""
    if os.environ.get("OPSHIFT_DOCS") != "1":
        for name in ("sphinx", "furo", "myst_parser"):
            pytest.importorskip(name)
    sys.path.insert(0, str(ROOT / "docs"))
    return importlib.import_module("build_site")


@pytest.fixture(scope="module")
def pages(builder: ModuleType) -> Mapping[str, str]:
    made: Mapping[str, str] = builder.reference_pages.pages()
    return made


# --- pages that are made ----------------------------------------------------------------------------------------------


def test_each_operator_has_a_page(pages: Mapping[str, str]) -> None:
    for operator in known_operators():
        page = pages[f"operators/{operator.name}.md"]
        for version in operator.versions:
            assert re.search(rf"^\| {version.since} \| ", page, re.MULTILINE)
        if operator.means is not None:
            assert f"]({operator.means.name}.md)" in page
            continue
        for lowering in operator.lowerings:
            assert f"\n### `{lowering.name}`\n" in page
        for entry in no_conversions().get(operator.name, ()):
            assert entry.reason in page


UNDRAWN: frozenset[str] = frozenset()
"""Lowerings of which no case of a table is small enough to draw, as `Operator.lowering`."""


def test_each_lowering_is_drawn(pages: Mapping[str, str]) -> None:
    undrawn = set()
    for operator in known_operators():
        _, *sections = re.split(r"^### `(\w+)`$", pages[f"operators/{operator.name}.md"], flags=re.MULTILINE)
        for name, text in zip(sections[::2], sections[1::2], strict=True):
            if text.count("<svg ") != 2:
                undrawn.add(f"{operator.name}.{name}")
    assert undrawn == UNDRAWN


def test_a_drawing_shows_what_the_lowering_writes(pages: Mapping[str, str]) -> None:
    """TopK and then Squeeze is what the simplest lowering of ArgMax is, without and with the axis kept."""
    page = pages["operators/ArgMax.md"]
    section = page.partition("### `topk`\n")[2].partition("\n### ")[0]
    assert re.findall(r'class="first">(\w+-\d+)<', section) == ["ArgMax-13", "TopK-11"]


def test_every_option_is_on_the_page_of_commands(pages: Mapping[str, str]) -> None:
    (commands,) = (action.choices for action in build()._actions if isinstance(action.choices, dict))
    assert list(commands) == list(COMMANDS)
    for name, parser in commands.items():
        section = pages["command-line.md"].partition(f"\n## opshift {name}\n")[2].partition("\n## ")[0]
        for option in parser._option_string_actions:
            assert f"`{option}`" in section


# --- links ------------------------------------------------------------------------------------------------------------

PAGE = '<html><body id="top"><h1 id="here">x</h1>{}</body></html>'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<a href="other.html">', ""),
        ('<a href="other.html#here">', ""),
        ('<a href="#top">', ""),
        ('<a href="https://onnx.ai/onnx/operators/">', ""),
        ('<img src="data:image/png;base64,AA">', ""),
        ('<a href="missing.html">', "no such file"),
        ('<a href="other.html#there">', "no such place"),
        ('<a href="#there">', "no such place"),
        ('<a href="../outside.html">', "no such file"),
        ('<a href="http://onnx.ai/">', "no link to another site"),
        ('<a href="https://onnx/">', "no link to another site"),
        ('<a href="https://onnx.ai/two words">', "no link to another site"),
        ('<script src="https://cdn.example.com/x.js">', "loaded from another site"),
        ('<link href="//cdn.example.com/x.css">', "loaded from another site"),
        ('<img src="missing.png">', "no such file"),
    ],
)
def test_links_are_checked(body: str, why: str, builder: ModuleType, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "outside.html").write_text(PAGE)
    (site / "index.html").write_text(PAGE.format(body))
    (site / "other.html").write_text(PAGE.format(""))
    found = list(builder.faults(site))
    assert len(found) == bool(why)
    assert all(why in line and line.startswith("index.html: ") for line in found)


def test_styles_load_nothing_from_elsewhere(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("/* https://example.com */ a { background: url(data:image/png;base64,AA) }")
    assert list(builder.faults(tmp_path)) == []
    (tmp_path / "b.css").write_text("@import 'https://fonts.example.com/x'; b { src: url(//cdn.example.com/f.woff) }")
    assert len(list(builder.faults(tmp_path))) == 2


# --- the build --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents in the place of docs/, with one page."""
    docs = tmp_path / "docs"
    (docs / "_static").mkdir(parents=True)
    for name in ("conf.py", "_static/site.css"):
        (docs / name).write_text((ROOT / "docs" / name).read_text(encoding="utf-8"), encoding="utf-8")
    toctree = "```{toctree}\nchangelog\ncontributing\nreference/one\n```\n"
    (docs / "index.md").write_text(f"# Small\n\n## Part\n\n[there](#part), [one](reference/one.md#deep)\n\n{toctree}")
    monkeypatch.setattr(builder, "DOCS", docs)
    monkeypatch.setattr(builder, "as_page", lambda text: "# A page of the root\n")
    monkeypatch.setattr(builder.reference_pages, "pages", lambda: {"one.md": "# One\n\n## Deep\n"})
    return docs


def test_a_site_is_built(builder: ModuleType, small: Path, tmp_path: Path) -> None:
    assert builder.main([str(tmp_path / "out")]) == 0
    assert "Small" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "_static" / "drawing.css").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x](#nowhere)", "nowhere"),
        ("[x](missing.md)", "missing"),
        ("[x](reference/one.md#shallow)", "shallow"),
        ("```{eval-rst}\n.. autofunction:: opshift.no_such\n```", "no_such"),
        ("[x](http://plain.example.com/)", "no link to another site"),
    ],
)
def test_what_is_wrong_fails_the_build(
    text: str, said: str, builder: ModuleType, small: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (small / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{text}\n")
    assert builder.main([str(tmp_path / "out")]) == 1
    assert said in capfd.readouterr().err


def test_pages_of_the_root_are_linked_as_they_lie_in_the_site(builder: ModuleType) -> None:
    made: Any = builder.as_page("[a](docs/limits.md) [b](CHANGELOG.md) [c](CONTRIBUTING.md#setting-up)")
    assert made == "[a](limits.md) [b](changelog.md) [c](contributing.md#setting-up)"
