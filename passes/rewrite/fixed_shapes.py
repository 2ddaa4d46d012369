"""Fix the shapes of a model's inputs: merge the requested shapes with the declared ones."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from opshift.opsets.registry import inference_gaps
from opshift.opsets.registry.facts import Dim, Facts, facts_of_type
from opshift.opsets.registry.schema import default_domain
from opshift.passes.analysis.known_values import is_static, scopes_of
from opshift.passes.analysis.scopes import Scope, graph_inputs
from opshift.passes.base.arguments import KEPT
from opshift.passes.base.errors import UsageError, printable
from opshift.passes.graph.traversal import graphs

Shapes = Mapping[str, tuple[Dim, ...] | None]


@dataclass(frozen=True)
class Sizes:
    """The requested sizes of the dims of a model's inputs.

    Attributes:
        inputs: whole shapes, by the name of the input.
        dims: sizes of symbolic dims, by their names.
        batch: the size of the first dim of each input that has two or more.
    """

    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    batch: int | None = None

    def __bool__(self) -> bool:
        """Return whether any size is requested."""
        return bool(self.inputs or self.dims or self.batch is not None)


@dataclass(frozen=True)
class Fixed:
    """The shapes of all inputs, and the sizes of the symbols in them."""

    shapes: Shapes
    symbols: Mapping[str, int]


def shape_option(name: str, shape: Sequence[object]) -> str:
    """Return the command-line option that fixes a shape."""
    return f"--input-shape {_word(name)}:{','.join(map(str, shape))}"


def _word(name: str) -> str:
    """Return a name for a shell: quoted unless it is a single word."""
    return name if name.isprintable() and " " not in name else printable(name)


def input_shapes(model: onnx.ModelProto) -> Shapes:
    """Return the declared shapes of the inputs that a caller feeds; None for an unknown rank."""
    return {value.name: facts_of_type(value.type).shape for value in graph_inputs(model.graph) if _is_tensor(value)}


def fixed(model: onnx.ModelProto, asked: Sizes) -> Fixed:
    """Return the shapes of the inputs with the requested sizes.

    Raises:
        UsageError: the model has no such input or dim, or declares another rank or size.
    """
    declared = input_shapes(model)
    found = _Found(declared)
    for name, shape in asked.inputs.items():
        _check_input(model, name, declared)
        found.set_shape(name, tuple(shape))
    for name, size in asked.dims.items():
        _check_dim(name, declared)
        found.set_symbol(name, size, f"--dim {_word(name)}={size}")
    if asked.batch is not None:
        found.set_batch(asked.batch, {name for name, shape in asked.inputs.items() if tuple(shape)[:1] != (KEPT,)})
    shapes = {
        name: dims and tuple(found.symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)
        for name, dims in {**declared, **found.shapes}.items()
    }
    return Fixed(shapes, found.symbols)


class _Found:
    """The sizes found so far, each with the option that requests it."""

    def __init__(self, declared: Shapes) -> None:
        self._declared = declared
        self.shapes: dict[str, tuple[Dim, ...]] = {}
        self.symbols: dict[str, int] = {}
        self._options: dict[str, str] = {}

    def set_symbol(self, name: str, size: int, option: str) -> None:
        other = self.symbols.setdefault(name, size)
        if other != size:
            raise UsageError(f"{self._options[name]} makes the dim {printable(name)} {other}, and {option} {size}.")
        self._options.setdefault(name, option)

    def set_shape(self, name: str, shape: tuple[int, ...]) -> None:
        dims, option = self._declared[name], shape_option(name, shape)
        if dims is not None and len(dims) != len(shape):
            raise UsageError(
                f"{option} has {len(shape)} dims, and the input {printable(name)} has {len(dims)}: {_listed(dims)}."
            )
        if dims is None and KEPT in shape:
            raise UsageError(f"{option} keeps a dim, and the rank of the input {printable(name)} is unknown.")
        for axis, (dim, size) in enumerate(zip(dims or (), shape, strict=False)):
            if size == KEPT:
                continue
            if isinstance(dim, int) and dim != size:
                raise UsageError(
                    f"{option} makes dim {axis} {size}, and the model has a fixed {dim} there: {_listed(dims or ())}."
                )
            if isinstance(dim, str):
                self.set_symbol(dim, size, option)
        self.shapes[name] = tuple(dim if size == KEPT else size for dim, size in zip(dims or shape, shape, strict=True))

    def set_batch(self, size: int, fixed: Collection[str]) -> None:
        """Set the first dims; declared batches stay if at least one input has a dynamic one."""
        option = f"--batch {size}"
        firsts = {
            name: dims[0] for name, dims in self._declared.items() if dims and len(dims) > 1 and name not in fixed
        }
        declared = {name: dim for name, dim in firsts.items() if isinstance(dim, int)}
        if firsts.keys() == declared.keys() and size not in declared.values() and not self._batch_is(size):
            self._check_requested_batch(size, option)
            name = next(iter(declared), None)
            has = f"the first dim of {printable(name)} is {declared[name]}" if name else "no input has two dims or more"
            raise UsageError(
                f"{option} finds no batch to set: {has}. Name an input with --input-shape, or a dim with --dim."
            )
        for name, dim in firsts.items():
            if isinstance(dim, str):
                self.set_symbol(dim, size, option)
            elif dim is None:
                self.shapes[name] = (size, *(self.shapes.get(name) or self._declared[name] or ())[1:])

    def _check_requested_batch(self, size: int, option: str) -> None:
        """Raise if an input with a requested whole shape has another batch."""
        for name, shape in self.shapes.items():
            if len(shape) > 1 and isinstance(shape[0], int) and shape[0] != size:
                shown = shape_option(name, shape)
                raise UsageError(
                    f"{shown} makes the first dim of {printable(name)} {shape[0]}, and {option} {size}: leave one out."
                )

    def _batch_is(self, size: int) -> bool:
        return any(dims[:1] == (size,) for dims in self.shapes.values())


def _check_input(model: onnx.ModelProto, name: str, declared: Shapes) -> None:
    if name in declared:
        return
    if any(tensor.name == name for tensor in model.graph.initializer):
        raise UsageError(f"{printable(name)} is an initializer of the model, whose shape is fixed. {_has(declared)}")
    if any(value.name == name for value in model.graph.input):
        raise UsageError(f"The input {printable(name)} is no tensor, and has no shape to fix. {_has(declared)}")
    raise UsageError(f"The model has no input {printable(name)}{_near(name, declared)} {_has(declared)}")


def _check_dim(name: str, declared: Shapes) -> None:
    symbols = list(dict.fromkeys(dim for dims in declared.values() for dim in dims or () if isinstance(dim, str)))
    if name not in symbols:
        known = (
            f"Its symbolic dims are {', '.join(map(printable, symbols))}." if symbols else "It has no symbolic dims."
        )
        raise UsageError(
            f"No input of the model has a dim {printable(name)}{_near(name, symbols)} {known} {_has(declared)}"
        )


def _near(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {printable(near[0])}?" if near else "."


def _has(declared: Shapes) -> str:
    shown = ", ".join(
        f"{printable(name)} {'of unknown rank' if dims is None else _listed(dims)}" for name, dims in declared.items()
    )
    return f"Its inputs: {shown}." if shown else "It has no inputs."


def _listed(dims: Sequence[Dim]) -> str:
    return f"[{', '.join('?' if dim is None else _word(str(dim)) for dim in dims)}]"


def _is_tensor(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") or value.type.WhichOneof("value") is None


# --- declaring the shapes
# -----------------------------------------------------------------------------------------------


def write_inputs(model: onnx.ModelProto, found: Fixed) -> None:
    """Declare the shapes of the inputs, and replace their symbols by sizes wherever they are declared."""
    for value in model.graph.input:
        shape = found.shapes.get(value.name)
        if shape is not None and value.type.HasField("tensor_type"):
            _write(value, Facts(value.type.tensor_type.elem_type or None, shape))
    for graph in graphs(model):
        declared = (graph.input, graph.output) if isinstance(graph, onnx.GraphProto) else ()
        for value in (value for values in (*declared, graph.value_info) for value in values):
            for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                if dim.dim_param in found.symbols:
                    dim.dim_value = found.symbols[dim.dim_param]


def write_values(model: onnx.ModelProto, values: Scope) -> None:
    """Declare all known shapes of values, including undeclared values of the main graph.

    Attributes with a default that onnx's inference does not use are added: otherwise it would reject the declared
    shape.
    """
    for graph, scope in scopes_of(values, model.graph):
        for node in graph.node:
            defaults = {} if default_domain(node.domain) else inference_gaps.DEFAULTS.get(node.op_type, {})
            for name, default in defaults.items():
                if all(attribute.name != name for attribute in node.attribute):
                    node.attribute.append(onnx.helper.make_attribute(name, default))
        inputs = {value.name for value in graph.input}
        for value in (*graph.output, *graph.value_info):
            if value.name not in inputs and (facts := scope.own.get(value.name)) is not None:
                _write(value, facts)
    graph = model.graph
    known = {value.name for values in (graph.input, graph.output, graph.value_info) for value in values}
    known.update(tensor.name for tensor in graph.initializer)
    for node in graph.node:
        for name in node.output:
            facts = values.own.get(name)
            if name and name not in known and facts is not None and facts.dtype and is_static(facts):
                graph.value_info.add(name=name).type.CopyFrom(
                    onnx.helper.make_tensor_type_proto(facts.dtype, facts.shape)
                )


def undeclared(values: Iterable[onnx.ValueInfoProto]) -> Iterator[onnx.ValueInfoProto]:
    """Yield the tensors without a declared shape."""
    return (value for value in values if _is_tensor(value) and not value.type.tensor_type.HasField("shape"))


def declare_outputs(model: onnx.ModelProto, values: Scope) -> None:
    """Declare the known shapes of the outputs without a declared shape."""
    for value in undeclared(model.graph.output):
        if (facts := values.own.get(value.name)) is not None:
            _write(value, facts)


def _write(value: onnx.ValueInfoProto, facts: Facts) -> None:
    """Declare the known dims; an unknown dim keeps its name if the rank is unchanged."""
    if facts.shape is None or not (value.type.HasField("tensor_type") or value.type.WhichOneof("value") is None):
        return
    tensor = value.type.tensor_type
    tensor.elem_type = tensor.elem_type or facts.dtype or 0
    before = [(dim.dim_param, dim.denotation) for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or len(before) != len(facts.shape):
        before = [("", "")] * len(facts.shape)
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for size, (name, denotation) in zip(facts.shape, before, strict=True):
        dim = tensor.shape.dim.add(denotation=denotation)
        if isinstance(size, int):
            dim.dim_value = size
        elif name:
            dim.dim_param = name


def dynamic(shapes: Shapes) -> Iterator[str]:
    """Yield the inputs with an unknown rank or a dynamic dim."""
    for name, dims in shapes.items():
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            yield name
