"""Draw one operator: its attributes, inputs and which outputs are used, all legal at one opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TypeProto, defs, helper

from differential import kernels, values
from differential.schemas import NEWEST, OLDEST
from differential.values import FEEDS, Array, Domain

MOST_ELEMENTS = 700

_KERNEL_SHARE = 0.8
"""The share of types drawn among those that onnxruntime has kernels for."""

T = TypeVar("T")


@dataclass
class Argument:
    """An input of the node: its values in each feed (None: absent element of an optional), and its type."""

    type: TypeProto
    values: list[Any]
    fixed: bool = False
    """The value is the same in each feed, and decides a shape or the meaning: an axis, a shape, a count."""
    constant: bool | None = None
    """True: must be a constant; False: must not be one; None: either."""

    @property
    def elem_type(self) -> int:
        """Return the element type; 0 for sequences and optionals."""
        return int(self.type.tensor_type.elem_type)

    @property
    def is_tensor(self) -> bool:
        """Return whether this is a tensor."""
        return bool(self.type.HasField("tensor_type"))


@dataclass
class Drawn:
    """What a recipe draws: one node without names."""

    operator: str
    opset: int
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: list[Argument | None] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)
    """For each output whether it is used."""
    output_types: list[TypeProto] = field(default_factory=list)
    random: bool = False
    """The result is random by definition: only types and shapes are compared."""
    captured: dict[str, Argument] = field(default_factory=dict)
    """Values of the outer scope that subgraphs use, by name."""

    def optional_output(self, index: int) -> bool:
        """Return whether an output may be left out."""
        formal = defs.get_schema(self.operator, self.opset, "").outputs
        return bool(formal[min(index, len(formal) - 1)].option == defs.OpSchema.FormalParameterOption.Optional)


class Draw:
    """The state of drawing one node, with the helpers that recipes use."""

    def __init__(self, rng: np.random.Generator, operator: str, opset: int, prefix: str = "") -> None:
        """Begin with nothing drawn; names in subgraphs get the prefix."""
        self.rng = rng
        self.prefix = prefix
        self.operator = operator
        self.opset = opset
        self.schema = defs.get_schema(operator, opset, "")
        self.version = self.schema.since_version
        self.drawn = Drawn(operator, opset)
        self.types: dict[str, int] = {}
        self._names = 0

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[int(self.rng.integers(0, len(choices)))]

    def subset(self, choices: Sequence[T], least: int = 0) -> list[T]:
        """Return a random selection, in random order."""
        count = self.integer(least, len(choices))
        return [choices[i] for i in self.rng.permutation(len(choices))[:count]]

    # Shapes

    def dim(self, empty: bool = True) -> int:
        """Return a dimension: mostly 1 to 4, seldom 0 or 17."""
        drawn = self.rng.random()
        if drawn < 0.04:
            return 0 if empty else 1
        if drawn < 0.07:
            return 17
        return self.integer(1, 4)

    def shape(self, least: int = 0, most: int = 5, empty: bool = True) -> tuple[int, ...]:
        """Return a shape of a rank between these, small enough to be fast."""
        rank = min(self.integer(least, most), self.integer(least, most + 1), most)
        rank = max(rank, least)
        while True:
            dims = tuple(self.dim(empty) for _ in range(rank))
            if np.prod(dims, dtype=np.int64) <= MOST_ELEMENTS:
                return dims

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts to this one."""
        kept = shape[self.integer(0, len(shape)) :] if self.chance(0.4) else shape
        return tuple(1 if self.chance(0.25) else dim for dim in kept)

    def axis(self, rank: int, negative_since: int = 11) -> int:
        """Return an axis; negative ones from an opset on."""
        axis = self.integer(0, max(rank - 1, 0))
        return axis - rank if rank and self.opset >= negative_since and self.chance(0.4) else axis

    # Types

    def type(self, variable: str, allowed: Callable[[int], bool] | None = None) -> int:
        """Return the element type bound to a type variable of the schema, bound now if it was not."""
        if variable not in self.types:
            for constraint in self.schema.type_constraints:
                if constraint.type_param_str == variable:
                    choices = values.elem_types(list(constraint.allowed_type_strs))
                    break
            else:
                choices = [values.ELEM_TYPE[variable]]
            choices = [choice for choice in choices if allowed is None or allowed(choice)]
            if self.chance(_KERNEL_SHARE):
                served = values.elem_types(sorted(kernels.types(self.operator, self.version, variable)))
                choices = [choice for choice in choices if choice in served] or choices
            weights = np.array([values.weight(choice) for choice in choices])
            self.types[variable] = choices[int(self.rng.choice(len(choices), p=weights / weights.sum()))]
        return self.types[variable]

    def input_type(self, index: int, allowed: Callable[[int], bool] | None = None) -> int:
        """Return the element type of an input of the schema."""
        return self.type(self.schema.inputs[min(index, len(self.schema.inputs) - 1)].type_str, allowed)

    # Inputs

    def data(self, elem_type: int, shape: tuple[int, ...], domain: Domain = "any") -> Argument:
        """Return an input that differs from feed to feed."""
        drawn = [values.sample(self.rng, elem_type, shape, feed, domain) for feed in range(FEEDS)]
        return Argument(helper.make_tensor_type_proto(elem_type, shape), list(drawn))

    def fixed(self, value: Any, elem_type: int = values.INT64, constant: bool | None = None) -> Argument:
        """Return an input with the same value in each feed."""
        array = np.asarray(value, values.numpy_type(elem_type))
        return Argument(helper.make_tensor_type_proto(elem_type, array.shape), [array] * FEEDS, True, constant)

    def each(self, elem_type: int, drawn: Sequence[Array]) -> Argument:
        """Return an input with these values, one for each feed."""
        arrays = [np.asarray(value).astype(values.numpy_type(elem_type)) for value in drawn]
        return Argument(helper.make_tensor_type_proto(elem_type, arrays[0].shape), list(arrays))

    def add(self, *arguments: Argument | None) -> None:
        """Append inputs; None leaves an optional one out."""
        self.drawn.inputs.extend(arguments)

    def tensor(self, index: int, shape: tuple[int, ...], domain: Domain = "any") -> Argument:
        """Append the input at this index of the schema, with its type and this shape."""
        argument = self.data(self.input_type(index), shape, domain)
        self.add(argument)
        return argument

    def name(self, stem: str) -> str:
        """Return a name for a value in a subgraph that no other has."""
        self._names += 1
        return f"{self.prefix}{stem}_{self._names}"

    def capture(self, argument: Argument) -> str:
        """Let a subgraph use a value of the outer scope, and return its name."""
        name = self.name("outer")
        self.drawn.captured[name] = argument
        return name

    # Attributes

    def has(self, attribute: str) -> bool:
        """Return whether the schema has this attribute."""
        return attribute in self.schema.attributes

    def set(self, **attributes: Any) -> None:
        """Set those of these attributes that the schema has."""
        self.drawn.attributes.update({name: value for name, value in attributes.items() if self.has(name)})

    def option(self, attribute: str, value: T, probability: float = 0.6) -> T | Any:
        """Set an attribute, or leave it at its default; return the value that then holds."""
        if not self.has(attribute):
            return value
        default = self.schema.attributes[attribute].default_value
        if self.chance(probability) or not default.type:
            self.drawn.attributes[attribute] = value
            return value
        held: Any = helper.get_attribute_value(default)
        return held.decode() if isinstance(held, bytes) else held

    def outputs(self, *used: bool) -> None:
        """Say which outputs are used."""
        self.drawn.outputs = list(used)

    def output_type(self, elem_type: int) -> None:
        """Append the type of an output that the schema does not bind."""
        self.drawn.output_types.append(helper.make_tensor_type_proto(elem_type, None))

    def finish(self) -> Drawn:
        """Complete outputs and their types from the schema and return the node."""
        drawn = self.drawn
        while drawn.inputs and drawn.inputs[-1] is None and self.chance(0.8):
            drawn.inputs.pop()
        schema_outputs = self.schema.outputs
        if not drawn.outputs:
            optional = defs.OpSchema.FormalParameterOption.Optional
            drawn.outputs = [each.option != optional or self.chance(0.5) for each in schema_outputs]
        while drawn.outputs and not drawn.outputs[-1] and drawn.optional_output(len(drawn.outputs) - 1):
            drawn.outputs.pop()
        for index in range(len(drawn.output_types), len(drawn.outputs)):
            variable = schema_outputs[min(index, len(schema_outputs) - 1)].type_str
            drawn.output_types.append(helper.make_tensor_type_proto(self._bound(variable), None))
        return drawn

    def _bound(self, variable: str) -> int:
        if variable in self.types:
            return self.types[variable]
        for argument, formal in zip(self.drawn.inputs, self.schema.inputs, strict=False):
            if formal.type_str == variable and argument is not None:
                return argument.elem_type
        if variable in values.ELEM_TYPE:
            return values.ELEM_TYPE[variable]
        for constraint in self.schema.type_constraints:
            if constraint.type_param_str == variable and len(constraint.allowed_type_strs) == 1:
                return values.ELEM_TYPE[constraint.allowed_type_strs[0]]
        raise LookupError(f"{self.operator}-{self.version}: nothing binds the type {variable}")


def operators() -> list[str]:
    """Return the operators of ai.onnx that an opset from 7 to 28 has."""
    names = {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
    return sorted(name for name in names if opsets(name))


def opsets(operator: str) -> list[int]:
    """Return the opsets from 7 to 28 that have an operator."""
    return [opset for opset in range(OLDEST, NEWEST + 1) if exists(operator, opset)]


def exists(operator: str, opset: int) -> bool:
    """Return whether an opset has an operator that is not deprecated."""
    try:
        schema = defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return False
    return not schema.deprecated
