"""Adversarial models in bulk: whatever a file holds, it is read and converted, or refused in words, in bounded time.

`python tests/fuzz.py --seconds 600 --seed 1` mutates models at random. With `--atheris` libFuzzer does, guided by what
it reaches of opshift; it keeps what reached something new in `--corpus`. A find is written to the file `--find`, and
belongs into fixtures/fuzz, whose files tests/test_fuzz.py examines.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import os
import random
import resource
import signal
import sys
import tempfile
import time
import unittest.mock
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import onnx
import onnx.defs
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from opshift.opsets.registry.schema import NEWEST, OLDEST

FIXTURES = Path(__file__).parent.parent / "fixtures"
FINDS = FIXTURES / "fuzz"
PATIENCE = 20
"""Seconds that a model may take to be read, planned and lowered; each is small."""
MEMORY = 4 * 2**30
"""Bytes that this process may hold while it examines models."""
SAMPLED = 40
"""Models that the guided search begins with, besides its corpus; it runs each of them first, which takes a while."""
LARGEST = 20_000
"""Bytes that a mutated model has at most: what takes long is not to be its size."""
PLACE = Path(tempfile.gettempdir())

NUMBERS = (*range(-3, 30), 63, 64, 1000, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 10**15, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
STRINGS = ("", "x", "y", "ai.onnx", "opshift", "main", "\x1b[2J", "a/b", "../w", "\0", "é" * 200, "n" * 300)


# --- what must hold ---


def examine(data: bytes, folder: Path) -> str:
    """Read a model, plan it and lower it to an opset that depends on its bytes; return what became of it.

    Whatever is raised is a fault of opshift's own: also where what was written cannot be read.
    """
    import opshift
    from opshift.passes.io.reader import load

    draw = random.Random(zlib.crc32(data))
    path = folder / "m.onnx"
    path.write_bytes(data)
    in_pieces(path)
    decompose = draw.choice([(), (), (), ("Hardmax", "ArgMax", "OneHot")])
    with patience(PATIENCE):
        try:
            source = load(path)
        except opshift.InvalidModelError as error:
            if not str(error).isprintable():
                raise
            return "not read"
        try:
            plan = opshift.plan(source.model, opset=(opset := draw.randint(OLDEST, NEWEST)), decompose=decompose)
            if not plan.possible:
                return "refused"
            result = opshift.convert(source.model, opset=opset, decompose=decompose, verify=False)
        except opshift.UnsupportedError:
            return "refused"
        except opshift.InvalidModelError:  # what only somebody sees who looks at each node
            return "invalid"
        load(result.rewritten)
        return "converted"


def in_pieces(path: Path) -> int:
    """Read a model without its weights, as is done with large ones of large files; return how many stay in the file.

    With them it must be what protobuf reads, or be refused as protobuf refuses it, or for what a tensor says of itself.
    """
    from opshift.passes.base.errors import InvalidModelError
    from opshift.passes.io import external_data, lazy_weights, serialization

    whole = _parsed(path.read_bytes())
    with unittest.mock.patch.object(lazy_weights, "LARGE", 16), path.open("rb") as file:
        light = _parsed(lazy_weights.read(file, path, os.fstat(file.fileno())))
    if light is not None and not lazy_weights.is_sound(light):  # it is read as it is, then
        return 0
    if light is None or whole is None:
        if light is not whole:
            raise AssertionError("protobuf reads one of both only")
        return 0
    parts = serialization.serialized_chunks(light)
    try:
        joined = b"".join(
            path.read_bytes()[part.offset : part.offset + part.length]
            if isinstance(part, external_data.Span)
            else serialization.data_of(part)
            for part in parts
        )
    except InvalidModelError:
        return 0
    if joined != whole.SerializeToString():
        raise AssertionError("this is not what protobuf writes")
    return sum(map(external_data.is_span, light.graph.initializer))


def _parsed(data: bytes) -> onnx.ModelProto | None:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return None
    return model


class PatienceError(Exception):
    """It took too long."""


@contextlib.contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Raise what nobody catches where it takes longer (nothing is done where there is no SIGALRM)."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def give_up(_: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback()
        raise PatienceError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- models to begin with ---


@functools.cache
def seeds() -> tuple[bytes, ...]:
    """The fixtures, a model of each operator version, and what was found before."""
    from test_each_operator import smallest
    from test_old_forms import ALL

    models = [onnx.parser.parse_model(path.read_text()) for path in sorted(FIXTURES.glob("*.onnxtxt"))]
    models += [form.model() for form in ALL]
    models += [case.model for _, case in sorted(smallest().items())]
    found = [model.SerializeToString() for model in models]
    found += [path.read_bytes() for path in sorted(FINDS.glob("*.onnx"))]
    return tuple(data for data in found if len(data) <= LARGEST)


# --- mutations ---


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a model with a few changes, of which some leave it a model that is valid."""
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        model = onnx.ModelProto.FromString(draw.choice(seeds()))
    names = _names(model)
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        with contextlib.suppress(ValueError, TypeError):  # a number that the field does not hold
            _change(model, names, draw)
    try:
        changed: bytes = model.SerializeToString()
    except EncodeError:  # text that is not UTF-8
        return data
    if draw.random() < 0.05:
        changed = _damaged(changed, draw)
    return changed if len(changed) <= LARGEST else data


def _damaged(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    if draw.random() < 0.3:
        return data[:at]
    return data[:at] + bytes([draw.randrange(256)]) + data[at + draw.randrange(2) :]


@functools.cache
def _operators() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas()}))


def _names(model: onnx.ModelProto) -> list[str]:
    found = [value.name for value in (*model.graph.input, *model.graph.output, *model.graph.initializer)]
    return [*found, *(name for node in model.graph.node for name in (*node.input, *node.output)), model.graph.name]


def _messages(message: Message, limit: int = 3000) -> list[Message]:
    found: list[Message] = []
    waiting = [message]
    while waiting and len(found) < limit:
        found.append(waiting.pop())
        for field, value in found[-1].ListFields():
            if field.message_type is not None:
                waiting += list(value) if _repeated(field) else [value]
    return found


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _change(model: onnx.ModelProto, names: Sequence[str], draw: random.Random) -> None:
    messages = _messages(model)
    chosen = draw.choice(messages)
    if isinstance(chosen, onnx.NodeProto) and draw.random() < 0.3:
        chosen.op_type = draw.choice(_operators())
        return
    present = [field for field, _ in chosen.ListFields()]
    if not present or draw.random() < 0.25:
        present = list(chosen.DESCRIPTOR.fields)
    field = draw.choice(present)
    if field.message_type is not None:
        _change_messages(chosen, field, messages, draw)
    elif _repeated(field):
        _change_list(getattr(chosen, field.name), field, names, draw)
    elif draw.random() < 0.15:
        chosen.ClearField(field.name)
    else:
        setattr(chosen, field.name, _scalar(field, getattr(chosen, field.name), names, draw))


def _change_messages(holder: Message, field: FieldDescriptor, messages: Sequence[Message], draw: random.Random) -> None:
    """Remove a message, put another of its kind in its place, or add one."""
    alike = [message for message in messages if message.DESCRIPTOR is field.message_type]
    other = type(alike[0])() if alike else None
    if alike and other is not None:
        other.CopyFrom(draw.choice(alike))
    if not _repeated(field):
        if draw.random() < 0.2 or other is None:
            holder.ClearField(field.name)
        else:
            getattr(holder, field.name).CopyFrom(other)
        return
    items = getattr(holder, field.name)
    way = draw.randrange(5)
    if not items or way == 0:
        items.add() if other is None or draw.random() < 0.2 else items.add().CopyFrom(other)
    elif way == 1:
        del items[draw.randrange(len(items))]
    elif way == 2:
        order = list(range(len(items)))
        draw.shuffle(order)
        copies = [type(items[0]).FromString(items[index].SerializeToString()) for index in order]
        del items[:]
        items.extend(copies)
    elif other is not None:
        items[draw.randrange(len(items))].CopyFrom(other)


def _change_list(items: Any, field: FieldDescriptor, names: Sequence[str], draw: random.Random) -> None:
    way = draw.randrange(5)
    if not items or way == 0:
        items.insert(draw.randrange(len(items) + 1), _scalar(field, None, names, draw))
    elif way == 1:
        del items[draw.randrange(len(items))]
    else:
        at = draw.randrange(len(items))
        items[at] = _scalar(field, items[at], names, draw)


def _scalar(field: FieldDescriptor, now: Any, names: Sequence[str], draw: random.Random) -> Any:
    if field.enum_type is not None:
        return draw.choice([value.number for value in field.enum_type.values])
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return draw.choice((b"", bytes(8), b"\xff" * 8, b"\1\0\0\0", (now or b"")[:-1], (now or b"") + bytes(4)))
        return draw.choice(names) if names and draw.random() < 0.7 else draw.choice(STRINGS)
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return draw.choice(FLOATS)
    number = draw.choice(NUMBERS)
    return number if draw.random() < 0.5 else (now or 0) + draw.choice((-1, 1))


# --- at random, and guided ---


def bounded() -> None:
    """Let this process end where it takes too much memory, and say where it crashes."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def at_random(seed: int, number: int, seconds: float, find: Callable[[bytes, BaseException], None]) -> dict[str, int]:
    """Examine models made of a seed, as many as are asked for or as time allows; count what became of them."""
    draw = random.Random(seed)
    counts: dict[str, int] = {}
    recent = list(seeds())
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(number):
            if time.monotonic() > ends:
                break
            data = mutated(draw.choice(recent), draw)
            PLACE.joinpath("opshift-last.onnx").write_bytes(data)  # what ends this process is to be found
            try:
                what = examine(data, Path(folder))
            except Exception as error:  # whatever it is
                what = "fault"
                find(data, error)
            counts[what] = counts.get(what, 0) + 1
            if what in ("converted", "refused") and draw.random() < 0.3:  # a change upon a change
                recent[draw.randrange(len(recent))] = data
            if draw.random() < 0.02:
                recent[draw.randrange(len(recent))] = draw.choice(seeds())
    return counts


def guided(seed: int, seconds: int, corpus: Path, find: Path) -> None:
    """Let libFuzzer look for inputs; the process ends at the first that is a fault, or when the time is up."""
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["opshift.passes", "opshift.opsets"]):
        from opshift.passes.rewrite import apply, opset_imports, planner  # noqa: F401
    folder = Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(random.Random(seed).sample(seeds(), SAMPLED)):
        (corpus / f"seed-{number}").write_bytes(data)

    def one(data: bytes) -> None:
        examine(data, folder)

    def mutate(data: bytes, largest: int, number: int) -> bytes:
        draw = random.Random(number)
        return bytes(atheris.Mutate(data, largest)) if draw.random() < 0.1 else mutated(data, draw)[:largest]

    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LARGEST}", f"-artifact_prefix={find}-"]
    options += ["-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1", str(corpus)]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--number", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--corpus", type=Path, default=PLACE / "opshift-corpus")
    parser.add_argument("--find", type=Path, default=PLACE / "opshift-find")
    options = parser.parse_args()
    bounded()
    if options.atheris:
        guided(options.seed, options.seconds, options.corpus, options.find)
        return 0
    kinds: dict[str, Path] = {}

    def find(data: bytes, error: BaseException) -> None:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)
        inner = [frame for frame in frames if Path(frame.filename).parent.name in ("passes", "operators", "opsets")]
        kind = f"{type(error).__name__} at " + " < ".join(f"{frame.name}:{frame.lineno}" for frame in inner[:-4:-1])
        if kind not in kinds:
            kinds[kind] = options.find.with_name(f"{options.find.name}-{len(kinds)}.onnx")
            kinds[kind].write_bytes(data)
            print(f"{kinds[kind]}: {kind}: {str(error)[:300]}", flush=True)

    print(at_random(options.seed, options.number, options.seconds, find))
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
