"""The command line: what it prints, where, and how it ends.

The engine is replaced by fakes in the first part, so that each answer it can give is seen; the last part runs the real
one.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from opshift.cli import operator_counts, options, wording
from opshift.cli import terminal as output
from opshift.cli.commands import inspect
from opshift.cli.main import COMMANDS, main, parse
from opshift.opsets.operators import argmax
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import operator_for
from opshift.opsets.registry.schema import NEWEST
from opshift.opsets.runtimes.profiles import parse_target
from opshift.passes.base.errors import InvalidModelError, UnsupportedError, UsageError, VerificationError
from opshift.passes.base.plan import Action, Code, Plan, Refusal, Step
from opshift.passes.base.report import Check, Counterexample, Report, Verdict
from opshift.passes.inspection import Stop, obstacles
from opshift.passes.io import atomic_files
from opshift.passes.io.atomic_files import Batch
from opshift.passes.io.reader import Source
from opshift.passes.runtime import ort_models

MODEL_13 = """<ir_version: 8, opset_import: ["": 13]>
main (float[2,3] x) => (float[2,3] y) { a = Abs(x)  b = Hardmax<axis = 1>(a)  y = Neg(b) }"""
MODEL_11 = """<ir_version: 6, opset_import: ["": 11]>
main (float[2,3] x) => (float[2,3] y) { a = Abs(x)  b = Hardmax<axis = 1>(a)  c = Neg(b)  y = Neg(c) }"""

REFUSAL = Refusal(Code.NO_LOWERING, "main/hot", "Hardmax-13", "its rank is unknown.", "Give --input-shape.")
STEP = Step(Action.LOWER, "main/hot", "Hardmax", 13, "opset 11 lacks it", ("hardmax_by_argmax",), ("ArgMax", "Equal"))
NARROW = Step(Action.LOWER, "main/low", "ArgMax", 13, "asked for", ("argmax_by_topk",), ("TopK",), ("no-nan",))
COUNTEREXAMPLE = Counterexample({"x": [[1.0, float("nan")]]}, "y", [[0.0, float("inf")]], [[1.0, float("-inf")]])


def plan_of(*steps: Step, refusals: tuple[Refusal, ...] = (), source: int = 13, target: int = 11) -> Plan:
    return Plan(source, target, "", (), 2, steps, refusals)


def report_of(whole: Verdict, *nodes: Verdict, reason: str = "") -> Report:
    def check(node: str, verdict: Verdict) -> Check:
        example = COUNTEREXAMPLE if verdict is Verdict.DIFFERENT else None
        operator = "Hardmax-13" if node else ""
        return Check(node, operator, verdict, reason, "onnxruntime 1.31.1", 10, example)

    checks = tuple(check(f"main/hot_{index}", verdict) for index, verdict in enumerate(nodes))
    return Report(checks, check("", whole), 0, {"onnxruntime": "1.31.1"})


EQUAL = report_of(Verdict.EQUAL, Verdict.EQUAL)
UNCHECKED = report_of(Verdict.UNCHECKED, Verdict.EQUAL, reason="com.acme.Foo has no kernel")
DIFFERENT = report_of(Verdict.EQUAL, Verdict.DIFFERENT, reason="ties go to the last")


STOPS = Stop(10, obstacles((REFUSAL,) * 2)), Stop(14, obstacles((REFUSAL,)))


@dataclass(frozen=True)
class FakeInspection:
    opset: int = 13
    ir_version: int = 8
    producer: str = ""
    domains: dict[str, int] = field(default_factory=lambda: {"": 13, "com.acme": 2})
    operators: tuple[tuple[str, str, int | None, int], ...] = (("Foo", "com.acme", None, 1), ("Hardmax", "", 13, 3))
    reachable: tuple[int, ...] = (11, 12, 13, 15)
    blocked: dict[int, tuple[Refusal, ...]] = field(
        default_factory=lambda: {10: (REFUSAL,) * 2, 14: (REFUSAL,), 16: (REFUSAL,)}
    )
    down: Stop | None = STOPS[0]
    up: Stop | None = STOPS[1]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


FOUND = FakeInspection()


@dataclass
class FakeResult:
    source_model: onnx.ModelProto
    rewritten: onnx.ModelProto
    plan: Plan
    report: Report | None
    unwritable: bool
    asked: dict[str, Any]
    left_out: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        return Source(self.source_model, None, None, None)

    def save(self, path: str, *, progress: Any, batch: Batch, **asked: Any) -> None:
        self.asked.update(asked)
        if self.unwritable:
            raise UsageError(f"{path} cannot be written: disk full.")
        batch.draft(Path(path).absolute()).write(b"converted")
        batch.publish()


@dataclass
class Engine:
    """Stands for the engine: answers as it is told, and remembers what it was asked."""

    plan: Plan = field(default_factory=lambda: plan_of(STEP))
    report: Report | None = EQUAL
    source: str = MODEL_13
    target: str = MODEL_11
    error: BaseException | None = None
    unwritable: bool = False
    asked: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *models: Any, progress: Any, **asked: Any) -> FakeResult:
        self.asked = asked
        if progress:
            progress("lower", 1, 2)
            progress("lower", 2, 2)
        if self.error:
            raise self.error
        source, target = onnx.parser.parse_model(self.source), onnx.parser.parse_model(self.target)
        return FakeResult(source, target, self.plan, self.report, self.unwritable, self.asked)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """Put the fake in the engine's place, and run in a folder that has the model `in.onnx`."""
    fake = Engine()

    def module(name: str, **functions: Any) -> None:
        made = types.ModuleType(name)
        vars(made).update(functions)
        monkeypatch.setitem(sys.modules, name, made)

    module("opshift.passes.inspection", inspect=lambda path, assume_opset=None, allow_paths=(): FOUND)
    module("opshift.passes.convert", convert=fake)
    module("opshift.passes.proof.verify", verify=lambda *a, **k: fake(*a, **k).report)
    monkeypatch.setattr(ort_models, "runtime", lambda: None)
    monkeypatch.setattr(ort_models, "read", lambda path, *_: ort_models.Runnable(onnx.parser.parse_model(fake.source)))
    monkeypatch.chdir(tmp_path)
    Path("in.onnx").write_bytes(b"original")
    return fake


def strict(text: str) -> Any:
    """Parse JSON that holds neither NaN nor Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def opshift(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opshift", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False, **settings
    )


CONVERT = ("convert", "in.onnx", "-o", "out.onnx", "--opset", "11")
PLAN = ("plan", "in.onnx", "--opset", "11")
VERIFY = ("verify", "in.onnx", "in.onnx")

# --- help and speed ---------------------------------------------------------------------------------------------------

CHEAP = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS), ["convrt"], ["convert"]]


@pytest.mark.parametrize("arguments", CHEAP, ids=" ".join)
def test_help_and_usage_errors_import_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from opshift.cli.main import main
main({arguments!r})
heavy = {{"onnx", "numpy", "rich", "onnxruntime", "onnxscript", "google.protobuf"}} & set(sys.modules)
sys.exit(f"imported: {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_of_a_command_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--help"]) == 0
    assert "\nexamples:\n  opshift convert model.onnx old.onnx --opset 11\n" in capsys.readouterr().out


def test_help_returns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: opshift ")


def test_version() -> None:
    import opshift as package

    assert opshift("--version").stdout == f"opshift {package.__version__}\n"


def test_help_names_every_command_and_status() -> None:
    done = opshift("--help")
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.splitlines() if line.startswith("    ")} >= set(COMMANDS)
    assert all(f"  {status}  " in done.stdout for status in range(4))


# --- usage errors -----------------------------------------------------------------------------------------------------

USAGE = [
    ([], "a command is needed: convert, plan"),
    (["convrt"], "Did you mean 'convert'?"),
    (["--json"], "required: COMMAND"),
    (["convert"], "required: IN"),
    ([*CONVERT[:4]], "nothing was requested"),
    (["plan", "in.onnx"], "`opshift inspect in.onnx`"),
    (["convert", "in.onnx", "--opset", "11"], "add OUT after IN, or use --in-place"),
    (["convert", "in.onnx", "-o", "in.onnx", "--opset", "11"], "is the model itself"),
    (["convert", "in.onnx", "-o", "./in.onnx", "--opset", "11"], "is the model itself"),
    (["convert", "none.onnx", "-o", "./none.onnx", "--opset", "11"], "is the model itself"),
    (["convert", "in.onnx", "-o", "link.onnx", "--opset", "11"], "is the model itself"),
    ([*CONVERT, "--in-place"], "give one of the two"),
    (["convert", "in.onnx", "-o", "no/out.onnx", "--opset", "11"], "there is no folder 'no'"),
    (["convert", "-", "--opset", "11"], "add OUT after IN, or use --in-place"),
    (["convert", "in.onnx", "-o", os.devnull, "--opset", "11"], "not a regular file"),
    (["convert", "in.onnx", "-o", "x" * 5000, "--opset", "11"], "cannot be written"),
    ([*CONVERT, "--opset", "eleven"], "a whole number, or latest, is needed, not 'eleven'"),
    ([*CONVERT, "--opset", "\u0661\u0663"], "a whole number, or latest, is needed"),
    ([*CONVERT, "--input-shape", "x:\u0661"], "such as x:1,3,224,224"),
    ([*CONVERT, "--opset", "-1"], "a whole number, or latest, is needed, not '-1'"),
    ([*CONVERT, "--seed", "1.5"], "a whole number is needed, not '1.5'"),
    ([*CONVERT, "--ir-version", "1_0"], "a whole number is needed, not '1_0'"),
    ([*CONVERT, "--ospet", "11"], "Did you mean '--opset'?"),
    ([*CONVERT, "--opse", "11"], "Did you mean '--opset'?"),
    ([*CONVERT, "another.onnx"], "out.onnx is one model, and 2 are given: name a folder with -o."),
    (["verify", "in.onnx", "in.onnx", "another.onnx"], "unknown argument 'another.onnx'. See"),
    (["convert", "in.onnx", "in.onnx", "--opset", "11"], "in.onnx is the model itself"),
    (["convert", "in.onnx", "no/out.onnx", "--opset", "11"], "no/out.onnx: there is no folder 'no'"),
    (["convert", "in.onnx", "out.onnx", "--in-place", "--opset", "11"], "--in-place is for one model"),
    (["convert", "a.onnx", "b.onnx", "c.onnx", "--opset", "11"], "for 3 models: add -o FOLDER"),
    (["convert", "in.onnx", "-", "-o", "out", "--opset", "11"], "is one model: give it alone"),
    (["convert", "in.onnx", "a.onnx", "-o", "link.onnx", "--opset", "11"], "is one model, and 2 are given"),
    (["convert", "in.onnx", "out.onnx", "--opset", "newest"], "a whole number, or latest, is needed, not 'newest'"),
    ([*CONVERT, "--decompose", "Hardmax,,ArgMax"], "names between commas are needed"),
    ([*CONVERT, "--decompose", ""], "names between commas are needed"),
    ([*CONVERT, "--target", "nowhere.toml"], "neither a built-in target nor a file"),
    ([*CONVERT, "--target", "x" * 5000], "neither a built-in target nor a file"),
    ([*CONVERT, "--assume", "no-nam"], "Did you mean 'no-nan'?"),
    ([*CONVERT, "--semantics", "sepc"], "invalid choice: 'sepc' (choose from"),
    ([*CONVERT, "--input-shape", "1,3"], "such as x:1,3,224,224"),
    ([*CONVERT, "--input-shape", ":1,3"], "such as x:1,3,224,224"),
    ([*CONVERT, "--input-shape", "x:1,-3"], "such as x:1,3,224,224"),
    ([*CONVERT, "--input-shape", "x:1,,3"], "such as x:1,3,224,224"),
    ([*CONVERT, "--input-shape", "x:1", "--input-shape", "x:2"], "gives 'x' twice"),
    ([*CONVERT, "--no-verify", "--require-proof"], "--require-proof has no effect with --no-verify"),
    ([*CONVERT, "--no-verify", "--seed", "0"], "--seed has no effect with --no-verify"),
    ([*CONVERT, "--dim", "n"], "such as seq=128"),
    ([*CONVERT, "--dim", "=1"], "such as seq=128"),
    ([*CONVERT, "--dim", "n=-1"], "such as seq=128"),
    ([*CONVERT, "--dim", "n=1", "--dim", "n=2"], "gives 'n' two sizes"),
    ([*CONVERT, "--batch", "-1"], "a whole number is needed"),
    *(
        ([*CONVERT, "--no-verify", option, value], f"{option} has no effect with --no-verify")
        for option, value in (
            *(("--inputs", "a"), ("--timeout", "1"), ("--memory", "1G"), ("--save-repro", "a")),
            *(("--effort", "normal"), ("--max-time", "1")),
        )
    ),
    ([*CONVERT, "--no-verify", "--verify", "nodes"], "not allowed with"),
    ([*CONVERT, "--verify", "nodes", "--require-proof"], "which --verify nodes skips"),
    ([*CONVERT, "--verify", "nodes", "--inputs", "a.npz"], "which --verify nodes skips"),
    ([*CONVERT, "--external-data", "move"], "invalid choice: 'move' (choose from"),
    ([*CONVERT, "--external-data", "copy", "--save-as-external-data"], "not allowed with"),
    ([*CONVERT, "--size-threshold", "9"], "--size-threshold is for --save-as-external-data"),
    ([*CONVERT, "--effort", "hard"], "invalid choice: 'hard' (choose from"),
    ([*CONVERT, "--max-time", "0"], "a number of seconds is needed"),
    ([*CONVERT, "-v", "-q"], "not allowed with"),
    ([*CONVERT, "--report", "report.htm"], "a file that ends in .html, .json or .md"),
    ([*CONVERT, "--report", "report"], "a file that ends in .html, .json or .md"),
    ([*CONVERT, "--report", "no/report.json"], "there is no folder 'no'"),
    (["convert", "in.onnx", "-o", "out.json", "--opset", "11", "--report", "./out.json"], "would replace a model"),
    ([*PLAN, "--report", "link.json"], "would replace a model"),
    ([*VERIFY, "--report", "link.json"], "would replace a model"),
    ([*PLAN, "--no-verify"], "unknown argument '--no-verify'"),
    ([*PLAN, "--seed", "1"], "unknown argument '--seed'"),
    ([*PLAN, "-o", "out.onnx"], "unknown argument '-o'"),
    ([*VERIFY, "--opset", "11"], "unknown argument '--opset'"),
    ([*VERIFY, "--semantics", "mine"], "invalid choice: 'mine'"),
    ([*VERIFY, "--timeout", "0"], "a number of seconds is needed"),
    ([*VERIFY, "--timeout", "nan"], "a number of seconds is needed"),
    ([*VERIFY, "--memory", "much"], "such as 500M or 8G"),
    ([*VERIFY, "--memory", "0"], "such as 500M or 8G"),
    ([*VERIFY, "--no-verify"], "unknown argument '--no-verify'"),
    (["verify", "in.onnx"], "required: B"),
    (["inspect", "in.onnx", "--seed", "1"], "unknown argument '--seed'"),
    (["inspect", "in.onnx", "-q"], "unknown argument '-q'"),
    (["inspect"], "required: IN"),
    (["ops", "Hardmacks"], "opshift has no operator 'Hardmacks'"),
    (["ops", "--verbose"], "unknown argument '--verbose'"),
    (["targets", "no-such"], "`opshift targets` lists"),
    (["targets", "--report", "r.json"], "unknown argument '--report'"),
]
USAGE_IDS = [" ".join(arguments)[:60] for arguments, _ in USAGE]


@pytest.fixture
def folder(engine: Engine) -> Path:
    Path("folder").mkdir()
    Path("link.onnx").symlink_to("in.onnx")
    Path("link.json").symlink_to("in.onnx")
    return Path.cwd()


@pytest.mark.parametrize(("arguments", "words"), USAGE, ids=USAGE_IDS)
def test_usage_error(
    arguments: list[str], words: str, folder: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    if "--json" in arguments:
        assert words in strict(out)["error"]["message"]
        assert err == ""
    else:
        assert out == ""
        assert err.startswith("error: ")
        assert words in err
        assert err.count("\n") == 1, "one paragraph"
    assert not engine.asked, "the engine was not started"
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("arguments", "words"), USAGE[:24], ids=USAGE_IDS[:24])
def test_usage_error_as_json(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--json"]) == 2
    error = strict(capsys.readouterr().out)
    assert error["status"] == 2
    assert error["error"]["kind"] == "usage"
    assert words in error["error"]["message"] or not arguments


def test_a_usage_error_ends_the_process_with_2_and_no_traceback() -> None:
    done = opshift("convert", "in.onnx", "--bogus")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown argument '--bogus'. See `opshift convert --help`.\n"


# --- how runs end -----------------------------------------------------------------------------------------------------

ENDS = [
    (None, 0, "", ""),
    (InvalidModelError("in.onnx is no ONNX model:\n\ntruncated."), 2, "invalid-model", "is no ONNX model: truncated."),
    (UsageError("opset 99 does not exist."), 2, "usage", "opset 99 does not exist."),
    (UnsupportedError((REFUSAL, REFUSAL)), 1, "unsupported", "its rank is unknown. Give --inp"),
    (VerificationError("ties go to the last", DIFFERENT), 1, "verification", "ties go to the last"),
    (ZeroDivisionError("by\nzero"), 3, "fault", "opshift itself failed (ZeroDivisionError: by zero)"),
    (RecursionError(), 3, "fault", "opshift itself failed (RecursionError)"),
]


@pytest.mark.parametrize("command", [CONVERT, PLAN, VERIFY], ids=lambda c: c[0])
@pytest.mark.parametrize(("error", "status", "kind", "words"), ENDS, ids=lambda v: type(v).__name__)
class TestEnds:
    def test_in_words(
        self,
        command: tuple[str, ...],
        error: Exception | None,
        status: int,
        kind: str,
        words: str,
        engine: Engine,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        engine.error = error
        Path("out.onnx").write_bytes(b"old")
        assert main(command) == status
        out, err = capsys.readouterr()
        assert words in err
        assert (out == "") == bool(status)
        assert (err == "") == (not status)
        assert "Traceback" not in err
        assert Path("in.onnx").read_bytes() == b"original"
        written = status == 0 and command is CONVERT
        assert Path("out.onnx").read_bytes() == (b"converted" if written else b"old")

    def test_as_json(
        self,
        command: tuple[str, ...],
        error: Exception | None,
        status: int,
        kind: str,
        words: str,
        engine: Engine,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        engine.error = error
        assert main([*command, "--json", "--report", "report.json"]) == status
        out, err = capsys.readouterr()
        document = strict(out)
        assert document["status"] == status
        assert ("error" in document) == bool(status)
        if status:
            assert document["error"]["kind"] == kind
            assert words in document["error"]["message"]
        assert err == ""
        assert Path("report.json").exists() == (status < 2)
        if status < 2:
            assert strict(Path("report.json").read_text()) == document

    def test_traceback_under_debug_only(
        self,
        command: tuple[str, ...],
        error: Exception | None,
        status: int,
        kind: str,
        words: str,
        engine: Engine,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        engine.error = error
        assert main([*command, "--debug"]) == status
        err = capsys.readouterr().err
        assert ("Traceback (most recent call last)" in err) == bool(status)
        assert words in err


def test_a_fault_asks_to_be_reported(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = KeyError("x")
    assert main(CONVERT) == 3
    err = capsys.readouterr().err
    assert "report" in err
    assert "--debug" in err
    assert err.count("\n") == 1


def test_warnings_of_packages_are_shown_under_debug_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(*_: Any, **asked: Any) -> FakeResult:
        # What pytest itself does with warnings stands in the way of what Python does.
        monkeypatch.setattr(warnings, "showwarning", lambda text, *_: print(text, file=sys.stderr))
        warnings.warn("something is deprecated", FutureWarning, stacklevel=1)
        return engine(**asked)

    monkeypatch.setattr(sys.modules["opshift.passes.convert"], "convert", warn)
    assert main(PLAN) == 0
    assert capsys.readouterr().err == ""
    assert main([*PLAN, "--debug"]) == 0
    assert "something is deprecated" in capsys.readouterr().err


def test_interrupted(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = KeyboardInterrupt()
    assert main(CONVERT) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert not Path("out.onnx").exists()


def test_every_refusal_is_printed_with_its_hint_and_code(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    other = Refusal(Code.TYPE, "main/low", "ArgMax-13", "no bfloat16.", "Cast.")
    engine.error = UnsupportedError((REFUSAL, other))
    assert main([*CONVERT, "--report", "report.json"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: in.onnx cannot be converted (2 refusals); nothing was written.",
        "  1 x Hardmax-13 (main/hot): its rank is unknown. Give --input-shape. [no-lowering]",
        "  1 x ArgMax-13 (main/low): no bfloat16. Cast. [type]",
        "  See docs/limits.md#no-lowering, docs/limits.md#type.",
    ]
    refusals = strict(Path("report.json").read_text())["error"]["refusals"]
    assert [refusal["code"] for refusal in refusals] == ["no-lowering", "type"]
    assert refusals[1] == {
        "code": "type",
        "node": "main/low",
        "operator": "ArgMax-13",
        "reason": "no bfloat16.",
        "hint": "Cast.",
        "details": "",
    }


def test_a_difference_is_printed_with_its_node_and_counterexample(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.error = VerificationError("1 node differs.", DIFFERENT)
    assert main(CONVERT) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: the converted in.onnx computes different outputs, so nothing was written. Please report this:",
        "  Hardmax-13 at main/hot_0: ties go to the last (onnxruntime 1.31.1)",
        "    input x = [[1.0, nan]]",
        "    output y: expected [[0.0, inf]]",
        "    output y: actual   [[1.0, -inf]]",
    ]


def test_what_could_not_be_proven_is_no_difference(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = VerificationError("the whole model could not be compared", UNCHECKED)
    assert main([*CONVERT, "--require-proof"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: the converted in.onnx could not be verified, so nothing was written, as --require-proof requires:",
        "  the whole model: com.acme.Foo has no kernel (onnxruntime 1.31.1)",
    ]


def test_a_counterexample_in_json_has_no_bare_nan(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = VerificationError("1 node differs.", DIFFERENT)
    assert main([*CONVERT, "--json"]) == 1
    example = strict(capsys.readouterr().out)["error"]["report"]["nodes"][0]["counterexample"]
    assert example["inputs"] == {"x": [[1.0, "NaN"]]}
    assert (example["expected"], example["actual"]) == ([[0.0, "Infinity"]], [[1.0, "-Infinity"]])


def test_only_the_first_differences_are_printed(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = VerificationError("all differ.", report_of(Verdict.EQUAL, *[Verdict.DIFFERENT] * 7))
    assert main(CONVERT) == 1
    err = capsys.readouterr().err
    assert "main/hot_4" in err
    assert "main/hot_5" not in err
    assert "and 2 more" in err


# --- what is asked of the engine: every option does something ---------------------------------------------------------

SHAPES = [
    (["--input-shape", "x:1,3", "--input-shape", "a:b:0"], "input_shapes", {"x": (1, 3), "a:b": (0,)}),
    (["--input-shape", "x:"], "input_shapes", {"x": ()}),
]
AS_OPSET = [(["--assume-opset", "6"], "assume_opset", 6)]
REQUEST = [
    (["--opset", "9"], "opset", 9),
    (["--target-opset", "9"], "opset", 9),
    (["--decompose", "Hardmax, ArgMax", "--decompose", "OneHot,Hardmax"], "decompose", ("Hardmax", "ArgMax", "OneHot")),
    (["--decompose", "com.acme::Foo"], "decompose", ("com.acme::Foo",)),
    (["--target", "in.onnx"], "target", "in.onnx"),
    (["--ir-version", "7"], "ir_version", 7),
    *AS_OPSET,
    (["--assume", "no-nan,finite-inputs"], "assume", ("no-nan", "finite-inputs")),
    (["--assume", "no-nan", "--assume", "no-nan"], "assume", ("no-nan",)),
    (["--allow", "nan,finite-inputs", "--assume", "whole-indices"], "assume", ("finite-inputs", "whole-indices")),
    (["--semantics", "spec"], "semantics", "spec"),
    (["--optimize"], "optimize", True),
    (["--keep-initializers-as-inputs"], "keep_initializers_as_inputs", True),
    *SHAPES,
    (["--dim", "seq=128", "--dim", "a=b=0"], "dims", {"seq": 128, "a=b": 0}),
    (["--batch", "1"], "batch", 1),
    (["--fold"], "fold", True),
    (
        ["--types", "int64=int32,bfloat16=float", "--types", "uint8=float"],
        "types",
        {"int64": "int32", "bfloat16": "float", "uint8": "float"},
    ),
    (["--types", "int64=int32", "--io-types"], "io_types", True),
    (["--quantized", "qdq"], "quantized", "qdq"),
]
PROOF = [
    (["--seed", "7"], "seed", 7),
    (["--inputs", "data.npz"], "inputs", "data.npz"),
    (["--timeout", "2.5"], "timeout", 2.5),
    (["--memory", "3G"], "memory", 3 * 2**30),
    (["--memory", "500m"], "memory", 500 * 2**20),
    (["--save-repro", "folder"], "save_repro", "folder"),
    (["--effort", "quick"], "effort", "quick"),
    (["--max-time", "2.5"], "max_time", 2.5),
]
DEFAULTS = {
    "decompose": (),
    "target": None,
    "ir_version": None,
    "assume": (),
    "assume_opset": None,
    "semantics": "runtime",
    "optimize": False,
    "keep_initializers_as_inputs": False,
    "seed": 0,
    "input_shapes": None,
    "dims": None,
    "batch": None,
    "fold": False,
    "types": None,
    "io_types": False,
    "quantized": None,
    "verify": True,
    "require_proof": False,
    "inputs": None,
    "timeout": None,
    "memory": None,
    "effort": "normal",
    "max_time": None,
    "save_repro": None,
    "exact": False,
    "external_data": None,
    "size_threshold": 1024,
    "allow_paths": (),
}
LINKS = [(["--allow-path", "a", "--allow-path", "b"], "allow_paths", ("a", "b"))]
CONVERTING = [
    (["--no-verify"], "verify", False),
    (["--verify", "nodes"], "verify", "nodes"),
    (["--require-proof"], "require_proof", True),
    (["--external-data", "embed"], "external_data", "embed"),
    (["--save-as-external-data"], "external_data", "save"),
    (["--save-as-external-data", "--size-threshold", "0"], "size_threshold", 0),
]
COMPARING = [(["--exact"], "exact", True), (["--semantics", "spec"], "semantics", "spec")]
ASKED = [
    *((CONVERT, *case) for case in REQUEST + PROOF + CONVERTING + LINKS),
    *((PLAN, *case) for case in REQUEST + LINKS),
    *((VERIFY, *case) for case in PROOF + SHAPES + AS_OPSET + COMPARING + LINKS),
]


@pytest.mark.parametrize(
    "given",
    [
        ["in.onnx", "out.onnx", "--opset", "11"],
        ["in.onnx", "--opset", "11", "out.onnx"],
        ["--opset", "11", "in.onnx", "out.onnx"],
        ["--opset", "11", "-o", "out.onnx", "in.onnx"],
    ],
)
def test_where_to_write_is_said_by_an_option_or_behind_the_model(given: list[str]) -> None:
    from opshift.cli.commands.convert import named

    options = parse(["convert", *given])
    assert named(options) == ("in.onnx", "out.onnx")
    assert options.opset == 11


def test_the_newest_opset_is_called_latest(engine: Engine) -> None:
    assert main(["convert", "in.onnx", "out.onnx", "--opset", "latest"]) == 0
    assert engine.asked["opset"] == onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(("command", "given", "name", "value"), ASKED, ids=lambda v: str(v)[:40])
def test_option_reaches_the_engine(
    command: tuple[str, ...], given: list[str], name: str, value: Any, engine: Engine
) -> None:
    assert main(command) == 0
    assert engine.asked[name] == {**DEFAULTS, "opset": None if command is VERIFY else 11}[name]
    assert engine.asked[name] != value
    assert main([*command, *given]) == 0
    assert engine.asked[name] == value


@pytest.mark.parametrize(
    "given",
    [["--opset", "9"], ["--decompose", "Hardmax"], ["--target", "in.onnx"], ["--ir-version", "8"]],
    ids=" ".join,
)
def test_one_wish_is_enough(given: list[str], engine: Engine) -> None:
    assert main(["plan", "in.onnx", *given]) == 0
    assert engine.asked["opset"] == (9 if "--opset" in given else None)


def test_built_in_target(engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("opshift.opsets.runtimes.profiles.builtin_targets", lambda: ("opencv-4", "tensorrt-10"))
    assert main(["plan", "in.onnx", "--target", "opencv-4"]) == 0
    assert engine.asked["target"] == "opencv-4"
    assert main(["plan", "in.onnx", "--target", "opencv4"]) == 2
    assert "Did you mean 'opencv-4'?" in capsys.readouterr().err


def test_no_option_is_left_untested() -> None:
    """An option that is added must be added to the tables above, or be one that only this module has to do with."""
    here = {
        "-h",
        "--help",
        "-o",
        "--output",
        "--in-place",
        "--json",
        "--debug",
        "--report",
        "-v",
        "-q",
        "--verbose",
        "--quiet",
        # Of many models: tests/test_many.py.
        "-j",
        "--jobs",
        "--resume",
    }
    reaching = {option for _, given, _, _ in ASKED for option in given if option.startswith("--")}
    for command, arguments in {"convert": CONVERT, "plan": PLAN, "verify": VERIFY}.items():
        known = set(parse(arguments).parser._option_string_actions)
        tried = {option for tried, given, _, _ in ASKED if tried is arguments for option in given if option[:2] == "--"}
        assert known - here == tried, command
        assert tried <= reaching


# --- what a conversion prints -----------------------------------------------------------------------------------------


def test_a_conversion_prints_what_matters(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan = plan_of(STEP, STEP._replace(action=Action.VERSION_BUMP, becomes=(), lowerings=()))
    assert main(CONVERT) == 0
    assert capsys.readouterr().out.splitlines() == [
        "opset 13 -> 11, ir_version 8 -> 6",
        "  1 x Hardmax-13 -> ArgMax, Equal",
        "  1 node unchanged, version updated",
        "  2 nodes unchanged",
        "out.onnx: written",
        "verified: outputs equal on 20 inputs (onnxruntime 1.31.1)",
    ]


def test_many_kinds_of_rewrites_are_cut_off(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan = plan_of(*(STEP._replace(operator=f"Op{number}") for number in range(25)))
    assert main(CONVERT) == 0
    out = capsys.readouterr().out
    assert out.count(" -> ArgMax, Equal\n") == wording.KINDS
    assert "  and 5 nodes of 5 more kinds, which --verbose lists\n" in out
    assert main([*CONVERT, "-v"]) == 0
    assert capsys.readouterr().out.count(" -> ArgMax, Equal by ") == 25


def test_nodes_and_operators_are_listed_under_verbose(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.target = MODEL_13.replace("Hardmax<axis = 1>", "Exp")
    engine.plan = plan_of(STEP._replace(node="main/hot_0", why="why"))
    assert main(CONVERT) == 0
    assert "Abs" not in capsys.readouterr().out
    assert main([*CONVERT, "-v"]) == 0
    out, err = capsys.readouterr()
    assert "Abs " in out
    assert "  main/hot_0: Hardmax-13 -> ArgMax, Equal by hardmax_by_argmax (why); equal on 10 inputs\n" in out
    assert err == "lower\n", "the stages"


def test_refusals_of_one_cause_are_one_line(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    many = [dataclasses.replace(REFUSAL, node=f"main/hot_{number}") for number in range(200)]
    low = Refusal(Code.TYPE, "main/low", "ArgMax-13", "no bfloat16.", "", "no ArgMax; flattened: no bfloat16.")
    engine.error = UnsupportedError((*many, low))
    assert main(CONVERT) == 1
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "error: in.onnx cannot be converted (201 refusals); nothing was written.",
        "  200 x Hardmax-13 (main/hot_0, main/hot_1, main/hot_2, ...): its rank is unknown. Give --input-shape. "
        "[no-lowering]",
        "  1 x ArgMax-13 (main/low): no bfloat16. [type]",
        "  See docs/limits.md#no-lowering, docs/limits.md#type.",
    ]
    assert main([*CONVERT, "-v"]) == 1
    err = capsys.readouterr().err
    assert "main/hot_199" in err
    assert "flattened: no bfloat16." in err, "all obstacles, with the names of lowerings, are for --verbose"


def test_a_fix_of_several_causes_is_printed_once(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    other = dataclasses.replace(REFUSAL, operator="ArgMax-13", node="main/low")
    last = dataclasses.replace(REFUSAL, operator="OneHot-11", node="main/coded", hint="Cast.")
    engine.error = UnsupportedError((REFUSAL, other, last))
    assert main(CONVERT) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: in.onnx cannot be converted (3 refusals); nothing was written.",
        "  1 x Hardmax-13 (main/hot): its rank is unknown. [no-lowering]",
        "  1 x ArgMax-13 (main/low): its rank is unknown. [no-lowering]",
        "  1 x OneHot-11 (main/coded): its rank is unknown. Cast. [no-lowering]",
        "  2 of these: Give --input-shape.",
        "  See docs/limits.md#no-lowering.",
    ]


@pytest.mark.fast(1000)
@pytest.mark.parametrize("code", Code)
def test_every_code_links_to_a_heading_that_exists(code: Code) -> None:
    path, _, anchor = wording.page(code).partition("#")
    text = (Path(__file__).parents[1] / path).read_text(encoding="utf-8")
    assert f"\n## `{anchor}`\n" in text


def test_nothing_to_do_is_said(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan, engine.target = plan_of(source=13, target=13), MODEL_13
    assert main(CONVERT) == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert main([*CONVERT, "--json"]) == 0
    assert strict(capsys.readouterr().out)["nothing_to_do"] is True


def test_a_rewrite_that_changes_no_number_is_something_to_do(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.plan, engine.target = plan_of(STEP, source=13, target=13), MODEL_13
    assert main(CONVERT) == 0
    assert "Nothing to do" not in capsys.readouterr().out


def test_another_ir_version_is_something_to_do(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan, engine.target = plan_of(source=13, target=13), MODEL_13.replace("ir_version: 8", "ir_version: 7")
    assert main(CONVERT) == 0
    assert "Nothing to do" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("report", "extra", "line"),
    [
        (EQUAL, [], "verified: outputs equal on 20 inputs (onnxruntime 1.31.1)"),
        (report_of(Verdict.EQUAL), [], "verified: outputs equal on 10 inputs (onnxruntime 1.31.1)"),
        (UNCHECKED, [], "not verified: the whole model: com.acme.Foo has no kernel"),
        (None, ["--no-verify"], "not verified: verification was switched off with --no-verify"),
    ],
)
def test_the_last_line_is_the_verdict_and_quiet_prints_it_alone(
    report: Report | None, extra: list[str], line: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report = report
    assert main([*CONVERT, *extra]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line
    assert main([*CONVERT, *extra, "-q"]) == 0
    assert capsys.readouterr() == (line + "\n", "")
    assert main([*CONVERT, *extra, "--json"]) == 0
    assert strict(capsys.readouterr().out)["verdict"] == (report.verdict if report else "unchecked")


def test_nodes_that_are_equal_are_counted_where_the_whole_is_not_proven(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report = UNCHECKED
    assert main(CONVERT) == 0
    assert "1 of 1 rewritten node verified: outputs equal on 10 inputs\nnot verified: " in capsys.readouterr().out


def test_assumptions_are_printed(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan = plan_of(STEP, NARROW)
    for command in (CONVERT, PLAN):
        assert main([*command, "--assume", "no-nan"]) == 0
        assert "Valid only if no input holds NaN (--assume no-nan): main/low\n" in capsys.readouterr().out


def test_the_former_name_of_an_assumption_is_told(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERT, "--allow", "finite-inputs"]) == 0
    assert capsys.readouterr().err.startswith("--allow is now called --assume.\n")
    assert main([*CONVERT, "--allow", "nan"]) == 0
    assert engine.asked["assume"] == ()
    assert capsys.readouterr().err.startswith("--allow is now called --assume, and nan is no longer needed.\n")


def test_names_from_a_model_move_no_cursor(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "main/\x1b[2J[bold]\r\u202e"
    engine.plan = plan_of(Step(Action.LOWER, evil, "Hardmax", 13, evil))
    assert main([*PLAN, "-v"]) == 0
    shown = "main/\\x1b[2J[bold]\\r\\u202e"
    assert shown in capsys.readouterr().out
    engine.error = UnsupportedError((Refusal(Code.TYPE, "main/\x1b[2J", "Hardmax-13", "no.", ""),))
    assert main(PLAN) == 1
    assert "\x1b" not in capsys.readouterr().err


# --- plan and verify --------------------------------------------------------------------------------------------------


def test_a_plan_groups_nodes_that_go_the_same_way(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan = plan_of(STEP, STEP, NARROW)
    assert main(PLAN) == 0
    assert capsys.readouterr().out.splitlines() == [
        "opset 13 -> 11, ir_version 8 -> 6",
        "  2 x Hardmax-13 -> ArgMax, Equal",
        "  1 x ArgMax-13 -> TopK",
        "  2 nodes unchanged",
        "Valid only if no input holds NaN (--assume no-nan): main/low",
        "Possible: opset 13 -> 11, 3 nodes rewritten, 0 version bumps, 2 unchanged.",
    ]
    assert main([*PLAN, "-v"]) == 0
    assert capsys.readouterr().out.count("  main/hot: Hardmax-13 -> ArgMax, Equal by") == 2


def test_a_plan_that_is_refused_ends_with_1(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    read = Source(onnx.parser.parse_model(MODEL_13), None, None, None)
    engine.error = UnsupportedError((REFUSAL,), plan_of(STEP, refusals=(REFUSAL,)), read)
    assert main(PLAN) == 1
    out, err = capsys.readouterr()
    assert "1 x Hardmax-13 (main/hot): its rank is unknown. Give --input-shape. [no-lowering]" in out
    assert out.splitlines()[-1] == "Not possible: 1 refusal, opset 13 -> 11."
    assert err == ""
    assert main([*PLAN, "--json"]) == 1
    document = strict(capsys.readouterr().out)
    assert document["status"] == 1
    assert document["plan"]["possible"] is False
    assert document["error"]["refusals"][0]["code"] == "no-lowering"
    assert document["before"]["opset"] == 13
    assert "after" not in document


def test_a_plan_of_nothing(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.plan, engine.target = plan_of(source=13, target=13), MODEL_13
    assert main(PLAN) == 0
    assert capsys.readouterr().out == "Nothing to do: the model already meets the request (opset 13).\n"


@pytest.mark.parametrize(
    ("report", "status", "first"), [(EQUAL, 0, "verified"), (DIFFERENT, 1, "different"), (UNCHECKED, 1, "not verified")]
)
def test_verify(report: Report, status: int, first: str, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = report
    assert main(VERIFY) == status
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith(f"{first}: ")
    assert ("input x = [[1.0, nan]]" in out) == (report is DIFFERENT)
    assert err == ""
    assert main([*VERIFY, "--json"]) == status
    document = strict(capsys.readouterr().out)
    assert document["status"] == status
    assert ("error" in document) == bool(status)
    assert document["report"]["verdict"] == report.verdict


def test_verify_says_more_or_less(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = DIFFERENT
    assert main([*VERIFY, "-v"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "Hardmax-13 at main/hot_0: ties go to the last",
        "the whole model: ties go to the last",
        "seed 0, effort normal; onnxruntime 1.31.1",
    ]
    assert main([*VERIFY, "-q"]) == 1
    assert capsys.readouterr().out.splitlines() == lines[-1:]


# --- inspect, ops, targets --------------------------------------------------------------------------------------------


def test_inspect(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "in.onnx"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "in.onnx: opset 13, ir_version 8, by unknown",
        "Other domains: com.acme 2",
        "Operator       Since  Nodes",
        "com.acme::Foo  -      1",
        "Hardmax        13     3",
        "Convertible to opset 11 to 13, 15.",
        "Blockers of opset 10:",
        "  2 x Hardmax-13 (main/hot, ...): its rank is unknown. Give --input-shape. [no-lowering]",
        "Blockers of opset 14:",
        "  1 x Hardmax-13 (main/hot): its rank is unknown. Give --input-shape. [no-lowering]",
        "Blockers of opset 16: 1 x Hardmax-13.",
    ]
    assert main(["inspect", "in.onnx", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert out.count("[no-lowering]") == 4
    assert "Not convertible to opset 14, 16:" in out
    assert main(["inspect", "in.onnx", "--json"]) == 0
    printed = strict(capsys.readouterr().out)
    document = printed["inspection"]
    assert (printed["status"], document["reachable"]) == (0, [11, 12, 13, 15])
    assert document["blocked"]["14"][0]["code"] == "no-lowering"
    assert (document["down"]["opset"], document["down"]["obstacles"][0]["nodes"]) == (10, 2)
    assert document["up"]["obstacles"][0]["hint"] == "Give --input-shape."


def test_inspect_a_model_that_can_go_nowhere(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = FakeInspection(producer="pytorch 2", domains={"": 13}, reachable=(), down=None)
    monkeypatch.setattr(
        sys.modules["opshift.passes.inspection"], "inspect", lambda path, assume_opset=None, allow_paths=(): found
    )
    assert main(["inspect", "in.onnx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("by pytorch 2")
    assert lines[1].startswith("Operator")
    assert "Convertible to opset (none)." in lines


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "1, 11, 12, 13" in rows["ArgMax"]
    assert "9, 11, 28" in rows["OneHot"]
    assert "opshift::HardmaxAxes" in rows
    assert main(["ops", "--json"]) == 0
    listed = strict(capsys.readouterr().out)["known_operators"]
    assert {operator["name"] for operator in listed} == {name.rpartition("::")[2] for name in rows} - {"Operator"}


def test_ops_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "Hardmax", "ArgMax"]) == 0
    out = capsys.readouterr().out
    assert "Hardmax: versions 1, 11, 13" in out
    assert main(["ops", "Hardmax", "--json"]) == 0
    (operator,) = strict(capsys.readouterr().out)["known_operators"]
    assert (operator["name"], operator["versions"]) == ("Hardmax", [1, 11, 13])
    assert operator["lowerings"]
    assert main(["ops", "ArgMax"]) == 0
    assumes = {line.split()[0]: line.split()[2] for line in capsys.readouterr().out.splitlines()[2:]}
    assert (assumes["widened"], assumes["first_sign"]) == ("no", "yes")
    for described in operator["lowerings"]:
        assert f"{described['name']} " in out
        assert described["summary"] in out


PROFILE = 'name = "mine"\nopset = [9, 13]\nir_version = [3, 8]\noperators = ["Add", "Mul"]\nwithout = ["Sub"]\n'


def test_a_target_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PROFILE)
    assert main(["targets", str(file)]) == 0
    assert capsys.readouterr() == (PROFILE, "")
    assert main(["targets", str(file), "--json"]) == 0
    assert strict(capsys.readouterr().out)["targets"] == [
        {
            "name": "mine",
            "version": "",
            "opset": [9, 13],
            "ir_version": [3, 8],
            "functions": True,
            "static": False,
            "measured": False,
            "domains": {},
            "operators": ["Add", "Mul"],
            "without": ["Sub"],
            "limits": [],
        }
    ]


def test_a_target_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("opsets = [9, 13]")
    assert main(["targets", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "opset" in err
    assert err.count("\n") == 1


def test_targets_where_none_is_built_in(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("opshift.opsets.runtimes.profiles.builtin_targets", lambda: ())
    assert main(["targets"]) == 0
    assert capsys.readouterr().out == "No profile is built in; --target accepts a TOML file.\n"
    assert main(["targets", "--json"]) == 0
    assert strict(capsys.readouterr().out)["targets"] == []


def test_targets_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, all_of_it = tmp_path / "mine.toml", tmp_path / "all.toml"
    mine.write_text(PROFILE)
    all_of_it.write_text('name = "all"\n')
    monkeypatch.setattr("opshift.opsets.runtimes.profiles.builtin_targets", lambda: (str(mine), str(all_of_it)))
    monkeypatch.setattr(
        "opshift.opsets.runtimes.profiles.load_target", lambda path: parse_target(Path(path).read_text(), path)
    )
    assert main(["targets"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Target  Version  Opset    ir_version  Operators  Without  Limits",
        "mine    -        9 to 13  3 to 8      2          1        0",
        f"all     -        7 to {NEWEST}  any         all        0        0",
    ]


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    from opshift.opsets.runtimes.profiles import builtin_targets

    assert main(["targets"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == list(builtin_targets())
    assert main(["targets", "--json"]) == 0
    assert [target["name"] for target in strict(capsys.readouterr().out)["targets"]] == rows


# --- files ------------------------------------------------------------------------------------------------------------


def test_in_place(engine: Engine) -> None:
    assert main(["convert", "in.onnx", "--in-place", "--opset", "11"]) == 0
    assert Path("in.onnx").read_bytes() == b"converted"


def test_in_place_with_the_same_path_given(engine: Engine) -> None:
    assert main(["convert", "in.onnx", "-o", "./in.onnx", "--in-place", "--opset", "11"]) == 0
    assert Path("in.onnx").read_bytes() == b"converted"


def test_no_report_beside_a_model_that_could_not_be_written(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.unwritable = True
    Path("report.json").write_text("old")
    before = set(Path().iterdir())
    assert main([*CONVERT, "--report", "report.json"]) == 2
    assert capsys.readouterr().err == "error: out.onnx cannot be written: disk full.\n"
    assert Path("report.json").read_text() == "old"
    assert set(Path().iterdir()) == before, "no draft is left"


def test_no_model_beside_a_report_that_could_not_be_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "_exclusive", full)
    assert main([*CONVERT, "--report", "report.json"]) == 2
    assert "report.json cannot be written: no space left on device." in capsys.readouterr().err
    assert not Path("out.onnx").exists()


def test_a_report_that_somebody_has_open_on_windows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def replace(path: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    Path("report.json").write_text("old")
    monkeypatch.setattr(Path, "replace", replace)
    assert main([*CONVERT, "--report", "report.json"]) == 2
    assert capsys.readouterr().err == "error: --report report.json cannot be written: permission denied.\n"
    assert Path("report.json").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["in.onnx", "report.json"]


def test_a_report_is_what_json_prints(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERT, "--json", "--report", "report.json"]) == 0
    document = strict(capsys.readouterr().out)
    assert strict(Path("report.json").read_text()) == document
    assert document["before"]["operators"]["Hardmax"] == {"count": 1, "since_version": 13}
    assert (document["before"]["opset"], document["after"]["opset"]) == (13, 11)
    assert (document["before"]["ir_version"], document["after"]["ir_version"]) == (8, 6)
    assert document["plan"]["steps"][0]["lowerings"] == ["hardmax_by_argmax"]
    assert document["report"]["whole"]["judge"] == "onnxruntime 1.31.1"


# --- parts ------------------------------------------------------------------------------------------------------------


def test_census_counts_graphs_inside_nodes_and_functions() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 13, "own": 1]>
main (bool c, float[2] x) => (float[2] y) {
  a = own.f(x)
  b = own.f(a)
  y = If(c) <then_branch = t () => (float[2] u) { v = Neg(b) u = Neg(v) },
             else_branch = e () => (float[2] w) { w = ai.onnx.Neg(b) }>
}
<domain: "own", opset_import: ["": 13]> f (p) => (q) { q = Abs(p) }""")
    counted = operator_counts.count_operators(model)
    assert (counted.opset, counted.ir_version) == (13, 8)
    assert counted.operators == {
        "Abs": operator_counts.Count(1, 13),
        "If": operator_counts.Count(1, 13),
        "Neg": operator_counts.Count(3, 13),
        "own::f": operator_counts.Count(2, None),
    }


@pytest.mark.parametrize(
    ("opsets", "words"), [((), ""), ((9,), "9"), ((9, 10), "9 to 10"), ((15, 9, 11, 10, 14), "9 to 11, 14 to 15")]
)
def test_ranges(opsets: tuple[int, ...], words: str) -> None:
    assert inspect.ranges(opsets) == words


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "NaN"),
        ({1: (2, [3.5])}, {"1": [2, [3.5]]}),
        (frozenset({3, 1, 2}), [1, 2, 3]),
        (range(2), [0, 1]),
        (b"\xff", "\\xff"),
        (True, True),
        (None, None),
        (Verdict.EQUAL, "equal"),
        (Path("x"), "x"),
        (np.float32(0.5), 0.5),
        (np.array([1, 2]), [1, 2]),
        (
            COUNTEREXAMPLE,
            {
                "inputs": {"x": [[1.0, "NaN"]]},
                "output": "y",
                "expected": [[0.0, "Infinity"]],
                "actual": [[1.0, "-Infinity"]],
                "node": "",
                "command": "",
            },
        ),
    ],
)
def test_jsonable(value: Any, expected: Any) -> None:
    assert strict(output.to_json(value)) == expected


def test_did_you_mean_ends_the_sentence_where_nothing_is_near() -> None:
    assert options.did_you_mean("zzz", ["Hardmax"]) == "."
    assert options.did_you_mean("hardmax", ["Hardmax", "ArgMax"]) == ". Did you mean 'Hardmax'?"


# --- terminals and pipes ----------------------------------------------------------------------------------------------

FAKE_RUN = """
import sys, types
from opshift.passes.runtime import ort_models as sessions
from opshift.passes.base.report import *
from opshift.passes.io.atomic_files import Batch
from opshift.cli.main import main
sessions.read = lambda *_: sessions.Runnable(sessions.onnx.ModelProto())
def verify(*_, progress, **__):
    if progress: progress("whole model", 1, 4)
    check = Check("", "", Verdict.EQUAL, "", "onnxruntime 1.31.1", 3)
    return Report((), check, 0, {})
sys.modules["opshift.passes.proof.verify"] = types.SimpleNamespace(verify=verify)
sys.exit(main(sys.argv[1:] or ["verify", "a", "b"]))
"""


def in_terminal(stream: str, *arguments: str, **environment: str) -> str:
    """Run the fake comparison, or another command, with one stream on a terminal, and return what came there."""
    import pty

    ours, theirs = pty.openpty()
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: theirs}
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environment}
    process = subprocess.Popen([sys.executable, "-c", FAKE_RUN, *arguments], env=environment, **streams)
    process.communicate(timeout=60)
    os.close(theirs)
    assert process.returncode == 0
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123
        try:
            return terminal.read(100_000).decode()
        except OSError:
            return ""


posix = pytest.mark.skipif(os.name != "posix", reason="terminals of another kind")


@posix
def test_colour_on_a_terminal_and_none_under_no_color() -> None:
    assert "\x1b[32mverified" in in_terminal("stdout")
    plain = in_terminal("stdout", NO_COLOR="1")
    assert "verified" in plain
    assert "\x1b" not in plain


class Screen(io.StringIO):
    """A terminal that does not know how wide it is."""

    def isatty(self) -> bool:
        return True


def test_lines_are_broken_between_words_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    output.message("  2 x Hardmax-13 lowered to ArgMax, Equal by hardmax_by_argmax", "    shown by: " + "opshift " * 9)
    assert screen.getvalue().splitlines() == [
        "  2 x Hardmax-13 lowered to ArgMax,",
        "    Equal by hardmax_by_argmax",
        "    shown by: " + "opshift " * 9,
    ]
    monkeypatch.setenv("COLUMNS", "none")
    assert output.folded("word " * 20, screen) == f"{'word ' * 15}word\n{'word ' * 3}word"
    assert output.folded("word " * 20, io.StringIO()) == "word " * 20


@posix
def test_bold_on_a_terminal_and_none_under_no_color() -> None:
    assert "\x1b[1mHardmax: versions" in in_terminal("stdout", "ops", "Hardmax")
    plain = in_terminal("stdout", "ops", "Hardmax", NO_COLOR="1")
    assert "Hardmax: versions" in plain
    assert "\x1b" not in plain


def test_changed_rows_stand_out_on_a_terminal(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    engine.target = MODEL_13.replace("Hardmax<axis = 1>", "Exp")
    assert main([*CONVERT, "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    bold = {name: any(line.startswith(f"\x1b[1m{name}") for line in lines) for name in ("Abs", "Exp", "Hardmax", "Neg")}
    assert bold == {"Abs": False, "Exp": True, "Hardmax": True, "Neg": False}


@posix
def test_progress_on_a_terminal_only() -> None:
    assert "whole model" in in_terminal("stderr")
    assert in_terminal("stderr", TERM="dumb") == ""


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"COLUMNS": "10"}])
def test_a_pipe_gets_whole_lines_without_colour_or_bars(environment: dict[str, str]) -> None:
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", FAKE_RUN], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "verified: outputs equal on 3 inputs (onnxruntime 1.31.1)\n"
    assert done.stderr == ""


SLOW_RUN = """
import time
from opshift.cli import terminal
terminal.EVERY = 0.2
with terminal.progress(quiet=False, verbose=False) as show:
    show("nodes", 3, 7)
    time.sleep(1)
"""


def test_a_pipe_gets_a_line_of_progress_from_time_to_time() -> None:
    assert output.EVERY == 10
    done = subprocess.run([sys.executable, "-c", SLOW_RUN], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert re.fullmatch(r"(nodes 3 of 7, [01] s\n){2,5}", done.stderr)
    quiet = SLOW_RUN.replace("quiet=False", "quiet=True").replace("show(", "print(")
    assert subprocess.run([sys.executable, "-c", quiet], capture_output=True, text=True, check=True).stderr == ""


@posix
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--json"], ["--help"], ["convert", "--help"]], ids=" ".join)
def test_a_reader_that_has_gone_away_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "opshift", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["ops"], ["targets"], ["targets", "--json"]], ids=" ".join)
def test_a_result_that_cannot_be_printed(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "opshift", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr == "error: the result cannot be printed: No space left on device.\n"


@pytest.mark.slow
@posix
def test_no_stdout_at_all() -> None:
    command = f"{sys.executable} -m opshift targets >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_streams_that_know_ascii_only(tmp_path: Path) -> None:
    file = tmp_path / "profile.toml"
    file.write_text('name = "m\u00efne"\n', encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = opshift("targets", str(file), env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, 'name = "m\\xefne"\n', "")
    done = opshift("ops", "H\u00e4rdmax", env=environment)
    assert done.returncode == 2
    assert "H\\xe4rdmax" in done.stderr


# --- the real engine --------------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parent.parent / "fixtures"
HARDMAX_13 = str(FIXTURES / "hardmax-opset13.onnxtxt")
HARDMAX_12 = str(FIXTURES / "hardmax-opset12.onnxtxt")
ALL_THREE = str(FIXTURES / "all-three-opset13.onnxtxt")


def test_real_conversion(tmp_path: Path) -> None:
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    done = opshift("convert", HARDMAX_13, "-o", str(out), "--opset", "11", "--report", str(report))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("verified: ")
    assert onnx.load(out).opset_import[0].version == 11
    document = strict(report.read_text())
    assert (document["before"]["opset"], document["after"]["opset"]) == (13, 11)
    done = opshift("verify", HARDMAX_13, str(out))
    assert (done.returncode, done.stderr) == (0, "")


def test_real_decomposition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    assert main(["convert", ALL_THREE, "-o", str(out), "--decompose", "Hardmax,ArgMax,OneHot", "--json"]) == 0
    document = strict(capsys.readouterr().out)
    assert document["verdict"] == "equal"
    assert {"Hardmax", "ArgMax", "OneHot"} <= set(document["before"]["operators"])
    assert not {"Hardmax", "ArgMax", "OneHot"} & set(operator_counts.count_operators(onnx.load(out)).operators)


@lowering(18, bind=lambda meaning, operands: {"axis": meaning.axis})
def least(data, axis: int):  # type: ignore[no-untyped-def]
    """Take the index of the smallest: a lowering that is wrong."""
    _, index = op.TopK(data, [1], axis=axis, largest=0)
    return index


@pytest.fixture
def wrong_lowering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plant a lowering of ArgMax that gives another index."""
    planted = dataclasses.replace(argmax.OPERATOR, lowerings=(least,))
    with monkeypatch.context() as patch:
        patch.setattr(argmax, "OPERATOR", planted)
        operator_for.cache_clear()
        yield
    operator_for.cache_clear()


def test_real_wrong_lowering(wrong_lowering: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(FIXTURES / "argmax-opset13.onnxtxt"), tmp_path / "out.onnx"
    out.write_bytes(b"old")
    assert main(["convert", source, "-o", str(out), "--decompose", "ArgMax"]) == 1
    printed, err = capsys.readouterr()
    assert printed == ""
    assert out.read_bytes() == b"old"
    lines = err.splitlines()
    assert lines[0].startswith("error: the converted ")
    assert lines[1].startswith("  ArgMax-13 at main/")
    assert lines[2].startswith("    input data = [")
    assert ": expected [" in lines[3]
    assert ": actual   [" in lines[4]
    assert main(["convert", source, "-o", str(out), "--decompose", "ArgMax", "--json"]) == 1
    error = strict(capsys.readouterr().out)["error"]
    assert error["report"]["verdict"] == "different"
    assert error["report"]["nodes"][0]["counterexample"]["inputs"]
    assert out.read_bytes() == b"old"


def test_real_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(onnx.parser.parse_model(Path(HARDMAX_13).read_text()).SerializeToString())
    assert main(["convert", str(source), "-o", str(out), "--opset", "13"]) == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert out.read_bytes() == source.read_bytes()


def test_real_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    out.write_bytes(b"old")
    assert main(["convert", HARDMAX_13, "-o", str(out), "--opset", "6"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[opset-too-old]" in captured.err
    assert out.read_bytes() == b"old"
    assert main(["plan", HARDMAX_13, "--opset", "6", "--json"]) == 1
    assert strict(capsys.readouterr().out)["error"]["refusals"][0]["code"] == "opset-too-old"


def test_real_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", ALL_THREE, "--decompose", "OneHot"]) == 0
    out, err = capsys.readouterr()
    assert "  1 x OneHot-11 -> " in out
    assert out.splitlines()[-1].startswith("Possible: opset 13 -> 13, 1 node rewritten")
    assert err == ""


def test_real_inspection(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", HARDMAX_13, "--json"]) == 0
    document = strict(capsys.readouterr().out)
    assert document["inspection"]["opset"] == 13
    assert {11, 13} <= set(document["inspection"]["reachable"])


OUT_OF_REACH = """<ir_version: 8, opset_import: ["": 17]>
g (float[5,5] x, string[2] s) => (float y, string[k] t) {
    a = Det (x)
    b = Det (x)
    y = Add (a, b)
    t = StringNormalizer (s)
}"""


def test_real_obstacles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next opset down that is out of reach, by operator with the nodes counted; each with the opset that helps."""
    path = tmp_path / "det.onnxtxt"
    path.write_text(OUT_OF_REACH)
    assert main(["inspect", str(path), "--json"]) == 0
    document = strict(capsys.readouterr().out)["inspection"]
    assert (document["down"]["opset"], document["up"]) == (10, None)
    (obstacle,) = document["down"]["obstacles"]
    assert (obstacle["operator"], obstacle["nodes"], obstacle["node"]) == ("Det-11", 2, "main/Det_0")
    assert obstacle["hint"] == "Use opset 11 or newer, if the runtime allows."
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("Blockers of opset 10:")
    assert lines[-2].startswith("  2 x Det-11 (main/Det_0, ...): opset 10 has no Det")
    assert lines[-1] == "Blockers of opset 7 to 9: 2 x Det-11, 1 x StringNormalizer-10."
    assert main(["plan", str(path), "--opset", "9"]) == 1
    out = capsys.readouterr().out
    assert out.count("Use opset 11 or newer, if the runtime allows.") == 1
    assert "  2 x Det-11 (main/Det_0, main/Det_1): opset 9 has no Det" in out
    assert out.count("Use opset 10 or newer, if the runtime allows.") == 1


def test_real_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hardmax-13 takes the last axis, Hardmax-11 all from the second on: alike up to rank 2 only."""
    text = '<ir_version: 7, opset_import: ["": {}]> main (float[2,2,2] x) => (float[2,2,2] y) {{ y = Hardmax(x) }}'
    paths = [tmp_path / "13.onnxtxt", tmp_path / "11.onnxtxt"]
    for path in paths:
        path.write_text(text.format(path.stem))
    assert main(["verify", *map(str, paths)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("different: the whole model: ")
    assert sum(line.startswith("    output y: ") for line in lines) == 2
    assert any(line.startswith("    input x = [[[") for line in lines)


BAD_FILES = [
    ("missing", None, "no such file"),
    ("empty", b"", "empty"),
    ("text", b"hello, this is no model\n", "not an ONNX model"),
    ("truncated", onnx.parser.parse_model(MODEL_13).SerializeToString()[:-40], ""),
    ("too new", onnx.parser.parse_model(MODEL_13.replace('"": 13', '"": 99')).SerializeToString(), "99"),
    ("axis", onnx.parser.parse_model(MODEL_13.replace("axis = 1", "axis = 5")).SerializeToString(), "axis"),
]


@pytest.mark.parametrize(("content", "words"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES])
@pytest.mark.parametrize("command", ["convert", "plan", "inspect", "verify"])
def test_real_bad_file(
    command: str, content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    if content is not None:
        source.write_bytes(content)
    more = {
        "convert": ["-o", str(out), "--opset", "11"],
        "plan": ["--opset", "11"],
        "inspect": [],
        "verify": [HARDMAX_13],
    }
    assert main([command, str(source), *more[command]]) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    assert words in err
    assert "in.onnx" in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_real_opset_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    assert main(["convert", HARDMAX_13, "-o", str(out), "--opset", "99"]) == 2
    assert "99" in capsys.readouterr().err
    assert not out.exists()


def test_real_input_shape_of_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    assert main(["convert", HARDMAX_13, "-o", str(out), "--opset", "11", "--input-shape", "nope:1"]) == 2
    assert "nope" in capsys.readouterr().err
    assert not out.exists()


def test_equal_bytes_are_not_said_to_have_been_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m.onnxtxt"
    model.write_text('<ir_version: 8, opset_import: ["":13]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    assert main(["verify", str(model), str(model)]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last == "verified: the two models are the same, byte for byte"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("Hardmacks", "did you mean Hardmax?"),
        ("argmax", "did you mean ArgMax?"),
        ("ArgMax,Zzzyx", "no operator 'Zzzyx'. `opshift ops`"),
    ],
)
def test_an_operator_that_nobody_has_is_a_usage_error(
    asked: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a function of the model, which is read first."""
    assert main(["convert", ALL_THREE, "-o", str(tmp_path / "out.onnx"), "--decompose", asked]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert not [*tmp_path.iterdir()]


def test_an_operator_of_onnxruntime_alone_is_named_without_its_domain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", ALL_THREE, "--decompose", "FastGelu"]) == 0
    assert "the model has no com.microsoft::FastGelu" in capsys.readouterr().out
    assert main(["plan", ALL_THREE, "--decompose", "FastGeluu"]) == 2
    assert "did you mean FastGelu?" in capsys.readouterr().err
