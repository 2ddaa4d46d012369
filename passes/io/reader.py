"""Load a model, and refuse an unusable one with a clear error.

Weights in external files stay on disk, as do large embedded ones of a large file. onnx's checker and shape inference
get a summary of the model, in which such weights are typed inputs.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import onnx
import onnx.defs
from google.protobuf.message import EncodeError

from opshift.passes.analysis.element_type_checks import check_element_types
from opshift.passes.analysis.lazy_inference import StaticFacts
from opshift.passes.base.errors import InvalidModelError, printable, reason, shown_path
from opshift.passes.base.version_numbers import check_opset
from opshift.passes.graph import traversal
from opshift.passes.graph.columnar import SMALL, columnar_view
from opshift.passes.graph.traversal import GraphView
from opshift.passes.io import external_data, lazy_weights
from opshift.passes.io.external_data import stamp
from opshift.passes.io.formats import parse_binary, parse_text
from opshift.passes.io.model_checks import check_head, check_structure, not_utf8, with_fitting_opset
from opshift.passes.io.model_forms import LIMIT, Model, as_model
from opshift.passes.io.onnx_checks import ToleratedError, check_by_onnx, shown_to_onnx
from opshift.passes.io.operator_type_checks import check_types_of_operators
from opshift.passes.io.repairs import declare_newest_opset, declare_opset, needs_no_opset, read_as, repair

if TYPE_CHECKING:
    import onnx_ir


@dataclass(frozen=True)
class Source:
    """A model as it was passed; `model` and `original` must not be modified.

    Rewriting takes over the `model` of a large file, and goes on with a source whose model has no weights.

    A model that was read from a file of more than 64 MiB has spans in place of large weights, see `external_data.Span`.
    `directory` is the folder of relative external data, None for a model in memory. `path` is the absolute path of the
    model's file. `original` is the caller's object, unless it is a path. `stamp` identifies the state of the file that
    was read. `files` are the real paths of its external data by location, where `directory` is known, and `allowed`
    the folders in which links may end.

    Later steps reuse the results of the checks: `views` are the graphs and functions of the model, `static` are facts
    of single values. `inferred` is a summary of the model with inferred types (large weights as inputs, functions left
    out), if the checks needed inference.
    """

    model: onnx.ModelProto
    directory: Path | None
    path: Path | None
    original: onnx.ModelProto | onnx_ir.Model | None
    stamp: tuple[int, ...] | None = None
    allowed: tuple[Path, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    views: tuple[GraphView, ...] = ()
    static: StaticFacts | None = None
    inferred: onnx.ModelProto | None = None
    size: int | None = None
    """The bytes of the protobuf that was read, if `model` lacks its large weights now."""
    stamps: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)
    """The stamps of the files in `files` when the model was read."""
    repairs: tuple[str, ...] = ()
    """The repaired defects of the model, which others tolerate."""
    replaced: frozenset[str] = frozenset()
    """The operators that were replaced after reading, as `decompose` names them."""


def load(
    model: Model,
    allow_paths: Iterable[str | os.PathLike[str]] = (),
    assume_opset: int | None = None,
) -> Source:
    """Read and check a model (ONNX, or ONNX text if the name ends in .onnxtxt, .onnx.txt or .txt).

    Large weights of a large file stay in it, see `Source`. A model in memory is checked in the same way, and neither
    copied nor modified. An opset that is too old to convert is accepted here: convertibility is checked later. External
    data in the directories `allow_paths` may be reached by links, see `external_data.resolve`. With `assume_opset`, the
    model is read at that opset, whatever it declares; the returned model declares it.

    Raises:
        InvalidModelError: the file is missing, unreadable, or not ONNX; the model violates the specification or is
            newer than onnx; its external data are missing or unsafe to open.
        UsageError: an item of `allow_paths` is not a directory, or onnx does not know the opset.
        UsageError: `model` is something else.
    """
    check_opset("assume_opset", assume_opset)
    allowed = external_data.permitted(allow_paths)
    original = as_model(model)
    try:
        if isinstance(original, onnx.ModelProto):
            name = "the model"
            return _checked(Source(original, None, None, original, allowed=allowed), assume_opset)
        if isinstance(original, str | os.PathLike):
            name = shown_path(original)
            return _checked(replace(_read(Path(original).absolute()), allowed=allowed), assume_opset)
        name = "the onnx_ir.Model"
        return _checked(replace(_from_ir(original), allowed=allowed), assume_opset)
    except InvalidModelError as error:
        raise InvalidModelError(f"{name}: {error}") from None


def check_unchanged(source: Source) -> None:
    """Raise if the model's file or its external data have changed since they were read.

    Raises:
        InvalidModelError: one of them was changed or removed.
    """
    own = {} if source.path is None or source.stamp is None else {source.path: source.stamp}
    external_data.check_stamps({**own, **source.stamps})


def is_text(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds ONNX text, by its name."""
    return os.fspath(path).lower().endswith((".onnxtxt", ".txt"))


def _read(path: Path) -> Source:
    data, before = _contents(path, _read_all if is_text(path) else functools.partial(_without_large, path))
    if not data.strip():
        raise InvalidModelError("the file is empty.")
    model = parse_text(data) if is_text(path) else parse_binary(data)
    if not lazy_weights.is_sound(model):
        data, before = _contents(path, _read_all)
        model = parse_binary(data)
    return Source(model, path.parent, path, None, before)


def _read_all(file: BinaryIO, _: os.stat_result) -> bytes:
    return file.read()


def _without_large(path: Path, file: BinaryIO, status: os.stat_result) -> bytes:
    """Return the contents of a file; large weights of a large file are skipped."""
    if status.st_size <= SMALL:
        return file.read()
    return lazy_weights.read(file, path, status)


def _contents(path: Path, read: Callable[[BinaryIO, os.stat_result], bytes]) -> tuple[bytes, tuple[int, ...]]:
    """Return the result of `read` for a file, and the file's stamp."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # checked before it is opened: opening a FIFO blocks
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


def _from_ir(model: onnx_ir.Model) -> Source:
    import onnx_ir

    try:
        proto = onnx_ir.serde.serialize_model(model)
    except Exception as error:  # SerdeError, or any exception of a lazily computed tensor
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


_OPSETS = 3
"""The first ir_version with opset imports."""


def _checked(source: Source, assume_opset: int | None = None) -> Source:
    """Check a model that was read, and repair tolerated defects; the result may hold inferred types."""
    try:
        declared = _with_opset(source.model, assume_opset)
    except UnicodeDecodeError:
        raise not_utf8() from None
    if declared is not None:
        model, note = declared
        found = _checked(replace(source, model=model, stamp=None, repairs=(*source.repairs, note)), assume_opset)
        return replace(found, stamp=source.stamp)
    if assume_opset is not None:
        model, note = read_as(source.model, assume_opset)
        if note:
            found = _checked(replace(source, model=model, stamp=None, repairs=(*source.repairs, note)))
            return replace(found, stamp=source.stamp)
    try:
        return _checked_as_it_is(source)
    except ToleratedError as error:
        model = source.model
        if model is source.original:
            model = onnx.ModelProto()
            model.CopyFrom(source.model)
        if not (repairs := repair(model)):
            raise InvalidModelError(str(error)) from None
    return replace(_checked_as_it_is(replace(source, model=model)), repairs=(*source.repairs, *repairs))


def _with_opset(model: onnx.ModelProto, assume_opset: int | None) -> tuple[onnx.ModelProto, str] | None:
    """Return a copy of a model without an opset import, with one added, and a note; None for any other model."""
    early = _OPSETS > model.ir_version > 0 and not model.opset_import
    if not model.HasField("graph") or not (early or (assume_opset is None and needs_no_opset(model))):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy, declare_opset(copy) if early else declare_newest_opset(copy)


def _checked_as_it_is(source: Source) -> Source:
    model = source.model
    check_head(model)
    try:
        found = tuple(traversal.graph_views(model, columnar_view(model) if is_small(source) else None))
        summary = shown_to_onnx(model, found[0])
        data = summary.SerializeToString()
    except UnicodeDecodeError:
        raise not_utf8() from None
    except EncodeError:
        raise InvalidModelError(
            "it has more than 2 GiB without the weights of its main graph, which is more than protobuf writes."
        ) from None
    check_structure(model, summary, data, found)
    references = external_data.references(found)
    files: Mapping[str, Path] = {}
    if source.directory is not None:
        files = external_data.resolve(references, source.directory, source.path, source.allowed)
    stamps = external_data.stamps(files.values())
    try:
        check_by_onnx(summary, data)
        check_element_types(model, found)
    except InvalidModelError as error:
        raise with_fitting_opset(error, model, found) from None
    static, inferred = check_types_of_operators(model, summary, found)
    return replace(source, files=files, stamps=stamps, views=found, static=static, inferred=inferred)


def is_small(source: Source) -> bool:
    """Return whether a model comes from a file that is too small to hold large weights."""
    return source.stamp is not None and source.stamp[0] <= SMALL
