"""The writer of files: what is written together arrives together, and nothing else is touched or left behind."""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnx.parser
import pytest

import opshift
from opshift.cli import signals
from opshift.cli.main import main
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.conversion.result import Result
from opshift.passes.io import atomic_files, external_data
from opshift.passes.io.atomic_files import Batch, Lines
from opshift.passes.proof import verify as verifying
from opshift.passes.proof.whole_model import WholeModels

KILLS = int(os.environ.get("OPSHIFT_KILLS", "100"))
"""How often a process that writes is killed."""

posix = pytest.mark.skipif(os.name != "posix", reason="signals and modes of POSIX")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")

MODEL = '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[2,3] y) { [hot] y = Hardmax(x) }'
WEIGHED = '<ir_version: 8, opset_import: ["":13]> g (float[2] x) => (float[2] y) { z = Add(x, w) [hot] y = Hardmax(z) }'


def tree(folder: Path) -> dict[str, bytes | str]:
    """All that is below a folder: links, contents, and folders."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a model."""
    monkeypatch.chdir(tmp_path)
    Path("in.onnx").write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    return tmp_path


def weighed(path: str = "in.onnx", weights: tuple[float, float] = (1, 2)) -> None:
    """Write a model with weights in `w.bin`."""
    model = onnx.parser.parse_model(WEIGHED)
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[2], data_location=1)
    tensor.external_data.add(key="location", value="w.bin")
    Path(path).write_bytes(model.SerializeToString())
    Path("w.bin").write_bytes(np.array(weights, np.float32).tobytes())


CONVERT = ["convert", "in.onnx", "-o", "out.onnx", "--opset", "11"]
FAST = [*CONVERT, "--no-verify"]


# --- batches ---


def test_a_batch_that_is_not_published_leaves_nothing(folder: Path) -> None:
    before = tree(folder)
    with Batch() as batch:
        batch.make_folders(folder / "a" / "b")
        batch.draft(folder / "a" / "b" / "c").write(b"1")
        batch.draft(folder / "in.onnx").write(b"2")
    assert tree(folder) == before


FAULTS = [OSError(28, "No space left on device"), KeyboardInterrupt()]


@pytest.mark.parametrize("fault", FAULTS, ids=["full", "interrupted"])
@pytest.mark.parametrize("step", ["fsync", "replace", "link", "ready"])
@pytest.mark.parametrize("at", range(1, 4))
def test_all_files_of_a_batch_arrive_or_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, step: str, at: int
) -> None:
    for name in ("first", "second"):
        Path(name).write_text("old")
    before = tree(folder)
    calls = [0]
    target: Any = {"fsync": os, "link": os, "replace": Path, "ready": None}[step]
    real: Callable[..., object] = getattr(target, step) if target else lambda: None

    def failing(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] == at:
            raise fault
        return real(*arguments)

    if target:
        monkeypatch.setattr(target, step, failing)
    done = False
    with contextlib.suppress(UsageError, OSError, KeyboardInterrupt), Batch() as batch:
        batch.ready += [lambda: cast("None", failing())] if step == "ready" else []
        batch.make_folders(folder / "new")
        for name in ("first", "new/file", "second"):
            batch.draft(folder / name).write(b"new")
        batch.publish()
        done = True
    monkeypatch.undo()
    after = tree(folder)
    assert not [name for name in after if ".opshift-" in name]
    if done:
        assert (after["first"], after["second"], after["new/file"]) == (b"new",) * 3
        assert calls[0] < at or (step == "link" and isinstance(fault, OSError))  # without links there are copies
    else:
        assert after == before
    assert calls[0] >= (at if step == "fsync" else 1)


@posix
def test_mode_and_owner_stay_and_drafts_are_private(folder: Path) -> None:
    target = folder / "secret.json"
    target.write_text("old")
    target.chmod(0o640)
    if not os.getuid():
        os.chown(target, 1234, 4321)
    with Batch() as batch:
        file = batch.draft(target)
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        batch.publish()
    status = target.stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert os.getuid() or (status.st_uid, status.st_gid) == (1234, 4321)


@posix
def test_a_report_keeps_its_mode_and_its_link(folder: Path) -> None:
    (folder / "there").mkdir()
    real = folder / "there" / "real.json"
    real.write_text("old")
    real.chmod(0o604)
    Path("report.json").symlink_to("there/real.json")
    assert main([*FAST, "--report", "report.json"]) == 0
    assert Path("report.json").readlink() == Path("there/real.json")
    assert json.loads(real.read_text())["output"] == "out.onnx"
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    assert set(tree(folder / "there")) == {"real.json"}


@posix
def test_links_at_names_that_can_be_foreseen_are_not_followed(folder: Path) -> None:
    """As drafts were called once, and as anybody may think that they are."""
    victim = folder / "victim"
    victim.write_text("precious")
    planted = [
        f"{dot}{name}{middle}{end}"
        for name in ("report.json", "out.onnx")
        for dot in ("", ".")
        for middle in ("", f".{os.getpid()}", f".{os.getpid() + 1}")
        for end in (".tmp", ".old", ".part", "~", ".bak")
    ]
    for name in planted:
        Path(name).symlink_to(victim)
    assert main([*FAST, "--report", "report.json"]) == 0
    assert victim.read_text() == "precious"
    assert all(Path(name).readlink() == victim for name in planted)
    assert not Path("report.json").is_symlink()


@posix
def test_a_draft_takes_no_name_that_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if somebody foresaw it: neither a link nor a file of that name is opened."""
    victim = folder / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    place = atomic_files._name(folder / "out.onnx")
    planted: list[Callable[[], object]] = [
        lambda: place.symlink_to(victim),
        lambda: place.symlink_to("nowhere"),
        lambda: place.mkdir(),
    ]
    for make in planted:
        make()
        before = tree(folder)
        assert main(FAST) == 2
        assert tree(folder) == before
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()


@posix
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "folder"])
def test_a_journal_is_a_regular_file(folder: Path, kind: str) -> None:
    victim = folder / "victim"
    victim.write_text("precious")
    place = folder / "journal"
    make: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to(victim),
        "dangling": lambda: place.symlink_to("nowhere"),
        "fifo": lambda: os.mkfifo(place),
        "folder": lambda: place.mkdir(),
    }
    make[kind]()
    with pytest.raises(UsageError, match="not a regular file"):
        Lines(place)
    assert victim.read_text() == "precious"
    assert not Path("nowhere").exists()


def test_lines_begin_where_a_line_begins(folder: Path) -> None:
    place = folder / "journal"
    place.write_bytes(b"one\ntw")
    lines = Lines(place)
    lines.add(b"three")
    lines.close()
    assert place.read_bytes() == b"one\ntw\nthree\n"


def test_a_folder_of_a_reproducer_may_hold_what_a_killed_process_left(folder: Path) -> None:
    from opshift.passes.proof import repro

    (folder / "repro").mkdir()
    (folder / "repro" / ".opshift-0-1.tmp").write_text("half")
    repro.refuse_used(folder / "repro")
    assert not tree(folder / "repro")


# --- what cannot be printed ---


def printed_to_full(*arguments: str) -> subprocess.CompletedProcess[str]:
    with Path("/dev/full").open("w") as device:
        command = [sys.executable, "-m", "opshift", *arguments]
        return subprocess.run(command, stdout=device, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


@full
@pytest.mark.parametrize("more", [(), ("--json",), ("-q",), ("--report", "r.json"), ("--json", "--report", "r.md")])
@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_written_if_the_result_cannot_be_printed(folder: Path, more: tuple[str, ...], there: bool) -> None:
    if there:
        for name in ("out.onnx", "r.json", "r.md"):
            Path(name).write_text("old")
    before = tree(folder)
    done = printed_to_full(*FAST, *more)
    assert (done.returncode, done.stderr) == (2, "error: the result cannot be printed: No space left on device.\n")
    assert tree(folder) == before


@full
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "in.onnx", "--opset", "11", "--report", "r.json"),
        ("verify", "in.onnx", "in.onnx", "--report", "r.json", "--json"),
        ("plan", "in.onnx", "--opset", "3", "--report", "r.json", "--json"),
        ("convert", "in.onnx", "-o", "out.onnx", "--opset", "3", "--json"),
        ("--help",),
        ("convert", "--help"),
        ("--version",),
        ("inspect", "in.onnx"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_other_results_that_cannot_be_printed(folder: Path, arguments: tuple[str, ...]) -> None:
    before = tree(folder)
    done = printed_to_full(*arguments)
    assert (done.returncode, done.stderr) == (2, "error: the result cannot be printed: No space left on device.\n")
    assert tree(folder) == before


# --- models that change ---


def swapped(path: str, data: bytes) -> None:
    """Put other contents into a file, of the same size, and set its time back."""
    status = Path(path).stat()
    assert len(data) == status.st_size
    Path(path).write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def in_place(path: str) -> None:
    data = Path(path).read_bytes()
    swapped(path, data[:-1] + bytes([data[-1] ^ 1]))


def there_and_back(path: str) -> None:
    """Change a file and undo that: in between it was read."""
    data = Path(path).read_bytes()
    in_place(path)
    swapped(path, data)


def renamed(path: str) -> None:
    """Put another file in place of one, and put it back."""
    Path(path).rename("aside")
    Path(path).write_bytes(Path("aside").read_bytes())
    Path("aside").replace(path)


def removed(path: str) -> None:
    Path(path).unlink()


@pytest.mark.skipif(os.name != "posix", reason="Windows tells no time at which a file was changed or renamed")
@pytest.mark.parametrize("change", [in_place, there_and_back, renamed, removed])
@pytest.mark.parametrize("file", ["in.onnx", "w.bin"])
@pytest.mark.parametrize("when", ["before the proof", "after the proof", "before it is saved"])
def test_the_model_that_was_read_is_the_one_that_is_proven(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[str], None],
    file: str,
    when: str,
) -> None:
    weighed()
    changed: list[str] = []

    def once() -> None:
        if not changed:
            changed.append(file)
            change(file)

    verify, save = verifying.verify, Result.save

    def verified(*models: Any, **asked: Any) -> Any:
        if when == "before the proof":
            once()
        report = verify(*models, **asked)
        if when == "after the proof":
            once()
        return report

    def saved(result: Any, *arguments: Any, **asked: Any) -> Any:
        once()
        return save(result, *arguments, **asked)

    monkeypatch.setattr(verifying, "verify", verified)
    monkeypatch.setattr(Result, "save", saved)
    Path("there").mkdir()
    Path("there/out.onnx").write_text("old")
    command = ["convert", "in.onnx", "-o", "there/out.onnx", "--opset", "11", "--report", "report.json"]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert changed
    assert "changed in the meantime" in printed.err or "is missing" in printed.err
    assert printed.out == ""
    assert tree(folder / "there") == {"out.onnx": b"old"}
    assert not Path("report.json").exists()


@pytest.mark.parametrize("change", [in_place, there_and_back])
@pytest.mark.parametrize("file", ["in.onnx", "w.bin"])
@posix
def test_models_that_change_while_they_are_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], None], file: str
) -> None:
    weighed()
    other = onnx.load("in.onnx", load_external_data=False)
    other.producer_name = "other"
    Path("b.onnx").write_bytes(other.SerializeToString())
    real = WholeModels.check
    changed: list[str] = []

    def check(whole: Any) -> Any:
        found = real(whole)
        if not changed:
            changed.append(file)
            change(file)
        return found

    monkeypatch.setattr(WholeModels, "check", check)
    with pytest.raises(InvalidModelError, match="changed in the meantime"):
        opshift.verify("in.onnx", "b.onnx")


def test_a_result_may_be_saved_over_its_source_and_elsewhere(folder: Path) -> None:
    """What the model was read from may change by our own hand."""
    weighed()
    result = opshift.convert("in.onnx", opset=11)
    result.save("in.onnx")
    (folder / "there").mkdir()
    result.save("there/out.onnx")
    result.save("there/out.onnx", external_data="embed")
    assert onnx.load("there/out.onnx").opset_import[0].version == 11


def test_a_file_that_was_written_a_moment_ago_is_told_from_the_next_one(folder: Path) -> None:
    """File systems give all that happens within some milliseconds the same time."""
    place = folder / "file"
    for number in range(100):
        place.write_bytes(bytes([number, 1]))
        before = external_data.stamps([place])
        place.write_bytes(bytes([number, 2]))
        with pytest.raises(InvalidModelError, match="changed in the meantime"):
            external_data.check_stamps(before)


@pytest.mark.parametrize("age", [0, 1_000_000, 9_000_000, 60_000_000_000, -60_000_000_000])
def test_it_is_waited_until_the_next_change_has_another_time(monkeypatch: pytest.MonkeyPatch, age: int) -> None:
    """As where the clock of a file system ticks: here it may be finer."""
    now = [10**18]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + round(seconds * 1e9)))
    status = os.stat_result([0] * 10, {"st_mtime_ns": now[0] - age})
    external_data.settled(status)
    waited = now[0] - 10**18
    assert waited == (external_data._TICK - age if 0 <= age < external_data._TICK else 0)


# --- signals ---


ENDING = [getattr(signal, name) for name in signals.NAMES if hasattr(signal, name)]


@pytest.mark.slow
def test_a_signal_waits_until_an_extension_is_loaded() -> None:
    """onnx 1.23.2 crashes where an exception is raised while its extension module is initialized."""
    code = compile("def exec_module(self): return sys._getframe()", "loader", "exec")
    names: dict[str, Any] = {"sys": sys}
    exec(code, names)
    inside = names["exec_module"](importlib.machinery.ExtensionFileLoader("a", "a.so"))
    outside = names["exec_module"](importlib.machinery.SourceFileLoader("a", "a.py"))
    reached = []

    def interrupted(frame: Any) -> None:
        with signals.raised():
            signals._interrupt(signal.SIGTERM, frame)
            reached.append(frame)
            time.sleep(10)

    for frame in (outside, inside):
        with pytest.raises(signals.Interrupted):
            interrupted(frame)
    assert reached == [inside]


@posix
def test_handlers_are_the_command_s_alone_and_put_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(number) for number in ENDING]
    opshift.convert("in.onnx", opset=11, verify=False).save("out.onnx")
    assert [signal.getsignal(number) for number in ENDING] == before
    seen: list[Any] = []
    real = Result.save

    def save(*given: Any, **more: Any) -> Any:
        seen.append([signal.getsignal(number) for number in ENDING])
        return real(*given, **more)

    monkeypatch.setattr(Result, "save", save)
    assert main(FAST) == 0
    assert all(handler is signals._interrupt for handler in seen[0])
    assert [signal.getsignal(number) for number in ENDING] == before
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        assert main(FAST) == 0
        assert seen[1][ENDING.index(signal.SIGHUP)] is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@posix
@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize(
    "step", ["draft", "settle", "ready", "rename", "cleanup", "cleanup of a failure", "destructor"]
)
def test_a_signal_at_every_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, step: str
) -> None:
    Path("out.onnx").write_text("old")
    Path("report.json").write_text("old")

    def hit(owner: Any, name: str, *, before: bool = False) -> None:
        real = getattr(owner, name)

        def struck(*arguments: Any, **more: Any) -> Any:
            found = None if before else real(*arguments, **more)
            monkeypatch.setattr(owner, name, real)
            signal.raise_signal(number)
            return real(*arguments, **more) if before else found

        monkeypatch.setattr(owner, name, struck)

    def unsettled(_: object) -> None:
        raise OSError(28, "No space left on device")

    class Doomed:
        def __del__(self) -> None:
            signal.raise_signal(number)

    if step == "destructor":
        real = Batch.publish

        def publish(batch: Batch) -> None:
            Doomed()
            time.sleep(1)  # in which it is sent again
            real(batch)

        monkeypatch.setattr(Batch, "publish", publish)
    elif step.startswith("cleanup"):
        hit(atomic_files, "_remove", before=True)
        if step != "cleanup":
            monkeypatch.setattr(atomic_files._Draft, "settle", unsettled)
    else:
        owner, name = {
            "draft": (atomic_files, "_exclusive"),
            "settle": (atomic_files._Draft, "settle"),
            "ready": (Batch, "_each"),
            "rename": (Batch, "_rename"),
        }[step]
        hit(owner, name)
    assert main([*FAST, "--report", "report.json"]) == 128 + number
    assert capsys.readouterr().err == "interrupted\n"
    assert sorted(tree(folder)) == ["in.onnx", "out.onnx", "report.json"]
    if step != "cleanup":  # all was in its place
        assert Path("out.onnx").read_text(errors="replace") == "old"
        assert Path("report.json").read_text() == "old"


SERVER = """
import os, signal, sys
source, folder = sys.argv[1:]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
from opshift.cli import signals as interrupts
from opshift.cli.main import main
from opshift.passes.proof import repro
from opshift.passes.proof.comparison import Difference, Mismatch
from opshift.passes.runtime.ort_models import Runnable
from opshift.passes.io.atomic_files import Lines
import onnx, pathlib
import numpy as np
model = Runnable(onnx.load(source))
out = pathlib.Path(folder)
x = np.zeros((2, 3), np.float32)
mismatch = Mismatch({"x": x}, Difference("y", x, x + 1, "it differs"), False)


def models():
    for opset in "11", "12":
        end = main(["convert", source, "-o", str(out / "out.onnx"), "--opset", opset, "--no-verify", "-q",
                    "--report", str(out / "report.json")])
        if end:
            os._exit(end)


def others():
    try:
        with interrupts.raised():
            lines = Lines(out / "journal")
            for number in range(3):
                lines.add(b'{"number": %d}' % number)
            lines.close()
            for path in sorted(out.glob("repro/**/*"), reverse=True):  # shutil.rmtree makes OSErrors of some signals
                path.rmdir() if path.is_dir() else path.unlink()
            repro.write(out / "repro", model, model, mismatch)
    except interrupts.Interrupted as error:
        os._exit(error.status)


models()
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
for what in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        while True:
            globals()[what.strip()]()
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@contextlib.contextmanager
def server(source: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", SERVER, str(source), str(folder)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def is_whole(path: Path) -> bool:
    """Tell whether a file is all of what it should be."""
    match path.suffix:
        case ".onnx":
            model = onnx.ModelProto.FromString(path.read_bytes())
            return model.HasField("graph") and len(model.opset_import) == 1
        case ".json":
            return bool(json.loads(path.read_text())["versions"])
        case ".pb":
            return onnx.TensorProto.FromString(path.read_bytes()).name in ("x", "y")
    return path.name == "journal" and all("number" in json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.slow
@posix
@pytest.mark.parametrize("what", ["models", "others"])
def test_ended_at_any_moment(folder: Path, tmp_path: Path, what: str) -> None:
    """Every file is the old one or the new one; only SIGKILL leaves drafts, which the next run removes."""
    out = tmp_path / "out"
    out.mkdir()
    draw = random.Random(5)
    seen: set[str] = set()
    with server(folder / "in.onnx", out) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for attempt in range(KILLS):
            number = (*ENDING, signal.SIGKILL)[attempt % (len(ENDING) + 1)]
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            while not (line := process.stdout.readline().strip()).isdigit():
                assert line, "the server ended"
            time.sleep(draw.random() * 0.05)
            os.kill(int(line), number)
            late = threading.Timer(20, os.kill, (int(line), signal.SIGKILL))
            late.start()
            status = int(process.stdout.readline())
            late.cancel()
            assert status in (-number, 128 + number), status
            files = [path for path in out.rglob("*") if path.is_file()]
            drafts = [path for path in files if path.name.startswith(".opshift-")]
            assert all(is_whole(path) for path in files if path not in drafts), files
            seen.update(path.name for path in files if path not in drafts)
            if number is signal.SIGKILL:
                for path in drafts:
                    path.unlink()
            else:
                assert not drafts, (number, drafts)
    wanted = {"out.onnx", "report.json"} if what == "models" else {"journal", "original.onnx", "rewritten.onnx"}
    assert wanted <= seen
