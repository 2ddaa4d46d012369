"""Run onnx's C++ code in a child process, as its main program: a crash there does not end opshift.

It answers requests until its input is closed (channel.py). It runs as a script, without site-packages, and loads the
extension module of onnx by its path: the packages onnx and numpy are not imported, so that it starts in a few
hundredths of a second.
"""

from __future__ import annotations

import faulthandler
import importlib.machinery
import importlib.util
import signal
import sys

TYPE_CHECKING = False  # importing typing takes as long as importing onnx
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Key = tuple[str, int, str]
    """The name, since_version and domain of a schema."""
    Pairs = Sequence[tuple[str, bytes]]


def _loaded(name: str, path: str) -> Any:
    """Load a module from a file, independently of the module search path."""
    extension = path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    loader: Any = importlib.machinery.ExtensionFileLoader if extension else importlib.machinery.SourceFileLoader
    spec = importlib.util.spec_from_file_location(name, path, loader=loader(name, path))
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

    def check_model(self, model: bytes) -> None:
        """Check a model."""
        self._onnx.checker.check_model(model, False, False, False)

    def check_attribute(self, attribute: bytes, ir_version: int, opset: int) -> None:
        """Check a single attribute."""
        context = self._onnx.checker.CheckerContext()
        context.ir_version, context.opset_imports = ir_version, {"": opset}
        self._onnx.checker.check_attribute(attribute, context, self._onnx.checker.LexicalScopeContext())

    def infer_shapes(self, model: bytes, check_type: bool, strict: bool, data_prop: bool) -> bytes:
        """Return a model with inferred types."""
        inferred: bytes = self._onnx.shape_inference.infer_shapes(model, check_type, strict, data_prop)
        return inferred

    def infer_node(self, key: Key, ir_version: int, node: bytes, types: Pairs, data: Pairs) -> dict[str, bytes]:
        """Return the types of a node's outputs by name."""
        schema = self._onnx.defs.get_schema(*key)
        return dict(schema._infer_node_outputs(node, dict(types), dict(data), {}, {}, ir_version))

    def function_body(self, key: Key, opset: int, node: bytes, types: Sequence[bytes]) -> bytes:
        """Return the function body of an operator, which may depend on the node."""
        schema = self._onnx.defs.get_schema(*key)
        body: bytes = schema.get_context_dependent_function_with_opset_version(opset, node, list(types))
        return body

    def parse_model(self, text: str) -> tuple[bool, bytes, bytes]:
        """Return whether a text is a model, the error, and the model."""
        parsed, error, model = self._onnx.parser.parse_model(text)
        return bool(parsed), error if isinstance(error, bytes) else error.encode("utf-8", "replace"), model

    def to_text(self, model: bytes) -> str:
        """Return a model as text."""
        text = self._onnx.printer.model_to_text(model)
        return text.decode() if isinstance(text, bytes) else str(text)

    def inline(self, model: bytes) -> bytes:
        """Return a model with inlined functions."""
        inlined: bytes = self._onnx.inliner.inline_local_functions(model, False)
        return inlined


def _answer(call: Callable[..., Any], arguments: Sequence[Any]) -> tuple[str, Any]:
    """Return `done` with the result, or the name of an exception with its text."""
    try:
        return "done", call(*arguments)
    except MemoryError:
        return "MemoryError", ""
    except Exception as error:  # any C++ exception
        return type(error).__name__, str(error).encode("utf-8", "replace").decode()


def _end_in(seconds: float) -> None:
    """End the process after this time, even if C++ does not return; 0 cancels it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def main(library: str, own_schemas: str, limits: str, messages: str, mark: str) -> None:
    """Answer requests, which are two messages: seconds and bytes of memory of the call, then its name and arguments.

    The paths are those of onnx's extension module, own_schemas.py, sandbox.py and channel.py.
    """
    sandbox, protocol = _loaded("sandbox", limits), _loaded("channel", messages)
    channel = protocol.Channel(*sandbox.streams(mark))
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
            seconds, most = channel.receive()
            if memory != most:
                sandbox.limit("RLIMIT_DATA", memory := most, forever=False)
            name, *arguments = channel.receive()
        except protocol.LostError:
            return
        _end_in(seconds)
        answer = _answer(getattr(calls, name), arguments)
        _end_in(0)
        del arguments
        channel.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
