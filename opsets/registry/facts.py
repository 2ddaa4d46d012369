"""Represent the facts about a value: element type, dimensions, elements. Unknown is a value, not an error."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

Dim = int | str | None
"""A known dimension, a symbolic one by its name, or an unknown one."""

SMALL = 64 * 1024
"""The maximum size in bytes of a constant whose elements are read, and of a folded constant."""

ADDRESSABLE = 2**47
"""A number of elements that no tensor reaches, because a process cannot address as many bytes."""

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
UNSIGNED = frozenset({TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64})
SIGNED = frozenset({TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64})
INTEGERS = SIGNED | UNSIGNED

COMMON = FLOATS - {TensorProto.BFLOAT16} | INTEGERS | {TensorProto.BOOL, TensorProto.STRING}
_EXACT: Mapping[int, frozenset[int]] = {
    TensorProto.BOOL: INTEGERS | FLOATS,
    TensorProto.UINT8: frozenset({TensorProto.UINT16, TensorProto.INT16, TensorProto.UINT32, TensorProto.INT32,
                                  TensorProto.UINT64, TensorProto.INT64, *FLOATS}),
    TensorProto.INT8: frozenset({TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, *FLOATS}),
    TensorProto.UINT16: frozenset({TensorProto.UINT32, TensorProto.INT32, TensorProto.UINT64, TensorProto.INT64,
                                   TensorProto.FLOAT, TensorProto.DOUBLE}),
    TensorProto.INT16: frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE}),
    TensorProto.UINT32: frozenset({TensorProto.UINT64, TensorProto.INT64, TensorProto.DOUBLE}),
    TensorProto.INT32: frozenset({TensorProto.INT64, TensorProto.DOUBLE}),
    TensorProto.FLOAT16: frozenset({TensorProto.FLOAT, TensorProto.DOUBLE}),
    TensorProto.BFLOAT16: frozenset({TensorProto.FLOAT, TensorProto.DOUBLE}),
    TensorProto.FLOAT: frozenset({TensorProto.DOUBLE}),
}  # fmt: skip
"""The types that hold all values of a type, by IEEE 754 and the sizes of integers."""


def exact_types(dtype: int) -> frozenset[int]:
    """Return the element types that hold all values of a type."""
    return _EXACT.get(dtype, frozenset())


RARE = frozenset(TensorProto.DataType.values()) - COMMON - {TensorProto.UNDEFINED}
"""The element types that few models have, and in which most versions differ."""


@functools.cache
def type_name(dtype: int) -> str:
    """Return the usual name of an element type: `float`, `int64`, `bfloat16`."""
    known = dtype in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(dtype)).lower() if known else f"element type {dtype}"


class Tensor:
    """A constant that compares and hashes by its contents.

    An array of dtype object holds the partly known elements of an integer tensor, each an int, a symbol or None.
    """

    __slots__ = ("__dict__", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        """Wrap an array, which must not be modified afterwards."""
        self.array = array

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    @functools.cached_property
    def digest(self) -> bytes:
        """A key of dtype, shape and elements."""
        text = (
            repr(self.array.tolist()).encode("utf-8", "surrogateescape")
            if self.array.dtype == object
            else self.array.tobytes()
        )
        return hashlib.blake2b(f"{self.array.dtype}{self.array.shape}".encode() + text, digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        """Compare by contents."""
        return isinstance(other, Tensor) and self.digest == other.digest

    def __hash__(self) -> int:
        """Hash by contents."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Show the array."""
        return f"Tensor({self.array!r})"


class ExternalTensor(Tensor):
    """A constant whose elements are in an external file, and are not read.

    It compares by their location.
    """

    __slots__ = ("proto",)

    def __init__(self, proto: onnx.TensorProto) -> None:
        """Store a copy of the model's tensor."""
        self.proto = onnx.TensorProto()
        self.proto.CopyFrom(proto)

    @functools.cached_property
    def array(self) -> np.ndarray[Any, Any]:  # type: ignore[override]
        """Raise, because the elements are not read.

        Raises:
            ValueError: always.
        """
        raise ValueError("the elements of a constant are in another file, which is not read")

    @property
    def size(self) -> int:
        """The number of elements in the model's declaration."""
        return math.prod(self.proto.dims)

    @functools.cached_property
    def digest(self) -> bytes:
        """A key of the model's tensor."""
        return hashlib.blake2b(self.proto.SerializeToString(deterministic=True), digest_size=16).digest()

    def __repr__(self) -> str:
        """Show the location of the elements."""
        where = {entry.key: entry.value for entry in self.proto.external_data}
        return f"ExternalTensor({type_name(self.proto.data_type)}{list(self.proto.dims)}, {where})"


@dataclass(frozen=True)
class Facts:
    """The known facts about one value.

    `dtype` is a TensorProto.DataType, `shape` a tuple of dimensions (None: unknown rank), `value` the elements if they
    are constant, wholly or (for integers) partly. `unread`: the elements are constant, but too many to read.
    `computed`: nodes of the model compute the elements, although all of them are known. `container` is the ONNX type of
    a sequence or an optional, such as `seq(tensor(float))`; these have no `dtype`.
    """

    dtype: int | None = None
    shape: tuple[Dim, ...] | None = None
    value: Tensor | None = None
    unread: bool = False
    computed: bool = False
    container: str = ""

    def __hash__(self) -> int:
        """Hash by contents, once: facts are part of the keys of many caches."""
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((self.dtype, self.shape, self.value, self.unread, self.computed, self.container))
            self.__dict__["_hash"] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: in another process, strings have other hashes."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    def type(self) -> str:
        """The ONNX type without dimensions, in the spelling of schemas; empty if unknown."""
        return f"tensor({type_name(self.dtype)})" if self.dtype else self.container

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.shape is None else len(self.shape)

    @property
    def known(self) -> np.ndarray[Any, Any] | None:
        """The elements, if all of them are constant; strings have dtype object."""
        if self.value is None or (self.value.array.dtype == object and self.dtype != TensorProto.STRING):
            return None
        return self.value.array

    @property
    def is_constant(self) -> bool:
        """Whether all elements are constant."""
        return self.unread or self.known is not None

    @property
    def size(self) -> int | None:
        """The number of elements, if known (0 if any dimension is 0)."""
        if self.shape is None:
            return None
        if 0 in self.shape:
            return 0
        known = [dim for dim in self.shape if isinstance(dim, int)]
        return math.prod(known) if len(known) == len(self.shape) else None

    @property
    def holdable(self) -> bool:
        """Whether the tensor with its known dimensions fits into any memory; empty dimensions count as one element."""
        return math.prod(dim or 1 for dim in self.shape or () if isinstance(dim, int)) <= ADDRESSABLE

    def dim(self, axis: int) -> Dim:
        """Return one dimension; None if it, or the rank, is unknown."""
        return self.shape[axis] if self.shape is not None and -len(self.shape) <= axis < len(self.shape) else None


def constant(array: np.ndarray[Any, Any], dtype: int | None = None) -> Facts:
    """Return the facts of a constant; `dtype` is required if numpy has no name for it."""
    return Facts(dtype or onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, Tensor(array))


def partly_known(elements: Sequence[Dim] | np.ndarray[Any, Any], dtype: int = TensorProto.INT64) -> Facts:
    """Return the facts of an integer tensor with partly known elements."""
    array = np.array(elements, dtype=object)
    if all(isinstance(element, int) for element in array.reshape(-1)):
        return constant(array.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)), dtype)
    return Facts(dtype, array.shape, Tensor(array))


def facts_of_attribute(value: Tensor) -> Facts:
    """Return the facts of an attribute's constant; elements only if they are few and embedded."""
    if isinstance(value, ExternalTensor):
        return Facts(value.proto.data_type, tuple(value.proto.dims), unread=True)
    known = constant(value.array)
    return known if value.array.nbytes <= SMALL else Facts(known.dtype, known.shape, unread=True)


def facts_of_type(type_proto: onnx.TypeProto) -> Facts:
    """Return element type and dimensions of a tensor type, or only the type of a sequence or an optional.

    Other types give no facts.
    """
    if not type_proto.HasField("tensor_type"):
        return Facts(container=_container(type_proto))
    tensor = type_proto.tensor_type
    shape: tuple[Dim, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(map(declared_dim, tensor.shape.dim))
    return Facts(tensor.elem_type or None, shape)


def declared_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """Return a declared dimension: exporters of PaddlePaddle write `?` for every unknown one."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return None if dim.dim_param == "?" else dim.dim_param or None


def _container(type_proto: onnx.TypeProto) -> str:
    """Return the type of a sequence or an optional in schemas' spelling; empty for others and unknown elements."""
    for name, outer in (("sequence_type", "seq"), ("optional_type", "optional")):
        if type_proto.HasField(name):
            inner = facts_of_type(getattr(type_proto, name).elem_type).type
            return inner and f"{outer}({inner})"
    return ""


def container_type(name: str) -> onnx.TypeProto:
    """Return the type that schemas spell `seq(tensor(float))` or `optional(...)`."""
    outer, _, inner = name.removesuffix(")").partition("(")
    found = onnx.TypeProto()
    if outer == "tensor":
        found.tensor_type.elem_type = TensorProto.DataType.Value(inner.upper())
    else:
        one = found.sequence_type if outer == "seq" else found.optional_type
        one.elem_type.CopyFrom(container_type(inner))
    return found


def type_of_facts(facts: Facts) -> onnx.TypeProto:
    """Return the type that corresponds to facts."""
    if facts.container:
        return container_type(facts.container)
    return onnx.helper.make_tensor_type_proto(facts.dtype or 0, facts.shape)


def facts_of_tensor(tensor: onnx.TensorProto) -> Facts:
    """Return the facts of an initializer; elements only if they are few and embedded."""
    shape = tuple(tensor.dims)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL or count * 8 > SMALL:
        return Facts(tensor.data_type, shape, unread=True)
    return Facts(tensor.data_type, shape, Tensor(array_of(tensor)))


def array_of(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor; strings, which are bytes in ONNX, keep invalid UTF-8.

    Raises:
        ValueError: they are in an external file, which onnx would open relative to the working directory.
    """
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError(f"the elements of {tensor.name!r} are in another file, which is not read")
    if tensor.data_type != TensorProto.STRING:
        return onnx.numpy_helper.to_array(tensor)
    strings = [item.decode("utf-8", "surrogateescape") for item in tensor.string_data]
    return np.array(strings, dtype=object).reshape(tuple(tensor.dims))


class FrozenType(bytes):
    """A TypeProto that is an attribute, in its serialized form."""


def freeze(value: Any) -> Any:
    """Make an attribute's value hashable: a TensorProto becomes the Tensor of its embedded elements."""
    if isinstance(value, onnx.TypeProto):
        return FrozenType(value.SerializeToString(deterministic=True))
    if not isinstance(value, onnx.TensorProto):
        return value
    return ExternalTensor(value) if value.data_location == TensorProto.EXTERNAL else Tensor(array_of(value))


def exact(attributes: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Return a key that only identical attributes share: 0.0 differs from -0.0 and from 0."""
    return tuple(
        (name, value if isinstance(value, Tensor) else repr(value)) for name, value in sorted(attributes.items())
    )


def tensor_of(array: np.ndarray[Any, Any], dtype: int, name: str) -> onnx.TensorProto:
    """Return a TensorProto with these elements."""
    if dtype == TensorProto.STRING:
        strings: list[Any] = [str(item).encode("utf-8", "surrogateescape") for item in array.reshape(-1)]
        return onnx.helper.make_tensor(name, dtype, array.shape, strings)
    return onnx.numpy_helper.from_array(np.asarray(array), name)
