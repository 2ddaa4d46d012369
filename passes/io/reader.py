"""Load a model and refuse, in one clear paragraph, what no later step could make sense of.

Weights in external files stay on disk, and so do large embedded ones of a large file. onnx's checker and its shape
inference are shown an summary of the model, in which such weights are typed inputs.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import onnx
import onnx.defs
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError, Message
from onnx import TensorProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.dialect import MICROSOFT, operators
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.inference_gaps import FATAL, fatal
from opshift.opsets.registry.node_traits import attributes_of, traits
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import (
    DEPRECATED,
    NEWEST,
    READ,
    Schema,
    attribute_value,
    default_domain,
    is_dialect,
    schema_read_at,
)
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.analysis.lazy_inference import Static
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.analysis.operator_checks import operator_fault
from opshift.passes.base.errors import InvalidModelError, UsageError, printable, reason, shown_path
from opshift.passes.graph import limits, traversal
from opshift.passes.graph.columnar import SMALL, columns
from opshift.passes.graph.traversal import GraphView
from opshift.passes.io import external_data, lazy_weights
from opshift.passes.io.external_data import stamp
from opshift.passes.io.model_forms import Model, as_model
from opshift.passes.io.repairs import repair

if TYPE_CHECKING:
    import onnx_ir

LIMIT = 2**31 - 1
"""Bytes: protobuf neither reads nor writes a larger message."""

LARGE = 4096
"""Bytes: a larger tensor is left out of the summary; onnx looks at the elements of smaller ones, such as shapes."""

DOMAINS = ("", "ai.onnx")
"""The two spellings of ONNX's own operator set."""


@dataclass(frozen=True)
class Source:
    """A model as it was given; nobody changes `model` or `given`.

    A model that was read from a file of more than 64 MiB has spans in place of large weights, see `external.Span`.
    `directory` is where relative external data lie, None for a model in memory. `path` is the model's file, absolute.
    `given` is the object that the caller gave, where it was not a path. `stamp` tells whether the file is still the
    one that was read. `files` are the real paths of its external data by location, where `directory` is known, and
    `allowed` the folders in which links may end.

    What the checks have found out need not be found out again: `bodies` are the graphs and functions of the model,
    `static` are facts of single values. `inferred` is an summary of the model with inferred types (large weights as
    inputs, functions left out) where the checks had to infer them.
    """

    model: onnx.ModelProto
    directory: Path | None
    path: Path | None
    given: onnx.ModelProto | onnx_ir.Model | None
    stamp: tuple[int, ...] | None = None
    allowed: tuple[Path, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    bodies: tuple[GraphView, ...] = ()
    static: Static | None = None
    inferred: onnx.ModelProto | None = None
    size: int | None = None
    """Bytes of the protobuf that was read, where `model` lacks its large weights by now."""
    stamps: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)
    """The stamps of the files in `files` when the model was read."""
    repairs: tuple[str, ...] = ()
    """What was repaired of the model, of defects that others tolerate."""


def load(
    model: Model,
    allow_paths: Iterable[str | os.PathLike[str]] = (),
) -> Source:
    """Read a model (ONNX, or ONNX text where the name ends in .onnxtxt, .onnx.txt or .txt) and check it.

    Large weights of a large file stay in it, see `Source`. A model in memory is checked in the same way, and neither
    copied nor changed. An opset that is too old to convert passes: what a model can be converted to is not asked here.
    External data in the directories `allow_paths` may be reached by links, see `external.resolve`.

    Raises:
        InvalidModelError: the file is missing, unreadable, or not ONNX; the model is against the specification or
            newer than onnx; its external data are missing or unsafe to open.
        UsageError: `allow_paths` names what is no directory.
        UsageError: `model` is something else.
    """
    allowed = external_data.permitted(allow_paths)
    given = as_model(model)
    try:
        if isinstance(given, onnx.ModelProto):
            name = "the model"
            return _checked(Source(given, None, None, given, allowed=allowed))
        if isinstance(given, str | os.PathLike):
            name = shown_path(given)
            return _checked(replace(_read(Path(given).absolute()), allowed=allowed))
        name = "the onnx_ir.Model"
        return _checked(replace(_from_ir(given), allowed=allowed))
    except InvalidModelError as error:
        raise InvalidModelError(f"{name}: {error}") from None


def from_bytes(data: bytes, named: str = "the bytes of the model") -> onnx.ModelProto:
    """Return the model that bytes hold, in the binary format; `named` is where they are from.

    Raises:
        InvalidModelError: they hold none.
    """
    try:
        if not data:
            raise InvalidModelError("there is nothing in it.")
        if len(data) > LIMIT:
            raise InvalidModelError(f"there are {len(data)}, and protobuf reads no more than 2 GiB.")
        return _parse_binary(data)
    except InvalidModelError as error:
        raise InvalidModelError(f"{named}: {error}") from None


def read_stream(file: Any, named: str) -> Any:
    """Return what a stream holds, as its `read` gives it; a stream without end is read no further than any model is.

    `named` is what errors call it.

    Raises:
        InvalidModelError: it holds more than protobuf reads, or begins with what no model begins with.
    """
    whole = io.BytesIO()
    while True:
        data = file.read(_CHUNK)
        if not isinstance(data, bytes | bytearray | memoryview):
            return data
        if not data:
            return whole.getvalue()
        if not whole.tell() and not bytes(data[:1]).strip(b"\0"):
            raise InvalidModelError(f"{named}: this is not an ONNX model: it begins with a zero byte.")
        whole.write(data)
        if whole.tell() > LIMIT:
            raise InvalidModelError(f"{named}: there is more than 2 GiB in it, and protobuf reads no more.")


_CHUNK = 2**24


def check_unchanged(source: Source) -> None:
    """Raise unless the model's file and its external data are still those that were read.

    Raises:
        InvalidModelError: one of them was changed, or is gone.
    """
    own = {} if source.path is None or source.stamp is None else {source.path: source.stamp}
    external_data.check_stamps({**own, **source.stamps})


def is_text(path: str | os.PathLike[str]) -> bool:
    """Tell by its name whether a file holds ONNX text."""
    return os.fspath(path).lower().endswith((".onnxtxt", ".txt"))


# --- reading ---


def _read(path: Path) -> Source:
    data, before = _contents(path, _everything if is_text(path) else functools.partial(_without_large, path))
    if not data.strip():
        raise InvalidModelError("the file is empty.")
    model = _parse_text(data) if is_text(path) else _parse_binary(data)
    if not lazy_weights.is_sound(model):
        data, before = _contents(path, _everything)
        model = _parse_binary(data)
    return Source(model, path.parent, path, None, before)


def _everything(file: BinaryIO, _: os.stat_result) -> bytes:
    return file.read()


def _without_large(path: Path, file: BinaryIO, status: os.stat_result) -> bytes:
    """Return what a file holds, without the large weights of a large one."""
    if status.st_size <= SMALL:
        return file.read()
    return lazy_weights.read(file, path, status)


def _contents(path: Path, read: Callable[[BinaryIO, os.stat_result], bytes]) -> tuple[bytes, tuple[int, ...]]:
    """Return what `read` makes of a file, and the file's stamp."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # looked at before it is opened: opening a FIFO waits
            raise InvalidModelError("this is a folder, not a file." if path.is_dir() else "this is not a regular file.")
        with path.open("rb") as file:
            external_data.settled(os.fstat(file.fileno()))
            status = os.fstat(file.fileno())
            if status.st_size > LIMIT:
                raise InvalidModelError(
                    f"the file has {status.st_size} bytes, and protobuf reads no more than 2 GiB. "
                    "Save the model with its weights as external data: onnx.save(..., save_as_external_data=True)."
                )
            data, before = read(file, status), stamp(status)
            if stamp(os.fstat(file.fileno())) != before:
                raise InvalidModelError("the file changed while it was read. Run this again when it is written.")
            return data, before
    except FileNotFoundError:
        raise InvalidModelError("there is no such file.") from None
    except PermissionError:
        raise InvalidModelError("the file may not be read: permission denied.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InvalidModelError(f"the file cannot be read: {reason(error)}.") from None


def _parse_binary(data: bytes) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise InvalidModelError(
                f"messages are nested deeper than protobuf reads (some {limits.NESTING} graphs inside each other)."
            ) from None
        raise InvalidModelError(_guess(data) or "this is not an ONNX model, or it was damaged or cut off.") from None
    if not model.HasField("graph"):
        raise InvalidModelError(_guess(data) or "there is no graph in it: not an ONNX model, or it was cut off.")
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


def _guess(data: bytes) -> str | None:
    """Return what a file is that is not ONNX, if that is easy to tell."""
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


def _parse_text(data: bytes) -> onnx.ModelProto:
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
    except Exception as error:  # besides ParseError whatever C++ throws: IndexError for a number that is too long
        raise InvalidModelError(f"this is not ONNX text: {_complaint(error)}") from None


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*|[({\[<]|[)}\]]', re.DOTALL)


def _deepest(text: str) -> int:
    """Return how deep brackets are nested; onnx's parser is recursive and crashes at some thousands."""
    deepest = depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        depth += (first in "({[") - (first in ")}]")
        deepest = max(deepest, depth)
    return deepest


def _complaint(error: Exception) -> str:
    """Return the useful part of what onnx's parser says."""
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    where = re.search(r"line: (\d+) column: (\d+)", text)
    what = printable(text.strip().rpartition("\n")[2].rstrip("."))[1:-1]
    return f"line {where[1]}, column {where[2]}: {what}." if where else f"{what or 'it cannot be parsed'}."


def _from_ir(model: onnx_ir.Model) -> Source:
    import onnx_ir

    try:
        proto = onnx_ir.serde.serialize_model(model)
    except Exception as error:  # SerdeError, or whatever a tensor that is computed on demand raises
        raise InvalidModelError(f"it cannot be turned into an onnx.ModelProto: {printable(str(error), 300)}.") from None
    on_disk = [tensor for tensor in _ir_tensors(model) if isinstance(tensor, onnx_ir.ExternalTensor)]
    # An empty base_dir is the current folder after onnx_ir.load("model.onnx"), else unknown: onnx_ir.from_proto gives
    # none, and onnx_ir.load (1.1) gives none to tensors in functions.
    directories = {external_data.real(Path(tensor.base_dir)) for tensor in on_disk if os.fspath(tensor.base_dir)}
    if on_disk and not directories and all(Path(tensor.location).exists() for tensor in on_disk):
        directories = {Path.cwd()}
    if len(directories) > 1:
        raise InvalidModelError(
            "its external data lie in several folders, and a model's file can refer to one only. "
            "Load them into memory first: onnx_ir.external_data.load_to_model(model)."
        )
    return Source(proto, min(directories, default=None), None, model)


def _ir_tensors(model: onnx_ir.Model) -> Iterator[Any]:
    """Yield the tensors of all graphs and functions."""
    graphs = list(model.graphs())
    nodes = [node for graph in graphs for node in graph]
    for function in model.functions.values():
        inner = list(function.subgraphs())
        graphs += inner
        nodes += [*function, *(node for graph in inner for node in graph)]
    for graph in graphs:
        yield from (value.const_value for value in graph.initializers.values())
    for node in nodes:
        for attribute in node.attributes.values():
            if attribute.type.name == "TENSOR":
                yield attribute.value
            elif attribute.type.name == "TENSORS" and attribute.value is not None:
                yield from attribute.value


# --- checking ---


class _ToleratedError(InvalidModelError):
    """A defect that others tolerate."""


def _checked(source: Source) -> Source:
    """Check a model that was read, and repair what others tolerate; what is returned may hold inferred types."""
    try:
        return _checked_as_it_is(source)
    except _ToleratedError as error:
        model = source.model
        if model is source.given:
            model = onnx.ModelProto()
            model.CopyFrom(source.model)
        if not (repairs := repair(model)):
            raise InvalidModelError(str(error)) from None
    return replace(_checked_as_it_is(replace(source, model=model)), repairs=repairs)


def _checked_as_it_is(source: Source) -> Source:
    model = source.model
    _check_head(model)
    try:
        found = tuple(traversal.graph_views(model, columns(model) if is_small(source) else None))
        summary = _summary(model, found[0])
        data = summary.SerializeToString()
    except UnicodeDecodeError:
        raise _not_utf8() from None
    except EncodeError:
        raise InvalidModelError(
            "it has more than 2 GiB without the weights of its main graph, which is more than protobuf writes."
        ) from None
    _check_utf8(data)
    _check_types(summary, found)
    _check_names(found)
    _check_axes(found)
    _check_fatal(found)
    _check_attributes(model, data, found)
    _check_calls(model, found)
    for tensor in traversal.tensors(found):
        _check_tensor(tensor)
    references = external_data.references(found)
    files: Mapping[str, Path] = {}
    if source.directory is not None:
        files = external_data.resolve(references, source.directory, source.path, source.allowed)
    stamps = external_data.stamps(files.values())
    _check_by_onnx(_closed(summary, data))
    static, inferred = _check_types_of_operators(model, summary, found)
    return replace(source, files=files, stamps=stamps, bodies=found, static=static, inferred=inferred)


def is_small(source: Source) -> bool:
    """Whether a model is read from a file that is too small to hold large weights."""
    return source.stamp is not None and source.stamp[0] <= SMALL


def _check_head(model: onnx.ModelProto) -> None:
    """Check what a model says of itself, before anything is made of the rest."""
    known = f"onnx {onnx.__version__}, which is installed here,"
    if not model.HasField("graph"):
        raise InvalidModelError("there is no graph in it.")
    if model.ir_version < 1:
        raise InvalidModelError("it has no ir_version: not an ONNX model, or it was damaged.")
    if model.ir_version > onnx.IR_VERSION:
        raise InvalidModelError(
            f"it has ir_version {model.ir_version}; {known} knows those up to {onnx.IR_VERSION}. "
            "A newer onnx may read it."
        )
    versions: dict[str | bytes, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DOMAINS else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:  # which one counts differs between readers
            raise InvalidModelError(
                f"it imports two versions of the operators of the domain {printable(domain or 'ai.onnx')}: "
                f"{versions[domain]} and {entry.version}."
            )
    if model.ir_version < 3 and not versions:
        return  # opset 1, without saying so
    if "" not in versions:
        raise InvalidModelError(
            "it declares no opset (opset_import has no entry for ai.onnx): it was cut off, or never whole."
        )
    newest = onnx.defs.onnx_opset_version()
    if versions[""] > newest:
        raise InvalidModelError(
            f"it is written in opset {versions['']}; {known} knows opsets up to {newest}. A newer onnx may read it."
        )
    if versions[""] < 1:
        raise InvalidModelError(f"it claims to be written in opset {versions['']}, which does not exist.")


def _is_heavy(tensor: TensorProto) -> bool:
    """Tell whether a tensor is left out of the summary, by what it declares: protobuf's ByteSize would copy it."""
    if external_data.is_external(tensor):
        return True
    try:
        return (external_data.size(tensor) or 0) > LARGE
    except InvalidModelError:  # no such type or shape, which is reported when all of them are checked
        return False


def _summary(model: onnx.ModelProto, main: GraphView) -> onnx.ModelProto:
    """Return the model with its large and external weights as typed inputs; the model itself where it has none.

    Those are the initializers and Constant nodes of the main graph. Elsewhere an input would change what a graph
    takes, so there tensors stay as they are.
    """
    graph = model.graph
    heavy = [_is_heavy(tensor) for tensor in graph.initializer]
    constants: Mapping[int, TensorProto] = {}
    if any(attribute.name == "value" and _is_heavy(attribute.t) for attribute in main.holders):
        constants = {
            index: node.attribute[0].t
            for index, node in enumerate(graph.node)
            if node.op_type == CONSTANT and node.domain in DOMAINS and len(node.attribute) == len(node.output) == 1
            if node.attribute[0].name == "value" and _is_heavy(node.attribute[0].t)
        }
    if not any(heavy) and not constants:
        return model
    summary = onnx.ModelProto()
    _copy_fields(summary, model, {"graph"})
    _copy_fields(summary.graph, graph, {"node", "initializer"})
    summary.graph.node.extend(node for index, node in enumerate(graph.node) if index not in constants)
    summary.graph.initializer.extend(tensor for tensor, drop in zip(graph.initializer, heavy, strict=True) if not drop)
    inputs = {value.name for value in graph.input}
    weights = [(tensor.name, tensor) for tensor, drop in zip(graph.initializer, heavy, strict=True) if drop]
    weights += [(graph.node[index].output[0], tensor) for index, tensor in constants.items()]
    for name, tensor in weights:
        if name not in inputs:
            value = summary.graph.input.add(name=name)
            value.type.tensor_type.elem_type = tensor.data_type
            value.type.tensor_type.shape.SetInParent()
            for size in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=size)
    return summary


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which the large initializers that the model in memory holds have no elements."""
    light = onnx.ModelProto()
    _copy_fields(light, model, {"graph"})
    _copy_fields(light.graph, model.graph, {"initializer"})
    for tensor in model.graph.initializer:
        if _is_heavy(tensor) and tensor.data_location != TensorProto.EXTERNAL:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.add().CopyFrom(tensor)
    return light


def _copy_fields(target: Message, source: Message, without: set[str]) -> None:
    """Copy all fields of a message that are set, except some."""
    for entry, value in source.ListFields():
        if entry.name in without:
            continue
        if hasattr(value, "MergeFrom"):  # a message, or a repeated field
            getattr(target, entry.name).MergeFrom(value)
        else:
            setattr(target, entry.name, value)


def _not_utf8() -> InvalidModelError:
    return InvalidModelError("there is a name or a text in it that is not UTF-8: it was damaged.")


def _check_utf8(data: bytes) -> None:
    """Refuse strings that are not UTF-8: protobuf's Python hands those of a proto2 message out as bytes."""
    try:
        _proto3_model().FromString(data)
    except DecodeError:
        raise _not_utf8() from None


@functools.cache
def _proto3_model() -> type[Message]:
    """Return ONNX's ModelProto in proto3, in which a parser must check that strings are UTF-8."""
    description = descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(description)
    description.syntax = "proto3"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(description.SerializeToString())
    descriptor = pool.FindMessageTypeByName(onnx.ModelProto.DESCRIPTOR.full_name)
    return cast(type[Message], message_factory.GetMessageClass(descriptor))


def _check_types(model: onnx.ModelProto, found: Sequence[GraphView]) -> None:
    """Check the element types of values, which onnx's checker does not; inside they may be left out."""
    for value in _tensors_in_and_out(model):
        _check_type(value, external_data.ELEMENT_TYPES)
    inputs = {
        value.name: _as_type(value.type) for value in found[0].graph.input if isinstance(value, onnx.ValueInfoProto)
    }
    for value in model.graph.output:
        if value.name in inputs and not _agree(inputs[value.name], _as_type(value.type)):
            raise InvalidModelError(f"{printable(value.name)} is an input and an output, of different types.")
    for body in found:
        graph = body.graph
        declared = (graph.value_info,) if isinstance(graph, onnx.FunctionProto) else (graph.input, graph.output)
        for value in (value for values in (*declared, graph.value_info) for value in values):
            _check_type(value, external_data.ELEMENT_TYPES | {TensorProto.UNDEFINED})


def _agree(one: Facts | None, other: Facts | None) -> bool:
    """Tell whether a value can be of both types."""
    if one is None or other is None:
        return one is other
    dims = None if one.shape is None or other.shape is None else (one.shape, other.shape)
    return one.dtype == other.dtype and (
        dims is None
        or (len(dims[0]) == len(dims[1]) and all(a == b or None in (a, b) for a, b in zip(*dims, strict=True)))
    )


def _check_type(value: onnx.ValueInfoProto, known: Container[int]) -> None:
    dtype = value.type.tensor_type.elem_type
    if value.type.HasField("tensor_type") and dtype not in known:
        raise InvalidModelError(f"{printable(value.name)} has the element type {dtype}, which onnx does not know.")


_FIELDS: Mapping[int, str] = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}


def _check_names(found: Iterable[GraphView]) -> None:
    """Check what onnx's checker does not, and onnxruntime does, or what the summary hides from it."""
    for body in found:
        graph = body.graph
        if name := _twice([name for name in body.names if name]):
            raise _ToleratedError(f"two nodes of {printable(body.path)} have the name {printable(name)}.")
        if isinstance(graph, onnx.FunctionProto):
            for default in graph.attribute_proto:
                what = f"the default {printable(default.name)} of {printable(body.path)}"
                if default.ref_attr_name:
                    raise InvalidModelError(f"{what} refers to a parameter; it must have a value.")
                if default.type in _FIELDS and not default.HasField(_FIELDS[default.type]):
                    raise InvalidModelError(f"{what} has no value of its type.")
            computed = {*graph.input, *body.outputs}
            for name in graph.output:
                if name not in computed:
                    raise InvalidModelError(f"{printable(body.path)} never computes its output {printable(name)}.")
            continue
        names = [tensor.name for tensor in graph.initializer]
        if name := _twice(names + [tensor.values.name for tensor in graph.sparse_initializer]):
            raise InvalidModelError(f"two initializers of {printable(body.path)} have the name {printable(name)}.")


def _check_calls(model: onnx.ModelProto, found: Iterable[GraphView]) -> None:
    """Check that no call gives a function more than it takes, or takes more than it gives."""
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    calls = (
        (body, index, functions[kind])
        for body in found
        for kind, places in body.kinds.items()
        if kind in functions
        for index in places
    )
    for body, index, called in calls:
        node = body.graph.node[index]
        if len(node.input) > len(called.input) or len(node.output) > len(called.output):
            where = printable(f"{body.path}/{traversal.node_name(node, index)}")
            raise InvalidModelError(
                f"{where} calls the function {printable(called.name)} with {len(node.input)} inputs and "
                f"{len(node.output)} outputs; it has {len(called.input)} and {len(called.output)}."
            )


def _check_axes(found: Iterable[GraphView]) -> None:
    """Check that no shape is declared to have countless axes: onnx's inference would set aside as many."""
    lengths: dict[int, dict[str, int]] = {}
    for body in found:
        graph = body.graph
        declared = () if isinstance(graph, onnx.FunctionProto) else graph.input
        vectors = {
            value.name: value.type.tensor_type.shape.dim[0].dim_value
            for values in (declared, graph.value_info)
            for value in values
            if len(value.type.tensor_type.shape.dim) == 1
        }
        lengths[id(body)] = {**(lengths[id(body.outer)] if body.outer else {}), **vectors}
        for index in body.places(limits.SHAPED):
            node = graph.node[index]
            position = limits.SHAPED[node.op_type]
            if position < len(node.input):
                length = lengths[id(body)].get(node.input[position], 0)
                if length > limits.MOST_AXES:
                    where = printable(f"{body.path}/{traversal.node_name(node, index)}")
                    raise InvalidModelError(f"{node.op_type} at {where}: its shape has {length} axes.")


def _check_fatal(found: Iterable[GraphView]) -> None:
    """Check nodes that onnx's inference does not survive."""
    for body in found:
        for index in body.places(FATAL):
            node = body.graph.node[index]
            attributes = {one.name: attribute_value(one) for one in node.attribute if not one.ref_attr_name}
            if node.domain in DOMAINS and (wrong := fatal(node.op_type, attributes, len(node.output))):
                where = printable(f"{body.path}/{traversal.node_name(node, index)}")
                raise InvalidModelError(f"{node.op_type} at {where}: {wrong}.")


def _twice(names: Sequence[str]) -> str | None:
    """Return a name that stands there twice."""
    return Counter(names).most_common(1)[0][0] if len(set(names)) < len(names) else None


def _check_tensor(tensor: TensorProto) -> None:
    """Check the number of elements, which the summary hides from onnx's checker."""
    needed = external_data.size(tensor)
    if tensor.data_location == TensorProto.EXTERNAL:
        return
    if tensor.HasField("raw_data") and needed is not None:
        actual = len(tensor.raw_data)
        if actual != needed:
            raise InvalidModelError(
                f"tensor {printable(tensor.name)} has {actual} bytes of data; its shape and element type need {needed}."
            )
    else:
        _check_entries(tensor)


def _check_entries(tensor: TensorProto) -> None:
    """Check the elements that a tensor lists: onnx's checker is content with any number of them."""
    if tensor.HasField("segment"):
        raise InvalidModelError(
            f"tensor {printable(tensor.name)} is a segment of a larger one, which opshift does not support."
        )
    per_element, packed = _PACKED.get(tensor.data_type, (1, 1))
    needed = -(-math.prod(tensor.dims) * per_element // packed)
    wanted = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    entries = {field: len(getattr(tensor, field)) for field in _DATA}
    if others := [field for field, count in entries.items() if count and field != wanted]:
        raise InvalidModelError(f"tensor {printable(tensor.name)} has entries in {others[0]}; its type needs {wanted}.")
    if entries[wanted] != needed:
        raise InvalidModelError(
            f"tensor {printable(tensor.name)} has {entries[wanted]} entries in {wanted}; "
            f"its shape and type need {needed}."
        )


_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")

# What `int32_data` and its like say in onnx.proto: complex numbers take two entries, narrow ones share one.
_PACKED: Mapping[int, tuple[int, int]] = {
    TensorProto.COMPLEX64: (2, 1),
    TensorProto.COMPLEX128: (2, 1),
    TensorProto.UINT4: (1, 2),
    TensorProto.INT4: (1, 2),
    TensorProto.FLOAT4E2M1: (1, 2),
    TensorProto.UINT2: (1, 4),
    TensorProto.INT2: (1, 4),
}


_FUNCTIONS = 8
"""The ir_version that functions came with; onnx's checker leaves them out of older models."""


def _closed(summary: onnx.ModelProto, data: bytes) -> bytes:
    """Return the summary, serialised, without references to files, which onnx's checker would look for.

    Functions are looked into whatever the ir_version, as onnxruntime does. An external tensor that is left in the
    summary becomes an empty one. The domain is spelled '', and inputs and outputs of unknown rank, which the checker
    refuses and onnxruntime takes, are shown as scalars. A version that is deprecated and read all the same stands in a
    domain where it is not deprecated, and an operator that onnxruntime alone has in the default domain in its own.
    """
    shapeless = any(not value.type.tensor_type.HasField("shape") for value in _tensors_in_and_out(summary))
    early = bool(summary.functions) and summary.ir_version < _FUNCTIONS
    deprecated, own = _deprecated(summary, data), _own_spellings(summary, data)
    if (
        not shapeless
        and not early
        and not deprecated
        and not own
        and b"location" not in data
        and b"\x07ai.onnx" not in data
    ):
        return data  # protobuf writes a string as its length and its bytes
    model = onnx.ModelProto()
    model.CopyFrom(summary)
    if early:
        model.ir_version = _FUNCTIONS
    found = tuple(traversal.graph_views(model))
    for body in found:
        for sparse in traversal.sparse_tensors(body):
            if external_data.is_external(sparse.values) or external_data.is_external(sparse.indices):
                _empty(sparse.values)
                _empty(sparse.indices)
    for tensor in traversal.tensors(found):
        if external_data.is_external(tensor):
            _empty(tensor)
    for value in _tensors_in_and_out(model):
        value.type.tensor_type.shape.SetInParent()
    holders = [*model.opset_import, *model.functions, *(node for body in found for node in body.graph.node)]
    holders += [entry for function in model.functions for entry in function.opset_import]
    for holder in holders:
        if holder.domain == "ai.onnx":
            holder.domain = ""
    for one in deprecated:
        for node in (node for body in found for node in body.graph.node):
            if not node.domain and node.op_type == one.name:
                node.domain, node.op_type = one.domain, one.raw.name
        for importer in (model, *model.functions):
            importer.opset_import.add(domain=one.domain, version=one.since_version)
    if own:
        for node in (node for body in found for node in body.graph.node):
            if not node.domain and node.op_type in own:
                node.domain = MICROSOFT
        for importer in (model, *model.functions):
            if all(entry.domain != MICROSOFT for entry in importer.opset_import):
                importer.opset_import.add(domain=MICROSOFT, version=1)
    return cast(bytes, model.SerializeToString())


def _deprecated(summary: onnx.ModelProto, data: bytes) -> Sequence[Schema]:
    """Return the versions that are deprecated and read all the same, of operators that the model names."""
    importers = (summary, *summary.functions)
    opsets = {entry.version for one in importers for entry in one.opset_import if entry.domain in DOMAINS}
    named = (name for name, _ in READ if name.encode() in data)
    found = ([schema_read_at("", name, opset) for opset in opsets] for name in named)
    return [one[0] for one in found if one[0] and all(other and other.domain == DEPRECATED for other in one)]


def _own_spellings(summary: onnx.ModelProto, data: bytes) -> frozenset[str]:
    """Return the operators that the model may have, of those that onnxruntime alone has in the default domain."""
    opsets = {
        entry.version
        for one in (summary, *summary.functions)
        for entry in one.opset_import
        if entry.domain in DOMAINS and entry.version <= NEWEST
    }
    named = (name for name in operators("") if name.encode() in data)
    found = ((name, [schema_read_at("", name, opset) for opset in opsets]) for name in named)
    return frozenset(name for name, read in found if read and all(one and is_dialect(one) for one in read))


def _tensors_in_and_out(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    values = (*model.graph.input, *model.graph.output)
    return (value for value in values if value.type.HasField("tensor_type"))


def _empty(tensor: TensorProto) -> None:
    tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))


def _check_by_onnx(data: bytes) -> None:
    with _condensed_faults():
        onnx_process.check_model(data)


@contextlib.contextmanager
def _condensed_faults() -> Iterator[None]:
    try:
        yield
    except onnx_process.NoProcessError as error:
        raise UsageError(str(error)) from error
    except onnx_process.OnnxDiedError as error:
        raise InvalidModelError(f"it cannot be checked: {error}. Export it again, or repair it.") from None
    except Exception as error:  # ValidationError, or what C++ throws at contents that nobody foresaw
        kind = _ToleratedError if _UNSORTED.search(str(error)) else InvalidModelError
        raise kind(_condensed(str(error))) from None


_REFERENCE = b"\xaa\x01"  # the field ref_attr_name of an attribute


def _check_attributes(model: onnx.ModelProto, data: bytes, found: Sequence[GraphView]) -> None:
    """Check attributes of graphs for training, which onnx's checker passes over, and parameters outside functions."""
    if not model.training_info and _REFERENCE not in data:
        return
    roots: dict[int, onnx.GraphProto | onnx.FunctionProto] = {}
    for body in found:  # an outer one always comes before those inside it
        roots[id(body)] = roots[id(body.outer)] if body.outer else body.graph
    training = {id(graph) for info in model.training_info for graph in (info.initialization, info.algorithm)}
    newest = onnx.defs.onnx_opset_version()  # of which an attribute on its own does not depend
    for body in found:
        root = roots[id(body)]
        if isinstance(root, onnx.FunctionProto):
            continue
        for index, node in enumerate(body.graph.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    where = printable(f"{body.path}/{traversal.node_name(node, index)}")
                    what = f"the parameter {printable(attribute.ref_attr_name)} of a function"
                    raise InvalidModelError(f"{node.op_type} at {where} refers to {what}, and is in none.")
                if id(root) in training and not list(traversal.held_graphs(attribute)):
                    with _condensed_faults():
                        onnx_process.check_attribute(attribute, model.ir_version, newest)


_UNSORTED = re.compile(r"topologically sorted, however input '(.*?)' of node:\s*name: (.*?) OpType: (\S*)", re.S | re.I)


def _condensed(text: str) -> str:
    """Return what onnx's checker says in one line, with the node that it is about."""
    if match := _UNSORTED.search(text):
        value, name, operator = match.groups()
        return (
            f"input {printable(value)} of {_node(name, operator)} is not computed before it: nothing has that name, or "
            "the nodes form a cycle or are in the wrong order."
        )
    if "Unable to parse proto" in text:
        return "it is too large, or nested too deep, for onnx to check."
    message, _, context = text.partition("\n\n==> Context: ")
    message = re.sub(r"^No Op registered for (.*) with domain_version of (\S+)", r"there is no \1 in opset \2", message)
    message = printable(" ".join(message.split()).rstrip("."), 400)[1:-1]
    match = re.search(r"Name: (.*?) OpType: (\S*)", context, re.S)
    where = f"{_node(match[1], match[2])}: " if match else ""
    return f"it breaks ONNX's rules: {where}{message}. Export it again, or repair it."


def _node(name: str, operator: str) -> str:
    shown = printable(operator)[1:-1]
    return f"node {printable(name.strip())} ({shown})" if name.strip() else f"a node {shown}".rstrip()


# --- the operators that onnx checks in part ---


def check_operators(model: onnx.ModelProto) -> None:
    """Check axes, element types and shapes of Hardmax, ArgMax and OneHot, which onnx's checker leaves unchecked.

    Graphs inside graphs are looked into; the bodies of functions, which have no types, are not.

    Raises:
        InvalidModelError: one is out of what the operator's version defines, as far as types are known.
    """
    found = tuple(traversal.graph_views(model))
    summary = _summary(model, found[0])
    _check_types_of_operators(model, summary, found)


def _check_types_of_operators(
    model: onnx.ModelProto, summary: onnx.ModelProto, found: Sequence[GraphView]
) -> tuple[Static | None, onnx.ModelProto | None]:
    """Check the operators; return what had to be found out for it, of single values and by onnx's inference."""
    if not any(map(_unguarded, found)):
        return None, None
    static = Static(model, found[0])
    # The values of graphs inside graphs have scopes of their own.
    if len(found) == 1 and _check_operators(
        found, summary, lambda body, name: _as_tensor_type(static.find(name)), static.alike
    ):
        return static, None
    inferred = _inferred(summary)
    inside = tuple(traversal.graph_views(inferred))
    types: dict[int, Mapping[str, Facts | None]] = {}
    _check_operators(inside, summary, lambda body, name: _type(name, body, types))
    return static, inferred


def _check_operators(
    found: Sequence[GraphView],
    summary: onnx.ModelProto,
    type_of: Callable[[GraphView, str], Facts | None],
    alike: Callable[[int], Hashable] = lambda index: None,
) -> bool:
    """Check the operators by the types of their inputs; whether all of these are known.

    `alike` tells what nodes of the main graph share that are the same, if anything: one of them is checked.
    """
    opset = max((entry.version for entry in summary.opset_import if entry.domain in DOMAINS), default=1)
    complete = True
    checked: set[Hashable] = {None}
    for body in found:
        for index in body.places(_unguarded(body)):
            if (same := alike(index)) in checked and same is not None:
                continue
            checked.add(same)
            node = body.graph.node[index]
            schema = schema_read_at("", node.op_type, opset)
            if node.domain not in DOMAINS or schema is None:
                continue
            attributes = attributes_of(node)
            inputs = tuple([type_of(body, name) for name in node.input[:]])
            complete = complete and None not in inputs
            if None in attributes.values():
                continue  # a parameter of a function, which each call gives
            seen = Node("", node.op_type, schema.since_version, attributes, inputs, (True,) * len(node.output))
            if fault := operator_fault(seen):
                where = printable(f"{body.path}/{traversal.node_name(node, index)}")
                raise InvalidModelError(f"{node.op_type}-{schema.since_version} at {where}: {fault}.")
    return complete


def _unguarded(body: GraphView) -> frozenset[str]:
    """Return the names of the operators in a graph whose nodes onnx does not check."""
    return frozenset(name for domain, name, _ in body.kinds if not default_domain(domain) and traits(name).checked)


def _inferred(summary: onnx.ModelProto) -> onnx.ModelProto:
    plain = summary
    if summary.functions:  # inferring through functions that call each other takes time exponential in their depth
        plain = onnx.ModelProto()
        _copy_fields(plain, summary, {"functions"})
    try:
        return infer_model(plain)
    except Exception:  # even when it is not strict it gives up at some contradictions; declared types are left
        return plain


def _type(name: str, body: GraphView, types: dict[int, Mapping[str, Facts | None]]) -> Facts | None:
    """Return what is known of a value in a graph, which may come from a graph around it."""
    scope: GraphView | None = body
    while scope is not None:
        if id(scope) not in types:
            types[id(scope)] = _declared(scope.graph)
        if name in types[id(scope)]:
            return types[id(scope)][name]
        scope = scope.outer
    return None


def _declared(graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[str, Facts | None]:
    """Return the types of the values of a graph."""
    if isinstance(graph, onnx.FunctionProto):
        return {}
    known: dict[bytes, Facts | None] = {}  # a large model has few types
    declared: dict[str, Facts | None] = {}
    for values in (graph.output, graph.value_info, graph.input):
        for value in values:
            kind = value.type.SerializeToString()
            if kind not in known:
                known[kind] = _as_type(value.type)
            declared[value.name] = known[kind]
    return declared | {tensor.name: Facts(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}


def _as_tensor_type(facts: Facts | None) -> Facts | None:
    if facts is None or facts.shape is None:
        return None
    return Facts(facts.dtype, facts.shape)


def _as_type(declared: onnx.TypeProto) -> Facts | None:
    if not declared.HasField("tensor_type"):
        return None
    tensor = declared.tensor_type
    # onnxruntime takes a negative dimension for one that is not known.
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
    )
    return Facts(tensor.elem_type or None, dims if tensor.HasField("shape") else None)
