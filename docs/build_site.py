"""Build the documentation as a site, and check it: warnings are errors, and so are links that lead nowhere.

`python docs/build_site.py OUT` needs the extra `docs`. The pages of this folder are taken as they are; those of the
operators and of the command line are made of the operators' files and of the argument parsers. Nothing is fetched: of
links to other sites only the form is checked.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import reference_pages

from opshift.cli.reports.html import TEMPLATES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository's root that become pages of the site, with the names of the pages."""
SCRIPTS = ("build_site.py", "generate.py", "pictures.py", "reference_pages.py")
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
"""The attributes whose targets a browser loads without a click."""


def gather(folder: Path) -> None:
    """Copy the input of sphinx into a folder."""
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("__pycache__", *SCRIPTS))
    for name, page in BESIDE.items():
        (folder / page).write_text(as_page((ROOT / name).read_text(encoding="utf-8")), encoding="utf-8")
    for path in folder.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        up = "../" * len(path.relative_to(folder).parts)
        path.write_text(linked(text, up, up.removesuffix("../")), encoding="utf-8")
    shutil.copy(TEMPLATES / "drawing.css", folder / "_static")
    for name, text in reference_pages.pages().items():
        path = folder / "reference" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def as_page(text: str) -> str:
    """Return a page of the root with its links changed for a page one folder below."""
    return linked(text, "", "").replace("](docs/", "](")


def linked(text: str, before: str, after: str) -> str:
    """Return a text whose links to files outside of docs/ lead to their pages; the folders are relative to the text."""
    for name, page in BESIDE.items():
        text = re.sub(rf"\]\({re.escape(before + name)}(?=[)#])", f"]({after}{page}", text)
    return text


# --- links ------------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """The links of a page, the files that a browser loads with it, and its anchors."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note the links and anchors of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])


def faults(site: Path) -> Iterator[str]:
    """Yield the faults of the links of a site."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        place = path.relative_to(site).as_posix()
        for link in dict.fromkeys([*page.links, *page.loads]):
            if why := _fault(link, path, site, pages, fetched=link in page.loads):
                yield f"{place}: {link}: {why}"
    for path in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"@import\s+[\"']?([^\"';)]+)|url\(\s*[\"']?([^\"')]+)", text):
            if re.match(r"(https?:)?//", "".join(link)):
                yield f"{path.relative_to(site).as_posix()}: {''.join(link)}: is loaded from another site"


def _fault(link: str, path: Path, site: Path, pages: dict[Path, Links], *, fetched: bool) -> str:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return ""
    if parts.scheme or parts.netloc:
        if fetched:
            return "is loaded from another site"
        well_formed = parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)
        return "" if well_formed and not re.search(r"\s", link) else "is no link to another site, https://name/..."
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site) or not target.is_file():
        return "there is no such file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in pages[target].anchors:
        return "there is no such place on that page"
    return ""


# --- all --------------------------------------------------------------------------------------------------------------


def build(out: Path) -> list[str]:
    """Build the site into a folder, and return its faults."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        gather(source)
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html"]
        done = subprocess.run([*command, "-d", f"{folder}/trees", source, out], check=False)
    wrong = ["sphinx warns of something"] * bool(done.returncode)
    return [*wrong, *faults(out.resolve())]


def main(arguments: Iterable[str] | None = None) -> int:
    """Build the site and print its faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="?", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if wrong := build(options.out):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    print(f"{options.out / 'index.html'}: written, with {len(list(options.out.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
