"""The pictures of the documentation: rewrites as in reports, and the layers of the code."""

from __future__ import annotations

import ast
import functools
import html
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import opshift
from opshift.cli.reports.diagram import drawing
from opshift.cli.reports.html import TEMPLATES, svg
from opshift.passes.base.plan import Action

ROOT = Path(__file__).resolve().parents[1]
PAPER = ".paper { fill: var(--paper); }"


def rewrite() -> str:
    """Return the drawing of Hardmax of the README's first example."""
    return drawn(ROOT / "fixtures" / "all-three-opset13.onnxtxt", opset=11)


def drawn(model: Path, **request: Any) -> str:
    """Return the drawing of a model's rewrite, as in a report, as a separate file."""
    plan = opshift.plan(model, **request)
    (kind,) = (kind for kind in plan.rewrites() if kind.action is Action.LOWER)
    style = [*_colours(), _read("drawing.css"), PAPER]
    sides = [(drawing(side), svg(side, "")) for side in (kind.before, kind.after)]
    gap, margin = 70, 24
    height = max(one.height for one, _ in sides) + 2 * margin
    width = sum(one.width for one, _ in sides) + gap + 2 * margin
    parts, left = [], float(margin)
    for one, shown in sides:
        (inside,) = re.findall(r"<svg[^>]*>(.*)</svg>", shown, re.DOTALL)
        top = (height - one.height) / 2
        box = f'x="{left:g}" y="{top:g}" width="{one.width:g}" height="{one.height:g}"'
        parts.append(f"<svg {box}>{inside}</svg>")
        left += one.width + gap
    start, end, middle = margin + sides[0][0].width + 12, margin + sides[0][0].width + gap - 12, height / 2
    parts.append(f'<path class="line" d="M{start:g} {middle:g} H{end - 7:g}"/>')
    parts.append(
        f'<polygon class="head" points="{end:g},{middle:g} {end - 9:g},{middle - 5:g} {end - 9:g},{middle + 5:g}"/>'
    )
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        f"<title id='title'>How a report draws a rewrite: {kind.operator} becomes {', '.join(kind.becomes)}</title>",
        f"<style>\n{chr(10).join(part.strip() for part in style)}\n</style>",
        f'<rect class="paper" width="{width:g}" height="{height:g}" rx="10"/>',
        f'<g class="canvas">{chr(10).join(parts)}</g>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _colours() -> list[str]:
    """Return the colours of reports, light and dark."""
    return re.findall(r"^:root \{.*?^\}|^@media \(prefers-color-scheme.*?^\}", _read("page.css"), re.M | re.S)


# --- the layers -------------------------------------------------------------------------------------------------------

WIDTH, ROW, GAP, MARGIN, NAME = 860, 28, 6, 16, 110
"""Pixels in the picture of the layers: its width, the height of a box, the gap, the margin, and the names."""

WORDS = """
text { fill: var(--ink); font: 13px var(--mono); } .about { fill: var(--soft); font-size: 11px; }
.layer { fill: var(--node); stroke: var(--node-line); } .group { fill: var(--raised); stroke: var(--line); }"""


def layers() -> str:
    """Return the layers of import-linter's contracts in pyproject.toml, from top to bottom, with their descriptions."""
    parts, top = [], float(MARGIN)
    for package, rows in _contracts():
        height = len(rows) * (ROW + GAP) + GAP
        parts.append(_box("group", MARGIN, top, WIDTH - 2 * MARGIN, height))
        parts.append(_text("name", 2 * MARGIN, top + height / 2, package.partition(".")[2]))
        for place, names in enumerate(rows):
            parts += _row(package, names, top + GAP + place * (ROW + GAP))
        top += height + GAP
    size = f'viewBox="0 0 {WIDTH} {top + GAP:g}" width="{WIDTH}" height="{top + GAP:g}"'
    style = "\n".join([*_colours(), PAPER, WORDS.strip()])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        "<title id='title'>The layers of opshift: each imports from those below it only</title>",
        f"<style>\n{style}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{top + GAP:g}" rx="10"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _contracts() -> list[tuple[str, list[list[str]]]]:
    """Return the packages from top to bottom, with the rows of the modules in each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    whole, *others = project["tool"]["importlinter"]["contracts"]
    layers_of = {one["containers"][0]: one["layers"] for one in others if "containers" in one}
    return [(package, [row.split(" | ") for row in layers_of[package]]) for package in whole["layers"]]


def _row(package: str, names: Sequence[str], top: float) -> Iterator[str]:
    """Yield the boxes of independent modules, side by side."""
    width = (WIDTH - 3 * MARGIN - NAME - GAP * (len(names) - 1)) / len(names)
    for place, name in enumerate(names):
        left = MARGIN + NAME + place * (width + GAP)
        yield _box("layer", left, top, width, ROW)
        yield _text("name", left + 10, top + ROW / 2, name)
        start = max(130, 8 * len(name) + 24) if len(names) == 1 else 8 * len(name) + 24
        yield _text("about", left + start, top + ROW / 2, _about(package, name, int((width - start) / 6.7)))


def _about(package: str, name: str, room: int) -> str:
    """Return the first line of a module's docstring, cut to the available width."""
    path = ROOT / package.partition(".")[2] / name
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    line = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].rstrip(".").replace("`", "")
    return line if len(line) <= room else f"{line[: room - 3].rsplit(' ', 1)[0].rstrip(',:;')} ..."


def _box(kind: str, left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="5"/>'


def _text(kind: str, left: float, middle: float, words: str) -> str:
    return f'<text class="{kind}" x="{left:g}" y="{middle:g}" dominant-baseline="middle">{html.escape(words)}</text>'


GALLERY = {
    "winner": "opencv-4",
    "blurred": "opencv-4",
    "framed": "opencv-4",
    "clipped": "opencv-4",
    "pooled": "mnn",
    "looked-up": "mnn",
    "written": "mnn",
    "wide-winner": "openvino",
    "batch-first": "onnxruntime",
    "precise": "onnxruntime",
}
"""The models of docs/gallery, and the targets that they are converted for."""

PICTURES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "rewrite.svg": rewrite,
    ROOT / "docs" / "layers.svg": layers,
    **{
        ROOT / "docs" / "gallery" / f"{name}.svg": functools.partial(
            drawn, ROOT / "docs" / "gallery" / f"{name}.onnxtxt", target=target
        )
        for name, target in GALLERY.items()
    },
}
"""The function that draws each picture."""
