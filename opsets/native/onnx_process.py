"""Run onnx's C++ code in a child process: its checker, parser, printer, inliner and shape inference.

An untrusted model may crash that code or make it use any time and memory (a Split-18 whose num_outputs is not the
number of its outputs crashes the process in onnx 1.23.2). Here only a child process with limits ends, and the caller
gets OnnxDiedError. A child serves calls one by one; it starts without importing the package onnx.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import contextvars
import functools
import importlib.machinery
import importlib.util
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from opshift.opsets.native import sandbox
from opshift.opsets.native.channel import LostError
from opshift.opsets.native.child import Child

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message

    from opshift.opsets.registry.schema import Schema

    Parsed = TypeVar("Parsed", bound=Message)

_SECONDS, _BYTES_PER_SECOND = 20.0, 1e6
"""The time limit of a call in seconds, and the request bytes that add one second."""

_MEMORY, _COPIES = 2**30, 16
"""The memory limit of a call in bytes, and the additional bytes per byte of the request."""

_PATIENCE = 5.0
"""The seconds to wait for the end of an unresponsive child."""

_LOST = 2 * _SECONDS
"""The total seconds that calls for one model may lose: a failed or slow call may lose half of the remaining ones."""

_USUAL, _START = 0.25, 0.1
"""The seconds that a call may take without loss, and the minimum start time of a new child."""


class OnnxDiedError(RuntimeError):
    """onnx crashed on a model, or exceeded its time or memory limit; the text has the reason."""


class NoProcessError(OSError):
    """No child process can be started."""


@dataclass
class _Losses:
    """The seconds that calls for one model have lost, and the requests that ended a child."""

    seconds: float = 0.0
    fatal: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def left(self) -> float:
        """Return the seconds that the next call may lose."""
        return (_LOST - self.seconds) / 2


class _Limits(NamedTuple):
    """The limits of each call (None: by size), and the losses of all calls, if they are counted."""

    seconds: float | None = None
    memory: int | None = None
    losses: _Losses | None = None


_call_limits: contextvars.ContextVar[_Limits | None] = contextvars.ContextVar("asked", default=None)


def _current_limits() -> _Limits:
    return _call_limits.get() or _Limits()


@contextlib.contextmanager
def limited(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Limit the seconds and the memory in bytes of each call meanwhile (None: by size).

    All calls lose at most _LOST seconds in total: a model may have thousands of nodes that each take the maximum time.
    The checker always gets the time for a model's size: a short time limit for planning must not make a model invalid.
    """
    losses = _current_limits().losses or _Losses()
    token = _call_limits.set(_Limits(seconds, memory, losses))
    try:
        yield
    finally:
        _call_limits.reset(token)


# --- calls ------------------------------------------------------------------------------------------------------------


def check_model(model: bytes) -> None:
    """Check a model as onnx.checker.check_model does.

    Raises:
        Exception: onnx.checker.ValidationError, any other C++ exception, or OnnxDiedError.
    """
    _call("check_model", model)


def check_attribute(attribute: onnx.AttributeProto, ir_version: int, opset: int) -> None:
    """Check a single attribute as onnx.checker.check_attribute does."""
    _call("check_attribute", attribute.SerializeToString(), ir_version, opset)


def infer_shapes(
    model: onnx.ModelProto, *, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> onnx.ModelProto:
    """Return a copy of a model with the types that onnx.shape_inference.infer_shapes infers."""
    import onnx

    inferred = _call("infer_shapes", model.SerializeToString(), check_type, strict_mode, data_prop)
    return _parsed(onnx.ModelProto, inferred)


def infer_node(
    schema: Schema, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], data: Mapping[str, onnx.TensorProto]
) -> dict[str, onnx.TypeProto]:
    """Return the types of a node's outputs by name, as onnx.shape_inference.infer_node_outputs does.

    A schema that another package has registered runs in this process, where its Python code runs anyway.
    """
    import onnx.shape_inference

    if not _is_known(schema):
        return dict(onnx.shape_inference.infer_node_outputs(schema.raw, node, dict(types), dict(data)))
    serialized = (tuple((name, value.SerializeToString()) for name, value in known.items()) for known in (types, data))
    key = schema.raw.name, schema.raw.since_version, schema.raw.domain
    found = _call("infer_node", key, onnx.IR_VERSION, node.SerializeToString(), *serialized)
    return {name: onnx.TypeProto.FromString(value) for name, value in found.items()}


def function_body(schema: Schema, opset: int, node: bytes, types: Sequence[bytes]) -> onnx.FunctionProto:
    """Return the function body of a default-domain operator at an opset, for a node with inputs of these types."""
    import onnx

    key = schema.raw.name, schema.raw.since_version, ""
    body = _call("function_body", key, opset, node, tuple(types))
    return _parsed(onnx.FunctionProto, body)


def parse_model(text: str) -> onnx.ModelProto:
    """Parse ONNX text as onnx.parser.parse_model does."""
    import onnx.parser

    parsed, error, model = _call("parse_model", text)
    if not parsed:
        raise onnx.parser.ParseError(error)
    return _parsed(onnx.ModelProto, model)


def to_text(model: onnx.ModelProto) -> str:
    """Return a model as ONNX text, as onnx.printer.to_text does."""
    text: str = _call("to_text", model.SerializeToString())
    return text


def inline(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model whose functions are inlined, as onnx.inliner.inline_local_functions does."""
    import onnx

    return _parsed(onnx.ModelProto, _call("inline", model.SerializeToString()))


def _parsed(message_type: type[Parsed], data: bytes) -> Parsed:
    made: Parsed = message_type()
    made.ParseFromString(data)
    return made


def _is_known(schema: Schema) -> bool:
    """Return whether the child has a schema: onnx's own, and those of own_schemas.py."""
    return schema.domain.partition(".")[0] in ("", "ai", "opshift")


# --- children ---------------------------------------------------------------------------------------------------------


class _Child(Child):
    """A child process with its owner: a forked process has no child yet."""

    def __init__(self) -> None:
        program, *modules = (
            str(Path(__file__).parent.parent / f"{name}.py")
            for name in ("native/onnx_worker", "registry/own_schemas", "native/sandbox", "native/channel")
        )
        try:
            # Without site-packages, and without a sitecustomize.py, Python starts sooner.
            arguments = "-I", "-S", program, _library(), *modules
            super().__init__(*arguments, environment=sandbox.environment(os.environ), classes=frozenset())
        except OSError as error:
            raise NoProcessError(f"No child process can be started to check models in: {error}.") from error
        self.owner = os.getpid()

    @property
    def usable(self) -> bool:
        """Whether it is alive, and was started by this process."""
        return self.owner == os.getpid() and self.process.poll() is None

    def end(self, patience: float = 0) -> int:
        """Return its exit status; after `patience` seconds it is killed."""
        status = self.wait(patience)
        self.close()
        return status


_idle: list[_Child] = []
"""The children without a call: as many as there were simultaneous calls."""


def start() -> None:
    """Start a child, if there is none, so that it is ready for later calls."""
    if not _idle:
        with contextlib.suppress(NoProcessError):
            _idle.append(_Child())


@atexit.register
def stop() -> None:
    """End the idle children, without waiting for their exits."""
    while _idle:
        child = _idle.pop()
        if child.usable:
            child.process.kill()
            child.process.returncode = -signal.SIGTERM  # do not wait for it


def _free() -> _Child:
    """Return an idle child, or a new one."""
    while True:
        try:
            child = _idle.pop()
        except IndexError:  # another thread may have taken the last one
            return _Child()
        if child.usable:
            return child


_CHECKS = frozenset({"check_model", "check_attribute"})


def _call(name: str, *arguments: Any) -> Any:
    """Return the result of a call of onnx_worker.py; the arguments are hashable."""
    size = _size(arguments)
    limits = _current_limits()
    losses = None if name in _CHECKS else limits.losses
    allowed, usual = _SECONDS, _USUAL + size / _BYTES_PER_SECOND
    if losses is not None:
        if message := losses.fatal.get((name, *arguments)):
            raise OnnxDiedError(message)
        allowed = min(allowed, losses.left())
        if allowed < _USUAL:
            raise OnnxDiedError(f"onnx has lost {_LOST:.3g} s on this model, and is not called for it again")
    seconds = allowed + size / _BYTES_PER_SECOND
    if limits.seconds is not None and name not in _CHECKS:
        seconds = min(seconds, limits.seconds)
    memory = max(_MEMORY, _COPIES * size) if limits.memory is None else limits.memory
    call = _remembered if size <= _SMALL else _call_child
    begin = time.monotonic()
    outcome, answer = call(seconds, memory, name, *arguments)
    taken = time.monotonic() - begin
    if losses is not None:
        losses.seconds += taken + _START if outcome == _DIED else max(0.0, taken - usual)
    if outcome == _DIED:
        if losses is not None and size <= _SMALL:
            losses.fatal[(name, *arguments)] = answer
        raise OnnxDiedError(answer)
    if outcome == "MemoryError":
        raise OnnxDiedError(f"onnx needs more than {memory} bytes of memory for it")
    if outcome != "done":
        raise _error(outcome, answer)
    return answer


def _size(arguments: Any) -> int:
    """Return the total length of the bytes and strings in nested tuples."""
    if isinstance(arguments, tuple):
        return sum(map(_size, arguments))
    return len(arguments) if isinstance(arguments, bytes | str) else 0


_SMALL = 4096
"""The maximum request size in bytes for cached answers: planning infers equal nodes many times."""

_DIED = "died"


def _call_child(seconds: float, memory: int, name: str, *arguments: Any) -> tuple[str, Any]:
    """Return the outcome of a call, and its result or the reason why there is none."""
    child = _free()
    try:
        child.send((seconds, memory))
        child.send((name, *arguments))
        outcome, value = child.receive()
    except (OSError, LostError):
        return _DIED, _death(child.end(_PATIENCE), seconds)
    except BaseException:  # interrupted: nothing else can use the child's remaining answer
        child.end()
        raise
    _idle.append(child)
    return outcome, value


_remembered = functools.lru_cache(4096)(_call_child)


def _error(name: str, text: str) -> Exception:
    """Return the exception that onnx has raised in the child."""
    import onnx.checker
    import onnx.shape_inference

    own = {
        "InferenceError": onnx.shape_inference.InferenceError,
        "ValidationError": onnx.checker.ValidationError,
        "SchemaError": onnx.defs.SchemaError,
    }
    error_type = own.get(name) or getattr(builtins, name, RuntimeError)
    if isinstance(error_type, type) and issubclass(error_type, Exception):
        with contextlib.suppress(TypeError):  # a UnicodeError has more arguments
            return error_type(text)
    return RuntimeError(text)


def _death(status: int, seconds: float) -> str:
    if hasattr(signal, "SIGALRM") and status == -signal.SIGALRM:
        return f"onnx did not finish with it within {seconds:.3g} s"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"onnx crashes on it (signal {-status}, {signal.Signals(-status).name})"
    return f"onnx ends its process on it (status {status})"


def _library() -> str:
    """Return the path of onnx's extension module, without importing it."""
    spec = importlib.util.find_spec("onnx")
    for folder in spec.submodule_search_locations or () if spec else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder) / f"onnx_cpp2py_export{suffix}"
            if path.is_file():
                return str(path)
    import onnx.onnx_cpp2py_export

    return str(onnx.onnx_cpp2py_export.__file__)
