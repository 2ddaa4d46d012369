"""Parse the formats of a model's file (protobuf and ONNX's text), and recognize formats often confused with them."""

from __future__ import annotations

import re

import onnx
from google.protobuf.message import DecodeError

from opshift.opsets.native import onnx_process
from opshift.passes.base.errors import InvalidModelError, UsageError, printable
from opshift.passes.graph import limits


def parse_binary(data: bytes) -> onnx.ModelProto:
    """Parse a model in protobuf's binary format.

    Raises:
        InvalidModelError: the bytes are not an ONNX model.
    """
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise InvalidModelError(
                f"messages are nested deeper than protobuf reads (some {limits.NESTING} graphs inside each other)."
            ) from None
        raise InvalidModelError(
            _guess_format(data) or "this is not an ONNX model, or it was damaged or cut off."
        ) from None
    if not model.HasField("graph"):
        raise InvalidModelError(_guess_format(data) or "there is no graph in it: not an ONNX model, or it was cut off.")
    return model


_SIGNATURES = (
    (0, b"version https://git-lfs", "a Git LFS pointer in place of the model; `git lfs pull` fetches the model"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x1f\x8b", "a gzip archive; unpack it first"),
    (0, b"PK\x03\x04", "a zip archive: unpack it or, where PyTorch or Keras wrote it, export the model to ONNX"),
    (0, b"\x89HDF", "an HDF5 file: export the Keras model to ONNX"),
    (0, b"GGUF", "a GGUF file"),
    (4, b"TFL3", "a TensorFlow Lite model: convert it to ONNX first, with tf2onnx"),
    (4, b"ORTM", "a model in onnxruntime's own format; opshift needs the .onnx that it was made from"),
)


def _guess_format(data: bytes) -> str | None:
    """Return the format of a file that is not ONNX, if it is easy to recognize."""
    for offset, mark, what in _SIGNATURES:
        if data[offset:].startswith(mark):
            return f"this is {what}."
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "this is a web page, not a model; was it downloaded without being logged in?"
    if start.startswith((b"{", b"[")):
        return "this is JSON, not an ONNX model."
    if start.startswith(b"<") and b"ir_version" in start:
        return "this is ONNX text; give it a name that ends in .onnxtxt."
    if start.isascii() and not re.search(rb"[\0-\x08\x0e-\x1f]", start):
        return "this is a text file, not an ONNX model."
    return None


def parse_text(data: bytes) -> onnx.ModelProto:
    """Parse a model in ONNX's text format.

    Raises:
        InvalidModelError: the text is not an ONNX model.
        UsageError: the parser's process does not start.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidModelError("this is not text, although its name says so; name an ONNX model .onnx.")
    if _deepest(text) > 4 * limits.NESTING:
        raise InvalidModelError("brackets are nested deeper than any model that can be read.")
    try:
        return onnx_process.parse_model(text)
    except onnx_process.NoProcessError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # besides ParseError, any C++ exception: IndexError for a number that is too long
        raise InvalidModelError(f"this is not ONNX text: {_parser_message(error)}") from None


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*|[({\[<]|[)}\]]', re.DOTALL)


def _deepest(text: str) -> int:
    """Return the depth of nested brackets; onnx's parser is recursive and crashes at some thousands."""
    deepest = depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        depth += (first in "({[") - (first in ")}]")
        deepest = max(deepest, depth)
    return deepest


def _parser_message(error: Exception) -> str:
    """Return the useful part of an error of onnx's parser."""
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    where = re.search(r"line: (\d+) column: (\d+)", text)
    what = printable(text.strip().rpartition("\n")[2].rstrip("."))[1:-1]
    return f"line {where[1]}, column {where[2]}: {what}." if where else f"{what or 'it cannot be parsed'}."
