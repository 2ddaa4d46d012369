"""`Operator`: all that is known of one operator, and the only registry of them.

An operator is lifted from any version it has to a version-free meaning, and written natively at any version that can
say that meaning. Both follow from the schemas in onnx.defs wherever the meaning's fields bear the attributes' names;
only what a version says differently stands in the operator's file.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import keyword
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.dialect import MICROSOFT, STRAY
from opshift.opsets.registry.facts import Dim, Facts, Tensor, constant
from opshift.opsets.registry.lowering import Body, BodyNode, Lowering, Reason
from opshift.opsets.registry.schema import Schema, default_domain, misfit, schema_at, schema_read_at
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import Wider

Operands = tuple[Facts | None, ...]
"""The known facts about each operand, in the order of `Operator.operands`; None for one that is absent."""

SPELLING = "opshift"
"""The domain in which a lowering's body spells a meaning: the operator's name, the meaning's fields as attributes."""


class Outputs(tuple[Facts, ...]):
    """The known facts about the outputs of a graph that is an attribute: all that a meaning sees of it."""

    __slots__ = ()


@dataclass(frozen=True)
class Node:
    """A node apart from its graph: what it is, and the known facts about its inputs (None: left out)."""

    domain: str
    name: str
    since_version: int
    attributes: Mapping[str, Any]
    inputs: Operands
    used: tuple[bool, ...]


@dataclass(frozen=True)
class Version:
    """One reviewed version of an operator.

    `lift` makes the meaning of the attributes (defaults filled in), `spec` the same under `--semantics spec` where
    onnxruntime departs from the text. `write` makes attributes of the meaning, or says why this version cannot say it.
    All three are needed only where the meaning's fields are not the version's attributes.
    """

    since: int
    lift: Callable[[Mapping[str, Any]], Any] | None = None
    spec: Callable[[Mapping[str, Any]], Any] | None = None
    write: Callable[[Any, Operands], Mapping[str, Any] | Reason] | None = None
    applies_if: Callable[[Any, Operands], Reason | None] | None = None
    """Why the version cannot express this, in addition to what its schema tells."""
    unsure: Callable[[Any, Operands], Reason | None] | None = None
    """What is missing to know that the version can express this: a function is then planned for each kind of call."""
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Operands that the version has as attributes of another name."""
    without: frozenset[str] = frozenset()
    """Operands that the version does not have, though it has later ones."""
    left_out: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What operands are that the version has as attributes, where a node leaves these out; else as a missing input."""
    made: Mapping[str, Callable[[Mapping[str, Any]], np.ndarray[Any, Any] | None]] = dataclasses.field(
        default_factory=dict
    )
    """Operands that the version has in attributes of another form: what makes the constant, None if it is absent."""
    explicit: frozenset[str] = frozenset()
    """Attributes that a converted node must have even if they are at their defaults."""


@dataclass(frozen=True)
class Operator:
    """An operator: its meaning, its versions, its lowerings and its oracle.

    `meaning` is a frozen dataclass; `operands` names the inputs after the newest version, also those that other
    versions have as attributes; `variadic` operators have any number. `normal` makes the one canonical form of
    meaning and operands. `oracle` computes the outputs with numpy, from the specification's text alone; `moves_data`
    says that it only moves elements about, so that partly known shapes can pass through it.
    """

    name: str
    meaning: Any
    versions: tuple[Version, ...]
    operands: tuple[str, ...]
    oracle: Callable[..., Any]
    lowerings: tuple[Lowering, ...] = ()
    domain: str = ""
    means: Operator | None = None
    """Another operator, whose meaning this one has under a different name."""
    variadic: bool = False
    moves_data: bool = False
    wider_types: Wider = dataclasses.field(default_factory=dict)
    """Wider element types that give the same result, where a version does not accept the node's own."""
    weight: float = 1.0
    """The relative cost of such a node, if more than one lowering applies."""
    normal: Callable[[Any, Operands], tuple[Any, Operands]] | None = None
    outputs: Callable[[Any, tuple[bool, ...]], Any] | None = None
    """Changes a meaning by how many outputs there are, and which are used, where a version lets these tell."""
    fault: Callable[[Any, Operands], str | None] | None = None
    """Return the error of an invalid node that onnx's own inference accepts."""
    idle: Callable[[Any, Operands], bool] | None = None
    """Whether the output is the first operand as it is."""
    neutral: Callable[[Any, Operands], int | None] | None = None
    """The operand that the output repeats where constants decide that, if it has the output's shape: x of x * 1."""
    shape: Callable[[Any, Operands], tuple[Dim, ...] | None] | None = None
    """The first output's dimensions, where onnx infers none: from partly known shapes, or from unknown ranks."""
    dtype: Callable[[Any], int] | None = None
    """The first output's element type, where a lowering may ask for another than the schema says."""
    by_facts: Callable[[Mapping[str, Any], Operands], Facts | None] | None = None
    """The output's elements of a node with these attributes, where shapes and types of its inputs decide them."""
    of_dims: Callable[..., Dim] | None = None
    """An element of the output, of an operator that computes each from those at its place, some of which are not known:
    a symbol, which is a dimension and so not negative, or None."""
    facts: Callable[[Any, Operands], tuple[Facts, ...]] | None = None
    """The known facts about the outputs of a step: an operator that only lowerings say, of which no schema tells."""
    adversarial: Callable[[np.random.Generator, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Changes drafted inputs, by operand name, into ones that this operator is likely to get wrong."""
    longest: int | None = None
    """The longest axis that the proof feeds, where a lowering needs memory that grows with its square."""
    nan_defined: Callable[[Any, Operands], bool] = lambda meaning, operands: True
    """Whether NaN inputs have a result that can be kept."""
    infinity_defined: Callable[[Any, Operands], bool] = lambda meaning, operands: True
    """The same of infinities."""
    body_unused: str = ""
    """Why ONNX's own function body is never used: it overflows, say, where the kernel does not."""
    refused: str = ""
    """What has no replacement, for the documents: of operators that no opset has."""
    before: Version | None = None
    """The version that onnxruntime registers for opsets below the first of ONNX's."""
    traits: Traits | None = None
    """The facts for verification and analysis; None, which no operator of the package has: nothing is known."""

    @property
    def has_lowerings(self) -> bool:
        """Whether there are lowerings that no assumption of the caller's has to allow."""
        return any(one.assumes is None for one in self.lowerings)

    def version(self, since: int) -> Version | None:
        """Return the reviewed version, None if nobody has read it."""
        known = self.versions if self.before is None else (self.before, *self.versions)
        return next((version for version in known if version.since == since), None)


@dataclass(frozen=True)
class Lifted:
    """A node's meaning, the known facts about its operands, and which outputs are used.

    `sources` gives, for each operand, the index of the node's input that it comes from; None where it is absent, or a
    constant that the node has in another form.
    """

    operator: Operator
    meaning: Any
    operands: Operands
    sources: tuple[int | None, ...]
    used: tuple[bool, ...]

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """The key that is equal for two nodes if every lowering treats them alike."""
        # A meaning equals another that says 0.0 for -0.0; in words they differ.
        return self.operator.domain, self.operator.name, self.meaning, repr(self.meaning), self.operands, self.used


def _as_operand(value: Any) -> Facts | None:
    """An attribute that another version has as an input: a list is a vector, a number a scalar; int64 or float."""
    if value is None:
        return None
    array = np.array(value)
    return constant(array.astype(np.float32 if array.size and array.dtype.kind == "f" else np.int64))


def _defaults(meaning: Any) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(meaning)}


def lift(operator: Operator, node: Node, semantics: str) -> Lifted | Reason:
    """Return the meaning of a node of this operator, or why it has none that is known."""
    if node.domain == SPELLING and operator.domain != SPELLING:
        meaning = _adjusted_to_outputs(operator, operator.meaning(**node.attributes), node.used)
        given = range(len(node.inputs))
        left_out = (None,) * (0 if operator.variadic else len(operator.operands) - len(node.inputs))
        return _normal(Lifted(operator, meaning, (*node.inputs, *left_out), (*given, *left_out), node.used))
    version = operator.version(node.since_version)
    schema = schema_read_at(node.domain, node.name, node.since_version)
    if version is None or schema is None:
        return Reason(f"version {node.since_version} of {node.name} has not been reviewed")
    if wrong := misfit(schema, node.attributes):
        return Reason(f"its attribute {wrong} is {node.attributes[wrong]!r}, which it cannot be", invalid=True)
    required = (name for name, (is_required, _) in schema.attributes.items() if is_required)
    if lacking := next((name for name in required if name not in node.attributes), ""):
        return Reason(f"{lacking} is a parameter of the function, which only a call gives", missing=True)
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
            # One left out is an operand left out: its default is what the input's absence means, but for `left_out`.
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
        source if new == old else None
        for source, new, old in zip(lifted.sources, operands, lifted.operands, strict=True)
    )
    return dataclasses.replace(lifted, meaning=meaning, operands=operands, sources=sources)


@dataclass(frozen=True)
class Native:
    """The operator itself at one version: attributes, and the operands that are its inputs, by their index."""

    since_version: int
    attributes: Mapping[str, Any]
    inputs: tuple[int | None, ...]


def write_native(lifted: Lifted, opset: int) -> Native | Reason:
    """Express the meaning with the operator itself as this opset has it, or tell why that cannot be done."""
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
    given = len(schema.outputs) if schema.outputs and not schema.outputs[-1].variadic else len(lifted.used)
    if any(lifted.used[given:]):
        return Reason(f"{label} has no output {given}")
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
    """Return the operator of a body's node and its attributes, parameters replaced by what was bound."""
    # `Itself` is the operator with the fields given, `Same` the operator with the fields of this meaning but those.
    itself = call.domain == SPELLING and call.name in ("Itself", "Same")
    name = lifted.operator.name if itself else call.name
    if not call.parameters and not (itself and call.name == "Same"):
        return name, call.attributes
    attributes = {**(_nondefault_fields(lifted.meaning) if itself and call.name == "Same" else {}), **call.attributes}
    for attribute, parameter in call.parameters.items():
        value = body.bound[parameter]
        if isinstance(value, Tensor):
            # onnxscript has no parameters for tensors: one may be bound where the body has a list of numbers.
            attributes[attribute if call.domain == SPELLING else "value"] = value
        elif value is not None:
            attributes[attribute] = value
        else:
            attributes.pop(attribute, None)
    return name, attributes


def _nondefault_fields(meaning: Any) -> dict[str, Any]:
    """The fields of a meaning that are not at their defaults."""
    values = {field.name: (getattr(meaning, field.name), field.default) for field in dataclasses.fields(meaning)}
    return {name: value for name, (value, default) in values.items() if value != default}


# --- the registry -------------------------------------------------------------------------------------------------


def _file_name(name: str) -> str:
    """An operator's file is named after it, in lower case; Python's own words get an underscore."""
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
"""The packages that have the operators of a domain; onnxruntime registers some of its own in the default domain."""


@functools.cache
def _files(package: str) -> frozenset[str]:
    return frozenset(item.name for item in pkgutil.iter_modules(importlib.import_module(package).__path__))


@functools.cache
def _third_party() -> Mapping[tuple[str, str], importlib.metadata.EntryPoint]:
    """Operators that other packages register; an entry point is named `Name`, or `domain:Name`."""
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
    """Return the operator that a node names, None if it has no file and no package registers it."""
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
    """Return onnxruntime's own operators that have a file, by name; those of the default domain come last."""
    found = (operator for operator in _operators_in(*_FOLDERS[MICROSOFT]) if operator.versions)
    return tuple(sorted(found, key=lambda operator: (not operator.domain, operator.name)))


def ml_operators() -> tuple[Operator, ...]:
    """Return the operators of ai.onnx.ml that have a file, by name."""
    found = (operator for operator in _operators_in(*_FOLDERS[ML]) if operator.versions)
    return tuple(sorted(found, key=lambda operator: operator.name))


def replaced_operators() -> tuple[Operator, ...]:
    """Return the operators of other domains that have a file."""
    return (*dialect_operators(), *ml_operators())


def known_operators() -> tuple[Operator, ...]:
    """Return every operator that has a file or is registered by a package, by name."""
    return tuple(operator for operator in _all_operators() if operator.versions)


def internal_operators() -> tuple[Operator, ...]:
    """Return the operators without a version: lowerings say them, and models do not have them."""
    filed = (*_operators_in(*_FOLDERS[MICROSOFT]), *_operators_in(*_FOLDERS[ML]))
    return tuple(operator for operator in (*_all_operators(), *filed) if not operator.versions)
