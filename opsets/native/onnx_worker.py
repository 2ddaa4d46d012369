"""Run onnx's C++ code in a child process, as its main program: a crash there does not end opshift.

It reads requests from standard input and writes answers to standard output until the input is closed. Both are lists
of byte strings (`read`, `write`). It runs as a script, without site-packages, and loads the extension module of onnx by
its path: the packages onnx and numpy are not imported, so that it starts in a few hundredths of a second.
"""

from __future__ import annotations

import faulthandler
import importlib.machinery
import importlib.util
import signal
import struct
import sys

TYPE_CHECKING = False  # importing typing takes as long as importing onnx
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, BinaryIO

MOST_BYTES = 2**31
"""The maximum size of an answer in bytes: no protobuf is larger."""


class ProtocolError(Exception):
    """The received bytes are not a message."""


def write(stream: BinaryIO, fields: Sequence[bytes]) -> None:
    """Write a message."""
    lengths = [len(field) for field in fields]
    head = struct.pack(f"<I{len(fields)}Q", len(fields), *lengths)
    if sum(lengths) < 2**16:
        stream.write(b"".join((head, *fields)))
    else:
        stream.write(head)
        for field in fields:
            stream.write(field)
    stream.flush()


def read(stream: BinaryIO) -> list[bytes]:
    """Read a message.

    Raises:
        EOFError: the stream ends before or inside the message.
        ProtocolError: it is larger than any message.
    """
    (count,) = struct.unpack("<I", _exactly(stream, 4))
    if count > 2**20:
        raise ProtocolError
    lengths = struct.unpack(f"<{count}Q", _exactly(stream, 8 * count))
    if sum(lengths) > MOST_BYTES:
        raise ProtocolError
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length) if length else b""
    if len(data) < length:
        raise EOFError
    return data


def _loaded(name: str, path: str) -> Any:
    """Load a module from a file, independently of the module search path."""
    extension = path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    kind: Any = importlib.machinery.ExtensionFileLoader if extension else importlib.machinery.SourceFileLoader
    spec = importlib.util.spec_from_file_location(name, path, loader=kind(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Calls:
    """The supported calls, by name; `onnx` is the extension module."""

    def __init__(self, onnx: Any) -> None:
        """Store the module."""
        self._onnx = onnx

    def check_model(self, model: bytes) -> list[bytes]:
        """Check a model; return an empty list."""
        self._onnx.checker.check_model(model, False, False, False)
        return []

    def check_attribute(self, attribute: bytes, ir_version: bytes, opset: bytes) -> list[bytes]:
        """Check a single attribute."""
        context = self._onnx.checker.CheckerContext()
        context.ir_version, context.opset_imports = int(ir_version), {"": int(opset)}
        self._onnx.checker.check_attribute(attribute, context, self._onnx.checker.LexicalScopeContext())
        return []

    def infer_shapes(self, model: bytes, check_type: bytes, strict: bytes, data_prop: bytes) -> list[bytes]:
        """Return a model with inferred types."""
        flags = (bool(int(flag)) for flag in (check_type, strict, data_prop))
        return [self._onnx.shape_inference.infer_shapes(model, *flags)]

    def infer_node(self, name: bytes, domain: bytes, version: bytes, *rest: bytes) -> list[bytes]:
        """Return the types of a node's outputs, alternating names and types."""
        ir_version, typed, node, *pairs = rest
        types, data = pairs[: 2 * int(typed)], pairs[2 * int(typed) :]
        found = self._schema(name, domain, version)._infer_node_outputs(
            node, _mapping(types), _mapping(data), {}, {}, int(ir_version)
        )
        return [part for key, value in found.items() for part in (key.encode(), value)]

    def function_body(self, name: bytes, version: bytes, opset: bytes, node: bytes, *types: bytes) -> list[bytes]:
        """Return the function body of an operator, which may depend on the node."""
        schema = self._schema(name, b"", version)
        return [schema.get_context_dependent_function_with_opset_version(int(opset), node, list(types))]

    def parse_model(self, text: bytes) -> list[bytes]:
        """Return whether a text is a model, the error, and the model."""
        parsed, complaint, model = self._onnx.parser.parse_model(text.decode())
        message = complaint if isinstance(complaint, bytes) else complaint.encode("utf-8", "replace")
        return [str(int(parsed)).encode(), message, model]

    def to_text(self, model: bytes) -> list[bytes]:
        """Return a model as text."""
        text = self._onnx.printer.model_to_text(model)
        return [text if isinstance(text, bytes) else text.encode()]

    def inline(self, model: bytes) -> list[bytes]:
        """Return a model with inlined functions."""
        return [self._onnx.inliner.inline_local_functions(model, False)]

    def _schema(self, name: bytes, domain: bytes, version: bytes) -> Any:
        return self._onnx.defs.get_schema(name.decode(), int(version), domain.decode())


def _mapping(pairs: Sequence[bytes]) -> dict[str, bytes]:
    return {key.decode(): value for key, value in zip(pairs[::2], pairs[1::2], strict=True)}


def _answer(call: Callable[..., list[bytes]], arguments: Sequence[bytes]) -> list[bytes]:
    try:
        return [b"done", *call(*arguments)]
    except MemoryError:
        return [b"MemoryError", b""]
    except Exception as error:  # any C++ exception
        return [type(error).__name__.encode(), str(error).encode("utf-8", "replace")]


def _end_in(seconds: float) -> None:
    """End the process after this time, even if C++ does not return; 0 cancels it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def main(library: str, own_schemas: str, limits: str) -> None:
    """Answer requests: seconds and bytes of memory that a call may take, its name, and its arguments.

    The paths are those of onnx's extension module, of own_schemas.py and of sandbox.py.
    """
    sandbox = _loaded("sandbox", limits)
    requests, answers = sandbox.streams()
    sandbox.prefer_for_oom_kill()
    onnx = _loaded("onnx.onnx_cpp2py_export", library)
    for schema in _loaded("own_schemas", own_schemas).schemas(onnx.defs):
        onnx.defs.set_domain_to_version(schema.domain, schema.since_version, schema.since_version)
        onnx.defs.register_schema(schema)
    sandbox.files()
    sandbox.calls()
    calls = Calls(onnx)
    memory = 0
    while True:
        try:
            seconds, most, name, *arguments = read(requests)
        except (EOFError, ProtocolError):
            return
        if memory != int(most):
            sandbox.limit("RLIMIT_DATA", memory := int(most), forever=False)
        _end_in(float(seconds))
        answer = _answer(getattr(calls, name.decode()), arguments)
        _end_in(0)
        del arguments
        write(answers, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
