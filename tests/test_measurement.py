"""`opshift targets --measure`: a profile of what a runtime was seen to run."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from opshift.cli.main import main
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.profiles import parse_target
from opshift.passes.base.errors import UsageError
from opshift.passes.measurement.isolated import Isolated, RefusedError, builtin_adapters, load_adapter
from opshift.passes.measurement.limits import Observed, limit_as_toml, limits_of
from opshift.passes.measurement.measure import measure

FLAWED = '''
"""onnxruntime with flaws: Neg ends the process, Sign is wrong, Clip reads constants, ArgMax has no last index."""
import os
import numpy as np
import onnx
import onnxruntime

NAME = "flawed"
OPSET = 13


def version():
    return "1.0"


def run(model, inputs):
    graph = onnx.ModelProto.FromString(model).graph
    node = graph.node[0]
    if node.op_type == "Neg":
        os._exit(3)
    if node.op_type == "Clip" and len(inputs) > 1:
        raise ValueError("bounds are constants")
    if any(one.name == "select_last_index" for one in node.attribute):
        raise ValueError("unknown attribute")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(names, inputs)))
    return {name: one + 1 for name, one in found.items()} if node.op_type == "Sign" else found
'''
ABS = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
OPERATORS = ("Abs", "ArgMax", "Clip", "Neg", "Sign")


@pytest.fixture
def flawed(tmp_path: Path) -> str:
    (tmp_path / "flawed.py").write_text(FLAWED)
    return str(tmp_path / "flawed.py")


def test_a_profile_has_what_ran_right_and_limits_on_the_rest(flawed: str) -> None:
    told: list[tuple[str, int, int]] = []
    found = measure(
        flawed, operators=OPERATORS, today=datetime.date(2026, 1, 2), progress=lambda *one: told.append(one)
    )
    target = parse_target(found.profile, "flawed.toml")
    assert (target.name, target.version, target.opset, target.measured) == ("flawed", "1.0", (13, 13), True)
    assert target.operators == frozenset({"Abs", "ArgMax", "Clip"})
    assert "measured on 2026-01-02" in found.profile
    assert "Never right: Neg, Sign" in found.profile
    assert {(limit.operator, limit.constant_inputs) for limit in target.limits if limit.constant_inputs} >= {
        ("Clip", ("min",))
    }
    assert any(limit.operator == "ArgMax" and "select_last_index" in limit.attributes for limit in target.limits)
    assert all("1.0" in limit.reason for limit in target.limits)
    assert found.wrong > 0
    assert found.refused > 0
    assert told[-1][2] == told[-1][1] + 1


def test_the_command_writes_a_profile_that_conversions_take(
    flawed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "flawed.toml"
    assert main(["targets", "--measure", flawed, "--operators", ",".join(OPERATORS), "-o", str(out), "-q"]) == 0
    assert "models ran right" in capsys.readouterr().out
    found = opshift.where(parse_model(ABS), [out])
    assert [str(fit.outcome) for fit in found.fits] == ["runs"]
    (fit,) = opshift.where(parse_model(ABS.replace("Abs", "Neg")), [out]).fits
    assert [one.operator for one in fit.refusals] == ["Neg-13"]
    assert main(["targets", "--measure", flawed, "--operators", "Abs", "--json"]) == 0
    (target,) = json.loads(capsys.readouterr().out)["targets"]
    assert target["operators"] == ["Abs"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--measure", "nothing"], "no adapter is called 'nothing'"),
        (["--measure", "missing.py"], "is no Python file"),
        (["--measure", "onnxruntime", "mnn"], "cannot be combined with a profile"),
        (["--operators", "Abs"], "requires --measure"),
        (["--measure", "onnxruntime", "-o", "no/folder.toml"], "there is no folder"),
        (["--measure", "onnxruntime", "--operators", "Foo"], "no node test of Foo"),
    ],
)
def test_a_request_that_cannot_be_served(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["targets", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_adapter_that_lacks_something_is_named(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("NAME = 'half'\n")
    with pytest.raises(UsageError, match="defines no OPSET and no version and no run"):
        load_adapter(str(tmp_path / "half.py"))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        load_adapter(str(tmp_path / "broken.py"))


ADAPTERS = {
    "OPSET = 'x'": "must be an integer",
    "OPSET = 99": "must be an integer from 7",
    "NAME = ''": "must be a string",
    "def version(): raise ValueError('lost')": "ValueError: lost",
    "def run(model, inputs): import os; os._exit(9)": "its process ended",
    "def run(model, inputs): return []": "ran none of 1 models right",
    "def run(model, inputs): return {}": "its outputs are not those",
}


@pytest.mark.parametrize("line", ADAPTERS)
def test_a_faulty_adapter_is_a_usage_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    whole = "NAME, OPSET = 'mine', 13\ndef version(): return 1\ndef run(model, inputs): return {}\n"
    path.write_text(f"{whole}{line}\n")
    with pytest.raises(UsageError, match=ADAPTERS[line]):
        measure(str(path), operators=["Sign"])


def test_all_adapters_that_come_with_opshift_are_complete() -> None:
    assert builtin_adapters() == (
        *("mnn", "ncnn", "onnxruntime", "onnxruntime-web", "opencv-4", "openvino", "tract", "webgpu"),
    )
    for name in builtin_adapters():
        assert name == load_adapter(name).NAME


@pytest.mark.slow
def test_a_runtime_that_takes_too_long_is_ended_and_started_again(tmp_path: Path) -> None:
    source = (
        "import time\nNAME = 'slow'\nOPSET = 13\ndef version(): return '1'\ndef run(model, inputs):\n"
        "    time.sleep(inputs['x'].item())\n    return inputs\n"
    )
    (tmp_path / "slow.py").write_text(source)
    runtime = Isolated(str(tmp_path / "slow.py"), timeout=5)
    with pytest.raises(RefusedError, match="took too long"):
        runtime.run(b"", {"x": np.array(60.0)})
    assert runtime.run(b"", {"x": np.array(0.0)}) == {"x": np.array(0.0)}
    runtime.close()


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
def test_what_a_runtime_has_started_ends_with_it(tmp_path: Path) -> None:
    """Node.js does not see the end of its input while it computes."""
    text = """import pathlib, subprocess, time
NAME, OPSET = "starter", 13

def version():
    return "1"

def run(model, inputs):
    pathlib.Path({path!r}).write_text(str(subprocess.Popen(["sleep", "60"]).pid))
    time.sleep(60)
"""
    (tmp_path / "starter.py").write_text(text.replace("{path!r}", repr(str(tmp_path / "pid"))))
    runtime = Isolated(str(tmp_path / "starter.py"), timeout=10)
    with pytest.raises(RefusedError):
        runtime.run(b"", {})
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    deadline = time.monotonic() + 10
    while stat.exists() and stat.read_text().split()[2] not in "ZX" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not stat.exists() or stat.read_text().split()[2] in "ZX"


def clip(*, low: Facts | None, right: bool, rank: int = 2, dtype: int = 1) -> Observed:
    schema = schema_at("", "Clip", 13)
    assert schema is not None
    inputs = (Facts(dtype, (2,) * rank), low)
    return Observed(Node("", "Clip", 13, {}, inputs, (True,)), schema, "right" if right else "wrong")


CONSTANT, FED = constant(np.zeros((), np.float32)), Facts(1, ())


def test_limits_separate_what_ran_right() -> None:
    assert limits_of([clip(low=CONSTANT, right=True)]) == ()
    assert limits_of([clip(low=CONSTANT, right=True), clip(low=FED, right=False)]) == (
        Limit("Clip", constant_inputs=("min",)),
    )
    assert limits_of([clip(low=None, right=True), clip(low=None, right=False, dtype=7)]) == (
        Limit("Clip", dtypes={"input": ("float",)}),
    )
    ranks = limits_of([clip(low=None, right=True), clip(low=None, right=False, rank=5)])
    assert ranks == (Limit("Clip", computed_ranks={"input": (2,)}),)


def test_what_no_limit_separates_has_none() -> None:
    assert limits_of([clip(low=None, right=True), clip(low=None, right=False)]) is None
    assert limits_of([clip(low=None, right=False)]) is None


def test_a_limit_as_toml_is_read_back() -> None:
    limit = Limit("Clip", dtypes={"input": ("float", "int64")}, constant_inputs=("min",), reason='a "reason"')
    assert parse_target(f'name = "m"\n{limit_as_toml(limit)}', "m.toml").limits == (limit,)
    pool = Limit("MaxPool", explicit=("strides",), computed_ranks={"X": (3, 4)}, never=True, reason="r")
    assert parse_target(f'name = "m"\n{limit_as_toml(pool)}', "m.toml").limits == (pool,)
