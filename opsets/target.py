"""`Target`: what a runtime takes; `Legality`: whether one node may stand in the result."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opshift.opsets.facts import type_name
from opshift.opsets.kernels import has_kernel
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import SPELLING, Node
from opshift.opsets.schema import NEWEST, OLDEST, Schema, schema_at


@dataclass(frozen=True)
class Limit:
    """A runtime has the operator, but only so. `dtypes` is by the schema's input names, as are `constant_inputs`."""

    operator: str
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    combinations: tuple[Mapping[str, str], ...] = ()
    attributes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    constant_inputs: tuple[str, ...] = ()
    static: bool = False
    max_rank: int | None = None
    reason: str = ""

    def why_not(self, node: Node, schema: Schema) -> Reason | None:
        """Say why the runtime does not take this node, or that a fact is missing to tell."""
        inputs = {
            parameter.name: facts
            for index, facts in enumerate(node.inputs)
            if (parameter := schema.input(index)) is not None and facts is not None
        }
        types = {name: None if facts.dtype is None else type_name(facts.dtype) for name, facts in inputs.items()}
        note = f" ({self.reason})" if self.reason else ""
        for name, allowed in self.dtypes.items():
            if name in types and types[name] not in allowed:
                return Reason(
                    f"it takes {name} as {', '.join(allowed)}, not {types[name] or 'unknown'}{note}",
                    types[name] is None,
                )
        if self.combinations and not any(
            all(types.get(name) == want for name, want in one.items()) for one in self.combinations
        ):
            return Reason(f"it does not take {types}{note}", None in types.values())
        for name, values in self.attributes.items():
            value = node.attributes.get(name, schema.attributes.get(name, (False, None))[1])
            if value not in values:
                return Reason(f"it takes {name} {', '.join(map(str, values))}, not {value}{note}")
        for name in self.constant_inputs:
            if name in inputs and inputs[name].known is None:
                return Reason(f"it needs a constant {name}{note}", missing=True)
        for name, facts in inputs.items():
            if self.static and (facts.shape is None or not all(isinstance(dim, int) for dim in facts.shape)):
                return Reason(f"it needs static shapes, and that of {name} is not{note}", missing=True)
            if self.max_rank is not None and (facts.rank is None or facts.rank > self.max_rank):
                return Reason(f"it takes rank {self.max_rank} at most{note}", facts.rank is None)
        return None


@dataclass(frozen=True)
class Target:
    """A runtime's profile: opsets and ir_versions that it loads, operators that it has, limits on them."""

    name: str
    opset: tuple[int, int] = (OLDEST, NEWEST)
    ir_version: tuple[int, int] | None = None
    operators: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    source: str = ""
    """The TOML text that it was read from."""

    def to_toml(self) -> str:
        """Return the profile as it was written."""
        return self.source


_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "opset": list,
    "ir_version": list,
    "operators": list,
    "without": list,
    "limits": list,
}
_LIMIT_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "operator": str,
    "dtypes": dict,
    "combinations": list,
    "attributes": dict,
    "constant_inputs": list,
    "static": bool,
    "max_rank": int,
    "reason": str,
}


class ProfileError(ValueError):
    """A profile that cannot be read; the text says where and what was meant."""


def _check_keys(table: Mapping[str, Any], keys: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    import difflib

    for key, value in table.items():
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            raise ProfileError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        if not isinstance(value, keys[key]):
            raise ProfileError(f"{where}: {key} has the wrong type, {type(value).__name__}")


def _range(table: Mapping[str, Any], key: str, where: str) -> tuple[int, int] | None:
    value = table.get(key)
    if value is None:
        return None
    if len(value) != 2 or not all(isinstance(item, int) for item in value) or value[0] > value[1]:
        raise ProfileError(f"{where}: {key} is a pair [lowest, highest], not {value}")
    return value[0], value[1]


def _known_operator(name: str, where: str) -> str:
    if schema_at("", name, NEWEST) is None and not any(schema_at("", name, opset) for opset in range(OLDEST, NEWEST)):
        import difflib

        import onnx

        near = difflib.get_close_matches(name, {item.name for item in onnx.defs.get_all_schemas()}, 1)
        raise ProfileError(f"{where}: no operator is called {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return name


def parse_target(text: str, where: str) -> Target:
    """Read a profile from TOML text; `where` is named in errors."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{where}: not valid TOML: {error}") from error
    _check_keys(table, _KEYS, where)
    if "name" not in table:
        raise ProfileError(f"{where}: a profile needs a name")
    limits = []
    for number, item in enumerate(table.get("limits", []), 1):
        here = f"{where}, limit {number}"
        _check_keys(item, _LIMIT_KEYS, here)
        if "operator" not in item:
            raise ProfileError(f"{here}: needs an operator")
        _known_operator(item["operator"], here)
        limits.append(
            Limit(
                operator=item["operator"],
                dtypes={name: tuple(types) for name, types in item.get("dtypes", {}).items()},
                combinations=tuple(item.get("combinations", ())),
                attributes={name: tuple(values) for name, values in item.get("attributes", {}).items()},
                constant_inputs=tuple(item.get("constant_inputs", ())),
                static=item.get("static", False),
                max_rank=item.get("max_rank"),
                reason=item.get("reason", ""),
            )
        )
    operators = table.get("operators")
    opset = _range(table, "opset", where) or (OLDEST, NEWEST)
    if opset[0] > NEWEST or opset[1] < OLDEST:
        raise ProfileError(f"{where}: opsets {opset[0]} to {opset[1]} are outside of {OLDEST} to {NEWEST}")
    return Target(
        name=table["name"],
        opset=(max(opset[0], OLDEST), min(opset[1], NEWEST)),
        ir_version=_range(table, "ir_version", where),
        operators=None if operators is None else frozenset(_known_operator(name, where) for name in operators),
        without=frozenset(_known_operator(name, where) for name in table.get("without", [])),
        limits=tuple(limits),
        source=text,
    )


@functools.cache
def builtin_targets() -> tuple[str, ...]:
    """Return the names of the profiles that come with opshift."""
    folder = importlib.resources.files("opshift.opsets").joinpath("targets")
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")))


def load_target(name: str) -> Target:
    """Return a built-in profile by its name, or read one from a TOML file.

    Raises `ProfileError` where neither exists or the file is wrong.
    """
    if name in builtin_targets():
        file = importlib.resources.files("opshift.opsets").joinpath("targets", f"{name}.toml")
        return parse_target(file.read_text(encoding="utf-8"), f"built-in profile {name}")
    path = Path(name)
    try:
        return parse_target(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(
            f"{name} is neither a built-in profile ({', '.join(builtin_targets())}) nor a readable file ({error})"
        ) from error


@dataclass(frozen=True)
class Legality:
    """Which nodes may stand in the result: those of one opset, less some operators, as a runtime takes them.

    `decompose` holds operators of the default domain that are to go. With `runnable`, a node must have a kernel in the
    installed onnxruntime too.
    """

    opset: int
    decompose: frozenset[str] = frozenset()
    target: Target | None = None
    runnable: bool = False

    def why_not(self, node: Node) -> Reason | None:
        """Say why this node is not legal; a reason with `missing` means that a fact is missing to tell. None: legal."""
        if node.domain == SPELLING:
            return Reason("no runtime has the domain opshift")
        if node.domain:
            return None
        schema = schema_at("", node.name, self.opset)
        if schema is None:
            return Reason(f"opset {self.opset} has no {node.name}")
        if schema.since_version != node.since_version:
            return Reason(f"opset {self.opset} has {node.name}-{schema.since_version}")
        if node.name in self.decompose:
            return Reason(f"{node.name} is to be decomposed")
        for index, facts in enumerate(node.inputs):
            parameter = schema.input(index)
            if facts is None or facts.dtype is None:
                continue
            if parameter is None:
                return Reason(f"{node.name}-{schema.since_version} has no input {index}")
            if f"tensor({type_name(facts.dtype)})" not in parameter.types:
                return Reason(
                    f"{node.name}-{schema.since_version} takes no {type_name(facts.dtype)} as {parameter.name}"
                )
        if not schema.raw.min_input <= len(node.inputs) <= schema.raw.max_input:
            return Reason(f"{node.name}-{schema.since_version} takes no {len(node.inputs)} inputs")
        if any(node.used[schema.raw.max_output :]):
            return Reason(f"{node.name}-{schema.since_version} has no output {schema.raw.max_output}")
        unknown = next((name for name in node.attributes if name not in schema.attributes), None)
        if unknown:
            return Reason(f"{node.name}-{schema.since_version} has no attribute {unknown}")
        if self.target and (reason := _outside(self.target, node, schema)):
            return reason
        if self.runnable and not has_kernel(node, schema, self.opset):
            types = [type_name(facts.dtype) for facts in node.inputs if facts is not None and facts.dtype]
            return Reason(f"onnxruntime has no kernel for {node.name}-{schema.since_version} of {', '.join(types)}")
        return None


def _outside(target: Target, node: Node, schema: Schema) -> Reason | None:
    # A list of operators that a runtime computes rarely names Constant, which is how a model holds data.
    listed = target.operators is None or node.name in target.operators or node.name == "Constant"
    if node.name in target.without or not listed:
        return Reason(f"{target.name} does not have {node.name}")
    for limit in target.limits:
        if limit.operator == node.name and (reason := limit.why_not(node, schema)):
            return Reason(f"{target.name} has {node.name}, but {reason}", reason.missing)
    return None
