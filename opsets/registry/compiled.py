"""Load compiled bodies of lowerings from `bodies.onnxtxt`, because the import of onnxscript takes half a second.

`python docs/generate.py` writes the file. A body whose module has changed since then is compiled when it is needed.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import FunctionType
from typing import Any

import onnx
import onnx.parser
import onnx.printer

FILE = "bodies.onnxtxt"


def compiled(body: Callable[..., Any], opset: int) -> onnx.FunctionProto | None:
    """Return the stored function of a lowering's body; None if it is missing or its source has changed."""
    if not isinstance(body, FunctionType):
        return None
    digest, text = _table().get(_key(body, opset), ("", ""))
    return onnx.parser.parse_function(text) if text and digest == _digest(body.__code__.co_filename) else None


def written(functions: Iterable[tuple[Callable[..., Any], int, onnx.FunctionProto]]) -> str:
    """Return the contents of the file for these bodies, at the opsets for which they are written."""
    return "".join(
        f"# {key} {digest}\n{text}\n"
        for key, digest, text in sorted(
            (_key(body, opset), _digest(body.__code__.co_filename), _text(function))
            for body, opset, function in functions
            if isinstance(body, FunctionType)
        )
    )


def plain(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """Return a function without documentation and node names, which are unused and not expressible in the text."""
    kept = onnx.FunctionProto()
    kept.CopyFrom(function)
    kept.ClearField("doc_string")
    for node in kept.node:
        node.ClearField("name")
        node.ClearField("doc_string")
    return kept


def _text(function: onnx.FunctionProto) -> str:
    return onnx.printer.to_text(plain(function)).strip() + "\n"


def _key(body: FunctionType, opset: int) -> str:
    return f"{body.__module__}.{body.__qualname__} {opset}"


@functools.cache
def _digest(path: str) -> str:
    """Return a digest of a source file; empty if there is none."""
    try:
        code = Path(path).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(code.replace(b"\r\n", b"\n")).hexdigest()[:16]


@functools.cache
def _table() -> Mapping[str, tuple[str, str]]:
    """Return digest and text by key."""
    file = resources.files("opshift.opsets").joinpath("data", FILE)
    if not file.is_file():
        return {}
    table = {}
    for block in ("\n" + file.read_text(encoding="utf-8")).split("\n# ")[1:]:
        head, _, text = block.partition("\n")
        key, _, digest = head.rpartition(" ")
        table[key] = digest, text
    return table
