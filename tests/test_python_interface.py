"""The Python interface as somebody at a prompt meets it: names, reprs, notebooks, forms of models, wrong types."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import opshift
from opshift.passes.base import notebook

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODEL: onnx.ModelProto = onnx.parser.parse_model((FIXTURES / "hardmax-opset12.onnxtxt").read_text(encoding="utf-8"))
DATA = MODEL.SerializeToString()


class Exported:
    """As torch.onnx.ONNXProgram is."""

    @property
    def model_proto(self) -> onnx.ModelProto:
        return MODEL


def as_ir() -> Any:
    import onnx_ir

    return onnx_ir.serde.deserialize_model(MODEL)


FORMS: dict[str, Callable[[], Any]] = {
    "path": lambda: FIXTURES / "hardmax-opset12.onnxtxt",
    "string": lambda: str(FIXTURES / "hardmax-opset12.onnxtxt"),
    "bytes": lambda: DATA,
    "bytearray": lambda: bytearray(DATA),
    "memoryview": lambda: memoryview(DATA),
    "file": lambda: io.BytesIO(DATA),
    "proto": lambda: MODEL,
    "ir": as_ir,
    "program": Exported,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_entry_point_accepts_every_form_of_a_model(form: str) -> None:
    make = FORMS[form]
    result = opshift.convert(make(), opset=13, verify=False)
    assert [node.op_type for node in result.rewritten.graph.node] == ["Flatten", "Hardmax", "Reshape"]
    assert opshift.plan(make(), opset=13).possible
    assert opshift.inspect(make()).opset == 12
    assert opshift.verify(make(), make()).verdict is opshift.Verdict.EQUAL
    assert MODEL.SerializeToString() == DATA


def test_a_model_from_bytes_is_returned_as_a_protobuf() -> None:
    assert isinstance(opshift.convert(DATA, opset=9, verify=False).model, onnx.ModelProto)


def test_a_file_is_read_from_where_it_stands() -> None:
    file = io.BytesIO(b"header" + DATA)
    file.seek(6)
    assert opshift.inspect(file).opset == 12


def closed() -> io.BytesIO:
    file = io.BytesIO(DATA)
    file.close()
    return file


NO_MODELS = {
    "number": (5, "not an object of type 'int'"),
    "none": (None, "not None"),
    "list": ([MODEL], "not an object of type 'list'"),
    "text": (io.StringIO("ir_version"), "binary mode"),
    "closed": (closed(), "cannot be read"),
    "attribute": (type("Program", (), {"model_proto": 3})(), "type 'Program'"),
}


@pytest.mark.parametrize("case", NO_MODELS)
@pytest.mark.parametrize("entry", ["convert", "plan", "inspect", "verify", "verify_other"])
def test_what_is_no_model_is_a_usage_error(entry: str, case: str) -> None:
    model, words = NO_MODELS[case]
    calls: dict[str, Callable[[], Any]] = {
        "convert": lambda: opshift.convert(model, opset=11),
        "plan": lambda: opshift.plan(model, opset=11),
        "inspect": lambda: opshift.inspect(model),
        "verify": lambda: opshift.verify(model, MODEL),
        "verify_other": lambda: opshift.verify(MODEL, model),
    }
    with pytest.raises(opshift.UsageError, match=words):
        calls[entry]()


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n", DATA[:-20]], ids=["empty", "text", "png", "cut off"])
def test_bytes_that_are_no_model(data: bytes) -> None:
    with pytest.raises(opshift.InvalidModelError, match="the bytes of the model: "):
        opshift.inspect(data)


WRONG_TYPES: list[dict[str, Any]] = [
    {"opset": "11"},
    {"opset": 11.0},
    {"opset": True},
    {"decompose": 5},
    {"decompose": "Hardmax"},
    {"decompose": [5]},
    {"decompose": None},
    {"target": 5},
    {"optimize": "yes"},
    {"opset": 9, "allow_paths": 3},
    {"opset": 9, "allow_paths": [3]},
    {"opset": 9, "ir_version": "7"},
    {"opset": 9, "assume_opset": "6"},
    {"assume_opset": 0},
    {"opset": 9, "semantics": 3},
    {"quantized": "QDQ"},
    {"quantized": True},
    {"opset": 9, "verify": "x"},
    {"opset": 9, "require_proof": "yes"},
    {"opset": 9, "keep_initializers_as_inputs": 1},
    {"opset": 9, "input_shapes": [1]},
    {"opset": 9, "input_shapes": {"x": 3}},
    {"opset": 9, "inputs": 4},
    {"opset": 9, "seed": "a"},
    {"opset": 9, "timeout": "1"},
    {"opset": 9, "memory": "1G"},
    {"opset": 9, "save_repro": 3},
    {"opset": 9, "save_repro": "a\0b"},
    {"opset": 9, "save_repro": ""},
    {"opset": 9, "allow_paths": [""]},
]


@pytest.mark.parametrize("asked", WRONG_TYPES, ids=str)
def test_an_argument_of_a_wrong_type_is_a_usage_error_with_a_sentence(asked: dict[str, Any], tmp_path: Path) -> None:
    for call in (
        lambda: opshift.convert(MODEL, **asked),
        lambda: list(opshift.convert_many(FIXTURES, tmp_path / "out", **asked)),
    ):
        with pytest.raises(opshift.UsageError) as caught:
            call()
        text = str(caught.value)
        assert text.endswith(".")
        assert text.split()[0] in {*asked, "There", "ir_version"}
        assert "\n" not in text


def test_wrong_types_of_a_comparison() -> None:
    for asked in ({"inputs": 4}, {"input_shapes": 4}, {"seed": 1.5}, {"save_repro": "\0"}, {"allow_paths": [""]}):
        with pytest.raises(opshift.UsageError):
            opshift.verify(MODEL, MODEL, **asked)


# --- names ------------------------------------------------------------------------------------------------------------


def test_completion_shows_the_public_names_and_no_others() -> None:
    code = "import opshift, sys; print(*dir(opshift)); sys.exit('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if not name.startswith("_")} == set(opshift.__all__)
    import rlcompleter

    found = rlcompleter.Completer({"opshift": opshift})
    assert found.complete("opshift.conver", 0) is not None
    for name in opshift.__all__:
        assert getattr(opshift, name) is getattr(opshift, name)


# --- reprs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> opshift.Result:
    return opshift.convert(FIXTURES / "all-three-opset13.onnxtxt", decompose=["OneHot"])


def test_reprs_are_one_short_line(result: opshift.Result) -> None:
    report = result.report
    assert report is not None
    (refusal,) = opshift.plan(FIXTURES / "onehot-bfloat16-opset28.onnxtxt", opset=11).refusals
    for one in (result, result.plan, report, report.nodes[0], report.whole, refusal, opshift.inspect(MODEL)):
        shown = repr(one)
        assert shown.startswith(f"<opshift.{type(one).__name__} ")
        assert shown.isprintable()
        assert len(shown) <= 150
    assert repr(result.plan) == "<opshift.Plan opset 13 -> 13, 1 node rewritten, 0 version bumps, 2 unchanged>"
    assert repr(result).startswith(repr(result.plan)[:-1].replace("Plan", "Result") + "; equal on ")
    assert repr(report.nodes[0]).startswith("<opshift.Check OneHot-11 at main/OneHot_2: equal on ")
    assert repr(refusal) == "<opshift.Refusal type: OneHot-28 at main/OneHot_0>"


def test_reprs_do_not_grow_with_names() -> None:
    long = opshift.Refusal(opshift.plan(MODEL, opset=5).refusals[0].code, "x\n\x1b[31m" + "y" * 10_000, "Op-1", "", "")
    assert len(repr(long)) < 200
    assert repr(long).isprintable()


# --- notebooks --------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Collects tags and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


HOSTILE = "<script>alert(1)</script>&\"'\u202e"


def test_a_notebook_shows_a_small_table(result: opshift.Result) -> None:
    assert result.report is not None
    refused = opshift.plan(FIXTURES / "onehot-bfloat16-opset28.onnxtxt", opset=11)
    for page in (one._repr_html_() for one in (result, result.report, result.plan, refused)):
        assert Tags(page).tags == {"table", "caption", "tbody", "tr", "th", "td"}
        assert len(page) < 4000
    assert "1 \u00d7 OneHot-11 \u2192 " in Tags(result._repr_html_()).text
    for one in (result, result.report, result.plan):
        assert Tags(one._repr_html_()).text.startswith(f"opshift.{type(one).__name__}")


def test_names_in_a_notebook_are_text() -> None:
    rows = Tags(notebook.table("t", [(HOSTILE, HOSTILE)]))
    assert rows.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert HOSTILE.replace("\u202e", "\\u202e") in rows.text


def test_a_table_does_not_grow_with_the_model() -> None:
    report = opshift.verify(FIXTURES / "hardmax-opset12.onnxtxt", FIXTURES / "hardmax-opset13.onnxtxt")
    check = report.whole
    many = opshift.Report((check,) * 500, check, 0, {})
    assert len(many._repr_html_()) < 20_000
    assert "and 491 more" in many._repr_html_()


# --- saving reports ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".html", ".md", ".json"])
def test_a_report_is_saved_as_its_name_says(result: opshift.Result, suffix: str, tmp_path: Path) -> None:
    assert result.report is not None
    result.report.save(tmp_path / f"report{suffix}")
    text = (tmp_path / f"report{suffix}").read_text(encoding="utf-8")
    assert text.startswith({".html": "<!DOCTYPE html>", ".md": "### opshift convert", ".json": "{"}[suffix])
    assert "main/OneHot_2" in text or suffix == ".md"


def test_a_saved_report_is_what_json_prints(result: opshift.Result, tmp_path: Path) -> None:
    assert result.report is not None
    result.report.save(str(tmp_path / "report.json"))
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert saved["command"] == "convert"
    assert saved["verdict"] == "equal"
    assert saved["plan"]["steps"][0]["node"] == "main/OneHot_2"
    assert saved["before"]["operators"]["OneHot"]["count"] == 1


def test_the_report_of_a_difference_is_saved(tmp_path: Path) -> None:
    report = opshift.verify(FIXTURES / "hardmax-opset12.onnxtxt", FIXTURES / "hardmax-opset13.onnxtxt")
    report.save(tmp_path / "report.json")
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert saved["status"] == 1
    assert saved["error"]["kind"] == "verification"
    assert saved["model"].endswith("hardmax-opset12.onnxtxt")
    report.save(tmp_path / "report.html")


@pytest.mark.parametrize("place", ["report.txt", "missing/report.md", 3])
def test_a_report_that_cannot_be_saved(result: opshift.Result, place: Any, tmp_path: Path) -> None:
    assert result.report is not None
    wrong: Any = place if isinstance(place, int) else tmp_path / place
    with pytest.raises(opshift.UsageError):
        result.report.save(wrong)


def test_a_report_is_pickled_without_the_models(result: opshift.Result, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(result.report))
    assert again == result.report
    again.save(tmp_path / "report.md")
