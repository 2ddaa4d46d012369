"""Read user inputs: an .npz file, or the layout of ONNX's own test data. Files are not trusted."""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import OptionalProto, SequenceProto, TensorProto

from opshift.opsets.registry.facts import array_of, tensor_of
from opshift.passes.analysis.scopes import Array, Shape
from opshift.passes.base.errors import UsageError, shown_path
from opshift.passes.io.atomic_files import Batch
from opshift.passes.proof.inputs.input_specs import Spec, Value, np_dtype
from opshift.passes.proof.inputs.shape_search import with_shapes
from opshift.passes.proof.wider_types import is_float

UserInputs = Mapping[str, Value]

_LARGEST, _LARGEST_PROTO = 2**32, 2**31 - 1
"""The maximum size of an array, and of a protobuf, in bytes."""


class _WrongError(Exception):
    """A value in a file is invalid; the text has the reason, without the file's name."""


def read(path: str | os.PathLike[str], specs: Sequence[Spec]) -> tuple[UserInputs, ...]:
    """Return the inputs in an .npz, a directory with input_0.pb and so on, or one with several such directories.

    An .npz has an array for each input name; input_K.pb is the K-th input without an initializer. Missing inputs are
    left out.

    Raises:
        UsageError: there is no such file, it cannot be read, or it does not fit the model. No pickle is ever loaded.
    """
    place = Path(path)
    if place.is_dir():
        sets = sorted(
            (child for child in place.iterdir() if child.is_dir() and re.fullmatch(r"test_data_set_\d+", child.name)),
            key=lambda child: int(child.name.rpartition("_")[2]),
        )
        if not sets and not any(place.glob("input_*.pb")):
            raise UsageError(
                f"The directory {place} has neither input_0.pb nor test_data_set_0: give one that has, or an .npz file."
            )
        return tuple(_directory(child, specs) for child in sets or [place])
    if not place.is_file():
        raise UsageError(f"There is no file or directory {place}: give an .npz file, or a directory with input_0.pb.")
    return (_npz(place, specs),)


def of(
    inputs: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]], specs: Sequence[Spec]
) -> tuple[UserInputs, ...]:
    """Return the inputs in a file or directory, see `read`, or in one or several mappings by name.

    Raises:
        UsageError: they do not fit the model.
    """
    if isinstance(inputs, list | tuple):
        return tuple(found for one in inputs for found in of(one, specs))
    if not isinstance(inputs, Mapping):
        return read(cast(str, inputs), specs)
    known = {spec.name: spec for spec in specs}
    found: dict[str, Value] = {}
    for name, value in inputs.items():
        if name not in known:
            raise UsageError(
                f"A value is given for {name}, and the model has no such input: it has {', '.join(known)}."
            )
        spec = known[name]
        if value is None and not spec.kind.startswith("optional"):
            raise UsageError(f"The value given for {name} is None, and the input is not an optional.")
        try:
            if value is None or spec.kind.endswith("sequence"):
                found[name] = (
                    None
                    if value is None
                    else [_of_type(np.asarray(item), replace(spec, kind="tensor")) for item in value]
                )
            else:
                found[name] = _of_type(np.asarray(value), spec)
        except (_WrongError, TypeError, ValueError) as error:  # numpy makes no array of ragged lists
            raise UsageError(f"The value given for {name} does not fit the model: {error}.") from error
    return (_fitted(Path("the caller"), specs, found),)


def in_types(found: UserInputs, types: Mapping[str, int]) -> UserInputs:
    """Return inputs in other element types of tensors.

    Raises:
        UsageError: a number is beyond the range of its new type.
    """
    return {name: _converted(name, value, types[name]) if name in types else value for name, value in found.items()}


def _converted(name: str, value: Value, element_type: int) -> Value:
    dtype = np_dtype(element_type)
    if not isinstance(value, np.ndarray) or value.dtype == dtype:
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        found = value.astype(dtype)
    lost = np.isfinite(value) & ~np.isfinite(found) if is_float(dtype) else found.astype(value.dtype) != value
    if lost.any():
        raise UsageError(f"The value {value[lost].flat[0]} given for {name} is beyond the range of {dtype.name}.")
    return found


def shapes(found: UserInputs) -> dict[str, Shape]:
    """Return the shapes of tensors in user inputs, for `shapes.with_shapes`."""
    return {name: value.shape for name, value in found.items() if isinstance(value, np.ndarray)}


def _fitted(place: Path, specs: Sequence[Spec], found: dict[str, Value]) -> UserInputs:
    """Return the user inputs if their shapes fit.

    Raises:
        UsageError: they do not.
    """
    try:
        with_shapes(specs, shapes(found))
    except ValueError as error:
        raise UsageError(f"The values in {place} do not fit the model: {error}.") from error
    return found


# --- .npz -----------------------------------------------------------------------------------------------------------


def _npz(place: Path, specs: Sequence[Spec]) -> UserInputs:
    known = {spec.name: spec for spec in specs}
    found: dict[str, Value] = {}
    try:
        with zipfile.ZipFile(place) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name not in known:
                    has = ", ".join(known) or "none"
                    raise UsageError(
                        f"{place} holds an array for {name}, and the model has no such input: it has {has}."
                    )
                try:
                    found[name] = _of_type(_array(archive, info), known[name])
                except _WrongError as wrong:
                    raise UsageError(f"The array for {name} in {place} {wrong}.") from wrong
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UsageError(
            f"{place} is not a readable .npz file ({_line(error)}): write it with numpy.savez(path, name=array)."
        ) from error
    return _fitted(place, specs, found)


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """Return one array of an .npz; its header is checked before memory is allocated.

    Raises:
        _WrongError: it is not an array of plain elements.
    """
    with archive.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = reader(file)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise _WrongError(f"is not in numpy's format ({_line(error)}): write it with numpy.savez") from error
    if dtype.hasobject:
        raise _WrongError("holds Python objects, which are never loaded: give strings as an array of dtype str")
    size = math.prod(shape) * max(dtype.itemsize, 1)  # an element of no bytes, such as <U0, becomes an object here
    if size > min(info.file_size, _LARGEST) or any(length < 0 for length in shape):
        what = f"claims to have {size} bytes, but the file holds {info.file_size}"
        raise _WrongError(f"{what}: at most {_LARGEST} can be given")
    with archive.open(info) as file:
        try:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
        except (ValueError, TypeError, MemoryError, OverflowError) as error:
            raise _WrongError(f"cannot be read ({_line(error)}): write it again with numpy.savez") from error


def _of_type(array: Array, spec: Spec) -> Array:
    """Return an array with an input's element type, which it must have apart from numpy's storage.

    Raises:
        _WrongError: it has another, or the input is a sequence.
    """
    if spec.kind not in ("tensor", "optional"):
        raise _WrongError(f"is for a {spec.kind}, which an .npz cannot hold: give a directory with input_0.pb")
    if array.dtype.kind in "US":
        words: Array = np.empty(array.shape, object)
        words.reshape(-1)[:] = [item if isinstance(item, str) else item.decode("latin-1") for item in array.reshape(-1)]
        array = words
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    wanted = np_dtype(spec.element_type) if spec.element_type else array.dtype
    if array.dtype == wanted:
        return array
    # numpy stores bfloat16 and the like as raw bytes of their width.
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == wanted.itemsize:
        return array.reshape(-1).view(wanted).reshape(array.shape)
    raise _WrongError(f"is {_named(array.dtype)}, and the input is {_named(wanted)}: convert it with astype")


def _named(dtype: np.dtype[Any]) -> str:
    return "str" if dtype == np.object_ else dtype.name


# --- test_data_set_N ------------------------------------------------------------------------------------------------


def _directory(place: Path, specs: Sequence[Spec]) -> UserInputs:
    found: dict[str, Value] = {}
    for file in sorted(place.glob("input_*.pb")):
        number = file.stem.removeprefix("input_")
        if not number.isdecimal() or int(number) >= len(specs):
            raise UsageError(
                f"{file} is for no input of the model, which has {len(specs)}: "
                + ", ".join(f"input_{at}.pb is {spec.name}" for at, spec in enumerate(specs))
            )
        spec = specs[int(number)]
        if not file.is_file():  # opening a FIFO blocks
            raise UsageError(f"{file} is not a regular file.")
        try:
            if (size := file.stat().st_size) > _LARGEST_PROTO:
                raise _WrongError(f"has {size} bytes; no protobuf has more than {_LARGEST_PROTO}")
            found[spec.name] = _parsed(file.read_bytes(), spec)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {_line(error)}.") from error
        except _WrongError as wrong:
            raise UsageError(f"{file}, which is for the input {spec.name}, {wrong}.") from wrong
    return _fitted(place, specs, found)


def _parsed(data: bytes, spec: Spec) -> Value:
    """Return the value of an input from a file's data.

    Raises:
        _WrongError: the data are of another kind or type.
    """
    proto = {"tensor": TensorProto, "sequence": SequenceProto}.get(spec.kind, OptionalProto)()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise _WrongError(f"holds no {type(proto).__name__} in binary form ({_line(error)})") from error
    try:
        return _value(proto, spec)
    except (ValueError, TypeError, KeyError, IndexError, MemoryError, OverflowError) as error:
        raise _WrongError(f"holds what is no {spec.kind} ({_line(error)})") from error


def _value(proto: Any, spec: Spec) -> Value:
    if isinstance(proto, OptionalProto):
        if proto.elem_type == OptionalProto.TENSOR:
            return _tensor(proto.tensor_value, spec)
        if proto.elem_type == OptionalProto.SEQUENCE:
            return _value(proto.sequence_value, spec)
        if proto.elem_type == OptionalProto.UNDEFINED:
            return None
        raise _WrongError("holds an optional of something other than tensors")
    if isinstance(proto, SequenceProto):
        if proto.elem_type not in (SequenceProto.TENSOR, SequenceProto.UNDEFINED):
            raise _WrongError("holds a sequence of something other than tensors")
        return [_tensor(tensor, spec) for tensor in proto.tensor_values]
    return _tensor(proto, spec)


def _tensor(tensor: onnx.TensorProto, spec: Spec) -> Array:
    """Return the elements of a tensor, if their number matches its dims.

    Raises:
        _WrongError: its element type is another, or its elements are in another file.
        ValueError: their number differs.
    """
    name = TensorProto.DataType.Name
    if tensor.data_type not in TensorProto.DataType.values() or not tensor.data_type:
        raise _WrongError("holds no tensor")
    if spec.element_type and tensor.data_type != spec.element_type:
        wanted, found = name(spec.element_type).lower(), name(tensor.data_type).lower()
        raise _WrongError(f"holds elements of type {found}, and the input is {wanted}")
    if tensor.data_location == TensorProto.EXTERNAL:
        raise _WrongError("refers to another file, which is not opened: save it with its data inside")
    if any(length < 0 for length in tensor.dims) or math.prod(tensor.dims) > 8 * tensor.ByteSize():
        raise _WrongError(f"holds fewer elements than its shape {list(tensor.dims)} needs")
    return array_of(tensor)


def _line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")[:200]


# --- writing --------------------------------------------------------------------------------------------------------


def write(
    directory: str | os.PathLike[str],
    feeds: Mapping[str, Any],
    outputs: Sequence[Any] | Mapping[str, Any],
    graph: onnx.GraphProto,
    batch: Batch | None = None,
) -> Path:
    """Write inputs and outputs as test_data_set_0 in a directory, and return its path.

    `outputs` are by name or in the graph's order: tensors, sequences, maps, or None for an optional that is absent.
    With a batch, they are written when it is published.

    Raises:
        UsageError: other files with these names exist.
        OSError: a folder cannot be created, or a file cannot be written.
    """
    if batch is None:
        with Batch() as alone:
            place = write(directory, feeds, outputs, graph, alone)
            alone.publish()
            return place
    place = Path(directory) / "test_data_set_0"
    batch.make_folders(place)
    initialized = {tensor.name for tensor in graph.initializer}
    initialized |= {tensor.values.name for tensor in graph.sparse_initializer}
    fed = [value for value in graph.input if value.name not in initialized]
    named = (
        outputs
        if isinstance(outputs, Mapping)
        else {value.name: item for value, item in zip(graph.output, outputs, strict=True)}
    )
    for role, declared, values in (("input", fed, feeds), ("output", graph.output, named)):
        for index, value in enumerate(declared):
            if value.name in values:
                proto = _proto(values[value.name], value.name, value.type)
                file = place / f"{role}_{index}.pb"
                batch.draft(file, conflict=taken(file)).write(proto.SerializeToString())
    return place


def taken(path: Path) -> str:
    """Return the message for a path that another file occupies."""
    return f"{shown_path(path)} exists already, and nothing is overwritten. Name another directory."


def _proto(value: Any, name: str, value_type: onnx.TypeProto) -> Any:
    """Return a value as the protobuf message for its type in test data."""
    which = value_type.WhichOneof("value")
    if which == "optional_type" or value is None:
        return _optional(value, name, value_type.optional_type.elem_type)
    if isinstance(value, list | tuple):
        return _sequence(value, name, value_type.sequence_type.elem_type)
    if isinstance(value, Mapping):
        return _map(value, name, value_type.map_type)
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    declared = value_type.tensor_type.elem_type or (TensorProto.STRING if array.dtype == np.object_ else 0)
    return tensor_of(array, declared or onnx.helper.np_dtype_to_tensor_dtype(array.dtype), name)


def _optional(value: Any, name: str, value_type: onnx.TypeProto) -> OptionalProto:
    found = OptionalProto(name=name, elem_type=OptionalProto.UNDEFINED)
    if isinstance(value, list | tuple):
        found.elem_type = OptionalProto.SEQUENCE
        found.sequence_value.CopyFrom(_proto(value, name, value_type))
    elif value is not None:
        found.elem_type = OptionalProto.TENSOR
        found.tensor_value.CopyFrom(_proto(value, name, value_type))
    return found


def _sequence(values: Sequence[Any], name: str, value_type: onnx.TypeProto) -> SequenceProto:
    found = SequenceProto(name=name, elem_type=SequenceProto.TENSOR)
    for value in values:
        proto = _proto(value, "", value_type)
        for field, element in _ELEMENTS.items():
            if isinstance(proto, element):
                found.elem_type = SequenceProto.DataType.Value(field.removesuffix("_values").upper())
                getattr(found, field).append(proto)
    return found


def _map(values: Mapping[Any, Any], name: str, value_type: onnx.TypeProto.Map) -> onnx.MapProto:
    found = onnx.MapProto(name=name)
    if all(isinstance(key, str) for key in values):
        found.key_type = TensorProto.STRING
        found.string_keys.extend(key.encode("utf-8", "surrogateescape") for key in values)
    else:
        found.key_type = value_type.key_type or TensorProto.INT64
        found.keys.extend(int(key) for key in values)
    found.values.CopyFrom(_sequence(list(values.values()), "", value_type.value_type))
    return found


_ELEMENTS = {
    "tensor_values": TensorProto,
    "sequence_values": SequenceProto,
    "map_values": onnx.MapProto,
    "optional_values": OptionalProto,
}
