"""Define `Limit`: the nodes of an operator that a runtime accepts, and the reasons for others."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from onnx import helper

from opshift.opsets.registry.facts import Facts, Tensor, type_name
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node, Outputs
from opshift.opsets.registry.schema import Schema

NAMING = frozenset({"dtype", "output_datatype", "output_dtype", "stash_type", "to", "value"})
"""Attributes with the element type of an output, or of the operator's computation."""


@dataclass(frozen=True)
class Limit:
    """A restriction of a supported operator.

    `dtypes` is by the schema's input names, as are `constant_inputs`. An attribute with no values at all must be
    omitted; for lists of numbers, an empty list means omitted. `@to` in `dtypes` or `combinations` is the element type
    in the attribute `to`.

    `ranks` are the permitted ranks of an input, `computed_ranks` those of an input that is not constant, `scalars`
    those of a constant of one element, and `sizes` the numbers of elements. With `narrow_scalars`, a constant of one
    element must not have more axes than every other input. With `vectors_alone`, a computed input of one axis may be
    combined only with constants of one element and with other computed inputs of one axis. Inputs in `not_negative`
    must be constants without a negative number; it may also name attributes of numbers. Attributes and inputs in
    `explicit` must be present, whatever their default is. Outputs in `unused_outputs` must be unused, and at least one
    of `used_outputs` must be used.

    With `same_ranks` the branches of an If must return the same ranks, with `same_shapes` the same dimensions, and they
    return element types in `returns`. With `starts_inside` a Slice must not start before its axis, with
    `backward_inside` not if its step is negative. With `whole_indices` those of GatherElements must have the dimensions
    of the data, except along the axis. A variadic operator must have `input_count` inputs. With `never`, the operator
    counts as unsupported: for example, the runtime loads it but computes it incorrectly.

    A reduction must not name more than `max_axes` axes; without any, all are reduced. `scales` are the kinds of scales
    that a Resize must have: `exact` scales give the sizes without rounding, `whole` scales are whole numbers, and
    `several` scales keep more than one element of each changed axis. Inputs in `own_constants` must not be constants
    that other nodes read; opshift adds a copy for each. Inputs in `not_fed` must not be the only input of the model
    without other consumers; opshift adds an Identity. A constant in `whole_batches` must hold one matrix, or the batch
    of the result. Inputs in `not_empty` must have elements. A variadic operator has at most `max_inputs` inputs.

    `constant_ranks` are the permitted ranks of a constant input, and `values` the numbers that it may hold: the input
    must be a constant of these. `pads` are the permitted kinds of padding: `even` has as much after each axis as before
    it, `end` has none before any axis, and `spatial` has none for the first two axes.

    `opset` are the opsets of the limit. The limit applies only to some nodes with these keys:

    - `if_inputs`: nodes that have all of these inputs;
    - `if_outputs`: nodes that use all of these outputs;
    - `if_computed`: nodes of which one of these inputs is not constant;
    - `if_constant`: nodes of which all of these inputs are constant;
    - `if_ranks`: nodes whose inputs have one of these ranks, or unknown ones;
    - `if_attributes`: nodes with one of these values of each attribute.
    """

    operator: str
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    combinations: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    attributes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    constant_inputs: tuple[str, ...] = ()
    static: bool = False
    max_rank: int | None = None
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    scalars: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    computed_ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    not_negative: tuple[str, ...] = ()
    explicit: tuple[str, ...] = ()
    unused_outputs: tuple[str, ...] = ()
    used_outputs: tuple[str, ...] = ()
    same_ranks: bool = False
    same_shapes: bool = False
    returns: tuple[str, ...] = ()
    narrow_scalars: bool = False
    vectors_alone: bool = False
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starts_inside: bool = False
    backward_inside: bool = False
    input_count: int | None = None
    constant_ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pads: tuple[str, ...] = ()
    whole_indices: bool = False
    max_axes: int | None = None
    scales: tuple[str, ...] = ()
    own_constants: tuple[str, ...] = ()
    not_fed: tuple[str, ...] = ()
    whole_batches: tuple[str, ...] = ()
    not_empty: tuple[str, ...] = ()
    max_inputs: int | None = None
    never: bool = False
    if_inputs: tuple[str, ...] = ()
    if_outputs: tuple[str, ...] = ()
    if_computed: tuple[str, ...] = ()
    if_constant: tuple[str, ...] = ()
    if_ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    if_attributes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    opset: tuple[int, int] | None = None
    reason: str = ""

    @functools.cached_property
    def _keys(self) -> frozenset[str]:
        """The keys with another value than the default."""
        defaults = Limit(self.operator)
        names = (field.name for field in dataclasses.fields(self))
        return frozenset(name for name in names if getattr(self, name) != getattr(defaults, name))

    @functools.cached_property
    def only_types(self) -> bool:
        """Whether the limit depends only on the element types of the inputs."""
        named = any(name.startswith("@") for one in (self.dtypes, *self.combinations) for name in one)
        return self._keys <= {"dtypes", "combinations", "opset", "reason"} and not named

    @functools.cached_property
    def is_conditional(self) -> bool:
        """Whether the limit applies only to some nodes of the operator."""
        return any(key.startswith("if_") for key in self._keys)

    @functools.cached_property
    def _checks(self) -> tuple[Sequence[_NodeCheck], Sequence[_InputCheck], Sequence[_NodeCheck]]:
        """The checks of the keys that the limit has: of the node, of each input, and of several inputs."""
        return _of_keys(_OF_NODE, self._keys), _of_keys(_OF_INPUT, self._keys), _of_keys(_OF_INPUTS, self._keys)

    def holds(self, opset: int) -> bool:
        """Return whether the limit applies at this opset."""
        return self.opset is None or self.opset[0] <= opset <= self.opset[1]

    def why_not(self, node: Node, schema: Schema, possible: Set[int] | None = None) -> Reason | None:
        """Return the reason why the runtime does not accept this node, or that a fact is missing.

        `possible` are the element types that a value of unknown type can have.
        """
        if self.never and self._concerns(node, schema):
            return Reason(self.reason or "not in a usable way")
        return self.why_not_types(node, schema, possible) or self._first(self._faults(node, schema), node, schema)

    def why_not_types(self, node: Node, schema: Schema, possible: Set[int] | None = None) -> Reason | None:
        """Return the reason why the runtime does not accept the element types of this node, as `why_not`."""
        if not self.dtypes and not self.combinations:
            return None
        return self._first([_of_types(self, types_of(node, schema), schema, possible)], node, schema)

    def _faults(self, node: Node, schema: Schema) -> Iterator[Reason | None]:
        of_node, of_input, of_inputs = self._checks
        for check in of_node:
            yield check(self, node, schema)
        for name, facts in _named(node, schema) if of_input else ():
            for check_input in of_input:
                yield check_input(self, name, facts)
        for check in of_inputs:
            yield check(self, node, schema)

    def _first(self, faults: Iterable[Reason | None], node: Node, schema: Schema) -> Reason | None:
        """Return the first fault, with the limit's reason, if the limit applies to this node."""
        if not self._concerns(node, schema):
            return None
        found = next((fault for fault in faults if fault is not None), None)
        return Reason(f"{found} ({self.reason})", found.missing) if found is not None and self.reason else found

    def _concerns(self, node: Node, schema: Schema) -> bool:
        """Return whether the limit applies to a node with these inputs and attributes."""
        if not self.is_conditional:
            return True
        named = list(_named(node, schema))
        return (
            {name for name, _ in named}.issuperset(self.if_inputs)
            and (not self.if_outputs or _used(node, schema).issuperset(self.if_outputs))
            and (not self.if_computed or any(name in self.if_computed and not one.is_constant for name, one in named))
            and {name for name, one in named if one.is_constant}.issuperset(self.if_constant)
            and all(one.rank in (*self.if_ranks.get(name, (one.rank,)), None) for name, one in named)
            and {name for name, _ in named}.issuperset(self.if_ranks)
            and all(_value(node, schema, name) in values for name, values in self.if_attributes.items())
        )


def _named(node: Node, schema: Schema) -> Iterator[tuple[str, Facts]]:
    """Yield the inputs of a node by their names in the schema."""
    for index, facts in enumerate(node.inputs):
        if facts is not None and (parameter := schema.input(index)) is not None:
            yield parameter.name, facts


def _used(node: Node, schema: Schema) -> set[str]:
    """Return the used outputs of a node, by their names in the schema."""
    return {output.name for output, used in zip(schema.outputs, node.used, strict=False) if used}


def _value(node: Node, schema: Schema, name: str) -> Any:
    """Return the value of an attribute, which may be its default; or None."""
    return node.attributes.get(name, schema.attributes.get(name, (False, None))[1])


# --- element types ----------------------------------------------------------------------------------------------------


def types_of(node: Node, schema: Schema) -> dict[str, str | None]:
    """Return the element types of a node by input name, None for an unknown one.

    `@to` has the type in the attribute `to`, if the node has such an attribute.
    """
    inputs = [
        (parameter, facts.dtype)
        for index, facts in enumerate(node.inputs)
        if (parameter := schema.input(index)) is not None and facts is not None
    ]
    bound = {parameter.type_variable: dtype for parameter, dtype in inputs if dtype and parameter.homogeneous}
    found: dict[str, str | None] = {}
    for parameter, own in inputs:
        dtype = own or bound.get(parameter.type_variable)
        if found.get(parameter.name) is None:
            found[parameter.name] = type_name(dtype) if dtype else None
    for name in NAMING & schema.attributes.keys():
        value = node.attributes.get(name, schema.attributes[name][1])
        if isinstance(value, Tensor):
            value = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        if type(value) is int and value:
            found[f"@{name}"] = type_name(value)
    return found


def _of_types(
    limit: Limit, types: Mapping[str, str | None], schema: Schema, possible: Set[int] | None
) -> Reason | None:
    """Return the reason why the runtime does not accept the element types of a node."""
    if None in types.values() and possible is not None:
        every = (_of_types(limit, one, schema, None) for one in _bound(types, schema, possible))
        refused = next((reason for reason in every if reason is not None), None)
        return None if refused is None else Reason(refused, missing=True)
    for name, allowed in limit.dtypes.items():
        if name in types and types[name] not in allowed:
            what = f"it takes {name} as {', '.join(allowed)}, not {types[name] or 'unknown'}"
            return Reason(what, types[name] is None)
    if limit.combinations and not any(_fits(types, one) for one in limit.combinations):
        types_found = ", ".join(f"{name} as {dtype or 'unknown'}" for name, dtype in types.items())
        return Reason(f"it does not take {types_found}", None in types.values())
    return None


def _bound(types: Mapping[str, str | None], schema: Schema, possible: Set[int]) -> Iterator[dict[str, str | None]]:
    """Yield the element types of a node with each possible type in place of the unknown ones."""
    allowed = {parameter.name: parameter.types for parameter in schema.inputs}
    names = [name for name, dtype in types.items() if dtype is None]
    known = [type_name(dtype) for dtype in sorted(possible)]
    choices = [[dtype for dtype in known if f"tensor({dtype})" in allowed.get(name, ())] for name in names]
    for chosen in itertools.product(*choices):
        yield {**types, **dict(zip(names, chosen, strict=True))}


def _fits(types: Mapping[str, str | None], combination: Mapping[str, str | tuple[str, ...]]) -> bool:
    """Return whether a node has the element types of a combination, for the inputs that it has."""
    return all(
        name not in types or types[name] in ((wanted,) if isinstance(wanted, str) else wanted)
        for name, wanted in combination.items()
    )


# --- the single node --------------------------------------------------------------------------------------------------


def _attributes(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    for name, values in limit.attributes.items():
        if not values and name in node.attributes:
            return Reason(f"it takes no {name}")
        value = _value(node, schema, name)
        if values and (() if value is None else value) not in values:
            shown = ", ".join("left out" if one == () else str(one) for one in values)
            return Reason(f"it takes {name} {shown}, not {value}")
    return None


def _unused_outputs(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    for place, output in enumerate(schema.outputs):
        if output.name in limit.unused_outputs and any(node.used[place : place + 1]):
            return Reason(f"it does not return {output.name}")
    return None


def _used_outputs(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    if not limit.used_outputs or not _used(node, schema).isdisjoint(limit.used_outputs):
        return None
    return Reason(f"its output {' or '.join(limit.used_outputs)} must be used")


def _negative_attribute(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    for name in limit.not_negative:
        value = _value(node, schema, name)
        if any(number < 0 for number in (value if isinstance(value, tuple) else (value,) if value is not None else ())):
            return Reason(f"it takes {name} without negative numbers only")
    return None


def _explicit(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    inputs = {name for name, _ in _named(node, schema)} if limit.explicit else set[str]()
    for name in limit.explicit:
        if name not in node.attributes and name not in inputs:
            role = "attribute" if name in schema.attributes else "input"
            return Reason(f"it needs the {role} {name}, whatever its default is")
    return None


def _pads(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    pads_input = next((facts for name, facts in _named(node, schema) if name == "pads"), None)
    if limit.pads and pads_input is not None and pads_input.known is None:
        return Reason("it needs constant pads, which are fed or computed at run time", missing=True)
    known = node.attributes.get("pads") if pads_input is None else pads_input.known
    pads = [] if known is None else [int(number) for number in known]
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    kinds = {"even": begins == ends, "end": not any(begins), "spatial": not any(begins[:2] + ends[:2])}
    if not limit.pads or any(kinds[kind] for kind in limit.pads):
        return None
    return Reason(f"it takes pads {' or '.join(PADS[kind] for kind in limit.pads)}, not {pads}")


def _input_count(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    if limit.input_count in (None, len(node.inputs)):
        return None
    return Reason(f"it takes {limit.input_count} inputs, not {len(node.inputs)}")


def _max_inputs(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    if limit.max_inputs is None or len(node.inputs) <= limit.max_inputs:
        return None
    return Reason(f"it takes {limit.max_inputs} inputs at most, not {len(node.inputs)}")


PADS = {"even": "that are the same at both ends of each axis", "end": "at the ends of axes alone"} | {
    "spatial": "of others than the first two axes alone"
}
"""The kinds of padding that `pads` of a limit may name."""


# --- each input -------------------------------------------------------------------------------------------------------


def _constant(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if name not in limit.constant_inputs or facts.is_constant:
        return None
    return Reason(f"it needs a constant {name}, which is fed or computed at run time", missing=True)


def _negative(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if name not in limit.not_negative or (facts.known is not None and not (facts.known < 0).any()):
        return None
    return Reason(f"it takes a constant {name} without negative numbers only", missing=not facts.is_constant)


def _static(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if not limit.static or (facts.shape is not None and all(isinstance(dim, int) for dim in facts.shape)):
        return None
    return Reason(f"it needs static shapes, and that of {name} is not", missing=True)


def _max_rank(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if limit.max_rank is None or (facts.rank is not None and facts.rank <= limit.max_rank):
        return None
    return Reason(f"it takes rank {limit.max_rank} at most", facts.rank is None)


def _rank(limit: Limit, name: str, facts: Facts) -> Reason | None:
    return _other(limit.ranks.get(name), facts.rank, f"{name} of rank {{}}")


def _size(limit: Limit, name: str, facts: Facts) -> Reason | None:
    return _other(limit.sizes.get(name), facts.size, f"{{}} elements in {name}")


def _computed_rank(limit: Limit, name: str, facts: Facts) -> Reason | None:
    allowed = None if facts.is_constant else limit.computed_ranks.get(name)
    return _other(allowed, facts.rank, f"{name} of rank {{}} if it is not constant")


def _constant_rank(limit: Limit, name: str, facts: Facts) -> Reason | None:
    allowed = limit.constant_ranks.get(name) if facts.is_constant else None
    return _other(allowed, facts.rank, f"a constant {name} of rank {{}}")


def _numbers(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if name not in limit.values or (facts.known is not None and np.isin(facts.known, limit.values[name]).all()):
        return None
    allowed = " or ".join(f"{number:g}" for number in limit.values[name])
    return Reason(f"it takes a constant {name} of {allowed} only", missing=not facts.is_constant)


def _empty(limit: Limit, name: str, facts: Facts) -> Reason | None:
    if name not in limit.not_empty or facts.size != 0:
        return None
    return Reason(f"it takes no empty {name}")


def _scalar_rank(limit: Limit, name: str, facts: Facts) -> Reason | None:
    allowed = limit.scalars.get(name) if facts.is_constant and facts.size == 1 else None
    return _other(allowed, facts.rank, f"a constant {name} of one element with rank {{}}")


def _other(allowed: tuple[int, ...] | None, number: int | None, what: str) -> Reason | None:
    """Return that a number is not in a list of permitted ones, if there is a list; None is unknown."""
    if allowed is None or number in allowed:
        return None
    taken = what.format(" or ".join(map(str, allowed)))
    return Reason(f"it takes {taken}, not {'unknown' if number is None else number}", number is None)


# --- several inputs, and branches -------------------------------------------------------------------------------------


def _wide_scalar(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a constant of one element has more axes than all other inputs."""
    inputs = [facts for _, facts in _named(node, schema)] if limit.narrow_scalars else []
    for place, facts in enumerate(inputs):
        others = [other.rank for index, other in enumerate(inputs) if index != place and not other.is_constant]
        if not facts.is_constant or facts.size != 1 or not facts.rank or not others:
            continue
        if None in others:
            return Reason("it needs to know the rank of the value beside a constant of one element", True)
        if facts.rank > max(rank or 0 for rank in others):
            return Reason("it takes no constant of one element with more axes than the other input")
    return None


def _beside_vector(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a computed input of one axis is broadcast with an operand that is not a scalar."""
    others = [facts for _, facts in _named(node, schema) if facts.size != 1] if limit.vectors_alone else []
    computed = [facts for facts in others if not facts.is_constant]
    if len(others) < 2 or not computed:
        return None
    if any(facts.rank is None for facts in computed):
        return Reason("it needs to know whether a computed input has one axis", True)
    vectors = [facts for facts in computed if facts.rank == 1]
    if not vectors or all(facts.rank == 1 and not facts.is_constant for facts in others):
        return None
    return Reason("it takes no computed input of one axis beside others than scalars")


def _may_be_backward(steps: Facts | None) -> bool:
    return steps is not None and (steps.known is None or bool((steps.known < 0).any()))


def _early_start(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a Slice starts before the first element of an axis, or may do so."""
    if not limit.starts_inside and not limit.backward_inside:
        return None
    data, others = node.inputs[0], (*node.inputs[1:], None, None, None, None)
    starts, _, axes, steps = (None if facts is None else facts.known for facts in others[:4])
    if "starts" in node.attributes:
        starts, axes = np.array(node.attributes["starts"]), node.attributes.get("axes")
    elif others[0] is not None and starts is None and (limit.starts_inside or _may_be_backward(others[3])):
        return Reason("it needs starts that are known not to lie before the axis", True)
    for place, start in enumerate([] if starts is None else starts.reshape(-1).tolist()):
        step = None if steps is None else steps.reshape(-1)[place]
        forward = limit.starts_inside and (step is None or step > 0)
        backward = limit.backward_inside and start < -1 and others[3] is not None and (step is None or step < 0)
        if start >= 0 or not (forward or backward):
            continue
        axis = place if axes is None else int(np.asarray(axes).reshape(-1)[place])
        dim = None if data is None else data.dim(axis)
        if not isinstance(dim, int):
            return Reason(f"it needs to know whether start {start} lies before axis {axis}", True)
        if start < -dim:
            return Reason(f"it takes no start {start}, which lies before axis {axis} of {dim} elements")
    return None


def _partial_indices(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that the indices of GatherElements and the data differ in another dimension than the axis."""
    data, indices = node.inputs[:2] if limit.whole_indices else (None, None)
    if data is None or indices is None or not data.rank:
        return None
    axis = int(_value(node, schema, "axis")) % data.rank
    for other in range(data.rank):
        dims = data.dim(other), indices.dim(other)
        if other != axis and (dims[0] is None or dims[0] != dims[1]):
            what = f"it takes indices with the dimension of data on axis {other}, {dims[0]}, not {dims[1]}"
            return Reason(what, missing=not all(isinstance(dim, int) for dim in dims))
    return None


def _branches_differ(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return the output with different ranks or shapes in the branches of an If, or with an unsupported type."""
    branches = [value for value in node.attributes.values() if isinstance(value, Outputs)]
    for index, returned in enumerate(zip(*branches, strict=False)):
        if reason := _of_branches(limit, index, [facts for facts in returned if not facts.container]):
            return reason
    return None


def _of_branches(limit: Limit, index: int, returned: list[Facts]) -> Reason | None:
    if limit.same_ranks or limit.same_shapes:
        ranks = [facts.rank for facts in returned]
        if None in ranks:
            return Reason(f"it needs one rank of output {index} in both branches, and it is unknown", True)
        if len(set(ranks)) > 1:
            written = " and ".join(map(str, ranks))
            return Reason(f"it needs one rank of output {index} in both branches, not {written}", True)
    shapes = {facts.shape for facts in returned if limit.same_shapes}
    if len(shapes) > 1 or any(None in (shape or ()) for shape in shapes):
        return Reason(f"it needs one shape of output {index} in both branches", True)
    types = {type_name(facts.dtype) if facts.dtype else "unknown" for facts in returned if limit.returns}
    if other := sorted(types.difference(limit.returns)):
        return Reason(f"it returns {', '.join(limit.returns)}, not {other[0]}", "unknown" in other)
    return None


def _many_axes(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a reduction has more axes than the runtime reduces at once."""
    if limit.max_axes is None:
        return None
    axes = next((facts for name, facts in _named(node, schema) if name == "axes"), None)
    count = len(node.attributes.get("axes", ())) if axes is None else axes.size
    if count is not None and count <= limit.max_axes:
        return None
    return Reason(f"it takes {limit.max_axes} axes at most, not {'unknown' if count is None else count}", count is None)


def _repeated_batch(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a constant of several matrices is repeated along the batch of the other factor."""
    inputs = [*_named(node, schema)] if limit.whole_batches else []
    for name, facts in inputs:
        batch = (facts.shape or ())[:-2]
        if name not in limit.whole_batches or not facts.is_constant or all(dim == 1 for dim in batch):
            continue
        shapes = [one.shape for _, one in inputs]
        batches = [[dim for dim in shape[:-2] if isinstance(dim, int)] for shape in shapes if shape is not None]
        if [len(batch) for batch in batches] != [len((shape or ())[:-2]) for shape in shapes]:
            return Reason(f"it needs to know the batch beside a constant {name} of several matrices", missing=True)
        own = [dim for dim in batch if isinstance(dim, int)]
        if math.prod(np.broadcast_shapes(*map(tuple, batches))) != math.prod(own):
            return Reason(f"it takes a constant {name} of one matrix, or of the batch of the result")
    return None


def _scales(limit: Limit, node: Node, schema: Schema) -> Reason | None:
    """Return that a Resize does not have the required kinds of scales."""
    data = node.inputs[0] if limit.scales else None
    if data is None:
        return None
    known = {name: facts.known.reshape(-1) for name, facts in _named(node, schema) if facts.known is not None}
    dims = [data.dim(axis) for axis in range(data.rank or 0)]
    read = known.get("sizes", np.zeros(0)), known.get("scales", np.zeros(0))
    if not all(isinstance(dim, int) for dim in dims) or not dims or len(dims) not in map(len, read):
        return Reason("it needs to know the shape and the scales", missing=True)
    before = np.array(dims, np.float64)
    after = read[0] if len(read[0]) else np.floor(before * read[1])
    exact = bool(len(read[0])) or bool((before * read[1] == after).all())
    kinds = {
        "exact": exact,
        "whole": exact and bool((after % np.maximum(before, 1) == 0).all()),
        "several": bool(((after > 1) | (after == before)).all()),
    }
    wrong = next((kind for kind in limit.scales if not kinds[kind]), None)
    return None if wrong is None else Reason(f"it takes scales {SCALES[wrong]} only")


SCALES = {"exact": "that give the sizes without rounding", "whole": "that are whole numbers"} | {
    "several": "that leave several elements of an axis"
}
"""The kinds of scales that `scales` of a limit may name; all named ones are required."""


_NodeCheck = Callable[[Limit, Node, Schema], Reason | None]
_InputCheck = Callable[[Limit, str, Facts], Reason | None]

_OF_NODE: Mapping[_NodeCheck, tuple[str, ...]] = {
    _attributes: ("attributes",),
    _unused_outputs: ("unused_outputs",),
    _used_outputs: ("used_outputs",),
    _negative_attribute: ("not_negative",),
    _explicit: ("explicit",),
    _pads: ("pads",),
    _input_count: ("input_count",),
    _max_inputs: ("max_inputs",),
}
_OF_INPUT: Mapping[_InputCheck, tuple[str, ...]] = {
    _constant: ("constant_inputs",),
    _negative: ("not_negative",),
    _static: ("static",),
    _max_rank: ("max_rank",),
    _rank: ("ranks",),
    _size: ("sizes",),
    _computed_rank: ("computed_ranks",),
    _scalar_rank: ("scalars",),
    _constant_rank: ("constant_ranks",),
    _numbers: ("values",),
    _empty: ("not_empty",),
}
_OF_INPUTS: Mapping[_NodeCheck, tuple[str, ...]] = {
    _wide_scalar: ("narrow_scalars",),
    _beside_vector: ("vectors_alone",),
    _early_start: ("starts_inside", "backward_inside"),
    _partial_indices: ("whole_indices",),
    _branches_differ: ("same_ranks", "same_shapes", "returns"),
    _many_axes: ("max_axes",),
    _repeated_batch: ("whole_batches",),
    _scales: ("scales",),
}
"""The checks in order, with the keys of a limit that each reads; the first fault is returned."""

_Check = TypeVar("_Check")


def _of_keys(checks: Mapping[_Check, Sequence[str]], keys: Set[str]) -> Sequence[_Check]:
    """Return the checks that read one of these keys; the others find no fault."""
    return tuple(check for check, read in checks.items() if not keys.isdisjoint(read))
