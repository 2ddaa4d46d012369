"""Read the operators that a version of onnxruntime registers, from `opsets/data/dialect.json`.

`benchmarks/dialect.py` writes the file. These operators stay at version 1 although they change: a node is compared with
the schemas of that version of onnxruntime, and refused if it has an additional attribute or input.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import onnx
import onnx.defs

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

_GENERATION = "it runs a whole generation around a decoder"
_MACHINE = "it holds what was laid out, or compiled, for one machine"
_FINAL: Mapping[str, str] = {
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _GENERATION),
    **dict.fromkeys(("EPContext", "Snpe", "MatMulPacked", "NhwcFusedConv"), _MACHINE),
}
"""The operators of com.microsoft that are never replaced, and the reasons."""

_FINAL_DOMAINS = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})
"""The domains whose operators are never replaced: their weights have the layout of one machine."""

_OPTIONS = {
    "optional": onnx.defs.OpSchema.FormalParameterOption.Optional,
    "variadic": onnx.defs.OpSchema.FormalParameterOption.Variadic,
}


STRAY = frozenset({"SkipSimplifiedLayerNormalization"})
"""The operators of com.microsoft that models also have, unregistered by onnxruntime, in the default domain."""


@functools.cache
def _table() -> Mapping[str, Any]:
    file = importlib.resources.files("opshift.opsets").joinpath("data", "dialect.json")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def version() -> str:
    """Return the version of onnxruntime that registers these operators."""
    return str(_table()["onnxruntime"])


def operators(domain: str) -> Collection[str]:
    """Return the operators of a domain; for the default domain, those that ONNX does not define."""
    found: Mapping[str, Any] = _table()["domains"].get(domain, {})
    return found.keys() if domain else found.keys() | STRAY


def has_kernel(domain: str, name: str) -> bool:
    """Return whether that version of onnxruntime has a CPU kernel for an operator."""
    return bool(_table()["domains"].get(domain, {}).get(name, {}).get("kernel"))


def why_never(domain: str, name: str) -> str:
    """Return the reason why an operator is never replaced; empty if it may be."""
    if domain in _FINAL_DOMAINS:
        return _MACHINE
    return _FINAL.get(name, "") if domain == MICROSOFT else ""


@functools.cache
def raw_schema(domain: str, name: str) -> onnx.defs.OpSchema | None:
    """Return the schema of an operator at version 1, without inference; None if onnxruntime registers none."""
    found = _table()["domains"].get(MICROSOFT if not domain and name in STRAY else domain, {}).get(name)
    if found is None:
        return None
    return onnx.defs.OpSchema(
        name,
        domain,
        1,
        doc=f"{name} of onnxruntime {version()}.",
        inputs=[_parameter(one) for one in found["inputs"]],
        outputs=[_parameter(one) for one in found["outputs"]],
        type_constraints=[(variable, types, "") for variable, types in found["types"].items()],
        attributes=[_attribute(name, one) for name, one in found["attributes"].items()],
    )


def _parameter(one: Sequence[str]) -> onnx.defs.OpSchema.FormalParameter:
    name, type_name, *marks = one
    option = next((_OPTIONS[mark] for mark in marks if mark in _OPTIONS), None)
    return onnx.defs.OpSchema.FormalParameter(
        name,
        type_name,
        param_option=option or onnx.defs.OpSchema.FormalParameterOption.Single,
        is_homogeneous="heterogeneous" not in marks,
    )


def _attribute(name: str, one: Sequence[Any]) -> onnx.defs.OpSchema.Attribute:
    type_name = getattr(onnx.defs.OpSchema.AttrType, one[0])
    if one[1:2] == ["default"]:
        default = onnx.helper.make_attribute(name, one[2], attr_type=int(type_name.value))
        return onnx.defs.OpSchema.Attribute(name, default)
    return onnx.defs.OpSchema.Attribute(name, type_name, required=one[1:] == ["required"])
