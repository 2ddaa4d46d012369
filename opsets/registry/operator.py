"""Define `Operator`, which holds all knowledge about one operator, and the registry of operators.

An operator is lifted from any of its versions to a version-free meaning, and emitted natively at any version that can
express that meaning. Both follow from the schemas in onnx.defs if the meaning's fields have the attributes' names; the
operator's file contains only the differences of versions.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import keyword
import pkgutil
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.dialect import MICROSOFT, STRAY
from opshift.opsets.registry.facts import Dim, Facts, Tensor, constant, exact
from opshift.opsets.registry.lowering import Body, BodyNode, Lowering, Reason
from opshift.opsets.registry.schema import Schema, default_domain, misfit, schema_at, schema_read_at
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import Wider

Operands = tuple[Facts | None, ...]
"""The facts about each operand, in the order of `Operator.operands`; None for an absent one."""

SPELLING = "opshift"
"""The domain of meanings in a lowering's body: the operator's name, with the meaning's fields as attributes."""


class Outputs(tuple[Facts, ...]):
    """The facts about the outputs of a subgraph, which represent it in a meaning."""

    __slots__ = ()


@dataclass(frozen=True)
class Node:
    """A node detached from its graph: its operator and attributes, and the facts about its inputs (None: omitted)."""

    domain: str
    name: str
    since_version: int
    attributes: Mapping[str, Any]
    inputs: Operands
    used: tuple[bool, ...]


@dataclass(frozen=True)
class Version:
    """One reviewed version of an operator.

    `lift` converts the attributes (with defaults) to the meaning; `spec` does the same under `--semantics spec`, if
    onnxruntime differs from the specification. `write` converts the meaning to attributes, or returns the reason why
    this version cannot express it. All three are needed only if the meaning's fields are not the version's attributes.
    """

    since: int
    lift: Callable[[Mapping[str, Any]], Any] | None = None
    spec: Callable[[Mapping[str, Any]], Any] | None = None
    write: Callable[[Any, Operands], Mapping[str, Any] | Reason] | None = None
    applies_if: Callable[[Any, Operands], Reason | None] | None = None
    """Returns the reason why the version cannot express a meaning, in addition to its schema."""
    unsure: Callable[[Any, Operands], Reason | None] | None = None
    """Returns the fact that is needed to decide whether the version applies.

    A function is then planned for each kind of call.
    """
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The operands that the version has as attributes with another name."""
    without: frozenset[str] = frozenset()
    """The operands that the version does not have, although it has later ones."""
    left_out: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The values of omitted attributes that are operands; by default they count as omitted inputs."""
    made: Mapping[str, Callable[[Mapping[str, Any]], np.ndarray[Any, Any] | None]] = dataclasses.field(
        default_factory=dict
    )
    """The operands that the version has as attributes in another form.

    The functions return the constant, or None if absent.
    """
    explicit: frozenset[str] = frozenset()
    """The attributes that a converted node must have even with default values."""


@dataclass(frozen=True)
class Operator:
    """An operator: its meaning, its versions, its lowerings and its oracle.

    `meaning` is a frozen dataclass; `operands` names the inputs after the newest version, including those that other
    versions have as attributes; `variadic` operators have any number. `normal` returns the canonical form of meaning
    and operands. `oracle` computes the outputs with numpy, from the specification's text alone; `moves_data`: it only
    moves elements, so that partly known shapes can pass through it.
    """

    name: str
    meaning: Any
    versions: tuple[Version, ...]
    operands: tuple[str, ...]
    oracle: Callable[..., Any]
    lowerings: tuple[Lowering, ...] = ()
    domain: str = ""
    means: Operator | None = None
    """Another operator with the same meaning under a different name."""
    variadic: bool = False
    moves_data: bool = False
    wider_types: Wider = dataclasses.field(default_factory=dict)
    """Wider element types with the same result, if a version does not accept the node's own type."""
    weight: float = 1.0
    """The relative cost of such a node, if more than one lowering applies."""
    normal: Callable[[Any, Operands], tuple[Any, Operands]] | None = None
    outputs: Callable[[Any, tuple[bool, ...]], Any] | None = None
    """Changes a meaning by the number of outputs and the used ones, if these are part of it."""
    fault: Callable[[Any, Operands], str | None] | None = None
    """Return the error of an invalid node that onnx's own inference accepts."""
    idle: Callable[[Any, Operands], bool] | None = None
    """Whether the output is the unchanged first operand."""
    neutral: Callable[[Any, Operands], int | None] | None = None
    """The index of an operand that equals the output because of constants, if the shapes match: x of x * 1."""
    shape: Callable[[Any, Operands], tuple[Dim, ...] | None] | None = None
    """The first output's dimensions, if onnx infers none: from partly known shapes, or from unknown ranks."""
    dtype: Callable[[Any], int] | None = None
    """The first output's element type, if a lowering may request another than the schema's."""
    by_facts: Callable[[Mapping[str, Any], Operands], Facts | None] | None = None
    """The output's elements of a node with these attributes, if shapes and types of its inputs determine them."""
    of_dims: Callable[..., Dim] | None = None
    """Computes an output element from input elements at its index, some of which are unknown.

    They may be symbols, which are dimensions and so not negative, or None.
    """
    facts: Callable[[Any, Operands], tuple[Facts, ...]] | None = None
    """The facts about the outputs of an internal operator, which only lowerings emit and which has no schema."""
    adversarial: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Changes drafted inputs, by operand name, into adversarial ones for this operator."""
    longest: int | None = None
    """The maximum axis length that verification feeds.

    A lowering needs memory that grows with its square, or the oracle takes as many steps.
    """
    nan_defined: Callable[[Any, Operands], bool] = lambda meaning, operands: True
    """Whether NaN inputs have a defined result that can be preserved."""
    infinity_defined: Callable[[Any, Operands], bool] = lambda meaning, operands: True
    """The same for infinities."""
    body_unused: str = ""
    """The reason why ONNX's own function body is never used: for example, it overflows where the kernel does not."""
    refused: str = ""
    """The parts without a replacement, for the documents: of operators that no opset has."""
    before: Version | None = None
    """The version that onnxruntime registers for opsets below the first of ONNX's."""
    traits: Traits | None = None
    """The facts for verification and analysis; None if they are unknown, which is never the case in this package."""

    @property
    def has_lowerings(self) -> bool:
        """Whether there are lowerings that need no assumption accepted by the caller."""
        return any(one.assumes is None for one in self.lowerings)

    def version(self, since: int) -> Version | None:
        """Return the reviewed version, or None if it was not reviewed."""
        known = self.versions if self.before is None else (self.before, *self.versions)
        return next((version for version in known if version.since == since), None)


class LiftedKey(tuple[Any, ...]):
    """A key that is hashed once."""

    def __hash__(self) -> int:
        """Hash by contents."""
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = tuple.__hash__(self)
        return found


@dataclass(frozen=True)
class Lifted:
    """A node's meaning, the facts about its operands, and the used outputs.

    `sources` has, for each operand, the index of its node input; None if it is absent, or a constant that the node has
    in another form.
    """

    operator: Operator
    meaning: Any
    operands: Operands
    sources: tuple[int | None, ...]
    used: tuple[bool, ...]

    @functools.cached_property
    def text(self) -> Hashable:
        """A key of the meaning: meanings with 0.0 and -0.0 compare equal, but their texts differ."""
        return exact({field.name: getattr(self.meaning, field.name) for field in dataclasses.fields(self.meaning)})

    @functools.cached_property
    def key(self) -> LiftedKey:
        """A key that two nodes share if every lowering treats them alike."""
        operator = self.operator
        return LiftedKey((operator.domain, operator.name, self.meaning, self.text, self.operands, self.used))


def _as_operand(value: Any) -> Facts | None:
    """Return an attribute that another version has as an input: a vector or scalar of int64 or float."""
    if value is None:
        return None
    array = np.array(value)
    return constant(array.astype(np.float32 if array.size and array.dtype.kind == "f" else np.int64))


def _defaults(meaning: Any) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(meaning)}


def lift(operator: Operator, node: Node, semantics: str) -> Lifted | Reason:
    """Return the meaning of a node of this operator, or the reason why its meaning is unknown."""
    if node.domain == SPELLING and operator.domain != SPELLING:
        meaning = _adjusted_to_outputs(operator, operator.meaning(**node.attributes), node.used)
        positions = range(len(node.inputs))
        left_out = (None,) * (0 if operator.variadic else len(operator.operands) - len(node.inputs))
        return _normal(Lifted(operator, meaning, (*node.inputs, *left_out), (*positions, *left_out), node.used))
    version = operator.version(node.since_version)
    schema = schema_read_at(node.domain, node.name, node.since_version)
    if version is None or schema is None:
        return Reason(f"version {node.since_version} of {node.name} has not been reviewed")
    if wrong := misfit(schema, node.attributes):
        return Reason(f"its attribute {wrong} is {node.attributes[wrong]!r}, which it cannot be", invalid=True)
    required = (name for name, (is_required, _) in schema.attributes.items() if is_required)
    if missing := next((name for name in required if name not in node.attributes), ""):
        return Reason(f"{missing} is a parameter of the function, which only a call gives", missing=True)
    attributes = {name: node.attributes.get(name, default) for name, (_, default) in schema.attributes.items()}
    make = version.spec if semantics == "spec" and version.spec else version.lift
    if make:
        meaning = make(attributes)
    else:
        fields = _defaults(operator.meaning)
        meaning = operator.meaning(**{name: attributes[name] for name in fields if attributes.get(name) is not None})
    meaning = _adjusted_to_outputs(operator, meaning, node.used)
    operands, sources = _operands(operator, version, schema, node, attributes)
    if operator.fault and (fault := operator.fault(meaning, operands)):
        return Reason(fault, invalid=True)
    return _normal(Lifted(operator.means or operator, meaning, operands, sources, node.used))


def _adjusted_to_outputs(operator: Operator, meaning: Any, used: tuple[bool, ...]) -> Any:
    return operator.outputs(meaning, used) if operator.outputs else meaning


def _operands(
    operator: Operator, version: Version, schema: Schema, node: Node, attributes: Mapping[str, Any]
) -> tuple[Operands, tuple[int | None, ...]]:
    if operator.variadic:
        return node.inputs, tuple(range(len(node.inputs)))
    operands: list[Facts | None] = []
    sources: list[int | None] = []
    position = 0
    for operand in operator.operands:
        if operand in version.without:
            operands.append(None)
            sources.append(None)
            continue
        if operand in version.made:
            made = version.made[operand](attributes)
            operands.append(None if made is None else constant(made))
            sources.append(None)
            continue
        name = version.renamed.get(operand, operand)
        # Split-1 has an attribute and an input of one name: "using argument 'axis' or optional second input blob".
        fed = position < len(node.inputs) and position < len(schema.inputs) and schema.inputs[position].name == name
        if name in schema.attributes and not fed:
            # An omitted attribute is an omitted operand: its default equals the input's absence, except for `left_out`.
            operands.append(_as_operand(node.attributes.get(name, version.left_out.get(operand))))
            sources.append(None)
            continue
        facts = node.inputs[position] if position < len(node.inputs) else None
        operands.append(facts)
        sources.append(None if facts is None else position)
        position += 1
    return tuple(operands), tuple(sources)


def _normal(lifted: Lifted) -> Lifted:
    if lifted.operator.normal is None:
        return lifted
    meaning, operands = lifted.operator.normal(lifted.meaning, lifted.operands)
    sources = tuple(
        index if new == old else None for index, new, old in zip(lifted.sources, operands, lifted.operands, strict=True)
    )
    return dataclasses.replace(lifted, meaning=meaning, operands=operands, sources=sources)


@dataclass(frozen=True)
class Native:
    """The operator itself at one version: attributes, and the indices of the operands that are its inputs."""

    since_version: int
    attributes: Mapping[str, Any]
    inputs: tuple[int | None, ...]


def write_native(lifted: Lifted, opset: int) -> Native | Reason:
    """Express the meaning with this opset's version of the operator itself, or return the reason why not."""
    operator = lifted.operator
    schema = schema_at(operator.domain, operator.name, opset)
    if schema is None:
        return Reason(f"opset {opset} has no {operator.name}")
    label = f"{operator.name}-{schema.since_version}"
    version = operator.version(schema.since_version)
    if version is None:
        return Reason(f"{label} has not been reviewed")
    if version.applies_if and (reason := version.applies_if(lifted.meaning, lifted.operands)):
        return Reason(f"{label}: {reason}", reason.missing)
    if version.write:
        written = version.write(lifted.meaning, lifted.operands)
        if isinstance(written, Reason):
            return Reason(f"{label}: {written}", written.missing)
        attributes = dict(written)
    else:
        attributes = {}
        for field in dataclasses.fields(lifted.meaning):
            value = getattr(lifted.meaning, field.name)
            if field.name in schema.attributes:
                required, default = schema.attributes[field.name]
                if value is not None and (required or value != default):
                    attributes[field.name] = value
            elif value != field.default:
                return Reason(f"{label} has no {field.name}={value}")
    declared = len(schema.outputs) if schema.outputs and not schema.outputs[-1].variadic else len(lifted.used)
    if any(lifted.used[declared:]):
        return Reason(f"{label} has no output {declared}")
    inputs: list[int | None] = []
    if operator.variadic:
        return Native(schema.since_version, attributes, tuple(range(len(lifted.operands))))
    for index, (operand, facts) in enumerate(zip(operator.operands, lifted.operands, strict=True)):
        name = version.renamed.get(operand, operand)
        if name in schema.attributes:
            if facts is None:
                continue
            known = facts.known
            if known is None:
                return Reason(f"{label} has {name} as an attribute, and it is computed at run time", missing=True)
            scalar = schema.raw.attributes[name].type in (
                onnx.defs.OpSchema.AttrType.INT,
                onnx.defs.OpSchema.AttrType.FLOAT,
            )
            attributes[name] = known.item() if scalar else tuple(known.reshape(-1).tolist())
        elif operand in version.without:
            if facts is not None:
                return Reason(f"{label} has no input {name}")
        elif len(inputs) < len(schema.inputs):
            inputs.append(None if facts is None else index)
        elif facts is not None:
            return Reason(f"{label} has no input {name}")
    while inputs and inputs[-1] is None:
        inputs.pop()
    return Native(schema.since_version, attributes, tuple(inputs))


# --- the nodes of a lowering ------------------------------------------------------------------------------------------


def bound(call: BodyNode, body: Body, lifted: Lifted) -> tuple[str, Mapping[str, Any]]:
    """Return the operator of a body's node and its attributes, with parameters bound."""
    # `Itself` is the operator with these fields, `Same` the operator with this meaning's other fields.
    itself = call.domain == SPELLING and call.name in ("Itself", "Same")
    name = lifted.operator.name if itself else call.name
    if not call.parameters and not (itself and call.name == "Same"):
        return name, call.attributes
    attributes = {**(_nondefault_fields(lifted.meaning) if itself and call.name == "Same" else {}), **call.attributes}
    for attribute, parameter in call.parameters.items():
        value = body.bound[parameter]
        if isinstance(value, Tensor):
            # onnxscript has no tensor parameters: a tensor may be bound to a list of numbers in the body.
            attributes[attribute if call.domain == SPELLING else "value"] = value
        elif value is not None:
            attributes[attribute] = value
        else:
            attributes.pop(attribute, None)
    return name, attributes


def _nondefault_fields(meaning: Any) -> dict[str, Any]:
    """Return the fields of a meaning without default values."""
    values = {field.name: (getattr(meaning, field.name), field.default) for field in dataclasses.fields(meaning)}
    return {name: value for name, (value, default) in values.items() if value != default}


# --- the registry -------------------------------------------------------------------------------------------------


def _file_name(name: str) -> str:
    """Return the name of an operator's file: lower case; Python keywords get an underscore."""
    lower = name.lower()
    return f"{lower}_" if keyword.iskeyword(lower) else lower


ML = "ai.onnx.ml"
"""ONNX's domain of operators for classical machine learning."""

_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "": ("opshift.opsets.operators", "opshift.opsets.microsoft"),
    SPELLING: ("opshift.opsets.operators", "opshift.opsets.microsoft", "opshift.opsets.ml"),
    MICROSOFT: ("opshift.opsets.microsoft",),
    ML: ("opshift.opsets.ml",),
}
"""The packages with the operators of a domain; onnxruntime registers some of its own in the default domain."""


@functools.cache
def _files(package: str) -> frozenset[str]:
    return frozenset(item.name for item in pkgutil.iter_modules(importlib.import_module(package).__path__))


@functools.cache
def _third_party() -> Mapping[tuple[str, str], importlib.metadata.EntryPoint]:
    """Return the operators that other packages register; an entry point is named `Name`, or `domain:Name`."""
    found: dict[tuple[str, str], importlib.metadata.EntryPoint] = {}
    for entry in importlib.metadata.entry_points(group="opshift.operators"):
        domain, _, name = entry.name.rpartition(":")
        key = default_domain(domain), name
        if key in found or any(
            _file_name(name) in _files(package) for package in _FOLDERS.get(key[0], _FOLDERS[""][:1])
        ):
            raise ValueError(f"operator {entry.name} is registered twice: {entry.value}")
        found[key] = entry
    return found


@functools.cache
def operator_for(domain: str, name: str) -> Operator | None:
    """Return the operator of a node, or None if it has no file and no package registers it."""
    for package in _FOLDERS.get(domain, ()):
        if _file_name(name) in _files(package):
            operator: Operator = importlib.import_module(f"{package}.{_file_name(name)}").OPERATOR
            stray = not domain and name in STRAY
            if name == operator.name and (domain in (operator.domain, SPELLING) or stray):
                return operator
    entry = _third_party().get((domain, name))
    return None if entry is None else entry.load()


def _all_operators() -> tuple[Operator, ...]:
    operators = [*_operators_in(_FOLDERS[""][0]), *(entry.load() for entry in _third_party().values())]
    return tuple(sorted(operators, key=lambda operator: (operator.name, operator.domain)))


def _operators_in(package: str) -> Iterator[Operator]:
    yield from (importlib.import_module(f"{package}.{file}").OPERATOR for file in sorted(_files(package)))


def dialect_operators() -> tuple[Operator, ...]:
    """Return onnxruntime's own operators with a file, by name; those of the default domain come last."""
    found = (operator for operator in _operators_in(*_FOLDERS[MICROSOFT]) if operator.versions)
    return tuple(sorted(found, key=lambda operator: (not operator.domain, operator.name)))


def ml_operators() -> tuple[Operator, ...]:
    """Return the operators of ai.onnx.ml with a file, by name."""
    found = (operator for operator in _operators_in(*_FOLDERS[ML]) if operator.versions)
    return tuple(sorted(found, key=lambda operator: operator.name))


def replaced_operators() -> tuple[Operator, ...]:
    """Return the operators of other domains with a file."""
    return (*dialect_operators(), *ml_operators())


def known_operators() -> tuple[Operator, ...]:
    """Return every operator with a file or from a package, by name."""
    return tuple(operator for operator in _all_operators() if operator.versions)


def internal_operators() -> tuple[Operator, ...]:
    """Return the operators without a version, which only lowerings emit."""
    filed = (*_operators_in(*_FOLDERS[MICROSOFT]), *_operators_in(*_FOLDERS[ML]))
    return tuple(operator for operator in (*_all_operators(), *filed) if not operator.versions)
