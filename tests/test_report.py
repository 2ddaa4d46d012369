"""Reports: the same in JSON, as a page and as Markdown, whatever the verdict, and whatever the model's names are."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import onnx.parser
import pytest
from markdown_it import MarkdownIt
from reports import CASES, HOSTILE, Case, different_nodes, fixture, hostile_model, many_nodes, report

import opshift
from opshift.cli import options
from opshift.cli.main import main
from opshift.cli.reports import diagram, markdown
from opshift.cli.reports import html as page
from opshift.cli.reports.document import Stopwatch
from opshift.cli.reports.report_model import amount, report_model
from opshift.cli.terminal import plain
from opshift.passes.base.plan import Action, Code, DrawnNode, Subgraph, Value
from opshift.passes.base.report import Verdict

ROOT = Path(__file__).parent.parent
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))

MODELS = len(list((ROOT / "fixtures").glob("argmax-*.onnxtxt")))
"""Those of the case "many"."""


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Remembers the reports that were made."""
    return {}


@pytest.fixture
def read(made: dict[tuple[str, str], str], tmp_path: Path) -> Any:
    """Return a function that gives the report of a case in a format, as text."""

    def text(name: str, suffix: str) -> str:
        if (name, suffix) not in made:
            made[name, suffix] = report(CASES[name], tmp_path, suffix).read_text(encoding="utf-8")
        return made[name, suffix]

    return text


# --- JSON -------------------------------------------------------------------------------------------------------------


def closed(schema: Any) -> Any:
    """Return the schema without keys that are not listed: what is written must be documented."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(item) for key, item in schema.items()}
    if "properties" in found:
        found["additionalProperties"] = False
    return found


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "urn:opshift:report:1"


def test_a_report_fits_the_schema(case: str, read: Any) -> None:
    document = json.loads(read(case, ".json"))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    jsonschema.Draft202012Validator(closed(SCHEMA)).validate(document)
    assert document["schema"] == 1
    assert document["status"] == CASES[case].status


@pytest.mark.parametrize(
    ("arguments", "status", "kind"),
    [
        (["convert", "none.onnx", "-o", "out.onnx", "--opset", "11"], 2, "invalid-model"),
        (["verify", "none.onnx", "none.onnx"], 2, "invalid-model"),
        (["plan", "none.onnx"], 2, "usage"),
        (["convert"], 2, "usage"),
    ],
)
def test_what_is_printed_of_an_error_fits_it_too(
    arguments: list[str], status: int, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.chdir(tmp_path):
        assert main([*arguments, "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(closed(SCHEMA)).validate(document)
    assert document["error"]["kind"] == kind
    assert document.get("command", "convert") == arguments[0]


def test_lines_of_many_models_fit_their_part_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(tmp_path):
        assert main([*CASES["many"].arguments, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == MODELS
    for line in lines:
        jsonschema.Draft202012Validator(closed(SCHEMA)).validate(json.loads(line))


def test_the_schema_has_every_word_of_closed_sets() -> None:
    assert set(SCHEMA["$defs"]["refusal"]["properties"]["code"]["enum"]) == set(Code)
    assert set(SCHEMA["$defs"]["verdict"]["enum"]) == set(Verdict)
    assert set(SCHEMA["$defs"]["action"]["enum"]) == set(Action)
    assert set(SCHEMA["$defs"]["outcome"]["properties"]["outcome"]["enum"]) == set(opshift.Status)


@pytest.mark.slow
def test_every_key_of_the_schema_is_written_by_some_case(read: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that nobody writes any more must not stay in the schema unnoticed."""
    written: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            written.update(value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    for name in CASES:
        walk(json.loads(read(name, ".json")))
    capsys.readouterr()
    for arguments in (
        ["inspect", fixture("onehot-bfloat16-opset28")],
        ["where", fixture("onehot-bfloat16-opset28")],
        ["ops"],
        ["targets"],
    ):
        main([*arguments, "--json"])
        walk(json.loads(capsys.readouterr().out))
    main(["targets", "onnxruntime", "--probe", "--json"])
    walk(json.loads(capsys.readouterr().out))
    objects = [SCHEMA, *SCHEMA["$defs"].values()]
    assert {key for one in objects for key in one.get("properties", ())} <= written


@pytest.mark.parametrize("name", [name for name in CASES if name != "many" and not name.startswith("verify")])
def test_kinds_have_every_step_once(name: str, read: Any) -> None:
    plan = json.loads(read(name, ".json"))["plan"]
    steps = Counter((step["node"], step["operator"], tuple(step["lowerings"])) for step in plan["steps"])
    kinds = Counter(
        (node, kind["operator"], tuple(kind["lowerings"])) for kind in plan["kinds"] for node in kind["nodes"]
    )
    assert steps == kinds


def test_a_refusal_comes_with_what_was_read_and_planned(read: Any) -> None:
    document = json.loads(read("refused", ".json"))
    assert document["before"]["opset"] == 28
    assert document["before"]["operators"]["OneHot"]["count"] == 1
    assert document["plan"]["possible"] is False
    assert document["error"]["refusals"] == document["plan"]["refusals"]
    assert "after" not in document


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("segmenter-opset13", ("--opset", "8")),
        ("hardmax-opset13", ("--opset", "13")),
        ("hardmax-opset13", ("--opset", "13", "--ir-version", "5")),
        ("hardmax-default-opset7", ("--opset", "13")),
        ("in-function-opset13", ("--opset", "9")),
        ("in-function-opset13", ("--opset", "9", "--ir-version", "4")),
        ("classifier-opset18", ("--target", "opencv-4")),
        ("onehot-bfloat16-opset28", ("--opset", "11")),
        ("hardmax-opset13", ("--opset", "28", "--ir-version", "4")),
    ],
)
def test_a_plan_tells_what_a_conversion_makes(name: str, asked: tuple[str, ...], tmp_path: Path) -> None:
    """Constants that functions need, nodes that are copied, a late refusal: all of it, before anything is written."""

    def told(*arguments: str) -> dict[str, Any]:
        place = tmp_path / f"{arguments[0]}.json"
        with contextlib.chdir(tmp_path):
            status = main([*arguments, *asked, "--quiet", "--report", str(place)])
        document: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        assert document["status"] == status
        return document

    planned = told("plan", fixture(name))
    converted = told("convert", fixture(name), "-o", "out.onnx", "--no-verify")
    for key in ("status", "nothing_to_do", "before", "after", "left_out", "plan"):
        assert (key in planned) == (key in converted), key
        assert planned.get(key) == converted.get(key), key
    assert planned.get("error", {}).get("refusals") == converted.get("error", {}).get("refusals")


def test_a_plan_has_the_refusals_of_its_conversion() -> None:
    """That an ir_version is too old is seen only in what is written."""
    model = fixture("hardmax-opset13")
    with pytest.raises(opshift.UnsupportedError) as refused:
        opshift.convert(model, opset=28, ir_version=4, verify=False)
    plan = opshift.plan(model, opset=28, ir_version=4)
    assert [refusal.code for refusal in plan.refusals] == [Code.IR_VERSION]
    assert plan.refusals == refused.value.refusals
    assert not plan.possible


def test_a_comparison_tells_what_both_models_are_made_of(read: Any) -> None:
    document = json.loads(read("verify-equal", ".json"))
    for side, version in (("before", 12), ("after", 13)):
        model = onnx.parser.parse_model(Path(fixture(f"argmax-opset{version}")).read_text(encoding="utf-8"))
        assert document[side]["opset"] == version
        assert document[side]["size"] == len(model.SerializeToString())
        assert document[side]["operators"] == {"ArgMax": {"count": 1, "since_version": version}}


def test_a_difference_comes_with_what_was_made(read: Any) -> None:
    document = json.loads(read("different", ".json"))
    assert document["verdict"] == "different"
    assert set(document["after"]["operators"]) >= {"TopK"}
    assert document["plan"]["kinds"][0]["lowerings"][-1] == "least"
    assert document["error"]["report"]["nodes"][0]["counterexample"]["inputs"]


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    model, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model.write_bytes(onnx.parser.parse_model(Path(fixture("hardmax-opset13")).read_text()).SerializeToString())
    arguments = ("convert", str(model), "-o", str(out), "--opset", "11", "--no-verify")
    document = json.loads(report(Case(arguments), tmp_path, ".json").read_text())
    assert document["before"]["size"] == model.stat().st_size
    assert document["after"]["size"] == out.stat().st_size


def test_stages_are_timed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((10.0, 10.5, 12.0, 12.25, 14.0))
    monkeypatch.setattr("opshift.cli.reports.document.time.monotonic", lambda: next(now))
    seen: list[tuple[str, int, int]] = []
    watch = Stopwatch()
    tell = watch.beside(lambda *told: seen.append(told))
    for told in (("load", 0, 0), ("plan", 0, 2), ("plan", 1, 2), ("load", 0, 0), ("nodes", 1, 1)):
        tell(*told)
    assert watch.stages() == [
        {"stage": "load", "seconds": 0.75},
        {"stage": "plan", "seconds": 1.5},
        {"stage": "nodes", "seconds": 1.75},
    ]
    assert seen[2] == ("plan", 1, 2)


def test_the_stages_of_a_conversion(read: Any) -> None:
    stages = [timing["stage"] for timing in json.loads(read("equal", ".json"))["timings"]]
    assert stages == ["load", "plan", "lower", "verify", "nodes", "whole"]
    versions = json.loads(read("equal", ".json"))["versions"]
    assert list(versions) == ["opshift", "onnx", "onnxscript", "onnxruntime", "numpy", "python", "platform"]
    assert versions["onnx"] == onnx.__version__


# --- kinds ------------------------------------------------------------------------------------------------------------


def test_alike_nodes_are_one_kind() -> None:
    plan = opshift.plan(many_nodes(50), decompose=["Hardmax"])
    assert [len(kind.nodes) for kind in plan.kinds] == [10] * 5
    assert plan.kinds[0].before.inputs == (Value("input", "float[2,3,4]"),)
    assert plan.kinds[1].before.inputs == (Value("input", "float[2,3,5]"),)
    assert {node for kind in plan.kinds for node in kind.nodes} == {step.node for step in plan.steps}


def test_a_kind_tells_what_was_compared() -> None:
    (kind,) = opshift.plan(fixture("hardmax-opset13"), decompose=["Hardmax"]).kinds
    costs = {way.name: way.cost for way in kind.ways if way.cost is not None}
    assert costs[kind.lowerings[0]] == min(costs.values())
    assert len(costs) > 1
    barred = {way.name: way.why_not for way in kind.ways if way.cost is None}
    assert barred["ranked"] == "the rank is known"
    assert any(reason.startswith("it is valid only with --assume") for reason in barred.values())
    assert [node.operator for node in kind.after.nodes] == list(kind.becomes)
    assert kind.before.nodes == (DrawnNode("Hardmax", 13, ("axis=1",), ("input",), ("y0",)),)


def test_nodes_of_one_path_have_drawings_of_their_own() -> None:
    # A node without a name is called after its place, which may be the name of another.
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
    main (float[2,3] x, float[4] z) => (float[2,3] a, float[4] b) {
        ["Hardmax_1"] a = Hardmax<axis = 1>(x)  b = Hardmax<axis = 0>(z) }""")
    first, second = opshift.plan(model, decompose=["Hardmax"]).kinds
    assert (first.before.inputs[0].type, second.before.inputs[0].type) == ("float[2,3]", "float[4]")
    assert first.nodes == second.nodes == ("main/Hardmax_1",)


def test_a_restamped_kind_is_drawn_by_itself() -> None:
    kind = opshift.plan(fixture("segmenter-opset13"), opset=8).kinds[0]
    assert kind.action is Action.VERSION_BUMP
    assert kind.before == Subgraph(13, (), (), (DrawnNode("Conv", 11, (), (), ()),), ())
    assert kind.after == Subgraph(8, (), (), (DrawnNode("Conv", 1, (), (), ()),), ())


# --- drawings ---------------------------------------------------------------------------------------------------------


def overlap(one: diagram.Box, other: diagram.Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


@pytest.mark.parametrize("name", ["all-three-opset13", "onehot-string-opset11", "argmax-int64-opset13"])
def test_boxes_are_apart_and_within_the_drawing(name: str) -> None:
    plan = opshift.plan(fixture(name), decompose=["Hardmax", "ArgMax", "OneHot"])
    for kind in plan.kinds:
        made = diagram.drawing(kind.after)
        assert made == diagram.drawing(kind.after), "the same each time"
        for index, box in enumerate(made.boxes):
            assert 0 < box.x < box.x + box.width < made.width
            assert 0 < box.y < box.y + box.height < made.height
            assert max(map(len, box.lines)) * diagram.CHARACTER < box.width
            assert not any(overlap(box, other) for other in made.boxes[index + 1 :])
        assert [box.lines[0].rpartition("-")[0] for box in made.boxes if box.role == "node"] == list(kind.becomes)
        reads = sum(1 for node in kind.after.nodes for name in node.inputs if name)
        assert len(made.arrows) == reads + len(kind.after.outputs)


def test_which_output_is_read_is_written_at_the_arrow() -> None:
    sought = DrawnNode("TopK", 11, ("axis=1",), ("x", "k"), ("values", "index"))
    after = Subgraph(13, (Value("x"),), (Value("k", "int64[1]", "{1}"),), (sought,), ("index",))
    made = diagram.drawing(after)
    assert [arrow.label for arrow in made.arrows] == ["", "", "output 1"]
    assert [box.role for box in made.boxes] == ["input", "constant", "node", "output"]
    alone = dataclasses.replace(after, nodes=(dataclasses.replace(sought, outputs=("", "index")),))
    assert [arrow.label for arrow in diagram.drawing(alone).arrows] == ["", "", ""], "it has no other output"


def test_a_drawing_says_the_same_in_words() -> None:
    (kind,) = opshift.plan(fixture("hardmax-opset12"), opset=13).kinds
    assert diagram.text(kind.before) == ("y0 = Hardmax-11 <axis=1> (input)",)
    assert diagram.text(kind.after)[0].endswith("= Flatten-13 <axis=1> (input)")


def test_a_long_line_is_cut_off_and_a_wide_one_has_room() -> None:
    long, wide = Value("x" * 99, "float"), Value("\u540d\u524d", "float[2]")
    made = diagram.drawing(
        Subgraph(13, (long, wide), (), (DrawnNode("Add", 13, (), (long.name, wide.name), ("y",)),), ("y",))
    )
    assert len(made.boxes[0].lines[0]) == diagram.LONGEST
    assert made.boxes[1].width > made.boxes[3].width


# --- pages ------------------------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """What a browser would make of a page: elements, attributes, text; scripts and styles apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] in (["script"], ["style"]) and self.tags[-1] not in self.raw:
            self.raw[self.tags[-1]] = data
        else:
            self.texts.append(data)

    def after(self, tag: str) -> str:
        return self.texts[self.tags.index(tag)]


TAGS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body header nav div p h1 h2 h3 dl dt dd code main section ul li span strong pre "
        "table caption thead tbody tr th td details summary figure figcaption svg path polygon g rect text form "
        "label input select option output a footer script",
    )
)
ATTRIBUTES = re.compile(
    "lang|charset|http-equiv|content|name|class|id|role|tabindex|scope|type|autocomplete|spellcheck|placeholder|value|"
    "for|href|open|data-kind|aria-(label|labelledby|hidden)|width|height|viewbox|x|y|d|rx|points"
)


def test_a_page_is_made_of_what_it_should_be(case: str, read: Any) -> None:
    """No element and no attribute but those of the template, whatever the names: nothing loads, nothing runs."""
    text = read(case, ".html")
    seen = Seen(text)
    assert set(seen.tags) <= TAGS
    assert (seen.tags.count("script"), seen.tags.count("style"), seen.tags.count("h1")) == (1, 1, 1)
    ids = Counter(value for name, value in seen.attributes if name == "id")
    for name, value in seen.attributes:
        assert ATTRIBUTES.fullmatch(name), (name, value)
        assert name != "href" or (value[:1] == "#" and ids[value[1:]] == 1)
    assert "://" not in text.replace(" ".join(HOSTILE), "")
    assert all(character.isprintable() or character == "\n" for character in text)


def test_the_policy_names_the_script_and_the_style(read: Any) -> None:
    seen = Seen(read("equal", ".html"))
    policy = next(value for name, value in seen.attributes if name == "content" and "default-src" in value)
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(seen.raw[tag].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


@pytest.mark.parametrize("suffix", [".html", ".md"])
@pytest.mark.parametrize("name", ["hostile", "hostile-plan", "hostile-refused"])
def test_hostile_names_are_text(name: str, suffix: str, read: Any) -> None:
    text = read(name, suffix)
    if suffix == ".md":
        text = MarkdownIt("commonmark").enable("table").render(text).replace("<!-- -->", "")
    seen = "".join(Seen(text).texts)
    names = HOSTILE[:1] if name == "hostile-refused" else HOSTILE if suffix == ".html" else ()
    assert all(plain(f"main/{wanted}") in seen for wanted in names)
    assert "<img" not in text


VERDICTS = {
    "equal": ("good", "Verified", "Outputs equal on "),
    "lowered": ("good", "Verified", "Outputs equal on "),
    "nothing": ("good", "Nothing to do", "The model already meets the request. The two models are the same"),
    "unchecked": (
        "doubtful",
        "Not verified",
        "Verification was switched off with --no-verify. The result was written.",
    ),
    "nodes-only": ("doubtful", "Not verified", "The whole model: only the rewritten nodes were compared"),
    "different": ("bad", "Different", "1 rewritten node and the whole model compute different outputs"),
    "refused": (
        "bad",
        "Cannot be converted",
        "The model cannot be converted to opset 11: 1 refusal. Nothing was written.",
    ),
    "ancient": (
        "bad",
        "Cannot be converted",
        "The model cannot be converted to opset 5: 1 refusal. Nothing was written.",
    ),
    "plan": ("good", "Possible", "From opset 13 to 8: 1 node rewritten, 2 version bumps, 0 unchanged."),
    "plan-refused": ("bad", "Cannot be converted", "The model cannot be converted to opset 11: 1 refusal."),
    "plan-nothing": ("good", "Nothing to do", "The model already meets the request (opset 13)."),
    "verify-equal": ("good", "Verified", "Outputs equal on "),
    "verify-different": ("bad", "Different", "The whole model computes different outputs"),
    "many": ("good", f"{MODELS} of {MODELS} models written", ""),
    "hostile": ("doubtful", "Not verified", "The whole model: "),
    "hostile-refused": ("bad", "Cannot be converted", "The model cannot be converted to opset 11: 1 refusal."),
    "hostile-plan": ("good", "Possible", "From opset 13 to 13: 8 nodes rewritten, 0 version bumps, 1 unchanged."),
}


def test_the_verdict_comes_first_in_words(case: str, read: Any) -> None:
    level, title, sentence = VERDICTS[case]
    text = read(case, ".html")
    assert f'<header class="{level}">' in text
    assert re.search(r"<h\d[^>]*>([^<]*)<", text)[1] == title  # type: ignore[index]
    assert sentence in text
    lines = read(case, ".md").splitlines()
    assert lines[0] == f"### opshift {CASES[case].arguments[0]}: {title}"
    assert lines[2].replace("\\", "").startswith(sentence)


def test_operators_before_and_after(read: Any) -> None:
    """Of a plan as of a conversion, and of both models where two are compared."""

    def tables(name: str) -> tuple[list[str], list[str]]:
        text = read(name, ".html").partition('<h2 id="before">')[2].partition("</section>")[0]
        cells = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in re.findall("<tr[^>]*>(.*?)</tr>", text)]
        return [text.partition("<")[0], *cells[0][1:]], [" ".join(row) for row in cells]

    heads, rows = tables("plan")
    assert heads == ["Before and after", "Before", "After"]
    assert (heads, rows) == tables("lowered")
    assert {"opset 13 8", "ArgMax 1 (since 13) 1 (since 1)", "OneHot 1 (since 11) -"} <= {*rows}
    heads, rows = tables("verify-equal")
    assert heads == ["Both models", "Original", "Compared"]
    assert {"opset 12 13", "ir_version 7 7", "ArgMax 1 (since 12) 1 (since 13)"} <= {*rows}
    heads, rows = tables("plan-refused")
    assert heads == ["Before", "Before"]
    assert {"opset 28", "OneHot 1 (since 28)"} <= {*rows}


def test_a_row_for_every_rewritten_node(read: Any) -> None:
    rows = re.findall(r'<summary class="row">(.*?)</summary>', read("lowered", ".html"))
    cells = [re.sub("<[^>]+>", "|", row).strip("|").replace("||", "|").split("|") for row in rows]
    kind = opshift.plan(fixture("segmenter-opset13"), opset=8).kinds[-1]
    number = sum(way.cost is not None for way in kind.ways)
    assert [row[:5] for row in cells] == [
        ["main/Conv_0", "Conv-11", "Conv-1", "restamp", "same meaning"],
        ["main/ArgMax_1", "ArgMax-13", "ArgMax-1", "restamp", "same meaning"],
        ["main/OneHot_2", "OneHot-11", ", ".join(kind.becomes), kind.lowerings[0], f"cheapest of {number}"],
    ]
    assert [row[-1] for row in cells] == ["reviewed", "reviewed", "equal"]
    assert int(cells[2][5]) > 50


def test_an_alike_kind_is_drawn_once(tmp_path: Path) -> None:
    arguments = ("convert", "in.onnx", "-o", "out.onnx", "--decompose", "Hardmax", "--no-verify")
    text = report(Case(arguments, 0, lambda: many_nodes(200)), tmp_path, ".html").read_text()
    assert text.count("<svg") == 10
    names = re.findall(r'<code class="name">main/([^<]*)<', text)
    assert names == [f"layer_{index // 100}/head_{index % 100}" for index in range(200)], "as the model has them"
    assert text.count('<summary class="row">') == 200
    assert text.count('<h3><span class="times">40 &times;') == 5


@pytest.mark.slow
def test_kinds_of_most_nodes_are_drawn_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST", 100)
    made = different_nodes(40)
    kinds = made["plan"].kinds
    assert [diagram.boxes(kind.after) for kind in kinds] == [len(diagram.drawing(kind.after).boxes) for kind in kinds]
    most = dataclasses.replace(kinds[-1], nodes=kinds[-1].nodes + kinds[0].nodes)
    made["plan"] = dataclasses.replace(made["plan"], rewrites=lambda: (*kinds[1:-1], most))
    text = page.page(made)
    drawn = [int(number) for number in re.findall('id="kind-([0-9]+)"', text)]
    assert drawn[-1] == 39, "the last, of two nodes"
    assert drawn[:-1] == list(range(1, len(drawn)))
    sizes = [diagram.boxes(kind.before) + diagram.boxes(kind.after) for kind in (most, *kinds[1:])]
    assert sum(sizes[: len(drawn)]) <= 100 < sum(sizes[: len(drawn) + 1])
    assert text.count("<svg") == 2 * len(drawn)
    assert f"the {len(drawn)} of the most nodes are drawn" in text
    assert text.count("kinds that are not drawn") == 40 - len(drawn) - 1
    assert text.count('<summary class="row">') == 40


def test_a_page_needs_its_extra_before_work_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("opshift.passes.convert.convert", lambda *_, **__: pytest.fail("work has begun"))
    arguments = ["convert", fixture("hardmax-opset13"), "-o", "out.onnx", "--opset", "11", "--report"]
    assert main([*arguments, "out.html"]) == 2
    assert capsys.readouterr().err == (
        "error: --report out.html needs jinja2: install it with `pip install jinja2`, "
        "or name a file that ends in .json or .md.\n"
    )
    monkeypatch.undo()


def test_only_a_page_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else object())
    with pytest.raises(opshift.UsageError, match=r"out\.HTML needs jinja2: install"):
        options.check_report("out.HTML", ())
    options.check_report("out.md", ())


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_markdown_of_a_conversion(read: Any) -> None:
    lines = read("lowered", ".md").splitlines()
    assert "| opset | 13 | **8** |" in lines
    assert "| `OneHot` | 1 (since 11) | **-** |" in lines
    assert "| 1 | `Conv-11` | `Conv-1` | restamp | same meaning | 1 reviewed |" in lines
    assert lines[-1].startswith("opshift 0.1.0 \u00b7 onnx ")


def test_markdown_of_a_plan_and_a_comparison(read: Any) -> None:
    table = read("lowered", ".md").partition("|  | Before")[2].partition("\n\n")[0]
    assert read("plan", ".md").partition("|  | Before")[2].partition("\n\n")[0] == table
    assert "|  | Original | Compared |\n| --- | --- | --- |\n| opset | 12 | **13** |" in read("verify-equal", ".md")


def test_markdown_of_a_refusal_and_a_difference(read: Any) -> None:
    refused = read("refused", ".md")
    assert "- 1 \u00d7 `OneHot-28` (`main/OneHot_0`): its input is bfloat16" in refused
    assert "|  | Before |\n| --- | --- |\n| opset | 28 |" in refused
    different = read("different", ".md")
    assert "- the whole model: " in different
    assert re.search(r"^- `main/\w+` \(`ArgMax-13`\): ", different, re.MULTILINE)
    assert re.search(r"^  - input `data` = `\[", different, re.MULTILINE)


def rendered(text: str) -> Iterator[str]:
    yield from Seen(MarkdownIt("commonmark").enable("table").render(text)).texts


@pytest.mark.parametrize("name", [*HOSTILE, "``", "a|b", "a\\", " ", "", "*a* _b_ ~c~ https://e.com ftp://e.com a@b.c"])
def test_names_mean_nothing_to_markdown(name: str) -> None:
    for written in (markdown.code(name), markdown.text(name)):
        html = MarkdownIt("commonmark").enable("table").render(f"| a | b |\n|---|---|\n| {written} | x {written} |\n")
        assert set(Seen(html).tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
        assert html.count("<td>") == 2
        said = html.replace("<!-- -->", "").partition("<tbody>")[2]
        assert "".join(Seen(said).texts).split() == [*plain(name).split(), "x", *plain(name).split()]
    # GitHub looks for these in what has been rendered, but not in code.
    assert not re.search(r"[@#]\w|www", markdown.text(name))
    assert not re.search(r"(?<!\\)://", markdown.text(name).replace("\\://", ""))


def test_a_long_list_of_refusals_is_cut_off_in_markdown_alone() -> None:
    refusals = tuple(opshift.Refusal(Code.TYPE, "main/n", f"Abs-{number}", "no.", "") for number in range(25))
    document = {
        "command": "plan",
        "model": "m",
        "error": {"kind": "unsupported", "refusals": refusals},
        "timings": [],
        "versions": {},
    }
    assert markdown.markdown(document).count("(`main/n`)") == 20
    assert "- and 5 more" in markdown.markdown(document)
    assert page.page(document).count('<code class="name">main/n</code>') == 25


def test_refusals_of_one_cause_are_one_entry_with_the_next_step() -> None:
    refusals = tuple(
        opshift.Refusal(Code.TYPE, f"main/n{number}", "Abs-13", "no.", "Cast it.") for number in range(200)
    )
    error = {"kind": "unsupported", "refusals": refusals}
    document = {"command": "plan", "model": "m", "error": error, "timings": [], "versions": {}}
    text = page.page(document)
    assert text.count("Next step: Cast it.") == 1
    assert text.count('<code class="name">main/n') == 200
    assert "docs/limits.md#type" in text
    assert "- 200 \u00d7 `Abs-13` (`main/n0`, `main/n1`, `main/n2`, ...): no. Cast it. `type`" in markdown.markdown(
        document
    )


# --- the header -------------------------------------------------------------------------------------------------------


def test_the_header_has_the_request_the_command_the_date_and_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    case = Case(("convert", fixture("hardmax-opset12"), "-o", "a b.onnx", "--opset", "13", "--no-verify"), 0)
    text = report(case, tmp_path, ".html").read_text(encoding="utf-8")
    header = "".join(Seen(text.partition("<header")[2].partition("</header>")[0]).texts)
    digest = hashlib.sha256(Path(fixture("hardmax-opset12")).read_bytes()).hexdigest()
    for words in (
        "opset 12 -> 13",
        "2023-11-14T22:13:20Z",
        digest,
        "'a b.onnx' --opset 13",
        "opshift 0.1.0",
        "onnx 1.",
    ):
        assert words in header, words


def test_the_first_rewrite_by_other_nodes_is_open(read: Any) -> None:
    opened = re.findall(r'<details class="kind" open>.*?id="kind-(\d+)"', read("lowered", ".html"), re.DOTALL)
    assert opened == ["3"], "two are version bumps"


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", fixture("classifier-opset18")],
        ["inspect", fixture("onehot-bfloat16-opset28")],
        ["inspect", fixture("classifier-opset18"), fixture("hardmax-opset12")],
        ["plan", fixture("classifier-opset18"), fixture("onehot-bfloat16-opset28"), "--opset", "11"],
        ["where", fixture("classifier-opset18"), "none.onnx"],
        ["ops"],
        ["ops", "Hardmax"],
        ["ops", "Hardmx"],
        ["targets"],
        ["targets", "opencv-4"],
        ["targets", "onnxruntime", "--probe"],
        ["inspect", "none.onnx"],
    ],
    ids=" ".join,
)
def test_the_json_of_every_command_fits_the_one_schema(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*arguments, "--json"])
    out = capsys.readouterr().out
    for text in [out] if out.startswith("{\n") else out.splitlines():
        document = json.loads(text)
        jsonschema.Draft202012Validator(closed(SCHEMA)).validate(document)
        assert document["schema"] == 1


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1249, "1.25 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (2**31, "2.15 GB"),
        (10**13, "1e+04 GB"),
    ],
)
def test_amounts(size: int, words: str) -> None:
    assert amount(size) == words


@pytest.mark.parametrize(
    ("model", "request_", "choice"),
    [
        ("segmenter-opset13", {"opset": 8}, "same meaning"),
        ("hardmax-opset13", {"decompose": ["Hardmax"]}, "cheapest of"),
        ("hardmax-opset12", {"opset": 13}, "cheapest of"),
        ("in-scan-opset13", {"opset": 8}, "its value is known"),
    ],
)
def test_why_this_one(model: str, request_: dict[str, Any], choice: str) -> None:
    plan = opshift.plan(fixture(model), **request_)
    document = {"command": "convert", "model": model, "plan": plan, "timings": [], "versions": {}}
    assert any(rewrite.choice.startswith(choice) for rewrite in report_model(document).rewrites)


def test_a_hostile_model_is_a_model() -> None:
    onnx.checker.check_model(hostile_model())
