"""Define the keys of a limit in a profile, with their checks. A new key is one entry of `KEYS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto

from opshift.opsets.registry.schema import Schema
from opshift.opsets.runtimes.limits import NAMING, PADS, SCALES, Limit
from opshift.opsets.runtimes.profile_source import ProfileSource, near

Schemas = Sequence[Schema]
"""The schemas of the operator at all opsets of the limit."""


@dataclass(frozen=True)
class Key:
    """A key of a limit: the type of its value in TOML, and the function that checks it and returns `Limit`'s value."""

    value_type: type
    read: Callable[[ProfileSource, Schemas, str, Any], Any] = lambda source, schemas, key, value: value
    limits: bool = True
    """Whether it is a limit by itself."""


def read(item: Mapping[str, Any], source: ProfileSource, schemas: Schemas) -> Limit:
    """Return the limit that a table of a profile describes.

    Raises `ProfileError` for the first mistake.
    """
    return Limit(**{key: KEYS[key].read(source, schemas, key, value) for key, value in item.items()})


# --- whole values -----------------------------------------------------------------------------------------------------


def _dtypes(source: ProfileSource, schemas: Schemas, key: str, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    for name, types in table.items():
        _input(source, schemas, key, name)
        if not isinstance(types, list) or not types:
            source.wrong(f"{name} has a list of element types", key, name)
        for one in types:
            source.dtype(one, key, name)
        source.once(types, key, name)
    return {name: tuple(types) for name, types in table.items()}


def _combinations(
    source: ProfileSource, schemas: Schemas, key: str, tables: Sequence[Any]
) -> tuple[Mapping[str, Any], ...]:
    for one in tables:
        if not isinstance(one, dict) or not one:
            source.wrong('each combination is a table, such as { data = "float" }', key)
        for name, dtype in one.items():
            _input(source, schemas, key, name)
            for each in dtype if isinstance(dtype, list) else [dtype]:
                source.dtype(each, key, name)
    if not tables:
        source.wrong("combinations holds none", key)
    return tuple({name: _frozen(each) for name, each in one.items()} for one in tables)


def _values(source: ProfileSource, schemas: Schemas, key: str, table: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return values of attributes."""
    for name, values in table.items():
        _attribute(source, schemas, key, name, values)
        if not values and key == "if_attributes":
            source.wrong(f"{name} has no value for which the limit applies", key, name)
    return {name: tuple(map(_frozen, values)) for name, values in table.items()}


def _numbers(source: ProfileSource, schemas: Schemas, key: str, table: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return ranks or sizes by the names of inputs."""
    for name, numbers in table.items():
        _input(source, schemas, key, name)
        what = "sizes" if key == "sizes" else "ranks"
        if not isinstance(numbers, list) or not numbers or not all(type(one) is int and one >= 0 for one in numbers):
            source.wrong(f"{name} has a list of {what}, such as [0, 1]", key, name)
    return {name: tuple(numbers) for name, numbers in table.items()}


def _contents(
    source: ProfileSource, schemas: Schemas, key: str, table: Mapping[str, Any]
) -> dict[str, tuple[float, ...]]:
    """Return numbers that constants hold, by the names of inputs."""
    for name, numbers in table.items():
        _input(source, schemas, key, name)
        if not isinstance(numbers, list) or not numbers or not all(_is(one, float) for one in numbers):
            source.wrong(f"{name} has a list of numbers, such as [1]", key, name)
    return {name: tuple(numbers) for name, numbers in table.items()}


def _kinds_of_pads(source: ProfileSource, schemas: Schemas, key: str, kinds: Sequence[Any]) -> tuple[str, ...]:
    inputs = {parameter.name for schema in schemas for parameter in schema.inputs}
    if "pads" not in inputs and not any("pads" in schema.attributes for schema in schemas):
        source.wrong(f"{schemas[-1].name} has no pads", key)
    for kind in kinds:
        if not isinstance(kind, str) or kind not in PADS:
            source.wrong(f"pads are {' or '.join(PADS)}, not {kind!r}", key, str(kind))
    source.once(kinds, key)
    return tuple(kinds)


def _kinds_of_scales(source: ProfileSource, schemas: Schemas, key: str, kinds: Sequence[Any]) -> tuple[str, ...]:
    if schemas[-1].name != "Resize":
        source.wrong(f"scales is for Resize, not {schemas[-1].name}", key)
    for kind in kinds:
        if not isinstance(kind, str) or kind not in SCALES:
            source.wrong(f"scales are {' or '.join(SCALES)}, not {kind!r}", key, str(kind))
    source.once(kinds, key)
    return tuple(kinds)


def _axis_count(source: ProfileSource, schemas: Schemas, key: str, count: int) -> int:
    named = {name for schema in schemas for name in (*schema.attributes, *(one.name for one in schema.inputs))}
    if count < 1 or "axes" not in named:
        source.wrong("max_axes is 1 or more, for operators that have axes", key)
    return count


def _inputs(source: ProfileSource, schemas: Schemas, key: str, names: Sequence[Any]) -> tuple[str, ...]:
    for name in names:
        _input(source, schemas, key, name)
    source.once(names, key)
    return tuple(names)


def _inputs_or_attributes(source: ProfileSource, schemas: Schemas, key: str, names: Sequence[Any]) -> tuple[str, ...]:
    attributes = {name for schema in schemas for name in schema.attributes}
    for name in names:
        if not isinstance(name, str) or name not in attributes:
            _input(source, schemas, key, name)
    source.once(names, key)
    return tuple(names)


def _attributes_or_inputs(source: ProfileSource, schemas: Schemas, key: str, names: Sequence[Any]) -> tuple[str, ...]:
    inputs = {parameter.name for schema in schemas for parameter in schema.inputs}
    for name in names:
        if not isinstance(name, str) or name not in inputs:
            _attribute(source, schemas, key, name, [])
    source.once(names, key)
    return tuple(names)


def _outputs(source: ProfileSource, schemas: Schemas, key: str, names: Sequence[Any]) -> tuple[str, ...]:
    outputs = {output.name for schema in schemas for output in schema.outputs}
    for name in names:
        if not isinstance(name, str) or name not in outputs:
            source.wrong(f"{schemas[-1].name} has no output {name!r}{near(str(name), outputs)}", key, str(name))
    source.once(names, key)
    return tuple(names)


def _rank(source: ProfileSource, schemas: Schemas, key: str, rank: int) -> int:
    if rank < 0:
        source.wrong("max_rank is not negative", key)
    return rank


def _input_count(source: ProfileSource, schemas: Schemas, key: str, count: int) -> int:
    if count < 1 or not any(schema.inputs[-1].variadic for schema in schemas):
        source.wrong(f"{key} is 1 or more, for operators that have any number of inputs", key)
    return count


def _factors(source: ProfileSource, schemas: Schemas, key: str, names: Sequence[Any]) -> tuple[str, ...]:
    if schemas[-1].name != "MatMul":
        source.wrong(f"whole_batches is for MatMul, not {schemas[-1].name}", key)
    return _inputs(source, schemas, key, names)


def _of_slice(source: ProfileSource, schemas: Schemas, key: str, limits: bool) -> bool:
    if limits and schemas[-1].name != "Slice":
        source.wrong(f"{key} is for Slice; {schemas[-1].name} has no starts", key)
    return limits


def _of_gather_elements(source: ProfileSource, schemas: Schemas, key: str, limits: bool) -> bool:
    if limits and schemas[-1].name != "GatherElements":
        source.wrong(f"{key} is for GatherElements, not {schemas[-1].name}", key)
    return limits


def _of_if(source: ProfileSource, schemas: Schemas, key: str, limits: bool) -> bool:
    if limits and schemas[-1].name != "If":
        source.wrong(f"{key} is for If, whose branches return values; {schemas[-1].name} has no branches", key)
    return limits


def _types_of_if(source: ProfileSource, schemas: Schemas, key: str, types: Sequence[Any]) -> tuple[str, ...]:
    _of_if(source, schemas, key, True)
    for one in types:
        source.dtype(one, key, str(one))
    source.once(types, key)
    return tuple(types)


KEYS: Mapping[str, Key] = {
    "operator": Key(str, limits=False),
    "dtypes": Key(dict, _dtypes),
    "combinations": Key(list, _combinations),
    "attributes": Key(dict, _values),
    "constant_inputs": Key(list, _inputs),
    "static": Key(bool),
    "max_rank": Key(int, _rank),
    "ranks": Key(dict, _numbers),
    "scalars": Key(dict, _numbers),
    "computed_ranks": Key(dict, _numbers),
    "not_negative": Key(list, _inputs_or_attributes),
    "explicit": Key(list, _attributes_or_inputs),
    "unused_outputs": Key(list, _outputs),
    "used_outputs": Key(list, _outputs),
    "same_ranks": Key(bool, _of_if),
    "same_shapes": Key(bool, _of_if),
    "returns": Key(list, _types_of_if),
    "narrow_scalars": Key(bool),
    "vectors_alone": Key(bool),
    "sizes": Key(dict, _numbers),
    "starts_inside": Key(bool, _of_slice),
    "backward_inside": Key(bool, _of_slice),
    "input_count": Key(int, _input_count),
    "constant_ranks": Key(dict, _numbers),
    "values": Key(dict, _contents),
    "pads": Key(list, _kinds_of_pads),
    "whole_indices": Key(bool, _of_gather_elements),
    "max_axes": Key(int, _axis_count),
    "scales": Key(list, _kinds_of_scales),
    "own_constants": Key(list, _inputs),
    "not_fed": Key(list, _inputs),
    "whole_batches": Key(list, _factors),
    "not_empty": Key(list, _inputs),
    "max_inputs": Key(int, _input_count),
    "never": Key(bool),
    "if_inputs": Key(list, _inputs, limits=False),
    "if_outputs": Key(list, _outputs, limits=False),
    "if_computed": Key(list, _inputs, limits=False),
    "if_constant": Key(list, _inputs, limits=False),
    "if_ranks": Key(dict, _numbers, limits=False),
    "if_attributes": Key(dict, _values, limits=False),
    "opset": Key(list, lambda source, schemas, key, value: source.pair(key, value), limits=False),
    "reason": Key(str, limits=False),
}


# --- names of inputs and attributes -----------------------------------------------------------------------------------


def _input(source: ProfileSource, schemas: Schemas, key: str, name: Any) -> None:
    known = {parameter.name for schema in schemas for parameter in schema.inputs}
    if key in ("dtypes", "combinations"):
        known |= {f"@{name}" for schema in schemas for name in NAMING & schema.attributes.keys()}
    if not isinstance(name, str) or name not in known:
        operator = schemas[-1].name
        hint = near(str(name), known)
        has = f"; it has {', '.join(sorted(known))}" if not hint and known else ""
        source.wrong(f"{operator} has no input {name!r}{hint}{has}", key, str(name))


def _attribute(source: ProfileSource, schemas: Schemas, key: str, name: Any, values: Any) -> None:
    every = (schema.raw.attributes.get(name) for schema in schemas if isinstance(name, str))
    kinds = {attribute.type for attribute in every if attribute}
    if not kinds:
        known = {attribute for schema in schemas for attribute in schema.attributes}
        hint = near(str(name), known)
        has = f"; it has {', '.join(sorted(known))}" if not hint and known else ""
        source.wrong(f"{schemas[-1].name} has no attribute {name!r}{hint}{has}", key, str(name))
    if not isinstance(values, list):
        source.wrong(f"{name} has a list of the values that the runtime supports", key, name)
    for value in values:
        if not any(_fits(value, kind) for kind in kinds):
            source.wrong(f"{name} of {schemas[-1].name} is never {value!r}", key, name)


def _frozen(value: Any) -> Any:
    """Return a value in the form of nodes: a list of numbers becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a TOML value can be the value of an attribute of this type."""
    one: dict[int, type] = {AttributeProto.INT: int, AttributeProto.FLOAT: float, AttributeProto.STRING: str}
    many: dict[int, type] = {AttributeProto.INTS: int, AttributeProto.FLOATS: float, AttributeProto.STRINGS: str}
    number = int(kind.value)
    if number in many:
        return isinstance(value, list) and all(_is(item, many[number]) for item in value)
    return number in one and _is(value, one[number])


def _is(value: Any, kind: type) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)
