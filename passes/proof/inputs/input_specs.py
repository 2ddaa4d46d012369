"""Describe a model's inputs: the kind, the element type and the dims of each graph input."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Dim, declared_dim
from opshift.opsets.registry.schema import default_domain, schema_read_at
from opshift.opsets.registry.structural import CAST
from opshift.passes.analysis.model_summary import declared_of_elements
from opshift.passes.analysis.scopes import Array, graph_inputs, unnamed, versions

_T = onnx.TensorProto
Value = Array | list[Array] | None
"""The value of an input: a tensor, a sequence of tensors, or an optional that is absent."""
Dims = tuple[int | str, ...]

# In the order in which they are tried for an unknown element type.
_GUESSED: tuple[int, ...] = (
    _T.FLOAT, _T.INT64, _T.INT32, _T.DOUBLE, _T.FLOAT16, _T.BOOL, _T.STRING, _T.UINT8,
    _T.INT8, _T.BFLOAT16, _T.INT16, _T.UINT16, _T.UINT32, _T.UINT64,
    _T.FLOAT8E4M3FN, _T.FLOAT8E5M2, _T.FLOAT8E4M3FNUZ, _T.FLOAT8E5M2FNUZ,
)  # fmt: skip
_ELEMENT_TYPES = {f"tensor({_T.DataType.Name(element).lower()})": element for element in _GUESSED}

_KINDS = {
    ("tensor_type",): "tensor",
    ("sequence_type", "tensor_type"): "sequence",
    ("optional_type", "tensor_type"): "optional",
    ("optional_type", "sequence_type", "tensor_type"): "optional sequence",
}


class UntestableError(Exception):
    """No inputs can be generated for a model; the text has the reason."""


@dataclass(frozen=True)
class Spec:
    """A graph input: its element type (0: unknown) and its dims (a str is a symbol; None: the rank is unknown).

    `kind` is "tensor", "sequence", "optional" or "optional sequence"; the dims are those of the tensors in it.
    """

    name: str
    element_type: int
    dims: Dims | None
    kind: str = "tensor"


def specs(graph: onnx.GraphProto) -> tuple[Spec, ...]:
    """Return the specs of the inputs that a caller must feed.

    An unnamed dim gets a unique symbol.

    Raises:
        UntestableError: an input is a map, sparse, or a sequence of something other than tensors.
    """
    found = tuple(map(_spec, graph_inputs(graph)))
    if not any(spec.dims is None for spec in found):
        return found
    elements = dict(pair for node in graph.node for pair in declared_of_elements(node))
    return tuple(
        replace(spec, dims=_named(spec.name, elements[spec.name]))
        if spec.dims is None and spec.name in elements
        else spec
        for spec in found
    )


def _spec(value: onnx.ValueInfoProto) -> Spec:
    path: list[str] = []
    proto = value.type
    while (which := proto.WhichOneof("value")) in ("sequence_type", "optional_type"):
        path.append(str(which))
        proto = getattr(proto, str(which)).elem_type
    kind = _KINDS.get((*path, which or "tensor_type"))
    if kind is None:
        described = " of ".join(f"a {str(step).removesuffix('_type')}" for step in (*path, which))
        raise UntestableError(f"input {value.name} is {described}, for which opshift generates no values")
    tensor = proto.tensor_type
    dims = _named(value.name, map(declared_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return Spec(value.name, tensor.elem_type, dims, kind)


def _named(name: str, declared: Iterable[Dim]) -> Dims:
    """Return the dims of a value, with unique symbols for unnamed ones."""
    return tuple(unnamed(name, index) if dim is None else dim for index, dim in enumerate(declared))


def np_dtype(element_type: int) -> np.dtype[Any]:
    """Return the numpy dtype for an ONNX element type; strings are objects."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))


def arrays(value: Value) -> Sequence[Array]:
    """Return the tensors in a value."""
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


# --- unknown element types ------------------------------------------------------------------------------------------


def guesses(model: onnx.ModelProto, opset: int) -> Iterator[dict[str, int]]:
    """Yield element types for the inputs of a one-node model whose types are unknown, by input name.

    Inputs that share a type variable of the operator's schema get the same type, and a known one binds it. Types that
    Cast does not accept at an opset are left out: no model of that opset computes with them. The most usual types come
    first; at most 40 combinations are yielded. If no type is unknown, one empty dict is yielded.
    """
    unknown = [spec.name for spec in specs(model.graph) if not spec.element_type]
    if not unknown:
        yield {}
        return
    node = model.graph.node[-1]
    variables, allowed = _type_variables(model, node)
    known = {spec.name: spec.element_type for spec in specs(model.graph)}
    known |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for feed, variable in variables.items():
        if known.get(feed):
            allowed[variable] = (known[feed],)
    slots = list(dict.fromkeys(variables.get(feed, feed) for feed in unknown))
    cast = schema("", CAST, opset)
    held = _elements(cast.inputs[0].types) if cast else _GUESSED
    choices = [[one for one in allowed.get(slot, _GUESSED) if one in held] for slot in slots]
    ranked = sorted(itertools.product(*(range(len(choice)) for choice in choices)), key=lambda pick: (sum(pick), pick))
    for pick in ranked[:40]:
        types = {slot: choice[index] for slot, choice, index in zip(slots, choices, pick, strict=True)}
        yield {feed: types[variables.get(feed, feed)] for feed in unknown}


@functools.cache
def schema(domain: str, operator: str, version: int) -> Any:
    """Return the schema of an operator, or None if neither onnx nor onnxruntime has one."""
    found = schema_read_at(default_domain(domain), operator, version)
    return found and found.raw


def _type_variables(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[dict[str, str], dict[str, Sequence[int]]]:
    """Return the type variable of each input of a node, and the permitted types of each variable, usual ones first."""
    imports = versions(model)
    found = schema(node.domain, node.op_type, imports.get(node.domain, imports[""]))
    variables: dict[str, str] = {}
    allowed: dict[str, Sequence[int]] = {}
    for index, value in enumerate(node.input):
        if not value or found is None or not found.inputs:
            continue
        parameter = found.inputs[min(index, len(found.inputs) - 1)]
        variables[value] = parameter.type_str if parameter.is_homogeneous else f"{parameter.type_str}#{index}"
        allowed[variables[value]] = _elements(parameter.types)
    return variables, allowed


def _elements(types: Iterable[str]) -> tuple[int, ...]:
    """Return the element types of a schema's types, usual ones first."""
    elements = {_ELEMENT_TYPES[name] for name in types if name in _ELEMENT_TYPES}
    return tuple(element for element in _GUESSED if element in elements)
